//! Worker-set consensus: the oldest set id that a living worker may hold, and the workers that may therefore become HEALTHY for the first
//! time.
//!
//! # Purpose
//!
//! A scheduler without a trusted record may leave its initial wait when its living workers all came with one identical, settled id and are
//! exactly that set (*consensus*). That must never happen while a worker that may run tasks is missing. So a worker *w* gets tasks only
//! when no set id without *w* can form consensus any more. An id is *viable* while every member of its set is alive and holds exactly that
//! id.
//!
//! # Why it is safe
//!
//! The id that a worker holds only moves on: to later versions of one scheduler, and to later schedulers. Members join a set once and leave
//! it once, by dying: a lost instance has ended by its own timers, and a replaced one is dead.
//!
//! 1. Every viable id of this scheduler has a living member *x*. So its version is at least *x*'s joining version, and at least that of the
//!    earliest living member. The *floor* begins there: no id of this scheduler below it is viable.
//! 2. Let *z* have joined at or below the floor and have echoed version *e*. A viable version *v* is at or above the floor. If *z* is in
//!    its set, *z* holds *v*, so *v* is at least *e*. If not, *z* has left before *v*, and *e* is before that. In both cases the floor may
//!    be raised to *e*. This holds also for a *z* that has left (a relay). The floor never falls, because later members join above it.
//! 3. Unsettled ids are never viable. While no settled id is at or above the floor, the floor is the current version.
//! 4. Ids of earlier schedulers: the holders of a viable one are among the workers that came here with a settled id and have not echoed an
//!    id of this scheduler (*foreigners*). When this scheduler left its initial wait, every other holder was dead (safe wait, trusted
//!    record). Or its set had died out before the set was issued by which the scheduler left (consensus). Therefore a foreigner withholds
//!    every worker that is not permitted yet, and a worker that was permitted during the wait is permitted again at its end.
//!
//! So *w* is **permitted** when it has echoed an id of this scheduler, no foreigner is left, and the floor is not below *w*'s joining
//! version. Then every viable id of this scheduler contains *w* until *w* has left. It stays permitted, because new ids contain it. The
//! caller checks that the record of *w* is durable.
//!
//! Bistro requires that *w* has echoed the current set and that every living worker has echoed some set. There a newcomer occasionally
//! keeps every worker from becoming HEALTHY. Neither condition is necessary. The version that *w* echoed does not matter. A worker that
//! came with no id holds nothing viable, until it holds an id of this scheduler from its joining on.
//!
//! Assumptions: a heartbeat reaches only the instance that it was sent to, because a connection ends with its process. A worker that the
//! scheduler counts as lost does not come back (the timers of `common/src/health`). `--allow-bump-unhealthy-worker` and the operator's
//! overrides of the initial wait weaken the latter.
//!
//! # Cost
//!
//! The floor passes each worker once, so an event costs O(log workers) on average over all events. A heartbeat that echoes a known version
//! costs nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hasher;
use std::ops::Bound;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{SchedulerId, Standing, WorkerId, WorkerSetHash, WorkerSetId};

/// The number of steps that are remembered even if the floor has passed them, so that late and wrong echoes are recognized.
const MIN_STEPS: usize = 1024;
/// The most steps that are remembered. Each worker of a full pool may join, leave and join again while one of them is silent. Echoes of
/// older steps are not compared.
const MAX_STEPS: usize = 65_536;
/// The most workers beyond the floor, including relays. A relay beyond the limit is forgotten, which is safe and may cost time.
const MAX_BEYOND: usize = 65_536;
/// The most workers that one search for recipients checks.
const MAX_CANDIDATES: usize = 64;

/// The number of changes of the set: the version without wrap-around.
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
    /// The first set that contains the member.
    first: Serial,
    /// The latest set that the member has echoed.
    echoed: Option<Serial>,
    initial: WorkerSetId,
    permit: Permit,
}

