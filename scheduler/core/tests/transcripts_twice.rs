//! Tests of two workers that list one task: an unacknowledged completion on one and the next run on the other, or two live runs.

mod support;

use std::time::Duration;

use brasserie_common::resources::{NodeResources, ResourceAmount};
use brasserie_common::{
    BackoffDuration, CallOutcome, InvocationId, Principal, ReportedStatus, RunningTask,
    SchedulerId, WorkerDescription, WorkerSetId,
};
use brasserie_scheduler_core::{Durable, Event, JobChange, JobChanged, Options, Rejection, Reply};

use support::{SETTLE, Script, config, listed, one_job, options, worker};

const RETRY: &str = r#", "backoff": [1, "repeat"]"#;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn first_run() -> InvocationId {
    InvocationId::new(100, 1)
}

fn second_run() -> InvocationId {
    InvocationId::new(200, 2)
}

fn ended(task: RunningTask, status: ReportedStatus) -> RunningTask {
    RunningTask {
        ended: Some(status),
        ..task
    }
}

fn impatience() -> Options {
    Options {
        startup_wait: Some(Duration::ZERO),
        new_cluster: false,
        ..options()
    }
}

/// A scheduler that was told not to wait, and that gets workers of an earlier scheduler.
fn impatient() -> Script {
    let mut s = Script::new(impatience(), Durable::default());
    s.load(one_job(1, RETRY));
    s
}

/// Lets the worker associate and list these tasks.
fn meet(s: &mut Script, w: &WorkerDescription, tasks: Vec<RunningTask>) {
    let set = WorkerSetId {
        scheduler: SchedulerId::new(5, 5),
        version: 3,
        ..WorkerSetId::default()
    };
    s.heartbeat(w, set).expect("a free shard");
    s.answer_fetch(tasks);
}

/// Makes the worker HEALTHY.
fn heal(s: &mut Script, w: &WorkerDescription) {
    let set = s
        .heartbeat(w, WorkerSetId::default())
        .expect("known")
        .worker_set;
    s.answer_healthcheck(w);
    s.heartbeat(w, set).expect("known");
    s.advance(SETTLE);
}

fn counts(s: &mut Script) -> (u64, u64, u64) {
    let counts = s.status().jobs[0].counts;
    (counts.running, counts.done, counts.total)
}

fn workers() -> [WorkerDescription; 3] {
    [worker("a", 1, 10), worker("b", 2, 20), worker("c", 3, 30)]
}

#[test]
fn an_end_on_one_and_the_next_run_on_the_other_is_ordinary() {
    let failed = || ReportedStatus::error_backoff("x");
    for end_first in [true, false] {
        let mut s = impatient();
        let [a, b, c] = workers();
        let old = ended(listed("a", "n0", first_run()), failed());
        let new = listed("b", "n0", second_run());
        if end_first {
            meet(&mut s, &a, vec![old.clone()]);
            meet(&mut s, &b, vec![new.clone()]);
        } else {
            meet(&mut s, &b, vec![new.clone()]);
            meet(&mut s, &a, vec![old.clone()]);
        }
        s.join(&c);
        assert_eq!(counts(&mut s), (1, 0, 1));
        let errors = s.status().errors;
        assert!(
            errors.iter().all(|e| !e.contains("runs twice")),
            "{errors:?}"
        );
        // A scheduler that starts on the stored state sees the same.
        let mut again = Script::at(impatience(), s.durable.clone(), s.now).restart(impatience());
        again.load(one_job(1, RETRY));
        meet(&mut again, &b, vec![new.clone()]);
        meet(&mut again, &a, vec![old.clone()]);
        assert_eq!(counts(&mut again), (1, 0, 1));
        // The completion is stored, so its report is a repeat, and the run goes on.
        assert_eq!(s.update(&a, &old, failed()).1, Ok(()));
        s.advance(secs(5));
        assert!(s.starts().is_empty(), "it runs on b");
        assert_eq!(s.update(&b, &new, ReportedStatus::done()).1, Ok(()));
        assert_eq!(counts(&mut s), (0, 1, 1));
        let (of, status) = s.durable.statuses.values().next().expect("stored");
        assert!(*of == second_run() && status.is_done());
    }
}

