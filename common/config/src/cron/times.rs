//! The times that an `add_time` source gives at a moment, and how long they stay the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::time::format_duration;
use jiff::Timestamp;
use jiff::civil::Date;

use super::memory::{Advanced, INSTANT, ItemKey, Living, MAX_TIMES, ScheduleMemory};
use super::{Cron, Zone};
use crate::model::{AddTime, ScheduleItem};

const DAY: Duration = Duration::from_secs(86_400);

/// The error for an item with too many times at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "item {item} of the schedule has more than {MAX_TIMES} times within its lifetime; shorten `lifetime`, or select fewer times"
)]
pub struct TooManyTimes {
    /// Counts from 1.
    pub item: usize,
}

/// A time that is a node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTime {
    pub at: WallTime,
    pub enabled: bool,
    pub tags: BTreeSet<String>,
}

/// Missed times of an item that never get a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Counts from 1.
    pub item: usize,
    /// [`MAX_TIMES`] means that many or more.
    pub times: usize,
    /// Missed times that are older than this get no node.
    pub window: Duration,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GivenUp {
            item,
            times,
            window,
        } = self;
        let or_more = if *times == MAX_TIMES { " or more" } else { "" };
        let window = format_duration(*window);
        write!(
            f,
            "{times}{or_more} missed times of item {item} of the schedule get no node: only the newest {MAX_TIMES} missed times of \
             the last {window} get one"
        )
    }
}

/// A future time of a schedule. Displays with weekday, offset and zone, as in `Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTime {
    pub at: WallTime,
    /// The zone of the item that has this time.
    pub zone: Zone,
}

impl fmt::Display for NextTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NextTime { at, zone } = self;
        // Invariant: the search finds no time outside of the calendar.
        let Ok(instant) = Timestamp::from_second(at.as_secs()) else {
            return write!(f, "{at}");
        };
        let local = instant.to_zoned(zone.rules().clone());
        let format = match local.second() {
            0 => "%a %Y-%m-%d %H:%M %:z",
            _ => "%a %Y-%m-%d %H:%M:%S %:z",
        };
        write!(f, "{} ({zone})", local.strftime(format))
    }
}

/// All times of one source at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTimes {
    /// Ascending.
    pub times: Vec<DueTime>,
    /// The first later time; `None` if no time comes any more.
    pub next: Option<NextTime>,
    /// Abandoned times, reported once.
    pub given_up: Vec<GivenUp>,
    /// The next moment at which a time begins, is disabled or ends, so that `times` change; `None` if never.
    pub until: Option<WallTime>,
}

/// The earlier state from which a source continues.
#[derive(Clone, Debug)]
pub struct Since<'a> {
    pub memory: &'a ScheduleMemory,
    /// How far back missed times still get a node, unless the item's lifetime is longer.
    pub window: Duration,
}

impl AddTime {
    /// Returns the times at `now` without an earlier state. `default` is the zone of items that name none.
    ///
    /// A time of several items has the tags of all of them, and is enabled if it is enabled for each.
    pub fn due(&self, now: WallTime, default: &Zone) -> Result<DueTimes, TooManyTimes> {
        let since = Since {
            memory: &ScheduleMemory::default(),
            window: Duration::ZERO,
        };
        self.due_since(&since, now, default, &mut ScheduleMemory::default())
    }

    /// Returns the times at `now` after an earlier state. Adds the new state of each item to `next`.
    pub fn due_since(
        &self,
        since: &Since,
        now: WallTime,
        default: &Zone,
        next: &mut ScheduleMemory,
    ) -> Result<DueTimes, TooManyTimes> {
        let mut due = Gathered::default();
        for (index, item) in self.schedule.iter().enumerate() {
            let key = self.key(item, next);
            let mut memory = since.memory.0.get(&key).cloned().unwrap_or_default();
            let Advanced { moment, given_up } = memory.advance(item, default, now, since.window);
            if given_up > 0 {
                due.given_up.push(GivenUp {
                    item: index + 1,
                    times: given_up,
                    window: since.window.max(item.lifetime),
                });
            }
            let mut on_time = 0;
            for living in memory.living(item, moment) {
                // The memory bounds late times, which must not block times that are on time.
                on_time += usize::from(living.born == living.at);
                if on_time > MAX_TIMES {
                    return Err(TooManyTimes { item: index + 1 });
                }
                due.add(item, living, moment);
            }
            if let Some(next) = item.first_after(moment, default) {
                due.change(next.at, moment);
                due.add_next(next);
            }
            next.0.insert(key, memory);
        }
        Ok(DueTimes {
            times: due.times.into_values().collect(),
            next: due.next,
            given_up: due.given_up,
            until: due.until,
        })
    }

