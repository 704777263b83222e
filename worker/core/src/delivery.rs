//! Completions of tasks and other statuses: which of them become reports, which scheduler may receive them, and whose acknowledgement
//! counts.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CallOutcome, Health, InvocationId, ReportPolicy, ReportedStatus, Story, TaskKey, Time,
};
use brasserie_worker_fetch::{AssociationIndex, Leaves, TaskEnd};
use std::sync::Arc;

use crate::association::Association;
use crate::event::CallReply;
use crate::fetching::Fetching;
use crate::piece::Piece;
use crate::reports::{Addressee, Held, InFlight, Kind, TaskLane};
use crate::suicide::Life;
use crate::tasks::Task;
use crate::timer::REPORT_RETRY;
use crate::turn::Turn;

impl Association {
    /// Handles the end of a run's process. The shell reports it once for each run; other events match no run.
    pub(crate) fn task_ended(
        &mut self,
        turn: &mut Turn<'_>,
        key: &TaskKey,
        invocation: InvocationId,
        (status, story): (ReportedStatus, Story),
    ) {
        let status = match self.life {
            // The operator ended the task, which is no fault of the task. It may run elsewhere at once.
            Life::Leaving { .. } if status.is_incomplete_backoff() => status.into_incomplete(),
            Life::Running
            | Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => status,
        };
        let Some((task, status)) =
            self.tasks
                .end(turn.machine, (key, invocation), (status, story), turn.now)
        else {
            return;
        };
        if let (Some(fetching), Some(piece)) = (&mut turn.machine.fetching, &task.piece) {
            tell_end(fetching, (turn.now, self.index), piece, task, &status);
        }
        let (running, requester) = (Arc::clone(&task.running), task.requester);
        if !running.is_healthcheck() {
            match self.hold(turn, key) {
                Some(held) => self.reports.hold((running, status), held),
                None => self.reports.add(turn.now, running, status, Kind::End),
            }
        } else if self.newest.is_some_and(|newest| requester < newest) {
            // The scheduler that sent the healthcheck is gone.
            self.tasks.forget(key, invocation);
        } else {
            let kind = Kind::Healthcheck(requester);
            self.reports.add(turn.now, running, status, kind);
        }
    }

    /// Returns whether the completion of this task is held back, to be sent together with others. An association that is ending holds
    /// nothing back.
    fn hold(&self, turn: &Turn<'_>, key: &TaskKey) -> Option<Held> {
        let fetching = turn.machine.fetching.as_ref();
        let fetching = fetching.filter(|_| self.life == Life::Running)?;
        let task = self.tasks.get(key)?;
        let piece = task.piece.as_ref()?;
        match fetching.report_policy(self.index, &task.running) {
            ReportPolicy::Immediate => None,
            ReportPolicy::Lazy => Some(Held {
                task: piece.number,
                ended: turn.now,
                deadline: piece.deadline,
            }),
        }
    }

    /// Returns the scheduler instance that reports may go to now, if any.
    pub(crate) fn addressee(&self) -> Option<Addressee> {
        let scheduler = self.scheduler().filter(|_| self.life != Life::Gone)?;
        // A dying worker learns no newer state, so it sends statuses even while NEW.
        let tells_new = !self.life.is_suicide() && self.health.health() == Health::New;
        let open = !tells_new && self.binding.bound() == Some(scheduler);
        Some(Addressee {
            association: self.index,
            scheduler,
            worker: self.id(),
            tasks: if open {
                TaskLane::Open
            } else {
                TaskLane::Closed
            },
        })
    }

    pub(crate) fn send_reports(&mut self, turn: &mut Turn<'_>) {
        while let Some(given_up) = self.reports.give_up(turn.now) {
            self.reports.narrow();
            self.reports.wait_again(given_up.report, turn.now);
            self.not_acknowledged(turn.now, given_up);
        }
        if self.life != Life::Running {
            self.reports.release(turn.now);
        }
        if let Some(to) = self.addressee() {
            let deadline = turn.now + self.options.call_deadline;
            self.reports.send(turn, to, deadline);
        }
    }

    /// Sends the held completions, because the worker is about to contact the scheduler.
    pub(crate) fn tell_ends(&mut self, turn: &mut Turn<'_>) {
        self.reports.release(turn.now);
        self.send_reports(turn);
    }

