//! The typed and checked configuration, with ids in place of names.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::{
    Arguments, BackoffPolicy, Hold, JobName, KillRequest, ReportPolicy, StatusFrom,
    TaskSubprocessOptions,
};

use crate::artifacts::{JobInput, JobOutput, KeepOutputs};
use crate::cron::Cron;
use crate::shared::Shared;

/// The position of a level: 0 is `instance`, then the configured ones; the last is `worker`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(pub u16);

impl LevelId {
    pub const INSTANCE: LevelId = LevelId(0);

    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The position of a resource in [`Config::resources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

impl ResourceId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A whole configuration. Jobs with errors are included, and their errors disable them. Settings with errors never become a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// If false, no task starts.
    pub enabled: bool,
    /// All level names, `instance` first and `worker` last.
    pub levels: Vec<String>,
    pub level_for_tasks: LevelId,
    pub node_order: NodeOrder,
    pub node_sources: Shared<Vec<NodeSource>>,
    pub policy: SchedulerPolicy,
    pub worker_selector: WorkerSelector,
    /// Whether short tasks may stand by at workers whose slots are in use.
    pub standby: bool,
    pub backoff: BackoffPolicy,
    /// Resources in order of first appearance. If no resource is declared at level `worker`, the implied `slots` is the last one.
    pub resources: Vec<Resource>,
    /// Amounts that replace the limits of single workers, by worker key: `hostname:port`, `hostname` or shard.
    pub worker_resources_override: BTreeMap<String, BTreeMap<ResourceId, i32>>,
    pub kill_orphan_tasks_after: Option<Duration>,
    pub task_subprocess: TaskSubprocessOptions,
    pub kill_subprocess: KillRequest,
    /// The wait before a task runs again that ended without backoff and without being done.
    pub working_wait: Duration,
    /// The measured resources of machines, as worker resources.
    pub physical_resources: Vec<PhysicalResource>,
    /// Unix seconds; a value in the future ends the initial wait.
    pub exit_initial_wait_before_timestamp: i64,
    /// Jobs in file order.
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

    /// Returns whether only schedules can have disabled a node of this level: by the end of its `enabled_lifetime`.
    pub fn is_disabled_only_by_schedule(&self, level: LevelId) -> bool {
        let sources = || {
            self.node_sources
                .iter()
                .filter(|source| source.disables_at(level))
        };
        sources().any(|_| true) && sources().all(|source| matches!(source, NodeSource::AddTime(_)))
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
    /// folder. Absolute paths stay, and so do program names without a slash, for which workers search. Files of inputs stay relative,
    /// because a job must not name files outside the folder.
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

    /// Returns whether [`crate::parse_job`] reads every text in the same way under both. A job inherits from the settings, and its levels
    /// and resources are positions in theirs.
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
            standby: _,
            worker_resources_override: _,
            working_wait: _,
            // Slots of GPUs are compared below.
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

    /// Returns whether only the jobs differ.
    pub fn has_settings_of(&self, other: &Config) -> bool {
        let Config {
            enabled,
            levels,
            level_for_tasks,
            node_order,
            node_sources,
            policy,
            worker_selector,
            standby,
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
            && *standby == other.standby
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

/// The order in which the nodes of a level are tried. The first node starts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeOrder {
    /// The order of the sources.
    Original,
    Lexicographic,
    #[default]
    Random,
}

/// The job whose task is tried next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerPolicy {
    #[default]
    RoundRobin,
    RankedPriority,
    RandomizedPriority,
    LongTail,
}

/// The worker that gets a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerSelector {
    #[default]
    RoundRobin,
    Busiest,
    /// Prefers, of the workers that request work, first those that want instances, then those that lack most work.
    Neediest,
}

/// Slots that each node of one level has.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub name: String,
    pub level: LevelId,
    /// The slots that a job takes if its config does not say.
    pub default: i32,
    pub limit: ResourceLimit,
    pub weight: i32,
}

/// The number of slots that a node has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceLimit {
    Fixed(i32),
    /// The cores that the worker reports; unlimited if it reports none. Only for the implied `slots`.
    ReportedCores,
}

/// A source of nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeSource {
    /// Adds no nodes.
    Empty,
    Manual(ManualNodes),
    RangeLabel(RangeLabel),
    Script(ScriptSource),
    AddTime(AddTime),
}

impl NodeSource {
    /// Returns whether the source may give a disabled node at this level. Scripts print names only.
    fn disables_at(&self, level: LevelId) -> bool {
        match self {
            NodeSource::Empty | NodeSource::Script(_) => false,
            NodeSource::Manual(manual) => {
                let mut nodes = manual.nodes.iter();
                nodes.any(|node| node.level == level && !node.enabled)
            }
            NodeSource::RangeLabel(range) => range.parent_level.0 + 1 == level.0 && !range.enabled,
            NodeSource::AddTime(times) => times.level() == level,
        }
    }
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
    /// The naming by which `nodes` already has its full names.
    pub naming: NodeNaming,
}

/// One node of a `manual` source. `parent` is an index into the same list, which has parents before children.
#[derive(Clone, Debug, PartialEq)]
pub struct ManualNode {
    pub name: String,
    pub level: LevelId,
    /// `None` for a child of the instance node.
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
    /// A format with `{parent}`, `{i}`, `{start}`, `{end}`.
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
    /// The path of the program. The shell resolves relative paths against the config file's folder.
    pub script: PathBuf,
    pub timeout: Duration,
    pub naming: NodeNaming,
}

/// A child of every node of a level for each time of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddTime {
    pub parent_level: LevelId,
    /// A format with `{parent}` and `{time}`, which is in Unix seconds.
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

/// Recurring times, and how long each of them is a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleItem {
    pub cron: Cron,
    /// The lifetime of a node, from its time on; not zero.
    pub lifetime: Duration,
    /// The first part of the lifetime, in which the node is enabled.
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
    /// The amounts that a task takes of every resource, indexed by [`ResourceId`], with defaults filled in.
    pub resources: Vec<i32>,
    /// The `config` object as JSON text.
    pub config: String,
    pub filters: BTreeMap<LevelId, Filter>,
    pub level_for_host_placement: Option<LevelId>,
    pub host_placement: Option<String>,
    pub backoff: BackoffPolicy,
    /// The job waits for these jobs on the same node. Unknown names are permitted; the engine's explanations show them.
    pub depends_on: Vec<JobName>,
    /// The job waits until all tasks of these jobs are done, on every node.
    pub run_only_after_all_nodes_are_done_for: Vec<JobName>,
    pub kill_orphan_tasks_after: Option<Duration>,
    pub task_subprocess: TaskSubprocessOptions,
    pub kill_subprocess: KillRequest,
    /// Empty for the worker's `--worker-command`.
    pub command: Vec<String>,
    /// The estimated run time of a task; above 0.
    pub est_duration: Option<Duration>,
    /// Tasks may be queued at a worker until it has free processors, because no other task needs their node resources meanwhile.
    pub bufferable: bool,
    /// Limit for the job's running tasks; `None` for no limit but the resources.
    pub max_running: Option<u32>,
    /// When a worker that requests work reports completions; `None` for the worker's own setting.
    pub report: Option<ReportPolicy>,
    /// The files that each task leaves for other tasks: at most [`MAX_OUTPUTS`](crate::MAX_OUTPUTS), of which none lies in another.
    pub outputs: Vec<JobOutput>,
    pub keep: KeepOutputs,
    /// The files that each task needs: at most [`MAX_INPUTS`](crate::MAX_INPUTS), none at the place of another. The lists above have the jobs
    /// from which they come.
    pub inputs: Vec<JobInput>,
    /// How long a task waits for the worker with the most bytes of its inputs, at most; 0 for not at all.
    pub locality_wait: Duration,
    pub create_time: i64,
    pub modify_time: i64,
    /// -1 for none.
    pub version_id: i64,
    /// The reasons why the job cannot run, each with its place.
    pub errors: Vec<String>,
    /// An operator's hold. Neither a file nor an export has it: the scheduler stores it beside the job.
    pub hold: Option<Hold>,
}

impl JobConfig {
    pub fn can_run(&self) -> bool {
        self.enabled && self.hold.is_none() && self.errors.is_empty()
    }

    pub fn is_cancelled(&self) -> bool {
        self.hold == Some(Hold::Cancelled)
    }

    /// Returns whether other jobs may wait until all its tasks are done. A pause ends; other obstacles are permanent.
    pub fn can_be_waited_for(&self) -> bool {
        self.enabled && self.errors.is_empty()
    }

    /// Returns all jobs that it waits for in any way.
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

    /// Returns the longest run time of a task's process.
    pub fn timeout(&self) -> Option<Duration> {
        self.task_subprocess.timeout
    }

    /// Returns the time within which a task must be over, from the moment it is marked running.
    pub fn deadline(&self) -> Option<Duration> {
        self.task_subprocess.deadline
    }
}

/// The nodes of a level on which a job runs. All conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Empty for all nodes.
    pub whitelist: Vec<String>,
    /// Matched anywhere in the name; empty for all nodes.
    pub whitelist_regex: String,
    pub blacklist: Vec<String>,
    pub blacklist_regex: String,
    /// Empty for all nodes; otherwise a node needs at least one of these tags.
    pub tag_whitelist: Vec<String>,
    /// 1.0 for all nodes.
    pub fraction_of_nodes: f64,
}

impl Default for Filter {
    /// Returns the filter that every node passes.
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

/// A worker resource whose slots follow from the worker's machine: `max(0, trunc((reported - reserve) / multiply_logical_by))`. A machine
/// that reports nothing keeps the configured limit.
#[derive(Clone, Debug, PartialEq)]
pub struct PhysicalResource {
    pub kind: PhysicalKind,
    /// A resource of level `worker`. Each has at most one entry.
    pub logical_resource: ResourceId,
    /// Physical units in a slot; not within 1e-12 of 0.
    pub multiply_logical_by: f64,
    pub enforcement: Enforcement,
    /// Physical units that are kept back; may be negative.
    pub physical_reserve_amount: f64,
}

/// A measured property of a machine.
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

    /// Returns the ways to enforce a task's amount of this kind.
    pub fn enforcements(self) -> &'static [Enforcement] {
        match self {
            PhysicalKind::RamMb => &[Enforcement::None, Enforcement::Hard],
            PhysicalKind::CpuCore => &[Enforcement::None, Enforcement::Soft, Enforcement::Hard],
            PhysicalKind::GpuCard => &[Enforcement::None],
        }
    }
}

/// Whether a task can use more of a machine than its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// The task can use more.
    #[default]
    None,
    /// The task can use more while no other task needs it.
    Soft,
    /// The task cannot use more.
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
