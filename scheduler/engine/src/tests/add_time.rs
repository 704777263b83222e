//! Tests of `add_time` and tags, from the text of a configuration to the tasks that start. They show that each key has an effect.

use std::sync::Arc;

use brasserie_common::{StatusBits, Time, WallTime};
use brasserie_common_config::{Config, NodeNaming, NodeSource, ParseOptions, Zone, parse};

use super::world::*;
use crate::{Eligibility, Engine, NodeTable, NodeTableBuilder, Row};

const T0: Time = Time::ZERO;

/// Saturday 2026-11-21, 12:34:56 in UTC and 13:34:56 in Berlin.
const NOW: i64 = 1_795_264_496;

fn read(prefs: &str, jobs: &str) -> Config {
    let text = format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["host", "db", "time"], "node_order": "original", "node_sources": [
            {{"source": "manual", "prefs": {{"h1": ["d1", "d2"], "h2": []}}}},
            {{"source": "add_time", "prefs": {prefs}}}]}},
            "resources": {{"worker": {{"room": {{"default": 1, "limit": 1000}}}}}}}}{jobs}}}"#
    );
    match parse(&text, ParseOptions::default()) {
        Ok(parsed) => {
            assert_eq!(parsed.job_problems(), [], "{text}");
            parsed.config
        }
        Err(errors) => panic!("{text}: {errors}"),
    }
}

/// Builds the node table as the shell does, in Berlin.
fn build(config: &Config, now: i64) -> NodeTable {
    let zone = Zone::named("Europe/Berlin").unwrap();
    let mut builder = NodeTableBuilder::new("root", config);
    for source in &config.node_sources {
        match source {
            NodeSource::Manual(nodes) => builder.add_manual(nodes).unwrap(),
            NodeSource::AddTime(source) => {
                let due = source.due(WallTime::from_secs(now), &zone).unwrap();
                builder.add_time(source, &due.times).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    builder.finish()
}

/// Returns the nodes that `add_time` gave: name, `-` if disabled, tags. Seconds are relative to [`NOW`].
fn added(prefs: &str) -> Vec<String> {
    let table = build(&read(prefs, ""), NOW);
    let manual = 1 + 2 + 2;
    let rows = table.rows().skip(manual);
    let line = |row| {
        let (before, second) = table
            .name(row)
            .rsplit_once(':')
            .unwrap_or((table.name(row), "0"));
        let second: i64 = second.parse().unwrap();
        let off = if table.enabled(row) { "" } else { "-" };
        let tags: Vec<&str> = table.tags(row).iter().map(String::as_str).collect();
        format!("{before}{:+}{off} {}", second - NOW, tags.join(","))
            .trim()
            .to_owned()
    };
    rows.map(line).collect()
}

const STANDARD: &str = r#"{"parent_level": "instance", "schedule": [{"lifetime": "1d", "cron": {"minute": 30, "hour": 12,
    "dst_fixes": ["skip", "repeat_use_both"]}}]}"#;
const BY_EPOCH: &str = r#"{"parent_level": "host", "format": "{parent}:{time}", "schedule": [
    {"cron": {"epoch": {"start": 1795264400, "period": 40, "end": 1795264500}}, "lifetime": 100, "enabled_lifetime": 20, "tags": ["t"]}]}"#;

/// Two sources give the same name for the same time below one parent.
#[test]
fn a_time_of_several_sources_is_one_node() {
    let source = |start: i64, enabled: i64, tag: &str| {
        format!(
            r#"{{"parent_level": "host", "schedule": [{{"cron": {{"epoch": {{"start": {start}, "period": 40, "end": 1795264500}}}},
                "lifetime": 100, "enabled_lifetime": {enabled}, "tags": ["{tag}"]}}]}}"#
        )
    };
    let sources =
        |one: &str, other: &str| format!(r#"{one}}}, {{"source": "add_time", "prefs": {other}"#);
    // The first source gives times 96, 56 and 16 seconds before now, and the second the last of these alone.
    let (all, last) = (
        source(1_795_264_400, 100, "daily"),
        source(1_795_264_480, 1, "monthly"),
    );
    assert_eq!(
        added(&sources(&all, &last)),
        [
            "h1-96 daily",
            "h1-56 daily",
            "h1-16- daily,monthly",
            "h2-96 daily",
            "h2-56 daily",
            "h2-16- daily,monthly"
        ]
    );
    let names = |prefs: &str| {
        let mut names = added(prefs);
        names.sort();
        names
    };
    assert_eq!(names(&sources(&last, &all)), names(&sources(&all, &last)));
}

