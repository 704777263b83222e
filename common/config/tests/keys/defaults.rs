//! The default of each optional key. A default that is a value is checked against the parser.

use brasserie_common_config::{KeyRow, ParseOptions, key_rows, parse};
use serde_json::{Value, json};

use super::{JOB, NoEffect, SETTINGS, SHARED, rows};

/// The effect of a missing key.
enum Default {
    /// The same as this value, which is JSON.
    Value(&'static str),
    /// No value has the same effect. The text describes the effect in Markdown.
    Words(&'static str),
}
use Default::{Value as Same, Words};

const NONE: Default = Words("none");
const ALL: Default = Words("all");

/// Defaults by the last parts of paths. The longest match counts.
const DEFAULTS: &[(&str, Default)] = &[
    ("enabled", Same("true")),
    ("working_wait", Same("0.5")),
    ("scheduler", Same("\"roundrobin\"")),
    ("remote_worker_selector", Same("\"roundrobin\"")),
    ("standby", Same("true")),
    (
        "backoff",
        Same("[15, 30, 60, 300, 900, 3600, 7200, 21600, 86400, \"repeat\"]"),
    ),
    ("node_order", Same("\"random\"")),
    ("node_sources", Same("[]")),
    ("node_source", NONE),
    ("node_source_prefs", NONE),
    ("prefs", Words("none; required except for `empty`")),
    ("names", Same("\"unique\"")),
    ("children", Same("[]")),
    ("disabled", Same("false")),
    ("prefs(range_label).format", Same("\"{parent}__{i}\"")),
    ("prefs(script).timeout", Same("60")),
    ("prefs(add_time).format", Same("\"{parent}:{time}\"")),
    ("schedule", Same("[]")),
    ("cron.hour", ALL),
    ("cron.day_of_month", ALL),
    ("cron.day_of_week", ALL),
    ("cron.month", ALL),
    ("cron.year", ALL),
    ("start", Words("the first possible value")),
    ("end", Words("the last possible value")),
    ("period", Words("1")),
    ("time_zone", Words("the time zone of the scheduler")),
    ("enabled_lifetime", Words("`lifetime`")),
    ("tags", Same("[]")),
    ("level_for_tasks", Words("the last level")),
    ("resources", Same("{}")),
    ("weight", Same("0")),
    ("worker_resources_override", Same("{}")),
    ("worker_resources_overrides", Same("{}")),
    ("physical_resources", Same("{}")),
    ("physical_resources.ram_mb", NONE),
    ("physical_resources.cpu_core", NONE),
    ("physical_resources.gpu_card", NONE),
    ("multiply_logical_by", Same("1")),
    ("enforcement", Same("\"none\"")),
    ("physical_reserve_amount", Same("0")),
    ("CAUTION_exit_initial_wait_before_timestamp", Same("0")),
    ("kill_orphan_tasks_after_sec", Same("false")),
    ("task_subprocess", Same("{}")),
    ("poll_ms", Same("10")),
    ("max_log_lines_per_poll_interval", Same("50")),
    ("max_log_bytes_per_poll_interval", Same("0")),
    ("log_overflow", Same("\"wait\"")),
    ("output", Same("\"log\"")),
    ("cgroups", Same("{}")),
    ("root", Same("\"\"")),
    ("slice", Same("\"\"")),
    ("subsystems", Same("[]")),
    ("kill_without_freezer", Same("false")),
    ("pids_max", Same("0")),
    ("limits", Same("{}")),
    ("user", Words("the user of the worker")),
    ("group", Words("the group of the user")),
    ("kill_subprocess", Same("{}")),
    ("kill_request", Same("{}")),
    ("method", Same("\"term\"")),
    ("kill_wait_ms", Same("0")),
    ("owner", Same("\"\"")),
    ("priority", Same("1")),
    ("config", Same("{}")),
    ("filters", Same("{}")),
    ("whitelist", Same("[]")),
    ("whitelist_regex", Same("\"\"")),
    ("blacklist", Same("[]")),
    ("blacklist_regex", Same("\"\"")),
    ("tag_whitelist", Same("[]")),
    ("fraction_of_nodes", Same("1")),
    ("level_for_host_placement", NONE),
    ("host_placement", NONE),
    ("retries", Words("that of `backoff`")),
    ("retry_delay", Words("those of `backoff`")),
    ("depends_on", Same("[]")),
    ("run_only_after_all_nodes_are_done_for", Same("[]")),
    ("create_time", Same("0")),
    ("modify_time", Same("0")),
    ("command", Words("`--worker-command` of the worker")),
    ("env", Same("{}")),
    ("cwd", Words("a folder of the job")),
    ("max_running", NONE),
    ("version_id", Same("-1")),
    ("errors", NONE),
    ("status_from", Same("\"auto\"")),
    ("timeout", NONE),
    ("deadline", NONE),
    ("est_duration", Words("learned; one minute at first")),
    ("bufferable", Same("false")),
    ("report", Words("chosen by the worker")),
    ("arguments", Same("\"append\"")),
    ("outputs", Same("[]")),
    ("replicas", Same("1")),
    ("wait_for_replica", Same("false")),
    ("keep", Same("\"7d\"")),
    ("inputs", Same("[]")),
    ("locality_wait", Same("0")),
    ("from", NONE),
    ("node", Same("\"same\"")),
    ("inputs[].path", Words("all outputs of the job")),
    ("file", NONE),
    (
        "as",
        Words("the name of the job, or the file's own name without its folders"),
    ),
];

/// Keys of jobs whose default is the value of the settings, besides those that settings and jobs share.
const INHERITED: &[&str] = &["backoff", "level_for_tasks"];

fn default_of(path: &str) -> &'static Default {
    let matches = |suffix: &str| {
        let rest = path.strip_suffix(suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let found = DEFAULTS.iter().filter(|(suffix, _)| matches(suffix));
    let longest = found.max_by_key(|(suffix, _)| suffix.len());
    let (_, default) = longest.unwrap_or_else(|| panic!("no default is known of {path}"));
    default
}

fn is_inherited(path: &str) -> bool {
    let key = path
        .strip_prefix(JOB)
        .and_then(|rest| rest.strip_prefix('.'));
    key.is_some_and(|key| {
        INHERITED.contains(&key) || SHARED.iter().any(|(shared, _)| *shared == key)
    })
}

/// Returns whether the key never has an effect.
fn has_no_effect(path: &str) -> bool {
    let row = rows().into_iter().find(|(known, _)| known == path);
    row.is_some_and(|(_, proof)| matches!(proof, NoEffect(_)))
}

/// Returns the default of a key in Markdown.
pub fn in_words(key: &KeyRow) -> String {
    if key.is_required {
        return "*required*".to_owned();
    }
    if has_no_effect(&key.path) {
        return "none".to_owned();
    }
    if is_inherited(&key.path) {
        return "that of the settings".to_owned();
    }
    match default_of(&key.path) {
        Same(value) => format!("`{value}`"),
        Words(words) => (*words).to_owned(),
    }
}

/// Returns a config in which each object with a required key exists.
fn base() -> Value {
    let resource = json!({"default": 1, "limit": 1});
    let physical = |name: &str| json!({"logical_resource": name});
    json!({
        SETTINGS: {
            "nodes": {"levels": ["host", "db"], "node_sources": [
                {"source": "manual", "prefs": {"NODE": {}}},
                {"source": "range_label", "prefs": {"parent_level": "host", "start": 1, "end": 2}},
                {"source": "script", "prefs": {"parent_level": "host", "script": "./script"}},
                {"source": "add_time", "prefs": {"parent_level": "host", "schedule": [
                    {"cron": {"minute": 0, "dst_fixes": ["unskip", "repeat_use_both"]}, "lifetime": 60},
                ]}},
            ]},
            "resources": {
                "host": {"RESOURCE": resource},
                "worker": {"ram": resource, "cpu": resource, "gpu": resource},
            },
            "physical_resources": {
                "ram_mb": physical("ram"), "cpu_core": physical("cpu"), "gpu_card": physical("gpu"),
            },
        },
        JOB: {"command": ["program"], "outputs": [{"path": "file"}], "inputs": [{"from": "other"}]},
    })
}

/// Sets a key by its path, and creates the objects above it. An empty value does not replace a list or an object of the config.
fn set(config: &mut Value, path: &str, value: Value) {
    let mut at = config;
    for part in path.split('.') {
        let (part, kind) = part
            .trim_end_matches(')')
            .split_once('(')
            .unwrap_or((part, ""));
        if let Value::Array(items) = at {
            let of_kind = |item: &&mut Value| kind.is_empty() || item["source"] == kind;
            at = items
                .iter_mut()
                .find(of_kind)
                .expect("the base has an item of each kind");
        }
        let name = if part == "LEVEL" { "host" } else { part };
        let object = at.as_object_mut().expect("a key is in an object");
        at = object
            .entry(name.trim_end_matches("[]"))
            .or_insert(json!({}));
    }
    if *at == json!({}) || value != json!([]) && value != json!({}) {
        *at = value;
    }
}

#[test]
fn each_default_is_the_parsers() {
    let read = |config: &Value| parse(&config.to_string(), ParseOptions::default());
    let before = read(&base()).expect("the base is good").config;
    let mut wrong = Vec::new();
    let mut count = 0;
    for key in key_rows() {
        let is_stated = !(key.is_required || has_no_effect(&key.path) || is_inherited(&key.path));
        let Some(Same(text)) = is_stated.then(|| default_of(&key.path)) else {
            continue;
        };
        let mut config = base();
        let value = serde_json::from_str(text).expect("a default is JSON");
        set(&mut config, &key.path, value);
        count += 1;
        match read(&config) {
            Ok(parsed) if parsed.config == before && parsed.job_problems().is_empty() => {}
            Ok(parsed) => wrong.push(format!("{}: {:?}", key.path, parsed.job_problems())),
            Err(errors) => wrong.push(format!("{}: {errors:?}", key.path)),
        }
    }
    assert!(
        count > 50,
        "only {count} keys have a value as their default"
    );
    assert!(
        wrong.is_empty(),
        "the parser has other defaults: {wrong:#?}"
    );
}
