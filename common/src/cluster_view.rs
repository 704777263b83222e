//! The state of a cluster at one moment: the document that `brasserie status --json` and the scheduler's `/status` print.
//!
//! Each field is a key of the document with the same name. `None` is written as `null`; the document always has every key.
//! No scheduling decision reads this document. [`ClusterView::report`] makes the tables and sentences of `brasserie status` and of the
//! scheduler's page.

mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;

use crate::health::Health;
use crate::task::Hold;
use crate::text::{counted, printable, readable_bytes};
use crate::time::readable_duration;

pub use report::{Report, Table};

/// Default number of rows in each table of a report: a few screens.
pub const DEFAULT_ROWS: usize = 100;

/// The reason of a task that waits while no worker is connected.
pub const NO_WORKER: &str = "no worker is connected";

/// The beginning of the reason why a job has no task, in an explanation of the job.
pub const NO_TASK: &str = "it has no task";

/// The state of a healthy worker that accepts no more tasks.
pub const DRAINING: &str = "draining";
/// The state of a healthy worker that an operator has excluded.
pub const EXCLUDED: &str = "excluded";
/// The state of a healthy worker whose data is copied elsewhere, after which it leaves.
pub const DECOMMISSIONING: &str = "decommissioning";
/// The state of a healthy worker that gets nothing any more.
pub const DECOMMISSIONED: &str = "decommissioned";
/// The state of a worker that the scheduler refuses, as its certificate is revoked, until it is lost.
pub const REVOKED: &str = "revoked";

/// The state of one scheduler's cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClusterView {
    /// The scheduler instance, START:RAND.
    pub scheduler: String,
    pub cluster: String,
    /// The time of this document, in milliseconds since the epoch by the scheduler's clock.
    pub wall_time_ms: i64,
    /// The reason why no task may start yet, and the remedy; `None` once the initial wait is over.
    pub initial_wait: Option<String>,
    /// The reason why the initial wait ended.
    pub wait_ended: Option<String>,
    /// False while nodes are loading; the task counts are incomplete until then.
    pub nodes_loaded: bool,
    /// The reasons why no task starts, the initial wait included; empty if tasks may start.
    pub nothing_starts: Vec<String>,
    /// Problems of the cluster as a whole: the config, the node sources, the store.
    pub errors: Vec<String>,
    /// `None` until a configuration is in force.
    pub config: Option<ConfigView>,
    /// Sorted by name. At most 10,000; if the cluster has more, the unhealthy ones are preferred.
    pub workers: Vec<WorkerView>,
    /// Number of all workers, listed or not.
    pub workers_total: u64,
    /// Number of jobs in each state, listed or not. States without jobs are omitted.
    pub jobs_by_state: BTreeMap<String, u64>,
    /// Number of all jobs, listed or not.
    pub jobs_total: u64,
    /// The tasks of all jobs, listed or not.
    pub tasks: TaskCounts,
    /// The listed jobs in the order of the config. A short list has the requested jobs, or else the jobs that need attention most.
    pub jobs: Vec<JobView>,
    /// `jobs` is incomplete. For a page sorted by name: more jobs follow it.
    pub more_jobs: bool,
    /// `None` until the scheduler has measured the store, and from older schedulers.
    pub store: Option<StoreView>,
    /// Counts since the scheduler's start; `None` if no worker has requested work.
    pub work_requests: Option<WorkRequestsView>,
    /// The `add_time` node sources of the nodes in force, at most [`MAX_SCHEDULES`].
    pub schedules: Vec<ScheduleView>,
    /// Operators' orders about workers, connected or not, sorted by worker. At most 10,000.
    pub orders: Vec<OrderView>,
    /// The sums over all workers. `None`: no worker has reported numbers, or an older scheduler answers.
    pub transfers: Option<TransfersView>,
    /// Counts since the scheduler's start. `None`: no task with inputs has started, or an older scheduler answers.
    pub locality: Option<LocalityView>,
    /// Number of calls that were refused because of who made them, since the scheduler's start, by reason: `proof`, `token`, `role`,
    /// `shard`, `instance`, `owner` or `join`.
    pub refused_calls: BTreeMap<String, u64>,
}

