//! Each known bug is caught by a law that may catch it, and soon; without it the same world keeps every law.

#![cfg(feature = "sabotage")]

use integration_tests_sim::invariants::Laws;
use integration_tests_sim::liveness::{NO_STORM, SETTLES};
use integration_tests_sim::run::Settings;
use integration_tests_sim::sabotage::FOCI;

/// The seeds of the table are known to do; a change elsewhere moves the histories, so each bug has some more.
const SEEDS: u64 = 60;

#[test]
fn each_bug_is_caught() {
    let mut missed = Vec::new();
    for focus in &FOCI {
        let name = focus.bug.name();
        match focus.hunt(focus.first_seed..focus.first_seed + SEEDS) {
            Some(found) if focus.laws.contains(&found.broken.violation.law) => println!(
                "{name:<36} {:<28} after {} seeds: {}",
                found.broken.violation.law, found.seeds, found.seed
            ),
            Some(found) => missed.push(format!("{name}: {}", found.broken.violation)),
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn without_the_bug_its_world_keeps_the_laws() {
    for focus in &FOCI {
        let seed = focus.first_seed;
        let outcome = focus.play((seed, None), &Settings::default(), &mut |_| ());
        assert_eq!(outcome.violations, [], "{}: seed {seed}", focus.bug.name());
    }
}

#[test]
fn each_focus_names_laws_and_its_own_bug() {
    let laws = Laws::all();
    let names: Vec<&str> = laws.statements().map(|(name, _)| name).collect();
    for (focus, bug) in FOCI.iter().zip(brasserie_common::sabotage::Sabotage::ALL) {
        assert_eq!(focus.bug, bug);
        for law in focus.laws {
            assert!(
                names.contains(law) || [SETTLES, NO_STORM].contains(law),
                "{law}"
            );
        }
    }
}
