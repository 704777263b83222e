//! A store of artifacts: plain files on one or more disks, named by their content. Workers have one, and schedulers for files of inputs.
//!
//! An [`ArtifactStore`] takes outputs of tasks ([`take_in`](ArtifactStore::take_in)), receives artifacts from other workers
//! ([`receive`](ArtifactStore::receive)), serves them ([`read`](ArtifactStore::read)), and gives tasks their inputs
//! ([`stage`](ArtifactStore::stage)). Content with another SHA-256 than its name never gets in, and content that was damaged later never
//! reaches a task: the store drops the artifact, and [`drain_lost`](ArtifactStore::drain_lost) reports the loss.
//!
//! The crate blocks: callers run it on threads of their own. It knows no scheduler and no network. `worker/gather` decides what is fetched.
//!
//! # Files on a disk
//!
//! A disk is a folder that `--disk` names ([`DiskFlag`]):
//!
//! | path | content |
//! |---|---|
//! | `lock` | is locked while a store uses the disk, so two workers never do |
//! | `generation` | a random number, new whenever a store starts without artifacts here: see [`DiskGeneration`](brasserie_common::DiskGeneration) |
//! | `incoming/` | files that are being written; deleted when a store opens the disk |
//! | `content/NAMESPACE/01/0123….` | the artifact whose SHA-256 is the name, in the folder of its first two digits |
//! | `set-aside/` | entries of `content` that no store has written, moved there when a store opens the disk |
//!
//! Files have mode 0400 and folders 0700. An artifact is written to `incoming`, synced, renamed, and its folder is synced before an
//! operation reports it, so a crash leaves whole artifacts and partial files only. A [`ArtifactNamespace`] is not more than a part of the name:
//! namespaces share no files, since a scheduler that knows a SHA-256 must not get the content from another one's artifacts.
//!
//! # Folders
//!
//! An artifact that is a folder is a tar archive. The module `archive` defines each byte of it.
//!
//! # Space
//!
//! A disk has `min(capacity - artifacts - reservations, free - reserve - reserved bytes that are not yet written)` usable bytes. New
//! artifacts go to the healthy disk with the most usable bytes. Sizes are lengths of files, also of sparse ones.

#![deny(clippy::iter_over_hash_type)]

mod archive;
mod artifact_key;
mod catalog;
mod disk;
mod disk_flag;
mod disk_times;
mod held;
mod in_flight;
mod incoming;
mod partial;
mod removal;
mod scan;
mod served;
mod shared;
mod space;
mod stage;
mod stop;
mod store;
mod take_in;
mod task_files;
mod threads;
mod unpack;
mod usage;

pub use archive::FolderLimits;
pub use catalog::{CopyLoss, DiskContent, DiskNumber, LostArtifact};
pub use disk::{DiskMistake, DiskOpenError};
pub use disk_flag::{DiskFlag, DiskFlagError};
pub use held::ContentError;
pub use incoming::{Incoming, ReceiveError};
pub use removal::{SteppedRemoval, remove_tree};
pub use scan::OpenFinding;
pub use served::{Busy, ReadPieces, Requester, ServedTransfers, ServingTurn, USUAL_SERVED};
pub use shared::WriteError;
pub use stage::{InputPlace, StageError};
pub use stop::StopCheck;
pub use store::{ArtifactReader, ArtifactStore, StoreOptions, StoredArtifact};
pub use take_in::{TakeInError, local_artifact};
pub use task_files::{OutputRefusal, TaskFolder, TaskUser};
pub use threads::copy_all;
pub use unpack::{UnpackError, unpack};
pub use usage::{DiskUsage, FoundCondition};
