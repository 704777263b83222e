//! Tests of the simulation: cases computed by hand, invariants, and comparisons with two plain simulations.

mod laws;
mod limits;
mod plain;

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::Time;

use super::super::outlook::Outlook;
use super::super::profile::Profile;
use super::super::types::{
    Association, AssociationIndex, ProcessorKind, ProcessorType, ProcessorUsage, Processors, Task,
    TaskNumber, TaskStage,
};
use super::{Simulation, SimulationInput};

const CPU: ProcessorType = ProcessorType::CPU;
const CARDS: ProcessorType = ProcessorType(1);

/// The start of all simulations, late enough for deadlines before it.
fn now() -> Time {
    Time::ZERO + Duration::from_secs(1_000_000)
}

fn kind(instances: u32, relative_speed: f64) -> ProcessorKind {
    ProcessorKind {
        name: "some".to_owned(),
        instances,
        relative_speed,
        availability: 1.0,
    }
}

fn association(share: f64) -> Association {
    Association {
        share,
        max_concurrent: None,
        max_concurrent_of_jobs: BTreeMap::new(),
    }
}

/// Returns a task of the first association that uses one CPU.
fn task(number: u64, remaining: f64) -> Task {
    Task {
        number: TaskNumber(number),
        association: AssociationIndex(0),
        job: 0,
        usage: ProcessorUsage {
            cpus: 1.0,
            cards: None,
        },
        remaining,
        received: now(),
        deadline: None,
        stage: TaskStage::Queued,
    }
}

fn on(cpus: f64, task: Task) -> Task {
    Task {
        usage: ProcessorUsage { cpus, cards: None },
        ..task
    }
}

fn on_cards(cpus: f64, cards: f64, task: Task) -> Task {
    let cards = Some((CARDS, cards));
    Task {
        usage: ProcessorUsage { cpus, cards },
        ..task
    }
}

fn of(association: usize, task: Task) -> Task {
    let association = AssociationIndex(association);
    Task {
        association,
        ..task
    }
}

fn of_job(job: u32, task: Task) -> Task {
    Task { job, ..task }
}

/// Sets the task's deadline, in seconds from the start.
fn due(seconds: f64, task: Task) -> Task {
    let distance = Duration::from_secs_f64(seconds.abs());
    let deadline = if seconds < 0.0 {
        now() - distance
    } else {
        now() + distance
    };
    Task {
        deadline: Some(deadline),
        ..task
    }
}

fn queue(tasks: impl IntoIterator<Item = Task>) -> Vec<Task> {
    tasks.into_iter().collect()
}

/// The data of a [`SimulationInput`]: two CPUs, two GPUs, one association, a buffer of 30 s and a low water mark of 10 s.
#[derive(Clone, Debug)]
struct Case {
    processors: Processors,
    associations: Vec<Association>,
    rec: Vec<f64>,
    tasks: Vec<Task>,
    profile: Profile,
}

impl Case {
    fn new(tasks: Vec<Task>) -> Self {
        Case {
            processors: Processors::new(kind(2, 1.0), vec![kind(2, 0.5)]),
            associations: vec![association(100.0)],
            rec: vec![0.0],
            tasks,
            profile: Profile::CLUSTER,
        }
    }

    /// Adds another association with the same share.
    fn with_two(mut self) -> Self {
        self.associations.push(association(100.0));
        self.rec.push(0.0);
        self
    }

    fn situation(&self) -> SimulationInput<'_> {
        SimulationInput {
            now: now(),
            processors: &self.processors,
            associations: &self.associations,
            rec: &self.rec,
            tasks: &self.tasks,
            profile: &self.profile,
        }
    }

    fn outlook(&self) -> Outlook {
        self.situation().outlook()
    }
}

/// Returns the shortfall, the idle instances and the saturated time of the type.
fn of_type(outlook: &Outlook, of_type: ProcessorType) -> (f64, f64, f64) {
    let of_type = outlook.of_type[of_type];
    (of_type.shortfall, of_type.idle_now, of_type.saturated)
}

fn missed(outlook: &Outlook) -> Vec<u64> {
    outlook.misses.iter().map(|number| number.0).collect()
}

