//! Simulates how the worker's tasks will run if no more work arrives: they run in turn by the priorities of their schedulers.
//!
//! Simulated time advances from one completion to the next. The priorities stay those of the start: updating them by the simulated work, in
//! steps of an hour or of a tenth of the buffer, improved no figure of the emulator. Beyond the end of the buffer only deadlines matter, so
//! the simulation ends there as soon as all remaining tasks meet their deadlines in any order. Without near deadlines the cost is that of
//! the tasks of one buffer, however many are queued. Otherwise the cost is that of all tasks, each times the number of busy instances.
//!
//! An early version of BOINC simulated that the tasks of all schedulers run side by side, each at a rate by its scheduler's share. That
//! would be wrong here: without preemption tasks run one after the other.

mod bound;
mod queues;

use brasserie_common::Time;

use super::amounts::{TOLERANCE, amount};
use super::busy::BusyTimes;
use super::outlook::{AssociationOutlook, Outlook, PairOutlook, TypeOutlook};
use super::priority::Priorities;
use super::profile::Profile;
use super::types::{
    AssociationIndex, Associations, PerType, ProcessorType, ProcessorUsage, Processors, Task,
    TaskNumber, TaskStage,
};
use bound::LatestEnd;
use queues::Queues;

/// Limit for the tasks that one pick skips because they do not fit into the rest of a GPU type. It bounds the pick's cost.
const MAX_SKIPPED: usize = 4;
/// The least part of an instance that a running task counts as, so that the number of running tasks is bounded.
const LEAST_PLACE: f64 = 0.01;
/// Limit of instances for the computation of busy times, which needs memory for each. No machine has more, and a type with more counts as
/// never busy.
const MOST_PLACES: u32 = 10_000;
/// Bound of the relative rounding error of a sum of many spans.
const ROUNDING: f64 = 1e-9;
/// Lower limit of a processor's availability, as a fraction of the time.
const LEAST_AVAILABILITY: f64 = 0.01;

/// The input of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct SimulationInput<'a> {
    pub now: Time,
    pub processors: &'a Processors,
    pub associations: &'a Associations,
    /// The recent work by association, as [`Accounting`](super::Accounting) computes it.
    pub rec: &'a [f64],
    /// The tasks in any order. Those of unknown associations or processor types are ignored.
    pub tasks: &'a [Task],
    pub profile: &'a Profile,
}

impl SimulationInput<'_> {
    pub fn outlook(&self) -> Outlook {
        let mut simulation = Simulation::new(self);
        simulation.run();
        simulation.finish()
    }

    /// Returns the seconds until the task's deadline, which may be negative; `None` for a deadline that never comes.
    fn deadline(&self, task: &Task) -> Option<f64> {
        let deadline = task.deadline.filter(|at| *at != Time::NEVER)?;
        let ahead = deadline.since(self.now).as_secs_f64();
        Some(ahead - self.now.since(deadline).as_secs_f64())
    }

    /// Returns whether the task takes part. A task whose inputs will arrive takes part as if they were here.
    fn is_simulated(&self, task: &Task) -> bool {
        let is_there = task.association.0 < self.associations.len()
            && (self.processors.types()).any(|of_type| of_type == task.usage.processor_type());
        let can_run = match task.stage {
            TaskStage::WaitingForInputs { stalled } => !stalled,
            TaskStage::Queued | TaskStage::Executing { .. } | TaskStage::Preempted { .. } => true,
        };
        is_there && can_run
    }
}

/// A task in the simulation.
struct Simulated {
    number: TaskNumber,
    association: AssociationIndex,
    job: u32,
    of_type: ProcessorType,
    usage: ProcessorUsage,
    /// The fraction of the worker's computing power that it uses.
    fraction_of_host: f64,
    /// Seconds until its end, if it ran from now on.
    left: f64,
    /// The value of `left` when the simulation began.
    duration: f64,
    /// Seconds from the start of the simulation.
    deadline: Option<f64>,
    done: bool,
}

