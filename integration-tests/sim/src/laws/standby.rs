//! Laws about tasks that stand by: none waits while another worker could start it, and one that was taken back has not run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{
    EndedBy, Health, InvocationId, SchedulerId, StatusBits, TaskKey, Time, WorkerId,
};
use brasserie_scheduler_core::{Answer, Query, RunningTaskView, Scheduler};
use brasserie_scheduler_engine::{Eligibility, Engine, Reason, Restart, Task};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, CallTag, Happening, OutcomeKind, Run, SchedulerPlace};

/// One in this many turns of a scheduler is checked, because each check copies the engine.
const JUDGED: u32 = 8;

/// The longest time between two take-backs of tasks that another worker could start: the patience of the scheduler, and the longest turn.
const PAUSE: Duration = Duration::from_millis(25 + 300);

law! {
    /// While another worker could start a task that stands by, its scheduler is taking a task back, or has done so a moment ago, once the task has
    /// stood by for 25 ms.
    ///
    /// Source: Standing by. No task may wait behind a long one while a slot is idle elsewhere.
    pub struct TakenBackInTime = "taken_back_in_time" {
        turns: u32,
        /// The time since which the turns of a scheduler have shown such a task without a take-back.
        since: BTreeMap<SchedulerPlace, Time>,
        open: BTreeMap<SchedulerId, BTreeSet<CallTag>>,
        /// Runs of which the scheduler knows that they have arrived. Only these can be taken back.
        arrived: BTreeMap<SchedulerId, BTreeSet<InvocationId>>,
        /// Runs that a worker has agreed to return. Until the scheduler has their ends, they are under way.
        agreed: BTreeMap<SchedulerId, BTreeSet<InvocationId>>,
    }
}

impl Law for TakenBackInTime {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::CallSent {
                place,
                scheduler,
                call,
                ask: Ask::TakeBack { .. },
                ..
            } => {
                self.open.entry(scheduler).or_default().insert(call);
                self.since.remove(&place);
            }
            Happening::CallOver {
                place,
                scheduler,
                call,
                ask: Ask::TakeBack { run },
                outcome,
                ..
            } => {
                if outcome == OutcomeKind::Done {
                    let agreed = self.agreed.entry(scheduler).or_default();
                    agreed.insert(run.invocation);
                }
                if let Some(open) = self.open.get_mut(&scheduler) {
                    open.remove(&call);
                }
                self.since.remove(&place);
            }
            Happening::CallOver {
                scheduler,
                ask: Ask::Run { run, .. },
                outcome: OutcomeKind::Done,
                ..
            } => {
                let arrived = self.arrived.entry(scheduler).or_default();
                arrived.insert(run.invocation);
            }
            Happening::SchedulerStopped {
                place, scheduler, ..
            } => {
                self.open.remove(&scheduler);
                self.arrived.remove(&scheduler);
                self.agreed.remove(&scheduler);
                self.since.remove(&place);
            }
            Happening::SchedulerTurn { place } => return self.judge(now, place),
            _ => {}
        }
        Ok(())
    }
}

impl TakenBackInTime {
    fn judge(&mut self, now: &Moment<'_>, place: SchedulerPlace) -> Verdict {
        self.turns = self.turns.wrapping_add(1);
        let Some(core) = now.world.scheduler(place) else {
            return Ok(());
        };
        // A scheduler with more to do continues at once.
        let is_busy = core.poll_timeout() == Some(Time::ZERO);
        let takes_back = self
            .open
            .get(&core.id())
            .is_some_and(|open| !open.is_empty());
        if is_busy || takes_back {
            self.since.remove(&place);
            return Ok(());
        }
        if !self.turns.is_multiple_of(JUDGED) && !self.since.contains_key(&place) {
            return Ok(());
        }
        let of_scheduler = (self.arrived.get(&core.id()), self.agreed.get(&core.id()));
        let Some(task) = waits_in_vain(core, now, of_scheduler) else {
            self.since.remove(&place);
            return Ok(());
        };
        let since = *self.since.entry(place).or_insert(now.when);
        if now.when.since(since) <= now.world.at_most(PAUSE) {
            return Ok(());
        }
        Err(format!(
            "{task} stands by although another worker could start it"
        ))
    }
}

