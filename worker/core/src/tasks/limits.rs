//! Time limits of runs: the timeout from the start of the process, the deadline from the acceptance, and the kill when one of them expires.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::time::format_duration;
use brasserie_common::{
    EndedBy, Kill, KillMethod, KillRequest, ReportedStatus, RunningTask, Story, TaskKey,
    TaskSubprocessOptions, Time,
};

/// The limits of one run.
///
/// ```text
///   SET --a limit is over, which is told to the process--> OVER --the process is gone--> (the status says so)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunLimits {
    /// Counts from the start of the process, without the time for which the process is stopped.
    timeout: Option<Duration>,
    /// The time that was left at the acceptance.
    deadline: Option<Duration>,
    deadline_at: Option<Time>,
    kill: KillRequest,
    timeout_stage: TimeoutStage,
    stage: LimitStage,
}

/// The state of the timeout.
///
/// ```text
///   AWAITED --there is a process--> RUNS <--stopped, goes on--> STOPPED
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeoutStage {
    /// No process exists yet, or the run has no timeout.
    Awaited,
    Runs {
        until: Time,
    },
    Stopped {
        left: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitStage {
    Set,
    /// The run was asked to end, once.
    Over,
}

impl RunLimits {
    /// Returns the limits of a run that is accepted now; `None` if it has none.
    pub(super) fn new(
        now: Time,
        options: &TaskSubprocessOptions,
        task: &RunningTask,
    ) -> Option<RunLimits> {
        if options.timeout.is_none() && options.deadline.is_none() {
            return None;
        }
        let asked = options.limit_kill.unwrap_or_default();
        Some(RunLimits {
            timeout: options.timeout,
            deadline: options.deadline,
            deadline_at: options.deadline.map(|left| now + left),
            kill: ends_for_certain(asked, task.suicide_kill_wait),
            timeout_stage: TimeoutStage::Awaited,
            stage: LimitStage::Set,
        })
    }

    /// Returns when the next limit expires and the reason for the kill. `None` if the run has no active limit.
    fn due(&self) -> Option<(Time, EndedBy)> {
        match self.stage {
            LimitStage::Set => {}
            LimitStage::Over => return None,
        }
        let deadline = self.deadline_at.map(|at| (at, EndedBy::Deadline));
        let timeout = match self.timeout_stage {
            TimeoutStage::Runs { until } => Some((until, EndedBy::Timeout)),
            TimeoutStage::Awaited | TimeoutStage::Stopped { .. } => None,
        };
        // If both expire at once, the deadline is the reason, because nothing can move it.
        deadline
            .into_iter()
            .chain(timeout)
            .min_by_key(|(at, _)| *at)
    }

    /// Marks the limits as enforced, and returns how to end the process. `None` if they were enforced before, or if none is active.
    pub(super) fn expire(&mut self) -> Option<Kill> {
        let (_, by) = self.due()?;
        self.stage = LimitStage::Over;
        Some(Kill {
            request: self.kill,
            by,
        })
    }

    /// Starts the timeout, because the process exists now.
    pub(super) fn started(&mut self, now: Time) {
        if let (TimeoutStage::Awaited, Some(timeout)) = (self.timeout_stage, self.timeout) {
            self.timeout_stage = TimeoutStage::Runs {
                until: now + timeout,
            };
        }
    }

    /// Suspends the timeout while the process is stopped.
    pub(super) fn stopped(&mut self, now: Time) {
        if let TimeoutStage::Runs { until } = self.timeout_stage {
            let left = until.since(now);
            self.timeout_stage = TimeoutStage::Stopped { left };
        }
    }

    /// Resumes the timeout with the time that was left.
    pub(super) fn resumed(&mut self, now: Time) {
        if let TimeoutStage::Stopped { left } = self.timeout_stage {
            self.timeout_stage = TimeoutStage::Runs { until: now + left };
        }
    }

    /// Writes the state for fingerprints.
    pub(super) fn shape<H: Hasher>(self, s: &mut Shape<'_, H>) {
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

/// Returns a request that certainly ends the run. TERM alone would leave a run alive that ignores it, so KILL follows after the job's own
/// wait, or else after the kill wait that tasks get when the worker must end.
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

/// The expiry times of limits, earliest first.
///
/// Invariant: the set holds exactly the next limit of each open run that has one and was not asked to end for it.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitTimers(BTreeSet<(Time, TaskKey)>);

impl LimitTimers {
    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Returns the task whose limit expired first, if any has expired.
    pub(super) fn first_until(&self, now: Time) -> Option<&TaskKey> {
        let (_, key) = self.0.first().filter(|(at, _)| *at <= now)?;
        Some(key)
    }

    pub(super) fn add(&mut self, key: &TaskKey, limits: Option<&RunLimits>) {
        if let Some((at, _)) = limits.and_then(RunLimits::due) {
            self.0.insert((at, key.clone()));
        }
    }

    pub(super) fn remove(&mut self, key: &TaskKey, limits: Option<&RunLimits>) {
        if let Some((at, _)) = limits.and_then(RunLimits::due) {
            self.0.remove(&(at, key.clone()));
        }
    }
}

/// Returns the final status of a run. If a limit ended the run and the status is an error with backoff, the status begins with the limit.
pub(super) fn status_of(
    status: ReportedStatus,
    story: &Story,
    limits: Option<&RunLimits>,
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
