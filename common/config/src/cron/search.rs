//! Searches for the next instant of a [`StandardCron`]. The module [`cron`](super) explains its labels. A *jump* is a change of the clocks, and
//! a *stretch* is the time between two jumps, which has one offset. Within a stretch the calendar fields give the next label. If its instant is
//! not in the stretch, the search continues from the jump.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::{Days, Repeated, Skipped, StandardCron, Zone};

/// The last year of a cron, and the horizon of every search. There are at most 8,031 years of 12 months of 31 days, each checked in
/// nanoseconds, so the search can tell that a date never comes.
pub(super) const LAST_YEAR: i64 = 9999;

/// An upper bound of the difference of two offsets, even in the longest jumps; zone data allows at most 26 hours each way. Two labels of
/// one instant, or two instants of one label, are nearer than this.
const REACH: SignedDuration = SignedDuration::from_hours(72);

const SECOND: SignedDuration = SignedDuration::from_secs(1);
pub(super) const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A change of the clocks to another offset.
struct Jump {
    at: Timestamp,
    after: Offset,
}

impl Jump {
    fn next(zone: &TimeZone, from: Timestamp, offset: Offset) -> Option<Jump> {
        // Other changes affect only the zone's abbreviation.
        zone.following(from)
            .find(|change| change.offset() != offset)
            .map(|change| Jump {
                at: change.timestamp(),
                after: change.offset(),
            })
    }
}

/// Returns the first instant that is not before `from`, both in Unix seconds.
pub(super) fn first_from(cron: &StandardCron, zone: &Zone, from: i64) -> Option<i64> {
    // Years before the first allowed one have no instants, and neither do years outside of this calendar.
    let from = Timestamp::from_second(from.max(-SECONDS_OF_TWO_YEARS)).ok()?;
    search(cron, zone.rules(), from).map(Timestamp::as_second)
}

/// The seconds before the epoch that a search covers. 1969 begins one year before the epoch, in some zones a little earlier.
const SECONDS_OF_TWO_YEARS: i64 = 2 * 366 * 86_400;

/// Returns the first instant of the set that is not before `from`; `None` if there is none up to [`LAST_YEAR`].
///
/// Invariant of the loop: no instant of the set lies between `from` and `cursor`.
fn search(cron: &StandardCron, zone: &TimeZone, from: Timestamp) -> Option<Timestamp> {
    let mut cursor = from;
    loop {
        let offset = zone.to_offset(cursor);
        let jump = Jump::next(zone, cursor, offset);
        // The first label of this stretch. If its instant is not in this stretch, the stretch has none.
        let label = minute_from(offset.to_datetime(cursor)).and_then(|l| cron.first_label(l));
        let instant = label.and_then(|label| offset.to_timestamp(label).ok());
        let Some(jump) = jump else {
            let (label, instant) = (label?, instant?);
            if cron.keeps(zone, label, offset) {
                return Some(instant);
            }
            cursor = instant.checked_add(MINUTE).ok()?;
            continue;
        };
        match (label, instant) {
            (Some(label), Some(instant)) if instant < jump.at => {
                if cron.keeps(zone, label, offset) {
                    return Some(instant);
                }
                cursor = instant.checked_add(MINUTE).ok()?;
            }
            (label, _) => {
                let is_skipped = label.is_some_and(|l| l < jump.after.to_datetime(jump.at));
                if is_skipped && cron.skipped == Skipped::LastSecondBefore {
                    return jump.at.checked_sub(SECOND).ok();
                }
                cursor = leap(cursor, &jump, label)?;
            }
        }
    }
}

/// Returns where to continue if nothing is before the jump: the jump, or a later moment near the next label.
///
/// A jump back within reach of `cursor` repeats labels that are before those of `cursor`, so the search must stop there. Beyond reach, all
/// labels are after those of `cursor`, so `label` is the first of them, and no instant of `label` or a later one is more than a reach
/// before its value at offset zero.
fn leap(cursor: Timestamp, jump: &Jump, label: Option<DateTime>) -> Option<Timestamp> {
    if jump.at.duration_since(cursor) <= REACH {
        return Some(jump.at);
    }
    let about = Offset::UTC.to_timestamp(label?).ok()?;
    Some(about.checked_sub(REACH).ok()?.max(jump.at))
}

