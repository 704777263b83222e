//! Tests of tasks that stop in favour of tasks with near deadlines, and continue later.

use std::time::Duration;

use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common::{GpuShare, ReportedStatus, Story};
use brasserie_worker_fetch::{Preemption, Profile};

use super::looking::look;
use crate::effect::{Call, Effect};
use crate::worker::rig::*;
use crate::{Event, RunTask, WorkFetch};

/// Returns a worker with one processor.
fn rig(preemption: Preemption) -> Rig {
    with_processors(preemption, 1.0)
}

fn with_processors(preemption: Preemption, cpu_cores: f64) -> Rig {
    let work_fetch = WorkFetch {
        preemption,
        ..WorkFetch::new(Profile::CLUSTER, 1)
    };
    let mut rig = Rig::with(|options| options.work_fetch = Some(work_fetch)).join();
    rig.hear(Event::UsableResources(UsablePhysicalResources {
        cpu_cores,
        ..UsablePhysicalResources::default()
    }));
    rig
}

/// Returns a task of 30 s.
fn long(node: &str, number: i64) -> RunTask {
    let mut run = run(1, 0, task(node, number));
    run.task.work.bufferable = true;
    run.task.work.est_duration = Some(30.0);
    run
}

/// Returns a task of five seconds with a deadline in ten.
fn urgent(node: &str, number: i64) -> RunTask {
    let mut run = long(node, number);
    run.task.work.est_duration = Some(5.0);
    run.options.deadline = Some(Duration::from_secs(10));
    run
}

/// Returns a task of two seconds on two processors.
fn wide(node: &str, number: i64) -> RunTask {
    let mut run = long(node, number);
    run.task.work.est_duration = Some(2.0);
    run.task.work.cpus = Some(2.0);
    run
}

/// Returns the effects on processes, as texts.
fn done_to_tasks(effects: &[Effect]) -> Vec<String> {
    let done = effects.iter().filter_map(|effect| match effect {
        Effect::Spawn { run, .. } => Some(format!("start {}", run.task.node)),
        Effect::Suspend { task, .. } => Some(format!("suspend {}", task.node)),
        Effect::Resume { task, .. } => Some(format!("resume {}", task.node)),
        Effect::Kill { task, .. } => Some(format!("kill {}", task.node)),
        Effect::Reply { .. }
        | Effect::Call { .. }
        | Effect::NewInstance { .. }
        | Effect::Exit { .. } => None,
    });
    done.collect()
}

/// Returns a worker where an urgent task took the place of a long one after four seconds.
fn preempted() -> Rig {
    let mut rig = rig(Preemption::Suspend);
    assert_eq!(done_to_tasks(&rig.run(long("long", 1))), ["start long"]);
    rig.wait(4000);
    rig.run(urgent("urgent", 2));
    let later = rig.wait(100);
    assert_eq!(done_to_tasks(&later), ["suspend long", "start urgent"]);
    rig
}

#[test]
fn a_near_deadline_takes_the_place_of_what_runs_and_gives_it_back() {
    let mut rig = preempted();
    // The overview shows that one of the two tasks is stopped.
    let counts = |rig: &mut Rig| {
        let overview = look(rig).expect("it fetches work");
        let facts = overview.of_association[0].facts.clone();
        facts.map(|facts| (facts.running, facts.stopped, facts.waiting))
    };
    assert_eq!(counts(&mut rig), Some((2, 1, 0)));
    let ended = rig.end("urgent", 2, ReportedStatus::done());
    assert_eq!(done_to_tasks(&ended), ["resume long"]);
    assert_eq!(counts(&mut rig), Some((1, 0, 0)));
}

#[test]
fn who_comes_between_two_choices_does_not_take_the_place_of_who_was_stopped() {
    let mut rig = preempted();
    // This task causes a choice and leaves again.
    rig.run(long("short", 3));
    rig.kill(1, "short", 3);
    let ended = rig.end("urgent", 2, ReportedStatus::done());
    let come = rig.run(long("late", 4));
    let done = [done_to_tasks(&ended), done_to_tasks(&come)].concat();
    let chosen = done_to_tasks(&rig.wait(100));
    assert_eq!([done, chosen].concat(), ["resume long"]);
}

#[test]
fn nothing_stops_without_the_flag() {
    let mut rig = rig(Preemption::Off);
    rig.run(long("long", 1));
    rig.wait(4000);
    rig.run(urgent("urgent", 2));
    assert_eq!(done_to_tasks(&rig.wait(1000)), Vec::<String>::new());
    rig.end("long", 1, ReportedStatus::done());
}

