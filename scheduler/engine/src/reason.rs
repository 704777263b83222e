//! Reasons why a task does not run, and their sentences.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use brasserie_common::cards::Milli;
use brasserie_common::cluster_view::NO_WORKER;
use brasserie_common::text::{readable_bytes, shell_word};
use brasserie_common::time::format_duration;
use brasserie_common::worker::TaskRoom;
use brasserie_common::{Card, Hold, JobName, NodeName, Shard};

use crate::pool::work_need::OutputNeed;
use crate::types::{OutputSpace, TaskState};

/// The rest of the sentence about a node that its schedule has disabled.
const LIFETIME_OVER: &str =
    ": the `enabled_lifetime` of its time in the schedule is over, and no task starts after that";

/// A need that is not met somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub resource: String,
    pub need: i32,
    /// Free slots; below 0 where more are in use than the limit.
    pub free: i64,
    pub limit: i32,
}

/// The shortage of a worker that could otherwise take a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    Slots(Need),
    /// Needed GPUs, and the free thousandths of each GPU. Their sum may be enough.
    Cards {
        need: String,
        free: Vec<u32>,
    },
}

/// Workers that refuse a task for one reason. A caller that knows more about the first one may report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusers {
    pub count: u32,
    pub first: Option<Shard>,
}

impl Refusers {
    pub(crate) const NONE: Refusers = Refusers {
        count: 0,
        first: None,
    };

    /// Returns these workers as those without space for such outputs, if there are any. `space` is that of the first one.
    pub(crate) fn lack_of_space(
        self,
        outputs: &OutputNeed,
        space: Option<OutputSpace>,
    ) -> Option<Box<NoSpace>> {
        let lack = |first: Shard| NoSpace {
            why: match space {
                _ if outputs.full_at.contains(&first) => WhyNoSpace::WasFull,
                Some(OutputSpace::Awaited) => WhyNoSpace::NotReported,
                Some(OutputSpace::Unknown | OutputSpace::Bytes(_)) | None => WhyNoSpace::TooLittle,
            },
            workers: self.count,
            first,
            bytes: outputs.size.bytes(),
        };
        self.first.map(lack).map(Box::new)
    }

    pub(crate) fn add(&mut self, shard: &Shard) {
        self.count += 1;
        self.first.get_or_insert_with(|| shard.clone());
    }
}

/// Workers without space for the inputs or outputs of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSpace {
    pub workers: u32,
    pub first: Shard,
    pub why: WhyNoSpace,
    /// Bytes that the outputs are expected to take; 1 if no task of the job has left any.
    pub bytes: u64,
}

/// The reason why a worker counts as one without space for the inputs or outputs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNoSpace {
    /// The worker lately had no space for a run of the job, whatever its disks report.
    WasFull,
    /// The first report of its disks is awaited.
    NotReported,
    /// None of its healthy disks has enough.
    TooLittle,
}

/// The cause of a missed deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateBy {
    /// Other work of the worker, which comes before.
    OtherWork,
    /// The task's own length. The task is still sent to a worker where it makes no other task late.
    ItsOwnLength,
}

/// The kind of a task's wait after its last run. Displays as the term that `status` and the log use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunWait {
    /// The backoff of the task's job.
    Backoff,
    /// The wait until the processes of a lost run are certainly dead.
    Safety,
}

