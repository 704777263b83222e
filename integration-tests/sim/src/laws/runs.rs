//! Laws about one run, from `runTask` over its acceptance and its process to its acknowledgement and its limits of time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::collections::IdSet;
use brasserie_common::{EndedBy, InvocationId, SchedulerId, StatusBits, Time, WorkerId};
use brasserie_scheduler_engine::TaskState;

use super::{Law, Moment, Verdict, law};
use crate::artifact_events::ArtifactEvent;
use crate::event_log::{Ask, Happening, Run, RunSent, WorkerPlace};
use crate::view::World;

#[cfg(test)]
mod tests;

law! {
    /// runTask is sent once for each invocation id, and no scheduler uses an id again.
    ///
    /// Source: B3. A repeated call could start a run that has ended or was denied.
    pub struct SentOnce = "sent_once" {
        sent: IdSet<InvocationId>,
    }
}

impl Law for SentOnce {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        let Some(sent) = happening.run_sent() else {
            return Ok(());
        };
        let (scheduler, run) = (sent.scheduler, sent.run);
        if self.sent.insert(run.invocation) {
            return Ok(());
        }
        Err(format!(
            "scheduler {scheduler} sends {run}, whose id was sent before"
        ))
    }
}

law! {
    /// One worker accepts a run, once.
    ///
    /// Source: R18. A repeated message must not start a run twice, even after its completion was acknowledged.
    pub struct AcceptedOnce = "accepted_once" {
        accepted: IdSet<InvocationId>,
    }
}

impl Law for AcceptedOnce {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        let Some((worker, run)) = happening.run_accepted() else {
            return Ok(());
        };
        if self.accepted.insert(run.invocation) {
            return Ok(());
        }
        Err(format!("worker {worker} accepts {run} a second time"))
    }
}

law! {
    /// A worker starts only runs that it has accepted, each at most once, and none whose completion it has reported or that it has let be killed.
    ///
    /// Source: What our worker does with it. A queued task is running for its scheduler, and the scheduler's requests apply to it like to a process.
    pub struct BeginsOnce = "begins_once" {
        accepted: BTreeMap<RunAtWorker, BegunRun>,
        turns: BTreeMap<WorkerPlace, u64>,
    }
}

impl Law for BeginsOnce {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerTurn { place } => *self.turns.entry(place).or_default() += 1,
            Happening::Served {
                place,
                worker,
                ask,
                refusal: None,
                ..
            } => match ask {
                Ask::Run { run, .. } => {
                    self.accepted.entry((worker, run.invocation)).or_default();
                }
                Ask::Kill { run } | Ask::TakeBack { run } => {
                    self.over(place, (worker, run), "it was killed");
                }
                Ask::Fetch
                | Ask::Healthcheck { .. }
                | Ask::Notify { .. }
                | Ask::Suicide
                | Ask::Drain => {}
            },
            Happening::StatusSent {
                place, worker, run, ..
            } => self.over(place, (worker, run), "its end was told"),
            Happening::ProcessStarted {
                place, worker, run, ..
            }
            | Happening::SpawnFailed { place, worker, run }
                if !run.task.is_healthcheck() =>
            {
                return self.starts(place, worker, run);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.accepted.retain(|(of, _), _| *of != worker);
            }
            _ => {}
        }
        Ok(())
    }
}

impl BeginsOnce {
    fn over(&mut self, place: WorkerPlace, (worker, run): (WorkerId, Run), why: &'static str) {
        let turn = self.turns.get(&place).copied().unwrap_or(0);
        if let Some(begun) = self.accepted.get_mut(&(worker, run.invocation)) {
            begun.over.get_or_insert((turn, why));
        }
    }

    /// The shell performs the effects of a turn after the turn.
    fn starts(&mut self, place: WorkerPlace, worker: WorkerId, run: Run) -> Verdict {
        let turns = self.turns.get(&place).copied().unwrap_or(0);
        let broken = |what: &str| {
            Err(format!(
                "worker {worker} starts {}, run {}, {what}",
                run.task, run.invocation
            ))
        };
        match self.accepted.get_mut(&(worker, run.invocation)) {
            None => broken("which it did not accept"),
            Some(begun) if begun.is_started => broken("which it has started before"),
            Some(BegunRun {
                over: Some((turn, why)),
                ..
            }) if turns > *turn + 1 => broken(&format!("although {why}")),
            Some(begun) => {
                begun.is_started = true;
                Ok(())
            }
        }
    }
}

type RunAtWorker = (WorkerId, InvocationId);

