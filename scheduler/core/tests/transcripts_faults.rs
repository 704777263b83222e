//! Scenarios with late, wrong, unlucky or lying peers, message by message.

mod support;

use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::{
    CallOutcome, Fence, FenceGeneration, Health, InvocationId, Principal, RecordSeq, RefusalCode,
    ReportedStatus, RequestId, RunningTask, SchedulerId, Time, WallTime, WorkerDescription,
    WorkerId, WorkerSetId,
};
use brasserie_scheduler_core::{
    Answer, Call, CallReply, Durable, Effect, Event, LeftCause, Options, Query, Record, Rejection,
    Scheduler,
};
use brasserie_scheduler_engine::Counts;

use support::{EPOCH, SETTLE, Script, listed, one_job, options, worker};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn restarted() -> Options {
    Options {
        new_cluster: false,
        ..options()
    }
}

fn stranger() -> WorkerSetId {
    WorkerSetId {
        scheduler: SchedulerId::new(5, 5),
        version: 3,
        ..WorkerSetId::default()
    }
}

fn is_suicide(call: &Call) -> bool {
    matches!(call, Call::RequestSuicide { .. })
}

fn is_healthcheck(call: &Call) -> bool {
    matches!(call, Call::Healthcheck(_))
}

fn count(s: &Script, matches: impl Fn(&Call) -> bool) -> usize {
    s.calls.iter().filter(|(_, _, call)| matches(call)).count()
}

/// Starts the only task, and lets the worker accept it.
fn run_one(s: &mut Script) -> brasserie_common::RunningTask {
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    task
}

/// Asserts that the scheduler does not ask to be woken at a time that has passed.
fn assert_wakes_in_future(s: &Script) {
    let wake = s.scheduler.poll_timeout();
    assert!(wake.is_none_or(|at| at > s.now), "{wake:?} at {:?}", s.now);
}

#[test]
fn a_lost_instance_is_not_taken_back_on_a_shard_that_is_free_again() {
    let mut s = Script::with_config(one_job(1, ""));
    let (old, new) = (worker("w", 1, 10), worker("w", 2, 20));
    s.join(&old);
    s.advance(secs(180));
    s.join(&new);
    s.advance(secs(180));
    assert_eq!(s.status().workers[0].health, Health::MustDie);
    s.calls.clear();
    let answer = s.heartbeat(&old, WorkerSetId::default()).unwrap();
    assert_eq!(answer.worker_state, Health::MustDie);
    assert_eq!(s.status().workers[0].id, new.id);
    assert_eq!(count(&s, is_suicide), 1);
}

#[test]
fn an_instance_keeps_its_shard_and_machine_lock_for_life() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let before = s.status();
    let moved = WorkerDescription {
        shard: "elsewhere".try_into().unwrap(),
        ..w.clone()
    };
    let mut relocked = w.clone();
    relocked.machine_lock.port = 99;
    for changed in [&moved, &relocked] {
        let refused = s.heartbeat(changed, WorkerSetId::default());
        assert!(
            matches!(refused, Err(Rejection::IdentityChanged { .. })),
            "{refused:?}"
        );
    }
    let mut after = s.status();
    assert_eq!(after.errors.len(), 2, "{:?}", after.errors);
    after.errors.clear();
    assert_eq!(after, before);
    assert_eq!(count(&s, is_suicide), 0, "nobody is to die for that");
    // The instance cannot change its lock after its loss either.
    s.advance(secs(180));
    assert!(s.heartbeat(&relocked, WorkerSetId::default()).is_err());
    assert_eq!(s.status().workers[0].health, Health::MustDie);
}

#[test]
fn a_machine_lock_has_one_holder_over_all_shards() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("a", 1, 10));
    let mut twin = worker("b", 1, 9);
    assert!(matches!(
        s.heartbeat(&twin, WorkerSetId::default()),
        Err(Rejection::StaleInstance { .. })
    ));
    // Both began in the same second: the last one to arrive wins, as on one shard.
    twin.id = WorkerId::new(10, 77);
    s.heartbeat(&twin, WorkerSetId::default()).unwrap();
    let health: Vec<Health> = s.status().workers.iter().map(|w| w.health).collect();
    assert_eq!(health, [Health::MustDie, Health::New]);
    assert_eq!(s.durable.instances.len(), 1);
}

#[test]
fn a_bumped_instance_with_unknown_tasks_holds_everything_back_until_its_timers_ended_it() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    let set = s.status();
    let known = WorkerSetId {
        scheduler: set.scheduler,
        version: 1,
        ..WorkerSetId::default()
    };
    let bump = Options {
        allow_bump_unhealthy_worker: true,
        ..restarted()
    };
    let mut s = s.restart(bump);
    s.load(one_job(1, ""));
    s.heartbeat(&worker("w", 1, 10), known).unwrap();
    s.heartbeat(&worker("w", 2, 20), WorkerSetId::default())
        .unwrap();
    assert_eq!(s.durable.hold_back, options().timeouts.min_safe_wait());
}

