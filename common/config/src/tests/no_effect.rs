//! Tests that each key without effect gives a warning with the remedy.

use super::*;

fn warnings(settings: &str, job: &str) -> Vec<String> {
    lines(&good(settings, &format!("\"bistro_job->x\": {{{job}}}")).warnings)
}

#[test]
fn waiting_while_idle() {
    assert_eq!(
        warnings("\"idle_wait\": 5", ""),
        [
            "2:1: bistro_settings.idle_wait: has no effect; nothing waits while there is nothing to do; remove the key"
        ]
    );
}

#[test]
fn how_processes_are_looked_after() {
    let all = r#""task_subprocess": {"parent_death_signal": 15, "process_group_leader": true, "use_canary_pipe": false}"#;
    let expected = |path: &str, line: u32, shift: u32| {
        let path = format!("{path}.task_subprocess");
        [
            format!(
                "{line}:{}: {path}.parent_death_signal: has no effect; the worker's keeper kills a task whose worker has died; remove the key",
                shift + 21
            ),
            format!(
                "{line}:{}: {path}.process_group_leader: has no effect; each task leads a process group, which is killed as a whole; remove the key",
                shift + 48
            ),
            format!(
                "{line}:{}: {path}.use_canary_pipe: has no effect; the end of a task is noticed without it; remove the key",
                shift + 78
            ),
        ]
    };
    assert_eq!(warnings(all, ""), expected("bistro_settings", 2, 0));
    assert_eq!(warnings("", all), expected("bistro_job->x", 3, 18));
    // A job that repeats its settings, like an exported one, gets no further warnings.
    assert_eq!(warnings(all, all).len(), 3);
    let config = good(all, "").config;
    let parsed = good(all, "\"bistro_job->x\": {}");
    let export = export_job(&parsed.config, &parsed.config.jobs[0]).to_string();
    let name = JobName::try_from("x").unwrap();
    let read = parse_job(&name, &export, &config, ParseOptions::default()).unwrap();
    assert_eq!(read.warnings, []);
    // A value equal to the default gives no warning either.
    assert_eq!(
        warnings(
            r#""task_subprocess": {"parent_death_signal": 9, "use_canary_pipe": true}"#,
            ""
        ),
        [""; 0]
    );
}

/// An invalid value of such a key is a warning and changes nothing else.
#[test]
fn wrong_values_of_keys_that_do_nothing() {
    for (settings, keys) in [
        ("\"idle_wait\": \"long\"", &["idle_wait"][..]),
        (
            "\"task_subprocess\": {\"parent_death_signal\": 333, \"process_group_leader\": 5.5e3, \"use_canary_pipe\": []}",
            &[
                "task_subprocess.parent_death_signal",
                "task_subprocess.process_group_leader",
                "task_subprocess.use_canary_pipe",
            ],
        ),
    ] {
        let found = warnings(settings, "");
        assert_eq!(found.len(), keys.len(), "{found:?}");
        for (warning, key) in found.iter().zip(keys) {
            assert!(
                warning.contains(&format!(": bistro_settings.{key}: has no effect; ")),
                "{warning}"
            );
        }
        let options = config(settings).task_subprocess;
        assert_eq!(options.parent_death_signal, 9);
    }
}

#[test]
fn a_limit_that_the_kernel_ignores() {
    let all = r#""task_subprocess": {"limits": {"locks": 5, "core": 0}}"#;
    let expected = "2:32: bistro_settings.task_subprocess.limits.locks: has no effect; Linux ignores this limit, and workers mark \
                    processes by it; remove the key";
    assert_eq!(warnings(all, all), [expected]);
}

#[test]
fn what_machines_offer() {
    let of = |physical: &str| {
        let worker = r#"{"a": {"default": 1, "limit": 1}}"#;
        warnings(
            &format!(
                "\"resources\": {{\"worker\": {worker}}}, \"physical_resources\":\n{{{physical}}}"
            ),
            "",
        )
    };
    assert_eq!(
        of(r#""cpu_core": {"logical_resource": "a", "multiply_logical_by": 2}"#),
        [""; 0]
    );
    assert_eq!(
        of(r#""cpu_core": {"logical_resource": "a", "enforcement": "soft"}"#),
        [""; 0]
    );
    assert_eq!(
        of(r#""ram_mb": {"logical_resource": "a", "enforcement": "hard"}"#),
        [""; 0]
    );
    for kind in ["ram_mb", "gpu_card"] {
        assert_eq!(
            of(&format!(
                "\"{kind}\": {{\"logical_resource\": \"a\", \"enforcement\": \"none\"}}"
            )),
            [""; 0]
        );
    }
    assert_eq!(
        warnings(
            "\"resources\": {\"host\": {\"GPU: K40\": {\"default\": 0, \"limit\": 0}}},\n\"physical_resources\": {\"gpu_card\": {\"logical_resource\": \"slots\"}}",
            ""
        ),
        [
            "3:24: bistro_settings.physical_resources.gpu_card: the resource `GPU: K40` is one of level `host`, so no GPU counts for it; declare it at level `worker`"
        ]
    );
    // Only `none` is allowed for GPUs, so the key has no effect there.
    let card = r#""physical_resources": {"gpu_card": {"logical_resource": "slots", "enforcement": "hard"}}"#;
    let text = format!("{{\"bistro_settings\": {{\"nodes\": {{\"levels\": []}},\n{card}}}}}");
    let errors = parse(&text, ParseOptions::default()).unwrap_err();
    let errors = lines(&errors.0);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("gpu_card.enforcement: "), "{errors:?}");
}

#[test]
fn filters_below_the_tasks() {
    let of = |level: &str| {
        warnings(
            "\"level_for_tasks\": \"host\"",
            &format!("\"filters\": {{\"{level}\": {{\"whitelist\": [\"a\"]}}}}"),
        )
    };
    assert_eq!(
        of("db"),
        [
            "3:31: bistro_job->x.filters.db: has no effect: tasks at level `host` have no node there; filter a level from `instance` to the tasks' one, or `worker`"
        ]
    );
    for level in ["instance", "host", "worker"] {
        assert_eq!(of(level), [""; 0], "{level}");
    }
}

#[test]
fn two_host_placements() {
    assert_eq!(
        warnings(
            "",
            "\"host_placement\": \"h\", \"level_for_host_placement\": \"host\""
        ),
        [
            "3:42: bistro_job->x.level_for_host_placement: has no effect beside `host_placement`; remove one of them"
        ]
    );
}

#[test]
fn dependencies_between_levels() {
    let parsed = good(
        "",
        "\"bistro_job->x\": {\"depends_on\": [\"y\", \"z\"]},\n\"bistro_job->y\": {\"level_for_tasks\": \"host\"},\n\"bistro_job->z\": {}",
    );
    assert_eq!(
        lines(&parsed.warnings),
        [
            "3:34: bistro_job->x.depends_on[0]: the job's tasks are at level `db`, those that they wait for at `host`, so each waits for a node of its own name there; let both jobs have the same `level_for_tasks`"
        ]
    );
    assert_eq!(parsed.job_problems(), []);
}

#[test]
fn preferences_of_no_source() {
    let text = "{\"bistro_settings\": {\"nodes\": {\"levels\": [], \"node_source_prefs\": {}}}}";
    assert_eq!(
        lines(&parse(text, ParseOptions::default()).unwrap().warnings),
        [
            "1:46: bistro_settings.nodes.node_source_prefs: has no effect without `node_source`; name the source, in `node_source` or in `node_sources`"
        ]
    );
}
