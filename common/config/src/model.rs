//! A configuration as the rest of the house sees it: typed, checked, with ids resolved.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::{
    Arguments, BackoffPolicy, Hold, JobName, KillRequest, ReportPolicy, StatusFrom,
    TaskSubprocessOptions,
};

use crate::cron::Cron;
use crate::shared::Shared;

/// Position of a level: 0 is `instance`, then the configured ones, the last is `worker`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(pub u16);

impl LevelId {
    pub const INSTANCE: LevelId = LevelId(0);

    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Position in [`Config::resources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

impl ResourceId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A whole configuration. Jobs with errors are in it, disabled by their errors; a configuration with errors in its settings
/// never becomes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// False: nothing new is started.
    pub enabled: bool,
    /// All level names, `instance` first and `worker` last.
    pub levels: Vec<String>,
    pub level_for_tasks: LevelId,
    pub node_order: NodeOrder,
    pub node_sources: Shared<Vec<NodeSource>>,
    pub policy: SchedulerPolicy,
    pub worker_selector: WorkerSelector,
    pub backoff: BackoffPolicy,
    /// In order of first appearance. With no resource declared at level `worker`, the implied `slots` is the last one.
    pub resources: Vec<Resource>,
    /// Worker key (`hostname:port`, `hostname` or shard) to amounts that replace the limits there.
    pub worker_resources_override: BTreeMap<String, BTreeMap<ResourceId, i32>>,
    pub kill_orphan_tasks_after: Option<Duration>,
    pub task_subprocess: TaskSubprocessOptions,
    pub kill_subprocess: KillRequest,
    /// How soon a task runs again that ended without backoff and without being done.
    pub working_wait: Duration,
    /// What machines offer, in terms of worker resources.
    pub physical_resources: Vec<PhysicalResource>,
    /// Unix seconds; a value in the future ends the initial wait.
    pub exit_initial_wait_before_timestamp: i64,
    /// In file order.
    pub jobs: Vec<Shared<JobConfig>>,
}

/// Returns the path of a file that a config file in `folder` names by a relative path.
pub fn resolve_in_folder(folder: &Path, path: &str) -> PathBuf {
    folder.join(path.strip_prefix("./").unwrap_or(path))
}

/// Returns whether a program's path begins in the folder of the config file.
pub(crate) fn begins_in_folder(program: &str) -> bool {
    program.starts_with("./") || program.starts_with("../")
}

impl Config {
    pub fn level(&self, name: &str) -> Option<LevelId> {
        // Invariant: the parser bounds the number of levels far below u16::MAX.
        self.levels
            .iter()
            .position(|l| l == name)
            .and_then(|i| u16::try_from(i).ok())
            .map(LevelId)
    }

    pub fn worker_level(&self) -> LevelId {
        LevelId(u16::try_from(self.levels.len().saturating_sub(1)).unwrap_or(u16::MAX))
    }

    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.resources
            .iter()
            .position(|r| r.name == name)
            .and_then(|i| u16::try_from(i).ok())
            .map(ResourceId)
    }

    /// Resolves commands that start with `./` or `../`, and relative working directories, against `folder`, the config file's absolute
    /// folder. Absolute paths stay, and so do program names without a slash, for which workers search.
    pub fn resolve_commands(&mut self, folder: &Path) {
        let resolve = |path: &str| {
            resolve_in_folder(folder, path)
                .to_string_lossy()
                .into_owned()
        };
        for job in &mut self.jobs {
            let directory = job.task_subprocess.working_directory.as_deref();
            if let Some(directory) = directory.filter(|path| Path::new(path).is_relative()) {
                let directory = match directory {
                    "." => folder.to_string_lossy().into_owned(),
                    other => resolve(other),
                };
                job.task_subprocess.working_directory = Some(directory);
            }
            let Some(program) = job.command.first_mut() else {
                continue;
            };
            if begins_in_folder(program) {
                *program = resolve(program);
            }
        }
    }

    /// Whether [`crate::parse_job`] makes the same of every text under both: a job inherits from the settings, and its levels and
    /// resources are positions in theirs.
    pub fn reads_jobs_as(&self, other: &Config) -> bool {
        let Config {
            levels,
            level_for_tasks,
            policy,
            backoff,
            resources,
            kill_orphan_tasks_after,
            task_subprocess,
            kill_subprocess,
            enabled: _,
            node_order: _,
            node_sources: _,
            worker_selector: _,
            worker_resources_override: _,
            working_wait: _,
            // Slots of cards are looked at: see below.
            physical_resources: _,
            exit_initial_wait_before_timestamp: _,
            jobs: _,
        } = self;
        *levels == other.levels
            && *level_for_tasks == other.level_for_tasks
            && *policy == other.policy
            && *backoff == other.backoff
            && *resources == other.resources
            && *kill_orphan_tasks_after == other.kill_orphan_tasks_after
            && *task_subprocess == other.task_subprocess
            && *kill_subprocess == other.kill_subprocess
            && self.card_scale() == other.card_scale()
    }

    /// Whether nothing but the jobs differs.
    pub fn has_settings_of(&self, other: &Config) -> bool {
        let Config {
            enabled,
            levels,
            level_for_tasks,
            node_order,
            node_sources,
            policy,
            worker_selector,
            backoff,
            resources,
            worker_resources_override,
            kill_orphan_tasks_after,
            task_subprocess,
            kill_subprocess,
            working_wait,
            physical_resources,
            exit_initial_wait_before_timestamp,
            jobs: _,
        } = self;
        *enabled == other.enabled
            && *levels == other.levels
            && *level_for_tasks == other.level_for_tasks
            && *node_order == other.node_order
            && *node_sources == other.node_sources
            && *policy == other.policy
            && *worker_selector == other.worker_selector
            && *backoff == other.backoff
            && *resources == other.resources
            && *worker_resources_override == other.worker_resources_override
            && *kill_orphan_tasks_after == other.kill_orphan_tasks_after
            && *task_subprocess == other.task_subprocess
            && *kill_subprocess == other.kill_subprocess
            && *working_wait == other.working_wait
            && *physical_resources == other.physical_resources
            && *exit_initial_wait_before_timestamp == other.exit_initial_wait_before_timestamp
    }

    pub fn job(&self, name: &str) -> Option<&JobConfig> {
        let job = self.jobs.iter().find(|j| j.name.as_str() == name);
        job.map(|job| &**job)
    }
}

/// In which order the nodes of a level are tried; the first in this order starts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeOrder {
    /// As the sources gave them.
    Original,
    Lexicographic,
    #[default]
    Random,
}

/// Which job's task is tried next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerPolicy {
    #[default]
    RoundRobin,
    RankedPriority,
    RandomizedPriority,
    LongTail,
}

/// Which worker gets a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerSelector {
    #[default]
    RoundRobin,
    Busiest,
    /// Of workers that ask for work: who wants instances, then who lacks most work.
    Neediest,
}

/// Slots that each node of one level has.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub name: String,
    pub level: LevelId,
    /// What a job takes that does not say.
    pub default: i32,
    pub limit: ResourceLimit,
    pub weight: i32,
}

/// How many slots a node has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceLimit {
    Fixed(i32),
    /// As many as the worker reports cores; unlimited if it reports none. The implied `slots` only.
    ReportedCores,
}

/// Where nodes come from, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeSource {
    /// Adds nothing.
    Empty,
    Manual(ManualNodes),
    RangeLabel(RangeLabel),
    Script(ScriptSource),
    AddTime(AddTime),
}

/// The way in which a source names its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeNaming {
    /// The source's own names. A name that another node of the level has is an error.
    #[default]
    Unique,
    /// The parent's name and a slash before the source's name, except directly below the instance node. Names must be unique.
    Path,
    /// The source's own names. Nodes of one level with the same name are replicas, which share their tasks and slots.
    Shared,
}

impl NodeNaming {
    /// Returns the full name of a node that its source calls `name`. `parent` is `None` directly below the instance node.
    pub fn name<'a>(self, parent: Option<&str>, name: &'a str) -> Cow<'a, str> {
        match (self, parent) {
            (NodeNaming::Path, Some(parent)) => Cow::Owned(format!("{parent}/{name}")),
            (NodeNaming::Path | NodeNaming::Unique | NodeNaming::Shared, _) => Cow::Borrowed(name),
        }
    }
}

/// The nodes of a `manual` source, parents before children.
#[derive(Clone, Debug, PartialEq)]
pub struct ManualNodes {
    pub nodes: Vec<ManualNode>,
    /// `nodes` already has the full names.
    pub naming: NodeNaming,
}

/// One node of a `manual` source, parents before children; `parent` is an index into the same list.
#[derive(Clone, Debug, PartialEq)]
pub struct ManualNode {
    pub name: String,
    pub level: LevelId,
    /// `None`: a child of the instance node.
    pub parent: Option<usize>,
    pub enabled: bool,
}

/// Numbered children of every node of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeLabel {
    pub parent_level: LevelId,
    pub start: i64,
    /// Inclusive.
    pub end: i64,
    /// With `{parent}`, `{i}`, `{start}`, `{end}`.
    pub format: String,
    pub enabled: bool,
    pub naming: NodeNaming,
}

impl RangeLabel {
    /// Returns a function that makes a child's name from its parent's name and its number, before [`NodeNaming`] adds to it.
    pub fn names(&self) -> impl Fn(&str, i64) -> String + use<> {
        let format = self.format.replace("{start}", &self.start.to_string());
        let format = format.replace("{end}", &self.end.to_string());
        // `{parent}` is replaced last, because a parent's name may contain braces.
        move |parent, i| {
            let numbered = format.replace("{i}", &i.to_string());
            numbered.replace("{parent}", parent)
        }
    }
}

/// A program that prints the children of a node, one a line.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSource {
    pub parent_level: LevelId,
    /// Relative paths are resolved against the config file's folder by the shell.
    pub script: PathBuf,
    pub timeout: Duration,
    pub naming: NodeNaming,
}

/// A child of every node of a level for each time of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddTime {
    pub parent_level: LevelId,
    /// With `{parent}` and `{time}`, Unix seconds.
    pub format: String,
    pub schedule: Vec<ScheduleItem>,
    pub naming: NodeNaming,
}

impl AddTime {
    /// Returns the level of its nodes.
    pub fn level(&self) -> LevelId {
        LevelId(self.parent_level.0 + 1)
    }
}

/// Times that come again, and how long each of them is a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleItem {
    pub cron: Cron,
    /// Counted from the time itself; not zero.
    pub lifetime: Duration,
    /// For how much of the lifetime the node is enabled.
    pub enabled_lifetime: Duration,
    pub tags: Vec<String>,
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobConfig {
    pub name: JobName,
    pub enabled: bool,
    pub owner: String,
    pub level_for_tasks: LevelId,
    pub priority: f64,
    /// What a task takes of every resource, indexed by [`ResourceId`]; defaults filled in.
    pub resources: Vec<i32>,
    /// The `config` object, JSON text.
    pub config: String,
    pub filters: BTreeMap<LevelId, Filter>,
    pub level_for_host_placement: Option<LevelId>,
    pub host_placement: Option<String>,
    pub backoff: BackoffPolicy,
    /// Names need not exist; see the engine's explanations.
    pub depends_on: Vec<JobName>,
    /// As [`JobConfig::depends_on`], but nothing starts before all tasks of these jobs are done, on whatever node.
    pub run_only_after_all_nodes_are_done_for: Vec<JobName>,
    pub kill_orphan_tasks_after: Option<Duration>,
    pub task_subprocess: TaskSubprocessOptions,
    pub kill_subprocess: KillRequest,
    /// Empty: the worker's `--worker-command`.
    pub command: Vec<String>,
    /// How long a task runs, as far as anybody can tell; above 0.
    pub est_duration: Option<Duration>,
    /// Tasks may wait at a worker until it has processors for them: what they hold meanwhile is not missed elsewhere.
    pub bufferable: bool,
    /// Limit for the job's running tasks; `None` for no limit but the resources.
    pub max_running: Option<u32>,
    /// When a worker that asks for work tells how a task has ended; `None`: as the worker's own settings say.
    pub report: Option<ReportPolicy>,
    pub create_time: i64,
    pub modify_time: i64,
    /// -1 = none.
    pub version_id: i64,
    /// Why the job cannot run; each with its place.
    pub errors: Vec<String>,
    /// An operator holds it. Neither a file nor an export says so: the scheduler remembers it beside the job.
    pub hold: Option<Hold>,
}

impl JobConfig {
    pub fn can_run(&self) -> bool {
        self.enabled && self.hold.is_none() && self.errors.is_empty()
    }

    pub fn is_cancelled(&self) -> bool {
        self.hold == Some(Hold::Cancelled)
    }

    /// Whether other jobs may wait until all its tasks are done: a pause ends, the rest is for good.
    pub fn can_be_waited_for(&self) -> bool {
        self.enabled && self.errors.is_empty()
    }

    /// All jobs that it names as those to wait for, in whatever way.
    pub fn waits_for(&self) -> impl Iterator<Item = &JobName> {
        let all = &self.run_only_after_all_nodes_are_done_for;
        self.depends_on.iter().chain(all)
    }

    pub fn status_from(&self) -> StatusFrom {
        self.task_subprocess.status_from
    }

    pub fn arguments(&self) -> Arguments {
        self.task_subprocess.arguments
    }

    /// How long a task's process may run.
    pub fn timeout(&self) -> Option<Duration> {
        self.task_subprocess.timeout
    }

    /// When a task must be over, from the moment at which it is marked running.
    pub fn deadline(&self) -> Option<Duration> {
        self.task_subprocess.deadline
    }
}

/// Which nodes of a level a job runs on; all conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Empty: all.
    pub whitelist: Vec<String>,
    /// Found anywhere in the name; empty: all.
    pub whitelist_regex: String,
    pub blacklist: Vec<String>,
    pub blacklist_regex: String,
    /// Empty: all; else at least one of them.
    pub tag_whitelist: Vec<String>,
    /// 1.0: all.
    pub fraction_of_nodes: f64,
}

impl Default for Filter {
    /// The filter that every node passes.
    fn default() -> Self {
        Filter {
            whitelist: Vec::new(),
            whitelist_regex: String::new(),
            blacklist: Vec::new(),
            blacklist_regex: String::new(),
            tag_whitelist: Vec::new(),
            fraction_of_nodes: 1.0,
        }
    }
}

/// A worker resource whose slots follow from what the worker's machine reports:
/// `max(0, trunc((reported - reserve) / multiply_logical_by))`; a machine that reports nothing keeps the configured limit.
#[derive(Clone, Debug, PartialEq)]
pub struct PhysicalResource {
    pub kind: PhysicalKind,
    /// Of level `worker`; no two entries share one.
    pub logical_resource: ResourceId,
    /// Physical units a slot; not within 1e-12 of 0.
    pub multiply_logical_by: f64,
    pub enforcement: Enforcement,
    /// Physical units kept back; may be negative.
    pub physical_reserve_amount: f64,
}

/// What is measured of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PhysicalKind {
    /// Memory, in MiB.
    RamMb,
    CpuCore,
    GpuCard,
}

impl PhysicalKind {
    pub const ALL: [PhysicalKind; 3] = [
        PhysicalKind::RamMb,
        PhysicalKind::CpuCore,
        PhysicalKind::GpuCard,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            PhysicalKind::RamMb => "ram_mb",
            PhysicalKind::CpuCore => "cpu_core",
            PhysicalKind::GpuCard => "gpu_card",
        }
    }

    /// How a task can be held to what it took.
    pub fn enforcements(self) -> &'static [Enforcement] {
        match self {
            PhysicalKind::RamMb => &[Enforcement::None, Enforcement::Hard],
            PhysicalKind::CpuCore => &[Enforcement::None, Enforcement::Soft, Enforcement::Hard],
            PhysicalKind::GpuCard => &[Enforcement::None],
        }
    }
}

/// Whether a task can use more of a machine than it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// Yes.
    #[default]
    None,
    /// Only while nobody else wants it.
    Soft,
    /// No.
    Hard,
}

impl Enforcement {
    pub fn as_str(self) -> &'static str {
        match self {
            Enforcement::None => "none",
            Enforcement::Soft => "soft",
            Enforcement::Hard => "hard",
        }
    }
}
