//! The indexes over all artifacts: those that are lost, have too few replicas, are unwanted at a disk, or are only at one worker, and sums
//! for each job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use brasserie_common::{ArtifactId, JobName, Time};

use super::super::disks::{DiskNumber, WorkerNumber};
use super::super::types::{ArtifactAmount, Replicas, SetTotals, WorkerStay, WorkerTrust};
use super::known_artifact::{KnownArtifact, KnownCopy};

#[derive(Clone, Debug, Default)]
pub struct Indexes {
    leaving: BTreeSet<WorkerNumber>,
    /// The workers that may not come back with their copies.
    doubtful: BTreeSet<WorkerNumber>,
    lost: BTreeSet<ArtifactId>,
    missing: BTreeSet<ArtifactId>,
    /// The artifacts that would be lost with a worker. No entry is zero.
    only_at: BTreeMap<WorkerNumber, ArtifactAmount>,
    /// The unwanted artifacts of each disk, by the time since which they are known as such. No entry is empty.
    unwanted: BTreeMap<DiskNumber, BTreeSet<(Time, ArtifactId)>>,
    /// Sums for each job that names an artifact.
    totals: BTreeMap<JobName, SetTotals>,
}

impl Indexes {
    pub fn set_stay(&mut self, worker: WorkerNumber, stay: WorkerStay) {
        match stay {
            WorkerStay::Staying => self.leaving.remove(&worker),
            WorkerStay::Leaving => self.leaving.insert(worker),
        };
    }

    pub fn stay(&self, worker: WorkerNumber) -> WorkerStay {
        match self.leaving.contains(&worker) {
            true => WorkerStay::Leaving,
            false => WorkerStay::Staying,
        }
    }

    pub fn set_trust(&mut self, worker: WorkerNumber, trust: WorkerTrust) {
        match trust {
            WorkerTrust::Trusted => self.doubtful.remove(&worker),
            WorkerTrust::Doubtful => self.doubtful.insert(worker),
        };
    }

    pub fn trust(&self, worker: WorkerNumber) -> WorkerTrust {
        match self.doubtful.contains(&worker) {
            true => WorkerTrust::Doubtful,
            false => WorkerTrust::Trusted,
        }
    }

    /// Returns whether a worker that leaves has a copy. Only then does it matter which of the other workers are doubtful.
    pub fn has_leaving(&self, artifact: &KnownArtifact) -> bool {
        let leaves = |worker| self.leaving.contains(&worker);
        !self.leaving.is_empty() && !artifact.workers(1, leaves).is_empty()
    }

    pub fn lost(&self) -> impl Iterator<Item = ArtifactId> {
        self.lost.iter().copied()
    }

    pub fn missing(&self, after: Option<ArtifactId>) -> impl Iterator<Item = ArtifactId> {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.missing.range((lower, Bound::Unbounded)).copied()
    }

    pub fn unwanted(&self, disk: DiskNumber) -> impl Iterator<Item = (Time, ArtifactId)> {
        self.unwanted.get(&disk).into_iter().flatten().copied()
    }

    pub fn only_at(&self, worker: WorkerNumber) -> ArtifactAmount {
        self.only_at.get(&worker).copied().unwrap_or_default()
    }

    pub fn totals(&self, job: &JobName) -> SetTotals {
        self.totals.get(job).copied().unwrap_or_default()
    }

    pub fn count_staying(&self, artifact: &KnownArtifact, most: Replicas) -> usize {
        self.staying(artifact, most.get()).len()
    }

    /// Returns the number of missing replicas. An artifact without any copy is lost, and no replica can be made of it. One that a worker leaves
    /// to doubtful workers alone lacks one more.
    pub fn count_missing(&self, artifact: &KnownArtifact) -> usize {
        let wanted = artifact.replicas_wanted();
        if artifact.copies().is_empty() {
            return 0;
        }
        let missing = wanted - self.staying(artifact, wanted).len();
        missing.max(usize::from(self.is_left_to_doubtful(artifact)))
    }

    /// Adds an artifact to all indexes but that of unwanted ones.
    pub fn put_in(&mut self, id: ArtifactId, artifact: &KnownArtifact) {
        if artifact.is_lost() {
            self.lost.insert(id);
        }
        if self.count_missing(artifact) > 0 {
            self.missing.insert(id);
        }
        for worker in self.indispensable(artifact) {
            let amount = self.only_at.entry(worker).or_default();
            amount.artifacts += 1;
            add_bytes(&mut amount.bytes, artifact.size());
        }
        for job in artifact.jobs() {
            let totals = self.totals.entry(job.clone()).or_default();
            totals.amount.artifacts += 1;
            add_bytes(&mut totals.amount.bytes, artifact.size());
            totals.copies += artifact.copies().len() as u64;
            totals.without_copy += u64::from(artifact.is_lost());
        }
    }

