//! Whole runs: the same seed gives the same history, and a handful of seeds keeps every law.

use integration_tests_sim::run::{Judges, Record, Settings, run_seed};

#[test]
fn one_seed_gives_one_history() {
    let settings = Settings {
        judges: Judges::None,
        record: Record::Hash,
    };
    let hash = |seed| run_seed(seed, &settings, &mut |_| ()).hash;
    for seed in 1..4 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(1), hash(2));
}

#[test]
fn some_seeds_keep_every_law() {
    for seed in 1..20 {
        let outcome = run_seed(seed, &Settings::default(), &mut |_| ());
        assert!(outcome.core_events > 100, "seed {seed} did nothing");
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}
