//! The state of a pull worker that survives a restart, as text. Schedulers are named by their addresses and jobs by their names, because
//! the worker's lists of both may change.
//!
//! The text may be of any age and origin. A part that cannot be understood is left out with a warning.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::ids::MAX_NAME_BYTES;
use serde_json::{Map, Value, json};

use super::amounts::amount;
use super::contact_state::{SavedContact, away};
use super::estimates::{MOST_JOBS, SavedEstimate};
use super::reason::Wish;
use super::rec::SavedRec;
use super::types::AssociationIndex;
use super::wait::WaitCause;

mod reading;

pub use reading::SavedWarning;

/// Version of the text. Text of another version is not read, with a warning.
const VERSION: u64 = 1;
/// Maximum number of schedulers, above any real worker's.
const MOST_SCHEDULERS: usize = 1000;
/// Maximum number of members of one scheduler, or of its processor types.
const MOST_OF_ONE: usize = 1000;
/// Maximum bytes of all written job names, with each byte counted at its largest encoding.
const MOST_NAME_BYTES: usize = 32 << 20;
/// Maximum bytes in the text for one byte of a name: `\u0000`.
const WORST_BYTE: usize = 6;

/// The saved state; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedState {
    /// The wall-clock time of the state.
    pub at: WallTime,
    /// The schedulers by the addresses that the operator gave the worker.
    pub schedulers: BTreeMap<String, SavedScheduler>,
    /// Least recently used first.
    pub jobs: Vec<SavedJob>,
}

/// The saved state of one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedScheduler {
    pub contact: SavedContact,
    pub rec: SavedRec,
    /// See [`Estimates::correction`](super::Estimates::correction).
    pub correction: f64,
}

/// The saved estimate of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedJob {
    /// The address of its scheduler.
    pub scheduler: String,
    pub name: String,
    /// The job's own estimate at that time in seconds, if it had one.
    pub said: Option<f64>,
    /// The learned run time in seconds.
    pub seconds: f64,
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
        SavedState {
            at,
            schedulers,
            jobs: estimates.iter().filter_map(named).collect(),
        }
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

    /// Returns the text that [`read`](Self::read) accepts. Its size is bounded: of too many jobs, the last are written.
    pub fn to_text(&self) -> String {
        let schedulers = self.schedulers.iter();
        let written = schedulers
            .filter(|(address, _)| address.len() <= MAX_NAME_BYTES)
            .take(MOST_SCHEDULERS)
            .map(|(address, saved)| (address.clone(), saved.written()));
        let whole = json!({
            "version": VERSION,
            "at_ms": self.at.as_millis(),
            "schedulers": written.collect::<Map<_, _>>(),
            "jobs": self.last_jobs().iter().map(SavedJob::written).collect::<Vec<_>>(),
        });
        format!("{whole:#}\n")
    }

    fn last_jobs(&self) -> &[SavedJob] {
        let bytes = |job: &SavedJob| (job.scheduler.len() + job.name.len()) * WORST_BYTE;
        let mut left = MOST_NAME_BYTES;
        let last = self.jobs.iter().rev().take(MOST_JOBS);
        let fitting = last.take_while(|job| {
            let fits = left.checked_sub(bytes(job));
            left = fits.unwrap_or(0);
            fits.is_some()
        });
        let count = fitting.count();
        &self.jobs[self.jobs.len() - count..]
    }
}

impl SavedScheduler {
    fn written(&self) -> Value {
        let rpc = &self.contact.rpc;
        let is_name = |name: &str| name.len() <= MAX_NAME_BYTES;
        let pairs = self.contact.pairs.iter().take(MOST_OF_ONE);
        let pairs = pairs.filter(|pair| is_name(&pair.processors)).map(|pair| {
            compact(json!({
                "processors": pair.processors,
                "interval_secs": amount(pair.interval),
                "left_ms": pair.left.map(millis),
                "no_apps": pair.no_apps,
            }))
        });
        let members = self.contact.members.iter().take(MOST_OF_ONE);
        let members = members.filter(|member| is_name(&member.host));
        let members = members.map(|member| json!({"host": &*member.host, "port": member.port}));
        let wait = rpc.wait.and_then(|wait| {
            let (cause, count) = written_cause(wait.cause)?;
            Some(compact(
                json!({"left_ms": millis(wait.left), "cause": cause, "count": count}),
            ))
        });
        compact(json!({
            "wait": wait,
            "next_contact_ms": rpc.next_contact.map(millis),
            "failures": rpc.failures,
            "list_failures": rpc.list_failures,
            "list_ms": rpc.list.map(millis),
            "wish": rpc.wish.map(written_wish),
            "pairs": pairs.collect::<Vec<_>>(),
            "members": members.collect::<Vec<_>>(),
            "rec": amount(self.rec.average),
            "rec_age_secs": amount(self.rec.age),
            "correction": amount(self.correction),
        }))
    }
}

impl SavedJob {
    fn written(&self) -> Value {
        compact(json!({
            "scheduler": self.scheduler,
            "name": self.name,
            "said_secs": self.said.map(amount),
            "secs": amount(self.seconds),
        }))
    }
}

/// Removes null entries of an object.
fn compact(mut written: Value) -> Value {
    if let Value::Object(parts) = &mut written {
        parts.retain(|_, part| !part.is_null());
    }
    written
}

/// Returns milliseconds, rounded up so that no wait ends too early.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

const RPC_FAILED: &str = "rpc_failed";
const LIST_FAILED: &str = "list_failed";
const TASK_FAILED: &str = "task_failed";
const LIST_FAILED_AGAIN: &str = "list_failed_again";
const REQUEST_DELAY: &str = "request_delay";

/// Returns the name and the count of a wait's cause; `None` if no request waits for it.
fn written_cause(cause: WaitCause) -> Option<(&'static str, Option<u32>)> {
    match cause {
        WaitCause::RequestDelay => Some((REQUEST_DELAY, None)),
        WaitCause::RpcFailed { failures } => Some((RPC_FAILED, Some(failures))),
        WaitCause::ListFailed { failures } => Some((LIST_FAILED, Some(failures))),
        WaitCause::TaskFailed { failures } => Some((TASK_FAILED, Some(failures))),
        WaitCause::ListFailedAgain { readings } => Some((LIST_FAILED_AGAIN, Some(readings))),
        // No request waits for these.
        WaitCause::Failures { .. } | WaitCause::NoWork { .. } | WaitCause::NextContact => None,
    }
}

fn read_cause(cause: &str, count: u32) -> Option<WaitCause> {
    match cause {
        REQUEST_DELAY => Some(WaitCause::RequestDelay),
        RPC_FAILED => Some(WaitCause::RpcFailed { failures: count }),
        LIST_FAILED => Some(WaitCause::ListFailed { failures: count }),
        TASK_FAILED => Some(WaitCause::TaskFailed { failures: count }),
        LIST_FAILED_AGAIN => Some(WaitCause::ListFailedAgain { readings: count }),
        _ => None,
    }
}

fn written_wish(wish: Wish) -> &'static str {
    match wish {
        Wish::Scheduler => "scheduler",
        Wish::Init => "init",
        Wish::User => "user",
    }
}

fn read_wish(wish: &str) -> Option<Wish> {
    let mut all = Wish::ALL.into_iter();
    all.find(|one| written_wish(*one) == wish)
}

#[cfg(test)]
mod tests;
