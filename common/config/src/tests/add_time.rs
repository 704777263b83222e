//! Tests of the preferences of `add_time`: the meaning of its keys, and each mistake with its exact place and message.

use std::time::Duration;

use brasserie_common::WallTime;

use super::*;

/// Returns a file whose preferences begin on the second line, in the first column.
fn with_prefs(prefs: &str) -> String {
    format!(
        "{{\"bistro_settings\": {{\"nodes\": {{\"levels\": [\"host\", \"db\"], \"node_sources\": [{{\"source\": \"add_time\", \"prefs\":\n{prefs}}}]}}}}}}"
    )
}

fn read(prefs: &str) -> Result<Parsed, Vec<String>> {
    parse(&with_prefs(prefs), ParseOptions::default()).map_err(|errors| lines(&errors.0))
}

fn source(prefs: &str) -> AddTime {
    match read(prefs).unwrap().config.node_sources.remove(0) {
        NodeSource::AddTime(source) => source,
        other => panic!("{other:?}"),
    }
}

/// Returns the errors of an item whose cron begins on the third line, in the first column.
fn cron_errors(cron: &str) -> Vec<String> {
    let prefs = format!(
        "{{\"parent_level\": \"host\", \"schedule\": [{{\"lifetime\": 60, \"cron\":\n{cron}}}]}}"
    );
    read(&prefs).err().unwrap_or_default()
}

const CRON: &str = r#"{"epoch": {"period": 60}}"#;

#[test]
fn keys_have_their_meaning() {
    let least = source(&format!(
        r#"{{"parent_level": "host", "schedule": [{{"cron": {CRON}, "lifetime": 120}}]}}"#
    ));
    assert_eq!(least.parent_level, LevelId(1));
    assert_eq!(least.format, "{parent}:{time}");
    let item = &least.schedule[0];
    assert_eq!(
        (item.lifetime, item.enabled_lifetime),
        (Duration::from_secs(120), item.lifetime)
    );
    assert_eq!(item.tags, [""; 0]);
    let all = source(&format!(
        r#"{{"parent_level": "instance", "format": "{{time}}", "schedule":
        [{{"cron": {CRON}, "lifetime": "2h", "enabled_lifetime": 0, "tags": ["a", 1]}}]}}"#
    ));
    let item = &all.schedule[0];
    assert_eq!(
        (all.parent_level, all.format.as_str()),
        (LevelId::INSTANCE, "{time}")
    );
    assert_eq!(
        (item.lifetime, item.enabled_lifetime),
        (Duration::from_secs(7200), Duration::ZERO)
    );
    assert_eq!(item.tags, ["a", "1"]);
}

#[test]
fn an_empty_schedule_gives_nothing_and_is_worth_a_look() {
    for prefs in [
        r#"{"parent_level": "host"}"#,
        r#"{"parent_level": "host", "schedule": []}"#,
    ] {
        let parsed = read(prefs).unwrap();
        assert_eq!(
            lines(&parsed.warnings),
            [
                "1:98: bistro_settings.nodes.node_sources[0].prefs: its schedule is empty, so it gives no node; name items in `schedule`, each with `cron` and `lifetime`"
            ]
        );
    }
}

#[test]
fn what_never_comes_is_worth_a_look() {
    let prefs = r#"{"parent_level": "host", "format": "x", "schedule": [{"lifetime": 60, "cron": {"minute": 0, "day_of_month": 31,
        "month": "sep", "dst_fixes": ["skip", "repeat_use_both"]}}]}"#;
    assert_eq!(
        lines(&read(prefs).unwrap().warnings),
        [
            "2:36: bistro_settings.nodes.node_sources[0].prefs.format: without `{time}` all children of a node have the same name",
            "2:79: bistro_settings.nodes.node_sources[0].prefs.schedule[0].cron: no day of the calendar is like that, so this is never",
        ]
    );
}