#[test]
fn done_is_done_although_a_further_run_is_alive() {
    let failed = || ReportedStatus::error_backoff("x");
    for (done_run, live_run) in [(first_run(), second_run()), (second_run(), first_run())] {
        for end_first in [true, false] {
            let mut s = impatient();
            let [a, b, c] = workers();
            let done = ended(listed("a", "n0", done_run), ReportedStatus::done());
            let live = listed("b", "n0", live_run);
            if end_first {
                meet(&mut s, &a, vec![done.clone()]);
                meet(&mut s, &b, vec![live.clone()]);
            } else {
                meet(&mut s, &b, vec![live.clone()]);
                meet(&mut s, &a, vec![done.clone()]);
            }
            s.join(&c);
            assert_eq!(s.update(&a, &done, ReportedStatus::done()).1, Ok(()));
            assert_eq!(counts(&mut s).0, 1, "the other one is alive");
            // No report of the further run undoes DONE, now or after a restart.
            assert_eq!(s.update(&b, &live, failed()).1, Ok(()));
            s.advance(secs(5));
            assert_eq!(counts(&mut s), (0, 1, 1));
            assert!(s.starts().is_empty());
            assert!(s.durable.statuses.values().all(|(_, s)| s.is_done()));
        }
    }
}

#[test]
fn the_end_of_an_earlier_run_does_not_replace_that_of_a_later_one() {
    let mut s = impatient();
    let [a, b, _] = workers();
    let new = ended(listed("b", "n0", second_run()), ReportedStatus::failed());
    let old = ended(
        listed("a", "n0", first_run()),
        ReportedStatus::error_backoff("x"),
    );
    meet(&mut s, &b, vec![new]);
    meet(&mut s, &a, vec![old]);
    let (of, status) = s.durable.statuses.values().next().expect("stored");
    assert!(*of == second_run() && status.is_failed());
}

#[test]
fn two_live_runs_are_shown_and_no_third_one_starts_until_both_have_ended() {
    let failed = || ReportedStatus::error_backoff("x");
    for earlier_ends_first in [true, false] {
        let mut s = impatient();
        let [a, b, c] = workers();
        let (one, two) = (
            listed("a", "n0", first_run()),
            listed("b", "n0", second_run()),
        );
        meet(&mut s, &a, vec![one.clone()]);
        meet(&mut s, &b, vec![two.clone()]);
        for w in [&a, &b] {
            heal(&mut s, w);
        }
        s.join(&c);
        let shown = s.status();
        assert!(
            shown.errors.iter().any(|e| e.contains("runs twice")),
            "{:?}",
            shown.errors
        );
        let running: Vec<usize> = shown.workers.iter().map(|w| w.running).collect();
        assert_eq!(running, [1, 1, 0]);
        let (w, task) = if earlier_ends_first {
            (&a, &one)
        } else {
            (&b, &two)
        };
        assert_eq!(s.update(w, task, failed()).1, Ok(()));
        assert_eq!(counts(&mut s), (1, 0, 1), "the other one runs");
        assert!(s.status().errors.iter().all(|e| !e.contains("runs twice")));
        s.advance(secs(5));
        assert!(s.starts().is_empty(), "the other one runs");
        let (w, task) = if earlier_ends_first {
            (&b, &two)
        } else {
            (&a, &one)
        };
        assert_eq!(s.update(w, task, failed()).1, Ok(()));
        s.advance(secs(16));
        assert_eq!(s.starts().len(), 1, "both have ended");
    }
}

