//! The peers that answered busy a moment ago.

use std::collections::BTreeMap;

use brasserie_common::Time;

use super::types::PeerId;

/// The end of each peer's mark. A mark is set by a busy answer, and nothing but its time removes it. A marked peer receives no request, so
/// only the answer to an earlier request of the other purpose can extend its mark.
#[derive(Clone, Debug, Default)]
pub struct BusyMarks {
    until: BTreeMap<PeerId, Time>,
}

impl BusyMarks {
    pub fn mark(&mut self, peer: PeerId, until: Time) {
        self.until.insert(peer, until);
    }

    /// Removes the marks whose time has come.
    pub fn expire(&mut self, now: Time) {
        self.until.retain(|_, until| *until > now);
    }

    pub fn is_marked(&self, peer: &PeerId) -> bool {
        self.until.contains_key(peer)
    }

    /// Returns the time at which the next mark ends.
    pub fn next_end(&self) -> Option<Time> {
        self.until.values().copied().min()
    }
}
