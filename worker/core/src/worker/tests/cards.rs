//! Tests of tasks whose GPUs the scheduler chose: accepted if they are free on the machine, and otherwise refused before anything runs.

use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common::{GpuShare, RefusalCode, ReportedStatus, RunningTask, Story};

use crate::effect::{Effect, Reply};
use crate::worker::rig::*;
use crate::{Event, RunTask};

/// Returns GPUs, each with its bus id and UUID.
fn cards(cards: &[(&str, &str)]) -> Event {
    let gpus = cards.iter().map(|(bus, uuid)| GpuInfo {
        pci_bus_id: (*bus).to_owned(),
        cuda_device: (*uuid).to_owned(),
        ..GpuInfo::default()
    });
    Event::UsableResources(UsablePhysicalResources {
        gpus: gpus.collect(),
        ..UsablePhysicalResources::default()
    })
}

fn rig() -> Rig {
    let mut rig = Rig::joined();
    rig.hear(cards(&[("bus0", "GPU-0"), ("bus1", "GPU-1")]));
    rig
}

fn with(node: &str, number: i64, shares: &[(&str, u32)]) -> RunTask {
    let gpus = shares.iter().map(|(device, milli)| GpuShare {
        device: (*device).into(),
        milli: *milli,
    });
    let task = RunningTask {
        gpus: gpus.collect(),
        ..task(node, number)
    };
    run(1, 0, task)
}

fn started(run: &RunTask, cuda_devices: &[&str]) -> [Effect; 2] {
    let spawn = Effect::Spawn {
        run: run.clone().into(),
        cuda_devices: cuda_devices.iter().map(|d| (*d).to_owned()).collect(),
    };
    [spawn, accepted()]
}

#[test]
fn a_task_gets_the_cards_that_it_was_given_and_lists_them() {
    let mut rig = rig();
    let both = with("a", 1, &[("bus1", 500), ("bus0", 1000)]);
    assert_eq!(rig.run(both.clone()), started(&both, &["GPU-1", "GPU-0"]));
    let half = with("b", 2, &[("bus1", 500)]);
    assert_eq!(rig.run(half.clone()), started(&half, &["GPU-1"]));
    assert_eq!(rig.fetch(1), [listed(vec![both.task, half.task])]);
    // A task without GPUs of its own sees all, as before the field existed.
    let none = with("c", 3, &[]);
    assert_eq!(rig.run(none.clone()), started(&none, &[]));
}

#[test]
fn what_the_machine_has_not_free_is_refused_and_nothing_runs() {
    let mut rig = rig();
    rig.run(with("a", 1, &[("bus0", 700)]));
    let mut refused = |number, shares: &[(&str, u32)]| {
        let (code, text) = refusal(&rig.run(with("b", number, shares)));
        // `Busy` means that the task may run later or elsewhere. It is no fault of the task.
        assert_eq!(code, RefusalCode::Busy);
        text.strip_prefix("task `job` on `b` cannot have its GPUs: ")
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    assert_eq!(
        refused(2, &[("bus0", 301)]),
        "0.301 of GPU `bus0` are wanted, and 0.3 are free"
    );
    assert_eq!(
        refused(3, &[("bus1", 1000), ("bus2", 1)]),
        "there is no GPU `bus2` here"
    );
    assert_eq!(
        refused(4, &[("bus1", 1), ("bus1", 1)]),
        "it is given GPU `bus1` twice"
    );
    for (number, milli) in [(5, 0), (6, 1001)] {
        assert!(refused(number, &[("bus1", milli)]).contains("are none, or more than it has"));
    }
    // A refused run holds nothing.
    let rest = with("b", 7, &[("bus0", 300), ("bus1", 1000)]);
    assert_eq!(rig.run(rest.clone()), started(&rest, &["GPU-0", "GPU-1"]));
}

#[test]
fn cards_are_free_again_once_no_process_has_them() {
    let mut rig = rig();
    rig.run(with("a", 1, &[("bus0", 1000)]));
    rig.hear(Event::TaskEnded {
        task: key("a"),
        invocation: invocation(1),
        status: ReportedStatus::done(),
        story: Box::new(Story::exited(0)),
    });
    // The completion is not acknowledged yet, so the task is still listed with its GPUs.
    let listed = rig.fetch(1);
    let [
        Effect::Reply {
            reply: Ok(Reply::RunningTasks(tasks)),
            ..
        },
    ] = &listed[..]
    else {
        panic!("{listed:?}");
    };
    assert_eq!(tasks[0].gpus.len(), 1);
    let next = with("b", 2, &[("bus0", 1000)]);
    assert_eq!(rig.run(next.clone()), started(&next, &["GPU-0"]));
}

#[test]
fn a_card_that_failed_is_given_to_nobody_and_its_task_goes_on() {
    let mut rig = rig();
    rig.run(with("a", 1, &[("bus0", 1000)]));
    rig.hear(cards(&[("bus1", "")]));
    let (code, _) = refusal(&rig.run(with("b", 2, &[("bus0", 1)])));
    assert_eq!(code, RefusalCode::Busy);
    // A GPU without a name is identified by its place in the list.
    let other = with("b", 3, &[("bus1", 1000)]);
    assert_eq!(rig.run(other.clone()), started(&other, &["0"]));
    rig.hear(cards(&[("bus0", "GPU-0"), ("bus1", "GPU-1")]));
    let (_, text) = refusal(&rig.run(with("c", 4, &[("bus0", 1)])));
    assert!(text.ends_with("0.001 of GPU `bus0` are wanted, and 0 are free"));
}
