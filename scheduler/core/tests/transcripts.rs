//! Tests of the protocol as scenarios, message by message.

mod support;

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{
    CallOutcome, Health, InvocationId, RefusalCode, ReportedStatus, SequenceNumber,
    WorkerDescription, WorkerSetId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, Call, CallReply, Durable, Event, LeftCause, Options, Query, Record, Rejection,
};

use support::{SETTLE, Script, listed, one_job, options, worker};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_worker_joins_and_gets_a_task() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    let first = s.heartbeat(&w, WorkerSetId::default()).unwrap();
    assert_eq!(
        (first.worker_state, first.worker_set.version),
        (Health::New, 1)
    );
    assert_eq!(first.worker_set.hash.num_workers, 1);
    s.answer_fetch(Vec::new());
    s.answer_healthcheck(&w);
    assert!(
        s.starts().is_empty(),
        "it has not echoed the set that it is in"
    );
    let second = s.heartbeat(&w, first.worker_set).unwrap();
    assert_eq!(second.worker_state, Health::Healthy);
    assert!(s.starts().is_empty(), "the reply gets a head start");
    s.advance(SETTLE);
    let (_, task, sequence) = s.take_start();
    assert_eq!((task.node.as_str(), sequence), ("n0", SequenceNumber(0)));
    assert!(s.calls.is_empty(), "nothing else was asked: {:?}", s.calls);
}

#[test]
fn nothing_is_healthy_before_its_record_is_durable() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.sync_at_once = false;
    let first = s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.answer_fetch(Vec::new());
    s.answer_healthcheck(&w);
    let second = s.heartbeat(&w, first.worker_set).unwrap();
    assert_eq!(second.worker_state, Health::Unhealthy);
    assert!(s.starts().is_empty());
    s.sync();
    assert!(
        s.starts().is_empty(),
        "it does not know yet that it is HEALTHY"
    );
    s.advance(Duration::from_millis(200));
    s.answer_healthcheck(&w);
    let third = s.heartbeat(&w, first.worker_set).unwrap();
    assert_eq!(third.worker_state, Health::Healthy);
    s.advance(SETTLE);
    assert_eq!(s.starts().len(), 1);
}

#[test]
fn an_end_is_acknowledged_after_its_record_and_frees_slots_before() {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    assert_eq!(s.starts().len(), 1, "two slots");
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.sync_at_once = false;
    let (after, result) = s.update(&w, &task, ReportedStatus::done());
    assert_eq!(result, Ok(()));
    assert!(after.is_some(), "the acknowledgement waits for the disk");
    assert_eq!(
        s.starts().len(),
        2,
        "the freed slot is used in the same turn"
    );
    let (again, result) = s.update(&w, &task, ReportedStatus::done());
    assert_eq!((again, result), (after, Ok(())), "so does that of a repeat");
    s.sync();
    assert_eq!(s.update(&w, &task, ReportedStatus::done()), (None, Ok(())));
    let ends = s
        .records
        .iter()
        .filter(|r| matches!(r, Record::TaskEnded(_)))
        .count();
    assert_eq!(ends, 1);
}

#[test]
fn the_same_task_does_not_restart_before_its_end_is_durable() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [1, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.sync_at_once = false;
    s.update(&w, &task, ReportedStatus::error_backoff("x"))
        .1
        .unwrap();
    s.advance(secs(5));
    assert!(s.starts().is_empty());
    s.sync();
    let (_, again, _) = s.take_start();
    assert_ne!(again.invocation, task.invocation);
}

#[test]
fn a_refusal_leaves_the_worker_alone_for_a_moment_and_costs_no_retry() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [1, "fail"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    for outcome in [
        CallOutcome::Refused(RefusalCode::Busy, "full".to_owned()),
        CallOutcome::NotSent("no route".to_owned()),
    ] {
        let (call, task, _) = s.take_start();
        assert!(!task.next_backoff.no_more_backoffs);
        s.complete(call, outcome);
        s.advance(Duration::from_millis(149));
        assert!(s.starts().is_empty());
        s.advance(Duration::from_millis(1));
        assert_eq!(s.starts().len(), 1);
    }
}

