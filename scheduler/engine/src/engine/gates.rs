//! Gates of jobs that wait until other jobs are done as a whole, and the order in which columns are recomputed.

use std::collections::BTreeSet;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, NodeId};

use super::Engine;
use super::refresh::Side;
use crate::forest::index::Forest;
use crate::statuses::gate::{Gate, HOPELESS, WAITING};
use crate::tasks::job::Job;
use crate::types::{NodesOf, TaskState};

impl Engine {
    /// Returns how many tasks of the job its followers still wait for. A running task counts wherever it is, because it may be writing data
    /// that the followers read.
    pub(super) fn not_done(&self, id: JobId) -> u64 {
        let columns = &self.columns[id.index()];
        let running = self.tasks.job(id).running;
        columns.count_all(&WAITING) + columns.count_all(&HOPELESS) + u64::from(running)
    }

    /// Returns the job's gate for its followers, from the counts that each transition keeps.
    pub(super) fn gate_of(&self, id: JobId) -> Gate {
        let (job, columns) = (self.tasks.job(id), &self.columns[id.index()]);
        let may_be_done = self
            .job_config(id)
            .is_some_and(|config| config.can_be_waited_for());
        let waiting = columns.count_all(&WAITING);
        let may_run = job.can_run && columns.gate != Gate::Hopeless;
        let hopeless = match sabotage::on(Sabotage::FailureOpensGate) {
            true => columns.count(TaskState::Never),
            false => columns.count_all(&HOPELESS),
        };
        if !may_be_done || hopeless > 0 || (waiting > 0 && !may_run) {
            Gate::Hopeless
        } else if waiting > 0 || job.running > 0 {
            Gate::Closed
        } else {
            Gate::Open
        }
    }

    /// Returns the worst gate of the jobs that a job waits for. For a job in a cycle, a closed gate counts as hopeless: its hope would
    /// depend on the answer itself.
    pub(super) fn gate_before(&self, job: &Job) -> Gate {
        let gates = job.after_all.iter().map(|on| self.gate_of(*on));
        let known = match self.tasks.nodes_of() {
            NodesOf::AnotherConfig if !job.after_all.is_empty() => Gate::Closed,
            NodesOf::AnotherConfig | NodesOf::ThisConfig => Gate::Open,
        };
        let gate = gates.max().unwrap_or_default().max(known);
        match gate {
            Gate::Closed if job.cyclic => Gate::Hopeless,
            Gate::Open | Gate::Closed | Gate::Hopeless => gate,
        }
    }

    /// Returns whether a job's followers may see its gate. While columns are built, nothing is known of jobs without columns. All gates are
    /// settled once every job has columns.
    fn is_told(&self, id: JobId) -> bool {
        match self.side {
            Side::InForce => true,
            Side::Next => self.columns[id.index()].are_whole,
        }
    }

    /// Opens or closes the gates of a job's followers after one of its tasks, or its configuration, has changed. Returns the followers
    /// whose tasks became hopeless or stopped being so.
    fn move_gates(&mut self, id: JobId) -> Vec<JobId> {
        if self.tasks.job(id).followers.is_empty() || !self.is_told(id) {
            return Vec::new();
        }
        let now = self.gate_of(id);
        let before = std::mem::replace(&mut self.columns[id.index()].seen_as, now);
        if before == now {
            return Vec::new();
        }
        let mut followers = self.tasks.job(id).followers.clone();
        followers.retain(|follower| self.move_gate(*follower));
        followers
    }

    /// Recomputes a job's gate. Returns whether its tasks became hopeless or stopped being so.
    pub(super) fn move_gate(&mut self, id: JobId) -> bool {
        let gate = self.gate_before(self.tasks.job(id));
        let before = std::mem::replace(&mut self.columns[id.index()].gate, gate);
        self.sync_active(id);
        (before == Gate::Hopeless) != (gate == Gate::Hopeless)
    }

