//! Which tasks the copy starts, and which of those that run it would end or leave alone.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{InvocationId, JobId, JobName, KillRequest, NodeName, Shard, TaskKey, Time};
use brasserie_scheduler_engine::{Counts, Task};

use super::{Listed, MAX_LISTED};
use crate::reconcile::{DueOrphan, RunKey};
use crate::scheduler::Scheduler;

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

/// What is so without the configuration.
pub(super) struct Before {
    unwanted: Vec<RunKey>,
    due: BTreeMap<RunKey, DueOrphan>,
    never: BTreeMap<JobName, u64>,
}

impl Before {
    pub(super) fn of(copy: &Scheduler, now: Time) -> Self {
        let engine = copy.engine();
        let never = engine
            .jobs()
            .map(|job| (engine.job_name(job).clone(), engine.counts(job).never));
        Before {
            // In order, as the map is.
            unwanted: copy.unwanted_runs().into_keys().collect(),
            due: copy.due_orphans(now),
            never: never.collect(),
        }
    }
}

/// What the copy, which has the configuration, does now.
pub(super) fn plan(copy: &mut Scheduler, now: Time, before: &Before) -> TasksPlan {
    let mut plan = TasksPlan {
        held: copy.why_nothing_starts(now),
        ..TasksPlan::default()
    };
    plan.add_orphans(copy, now, before);
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
        let never = before.never.get(name).copied().unwrap_or(0);
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
    plan
}

/// As the scheduler does in its turns, but with workers that take whatever they get.
fn start_all(copy: &mut Scheduler, now: Time, mut started: impl FnMut(&Scheduler, Task)) -> Total {
    copy.engine_mut().handle_timeout(now);
    let mut count = 0;
    while let Some(placement) = copy.engine_mut().place(now) {
        count += 1;
        started(copy, placement.task);
        if count == MAX_STARTS {
            return Total::AtLeast(count);
        }
    }
    Total::Exactly(count)
}

impl TasksPlan {
    fn add_orphans(&mut self, copy: &Scheduler, now: Time, before: &Before) {
        let due = copy.due_orphans(now);
        let mut killed = Vec::new();
        for (run, why) in copy.unwanted_runs() {
            let (task, invocation) = run;
            let Some(shard) = copy.tasks().find(task, invocation).map(|r| r.shard.clone()) else {
                continue;
            };
            let kill = due.get(&run).map(|due| PlannedKill {
                after: due.at.since(now),
                request: copy.kill_request(task.job),
                asked: due.asked,
            });
            let (was_due, is_due) = (before.due.get(&run), due.get(&run));
            let already = match (was_due, is_due) {
                (Some(was), Some(is)) => was.at <= is.at,
                (None, None) => before.unwanted.binary_search(&run).is_ok(),
                (Some(_), None) | (None, Some(_)) => false,
            };
            let orphan = OrphanPlan {
                task: copy.task_key(task),
                shard,
                invocation,
                why: why.to_string(),
                kill,
                already,
            };
            match kill {
                Some(kill) => killed.push((kill.after, orphan)),
                None => self.left.push(MAX_LISTED, orphan),
            }
        }
        killed.sort_by(|(a, x), (b, y)| (a, &x.task).cmp(&(b, &y.task)));
        self.killed = Listed::of(killed.into_iter().map(|(_, orphan)| orphan).collect());
        for (task, _) in before.due.keys().filter(|run| !due.contains_key(*run)) {
            self.spared.push(MAX_LISTED, copy.task_key(*task));
        }
    }
}
