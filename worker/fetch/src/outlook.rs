//! The result of the round-robin simulation, which the choices of requests and of running tasks use.

use std::collections::BTreeSet;

use super::types::{AssociationIndex, PerType, TaskNumber};

/// The simulated use of the processors by the tasks at the worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    pub of_type: PerType<TypeOutlook>,
    /// The outlooks by association.
    pub of_association: Vec<AssociationOutlook>,
    /// The tasks that end after their deadlines minus the low water mark.
    pub misses: BTreeSet<TaskNumber>,
}

/// The simulated use of one processor type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TypeOutlook {
    /// Instance-seconds that are missing to keep all instances busy until the end of the buffer.
    pub shortfall: f64,
    /// Instances that are idle now.
    pub idle_now: f64,
    /// Seconds for which all instances stay busy. Beyond the end of the buffer the value is only a lower bound.
    pub saturated: f64,
    /// Seconds for which tasks in danger of missing their deadlines take all instances, so that no new task can start.
    pub busy: f64,
}

/// The simulated tasks of one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationOutlook {
    pub of_type: PerType<PairOutlook>,
    /// The last time at which a limit of concurrent tasks kept the scheduler's tasks waiting, in seconds from now. Of the times beyond the
    /// buffer, the first counts.
    pub limited_at: Option<f64>,
}

/// The simulated tasks of one scheduler and type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairOutlook {
    pub deadlines_missed: u32,
    /// Tasks that can run, or could if their inputs were here.
    pub runnable: u32,
    /// Instances that these tasks would use if all ran at once.
    pub used_by_all: f64,
    /// Seconds of run time that these tasks still need.
    pub queued: f64,
    /// The [`TypeOutlook::shortfall`] of the instances that the association's limit of concurrent tasks allows. 0 if neither the
    /// association nor one of its jobs has a limit.
    pub limited_shortfall: f64,
}

impl Outlook {
    pub fn misses(&self, task: TaskNumber) -> bool {
        self.misses.contains(&task)
    }

    pub fn of(&self, association: AssociationIndex) -> &AssociationOutlook {
        &self.of_association[association.0]
    }
}
