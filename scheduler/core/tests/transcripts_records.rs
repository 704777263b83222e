//! Scenarios about the durable record: wrong conclusions that a scheduler must not draw after a crash, from an old backup, or from lowered
//! flags.

mod support;

use std::time::Duration;

use brasserie_common::{
    CallOutcome, Health, Principal, SchedulerId, Standing, Time, Timeouts, WorkerDescription,
    WorkerSetId,
};
use brasserie_scheduler_core::{
    Call, CallReply, Durable, Effect, Event, ForgetRefusal, Options, Record, Rejection, Reply,
    Scheduler,
};

use support::{Script, listed, one_job, options, worker};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn restarted() -> Options {
    Options {
        new_cluster: false,
        ..options()
    }
}

fn with(timeouts: Timeouts) -> Options {
    Options {
        timeouts,
        ..restarted()
    }
}

fn safety_seconds(records: &[Record]) -> Vec<u32> {
    let left = records.iter().filter_map(|record| match record {
        Record::WorkerLeft { tasks, .. } => Some(tasks),
        Record::SchedulerStarted { .. }
        | Record::FenceRaised { .. }
        | Record::WorkerAssociated { .. }
        | Record::HoldBack { .. }
        | Record::HoldBackOver
        | Record::TaskEnded(_)
        | Record::JobSaved { .. }
        | Record::JobDeleted { .. }
        | Record::JobHeld { .. }
        | Record::JobResumed { .. }
        | Record::TasksForgiven { .. }
        | Record::HistoryDeleted { .. }
        | Record::HistoryTrimmed(_)
        | Record::OutputsExpired { .. }
        | Record::OutputsForgotten { .. }
        | Record::WorkerOrdered { .. }
        | Record::ConfigKept { .. }
        | Record::TimesGiven { .. } => None,
    });
    left.flatten()
        .map(|task| task.status.safety_seconds)
        .collect()
}

fn is_waiting(s: &mut Script) -> bool {
    s.status().wait_ended.is_none()
}

#[test]
fn no_prefix_of_its_first_records_makes_a_new_directory_trusted() {
    let first = Script::new(restarted(), Durable::default());
    assert!(!first.records.is_empty());
    for kept in 0..=first.records.len() {
        let mut durable = Durable::default();
        for record in &first.records[..kept] {
            durable.apply(record);
        }
        let mut s = Script::new(restarted(), durable);
        s.load(one_job(1, ""));
        s.join(&worker("w", 1, 10));
        assert!(
            s.starts().is_empty(),
            "after {kept} records: {:?}",
            s.status()
        );
    }
}

#[test]
fn every_answer_to_a_new_instance_waits_for_its_record() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.sync_at_once = false;
    let mut waits_for = Vec::new();
    for _ in 0..2 {
        let request = s.request();
        s.event(Event::Heartbeat {
            request,
            from: Principal::Own,
            worker: Box::new(w.clone()),
            worker_set: WorkerSetId::default(),
            goodbye: false,
        });
        waits_for.push(s.reply_to(request).0);
        s.advance(secs(11));
    }
    assert!(waits_for[0].is_some());
    assert_eq!(waits_for[0], waits_for[1]);
}

/// A directory whose wait was interrupted waits again, while its only worker is back.
#[test]
fn a_set_is_not_settled_while_an_interrupted_wait_runs_anew() {
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    let a = worker("a", 1, 10);
    let first = s.heartbeat(&a, WorkerSetId::default()).unwrap().worker_set;
    s.answer_fetch(Vec::new());
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    s.heartbeat(&a, first).unwrap();
    let running = listed("a", "n0", brasserie_common::InvocationId::new(3, 3));
    s.answer_fetch(vec![running]);
    let set = s.heartbeat(&a, first).unwrap().worker_set;
    assert_eq!(set.standing, Standing::Unsettled);
    let mut waited = secs(0);
    while s.heartbeat(&a, set).unwrap().worker_set.standing == Standing::Unsettled {
        s.advance(secs(10));
        waited += secs(10);
        assert!(waited < secs(2000), "it ends some time");
    }
    assert!(
        waited + secs(10) >= restarted().timeouts.min_safe_wait(),
        "{waited:?}"
    );
}