#[test]
fn processors_are_busy_as_long_as_there_are_tasks() {
    for (what, tasks, expected) in [
        ("nothing", vec![], (60.0, 2.0, 0.0)),
        ("one", queue([task(1, 20.0)]), (40.0, 1.0, 0.0)),
        (
            "one for each",
            queue([task(1, 20.0), task(2, 12.0)]),
            (28.0, 0.0, 12.0),
        ),
        (
            "more than instances",
            queue([task(1, 20.0), task(2, 5.0), task(3, 7.0)]),
            // The third ends at 12.
            (28.0, 0.0, 12.0),
        ),
        (
            "beyond the buffer",
            queue([task(1, 40.0), task(2, 31.0), task(3, 10.0)]),
            (0.0, 0.0, 30.0),
        ),
        (
            "one that takes both",
            queue([on(2.0, task(1, 10.0)), task(2, 5.0)]),
            (35.0, 0.0, 10.0),
        ),
        (
            "one that takes both, while one of them is taken",
            queue([task(1, 10.0), on(2.0, task(2, 15.0))]),
            // No more than two are taken from 10 to 15.
            (30.0, 0.0, 15.0),
        ),
        (
            "parts of instances",
            queue([
                on(0.5, task(1, 10.0)),
                on(0.5, task(2, 10.0)),
                on(1.0, task(3, 10.0)),
            ]),
            (40.0, 0.0, 10.0),
        ),
        (
            "no time at all",
            queue([task(1, 0.0), task(2, 0.0)]),
            (60.0, 0.0, 0.0),
        ),
    ] {
        let (shortfall, idle, saturated) = of_type(&Case::new(tasks).outlook(), CPU);
        let expected: (f64, f64, f64) = expected;
        assert!((shortfall - expected.0).abs() < 1e-9, "{what}: {shortfall}");
        assert_eq!(idle, expected.1, "{what}");
        // The value beyond the buffer does not matter.
        let saturated = saturated.min(30.0);
        assert!((saturated - expected.2).abs() < 1e-9, "{what}: {saturated}");
    }
}

#[test]
fn cards_are_given_first_and_their_tasks_take_cpus_too() {
    let case = Case::new(queue([
        task(1, 10.0),
        task(2, 10.0),
        on_cards(1.5, 1.0, task(3, 20.0)),
        on_cards(0.0, 0.5, task(4, 30.0)),
    ]));
    let outlook = case.outlook();
    // The GPU tasks take one and a half CPUs. One CPU task still starts beside them, and the other one after that. All end at 20.
    let (shortfall, idle, saturated) = of_type(&outlook, CPU);
    assert!((shortfall - 20.0).abs() < 1e-9, "{shortfall}");
    assert_eq!((idle, saturated), (0.0, 20.0));
    let (shortfall, idle, saturated) = of_type(&outlook, CARDS);
    assert!((shortfall - (10.0 + 15.0)).abs() < 1e-9, "{shortfall}");
    assert_eq!((idle, saturated), (0.5, 0.0));
    let pairs = &outlook.of(AssociationIndex(0)).of_type;
    let counted = |of_type| {
        let pair = pairs[of_type];
        (pair.runnable, pair.used_by_all, pair.queued)
    };
    assert_eq!(counted(CPU), (2, 3.5, 20.0));
    assert_eq!(counted(CARDS), (2, 1.5, 50.0));
}

#[test]
fn the_less_processors_are_there_the_longer_tasks_take() {
    let mut case = Case::new(queue([
        task(1, 5.0),
        task(2, 5.0),
        on_cards(0.0, 2.0, task(3, 5.0)),
    ]));
    let mut half = kind(2, 1.0);
    half.availability = 0.5;
    let mut never = kind(2, 0.5);
    never.availability = 0.0;
    case.processors = Processors::new(half, vec![never]);
    let outlook = case.outlook();
    let saturated = |of| outlook.of_type[of].saturated;
    assert!((saturated(CPU) - 10.0).abs() < 1e-9);
    // The availability counts as at least a hundredth.
    assert!(saturated(CARDS) > 30.0);
    assert_eq!(outlook.of(AssociationIndex(0)).of_type[CARDS].queued, 500.0);
}

#[test]
fn only_what_can_run_takes_part() {
    let waits = |number, stalled| Task {
        stage: TaskStage::WaitingForInputs { stalled },
        ..task(number, 30.0)
    };
    let runs = |number, stage| Task {
        stage,
        ..task(number, 30.0)
    };
    for (taken, of) in [
        (1.0, vec![waits(1, false)]),
        (0.0, vec![waits(1, true)]),
        (1.0, vec![runs(1, TaskStage::Executing { since: now() })]),
        (
            1.0,
            vec![runs(1, TaskStage::Preempted { has_process: false })],
        ),
        // These tasks have an unknown association, or use unknown GPUs.
        (0.0, vec![self::of(7, task(1, 30.0))]),
        (
            0.0,
            vec![Task {
                usage: ProcessorUsage {
                    cpus: 1.0,
                    cards: Some((ProcessorType(9), 1.0)),
                },
                ..task(1, 30.0)
            }],
        ),
    ] {
        let outlook = Case::new(of.clone()).outlook();
        assert_eq!(outlook.of_type[CPU].idle_now, 2.0 - taken, "{of:?}");
        let runnable = outlook.of(AssociationIndex(0)).of_type[CPU].runnable;
        assert_eq!(f64::from(runnable), taken, "{of:?}");
    }
}

