//! The calls by which programs reserve places for artifacts that they write themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use brasserie_common::{MachinePortLock, Principal, Time};
use brasserie_scheduler_slots::DiskId;

use super::Scheduler;
use super::effect::Reply;
use super::event::SlotsCall;
use crate::owners::{Owned, check_owner, owner_of};
use crate::refusal::Rejection;
use crate::slots::{
    NoSlots, RESERVED_FOR, ReservedPlace, ReservedSlots, SlotPlace, SlotsRequest, WorkerWithSlots,
    disk_id,
};

impl Scheduler {
    pub(super) fn serve_slots(&mut self, now: Time, call: &SlotsCall) {
        let (request, reply) = match call {
            SlotsCall::Request {
                request,
                from,
                wanted,
            } => {
                let wanted = (&**wanted, owner_of(from));
                let reserved = self.reserve_slots(now, wanted).map(Box::new);
                (request, Reply::Slots(reserved))
            }
            SlotsCall::Release {
                request,
                from,
                scheduler,
                reservation,
            } => {
                let number = *reservation;
                // The reservations of other instances have ended with these.
                let released = match *scheduler == self.id {
                    true => self.release_slots(now, from, number),
                    false => Ok(false),
                };
                (request, Reply::SlotsReleased(released))
            }
        };
        self.outbox.reply(*request, reply);
    }

    pub(super) fn refuse_slots(&mut self, call: &SlotsCall, rejection: Rejection) {
        let (request, reply) = match call {
            SlotsCall::Request { request, .. } => {
                (request, Reply::Slots(Err(NoSlots::Rejected(rejection))))
            }
            SlotsCall::Release { request, .. } => (request, Reply::SlotsReleased(Err(rejection))),
        };
        self.outbox.reply(*request, reply);
    }

    fn release_slots(
        &mut self,
        now: Time,
        from: &Principal,
        reservation: u64,
    ) -> Result<bool, Rejection> {
        let owner = self.artifacts.slots_owner(reservation);
        check_owner(from, Owned::Reservation(reservation), &owner)?;
        Ok(self.artifacts.release_slots(now, reservation))
    }

    fn reserve_slots(
        &mut self,
        now: Time,
        (wanted, owner): (&SlotsRequest, Option<&Arc<str>>),
    ) -> Result<ReservedSlots, NoSlots> {
        let except = wanted
            .except
            .iter()
            .filter_map(|shard| self.pool.get(shard));
        let except = except.map(|remote| remote.description().machine_lock.clone());
        let except = except.collect();
        let reserved = self
            .artifacts
            .reserve_slots(now, (wanted, owner), &except)?;
        let mut workers = Workers::default();
        let mut slots = Vec::with_capacity(reserved.places.len());
        for (primary, replica) in &reserved.places {
            let primary = workers.place(primary);
            slots.push((primary, replica.as_ref().map(|place| workers.place(place))));
        }
        let spares = reserved.spares.into_iter().map(|lock| (lock, Vec::new()));
        let with_slots = workers.all.into_iter().chain(spares);
        let described = |(lock, disks): (_, Vec<_>)| {
            let store = self.artifacts.store(&lock);
            let store = store.expect("Invariant: a worker with slots has reported its disks");
            let of_disk = |disk| {
                let generations = store.disks.iter().map(|disk| disk.generation);
                let mut same = generations.filter(|generation| disk_id(*generation) == disk);
                same.next()
                    .expect("Invariant: a slot is on a reported disk")
            };
            WorkerWithSlots {
                shard: store.shard.clone(),
                place: store.place.clone(),
                disks: disks.into_iter().map(of_disk).collect(),
            }
        };
        Ok(ReservedSlots {
            scheduler: self.id,
            reservation: reserved.reservation,
            reserved_for: RESERVED_FOR,
            bytes_each: reserved.bytes_each,
            workers: with_slots.map(described).collect(),
            slots,
        })
    }
}

/// The workers of an answer, in the order in which the places name them.
#[derive(Default)]
struct Workers {
    all: Vec<(MachinePortLock, Vec<DiskId>)>,
    positions: BTreeMap<MachinePortLock, usize>,
}

impl Workers {
    fn place(&mut self, (lock, disk): &ReservedPlace) -> SlotPlace {
        let next = self.all.len();
        let worker = *self.positions.entry(lock.clone()).or_insert(next);
        if worker == next {
            self.all.push((lock.clone(), Vec::new()));
        }
        let disks = &mut self.all[worker].1;
        let known = disks.iter().position(|known| known == disk);
        let disk = known.unwrap_or_else(|| {
            disks.push(*disk);
            disks.len() - 1
        });
        SlotPlace { worker, disk }
    }
}