#[test]
fn the_loss_of_one_of_two_live_runs_keeps_its_safety_wait() {
    let mut s = impatient();
    let [a, b, c] = workers();
    meet(&mut s, &a, vec![listed("a", "n0", first_run())]);
    let (_, told) = s.told[&a.id];
    s.heartbeat(&a, told).expect("refreshed");
    let two = listed("b", "n0", second_run());
    s.advance(secs(95));
    meet(&mut s, &b, vec![two.clone()]);
    // Worker a is silent after it received an answer, and is lost. Its processes may live for the safety time.
    s.advance(secs(6));
    let health = |s: &mut Script| s.status().workers[0].health;
    assert_eq!(health(&mut s), brasserie_common::Health::MustDie);
    assert_eq!(counts(&mut s), (1, 0, 1), "it runs on b");
    let failed = ReportedStatus::error_backoff("x");
    assert_eq!(s.update(&b, &two, failed).1, Ok(()));
    let (_, status) = s.durable.statuses.values().next().expect("stored");
    assert!(status.safety_seconds >= 60, "{status:?}");
    assert_eq!(status.configured_backoff().seconds, 15, "the step stays");
    heal(&mut s, &b);
    s.advance(secs(55));
    s.join(&c);
    assert!(s.starts().is_empty(), "the lost run may be alive");
    s.advance(secs(12));
    assert_eq!(s.starts().len(), 1);
}

/// A scheduler whose second run of n0 was lost, and whose first run, which a lists, is done.
fn done_while_a_later_run_is_lost() -> Script {
    let mut s = impatient();
    let [a, b, _] = workers();
    let two = RunningTask {
        next_backoff: BackoffDuration {
            no_more_backoffs: true,
            seconds: 60,
            times: 1,
        },
        ..listed("b", "n0", second_run())
    };
    meet(&mut s, &b, vec![two]);
    let (_, told) = s.told[&b.id];
    s.heartbeat(&b, told).expect("refreshed");
    s.advance(secs(101));
    let stored = |s: &Script| s.durable.statuses.values().next().cloned().expect("stored");
    let (of, status) = stored(&s);
    assert!(of == second_run() && status.is_failed(), "{status:?}");
    let one = ended(listed("a", "n0", first_run()), ReportedStatus::done());
    meet(&mut s, &a, vec![one]);
    let (of, status) = stored(&s);
    // The completion counts for the latest run, so that its deletion deletes both.
    assert!(of == second_run() && status.is_done(), "{status:?}");
    s
}

/// The lost run had no retries left, so no start was waiting when the earlier run was listed.
#[test]
fn a_run_that_was_lost_for_good_is_waited_for_when_an_earlier_one_is_done() {
    let s = done_while_a_later_run_is_lost();
    let (_, status) = s.durable.statuses.values().next().expect("stored");
    assert!(status.safety_seconds >= 60, "{status:?}");
}

/// Deletes the history of all tasks. Returns how many lost theirs, and how many were left alone because they may be alive.
fn delete_history(s: &mut Script) -> (u64, u64) {
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: "j".try_into().expect("a name"),
        change: JobChange::DeleteHistory { nodes: Vec::new() },
    });
    match s.reply_to(request).1 {
        Reply::JobChanged(Ok(JobChanged::HistoryDeleted {
            tasks, maybe_alive, ..
        })) => (tasks, maybe_alive),
        other => panic!("{other:?}"),
    }
}

/// No start waits while the task is done, but without history the task would start beside its lost run.
#[test]
fn a_clock_that_is_set_does_not_shorten_the_wait_of_a_task_that_is_done() {
    let mut s = done_while_a_later_run_is_lost();
    assert_eq!(delete_history(&mut s), (0, 1));
    s.clock_is_ahead = secs(100_000);
    assert_eq!(delete_history(&mut s), (0, 1));
    // The next scheduler waits anew in full, and does not know the true time either.
    let mut s = s.restart(impatience());
    s.load(one_job(1, RETRY));
    s.clock_is_ahead = secs(100_000);
    assert_eq!(delete_history(&mut s), (0, 1));
    s.advance(secs(59));
    assert_eq!(delete_history(&mut s), (0, 1));
    s.advance(secs(8));
    assert_eq!(delete_history(&mut s), (1, 0));
}