#[test]
fn an_instance_that_may_not_have_our_timeouts_is_given_its_own() {
    let s = {
        let mut s = Script::with_config(one_job(1, ""));
        s.join(&worker("w", 1, 10));
        s
    };
    let long = options().timeouts.min_safe_wait();
    let known = WorkerSetId {
        scheduler: s.scheduler.id(),
        version: 1,
        ..WorkerSetId::default()
    };
    let mut short = restarted();
    short.timeouts.lose_unhealthy_worker_after = secs(1);
    for is_fetched in [false, true] {
        let mut s = Script::at(short.clone(), s.durable.clone(), s.now);
        s.load(one_job(1, ""));
        let w = worker("w", 1, 10);
        s.heartbeat(&w, known).unwrap();
        let task = listed("w", "n0", InvocationId::new(EPOCH + 5000, 1));
        if is_fetched {
            s.answer_fetch(vec![task]);
        }
        // The worker never received the answer. It uses the former scheduler's hundred seconds, counted from a second before its loss.
        let long = long - secs(1);
        s.advance(secs(3));
        assert_eq!(s.status().workers[0].health, Health::MustDie);
        let safety = s
            .durable
            .statuses
            .values()
            .next()
            .map(|(_, s)| s.safety_seconds);
        if is_fetched {
            assert_eq!(safety, Some(u32::try_from(long.as_secs()).unwrap()));
        } else {
            assert_eq!(s.durable.hold_back, long);
        }
    }
}

#[test]
fn a_goodbye_associates_nobody_and_ends_the_wait_for_who_says_it() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    assert!(s.status().initial_wait.is_some());
    s.heartbeat_with(&w, WorkerSetId::default(), true).unwrap();
    let status = s.status();
    assert_eq!((status.workers.len(), status.initial_wait), (0, None));
    assert!(s.durable.instances.is_empty());
    assert!(s.calls.is_empty(), "{:?}", s.calls);
}

#[test]
fn a_goodbye_is_answered_after_its_record() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    s.sync_at_once = false;
    let request = s.request();
    s.event(Event::Heartbeat {
        request,
        from: Principal::Own,
        worker: Box::new(w),
        worker_set: WorkerSetId::default(),
        goodbye: true,
    });
    assert!(s.reply_to(request).0.is_some());
}

#[test]
fn a_full_pool_refuses_newcomers_and_gives_up_only_the_dead() {
    const LIMIT: i32 = 16_384;
    let mut s = Script::with_config(one_job(1, ""));
    for i in 0..LIMIT {
        let w = worker(&format!("w{i}"), i, 10);
        s.heartbeat(&w, WorkerSetId::default()).unwrap();
    }
    let late = worker("late", LIMIT, 10);
    assert!(matches!(
        s.heartbeat(&late, WorkerSetId::default()),
        Err(Rejection::PoolFull { limit: 16_384 })
    ));
    assert_eq!(
        s.durable.instances.len(),
        16_384,
        "nothing was recorded for it"
    );
    s.heartbeat_with(&worker("w7", 7, 10), WorkerSetId::default(), true)
        .unwrap();
    s.heartbeat(&late, WorkerSetId::default()).unwrap();
    let status = s.status();
    assert_eq!(status.workers_total, 16_384);
    assert!(status.workers.iter().all(|w| w.shard.as_str() != "w7"));
}

#[test]
fn a_healthcheck_that_fails_after_the_loss_wakes_nobody_for_ever() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    let (call, _) = s.take_call(is_healthcheck).unwrap();
    s.heartbeat_with(&w, WorkerSetId::default(), true).unwrap();
    s.complete(call, CallOutcome::NotSent("no route".to_owned()));
    s.advance(secs(10));
    assert_wakes_in_future(&s);
}

#[test]
fn a_safe_wait_that_is_over_while_somebody_is_new_wakes_nobody_for_ever() {
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    let wait = options().timeouts.min_safe_wait();
    s.advance(wait - secs(10));
    s.heartbeat(&worker("w", 1, 10), stranger()).unwrap();
    // Its running tasks are not reported, and it is not lost yet.
    s.now = s.now + secs(11);
    s.event(Event::StoreRecovered);
    assert!(s.status().initial_wait.is_some());
    assert_wakes_in_future(&s);
}

#[test]
fn a_directory_that_has_not_waited_yet_waits_anew_after_a_restart() {
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    s.advance(secs(60));
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let wait = options().timeouts.min_safe_wait();
    s.advance(wait - secs(1));
    assert!(s.status().initial_wait.is_some(), "{:?}", s.status());
    s.advance(secs(2));
    assert_eq!(s.status().initial_wait, None);
    assert_eq!(s.durable.hold_back, Duration::ZERO);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    assert_eq!(
        s.status().initial_wait,
        None,
        "now it has a record to go by"
    );
}

