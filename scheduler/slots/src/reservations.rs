//! Slots that were granted and that no report of their worker contains yet. Without them, two requests between two heartbeats of a worker
//! would get the same space.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::Time;

use super::amounts::HolderId;
use super::disk::DiskId;

/// The number of one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationId(pub u64);

/// The part of a grant that is on one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reserved {
    at: Time,
    slots: BTreeMap<DiskId, u64>,
}

/// Reservations of one worker. Invariant: `totals` has the sums of `grants`, and no zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfWorker {
    grants: BTreeMap<ReservationId, Reserved>,
    totals: BTreeMap<DiskId, u64>,
}

impl OfWorker {
    fn remove(&mut self, id: ReservationId) {
        let Some(reserved) = self.grants.remove(&id) else {
            return;
        };
        for (disk, slots) in reserved.slots {
            if let Some(total) = self.totals.get_mut(&disk) {
                *total -= slots;
                if *total == 0 {
                    self.totals.remove(&disk);
                }
            }
        }
    }
}

/// All unreported reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    workers: BTreeMap<HolderId, OfWorker>,
    /// The workers of each grant that is not completely reported. Invariant: the same pairs as in `workers`.
    holders: BTreeMap<ReservationId, BTreeSet<HolderId>>,
    next: u64,
}

impl Reservations {
    /// Returns the unreported slots of a disk.
    pub fn reserved(&self, holder: HolderId, disk: DiskId) -> u64 {
        let worker = self.workers.get(&holder);
        worker
            .and_then(|worker| worker.totals.get(&disk))
            .copied()
            .unwrap_or(0)
    }

    /// Reserves slots at `now`, one entry for each disk.
    pub fn reserve(
        &mut self,
        slots: impl IntoIterator<Item = (HolderId, DiskId, u64)>,
        now: Time,
    ) -> ReservationId {
        let id = ReservationId(self.next);
        self.next += 1;
        let mut holders = BTreeSet::new();
        for (holder, disk, count) in slots {
            if count == 0 {
                continue;
            }
            holders.insert(holder);
            let worker = self.workers.entry(holder).or_default();
            *worker.totals.entry(disk).or_default() += count;
            let reserved = worker.grants.entry(id).or_insert_with(|| Reserved {
                at: now,
                slots: BTreeMap::new(),
            });
            *reserved.slots.entry(disk).or_default() += count;
        }
        if !holders.is_empty() {
            self.holders.insert(id, holders);
        }
        id
    }

    /// Ends a grant whose artifacts will not be written. Has no effect on the parts that their workers have reported.
    pub fn release(&mut self, id: ReservationId) {
        for holder in self.holders.remove(&id).unwrap_or_default() {
            if let Some(worker) = self.workers.get_mut(&holder) {
                worker.remove(id);
            }
            self.drop_if_empty(holder);
        }
    }

    /// Accepts a report of a worker that contains its slots of all grants until `included`.
    pub fn report(&mut self, holder: HolderId, included: Time) {
        let Some(worker) = self.workers.get_mut(&holder) else {
            return;
        };
        let known = worker.grants.iter();
        let known: Vec<ReservationId> = known
            .filter(|(_, reserved)| reserved.at <= included)
            .map(|(&id, _)| id)
            .collect();
        for &id in &known {
            worker.remove(id);
        }
        for id in known {
            self.unlink(id, holder);
        }
        self.drop_if_empty(holder);
    }

    /// Forgets the reservations of a worker that is lost, or that has registered again.
    pub fn forget(&mut self, holder: HolderId) {
        self.report(holder, Time::NEVER);
    }

    fn unlink(&mut self, id: ReservationId, holder: HolderId) {
        if let Some(holders) = self.holders.get_mut(&id) {
            holders.remove(&holder);
            if holders.is_empty() {
                self.holders.remove(&id);
            }
        }
    }