/// Whether a member is permitted to become HEALTHY.
///
/// ```text
///   Withheld --echoed, no foreigner, floor reached--> Granted
///      ^                                                 |
///      +------- the initial wait ends with foreigners ---+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permit {
    /// A viable set may lack the member.
    Withheld,
    /// Every viable set contains the member.
    Granted,
}

/// The evaluation of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The echo is later than the known ones.
    News,
    /// The echo is known, late, or the id that the worker came with.
    Known,
    /// The worker was never given this id. The echo does not count.
    Wrong(WrongEcho),
}

/// The reason for which an echo does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongEcho {
    /// The version is after the current one, or from before the worker was in the set.
    NeverGiven,
    /// That version had other members or another standing.
    OtherContent,
    /// The id is of another scheduler, and not the one that the worker came with.
    Foreign,
}

/// How many workers of a former set are back, for consensus on that set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormerSet {
    /// There are no workers.
    NoWorkers,
    /// This many workers know of no former set, so they belong to none.
    Strangers(usize),
    /// This many workers hold ids from a scheduler's initial wait, or ids that do not say whether they are settled.
    NotSettled(usize),
    /// The workers hold this many different ids.
    Differing(usize),
    /// All workers hold the same id, of a set of `of` workers, and only `here` of them are here.
    Incomplete { here: usize, of: usize },
    /// The number of workers is that of the set, but its members are others.
    OtherMembers,
    /// All workers hold the same settled id, and are exactly that set.
    Complete(usize),
}

/// The state of worker-set consensus; see the top of this file.
#[derive(Clone, Debug)]
pub(crate) struct Consensus {
    current: WorkerSetId,
    serial: Serial,
    /// The version of the first serial number.
    base: i64,
    members: BTreeMap<WorkerId, Member>,
    /// The members in the order of joining.
    by_first: BTreeMap<Serial, WorkerId>,
    /// The number of members that came with each id.
    initial: BTreeMap<(SchedulerId, i64, Standing, WorkerSetHash), usize>,
    /// The number of members that came with an unsettled id that is not empty.
    unsettled: usize,
    /// The members that may hold a settled id of an earlier scheduler.
    foreigners: BTreeSet<WorkerId>,
    /// The floor: no id of this scheduler below it is viable.
    floor: Serial,
    /// The latest id that was issued as settled.
    last_settled: Option<Serial>,
    /// The members and relays that joined above the floor, with a lower bound of the version that each holds.
    beyond: BTreeMap<Serial, Serial>,
    /// The members that have echoed and are not permitted.
    ready: BTreeSet<(Serial, WorkerId)>,
    /// The members that were permitted since the list was last taken.
    granted: Vec<WorkerId>,
    /// The latest steps. The last one is current.
    steps: VecDeque<(WorkerSetHash, Standing)>,
    /// The position at which the next search for recipients continues.
    cursor: Serial,
}

impl Consensus {
    /// Creates the state without workers, in the initial wait.
    pub(crate) fn new(scheduler: SchedulerId) -> Self {
        Self::from_version(scheduler, 0)
    }

    /// Creates the same state with another first version, to test the wrap-around.
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

    /// Returns the id of the present set.
    pub(crate) fn current(&self) -> WorkerSetId {
        self.current
    }

    fn step(&mut self) {
        self.serial = self.serial.next();
        self.current.version = self.base.wrapping_add(self.serial.0.cast_signed());
        self.steps
            .push_back((self.current.hash, self.current.standing));
    }

