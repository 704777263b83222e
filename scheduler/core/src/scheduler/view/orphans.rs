//! Running tasks that no job counts, and orphans that do not end, for people.

use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common::{JobId, KillMethod, Time};

use crate::orphans::StubbornOrphan;
use crate::scheduler::{View, task_key};

/// The most stubborn orphans that are named. These are enough to see what is wrong with their job.
const MAX_STUBBORN_SHOWN: usize = 20;
/// The most jobs named in the sentence about running tasks of jobs and nodes that are gone.
const MAX_GONE_JOBS_SHOWN: usize = 5;

impl View<'_> {
    /// Iterates over the jobs with running tasks that no count of a job includes, because the job or the task's node is gone. Each item has
    /// the number of these tasks.
    pub(in crate::scheduler) fn uncounted_runs(&self) -> impl Iterator<Item = (JobId, u64)> {
        let running = self.runs.running_by_job();
        let has_config = self.engine.config().is_some();
        let has_nodes = self.engine.nodes().is_some();
        running.filter_map(move |(job, running)| {
            let counted = match self.engine.job_config(job) {
                None => 0,
                // No task is counted until the nodes are loaded.
                Some(_) if !has_nodes => return None,
                Some(_) => self.engine.counts(job).running,
            };
            let uncounted = running.saturating_sub(counted);
            (has_config && uncounted > 0).then_some((job, uncounted))
        })
    }

    /// Returns a sentence about the running tasks of a job that is not configured any more; `None` if there are none.
    pub(in crate::scheduler) fn orphans_of_gone_job(&self, job: JobId) -> Option<String> {
        let (_, running) = self.uncounted_runs().find(|(gone, _)| *gone == job)?;
        self.uncounted_orphans(std::iter::once((job, running)))
    }

    /// Returns a sentence about [`View::uncounted_runs`] of these jobs; `None` if there are none.
    pub(in crate::scheduler) fn uncounted_orphans(
        &self,
        jobs: impl Iterator<Item = (JobId, u64)>,
    ) -> Option<String> {
        let jobs: Vec<(JobId, u64)> = jobs.collect();
        let total: u64 = jobs.iter().map(|(_, running)| running).sum();
        let shown = jobs.iter().take(MAX_GONE_JOBS_SHOWN);
        let mut names: Vec<String> = shown
            .map(|(job, running)| format!("`{}`: {running}", self.engine.job_name(*job)))
            .collect();
        if jobs.len() > names.len() {
            names.push(format!("{} more jobs", jobs.len() - names.len()));
        }
        let after = self.engine.config()?.kill_orphan_tasks_after;
        let end = match after {
            None => "such tasks run to their own end, as `kill_orphan_tasks_after_sec` is false; `brasserie task kill` ends one".to_owned(),
            Some(after) => format!(
                "such tasks are asked to end {} after their job or node is gone (`kill_orphan_tasks_after_sec`)",
                format_duration(after)
            ),
        };
        let tasks = match total {
            0 => return None,
            1 => "1 running task belongs".to_owned(),
            total => format!("{total} running tasks belong"),
        };
        Some(format!(
            "{tasks} to jobs or nodes that are gone ({}); {end}",
            names.join(", ")
        ))
    }

    /// Returns messages about orphans that were killed repeatedly and still run.
    pub(in crate::scheduler) fn stubborn_orphans(&self, now: Time) -> Vec<String> {
        let mut stubborn = self.orphans.stubborn();
        let shown = stubborn.by_ref().take(MAX_STUBBORN_SHOWN);
        let mut lines: Vec<String> = shown
            .map(|orphan| self.stubborn_orphan(now, orphan))
            .collect();
        let more = stubborn.count();
        if more > 0 {
            lines.push(format!("{more} more orphans do not end either"));
        }
        lines
    }

    fn stubborn_orphan(&self, now: Time, orphan: StubbornOrphan<'_>) -> String {
        let StubbornOrphan {
            run: (task, invocation),
            shard,
            asked,
            last,
        } = orphan;
        let key = task_key(&self.engine, task);
        let why = self
            .wanted()
            .why_not(task)
            .map(|why| format!(", as {why},"));
        let last = last.map(|(at, text)| {
            let ago = Duration::from_secs(now.since(at).as_secs());
            format!(", last {} ago ({text})", format_duration(ago))
        });
        let advice = match self.kill_request(task.job).method {
            KillMethod::Term => {
                ". It may ignore SIGTERM; `\"kill_subprocess\": {\"method\": \"kill\"}` sends SIGKILL"
            }
            KillMethod::TermWaitKill | KillMethod::Kill => "",
        };
        format!(
            "{} on {}, run {invocation} on worker `{shard}`, is not wanted any more{} and runs on although it was asked to end \
             {asked} times{}{advice}",
            key.job,
            key.node,
            why.unwrap_or_default(),
            last.unwrap_or_default()
        )
    }
}
