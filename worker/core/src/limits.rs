//! How long a run may take: the timeout from the start of its process, the deadline from its acceptance, and the kill when one is over.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::time::format_duration;
use brasserie_common::{
    EndedBy, InvocationId, Kill, KillMethod, KillRequest, ReportedStatus, RunningTask, Story,
    TaskKey, TaskSubprocessOptions, Time,
};

use crate::association::Association;
use crate::outbox::Turn;
use crate::queue::NeverBegins;
use crate::tasks::Task;

/// The limits of one run.
///
/// ```text
///   SET --a limit is over, which is told to the process--> OVER --the process is gone--> (the status says so)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Counts from when there is a process, without the time for which that was stopped.
    timeout: Option<Duration>,
    /// What was left at the acceptance.
    deadline: Option<Duration>,
    deadline_at: Option<Time>,
    kill: KillRequest,
    timeout_stage: TimeoutStage,
    stage: Stage,
}

/// ```text
///   AWAITED --there is a process--> RUNS <--stopped, goes on--> STOPPED
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeoutStage {
    /// Or there is none.
    Awaited,
    Runs {
        until: Time,
    },
    Stopped {
        left: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Set,
    /// It was asked to end, once.
    Over,
}

impl Limits {
    /// Of a run that is accepted now; `None`: it has none.
    pub(crate) fn new(
        now: Time,
        options: &TaskSubprocessOptions,
        task: &RunningTask,
    ) -> Option<Limits> {
        if options.timeout.is_none() && options.deadline.is_none() {
            return None;
        }
        let asked = options.limit_kill.unwrap_or_default();
        Some(Limits {
            timeout: options.timeout,
            deadline: options.deadline,
            deadline_at: options.deadline.map(|left| now + left),
            kill: ends_for_certain(asked, task.suicide_kill_wait),
            timeout_stage: TimeoutStage::Awaited,
            stage: Stage::Set,
        })
    }

    /// It is ended then, for that reason, if there is a limit that counts yet.
    fn due(&self) -> Option<(Time, EndedBy)> {
        match self.stage {
            Stage::Set => {}
            Stage::Over => return None,
        }
        let deadline = self.deadline_at.map(|at| (at, EndedBy::Deadline));
        let timeout = match self.timeout_stage {
            TimeoutStage::Runs { until } => Some((until, EndedBy::Timeout)),
            TimeoutStage::Awaited | TimeoutStage::Stopped { .. } => None,
        };
        // Of two at once the deadline, which nobody moves.
        deadline
            .into_iter()
            .chain(timeout)
            .min_by_key(|(at, _)| *at)
    }

    /// There is a process now.
    fn started(&mut self, now: Time) {
        if let (TimeoutStage::Awaited, Some(timeout)) = (self.timeout_stage, self.timeout) {
            self.timeout_stage = TimeoutStage::Runs {
                until: now + timeout,
            };
        }
    }

    /// The process is stopped, and does not use up its time.
    pub(crate) fn stopped(&mut self, now: Time) {
        if let TimeoutStage::Runs { until } = self.timeout_stage {
            let left = until.since(now);
            self.timeout_stage = TimeoutStage::Stopped { left };
        }
    }

    /// The process goes on.
    pub(crate) fn resumed(&mut self, now: Time) {
        if let TimeoutStage::Stopped { left } = self.timeout_stage {
            self.timeout_stage = TimeoutStage::Runs { until: now + left };
        }
    }

    /// For fingerprints.
    pub(crate) fn shape<H: Hasher>(self, s: &mut Shape<'_, H>) {
        s.put((self.timeout, self.deadline, self.kill));
        s.put(std::mem::discriminant(&self.stage));
        match self.timeout_stage {
            TimeoutStage::Awaited | TimeoutStage::Runs { .. } => {}
            TimeoutStage::Stopped { left } => s.put(left),
        }
        s.opt(self.due(), |s, (at, by)| {
            s.put(by);
            s.deadline(at);
        });
    }
}

/// TERM alone would leave a run that ignores it alive for ever, so KILL follows it: after the wait that a worker grants its tasks
/// when it has to end, unless the job says one.
fn ends_for_certain(asked: KillRequest, suicide_kill_wait: Duration) -> KillRequest {
    match asked.method {
        KillMethod::Kill | KillMethod::TermWaitKill => asked,
        KillMethod::Term => KillRequest {
            method: KillMethod::TermWaitKill,
            wait: match asked.wait.is_zero() {
                true => suicide_kill_wait,
                false => asked.wait,
            },
        },
    }
}

/// When limits are over, earliest first. Invariant: exactly those of live runs that have a limit that counts and is not over.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitTimers(BTreeSet<(Time, TaskKey)>);

impl LimitTimers {
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Whose limit is over.
    pub(crate) fn first_until(&self, now: Time) -> Option<&TaskKey> {
        let (_, key) = self.0.first().filter(|(at, _)| *at <= now)?;
        Some(key)
    }

    pub(crate) fn add(&mut self, key: &TaskKey, limits: Option<&Limits>) {
        if let Some((at, _)) = limits.and_then(Limits::due) {
            self.0.insert((at, key.clone()));
        }
    }

    pub(crate) fn remove(&mut self, key: &TaskKey, limits: Option<&Limits>) {
        if let Some((at, _)) = limits.and_then(Limits::due) {
            self.0.remove(&(at, key.clone()));
        }
    }
}

impl Association {
    /// The process of a run is there.
    pub(crate) fn started(&mut self, now: Time, key: &TaskKey, invocation: InvocationId) {
        let task = self.tasks.get(key);
        let piece = task.and_then(|task| task.piece.as_ref());
        let is_stopped = piece.is_some_and(|piece| piece.is_stopped() && !piece.is_ending());
        self.tasks.change_limits(key, invocation, |limits| {
            limits.started(now);
            if is_stopped {
                limits.stopped(now);
            }
        });
    }

    /// Ends the runs whose time is over, each once.
    pub(crate) fn enforce_limits(&mut self, turn: &mut Turn<'_>) {
        while let Some((key, invocation)) = self.tasks.first_over(turn.now) {
            let mut ended = None;
            self.tasks.change_limits(&key, invocation, |limits| {
                ended = limits.due().map(|(_, by)| (limits.kill, by));
                limits.stage = Stage::Over;
            });
            let (request, by) = ended.expect("Invariant: a timer is that of a limit that is due");
            if self.tasks.get(&key).is_some_and(Task::is_queued) {
                self.end_queued(turn, &key, invocation, &NeverBegins::Killed(by));
                continue;
            }
            self.kill(turn, key, invocation, Kill { request, by });
        }
    }
}

/// What a run ends as that was ended because its time was over: as its process says, but it is told that, and after how long.
pub(crate) fn status_of(
    status: ReportedStatus,
    story: &Story,
    limits: Option<&Limits>,
) -> ReportedStatus {
    let why = match (story.ended_by, limits) {
        (Some(EndedBy::Timeout), Some(limits)) => limits
            .timeout
            .map(|limit| format!("timed out after {}", format_duration(limit))),
        (Some(EndedBy::Deadline), Some(limits)) => limits.deadline.map(|limit| {
            let limit = format_duration(limit);
            format!("its deadline passed, {limit} after its worker got it")
        }),
        (_, _) => None,
    };
    match why {
        Some(why) if status.is_error_backoff() => status.with_reason(&why),
        Some(_) | None => status,
    }
}
