//! The tasks that would start under a planned configuration, and the running tasks that would be killed or left running.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{InvocationId, JobId, JobName, KillRequest, NodeName, Shard, TaskKey, Time};
use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_engine::{Counts, NodeTable, Placement, Tries};

use super::inputs::LackingInputs;
use super::{Listed, MAX_LISTED};
use crate::orphans::snapshot::RunNow;
use crate::orphans::wanted::{allowed, why_unwanted};
use crate::runs::kill_request;
use crate::scheduler::Scheduler;

/// The most starts that are counted. In a pool without limits every task starts, and a million is enough to know.
const MAX_STARTS: u64 = 1_000_000;
/// The most tasks of a job that are named: a line for people.
const MAX_NAMED: usize = 20;

/// A count that is exact or a lower bound.
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

/// The immediate effects on tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TasksPlan {
    /// Why no task starts at present, whatever the configuration says.
    pub held: Vec<String>,
    pub starts: Total,
    /// The jobs with tasks that would start, or with more tasks than now that could never run, in the order of the configuration.
    pub jobs: Listed<JobPlan>,
    /// The running tasks that would be killed, ordered by time.
    pub killed: Listed<OrphanPlan>,
    /// The running tasks that would be unwanted and left running.
    pub left: Listed<OrphanPlan>,
    /// The orphans that would no longer be killed.
    pub spared: Listed<TaskKey>,
}

/// The effects on one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    pub name: JobName,
    pub starts: u64,
    /// The nodes of the first starts.
    pub first: Vec<NodeName>,
    /// The counts after these starts.
    pub counts: Counts,
    /// The bytes of inputs that the workers of these starts lack; `None` for a job without inputs, and if it is unknown.
    pub bytes_to_move: Option<u64>,
}

/// The starts of one job.
#[derive(Default)]
struct JobStarts {
    count: u64,
    named: Vec<NodeName>,
    bytes_to_move: Option<u64>,
}

/// A running task that would be an orphan.
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanPlan {
    pub task: TaskKey,
    pub shard: Shard,
    pub invocation: InvocationId,
    /// Why the task would be unwanted.
    pub why: String,
    /// How the task would be killed. `None`: it may run without limit.
    pub kill: Option<PlannedKill>,
    /// The task is an orphan already, and without the change it would be killed no later.
    pub already: bool,
}

/// When and how a task would be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedKill {
    pub after: Duration,
    pub request: KillRequest,
    /// The number of kill requests that the task has not obeyed yet.
    pub asked: u32,
}

impl TasksPlan {
    /// Returns whether every start and every kill of the plan would happen without the change, too.
    pub(super) fn changes_nothing(&self) -> bool {
        let known = |list: &Listed<OrphanPlan>| list.first.iter().all(|orphan| orphan.already);
        self.starts == Total::Exactly(0)
            && known(&self.killed)
            && known(&self.left)
            && self.spared.is_empty()
    }
}

/// The number of each job's tasks that can never run at present.
pub(super) type Hopeless = BTreeMap<JobName, u64>;

pub(super) fn hopeless(scheduler: &Scheduler) -> Hopeless {
    let engine = scheduler.engine();
    let never = engine
        .jobs()
        .map(|job| (engine.job_name(job).clone(), engine.counts(job).never));
    never.collect()
}

/// Adds the tasks that the copy, which has the configuration, would start now.
pub(super) fn add_starts(
    plan: &mut TasksPlan,
    copy: &mut Scheduler,
    (now, before): (Time, &Hopeless),
    lacking: &mut LackingInputs<'_>,
) {
    plan.held = copy.view().why_nothing_starts(now);
    let mut started: BTreeMap<JobId, JobStarts> = BTreeMap::new();
    if plan.held.is_empty() {
        plan.starts = start_all(copy, now, lacking, |copy, placement| {
            let task = placement.task;
            let starts = started.entry(task.job).or_default();
            starts.count += 1;
            if starts.named.len() < MAX_NAMED {
                starts.named.push(copy.engine.node_name(task.node));
            }
            if let Some(bytes) = copy.view().bytes_to_move(placement) {
                let sum = starts.bytes_to_move.unwrap_or(0);
                starts.bytes_to_move = Some(sum.saturating_add(bytes));
            }
        });
    }
    let engine = &copy.engine;
    for id in engine.jobs() {
        let counts = engine.counts(id);
        let name = engine.job_name(id);
        let never = before.get(name).copied().unwrap_or(0);
        let JobStarts {
            count: starts,
            named: first,
            bytes_to_move,
        } = started.remove(&id).unwrap_or_default();
        if starts > 0 || counts.never > never {
            let job = JobPlan {
                name: name.clone(),
                starts,
                first,
                counts,
                bytes_to_move,
            };
            plan.jobs.push(MAX_LISTED, job);
        }
    }
}

/// Starts tasks as the scheduler does in its turns, but on workers that accept every task, and without those that lack an input. Pull
/// workers get the work that they requested, as long as no task misses its deadline.
fn start_all(
    copy: &mut Scheduler,
    now: Time,
    lacking: &mut LackingInputs<'_>,
    mut started: impl FnMut(&Scheduler, Placement),
) -> Total {
    copy.engine.handle_timeout(now);
    copy.engine.disable_standby();
    let mut count = 0;
    while let Some(placement) = copy.place(now, &mut Tries::endless()) {
        if lacking.hold_back(copy, now, placement.task) {
            continue;
        }
        count += 1;
        copy.spend_planned(now, placement);
        started(copy, placement);
        if count == MAX_STARTS {
            return Total::AtLeast(count);
        }
    }
    Total::Exactly(count)
}

/// The configuration and the nodes by which the plan decides which tasks are wanted.
#[derive(Clone, Copy)]
pub(super) struct PlanInputs<'a> {
    pub config: Option<&'a Config>,
    /// `None`: only the tasks of cancelled jobs are known to be unwanted, and no others are killed.
    pub nodes: Option<&'a NodeTable>,
}

impl<'a> PlanInputs<'a> {
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

/// Adds the running tasks that the change makes unwanted or wanted.
pub(super) fn add_orphans(
    plan: &mut TasksPlan,
    now: Time,
    runs: &[RunNow],
    (before, after): (PlanInputs<'_>, PlanInputs<'_>),
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
