//! Decides which tasks could start but for slots, and keeps the result in small columns. Placement and explanations share the predicates.

use std::collections::BTreeSet;

use brasserie_common::{JobId, NodeId, StatusBits};

use super::Queues;
use super::columns::Columns;
use crate::forest::Forest;
use crate::forest::filter::JobFilters;
use crate::tasks::Tasks;
use crate::tasks::job::Job;
use crate::types::{Task, TaskState};
use crate::work::WorkBudget;

/// Nanoseconds to look up a task's status, waits and dependencies, each anywhere in memory.
const CLASSIFY_COST: u64 = 250;
/// Nanoseconds to check a replica, anywhere in memory, and the nodes above it.
const REPLICA_COST: u64 = 300;

/// Progress of filling a job's columns.
///
/// ```text
///                  +----------------+
///                  v                |
///   Allocate --> Tasks(step) --> Replicas(step, row)
///                  |
///                  +--> whole
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Positions exist for some of the tasks.
    Allocate,
    /// Tasks before this step of the scan are classified.
    Tasks(usize),
    /// The replicas before this row do not let the task of this step run.
    Replicas(usize, u32),
}

/// Whether the forest lets a job run on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    Open,
    /// This row, the nearest such one, is disabled.
    Disabled(u32),
    /// The filter for this row's level excludes the row.
    Avoided(u32),
}

/// A job's state on a node, as a job that depends on it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    Done,
    /// The job may still become done there.
    Open,
    /// The job cannot become done there unless the configuration, the nodes or the workers change, or a person acts.
    Hopeless,
}

/// The tasks that a refresh of one task updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The task alone. Its dependents follow only if it becomes hopeless or stops being so.
    Own,
    /// The task and its dependents.
    Dependents,
}

impl Queues {
    /// Recomputes the columns of a job.
    pub(super) fn rebuild_job(&mut self, forest: &Forest, tasks: &Tasks, id: JobId) {
        self.move_gate(tasks, id);
        self.reset(id);
        self.fill(
            forest,
            tasks,
            id,
            Filling::Allocate,
            &mut WorkBudget::endless(),
        );
        self.touch(id);
    }

    /// Continues to fill the job's columns. Returns their progress if the budget is spent.
    pub(crate) fn fill(
        &mut self,
        forest: &Forest,
        tasks: &Tasks,
        id: JobId,
        first: Filling,
        work: &mut WorkBudget,
    ) -> Option<Filling> {
        // Invariant: a configured job has a level, and only configured jobs get columns.
        let level = tasks.job(id).level.expect("a configured job");
        // The columns are taken out, so that they can be written while everything else is read. A job's classification reads nothing in its
        // own columns.
        let mut columns = std::mem::take(&mut self.columns[id.index()]);
        let rest = match first {
            Filling::Allocate if !columns.make_room(forest.order(level).len(), work) => {
                Some(Filling::Allocate)
            }
            Filling::Allocate => {
                self.fill_tasks((forest, tasks), (id, &mut columns), (0, None), work)
            }
            Filling::Tasks(step) => {
                self.fill_tasks((forest, tasks), (id, &mut columns), (step, None), work)
            }
            Filling::Replicas(step, row) => {
                self.fill_tasks((forest, tasks), (id, &mut columns), (step, Some(row)), work)
            }
        };
        columns.are_whole = rest.is_none();
        self.columns[id.index()] = columns;
        rest
    }

    /// Classifies a job's tasks from a step of the scan on, and the task of that step from a replica on.
    fn fill_tasks(
        &self,
        (forest, tasks): (&Forest, &Tasks),
        (id, columns): (JobId, &mut Columns),
        (first, mut replica): (usize, Option<u32>),
        work: &mut WorkBudget,
    ) -> Option<Filling> {
        let job = tasks.job(id);
        // Invariant: as in `fill`.
        let scan = forest.scan(job.level.expect("a configured job"));
        for step in first..forest.scan_len(scan) {
            if !work.is_left() {
                let within = replica.map(|row| Filling::Replicas(step, row));
                return Some(within.unwrap_or(Filling::Tasks(step)));
            }
            work.spend(CLASSIFY_COST);
            let Some(row) = forest.scanned(scan, step) else {
                continue;
            };
            let from = replica.take().unwrap_or(row);
            let (state, eligible) = if runs(forest, tasks, id, row) {
                (TaskState::Running, false)
            } else {
                match structure_from(forest, tasks, id, (row, from), work) {
                    Ok(structure) => self.classify_idle(forest, tasks, (id, row), structure),
                    Err(next) => return Some(Filling::Replicas(step, next)),
                }
            };
            let position = forest.position(row);
            columns.set_state(position, state);
            if eligible {
                columns.set_eligible(position);
                columns.ready.insert(position as usize);
            } else if columns.is_eligible(position) {
                // A refresh of this task came before.
                columns.clear_eligible(position);
                columns.ready.remove(position as usize);
            }
        }
        None
    }

