//! The pool: one associated worker instance for each shard, the set of instances that are not lost, and the timers of each worker.

pub mod consensus;
pub mod remote;
pub mod replacement;
mod spreading;
pub mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::collections::IdMap;
use brasserie_common::fingerprint::Shape;
use brasserie_common::{
    Health, MachinePortLock, RecordSeq, SchedulerId, Shard, Time, Timeouts, WallTime, WorkerId,
    WorkerSetId,
};
use brasserie_scheduler_engine::{Due, Judged, WorkerIndex};
use consensus::Consensus;
use remote::{Evaluation, OwnTimers, Remote};
use spreading::Spreading;

use crate::news::KnownWorker;
use crate::record::{LeftCause, LeftInstance, MAX_LEFT, until_synced};

/// The most shards, including those of dead workers. Each worker keeps a connection, so a pool has at most some thousands of workers. A
/// peer that invents names uses at most tens of MiB.
const MAX_SHARDS: usize = 16_384;

/// All workers by shard.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    by_shard: BTreeMap<Shard, Remote>,
    shards: IdMap<WorkerIndex, Shard>,
    /// The holders of shards, including dead ones.
    by_id: BTreeMap<WorkerId, Shard>,
    by_lock: BTreeMap<MachinePortLock, BTreeSet<Shard>>,
    /// The shards of dead workers, by the time when they are forgotten. They are forgotten earlier when the pool is full.
    dead: BTreeSet<(Time, Shard)>,
    /// The instances that were lost, replaced, or said goodbye.
    left: BTreeMap<WorkerId, Option<LeftInstance>>,
    /// The set of all instances that are not in MUST_DIE.
    consensus: Consensus,
    spreading: Spreading,
    /// When each worker is evaluated next; at most one entry for each shard.
    wakes: BTreeSet<(Time, Shard)>,
    /// The shards of associations whose record is not durable yet.
    unrecorded: BTreeMap<RecordSeq, Shard>,
    /// The instances that were removed in this turn.
    gone: Vec<WorkerId>,
}

/// The facts about an instance that has just left.
#[derive(Debug)]
pub struct LostInstance {
    pub index: WorkerIndex,
    pub known: KnownWorker,
    /// The timeouts that the instance may use.
    pub timeouts: Timeouts,
    /// The timers of an instance that was lost and never showed that it received this scheduler's answers.
    pub earlier_timers: Option<OwnTimers>,
    /// The instance's tasks were never fetched, so any task might run there, unless it has never known a scheduler.
    pub runs_unknown: bool,
}

impl Pool {
    /// Creates an empty pool. `left` are the instances that left under earlier schedulers.
    pub(crate) fn new(
        scheduler: SchedulerId,
        left: &BTreeMap<WorkerId, Option<LeftInstance>>,
    ) -> Self {
        Pool {
            by_shard: BTreeMap::new(),
            shards: IdMap::default(),
            by_id: BTreeMap::new(),
            by_lock: BTreeMap::new(),
            dead: BTreeSet::new(),
            left: left.clone(),
            consensus: Consensus::new(scheduler),
            spreading: Spreading::default(),
            wakes: BTreeSet::new(),
            unrecorded: BTreeMap::new(),
            gone: Vec::new(),
        }
    }

    /// Returns whether the worker holds a shard. A lost worker holds its shard until it is forgotten, and may repeat a completion until
    /// then.
    pub(crate) fn holds_a_shard(&self, worker: WorkerId) -> bool {
        self.by_id.contains_key(&worker)
    }

    /// Removes and returns the instances that were forgotten since the last call, and report nothing any more.
    pub(crate) fn take_gone(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.gone)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Remote> {
        self.by_shard.values()
    }

    /// Iterates over the shards of workers that may run tasks which they have not reported.
    pub(crate) fn with_unknown_runs(&self) -> impl Iterator<Item = &Shard> {
        let is_one = |w: &&Remote| w.health() == Health::New && w.knew_a_scheduler();
        self.iter().filter(is_one).map(Remote::shard)
    }

    pub(crate) fn get(&self, shard: &Shard) -> Option<&Remote> {
        self.by_shard.get(shard)
    }

    pub(crate) fn get_mut(&mut self, shard: &Shard) -> Option<&mut Remote> {
        self.by_shard.get_mut(shard)
    }

    /// Returns the worker of a shard if it is still this instance.
    pub(crate) fn instance_mut(&mut self, shard: &Shard, worker: WorkerId) -> Option<&mut Remote> {
        self.by_shard
            .get_mut(shard)
            .filter(|remote| remote.id() == worker)
    }

    pub(crate) fn set(&self) -> WorkerSetId {
        self.consensus.current()
    }

    /// Evaluates the worker of a shard. `None` if there is none, or it has left.
    pub(crate) fn evaluate(
        &mut self,
        now: Time,
        timeouts: &Timeouts,
        shard: &Shard,
    ) -> Option<Evaluation> {
        let remote = self.by_shard.get_mut(shard)?;
        remote.evaluate(now, timeouts, &self.consensus)
    }

