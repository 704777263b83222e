//! The state of a pull worker that survives a restart, as JSON. Schedulers are named by their addresses and jobs by their names, because the
//! worker's lists of both may change.
//!
//! The text may be of any age and origin. A text that cannot be read is refused as a whole. The policies bound each value that they restore.

use std::collections::BTreeMap;

use brasserie_common::WallTime;
use serde::{Deserialize, Serialize};

use super::contact_state::{SavedContact, away};
use super::estimates::{MOST_JOBS, SavedEstimate};
use super::rec::SavedRec;
use super::types::AssociationIndex;

/// Version of the text. Text of another version is not read.
const VERSION: u64 = 2;
/// Maximum bytes of all written job names, with each byte counted at its largest encoding. Keeps the text below the 64 MiB that the worker
/// reads.
const MOST_NAME_BYTES: usize = 32 << 20;
/// Maximum bytes in the text for one byte of a name: `\u0001`.
const WORST_BYTE: usize = 6;

/// The saved state; see the module documentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// The wall-clock time of the state, in milliseconds.
    #[serde(rename = "at_ms")]
    pub at: WallTime,
    /// The schedulers by the addresses that the operator gave the worker.
    pub schedulers: BTreeMap<String, SavedScheduler>,
    /// Least recently used first.
    pub jobs: Vec<SavedJob>,
}

/// The saved state of one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedScheduler {
    pub contact: SavedContact,
    pub rec: SavedRec,
    /// See [`Estimates::correction`](super::Estimates::correction).
    pub correction: f64,
}

/// The saved estimate of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedJob {
    /// The address of its scheduler.
    pub scheduler: String,
    pub name: String,
    /// The job's own estimate at that time in seconds, if it had one.
    #[serde(rename = "said_secs")]
    pub said: Option<f64>,
    /// The learned run time in seconds.
    #[serde(rename = "secs")]
    pub seconds: f64,
}

/// The reason why a text is no saved state of this version.
#[derive(Debug, thiserror::Error)]
pub enum SavedStateError {
    #[error("version {0} of the saved state is not version {VERSION}, which this worker reads")]
    Version(u64),
    #[error("the saved state is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
}

/// The beginning of a text, which is the same in all versions.
#[derive(Deserialize)]
struct Header {
    version: u64,
}

/// A state as it is written.
#[derive(Serialize)]
struct Versioned<'a> {
    version: u64,
    #[serde(flatten)]
    state: &'a SavedState,
}

impl SavedState {
    /// Combines the parts of the state. `name` returns the scheduler's address and the name of a job; a job without them is left out.
    pub fn new(
        at: WallTime,
        schedulers: BTreeMap<String, SavedScheduler>,
        estimates: &[SavedEstimate],
        name: impl Fn(AssociationIndex, u32) -> Option<(String, String)>,
    ) -> Self {
        let named = |one: &SavedEstimate| {
            let (scheduler, name) = name(one.association, one.job)?;
            Some(SavedJob {
                scheduler,
                name,
                said: one.said,
                seconds: one.seconds,
            })
        };
        let mut state = SavedState {
            at,
            schedulers,
            jobs: estimates.iter().filter_map(named).collect(),
        };
        state.keep_last_jobs();
        state
    }

    /// Drops the first of too many jobs, which bounds the size of the text.
    fn keep_last_jobs(&mut self) {
        let bytes = |job: &SavedJob| (job.scheduler.len() + job.name.len()) * WORST_BYTE;
        let mut left = MOST_NAME_BYTES;
        let last = self.jobs.iter().rev().take(MOST_JOBS);
        let fitting = last.take_while(|job| {
            let fits = left.checked_sub(bytes(job));
            left = fits.unwrap_or(0);
            fits.is_some()
        });
        let dropped = self.jobs.len() - fitting.count();
        self.jobs.drain(..dropped);
    }

    /// Reads the text of [`to_text`](Self::to_text).
    pub fn read(text: &str) -> Result<Self, SavedStateError> {
        let Header { version } = serde_json::from_str(text)?;
        match version {
            VERSION => Ok(serde_json::from_str(text)?),
            other => Err(SavedStateError::Version(other)),
        }
    }

    /// Returns the text that [`read`](Self::read) accepts.
    pub fn to_text(&self) -> String {
        let written = serde_json::to_string_pretty(&Versioned {
            version: VERSION,
            state: self,
        });
        written.expect("Invariant: its keys are texts, and nothing in it refuses to be written")
            + "\n"
    }

    /// Returns the estimates for [`Estimates::restored`](super::Estimates::restored). `number` returns the numbers for a scheduler's
    /// address and a job's name; a job without them is left out.
    pub fn estimates(
        &self,
        mut number: impl FnMut(&str, &str) -> Option<(AssociationIndex, u32)>,
    ) -> Vec<SavedEstimate> {
        let numbered = |one: &SavedJob| {
            let (association, job) = number(&one.scheduler, &one.name)?;
            Some(SavedEstimate {
                association,
                job,
                said: one.said,
                seconds: one.seconds,
            })
        };
        self.jobs.iter().filter_map(numbered).collect()
    }

    /// Returns the state at the time when the worker returns. If the wall clock went back meanwhile, the length of the absence is unknown:
    /// then all waits end, and the averages of received work do not age.
    pub fn aged(self, now: WallTime) -> Self {
        let away = away(self.at, now);
        let older = |saved: SavedScheduler| match away {
            Some(away) => SavedScheduler {
                contact: saved.contact.after(away),
                rec: saved.rec.older(away.as_secs_f64()),
                ..saved
            },
            None => SavedScheduler {
                contact: saved.contact.after_clock_went_back(),
                ..saved
            },
        };
        let schedulers = self.schedulers.into_iter();
        SavedState {
            at: now,
            schedulers: schedulers
                .map(|(address, saved)| (address, older(saved)))
                .collect(),
            jobs: self.jobs,
        }
    }
}

#[cfg(test)]
mod tests;
