//! The sets of outputs, one for each job: who owns a set, who consumes it, and when it expires.
//!
//! This module knows no outputs. Its caller reports that a set was written or consumed, and makes the outputs of expired sets expire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{JobName, Time, WallTime};

use super::owners::{OwnerHeartbeat, Owners};
use super::types::{Clocks, OwnerId};

/// The owner of a set. A set lives no longer than its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetOwner {
    /// The scheduler itself, for jobs of its config file. It never expires.
    Scheduler,
    Session(OwnerId),
}

/// The time for which a set is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRetention {
    /// The set expires when all jobs that consume it have finished. A set without consumers is kept.
    UntilConsumed,
    /// The set expires this time after it was last written or consumed.
    For(Duration),
    Forever,
}

/// The conditions under which a set lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTerms {
    pub owner: SetOwner,
    pub retention: SetRetention,
}

/// The event that ends a set whatever its retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetEnding {
    /// The session that owned the set has expired or ended. The set expires at once.
    OwnerExpired,
    /// The job is deleted. The set expires after a grace, within which the job may return.
    JobDeleted,
}

/// Whether a set has expired.
///
/// ```text
///          expires
///   Live ----------> Expired
///     ^                 |
///     +--- is written --+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetState {
    /// Its outputs count, but for those that an earlier expiry took.
    Live,
    /// No output counts until a task of the job succeeds again.
    Expired,
}

#[derive(Clone, Debug)]
pub struct ArtifactSet {
    terms: SetTerms,
    consumers: BTreeSet<JobName>,
    /// The tasks of the job that run or wait; `None` while unknown.
    unfinished_producers: Option<u64>,
    /// The tasks of the consumers that run or wait; `None` while unknown.
    unfinished_consumers: Option<u64>,
    /// The time at which the set was last written or consumed.
    touched: WallTime,
    /// The time since which producers and consumers are finished.
    idle_since: Option<Time>,
    ending: Option<(SetEnding, Time)>,
    state: SetState,
    due: Option<Time>,
}

impl ArtifactSet {
    fn new(terms: SetTerms, touched: WallTime) -> Self {
        ArtifactSet {
            terms,
            consumers: BTreeSet::new(),
            unfinished_producers: None,
            unfinished_consumers: None,
            touched,
            idle_since: None,
            ending: None,
            state: SetState::Live,
            due: None,
        }
    }

    pub fn terms(&self) -> &SetTerms {
        &self.terms
    }

    pub fn consumers(&self) -> &BTreeSet<JobName> {
        &self.consumers
    }

    pub fn touched(&self) -> WallTime {
        self.touched
    }

    pub fn ending(&self) -> Option<SetEnding> {
        self.ending.map(|(ending, _)| ending)
    }

    pub fn state(&self) -> SetState {
        self.state
    }

    /// Returns the time of the expiry, as far as it is known.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Returns whether all producers and consumers have finished. Unknown numbers count as unfinished.
    fn is_idle(&self) -> bool {
        self.unfinished_producers == Some(0) && self.unfinished_consumers == Some(0)
    }

    /// Derives the time of the expiry.
    fn settle(&mut self, grace: Duration, now: Clocks) {
        if !self.is_idle() {
            self.idle_since = None;
            self.due = None;
            return;
        }
        let idle_since = *self.idle_since.get_or_insert(now.time);
        let by_retention = match self.terms.retention {
            SetRetention::UntilConsumed if self.consumers.is_empty() => None,
            SetRetention::UntilConsumed => Some(idle_since + grace),
            // A wall clock that was set back does not prolong the time.
            SetRetention::For(time) => {
                Some(now.time + now.wall.until(self.touched + time).min(time))
            }
            SetRetention::Forever => None,
        };
        let by_ending = self.ending.map(|(ending, since)| match ending {
            SetEnding::OwnerExpired => since,
            SetEnding::JobDeleted => since + grace,
        });
        self.due = match self.state {
            SetState::Live => by_retention.into_iter().chain(by_ending).min(),
            SetState::Expired => None,
        };
    }
}

