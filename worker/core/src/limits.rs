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
use crate::effect::Effect;
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
    /// Counts from when there is a process.
    timeout: Option<Duration>,
    /// What was left at the acceptance.
    deadline: Option<Duration>,
    kill: KillRequest,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is ended then, for that reason, if there is a limit that counts yet.
    Set(Option<(Time, EndedBy)>),
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
            kill: ends_for_certain(asked, task.suicide_kill_wait),
            stage: Stage::Set(options.deadline.map(|left| (now + left, EndedBy::Deadline))),
        })
    }

    fn due(&self) -> Option<(Time, EndedBy)> {
        match self.stage {
            Stage::Set(due) => due,
            Stage::Over => None,
        }
    }

    /// There is a process now.
    fn started(&mut self, now: Time) {
        match (self.stage, self.timeout) {
            (Stage::Set(deadline), Some(timeout)) => {
                let due = (now + timeout, EndedBy::Timeout);
                let sooner = deadline.filter(|deadline| deadline.0 <= due.0);
                self.stage = Stage::Set(sooner.or(Some(due)));
            }
            (Stage::Set(_), None) | (Stage::Over, _) => {}
        }
    }

    /// For fingerprints.
    pub(crate) fn shape<H: Hasher>(self, s: &mut Shape<'_, H>) {
        s.put((self.timeout, self.deadline, self.kill));
        s.put(std::mem::discriminant(&self.stage));
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
        self.tasks
            .change_limits(key, invocation, |limits| limits.started(now));
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
            turn.effect(Effect::Kill {
                task: key,
                invocation,
                kill: Kill { request, by },
            });
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
