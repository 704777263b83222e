//! Times that come again, as `add_time` names them: what they are, and when the next one is.
//!
//! An item is a set of instants. One by `epoch` is a set of Unix seconds. A standard one selects minutes of the calendar
//! (*labels*, as in 02:30 on 29 March), and a time zone says which instants bear a label: one, two where clocks are set back, or
//! none where they are set forward. [`Skipped`] and [`Repeated`] say what then counts. Everything here follows from that: the
//! tests enumerate the set minute by minute and compare.

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

pub use memory::{ItemKey, ItemMemory, ScheduleChanges, ScheduleMemory, Stretch};
pub(crate) use parse::{CRON, cron};
pub use selector::Selector;
pub use times::{DueTime, DueTimes, GivenUp, MAX_TIMES, NextTime, Since, TooManyTimes};
pub use zone::Zone;

/// A set of instants, all of them whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cron {
    /// Unix seconds; no time zone has a say.
    Epoch(Selector),
    Standard(Box<StandardCron>),
}

/// Minutes of the calendar in a time zone. All selectors must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandardCron {
    pub minute: Selector,
    pub hour: Selector,
    pub days: Days,
    pub month: Selector,
    pub year: Selector,
    pub skipped: Skipped,
    pub repeated: Repeated,
    /// `None`: the scheduler's.
    pub zone: Option<Zone>,
}

/// Which days of a month; an item selects by one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Days {
    OfMonth(Selector),
    /// 1 is Sunday.
    OfWeek(Selector),
}

/// What becomes of labels that no instant bears, as clocks are set forward over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    Drop,
    /// The last second before the jump stands for all of them.
    LastSecondBefore,
}

/// What becomes of labels that two instants bear, as clocks are set back over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    Both,
    OnlyEarly,
    OnlyLate,
}

impl Skipped {
    pub const ALL: [Skipped; 2] = [Skipped::Drop, Skipped::LastSecondBefore];

    /// The word of `dst_fixes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Skipped::Drop => "skip",
            Skipped::LastSecondBefore => "unskip",
        }
    }
}

impl Repeated {
    pub const ALL: [Repeated; 3] = [Repeated::Both, Repeated::OnlyEarly, Repeated::OnlyLate];

    /// The word of `dst_fixes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Repeated::Both => "repeat_use_both",
            Repeated::OnlyEarly => "repeat_use_only_early",
            Repeated::OnlyLate => "repeat_use_only_late",
        }
    }
}

impl Cron {
    /// The first instant of the set that is not before `from`. `default` is the zone of items that name none.
    pub fn first_from(&self, from: WallTime, default: &Zone) -> Option<WallTime> {
        // Instants are whole seconds: the next one, counting `from` itself.
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

    /// Whether the scheduler's zone has a say.
    pub fn uses_default_zone(&self) -> bool {
        match self {
            Cron::Epoch(_) => false,
            Cron::Standard(cron) => cron.zone.is_none(),
        }
    }
}

/// Canonical: equal items have one text.
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
