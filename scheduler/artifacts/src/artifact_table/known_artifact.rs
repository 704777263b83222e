//! One artifact: its names, pins and copies.

use brasserie_common::{JobName, Time};

use super::super::disks::{CopyPlace, WorkerNumber};
use super::super::types::Replicas;

/// A copy, and the time since which it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCopy {
    pub place: CopyPlace,
    pub since: Time,
}

/// The number of names that tasks of one job have for an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamingJob {
    job: JobName,
    names: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownArtifact {
    /// The size in bytes, which the first name told.
    size: Option<u64>,
    /// The number of replicas that the most demanding name wants; none without a name.
    replicas: Option<Replicas>,
    /// The jobs of the tasks that name the artifact, sorted.
    jobs: Vec<NamingJob>,
    pins: u32,
    /// The copies, the newest last. There are at most as many as disks, and mostly a few.
    copies: Vec<KnownCopy>,
    /// The time since which nothing refers to the artifact; without meaning while something does.
    unwanted_since: Time,
}

impl KnownArtifact {
    pub fn new(now: Time) -> Self {
        KnownArtifact {
            size: None,
            replicas: None,
            jobs: Vec::new(),
            pins: 0,
            copies: Vec::new(),
            unwanted_since: now,
        }
    }

    /// Adds a name of a task of this job. `replicas` is the largest number of all names.
    pub fn add_name(&mut self, size: u64, job: &JobName, replicas: Option<Replicas>) {
        self.size.get_or_insert(size);
        self.replicas = replicas;
        match self.find_job(job) {
            Ok(at) => self.jobs[at].names += 1,
            Err(at) => {
                let job = job.clone();
                reserve_first(&mut self.jobs);
                self.jobs.insert(at, NamingJob { job, names: 1 });
            }
        }
    }

    /// Removes a name of a task of this job. `replicas` is the largest number of the others.
    pub fn remove_name(&mut self, job: &JobName, replicas: Option<Replicas>) {
        self.replicas = replicas;
        if let Ok(at) = self.find_job(job) {
            self.jobs[at].names -= 1;
            if self.jobs[at].names == 0 {
                self.jobs.remove(at);
            }
        }
    }

    pub fn add_pin(&mut self) {
        self.pins += 1;
    }

    pub fn remove_pin(&mut self) {
        self.pins = self.pins.saturating_sub(1);
    }

    pub fn add_copy(&mut self, place: CopyPlace, now: Time) {
        reserve_first(&mut self.copies);
        self.copies.push(KnownCopy { place, since: now });
    }

    pub fn renew_copy(&mut self, place: CopyPlace, now: Time) {
        let copy = self.copies.iter_mut().find(|copy| copy.place == place);
        if let Some(copy) = copy {
            copy.since = now;
        }
    }

    pub fn remove_copy(&mut self, place: CopyPlace) {
        self.copies.retain(|copy| copy.place != place);
    }

    pub fn begin_unwanted(&mut self, now: Time) {
        self.unwanted_since = now;
    }

    pub fn is_wanted(&self) -> bool {
        self.replicas.is_some() || self.pins > 0
    }

    /// Returns whether a live output refers to the artifact.
    pub fn has_name(&self) -> bool {
        self.replicas.is_some()
    }

    pub fn is_lost(&self) -> bool {
        self.has_name() && self.copies.is_empty()
    }

    /// Returns the size in bytes; 0 if the artifact never had a name.
    pub fn size(&self) -> u64 {
        self.size.unwrap_or(0)
    }

    pub fn jobs(&self) -> impl Iterator<Item = &JobName> {
        self.jobs.iter().map(|naming| &naming.job)
    }

    pub fn copies(&self) -> &[KnownCopy] {
        &self.copies
    }

    /// Returns the number of replicas that the most demanding name wants; 0 without a name.
    pub fn replicas_wanted(&self) -> usize {
        self.replicas.map_or(0, Replicas::get)
    }

    /// Returns the time since which a copy is known as unwanted, if nothing refers to the artifact.
    pub fn unwanted_since(&self, copy: &KnownCopy) -> Time {
        self.unwanted_since.max(copy.since)
    }

    /// Returns the workers with copies that satisfy `condition`, each once, at most `most` of them.
    pub fn workers(
        &self,
        most: usize,
        condition: impl Fn(WorkerNumber) -> bool,
    ) -> Vec<WorkerNumber> {
        let mut found = Vec::new();
        for copy in &self.copies {
            let worker = copy.place.worker;
            if found.len() == most {
                break;
            }
            if condition(worker) && !found.contains(&worker) {
                found.push(worker);
            }
        }
        found
    }

    fn find_job(&self, job: &JobName) -> Result<usize, usize> {
        self.jobs.binary_search_by(|naming| naming.job.cmp(job))
    }
}

/// Reserves the place of a first item only: most artifacts have one copy and one job, and there may be millions of them.
fn reserve_first<T>(items: &mut Vec<T>) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
}
