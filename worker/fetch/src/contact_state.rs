//! All that the worker remembers of its contacts with one scheduler, and the effect of each outcome on it.

use std::time::Duration;

use brasserie_common::{ServiceAddress, Time, WallTime};
use serde::{Deserialize, Serialize};

use super::members::{ListChange, Members};
use super::pair_backoff::{PairBackoffs, SavedPair, SentRequest, TypeReply};
use super::profile::Profile;
use super::reaction::Reaction;
use super::reason::{RpcReason, Wish};
use super::rpc_policy::{ListReading, RpcPolicy, SavedRpc, Terms};
use super::types::{PerType, ProcessorType, Processors};

/// While the worker is away, a step back of the wall clock by up to this much counts as a correction, not as a wrong clock.
const CLOCK_STEP: Duration = Duration::from_secs(60);

/// The contact state of one scheduler. Its three parts are independent: when the worker may contact the scheduler, which work is worth
/// asking for, and where the scheduler is.
#[derive(Clone, Debug, PartialEq)]
pub struct ContactState {
    pub rpc: RpcPolicy,
    pub pairs: PairBackoffs,
    pub members: Members,
}

/// A scheduler's answer to a work request.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchReply {
    pub of_type: PerType<TypeReply>,
    /// Seconds for which the scheduler wants no other request.
    pub request_delay: f64,
    /// Seconds after which the scheduler wants the next request at the latest; 0 for no limit.
    pub next_contact: f64,
}

/// The kind of a reply as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    Good,
    /// The scheduler has not searched for work.
    Deferral,
    /// Some verdicts are not known yet. The request stays outstanding until they are.
    Pending,
    /// The reply belongs to a request that a newer one has replaced.
    Stale,
}

impl FetchReply {
    pub fn kind(&self) -> ReplyKind {
        let reactions = || {
            let said = self.of_type.iter();
            said.filter_map(|(_, said)| said.verdict.map(Reaction::to))
        };
        if reactions().any(|reaction| reaction == Reaction::Ignore) {
            ReplyKind::Stale
        } else if reactions().any(|reaction| reaction == Reaction::Await) {
            ReplyKind::Pending
        } else if reactions().next().is_some()
            && reactions().all(|reaction| reaction == Reaction::Obey)
        {
            ReplyKind::Deferral
        } else {
            ReplyKind::Good
        }
    }
}

impl ContactState {
    /// Returns the state for a scheduler that the worker has never contacted.
    pub fn new(processors: &Processors, members: Members) -> Self {
        ContactState {
            rpc: RpcPolicy::new(),
            pairs: PairBackoffs::new(processors),
            members,
        }
    }

    /// Notes that an operation begins.
    pub fn begin(&mut self, reason: RpcReason) {
        if reason == RpcReason::Wished(Wish::User) {
            self.pairs.clear_all();
        }
        self.rpc.begin(reason);
    }

    /// Applies a member's reply. A pending or stale reply changes nothing.
    pub fn replied(
        &mut self,
        now: Time,
        asked: &SentRequest,
        reply: &FetchReply,
        terms: Terms<'_>,
    ) {
        match reply.kind() {
            ReplyKind::Pending | ReplyKind::Stale => {}
            ReplyKind::Deferral => {
                self.rpc.deferred(now, reply.request_delay, terms.profile);
                self.pairs.drop_credit();
            }
            ReplyKind::Good => {
                let Terms { profile, u, .. } = terms;
                self.pairs.replied(now, asked, &reply.of_type, profile, u);
                self.rpc
                    .replied(now, reply.request_delay, reply.next_contact);
            }
        }
    }

    /// Applies the result of reading the member list; `None` if the list could not be read.
    pub fn list_read(&mut self, now: Time, read: Option<Vec<ServiceAddress>>, terms: Terms<'_>) {
        let reading = match read.map(|read| self.members.replace(read)) {
            Some(ListChange::NewMember) => ListReading::NewMember,
            Some(ListChange::Unchanged) => ListReading::Unchanged,
            Some(ListChange::Empty) | None => ListReading::Failed,
        };
        self.rpc.list_read(now, reading, terms);
    }

    /// Ends all waits of the worker's own at the operator's request.
    pub fn update(&mut self, now: Time) {
        self.rpc.update(now);
        self.pairs.clear_all();
    }

