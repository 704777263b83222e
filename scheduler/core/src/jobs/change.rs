//! Changes of jobs at the request of callers: what they are, and whether and how each changes the jobs.

use std::sync::Arc;

use brasserie_common::access::RunAs;
use brasserie_common::{Hold, JobName, NodeName, Principal, RecordSeq, WallTime};
use brasserie_common_config::{Config, JobConfig, ParsedJob, Problem};

use super::{
    Awaited, EngineConfigState, Given, JobRefusal, Jobs, MAX_HELD_JOBS, MAX_JOB_BYTES,
    MAX_SAVED_BYTES, MAX_SAVED_JOBS, parse, stamp,
};
use crate::owners::{bounded, owner_of};
use crate::record::{JobVersion, Record, SavedJob};

/// A change of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobChange {
    /// Saves a job through the API. The text is JSON, as in a config file under the job's key.
    Save {
        text: Arc<str>,
        expected: ExpectedVersion,
    },
    /// Deletes a job that was saved through the API.
    Delete {
        expected: ExpectedVersion,
    },
    /// Starts no task of the job until it is resumed.
    Pause,
    /// Starts no task of the job, and kills its running tasks.
    Cancel,
    Resume,
    /// Forgives the failures of the job's tasks: no task counts as failed for good, and backoffs begin again.
    Forgive,
    /// Forgives only the tasks that have failed for good. Backoffs of other tasks go on.
    ForgiveFailed,
    /// Deletes the completions of the job's tasks on these nodes, or on all nodes if the list is empty. The job need not exist any more.
    DeleteHistory {
        nodes: Vec<NodeName>,
    },
    /// Forgets the outputs of the job's tasks on these nodes, or on all nodes if the list is empty. The job need not exist any more.
    ForgetOutputs {
        nodes: Vec<NodeName>,
        needed: NeededOutputs,
    },
    /// Holds the outputs of a job with `keep = "while_held"` for the next minutes, or ends that.
    HoldOutputs {
        hold: OutputHold,
        holder: HoldId,
    },
}

/// The number of a hold, which its client draws. Clients that name none share a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldId(pub Option<i64>);

/// The wish of a client about the outputs that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputHold {
    /// The outputs stay for the next minutes.
    Continue,
    /// The client does not need them any more. They stay as long as others hold them.
    End,
}

/// Whether outputs are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    Continued,
    /// The hold has ended, so the outputs are deleted as soon as no task needs them. Later ones can be held.
    Ended,
}

/// The treatment of outputs that tasks still need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededOutputs {
    /// The change is refused.
    Keep,
    /// The outputs are forgotten all the same.
    Forget,
}

/// The version of a job on which a change is based. The change is refused if the job has another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// The text's `version_id`; a text without one expects that the job does not exist. A deletion has no text, and expects nothing.
    AsTextSays,
    Nothing,
    Exactly(JobVersion),
    /// Any version, or no job.
    Any,
}

/// The result of a change of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobChanged {
    /// The job is in force as soon as the caller gets this answer.
    Saved {
        version: JobVersion,
        /// Warnings about the text.
        warnings: Vec<Problem>,
        /// The text of the replaced version.
        before: Option<Arc<str>>,
    },
    Deleted {
        /// The text of the job.
        before: Option<Arc<str>>,
    },
    Paused {
        before: Option<Hold>,
    },
    /// The job is cancelled; `running` of its tasks still run.
    Cancelled {
        running: u64,
        before: Option<Hold>,
    },
    Resumed {
        before: Option<Hold>,
    },
    /// This many tasks have other statuses now.
    Forgiven {
        tasks: u64,
    },
    /// This many tasks have no history now.
    HistoryDeleted {
        tasks: u64,
        /// The tasks that were skipped because they are running or unsure.
        running: u64,
        /// The tasks that were skipped because a lost run may still be alive.
        maybe_alive: u64,
    },
    /// This many tasks have no outputs now.
    OutputsForgotten {
        tasks: u64,
        outputs: u64,
    },
    OutputsHeld(HoldState),
}

