//! Tests of each key: its default, its coercions, and its place in the model.

use std::time::Duration;

use brasserie_common::backoff::AfterLast;
use brasserie_common::{
    Arguments, BackoffPolicy, KillMethod, KillRequest, ReportPolicy, StatusFrom,
};

use super::*;

#[test]
fn defaults_of_settings() {
    let text = r#"{"bistro_settings": {"nodes": {"levels": []}}}"#;
    let parsed = parse(text, ParseOptions::default()).unwrap();
    assert_eq!(parsed.warnings, []);
    let config = parsed.config;
    assert!(config.enabled);
    assert_eq!(config.levels, ["instance", "worker"]);
    assert_eq!(config.level_for_tasks, LevelId::INSTANCE);
    assert_eq!(config.node_order, NodeOrder::Random);
    assert_eq!(config.policy, SchedulerPolicy::RoundRobin);
    assert_eq!(config.worker_selector, WorkerSelector::RoundRobin);
    assert_eq!(config.backoff, BackoffPolicy::default());
    assert_eq!(config.kill_orphan_tasks_after, None);
    assert_eq!(config.kill_subprocess, KillRequest::default());
    assert_eq!(config.task_subprocess, Default::default());
    assert_eq!(config.working_wait, Duration::from_millis(500));
    assert_eq!(config.exit_initial_wait_before_timestamp, 0);
    assert!(config.node_sources.is_empty() && config.jobs.is_empty());
}

