//! Problems of the whole scheduler that its status reports to operators.

use std::collections::BTreeMap;

use brasserie_common::{JobId, JobName, Time};

use crate::jobs::ReadBy;
use crate::scheduler::Scheduler;
use crate::scheduler::effect::ExitReason;
use crate::scheduler::starts::STORE_FAILS;

/// The most tasks that are named because they run twice. Normally there are none.
const MAX_RUN_TWICE_SHOWN: usize = 20;
/// The most jobs that are named because they have completions that are not durable.
const MAX_NOT_DURABLE_SHOWN: usize = 20;

impl Scheduler {
    /// Returns why the config in force is not the text of the config file; `None` if it is.
    pub(crate) fn config_is_older(&self) -> Option<String> {
        let Some(error) = self.config_error.as_ref() else {
            return self.jobs.refused_file();
        };
        let Some(in_force) = self.jobs.in_force() else {
            return Some(format!("the config file cannot be used: {error}"));
        };
        Some(match in_force.read_by {
            ReadBy::ThisScheduler => format!(
                "the config file has changed but cannot be used, so the last good config decides: {error}"
            ),
            ReadBy::AnEarlierScheduler => format!(
                "the config file cannot be used, so the last good config decides, which an earlier scheduler has kept: {error}"
            ),
        })
    }

    /// Returns the problems that an operator should know.
    pub(crate) fn errors(&self, now: Time) -> Vec<String> {
        let mut errors: Vec<String> = Vec::new();
        let stepped_down = self
            .stepped_down
            .map(|newer| ExitReason::SteppedDown { newer });
        errors.extend(stepped_down.map(|reason| reason.to_string()));
        errors.extend(self.config_is_older());
        errors.extend(self.jobs.file_warnings().iter().cloned());
        errors.extend(self.nodes_error.clone());
        errors.extend(self.store_error().map(|e| format!("{STORE_FAILS}: {e}")));
        errors.extend(self.store_warning().map(|warning| warning.to_string()));
        errors.extend(self.ends_not_durable().take(MAX_NOT_DURABLE_SHOWN));
        errors.extend(self.wait.warning(now));
        errors.extend(self.workers.echo_problem());
        errors.extend(self.engine.problems());
        errors.extend(self.tasks_that_run_twice().take(MAX_RUN_TWICE_SHOWN));
        errors.extend(self.uncounted_orphans(self.uncounted_runs()));
        errors.extend(self.stubborn_orphans(now));
        errors.extend(self.tasks.problems().shown(now));
        errors
    }

    /// Removes the failures to start of jobs that are not configured any more.
    pub(crate) fn forget_problems_of_gone_jobs(&mut self) {
        let engine = &self.engine;
        let is_configured = |job: &JobName| {
            let id = engine.find_job(job.as_str());
            id.is_some_and(|id| engine.job_config(id).is_some())
        };
        self.tasks.problems_mut().keep_jobs(is_configured);
    }

    /// Returns messages about completions that are counted although a crash may still lose them, one for each job. Empty if the answer
    /// waits until the completions are durable.
    fn ends_not_durable(&self) -> impl Iterator<Item = String> {
        let counts = self.marks_completions().then(|| self.pending_completions());
        counts.into_iter().flatten().map(|(job, count)| {
            let job = self.engine.job_name(job);
            format!(
                "job `{job}`: {count} completion(s) shown here are not yet on disk; if this scheduler ends before they are, \
                 their tasks run again"
            )
        })
    }

    /// Counts the tasks of each job that are done or failed by a completion that is not durable yet.
    pub(crate) fn pending_completions(&self) -> BTreeMap<JobId, usize> {
        let mut counts = BTreeMap::new();
        for task in self.tasks.pending() {
            let status = self.engine.previous_status(task);
            if status.is_some_and(|status| status.is_done() || status.is_failed()) {
                *counts.entry(task.job).or_insert(0) += 1;
            }
        }
        counts
    }
}
