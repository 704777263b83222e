//! Tests of the order without deadlines: started tasks first, then tasks with many CPUs, without starvation.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::profile::{Precedence, Profile};
use super::super::super::types::{AssociationIndex, Task, TaskNumber, TaskStage};
use super::super::Preemption::{self, Off, Suspend};
use super::properties::scene;
use super::rig::{LOST, NOBODY, STOPPED, SchedulingRig, at, cards, cpus, executing, numbers};

/// Returns the cluster's profile with this precedence.
fn profile(precedence: Precedence) -> Profile {
    Profile {
        precedence,
        ..Profile::CLUSTER
    }
}

#[test]
fn what_has_begun_stops_for_no_wider_one_of_its_own_scheduler() {
    for (precedence, stopped, started) in [
        (Precedence::Begun, vec![], vec![]),
        // BOINC's rule, however many tasks stop for the wide one.
        (Precedence::MoreCpus, vec![1, 2], vec![3]),
    ] {
        let mut scene = SchedulingRig::new(2, &[]);
        scene.preemption = Suspend;
        scene.profile = profile(precedence);
        scene.task(1, cpus(1.0)).stage = executing(0.0);
        scene.task(2, cpus(1.0)).stage = executing(0.0);
        scene.task(3, cpus(2.0));
        let schedule = scene.choose();
        assert_eq!(numbers(&schedule.preempt), stopped);
        assert_eq!(numbers(&schedule.start), started);
    }
}

#[test]
fn what_was_stopped_goes_on_before_a_wider_one_begins() {
    for stage in [STOPPED, LOST] {
        for (precedence, expected) in [
            (Precedence::Begun, vec![1, 2]),
            (Precedence::MoreCpus, vec![3]),
        ] {
            let mut scene = SchedulingRig::new(2, &[]);
            scene.preemption = Suspend;
            scene.profile = profile(precedence);
            scene.task(1, cpus(1.0)).stage = stage;
            scene.task(2, cpus(1.0)).stage = stage;
            scene.task(3, cpus(2.0));
            let schedule = scene.choose();
            let begun = [schedule.resume, schedule.start].concat();
            assert_eq!(numbers(&begun), expected);
        }
    }
}

#[test]
fn who_began_beside_others_with_more_cpus_than_were_free_stops_none_of_them() {
    let mut scene = SchedulingRig::new(2, &[]);
    scene.preemption = Suspend;
    scene.associate(100.0, 0.0);
    scene.rec[1] = 100.0;
    // The wide task arrived first, started last, and is the only one within its slice.
    scene.task(1, cpus(2.0)).stage = executing(999.0);
    scene.task(2, cpus(1.0)).stage = executing(0.0);
    for another in [false, true] {
        if another {
            // Another scheduler has a task, but its turn is later.
            scene.task(3, cpus(1.0)).association.0 = 1;
        }
        // The result is the same if the wide task wants more CPUs than a list allows beside it.
        for wanted in [2.0, 9.0] {
            for since in [999.0, 990.0] {
                scene.tasks[0].usage = cpus(wanted);
                scene.tasks[0].stage = executing(since);
                assert_eq!(numbers(&scene.choose().preempt), NOBODY, "{wanted}");
            }
        }
    }
}