#[test]
fn an_unknown_start_is_resolved_by_asking() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Unknown("timeout".to_owned()));
    let notify = s
        .take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }))
        .unwrap();
    let Call::NotifyIfTasksNotRunning {
        tasks, sequence, ..
    } = &notify.1
    else {
        panic!("{notify:?}")
    };
    assert_eq!((tasks.len(), *sequence), (1, SequenceNumber(1)));
    assert_eq!(tasks[0].invocation, task.invocation);
    s.complete(notify.0, CallOutcome::Unknown("timeout".to_owned()));
    assert!(s.calls.is_empty());
    s.advance(secs(2));
    let notify = s
        .take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }))
        .unwrap();
    s.complete(notify.0, CallOutcome::Done(CallReply::Empty));
    s.update(&w, &task, ReportedStatus::was_not_running())
        .1
        .unwrap();
    // The worker knows no reason, so the failure of the call is the one.
    let why = s.records.iter().find_map(|record| match record {
        Record::TaskEnded(ended) => ended.status.exception(),
        _ => None,
    });
    assert_eq!(
        why,
        Some("`w` does not run it, and its start failed: timeout")
    );
    s.advance(secs(1));
    let (_, again, sequence) = s.take_start();
    assert_eq!((again.node, sequence), (task.node, SequenceNumber(2)));
}

#[test]
fn the_true_end_beats_was_not_running_in_either_order() {
    for true_end_first in [true, false] {
        let mut s = Script::with_config(one_job(1, ""));
        let w = worker("w", 1, 10);
        s.join(&w);
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Unknown("timeout".to_owned()));
        let statuses = [ReportedStatus::done(), ReportedStatus::was_not_running()];
        let order: [usize; 2] = if true_end_first { [0, 1] } else { [1, 0] };
        for i in order {
            s.update(&w, &task, statuses[i].clone()).1.unwrap();
        }
        s.advance(secs(10));
        assert!(s.starts().is_empty());
        assert_eq!(s.status().jobs[0].counts.done, 1);
    }
}

#[test]
fn a_silent_worker_is_lost_and_its_task_waits_the_safety_time() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [5, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    // The heartbeat gap is 75 s, and the loss follows after 100 s of UNHEALTHY.
    s.advance(secs(174));
    assert_eq!(s.status().workers[0].health, Health::Unhealthy);
    s.advance(secs(2));
    assert_eq!(s.status().workers[0].health, Health::MustDie);
    let left = s.records.iter().find_map(|r| match r {
        Record::WorkerLeft { cause, tasks, .. } => Some((*cause, tasks.clone())),
        _ => None,
    });
    let (cause, tasks) = left.unwrap();
    assert_eq!(
        (cause, tasks.len(), tasks[0].invocation),
        (LeftCause::Lost, 1, task.invocation)
    );
    assert_eq!(
        (
            tasks[0].status.safety_seconds,
            tasks[0].status.configured_backoff().seconds
        ),
        (66, 5)
    );
    assert!(
        s.take_call(|c| matches!(c, Call::RequestSuicide { .. }))
            .is_some()
    );

    let other = worker("other", 2, 20);
    s.join(&other);
    s.advance(secs(60));
    assert!(s.starts().is_empty(), "66 s have not passed since the loss");
    s.heartbeat(&other, WorkerSetId::default()).unwrap();
    s.advance(secs(7));
    assert_eq!(s.starts().len(), 1);

    // The old instance never returns.
    assert_eq!(
        s.heartbeat(&w, WorkerSetId::default())
            .unwrap()
            .worker_state,
        Health::MustDie
    );
    assert!(
        s.take_call(|c| matches!(c, Call::RequestSuicide { .. }))
            .is_some()
    );
}

#[test]
fn the_end_of_a_lost_run_counts_if_nothing_else_runs() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.advance(secs(180));
    assert_eq!(s.status().workers[0].health, Health::MustDie);
    s.update(&w, &task, ReportedStatus::done()).1.unwrap();
    assert_eq!(s.status().jobs[0].counts.done, 1);
}

#[test]
fn a_goodbye_frees_the_record_and_its_tasks_without_a_safety_wait() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [5, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.durable.instances.len(), 1);
    s.heartbeat_with(&w, WorkerSetId::default(), true).unwrap();
    assert!(
        s.status().workers.is_empty(),
        "it is nobody's trouble any more"
    );
    assert!(s.durable.instances.is_empty());
    let (_, status) = s.durable.statuses.values().next().unwrap();
    assert_eq!((status.safety_seconds, status.backoff_seconds), (0, 5));
}

