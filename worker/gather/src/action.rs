//! The outputs of [`Gather`](super::Gather).

use brasserie_common::Time;

use super::types::{ArtifactId, ByteCount, PeerId, TransferId, WaitingTask};

/// An order to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatherAction {
    /// Request the artifacts from the peer, and pass on the outcome with
    /// [`TransferEnded`](super::GatherEvent::TransferEnded). They are in the order in which tasks need them.
    Fetch {
        transfer: TransferId,
        peer: PeerId,
        artifacts: Vec<ArtifactId>,
        /// The sum of the expected sizes.
        bytes: ByteCount,
    },
    /// Ask the scheduler for the holders of these artifacts, and pass on the answer with
    /// [`HoldersRefreshed`](super::GatherEvent::HoldersRefreshed).
    AskHolders { artifacts: Vec<ArtifactId> },
    /// A valid copy arrived for these tasks. The scheduler should learn that this worker is a holder.
    Arrived {
        artifact: ArtifactId,
        tasks: Vec<WaitingTask>,
    },
    /// The artifact has had no holder since `since`. Its tasks fail with its name, and the failure does not advance their backoff. The
    /// artifact is not wanted any more.
    Missing {
        artifact: ArtifactId,
        tasks: Vec<WaitingTask>,
        since: Time,
    },
    /// Report to the scheduler that the peer's copy is corrupt.
    ReportCorrupt { peer: PeerId, artifact: ArtifactId },
}