    /// Moves gates as [`Engine::move_gates`] does, and on to the followers of followers. Returns the jobs that need new columns, because
    /// their tasks depend on tasks that became hopeless or stopped being so.
    ///
    /// Terminates: the gates of jobs in a cycle follow from what is done, not from hope.
    pub(super) fn spread_hope(&mut self, id: JobId) -> Vec<JobId> {
        let mut changed = Vec::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for turned in self.move_gates(id) {
                changed.extend(self.tasks.dependents_in_order(turned));
                open.push(turned);
            }
        }
        changed
    }

    /// Recomputes the columns in force of the changed jobs, in the order of dependency, and of all jobs that then see them differently.
    /// None of their tasks is in a wait list afterwards.
    ///
    /// Terminates: whether a task is done depends on no gate. So one pass is enough for jobs in order. A second pass, for jobs in cycles,
    /// finds the same tasks done.
    pub(super) fn rebuild_in_order(&mut self, forest: &Forest, changed: BTreeSet<JobId>) {
        // A new job has no columns, so none of its tasks is in a wait list. A scan of all lists takes long.
        let has_columns = |id: &JobId| self.columns[id.index()].len() > 0;
        if changed.iter().any(has_columns) {
            self.lists.forget(|job| changed.contains(&job));
        }
        for id in &changed {
            if self.tasks.job(*id).config.is_none() {
                self.columns[id.index()].reset();
            }
        }
        if !self.tasks.has_gates() {
            return self.rebuild_without_gates(forest, &changed);
        }
        let mut open = changed;
        loop {
            for i in 0..self.tasks.by_dependency().len() {
                let id = self.tasks.by_dependency()[i];
                if open.remove(&id) {
                    self.rebuild_job(forest, id);
                    open.extend(self.tasks.dependents_in_order(id));
                }
                let changed = self.spread_hope(id);
                self.add_changed(changed, &mut open);
            }
            open.retain(|id| self.tasks.job(*id).config.is_some());
            let changed = self.settle_gates();
            self.add_changed(changed, &mut open);
            if open.is_empty() {
                return;
            }
        }
    }

    /// Recomputes columns where no job waits for another as a whole, so that other jobs need no check.
    fn rebuild_without_gates(&mut self, forest: &Forest, changed: &BTreeSet<JobId>) {
        for id in self.tasks.in_order(changed) {
            self.rebuild_job(forest, id);
        }
    }

    fn add_changed(&mut self, changed: Vec<JobId>, open: &mut BTreeSet<JobId>) {
        if !changed.is_empty() {
            let more = self.tasks.with_dependents(changed.into_iter().collect());
            self.lists.forget(|job| more.contains(&job));
            open.extend(more);
        }
    }

    /// Recomputes every gate, whatever has changed. Returns the same jobs as [`Engine::spread_hope`].
    pub(super) fn settle_gates(&mut self) -> Vec<JobId> {
        let mut changed = Vec::new();
        for i in 0..self.tasks.len() {
            let id = JobId(i as u32);
            if !self.tasks.jobs()[i].after_all.is_empty() && self.move_gate(id) {
                changed.extend(self.tasks.dependents_in_order(id));
                changed.extend(self.spread_hope(id));
            }
        }
        for i in 0..self.tasks.len() {
            if !self.tasks.jobs()[i].followers.is_empty() {
                self.columns[i].seen_as = self.gate_of(JobId(i as u32));
            }
        }
        changed
    }

    /// Returns the first task, in scheduling order, that keeps a job from being done as a whole: a hopeless one if there is any.
    pub(super) fn first_not_done(&self, forest: &Forest, id: JobId) -> Option<(NodeId, TaskState)> {
        let columns = &self.columns[id.index()];
        let order = forest.order(self.tasks.job(id).level?);
        let is = |states: &'static [TaskState]| {
            let position =
                (0..columns.len() as u32).find(|p| states.contains(&columns.state(*p)))?;
            let row = *order.get(position as usize)?;
            Some((forest.node(row), columns.shown_state(position)))
        };
        match columns.count_all(&HOPELESS) {
            0 => is(&WAITING).or_else(|| is(&[TaskState::Running])),
            _ => is(&HOPELESS),
        }
    }
}
