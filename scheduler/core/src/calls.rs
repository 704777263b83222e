//! Calls to workers: the open ones, their messages on the wire, and the handling of their outcomes.

mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::ids::{HEALTHCHECK_JOB, HEALTHCHECK_NEW_WORKER_NODE};
use brasserie_common::{
    CallId, CallOutcome, InvocationId, JobName, Kill, KillRequest, NodeName, RequestId,
    RunningTask, SchedulerId, SequenceNumber, ServiceAddress, Shard, TaskSubprocessOptions, Time,
    WorkTerms, WorkerId,
};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use crate::refusal::Rejection;
use crate::scheduler::Scheduler;
use crate::scheduler::effect::Reply;
use crate::workers::obedience::obeyed_instead;

/// A remote call to a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    GetRunningTasks {
        worker: WorkerId,
    },
    /// Starts a run. Sent once per invocation.
    RunTask {
        worker: WorkerId,
        index: WorkerIndex,
        task: Task,
        invocation: InvocationId,
        sequence: SequenceNumber,
    },
    Healthcheck {
        worker: WorkerId,
        index: WorkerIndex,
        invocation: InvocationId,
        new_worker: NewWorker,
    },
    NotifyIfTasksNotRunning {
        worker: WorkerId,
        tasks: Vec<(Task, InvocationId)>,
        sequence: SequenceNumber,
    },
    RequestSuicide {
        worker: WorkerId,
    },
    KillTask {
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
        kill: Kill,
    },
}

/// Whether a worker that does not know this scheduler yet may accept a healthcheck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewWorker {
    Yes,
    No,
}

/// The content of a worker's answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply {
    /// An answer without content.
    Empty,
    RunningTasks(Vec<RunningTask>),
}

/// A run whose worker has accepted the request to kill it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KilledTask {
    pub shard: Shard,
    pub invocation: InvocationId,
    pub request: KillRequest,
    /// The task's job is paused or cancelled, so the task does not run again until the job is resumed.
    pub held: bool,
    /// Why the task does not run again, whether or not it is held.
    pub unwanted: Option<String>,
    /// Seconds from the completion until the task may run again, if it counts as incomplete.
    pub wait_seconds: u32,
}

/// A call with every name and text filled in, as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    GetRunningTasks {
        scheduler: SchedulerId,
        worker: WorkerId,
    },
    /// A task or a healthcheck.
    RunTask(Box<RunTaskMessage>),
    NotifyIfTasksNotRunning {
        tasks: Vec<RunningTask>,
        scheduler: SchedulerId,
        worker: WorkerId,
        sequence: SequenceNumber,
    },
    RequestSuicide {
        scheduler: SchedulerId,
        worker: WorkerId,
        /// The reason, for logs.
        why: Arc<str>,
    },
    KillTask {
        task: Box<RunningTask>,
        scheduler: SchedulerId,
        worker: WorkerId,
        kill: Kill,
    },
}

/// The content of a `runTask` call.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTaskMessage {
    pub task: RunningTask,
    /// The JSON argument of the task.
    pub config: String,
    pub command: Vec<String>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
    pub sequence: SequenceNumber,
    pub options: TaskSubprocessOptions,
}

/// The most open `requestSuicide` calls. Each answers one heartbeat of an instance that must exit, so a peer that floods the scheduler
/// cannot make it flood others. The limit is far above the number of workers that are lost at one moment.
const MAX_OPEN_SUICIDES: usize = 1024;

/// The open calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    /// The workers that have been requested to exit, with the reasons for their logs. Each has at most one open call.
    suicides: BTreeMap<WorkerId, Arc<str>>,
    open: BTreeMap<CallId, (Time, Purpose)>,
    deadlines: BTreeSet<(Time, CallId)>,
}

/// The purpose of a call, which decides how its outcome is handled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Purpose {
    Fetch {
        shard: Shard,
        worker: WorkerId,
    },
    Start {
        shard: Shard,
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
    },
    Healthcheck {
        shard: Shard,
        worker: WorkerId,
        invocation: InvocationId,
    },
    Notify {
        shard: Shard,
        worker: WorkerId,
        tasks: Vec<(Task, InvocationId)>,
    },
    /// A request to exit. A failure is the normal outcome, because the worker dies.
    Suicide {
        worker: WorkerId,
    },
    /// A kill for a caller that waits for the answer.
    Kill {
        request: RequestId,
        killed: Box<KilledTask>,
    },
    /// A kill of a run that is no longer wanted.
    EndOrphan {
        shard: Shard,
        task: Task,
        invocation: InvocationId,
    },
}

impl Purpose {
    /// Returns the callee of a call that keeps an association or starts a task.
    fn peer(&self) -> Option<(&Shard, WorkerId)> {
        match self {
            Purpose::Fetch { shard, worker }
            | Purpose::Start { shard, worker, .. }
            | Purpose::Healthcheck { shard, worker, .. }
            | Purpose::Notify { shard, worker, .. } => Some((shard, *worker)),
            Purpose::Suicide { .. } | Purpose::Kill { .. } | Purpose::EndOrphan { .. } => None,
        }
    }
}

