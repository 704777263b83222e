//! Read-only queries: listings, counts, task arguments, problems, and the memory of a copy.

use std::borrow::Cow;
use std::collections::BTreeMap;

use brasserie_common::cluster_view::SlotsView;
use brasserie_common::status::StoredStatus;
use brasserie_common::{
    BackoffDuration, BackoffPolicy, FailedTries, JobId, JobName, NodeId, NodeName, Shard,
    StatusBits, Time,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::Engine;
use crate::pool::limits::machine_limits;
use crate::queues::columns::Columns;
use crate::queues::gates::{Gate, WAITING};
use crate::slots::Charge;
use crate::tasks::job::Job;
use crate::tasks::runs::{PlacedRun, RunPath};
use crate::types::{Counts, MachineLimits, Task, TaskState};

/// The most problems that are listed: more than a person reads, few enough for one frame.
const MAX_PROBLEMS: usize = 200;

/// Assumed charges of one run: few resources at a few levels.
const CHARGES: usize = 8;
/// Bytes that a run takes in other tables: the slots in use, and its entry among the runs of its worker.
const RUN_ELSEWHERE: usize = 128;

/// The last argument of a run's command. Names are sorted, so that equal arguments are equal texts.
#[derive(Serialize)]
struct Argument<'a> {
    config: &'a Value,
    id: &'a str,
    path_to_node: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    prev_status: Option<Value>,
    resources_by_node: BTreeMap<&'a str, BTreeMap<&'a str, i32>>,
    worker_host: &'a str,
    worker_node: &'a str,
}

impl Engine {
    /// Returns the backoff step that a run of the task would take now.
    pub fn next_backoff(&self, task: Task) -> BackoffDuration {
        let current = self
            .previous_status(task)
            .map(|status| status.configured_backoff())
            .unwrap_or_default();
        self.backoff_of(task.job).next(current)
    }

    /// Returns how many tries of the task have failed; `None` without a status, or if the number is unknown.
    pub fn failed_tries(&self, task: Task) -> Option<FailedTries> {
        let status = self.previous_status(task)?;
        status.failed_tries(&self.backoff_of(task.job))
    }