/// An operator's order about a worker, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OrderView {
    pub shard: String,
    /// `excluded`, `decommissioning` or `decommissioned`.
    pub state: String,
    /// The reason that the operator gave; empty if none.
    pub reason: String,
    /// The caller that gave the order: the user, if the caller has named one, and the address.
    pub by: String,
    /// The time of the order, in milliseconds since the epoch by the scheduler's clock.
    pub since_ms: i64,
    /// The time at which the worker is ended, whatever is left to do; `None` if none is set.
    pub deadline_ms: Option<i64>,
    /// Whether the worker stays when it is decommissioned.
    pub then_idle: bool,
    /// Whether a worker that is not lost has this name.
    pub connected: bool,
    /// Tasks that run on the worker or may run there.
    pub running: u64,
    /// Artifacts that are needed, and of which no worker that stays has a copy.
    pub only_here: u64,
    /// Their bytes.
    pub only_here_bytes: u64,
    /// The tasks or the copies of workers are not known yet, so the three numbers may be too small.
    pub unknown: bool,
    /// Whether the worker is decommissioned and has not exited yet.
    pub exits: bool,
    /// Why nobody copies some of what is only there; `None` if nothing is left, or if it is being copied.
    pub copies_wait_for: Option<String>,
    /// Artifacts that were only there when the deadline ended the worker.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// The deadline ended a worker that was away, or whose copies were not known, so the two numbers are 0.
    pub loss_unknown: bool,
}

impl OrderView {
    /// Returns whether nothing is left to do for a decommission.
    pub fn is_over(&self) -> bool {
        self.state == DECOMMISSIONED && !self.exits
    }

    /// Formats the order as the rest of a sentence that begins with the worker's name. `wall_time_ms` is the present time.
    pub fn clause(&self, wall_time_ms: i64) -> String {
        let mut text = match self.state.as_str() {
            DECOMMISSIONING => {
                let deadline = self.deadline_clause(wall_time_ms);
                format!("is being decommissioned: {}{deadline}", self.left())
            }
            DECOMMISSIONED if self.exits => "is decommissioned, and exits".to_owned(),
            DECOMMISSIONED if self.connected => {
                "is decommissioned: it stays idle until `brasserie worker recommission`".to_owned()
            }
            DECOMMISSIONED => "is decommissioned, and not connected".to_owned(),
            state => format!("is {}: it gets no tasks", printable(state)),
        };
        let ago = readable_duration(millis(wall_time_ms.saturating_sub(self.since_ms)));
        let reason = match self.reason.as_str() {
            "" => String::new(),
            reason => format!(": {}", printable(reason)),
        };
        text.push_str(&format!(" (by {}, {ago} ago{reason})", printable(&self.by)));
        text
    }

    /// Formats what a decommission waits for, as in `2 tasks run, 14 outputs (1.2 GiB) are only there`.
    pub fn left(&self) -> String {
        let verb = |count: u64, one: &str, many: &str| match count {
            1 => one.to_owned(),
            _ => many.to_owned(),
        };
        match (self.connected, self.unknown) {
            (true, _) if self.exits => "it exits".to_owned(),
            (false, _) => "the worker is not connected".to_owned(),
            (true, true) => "its tasks and data are not known yet".to_owned(),
            (true, false) => format!(
                "{} {}, {} ({}) {} only there{}",
                counted(self.running, "task"),
                verb(self.running, "runs", "run"),
                counted(self.only_here, "output"),
                readable_bytes(self.only_here_bytes),
                verb(self.only_here, "is", "are"),
                self.copies_wait_for
                    .as_deref()
                    .map_or_else(String::new, |why| format!(": {}", printable(why))),
            ),
        }
    }

    fn deadline_clause(&self, wall_time_ms: i64) -> String {
        let deadline = self.deadline_ms.map(|at| {
            let left = at.saturating_sub(wall_time_ms);
            match left {
                0.. => format!("; deadline in {}", readable_duration(millis(left))),
                _ => "; the deadline is over".to_owned(),
            }
        });
        deadline.unwrap_or_default()
    }
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Limit for the listed `add_time` node sources.
pub const MAX_SCHEDULES: usize = 100;

/// One `add_time` node source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleView {
    /// Number of the source in `node_sources`, from 1.
    pub source: u64,
    /// The level of its nodes.
    pub level: String,
    /// The next time of its schedule, in milliseconds since the epoch; `None` if no time comes any more.
    pub next_ms: Option<i64>,
    /// The next time with weekday, offset and zone, as in `Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)`.
    pub next: Option<String>,
}

