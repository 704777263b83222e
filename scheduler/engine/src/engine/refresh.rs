//! Puts a new node table into force: builds in slices everything that follows from it, beside what is in force, and exchanges both at once.

mod arrivals;

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::rng::Rng;
use brasserie_common::{JobId, Time};
use brasserie_common_config::LevelId;

use super::Engine;
use super::eligible::Filling;
use crate::forest::NodeTable;
use crate::forest::below_builder::BelowBuilder;
use crate::forest::growing::Growing;
use crate::forest::index::Forest;
use crate::refresh::slices::Progress;
use crate::statuses::columns::Columns;
use crate::tasks::runs::RunPath;
use crate::work::Work;

/// Work of one turn, in nanoseconds. A slice must stay below five milliseconds even on a machine half as fast as the one on which the costs
/// were measured.
const SLICE: u64 = 2_000_000;
/// Nanoseconds to exchange a job's columns and to tell the pool whether the job has tasks to try.
const EXCHANGE_COST: u64 = 50;
/// Nanoseconds to reserve room for the tasks that will wait at a place again.
const PLACE_COST: u64 = 3;
/// Nanoseconds to begin a job's columns and to update the jobs that depend on it.
const BEGIN_COST: u64 = 500;
/// Nanoseconds to store a run's path.
const PATH_COST: u64 = 500;
/// Nanoseconds to skip a job.
const LOOK_COST: u64 = 10;

/// Says which forest and columns the engine's fields hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Those that placement uses.
    InForce,
    /// Those under construction, for as long as it takes to write to them. Meanwhile nothing is placed, and no task waits in a list.
    Next,
}

/// ```text
///                        a job's columns, or what jobs wait for as a whole, no longer hold
///                      +---------------------------------------+----------+
///                      v                                       |          |
///   Growing ------> Below ------> Columns ------------------> Paths ---> Ready ---> in force
/// ```
/// If the levels or the node order change, in any stage, the newest table begins anew.
#[derive(Clone, Debug)]
enum Stage {
    /// The forest is incomplete, and there are no columns.
    Growing(Box<Growing>),
    /// Indexes that jobs need may be missing. These pairs of levels are still to be checked.
    Below(Vec<(LevelId, LevelId)>),
    /// Progress of two passes over the order of dependency: the first builds the columns of all but the restless jobs, the second theirs.
    Columns(usize),
    /// All jobs have their columns, and all gates follow from them.
    Paths,
    /// Only the exchange is left.
    Ready,
}

/// The next step of building columns.
enum Next {
    Build(JobId),
    PassOver,
    /// All jobs have columns.
    Settle,
}

/// A node table on its way into force.
///
/// Invariant: the columns that exist are what they would be in force, except that no task waits in a list. Each event that changes a task
/// in force changes it here, too.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    stage: Stage,
    /// Absent while the forest grows.
    forest: Option<Box<Forest>>,
    columns: Vec<Columns>,
    /// Runs before this index, and runs that have started since, no longer refer to a row of the forest in force.
    paths: Option<usize>,
    /// The job whose columns are under construction, and their progress.
    under_way: Option<(JobId, Filling)>,
    below: Option<Box<BelowBuilder>>,
    /// Jobs that changed during this refresh, and all jobs that wait for them. They may change again, so they come last.
    restless: BTreeSet<JobId>,
    /// Number of known jobs when the forest was complete.
    known_jobs: usize,
    /// The random numbers of this refresh. It has its own, so that an abandoned refresh leaves no trace.
    rng: Rng,
}

impl Refresh {
    fn table(&self) -> Option<&Arc<NodeTable>> {
        match &self.stage {
            Stage::Growing(growing) => Some(growing.table()),
            Stage::Below(_) | Stage::Columns(_) | Stage::Paths | Stage::Ready => {
                self.forest.as_ref().map(|forest| forest.table())
            }
        }
    }

    pub(super) fn expect_jobs(&mut self, jobs: usize) {
        self.columns.resize_with(jobs, Columns::default);
    }

    pub(super) fn has_columns(&self) -> bool {
        match self.stage {
            Stage::Growing(_) => false,
            Stage::Below(_) | Stage::Columns(_) | Stage::Paths | Stage::Ready => true,
        }
    }
}