#[test]
fn a_witness_of_another_scheduler_counts_after_a_restart_too() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.sync_at_once = false;
    let request = s.request();
    s.event(Event::Heartbeat {
        request,
        from: Principal::Own,
        worker: Box::new(w.clone()),
        worker_set: stranger(),
        goodbye: false,
    });
    let hold = s
        .records
        .iter()
        .position(|r| matches!(r, Record::HoldBack { .. }));
    let answered_after = s.reply_to(request).0.unwrap();
    assert!(
        answered_after.0 > hold.unwrap() as u64,
        "it forgets the other one by the answer"
    );
    s.sync();
    let set = WorkerSetId {
        scheduler: s.scheduler.id(),
        version: 1,
        ..WorkerSetId::default()
    };
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    s.heartbeat(&w, set).unwrap();
    s.answer_fetch(Vec::new());
    assert!(
        s.status().initial_wait.is_some(),
        "others of that scheduler may still run tasks"
    );
}

#[test]
fn the_operators_override_ends_what_an_earlier_scheduler_left_to_wait_for() {
    let s = Script::new(restarted(), Durable::default());
    assert!(!s.durable.hold_back.is_zero());
    let mut waived = Script::at(
        Options {
            startup_wait: Some(Duration::ZERO),
            ..restarted()
        },
        s.durable.clone(),
        s.now,
    );
    waived.load(one_job(1, ""));
    assert_eq!(waived.status().initial_wait, None);
    assert!(waived.durable.hold_back.is_zero());
}

#[test]
fn an_instance_that_was_lost_is_not_taken_back_by_the_next_scheduler_either() {
    let mut s = Script::with_config(one_job(1, ""));
    let (w, other) = (worker("w", 1, 10), worker("other", 2, 20));
    s.join(&w);
    let set = s.heartbeat(&w, WorkerSetId::default()).unwrap().worker_set;
    let task = run_one(&mut s);
    s.advance(secs(180));
    assert_eq!(s.status().workers[0].health, Health::MustDie);
    // The worker was only cut off, and the next scheduler reaches it before it has ended itself.
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let restarted_at = s.now;
    let answer = s.heartbeat(&w, set).unwrap();
    assert_eq!(
        answer.worker_state,
        Health::MustDie,
        "its tasks are given away"
    );
    let suicide =
        |call: &Call| matches!(call, Call::RequestSuicide { worker, .. } if *worker == w.id);
    assert!(s.take_call(suicide).is_some());
    s.join(&other);
    assert!(s.starts().is_empty(), "the safety wait runs anew");
    let mut waited = secs(0);
    while s.starts().is_empty() {
        assert!(waited < secs(400), "it starts again some time");
        s.advance(secs(1));
        waited = s.now.since(restarted_at);
        s.heartbeat(&other, WorkerSetId::default()).unwrap();
        if let Some(message) = s.take_call(is_healthcheck) {
            s.complete(message.0, CallOutcome::Done(CallReply::Empty));
        }
    }
    let backoff = options().timeouts.lost_task_min_backoff(secs(0));
    assert!(waited >= backoff, "{waited:?}");
    let (_, again, _) = s.take_start();
    assert_ne!(again.invocation, task.invocation);
}

