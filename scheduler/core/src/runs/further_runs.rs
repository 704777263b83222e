//! Further runs of tasks that are already running. They exist only after a mistake, but the scheduler must count them as running.

use std::collections::BTreeMap;

use brasserie_common::resources::NodeResources;
use brasserie_common::{CardsWanted, GpuShare, InvocationId, Time};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use super::{Run, Runs};

/// The further runs, by task and run. Each holds its slots, because it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct FurtherRuns {
    runs: BTreeMap<(Task, InvocationId), FurtherRun>,
    /// When tasks may start again by the completion of a further run. Used if the task's main run turns out never to have begun.
    waits: BTreeMap<Task, Time>,
}

#[derive(Clone, Debug)]
struct FurtherRun {
    run: Run,
    held: HeldResources,
}

/// The slots and the GPUs that the engine holds for a run.
#[derive(Clone, Debug)]
pub struct HeldResources {
    /// The worker.
    pub index: WorkerIndex,
    pub charges: Vec<NodeResources>,
    pub gpus: Vec<GpuShare>,
    /// The GPUs that the run requests, if its worker had not chosen them yet.
    pub gpus_wanted: Option<CardsWanted>,
}

impl FurtherRuns {
    pub(super) fn get(&self, task: Task, invocation: InvocationId) -> Option<&Run> {
        self.runs
            .get(&(task, invocation))
            .map(|further| &further.run)
    }

    pub(super) fn get_mut(&mut self, task: Task, invocation: InvocationId) -> Option<&mut Run> {
        let further = self.runs.get_mut(&(task, invocation))?;
        Some(&mut further.run)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Task, &Run)> {
        let runs = self.runs.iter();
        runs.map(|((task, _), further)| (*task, &further.run))
    }

    pub(super) fn of(&self, task: Task) -> impl Iterator<Item = &Run> {
        let all = (task, InvocationId::new(i64::MIN, i64::MIN))
            ..=(task, InvocationId::new(i64::MAX, i64::MAX));
        self.runs.range(all).map(|(_, further)| &further.run)
    }

    pub(super) fn waits(&self) -> &BTreeMap<Task, Time> {
        &self.waits
    }

    /// Forgets the wait of a task whose main run has ended.
    pub(super) fn forget_wait(&mut self, task: Task) {
        self.waits.remove(&task);
    }
}

impl Runs {
    pub(crate) fn take_further(
        &mut self,
        task: Task,
        invocation: InvocationId,
    ) -> Option<(Run, HeldResources)> {
        let further = self.further.runs.remove(&(task, invocation))?;
        self.unindex(task, &further.run);
        Some((further.run, further.held))
    }

    pub(crate) fn begin_further(&mut self, task: Task, run: Run, held: HeldResources) {
        self.index(task, &run);
        let key = (task, run.invocation);
        let was = self.further.runs.insert(key, FurtherRun { run, held });
        assert!(was.is_none(), "Invariant: a known run is not begun again");
    }

    /// Returns the earliest further run of the task.
    pub(crate) fn first_further(&self, task: Task) -> Option<InvocationId> {
        Some(self.further.of(task).next()?.invocation)
    }

    /// Returns when the completion of a further run permits the task to start again.
    pub(crate) fn wait_of_further(&self, task: Task) -> Option<Time> {
        self.further.waits.get(&task).copied()
    }

    /// Returns the number of further runs of the task.
    pub(crate) fn count_further(&self, task: Task) -> usize {
        self.further.of(task).count()
    }

    /// Iterates over all further runs.
    pub(crate) fn further(&self) -> impl Iterator<Item = (Task, &Run)> {
        self.further.iter()
    }

    /// Notes that the completion of a further run permits the task to start again at this time, if at all.
    pub(crate) fn note_wait_of_further(&mut self, task: Task, not_before: Option<Time>) {
        match not_before {
            Some(at) => self.further.waits.insert(task, at),
            None => self.further.waits.remove(&task),
        };
    }
}
