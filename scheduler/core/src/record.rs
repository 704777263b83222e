//! What survives a crash: a closed set of records, and the state that they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use brasserie_common::status::StoredStatus;
use brasserie_common::{
    FenceGeneration, Hold, InvocationId, JobName, MachinePortLock, NodeName, SchedulerId, Shard,
    Story, TaskKey, Time, Timeouts, WallTime, WorkerId,
};

use crate::news::KnownWorker;
use crate::times::{GivenTimes, ItemName};

/// Instances that have left and are remembered: each can linger for minutes at most, so this is enough for a pool of a thousand
/// workers that are all replaced each minute. One that is forgotten and comes back makes the record stale, which is safe.
pub const MAX_LEFT: usize = 16_384;

/// Names a data directory for its whole life; drawn when the directory is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One fact of the log. Applied in order to a [`Durable`]; the store's rows are a projection of the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A scheduler instance uses this directory; written before it answers its first heartbeat.
    SchedulerStarted {
        cluster: ClusterId,
        scheduler: SchedulerId,
        /// As [`Record::HoldBack`], in one commit: from here on the directory has a record, which knows nothing yet.
        wait: Duration,
        /// The generation of its fences. None of them leaves before this record is durable.
        generation: FenceGeneration,
    },
    /// Later fences have this generation: a worker has reported a larger fence than any given out, or the generation before was used up.
    FenceRaised {
        generation: FenceGeneration,
    },
    /// This worker instance may run tasks; written before it may become HEALTHY.
    WorkerAssociated {
        worker: WorkerId,
        instance: InstanceRecord,
    },
    /// This worker instance can run nothing any more, and so became of its tasks: one commit, or a crash in between would
    /// start them too early.
    WorkerLeft {
        worker: WorkerId,
        cause: LeftCause,
        /// The time of the record, for people.
        wall: WallTime,
        tasks: Vec<EndedTask>,
        /// Its tasks were not known: nothing may start for this long, counted anew after a restart.
        hold_back: Duration,
    },
    /// Who might run tasks is not known: should this scheduler end before it has waited, the next one waits this long anew.
    /// Without it a restart would take the directory, which has a record by then, for one that knows.
    HoldBack {
        wait: Duration,
    },
    /// The hold-back has run its time.
    HoldBackOver,
    /// The accepted end of a run, with the backoff that follows.
    TaskEnded(EndedTask),
    /// A job that was given by API is so from now on.
    JobSaved {
        job: JobName,
        saved: SavedJob,
    },
    /// There is no such job any more, and it is not paused. What its tasks ended in stays.
    JobDeleted {
        job: JobName,
        version: JobVersion,
    },
    /// A job by API or of the config file is paused or cancelled: none of its tasks starts. Running tasks of a cancelled job are killed.
    JobHeld {
        job: JobName,
        hold: Hold,
    },
    JobResumed {
        job: JobName,
    },
    /// The last ends of these tasks are forgiven, or the run that they were kept waiting for is dead: as they say instead.
    TasksForgiven {
        tasks: Vec<EndedTask>,
    },
    /// Nobody asks any more how these tasks have ended.
    HistoryDeleted {
        number: DeletionNumber,
        tasks: Vec<ForgottenTask>,
    },
    /// Completions of nodes and jobs that were missing for long are forgotten, with deletions that nobody repeats, and missing nodes and
    /// jobs are noted.
    HistoryTrimmed(Box<Trim>),
    /// This config file is in force: it stays so when a later scheduler cannot use the file.
    ConfigKept {
        config: KeptConfig,
    },
    /// Schedules have given times up to where these say, and nodes have come in force that follow from it.
    TimesGiven {
        changed: Vec<(ItemName, GivenTimes)>,
        /// These items will not be asked for any more.
        forgotten: Vec<ItemName>,
    },
}

/// What a job's changes are numbered by: one counter for all jobs of a directory, so that a job that was deleted and given again
/// never has an earlier one's number.
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

