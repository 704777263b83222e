//! Queries and their answers. They do not change the scheduler. The scheduler itself starts tasks only while `why_nothing_starts` is empty.

mod jobs;
pub mod listing;
mod no_tasks;
pub mod nothing_starts;
mod orphans;
pub mod outputs;
mod problems;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::{ArtifactCounters, DiskCondition, DiskReport};
use brasserie_common::cluster_view::{
    MAX_SCHEDULES, ScheduleView, SlotsView, Urgency, most_urgent,
};
use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::time::format_duration;
use brasserie_common::worker::Intake;
use brasserie_common::{
    ArtifactId, Estimate, Health, InvocationId, JobId, JobName, NodeName, SchedulerId,
    ServiceAddress, Shard, TaskKey, Time, WallTime, WorkerId,
};
use brasserie_common_config::{Config, nearest};
use brasserie_scheduler_artifacts::ArtifactAmount;
use brasserie_scheduler_engine::{Engine, LateBy, Reason, Task, TaskState};
use listing::TaskPage;
use outputs::{ListedSet, OutputPage};

use super::event::Query;
use super::files::FilePage;
use super::plan::{ProposedInputs, WhatIf};
use super::{Scheduler, View, task_key};
use crate::artifacts::LocalityCounts;
use crate::credits::RequestView;
use crate::jobs::ConfigInForce;
use crate::orders::{OrderStage, OrderStatus};
use crate::pool::remote::Remote;
use crate::pool::status::Condition;
use crate::record::ClusterId;
use crate::store_size::StoreStatus;
use crate::times::schedules;
use crate::work_requests::WorkCounts;

pub use jobs::{JobStatus, JobTotals, MAX_LISTED_JOBS};

/// The most tasks that are searched for one that waits: a fraction of a millisecond.
const MAX_SEARCHED: usize = 10_000;
/// The most jobs on which a job depends that an explanation names.
const MAX_DEPENDENCIES: usize = 10;
/// The most tasks that one answer lists: a page for people, and far below a frame.
const MAX_LISTED: usize = 1000;
/// The most names that a misspelt name is compared with. A comparison takes up to ten microseconds, and heartbeats wait meanwhile.
const MAX_COMPARED: usize = 500;

/// The most workers that one answer lists: a few MiB, and more than a scheduler serves.
const MAX_LISTED_WORKERS: usize = 10_000;

/// The most bytes of all listed workers' slots in one answer. The answer without them may have 15 of the 16 MiB of a frame. The limit
/// suffices for 30 resources of a thousand workers.
const MAX_SLOTS_BYTES: usize = 1024 * 1024;
/// Bytes of one resource of a worker on the wire, without its name.
const SLOTS_BYTES: usize = 30;

/// An answer. `Unknown` names the object that does not exist or is not known yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Status(Box<ClusterStatus>),
    Jobs(Vec<JobStatus>, WallTime),
    NothingStarts(Vec<String>),
    Config(Option<Arc<Config>>),
    Histograms(Histograms),
    Explain(Vec<String>),
    RunningTasks(Vec<RunningTaskView>),
    Unfinished(Vec<EndedTaskView>),
    JobStatus(Box<JobStatus>, WallTime),
    Tasks(TaskPage),
    Outputs(OutputPage),
    /// The sets of outputs, and the number of further ones.
    OutputSets(Vec<ListedSet>, usize),
    Files(FilePage),
    /// The artifacts that running tasks read.
    FileReaders(BTreeSet<ArtifactId>),
    LogPeers(LogPeers),
    WhatIf(Box<WhatIf>),
    InputsForPlan(ProposedInputs),
    Unknown(String),
}

/// The histograms of the requested jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Histograms {
    /// False while nodes are loading: every histogram is empty then.
    pub nodes_loaded: bool,
    pub jobs: Vec<JobHistogram>,
}

/// One job's histogram: for each level, the counts and sample names by status bits.
pub type JobHistogram = (JobName, Vec<LevelHistogram>);
/// The histogram of one level.
pub type LevelHistogram = (String, Vec<(StatusBits, u64, Vec<NodeName>)>);

