//! Take-backs: tasks that stand by at a worker and may start elsewhere, or may not start at all any more.
//!
//! The worker decides whether a task is still there: it ends a task that has not begun as "taken back", and refuses otherwise. Until the
//! scheduler has that end, the task counts as running there, so it never runs twice. Like any end, it is durable before the task starts
//! again. Like "was not running", it is the end of no run, so the task keeps its backoff and its tries.

use brasserie_common::resources::ResourceAmount;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CallOutcome, EndedBy, InvocationId, Kill, KillRequest, RefusalCode, ReportedStatus, Shard,
    Time, WorkerId,
};
use brasserie_scheduler_engine::{Engine, HasBegun, TakeBackReasons, Task};

use super::{Scheduler, task_key};
use crate::calls::{CallDraft, CallPurpose, CallReply};
use crate::runs::RunState;

/// The place of the tasks that a worker lists as queued, in their order. Places in answers begin at 1, so later tasks come behind.
const LISTED_PLACE: i64 = 0;

/// The most take-backs that one turn sends. The next turn continues.
const MAX_TAKE_BACKS_PER_TURN: usize = 256;

/// Notes whether a task that its worker lists as running stands by there: then the worker states the slots under which it does.
pub(super) fn note_listed(
    engine: &mut Engine,
    now: Time,
    task: Task,
    stated: Option<&[ResourceAmount]>,
) {
    engine.note_standby(now, task, stated.map(|_| LISTED_PLACE));
    if let Some(stated) = stated {
        let slots = stated
            .iter()
            .map(|slots| (slots.name.as_str(), slots.amount));
        engine.check_stated_slots(task, &slots.collect::<Vec<_>>());
    }
}

impl Scheduler {
    /// Sends the take-backs that are due. Called once a turn, after placement.
    pub(super) fn take_back(&mut self, now: Time) {
        self.next_take_back = None;
        if !self.engine.has_standby() {
            return;
        }
        // Tasks that are ready now come first to workers with room.
        let may_start = !self.more_to_place && self.view().why_nothing_starts(now).is_empty();
        let reasons = match may_start {
            true => TakeBackReasons::All,
            false => TakeBackReasons::Unwanted,
        };
        let most = MAX_TAKE_BACKS_PER_TURN;
        for task in self.engine.begin_take_backs(now, reasons, most) {
            if !self.send_take_back(now, task) {
                self.engine.take_back_failed(now, task, HasBegun::Unknown);
            }
        }
        self.next_take_back = self.engine.take_back_due(now, reasons);
    }

    /// Asks a task's worker to return it. Returns false if the worker may not have the task yet.
    pub(super) fn send_take_back(&mut self, now: Time, task: Task) -> bool {
        let run = self.runs.run(task);
        let Some(run) = run.filter(|run| run.state == RunState::Running) else {
            return false;
        };
        let (shard, invocation) = (run.shard.clone(), run.invocation);
        let Some(remote) = self.pool.get(&shard) else {
            return false;
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let call = CallDraft::KillTask {
            worker,
            task,
            invocation,
            kill: Kill {
                request: KillRequest::default(),
                by: EndedBy::TakeBack,
            },
        };
        let purpose = CallPurpose::TakeBack {
            shard,
            worker,
            task,
            invocation,
        };
        self.call(now, peer, call, purpose);
        if sabotage::on(Sabotage::StartWhileTakingBack) {
            let end = (invocation, &ReportedStatus::taken_back());
            self.end_as(
                now,
                task,
                task_key(&self.engine, task),
                end,
                (None, Vec::new()),
            );
        }
        true
    }

    /// Handles the outcome of a take-back. After an acceptance the end of the run follows.
    pub(super) fn take_back_answered(
        &mut self,
        now: Time,
        (shard, worker): (&Shard, WorkerId),
        (task, invocation): (Task, InvocationId),
        outcome: &CallOutcome<CallReply>,
    ) {
        if let (CallOutcome::Done(_), Some(remote)) =
            (outcome, self.pool.instance_mut(shard, worker))
        {
            remote.note_taken_back();
        }
        match outcome {
            // It has begun or ended.
            CallOutcome::Done(_) | CallOutcome::Refused(RefusalCode::Unspecified, _) => {}
            CallOutcome::Refused(..) | CallOutcome::NotSent(_) | CallOutcome::Unknown(_) => {
                self.orders.not_asked_back(shard, invocation);
            }
        }
        let run = self.runs.run(task);
        if run.is_none_or(|run| run.invocation != invocation) {
            return;
        }
        let has_begun = match outcome {
            CallOutcome::Done(_) => return,
            // It has begun or ended.
            CallOutcome::Refused(RefusalCode::Unspecified, _) => HasBegun::Yes,
            CallOutcome::Refused(..) | CallOutcome::NotSent(_) | CallOutcome::Unknown(_) => {
                HasBegun::Unknown
            }
        };
        self.engine.take_back_failed(now, task, has_begun);
    }
}
