//! The end of an association: because the operator requests it, or because it must end.

use std::time::Duration;

use brasserie_common::worker::Intake;
use brasserie_common::{
    CallId, EndedBy, InvocationId, Kill, KillMethod, KillRequest, TaskKey, Time,
};

use crate::association::Association;
use crate::effect::ExitReason;
use crate::reports::TaskLane;
use crate::timer::{DYING_REPORTS_WAIT, GOODBYE_WAIT, LAST_REPORTS_WAIT};
use crate::turn::Turn;

/// The stages of an association's life.
///
/// ```text
///                shutdown              no process, ends acknowledged          goodbye answered,
///   RUNNING ------------------> LEAVING -------- or waited for -----> FAREWELL -- or waited for --> GONE
///    |  |                        ^ |                                     ^
///    |  | drain                  | |                                     |
///    |  +------> DRAINING -------+ |  ends acknowledged, timeout, shutdown|
///    |              |              |                                     |
///    | requestSuicide, MUST_DIE,   |  the same     no process, ends      |
///    | own timers   |  the same    |               acknowledged or       |
///    +--------------+--------------+----> DYING -- waited for -----------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The association serves its scheduler.
    Running,
    /// The operator drains the worker: no task starts, and everything else continues until the scheduler knows the completions of all
    /// running tasks.
    Draining { since: Time },
    /// The operator ends the worker: nothing starts, and heartbeats keep the association until the scheduler knows every completion.
    Leaving {
        /// The time when the last process is killed.
        kill_by: Time,
        /// The time since which no process is left.
        quiet_since: Option<Time>,
    },
    /// No process is left, and the worker reports that to the scheduler. The scheduler then stops waiting for the worker, and may run the
    /// worker's tasks elsewhere at once.
    Farewell {
        reason: ExitReason,
        since: Time,
        goodbye: Option<CallId>,
    },
    /// The scheduler has given the tasks away, or soon will. Only the death of every process matters.
    Dying {
        reason: ExitReason,
        /// The time when the end was due, which is in the past if the worker was paused then.
        since: Time,
        /// The time since which no process is left.
        quiet_since: Option<Time>,
    },
    /// Nothing is left of the association. The program ends. If the operator has not requested the end and there are other associations,
    /// this one begins anew instead.
    Gone,
}

impl Life {
    /// Returns whether the association is kept: the worker sends heartbeats and judges its health.
    pub(crate) fn keeps_association(&self) -> bool {
        match self {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => true,
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
        }
    }

    /// Returns whether the association ends because it must: its tasks are given away, or soon will be.
    pub(crate) fn is_suicide(&self) -> bool {
        match self {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } | Life::Gone => false,
            Life::Farewell { reason, .. } => *reason != ExitReason::Shutdown,
            Life::Dying { .. } => true,
        }
    }
}

/// Whether the operator has requested the end a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Patience {
    Normal,
    /// Every process has been killed without a wait.
    Exhausted,
}

