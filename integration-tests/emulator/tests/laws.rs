//! Laws of the worker's policies in all scenarios, which state the goals that the figures of merit measure.

use std::path::Path;

use brasserie_emulator::matrix::Variant;
use brasserie_emulator::outcome::{ContactKind, ContactResult, Outcome};
use brasserie_emulator::output;
use brasserie_emulator::promises;
use brasserie_emulator::run::run;
use brasserie_emulator::scenario::{Deadlines, Dispatch, Overrides, Scenario, ServerCheck};
use brasserie_worker_fetch::{Preemption, Profile};

fn read(name: &str, overrides: &Overrides) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let read = Scenario::read(&folder.join(name), overrides);
    read.unwrap_or_else(|told| panic!("{told}"))
}

/// Reads a scenario with this duration in hours.
fn hours(name: &str, hours: f64) -> Scenario {
    let overrides = Overrides {
        duration: Some(hours * 3600.0),
        ..Overrides::default()
    };
    read(name, &overrides)
}

fn play(scenario: &Scenario) -> Outcome {
    run(scenario, &mut |_| ())
}

fn missed(outcome: &Outcome) -> u64 {
    outcome.schedulers.iter().map(|it| it.missed).sum()
}

#[test]
fn one_seed_gives_the_same_bytes_and_another_others() {
    let scenario = hours("sim-2007.toml", 6.0);
    let bytes = |scenario: &Scenario| {
        let folder = tempfile::tempdir().unwrap();
        output::write(folder.path(), &play(scenario)).unwrap();
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read(&path).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    let once = bytes(&scenario);
    assert_eq!(once.len(), 5);
    assert!(once == bytes(&scenario), "the same seed has other results");
    let other = Scenario {
        seed: scenario.seed + 1,
        ..scenario
    };
    assert!(once != bytes(&other), "the seed changes nothing");
}

/// Two always busy schedulers with shares of one to three, over three half-lives, on a machine whose buffer holds several tasks.
#[test]
fn shares_are_kept_where_all_are_busy() {
    let overrides = Overrides {
        duration: Some(3.0 * 86_400.0 * 2.0),
        rec_half_life: Some(2.0 * 86_400.0),
        ..Overrides::default()
    };
    let outcome = play(&read("volunteers.toml", &overrides));
    for scheduler in &outcome.schedulers {
        let due = scheduler.share / 100.0;
        assert!((scheduler.got - due).abs() <= 0.05 * due, "{scheduler:?}");
    }
    assert!(outcome.figures.idle < 0.01, "{:?}", outcome.figures);
    assert_eq!(missed(&outcome), 0);
}

/// The same law on a cluster's worker that stops tasks for others.
#[test]
fn shares_are_kept_by_a_cluster_that_suspends() {
    let mut scenario = hours("steady.toml", 3.0);
    scenario.policy.preemption = Preemption::Suspend;
    let outcome = play(&scenario);
    for scheduler in &outcome.schedulers {
        let due = scheduler.share / 100.0;
        assert!((scheduler.got - due).abs() <= 0.05 * due, "{scheduler:?}");
    }
}

/// Returns the variants with promises: those with requests and deadlines, with any lingering and preemption.
fn promised() -> impl Iterator<Item = Variant> {
    let all = Variant::all().into_iter();
    all.filter(|it| it.dispatch == Dispatch::Pull && it.deadlines == Deadlines::EarliestFirst)
}

fn keeps_its_promises(name: &str, played: f64) {
    let scenario = hours(name, played);
    let mut variants = 0;
    for variant in promised() {
        let scenario = variant.of(&scenario);
        assert!(promises::are_for(&scenario.policy));
        let outcome = play(&scenario);
        let broken = promises::broken(&scenario, &outcome);
        assert!(broken.is_empty(), "{variant}: {broken:?}");
        variants += 1;
    }
    assert_eq!(variants, 3);
}

/// The simulated hours of each scenario, long enough to show what it is about.
const PLAYED: [(&str, f64); 22] = [
    ("steady.toml", 0.5),
    ("one-scheduler.toml", 1.0),
    ("tight-deadlines.toml", 2.0),
    ("loose-deadlines.toml", 6.0),
    ("several-types.toml", 3.0),
    ("short-and-huge.toml", 0.5),
    ("unreliable-schedulers.toml", 2.0),
    ("unreliable-worker.toml", 240.0),
    ("volunteers.toml", 24.0),
    ("wrong-estimates.toml", 1.0),
    ("zero-shares.toml", 0.5),
    ("sim-2007.toml", 12.0),
    ("come-and-go.toml", 6.0),
    ("half-a-day.toml", 48.0),
    ("hundreds-of-schedulers.toml", 0.1),
    ("low-estimates.toml", 4.0),
    ("many-projects.toml", 24.0),
    ("many-schedulers.toml", 0.25),
    ("nothing-at-first.toml", 144.0),
    ("parts-of-cards.toml", 3.0),
    ("save-sample.toml", 24.0),
    ("tight-and-long.toml", 4.0),
];

#[test]
fn with_deadlines_that_can_be_met_nothing_is_wasted_and_nobody_is_idle_without_need() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    let mut played = PLAYED.map(|(name, _)| name);
    names.sort();
    played.sort_unstable();
    assert_eq!(names, played, "all are held to what is promised");
    std::thread::scope(|scope| {
        for (name, hours) in PLAYED {
            scope.spawn(move || keeps_its_promises(name, hours));
        }
    });
}