/// The state of the simulation.
struct Simulation<'a> {
    simulation_input: &'a SimulationInput<'a>,
    /// The tasks in the order of arrival.
    tasks: Vec<Simulated>,
    queues: Queues,
    /// The tasks with deadlines, the nearest last. All open tasks with deadlines are in the list, and some that are done.
    by_deadline: Vec<usize>,
    latest: LatestEnd,
    /// The priorities with which each pick begins.
    priorities: Priorities,
    /// The running tasks.
    active: Vec<usize>,
    used: PerType<f64>,
    used_by: Vec<PerType<f64>>,
    /// Instances that an association's limit lets it use.
    could_use: Vec<PerType<f64>>,
    /// Simulated seconds since the start.
    elapsed: f64,
    /// The end of the buffer, in seconds from the start.
    end: f64,
    /// Seconds before their deadlines by which tasks should end.
    low_water: f64,
    /// Whether the last pick was beyond the end of the buffer.
    picked_beyond: bool,
    missed: Vec<usize>,
    outlook: Outlook,
}

impl<'a> Simulation<'a> {
    fn new(simulation_input: &'a SimulationInput<'a>) -> Self {
        let SimulationInput {
            processors,
            associations,
            tasks: given,
            ..
        } = *simulation_input;
        let mut given: Vec<&Task> = (given.iter())
            .filter(|task| simulation_input.is_simulated(task))
            .collect();
        given.sort_by_key(|task| (task.received, task.number));
        let tasks: Vec<_> = given
            .iter()
            .map(|task| simulated(simulation_input, task))
            .collect();
        let queues = Queues::new(simulation_input, &tasks);
        let mut counted = vec![false; associations.len()];
        for task in &tasks {
            counted[task.association.0] = true;
        }
        let mut by_deadline: Vec<_> = (0..tasks.len())
            .filter(|index| tasks[*index].deadline.is_some())
            .collect();
        let deadline = |index: &usize| tasks[*index].deadline.unwrap_or(f64::INFINITY);
        by_deadline.sort_by(|one, other| deadline(other).total_cmp(&deadline(one)));
        let none = AssociationOutlook {
            of_type: processors.table(&PairOutlook::default()),
            limited_at: None,
        };
        let mut simulation = Simulation {
            simulation_input,
            queues,
            by_deadline,
            latest: LatestEnd::new(simulation_input, &tasks),
            priorities: Priorities::new(associations, simulation_input.rec, &counted),
            active: Vec::new(),
            used: processors.table(&0.0),
            used_by: vec![processors.table(&0.0); associations.len()],
            could_use: Vec::new(),
            elapsed: 0.0,
            end: amount(simulation_input.profile.high_water()),
            low_water: amount(simulation_input.profile.low_water()),
            picked_beyond: false,
            missed: Vec::new(),
            outlook: Outlook {
                of_type: processors.table(&TypeOutlook::default()),
                of_association: vec![none; associations.len()],
                misses: std::collections::BTreeSet::new(),
            },
            tasks,
        };
        simulation.count_queued();
        simulation.bound_by_limits();
        simulation
    }

    fn count_queued(&mut self) {
        for task in &self.tasks {
            let of_type = &mut self.outlook.of_association[task.association.0].of_type;
            let pair = &mut of_type[task.of_type];
            pair.runnable = pair.runnable.saturating_add(1);
            pair.queued += task.left;
            for each in self.simulation_input.processors.types() {
                of_type[each].used_by_all += task.usage.of(each);
            }
        }
    }

    /// Computes the instances that each association can use: its limit times the largest usage of one of its tasks.
    fn bound_by_limits(&mut self) {
        let SimulationInput {
            processors,
            associations,
            ..
        } = *self.simulation_input;
        let mut most = vec![processors.table(&0.0_f64); associations.len()];
        for task in &self.tasks {
            let most = &mut most[task.association.0][task.of_type];
            *most = most.max(task.usage.of_its_type());
        }
        for (association, mut could_use) in associations.iter().zip(most) {
            for of_type in processors.types() {
                let instances = processors.instances(of_type);
                // The usage of an association without tasks is unknown.
                let by_one = match could_use[of_type] {
                    0.0 => 1.0,
                    most => most,
                };
                could_use[of_type] = association
                    .max_concurrent
                    .map_or(instances, |limit| instances.min(f64::from(limit) * by_one));
            }
            self.could_use.push(could_use);
        }
    }

