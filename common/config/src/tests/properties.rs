//! Property tests: every input gets an answer, and every job survives its export.

use std::time::Duration;

use brasserie_common::backoff::AfterLast;
use brasserie_common::task::CGroupOptions;
use brasserie_common::{
    AccountName, Arguments, BackoffPolicy, Bound, KillMethod, KillRequest, Limited, LogOverflow,
    Output, OutputPath, ProcessLimit, ReportPolicy, StatusFrom, TaskSubprocessOptions,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;

/// Known keys, so that random files pass the first check.
const KEYS: &str = "bistro_settings|bistro_job->x|bistro_job->y|nodes|levels|node_sources|source|prefs|resources|host|db|worker|disk|default|limit|weight|backoff|enabled|filters|depends_on|run_only_after_all_nodes_are_done_for|command|config|parent_level|start|end|format|script|timeout|est_duration|bufferable|report|children|disabled|task_subprocess|cgroups|limits|nofile|soft|hard|user|group|kill_subprocess|method|physical_resources|ram_mb|logical_resource|worker_resources_override|level_for_tasks|errors|whitelist_regex|priority|schedule|cron|lifetime|enabled_lifetime|tags|minute|hour|day_of_month|day_of_week|month|year|dst_fixes|time_zone|epoch|period|outputs|keep|path|replicas|wait_for_replica|inputs|from|node|file|as";
const WORDS: &str = "manual|range_label|script|empty|add_time|host|db|worker|instance|disk|repeat|fail|x|y|term|\\(|jan|sunday|skip|unskip|repeat_use_both|UTC|unlimited|forever|a/|a/b|same|parent|children|all|./a|";

fn any_file() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(|b| b.into()),
        any::<i64>().prop_map(|n| n.into()),
        (-3i64..5).prop_map(|n| n.into()),
        any::<f64>().prop_map(|n| n.into()),
        WORDS.prop_map(|s| s.into()),
        any::<String>().prop_map(|s| s.into()),
    ];
    leaf.prop_recursive(6, 128, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|v| v.into()),
            btree_map(KEYS, inner, 0..6)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Generates a good file with some values replaced by arbitrary ones.
fn mutated_file() -> impl Strategy<Value = String> {
    let good = r#"{"bistro_settings": {"nodes": {"levels": ["host", "db"], "node_sources": [{"source": "manual", "prefs": {"a": ["b"]}},
        {"source": "range_label", "prefs": {"parent_level": "host", "start": 1, "end": 3}},
        {"source": "add_time", "prefs": {"parent_level": "host", "schedule": [{"cron": {"minute": 0, "hour": {"period": 2},
        "dst_fixes": ["skip", "repeat_use_both"], "time_zone": "UTC"}, "lifetime": 60, "tags": ["t"]}]}}]}, "resources": {"host": {"disk": {"default": 1,
        "limit": 2}}}, "backoff": [1, 2, "repeat"]}, "bistro_job->x": {"command": ["a"], "depends_on": ["y"], "resources": {"disk": 1}},
        "bistro_job->y": {"filters": {"host": {"whitelist": ["a"]}}, "kill_subprocess": {"method": "term"},
        "outputs": ["o", {"path": "p/", "replicas": 2}], "keep": "forever"}, "bistro_job->z": {"inputs": [{"from": "y", "node": "all",
        "path": "o"}, {"file": "f", "as": "g"}], "locality_wait": "5s"}}"#;
    let pieces = [
        "[\"host\", \"db\"]",
        "\"manual\"",
        "{\"a\": [\"b\"]}",
        "\"host\"",
        "1",
        "3",
        "[1, 2, \"repeat\"]",
        "[\"a\"]",
        "[\"y\"]",
        "{\"disk\": 1}",
        "\"term\"",
        "\"x\"",
        "\"add_time\"",
        "{\"period\": 2}",
        "[\"skip\", \"repeat_use_both\"]",
        "\"UTC\"",
        "60",
        "\"o\"",
        "{\"file\": \"f\", \"as\": \"g\"}",
        "\"all\"",
        "\"y\"",
        "\"forever\"",
        "}",
        ",",
    ];
    (proptest::sample::select(pieces.to_vec()), any_file())
        .prop_map(move |(piece, json)| good.replacen(piece, &json.to_string(), 2))
}

fn settings() -> Config {
    config(
        r#""resources": {"host": {"disk": {"default": 2, "limit": 9}}, "worker": {"ram": {"default": 1, "limit": 4}}},
        "backoff": [3, "repeat"], "kill_orphan_tasks_after_sec": 7, "task_subprocess": {"poll_ms": 99, "cgroups": {"subsystems": ["cpu"]}},
        "kill_subprocess": {"method": "kill", "kill_wait_ms": 9}"#,
    )
}

