//! Which tasks could start but for slots, kept in small columns; the predicates that placement and explanations share.

use std::collections::BTreeSet;

use brasserie_common::{JobId, NodeId, StatusBits, Time};

use crate::engine::{Engine, Reach};
use crate::forest::filter::JobFilters;
use crate::forest::index::Forest;
use crate::statuses::gate::Gate;
use crate::statuses::job::Job;
use crate::types::{Task, TaskState};

/// Whether a job runs on a node as far as the forest goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    Open,
    /// By this row, the nearest.
    Disabled(u32),
    /// By the filter of this row's level.
    Avoided(u32),
}

/// How one job's state on a node looks to a job that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    Done,
    /// It may still become done.
    Open,
    /// Not without a change of the configuration, the nodes, the workers or by a person.
    Hopeless,
}

impl Engine {
    pub(crate) fn rebuild_columns(&mut self) {
        for demand in &mut self.pool.demands {
            demand.active = Default::default();
        }
        let Some(mut forest) = self.forest.take() else {
            return;
        };
        self.index_forest(&mut forest, &self.configured);
        for job in self.jobs.iter_mut().filter(|j| j.config.is_none()) {
            job.reset_columns(0);
        }
        self.rebuild_in_order(&forest, self.configured.iter().copied().collect());
        self.look_at_root(&forest);
        self.forest = Some(forest);
    }

    pub(crate) fn rebuild_job(&mut self, forest: &Forest, id: JobId) {
        let demand = self.jobs[id.index()].demand;
        let infeasible =
            self.jobs[id.index()].unmeetable.is_some() || self.pool.is_infeasible(demand);
        let gate = self.gate_before(&self.jobs[id.index()]);
        // Taken out so that the columns can be written while everything else is read; nothing that is read for a job is in
        // its own columns.
        let mut job = std::mem::take(&mut self.jobs[id.index()]);
        job.infeasible = infeasible;
        job.gate = gate;
        let level = job.level;
        job.reset_columns(level.map_or(0, |level| forest.order(level).len()));
        for row in level
            .into_iter()
            .flat_map(|level| forest.canonical_rows(level))
        {
            let position = forest.position(row);
            let (state, eligible) = self.classify(forest, &job, id, row);
            job.set_state(position, state);
            if eligible {
                job.set_eligible(position);
                job.ready.insert(position as usize);
            }
        }
        self.jobs[id.index()] = job;
        self.sync_active(id);
    }

    /// The task's state, and whether it could start but for slots.
    fn classify(&self, forest: &Forest, job: &Job, id: JobId, row: u32) -> (TaskState, bool) {
        let node = forest.node(row);
        let task = Task { job: id, node };
        if job.running > 0 && self.is_running(task) {
            return (TaskState::Running, false);
        }
        match self.task_structure(forest, job, id, row) {
            Structure::Open => {}
            Structure::Disabled(_) => return (TaskState::Disabled, false),
            Structure::Avoided(_) => return (TaskState::Avoided, false),
        }
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
        if self.waits.get(task).is_some() {
            return (TaskState::InBackoff, false);
        }
        let eligible =
            job.can_run && dependencies == Dependency::Done && !self.held.contains(&task);
        (resting_state(status), eligible)
    }

    /// Over all replicas: open if one is.
    pub(crate) fn task_structure(
        &self,
        forest: &Forest,
        job: &Job,
        id: JobId,
        canonical: u32,
    ) -> Structure {
        let first = self.structure(forest, job, id, canonical);
        if first == Structure::Open || !forest.has_replicas() {
            return first;
        }
        let open = forest
            .rows(canonical)
            .any(|row| self.structure(forest, job, id, row) == Structure::Open);
        if open { Structure::Open } else { first }
    }

    /// From the node to the root; the first negative answer wins.
    pub(crate) fn structure(&self, forest: &Forest, job: &Job, id: JobId, row: u32) -> Structure {
        structure_of(forest, &job.filters, self.job_names.get(id.0).as_str(), row)
    }

    fn dependencies(&self, forest: &Forest, job: &Job, node: NodeId) -> Dependency {
        let mut all = Dependency::Done;
        for &on in &job.depends_on {
            if self.is_done(Task { job: on, node }) {
                continue;
            }
            // A job of a circle must not read states that follow from its own.
            if job.cyclic || self.dependency(forest, on, node) == Dependency::Hopeless {
                return Dependency::Hopeless;
            }
            all = Dependency::Open;
        }
        all
    }

    /// Its last run ended in DONE, and no other runs now; also for jobs and nodes that are no longer configured.
    pub(crate) fn is_done(&self, task: Task) -> bool {
        let job = &self.jobs[task.job.index()];
        job.is_done_on(task.node) && (job.running == 0 || !self.is_running(task))
    }

