//! The outputs of tasks by job, node and path.

use std::collections::BTreeMap;
use std::ops::Bound;

use brasserie_common::{
    Artifact, ArtifactId, InvocationId, JobName, NodeName, OutputPath, TaskKey, TaskOutput,
};

use super::types::{Liveness, Replicas};

/// The number of a task with outputs, unique in the life of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskNumber(pub u64);

/// The outputs of the last successful run of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutputs {
    pub invocation: InvocationId,
    /// The outputs in the order of their paths, each path once.
    pub outputs: Vec<TaskOutput>,
    pub replicas: Replicas,
    pub liveness: Liveness,
}

impl TaskOutputs {
    /// Sorts the outputs. Keeps the first of several with the same path.
    pub fn new(
        invocation: InvocationId,
        mut outputs: Vec<TaskOutput>,
        replicas: Replicas,
        liveness: Liveness,
    ) -> Self {
        outputs.sort_by(|one, other| one.path.cmp(&other.path));
        outputs.dedup_by(|next, kept| next.path == kept.path);
        TaskOutputs {
            invocation,
            outputs,
            replicas,
            liveness,
        }
    }

    /// Returns the output at a path.
    pub fn output(&self, path: &OutputPath) -> Option<&Artifact> {
        let at = self
            .outputs
            .binary_search_by(|output| output.path.cmp(path));
        at.ok().map(|at| &self.outputs[at].artifact)
    }

    /// Returns the sizes of the different artifacts.
    pub fn artifacts(&self) -> BTreeMap<ArtifactId, u64> {
        let artifacts = self.outputs.iter().map(|output| &output.artifact);
        artifacts
            .map(|artifact| (artifact.id, artifact.size))
            .collect()
    }

    /// Returns the artifacts to which the outputs refer, unless they have expired.
    pub fn live_artifacts(&self) -> BTreeMap<ArtifactId, u64> {
        match self.liveness {
            Liveness::Live => self.artifacts(),
            Liveness::Expired => BTreeMap::new(),
        }
    }
}

/// The place of an output in the order of listings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputName {
    pub key: TaskKey,
    pub path: OutputPath,
}

#[derive(Clone, Debug)]
struct NumberedOutputs {
    number: TaskNumber,
    outputs: TaskOutputs,
}

/// The outputs of all tasks. Invariant: `keys` has the number of each task in `jobs`, and no other.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    jobs: BTreeMap<JobName, BTreeMap<NodeName, NumberedOutputs>>,
    keys: BTreeMap<TaskNumber, TaskKey>,
    next: u64,
}

impl Outputs {
    /// Sets the outputs of a task. Returns its number, and the outputs that it had.
    pub fn record(
        &mut self,
        key: &TaskKey,
        outputs: TaskOutputs,
    ) -> (TaskNumber, Option<TaskOutputs>) {
        let job = self.jobs.entry(key.job.clone()).or_default();
        if let Some(task) = job.get_mut(&key.node) {
            let before = std::mem::replace(&mut task.outputs, outputs);
            return (task.number, Some(before));
        }
        self.next += 1;
        let number = TaskNumber(self.next);
        job.insert(key.node.clone(), NumberedOutputs { number, outputs });
        self.keys.insert(number, key.clone());
        (number, None)
    }

    /// Removes the outputs of a task. Returns its number and the outputs.
    pub fn forget(&mut self, key: &TaskKey) -> Option<(TaskNumber, TaskOutputs)> {
        let job = self.jobs.get_mut(&key.job)?;
        let task = job.remove(&key.node)?;
        if job.is_empty() {
            self.jobs.remove(&key.job);
        }
        self.keys.remove(&task.number);
        Some((task.number, task.outputs))
    }

    /// Removes the outputs of all tasks of a job. Returns them with the numbers of their tasks.
    pub fn forget_job(&mut self, job: &JobName) -> Vec<(TaskNumber, TaskOutputs)> {
        let tasks = self.jobs.remove(job).unwrap_or_default();
        let tasks: Vec<(TaskNumber, TaskOutputs)> = tasks
            .into_values()
            .map(|task| (task.number, task.outputs))
            .collect();
        for (number, _) in &tasks {
            self.keys.remove(number);
        }
        tasks
    }

    /// Marks the outputs of all tasks of a job as expired. Calls `on_expiry` with those that were live.
    pub fn expire_job(
        &mut self,
        job: &JobName,
        mut on_expiry: impl FnMut(TaskNumber, &TaskOutputs),
    ) {
        for task in self
            .jobs
            .get_mut(job)
            .into_iter()
            .flatten()
            .map(|(_, task)| task)
        {
            match task.outputs.liveness {
                Liveness::Live => on_expiry(task.number, &task.outputs),
                Liveness::Expired => {}
            }
            task.outputs.liveness = Liveness::Expired;
        }
    }

    pub fn get(&self, key: &TaskKey) -> Option<&TaskOutputs> {
        Some(&self.jobs.get(&key.job)?.get(&key.node)?.outputs)
    }

    pub fn key(&self, number: TaskNumber) -> Option<&TaskKey> {
        self.keys.get(&number)
    }

    /// Returns the tasks of a job with outputs, in the order of nodes.
    pub fn of_job(&self, job: &JobName) -> impl Iterator<Item = (&NodeName, &TaskOutputs)> {
        let tasks = self.jobs.get(job).into_iter().flatten();
        tasks.map(|(node, task)| (node, &task.outputs))
    }

    /// Returns the number of tasks of a job with outputs.
    pub fn count_tasks(&self, job: &JobName) -> usize {
        self.jobs.get(job).map_or(0, BTreeMap::len)
    }

    /// Returns all outputs after `after` by job, node and path.
    pub fn list<'a>(
        &'a self,
        after: Option<&'a OutputName>,
    ) -> impl Iterator<Item = (&'a JobName, &'a NodeName, &'a TaskOutput, Liveness)> {
        let first_job = after.map_or(Bound::Unbounded, |name| Bound::Included(&name.key.job));
        let jobs = self.jobs.range::<JobName, _>((first_job, Bound::Unbounded));
        jobs.flat_map(move |(job, tasks)| {
            let inside = after.filter(|name| name.key.job == *job);
            let first_node =
                inside.map_or(Bound::Unbounded, |name| Bound::Included(&name.key.node));
            let tasks = tasks.range::<NodeName, _>((first_node, Bound::Unbounded));
            tasks.flat_map(move |(node, task)| {
                let inside = inside.filter(|name| name.key.node == *node);
                let outputs = task.outputs.outputs.iter();
                outputs
                    .filter(move |output| inside.is_none_or(|name| output.path > name.path))
                    .map(move |output| (job, node, output, task.outputs.liveness))
            })
        })
    }
}