#[test]
fn deadlines_are_missed_by_what_ends_too_late_for_them() {
    for (what, tasks, expected) in [
        (
            "in time, to the second",
            queue([due(20.0, task(1, 10.0))]),
            vec![],
        ),
        (
            "too late for the low mark",
            queue([due(19.0, task(1, 10.0))]),
            vec![1],
        ),
        ("past", queue([due(-5.0, task(1, 1.0))]), vec![1]),
        ("none", queue([task(1, 1e9)]), vec![]),
        (
            "the third waits",
            queue([
                due(50.0, task(1, 20.0)),
                due(50.0, task(2, 30.0)),
                due(30.0, task(3, 5.0)),
            ]),
            vec![3],
        ),
        (
            "far beyond the buffer",
            queue([
                task(1, 1000.0),
                task(2, 1000.0),
                due(1500.0, task(3, 490.1)),
            ]),
            vec![3],
        ),
    ] {
        let outlook = Case::new(tasks).outlook();
        assert_eq!(missed(&outlook), expected, "{what}");
        let misses: Vec<_> = expected
            .iter()
            .map(|number| outlook.misses(TaskNumber(*number)))
            .collect();
        assert_eq!(misses, vec![true; expected.len()]);
        let pair = outlook.of(AssociationIndex(0)).of_type[CPU];
        assert_eq!(pair.deadlines_missed as usize, expected.len(), "{what}");
    }
    let mut never = task(1, 1e30);
    never.deadline = Some(Time::NEVER);
    assert_eq!(missed(&Case::new(vec![never]).outlook()), [0_u64; 0]);
}

#[test]
fn those_that_miss_keep_processors_busy() {
    let late = |number, remaining| due(1.0, task(number, remaining));
    for (what, tasks, cpu, cards) in [
        ("one of two", queue([late(1, 20.0)]), 0.0, 0.0),
        ("both", queue([late(1, 20.0), late(2, 5.0)]), 5.0, 0.0),
        // Tasks are ordered by deadline: 4 and 20, then 9 beside the 4.
        (
            "by deadline",
            queue([
                due(3.0, task(1, 9.0)),
                due(1.0, task(2, 4.0)),
                due(2.0, task(3, 20.0)),
            ]),
            13.0,
            0.0,
        ),
        // Equal deadlines are ordered by number, not by completion: 9 and 4, then 1 behind the 4.
        (
            "by number",
            queue([late(1, 9.0), late(2, 4.0), late(3, 1.0)]),
            5.0,
            0.0,
        ),
        ("one on both", queue([on(2.0, late(1, 20.0))]), 20.0, 0.0),
        (
            "cards and their CPUs",
            queue([on_cards(2.0, 2.0, late(1, 20.0))]),
            20.0,
            20.0,
        ),
        (
            "parts of cards",
            queue([on_cards(2.0, 0.5, late(1, 20.0))]),
            20.0,
            0.0,
        ),
    ] {
        let outlook = Case::new(tasks).outlook();
        let busy = |of: ProcessorType| outlook.of_type[of].busy;
        assert_eq!((busy(CPU), busy(CARDS)), (cpu, cards), "{what}");
    }
}

/// One CPU runs two tasks of ten seconds of each of two schedulers.
#[test]
fn the_scheduler_that_got_less_has_the_first_turns() {
    for (rec, misses) in [
        ([0.0, 0.0], [3, 4]),
        ([0.4, 0.5], [3, 4]),
        ([0.5, 0.4], [1, 2]),
    ] {
        let tasks = [(1, 0), (2, 0), (3, 1), (4, 1)];
        let tasks = tasks.map(|(number, from)| due(35.0, of(from, task(number, 10.0))));
        let mut case = Case::new(tasks.to_vec()).with_two();
        case.processors = Processors::new(kind(1, 1.0), vec![]);
        case.rec = rec.to_vec();
        assert_eq!(missed(&case.outlook()), misses, "{rec:?}");
    }
}

