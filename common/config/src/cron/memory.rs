//! The memory of an item's past times. It records the time up to which each time has had its node, so that downtime, a changed clock or
//! another zone neither loses a time nor gives it twice.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::WallTime;

use super::{Cron, Zone};
use crate::model::ScheduleItem;

/// The times that one item may give: a node a minute for ten weeks. More means a mistake in its `lifetime`, and each is a node for each
/// parent.
pub const MAX_TIMES: usize = 100_000;

/// The step from an event, a whole second, to the next moment of a clock in milliseconds.
pub(super) const INSTANT: Duration = Duration::from_millis(1);

/// The stretches that one item remembers. No late stretch outlives another late one, so more than three mean as many changes of the
/// machine's zone within a lifetime.
const MAX_STRETCHES: usize = 16;

/// How far the record of an item may lag while none of its times begins or ends. A restart in another zone treats times of that zone after
/// the end of the record as missed. Nodes are refreshed this often anyway, so that is no worse than without a restart.
const RECORD_LAG: Duration = Duration::from_secs(300);

/// The number of items that no configuration has any more and that are remembered: a thousand configurations a day with ten items each.
const MAX_ABSENT: usize = 10_000;

/// The identity of an item by its source and its text. A changed item is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey(pub String);

/// The state of all items after a refresh, for the next refresh in this or another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleMemory(pub BTreeMap<ItemKey, ItemMemory>);

/// The changes to record, so that another process continues as this one would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleChanges {
    pub changed: Vec<(ItemKey, ItemMemory)>,
    pub forgotten: Vec<ItemKey>,
}

/// The state of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemMemory {
    /// Ascending stretches of wall time whose times have all been given.
    ///
    /// Invariant: no time before the end of the last stretch is given again, whether it is in a stretch or was abandoned.
    stretches: Vec<Stretch>,
    /// When a time last began, was disabled or ended. Since then the last stretch has only grown.
    changed: WallTime,
    /// The time since which no configuration has the item. Times that pass meanwhile are not missed.
    absent_since: Option<WallTime>,
}

/// A stretch of wall time, all of whose times were given in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Exclusive.
    pub after: WallTime,
    /// Inclusive.
    pub up_to: WallTime,
    /// When the stretch was begun. A time whose lifetime was over by then lives from here on, because it had no life before.
    pub seen: WallTime,
    pub zone: Zone,
}

/// A time, and the beginning of its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Living {
    pub(super) at: WallTime,
    pub(super) born: WallTime,
}

/// The result of advancing an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advanced {
    /// The present moment for lifetimes: the clock's time, or the latest earlier time if the clock was set back.
    pub(super) moment: WallTime,
    /// The number of times that never get a node, counted up to [`MAX_TIMES`].
    pub(super) given_up: usize,
}

impl ScheduleMemory {
    /// Keeps the state of missing items until they have been missing for longer than `window`. An item that returns continues, so that no
    /// time is given twice.
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

    /// Returns the changes that the record of `recorded` needs.
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

    /// Applies the changes.
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
    /// Restores a recorded state. Drops the stretches from the first one that violates the invariant.
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

    /// Returns the stretches to record.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Returns the time since which no configuration has the item, which must also be recorded.
    pub fn absent_since(&self) -> Option<WallTime> {
        self.absent_since
    }

    /// Returns whether another process that knows only `recorded` gives the same times from here on.
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

    /// Advances to `now`. Catches up with missed times of at most `window`. If the clock was set back by at most `window`, time stands
    /// still until it has caught up; if by more, the clock was wrong before, and the item begins again.
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
        // None of the new times is over in this case.
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
        // The last stretch is never over, because it has just reached `now`. Later times follow it.
        let is_over = |s: &Stretch| s.up_to.max(s.seen) + item.lifetime <= now;
        self.stretches.retain(|stretch| !is_over(stretch));
        self.bound();
        Advanced {
            moment: now,
            given_up: given_up.min(MAX_TIMES),
        }
    }

    /// Begins an item without any earlier times.
    fn begin(&mut self, item: &ScheduleItem, zone: &Zone, now: WallTime) {
        self.changed = now;
        self.stretches = vec![Stretch {
            after: now - item.lifetime,
            up_to: now,
            seen: now,
            zone: zone.clone(),
        }];
    }

    /// Returns whether a time may begin, be disabled or end in this part of the last stretch. If not, a restart that knows only the
    /// beginning of the part gives the same times, even if the clock is set back into it.
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

    /// Returns the times that live at this moment, ascending.
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

/// Returns the item's times after one moment, up to another.
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

/// Returns the moment after which there are at most [`MAX_TIMES`], and the number of older times that are abandoned.
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
