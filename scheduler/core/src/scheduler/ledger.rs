//! The ledger: the runs and completions of tasks, as the engine and this crate know them.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::{InvocationId, RecordSeq, RunningTask, Shard, TaskKey, Time, WallTime};
use brasserie_scheduler_engine::{AdoptOutcome, Engine, Restart, Task, WorkerIndex};

use super::artifacts::{RunOrigin, outputs_since};
use super::standby::note_listed;
use super::{Scheduler, task_key};
use crate::bulk_changes::TaskChange;
use crate::record::{EndedTask, ForgottenTask};
use crate::runs::further_runs::HeldResources;
use crate::runs::{Run, RunState, Runs};
use crate::waits::safety::{LostRun, SafetyWaits};

/// The most further runs of one task: one on each of several workers, more than any real mistake causes. Beyond them a listed run is only
/// shown. The known runs keep the task from starting anyway, and a worker that invents runs uses no memory.
pub(super) const MAX_FURTHER_RUNS: usize = 16;

/// The wait of a task that ended as incomplete, or in an error without backoff, before a configuration was loaded; the default of
/// `working_wait`. Without it, a task that ends at once would start as fast as the machine permits.
const WORKING_WAIT: Duration = Duration::from_millis(500);

/// The parts that know of runs and completions. Each operation changes them together, so that they never disagree.
pub(super) struct Ledger<'a> {
    engine: &'a mut Engine,
    runs: &'a mut Runs,
    safety: &'a mut SafetyWaits,
    wall: WallTime,
}

/// The result of the adoption of a listed run.
#[derive(Debug)]
pub(super) enum Adoption {
    Adopted,
    /// The run is adopted, and holds slots of these unknown resources.
    HoldsUnknown(Vec<String>),
    /// The run is adopted beside another run of its task, on this worker.
    Beside(Shard),
    /// The task has [`MAX_FURTHER_RUNS`] further runs already, so this one is not adopted.
    TooMany,
    /// The engine does not take the run.
    Refused,
}

