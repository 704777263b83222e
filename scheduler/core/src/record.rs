//! Durable state: a closed set of records, and the state that they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::{
    FenceGeneration, Hold, InvocationId, JobName, MachinePortLock, NodeName, RecordSeq,
    SchedulerId, Shard, Story, TaskKey, TaskOutput, Time, Timeouts, WallTime, WorkerId,
};
use serde::{Deserialize, Serialize};

use crate::orders::WorkerOrder;

/// The most departed instances that are remembered. Each may linger for minutes at most, so this suffices for a pool of a thousand workers
/// that are all replaced each minute. A forgotten instance that comes back makes the record stale, which is safe.
pub const MAX_LEFT: usize = 16_384;

/// The record by which this instance registers its use of the data directory. It is always the first record.
pub(crate) const OWN_RECORD: RecordSeq = RecordSeq(1);

/// The identity of a data directory for its whole life, drawn when the directory is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One durable fact. Records are applied in order to a [`Durable`]; the store's rows are a projection of the same records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A scheduler instance uses this directory. Written before the instance answers its first heartbeat.
    SchedulerStarted {
        cluster: ClusterId,
        scheduler: SchedulerId,
        /// The hold-back, as in [`Record::HoldBack`], in one commit: from here on the directory has a record, but an empty one.
        wait: Duration,
        /// The generation of the instance's fences. No fence of it leaves before this record is durable.
        generation: FenceGeneration,
    },
    /// Later fences have this generation, because a worker has reported a fence larger than any issued, or the former generation is used
    /// up.
    FenceRaised {
        generation: FenceGeneration,
    },
    /// This worker instance may run tasks. Written before the instance may become HEALTHY.
    WorkerAssociated {
        worker: WorkerId,
        instance: InstanceRecord,
    },
    /// This worker instance can no longer run tasks; `tasks` are the statuses of its tasks. One commit: a crash in between would start the
    /// tasks too early.
    WorkerLeft {
        worker: WorkerId,
        cause: LeftCause,
        /// The time of the record, for people.
        wall: WallTime,
        tasks: Vec<EndedTask>,
        /// The instance's tasks were not known: no task may start for this long, counted again in full after a restart.
        hold_back: Duration,
    },
    /// The workers that might run tasks are not known. If this scheduler ends before the wait is over, the next one waits this long again.
    /// Without this record, a restart would trust the directory's record, which does not know those workers.
    HoldBack {
        wait: Duration,
    },
    /// The hold-back is over.
    HoldBackOver,
    /// An accepted completion of a run, with the backoff that follows.
    TaskEnded(EndedTask),
    /// A job was saved through the API.
    JobSaved {
        job: JobName,
        saved: SavedJob,
    },
    /// A job was deleted; a hold of it ends. The statuses of its tasks stay.
    JobDeleted {
        job: JobName,
        version: JobVersion,
    },
    /// A job of the API or of the config file is paused or cancelled: none of its tasks starts. Running tasks of a cancelled job are
    /// killed.
    JobHeld {
        job: JobName,
        hold: Hold,
    },
    JobResumed {
        job: JobName,
    },
    /// The last completions of these tasks are forgiven, or the lost run that they waited for is dead. The tasks get these statuses
    /// instead.
    TasksForgiven {
        tasks: Vec<EndedTask>,
    },
    /// The completions of these tasks are deleted at a user's request.
    HistoryDeleted {
        number: DeletionNumber,
        tasks: Vec<ForgottenTask>,
    },
    /// Completions of long missing nodes and jobs are forgotten, with deletions that no worker can undo any more. Newly missing nodes and
    /// jobs are noted.
    HistoryTrimmed(Box<Trim>),
    /// Nobody needs the outputs of a job's tasks any more.
    OutputsExpired {
        job: JobName,
    },
    /// The outputs of the job's tasks on these nodes are forgotten at a user's request.
    OutputsForgotten {
        job: JobName,
        nodes: Vec<NodeName>,
    },
    /// An operator's order about the worker of a shard. `None`: an order ends.
    WorkerOrdered {
        shard: Shard,
        order: Option<WorkerOrder>,
    },
    /// This config file is in force. A later scheduler uses it if it cannot use the file.
    ConfigKept {
        config: KeptConfig,
    },
    /// Schedules have issued times up to these, and the nodes that follow from them have come into force.
    TimesGiven {
        changed: Vec<(ItemName, GivenTimes)>,
        /// Schedule items that are not needed any more.
        forgotten: Vec<ItemName>,
    },
}

/// The number of a job's change. All jobs of a directory share one counter, so a job that is deleted and saved again never repeats a
/// number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct JobVersion(pub i64);