    /// Returns the task's state, and whether it lacks nothing but slots.
    fn classify(&self, forest: &Forest, tasks: &Tasks, id: JobId, row: u32) -> (TaskState, bool) {
        if runs(forest, tasks, id, row) {
            return (TaskState::Running, false);
        }
        let rows = (row, row);
        let structure = structure_from(forest, tasks, id, rows, &mut WorkBudget::endless());
        let structure = structure.expect("Invariant: endless work is never out");
        self.classify_idle(forest, tasks, (id, row), structure)
    }

    /// Does the same for a task that does not run.
    fn classify_idle(
        &self,
        forest: &Forest,
        tasks: &Tasks,
        (id, row): (JobId, u32),
        structure: Structure,
    ) -> (TaskState, bool) {
        match structure {
            Structure::Open => {}
            Structure::Disabled(_) => return (TaskState::Disabled, false),
            Structure::Avoided(_) => return (TaskState::Avoided, false),
        }
        let (job, node) = (tasks.job(id), forest.node(row));
        let task = Task { job: id, node };
        let status = job.statuses.bits(node);
        if let Some(bits) = status {
            if bits.has(StatusBits::DONE) {
                return (TaskState::Done, false);
            }
            if bits.has(StatusBits::FAILED) {
                return (TaskState::Failed, false);
            }
        }
        let dependencies = self.dependencies(forest, tasks, job, node);
        if job.infeasible || dependencies == Dependency::Hopeless {
            return (TaskState::Never, false);
        }
        if tasks.waits().get(task).is_some() {
            // A task that has not run waits for something else, such as an input.
            let has_run = status.is_some_and(|bits| !has_not_begun(bits));
            let state = match has_run {
                true => TaskState::InBackoff,
                false => resting_state(status),
            };
            return (state, false);
        }
        let eligible = job.can_run
            && dependencies == Dependency::Done
            && !tasks.waits().is_held(task)
            && !tasks.locality().is_waiting(task);
        (resting_state(status), eligible)
    }

    fn dependencies(&self, forest: &Forest, tasks: &Tasks, job: &Job, node: NodeId) -> Dependency {
        let mut all = Dependency::Done;
        for &on in &job.depends_on {
            if tasks.is_done(Task { job: on, node }) {
                continue;
            }
            // A job in a cycle must not read states that follow from its own.
            if job.cyclic || self.dependency(forest, tasks, on, node) == Dependency::Hopeless {
                return Dependency::Hopeless;
            }
            all = Dependency::Open;
        }
        all
    }

    /// Returns the state of a job on a node as a dependent sees it.
    pub(crate) fn dependency(
        &self,
        forest: &Forest,
        tasks: &Tasks,
        id: JobId,
        node: NodeId,
    ) -> Dependency {
        let job = tasks.job(id);
        let task = Task { job: id, node };
        if tasks.is_running(task) {
            return Dependency::Open;
        }
        if tasks.is_done(task) {
            return Dependency::Done;
        }
        if job.config.is_none() || !job.can_run {
            return Dependency::Hopeless;
        }
        let position = self.position_of(forest, tasks, task);
        match position.map(|p| self.of(id).shown_state(p)) {
            None => Dependency::Hopeless,
            Some(state) if is_hopeless(state) => Dependency::Hopeless,
            Some(_) => Dependency::Open,
        }
    }

    /// Updates a task, and through it the tasks that depend on it. Returns the jobs whose columns no longer hold.
    pub(crate) fn refresh(
        &mut self,
        forest: &Forest,
        tasks: &Tasks,
        task: Task,
        reach: Reach,
    ) -> BTreeSet<JobId> {
        let row = self.row_of(forest, tasks, task);
        let mut open = Vec::new();
        let mut changed = BTreeSet::new();
        let mut next = Some((task, row, reach));
        // Terminates: `dependencies` cuts cycles, and without them hopelessness spreads along a finite acyclic graph.
        while let Some((task, row, reach)) = next.take().or_else(|| open.pop()) {
            let hope_changed = row.is_some_and(|row| self.refresh_one(forest, tasks, task, row));
            changed.extend(self.spread_hope(tasks, task.job));
            if hope_changed || reach == Reach::Dependents {
                let dependents = tasks.job(task.job).dependents.iter();
                open.extend(dependents.map(|&job| {
                    let node = task.node;
                    let task = Task { job, node };
                    (task, self.row_of(forest, tasks, task), Reach::Own)
                }));
            }
        }
        changed
    }

