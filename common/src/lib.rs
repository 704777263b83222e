//! Types and rules that the scheduler and the worker share: identities, time, statuses, backoff, health, the worker set.
//!
//! The crate is pure: it reads no clock, no entropy and no file. Its own `clippy.toml` enforces that.

#![deny(clippy::iter_over_hash_type)]

pub mod access;
pub mod address;
pub mod artifact;
pub mod artifact_report;
pub mod backoff;
pub mod call;
pub mod cards;
pub mod cluster_view;
pub mod collections;
pub mod edf;
pub mod estimate;
pub mod fence;
pub mod file_name;
pub mod fingerprint;
pub mod health;
pub mod ids;
pub mod logs;
pub mod process_limits;
pub mod ration;
pub mod resources;
pub mod rng;
pub mod sabotage;
pub mod size;
pub mod status;
pub mod story;
pub mod task;
pub mod text;
pub mod time;
pub mod time_window;
pub mod work;
pub mod work_overview;
pub mod worker;
pub mod worker_set;

pub use address::ServiceAddress;
pub use artifact::{
    Artifact, ArtifactForm, ArtifactHolder, ArtifactId, ArtifactIdError, ArtifactNamespace,
    ArtifactNamespaceError, DiskGeneration, DiskGenerationError, LeftOutput, OutputPath,
    OutputPathError, TaskArtifacts, TaskInput, TaskOutput,
};
pub use backoff::{BackoffDuration, BackoffPolicy, FailedTries};
pub use call::{CallId, CallOutcome, NotPermitted, Principal, RecordSeq, RefusalCode, RequestId};
pub use cards::{
    Card, CardAmount, CardAmountError, CardConflict, CardNeed, CardUse, CardsWanted, GpuShare,
};
pub use estimate::Estimate;
pub use fence::{Fence, FenceGeneration};
pub use health::{Health, HealthModel, timeouts::Timeouts};
pub use ids::{
    AccountName, InstanceId, InvocationId, JobId, JobName, NodeId, NodeName, SchedulerId,
    SequenceNumber, Shard, WorkerId,
};
pub use process_limits::{Bound, Limited, ProcessLimit};
pub use ration::Ration;
pub use status::{ReportedStatus, StatusBits, StatusSource};
pub use story::{EndedBy, Ending, Fault, Story};
pub use task::{
    Arguments, Hold, Kill, KillMethod, KillRequest, ListedState, LogOverflow, Output, RunningTask,
    StatusFrom, TaskKey, TaskSubprocessOptions,
};
pub use time::{Time, WallTime};
pub use work::{
    CardChoice, KnownTask, Processor, ReportPolicy, WorkDemand, WorkReply, WorkRequest,
    WorkRequestSeq, WorkTerms, WorkVerdict,
};
pub use worker::{MachinePortLock, WorkerDescription};
pub use worker_set::{SetDigest, Standing, WorkerSetHash, WorkerSetId};
