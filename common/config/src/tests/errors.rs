//! Tests of each mistake with its exact place and message.

use super::*;

/// Returns the errors of a file whose settings' second line is `settings`.
fn settings_errors(settings: &str) -> Vec<String> {
    match parse(&file(settings, ""), ParseOptions::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => lines(&errors.0),
    }
}

/// Returns the problems of a job whose body is on the third line, which begins with the 18 characters `"bistro_job->x": {`.
fn job_problems(body: &str) -> Vec<String> {
    let resources = r#""resources": {"host": {"disk": {"default": 2, "limit": 9}}}"#;
    let parsed = good(resources, &format!("\"bistro_job->x\": {{{body}}}"));
    let problems = lines(parsed.job_problems());
    assert_eq!(parsed.config.jobs[0].errors, problems);
    assert!(!parsed.config.jobs[0].can_run());
    problems
}

fn node_errors(nodes: &str) -> Vec<String> {
    let text = format!("{{\"bistro_settings\": {{\"nodes\":\n{nodes}}}}}");
    match parse(&text, ParseOptions::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => lines(&errors.0),
    }
}

fn source_errors(sources: &str) -> Vec<String> {
    node_errors(&format!(
        "{{\"levels\": [\"host\", \"db\"], \"node_sources\": [\n{sources}]}}"
    ))
}

#[test]
fn a_file_is_an_object_with_settings() {
    let errors = |text: &str| lines(&parse(text, ParseOptions::default()).unwrap_err().0);
    assert_eq!(
        errors("[]"),
        ["1:1: expected an object, found an empty array"]
    );
    assert_eq!(
        errors("{}"),
        [
            "1:1: bistro_settings: the key is missing; an object with the settings, as in {\"bistro_settings\": {\"nodes\": {...}}}"
        ]
    );
    assert_eq!(
        errors("{\"bistro_settings\": 5}"),
        ["1:21: bistro_settings: expected an object, found 5"]
    );
    assert_eq!(
        errors("{\"bistro_settings\": {}}"),
        [
            "1:21: bistro_settings.nodes: the key is missing; as in {\"levels\": [\"host\"], \"node_sources\": []}"
        ]
    );
    let nodes = "{\"nodes\": {\"levels\": []}}";
    assert_eq!(
        errors(&format!(
            "{{\"bistro_settings\": {nodes},\n \"bistro_settings\": {nodes}}}"
        )),
        ["2:2: bistro_settings: the key occurs twice; the first is at 1:2"]
    );
}