    fn run(&mut self) {
        self.pick();
        for of_type in self.simulation_input.processors.types() {
            let idle = self.simulation_input.processors.instances(of_type) - self.used[of_type];
            self.outlook.of_type[of_type].idle_now = idle.max(0.0);
        }
        while let Some(best) = self.first_to_end() {
            if self.picked_beyond && self.deadlines_are_met() {
                break;
            }
            let seconds = self.tasks[best].left;
            for place in 0..self.active.len() {
                let index = self.active[place];
                if seconds >= self.tasks[index].left {
                    self.end(index, seconds);
                }
            }
            self.advance(seconds);
            self.pick();
        }
        // No task is left to run.
        self.count(self.end - self.elapsed);
    }

    /// Returns the running task that ends first.
    fn first_to_end(&self) -> Option<usize> {
        let left = |index: &usize| self.tasks[*index].left;
        let active = self.active.iter().copied();
        active.min_by(|one, other| left(one).total_cmp(&left(other)))
    }

    /// Ends a task, and records it if it misses its deadline. BOINC exempts tasks that need more memory than there is, but a scheduler here
    /// never sends one.
    fn end(&mut self, index: usize, after: f64) {
        let task = &mut self.tasks[index];
        task.done = true;
        let late = |deadline| self.elapsed + after - (deadline - self.low_water) > 0.0;
        if !task.deadline.is_some_and(late) {
            return;
        }
        self.missed.push(index);
        self.outlook.misses.insert(task.number);
        let pairs = &mut self.outlook.of_association[task.association.0].of_type;
        let pair = &mut pairs[task.of_type];
        pair.deadlines_missed = pair.deadlines_missed.saturating_add(1);
    }

    fn advance(&mut self, seconds: f64) {
        for index in &self.active {
            let task = &mut self.tasks[*index];
            let left = (task.left - seconds).max(0.0);
            self.latest.pass(task, task.left - left);
            task.left = left;
        }
        self.count(seconds);
        self.elapsed += seconds;
    }

    /// Adds a step to the outlook, up to the end of the buffer.
    fn count(&mut self, seconds: f64) {
        if self.elapsed >= self.end {
            return;
        }
        let within = seconds.min(self.end - self.elapsed);
        let SimulationInput {
            processors,
            associations,
            ..
        } = *self.simulation_input;
        for of_type in processors.types() {
            let of_it = &mut self.outlook.of_type[of_type];
            let idle = processors.instances(of_type) - self.used[of_type];
            if idle > TOLERANCE {
                of_it.shortfall += idle * within;
            }
            if idle < TOLERANCE {
                of_it.saturated = self.elapsed + seconds;
            }
            for (index, association) in associations.iter().enumerate() {
                let more = match association.max_concurrent {
                    Some(_) => self.could_use[index][of_type] - self.used_by[index][of_type],
                    None if association.max_concurrent_of_jobs.is_empty() => 0.0,
                    // The jobs without a limit can use all idle instances.
                    None => idle,
                };
                let pairs = &mut self.outlook.of_association[index].of_type;
                pairs[of_type].limited_shortfall += more.max(0.0) * within;
            }
        }
    }

    /// Returns whether all remaining tasks meet their deadlines in any order.
    fn deadlines_are_met(&mut self) -> bool {
        while (self.by_deadline.last()).is_some_and(|index| self.tasks[*index].done) {
            self.by_deadline.pop();
        }
        let first = (self.by_deadline.last()).and_then(|index| self.tasks[*index].deadline);
        let latest = self.elapsed + self.latest.seconds(self.simulation_input.processors);
        first.is_none_or(|deadline| latest * (1.0 + ROUNDING) <= deadline - self.low_water)
    }

    /// Picks the tasks that run next, GPU tasks first. Schedulers take turns by priority until all instances are taken, or no task fits
    /// into the remaining GPUs.
    fn pick(&mut self) {
        let processors = self.simulation_input.processors;
        self.active.clear();
        self.used = processors.table(&0.0);
        self.used_by.fill(processors.table(&0.0));
        self.queues.begin_pick();
        for of_type in processors.types().rev() {
            self.pick_of(of_type);
        }
        self.picked_beyond = self.elapsed > self.end;
    }

