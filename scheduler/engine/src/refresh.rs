//! A node table on its way into force: its forest and queues, which are built in slices beside those in force.

pub(crate) mod disposal;
pub(crate) mod slice_length;

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::JobId;
use brasserie_common::rng::Rng;
use brasserie_common_config::{Config, LevelId};

use crate::forest::Forest;
use crate::forest::NodeTable;
use crate::forest::below_builder::BelowBuilder;
use crate::forest::growing::Growing;
use crate::names::NodeNames;
use crate::queues::Queues;
use crate::queues::columns::Columns;
use crate::queues::states::{Filling, Reach};
use crate::tasks::Tasks;
use crate::types::Task;
use crate::work::WorkBudget;
use slice_length::{Loss, SliceProgress};

/// Nanoseconds to begin a job's columns and to update the jobs that depend on it.
const BEGIN_COST: u64 = 500;

/// ```text
///                        a job's columns, or what jobs wait for as a whole, no longer hold
///                      +---------------------------------------+----------+
///                      v                                       |          |
///   Growing ------> Below ------> Columns ------------------> Paths ---> Ready ---> in force
/// ```
/// If the levels or the node order change, in any stage, the newest table begins anew.
#[derive(Clone, Debug)]
enum RefreshStage {
    /// The forest is incomplete, and there are no columns.
    Growing(Box<Growing>),
    /// Indexes that jobs need may be missing. These pairs of levels are still to be checked.
    Below(Vec<(LevelId, LevelId)>),
    /// Progress of two passes over the order of dependency: the first builds the columns of all but the changing jobs, the second theirs.
    Columns(usize),
    /// All jobs have their columns, and all gates follow from them.
    Paths,
    /// Only the exchange is left.
    Ready,
}

/// The next step of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshStep {
    /// Continue the construction of the forest.
    Grow,
    /// Continue the construction of an index of tasks below nodes, or begin the next one.
    Index,
    /// Continue the construction of a job's columns.
    Build(JobId),
    /// Pass over a job in the order of dependency.
    PassOver,
    /// Bring the gates in line with the columns.
    Settle,
    /// Store the path of the run at this index, which must not refer to a row of the forest in force.
    KeepPath(usize),
    /// Put the table into force.
    Exchange,
}

/// A node table on its way into force.
///
/// Invariant: the columns that exist are what they would be in force, except that no task waits in a list. Each event that changes a task
/// in force changes it here, too.
#[derive(Clone, Debug)]
pub(crate) struct Refresh {
    stage: RefreshStage,
    /// Absent while the forest grows.
    forest: Option<Box<Forest>>,
    queues: Queues,
    /// Runs before this index, and runs that have started since, no longer refer to a row of the forest in force.
    paths: Option<usize>,
    /// The job whose columns are under construction, and their progress.
    under_way: Option<(JobId, Filling)>,
    below: Option<Box<BelowBuilder>>,
    /// Jobs that changed during this refresh, and all jobs that wait for them. They may change again, so they come last.
    changing: BTreeSet<JobId>,
    /// Number of known jobs when the forest was complete.
    known_jobs: usize,
    /// The random numbers of this refresh. It has its own, so that an abandoned refresh leaves no trace.
    rng: Rng,
}

/// Everything that a complete refresh puts into force.
pub(crate) struct Complete {
    pub forest: Box<Forest>,
    pub queues: Queues,
    pub rng: Rng,
}

/// The data of an abandoned refresh, to be freed step by step.
pub(crate) struct Abandoned {
    pub table: Option<Arc<NodeTable>>,
    pub forest: Option<Box<Forest>>,
    pub columns: Vec<Columns>,
}

impl Refresh {
    pub(crate) fn new(
        config: &Config,
        table: Arc<NodeTable>,
        names: &mut NodeNames,
        jobs: usize,
        rng: Rng,
    ) -> Self {
        Refresh {
            stage: RefreshStage::Growing(Box::new(Growing::new(config, table, names))),
            forest: None,
            queues: Queues::next(jobs),
            paths: None,
            under_way: None,
            below: None,
            changing: BTreeSet::new(),
            known_jobs: 0,
            rng,
        }
    }

    pub(crate) fn table(&self) -> Option<&Arc<NodeTable>> {
        match &self.stage {
            RefreshStage::Growing(growing) => Some(growing.table()),
            RefreshStage::Below(_)
            | RefreshStage::Columns(_)
            | RefreshStage::Paths
            | RefreshStage::Ready => self.forest.as_ref().map(|forest| forest.table()),
        }
    }

    /// Makes room for the columns of `jobs` jobs.
    pub(crate) fn expect_jobs(&mut self, jobs: usize) {
        self.queues.expect_jobs(jobs);
    }

    /// Returns whether jobs may have columns. A growing forest does not depend on jobs.
    pub(crate) fn has_columns(&self) -> bool {
        match self.stage {
            RefreshStage::Growing(_) => false,
            RefreshStage::Below(_)
            | RefreshStage::Columns(_)
            | RefreshStage::Paths
            | RefreshStage::Ready => true,
        }
    }

