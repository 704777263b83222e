//! Orphans: running tasks that the configuration no longer wants, because their job or node is gone or their job is cancelled. An orphan is
//! killed once it has been one for as long as its job, or else the settings, allow; at once if the job is cancelled.

mod coming;
mod look;
mod now;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::time::format_duration;
use brasserie_common::{
    CallId, CallOutcome, EndedBy, Health, InvocationId, JobId, Kill, KillMethod, NodeId, Shard,
    Time, WallTime,
};
use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_engine::{NodeTable, NodesOf as TableOf, Task};
use look::Unseen;

use crate::calls::{Call, CallReply, Purpose};
use crate::scheduler::Scheduler;
use crate::tasks::RunState;

pub(crate) use now::RunNow;

/// The most open `killTask` calls to one worker: enough for a whole machine within a few round trips, and few enough for a slow worker.
const MAX_OPEN_KILLS: usize = 16;
/// The pause between the first two kills of one orphan, beside the wait of the kill itself. A task that obeys has ended and its completion
/// is reported by then.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The most doublings of the pause: 10 s, 20 s ... 2560 s, 2560 s ... A task that ignores the kills of the first minute needs a person, and
/// `status` shows it.
const MAX_DOUBLINGS: u32 = 8;
/// The number of kills after which an orphan is shown as a problem. One kill may merely not have worked yet.
const STUBBORN: u32 = 2;
/// The most stubborn orphans that are named. These are enough to see what is wrong with their job.
const MAX_STUBBORN_SHOWN: usize = 20;

/// The most jobs named in the sentence about running tasks of jobs and nodes that are gone.
const MAX_GONE_JOBS_SHOWN: usize = 5;

/// A task and one of its runs. A further run of a task is an orphan if its main run is.
type RunKey = (Task, InvocationId);

/// Every orphan that is to be killed, and when to call each worker about them.
///
/// The wanted tasks change only with the configuration and the nodes; unwanted runs appear only when workers list them. So after such a
/// change, all runs are checked whose job has changed or whose node may be gone, and a listed run is checked when it is adopted. Tasks that
/// the engine places are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    nodes: Nodes,
    /// When the nodes came into force; for people.
    nodes_since: Option<WallTime>,
    unseen: Unseen,
    /// The node tables that are or may come into force, with the configurations whose sources gave them. A table may be dropped without
    /// notice.
    tables: Vec<(Weak<NodeTable>, Arc<Config>)>,
    /// The orphans. Invariant: only of runs that are known.
    by_run: BTreeMap<RunKey, Orphan>,
    by_shard: BTreeMap<Shard, OnShard>,
    /// The workers that were evaluated in this turn. Their due orphans are killed at its end.
    look_at: BTreeSet<Shard>,
}

/// Whether the nodes in force are those of the configuration in force. Between the two events, the nodes of new sources seem to be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Nodes {
    /// The nodes are of another configuration, or one of the two was never loaded.
    #[default]
    OfAnother,
    OfTheConfiguration,
}

#[derive(Clone, Debug)]
struct Orphan {
    shard: Shard,
    /// When the run was first found to be an orphan.
    since: Time,
    step: Step,
    /// The number of kill requests that may have arrived.
    asked: u32,
    /// The time and the result of the last kill request.
    last: Option<(Time, String)>,
}

/// The state of an orphan.
///
/// ```text
///   Waiting --due, and its worker said that it runs--> Asked --outcome--> Waiting, each time twice as long
/// ```
/// Both states end with the run, with the loss of its worker, and when the task is wanted again or may run without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The orphan is left alone until this time, and while its run is not confirmed.
    Waiting(Time),
    /// This `killTask` call has no outcome yet.
    Asked(CallId),
}

#[derive(Clone, Debug, Default)]
struct OnShard {
    /// The orphans in `Step::Waiting`. Invariant: each has the time of its step.
    waiting: BTreeSet<(Time, RunKey)>,
    open: BTreeSet<CallId>,
}

/// The reason for which a task is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
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

