//! Puts a new node table into force: builds in slices everything that follows from it, beside what is in force, and exchanges both at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::{JobId, Time};
use brasserie_common_config::LevelId;

use super::Engine;
use super::reconfigure::levels_below;
use crate::forest::{Forest, NodeTable};
use crate::queues::states::Reach;
use crate::refresh::slice_length::SliceProgress;
use crate::refresh::{Complete, Refresh, RefreshStep};
use crate::tasks::runs::RunPath;
use crate::types::Task;
use crate::work::WorkBudget;

/// Work of one turn, in nanoseconds. A slice must stay below five milliseconds even on a machine half as fast as the one on which the costs
/// were measured.
const SLICE: u64 = 2_000_000;
/// Nanoseconds to exchange a job's columns and to tell the pool whether the job has tasks to try.
const EXCHANGE_COST: u64 = 50;
/// Nanoseconds to reserve room for the tasks that will wait at a place again.
const PLACE_COST: u64 = 3;
/// Nanoseconds to store a run's path.
const PATH_COST: u64 = 500;
/// Nanoseconds to pass over a job.
const PASS_OVER_COST: u64 = 10;

impl Engine {
    /// Puts a node table into force at once, however long it takes. Tasks that run on removed nodes go on.
    pub fn apply_nodes(&mut self, now: Time, nodes: Arc<NodeTable>) {
        self.expire(now);
        self.abandon_refresh();
        self.abandon_reclaim();
        self.begin_nodes(nodes);
        self.finish_refresh();
    }

    /// Begins to put a node table into force; [`Engine::continue_refresh`] does the work, turn by turn. A table that arrives during a
    /// refresh waits for its end, so that frequent tables do not keep each other out. Of several waiting tables, only the newest is kept.
    pub fn begin_nodes(&mut self, nodes: Arc<NodeTable>) {
        let former = self.waiting.replace(nodes);
        if former.is_some() {
            // The former table must be freed before other work.
            self.slice_length.undo();
        }
        self.disposal.take_table(former);
        self.sources_shape = Default::default();
        self.begin_refresh();
    }

    /// Returns whether [`Engine::continue_refresh`] has work to do.
    pub fn is_refreshing(&self) -> bool {
        self.refresh.is_some()
            || !self.disposal.is_empty()
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
        self.run_slice(&mut WorkBudget::new(SLICE));
    }

    pub(super) fn finish_refresh(&mut self) {
        while self.is_refreshing() {
            self.run_slice(&mut WorkBudget::endless());
        }
    }