impl Association {
    /// Drains the association. A heartbeat leaves soon, so that the scheduler stops sending tasks.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) {
        match self.life {
            Life::Running => {
                self.life = Life::Draining { since: turn.now };
                self.description.intake = Intake::Draining;
                self.heartbeats.asked();
                // Queued tasks cannot begin here any more, but they can elsewhere.
                self.end_all_queued(turn, EndedBy::Shutdown);
            }
            Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => {}
        }
    }

    fn leave(&mut self, turn: &mut Turn<'_>, wait: Duration) {
        self.life = Life::Leaving {
            kill_by: turn.now + wait,
            quiet_since: None,
        };
        self.kill_all(turn, EndedBy::Shutdown, |_| wait);
    }

    /// Returns when the drain times out.
    fn drained_at(&self) -> Option<Time> {
        match self.life {
            Life::Draining { since } => self.options.drain_timeout.map(|timeout| since + timeout),
            Life::Running
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => None,
        }
    }

    /// Ends the drain when no process is left and the scheduler has every completion, or when the drain has timed out. A scheduler that is
    /// away for a while gets the completions later: the worker's own timers bound the wait.
    fn end_draining(&mut self, turn: &mut Turn<'_>) {
        let is_over = self.drained_at().is_some_and(|at| at <= turn.now);
        let is_done = self.tasks.live() == 0 && self.reports.tasks_pending() == 0;
        match self.life {
            Life::Draining { .. } if is_over || is_done => {
                self.leave(turn, self.options.shutdown_kill_wait);
            }
            Life::Draining { .. }
            | Life::Running
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => {}
        }
    }

    /// Ends the association for the operator. A second request, or one after a drain, kills without a wait.
    pub(crate) fn shut_down(&mut self, turn: &mut Turn<'_>) {
        match self.life {
            Life::Running => self.leave(turn, self.options.shutdown_kill_wait),
            Life::Draining { .. } => {
                self.patience = Patience::Exhausted;
                self.leave(turn, Duration::ZERO);
            }
            Life::Leaving { .. } | Life::Dying { .. } => match self.patience {
                Patience::Normal => {
                    self.patience = Patience::Exhausted;
                    if let Life::Leaving { kill_by, .. } = &mut self.life {
                        *kill_by = turn.now;
                    }
                    self.kill_all(turn, EndedBy::Shutdown, |_| Duration::ZERO);
                }
                Patience::Exhausted => {}
            },
            Life::Farewell { .. } | Life::Gone => {}
        }
    }

    /// Ends the association because it must end, which was due at `since`. Each process gets the rest of its own kill wait. The scheduler
    /// counts from when the worker's timers ran out, not from when a paused worker notices that.
    pub(crate) fn die(&mut self, turn: &mut Turn<'_>, reason: ExitReason, since: Time) {
        match self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => {
                self.life = Life::Dying {
                    reason,
                    since,
                    quiet_since: None,
                };
                let now = turn.now;
                match self.patience {
                    Patience::Normal => {
                        self.kill_all(turn, EndedBy::Suicide, |own| (since + own).since(now))
                    }
                    Patience::Exhausted => {}
                }
            }
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => {}
        }
    }

    /// Returns the last moment at which tasks stay alive if no message arrives. `None` if nobody relies on their end.
    pub(crate) fn may_live_until(&self) -> Option<Time> {
        match self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => self.lost_at(),
            Life::Dying {
                since,
                quiet_since: None,
                ..
            } => Some(since),
            // No process is left, and none starts.
            Life::Dying { .. } | Life::Farewell { .. } | Life::Gone => None,
        }
    }

    /// Ends all queued tasks, and kills each process with one request. The shell times the kill wait, so no request is repeated.
    fn kill_all(&mut self, turn: &mut Turn<'_>, by: EndedBy, wait: impl Fn(Duration) -> Duration) {
        self.end_all_queued(turn, by);
        let live = self.tasks.iter().filter(|(_, task)| task.is_live());
        let kill = |own| Kill {
            request: KillRequest {
                method: KillMethod::TermWaitKill,
                wait: wait(own),
            },
            by,
        };
        let kills: Vec<(TaskKey, InvocationId, Kill)> = live
            .map(|(key, task)| {
                let running = &task.running;
                let kill = kill(running.suicide_kill_wait);
                (key.clone(), running.invocation, kill)
            })
            .collect();
        for (key, invocation, kill) in kills {
            self.kill(turn, key, invocation, kill);
        }
    }

    /// Advances the life of the association as far as processes and reports allow.
    pub(crate) fn advance_life(&mut self, turn: &mut Turn<'_>) {
        self.end_draining(turn);
        let is_quiet = self.tasks.live() == 0;
        let (reason, until) = match &mut self.life {
            Life::Leaving { quiet_since, .. } if is_quiet => {
                let since = *quiet_since.get_or_insert(turn.now);
                (ExitReason::Shutdown, since + LAST_REPORTS_WAIT)
            }
            Life::Dying {
                reason,
                quiet_since,
                ..
            } if is_quiet => {
                let since = *quiet_since.get_or_insert(turn.now);
                (reason.clone(), since + DYING_REPORTS_WAIT)
            }
            Life::Running
            | Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => return self.end_farewell(turn),
        };
        if turn.now >= until || !self.waits_for_reports() {
            self.life = Life::Farewell {
                reason,
                since: turn.now,
                goodbye: None,
            };
        }
        self.end_farewell(turn);
    }

    /// Returns whether to wait for acknowledgements. A dying worker waits only for a scheduler that accepts its reports.
    fn waits_for_reports(&self) -> bool {
        let is_heard = !self.life.is_suicide()
            || self.addressee().is_some_and(|to| match to.tasks {
                TaskLane::Open => true,
                TaskLane::Closed => false,
            });
        is_heard && self.reports.tasks_pending() > 0
    }

    /// Ends the farewell if there is no scheduler, or if its answer takes too long.
    fn end_farewell(&mut self, turn: &mut Turn<'_>) {
        if let Life::Farewell { reason, since, .. } = &self.life
            && (self.scheduler().is_none() || turn.now >= *since + GOODBYE_WAIT)
        {
            let reason = reason.clone();
            self.exit(turn, reason);
        }
    }

    pub(crate) fn exit(&mut self, turn: &mut Turn<'_>, reason: ExitReason) {
        self.life = Life::Gone;
        turn.over.push((self.index, reason));
    }

    /// Returns when `advance_life` has something to do without an event.
    pub(crate) fn life_due(&self) -> Option<Time> {
        match self.life {
            Life::Draining { .. } => self.drained_at(),
            Life::Leaving { quiet_since, .. } => quiet_since.map(|at| at + LAST_REPORTS_WAIT),
            Life::Dying { quiet_since, .. } => quiet_since.map(|at| at + DYING_REPORTS_WAIT),
            Life::Farewell { since, .. } => Some(since + GOODBYE_WAIT),
            Life::Running | Life::Gone => None,
        }
    }
}