#[test]
fn a_worker_that_the_record_lacks_shows_that_it_is_an_old_backup() {
    let mut s = Script::with_config(one_job(1, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 20));
    s.join(&a);
    let backup = s.durable.clone();
    s.join(&b);
    let (of_a, of_b) = (s.told[&a.id].1, s.told[&b.id].1);
    // The same scheduler instance gave both ids, so the ids alone prove nothing.
    let mut s = Script::at(restarted(), backup, s.now);
    s.load(one_job(1, ""));
    s.heartbeat(&b, of_b).unwrap();
    s.heartbeat(&a, of_a).unwrap();
    while s
        .calls
        .iter()
        .any(|(_, _, call)| matches!(call, Call::GetRunningTasks { .. }))
    {
        s.answer_fetch(Vec::new());
    }
    assert!(is_waiting(&mut s));
    let message = s.status().initial_wait.expect("it waits");
    assert!(message.contains("an old backup"), "{message}");
}

#[test]
fn a_longer_kill_wait_of_an_earlier_scheduler_is_kept_beside_longer_gaps_of_a_later_one() {
    let usual = options().timeouts;
    let slow_kill = Timeouts {
        suicide_task_kill_wait: secs(600),
        ..usual
    };
    let slow_loss = Timeouts {
        lose_unhealthy_worker_after: secs(1000),
        ..usual
    };
    let w = worker("w", 1, 10);
    let mut s = Script::new(
        Options {
            timeouts: slow_kill,
            ..options()
        },
        Durable::default(),
    );
    s.load(one_job(1, ""));
    s.join(&w);
    let set = s.told[&w.id].1;
    let mut s = s.restart(with(slow_loss));
    s.heartbeat(&w, set).unwrap();
    let recorded = s.durable.instances[&w.id].timeouts;
    assert_eq!(recorded.suicide_task_kill_wait, secs(600));
    assert_eq!(recorded.lose_unhealthy_worker_after, secs(1000));
}