#[test]
fn mistakes_of_preferences() {
    let prefix = "bistro_settings.nodes.node_sources[0].prefs";
    for (prefs, expected) in [
        (
            "{}",
            "2:1: P.parent_level: the key is missing; the level whose nodes get children",
        ),
        (
            r#"{"parent_level": "db"}"#,
            r#"2:18: P.parent_level: nodes of level "db" cannot have children; levels that can have children: instance, host"#,
        ),
        (
            r#"{"parent_level": "host", "format": "{parent}{tine}{time}"}"#,
            "2:36: P.format: unknown placeholder `{tine}`; did you mean `time`?",
        ),
        (
            r#"{"parent_level": "host", "schedule": {}}"#,
            "2:38: P.schedule: expected an array of schedule items, found an empty object",
        ),
        (
            r#"{"parent_level": "host", "schedule": [5]}"#,
            "2:39: P.schedule[0]: expected an object, found 5",
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"lifetime": 5}]}"#,
            "2:39: P.schedule[0].cron: the key is missing; when: an item by `epoch`, or by `minute` and so on",
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": 5}}]}"#,
            "2:39: P.schedule[0].lifetime: the key is missing; how long a time stays a node, as in 3600 or 2h",
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": 5}, "lifetime": 0}]}"#,
            "2:74: P.schedule[0].lifetime: the lifetime is zero; how long a time stays a node, as in 3600 or 2h",
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": 5}, "lifetime": -1}]}"#,
            "2:74: P.schedule[0].lifetime: -1 is out of range; seconds from 0 to 2147483647",
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": 5}, "lifetime": 9, "enabled_lifetime": "long"}]}"#,
            r#"2:97: P.schedule[0].enabled_lifetime: expected a duration, found "long"; a number with a unit (500ms, 30s, 5m, 2h, 1d), or seconds"#,
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": 5}, "lifetime": 9, "tags": "t"}]}"#,
            r#"2:85: P.schedule[0].tags: expected an array of strings, found "t""#,
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": {}}, "lifetime": "100001s"}]}"#,
            "2:75: P.schedule[0].lifetime: more than 100000 times fall within this lifetime; shorten it, or select fewer times",
        ),
        (
            r#"{"parent_level": "host", "schedule": [{"lifetime": "365d", "cron": {"minute": {}, "dst_fixes": ["skip", "repeat_use_both"]}}]}"#,
            "2:52: P.schedule[0].lifetime: more than 100000 times fall within this lifetime; shorten it, or select fewer times",
        ),
    ] {
        assert_eq!(
            read(prefs),
            Err(vec![expected.replace('P', prefix)]),
            "{prefs}"
        );
    }
    // A minute a year with the longest lifetime is no mistake.
    let rare = r#"{"parent_level": "host", "schedule": [{"lifetime": 2147483647, "cron": {"minute": {}, "hour": 0, "month": 1, "day_of_month": 1,
        "dst_fixes": ["skip", "repeat_use_both"]}}]}"#;
    assert_eq!(source(rare).schedule.len(), 1);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_of_items() {
    let prefix = "bistro_settings.nodes.node_sources[0].prefs.schedule[0].cron";
    let fixes = r#""dst_fixes": ["skip", "repeat_use_both"]"#;
    for (cron, expected) in [
        (
            "7",
            r#"3:1: C: expected an object, found 7; as in {"minute": 0, "hour": 3, "dst_fixes": ["unskip", "repeat_use_only_early"]} or {"epoch": {"period": 3600}}"#,
        ),
        (
            r#"{"epoch": 5, "minute": 0}"#,
            "3:14: C.minute: `epoch` stands alone; known is epoch",
        ),
        (
            r#"{"epoch": -1}"#,
            "3:11: C.epoch: -1 is out of range; an integer from 0 to 9223372036854775",
        ),
        (
            r#"{"epoch": "5"}"#,
            r#"3:11: C.epoch: expected an integer, found "5"; an integer from 0 to 9223372036854775"#,
        ),
        (
            r#"{"minute": "*/5", F}"#,
            r#"3:12: C.minute: expected an integer, found "*/5"; every value: leave the key out; every fifth: {"period": 5}; several: [0, 30]; some in a row: {"start": 1, "end": 5}"#,
        ),
        (
            r#"{"minute": 60, F}"#,
            "3:12: C.minute: 60 is out of range; an integer from 0 to 59",
        ),
        (
            r#"{"minute": [0, 1.5], F}"#,
            "3:16: C.minute[1]: expected an integer, found 1.5; an integer from 0 to 59",
        ),
        (
            r#"{"minute": 3.0, F}"#,
            "3:12: C.minute: expected an integer, found 3.0; an integer from 0 to 59",
        ),
        (
            r#"{"minute": true, F}"#,
            "3:12: C.minute: expected an integer, found true; an integer from 0 to 59",
        ),
        (
            r#"{"minute": {"from": 3}, F}"#,
            "3:13: C.minute.from: unknown key; known are start, end, period",
        ),
        (
            r#"{"minute": {"perod": 3}, F}"#,
            "3:13: C.minute.perod: unknown key; did you mean `period`?",
        ),
        (
            r#"{"minute": {"period": 59}, F}"#,
            "3:23: C.minute.period: 59 is out of range; an integer from 1 to 58",
        ),
        (
            r#"{"minute": {"period": 0}, F}"#,
            "3:23: C.minute.period: 0 is out of range; an integer from 1 to 58",
        ),
        (
            r#"{"minute": {"start": 50, "end": 10}, F}"#,
            "3:33: C.minute.end: the range from 50 to 10 is empty; ranges do not go round: list the values, as in [22, 23, 0, 1]",
        ),
        (
            r#"{"minute": 0, "hour": 24, F}"#,
            "3:23: C.hour: 24 is out of range; an integer from 0 to 23",
        ),
        (
            r#"{"minute": 0, "day_of_month": 0, F}"#,
            "3:31: C.day_of_month: 0 is out of range; an integer from 1 to 31",
        ),
        (
            r#"{"minute": 0, "day_of_week": 8, F}"#,
            "3:30: C.day_of_week: 8 is out of range; an integer from 1 to 7, or a name, as in sun or sunday",
        ),
        (
            r#"{"minute": 0, "day_of_week": "tues", F}"#,
            r#"3:30: C.day_of_week: expected an integer or a name, found "tues"; an integer from 1 to 7, or a name, as in sun or sunday"#,
        ),
        (
            r#"{"minute": 0, "month": "Ocotber", F}"#,
            r#"3:24: C.month: expected an integer or a name, found "Ocotber"; did you mean `october`?"#,
        ),
        (
            r#"{"minute": 0, "year": 1968, F}"#,
            "3:23: C.year: 1968 is out of range; an integer from 1969 to 9999",
        ),
        (
            r#"{"minute": 0, "day_of_month": 1, "day_of_week": "mon", F}"#,
            "3:34: C.day_of_week: an item selects days of the month or of the week, not both; remove one; two items of a schedule are days of either kind",
        ),
        (
            r#"{"minute": 0, "hours": 1, F}"#,
            "3:15: C.hours: unknown key; did you mean `hour`?",
        ),
        (
            r#"{"hour": 3, F}"#,
            r#"3:1: C.minute: the key is missing; as in {"minute": 0, "hour": 3, "dst_fixes": ["unskip", "repeat_use_only_early"]} or {"epoch": {"period": 3600}}"#,
        ),
        (
            r#"{"minute": 0}"#,
            r#"3:1: C.dst_fixes: the key is missing; what becomes of times that clocks skip or repeat, as in ["unskip", "repeat_use_only_early"]"#,
        ),
        (
            r#"{"minute": 0, "dst_fixes": "skip"}"#,
            r#"3:28: C.dst_fixes: expected an array of words, found "skip""#,
        ),
        (
            r#"{"minute": 0, "dst_fixes": ["skip"]}"#,
            "3:28: C.dst_fixes: it does not say what becomes of times that clocks repeat; add `repeat_use_both`, `repeat_use_only_early` or `repeat_use_only_late`",
        ),
        (
            r#"{"minute": 0, "dst_fixes": ["repeat_use_both"]}"#,
            "3:28: C.dst_fixes: it does not say what becomes of times that clocks skip; add `skip` or `unskip`",
        ),
        (
            r#"{"minute": 0, "dst_fixes": ["skip", "unskip", "repeat_use_both"]}"#,
            "3:37: C.dst_fixes[1]: an earlier word of this list has decided that; keep one of them",
        ),
        (
            r#"{"minute": 0, "dst_fixes": ["skip", "repeat_use_both", "repeat_use_both"]}"#,
            "3:56: C.dst_fixes[2]: an earlier word of this list has decided that; keep one of them",
        ),
        (
            r#"{"minute": 0, "dst_fixes": ["skip", "repeat_use_bth"]}"#,
            r#"3:37: C.dst_fixes[1]: expected one of the allowed words, found "repeat_use_bth"; did you mean `repeat_use_both`? (allowed: skip, unskip, repeat_use_both, repeat_use_only_early, repeat_use_only_late)"#,
        ),
        (
            r#"{"minute": 0, "time_zone": "Europe/Berln", F}"#,
            r#"3:28: C.time_zone: there is no time zone "Europe/Berln"; did you mean `Europe/Berlin`?"#,
        ),
        (
            r#"{"minute": 0, "time_zone": "new york", F}"#,
            r#"3:28: C.time_zone: there is no time zone "new york"; did you mean `America/New_York`?"#,
        ),
        (
            r#"{"minute": 0, "time_zone": "Middle-earth", F}"#,
            r#"3:28: C.time_zone: there is no time zone "Middle-earth"; a name of the IANA list, as in Europe/Berlin or UTC"#,
        ),
    ] {
        let text = cron.replace('F', fixes);
        let errors = cron_errors(&text);
        assert_eq!(errors, [expected.replacen('C', prefix, 1)], "{text}");
    }
}