#[test]
fn a_card_of_its_own_scheduler_stops_nothing() {
    let mut scene = SchedulingRig::new(2, &[1]);
    scene.preemption = Suspend;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).stage = executing(0.0);
    scene.task(3, cards(2.0, 1.0));
    // A waiting GPU task also does not keep a task stopped, with or without another scheduler.
    for associations in 1..=2 {
        for (first, resumed) in [(executing(0.0), vec![]), (STOPPED, vec![1])] {
            scene.tasks[0].stage = first;
            let schedule = scene.choose();
            assert_eq!((schedule.start, schedule.preempt), (vec![], vec![]));
            assert_eq!(numbers(&schedule.resume), resumed, "{associations}");
        }
        scene.associate(100.0, 100.0);
        scene.task(4, cpus(1.0)).association.0 = 1;
    }
    scene.profile = profile(Precedence::MoreCpus);
    assert_eq!(numbers(&scene.choose().start), [3]);
    // A running GPU task that exceeds the CPUs by one is no reason to stop another task.
    scene.profile = Profile::CLUSTER;
    scene.tasks.truncate(3);
    scene.tasks[0].stage = executing(0.0);
    scene.tasks[2].usage = cards(1.0, 1.0);
    assert_eq!(numbers(&scene.choose().start), [3]);
    scene.tasks[2].stage = executing(1000.0);
    assert_eq!(numbers(&scene.choose().preempt), NOBODY);
}

#[test]
fn between_schedulers_it_is_the_turn_that_decides_and_not_how_much_one_wants() {
    // The first scheduler has a running and a queued task, the other one a narrow and a wide task.
    let mut scene = SchedulingRig::new(1, &[]);
    scene.preemption = Suspend;
    scene.associate(100.0, 0.0);
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(3.0));
    for (number, wanted) in [(3, 1.0), (4, 2.0)] {
        scene.task(number, cpus(wanted)).association.0 = 1;
    }
    for (rec, stopped, started) in [
        ([0.0, 100.0], vec![], vec![]),
        ([100.0, 0.0], vec![1], vec![4]),
    ] {
        scene.rec = rec.to_vec();
        let schedule = scene.choose();
        assert_eq!(numbers(&schedule.preempt), stopped);
        assert_eq!(numbers(&schedule.start), started);
    }
    // When its scheduler has the turn again, the stopped task continues, and the started wide one waits.
    scene.tasks[0].stage = STOPPED;
    scene.tasks[3].stage = executing(0.0);
    scene.rec = vec![0.0, 100.0];
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.resume), [1]);
    assert_eq!(numbers(&schedule.preempt), [4]);
}

#[test]
fn a_deadline_still_stops_what_runs_for_one_of_its_own_scheduler() {
    let mut scene = SchedulingRig::new(2, &[]);
    scene.preemption = Suspend;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).stage = executing(0.0);
    scene.task(3, cpus(2.0)).deadline = Some(at(1050.0));
    scene.task(4, cpus(2.0));
    scene.miss(3);
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.start), [3]);
    assert_eq!(numbers(&schedule.preempt), [1, 2]);
    // A stopped task continues before any other starts.
    assert_eq!(numbers(&schedule.next), [1, 2, 4]);
}

#[test]
fn who_has_waited_for_longer_than_the_buffer_lasts_lets_nobody_pass() {
    for (waited, first) in [(29.9, 2), (30.0, 2), (30.1, 1)] {
        let mut scene = SchedulingRig::new(2, &[]);
        scene.task(1, cpus(1.0)).received = at(1000.0 - waited);
        scene.task(2, cpus(2.0));
        assert_eq!(numbers(&scene.choose().start)[0], first, "{waited}");
        scene.task(3, cpus(2.0)).stage = executing(990.0);
        assert_eq!(numbers(&scene.choose().next)[0], first, "{waited}");
        scene.profile = profile(Precedence::MoreCpus);
        assert_eq!(numbers(&scene.choose().next)[0], 2, "{waited}");
    }
}

/// A run second by second, on processors that are fast enough for all running tasks.
struct Run {
    scene: SchedulingRig,
    /// The second in which each task ended.
    ended: BTreeMap<u64, u32>,
    stops: BTreeMap<u64, u32>,
}

impl Run {
    fn new(instances: u32, preemption: Preemption, precedence: Precedence) -> Self {
        let mut scene = SchedulingRig::new(instances, &[]);
        scene.preemption = preemption;
        scene.profile = profile(precedence);
        Run {
            scene,
            ended: BTreeMap::new(),
            stops: BTreeMap::new(),
        }
    }

