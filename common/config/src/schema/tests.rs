//! Tests that the schema and the parser agree about good and bad files.

use regex::Regex;
use serde_json::{Value, json};

use super::*;
use crate::{Format, ParseOptions, UnknownKeys, parse};

/// Validates against the part of JSON Schema that the schema uses. Panics at an unknown word.
fn accepts(schema: &Value, root: &Value, value: &Value) -> bool {
    let Some(words) = schema.as_object() else {
        panic!("no schema: {schema}");
    };
    words.iter().all(|(word, about)| match word.as_str() {
        "$schema" | "title" | "description" | "$defs" => true,
        "$ref" => {
            let path = about.as_str().unwrap().strip_prefix('#').unwrap();
            accepts(root.pointer(path).unwrap(), root, value)
        }
        "anyOf" => about
            .as_array()
            .unwrap()
            .iter()
            .any(|s| accepts(s, root, value)),
        "enum" => about.as_array().unwrap().contains(value),
        "const" => about == value,
        "type" => match about {
            Value::Array(types) => types.iter().any(|t| is_of_type(t, value)),
            one => is_of_type(one, value),
        },
        "minimum" => value.as_f64().is_none_or(|n| n >= about.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|n| n <= about.as_f64().unwrap()),
        "minLength" => value
            .as_str()
            .is_none_or(|s| s.chars().count() as u64 >= about.as_u64().unwrap()),
        "minItems" => value
            .as_array()
            .is_none_or(|a| a.len() as u64 >= about.as_u64().unwrap()),
        "pattern" => {
            let pattern = Regex::new(about.as_str().unwrap()).unwrap();
            value.as_str().is_none_or(|s| pattern.is_match(s))
        }
        "items" => value
            .as_array()
            .is_none_or(|items| items.iter().all(|item| accepts(about, root, item))),
        "required" => value.as_object().is_none_or(|object| {
            let mut keys = about.as_array().unwrap().iter();
            keys.all(|key| object.contains_key(key.as_str().unwrap()))
        }),
        "properties" | "patternProperties" | "additionalProperties" => true,
        other => panic!("the schema uses `{other}`"),
    }) && value.as_object().is_none_or(|object| {
        object
            .iter()
            .all(|(key, value)| entry(words, root, key, value))
    })
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        other => panic!("the schema has the type `{other}`"),
    }
}

fn entry(words: &Map<String, Value>, root: &Value, key: &str, value: &Value) -> bool {
    if let Some(schema) = words.get("properties").and_then(|p| p.get(key)) {
        return accepts(schema, root, value);
    }
    if let Some(Value::Object(patterns)) = words.get("patternProperties") {
        let mut fitting = patterns
            .iter()
            .filter(|(pattern, _)| Regex::new(pattern).unwrap().is_match(key));
        if let Some((_, schema)) = fitting.next() {
            return accepts(schema, root, value);
        }
    }
    match words.get("additionalProperties") {
        None => true,
        Some(Value::Bool(allowed)) => *allowed,
        Some(schema) => accepts(schema, root, value),
    }
}

/// Returns whether schema and parser accept a minimal file with these additional settings and job keys.
fn both(settings: &Value, job: &Value) -> (bool, bool) {
    let mut all = json!({
        "nodes": {"levels": ["host", "db"], "node_sources": [{"source": "empty"}]},
        "resources": {"host": {"disk": {"default": 1, "limit": 2}}, "worker": {"ram": {"default": 1, "limit": 2}}},
    });
    for (key, value) in settings.as_object().unwrap() {
        all[key] = value.clone();
    }
    let file = json!({"bistro_settings": all, "bistro_job->x": job});
    let strict = ParseOptions {
        format: Format::Json,
        unknown_keys: UnknownKeys::Refuse,
    };
    let read = parse(&file.to_string(), strict).and_then(crate::Parsed::into_correct);
    let schema = config_schema();
    (accepts(&schema, &schema, &file), read.is_ok())
}

