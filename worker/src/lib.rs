//! The worker shell: moves data between the world and the worker core, and runs processes.
//!
//! ```text
//!   schedulers --Thrift--> rpc --two lanes--> driver --events--> worker core
//!        ^                                      |  ^                 |
//!        +------ rpc client <--- perform <------+--+---- effects ----+
//!                                   |          own events: ends of calls and tasks
//!                                   +--> process runner --> logs, output
//! ```
//!
//! [`run`] is the program. [`start`] is the same worker inside another program: it uses no global state but the environment and
//! the working directory that its tasks inherit, so that several can live in one process. [`start_with`] is the same with another
//! [`Runner`] in place of processes.

pub mod config;
mod containment;
pub mod directory;
mod disk_reserve;
pub mod doctor;
mod driver;
mod file_name;
pub mod groups;
pub mod keeper;
pub mod logs;
mod member_file;
mod memory;
mod news;
mod options;
mod output;
mod perform;
pub mod process;
mod program;
mod room;
mod rpc;
mod runner;
mod scheduler_flag;
mod start;
mod usage;
mod work_fetch;

pub use brasserie_worker_core::ExitReason;
pub use containment::Contain;
pub use options::{OnSigterm, Retention, SchedulerOptions, StartOptions, StartedBy};
pub use program::{PROGRAM_NAME, is_worker, run};
pub use runner::{Runner, StartRunner};
pub use start::{Ended, StartError, WorkerHandle, start, start_with};
pub use work_fetch::{PreemptTasks, WorkFetchFlags, WorkFetchProfile};
