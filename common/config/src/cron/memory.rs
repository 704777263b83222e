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

/// How far the record of an item may lie behind while none of its times begins or ends. A restart in another zone takes times of that
/// zone for missed from the end of the record on; nodes are refreshed this often anyway, so that is no worse than without a restart.
const RECORD_LAG: Duration = Duration::from_secs(300);

/// Items that no configuration has any more and that are remembered nevertheless: a thousand configurations a day, each with ten items
/// of its own.
const MAX_ABSENT: usize = 10_000;

/// Which item of which source, by what it says: an item that is changed is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey(pub String);

/// What is known of all items after a refresh. The next refresh takes it as it is, also of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleMemory(pub BTreeMap<ItemKey, ItemMemory>);

/// What a record must say so that another process goes on as this one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleChanges {
    pub changed: Vec<(ItemKey, ItemMemory)>,
    pub forgotten: Vec<ItemKey>,
}

/// What is known of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemMemory {
    /// Stretches of wall time, ascending, whose times have all been given.
    ///
    /// Invariant: what lies before the end of the last one is never given again, whether it lies in a stretch or was given up.
    stretches: Vec<Stretch>,
    /// When a time began, was disabled or ended last: since then the last stretch has only grown.
    changed: WallTime,
    /// Since when no configuration has the item. What passes meanwhile is not missed.
    absent_since: Option<WallTime>,
}

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

/// How an item has gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advanced {
    /// What holds for lifetimes: the time, or the latest there was if the clock was set back.
    pub(super) moment: WallTime,
    /// Times that never get a node; of more than [`MAX_TIMES`] no more are counted.
    pub(super) given_up: usize,
}

impl ScheduleMemory {
    /// Adds what was known of items that are gone, until they have been so for longer than `window`: one that comes back goes on, so
    /// that nothing is given twice.
    pub fn remember_absent(&mut self, before: &ScheduleMemory, now: WallTime, window: Duration) {
        let absent = before.0.iter().filter(|(key, _)| !self.0.contains_key(key));
        let mut absent: Vec<(WallTime, &ItemKey, &ItemMemory)> = absent
            .map(|(key, item)| (item.absent_since.unwrap_or(now), key, item))
            .filter(|(since, ..)| *since <= now + window && now < *since + window)
            .collect();
        absent.sort_by_key(|(since, key, _)| (std::cmp::Reverse(*since), *key));
        for (since, key, item) in absent.into_iter().take(MAX_ABSENT) {
            let item = ItemMemory {
                absent_since: Some(since),
                ..item.clone()
            };
            self.0.insert(key.clone(), item);
        }
    }

    /// How the record of `recorded` must change.
    pub fn changes_since(&self, recorded: &ScheduleMemory) -> ScheduleChanges {
        let is_news = |(key, item): &(&ItemKey, &ItemMemory)| {
            let known = recorded.0.get(*key);
            !known.is_some_and(|known| item.is_recorded_by(known))
        };
        let changed = self.0.iter().filter(is_news);
        let forgotten = recorded.0.keys().filter(|key| !self.0.contains_key(key));
        ScheduleChanges {
            changed: changed.map(|(k, item)| (k.clone(), item.clone())).collect(),
            forgotten: forgotten.cloned().collect(),
        }
    }

    /// Makes the changes.
    pub fn change(&mut self, changes: &ScheduleChanges) {
        for key in &changes.forgotten {
            self.0.remove(key);
        }
        self.0.extend(changes.changed.iter().cloned());
    }
}

impl ScheduleChanges {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.forgotten.is_empty()
    }
}

impl ItemMemory {
    /// As it was kept elsewhere; what contradicts the invariant is dropped, from its first stretch on.
    pub fn restore(stretches: Vec<Stretch>, absent_since: Option<WallTime>) -> ItemMemory {
        let mut memory = ItemMemory {
            absent_since,
            ..ItemMemory::default()
        };
        for stretch in stretches {
            let is_next = memory
                .stretches
                .last()
                .is_none_or(|last| last.up_to <= stretch.after);
            if !is_next || stretch.after > stretch.up_to {
                break;
            }
            memory.changed = stretch.up_to;
            memory.stretches.push(stretch);
        }
        memory.bound();
        memory
    }

    /// What to keep elsewhere.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Since when no configuration has the item; to be kept, too.
    pub fn absent_since(&self) -> Option<WallTime> {
        self.absent_since
    }