impl Jobs {
    /// Saves a job, once record `seq` is durable.
    pub(crate) fn save(
        &mut self,
        seq: RecordSeq,
        job: &JobName,
        (text, expected): (Arc<str>, ExpectedVersion),
        (from, wall): (&Principal, WallTime),
    ) -> Result<(Record, JobChanged), JobRefusal> {
        let before = self.text(job);
        let (given, warnings) = self.consider(job, (text, expected), from, wall)?;
        let saved = given.saved.clone();
        self.last_version = saved.version;
        let save = Awaited::Save(Box::new(given));
        self.awaited.insert(seq, (job.clone(), save));
        let version = saved.version;
        let job = job.clone();
        let record = Record::JobSaved { job, saved };
        let changed = JobChanged::Saved {
            version,
            warnings,
            before,
        };
        Ok((record, changed))
    }

    /// Returns the last save of an API job as it is read under the file in force, and the configuration of this file.
    pub(crate) fn latest_read(&self, job: &JobName) -> Option<(&JobConfig, &Config)> {
        let read = self.latest(job)?.read.as_deref()?;
        Some((read, &self.file.as_ref()?.config))
    }

    /// Deletes an API job at once, with record `seq`. `unknown` is the sentence about an unknown job.
    pub(crate) fn delete(
        &mut self,
        seq: RecordSeq,
        job: &JobName,
        expected: ExpectedVersion,
        unknown: impl FnOnce() -> String,
    ) -> Result<Record, JobRefusal> {
        let Some(found) = self.latest(job).map(|given| given.saved.version) else {
            return Err(match self.in_file(job) {
                true => JobRefusal::InFile(job.clone()),
                false => JobRefusal::Unknown(unknown()),
            });
        };
        // A deletion depends on a version only if it names one.
        if let ExpectedVersion::Exactly(_) = expected {
            expect(job, Some(found), expected)?;
        }
        self.take_out(job);
        self.awaited.retain(|_, (name, _)| name != job);
        self.held.remove(job);
        self.last_version = self.last_version.next();
        self.in_force = EngineConfigState::Changed;
        self.awaited.insert(seq, (job.clone(), Awaited::Deletion));
        let version = self.last_version;
        let job = job.clone();
        Ok(Record::JobDeleted { job, version })
    }

    /// Pauses or cancels the job at once. The last hold counts: a pause of a cancelled job stops the killing of its running tasks.
    pub(crate) fn hold(
        &mut self,
        job: &JobName,
        hold: Hold,
        unknown: impl FnOnce() -> String,
    ) -> Result<Record, JobRefusal> {
        if self.held.get(job) != Some(&hold) {
            if !self.has(job) {
                return Err(JobRefusal::Unknown(unknown()));
            }
            if self.held.len() >= MAX_HELD_JOBS && !self.held.contains_key(job) {
                return Err(JobRefusal::TooManyHeld);
            }
            self.held.insert(job.clone(), hold);
            self.combined.mark_changed(job);
            self.in_force = EngineConfigState::Changed;
        }
        self.awaited
            .retain(|_, (name, awaited)| name != job || !matches!(awaited, Awaited::Resume));
        let job = job.clone();
        Ok(Record::JobHeld { job, hold })
    }

    /// Resumes the job, once record `seq` is durable.
    pub(crate) fn resume(
        &mut self,
        seq: RecordSeq,
        job: &JobName,
        unknown: impl FnOnce() -> String,
    ) -> Result<Record, JobRefusal> {
        if self.held.contains_key(job) {
            self.awaited.insert(seq, (job.clone(), Awaited::Resume));
        } else if !self.has(job) {
            return Err(JobRefusal::Unknown(unknown()));
        }
        let job = job.clone();
        Ok(Record::JobResumed { job })
    }

