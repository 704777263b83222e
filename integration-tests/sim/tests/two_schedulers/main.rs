//! One worker of two schedulers: the real cores in virtual time, with ordered messages and no loss.

mod pair;

use std::time::Duration;

use brasserie_common::Health;
use brasserie_worker_core::{AssociationIndex, Profile};

use pair::{CPUS, HALF_LIFE, Pair, Process, large_buffer, profile, secs};

/// Returns the part of the second scheduler.
fn part(used: &[f64]) -> f64 {
    used[1] / used.iter().sum::<f64>()
}

/// Returns two schedulers with tasks of this many seconds, more than there is time for.
fn one_to_three(secs_each: u64) -> Pair {
    let keys = format!(r#", "bufferable": true, "est_duration": {secs_each}"#);
    let tasks = (secs(secs_each), keys.as_str());
    let mut pair = Pair::new(&[100.0, 300.0], profile(), tasks, 2500);
    // The worker is known and full by then.
    pair.play(secs(60));
    pair
}

#[test]
fn two_schedulers_get_their_shares_of_a_worker() {
    let mut pair = one_to_three(10);
    let lasts = HALF_LIFE * 3;
    let used = pair.used_in(lasts);
    let part = part(&used);
    assert!((part - 0.75).abs() <= 0.05 * 0.75, "{used:?}: {part}");
    let all = lasts.as_secs_f64() * CPUS as f64;
    let sum: f64 = used.iter().sum();
    assert!(sum >= 0.97 * all && sum <= all + 1.0, "{sum} of {all}");
    assert!(
        pair.left_to_do(0) > 0 && pair.left_to_do(1) > 0,
        "no contest"
    );
}

/// The second scheduler's tasks run three times as often as the first's, so its queue runs dry first. If its queue were filled only when
/// all queues run dry, the first would get nearly everything meanwhile.
#[test]
fn shares_hold_in_each_ten_seconds_too() {
    const TASK: Duration = Duration::from_millis(500);
    let short_memory = Profile {
        rec_half_life: 20.0,
        ..Profile::CLUSTER
    };
    let tasks = (TASK, r#", "bufferable": true, "est_duration": 0.5"#);
    let mut pair = Pair::new(&[100.0, 300.0], short_memory, tasks, 2500);
    pair.play(secs(30));
    let parts: Vec<f64> = (0..18).map(|_| part(&pair.used_in(secs(10)))).collect();
    assert!(
        parts.iter().all(|part| (part - 0.75).abs() <= 0.1),
        "{parts:.2?}"
    );
    assert!(
        pair.left_to_do(0) > 0 && pair.left_to_do(1) > 0,
        "no contest"
    );
}

#[test]
fn who_loses_one_scheduler_works_for_the_other_and_pays_the_debt_back() {
    let mut pair = one_to_three(60);
    pair.play(HALF_LIFE);
    let usual = part(&pair.used_in(HALF_LIFE));
    assert!(usual > 0.6, "{usual}: who has the larger share gets more");
    // One of its tasks has only just begun.
    let is_young = |pair: &Pair, process: &Process| pair.now.since(process.since) < secs(5);
    while !(pair.processes.values()).any(|process| process.which == 1 && is_young(&pair, process)) {
        pair.play(secs(1));
    }
    pair.stop(1);
    // The association has ended itself and its tasks by then.
    pair.play(secs(40));
    assert_eq!(pair.killed[0], 0, "the other's tasks go on");
    assert!(pair.killed[1] > 0, "those of the dead one end");
    assert!(pair.processes.values().all(|process| process.which == 0));
    let other = pair.worker.association(AssociationIndex(0));
    assert_eq!(other.health(), Health::Healthy);
    let away = secs(240);
    let used = pair.used_in(away);
    assert_eq!(used[1], 0.0);
    let all = away.as_secs_f64() * CPUS as f64;
    assert!(
        used[0] >= 0.97 * all,
        "{used:?}: the worker is not kept full"
    );
    pair.start(1);
    // The scheduler waits until no process of its former instance can run, and running tasks of the other end.
    pair.play(secs(150));
    // Only the time since then counts, not the time in which the other was alone.
    let used = pair.used_in(secs(120));
    assert!(
        part(&used) > usual + 0.05,
        "{used:?}: the debt is not paid back"
    );
    assert_eq!(pair.killed[0], 0);
}

/// The run time of tasks is unknown before the first completion, and much longer than any guess.
#[test]
fn what_nobody_can_estimate_runs_once_each() {
    let (each, tasks) = (secs(400), 160);
    let mut pair = Pair::new(
        &[100.0],
        large_buffer(),
        (each, r#", "bufferable": true"#),
        tasks,
    );
    let all = each.as_secs_f64() * tasks as f64;
    pair.play(Duration::from_secs_f64(all / CPUS as f64) + secs(3000));
    assert_eq!(pair.left_to_do(0), 0);
    assert!(
        (pair.used[0] - all).abs() < 1.0,
        "each ran once: {:?}",
        pair.used
    );
}

/// One message goes to the scheduler and one returns between a completion and the next start, 2 ms each.
#[test]
fn tasks_that_may_not_wait_follow_each_other_with_no_request_between() {
    const TASK: Duration = Duration::from_millis(20);
    let lasts = secs(10);
    let mut pair = Pair::new(&[100.0], profile(), (TASK, ""), 5000);
    pair.play(secs(10));
    let used = pair.used_in(lasts)[0] / (lasts.as_secs_f64() * CPUS as f64);
    assert!(pair.left_to_do(0) > 0, "it had nothing to do");
    assert!(used > 0.8, "{used}");
}