/// One reason why a task does not run now. Displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    NoConfig,
    NoNodes,
    ConfigDisabled,
    UnknownJob,
    JobDisabled,
    /// An operator paused or cancelled the job.
    JobHeld {
        job: JobName,
        hold: Hold,
    },
    /// The job runs as many tasks as its `max_running` allows.
    JobFull {
        running: u32,
        most: u32,
    },
    JobErrors(Vec<String>),
    NotAtLevel {
        node: NodeName,
        level: String,
    },
    NodeDisabled {
        node: NodeName,
        /// Its schedule has disabled it: its `enabled_lifetime` is over.
        by_schedule: bool,
    },
    AvoidedByFilter {
        node: NodeName,
        level: String,
    },
    RunningOn(Shard),
    /// The task is at its worker, but has not begun.
    StandsBy {
        shard: Shard,
        /// The number of tasks that stand by there before it.
        before: usize,
    },
    Done,
    /// The task has failed for good, with this status.
    Failed {
        job: JobName,
        status: String,
    },
    WaitsAfterItsLastRun {
        wait: RunWait,
        remaining: Duration,
        status: String,
    },
    /// Another worker could start it, and the task waits for one with more of its inputs.
    WaitsForInputs {
        /// The workers with the most bytes of its inputs.
        at: Vec<Shard>,
        bytes: u64,
        remaining: Duration,
    },
    /// Every task waits, because unknown tasks may be running.
    HeldBackFor {
        remaining: Duration,
    },
    /// The task's last status is not durable yet.
    HeldUntilDurable,
    WaitsFor {
        job: JobName,
        node: NodeName,
        state: TaskState,
    },
    NeverDone {
        job: JobName,
        node: NodeName,
        why: String,
    },
    /// The job waits until all of another job is done, and the nodes of their configuration are not loaded yet.
    OtherNodes,
    /// The job waits until all of another job is done.
    WaitsForAll {
        job: JobName,
        /// Number of the other job's tasks that are not done.
        left: u64,
        /// The first of them; `None` if the nodes of those that run are gone.
        first: Option<(NodeName, TaskState)>,
    },
    /// The same as [`Reason::WaitsForAll`], but the wait ends only if something changes.
    NeverAllDone {
        job: JobName,
        why: String,
        left: u64,
        /// The first task that is in the way.
        first: Option<(NodeName, TaskState)>,
    },
    Short {
        node: NodeName,
        need: Need,
    },
    /// Infeasible: no node of the level has that many slots.
    AboveLimit {
        level: String,
        resource: String,
        need: i32,
        limit: i32,
    },
    NoWorkers,
    /// Some worker could run it, but none can now.
    NoWorkerNow {
        host: Option<String>,
        not_ready: Refusers,
        /// Number of draining workers, which accept no more tasks.
        draining: u32,
        /// Workers from which an operator's order keeps tasks away.
        barred: Refusers,
        unsuitable: u32,
        short: u32,
        /// The first worker that is short of something, and its shortage.
        example: Option<(Shard, Lack)>,
        /// Number of workers that run as many tasks as they can.
        full: u32,
        /// The first worker of `full`.
        fullest: Option<(Shard, TaskRoom)>,
        /// Pull workers that have not requested more work of this kind.
        not_asked: Refusers,
        /// Number of workers where a deadline would be missed.
        late: u32,
        /// The cause for the workers of `late`.
        late_by: LateBy,
        /// Number of workers that choose GPUs and had none a moment ago for such a task, which may not be queued.
        turned_down: u32,
        no_space: Option<Box<NoSpace>>,
        /// Why it does not stand by, if workers without room take such tasks.
        not_on_standby: Option<&'static str>,
    },
    /// Infeasible with the present workers.
    NoWorkerEver {
        why: String,
    },
    /// Infeasible with the present nodes: none of the `nodes` of its level is enabled and passes its filters.
    NoNode {
        level: String,
        nodes: u64,
    },
    /// Infeasible: neither the job nor any worker has a command.
    NoCommand,
    /// Nothing is in the way: the next placement may start it.
    Runnable,
}

impl fmt::Display for RunWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunWait::Backoff => "backoff",
            RunWait::Safety => "safety wait",
        })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need {
            resource,
            need,
            free,
            limit,
        } = self;
        // Tasks that stand by have more than there are.
        let free = (*free).max(0);
        write!(f, "has {free} of {limit} `{resource}` free, {need} needed")
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (need, free) = match self {
            Lack::Slots(need) => return need.fmt(f),
            Lack::Cards { need, free } => (need, free),
        };
        let cards = match free.len() {
            1 => "1 GPU".to_owned(),
            cards => format!("{cards} GPUs"),
        };
        match free[..] {
            [first, ..] if free.iter().all(|of_card| *of_card == first) => {
                let each = if free.len() > 1 { " each" } else { "" };
                write!(f, "has {cards} with {} free{each}", Milli(first))?;
            }
            _ => {
                let free: Vec<String> = free.iter().map(|f| Milli(*f).to_string()).collect();
                write!(f, "has {cards} with {} free", free.join(", "))?;
            }
        }
        write!(f, ", {need} needed")
    }
}

/// Displays how many GPUs there are of each model.
pub(crate) struct CardList<'a>(pub(crate) &'a [Card]);