impl ScheduleView {
    /// Formats the next time as a clause that begins with `node source`. `wall_time_ms` is the present time.
    pub fn clause(&self, wall_time_ms: i64) -> String {
        let source = format!("node source {}", self.source);
        let level = printable(&self.level);
        let (Some(at), Some(next)) = (self.next_ms, &self.next) else {
            return format!(
                "{source} gives no more nodes of level `{level}`: its schedule has no later time"
            );
        };
        match at.saturating_sub(wall_time_ms) {
            left @ 0.. => format!(
                "{source} gives the next nodes of level `{level}` on {next}, in {}",
                readable_duration(millis(left))
            ),
            late => format!(
                "{source} was due to give nodes of level `{level}` on {next}, {} ago",
                readable_duration(millis(late.saturating_neg()))
            ),
        }
    }
}

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConfigView {
    /// `None` if the configuration comes from no file.
    pub path: Option<String>,
    /// The file is unusable now, so the text that an earlier scheduler stored is in force.
    pub kept: bool,
    /// The time at which this text came into force, in milliseconds since the epoch by the scheduler's clock.
    pub since_ms: i64,
}

/// The size of the scheduler's store.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StoreView {
    /// Bytes of the database file and its log.
    pub bytes: u64,
    /// Bytes of `bytes` that the database reuses before its file grows.
    pub free_bytes: u64,
    /// Stored completions, of tasks that exist and of others.
    pub completions: u64,
    /// Completions of nodes or jobs that do not exist.
    pub missing_completions: u64,
    /// Free bytes of the file system that holds the store.
    pub disk_free_bytes: u64,
    /// Growth of `bytes` in the last `growth_s` seconds (at most a day); `None` in the first hour.
    pub growth_bytes: Option<i64>,
    pub growth_s: Option<i64>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerView {
    pub shard: String,
    pub hostname: String,
    /// HOST:PORT
    pub address: String,
    /// The worker instance, START:RAND.
    pub instance: String,
    /// `joining`, `healthy`, `draining` (healthy, and accepts no more tasks), `unhealthy`, `revoked` or `lost`. A healthy worker with an order has
    /// the state of the order: `excluded`, `decommissioning` or `decommissioned`.
    pub state: String,
    /// Tasks that run on the worker, including `unsure` and `standby`.
    pub running: u64,
    /// Tasks of `running` that may have completed without the scheduler's knowledge.
    pub unsure: u64,
    /// Tasks of `running` that are at the worker, and begin as soon as slots are free there.
    pub standby: u64,
    /// `None` before the first heartbeat of this association.
    pub since_heartbeat_ms: Option<i64>,
    /// Time since the last heartbeat of a healthy worker that has missed heartbeats or could not be reached; else `None`.
    pub silent_for_ms: Option<i64>,
    /// The reason why the worker gets no tasks yet, as the rest of a sentence that begins with "waits".
    pub waits_for: Option<String>,
    /// Time until the worker is lost unless it becomes healthy; `None` if no loss is due.
    pub lost_in_ms: Option<i64>,
    /// Problems that need an operator, each a sentence without its subject. A failure stays in the list for an hour after it is over.
    pub problems: Vec<String>,
    /// Other remarks, each as the rest of a sentence that begins with the worker's name.
    pub notes: Vec<String>,
    /// The worker's own description of how it contains its tasks, and why.
    pub containment: Option<String>,
    /// Number of associations that began again because the worker had obeyed another scheduler.
    pub begun_anew: u64,
    /// Number of take-backs to which the worker has agreed since the scheduler started.
    pub taken_back: u64,
    /// The unfilled part of its work request; `None` for a worker that requests no work and gets tasks by its slots.
    pub asked: Option<AskedView>,
    /// One entry for each resource of the worker level, in the order of the config. Empty without a configuration, if the slots of all
    /// listed workers exceed the size of an answer, and from older schedulers.
    pub slots: Vec<SlotsView>,
    /// The disks of its store of artifacts, as it last reported them. Empty without a report, and from older schedulers.
    pub disks: Vec<DiskView>,
    /// Counts since its start. `None`: it has reported no numbers, or an older scheduler answers.
    pub transfers: Option<TransfersView>,
    /// Artifacts that are needed, and of which no other worker that stays has a copy; 0 if that is not known.
    pub only_here: u64,
    /// Their bytes.
    pub only_here_bytes: u64,
}

