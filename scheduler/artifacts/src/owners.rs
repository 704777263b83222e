//! The sessions that own sets, and their heartbeats.
//!
//! A session that expires is forgotten together with its claim on its sets. A late heartbeat begins a new session with the same name, which
//! owns nothing yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{JobName, Time};

use super::types::OwnerId;

/// The effect of a heartbeat of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerHeartbeat {
    /// The session is new, or had expired. It owns no sets.
    Began,
    Continued,
}

#[derive(Clone, Debug)]
struct Session {
    last_heartbeat: Time,
    jobs: BTreeSet<JobName>,
}

/// All sessions. Invariant: `by_heartbeat` has each session once, under its last heartbeat.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    sessions: BTreeMap<OwnerId, Session>,
    by_heartbeat: BTreeSet<(Time, OwnerId)>,
}

impl Owners {
    pub fn heartbeat(&mut self, owner: &OwnerId, now: Time) -> OwnerHeartbeat {
        let effect = match self.sessions.get_mut(owner) {
            Some(session) => {
                let last = std::mem::replace(&mut session.last_heartbeat, now);
                self.by_heartbeat.remove(&(last, owner.clone()));
                OwnerHeartbeat::Continued
            }
            None => {
                let session = Session {
                    last_heartbeat: now,
                    jobs: BTreeSet::new(),
                };
                self.sessions.insert(owner.clone(), session);
                OwnerHeartbeat::Began
            }
        };
        self.by_heartbeat.insert((now, owner.clone()));
        effect
    }

    /// Counts the present as a heartbeat of all sessions.
    pub fn renew_all(&mut self, now: Time) {
        let owners: Vec<OwnerId> = self.sessions.keys().cloned().collect();
        for owner in &owners {
            self.heartbeat(owner, now);
        }
    }

    /// Gives a session another set, which counts as a heartbeat.
    pub fn add_job(&mut self, owner: &OwnerId, job: &JobName, now: Time) {
        self.heartbeat(owner, now);
        if let Some(session) = self.sessions.get_mut(owner) {
            session.jobs.insert(job.clone());
        }
    }

    pub fn remove_job(&mut self, owner: &OwnerId, job: &JobName) {
        if let Some(session) = self.sessions.get_mut(owner) {
            session.jobs.remove(job);
        }
    }

    /// Forgets a session. Returns the jobs whose sets it owned.
    pub fn end(&mut self, owner: &OwnerId) -> BTreeSet<JobName> {
        let Some(session) = self.sessions.remove(owner) else {
            return BTreeSet::new();
        };
        let entry = (session.last_heartbeat, owner.clone());
        self.by_heartbeat.remove(&entry);
        session.jobs
    }

    /// Returns when a session expires without another heartbeat; `None` if it has expired.
    pub fn expiry(&self, owner: &OwnerId, timeout: Duration) -> Option<Time> {
        Some(self.sessions.get(owner)?.last_heartbeat + timeout)
    }

    /// Returns the time of the next expiry.
    pub fn next_expiry(&self, timeout: Duration) -> Option<Time> {
        Some(self.by_heartbeat.first()?.0 + timeout)
    }

    /// Forgets a session that has been silent for the timeout. Returns the jobs whose sets it owned; none if no session has.
    pub fn expire_one(&mut self, timeout: Duration, now: Time) -> Option<BTreeSet<JobName>> {
        let (last, owner) = self.by_heartbeat.first()?;
        if *last + timeout > now {
            return None;
        }
        let owner = owner.clone();
        Some(self.end(&owner))
    }
}

#[cfg(test)]
impl Owners {
    /// Checks the invariant, and that the sessions own exactly these sets.
    pub fn check(&self, expected: BTreeSet<(OwnerId, JobName)>) {
        let sessions = self.sessions.iter();
        let by_heartbeat = sessions.map(|(owner, session)| (session.last_heartbeat, owner.clone()));
        assert_eq!(self.by_heartbeat, by_heartbeat.collect::<BTreeSet<_>>());
        let owned = self.sessions.iter().flat_map(|(owner, session)| {
            let jobs = session.jobs.iter();
            jobs.map(|job| (owner.clone(), job.clone()))
        });
        assert_eq!(owned.collect::<BTreeSet<_>>(), expected);
    }
}
