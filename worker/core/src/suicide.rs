//! How an association ends: because the operator wants it, or because it must.

use std::time::Duration;

use brasserie_common::worker::Intake;
use brasserie_common::{
    CallId, EndedBy, InvocationId, Kill, KillMethod, KillRequest, TaskKey, Time,
};

use crate::association::Association;
use crate::effect::ExitReason;
use crate::outbox::Turn;
use crate::reports::TaskLane;
use crate::timer::{DYING_REPORTS_WAIT, GOODBYE_WAIT, LAST_REPORTS_WAIT};

/// ```text
///                shutdown              no process, ends acknowledged          goodbye answered,
///   RUNNING ------------------> LEAVING -------- or waited for -----> FAREWELL -- or waited for --> GONE
///    |  |                        ^ |                                     ^
///    |  | drain                  | |                                     |
///    |  +------> DRAINING -------+ |  no process, timeout, or shutdown    |
///    |              |              |                                     |
///    | requestSuicide, MUST_DIE,   |  the same     no process, ends      |
///    | own timers   |  the same    |               acknowledged or       |
///    +--------------+--------------+----> DYING -- waited for -----------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Serving.
    Running,
    /// The operator wants it gone when its tasks have ended by themselves: none starts, all else goes on.
    Draining { since: Time },
    /// The operator wants it gone: nothing new starts, heartbeats keep the association until every end is known.
    Leaving {
        /// When the last process is killed.
        kill_by: Time,
        /// Since when no process is left.
        quiet_since: Option<Time>,
    },
    /// Nothing is left but to tell the scheduler so: then it waits for nobody here, nor do tasks that it has not given away yet.
    Farewell {
        reason: ExitReason,
        since: Time,
        goodbye: Option<CallId>,
    },
    /// Its tasks are given away, or soon will be: only the death of every process counts.
    Dying {
        reason: ExitReason,
        /// When this was due, which is in the past if the worker was paused then.
        since: Time,
        /// Since when no process is left.
        quiet_since: Option<Time>,
    },
    /// Nothing of it is left: the program ends, or, if it was not the operator's wish and there are others, it begins anew.
    Gone,
}

impl Life {
    /// Whether the association is kept: heartbeats leave, health is judged.
    pub(crate) fn keeps_association(&self) -> bool {
        match self {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => true,
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
        }
    }

    /// Whether the association ends because it must: its tasks are given away, or soon will be.
    pub(crate) fn is_suicide(&self) -> bool {
        match self {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } | Life::Gone => false,
            Life::Farewell { reason, .. } => *reason != ExitReason::Shutdown,
            Life::Dying { .. } => true,
        }
    }
}

/// Whether the operator has asked a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Patience {
    Normal,
    /// Every process has been killed without a wait.
    Exhausted,
}

impl Association {
    /// The operator wants the worker gone as soon as its tasks have ended. The scheduler should not try it in vain, so it hears of it
    /// soon.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) {
        match self.life {
            Life::Running => {
                self.life = Life::Draining { since: turn.now };
                self.description.intake = Intake::Draining;
                self.heartbeats.asked();
                // Nothing begins here any more, and elsewhere it can.
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

    /// When a worker that drains loses its patience.
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

    /// Nothing runs any more, or for too long.
    fn end_draining(&mut self, turn: &mut Turn<'_>) {
        let is_over = self.drained_at().is_some_and(|at| at <= turn.now);
        match self.life {
            Life::Draining { .. } if is_over || self.tasks.live() == 0 => {
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

    /// The operator wants the worker gone; the second time, and after a wish to drain, without a wait.
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

    /// The association must end, and was to end at `since`. Each process gets what is left of its own wait, since the scheduler
    /// counts from when the worker's timers ran out, not from when a paused worker notices.
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

    /// The last moment at which tasks are still let live if nothing more is heard; `None`: nobody counts on their death.
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

    /// One request a process: the shell keeps the wait, so nothing is repeated.
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

    /// Goes on as far as the processes and reports allow.
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

    /// A dying worker waits only for a scheduler that would take them.
    fn waits_for_reports(&self) -> bool {
        let is_heard = !self.life.is_suicide()
            || self.addressee().is_some_and(|to| match to.tasks {
                TaskLane::Open => true,
                TaskLane::Closed => false,
            });
        is_heard && self.reports.tasks_pending() > 0
    }

    /// Nobody to say goodbye to, or no answer.
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

    /// When `advance_life` has something to do although nothing happens.
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
