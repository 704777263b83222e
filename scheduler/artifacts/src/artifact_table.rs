//! The known artifacts with their names, pins and copies, and the indexes that follow from these.
//!
//! Each change takes its artifact out of the indexes and puts it back in. The cost is logarithmic, and linear in the copies and the jobs
//! of that one artifact.

mod indexes;
mod known_artifact;

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{ArtifactId, JobName, Time};

use super::disks::{CopyPlace, DiskNumber, WorkerNumber};
use super::outputs::TaskNumber;
use super::types::{ArtifactAmount, Replicas, SetTotals, WorkerStay, WorkerTrust};
use indexes::Indexes;
use known_artifact::KnownArtifact;

/// The reference of one task to an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArtifactName {
    pub replicas: Replicas,
    pub task: TaskNumber,
}

impl ArtifactName {
    const FIRST: ArtifactName = ArtifactName {
        replicas: Replicas::ONE,
        task: TaskNumber(0),
    };
    const LAST: ArtifactName = ArtifactName {
        replicas: Replicas::MOST,
        task: TaskNumber(u64::MAX),
    };
}

/// All artifacts that have a live name, a pin or a copy.
#[derive(Clone, Debug, Default)]
pub struct ArtifactTable {
    known: BTreeMap<ArtifactId, KnownArtifact>,
    /// The names of all artifacts. One tree for all takes a third of the memory of a tree for each: most have one name.
    names: BTreeSet<(ArtifactId, ArtifactName)>,
    indexes: Indexes,
}

impl ArtifactTable {
    /// Adds a name. Has no effect if the artifact has the same one.
    pub fn add_name(
        &mut self,
        (id, size): (ArtifactId, u64),
        job: &JobName,
        name: ArtifactName,
        now: Time,
    ) {
        if self.names.insert((id, name)) {
            let replicas = self.most_replicas(id);
            self.update(id, now, |artifact| artifact.add_name(size, job, replicas));
        }
    }

    pub fn remove_name(&mut self, id: ArtifactId, job: &JobName, name: ArtifactName, now: Time) {
        if self.names.remove(&(id, name)) {
            let replicas = self.most_replicas(id);
            self.update(id, now, |artifact| artifact.remove_name(job, replicas));
        }
    }

    pub fn add_pin(&mut self, id: ArtifactId, now: Time) {
        self.update(id, now, KnownArtifact::add_pin);
    }

    pub fn remove_pin(&mut self, id: ArtifactId, now: Time) {
        self.update(id, now, KnownArtifact::remove_pin);
    }

    /// Adds a copy, which must be new.
    pub fn add_copy(&mut self, id: ArtifactId, place: CopyPlace, now: Time) {
        self.update(id, now, |artifact| artifact.add_copy(place, now));
        if let Some(artifact) = self.known.get(&id) {
            self.indexes.list_if_unwanted(id, artifact, place.disk);
        }
    }

    /// Notes that a known copy has come again. Its place among the others stays.
    pub fn renew_copy(&mut self, id: ArtifactId, place: CopyPlace, now: Time) {
        if let Some(artifact) = self.known.get_mut(&id) {
            self.indexes.unlist_if_unwanted(id, artifact, place.disk);
            artifact.renew_copy(place, now);
            self.indexes.list_if_unwanted(id, artifact, place.disk);
        }
    }

    pub fn remove_copy(&mut self, id: ArtifactId, place: CopyPlace, now: Time) {
        if let Some(artifact) = self.known.get(&id) {
            self.indexes.unlist_if_unwanted(id, artifact, place.disk);
        }
        self.update(id, now, |artifact| artifact.remove_copy(place));
    }

    /// Changes whether a worker remains, which affects its artifacts.
    pub fn set_stay(&mut self, worker: WorkerNumber, stay: WorkerStay, ids: &BTreeSet<ArtifactId>) {
        for id in ids {
            if let Some(artifact) = self.known.get(id) {
                self.indexes.take_out(*id, artifact);
            }
        }
        self.indexes.set_stay(worker, stay);
        for id in ids {
            if let Some(artifact) = self.known.get(id) {
                self.indexes.put_in(*id, artifact);
            }
        }
    }

    pub fn stay(&self, worker: WorkerNumber) -> WorkerStay {
        self.indexes.stay(worker)
    }

    /// Changes whether a worker may not come back, which affects those of its artifacts that a leaving worker has, too.
    pub fn set_trust(
        &mut self,
        worker: WorkerNumber,
        trust: WorkerTrust,
        ids: impl Iterator<Item = ArtifactId>,
    ) {
        let artifacts = ids.filter_map(|id| Some((id, self.known.get(&id)?)));
        let affected = artifacts.filter(|(_, artifact)| self.indexes.has_leaving(artifact));
        let affected: BTreeMap<ArtifactId, &KnownArtifact> = affected.collect();
        for (id, artifact) in &affected {
            self.indexes.take_out(*id, artifact);
        }
        self.indexes.set_trust(worker, trust);
        for (id, artifact) in affected {
            self.indexes.put_in(id, artifact);
        }
    }

    pub fn trust(&self, worker: WorkerNumber) -> WorkerTrust {
        self.indexes.trust(worker)
    }

    /// Forgets a worker, whose copies the caller has removed.
    pub fn forget_worker(&mut self, worker: WorkerNumber) {
        self.indexes.set_stay(worker, WorkerStay::Staying);
        self.indexes.set_trust(worker, WorkerTrust::Trusted);
    }

