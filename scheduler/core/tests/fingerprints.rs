//! Tests that equal futures have equal fingerprints, and that a change of the future changes the fingerprint.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{
    CallOutcome, InvocationId, Principal, RecordSeq, RefusalCode, ReportedStatus, RequestId, Time,
    WallTime, WorkerSetId,
};
use brasserie_scheduler_core::{
    Call, CallReply, ConfigOrigin, Durable, Effect, Event, Options, Reply, StatusUpdate,
};
use proptest::prelude::*;

use support::{EPOCH, SETTLE, Script, listed, one_job, options, worker};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The setting of a history: its time, its draws, and its ids.
#[derive(Clone, Copy)]
struct World {
    start: u64,
    seed: u64,
    id: i64,
}

/// Plays a history: a worker joins, gets a task whose start is unknown, is asked about it, and completes it, while another worker joins.
/// Returns the fingerprint after every step.
fn history(world: World) -> Vec<u64> {
    let options = Options {
        seed: world.seed,
        ..options()
    };
    let mut s = Script::at(options, Durable::default(), Time::ZERO + secs(world.start));
    let mut prints = Vec::new();
    let mut note = |s: &Script| prints.push(s.scheduler.fingerprint(s.now));
    note(&s);
    s.load(one_job(1, ""));
    note(&s);
    let (w, v) = (worker("w", 1, world.id), worker("v", 2, world.id + 9));
    let first = s.heartbeat(&w, WorkerSetId::default()).expect("free");
    note(&s);
    s.answer_fetch(Vec::new());
    note(&s);
    s.answer_healthcheck(&w);
    note(&s);
    s.heartbeat(&w, first.worker_set).expect("the same");
    note(&s);
    s.advance(SETTLE);
    note(&s);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Unknown("late".to_owned()));
    note(&s);
    let notify = s.take_call(|call| matches!(call, Call::NotifyIfTasksNotRunning { .. }));
    s.complete(
        notify.expect("asked").0,
        CallOutcome::Done(CallReply::Empty),
    );
    note(&s);
    s.heartbeat(&v, WorkerSetId::default()).expect("free");
    note(&s);
    s.sync_at_once = false;
    s.update(&w, &task, ReportedStatus::error_backoff("bad luck"))
        .1
        .expect("known");
    note(&s);
    s.sync();
    note(&s);
    s.advance(secs(7));
    note(&s);
    prints
}

#[test]
fn neither_the_time_nor_the_drawn_ids_count() {
    let one = history(World {
        start: 1000,
        seed: 7,
        id: 10,
    });
    let other = history(World {
        start: 987_654,
        seed: 4711,
        id: 5000,
    });
    assert_eq!(one, other);
    let distinct: BTreeSet<u64> = one.iter().copied().collect();
    assert_eq!(
        distinct.len(),
        one.len(),
        "every step of it is another state"
    );
}

/// A scheduler with one healthy worker, whose only task has been sent, and the worker's report about it.
fn at_work() -> (Script, StatusUpdate, brasserie_common::CallId) {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    let update = StatusUpdate {
        story: None,
        outputs: Vec::new(),
        job: task.job.clone(),
        node: task.node.clone(),
        shard: task.shard.clone(),
        invocation: task.invocation,
        next_backoff: task.next_backoff,
        gpus: task.gpus.clone(),
        status: ReportedStatus::done(),
        scheduler: s.scheduler.id(),
        worker: w.id,
    };
    (s, update, call)
}

