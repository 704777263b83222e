//! Who goes before whom where no deadline says so: what has begun, and then what wants many CPUs, but not for ever.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::profile::{Precedence, Profile};
use super::super::super::types::{AssociationIndex, Stage, Task, TaskNumber};
use super::super::Preemption::{self, Off, Suspend};
use super::properties::scene;
use super::rig::{LOST, NOBODY, STOPPED, Scene, at, cards, cpus, executing, numbers};

/// Of a cluster, or with nothing changed but this.
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
        // As the volunteers' system has it, however many wait for it.
        (Precedence::MoreCpus, vec![1, 2], vec![3]),
    ] {
        let mut scene = Scene::new(2, &[]);
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
            let mut scene = Scene::new(2, &[]);
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
    let mut scene = Scene::new(2, &[]);
    scene.preemption = Suspend;
    scene.associate(100.0, 0.0);
    scene.rec[1] = 100.0;
    // It came first, began last, and is the only one whose slice is not over.
    scene.task(1, cpus(2.0)).stage = executing(999.0);
    scene.task(2, cpus(1.0)).stage = executing(0.0);
    for another in [false, true] {
        if another {
            // Another scheduler is there, whose turn is later.
            scene.task(3, cpus(1.0)).association.0 = 1;
        }
        // Also where it wants so many that none beside it would be listed.
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
    let mut scene = Scene::new(2, &[1]);
    scene.preemption = Suspend;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).stage = executing(0.0);
    scene.task(3, cards(2.0, 1.0));
    // Nor does it keep one stopped, with another scheduler there or without.
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
    // One with a card that runs beside all others, with a CPU more than there is, is no reason to stop one of them.
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
    // One that runs and one that waits; of the other scheduler a narrow and a wide one.
    let mut scene = Scene::new(1, &[]);
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
    // Where its own scheduler has the turn again it goes on, and the wide one that was begun waits.
    scene.tasks[0].stage = STOPPED;
    scene.tasks[3].stage = executing(0.0);
    scene.rec = vec![0.0, 100.0];
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.resume), [1]);
    assert_eq!(numbers(&schedule.preempt), [4]);
}

#[test]
fn a_deadline_still_stops_what_runs_for_one_of_its_own_scheduler() {
    let mut scene = Scene::new(2, &[]);
    scene.preemption = Suspend;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).stage = executing(0.0);
    scene.task(3, cpus(2.0)).deadline = Some(at(1050.0));
    scene.task(4, cpus(2.0));
    scene.miss(3);
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.start), [3]);
    assert_eq!(numbers(&schedule.preempt), [1, 2]);
    // What stopped goes on before any other begins.
    assert_eq!(numbers(&schedule.next), [1, 2, 4]);
}

#[test]
fn who_has_waited_for_longer_than_the_buffer_lasts_lets_nobody_pass() {
    for (waited, first) in [(29.9, 2), (30.0, 2), (30.1, 1)] {
        let mut scene = Scene::new(2, &[]);
        scene.task(1, cpus(1.0)).received = at(1000.0 - waited);
        scene.task(2, cpus(2.0));
        assert_eq!(numbers(&scene.choose().start)[0], first, "{waited}");
        scene.task(3, cpus(2.0)).stage = executing(990.0);
        assert_eq!(numbers(&scene.choose().next)[0], first, "{waited}");
        scene.profile = profile(Precedence::MoreCpus);
        assert_eq!(numbers(&scene.choose().next)[0], 2, "{waited}");
    }
}

/// What happens second by second, with processors that do as much as they should for all that run.
struct Run {
    scene: Scene,
    /// At which second.
    ended: BTreeMap<u64, u32>,
    stops: BTreeMap<u64, u32>,
}

impl Run {
    fn new(instances: u32, preemption: Preemption, precedence: Precedence) -> Self {
        let mut scene = Scene::new(instances, &[]);
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

    /// Who begins, and who waits then.
    fn choose(&mut self) -> (Vec<Task>, Vec<Task>) {
        let schedule = self.scene.choose();
        for stopped in &schedule.preempt {
            *self.stops.entry(stopped.0).or_default() += 1;
        }
        let waits = |task: &&Task| task.stage == Stage::Queued;
        let waiting: Vec<Task> = self.scene.tasks.iter().filter(waits).cloned().collect();
        self.scene.carry_out(&schedule);
        let begins = |task: &Task| schedule.start.contains(&task.number);
        waiting.into_iter().partition(begins)
    }

    /// A second more, the so manieth.
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

    /// So long, with three tasks waiting all the time that take two CPUs for two seconds.
    fn beside_short_and_wide_ones(&mut self, seconds: u32) {
        for second in 0..seconds {
            let wide = |task: &&Task| task.stage == Stage::Queued && task.usage.cpus == 2.0;
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
    // And the others have all of the processors then: one ends every two seconds.
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
        // At the first end after the 30 s.
        assert_eq!(run.ended[&2], 33);
    }
}

integration_tests_properties::properties! {
    256;

    /// Without deadlines a scheduler that is alone has nothing stopped, whatever its tasks want.
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

    /// Whoever else is there: nothing begins of whose scheduler something is stopped, or stays stopped, that could have gone on.
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
        let begun = |task: &&Task| matches!(task.stage, Stage::Executing { .. } | Stage::Preempted { .. });
        let could = |number: TaskNumber| !scene.ending.contains(&number) && !scene.held_back.contains(&number);
        let all = scene.tasks.iter().filter(|task| task.usage.cards.is_none());
        let stands = all.clone().filter(begun).filter(|task| match task.stage {
            Stage::Executing { .. } => schedule.preempt.contains(&task.number),
            _ => could(task.number) && ![&schedule.resume, &schedule.start].iter().any(|these| these.contains(&task.number)),
        });
        let whose: Vec<AssociationIndex> = stands.map(|task| task.association).collect();
        for task in all.filter(|task| task.stage == Stage::Queued && schedule.start.contains(&task.number)) {
            prop_assert!(!whose.contains(&task.association), "{task:?}");
        }
    }

    /// Second by second, with one scheduler: nobody stops, none that came later and wants no more CPUs begins before another, and
    /// whatever it wants none that came later begins before one that has waited for longer than the buffer lasts.
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
