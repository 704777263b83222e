//! Decides which running tasks the configuration and the nodes in force still want, and how long an unwanted one may continue.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::time::format_duration;
use brasserie_common::{JobId, JobName};
use brasserie_common_config::{Config, JobConfig, Shared};
use brasserie_scheduler_engine::{Engine, NodesOwner, Task};

/// The reason for which a task is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    JobGone,
    JobDisabled,
    JobHasErrors,
    JobCancelled,
    NodeGone,
}

impl fmt::Display for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unwanted::JobGone => "its job is not configured any more",
            Unwanted::JobDisabled => "its job is disabled",
            Unwanted::JobHasErrors => "its job has errors",
            Unwanted::JobCancelled => "its job is cancelled",
            Unwanted::NodeGone => "no enabled node has its name",
        })
    }
}

/// The configuration and the nodes by which it is decided which tasks are wanted.
#[derive(Clone, Copy)]
pub struct WantedTasks<'a> {
    engine: &'a Engine,
    nodes: NodesOwner,
}

impl<'a> WantedTasks<'a> {
    /// Decides by the engine's configuration and nodes. `nodes` is whether these nodes are that configuration's.
    pub fn new(engine: &'a Engine, nodes: NodesOwner) -> Self {
        WantedTasks { engine, nodes }
    }

    /// Returns whether the wanted tasks of all jobs are known. Invariant: when they become known, every run is marked as not checked.
    pub fn is_known_of_all(self) -> bool {
        let is_enabled = self.engine.config().is_some_and(|config| config.enabled);
        is_enabled && self.nodes == NodesOwner::ThisConfig
    }

    /// Returns whether the wanted tasks of a job are known. While they are not, none of its runs becomes an orphan, ceases to be one, or is
    /// killed. A cancellation names its job, so it requires neither nodes nor an enabled configuration.
    pub fn is_known_of(self, job: JobId) -> bool {
        let job = || self.engine.job_config(job);
        self.is_known_of_all() || job().is_some_and(JobConfig::is_cancelled)
    }

    /// Returns how long a run of the task may go on, if the task is known to be an orphan with a limit.
    pub fn kill_delay(self, task: Task) -> Option<Duration> {
        if !self.is_known_of(task.job) {
            return None;
        }
        self.why_not(task)?;
        let config = self.engine.config()?;
        allowed(config, self.engine.job_config(task.job))
    }

    /// Returns why the task is not wanted, whether or not that is known for certain.
    pub fn why_not(self, task: Task) -> Option<Unwanted> {
        let job = self.engine.job_config(task.job);
        why_unwanted(job, || self.engine.has_enabled_node(task.node))
    }

    /// Returns why a task does not run again after its completion, as far as it is known. A hold does not count, because it can be undone.
    pub fn why_never_again(self, task: Task) -> Option<String> {
        self.engine.config()?;
        let why = self.why_not(task).filter(|why| match why {
            Unwanted::JobGone | Unwanted::JobDisabled | Unwanted::JobHasErrors => true,
            Unwanted::JobCancelled => false,
            Unwanted::NodeGone => self.is_known_of_all(),
        });
        why.map(|why| why.to_string())
    }

    /// Returns what happens to a running task that does not run again, and why; `None` if it may run again.
    pub fn fate_of_unwanted(self, task: Task) -> Option<String> {
        let why = self.why_never_again(task)?;
        let end = match self.kill_delay(task) {
            None if !self.is_known_of(task.job) => {
                "it runs on while the nodes or `enabled` leave open which tasks are wanted"
                    .to_owned()
            }
            None => "it runs to its own end, as `kill_orphan_tasks_after_sec` does not limit it"
                .to_owned(),
            Some(delay) if delay.is_zero() => "its worker is asked to end it".to_owned(),
            Some(delay) => format!(
                "its worker is asked to end it once this has been so for {}",
                format_duration(delay)
            ),
        };
        Some(format!("{why}, so it does not run again; {end}"))
    }
}

/// Returns why a task is not wanted. Disabled ancestors, filters, another level and fewer slots keep a task from starting, but do not
/// affect a running task.
pub fn why_unwanted(
    job: Option<&JobConfig>,
    has_enabled_node: impl FnOnce() -> bool,
) -> Option<Unwanted> {
    match job {
        None => Some(Unwanted::JobGone),
        Some(job) if !job.errors.is_empty() => Some(Unwanted::JobHasErrors),
        Some(job) if job.is_cancelled() => Some(Unwanted::JobCancelled),
        Some(job) if !job.enabled => Some(Unwanted::JobDisabled),
        Some(_) if !has_enabled_node() => Some(Unwanted::NodeGone),
        Some(_) => None,
    }
}

/// Returns how long an unwanted run may go on; `None`: without limit.
pub fn allowed(config: &Config, job: Option<&JobConfig>) -> Option<Duration> {
    let delay = match job {
        None => config.kill_orphan_tasks_after,
        Some(job) if job.is_cancelled() => Some(Duration::ZERO),
        Some(job) => job.kill_orphan_tasks_after,
    };
    delay.map(|delay| match sabotage::on(Sabotage::KillOrphansAtOnce) {
        true => Duration::ZERO,
        false => delay,
    })
}

/// Returns the jobs whose wanted state may have changed.
pub fn changed_jobs<'a>(before: &'a Config, after: &'a Config) -> Vec<&'a JobName> {
    let pairs = before.jobs.iter().zip(&after.jobs);
    let first = pairs.take_while(|(one, other)| one.is_same(other)).count();
    let (one, other) = (&before.jobs[first..], &after.jobs[first..]);
    let pairs = one.iter().rev().zip(other.iter().rev());
    let last = pairs.take_while(|(one, other)| one.is_same(other)).count();
    let (one, other) = (&one[..one.len() - last], &other[..other.len() - last]);
    let pairs = || one.iter().zip(other);
    let is_one_job =
        |(a, b): (&Shared<JobConfig>, &Shared<JobConfig>)| a.is_same(b) || a.name == b.name;
    if one.len() == other.len() && pairs().all(is_one_job) {
        let changed = pairs().filter(|(a, b)| !a.is_same(b) && says(a) != says(b));
        return changed.map(|(_, job)| &job.name).collect();
    }
    let by_name = |jobs: &'a [Shared<JobConfig>]| {
        let jobs = jobs.iter().map(|job| (&job.name, says(job)));
        jobs.collect::<BTreeMap<_, _>>()
    };
    let (before, after) = (by_name(one), by_name(other));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let changed = after
        .iter()
        .filter(|(name, job)| before.get(*name) != Some(*job));
    gone.copied()
        .chain(changed.map(|(name, _)| *name))
        .collect()
}

/// Returns the properties of a job that [`why_unwanted`] and [`allowed`] use.
fn says(job: &JobConfig) -> (bool, bool, bool, Option<Duration>) {
    (
        job.is_cancelled(),
        job.enabled,
        job.errors.is_empty(),
        job.kill_orphan_tasks_after,
    )
}