impl Calls {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn open(&mut self, deadline: Time, purpose: Purpose) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.open.insert(id, (deadline, purpose));
        self.deadlines.insert((deadline, id));
        id
    }

    /// Removes an open call. Returns its deadline and its purpose.
    fn close(&mut self, id: CallId) -> Option<(Time, Purpose)> {
        let (deadline, purpose) = self.open.remove(&id)?;
        self.deadlines.remove(&(deadline, id));
        Some((deadline, purpose))
    }
}

impl Scheduler {
    pub(crate) fn call(
        &mut self,
        now: Time,
        peer: ServiceAddress,
        call: Call,
        purpose: Purpose,
    ) -> CallId {
        let deadline = now + self.options().call_deadline;
        let id = self.calls_mut().open(deadline, purpose);
        self.send(id, peer, call);
        id
    }

    /// Asks an instance to exit. A failure is the normal outcome: the instance dies, or does not know this scheduler.
    pub(crate) fn ask_to_die(
        &mut self,
        now: Time,
        (worker, peer): (WorkerId, ServiceAddress),
        why: &Arc<str>,
    ) {
        // An instance that must exit sends further heartbeats, each of which leads here again.
        if !self.may_call() {
            return;
        }
        let suicides = &mut self.calls_mut().suicides;
        if suicides.len() < MAX_OPEN_SUICIDES && !suicides.contains_key(&worker) {
            suicides.insert(worker, Arc::clone(why));
            let call = Call::RequestSuicide { worker };
            self.call(now, peer, call, Purpose::Suicide { worker });
        }
    }

    pub(crate) fn is_asked_to_die(&self, worker: WorkerId) -> bool {
        self.calls().suicides.contains_key(&worker)
    }

    /// Closes calls that took too long, with an unknown outcome. Later outcomes are dropped. A worker refuses a `runTask` that arrives even
    /// later by its sequence number.
    pub(crate) fn expire_calls(&mut self, now: Time) {
        while let Some(&(at, id)) = self.calls_mut().deadlines.first() {
            if at > now {
                return;
            }
            self.call_completed(
                now,
                id,
                CallOutcome::Unknown("no outcome in time".to_owned()),
            );
        }
    }

    pub(crate) fn call_completed(
        &mut self,
        now: Time,
        id: CallId,
        outcome: CallOutcome<CallReply>,
    ) {
        let Some((deadline, purpose)) = self.calls_mut().close(id) else {
            return;
        };
        let sent = deadline - self.options().call_deadline;
        let peer = purpose.peer();
        let remote =
            peer.and_then(|(shard, worker)| self.workers_mut().instance_mut(shard, worker));
        if let Some(remote) = remote {
            remote.note_reached(sent, &outcome);
        }
        let obeyed = obeyed_instead(&purpose, &outcome);
        if let Some((_, _, newer)) = obeyed.as_ref().filter(|(_, _, other)| *other > self.id()) {
            return self.step_down(*newer);
        }
        match purpose {
            Purpose::Fetch { shard, worker } => self.fetched(now, &shard, worker, outcome),
            Purpose::Start {
                shard,
                worker,
                task,
                invocation,
            } => self.start_completed(now, (&shard, worker), task, invocation, outcome),
            Purpose::Healthcheck {
                shard,
                worker,
                invocation,
            } => self.healthcheck_sent(now, &shard, worker, invocation, &outcome),
            Purpose::Notify {
                shard,
                worker,
                tasks,
            } => self.notified(now, &shard, worker, &tasks, &outcome),
            Purpose::Suicide { worker } => {
                self.calls_mut().suicides.remove(&worker);
            }
            Purpose::Kill { request, killed } => self.kill_completed(request, killed, outcome),
            Purpose::EndOrphan {
                shard,
                task,
                invocation,
            } => self.orphan_asked(now, &shard, ((task, invocation), id), &outcome),
        }
        if let Some((shard, worker, older)) = obeyed
            && older < self.id()
        {
            self.associate_anew(now, &shard, worker);
        }
    }

    fn kill_completed(
        &mut self,
        request: RequestId,
        killed: Box<KilledTask>,
        outcome: CallOutcome<CallReply>,
    ) {
        let result = match outcome {
            CallOutcome::Done(_) => Ok(killed),
            CallOutcome::Refused(_, text)
            | CallOutcome::NotSent(text)
            | CallOutcome::Unknown(text) => Err(Rejection::KillFailed(text)),
        };
        self.reply(request, Reply::KillTask(result));
    }

