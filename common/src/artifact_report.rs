//! The report of a worker's store of artifacts to its scheduler, and the answer.

use std::sync::Arc;
use std::time::Duration;

use crate::address::ServiceAddress;
use crate::artifact::{Artifact, ArtifactHolder, ArtifactId, ArtifactNamespace, DiskGeneration};
use crate::ids::{InvocationId, Shard, WorkerId};
use crate::task::TaskKey;
use crate::worker_set::SetDigest;

/// The medium of a disk, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskMedium {
    #[default]
    Ssd,
    Hdd,
}

impl DiskMedium {
    pub fn as_str(self) -> &'static str {
        match self {
            DiskMedium::Ssd => "ssd",
            DiskMedium::Hdd => "hdd",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let all = [DiskMedium::Ssd, DiskMedium::Hdd];
        all.into_iter().find(|medium| medium.as_str() == text)
    }
}

/// The result of a worker's checks of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskCondition {
    /// The last check succeeded.
    Healthy,
    /// A read or a write failed.
    ReadError,
    /// A check did not return in time.
    IoHang,
    /// The file system is nearly full.
    HighUsage,
}

impl DiskCondition {
    const ALL: [DiskCondition; 4] = [
        DiskCondition::Healthy,
        DiskCondition::ReadError,
        DiskCondition::IoHang,
        DiskCondition::HighUsage,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DiskCondition::Healthy => "healthy",
            DiskCondition::ReadError => "read error",
            DiskCondition::IoHang => "io hang",
            DiskCondition::HighUsage => "high usage",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// One disk of a store, as its worker reports it. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskReport {
    pub generation: DiskGeneration,
    /// Digest of the ids of its artifacts of the reported namespace.
    pub digest: SetDigest,
    /// The number of these artifacts.
    pub artifacts: u64,
    pub medium: DiskMedium,
    pub total: u64,
    pub used: u64,
    /// The space that further artifacts may take.
    pub usable: u64,
    pub condition: DiskCondition,
    /// The reason why it is not healthy, for people.
    pub problem: Option<Arc<str>>,
    /// The average time of a write or sync of a copy; zero: there were too few in the last ten minutes.
    pub flush_time: Duration,
    /// The average time of a read for a peer; zero as above.
    pub fetch_time: Duration,
}

/// A copy of an artifact on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactCopy {
    pub generation: DiskGeneration,
    pub id: ArtifactId,
}

/// The number of a request for the list of a disk's artifacts. A later request has a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListingNumber(pub u64);

/// A request for a part of the list of a disk's artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingWanted {
    pub generation: DiskGeneration,
    pub listing: ListingNumber,
    /// The part begins behind this id; `None`: with the first id.
    pub after: Option<ArtifactId>,
}

/// The part that a [`ListingWanted`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingPage {
    pub wanted: ListingWanted,
    /// Ascending, with the number of bytes of each.
    pub artifacts: Vec<(ArtifactId, u64)>,
    pub is_last: bool,
}

/// A peer that holds inputs for which a run waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPeer {
    pub address: ServiceAddress,
    /// The name of its machine.
    pub hostname: Arc<str>,
    /// The number of its busy answers since the inputs are wanted.
    pub busy_answers: u32,
}

/// The progress of a run that waits for inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRun {
    pub task: TaskKey,
    pub invocation: InvocationId,
    /// The number of different artifacts among its inputs.
    pub artifacts: u32,
    /// The number of these that the worker's store has.
    pub present: u32,
    /// Bytes of inputs that have not arrived.
    pub missing_bytes: u64,
    /// The peers with the most busy answers first, at most [`WaitingRun::MOST_PEERS`].
    pub peers: Vec<InputPeer>,
}

impl WaitingRun {
    /// The most peers of a run: more do not help a person to see why it waits.
    pub const MOST_PEERS: usize = 4;
}

/// Numbers since the start of a worker, of all its associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtifactCounters {
    /// Transfers that brought bytes from other workers.
    pub transfers_taken: u64,
    /// Transfers to other workers.
    pub transfers_served: u64,
    pub bytes_taken: u64,
    pub bytes_served: u64,
    /// Calls of other workers that this one answered with "busy".
    pub busy_given: u64,
    /// Busy answers to calls of this worker.
    pub busy_received: u64,
    /// Inputs of runs that the store had when the run came.
    pub inputs_present: u64,
    /// Transfers from other workers that ended with a failed call.
    pub transfers_failed: u64,
}

impl ArtifactCounters {
    /// Returns the sums with the numbers of another worker.
    pub fn plus(self, other: &ArtifactCounters) -> ArtifactCounters {
        ArtifactCounters {
            transfers_taken: self.transfers_taken.saturating_add(other.transfers_taken),
            transfers_served: self.transfers_served.saturating_add(other.transfers_served),
            bytes_taken: self.bytes_taken.saturating_add(other.bytes_taken),
            bytes_served: self.bytes_served.saturating_add(other.bytes_served),
            busy_given: self.busy_given.saturating_add(other.busy_given),
            busy_received: self.busy_received.saturating_add(other.busy_received),
            inputs_present: self.inputs_present.saturating_add(other.inputs_present),
            transfers_failed: self.transfers_failed.saturating_add(other.transfers_failed),
        }
    }
}

/// The state of a worker's store, and its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactsReport {
    pub shard: Shard,
    pub worker: WorkerId,
    /// `None`: the worker does not know the scheduler's namespace yet, and reports no artifacts.
    pub namespace: Option<ArtifactNamespace>,
    pub rack: Option<Arc<str>>,
    pub disks: Vec<DiskReport>,
    /// Copies since the last report that was answered, with their numbers of bytes.
    pub stored: Vec<(ArtifactCopy, u64)>,
    pub gone: Vec<ArtifactCopy>,
    pub listings: Vec<ListingPage>,
    /// Artifacts whose holders the worker asks for.
    pub wanted: Vec<ArtifactId>,
    /// The runs that wait for inputs, oldest first, at most [`ArtifactsReport::MOST_WAITING`].
    pub waiting: Vec<WaitingRun>,
    /// `None`: the worker does not count.
    pub counters: Option<ArtifactCounters>,
}

impl ArtifactsReport {
    /// The most waiting runs of a report: about 64 KiB.
    pub const MOST_WAITING: usize = 256;
}

/// The scheduler's answer to an [`ArtifactsReport`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactsAnswer {
    pub namespace: ArtifactNamespace,
    pub listings: Vec<ListingWanted>,
    /// Copies that nobody needs any more.
    pub unwanted: Vec<ArtifactCopy>,
    /// The holders of each artifact that the report asks for.
    pub wanted: Vec<(ArtifactId, Vec<ArtifactHolder>)>,
    /// The artifacts of which the worker should fetch a copy, with their holders. A request that a later answer does not repeat is over.
    pub replicate: Vec<(Artifact, Vec<ArtifactHolder>)>,
    /// Those of the artifacts that the report asks for of which no worker has a copy: runs that wait for one are taken back.
    pub lost: Vec<ArtifactId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for state in DiskCondition::ALL {
            assert_eq!(DiskCondition::parse(state.as_str()), Some(state));
        }
        for medium in [DiskMedium::Ssd, DiskMedium::Hdd] {
            assert_eq!(DiskMedium::parse(medium.as_str()), Some(medium));
        }
        assert_eq!(DiskCondition::parse("fine"), None);
        assert_eq!(DiskMedium::parse("tape"), None);
    }
}
