//! Decides which scheduler the worker contacts next, and why: at most one at a time.
//!
//! Only work requests and held-back reports pass through the driver. Heartbeats, healthchecks, statuses that leave at once and answers to
//! calls do not, so a worker in the longest backoff stays healthy.

use std::fmt;

use brasserie_common::Time;

use super::backoff::span;
use super::contact_state::ContactState;
use super::profile::Profile;
use super::reason::{RpcReason, Wish};
use super::report::{Circumstances, Overdue, Reporting, Unreported};
use super::types::AssociationIndex;

/// An event after which work may be needed or available. It makes the driver check for reports and work now instead of at the next periodic
/// check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckEvent {
    Start,
    /// The running tasks were chosen, and processors are idle.
    IdleProcessors,
    TaskEnded,
    /// No task followed a completion although one should have.
    NothingCame,
    /// A scheduler that had too many unacknowledged completions has acknowledged one.
    EndAcknowledged,
    /// A contact with a scheduler is over, whatever its outcome. The next scheduler may have work.
    ContactOver,
    ListRead,
    BackoffOver,
    User,
    ProcessorsChanged,
    Reconnected,
}

/// Writes the event as the answer to "Why did the driver check?".
impl fmt::Display for CheckEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CheckEvent::Start => "the worker has started",
            CheckEvent::IdleProcessors => "processors are idle",
            CheckEvent::TaskEnded => "a task has ended",
            CheckEvent::NothingCame => "no task has followed the last",
            CheckEvent::EndAcknowledged => "an end was acknowledged",
            CheckEvent::ContactOver => "RPC complete",
            CheckEvent::ListRead => "the scheduler list was read",
            CheckEvent::BackoffOver => "a backoff is over",
            CheckEvent::User => "the user wants it",
            CheckEvent::ProcessorsChanged => "the number of usable processors has changed",
            CheckEvent::Reconnected => "a scheduler is back",
        })
    }
}

/// Whether the worker may compute now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computing {
    Allowed,
    /// The worker fetches no work but still reports completions.
    Suspended,
}

/// A scheduler in one round of the driver.
#[derive(Debug)]
pub struct Candidate<'a> {
    pub state: &'a mut ContactState,
    /// The operator has suspended the scheduler.
    pub is_suspended: bool,
    /// The scheduler does not count this worker as one of its healthy workers, so there is no association to use.
    pub is_absent: bool,
    /// The worker wants no more work from this scheduler.
    pub wants_no_more_work: bool,
    /// The worker has tasks of the scheduler, or completions that it has not acknowledged.
    pub has_tasks: bool,
}

/// The inputs of a round besides the schedulers.
#[derive(Clone, Copy, Debug)]
pub struct RoundInputs<'a> {
    pub now: Time,
    pub profile: &'a Profile,
    pub computing: Computing,
    /// The unreported completions of all schedulers, in the order in which they ended.
    pub unreported: &'a [Unreported],
}

/// The driver's answer to a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is due before `until`, unless something happens.
    Nothing {
        until: Time,
    },
    ReadList {
        association: AssociationIndex,
        why: ListReason,
    },
    Contact(Contact),
}

/// The reason for reading a member list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReason {
    /// The limit of consecutive failures is reached.
    Failures,
    /// The worker must contact the scheduler for this reason and knows none of its members.
    NobodyKnown(RpcReason),
}

/// Writes the reason as the answer to "Why is the list read?".
impl fmt::Display for ListReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListReason::Failures => f.write_str("too many failures in a row"),
            ListReason::NobodyKnown(reason) => write!(f, "nobody is known to contact, {reason}"),
        }
    }
}

/// A contact with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    pub association: AssociationIndex,
    pub reason: RpcReason,
    pub work: RequestedWork,
    /// The rule that made completions due, if they are the reason for the contact.
    pub overdue: Option<Overdue>,
}

/// The work that a contact asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedWork {
    /// Work of the types for which this scheduler is the best source, because it is contacted anyway.
    Piggyback,
    /// The work that the survey chose.
    Chosen,
}

/// The state machine that starts contacts. It works in rounds, `driver_period` apart. A round does the first of these that applies:
///
/// 1. If an operation is in progress: nothing.
/// 2. If a member list is due: read it.
/// 3. If a scheduler has a wish: contact it.
/// 4. If a check is requested, or `fetch_period` has passed since the last one: report overdue completions, else fetch needed work.
///
/// ```text
///   idle --next() finds something--> in progress --over()--> idle, a check is requested
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ContactDriver {
    in_progress: Option<AssociationIndex>,
    last_round: Option<Time>,
    last_check: Option<Time>,
    requested: Option<CheckEvent>,
}

