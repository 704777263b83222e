//! News for the operator's log: changes of workers, waits, runs, jobs and the configuration.
//!
//! No decision depends on news. The shell takes and logs them. It also logs starts and completions of tasks, which are effects and not
//! news, at debug level.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::text::{counted, readable_bytes};
use brasserie_common::{JobName, Principal, Shard, TaskKey, WorkerId};

use crate::orders::{AfterDecommission, WorkLeft};
use crate::record::{InstanceRecord, LeftCause};

/// The most tasks that one line names.
pub(crate) const MAX_NAMED_TASKS: usize = 10;

/// The text of a config file that has come into force, and that of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigTexts {
    pub before: Option<Arc<str>>,
    pub after: Arc<str>,
}

/// One change. Its `Display` is the line for the log.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    Joined(KnownWorker),
    /// The worker was new or unhealthy before.
    Healthy(KnownWorker),
    /// The worker was healthy before.
    Unhealthy {
        worker: KnownWorker,
        since_heartbeat: Option<Duration>,
        lost_in: Duration,
    },
    Left {
        worker: KnownWorker,
        cause: LeftCause,
        why: Arc<str>,
        lost: LostTasks,
        /// The time in which no task starts, because the worker's tasks are unknown.
        hold_back: Duration,
    },
    /// The worker gets no more tasks and exits after its running tasks.
    Draining(KnownWorker),
    DeclaredDead {
        worker: KnownWorker,
        by: Principal,
    },
    /// The decommission of a worker has advanced without an operator.
    Decommission {
        shard: Shard,
        step: DecommissionNews,
    },
    WaitBegan {
        why: String,
    },
    WaitEnded {
        why: String,
    },
    /// Tasks may start again after the loss of a worker with unknown tasks.
    HoldBackEnded,
    /// A task whose last run was lost starts again.
    RunsAgain {
        task: TaskKey,
        on: Shard,
        /// The worker of the last run; `None`: it is not known any more.
        before: Option<String>,
        /// The last status of the task.
        status: String,
    },
    /// The task gets no more tries.
    Failed {
        task: TaskKey,
        /// The status of the last try.
        status: String,
    },
    RunsTwice {
        task: TaskKey,
        /// The workers of the two runs.
        workers: [Shard; 2],
    },
    /// The scheduler has accepted a caller's change. `what` is a verb in the past tense, with its object.
    Asked {
        by: Principal,
        what: String,
    },
    /// Another configuration is in force. `what` names it.
    ConfigInForce {
        what: String,
        /// `None`: the file has the same text as before.
        texts: Option<ConfigTexts>,
    },
    /// A problem that `status` shows and did not show before.
    Problem(String),
    /// Outputs of tasks are gone that another task needs, so the tasks run again.
    MadeAgain {
        job: JobName,
        tasks: usize,
        why: MissedOutputs,
    },
    /// Nobody needs the outputs of the job's tasks any more.
    OutputsExpired {
        job: JobName,
    },
    /// The scheduler has deleted completions of nodes or jobs that have been missing for long, in one round over all completions.
    CompletionsForgotten {
        count: usize,
    },
}

/// The reason why outputs are not there that a task needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedOutputs {
    /// No worker has a copy any more.
    Lost,
    /// They have expired or were removed, or the tasks have left none.
    NotKept,
}

/// The change of a decommission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecommissionNews {
    /// No task runs on the worker, and its needed data is elsewhere.
    Done(AfterDecommission),
    /// The deadline is over with this work left, which is lost.
    Overdue(WorkLeft),
    /// The deadline is over, and no worker has the shard.
    OverdueAway,
    /// The worker has needed data that is nowhere else, after all.
    GoesOn(WorkLeft),
}

/// The tasks whose runs ended with their worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostTasks {
    pub count: usize,
    /// The first [`MAX_NAMED_TASKS`] of them.
    pub named: Vec<TaskKey>,
    /// The longest safety wait of a task, after which all its processes are dead.
    pub wait: Duration,
}

/// The names of a worker instance in log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWorker {
    pub shard: Shard,
    pub hostname: Arc<str>,
    pub id: WorkerId,
}

/// A kind of news that may be frequent. Each kind has its own bound, so that none crowds out another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NewsKind {
    /// Changes of workers, of waits for them and of the tasks that were lost with them.
    Workers,
    Failures,
    Requests,
    Problems,
    RunsTwice,
}

impl fmt::Display for NewsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NewsKind::Workers => "changes of workers",
            NewsKind::Failures => "tasks that failed for good",
            NewsKind::Requests => "requests",
            NewsKind::Problems => "problems",
            NewsKind::RunsTwice => "reports of tasks that run twice",
        })
    }
}

