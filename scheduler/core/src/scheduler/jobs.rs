//! Changes of jobs at the request of callers.

use std::sync::Arc;

use brasserie_common::{Hold, JobName, Principal, RequestId, Time};
use brasserie_common_config::{Place, Problem};
use brasserie_scheduler_engine::Reason;

use super::effect::Reply;
use super::replies::HeldReply;
use super::view::unknown_job;
use super::{Scheduler, View};
use crate::bulk_changes::BulkKind;
use crate::jobs::{ExpectedVersion, JobChange, JobChanged, JobRefusal};
use crate::news::News;
use crate::owners::{Owned, Owner, check_owner};
use crate::record::Record;

impl Scheduler {
    pub(super) fn change_job(
        &mut self,
        now: Time,
        (request, from): (RequestId, Principal),
        job: JobName,
        change: JobChange,
    ) {
        if let Some(why) = self.outbox.store_error() {
            let refusal = JobRefusal::StoreFails(why.to_owned());
            return self.outbox.reply(request, Reply::JobChanged(Err(refusal)));
        }
        if let Err(refusal) = self.view().may_change_job(&from, &job, &change) {
            return self.outbox.reply(request, Reply::JobChanged(Err(refusal)));
        }
        let decided = match change {
            JobChange::Save { text, expected } => self.save_job(&from, &job, (text, expected)),
            JobChange::Delete { expected } => self.delete_job(&job, expected),
            JobChange::Pause => self.hold_job(&job, Hold::Paused),
            JobChange::Cancel => self.hold_job(&job, Hold::Cancelled),
            JobChange::Resume => self.resume_job(&job),
            JobChange::Forgive => {
                let begun = self.forgive_job(now, request, &job, BulkKind::Forgive);
                let what = format!("forgave the tasks of job `{job}`");
                return self.bulk_change_begun((request, from), begun, what);
            }
            JobChange::ForgiveFailed => {
                let begun = self.forgive_job(now, request, &job, BulkKind::ForgiveFailed);
                let what = format!("forgave the failed tasks of job `{job}`");
                return self.bulk_change_begun((request, from), begun, what);
            }
            JobChange::DeleteHistory { nodes } => {
                let begun = self.delete_history(now, request, &job, &nodes);
                let what = format!("deleted the history of job `{job}`");
                return self.bulk_change_begun((request, from), begun, what);
            }
            JobChange::ForgetOutputs { nodes, needed } => {
                self.forget_outputs_of(now, &job, &nodes, needed)
            }
            // Nothing of it is stored, and it comes every few seconds.
            JobChange::HoldOutputs { hold, holder } => {
                let held = self.hold_outputs(now, &job, (hold, holder));
                return self.outbox.reply(request, Reply::JobChanged(held));
            }
        };
        match decided {
            Ok((record, changed)) => {
                let what = what_was_done(&job, &changed);
                self.notices.news(News::Asked { by: from, what });
                let seq = self.outbox.persist(record);
                let reply = Reply::JobChanged(Ok(changed));
                self.outbox
                    .reply_after(now, (request, Some(seq)), reply, HeldReply::JobChange);
            }
            Err(refusal) => self.outbox.reply(request, Reply::JobChanged(Err(refusal))),
        }
    }

    /// Handles the begin of a bulk change, whose answer leaves when the last of its tasks is handled.
    fn bulk_change_begun(
        &mut self,
        (request, by): (RequestId, Principal),
        begun: Result<(), JobRefusal>,
        what: String,
    ) {
        match begun {
            Ok(()) => self.notices.news(News::Asked { by, what }),
            Err(refusal) => self.outbox.reply(request, Reply::JobChanged(Err(refusal))),
        }
    }

    fn save_job(
        &mut self,
        from: &Principal,
        job: &JobName,
        text: (Arc<str>, ExpectedVersion),
    ) -> Result<(Record, JobChanged), JobRefusal> {
        let seq = self.outbox.next_record();
        let by = (from, self.wall);
        let (record, mut changed) = self.jobs.save(seq, job, text, by)?;
        if let JobChanged::Saved { warnings, .. } = &mut changed {
            warnings.extend(self.view().never_starts(job));
        }
        Ok((record, changed))
    }

