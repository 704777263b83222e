//! Decides which tasks could start but for slots, and keeps the result in small columns. Placement and explanations share the predicates.

use std::collections::BTreeSet;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, NodeId, StatusBits};

use super::refresh::Side;
use super::{Engine, Reach};
use crate::forest::filter::JobFilters;
use crate::forest::index::Forest;
use crate::pool::HasReady;
use crate::statuses::columns::Columns;
use crate::statuses::gate::Gate;
use crate::tasks::job::Job;
use crate::types::{Task, TaskState};
use crate::work::Work;

/// Nanoseconds to look up a task's status, waits and dependencies, each anywhere in memory.
const CLASSIFY_COST: u64 = 250;
/// Nanoseconds to check a replica, anywhere in memory, and the nodes above it.
const REPLICA_COST: u64 = 300;

/// Progress of filling a job's columns.
///
/// ```text
///              +----------------+
///              v                |
///   Room --> Tasks(step) --> Replicas(step, row)
///              |
///              +--> whole
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// Positions exist for some of the tasks.
    Room,
    /// Tasks before this step of the scan are classified.
    Tasks(usize),
    /// The replicas before this row do not let the task of this step run.
    Replicas(usize, u32),
}

/// Whether the forest lets a job run on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    Open,
    /// This row, the nearest such one, is disabled.
    Disabled(u32),
    /// The filter for this row's level excludes the row.
    Avoided(u32),
}

/// A job's state on a node, as a job that depends on it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    Done,
    /// The job may still become done there.
    Open,
    /// The job cannot become done there unless the configuration, the nodes or the workers change, or a person acts.
    Hopeless,
}

impl Engine {
    pub(super) fn rebuild_columns(&mut self) {
        self.pool.clear_active();
        let Some(mut forest) = self.forest.take() else {
            return;
        };
        self.index_forest(&mut forest, self.tasks.configured());
        for i in 0..self.tasks.len() {
            if self.tasks.jobs()[i].config.is_none() {
                self.columns[i].reset();
            }
        }
        self.rebuild_in_order(&forest, self.tasks.configured().iter().copied().collect());
        self.look_at_root(&forest);
        self.forest = Some(forest);
    }

    pub(super) fn rebuild_job(&mut self, forest: &Forest, id: JobId) {
        self.move_gate(id);
        self.begin_columns(id);
        self.fill_columns(forest, id, Filling::Room, &mut Work::endless());
        self.sync_active(id);
    }

    /// Computes whether the job is infeasible: no worker could ever run it, or no node ever has what it needs.
    pub(super) fn look_whether_infeasible(&mut self, id: JobId) {
        let job = self.tasks.job(id);
        let infeasible = job.unmeetable.is_some() || self.pool.is_infeasible(job.demand);
        self.tasks.set_infeasible(id, infeasible);
    }

    pub(super) fn begin_columns(&mut self, id: JobId) {
        self.look_whether_infeasible(id);
        self.columns[id.index()].reset();
    }

    /// Continues to fill the job's columns. Returns their progress if the budget is spent.
    pub(super) fn fill_columns(
        &mut self,
        forest: &Forest,
        id: JobId,
        first: Filling,
        work: &mut Work,
    ) -> Option<Filling> {
        // Invariant: a configured job has a level, and only configured jobs get columns.
        let level = self.tasks.job(id).level.expect("a configured job");
        // The columns are taken out, so that they can be written while everything else is read. A job's classification reads nothing in its
        // own columns.
        let mut columns = std::mem::take(&mut self.columns[id.index()]);
        let rest = match first {
            Filling::Room if !columns.make_room(forest.order(level).len(), work) => {
                Some(Filling::Room)
            }
            Filling::Room => self.fill_tasks(forest, (id, &mut columns), (0, None), work),
            Filling::Tasks(step) => self.fill_tasks(forest, (id, &mut columns), (step, None), work),
            Filling::Replicas(step, row) => {
                self.fill_tasks(forest, (id, &mut columns), (step, Some(row)), work)
            }
        };
        columns.are_whole = rest.is_none();
        self.columns[id.index()] = columns;
        rest
    }

