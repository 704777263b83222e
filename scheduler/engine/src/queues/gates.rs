//! Gates of jobs that wait until other jobs are done as a whole, and the order in which columns are recomputed. Each job has one gate, so
//! that a change costs one step, not one for each task.

use std::collections::BTreeSet;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, NodeId};

use super::{QueueSide, Queues};
use crate::forest::Forest;
use crate::tasks::Tasks;
use crate::tasks::job::Job;
use crate::types::{NodesOwner, TaskState};

/// Whether the jobs may start that wait until all of a job is done. For a job that waits for several, the worst of their gates.
///
/// ```text
///   Open  <---- its last task is done / gets a node, is forgiven ---->  Closed
///   either  <---- a task fails or cannot run, the job is disabled / the reverse ---->  Hopeless
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gate {
    /// Every task is done, and none runs.
    #[default]
    Open,
    /// Some task is not done, and each of them may still become done.
    Closed,
    /// Some task cannot become done unless the configuration, the nodes or the workers change, or a person acts.
    Hopeless,
}

/// States of tasks that may run later.
pub(crate) const WAITING: [TaskState; 4] = [
    TaskState::Unstarted,
    TaskState::Incomplete,
    TaskState::Error,
    TaskState::InBackoff,
];
/// States of tasks that count and cannot become done.
const HOPELESS: [TaskState; 2] = [TaskState::Failed, TaskState::Never];

impl Queues {
    /// Returns how many tasks of the job its followers still wait for. A running task counts wherever it is, because it may be writing data
    /// that the followers read.
    pub(crate) fn not_done(&self, tasks: &Tasks, id: JobId) -> u64 {
        let columns = self.of(id);
        let running = tasks.job(id).running;
        columns.count_all(&WAITING) + columns.count_all(&HOPELESS) + u64::from(running)
    }

    /// Returns the job's gate for its followers, from the counts that each transition keeps.
    pub(crate) fn gate_of(&self, tasks: &Tasks, id: JobId) -> Gate {
        let (job, columns) = (tasks.job(id), self.of(id));
        let settings = tasks.settings(id);
        let may_be_done = settings.is_some_and(|job| job.can_be_waited_for());
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
    fn gate_before(&self, tasks: &Tasks, job: &Job) -> Gate {
        let gates = job.after_all.iter().map(|on| self.gate_of(tasks, *on));
        let known = match tasks.nodes_owner() {
            NodesOwner::OtherConfig if !job.after_all.is_empty() => Gate::Closed,
            NodesOwner::OtherConfig | NodesOwner::ThisConfig => Gate::Open,
        };
        let gate = gates.max().unwrap_or_default().max(known);
        match gate {
            Gate::Closed if job.cyclic => Gate::Hopeless,
            Gate::Open | Gate::Closed | Gate::Hopeless => gate,
        }
    }

    /// Returns whether a job's followers may see its gate. While columns are built, nothing is known of jobs without columns. All gates are
    /// settled once every job has columns.
    fn shows_gate(&self, id: JobId) -> bool {
        match self.side {
            QueueSide::InForce => true,
            QueueSide::Next => self.of(id).are_whole,
        }
    }

    /// Opens or closes the gates of a job's followers after one of its tasks, or its configuration, has changed. Returns the followers
    /// whose tasks became hopeless or stopped being so.
    fn move_gates(&mut self, tasks: &Tasks, id: JobId) -> Vec<JobId> {
        let followers = &tasks.job(id).followers;
        if followers.is_empty() || !self.shows_gate(id) {
            return Vec::new();
        }
        let now = self.gate_of(tasks, id);
        let before = std::mem::replace(&mut self.columns[id.index()].seen_as, now);
        if before == now {
            return Vec::new();
        }
        let followers = followers.iter().copied();
        followers.filter(|id| self.move_gate(tasks, *id)).collect()
    }

    /// Recomputes a job's gate. Returns whether its tasks became hopeless or stopped being so.
    pub(crate) fn move_gate(&mut self, tasks: &Tasks, id: JobId) -> bool {
        let gate = self.gate_before(tasks, tasks.job(id));
        let before = std::mem::replace(&mut self.columns[id.index()].gate, gate);
        self.touch(id);
        (before == Gate::Hopeless) != (gate == Gate::Hopeless)
    }

    /// Moves gates as [`Queues::move_gates`] does, and on to the followers of followers. Returns the jobs that need new columns, because
    /// their tasks depend on tasks that became hopeless or stopped being so.
    ///
    /// Terminates: the gates of jobs in a cycle follow from what is done, not from hope.
    pub(crate) fn spread_hope(&mut self, tasks: &Tasks, id: JobId) -> Vec<JobId> {
        let mut changed = Vec::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for turned in self.move_gates(tasks, id) {
                changed.extend(tasks.dependents_in_order(turned));
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
    pub(crate) fn rebuild(&mut self, forest: &Forest, tasks: &Tasks, changed: BTreeSet<JobId>) {
        // A new job has no columns, so none of its tasks is in a wait list. A scan of all lists takes long.
        let has_columns = |id: &JobId| self.of(*id).len() > 0;
        if changed.iter().any(has_columns) {
            self.lists.forget(|job| changed.contains(&job));
        }
        for id in &changed {
            if tasks.job(*id).config.is_none() {
                self.reset(*id);
            }
        }
        if !tasks.has_gates() {
            // No job waits for another as a whole, so other jobs need no check.
            for id in tasks.in_order(&changed) {
                self.rebuild_job(forest, tasks, id);
            }
            return;
        }
        let mut open = changed;
        loop {
            for &id in tasks.by_dependency() {
                if open.remove(&id) {
                    self.rebuild_job(forest, tasks, id);
                    open.extend(tasks.dependents_in_order(id));
                }
                let changed = self.spread_hope(tasks, id);
                self.add_changed(tasks, changed, &mut open);
            }
            open.retain(|id| tasks.job(*id).config.is_some());
            let changed = self.settle_gates(tasks);
            self.add_changed(tasks, changed, &mut open);
            if open.is_empty() {
                return;
            }
        }
    }

    fn add_changed(&mut self, tasks: &Tasks, changed: Vec<JobId>, open: &mut BTreeSet<JobId>) {
        if !changed.is_empty() {
            let more = tasks.with_dependents(changed.into_iter().collect());
            self.lists.forget(|job| more.contains(&job));
            open.extend(more);
        }
    }

    /// Recomputes every gate, whatever has changed. Returns the same jobs as [`Queues::spread_hope`].
    pub(crate) fn settle_gates(&mut self, tasks: &Tasks) -> Vec<JobId> {
        let mut changed = Vec::new();
        let jobs = || (0_u32..).map(JobId).zip(tasks.jobs());
        for (id, job) in jobs() {
            if !job.after_all.is_empty() && self.move_gate(tasks, id) {
                changed.extend(tasks.dependents_in_order(id));
                changed.extend(self.spread_hope(tasks, id));
            }
        }
        for (id, job) in jobs() {
            if !job.followers.is_empty() {
                self.columns[id.index()].seen_as = self.gate_of(tasks, id);
            }
        }
        changed
    }

    /// Returns the first task, in scheduling order, that keeps a job from being done as a whole: a hopeless one if there is any.
    pub(crate) fn first_not_done(
        &self,
        forest: &Forest,
        tasks: &Tasks,
        id: JobId,
    ) -> Option<(NodeId, TaskState)> {
        let columns = self.of(id);
        let order = forest.order(tasks.job(id).level?);
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
