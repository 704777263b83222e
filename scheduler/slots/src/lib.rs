//! The places where tasks may write their output artifacts: disks of workers, their free space, and the slots on them.
//!
//! An *artifact slot* is the permission to write one artifact on one disk. The crate counts slots, decides which workers may get any, and
//! chooses the worker and disk of each artifact and of its replica. The rules are those of Apache Celeborn, without its known defects;
//! [`Compatibility::Celeborn`] repeats those that change an offer.
//!
//! All decisions are functions of plain values: the caller passes in the time and the generator of random numbers. The crate neither reads
//! disks nor moves data, and knows no tasks, jobs or calls. Remote storage and memory are no disks here.

#![deny(clippy::iter_over_hash_type)]

mod allocator;
mod amounts;
mod disk;
mod drain;
mod estimate;
mod offers;
mod reservations;
mod settings;
mod workers;

pub use allocator::{Allocator, AllocatorSettings, CopyRequest, Grant, GrantRequest, GrantedCopy};
pub use amounts::{Bytes, HolderId, Permille, Rack, Weight};
pub use disk::{DiskClass, DiskId, DiskReserve, DiskSpace, DiskState, WorkerDisk, usable_space};
pub use drain::{DrainEvent, DrainState, EventRefused};
pub use estimate::{EstimateSettings, SizeEstimate};
pub use offers::{
    ArtifactId, ArtifactLocation, CandidateDisk, DiskPlace, NoOffer, SlotCandidate, SlotOffer,
    SlotPass, SlotRequest, WorkerSlots, choose_candidates, choose_spares, offer_slots,
};
pub use reservations::{ReservationId, Reservations};
pub use settings::{
    Compatibility, GradientMode, IntraGroup, LoadAware, Replication, SlotSettings, SlotStrategy,
};
pub use workers::{
    ArtifactWorkers, DrainRequestError, ExceptWorkers, IneligibleReason, Registered, UnknownWorker,
    WorkerPolicy, WorkerRegistration, WorkerReport, WorkloadLevel,
};
