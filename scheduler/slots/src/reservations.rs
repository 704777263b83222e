//! Space that was granted and that no report of its worker contains yet. Without reservations, two requests between two heartbeats of a
//! worker would get the same space.
//!
//! Space is counted in bytes, because the slots of a request have their own size.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::Time;

use super::amounts::{Bytes, HolderId};
use super::disk::DiskId;

/// The number of one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationId(pub u64);

/// The part of a grant that is on one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reserved {
    at: Time,
    bytes: BTreeMap<DiskId, u64>,
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
        for (disk, bytes) in reserved.bytes {
            if let Some(total) = self.totals.get_mut(&disk) {
                *total -= bytes;
                if *total == 0 {
                    self.totals.remove(&disk);
                }
            }
        }
    }
}

/// A grant that its workers have not completely reported.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenGrant {
    until: Time,
    holders: BTreeSet<HolderId>,
}

/// All unreported reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    workers: BTreeMap<HolderId, OfWorker>,
    /// Invariant: the same pairs of grants and workers as in `workers`.
    open: BTreeMap<ReservationId, OpenGrant>,
    /// Invariant: the grants of `open`, each at the time of its end.
    ends: BTreeSet<(Time, ReservationId)>,
    next: u64,
    /// The workers whose unreported space has changed since the last call of [`Reservations::take_changed`].
    changed: BTreeSet<HolderId>,
}

impl Reservations {
    /// Returns the unreported space of a disk.
    pub fn reserved(&self, holder: HolderId, disk: DiskId) -> Bytes {
        let worker = self.workers.get(&holder);
        let bytes = worker.and_then(|worker| worker.totals.get(&disk));
        Bytes(bytes.copied().unwrap_or(0))
    }

