//! Waits with their causes, for the policies and for messages to the operator.

use std::fmt;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::time::format_duration;
use serde::{Deserialize, Serialize};

use super::backoff::span;

/// A wait: its end and its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    pub until: Time,
    pub cause: WaitCause,
}

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WaitCause {
    /// The scheduler asked for the delay in its last reply (`request_delay`).
    RequestDelay,
    /// Requests to all members of the scheduler have failed, or their replies made no sense.
    RpcFailed { failures: u32 },
    /// The list of the scheduler's members could not be read, or was empty.
    ListFailed { failures: u32 },
    /// A task of the scheduler has failed here.
    TaskFailed { failures: u32 },
    /// The list could not be read this many times in a row.
    ListFailedAgain { readings: u32 },
    /// This many failures in a row suggest that the list has changed.
    Failures { failures: u32 },
    /// The worker asked for work of one processor type and got none.
    NoWork {
        /// Seconds; the backoff is a random multiple of this.
        interval: f64,
        /// The scheduler has tasks, but they would miss their deadlines here.
        turned_down: bool,
    },
    /// The scheduler said when it wants the next contact at the latest (`next_rpc_delay`).
    NextContact,
}

impl Wait {
    /// Describes the remaining time and the cause for the operator.
    pub fn explain(&self, now: Time) -> String {
        match for_people(left(now, self.until)) {
            Some(left) => format!("{left} from now: {}", self.cause),
            None => format!("now: {}", self.cause),
        }
    }
}

impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exponential = "random exponential backoff after";
        match *self {
            WaitCause::RequestDelay => f.write_str("requested by the scheduler"),
            WaitCause::RpcFailed { failures } => write!(
                f,
                "{exponential} RPCs to all of the scheduler's members have failed ({})",
                in_a_row(failures)
            ),
            WaitCause::ListFailed { failures } => write!(
                f,
                "{exponential} the list of the scheduler's members could not be read ({})",
                in_a_row(failures)
            ),
            WaitCause::TaskFailed { failures } => write!(
                f,
                "{exponential} a task of the scheduler has failed ({})",
                in_a_row(failures)
            ),
            WaitCause::ListFailedAgain { readings } => write!(
                f,
                "{readings} consecutive failures to read the list of the scheduler's members"
            ),
            WaitCause::Failures { failures } => f.write_str(&in_a_row(failures)),
            WaitCause::NoWork {
                interval,
                turned_down,
            } => {
                f.write_str(match turned_down {
                    false => "asked for work of that type and did not get any",
                    true => "the scheduler's tasks would miss their deadlines behind those that are here; with --preempt suspend they need not wait for them",
                })?;
                let interval = for_people(span(interval)).unwrap_or_else(|| "0s".to_owned());
                write!(f, " (backoff interval {interval})")
            }
            WaitCause::NextContact => {
                f.write_str("the scheduler wants to be contacted then at the latest")
            }
        }
    }
}

fn in_a_row(failures: u32) -> String {
    match failures {
        1 => "1 failure".to_owned(),
        _ => format!("{failures} failures in a row"),
    }
}

/// Returns the remaining time of a wait.
pub(crate) fn left(now: Time, until: Time) -> Duration {
    until.since(now)
}

/// Formats a span, rounded up to milliseconds, or to seconds from ten seconds on; `None` for an empty span.
fn for_people(span: Duration) -> Option<String> {
    let millis = u64::try_from(span.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    let rounded = match millis {
        0 => return None,
        1..10_000 => Duration::from_millis(millis),
        _ => Duration::from_secs(millis.div_ceil(1000)),
    };
    Some(format_duration(rounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_says_how_long_and_why() {
        let now = Time::ZERO + Duration::from_secs(100);
        let explain = |millis, cause| {
            let until = now + Duration::from_millis(millis);
            Wait { until, cause }.explain(now)
        };
        let no_work = |turned_down| WaitCause::NoWork {
            interval: 1200.0,
            turned_down,
        };
        for (said, expected) in [
            (
                explain(90_000, WaitCause::RequestDelay),
                "90s from now: requested by the scheduler",
            ),
            (
                explain(86_999, WaitCause::RpcFailed { failures: 3 }),
                "87s from now: random exponential backoff after RPCs to all of the scheduler's members have failed (3 failures in a row)",
            ),
            (
                explain(1500, WaitCause::ListFailed { failures: 1 }),
                "1500ms from now: random exponential backoff after the list of the scheduler's members could not be read (1 failure)",
            ),
            (
                explain(60_000, WaitCause::TaskFailed { failures: 2 }),
                "1m from now: random exponential backoff after a task of the scheduler has failed (2 failures in a row)",
            ),
            (
                explain(86_400_000, WaitCause::ListFailedAgain { readings: 3 }),
                "24h from now: 3 consecutive failures to read the list of the scheduler's members",
            ),
            (
                explain(0, WaitCause::Failures { failures: 10 }),
                "now: 10 failures in a row",
            ),
            (
                explain(700_000, no_work(false)),
                "700s from now: asked for work of that type and did not get any (backoff interval 20m)",
            ),
            (
                explain(700_000, no_work(true)),
                "700s from now: the scheduler's tasks would miss their deadlines behind those that are here; with --preempt suspend they need not wait for them (backoff interval 20m)",
            ),
            (
                explain(0, WaitCause::NextContact),
                "now: the scheduler wants to be contacted then at the latest",
            ),
        ] {
            assert_eq!(said, expected);
        }
        let never = Wait {
            until: Time::NEVER,
            cause: WaitCause::RequestDelay,
        };
        assert!(never.explain(now).ends_with("requested by the scheduler"));
    }
}
