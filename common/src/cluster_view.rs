//! A cluster at one moment, for people and programs: the document that `brasserie status --json` and the scheduler's `/status` print.
//!
//! Nothing is decided by it. Each field is one key of the document, by the same name; a `None` is `null`, and no key is ever left out.
//! The tables and sentences of `brasserie status` and of the scheduler's page come from [`ClusterView::report`].

mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::task::Hold;

pub use report::{Report, Table};

/// Rows of each table that people are shown unless they ask for more: a few screens.
pub const DEFAULT_ROWS: usize = 100;

/// Everything that a scheduler shows of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClusterView {
    /// The scheduler instance, START:RAND.
    pub scheduler: String,
    pub cluster: String,
    /// The moment, in milliseconds since the epoch by the scheduler's clock.
    pub wall_time_ms: i64,
    /// Why no task may start yet, and what to do; `None` once the initial wait is over.
    pub initial_wait: Option<String>,
    /// Why the initial wait ended.
    pub wait_ended: Option<String>,
    /// False: nodes are loading, and the counts of tasks mean nothing yet.
    pub nodes_loaded: bool,
    /// Why no task starts at all, the initial wait included; empty: tasks may start.
    pub nothing_starts: Vec<String>,
    /// Problems of the cluster as a whole: the config, the node sources, the store.
    pub errors: Vec<String>,
    /// `None`: there is no configuration yet.
    pub config: Option<ConfigView>,
    /// By name; if there are more than 10,000, those that are not healthy first.
    pub workers: Vec<WorkerView>,
    /// How many workers there are, listed or not.
    pub workers_total: u64,
    /// How many jobs there are in each state, listed or not. States without jobs are left out.
    pub jobs_by_state: BTreeMap<String, u64>,
    /// How many jobs there are, listed or not.
    pub jobs_total: u64,
    /// The tasks of all jobs, listed or not.
    pub tasks: TaskCounts,
    /// In the order of the config; if not all are listed, those that need attention first, or those that were asked for.
    pub jobs: Vec<JobView>,
    /// `jobs` does not list all; of a page in the order of names, there are more after it.
    pub more_jobs: bool,
    /// `None`: its size is not known yet, or an older scheduler answers.
    pub store: Option<StoreView>,
    /// Requests for work since the scheduler's start; `None`: no worker has sent one.
    pub work_requests: Option<WorkRequestsView>,
}

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConfigView {
    /// `None`: it comes from no file.
    pub path: Option<String>,
    /// An earlier scheduler kept this text, and the file cannot be used now.
    pub kept: bool,
    /// When this text first came in force, in milliseconds since the epoch by the scheduler's clock.
    pub since_ms: i64,
}

/// The store of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StoreView {
    /// Bytes of the database file and its log.
    pub bytes: u64,
    /// Bytes of these that are free for what comes next.
    pub free_bytes: u64,
    /// Tasks with a completion, whether or not they still exist.
    pub completions: u64,
    /// Completions of nodes or jobs that do not exist.
    pub missing_completions: u64,
    /// Free bytes of the file system that holds the store.
    pub disk_free_bytes: u64,
    /// By how much the store has grown in the last `growth_s` seconds, a day at most; `None`: not known in the first hour.
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
    /// `joining`, `healthy`, `unhealthy` or `lost`.
    pub state: String,
    /// Tasks that run there, `unsure` ones included.
    pub running: u64,
    /// Tasks of `running` that may have ended without the scheduler's knowledge.
    pub unsure: u64,
    /// `None`: no heartbeat has come in this association.
    pub since_heartbeat_ms: Option<i64>,
    /// The reason why it gets no tasks yet, as the rest of a sentence that begins with "waits".
    pub waits_for: Option<String>,
    /// It is lost after this time unless it becomes healthy; `None`: nothing counts towards its loss.
    pub lost_in_ms: Option<i64>,
    /// Problems that an operator must act upon, each a sentence without its subject. Failures stay for an hour after they are over.
    pub problems: Vec<String>,
    /// Other remarks, each as the rest of a sentence that begins with the worker's name.
    pub notes: Vec<String>,
    /// How the worker contains its tasks, and why, in its own words.
    pub containment: Option<String>,
    /// How often it was associated anew because it obeyed another scheduler in between.
    pub begun_anew: u64,
    /// `None`: it asks for no work, and gets what it has slots for.
    pub asked: Option<AskedView>,
}