    /// Returns whether a run that starts now must store its path as nodes.
    pub(crate) fn keeps_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Returns the next step. A job under construction goes first, so that a job that changes again and again does not undo the progress of
    /// others. All jobs that it depends on are built, or its construction would not have begun.
    ///
    /// A job that waits for a changing job, task by task or as a whole, is changing. So no job is built before those that it depends on.
    pub(crate) fn next_step(&self, tasks: &Tasks) -> RefreshStep {
        let place = match self.stage {
            RefreshStage::Growing(_) => return RefreshStep::Grow,
            RefreshStage::Below(_) => return RefreshStep::Index,
            RefreshStage::Columns(place) => place,
            RefreshStage::Paths => return RefreshStep::KeepPath(self.paths.unwrap_or(0)),
            RefreshStage::Ready => return RefreshStep::Exchange,
        };
        if let Some((id, _)) = self.under_way {
            return RefreshStep::Build(id);
        }
        let order = tasks.by_dependency();
        let (id, are_changing) = match place.checked_sub(order.len()) {
            None => (order.get(place), false),
            Some(place) => (order.get(place), true),
        };
        let Some(&id) = id else {
            return RefreshStep::Settle;
        };
        let is_its_turn = self.changing.contains(&id) == are_changing;
        match is_its_turn && !self.queues.of(id).are_whole {
            true => RefreshStep::Build(id),
            false => RefreshStep::PassOver,
        }
    }

    /// Continues the construction of the forest. Returns whether it is complete; then [`Refresh::begin_indexes`] must follow.
    pub(crate) fn grow(&mut self, names: &mut NodeNames, work: &mut WorkBudget) -> bool {
        match &mut self.stage {
            RefreshStage::Growing(growing) => growing.grow(names, &mut self.rng, work),
            RefreshStage::Below(_)
            | RefreshStage::Columns(_)
            | RefreshStage::Paths
            | RefreshStage::Ready => true,
        }
    }

    /// Begins to build the indexes of these levels for the complete forest. `jobs` is the number of known jobs.
    pub(crate) fn begin_indexes(&mut self, levels: Vec<(LevelId, LevelId)>, jobs: usize) {
        let below = RefreshStage::Below(levels);
        if let RefreshStage::Growing(growing) = std::mem::replace(&mut self.stage, below) {
            self.forest = Some(growing.into_forest());
        }
        self.known_jobs = jobs;
    }

    /// Runs a step of the construction of indexes.
    pub(crate) fn build_index(&mut self, work: &mut WorkBudget) -> SliceProgress {
        let (RefreshStage::Below(levels), Some(forest)) = (&mut self.stage, &mut self.forest)
        else {
            return SliceProgress::None;
        };
        if let Some(builder) = &mut self.below {
            if builder.build(forest, work)
                && let Some(builder) = self.below.take()
            {
                let (tasks, above) = builder.levels();
                forest.put_below(tasks, above, builder.finish());
            }
            return SliceProgress::Lasting;
        }
        match levels.pop() {
            Some((tasks, above)) if forest.lacks_below(tasks, above) => {
                let builder = BelowBuilder::new(forest, tasks, above);
                self.below = Some(Box::new(builder));
            }
            Some(_) => {}
            None => self.stage = RefreshStage::Columns(0),
        }
        SliceProgress::None
    }

    /// Returns how the construction of a job's columns counts as progress.
    pub(crate) fn progress_of(&self, id: JobId) -> SliceProgress {
        match self.is_added(id) {
            true => SliceProgress::Added,
            false => SliceProgress::Lasting,
        }
    }

    /// Returns whether the job's columns are under construction.
    pub(crate) fn is_building(&self, id: JobId) -> bool {
        self.under_way.is_some_and(|(job, _)| job == id)
    }

    /// Continues the construction of a job's columns. Returns the jobs whose columns no longer hold.
    pub(crate) fn build_columns(
        &mut self,
        tasks: &Tasks,
        id: JobId,
        work: &mut WorkBudget,
    ) -> Vec<JobId> {
        let forest = self.forest.as_deref();
        let forest = forest.expect("Invariant: past its growth there is a forest");
        let mut changed = Vec::new();
        let first = self.under_way.filter(|(job, _)| *job == id);
        if first.is_none() {
            work.spend(BEGIN_COST);
            if self.queues.move_gate(tasks, id) {
                changed.extend(tasks.dependents_in_order(id));
            }
            self.queues.reset(id);
        }
        let first = first.map_or(Filling::Allocate, |(_, filling)| filling);
        let rest = self.queues.fill(forest, tasks, id, first, work);
        self.under_way = rest.map(|filling| (id, filling));
        if rest.is_none() {
            changed.extend(self.queues.spread_hope(tasks, id));
        }
        changed
    }

