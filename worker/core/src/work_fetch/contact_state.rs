//! All that the worker remembers of its talks with one scheduler, and what each of their outcomes does to it.

use std::time::Duration;

use brasserie_common::{ServiceAddress, Time, WallTime};

use super::members::{ListChange, Members};
use super::pair_backoff::{Asked, PairBackoffs, SavedPair, TypeReply};
use super::profile::Profile;
use super::reaction::Reaction;
use super::reason::{RpcReason, Wish};
use super::rpc_policy::{ListReading, RpcPolicy, SavedRpc, Terms};
use super::types::{PerType, ProcessorType, Processors};

/// The wall clock may be corrected by so much while the worker is away, without anybody taking it for a clock that was wrong.
const CLOCK_STEP: Duration = Duration::from_secs(60);

/// Three things that know nothing of each other: when the scheduler may be talked to, what it is worth asking for, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ContactState {
    pub rpc: RpcPolicy,
    pub pairs: PairBackoffs,
    pub members: Members,
}

/// What a scheduler answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub of_type: PerType<TypeReply>,
    /// Seconds before which it wants no other request.
    pub request_delay: f64,
    /// Seconds after which it wants one at the latest; 0: it does not care.
    pub next_contact: f64,
}

/// What a reply is as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    Good,
    /// The scheduler did not look at the request.
    Deferral,
    /// Some of it is still to come: until then the request is under way.
    Pending,
    /// It is about a request whose place another has taken.
    Stale,
}

impl Reply {
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
    /// Of a scheduler that was never talked to.
    pub fn new(processors: &Processors, members: Members) -> Self {
        ContactState {
            rpc: RpcPolicy::new(),
            pairs: PairBackoffs::new(processors),
            members,
        }
    }

    /// An operation begins.
    pub fn begin(&mut self, reason: RpcReason) {
        if reason == RpcReason::Wished(Wish::User) {
            self.pairs.clear_all();
        }
        self.rpc.begin(reason);
    }

    /// A member has answered. One that says that its verdicts will follow has not yet.
    pub fn replied(&mut self, now: Time, asked: &Asked, reply: &Reply, terms: Terms<'_>) {
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

    /// The list of members was read; `None`: it could not be.
    pub fn list_read(&mut self, now: Time, read: Option<Vec<ServiceAddress>>, terms: Terms<'_>) {
        let reading = match read.map(|read| self.members.replace(read)) {
            Some(ListChange::NewMember) => ListReading::NewMember,
            Some(ListChange::Unchanged) => ListReading::Unchanged,
            Some(ListChange::Empty) | None => ListReading::Failed,
        };
        self.rpc.list_read(now, reading, terms);
    }

    /// The operator's "update".
    pub fn update(&mut self, now: Time) {
        self.rpc.update(now);
        self.pairs.clear_all();
    }

    /// The wall clock went back while the worker was away.
    pub fn clock_went_back(&mut self, now: Time) {
        self.rpc.clock_went_back(now);
        self.pairs.clear_all();
    }

    /// The worker's processors are others: what is known of types that stay is kept, by their names.
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

    /// `u`: where among the members to begin, uniform in [0, 1], drawn anew by each process.
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

    /// What of the scheduler waits for what, for people: a line for each.
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

    /// The same of what only passes with time.
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

/// What outlives a restart of the worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedContact {
    pub rpc: SavedRpc,
    pub pairs: Vec<SavedPair>,
    pub members: Vec<ServiceAddress>,
}

impl SavedContact {
    /// The same after the worker was away for so long.
    pub fn after(mut self, away: Duration) -> Self {
        let wait = self.rpc.wait.as_mut().map(|wait| &mut wait.left);
        let rpc = [self.rpc.next_contact.as_mut(), self.rpc.list.as_mut(), wait];
        let pairs = self.pairs.iter_mut().map(|pair| pair.left.as_mut());
        for left in rpc.into_iter().chain(pairs).flatten() {
            *left = left.saturating_sub(away);
        }
        self
    }

    /// The same if nobody can tell how long it was away, as [`ContactState::clock_went_back`] makes it.
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

/// How long a worker was away by the wall clock; `None` if that went back so far that it cannot be told: see
/// [`ContactState::clock_went_back`].
pub fn away(saved_at: WallTime, now: WallTime) -> Option<Duration> {
    let back = now.until(saved_at);
    (back <= CLOCK_STEP).then(|| saved_at.until(now))
}

#[cfg(test)]
mod tests;
