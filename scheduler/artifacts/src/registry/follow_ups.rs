//! The consequences of missing and superfluous copies: tasks to run again, replicas to make, data to delete, and workers that may leave.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{ArtifactId, DiskGeneration, MachinePortLock, TaskKey, Time};

use super::super::outputs::TaskNumber;
use super::super::reruns::{GiveUpReason, Rerun};
use super::super::types::{ArtifactAmount, Completeness, Liveness, Replicas};
use super::Registry;

/// The prospects of a task that wants to read an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactAvailability {
    /// A copy is known.
    Available,
    /// No copy is known, but the registry is incomplete.
    Unknown,
    /// There is no copy. A task that made the artifact runs again, or will.
    Lost,
    /// There is no copy, and none of the tasks that made the artifact runs again.
    GivenUp(GiveUpReason),
    /// There is no copy, and no live output refers to the artifact.
    Unnamed,
}

/// An artifact with copies, but on too few workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingReplicas {
    pub id: ArtifactId,
    /// The size in bytes.
    pub size: u64,
    /// The number of other workers that should get a copy.
    pub replicas: usize,
}

impl Registry {
    /// Returns the artifacts to which a live output refers and of which no copy exists, in the order of their ids. Returns none while the
    /// registry is incomplete.
    pub fn lost(&self) -> impl Iterator<Item = ArtifactId> {
        let complete = self.if_complete();
        complete.into_iter().flat_map(|()| self.artifacts.lost())
    }

    /// Returns the tasks with a lost output that may run again now, each once. Leaves out the tasks of which a granted run is in progress,
    /// and those that are given up.
    pub fn producers_of_lost(&self) -> impl Iterator<Item = &TaskKey> {
        self.lost().flat_map(move |id| {
            let names = self.artifacts.names(id);
            names.filter_map(move |name| self.key_at_first_lost(name.task, id))
        })
    }

    /// Asks for another run of a task whose outputs are lost. Each call counts towards the bound, until the count begins anew: when a consumer
    /// succeeds, or when a run succeeds that was not granted here.
    pub fn rerun(&mut self, key: &TaskKey) -> Rerun {
        self.reruns.request(key)
    }

    /// Returns how often the outputs of a task were made again, if they would not be made again once more.
    pub fn exhausted_reruns(&self, key: &TaskKey) -> Option<u32> {
        self.reruns.exhausted(key)
    }

    /// Returns whether a granted run of the task is in progress.
    pub fn is_made_again(&self, key: &TaskKey) -> bool {
        self.reruns.is_in_progress(key)
    }

    /// Notes that a granted run has ended without success.
    pub fn rerun_failed(&mut self, key: &TaskKey) {
        self.reruns.run_failed(key);
    }

    /// Returns why a task does not run again for its lost outputs, if it does not.
    pub fn given_up(&self, key: &TaskKey) -> Option<GiveUpReason> {
        self.reruns.given_up(key)
    }

    /// Returns the prospects of a task that wants to read an artifact.
    pub fn availability(&self, id: ArtifactId) -> ArtifactAvailability {
        if self.artifacts.count_copies(id) > 0 {
            return ArtifactAvailability::Available;
        }
        match self.completeness() {
            Completeness::Incomplete => return ArtifactAvailability::Unknown,
            Completeness::Complete => {}
        }
        let mut reason = None;
        for name in self.artifacts.names(id) {
            let key = self.outputs.key(name.task);
            match key.and_then(|key| self.reruns.given_up(key)) {
                None => return ArtifactAvailability::Lost,
                Some(given_up) => reason = Some(given_up),
            }
        }
        reason.map_or(ArtifactAvailability::Unnamed, ArtifactAvailability::GivenUp)
    }

    /// Returns the tasks that made an artifact of which no copy is left; none while the registry is incomplete.
    pub fn makers_of_lost(&self, id: ArtifactId) -> impl Iterator<Item = &TaskKey> {
        let is_lost = self.if_complete().is_some() && self.artifacts.is_lost(id);
        let names = self.artifacts.names(id).filter(move |_| is_lost);
        names.filter_map(|name| self.outputs.key(name.task))
    }

