//! Tests of tasks that wait for processors: which of them wait, when they begin, and their status if they never begin.

use std::time::Duration;

use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common::{EndedBy, Fault, GpuShare, RefusalCode, ReportedStatus, RunningTask, Story};
use brasserie_worker_fetch::Profile;

use crate::effect::{Call, Effect};
use crate::worker::rig::*;
use crate::{Event, LifeStage, RunTask, WorkFetch};

/// Returns a worker that fetches work, with this many processors.
fn rig(cores: u32) -> Rig {
    let work_fetch = WorkFetch::new(Profile::CLUSTER, 1);
    let mut rig = Rig::with(|options| options.work_fetch = Some(work_fetch)).join();
    rig.hear(machine(cores, &[]));
    rig
}

fn machine(cores: u32, cards: &[&str]) -> Event {
    let gpus = cards.iter().map(|bus| GpuInfo {
        pci_bus_id: (*bus).to_owned(),
        ..GpuInfo::default()
    });
    Event::UsableResources(UsablePhysicalResources {
        cpu_cores: f64::from(cores),
        gpus: gpus.collect(),
        ..UsablePhysicalResources::default()
    })
}

fn may_wait(node: &str, number: i64) -> RunTask {
    let mut run = run(1, 0, task(node, number));
    run.task.work.bufferable = true;
    run.task.work.est_duration = Some(5.0);
    run
}

fn must_not(node: &str, number: i64) -> RunTask {
    run(1, 0, task(node, number))
}

/// Returns the nodes of the tasks that were started.
fn begun(effects: &[Effect]) -> Vec<String> {
    let begun = effects.iter().filter_map(|effect| match effect {
        Effect::Spawn { run, .. } => Some(run.task.node.to_string()),
        _ => None,
    });
    begun.collect()
}

/// Returns the only reported completion, with its story.
fn reported(effects: &[Effect]) -> (ReportedStatus, Story) {
    let ends: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Call {
                call: Call::UpdateStatus { task, status, .. },
                ..
            } => Some((status.clone(), (**task.story.as_ref().unwrap()).clone())),
            _ => None,
        })
        .collect();
    let [end] = &ends[..] else {
        panic!("expected one end: {effects:?}");
    };
    end.clone()
}

#[test]
fn those_that_may_wait_begin_in_order_as_processors_become_free() {
    let mut rig = rig(2);
    for (node, number) in [("a", 1), ("b", 2)] {
        let run = may_wait(node, number);
        assert_eq!(rig.run(run.clone()), [spawned(run), accepted()]);
    }
    for (node, number) in [("c", 3), ("d", 4)] {
        assert_eq!(rig.run(may_wait(node, number)), [accepted()]);
    }
    assert_eq!(rig.worker.queued_tasks(), 2);
    assert_eq!(rig.worker.live_processes(), 2);
    // The scheduler sees all of them as running.
    let nodes = rig.own().running_tasks();
    let nodes: Vec<&str> = nodes.iter().map(|task| task.node.as_str()).collect();
    assert_eq!(nodes, ["a", "b", "c", "d"]);
    let (code, text) = refusal(&rig.run(may_wait("c", 9)));
    assert_eq!(code, RefusalCode::Duplicate);
    assert!(text.contains("waits here"), "{text}");

    assert_eq!(begun(&rig.end("b", 2, ReportedStatus::done())), ["c"]);
    assert_eq!(begun(&rig.end("a", 1, ReportedStatus::done())), ["d"]);
    assert_eq!(rig.worker.queued_tasks(), 0);
}

#[test]
fn those_that_may_not_wait_begin_at_once_and_count() {
    let mut rig = rig(1);
    rig.start("a", 1);
    rig.start("b", 2);
    assert_eq!(rig.run(may_wait("c", 3)), [accepted()]);
    // Queued tasks begin in their order. Only a task that may not be queued begins before them.
    assert_eq!(begun(&rig.end("a", 1, ReportedStatus::done())), [""; 0]);
    let run = must_not("d", 4);
    assert_eq!(rig.run(run.clone()), [spawned(run), accepted()]);
    rig.end("b", 2, ReportedStatus::done());
    assert_eq!(begun(&rig.end("d", 4, ReportedStatus::done())), ["c"]);
}

