//! Tests of one configuration in three formats, and of mistakes that each format reports alike.

use super::*;

const IN_JSON: &str = r#"{
  "bistro_settings": {
    "nodes": {"levels": ["host", "db"], "node_sources": [
      {"source": "manual", "prefs": {"z": ["d1", "d2"], "a": {"children": ["5"], "disabled": true}}},
      {"source": "range_label", "prefs": {"parent_level": "host", "start": 1, "end": 3}}]},
    "resources": {"host": {"disk": {"default": 1, "limit": 2}}, "worker": {"ram": {"default": 2, "limit": 8}}},
    "backoff": [15, 60, "repeat"],
    "kill_orphan_tasks_after_sec": 0.5
  },
  "bistro_job->zebra": {"command": ["/bin/echo", "a b"], "priority": 1.5, "config": {"n": null, "deep": [{"k": -1}]}},
  "bistro_job->ant": {"depends_on": ["zebra"], "filters": {"host": {"whitelist_regex": "^z\\d*"}}, "enabled": false}
}"#;

const IN_TOML: &str = r#"
[bistro_settings]
backoff = [15, 60, "repeat"]
kill_orphan_tasks_after_sec = 0.5
[bistro_settings.nodes]
levels = ["host", "db"]
[[bistro_settings.nodes.node_sources]]
source = "manual"
prefs.z = ["d1", "d2"]
prefs.a = { children = ["5"], disabled = true }
[[bistro_settings.nodes.node_sources]]
source = "range_label"
prefs = { parent_level = "host", start = 1, end = 3 }
[bistro_settings.resources]
host.disk = { default = 1, limit = 2 }
worker.ram = { default = 2, limit = 8 }

["bistro_job->zebra"]
command = ["/bin/echo", "a b"]
priority = 1.5
config = { n = "", deep = [{ k = -1 }] }

["bistro_job->ant"]
depends_on = ["zebra"]
filters.host.whitelist_regex = '^z\d*'
enabled = false
"#;

const IN_YAML: &str = r#"
bistro_settings:
  nodes:
    levels: [host, db]
    node_sources:
      - source: manual
        prefs:
          z: [d1, d2]
          a: {children: ["5"], disabled: true}
      - source: range_label
        prefs: {parent_level: host, start: 1, end: 3}
  resources:
    host: {disk: {default: 1, limit: 2}}
    worker: {ram: {default: 2, limit: 8}}
  backoff: [15, 60, repeat]
  kill_orphan_tasks_after_sec: 0.5
bistro_job->zebra:
  command: [/bin/echo, a b]
  priority: 1.5
  config: {n: ~, deep: [{k: -1}]}
bistro_job->ant:
  depends_on: [zebra]
  filters:
    host:
      whitelist_regex: ^z\d*
  enabled: false
"#;

fn options(format: Format) -> ParseOptions {
    ParseOptions {
        format,
        unknown_keys: UnknownKeys::Refuse,
    }
}

#[test]
fn one_configuration_is_the_same_in_each_format() {
    let read = |text: &str, format| {
        let parsed = parse(text, options(format)).unwrap();
        assert_eq!(
            (&parsed.warnings[..], parsed.job_problems()),
            (&[][..], &[][..])
        );
        parsed.config
    };
    let json = read(IN_JSON, Format::Json);
    assert_eq!(json.jobs[0].name.as_str(), "zebra");
    assert_eq!(read(IN_YAML, Format::Yaml), json);
    // TOML has no null.
    let with_text = IN_JSON.replace("\"n\": null", "\"n\": \"\"");
    assert_eq!(read(IN_TOML, Format::Toml), read(&with_text, Format::Json));
}

#[test]
fn mistakes_have_their_places_in_each_format() {
    let toml = IN_TOML
        .replace("priority = 1.5", "priority = \"high\"")
        .replace("limit = 2 }", "limit = -2 }")
        .replace("enabled = false", "enabeld = false");
    let errors = parse(&toml, options(Format::Toml)).unwrap_err();
    assert_eq!(
        lines(&errors.0),
        [
            "15:36: bistro_settings.resources.host.disk.limit: -2 is out of range; an integer from 0 to 2147483647",
            "20:12: bistro_job->zebra.priority: expected a number, found \"high\"",
            "26:1: bistro_job->ant.enabeld: unknown key; did you mean `enabled`?",
        ]
    );
    let yaml = IN_YAML
        .replace("priority: 1.5", "priority: high")
        .replace("limit: 2}", "limit: -2}")
        .replace("enabled: false", "enabeld: false");
    let errors = parse(&yaml, options(Format::Yaml)).unwrap_err();
    assert_eq!(
        lines(&errors.0),
        [
            "13:38: bistro_settings.resources.host.disk.limit: -2 is out of range; an integer from 0 to 2147483647",
            "19:13: bistro_job->zebra.priority: expected a number, found \"high\"",
            "26:3: bistro_job->ant.enabeld: unknown key; did you mean `enabled`?",
        ]
    );
}