#[derive(Default)]
struct BegunRun {
    is_started: bool,
    /// The turn of the worker in which nothing was left to start, and the reason.
    over: Option<(u64, &'static str)>,
}

law! {
    /// A run that a worker has refused, or reported as not running, never starts there.
    ///
    /// Source: B4, R18 and R19. The scheduler relies on the denial and starts the task elsewhere.
    pub struct DeniedNeverStarts = "denied_never_starts" {
        accepted: IdSet<(WorkerId, InvocationId)>,
        denied: IdSet<(WorkerId, InvocationId)>,
        /// Runs that were accepted and have neither begun nor ended.
        starting: BTreeSet<(WorkerId, InvocationId)>,
    }
}

impl Law for DeniedNeverStarts {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal,
                ..
            } => {
                let id = (worker, run.invocation);
                match refusal {
                    Some(_) if !self.accepted.contains(&id) => {
                        self.denied.insert(id);
                    }
                    Some(_) => {}
                    None => {
                        self.not_denied(worker, run)?;
                        self.accepted.insert(id);
                        self.starting.insert(id);
                    }
                }
            }
            Happening::StatusSent {
                worker, run, bits, ..
            } if bits.has(StatusBits::OVERWRITEABLE) => {
                if bits.has(StatusBits::INCOMPLETE) {
                    // The worker returns a queued run.
                    self.starting.remove(&(worker, run.invocation));
                }
                self.says_not_running(now, worker, run)?;
            }
            // The worker reported the completion of a queued run that never began.
            Happening::StatusSent { worker, run, .. } => {
                self.starting.remove(&(worker, run.invocation));
            }
            Happening::ProcessStarted { worker, run, .. } if !run.task.is_healthcheck() => {
                self.starting.remove(&(worker, run.invocation));
                self.not_denied(worker, run)?;
                if !self.accepted.contains(&(worker, run.invocation)) {
                    return Err(format!(
                        "worker {worker} starts {run}, which it never accepted"
                    ));
                }
            }
            Happening::SpawnFailed { worker, run, .. } => {
                self.starting.remove(&(worker, run.invocation));
            }
            _ => {}
        }
        Ok(())
    }
}

impl DeniedNeverStarts {
    fn not_denied(&self, worker: WorkerId, run: Run) -> Verdict {
        if !self.denied.contains(&(worker, run.invocation)) {
            return Ok(());
        }
        Err(format!(
            "worker {worker} starts {run}, which it denied before"
        ))
    }

    fn says_not_running(&mut self, now: &Moment<'_>, worker: WorkerId, run: Run) -> Verdict {
        let mut live = now.model.executions.of_worker(worker);
        let id = (worker, run.invocation);
        if live.any(|(_, e)| e.run == run) || self.starting.contains(&id) {
            return Err(format!(
                "worker {worker} says that {run} does not run, but it does"
            ));
        }
        self.denied.insert(id);
        Ok(())
    }
}

law! {
    /// A task is running for its scheduler from before runTask leaves until an accepted completion, a refusal, or the loss of the worker.
    ///
    /// Source: B1. A scheduler that forgets a run starts the next one beside it.
    pub struct RunningBeforeSent = "running_before_sent" {
        /// Runs sent in this turn. By its end the scheduler's own tables must contain them.
                fresh: Vec<RunSent>,
    }
}

impl Law for RunningBeforeSent {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some(sent) = happening.run_sent() {
            let (scheduler, run) = (sent.scheduler, sent.run);
            if let Some((old, worker)) = now.model.runs.get(scheduler, run.task) {
                return Err(format!(
                    "scheduler {scheduler} sends {} again as run {}, while run {} on worker {worker} has not ended",
                    run.task, run.invocation, old.invocation
                ));
            }
            self.fresh.push(sent);
        }
        let Happening::SchedulerTurn { place } = *happening else {
            return Ok(());
        };
        for sent in std::mem::take(&mut self.fresh) {
            // The run may have ended in the same turn.
            let is_under_way = now.model.runs.get(sent.scheduler, sent.run.task).is_some();
            if sent.place == place && is_under_way {
                judge(sent.run, is_running(now.world, sent))?;
            }
        }
        Ok(())
    }
}

/// Returns whether the scheduler's own tables contain the run; `None` if no process is alive there.
fn is_running(world: &World<'_>, sent: RunSent) -> Option<bool> {
    let engine = world.scheduler(sent.place)?.engine();
    let task = sent.run.task.known_to(engine);
    Some(task.is_some_and(|task| engine.task_state(task) == TaskState::Running))
}

fn judge(run: Run, is_running: Option<bool>) -> Verdict {
    match is_running {
        None | Some(true) => Ok(()),
        Some(false) => Err(format!(
            "{run} was sent, but its scheduler does not have it running"
        )),
    }
}

