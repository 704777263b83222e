//! Wanted against running: a task whose job or node is gone, or whose job is cancelled, runs on as an orphan, and is asked to end
//! once it has been one for as long as its job, or else the settings, allow; at once if the job is cancelled.

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

use crate::calls::Purpose;
use crate::effect::{Call, CallReply};
use crate::scheduler::Scheduler;
use crate::tasks::RunState;

use look::Unseen;
pub(crate) use now::RunNow;

/// `killTask` calls to one worker without an outcome: enough that a whole machine is told within a few round trips, and one that
/// answers slowly is not buried.
const MAX_OPEN_KILLS: usize = 16;
/// Between two wishes to end one orphan, beside the wait that the kill itself may have: whoever heeds the first is gone by then,
/// and has told so.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Pauses double this often: 10 s, 20 s ... 2560 s, 2560 s ...: who heeds none of them within a minute needs a person, who is told.
const MAX_DOUBLINGS: u32 = 8;
/// Asked so often it is told to people: once may merely not have worked yet.
const STUBBORN: u32 = 2;
/// Stubborn orphans that are named: a page of them tells what is wrong with their job.
const MAX_STUBBORN_SHOWN: usize = 20;

/// Jobs named in the sentence about running tasks of jobs and nodes that are gone.
const MAX_GONE_JOBS_SHOWN: usize = 5;

/// A run beside the task's own one is an orphan as that one is.
type RunKey = (Task, InvocationId);

/// Every orphan that has a time to end, and when each worker is called for its sake.
///
/// What is wanted changes with the configuration and the nodes only, and what runs unwanted only by what workers list: so after such
/// a change all is looked at once whose job has changed, or whose node may have gone, and a listed run when it is adopted. What the
/// engine places is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    nodes: Nodes,
    /// When they came in force. For people.
    nodes_since: Option<WallTime>,
    unseen: Unseen,
    /// Node tables that are in force or may come in force, and the configurations whose sources gave them. Whoever drops a table need
    /// not tell.
    tables: Vec<(Weak<NodeTable>, Arc<Config>)>,
    /// Invariant: only of runs that are known.
    by_run: BTreeMap<RunKey, Orphan>,
    by_shard: BTreeMap<Shard, OnShard>,
    /// Workers that were evaluated in this turn: what they run unwanted may be asked to end.
    look_at: BTreeSet<Shard>,
}

/// Whether the nodes in force are those of the configuration in force. Between the two events those of its new sources look gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Nodes {
    /// Or one of the two was never loaded.
    #[default]
    OfAnother,
    OfTheConfiguration,
}

#[derive(Clone, Debug)]
struct Orphan {
    shard: Shard,
    /// When it was first seen that it is one.
    since: Time,
    step: Step,
    /// Wishes that may have arrived.
    asked: u32,
    /// When it was asked last, and what came of it.
    last: Option<(Time, String)>,
}

/// ```text
///   Waiting --due, and its worker said that it runs--> Asked --outcome--> Waiting, each time twice as long
/// ```
/// Either ends with the run, with the loss of its worker, and when it is wanted again or may run on for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is left alone until then, and while it is not sure that it runs.
    Waiting(Time),
    /// This `killTask` has no outcome yet.
    Asked(CallId),
}

#[derive(Clone, Debug, Default)]
struct OnShard {
    /// Those that wait. Invariant: of each the time of its step.
    waiting: BTreeSet<(Time, RunKey)>,
    open: BTreeSet<CallId>,
}