fn name() -> impl Strategy<Value = String> {
    "[^\0]{1,12}"
}

prop_compose! {
    fn filters()(
        filters in btree_map(0u16..4, (vec(any::<String>(), 0..3), vec(any::<String>(), 0..3), vec(any::<String>(), 0..3), "\\^?[a-z]{0,4}", "[a-z]{0,4}\\$?", 1u32..=1000), 0..3)
    ) -> std::collections::BTreeMap<LevelId, Filter> {
        filters.into_iter().map(|(level, (whitelist, blacklist, tag_whitelist, whitelist_regex, blacklist_regex, mille))| {
            (LevelId(level), Filter {
                whitelist, whitelist_regex, blacklist, blacklist_regex, tag_whitelist,
                fraction_of_nodes: f64::from(mille) / 1000.0,
            })
        }).filter(|(_, filter)| *filter != Filter::default()).collect()
    }
}

prop_compose! {
    fn task_subprocess()(
        poll in 1u64..=i32::MAX as u64,
        lines: i32,
        bytes: i32,
        log_overflow in proptest::sample::select(LogOverflow::ALL.to_vec()),
        output in proptest::sample::select(Output::ALL.to_vec()),
        signal in 0..=64,
        (leader, canary, freezer) in any::<(bool, bool, bool)>(),
        (root, slice, subsystems) in (any::<String>(), any::<String>(), vec(any::<String>(), 0..3)),
        pids_max in 0..=i64::from(i32::MAX),
        status_from in proptest::sample::select(vec![StatusFrom::Auto, StatusFrom::Pipe, StatusFrom::ExitCode]),
        arguments in proptest::sample::select(vec![Arguments::Append, Arguments::None]),
        (timeout, deadline) in (time_limit(), time_limit()),
        limits in process_limits(),
        (user, group, environment, directory) in (account(), account(), environment(), option::of(name())),
    ) -> TaskSubprocessOptions {
        TaskSubprocessOptions {
            poll: Duration::from_millis(poll),
            max_log_lines_per_poll_interval: lines,
            max_log_bytes_per_poll_interval: bytes,
            log_overflow,
            output,
            parent_death_signal: signal,
            process_group_leader: leader,
            use_canary_pipe: canary,
            cgroups: CGroupOptions { root, slice, subsystems, kill_without_freezer: freezer, pids_max, ..Default::default() },
            status_from,
            arguments,
            timeout,
            deadline,
            limits,
            // A group without a user is ignored.
            group: user.as_ref().and(group),
            user,
            environment,
            working_directory: directory.map(|path| format!("/{path}")),
            ..Default::default()
        }
    }
}

fn process_limits() -> impl Strategy<Value = std::collections::BTreeMap<Limited, ProcessLimit>> {
    let bound = || {
        option::of(0..=i64::MAX.cast_unsigned()).prop_map(|b| b.map_or(Bound::Unlimited, Bound::At))
    };
    let limit =
        (bound(), bound()).prop_map(|(a, b)| ProcessLimit::new(a.min(b), a.max(b)).unwrap());
    btree_map(proptest::sample::select(&Limited::ALL), limit, 0..4)
}

fn environment() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    btree_map("[A-Za-z_.]{1,9}", name(), 0..3)
}

fn account() -> impl Strategy<Value = Option<AccountName>> {
    option::of(name().prop_map(|text| AccountName::try_from(text).unwrap()))
}

fn time_limit() -> impl Strategy<Value = Option<Duration>> {
    option::of((1u64..=i32::MAX as u64 * 1000).prop_map(Duration::from_millis))
}

fn outputs() -> impl Strategy<Value = Vec<JobOutput>> {
    let output = ("[a-c]{1,2}(/[a-c])?/?", 1..=Replicas::MAX, any::<bool>());
    vec(output, 0..4).prop_map(|all| {
        let mut outputs: Vec<JobOutput> = Vec::new();
        for (path, replicas, wait_for_replica) in all {
            let path = OutputPath::try_from(path.as_str()).unwrap();
            if !outputs.iter().any(|other| other.path.overlaps(&path)) {
                let replicas = Replicas::new(replicas).unwrap();
                outputs.push(JobOutput {
                    path,
                    replicas,
                    wait_for_replica,
                });
            }
        }
        outputs
    })
}