/// The state of the whole cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStatus {
    pub scheduler: SchedulerId,
    pub cluster: ClusterId,
    pub wall: WallTime,
    /// Why no task starts yet, and what an operator can do; `None` once the initial wait is over.
    pub initial_wait: Option<String>,
    /// Why the initial wait ended.
    pub wait_ended: Option<String>,
    pub job_totals: JobTotals,
    /// The most urgent jobs, at most [`MAX_LISTED_JOBS`], in the order of the configuration.
    pub jobs: Vec<JobStatus>,
    pub workers_total: usize,
    pub workers: Vec<WorkerStatus>,
    /// Problems for the operator: config errors, failures of node sources, failures of the store.
    pub errors: Vec<String>,
    /// Why no task starts; empty when tasks may start.
    pub nothing_starts: Vec<String>,
    /// Whether the nodes are loaded, so that the counts are meaningful.
    pub nodes_loaded: bool,
    /// `None`: there is no configuration yet.
    pub config: Option<ConfigInForce>,
    pub work: WorkCounts,
    /// `None` until the shell has measured the store.
    pub store: Option<StoreStatus>,
    /// The first [`MAX_SCHEDULES`] schedules.
    pub schedules: Vec<ScheduleView>,
    /// Why the last refresh of the nodes failed; `None` if it has not.
    pub nodes_error: Option<String>,
    /// Operators' orders about workers, also about those that are not connected.
    pub orders: Vec<OrderStatus>,
    /// The sums of the workers' counters; `None` if no worker has reported any.
    pub counters: Option<ArtifactCounters>,
    pub locality: LocalityCounts,
    /// See [`ShellReport::refused_calls`](super::event::ShellReport::refused_calls).
    pub refused_calls: BTreeMap<String, u64>,
}

/// The status of one worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    pub shard: Shard,
    pub hostname: Arc<str>,
    pub address: ServiceAddress,
    pub id: WorkerId,
    pub health: Health,
    /// Whether the worker drains: it accepts no more tasks, and exits after its running tasks.
    pub drains: bool,
    /// The stage of the operator's order about it.
    pub order: Option<OrderStage>,
    pub running: usize,
    pub unsure: usize,
    /// Tasks of `running` that are at the worker, and begin as soon as slots are free there.
    pub standby: usize,
    /// How often its association was begun again because the worker obeyed another scheduler.
    pub begun_anew: u32,
    /// The number of take-backs to which it has agreed.
    pub taken_back: u64,
    pub since_heartbeat: Option<Duration>,
    /// The time since the last heartbeat of a HEALTHY worker that has missed heartbeats or could not be reached.
    pub silent_for: Option<Duration>,
    /// The condition that the worker must meet before it gets tasks.
    pub waits_for: Option<String>,
    /// The time until the worker is lost without new evidence of its health.
    pub lost_in: Option<Duration>,
    /// Problems that need an operator.
    pub problems: Vec<String>,
    /// Remarks on the worker.
    pub notes: Vec<String>,
    /// The work request of a pull worker. `None`: the worker requests nothing, and gets tasks while it has free slots.
    pub asked: Option<RequestView>,
    /// How the worker contains its tasks, and why, in the worker's words.
    pub containment: Option<Arc<str>>,
    /// Empty if all workers have more than [`MAX_SLOTS_BYTES`].
    pub slots: Vec<SlotsView>,
    /// The needed artifacts of which no other worker that stays has a copy; none if that is not known.
    pub only_here: ArtifactAmount,
    /// The disks of its store of artifacts, as it last reported them.
    pub disks: Vec<DiskReport>,
    /// The counters of its store, since its start.
    pub counters: Option<ArtifactCounters>,
}

/// One running task.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningTaskView {
    pub task: TaskKey,
    pub shard: Shard,
    pub invocation: InvocationId,
    pub running_for: Duration,
    pub unsure: bool,
}