#[test]
fn a_restarted_scheduler_waits_for_the_recorded_workers_only() {
    let mut s = Script::with_config(one_job(2, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    s.join(&a);
    s.join(&b);
    let set = s.heartbeat(&b, WorkerSetId::default()).unwrap().worker_set;
    let (_, running, _) = s.take_start();
    let (_, running_b, _) = s.take_start();
    let (on_a, on_b) = if running.shard.as_str() == "a" {
        (running, running_b)
    } else {
        (running_b, running)
    };

    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(2, ""));
    assert!(s.status().initial_wait.unwrap().contains("2 workers"));
    s.heartbeat(&a, set).unwrap();
    s.answer_fetch(vec![on_a]);
    assert!(s.status().initial_wait.unwrap().contains("`b`"));
    s.heartbeat(&b, set).unwrap();
    s.answer_fetch(vec![on_b]);
    let status = s.status();
    assert_eq!(status.initial_wait, None);
    assert_eq!(status.jobs[0].counts.running, 2);
    assert!(s.starts().is_empty());
}

/// Lets a minute pass in which the worker sends heartbeats and its healthchecks complete with `status`.
fn pass_a_minute(s: &mut Script, w: &WorkerDescription, status: &ReportedStatus) {
    for _ in 0..4 {
        s.advance(w.heartbeat_period);
        s.echo(w);
        let is_check = |call: &Call| matches!(call, Call::Healthcheck(_));
        while let Some((call, Call::Healthcheck(run))) = s.take_call(is_check) {
            s.complete(call, CallOutcome::Done(CallReply::Empty));
            let (_, result) = s.update(w, &run.task, status.clone());
            assert_eq!(result, Ok(()));
        }
    }
}

#[test]
fn failures_of_a_worker_are_shown_for_an_hour_after_they_are_over() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let problems = |s: &mut Script| s.status().workers[0].problems.clone();
    let full = ReportedStatus::error_backoff("the disk is full");
    pass_a_minute(&mut s, &w, &full);
    assert_eq!(
        problems(&mut s),
        ["its last healthcheck failed: the disk is full"]
    );
    pass_a_minute(&mut s, &w, &ReportedStatus::done());
    let told = problems(&mut s).remove(0);
    let past = "its healthchecks are good again, and failed ";
    assert!(
        told.starts_with(past) && told.ends_with(" ago: the disk is full"),
        "{told}"
    );
    for _ in 0..60 {
        pass_a_minute(&mut s, &w, &ReportedStatus::done());
    }
    assert_eq!(problems(&mut s), [""; 0]);

    assert_eq!(s.status().workers[0].lost_in, None);
    s.advance(
        options()
            .timeouts
            .scheduler_gaps(w.heartbeat_period)
            .max_heartbeat
            + secs(1),
    );
    let silent = s.status().workers.remove(0);
    assert_eq!(silent.health, Health::Unhealthy);
    let left = silent.lost_in.expect("it is lost soon");
    assert!(
        left <= options().timeouts.lose_unhealthy_worker_after + secs(1),
        "{left:?}"
    );
    pass_a_minute(&mut s, &w, &ReportedStatus::done());
    let told = problems(&mut s).remove(0);
    let past = "is healthy again, and was unhealthy ";
    assert!(
        told.starts_with(past) && told.contains("it waited for a heartbeat"),
        "{told}"
    );
}

#[test]
fn a_worker_is_shown_with_its_containment_and_noted_if_that_is_the_weaker_one() {
    let shown = |containment: Option<&str>| {
        let mut s = Script::with_config(one_job(1, ""));
        let w = WorkerDescription {
            containment: containment.map(Into::into),
            ..worker("w", 1, 10)
        };
        s.join(&w);
        let (job, node) = ("j".to_owned(), "n0".to_owned());
        let answer = s.scheduler.answer(s.now, &Query::Explain { job, node });
        let Answer::Explain(reasons) = answer else {
            panic!("the task is known");
        };
        let worker = s.status().workers.remove(0);
        assert_eq!(worker.containment.as_deref(), containment);
        (worker.notes, reasons)
    };
    let running = "it is running on `w`".to_owned();
    assert_eq!(shown(None), (vec![], vec![running.clone()]));
    let contained = |how: &str| format!("its worker contains it by {how}");
    let how = "pid-namespace: a reason";
    assert_eq!(
        shown(Some(how)),
        (vec![], vec![running.clone(), contained(how)])
    );
    let how = "process-groups: a reason";
    let note = format!("contains its tasks by {how}");
    assert_eq!(
        shown(Some(how)),
        (vec![note], vec![running, contained(how)])
    );
}