/// Generates inputs of which none has the place of another.
fn inputs() -> impl Strategy<Value = Vec<JobInput>> {
    let path = option::of("[a-c]{1,2}(/[a-c])?/?");
    let nodes = proptest::sample::select(InputNodes::EACH.to_vec());
    let outputs = ("[^\0/.][^\0/]{0,5}", nodes, path).prop_map(|(job, nodes, path)| {
        let path = path.map(|path| OutputPath::try_from(path.as_str()).unwrap());
        let job = JobName::try_from(job).unwrap();
        InputSource::Job { job, nodes, path }
    });
    let file = "(\\./)?[a-c]{1,2}(/[a-c])?".prop_map(|path| InputSource::File { path });
    let name = option::of("[d-f]{1,2}(/[d-f])?");
    let input = (prop_oneof![outputs, file], name).prop_map(|(source, name)| JobInput {
        source,
        name: name.map(|name| InputPath::new(&name).unwrap()),
    });
    vec(input, 0..4).prop_map(|all| {
        let mut inputs: Vec<JobInput> = Vec::new();
        for input in all {
            let of_itself =
                matches!(&input.source, InputSource::Job { job, .. } if job.as_str() == "x");
            let collides = inputs
                .iter()
                .any(|other| crate::inputs::collide(other, &input));
            if !of_itself && !collides && input.place().is_some() {
                inputs.push(input);
            }
        }
        inputs
    })
}

/// Adds the jobs from which the inputs come to those for which the job waits, as an export has them. A job with outputs has no `cwd`.
fn wait_for_inputs(mut job: JobConfig) -> JobConfig {
    if !job.outputs.is_empty() {
        job.task_subprocess.working_directory = None;
    }
    for input in &job.inputs {
        let InputSource::Job {
            job: from, nodes, ..
        } = &input.source
        else {
            continue;
        };
        let names = match nodes {
            InputNodes::Same => &mut job.depends_on,
            _ => &mut job.run_only_after_all_nodes_are_done_for,
        };
        if !names.contains(from) {
            names.push(from.clone());
        }
    }
    job
}

fn keep() -> impl Strategy<Value = KeepOutputs> {
    prop_oneof![
        Just(KeepOutputs::UntilConsumed),
        Just(KeepOutputs::WhileHeld),
        Just(KeepOutputs::Forever),
        (1u64..=i32::MAX as u64 * 1000).prop_map(|ms| KeepOutputs::For(Duration::from_millis(ms))),
    ]
}

fn backoff() -> impl Strategy<Value = BackoffPolicy> {
    (
        vec(prop_oneof![1i64..4, 1i64..=i64::from(i32::MAX)], 0..5),
        any::<bool>(),
    )
        .prop_map(|(mut values, repeat)| {
            values.sort_unstable();
            let after = if repeat && !values.is_empty() {
                AfterLast::Repeat
            } else {
                AfterLast::Fail
            };
            BackoffPolicy::new(&values, after).unwrap()
        })
}

prop_compose! {
    fn any_job()(
        (enabled, owner, level, priority) in (any::<bool>(), any::<String>(), 0u16..3, any::<f64>().prop_filter("finite", |p| p.is_finite())),
        resources in vec(0..=i32::MAX, 2),
        config in btree_map(any::<String>(), any_file(), 0..3),
        filters in filters(),
        (host_level, host) in (option::of(0u16..3), option::of(name())),
        backoff in backoff(),
        (depends_on, after_all) in (vec(name(), 0..3), vec(name(), 0..3)),
        orphans in option::of(0u64..=i32::MAX as u64 * 1000),
        task_subprocess in task_subprocess(),
        (method, wait) in (proptest::sample::select(vec![KillMethod::Term, KillMethod::Kill, KillMethod::TermWaitKill]), 0u64..=i32::MAX as u64),
        command in vec(name(), 0..3),
        (est_duration, bufferable, report, max_running) in (time_limit(), any::<bool>(), option::of(proptest::sample::select(ReportPolicy::ALL.to_vec())), option::of(1..=i32::MAX as u32)),
        (create_time, modify_time, version_id) in any::<(i64, i64, i64)>(),
        (outputs, keep, inputs, locality) in (outputs(), keep(), inputs(), 0..=3_600_000_u64),
        errors in vec(any::<String>(), 0..3),
    ) -> JobConfig {
        // The text that the parser would have written.
        let config = serde_json::to_string(&config).unwrap();
        let config = crate::json::value_of(&config).unwrap().to_json().to_string();
        wait_for_inputs(JobConfig {
            name: JobName::try_from("x").unwrap(),
            enabled,
            owner,
            level_for_tasks: LevelId(level),
            priority,
            resources,
            config,
            filters,
            level_for_host_placement: host_level.map(|host| LevelId(host.min(level))),
            host_placement: host,
            backoff,
            depends_on: depends_on.into_iter().map(|n| JobName::try_from(n).unwrap()).collect(),
            run_only_after_all_nodes_are_done_for: after_all.into_iter().map(|n| JobName::try_from(n).unwrap()).collect(),
            kill_orphan_tasks_after: orphans.map(Duration::from_millis),
            task_subprocess,
            kill_subprocess: KillRequest { method, wait: Duration::from_millis(wait) },
            command,
            est_duration,
            bufferable,
            max_running,
            report,
            outputs,
            keep,
            inputs,
            locality_wait: Duration::from_millis(locality),
            create_time,
            modify_time,
            version_id,
            errors,
            hold: None,
        })
    }
}

