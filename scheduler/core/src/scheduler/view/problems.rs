//! Problems of the whole scheduler that its status reports to operators.

use std::collections::BTreeMap;

use brasserie_common::{JobId, Time};

use super::nothing_starts::STORE_FAILS;
use crate::jobs::ReadBy;
use crate::scheduler::effect::ExitReason;
use crate::scheduler::{View, task_key};

/// The most tasks that are named because they run twice. Normally there are none.
const MAX_RUN_TWICE_SHOWN: usize = 20;
/// The most jobs that are named because they have completions that are not durable.
const MAX_NOT_DURABLE_SHOWN: usize = 20;

impl View<'_> {
    /// Returns why the config in force is not the text of the config file; `None` if it is.
    pub(in crate::scheduler) fn config_is_older(&self) -> Option<String> {
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

    /// Returns that nodes of an earlier reading are in force because a node source fails; `None` if none fails, or if there are no nodes,
    /// which keeps all tasks from starting.
    pub(super) fn nodes_are_older(&self) -> Option<String> {
        self.engine.nodes()?;
        let error = self.nodes_error.as_ref()?;
        Some(format!(
            "the nodes cannot be read again, so the last good nodes decide: {error}"
        ))
    }

    /// Returns the problems that an operator should know.
    pub(in crate::scheduler) fn errors(&self, now: Time) -> Vec<String> {
        let mut errors: Vec<String> = Vec::new();
        let stepped_down = self
            .stepped_down
            .map(|newer| ExitReason::SteppedDown { newer });
        errors.extend(stepped_down.map(|reason| reason.to_string()));
        errors.extend(self.config_is_older());
        errors.extend(self.jobs.file_warnings().iter().cloned());
        errors.extend(self.nodes_error.clone());
        errors.extend(self.shell.problems.iter().cloned());
        errors.extend(
            self.outbox
                .store_error()
                .map(|e| format!("{STORE_FAILS}: {e}")),
        );
        errors.extend(
            self.store_sizes
                .warning()
                .map(|warning| warning.to_string()),
        );
        errors.extend(self.ends_not_durable().take(MAX_NOT_DURABLE_SHOWN));
        errors.extend(self.wait.warning(now));
        errors.extend(self.pool.echo_problem());
        errors.extend(self.engine.problems());
        errors.extend(self.tasks_that_run_twice().take(MAX_RUN_TWICE_SHOWN));
        errors.extend(self.uncounted_orphans(self.uncounted_runs()));
        errors.extend(self.stubborn_orphans(now));
        errors.extend(self.notices.problems(now, |task| self.lacks_an_input(task)));
        errors
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
    pub(in crate::scheduler) fn pending_completions(&self) -> BTreeMap<JobId, usize> {
        let mut counts = BTreeMap::new();
        for task in self.runs.pending() {
            let status = self.engine.previous_status(task);
            if status.is_some_and(|status| status.is_done() || status.is_failed()) {
                *counts.entry(task.job).or_insert(0) += 1;
            }
        }
        counts
    }

    /// Iterates over messages about tasks that run more than once, for as long as they do.
    pub(super) fn tasks_that_run_twice(&self) -> impl Iterator<Item = String> + '_ {
        self.runs.further().map(|(task, further)| {
            let key = task_key(&self.engine, task);
            let known = self.runs.run(task);
            let (run, on) = known.map_or((String::new(), ""), |run| {
                (run.invocation.to_string(), run.shard.as_str())
            });
            format!(
                "{} on {} runs twice: run {run} on worker `{on}` and run {} on worker `{}`. It starts no further time \
                 until both have ended; kill one of them if they must not run together",
                key.job, key.node, further.invocation, further.shard
            )
        })
    }

    /// Returns whether answers show completions that are not durable, and mark them, because the store fails or is too slow.
    pub(in crate::scheduler) fn marks_completions(&self) -> bool {
        self.outbox.store_error().is_some() || self.questions.is_late()
    }
}
