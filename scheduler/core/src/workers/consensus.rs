//! Worker-set consensus: which set ids the live workers hold at least, and who may therefore become HEALTHY for the first time.
//!
//! # What it is for
//!
//! A scheduler without a trusted record may leave its initial wait when its live workers all came with one identical, settled
//! id and are exactly that set (*consensus*). That must never happen while somebody who may run tasks is missing. So a worker
//! *w* gets tasks only when no set id without *w* can form consensus any more: an id is *viable* while every member of its set
//! is alive and holds exactly that id.
//!
//! # Why it is safe
//!
//! What a worker holds only moves on: to later versions of one scheduler, to later schedulers. Members join a set once and
//! leave it once, by dying: a lost instance has ended by its own timers, a replaced one is dead.
//!
//! 1. Every viable id of ours has a living member *x*, so its version is at least *x*'s joining version, thus at least that of
//!    the earliest living member. That is where the *floor* begins: no id of ours below it is viable.
//! 2. Let *z* have joined at or below the floor and have echoed version *e*. A viable version *v* is at or above the floor. If
//!    *z* is in its set, *z* holds *v*, so *v* is at least *e*. If not, *z* has left before *v*, and *e* is before that. Either
//!    way the floor may be raised to *e*; and this holds too for a *z* that has left (a relay). The floor never falls, as later
//!    members join above it.
//! 3. Unsettled ids are never viable. While no settled id is at or above the floor, the floor is the current version.
//! 4. Ids of earlier schedulers: one that is viable has its holders among those who came here with a settled id and have not
//!    echoed ours (*foreigners*), for whoever else held one when this scheduler left its initial wait was dead, or this would
//!    have been no good reason to leave it (safe wait, trusted record), or its set had died out before the set by which it left
//!    was given (consensus). Therefore a foreigner withholds everybody who is not permitted yet, and whoever was permitted during
//!    the wait is permitted anew at its end.
//!
//! So *w* is **permitted** when it has echoed an id of ours, no foreigner is left, and the floor is not below *w*'s joining
//! version: then every viable id of ours contains *w* until *w* has left. It stays permitted: new ids contain it. The record of
//! *w* being durable is judged by whoever asks.
//!
//! Where the original asks that *w* has echoed the current set and that every live worker has echoed something, a newcomer
//! now and then keeps everybody from becoming HEALTHY. Neither is needed: the version that *w* echoed does not matter, and a
//! worker that came with no id at all holds nothing that is viable until it holds an id of ours from its joining on.
//!
//! Assumed: a heartbeat reaches only the instance it was sent to (a connection ends with its process), and what the scheduler
//! holds for lost does not come back (the timers of `common/src/health`). `--allow-bump-unhealthy-worker` and the operator's
//! overrides of the initial wait weaken the latter.
//!
//! # What it costs
//!
//! Each worker is passed by the floor once, so an event costs O(log workers) on average over all events; nothing is done per
//! heartbeat that echoes a known version.

mod shape;
mod withheld;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{SchedulerId, Standing, WorkerId, WorkerSetHash, WorkerSetId};

pub(crate) use withheld::WithheldBy;

/// Steps that are remembered although the floor has passed them, so that late or wrong echoes are recognised.
const MIN_STEPS: usize = 1024;
/// Steps that are remembered at all: each of the workers of a full pool may come, go and come again while one of them is
/// silent. An older one is no longer compared with what a worker echoes.
const MAX_STEPS: usize = 65_536;
/// Workers beyond the floor, relays included: as many. A relay that finds no room is forgotten, which is safe and may cost time.
const MAX_BEYOND: usize = 65_536;
/// Workers that are looked at in one search for some to spread the news to.
const MAX_CANDIDATES: usize = 64;

/// How often the set has changed: versions without the wrap-around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Serial(u64);

impl Serial {
    fn next(self) -> Self {
        // Invariant: 2^64 changes take longer than any machine lives.
        Serial(self.0.checked_add(1).expect("fewer than 2^64 changes"))
    }
}

/// A living member of the set.
#[derive(Clone, Debug)]
struct Member {
    /// The first set with it.
    first: Serial,
    /// The latest set that it has sent back.
    echoed: Option<Serial>,
    initial: WorkerSetId,
    permit: Permit,
}

/// ```text
///   Withheld --echoed, no foreigner, floor reached--> Granted
///      ^                                                 |
///      +------- the initial wait ends with foreigners ---+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permit {
    /// Some viable set may lack it.
    Withheld,
    /// Every viable set has it.
    Granted,
}

