//! Who waits for cards and was passed.
//!
//! Who wants a whole card, or several, lets others pass who find a part of one free: else cards would lie idle. But it might wait for ever, if
//! there are always others. So it counts how often it was passed by somebody whom it would have kept from beginning: who got cards that are of use to
//! it, while it could not begin itself. Who was passed [`MOST_PASSES`] times keeps the cards that are free for it soonest: nobody
//! else gets anything of them, whatever the order of the queue, until it has begun. Of several the one that came first keeps them.
//!
//! Who could begin and was not chosen was not passed in this sense: that is for policies to say, which see to it that each has its turn.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use brasserie_common::{Card, CardNeed, CardUse, GpuShare, RunningTask};

use crate::queue::{Place, WHOLE_CPU, cpus_of};

/// Enough to fill a machine with parts of cards twice or so, and few enough that nobody waits for long.
pub(crate) const MOST_PASSES: u32 = 8;

/// Those that wait for cards, by their places in the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForCards {
    waiters: BTreeMap<Place, Waiter>,
    /// Where those are who were passed too often, by when they came.
    passed: BTreeMap<Place, Place>,
}

#[derive(Clone, Debug)]
struct Waiter {
    wants: Wants,
    /// In thousandths.
    cpus: u64,
    /// Its place when it came: each has a higher one than all before.
    came: Place,
    passes: u32,
}

#[derive(Clone, Debug)]
enum Wants {
    /// Its scheduler has chosen.
    These(Vec<GpuShare>),
    Such(CardNeed),
}

/// What a machine has when somebody begins there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) cards: &'a [Card],
    pub(crate) used: &'a CardUse,
    /// In thousandths.
    pub(crate) busy_cpus: u64,
    pub(crate) all_cpus: u64,
}

impl ForCards {
    pub(crate) fn insert(&mut self, place: Place, task: &RunningTask) {
        let wants = match &task.gpus_wanted {
            Some(wanted) if task.gpus.is_empty() => Wants::Such(wanted.need.clone()),
            Some(_) | None => Wants::These(task.gpus.clone()),
        };
        let waiter = Waiter {
            wants,
            cpus: cpus_of(task),
            came: place,
            passes: 0,
        };
        self.waiters.insert(place, waiter);
    }

    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(waiter) = self.waiters.remove(&place) {
            self.passed.remove(&waiter.came);
        }
    }

    pub(crate) fn replace(&mut self, place: Place, new: Place) {
        if let Some(waiter) = self.waiters.remove(&place) {
            if let Some(at) = self.passed.get_mut(&waiter.came) {
                *at = new;
            }
            self.waiters.insert(new, waiter);
        }
    }

    pub(crate) fn next_behind(&self, place: Place) -> Option<Place> {
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        self.waiters.range(behind).next().map(|(place, _)| *place)
    }

    /// Who keeps cards.
    pub(crate) fn keeper(&self) -> Option<Place> {
        self.passed.first_key_value().map(|(_, place)| *place)
    }

    /// The cards that are kept.
    pub(crate) fn kept(&self, cards: &[Card], used: &CardUse) -> Vec<Arc<str>> {
        let keeper = self.keeper().and_then(|place| self.waiters.get(&place));
        match keeper.map(|waiter| &waiter.wants) {
            None => Vec::new(),
            Some(Wants::Such(need)) => need.soonest(cards, used),
            Some(Wants::These(shares)) => {
                let devices = shares.iter().map(|share| Arc::clone(&share.device));
                devices.collect()
            }
        }
    }

    /// How often this one was passed.
    pub(crate) fn passes(&self, place: Place) -> u32 {
        self.waiters.get(&place).map_or(0, |waiter| waiter.passes)
    }

    /// Somebody is about to begin with these cards, who does not wait any more.
    pub(crate) fn note_begin(&mut self, scene: Scene<'_>, taken: &[GpuShare]) {
        for (place, waiter) in &mut self.waiters {
            if waiter.passes < MOST_PASSES
                && waiter.competes_for(scene, taken)
                && !waiter.could_begin(scene)
            {
                waiter.passes += 1;
                if waiter.passes == MOST_PASSES {
                    self.passed.insert(waiter.came, *place);
                }
            }
        }
    }
}

impl Waiter {
    fn could_begin(&self, scene: Scene<'_>) -> bool {
        let with_it = scene.busy_cpus + self.cpus;
        let has_cpus = scene.busy_cpus == 0 || with_it <= scene.all_cpus + WHOLE_CPU;
        has_cpus
            && match &self.wants {
                Wants::These(shares) => scene.used.check(shares, |_| true).is_ok(),
                Wants::Such(need) => need.pack(scene.cards, scene.used).is_some(),
            }
    }

    fn competes_for(&self, scene: Scene<'_>, taken: &[GpuShare]) -> bool {
        let mut devices = taken.iter().map(|share| &share.device);
        match &self.wants {
            Wants::These(shares) => {
                devices.any(|device| shares.iter().any(|own| own.device == *device))
            }
            Wants::Such(need) => devices.any(|device| {
                let card = scene.cards.iter().find(|card| card.device == *device);
                card.is_some_and(|card| need.can_use(&card.model))
            }),
        }
    }
}
