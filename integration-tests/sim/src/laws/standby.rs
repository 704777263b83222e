//! Laws about tasks that stand by: none waits while another worker could start it, and one that was taken back has not run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{EndedBy, InvocationId, SchedulerId, StatusBits, Time, WorkerId};
use brasserie_scheduler_core::{Answer, Query, Scheduler};
use brasserie_scheduler_engine::{Engine, Reason, Restart, Task};

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
                ask: Ask::TakeBack { .. },
                ..
            } => {
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
        if is_busy || takes_back || !core.engine().has_standby() {
            self.since.remove(&place);
            return Ok(());
        }
        if !self.turns.is_multiple_of(JUDGED) && !self.since.contains_key(&place) {
            return Ok(());
        }
        let arrived = self.arrived.get(&core.id());
        let has_arrived = |run| arrived.is_some_and(|arrived| arrived.contains(&run));
        let Some(task) = waits_in_vain(core, now.when, has_arrived) else {
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

/// Returns a task that stands by, that has arrived at its worker, and that another worker could start now.
fn waits_in_vain(
    core: &Scheduler,
    when: Time,
    has_arrived: impl Fn(InvocationId) -> bool,
) -> Option<String> {
    if let Answer::NothingStarts(reasons) = core.answer(when, &Query::NothingStarts)
        && !reasons.is_empty()
    {
        return None;
    }
    let Answer::RunningTasks(running) = core.answer(when, &Query::RunningTasks { job: None })
    else {
        return None;
    };
    let engine = core.engine();
    let arrived = running
        .into_iter()
        .filter(|view| has_arrived(view.invocation));
    let mut names = arrived.map(|view| view.task);
    let found = names.find(|name| {
        let job = engine.find_job(name.job.as_str());
        let task = job.zip(engine.find_node(name.node.as_str()));
        let task = task.map(|(job, node)| Task { job, node });
        task.is_some_and(|task| could_start_elsewhere(engine, when, task))
    })?;
    Some(format!("{} on {}", found.job, found.node))
}

fn could_start_elsewhere(engine: &Engine, when: Time, task: Task) -> bool {
    if engine.standby_place(task).is_none() {
        return false;
    }
    let mut without = engine.clone();
    without.never_began(when, task, None, Restart::AtOnce);
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