    fn arrives(&mut self, number: u64, wants: f64, takes: f64) {
        let now = self.scene.now;
        let task = self.scene.task(number, cpus(wants));
        task.remaining = takes;
        task.received = now;
    }

    /// Makes a choice. Returns the tasks that start, and those that stay queued.
    fn choose(&mut self) -> (Vec<Task>, Vec<Task>) {
        let schedule = self.scene.choose();
        for stopped in &schedule.preempt {
            *self.stops.entry(stopped.0).or_default() += 1;
        }
        let waits = |task: &&Task| task.stage == TaskStage::Queued;
        let waiting: Vec<Task> = self.scene.tasks.iter().filter(waits).cloned().collect();
        self.scene.carry_out(&schedule);
        let begins = |task: &Task| schedule.start.contains(&task.number);
        waiting.into_iter().partition(begins)
    }

    /// Advances time by one second; `second` is its number.
    fn pass(&mut self, second: u32) {
        self.scene.now = at(1001.0 + f64::from(second));
        for task in &mut self.scene.tasks {
            if task.stage.is_executing() {
                task.remaining -= 1.0;
            }
        }
        let ended = &mut self.ended;
        self.scene.tasks.retain(|task| {
            let goes_on = task.remaining > 0.0;
            if !goes_on {
                ended.insert(task.number.0, second + 1);
            }
            goes_on
        });
    }

    /// Runs for this long, with three waiting tasks at all times that need two CPUs for two seconds.
    fn beside_short_and_wide_ones(&mut self, seconds: u32) {
        for second in 0..seconds {
            let wide = |task: &&Task| task.stage == TaskStage::Queued && task.usage.cpus == 2.0;
            let waiting = self.scene.tasks.iter().filter(wide).count() as u64;
            for more in waiting..3 {
                self.arrives(1000 + u64::from(second) * 10 + more, 2.0, 2.0);
            }
            self.choose();
            self.pass(second);
        }
    }
}

#[test]
fn long_tasks_end_in_their_time_however_many_short_and_wide_ones_wait() {
    let mut run = Run::new(2, Suspend, Precedence::Begun);
    run.arrives(1, 1.0, 14.0);
    run.arrives(2, 1.0, 14.0);
    run.choose();
    run.beside_short_and_wide_ones(40);
    assert_eq!((run.ended[&1], run.ended[&2]), (14, 14));
    assert_eq!(run.stops, BTreeMap::new());
    // Then the wide tasks have all processors: one ends every two seconds.
    assert_eq!(run.ended.len(), 2 + (40 - 14) / 2);
}

#[test]
fn one_beside_which_a_wide_one_begins_ends_in_its_time_as_well() {
    let mut run = Run::new(2, Suspend, Precedence::Begun);
    run.arrives(1, 1.0, 14.0);
    run.arrives(2, 1.0, 7.0);
    run.choose();
    run.beside_short_and_wide_ones(20);
    assert_eq!((run.ended[&1], run.ended[&2]), (14, 7));
    assert_eq!(run.stops, BTreeMap::new());
    assert!(run.ended.len() > 4, "{:?}", run.ended);
}

#[test]
fn on_a_volunteers_machine_they_stay_stopped_as_long_as_there_are_others() {
    let mut run = Run::new(2, Suspend, Precedence::MoreCpus);
    run.arrives(1, 1.0, 14.0);
    run.arrives(2, 1.0, 14.0);
    run.choose();
    run.beside_short_and_wide_ones(200);
    let left: Vec<_> = run
        .scene
        .tasks
        .iter()
        .map(|task| (task.number.0, task.stage))
        .collect();
    assert_eq!(left[..2], [(1, STOPPED), (2, STOPPED)]);
}

