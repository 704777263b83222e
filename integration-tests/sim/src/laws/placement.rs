//! Laws about the tasks that the configuration wants: which may start, why others do not, and how unwanted ones end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::{Health, SchedulerId, StatusBits, Time, WallTime, WorkerId};
use brasserie_common_config::{Config, Filter, JobConfig, NodeSource};
use brasserie_scheduler_core::{Answer, Query, RunningTaskView, Scheduler};
use brasserie_scheduler_engine::{Engine, NodeTable, Reason, Restart, Row, Task, TaskState};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, CallTag, Happening, OutcomeKind, Run, SchedulerPlace, TaskId};
use crate::workload::TOP_NODE;

#[cfg(test)]
mod tests;

law! {
    /// A task starts only if its job exists and is enabled, its node exists and is enabled at the level of the job, no filter excludes it, and the
    /// tasks on which it depends are done.
    ///
    /// Source: README.md, and Run of a task. The configuration in force decides which tasks may run.
    pub struct AsConfigured = "as_configured" {}
}

impl Law for AsConfigured {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let Some(sent) = happening.run_sent() else {
            return Ok(());
        };
        let (place, run) = (sent.place, sent.run);
        let Some(core) = now.world.scheduler(place) else {
            return Ok(());
        };
        judge(run.task, core)
    }
}

fn judge(task: TaskId, core: &Scheduler) -> Verdict {
    let engine = core.engine();
    let (Some(config), Some(nodes)) = (engine.config(), engine.nodes()) else {
        return forbidden(task, "nothing is configured".to_owned());
    };
    if let Some(reason) = why_not(task, config, nodes) {
        return forbidden(task, reason);
    }
    let job = config.job(&task.job_name());
    for needed in job.into_iter().flat_map(|job| &job.depends_on) {
        let job = engine.find_job(needed.as_str());
        let node = engine.find_node(&task.node_name());
        if let (Some(job), Some(node)) = (job, node)
            && config.job(needed.as_str()).is_some()
            && engine.task_state(Task { job, node }) != TaskState::Done
        {
            return forbidden(task, format!("`{needed}` is not done there"));
        }
    }
    Ok(())
}

fn forbidden(task: TaskId, reason: String) -> Verdict {
    Err(format!("{task} starts, although {reason}"))
}

/// Returns why the configuration and the nodes forbid the task to start.
fn why_not(task: TaskId, config: &Config, nodes: &NodeTable) -> Option<String> {
    let Some(job) = config.job(&task.job_name()) else {
        return Some("its job is not configured".to_owned());
    };
    if !config.enabled || !job.can_run() {
        return Some("its job is not enabled".to_owned());
    }
    let name = task.node_name();
    // One fitting node among those of one name is enough.
    let mut rows = nodes.rows().filter(|row| nodes.name(*row) == name);
    let fits = |row: Row| {
        let path = std::iter::successors(Some(row), |row| nodes.parent(*row));
        nodes.level(row) == job.level_for_tasks
            && path.into_iter().all(|row| {
                let filter = job.filters.get(&nodes.level(row));
                nodes.enabled(row) && filter.is_none_or(|f| passes(f, nodes.name(row)))
            })
    };
    (!rows.any(fits))
        .then(|| "its node is missing, disabled, avoided or at another level".to_owned())
}

/// Checks lists only; the engine's own tests cover patterns and fractions.
fn passes(filter: &Filter, name: &str) -> bool {
    let listed = filter.whitelist.is_empty() || filter.whitelist.iter().any(|n| n == name);
    listed && !filter.blacklist.iter().any(|n| n == name)
}

law! {
    /// A task of a job that runs only after all nodes are done for others starts only when each of these jobs exists and is enabled, each of its
    /// tasks is done by the records, and none of its runs is under way.
    ///
    /// Source: README.md (`run_only_after_all_nodes_are_done_for`). The task reads the complete output of the other jobs.
    pub struct GatesHold = "gates_hold" {}
}

impl Law for GatesHold {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some(sent) = happening.run_sent()
            && let Some(core) = now.world.scheduler(sent.place)
        {
            return self.judge(now, sent.scheduler, sent.run.task, core);
        }
        Ok(())
    }
}

impl GatesHold {
    fn judge(
        &self,
        now: &Moment<'_>,
        scheduler: SchedulerId,
        task: TaskId,
        core: &Scheduler,
    ) -> Verdict {
        let config = core.engine().config();
        let job = config.and_then(|config| config.job(&task.job_name()));
        for on in job
            .into_iter()
            .flat_map(|job| &job.run_only_after_all_nodes_are_done_for)
        {
            let on = TaskId::from_names(on.as_str(), "n0").job;
            if let Some(why) = self.not_done(now, scheduler, on, core) {
                return Err(format!("{task} starts, although {why}"));
            }
        }
        Ok(())
    }