/// What an echo was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Later than what was known.
    News,
    /// Known, late, or what the worker held before.
    Known,
    /// Nothing that it was ever given: not counted.
    Wrong(WrongEcho),
}

/// Why an echo does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongEcho {
    /// A version after the current one, or from before the worker was in the set.
    NeverGiven,
    /// That version had other members, or another standing.
    OtherContent,
    /// Of another scheduler, though it came with another id.
    Foreign,
}

/// How far the workers of a former set are back, for consensus on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormerSet {
    /// Nobody is here.
    NoWorkers,
    /// So many workers know of no former set, so they are not of one.
    Strangers(usize),
    /// So many hold ids of schedulers that were in their own initial wait, or that do not say.
    NotSettled(usize),
    /// They hold this many different ids.
    Differing(usize),
    /// All hold the same id, and so many are missing.
    Incomplete { here: usize, of: usize },
    /// As many as the id says, but not the same ones.
    OtherMembers,
    /// All hold the same settled id, and are exactly that set.
    Complete(usize),
}

/// See the top of this file.
#[derive(Clone, Debug)]
pub(crate) struct Consensus {
    current: WorkerSetId,
    serial: Serial,
    /// The version of the first serial number.
    base: i64,
    members: BTreeMap<WorkerId, Member>,
    /// Members in the order of joining.
    by_first: BTreeMap<Serial, WorkerId>,
    /// How many members came with which id.
    initial: BTreeMap<(SchedulerId, i64, Standing, WorkerSetHash), usize>,
    /// How many of these ids count for nothing, though they are not empty.
    unsettled: usize,
    /// Members that may hold a settled id of an earlier scheduler.
    foreigners: BTreeSet<WorkerId>,
    /// No id of ours below it is viable.
    floor: Serial,
    /// The latest id that was given out as settled.
    last_settled: Option<Serial>,
    /// Members and relays that joined above the floor, with the version that they hold at least.
    beyond: BTreeMap<Serial, Serial>,
    /// Members that have echoed and are not permitted.
    ready: BTreeSet<(Serial, WorkerId)>,
    /// Permitted since this was last taken.
    granted: Vec<WorkerId>,
    /// The latest steps; the last one is the current one.
    steps: VecDeque<(WorkerSetHash, Standing)>,
    /// Where the next search for somebody to spread the news goes on.
    cursor: Serial,
}

impl Consensus {
    /// Without workers, in its initial wait.
    pub(crate) fn new(scheduler: SchedulerId) -> Self {
        Self::from_version(scheduler, 0)
    }

    /// The same with another first version, to see it wrap around.
    pub(crate) fn from_version(scheduler: SchedulerId, version: i64) -> Self {
        let current = WorkerSetId {
            scheduler,
            version,
            hash: WorkerSetHash::NOBODY,
            standing: Standing::Unsettled,
        };
        Consensus {
            current,
            serial: Serial::default(),
            base: version,
            members: BTreeMap::new(),
            by_first: BTreeMap::new(),
            initial: BTreeMap::new(),
            unsettled: 0,
            foreigners: BTreeSet::new(),
            floor: Serial::default(),
            last_settled: None,
            beyond: BTreeMap::new(),
            ready: BTreeSet::new(),
            granted: Vec::new(),
            steps: VecDeque::from([(current.hash, current.standing)]),
            cursor: Serial::default(),
        }
    }

    /// The id of the present set.
    pub(crate) fn current(&self) -> WorkerSetId {
        self.current
    }

    fn step(&mut self) {
        self.serial = self.serial.next();
        self.current.version = self.base.wrapping_add(self.serial.0.cast_signed());
        self.steps
            .push_back((self.current.hash, self.current.standing));
    }

    /// A new instance, with the id in its first heartbeat.
    pub(crate) fn join(&mut self, worker: WorkerId, initial: WorkerSetId) {
        // One of ours cannot be: what it was given by us it got as a member. It says nothing about former sets.
        let initial = if initial.scheduler == self.current.scheduler {
            WorkerSetId::default()
        } else {
            initial
        };
        self.current.hash.add(worker);
        self.step();
        let member = Member {
            first: self.serial,
            echoed: None,
            initial,
            permit: Permit::Withheld,
        };
        let known = self.members.insert(worker, member);
        assert!(known.is_none(), "Invariant: an instance joins once");
        self.by_first.insert(self.serial, worker);
        self.beyond.insert(self.serial, self.serial);
        *self.initial.entry(key(&initial)).or_default() += 1;
        self.unsettled += usize::from(is_unsettled(&initial));
        if initial.standing == Standing::Settled {
            self.foreigners.insert(worker);
        }
        self.raise_floor();
    }