    /// Classifies a job's tasks from a step of the scan on, and the task of that step from a replica on.
    fn fill_tasks(
        &self,
        forest: &Forest,
        (id, columns): (JobId, &mut Columns),
        (first, mut replica): (usize, Option<u32>),
        work: &mut Work,
    ) -> Option<Filling> {
        let job = self.tasks.job(id);
        // Invariant: as in `fill_columns`.
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
            let (state, eligible) = if self.runs(forest, job, id, row) {
                (TaskState::Running, false)
            } else {
                match self.structure_from(forest, (id, job), (row, from), work) {
                    Ok(structure) => self.classify_idle(forest, (id, job), row, structure),
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

    fn runs(&self, forest: &Forest, job: &Job, id: JobId, row: u32) -> bool {
        let node = forest.node(row);
        job.running > 0 && self.is_running(Task { job: id, node })
    }

    /// Returns the task's state, and whether it lacks nothing but slots.
    fn classify(&self, forest: &Forest, job: &Job, id: JobId, row: u32) -> (TaskState, bool) {
        if self.runs(forest, job, id, row) {
            return (TaskState::Running, false);
        }
        let structure = self.task_structure(forest, job, id, row);
        self.classify_idle(forest, (id, job), row, structure)
    }

    /// Does the same for a task that does not run.
    fn classify_idle(
        &self,
        forest: &Forest,
        (id, job): (JobId, &Job),
        row: u32,
        structure: Structure,
    ) -> (TaskState, bool) {
        match structure {
            Structure::Open => {}
            Structure::Disabled(_) => return (TaskState::Disabled, false),
            Structure::Avoided(_) => return (TaskState::Avoided, false),
        }
        let node = forest.node(row);
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
        let dependencies = self.dependencies(forest, job, node);
        if job.infeasible || dependencies == Dependency::Hopeless {
            return (TaskState::Never, false);
        }
        if self.tasks.wait(task).is_some() {
            return (TaskState::InBackoff, false);
        }
        let eligible = job.can_run && dependencies == Dependency::Done && !self.tasks.is_held(task);
        (resting_state(status), eligible)
    }

    /// Combines all replicas: open if one of them is.
    pub(super) fn task_structure(
        &self,
        forest: &Forest,
        job: &Job,
        id: JobId,
        canonical: u32,
    ) -> Structure {
        let rows = (canonical, canonical);
        let structure = self.structure_from(forest, (id, job), rows, &mut Work::endless());
        structure.expect("Invariant: endless work is never out")
    }

    /// Does the same from one row on, because the rows before it are not open. Errors with the row to continue with if the budget is spent.
    fn structure_from(
        &self,
        forest: &Forest,
        (id, job): (JobId, &Job),
        (canonical, from): (u32, u32),
        work: &mut Work,
    ) -> Result<Structure, u32> {
        let first = self.structure(forest, job, id, canonical);
        if first == Structure::Open || !forest.has_replicas() {
            return Ok(first);
        }
        let replicas = forest.rows(from).filter(|row| *row != canonical);
        for row in replicas {
            if row != from && !work.is_left() {
                return Err(row);
            }
            work.spend(REPLICA_COST);
            if self.structure(forest, job, id, row) == Structure::Open {
                return Ok(Structure::Open);
            }
        }
        Ok(first)
    }

    /// Checks the path from the node to the root; the first negative answer wins.
    pub(super) fn structure(&self, forest: &Forest, job: &Job, id: JobId, row: u32) -> Structure {
        structure_of(forest, &job.filters, self.tasks.name(id).as_str(), row)
    }

    fn dependencies(&self, forest: &Forest, job: &Job, node: NodeId) -> Dependency {
        let mut all = Dependency::Done;
        for &on in &job.depends_on {
            if self.tasks.is_done(Task { job: on, node }) {
                continue;
            }
            // A job in a cycle must not read states that follow from its own.
            if job.cyclic || self.dependency(forest, on, node) == Dependency::Hopeless {
                return Dependency::Hopeless;
            }
            all = Dependency::Open;
        }
        all
    }

    /// Returns the state of a job on a node as a dependent sees it.
    pub(super) fn dependency(&self, forest: &Forest, id: JobId, node: NodeId) -> Dependency {
        let job = self.tasks.job(id);
        let task = Task { job: id, node };
        if self.is_running(task) {
            return Dependency::Open;
        }
        if self.tasks.is_done(task) {
            return Dependency::Done;
        }
        if job.config.is_none() || !job.can_run {
            return Dependency::Hopeless;
        }
        let position = self.position_of(forest, task);
        match position.map(|p| self.columns[id.index()].shown_state(p)) {
            None => Dependency::Hopeless,
            Some(state) if is_hopeless(state) => Dependency::Hopeless,
            Some(_) => Dependency::Open,
        }
    }

    /// Updates a task in all columns, and through it the tasks that depend on it.
    pub(super) fn refresh(&mut self, task: Task, reach: Reach) {
        let changed = self.refresh_here(task, reach);
        if !changed.is_empty()
            && let Some(forest) = self.forest.take()
        {
            self.rebuild_in_order(&forest, changed);
            self.forest = Some(forest);
        }
        self.refresh_next(task, reach);
    }

    /// Updates a task in the columns that the engine's fields hold. Returns the jobs whose columns no longer hold.
    pub(super) fn refresh_here(&mut self, task: Task, reach: Reach) -> BTreeSet<JobId> {
        let Some(forest) = self.forest.take() else {
            return BTreeSet::new();
        };
        let changed = self.refresh_at(&forest, task, reach);
        self.forest = Some(forest);
        match changed.is_empty() {
            true => changed,
            false => self.tasks.with_dependents(changed),
        }
    }

    fn refresh_at(&mut self, forest: &Forest, task: Task, reach: Reach) -> BTreeSet<JobId> {
        let row = self.row_of(forest, task);
        let mut open = Vec::new();
        let mut changed = BTreeSet::new();
        let mut next = Some((task, row, reach));
        // Terminates: `dependencies` cuts cycles, and without them hopelessness spreads along a finite acyclic graph.
        while let Some((task, row, reach)) = next.take().or_else(|| open.pop()) {
            let hope_changed = row.is_some_and(|row| self.refresh_one(forest, task, row));
            changed.extend(self.spread_hope(task.job));
            if hope_changed || reach == Reach::Dependents {
                let dependents = self.tasks.job(task.job).dependents.iter();
                open.extend(dependents.map(|&job| {
                    let node = task.node;
                    let task = Task { job, node };
                    (task, self.row_of(forest, task), Reach::Own)
                }));
            }
        }
        changed
    }

    /// Returns the task's canonical row, if its job's columns have it.
    fn row_of(&self, forest: &Forest, task: Task) -> Option<u32> {
        let job = self.tasks.get(task.job)?;
        let row = forest.row_of(job.level?, task.node)?;
        let columns = &self.columns[task.job.index()];
        ((forest.position(row) as usize) < columns.len()).then_some(row)
    }

    /// Updates one task. Returns whether dependents see another [`Dependency`].
    fn refresh_one(&mut self, forest: &Forest, task: Task, row: u32) -> bool {
        let id = task.job;
        let position = forest.position(row);
        let job = self.tasks.job(id);
        let (state, eligible) = self.classify(forest, job, id, row);
        let columns = &mut self.columns[id.index()];
        let before = columns.set_state(position, state);
        if eligible {
            if !columns.is_eligible(position) {
                columns.set_eligible(position);
                columns.ready.insert(position as usize);
                self.sync_active(id);
            }
        } else if columns.is_eligible(position) {
            columns.clear_eligible(position);
            self.unready(forest, id, position, row);
        }
        self.count_again(forest, id, row);
        is_hopeless(before) != is_hopeless(state)
    }

    /// Updates in the pool whether the job has tasks to try, and how many of its tasks lack nothing but slots.
    pub(super) fn sync_active(&mut self, id: JobId) {
        match self.side {
            Side::InForce => {}
            // Nothing is placed there yet.
            Side::Next => return,
        }
        let job = self.tasks.job(id);
        let columns = &self.columns[id.index()];
        let is_open = job.config.is_some() && columns.gate == Gate::Open;
        let may_start = match sabotage::on(Sabotage::IgnoreMaxRunning) {
            true => u32::MAX,
            false => job.may_start(),
        };
        let could_start = match is_open && job.can_run {
            true => columns.eligible.min(may_start),
            false => 0,
        };
        let has_ready = match columns.ready.is_empty() || !is_open || may_start == 0 {
            true => HasReady::No,
            false => HasReady::Yes,
        };
        self.pool.set_ready(id, job.demand, could_start, has_ready);
    }

    /// Returns the task's position in its job's columns.
    pub(super) fn position_of(&self, forest: &Forest, task: Task) -> Option<u32> {
        self.row_of(forest, task).map(|row| forest.position(row))
    }
}

/// Returns whether a job with this name and these filters runs on a row. Checks the path from the node to the root; the first negative
/// answer wins.
pub(super) fn structure_of(
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

/// Returns the state of a task that neither runs nor waits and is not final.
fn resting_state(status: Option<StatusBits>) -> TaskState {
    match status {
        None => TaskState::Unstarted,
        Some(bits) if bits.has(StatusBits::INCOMPLETE) => TaskState::Incomplete,
        Some(_) => TaskState::Error,
    }
}