    pub fn is_lost(&self, id: ArtifactId) -> bool {
        self.known.get(&id).is_some_and(KnownArtifact::is_lost)
    }

    /// Returns the artifacts with a live name and without a copy, in the order of ids.
    pub fn lost(&self) -> impl Iterator<Item = ArtifactId> {
        self.indexes.lost()
    }

    /// Returns the live names, those that want the most replicas last.
    pub fn names(&self, id: ArtifactId) -> impl DoubleEndedIterator<Item = ArtifactName> {
        let names = self
            .names
            .range((id, ArtifactName::FIRST)..=(id, ArtifactName::LAST));
        names.map(|(_, name)| *name)
    }

    /// Returns the disks with a copy, the newest copy last.
    pub fn copies(&self, id: ArtifactId) -> impl DoubleEndedIterator<Item = DiskNumber> {
        let artifact = self.known.get(&id);
        let copies = artifact.map(KnownArtifact::copies).unwrap_or_default();
        copies.iter().map(|copy| copy.place.disk)
    }

    /// Returns the number of artifacts with a name, a copy or a pin.
    pub fn count_known(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of copies.
    pub fn count_copies(&self, id: ArtifactId) -> usize {
        self.known
            .get(&id)
            .map_or(0, |artifact| artifact.copies().len())
    }

    /// Returns the number of remaining workers with a copy. Stops at `most`.
    pub fn count_replicas(&self, id: ArtifactId, most: Replicas) -> usize {
        let artifact = self.known.get(&id);
        artifact.map_or(0, |artifact| self.indexes.count_staying(artifact, most))
    }

    /// Returns the number of missing replicas of an artifact that has copies; 0 if it has none.
    pub fn count_missing(&self, id: ArtifactId) -> usize {
        let artifact = self.known.get(&id);
        artifact.map_or(0, |artifact| self.indexes.count_missing(artifact))
    }

    /// Returns the artifacts after `after` that have copies, but too few, each with its size and the number of missing replicas.
    pub fn missing(
        &self,
        after: Option<ArtifactId>,
    ) -> impl Iterator<Item = (ArtifactId, u64, usize)> {
        self.indexes.missing(after).filter_map(|id| {
            let artifact = self.known.get(&id)?;
            Some((id, artifact.size(), self.indexes.count_missing(artifact)))
        })
    }

    /// Returns the unwanted artifacts of a disk, the longest unwanted first, each with the time since which it is known as such.
    pub fn unwanted(&self, disk: DiskNumber) -> impl Iterator<Item = (Time, ArtifactId)> {
        self.indexes.unwanted(disk)
    }

    /// Returns since when a copy on a disk is known.
    pub fn copy_since(&self, id: ArtifactId, disk: DiskNumber) -> Option<Time> {
        let copies = self.known.get(&id)?.copies();
        let copy = copies.iter().find(|copy| copy.place.disk == disk)?;
        Some(copy.since)
    }

    /// Counts the wanted artifacts at a worker of which no other remaining worker has a copy.
    pub fn only_at(&self, worker: WorkerNumber) -> ArtifactAmount {
        self.indexes.only_at(worker)
    }

    pub fn totals(&self, job: &JobName) -> SetTotals {
        self.indexes.totals(job)
    }

    fn most_replicas(&self, id: ArtifactId) -> Option<Replicas> {
        self.names(id).next_back().map(|name| name.replicas)
    }

    /// Changes an artifact and keeps the indexes. Forgets it if nothing refers to it and no copy is known.
    fn update(&mut self, id: ArtifactId, now: Time, change: impl FnOnce(&mut KnownArtifact)) {
        let new = || KnownArtifact::new(now);
        let artifact = self.known.entry(id).or_insert_with(new);
        self.indexes.take_out(id, artifact);
        let was_wanted = artifact.is_wanted();
        change(artifact);
        match (was_wanted, artifact.is_wanted()) {
            (true, false) => {
                artifact.begin_unwanted(now);
                self.indexes.list_all(id, artifact);
            }
            // Names and pins come and go without changes of copies, so the entries are those that were listed.
            (false, true) => self.indexes.unlist_all(id, artifact),
            (true, true) | (false, false) => {}
        }
        self.indexes.put_in(id, artifact);
        if !artifact.is_wanted() && artifact.copies().is_empty() {
            self.known.remove(&id);
        }
    }
}

#[cfg(test)]
impl ArtifactTable {
    /// Checks that nothing remains of workers, disks and artifacts that are gone.
    pub fn check(&self, workers: &BTreeSet<WorkerNumber>) {
        let mut noted = self.indexes.leaving_or_doubtful();
        assert!(noted.all(|worker| workers.contains(worker)));
        assert!(self.names.iter().all(|(id, _)| self.known.contains_key(id)));
        let copies = self.known.values().flat_map(KnownArtifact::copies);
        let places: BTreeSet<DiskNumber> = copies.map(|copy| copy.place.disk).collect();
        assert!(
            self.indexes
                .disks_with_unwanted()
                .all(|disk| places.contains(&disk))
        );
        let is_used =
            |artifact: &KnownArtifact| artifact.is_wanted() || !artifact.copies().is_empty();
        assert!(self.known.values().all(is_used));
    }
}