/// The severity of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl News {
    pub fn severity(&self) -> Severity {
        match self {
            News::Joined(_)
            | News::Healthy(_)
            | News::Draining(_)
            | News::WaitEnded { .. }
            | News::HoldBackEnded
            | News::RunsAgain { .. }
            | News::Failed { .. }
            | News::Asked { .. }
            | News::ConfigInForce { .. }
            | News::OutputsExpired { .. }
            | News::MadeAgain {
                why: MissedOutputs::NotKept,
                ..
            }
            | News::CompletionsForgotten { .. }
            | News::Decommission {
                step: DecommissionNews::Done(_) | DecommissionNews::GoesOn(_),
                ..
            }
            | News::Left {
                cause: LeftCause::CleanExit | LeftCause::Replaced,
                ..
            } => Severity::Info,
            News::Unhealthy { .. }
            | News::DeclaredDead { .. }
            | News::WaitBegan { .. }
            | News::MadeAgain {
                why: MissedOutputs::Lost,
                ..
            }
            | News::Problem(_)
            | News::Decommission {
                step: DecommissionNews::Overdue(_) | DecommissionNews::OverdueAway,
                ..
            }
            | News::Left {
                cause: LeftCause::Lost | LeftCause::DidNotReturn | LeftCause::Forgotten,
                ..
            } => Severity::Warning,
            News::RunsTwice { .. } => Severity::Error,
        }
    }

    /// Returns the kind whose bound applies; `None` for news that is rare.
    pub fn kind(&self) -> Option<NewsKind> {
        match self {
            News::Joined(_)
            | News::Healthy(_)
            | News::Unhealthy { .. }
            | News::Left { .. }
            | News::Draining(_)
            | News::WaitBegan { .. }
            | News::WaitEnded { .. }
            | News::HoldBackEnded
            | News::MadeAgain { .. }
            | News::Decommission { .. }
            | News::RunsAgain { .. } => Some(NewsKind::Workers),
            News::Failed { .. } => Some(NewsKind::Failures),
            News::RunsTwice { .. } => Some(NewsKind::RunsTwice),
            News::Asked { .. } => Some(NewsKind::Requests),
            News::Problem(_) => Some(NewsKind::Problems),
            News::DeclaredDead { .. }
            | News::ConfigInForce { .. }
            | News::OutputsExpired { .. }
            | News::CompletionsForgotten { .. } => None,
        }
    }

    fn fmt_runs_again(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let News::RunsAgain {
            task,
            on,
            before,
            status,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "{} on {} runs again, on worker `{on}`",
            task.job, task.node
        )?;
        match before {
            Some(before) if before == on.as_str() => f.write_str(" as before"),
            Some(before) => write!(f, ", after worker `{before}`"),
            None => Ok(()),
        }?;
        write!(f, " (last status: {status})")
    }

    fn fmt_left(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let News::Left {
            worker,
            cause,
            why,
            lost,
            hold_back,
        } = self
        else {
            return Ok(());
        };
        write!(f, "{worker} ")?;
        match cause {
            LeftCause::CleanExit => f.write_str("has ended, with all its tasks"),
            LeftCause::Lost => write!(f, "is lost: {why}"),
            LeftCause::Replaced => write!(f, "is replaced: {why}"),
            LeftCause::DidNotReturn => f.write_str("did not return in time and counts as dead"),
            LeftCause::Forgotten => f.write_str("counts as dead, as an operator has declared"),
        }?;
        if lost.count > 0 {
            write!(f, "; {lost}")?;
        }
        if !hold_back.is_zero() {
            let left = seconds(*hold_back);
            write!(
                f,
                "; hold-back: nothing starts for {left}, as its running tasks were not known"
            )?;
        }
        Ok(())
    }
}

fn fmt_failed(f: &mut fmt::Formatter<'_>, task: &TaskKey, status: &str) -> fmt::Result {
    let TaskKey { job, node } = task;
    write!(f, "{job} on {node} has failed for good ({status})")
}

impl fmt::Display for LostTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.named.iter();
        let names: Vec<String> = names
            .map(|task| format!("{} on {}", task.job, task.node))
            .collect();
        let (task, their) = match self.count {
            1 => ("task", "its"),
            _ => ("tasks", "their"),
        };
        write!(f, "its {} {task} ({}", self.count, names.join(", "))?;
        match self.count.saturating_sub(names.len()) {
            0 => f.write_str(")")?,
            more => write!(f, ", and {more} more)")?,
        }
        match self.wait.is_zero() {
            true => f.write_str(" may run again without a safety wait"),
            false => write!(
                f,
                " may run again after the safety wait of {}, when all {their} processes are dead for certain",
                seconds(self.wait)
            ),
        }
    }
}

impl KnownWorker {
    /// Returns the names of a recorded instance.
    pub(crate) fn of(id: WorkerId, recorded: &InstanceRecord) -> Self {
        KnownWorker {
            shard: recorded.shard.clone(),
            hostname: recorded.machine_lock.hostname.clone(),
            id,
        }
    }
}

