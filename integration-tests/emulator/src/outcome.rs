//! What came of a run.

use serde::Serialize;

use crate::figures::Figures;
use crate::lanes::Segment;

/// All of it. Instants are seconds since the run began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub scenario: String,
    pub about: String,
    pub seed: u64,
    pub duration: f64,
    pub figures: Figures,
    /// The idle part that no policy could do without: the worker had nothing to do, whomever it might have asked.
    pub allowed_idle: f64,
    pub totals: Totals,
    pub schedulers: Vec<SchedulerOutcome>,
    #[serde(skip)]
    pub contacts: Vec<Contact>,
    #[serde(skip)]
    pub series: Vec<Sample>,
    #[serde(skip)]
    pub timeline: Timeline,
}

/// Of all schedulers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Floating point operations at peak speed that could have been done, and were.
    pub could: f64,
    pub used: f64,
    pub jobs: u64,
    pub contacts: u64,
    /// Contacts that nobody answered.
    pub failed_contacts: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchedulerOutcome {
    pub name: String,
    pub share: f64,
    /// Its part of what was used.
    pub got: f64,
    /// Operations at peak speed.
    pub used: f64,
    pub wasted: f64,
    pub jobs: u64,
    pub met: u64,
    pub missed: u64,
    pub failed: u64,
    /// Sent, and refused by a worker that had too much to do.
    pub refused: u64,
    /// Late at the end, and not reported yet.
    pub overdue: u64,
    pub contacts: u64,
    pub failed_contacts: u64,
    /// Contacts in which no work came although some was asked for.
    pub in_vain: u64,
}

/// A contact with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    pub at: f64,
    pub scheduler: usize,
    pub kind: ContactKind,
    pub result: ContactResult,
    /// What its answer asked for.
    pub request_delay: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactKind {
    /// A request for work, with whatever is to be told.
    Request,
    /// The end of a task, by itself.
    Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactResult {
    Failed,
    Deferred,
    /// With so many tasks.
    Answered(usize),
}

/// A moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub at: f64,
    pub schedulers: Vec<crate::client::Glance>,
    /// Instance-seconds that are missing, of all types.
    pub shortfall: f64,
}

/// What the picture shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The names of the rows.
    pub rows: Vec<String>,
    pub segments: Vec<Segment>,
    /// More than can be drawn.
    pub dropped: u64,
    /// When the worker could not compute, and when it could not talk to anybody.
    pub suspended: Vec<(f64, f64)>,
    pub offline: Vec<(f64, f64)>,
    /// When ends were reported too late, and whose.
    pub misses: Vec<(f64, usize)>,
}