    /// Whether another process that knows only `recorded` gives the same times from here on.
    fn is_recorded_by(&self, recorded: &ItemMemory) -> bool {
        let (Some((last, rest)), Some((known, known_rest))) =
            (self.stretches.split_last(), recorded.stretches.split_last())
        else {
            return self == recorded;
        };
        let is_same_stretch = (last.after, last.seen, &last.zone)
            == (known.after, known.seen, &known.zone)
            && rest == known_rest;
        is_same_stretch
            && self.absent_since == recorded.absent_since
            && self.changed <= known.up_to
            && last.up_to < known.up_to + RECORD_LAG
    }

    /// Goes on to `now`. Of what was missed since, at most `window` is caught up with; a clock that is set back by no more than that
    /// stands still meanwhile, and one that is set back by more, as it was wrong before, begins anew.
    pub(super) fn advance(
        &mut self,
        item: &ScheduleItem,
        zone: &Zone,
        now: WallTime,
        window: Duration,
    ) -> Advanced {
        let was_absent = self.absent_since.take().is_some();
        let window = window.max(item.lifetime);
        let known = self.stretches.last_mut();
        let Some(last) = known.filter(|last| last.up_to <= now + window) else {
            self.begin(item, zone, now);
            return Advanced::to(now);
        };
        if now <= last.up_to {
            return Advanced::to(last.up_to);
        }
        // Then none of the new times is over.
        let is_on_time = now <= last.up_to + item.lifetime;
        let mut given_up = 0;
        if is_on_time && last.zone == *zone {
            let before = std::mem::replace(&mut last.up_to, now);
            if self.changes_between(item, before, now) {
                self.changed = now;
            }
        } else {
            let reach = if was_absent { item.lifetime } else { window };
            let caught_up = last.up_to.max(now - reach);
            if !was_absent {
                let lost = between(&item.cron, zone, last.up_to, caught_up);
                given_up = lost.take(MAX_TIMES).count();
            }
            let (after, excess) = fitting(&item.cron, zone, caught_up, now);
            given_up += excess;
            let stretch = Stretch {
                after,
                up_to: now,
                seen: now,
                zone: zone.clone(),
            };
            self.stretches.push(stretch);
            self.changed = now;
        }
        // Never of the last one, which later times follow on: it has just come to `now`.
        let is_over = |s: &Stretch| s.up_to.max(s.seen) + item.lifetime <= now;
        self.stretches.retain(|stretch| !is_over(stretch));
        self.bound();
        Advanced {
            moment: now,
            given_up: given_up.min(MAX_TIMES),
        }
    }

    /// As if nothing had been before.
    fn begin(&mut self, item: &ScheduleItem, zone: &Zone, now: WallTime) {
        self.changed = now;
        self.stretches = vec![Stretch {
            after: now - item.lifetime,
            up_to: now,
            seen: now,
            zone: zone.clone(),
        }];
    }

    /// Whether a time may begin, be disabled or end in this part of the last stretch. If not, a restart that knows only of its beginning
    /// gives the same, also if the clock is set back into it.
    fn changes_between(&self, item: &ScheduleItem, after: WallTime, up_to: WallTime) -> bool {
        let lives = [Duration::ZERO, item.enabled_lifetime, item.lifetime];
        self.stretches.iter().any(|stretch| {
            lives.iter().any(|&life| {
                let late = stretch.seen + life;
                let (first, last) = (after - life, up_to - life);
                let (first, last) = (first.max(stretch.after), last.min(stretch.up_to));
                let mut times = between(&item.cron, &stretch.zone, first, last);
                (after < late && late <= up_to) || times.next().is_some()
            })
        })
    }

    fn bound(&mut self) {
        let excess = self.stretches.len().saturating_sub(MAX_STRETCHES);
        self.stretches.drain(..excess);
    }

    /// The times that live at this moment, ascending.
    pub(super) fn living<'a>(
        &'a self,
        item: &'a ScheduleItem,
        moment: WallTime,
    ) -> impl Iterator<Item = Living> + 'a {
        self.stretches.iter().flat_map(move |stretch| {
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

/// From when on there are no more than [`MAX_TIMES`], and how many are given up for it: what was missed longest ago is.
fn fitting(cron: &Cron, zone: &Zone, after: WallTime, up_to: WallTime) -> (WallTime, usize) {
    let count = between(cron, zone, after, up_to).count();
    match count.checked_sub(MAX_TIMES) {
        None | Some(0) => (after, 0),
        Some(excess) => {
            let last_given_up = between(cron, zone, after, up_to).nth(excess - 1);
            (last_given_up.unwrap_or(after), excess)
        }
    }
}

impl Advanced {
    fn to(moment: WallTime) -> Advanced {
        Advanced {
            moment,
            given_up: 0,
        }
    }
}
