//! Tests of the search against known instants of calendars and clocks, and against a minute by minute enumeration of the set.

mod memory;
mod model;

use jiff::Timestamp;

use super::*;
use crate::{AddTime, NodeSource, ParseOptions, parse};

/// Returns the item of this text.
fn cron(text: &str) -> Cron {
    let config = format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["t"], "node_sources": [{{"source": "add_time", "prefs":
        {{"parent_level": "instance", "schedule": [{{"cron": {text}, "lifetime": 1}}]}}}}]}}}}}}"#
    );
    let parsed = match parse(&config, ParseOptions::default()) {
        Ok(parsed) => parsed,
        Err(errors) => panic!("{text}: {errors}"),
    };
    match parsed.config.node_sources.as_slice() {
        [NodeSource::AddTime(AddTime { schedule, .. })] => schedule[0].cron.clone(),
        other => panic!("{other:?}"),
    }
}

fn standard(fields: &str, fixes: &str) -> Cron {
    let fixes: Vec<String> = fixes.split(' ').map(|f| format!("{f:?}")).collect();
    cron(&format!(
        "{{{fields}, \"dst_fixes\": [{}]}}",
        fixes.join(", ")
    ))
}

fn wall(text: &str) -> WallTime {
    WallTime::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

/// Returns the first `count` instants from `from` on, formatted in UTC.
fn instants(cron: &Cron, zone: &str, from: &str, count: usize) -> Vec<String> {
    let zone = Zone::named(zone).unwrap();
    let mut found = Vec::new();
    let mut from = wall(from);
    while found.len() < count
        && let Some(at) = cron.first_from(from, &zone)
    {
        assert!(at >= from);
        found.push(Timestamp::from_second(at.as_secs()).unwrap().to_string());
        from = WallTime::from_millis(at.as_millis() + 1);
    }
    found
}

const EARLY: &str = "skip repeat_use_only_early";

#[test]
fn each_field_selects() {
    let from = "2026-11-21T12:30:30Z";
    for (fields, expected) in [
        (
            r#""minute": [45, 15]"#,
            ["2026-11-21T12:45:00Z", "2026-11-21T13:15:00Z"],
        ),
        (
            r#""minute": {}"#,
            ["2026-11-21T12:31:00Z", "2026-11-21T12:32:00Z"],
        ),
        (
            r#""minute": []"#,
            ["2026-11-21T12:31:00Z", "2026-11-21T12:32:00Z"],
        ),
        (
            r#""minute": {"start": 50, "period": "4"}"#,
            ["2026-11-21T12:50:00Z", "2026-11-21T12:54:00Z"],
        ),
        (
            r#""minute": {"end": 9, "period": 5}, "hour": 4"#,
            ["2026-11-22T04:00:00Z", "2026-11-22T04:05:00Z"],
        ),
        (
            r#""minute": 0, "hour": 12"#,
            ["2026-11-22T12:00:00Z", "2026-11-23T12:00:00Z"],
        ),
        (
            r#""minute": 0, "hour": 0, "day_of_month": 31"#,
            ["2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"],
        ),
        (
            r#""minute": 0, "hour": 0, "day_of_week": ["SUN", "tuesday"]"#,
            ["2026-11-22T00:00:00Z", "2026-11-24T00:00:00Z"],
        ),
        (
            r#""minute": 0, "hour": 0, "day_of_week": {"start": "mon", "end": 3}"#,
            ["2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"],
        ),
        (
            r#""minute": 59, "hour": 23, "day_of_month": 29, "month": "feb""#,
            ["2028-02-29T23:59:00Z", "2032-02-29T23:59:00Z"],
        ),
        (
            r#""minute": 0, "hour": 0, "day_of_month": 1, "month": "March", "year": {"start": 2000, "period": 30}"#,
            ["2030-03-01T00:00:00Z", "2060-03-01T00:00:00Z"],
        ),
        (
            r#""minute": 0, "hour": 0, "time_zone": "asia/kolkata""#,
            ["2026-11-21T18:30:00Z", "2026-11-22T18:30:00Z"],
        ),
    ] {
        assert_eq!(
            instants(&standard(fields, EARLY), "UTC", from, 2),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn seconds_of_the_epoch() {
    let from = "1970-01-01T00:01:00.001Z";
    let every = cron(r#"{"epoch": {"start": 59, "period": 61, "end": 200}}"#);
    assert_eq!(
        instants(&every, "UTC", from, 9),
        ["1970-01-01T00:02:00Z", "1970-01-01T00:03:01Z"]
    );
    let once = cron(r#"{"epoch": [1000000000, 60]}"#);
    assert_eq!(instants(&once, "UTC", from, 9), ["2001-09-09T01:46:40Z"]);
    assert!(!once.uses_default_zone());
}

#[test]
fn skipped_times_are_dropped_or_stand_before_the_jump() {
    // Clocks go from 02:00 to 03:00 in Berlin at 01:00 UTC.
    let fields = r#""minute": {"period": 20}, "hour": 2, "day_of_month": 29"#;
    let unskip = standard(fields, "unskip repeat_use_both");
    let before = "2026-03-29T00:59:59Z";
    // All skipped times are one instant, the last second before the jump.
    for from in ["2026-03-28T23:00:00Z", "2026-03-29T00:59:01Z", before] {
        let found = instants(&unskip, "Europe/Berlin", from, 2);
        assert_eq!(found, [before, "2026-04-29T00:00:00Z"], "{from}");
    }
    let after = instants(&unskip, "Europe/Berlin", "2026-03-29T00:59:59.001Z", 1);
    assert_eq!(after, ["2026-04-29T00:00:00Z"]);
    let skip = standard(fields, "skip repeat_use_both");
    let found = instants(&skip, "Europe/Berlin", "2026-03-28T23:00:00Z", 1);
    assert_eq!(found, ["2026-04-29T00:00:00Z"]);
    // Samoa skipped this whole day.
    let noon = r#""minute": 0, "hour": 12"#;
    let found = instants(
        &standard(noon, "unskip repeat_use_both"),
        "Pacific/Apia",
        "2011-12-29T22:00:00Z",
        3,
    );
    assert_eq!(
        found,
        [
            "2011-12-29T22:00:00Z",
            "2011-12-30T09:59:59Z",
            "2011-12-30T22:00:00Z"
        ]
    );
}

#[test]
fn repeated_times_count_once_or_twice() {
    // Clocks go from 03:00 to 02:00 in Berlin at 01:00 UTC.
    let fields = r#""minute": [0, 30], "hour": [1, 2], "day_of_month": 25, "month": 10"#;
    let from = "2026-10-24T23:30:00Z";
    let all = |policy: &str, from: &str| {
        let cron = standard(fields, &format!("skip {policy}"));
        let mut found = instants(&cron, "Europe/Berlin", from, 5);
        found.retain(|at| at.starts_with("2026"));
        found
            .iter()
            .map(|at| at[11..16].to_owned())
            .collect::<Vec<_>>()
    };
    let both = ["23:30", "00:00", "00:30", "01:00", "01:30"];
    assert_eq!(all("repeat_use_both", from), both);
    assert_eq!(all("repeat_use_only_early", from), both[..3]);
    assert_eq!(
        all("repeat_use_only_late", from),
        ["23:30", "01:00", "01:30"]
    );
    // The first pass has no times left; the second pass is still to come.
    let late = "2026-10-25T00:30:01Z";
    assert_eq!(all("repeat_use_both", late), ["01:00", "01:30"]);
    assert_eq!(all("repeat_use_only_late", late), ["01:00", "01:30"]);
    assert_eq!(all("repeat_use_only_early", late), [""; 0]);
}

#[test]
fn an_impossible_date_has_no_time() {
    for fields in [
        r#""minute": 0, "day_of_month": 29, "month": 2, "year": {"start": 2025, "period": 2}"#,
        r#""minute": 0, "day_of_month": [30, 31], "month": "february""#,
        r#""minute": 0, "year": 2025"#,
    ] {
        let found = instants(
            &standard(fields, EARLY),
            "Europe/Berlin",
            "2026-01-01T00:00:00Z",
            1,
        );
        assert_eq!(found, [""; 0], "{fields}");
    }
    let last = r#""minute": 59, "hour": 23, "day_of_month": 29, "month": 12, "year": 9999"#;
    let found = instants(
        &standard(last, EARLY),
        "America/New_York",
        "1969-01-01T00:00:00Z",
        2,
    );
    assert_eq!(found, ["9999-12-30T04:59:00Z"]);
    let cron = standard(r#""minute": 0"#, EARLY);
    for far in [i64::MIN, -1_000_000_000_000_000] {
        let first = cron.first_from(WallTime::from_millis(far), &Zone::utc());
        assert_eq!(first, Some(wall("1969-01-01T00:00:00Z")));
    }
    assert_eq!(
        cron.first_from(WallTime::from_millis(i64::MAX), &Zone::utc()),
        None
    );
}

/// There are more than fifty misses before the first hit, and a hit that is far away.
#[test]
fn rare_times_are_found() {
    let leap_century = r#""minute": 0, "hour": 0, "day_of_month": 29, "month": 2, "year": {"start": 2000, "period": 100}"#;
    let found = instants(
        &standard(leap_century, EARLY),
        "Europe/Berlin",
        "2026-01-01T00:00:00Z",
        2,
    );
    assert_eq!(found, ["2400-02-28T23:00:00Z", "2800-02-28T23:00:00Z"]);
}

#[test]
fn zones_are_those_of_the_list() {
    assert_eq!(
        Zone::named("america/new_york").unwrap().name(),
        "America/New_York"
    );
    assert_eq!(Zone::named("utc"), Some(Zone::utc()));
    for name in ["", "Etc/Unknown", "Europe", "Europe/Atlantis", "CET-1CEST"] {
        assert_eq!(Zone::named(name), None, "{name}");
    }
    assert_eq!(format!("{:?}", Zone::utc()), "Zone(\"UTC\")");
}