impl fmt::Display for KnownWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KnownWorker {
            shard,
            hostname,
            id,
        } = self;
        write!(f, "worker `{shard}` on host {hostname} (instance {id})")
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Joined(worker) => write!(f, "{worker} has joined"),
            News::Healthy(worker) => write!(f, "{worker} is healthy"),
            News::Draining(worker) => write!(
                f,
                "{worker} drains: it ends with its running tasks and gets no more"
            ),
            News::Unhealthy {
                worker,
                since_heartbeat,
                lost_in,
            } => {
                write!(f, "{worker} is unhealthy and gets no more tasks")?;
                if let Some(ago) = since_heartbeat {
                    write!(f, "; its last heartbeat came {} ago", seconds(*ago))?;
                }
                write!(
                    f,
                    "; it is lost in {} unless it recovers",
                    seconds(*lost_in)
                )
            }
            News::Left { .. } => self.fmt_left(f),
            News::DeclaredDead { worker, by } => write!(
                f,
                "an operator (from {by}) has declared {worker} dead, with every process of its tasks: they run again without a safety wait"
            ),
            News::Decommission { shard, step } => fmt_decommission(f, shard, *step),
            News::WaitBegan { why } => f.write_str(why),
            News::WaitEnded { why } => write!(f, "the initial wait is over: {why}"),
            News::Failed { task, status } => fmt_failed(f, task, status),
            News::HoldBackEnded => {
                f.write_str("the hold-back is over: what ran on lost workers is dead")
            }
            News::RunsAgain { .. } => self.fmt_runs_again(f),
            News::Asked { by, what } => write!(f, "{by} {what}"),
            News::ConfigInForce { what, .. } => write!(f, "{what} is in force"),
            News::Problem(text) => f.write_str(text),
            News::MadeAgain { job, tasks, why } => fmt_made_again(f, job, (*tasks, *why)),
            News::OutputsExpired { job } => write!(
                f,
                "the outputs of job {job} are not needed any more (`keep`): its workers delete them"
            ),
            News::CompletionsForgotten { count } => write!(
                f,
                "{count} completions are forgotten, because their nodes or jobs have been missing for long (--keep-missing-for, \
                 --keep-missing-count)"
            ),
            News::RunsTwice {
                task,
                workers: [first, second],
            } => write!(
                f,
                "{} on {} runs twice: on worker `{first}` and on worker `{second}`; `brasserie status` names the runs",
                task.job, task.node
            ),
        }
    }
}

fn fmt_made_again(
    f: &mut fmt::Formatter<'_>,
    job: &JobName,
    (tasks, why): (usize, MissedOutputs),
) -> fmt::Result {
    let (runs, its) = match tasks {
        1 => ("runs", "its"),
        _ => ("run", "their"),
    };
    let why = match why {
        MissedOutputs::Lost => "no worker has them any more",
        MissedOutputs::NotKept => "they were not left, have expired or were removed",
    };
    let tasks = counted(tasks as u64, "task");
    write!(
        f,
        "{tasks} of job {job} {runs} again, because another task needs {its} outputs and {why}"
    )
}

fn fmt_decommission(
    f: &mut fmt::Formatter<'_>,
    shard: &Shard,
    step: DecommissionNews,
) -> fmt::Result {
    let amount = |left: WorkLeft| {
        let outputs = counted(left.only_here.artifacts, "output");
        format!("{outputs} ({})", readable_bytes(left.only_here.bytes))
    };
    match step {
        DecommissionNews::Done(then) => {
            let then = match then {
                AfterDecommission::Exit => "it exits now",
                AfterDecommission::Idle => "it stays idle",
            };
            write!(
                f,
                "worker `{shard}` is decommissioned: no task runs on it, and its needed outputs are elsewhere; {then}"
            )
        }
        DecommissionNews::Overdue(left) if left.unknown => write!(
            f,
            "the deadline of the decommission of worker `{shard}` is over: the worker ends with {} that still run, and outputs that no other \
             worker has are lost; how many is not known",
            counted(left.running as u64, "task"),
        ),
        DecommissionNews::Overdue(left) => write!(
            f,
            "the deadline of the decommission of worker `{shard}` is over: the worker ends with {} that still run, and {} that no other \
             worker has are lost",
            counted(left.running as u64, "task"),
            amount(left)
        ),
        DecommissionNews::OverdueAway => write!(
            f,
            "the deadline of the decommission of worker `{shard}` is over, and the worker is not connected: outputs that only it has are \
             lost"
        ),
        DecommissionNews::GoesOn(left) => write!(
            f,
            "the decommission of worker `{shard}` goes on: {} are only there again",
            amount(left)
        ),
    }
}

/// Formats whole seconds. Rounds up, so that a user who waits for this time has waited long enough.
pub(crate) fn seconds(d: Duration) -> String {
    let secs = d.as_secs() + u64::from(d.subsec_nanos() > 0);
    if secs < 120 {
        format!("{secs} s")
    } else {
        format!("{} min {} s", secs / 60, secs % 60)
    }
}
