//! A worker as it describes itself in each heartbeat, and what it hears in return.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::ids::{SchedulerId, Shard, WorkerId};
use crate::resources::UsablePhysicalResources;
use crate::work::WorkReply;
use crate::worker_set::WorkerSetId;

/// Both sides require exact equality.
pub const PROTOCOL_VERSION: i16 = 2;

/// Two instances with the same lock cannot be alive together, because the port is bound exclusively.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachinePortLock {
    /// Canonical name of the host, never dialled.
    pub hostname: Arc<str>,
    pub port: i32,
}

/// Where to connect; never an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceAddress {
    pub host: Arc<str>,
    pub port: u16,
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Whether a worker takes tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intake {
    #[default]
    Open,
    /// Its operator lets it end with its tasks: it starts none any more.
    Draining,
}

/// What a worker is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Supply {
    /// Whatever there are slots for, until it asks for something.
    #[default]
    AsSlotsAllow,
    /// What it asks for, and nothing before.
    AsAsked,
}

/// How many tasks a worker can run at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskRoom {
    pub most: NonZeroU32,
    /// Which limit of its machine says so, for people.
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

/// A worker's word about itself; everything but the identities may change with any heartbeat.
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
    /// It has a `--worker-command` for jobs without a command; peers that do not say are taken to have one.
    pub has_worker_command: bool,
    pub intake: Intake,
    pub supply: Supply,
    /// `None`: it does not say.
    pub room: Option<TaskRoom>,
    /// How it contains its tasks, and why, for people; `None`: it does not say.
    pub containment: Option<Arc<str>>,
    /// The absolute path of its logs on its host, for people; `None`: it does not say.
    pub log_folder: Option<Arc<str>>,
}

/// The scheduler's answer to a heartbeat: its timeouts, so that both sides run one model, and its opinion.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatResponse {
    pub scheduler: SchedulerId,
    pub max_healthcheck_gap: Duration,
    pub heartbeat_grace_period: Duration,
    pub lose_unhealthy_worker_after: Duration,
    /// The worker subtracts it from the loss time, so that it ends first.
    pub worker_check_interval: Duration,
    pub worker_state: Health,
    /// For how long the scheduler has counted towards the loss; `None` if it counts not, or is a peer that does not say.
    pub not_healthy_for: Option<Duration>,
    pub protocol_version: i16,
    pub worker_set: WorkerSetId,
    /// The reason why the worker must die, for its log; `None` if it need not, or if the scheduler gives no reason.
    pub why_must_die: Option<Arc<str>>,
    /// Of the worker's newest request for work.
    pub work: Option<Box<WorkReply>>,
    /// Its next one comes no earlier, whether or not there was one.
    pub request_delay: Option<Duration>,
}
