//! Chooses the running tasks: which tasks start, go on, or stop for others.
//!
//! The module first lists the tasks that should run (`run_list`). For each processor type, tasks whose deadlines are in danger come first,
//! then the others by the priorities of their schedulers. It then takes as many of them as fit (`enforcement`), in an order in which no
//! task stops for a later task of its own scheduler (`precedence`).
//!
//! Some features of BOINC's choice do not exist here:
//!
//! * processors that may be used only at some times,
//! * checkpoints before a task stops, since a stopped process loses nothing,
//! * a limit of ten seconds for starting tasks, since nothing here waits for a start,
//! * GPUs that one task may use and another may not,
//! * a setting that puts GPU tasks before deadlines,
//! * a check of the expected memory, since a scheduler reserves it (slots of `ram_mb`) before it sends a task, and for as long as the task
//!   is at the worker.

use std::collections::BTreeSet;

use brasserie_common::Time;

use super::outlook::Outlook;
use super::profile::Profile;
use super::types::{Associations, PerType, Processors, Task, TaskNumber};

mod concurrency;
mod contenders;
mod enforcement;
mod precedence;
mod run_list;

use contenders::Contenders;

/// Whether running tasks may be stopped for more important ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// A task that has started runs to its end.
    #[default]
    Off,
    /// The processes of a task can be stopped and continued. GPU tasks are never stopped: a stopped one keeps its GPU memory, so another
    /// might not find enough.
    Suspend,
}

/// The inputs of the choice.
#[derive(Clone, Copy, Debug)]
pub struct SchedulingInput<'a> {
    pub now: Time,
    pub profile: &'a Profile,
    pub preemption: Preemption,
    pub processors: &'a Processors,
    pub associations: &'a Associations,
    /// The recent work of each association.
    pub rec: &'a [f64],
    pub tasks: &'a [Task],
    /// Tasks that are about to end. They keep their resources until then, and never start, stop or continue.
    pub ending: &'a BTreeSet<TaskNumber>,
    /// Tasks that could not start now even if all processors were free: their GPUs are taken, or the machine has no room for another
    /// process. They take nothing, and other tasks overtake them. A running task in this set is not affected.
    pub held_back: &'a BTreeSet<TaskNumber>,
    /// The simulation's result for these tasks at `now`.
    pub outlook: &'a Outlook,
}

/// The result of a choice. All lists begin with the most important task.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Tasks to start, which have no process yet or no longer have one.
    pub start: Vec<TaskNumber>,
    pub preempt: Vec<TaskNumber>,
    pub resume: Vec<TaskNumber>,
    /// All other tasks that have their inputs, in the order in which they should start or continue when a run ends before the next choice:
    /// tasks in danger first, then GPU tasks. The caller skips tasks that do not fit or still cannot start.
    pub next: Vec<TaskNumber>,
    /// Instances that the choice leaves idle.
    pub idle: PerType<f64>,
    /// More instances are idle than the held-back tasks will take, so the worker must check now which scheduler to ask for work.
    pub wants_fetch: bool,
}

impl SchedulingInput<'_> {
    pub fn choose(&self) -> Schedule {
        let contenders = Contenders::new(self);
        let list = run_list::make(self, &contenders);
        enforcement::enforce(self, &contenders, &list).schedule(self, &contenders, &list)
    }
}

#[cfg(test)]
mod tests;