impl Orphans {
    /// Notes an orphan that may run for `delay` after it was first found.
    fn note(&mut self, now: Time, run: RunKey, shard: &Shard, delay: Duration) {
        match self.by_run.get(&run) {
            None => {
                let orphan = Orphan {
                    shard: shard.clone(),
                    since: now,
                    step: Step::Waiting(now),
                    asked: 0,
                    last: None,
                };
                self.by_run.insert(run, orphan);
                self.wait_until(run, now + delay);
            }
            // Once a kill request was sent, the pauses count, and a delay that has become longer.
            Some(orphan) => {
                let at = orphan.since + delay;
                match (orphan.step, &orphan.last) {
                    (_, None) => self.wait_until(run, at),
                    (Step::Waiting(pause), Some(_)) if pause < at => self.wait_until(run, at),
                    (Step::Waiting(_) | Step::Asked(_), Some(_)) => {}
                }
            }
        }
    }

    /// Forgets an orphan whose run is over, is wanted again, or may run on.
    pub(crate) fn forget(&mut self, run: RunKey) {
        self.leave_step(run);
        self.by_run.remove(&run);
    }

    fn wait_until(&mut self, run: RunKey, at: Time) {
        self.leave_step(run);
        if let Some(orphan) = self.by_run.get_mut(&run) {
            orphan.step = Step::Waiting(at);
            let on_shard = self.by_shard.entry(orphan.shard.clone()).or_default();
            on_shard.waiting.insert((at, run));
        }
    }

    fn leave_step(&mut self, run: RunKey) {
        let Some(orphan) = self.by_run.get(&run) else {
            return;
        };
        let shard = orphan.shard.clone();
        if let Step::Waiting(at) = orphan.step
            && let Some(on_shard) = self.by_shard.get_mut(&shard)
        {
            on_shard.waiting.remove(&(at, run));
        }
        self.tidy(&shard);
    }

    fn tidy(&mut self, shard: &Shard) {
        let is_idle = |on: &OnShard| on.waiting.is_empty() && on.open.is_empty();
        if self.by_shard.get(shard).is_some_and(is_idle) {
            self.by_shard.remove(shard);
        }
    }

    /// Marks the worker for a check of its orphans at the end of the turn.
    pub(crate) fn look_at(&mut self, shard: &Shard) {
        if self.by_shard.contains_key(shard) {
            self.look_at.insert(shard.clone());
        }
    }

    fn asked(&mut self, now: Time, run: RunKey, call: CallId) {
        self.leave_step(run);
        if let Some(orphan) = self.by_run.get_mut(&run) {
            orphan.step = Step::Asked(call);
            orphan.asked = orphan.asked.saturating_add(1);
            orphan.last = Some((now, "no answer yet".to_owned()));
            let on_shard = self.by_shard.entry(orphan.shard.clone()).or_default();
            on_shard.open.insert(call);
        }
    }

    fn call_over(&mut self, shard: &Shard, call: CallId) {
        if let Some(on_shard) = self.by_shard.get_mut(shard) {
            on_shard.open.remove(&call);
        }
        self.tidy(shard);
    }

    /// Notes the result of a kill request, if it is the last one of a run that is still an orphan. `kill_wait` is the wait of the kill
    /// itself.
    fn answered(
        &mut self,
        now: Time,
        (run, call): (RunKey, CallId),
        kill_wait: Duration,
        outcome: &CallOutcome<CallReply>,
    ) {
        let asked = |orphan: &&mut Orphan| orphan.step == Step::Asked(call);
        let Some(orphan) = self.by_run.get_mut(&run).filter(asked) else {
            return;
        };
        let text = match outcome {
            CallOutcome::Done(_) => "its worker has signalled it".to_owned(),
            CallOutcome::Refused(_, text) => format!("its worker refused: {text}"),
            CallOutcome::Unknown(text) => {
                format!("whether its worker heard it is not known: {text}")
            }
            CallOutcome::NotSent(text) => {
                // The request did not reach the worker. The worker's exit or loss bounds how often this happens.
                orphan.asked = orphan.asked.saturating_sub(1);
                format!("its worker was not reached: {text}")
            }
        };
        orphan.last = orphan.last.take().map(|(at, _)| (at, text));
        let doublings = orphan.asked.saturating_sub(1).min(MAX_DOUBLINGS);
        let pause = kill_wait + FIRST_PAUSE * (1 << doublings);
        self.wait_until(run, now + pause);
    }