impl JobVersion {
    pub fn next(self) -> Self {
        // Invariant: a thousand changes a second take 292 million years.
        JobVersion(self.0.saturating_add(1))
    }
}

impl fmt::Display for JobVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job that was saved through the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedJob {
    pub version: JobVersion,
    pub created: WallTime,
    pub modified: WallTime,
    /// The text as the user sent it. Inherited settings are not filled in, so the job follows changes of the settings.
    pub text: Arc<str>,
    /// The submitter who gave the job first. `None`: no submitter has.
    pub owner: Option<Arc<str>>,
}

/// A config file that was in force, as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptConfig {
    pub path: Arc<str>,
    pub text: Arc<str>,
    /// The time at which this text first came into force.
    pub since: WallTime,
}

/// The completion of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedTask {
    pub job: JobName,
    pub node: NodeName,
    pub invocation: InvocationId,
    pub status: StoredStatus,
    /// The story of the run; decisions ignore it. `None`: the story reported before stays, if this is still a completion of the same run.
    pub story: Option<Box<KeptStory>>,
    /// The outputs of a successful run; they replace those of an earlier one. Empty: those of an earlier run stay.
    pub outputs: Vec<TaskOutput>,
}

impl EndedTask {
    pub fn key(&self) -> TaskKey {
        TaskKey {
            job: self.job.clone(),
            node: self.node.clone(),
        }
    }
}

/// The story of a run, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptStory {
    pub story: Story,
    pub shard: Shard,
    /// The time that the task waited only for a free worker or free resources, as far as it is known.
    pub queued: Option<Duration>,
}

/// A task whose history was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForgottenTask {
    pub job: JobName,
    pub node: NodeName,
    /// The run whose completion was stored. Completions up to this run are ignored.
    pub up_to: InvocationId,
}

impl ForgottenTask {
    pub fn key(&self) -> TaskKey {
        TaskKey {
            job: self.job.clone(),
            node: self.node.clone(),
        }
    }
}

/// The result of one turn of the scan for completions of missing nodes; see `retention.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    /// Seconds in which node tables were in force and the store worked, under all schedulers of the data directory.
    pub observed: u32,
    /// Nodes with completions that are missing since second `observed`.
    pub missing: Vec<NodeName>,
    /// Nodes that were missing and exist again.
    pub found: Vec<NodeName>,
    /// Jobs with completions that are missing since second `observed`.
    pub missing_jobs: Vec<JobName>,
    /// Jobs that were missing and exist again.
    pub found_jobs: Vec<JobName>,
    /// Completions that are forgotten. No worker repeats them, as they are days old.
    pub expired: Vec<TaskKey>,
    /// Deletions up to this one are no longer remembered.
    pub settled: Option<DeletionNumber>,
}

impl Trim {
    pub(crate) fn facts(&self) -> usize {
        let notes = self.missing.len() + self.found.len();
        notes + self.missing_jobs.len() + self.found_jobs.len() + self.expired.len()
    }
}

/// The number of a record that deletes completions. It tells which worker instances were associated before the deletion.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct DeletionNumber(pub u64);

/// The deletion of a task's completions, as remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Forgotten {
    /// Completions up to this run are ignored.
    pub up_to: InvocationId,
    pub number: DeletionNumber,
}

impl Forgotten {
    /// Merges a deletion. Workers that were associated at the later deletion may repeat the completions that either one deleted.
    pub(crate) fn add(&mut self, other: Forgotten) {
        self.up_to = self.up_to.max(other.up_to);
        self.number = self.number.max(other.number);
    }
}

/// The facts from which the scheduler computes when a worker instance is certainly dead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceRecord {
    pub shard: Shard,
    pub machine_lock: MachinePortLock,
    pub heartbeat_period: Duration,
    /// The timeouts that were last sent to the instance. A later scheduler may have shorter ones, but the worker uses these.
    pub timeouts: Timeouts,
    /// The last deletion before the instance first associated. The instance may repeat completions that later deletions removed.
    pub since: DeletionNumber,
}

/// The reason for which a worker instance left the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftCause {
    /// The instance reported that its tasks are dead.
    CleanExit,
    /// The instance's timers, known to both sides, have expired.
    Lost,
    /// A successor with its machine lock appeared.
    Replaced,
    /// The instance did not come back within the safe wait of its own timeouts, so it is certainly dead.
    DidNotReturn,
    /// An operator declared the instance dead (`brasserie worker forget`), with every process of its tasks.
    Forgotten,
}

/// The identity of a schedule item: the text of its settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemName(pub String);

