//! The life of an association, and its end: because the operator requests it, or because it must end.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::worker::Intake;
use brasserie_common::{CallId, EndedBy, Kill, KillMethod, KillRequest, Principal, Time};

use super::Session;
use crate::effect::ExitReason;
use crate::reports::TaskLane;
use crate::timer::{DYING_REPORTS_WAIT, GOODBYE_WAIT, LAST_REPORTS_WAIT};

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
pub(super) enum Life {
    /// The association serves its scheduler.
    Running,
    /// The operator drains the worker: no task starts, and everything else continues until the scheduler knows the completions of all
    /// running tasks.
    Draining {
        /// When the tasks that still run are killed.
        ends_at: Option<Time>,
        by: WantedBy,
    },
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
    pub(super) fn keeps_association(&self) -> bool {
        match self {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => true,
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
        }
    }

    /// Returns whether the association ends because it must: its tasks are given away, or soon will be.
    pub(super) fn is_suicide(&self) -> bool {
        match self {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } | Life::Gone => false,
            Life::Farewell { reason, .. } => *reason != ExitReason::Shutdown,
            Life::Dying { .. } => true,
        }
    }
}

/// Whether processes still get their kill wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KillPace {
    AsUsual,
    /// The operator has requested the end a second time: every process has been killed at once.
    AtOnce,
}

/// How close an association is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeStage {
    Running,
    /// The operator drains the worker: the association ends once its tasks have ended by themselves.
    Draining,
    /// The operator ends the worker: tasks are ending, or their completions and the goodbye are in flight.
    Leaving,
    /// The association must end: its tasks are ending, or it says goodbye.
    Dying,
    /// The association is over. The worker has returned [`crate::Effect::Exit`] or [`crate::Effect::NewInstance`], or waits for the end of
    /// the other associations.
    Gone,
}

/// All tasks of the association must end: each process is killed, and queued tasks never begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct KillAll {
    pub by: EndedBy,
    wait: KillWait,
}

/// The wait between TERM and KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillWait {
    OfAll(Duration),
    /// The rest of each task's own wait, which began at this time.
    OwnSince(Time),
}

impl KillAll {
    /// Returns how to end a process with this kill wait of its own.
    pub(crate) fn kill(self, now: Time, own: Duration) -> Kill {
        let wait = match self.wait {
            KillWait::OfAll(wait) => wait,
            KillWait::OwnSince(since) => (since + own).since(now),
        };
        Kill {
            request: KillRequest {
                method: KillMethod::TermWaitKill,
                wait,
            },
            by: self.by,
        }
    }
}

/// Whether an association has work left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub has_processes: bool,
    /// Completions and answers that are not acknowledged.
    pub has_reports: bool,
}

/// The way in which the operator drained the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedBy {
    Signal,
    Call(DrainCaller),
}

/// The caller that drained the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainCaller {
    pub from: Principal,
    /// The caller's reason, for people; empty if there is none.
    pub reason: Arc<str>,
}

impl Session {
    /// Drains the association, and returns whether it was not draining or ending before. Its queued tasks must then end: they cannot begin
    /// here any more, but they can elsewhere. A heartbeat leaves soon, so that the scheduler stops sending tasks. A `deadline` takes the
    /// place of the usual one, also in a drain that has begun.
    pub(crate) fn drain(&mut self, now: Time, by: WantedBy, deadline: Option<Duration>) -> bool {
        match &mut self.life {
            Life::Running => {
                if let WantedBy::Call(caller) = &by {
                    self.drained_by = Some(caller.clone());
                }
                let timeout = deadline.or(self.options.drain_timeout);
                let ends_at = timeout.map(|timeout| now + timeout);
                self.life = Life::Draining { ends_at, by };
                self.description.intake = Intake::Draining;
                self.heartbeats.asked();
                true
            }
            Life::Draining { ends_at, .. } => {
                *ends_at = deadline.map(|deadline| now + deadline).or(*ends_at);
                false
            }
            Life::Leaving { .. } | Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
        }
    }

    fn leave(&mut self, now: Time, wait: Duration) -> KillAll {
        self.life = Life::Leaving {
            kill_by: now + wait,
            quiet_since: None,
        };
        KillAll {
            by: EndedBy::Shutdown,
            wait: KillWait::OfAll(wait),
        }
    }

    /// Returns when the drain times out.
    fn drained_at(&self) -> Option<Time> {
        match self.life {
            Life::Draining { ends_at, .. } => ends_at,
            Life::Running
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => None,
        }
    }

    /// Ends the drain when no process is left and the scheduler has every completion, or when the drain has timed out. A scheduler that is
    /// away for a while gets the completions later: the worker's own timers bound the wait.
    pub(crate) fn end_draining(&mut self, now: Time, unfinished: Unfinished) -> Option<KillAll> {
        let is_over = self.drained_at().is_some_and(|at| at <= now);
        let is_done = !unfinished.has_processes && !unfinished.has_reports;
        match self.life {
            Life::Draining { .. } if is_over || is_done => {
                Some(self.leave(now, self.options.shutdown_kill_wait))
            }
            Life::Draining { .. }
            | Life::Running
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => None,
        }
    }

    /// Returns the caller that has drained the association; `None` if it was not drained, or by a signal.
    pub(crate) fn drained_by(&self) -> Option<&DrainCaller> {
        self.drained_by.as_ref()
    }