    /// Checks whether a job may be saved with this text. Returns the job and its warnings.
    fn consider(
        &self,
        job: &JobName,
        (text, expected): (Arc<str>, ExpectedVersion),
        from: &Principal,
        wall: WallTime,
    ) -> Result<(Given, Vec<Problem>), JobRefusal> {
        if text.len() > MAX_JOB_BYTES {
            return Err(JobRefusal::TooLong(text.len()));
        }
        if self.in_file(job) {
            return Err(JobRefusal::InFile(job.clone()));
        }
        let config = &self.file.as_ref().ok_or(JobRefusal::NoConfig)?.config;
        let (count, bytes) = self.others(job);
        if count >= MAX_SAVED_JOBS {
            return Err(JobRefusal::TooMany);
        }
        if bytes + text.len() > MAX_SAVED_BYTES {
            return Err(JobRefusal::TooMuch);
        }
        let before = self.latest(job).map(|given| &given.saved);
        let saved = SavedJob {
            version: self.last_version.next(),
            created: before.map_or(wall, |before| before.created),
            modified: wall,
            text,
            owner: match before {
                Some(before) => before.owner.clone(),
                None => owner_of(from).cloned(),
            },
        };
        let ParsedJob {
            job: mut read,
            mut warnings,
            problems,
        } = parse(job, &saved.text, config).map_err(|errors| JobRefusal::Bad(errors.0))?;
        if !problems.is_empty() {
            return Err(JobRefusal::Bad(problems));
        }
        let expected = match expected {
            ExpectedVersion::AsTextSays => match read.version_id {
                ..0 => ExpectedVersion::Nothing,
                version => ExpectedVersion::Exactly(JobVersion(version)),
            },
            ExpectedVersion::Nothing | ExpectedVersion::Exactly(_) | ExpectedVersion::Any => {
                expected
            }
        };
        expect(job, before.map(|before| before.version), expected)?;
        check_account(from, &read, config)?;
        self.check_circle(&read)?;
        warnings.extend(self.missing(&read));
        stamp(&mut read, &saved);
        let read = Some(read.into());
        Ok((Given { saved, read }, warnings))
    }

    /// Errors if the job would wait for itself.
    fn check_circle(&self, job: &JobConfig) -> Result<(), JobRefusal> {
        match self.circle(job) {
            Some(way) => {
                let names: Vec<&str> = way.iter().map(JobName::as_str).collect();
                Err(JobRefusal::Circle(names.join(" -> ")))
            }
            None => Ok(()),
        }
    }
}

/// Errors if the job names an account that is neither that of the settings nor granted to the caller. Operators may name all.
fn check_account(from: &Principal, job: &JobConfig, config: &Config) -> Result<(), JobRefusal> {
    let (own, usual) = (&job.task_subprocess, &config.task_subprocess);
    let is_usual = (&own.user, &own.group) == (&usual.user, &usual.group);
    let (Some(identity), false) = (bounded(from), is_usual) else {
        return Ok(());
    };
    // Invariant: there is no group without a user, and a job cannot take back the user of the settings.
    let Some(user) = own.user.clone() else {
        return Ok(());
    };
    let wanted = RunAs {
        user,
        group: own.group.clone(),
    };
    if identity.run_as.contains(&wanted) {
        return Ok(());
    }
    let owner = identity.owner.as_deref().unwrap_or_default().to_owned();
    Err(JobRefusal::NotGranted { wanted, owner })
}

/// Errors if the existing version is not the expected one.
fn expect(
    job: &JobName,
    found: Option<JobVersion>,
    expected: ExpectedVersion,
) -> Result<(), JobRefusal> {
    let job = || job.clone();
    match (expected, found) {
        (ExpectedVersion::Exactly(expected), Some(found)) if found != expected => {
            Err(JobRefusal::Stale {
                job: job(),
                expected,
                found,
            })
        }
        (ExpectedVersion::Exactly(expected), None) => Err(JobRefusal::Gone {
            job: job(),
            expected,
        }),
        (ExpectedVersion::Nothing | ExpectedVersion::AsTextSays, Some(version)) => {
            Err(JobRefusal::Exists {
                job: job(),
                version,
            })
        }
        (_, Some(_) | None) => Ok(()),
    }
}
