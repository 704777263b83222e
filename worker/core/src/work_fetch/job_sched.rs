//! What runs now: which of the tasks that are there begin, go on, or stop for others.
//!
//! First a list is made of what should run (`run_list`): of each type of processors those whose deadlines are in danger, then the others
//! by the priorities of their schedulers. Then as much of it is taken as there is room for (`enforcement`), in an order in which nothing
//! stops for what its own scheduler sent later (`precedence`).
//!
//! Of what volunteers' machines do here there is no: processors that may be used only at some times, work that has to have written a
//! checkpoint before it can stop (a stopped process loses nothing), a stop after ten seconds of starting tasks (nobody here waits for a start), cards that one task may use and another may not, a setting
//! that puts cards before deadlines, and a look at the memory that tasks are expected to have: a scheduler sets it aside (slots of `ram_mb`)
//! before it sends a task, and for as long as the task waits, runs or is stopped here.

use std::collections::BTreeSet;

use brasserie_common::Time;

use super::outlook::Outlook;
use super::profile::Profile;
use super::types::{Associations, PerType, Processors, Task, TaskNumber};

mod concurrency;
mod contenders;
mod danger;
mod enforcement;
mod precedence;
mod run_list;

use contenders::Contenders;

/// Whether what runs may be stopped for something more important.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// What began runs to its end.
    #[default]
    Off,
    /// Its processes can be stopped and go on later. Those of tasks that have cards are not: a stopped one keeps its memory there, so that
    /// another might not find enough.
    Suspend,
}

/// All that it is chosen from, and what it depends on.
#[derive(Clone, Copy, Debug)]
pub struct Hand<'a> {
    pub now: Time,
    pub profile: &'a Profile,
    pub preemption: Preemption,
    pub processors: &'a Processors,
    pub associations: &'a Associations,
    /// What each association got lately.
    pub rec: &'a [f64],
    pub tasks: &'a [Task],
    /// Whose end is under way: they keep what they have until then, and neither begin, stop nor go on.
    pub ending: &'a BTreeSet<TaskNumber>,
    /// Those that could not begin now even if the amounts of processors allowed it: the cards that are theirs are taken, or the machine has
    /// no room for another process. They take nothing and let others pass; of those that execute it says nothing.
    pub held_back: &'a BTreeSet<TaskNumber>,
    /// What is expected of these tasks at `now`.
    pub outlook: &'a Outlook,
}

/// What is to be done, the most important first.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// These have no process yet, or have none any more.
    pub start: Vec<TaskNumber>,
    pub preempt: Vec<TaskNumber>,
    pub resume: Vec<TaskNumber>,
    /// All others that have what they need, in the order in which they should begin or go on when something ends before the next choice:
    /// those in danger first, then those with cards. Whoever takes from it passes those that do not fit, or that still cannot begin.
    pub next: Vec<TaskNumber>,
    /// Instances that nobody uses then.
    pub idle: PerType<f64>,
    /// There are such, and more than those that are held back will take: it should be looked now whom to ask for work.
    pub wants_fetch: bool,
}

impl Hand<'_> {
    pub fn choose(&self) -> Schedule {
        let contenders = Contenders::new(self);
        let list = run_list::make(self, &contenders);
        enforcement::enforce(self, &contenders, &list).schedule(self, &contenders, &list)
    }
}

#[cfg(test)]
mod tests;