#[test]
fn good_files_are_good_to_both() {
    for settings in [
        json!({}),
        json!({"enabled": "no", "working_wait": "0.25", "scheduler": "long_tail", "node_order": "original"}),
        json!({"enabled": 0, "idle_wait": 5, "remote_worker_selector": "busiest", "level_for_tasks": "host"}),
        json!({"backoff": [1, 2.0, "repeat"], "kill_orphan_tasks_after_sec": -1}),
        json!({"backoff": ["fail"], "kill_orphan_tasks_after_sec": true}),
        json!({"worker_resources_override": {"h:1": {"ram": "3"}}, "kill_request": {"method": "kill", "kill_wait_ms": 5}}),
        json!({"task_subprocess": {"poll_ms": "50ms"}, "kill_subprocess": {"kill_wait_ms": "1.5 s"}}),
        json!({"worker_resources_overrides": {"h": {}}, "CAUTION_exit_initial_wait_before_timestamp": 5000000000_u64}),
        json!({"physical_resources": {"cpu_core": {"logical_resource": "ram", "multiply_logical_by": 2, "enforcement": "soft", "physical_reserve_amount": "-1.5"}}}),
        json!({"task_subprocess": {"poll_ms": -5, "parent_death_signal": 64, "process_group_leader": "on", "cgroups": {"root": "", "subsystems": ["cpu", 5]}}}),
        json!({"task_subprocess": {"limits": {"nofile": 5, "core": "unlimited", "stack": {"soft": "8", "hard": "unlimited"}}, "user": 5, "group": "g"}}),
        json!({"nodes": {"levels": [], "node_source": "empty"}, "resources": {"worker": {"ram": {"default": 1, "limit": 2}, "disk": {"default": true, "limit": 2}}}}),
        json!({"nodes": {"levels": ["host", 5], "node_order": "random", "node_sources": [
            {"source": "manual", "prefs": {"a": ["b"], "c": "d", "e": {"children": [], "disabled": null}, "f": 5}},
            {"source": "range_label", "names": "path", "prefs": {"parent_level": "host", "start": "1", "end": 3.0, "format": "{i}", "enabled": false}},
            {"source": "script", "prefs": {"parent_level": "instance", "script": "./x", "timeout": "2m"}},
            {"source": "script", "prefs": {"parent_level": "host", "script": "x", "timeout": 1.5}},
            {"source": "empty"},
        ]}}),
    ] {
        assert_eq!(both(&settings, &json!({})), (true, true), "{settings}");
    }
    for job in [
        json!({"enabled": "y", "owner": 5, "level_for_tasks": "host", "priority": "2.5", "resources": {"disk": 0}}),
        json!({"config": {"a": [null, {"b": 1}]}, "backoff": [true, 5], "depends_on": ["other"], "run_only_after_all_nodes_are_done_for": ["more"], "version_id": 3}),
        json!({"filters": {"host": {"whitelist": ["a", 1], "whitelist_regex": "^a", "blacklist": [], "blacklist_regex": "", "tag_whitelist": ["t"], "fraction_of_nodes": 0.5}}}),
        json!({"backoff": ["2s", 2, "10 min", "fail"], "retries": 3, "retry_delay": "1 min", "env": {"A": 5}, "cwd": "x", "max_running": 2}),
        json!({"level_for_host_placement": "host", "host_placement": "h", "create_time": 1, "modify_time": "2"}),
        json!({"command": ["a", 5], "status_from": "pipe", "arguments": "none", "kill_subprocess": {"method": "term"}}),
        json!({"outputs": ["a", 5, {"path": "b/", "replicas": "2", "wait_for_replica": 1}], "keep": "7d"}),
        json!({"outputs": [], "keep": "until_consumed"}),
        json!({"inputs": [{"from": "y", "node": "all", "path": "a", "as": "b/c"}, {"file": 5}, {"file": "./d/e", "as": "f"}]}),
        json!({"outputs": ["a"], "keep": 3.5}),
        json!({"inputs": [{"file": "a"}], "locality_wait": "1h"}),
        json!({"kill_orphan_tasks_after_sec": 0.5, "task_subprocess": {"max_log_lines_per_poll_interval": 0}}),
    ] {
        assert_eq!(both(&json!({}), &job), (true, true), "{job}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn bad_files_are_bad_to_both() {
    for settings in [
        json!({"enabled": "perhaps"}),
        json!({"enabled": null}),
        json!({"working_wait": -1}),
        json!({"working_wait": "soon"}),
        json!({"working_wait": []}),
        json!({"scheduler": "fair"}),
        json!({"remote_worker_selector": 5}),
        json!({"backoff": []}),
        json!({"backoff": 5}),
        json!({"backoff": [0]}),
        json!({"level_for_tasks": ""}),
        json!({"nodes": {}}),
        json!({"nodes": {"levels": "host"}}),
        json!({"nodes": {"levels": [""]}}),
        json!({"nodes": {"levels": ["host", "db"], "node_order": "up"}}),
        json!({"nodes": {"levels": ["host", "db"], "node_source": "tier"}}),
        json!({"nodes": {"levels": ["host", "db"], "node_sources": {}}}),
        json!({"nodes": {"levels": ["host", "db"], "node_sources": [{}]}}),
        json!({"nodes": {"levels": ["host", "db"], "node_sources": [{"source": "manual"}]}}),
        json!({"nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"a": null}}]}}),
        json!({"nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"a": {"child": []}}}]}}),
        json!({"nodes": {"levels": ["host"], "node_sources": [{"source": "range_label", "prefs": {"parent_level": "instance", "start": 1}}]}}),
        json!({"nodes": {"levels": ["host"], "node_sources": [{"source": "range_label", "prefs": {"parent_level": "instance", "start": 1.5, "end": 2}}]}}),
        json!({"nodes": {"levels": ["host"], "node_sources": [{"source": "script", "prefs": {"parent_level": "instance", "script": "x", "timeout": "soon"}}]}}),
        json!({"nodes": {"levels": ["host"], "node_sources": [{"source": "empty", "prefs": {"a": 1}}]}}),
        json!({"resources": {"host": {"disk": {"default": 1}}}}),
        json!({"resources": {"host": {"disk": {"default": 1, "limit": -1}}}}),
        json!({"resources": {"host": {"disk": {"default": 1, "limit": 1, "wieght": 1}}}}),
        json!({"resources": {"host": 5}}),
        json!({"worker_resources_override": {"h": {"ram": "many"}}}),
        json!({"physical_resources": {"ram": {}}}),
        json!({"physical_resources": {"ram_mb": {}}}),
        json!({"physical_resources": {"ram_mb": {"logical_resource": "ram", "enforcement": "strict"}}}),
        json!({"kill_orphan_tasks_after_sec": "soon"}),
        json!({"backoff": ["soon"]}),
        json!({"task_subprocess": {"poll_ms": 3000000000_u64}}),
        json!({"task_subprocess": {"cgroups": {"subsystems": "cpu"}}}),
        json!({"task_subprocess": {"limits": {"nofiles": 5}}}),
        json!({"task_subprocess": {"limits": {"nofile": -1}}}),
        json!({"task_subprocess": {"limits": {"nofile": {"soft": 5}}}}),
        json!({"task_subprocess": {"user": ""}}),
        json!({"kill_subprocess": {"method": "trem"}}),
        json!({"kill_subprocess": {"kill_wait_ms": -1}}),
        json!({"kill_subprocess": {"kill_wait_ms": "soon"}}),
        json!({"CAUTION_exit_initial_wait_before_timestamp": 1.5}),
        json!({"enabeld": true}),
    ] {
        assert_eq!(both(&settings, &json!({})), (false, false), "{settings}");
    }
    for job in [
        json!([]),
        json!({"enabled": []}),
        json!({"owner": {}}),
        json!({"priority": "high"}),
        json!({"resources": {"disk": -1}}),
        json!({"config": "x"}),
        json!({"filters": {"db": {"whitelist": "a"}}}),
        json!({"filters": {"db": {"blaklist": []}}}),
        json!({"filters": {"db": {"fraction_of_nodes": "half"}}}),
        json!({"host_placement": {}}),
        json!({"level_for_host_placement": []}),
        json!({"depends_on": "y"}),
        json!({"depends_on": [""]}),
        json!({"command": "sleep 5"}),
        json!({"command": [[]]}),
        json!({"retries": -1}),
        json!({"retry_delay": "soon"}),
        json!({"env": []}),
        json!({"cwd": ""}),
        json!({"max_running": 0}),
        json!({"status_from": "exit-code"}),
        json!({"arguments": "all"}),
        json!({"version_id": 1.5}),
        json!({"create_time": []}),
        json!({"inputs": {"from": "y"}}),
        json!({"inputs": ["y"]}),
        json!({"inputs": [{"from": ""}]}),
        json!({"inputs": [{"from": "y", "node": "sibling"}]}),
        json!({"inputs": [{"from": "y", "nodes": "all"}]}),
        json!({"outputs": "a"}),
        json!({"outputs": [""]}),
        json!({"outputs": [{"replicas": 2}]}),
        json!({"outputs": [{"path": "a", "replicas": 9}]}),
        json!({"outputs": [{"path": "a", "replicas": 0}]}),
        json!({"outputs": [{"path": "a", "replica": 2}]}),
        json!({"outputs": ["a"], "keep": "until_read"}),
        json!({"outputs": ["a"], "keep": true}),
        json!({"comand": []}),
    ] {
        assert_eq!(both(&json!({}), &job), (false, false), "{job}");
    }
    let schema = config_schema();
    for file in [json!([]), json!({}), json!({"bistro_settings": 5})] {
        assert!(!accepts(&schema, &schema, &file), "{file}");
    }
    let nameless = json!({"bistro_settings": {"nodes": {"levels": []}}, "bistro_job->": {}});
    assert!(!accepts(&schema, &schema, &nameless));
}

/// Collects every `properties` in the schema, with its path.
fn properties(schema: &Value, out: &mut Vec<String>) {
    match schema {
        Value::Object(words) => {
            if let Some(Value::Object(properties)) = words.get("properties") {
                out.extend(properties.keys().cloned());
            }
            words.values().for_each(|inner| properties(inner, out));
        }
        Value::Array(items) => items.iter().for_each(|inner| properties(inner, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn each_key_is_in_the_schema_and_no_other() {
    let mut in_schema = Vec::new();
    properties(&config_schema(), &mut in_schema);
    let mut in_tables: Vec<String> = key_paths()
        .iter()
        .map(|path| path.rsplit('.').next().unwrap().to_owned())
        .chain([SETTINGS.to_owned()])
        .collect();
    for keys in [&mut in_schema, &mut in_tables] {
        keys.sort();
        keys.dedup();
    }
    assert_eq!(in_schema, in_tables);
}

/// The parser checks names against the same tables: it knows each key in them, and no other.
#[test]
fn paths_name_what_the_reading_knows() {
    let paths = key_paths();
    for path in [
        "bistro_settings.enabled",
        "bistro_settings.nodes.node_sources[].source",
        "bistro_settings.nodes.node_sources[].prefs(range_label).end",
        "bistro_settings.nodes.node_sources[].prefs(manual).NODE.disabled",
        "bistro_settings.resources.LEVEL.RESOURCE.limit",
        "bistro_settings.physical_resources.cpu_core.enforcement",
        "bistro_settings.task_subprocess.cgroups.slice",
        "bistro_settings.task_subprocess.limits.LIMIT.soft",
        "bistro_job->NAME.filters.LEVEL.fraction_of_nodes",
        "bistro_job->NAME.kill_request.method",
    ] {
        assert!(
            paths.iter().any(|p| p == path),
            "{path} is not in {paths:#?}"
        );
    }
    let mut sorted = paths.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), paths.len());
}
