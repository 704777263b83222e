//! Identities and amounts of the fetching of artifacts.

use std::sync::Arc;

pub use brasserie_common::ArtifactId;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// A worker that may hold artifacts. The text is the caller's: this crate only compares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub Arc<str>);

impl From<&str> for PeerId {
    fn from(text: &str) -> Self {
        PeerId(text.into())
    }
}

/// The machine of a peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(pub Arc<str>);

impl From<&str> for HostName {
    fn from(text: &str) -> Self {
        HostName(text.into())
    }
}

/// The rack of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RackName(pub Arc<str>);

impl From<&str> for RackName {
    fn from(text: &str) -> Self {
        RackName(text.into())
    }
}

/// A worker with its location, which decides how near it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: PeerId,
    pub host: HostName,
    pub rack: Option<RackName>,
}

/// How far a peer is from this worker. Nearer peers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    SameHost,
    SameRack,
    Elsewhere,
}

impl Distance {
    /// Returns the distance between two peers. Peers without a known rack are in no common rack.
    pub fn between(one: &Peer, other: &Peer) -> Distance {
        if one.host == other.host {
            Distance::SameHost
        } else if one.rack.is_some() && one.rack == other.rack {
            Distance::SameRack
        } else {
            Distance::Elsewhere
        }
    }
}

/// The urgency of an artifact. Smaller values are fetched first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i64);

impl Priority {
    /// The priority of replicas: no task waits for them.
    pub const REPLICA: Priority = Priority(i64::MAX);

    pub(crate) fn purpose(self) -> TransferPurpose {
        match self {
            Priority::REPLICA => TransferPurpose::Replicas,
            Priority(_) => TransferPurpose::Inputs,
        }
    }
}

/// The purpose of a request to a peer. One request never contains artifacts of both, because its outcome is known only at its end, and a
/// task would wait for replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferPurpose {
    #[default]
    Inputs,
    Replicas,
}

/// A task that waits for artifacts, by the caller's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitingTask(pub u64);

impl WaitingTask {
    /// Stands for all replicas.
    pub const REPLICAS: WaitingTask = WaitingTask(u64::MAX);
}

/// One request to one peer. Numbers are never used again, so that the late outcome of an earlier request is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// Whether the memory or the disk of this worker is nearly full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pressure {
    #[default]
    Normal,
    /// The worker starts no transfers, and serves one peer at a time.
    High,
}
