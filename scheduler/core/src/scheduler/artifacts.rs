//! Artifacts: the reports of stores, the outputs of runs, and the inputs that a run gets.

use std::collections::BTreeMap;

use brasserie_common::artifact_report::{ArtifactsAnswer, ArtifactsReport};
use brasserie_common::file_name::file_name;
use brasserie_common::{
    ArtifactHolder, ArtifactNamespace, InvocationId, JobName, LeftOutput, NodeName, OutputPath,
    RequestId, Shard, TaskArtifacts, TaskInput, TaskKey, TaskOutput, Time,
};
use brasserie_common_config::{InputNodes, InputSource, JobConfig, JobInput};
use brasserie_scheduler_artifacts::{
    Clocks, Completeness, Liveness, Replicas, RestoredState, RestoredTask,
};
use brasserie_scheduler_engine::Task;

use super::effect::Reply;
use super::{Scheduler, View, task_key};
use crate::record::{ClusterId, Durable};
use crate::refusal::Rejection;

/// The reason why a run cannot have its inputs now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LackingInput {
    #[error(
        "the task of `{job}` on `{node}` has left no such output; let it run again (`brasserie task forget`)"
    )]
    NeverMade { job: JobName, node: NodeName },
    #[error("the scheduler does not send files with jobs yet: {0}")]
    File(String),
}

/// Returns the name of all artifacts of a data directory.
pub(super) fn namespace_of(cluster: ClusterId) -> ArtifactNamespace {
    ArtifactNamespace::try_from(cluster.to_string().as_str())
        .expect("Invariant: 16 hex digits are a name")
}

/// Returns the outputs that the store remembers.
pub(super) fn restored(durable: &Durable) -> RestoredState {
    let tasks = durable
        .outputs
        .iter()
        .map(|(key, (invocation, outputs))| RestoredTask {
            key: key.clone(),
            invocation: *invocation,
            outputs: outputs.clone(),
            replicas: Replicas::ONE,
            liveness: Liveness::Live,
        });
    RestoredState {
        sets: Vec::new(),
        tasks: tasks.collect(),
    }
}

impl Scheduler {
    /// Handles a `reportArtifacts` call.
    pub(super) fn report_artifacts(
        &mut self,
        now: Time,
        request: RequestId,
        report: &ArtifactsReport,
    ) {
        let answer = self.accept_report(now, report).map(Box::new);
        self.outbox.reply(request, Reply::Artifacts(answer));
    }

    fn accept_report(
        &mut self,
        now: Time,
        report: &ArtifactsReport,
    ) -> Result<ArtifactsAnswer, Rejection> {
        let shard = report.shard.as_str().to_owned();
        let Some(remote) = self.pool.get(&report.shard) else {
            return Err(Rejection::UnknownShard { shard });
        };
        if remote.id() != report.worker {
            return Err(Rejection::WrongWorker {
                shard,
                theirs: report.worker,
                ours: remote.id(),
            });
        }
        let worker = remote.description();
        let place = ArtifactHolder {
            address: worker.address.clone(),
            hostname: worker.machine_lock.hostname.clone(),
            rack: None,
        };
        let lock = worker.machine_lock.clone();
        Ok(self.artifacts.report(now, (&lock, place), report))
    }

    /// Tells the registry whether all workers that may hold copies are known. Until then it counts nothing as lost, and deletes nothing.
    pub(super) fn judge_completeness(&mut self, now: Time) {
        let completeness = match self.wait.is_over() {
            true => Completeness::Complete,
            false => Completeness::Incomplete,
        };
        self.artifacts.set_completeness(now, completeness);
    }

    /// Records the outputs of a successful run, if its job still has any.
    pub(super) fn record_outputs(
        &mut self,
        now: Time,
        (key, invocation): (&TaskKey, InvocationId),
        shard: &Shard,
        outputs: Vec<LeftOutput>,
    ) {
        let Some(remote) = self.pool.get(shard).filter(|_| !outputs.is_empty()) else {
            return;
        };
        let lock = remote.description().machine_lock.clone();
        let now = Clocks {
            time: now,
            wall: self.wall,
        };
        let outputs = (outputs, Replicas::ONE);
        self.artifacts
            .record(now, (key, invocation), &lock, outputs);
    }

    /// Checks that a run can have its inputs, and keeps them for it.
    pub(super) fn check_inputs(
        &mut self,
        now: Time,
        task: Task,
        invocation: InvocationId,
    ) -> Result<(), LackingInput> {
        let needed = match self.engine.job_config(task.job) {
            Some(job) if !job.inputs.is_empty() => self.view().needed(task, job)?,
            Some(_) | None => return Ok(()),
        };
        let ids = needed.iter().map(|(_, artifact)| artifact.id);
        self.artifacts.pin(now, invocation, ids);
        Ok(())
    }
}