/// One reading reports all mistakes.
#[test]
fn all_mistakes_of_a_schedule_at_once() {
    let errors = read(
        r#"{"parent_level": "hots", "format": "", "schedule": [
        {"lifetime": 0, "cron": {"minute": 99, "hour": -1, "month": "x", "year": 1, "dst_fixes": [], "time_zone": "Mars"}},
        {"tags": 5, "cron": {"epoch": "x"}}]}"#,
    );
    let places: Vec<String> = errors
        .unwrap_err()
        .iter()
        .map(|line| line.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "2:18", "2:36", "3:22", "3:44", "3:56", "3:69", "3:82", "3:98", "3:98", "3:115", "4:9",
            "4:18", "4:39"
        ]
    );
}

#[test]
fn workers_have_no_tags() {
    let parsed = good(
        "",
        r#""bistro_job->x": {"filters": {"worker": {"tag_whitelist": ["t"]}}}"#,
    );
    assert_eq!(
        lines(&parsed.warnings),
        ["3:42: bistro_job->x.filters.worker.tag_whitelist: has no effect: workers have no tags"]
    );
}

fn due(prefs: &str, now: i64) -> DueTimes {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    source(prefs)
        .due(WallTime::from_millis(now), &berlin)
        .unwrap()
}

/// Returns seconds, whether enabled, and tags; and the end of validity in milliseconds.
fn brief(due: &DueTimes) -> (Vec<(i64, bool, String)>, Option<i64>) {
    let times = due.times.iter().map(|time| {
        let tags: Vec<&str> = time.tags.iter().map(String::as_str).collect();
        (time.at.as_secs(), time.enabled, tags.join(" "))
    });
    (times.collect(), due.until.map(WallTime::as_millis))
}

