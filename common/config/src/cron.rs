//! Recurring times of `add_time` schedules: their definition, and the search for the next one.
//!
//! An item is a set of instants. An `epoch` item is a set of Unix seconds. A standard item selects minutes of the calendar (*labels*, such
//! as 02:30 on 29 March), and a time zone maps labels to instants. A label has one instant, two where clocks are set back, or none where
//! they are set forward. [`Skipped`] and [`Repeated`] decide these cases. The tests enumerate the set minute by minute and compare.

mod memory;
mod parse;
mod search;
mod selector;
#[cfg(test)]
mod tests;
mod times;
mod zone;

use std::fmt;

use brasserie_common::WallTime;

pub use memory::{ItemKey, ItemMemory, MAX_TIMES, ScheduleChanges, ScheduleMemory, Stretch};
pub(crate) use parse::{CRON, cron};
pub use selector::Selector;
pub use times::{DueTime, DueTimes, GivenUp, NextTime, Since, TooManyTimes};
pub use zone::Zone;

/// A set of instants, all of them whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cron {
    /// Unix seconds, independent of time zones.
    Epoch(Selector),
    Standard(Box<StandardCron>),
}

/// Minutes of the calendar in a time zone. All selectors must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandardCron {
    pub minute: Selector,
    pub hour: Selector,
    pub days: Days,
    pub month: Selector,
    pub year: Selector,
    pub skipped: Skipped,
    pub repeated: Repeated,
    /// `None` for the scheduler's zone.
    pub zone: Option<Zone>,
}

/// The days of a month that an item selects, in one of two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Days {
    OfMonth(Selector),
    /// 1 is Sunday.
    OfWeek(Selector),
}

/// The handling of labels without an instant, where clocks are set forward over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    Drop,
    /// The last second before the jump stands for all of them.
    LastSecondBefore,
}

/// The handling of labels with two instants, where clocks are set back over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    Both,
    OnlyEarly,
    OnlyLate,
}

impl Skipped {
    pub const ALL: [Skipped; 2] = [Skipped::Drop, Skipped::LastSecondBefore];

    /// Returns the word of `dst_fixes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Skipped::Drop => "skip",
            Skipped::LastSecondBefore => "unskip",
        }
    }
}

impl Repeated {
    pub const ALL: [Repeated; 3] = [Repeated::Both, Repeated::OnlyEarly, Repeated::OnlyLate];

    /// Returns the word of `dst_fixes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Repeated::Both => "repeat_use_both",
            Repeated::OnlyEarly => "repeat_use_only_early",
            Repeated::OnlyLate => "repeat_use_only_late",
        }
    }
}

impl Cron {
    /// Returns the first instant of the set that is not before `from`. `default` is the zone of items that name none.
    pub fn first_from(&self, from: WallTime, default: &Zone) -> Option<WallTime> {
        // Instants are whole seconds, so a fraction is rounded up.
        let second =
            from.as_millis().div_euclid(1000) + i64::from(from.as_millis().rem_euclid(1000) != 0);
        let first = match self {
            Cron::Epoch(seconds) => seconds.first_from(second),
            Cron::Standard(cron) => {
                let zone = cron.zone.as_ref().unwrap_or(default);
                search::first_from(cron, zone, second)
            }
        };
        first.map(WallTime::from_secs)
    }

    /// Returns whether the instants depend on the scheduler's zone.
    pub fn uses_default_zone(&self) -> bool {
        match self {
            Cron::Epoch(_) => false,
            Cron::Standard(cron) => cron.zone.is_none(),
        }
    }
}

/// Formats the item in canonical form: equal items have one text.
impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cron = match self {
            Cron::Epoch(seconds) => return write!(f, "epoch={seconds}"),
            Cron::Standard(cron) => cron,
        };
        write!(f, "minute={} hour={}", cron.minute, cron.hour)?;
        match &cron.days {
            Days::OfMonth(days) => write!(f, " day_of_month={days}")?,
            Days::OfWeek(days) => write!(f, " day_of_week={days}")?,
        }
        write!(f, " month={} year={}", cron.month, cron.year)?;
        write!(f, " {} {}", cron.skipped.as_str(), cron.repeated.as_str())?;
        match &cron.zone {
            None => Ok(()),
            Some(zone) => write!(f, " {zone}"),
        }
    }
}