#[test]
fn a_recorded_worker_that_never_returns_is_waited_for_by_its_own_timeouts() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let long = options().timeouts.min_safe_wait();
    let mut short = options();
    short.timeouts.lose_unhealthy_worker_after = secs(1);
    short.new_cluster = false;
    let mut s = s.restart(short.clone());
    s.load(one_job(1, ""));
    let fresh = worker("fresh", 2, 20);
    s.join(&fresh);
    s.advance(short.timeouts.min_safe_wait());
    assert!(
        s.status().initial_wait.is_some(),
        "shorter flags do not shorten the wait"
    );
    s.advance(long - short.timeouts.min_safe_wait());
    assert_eq!(s.status().initial_wait, None);
    assert!(s.durable.instances.keys().all(|id| *id != w.id));
}

#[test]
fn a_successor_with_the_machine_lock_ends_the_wait_at_once() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(1, ""));
    assert!(s.status().initial_wait.is_some());
    s.join(&worker("w", 1, 12));
    assert_eq!(s.status().initial_wait, None);
    assert_eq!(s.starts().len(), 1);
}

#[test]
fn a_new_directory_waits_the_safe_time_and_says_what_to_do() {
    let mut s = Script::new(
        Options {
            new_cluster: false,
            ..options()
        },
        Durable::default(),
    );
    s.load(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    let message = s.status().initial_wait.unwrap();
    assert!(
        message.contains("--new-cluster") && message.contains("new"),
        "{message}"
    );
    assert!(s.starts().is_empty());
    for _ in 0..60 {
        s.advance(secs(10));
        let set = s.status().wait_ended;
        if set.is_some() {
            break;
        }
    }
    assert_eq!(
        s.status().wait_ended.as_deref(),
        Some("the safe wait is over")
    );
}

#[test]
fn a_worker_of_an_unknown_scheduler_voids_the_new_cluster_flag() {
    let mut s = Script::with_config(one_job(1, ""));
    assert_eq!(s.status().initial_wait, None);
    let stranger = WorkerSetId {
        scheduler: brasserie_common::SchedulerId::new(5, 5),
        version: 3,
        ..WorkerSetId::default()
    };
    s.heartbeat(&worker("w", 1, 10), stranger).unwrap();
    let message = s.status().initial_wait.unwrap();
    assert!(message.contains("does not remember"), "{message}");
}

#[test]
fn a_stored_end_beats_a_listed_run_of_the_same_invocation() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let set = s.heartbeat(&w, WorkerSetId::default()).unwrap().worker_set;
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.update(&w, &task, ReportedStatus::done()).1.unwrap();
    // The acknowledgement is lost, and so is the scheduler.
    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(1, ""));
    s.heartbeat(&w, set).unwrap();
    s.answer_fetch(vec![task.clone()]);
    assert_eq!(s.status().jobs[0].counts.done, 1);
    assert_eq!(
        s.update(&w, &task, ReportedStatus::error_backoff("late lie"))
            .1,
        Ok(())
    );
    assert_eq!(s.status().jobs[0].counts.done, 1);
}

#[test]
fn losing_a_worker_whose_tasks_were_never_known_holds_everything_back() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let set = s.heartbeat(&w, WorkerSetId::default()).unwrap().worker_set;
    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(1, ""));
    s.heartbeat(&w, set).unwrap();
    let fresh = worker("fresh", 2, 20);
    s.heartbeat(&fresh, WorkerSetId::default()).unwrap();
    // The worker answers no getRunningTasks and does not show that it received our answer. It is lost in NEW after 100 s, and dead by its
    // own timers after 296 s.
    s.advance(secs(101));
    assert_eq!(s.durable.hold_back, secs(196));
    assert!(
        s.status()
            .initial_wait
            .unwrap()
            .contains("before its running tasks were known")
    );
    // The wait runs anew in full after a crash.
    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(1, ""));
    s.advance(secs(195));
    assert!(s.status().initial_wait.is_some());
    s.advance(secs(2));
    assert_eq!(s.durable.hold_back, Duration::ZERO);
}