    /// Returns the task's canonical row, if its job's columns have it.
    fn row_of(&self, forest: &Forest, tasks: &Tasks, task: Task) -> Option<u32> {
        let job = tasks.get(task.job)?;
        let row = forest.row_of(job.level?, task.node)?;
        let columns = self.of(task.job);
        ((forest.position(row) as usize) < columns.len()).then_some(row)
    }

    /// Updates one task. Returns whether dependents see another [`Dependency`].
    fn refresh_one(&mut self, forest: &Forest, tasks: &Tasks, task: Task, row: u32) -> bool {
        let id = task.job;
        let position = forest.position(row);
        let (state, eligible) = self.classify(forest, tasks, id, row);
        let columns = &mut self.columns[id.index()];
        let before = columns.set_state(position, state);
        if eligible {
            if !columns.is_eligible(position) {
                columns.set_eligible(position);
                columns.ready.insert(position as usize);
                self.touch(id);
            }
        } else if columns.is_eligible(position) {
            columns.clear_eligible(position);
            self.leave(forest, tasks, (id, row));
        }
        self.count_again(forest, tasks, id, row);
        is_hopeless(before) != is_hopeless(state)
    }

    /// Returns the task's position in its job's columns.
    pub(crate) fn position_of(&self, forest: &Forest, tasks: &Tasks, task: Task) -> Option<u32> {
        self.row_of(forest, tasks, task)
            .map(|row| forest.position(row))
    }
}

fn runs(forest: &Forest, tasks: &Tasks, id: JobId, row: u32) -> bool {
    let node = forest.node(row);
    tasks.job(id).running > 0 && tasks.is_running(Task { job: id, node })
}

/// Combines all replicas of a node, from one row on, because the rows before it are not open: open if one of them is. Errors with the row to
/// continue with if the budget is spent.
fn structure_from(
    forest: &Forest,
    tasks: &Tasks,
    id: JobId,
    (canonical, from): (u32, u32),
    work: &mut WorkBudget,
) -> Result<Structure, u32> {
    let first = structure(forest, tasks, id, canonical);
    if first == Structure::Open || !forest.has_replicas() {
        return Ok(first);
    }
    let replicas = forest.rows(from).filter(|row| *row != canonical);
    for row in replicas {
        if row != from && !work.is_left() {
            return Err(row);
        }
        work.spend(REPLICA_COST);
        if structure(forest, tasks, id, row) == Structure::Open {
            return Ok(Structure::Open);
        }
    }
    Ok(first)
}

/// Returns whether a job runs on a row.
pub(crate) fn structure(forest: &Forest, tasks: &Tasks, id: JobId, row: u32) -> Structure {
    structure_of(forest, &tasks.job(id).filters, tasks.name(id).as_str(), row)
}

/// Returns whether a job with this name and these filters runs on a row. Checks the path from the node to the root; the first negative
/// answer wins.
pub(crate) fn structure_of(
    forest: &Forest,
    filters: &JobFilters,
    name: &str,
    row: u32,
) -> Structure {
    if filters.is_empty() && forest.is_open(row) {
        return Structure::Open;
    }
    for above in forest.upward(row) {
        if !forest.own_enabled(above) {
            return Structure::Disabled(above);
        }
        let filter = forest.level(above).and_then(|level| filters.at(level));
        if filter.is_some_and(|f| !f.passes(name, forest.name(above), forest.tags(above))) {
            return Structure::Avoided(above);
        }
    }
    Structure::Open
}

fn is_hopeless(state: TaskState) -> bool {
    match state {
        TaskState::Failed | TaskState::Never | TaskState::Avoided | TaskState::Disabled => true,
        TaskState::Unstarted
        | TaskState::Running
        | TaskState::Done
        | TaskState::Incomplete
        | TaskState::Error
        | TaskState::InBackoff => false,
    }
}

/// Returns whether the last run was taken back before it began.
fn has_not_begun(status: StatusBits) -> bool {
    let has = |bits| status.has(bits);
    has(StatusBits::OVERWRITEABLE) && has(StatusBits::INCOMPLETE) && !has(StatusBits::USES_BACKOFF)
}

/// Returns the state of a task that neither runs nor waits and is not final.
fn resting_state(status: Option<StatusBits>) -> TaskState {
    match status {
        None => TaskState::Unstarted,
        Some(bits) if bits.has(StatusBits::INCOMPLETE) => TaskState::Incomplete,
        Some(_) => TaskState::Error,
    }
}