#[test]
fn whatever_changes_the_future_changes_the_fingerprint() {
    let (s, update, call) = at_work();
    let heartbeat = |shard: &str, lock: i32, goodbye: bool| Event::Heartbeat {
        request: RequestId(900),
        from: Principal::Own,
        worker: Box::new(worker(shard, lock, 10)),
        worker_set: WorkerSetId::default(),
        goodbye,
    };
    let status = |status: ReportedStatus| Event::UpdateStatus {
        request: RequestId(901),
        from: Principal::Own,
        update: Box::new(StatusUpdate {
            status,
            ..update.clone()
        }),
    };
    let outcome = |outcome| Event::CallCompleted { call, outcome };
    let refused = CallOutcome::Refused(RefusalCode::Busy, "full".to_owned());
    let changes = [
        heartbeat("w", 1, true),
        heartbeat("v", 2, false),
        outcome(CallOutcome::Done(CallReply::Empty)),
        outcome(CallOutcome::Unknown(String::new())),
        outcome(refused),
        status(ReportedStatus::done()),
        status(ReportedStatus::failed()),
        status(ReportedStatus::error_backoff("")),
        Event::StoreFailed {
            message: "full".to_owned(),
        },
        Event::ConfigLoaded {
            config: one_job(1, r#", "priority": 2"#),
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        },
    ];
    let mut prints = BTreeSet::from([s.scheduler.fingerprint(s.now)]);
    for change in changes {
        let mut scheduler = s.scheduler.clone();
        scheduler.handle(s.now, change.clone());
        scheduler.handle_timeout(s.now);
        while scheduler.poll_effect().is_some() {}
        let print = scheduler.fingerprint(s.now);
        assert!(prints.insert(print), "{change:?} makes no difference");
    }
    let later = s.scheduler.fingerprint(s.now + secs(1));
    assert!(prints.insert(later), "a deadline is nearer");
}

#[test]
fn what_is_only_shown_does_not_count() {
    let (mut s, _, _) = at_work();
    let wall = s.status().wall;
    let before = s.scheduler.fingerprint(s.now);
    let idle = [
        // The clock stays within the same second, because ids contain only seconds.
        Event::WallClock(WallTime::from_secs(wall.as_secs()) + Duration::from_millis(999)),
        Event::ConfigFailed {
            message: "no such file".to_owned(),
        },
        Event::Persisted {
            up_to: RecordSeq::default(),
        },
    ];
    for event in idle {
        let mut scheduler = s.scheduler.clone();
        scheduler.handle(s.now, event.clone());
        scheduler.handle_timeout(s.now);
        assert_eq!(scheduler.fingerprint(s.now), before, "{event:?}");
    }
}

#[test]
fn a_restart_that_finds_the_same_is_the_same_state() {
    let after_restart = |world: World, run_on: &str| {
        let options = Options {
            seed: world.seed,
            ..options()
        };
        let mut s = Script::at(
            options.clone(),
            Durable::default(),
            Time::ZERO + secs(world.start),
        );
        s.load(one_job(2, ""));
        let w = worker("w", 1, world.id);
        s.join(&w);
        assert_eq!(s.starts().len(), 2);
        let set = s.status().scheduler;
        let mut s = s.restart(options);
        s.load(one_job(2, ""));
        let knew = WorkerSetId {
            scheduler: set,
            version: 1,
            ..WorkerSetId::default()
        };
        s.heartbeat(&w, knew).expect("recorded");
        let invocation = InvocationId::new(EPOCH + 5, world.id);
        s.answer_fetch(vec![listed("w", run_on, invocation)]);
        s.scheduler.fingerprint(s.now)
    };
    let (one, other) = (
        World {
            start: 1000,
            seed: 7,
            id: 10,
        },
        World {
            start: 5000,
            seed: 8,
            id: 99,
        },
    );
    assert_eq!(after_restart(one, "n0"), after_restart(other, "n0"));
    assert_ne!(after_restart(one, "n0"), after_restart(one, "n1"));
}

// Statuses in one message are applied in one turn, one after the other. Their order does not change the outcome.

const TASKS: usize = 6;

/// A scheduler with healthy workers that run all tasks, and a report about each task.
fn all_at_work() -> (Script, Vec<StatusUpdate>) {
    let mut s = Script::with_config(one_job(TASKS, ""));
    let workers = [worker("u", 1, 10), worker("v", 2, 20), worker("w", 3, 30)];
    for one in &workers {
        s.join(one);
    }
    let starts = s.starts();
    assert_eq!(starts.len(), TASKS);
    let scheduler = s.scheduler.id();
    let updates = starts.iter().map(|task| StatusUpdate {
        story: None,
        outputs: Vec::new(),
        job: task.job.clone(),
        node: task.node.clone(),
        shard: task.shard.clone(),
        invocation: task.invocation,
        next_backoff: task.next_backoff,
        gpus: task.gpus.clone(),
        status: ReportedStatus::done(),
        scheduler,
        worker: workers
            .iter()
            .find(|of| of.shard == task.shard)
            .expect("it is there")
            .id,
    });
    let updates = updates.collect();
    (s, updates)
}

/// Applies the updates in this order. Returns the records, sorted, and the answer to each update.
fn taken(
    s: &Script,
    updates: &[StatusUpdate],
    order: &[usize],
) -> (Vec<String>, BTreeMap<usize, bool>) {
    let mut scheduler = s.scheduler.clone();
    for &at in order {
        scheduler.handle(
            s.now,
            Event::UpdateStatus {
                request: RequestId(1_000 + at as u64),
                from: Principal::Own,
                update: Box::new(updates[at].clone()),
            },
        );
    }
    scheduler.handle_timeout(s.now);
    let (mut records, mut answers) = (Vec::new(), BTreeMap::new());
    while let Some(effect) = scheduler.poll_effect() {
        match effect {
            Effect::Persist { record, .. } => records.push(format!("{record:?}")),
            Effect::Reply { request, reply, .. } => {
                let Reply::UpdateStatus(result) = reply else {
                    panic!("{reply:?}");
                };
                answers.insert((request.0 - 1_000) as usize, result.is_ok());
            }
            _ => {}
        }
    }
    records.sort_unstable();
    (records, answers)
}

fn status() -> impl Strategy<Value = ReportedStatus> {
    prop_oneof![
        4 => Just(ReportedStatus::done()),
        2 => Just(ReportedStatus::failed()),
        1 => Just(ReportedStatus::error_backoff("bad luck")),
        1 => Just(ReportedStatus::incomplete_backoff("killed")),
    ]
}

integration_tests_properties::properties! {
    64;

    #[test]
    fn a_batch_is_its_elements_in_any_order(
        statuses in proptest::collection::vec(status(), TASKS),
        is_strange in proptest::collection::vec(proptest::bool::weighted(0.2), TASKS),
        repeated in 0..TASKS,
        order in Just((0..TASKS + 1).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let (s, mut updates) = all_at_work();
        for (update, (status, strange)) in updates.iter_mut().zip(statuses.into_iter().zip(&is_strange)) {
            update.status = status;
            if *strange {
                // The update comes from another instance of the worker.
                update.worker = worker("w", 1, 11).id;
            }
        }
        updates.push(updates[repeated].clone());
        let in_order: Vec<usize> = (0..updates.len()).collect();
        let (records, _) = taken(&s, &updates, &in_order);
        let (records_so, answers) = taken(&s, &updates, &order);
        prop_assert_eq!(records, records_so);
        // The later call of a repeated status gets the answer, because one reply for each run waits.
        let first = order.iter().find(|at| [repeated, TASKS].contains(at));
        let expected = is_strange.iter().chain([&is_strange[repeated]]).enumerate();
        let expected = expected.map(|(at, strange)| (at, !strange && Some(&at) != first));
        prop_assert_eq!(answers, expected.collect::<BTreeMap<_, _>>());
    }
}