/// Checks the properties of every answer.
fn check(text: &str) {
    for unknown_keys in [UnknownKeys::Warn, UnknownKeys::Refuse] {
        let lines = text.matches('\n').count() + 1;
        let placed = |p: &Problem| p.line >= 1 && p.line as usize <= lines && p.column >= 1;
        let options = ParseOptions {
            unknown_keys,
            ..ParseOptions::default()
        };
        match parse(text, options) {
            Err(errors) => {
                assert!(!errors.0.is_empty());
                assert!(errors.0.iter().all(placed));
                assert!(errors.0.is_sorted_by_key(Problem::place));
            }
            Ok(parsed) => {
                assert!(
                    parsed
                        .warnings
                        .iter()
                        .chain(parsed.job_problems())
                        .all(placed)
                );
                for job in &parsed.config.jobs {
                    let export = export_job(&parsed.config, job).to_string();
                    let again =
                        parse_job(&job.name, &export, &parsed.config, ParseOptions::default());
                    assert_eq!(again.unwrap().job, **job);
                }
            }
        }
    }
}

/// A job is exported with its errors but without its bad values: reading those again would find the errors a second time.
#[test]
fn bad_values_are_reported_and_not_exported() {
    for wrong in [
        r#""command": [""]"#,
        r#""command": ["a", "b\u0000"]"#,
        r#""priority": -1"#,
        r#""outputs": ["a", "a/b"]"#,
        r#""outputs": ["a"], "keep": 0"#,
        r#""inputs": [{"file": "a"}, {"file": "a"}, {"file": "b"}]"#,
        r#""inputs": [{"from": "y"}, {"from": "y", "node": "all", "path": "a"}]"#,
        r#""inputs": [{"from": "y", "node": "children", "as": "/a"}]"#,
        r#""inputs": [{"from": "../y", "node": "all"}]"#,
        r#""inputs": [{"from": "x"}]"#,
        r#""inputs": [{"from": "y"}], "locality_wait": "2h""#,
        r#""filters": {"instance": {"fraction_of_nodes": 2}}"#,
    ] {
        let text = format!(
            r#"{{"bistro_settings": {{"scheduler": "randomized_priority",
                "nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs": {{"a": []}}}}]}}}},
                "bistro_job->x": {{{wrong}}}}}"#
        );
        let parsed = parse(&text, ParseOptions::default()).expect("only the job is wrong");
        assert_eq!(parsed.job_problems().len(), 1, "{wrong}");
        check(&text);
    }
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = parse_bytes(&bytes, ParseOptions::default());
    }

    #[test]
    fn files_are_answered(json in any_file()) {
        check(&json.to_string());
        check(&serde_json::to_string_pretty(&serde_json::json!({"bistro_settings": json, "bistro_job->x": {}})).unwrap());
    }

    #[test]
    fn mutated_files_are_answered(text in mutated_file()) {
        check(&text);
    }

    #[test]
    fn settings_parts_are_answered(levels in vec(WORDS, 0..4), sources in vec(any_file(), 0..3), resources in any_file(), job in any_file()) {
        let json = serde_json::json!({
            "bistro_settings": {"nodes": {"levels": levels, "node_sources": sources}, "resources": {"instance": resources}},
            "bistro_job->x": job,
        });
        check(&json.to_string());
    }

    #[test]
    fn a_job_survives_its_export(job in any_job()) {
        let config = settings();
        let export = export_job(&config, &job);
        for text in [export.to_string(), serde_json::to_string_pretty(&export).unwrap()] {
            let read = parse_job(&job.name, &text, &config, ParseOptions { unknown_keys: UnknownKeys::Refuse, ..ParseOptions::default() }).unwrap();
            prop_assert_eq!(&read.job, &job, "{:?}", read.problems);
            prop_assert_eq!(read.problems.is_empty(), job.errors.is_empty());
            prop_assert_eq!(export_job(&config, &read.job), export.clone());
        }
    }
}