    /// Returns why not all tasks of a job are done.
    fn not_done(
        &self,
        now: &Moment<'_>,
        scheduler: SchedulerId,
        job: u16,
        core: &Scheduler,
    ) -> Option<String> {
        let engine = core.engine();
        let (Some(config), Some(nodes)) = (engine.config(), engine.nodes()) else {
            return Some("nothing is configured".to_owned());
        };
        let on: Option<&JobConfig> = config.job(&format!("j{job}"));
        let Some(on) = on.filter(|on| on.enabled && on.errors.is_empty()) else {
            return Some(format!("job j{job} is missing, disabled or wrong"));
        };
        if let Some(run) = now.model.runs.of_job(scheduler, job).next() {
            return Some(format!("{} runs", run.task));
        }
        let contents = now.model.directories.contents_of(scheduler);
        let rows = nodes
            .rows()
            .filter(|row| nodes.level(*row) == on.level_for_tasks);
        let tasks = rows.map(|row| TaskId::from_names(on.name.as_str(), nodes.name(row)));
        let mut counted = tasks.filter(|task| why_not(*task, config, nodes).is_none());
        let open = counted.find(|task| {
            let end = contents.and_then(|contents| contents.written_end(*task));
            !end.is_some_and(|end| end.is_done())
        });
        open.map(|task| format!("{task} is not done"))
    }
}

law! {
    /// Once a scheduler has placed all tasks that it can, explain has a reason for each task and calls none runnable. It would call a task that has
    /// just started runnable if only that one did not run, or say that all requested work is given.
    ///
    /// Source: Requests for work (`explainTask`). A reason that placement did not have misleads operators.
    pub struct ExplainIsTrue = "explain_is_true" {
        turns: u32,
    }
}

impl Law for ExplainIsTrue {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some(sent) = happening.run_sent()
            && let Some(core) = now.world.scheduler(sent.place)
        {
            return judge_start(core.engine(), now.when, sent.run.task);
        }
        if let Happening::SchedulerTurn { place } = *happening {
            self.turns = self.turns.wrapping_add(1);
            let core = now.world.scheduler(place);
            let core = core.filter(|_| self.turns.is_multiple_of(JUDGED));
            return core.map_or(Ok(()), |core| judge_rest(core, now.when));
        }
        Ok(())
    }
}

/// Tasks that leave in one turn were placed one after the other, so a later placement also fits beside this one.
fn judge_start(engine: &Engine, when: Time, task: TaskId) -> Verdict {
    let Some(started) = task.known_to(engine) else {
        return Err(format!("{task} starts, and nobody knows its name"));
    };
    // Tasks that stand by at the worker take the slots of this one at once.
    let worker = engine.running_on(started);
    if worker.is_none_or(|worker| engine.standby_count(worker) > 0) {
        return Ok(());
    }
    let mut without = engine.clone();
    let ended = StoredStatus {
        bits: StatusBits::INCOMPLETE,
        time: WallTime::default(),
        backoff_seconds: 0,
        safety_seconds: 0,
        data: None,
    };
    without.end(when, started, ended, None, Restart::AtOnce);
    match without.explain(when, started).as_slice() {
        [Reason::Runnable] => Ok(()),
        // A completion gives neither credit nor reserved space back: this task may have taken the last of them, or the last time before
        // deadlines.
        [
            Reason::NoWorkerNow {
                not_asked,
                late,
                no_space,
                ..
            },
        ] if not_asked.count > 0 || *late > 0 || no_space.is_some() => Ok(()),
        others => {
            let others: Vec<String> = others.iter().map(Reason::to_string).collect();
            let others = others.join(", ");
            Err(format!("{task} starts, although explain says: {others}"))
        }
    }
}

fn judge_rest(core: &Scheduler, when: Time) -> Verdict {
    // The scheduler stopped at its limit of placements and continues at once.
    if core.poll_timeout() == Some(Time::ZERO) {
        return Ok(());
    }
    let engine = core.engine();
    for task in without_reason(engine, when) {
        // The engine does not know why all tasks are held back.
        let name = (engine.job_name(task.job), engine.node_name(task.node));
        let query = Query::Explain {
            job: name.0.to_string(),
            node: name.1.to_string(),
        };
        let told = match core.answer(when, &query) {
            Answer::Explain(told) => told,
            other => vec![format!("{other:?}")],
        };
        if told.is_empty() || told.contains(&Reason::Runnable.to_string()) {
            return Err(format!(
                "{} on {} does not run, and explain says: {told:?}",
                name.0, name.1
            ));
        }
    }
    Ok(())
}