#[test]
fn a_time_lives_from_itself_on_to_the_end_of_its_lifetime() {
    let prefs = r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": [100, 130]}, "lifetime": 50, "enabled_lifetime": 20, "tags": ["t"]}]}"#;
    let time = |at, enabled| (at, enabled, "t".to_owned());
    for (now, times, until) in [
        (99_999, vec![], Some(100_000)),
        (100_000, vec![time(100, true)], Some(120_000)),
        (119_999, vec![time(100, true)], Some(120_000)),
        (120_000, vec![time(100, false)], Some(130_000)),
        (
            130_000,
            vec![time(100, false), time(130, true)],
            Some(150_000),
        ),
        (
            149_999,
            vec![time(100, false), time(130, true)],
            Some(150_000),
        ),
        (150_000, vec![time(130, false)], Some(180_000)),
        (180_000, vec![], None),
    ] {
        assert_eq!(brief(&due(prefs, now)), (times, until), "{now}");
    }
}

#[test]
fn a_time_of_several_items_has_all_their_tags_and_their_least_enablement() {
    let prefs = r#"{"parent_level": "host", "schedule": [
        {"cron": {"epoch": {"period": 30}}, "lifetime": 40, "enabled_lifetime": 5, "tags": ["a", "b"]},
        {"cron": {"epoch": {"period": 10}}, "lifetime": 15, "tags": ["ten", "b"]}]}"#;
    let time = |at, enabled, tags: &str| (at, enabled, tags.to_owned());
    assert_eq!(
        brief(&due(prefs, 64_000)),
        (
            vec![
                time(30, false, "a b"),
                time(50, true, "b ten"),
                time(60, true, "a b ten")
            ],
            Some(65_000)
        )
    );
    assert_eq!(
        brief(&due(prefs, 65_000)),
        (
            vec![time(30, false, "a b"), time(60, false, "a b ten")],
            Some(70_000)
        )
    );
    // A time that the second item has lost belongs to the first item alone.
    assert_eq!(
        brief(&due(prefs, 75_000)).0,
        [time(60, false, "a b"), time(70, true, "b ten")]
    );
}

