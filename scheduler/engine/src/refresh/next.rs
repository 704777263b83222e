//! In which order jobs get their columns under a node table on its way.

use brasserie_common::JobId;

use super::Refresh;
use crate::engine::Engine;

/// What is done next about columns.
pub(super) enum Next {
    Build(JobId),
    PassOver,
    /// All jobs have theirs.
    Settle,
}

impl Engine {
    /// One that is under way goes first: a job that is changed again and again must not undo what is there of others. It depends on
    /// none that is not built, or it would not be under way.
    ///
    /// Whoever waits for a restless job, task by task or as a whole, is one, so none is built before those that it depends on.
    pub(super) fn next_to_build(&self, refresh: &Refresh, place: usize) -> Next {
        if let Some((id, _)) = refresh.under_way {
            return Next::Build(id);
        }
        let jobs = self.by_dependency.len();
        let (id, are_restless) = match place.checked_sub(jobs) {
            None => (self.by_dependency.get(place), false),
            Some(place) => (self.by_dependency.get(place), true),
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
}