#[test]
fn an_earlier_run_does_not_take_back_what_a_later_one_has_done() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [1, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let set = s.heartbeat(&w, WorkerSetId::default()).unwrap().worker_set;
    let first = run_one(&mut s);
    let failed = ReportedStatus::error_backoff("x");
    s.update(&w, &first, failed.clone()).1.unwrap();
    s.advance(secs(1));
    let second = run_one(&mut s);
    assert!(second.invocation > first.invocation);
    s.update(&w, &second, ReportedStatus::done()).1.unwrap();
    // The acknowledgement of the first completion never arrived, so the worker still holds that completion.
    for ended in [None, Some(failed.clone())] {
        let mut s = Script::at(restarted(), s.durable.clone(), s.now);
        s.load(one_job(1, r#", "backoff": [1, "repeat"]"#));
        s.heartbeat(&w, set).unwrap();
        let mut old = first.clone();
        old.ended = ended;
        s.answer_fetch(vec![old]);
        assert_eq!(s.update(&w, &first, failed.clone()).1, Ok(()));
        s.advance(secs(5));
        assert_eq!(s.status().jobs[0].counts.done, 1);
        assert!(s.durable.statuses.values().all(|(_, s)| s.is_done()));
    }
}

#[test]
fn runs_of_a_task_are_in_order_even_if_the_clock_goes_back() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [1, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let first = run_one(&mut s);
    s.update(&w, &first, ReportedStatus::error_backoff("x"))
        .1
        .unwrap();
    let mut s = Script::at(restarted(), s.durable.clone(), Time::ZERO + secs(10));
    s.load(one_job(1, r#", "backoff": [1, "repeat"]"#));
    s.join(&worker("w", 1, 11));
    s.advance(secs(1));
    assert!(s.take_start().1.invocation > first.invocation);
}

#[test]
fn two_instances_of_one_seed_draw_different_runs() {
    let config = || one_job(1, "");
    let w = worker("w", 1, 10);
    let start = |durable: Durable| {
        let at = Time::ZERO + secs(1000);
        let mut s = Script::at(
            Options {
                startup_wait: Some(Duration::ZERO),
                ..options()
            },
            durable,
            at,
        );
        s.load(config());
        s.join(&w);
        (s.take_start().1.invocation, s.durable)
    };
    let (first, durable) = start(Durable::default());
    let (second, _) = start(durable);
    assert_ne!(first, second);
}

#[test]
fn an_end_that_is_listed_counts_at_once_and_is_acknowledged_when_it_is_reported() {
    let mut s = Script::with_config(one_job(2, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let set = s.heartbeat(&w, WorkerSetId::default()).unwrap().worker_set;
    let mut task = run_one(&mut s);
    let mut s = s.restart(restarted());
    s.load(one_job(2, ""));
    s.heartbeat(&w, set).unwrap();
    task.ended = Some(ReportedStatus::done());
    s.sync_at_once = false;
    s.answer_fetch(vec![task.clone()]);
    assert_eq!(s.status().jobs[0].counts.done, 1);
    let (after, result) = s.update(&w, &task, ReportedStatus::done());
    assert!(after.is_some() && result.is_ok());
    s.sync();
    assert!(
        s.durable
            .statuses
            .values()
            .all(|(i, s)| *i == task.invocation && s.is_done())
    );
}

#[test]
fn what_is_not_recorded_is_not_acknowledged() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [1, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let first = run_one(&mut s);
    // The first run was neither started here nor listed, and the second has an unknown job.
    for node in ["n9", "n0"] {
        let mut unknown = listed("w", node, InvocationId::new(1, 1));
        unknown.job = if node == "n9" {
            "j".try_into().unwrap()
        } else {
            "k".try_into().unwrap()
        };
        assert!(matches!(
            s.update(&w, &unknown, ReportedStatus::done()).1,
            Err(Rejection::UnknownRun { .. })
        ));
        assert_eq!(
            s.update(&w, &unknown, ReportedStatus::was_not_running()).1,
            Ok(())
        );
    }
    // The first run was abandoned, and the next one is under way.
    s.advance(secs(180));
    let other = worker("other", 2, 20);
    s.join(&other);
    for _ in 0..7 {
        s.advance(secs(10));
        s.heartbeat(&other, WorkerSetId::default()).unwrap();
    }
    let second = run_one(&mut s);
    assert!(matches!(
        s.update(&w, &first, ReportedStatus::done()).1,
        Err(Rejection::Superseded { .. })
    ));
    s.update(&other, &second, ReportedStatus::error_backoff("x"))
        .1
        .unwrap();
    assert_eq!(s.update(&w, &first, ReportedStatus::done()).1, Ok(()));
    s.advance(secs(5));
    assert!(s.starts().is_empty(), "done is done");
    assert!(s.durable.statuses.values().all(|(_, s)| s.is_done()));
}

#[test]
fn what_is_asked_about_a_run_that_ends_in_the_same_turn_names_its_shard() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    let now = s.now;
    s.scheduler.handle(
        now,
        Event::CallCompleted {
            call,
            outcome: CallOutcome::Unknown("timeout".to_owned()),
        },
    );
    s.update(&w, &task, ReportedStatus::done()).1.unwrap();
    let (_, message) = s
        .take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }))
        .unwrap();
    let Call::NotifyIfTasksNotRunning { tasks, .. } = message else {
        panic!("{message:?}")
    };
    assert_eq!(tasks[0].shard, w.shard);
    assert_eq!(
        s.update(&w, &tasks[0], ReportedStatus::was_not_running()).1,
        Ok(())
    );
}

#[test]
fn healthchecks_of_one_second_have_different_ids() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    let first = s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.answer_fetch(Vec::new());
    s.heartbeat(&w, first.worker_set).unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let call = s.calls.iter().find(|(_, _, call)| is_healthcheck(call));
        let Some((_, _, Call::Healthcheck(run))) = call else {
            panic!("a healthcheck is due: {:?}", s.calls)
        };
        seen.push(run.task.invocation);
        s.answer_healthcheck(&w);
        // The worker is HEALTHY and does not know that, so it gets another healthcheck within the same second.
        s.advance(Duration::from_millis(100));
    }
    assert_eq!(seen[0].0.start_time, seen[1].0.start_time);
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn no_call_leaves_before_the_instance_itself_is_recorded() {
    let now = Time::ZERO + secs(1000);
    let wall = WallTime::from_secs(EPOCH);
    let mut scheduler = Scheduler::new(options(), Durable::default(), now, wall);
    scheduler.handle(
        now,
        Event::Heartbeat {
            request: RequestId(1),
            from: Principal::Own,
            worker: Box::new(worker("w", 1, 10)),
            worker_set: WorkerSetId::default(),
            goodbye: false,
        },
    );
    let calls = |scheduler: &mut Scheduler, now| {
        scheduler.handle_timeout(now);
        let effects = std::iter::from_fn(|| scheduler.poll_effect());
        let calls = effects.filter(|effect| matches!(effect, Effect::Call { .. }));
        calls.collect::<Vec<_>>()
    };
    // Calls do not accumulate while the store fails either.
    for i in 0..100 {
        let now = now + secs(i);
        assert_eq!(calls(&mut scheduler, now), []);
        let wake = scheduler.poll_timeout();
        assert!(wake.is_none_or(|at| at > now), "it would spin: {wake:?}");
    }
    let now = now + secs(100);
    let up_to = RecordSeq(1);
    scheduler.handle(now, Event::Persisted { up_to });
    let calls = calls(&mut scheduler, now);
    assert_eq!(calls.len(), 2, "a fetch and a healthcheck: {calls:?}");
}

/// A healthcheck was on its way for two minutes. Its result is acknowledged, so the worker believes in its health from then on. The
/// scheduler does not, but it declares the loss only after the worker has given itself up.
#[test]
fn a_late_healthcheck_makes_nobody_healthy_and_the_loss_late() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let joined = s.now;
    let mut first = None;
    while s.now < joined + secs(200) {
        s.advance(secs(10));
        s.echo(&w);
        let check = s.take_call(|call| matches!(call, Call::Healthcheck(_)));
        if let Some((call, Call::Healthcheck(run))) = check {
            s.complete(call, CallOutcome::Unknown("no answer".to_owned()));
            first.get_or_insert(run.task);
        }
    }
    let health = |s: &mut Script| s.status().workers[0].health;
    assert_eq!(health(&mut s), Health::Unhealthy);
    let task = first.expect("a healthcheck was sent");
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    let accepted = s.now;
    assert_eq!(health(&mut s), Health::Unhealthy);
    // Its own heartbeats are too old after 75 s, and it ends itself 95 s later.
    s.advance((accepted + secs(75 + 100)).since(s.now));
    assert_eq!(health(&mut s), Health::Unhealthy);
    s.advance(secs(1));
    assert_eq!(health(&mut s), Health::MustDie);
}

