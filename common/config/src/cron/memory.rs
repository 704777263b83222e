//! What an item's times have been: up to when each has had its node, so that downtime, a clock that is set, or another zone neither
//! loses a time nor gives it twice.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::WallTime;

use super::times::{INSTANT, MAX_TIMES};
use super::{Cron, Zone};
use crate::model::ScheduleItem;

/// Stretches that one item remembers. One that is late outlives no other that is, so more than three are as many changes of the
/// machine's zone within a lifetime.
const MAX_STRETCHES: usize = 16;

/// Which item of which source, by what it says: an item that is changed is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey(pub String);

/// What is known of all items after a refresh. The next refresh takes it as it is, also of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleMemory(pub BTreeMap<ItemKey, ItemMemory>);

/// Stretches of wall time, ascending, whose times have all been given.
///
/// Invariant: what lies before the end of the last one is never given again, whether it lies in a stretch or was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemMemory(Vec<Stretch>);

/// Some wall time, all of whose times were given in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Exclusive.
    pub after: WallTime,
    /// Inclusive.
    pub up_to: WallTime,
    /// When it was begun. A time whose lifetime was over by then lives from here on, as it had no life before.
    pub seen: WallTime,
    pub zone: Zone,
}

/// A time and when its lifetime begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Living {
    pub(super) at: WallTime,
    pub(super) born: WallTime,
}

impl ItemMemory {
    /// As it was kept elsewhere; what contradicts the invariant is dropped, from its first stretch on.
    pub fn restore(stretches: Vec<Stretch>) -> ItemMemory {
        let mut memory = ItemMemory::default();
        for stretch in stretches {
            let is_next = memory
                .0
                .last()
                .is_none_or(|last| last.up_to <= stretch.after);
            if !is_next || stretch.after > stretch.up_to {
                break;
            }
            memory.0.push(stretch);
        }
        memory.bound();
        memory
    }

    /// What to keep elsewhere.
    pub fn stretches(&self) -> &[Stretch] {
        &self.0
    }

    /// Goes on to `now`. Of what was missed since, at most `window` is caught up with; a clock that is set back by no more than that
    /// stands still meanwhile, and one that is set back by more, as it was wrong before, begins anew.
    ///
    /// Returns the moment that holds for lifetimes: `now`, or the latest there was if the clock was set back.
    pub(super) fn advance(
        &mut self,
        item: &ScheduleItem,
        zone: &Zone,
        now: WallTime,
        window: Duration,
    ) -> WallTime {
        let window = window.max(item.lifetime);
        let Some(last) = self.0.last_mut().filter(|last| last.up_to <= now + window) else {
            self.0 = vec![Stretch {
                after: now - item.lifetime,
                up_to: now,
                seen: now,
                zone: zone.clone(),
            }];
            return now;
        };
        if now <= last.up_to {
            return last.up_to;
        }
        // Then none of the new times is over.
        let is_on_time = now <= last.up_to + item.lifetime;
        if is_on_time && last.zone == *zone {
            last.up_to = now;
        } else {
            let missed = last.up_to.max(now - window);
            let stretch = Stretch {
                after: fitting(&item.cron, zone, missed, now),
                up_to: now,
                seen: now,
                zone: zone.clone(),
            };
            self.0.push(stretch);
        }
        // Never of the last one, which later times follow on: it has just come to `now`.
        let is_over = |s: &Stretch| s.up_to.max(s.seen) + item.lifetime <= now;
        self.0.retain(|stretch| !is_over(stretch));
        self.bound();
        now
    }

    fn bound(&mut self) {
        let excess = self.0.len().saturating_sub(MAX_STRETCHES);
        self.0.drain(..excess);
    }

    /// The times that live at this moment, ascending.
    pub(super) fn living<'a>(
        &'a self,
        item: &'a ScheduleItem,
        moment: WallTime,
    ) -> impl Iterator<Item = Living> + 'a {
        self.0.iter().flat_map(move |stretch| {
            let has_late = moment < stretch.seen + item.lifetime;
            let after = match has_late {
                true => stretch.after,
                false => stretch.after.max(moment - item.lifetime),
            };
            let times = between(&item.cron, &stretch.zone, after, stretch.up_to);
            times
                .map(move |at| Living {
                    at,
                    born: match at + item.lifetime > stretch.seen {
                        true => at,
                        false => stretch.seen,
                    },
                })
                .filter(move |living| moment < living.born + item.lifetime)
        })
    }
}

/// The item's times after one moment, up to another.
fn between<'a>(
    cron: &'a Cron,
    zone: &'a Zone,
    after: WallTime,
    up_to: WallTime,
) -> impl Iterator<Item = WallTime> + 'a {
    let next = move |after: WallTime| {
        let at = cron.first_from(after + INSTANT, zone);
        at.filter(|at| *at <= up_to)
    };
    std::iter::successors(next(after), move |at| next(*at))
}

/// From when on there are no more than [`MAX_TIMES`]: what was missed longest ago is given up first.
fn fitting(cron: &Cron, zone: &Zone, after: WallTime, up_to: WallTime) -> WallTime {
    let count = between(cron, zone, after, up_to).count();
    match count.checked_sub(MAX_TIMES) {
        None | Some(0) => after,
        Some(excess) => {
            let last_given_up = between(cron, zone, after, up_to).nth(excess - 1);
            last_given_up.unwrap_or(after)
        }
    }
}