/// An artifact with its place among the inputs of a run.
type Needed = (OutputPath, brasserie_common::Artifact);

impl View<'_> {
    /// Returns what a run of the task needs and leaves; `None` if nothing.
    pub(super) fn artifacts_for(&self, task: Task, shard: &Shard) -> Option<TaskArtifacts> {
        let job = self.engine.job_config(task.job)?;
        if job.inputs.is_empty() && job.outputs.is_empty() {
            return None;
        }
        let outputs = job.outputs.iter().map(|output| output.path.clone());
        // The inputs were there when the run was placed, in this turn.
        let needed = self.needed(task, job).unwrap_or_default();
        let asker = self.pool.get(shard);
        let asker = asker.map(|remote| remote.description().machine_lock.clone());
        let asker = asker.unwrap_or_default();
        let mut places: BTreeMap<ArtifactHolder, usize> = BTreeMap::new();
        let mut inputs = Vec::new();
        for (place, artifact) in needed {
            let holders = self.artifacts.holders(artifact.id, &asker).into_iter();
            let holders = holders.map(|holder| {
                let next = places.len();
                *places.entry(holder).or_insert(next)
            });
            inputs.push(TaskInput {
                place,
                artifact,
                holders: holders.collect(),
            });
        }
        let mut holders: Vec<(ArtifactHolder, usize)> = places.into_iter().collect();
        holders.sort_by_key(|(_, place)| *place);
        Some(TaskArtifacts {
            namespace: self.artifacts.namespace().clone(),
            inputs,
            holders: holders.into_iter().map(|(holder, _)| holder).collect(),
            outputs: outputs.collect(),
        })
    }

    /// Returns the artifacts that a run of the task needs.
    fn needed(&self, task: Task, job: &JobConfig) -> Result<Vec<Needed>, LackingInput> {
        let mut all = Vec::new();
        for input in &job.inputs {
            self.add_needed(task, input, &mut all)?;
        }
        Ok(all)
    }

    fn add_needed(
        &self,
        task: Task,
        input: &JobInput,
        all: &mut Vec<Needed>,
    ) -> Result<(), LackingInput> {
        let (job, nodes, path) = match &input.source {
            InputSource::Job { job, nodes, path } => (job, *nodes, path.as_ref()),
            InputSource::File { path } => return Err(LackingInput::File(path.clone())),
        };
        let base = input.place().map_or_else(
            || file_name(job.as_str()),
            |place| place.as_str().to_owned(),
        );
        for node in self.nodes_of_input(task, job, nodes) {
            let key = TaskKey {
                job: job.clone(),
                node,
            };
            let folder = match nodes.are_several() {
                true => format!("{base}/{}", file_name(key.node.as_str())),
                false => base.clone(),
            };
            let before = all.len();
            let outputs = self.artifacts.registry().outputs(&key);
            let outputs = outputs.filter(|outputs| outputs.liveness == Liveness::Live);
            let outputs = outputs.map_or(&[][..], |outputs| &outputs.outputs);
            let is_wanted = |output: &&TaskOutput| path.is_none_or(|path| output.path == *path);
            for output in outputs.iter().filter(is_wanted) {
                // Invariant: both parts are paths without empty parts.
                let place = format!("{folder}/{}", output.path);
                if let Ok(place) = OutputPath::try_from(place.as_str()) {
                    all.push((place, output.artifact));
                }
            }
            if all.len() == before {
                let TaskKey { job, node } = key;
                return Err(LackingInput::NeverMade { job, node });
            }
        }
        Ok(())
    }

    /// Returns the nodes of whose tasks an input takes the outputs.
    fn nodes_of_input(&self, task: Task, job: &JobName, nodes: InputNodes) -> Vec<NodeName> {
        let own = || task_key(&self.engine, task).node;
        match nodes {
            InputNodes::Same => vec![own()],
            InputNodes::Parent => {
                let path = self.engine.path(task);
                let parent = path.len().checked_sub(2).and_then(|at| path.get(at));
                parent.into_iter().cloned().collect()
            }
            InputNodes::Children => {
                let job = self.engine.find_job(job.as_str());
                let tasks = job.into_iter().flat_map(|job| self.engine.tasks(job));
                let own = own();
                let is_below = |task: &Task| {
                    let path = self.engine.path(*task);
                    path.len() >= 2 && path[path.len() - 2] == own
                };
                let below = tasks.filter(is_below);
                below
                    .map(|task| task_key(&self.engine, task).node)
                    .collect()
            }
            InputNodes::All => {
                let job = self.engine.find_job(job.as_str());
                let tasks = job.into_iter().flat_map(|job| self.engine.tasks(job));
                tasks
                    .map(|task| task_key(&self.engine, task).node)
                    .collect()
            }
        }
    }
}