#[test]
fn what_the_examples_give() {
    // Half past twelve in Berlin was 11:30 in UTC.
    assert_eq!(added(STANDARD), ["root-3896"]);
    assert_eq!(
        added(BY_EPOCH),
        [
            "h1-96- t", "h1-56- t", "h1-16 t", "h2-96- t", "h2-56- t", "h2-16 t"
        ]
    );
}

/// Each row has an example, the part of it that changes, its replacement, and the nodes that result.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_key_has_an_effect() {
    for (example, from, to, expected) in [
        (
            BY_EPOCH,
            r#""host""#,
            r#""db""#,
            &[
                "d1-96- t", "d1-56- t", "d1-16 t", "d2-96- t", "d2-56- t", "d2-16 t",
            ][..],
        ),
        (
            BY_EPOCH,
            "{parent}:",
            "x{parent}:",
            &[
                "xh1-96- t",
                "xh1-56- t",
                "xh1-16 t",
                "xh2-96- t",
                "xh2-56- t",
                "xh2-16 t",
            ],
        ),
        (BY_EPOCH, r#""schedule""#, r#""nothing""#, &[]),
        (
            BY_EPOCH,
            r#""start": 1795264400"#,
            r#""start": 1795264480"#,
            &["h1-16 t", "h2-16 t"],
        ),
        (
            BY_EPOCH,
            r#""end": 1795264500"#,
            r#""end": 1795264440"#,
            &["h1-96- t", "h1-56- t", "h2-96- t", "h2-56- t"],
        ),
        (
            BY_EPOCH,
            r#""period": 40"#,
            r#""period": 90"#,
            &["h1-96- t", "h1-6 t", "h2-96- t", "h2-6 t"],
        ),
        (
            BY_EPOCH,
            r#""lifetime": 100"#,
            r#""lifetime": 50"#,
            &["h1-16 t", "h2-16 t"],
        ),
        (
            BY_EPOCH,
            r#""enabled_lifetime": 20"#,
            r#""enabled_lifetime": 60"#,
            &[
                "h1-96- t", "h1-56 t", "h1-16 t", "h2-96- t", "h2-56 t", "h2-16 t",
            ],
        ),
        (
            BY_EPOCH,
            r#", "tags": ["t"]"#,
            r#", "tags": ["u", "t"]"#,
            &[
                "h1-96- t,u",
                "h1-56- t,u",
                "h1-16 t,u",
                "h2-96- t,u",
                "h2-56- t,u",
                "h2-16 t,u",
            ],
        ),
        (
            BY_EPOCH,
            r#", "tags": ["t"]"#,
            "",
            &["h1-96-", "h1-56-", "h1-16", "h2-96-", "h2-56-", "h2-16"],
        ),
        (
            STANDARD,
            r#""minute": 30"#,
            r#""minute": 31"#,
            &["root-3836"],
        ),
        (
            STANDARD,
            r#""minute": 30"#,
            r#""minute": [30, 31]"#,
            &["root-3896", "root-3836"],
        ),
        (STANDARD, r#""hour": 12"#, r#""hour": 13"#, &["root-296"]),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": {"start": 12, "end": 13}"#,
            &["root-3896", "root-296"],
        ),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": 12, "day_of_month": 20"#,
            &[],
        ),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": [12, 13], "day_of_week": "sat""#,
            &["root-3896", "root-296"],
        ),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": 12, "day_of_week": "sun""#,
            &[],
        ),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": 12, "month": "dec""#,
            &[],
        ),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": 12, "year": {"end": 2025}"#,
            &[],
        ),
        (
            STANDARD,
            r#""hour": 12"#,
            r#""hour": 12, "time_zone": "UTC""#,
            &["root-296"],
        ),
    ] {
        assert!(example.contains(from), "{from}");
        let prefs = example.replacen(from, to, 1);
        assert_eq!(added(&prefs), expected, "{prefs}");
    }
}