    fn drop_if_empty(&mut self, holder: HolderId) {
        let worker = self.workers.get(&holder);
        if worker.is_some_and(|worker| worker.grants.is_empty()) {
            self.workers.remove(&holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: HolderId = HolderId(1);
    const B: HolderId = HolderId(2);
    const D: DiskId = DiskId(7);
    const E: DiskId = DiskId(8);

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn a_report_ends_the_reservations_that_it_contains() {
        let mut all = Reservations::default();
        all.reserve([(A, D, 3), (B, D, 1)], at(1));
        all.reserve([(A, D, 2), (A, E, 5)], at(2));
        assert_eq!((all.reserved(A, D), all.reserved(A, E)), (5, 5));
        all.report(A, at(1));
        assert_eq!((all.reserved(A, D), all.reserved(A, E)), (2, 5));
        assert_eq!(all.reserved(B, D), 1);
        all.report(A, at(2));
        all.report(B, at(2));
        assert!(all.workers.is_empty() && all.holders.is_empty());
    }

    #[test]
    fn a_released_grant_takes_nothing_from_others() {
        let mut all = Reservations::default();
        let first = all.reserve([(A, D, 3), (B, D, 1)], at(1));
        all.report(A, at(1));
        all.reserve([(A, D, 2)], at(2));
        all.release(first);
        assert_eq!((all.reserved(A, D), all.reserved(B, D)), (2, 0));
        all.release(first);
        assert_eq!(all.reserved(A, D), 2);
    }

    #[test]
    fn a_forgotten_worker_has_no_reservations() {
        let mut all = Reservations::default();
        let id = all.reserve([(A, D, 3), (B, D, 0)], at(5));
        assert_eq!(all.holders[&id], BTreeSet::from([A]));
        all.forget(A);
        assert_eq!(
            all,
            Reservations {
                next: 1,
                ..Reservations::default()
            }
        );
    }

    #[derive(Clone, Debug)]
    enum Step {
        Reserve(Vec<(u32, u64, u64)>),
        Release(u64),
        Report(u32, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let slots = (0..3_u32, 0..3_u64, 0..5_u64);
        prop_oneof![
            proptest::collection::vec(slots, 0..6).prop_map(Step::Reserve),
            (0..20_u64).prop_map(Step::Release),
            (0..3_u32, 0..40_u64).prop_map(|(holder, ago)| Step::Report(holder, ago)),
        ]
    }

    integration_tests_properties::properties! {
        128;

        /// The reference is a list of (grant, time, worker, disk, slots).
        #[test]
        fn sums_are_those_of_a_list(steps in proptest::collection::vec(step(), 0..40)) {
            let mut all = Reservations::default();
            let mut list: Vec<(ReservationId, u64, HolderId, DiskId, u64)> = Vec::new();
            for (now, step) in (0..).zip(steps) {
                match step {
                    Step::Reserve(slots) => {
                        let slots: Vec<_> = slots
                            .into_iter()
                            .map(|(holder, disk, count)| (HolderId(holder), DiskId(disk), count))
                            .collect();
                        let id = all.reserve(slots.iter().copied(), at(now));
                        list.extend(slots.into_iter().map(|(h, d, count)| (id, now, h, d, count)));
                    }
                    Step::Release(id) => {
                        all.release(ReservationId(id));
                        list.retain(|entry| entry.0 != ReservationId(id));
                    }
                    Step::Report(holder, ago) => {
                        let included = now.saturating_sub(ago);
                        all.report(HolderId(holder), at(included));
                        list.retain(|entry| entry.2 != HolderId(holder) || entry.1 > included);
                    }
                }
                for (h, d) in (0..3).flat_map(|h| (0..3).map(move |d| (HolderId(h), DiskId(d)))) {
                    let of_disk = list.iter().filter(|entry| (entry.2, entry.3) == (h, d));
                    prop_assert_eq!(all.reserved(h, d), of_disk.map(|entry| entry.4).sum::<u64>());
                }
            }
        }
    }
}