    /// Returns whether a pull worker keeps its deadlines with one more task, as far as its requests show.
    pub(crate) fn keeps_deadlines(&mut self, now: Time, index: WorkerIndex, due: Due) -> Judged {
        let shard = self.shards.get(&index);
        let remote = shard.and_then(|shard| self.by_shard.get_mut(shard));
        remote.map_or(Judged::UNSEEN, |remote| {
            remote.credits_mut().keeps_deadlines(now, due)
        })
    }

    /// Returns the shard and the host of a worker that the engine names.
    pub(crate) fn place_of(&self, index: WorkerIndex) -> (Shard, Arc<str>) {
        let shard = self.shards.get(&index).cloned().unwrap_or_default();
        let hostname = self
            .get(&shard)
            .map(|remote| remote.description().machine_lock.hostname.clone());
        (shard, hostname.unwrap_or_default())
    }

    pub(crate) fn shard_of(&self, index: WorkerIndex) -> Option<&Shard> {
        self.shards.get(&index)
    }

    /// Returns the shard that this instance holds, or that it held last.
    pub(crate) fn shard_with(&self, worker: WorkerId) -> Option<&Shard> {
        self.by_id.get(&worker)
    }

    /// Returns the instance if it holds a shard.
    pub(crate) fn holder(&self, worker: WorkerId) -> Option<&Remote> {
        self.by_shard.get(self.by_id.get(&worker)?)
    }

    /// Iterates over the last holders of this machine lock, on each shard that had one.
    pub(crate) fn with_lock(&self, lock: &MachinePortLock) -> impl Iterator<Item = &Remote> {
        let shards = self.by_lock.get(lock).into_iter().flatten();
        shards.filter_map(|shard| self.by_shard.get(shard))
    }

    /// Returns whether the instance was lost, replaced or said goodbye, and so can never come back.
    pub(crate) fn has_left(&self, worker: WorkerId) -> bool {
        self.left.contains_key(&worker)
    }

    /// Returns the latest instance of this shard that has left, if its name is known.
    pub(crate) fn last_left(&self, shard: &Shard) -> Option<WorkerId> {
        let is_of = |left: &Option<LeftInstance>| left.as_ref().is_some_and(|l| l.shard == *shard);
        let mut latest = self.left.iter().rev();
        latest.find(|(_, left)| is_of(left)).map(|(id, _)| *id)
    }

    /// Returns the name and the time of an instance that has left, if they are known.
    pub(crate) fn left_instance(&self, worker: WorkerId) -> Option<&LeftInstance> {
        self.left.get(&worker)?.as_ref()
    }

    /// Notes that an instance has left. `left` is `None` for one that was not recorded.
    pub(crate) fn note_left(&mut self, worker: WorkerId, left: Option<LeftInstance>) {
        let known = self.left.entry(worker).or_default();
        if known.is_none() {
            *known = left;
        }
        if self.left.len() > MAX_LEFT {
            // Ids are ordered by start time, so the oldest is dropped.
            self.left.pop_first();
        }
    }

    /// Makes space for one more shard by forgetting a dead worker. Returns `None` if nothing had to be forgotten; errors with the limit if
    /// every shard has a living worker.
    pub(crate) fn make_room(&mut self) -> Result<Option<WorkerIndex>, usize> {
        if self.by_shard.len() < MAX_SHARDS {
            return Ok(None);
        }
        let (_, shard) = self.dead.first().cloned().ok_or(MAX_SHARDS)?;
        Ok(self.remove(&shard).map(|remote| remote.index()))
    }

    /// Returns when a dead worker is forgotten next.
    pub(crate) fn next_forgotten(&self) -> Option<Time> {
        self.dead.first().map(|(at, _)| *at)
    }

    /// Forgets one dead worker whose time has come. Its id stays among those that have left.
    pub(crate) fn forget_dead(&mut self, now: Time) -> Option<WorkerIndex> {
        let (_, shard) = self.dead.first().filter(|(at, _)| *at <= now).cloned()?;
        self.remove(&shard).map(|remote| remote.index())
    }

    fn remove(&mut self, shard: &Shard) -> Option<Remote> {
        let remote = self.by_shard.remove(shard)?;
        if let Some(at) = remote.forgotten_at() {
            self.dead.remove(&(at, shard.clone()));
        }
        self.shards.remove(&remote.index());
        self.by_id.remove(&remote.id());
        self.gone.push(remote.id());
        if let Some(at) = remote.wake() {
            self.wakes.remove(&(at, shard.clone()));
        }
        let lock = &remote.description().machine_lock;
        if let Some(shards) = self.by_lock.get_mut(lock) {
            shards.remove(shard);
            if shards.is_empty() {
                self.by_lock.remove(lock);
            }
        }
        Some(remote)
    }