#[test]
fn the_scheduler_s_zone_holds_where_an_item_names_none() {
    let item = |zone: &str| {
        format!(
            r#"{{"parent_level": "host", "schedule": [{{"lifetime": "24h", "cron": {{"minute": 0, "hour": 12, {zone}
            "dst_fixes": ["skip", "repeat_use_both"]}}}}]}}"#
        )
    };
    let now = 1_000_000_000_000;
    let at = |zone: &str| due(&item(zone), now).times[0].at.as_secs();
    let noon_of_utc = 1_000_000_000 - 1_000_000_000 % 86_400 - 43_200;
    assert_eq!(at(r#""time_zone": "UTC","#), noon_of_utc);
    assert_eq!(at(""), noon_of_utc - 2 * 3600, "summer in Berlin");
    assert!(source(&item("")).uses_default_zone());
    assert!(!source(&item(r#""time_zone": "UTC","#)).uses_default_zone());
}

#[test]
fn more_times_than_anybody_means_are_refused_at_last() {
    // The parser accepts this item, because it selects only a few years.
    let prefs = r#"{"parent_level": "host", "schedule": [{"cron": {"epoch": 1}, "lifetime": 1}, {"lifetime": "69d", "cron": {"minute": {},
        "dst_fixes": ["skip", "repeat_use_both"]}}]}"#;
    let mut source = source(prefs);
    source.schedule[1].lifetime = Duration::from_secs(70 * 86_400);
    let refused = source.due(WallTime::from_secs(1_000_000_000), &Zone::utc());
    assert_eq!(
        refused.map(|due| due.times.len()),
        Err(TooManyTimes { item: 2 })
    );
    source.schedule[1].lifetime = Duration::from_secs(100_000 * 60);
    let most = source.due(WallTime::from_secs(1_000_000_000), &Zone::utc());
    assert_eq!(most.map(|due| due.times.len()), Ok(MAX_TIMES));
}

#[test]
fn the_next_time_is_that_of_the_first_item_on_the_clock_of_its_zone() {
    let prefs = r#"{"parent_level": "host", "schedule": [
        {"lifetime": 60, "cron": {"hour": 3, "minute": 0, "dst_fixes": ["skip", "repeat_use_both"]}},
        {"lifetime": 60, "cron": {"hour": 21, "minute": 30, "time_zone": "America/New_York", "dst_fixes": ["skip", "repeat_use_both"]}},
        {"lifetime": 60, "cron": {"epoch": 1795488001}}]}"#;
    let (source, berlin) = (source(prefs), Zone::named("Europe/Berlin").unwrap());
    // Monday, 2026-11-23 18:00:00 UTC.
    let mut now = WallTime::from_secs(1_795_456_800);
    let mut texts = Vec::new();
    for _ in 0..3 {
        let next = source.first_after(now, &berlin).unwrap();
        assert_eq!(source.due(now, &berlin).unwrap().next, Some(next.clone()));
        texts.push(next.to_string());
        now = next.at;
    }
    assert_eq!(
        texts,
        [
            "Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)",
            "Mon 2026-11-23 21:30 -05:00 (America/New_York)",
            "Tue 2026-11-24 03:40:01 +01:00 (Europe/Berlin)",
        ]
    );
    let once = self::source(
        r#"{"parent_level": "host", "schedule": [{"lifetime": 60, "cron": {"epoch": 1795488001}}]}"#,
    );
    assert_eq!(
        once.first_after(WallTime::from_secs(1_795_488_001), &berlin),
        None
    );
}