#[test]
fn a_start_that_is_refused_leaves_the_run_that_another_worker_lists() {
    let mut s = Script::with_config(one_job(1, RETRY));
    let [a, b, _] = workers();
    s.join(&a);
    let (call, ours, _) = s.take_start();
    let theirs = listed("b", "n0", first_run());
    let set = s.status().scheduler;
    s.heartbeat(
        &b,
        WorkerSetId {
            scheduler: set,
            ..WorkerSetId::default()
        },
    )
    .expect("a free shard");
    s.answer_fetch(vec![theirs.clone()]);
    let busy = brasserie_common::RefusalCode::Busy;
    s.complete(call, CallOutcome::Refused(busy, "full".to_owned()));
    s.advance(secs(2));
    assert_eq!(counts(&mut s), (1, 0, 1));
    assert!(s.starts().is_empty(), "it runs on b");
    let unknown = s.update(&a, &ours, ReportedStatus::done());
    assert!(
        matches!(unknown.1, Err(Rejection::UnknownRun { .. })),
        "{unknown:?}"
    );
    assert_eq!(s.update(&b, &theirs, ReportedStatus::done()).1, Ok(()));
    assert_eq!(counts(&mut s), (0, 1, 1));
}

#[test]
fn each_of_two_runs_holds_its_slots() {
    let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [{"source": "manual", "prefs": {"n0": []}}]},
        "resources": {"l": {"lock": {"default": 1, "limit": 2}}}},
        "bistro_job->j": {"owner": "o", "command": ["/bin/true"]}, "bistro_job->k": {"owner": "o", "command": ["/bin/true"]}}"#;
    let mut s = Script::new(impatience(), Durable::default());
    s.load(config(text));
    let [a, b, c] = workers();
    let run = |shard, invocation| RunningTask {
        resources: vec![NodeResources {
            node: "n0".try_into().expect("a name"),
            resources: vec![ResourceAmount {
                name: "lock".to_owned(),
                amount: 1,
            }],
        }],
        ..listed(shard, "n0", invocation)
    };
    let (one, two) = (run("a", first_run()), run("b", second_run()));
    meet(&mut s, &a, vec![one.clone()]);
    meet(&mut s, &b, vec![two.clone()]);
    for w in [&a, &b] {
        heal(&mut s, w);
    }
    s.join(&c);
    assert!(s.starts().is_empty(), "two runs hold both locks");
    assert_eq!(s.update(&a, &one, ReportedStatus::done()).1, Ok(()));
    let (_, third, _) = s.take_start();
    assert_eq!(third.job.as_str(), "k");
    assert!(s.starts().is_empty());
    assert_eq!(s.update(&b, &two, ReportedStatus::done()).1, Ok(()));
    assert_eq!(counts(&mut s), (0, 1, 1));
}

#[test]
fn a_listed_run_of_two_shards_belongs_to_who_said_it_first() {
    let mut s = impatient();
    let [a, b, _] = workers();
    meet(&mut s, &a, vec![listed("a", "n0", first_run())]);
    meet(&mut s, &b, vec![listed("b", "n0", first_run())]);
    let status = s.status();
    assert!(
        status
            .errors
            .iter()
            .any(|e| e.contains("which worker `a` has"))
    );
    assert_eq!(status.workers[1].running, 0);
}

#[test]
fn a_worker_that_invents_runs_costs_no_memory() {
    let mut s = impatient();
    let [a, ..] = workers();
    let invented = (0..100).map(|i| listed("a", "n0", InvocationId::new(i, i)));
    meet(&mut s, &a, invented.collect());
    assert_eq!(s.status().workers[0].running, 17);
    s.heartbeat_with(&a, WorkerSetId::default(), true)
        .expect("goodbye");
    assert_eq!(counts(&mut s).0, 0, "all end with their worker");
}