/// All sets and their owners. Invariants: `due` has the due time of each set that has one; the owner of each set that is a session and has
/// not expired lists it.
#[derive(Clone, Debug)]
pub struct Sets {
    grace: Duration,
    owner_timeout: Duration,
    sets: BTreeMap<JobName, ArtifactSet>,
    owners: Owners,
    due: BTreeSet<(Time, JobName)>,
}

impl Sets {
    pub fn new(grace: Duration, owner_timeout: Duration) -> Self {
        Sets {
            grace,
            owner_timeout,
            sets: BTreeMap::new(),
            owners: Owners::default(),
            due: BTreeSet::new(),
        }
    }

    /// Creates a set, or changes its terms. A deleted job has returned by this. The expiry of an owner is final, unless another owner takes
    /// the set over.
    pub fn define(&mut self, job: &JobName, terms: SetTerms, now: Clocks) {
        self.change(job, now, |set, owners| {
            if set.terms.owner != terms.owner {
                set.ending = None;
            }
            match set.ending {
                Some((SetEnding::JobDeleted, _)) => set.ending = None,
                Some((SetEnding::OwnerExpired, _)) | None => {}
            }
            if let SetOwner::Session(owner) = &set.terms.owner {
                owners.remove_job(owner, job);
            }
            set.terms = terms;
            if let (SetOwner::Session(owner), None) = (&set.terms.owner, set.ending) {
                owners.add_job(owner, job, now.time);
            }
        });
    }

    /// Adds a set that the scheduler knew before its restart.
    pub fn restore(
        &mut self,
        job: &JobName,
        terms: SetTerms,
        (consumers, touched): (BTreeSet<JobName>, WallTime),
        ending: Option<SetEnding>,
        now: Clocks,
    ) {
        self.change(job, now, |set, owners| {
            if let (SetOwner::Session(owner), None | Some(SetEnding::JobDeleted)) =
                (&terms.owner, ending)
            {
                owners.add_job(owner, job, now.time);
            }
            set.terms = terms;
            set.consumers = consumers;
            set.touched = touched;
            set.ending = ending.map(|ending| (ending, now.time));
        });
    }

    /// Sets when a set was last written or consumed before the restart. Ignores unknown sets.
    pub fn restore_use(&mut self, job: &JobName, last_use: WallTime, now: Clocks) {
        if self.sets.contains_key(job) {
            self.change(job, now, |set, _| set.touched = last_use);
        }
    }

    pub fn set_consumers(&mut self, job: &JobName, consumers: BTreeSet<JobName>, now: Clocks) {
        self.change(job, now, |set, _| {
            if set.consumers != consumers {
                set.consumers = consumers;
                set.idle_since = None;
            }
        });
    }

    pub fn set_unfinished_producers(&mut self, job: &JobName, tasks: u64, now: Clocks) {
        self.change(job, now, |set, _| set.unfinished_producers = Some(tasks));
    }

    pub fn set_unfinished_consumers(&mut self, job: &JobName, tasks: u64, now: Clocks) {
        self.change(job, now, |set, _| set.unfinished_consumers = Some(tasks));
    }

    /// Notes that a task of the job has succeeded. An expired set lives again, with this task's outputs.
    pub fn written(&mut self, job: &JobName, now: Clocks) {
        self.change(job, now, |set, _| {
            set.state = SetState::Live;
            set.touched = now.wall;
            set.idle_since = None;
        });
    }

    /// Notes that a consumer has succeeded. Ignores unknown sets.
    pub fn consumed(&mut self, job: &JobName, now: Clocks) {
        if self.sets.contains_key(job) {
            self.change(job, now, |set, _| set.touched = now.wall);
        }
    }

    /// Notes that the job is deleted. Ignores unknown sets.
    pub fn delete_job(&mut self, job: &JobName, now: Clocks) {
        if self.sets.contains_key(job) {
            self.change(job, now, |set, _| {
                set.ending.get_or_insert((SetEnding::JobDeleted, now.time));
            });
        }
    }