    fn room(&self, shard: &Shard) -> usize {
        let open = self.by_shard.get(shard).map_or(0, |on| on.open.len());
        MAX_OPEN_KILLS.saturating_sub(open)
    }

    fn due(&self, shard: &Shard, now: Time) -> impl Iterator<Item = RunKey> + '_ {
        let waiting = self.by_shard.get(shard).into_iter();
        let waiting = waiting.flat_map(|on| on.waiting.iter());
        waiting
            .take_while(move |(at, _)| *at <= now)
            .map(|(_, run)| *run)
    }

    /// Returns when the next orphan becomes due. Orphans that are due already wait for a call's outcome or a worker's report, not for a
    /// time.
    fn next_due(&self, shard: &Shard, now: Time) -> Option<Time> {
        let waiting = &self.by_shard.get(shard)?.waiting;
        let last = (
            Task {
                job: JobId(u32::MAX),
                node: NodeId(u32::MAX),
            },
            InvocationId::new(i64::MAX, i64::MAX),
        );
        let after = (Bound::Excluded((now, last)), Bound::Unbounded);
        waiting.range(after).next().map(|(at, _)| *at)
    }
}

impl Scheduler {
    /// Notes whose nodes are in force. The engine must know, because only for nodes of its own sources can it tell that all tasks of a job
    /// are done.
    fn set_nodes_of(&mut self, nodes: Nodes) {
        self.orphans_mut().nodes = nodes;
        self.engine_mut().set_nodes_of(match nodes {
            Nodes::OfAnother => TableOf::AnotherConfig,
            Nodes::OfTheConfiguration => TableOf::ThisConfig,
        });
    }

    /// Puts a configuration in force. The nodes stay those of its sources if both configurations have the same sources in the same order.
    pub(crate) fn apply_config(&mut self, now: Time, config: Arc<Config>) {
        let before = self.engine().config().cloned();
        let before = before.filter(|_| self.knows_all_that_is_wanted());
        // The sources may be those of the configuration before the last one. Then the shell does not read them again.
        let nodes = self.engine().nodes();
        let nodes = nodes.map_or(Nodes::OfAnother, |nodes| self.whose(nodes, &config));
        self.set_nodes_of(nodes);
        self.engine_mut().begin_config(now, config);
        self.forget_problems_of_gone_jobs();
        if self.engine().nodes().is_none() {
            // The levels have another order, so the nodes come into force again.
            self.set_nodes_of(Nodes::OfAnother);
        }
        self.wants_change(before.as_deref());
    }

    /// Returns whether the wanted tasks of all jobs are known. Invariant: when they become known, every run is marked as not checked.
    fn knows_all_that_is_wanted(&self) -> bool {
        let is_enabled = self.engine().config().is_some_and(|config| config.enabled);
        is_enabled && self.orphans().nodes == Nodes::OfTheConfiguration
    }

    /// Returns whether the wanted tasks of a job are known. While they are not, none of its runs becomes an orphan, ceases to be one, or is
    /// killed. A cancellation names its job, so it requires neither nodes nor an enabled configuration.
    fn knows_what_is_wanted(&self, job: JobId) -> bool {
        let job = || self.engine().job_config(job);
        self.knows_all_that_is_wanted() || job().is_some_and(JobConfig::is_cancelled)
    }

    /// Checks a listed run that this scheduler has not placed, or had placed before the configuration changed.
    pub(crate) fn reconcile_adopted(&mut self, now: Time, run: RunKey, shard: &Shard) {
        if self.tasks().find(run.0, run.1).is_some()
            && let Some(delay) = self.kill_delay(run.0)
        {
            self.orphans_mut().note(now, run, shard, delay);
        }
    }