/// A task that needs more GPUs than are left does not run. The rest counts as idle unless a later task fits.
#[test]
fn the_rest_of_a_gpu_into_which_no_task_fits_is_idle() {
    let runs = |number, cards| on_cards(0.0, cards, task(number, 30.0));
    for (wanted, idle) in [
        (vec![1.5, 1.0], 0.5),
        (vec![1.5, 1.0, 0.5], 0.0),
        (vec![1.5, 1.0, 1.0, 1.0, 0.5], 0.0),
        // A pick skips at most four tasks.
        (vec![1.5, 1.0, 1.0, 1.0, 1.0, 0.5], 0.5),
        // A task that needs more GPUs than exist runs alone.
        (vec![3.0, 1.0], 0.0),
    ] {
        let tasks = wanted.iter().zip(1..);
        let case = Case::new(queue(tasks.map(|(cards, number)| runs(number, *cards))));
        let (shortfall, idle_now, _) = of_type(&case.outlook(), CARDS);
        assert_eq!(
            (idle_now, shortfall > 0.0),
            (idle, idle > 0.0),
            "{wanted:?}"
        );
    }
}

#[test]
fn a_pick_mixes_schedulers() {
    // Each of two schedulers has four tasks for four CPUs. With equal recent work, each gets two CPUs.
    let all = (0..8).map(|number| {
        let association = usize::from(number >= 4);
        due(20.0, of(association, task(number, 10.0)))
    });
    let mut case = Case::new(all.collect()).with_two();
    case.processors = Processors::new(kind(4, 1.0), vec![]);
    case.rec = vec![1.0, 1.0];
    case.profile.work_buffer_additional = 90.0;
    assert_eq!(missed(&case.outlook()), [2, 3, 6, 7]);
    // A scheduler with three times the share and equal debt gets three CPUs.
    case.associations[1].share = 300.0;
    case.rec = vec![1.0, 3.0];
    assert_eq!(missed(&case.outlook()), [1, 2, 3, 7]);
}

/// Returns the number of tasks that the simulation ends.
fn ended(case: &Case) -> usize {
    let situation = case.situation();
    let mut simulation = Simulation::new(&situation);
    simulation.run();
    simulation.tasks.iter().filter(|task| task.done).count()
}

/// The low water mark applies to the deadline check, as at a scheduler that receives it: with 10 s kept, 20 of 29 seconds are too late.
#[test]
fn what_ends_within_the_low_water_mark_before_its_deadline_misses_it() {
    for (deadline, late) in [(29.0, vec![2]), (30.0, vec![])] {
        let mut case = Case::new(queue([
            due(25.0, task(1, 10.0)),
            due(deadline, task(2, 10.0)),
        ]));
        case.processors = Processors::new(kind(1, 1.0), vec![]);
        assert_eq!(case.profile.low_water(), 10.0);
        assert_eq!(missed(&case.outlook()), late, "{deadline}");
    }
}

#[test]
fn beyond_the_buffer_no_more_is_simulated_than_deadlines_ask_for() {
    let many = 20_000_u32;
    let tasks = || (0..many).map(|number| task(u64::from(number), 10.0));
    // Three tasks end on each of two instances, plus those that end together with the first one beyond the buffer.
    assert!(ended(&Case::new(tasks().collect())) <= 8);
    // The deadlines are met on both instances. With a limit, they must be met even one after the other.
    let far = |seconds: f64| Case::new(tasks().map(|task| due(seconds, task)).collect());
    assert!(ended(&far(f64::from(many) * 5.0 + 21.0)) <= 8);
    let mut limited = far(f64::from(many) * 10.0 + 11.0);
    limited.associations[0].max_concurrent = Some(2);
    assert!(ended(&limited) <= 8);
    // The simulation must only wait for task 20.
    let first = tasks().map(|task| match task.number.0 {
        20 => due(1000.0, task),
        _ => task,
    });
    let ends = ended(&Case::new(first.collect()));
    assert!((20..30).contains(&ends), "{ends}");
}

#[test]
fn tasks_that_take_nothing_run_in_bounded_numbers() {
    let nothing = (0..1000).map(|number| on(0.0, task(number, 60.0)));
    let case = Case::new(nothing.collect());
    let situation = case.situation();
    let mut simulation = Simulation::new(&situation);
    simulation.pick();
    assert_eq!(simulation.active.len(), 200);
    assert_eq!(of_type(&case.outlook(), CPU), (60.0, 2.0, 0.0));
}