    /// An instance is lost, replaced or says goodbye.
    pub(crate) fn leave(&mut self, worker: WorkerId) {
        let member = self.members.remove(&worker);
        let member = member.expect("Invariant: only members leave the set");
        self.by_first.remove(&member.first);
        self.ready.remove(&(member.first, worker));
        self.foreigners.remove(&worker);
        self.unsettled -= usize::from(is_unsettled(&member.initial));
        if let Some(count) = self.initial.get_mut(&key(&member.initial)) {
            *count -= 1;
            if *count == 0 {
                self.initial.remove(&key(&member.initial));
            }
        }
        // What it has echoed still tells about others who hold sets with it.
        if self.beyond.len() > MAX_BEYOND {
            self.beyond.remove(&member.first);
        }
        self.current.hash.remove(worker);
        self.step();
        if sabotage::on(Sabotage::SetIdGoesBack) {
            self.current.version = self.current.version.wrapping_sub(2);
        }
        self.raise_floor();
    }

    /// Each heartbeat of a known instance names the id that it holds. Of one that is no member it counts for nothing.
    pub(crate) fn echo(&mut self, worker: WorkerId, id: &WorkerSetId) -> Echo {
        if id.scheduler != self.current.scheduler {
            return self.foreign_echo(worker, id);
        }
        let Some(member) = self.members.get(&worker) else {
            return Echo::Known;
        };
        let serial = Serial(id.version.wrapping_sub(self.base).cast_unsigned());
        if serial > self.serial || serial < member.first {
            return Echo::Wrong(WrongEcho::NeverGiven);
        }
        if !self.is_as_given(serial, id) {
            return Echo::Wrong(WrongEcho::OtherContent);
        }
        if member.echoed >= Some(serial) {
            return Echo::Known;
        }
        let (first, permit) = (member.first, member.permit);
        if let Some(member) = self.members.get_mut(&worker) {
            member.echoed = Some(serial);
        }
        if permit == Permit::Withheld {
            self.ready.insert((first, worker));
        }
        self.foreigners.remove(&worker);
        match self.beyond.get_mut(&first) {
            Some(bound) => *bound = (*bound).max(serial),
            None => self.floor = self.floor.max(serial),
        }
        self.raise_floor();
        Echo::News
    }

    fn foreign_echo(&mut self, worker: WorkerId, id: &WorkerSetId) -> Echo {
        match self.members.get(&worker) {
            Some(member) if member.initial == *id => Echo::Known,
            Some(member) => {
                if member.echoed.is_none() && id.standing == Standing::Settled {
                    self.foreigners.insert(worker);
                }
                Echo::Wrong(WrongEcho::Foreign)
            }
            None => Echo::Known,
        }
    }

    fn is_as_given(&self, serial: Serial, id: &WorkerSetId) -> bool {
        let back = usize::try_from(self.serial.0 - serial.0).unwrap_or(usize::MAX);
        let given = self
            .steps
            .len()
            .checked_sub(back.saturating_add(1))
            .and_then(|at| self.steps.get(at));
        given.is_none_or(|(hash, standing)| {
            // A peer that knows neither digest nor standing leaves them out.
            hash.same_set(&id.hash) && id.standing <= *standing
        })
    }

    /// The initial wait is over: ids given from here on count for consensus.
    pub(crate) fn settle(&mut self) {
        if self.current.standing == Standing::Settled {
            return;
        }
        self.change_standing(Standing::Settled);
        if self.foreigners.is_empty() {
            return;
        }
        for (worker, member) in &mut self.members {
            member.permit = Permit::Withheld;
            if member.echoed.is_some() {
                self.ready.insert((member.first, *worker));
            }
        }
        self.granted.clear();
    }

    /// The scheduler waits again.
    pub(crate) fn unsettle(&mut self) {
        if self.current.standing == Standing::Settled {
            self.change_standing(Standing::Unsettled);
        }
    }

    fn change_standing(&mut self, standing: Standing) {
        self.current.standing = standing;
        if self.serial == Serial::default() {
            // Nobody has this id.
            if let Some(step) = self.steps.back_mut() {
                step.1 = standing;
            }
        } else {
            self.step();
        }
        self.raise_floor();
    }