    fn pick_of(&mut self, of_type: ProcessorType) {
        let instances = self.simulation_input.processors.instances(of_type);
        let mut places = self.used[of_type];
        let mut skipped = 0;
        let mut priorities = self.priorities.clone();
        let mut open = self.queues.begin_type(of_type);
        loop {
            let in_turn = open.iter().copied();
            let in_turn = in_turn.min_by(|one, other| priorities.before(*one, *other));
            let Some(association) = in_turn else {
                break;
            };
            let Some(index) = self.queues.next(association, of_type, &self.tasks) else {
                open.retain(|other| *other != association);
                continue;
            };
            let task = &self.tasks[index];
            let is_too_large = task.usage.of_its_type() > instances - places + TOLERANCE;
            if of_type != ProcessorType::CPU && places > 0.0 && is_too_large {
                // A CPU task starts on any free CPU, but a GPU task needs all of its GPUs free.
                self.queues.skip(index, association);
                skipped += 1;
                if skipped == MAX_SKIPPED {
                    break;
                }
                continue;
            }
            self.active.push(index);
            for each in self.simulation_input.processors.types() {
                let uses = task.usage.of(each);
                self.used[each] += uses;
                self.used_by[association.0][each] += uses;
            }
            places += task.usage.of_its_type().max(LEAST_PLACE);
            priorities.bump(association, task.fraction_of_host);
            if self.queues.is_at_limit(index, association) {
                self.note_limit(association);
            }
            if places >= instances {
                break;
            }
        }
    }

    /// Records that a limit was reached. The last time counts, up to the first one beyond the buffer.
    fn note_limit(&mut self, association: AssociationIndex) {
        if !self.picked_beyond {
            self.outlook.of_association[association.0].limited_at = Some(self.elapsed);
        }
    }

    fn finish(mut self) -> Outlook {
        let processors = self.simulation_input.processors;
        // If the late tasks together leave an instance free, the type is never busy.
        let instances = |of_type: ProcessorType| {
            let taken = self.missed.iter();
            let taken = taken.map(|index| self.tasks[*index].usage.of(of_type).floor());
            match self.simulation_input.processors[of_type].instances {
                all if taken.sum::<f64>() < f64::from(all) => 0,
                all if all > MOST_PLACES => 0,
                all => all as usize,
            }
        };
        let mut busy: Vec<_> = (processors.types())
            .map(|of_type| BusyTimes::new(instances(of_type)))
            .collect();
        let tasks = &self.tasks;
        let deadline = |index: usize| tasks[index].deadline.unwrap_or(f64::INFINITY);
        self.missed.sort_by(|one, other| {
            let by_deadline = deadline(*one).total_cmp(&deadline(*other));
            by_deadline.then(tasks[*one].number.cmp(&tasks[*other].number))
        });
        for index in &self.missed {
            let task = &tasks[*index];
            for (of_type, busy) in processors.types().zip(&mut busy) {
                busy.take(task.duration, task.usage.of(of_type));
            }
        }
        for (of_type, busy) in processors.types().zip(busy) {
            self.outlook.of_type[of_type].busy = busy.all_for();
        }
        self.outlook
    }
}

fn simulated(simulation_input: &SimulationInput, task: &Task) -> Simulated {
    let processors = simulation_input.processors;
    let of_type = task.usage.processor_type();
    let usage = ProcessorUsage {
        cpus: amount(task.usage.cpus),
        cards: task.usage.cards.map(|(of, much)| (of, amount(much))),
    };
    let availability = match processors[of_type].availability {
        unknown if unknown.is_nan() => 1.0,
        known => known.clamp(LEAST_AVAILABILITY, 1.0),
    };
    let peak = amount(usage.peak(processors));
    let host = amount(processors.peak());
    let left = amount(amount(task.remaining) / availability);
    Simulated {
        number: task.number,
        association: task.association,
        job: task.job,
        of_type,
        usage,
        fraction_of_host: if host > 0.0 { peak / host } else { 0.0 },
        left,
        duration: left,
        deadline: simulation_input.deadline(task),
        done: false,
    }
}

#[cfg(test)]
mod tests;