    /// Removes what [`Indexes::put_in`] added with the same arguments.
    pub fn take_out(&mut self, id: ArtifactId, artifact: &KnownArtifact) {
        self.lost.remove(&id);
        self.missing.remove(&id);
        for worker in self.indispensable(artifact) {
            if let Some(amount) = self.only_at.get_mut(&worker) {
                amount.artifacts -= 1;
                remove_bytes(&mut amount.bytes, artifact.size());
                if amount.artifacts == 0 {
                    self.only_at.remove(&worker);
                }
            }
        }
        for job in artifact.jobs() {
            if let Some(totals) = self.totals.get_mut(job) {
                totals.amount.artifacts -= 1;
                remove_bytes(&mut totals.amount.bytes, artifact.size());
                totals.copies -= artifact.copies().len() as u64;
                totals.without_copy -= u64::from(artifact.is_lost());
                if totals.amount.artifacts == 0 {
                    self.totals.remove(job);
                }
            }
        }
    }

    pub fn list_all(&mut self, id: ArtifactId, artifact: &KnownArtifact) {
        for copy in artifact.copies() {
            self.list(id, artifact, copy);
        }
    }

    pub fn unlist_all(&mut self, id: ArtifactId, artifact: &KnownArtifact) {
        for copy in artifact.copies() {
            self.unlist(id, artifact, copy);
        }
    }

    pub fn list_if_unwanted(&mut self, id: ArtifactId, artifact: &KnownArtifact, disk: DiskNumber) {
        if let Some(copy) = unwanted_copy(artifact, disk) {
            self.list(id, artifact, copy);
        }
    }

    pub fn unlist_if_unwanted(
        &mut self,
        id: ArtifactId,
        artifact: &KnownArtifact,
        disk: DiskNumber,
    ) {
        if let Some(copy) = unwanted_copy(artifact, disk) {
            self.unlist(id, artifact, copy);
        }
    }

    fn list(&mut self, id: ArtifactId, artifact: &KnownArtifact, copy: &KnownCopy) {
        let disk = self.unwanted.entry(copy.place.disk).or_default();
        disk.insert((artifact.unwanted_since(copy), id));
    }

    fn unlist(&mut self, id: ArtifactId, artifact: &KnownArtifact, copy: &KnownCopy) {
        if let Some(disk) = self.unwanted.get_mut(&copy.place.disk) {
            disk.remove(&(artifact.unwanted_since(copy), id));
            if disk.is_empty() {
                self.unwanted.remove(&copy.place.disk);
            }
        }
    }

    fn staying(&self, artifact: &KnownArtifact, most: usize) -> Vec<WorkerNumber> {
        artifact.workers(most, |worker| !self.leaving.contains(&worker))
    }

    /// Returns whether a worker with a copy leaves, and no other worker has one that neither leaves nor is doubtful.
    fn is_left_to_doubtful(&self, artifact: &KnownArtifact) -> bool {
        let is_safe = |worker| !self.leaving.contains(&worker) && !self.doubtful.contains(&worker);
        artifact.has_name() && self.has_leaving(artifact) && artifact.workers(1, is_safe).is_empty()
    }

    /// Returns the workers with a copy that no other remaining worker has. An artifact that only running tasks read gets no further copies, so
    /// that no worker waits for one. No worker leaves an artifact to doubtful workers alone.
    fn indispensable(&self, artifact: &KnownArtifact) -> Vec<WorkerNumber> {
        if !artifact.has_name() {
            return Vec::new();
        }
        let staying = self.staying(artifact, 2);
        match staying.len() {
            _ if self.is_left_to_doubtful(artifact) => artifact.workers(usize::MAX, |_| true),
            0 => artifact.workers(usize::MAX, |_| true),
            1 => staying,
            _ => Vec::new(),
        }
    }
}

fn unwanted_copy(artifact: &KnownArtifact, disk: DiskNumber) -> Option<&KnownCopy> {
    if artifact.is_wanted() {
        return None;
    }
    // The newest copy is last, and most often the one in question.
    let mut copies = artifact.copies().iter().rev();
    copies.find(|copy| copy.place.disk == disk)
}

/// Adds modulo 2^64. Sizes come from workers, and a wrong one must neither stop the scheduler nor remain in the sum.
fn add_bytes(sum: &mut u64, size: u64) {
    *sum = sum.wrapping_add(size);
}

/// Inverts [`add_bytes`].
fn remove_bytes(sum: &mut u64, size: u64) {
    *sum = sum.wrapping_sub(size);
}

#[cfg(test)]
impl Indexes {
    pub fn leaving_or_doubtful(&self) -> impl Iterator<Item = &WorkerNumber> {
        self.leaving.union(&self.doubtful)
    }

    pub fn disks_with_unwanted(&self) -> impl Iterator<Item = DiskNumber> {
        self.unwanted.keys().copied()
    }
}
