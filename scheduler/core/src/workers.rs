//! The pool: one associated worker instance per shard, the set of those that are not lost, and when to look at each again.

pub(crate) mod heartbeat;
pub(crate) mod initial_wait;
pub(crate) mod remote;
mod replacement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::collections::IdMap;
use brasserie_common::{RecordSeq, SchedulerId, Shard, Time, WorkerId, WorkerSetId};
use brasserie_scheduler_engine::WorkerIndex;

use remote::Remote;

/// All workers by shard.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    by_shard: BTreeMap<Shard, Remote>,
    shards: IdMap<WorkerIndex, Shard>,
    /// Every instance that is not MUST_DIE.
    set: WorkerSetId,
    /// When each worker wants to be looked at; at most one entry a shard.
    wakes: BTreeSet<(Time, Shard)>,
    /// Associations whose record is not durable yet.
    unrecorded: BTreeMap<RecordSeq, Shard>,
}

impl Workers {
    pub(crate) fn new(scheduler: SchedulerId) -> Self {
        Workers {
            by_shard: BTreeMap::new(),
            shards: IdMap::default(),
            set: WorkerSetId {
                scheduler,
                ..WorkerSetId::default()
            },
            wakes: BTreeSet::new(),
            unrecorded: BTreeMap::new(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Remote> {
        self.by_shard.values()
    }

    pub(crate) fn get(&self, shard: &Shard) -> Option<&Remote> {
        self.by_shard.get(shard)
    }

    pub(crate) fn get_mut(&mut self, shard: &Shard) -> Option<&mut Remote> {
        self.by_shard.get_mut(shard)
    }

    /// The worker of a shard if it still is this instance.
    pub(crate) fn instance_mut(&mut self, shard: &Shard, worker: WorkerId) -> Option<&mut Remote> {
        self.by_shard
            .get_mut(shard)
            .filter(|remote| remote.id() == worker)
    }

    pub(crate) fn set(&self) -> WorkerSetId {
        self.set
    }

    /// Shard and host of a worker that the engine names.
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

    /// A new instance takes the shard.
    fn insert(&mut self, remote: Remote, recorded_by: RecordSeq) {
        let shard = remote.shard().clone();
        self.set.hash.add(remote.id());
        self.set.version = self.set.version.wrapping_add(1);
        self.shards.insert(remote.index(), shard.clone());
        self.unrecorded.insert(recorded_by, shard.clone());
        self.by_shard.insert(shard, remote);
    }

    /// An instance is lost or replaced; it must have been in the set.
    fn leave_set(&mut self, worker: WorkerId) {
        self.set.hash.remove(worker);
        self.set.version = self.set.version.wrapping_add(1);
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Looks at this worker again at `at`, and not before.
    pub(crate) fn wake_at(&mut self, shard: &Shard, at: Option<Time>) {
        let Some(remote) = self.by_shard.get_mut(shard) else {
            return;
        };
        if let Some(old) = remote.set_wake(at) {
            self.wakes.remove(&(old, shard.clone()));
        }
        if let Some(at) = at {
            self.wakes.insert((at, shard.clone()));
        }
    }

    /// Who is to be looked at now.
    pub(crate) fn due(&self, now: Time) -> Vec<Shard> {
        self.wakes
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, shard)| shard.clone())
            .collect()
    }

    /// Marks associations up to this record as durable, and names their shards.
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