    /// Adds a new instance, with the id in its first heartbeat.
    pub(crate) fn join(&mut self, worker: WorkerId, initial: WorkerSetId) {
        // A new instance cannot have an id of this scheduler, because only members are given one. Such an id says nothing about former
        // sets.
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

    /// Removes an instance that was lost, replaced or said goodbye.
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
        // Its entry in `beyond` stays: its echo still bounds the ids of workers that hold a set with it.
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

    /// Handles the id in a heartbeat of a known instance. The id of an instance that is no member counts for nothing.
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
            // Peers without digest or standing omit them.
            hash.same_set(&id.hash) && id.standing <= *standing
        })
    }

    /// Marks the end of the initial wait. Ids issued from now on count for consensus.
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

    /// Marks that the scheduler waits again.
    pub(crate) fn unsettle(&mut self) {
        if self.current.standing == Standing::Settled {
            self.change_standing(Standing::Unsettled);
        }
    }

    fn change_standing(&mut self, standing: Standing) {
        self.current.standing = standing;
        if self.serial == Serial::default() {
            // This id was never issued.
            if let Some(step) = self.steps.back_mut() {
                step.1 = standing;
            }
        } else {
            self.step();
        }
        self.raise_floor();
    }

    /// Updates the floor and the permits, and drops entries below the floor.
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

    /// Returns whether the worker is permitted: every viable set contains it.
    pub(crate) fn permits(&self, worker: WorkerId) -> bool {
        self.members
            .get(&worker)
            .is_some_and(|member| member.permit == Permit::Granted)
    }

    /// Returns whether the worker has shown that it knows this scheduler.
    pub(crate) fn has_echoed(&self, worker: WorkerId) -> bool {
        self.members
            .get(&worker)
            .is_some_and(|member| member.echoed.is_some())
    }

    /// Removes and returns the workers that were permitted since the last call.
    pub(crate) fn take_granted(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.granted)
    }

    /// Returns whether a worker is withheld only because others have not echoed a set with it.
    pub(crate) fn needs_spreading(&self) -> bool {
        self.foreigners.is_empty() && !self.ready.is_empty()
    }

    /// Returns up to `count` of the workers whose next echo would permit every worker: those that joined at or below the floor, in turn.
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

    /// Returns how many workers of a former scheduler's set are back.
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

/// Returns a key with an arbitrary order, because versions have none.
fn key(id: &WorkerSetId) -> (SchedulerId, i64, Standing, WorkerSetHash) {
    (id.scheduler, id.version, id.standing, id.hash)
}

/// The reason for which a worker may not become HEALTHY for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithheldBy {
    /// The worker has echoed no set of this scheduler.
    Itself,
    /// This worker, one of the given number, may hold an earlier scheduler's set until it echoes one of this scheduler.
    Foreigner(WorkerId, usize),
    /// No worker whose echo would count has echoed a set with this worker yet.
    Others,
}

impl Consensus {
    /// Returns why this worker is not permitted; `None` if it is.
    pub(crate) fn withheld_by(&self, worker: WorkerId) -> Option<WithheldBy> {
        let member = self.members.get(&worker)?;
        match member.permit {
            Permit::Granted => None,
            Permit::Withheld if member.echoed.is_none() => Some(WithheldBy::Itself),
            Permit::Withheld => Some(match self.foreigners.first() {
                Some(first) => WithheldBy::Foreigner(*first, self.foreigners.len()),
                None => WithheldBy::Others,
            }),
        }
    }
}

impl Consensus {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        // Serials count from the start, so only their distance from the present one counts. The other collections follow from the members.
        // The steps behind the floor only serve to recognize wrong echoes.
        let Consensus {
            current,
            serial,
            base: _,
            members,
            by_first: _,
            initial: _,
            unsettled: _,
            foreigners,
            floor,
            last_settled,
            beyond,
            ready,
            granted,
            steps: _,
            cursor,
        } = self;
        let back = |at: Serial| serial.0 - at.0;
        s.set(*current);
        s.each(members, |s, (worker, member)| {
            let Member {
                first,
                echoed,
                initial,
                permit,
            } = member;
            s.worker(*worker);
            s.put((back(*first), echoed.map(back)));
            s.set(*initial);
            s.put(std::mem::discriminant(permit));
        });
        s.each(foreigners, |s, worker| s.worker(*worker));
        s.put((back(*floor), last_settled.map(back)));
        s.each(beyond, |s, (first, bound)| {
            s.put((back(*first), back(*bound)));
        });
        s.each(ready, |s, (_, worker)| s.worker(*worker));
        s.each(granted, |s, worker| s.worker(*worker));
        s.put(back(*cursor));
    }
}

#[cfg(test)]
mod tests;