    /// Moves on to the next job in the order of dependency.
    pub(crate) fn pass_over(&mut self) {
        if let RefreshStage::Columns(place) = &mut self.stage {
            *place += 1;
        }
    }

    /// Brings all gates in line with the columns, which are complete. Returns the jobs whose columns no longer hold; if there are none, only
    /// the paths of runs are left to do.
    ///
    /// Terminates: these are the passes of [`Queues::rebuild`].
    pub(crate) fn settle(&mut self, tasks: &Tasks) -> Vec<JobId> {
        let changed = match tasks.has_gates() {
            true => self.queues.settle_gates(tasks),
            false => Vec::new(),
        };
        if changed.is_empty() {
            self.stage = RefreshStage::Paths;
        }
        changed
    }

    /// Notes that the run at an index stores its path, or that there is no such index.
    pub(crate) fn note_path(&mut self, index: usize, exists: bool) {
        match exists {
            true => self.paths = Some(index + 1),
            false => {
                self.paths = Some(index);
                self.stage = RefreshStage::Ready;
            }
        }
    }

    /// Updates a task in the columns that exist. Returns the jobs whose columns no longer hold.
    pub(crate) fn refresh(&mut self, tasks: &Tasks, task: Task, reach: Reach) -> Vec<JobId> {
        let Some(forest) = self.forest.as_deref() else {
            return Vec::new();
        };
        let changed = self.queues.refresh(forest, tasks, task, reach);
        changed.into_iter().collect()
    }

    /// Drops these jobs' columns. Gates may have to be re-evaluated, and indexes of these levels are needed. From now on these jobs, and all
    /// that wait for them, are changing. Returns the loss and the columns.
    ///
    /// Invariant: the forest is complete.
    pub(crate) fn take_out(
        &mut self,
        tasks: &Tasks,
        changed: &BTreeSet<JobId>,
        mut levels: Vec<(LevelId, LevelId)>,
    ) -> (Loss, Vec<Columns>) {
        let loss = self.loss_of(changed);
        match &mut self.stage {
            RefreshStage::Below(left) => levels.append(left),
            RefreshStage::Growing(_)
            | RefreshStage::Columns(_)
            | RefreshStage::Paths
            | RefreshStage::Ready => {}
        }
        if self.under_way.is_some_and(|(id, _)| changed.contains(&id)) {
            self.under_way = None;
        }
        let columns = self.queues.take_out(changed);
        self.stage = RefreshStage::Below(levels);
        let changing = &mut self.changing;
        let mut open: Vec<JobId> = changed.iter().copied().collect();
        open.retain(|id| changing.insert(*id));
        while let Some(id) = open.pop() {
            let job = tasks.job(id);
            let after = job.dependents.iter().chain(&job.followers);
            open.extend(after.copied().filter(|id| changing.insert(*id)));
        }
        (loss, columns)
    }

    fn loss_of(&self, changed: &BTreeSet<JobId>) -> Loss {
        let is_begun = |id: &JobId| self.is_building(*id) || self.queues.of(*id).are_whole;
        let (before, first): (Vec<&JobId>, Vec<&JobId>) =
            changed.iter().partition(|id| self.changing.contains(id));
        if before.into_iter().any(is_begun) {
            Loss::Again
        } else if first.into_iter().any(|id| self.is_added(*id)) {
            Loss::Added
        } else {
            Loss::Once
        }
    }

    /// Returns whether the job became known after the forest was complete.
    fn is_added(&self, id: JobId) -> bool {
        id.index() >= self.known_jobs
    }

    /// Restarts the pass over all jobs, because indexes into the order of dependency have a new meaning. Returns whether that undoes work.
    pub(crate) fn restart_pass(&mut self) -> bool {
        match &mut self.stage {
            RefreshStage::Columns(place) => std::mem::take(place) > 0,
            RefreshStage::Growing(_)
            | RefreshStage::Below(_)
            | RefreshStage::Paths
            | RefreshStage::Ready => false,
        }
    }

    /// Returns everything to put into force.
    pub(crate) fn complete(self) -> Complete {
        let forest = self.forest;
        Complete {
            forest: forest.expect("Invariant: past its growth there is a forest"),
            queues: self.queues,
            rng: self.rng,
        }
    }

    /// Abandons the refresh.
    pub(crate) fn abandon(mut self) -> Abandoned {
        let table = self.table().cloned();
        if let (Some(forest), Some(below)) = (&mut self.forest, self.below) {
            below.give_up(forest);
        }
        let forest = match self.stage {
            RefreshStage::Growing(growing) => Some(growing.into_forest()),
            RefreshStage::Below(_)
            | RefreshStage::Columns(_)
            | RefreshStage::Paths
            | RefreshStage::Ready => self.forest,
        };
        Abandoned {
            table,
            forest,
            columns: self.queues.into_columns(),
        }
    }
}