/// Returns the tasks for which the engine knows no obstacle.
fn without_reason(engine: &Engine, when: Time) -> impl Iterator<Item = Task> + '_ {
    let tasks = engine.jobs().flat_map(|job| engine.tasks(job));
    tasks.filter(move |task| {
        let reasons = engine.explain(when, *task);
        reasons.is_empty() || reasons.contains(&Reason::Runnable)
    })
}

/// One in this many turns of a scheduler is checked, because asking about every task costs more than the turn.
const JUDGED: u32 = 8;

law! {
    /// A scheduler asks a task to end by itself only when its job or node is gone and the delay is over. It then does so in time if its worker can be
    /// called, and again only after pauses that double from 10 s.
    ///
    /// Source: Scheduler to worker, `killTask`. A wanted task must never be killed by mistake, and an unwanted one must not stay.
    pub struct OrphansEnd = "orphans_end" {
        turns: BTreeMap<SchedulerPlace, UnfinishedTurn>,
        orphans: BTreeMap<(SchedulerId, Run), UnwantedRun>,
        open: BTreeMap<(SchedulerId, WorkerId), BTreeSet<CallTag>>,
        /// Schedulers that loaded two configurations in one turn. The first cannot be seen from outside, so these are no longer checked.
        unjudged: BTreeSet<SchedulerId>,
    }
}

