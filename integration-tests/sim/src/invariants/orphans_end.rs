//! Law `orphans_end`: A scheduler asks a task to end by itself only when its job or node is gone and the delay is over, then in time if its
//! worker can be asked, and again only after pauses that double from 10 s.
//!
//! Source: thrift/PROTOCOL.md, Scheduler to worker, `killTask`. A wanted task must never be killed by mistake, and an unwanted one must not
//! stay.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{Health, SchedulerId, Time, WorkerId};
use brasserie_common_config::{Config, NodeSource};
use brasserie_scheduler_core::{Answer, Query, RunningTaskView, Scheduler};
use brasserie_scheduler_engine::{NodeTable, Row};

use super::{Law, Violation};
use crate::event_log::{Ask, CallTag, Happening, OutcomeKind, Run, SchedulerPlace, TaskId};
use crate::model::drift;
use crate::view::World;

const NAME: &str = "orphans_end";

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
struct Orphan {
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
enum Wanted {
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
struct Turn {
    /// The wanted tasks, or the running ones, may have changed.
    look: bool,
    configs: u32,
    /// Tasks that an operator wants to end. Their kills are not the scheduler's own.
    wishes: BTreeSet<TaskId>,
}

#[derive(Default)]
pub struct OrphansEnd {
    turns: BTreeMap<SchedulerPlace, Turn>,
    orphans: BTreeMap<(SchedulerId, Run), Orphan>,
    open: BTreeMap<(SchedulerId, WorkerId), BTreeSet<CallTag>>,
    /// Schedulers that loaded two configurations in one turn. The first cannot be seen from outside, so these are no longer checked.
    unjudged: BTreeSet<SchedulerId>,
}

impl Law for OrphansEnd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A scheduler asks a task to end by itself only when its job or node is gone and the delay is over, then in time if its worker can be asked, and again only after pauses that double from 10 s."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
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
            } => return self.killed(when, (place, scheduler), (worker, call), run, world),
            Happening::CallOver {
                scheduler,
                worker,
                call,
                ask: Ask::Kill { run },
                outcome,
                ..
            } => self.answered((scheduler, worker), call, run, outcome),
            Happening::SchedulerTurn { place } => return self.turn_ends(when, place, world),
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
        when: Time,
        (place, scheduler): (SchedulerPlace, SchedulerId),
        (worker, call): (WorkerId, CallTag),
        run: Run,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let key = (scheduler, run);
        let is_wish = |turn: &Turn| turn.wishes.contains(&run.task);
        if self.turns.get(&place).is_some_and(is_wish) {
            if let Some(orphan) = self.orphans.get_mut(&key) {
                // Either kill may be the scheduler's own.
                orphan.deadline = None;
            }
            return Ok(());
        }
        let Some(config) = core_at(world, place)
            .filter(|_| !self.unjudged.contains(&scheduler))
            .and_then(|core| core.engine().config())
        else {
            return Ok(());
        };
        let known = self.orphans.get(&key).copied();
        let orphan = known.unwrap_or_else(|| Orphan::since(when));
        if let Some(fault) = orphan.fault(when, delay(run.task, config), |wait| {
            drift::at_least(world, wait)
        }) {
            return Err(broken(run, fault));
        }
        let asked = Orphan {
            deadline: None,
            kills: orphan.kills + 1,
            last: Some(when),
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

    fn turn_ends(
        &mut self,
        when: Time,
        place: SchedulerPlace,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let turn = self.turns.remove(&place).unwrap_or_default();
        let Some(core) = core_at(world, place) else {
            return Ok(());
        };
        let by = core.id();
        if core.stepped_down().is_some() || self.unjudged.contains(&by) {
            return Ok(());
        }
        if let Some(config) = core.engine().config().filter(|_| turn.look) {
            let nodes = core.engine().nodes();
            let wanted = match nodes.is_some_and(|nodes| are_those_of(nodes, config)) {
                true => Wanted::Known,
                false => Wanted::NotKnown,
            };
            let runs = running(when, core).map(|view| {
                let run = run_of(&view);
                (run, delay(run.task, config))
            });
            let runs = runs.collect();
            self.look(when, (by, wanted), runs, |wait| drift::at_most(world, wait));
        }
        let is_late = |orphan: &Orphan| orphan.deadline.is_some_and(|deadline| deadline < when);
        let mut late = self.orphans.iter().filter(|((of, _), _)| *of == by);
        if late.any(|(_, orphan)| is_late(orphan)) {
            let runs = running(when, core);
            let runs = runs.map(|view| (run_of(&view), self.reach(when, core, &view)));
            let runs = runs.collect();
            return self.judge(when, by, &runs);
        }
        Ok(())
    }

    /// Records which runs are unwanted from here on, and by when the scheduler must ask them to end. `runs`: all running tasks, with the
    /// verdict of the configuration.
    fn look(
        &mut self,
        when: Time,
        (by, wanted): (SchedulerId, Wanted),
        runs: Vec<(Run, Result<Duration, Unjust>)>,
        at_most: impl Fn(Duration) -> Duration,
    ) {
        let of_others = self.orphans.iter().filter(|((of, _), _)| *of != by);
        let of_others = of_others.map(|(key, orphan)| (*key, *orphan)).collect();
        let mut before = std::mem::replace(&mut self.orphans, of_others);
        for (run, delay) in runs {
            let known = before.remove(&(by, run));
            let orphan = match (known, delay, wanted) {
                (None, Err(_), _) | (Some(_), Err(_), Wanted::Known) => continue,
                (Some(known), _, Wanted::NotKnown) => Orphan {
                    deadline: None,
                    ..known
                },
                (None, Ok(_), Wanted::NotKnown) => Orphan::since(when),
                (known, Ok(delay), Wanted::Known) => {
                    let orphan = known.unwrap_or_else(|| Orphan::since(when));
                    let deadline = when + at_most(delay + SLACK);
                    Orphan {
                        deadline: orphan.last.is_none().then_some(deadline),
                        ..orphan
                    }
                }
            };
            self.orphans.insert((by, run), orphan);
        }
    }

    /// Checks the deadlines of the orphans. `runs`: all running tasks.
    fn judge(
        &mut self,
        when: Time,
        by: SchedulerId,
        runs: &BTreeMap<Run, Reach>,
    ) -> Result<(), Violation> {
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

impl Orphan {
    fn since(when: Time) -> Self {
        Orphan {
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

fn broken(run: Run, what: &str) -> Violation {
    let (invocation, task) = (run.invocation, run.task);
    Violation::new(NAME, format_args!("run {invocation} of {task} {what}"))
}

fn core_at<'a>(world: &World<'a>, place: SchedulerPlace) -> Option<&'a Scheduler> {
    world.schedulers.get(usize::from(place.0))?.core()
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
    let job = config.job(&format!("j{}", task.job));
    let node = format!("n{}", task.node);
    let has_node = || listed(config).contains(&(node.as_str(), true));
    if job.is_some_and(|job| job.can_run()) && has_node() {
        return Err(Unjust::IsWanted);
    }
    let delay = match job {
        Some(job) => job.kill_orphan_tasks_after,
        None => config.kill_orphan_tasks_after,
    };
    delay.ok_or(Unjust::MayStay)
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common_config::{ParseOptions, parse};

    const BY: i64 = 1;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn at(n: u64) -> Time {
        Time::ZERO + secs(n)
    }

    fn says(settings: &str, job: &str) -> Result<Duration, Unjust> {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs":
                {{"n0": [], "n1": {{"disabled": true}}}}}}]}}, "resources": {{}}{settings}}}{job}}}"#
        );
        let config = parse(&text, ParseOptions::default()).unwrap().config;
        delay(run(1).task, &config)
    }

    #[test]
    fn the_configuration_says_what_is_wanted_and_for_how_long() {
        let after = |n: u64| format!(r#", "kill_orphan_tasks_after_sec": {n}"#);
        let job = |number: u32, keys: &str| {
            format!(r#", "bistro_job->j{number}": {{"owner": "o", "command": ["x"]{keys}}}"#)
        };
        let off = |keys: &str| job(0, &format!(r#", "enabled": false{keys}"#));
        assert_eq!(says(&after(3), &job(0, "")), Err(Unjust::IsWanted));
        assert_eq!(says(&after(3), &job(7, "")), Ok(secs(3)));
        assert_eq!(says("", &job(7, "")), Err(Unjust::MayStay));
        assert_eq!(says(&after(3), &off("")), Ok(secs(3)));
        assert_eq!(says(&after(3), &off(&after(9))), Ok(secs(9)));
        assert_eq!(says("", &off("")), Err(Unjust::MayStay));
    }

    #[test]
    fn a_kill_is_just_late_enough_and_rare() {
        let fault = |orphan: Orphan, n: u64, delay| {
            let fault = orphan.fault(at(n), delay, |wait| wait);
            fault.unwrap_or_default().to_owned()
        };
        let fresh = Orphan::since(at(100));
        assert!(fault(fresh, 500, Err(Unjust::IsWanted)).contains("it is wanted"));
        assert!(fault(fresh, 500, Err(Unjust::MayStay)).contains("for ever"));
        assert!(fault(fresh, 119, Ok(secs(20))).contains("before its delay"));
        assert_eq!(fault(fresh, 120, Ok(secs(20))), "");
        let asked = |kills| Orphan {
            kills,
            last: Some(at(200)),
            ..fresh
        };
        for (kills, pause) in [(0, 10), (1, 10), (2, 20), (4, 80), (40, 2560)] {
            let early = fault(asked(kills), 200 + pause - 1, Ok(secs(0)));
            assert!(early.contains("without a pause"), "{kills}: {early}");
            assert_eq!(fault(asked(kills), 200 + pause, Ok(secs(0))), "", "{kills}");
        }
    }

    #[test]
    fn an_orphan_is_asked_in_time_if_it_can_be() {
        let by = sid(BY);
        let mut law = OrphansEnd::default();
        let mut look = |n: u64, wanted, delay| {
            law.look(at(n), (by, wanted), vec![(run(1), delay)], |wait| wait);
            law.orphans.get(&(by, run(1))).copied()
        };
        assert!(look(1, Wanted::Known, Err(Unjust::IsWanted)).is_none());
        let first = look(5, Wanted::NotKnown, Ok(secs(20))).unwrap();
        assert_eq!((first.since, first.deadline), (at(5), None));
        let known = look(8, Wanted::Known, Ok(secs(20))).unwrap();
        assert_eq!(known.since, at(5));
        assert_eq!(known.deadline, Some(at(28) + SLACK));
        let runs = |reach| BTreeMap::from([(run(1), reach)]);
        assert_eq!(law.judge(at(34), by, &runs(Reach::CanBeAsked)), Ok(()));
        assert_eq!(law.judge(at(35), by, &runs(Reach::CannotBeAsked)), Ok(()));
        let violation = law.judge(at(42), by, &runs(Reach::CanBeAsked));
        assert!(violation.unwrap_err().what.contains("not asked to end"));
        assert_eq!(law.judge(at(43), by, &BTreeMap::new()), Ok(()));
        assert_eq!(law.judge(at(99), by, &runs(Reach::CanBeAsked)), Ok(()));
    }
}