    /// Brings floor and permits up to date, and drops what is below.
    fn raise_floor(&mut self) {
        self.skip_what_is_not_viable();
        if self.current.standing == Standing::Settled {
            self.last_settled = Some(self.serial);
        }
        if let Some(earliest) = self.by_first.keys().next() {
            self.floor = self.floor.max(*earliest);
        }
        while let Some(next) = self.beyond.first_entry() {
            if *next.key() > self.floor {
                break;
            }
            self.floor = self.floor.max(next.remove());
            self.skip_what_is_not_viable();
        }
        self.grant();
        self.prune();
    }

    fn skip_what_is_not_viable(&mut self) {
        if self.last_settled.is_none_or(|settled| settled < self.floor) {
            self.floor = self.serial;
        }
    }

    fn grant(&mut self) {
        if !self.foreigners.is_empty() {
            return;
        }
        while let Some((first, worker)) = self.ready.first().copied() {
            if first > self.floor {
                break;
            }
            self.ready.remove(&(first, worker));
            if let Some(member) = self.members.get_mut(&worker) {
                member.permit = Permit::Granted;
            }
            self.granted.push(worker);
        }
    }

    fn prune(&mut self) {
        let needed = self.serial.0.saturating_sub(self.floor.0).saturating_add(1);
        let needed = usize::try_from(needed).unwrap_or(usize::MAX);
        let kept = needed.clamp(MIN_STEPS, MAX_STEPS);
        while self.steps.len() > kept {
            self.steps.pop_front();
        }
    }

    /// Every viable set has it.
    pub(crate) fn permits(&self, worker: WorkerId) -> bool {
        self.members
            .get(&worker)
            .is_some_and(|member| member.permit == Permit::Granted)
    }

    /// It has shown that it knows this scheduler.
    pub(crate) fn has_echoed(&self, worker: WorkerId) -> bool {
        self.members
            .get(&worker)
            .is_some_and(|member| member.echoed.is_some())
    }

    /// Who has been permitted since the last call.
    pub(crate) fn take_granted(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.granted)
    }

    /// Somebody is withheld only because others have not said that they know a set with it.
    pub(crate) fn needs_spreading(&self) -> bool {
        self.foreigners.is_empty() && !self.ready.is_empty()
    }

    /// Up to `count` of the workers whose next echo would permit everybody: any that joined at or below the floor, in turn.
    pub(crate) fn whom_to_tell(
        &mut self,
        count: usize,
        suits: impl Fn(WorkerId) -> bool,
    ) -> Vec<WorkerId> {
        let after = (
            Bound::Excluded(self.cursor),
            Bound::Included(self.floor.max(self.cursor)),
        );
        let before = ..=self.cursor.min(self.floor);
        let candidates = self
            .by_first
            .range(after)
            .chain(self.by_first.range(before))
            .take(MAX_CANDIDATES);
        let mut chosen = Vec::new();
        let mut cursor = self.cursor;
        for (first, worker) in candidates {
            cursor = *first;
            if suits(*worker) {
                chosen.push(*worker);
                if chosen.len() == count {
                    break;
                }
            }
        }
        self.cursor = cursor;
        chosen
    }

    /// How consensus on a former scheduler's set stands.
    pub(crate) fn former_set(&self) -> FormerSet {
        let none = key(&WorkerSetId::default());
        let strangers = self.initial.get(&none).copied().unwrap_or_default();
        let Some((&(_, _, _, hash), &here)) = self.initial.first_key_value() else {
            return FormerSet::NoWorkers;
        };
        if strangers > 0 {
            return FormerSet::Strangers(strangers);
        }
        if self.unsettled > 0 && !sabotage::on(Sabotage::ConsensusOfUnsettledSets) {
            return FormerSet::NotSettled(self.unsettled);
        }
        if self.initial.len() > 1 {
            return FormerSet::Differing(self.initial.len());
        }
        let of = usize::try_from(hash.num_workers).unwrap_or_default();
        if here < of {
            FormerSet::Incomplete { here, of }
        } else if hash.same_set(&self.current.hash) {
            FormerSet::Complete(here)
        } else {
            FormerSet::OtherMembers
        }
    }
}

fn is_unsettled(id: &WorkerSetId) -> bool {
    *id != WorkerSetId::default() && id.standing == Standing::Unsettled
}

/// Any order will do; that of versions is none.
fn key(id: &WorkerSetId) -> (SchedulerId, i64, Standing, WorkerSetHash) {
    (id.scheduler, id.version, id.standing, id.hash)
}

#[cfg(test)]
mod tests;