#[test]
fn bytes_that_are_no_text_are_named() {
    let errors = parse_bytes(b"{\n \"\xc3\xa9\xff", ParseOptions::default()).unwrap_err();
    assert_eq!(
        errors.display_with("x.json"),
        "x.json:2:4: the file is not UTF-8 from here on"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn scalars_of_settings() {
    for (settings, expected) in [
        (
            r#""enabled": "perhaps""#,
            r#"2:12: bistro_settings.enabled: expected true or false, found "perhaps""#,
        ),
        (
            r#""working_wait": null"#,
            "2:17: bistro_settings.working_wait: expected a number, found null",
        ),
        (
            r#""working_wait": -1"#,
            "2:17: bistro_settings.working_wait: -1 is out of range; seconds from 0 to 2147483647",
        ),
        (
            r#""scheduler": "roundrobbin""#,
            r#"2:14: bistro_settings.scheduler: expected one of the allowed words, found "roundrobbin"; did you mean `roundrobin`? (allowed: roundrobin, ranked_priority, randomized_priority, long_tail)"#,
        ),
        (
            r#""remote_worker_selector": "best""#,
            r#"2:27: bistro_settings.remote_worker_selector: expected one of the allowed words, found "best"; allowed: roundrobin, busiest, neediest"#,
        ),
        (
            r#""node_order": []"#,
            "2:15: bistro_settings.node_order: expected a string, found an empty array",
        ),
        (
            r#""level_for_tasks": "hots""#,
            r#"2:20: bistro_settings.level_for_tasks: there is no level "hots"; did you mean `host`?"#,
        ),
        (
            r#""kill_orphan_tasks_after_sec": "soon""#,
            r#"2:32: bistro_settings.kill_orphan_tasks_after_sec: expected true, false or a duration, found "soon"; false: never; true: at once"#,
        ),
        (
            r#""kill_orphan_tasks_after_sec": 1e10"#,
            "2:32: bistro_settings.kill_orphan_tasks_after_sec: 10000000000.0 is out of range; seconds from 0 to 2147483647",
        ),
        (
            r#""CAUTION_exit_initial_wait_before_timestamp": 1.5"#,
            "2:47: bistro_settings.CAUTION_exit_initial_wait_before_timestamp: expected an integer, found 1.5; an integer from -9223372036854775808 to 9223372036854775807",
        ),
        (
            r#""task_subprocess": {"poll_ms": 3000000000}"#,
            "2:32: bistro_settings.task_subprocess.poll_ms: 3000000000 is out of range; an integer from -2147483648 to 2147483647",
        ),
        (
            r#""task_subprocess": {"cgroups": {"subsystems": ["cpu", {}]}}"#,
            "2:55: bistro_settings.task_subprocess.cgroups.subsystems[1]: expected a string, found an empty object",
        ),
        (
            r#""task_subprocess": []"#,
            "2:20: bistro_settings.task_subprocess: expected an object, found an empty array",
        ),
        (
            r#""kill_subprocess": {"method": "trem"}"#,
            r#"2:31: bistro_settings.kill_subprocess.method: expected one of the allowed words, found "trem"; did you mean `term`? (allowed: term_wait_kill, term, kill)"#,
        ),
        (
            r#""kill_subprocess": {"kill_wait_ms": -1}"#,
            "2:37: bistro_settings.kill_subprocess.kill_wait_ms: -1 is out of range; an integer from 0 to 2147483647",
        ),
        (
            r#""kill_subprocess": {"kill_wait_ms": "0.5ms"}"#,
            r#"2:37: bistro_settings.kill_subprocess.kill_wait_ms: expected milliseconds, found "0.5ms"; a whole number up to 2147483647, or with a unit, as in 1500 or "1500ms" or "1.5s""#,
        ),
        (
            r#""kill_subprocess": {"kill_wait_ms": "30d"}"#,
            r#"2:37: bistro_settings.kill_subprocess.kill_wait_ms: expected milliseconds, found "30d"; a whole number up to 2147483647, or with a unit, as in 1500 or "1500ms" or "1.5s""#,
        ),
        (
            r#""kill_subprocess": {}, "kill_request": {}"#,
            "2:24: bistro_settings.kill_request: means the same as `kill_subprocess`; keep one of them",
        ),
        (
            r#""enabled": true, "enabled": true"#,
            "2:18: bistro_settings.enabled: the key occurs twice; the first is at 2:1",
        ),
    ] {
        assert_eq!(settings_errors(settings), [expected], "{settings}");
    }
}

#[test]
fn backoffs() {
    const HELP: &str = "waits, none below the one before, then \"repeat\" or \"fail\", as in [15, \"1m\", \"repeat\"]";
    for (backoff, expected) in [
        ("5", format!("2:12: bistro_settings.backoff: expected an array of waits, found 5; {HELP}")),
        ("[]", format!("2:12: bistro_settings.backoff: a backoff needs a value; {HELP}")),
        (
            "[\"repeat\"]",
            format!("2:12: bistro_settings.backoff: \"repeat\" needs a number of seconds before it; {HELP}"),
        ),
        ("[1, 0]", format!("2:16: bistro_settings.backoff[1]: backoff value 0 is not positive; {HELP}")),
        (
            "[5, 4]",
            format!("2:16: bistro_settings.backoff[1]: backoff value 4 is below the one before it (5); {HELP}"),
        ),
        (
            "[4294967296]",
            format!("2:13: bistro_settings.backoff[0]: backoff value 4294967296 is above 2147483647 seconds; {HELP}"),
        ),
        (
            "[1, \"retry\"]",
            "2:16: bistro_settings.backoff[1]: expected one of the allowed words, found \"retry\"; allowed: repeat, fail".to_owned(),
        ),
        (
            "[1, 2.5]",
            "2:16: bistro_settings.backoff[1]: expected an integer, found 2.5; an integer from -9223372036854775808 to 9223372036854775807".to_owned(),
        ),
    ] {
        assert_eq!(settings_errors(&format!("\"backoff\": {backoff}")), [expected], "{backoff}");
    }
}

#[test]
fn levels() {
    for (levels, expected) in [
        (
            "null",
            "2:12: bistro_settings.nodes.levels: expected an array of level names, found null",
        ),
        (
            "[\"worker\"]",
            "2:13: bistro_settings.nodes.levels[0]: the level `worker` is always there, below all others; remove it, or rename it",
        ),
        (
            "[\"instance\"]",
            "2:13: bistro_settings.nodes.levels[0]: the level `instance` is always there, above all others; remove it, or rename it",
        ),
        (
            "[\"\"]",
            "2:13: bistro_settings.nodes.levels[0]: the name is empty",
        ),
        (
            "[\"a\\u0000\"]",
            "2:13: bistro_settings.nodes.levels[0]: the name contains a NUL character, which no program argument can hold",
        ),
    ] {
        assert_eq!(
            node_errors(&format!("{{\"levels\": {levels}}}")),
            [expected],
            "{levels}"
        );
    }
    assert_eq!(
        node_errors("{}"),
        [
            "2:1: bistro_settings.nodes.levels: the key is missing; an array of level names, top to bottom"
        ]
    );
    let many: Vec<String> = (0..=MAX_LEVELS).map(|i| format!("\"l{i}\"")).collect();
    assert_eq!(
        node_errors(&format!("{{\"levels\": [\n{}]}}", many.join(",\n"))),
        ["67:1: bistro_settings.nodes.levels[64]: more than 64 levels"]
    );
    assert_eq!(
        node_errors("{\"levels\": [], \"node_order\": \"random\"},\n\"node_order\": \"random\""),
        ["3:1: bistro_settings.node_order: means the same as `nodes.node_order`; keep one of them"]
    );
}

#[test]
fn resources() {
    for (resources, expected) in [
        (
            r#"{"hots": {}}"#,
            r#"2:15: bistro_settings.resources.hots: there is no level "hots"; did you mean `host`?"#,
        ),
        (
            r#"{"host": 5}"#,
            "2:23: bistro_settings.resources.host: expected an object, found 5",
        ),
        (
            r#"{"host": {"d": {"limit": 1}}}"#,
            "2:29: bistro_settings.resources.host.d.default: the key is missing; the number of slots that a task takes",
        ),
        (
            r#"{"host": {"d": {"default": 1}}}"#,
            "2:29: bistro_settings.resources.host.d.limit: the key is missing; the number of slots of a node",
        ),
        (
            r#"{"host": {"d": {"default": 1, "limit": "many"}}}"#,
            r#"2:53: bistro_settings.resources.host.d.limit: expected an integer, found "many"; an integer from 0 to 2147483647"#,
        ),
        (
            r#"{"host": {"d": {"default": 1, "limit": 2147483648}}}"#,
            "2:53: bistro_settings.resources.host.d.limit: 2147483648 is out of range; an integer from 0 to 2147483647",
        ),
        (
            r#"{"host": {"d": {"default": 1, "limit": 1, "weight": -1}}}"#,
            "2:66: bistro_settings.resources.host.d.weight: -1 is out of range; an integer from 0 to 2147483647",
        ),
        (
            r#"{"host": {"": {"default": 1, "limit": 1}}}"#,
            "2:24: bistro_settings.resources.host.: the name is empty",
        ),
        (
            r#"{"host": {"d": {"default": 1, "limit": 1}}, "db": {"d": {"default": 1, "limit": 1}}}"#,
            "2:65: bistro_settings.resources.db.d: the level `host` has a resource of this name; resource names are unique over all levels",
        ),
    ] {
        let settings = format!("\"resources\": {resources}");
        assert_eq!(settings_errors(&settings), [expected], "{resources}");
    }
    let many: Vec<String> = (0..=MAX_RESOURCES)
        .map(|i| format!("\"r{i}\": {{\"default\": 1, \"limit\": 1}}"))
        .collect();
    assert_eq!(
        settings_errors(&format!(
            "\"resources\": {{\"host\": {{\n{}}}}}",
            many.join(",\n")
        )),
        ["1027:1: bistro_settings.resources.host.r1024: more than 1024 resources"]
    );
}

#[test]
fn resources_of_single_workers() {
    const RESOURCES: &str = r#""resources": {"host": {"disk": {"default": 1, "limit": 1}}, "worker": {"ram": {"default": 1, "limit": 4}, "gpu": {"default": 0, "limit": 1}}}"#;
    for (settings, expected) in [
        (
            r#""worker_resources_override": {"h:1": {"rma": 1}}"#,
            r#"3:39: bistro_settings.worker_resources_override.h:1.rma: there is no resource "rma"; did you mean `ram`?"#,
        ),
        (
            r#""worker_resources_overrides": {"h": {"disk": 1}}"#,
            "3:38: bistro_settings.worker_resources_overrides.h.disk: the resource is one of level `host`; only resources of level `worker` can be overridden",
        ),
        (
            r#""worker_resources_override": {"h": {"ram": -1}}"#,
            "3:44: bistro_settings.worker_resources_override.h.ram: -1 is out of range; an integer from 0 to 2147483647",
        ),
        (
            r#""physical_resources": {"ram": {}}"#,
            "3:24: bistro_settings.physical_resources.ram: unknown kind of physical resource; known are ram_mb, cpu_core, gpu_card",
        ),
        (
            r#""physical_resources": {"ram_mb": {}}"#,
            "3:34: bistro_settings.physical_resources.ram_mb.logical_resource: the key is missing; the name of a resource of level `worker`",
        ),
        (
            r#""physical_resources": {"ram_mb": {"logical_resource": "disk"}}"#,
            "3:55: bistro_settings.physical_resources.ram_mb.logical_resource: the resource is one of level `host`, not `worker`; known are ram, gpu",
        ),
        (
            r#""physical_resources": {"ram_mb": {"logical_resource": "x"}}"#,
            r#"3:55: bistro_settings.physical_resources.ram_mb.logical_resource: there is no resource "x"; known are ram, gpu"#,
        ),
        (
            r#""physical_resources": {"ram_mb": {"logical_resource": "ram", "multiply_logical_by": 1e-13}}"#,
            "3:85: bistro_settings.physical_resources.ram_mb.multiply_logical_by: 1e-13 is too near to 0; the physical amount of one slot",
        ),
        (
            r#""physical_resources": {"ram_mb": {"logical_resource": "ram", "enforcement": "soft"}}"#,
            r#"3:77: bistro_settings.physical_resources.ram_mb.enforcement: expected one of the allowed words, found "soft"; allowed: none, hard"#,
        ),
        (
            r#""physical_resources": {"ram_mb": {"logical_resource": "ram"}, "cpu_core": {"logical_resource": "ram"}}"#,
            "3:96: bistro_settings.physical_resources.cpu_core.logical_resource: `ram_mb` has taken this resource; each resource can follow one physical amount",
        ),
    ] {
        let settings = format!("{RESOURCES},\n{settings}");
        assert_eq!(settings_errors(&settings), [expected], "{settings}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn node_sources() {
    for (source, expected) in [
        (
            "5",
            "3:1: bistro_settings.nodes.node_sources[0]: expected an object, found 5",
        ),
        (
            "{}",
            "3:1: bistro_settings.nodes.node_sources[0].source: the key is missing; one of empty, manual, range_label, script, add_time",
        ),
        (
            r#"{"source": "range"}"#,
            r#"3:12: bistro_settings.nodes.node_sources[0].source: expected one of the allowed words, found "range"; allowed: empty, manual, range_label, script, add_time"#,
        ),
        (
            r#"{"source": "manual", "prefs": []}"#,
            "3:31: bistro_settings.nodes.node_sources[0].prefs: expected an object, found an empty array; the source's preferences; those of \
             `manual` are nodes with their children, as in {\"a\": [], \"b\": []}",
        ),
        (
            r#"{"source": "manual"}"#,
            "3:1: bistro_settings.nodes.node_sources[0].prefs: the key is missing; an object of nodes and their children",
        ),
        (
            r#"{"source": "script"}"#,
            "3:1: bistro_settings.nodes.node_sources[0].prefs: the key is missing; an object with the source's preferences",
        ),
        (
            r#"{"source": "script", "prefs": {"parent_level": "instance"}}"#,
            "3:31: bistro_settings.nodes.node_sources[0].prefs.script: the key is missing; the path of a program that prints a child a line",
        ),
        (
            r#"{"source": "script", "prefs": {"script": "./x"}}"#,
            "3:31: bistro_settings.nodes.node_sources[0].prefs.parent_level: the key is missing; the level whose nodes get children",
        ),
        (
            r#"{"source": "script", "prefs": {"parent_level": "db", "script": "./x"}}"#,
            r#"3:48: bistro_settings.nodes.node_sources[0].prefs.parent_level: nodes of level "db" cannot have children; levels that can have children: instance, host"#,
        ),
        (
            r#"{"source": "script", "prefs": {"parent_level": "host", "script": ""}}"#,
            "3:66: bistro_settings.nodes.node_sources[0].prefs.script: this is no path; the path of a program that prints a child a line",
        ),
        (
            r#"{"source": "script", "prefs": {"parent_level": "host", "script": "x", "timeout": "soon"}}"#,
            r#"3:82: bistro_settings.nodes.node_sources[0].prefs.timeout: expected a duration, found "soon"; a number with a unit (500ms, 30s, 5m, 2h, 1d), or seconds"#,
        ),
        (
            r#"{"source": "script", "prefs": {"parent_level": "host", "script": "x", "timeout": 0}}"#,
            "3:82: bistro_settings.nodes.node_sources[0].prefs.timeout: the timeout is zero; above 0, as in 60s",
        ),
        (
            r#"{"source": "script", "prefs": {"parent_level": "host", "script": "x", "timeout": "99999d"}}"#,
            "3:82: bistro_settings.nodes.node_sources[0].prefs.timeout: \"99999d\" is out of range; seconds from 0 to 2147483647",
        ),
        (
            r#"{"source": "range_label", "prefs": {"parent_level": "host", "start": 1}}"#,
            "3:36: bistro_settings.nodes.node_sources[0].prefs.end: the key is missing; the last number, included",
        ),
        (
            r#"{"source": "range_label", "prefs": {"parent_level": "host", "start": 0, "end": 10000000}}"#,
            "3:80: bistro_settings.nodes.node_sources[0].prefs.end: from 0 to 10000000 are more than 10000000 nodes; use a smaller range",
        ),
        (
            r#"{"source": "range_label", "prefs": {"parent_level": "host", "start": -9223372036854775808, "end": 9223372036854775807}}"#,
            "3:99: bistro_settings.nodes.node_sources[0].prefs.end: from -9223372036854775808 to 9223372036854775807 are more than 10000000 nodes; use a smaller range",
        ),
        (
            r#"{"source": "range_label", "prefs": {"parent_level": "host", "start": 0, "end": 1, "format": "{j}{i}"}}"#,
            "3:93: bistro_settings.nodes.node_sources[0].prefs.format: unknown placeholder `{j}`; did you mean `i`?",
        ),
        (
            r#"{"source": "range_label", "prefs": {"parent_level": "host", "start": 0, "end": 1, "format": ""}}"#,
            "3:93: bistro_settings.nodes.node_sources[0].prefs.format: the format is empty",
        ),
    ] {
        assert_eq!(source_errors(source), [expected], "{source}");
    }
    assert_eq!(
        node_errors(r#"{"levels": [], "node_sources": {}}"#),
        [
            "2:32: bistro_settings.nodes.node_sources: expected an array of node sources, found an empty object"
        ]
    );
}

#[test]
fn manual_nodes() {
    let manual =
        |prefs: &str| source_errors(&format!("{{\"source\": \"manual\", \"prefs\":\n{prefs}}}"));
    let prefs = "bistro_settings.nodes.node_sources[0].prefs";
    for (text, expected) in [
        (
            "{}",
            vec![format!(
                "3:22: {prefs}: there is no node; a name that is nobody's child becomes a node of the first level"
            )],
        ),
        (
            r#"{"a": "b", "b": "a"}"#,
            vec![format!(
                "3:22: {prefs}: there is no top-level node: each name is also a child; a name that is nobody's child becomes a node of the first level"
            )],
        ),
        (
            r#"{"top": "x", "a": "b", "b": ["a", "c"]}"#,
            vec![
                format!(
                    "4:14: {prefs}.a: no top-level node leads here: it is in or below a cycle; remove the cycle of children"
                ),
                format!(
                    "4:24: {prefs}.b: no top-level node leads here: it is in or below a cycle; remove the cycle of children"
                ),
            ],
        ),
        (
            r#"{"a": "b", "b": "c"}"#,
            vec![format!(
                "4:12: {prefs}.b: the children of \"b\" are below the last level, `db`; add a level to `nodes.levels`, or remove the cycle if there is one"
            )],
        ),
        (
            r#"{"a": "b", "b": "b"}"#,
            vec![format!(
                "4:12: {prefs}.b: the children of \"b\" are below the last level, `db`; add a level to `nodes.levels`, or remove the cycle if there is one"
            )],
        ),
        (
            r#"{"a": null}"#,
            vec![format!(
                "4:7: {prefs}.a: expected the children of a node, found null; a name, an array of names, or {{\"children\": [...], \"disabled\": true}}"
            )],
        ),
        (
            r#"{"a": ["b", ""]}"#,
            vec![format!("4:13: {prefs}.a[1]: the name is empty")],
        ),
        (
            r#"{"": []}"#,
            vec![format!("4:2: {prefs}.: the name is empty")],
        ),
        (
            r#"{"a": [], "a": []}"#,
            vec![format!(
                "4:11: {prefs}.a: the key occurs twice; the first is at 4:2"
            )],
        ),
    ] {
        assert_eq!(manual(text), expected, "{text}");
    }
    assert_eq!(
        node_errors(
            r#"{"levels": [], "node_sources": [{"source": "manual", "prefs": {"a": []}}]}"#
        ),
        [format!(
            "2:54: {prefs}: there is no level for these nodes; add one to `nodes.levels`"
        )]
    );
}

#[test]
fn a_few_lines_of_replicas_cannot_ask_for_more_nodes_than_there_is_memory() {
    let levels: Vec<String> = (0..MAX_LEVELS).map(|i| format!("\"l{i}\"")).collect();
    let nodes: Vec<String> = (1..MAX_LEVELS)
        .map(|i| format!("\"n{}\": [\"n{i}\", \"n{i}\"]", i - 1))
        .collect();
    let errors = node_errors(&format!(
        "{{\"levels\": [{}], \"node_sources\": [{{\"source\": \"manual\",\n\"prefs\": {{{}}}}}]}}",
        levels.join(","),
        nodes.join(",")
    ));
    assert_eq!(
        errors,
        [
            "3:1: bistro_settings.nodes.node_sources[0].prefs: more than 1000000 nodes, counting replicas; use a `script` source"
        ]
    );
}

#[test]
fn a_level_has_each_name_once_and_both_places_are_named() {
    let paths = "set \"names\": \"path\" beside `source`, which puts the parent's name and a slash before each name, or \"names\": \"shared\" if it is one node with several parents";
    let rename = "rename or remove one of them, or set \"names\": \"shared\" beside `source` if it is one node";
    let source = |index: usize| format!("bistro_settings.nodes.node_sources[{index}]");
    // Both parents have two of the three names.
    let twice = "{\"source\": \"manual\", \"prefs\": {\"f1\": [\"a\", \"b\", \"c\"],\n\"f2\": [\"d\", \"a\", \"c\"]}}";
    assert_eq!(
        source_errors(twice),
        [format!(
            "4:13: {}: the name \"a\" occurs twice at level `db`: here (under \"f2\") and at 3:39 (under \"f1\"), as 1 more of the source's names do; {paths}",
            source(0)
        )]
    );
    for naming in ["path", "shared"] {
        let named = twice.replace("\"prefs\"", &format!("\"names\": \"{naming}\", \"prefs\""));
        assert_eq!(source_errors(&named), [""; 0], "{naming}");
    }
    let same_parent = "{\"source\": \"manual\", \"prefs\": {\"f1\": [\"a\", \"a\"]}}";
    assert_eq!(
        source_errors(same_parent),
        [format!(
            "3:44: {}: the name \"a\" occurs twice at level `db`: here (under \"f1\") and at 3:39 (under \"f1\"); {rename}",
            source(0)
        )]
    );
    // A range below two parents, and a range with a name of an earlier source.
    let hosts = "{\"source\": \"manual\", \"prefs\": {\"f1\": [], \"f2\": \"9\"}}";
    let range = "{\"source\": \"range_label\", \"prefs\": {\"parent_level\": \"host\", \"start\": 1, \"end\": 8, \"format\": \"{i}\"}}";
    assert_eq!(
        source_errors(&format!("{hosts},\n{range}")),
        [format!(
            "4:1: {}: the name \"1\" occurs twice at level `db`: here (under \"f2\") and at 4:1 (under \"f1\"), as 7 more of the source's names do; {paths}",
            source(1)
        )]
    );
    let by_path = range.replace("\"prefs\"", "\"names\": \"path\", \"prefs\"");
    assert_eq!(source_errors(&format!("{hosts},\n{by_path}")), [""; 0]);
    let at_the_top = range.replace("\"host\"", "\"instance\"");
    assert_eq!(
        source_errors(&format!(
            "{at_the_top},\n{{\"source\": \"manual\", \"prefs\": {{\"8\": []}}}}"
        )),
        [format!(
            "4:32: {}: the name \"8\" occurs twice at level `host`: here and at 3:1; {rename}",
            source(1)
        )]
    );
    // The nodes of a script are unknown here, so a range below them is no error.
    let script =
        "{\"source\": \"script\", \"prefs\": {\"parent_level\": \"instance\", \"script\": \"x\"}}";
    assert_eq!(source_errors(&format!("{script},\n{range}")), [""; 0]);
    // The check finds the mistake among the first nodes of the ranges.
    let long = range.replace("8", "10000000");
    assert_eq!(source_errors(&format!("{hosts},\n{long}")).len(), 1);
    assert_eq!(
        source_errors("{\"source\": \"empty\", \"names\": \"paths\"}"),
        [format!(
            "3:30: {}.names: expected one of the allowed words, found \"paths\"; did you mean `path`? (allowed: unique, path, shared)",
            source(0)
        )]
    );
}

#[test]
fn a_path_that_is_no_name_is_refused_where_its_last_part_stands() {
    let long = "x".repeat(1000);
    let errors = source_errors(&format!(
        "{{\"source\": \"manual\", \"names\": \"path\", \"prefs\": {{\"{long}\": [\n\"b{long}\"]}}}}"
    ));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].starts_with("4:1: ")
            && errors[0].ends_with("the name is 2002 bytes long; at most 1024 are allowed"),
        "{errors:?}"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn jobs() {
    for (body, expected) in [
        (
            r#""enabled": []"#,
            "3:30: bistro_job->x.enabled: expected true or false, found an empty array",
        ),
        (
            r#""level_for_tasks": "d""#,
            r#"3:38: bistro_job->x.level_for_tasks: there is no level "d"; did you mean `db`?"#,
        ),
        (
            r#""priority": "high""#,
            r#"3:31: bistro_job->x.priority: expected a number, found "high""#,
        ),
        (
            r#""resources": {"dsik": 1}"#,
            r#"3:33: bistro_job->x.resources.dsik: there is no resource "dsik"; did you mean `disk`?"#,
        ),
        (
            r#""resources": {"disk": -1}"#,
            "3:41: bistro_job->x.resources.disk: -1 is out of range; an integer from 0 to 2147483647",
        ),
        (
            r#""config": "x""#,
            r#"3:29: bistro_job->x.config: expected an object, found "x""#,
        ),
        (
            r#""config": {"a": [{"b": 1, "b": 2}]}"#,
            "3:45: bistro_job->x.config.a[0].b: the key occurs twice; the first is at 3:37",
        ),
        (
            r#""filters": {"rack": {}}"#,
            r#"3:31: bistro_job->x.filters.rack: there is no level "rack"; known are instance, host, db, worker"#,
        ),
        (
            r#""filters": {"db": {"whitelist": "a"}}"#,
            r#"3:51: bistro_job->x.filters.db.whitelist: expected an array of strings, found "a""#,
        ),
        (
            r#""filters": {"db": {"whitelist_regex": "(?=a)"}}"#,
            r#"3:57: bistro_job->x.filters.db.whitelist_regex: no regular expression: look-around, including look-ahead and look-behind, is not supported; Rust's syntax: Perl's without look-around and backreferences"#,
        ),
        (
            r#""filters": {"db": {"fraction_of_nodes": 1.5}}"#,
            r#"3:59: bistro_job->x.filters.db.fraction_of_nodes: 1.5 is out of range; above 0, at most 1; a job without nodes is `"enabled": false`"#,
        ),
        (
            r#""level_for_host_placement": "hist""#,
            r#"3:47: bistro_job->x.level_for_host_placement: there is no level "hist"; did you mean `host`?"#,
        ),
        (
            r#""host_placement": {}"#,
            "3:37: bistro_job->x.host_placement: expected a string, found an empty object",
        ),
        (
            r#""depends_on": "y""#,
            r#"3:33: bistro_job->x.depends_on: expected an array of job names, found "y""#,
        ),
        (
            r#""depends_on": [""]"#,
            "3:34: bistro_job->x.depends_on[0]: the name is empty",
        ),
        (
            r#""command": "sleep 5""#,
            r#"3:30: bistro_job->x.command: expected an array of strings, found "sleep 5"; no shell splits it; write ["/bin/sh","-c","sleep 5","sh"], or each word on its own"#,
        ),
        (
            r#""command": ["a", "b\u0000"]"#,
            "3:36: bistro_job->x.command[1]: a NUL character, which no program argument can hold",
        ),
        (
            r#""command": [""]"#,
            "3:30: bistro_job->x.command: the program's name is empty",
        ),
        (
            r#""status_from": "exit-code""#,
            r#"3:34: bistro_job->x.status_from: expected one of the allowed words, found "exit-code"; did you mean `exit_code`? (allowed: auto, pipe, exit_code)"#,
        ),
        (
            r#""arguments": "all""#,
            r#"3:32: bistro_job->x.arguments: expected one of the allowed words, found "all"; allowed: append, none"#,
        ),
        (
            r#""timeout": "0s""#,
            r#"3:30: bistro_job->x.timeout: "0s" leaves a task no time; a duration above 0; without the key there is no limit"#,
        ),
        (
            r#""est_duration": 0.0001"#,
            "3:35: bistro_job->x.est_duration: 0.0001 is no time for a task; a duration above 0; without the key nobody can tell",
        ),
        (
            r#""est_duration": -1"#,
            "3:35: bistro_job->x.est_duration: -1 is out of range; seconds from 0 to 2147483647",
        ),
        (
            r#""bufferable": "perhaps""#,
            r#"3:33: bistro_job->x.bufferable: expected true or false, found "perhaps""#,
        ),
        (
            r#""report": "lasy""#,
            r#"3:29: bistro_job->x.report: expected one of the allowed words, found "lasy"; did you mean `lazy`? (allowed: immediate, lazy)"#,
        ),
        (
            r#""version_id": 1.5"#,
            "3:33: bistro_job->x.version_id: expected an integer, found 1.5; an integer from -9223372036854775808 to 9223372036854775807",
        ),
        (
            r#""run_only_after_all_nodes_are_done_for": [{}]"#,
            "3:61: bistro_job->x.run_only_after_all_nodes_are_done_for[0]: expected a string, found an empty object",
        ),
        (
            r#""enabled": true, "enabled": true"#,
            "3:36: bistro_job->x.enabled: the key occurs twice; the first is at 3:19",
        ),
        (
            r#""depends_on": ["x"]"#,
            "3:34: bistro_job->x.depends_on[0]: the job waits for itself: x -> x; remove one dependency of the cycle",
        ),
    ] {
        assert_eq!(job_problems(body), [expected], "{body}");
    }
}

#[test]
fn a_job_that_is_no_object_is_kept_with_its_error() {
    let parsed = good("", "\"bistro_job->x\": 5");
    assert_eq!(
        parsed.config.jobs[0].errors,
        ["3:18: bistro_job->x: expected an object, found 5"]
    );
    assert!(parsed.into_correct().is_err());
}

#[test]
fn names_that_no_job_can_have() {
    let long = "n".repeat(1025);
    let parsed = good(
        "",
        &format!(
            "\"bistro_job->\": {{}},\n\"bistro_job->__BISTRO_HEALTH_CHECK__\": {{}},\n\"bistro_job->{long}\": {{}},\n\"bistro_job->ok\": {{}}"
        ),
    );
    assert_eq!(parsed.config.jobs.len(), 1);
    let help = "a job's key is `bistro_job->NAME`";
    assert_eq!(
        lines(parsed.job_problems()),
        [
            format!("3:1: bistro_job->: the name is empty; {help}"),
            format!(
                "4:1: bistro_job->__BISTRO_HEALTH_CHECK__: healthchecks have this name; {help}"
            ),
            format!(
                "5:1: bistro_job->{}...: the name is 1025 bytes long; at most 1024 are allowed; {help}",
                &long[..88]
            ),
        ]
    );
}

#[test]
fn cycles_disable_each_job_in_them_and_no_other() {
    let parsed = good(
        "",
        "\"bistro_job->a\": {\"depends_on\": [\"b\"]},\n\
         \"bistro_job->b\": {\"depends_on\": [\"ok\", \"c\"]},\n\
         \"bistro_job->c\": {\"depends_on\": [\"a\", \"b\"]},\n\
         \"bistro_job->ok\": {},\n\
         \"bistro_job->after\": {\"depends_on\": [\"a\"]}",
    );
    let help = "remove one dependency of the cycle";
    assert_eq!(
        lines(parsed.job_problems()),
        [
            format!(
                "3:34: bistro_job->a.depends_on[0]: the job waits for itself: a -> b -> c -> a; {help}"
            ),
            format!(
                "4:40: bistro_job->b.depends_on[1]: the job waits for itself: b -> c -> b; {help}"
            ),
            format!(
                "5:34: bistro_job->c.depends_on[0]: the job waits for itself: c -> b -> c; {help}"
            ),
        ]
    );
    let can_run: Vec<bool> = parsed.config.jobs.iter().map(|job| job.can_run()).collect();
    assert_eq!(can_run, [false, false, false, true, true]);
}

#[test]
fn a_dependency_is_named_by_its_position_in_the_file() {
    assert_eq!(
        job_problems(r#""depends_on": [[], "x"]"#),
        [
            "3:34: bistro_job->x.depends_on[0]: expected a string, found an empty array",
            "3:38: bistro_job->x.depends_on[1]: the job waits for itself: x -> x; remove one dependency of the cycle",
        ]
    );
}

#[test]
fn a_cycle_may_go_over_both_ways_to_wait() {
    let parsed = good(
        "",
        "\"bistro_job->a\": {\"run_only_after_all_nodes_are_done_for\": [\"ok\", \"b\"]},\n\
         \"bistro_job->b\": {\"depends_on\": [\"a\"]},\n\
         \"bistro_job->ok\": {},\n\
         \"bistro_job->own\": {\"run_only_after_all_nodes_are_done_for\": [\"own\"]}",
    );
    let help = "remove one dependency of the cycle";
    assert_eq!(
        lines(parsed.job_problems()),
        [
            format!(
                "3:67: bistro_job->a.run_only_after_all_nodes_are_done_for[1]: the job waits for itself: a -> b -> a; {help}"
            ),
            format!(
                "4:34: bistro_job->b.depends_on[0]: the job waits for itself: b -> a -> b; {help}"
            ),
            format!(
                "6:63: bistro_job->own.run_only_after_all_nodes_are_done_for[0]: the job waits for itself: own -> own; {help}"
            ),
        ]
    );
}

#[test]
fn mistakes_of_retries_variables_and_directories() {
    let path = "bistro_job->x";
    for (body, expected) in [
        (
            r#""retries": -1"#,
            format!("3:30: {path}.retries: -1 is out of range; an integer from 0 to 1000"),
        ),
        (
            r#""retry_delay": "100ms""#,
            format!(
                "3:34: {path}.retry_delay: \"100ms\" is not a whole number of seconds; as in 10 or \"10s\""
            ),
        ),
        (
            r#""retry_delay": 0"#,
            format!(
                "3:34: {path}.retry_delay: 0 is too short for a wait between retries; one second or more, as in 10 or \"10s\""
            ),
        ),
        (
            r#""retries": 2, "backoff": ["fail"]"#,
            format!(
                "3:19: {path}.retries: there is no wait for these retries: the backoff has none; add `retry_delay`, as in \"10s\""
            ),
        ),
        (
            r#""env": {"A=B": "c"}"#,
            format!(
                "3:27: {path}.env.A=B: no variable of a job can have this name; a name that is not empty, without `=` and NUL"
            ),
        ),
        (
            r#""env": {"BRASSERIE_NODE": "c"}"#,
            format!(
                "3:27: {path}.env.BRASSERIE_NODE: no variable of a job can have this name; tasks find the worker's values in variables that begin so"
            ),
        ),
        (
            r#""env": {"A": []}"#,
            format!("3:32: {path}.env.A: expected a string, found an empty array"),
        ),
        (
            r#""env": {"A": "\u0000"}"#,
            format!(r#"3:32: {path}.env.A: a NUL character, which no variable can hold"#),
        ),
        (
            r#""cwd": """#,
            format!("3:26: {path}.cwd: this is no path; a directory of the worker's machine"),
        ),
        (
            r#""max_running": 0"#,
            format!("3:34: {path}.max_running: 0 is out of range; an integer from 1 to 2147483647"),
        ),
    ] {
        assert_eq!(job_problems(body), [expected], "{body}");
    }
    let large = format!(r#""env": {{"A": "{}"}}"#, "x".repeat(65_536));
    assert_eq!(
        job_problems(&large),
        [format!(
            "3:19: {path}.env: the variables have 65537 bytes, more than 65536; put them into a file that tasks read"
        )]
    );
}

#[test]
fn a_job_by_api_has_no_relative_paths() {
    let name = JobName::try_from("x").unwrap();
    let read = |text: &str| parse_job(&name, text, &config(""), ParseOptions::default()).unwrap();
    assert_eq!(
        lines(&read(r#"{"cwd": "here"}"#).problems),
        ["1:9: cwd: the path \"here\" is relative, and the job is in no file; name the whole path"]
    );
    for program in ["./x.sh", "../x.sh"] {
        let told = format!(
            "1:14: command[0]: the program \"{program}\" is relative, and the job is in no file; write the whole path, or a name that \
             workers look up"
        );
        let body = format!(r#"{{"command": ["{program}", "/a"]}}"#);
        assert_eq!(lines(&read(&body).problems), [told]);
    }
    assert_eq!(read(r#"{"cwd": "/here", "command": ["x"]}"#).problems, []);
}

/// The job would run the worker's default program if this were no error.
#[test]
fn a_job_without_a_command_that_has_a_misspelt_one() {
    let help = "unknown key, and the job has no `command`; did you mean `command`?";
    for key in ["comand", "commnad", "Command", "commands"] {
        assert_eq!(
            job_problems(&format!("\"owner\": \"a\", \"{key}\": [\"true\"]")),
            [format!("3:33: bistro_job->x.{key}: {help}")]
        );
    }
    let warnings =
        |body: &str| lines(&good("", &format!("\"bistro_job->x\": {{{body}}}")).warnings);
    assert_eq!(
        warnings("\"comment\": \"nightly\""),
        ["3:19: bistro_job->x.comment: unknown key; did you mean `command`?"],
        "a word of its own; the program may be the worker's"
    );
    assert_eq!(
        warnings("\"comand\": [\"a\"], \"command\": [\"b\"]"),
        ["3:19: bistro_job->x.comand: unknown key; did you mean `command`?"]
    );
    // Only `config check` warns, because workers may have a default command.
    let text = file(
        "",
        "\"bistro_job->x\": {},\n\"bistro_job->y\": {\"command\": [\"true\"]}",
    );
    assert_eq!(parse(&text, ParseOptions::default()).unwrap().warnings, []);
    assert_eq!(
        lines(&checked(text.as_bytes()).warnings),
        [
            "3:1: bistro_job->x: there is no `command`, so tasks start only on workers with `--worker-command`; name the program and its arguments in `command`"
        ]
    );
}

#[test]
fn programs_that_no_task_can_run_are_worth_a_look() {
    let found = |job: &str| {
        let text = file("", &format!("\"bistro_job->x\": {{{job}}}"));
        let fault = |path: &str, of_use| {
            let is_missing = path != "./here" && of_use == PathUse::Program;
            is_missing.then(|| format!("/conf/{path} is missing"))
        };
        lines(&checked_with(text.as_bytes(), fault).warnings)
    };
    for job in [
        r#""command": ["./here"]"#,
        r#""command": ["here", "./gone"]"#,
        r#""command": ["/gone"]"#,
        r#""command": ["bin/x"], "cwd": "/srv""#,
    ] {
        assert_eq!(found(job), [""; 0], "{job}");
    }
    let help = "the path begins in the config file's folder: put the program there, or write its whole path";
    assert_eq!(
        found(r#""command": ["../gone", "a"]"#),
        [format!(
            "3:31: bistro_job->x.command[0]: tasks on this machine cannot run \"../gone\": /conf/../gone is missing; {help}"
        )]
    );
    let in_working_directory = "3:31: bistro_job->x.command[0]: the program \"bin/x\" is relative to each task's working directory, and the job has no `cwd`; begin it with `./` if it is relative to the config file's folder, or write its whole path";
    assert_eq!(found(r#""command": ["bin/x"]"#), [in_working_directory]);
}

#[test]
fn scripts_and_working_directories_that_are_missing_are_worth_a_look() {
    let source = |path: &str| {
        format!(
            r#"{{"source": "script", "prefs": {{"parent_level": "instance", "script": "{path}"}}}}"#
        )
    };
    let text = format!(
        "{{\"bistro_settings\": {{\"nodes\": {{\"levels\": [\"l\"], \"node_source\": \"script\",\n\
         \"node_source_prefs\": {{\"parent_level\": \"instance\", \"script\": \"old\"}},\n\
         \"node_sources\": [{},\n{}]}}}},\n\
         \"bistro_job->x\": {{\"command\": [\"c\"], \"cwd\": \"/srv\"}},\n\
         \"bistro_job->y\": {{\"command\": [\"c\"], \"cwd\": \"here\"}}}}",
        source("here"),
        source("gone")
    );
    let fault =
        |path: &str, of_use: PathUse| (path != "here").then(|| format!("{path} is no {of_use:?}"));
    let script = "the scheduler's machine needs the program, whose path begins in the config file's folder if it is relative";
    let directory = "each worker's machine needs the directory, which begins in the config file's folder if its path is relative";
    let mut found = lines(&checked_with(text.as_bytes(), fault).warnings);
    found.sort();
    assert_eq!(
        found,
        [
            format!(
                "2:61: bistro_settings.nodes.node_source_prefs.script: the scheduler cannot run \"old\": old is no Program; {script}"
            ),
            format!(
                "4:70: bistro_settings.nodes.node_sources[1].prefs.script: the scheduler cannot run \"gone\": gone is no Program; {script}"
            ),
            format!(
                "5:44: bistro_job->x.cwd: tasks on this machine cannot start in \"/srv\": /srv is no WorkingDirectory; {directory}"
            ),
        ]
    );
}

#[test]
fn a_command_line_in_one_item_is_worth_a_look() {
    let found = |command: &str| {
        let text = file(
            "",
            &format!("\"bistro_job->x\": {{\"command\": {command}}}"),
        );
        let lines = lines(&checked(text.as_bytes()).warnings);
        lines
            .into_iter()
            .filter(|line| line.contains("bistro_job->x"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(r#"["echo hi"]"#),
        [
            r#"3:31: bistro_job->x.command[0]: no program is called "echo hi"; write each argument as an item of its own, as in ["echo", "ARGUMENT"]"#
        ]
    );
    for command in [
        r#"["echo"]"#,
        r#"["/opt/my tools/run"]"#,
        r#"["sh", "-c", "echo hi"]"#,
    ] {
        assert_eq!(found(command), [""; 0], "{command}");
    }
}

#[test]
fn a_shell_that_takes_the_nodes_name_as_its_own_is_worth_a_look() {
    let found = |job: &str| lines(&good("", &format!("\"bistro_job->x\": {{{job}}}")).warnings);
    assert_eq!(
        found(r#""command": ["/bin/sh", "-ec", "dump $1"]"#),
        [
            r#"3:49: bistro_job->x.command[2]: the script uses $1, but the shell assigns the first argument after the script, the node's name, to $0; add a word after the script, such as "sh", which becomes $0; then $1 is the node's name"#
        ]
    );
    for job in [
        r#""command": ["bash", "-c", "run \"$@\""]"#,
        r#""command": ["bash", "-e", "-o", "pipefail", "-c", "awk '{print $1}' < $2"]"#,
    ] {
        assert_eq!(found(job).len(), 1, "{job}");
    }
    for job in [
        r#""command": ["sh", "-c", "ls | awk '{print $1}'"]"#,
        r#""command": ["sh", "-c", "ssh host \"dump \\$1\""]"#,
        r#""command": ["sh", "-c", "dump $1", "sh"]"#,
        r#""command": ["sh", "-c", "dump $0 $1"]"#,
        r#""command": ["sh", "-c", "dump $BRASSERIE_NODE"]"#,
        r#""command": ["sh", "-c", "dump $1"], "arguments": "none""#,
        r#""command": ["perl", "-c", "$1"]"#,
        r#""command": ["sh", "script", "$1"]"#,
    ] {
        assert_eq!(found(job), [""; 0], "{job}");
    }
}

#[test]
fn a_user_beside_the_keys_of_a_job_is_an_error() {
    let parsed = good("", r#""bistro_job->x": {"command": ["c"], "user": "ann"}"#);
    let problems: Vec<String> = parsed
        .job_problems()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            r#"3:37: bistro_job->x.user: `user` is a key of `task_subprocess`; write "task_subprocess": {"user": ...}"#
        ]
    );
    assert_eq!(parsed.warnings, []);
}

#[test]
fn a_program_that_would_read_the_status_pipe_is_worth_a_look() {
    let found = |job: &str| lines(&good("", &format!("\"bistro_job->x\": {{{job}}}")).warnings);
    assert_eq!(
        found(r#""command": ["/usr/bin/wc", "-l"]"#),
        [
            r#"3:31: bistro_job->x.command[0]: "wc" reads all of its arguments as files, and the scheduler appends three, of which the second is a pipe that never ends; write ["/bin/sh", "-c", "wc \"$1\"", "sh"], or "arguments": "none""#
        ]
    );
    assert_eq!(
        found(r#""command": ["cat", "f"], "arguments": "none""#),
        [""; 0]
    );
}

#[test]
fn needs_above_the_limit_are_worth_a_look() {
    let found = |settings: &str, job: &str| {
        let resources = r#"{"host": {"disk": {"default": 1, "limit": 0}}, "db": {"io": {"default": 0, "limit": 2}}, "worker": {"ram": {"default": 4, "limit": 8}}}"#;
        let text = file(
            &format!("\"resources\": {resources}{settings}"),
            &format!("\"bistro_job->x\": {{\"command\": [\"true\"]{job}}}"),
        );
        lines(&checked(text.as_bytes()).warnings)
    };
    let help = |level: &str, name: &str| {
        format!(
            "so no task of the job ever starts; lower the need in `resources` of the job, or raise `resources.{level}.{name}.limit` of the settings"
        )
    };
    assert_eq!(
        found("", ""),
        [format!(
            "3:1: bistro_job->x: by default, a task needs 1 of `disk`, and the limit of level `host` is 0, {}",
            help("host", "disk")
        )]
    );
    let above = |job: &str| found("", &format!(", \"resources\": {{\"disk\": 0, {job}}}"));
    assert_eq!(above(r#""io": 2, "ram": 8"#), [""; 0]);
    assert_eq!(
        above(r#""ram": 9"#),
        [format!(
            "3:72: bistro_job->x.resources.ram: a task needs 9 of `ram`, and the limit of level `worker` is 8, {}",
            help("worker", "ram")
        )]
    );
    // Tasks at level `host` take nothing of nodes below, and some workers may have more than the limit.
    let job = r#", "level_for_tasks": "host", "resources": {"disk": 0, "io": 3, "ram": 9}"#;
    for settings in [
        r#", "worker_resources_override": {"big": {"ram": 9}}"#,
        r#", "physical_resources": {"ram_mb": {"logical_resource": "ram"}}"#,
    ] {
        assert_eq!(found(settings, job), [""; 0], "{settings}");
    }
    assert_eq!(found("", job).len(), 1);
}

#[test]
fn problems_beyond_the_limit_are_counted() {
    let jobs: Vec<String> = (0..1000)
        .map(|i| format!("\"bistro_job->j{i}\": {{\"priority\": [], \"x\": 1}}"))
        .collect();
    let text = file("", &jobs.join(",\n"));
    let findings = checked(text.as_bytes());
    assert_eq!((findings.errors.len(), findings.more_errors), (200, 800));
    assert_eq!(
        (findings.warnings.len(), findings.more_warnings),
        (200, 800)
    );
    let parsed = parse(&text, ParseOptions::default()).unwrap();
    for problems in [parsed.job_problems(), &parsed.warnings] {
        assert_eq!(problems.len(), 201);
        assert_eq!(problems[200].message, "800 more problems are not shown");
    }
    assert!(parsed.config.jobs.iter().all(|job| !job.can_run()));
    let ConfigErrors(errors) = parse(
        &text.replace("\"nodes\"", "\"ndoes\""),
        ParseOptions::default(),
    )
    .unwrap_err();
    assert_eq!(errors.len(), 201);
}

#[test]
fn a_long_cycle_is_told_in_short() {
    let ring = |n: usize| {
        let jobs: Vec<String> = (0..n)
            .map(|i| {
                format!(
                    "\"bistro_job->j{i}\": {{\"depends_on\": [\"j{}\"]}}",
                    (i + 1) % n
                )
            })
            .collect();
        good("", &jobs.join(",\n")).config.jobs[0].errors.clone()
    };
    assert_eq!(
        ring(12),
        [
            "3:35: bistro_job->j0.depends_on[0]: the job waits for itself: j0 -> j1 -> j2 -> j3 -> j4 -> j5 -> j6 -> j7 -> j8 -> j9 -> ... -> j0; remove one dependency of the cycle"
        ]
    );
    assert_eq!(
        ring(20_000),
        [
            "3:35: bistro_job->j0.depends_on[0]: the job waits for itself, tied up with 19999 others; remove one dependency of the cycle"
        ]
    );
}

#[test]
fn priorities_are_shares_under_randomized_priority_only() {
    let problems = |policy: &str| {
        let settings = format!("\"scheduler\": \"{policy}\"");
        good(&settings, "\"bistro_job->x\": {\"priority\": -1}")
            .job_problems()
            .to_vec()
    };
    assert_eq!(problems("ranked_priority"), []);
    assert_eq!(
        lines(&problems("randomized_priority")),
        [
            "3:31: bistro_job->x.priority: a negative priority is no share of the starts; 0 or more under `randomized_priority`"
        ]
    );
}

#[test]
fn a_key_that_looks_like_a_job_names_the_job_that_was_meant() {
    for (key, job) in [
        ("bistro_job-j", "j"),
        ("bistro_job:j", "j"),
        ("Bistro_Job=>j", "j"),
        ("bistro_jobs->j", "j"),
        ("bistro-job->a b", "a b"),
        ("bistrojob->j", "j"),
        ("bisto_job->j", "j"),
        ("job->j", "j"),
        ("bistro_job_j", "j"),
    ] {
        let warnings = lines(&good("", &format!("\"{key}\": {{}}")).warnings);
        let meant = format!("unknown key, so it makes no job; did you mean \"bistro_job->{job}\"?");
        assert!(warnings[0].ends_with(&meant), "{key}: {warnings:?}");
    }
    for comment in ["_comment", "job_notes", "jobs", "bistro_jobs", "note->x"] {
        let warnings = lines(&good("", &format!("\"{comment}\": {{}}")).warnings);
        assert!(!warnings[0].contains("makes no job"), "{warnings:?}");
    }
}

#[test]
fn a_file_with_settings_alone_is_found_by_a_check() {
    let none = "the file has settings and no job, so nothing runs by it; a job is a key `bistro_job->NAME`";
    let told = |rest: &str| lines(&checked(file("", rest).as_bytes()).warnings);
    assert_eq!(told(""), [format!("1:2: bistro_settings: {none}")]);
    assert!(
        !told("\"bistro_job->x\": {\"command\": [\"a\"]}")
            .iter()
            .any(|w| w.contains(none))
    );
    assert_eq!(
        parse(&file("", ""), ParseOptions::default())
            .unwrap()
            .warnings,
        []
    );
}

#[test]
fn unknown_keys_are_warnings_or_errors() {
    let text = file(
        "\"enabeld\": true, \"nonsense\": 1",
        "\"bistro_job>y\": {},\n\"_comment\": \"a\",\n\"_comment\": \"b\",\n\"bistro_job->x\": {\"priorty\": 1, \"filters\": {\"db\": {\"blaklist\": []}}}",
    );
    let expected = [
        "2:1: bistro_settings.enabeld: unknown key; did you mean `enabled`?",
        "2:18: bistro_settings.nonsense: unknown key; known are enabled, working_wait, idle_wait, scheduler, remote_worker_selector, standby, backoff, nodes, node_order, level_for_tasks, resources, worker_resources_override, worker_resources_overrides, physical_resources, kill_orphan_tasks_after_sec, task_subprocess, kill_subprocess, kill_request, CAUTION_exit_initial_wait_before_timestamp",
        "3:1: bistro_job>y: unknown key, so it makes no job; did you mean \"bistro_job->y\"?",
        "4:1: _comment: unknown key; known are bistro_settings, bistro_job->NAME",
        "5:1: _comment: the key occurs twice; the first is at 4:1",
        "6:19: bistro_job->x.priorty: unknown key; did you mean `priority`?",
        "6:52: bistro_job->x.filters.db.blaklist: unknown key; did you mean `blacklist`?",
    ];
    let parsed = parse(&text, ParseOptions::default()).unwrap();
    assert_eq!(lines(&parsed.warnings), expected);
    assert_eq!(parsed.job_problems(), []);
    let strict = ParseOptions {
        unknown_keys: UnknownKeys::Refuse,
        ..ParseOptions::default()
    };
    assert_eq!(lines(&parse(&text, strict).unwrap_err().0), expected);
}

#[test]
fn an_unknown_key_of_a_job_refuses_the_file_too() {
    let strict = ParseOptions {
        unknown_keys: UnknownKeys::Refuse,
        ..ParseOptions::default()
    };
    let of = |job: &str| parse(&file("", &format!("\"bistro_job->x\": {{{job}}}")), strict);
    assert!(of("\"priority\": 2").is_ok());
    assert!(of("\"priority\": []").is_ok(), "disables the job only");
    assert_eq!(
        lines(&of("\"priority\": [], \"prio\": 2").unwrap_err().0),
        [
            "3:31: bistro_job->x.priority: expected a number, found an empty array",
            "3:35: bistro_job->x.prio: unknown key; known are enabled, owner, level_for_tasks, priority, resources, config, filters, level_for_host_placement, host_placement, backoff, retries, retry_delay, depends_on, run_only_after_all_nodes_are_done_for, create_time, modify_time, kill_orphan_tasks_after_sec, task_subprocess, kill_subprocess, kill_request, command, env, cwd, max_running and 13 more",
        ]
    );
}

#[test]
fn a_retry_delay_without_retries_has_no_effect() {
    for (backoff, column) in [("\"backoff\": [\"fail\"]", 40), ("\"retries\": 0", 33)] {
        let job = format!("\"bistro_job->x\": {{{backoff}, \"retry_delay\": \"10s\"}}");
        assert_eq!(
            lines(&good("", &job).warnings),
            [format!(
                "3:{column}: bistro_job->x.retry_delay: has no effect: no task of this job runs again after an error; say in `retries` how often a task runs again"
            )]
        );
    }
}

#[test]
fn warnings() {
    let warnings = |settings: &str, rest: &str| lines(&good(settings, rest).warnings);
    assert_eq!(
        warnings(
            "",
            "\"bistro_job->x\": {\"depends_on\": [\"yy\", \"x1\"]},\n\"bistro_job->x2\": {}"
        ),
        [
            "3:34: bistro_job->x.depends_on[0]: there is no job \"yy\", so no task will start",
            "3:40: bistro_job->x.depends_on[1]: there is no job \"x1\", so no task will start; did you mean `x2`?",
        ]
    );
    assert_eq!(
        warnings(
            "",
            "\"bistro_job->x\": {\"run_only_after_all_nodes_are_done_for\": [\"yy\", \"off\", \"bad\", \"on\"]},\n\
             \"bistro_job->off\": {\"enabled\": false}, \"bistro_job->bad\": {\"priority\": []},\n\
             \"bistro_job->on\": {\"level_for_tasks\": \"host\"}"
        ),
        [
            "3:61: bistro_job->x.run_only_after_all_nodes_are_done_for[0]: there is no job \"yy\", so no task will start",
            "3:67: bistro_job->x.run_only_after_all_nodes_are_done_for[1]: the job \"off\" is disabled, so no task will start",
            "3:74: bistro_job->x.run_only_after_all_nodes_are_done_for[2]: the job \"bad\" has errors, so no task will start",
        ]
    );
    assert_eq!(
        warnings(
            "",
            "\"bistro_job->x\": {\"est_duration\": 90, \"deadline\": 30, \"timeout\": \"1m\"},\n\"bistro_job->y\": {\"est_duration\": 60, \"deadline\": 60}"
        ),
        [
            "3:35: bistro_job->x.est_duration: above the job's `timeout` of 1m: each task would be killed before its end",
            "3:35: bistro_job->x.est_duration: above the job's `deadline` of 30s: each task would miss it on any worker",
        ]
    );
    assert_eq!(
        warnings("\"backoff\": [1, \"fail\", 2]", ""),
        ["2:24: bistro_settings.backoff[2]: has no effect after \"repeat\" or \"fail\""]
    );
    assert_eq!(
        warnings("\"level_for_tasks\": \"worker\"", ""),
        [
            "2:20: bistro_settings.level_for_tasks: no node is at the level `worker`, so there will be no task"
        ]
    );
    let text = "{\"bistro_settings\": {\"nodes\": {\"levels\": [\"a\"]}}}";
    assert_eq!(
        lines(&parse(text, ParseOptions::default()).unwrap().warnings),
        [
            "1:22: bistro_settings.nodes: there is no node source, so only the instance node exists; name some in `nodes.node_sources`"
        ]
    );
    let text = "{\"bistro_settings\": {\"nodes\": {\"levels\": [\"a\"], \"node_sources\": [{\"source\": \"range_label\", \"prefs\":\n{\"parent_level\": \"instance\", \"start\": 2, \"end\": 1, \"format\": \"{parent}\"}}]}}}";
    let prefs = "bistro_settings.nodes.node_sources[0].prefs";
    assert_eq!(
        lines(&parse(text, ParseOptions::default()).unwrap().warnings),
        [
            format!("2:49: {prefs}.end: there is no number from 2 to 1"),
            format!(
                "2:62: {prefs}.format: without `{{i}}` all children of a node have the same name"
            ),
        ]
    );
}

#[test]
fn twenty_mistakes_are_reported_at_once_in_file_order() {
    let text = r#"{
"bistro_settings": {
 "enabled": "maybe",
 "working_wait": [],
 "scheduler": "fair",
 "remote_worker_selector": 5,
 "backoff": [3, 2],
 "nodes": {
  "levels": ["host", "worker"],
  "node_order": "up",
  "node_sources": [
   {"source": "scrip"},
   {"source": "range_label", "prefs": {"parent_level": "rack", "start": "a", "end": 5}}
  ]
 },
 "level_for_tasks": "db",
 "resources": {"host": {"disk": {"default": 1.5, "limit": 1}}},
 "kill_orphan_tasks_after_sec": "x",
 "task_subprocess": {"poll_ms": "often"},
 "kill_subprocess": {"method": "gently"},
 "enabled": true
},
"bistro_job->a": {
 "command": "ls",
 "priority": {},
 "backoff": ["never"],
 "depends_on": ["a"]
},
"bistro_job->b": {
 "filters": {"host": {"whitelist_regex": "("}}
}
}"#;
    let errors = parse(text, ParseOptions::default()).unwrap_err();
    let found: Vec<u32> = errors.0.iter().map(|p| p.line).collect();
    let expected = [
        3, 4, 5, 6, 7, 9, 10, 12, 13, 13, 16, 17, 18, 19, 20, 21, 24, 25, 26, 27, 30,
    ];
    assert_eq!(found, expected, "{errors}");
    assert!(errors.0.iter().all(|p| !p.key_path.is_empty()));
    let printed = errors.display_with("dir/c.json");
    assert_eq!(printed.lines().count(), 21);
    assert!(printed.lines().all(|l| l.starts_with("dir/c.json:")));
}

#[test]
fn problems_without_end_are_counted_instead_of_listed() {
    let items = vec!["{}"; 5000].join(",");
    let parsed = good(
        "",
        &format!("\"bistro_job->x\": {{\"command\": [{items}]}}"),
    );
    assert_eq!(parsed.job_problems().len(), 201);
    assert_eq!(
        parsed.job_problems()[200].message,
        "4800 more problems are not shown"
    );
}

#[test]
fn a_file_of_mistakes_only_is_read_to_its_end() {
    let resources: Vec<String> = (0..1000)
        .map(|i| format!("\"resource_number_{i}\": {{\"default\": 1, \"limit\": 1}}"))
        .collect();
    let unknown: Vec<String> = (0..50_000)
        .map(|i| format!("\"resource_nunber_{i}\": 1"))
        .collect();
    let unknown = unknown.join(",");
    let parsed = good(
        &format!("\"resources\": {{\"host\": {{{}}}}}", resources.join(",")),
        &format!("\"bistro_job->x\": {{\"resources\": {{{unknown}}}, {unknown}}}"),
    );
    for problems in [parsed.job_problems(), &parsed.warnings] {
        assert_eq!(problems.len(), 201);
        assert_eq!(problems[200].message, "49800 more problems are not shown");
    }
}