impl Scheduler {
    pub(super) fn ledger(&mut self) -> Ledger<'_> {
        let parts = (&mut self.engine, &mut self.runs, &mut self.safety);
        Ledger::new(parts, self.wall)
    }
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        (engine, runs, safety): (&'a mut Engine, &'a mut Runs, &'a mut SafetyWaits),
        wall: WallTime,
    ) -> Self {
        Ledger {
            engine,
            runs,
            safety,
            wall,
        }
    }

    /// Returns the engine, for facts that concern neither runs nor completions.
    pub(super) fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    /// Adopts a run that a worker lists and that is not known.
    pub(super) fn adopt(
        &mut self,
        now: Time,
        (shard, index): (&Shard, WorkerIndex),
        task: Task,
        listed: RunningTask,
    ) -> Adoption {
        let run = Run {
            invocation: listed.invocation,
            shard: shard.clone(),
            next_backoff: listed.next_backoff,
            kill_wait: listed.suicide_kill_wait,
            since: now,
            confirmed: Some(now),
            outputs_since: outputs_since(now, RunOrigin::Adopted, self.engine.job_config(task.job)),
            queued: None,
            sent_for: listed.work.request,
            fence: listed.fence,
            state: RunState::Running,
            start_failure: None,
        };
        let is_open = listed.ended.is_none();
        let stated = listed.worker_slots.filter(|_| is_open);
        let mut held = HeldResources {
            index,
            charges: listed.resources,
            gpus: listed.gpus,
            gpus_wanted: listed.gpus_wanted,
        };
        if let Some(first) = self.runs.run(task).map(|run| run.shard.clone()) {
            if self.runs.count_further(task) >= MAX_FURTHER_RUNS {
                return Adoption::TooMany;
            }
            self.engine.hold_slots(index, &held.charges, &held.gpus);
            self.runs.begin_further(task, run, held);
            return Adoption::Beside(first);
        }
        if sabotage::on(Sabotage::AdoptWithoutCharges) {
            held.charges.clear();
            held.gpus.clear();
        }
        if sabotage::on(Sabotage::AdoptWithoutCards) {
            held.gpus.clear();
        }
        let adoption = match self.begin_on_engine(task, &held) {
            AdoptOutcome::Adopted => Adoption::Adopted,
            AdoptOutcome::AdoptedWithUnknownCharges(unknown) => Adoption::HoldsUnknown(unknown),
            AdoptOutcome::AlreadyRunning(_) | AdoptOutcome::UnknownWorker => {
                return Adoption::Refused;
            }
        };
        self.runs.begin(task, run);
        note_listed(self.engine, now, task, stated.as_deref());
        adoption
    }

    fn begin_on_engine(&mut self, task: Task, held: &HeldResources) -> AdoptOutcome {
        let cards = (&held.gpus[..], held.gpus_wanted.as_ref());
        self.engine
            .adopt_running(task, held.index, &held.charges, cards)
    }

    /// Ends a run with a completion, which the record `seq` makes durable. The task starts again no earlier than its status permits and the
    /// record is durable, and not while another run of it is known. `of` is the run whose completion is stored. Returns the worker of the
    /// run.
    pub(super) fn end(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        (of, status): (InvocationId, StoredStatus),
        seq: RecordSeq,
    ) -> Option<Shard> {
        let not_before = not_before(self.engine, now, &status);
        let not_before = not_before.map(|at| match status.safety_seconds {
            1.. if sabotage::on(Sabotage::IgnoreSafetyWait) => now,
            _ => at,
        });
        let shard = self.runs.find(task, invocation);
        let shard = shard.map(|run| run.shard.clone());
        let main = self.runs.run(task).map(|run| run.invocation);
        if main.is_some_and(|main| main != invocation) {
            self.stop_further(task, invocation);
            self.runs.note_end(task, of, seq);
            self.runs.note_wait_of_further(task, not_before);
            self.engine.note_status(task, status);
        } else {
            self.runs.end(now, task, of, Some(seq));
            let restart = Restart::HeldUntilReleased;
            let is_lost = status.was_taken_back() && sabotage::on(Sabotage::LoseTakenBack);
            let not_before = not_before
                .filter(|_| !is_lost)
                .or(is_lost.then_some(Time::NEVER));
            self.engine.end(now, task, status, not_before, restart);
            self.promote(task);
        }
        shard
    }

    /// Undoes the start of a run that certainly never began. A refusal is no run: it has no status and consumes no step of the backoff.
    ///
    /// The task starts again no earlier than `not_before`.
    pub(super) fn never_began(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        not_before: Option<Time>,
    ) {
        // The task's own backoff was over. But another run of the task may have been adopted meanwhile, and have ended or been lost.
        let safe_at = self.safety.until(now, task);
        let not_before = safe_at.max(self.runs.wait_of_further(task)).max(not_before);
        let restart = match self.runs.is_pending(task) {
            true => Restart::HeldUntilReleased,
            false => Restart::AtOnce,
        };
        self.runs.end(now, task, invocation, None);
        self.engine.never_began(now, task, not_before, restart);
        self.promote(task);
    }

    /// Makes the earliest further run the main run after the former main run has ended, so that the task does not start again.
    fn promote(&mut self, task: Task) {
        let earliest = self.runs.first_further(task);
        if let Some((run, held)) = earliest.and_then(|id| self.stop_further(task, id)) {
            self.begin_on_engine(task, &held);
            self.runs.begin(task, run);
        }
    }

    /// Removes a further run and releases its slots, because it has ended or becomes the main run.
    fn stop_further(
        &mut self,
        task: Task,
        invocation: InvocationId,
    ) -> Option<(Run, HeldResources)> {
        let (run, held) = self.runs.take_further(task, invocation)?;
        self.engine
            .release_slots(held.index, &held.charges, &held.gpus);
        Some((run, held))
    }

    /// Replaces the status of a task that does not run. The record `seq` makes that durable, and the task is held until then.
    pub(super) fn restate(
        &mut self,
        now: Time,
        task: Task,
        (of, status): (InvocationId, StoredStatus),
        not_before: Option<Time>,
        seq: RecordSeq,
    ) {
        self.runs.note_end(task, of, seq);
        let restart = Restart::HeldUntilReleased;
        self.engine.restate(now, task, status, not_before, restart);
    }

    /// Forgives a task. A running task is left alone, because the backoff of its completion was set when it began. The status stays that of
    /// the same run, so that a repeated report is recognized, and the actual completion can still replace "lost".
    pub(super) fn forgive(&mut self, now: Time, task: Task, seq: RecordSeq) -> TaskChange {
        if self.runs.run(task).is_some() {
            return TaskChange::Untouched;
        }
        let Some(invocation) = self.runs.ended(task) else {
            return TaskChange::Untouched;
        };
        let old = self.engine.previous_status(task);
        let Some(status) = old.and_then(|old| old.forgiven()) else {
            return TaskChange::Untouched;
        };
        let safe_at = self.safety.until(now, task);
        let safe_at = safe_at.filter(|_| !sabotage::on(Sabotage::ForgiveSafetyToo));
        // Held: the task must not run before this record is durable, nor before its completion is.
        self.restate(now, task, (invocation, status.clone()), safe_at, seq);
        let key = task_key(self.engine, task);
        TaskChange::Forgiven(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status,
            story: None,
            outputs: Vec::new(),
        })
    }

    /// Forgives the task if it has failed for good. The backoff of another task goes on.
    pub(super) fn forgive_failed(&mut self, now: Time, task: Task, seq: RecordSeq) -> TaskChange {
        let status = self.engine.previous_status(task);
        match status.is_some_and(|status| status.is_failed()) {
            true => self.forgive(now, task, seq),
            false => TaskChange::Untouched,
        }
    }

    /// Forgets the task's completion and remembers its run, so that a late report of it is ignored. A running task, and one with a lost run
    /// that may still be alive, is left alone: to forget that wait would run the task twice.
    pub(super) fn delete_completion(
        &mut self,
        now: Time,
        task: Task,
        seq: RecordSeq,
    ) -> TaskChange {
        if self.runs.run(task).is_some() {
            return TaskChange::Runs;
        }
        let Some(invocation) = self.runs.ended(task) else {
            return TaskChange::Untouched;
        };
        if self.safety.until(now, task).is_some() {
            return TaskChange::MaybeAlive;
        }
        self.runs.forget_end(task, invocation, seq);
        self.engine.forget_status(task);
        if sabotage::on(Sabotage::StartBeforeDeletionIsDurable) {
            self.engine.release(now, task);
        }
        let key = task_key(self.engine, task);
        TaskChange::Forgotten(ForgottenTask {
            job: key.job,
            node: key.node,
            up_to: invocation,
        })
    }

    /// Forgets the task's completion, unless the task runs or may be alive, or its completion is not durable.
    pub(super) fn expire(&mut self, now: Time, task: Task, seq: RecordSeq) -> Option<TaskKey> {
        let is_busy = self.runs.run(task).is_some()
            || self.runs.is_pending(task)
            || self.safety.until(now, task).is_some();
        if is_busy || self.runs.ended(task).is_none() {
            return None;
        }
        let key = task_key(self.engine, task);
        self.runs.expire_end(task, seq);
        self.engine.forget_status(task);
        Some(key)
    }

    /// Shortens the wait of a completed task to its configured backoff and the safety waits for its other lost runs.
    pub(super) fn shorten_wait(
        &mut self,
        now: Time,
        task: Task,
        (run, left_at): (InvocationId, Time),
        seq: RecordSeq,
    ) -> Option<EndedTask> {
        if self.runs.run(task).is_some() {
            return None;
        }
        let invocation = self.runs.ended(task)?;
        let old = self.engine.previous_status(task);
        let old = old.filter(|old| !old.is_done())?;
        let status = old.with_safety_of(self.safety.seconds(now, task));
        let ended_at = if invocation == run { left_at } else { now };
        let not_before = (!status.is_failed()).then(|| {
            let backoff = Duration::from_secs(u64::from(status.backoff_seconds));
            let safe_at = self.safety.until(now, task);
            (ended_at + backoff).max(safe_at.unwrap_or(now))
        });
        self.restate(now, task, (invocation, status.clone()), not_before, seq);
        let key = task_key(self.engine, task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status,
            story: None,
            outputs: Vec::new(),
        })
    }

    pub(super) fn load_end(
        &mut self,
        now: Time,
        task: Task,
        invocation: InvocationId,
        status: StoredStatus,
    ) {
        let not_before = remaining_backoff(now, self.wall, &status);
        if status.safety_seconds > 0 && !sabotage::on(Sabotage::ForgetSafetyWaits) {
            let safety = Duration::from_secs(u64::from(status.safety_seconds));
            self.safety.raise(task, LostRun::Unknown, now + safety);
        }
        self.runs.remember_end(task, invocation);
        self.engine.load_status(now, task, status, not_before);
    }
}

