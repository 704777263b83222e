//! Whole runs: the same seed gives the same history, and a handful of seeds keeps every law.

use integration_tests_sim::run::{Judges, Record, Settings, run_seed};
use integration_tests_sim::swarm::Fetchers;

fn hashing(fetchers: Fetchers) -> Settings {
    Settings {
        judges: Judges::None,
        record: Record::Hash,
        fetchers,
    }
}

#[test]
fn one_seed_gives_one_history() {
    for fetchers in [Fetchers::Mixed, Fetchers::Always] {
        let settings = hashing(fetchers);
        let hash = |seed| run_seed(seed, &settings, &mut |_| ()).hash;
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}

#[test]
fn some_seeds_keep_every_law() {
    for seed in 1..20 {
        let outcome = run_seed(seed, &Settings::default(), &mut |_| ());
        assert!(outcome.core_events > 100, "seed {seed} did nothing");
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}

/// A seed, the hash of its history without work fetch, and how many inputs its cores take, as they were before any worker could ask for
/// work.
const WITHOUT_WORK_FETCH: [(u64, u64, u64); 10] = [
    (1, 0x2bf7_2f1f_2e9c_b5cd, 1869),
    (4, 0xaa57_e780_5e35_fe15, 3060),
    (6, 0x39d3_450c_8507_070e, 1953),
    (8, 0x0afd_0372_c4e3_8a1a, 6381),
    (12, 0xaf32_aa17_66bd_84f7, 4410),
    (13, 0xce05_425d_ae68_b443, 8591),
    (14, 0x909a_f966_8ff4_67ec, 4695),
    (137, 0x19cc_2003_ab7f_0dd4, 1542),
    (203, 0xf776_1fc2_661a_afbe, 1561),
    (250, 0x0cbe_29d2_b98f_5e01, 1563),
];

/// Where nobody asks for work, each message is what it was before anybody could. Whoever means to change the protocol of such a cluster,
/// or its worlds, writes the new hashes here.
#[test]
fn without_work_fetch_histories_stay_as_they_were() {
    let settings = hashing(Fetchers::Never);
    let now = WITHOUT_WORK_FETCH.map(|(seed, _, _)| {
        let outcome = run_seed(seed, &settings, &mut |_| ());
        let hash = outcome.hash.expect("it was asked for");
        (seed, hash, outcome.core_events)
    });
    assert_eq!(
        now, WITHOUT_WORK_FETCH,
        "histories are others than before: {now:#x?}"
    );
}
