//! Queues: the state of each task, which tasks may be tried now, and where the others wait for slots.

pub(crate) mod columns;
pub(crate) mod gates;
mod histogram;
pub(crate) mod states;
pub(crate) mod tally;
pub(crate) mod wait_lists;
mod waiting;

use std::collections::BTreeSet;

use brasserie_common::JobId;

use columns::Columns;
use wait_lists::{WaitKey, WaitLists};

/// The columns of all jobs over one forest, and the wait lists there.
///
/// Invariant: an eligible task is ready or in a wait list. It is in both after it was woken as the first of its list.
///
/// A change leaves work for the owner: waiting tasks whose turn may have come ([`Queues::take_next_in_line`]), and jobs whose ready tasks the
/// pool must count again ([`Queues::take_touched`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    side: QueueSide,
    /// Indexed by job id; empty for a job that is not configured.
    columns: Vec<Columns>,
    lists: WaitLists,
    /// Tasks that became the first of their job at a place.
    next_in_line: Vec<NextInLine>,
    touched: Vec<JobId>,
}

/// Says whether tasks are placed from these queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueueSide {
    #[default]
    InForce,
    /// The queues are under construction. No task waits in a list, and a job's gate is unknown before it has columns.
    Next,
}

/// A task that became the first of its job at a place where tasks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextInLine {
    pub key: WaitKey,
    pub job: JobId,
    pub position: u32,
}

impl Queues {
    /// Creates queues for a forest that is under construction.
    pub(crate) fn next(jobs: usize) -> Self {
        let mut queues = Queues {
            side: QueueSide::Next,
            ..Queues::default()
        };
        queues.expect_jobs(jobs);
        queues
    }

    /// Makes room for `jobs` jobs.
    pub(crate) fn expect_jobs(&mut self, jobs: usize) {
        self.columns.resize_with(jobs, Columns::default);
    }

    /// Returns the columns of all jobs, by id.
    pub(crate) fn columns(&self) -> &[Columns] {
        &self.columns
    }

    /// Returns the columns of a known job.
    pub(crate) fn of(&self, id: JobId) -> &Columns {
        &self.columns[id.index()]
    }

    /// Removes a job's positions and keeps its gates.
    pub(crate) fn reset(&mut self, id: JobId) {
        self.columns[id.index()].take_out();
    }

    /// Takes out the columns of some jobs, except their gates, to free them step by step.
    pub(crate) fn take_out(&mut self, jobs: &BTreeSet<JobId>) -> Vec<Columns> {
        let columns = jobs.iter().map(|id| self.columns[id.index()].take_out());
        columns.collect()
    }

    /// Takes out the columns of all jobs, with their gates.
    pub(crate) fn take_all(&mut self) -> Vec<Columns> {
        let jobs = self.columns.len();
        let columns = std::mem::take(&mut self.columns);
        self.expect_jobs(jobs);
        columns
    }

    /// Replaces the columns by those that were built for another forest. Returns the former ones.
    pub(crate) fn exchange(&mut self, next: Queues) -> Vec<Columns> {
        std::mem::replace(&mut self.columns, next.columns)
    }

    /// Returns the columns, to free them step by step.
    pub(crate) fn into_columns(self) -> Vec<Columns> {
        self.columns
    }

    /// Takes the tasks that became the first of their job at a place. The owner makes those ready for which there is room.
    pub(crate) fn take_next_in_line(&mut self) -> Vec<NextInLine> {
        std::mem::take(&mut self.next_in_line)
    }

    /// Takes the jobs whose gate, or whose ready or eligible tasks, may have changed.
    pub(crate) fn take_touched(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.touched)
    }

    /// Notes that the pool must count the job's ready tasks again. Nothing is placed from queues under construction.
    fn touch(&mut self, id: JobId) {
        match self.side {
            QueueSide::InForce => self.touched.push(id),
            QueueSide::Next => {}
        }
    }
}
