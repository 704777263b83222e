//! The registry of artifacts: which outputs the tasks of jobs have made, which workers hold a copy, and what follows from both: the lost
//! artifacts, the missing replicas, and the data that nobody needs any more.
//!
//! The scheduler's core owns one [`Registry`], passes facts to its methods, with the time, and asks it. The crate performs no input or
//! output and sends no message: it neither moves nor deletes data. It chooses no disk for a new copy; that is the business of
//! `scheduler/slots`. It stores nothing: [`RestoredState`] is the part that the core stores. The registry learns the holders anew from the
//! workers after a restart.

#![deny(clippy::iter_over_hash_type)]

mod artifact_table;
mod disks;
mod listing;
mod outputs;
mod owners;
mod pins;
mod registry;
mod reruns;
mod restored;
mod sets;
mod types;

pub use disks::DiskAnnouncement;
pub use listing::{ListingPage, PageAnswer, PageEnd};
pub use outputs::{OutputName, TaskOutputs};
pub use owners::OwnerHeartbeat;
pub use registry::{ArtifactAvailability, MissingReplicas, OutputView, Registry, SetView};
pub use reruns::{GiveUpReason, Rerun};
pub use restored::{RestoredSet, RestoredState, RestoredTask};
pub use sets::{SetEnding, SetOwner, SetRetention, SetState, SetTerms};
pub use types::{
    ArtifactAmount, Clocks, Completeness, Holder, Liveness, OwnerId, RackName, RegistrySettings,
    Replicas, SetTotals, WorkerStay, WorkerTrust,
};