#[test]
fn deadlines_that_can_be_met_are() {
    let mut scenario = hours("tight-deadlines.toml", 2.0);
    scenario.policy.preemption = Preemption::Suspend;
    // This is the check of Brasserie's scheduler.
    scenario.policy.server_check = ServerCheck::Workload;
    let outcome = play(&scenario);
    assert_eq!((outcome.figures.wasted, missed(&outcome)), (0.0, 0));
    assert!(outcome.schedulers[0].met > 10, "{:?}", outcome.schedulers);
    // No deadline is missed if there is ample time, with or without attention to deadlines.
    for deadlines in [Deadlines::EarliestFirst, Deadlines::Ignored] {
        let mut scenario = hours("loose-deadlines.toml", 6.0);
        scenario.policy.deadlines = deadlines;
        assert_eq!(play(&scenario).figures.wasted, 0.0);
    }
}

/// Started tasks run to their end, so some tasks may still be late behind them; in turn more are.
#[test]
fn fewer_are_late_by_their_deadlines_than_in_turn() {
    let mut scenario = hours("tight-deadlines.toml", 4.0);
    scenario.policy.server_check = ServerCheck::Workload;
    let by_deadline = play(&scenario);
    scenario.policy.deadlines = Deadlines::Ignored;
    let in_turn = play(&scenario);
    assert!(missed(&by_deadline) < missed(&in_turn));
    assert!(
        by_deadline.figures.wasted <= 0.01,
        "{:?}",
        by_deadline.figures
    );
    let [by_deadline, in_turn] = [Deadlines::EarliestFirst, Deadlines::Ignored].map(|deadlines| {
        let mut scenario = hours("sim-2007.toml", 12.0);
        scenario.policy.deadlines = deadlines;
        play(&scenario)
    });
    assert!(missed(&by_deadline) < missed(&in_turn));
}

/// Checks waits against the table of the backoff, computed independently. After n failures in a row, no request comes before the minimum of
/// the n-th wait. After an answer, none comes before the delay that it asked for.
fn check_waits(outcome: &Outcome, profile: &Profile) -> usize {
    let mut checked = 0;
    for place in 0..outcome.schedulers.len() {
        let of_it = outcome.contacts.iter();
        let requests: Vec<_> = of_it
            .filter(|it| it.scheduler == place && it.kind == ContactKind::Request)
            .collect();
        let mut failures = 0;
        for two in requests.windows(2) {
            let least = match two[0].result {
                ContactResult::Failed => {
                    failures += 1;
                    let doubled = profile.rpc_backoff_min * f64::from(1_u32 << failures.min(10));
                    doubled.min(profile.rpc_backoff_max) / 2.0
                }
                ContactResult::Deferred | ContactResult::Answered(_) => {
                    failures = 0;
                    two[0].request_delay
                }
            };
            let waited = two[1].at - two[0].at;
            assert!(
                waited >= least - 1e-6,
                "{place}: {waited} of {least}, {failures}"
            );
            checked += usize::from(least > 0.0);
        }
    }
    checked
}

