//! Protection of tasks that wait for GPUs from being overtaken forever.
//!
//! A task that needs whole GPUs lets tasks overtake it that fit on a free part of a GPU, because GPUs would be idle otherwise. A steady
//! stream of such tasks could block it forever. So each waiting task counts how often it was overtaken: another task got GPUs that it could
//! use, while it could not begin itself. A task that was overtaken [`MOST_OVERTAKEN`] times reserves the GPUs that will be free for it
//! soonest. Until it has begun, no other task gets any part of them, whatever the order of the queue. Of several such tasks, the one that
//! arrived first reserves GPUs.
//!
//! A waiting task that could have begun but was not chosen does not count as overtaken. The policies give each such task its turn.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use brasserie_common::{Card, CardNeed, CardUse, GpuShare, RunningTask};

use super::{Place, WHOLE_CPU, cpus_of};

/// A limit that lets a machine fill with parts of GPUs about twice, and that lets no task wait for long.
pub(crate) const MOST_OVERTAKEN: u32 = 8;

/// The tasks that wait for GPUs, by their places in the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuWaiters {
    waiters: BTreeMap<Place, Waiter>,
    /// The places of tasks that were overtaken too often, by their places at arrival.
    reservers: BTreeMap<Place, Place>,
}

#[derive(Clone, Debug)]
struct Waiter {
    wants: Wants,
    /// Thousandths of a processor.
    cpus: u64,
    /// The task's place at arrival, which is higher than those of all earlier tasks.
    came: Place,
    overtaken: u32,
}

#[derive(Clone, Debug)]
enum Wants {
    /// The GPUs that the scheduler has chosen.
    These(Vec<GpuShare>),
    Such(CardNeed),
}

/// The state of the machine when a task begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineUse<'a> {
    pub cards: &'a [Card],
    pub used: &'a CardUse,
    /// Thousandths of a processor.
    pub busy_cpus: u64,
    pub all_cpus: u64,
}

impl GpuWaiters {
    pub(super) fn insert(&mut self, place: Place, task: &RunningTask) {
        let wants = match &task.gpus_wanted {
            Some(wanted) if task.gpus.is_empty() => Wants::Such(wanted.need.clone()),
            Some(_) | None => Wants::These(task.gpus.clone()),
        };
        let waiter = Waiter {
            wants,
            cpus: cpus_of(task),
            came: place,
            overtaken: 0,
        };
        self.waiters.insert(place, waiter);
    }

    pub(super) fn remove(&mut self, place: Place) {
        if let Some(waiter) = self.waiters.remove(&place) {
            self.reservers.remove(&waiter.came);
        }
    }

    pub(super) fn replace(&mut self, place: Place, new: Place) {
        if let Some(waiter) = self.waiters.remove(&place) {
            if let Some(at) = self.reservers.get_mut(&waiter.came) {
                *at = new;
            }
            self.waiters.insert(new, waiter);
        }
    }

    pub(super) fn next_behind(&self, place: Place) -> Option<Place> {
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        self.waiters.range(behind).next().map(|(place, _)| *place)
    }

    /// Returns the place of the task that reserves GPUs.
    pub(super) fn reserver(&self) -> Option<Place> {
        self.reservers.first_key_value().map(|(_, place)| *place)
    }

    /// Returns the reserved GPUs.
    pub(super) fn reserved(&self, cards: &[Card], used: &CardUse) -> Vec<Arc<str>> {
        let reserver = self.reserver().and_then(|place| self.waiters.get(&place));
        match reserver.map(|waiter| &waiter.wants) {
            None => Vec::new(),
            Some(Wants::Such(need)) => need.soonest(cards, used),
            Some(Wants::These(shares)) => {
                let devices = shares.iter().map(|share| Arc::clone(&share.device));
                devices.collect()
            }
        }
    }

    /// Returns how often this task was overtaken.
    pub(super) fn overtaken(&self, place: Place) -> u32 {
        self.waiters
            .get(&place)
            .map_or(0, |waiter| waiter.overtaken)
    }

    /// Counts whom a task overtakes that is no longer queued and is about to begin with these GPUs.
    pub(super) fn count_overtaken(&mut self, now: MachineUse<'_>, taken: &[GpuShare]) {
        for (place, waiter) in &mut self.waiters {
            if waiter.overtaken < MOST_OVERTAKEN
                && waiter.competes_for(now, taken)
                && !waiter.could_begin(now)
            {
                waiter.overtaken += 1;
                if waiter.overtaken == MOST_OVERTAKEN {
                    self.reservers.insert(waiter.came, *place);
                }
            }
        }
    }
}

impl Waiter {
    fn could_begin(&self, now: MachineUse<'_>) -> bool {
        let with_it = now.busy_cpus + self.cpus;
        let has_cpus = now.busy_cpus == 0 || with_it <= now.all_cpus + WHOLE_CPU;
        has_cpus
            && match &self.wants {
                Wants::These(shares) => now.used.check(shares, |_| true).is_ok(),
                Wants::Such(need) => need.pack(now.cards, now.used).is_some(),
            }
    }

    fn competes_for(&self, now: MachineUse<'_>, taken: &[GpuShare]) -> bool {
        let mut devices = taken.iter().map(|share| &share.device);
        match &self.wants {
            Wants::These(shares) => {
                devices.any(|device| shares.iter().any(|own| own.device == *device))
            }
            Wants::Such(need) => devices.any(|device| {
                let card = now.cards.iter().find(|card| card.device == *device);
                card.is_some_and(|card| need.can_use(&card.model))
            }),
        }
    }
}
