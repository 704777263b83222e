//! Decides when held-back completions must be reported.
//!
//! Completions that leave at once use the worker's ordinary reports and wait for nothing here. Held-back completions go in sessions: one
//! session takes all that wait for the same scheduler, and may also ask it for work.

use std::fmt;
use std::time::Duration;

use brasserie_common::{ReportPolicy, Time};

use super::backoff::span;
use super::profile::Profile;
use super::types::{AssociationIndex, TaskNumber};

/// A completion waits for others at most for the time to its deadline divided by this number. With a fixed cushion of a day, every
/// completion with a shorter deadline would be reported alone.
const LEFT_TO_WAIT: f64 = 2.0;

/// The content of a report about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportContent {
    /// The task has ended.
    End,
    /// The task was never at the worker. The scheduler asked, and keeps the task until it receives the answer.
    NotRunning,
}

/// A completion that no scheduler has acknowledged, and that may be reported now. A refused one is listed again when it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unreported {
    pub association: AssociationIndex,
    pub task: TaskNumber,
    pub told: ReportContent,
    /// The job's own policy, if it has one.
    pub policy: Option<ReportPolicy>,
    /// The time since which it could have been reported.
    pub ended: Time,
    pub deadline: Option<Time>,
}

impl Unreported {
    /// Returns whether it is reported by itself, whatever is backed off.
    pub fn leaves_at_once(&self, profile: &Profile) -> bool {
        match (self.told, self.policy.unwrap_or(profile.report)) {
            (ReportContent::NotRunning, _) | (ReportContent::End, ReportPolicy::Immediate) => true,
            (ReportContent::End, ReportPolicy::Lazy) => false,
        }
    }
}

/// The state of a scheduler on which its reports depend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// `min_rpc_time`; [`Time::ZERO`] for no wait.
    pub min_rpc_time: Time,
    /// The operator has suspended the scheduler.
    pub is_suspended: bool,
    /// The worker wants no more work from this scheduler.
    pub wants_no_more_work: bool,
}

/// The rule that makes a report due. Rules are checked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportReason {
    NoMoreWork,
    /// Another completion leaves at once, and the waiting ones go with it.
    Immediate,
    Deadline,
    Delay,
    Count,
}

/// Writes the rule as the answer to "Why is it reported now?".
impl fmt::Display for ReportReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReportReason::NoMoreWork => "the scheduler gets no more work here",
            ReportReason::Immediate => "another end is reported immediately",
            ReportReason::Deadline => "a deadline is near",
            ReportReason::Delay => "an end has waited for as long as it may",
            ReportReason::Count => "as many ends wait as go together",
        })
    }
}

/// A scheduler whose completions are due, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub association: AssociationIndex,
    pub reason: ReportReason,
    /// The task whose completion met the rule.
    pub task: TaskNumber,
}

/// The inputs of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Reporting<'a> {
    pub profile: &'a Profile,
    /// The circumstances by association.
    pub circumstances: &'a [Circumstances],
    /// The unreported completions, in the order in which they ended.
    pub unreported: &'a [Unreported],
}

impl Reporting<'_> {
    /// Returns the first scheduler whose completions must be reported now.
    pub fn overdue(&self, now: Time) -> Option<Overdue> {
        self.waiting().find_map(|waiting| {
            let rules = waiting.rules.into_iter();
            let mut due = rules.filter(|&(at, _)| at.max(waiting.open) <= now);
            due.next().map(|(_, reason)| Overdue {
                association: waiting.end.association,
                reason,
                task: waiting.end.task,
            })
        })
    }

    /// Returns the next time at which a report is due, if no event comes first.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let times = self.waiting().flat_map(|waiting| {
            let rules = waiting.rules.into_iter();
            rules.map(move |(at, _)| at.max(waiting.open).max(now))
        });
        times.min().filter(|&at| at < Time::NEVER)
    }

    fn waiting(&self) -> impl Iterator<Item = WaitingCompletion<'_>> {
        let mut holds_any = vec![false; self.circumstances.len()];
        for end in self.unreported {
            if let Some(holds) = holds_any.get_mut(end.association.0) {
                *holds |= !end.leaves_at_once(self.profile);
            }
        }
        let mut counts = vec![0_usize; holds_any.len()];
        let unreported = self.unreported.iter();
        unreported.filter_map(move |end| {
            let place = end.association.0;
            let of = self.circumstances.get(place)?;
            if of.is_suspended || !*holds_any.get(place)? {
                return None;
            }
            let count = counts.get_mut(place)?;
            *count += 1;
            Some(WaitingCompletion {
                end,
                open: of.min_rpc_time,
                rules: self.rules(end, of, *count),
            })
        })
    }

    /// Returns the time from which each rule holds, in the order of the rules.
    fn rules(
        &self,
        end: &Unreported,
        of: &Circumstances,
        count: usize,
    ) -> [(Time, ReportReason); 5] {
        let profile = self.profile;
        let when = |holds: bool| if holds { Time::ZERO } else { Time::NEVER };
        // A completion may wait until exactly the limit.
        let just_after = |at: Time| at + Duration::from_nanos(1);
        let before = |deadline: Time| {
            let left = deadline.since(end.ended).as_secs_f64();
            let part = (left / LEFT_TO_WAIT).max(profile.report_delay);
            let cushion = span(part.min(profile.report_cushion).max(profile.low_water()));
            match deadline.since(Time::ZERO) < cushion {
                true => Time::ZERO,
                false => just_after(deadline - cushion),
            }
        };
        [
            (when(of.wants_no_more_work), ReportReason::NoMoreWork),
            (when(end.leaves_at_once(profile)), ReportReason::Immediate),
            (
                end.deadline.map_or(Time::NEVER, before),
                ReportReason::Deadline,
            ),
            (
                just_after(end.ended + span(profile.report_delay)),
                ReportReason::Delay,
            ),
            (when(count >= profile.report_at_once), ReportReason::Count),
        ]
    }
}

/// A completion for a scheduler that may be contacted from `open` on.
struct WaitingCompletion<'a> {
    end: &'a Unreported,
    open: Time,
    rules: [(Time, ReportReason); 5],
}

#[cfg(test)]
mod tests;