#[test]
fn an_exported_job_reads_back_from_each_format() {
    let config = parse(IN_JSON, options(Format::Json)).unwrap().config;
    for job in &config.jobs {
        let text = export_job(&config, job).to_string();
        for format in [Format::Json, Format::Yaml] {
            let read = parse_job(&job.name, &text, &config, options(format)).unwrap();
            assert_eq!(
                (read.job, read.problems),
                (JobConfig::clone(job), vec![]),
                "{format:?}"
            );
        }
    }
}

#[test]
fn a_slip_of_the_format_does_not_hide_the_other_mistakes() {
    let text = IN_JSON
        .replace("\"repeat\"],", "\"repeat\",]")
        .replace("\"priority\": 1.5", "\"priority\": \"high\"")
        .replace("0.5", "-0.5, \"nonsense\": 1");
    let errors = parse(&text, options(Format::Json)).unwrap_err();
    assert_eq!(
        lines(&errors.0),
        [
            "7:33: a comma before the closing `]`; remove the comma",
            "8:5: expected `,` or `}`, found `\"`",
            "8:42: bistro_settings.nonsense: unknown key; known are enabled, working_wait, idle_wait, scheduler, remote_worker_selector, standby, backoff, nodes, node_order, level_for_tasks, resources, worker_resources_override, worker_resources_overrides, physical_resources, kill_orphan_tasks_after_sec, task_subprocess, kill_subprocess, kill_request, CAUTION_exit_initial_wait_before_timestamp",
            "10:70: bistro_job->zebra.priority: expected a number, found \"high\"",
        ]
    );
    // A value reported as invalid is not reported again as wrong, and neither are its consequences.
    let text = IN_JSON
        .replace("1.5", "high")
        .replace("\"zebra\"]", "\"zebar\"]")
        .replace("[15, 60, \"repeat\"]", "[15, \"6\\0\", 3]")
        .replace("\"enabled\": false", "\"enabled\": []");
    let errors = parse(&text, options(Format::Json)).unwrap_err();
    let places: Vec<String> = errors
        .0
        .iter()
        .map(|p| format!("{}:{} {}", p.line, p.column, p.key_path))
        .collect();
    assert_eq!(
        places,
        [
            "7:23 ",
            "7:28 bistro_settings.backoff[2]",
            "10:70 ",
            "11:111 bistro_job->ant.enabled",
        ],
        "{errors}"
    );
    // Values that depend on a lost one are not checked.
    let text = IN_JSON.replace("[\"host\", \"db\"]", "[\"host\", db]");
    let errors = parse(&text, options(Format::Json)).unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
}

#[test]
fn the_extension_says_the_format() {
    let of = |name: &str| Format::of_path(std::path::Path::new(name));
    for (name, format) in [
        ("a.json", Format::Json),
        ("dir.toml/a", Format::Json),
        ("a.conf", Format::Json),
        ("a.TOML", Format::Toml),
        ("dir/a.b.yaml", Format::Yaml),
        ("a.yml", Format::Yaml),
    ] {
        assert_eq!(of(name), format, "{name}");
    }
}

#[test]
fn all_is_found_whether_or_not_the_file_can_be_used() {
    let text = IN_JSON
        .replace("1.5", "[]")
        .replace("0.5", "0.5, \"idle_wait\": 1");
    let found = checked(text.as_bytes());
    assert_eq!(
        (found.errors.len(), found.warnings.len()),
        (1, 2),
        "a job has no command: {found:?}"
    );
    let found = checked(text.replace("true", "tru").as_bytes());
    assert_eq!((found.errors.len(), found.warnings.len()), (1, 0));
    assert_eq!(checked(b"\xff").errors.len(), 1);
}