/// Each word of `dst_fixes` has an effect in the nights in which Berlin's clocks change.
#[test]
fn each_daylight_saving_policy_has_an_effect() {
    let names = |fixes: &str, now: i64| {
        let prefs = format!(
            r#"{{"parent_level": "instance", "schedule": [{{"lifetime": "6h", "cron": {{"minute": 30, "hour": 2, "dst_fixes": [{fixes}]}}}}]}}"#
        );
        let table = build(&read(&prefs, ""), now);
        let names: Vec<i64> = table
            .rows()
            .skip(5)
            .map(|row| table.name(row)[5..].parse().unwrap())
            .collect();
        names
    };
    // The clock goes from 02:00 to 03:00 on 2026-03-29 at 01:00 UTC.
    let forward = 1_774_746_000;
    assert_eq!(names(r#""skip", "repeat_use_both""#, forward + 9), [0; 0]);
    assert_eq!(
        names(r#""unskip", "repeat_use_both""#, forward + 9),
        [forward - 1]
    );
    // The clock goes from 03:00 to 02:00 on 2026-10-25 at 01:00 UTC.
    let back = 1_792_890_000;
    let (early, late) = (back - 1800, back + 1800);
    assert_eq!(names(r#""skip", "repeat_use_both""#, late), [early, late]);
    assert_eq!(names(r#""skip", "repeat_use_only_early""#, late), [early]);
    assert_eq!(names(r#""skip", "repeat_use_only_late""#, late), [late]);
}

fn engine_with(config: Config, now: i64) -> Engine {
    let mut engine = Engine::new(1);
    let nodes = build(&config, now);
    engine.apply_config(T0, Arc::new(config));
    engine.apply_nodes(T0, Arc::new(nodes));
    let worker = engine.upsert_worker(&shard("w1"), on_host("m1"));
    engine.set_eligibility(worker, Eligibility::Eligible);
    engine
}

const TAGGED: &str = r#"{"parent_level": "db", "format": "{parent}@{time}", "schedule": [
    {"cron": {"epoch": 1795264490}, "lifetime": 60, "tags": ["fast"]},
    {"cron": {"epoch": [1795264490, 1795264495]}, "lifetime": 60, "tags": ["slow", "odd"]},
    {"cron": {"epoch": 1795264491}, "lifetime": 60}]}"#;

#[test]
fn jobs_run_on_the_tags_they_demand() {
    let started = |filters: &str| {
        let jobs = format!(r#", "bistro_job->j": {{"filters": {filters}}}"#);
        let mut engine = engine_with(read(TAGGED, &jobs), NOW);
        let placed = place_all(&mut engine, T0);
        let names = names(&engine, &placed);
        names
            .iter()
            .map(|n| n.replace("j d", "d").replace("17952644", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        started("{}"),
        ["d1@90", "d1@91", "d1@95", "d2@90", "d2@91", "d2@95"]
    );
    assert_eq!(
        started(r#"{"time": {"tag_whitelist": ["fast"]}}"#),
        ["d1@90", "d2@90"]
    );
    assert_eq!(
        started(r#"{"time": {"tag_whitelist": ["odd", "other"]}}"#),
        ["d1@90", "d1@95", "d2@90", "d2@95"]
    );
    assert_eq!(
        started(r#"{"time": {"tag_whitelist": ["odd"], "blacklist_regex": "90$"}}"#),
        ["d1@95", "d2@95"]
    );
    assert_eq!(started(r#"{"time": {"tag_whitelist": ["none"]}}"#), [""; 0]);
    // Nodes of other sources have no tags. Workers have none either, but filters require none of them.
    assert_eq!(started(r#"{"db": {"tag_whitelist": ["fast"]}}"#), [""; 0]);
    assert_eq!(
        started(r#"{"worker": {"tag_whitelist": ["fast"]}, "time": {"tag_whitelist": ["fast"]}}"#),
        ["d1@90", "d2@90"]
    );
}

/// Tags and the end of a time also apply to the nodes below it.
#[test]
fn times_above_other_nodes() {
    let config = |schedule: &str| {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["time", "shard"], "node_order": "original", "node_sources": [
                {{"source": "add_time", "prefs": {{"parent_level": "instance", "format": "{{time}}", "schedule": {schedule}}}}},
                {{"source": "range_label", "prefs": {{"parent_level": "time", "start": 1, "end": 2}}}}]}}}},
                "bistro_job->j": {{"filters": {{"time": {{"tag_whitelist": ["a"]}}}}}}}}"#
        );
        parse(&text, ParseOptions::default()).unwrap().config
    };
    let config = config(
        r#"[{"cron": {"epoch": 7}, "lifetime": 60, "enabled_lifetime": 30, "tags": ["a"]}, {"cron": {"epoch": 8}, "lifetime": 60, "tags": ["b"]}]"#,
    );
    let table = |now: i64| {
        let mut builder = NodeTableBuilder::new("root", &config);
        for source in &config.node_sources {
            match source {
                NodeSource::AddTime(source) => {
                    let due = source.due(WallTime::from_secs(now), &Zone::utc()).unwrap();
                    builder.add_time(source, &due.times).unwrap();
                }
                NodeSource::RangeLabel(range) => builder.add_range_label(range).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        Arc::new(builder.finish())
    };
    let mut engine = Engine::new(1);
    engine.apply_config(T0, Arc::new(config.clone()));
    engine.apply_nodes(T0, table(9));
    let worker = engine.upsert_worker(&shard("w1"), on_host("m1"));
    engine.set_eligibility(worker, Eligibility::Eligible);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["j 7__1", "j 7__2"]);
    end(&mut engine, T0, placed[0].task, StatusBits::INCOMPLETE);
    // The time is disabled by now, so a completed task does not start again.
    engine.apply_nodes(T0, table(40));
    assert_eq!(place_all(&mut engine, T0), []);
    let over = "node `7` is disabled: the `enabled_lifetime` of its time in the schedule is over, and no task starts after that";
    let why = engine.explain(T0, placed[0].task);
    assert!(
        why.iter().any(|reason| reason.to_string() == over),
        "{why:?}"
    );
    // The time is gone.
    engine.apply_nodes(T0, table(70));
    assert_eq!(engine.nodes().unwrap().len(), 1);
}

#[test]
fn tags_take_no_room_where_there_are_none() {
    let untagged = build(&read(STANDARD, ""), NOW);
    assert!(untagged.rows().all(|row| untagged.tags(row).is_empty()));
    let config = read(TAGGED, "");
    let [_, NodeSource::AddTime(source)] = config.node_sources.as_slice() else {
        panic!("two sources");
    };
    // Each time has a set of its own, and there is one more than the maximum.
    let mut times = source
        .due(WallTime::from_secs(NOW), &Zone::utc())
        .unwrap()
        .times;
    times.truncate(1);
    let time = times.remove(0);
    let times: Vec<_> = (0..=u32::from(u16::MAX))
        .map(|i| {
            let mut time = time.clone();
            time.tags = [i.to_string()].into();
            time
        })
        .collect();
    let build = |count: usize| {
        let mut builder = NodeTableBuilder::new("root", &config);
        builder.add_child(Row::ROOT, "h", true).unwrap();
        let mut source = source.clone();
        source.parent_level = HOST;
        source.naming = NodeNaming::Shared;
        builder
            .add_time(&source, &times[..count])
            .map(|()| builder.finish())
    };
    let full = build(usize::from(u16::MAX)).unwrap();
    let last = full.rows().last().unwrap();
    assert_eq!(full.tags(last), &["65534".to_owned()].into());
    assert_eq!(full.tags(Row(1)), &[].into(), "the host");
    let error = build(usize::from(u16::MAX) + 1).unwrap_err();
    assert_eq!(error.to_string(), "more than 65535 different sets of tags");
}