    /// Takes the workers whose unreported space has changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<HolderId> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the number of grants that have not ended.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    pub fn is_open(&self, id: ReservationId) -> bool {
        self.open.contains_key(&id)
    }

    /// Reserves space at `now` until `until`, one entry for each disk.
    pub fn reserve(
        &mut self,
        space: impl IntoIterator<Item = (HolderId, DiskId, Bytes)>,
        now: Time,
        until: Time,
    ) -> ReservationId {
        let id = ReservationId(self.next);
        self.next += 1;
        let mut holders = BTreeSet::new();
        for (holder, disk, Bytes(bytes)) in space {
            let worker = self.workers.entry(holder).or_default();
            let total = worker.totals.get(&disk).copied().unwrap_or(0);
            // A disk has fewer bytes, so that the sums of a real cluster never saturate.
            let bytes = bytes.min(u64::MAX - total);
            if bytes == 0 {
                self.drop_if_empty(holder);
                continue;
            }
            holders.insert(holder);
            worker.totals.insert(disk, total + bytes);
            let reserved = worker.grants.entry(id).or_insert_with(|| Reserved {
                at: now,
                bytes: BTreeMap::new(),
            });
            *reserved.bytes.entry(disk).or_default() += bytes;
        }
        if !holders.is_empty() {
            self.changed.extend(&holders);
            self.open.insert(id, OpenGrant { until, holders });
            self.ends.insert((until, id));
        }
        id
    }

    /// Ends the grants whose time is over.
    pub fn expire(&mut self, now: Time) {
        while let Some(&(until, id)) = self.ends.first()
            && until <= now
        {
            self.release(id);
        }
    }

    /// Ends a grant whose artifacts will not be written. Has no effect on the parts that their workers have reported.
    pub fn release(&mut self, id: ReservationId) {
        let Some(grant) = self.open.remove(&id) else {
            return;
        };
        self.ends.remove(&(grant.until, id));
        for holder in grant.holders {
            if let Some(worker) = self.workers.get_mut(&holder) {
                worker.remove(id);
                self.changed.insert(holder);
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
            self.changed.insert(holder);
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
        if let Some(grant) = self.open.get_mut(&id) {
            grant.holders.remove(&holder);
            if grant.holders.is_empty() {
                self.ends.remove(&(grant.until, id));
                self.open.remove(&id);
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

    /// Reserves bytes for ever.
    fn reserve(
        all: &mut Reservations,
        space: &[(HolderId, DiskId, u64)],
        now: u64,
    ) -> ReservationId {
        let space = space
            .iter()
            .map(|&(holder, disk, bytes)| (holder, disk, Bytes(bytes)));
        all.reserve(space, at(now), Time::NEVER)
    }

    fn reserved(all: &Reservations, disks: &[(HolderId, DiskId)]) -> Vec<u64> {
        let disks = disks.iter();
        disks
            .map(|&(holder, disk)| all.reserved(holder, disk).0)
            .collect()
    }

    #[test]
    fn a_report_ends_the_reservations_that_it_contains() {
        let mut all = Reservations::default();
        reserve(&mut all, &[(A, D, 3), (B, D, 1)], 1);
        reserve(&mut all, &[(A, D, 2), (A, E, 5)], 2);
        assert_eq!(reserved(&all, &[(A, D), (A, E)]), [5, 5]);
        all.report(A, at(1));
        assert_eq!(reserved(&all, &[(A, D), (A, E), (B, D)]), [2, 5, 1]);
        all.report(A, at(2));
        all.report(B, at(2));
        assert!(all.workers.is_empty() && all.open.is_empty() && all.ends.is_empty());
    }

    #[test]
    fn a_released_grant_takes_nothing_from_others() {
        let mut all = Reservations::default();
        let first = reserve(&mut all, &[(A, D, 3), (B, D, 1)], 1);
        all.report(A, at(1));
        reserve(&mut all, &[(A, D, 2)], 2);
        all.release(first);
        assert_eq!(reserved(&all, &[(A, D), (B, D)]), [2, 0]);
        all.release(first);
        assert_eq!(reserved(&all, &[(A, D)]), [2]);
    }

    #[test]
    fn a_forgotten_worker_has_no_reservations() {
        let mut all = Reservations::default();
        let id = reserve(&mut all, &[(A, D, 3), (B, D, 0)], 5);
        assert_eq!(all.open[&id].holders, BTreeSet::from([A]));
        assert_eq!(all.take_changed(), BTreeSet::from([A]));
        all.forget(A);
        assert_eq!(all.take_changed(), BTreeSet::from([A]));
        assert_eq!(
            all,
            Reservations {
                next: 1,
                ..Reservations::default()
            }
        );
    }

    #[test]
    fn a_grant_ends_by_itself() {
        let mut all = Reservations::default();
        let first = all.reserve([(A, D, Bytes(3))], at(1), at(10));
        let second = all.reserve([(A, D, Bytes(2)), (B, D, Bytes(4))], at(1), at(11));
        assert_eq!(all.count(), 2);
        all.expire(at(9));
        assert!(all.is_open(first));
        all.expire(at(10));
        assert!(!all.is_open(first) && all.is_open(second));
        assert_eq!(reserved(&all, &[(A, D), (B, D)]), [2, 4]);
        all.expire(at(11));
        assert!(all.workers.is_empty() && all.open.is_empty());
    }

    #[test]
    fn sums_saturate() {
        let mut all = Reservations::default();
        let first = reserve(&mut all, &[(A, D, u64::MAX), (A, D, 5)], 1);
        let second = reserve(&mut all, &[(A, D, 7)], 1);
        assert_eq!(reserved(&all, &[(A, D)]), [u64::MAX]);
        all.release(second);
        all.release(first);
        assert!(all.workers.is_empty() && all.open.is_empty());
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
                        let id = reserve(&mut all, &slots, now);
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
                    prop_assert_eq!(all.reserved(h, d).0, of_disk.map(|entry| entry.4).sum::<u64>());
                }
            }
        }
    }
}