    pub(crate) fn report_completed(
        &mut self,
        turn: &mut Turn<'_>,
        sent: InFlight,
        outcome: CallOutcome<CallReply>,
    ) {
        let is_not_sent = matches!(outcome, CallOutcome::NotSent(_));
        let is_acknowledged = match outcome {
            CallOutcome::Done(CallReply::Acknowledged) => true,
            CallOutcome::NotSent(_) => {
                self.reports.pause(turn.now + REPORT_RETRY);
                false
            }
            CallOutcome::Done(
                CallReply::Heartbeat(_)
                | CallReply::Work(_)
                | CallReply::NoSuchCall
                | CallReply::Members(_),
            )
            | CallOutcome::Refused(..)
            | CallOutcome::Unknown(_) => false,
        };
        match is_acknowledged {
            true => self.reports.widen(),
            false => self.reports.narrow(),
        }
        let is_current = self.scheduler() == Some(sent.addressed)
            || sabotage::on(Sabotage::DropOnAnyAcknowledgement);
        if is_acknowledged && is_current && self.counts(sent) {
            self.acknowledged(turn, sent);
        } else if is_current {
            match is_not_sent {
                // A call that was not sent costs the scheduler nothing, so the pause need not grow.
                true => self.reports.wait(sent.report, turn.now + REPORT_RETRY),
                false => self.reports.wait_again(sent.report, turn.now),
            }
            if !is_acknowledged {
                self.not_acknowledged(turn.now, sent);
            }
        } else {
            // The report is now for another instance, which has not refused it yet.
            self.reports.wait(sent.report, turn.now);
        }
    }

    /// Requests a heartbeat soon. A scheduler that does not accept the statuses of its own workers may be a new instance, which waits for a
    /// heartbeat.
    fn not_acknowledged(&mut self, now: Time, sent: InFlight) {
        if self.scheduler() == Some(sent.addressed) {
            self.heartbeats.doubted(now);
        }
    }

    /// Returns whether an acknowledgement counts. A completion may be forgotten only if the bound instance knows it: that instance may have
    /// fetched the running tasks just before.
    fn counts(&self, sent: InFlight) -> bool {
        let Some(report) = self.reports.get(sent.report) else {
            return false;
        };
        match report.kind {
            Kind::End => {
                self.binding.bound() == Some(sent.addressed)
                    || sabotage::on(Sabotage::DropOnAnyAcknowledgement)
            }
            Kind::Healthcheck(_) | Kind::NotRunning => true,
        }
    }

    fn acknowledged(&mut self, turn: &mut Turn<'_>, sent: InFlight) {
        let Some(report) = self.reports.remove(sent.report) else {
            return;
        };
        match report.kind {
            Kind::NotRunning => {}
            Kind::End => {
                let task = self
                    .tasks
                    .forget(&report.task.key(), report.task.invocation);
                let piece = task.and_then(|task| task.piece);
                if let (Some(fetching), Some(piece)) = (&mut turn.machine.fetching, piece) {
                    fetching.gone(self.index, &piece);
                }
                if sabotage::on(Sabotage::ForgetAccepted) {
                    self.invocations.forget(report.task.invocation);
                }
            }
            Kind::Healthcheck(_) => {
                let task = self
                    .tasks
                    .forget(&report.task.key(), report.task.invocation);
                if let Some(task) = task.filter(|_| ReportedStatus::is_done(&report.status)) {
                    self.health.good_healthcheck(task.accepted_at);
                    self.judge_health(turn);
                    match self.health.health() {
                        Health::Healthy => self.heartbeats.healthcheck_acknowledged(),
                        Health::New | Health::Unhealthy | Health::MustDie => self.hurry(),
                    }
                }
            }
        }
    }
}

/// Reports to the policies of a pull worker how a task has ended.
fn tell_end(
    fetching: &mut Fetching,
    (now, of): (Time, AssociationIndex),
    piece: &Piece,
    task: &Task,
    status: &ReportedStatus,
) {
    if piece.executes() {
        fetching.stopped(now, of, piece);
    } else if piece.waits() {
        fetching.left_the_queue(piece);
    }
    let end = match &task.running.story {
        _ if status.is_done() && !piece.waits() => TaskEnd::Well {
            given: piece.given,
            took: piece.executed(now),
        },
        Some(story) if !status.is_done() => TaskEnd::Failed { story },
        Some(_) | None => TaskEnd::Other,
    };
    let is_told_at_once = fetching.report_policy(of, &task.running) == ReportPolicy::Immediate;
    // The scheduler counts nothing as idle again for a run that never began or that a fault of the machine ended.
    let counts = !status.is_incomplete_backoff() && !status.is_overwriteable();
    let leaves = match is_told_at_once && counts {
        true => Leaves::Idle,
        false => Leaves::Nothing,
    };
    fetching.ended(now, of, piece, end, leaves);
}