/// The issued times of an item: an [`ItemMemory`](brasserie_common_config::ItemMemory) for the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GivenTimes {
    pub stretches: Vec<GivenStretch>,
    /// The time since which no configuration has the item; `None` if one has it.
    pub absent_since: Option<WallTime>,
}

/// A [`Stretch`](brasserie_common_config::Stretch) whose zone is stored by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GivenStretch {
    pub after: WallTime,
    pub up_to: WallTime,
    pub seen: WallTime,
    pub zone: String,
}

/// The shard of an instance that has left and the time when it left, for messages to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInstance {
    pub shard: Shard,
    pub wall: WallTime,
}

/// The durable state: the sum of all records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durable {
    /// The identity of the directory. `None`: a new directory.
    pub cluster: Option<ClusterId>,
    /// Every scheduler instance that used this directory.
    pub schedulers: BTreeSet<SchedulerId>,
    /// Worker instances that may run tasks.
    pub instances: BTreeMap<WorkerId, InstanceRecord>,
    /// The latest [`MAX_LEFT`] instances that left. A later scheduler must not accept one again, because its tasks may run elsewhere.
    /// `None`: the instance was not recorded before, or the record is of a former release.
    pub left: BTreeMap<WorkerId, Option<LeftInstance>>,
    pub hold_back: Duration,
    /// The highest generation of fences that any scheduler may have issued.
    pub fence_generation: FenceGeneration,
    /// Jobs that were saved through the API.
    pub jobs: BTreeMap<JobName, SavedJob>,
    /// The latest number of a job's change or deletion.
    pub last_job_version: JobVersion,
    /// Holds of jobs of any origin, including jobs that do not exist at present.
    pub held: BTreeMap<JobName, Hold>,
    /// Operators' orders about workers.
    pub orders: BTreeMap<Shard, WorkerOrder>,
    /// The last config file that was in force.
    pub config: Option<KeptConfig>,
    /// How far each item of a schedule has issued its times.
    pub times: BTreeMap<ItemName, GivenTimes>,
    /// The last completion of each task.
    pub statuses: BTreeMap<TaskKey, (InvocationId, StoredStatus)>,
    /// The outputs of the last successful run of each task that leaves any.
    pub outputs: BTreeMap<TaskKey, (InvocationId, Vec<TaskOutput>)>,
    /// The run up to which a task's completions were deleted, as long as a worker might repeat one.
    pub forgotten: BTreeMap<TaskKey, Forgotten>,
    /// The newest [`Trim::observed`].
    pub observed: u32,
    /// The second, by `observed`, since which each node with completions is missing. A completion on the node removes the entry.
    pub missing: BTreeMap<NodeName, u32>,
    /// The second, by `observed`, since which each job with completions is missing.
    pub missing_jobs: BTreeMap<JobName, u32>,
    /// The time until which an earlier scheduler may have answered each recorded instance, by the clock that the scheduler is given. An
    /// absent instance counts as answered until now. No record holds this; the caller supplies it.
    pub answered: BTreeMap<WorkerId, Time>,
    /// The operator states that the directory was restored from a backup. No record holds this: it counts for one start.
    pub is_a_backup: bool,
}

