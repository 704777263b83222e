//! Seeds that once broke a law, each with the bug it found. A change of the world gives a seed another history. Then put the bug back,
//! search for a seed that finds it, and replace the old seed.

use integration_tests_sim::laws::Laws;
use integration_tests_sim::run::{SeedSettings, run_seed, run_swarm};
use integration_tests_sim::swarm::{ArtifactWorlds, Fetchers, Swarm};

/// Each seed and the bug it found.
const FOUND: [(u64, &str); 19] = [
    (
        51,
        "a burst of held healthchecks, the oldest of which is the one that counts",
    ),
    (
        105,
        "a list of running tasks that comes after its worker was let go is not adopted",
    ),
    (
        3,
        "the first of two that come with one instance id to a scheduler that knows neither is believed",
    ),
    (
        580,
        "a healthcheck that cannot be started keeps a newcomer for a healthcheck period",
    ),
    (
        1784,
        "the worker's loss clock began with the heartbeat that was answered, after the scheduler's",
    ),
    (
        72,
        "calls were held behind the instance's own record without bound, and left all at once",
    ),
    (
        11_092,
        "a newcomer waits for a silent worker if nobody else lasts",
    ),
    (
        655,
        "a worker that is let go in the turn before its list arrives runs nothing that counts",
    ),
    (
        211_575,
        "nor does one that is let go in the same turn, after its list",
    ),
    (238_193, "the same, where the next run takes a lock"),
    (
        219_873,
        "no scheduler whose turns are as long as its timeouts can ever settle",
    ),
    (
        224_978,
        "one sync after a stalled disk covers that a worker came and that it left; the answer in between is late",
    ),
    (
        234_826,
        "nothing has settled while messages of the past are under way: one made a worker end, another took its shard",
    ),
    (
        553_198,
        "a worker that hears no answer holds itself HEALTHY by an earlier scheduler's word, and outlived its tasks' safety wait",
    ),
    (
        508_923,
        "a later heartbeat names another scheduler: the first to arrive was not the first one",
    ),
    (
        505_848,
        "an answer to a heartbeat that was given up is none, so no timers of that scheduler are in force",
    ),
    (
        527_724,
        "a worker that was told to leave is ending its tasks, whatever it thinks of its health",
    ),
    (
        527_753,
        "a worker may be lost in the turn in which its status came",
    ),
    (
        572_807,
        "a hundred refused healthchecks later the result of an old one still counts",
    ),
];

#[test]
fn seeds_that_found_something_keep_every_law() {
    for (seed, what) in FOUND {
        // The seeds were found in these worlds.
        let swarm = Swarm::whose_orphans_stay(seed);
        let settings = SeedSettings::default();
        let outcome = run_swarm((seed, swarm), &settings, Laws::all(), &mut |_| ());
        assert_eq!(outcome.violations, [], "seed {seed}: {what}");
    }
}

/// Seeds that were found since, in the present worlds.
const FOUND_SINCE: [(u64, Fetchers, &str); 2] = [
    (
        70012,
        Fetchers::Never,
        "answers to heartbeats that waited for the disk leave after later ones that did not, and say less",
    ),
    (
        5_940_975,
        Fetchers::Mixed,
        "a task was sent while the answer that told its worker HEALTHY still waited for the disk",
    ),
];

#[test]
fn seeds_of_today_that_found_something_keep_every_law() {
    for (seed, fetchers, what) in FOUND_SINCE {
        let settings = SeedSettings::default();
        let outcome = run_swarm(
            (seed, Swarm::of(seed, fetchers)),
            &settings,
            Laws::all(),
            &mut |_| (),
        );
        assert_eq!(outcome.violations, [], "seed {seed}: {what}");
    }
}

/// Seeds whose tasks have artifacts.
const FOUND_WITH_ARTIFACTS: [(u64, &str); 3] = [
    (
        90,
        "a run without outputs, whose job is gone, kept its worker from deleting anything",
    ),
    (
        108,
        "a report that came after its worker's goodbye left a disk that nobody lists, so nothing was deleted or lost any more",
    ),
    (195, "the same, with another worker"),
];

#[test]
fn seeds_with_artifacts_that_found_something_keep_every_law() {
    let settings = SeedSettings {
        artifacts: ArtifactWorlds::Always,
        ..SeedSettings::default()
    };
    for (seed, what) in FOUND_WITH_ARTIFACTS {
        let outcome = run_seed(seed, &settings, &mut |_| ());
        assert_eq!(outcome.violations, [], "seed {seed}: {what}");
    }
}
