//! Why a worker is not permitted yet, for people.

use brasserie_common::WorkerId;

use super::{Consensus, Permit};

/// Why a worker may not become HEALTHY for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithheldBy {
    /// It has sent back no set of this scheduler.
    Itself,
    /// This one, of so many in all, may hold an earlier scheduler's set until it sends back one of this scheduler.
    Foreigner(WorkerId, usize),
    /// Nobody has sent back a set with it yet from whom that would count.
    Others,
}

impl Consensus {
    /// What this worker, which is not permitted, waits for.
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