impl ContactDriver {
    pub fn new() -> Self {
        ContactDriver {
            in_progress: None,
            last_round: None,
            last_check: None,
            requested: Some(CheckEvent::Start),
        }
    }

    /// Returns the scheduler of the operation in progress.
    pub fn in_progress(&self) -> Option<AssociationIndex> {
        self.in_progress
    }

    /// Returns the first event that requested the next check.
    #[cfg(test)]
    pub fn requested(&self) -> Option<CheckEvent> {
        self.requested
    }

    pub fn request_check(&mut self, event: CheckEvent) {
        self.requested.get_or_insert(event);
    }

    /// Ends the operation in progress. The caller has applied its outcome to the scheduler's contact state.
    pub fn over(&mut self, event: CheckEvent) {
        self.in_progress = None;
        self.request_check(event);
    }

    /// Runs a round and returns its decision; a list or contact in the decision is then in progress. Calls `choose` only if work may be
    /// fetched. `choose` may return a scheduler that must not be contacted yet, but then the round does nothing.
    pub fn next(
        &mut self,
        round: &RoundInputs<'_>,
        of: &mut [Candidate<'_>],
        choose: impl FnOnce(&[Candidate<'_>]) -> Option<AssociationIndex>,
    ) -> Decision {
        if self.in_progress.is_some() {
            return Decision::Nothing { until: Time::NEVER };
        }
        let due = self.due(round, of);
        let now = round.now;
        if due > now {
            return Decision::Nothing { until: due };
        }
        self.last_round = Some(now);
        for candidate in of.iter_mut() {
            if candidate.state.rpc.notice_end(now) {
                self.request_check(CheckEvent::BackoffOver);
            }
            candidate.heed_scheduler(now);
        }
        let decision = self.decide(round, of, choose);
        decision.unwrap_or_else(|| Decision::Nothing {
            until: self.due(round, of),
        })
    }

    /// Returns the time of the next round: no earlier than its period allows, and no earlier than it could find something to do.
    fn due(&self, round: &RoundInputs<'_>, of: &[Candidate<'_>]) -> Time {
        self.opens(round.profile).max(self.wakes(round, of))
    }

    /// Returns the earliest time of the next round by its period.
    pub(super) fn opens(&self, profile: &Profile) -> Time {
        let after = |last| last + span(profile.driver_period);
        self.last_round.map_or(Time::ZERO, after)
    }

    fn decide(
        &mut self,
        round: &RoundInputs<'_>,
        of: &mut [Candidate<'_>],
        choose: impl FnOnce(&[Candidate<'_>]) -> Option<AssociationIndex>,
    ) -> Option<Decision> {
        let now = round.now;
        if let Some(place) = of
            .iter()
            .position(|of| of.list_at().is_some_and(|at| at <= now))
        {
            return Some(self.read_list(place, ListReason::Failures));
        }
        let asks = |of: &Candidate<'_>| of.asks_at().filter(|&(at, _)| at <= now);
        let mut asking = of.iter().enumerate();
        let first = asking.find_map(|(place, of)| Some((place, asks(of)?.1)));
        if let Some((place, reason)) = first {
            return self.contact(of, place, reason, RequestedWork::Piggyback, None);
        }
        if !self.is_check_due(round) {
            return None;
        }
        self.requested = None;
        self.last_check = Some(now);
        let circumstances: Vec<Circumstances> = of.iter().map(Candidate::circumstances).collect();
        if let Some(overdue) = round.reporting(&circumstances).overdue(now) {
            let place = overdue.association.0;
            let reason = RpcReason::ResultsDue;
            return self.contact(of, place, reason, RequestedWork::Piggyback, Some(overdue));
        }
        match round.computing {
            Computing::Allowed => {
                let place = choose(of)?.0;
                if !of.get(place)?.may_be_asked(now) {
                    return None;
                }
                self.contact(of, place, RpcReason::NeedWork, RequestedWork::Chosen, None)
            }
            Computing::Suspended => None,
        }
    }

    fn is_check_due(&self, round: &RoundInputs<'_>) -> bool {
        self.requested.is_some() || self.next_check(round.profile) <= round.now
    }

    fn next_check(&self, profile: &Profile) -> Time {
        let after = |last| last + span(profile.fetch_period);
        self.last_check.map_or(Time::ZERO, after)
    }

    fn read_list(&mut self, place: usize, why: ListReason) -> Decision {
        let association = AssociationIndex(place);
        self.in_progress = Some(association);
        Decision::ReadList { association, why }
    }

    fn contact(
        &mut self,
        of: &mut [Candidate<'_>],
        place: usize,
        reason: RpcReason,
        work: RequestedWork,
        overdue: Option<Overdue>,
    ) -> Option<Decision> {
        let state = &mut *of.get_mut(place)?.state;
        state.begin(reason);
        if state.members.is_empty() {
            return Some(self.read_list(place, ListReason::NobodyKnown(reason)));
        }
        let association = AssociationIndex(place);
        self.in_progress = Some(association);
        Some(Decision::Contact(Contact {
            association,
            reason,
            work,
            overdue,
        }))
    }

    /// Returns the earliest time at which a round could find something to do, if no event comes first. The time may have passed.
    fn wakes(&self, round: &RoundInputs<'_>, of: &[Candidate<'_>]) -> Time {
        let check = match (self.requested, round.computing) {
            (Some(_), _) => Some(Time::ZERO),
            (None, Computing::Allowed) => Some(self.next_check(round.profile)),
            // A suspended worker only reports.
            (None, Computing::Suspended) => {
                let circumstances: Vec<Circumstances> =
                    of.iter().map(Candidate::circumstances).collect();
                let due = round.reporting(&circumstances).next_due(round.now);
                due.map(|due| due.max(self.next_check(round.profile)))
            }
        };
        let single = of.iter().flat_map(|of| {
            let asks = of.asks_at().map(|(at, _)| at);
            [
                of.list_at(),
                asks,
                of.scheduler_asks_at(),
                of.backoff_ends(),
            ]
        });
        single.flatten().chain(check).min().unwrap_or(Time::NEVER)
    }
}

impl Default for ContactDriver {
    fn default() -> Self {
        ContactDriver::new()
    }
}

impl<'a> RoundInputs<'a> {
    fn reporting(&self, circumstances: &'a [Circumstances]) -> Reporting<'a> {
        Reporting {
            profile: self.profile,
            circumstances,
            unreported: self.unreported,
        }
    }
}

impl Candidate<'_> {
    fn circumstances(&self) -> Circumstances {
        Circumstances {
            min_rpc_time: self.state.rpc.min_rpc_time(),
            is_suspended: self.is_suspended || self.is_absent,
            wants_no_more_work: self.wants_no_more_work,
        }
    }

    /// Returns the time at which the member list is due.
    fn list_at(&self) -> Option<Time> {
        let at = self.state.rpc.list_due()?;
        (!self.is_suspended).then_some(at)
    }

    /// Returns the time and reason of a contact for the scheduler's wish, if it has one.
    fn asks_at(&self) -> Option<(Time, RpcReason)> {
        if self.is_absent {
            return None;
        }
        let wish = self.state.rpc.wish();
        let wish = wish.filter(|wish| !(wish.heeds_suspension() && self.is_suspended));
        let at = |heeds| match heeds {
            true => self.state.rpc.min_rpc_time(),
            false => self.state.rpc.delayed_until(),
        };
        wish.map(|wish| (at(wish.heeds_backoff()), RpcReason::Wished(wish)))
    }

    /// Returns the time of the contact that the scheduler itself asked for. The worker skips this contact if it wants no more work from the
    /// scheduler and has none of its tasks, because it would have nothing to say.
    fn scheduler_asks_at(&self) -> Option<Time> {
        let at = self.state.rpc.next_rpc_time()?;
        let is_moot = self.wants_no_more_work && !self.has_tasks;
        let is_up = self.state.rpc.wish() >= Some(Wish::Scheduler);
        let heard = !(is_moot || is_up || self.is_suspended || self.is_absent);
        heard.then_some(at)
    }

    fn heed_scheduler(&mut self, now: Time) {
        if self.scheduler_asks_at().is_some_and(|at| at <= now) {
            self.state.rpc.ask(Wish::Scheduler);
        }
    }

    fn backoff_ends(&self) -> Option<Time> {
        let rpc = &self.state.rpc;
        rpc.awaits_end().then(|| rpc.min_rpc_time())
    }

    /// Returns whether the worker may ask the scheduler for work now.
    fn may_be_asked(&self, now: Time) -> bool {
        !(self.is_suspended || self.is_absent || self.state.rpc.is_backed_off(now))
    }
}

#[cfg(test)]
mod storm_tests;
#[cfg(test)]
mod tests;