/// The rest of a worker's newest request for work.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AskedView {
    pub seq: i64,
    /// Since it came.
    pub ago_ms: i64,
    /// How long it is still good; `None`: it is over.
    pub left_ms: Option<i64>,
    pub of_types: Vec<AskedOfTypeView>,
    /// All of this as the rest of a sentence that begins with the worker's name.
    pub text: String,
}

/// The rest of it for one type of processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AskedOfTypeView {
    pub processor: String,
    pub instances: f64,
    /// Instance-seconds of run time.
    pub instance_s: f64,
    /// Idle instances.
    pub idle: f64,
    /// Tasks that were sent for it.
    pub sent: u64,
    /// Tasks for such processors that are ready.
    pub ready: u64,
    /// Tasks of `ready` that would be late there.
    pub late: u64,
}

/// Counts of the workers' requests for work, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkRequestsView {
    pub heard: u64,
    pub looked_at: u64,
    /// These four were not looked at: repeats, those of workers that may get nothing, those that came too soon, and those that came
    /// when too many did.
    pub repeated: u64,
    pub not_ready: u64,
    pub too_soon: u64,
    pub too_many: u64,
    /// Runs that their workers had taken and the requests did not list.
    pub missing_runs: u64,
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobView {
    pub name: String,
    /// See [`JobState`].
    pub state: JobState,
    /// Its tasks may start: it is neither disabled nor paused nor broken.
    pub enabled: bool,
    /// An operator holds it.
    pub paused: bool,
    /// An operator has cancelled it: it is paused, and its running tasks are ended.
    pub cancelled: bool,
    /// `None`: it comes from the config file.
    pub version: Option<i64>,
    /// Every task is done, has failed or can never run, and that is on disk.
    pub settled: bool,
    #[serde(flatten)]
    pub tasks: TaskCounts,
    /// Until the first task in backoff may run again.
    pub next_backoff_end_in_ms: Option<i64>,
    /// From the first start to the last end, or until now while something runs.
    pub elapsed_ms: Option<i64>,
    /// Seconds that one of its tasks is expected to run; `None`: an older scheduler does not say.
    pub estimate_s: Option<f64>,
    /// Where the estimate comes from: `given`, `learned` or `default`.
    pub estimate_is: Option<String>,
    /// Mistakes of its configuration.
    pub errors: Vec<String>,
}

/// How many tasks are in which state. Each counts in one of the fields from `unstarted` to `never`, and `total` is their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskCounts {
    pub total: u64,
    /// Never ended yet.
    pub unstarted: u64,
    pub running: u64,
    pub done: u64,
    /// The last run asked for another one.
    pub incomplete: u64,
    /// The last run ended in an error, and its backoff is over.
    pub error: u64,
    pub in_backoff: u64,
    pub failed: u64,
    /// Can never run as things are; `brasserie explain` says why.
    pub never: u64,
    /// Tasks in `unstarted`, `incomplete` and `error` that cannot start because their job is broken, cancelled, paused or disabled.
    pub held: u64,
}

impl TaskCounts {
    /// Tasks that may start as soon as there is room for them.
    pub fn waiting(&self) -> u64 {
        let ready = self.unstarted + self.incomplete + self.error;
        ready.saturating_sub(self.held)
    }

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

/// A job's state in one word; of several that fit, the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Its configuration has errors.
    Broken,
    Cancelled,
    Paused,
    Disabled,
    /// The nodes are not loaded yet, so that its tasks are unknown.
    LoadingNodes,
    Running,
    /// Nothing runs, and some tasks may start as soon as there is room for them.
    Waiting,
    /// Nothing runs, and some tasks wait for the end of their backoff.
    InBackoff,
    /// All is over, and some tasks have failed.
    Failed,
    /// All is over, and some tasks can never run.
    Never,
    Done,
    #[default]
    NoTasks,
}

impl JobState {
    /// The word in the document.
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

    /// For [`most_urgent`].
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

/// Which entries a list keeps that cannot have all: the first of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    NeedsAPerson,
    Running,
    Waiting,
    Held,
    Over,
}

/// The places of at most `limit` entries, the most urgent and among those the first, in the order of the list.
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
        self.state == "healthy"
    }

    pub fn urgency(&self) -> Urgency {
        match self.is_healthy() && self.problems.is_empty() {
            true => Urgency::Running,
            false => Urgency::NeedsAPerson,
        }
    }
}

impl ClusterView {
    /// Keeps the most urgent jobs.
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