impl Durable {
    /// Applies one record. The same records in the same order give the same state.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::SchedulerStarted {
                cluster,
                scheduler,
                wait,
                generation,
            } => {
                self.cluster = Some(*cluster);
                self.fence_generation = self.fence_generation.max(*generation);
                self.schedulers.insert(*scheduler);
                self.hold_back = self.hold_back.max(*wait);
            }
            Record::FenceRaised { generation } => {
                self.fence_generation = self.fence_generation.max(*generation);
            }
            Record::WorkerAssociated { worker, instance } => {
                self.instances.insert(*worker, instance.clone());
            }
            Record::WorkerLeft {
                worker,
                cause: _,
                wall,
                tasks,
                hold_back,
            } => {
                self.leave(*worker, *wall);
                self.hold_back = self.hold_back.max(*hold_back);
                for task in tasks {
                    self.end(task);
                }
            }
            Record::HoldBack { wait } => self.hold_back = self.hold_back.max(*wait),
            Record::HoldBackOver => self.hold_back = Duration::ZERO,
            Record::TaskEnded(task) => self.end(task),
            Record::JobSaved { job, saved } => {
                self.jobs.insert(job.clone(), saved.clone());
                self.last_job_version = self.last_job_version.max(saved.version);
            }
            Record::JobDeleted { job, version } => {
                self.jobs.remove(job);
                self.held.remove(job);
                self.last_job_version = self.last_job_version.max(*version);
            }
            Record::JobHeld { job, hold } => {
                self.held.insert(job.clone(), *hold);
            }
            Record::JobResumed { job } => {
                self.held.remove(job);
            }
            Record::TasksForgiven { tasks } => tasks.iter().for_each(|task| self.end(task)),
            Record::HistoryDeleted { number, tasks } => {
                tasks.iter().for_each(|task| self.forget(*number, task));
            }
            Record::HistoryTrimmed(trim) => self.trim(trim),
            Record::OutputsExpired { job } => self.outputs.retain(|key, _| key.job != *job),
            Record::OutputsForgotten { job, nodes } => self.forget_outputs(job, nodes),
            Record::WorkerOrdered { shard, order } => match order {
                Some(order) => drop(self.orders.insert(shard.clone(), order.clone())),
                None => drop(self.orders.remove(shard)),
            },
            Record::ConfigKept { config } => self.config = Some(config.clone()),
            Record::TimesGiven { changed, forgotten } => {
                for item in forgotten {
                    self.times.remove(item);
                }
                self.times.extend(changed.iter().cloned());
            }
        }
    }

    /// Marks the state as restored from a backup. Any fact may be missing, so the scheduler that starts on it waits until every worker that
    /// does not report must have ended its tasks.
    pub fn restored_from_a_backup(self) -> Self {
        Durable {
            is_a_backup: true,
            ..self
        }
    }

    /// Adds the times until which the instances may have been answered.
    pub fn last_answered(self, answered: BTreeMap<WorkerId, Time>) -> Self {
        Durable { answered, ..self }
    }

    fn leave(&mut self, worker: WorkerId, wall: WallTime) {
        let instance = self.instances.remove(&worker);
        self.drop_forgotten();
        let left = instance.map(|InstanceRecord { shard, .. }| LeftInstance { shard, wall });
        self.left.entry(worker).or_insert(left);
        if self.left.len() > MAX_LEFT {
            // Ids are ordered by start time, so the oldest is dropped.
            self.left.pop_first();
        }
    }

    /// Drops deletions that no instance can undo: instances that left report nothing any more.
    fn drop_forgotten(&mut self) {
        let first = self.instances.values().map(|instance| instance.since).min();
        self.forgotten
            .retain(|_, of| first.is_some_and(|first| first < of.number));
    }

    /// Returns the number of the latest deletion that the state mentions.
    pub(crate) fn last_deletion(&self) -> DeletionNumber {
        let forgotten = self.forgotten.values().map(|of| of.number);
        let instances = self.instances.values().map(|instance| instance.since);
        forgotten.chain(instances).max().unwrap_or_default()
    }

    fn forget(&mut self, number: DeletionNumber, task: &ForgottenTask) {
        let key = task.key();
        self.statuses.remove(&key);
        self.outputs.remove(&key);
        let up_to = task.up_to;
        let of = Forgotten { up_to, number };
        self.forgotten.entry(key).or_insert(of).add(of);
    }

    fn forget_outputs(&mut self, job: &JobName, nodes: &[NodeName]) {
        for node in nodes {
            let (job, node) = (job.clone(), node.clone());
            self.outputs.remove(&TaskKey { job, node });
        }
    }

    fn trim(&mut self, trim: &Trim) {
        self.observed = self.observed.max(trim.observed);
        for node in &trim.found {
            self.missing.remove(node);
        }
        for node in &trim.missing {
            self.missing.insert(node.clone(), trim.observed);
        }
        for job in &trim.found_jobs {
            self.missing_jobs.remove(job);
        }
        for job in &trim.missing_jobs {
            self.missing_jobs.insert(job.clone(), trim.observed);
        }
        for key in &trim.expired {
            self.statuses.remove(key);
            self.outputs.remove(key);
        }
        self.forgotten
            .retain(|_, of| trim.settled.is_none_or(|settled| settled < of.number));
    }

    fn end(&mut self, task: &EndedTask) {
        let key = TaskKey {
            job: task.job.clone(),
            node: task.node.clone(),
        };
        self.missing.remove(&key.node);
        self.missing_jobs.remove(&key.job);
        if !task.outputs.is_empty() {
            let outputs = (task.invocation, task.outputs.clone());
            self.outputs.insert(key.clone(), outputs);
        }
        self.statuses
            .insert(key, (task.invocation, task.status.clone()));
    }

    /// Returns the newest scheduler instance that used the directory.
    pub fn last_scheduler(&self) -> Option<SchedulerId> {
        self.schedulers.last().copied()
    }
}

/// Returns how many records must still be synced until this one is.
pub(crate) fn until_synced(seq: RecordSeq, persisted: RecordSeq) -> u64 {
    seq.0.saturating_sub(persisted.0)
}
