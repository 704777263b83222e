//! Runs a real cluster under faults drawn from a seed, and checks the reports of its tasks and its scheduler.
//!
//! [`plan`] draws the faults, `machines` injects them into real programs, and `testimony` compares the reports of tasks and scheduler.
//! [`run()`] plays one seed. Everything happens in namespaces of this process, so no fault reaches a process outside.

mod log_pipe;
mod machines;
pub mod plan;
mod run;
mod testimony;

pub use run::{ChaosOutcome, run};

use clap::ValueEnum;

/// How workers contain their tasks, as in `--contain`.
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

/// The settings of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChaosSettings {
    pub seed: u64,
    pub workers: usize,
    /// `None`: the worker decides.
    pub contain: Option<Contain>,
    /// Whether scheduler and workers run as an ordinary user.
    pub as_user: bool,
}