    /// Renders a call for the wire. Must be called in the turn in which the call left.
    pub fn message(&self, call: &Call) -> Message {
        let scheduler = self.id();
        match call {
            Call::GetRunningTasks { worker } => Message::GetRunningTasks {
                scheduler,
                worker: *worker,
            },
            Call::RunTask {
                worker,
                index,
                task,
                invocation,
                sequence,
            } => Message::RunTask(Box::new(self.run_task_message(
                *worker,
                *index,
                *task,
                *invocation,
                *sequence,
            ))),
            Call::Healthcheck {
                worker,
                index,
                invocation,
                new_worker,
            } => Message::RunTask(Box::new(self.healthcheck_message(
                *worker,
                *index,
                *invocation,
                *new_worker,
            ))),
            Call::NotifyIfTasksNotRunning {
                worker,
                tasks,
                sequence,
            } => Message::NotifyIfTasksNotRunning {
                tasks: tasks
                    .iter()
                    .map(|&(task, invocation)| self.wire_task(*worker, task, invocation))
                    .collect(),
                scheduler,
                worker: *worker,
                sequence: *sequence,
            },
            Call::RequestSuicide { worker } => Message::RequestSuicide {
                scheduler,
                worker: *worker,
                why: self
                    .calls()
                    .suicides
                    .get(worker)
                    .cloned()
                    .unwrap_or_default(),
            },
            Call::KillTask {
                worker,
                task,
                invocation,
                kill,
            } => Message::KillTask {
                task: Box::new(self.wire_task(*worker, *task, *invocation)),
                scheduler,
                worker: *worker,
                kill: *kill,
            },
        }
    }

    fn run_task_message(
        &self,
        worker: WorkerId,
        index: WorkerIndex,
        task: Task,
        invocation: InvocationId,
        sequence: SequenceNumber,
    ) -> RunTaskMessage {
        let (shard, hostname) = self.workers().place_of(index);
        let job = self.engine().job_config(task.job);
        let mut options = job.map(|j| j.task_subprocess.clone()).unwrap_or_default();
        let limits = self.engine().machine_limits(task);
        options.cgroups.memory_limit_in_bytes = limits.memory_bytes;
        options.cgroups.cpu_shares = limits.cpu_shares;
        options.cgroups.cpu_quota_milli = limits.cpu_quota_milli;
        // The full deadline is sent, because the task was placed in the turn in which this call leaves.
        if options.timeout.is_some() || options.deadline.is_some() {
            options.limit_kill = Some(self.kill_request(task.job));
        }
        RunTaskMessage {
            task: self.wire_task(worker, task, invocation),
            config: self.engine().task_argument(task, &shard, &hostname),
            command: job.map(|j| j.command.clone()).unwrap_or_default(),
            scheduler: self.id(),
            worker,
            sequence,
            options,
        }
    }

    fn healthcheck_message(
        &self,
        worker: WorkerId,
        index: WorkerIndex,
        invocation: InvocationId,
        new_worker: NewWorker,
    ) -> RunTaskMessage {
        let node = match new_worker {
            NewWorker::Yes => HEALTHCHECK_NEW_WORKER_NODE,
            NewWorker::No => "",
        };
        let (shard, _) = self.workers().place_of(index);
        // The job name is `$0`; the node, the status path and the argument follow, so `$2` is the status path.
        let command = ["/bin/sh", "-c", "echo done > $2", HEALTHCHECK_JOB];
        RunTaskMessage {
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
                suicide_kill_wait: self.options().timeouts.suicide_task_kill_wait,
                physical: None,
                ended: None,
                story: None,
                work: WorkTerms::default(),
                fence: None,
            },
            config: String::new(),
            command: command.map(str::to_owned).to_vec(),
            scheduler: self.id(),
            worker,
            sequence: SequenceNumber::default(),
            options: self
                .engine()
                .config()
                .map(|c| c.task_subprocess.clone())
                .unwrap_or_default(),
        }
    }

    /// Builds the wire form of a run. The run may have ended since the call was decided, in the same turn. The worker returns the task
    /// unchanged in its reports, so the shard is filled in even then.
    fn wire_task(&self, worker: WorkerId, task: Task, invocation: InvocationId) -> RunningTask {
        let key = self.task_key(task);
        let run = self.tasks().find(task, invocation);
        let job = self.engine().job_config(task.job);
        RunningTask {
            job: key.job,
            node: key.node,
            invocation,
            shard: run
                .map(|r| &r.shard)
                .or_else(|| self.workers().shard_with(worker))
                .cloned()
                .unwrap_or_default(),
            resources: self.engine().charges(task).to_vec(),
            gpus: self.engine().gpus(task).to_vec(),
            gpus_wanted: self.engine().gpus_wanted(task),
            next_backoff: run.map(|r| r.next_backoff).unwrap_or_default(),
            suicide_kill_wait: run.map_or(self.options().timeouts.suicide_task_kill_wait, |r| {
                r.kill_wait
            }),
            physical: None,
            ended: None,
            story: None,
            work: WorkTerms {
                est_duration: match run.is_some_and(|run| run.sent_for.is_some()) {
                    true => self.estimate(task.job).known(),
                    false => job.and_then(|job| Some(job.est_duration?.as_secs_f64())),
                },
                request: run.and_then(|run| run.sent_for),
                // Only pull workers, which queue tasks, need it.
                cpus: job
                    .filter(|_| run.is_some_and(|run| run.sent_for.is_some()))
                    .zip(self.engine().config())
                    .map(|(job, config)| config.cpus_of(job)),
                bufferable: job.is_some_and(|job| job.bufferable),
                report: job.and_then(|job| job.report),
            },
            fence: run.and_then(|run| run.fence),
        }
    }
}
