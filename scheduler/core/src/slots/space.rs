//! The space of workers for further copies, in an order that tells without a scan whether any worker has enough.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_scheduler_slots::{Bytes, ExceptWorkers, HolderId, Rack};

/// The workers with space for copies, and the largest copy that each can take. Never zero bytes.
///
/// Invariant: both maps have the same workers.
#[derive(Clone, Debug, Default)]
pub(super) struct CopySpace {
    workers: BTreeMap<HolderId, (Rack, Bytes)>,
    /// The workers of each rack, those with the most space last.
    racks: BTreeMap<Rack, BTreeSet<(Bytes, HolderId)>>,
}

impl CopySpace {
    pub(super) fn set(&mut self, holder: HolderId, rack: &Rack, space: Bytes) {
        self.remove(holder);
        if space > Bytes::ZERO {
            self.workers.insert(holder, (rack.clone(), space));
            let of_rack = self.racks.entry(rack.clone()).or_default();
            of_rack.insert((space, holder));
        }
    }

    pub(super) fn remove(&mut self, holder: HolderId) {
        let Some((rack, space)) = self.workers.remove(&holder) else {
            return;
        };
        if let Some(of_rack) = self.racks.get_mut(&rack) {
            of_rack.remove(&(space, holder));
            if of_rack.is_empty() {
                self.racks.remove(&rack);
            }
        }
    }

    /// Returns the size of the largest copy that any worker can take.
    pub(super) fn largest(&self) -> Bytes {
        let largest = self.racks.values().filter_map(BTreeSet::last);
        largest.map(|(space, _)| *space).max().unwrap_or_default()
    }

    /// Returns whether a worker can take a copy of this size.
    pub(super) fn has(&self, size: Bytes, except: &ExceptWorkers) -> bool {
        let racks = self.racks.iter();
        let racks = racks.filter(|(rack, _)| !except.racks.contains(*rack));
        let mut large = racks.flat_map(|(_, of_rack)| of_rack.range((size, HolderId(0))..));
        large.any(|(_, holder)| !except.holders.contains(holder))
    }
}