law! {
    /// A worker lists every run that it accepted until the scheduler to which it is bound has acknowledged the completion.
    ///
    /// Source: B2 and R17. The scheduler takes an unlisted run for lost or never started, and runs the task again.
    pub struct RunningUntilAcknowledged = "running_until_acknowledged" {
        accepted: BTreeMap<WorkerId, BTreeSet<Run>>,
        bound: BTreeMap<WorkerId, SchedulerId>,
        listing: Option<Listing>,
    }
}

impl Law for RunningUntilAcknowledged {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::Listed { worker, run, ended } => {
                return self.listed(now, worker, run, ended);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.accepted.remove(&worker);
                self.bound.remove(&worker);
                self.listing = None;
            }
            _ => self.close()?,
        }
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => {
                self.accepted.entry(worker).or_default().insert(run);
            }
            Happening::Served {
                place,
                worker,
                ask: Ask::Fetch,
                refusal: None,
                ..
            } => {
                let missing = self.accepted.get(&worker).cloned().unwrap_or_default();
                self.listing = Some(Listing {
                    place,
                    worker,
                    missing,
                });
            }
            Happening::WorkerBound {
                worker,
                to: Some(to),
                ..
            } => {
                self.bound.insert(worker, to);
            }
            Happening::StatusSettled {
                worker,
                scheduler,
                run,
                ..
            } => {
                self.settled(worker, scheduler, run);
            }
            _ => {}
        }
        Ok(())
    }
}

impl RunningUntilAcknowledged {
    fn listed(&mut self, now: &Moment<'_>, worker: WorkerId, run: Run, ended: bool) -> Verdict {
        if let Some(listing) = &mut self.listing {
            listing.missing.remove(&run);
        }
        let mut live = now.model.executions.of_worker(worker);
        if ended && live.any(|(_, e)| e.run == run) {
            return Err(format!(
                "worker {worker} lists {run} as ended, but it lives"
            ));
        }
        Ok(())
    }

    /// Checks the list. Any happening but a listed task ends a list.
    fn close(&mut self) -> Verdict {
        let Some(listing) = self.listing.take() else {
            return Ok(());
        };
        let Some(run) = listing.missing.first() else {
            return Ok(());
        };
        Err(format!(
            "worker {} at place {} does not list {run}, which it accepted and whose end nobody has acknowledged",
            listing.worker, listing.place.0
        ))
    }

    /// Forgets a settled run. The word of a scheduler that the worker is not bound to is no reason to forget.
    fn settled(&mut self, worker: WorkerId, scheduler: SchedulerId, run: Run) {
        if self.bound.get(&worker) == Some(&scheduler)
            && let Some(runs) = self.accepted.get_mut(&worker)
        {
            runs.remove(&run);
        }
    }
}

/// A list that the happenings are reporting.
struct Listing {
    place: WorkerPlace,
    worker: WorkerId,
    missing: BTreeSet<Run>,
}

law! {
    /// A run that has a timeout or a deadline is asked to end when the first of them is over: not earlier for that reason, not later if it is alive
    /// and its worker can read the clock, and for that reason only once.
    ///
    /// Source: Limits of time. The timeout counts from the time when the worker has a process, the deadline from the time when it accepted the run.
    pub struct LimitsOfTime = "limits_of_time" {
        /// The acceptance times of runs that have not begun.
        accepted: BTreeMap<RunAtWorker, Time>,
        limits: BTreeMap<RunAtWorker, ModelLimits>,
        due: BTreeSet<(Time, RunAtWorker)>,
    }
}

impl Law for LimitsOfTime {
    fn before(&mut self, _happening: &Happening, now: &Moment<'_>) -> Verdict {
        self.judge_the_late(now)
    }

    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => {
                self.accepted.insert((worker, run.invocation), now.when);
            }
            Happening::Limited {
                place,
                worker,
                run,
                timeout,
                deadline,
            } => {
                let limits = ModelLimits {
                    place,
                    run,
                    // A queued run was accepted earlier.
                    accepted: self
                        .accepted
                        .get(&(worker, run.invocation))
                        .copied()
                        .unwrap_or(now.when),
                    began: None,
                    timeout,
                    deadline,
                    due: None,
                    is_over: false,
                    is_gone: false,
                };
                self.limits.insert((worker, run.invocation), limits);
                self.set_due(now, (worker, run.invocation));
            }
            Happening::StartHeard { worker, run } => {
                let key = (worker, run.invocation);
                if let Some(limits) = self.limits.get_mut(&key) {
                    limits.began = limits.began.or(Some(now.when));
                    self.set_due(now, key);
                }
            }
            Happening::KillAsked {
                worker, run, by, ..
            } => self.asked(now, (worker, run.invocation), (run, by))?,
            // The worker may handle the end after the limit; it then kills a process that is already dead.
            Happening::ProcessEnded { worker, run, .. }
            | Happening::SpawnFailed { worker, run, .. } => self.gone((worker, run.invocation)),
            Happening::Artifacts(ref event) => {
                if let ArtifactEvent::NotStarted { worker, run } = **event {
                    self.gone((worker, run.invocation));
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                let all = (worker, InvocationId::new(i64::MIN, i64::MIN))..;
                let of_it = self.limits.range(all).map(|(key, _)| *key);
                let of_it: Vec<RunAtWorker> = of_it.take_while(|key| key.0 == worker).collect();
                for key in of_it {
                    self.settle(key);
                    self.limits.remove(&key);
                }
                self.accepted.retain(|(of, _), _| *of != worker);
            }
            _ => {}
        }
        Ok(())
    }
}

