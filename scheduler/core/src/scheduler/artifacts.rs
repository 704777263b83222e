//! Artifacts: the reports of stores, the outputs of runs, and the inputs that a run gets.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::artifact_report::{ArtifactsAnswer, ArtifactsReport};
use brasserie_common::{
    ArtifactHolder, ArtifactNamespace, Health, InvocationId, JobName, LeftOutput, RequestId, Shard,
    TaskKey, Time, WallTime,
};
use brasserie_common_config::JobConfig;
use brasserie_scheduler_artifacts::{
    Clocks, Liveness, Replicas, RestoredSet, RestoredState, RestoredTask, SetOwner, SetRetention,
    SetTerms,
};
use brasserie_scheduler_engine::Task;

use super::effect::Reply;
use super::{Scheduler, View};
use crate::record::{ClusterId, Durable};
use crate::refusal::Rejection;

/// Returns the name of all artifacts of a data directory.
pub(super) fn namespace_of(cluster: ClusterId) -> ArtifactNamespace {
    ArtifactNamespace::try_from(cluster.to_string().as_str())
        .expect("Invariant: 16 hex digits are a name")
}

/// Returns the outputs that the store remembers. How long they are kept is known once a configuration is in force. Until then they count as
/// used at `wall`, the start of this scheduler: the completions, which say when they were, are not loaded yet.
pub(super) fn restored(durable: &Durable, wall: WallTime) -> RestoredState {
    let jobs: BTreeSet<&JobName> = durable.outputs.keys().map(|key| &key.job).collect();
    let sets = jobs.into_iter().map(|job| RestoredSet {
        job: job.clone(),
        terms: SetTerms {
            owner: SetOwner::Scheduler,
            retention: SetRetention::Forever,
        },
        consumers: BTreeSet::new(),
        touched: wall,
        ending: None,
    });
    let outputs = durable.outputs.iter();
    let tasks = outputs.map(|(key, (invocation, outputs))| RestoredTask {
        key: key.clone(),
        invocation: *invocation,
        outputs: outputs.clone(),
        replicas: Replicas::ONE,
        liveness: Liveness::Live,
    });
    RestoredState {
        sets: sets.collect(),
        tasks: tasks.collect(),
    }
}

/// The time within which the runs of an associated worker are adopted, at most.
const ADOPTED_AFTER: Duration = Duration::from_secs(60);

/// How the scheduler came to know a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOrigin {
    Started,
    Adopted,
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
            address: Some(worker.address.clone()),
            hostname: worker.machine_lock.hostname.clone(),
            rack: None,
        };
        let lock = worker.machine_lock.clone();
        let oldest_run = match remote.health() {
            // Its running tasks are not known yet.
            Health::New => Some(Time::ZERO),
            Health::Healthy | Health::Unhealthy => {
                self.view().oldest_run_with_outputs(&report.shard)
            }
            // The report was on its way when the worker left. Nobody would lose again what it says.
            Health::MustDie => {
                let worker = report.worker;
                return Err(Rejection::UnknownWorker { worker });
            }
        };
        let answer = self
            .artifacts
            .report(now, (&lock, place), report, oldest_run);
        // The answer ends the runs that wait for these. Their makers need not wait for the next tries of these tasks.
        let lost = self.view().makers_of_lost(&report.wanted);
        self.lost_producers.extend(lost);
        Ok(answer)
    }

    /// Tells the registry whether all workers that may hold copies are known. Until then it counts nothing as lost, and deletes nothing.
    pub(super) fn judge_completeness(&mut self, now: Time) {
        // A store that fails refuses completions, and with them outputs.
        let all_known = self.wait.is_over() && self.outbox.store_error().is_none();
        self.artifacts.judge_completeness(now, all_known);
    }

    pub(super) fn clocks(&self, now: Time) -> Clocks {
        Clocks {
            time: now,
            wall: self.wall,
        }
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
        let now = self.clocks(now);
        let job = self.engine.find_job(key.job.as_str());
        let job = job.and_then(|job| self.engine.job_config(job));
        let replicas = job.map_or(Replicas::ONE, |job| self.view().replicas(job));
        let outputs = (outputs, replicas);
        self.artifacts
            .record(now, (key, invocation), &lock, outputs);
        self.pass_on_outputs(&key.job);
    }

    /// Learns from a run whose worker had no space for its inputs or outputs.
    pub(super) fn note_no_space(&mut self, now: Time, shard: &Shard, job: &JobName) {
        if let Some(remote) = self.pool.get(shard) {
            let lock = &remote.description().machine_lock;
            self.artifacts.record_no_space(now, lock, job);
        }
    }

    /// Passes on to the engine how many bytes the next runs of a job are expected to leave, and which workers lately had no space for one.
    pub(super) fn pass_on_outputs(&mut self, job: &JobName) {
        if let Some(id) = self.engine.find_job(job.as_str()) {
            let size = self.artifacts.size_of_outputs(job);
            let full_at = self.artifacts.full_for(job);
            self.engine.set_outputs(id, size, full_at);
        }
    }

    /// Reserves space at a worker for the outputs of a run that starts or is adopted there. A job that is not configured yet leaves outputs
    /// if it has left some.
    pub(super) fn reserve_for_run(
        &mut self,
        now: Time,
        (shard, invocation): (&Shard, InvocationId),
        task: Task,
    ) {
        let name = self.engine.job_name(task.job);
        let has_outputs = match self.engine.job_config(task.job) {
            Some(job) => !job.outputs.is_empty(),
            None => self.artifacts.knows_size_of(name),
        };
        if let Some(remote) = self.pool.get(shard).filter(|_| has_outputs) {
            let of = (&remote.description().machine_lock, invocation);
            self.artifacts.reserve_for_run(now, of, name);
        }
        self.pass_on_space(now);
    }

    /// Passes on to the engine the space for outputs of the workers where it may have changed.
    pub(super) fn pass_on_space(&mut self, now: Time) {
        for job in self.artifacts.take_changed_marks(now) {
            self.pass_on_outputs(&job);
        }
        for (lock, space) in self.artifacts.take_changed_space() {
            for remote in self.pool.with_lock(&lock) {
                self.engine.set_output_space(remote.index(), space);
            }
        }
    }
}

/// Returns since when a run of the job may have left outputs that its completion will name, if it is started or adopted `now`.
///
/// The outputs of a run that an earlier scheduler has started may have been reported a while before it is adopted.
pub(super) fn outputs_since(now: Time, origin: RunOrigin, job: Option<&JobConfig>) -> Option<Time> {
    if job.is_some_and(|job| job.outputs.is_empty()) {
        return None;
    }
    Some(match origin {
        RunOrigin::Started => now,
        RunOrigin::Adopted => now - ADOPTED_AFTER,
    })
}

impl View<'_> {
    /// Returns since when a worker may have outputs of runs whose completions are not accepted yet.
    fn oldest_run_with_outputs(&self, shard: &Shard) -> Option<Time> {
        let runs = self.runs.on_shard(shard).into_iter();
        let runs = runs.filter_map(|(task, invocation)| self.runs.find(task, invocation));
        runs.filter_map(|run| run.outputs_since).min()
    }
}
