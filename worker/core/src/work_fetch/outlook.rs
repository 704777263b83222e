//! What the round-robin simulation tells those who decide what runs and whom to ask.

use std::collections::BTreeSet;

use super::types::{AssociationIndex, PerType, TaskNumber};

/// How the tasks that are there will keep the processors busy.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    pub of_type: PerType<TypeOutlook>,
    /// By association.
    pub of_association: Vec<AssociationOutlook>,
    /// Who ends later than its deadline allows.
    pub misses: BTreeSet<TaskNumber>,
}

/// Of one type of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TypeOutlook {
    /// Instance-seconds that are missing to keep all instances busy until the end of the buffer.
    pub shortfall: f64,
    /// Instances that have nothing to do now.
    pub idle_now: f64,
    /// So long all instances stay busy; how long beyond the end of the buffer is not looked at.
    pub saturated: f64,
    /// So long all instances are taken by tasks whose deadlines are in danger: nothing new can begin before.
    pub busy: f64,
}

/// Of the tasks of one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationOutlook {
    pub of_type: PerType<PairOutlook>,
    /// When one of its own limits of tasks at once last kept it from more, in seconds from now; of the times beyond the buffer the first.
    pub limited_at: Option<f64>,
}

/// Of those of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairOutlook {
    pub deadlines_missed: u32,
    /// Tasks that can run, or could if their inputs were here.
    pub runnable: u32,
    /// Instances that they would use if all ran at once.
    pub used_by_all: f64,
    /// Seconds of run time that they take.
    pub queued: f64,
    /// As [`TypeOutlook::shortfall`], of as many instances as the association's limit of tasks at once allows; zero where neither it nor a
    /// job has one.
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
