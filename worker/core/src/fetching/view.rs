//! The data of associations that the policies of a pull worker get.

use brasserie_common::{ReportPolicy, SchedulerId, ServiceAddress, Time, WorkerId};
use brasserie_worker_fetch::{
    AssociationIndex, AssociationState, Computing, FetcherInput, ReportContent, Task, Unreported,
};

use super::Fetching;
use crate::reports::HeldCompletion;

/// An association, as the work fetch sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchedulerView<'a> {
    pub index: AssociationIndex,
    pub instance: WorkerId,
    pub scheduler: Option<SchedulerId>,
    /// The addresses of the scheduler.
    pub members: &'a [ServiceAddress],
    /// Nobody has ended the association.
    pub is_running: bool,
    /// No scheduler would send anything to the association.
    pub is_absent: bool,
    /// The number of reports that are neither acknowledged nor held back.
    pub unacknowledged: usize,
}

/// The state of the worker at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerMoment<'a> {
    pub now: Time,
    /// The open tasks.
    pub tasks: &'a [Task],
    pub schedulers: &'a [SchedulerView<'a>],
    /// The completions that are held back, see [`unreported`].
    pub unreported: &'a [Unreported],
}

impl<'a> WorkerMoment<'a> {
    pub(super) fn input(&self, association_states: &'a [AssociationState]) -> FetcherInput<'a> {
        let computes = self.schedulers.iter().any(|view| view.is_running);
        FetcherInput {
            now: self.now,
            computing: match computes {
                true => Computing::Allowed,
                false => Computing::Suspended,
            },
            tasks: self.tasks,
            association_states,
            unreported: self.unreported,
        }
    }
}

impl Fetching {
    pub(super) fn association_states(
        &self,
        schedulers: &[SchedulerView<'_>],
    ) -> Vec<AssociationState> {
        let all = schedulers.iter().zip(&self.takes_requests);
        all.map(|(view, takes)| AssociationState {
            is_suspended: false,
            is_absent: view.is_absent || !takes.any(),
            wants_no_more_work: !view.is_running,
            unacknowledged: view.unacknowledged,
        })
        .collect()
    }
}

/// Returns the held completions of all associations in the order in which the tasks ended.
pub(crate) fn unreported<'a>(
    held: impl Iterator<Item = (AssociationIndex, &'a HeldCompletion)>,
) -> Vec<Unreported> {
    let mut ends: Vec<Unreported> = held
        .map(|(association, held)| Unreported {
            association,
            task: held.task,
            told: ReportContent::End,
            policy: Some(ReportPolicy::Lazy),
            ended: held.ended,
            deadline: held.deadline,
        })
        .collect();
    ends.sort_by_key(|end| end.ended);
    ends
}
