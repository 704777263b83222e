//! Which tasks would start, and which of those that run would be ended or left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{InvocationId, JobId, JobName, KillRequest, NodeName, Shard, TaskKey, Time};
use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_engine::{Counts, NodeTable, Task, Tries};

use super::{Listed, MAX_LISTED};
use crate::reconcile::{RunNow, allowed, why_unwanted};
use crate::scheduler::Scheduler;
use crate::tasks::kill_request;

/// Starts that are counted: without limits a pool takes everything, and a million is many enough.
const MAX_STARTS: u64 = 1_000_000;
/// Tasks of a job that are named: a line for people.
const MAX_NAMED: usize = 20;

/// How exact a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    Exactly(u64),
    AtLeast(u64),
}

impl Default for Total {
    fn default() -> Self {
        Total::Exactly(0)
    }
}

/// What would become of tasks at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TasksPlan {
    /// Why nothing starts at present, whatever the configuration says.
    pub held: Vec<String>,
    pub starts: Total,
    /// Jobs of which something would start, or more than now could never run; in the order of the configuration.
    pub jobs: Listed<JobPlan>,
    /// Running tasks that would be asked to end, the first first.
    pub killed: Listed<OrphanPlan>,
    /// Running tasks that nobody would want, but that may run on.
    pub left: Listed<OrphanPlan>,
    /// Running tasks that will be asked to end, but no longer would be.
    pub spared: Listed<TaskKey>,
}

/// A job under the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    pub name: JobName,
    pub starts: u64,
    /// Where the first of them would start.
    pub first: Vec<NodeName>,
    /// After these starts.
    pub counts: Counts,
}

/// A running task that would be an orphan.
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanPlan {
    pub task: TaskKey,
    pub shard: Shard,
    pub invocation: InvocationId,
    /// Why nobody would want it.
    pub why: String,
    /// `None`: it may run on for ever.
    pub kill: Option<PlannedKill>,
    /// It is one already, and is ended no later.
    pub already: bool,
}

/// How a task would be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedKill {
    pub after: Duration,
    pub request: KillRequest,
    /// Wishes that it has not heeded yet.
    pub asked: u32,
}

impl TasksPlan {
    /// Whether nothing would start or end that does not as things are.
    pub(super) fn changes_nothing(&self) -> bool {
        let known = |list: &Listed<OrphanPlan>| list.first.iter().all(|orphan| orphan.already);
        self.starts == Total::Exactly(0)
            && known(&self.killed)
            && known(&self.left)
            && self.spared.is_empty()
    }
}

/// Of each job, how many of its tasks can never run as things are.
pub(super) type Hopeless = BTreeMap<JobName, u64>;

pub(super) fn hopeless(scheduler: &Scheduler) -> Hopeless {
    let engine = scheduler.engine();
    let never = engine
        .jobs()
        .map(|job| (engine.job_name(job).clone(), engine.counts(job).never));
    never.collect()
}

/// What the copy, which has the configuration, would start now.
pub(super) fn add_starts(plan: &mut TasksPlan, copy: &mut Scheduler, now: Time, before: &Hopeless) {
    plan.held = copy.why_nothing_starts(now);
    let mut started: BTreeMap<JobId, (u64, Vec<NodeName>)> = BTreeMap::new();
    if plan.held.is_empty() {
        plan.starts = start_all(copy, now, |copy, task| {
            let (count, named) = started.entry(task.job).or_default();
            *count += 1;
            if named.len() < MAX_NAMED {
                named.push(copy.engine().node_name(task.node));
            }
        });
    }
    let engine = copy.engine();
    for id in engine.jobs() {
        let counts = engine.counts(id);
        let name = engine.job_name(id);
        let never = before.get(name).copied().unwrap_or(0);
        let (starts, first) = started.remove(&id).unwrap_or_default();
        if starts > 0 || counts.never > never {
            let job = JobPlan {
                name: name.clone(),
                starts,
                first,
                counts,
            };
            plan.jobs.push(MAX_LISTED, job);
        }
    }
}

