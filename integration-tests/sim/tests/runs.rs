//! Whole runs: the same seed gives the same history, and a few seeds keep every law.

use integration_tests_sim::run::{HistoryOutput, Judges, SeedSettings, run_seed};
use integration_tests_sim::swarm::{ArtifactWorlds, Fetchers};

fn hashing(fetchers: Fetchers) -> SeedSettings {
    SeedSettings {
        judges: Judges::None,
        record: HistoryOutput::Hash,
        fetchers,
        artifacts: ArtifactWorlds::Never,
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
    let settings = SeedSettings::default();
    for seed in 1..20 {
        let outcome = run_seed(seed, &settings, &mut |_| ());
        assert!(outcome.core_events > 100, "seed {seed} did nothing");
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}

/// A seed, the hash of its history without work fetch, and the number of inputs of its cores, as they were before work requests existed.
const WITHOUT_WORK_FETCH: [(u64, u64, u64); 10] = [
    (1, 0xbf76_00c3_7317_1f89, 1727),
    (4, 0xd743_10f8_88d3_bd70, 3060),
    (6, 0x11fa_1481_b1fc_67fd, 2939),
    (8, 0xa215_8ec0_47d6_bb1e, 7939),
    (12, 0xdd40_bccf_18d8_9806, 4597),
    (13, 0x408c_a0cd_3c46_1360, 8567),
    (14, 0xbe1f_de20_99c3_b85e, 4393),
    (137, 0xe0bf_4a79_9f9b_aca6, 1428),
    (203, 0x37b9_eb59_7b7d_f95d, 1561),
    (250, 0x9ff8_c452_a20d_3396, 2090),
];

/// Checks that without work requests, no message has changed since before they existed. A deliberate change of such a protocol, or
/// of the worlds, updates the hashes here.
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