    /// Returns the artifacts with copies on too few remaining workers, in the order of their ids from `after` on, so that a caller that
    /// takes a few at a time gets round to all. Racks count for nothing here: which workers get the replicas, and whether in other racks,
    /// is the business of the caller, who finds the racks of the holders with [`Registry::rack`]. Returns none while the registry is
    /// incomplete.
    pub fn missing_replicas(
        &self,
        after: Option<ArtifactId>,
    ) -> impl Iterator<Item = MissingReplicas> {
        let complete = self.if_complete().into_iter();
        let missing = complete.flat_map(move |()| self.artifacts.missing(after));
        missing.map(|(id, size, replicas)| MissingReplicas { id, size, replicas })
    }

    /// Returns the number of artifacts with a name, a copy or a pin.
    pub fn count_artifacts(&self) -> usize {
        self.artifacts.count_known()
    }

    /// Returns the number of other workers that should get a copy of an artifact. `None` while the registry is incomplete.
    pub fn count_missing(&self, id: ArtifactId) -> Option<usize> {
        self.if_complete()?;
        Some(self.artifacts.count_missing(id))
    }

    /// Returns the number of remaining workers with a copy of an artifact. Stops at `most`.
    pub fn count_replicas(&self, id: ArtifactId, most: Replicas) -> usize {
        self.artifacts.count_replicas(id, most)
    }

    /// Returns whether the outputs of a task are live and each is on as many remaining workers as the task wants.
    pub fn has_replicas(&self, key: &TaskKey) -> bool {
        self.outputs.get(key).is_some_and(|outputs| {
            let wanted = outputs.replicas;
            let has_all = |id| self.artifacts.count_replicas(id, wanted) >= wanted.get();
            outputs.liveness == Liveness::Live && outputs.artifacts().into_keys().all(has_all)
        })
    }

    /// Returns the unwanted artifacts of a worker that it may delete now: at most `most`, the longest unwanted first. Returns them again until
    /// they are dropped. Returns none while the registry is incomplete, nor within the grace after the core has come to know all workers.
    ///
    /// Leaves out copies that have come after `came_by`: they may be outputs of runs whose completions are on their way.
    pub fn unwanted(
        &self,
        lock: &MachinePortLock,
        (now, came_by): (Time, Time),
        most: usize,
    ) -> Vec<(DiskGeneration, ArtifactId)> {
        if sabotage::on(Sabotage::NeverUnwanted) {
            return Vec::new();
        }
        let grace = match sabotage::on(Sabotage::DeleteWithoutGrace) {
            true => Duration::ZERO,
            false => self.settings.gc_grace,
        };
        let settled = self.settled_since.filter(|since| *since + grace <= now);
        if settled.is_none() || self.if_complete().is_none() {
            return Vec::new();
        }
        let mut oldest = Vec::new();
        for (generation, disk) in self.disks.of_worker(lock) {
            let due = self.artifacts.unwanted(disk);
            let due = due.take_while(|(since, _)| *since + grace <= now);
            let came = |id| self.artifacts.copy_since(id, disk);
            let due = due.filter(|(_, id)| came(*id).is_none_or(|since| since <= came_by));
            let due = due.take(most);
            oldest.extend(due.map(|(since, id)| (since, generation, id)));
        }
        oldest.sort_unstable();
        oldest.truncate(most);
        let unwanted = oldest.into_iter();
        unwanted.map(|(_, disk, id)| (disk, id)).collect()
    }

    /// Counts the artifacts with names that would be lost with a worker: no other remaining worker has a copy. A worker that is decommissioned
    /// may exit when there are none. Pins do not count.
    pub fn only_at(&self, lock: &MachinePortLock) -> ArtifactAmount {
        let worker = self.disks.worker_number(lock);
        worker.map_or_else(ArtifactAmount::default, |worker| {
            self.artifacts.only_at(worker)
        })
    }

    fn if_complete(&self) -> Option<()> {
        match self.completeness() {
            Completeness::Complete => Some(()),
            Completeness::Incomplete => None,
        }
    }

    /// Returns the key of a task that may run again, if `id` is its first lost output.
    fn key_at_first_lost(&self, task: TaskNumber, id: ArtifactId) -> Option<&TaskKey> {
        let key = self.outputs.key(task)?;
        let outputs = self.outputs.get(key)?.live_artifacts();
        let first = outputs.into_keys().find(|id| self.artifacts.is_lost(*id));
        (first == Some(id) && self.reruns.may_request(key)).then_some(key)
    }
}