#[test]
fn backoffs_survive_a_restart() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [100, 200, "fail"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.update(&w, &task, ReportedStatus::error_backoff("x"))
        .1
        .unwrap();
    s.heartbeat_with(&w, WorkerSetId::default(), true).unwrap();
    s.advance(secs(30));
    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(1, r#", "backoff": [100, 200, "fail"]"#));
    s.join(&worker("w", 1, 20));
    s.advance(secs(30));
    s.heartbeat(&worker("w", 1, 20), WorkerSetId::default())
        .unwrap();
    s.advance(secs(39));
    assert!(s.starts().is_empty());
    s.advance(secs(2));
    let (_, again, _) = s.take_start();
    assert_eq!(again.next_backoff.seconds, 200);
}

#[test]
fn the_safety_part_of_a_backoff_runs_anew_after_a_restart() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [5, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.advance(secs(176));
    s.advance(secs(50));
    let mut s = s.restart(Options {
        new_cluster: false,
        ..options()
    });
    s.load(one_job(1, r#", "backoff": [5, "repeat"]"#));
    s.join(&worker("other", 2, 20));
    s.advance(secs(60));
    assert!(
        s.starts().is_empty(),
        "50 s before the restart do not count"
    );
    s.heartbeat(&worker("other", 2, 20), WorkerSetId::default())
        .unwrap();
    s.advance(secs(7));
    assert_eq!(s.starts().len(), 1);
}

#[test]
fn refusals_name_what_is_wrong() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    let mut old = w.clone();
    old.protocol_version = 1;
    assert!(matches!(
        s.heartbeat(&old, WorkerSetId::default()),
        Err(Rejection::ProtocolVersion { theirs: 1, ours: 2 })
    ));
    assert!(s.status().workers.is_empty());
    let nameless = worker("", 1, 10);
    assert!(matches!(
        s.heartbeat(&nameless, WorkerSetId::default()),
        Err(Rejection::EmptyName(_))
    ));
    let task = listed("w", "n0", InvocationId::new(1, 1));
    assert!(matches!(
        s.update(&w, &task, ReportedStatus::done()).1,
        Err(Rejection::UnknownShard { .. })
    ));
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    assert!(matches!(
        s.update(&w, &task, ReportedStatus::done()).1,
        Err(Rejection::StillNew)
    ));
    assert!(matches!(
        s.update(&worker("w", 1, 9), &task, ReportedStatus::done())
            .1,
        Err(Rejection::WrongWorker { .. })
    ));
    assert!(matches!(
        s.heartbeat(&worker("w", 2, 50), WorkerSetId::default()),
        Err(Rejection::ShardTaken { .. })
    ));
    assert!(matches!(
        s.heartbeat(&worker("w", 1, 9), WorkerSetId::default()),
        Err(Rejection::StaleInstance { .. })
    ));
}

#[test]
fn a_store_that_fails_starts_nothing_and_leaves_the_rest_alone() {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.event(Event::StoreFailed {
        message: "disk full".to_owned(),
    });
    let started = s.starts().len();
    s.sync_at_once = false;
    let refused = s.update(&w, &task, ReportedStatus::done()).1;
    assert!(matches!(refused, Err(Rejection::StoreFails { .. })));
    assert_eq!(s.starts().len(), started);
    assert!(s.status().errors.iter().any(|e| e.contains("disk full")));
    s.event(Event::StoreRecovered);
    s.update(&w, &task, ReportedStatus::done()).1.unwrap();
    s.sync();
    assert_eq!(s.starts().len(), started + 1);
}

#[test]
fn a_late_answer_to_an_old_fetch_changes_nothing() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    let (old, _) = s
        .take_call(|c| matches!(c, Call::GetRunningTasks { .. }))
        .unwrap();
    // The core abandons the call and sends another one.
    s.advance(secs(7));
    s.answer_fetch(Vec::new());
    s.complete(
        old,
        CallOutcome::Done(CallReply::RunningTasks(vec![listed(
            "w",
            "n0",
            InvocationId::new(1, 1),
        )])),
    );
    assert_eq!(s.status().jobs[0].counts.running, 0);
}

#[test]
fn a_file_that_cannot_be_used_leaves_the_last_good_config_and_is_told_wherever_one_looks() {
    let mut s = Script::with_config(one_job(1, ""));
    let explain = |s: &Script, job: &str| {
        let (job, node) = (job.to_owned(), "n0".to_owned());
        s.scheduler.answer(s.now, &Query::Explain { job, node })
    };
    s.event(Event::ConfigFailed {
        message: "c.json:3:7: no such key".to_owned(),
    });
    let told = "the last good config decides: c.json:3:7: no such key";
    let status = s.status();
    assert!(status.errors[0].ends_with(told), "{:?}", status.errors);
    assert_eq!(status.jobs.len(), 1);
    let Answer::Explain(reasons) = explain(&s, "j") else {
        panic!("the job is known");
    };
    assert!(reasons.last().unwrap().ends_with(told), "{reasons:?}");
    let Answer::Unknown(why) = explain(&s, "new") else {
        panic!("nobody knows it");
    };
    assert!(why.ends_with(told), "{why}");
    // Tasks still start.
    let w = worker("w", 1, 10);
    s.join(&w);
    s.take_start();
    s.load(one_job(1, ""));
    assert!(s.status().errors.is_empty());
}

#[test]
fn a_healthy_worker_that_misses_heartbeats_is_shown_as_silent_and_so_are_its_tasks() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    let explain = |s: &Script| {
        let (job, node) = ("j".to_owned(), "n0".to_owned());
        match s.scheduler.answer(s.now, &Query::Explain { job, node }) {
            Answer::Explain(reasons) => reasons[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let period = w.heartbeat_period;
    assert_eq!(period, secs(15));
    s.advance(period + secs(2));
    let shown = s.status().workers.remove(0);
    assert_eq!((shown.silent_for, shown.problems), (None, Vec::new()));
    assert_eq!(explain(&s), "it is running on `w`");
    s.advance(period);
    let shown = s.status().workers.remove(0);
    assert_eq!(shown.health, Health::Healthy);
    let silent_for = shown.silent_for.expect("it is silent");
    assert!(silent_for >= period * 2, "{silent_for:?}");
    let silent = "is healthy, but has been silent for 32s: 2 heartbeats are missing, as one is due each 15s; it counts as unhealthy in ";
    assert!(shown.problems[0].starts_with(silent), "{shown:?}");
    assert!(shown.problems[0].contains("worker forget"), "{shown:?}");
    let told = explain(&s);
    let running = "it is running on `w`, which has been silent for 32s, and is lost in ";
    assert!(told.starts_with(running), "{told}");
    s.echo(&w);
    assert_eq!(s.status().workers[0].silent_for, None);
    assert_eq!(explain(&s), "it is running on `w`");
}

#[test]
fn a_worker_that_a_call_does_not_reach_is_shown_so_until_a_call_reaches_it() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.advance(secs(3));
    s.complete(call, CallOutcome::NotSent("connection refused".to_owned()));
    let shown = s.status().workers.remove(0);
    assert_eq!(shown.health, Health::Healthy);
    assert!(shown.silent_for >= Some(secs(3)), "{shown:?}");
    let silent = "is healthy, but has been silent for 3s: the last call did not reach it (connection refused); it counts as unhealthy in ";
    assert!(shown.problems[0].starts_with(silent), "{shown:?}");
    assert!(!shown.problems[0].contains("forget"), "{shown:?}");
    s.echo(&w);
    let shown = s.status().workers.remove(0);
    let unreached = "the last call did not reach it (connection refused)".to_owned();
    assert_eq!((shown.silent_for, shown.problems), (None, vec![unreached]));
    s.advance(secs(1));
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.status().workers[0].problems, [""; 0]);
}

#[test]
fn running_tasks_of_a_job_that_is_gone_are_counted_and_explained() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    let mut none = Config::clone(&one_job(1, ""));
    none.jobs.clear();
    s.load(Arc::new(none));
    let status = s.status();
    let tasks = status.job_totals.tasks;
    assert_eq!(
        (status.job_totals.jobs, tasks.total, tasks.running),
        (0, 1, 1)
    );
    let gone = "1 running task belongs to jobs or nodes that are gone (`j`: 1); ";
    assert!(status.errors[0].starts_with(gone), "{:?}", status.errors);
    let explain = |s: &Script, node: &str| {
        let (job, node) = ("j".to_owned(), node.to_owned());
        match s.scheduler.answer(s.now, &Query::Explain { job, node }) {
            Answer::Explain(reasons) => reasons,
            other => panic!("{other:?}"),
        }
    };
    let job = explain(&s, "");
    assert!(job[0].starts_with(gone), "{job:?}");
    assert_eq!(job[1], "no such job is configured");
    assert_eq!(
        explain(&s, "n0"),
        [
            "it is running on `w`",
            "its job is not configured any more, so it does not run again; it runs to its own end, as `kill_orphan_tasks_after_sec` does not limit it",
        ]
    );
    s.load(one_job(1, ""));
    let status = s.status();
    assert_eq!(
        (status.job_totals.tasks.running, status.errors.len()),
        (1, 0)
    );
    assert_eq!(explain(&s, "n0"), ["it is running on `w`"]);
}
