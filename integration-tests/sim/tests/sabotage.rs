//! Each injected bug is soon caught by a law that may catch it. Without the bug the same world keeps every law.

#![cfg(feature = "sabotage")]

use brasserie_common::sabotage::Sabotage;
use integration_tests_sim::laws::Laws;
use integration_tests_sim::liveness::{NO_STORM, SETTLES};
use integration_tests_sim::run::SeedSettings;
use integration_tests_sim::sabotage::{FOCI, Focus};

/// The seeds of the table are known to catch the bugs. A change elsewhere moves the histories, so each bug gets some more seeds.
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

/// The law about a scheduler's beliefs runs when a task leaves, before the law about live processes on a worker. Each must catch alone.
#[test]
fn what_lives_on_a_machine_is_judged_by_itself() {
    for bug in [Sabotage::AdoptWithoutCharges, Sabotage::GiveAwayTheReserve] {
        let focus = Focus::of(bug);
        let laws = || Laws::all().without(&["within_limits".to_owned()]);
        let caught = (focus.first_seed..focus.first_seed + SEEDS).find_map(|seed| {
            let play = (seed, Some(bug));
            let outcome = focus.play_under(laws(), play, &SeedSettings::default(), &mut |_| ());
            outcome.violations.into_iter().next()
        });
        let law = caught.map(|broken| broken.violation.law);
        assert_eq!(law, Some("within_machines"), "{}", bug.name());
    }
}

#[test]
fn without_the_bug_its_world_keeps_the_laws() {
    for focus in &FOCI {
        let seed = focus.first_seed;
        let outcome = focus.play((seed, None), &SeedSettings::default(), &mut |_| ());
        assert_eq!(outcome.violations, [], "{}: seed {seed}", focus.bug.name());
    }
}

#[test]
fn each_focus_names_laws_and_its_own_bug() {
    let laws = Laws::all();
    let names: Vec<&str> = laws.statements().map(|(name, _)| name).collect();
    for (focus, bug) in FOCI.iter().zip(Sabotage::ALL) {
        assert_eq!(focus.bug, bug);
        for law in focus.laws {
            assert!(
                names.contains(law) || [SETTLES, NO_STORM].contains(law),
                "{law}"
            );
        }
    }
}