/// A request that arrives twice is refused the second time. This refusal says nothing about the first.
#[test]
fn a_refused_duplicate_may_run() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    let duplicate = CallOutcome::Refused(RefusalCode::Duplicate, "known".to_owned());
    s.complete(call, duplicate);
    s.advance(secs(1));
    assert!(s.starts().is_empty(), "it may run");
    let ask = |call: &Call| matches!(call, Call::NotifyIfTasksNotRunning { .. });
    let asked = s.take_call(ask).expect("the worker is asked").0;
    s.complete(asked, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    assert_eq!(s.status().jobs[0].counts.done, 1);
}

#[test]
fn was_not_running_keeps_the_step_of_the_backoff() {
    let job = r#", "backoff": [1, 2, 4, "fail"]"#;
    let mut s = Script::with_config(one_job(1, job));
    let w = worker("w", 1, 10);
    s.join(&w);
    let first = run_one(&mut s);
    s.update(&w, &first, ReportedStatus::error_backoff("x"))
        .1
        .unwrap();
    s.advance(secs(1));
    let (call, second, _) = s.take_start();
    assert_eq!(second.next_backoff.seconds, 2);
    s.complete(call, CallOutcome::Unknown("timeout".to_owned()));
    s.update(&w, &second, ReportedStatus::was_not_running())
        .1
        .unwrap();
    // The backoff keeps its step over a restart, too.
    let mut s = s.restart(restarted());
    s.load(one_job(1, job));
    s.join(&worker("w", 1, 11));
    s.advance(secs(1));
    assert_eq!(s.take_start().1.next_backoff.seconds, 2);
}

