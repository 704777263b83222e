//! Changes of jobs at the request of callers.

use std::sync::Arc;

use brasserie_common::{Hold, JobName, NodeName, Principal, RequestId, Time, WallTime};
use brasserie_common_config::{Config, JobConfig, ParsedJob, Place, Problem};
use brasserie_scheduler_engine::Reason;

use super::slices::What;
use super::{
    Awaited, Given, JobChanged, JobRefusal, Jobs, MAX_HELD_JOBS, MAX_JOB_BYTES, MAX_SAVED_BYTES,
    MAX_SAVED_JOBS, Standing, parse, stamp,
};
use crate::news::News;
use crate::record::{JobVersion, Record, SavedJob};
use crate::scheduler::Scheduler;
use crate::scheduler::effect::Reply;
use crate::scheduler::replies::HeldReply;

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

impl Scheduler {
    /// Puts changed jobs in force. All changes of a turn take effect together, because each time costs a check of every job's position.
    pub(crate) fn put_jobs_in_force(&mut self, now: Time) {
        let Some(config) = self.jobs_mut().take_changed() else {
            return;
        };
        self.keep_config();
        self.initial_wait_mut()
            .config_override(config.exit_initial_wait_before_timestamp);
        self.apply_config(now, config);
        self.forget_estimates();
    }

