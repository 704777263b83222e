//! The fetching of artifacts: from which peer a worker requests the immutable files that its tasks need, and when.
//!
//! The crate performs no input or output and reads no clock. A caller passes [`GatherEvent`]s to [`Gather::handle`], performs the
//! [`GatherAction`]s that it returns, and passes [`GatherEvent::TimePassed`] at [`Gather::next_wake`]. [`RunInputs`] does the same for whole
//! runs, each of which starts when its inputs have arrived, and fetches replicas, which no run waits for. `ServedTransfers` of
//! `common/artifacts` is the other side: it decides whether the worker serves a peer's request now.
//!
//! The crate does not know which artifacts the local store contains, nor how bytes travel. The caller asks only for artifacts that it does
//! not have, checks each received copy against the SHA-256 that is its name, and reports the result. The scheduler keeps the registry of
//! holders.

#![deny(clippy::iter_over_hash_type)]

mod action;
mod artifacts;
mod busy_marks;
mod event;
mod gather;
mod holder_query;
mod holdings;
mod limits;
mod replicas;
mod run_inputs;
mod transfers;
mod types;

pub use action::GatherAction;
pub use event::{GatherEvent, ReceivedCopy, TransferOutcome, WantedArtifact};
pub use gather::{ArtifactWait, ArtifactWaitReason, Gather};
pub use limits::{BusyJitter, GatherLimits};
pub use run_inputs::{InputsAction, InputsProgress, RunInputs};
pub use types::{
    ArtifactId, ByteCount, HostName, Peer, PeerId, Pressure, Priority, RackName, TransferId,
    WaitingTask,
};