/// A job that was given by API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedJob {
    pub version: JobVersion,
    pub created: WallTime,
    pub modified: WallTime,
    /// As it was given: what it inherits from the settings changes with them.
    pub text: Arc<str>,
}

/// A config file that was in force, as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptConfig {
    pub path: Arc<str>,
    pub text: Arc<str>,
    /// When it came in force first with this text.
    pub since: WallTime,
}

/// The end of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedTask {
    pub job: JobName,
    pub node: NodeName,
    pub invocation: InvocationId,
    pub status: StoredStatus,
    /// `None`: as it was told, if it is still the end of the same run. No decision rests on it.
    pub story: Option<Box<KeptStory>>,
}

impl EndedTask {
    pub fn key(&self) -> TaskKey {
        TaskKey {
            job: self.job.clone(),
            node: self.node.clone(),
        }
    }
}

/// What happened in a run, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptStory {
    pub story: Story,
    pub shard: Shard,
    /// How long it waited although nothing but a free place was missing, as far as that is known.
    pub queued: Option<Duration>,
}

/// A task whose history was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForgottenTask {
    pub job: JobName,
    pub node: NodeName,
    /// The run whose end was stored: ends up to this one are no news.
    pub up_to: InvocationId,
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
    /// Jobs with completions that are missing since then.
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

/// Counts the records that delete ends, so that it is known which workers were there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct DeletionNumber(pub u64);

/// What is remembered of a task's deleted ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Forgotten {
    /// Ends up to this run's are no news.
    pub up_to: InvocationId,
    pub number: DeletionNumber,
}

impl Forgotten {
    /// Whoever was there at the later deletion may repeat what either has deleted.
    pub(crate) fn add(&mut self, other: Forgotten) {
        self.up_to = self.up_to.max(other.up_to);
        self.number = self.number.max(other.number);
    }
}

/// What must be known of a worker instance to know when it is certainly dead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceRecord {
    pub shard: Shard,
    pub machine_lock: MachinePortLock,
    pub heartbeat_period: Duration,
    /// As last sent to it: a later scheduler may have shorter ones, the worker has these.
    pub timeouts: Timeouts,
    /// The last deletion before it associated first: it may repeat what later ones deleted.
    pub since: DeletionNumber,
}

impl InstanceRecord {
    pub(crate) fn known(&self, id: WorkerId) -> KnownWorker {
        KnownWorker {
            shard: self.shard.clone(),
            hostname: self.machine_lock.hostname.clone(),
            id,
        }
    }
}

/// Why a worker instance left the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftCause {
    /// It said that its tasks are dead.
    CleanExit,
    /// Its timers, known to both sides, have run out.
    Lost,
    /// A successor with its machine lock appeared.
    Replaced,
    /// Certainly dead: it did not come back within the safe wait of its own timeouts.
    DidNotReturn,
    /// Dead by an operator's word (`brasserie worker forget`), with every process of its tasks.
    Forgotten,
}

/// The name of an instance that has left, and when it left, for messages to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInstance {
    pub shard: Shard,
    pub wall: WallTime,
}