    /// What a dependent sees of `job` on `node`.
    pub(crate) fn dependency(&self, forest: &Forest, id: JobId, node: NodeId) -> Dependency {
        let job = &self.jobs[id.index()];
        let task = Task { job: id, node };
        if self.is_running(task) {
            return Dependency::Open;
        }
        if self.is_done(task) {
            return Dependency::Done;
        }
        if job.config.is_none() || !job.can_run {
            return Dependency::Hopeless;
        }
        match position_of(forest, job, node).map(|p| job.shown_state(p)) {
            None => Dependency::Hopeless,
            Some(state) if is_hopeless(state) => Dependency::Hopeless,
            Some(_) => Dependency::Open,
        }
    }

    /// Brings a task's columns up to date with everything else, and through them the tasks that depend on it.
    pub(crate) fn refresh(&mut self, task: Task, reach: Reach) {
        let Some(forest) = self.forest.take() else {
            return;
        };
        let row = self.row_of(&forest, task);
        self.refresh_at(&forest, task, row, reach);
        self.forest = Some(forest);
    }

    /// As [`Engine::refresh`], for a task whose canonical row is known.
    pub(crate) fn refresh_at(
        &mut self,
        forest: &Forest,
        task: Task,
        row: Option<u32>,
        reach: Reach,
    ) {
        let mut open = Vec::new();
        let mut changed = BTreeSet::new();
        let mut next = Some((task, row, reach));
        // Ends: without circles, which `dependencies` cuts, hopelessness spreads along a finite graph without a way back.
        while let Some((task, row, reach)) = next.take().or_else(|| open.pop()) {
            let hope_changed = row.is_some_and(|row| self.refresh_one(forest, task, row));
            changed.extend(self.spread_hope(task.job));
            if hope_changed || reach == Reach::Dependents {
                let dependents = self.jobs[task.job.index()].dependents.iter();
                open.extend(dependents.map(|&job| {
                    let node = task.node;
                    let task = Task { job, node };
                    (task, self.row_of(forest, task), Reach::Own)
                }));
            }
        }
        if !changed.is_empty() {
            let changed = self.with_dependents(changed);
            self.rebuild_in_order(forest, changed);
        }
    }

    /// The task's canonical row, if it is in its job's columns.
    fn row_of(&self, forest: &Forest, task: Task) -> Option<u32> {
        let job = self.jobs.get(task.job.index())?;
        let row = forest.row_of(job.level?, task.node)?;
        ((forest.position(row) as usize) < job.len()).then_some(row)
    }

    /// Returns whether dependents see another [`Dependency`].
    fn refresh_one(&mut self, forest: &Forest, task: Task, row: u32) -> bool {
        let id = task.job;
        let position = forest.position(row);
        let job = &self.jobs[id.index()];
        let (state, eligible) = self.classify(forest, job, id, row);
        let job = &mut self.jobs[id.index()];
        let before = job.set_state(position, state);
        if eligible {
            if !job.is_eligible(position) {
                job.set_eligible(position);
                job.ready.insert(position as usize);
                self.sync_active(id);
            }
        } else if job.is_eligible(position) {
            job.clear_eligible(position);
            self.unready(forest, id, position, row);
        }
        self.count_again(forest, id, row);
        is_hopeless(before) != is_hopeless(state)
    }

    /// Tells the pool whether the job has anything to try.
    pub(crate) fn sync_active(&mut self, id: JobId) {
        let job = &self.jobs[id.index()];
        let Some(demand) = self.pool.demands.get_mut(job.demand) else {
            return;
        };
        if job.ready.is_empty() || job.config.is_none() || job.gate != Gate::Open {
            demand.active.remove(id.index());
        } else {
            demand.active.insert(id.index());
        }
    }

    /// Drops waits that are over, where the columns are rebuilt anyway.
    pub(crate) fn expire_quietly(&mut self, now: Time) {
        while self.waits.pop(now).is_some() {}
    }
}

/// Whether a job of this name and with these filters runs on a row; from the node to the root, the first negative answer wins.
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

/// Where a task is in its job's columns.
pub(crate) fn position_of(forest: &Forest, job: &Job, node: NodeId) -> Option<u32> {
    let row = forest.row_of(job.level?, node)?;
    let position = forest.position(row);
    ((position as usize) < job.len()).then_some(position)
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

/// The state of a task that does not run, is not final and does not wait.
fn resting_state(status: Option<StatusBits>) -> TaskState {
    match status {
        None => TaskState::Unstarted,
        Some(bits) if bits.has(StatusBits::INCOMPLETE) => TaskState::Incomplete,
        Some(_) => TaskState::Error,
    }
}