    /// Returns the first time after `moment`; `None` if no time comes any more. `default` is the zone of items that name none.
    pub fn first_after(&self, moment: WallTime, default: &Zone) -> Option<NextTime> {
        let items = self.schedule.iter();
        let firsts = items.filter_map(|item| item.first_after(moment, default));
        firsts.min_by_key(|next| next.at)
    }

    /// Returns the key of an item. The order distinguishes equal items of equal sources.
    fn key(&self, item: &ScheduleItem, taken: &ScheduleMemory) -> ItemKey {
        let level = self.parent_level.0;
        let numbered =
            (1..).map(|n: u32| ItemKey(format!("{level} {} {:?} {n}", item.cron, self.format)));
        let mut free = numbered.filter(|key| !taken.0.contains_key(key));
        // Invariant: there are more numbers than items.
        free.next().expect("a number that is not taken")
    }

    /// Returns whether the times depend on the scheduler's zone.
    pub fn uses_default_zone(&self) -> bool {
        self.schedule.iter().any(|i| i.cron.uses_default_zone())
    }
}

/// Times of several items, gathered for one list.
#[derive(Default)]
struct Gathered {
    times: BTreeMap<WallTime, DueTime>,
    next: Option<NextTime>,
    given_up: Vec<GivenUp>,
    until: Option<WallTime>,
}

impl Gathered {
    fn add(&mut self, item: &ScheduleItem, living: Living, moment: WallTime) {
        let Living { at, born } = living;
        self.change(born + item.enabled_lifetime, moment);
        self.change(born + item.lifetime, moment);
        let time = self.times.entry(at).or_insert_with(|| DueTime {
            at,
            enabled: true,
            tags: BTreeSet::new(),
        });
        time.enabled &= moment < born + item.enabled_lifetime;
        time.tags.extend(item.tags.iter().cloned());
    }

    fn add_next(&mut self, next: NextTime) {
        if self.next.as_ref().is_none_or(|known| next.at < known.at) {
            self.next = Some(next);
        }
    }

    fn change(&mut self, at: WallTime, moment: WallTime) {
        if at > moment && self.until.is_none_or(|until| at < until) {
            self.until = Some(at);
        }
    }
}

impl ScheduleItem {
    fn first_after(&self, moment: WallTime, default: &Zone) -> Option<NextTime> {
        let at = self.cron.first_from(moment + INSTANT, default)?;
        let zone = match &self.cron {
            Cron::Epoch(_) => default,
            Cron::Standard(cron) => cron.zone.as_ref().unwrap_or(default),
        };
        let zone = zone.clone();
        Some(NextTime { at, zone })
    }

    /// Returns whether the item must have more than [`MAX_TIMES`] at some moment, as far as visible without a clock. Checks the first whole
    /// days that the calendar selects. [`AddTime::due`] refuses what this check misses.
    pub(crate) fn has_too_many_times(&self) -> bool {
        let most = u64::try_from(MAX_TIMES).unwrap_or(u64::MAX);
        let cron = match &self.cron {
            Cron::Epoch(seconds) => return seconds.most_within(self.lifetime) > most,
            Cron::Standard(cron) => cron,
        };
        let a_day = cron.minute.count() * cron.hour.count();
        let mut days_left = self.lifetime.as_secs() / DAY.as_secs();
        if a_day.saturating_mul(days_left) <= most {
            return false;
        }
        let mut count = 0;
        let mut next = cron.first_day(Date::ZERO);
        while let Some(day) = next.filter(|_| days_left > 0) {
            count += a_day;
            if count > most {
                return true;
            }
            let after = day.tomorrow().ok();
            next = after.and_then(|after| cron.first_day(after));
            let passed = next.map_or(0, |next| (next - day).get_days());
            days_left = days_left.saturating_sub(u64::from(passed.unsigned_abs()));
        }
        false
    }
}