/// A scheduler without tasks at the first request is asked again, although others keep the buffer full.
#[test]
fn a_scheduler_without_tasks_at_first_gets_its_share_later() {
    let outcome = play(&hours("nothing-at-first.toml", 20.0 * 24.0));
    let late = &outcome.schedulers[0];
    assert!((late.got - 0.5).abs() < 0.05, "{late:?}");
}

#[test]
fn completions_are_reported_together_although_their_deadlines_are_near() {
    let figures = play(&hours("half-a-day.toml", 72.0)).figures;
    assert!(figures.rpcs_per_job < 0.18, "{figures:?}");
    assert_eq!(figures.wasted, 0.0);
}

#[test]
fn each_of_many_schedulers_has_its_turn() {
    for (name, played) in [("many-schedulers.toml", 1.0), ("many-projects.toml", 120.0)] {
        let figures = play(&hours(name, played)).figures;
        assert!(figures.share_violation < 0.3, "{name}: {figures:?}");
    }
}

/// A task with a near deadline must be sent when a processor is free, because there is no preemption.
#[test]
fn near_deadlines_cost_no_shares_without_preemption() {
    let outcome = play(&hours("tight-and-long.toml", 12.0));
    let urgent = &outcome.schedulers[0];
    assert!(urgent.got > 0.4, "{urgent:?}");
    assert_eq!(missed(&outcome), 0);
}

#[test]
fn nobody_is_asked_before_its_time() {
    for (name, played) in [("sim-2007.toml", 24.0), ("unreliable-schedulers.toml", 3.0)] {
        let scenario = hours(name, played);
        let outcome = play(&scenario);
        let checked = check_waits(&outcome, &scenario.profile);
        assert!(checked > 20, "{name}: {checked}");
    }
    let mut scenario = hours("steady.toml", 1.0);
    scenario.schedulers[0].request_delay = 90.0;
    let outcome = play(&scenario);
    assert!(check_waits(&outcome, &scenario.profile) > 10);
}

#[test]
fn lingering_brings_tasks_as_soon_as_pushing_does() {
    let scenario = hours("one-scheduler.toml", 2.0);
    let [now, later, pushed] = [
        (Dispatch::Pull, 120.0),
        (Dispatch::Pull, 0.0),
        (Dispatch::Push, 0.0),
    ]
    .map(|(dispatch, linger)| {
        let variant = Variant {
            dispatch,
            linger,
            ..Variant::USUAL
        };
        play(&variant.of(&scenario)).figures
    });
    assert!(now.idle < later.idle);
    assert!((now.idle - pushed.idle).abs() < 1e-3, "{now:?}\n{pushed:?}");
}

#[test]
fn whoever_asks_keeps_busy_what_slots_leave_idle() {
    // While a scheduler is away, no other one can use its slots.
    let scenario = hours("unreliable-schedulers.toml", 2.0);
    let pull = play(&Variant::USUAL.of(&scenario)).figures;
    let push = Variant {
        dispatch: Dispatch::Push,
        ..Variant::USUAL
    };
    let push = play(&push.of(&scenario)).figures;
    assert!(pull.idle + 0.1 < push.idle, "{pull:?}\n{push:?}");
}

#[test]
fn who_has_no_share_gets_what_others_leave() {
    let outcome = play(&hours("zero-shares.toml", 2.0));
    let first = &outcome.schedulers[0];
    // The scheduler has a task of a minute every half a minute: half of four CPUs.
    assert!((0.4..0.6).contains(&first.got), "{first:?}");
    assert!(outcome.schedulers[1].jobs > 0);
}