/// Everything durable, as the records add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durable {
    /// `None`: a new directory.
    pub cluster: Option<ClusterId>,
    /// Every scheduler instance that used this directory.
    pub schedulers: BTreeSet<SchedulerId>,
    /// Worker instances that may run tasks.
    pub instances: BTreeMap<WorkerId, InstanceRecord>,
    /// Those that left, the latest [`MAX_LEFT`]: a later scheduler must not take one back either, as its tasks are given away. `None`: an
    /// instance that was not recorded before, or a record of a former release.
    pub left: BTreeMap<WorkerId, Option<LeftInstance>>,
    pub hold_back: Duration,
    /// The highest generation of a fence that any scheduler may have given out.
    pub fence_generation: FenceGeneration,
    /// Jobs that were given by API.
    pub jobs: BTreeMap<JobName, SavedJob>,
    /// The latest number of a job, or of a deletion.
    pub last_job_version: JobVersion,
    /// Of whatever origin, and whether or not there are such jobs at present.
    pub held: BTreeMap<JobName, Hold>,
    /// The last config file that was in force.
    pub config: Option<KeptConfig>,
    /// How far each item of a schedule has given its times.
    pub times: BTreeMap<ItemName, GivenTimes>,
    /// The last end of each task.
    pub statuses: BTreeMap<TaskKey, (InvocationId, StoredStatus)>,
    /// Up to which run the ends of a task were deleted, as long as some worker might repeat one.
    pub forgotten: BTreeMap<TaskKey, Forgotten>,
    /// The newest [`Trim::observed`].
    pub observed: u32,
    /// Since when, by `observed`, nodes with completions have been missing. A completion ends the note.
    pub missing: BTreeMap<NodeName, u32>,
    /// The same for jobs.
    pub missing_jobs: BTreeMap<JobName, u32>,
    /// Until when an earlier scheduler may have answered each recorded instance, by the clock that the scheduler is given. An instance
    /// that is absent counts as answered until now. No record holds this; the caller supplies it.
    pub answered: BTreeMap<WorkerId, Time>,
    /// The operator says that the directory was restored from a backup. No record holds this: it counts for one start.
    pub is_a_backup: bool,
}

impl Durable {
    /// Adds one record. Pure: the same records in the same order give the same state.
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
            Record::TasksForgiven { tasks } => {
                for task in tasks {
                    self.end(task);
                }
            }
            Record::HistoryDeleted { number, tasks } => {
                for task in tasks {
                    self.forget(*number, task);
                }
            }
            Record::HistoryTrimmed(trim) => self.trim(trim),
            Record::ConfigKept { config } => self.config = Some(config.clone()),
            Record::TimesGiven { changed, forgotten } => {
                for item in forgotten {
                    self.times.remove(item);
                }
                self.times.extend(changed.iter().cloned());
            }
        }
    }

    /// Whatever it knows, something may be missing: the scheduler that starts on it waits until every worker that it cannot hear
    /// of must have ended its tasks.
    pub fn restored_from_a_backup(self) -> Self {
        Durable {
            is_a_backup: true,
            ..self
        }
    }

    /// Adds the times until which its instances may have been answered.
    pub fn last_answered(self, answered: BTreeMap<WorkerId, Time>) -> Self {
        Durable { answered, ..self }
    }

    fn leave(&mut self, worker: WorkerId, wall: WallTime) {
        let instance = self.instances.remove(&worker);
        self.drop_forgotten();
        let left = instance.map(|InstanceRecord { shard, .. }| LeftInstance { shard, wall });
        self.left.entry(worker).or_insert(left);
        if self.left.len() > MAX_LEFT {
            // Ids are ordered by start time: the oldest goes.
            self.left.pop_first();
        }
    }

    /// What nobody is left to repeat: those who left are not heard again.
    fn drop_forgotten(&mut self) {
        let first = self.instances.values().map(|instance| instance.since).min();
        self.forgotten
            .retain(|_, of| first.is_some_and(|first| first < of.number));
    }

    /// The number of the latest deletion of which anything is known.
    pub(crate) fn last_deletion(&self) -> DeletionNumber {
        let forgotten = self.forgotten.values().map(|of| of.number);
        let instances = self.instances.values().map(|instance| instance.since);
        forgotten.chain(instances).max().unwrap_or_default()
    }

    fn forget(&mut self, number: DeletionNumber, task: &ForgottenTask) {
        let key = TaskKey {
            job: task.job.clone(),
            node: task.node.clone(),
        };
        self.statuses.remove(&key);
        let up_to = task.up_to;
        let of = Forgotten { up_to, number };
        self.forgotten.entry(key).or_insert(of).add(of);
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
        self.statuses
            .insert(key, (task.invocation, task.status.clone()));
    }

    /// The newest scheduler instance that used the directory.
    pub fn last_scheduler(&self) -> Option<SchedulerId> {
        self.schedulers.last().copied()
    }
}
