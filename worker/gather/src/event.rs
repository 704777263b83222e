//! The inputs of [`Gather`](super::Gather).

use std::collections::BTreeMap;

use super::types::{
    ArtifactId, ByteCount, Peer, PeerId, Pressure, Priority, TransferId, WaitingTask,
};

/// A fact that may change what can be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatherEvent {
    /// A task waits for artifacts that are not in the local store. The holders are added to those already known. A repetition for the same
    /// task changes its priority.
    Wanted {
        task: WaitingTask,
        priority: Priority,
        artifacts: Vec<WantedArtifact>,
    },
    /// The task does not wait for these artifacts any more. Transfers that have begun continue.
    NotWanted {
        task: WaitingTask,
        artifacts: Vec<ArtifactId>,
    },
    /// A request is over. Repeated outcomes have no effect.
    TransferEnded {
        transfer: TransferId,
        outcome: TransferOutcome,
    },
    /// The scheduler's answer to a query: all holders of each artifact. They replace the known ones.
    HoldersRefreshed {
        holders: BTreeMap<ArtifactId, Vec<Peer>>,
    },
    /// The peer is lost and holds nothing. A transfer from it continues until its outcome is known.
    PeerRemoved {
        peer: PeerId,
    },
    PressureChanged(Pressure),
    /// The time of [`Gather::next_wake`](super::Gather::next_wake) has come.
    TimePassed,
}

/// An artifact that a task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedArtifact {
    pub artifact: ArtifactId,
    pub size: Option<ByteCount>,
    pub holders: Vec<Peer>,
}

/// The result of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferOutcome {
    /// The peer answered with these copies. It has no copy of the other requested artifacts.
    Answered(BTreeMap<ArtifactId, ReceivedCopy>),
    /// The peer serves as many requests as it may. These copies were complete before it answered so.
    Busy(BTreeMap<ArtifactId, ReceivedCopy>),
    /// The connection failed after these copies were complete.
    ConnectionFailed(BTreeMap<ArtifactId, ReceivedCopy>),
}

/// Whether the content of a copy has the SHA-256 of the artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedCopy {
    /// The copy is in the local store.
    Valid,
    Corrupt,
}