impl LimitsOfTime {
    fn judge_the_late(&mut self, now: &Moment<'_>) -> Verdict {
        while let Some(&(due, key)) = self.due.first() {
            if due >= now.when {
                return Ok(());
            }
            let Some(limits) = self.limits.get_mut(&key) else {
                unreachable!("Invariant: who is due has limits");
            };
            if !now.cannot_read_clock(limits.place) {
                return Err(format!(
                    "worker {} lets {} run on after its time was over",
                    key.0, limits.run.task
                ));
            }
            limits.due = Some(now.when + SLACK);
            self.due.remove(&(due, key));
            self.due.insert((now.when + SLACK, key));
        }
        Ok(())
    }

    fn set_due(&mut self, now: &Moment<'_>, key: RunAtWorker) {
        self.settle(key);
        let Some(limits) = self.limits.get_mut(&key) else {
            return;
        };
        if limits.is_over || limits.is_gone {
            return;
        }
        let passes = |by| limits.passes(by, |local| now.world.at_most(local));
        let first = [passes(EndedBy::Timeout), passes(EndedBy::Deadline)];
        let first = first.into_iter().flatten().min();
        limits.due = first.map(|at| at + SLACK);
        if let Some(due) = limits.due {
            self.due.insert((due, key));
        }
    }

    fn asked(&mut self, now: &Moment<'_>, key: RunAtWorker, (run, by): (Run, EndedBy)) -> Verdict {
        match by {
            EndedBy::Timeout | EndedBy::Deadline => self.settle(key),
            // The worker ends, with all its processes.
            EndedBy::Shutdown | EndedBy::Suicide => {
                self.settle(key);
                return Ok(());
            }
            // The process may ignore such a request, and the limits keep counting.
            EndedBy::Operator
            | EndedBy::Orphan
            | EndedBy::MemoryLimit
            | EndedBy::OutOfMemory
            | EndedBy::TakeBack => return Ok(()),
        }
        let broken = |what: &str| {
            let (worker, task) = (key.0, run.task);
            Err(format!(
                "worker {worker} ends {task} {what}: {}",
                by.as_str()
            ))
        };
        let Some(limits) = self.limits.get_mut(&key) else {
            return broken("for a limit that it does not have");
        };
        if limits.is_over {
            return broken("again");
        }
        limits.is_over = true;
        match limits.passes(by, |local| now.world.at_least(local)) {
            None => broken("for a limit that it does not have"),
            Some(at) if now.when + ROUNDING < at => broken("too early"),
            Some(_) => Ok(()),
        }
    }

    /// Marks the run as having no process any more.
    fn gone(&mut self, key: RunAtWorker) {
        self.settle(key);
        if let Some(limits) = self.limits.get_mut(&key) {
            limits.is_gone = true;
        }
    }

    /// Marks the run as having no limit left to enforce.
    fn settle(&mut self, key: RunAtWorker) {
        let limits = self.limits.get_mut(&key);
        if let Some(due) = limits.and_then(|limits| limits.due.take()) {
            self.due.remove(&(due, key));
        }
    }
}

/// Time for a turn of the worker, and for a stopped worker to continue.
const SLACK: Duration = Duration::from_secs(1);
/// Clocks are rounded.
const ROUNDING: Duration = Duration::from_millis(1);

struct ModelLimits {
    place: WorkerPlace,
    run: Run,
    accepted: Time,
    /// When its worker had a process for the run.
    began: Option<Time>,
    timeout: Option<Duration>,
    deadline: Option<Duration>,
    /// When the run must have been asked to end; `None` once it was.
    due: Option<Time>,
    /// The run was asked to end because of one of these limits.
    is_over: bool,
    /// The process has ended.
    is_gone: bool,
}

impl ModelLimits {
    /// Returns when a limit passes, by a clock that counts as `counted` says.
    fn passes(&self, by: EndedBy, counted: impl Fn(Duration) -> Duration) -> Option<Time> {
        match by {
            EndedBy::Timeout => Some(self.began? + counted(self.timeout?)),
            EndedBy::Deadline => Some(self.accepted + counted(self.deadline?)),
            _ => None,
        }
    }
}
