//! The reason for which a worker is not permitted yet, for people.

use brasserie_common::WorkerId;

use super::{Consensus, Permit};

/// The reason for which a worker may not become HEALTHY for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithheldBy {
    /// The worker has echoed no set of this scheduler.
    Itself,
    /// This worker, one of the given number, may hold an earlier scheduler's set until it echoes one of this scheduler.
    Foreigner(WorkerId, usize),
    /// No worker whose echo would count has echoed a set with this worker yet.
    Others,
}

impl Consensus {
    /// Returns why this worker is not permitted; `None` if it is.
    pub(crate) fn withheld_by(&self, worker: WorkerId) -> Option<WithheldBy> {
        let member = self.members.get(&worker)?;
        match member.permit {
            Permit::Granted => None,
            Permit::Withheld if member.echoed.is_none() => Some(WithheldBy::Itself),
            Permit::Withheld => Some(match self.foreigners.first() {
                Some(first) => WithheldBy::Foreigner(*first, self.foreigners.len()),
                None => WithheldBy::Others,
            }),
        }
    }
}