impl Engine {
    /// Puts a node table into force at once, however long it takes. Tasks that run on removed nodes go on.
    pub fn apply_nodes(&mut self, now: Time, nodes: Arc<NodeTable>) {
        self.expire(now);
        self.give_refresh_up();
        self.give_reclaim_up();
        self.begin_nodes(nodes);
        self.finish_refresh();
    }

    /// Begins to put a node table into force; [`Engine::continue_refresh`] does the work, turn by turn. A table that arrives during a
    /// refresh waits for its end, so that frequent tables do not keep each other out. Of several waiting tables, only the newest is kept.
    pub fn begin_nodes(&mut self, nodes: Arc<NodeTable>) {
        let former = self.waiting.replace(nodes);
        if former.is_some() {
            // The former table must be freed before other work.
            self.patience.undo();
        }
        self.rubbish.take_table(former);
        self.sources_shape = Default::default();
        self.begin_refresh();
    }

    /// Returns whether [`Engine::continue_refresh`] has work to do.
    pub fn is_refreshing(&self) -> bool {
        self.refresh.is_some()
            || !self.rubbish.is_empty()
            || self.reclaim.is_under_way()
            || self.is_reclaim_due()
            || (self.waiting.is_some() && self.config.is_some())
    }

    /// Returns how many tables have come into force so far. A table counts again if it was processed anew.
    pub fn tables_put_in_force(&self) -> u64 {
        self.put_in_force
    }

    /// Runs one slice of the work that [`Engine::begin_nodes`] began: some milliseconds at most. [`Engine::nodes`] shows when the table is
    /// in force.
    pub fn continue_refresh(&mut self) {
        self.go_on(&mut Work::new(SLICE));
    }

    pub(super) fn finish_refresh(&mut self) {
        while self.is_refreshing() {
            self.go_on(&mut Work::endless());
        }
    }

    pub(super) fn go_on(&mut self, work: &mut Work) {
        self.patience.begin_slice(work);
        while work.is_left() {
            if !self.rubbish.shed(work) || !work.is_left() {
                return;
            }
            if self.is_reclaim_due() {
                self.begin_reclaim();
            }
            if self.reclaim.is_under_way() {
                self.patience.note_progress(Progress::Lasting);
                self.go_on_reclaiming(work);
                continue;
            }
            self.begin_refresh();
            let Some(mut refresh) = self.refresh.take() else {
                return;
            };
            if let Stage::Ready = refresh.stage {
                let cost = EXCHANGE_COST * self.tasks.len() as u64
                    + PLACE_COST * self.lists.places() as u64;
                if !work.has_room_for(cost) {
                    self.refresh = Some(refresh);
                    return;
                }
                work.spend(cost);
                self.put_in_force(*refresh);
            } else {
                self.advance(&mut refresh, work);
                self.refresh = Some(refresh);
            }
        }
    }

    pub(super) fn begin_refresh(&mut self) {
        let Some(config) = self.config.clone() else {
            return;
        };
        if self.refresh.is_some() || self.reclaim.is_under_way() {
            return;
        }
        let Some(table) = self.waiting.take() else {
            return;
        };
        self.give_reclaim_up();
        let growing = Growing::new(&config, table, &mut self.node_names);
        let mut refresh = Refresh {
            stage: Stage::Growing(Box::new(growing)),
            forest: None,
            columns: Vec::new(),
            paths: None,
            under_way: None,
            below: None,
            restless: BTreeSet::new(),
            known_jobs: 0,
            rng: self.rng.clone(),
        };
        refresh.expect_jobs(self.tasks.len());
        self.refresh = Some(Box::new(refresh));
    }

    /// Starts over with the newest table: under other levels or another node order, its forest is a different one.
    pub(super) fn begin_anew(&mut self) {
        self.give_reclaim_up();
        self.patience.undo_again();
        let on_its_way = self.give_refresh_up();
        let in_force = self.nodes.take();
        if self.waiting.is_none() {
            self.waiting = on_its_way.or(in_force);
        } else {
            // Their forests hold these tables too, and free them as rubbish. So nothing is freed here, and the cost is charged once.
            drop((on_its_way, in_force));
        }
        let forest = self.forest.take();
        self.rubbish.take_forest(forest);
        let columns = std::mem::take(&mut self.columns);
        self.columns.resize_with(columns.len(), Columns::default);
        self.rubbish.take_columns(columns);
        self.rubbish.take_lists(&mut self.lists);
    }