/// A task that cannot run, or whose last completion is not DONE.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedTaskView {
    pub task: TaskKey,
    pub status: Option<StoredStatus>,
    /// Why the task does not run.
    pub reasons: Vec<String>,
}

/// The workers whose logs can be read, and those whose logs cannot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogPeers {
    pub ask: Vec<(Shard, ServiceAddress)>,
    /// Unhealthy workers and their host names.
    pub unhealthy: Vec<(Shard, Arc<str>)>,
    pub lost: Vec<LostLogs>,
}

/// The place of a lost worker's logs.
#[derive(Clone, Debug, PartialEq)]
pub struct LostLogs {
    pub shard: Shard,
    pub hostname: Arc<str>,
    /// An absolute path on that host; `None`: the worker did not report it.
    pub folder: Option<Arc<str>>,
    /// An operator has taken the worker out of service.
    pub is_decommissioned: bool,
}

/// Returns a sentence that nothing has this name, with the nearest of the first names.
fn not_called(what: &str, name: &str, names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.take(MAX_COMPARED).collect();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("no {what} is called `{name}`; did you mean `{meant}`?"),
        None => format!("no {what} is called `{name}`"),
    }
}

/// Returns a sentence that no job has this name.
pub(super) fn unknown_job(engine: &Engine, job: &str) -> String {
    let jobs = engine.jobs().filter(|id| engine.job_config(*id).is_some());
    let names = jobs.map(|id| engine.job_name(id).to_string());
    not_called("job", job, names)
}

/// Returns whether [`View::why_nothing_starts`] has this reason too, with its cause.
fn is_of_everything(reason: &Reason) -> bool {
    matches!(reason, Reason::NoConfig | Reason::NoNodes)
}

/// Returns whether the reason is a wait of a task that has not run: another reason says what it waits for.
fn is_of_no_run(reason: &Reason) -> bool {
    matches!(reason, Reason::WaitsAfterItsLastRun { status, .. } if status == "none")
}

/// Returns why a disk of a store gets no artifacts, if it gets none. Disks are numbered as the worker's flags `--disk` are.
fn disk_problem((disk, number): (&DiskReport, usize)) -> Option<String> {
    let what = match disk.condition {
        DiskCondition::Healthy => return None,
        DiskCondition::ReadError => "has failed a read or a write: check the disk",
        DiskCondition::IoHang => "does not answer: check the disk and its connection",
        DiskCondition::HighUsage => "is nearly full: free some space on it",
    };
    let why = disk.problem.as_ref();
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    Some(format!(
        "artifact disk {number} ({}) gets no artifacts: it {what}{why}",
        disk.medium.as_str()
    ))
}

/// Rounds seconds for people: milliseconds below ten seconds, whole seconds above.
fn shown(seconds: f64) -> Duration {
    match seconds < 10.0 {
        true => Duration::from_secs_f64(seconds),
        false => Duration::from_secs(seconds.round() as u64),
    }
}

impl Scheduler {
    /// Answers a query at `now`.
    pub fn answer(&self, now: Time, query: &Query) -> Answer {
        self.view().answer(now, query)
    }
}

