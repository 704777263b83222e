//! The order in which a refresh builds the columns of jobs.

use brasserie_common::JobId;

use super::Refresh;
use crate::engine::Engine;

/// The next step of building columns.
pub(super) enum Next {
    Build(JobId),
    PassOver,
    /// All jobs have columns.
    Settle,
}

impl Engine {
    /// Returns the next step. A job under construction goes first, so that a job that changes again and again does not undo the progress of
    /// others. All jobs that it depends on are built, or its construction would not have begun.
    ///
    /// A job that waits for a restless job, task by task or as a whole, is restless. So no job is built before those that it depends on.
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