#[test]
fn a_flood_of_newcomers_on_one_shard_makes_few_calls() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    for i in 0..1500 {
        let newcomer = worker("w", 2, 100 + i);
        assert!(s.heartbeat(&newcomer, WorkerSetId::default()).is_err());
        assert!(s.heartbeat(&newcomer, WorkerSetId::default()).is_err());
    }
    assert_eq!(count(&s, is_suicide), 1024);
    s.calls.clear();
    s.advance(secs(6));
    assert!(
        s.heartbeat(&worker("w", 2, 100), WorkerSetId::default())
            .is_err()
    );
    assert_eq!(count(&s, is_suicide), 1, "the old ones are given up");
}

#[test]
fn a_late_refusal_to_a_dead_instance_does_not_touch_its_successor() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    let (call, _, _) = s.take_start();
    let successor = worker("w", 1, 11);
    s.heartbeat(&successor, WorkerSetId::default()).unwrap();
    s.complete(
        call,
        CallOutcome::Refused(RefusalCode::WrongId, "not me".to_owned()),
    );
    assert!(s.starts().is_empty(), "it was lost, which takes its time");
    let left = s.records.iter().any(|r| {
        matches!(r, Record::WorkerLeft { cause: LeftCause::Replaced, tasks, .. } if tasks.len() == 1)
    });
    assert!(left);
}

#[test]
fn a_delayed_heartbeat_does_not_take_back_the_set_that_a_later_one_named() {
    let mut s = Script::with_config(one_job(1, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    let first = s.heartbeat(&a, WorkerSetId::default()).unwrap();
    s.heartbeat(&b, WorkerSetId::default()).unwrap();
    let second = s.heartbeat(&a, first.worker_set).unwrap();
    s.heartbeat(&a, second.worker_set).unwrap();
    // The heartbeat was sent earlier and is delivered now.
    s.heartbeat(&a, first.worker_set).unwrap();
    s.answer_fetch(Vec::new());
    s.answer_healthcheck(&a);
    assert_eq!(s.status().workers[0].health, Health::Healthy);
}

#[test]
fn a_worker_that_does_not_react_is_poked_once() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    let first = s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.answer_fetch(Vec::new());
    s.heartbeat(&w, first.worker_set).unwrap();
    s.answer_healthcheck(&w);
    assert_eq!(s.status().workers[0].health, Health::Healthy);
    let mut pokes = 0;
    for _ in 0..50 {
        s.advance(Duration::from_millis(200));
        if count(&s, is_healthcheck) > 0 {
            s.answer_healthcheck(&w);
            pokes += 1;
        }
    }
    assert_eq!(pokes, 1);
}

#[test]
fn a_lost_healthcheck_result_does_not_keep_others_from_being_sent() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    let first = s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.answer_fetch(Vec::new());
    s.heartbeat(&w, first.worker_set).unwrap();
    let (call, _) = s.take_call(is_healthcheck).unwrap();
    s.complete(
        call,
        CallOutcome::Refused(RefusalCode::Busy, "later".to_owned()),
    );
    s.advance(secs(1));
    s.answer_healthcheck(&w);
    s.advance(SETTLE);
    assert_eq!(s.status().workers[0].health, Health::Healthy);
    // The worker does not know yet that it is HEALTHY. The result of the refused healthcheck, which will never come, does not delay another
    // one.
    s.advance(Duration::from_millis(200));
    assert_eq!(count(&s, is_healthcheck), 1);
}

#[test]
fn a_long_unsure_list_is_asked_about_without_growing_pauses() {
    let mut s = Script::with_config(one_job(2500, ""));
    let mut w = worker("w", 1, 10);
    w.usable.cpu_cores = 2500.0;
    s.join(&w);
    let mut unsure = 0;
    while !s.starts().is_empty() {
        let (call, _, _) = s.take_start();
        s.complete(call, CallOutcome::Unknown("timeout".to_owned()));
        unsure += 1;
    }
    assert_eq!(unsure, 2500);
    let mut asked = 0;
    while let Some((call, message)) =
        s.take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }))
    {
        if let Call::NotifyIfTasksNotRunning { tasks, .. } = message {
            asked += tasks.len();
        }
        s.complete(call, CallOutcome::Done(CallReply::Empty));
    }
    assert!(asked >= 2500, "{asked} were asked about in one instant");
    assert_eq!(s.status().workers[0].unsure, 0);
}

#[test]
fn a_problem_is_as_long_as_people_read() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.complete(
        call,
        CallOutcome::Refused(RefusalCode::Busy, "x".repeat(1 << 20)),
    );
    assert!(s.status().errors.iter().all(|e| e.len() < 10_000));
}

#[test]
fn a_recorded_instance_that_says_it_is_new_is_not_taken_at_its_word() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    run_one(&mut s);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let mut relocked = w.clone();
    relocked.machine_lock.port = 99;
    let refused = s.heartbeat(&relocked, WorkerSetId::default());
    assert!(
        matches!(refused, Err(Rejection::IdentityChanged { .. })),
        "{refused:?}"
    );
    // The worker is lost in NEW, and the tasks that it was recorded with may run.
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.advance(secs(101));
    // Its own timers end it 296 s after its arrival.
    assert_eq!(s.durable.hold_back, secs(196));
}