/// Checks sources in this order: those of the text, then one that gives each host a child for each minute.
fn named(before: &str, format: &str, beside: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let text = format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["host", "db"], "node_sources": [{before}
{{"source": "add_time"{beside}, "prefs": {{"parent_level": "host", "format": "{format}", "schedule": [{{"cron": {CRON}, "lifetime": 60}}]}}}}{after}]}}}},
"bistro_job->x": {{"command": ["true"]}}}}"#
    );
    let found = checked(text.as_bytes());
    (lines(&found.errors), lines(&found.warnings))
}

const NONE: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());

#[test]
fn times_have_names_of_their_own_below_each_parent() {
    let help = "add `{parent}` to `format`, or set \"names\": \"path\" beside `source`, or \"names\": \"shared\" if it is one node with several parents";
    let error = format!(
        "2:1: bistro_settings.nodes.node_sources[1]: the names of each time occur twice at level `db`: under \"a\" and under \"b\"; {help}"
    );
    let two_hosts = r#"{"source": "manual", "prefs": {"a": [], "b": []}},"#;
    let found = named(two_hosts, "{time}", "", "");
    assert_eq!(found, (vec![error], Vec::new()));
    for (format, beside) in [
        ("{parent}:{time}", ""),
        ("{time}", r#", "names": "path""#),
        ("{time}", r#", "names": "shared""#),
    ] {
        let found = named(two_hosts, format, beside, "");
        assert_eq!(found, NONE, "{format} {beside}");
    }
    let one_host = r#"{"source": "manual", "prefs": {"a": []}},"#;
    assert_eq!(named(one_host, "{time}", "", ""), NONE);
    let script = r#"{"source": "script", "prefs": {"parent_level": "instance", "script": "/x"}},"#;
    let warning = format!(
        "2:1: bistro_settings.nodes.node_sources[1]: `format` has no `{{parent}}`, so a second node of level `host` gives level `db` two nodes with one name, which is an error; {help}"
    );
    assert_eq!(named(script, "{time}", "", ""), (Vec::new(), vec![warning]));
    assert_eq!(named(script, "{parent}-{time}", "", ""), NONE);
}

#[test]
fn nodes_with_the_name_of_a_time_are_worth_a_look() {
    let of = |node: &str| format!(r#"{{"source": "manual", "prefs": {{"h1": ["{node}"]}}}},"#);
    let help = "rename the node, or change the `format` of the `add_time` source";
    let text = format!(
        "2:1: bistro_settings.nodes.node_sources[1]: the name \"h1:1200\" occurs twice at level `db` at the time 1200, which is an error: of the node at 1:113 and of the `add_time` source at 2:1; {help}"
    );
    assert_eq!(
        named(&of("h1:1200"), "{parent}:{time}", "", ""),
        (Vec::new(), vec![text])
    );
    // The cron never gives the first name, and the others do not match the format.
    for node in ["h1:1201", "h2:1200", "1200", "h1:1200x"] {
        assert_eq!(named(&of(node), "{parent}:{time}", "", ""), NONE, "{node}");
    }
    let shared = r#", "names": "shared""#;
    assert_eq!(named(&of("h1:1200"), "{parent}:{time}", shared, ""), NONE);
    // A later source gives children to the same host.
    let host = r#"{"source": "manual", "prefs": {"h1": []}},"#;
    let range = r#", {"source": "range_label", "prefs": {"parent_level": "host", "format": "{parent}:{i}", "start": 1199, "end": 1200}}"#;
    let (errors, warnings) = named(host, "{parent}:{time}", "", range);
    assert_eq!(errors, [""; 0]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("h1:1200"), "{warnings:?}");
}