impl fmt::Display for CardList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut models: BTreeMap<&str, usize> = BTreeMap::new();
        for card in self.0 {
            *models.entry(&card.model).or_default() += 1;
        }
        let models: Vec<String> = models
            .iter()
            .map(|(model, cards)| format!("{cards} of `{model}`"))
            .collect();
        f.write_str(&models.join(" and "))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoConfig => f.write_str("there is no valid configuration yet"),
            Reason::NoNodes => f.write_str("the nodes have not been loaded yet"),
            Reason::ConfigDisabled => {
                f.write_str("the configuration starts nothing: `enabled` is false")
            }
            Reason::UnknownJob => f.write_str("no such job is configured"),
            Reason::JobDisabled => f.write_str("the job is disabled"),
            Reason::JobHeld { job, hold } => fmt_held(f, job, *hold),
            Reason::JobFull { running, most } => {
                let tasks = if *running == 1 { "task of the job is" } else { "tasks of the job are" };
                write!(f, "{running} {tasks} running, and its `max_running` is {most}")
            }
            Reason::JobErrors(errors) => {
                write!(f, "the job's configuration has errors: {}", errors.join("; "))
            }
            Reason::NotAtLevel { node, level } => {
                write!(f, "there is no node `{node}` at the job's level `{level}`")
            }
            Reason::NodeDisabled { node, by_schedule } => {
                let why = if *by_schedule { LIFETIME_OVER } else { "" };
                write!(f, "node `{node}` is disabled{why}")
            }
            Reason::AvoidedByFilter { node, level } => write!(
                f,
                "the job's filter for level `{level}` does not pass `{node}`"
            ),
            Reason::RunningOn(shard) => write!(f, "it is running on `{shard}`"),
            Reason::StandsBy { shard, before } => fmt_standby(f, shard, *before),
            Reason::Done => f.write_str("it is done"),
            Reason::Failed { job, status } => write!(
                f,
                "it has failed for good ({status}); `brasserie job forgive {}` lets it run again",
                shell_word(job.as_str())
            ),
            Reason::WaitsAfterItsLastRun { .. } => self.fmt_wait(f),
            Reason::WaitsForInputs { .. } => self.fmt_locality(f),
            Reason::HeldBackFor { remaining } => {
                let left = format_duration(rounded_up(*remaining));
                write!(f, "hold-back: nothing starts for {left}, as lost workers may still be running unknown tasks")
            }
            Reason::HeldUntilDurable => f.write_str("its last status is not yet stored durably"),
            Reason::WaitsFor { job, node, state } => {
                write!(f, "it waits for job `{job}` on `{node}`, which is {state}")
            }
            Reason::NeverDone { job, node, why } => {
                write!(f, "it depends on job `{job}` on `{node}`, which cannot get done: {why}")
            }
            Reason::OtherNodes => f.write_str(
                "it waits for all of other jobs, and the nodes of the present configuration have not been read yet",
            ),
            Reason::WaitsForAll { job, left, first } => {
                fmt_all(f, job, None, *left, first.as_ref())
            }
            Reason::NeverAllDone { job, why, left, first } => {
                fmt_all(f, job, Some(why), *left, first.as_ref())
            }
            Reason::Short { node, need } => write!(f, "node `{node}` {need}"),
            Reason::AboveLimit { .. } => self.fmt_above_limit(f),
            Reason::NoWorkers => f.write_str(NO_WORKER),
            Reason::NoWorkerNow { .. } => self.fmt_no_worker(f),
            Reason::NoWorkerEver { why } => {
                write!(f, "it can never run on the connected workers: {why}")
            }
            Reason::NoNode { level, nodes } => fmt_no_node(f, level, *nodes),
            Reason::NoCommand => f.write_str(
                "it can never run: the job has no `command`, and no worker was started with --worker-command",
            ),
            Reason::Runnable => f.write_str("nothing is in the way; it is about to start"),
        }
    }
}

fn fmt_standby(f: &mut fmt::Formatter<'_>, shard: &Shard, before: usize) -> fmt::Result {
    write!(
        f,
        "it is on standby, position {}, and starts as soon as slots are free at `{shard}`",
        before + 1
    )
}

impl LateBy {
    fn at_workers(self) -> &'static str {
        match self {
            LateBy::OtherWork => "with so much to do that it would miss its deadline",
            LateBy::ItsOwnLength => {
                "with deadlines of others to keep (it would miss its own anywhere)"
            }
        }
    }
}

impl Reason {
    fn fmt_wait(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason::WaitsAfterItsLastRun {
            wait,
            remaining,
            status,
        } = self
        else {
            return Ok(());
        };
        let remaining = format_duration(rounded_up(*remaining));
        write!(
            f,
            "it may start again in {remaining}, after its {wait} (last status: {status})"
        )
    }

    fn fmt_locality(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason::WaitsForInputs {
            at,
            bytes,
            remaining,
        } = self
        else {
            return Ok(());
        };
        let workers: Vec<String> = at.iter().map(|shard| format!("`{shard}`")).collect();
        let (workers, bytes) = (workers.join(" or "), readable_bytes(*bytes));
        let remaining = format_duration(rounded_up(*remaining));
        write!(
            f,
            "it waits for {workers}, with {bytes} of its inputs and no free slots; in {remaining} at the latest it starts at another worker \
             (`locality_wait`)"
        )
    }