/// Returns when a task with this status may start again; `None` if it may not.
pub(super) fn not_before(engine: &Engine, now: Time, status: &StoredStatus) -> Option<Time> {
    if status.is_done() || status.is_failed() {
        return None;
    }
    if status.was_taken_back() && status.safety_seconds == 0 {
        return Some(now);
    }
    Some(if status.uses_backoff() || status.safety_seconds > 0 {
        now + Duration::from_secs(u64::from(status.backoff_seconds))
    } else {
        let config = engine.config();
        now + config.map_or(WORKING_WAIT, |config| config.working_wait)
    })
}

/// Returns when a task with a stored status may run again. The configured part goes by the wall clock, which may have jumped, and is
/// never longer than configured. The safety part starts again in full.
fn remaining_backoff(now: Time, wall: WallTime, status: &StoredStatus) -> Option<Time> {
    let waits = status.uses_backoff() || status.safety_seconds > 0;
    let forgets = status.safety_seconds > 0 && sabotage::on(Sabotage::ForgetSafetyWaits);
    if !waits || status.is_failed() || status.is_done() || forgets {
        return None;
    }
    let configured = Duration::from_secs(u64::from(status.backoff_seconds));
    let elapsed_ms = wall
        .as_millis()
        .saturating_sub(status.time.as_millis())
        .max(0);
    let remaining = configured.saturating_sub(Duration::from_millis(elapsed_ms.unsigned_abs()));
    Some(now + remaining.max(Duration::from_secs(u64::from(status.safety_seconds))))
}
