//! Shows the times in the names of nodes that schedules give, as `orders:1795500720`, with date, offset and zone.

use std::ops::RangeInclusive;

use brasserie_common::WallTime;
use brasserie_common::cluster_view::ScheduleView;
use brasserie_common_config::{NextTime, Zone};

use crate::connection::Connection;

/// Digits of a time in seconds since 1970, from 2001 to 2286.
const DIGITS: usize = 10;
/// The first such number.
const EARLIEST: i64 = 1_000_000_000;
/// How far a time may lie ahead of this machine's or the scheduler's clock. A node exists only from its time on.
const AHEAD: i64 = 86_400;

/// The times in the names of nodes, in the time zone of the schedules.
pub(crate) struct NodeTimes {
    zone: Zone,
    times: RangeInclusive<i64>,
}

impl NodeTimes {
    /// Fetches the schedules if one of the names may have a time. Returns `None` if no name has one: without schedules a number is no time.
    pub(crate) async fn fetch<'a>(
        connection: &Connection,
        mut names: impl Iterator<Item = &'a str>,
    ) -> Option<Self> {
        names.find_map(number_in)?;
        let view = connection.view(0).await.ok()?;
        Self::of(&view.schedules, view.wall_time_ms)
    }

    fn of(schedules: &[ScheduleView], wall_time_ms: i64) -> Option<Self> {
        let zone_of = |schedule: &ScheduleView| {
            let (_, zone) = schedule.next.as_ref()?.rsplit_once('(')?;
            Zone::named(zone.strip_suffix(')')?)
        };
        let mut zones = schedules.iter().map(zone_of);
        let first = zones.next()?;
        // A name does not tell which schedule has given it.
        let is_same = zones.all(|zone| zone == first);
        Some(NodeTimes {
            zone: first.filter(|_| is_same).unwrap_or_else(Zone::utc),
            times: EARLIEST..=(wall_time_ms / 1000).saturating_add(AHEAD),
        })
    }

    /// Returns the time in the name of a node, as in `Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)`; `None` if there is none.
    pub(crate) fn of_name(&self, node: &str) -> Option<String> {
        let seconds = number_in(node).filter(|seconds| self.times.contains(seconds))?;
        let time = NextTime {
            at: WallTime::from_secs(seconds),
            zone: self.zone.clone(),
        };
        Some(time.to_string())
    }
}

/// Returns the last number of [`DIGITS`] digits in a name.
fn number_in(name: &str) -> Option<i64> {
    let mut numbers = name.rsplit(|c: char| !c.is_ascii_digit());
    let number = numbers.find(|number| number.len() == DIGITS)?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(next: Option<&str>) -> ScheduleView {
        ScheduleView {
            next: next.map(str::to_owned),
            ..ScheduleView::default()
        }
    }

    #[test]
    fn a_name_with_a_time_reads_as_a_date_in_the_zone_of_the_schedule() {
        let berlin = schedule(Some("Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)"));
        let now = 1_795_500_800_000;
        let of = |schedules: &[ScheduleView], name: &str| {
            NodeTimes::of(schedules, now).and_then(|times| times.of_name(name))
        };
        let name = "orders:1795500720";
        let local = "Tue 2026-11-24 07:12 +01:00 (Europe/Berlin)";
        assert_eq!(
            of(std::slice::from_ref(&berlin), name).as_deref(),
            Some(local)
        );
        // Several zones, and a schedule without a next time, leave the zone open.
        let over = schedule(None);
        let utc = "Tue 2026-11-24 06:12 +00:00 (UTC)";
        assert_eq!(of(&[berlin.clone(), over], name).as_deref(), Some(utc));
        assert_eq!(of(&[], name), None, "there is no schedule");
        for no_time in [
            "orders",
            "orders:17955007",
            "a:17955007200",
            "a:1995500720",
            "a:0000000001",
        ] {
            assert_eq!(
                of(std::slice::from_ref(&berlin), no_time),
                None,
                "{no_time}"
            );
        }
    }
}