/// Why nobody wants a task any more.
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
    /// An orphan may run for `delay`; when it was seen first counts.
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
            // From the first wish on its pauses count, and a delay that has become longer.
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

    /// The run is over, wanted again, or may run on.
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

    /// At the end of the turn.
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

    /// What came of a wish, if it is the last one of an orphan that still is one. `kill_wait`: what the kill itself takes.
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
                // Nobody was asked: the worker's end, or its loss, bounds how often this happens.
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

    /// The first that becomes due. Those that are due already wait for an outcome or for what their worker says, not for a time.
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
    /// The engine has to know, too: whether all of a job is done can be said of its own nodes only.
    fn set_nodes_of(&mut self, nodes: Nodes) {
        self.orphans_mut().nodes = nodes;
        self.engine_mut().set_nodes_of(match nodes {
            Nodes::OfAnother => TableOf::AnotherConfig,
            Nodes::OfTheConfiguration => TableOf::ThisConfig,
        });
    }

    /// Puts a configuration in force. The nodes stay those of its sources if it has the same ones, and the same order.
    pub(crate) fn apply_config(&mut self, now: Time, config: Arc<Config>) {
        let before = self.engine().config().cloned();
        let before = before.filter(|_| self.knows_all_that_is_wanted());
        // Its sources may be those of one before the last: then nobody reads them again.
        let nodes = self.engine().nodes();
        let nodes = nodes.map_or(Nodes::OfAnother, |nodes| self.whose(nodes, &config));
        self.set_nodes_of(nodes);
        self.engine_mut().begin_config(now, config);
        self.forget_problems_of_gone_jobs();
        if self.engine().nodes().is_none() {
            // Under another order they come in force anew.
            self.set_nodes_of(Nodes::OfAnother);
        }
        self.wants_change(before.as_deref());
    }

    /// Whether it is known which tasks of all jobs are wanted. Invariant: when it becomes known, everything that runs counts as unseen.
    fn knows_all_that_is_wanted(&self) -> bool {
        let is_enabled = self.engine().config().is_some_and(|config| config.enabled);
        is_enabled && self.orphans().nodes == Nodes::OfTheConfiguration
    }

    /// Whether it is known which tasks of a job are wanted. While it is not, none of its runs becomes an orphan, ceases to be one, or is
    /// asked to end. A cancellation names its job, so it needs neither nodes nor a configuration that is enabled.
    fn knows_what_is_wanted(&self, job: JobId) -> bool {
        let job = || self.engine().job_config(job);
        self.knows_all_that_is_wanted() || job().is_some_and(JobConfig::is_cancelled)
    }

    /// A worker lists a run that nobody here has placed, or had placed before all this changed.
    pub(crate) fn reconcile_adopted(&mut self, now: Time, run: RunKey, shard: &Shard) {
        if self.tasks().find(run.0, run.1).is_some()
            && let Some(delay) = self.kill_delay(run.0)
        {
            self.orphans_mut().note(now, run, shard, delay);
        }
    }

    /// How long a run of the task may go on, if it is known to be an orphan that may not do so for ever.
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

    /// Returns why a task does not run again once it has ended, as far as that is known. A hold is no such reason, since it can be undone.
    pub(crate) fn why_never_again(&self, task: Task) -> Option<String> {
        self.engine().config()?;
        let why = self.unwanted(task).filter(|why| match why {
            Unwanted::JobGone | Unwanted::JobDisabled | Unwanted::JobHasErrors => true,
            Unwanted::JobCancelled => false,
            Unwanted::NodeGone => self.knows_all_that_is_wanted(),
        });
        why.map(|why| why.to_string())
    }

    /// Returns what becomes of a running task that does not run again, and why; `None` if it may run again.
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

    /// Iterates over the jobs with running tasks that no count of a job includes, since the job or the task's node is gone, with the number of
    /// these tasks.
    pub(crate) fn uncounted_runs(&self) -> impl Iterator<Item = (JobId, u64)> {
        let running = self.tasks().running_by_job();
        let has_config = self.engine().config().is_some();
        let has_nodes = self.engine().nodes().is_some();
        running.filter_map(move |(job, running)| {
            let counted = match self.engine().job_config(job) {
                None => 0,
                // Until the nodes are loaded no task is counted.
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

    /// Once a turn, after everything that it has brought: a machine that wakes up has orphans that are due, and may be about to hear
    /// that they are wanted again.
    pub(crate) fn kill_due_orphans(&mut self, now: Time) {
        for shard in std::mem::take(&mut self.orphans_mut().look_at) {
            self.kill_orphans_if_due(now, &shard);
        }
    }

    /// Asks those orphans of a worker to end whose time has come, as far as it is sure that they run there.
    fn kill_orphans_if_due(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        match remote.health() {
            // What it runs is not known yet, or over.
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

    /// What the run's story will say.
    fn why_ended(&self, job: JobId) -> EndedBy {
        let job = self.engine().job_config(job);
        match job.is_some_and(JobConfig::is_cancelled) {
            true => EndedBy::Operator,
            false => EndedBy::Orphan,
        }
    }

    /// By what is wanted now, which may have changed since it was looked at.
    fn may_end(&self, now: Time, run: RunKey) -> bool {
        let orphan = self.orphans().by_run.get(&run);
        let delay = self.kill_delay(run.0);
        orphan
            .zip(delay)
            .is_some_and(|(orphan, delay)| orphan.since + delay <= now)
    }

    /// When to look at a worker again for the sake of its orphans.
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

    /// Orphans that were asked to end again and again, and run on.
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

/// Disabled ancestors, filters, another level and fewer slots keep a task from starting; what runs they leave alone.
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

/// How long a run may go on that nobody wants; `None`: for ever.
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

/// The same sources on the same levels give the same nodes, whatever else a configuration says.
pub fn has_same_nodes(one: &Config, other: &Config) -> bool {
    std::ptr::eq(one, other)
        || (one.levels == other.levels && one.node_sources == other.node_sources)
}
