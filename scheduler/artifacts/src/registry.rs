//! The coordinator of all components, and the outputs and pins that make an artifact wanted.

mod copies;
mod follow_ups;
mod retention;
mod views;

use brasserie_common::{
    Artifact, ArtifactId, InvocationId, JobName, NodeName, OutputPath, TaskKey, TaskOutput, Time,
};

use super::artifact_table::{ArtifactName, ArtifactTable};
use super::disks::Disks;
use super::outputs::{Outputs, TaskNumber, TaskOutputs};
use super::pins::Pins;
use super::reruns::Reruns;
use super::restored::RestoredState;
use super::sets::Sets;
use super::types::{Clocks, Completeness, Liveness, RegistrySettings, Replicas};

pub use follow_ups::{ArtifactAvailability, MissingReplicas};
pub use views::{OutputView, SetView};

/// The registry of artifacts. A new one is incomplete until [`Registry::set_completeness`].
///
/// An artifact is *wanted* while a live output refers to it or a run has pinned it. A name is live from the success of its task until its
/// set expires, or until the task succeeds again without it.
///
/// Invariants: the artifact table has exactly the names of all live outputs, the pins of all runs, and the copies that the disks are
/// believed to hold.
#[derive(Clone, Debug)]
pub struct Registry {
    settings: RegistrySettings,
    outputs: Outputs,
    artifacts: ArtifactTable,
    disks: Disks,
    sets: Sets,
    pins: Pins,
    reruns: Reruns,
    /// The time since which the scheduler's core has known all workers and running tasks.
    settled_since: Option<Time>,
}

impl Registry {
    pub fn new(settings: RegistrySettings) -> Self {
        Registry {
            settings,
            outputs: Outputs::default(),
            artifacts: ArtifactTable::default(),
            disks: Disks::default(),
            sets: Sets::new(settings.set_grace, settings.owner_timeout),
            pins: Pins::default(),
            reruns: Reruns::new(settings.max_reruns),
            settled_since: None,
        }
    }

    pub fn settings(&self) -> &RegistrySettings {
        &self.settings
    }

    /// Returns a registry with the stored state of an earlier scheduler. The sessions of its sets count as alive now.
    pub fn restore(settings: RegistrySettings, state: RestoredState, now: Clocks) -> Self {
        let mut registry = Registry::new(settings);
        for set in state.sets {
            let history = (set.consumers, set.touched);
            registry
                .sets
                .restore(&set.job, set.terms, history, set.ending, now);
        }
        for task in state.tasks {
            let outputs =
                TaskOutputs::new(task.invocation, task.outputs, task.replicas, task.liveness);
            registry.replace_outputs(&task.key, outputs, now.time);
        }
        registry
    }

    /// Records the outputs of a successful run, in place of those of an earlier run of the task. A repetition has no effect but on the age
    /// of the set.
    pub fn record(
        &mut self,
        key: &TaskKey,
        invocation: InvocationId,
        outputs: Vec<TaskOutput>,
        replicas: Replicas,
        now: Clocks,
    ) {
        let outputs = TaskOutputs::new(invocation, outputs, replicas, Liveness::Live);
        let known = self.outputs.get(key);
        if known.is_none_or(|known| known.invocation != invocation) {
            self.reruns.run_succeeded(key);
        }
        self.replace_outputs(key, outputs, now.time);
        self.sets.written(&key.job, now);
    }

    /// Forgets the outputs of a task, such as when its history is deleted.
    pub fn forget(&mut self, key: &TaskKey, now: Time) {
        self.forget_outputs(key, now);
        self.reruns.reset(key);
    }

    /// Forgets the outputs of a task that runs again because some are lost, and counts that run.
    pub fn make_again(&mut self, key: &TaskKey, now: Time) {
        self.reruns.request(key);
        self.forget_outputs(key, now);
    }

    fn forget_outputs(&mut self, key: &TaskKey, now: Time) {
        if let Some((number, outputs)) = self.outputs.forget(key) {
            self.remove_names(&key.job, number, &outputs, now);
        }
    }

    /// Forgets the outputs of all tasks of a job. Forgets also its set, if the job is deleted or the owner has expired.
    pub fn forget_job(&mut self, job: &JobName, now: Time) {
        for (number, outputs) in self.outputs.forget_job(job) {
            self.remove_names(job, number, &outputs, now);
        }
        self.reruns.reset_job(job);
        self.sets.forget_ended(job);
    }

    /// Keeps artifacts for a run that reads them, in addition to its earlier ones.
    pub fn pin(&mut self, run: InvocationId, ids: impl IntoIterator<Item = ArtifactId>, now: Time) {
        for id in ids {
            if self.pins.add(run, id) {
                self.artifacts.add_pin(id, now);
            }
        }
    }

