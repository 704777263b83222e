//! Which scheduler is talked to next, and what for: at most one at a time.
//!
//! Only talk of work goes through here, and reports that are held back. Heartbeats, healthchecks, statuses that leave at once and answers to
//! calls are gated by none of it: a worker in the longest backoff is as healthy as any.

use std::fmt;

use brasserie_common::Time;

use super::backoff::span;
use super::contact_state::ContactState;
use super::profile::Profile;
use super::reason::{RpcReason, Wish};
use super::report::{Circumstances, Overdue, Reporting, Unreported};
use super::types::AssociationIndex;

/// Something after which work may be wanted, or to be had: whether to report and to fetch is looked at now, and not when it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckEvent {
    Start,
    /// What runs was chosen, and processors have nothing to do.
    IdleProcessors,
    TaskEnded,
    /// What should have come by itself as a task ended did not.
    NothingCame,
    /// A scheduler has acknowledged one of too many ends.
    EndAcknowledged,
    /// A scheduler was talked to, with whatever outcome: the next one may have what it had not.
    ContactOver,
    ListRead,
    BackoffOver,
    User,
    ProcessorsChanged,
    Reconnected,
}

/// As the answer to "why was it looked?".
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

/// Whether the worker computes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computing {
    Allowed,
    /// No work is fetched; what has ended is reported.
    Suspended,
}

/// A scheduler, as a round sees it.
#[derive(Debug)]
pub struct Candidate<'a> {
    pub state: &'a mut ContactState,
    /// The operator does not let it have its way.
    pub is_suspended: bool,
    /// It does not take this worker for a healthy one of its own: there is nobody to talk to.
    pub is_absent: bool,
    /// It gets nothing more to do here.
    pub wants_no_more_work: bool,
    /// Tasks of it are here, or ends that it has not acknowledged.
    pub has_tasks: bool,
}

/// All that a round looks at beside the schedulers.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    pub now: Time,
    pub profile: &'a Profile,
    pub computing: Computing,
    /// Of all schedulers, in the order in which they ended.
    pub unreported: &'a [Unreported],
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing before that, unless something happens.
    Nothing {
        until: Time,
    },
    ReadList {
        association: AssociationIndex,
        why: ListReason,
    },
    Contact(Contact),
}

/// Why a list of members is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReason {
    /// Too much has failed.
    Failures,
    /// The scheduler is to be talked to for this, and nobody knows where it is.
    NobodyKnown(RpcReason),
}

/// As the answer to "why is it read?".
impl fmt::Display for ListReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListReason::Failures => f.write_str("too many failures in a row"),
            ListReason::NobodyKnown(reason) => write!(f, "nobody is known to contact, {reason}"),
        }
    }
}

/// A talk with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    pub association: AssociationIndex,
    pub reason: RpcReason,
    pub work: Work,
    /// The rule that made ends due, if they are why.
    pub overdue: Option<Overdue>,
}

/// Which work is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// What the scheduler is the best source of, as it is talked to anyway.
    Piggyback,
    /// What was chosen.
    Chosen,
}

/// Decides in rounds, a period apart. A round takes the first that applies:
///
/// 1. an operation is in progress: nothing;
/// 2. a list of members is to be read;
/// 3. a scheduler is to be talked to for somebody's wish;
/// 4. where it was asked for, or long ago that it was looked at: ends are overdue; work is needed.
///
/// ```text
///   idle --next() finds something--> in progress --over()--> idle, a check is requested
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Driver {
    in_progress: Option<AssociationIndex>,
    last_round: Option<Time>,
    last_check: Option<Time>,
    requested: Option<CheckEvent>,
}

impl Driver {
    pub fn new() -> Self {
        Driver {
            in_progress: None,
            last_round: None,
            last_check: None,
            requested: Some(CheckEvent::Start),
        }
    }

    /// With whom an operation is in progress.
    pub fn in_progress(&self) -> Option<AssociationIndex> {
        self.in_progress
    }

    /// The event that asked first for the check to come.
    #[cfg(test)]
    pub fn requested(&self) -> Option<CheckEvent> {
        self.requested
    }

    pub fn request_check(&mut self, event: CheckEvent) {
        self.requested.get_or_insert(event);
    }

    /// The operation is over; the scheduler's own state has been told of the outcome.
    pub fn over(&mut self, event: CheckEvent) {
        self.in_progress = None;
        self.request_check(event);
    }

    /// What to do now; an operation is then in progress. `choose` is asked only if work may be fetched: it need not heed when the scheduler
    /// may be talked to, but does better if it does.
    pub fn next(
        &mut self,
        round: &Round<'_>,
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

    /// When the next round is: not before its time, and not before it could find something.
    fn due(&self, round: &Round<'_>, of: &[Candidate<'_>]) -> Time {
        self.opens(round.profile).max(self.wakes(round, of))
    }

    /// When the next round may be at the earliest.
    pub(super) fn opens(&self, profile: &Profile) -> Time {
        let after = |last| last + span(profile.driver_period);
        self.last_round.map_or(Time::ZERO, after)
    }

    fn decide(
        &mut self,
        round: &Round<'_>,
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
            return self.contact(of, place, reason, Work::Piggyback, None);
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
            return self.contact(of, place, reason, Work::Piggyback, Some(overdue));
        }
        match round.computing {
            Computing::Allowed => {
                let place = choose(of)?.0;
                if !of.get(place)?.may_be_asked(now) {
                    return None;
                }
                self.contact(of, place, RpcReason::NeedWork, Work::Chosen, None)
            }
            Computing::Suspended => None,
        }
    }

    fn is_check_due(&self, round: &Round<'_>) -> bool {
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
        work: Work,
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

    /// When a round could find something, if nothing happens until then; it may have passed.
    fn wakes(&self, round: &Round<'_>, of: &[Candidate<'_>]) -> Time {
        let check = match (self.requested, round.computing) {
            (Some(_), _) => Some(Time::ZERO),
            (None, Computing::Allowed) => Some(self.next_check(round.profile)),
            // Only what is to be reported counts.
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

impl Default for Driver {
    fn default() -> Self {
        Driver::new()
    }
}

impl<'a> Round<'a> {
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

    /// When its list of members is to be read.
    fn list_at(&self) -> Option<Time> {
        let at = self.state.rpc.list_due()?;
        (!self.is_suspended).then_some(at)
    }

    /// When it is to be talked to for a wish, and why.
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

    /// When the scheduler's own wish to be talked to comes up. One that gets no work and has none here would have nothing to talk of.
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

    /// Whether work may be asked for now.
    fn may_be_asked(&self, now: Time) -> bool {
        !(self.is_suspended || self.is_absent || self.state.rpc.is_backed_off(now))
    }
}

#[cfg(test)]
mod storm_tests;
#[cfg(test)]
mod tests;
