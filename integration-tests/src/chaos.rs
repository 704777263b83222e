//! Plays a real cluster under faults that a seed chooses, and checks what its tasks and its scheduler report.
//!
//! [`plan`] draws the faults, `machines` inflicts them on real programs, `testimony` compares what tasks and scheduler said. [`run()`]
//! plays one seed. Everything happens in namespaces of this process: no fault reaches a process outside.

mod log_pipe;
mod machines;
pub mod plan;
mod run;
mod testimony;

pub use run::{Outcome, run};

use clap::ValueEnum;

/// How workers contain their tasks, as `--contain` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Contain {
    PidNamespace,
    ProcessGroups,
}

impl Contain {
    fn flag(self) -> &'static str {
        match self {
            Contain::PidNamespace => "pid-namespace",
            Contain::ProcessGroups => "process-groups",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub seed: u64,
    pub workers: usize,
    /// `None` leaves the choice to the worker.
    pub contain: Option<Contain>,
    /// Scheduler and workers run as an ordinary user.
    pub as_user: bool,
}