    /// Ends all waits, because the wall clock went back while the worker was away.
    pub fn clock_went_back(&mut self, now: Time) {
        self.rpc.clock_went_back(now);
        self.pairs.clear_all();
    }

    /// Adapts to other processors of the worker. What is known of a type stays if the new processors have a type of the same name.
    pub fn set_processors(
        &mut self,
        now: Time,
        (before, after): (&Processors, &Processors),
        profile: &Profile,
    ) {
        let known = self.pairs.save(now, before);
        self.pairs = PairBackoffs::restore(now, after, &known, profile);
    }

    pub fn save(&self, now: Time, processors: &Processors) -> SavedContact {
        SavedContact {
            rpc: self.rpc.save(now),
            pairs: self.pairs.save(now, processors),
            members: self.members.addresses().to_vec(),
        }
    }

    /// Restores a saved state. `u`, uniform in [0, 1] and drawn anew by each process, selects the member that is tried first.
    pub fn restore(
        now: Time,
        processors: &Processors,
        profile: &Profile,
        saved: &SavedContact,
        u: f64,
    ) -> Self {
        ContactState {
            rpc: RpcPolicy::restore(now, &saved.rpc, profile),
            pairs: PairBackoffs::restore(now, processors, &saved.pairs, profile),
            members: Members::new(saved.members.clone(), u),
        }
    }

    /// Describes for the operator what the worker waits for with this scheduler, one line for each wait.
    pub fn explain(&self, now: Time, processors: &Processors) -> Vec<String> {
        let mut lines = self.rpc.explain(now);
        if self.members.is_empty() {
            lines.push("scheduler list: nobody is known, it is read before any RPC".to_owned());
        }
        for of in processors.types() {
            if self.pairs.of(of).has_no_apps() {
                let name = &processors[of].name;
                lines.push(format!("{name}: the scheduler has no jobs that use it"));
            }
            lines.extend(self.backoff(now, processors, of));
        }
        lines
    }

    /// Describes only the waits that end by time alone, like [`explain`](Self::explain).
    pub fn waits(&self, now: Time, processors: &Processors) -> Vec<String> {
        let mut lines = self.rpc.waits(now);
        let of_types = processors.types();
        lines.extend(of_types.filter_map(|of| self.backoff(now, processors, of)));
        lines
    }

    fn backoff(&self, now: Time, processors: &Processors, of: ProcessorType) -> Option<String> {
        let wait = self.pairs.of(of).wait(now)?;
        let name = &processors[of].name;
        Some(format!("{name}: backed off, {}", wait.explain(now)))
    }
}

/// The part of a contact state that survives a restart of the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedContact {
    pub rpc: SavedRpc,
    pub pairs: Vec<SavedPair>,
    pub members: Vec<ServiceAddress>,
}

impl SavedContact {
    /// Returns the state after the worker was away for this time.
    pub fn after(mut self, away: Duration) -> Self {
        let wait = self.rpc.wait.as_mut().map(|wait| &mut wait.left);
        let rpc = [self.rpc.next_contact.as_mut(), self.rpc.list.as_mut(), wait];
        let pairs = self.pairs.iter_mut().map(|pair| pair.left.as_mut());
        for left in rpc.into_iter().chain(pairs).flatten() {
            *left = left.saturating_sub(away);
        }
        self
    }

    /// Returns the state for an absence of unknown length, with the same effect as [`ContactState::clock_went_back`].
    pub fn after_clock_went_back(mut self) -> Self {
        self.rpc.wait = None;
        self.rpc.list = self.rpc.list.map(|_| Duration::ZERO);
        self.rpc.next_contact = Some(Duration::ZERO);
        for pair in &mut self.pairs {
            (pair.interval, pair.left) = (0.0, None);
        }
        self
    }
}

/// Returns how long a worker was away by the wall clock. `None` if the clock went back by more than `CLOCK_STEP`, so that the time is
/// unknown: see [`ContactState::clock_went_back`].
pub fn away(saved_at: WallTime, now: WallTime) -> Option<Duration> {
    let back = now.until(saved_at);
    (back <= CLOCK_STEP).then(|| saved_at.until(now))
}

#[cfg(test)]
mod tests;
