//! The content of calls: the names and texts that each has on the wire.

use brasserie_common::ids::{HEALTHCHECK_JOB, HEALTHCHECK_NEW_WORKER_NODE};
use brasserie_common::resources::ResourceAmount;
use brasserie_common::{
    InvocationId, JobName, NodeName, RunningTask, SequenceNumber, WorkTerms, WorkerId,
};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use super::{View, task_key};
use crate::calls::{Call, CallDraft, NewWorker, RunTaskCall};

impl View<'_> {
    /// Returns a call with its names and texts.
    pub(super) fn content_of(&self, draft: CallDraft) -> Call {
        let scheduler = self.id;
        match draft {
            CallDraft::GetRunningTasks { worker } => Call::GetRunningTasks { scheduler, worker },
            CallDraft::RunTask {
                worker,
                index,
                task,
                invocation,
                sequence,
            } => Call::RunTask(Box::new(
                self.run_task(worker, index, task, invocation, sequence),
            )),
            CallDraft::Healthcheck {
                worker,
                index,
                invocation,
                new_worker,
            } => Call::Healthcheck(Box::new(
                self.healthcheck(worker, index, invocation, new_worker),
            )),
            CallDraft::NotifyIfTasksNotRunning {
                worker,
                tasks,
                sequence,
            } => Call::NotifyIfTasksNotRunning {
                tasks: tasks
                    .into_iter()
                    .map(|(task, invocation)| self.wire_task(worker, task, invocation))
                    .collect(),
                scheduler,
                worker,
                sequence,
            },
            CallDraft::RequestSuicide { worker } => Call::RequestSuicide {
                scheduler,
                worker,
                why: self.calls.why_it_must_die(worker),
            },
            CallDraft::Drain { worker, why } => Call::Drain {
                shard: self.pool.shard_with(worker).cloned().unwrap_or_default(),
                worker,
                why,
            },
            CallDraft::KillTask {
                worker,
                task,
                invocation,
                kill,
            } => Call::KillTask {
                task: Box::new(self.wire_task(worker, task, invocation)),
                scheduler,
                worker,
                kill,
            },
        }
    }

    fn run_task(
        &self,
        worker: WorkerId,
        index: WorkerIndex,
        task: Task,
        invocation: InvocationId,
        sequence: SequenceNumber,
    ) -> RunTaskCall {
        let (shard, hostname) = self.pool.place_of(index);
        let job = self.engine.job_config(task.job);
        let mut options = job.map(|j| j.task_subprocess.clone()).unwrap_or_default();
        let limits = self.engine.machine_limits(task);
        options.cgroups.memory_limit_in_bytes = limits.memory_bytes;
        options.cgroups.cpu_shares = limits.cpu_shares;
        options.cgroups.cpu_quota_milli = limits.cpu_quota_milli;
        // The full deadline is sent, because the task was placed in the turn in which this call leaves.
        if options.timeout.is_some() || options.deadline.is_some() {
            options.limit_kill = Some(self.kill_request(task.job));
        }
        options.artifacts = self.artifacts_for(task, &shard).map(Box::new);
        let slots = self.engine.standby_slots(index);
        let slots = slots.map(|slots| {
            let all = slots.into_iter().map(|(name, amount)| ResourceAmount {
                name: name.to_owned(),
                amount,
            });
            all.collect()
        });
        RunTaskCall {
            task: RunningTask {
                worker_slots: slots,
                ..self.wire_task(worker, task, invocation)
            },
            config: self.engine.task_argument(task, &shard, &hostname),
            command: job.map(|j| j.command.clone()).unwrap_or_default(),
            scheduler: self.id,
            worker,
            sequence,
            options,
        }
    }

    fn healthcheck(
        &self,
        worker: WorkerId,
        index: WorkerIndex,
        invocation: InvocationId,
        new_worker: NewWorker,
    ) -> RunTaskCall {
        let node = match new_worker {
            NewWorker::Yes => HEALTHCHECK_NEW_WORKER_NODE,
            NewWorker::No => "",
        };
        let (shard, _) = self.pool.place_of(index);
        // The job name is `$0`; the node, the status path and the argument follow, so `$2` is the status path.
        let command = ["/bin/sh", "-c", "echo done > $2", HEALTHCHECK_JOB];
        RunTaskCall {
            task: RunningTask {
                job: JobName::try_from(HEALTHCHECK_JOB)
                    .expect("Invariant: a constant name is valid"),
                node: NodeName::try_from(node).expect("Invariant: a constant name is valid"),
                invocation,
                shard,
                resources: Vec::new(),
                gpus: Vec::new(),
                gpus_wanted: None,
                next_backoff: brasserie_common::BackoffDuration::default(),
                suicide_kill_wait: self.options.timeouts.suicide_task_kill_wait,
                physical: None,
                ended: None,
                story: None,
                work: WorkTerms::default(),
                fence: None,
                worker_slots: None,
                outputs: Vec::new(),
            },
            config: String::new(),
            command: command.map(str::to_owned).to_vec(),
            scheduler: self.id,
            worker,
            sequence: SequenceNumber::default(),
            options: self
                .engine
                .config()
                .map(|c| c.task_subprocess.clone())
                .unwrap_or_default(),
        }
    }

    /// Builds the wire form of a run. The run may have ended since the call was decided, in the same turn. The worker returns the task
    /// unchanged in its reports, so the shard is filled in even then.
    fn wire_task(&self, worker: WorkerId, task: Task, invocation: InvocationId) -> RunningTask {
        let key = task_key(&self.engine, task);
        let run = self.runs.find(task, invocation);
        let job = self.engine.job_config(task.job);
        RunningTask {
            job: key.job,
            node: key.node,
            invocation,
            shard: run
                .map(|r| &r.shard)
                .or_else(|| self.pool.shard_with(worker))
                .cloned()
                .unwrap_or_default(),
            resources: self.engine.charges(task).to_vec(),
            gpus: self.engine.gpus(task).to_vec(),
            gpus_wanted: self.engine.gpus_wanted(task),
            next_backoff: run.map(|r| r.next_backoff).unwrap_or_default(),
            suicide_kill_wait: run.map_or(self.options.timeouts.suicide_task_kill_wait, |r| {
                r.kill_wait
            }),
            physical: None,
            ended: None,
            story: None,
            work: WorkTerms {
                est_duration: match run.is_some_and(|run| run.sent_for.is_some()) {
                    true => self.estimates.estimate(task.job, job).known(),
                    false => job.and_then(|job| Some(job.est_duration?.as_secs_f64())),
                },
                request: run.and_then(|run| run.sent_for),
                // Only pull workers, which queue tasks, need it.
                cpus: job
                    .filter(|_| run.is_some_and(|run| run.sent_for.is_some()))
                    .zip(self.engine.config())
                    .map(|(job, config)| config.cpus_of(job)),
                bufferable: job.is_some_and(|job| job.bufferable),
                report: job.and_then(|job| job.report),
            },
            fence: run.and_then(|run| run.fence),
            worker_slots: None,
            outputs: Vec::new(),
        }
    }
}