impl View<'_> {
    fn answer(&self, now: Time, query: &Query) -> Answer {
        match query {
            Query::Status => Answer::Status(Box::new(self.status(now))),
            Query::Jobs { names } => Answer::Jobs(self.listed_jobs(now, names), self.wall),
            Query::NothingStarts => Answer::NothingStarts(self.why_nothing_starts(now)),
            Query::Config => Answer::Config(self.engine.config().cloned()),
            Query::Histograms { jobs, samples } => match self.why_no_histograms(jobs) {
                Some(why) => Answer::Unknown(why),
                None => Answer::Histograms(Histograms {
                    nodes_loaded: self.engine.nodes().is_some(),
                    jobs: self.histograms(jobs, *samples),
                }),
            },
            Query::Explain { job, node } => self.explain(now, job, node),
            Query::RunningTasks { job } => {
                Answer::RunningTasks(self.running_tasks(now, job.as_deref()))
            }
            Query::Unfinished { job, limit } => self.unfinished(now, job, *limit),
            Query::JobStatus { job } => self.status_of(now, job),
            Query::Tasks(list) => self.list_tasks(now, list),
            Query::Outputs(list) => self.list_outputs(now, list),
            Query::OutputSets { limit } => {
                let (sets, more) = self.list_sets(now, *limit);
                Answer::OutputSets(sets, more)
            }
            Query::Files(list) => Answer::Files(self.list_files(list)),
            Query::FileReaders(ids) => Answer::FileReaders(self.read_artifacts(ids)),
            Query::LogPeers => Answer::LogPeers(self.log_peers()),
            Query::WhatIf => Answer::WhatIf(Box::new(WhatIf::of(self.0, now))),
            Query::InputsForPlan(config) => Answer::InputsForPlan(self.inputs_for_plan(config)),
        }
    }

    fn status(&self, now: Time) -> ClusterStatus {
        let (job_totals, jobs) = self.jobs_at_a_glance(now);
        let here = self.pool.iter().filter(|w| !w.said_goodbye());
        let here: Vec<_> = here.collect();
        let urgency = |worker: &&Remote| match worker.health() {
            Health::Healthy => Urgency::Running,
            Health::New | Health::Unhealthy | Health::MustDie => Urgency::NeedsAPerson,
        };
        let listed = most_urgent(here.iter().map(urgency), MAX_LISTED_WORKERS);
        let slots_fit = listed.len() * self.slots_bytes() <= MAX_SLOTS_BYTES;
        let workers = listed.into_iter().map(|place| {
            let worker = here[place];
            let slots = slots_fit.then(|| self.engine.worker_slots(worker.shard().as_str()));
            self.worker_status(now, worker, slots.unwrap_or_default())
        });
        ClusterStatus {
            scheduler: self.id,
            cluster: self.cluster,
            wall: self.wall,
            initial_wait: self.wait_message(now),
            wait_ended: self.wait.ended_because().map(str::to_owned),
            job_totals,
            jobs,
            workers_total: here.len(),
            workers: workers.collect(),
            errors: self.errors(now),
            nothing_starts: self.why_nothing_starts(now),
            nodes_loaded: self.engine.nodes().is_some(),
            config: self.jobs.in_force().cloned(),
            work: self.work_counts(),
            store: self
                .store_sizes
                .status(self.runs.completions(), self.upkeep.missing()),
            schedules: self
                .engine
                .nodes()
                .into_iter()
                .flat_map(|table| schedules(table))
                .map(|(_, schedule)| schedule)
                .take(MAX_SCHEDULES)
                .collect(),
            nodes_error: self.nodes_error.clone(),
            orders: self.all_orders(now),
            counters: self.artifacts.sum_of_counters(),
            locality: self.artifacts.locality(),
            refused_calls: self.shell.refused_calls.clone(),
        }
    }

    /// Returns the bytes on the wire of one worker's slots.
    fn slots_bytes(&self) -> usize {
        let Some(config) = self.engine.config() else {
            return 0;
        };
        let resources = config.resources.iter();
        let of_workers = resources.filter(|resource| resource.level == config.worker_level());
        of_workers
            .map(|resource| SLOTS_BYTES + resource.name.len())
            .sum()
    }

    fn status_of(&self, now: Time, job: &str) -> Answer {
        let id = self.engine.find_job(job);
        match id.and_then(|id| self.job_status(now, id)) {
            Some(status) => Answer::JobStatus(Box::new(status), self.wall),
            None => Answer::Unknown(self.and_config(unknown_job(&self.engine, job))),
        }
    }

    /// Returns why histograms would be wrong. They have no place for a mark, so none is returned that would count completions that a crash
    /// may still lose.
    fn why_no_histograms(&self, jobs: &[String]) -> Option<String> {
        if !self.marks_completions() {
            return None;
        }
        let pending = self.pending_completions().into_iter();
        let mut names = pending.map(|(job, _)| self.engine.job_name(job));
        let is_wanted =
            |name: &&JobName| jobs.is_empty() || jobs.iter().any(|j| j == name.as_str());
        let job = names.find(is_wanted)?;
        Some(format!(
            "the histogram of job `{job}` would count completions that are not yet on disk; ask again later, and see the errors in the \
             cluster's status"
        ))
    }

    fn histograms(&self, jobs: &[String], samples: usize) -> Vec<JobHistogram> {
        let Some(config) = self.engine.config() else {
            return Vec::new();
        };
        let wanted: BTreeSet<&str> = jobs.iter().map(String::as_str).collect();
        let is_wanted = |name: &JobName| wanted.is_empty() || wanted.contains(name.as_str());
        let known = config
            .jobs
            .iter()
            .filter(|j| is_wanted(&j.name) && j.errors.is_empty());
        known
            .filter_map(|job| {
                let id = self.engine.find_job(job.name.as_str())?;
                let levels = self.engine.histogram(id, samples);
                let levels = levels
                    .into_iter()
                    .map(|(level, buckets)| {
                        let buckets = buckets
                            .into_iter()
                            .map(|(bits, (count, names))| (bits, count, names));
                        (level, buckets.collect())
                    })
                    .collect();
                Some((job.name.clone(), levels))
            })
            .collect()
    }

    pub(super) fn find_task(&self, job: &str, node: &str) -> Result<Task, String> {
        let job_id = self
            .engine
            .find_job(job)
            .ok_or_else(|| unknown_job(&self.engine, job))?;
        let node_id = self
            .engine
            .find_node(node)
            .ok_or_else(|| self.unknown_node(job_id, node))?;
        Ok(Task {
            job: job_id,
            node: node_id,
        })
    }

    fn unknown_node(&self, job: JobId, node: &str) -> String {
        // A node of a source with `"names": "path"` has its parents' names and slashes before its own.
        let is_meant = |name: &NodeName| {
            name.as_str()
                .rsplit_once('/')
                .is_some_and(|(_, own)| own == node)
        };
        let searched = self.engine.tasks(job).take(MAX_SEARCHED);
        let mut names = searched.map(|task| self.engine.node_name(task.node));
        if let Some(meant) = names.find(is_meant) {
            return format!("no node is called `{node}`; did you mean `{meant}`?");
        }
        let tasks = self.engine.tasks(job);
        let names = tasks.map(|task| self.engine.node_name(task.node).to_string());
        not_called("node", node, names)
    }

    fn explain(&self, now: Time, job: &str, node: &str) -> Answer {
        if node.is_empty() {
            return self.explain_job(now, job);
        }
        match self.find_task(job, node) {
            Ok(task) => {
                let mut reasons = self.reasons(now, task);
                if self.engine.task_state(task) == TaskState::Disabled {
                    reasons.extend(self.next_times_of(task.job));
                    reasons.extend(self.nodes_are_older());
                }
                Answer::Explain(reasons)
            }
            Err(unknown) => {
                let mut parts = vec![unknown];
                if let Some(id) = self.engine.find_job(job) {
                    parts.extend(self.next_times_of(id));
                    parts.extend(self.why_nodes_lack());
                }
                Answer::Unknown(self.and_config(parts.join("; ")))
            }
        }
    }

    /// Returns why a node of the sources may be unknown; `None` if the last reading of the sources succeeded.
    fn why_nodes_lack(&self) -> Option<String> {
        match self.engine.nodes() {
            Some(_) => self.nodes_are_older(),
            None => Some(self.no_nodes()),
        }
    }

    /// Returns clauses about the schedules on which the nodes of a job depend.
    pub(super) fn next_times_of(&self, job: JobId) -> Vec<String> {
        let Some(job) = self.engine.job_config(job) else {
            return Vec::new();
        };
        let all = self.engine.nodes().into_iter();
        let all = all.flat_map(|table| schedules(table));
        all.filter(|(of, _)| *of <= job.level_for_tasks)
            .take(MAX_SCHEDULES)
            .map(|(_, schedule)| schedule.clause(self.wall.as_millis()))
            .collect()
    }

    fn explain_job(&self, now: Time, job: &str) -> Answer {
        let Some(id) = self.find_listed(job) else {
            return Answer::Unknown(self.and_config(unknown_job(&self.engine, job)));
        };
        let counts = self.engine.job_config(id);
        let counts = counts.filter(|_| self.engine.nodes().is_some());
        let counts = counts.map(|config| self.job_facts(id, config).counts().clause());
        let orphans = self.orphans_of_gone_job(id);
        let reasons = self.engine.explain_job(id).into_iter();
        let reasons = reasons.filter(|reason| !is_of_everything(reason));
        let reasons = reasons.map(|reason| reason.to_string());
        let why_no_tasks = self.why_no_tasks(id);
        let all = counts.into_iter().chain(why_no_tasks).chain(orphans);
        let reasons: Vec<String> = reasons.collect();
        let waiting = reasons
            .is_empty()
            .then(|| self.first_waiting(now, id))
            .flatten();
        let all = all
            .chain(self.dependencies_of(id))
            .chain(reasons)
            .chain(waiting);
        let all = all.chain(self.next_times_of(id));
        let all = all.chain(self.why_nothing_starts(now));
        let all = all.chain(self.nodes_are_older());
        Answer::Explain(all.chain(self.config_is_older()).collect())
    }

    /// Returns why one of the job's waiting tasks waits, as an example.
    fn first_waiting(&self, now: Time, id: JobId) -> Option<String> {
        let waits = |task: &Task| self.engine.task_state(*task).is_waiting();
        let task = self.engine.tasks(id).take(MAX_SEARCHED).find(waits)?;
        let reasons = self.engine.explain(now, task).into_iter();
        let reasons: Vec<String> = reasons.map(|reason| reason.to_string()).collect();
        let node = self.engine.node_name(task.node);
        Some(format!(
            "for example, its task on `{node}`: {}",
            reasons.join("; ")
        ))
    }

    /// Returns a sentence about each of the first jobs on which this one depends node by node, unless all tasks of that job are done.
    fn dependencies_of(&self, id: JobId) -> Vec<String> {
        let job = self
            .engine
            .job_config(id)
            .filter(|_| self.engine.nodes().is_some());
        let on: BTreeSet<&JobName> = job.iter().flat_map(|job| &job.depends_on).collect();
        let sentence = |name: &JobName| {
            let begin = format!("each task waits until job `{name}` is done on the task's node");
            let on = self.engine.find_job(name.as_str());
            let known = on.and_then(|on| Some((on, self.engine.job_config(on)?)));
            let Some((on, config)) = known else {
                return Some(format!("{begin}; no such job is configured"));
            };
            let counts = self.job_facts(on, config).counts();
            let is_done = counts.total > 0 && counts.done == counts.total;
            (!is_done).then(|| format!("{begin}; job `{name}` has {}", counts.clause()))
        };
        on.into_iter()
            .filter_map(sentence)
            .take(MAX_DEPENDENCIES)
            .collect()
    }

    /// Adds why the config file is not in force: a user who asks about a new job should learn that the file was not read.
    pub(super) fn and_config(&self, unknown: String) -> String {
        match self.config_is_older() {
            Some(why) => format!("{unknown}; {why}"),
            None => unknown,
        }
    }

    pub(super) fn reasons(&self, now: Time, task: Task) -> Vec<String> {
        // The initial wait and the store do not affect a running task.
        let held = match self.engine.is_running(task) {
            true => Vec::new(),
            false => self.why_nothing_starts(now),
        };
        let mut reasons = self.engine.explain(now, task);
        let lacks = self.why_inputs_lack(now, task, &reasons);
        if lacks.is_some() {
            reasons.retain(|reason| *reason != Reason::Runnable && !is_of_no_run(reason));
        }
        if !held.is_empty() {
            // An obstacle affects all tasks.
            reasons.retain(|reason| *reason != Reason::Runnable && !is_of_everything(reason));
        }
        let estimate = reasons.iter().find_map(|reason| match reason {
            Reason::NoWorkerNow {
                late: 1.., late_by, ..
            } => Some(self.why_late(task.job, *late_by)),
            _ => None,
        });
        let own = reasons.iter().map(|reason| match reason {
            Reason::RunningOn(shard) | Reason::StandsBy { shard, .. } => {
                let doubt = self
                    .pool
                    .doubt_about(now, &self.options.timeouts, shard)
                    .map(|doubt| format!(", {doubt}"));
                format!("{reason}{}", doubt.unwrap_or_default())
            }
            _ => reason.to_string(),
        });
        let of_workers = reasons
            .iter()
            .flat_map(|reason| self.why_at_workers(now, task, reason));
        let all = own.chain(of_workers).chain(estimate).chain(held);
        let outputs = self.why_outputs_lack(now, task, &reasons);
        let all = all.chain(lacks).chain(outputs);
        let all = all.chain(self.progress_of_inputs(now, task));
        let contained = reasons.iter().filter_map(|reason| match reason {
            Reason::RunningOn(shard) => {
                let how = self.pool.get(shard)?.description().containment.as_ref()?;
                Some(format!("its worker contains it by {how}"))
            }
            _ => None,
        });
        let unwanted = self
            .engine
            .is_running(task)
            .then(|| self.wanted().fate_of_unwanted(task));
        all.chain(unwanted.flatten())
            .chain(contained)
            .chain(self.config_is_older())
            .collect()
    }

    /// Returns the estimate that makes the task late.
    fn why_late(&self, job: JobId, late_by: LateBy) -> String {
        let Estimate { seconds, basis } = self.estimates.estimate(job, self.engine.job_config(job));
        let time = format_duration(shown(seconds));
        let text = format!("it is taken to run for {time}, {basis}");
        let deadline = self.engine.job_config(job).and_then(|job| job.deadline());
        match (late_by, deadline) {
            (LateBy::ItsOwnLength, Some(deadline)) => format!(
                "{text}; that is more than its `deadline` of {} leaves it: it would miss it on any worker, and is sent only where nobody \
                 else misses one for it",
                format_duration(deadline)
            ),
            (LateBy::ItsOwnLength | LateBy::OtherWork, _) => text,
        }
    }

    /// Returns details of the workers that a reason names, which the engine does not know.
    fn why_at_workers(&self, now: Time, task: Task, reason: &Reason) -> Vec<String> {
        let Reason::NoWorkerNow {
            not_ready,
            barred,
            not_asked,
            ..
        } = reason
        else {
            return Vec::new();
        };
        let not_ready = not_ready.first.as_ref().and_then(|shard| {
            let what = self
                .pool
                .why_not_ready(now, &self.options.timeouts, shard)?;
            Some(format!("worker `{shard}` {what}"))
        });
        let not_asked = not_asked.first.as_ref().and_then(|shard| {
            let why = self.why_not_sent(now, shard, task)?;
            Some(format!("worker `{shard}` {why}"))
        });
        let barred = barred.first.as_ref().and_then(|shard| {
            let why = self.why_barred(shard)?;
            Some(format!("worker `{shard}` {why}"))
        });
        not_ready
            .into_iter()
            .chain(barred)
            .chain(not_asked)
            .collect()
    }

    fn running_tasks(&self, now: Time, job: Option<&str>) -> Vec<RunningTaskView> {
        self.runs
            .running()
            .map(|(task, run)| RunningTaskView {
                task: task_key(&self.engine, task),
                shard: run.shard.clone(),
                invocation: run.invocation,
                running_for: listing::running_for(run, self.wall, now.since(run.since)),
                unsure: run.is_unsure(),
            })
            .filter(|view| job.is_none_or(|j| view.task.job.as_str() == j))
            .take(MAX_LISTED)
            .collect()
    }

    fn unfinished(&self, now: Time, job: &str, limit: usize) -> Answer {
        let Some(id) = self.engine.find_job(job) else {
            return Answer::Unknown(self.and_config(unknown_job(&self.engine, job)));
        };
        let mut failed = Vec::new();
        let mut others = Vec::new();
        for task in self.engine.tasks(id) {
            let status = self.engine.previous_status(task);
            if self.engine.is_running(task) || status.as_ref().is_some_and(StoredStatus::is_done) {
                continue;
            }
            let has_failed = status.is_some_and(|s| s.is_failed() || s.exception().is_some());
            let list = if has_failed { &mut failed } else { &mut others };
            if list.len() < limit.min(MAX_LISTED) {
                list.push(task);
            }
        }
        failed.extend(others);
        let views = failed
            .into_iter()
            .take(limit.min(MAX_LISTED))
            .map(|task| EndedTaskView {
                task: task_key(&self.engine, task),
                status: self.engine.previous_status(task),
                reasons: self.reasons(now, task),
            });
        Answer::Unfinished(views.collect())
    }

    fn log_peers(&self) -> LogPeers {
        let mut peers = LogPeers::default();
        for worker in self.pool.iter() {
            let shard = worker.shard().clone();
            let hostname = worker.description().machine_lock.hostname.clone();
            match worker.health() {
                Health::New | Health::Healthy => peers.ask.push((shard, worker.address().clone())),
                Health::Unhealthy => peers.unhealthy.push((shard, hostname)),
                Health::MustDie => peers.lost.push(LostLogs {
                    shard,
                    hostname,
                    folder: worker.description().log_folder.clone(),
                    is_decommissioned: self
                        .orders
                        .get(worker.shard())
                        .is_some_and(|order| matches!(order.stage, OrderStage::Decommissioned(_))),
                }),
            }
        }
        peers
    }
}

