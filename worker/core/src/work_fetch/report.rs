//! When ends of tasks that are held back must be reported.
//!
//! What leaves at once leaves by the worker's ordinary reports, and waits for nothing here. Only where ends are held back to go together
//! are there sessions: one takes all that wait for the same scheduler, and may ask it for work by the way.

use std::fmt;
use std::time::Duration;

use brasserie_common::{ReportPolicy, Time};

use super::backoff::span;
use super::profile::Profile;
use super::types::{AssociationIndex, TaskNumber};

/// A completion waits for others at most for the time to its deadline divided by this number. With a fixed cushion of a day, every completion
/// with a shorter deadline would be reported alone.
const LEFT_TO_WAIT: f64 = 2.0;

/// What is to be told of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has ended.
    End,
    /// It was never here. The scheduler asked, and holds the task until it hears.
    NotRunning,
}

/// An end that no scheduler has acknowledged, and that may be told now: one that was refused is listed again when it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unreported {
    pub association: AssociationIndex,
    pub task: TaskNumber,
    pub told: Told,
    /// What the job says, if it does.
    pub policy: Option<ReportPolicy>,
    /// Since when it could have been told.
    pub ended: Time,
    pub deadline: Option<Time>,
}

impl Unreported {
    /// Whether it goes by itself, whatever is backed off.
    pub fn leaves_at_once(&self, profile: &Profile) -> bool {
        match (self.told, self.policy.unwrap_or(profile.report)) {
            (Told::NotRunning, _) | (Told::End, ReportPolicy::Immediate) => true,
            (Told::End, ReportPolicy::Lazy) => false,
        }
    }
}

/// What a scheduler's reports depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// `min_rpc_time`; [`Time::ZERO`]: at once.
    pub min_rpc_time: Time,
    /// The operator does not let it have its way.
    pub is_suspended: bool,
    /// It gets nothing more to do here.
    pub wants_no_more_work: bool,
}

/// Which rule makes a report due. They are looked at in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportReason {
    NoMoreWork,
    /// Another leaves at once: those that wait go with it.
    Immediate,
    Deadline,
    Delay,
    Count,
}

/// As the answer to "why is it reported now?".
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

/// Whose ends are due, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub association: AssociationIndex,
    pub reason: ReportReason,
    /// Whose end the rule was about.
    pub task: TaskNumber,
}

/// All that the policy looks at.
#[derive(Clone, Copy, Debug)]
pub struct Reporting<'a> {
    pub profile: &'a Profile,
    /// By association.
    pub circumstances: &'a [Circumstances],
    /// In the order in which they ended.
    pub unreported: &'a [Unreported],
}

impl Reporting<'_> {
    /// Whose ends must be reported now: the first that a rule says so of.
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

    /// When somebody's ends must be, if nothing happens until then: nobody has to look before.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let times = self.waiting().flat_map(|waiting| {
            let rules = waiting.rules.into_iter();
            rules.map(move |(at, _)| at.max(waiting.open).max(now))
        });
        times.min().filter(|&at| at < Time::NEVER)
    }

    fn waiting(&self) -> impl Iterator<Item = Waiting<'_>> {
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
            Some(Waiting {
                end,
                open: of.min_rpc_time,
                rules: self.rules(end, of, *count),
            })
        })
    }

    /// From when each rule says so, in their order.
    fn rules(
        &self,
        end: &Unreported,
        of: &Circumstances,
        count: usize,
    ) -> [(Time, ReportReason); 5] {
        let profile = self.profile;
        let when = |holds: bool| if holds { Time::ZERO } else { Time::NEVER };
        // The limits themselves are still good.
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

/// An end of a scheduler that may be talked to from `open` on.
struct Waiting<'a> {
    end: &'a Unreported,
    open: Time,
    rules: [(Time, ReportReason); 5],
}

#[cfg(test)]
mod tests;
