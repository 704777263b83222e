//! A worker's description of itself in each heartbeat, and the answer.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::address::ServiceAddress;
use crate::health::Health;
use crate::ids::{SchedulerId, Shard, WorkerId};
use crate::resources::UsablePhysicalResources;
use crate::work::WorkReply;
use crate::worker_set::WorkerSetId;

/// The protocol version. Both sides require exact equality.
pub const PROTOCOL_VERSION: i16 = 2;

/// The lock of a worker: its host and a number that its data directory keeps. Two instances with the same lock cannot be alive together,
/// because one process at a time can use the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachinePortLock {
    /// The canonical name of the host. No connection uses it.
    pub hostname: Arc<str>,
    pub port: i32,
}

/// Whether a worker accepts tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intake {
    #[default]
    Open,
    /// The operator lets the worker end with its present tasks: it starts no others.
    Draining,
}

/// The terms of a request to drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainTerms {
    /// When the tasks that still run are killed, from now on. `None`: as usual, or as an earlier request says.
    pub deadline: Option<Duration>,
    /// The caller's reason, for people; empty if there is none.
    pub reason: Arc<str>,
}

/// How a scheduler chooses the tasks that it sends to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Supply {
    /// The scheduler sends what the slots allow, until the worker requests work.
    #[default]
    AsSlotsAllow,
    /// The scheduler sends what the worker requests, and nothing before.
    AsAsked,
}

/// The number of tasks that a worker can run at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskRoom {
    pub most: NonZeroU32,
    /// The limit of its machine that decides the number, for people.
    pub limited_by: Arc<str>,
}

impl fmt::Display for TaskRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at most", self.most)?;
        match &*self.limited_by {
            "" => Ok(()),
            limit => write!(f, ", by {limit}"),
        }
    }
}

/// A worker's description of itself. Everything but the identities may change with any heartbeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerDescription {
    pub shard: Shard,
    pub machine_lock: MachinePortLock,
    pub address: ServiceAddress,
    pub id: WorkerId,
    /// Whole seconds on the wire.
    pub heartbeat_period: Duration,
    pub protocol_version: i16,
    pub usable: UsablePhysicalResources,
    /// The worker has a `--worker-command` for jobs without a command. Peers that do not say count as having one.
    pub has_worker_command: bool,
    pub intake: Intake,
    pub supply: Supply,
    /// `None` if the worker does not say.
    pub room: Option<TaskRoom>,
    /// How the worker contains its tasks, and why, for people; `None` if it does not say.
    pub containment: Option<Arc<str>>,
    /// The absolute path of its logs on its host, for people; `None` if it does not say.
    pub log_folder: Option<Arc<str>>,
    /// Tasks may stand by at the worker until slots are free ([`crate::RunningTask::worker_slots`]).
    pub takes_standby: bool,
}

/// The scheduler's answer to a heartbeat: its timeouts, so that both sides run one model, and the worker's state.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatResponse {
    pub scheduler: SchedulerId,
    pub max_healthcheck_gap: Duration,
    pub heartbeat_grace_period: Duration,
    pub lose_unhealthy_worker_after: Duration,
    /// The worker subtracts this from the loss time, so that it ends first.
    pub worker_check_interval: Duration,
    pub worker_state: Health,
    /// How long the scheduler has counted towards the loss; `None` if it does not count, or from a peer that does not say.
    pub not_healthy_for: Option<Duration>,
    pub protocol_version: i16,
    pub worker_set: WorkerSetId,
    /// The reason why the worker must die, for its log; `None` if it need not, or if the scheduler gives no reason.
    pub why_must_die: Option<Arc<str>>,
    /// The answer to the worker's newest work request.
    pub work: Option<Box<WorkReply>>,
    /// The earliest time of the worker's next request, whether or not there was one.
    pub request_delay: Option<Duration>,
    /// Jobs leave artifacts, so the worker reports its store of them.
    pub uses_artifacts: bool,
}