/// The transfers that have brought artifacts to a worker, or to several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransfersView {
    pub done: u64,
    pub bytes: u64,
    /// Answers of "busy" to their calls.
    pub busy: u64,
    /// Those that ended with a failed call.
    pub failed: u64,
}

/// The starts of tasks with inputs: those at a worker with at least half of the bytes, and the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalityView {
    pub hits: u64,
    pub misses: u64,
}

/// A disk of a worker's store of artifacts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskView {
    /// `ssd` or `hdd`.
    pub medium: String,
    /// `healthy`, `read error`, `io hang` or `high usage`.
    pub state: String,
    pub total_bytes: u64,
    /// Bytes of further artifacts that fit.
    pub usable_bytes: u64,
    pub artifacts: u64,
    /// Why it is not healthy, in the worker's words.
    pub problem: Option<String>,
}

/// The slots of one resource of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlotsView {
    pub resource: String,
    /// Slots that tasks hold. It exceeds `limit` after the limit was lowered, or if the worker queues tasks.
    pub in_use: i64,
    /// `None`: without limit.
    pub limit: Option<i64>,
}

/// The unfilled part of a worker's newest work request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AskedView {
    pub seq: i64,
    /// Time since the request arrived.
    pub ago_ms: i64,
    /// Time until the request expires; `None` if it has expired.
    pub left_ms: Option<i64>,
    pub of_types: Vec<AskedOfTypeView>,
    /// The whole request as the rest of a sentence that begins with the worker's name.
    pub text: String,
}

/// The unfilled part of a work request for one processor type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AskedOfTypeView {
    pub processor: String,
    pub instances: f64,
    /// Instance-seconds of run time.
    pub instance_s: f64,
    /// Idle instances.
    pub idle: f64,
    /// Tasks sent for this request.
    pub sent: u64,
    /// Ready tasks that need this processor type.
    pub ready: u64,
    /// Tasks of `ready` that would miss their deadlines on this worker.
    pub late: u64,
}

/// Counts of work requests by outcome. A request counts in `looked_at` or in one of the next four fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkRequestsView {
    pub heard: u64,
    pub looked_at: u64,
    /// Requests that arrived a second time.
    pub repeated: u64,
    /// Requests of workers that may not get tasks.
    pub not_ready: u64,
    /// Requests before the worker's minimum interval had passed.
    pub too_soon: u64,
    /// Requests beyond the scheduler's limit for one interval.
    pub too_many: u64,
    /// Runs that a worker had accepted and did not list in its request.
    pub missing_runs: u64,
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobView {
    pub name: String,
    pub state: JobState,
    /// The job's tasks may start: the job is neither disabled nor paused nor broken.
    pub enabled: bool,
    /// An operator has paused or cancelled the job.
    pub paused: bool,
    /// An operator has cancelled the job: no task starts, and running tasks are killed.
    pub cancelled: bool,
    /// `None` for a job of the config file.
    pub version: Option<i64>,
    /// The submitter who owns the job; `None` if only operators and administrators change it.
    pub owned_by: Option<String>,
    /// Every task is done, has failed or can never run, and its completion is on disk.
    pub settled: bool,
    #[serde(flatten)]
    pub tasks: TaskCounts,
    /// Time until the first task in backoff may run again.
    pub next_backoff_end_in_ms: Option<i64>,
    /// Time from the first start to the last completion, or to now while a task runs.
    pub elapsed_ms: Option<i64>,
    /// Estimated run time of one task, in seconds; `None` from older schedulers.
    pub estimate_s: Option<f64>,
    /// The source of the estimate: `given`, `learned` or `default`.
    pub estimate_is: Option<String>,
    /// Mistakes in the job's configuration.
    pub errors: Vec<String>,
}