    /// Abandons the refresh. Returns its table.
    fn give_refresh_up(&mut self) -> Option<Arc<NodeTable>> {
        let refresh = *self.refresh.take()?;
        let table = refresh.table().cloned();
        let Refresh {
            stage,
            mut forest,
            columns,
            below,
            ..
        } = refresh;
        if let (Some(forest), Some(below)) = (&mut forest, below) {
            below.give_up(forest);
        }
        self.rubbish.take_forest(forest);
        self.rubbish.take_columns(columns);
        match stage {
            Stage::Growing(growing) => self.rubbish.take_forest(Some(growing.into_forest())),
            Stage::Below(_) | Stage::Columns(_) | Stage::Paths | Stage::Ready => {}
        }
        table
    }

    /// Iterates over the node tables that are in force, on their way, or waiting; the newest comes last.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<NodeTable>> {
        let tables = [self.nodes(), self.table_on_its_way(), self.waiting.as_ref()];
        tables.into_iter().flatten()
    }

    pub(super) fn table_on_its_way(&self) -> Option<&Arc<NodeTable>> {
        self.refresh.as_ref()?.table()
    }

    /// Runs a step of the stage, or moves to the next one.
    fn advance(&mut self, refresh: &mut Refresh, work: &mut Work) {
        match &mut refresh.stage {
            Stage::Growing(growing) => {
                self.patience.note_progress(Progress::Lasting);
                if growing.grow(&mut self.node_names, &mut refresh.rng, work) {
                    let below = Stage::Below(self.levels_below(self.tasks.configured()));
                    if let Stage::Growing(growing) = std::mem::replace(&mut refresh.stage, below) {
                        refresh.forest = Some(growing.into_forest());
                    }
                    refresh.known_jobs = self.tasks.len();
                }
            }
            Stage::Below(levels) => {
                let forest = refresh.forest.as_mut();
                let forest = forest.expect("Invariant: past its growth there is a forest");
                if let Some(builder) = &mut refresh.below {
                    self.patience.note_progress(Progress::Lasting);
                    if builder.build(forest, work)
                        && let Some(builder) = refresh.below.take()
                    {
                        let (tasks, above) = builder.levels();
                        forest.put_below(tasks, above, builder.finish());
                    }
                    return;
                }
                match levels.pop() {
                    Some((tasks, above)) if forest.lacks_below(tasks, above) => {
                        let builder = BelowBuilder::new(forest, tasks, above);
                        refresh.below = Some(Box::new(builder));
                    }
                    Some(_) => {}
                    None => refresh.stage = Stage::Columns(0),
                }
            }
            Stage::Columns(place) => {
                let place = *place;
                match self.next_to_build(refresh, place) {
                    Next::Build(id) => self.build_columns(refresh, id, work),
                    Next::PassOver => {
                        work.spend(LOOK_COST);
                        refresh.stage = Stage::Columns(place + 1);
                    }
                    Next::Settle => self.settle(refresh, work),
                }
            }
            Stage::Paths => {
                work.spend(PATH_COST);
                let place = refresh.paths.get_or_insert(0);
                match self.tasks.keep_path(*place, self.forest.as_deref()) {
                    false => refresh.stage = Stage::Ready,
                    true => {
                        *place += 1;
                        self.patience.note_progress(Progress::Lasting);
                    }
                }
            }
            Stage::Ready => {}
        }
    }

    /// Returns the next step. A job under construction goes first, so that a job that changes again and again does not undo the progress of
    /// others. All jobs that it depends on are built, or its construction would not have begun.
    ///
    /// A job that waits for a restless job, task by task or as a whole, is restless. So no job is built before those that it depends on.
    fn next_to_build(&self, refresh: &Refresh, place: usize) -> Next {
        if let Some((id, _)) = refresh.under_way {
            return Next::Build(id);
        }
        let jobs = self.tasks.by_dependency().len();
        let (id, are_restless) = match place.checked_sub(jobs) {
            None => (self.tasks.by_dependency().get(place), false),
            Some(place) => (self.tasks.by_dependency().get(place), true),
        };
        let Some(&id) = id else {
            return Next::Settle;
        };
        let is_its_turn = refresh.restless.contains(&id) == are_restless;
        match is_its_turn && !refresh.columns[id.index()].are_whole {
            true => Next::Build(id),
            false => Next::PassOver,
        }
    }

    fn build_columns(&mut self, refresh: &mut Refresh, id: JobId, work: &mut Work) {
        self.patience.note_progress(match refresh.is_added(id) {
            true => Progress::Added,
            false => Progress::Lasting,
        });
        let first = refresh.under_way.filter(|(job, _)| *job == id);
        let (rest, changed) = self.on_next_side(refresh, |engine| {
            let forest = engine.forest.take();
            let forest = forest.expect("Invariant: past its growth there is a forest");
            let mut changed = Vec::new();
            if first.is_none() {
                work.spend(BEGIN_COST);
                if engine.move_gate(id) {
                    changed.extend(engine.tasks.dependents_in_order(id));
                }
                engine.begin_columns(id);
            }
            let first = first.map_or(Filling::Room, |(_, filling)| filling);
            let rest = engine.fill_columns(&forest, id, first, work);
            engine.forest = Some(forest);
            if rest.is_none() {
                changed.extend(engine.spread_hope(id));
            }
            (rest, changed)
        });
        refresh.under_way = rest.map(|filling| (id, filling));
        self.hope_has_changed(refresh, changed);
    }

    /// Brings all gates in line with the columns, which are complete.
    ///
    /// Terminates: these are the passes of [`Engine::rebuild_in_order`].
    fn settle(&mut self, refresh: &mut Refresh, work: &mut Work) {
        if self.tasks.has_gates() {
            let cost = EXCHANGE_COST * self.tasks.len() as u64;
            if !work.has_room_for(cost) {
                work.spend(cost);
                return;
            }
            work.spend(cost);
            let changed = self.on_next_side(refresh, Engine::settle_gates);
            if !changed.is_empty() {
                return self.hope_has_changed(refresh, changed);
            }
        }
        refresh.stage = Stage::Paths;
    }

    /// Calls `do_it` while the forest and the columns of the refresh take the place of those in force.
    fn on_next_side<T>(
        &mut self,
        refresh: &mut Refresh,
        do_it: impl FnOnce(&mut Engine) -> T,
    ) -> T {
        std::mem::swap(&mut self.forest, &mut refresh.forest);
        std::mem::swap(&mut self.columns, &mut refresh.columns);
        self.side = Side::Next;
        let result = do_it(self);
        self.side = Side::InForce;
        std::mem::swap(&mut self.forest, &mut refresh.forest);
        std::mem::swap(&mut self.columns, &mut refresh.columns);
        result
    }

    /// Returns the path that a run that starts now stores.
    pub(super) fn path_of_run(&self, forest: &Forest, row: u32) -> RunPath {
        let paths = self.refresh.as_ref().map(|refresh| refresh.paths);
        match paths {
            Some(Some(_)) => RunPath::Nodes(forest.path(row)),
            Some(None) | None => RunPath::Row(row),
        }
    }

    fn put_in_force(&mut self, refresh: Refresh) {
        let forest = refresh.forest;
        let forest = forest.expect("Invariant: past its growth there is a forest");
        self.rng = refresh.rng;
        self.put_in_force += 1;
        self.patience.table_is_in_force();
        self.sources_shape = Default::default();
        self.nodes = Some(Arc::clone(forest.table()));
        let former = self.forest.take();
        if let Some(former) = &former {
            self.reclaim.table_changes(former.len(), forest.len());
        }
        self.rubbish.take_forest(former);
        let former = std::mem::replace(&mut self.columns, refresh.columns);
        self.rubbish.take_columns(former);
        self.rubbish.take_lists(&mut self.lists);
        self.pool.clear_active();
        for i in 0..self.tasks.configured().len() {
            self.sync_active(self.tasks.configured()[i]);
        }
        self.look_at_root(&forest);
        self.forest = Some(forest);
    }
}
