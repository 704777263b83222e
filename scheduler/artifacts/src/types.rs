//! The plain values that the registry exchanges with the scheduler's core.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{DiskGeneration, MachinePortLock, Time, WallTime};

/// The time that a worker has between the first sight of an unwanted artifact and the request to delete it. The completion of the run that
/// made the artifact, or the start of the run that reads it, may still be on its way: a completion is repeated within seconds, and a
/// minute bears several repetitions.
const GC_GRACE: Duration = Duration::from_secs(60);
/// The time between the last consumer's completion, or the deletion of a job, and the expiry of the set. A configuration that replaces a
/// job, or a user who starts one more consumer, needs less than a minute.
const SET_GRACE: Duration = Duration::from_secs(60);
/// The silence after which a session has expired: 30 of its heartbeats, as in Apache Celeborn.
const OWNER_TIMEOUT: Duration = Duration::from_secs(300);
/// The runs that a task gets because its outputs were lost. The loss of two workers in a row is bad luck; more points to a cause that
/// another run does not remove.
const MAX_RERUNS: u32 = 3;

/// Times and bounds of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrySettings {
    pub gc_grace: Duration,
    pub set_grace: Duration,
    pub owner_timeout: Duration,
    pub max_reruns: u32,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        RegistrySettings {
            gc_grace: GC_GRACE,
            set_grace: SET_GRACE,
            owner_timeout: OWNER_TIMEOUT,
            max_reruns: MAX_RERUNS,
        }
    }
}

/// Both clocks, read at the same moment. Deadlines use `time`; `wall` only measures ages across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    pub time: Time,
    pub wall: WallTime,
}

/// The data of one disk of one worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub lock: MachinePortLock,
    pub generation: DiskGeneration,
}

/// The name of a rack, such as `r7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RackName(pub Arc<str>);

/// The session of a submitter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub Arc<str>);

/// The number of workers that should hold an output: 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replicas(u8);

impl Replicas {
    pub const ONE: Replicas = Replicas(1);
    /// The largest number: more copies cost more than another run of the task.
    pub const MOST: Replicas = Replicas(8);

    /// Returns the nearest permitted number.
    pub fn new(count: u8) -> Self {
        Replicas(count.clamp(Self::ONE.0, Self::MOST.0))
    }

    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// Whether the registry knows all copies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    Complete,
    /// Workers may hold copies that the registry does not know.
    Incomplete,
}

/// Whether a worker remains in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerStay {
    Staying,
    /// An operator decommissions the worker. Its copies may be fetched, and count as no replicas.
    Leaving,
}

/// Whether a worker that remains in the pool is expected to keep its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerTrust {
    Trusted,
    /// The worker is not healthy, or drains. Its copies count as replicas, but no other worker leaves data to it alone.
    Doubtful,
}

/// Whether the outputs of a task still refer to their artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Live,
    /// The set expired after the task had made them.
    Expired,
}

/// A number of artifacts, and the sum of their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtifactAmount {
    pub artifacts: u64,
    pub bytes: u64,
}

/// Sums over the artifacts to which live outputs of one job refer. An artifact counts once, however many outputs have its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetTotals {
    pub amount: ArtifactAmount,
    /// The copies at all disks.
    pub copies: u64,
    /// The artifacts without a known copy. While the registry is incomplete, some of them may have copies.
    pub without_copy: u64,
}
