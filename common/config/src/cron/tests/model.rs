//! The definition of a standard item: check every minute, and drop or keep skipped and repeated ones.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const ZONES: [&str; 7] = [
    "Europe/Berlin",
    "America/New_York",
    // Half an hour.
    "Australia/Lord_Howe",
    // A whole day is missing.
    "Pacific/Apia",
    // Its jumps follow the moon.
    "Africa/Casablanca",
    "America/St_Johns",
    "Asia/Tokyo",
];
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;

/// A selector as its text and as its values.
#[derive(Clone, Debug)]
struct Field {
    text: String,
    values: BTreeSet<i64>,
}

fn field(least: i64, most: i64) -> impl Strategy<Value = Field> {
    let all: BTreeSet<i64> = (least..=most).collect();
    let everything = Field {
        text: "{}".to_owned(),
        values: all,
    };
    let list = vec(least..=most, 1..5).prop_map(|values| Field {
        text: format!("{values:?}"),
        values: values.into_iter().collect(),
    });
    let range = (least..=most, least..=most, 1..most - least).prop_map(|(a, b, period)| {
        let (start, end) = (a.min(b), a.max(b));
        let step = usize::try_from(period).unwrap();
        Field {
            text: format!(r#"{{"start": {start}, "end": {end}, "period": {period}}}"#),
            values: (start..=end).step_by(step).collect(),
        }
    });
    prop_oneof![2 => Just(everything), 1 => list, 2 => range]
}

#[derive(Clone, Debug)]
struct Item {
    minute: Field,
    hour: Field,
    of_month: Option<Field>,
    of_week: Option<Field>,
    month: Field,
    unskip: bool,
    repeat: &'static str,
}

prop_compose! {
    fn any_item()(
        (minute, hour, month) in (field(0, 59), field(0, 23), field(1, 12)),
        (day_of_month, day_of_week, days) in (field(1, 31), field(1, 7), 0..3),
        unskip in any::<bool>(),
        repeat in select(vec!["repeat_use_both", "repeat_use_only_early", "repeat_use_only_late"]),
    ) -> Item {
        Item {
            minute, hour, month, unskip, repeat,
            of_month: (days == 1).then_some(day_of_month),
            of_week: (days == 2).then_some(day_of_week),
        }
    }
}

impl Item {
    fn cron(&self) -> Cron {
        let mut fields = vec![
            format!("\"minute\": {}", self.minute.text),
            format!("\"hour\": {}", self.hour.text),
            format!("\"month\": {}", self.month.text),
        ];
        let of_month = self.of_month.iter();
        fields.extend(of_month.map(|days| format!("\"day_of_month\": {}", days.text)));
        let of_week = self.of_week.iter();
        fields.extend(of_week.map(|days| format!("\"day_of_week\": {}", days.text)));
        let skip = if self.unskip { "unskip" } else { "skip" };
        standard(&fields.join(", "), &format!("{} {skip}", self.repeat))
    }

    fn selects(&self, label: DateTime) -> bool {
        let has = |field: &Field, value: i8| field.values.contains(&value.into());
        has(&self.minute, label.minute())
            && has(&self.hour, label.hour())
            && has(&self.month, label.month())
            && self
                .of_month
                .as_ref()
                .is_none_or(|days| has(days, label.day()))
            && self
                .of_week
                .as_ref()
                .is_none_or(|days| has(days, label.weekday().to_sunday_one_offset()))
    }

    /// Returns all instants from `from` to `to`, both included.
    fn instants(&self, zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
        // Jumps are at whole minutes in these zones and years, and a label's other instant is less than two days away.
        let first = (from - 2 * DAY).div_euclid(MINUTE) * MINUTE;
        let mut bearers: BTreeMap<DateTime, Vec<i64>> = BTreeMap::new();
        let mut found = BTreeSet::new();
        let mut last: Option<DateTime> = None;
        for instant in (first..=to + 2 * DAY).step_by(60) {
            let label = zone.to_datetime(Timestamp::from_second(instant).unwrap());
            if self.selects(label) {
                bearers.entry(label).or_default().push(instant);
            }
            let mut skipped = last.map(|last| last + super::search::MINUTE);
            while let Some(label_without) = skipped.filter(|skipped| *skipped < label) {
                if self.unskip && self.selects(label_without) {
                    found.insert(instant - 1);
                }
                skipped = Some(label_without + super::search::MINUTE);
            }
            last = Some(label);
        }
        for instants in bearers.values() {
            assert!(instants.len() <= 2);
            match self.repeat {
                "repeat_use_only_early" => found.extend(instants.first()),
                "repeat_use_only_late" => found.extend(instants.last()),
                _ => found.extend(instants),
            }
        }
        found
            .into_iter()
            .filter(|at| (from..=to).contains(at))
            .collect()
    }
}

/// Returns a second near a jump of the zone's clocks, if there is one.
fn near_a_jump(zone: &TimeZone, about: i64, off: i64) -> i64 {
    let about = Timestamp::from_second(about).unwrap();
    let jump = zone.following(about).next().map(|jump| jump.timestamp());
    jump.unwrap_or(about).as_second() + off
}

integration_tests_properties::properties! {
    64;

    #[test]
    fn the_search_finds_what_the_definition_says(
        item in any_item(),
        zone in select(ZONES.to_vec()),
        // The years 1990 to 2037.
        about in 631_152_000i64..2_114_380_800,
        off in -DAY..DAY,
        length in 0..DAY,
    ) {
        let (cron, zone) = (item.cron(), Zone::named(zone).unwrap());
        let from = near_a_jump(zone.rules(), about, off);
        let to = from + length;
        let mut found = Vec::new();
        let mut next = cron.first_from(WallTime::from_secs(from), &zone);
        while let Some(at) = next.map(WallTime::as_secs).filter(|at| *at <= to) {
            found.push(at);
            next = cron.first_from(WallTime::from_secs(at + 1), &zone);
        }
        prop_assert_eq!(&found, &item.instants(zone.rules(), from, to));
        // The search from within a second gives the same as from its end.
        let within = cron.first_from(WallTime::from_millis(from * 1000 - 1), &zone);
        prop_assert_eq!(within, cron.first_from(WallTime::from_secs(from), &zone));
    }

    /// Distant steps of the search are right, too: no instant precedes the first one found.
    #[test]
    fn no_time_precedes_the_next_time(item in any_item(), zone in select(ZONES.to_vec()), from in 631_152_000i64..2_114_380_800, part in 0.0..1.0f64) {
        let (cron, zone) = (item.cron(), Zone::named(zone).unwrap());
        let first = cron.first_from(WallTime::from_secs(from), &zone);
        if let Some(first) = first.map(WallTime::as_secs) {
            let between = from + ((first - from) as f64 * part) as i64;
            let again = cron.first_from(WallTime::from_secs(between), &zone);
            prop_assert_eq!(again.map(WallTime::as_secs), Some(first));
            prop_assert_eq!(item.instants(zone.rules(), first, first), [first]);
        }
    }
}