#[test]
fn an_end_later_than_the_stored_one_is_no_repeat() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [100, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let task = run_one(&mut s);
    let failed = ReportedStatus::error_backoff("x");
    s.update(&w, &task, failed.clone()).1.unwrap();
    let mut later = task.clone();
    later.invocation.0.start_time += 1;
    assert!(matches!(
        s.update(&w, &later, failed.clone()).1,
        Err(Rejection::UnknownRun { .. })
    ));
    let mut earlier = task;
    earlier.invocation.0.start_time -= 1;
    assert_eq!(
        s.update(&w, &earlier, failed).1,
        Ok(()),
        "a repeat of what was taken long ago"
    );
}

#[test]
fn the_dead_are_forgotten_but_not_that_they_have_left() {
    let mut s = Script::with_config(one_job(1, ""));
    let (w, other) = (worker("w", 1, 10), worker("x", 2, 20));
    for w in [&w, &other] {
        s.join(w);
    }
    s.heartbeat_with(&w, WorkerSetId::default(), true).unwrap();
    // The time counts from a goodbye, of which nothing is shown, or from a loss.
    let known = options().timeouts.min_safe_wait();
    s.advance(secs(176));
    assert_eq!(s.status().workers[0].health, Health::MustDie);
    let lost = s.now;
    s.advance(known - secs(3));
    assert_eq!(s.status().workers.len(), 1);
    s.advance(secs(4));
    assert_eq!(s.status().workers.len(), 0);
    assert!(s.now.since(lost) > known);
    s.calls.clear();
    for late in [&w, &other] {
        let answer = s.heartbeat(late, WorkerSetId::default()).unwrap();
        assert_eq!(answer.worker_state, Health::MustDie);
    }
    assert_eq!(count(&s, is_suicide), 2);
    assert_eq!(s.status().workers.len(), 0);
    assert_eq!(s.scheduler.poll_timeout().filter(|at| *at <= s.now), None);
}

#[test]
fn another_protocol_version_is_shown_by_worker_and_host() {
    let mut s = Script::with_config(one_job(1, ""));
    for i in 0..1000 {
        let other = WorkerDescription {
            protocol_version: 1,
            ..worker(&format!("w{i}"), i, 10)
        };
        let refused = s.heartbeat(&other, WorkerSetId::default());
        assert!(matches!(refused, Err(Rejection::ProtocolVersion { .. })));
    }
    let errors = s.status().errors;
    assert!(errors.len() < 30, "{}", errors.len());
    let last = "0s ago: worker `w999` on host host is refused: it speaks protocol version 1";
    assert!(errors.iter().any(|e| e.starts_with(last)), "{errors:?}");
}

#[test]
fn a_worker_says_what_it_waits_for_and_what_it_lacks() {
    let mut s = Script::with_config(one_job(1, ""));
    let (a, slow) = (worker("a", 1, 10), worker("b", 2, 20));
    let slow = WorkerDescription {
        heartbeat_period: secs(500),
        ..slow
    };
    let waits = |s: &mut Script, at: usize| s.status().workers[at].waits_for.clone();
    let holds = |s: &mut Script, at: usize, text: &str| {
        let waits = waits(s, at).unwrap_or_default();
        assert!(waits.contains(text), "{waits}");
    };
    s.sync_at_once = false;
    let foreign = WorkerSetId {
        scheduler: SchedulerId::new(5, 5),
        standing: brasserie_common::Standing::Settled,
        ..WorkerSetId::default()
    };
    let first = s.heartbeat(&a, foreign).unwrap().worker_set;
    holds(&mut s, 0, "recorded on disk");
    s.sync_at_once = true;
    s.sync();
    holds(&mut s, 0, "which tasks it runs");
    s.answer_fetch(Vec::new());
    holds(&mut s, 0, "its first healthcheck");
    s.answer_healthcheck(&a);
    holds(&mut s, 0, "sent back a worker set of this scheduler");
    let second = s
        .heartbeat(&slow, WorkerSetId::default())
        .unwrap()
        .worker_set;
    s.answer_fetch(Vec::new());
    s.answer_healthcheck(&slow);
    s.heartbeat(&slow, second).unwrap();
    holds(&mut s, 1, "worker `a`, one of 1 that still hold");
    // The original protocol has no digest.
    let mut bare = first;
    bare.hash.digest = None;
    s.heartbeat(&a, bare).unwrap();
    let status = s.status();
    assert!(
        status.workers[0].notes[0].contains("without a digest"),
        "{status:?}"
    );
    assert!(
        status.workers[1].notes[0].contains("heartbeat period"),
        "{status:?}"
    );
    s.advance(secs(100));
    holds(&mut s, 0, "for a heartbeat; the last one came");
}