    /// Ends the association for the operator. A second signal, which is also one after a drain by a signal, kills without a wait.
    pub(crate) fn shut_down(&mut self, now: Time) -> Option<KillAll> {
        match self.life {
            Life::Running
            | Life::Draining {
                by: WantedBy::Call(_),
                ..
            } => Some(self.leave(now, self.options.shutdown_kill_wait)),
            Life::Draining {
                by: WantedBy::Signal,
                ..
            } => {
                self.kill_pace = KillPace::AtOnce;
                Some(self.leave(now, Duration::ZERO))
            }
            Life::Leaving { .. } | Life::Dying { .. } => match self.kill_pace {
                KillPace::AsUsual => {
                    self.kill_pace = KillPace::AtOnce;
                    if let Life::Leaving { kill_by, .. } = &mut self.life {
                        *kill_by = now;
                    }
                    Some(KillAll {
                        by: EndedBy::Shutdown,
                        wait: KillWait::OfAll(Duration::ZERO),
                    })
                }
                KillPace::AtOnce => None,
            },
            Life::Farewell { .. } | Life::Gone => None,
        }
    }

    /// Ends the association because it must end, which was due at `since`. Each process gets the rest of its own kill wait. The scheduler
    /// counts from when the worker's timers ran out, not from when a paused worker notices that.
    pub(super) fn die(&mut self, reason: ExitReason, since: Time) -> Option<KillAll> {
        match self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => {
                self.life = Life::Dying {
                    reason,
                    since,
                    quiet_since: None,
                };
                match self.kill_pace {
                    KillPace::AsUsual => Some(KillAll {
                        by: EndedBy::Suicide,
                        wait: KillWait::OwnSince(since),
                    }),
                    KillPace::AtOnce => None,
                }
            }
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => None,
        }
    }

    /// Returns the last moment at which tasks stay alive if no message arrives. `None` if nobody relies on their end.
    pub(crate) fn may_live_until(&self) -> Option<Time> {
        match self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => self.health.lost_at(),
            Life::Dying {
                since,
                quiet_since: None,
                ..
            } => Some(since),
            // No process is left, and none starts.
            Life::Dying { .. } | Life::Farewell { .. } | Life::Gone => None,
        }
    }

    /// Advances the life of the association as far as processes and reports allow.
    /// Returns the reason of its end if it is over now.
    pub(crate) fn advance_life(&mut self, now: Time, unfinished: Unfinished) -> Option<ExitReason> {
        let is_quiet = !unfinished.has_processes;
        let (reason, until) = match &mut self.life {
            Life::Leaving { quiet_since, .. } if is_quiet => {
                let since = *quiet_since.get_or_insert(now);
                (ExitReason::Shutdown, since + LAST_REPORTS_WAIT)
            }
            Life::Dying {
                reason,
                quiet_since,
                ..
            } if is_quiet => {
                let since = *quiet_since.get_or_insert(now);
                (reason.clone(), since + DYING_REPORTS_WAIT)
            }
            Life::Running
            | Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => return self.end_farewell(now),
        };
        if now >= until || !self.waits_for_reports(unfinished) {
            self.life = Life::Farewell {
                reason,
                since: now,
                goodbye: None,
            };
        }
        self.end_farewell(now)
    }

    /// Returns whether to wait for acknowledgements. A dying worker waits only for a scheduler that accepts its reports.
    fn waits_for_reports(&self, unfinished: Unfinished) -> bool {
        let is_heard = !self.life.is_suicide()
            || self.addressee().is_some_and(|to| match to.tasks {
                TaskLane::Open => true,
                TaskLane::Closed => false,
            });
        is_heard && unfinished.has_reports
    }

    /// Ends the farewell if there is no scheduler, or if its answer takes too long.
    fn end_farewell(&mut self, now: Time) -> Option<ExitReason> {
        if let Life::Farewell { reason, since, .. } = &self.life
            && (self.scheduler().is_none() || now >= *since + GOODBYE_WAIT)
        {
            let reason = reason.clone();
            self.life = Life::Gone;
            return Some(reason);
        }
        None
    }

    /// Returns whether the association serves its scheduler, and nobody has ended it.
    pub(crate) fn is_running(&self) -> bool {
        self.life == Life::Running
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.life == Life::Gone
    }

    /// Returns whether the scheduler was told that the worker starts no tasks any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.description.intake == Intake::Draining
    }

    pub(crate) fn life_stage(&self) -> LifeStage {
        match self.life {
            Life::Running => LifeStage::Running,
            Life::Draining { .. } => LifeStage::Draining,
            Life::Farewell { .. } if self.life.is_suicide() => LifeStage::Dying,
            Life::Leaving { .. } | Life::Farewell { .. } => LifeStage::Leaving,
            Life::Dying { .. } => LifeStage::Dying,
            Life::Gone => LifeStage::Gone,
        }
    }

    /// Returns when the last process is killed because the operator ends the worker. `None` if the operator does not.
    pub(crate) fn kill_by(&self) -> Option<Time> {
        match self.life {
            Life::Leaving { kill_by, .. } => Some(kill_by),
            Life::Running
            | Life::Draining { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => None,
        }
    }

    /// Returns when `advance_life` has something to do without an event.
    pub(super) fn life_due(&self) -> Option<Time> {
        match self.life {
            Life::Draining { .. } => self.drained_at(),
            Life::Leaving { quiet_since, .. } => quiet_since.map(|at| at + LAST_REPORTS_WAIT),
            Life::Dying { quiet_since, .. } => quiet_since.map(|at| at + DYING_REPORTS_WAIT),
            Life::Farewell { since, .. } => Some(since + GOODBYE_WAIT),
            Life::Running | Life::Gone => None,
        }
    }
}