#[test]
fn the_last_level_has_the_tasks_unless_told_otherwise() {
    assert_eq!(config("").level_for_tasks, LevelId(2));
    assert_eq!(
        config(r#""level_for_tasks": "host""#).level_for_tasks,
        LevelId(1)
    );
    assert_eq!(
        config(r#""level_for_tasks": "instance""#).level_for_tasks,
        LevelId(0)
    );
}

#[test]
fn slots_are_implied_where_workers_have_no_resource() {
    let slots = |name: &str, level| Resource {
        name: name.to_owned(),
        level: LevelId(level),
        default: 1,
        limit: ResourceLimit::ReportedCores,
        weight: 0,
    };
    assert_eq!(config("").resources, [slots("slots", 3)]);
    assert_eq!(
        config(r#""resources": {"worker": {}}"#).resources,
        [slots("slots", 3)]
    );
    let taken = config(r#""resources": {"host": {"slots": {"default": 1, "limit": 2}}}"#);
    assert_eq!(taken.resources[1], slots("worker_slots", 3));
    let own = config(
        r#""resources": {"worker": {"ram": {"default": "2", "limit": 8.0, "weight": true}}}"#,
    );
    assert_eq!(
        own.resources,
        [Resource {
            name: "ram".to_owned(),
            level: LevelId(3),
            default: 2,
            limit: ResourceLimit::Fixed(8),
            weight: 1,
        }]
    );
}

#[test]
fn scalars_of_settings_reach_the_model() {
    let c = config(
        r#""enabled": "no", "working_wait": "0.25", "idle_wait": 9, "scheduler": "long_tail",
        "remote_worker_selector": "busiest", "backoff": [1, 2], "node_order": "original",
        "kill_orphan_tasks_after_sec": true, "kill_request": {"method": "term_wait_kill", "kill_wait_ms": 1500},
        "CAUTION_exit_initial_wait_before_timestamp": 5000000000"#,
    );
    assert!(!c.enabled);
    assert_eq!(c.working_wait, Duration::from_millis(250));
    assert_eq!(c.policy, SchedulerPolicy::LongTail);
    assert_eq!(c.worker_selector, WorkerSelector::Busiest);
    assert_eq!(c.node_order, NodeOrder::Original);
    assert_eq!(c.kill_orphan_tasks_after, Some(Duration::ZERO));
    assert_eq!(c.exit_initial_wait_before_timestamp, 5_000_000_000);
    assert_eq!(
        c.kill_subprocess,
        KillRequest {
            method: KillMethod::TermWaitKill,
            wait: Duration::from_millis(1500),
        }
    );
    for (name, policy) in [
        ("roundrobin", SchedulerPolicy::RoundRobin),
        ("ranked_priority", SchedulerPolicy::RankedPriority),
        ("randomized_priority", SchedulerPolicy::RandomizedPriority),
    ] {
        assert_eq!(config(&format!("\"scheduler\": \"{name}\"")).policy, policy);
    }
    for (name, order) in [
        ("lexicographic", NodeOrder::Lexicographic),
        ("random", NodeOrder::Random),
    ] {
        assert_eq!(
            config(&format!("\"node_order\": \"{name}\"")).node_order,
            order
        );
    }
}

#[test]
fn backoffs_end_in_fail_unless_they_repeat() {
    let backoff = |text: &str| config(&format!("\"backoff\": {text}")).backoff;
    let policy = |values: &[i64], after| BackoffPolicy::new(values, after).unwrap();
    assert_eq!(
        backoff("[1, 2, \"fail\"]"),
        policy(&[1, 2], AfterLast::Fail)
    );
    assert_eq!(backoff("[1, 2.0]"), policy(&[1, 2], AfterLast::Fail));
    assert_eq!(backoff("[7, \"repeat\"]"), policy(&[7], AfterLast::Repeat));
    assert_eq!(backoff("[\"fail\"]"), policy(&[], AfterLast::Fail));
}

#[test]
fn orphans_are_killed_never_at_once_or_later() {
    let after = |text: &str| {
        config(&format!("\"kill_orphan_tasks_after_sec\": {text}")).kill_orphan_tasks_after
    };
    assert_eq!(after("false"), None);
    assert_eq!(after("-0.5"), None);
    assert_eq!(after("true"), Some(Duration::ZERO));
    assert_eq!(after("1.001"), Some(Duration::from_millis(1001)));
    assert_eq!(after("0.0019"), Some(Duration::from_millis(1)));
}

#[test]
fn seconds_may_be_written_with_a_unit() {
    let written = |key: &str, text: &str| config(&format!("\"{key}\": {text}"));
    for (text, ms) in [
        ("\"2s\"", 2000),
        ("\"10 min\"", 600_000),
        ("\"1.5\"", 1500),
        ("\"5e-1\"", 500),
    ] {
        let wait = Duration::from_millis(ms);
        assert_eq!(written("working_wait", text).working_wait, wait, "{text}");
        let orphans = written("kill_orphan_tasks_after_sec", text);
        assert_eq!(orphans.kill_orphan_tasks_after, Some(wait), "{text}");
        assert_eq!(job(&format!("\"timeout\": {text}")).timeout(), Some(wait));
    }
}

/// Returns the waits of a task that only fails, and whether it has failed for good after them.
fn waits(body: &str) -> (Vec<u32>, bool) {
    let policy = job(body).backoff;
    let fails = policy.after_last() == brasserie_common::backoff::AfterLast::Fail;
    (policy.values().to_vec(), fails)
}

#[test]
fn a_backoff_has_equal_waits_and_units() {
    assert_eq!(
        waits(r#""backoff": ["2s", 2, "10 min", "600", "fail"]"#),
        (vec![2, 2, 600, 600], true)
    );
}

#[test]
fn retries_and_their_delay() {
    // Three runs, 10 s apart.
    let three = (vec![10, 10], true);
    assert_eq!(waits(r#""retries": 2, "retry_delay": 10"#), three);
    assert_eq!(waits(r#""retries": "2", "retry_delay": "10s""#), three);
    assert_eq!(waits(r#""retries": 0"#), (vec![], true));
    // Retries use the waits of the backoff, then repeat the last one.
    assert_eq!(
        waits(r#""retries": 3, "backoff": [1, 5, "repeat"]"#),
        (vec![1, 5, 5], true)
    );
    assert_eq!(waits(r#""retries": 1"#), (vec![15], true));
    // The backoff decides the number if `retries` is not set.
    assert_eq!(waits(r#""retry_delay": "1m""#), (vec![60], false));
    assert_eq!(
        waits(r#""retry_delay": 7, "backoff": [1, 5, "fail"]"#),
        (vec![7, 7], true)
    );
}

#[test]
fn variables_and_directories() {
    let own =
        job(r#""env": {"A": "b=c", "N": 5, "T": true}, "cwd": "data/in", "max_running": "3""#);
    let options = &own.task_subprocess;
    let variables: Vec<(&str, &str)> = options
        .environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(variables, [("A", "b=c"), ("N", "5"), ("T", "true")]);
    assert_eq!(own.max_running, Some(3));
    let plain = job("");
    assert!(plain.task_subprocess.environment.is_empty());
    assert_eq!(
        (plain.task_subprocess.working_directory, plain.max_running),
        (None, None)
    );
    // A relative path is relative to the config file's folder.
    for (path, expected) in [
        ("data/in", "/etc/b/data/in"),
        (".", "/etc/b"),
        ("./x", "/etc/b/x"),
        ("/x", "/x"),
    ] {
        let mut config = good("", &format!("\"bistro_job->x\": {{\"cwd\": \"{path}\"}}")).config;
        config.resolve_commands(std::path::Path::new("/etc/b"));
        let resolved = config.jobs[0].task_subprocess.working_directory.as_deref();
        assert_eq!(resolved, Some(expected));
    }
}

#[test]
fn truths_and_texts_are_coerced() {
    let enabled = |text: &str| config(&format!("\"enabled\": {text}")).enabled;
    for yes in [
        "true", "1", "2.5", "\"Yes\"", "\"on\"", "\"t\"", "\" y \"", "\"1\"",
    ] {
        assert!(enabled(yes), "{yes}");
    }
    for no in [
        "false", "0", "0.0", "\"NO\"", "\"off\"", "\"f\"", "\"n\"", "\"0\"",
    ] {
        assert!(!enabled(no), "{no}");
    }
    let owner = |text: &str| job(&format!("\"owner\": {text}")).owner;
    assert_eq!(owner("5"), "5");
    assert_eq!(owner("5.0"), "5");
    assert_eq!(owner("1.5"), "1.5");
    assert_eq!(owner("18446744073709551615"), "18446744073709551615");
    assert_eq!(owner("true"), "true");
}

#[test]
fn integers_are_coerced() {
    let amount = |text: &str| job(&format!("\"resources\": {{\"disk\": {text}}}")).resources;
    for (text, expected) in [
        ("3", 3),
        ("3.0", 3),
        ("true", 1),
        ("\"3\"", 3),
        ("\" +3 \"", 3),
        ("\"3.0\"", 3),
        ("\"2e1\"", 20),
        ("2147483647", i32::MAX),
    ] {
        assert_eq!(amount(text), [expected, 1], "{text}");
    }
}

#[test]
fn task_subprocess_of_a_job_lies_on_top_of_the_settings() {
    let parsed = good(
        r#""task_subprocess": {"poll_ms": 20, "use_canary_pipe": false, "parent_death_signal": 15,
            "cgroups": {"root": "/cg", "slice": "s", "subsystems": ["cpu", "memory"], "kill_without_freezer": true, "pids_max": 7}},
        "kill_subprocess": {"method": "kill", "kill_wait_ms": 7}"#,
        r#""bistro_job->x": {"task_subprocess": {"poll_ms": -5, "process_group_leader": 1, "max_log_lines_per_poll_interval": 3,
            "cgroups": {"subsystems": ["freezer"]}}, "kill_subprocess": {"method": "term"}}"#,
    );
    let settings = &parsed.config.task_subprocess;
    assert_eq!(settings.poll, Duration::from_millis(20));
    assert_eq!(settings.cgroups.subsystems, ["cpu", "memory"]);
    let job = &parsed.config.jobs[0];
    let own = &job.task_subprocess;
    assert_eq!(own.poll, Duration::from_millis(1));
    assert_eq!(own.max_log_lines_per_poll_interval, 3);
    assert_eq!(own.parent_death_signal, 15);
    assert!(own.process_group_leader && !own.use_canary_pipe);
    assert_eq!(
        (own.cgroups.root.as_str(), own.cgroups.slice.as_str()),
        ("/cg", "s")
    );
    assert!(own.cgroups.kill_without_freezer);
    assert_eq!(own.cgroups.pids_max, 7);
    assert_eq!(own.cgroups.subsystems, ["freezer"]);
    assert_eq!(
        job.kill_subprocess,
        KillRequest {
            method: KillMethod::Term,
            wait: Duration::from_millis(7),
        }
    );
}

#[test]
fn milliseconds_may_be_written_with_a_unit() {
    let read = |value: &str| {
        let parsed = good(
            &format!(
                r#""task_subprocess": {{"poll_ms": {value}}}, "kill_subprocess": {{"kill_wait_ms": {value}}}"#
            ),
            "",
        );
        let settings = &parsed.config;
        (
            settings.task_subprocess.poll.as_millis(),
            settings.kill_subprocess.wait.as_millis(),
        )
    };
    for (value, ms) in [
        ("1500", 1500),
        ("\"1500\"", 1500),
        ("\"1500ms\"", 1500),
        ("\"1.5s\"", 1500),
        ("\" 2 min \"", 120_000),
    ] {
        assert_eq!(read(value), (ms, ms), "{value}");
    }
    assert_eq!(read("\"0s\""), (1, 0));
}

#[test]
fn defaults_of_a_job_are_the_settings() {
    let parsed = good(
        r#""backoff": [9], "kill_orphan_tasks_after_sec": 4, "level_for_tasks": "host""#,
        r#""bistro_job->x": {}"#,
    );
    let job = &parsed.config.jobs[0];
    assert!(job.can_run() && job.enabled);
    assert_eq!(
        (job.name.as_str(), job.owner.as_str(), job.config.as_str()),
        ("x", "", "{}")
    );
    assert_eq!(job.level_for_tasks, LevelId(1));
    assert_eq!(job.priority, 1.0);
    assert_eq!(job.resources, [1]);
    assert_eq!(
        job.backoff,
        BackoffPolicy::new(&[9], AfterLast::Fail).unwrap()
    );
    assert_eq!(job.kill_orphan_tasks_after, Some(Duration::from_secs(4)));
    assert_eq!(
        (job.create_time, job.modify_time, job.version_id),
        (0, 0, -1)
    );
    assert_eq!(
        (job.status_from(), job.arguments()),
        (StatusFrom::Auto, Arguments::Append)
    );
    assert!(job.filters.is_empty() && job.depends_on.is_empty() && job.command.is_empty());
    assert_eq!(
        (job.est_duration, job.bufferable, job.report),
        (None, false, None)
    );
    assert_eq!(
        (&job.host_placement, job.level_for_host_placement),
        (&None, None)
    );
}

#[test]
fn keys_of_a_job_reach_the_model() {
    let job = job(
        r#""enabled": false, "owner": "ann", "level_for_tasks": "host", "priority": "2.5", "resources": {"slots": 0},
        "config": {"z": [1, {"y": null}], "a": 0.1}, "level_for_host_placement": "host", "host_placement": "h1",
        "backoff": ["fail"], "depends_on": ["y"], "run_only_after_all_nodes_are_done_for": ["z"], "create_time": 1, "modify_time": "2", "version_id": 3,
        "kill_orphan_tasks_after_sec": 0.5, "command": ["sleep", 5], "status_from": "exit_code", "arguments": "none",
        "timeout": "1.5h", "deadline": 90, "est_duration": "2m", "bufferable": true, "report": "lazy""#,
    );
    assert!(!job.enabled && !job.can_run() && job.errors.is_empty());
    assert_eq!(job.owner, "ann");
    assert_eq!(job.level_for_tasks, LevelId(1));
    assert_eq!(job.priority, 2.5);
    assert_eq!(job.resources, [2, 0]);
    assert_eq!(job.config, r#"{"a":0.1,"z":[1,{"y":null}]}"#);
    assert_eq!(job.level_for_host_placement, Some(LevelId(1)));
    assert_eq!(job.host_placement.as_deref(), Some("h1"));
    assert!(job.backoff.values().is_empty());
    assert_eq!(job.depends_on[0].as_str(), "y");
    let waits_for: Vec<&str> = job.waits_for().map(JobName::as_str).collect();
    assert_eq!(waits_for, ["y", "z"]);
    assert_eq!(
        (job.create_time, job.modify_time, job.version_id),
        (1, 2, 3)
    );
    assert_eq!(
        job.kill_orphan_tasks_after,
        Some(Duration::from_millis(500))
    );
    assert_eq!(job.command, ["sleep", "5"]);
    assert_eq!(
        (job.status_from(), job.arguments()),
        (StatusFrom::ExitCode, Arguments::None)
    );
    assert_eq!(job.timeout(), Some(Duration::from_secs(5400)));
    assert_eq!(job.deadline(), Some(Duration::from_secs(90)));
    assert_eq!(job.est_duration, Some(Duration::from_secs(120)));
    assert!(job.bufferable);
    assert_eq!(job.report, Some(ReportPolicy::Lazy));
}

#[test]
fn filters_are_kept_where_they_say_something() {
    let job = job(
        r#""filters": {"db": {"whitelist": ["a"], "whitelist_regex": "^a", "blacklist": ["b"], "blacklist_regex": "b$",
            "tag_whitelist": ["t"], "fraction_of_nodes": 0.5}, "host": {"fraction_of_nodes": 1, "whitelist": []}}"#,
    );
    assert_eq!(job.filters.len(), 1);
    assert_eq!(
        job.filters[&LevelId(2)],
        Filter {
            whitelist: vec!["a".to_owned()],
            whitelist_regex: "^a".to_owned(),
            blacklist: vec!["b".to_owned()],
            blacklist_regex: "b$".to_owned(),
            tag_whitelist: vec!["t".to_owned()],
            fraction_of_nodes: 0.5,
        }
    );
}

#[test]
fn workers_have_amounts_and_measures_of_their_own() {
    let c = config(
        r#""resources": {"host": {"d": {"default": 0, "limit": 1}}, "worker": {"ram": {"default": 1, "limit": 4}}},
        "worker_resources_overrides": {"h:1": {"ram": 9}},
        "physical_resources": {"ram_mb": {"logical_resource": "ram", "multiply_logical_by": 1024, "enforcement": "hard",
            "physical_reserve_amount": -5}}"#,
    );
    assert_eq!(c.worker_resources_override["h:1"][&ResourceId(1)], 9);
    assert_eq!(
        c.physical_resources,
        [PhysicalResource {
            kind: PhysicalKind::RamMb,
            logical_resource: ResourceId(1),
            multiply_logical_by: 1024.0,
            enforcement: Enforcement::Hard,
            physical_reserve_amount: -5.0,
        }]
    );
}

fn sources(text: &str) -> Vec<NodeSource> {
    let text = format!(
        "{{\"bistro_settings\": {{\"nodes\": {{\"levels\": [\"host\", \"db\"], \"node_sources\": [{text}]}}}}}}"
    );
    parse(&text, ParseOptions::default())
        .unwrap()
        .config
        .node_sources
        .to_vec()
}

#[test]
fn manual_nodes_are_laid_out_as_trees() {
    let found = sources(
        r#"{"source": "manual", "names": "shared", "prefs": {"b": ["x", "y"], "a": {"children": ["x", 5], "disabled": true}, "c": "y",
            "d": {"disabled": false}, "y": {"disabled": "yes"}}}"#,
    );
    let node = |name: &str, level, parent, enabled| ManualNode {
        name: name.to_owned(),
        level: LevelId(level),
        parent,
        enabled,
    };
    assert_eq!(
        found,
        [NodeSource::Manual(ManualNodes {
            naming: NodeNaming::Shared,
            nodes: vec![
                node("b", 1, None, true),
                node("a", 1, None, false),
                node("c", 1, None, true),
                node("d", 1, None, true),
                node("x", 2, Some(0), true),
                node("y", 2, Some(0), false),
                node("x", 2, Some(1), true),
                node("5", 2, Some(1), true),
                node("y", 2, Some(2), false),
            ],
        })]
    );
}

#[test]
fn other_sources_keep_their_preferences() {
    let found = sources(
        r#"{"source": "empty"}, {"source": "empty", "prefs": {}},
        {"source": "range_label", "prefs": {"parent_level": "instance", "start": "1", "end": 10000000}},
        {"source": "range_label", "prefs": {"parent_level": "host", "start": 0, "end": 1, "format": "{i}-x{start}{end}{parent}", "enabled": "false"}},
        {"source": "script", "prefs": {"parent_level": "host", "script": "./dbs.sh"}},
        {"source": "script", "prefs": {"parent_level": "host", "script": "/dbs", "timeout": "2m"}},
        {"source": "script", "prefs": {"parent_level": "host", "script": "/dbs", "timeout": 1.5}}"#,
    );
    let range = |parent, start, end, format: &str, enabled| {
        NodeSource::RangeLabel(RangeLabel {
            parent_level: LevelId(parent),
            start,
            end,
            format: format.to_owned(),
            enabled,
            naming: NodeNaming::Unique,
        })
    };
    let script = |path: &str, timeout| {
        NodeSource::Script(ScriptSource {
            parent_level: LevelId(1),
            script: path.into(),
            timeout: Duration::from_millis(timeout),
            naming: NodeNaming::Unique,
        })
    };
    assert_eq!(
        found,
        [
            NodeSource::Empty,
            NodeSource::Empty,
            range(0, 1, 10_000_000, "{parent}__{i}", true),
            range(1, 0, 1, "{i}-x{start}{end}{parent}", false),
            script("./dbs.sh", 60_000),
            script("/dbs", 120_000),
            script("/dbs", 1500),
        ]
    );
}

#[test]
fn errors_of_an_exported_job_stay_as_they_were() {
    let parsed = good(
        "",
        r#""bistro_job->x": {"errors": ["old one", "old two"], "priority": "p"}"#,
    );
    let new = "3:65: bistro_job->x.priority: expected a number, found \"p\"";
    assert_eq!(parsed.config.jobs[0].errors, ["old one", "old two", new]);
    assert_eq!(
        lines(parsed.job_problems()),
        [
            "3:29: bistro_job->x.errors: the job was exported with errors; mend what they name, then remove this key",
            new
        ]
    );
    let tree = good(
        "",
        r#""bistro_job->x": {"errors": {"error": "of another form"}}"#,
    );
    assert_eq!(
        tree.config.jobs[0].errors,
        [r#"{"error":"of another form"}"#]
    );
}

#[test]
fn one_job_is_read_against_a_configuration() {
    let config = config(r#""backoff": [9]"#);
    let name = JobName::try_from("new").unwrap();
    let read = parse_job(
        &name,
        r#"{"owner": 7, "depends_on": ["later"]}"#,
        &config,
        ParseOptions::default(),
    );
    let read = read.unwrap();
    assert_eq!((read.warnings, read.problems), (vec![], vec![]));
    assert_eq!(read.job.owner, "7");
    assert_eq!(read.job.backoff, config.backoff);
    let wrong = parse_job(
        &name,
        "{\"priority\": []}",
        &config,
        ParseOptions::default(),
    )
    .unwrap();
    assert_eq!(
        wrong.job.errors,
        ["1:14: priority: expected a number, found an empty array"]
    );
    let empty = parse_job(&JobName::default(), "{}", &config, ParseOptions::default());
    assert_eq!(
        empty.unwrap_err().to_string(),
        "1:1: the name is empty; a job's key is `bistro_job->NAME`"
    );
    assert!(parse_job(&name, "{", &config, ParseOptions::default()).is_err());
}