/// Returns what people see of the task on n0.
fn shown_of_n0(s: &mut Script) -> (Counts, Option<StoredStatus>) {
    let counts = s.status().jobs[0].counts;
    let (job, limit) = ("j".to_owned(), 10);
    match s.scheduler.answer(s.now, &Query::Unfinished { job, limit }) {
        Answer::Unfinished(views) => (counts, views[0].status.clone()),
        other => panic!("{other:?}"),
    }
}

/// A refusal is no run: the task shows only stored completions, and its next run receives none.
#[test]
fn a_task_that_was_refused_and_never_ran_is_shown_as_one_that_never_ran() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    let code = RefusalCode::Unspecified;
    s.complete(call, CallOutcome::Refused(code, "no room".to_owned()));
    let errors = s.status().errors;
    assert!(errors.iter().any(|e| e.contains("no room")), "{errors:?}");
    let shown = shown_of_n0(&mut s);
    assert_eq!((shown.0.unstarted, &shown.1), (1, &None));
    // A scheduler that starts on the stored state shows the same.
    let options = Options {
        startup_wait: Some(Duration::ZERO),
        ..restarted()
    };
    let mut again = Script::at(options, s.durable.clone(), s.now);
    again.load(one_job(1, ""));
    assert_eq!(shown_of_n0(&mut again), shown);
    s.advance(secs(1));
    let (_, message) = s
        .take_call(|call| matches!(call, Call::RunTask(_)))
        .expect("it is tried again");
    let Call::RunTask(run) = message else {
        panic!("a start is a runTask")
    };
    assert!(!run.config.contains("prev_status"), "{}", run.config);
}

/// The tasks come from a scheduler whose directory was lost. Their fences are larger than any that the next scheduler's clock gives.
#[test]
fn a_reported_fence_raises_the_generation_before_anything_starts() {
    let mut s = Script::with_config(one_job(3, ""));
    let own = s.durable.fence_generation;
    assert!(own.0 >= u32::try_from(EPOCH).unwrap(), "{own:?}");
    let w = worker("w", 1, 10);
    let first = s.heartbeat(&w, WorkerSetId::default());
    assert!(first.is_ok());
    s.sync_at_once = false;
    let reported = Fence::new(FenceGeneration(own.0 + 7), 5);
    let ended = RunningTask {
        fence: Some(reported),
        ended: Some(ReportedStatus::done()),
        ..listed("w", "n1", InvocationId::new(1, 1))
    };
    s.answer_fetch(vec![ended]);
    let raised = Record::FenceRaised {
        generation: FenceGeneration(own.0 + 8),
    };
    assert!(s.records.contains(&raised), "{:?}", s.records);
    s.answer_healthcheck(&w);
    s.echo(&w);
    s.advance(SETTLE);
    assert_eq!(s.starts(), [], "the generation is not durable");
    s.sync_at_once = true;
    s.sync();
    s.advance(SETTLE);
    let fences: Vec<_> = s.starts().into_iter().map(|task| task.fence).collect();
    assert!(!fences.is_empty());
    assert!(
        fences.iter().all(|fence| *fence > Some(reported)),
        "{fences:?}"
    );
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    let restarted = Scheduler::new(options(), s.durable.clone(), s.now, WallTime::from_secs(5));
    let mut restarted = restarted;
    let record = restarted.poll_effect();
    let Some(Effect::Persist {
        record: Record::SchedulerStarted { generation, .. },
        ..
    }) = record
    else {
        panic!("the first effect is its own record, not {record:?}");
    };
    assert_eq!(
        generation,
        FenceGeneration(own.0 + 9),
        "whatever the clock says"
    );
}

/// A used-up generation is followed by the next one, which is durable before another task starts.
#[test]
fn a_used_up_generation_holds_tasks_back_until_the_next_one_is_durable() {
    let mut s = Script::new(options(), Durable::default());
    s.scheduler = s.scheduler.clone().with_runs_per_generation(1);
    s.load(one_job(3, ""));
    let own = s.durable.fence_generation;
    let w = worker("w", 1, 10);
    let first = s.heartbeat(&w, WorkerSetId::default());
    assert!(first.is_ok());
    s.answer_fetch(Vec::new());
    s.answer_healthcheck(&w);
    s.sync_at_once = false;
    s.echo(&w);
    s.advance(SETTLE);
    let fences = |s: &Script| -> Vec<_> { s.starts().into_iter().map(|t| t.fence).collect() };
    let of = |more: u32| Some(Fence::new(FenceGeneration(own.0 + more), 1));
    assert_eq!(fences(&s), [of(0)]);
    s.sync();
    assert_eq!(fences(&s), [of(0), of(1)], "two slots");
}