/// How many tasks are in which state. Each counts in one of the fields from `unstarted` to `never`, and `total` is their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskCounts {
    pub total: u64,
    /// Not running, and without a completion.
    pub unstarted: u64,
    pub running: u64,
    pub done: u64,
    /// The last run requested another one.
    pub incomplete: u64,
    /// The last run ended in an error, and its backoff is over.
    pub error: u64,
    /// Waits after the last run: for the job's backoff, or for the safety wait if the worker was lost.
    pub in_backoff: u64,
    pub failed: u64,
    /// Tasks that can never run with the present configuration and workers; `brasserie explain` says why.
    pub never: u64,
    /// Tasks in `unstarted`, `incomplete` and `error` that cannot start because their job is broken, cancelled, paused or disabled.
    pub held: u64,
}

impl TaskCounts {
    /// Returns the number of queued tasks, which start as soon as resources are free.
    pub fn waiting(&self) -> u64 {
        let ready = self.unstarted + self.incomplete + self.error;
        ready.saturating_sub(self.held)
    }

    /// Formats the counts, as in `30 tasks: 4 running, 26 done`.
    pub fn clause(&self) -> String {
        let kinds = [
            ("running", self.running),
            ("waiting", self.waiting()),
            ("held", self.held),
            ("in backoff", self.in_backoff),
            ("done", self.done),
            ("failed", self.failed),
            ("can never run", self.never),
        ];
        with_kinds(self.total, "task", kinds)
    }

    /// Adds `other` field by field.
    pub fn add(&mut self, other: &TaskCounts) {
        self.total += other.total;
        self.unstarted += other.unstarted;
        self.running += other.running;
        self.done += other.done;
        self.incomplete += other.incomplete;
        self.error += other.error;
        self.in_backoff += other.in_backoff;
        self.failed += other.failed;
        self.never += other.never;
        self.held += other.held;
    }
}

/// Formats a number and its parts, as in `3 jobs: 1 running, 2 done`. Parts of 0 are left out.
fn with_kinds<T: Display>(
    total: u64,
    noun: &str,
    kinds: impl IntoIterator<Item = (T, u64)>,
) -> String {
    let kinds = kinds.into_iter().filter(|(_, count)| *count > 0);
    let texts: Vec<String> = kinds
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let separator = if texts.is_empty() { "" } else { ": " };
    format!("{}{separator}{}", counted(total, noun), texts.join(", "))
}

/// A job's state in one word. If several variants apply, the first one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job's configuration has errors.
    Broken,
    Cancelled,
    Paused,
    Disabled,
    /// The nodes are not loaded yet, so the job's tasks are unknown.
    LoadingNodes,
    Running,
    /// No task runs; some start as soon as resources are free.
    Waiting,
    /// No task runs; some wait until their backoff is over.
    InBackoff,
    /// No task runs or waits; some have failed.
    Failed,
    /// No task runs or waits; some can never run.
    Never,
    Done,
    #[default]
    NoTasks,
}

impl JobState {
    /// Returns the state's name in the document.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Broken => "broken",
            JobState::Cancelled => "cancelled",
            JobState::Paused => "paused",
            JobState::Disabled => "disabled",
            JobState::LoadingNodes => "loading_nodes",
            JobState::Running => "running",
            JobState::Waiting => "waiting",
            JobState::InBackoff => "in_backoff",
            JobState::Failed => "failed",
            JobState::Never => "never",
            JobState::Done => "done",
            JobState::NoTasks => "no_tasks",
        }
    }
}

/// The facts that decide the state of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    pub is_broken: bool,
    pub hold: Option<Hold>,
    pub is_enabled: bool,
    pub nodes_loaded: bool,
    pub tasks: TaskCounts,
}