impl Law for OrphansEnd {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::ConfigLoaded { place, scheduler } => {
                let turn = self.turns.entry(place).or_default();
                turn.look = true;
                turn.configs += 1;
                if turn.configs > 1 {
                    self.unjudged.insert(scheduler);
                }
            }
            Happening::NodesLoaded { place, .. }
            | Happening::CallOver {
                place,
                ask: Ask::Fetch,
                outcome: OutcomeKind::Done,
                ..
            } => self.turns.entry(place).or_default().look = true,
            Happening::OperatorWishes { place, task, .. } => {
                self.turns.entry(place).or_default().wishes.insert(task);
            }
            Happening::CallSent {
                place,
                scheduler,
                worker,
                call,
                ask: Ask::Kill { run },
            } => return self.killed(now, (place, scheduler), (worker, call), run),
            Happening::CallOver {
                scheduler,
                worker,
                call,
                ask: Ask::Kill { run },
                outcome,
                ..
            } => self.answered((scheduler, worker), call, run, outcome),
            Happening::SchedulerTurn { place } => return self.turn_ends(now, place),
            Happening::SchedulerStopped {
                place, scheduler, ..
            } => {
                self.turns.remove(&place);
                self.orphans.retain(|(by, _), _| *by != scheduler);
                self.open.retain(|(by, _), _| *by != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl OrphansEnd {
    fn killed(
        &mut self,
        now: &Moment<'_>,
        (place, scheduler): (SchedulerPlace, SchedulerId),
        (worker, call): (WorkerId, CallTag),
        run: Run,
    ) -> Verdict {
        let key = (scheduler, run);
        let is_wish = |turn: &UnfinishedTurn| turn.wishes.contains(&run.task);
        if self.turns.get(&place).is_some_and(is_wish) {
            if let Some(orphan) = self.orphans.get_mut(&key) {
                // Either kill may be the scheduler's own.
                orphan.deadline = None;
            }
            return Ok(());
        }
        let Some(config) = now
            .world
            .scheduler(place)
            .filter(|_| !self.unjudged.contains(&scheduler))
            .and_then(|core| core.engine().config())
        else {
            return Ok(());
        };
        let known = self.orphans.get(&key).copied();
        let orphan = known.unwrap_or_else(|| UnwantedRun::since(now.when));
        if let Some(fault) = orphan.fault(now.when, delay(run.task, config), |wait| {
            now.world.at_least(wait)
        }) {
            return Err(broken(run, fault));
        }
        let asked = UnwantedRun {
            deadline: None,
            kills: orphan.kills + 1,
            last: Some(now.when),
            ..orphan
        };
        self.orphans.insert(key, asked);
        let open = self.open.entry((scheduler, worker)).or_default();
        open.insert(call);
        if open.len() > MAX_OPEN {
            return Err(broken(run, "is asked to end beside too many others"));
        }
        Ok(())
    }

    fn answered(
        &mut self,
        (scheduler, worker): (SchedulerId, WorkerId),
        call: CallTag,
        run: Run,
        outcome: OutcomeKind,
    ) {
        let open = self.open.get_mut(&(scheduler, worker));
        let is_own = open.is_some_and(|open| open.remove(&call));
        if is_own
            && outcome == OutcomeKind::NotSent
            && let Some(orphan) = self.orphans.get_mut(&(scheduler, run))
        {
            orphan.kills = orphan.kills.saturating_sub(1);
        }
    }

    fn turn_ends(&mut self, now: &Moment<'_>, place: SchedulerPlace) -> Verdict {
        let turn = self.turns.remove(&place).unwrap_or_default();
        let Some(core) = now.world.scheduler(place) else {
            return Ok(());
        };
        let by = core.id();
        if core.stepped_down().is_some() || self.unjudged.contains(&by) {
            return Ok(());
        }
        if let Some(config) = core.engine().config().filter(|_| turn.look) {
            let nodes = core.engine().nodes();
            let wanted = match nodes.is_some_and(|nodes| are_those_of(nodes, config)) {
                true => WantedNodes::Known,
                false => WantedNodes::NotKnown,
            };
            let runs = running(now.when, core).map(|view| {
                let run = run_of(&view);
                (run, delay(run.task, config))
            });
            let runs = runs.collect();
            self.look(now.when, (by, wanted), runs, |wait| now.world.at_most(wait));
        }
        let is_late =
            |orphan: &UnwantedRun| orphan.deadline.is_some_and(|deadline| deadline < now.when);
        let mut late = self.orphans.iter().filter(|((of, _), _)| *of == by);
        if late.any(|(_, orphan)| is_late(orphan)) {
            let runs = running(now.when, core);
            let runs = runs.map(|view| (run_of(&view), self.reach(now.when, core, &view)));
            let runs = runs.collect();
            return self.judge(now.when, by, &runs);
        }
        Ok(())
    }

    /// Records which runs are unwanted from here on, and by when the scheduler must ask them to end. `runs`: all running tasks, with the
    /// verdict of the configuration.
    fn look(
        &mut self,
        when: Time,
        (by, wanted): (SchedulerId, WantedNodes),
        runs: Vec<(Run, Result<Duration, Unjust>)>,
        at_most: impl Fn(Duration) -> Duration,
    ) {
        let of_others = self.orphans.iter().filter(|((of, _), _)| *of != by);
        let of_others = of_others.map(|(key, orphan)| (*key, *orphan)).collect();
        let mut before = std::mem::replace(&mut self.orphans, of_others);
        for (run, delay) in runs {
            let known = before.remove(&(by, run));
            let orphan = match (known, delay, wanted) {
                (None, Err(_), _) | (Some(_), Err(_), WantedNodes::Known) => continue,
                (Some(known), _, WantedNodes::NotKnown) => UnwantedRun {
                    deadline: None,
                    ..known
                },
                (None, Ok(_), WantedNodes::NotKnown) => UnwantedRun::since(when),
                (known, Ok(delay), WantedNodes::Known) => {
                    let orphan = known.unwrap_or_else(|| UnwantedRun::since(when));
                    let deadline = when + at_most(delay + SLACK);
                    UnwantedRun {
                        deadline: orphan.last.is_none().then_some(deadline),
                        ..orphan
                    }
                }
            };
            self.orphans.insert((by, run), orphan);
        }
    }

    /// Checks the deadlines of the orphans. `runs`: all running tasks.
    fn judge(&mut self, when: Time, by: SchedulerId, runs: &BTreeMap<Run, Reach>) -> Verdict {
        for ((of, run), orphan) in &mut self.orphans {
            if *of != by || orphan.deadline.is_none_or(|deadline| deadline >= when) {
                continue;
            }
            match runs.get(run) {
                None => orphan.deadline = None,
                Some(Reach::CannotBeAsked) => orphan.deadline = Some(when + SLACK),
                Some(Reach::CanBeAsked) => {
                    return Err(broken(*run, "is not wanted, and not asked to end"));
                }
            }
        }
        Ok(())
    }

    fn reach(&self, when: Time, core: &Scheduler, view: &RunningTaskView) -> Reach {
        let Answer::Status(status) = core.answer(when, &Query::Status) else {
            return Reach::CannotBeAsked;
        };
        let mut workers = status.workers.iter();
        let worker = workers.find(|worker| worker.shard == view.shard);
        let can_be_asked = worker.is_some_and(|worker| {
            let open = self.open.get(&(core.id(), worker.id));
            !view.unsure
                && matches!(worker.health, Health::Healthy | Health::Unhealthy)
                && open.is_none_or(|open| open.len() < MAX_OPEN)
        });
        match can_be_asked {
            true => Reach::CanBeAsked,
            false => Reach::CannotBeAsked,
        }
    }
}

impl UnwantedRun {
    fn since(when: Time) -> Self {
        UnwantedRun {
            since: when,
            deadline: None,
            kills: 0,
            last: None,
        }
    }

    /// Returns what is wrong with a kill at this moment.
    fn fault(
        &self,
        when: Time,
        delay: Result<Duration, Unjust>,
        at_least: impl Fn(Duration) -> Duration,
    ) -> Option<&'static str> {
        let delay = match delay {
            Ok(delay) => delay,
            Err(Unjust::IsWanted) => return Some("is asked to end although it is wanted"),
            Err(Unjust::MayStay) => return Some("is asked to end although it may run for ever"),
        };
        if when < self.since + at_least(delay) {
            return Some("is asked to end before its delay is over");
        }
        let doublings = self.kills.saturating_sub(1).min(LONGEST_PAUSE.ilog2());
        let pause = at_least(FIRST_PAUSE * (1 << doublings));
        let is_soon = self.last.is_some_and(|last| when < last + pause);
        is_soon.then_some("is asked to end again without a pause")
    }
}

fn broken(run: Run, what: &str) -> String {
    format!("{run} {what}")
}

fn running(when: Time, core: &Scheduler) -> std::vec::IntoIter<RunningTaskView> {
    match core.answer(when, &Query::RunningTasks { job: None }) {
        Answer::RunningTasks(views) => views.into_iter(),
        _ => Vec::new().into_iter(),
    }
}

fn run_of(view: &RunningTaskView) -> Run {
    Run {
        task: TaskId::from_names(view.task.job.as_str(), view.task.node.as_str()),
        invocation: view.invocation,
    }
}

/// Returns the names of the nodes that the configuration lists, and whether each is enabled.
fn listed(config: &Config) -> BTreeSet<(&str, bool)> {
    let sources = config.node_sources.iter();
    let manual = sources.filter_map(|source| match source {
        NodeSource::Manual(manual) => Some(&manual.nodes),
        _ => None,
    });
    let nodes = manual.flatten();
    nodes.map(|n| (n.name.as_str(), n.enabled)).collect()
}

fn are_those_of(nodes: &NodeTable, config: &Config) -> bool {
    let rows = nodes.rows().filter(|row| *row != Row::ROOT);
    let rows = rows.map(|row| (nodes.name(row), nodes.enabled(row)));
    rows.collect::<BTreeSet<_>>() == listed(config)
}

/// Returns how long the configuration lets a run of the task continue, whether or not its nodes have arrived.
fn delay(task: TaskId, config: &Config) -> Result<Duration, Unjust> {
    let job = config.job(&task.job_name());
    let node = task.node_name();
    // No list contains the node above all others.
    let has_node = || node == TOP_NODE || listed(config).contains(&(node.as_str(), true));
    if job.is_some_and(|job| job.can_run()) && has_node() {
        return Err(Unjust::IsWanted);
    }
    let delay = match job {
        Some(job) => job.kill_orphan_tasks_after,
        None => config.kill_orphan_tasks_after,
    };
    delay.ok_or(Unjust::MayStay)
}

/// The longest time until the outcome of `runTask`, and a little more. Before the outcome the scheduler is not sure that the orphan runs.
const SLACK: Duration = Duration::from_secs(6);
/// The pause between the first two kills of one orphan.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The factor by which pauses grow at most.
const LONGEST_PAUSE: u32 = 256;
/// The number of kills that one worker may have without an outcome.
const MAX_OPEN: usize = 16;

/// An unwanted run that a scheduler knows.
#[derive(Clone, Copy, Debug)]
struct UnwantedRun {
    /// The earliest time at which the scheduler can have known.
    since: Time,
    /// The time by which the scheduler should have asked the run to end, if it still can. `None`: it has asked, or it does not know the
    /// nodes yet.
    deadline: Option<Time>,
    /// Kills that may have arrived.
    kills: u32,
    last: Option<Time>,
}

/// Why a scheduler must not ask a task to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unjust {
    IsWanted,
    MayStay,
}

/// Whether the nodes in force are those that the configuration in force lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedNodes {
    Known,
    NotKnown,
}

/// Whether the scheduler is sure that a run goes on, on a worker that it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    CanBeAsked,
    CannotBeAsked,
}

/// The unfinished turn of a scheduler.
#[derive(Clone, Debug, Default)]
struct UnfinishedTurn {
    /// The wanted tasks, or the running ones, may have changed.
    look: bool,
    configs: u32,
    /// Tasks that an operator wants to end. Their kills are not the scheduler's own.
    wishes: BTreeSet<TaskId>,
}