    fn fmt_above_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason::AboveLimit {
            level,
            resource,
            need,
            limit,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "it can never run: it needs {need} of `{resource}`, and nodes of level `{level}` have {limit}"
        )
    }

    fn fmt_no_worker(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason::NoWorkerNow {
            host,
            not_ready,
            draining,
            barred,
            unsuitable,
            short,
            example,
            full,
            fullest,
            not_asked,
            late,
            late_by,
            turned_down,
            no_space,
            not_on_standby,
        } = self
        else {
            return Ok(());
        };
        f.write_str("no worker can take it now")?;
        if let Some(host) = host {
            write!(f, " on its host `{host}`")?;
        }
        let without_space = no_space.as_ref().map_or(0, |lack| lack.workers);
        let mut separator = ": ";
        for (count, what) in [
            (&not_ready.count, "not healthy or busy"),
            (draining, "draining"),
            (&barred.count, "excluded or decommissioned by an operator"),
            (unsuitable, "unsuitable"),
            (short, "without room"),
            (full, "with as many tasks as they can run"),
            (&not_asked.count, "with as much work as they asked for"),
            (late, late_by.at_workers()),
            (turned_down, "without free GPUs for it a moment ago"),
            (&without_space, "without space for its inputs or outputs"),
        ] {
            if *count > 0 {
                write!(f, "{separator}{count} {what}")?;
                separator = ", ";
            }
        }
        if let Some((shard, lack)) = example {
            write!(f, " (worker `{shard}` {lack})")?;
        }
        if let Some((shard, room)) = fullest {
            write!(f, " (worker `{shard}` runs {room})")?;
        }
        if let Some(lack) = no_space {
            fmt_no_space(f, lack)?;
        }
        match not_on_standby {
            Some(why) => write!(f, "; it does not stand by: {why}"),
            None => Ok(()),
        }
    }
}

fn fmt_no_space(f: &mut fmt::Formatter<'_>, lack: &NoSpace) -> fmt::Result {
    let shard = &lack.first;
    match lack.why {
        WhyNoSpace::WasFull => {
            return write!(
                f,
                " (worker `{shard}` had no space for the inputs or outputs of another run of the job, at most 10 minutes ago)"
            );
        }
        WhyNoSpace::NotReported => {
            return write!(
                f,
                " (worker `{shard}` has not reported its disks since it joined; tasks with outputs wait a minute at most for that)"
            );
        }
        WhyNoSpace::TooLittle => write!(
            f,
            " (worker `{shard}`: none of its disks has space for its outputs"
        )?,
    }
    match lack.bytes {
        0 | 1 => f.write_str(")"),
        bytes => write!(f, ", about {})", readable_bytes(bytes)),
    }
}

fn fmt_held(f: &mut fmt::Formatter<'_>, job: &JobName, hold: Hold) -> fmt::Result {
    let resume = resume(job);
    match hold {
        Hold::Paused => write!(f, "the job is paused; {resume} lets it go on"),
        Hold::Cancelled => write!(f, "the job is cancelled; {resume} lets its tasks run again"),
    }
}

/// Returns the command that resumes a held job, in backticks.
pub(crate) fn resume(job: &JobName) -> String {
    format!("`brasserie job resume {}`", shell_word(job.as_str()))
}

/// Writes that a job waits for all of another one, of which `left` tasks are not done, and why they never will be.
fn fmt_all(
    f: &mut fmt::Formatter<'_>,
    job: &JobName,
    why_never: Option<&str>,
    left: u64,
    first: Option<&(NodeName, TaskState)>,
) -> fmt::Result {
    write!(f, "it waits until all of job `{job}` is done")?;
    if let Some(why) = why_never {
        write!(f, ", which cannot be: {why}")?;
    }
    match left {
        0 => return Ok(()),
        1 => f.write_str("; 1 of its tasks is not done")?,
        left => write!(f, "; {left} of its tasks are not done")?,
    }
    match first {
        Some((node, state)) => write!(f, ", the first on `{node}`: {state}"),
        None => Ok(()),
    }
}

fn fmt_no_node(f: &mut fmt::Formatter<'_>, level: &str, nodes: u64) -> fmt::Result {
    match nodes {
        0 => write!(f, "it has no task: there is no node at level `{level}`"),
        nodes => write!(
            f,
            "it has no task: of the {nodes} nodes at level `{level}`, none is enabled and passes its filters"
        ),
    }
}

/// Rounds up to whole seconds, so that a sentence does not count milliseconds.
fn rounded_up(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs() + u64::from(d.subsec_nanos() > 0))
}
