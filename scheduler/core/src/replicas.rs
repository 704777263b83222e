//! The requests to workers for further copies of artifacts that are on too few of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{ArtifactId, MachinePortLock, Time};
use brasserie_scheduler_artifacts::{MissingReplicas, Registry};

/// The most copies that one answer requests: a worker fetches a few at a time, and is asked again.
const MOST_REQUESTED: usize = 64;
/// The most artifacts that one answer considers: a fraction of a millisecond.
const MOST_CONSIDERED: usize = 1000;
/// The time that a worker has to fetch a copy before another one is asked, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The workers that were asked for copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaRequests {
    asked: BTreeMap<ArtifactId, BTreeMap<MachinePortLock, Time>>,
    /// The artifact after which the next answer begins.
    after: Option<ArtifactId>,
    /// The time of the last removal of old requests.
    cleaned: Time,
}

/// A worker that may get copies.
pub(crate) struct Candidate<'a> {
    pub lock: &'a MachinePortLock,
    /// Bytes of one artifact that fit on it.
    pub usable: u64,
    /// The racks of all workers with stores.
    pub racks: &'a BTreeSet<&'a str>,
}

impl ReplicaRequests {
    /// Returns the artifacts of which the worker should fetch a copy: those that it was asked for, and others.
    pub(crate) fn for_worker(
        &mut self,
        now: Time,
        registry: &Registry,
        candidate: &Candidate<'_>,
    ) -> Vec<MissingReplicas> {
        self.clean(now);
        let mut left = candidate.usable;
        let mut requested = Vec::new();
        let mut considered = 0;
        for missing in registry.missing_replicas(self.after).take(MOST_CONSIDERED) {
            considered += 1;
            self.after = Some(missing.id);
            if missing.size <= left && self.request(now, registry, candidate, &missing) {
                left -= missing.size;
                requested.push(missing);
            }
            if requested.len() == MOST_REQUESTED {
                return requested;
            }
        }
        if considered < MOST_CONSIDERED {
            self.after = None;
        }
        requested
    }

    /// Requests a copy if the worker is suitable and wanted for it. Returns whether it is requested.
    fn request(
        &mut self,
        now: Time,
        registry: &Registry,
        candidate: &Candidate<'_>,
        missing: &MissingReplicas,
    ) -> bool {
        let holders = registry.holders(missing.id).map(|holder| &holder.lock);
        let holders: BTreeSet<&MachinePortLock> = holders.collect();
        if holders.contains(candidate.lock) {
            return false;
        }
        let asked = self.asked.entry(missing.id).or_default();
        if asked.contains_key(candidate.lock) {
            return true;
        }
        let rack = |lock| registry.rack(lock).map(|rack| &*rack.0);
        let taken: BTreeSet<&str> = holders
            .into_iter()
            .chain(asked.keys())
            .filter_map(rack)
            .collect();
        let is_in_taken = rack(candidate.lock).is_none_or(|rack| taken.contains(rack));
        let has_better = is_in_taken && !candidate.racks.is_subset(&taken);
        if asked.len() >= missing.replicas || has_better {
            return false;
        }
        asked.insert(candidate.lock.clone(), now);
        true
    }

    /// Removes requests that were made long ago: their workers are asked again, or others.
    fn clean(&mut self, now: Time) {
        if now < self.cleaned + PATIENCE / 4 {
            return;
        }
        self.cleaned = now;
        self.asked.retain(|_, asked| {
            asked.retain(|_, at| now < *at + PATIENCE);
            !asked.is_empty()
        });
    }
}