/// Returns a task that a worker has queued, whose start the scheduler knows to have arrived, and that another worker could start now. `None`
/// while a task is under way that its worker has agreed to return.
fn waits_in_vain(
    core: &Scheduler,
    now: &Moment<'_>,
    (arrived, agreed): (
        Option<&BTreeSet<InvocationId>>,
        Option<&BTreeSet<InvocationId>>,
    ),
) -> Option<String> {
    if let Answer::NothingStarts(reasons) = core.answer(now.when, &Query::NothingStarts)
        && !reasons.is_empty()
    {
        return None;
    }
    let Answer::RunningTasks(running) = core.answer(now.when, &Query::RunningTasks { job: None })
    else {
        return None;
    };
    let is_in =
        |runs: Option<&BTreeSet<InvocationId>>, run| runs.is_some_and(|runs| runs.contains(&run));
    if running.iter().any(|view| is_in(agreed, view.invocation)) {
        return None;
    }
    let queued = queued_at_workers(now, core.id());
    let mut waiting = running.into_iter().filter(|view| {
        is_in(arrived, view.invocation) && queued.contains(&(view.task.clone(), view.invocation))
    });
    let found = waiting.find(|view| could_start_elsewhere(core.engine(), now.when, view))?;
    Some(format!("{} on {}", found.task.job, found.task.node))
}

/// Returns the runs that healthy workers of a scheduler have queued for slots, by the workers themselves.
fn queued_at_workers(
    now: &Moment<'_>,
    scheduler: SchedulerId,
) -> BTreeSet<(TaskKey, InvocationId)> {
    let workers = now.model.workers.iter();
    let cores = workers.filter_map(|(_, alive)| now.world.worker(alive.place));
    let own = cores
        .filter(|core| core.health() == Health::Healthy && core.scheduler() == Some(scheduler));
    let tasks = own.flat_map(|core| core.running_tasks());
    let queued = tasks.filter(|task| task.worker_slots.is_some() && task.ended.is_none());
    queued.map(|task| (task.key(), task.invocation)).collect()
}

fn could_start_elsewhere(engine: &Engine, when: Time, view: &RunningTaskView) -> bool {
    let (job, node) = (&view.task.job, &view.task.node);
    let found = engine
        .find_job(job.as_str())
        .zip(engine.find_node(node.as_str()));
    let Some((job, node)) = found else {
        return false;
    };
    let task = Task { job, node };
    let mut without = engine.clone();
    without.never_began(when, task, None, Restart::AtOnce);
    if let Some(own) = engine.find_worker(view.shard.as_str()) {
        without.set_eligibility(own, Eligibility::Ineligible);
    }
    without.explain(when, task) == [Reason::Runnable]
}

law! {
    /// The end of a run that its worker agreed to return has no wait of its own, and the task keeps its step of the backoff.
    ///
    /// Source: Standing by. A task that was taken back has not run.
    pub struct ReturnedIsNoRun = "returned_is_no_run" {
        returned: BTreeSet<(WorkerId, Run)>,
    }
}

impl Law for ReturnedIsNoRun {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::TakeBack { run },
                refusal: None,
                ..
            } => {
                self.returned.insert((worker, run));
            }
            Happening::KillAsked {
                run,
                by: EndedBy::TakeBack,
                ..
            } => return Err(format!("{run:?} is killed, although it has begun")),
            Happening::StatusSent {
                worker, run, bits, ..
            } if self.returned.contains(&(worker, run))
                && (bits.has(StatusBits::USES_BACKOFF) || !bits.has(StatusBits::OVERWRITEABLE)) =>
            {
                return Err(format!("{run:?} was taken back, and ends with {bits:?}"));
            }
            _ => {}
        }
        Ok(())
    }
}