    pub(super) fn run_slice(&mut self, work: &mut WorkBudget) {
        self.slice_length.begin_slice(work);
        while work.is_left() {
            if !self.disposal.shed(work) || !work.is_left() {
                return;
            }
            if self.is_reclaim_due() {
                self.begin_reclaim();
            }
            if let Some(forest) = self.forest.as_deref()
                && self.reclaim.is_under_way()
            {
                self.slice_length.note_progress(SliceProgress::Lasting);
                let inputs = (forest, &self.tasks);
                self.reclaim.run(&mut self.node_names, inputs, work);
                continue;
            }
            self.begin_refresh();
            let Some(refresh) = &self.refresh else {
                return;
            };
            match refresh.next_step(&self.tasks) {
                RefreshStep::Exchange => {
                    let cost = EXCHANGE_COST * self.tasks.len() as u64
                        + PLACE_COST * self.queues.lists().places() as u64;
                    if !work.has_room_for(cost) {
                        return;
                    }
                    work.spend(cost);
                    self.put_in_force();
                }
                step => self.advance(step, work),
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
        self.abandon_reclaim();
        let (jobs, rng) = (self.tasks.len(), self.rng.clone());
        let refresh = Refresh::new(&config, table, &mut self.node_names, jobs, rng);
        self.refresh = Some(Box::new(refresh));
    }

    /// Starts over with the newest table: under other levels or another node order, its forest is a different one.
    pub(super) fn begin_anew(&mut self) {
        self.abandon_reclaim();
        self.slice_length.undo_again();
        let on_its_way = self.abandon_refresh();
        let forest = self.forest.take();
        if self.waiting.is_none() {
            let in_force = forest.as_ref().map(|forest| Arc::clone(forest.table()));
            self.waiting = on_its_way.or(in_force);
        } else {
            // The table is freed with its forest. So nothing is freed here, and the cost is charged once.
            drop(on_its_way);
        }
        self.disposal.take_forest(forest);
        self.disposal.take_columns(self.queues.take_all());
        self.disposal.take_lists(self.queues.take_lists());
    }

    /// Abandons the refresh. Returns its table.
    fn abandon_refresh(&mut self) -> Option<Arc<NodeTable>> {
        let abandoned = self.refresh.take()?.abandon();
        self.disposal.take_forest(abandoned.forest);
        self.disposal.take_columns(abandoned.columns);
        abandoned.table
    }

    /// Iterates over the node tables that are in force, on their way, or waiting; the newest comes last.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<NodeTable>> {
        let tables = [self.nodes(), self.table_on_its_way(), self.waiting.as_ref()];
        tables.into_iter().flatten()
    }

    pub(super) fn table_on_its_way(&self) -> Option<&Arc<NodeTable>> {
        self.refresh.as_ref()?.table()
    }

    /// Runs a step of the refresh, except the exchange.
    fn advance(&mut self, step: RefreshStep, work: &mut WorkBudget) {
        let Some(refresh) = &mut self.refresh else {
            return;
        };
        match step {
            RefreshStep::Grow => {
                self.slice_length.note_progress(SliceProgress::Lasting);
                if refresh.grow(&mut self.node_names, work) {
                    let jobs = self.tasks.configured();
                    let levels = levels_below(&self.tasks, &self.slots, jobs);
                    refresh.begin_indexes(levels, self.tasks.len());
                }
            }
            RefreshStep::Index => self.slice_length.note_progress(refresh.build_index(work)),
            RefreshStep::Build(id) => {
                self.slice_length.note_progress(refresh.progress_of(id));
                if !refresh.is_building(id) {
                    self.check_feasibility(id);
                }
                self.build_columns(id, work);
            }
            RefreshStep::PassOver => {
                work.spend(PASS_OVER_COST);
                refresh.pass_over();
            }
            RefreshStep::Settle => self.settle(work),
            RefreshStep::KeepPath(index) => {
                work.spend(PATH_COST);
                let exists = self.tasks.keep_path(index, self.forest.as_deref());
                refresh.note_path(index, exists);
                if exists {
                    self.slice_length.note_progress(SliceProgress::Lasting);
                }
            }
            RefreshStep::Exchange => {}
        }
    }

    fn build_columns(&mut self, id: JobId, work: &mut WorkBudget) {
        if let Some(refresh) = &mut self.refresh {
            let changed = refresh.build_columns(&self.tasks, id, work);
            self.drop_dependents(changed);
        }
    }

    fn settle(&mut self, work: &mut WorkBudget) {
        let Some(refresh) = &mut self.refresh else {
            return;
        };
        if self.tasks.has_gates() {
            let cost = EXCHANGE_COST * self.tasks.len() as u64;
            let has_room = work.has_room_for(cost);
            work.spend(cost);
            if !has_room {
                return;
            }
        }
        let changed = refresh.settle(&self.tasks);
        self.drop_dependents(changed);
    }

    /// Returns the path that a run that starts now stores.
    pub(super) fn path_of_run(&self, forest: &Forest, row: u32) -> RunPath {
        match self.refresh.as_ref().is_some_and(|r| r.keeps_paths()) {
            true => RunPath::Nodes(forest.path(row)),
            false => RunPath::Row(row),
        }
    }

    fn put_in_force(&mut self) {
        let Some(refresh) = self.refresh.take() else {
            return;
        };
        let Complete {
            forest,
            queues,
            rng,
        } = refresh.complete();
        self.rng = rng;
        self.put_in_force += 1;
        self.slice_length.table_is_in_force();
        self.sources_shape = Default::default();
        let rows = forest.len();
        let former = self.forest.replace(forest);
        if let Some(former) = &former {
            self.reclaim.expect_rows(former.len(), rows);
        }
        self.disposal.take_forest(former);
        self.disposal.take_columns(self.queues.exchange(queues));
        self.disposal.take_lists(self.queues.take_lists());
        self.pool.clear_active();
        self.count_all_ready();
        self.check_root();
        self.check_standby();
        self.recheck_locality();
    }

    /// Applies a task's change to the refresh, too.
    pub(super) fn refresh_next(&mut self, task: Task, reach: Reach) {
        if let Some(refresh) = &mut self.refresh
            && refresh.has_columns()
        {
            let changed = refresh.refresh(&self.tasks, task, reach);
            if !changed.is_empty() {
                self.slice_length.undo();
            }
            self.drop_dependents(changed);
        }
    }

    /// Drops these jobs' columns of the refresh. Gates may have to be re-evaluated, and indexes of these levels are needed.
    pub(super) fn drop_columns(
        &mut self,
        changed: &BTreeSet<JobId>,
        levels: Vec<(LevelId, LevelId)>,
    ) {
        if self.refresh.as_ref().is_some_and(|r| r.has_columns()) {
            self.slice_length.undo();
            self.take_out(changed, levels);
        }
    }

    /// Drops the columns of jobs that depend on tasks which became hopeless or stopped being so.
    ///
    /// An event may have moved only a gate, and the loss shows when the gate is evaluated. So the loss counts here.
    fn drop_dependents(&mut self, changed: Vec<JobId>) {
        if !changed.is_empty() {
            let changed = self.tasks.with_dependents(changed.into_iter().collect());
            self.take_out(&changed, Vec::new());
        }
    }

    fn take_out(&mut self, changed: &BTreeSet<JobId>, levels: Vec<(LevelId, LevelId)>) {
        if let Some(refresh) = &mut self.refresh {
            let (loss, columns) = refresh.take_out(&self.tasks, changed, levels);
            self.disposal.take_columns(columns);
            self.slice_length.lose(loss);
        }
    }

    /// Restarts the pass over all jobs, because indexes into the order of dependency have a new meaning.
    pub(super) fn restart_pass(&mut self) {
        if self.refresh.as_mut().is_some_and(|r| r.restart_pass()) {
            self.slice_length.undo();
        }
    }
}