impl JobFacts {
    /// Returns the first state that applies.
    pub fn state(&self) -> JobState {
        let tasks = &self.tasks;
        let states = [
            (self.is_broken, JobState::Broken),
            (self.hold == Some(Hold::Cancelled), JobState::Cancelled),
            (self.hold == Some(Hold::Paused), JobState::Paused),
            (!self.is_enabled, JobState::Disabled),
            (!self.nodes_loaded, JobState::LoadingNodes),
            (tasks.running > 0, JobState::Running),
            (tasks.waiting() > 0, JobState::Waiting),
            (tasks.in_backoff > 0, JobState::InBackoff),
            (tasks.failed > 0, JobState::Failed),
            (tasks.never > 0, JobState::Never),
            (tasks.done > 0, JobState::Done),
        ];
        let first = states.into_iter().find(|(fits, _)| *fits);
        first.map_or(JobState::NoTasks, |(_, state)| state)
    }

    /// Returns the counts of its tasks, with those that the job's state holds.
    pub fn counts(&self) -> TaskCounts {
        let held = match self.state() {
            JobState::Broken | JobState::Cancelled | JobState::Paused | JobState::Disabled => {
                self.tasks.waiting()
            }
            JobState::LoadingNodes
            | JobState::Running
            | JobState::Waiting
            | JobState::InBackoff
            | JobState::Failed
            | JobState::Never
            | JobState::Done
            | JobState::NoTasks => 0,
        };
        TaskCounts { held, ..self.tasks }
    }

    /// Returns the rank for [`most_urgent`].
    pub fn urgency(&self) -> Urgency {
        let needs_a_person = self.tasks.failed > 0 || self.tasks.never > 0;
        match self.state() {
            JobState::Broken => Urgency::NeedsAPerson,
            JobState::Cancelled | JobState::Paused | JobState::Disabled => Urgency::Held,
            _ if needs_a_person => Urgency::NeedsAPerson,
            JobState::Running => Urgency::Running,
            JobState::LoadingNodes
            | JobState::Waiting
            | JobState::InBackoff
            | JobState::Failed
            | JobState::Never => Urgency::Waiting,
            JobState::Done | JobState::NoTasks => Urgency::Over,
        }
    }
}

/// The rank of an entry when a list has to be shortened; earlier variants are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    NeedsAPerson,
    Running,
    Waiting,
    Held,
    Over,
}

/// Returns the ascending indexes of the `limit` most urgent entries. Among equally urgent entries the first ones win.
pub fn most_urgent(entries: impl Iterator<Item = Urgency>, limit: usize) -> Vec<usize> {
    let mut places: Vec<(Urgency, usize)> = entries.zip(0..).collect();
    if limit < places.len() {
        places.select_nth_unstable(limit);
        places.truncate(limit);
    }
    let mut places: Vec<usize> = places.into_iter().map(|(_, place)| place).collect();
    places.sort_unstable();
    places
}

impl JobView {
    pub fn urgency(&self) -> Urgency {
        let facts = JobFacts {
            is_broken: !self.errors.is_empty(),
            hold: self.paused.then_some(Hold::Paused),
            is_enabled: self.enabled,
            nodes_loaded: self.state != JobState::LoadingNodes,
            tasks: self.tasks,
        };
        facts.urgency()
    }
}

impl WorkerView {
    pub fn is_healthy(&self) -> bool {
        let of_healthy = [DRAINING, EXCLUDED, DECOMMISSIONING, DECOMMISSIONED];
        self.state == Health::Healthy.word() || of_healthy.contains(&self.state.as_str())
    }

    pub fn urgency(&self) -> Urgency {
        match self.is_healthy() && self.problems.is_empty() {
            true => Urgency::Running,
            false => Urgency::NeedsAPerson,
        }
    }
}

impl ClusterView {
    /// Keeps the `limit` most urgent jobs and sets `more_jobs` if others are dropped.
    pub fn keep_jobs(&mut self, limit: usize) {
        if self.jobs.len() <= limit {
            return;
        }
        let kept = most_urgent(self.jobs.iter().map(JobView::urgency), limit);
        let mut jobs = std::mem::take(&mut self.jobs);
        let kept = kept
            .into_iter()
            .map(|place| std::mem::take(&mut jobs[place]));
        self.jobs = kept.collect();
        self.more_jobs = true;
    }
}