/// Returns the first whole minute that is not before `time`.
fn minute_from(time: DateTime) -> Option<DateTime> {
    match time.second() {
        0 => Some(time),
        second => {
            let missing = SignedDuration::from_secs(60 - i64::from(second));
            time.checked_add(missing).ok()
        }
    }
}

impl StandardCron {
    /// Returns whether the instant of a label at this offset is in the set. `repeated` decides if the label has two instants.
    fn keeps(&self, zone: &TimeZone, label: DateTime, offset: Offset) -> bool {
        match zone.to_ambiguous_timestamp(label).offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => true,
            AmbiguousOffset::Fold { before, after } => match self.repeated {
                Repeated::Both => true,
                Repeated::OnlyEarly => offset == before,
                Repeated::OnlyLate => offset == after,
            },
        }
    }

    /// Returns the first label that is not before `from`.
    fn first_label(&self, from: DateTime) -> Option<DateTime> {
        let day = self.first_day(from.date())?;
        if day == from.date()
            && let Some((hour, minute)) = self.time_from(from.hour().into(), from.minute().into())
        {
            return label(day, hour, minute);
        }
        let day = match day == from.date() {
            true => self.first_day(day.tomorrow().ok()?)?,
            false => day,
        };
        label(day, self.hour.first(), self.minute.first())
    }

    /// Returns the first selected time of a day, from this hour and minute on.
    fn time_from(&self, hour: i64, minute: i64) -> Option<(i64, i64)> {
        if self.hour.contains(hour)
            && let Some(minute) = self.minute.first_from(minute)
        {
            return Some((hour, minute));
        }
        Some((self.hour.first_from(hour + 1)?, self.minute.first()))
    }

    /// Returns the first selected day that is not before `from`.
    pub(super) fn first_day(&self, from: Date) -> Option<Date> {
        let (year, month) = (i64::from(from.year()), i64::from(from.month()));
        let mut next = self.year.first_from(year);
        while let Some(candidate) = next.filter(|year| *year <= LAST_YEAR) {
            let found = match candidate == year {
                true => self.day_of_year(candidate, month, from.day().into()),
                false => self.day_of_year(candidate, 1, 1),
            };
            if found.is_some() {
                return found;
            }
            next = self.year.first_from(candidate + 1);
        }
        None
    }

    fn day_of_year(&self, year: i64, from_month: i64, from_day: i64) -> Option<Date> {
        let mut next = self.month.first_from(from_month);
        while let Some(month) = next {
            let first = if month == from_month { from_day } else { 1 };
            let found = self.day_of_month(date(year, month, 1)?, first);
            if found.is_some() {
                return found;
            }
            next = self.month.first_from(month + 1);
        }
        None
    }

    fn day_of_month(&self, month: Date, from: i64) -> Option<Date> {
        let last = i64::from(month.days_in_month());
        let (year, number) = (month.year().into(), month.month().into());
        let day = match &self.days {
            Days::OfMonth(days) => days.first_from(from).filter(|day| *day <= last),
            Days::OfWeek(weekdays) => (from..=last).find(|day| {
                let weekday = date(year, number, *day).map(Date::weekday);
                weekday.is_some_and(|w| weekdays.contains(w.to_sunday_one_offset().into()))
            }),
        };
        date(year, number, day?)
    }
}

fn date(year: i64, month: i64, day: i64) -> Option<Date> {
    let year = i16::try_from(year).ok()?;
    let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    Date::new(year, month, day).ok()
}

fn label(day: Date, hour: i64, minute: i64) -> Option<DateTime> {
    Some(day.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0))
}
