//! Tests with many orphans: running tasks are checked in slices after a change of what is wanted, and no wanted task is killed.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{
    CallOutcome, InvocationId, ReportedStatus, Time, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{Call, CallReply, ConfigOrigin, Event};

use crate::support::{Script, listed, one_job, worker};

/// Tasks of each worker: so many that the search for orphans takes several turns.
const TASKS: usize = 2_000;
const WORKERS: usize = 4;
/// The most unanswered kills of a worker.
const MAX_OPEN_KILLS: usize = 16;

fn wanted() -> Arc<Config> {
    one_job(TASKS * WORKERS, r#", "kill_orphan_tasks_after_sec": 20"#)
}

fn unwanted() -> Arc<Config> {
    let job = r#", "kill_orphan_tasks_after_sec": 20, "enabled": false"#;
    one_job(TASKS * WORKERS, job)
}

/// Starts a script in which the workers list every task as running.
fn everything_runs() -> (Script, Vec<WorkerDescription>) {
    let mut s = Script::with_config(wanted());
    let workers = (0..WORKERS).map(|i| {
        let lock = i32::try_from(i).expect("few workers");
        let w = worker(&format!("w{i}"), lock, 10);
        let first = s.heartbeat(&w, WorkerSetId::default());
        let first = first.expect("a free shard");
        let tasks = (i * TASKS..(i + 1) * TASKS).map(|node| {
            let invocation = i64::try_from(node).expect("few nodes");
            let invocation = InvocationId::new(20, invocation);
            listed(w.shard.as_str(), &format!("n{node}"), invocation)
        });
        s.answer_fetch(tasks.collect());
        s.answer_healthcheck(&w);
        s.spread(&w);
        let again = s.heartbeat(&w, first.worker_set);
        again.expect("the same instance");
        w
    });
    let workers = workers.collect();
    assert!(s.starts().is_empty(), "all of them run already");
    (s, workers)
}

/// Applies another configuration with the same nodes, in a turn of its own.
fn apply(s: &mut Script, config: Arc<Config>) {
    s.event(Event::ConfigLoaded {
        config,
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    });
}

/// Returns the number of open kills to each worker.
fn kills(s: &Script, workers: &[WorkerDescription]) -> Vec<usize> {
    let to = |id: WorkerId| {
        let kills = s.calls.iter();
        let kills = kills
            .filter(|(_, _, call)| matches!(call, Call::KillTask { worker, .. } if *worker == id));
        kills.count()
    };
    workers.iter().map(|w| to(w.id)).collect()
}

/// Runs the turns that are due at once, until none is. Returns their number.
fn go_on(s: &mut Script) -> usize {
    let mut turns = 0;
    while s.scheduler.poll_timeout() == Some(Time::ZERO) {
        s.event(Event::Persisted {
            up_to: Default::default(),
        });
        turns += 1;
        assert!(turns < 1_000, "it comes to an end");
    }
    turns
}

fn pass(s: &mut Script, workers: &[WorkerDescription], time: Duration) {
    for _ in 0..time.as_secs() {
        s.advance(Duration::from_secs(1));
        for w in workers {
            s.echo(w);
        }
    }
}

/// Completes the tasks that are to be killed, until no kill is open. Returns the number for each worker.
fn end_all(s: &mut Script, workers: &[WorkerDescription]) -> Vec<usize> {
    let mut ended = vec![0; workers.len()];
    let is_kill = |call: &Call| matches!(call, Call::KillTask { .. });
    while let Some((call, kill)) = s.take_call(is_kill) {
        let Call::KillTask { worker, task, .. } = kill else {
            panic!("a kill");
        };
        let at = workers.iter().position(|w| w.id == worker);
        let at = at.expect("one of them");
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        let status = ReportedStatus::incomplete();
        assert_eq!(s.update(&workers[at], &task, status).1, Ok(()));
        s.echo(&workers[at]);
        ended[at] += 1;
    }
    ended
}

#[test]
fn orphans_are_found_in_slices_and_each_is_asked_in_its_time() {
    let (mut s, workers) = everything_runs();
    apply(&mut s, unwanted());
    let turns = go_on(&mut s);
    assert!(turns >= 8, "{turns} turns");
    pass(&mut s, &workers, Duration::from_secs(19));
    assert_eq!(kills(&s, &workers), [0; WORKERS]);
    pass(&mut s, &workers, Duration::from_secs(1));
    assert_eq!(kills(&s, &workers), [MAX_OPEN_KILLS; WORKERS]);
    assert_eq!(end_all(&mut s, &workers), [TASKS; WORKERS]);
}

#[test]
fn who_is_wanted_again_is_left_alone_before_anybody_has_looked() {
    let (mut s, workers) = everything_runs();
    apply(&mut s, unwanted());
    go_on(&mut s);
    s.now = s.now + Duration::from_secs(19);
    for w in &workers {
        s.echo(w);
    }
    // All tasks are due in the turn that wants them again, and this turn checks only a part of them.
    s.now = s.now + Duration::from_secs(1);
    apply(&mut s, wanted());
    assert_eq!(
        s.scheduler.poll_timeout(),
        Some(Time::ZERO),
        "there are more"
    );
    assert_eq!(kills(&s, &workers), [0; WORKERS]);
    go_on(&mut s);
    pass(&mut s, &workers, Duration::from_secs(60));
    assert_eq!(kills(&s, &workers), [0; WORKERS]);
}

#[test]
fn a_change_before_all_is_seen_begins_anew_and_misses_nobody() {
    let (mut s, workers) = everything_runs();
    apply(&mut s, unwanted());
    // Some were found to be orphans, but not the last ones.
    apply(&mut s, wanted());
    assert_eq!(
        s.scheduler.poll_timeout(),
        Some(Time::ZERO),
        "there are more"
    );
    apply(&mut s, unwanted());
    go_on(&mut s);
    pass(&mut s, &workers, Duration::from_secs(20));
    assert_eq!(kills(&s, &workers), [MAX_OPEN_KILLS; WORKERS]);
    assert_eq!(end_all(&mut s, &workers), [TASKS; WORKERS]);
}

#[test]
fn nodes_that_go_leave_orphans_however_often_they_come() {
    let (mut s, workers) = everything_runs();
    let fewer = || one_job(TASKS, r#", "kill_orphan_tasks_after_sec": 20"#);
    s.load(fewer());
    // The same nodes load again before all tasks are checked: the check continues from where it was, and wraps around.
    for _ in 0..3 {
        s.load_nodes(fewer());
    }
    go_on(&mut s);
    pass(&mut s, &workers, Duration::from_secs(20));
    let all = MAX_OPEN_KILLS;
    assert_eq!(kills(&s, &workers), [0, all, all, all]);
    assert_eq!(end_all(&mut s, &workers), [0, TASKS, TASKS, TASKS]);
}

#[test]
fn a_job_that_does_not_change_is_not_looked_at() {
    let (mut s, _) = everything_runs();
    let before = wanted();
    let mut after = (*before).clone();
    after.jobs[0].priority = 2.0;
    apply(&mut s, Arc::new(after));
    // A turn could not check all of its tasks.
    assert_ne!(s.scheduler.poll_timeout(), Some(Time::ZERO));
}