fn unhealthy_with_a_task(options: Options) -> (Script, WorkerDescription) {
    let mut s = Script::new(options, Durable::default());
    s.load(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.advance(secs(80));
    assert_eq!(s.status().workers[0].health, Health::Unhealthy);
    (s, w)
}

#[test]
fn a_bumped_instance_has_the_time_of_its_own_kill_waits() {
    let slow_kill = Timeouts {
        suicide_task_kill_wait: secs(300),
        ..options().timeouts
    };
    let (mut s, _) = unhealthy_with_a_task(Options {
        timeouts: slow_kill,
        allow_bump_unhealthy_worker: true,
        ..options()
    });
    s.heartbeat(&worker("w", 2, 20), WorkerSetId::default())
        .unwrap();
    let expected = u32::try_from(slow_kill.min_safe_wait().as_secs()).unwrap();
    assert_eq!(safety_seconds(&s.records), [expected]);
}

#[test]
fn of_two_instances_of_one_second_the_displaced_one_may_live() {
    for shard in ["w", "another"] {
        let (mut s, w) = unhealthy_with_a_task(options());
        let twin = WorkerDescription {
            id: brasserie_common::WorkerId::new(w.id.0.start_time, 99),
            shard: brasserie_common::Shard::try_from(shard).unwrap(),
            ..w.clone()
        };
        s.heartbeat(&twin, WorkerSetId::default()).unwrap();
        let expected = u32::try_from(options().timeouts.min_safe_wait().as_secs()).unwrap();
        assert_eq!(safety_seconds(&s.records), [expected], "{shard}");
        let suicide =
            |call: &Call| matches!(call, Call::RequestSuicide { worker, .. } if *worker == w.id);
        assert!(s.take_call(suicide).is_some());
    }
}

#[test]
fn a_refused_newcomer_is_let_in_only_when_it_can_no_longer_be_told_to_die() {
    let (mut s, w) = unhealthy_with_a_task(options());
    let n = worker("w", 2, 20);
    let refused = s.heartbeat(&n, WorkerSetId::default());
    assert!(
        matches!(refused, Err(Rejection::ShardTaken { .. })),
        "{refused:?}"
    );
    let suicide =
        |call: &Call| matches!(call, Call::RequestSuicide { worker, .. } if *worker == n.id);
    let open = s.take_call(suicide).expect("it is told to die").0;
    s.heartbeat_with(&w, WorkerSetId::default(), true).unwrap();
    let refused = s.heartbeat(&n, WorkerSetId::default());
    assert_eq!(
        refused.err(),
        Some(Rejection::AskedToDie { instance: n.id })
    );
    s.complete(open, CallOutcome::Unknown("no answer".to_owned()));
    assert_eq!(
        s.heartbeat(&n, WorkerSetId::default())
            .unwrap()
            .worker_state,
        Health::New
    );
}

#[test]
fn the_first_record_is_that_of_the_instance() {
    let now = brasserie_common::Time::ZERO + secs(1);
    let wall = brasserie_common::WallTime::from_secs(support::EPOCH);
    let mut scheduler = Scheduler::new(restarted(), Durable::default(), now, wall);
    let Some(Effect::Persist { seq, record }) = scheduler.poll_effect() else {
        panic!("it records itself before all else");
    };
    assert_eq!(seq.0, 1);
    let wait = restarted().timeouts.min_safe_wait();
    assert!(
        matches!(record, Record::SchedulerStarted { wait: w, .. } if w == wait),
        "{record:?}"
    );
}

/// All workers are back and the record looks complete, but it is a backup.
#[test]
fn a_restored_backup_is_waited_out_whoever_comes_back() {
    let slow = Timeouts {
        lose_unhealthy_worker_after: secs(1000),
        ..options().timeouts
    };
    let mut s = Script::new(
        Options {
            timeouts: slow,
            ..options()
        },
        Durable::default(),
    );
    s.load(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let of_w = s.told[&w.id].1;
    let backup = s.durable.clone();
    for knows_a_later_scheduler in [false, true] {
        let durable = backup.clone().restored_from_a_backup();
        let mut s = Script::at(restarted(), durable, s.now);
        s.load(one_job(1, ""));
        // A crash during the wait, and a start without the flag, begin the wait anew.
        s.advance(secs(600));
        let mut s = s.restart(restarted());
        s.load(one_job(1, ""));
        let start = s.now;
        let set = if knows_a_later_scheduler {
            WorkerSetId {
                scheduler: brasserie_common::SchedulerId::new(i64::MAX, 1),
                ..of_w
            }
        } else {
            of_w
        };
        s.heartbeat(&w, set).unwrap();
        s.answer_fetch(vec![listed(
            "w",
            "n1",
            brasserie_common::InvocationId::new(5, 5),
        )]);
        let mut waited = secs(0);
        while s.status().initial_wait.is_some() {
            s.advance(secs(10));
            s.echo(&w);
            waited = s.now.since(start);
            assert!(waited < secs(3000));
        }
        // The longer time is that of the backup's record.
        assert!(waited >= slow.min_safe_wait(), "{waited:?}");
    }
}

#[test]
fn a_restored_backup_is_never_void_and_says_what_it_waits_for() {
    // The flag holds even for an empty directory, and with a worker that shows the directory to be old.
    let durable = Durable::default().restored_from_a_backup();
    let mut s = Script::new(options(), durable);
    s.load(one_job(1, ""));
    let foreign = WorkerSetId {
        scheduler: brasserie_common::SchedulerId::new(5, 5),
        standing: Standing::Settled,
        ..WorkerSetId::default()
    };
    s.advance(options().timeouts.min_safe_wait() - secs(10));
    s.heartbeat(&worker("w", 1, 10), foreign).unwrap();
    let message = s.status().initial_wait.expect("it waits");
    assert!(message.contains("--after-restoring-a-backup"), "{message}");
    // The status still names the missing workers after that time.
    s.advance(secs(10));
    let message = s.status().initial_wait.expect("it waits");
    assert!(
        message.contains("(`w`) has reported running tasks"),
        "{message}"
    );
    // Fetches that were abandoned are answered, too.
    let is_fetch = |call: &Call| matches!(call, Call::GetRunningTasks { .. });
    while s.calls.iter().any(|(_, _, call)| is_fetch(call)) {
        s.answer_fetch(Vec::new());
    }
    assert_eq!(
        s.status().wait_ended.as_deref(),
        Some("the safe wait is over")
    );
}

/// A scheduler that starts at `now` on a directory with one instance. `bound` is the time since which the instance is known to be
/// unanswered.
fn restarted_with_bound(now: Time, bound: Option<Time>) -> Script {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let answered = bound.into_iter().map(|until| (w.id, until)).collect();
    let durable = s.durable.clone().last_answered(answered);
    let restarted = Options {
        new_cluster: false,
        ..options()
    };
    let mut s = Script::at(restarted, durable, now);
    s.load(one_job(1, ""));
    s
}

#[test]
fn a_wait_counts_from_when_the_instance_was_last_answered() {
    let safe = options().timeouts.min_safe_wait();
    let at = |secs| Time::ZERO + Duration::from_secs(secs);
    let start = at(10_000);
    let left = |s: &mut Script| {
        let mut left = Duration::ZERO;
        while s.status().initial_wait.is_some() {
            s.advance(Duration::from_secs(1));
            left += Duration::from_secs(1);
        }
        left
    };
    assert_eq!(left(&mut restarted_with_bound(start, None)), safe);
    let a_minute_ago = at(10_000 - 60);
    let minute = Duration::from_secs(60);
    let mut s = restarted_with_bound(start, Some(a_minute_ago));
    assert_eq!(left(&mut s), safe - minute);
    // No other scheduler has answered later than at this one's start.
    let later = Some(start + minute);
    assert_eq!(left(&mut restarted_with_bound(start, later)), safe);
    let long_ago = Some(at(1));
    assert_eq!(
        left(&mut restarted_with_bound(start, long_ago)),
        Duration::ZERO
    );
}

#[test]
fn after_a_restart_nobody_declares_a_worker_dead_that_was_answered_within_the_loss_time() {
    let loss = options().timeouts.lose_unhealthy_worker_after;
    let start = Time::ZERO + secs(10_000);
    let w = worker("w", 1, 10);
    // Returns how long after its start the restarted scheduler accepts the declaration.
    let accepted_after = |bound: Option<Time>| {
        let mut s = restarted_with_bound(start, bound);
        loop {
            let request = s.request();
            s.event(Event::ForgetWorker {
                request,
                from: Principal::Own,
                shard: w.shard.clone(),
                confirmed: Vec::new(),
            });
            match s.reply_to(request).1 {
                Reply::WorkerForgotten(Ok(_)) => return s.now.since(start),
                Reply::WorkerForgotten(Err(ForgetRefusal::AnsweredBefore {
                    ago,
                    accepted_in,
                    ..
                })) => {
                    assert_eq!(ago, s.now.since(bound.unwrap_or(start)));
                    s.advance(accepted_in);
                }
                other => panic!("a refusal that says when to try again, not {other:?}"),
            }
        }
    };
    assert_eq!(accepted_after(None), loss);
    assert_eq!(
        accepted_after(Some(Time::ZERO + secs(9_950))),
        loss - secs(50)
    );
    // A living worker that could not reach a scheduler for long reports within a heartbeat period.
    let long_ago = Time::ZERO + secs(9_890);
    assert_eq!(accepted_after(Some(long_ago)), secs(15));
}

#[test]
fn an_instance_that_is_answered_again_has_no_bound_any_more() {
    let start = Time::ZERO + Duration::from_secs(10_000);
    // The instance has been dead for so long that nothing of it is left.
    let long_ago = Time::ZERO + Duration::from_secs(9_000);
    let dead = restarted_with_bound(start, Some(long_ago));
    assert_eq!(dead.scheduler.unanswered().count(), 0);
    let since = Time::ZERO + Duration::from_secs(9_950);
    let mut s = restarted_with_bound(start, Some(since));
    let w = worker("w", 1, 10);
    assert_eq!(
        s.scheduler.unanswered().collect::<Vec<_>>(),
        [(w.id, since)]
    );
    let version = s.scheduler.unanswered_version();
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    assert_eq!(s.scheduler.unanswered().count(), 0);
    assert_ne!(s.scheduler.unanswered_version(), version);
}

#[test]
fn a_stale_record_has_no_bounds() {
    let start = Time::ZERO + Duration::from_secs(10_000);
    let since = Time::ZERO + Duration::from_secs(9_990);
    let mut s = restarted_with_bound(start, Some(since));
    let foreign = WorkerSetId {
        scheduler: SchedulerId::new(5, 5),
        version: 3,
        ..WorkerSetId::default()
    };
    let _ = s.heartbeat(&worker("other", 2, 20), foreign);
    let id = worker("w", 1, 10).id;
    assert_eq!(s.scheduler.unanswered().collect::<Vec<_>>(), [(id, start)]);
    s.advance(options().timeouts.min_safe_wait() - Duration::from_secs(1));
    assert!(s.status().initial_wait.is_some());
}
