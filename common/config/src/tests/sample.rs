//! Tests that one file with every key is read without any warning.

use super::*;

const STRICT: ParseOptions = ParseOptions {
    format: Format::Json,
    unknown_keys: UnknownKeys::Refuse,
};

const SAMPLE: &str = r#"{
  "bistro_settings": {
    "enabled": true,
    "working_wait": 0.5,
    "scheduler": "ranked_priority",
    "remote_worker_selector": "busiest",
    "backoff": [15, 60, 300, "repeat"],
    "nodes": {
      "levels": ["host", "volume", "db"],
      "node_order": "lexicographic",
      "node_sources": [
        {"source": "manual", "prefs": {
          "host1": ["host1.a", "host1.b"],
          "host2": {"children": ["host2.a"], "disabled": false},
          "host3": {"disabled": true}
        }},
        {"source": "range_label", "prefs": {"parent_level": "volume", "start": 1, "end": 25}},
        {"source": "script", "prefs": {"parent_level": "volume", "script": "./dbs.sh", "timeout": "30s"}},
        {"source": "empty"},
        {"source": "add_time", "prefs": {"parent_level": "volume", "format": "{parent}@{time}", "schedule": [
          {"cron": {"minute": 0, "hour": {"start": 6, "end": 20, "period": 2}, "day_of_week": ["mon", "friday"],
                    "month": {}, "year": {"start": 2026}, "dst_fixes": ["unskip", "repeat_use_only_early"],
                    "time_zone": "Europe/Berlin"},
           "lifetime": "2d", "enabled_lifetime": 3600, "tags": ["work"]},
          {"cron": {"epoch": {"period": 86400}}, "lifetime": 86400}
        ]}}
      ]
    },
    "level_for_tasks": "db",
    "resources": {
      "instance": {"total": {"default": 1, "limit": 1000}},
      "host": {"disk": {"default": 1, "limit": 2}},
      "worker": {
        "ram_gb": {"default": 1, "limit": 16, "weight": 10},
        "cpu": {"default": 1, "limit": 4, "weight": 1}
      }
    },
    "worker_resources_override": {"big:27182": {"ram_gb": 256}},
    "kill_orphan_tasks_after_sec": 30,
    "task_subprocess": {"poll_ms": 10, "max_log_lines_per_poll_interval": 50},
    "kill_subprocess": {"method": "term_wait_kill", "kill_wait_ms": 5000}
  },
  "bistro_job->dump": {
    "enabled": true,
    "owner": "ann",
    "priority": 2.5,
    "resources": {"ram_gb": 4},
    "command": ["/usr/bin/dump", "--all"],
    "config": {"to": "s3://backup", "retries": 3},
    "filters": {
      "host": {"whitelist_regex": "^host[0-9]+$"},
      "db": {"fraction_of_nodes": 0.1, "blacklist": ["host1.a__7"]}
    }
  },
  "bistro_job->check": {
    "owner": "bob",
    "depends_on": ["dump"],
    "command": ["/usr/bin/check"],
    "arguments": "none",
    "status_from": "exit_code",
    "backoff": [1, "fail"],
    "level_for_host_placement": "host",
    "kill_orphan_tasks_after_sec": false,
    "kill_subprocess": {"method": "kill"}
  }
}"#;

#[test]
fn the_sample_reads_without_complaint() {
    let parsed = parse(SAMPLE, STRICT).unwrap();
    assert_eq!(
        (parsed.warnings.as_slice(), parsed.job_problems()),
        (&[][..], &[][..])
    );
    let (config, warnings) = parsed.into_correct().unwrap();
    assert_eq!(warnings, []);
    assert_eq!(
        config.levels,
        ["instance", "host", "volume", "db", "worker"]
    );
    assert_eq!(config.level_for_tasks, LevelId(3));
    assert_eq!(config.worker_level(), LevelId(4));
    let names: Vec<_> = config
        .resources
        .iter()
        .map(|r| (r.name.as_str(), r.level.0))
        .collect();
    assert_eq!(
        names,
        [("total", 0), ("disk", 1), ("ram_gb", 4), ("cpu", 4)]
    );
    assert_eq!(config.node_sources.len(), 5);
    let jobs: Vec<_> = config.jobs.iter().map(|j| j.name.as_str()).collect();
    assert_eq!(jobs, ["dump", "check"]);
    assert_eq!(config.jobs[0].resources, [1, 1, 4, 1]);
    assert!(config.jobs.iter().all(|job| job.can_run()));
}

#[test]
fn an_export_says_what_is_documented() {
    let config = parse(SAMPLE, ParseOptions::default()).unwrap().config;
    let export = export_job(&config, config.job("check").unwrap());
    assert_eq!(
        export,
        serde_json::json!({
            "enabled": true,
            "owner": "bob",
            "level_for_tasks": "db",
            "priority": 1.0,
            "config": {},
            "backoff": [1, "fail"],
            "kill_orphan_tasks_after_sec": false,
            "task_subprocess": {
                "poll_ms": 10,
                "max_log_lines_per_poll_interval": 50,
                "max_log_bytes_per_poll_interval": 0,
                "log_overflow": "wait",
                "output": "log",
                "parent_death_signal": 9,
                "process_group_leader": false,
                "use_canary_pipe": true,
                "cgroups": {"root": "", "slice": "", "subsystems": [], "kill_without_freezer": false, "pids_max": 0},
            },
            "kill_subprocess": {"method": "kill", "kill_wait_ms": 5000},
            "resources": {"total": 1, "disk": 1, "ram_gb": 1, "cpu": 1},
            "level_for_host_placement": "host",
            "depends_on": ["dump"],
            "command": ["/usr/bin/check"],
            "status_from": "exit_code",
            "arguments": "none",
        })
    );
    let export = export_job(&config, config.job("dump").unwrap());
    assert_eq!(
        (&export["filters"], &export["config"]),
        (
            &serde_json::json!({
                "host": {"whitelist_regex": "^host[0-9]+$"},
                "db": {"fraction_of_nodes": 0.1, "blacklist": ["host1.a__7"]},
            }),
            &serde_json::json!({"to": "s3://backup", "retries": 3}),
        )
    );
}

#[test]
fn every_cut_of_the_sample_is_an_error_with_a_place() {
    for end in 0..SAMPLE.len() - 1 {
        let errors = parse(&SAMPLE[..end], ParseOptions::default()).unwrap_err();
        assert_eq!(errors.0.len(), 1);
        let lines = SAMPLE[..end].matches('\n').count() + 1;
        assert!(errors.0[0].line as usize <= lines && errors.0[0].line > 0);
    }
}

#[test]
fn the_example_reads_without_complaint() {
    let text = include_str!("../../../../examples/quickstart.json");
    let (config, warnings) = parse(text, STRICT).unwrap().into_correct().unwrap();
    assert_eq!(warnings, []);
    assert!(!config.jobs.is_empty());
}