#[test]
fn without_work_fetch_nothing_waits() {
    let mut rig = Rig::joined();
    rig.hear(machine(1, &[]));
    for (node, number) in [("a", 1), ("b", 2), ("c", 3)] {
        let run = may_wait(node, number);
        assert_eq!(rig.run(run.clone()), [spawned(run), accepted()]);
    }
}

#[test]
fn a_machine_with_more_processors_takes_more() {
    let mut rig = rig(1);
    for (node, number) in [("a", 1), ("b", 2), ("c", 3)] {
        rig.run(may_wait(node, number));
    }
    assert_eq!(rig.worker.queued_tasks(), 2);
    assert_eq!(begun(&rig.hear(machine(3, &[]))), ["b", "c"]);
    // A machine that reports no processors has one.
    let mut rig = self::rig(0);
    rig.run(may_wait("a", 1));
    rig.run(may_wait("b", 2));
    assert_eq!(rig.worker.queued_tasks(), 1);
}

#[test]
fn what_would_wait_for_longer_than_two_buffers_is_refused() {
    let mut rig = rig(1);
    let long = |node, number| {
        let mut run = may_wait(node, number);
        run.task.work.est_duration = Some(40.0);
        run
    };
    rig.run(long("a", 1));
    // One minute of work may be queued, and less is queued so far.
    for (node, number) in [("b", 2), ("c", 3)] {
        assert_eq!(rig.run(long(node, number)), [accepted()]);
    }
    let refused = rig.run(long("d", 4));
    let said = format!("{refused:?}");
    assert!(said.contains("Busy") && said.contains("so much work waits for CPU"));
    // The refusal affects neither tasks that may not be queued nor later tasks that fit again.
    let other = must_not("e", 5);
    assert_eq!(rig.run(other.clone()), [spawned(other), accepted()]);
    rig.end("e", 5, ReportedStatus::done());
    rig.end("a", 1, ReportedStatus::done());
    assert_eq!(rig.run(long("d", 6)), [accepted()]);
}

#[test]
fn one_long_task_that_waits_leaves_room_for_what_other_processors_will_need() {
    let mut rig = rig(2);
    for (node, number, seconds) in [("a", 1, 5.0), ("b", 2, 5.0), ("c", 3, 1200.0)] {
        let mut run = may_wait(node, number);
        run.task.work.est_duration = Some(seconds);
        rig.run(run);
    }
    // Twenty minutes of work are queued for one of two processors. A buffer is half a minute.
    assert_eq!(rig.worker.queued_tasks(), 1);
    assert_eq!(rig.run(may_wait("d", 4)), [accepted()]);
    assert_eq!(rig.worker.queued_tasks(), 2);
}

#[test]
fn cards_are_waited_for_and_let_others_pass() {
    let mut rig = rig(4);
    rig.hear(machine(4, &["bus0"]));
    let with = |node, number| {
        let mut run = may_wait(node, number);
        run.task.gpus = vec![GpuShare {
            device: "bus0".into(),
            milli: 1000,
        }];
        run
    };
    assert_eq!(begun(&rig.run(with("a", 1))), ["a"]);
    assert_eq!(rig.run(with("b", 2)), [accepted()]);
    // The later task needs no GPU.
    assert_eq!(begun(&rig.run(may_wait("c", 3))), ["c"]);
    assert_eq!(begun(&rig.end("a", 1, ReportedStatus::done())), ["b"]);
    // A task does not wait for a GPU that the machine does not have.
    let mut strange = with("d", 4);
    strange.task.gpus[0].device = "bus7".into();
    let (code, text) = refusal(&rig.run(strange));
    assert_eq!(code, RefusalCode::Busy);
    assert!(text.contains("there is no GPU `bus7` here"), "{text}");
}

