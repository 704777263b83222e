//! Applies events that arrive during a refresh, and notes the work that they undo.

use std::collections::BTreeSet;

use brasserie_common::JobId;
use brasserie_common_config::LevelId;

use super::super::{Engine, Reach};
use super::{Refresh, Stage};
use crate::refresh::disposal::Rubbish;
use crate::types::Task;

/// The work that is lost when columns of some jobs no longer hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The progress of the pass over all jobs, and columns of jobs that had not changed before. Each job causes such a loss only once.
    Once,
    /// The same, and there is more work because jobs were added.
    Added,
    /// Columns of jobs that had changed before. Such losses may repeat without end.
    Again,
}

impl Refresh {
    /// Drops these jobs' columns. Gates may have to be re-evaluated, and indexes of these levels are needed. Returns the loss.
    ///
    /// Invariant: the forest is complete.
    fn take_out(
        &mut self,
        changed: &BTreeSet<JobId>,
        mut levels: Vec<(LevelId, LevelId)>,
        rubbish: &mut Rubbish,
    ) -> Loss {
        let loss = self.loss_of(changed);
        match &mut self.stage {
            Stage::Below(left) => levels.append(left),
            Stage::Growing(_) | Stage::Columns(_) | Stage::Paths | Stage::Ready => {}
        }
        if self.under_way.is_some_and(|(id, _)| changed.contains(&id)) {
            self.under_way = None;
        }
        let columns = changed.iter().map(|id| self.columns[id.index()].take_out());
        rubbish.take_columns(columns.collect());
        self.stage = Stage::Below(levels);
        loss
    }

    fn loss_of(&self, changed: &BTreeSet<JobId>) -> Loss {
        let is_begun = |id: &JobId| {
            let is_under_way = self.under_way.is_some_and(|(job, _)| job == *id);
            is_under_way || self.columns[id.index()].are_whole
        };
        let (before, first): (Vec<&JobId>, Vec<&JobId>) =
            changed.iter().partition(|id| self.restless.contains(id));
        if before.into_iter().any(is_begun) {
            Loss::Again
        } else if first.into_iter().any(|id| self.is_added(*id)) {
            Loss::Added
        } else {
            Loss::Once
        }
    }

    /// Returns whether the job became known after the forest was complete.
    pub(super) fn is_added(&self, id: JobId) -> bool {
        id.index() >= self.known_jobs
    }
}

impl Engine {
    /// Applies a task's change to the refresh, too.
    pub(in crate::engine) fn refresh_next(&mut self, task: Task, reach: Reach) {
        let Some(mut refresh) = self.refresh.take() else {
            return;
        };
        if refresh.has_columns() {
            let changed: Vec<JobId> = self.on_next_side(&mut refresh, |engine| {
                let changed = engine.refresh_here(task, reach);
                changed.into_iter().collect()
            });
            if !changed.is_empty() {
                self.patience.undo();
            }
            self.hope_has_changed(&mut refresh, changed);
        }
        self.refresh = Some(refresh);
    }

    /// Drops these jobs' columns of the refresh. Gates may have to be re-evaluated, and indexes of these levels are needed.
    pub(in crate::engine) fn build_again(
        &mut self,
        changed: &BTreeSet<JobId>,
        levels: Vec<(LevelId, LevelId)>,
    ) {
        let Some(mut refresh) = self.refresh.take() else {
            return;
        };
        // A growing forest does not depend on jobs.
        if refresh.has_columns() {
            self.patience.undo();
            self.take_out(&mut refresh, changed, levels);
        }
        self.refresh = Some(refresh);
    }

    /// Drops the columns of jobs that depend on tasks which became hopeless or stopped being so.
    ///
    /// An event may have moved only a gate, and the loss shows when the gate is evaluated. So the loss counts here.
    pub(super) fn hope_has_changed(&mut self, refresh: &mut Refresh, changed: Vec<JobId>) {
        if !changed.is_empty() {
            let changed = self.tasks.with_dependents(changed.into_iter().collect());
            self.take_out(refresh, &changed, Vec::new());
        }
    }

    /// Drops columns as [`Refresh::take_out`] does. From now on these jobs, and all that wait for them, are restless.
    fn take_out(
        &mut self,
        refresh: &mut Refresh,
        changed: &BTreeSet<JobId>,
        levels: Vec<(LevelId, LevelId)>,
    ) {
        match refresh.take_out(changed, levels, &mut self.rubbish) {
            Loss::Once => {}
            Loss::Added => self.patience.undo_by_adding(),
            Loss::Again => self.patience.undo_again(),
        }
        let restless = &mut refresh.restless;
        let mut open: Vec<JobId> = changed.iter().copied().collect();
        open.retain(|id| restless.insert(*id));
        while let Some(id) = open.pop() {
            let job = self.tasks.job(id);
            let after = job.dependents.iter().chain(&job.followers);
            open.extend(after.copied().filter(|id| restless.insert(*id)));
        }
    }

    /// Restarts the pass over all jobs, because indexes into the order of dependency have a new meaning.
    pub(in crate::engine) fn order_has_changed(&mut self) {
        let stage = self.refresh.as_mut().map(|refresh| &mut refresh.stage);
        match stage {
            Some(Stage::Columns(place)) => {
                if std::mem::take(place) > 0 {
                    self.patience.undo();
                }
            }
            Some(Stage::Growing(_) | Stage::Below(_) | Stage::Paths | Stage::Ready) | None => {}
        }
    }
}