    fn delete_job(
        &mut self,
        job: &JobName,
        expected: ExpectedVersion,
    ) -> Result<(Record, JobChanged), JobRefusal> {
        let seq = self.outbox.next_record();
        let unknown = || unknown_job(&self.engine, job.as_str());
        let before = self.jobs.text(job);
        let record = self.jobs.delete(seq, job, expected, unknown)?;
        Ok((record, JobChanged::Deleted { before }))
    }

    fn hold_job(&mut self, job: &JobName, hold: Hold) -> Result<(Record, JobChanged), JobRefusal> {
        let unknown = || unknown_job(&self.engine, job.as_str());
        let before = self.jobs.hold_of(job);
        let record = self.jobs.hold(job, hold, unknown)?;
        let changed = match hold {
            Hold::Paused => JobChanged::Paused { before },
            Hold::Cancelled => JobChanged::Cancelled {
                running: self.view().running_of(job),
                before,
            },
        };
        Ok((record, changed))
    }

    fn resume_job(&mut self, job: &JobName) -> Result<(Record, JobChanged), JobRefusal> {
        let seq = self.outbox.next_record();
        let unknown = || unknown_job(&self.engine, job.as_str());
        let before = self.jobs.hold_of(job);
        let record = self.jobs.resume(seq, job, unknown)?;
        Ok((record, JobChanged::Resumed { before }))
    }
}

impl View<'_> {
    /// Errors if the caller does not own the job that it wants to change.
    fn may_change_job(
        &self,
        from: &Principal,
        job: &JobName,
        change: &JobChange,
    ) -> Result<(), JobRefusal> {
        let owner = match (self.jobs.owner(job), change) {
            (Owner::Gone, JobChange::Save { .. }) => Owner::Caller,
            (owner, _) => owner,
        };
        Ok(check_owner(from, Owned::Job(job.as_str()), &owner)?)
    }

    /// Returns why no task of a job that was just saved could start with the present nodes and workers. The job is accepted all the same,
    /// since more may come.
    fn never_starts(&self, job: &JobName) -> Vec<Problem> {
        let Some(((job, file), config)) = self.jobs.latest_read(job).zip(self.engine.config())
        else {
            return Vec::new();
        };
        // The engine does not have a file that has just changed, and its resource numbers may mean other resources.
        if !config.reads_jobs_as(file) {
            return Vec::new();
        }
        let reasons = self.engine.infeasible(job).into_iter();
        let problem =
            |reason: Reason| Problem::new(Place::START, String::new(), reason.to_string());
        reasons.map(problem).collect()
    }

    fn running_of(&self, job: &JobName) -> u64 {
        let id = self.engine.find_job(job.as_str());
        id.map_or(0, |id| self.runs.runs_of(id).count() as u64)
    }
}

/// Describes a change for the log: a verb in the past tense, with its object.
fn what_was_done(job: &JobName, changed: &JobChanged) -> String {
    match changed {
        JobChanged::Saved { version, .. } => format!("submitted version {version} of job `{job}`"),
        JobChanged::Deleted { .. } => format!("deleted job `{job}`"),
        JobChanged::Paused { .. } => format!("paused job `{job}`"),
        JobChanged::Cancelled { running, .. } => {
            format!("cancelled job `{job}`; running tasks of it: {running}")
        }
        JobChanged::Resumed { .. } => format!("resumed job `{job}`"),
        JobChanged::Forgiven { tasks } => format!("forgave {tasks} tasks of job `{job}`"),
        JobChanged::HistoryDeleted { tasks, .. } => {
            format!("deleted the history of {tasks} tasks of job `{job}`")
        }
        JobChanged::OutputsForgotten { tasks, .. } => {
            format!("had the outputs of {tasks} tasks of job `{job}` forgotten")
        }
        JobChanged::OutputsHeld(_) => format!("held the outputs of job `{job}`"),
    }
}
