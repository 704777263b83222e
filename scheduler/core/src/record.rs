//! What survives a crash: a closed set of records, and the state that they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use brasserie_common::status::StoredStatus;
use brasserie_common::{
    InvocationId, JobName, MachinePortLock, NodeName, SchedulerId, Shard, TaskKey, Timeouts,
    WorkerId,
};

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
        tasks: Vec<EndedTask>,
        /// Its tasks were not known: nothing may start for this long, counted anew after a restart.
        hold_back: Duration,
    },
    /// Who might run tasks is not known: should this scheduler end before it has waited, the next one waits this long anew.
    /// Without it a restart would take the directory, which has a record by then, for one that knows.
    HoldBack { wait: Duration },
    /// The hold-back has run its time.
    HoldBackOver,
    /// The accepted end of a run, with the backoff that follows.
    TaskEnded(EndedTask),
}

/// The end of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedTask {
    pub job: JobName,
    pub node: NodeName,
    pub invocation: InvocationId,
    pub status: StoredStatus,
}

/// What must be known of a worker instance to know when it is certainly dead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceRecord {
    pub shard: Shard,
    pub machine_lock: MachinePortLock,
    pub heartbeat_period: Duration,
    /// As last sent to it: a later scheduler may have shorter ones, the worker has these.
    pub timeouts: Timeouts,
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
    /// Those that left, the latest [`MAX_LEFT`]: a later scheduler must not take one back either, as its tasks are given away.
    pub left: BTreeSet<WorkerId>,
    pub hold_back: Duration,
    /// The last end of each task.
    pub statuses: BTreeMap<TaskKey, (InvocationId, StoredStatus)>,
    /// The operator says that the directory was restored from a backup. No record: it holds for the next start.
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
            } => {
                self.cluster = Some(*cluster);
                self.schedulers.insert(*scheduler);
                self.hold_back = self.hold_back.max(*wait);
            }
            Record::WorkerAssociated { worker, instance } => {
                self.instances.insert(*worker, instance.clone());
            }
            Record::WorkerLeft {
                worker,
                cause: _,
                tasks,
                hold_back,
            } => {
                self.instances.remove(worker);
                self.left.insert(*worker);
                if self.left.len() > MAX_LEFT {
                    // Ids are ordered by start time: the oldest goes.
                    self.left.pop_first();
                }
                self.hold_back = self.hold_back.max(*hold_back);
                for task in tasks {
                    self.end(task);
                }
            }
            Record::HoldBack { wait } => self.hold_back = self.hold_back.max(*wait),
            Record::HoldBackOver => self.hold_back = Duration::ZERO,
            Record::TaskEnded(task) => self.end(task),
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

    fn end(&mut self, task: &EndedTask) {
        let key = TaskKey {
            job: task.job.clone(),
            node: task.node.clone(),
        };
        self.statuses
            .insert(key, (task.invocation, task.status.clone()));
    }

    /// The newest scheduler instance that used the directory.
    pub fn last_scheduler(&self) -> Option<SchedulerId> {
        self.schedulers.last().copied()
    }
}
