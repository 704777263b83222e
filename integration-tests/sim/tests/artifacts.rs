//! Worlds in which tasks leave artifacts and read those of others.

use integration_tests_sim::run::{HistoryOutput, SeedSettings, run_seed};
use integration_tests_sim::swarm::ArtifactWorlds;

fn settings(record: HistoryOutput) -> SeedSettings {
    SeedSettings {
        record,
        artifacts: ArtifactWorlds::Always,
        ..SeedSettings::default()
    }
}

#[test]
fn one_seed_gives_one_history() {
    let settings = settings(HistoryOutput::Hash);
    let hash = |seed| run_seed(seed, &settings, &mut |_| ()).hash;
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4));
}

#[test]
fn some_seeds_keep_every_law_and_move_artifacts() {
    let settings = settings(HistoryOutput::Trace);
    let mut lines = Vec::new();
    for seed in SEEDS {
        let outcome = run_seed(seed, &settings, &mut |line| lines.push(line.to_owned()));
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
    for (event, least) in [
        ("OutputsWritten", 5),
        ("Needed", 5),
        ("Staged", 5),
        ("NotStarted", 1),
        ("Deleted", 5),
    ] {
        let count = lines.iter().filter(|line| line.contains(event)).count();
        assert!(count >= least, "{event} happened {count} times");
    }
}

/// Seeds with all kinds of faults of stores.
const SEEDS: [u64; 6] = [2, 3, 4, 5, 7, 9];