    /// Forgets a set whose job is deleted or whose owner has expired. Keeps others, whose jobs may write again.
    pub fn forget_ended(&mut self, job: &JobName) {
        if self.sets.get(job).is_none_or(|set| set.ending.is_none()) {
            return;
        }
        let Some(set) = self.sets.remove(job) else {
            return;
        };
        if let Some(due) = set.due {
            self.due.remove(&(due, job.clone()));
        }
        match &set.terms.owner {
            SetOwner::Scheduler => {}
            SetOwner::Session(owner) => self.owners.remove_job(owner, job),
        }
    }

    pub fn owner_expiry(&self, owner: &OwnerId) -> Option<Time> {
        self.owners.expiry(owner, self.owner_timeout)
    }

    pub fn owner_heartbeat(&mut self, owner: &OwnerId, now: Time) -> OwnerHeartbeat {
        self.owners.heartbeat(owner, now)
    }

    /// Counts the present as a heartbeat of all sessions.
    pub fn renew_owners(&mut self, now: Time) {
        self.owners.renew_all(now);
    }

    /// Ends a session. Its sets expire as if it had been silent for too long.
    pub fn end_owner(&mut self, owner: &OwnerId, now: Clocks) {
        let jobs = self.owners.end(owner);
        self.end_sets(&jobs, now);
    }

    /// Returns the time of the next expiry of a set or session.
    pub fn next_expiry(&self) -> Option<Time> {
        let set = self.due.first().map(|(due, _)| *due);
        let owner = self.owners.next_expiry(self.owner_timeout);
        set.into_iter().chain(owner).min()
    }

    /// Makes silent sessions expire, and the sets that are due. Returns the jobs of the latter.
    pub fn expire(&mut self, now: Clocks) -> Vec<JobName> {
        while let Some(jobs) = self.owners.expire_one(self.owner_timeout, now.time) {
            self.end_sets(&jobs, now);
        }
        let mut expired = Vec::new();
        while let Some((due, job)) = self.due.first()
            && *due <= now.time
        {
            let job = job.clone();
            self.change(&job, now, |set, _| set.state = SetState::Expired);
            expired.push(job);
        }
        expired
    }

    pub fn get(&self, job: &JobName) -> Option<(&JobName, &ArtifactSet)> {
        self.sets.get_key_value(job)
    }

    /// Returns the sets after `after` by job.
    pub fn list(&self, after: Option<&JobName>) -> impl Iterator<Item = (&JobName, &ArtifactSet)> {
        let lower = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.sets
            .range::<JobName, _>((lower, std::ops::Bound::Unbounded))
    }

    fn end_sets(&mut self, jobs: &BTreeSet<JobName>, now: Clocks) {
        for job in jobs {
            self.change(job, now, |set, _| {
                set.ending = Some((SetEnding::OwnerExpired, now.time));
            });
        }
    }

    /// Changes a set and keeps the order of due times. Creates an unknown set: nobody has said how long to keep it, so it is kept forever.
    fn change(
        &mut self,
        job: &JobName,
        now: Clocks,
        change: impl FnOnce(&mut ArtifactSet, &mut Owners),
    ) {
        let set = self.sets.entry(job.clone()).or_insert_with(|| {
            let terms = SetTerms {
                owner: SetOwner::Scheduler,
                retention: SetRetention::Forever,
            };
            ArtifactSet::new(terms, now.wall)
        });
        if let Some(due) = set.due {
            self.due.remove(&(due, job.clone()));
        }
        change(set, &mut self.owners);
        set.settle(self.grace, now);
        if let Some(due) = set.due {
            self.due.insert((due, job.clone()));
        }
    }
}

#[cfg(test)]
impl Sets {
    /// Checks the invariants.
    pub fn check(&self) {
        let due = self.sets.iter();
        let due = due.filter_map(|(job, set)| Some((set.due?, job.clone())));
        assert_eq!(self.due, due.collect::<BTreeSet<_>>());
        let owned = self.sets.iter().filter_map(|(job, set)| {
            let has_expired = set.ending() == Some(SetEnding::OwnerExpired);
            match &set.terms.owner {
                SetOwner::Session(owner) if !has_expired => Some((owner.clone(), job.clone())),
                SetOwner::Session(_) | SetOwner::Scheduler => None,
            }
        });
        self.owners.check(owned.collect());
    }
}