impl View<'_> {
    /// Returns the needed artifacts of which no other worker that stays has a copy; none if not all copies are known.
    fn only_at(&self, worker: &Remote) -> ArtifactAmount {
        let lock = &worker.description().machine_lock;
        match self.artifacts.knows_copies_of(lock) && worker.health() != Health::MustDie {
            true => self.artifacts.registry().only_at(lock),
            false => ArtifactAmount::default(),
        }
    }

    /// Returns the number of tasks that stand by at a worker.
    fn standby_on(&self, shard: &Shard) -> usize {
        let worker = self.engine.find_worker(shard.as_str());
        worker.map_or(0, |worker| self.engine.standby_count(worker))
    }

    pub(in crate::scheduler) fn worker_status(
        &self,
        now: Time,
        worker: &Remote,
        slots: Vec<SlotsView>,
    ) -> WorkerStatus {
        let (running, unsure) = self.runs.counts_on(worker.shard());
        let room = worker.description().room.as_ref();
        let full = room.filter(|room| running >= room.most.get() as usize);
        let Condition {
            silent_for,
            waits_for,
            lost_in,
            mut problems,
            notes,
        } = self.pool.condition(now, &self.options.timeouts, worker);
        let store = self.artifacts.store(&worker.description().machine_lock);
        let disks = store.map_or(&[][..], |store| &store.disks);
        problems.extend(disks.iter().zip(1..).filter_map(disk_problem));
        WorkerStatus {
            shard: worker.shard().clone(),
            hostname: worker.description().machine_lock.hostname.clone(),
            address: worker.address().clone(),
            id: worker.id(),
            health: worker.health(),
            drains: worker.description().intake == Intake::Draining,
            order: self
                .orders
                .get(worker.shard())
                .map(|order| order.stage.clone()),
            running,
            unsure,
            standby: self.standby_on(worker.shard()),
            begun_anew: worker.begun_anew(),
            taken_back: worker.taken_back(),
            since_heartbeat: worker.last_heartbeat().map(|at| now.since(at)),
            silent_for,
            waits_for: waits_for.or_else(|| {
                let is_asked = worker.health() == Health::Healthy;
                let room = full.filter(|_| is_asked)?;
                Some(format!("for one of its tasks to end: it runs {room}"))
            }),
            lost_in,
            problems,
            notes,
            asked: self.asked(now, worker),
            containment: worker.description().containment.clone(),
            slots,
            only_here: self.only_at(worker),
            disks: disks.to_vec(),
            counters: store.and_then(|store| store.counters),
        }
    }
}
