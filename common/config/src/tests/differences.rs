//! Tests of the difference between two files.

use serde_json::json;

use super::*;

fn between(before: (&str, &str), after: (&str, &str)) -> Changes {
    Changes::between(
        &good(before.0, before.1).config,
        &good(after.0, after.1).config,
    )
}

fn shown(changes: &[KeyChange]) -> Vec<String> {
    let text = |value: &Option<serde_json::Value>| match value {
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    };
    let lines = changes
        .iter()
        .map(|c| format!("{}: {} -> {}", c.key, text(&c.before), text(&c.after)));
    lines.collect()
}

const JOB: &str = r#""bistro_job->x": {"command": ["a"]}"#;

#[test]
fn the_same_file_changes_nothing() {
    let settings = r#""resources": {"host": {"disk": {"default": 2, "limit": 9}}}"#;
    let changes = between((settings, JOB), (settings, JOB));
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn jobs_are_added_removed_and_changed() {
    let job = r#""bistro_job->x": {"command": ["a"], "env": {"A": "1", "B": "1"}}"#;
    let other = r#""bistro_job->y": {"command": ["a"]}, "bistro_job->x": {"command": ["b"], "priority": 2, "env": {"A": "2", "B": "1"}}"#;
    let changes = between(("", job), ("", other));
    let names = |jobs: &[brasserie_common::JobName]| -> Vec<String> {
        jobs.iter().map(|j| j.as_str().to_owned()).collect()
    };
    assert_eq!(names(&changes.added), ["y"]);
    assert_eq!(names(&changes.removed), [""; 0]);
    let [(name, keys)] = &changes.changed[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(name.as_str(), "x");
    assert_eq!(
        shown(keys),
        [
            r#"command: ["a"] -> ["b"]"#,
            r#"env.A: "1" -> "2""#,
            "priority: 1.0 -> 2.0"
        ]
    );
    assert_eq!(names(&between(("", other), ("", JOB)).removed), ["y"]);
}

#[test]
fn every_setting_shows_with_what_jobs_inherit_of_it() {
    let after = r#""enabled": false, "working_wait": 2, "scheduler": "long_tail", "remote_worker_selector": "busiest",
        "backoff": [7, "fail"], "level_for_tasks": "host", "kill_orphan_tasks_after_sec": 3,
        "kill_subprocess": {"method": "kill"}, "CAUTION_exit_initial_wait_before_timestamp": 5,
        "resources": {"worker": {"mem": {"default": 1, "limit": 4, "weight": 3}}},
        "worker_resources_override": {"w1": {"mem": 6}},
        "physical_resources": {"ram_mb": {"logical_resource": "mem"}}"#;
    let changes = between(("", JOB), (after, JOB));
    let shown_settings = shown(&changes.settings);
    let expected = [
        "CAUTION_exit_initial_wait_before_timestamp: 0 -> 5",
        r#"enabled: true -> false"#,
        "kill_orphan_tasks_after_sec: false -> 3.0",
        r#"level_for_tasks: "db" -> "host""#,
        r#"remote_worker_selector: "roundrobin" -> "busiest""#,
        r#"resources.worker.mem: - -> {"default":1,"limit":4,"weight":3}"#,
        r#"scheduler: "roundrobin" -> "long_tail""#,
        r#"worker_resources_override.w1: - -> {"mem":6}"#,
        "working_wait: 0.5 -> 2.0",
    ];
    for line in expected {
        assert!(
            shown_settings.iter().any(|l| l == line),
            "{line}: {shown_settings:#?}"
        );
    }
    for key in [
        "backoff",
        "kill_subprocess",
        "physical_resources.ram_mb",
        "resources.worker.slots",
    ] {
        let lines = shown_settings.iter();
        assert_eq!(
            lines.filter(|l| l.starts_with(&format!("{key}: "))).count(),
            1,
            "{key}"
        );
    }
    let inherited: Vec<&str> = changes.changed[0]
        .1
        .iter()
        .map(|c| c.key.as_str())
        .collect();
    assert_eq!(
        inherited,
        [
            "backoff",
            "kill_orphan_tasks_after_sec",
            "kill_subprocess",
            "level_for_tasks",
            "resources"
        ]
    );
}

#[test]
fn node_sources_are_told_in_short() {
    let file = |nodes: &str| {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["host"], "node_sources": [{{"source": "manual", "prefs": {{{nodes}}}}}]}}}}}}"#
        );
        parse(&text, ParseOptions::default()).unwrap().config
    };
    let changes = Changes::between(&file(r#""a": []"#), &file(r#""a": [], "b": []"#));
    assert_eq!(
        changes.settings,
        [KeyChange {
            key: "nodes.node_sources".to_owned(),
            before: Some(json!(["manual, 1 node"])),
            after: Some(json!(["manual, 2 nodes"])),
        }]
    );
    let changes = Changes::between(&file(r#""a": []"#), &file(r#""b": []"#));
    let after = &changes.settings[0].after;
    assert_eq!(*after, Some(json!(["manual, 1 node, with other details"])));
}
