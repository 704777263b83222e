//! The results of a run.

use serde::Serialize;

use crate::figures::Figures;

/// All results of a run. Instants are seconds since the run began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub scenario: String,
    pub about: String,
    pub seed: u64,
    pub duration: f64,
    pub figures: Figures,
    /// The idle fraction that no policy could avoid, because the worker had nothing to do.
    pub allowed_idle: f64,
    pub totals: Totals,
    pub schedulers: Vec<SchedulerOutcome>,
    #[serde(skip)]
    pub contacts: Vec<Contact>,
    #[serde(skip)]
    pub series: Vec<Sample>,
}

/// Sums over all schedulers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Floating point operations at peak speed: the possible ones, and the used ones below.
    pub could: f64,
    pub used: f64,
    pub jobs: u64,
    pub contacts: u64,
    /// Contacts without an answer.
    pub failed_contacts: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchedulerOutcome {
    pub name: String,
    pub share: f64,
    /// Its fraction of all used operations.
    pub got: f64,
    /// Operations at peak speed.
    pub used: f64,
    pub wasted: f64,
    pub jobs: u64,
    pub met: u64,
    pub missed: u64,
    pub failed: u64,
    /// Tasks that were sent and that the worker refused because it had too much work.
    pub refused: u64,
    /// Tasks that were late at the end of the run and not yet reported.
    pub overdue: u64,
    pub contacts: u64,
    pub failed_contacts: u64,
    /// Contacts that asked for work and brought none.
    pub in_vain: u64,
}

/// A contact with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    pub at: f64,
    pub scheduler: usize,
    pub kind: ContactKind,
    pub result: ContactResult,
    /// The delay in seconds that the answer asked for.
    pub request_delay: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactKind {
    /// A work request, with the reports that wait for one.
    Request,
    /// A report of one completion.
    Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactResult {
    Failed,
    Deferred,
    /// The number of tasks in the answer.
    Answered(usize),
}

/// The state at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub at: f64,
    pub schedulers: Vec<crate::client::Glance>,
    /// Missing instance-seconds of the buffer, summed over all types.
    pub shortfall: f64,
}