    /// Ends the pins of a run.
    pub fn unpin(&mut self, run: InvocationId, now: Time) {
        for id in self.pins.remove(run) {
            self.artifacts.remove_pin(id, now);
        }
    }

    /// Returns whether the run keeps artifacts.
    pub fn has_pins(&self, run: InvocationId) -> bool {
        self.pins.contains(run)
    }

    /// Returns the runs that keep an artifact. Looks at the pins of all runs.
    pub fn readers(&self, id: ArtifactId) -> impl Iterator<Item = InvocationId> {
        self.pins.of_artifact(id)
    }

    /// Sets on how many workers each output of a job should be.
    pub fn set_replicas(&mut self, job: &JobName, replicas: Replicas, now: Time) {
        let others = self.outputs.of_job(job);
        let others = others.filter(|(_, outputs)| outputs.replicas != replicas);
        let others: Vec<(NodeName, TaskOutputs)> = others
            .map(|(node, outputs)| (node.clone(), outputs.clone()))
            .collect();
        for (node, outputs) in others {
            let job = job.clone();
            let outputs = TaskOutputs {
                replicas,
                ..outputs
            };
            self.replace_outputs(&TaskKey { job, node }, outputs, now);
        }
    }

    /// Returns the artifact with this id if a live output refers to it.
    pub fn artifact(&self, id: ArtifactId) -> Option<Artifact> {
        let key = self.producers(id).next()?;
        let outputs = self.outputs.get(key)?.outputs.iter();
        let mut artifacts = outputs.map(|output| output.artifact);
        artifacts.find(|artifact| artifact.id == id)
    }

    /// Returns the outputs of the last successful run of a task, also expired ones.
    pub fn outputs(&self, key: &TaskKey) -> Option<&TaskOutputs> {
        self.outputs.get(key)
    }

    /// Returns one output of the last successful run of a task, unless it has expired.
    pub fn output(&self, key: &TaskKey, path: &OutputPath) -> Option<&Artifact> {
        let outputs = self.outputs.get(key)?;
        match outputs.liveness {
            Liveness::Live => outputs.output(path),
            Liveness::Expired => None,
        }
    }

    /// Returns the outputs of all tasks of a job in the order of nodes, also expired ones.
    pub fn job_outputs(&self, job: &JobName) -> impl Iterator<Item = (&NodeName, &TaskOutputs)> {
        self.outputs.of_job(job)
    }

    /// Accepts whether the scheduler's core knows all workers and all running tasks: not during the initial wait after a start.
    pub fn set_completeness(&mut self, completeness: Completeness, now: Time) {
        self.settled_since = match (completeness, self.settled_since) {
            (Completeness::Incomplete, _) => None,
            (Completeness::Complete, Some(since)) => Some(since),
            (Completeness::Complete, None) => {
                // Sessions may have had no way to send heartbeats before.
                self.sets.renew_owners(now);
                Some(now)
            }
        };
    }

    /// Returns whether the scheduler's core knows all workers and all running tasks, as it last said.
    pub fn is_settled(&self) -> bool {
        self.settled_since.is_some()
    }

    /// Returns whether all copies are known: the scheduler's core knows all workers, and no disk waits for its first listing. Until then nothing
    /// counts as lost, missing or unwanted.
    pub fn completeness(&self) -> Completeness {
        match self.settled_since {
            Some(_) if self.disks.are_listed() => Completeness::Complete,
            Some(_) | None => Completeness::Incomplete,
        }
    }

    fn replace_outputs(&mut self, key: &TaskKey, outputs: TaskOutputs, now: Time) {
        let (ids, replicas) = (outputs.live_artifacts(), outputs.replicas);
        let (task, before) = self.outputs.record(key, outputs);
        // New names come first, so that no artifact of both runs is unwanted in between.
        for artifact in &ids {
            let name = ArtifactName { replicas, task };
            let artifact = (*artifact.0, *artifact.1);
            self.artifacts.add_name(artifact, &key.job, name, now);
        }
        if let Some(mut before) = before {
            let remains = |id| before.replicas == replicas && ids.contains_key(&id);
            let outputs = std::mem::take(&mut before.outputs).into_iter();
            let outputs = outputs.filter(|output| !remains(output.artifact.id));
            before.outputs = outputs.collect();
            self.remove_names(&key.job, task, &before, now);
        }
    }

    /// Removes the names of the outputs of a task, as far as these are live.
    fn remove_names(&mut self, job: &JobName, task: TaskNumber, outputs: &TaskOutputs, now: Time) {
        let replicas = outputs.replicas;
        for id in outputs.live_artifacts().into_keys() {
            let name = ArtifactName { replicas, task };
            self.artifacts.remove_name(id, job, name, now);
        }
    }
}

#[cfg(test)]
mod tests;