    fn backoff_of(&self, job: JobId) -> Cow<'_, BackoffPolicy> {
        match (self.job_config(job), &self.config) {
            (Some(job), _) => Cow::Borrowed(&job.backoff),
            (None, Some(config)) => Cow::Borrowed(&config.backoff),
            (None, None) => Cow::Owned(BackoffPolicy::default()),
        }
    }

    /// Returns the status of the task's last run.
    pub fn previous_status(&self, task: Task) -> Option<StoredStatus> {
        self.tasks.get(task.job)?.statuses.get(task.node)
    }

    /// Returns the nodes, sorted by id, on which the job's status is not done, whether or not they are in the forest.
    pub fn unfinished_nodes(&self, job: JobId) -> Vec<NodeId> {
        let statuses = self.tasks.get(job).map(|job| &job.statuses);
        let unfinished = statuses.into_iter().flat_map(|all| all.iter());
        let unfinished = unfinished.filter(|(_, status)| !status.is_done());
        let mut nodes: Vec<NodeId> = unfinished.map(|(node, _)| node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns the nodes, sorted by id, on which the job has a status, whether or not they are in the forest.
    pub fn ended_nodes(&self, job: JobId) -> Vec<NodeId> {
        let statuses = self.tasks.get(job).map(|job| &job.statuses);
        let all = statuses.into_iter().flat_map(|all| all.iter());
        let mut nodes: Vec<NodeId> = all.map(|(node, _)| node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns the names on a task's path, root first and its own node last: the path that a running task was placed along, else its node's
    /// first path. Returns the node alone if the forest does not have it.
    pub fn path(&self, task: Task) -> Vec<NodeName> {
        let placed_on = match self.tasks.run(task).map(|run| &run.path) {
            Some(RunPath::Nodes(nodes)) => return self.names(nodes),
            Some(RunPath::Row(row)) => Some(*row),
            Some(RunPath::Unknown) | None => None,
        };
        let row = self.forest.as_ref().and_then(|forest| {
            if placed_on.is_some() {
                return placed_on;
            }
            let level = self.tasks.get(task.job).and_then(|job| job.level);
            let row = level.and_then(|level| forest.row_of(level, task.node));
            row.or_else(|| forest.any_row_of(task.node))
        });
        match (&self.forest, row) {
            (Some(forest), Some(row)) => self.names(&forest.path(row)),
            (_, _) => vec![self.node_name(task.node)],
        }
    }

    fn names(&self, nodes: &[NodeId]) -> Vec<NodeName> {
        nodes.iter().map(|n| self.node_name(*n)).collect()
    }

    /// Returns whether a node of this name is itself enabled, at any level. Its ancestors may be disabled.
    pub fn has_enabled_node(&self, node: NodeId) -> bool {
        let forest = self.forest.as_ref();
        forest.is_some_and(|forest| forest.has_enabled(node))
    }

    /// Returns the JSON object that a run gets as its last argument.
    pub fn task_argument(&self, task: Task, shard: &Shard, hostname: &str) -> String {
        let path = self.path(task);
        let path: Vec<&str> = path.iter().map(NodeName::as_str).collect();
        let config = self
            .job_config(task.job)
            .and_then(|job| serde_json::from_str::<Value>(&job.config).ok())
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({}));
        let charges = self.charges(task);
        let mut resources: BTreeMap<&str, BTreeMap<&str, i32>> = BTreeMap::new();
        for on in &charges {
            let amounts = resources.entry(on.node.as_str()).or_default();
            for amount in &on.resources {
                amounts.insert(&amount.name, amount.amount);
            }
        }
        let previous = self.previous_status(task);
        let previous = previous.filter(|status| !status.is_of_no_run());
        let argument = Argument {
            config: &config,
            id: self.job_name(task.job).as_str(),
            path_to_node: &path,
            prev_status: previous.map(|status| status.to_json()),
            resources_by_node: resources,
            worker_host: hostname,
            worker_node: shard.as_str(),
        };
        serde_json::to_string(&argument)
            .expect("Invariant: texts and numbers can be written as JSON")
    }

    /// Returns the machine limits of a running task, from the slots charged at its start and the configuration in force.
    pub fn machine_limits(&self, task: Task) -> MachineLimits {
        let (Some(config), Some(run)) = (&self.config, self.tasks.run(task)) else {
            return MachineLimits::default();
        };
        let worker = self.pool.get_any(run.worker).map(|w| w.node);
        let of_worker = |charge: &&Charge| Some(charge.node) == worker;
        machine_limits(config, |id| {
            let taken = run.charges.iter().filter(of_worker);
            taken
                .filter(|charge| self.slots.find(charge.resource) == Some(id))
                .fold(0, |sum: i32, charge| sum.saturating_add(charge.amount))
        })
    }

    /// Returns the slots of a worker, one entry for each resource of the worker level, in the order of the configuration. Slots of tasks that
    /// stand by are not in use. Empty without a configuration, and for an unknown worker.
    pub fn worker_slots(&self, shard: &str) -> Vec<SlotsView> {
        let worker = self.pool.find(shard).and_then(|index| self.pool.get(index));
        let (Some(config), Some(worker)) = (&self.config, worker) else {
            return Vec::new();
        };
        let resources = self.slots.of_workers().iter();
        let slots = resources.zip(&worker.limits).map(|(id, limit)| SlotsView {
            resource: config.resources[id.index()].name.clone(),
            in_use: self.slots.used(worker.node, *id) - worker.standby.used(self.slots.name(*id)),
            limit: (*limit != i32::MAX).then_some(i64::from(*limit)),
        });
        slots.collect()
    }

    /// Returns the numbers of the job's tasks by state. Each transition keeps them up to date.
    pub fn counts(&self, job: JobId) -> Counts {
        let Some(columns) = self.queues.columns().get(job.index()) else {
            return Counts::default();
        };
        let of = |state| columns.count(state);
        let mut counts = Counts {
            total: 0,
            unstarted: of(TaskState::Unstarted),
            running: of(TaskState::Running),
            done: of(TaskState::Done),
            incomplete: of(TaskState::Incomplete),
            error: of(TaskState::Error),
            in_backoff: of(TaskState::InBackoff),
            failed: of(TaskState::Failed),
            never: of(TaskState::Never),
            avoided: of(TaskState::Avoided),
            disabled: of(TaskState::Disabled),
        };
        if columns.gate == Gate::Hopeless {
            for waiting in [
                &mut counts.unstarted,
                &mut counts.incomplete,
                &mut counts.error,
                &mut counts.in_backoff,
            ] {
                counts.never += std::mem::take(waiting);
            }
        }
        counts.total = columns.len() as u64 - counts.avoided - counts.disabled;
        counts
    }

    /// Returns when the first wait of the job's tasks ends.
    pub fn next_backoff_end(&self, job: JobId) -> Option<Time> {
        self.tasks.waits().next_of(job)
    }

    /// Returns whether no task of the job runs or can start while configuration, nodes, workers and other jobs' results stay as they are.
    /// False before there are a configuration and nodes.
    pub fn is_settled(&self, job: JobId) -> bool {
        let columns = &self.queues.columns().get(job.index());
        let (Some(job), Some(columns), Some(_)) = (self.tasks.get(job), columns, &self.forest)
        else {
            return false;
        };
        let may_run = job.can_run && columns.gate != Gate::Hopeless;
        job.running == 0 && (!may_run || columns.count_all(&WAITING) == 0)
    }

    /// Iterates over the job's tasks on the nodes of its level, in scheduling order, including avoided and disabled ones.
    pub fn tasks(&self, job: JobId) -> impl Iterator<Item = Task> + '_ {
        self.tasks_from(job, 0).map(|(_, task)| task)
    }

    /// Iterates over the job's tasks in scheduling order from index `place` on, each with its index.
    pub fn tasks_from(&self, job: JobId, place: usize) -> impl Iterator<Item = (usize, Task)> + '_ {
        let level = self.tasks.get(job).and_then(|job| {
            job.config.as_ref()?;
            job.level
        });
        let forest = self.forest.as_ref();
        let order = forest
            .zip(level)
            .map_or(&[][..], |(forest, level)| forest.order(level));
        let rest = order.iter().enumerate().skip(place);
        rest.filter_map(move |(place, row)| {
            let node = forest?.node(*row);
            Some((place, Task { job, node }))
        })
    }

    /// Returns the job's tasks with their states, in scheduling order: all of them, or those directly below a node.
    pub fn tasks_below(&self, job: JobId, below: Option<NodeId>) -> Vec<(Task, TaskState)> {
        let level = self.tasks.get(job).and_then(|known| {
            known.config.as_ref()?;
            known.level
        });
        let (Some(forest), Some(level)) = (&self.forest, level) else {
            return Vec::new();
        };
        let is_below = |row: u32, above: NodeId| {
            let parent = |row: u32| forest.parent(row).map(|parent| forest.node(parent));
            forest.rows(row).any(|row| parent(row) == Some(above))
        };
        let queue = self.queues.of(job);
        let rows = forest.order(level).iter().enumerate();
        let rows = rows.filter(|(_, row)| below.is_none_or(|above| is_below(**row, above)));
        let task = |(position, row): (usize, &u32)| {
            let node = forest.node(*row);
            // Invariant: a level has fewer than 2^32 nodes.
            (Task { job, node }, queue.shown_state(position as u32))
        };
        rows.map(task).collect()
    }

    /// Returns the task's index in scheduling order; `None` if its job has no such task.
    pub fn place_of(&self, task: Task) -> Option<usize> {
        self.job_config(task.job)?;
        let position = self
            .queues
            .position_of(self.forest.as_ref()?, &self.tasks, task)?;
        Some(position as usize)
    }

    /// Returns a bound for job ids: the id of every known job is lower.
    pub fn job_ids(&self) -> u32 {
        // Invariant: ids are 32 bits.
        self.tasks.len() as u32
    }

    /// Returns the task's state; `Disabled` for a node that is not at the job's level and on which the job has no status.
    pub fn task_state(&self, task: Task) -> TaskState {
        if self.is_running(task) {
            return TaskState::Running;
        }
        let Some(job) = self.tasks.get(task.job) else {
            return TaskState::Disabled;
        };
        let forest = self.forest.as_ref();
        let position = forest.and_then(|forest| self.queues.position_of(forest, &self.tasks, task));
        match (position, job.statuses.bits(task.node)) {
            (Some(position), _) => self.queues.of(task.job).shown_state(position),
            (None, Some(bits)) if bits.has(StatusBits::DONE) => TaskState::Done,
            (None, Some(bits)) if bits.has(StatusBits::FAILED) => TaskState::Failed,
            (None, Some(_) | None) => TaskState::Disabled,
        }
    }

    /// Returns problems for people, at most `MAX_PROBLEMS`: mistakes in the configuration, charges that match nothing, slots taken beyond
    /// their limit, and jobs that can never run.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.config_problems.clone();
        let configured = self.tasks.configured().iter().map(|id| self.tasks.job(*id));
        problems.extend(configured.flat_map(|job| job.filter_problems.iter().cloned()));
        problems.extend(self.tasks.dependency_problems());
        let mut tasks: Vec<Task> = self.tasks.runs().keys().collect();
        tasks.sort_unstable();
        for task in tasks {
            if problems.len() >= MAX_PROBLEMS {
                break;
            }
            if let Some(run) = self.tasks.run(task) {
                problems.extend(self.unknown_charges(task, run.worker, &run.charges));
            }
        }
        self.add_overcommitted(&mut problems);
        let room = MAX_PROBLEMS.saturating_sub(problems.len());
        problems.extend(self.infeasible_jobs().take(room));
        if problems.len() > MAX_PROBLEMS {
            let more = problems.len() - MAX_PROBLEMS;
            problems.truncate(MAX_PROBLEMS);
            problems.push(format!("and {more} more"));
        }
        problems
    }

    /// Returns about how many bytes a copy takes for names, statuses, waits and running tasks. This includes nodes and jobs that are gone,
    /// so the number of nodes and tasks in force does not bound it. Excludes everything derived from the configuration and the nodes in
    /// force. Visits each job.
    pub fn remembered_bytes(&self) -> usize {
        let of_job = |job: &Job| size_of::<Job>() + job.statuses.bytes();
        let tally = |columns: &Columns| columns.tally.get().map_or(0, |tally| tally.bytes());
        // Each name is stored in two tables.
        let job_name = 2 * size_of::<JobName>() + size_of::<u32>();
        let run = size_of::<(Task, PlacedRun)>() + CHARGES * size_of::<Charge>() + RUN_ELSEWHERE;
        self.node_names.bytes()
            + self.tasks.len() * job_name
            + self.tasks.jobs().iter().map(of_job).sum::<usize>()
            + self.queues.columns().iter().map(tally).sum::<usize>()
            + self.tasks.waits().bytes()
            + self.tasks.runs().capacity() * run
    }

    fn add_overcommitted(&self, problems: &mut Vec<String>) {
        let Some(config) = &self.config else {
            return;
        };
        for ((node, name), used) in self.slots.all_used() {
            let Some(id) = self.slots.find(name) else {
                continue;
            };
            let text = self.node_text(node);
            let level = config.resources[id.index()].level;
            let mut executing = used;
            let limit = if level == config.worker_level() {
                let ids = self.slots.of_workers();
                let slot = ids.iter().position(|i| *i == id);
                let worker = self.pool.find(text).and_then(|w| self.pool.get(w));
                // A pull worker queues tasks that its processors are too few for.
                let worker = worker.filter(|worker| !worker.queues_for(id));
                executing -= worker.map_or(0, |worker| worker.standby.used(name));
                worker.and_then(|w| w.limits.get(slot?).copied())
            } else {
                // Charges of tasks on removed nodes are a separate problem, see `unknown_charges`.
                let forest = self.forest.as_ref();
                let row = forest.and_then(|forest| forest.row_of(level, node));
                row.map(|_| self.slots.limit(id))
            };
            if let Some(limit) = limit
                && executing > i64::from(limit)
            {
                problems.push(format!(
                    "{executing} of `{}` are taken on `{text}`, which has {limit}; nothing that needs it starts there until running tasks end",
                    config.resources[id.index()].name
                ));
            }
        }
    }
}