    /// Returns how long a run of the task may go on, if the task is known to be an orphan with a limit.
    fn kill_delay(&self, task: Task) -> Option<Duration> {
        if !self.knows_what_is_wanted(task.job) {
            return None;
        }
        self.unwanted(task)?;
        let config = self.engine().config()?;
        allowed(config, self.engine().job_config(task.job))
    }

    fn unwanted(&self, task: Task) -> Option<Unwanted> {
        let job = self.engine().job_config(task.job);
        why_unwanted(job, || self.engine().has_enabled_node(task.node))
    }

    /// Returns why a task does not run again after its completion, as far as it is known. A hold does not count, because it can be undone.
    pub(crate) fn why_never_again(&self, task: Task) -> Option<String> {
        self.engine().config()?;
        let why = self.unwanted(task).filter(|why| match why {
            Unwanted::JobGone | Unwanted::JobDisabled | Unwanted::JobHasErrors => true,
            Unwanted::JobCancelled => false,
            Unwanted::NodeGone => self.knows_all_that_is_wanted(),
        });
        why.map(|why| why.to_string())
    }

    /// Returns what happens to a running task that does not run again, and why; `None` if it may run again.
    pub(crate) fn fate_of_unwanted(&self, task: Task) -> Option<String> {
        let why = self.why_never_again(task)?;
        let end = match self.kill_delay(task) {
            None if !self.knows_what_is_wanted(task.job) => {
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

    /// Iterates over the jobs with running tasks that no count of a job includes, because the job or the task's node is gone. Each item has
    /// the number of these tasks.
    pub(crate) fn uncounted_runs(&self) -> impl Iterator<Item = (JobId, u64)> {
        let running = self.tasks().running_by_job();
        let has_config = self.engine().config().is_some();
        let has_nodes = self.engine().nodes().is_some();
        running.filter_map(move |(job, running)| {
            let counted = match self.engine().job_config(job) {
                None => 0,
                // No task is counted until the nodes are loaded.
                Some(_) if !has_nodes => return None,
                Some(_) => self.engine().counts(job).running,
            };
            let uncounted = running.saturating_sub(counted);
            (has_config && uncounted > 0).then_some((job, uncounted))
        })
    }

    /// Returns a sentence about the running tasks of a job that is not configured any more; `None` if there are none.
    pub(crate) fn orphans_of_gone_job(&self, job: JobId) -> Option<String> {
        let (_, running) = self.uncounted_runs().find(|(gone, _)| *gone == job)?;
        self.uncounted_orphans(std::iter::once((job, running)))
    }

    /// Returns a sentence about [`Scheduler::uncounted_runs`] of these jobs; `None` if there are none.
    pub(crate) fn uncounted_orphans(
        &self,
        jobs: impl Iterator<Item = (JobId, u64)>,
    ) -> Option<String> {
        let jobs: Vec<(JobId, u64)> = jobs.collect();
        let total: u64 = jobs.iter().map(|(_, running)| running).sum();
        let shown = jobs.iter().take(MAX_GONE_JOBS_SHOWN);
        let mut names: Vec<String> = shown
            .map(|(job, running)| format!("`{}`: {running}", self.engine().job_name(*job)))
            .collect();
        if jobs.len() > names.len() {
            names.push(format!("{} more jobs", jobs.len() - names.len()));
        }
        let after = self.engine().config()?.kill_orphan_tasks_after;
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

    /// Kills due orphans. Called once a turn, after everything else: a machine that wakes up has due orphans, and the same turn may bring
    /// the news that they are wanted again.
    pub(crate) fn kill_due_orphans(&mut self, now: Time) {
        for shard in std::mem::take(&mut self.orphans_mut().look_at) {
            self.kill_orphans_if_due(now, &shard);
        }
    }

    /// Kills a worker's orphans that are due, as far as they are confirmed to run there.
    fn kill_orphans_if_due(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        match remote.health() {
            // The runs of the worker are not known yet, or lost.
            Health::New | Health::MustDie => return,
            Health::Healthy | Health::Unhealthy => {}
        }
        let (worker, peer) = (remote.id(), remote.address().clone());
        let runs_there = |(task, invocation): &RunKey| {
            let run = self.tasks().find(*task, *invocation);
            run.is_some_and(|run| run.state == RunState::Running)
        };
        let due = self.orphans().due(shard, now).filter(runs_there);
        let due = due.filter(|run| self.may_end(now, *run));
        let due: Vec<RunKey> = due.take(self.orphans().room(shard)).collect();
        for run in due {
            let (task, invocation) = run;
            let kill = Kill {
                request: self.kill_request(task.job),
                by: self.why_ended(task.job),
            };
            let call = Call::KillTask {
                worker,
                task,
                invocation,
                kill,
            };
            let purpose = Purpose::EndOrphan {
                shard: shard.clone(),
                task,
                invocation,
            };
            let id = self.call(now, peer.clone(), call, purpose);
            self.orphans_mut().asked(now, run, id);
        }
    }

    /// Returns the reason that the run's story will give.
    fn why_ended(&self, job: JobId) -> EndedBy {
        let job = self.engine().job_config(job);
        match job.is_some_and(JobConfig::is_cancelled) {
            true => EndedBy::Operator,
            false => EndedBy::Orphan,
        }
    }

    /// Checks whether the run may still be killed, because the configuration may have changed since it was found.
    fn may_end(&self, now: Time, run: RunKey) -> bool {
        let orphan = self.orphans().by_run.get(&run);
        let delay = self.kill_delay(run.0);
        orphan
            .zip(delay)
            .is_some_and(|(orphan, delay)| orphan.since + delay <= now)
    }

    /// Returns when to check a worker's orphans next.
    pub(crate) fn next_orphan(&self, now: Time, shard: &Shard) -> Option<Time> {
        self.orphans().next_due(shard, now)
    }

    pub(crate) fn orphan_asked(
        &mut self,
        now: Time,
        shard: &Shard,
        (run, call): (RunKey, CallId),
        outcome: &CallOutcome<CallReply>,
    ) {
        self.orphans_mut().call_over(shard, call);
        let kill = self.kill_request(run.0.job);
        let kill_wait = match kill.method {
            KillMethod::TermWaitKill => kill.wait,
            KillMethod::Term | KillMethod::Kill => Duration::ZERO,
        };
        let answered = (run, call);
        self.orphans_mut()
            .answered(now, answered, kill_wait, outcome);
        self.evaluate(now, shard);
    }

    /// Returns messages about orphans that were killed repeatedly and still run.
    pub(crate) fn stubborn_orphans(&self, now: Time) -> Vec<String> {
        let orphans = self.orphans().by_run.iter();
        let mut stubborn = orphans.filter(|(_, orphan)| orphan.asked >= STUBBORN);
        let shown = stubborn.by_ref().take(MAX_STUBBORN_SHOWN);
        let mut lines: Vec<String> = shown
            .map(|(run, orphan)| self.stubborn_orphan(now, *run, orphan))
            .collect();
        let more = stubborn.count();
        if more > 0 {
            lines.push(format!("{more} more orphans do not end either"));
        }
        lines
    }

    fn stubborn_orphan(
        &self,
        now: Time,
        (task, invocation): RunKey,
        Orphan {
            shard,
            since: _,
            step: _,
            asked,
            last,
        }: &Orphan,
    ) -> String {
        let key = self.task_key(task);
        let why = self.unwanted(task).map(|why| format!(", as {why},"));
        let last = last.as_ref().map(|(at, text)| {
            let ago = Duration::from_secs(now.since(*at).as_secs());
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

/// Returns why a task is not wanted. Disabled ancestors, filters, another level and fewer slots keep a task from starting, but do not
/// affect a running task.
pub(crate) fn why_unwanted(
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
pub(crate) fn allowed(config: &Config, job: Option<&JobConfig>) -> Option<Duration> {
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

/// Returns whether both configurations give the same nodes: they have the same sources on the same levels.
pub fn has_same_nodes(one: &Config, other: &Config) -> bool {
    std::ptr::eq(one, other)
        || (one.levels == other.levels && one.node_sources == other.node_sources)
}
