//! The worker shell: performs input and output for the worker core, and runs task processes.
//!
//! ```text
//!   schedulers --Thrift--> rpc --two lanes--> driver --events--> worker core
//!        ^                                      |  ^                 |
//!        +------ rpc client <--- perform <------+--+---- effects ----+
//!                                   |          own events: completions of calls and tasks
//!                                   +--> process runner --> logs, output
//! ```
//!
//! [`run`] is the program. [`start`] runs the same worker inside another program. It uses no global state except the environment and the
//! working directory that its tasks inherit, so several workers can live in one process. [`start_with`] replaces processes by another
//! [`Runner`].

mod artifacts;
pub mod config;
mod containment;
pub mod directory;
mod disk_reserve;
pub mod doctor;
mod driver;
pub mod groups;
pub mod keeper;
pub mod logs;
mod marker;
mod member_file;
mod members;
mod membership;
mod memory;
mod news;
mod options;
mod output;
mod own_events;
mod perform;
mod pid_namespace;
mod proc_table;
pub mod process;
mod program;
mod room;
mod rpc;
mod runner;
mod scheduler_flag;
mod start;
mod usage;
mod variables;
mod work_fetch;

pub use brasserie_common_artifacts::{UnpackError, local_artifact, remove_tree, unpack};
pub use brasserie_worker_core::ExitReason;
pub use containment::Contain;
pub use driver::WorkerEnd;
pub use keeper::StartedBy;
pub use marker::{Marker, marker};
pub use membership::{MembershipError, has_no_authority};
pub use options::{OnSigterm, PlainAddressError, SchedulerOptions, StartOptions, TokenPlace};
pub use output::Retention;
pub use process::Runner;
pub use program::{PROGRAM_NAME, become_keeper_or_continue, is_worker, run};
pub use runner::StartRunner;
pub use start::{StartError, WorkerHandle, start, start_with};
pub use work_fetch::{PreemptTasks, WorkFetchFlags, WorkFetchProfile};

/// The largest number of schedulers of one worker. Each costs a heartbeat every period; a machine with more needs another scheduler above
/// them.
pub(crate) const MOST_SCHEDULERS: usize = 16;

/// This program, even if its file was replaced or removed since it started.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