    pub(crate) fn change_job(
        &mut self,
        now: Time,
        (request, from): (RequestId, Principal),
        job: JobName,
        change: JobChange,
    ) {
        if let Some(why) = self.store_error() {
            let refusal = JobRefusal::StoreFails(why.to_owned());
            return self.reply(request, Reply::JobChanged(Err(refusal)));
        }
        let decided = match change {
            JobChange::Save { text, expected } => self.save_job(&job, text, expected),
            JobChange::Delete { expected } => self.delete_job(&job, expected),
            JobChange::Pause => self.hold_job(&job, Hold::Paused),
            JobChange::Cancel => self.hold_job(&job, Hold::Cancelled),
            JobChange::Resume => self.resume_job(&job),
            JobChange::Forgive => match self.forgive_job(now, request, &job, What::Forgive) {
                // The answer leaves when the last of the tasks is forgiven.
                Ok(()) => {
                    return self.note_asked(from, format!("forgave the tasks of job `{job}`"));
                }
                Err(refusal) => Err(refusal),
            },
            JobChange::ForgiveFailed => {
                match self.forgive_job(now, request, &job, What::ForgiveFailed) {
                    Ok(()) => {
                        let text = format!("forgave the failed tasks of job `{job}`");
                        return self.note_asked(from, text);
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            JobChange::DeleteHistory { nodes } => {
                match self.delete_history(now, request, &job, &nodes) {
                    // This answer also leaves when the last task is handled.
                    Ok(()) => {
                        let what = format!("deleted the history of job `{job}`");
                        return self.note_asked(from, what);
                    }
                    Err(refusal) => Err(refusal),
                }
            }
        };
        match decided {
            Ok((record, changed)) => {
                self.note_asked(from, what_was_done(&job, &changed));
                let seq = self.persist(record);
                let reply = Reply::JobChanged(Ok(changed));
                self.reply_after(now, (request, Some(seq)), reply, HeldReply::JobChange);
            }
            Err(refusal) => self.reply(request, Reply::JobChanged(Err(refusal))),
        }
    }

    pub(crate) fn note_asked(&mut self, by: Principal, what: String) {
        self.note_news(News::Asked { by, what });
    }

    fn save_job(
        &mut self,
        job: &JobName,
        text: Arc<str>,
        expected: ExpectedVersion,
    ) -> Result<(Record, JobChanged), JobRefusal> {
        let wall = self.wall();
        let (seq, jobs) = (self.next_record(), self.jobs_mut());
        let (given, mut warnings) = jobs.consider(job, text, expected, wall)?;
        let file = jobs.file.as_ref().map(|file| Arc::clone(&file.config));
        warnings.extend(self.never_starts(file.as_deref(), given.read.as_deref()));
        let jobs = self.jobs_mut();
        let saved = given.saved.clone();
        jobs.last_version = saved.version;
        let save = Awaited::Save(Box::new(given));
        jobs.awaited.insert(seq, (job.clone(), save));
        let version = saved.version;
        let job = job.clone();
        let record = Record::JobSaved { job, saved };
        Ok((record, JobChanged::Saved { version, warnings }))
    }

    /// Returns why no task of a job could start with the present nodes and workers. The job is accepted all the same, since more may come.
    fn never_starts(&self, file: Option<&Config>, job: Option<&JobConfig>) -> Vec<Problem> {
        let (Some(file), Some(job), Some(config)) = (file, job, self.engine().config()) else {
            return Vec::new();
        };
        // The engine does not have a file that has just changed, and its resource numbers may mean other resources.
        if !config.reads_jobs_as(file) {
            return Vec::new();
        }
        let reasons = self.engine().infeasible(job).into_iter();
        let problem =
            |reason: Reason| Problem::new(Place::START, String::new(), reason.to_string());
        reasons.map(problem).collect()
    }

    fn delete_job(
        &mut self,
        job: &JobName,
        expected: ExpectedVersion,
    ) -> Result<(Record, JobChanged), JobRefusal> {
        let (seq, jobs) = (self.next_record(), self.jobs_mut());
        let Some(found) = jobs.latest(job).map(|given| given.saved.version) else {
            return Err(self.not_given(job));
        };
        // A deletion depends on a version only if it names one.
        if let ExpectedVersion::Exactly(_) = expected {
            expect(job, Some(found), expected)?;
        }
        jobs.take_out(job);
        jobs.awaited.retain(|_, (name, _)| name != job);
        jobs.held.remove(job);
        jobs.last_version = jobs.last_version.next();
        jobs.standing = Standing::Changed;
        jobs.awaited.insert(seq, (job.clone(), Awaited::Deletion));
        let version = jobs.last_version;
        let job = job.clone();
        Ok((Record::JobDeleted { job, version }, JobChanged::Deleted))
    }

    /// Pauses or cancels the job. The last hold counts: a pause of a cancelled job stops the killing of its running tasks.
    fn hold_job(&mut self, job: &JobName, hold: Hold) -> Result<(Record, JobChanged), JobRefusal> {
        let jobs = self.jobs_mut();
        if jobs.held.get(job) != Some(&hold) {
            if jobs.latest(job).is_none() && !jobs.in_file(job) {
                return Err(JobRefusal::Unknown(self.unknown_job(job.as_str())));
            }
            if jobs.held.len() >= MAX_HELD_JOBS && !jobs.held.contains_key(job) {
                return Err(JobRefusal::TooManyHeld);
            }
            jobs.held.insert(job.clone(), hold);
            jobs.together.note(job);
            jobs.standing = Standing::Changed;
        }
        jobs.awaited
            .retain(|_, (name, awaited)| name != job || !matches!(awaited, Awaited::Resume));
        let changed = match hold {
            Hold::Paused => JobChanged::Paused,
            Hold::Cancelled => JobChanged::Cancelled {
                running: self.running_of(job),
            },
        };
        let job = job.clone();
        Ok((Record::JobHeld { job, hold }, changed))
    }

    fn running_of(&self, job: &JobName) -> u64 {
        let id = self.engine().find_job(job.as_str());
        id.map_or(0, |id| self.tasks().runs_of(id).count() as u64)
    }

    fn resume_job(&mut self, job: &JobName) -> Result<(Record, JobChanged), JobRefusal> {
        let (seq, jobs) = (self.next_record(), self.jobs_mut());
        if jobs.held.contains_key(job) {
            jobs.awaited.insert(seq, (job.clone(), Awaited::Resume));
        } else if jobs.latest(job).is_none() && !jobs.in_file(job) {
            return Err(JobRefusal::Unknown(self.unknown_job(job.as_str())));
        }
        let job = job.clone();
        Ok((Record::JobResumed { job }, JobChanged::Resumed))
    }

    fn not_given(&self, job: &JobName) -> JobRefusal {
        match self.jobs().in_file(job) {
            true => JobRefusal::InFile(job.clone()),
            false => JobRefusal::Unknown(self.unknown_job(job.as_str())),
        }
    }
}

impl Jobs {
    /// Checks whether a job may be saved with this text. Returns the job and its warnings.
    fn consider(
        &self,
        job: &JobName,
        text: Arc<str>,
        expected: ExpectedVersion,
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

/// Describes a change for the log: a verb in the past tense, with its object.
fn what_was_done(job: &JobName, changed: &JobChanged) -> String {
    match changed {
        JobChanged::Saved { version, .. } => format!("submitted version {version} of job `{job}`"),
        JobChanged::Deleted => format!("deleted job `{job}`"),
        JobChanged::Paused => format!("paused job `{job}`"),
        JobChanged::Cancelled { running } => {
            format!("cancelled job `{job}`, of which {running} tasks run")
        }
        JobChanged::Resumed => format!("resumed job `{job}`"),
        JobChanged::Forgiven { tasks } => format!("forgave {tasks} tasks of job `{job}`"),
        JobChanged::HistoryDeleted { tasks, .. } => {
            format!("deleted the history of {tasks} tasks of job `{job}`")
        }
    }
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