    /// Gives the shard to a new instance.
    pub(crate) fn insert(&mut self, remote: Remote, recorded_by: RecordSeq) {
        let shard = remote.shard().clone();
        self.remove(&shard);
        self.consensus.join(remote.id(), remote.initial_set());
        self.shards.insert(remote.index(), shard.clone());
        self.by_id.insert(remote.id(), shard.clone());
        let lock = remote.description().machine_lock.clone();
        self.by_lock.entry(lock).or_default().insert(shard.clone());
        self.unrecorded.insert(recorded_by, shard.clone());
        self.by_shard.insert(shard, remote);
    }

    /// Marks the instance of a shard as lost, replaced or gone, unless it has left before. It holds its shard until it is forgotten or
    /// another instance takes the shard. `ours` are this scheduler's timeouts.
    pub(crate) fn lose(
        &mut self,
        (now, wall): (Time, WallTime),
        shard: &Shard,
        cause: LeftCause,
        ours: &Timeouts,
    ) -> Option<LostInstance> {
        let remote = self.by_shard.get_mut(shard)?;
        if remote.health() == Health::MustDie {
            return None;
        }
        // The instance may believe in its health by an earlier scheduler's answer for one gap after this scheduler's clock began, and then
        // use that scheduler's longer timeouts. So its own timers end it later, unless it has shown that it receives this scheduler's
        // answers.
        let is_lost = cause == LeftCause::Lost;
        let departed = LostInstance {
            index: remote.index(),
            known: remote.known(),
            timeouts: remote.timeouts(),
            earlier_timers: is_lost.then(|| remote.timers_before_ours()).flatten(),
            runs_unknown: remote.health() == Health::New && remote.knew_a_scheduler() && is_lost,
        };
        remote.note_gone(now, cause);
        self.wake_at(shard, None);
        // The worker's own timers have ended it by then, whatever made it leave. It has no completion to report any more, and its tasks may
        // have run elsewhere, so the shard's facts are useless. That the instance has left is remembered for longer.
        let forgotten_at = now + departed.timeouts.longest(ours).min_safe_wait();
        self.leave_set(departed.known.id, forgotten_at, wall);
        Some(departed)
    }

    /// Removes a lost or replaced instance from the set, of which it must be a member. Its shard is forgotten at `forgotten_at`, unless
    /// another instance takes the shard.
    fn leave_set(&mut self, worker: WorkerId, forgotten_at: Time, wall: WallTime) {
        self.consensus.leave(worker);
        let shard = self.by_id.get(&worker).cloned();
        let left = shard.clone().map(|shard| LeftInstance { shard, wall });
        self.note_left(worker, left);
        let Some(shard) = &shard else {
            return;
        };
        if let Some(remote) = self.by_shard.get_mut(shard) {
            remote.note_forgotten_at(forgotten_at);
            self.dead.insert((forgotten_at, shard.clone()));
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Sets when this worker is evaluated next, instead of any earlier setting.
    pub(crate) fn wake_at(&mut self, shard: &Shard, at: Option<Time>) {
        let Some(remote) = self.by_shard.get_mut(shard) else {
            return;
        };
        // A timer of a dead worker would be due for ever, because a dead worker is not evaluated.
        let at = at.filter(|_| remote.health() != Health::MustDie);
        if let Some(old) = remote.set_wake(at) {
            self.wakes.remove(&(old, shard.clone()));
        }
        if let Some(at) = at {
            self.wakes.insert((at, shard.clone()));
        }
    }

    /// Returns the shards of the workers that are due.
    pub(crate) fn due(&self, now: Time) -> Vec<Shard> {
        self.wakes
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, shard)| shard.clone())
            .collect()
    }

    /// Marks the associations up to this record as durable, and returns their shards.
    pub(crate) fn take_recorded(&mut self, up_to: RecordSeq) -> Vec<Shard> {
        let mut shards = Vec::new();
        while let Some(entry) = self.unrecorded.first_entry() {
            if *entry.key() > up_to {
                break;
            }
            let shard = entry.remove();
            if let Some(remote) = self.by_shard.get_mut(&shard) {
                remote.recorded_up_to(up_to);
                shards.push(shard);
            }
        }
        shards
    }
}

impl Pool {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        // The indexes follow from the workers.
        let Pool {
            by_shard,
            shards: _,
            by_id: _,
            by_lock: _,
            dead: _,
            left,
            consensus,
            spreading,
            wakes: _,
            unrecorded,
            gone,
        } = self;
        s.each(by_shard.values(), |s, remote| remote.shape(s, persisted));
        s.each(left.keys(), |s, worker| s.worker(*worker));
        consensus.shape(s);
        spreading.shape(s);
        s.each(gone, |s, worker| s.worker(*worker));
        s.each(unrecorded, |s, (seq, shard)| {
            s.put((until_synced(*seq, persisted), shard));
        });
    }
}