#[test]
fn one_that_has_not_begun_waits_no_longer_for_wide_ones_than_the_buffer_lasts() {
    for preemption in [Off, Suspend] {
        let mut run = Run::new(2, preemption, Precedence::Begun);
        run.arrives(1, 2.0, 2.0);
        run.choose();
        run.arrives(2, 1.0, 1.0);
        run.beside_short_and_wide_ones(40);
        // The task starts at the first completion after 30 s.
        assert_eq!(run.ended[&2], 33);
    }
}

integration_tests_properties::properties! {
    256;

    /// No task of a single scheduler is stopped without deadlines, whatever CPUs its tasks want.
    #[test]
    fn alone_nobody_stops_and_what_was_stopped_goes_on_first(scene in scene()) {
        let mut scene = scene;
        scene.preemption = Suspend;
        scene.nobody_misses();
        scene.tasks.retain(|task| task.association.0 == 0);
        scene.associations[0].max_concurrent = None;
        scene.associations[0].max_concurrent_of_jobs.clear();
        let schedule = scene.choose();
        prop_assert_eq!(schedule.preempt, vec![]);
    }

    /// No task starts while its own scheduler has a stopped task that could continue, even with other schedulers.
    #[test]
    fn nothing_begins_before_what_has_begun_of_its_own_scheduler(scene in scene()) {
        let mut scene = scene;
        scene.preemption = Suspend;
        scene.nobody_misses();
        for association in &mut scene.associations {
            association.max_concurrent = None;
            association.max_concurrent_of_jobs.clear();
        }
        let schedule = scene.choose();
        let begun = |task: &&Task| matches!(task.stage, TaskStage::Executing { .. } | TaskStage::Preempted { .. });
        let could = |number: TaskNumber| !scene.ending.contains(&number) && !scene.held_back.contains(&number);
        let all = scene.tasks.iter().filter(|task| task.usage.cards.is_none());
        let stands = all.clone().filter(begun).filter(|task| match task.stage {
            TaskStage::Executing { .. } => schedule.preempt.contains(&task.number),
            _ => could(task.number) && ![&schedule.resume, &schedule.start].iter().any(|these| these.contains(&task.number)),
        });
        let whose: Vec<AssociationIndex> = stands.map(|task| task.association).collect();
        for task in all.filter(|task| task.stage == TaskStage::Queued && schedule.start.contains(&task.number)) {
            prop_assert!(!whose.contains(&task.association), "{task:?}");
        }
    }

    /// Runs second by second with one scheduler: no task stops. No later task that wants no more CPUs starts before an earlier one. No
    /// later task at all starts before one that has waited longer than the buffer lasts.
    #[test]
    fn nobody_waits_for_ever(
        instances in 1_u32..5,
        preemption in select(vec![Off, Suspend]),
        works in vec((0_u32..3, select(vec![0.25, 1.0, 2.0, 4.0, 9.0]), 1_u32..9), 1..60),
    ) {
        let mut run = Run::new(instances, preemption, Precedence::Begun);
        let patience = run.scene.profile.high_water();
        let mut to_come = (1..).zip(works).scan(0, |at, (number, (gap, wants, takes))| {
            *at += gap;
            Some((*at, number, wants, takes))
        }).peekable();
        let mut second = 0;
        while to_come.peek().is_some() || !run.scene.tasks.is_empty() {
            while let Some((_, number, wants, takes)) = to_come.next_if(|(at, ..)| *at <= second) {
                run.arrives(number, wants, f64::from(takes));
            }
            let (begun, waiting) = run.choose();
            for one in &begun {
                for other in waiting.iter().filter(|other| other.number < one.number) {
                    let waited = run.scene.now.since(other.received).as_secs_f64();
                    prop_assert!(one.usage.cpus > other.usage.cpus && waited <= patience, "{one:?} {other:?}");
                }
            }
            run.pass(second);
            second += 1;
            prop_assert!(second < 1000);
        }
        prop_assert_eq!(&run.stops, &BTreeMap::new());
    }
}