#[test]
fn nothing_stops_for_a_wider_task_that_its_own_scheduler_sent_later() {
    let mut rig = with_processors(Preemption::Suspend, 2.0);
    rig.run(long("long 1", 1));
    rig.run(long("long 2", 2));
    for number in 3..6 {
        rig.run(wide(&format!("wide {number}"), number));
    }
    // The time is longer than a time slice, and longer than the fetched work lasts.
    let later: Vec<_> = (0..40).flat_map(|_| rig.wait(1000)).collect();
    assert_eq!(done_to_tasks(&later), Vec::<String>::new());
    // A wide task begins as soon as one processor is free, beside the long task, which continues.
    let ended = rig.end("long 1", 1, ReportedStatus::done());
    let then: Vec<_> = (0..10).flat_map(|_| rig.wait(1000)).collect();
    let done = [done_to_tasks(&ended), done_to_tasks(&then)].concat();
    assert_eq!(done, ["start wide 3"]);
    // A task stops for a near deadline, and continues before others begin.
    rig.run(urgent("urgent", 6));
    assert_eq!(
        done_to_tasks(&rig.wait(100)),
        ["suspend wide 3", "start urgent"]
    );
    let ended = rig.end("urgent", 6, ReportedStatus::done());
    let then: Vec<_> = (0..10).flat_map(|_| rig.wait(1000)).collect();
    let done = [done_to_tasks(&ended), done_to_tasks(&then)].concat();
    assert_eq!(done, ["resume wide 3"]);
}

#[test]
fn a_task_with_a_card_does_not_stop() {
    let mut rig = rig(Preemption::Suspend);
    let mut with_card = long("long", 1);
    with_card.task.gpus = vec![GpuShare {
        device: "bus0".into(),
        milli: 1000,
    }];
    rig.hear(Event::UsableResources(UsablePhysicalResources {
        cpu_cores: 1.0,
        gpus: vec![GpuInfo {
            pci_bus_id: "bus0".to_owned(),
            name: "H100".to_owned(),
            ..GpuInfo::default()
        }],
        ..UsablePhysicalResources::default()
    }));
    rig.run(with_card);
    rig.wait(4000);
    rig.run(urgent("urgent", 2));
    assert_eq!(done_to_tasks(&rig.wait(1000)), Vec::<String>::new());
}

#[test]
fn who_is_stopped_goes_on_before_it_is_killed() {
    let mut rig = preempted();
    let killed = rig.kill(1, "long", 1);
    assert_eq!(done_to_tasks(&killed), ["resume long", "kill long"]);
    // The task is ending, and stops for no other task any more.
    assert_eq!(done_to_tasks(&rig.wait(1000)), Vec::<String>::new());
    let shut_down = rig.hear(Event::Shutdown);
    let mut kills = done_to_tasks(&shut_down);
    kills.sort();
    assert_eq!(kills, ["kill long", "kill urgent"]);
}

#[test]
fn time_does_not_count_for_who_is_stopped() {
    let mut rig = rig(Preemption::Suspend);
    let mut timed = long("long", 1);
    timed.options.timeout = Some(Duration::from_secs(20));
    let invocation = timed.task.invocation;
    rig.run(timed);
    rig.hear(Event::TaskStarted {
        task: key("long"),
        invocation,
    });
    rig.wait(4000);
    rig.run(urgent("urgent", 2));
    assert_eq!(
        done_to_tasks(&rig.wait(100)),
        ["suspend long", "start urgent"]
    );
    rig.wait(8900);
    let ended = rig.end("urgent", 2, ReportedStatus::done());
    assert_eq!(done_to_tasks(&ended), ["resume long"]);
    // The task had 16 s left, less the tenth of a second before it was stopped.
    assert_eq!(done_to_tasks(&rig.wait(15_800)), Vec::<String>::new());
    assert_eq!(done_to_tasks(&rig.wait(200)), ["kill long"]);
}

#[test]
fn one_that_ends_while_it_is_stopped_leaves_nothing() {
    let mut rig = preempted();
    // Another program has killed the task.
    rig.end("long", 1, ReportedStatus::incomplete_backoff("killed"));
    rig.end("urgent", 2, ReportedStatus::done());
    assert_eq!(rig.worker.live_processes(), 0);
    assert_eq!(done_to_tasks(&rig.run(long("next", 3))), ["start next"]);
}

#[test]
fn an_end_tells_how_long_it_waited_and_ran_without_its_stops() {
    let mut rig = preempted();
    rig.run(long("next", 3));
    rig.wait(6000);
    rig.end("urgent", 2, ReportedStatus::done());
    rig.wait(2000);
    let story = |effects: Vec<Effect>| {
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Call {
                call: Call::UpdateStatus { task, .. },
                ..
            } => task.story.clone(),
            _ => None,
        });
        told.expect("an end with its story")
    };
    // This is the run time by the shell's clock.
    let ran = Story {
        ran: Some(Duration::from_millis(4100 + 6000 + 2000)),
        ..Story::exited(0)
    };
    let ended = rig.end_with("long", 1, ran);
    let told = story(ended);
    assert_eq!(told.waited, Duration::ZERO);
    assert_eq!(told.ran, Some(Duration::from_millis(4000 + 2000)));
    let told = story(rig.end("next", 3, ReportedStatus::done()));
    assert_eq!(told.waited, Duration::from_millis(8000));
}
