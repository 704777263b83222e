//! Runs real programs as processes in temporary folders on free loopback ports. Waits have deadlines, and programs always end with
//! everything that they started. A failing test prints the output of each program.
//!
//! * [`Stage`] is the temporary folder of one test, and starts programs in it.
//! * [`Process`] is a running program; dropping it kills it.
//! * [`Network`] is a network that can be cut. [`Cluster`] is a scheduler and workers on a network, with its invariants.
//! * [`Client`] calls a scheduler. [`TestAuthority`] gives schedulers, workers and callers identities. An
//!   [`Impostor`] poses as a server.
//! * [`RunRecords`] are the records that tasks themselves wrote.

mod client;
mod cluster;
mod history;
mod impostor;
mod network;
mod ports;
mod process;
mod programs;
mod python;
mod records;
mod secured;
mod stage;
mod stall;
mod tree;
mod witness;

use std::time::{Duration, Instant};

pub use client::Client;
pub use cluster::{Cluster, ClusterWorker};
pub use history::write_history;
pub use impostor::Impostor;
pub use network::{Host, LinkEffect, Network, NetworkError, Packets, Percent, warn_not_run};
pub use ports::free_port;
pub use process::{Process, children_of, command_line, resident_bytes, used_processor_time};
pub use programs::{Program, Programs, play_role};
pub use python::{PYTHON_SETUP, python, python_with_packages};
pub use records::{RunRecord, RunRecords, WORK_SCRIPT};
pub use secured::{
    Admission, Secured, TestAuthority, address_of, certify, pool_through, token_in, try_call,
};
pub use stage::{
    FAST_SCHEDULER, FAST_WORKER, Finished, SchedulerSpec, Stage, WorkerSpec, fast_timeouts,
    range_config,
};
pub use stall::{
    FailingDisk, HangingDisk, SilentResolver, SmallDisk, StoppedThreads, UnreadLog, hide_proc,
    with_own_proc,
};
pub use tree::copy_sources;

/// Longer than any wait of a passing test, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Interval of checks of a condition.
const LOOK: Duration = Duration::from_millis(10);

/// How soon an unreachable worker counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossTime {
    /// The minimum: after one second of being unhealthy.
    Least,
    /// Longer than any short fault lasts, also on a busy machine.
    Long,
}

impl LossTime {
    fn flag(self) -> &'static str {
        match self {
            LossTime::Least => "--lose-unhealthy-worker-after=1s",
            LossTime::Long => "--lose-unhealthy-worker-after=30s",
        }
    }
}

/// Waits until `look` returns a value.
///
/// # Panics
/// If [`PATIENCE`] expires, with the name of the condition.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, look)
}

/// Waits like [`wait_for`], with another deadline.
///
/// # Panics
/// If the deadline expires.
pub fn wait_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            started.elapsed() < patience,
            "waited {patience:?} in vain for {what}"
        );
        std::thread::sleep(LOOK);
    }
}