/// As the scheduler does in its turns, but with workers that take whatever they get. Those that ask for work get what they asked for, as
/// long as nobody would be late.
fn start_all(copy: &mut Scheduler, now: Time, mut started: impl FnMut(&Scheduler, Task)) -> Total {
    copy.engine_mut().handle_timeout(now);
    let mut count = 0;
    while let Some(placement) = copy.place(now, &mut Tries::endless()) {
        count += 1;
        copy.spend_planned(now, placement);
        started(copy, placement.task);
        if count == MAX_STARTS {
            return Total::AtLeast(count);
        }
    }
    Total::Exactly(count)
}

/// The configuration and the nodes by which the plan decides which tasks are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) config: Option<&'a Config>,
    /// `None`: only the tasks of cancelled jobs are known to be unwanted, and no others are ended.
    pub(super) nodes: Option<&'a NodeTable>,
}

impl<'a> Wanted<'a> {
    fn jobs(self) -> BTreeMap<&'a str, &'a JobConfig> {
        let jobs = self.config.into_iter().flat_map(|config| &config.jobs);
        jobs.map(|job| (job.name.as_str(), &**job)).collect()
    }

    /// Returns the configuration if it is known which tasks of the job are wanted.
    fn for_job(self, job: Option<&JobConfig>) -> Option<&'a Config> {
        let is_known = self.nodes.is_some() || job.is_some_and(JobConfig::is_cancelled);
        self.config.filter(|_| is_known)
    }
}

/// What would become of those that run, under what is wanted before and after.
pub(super) fn add_orphans(
    plan: &mut TasksPlan,
    now: Time,
    runs: &[RunNow],
    (before, after): (Wanted<'_>, Wanted<'_>),
) {
    let (jobs_before, jobs_after) = (before.jobs(), after.jobs());
    let enabled = after.config.zip(after.nodes).map(|(config, nodes)| {
        let names = runs.iter().map(|run| run.task.node.as_str());
        nodes.enabled_among(config, names)
    });
    let mut killed = Vec::new();
    for run in runs {
        let job_before = jobs_before.get(run.task.job.as_str()).copied();
        let was_due = before
            .for_job(job_before)
            .and_then(|config| Some(run.orphan?.due(now, allowed(config, job_before)?)));
        let job = jobs_after.get(run.task.job.as_str()).copied();
        let has_node = || {
            let enabled = enabled.as_ref();
            enabled.is_some_and(|enabled| enabled.contains(run.task.node.as_str()))
        };
        let config = after.for_job(job);
        let orphan = config.and_then(|config| Some((config, why_unwanted(job, has_node)?)));
        let due = orphan.and_then(|(config, _)| {
            let allowed = allowed(config, job)?;
            Some(run.orphan.map_or(now + allowed, |o| o.due(now, allowed)))
        });
        if was_due.is_some() && due.is_none() {
            plan.spared.push(MAX_LISTED, run.task.clone());
        }
        let Some((config, why)) = orphan else {
            continue;
        };
        let planned = OrphanPlan {
            task: run.task.clone(),
            shard: run.shard.clone(),
            invocation: run.invocation,
            why: why.to_string(),
            kill: due.map(|due| PlannedKill {
                after: due.since(now),
                request: kill_request(Some(config), job),
                asked: run.orphan.map_or(0, |orphan| orphan.asked),
            }),
            already: match (was_due, due) {
                (Some(was), Some(is)) => was <= is,
                (None, None) => run.is_unwanted,
                (Some(_), None) | (None, Some(_)) => false,
            },
        };
        match due {
            Some(due) => killed.push((due, planned)),
            None => plan.left.push(MAX_LISTED, planned),
        }
    }
    killed.sort_by(|(a, x), (b, y)| (a, &x.task).cmp(&(b, &y.task)));
    plan.killed = Listed::of(killed.into_iter().map(|(_, orphan)| orphan).collect());
}