#[test]
fn one_whose_card_is_gone_ends_and_loses_no_retry() {
    let mut rig = rig(4);
    rig.hear(machine(4, &["bus0"]));
    for (node, number) in [("a", 1), ("b", 2)] {
        let mut run = may_wait(node, number);
        let device = "bus0".into();
        run.task.gpus = vec![GpuShare {
            device,
            milli: 1000,
        }];
        rig.run(run);
    }
    assert_eq!(rig.worker.queued_tasks(), 1);
    let (status, story) = reported(&rig.hear(machine(4, &[])));
    assert!(status.is_incomplete_backoff());
    let text = status.exception().unwrap();
    assert!(
        text.contains("it never began: task `job` on `b` cannot have its GPUs"),
        "{text}"
    );
    assert_eq!((story.fault, story.ended_by), (Fault::Worker, None));
    assert_eq!(rig.worker.queued_tasks(), 0);
}

#[test]
fn one_that_waits_is_killed_without_a_process() {
    let mut rig = rig(1);
    rig.start("a", 1);
    rig.run(may_wait("b", 2));
    rig.sleep(4000);
    let effects = rig.kill(1, "b", 2);
    assert!(begun(&effects).is_empty());
    let (status, story) = reported(&effects);
    let text = "ended by the worker as an operator wanted it to end before it began";
    assert_eq!(status, ReportedStatus::incomplete_backoff(text));
    assert_eq!(story.ended_by, Some(EndedBy::Operator));
    assert_eq!(story.fault, Fault::Nobody);
    assert_eq!(story.waited, Duration::from_secs(4));
    assert!(begun(&rig.end("a", 1, ReportedStatus::done())).is_empty());
    let (_, text) = refusal(&rig.kill(1, "b", 2));
    assert!(text.contains("has ended already"), "{text}");
}

#[test]
fn a_deadline_passes_while_its_task_waits_and_a_timeout_does_not() {
    let mut rig = rig(1);
    rig.start("a", 1);
    let mut late = may_wait("b", 2);
    late.options.deadline = Some(Duration::from_secs(3));
    late.options.timeout = Some(Duration::from_secs(1));
    rig.run(late);
    let effects = rig.wait(2900);
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Kill { .. }))
    );
    assert_eq!(rig.worker.queued_tasks(), 1);
    let effects = rig.wait(100);
    let (status, story) = reported(&effects);
    assert!(status.is_error_backoff(), "{status:?}");
    let text = status.exception().unwrap();
    assert!(text.starts_with("its deadline passed, 3s after"), "{text}");
    assert_eq!(story.fault, Fault::Task);
}

#[test]
fn a_worker_that_ends_drops_what_waits_and_a_drain_gives_it_away_at_once() {
    let waiting = || {
        let mut rig = rig(1);
        rig.start("a", 1);
        rig.run(may_wait("b", 2));
        rig
    };
    let mut drained = waiting();
    let (status, _) = reported(&drained.hear(Event::Drain));
    assert_eq!(status.bits(), ReportedStatus::incomplete().bits());
    assert_eq!(drained.worker.live_processes(), 1);

    let mut shut_down = waiting();
    let (status, story) = reported(&shut_down.hear(Event::Shutdown));
    assert_eq!(status.bits(), ReportedStatus::incomplete().bits());
    assert_eq!(story.ended_by, Some(EndedBy::Shutdown));

    let mut dying = waiting();
    let effects = dying.suicide(1, OWN);
    let (status, story) = reported(&effects);
    assert!(status.is_incomplete_backoff());
    assert_eq!(story.ended_by, Some(EndedBy::Suicide));
    // Only the live task has a process to kill.
    let killed = |effect: &&Effect| matches!(effect, Effect::Kill { .. });
    assert_eq!(effects.iter().filter(killed).count(), 1);
    assert_eq!(dying.own().life_stage(), LifeStage::Dying);
    assert_eq!(dying.worker.queued_tasks(), 0);
    assert!(begun(&dying.end("a", 1, ReportedStatus::done())).is_empty());
}

#[test]
fn a_new_scheduler_learns_of_those_that_wait_and_they_begin_for_it() {
    let mut rig = rig(1);
    rig.start("a", 1);
    let waits = may_wait("b", 2);
    rig.run(waits.clone());
    let effects = rig.fetch(2);
    let listed_tasks: Vec<RunningTask> = vec![task("a", 1), waits.task];
    assert!(effects.contains(&listed(listed_tasks)));
    assert_eq!(begun(&rig.end("a", 1, ReportedStatus::done())), ["b"]);
}
