//! Tests that the inputs of a job are checked against the jobs from which they come.

use super::*;

/// Returns the errors of a file with the job `x` at level `db`, which begins on the third line with `"bistro_job->x": {"inputs": [`.
fn errors_across(inputs: &str, others: &str) -> Vec<String> {
    let jobs = format!("\"bistro_job->x\": {{\"inputs\": [{inputs}]}},\n{others}");
    let parsed = good("", &jobs);
    assert_eq!(parsed.warnings, [], "{inputs}");
    lines(parsed.job_problems())
}

#[test]
fn an_input_is_an_output_of_its_job() {
    let of = |inputs: &str, outputs: &str| {
        let other = format!("\"bistro_job->y\": {{\"outputs\": {outputs}}}");
        errors_across(inputs, &other)
    };
    let outputs = r#"["table.parquet", "stats/"]"#;
    for (inputs, outputs, expected) in [
        (r#"{"from": "y"}"#, outputs, ""),
        (r#"{"from": "y", "path": "stats/"}"#, outputs, ""),
        (
            r#"{"from": "y", "path": "stats"}"#,
            outputs,
            "3:52: bistro_job->x.inputs[0].path: the job \"y\" has no output \"stats\"; did you mean `stats/`? It is a folder, whose path ends with `/`",
        ),
        (
            r#"{"from": "y", "path": "d"}"#,
            r#"["f", "d/"]"#,
            "3:52: bistro_job->x.inputs[0].path: the job \"y\" has no output \"d\"; did you mean `d/`? It is a folder, whose path ends with `/`",
        ),
        (
            r#"{"file": "f"}, {"from": "y", "path": "index"}"#,
            outputs,
            "3:67: bistro_job->x.inputs[1].path: the job \"y\" has no output \"index\"; known are table.parquet, stats/",
        ),
        (
            r#"{"from": "y", "path": "a"}"#,
            "[]",
            "3:39: bistro_job->x.inputs[0].from: the job \"y\" has no `outputs`; list the files that its tasks leave in `outputs` of \"y\"",
        ),
        (
            r#"{"from": "y", "path": "b"}"#,
            r#"["a", "/b"]"#,
            "4:36: bistro_job->y.outputs[1]: \"/b\" is no path of an output: an output is below the working directory of its task, so its path does not begin with `/`; as in \"table.parquet\", or \"stats/\" for a folder",
        ),
        (
            r#"{"from": "y", "path": "b"}"#,
            r#"["a"], "errors": ["an output was wrong"]"#,
            "4:47: bistro_job->y.errors: the job was exported with errors; mend what they name, then remove this key",
        ),
    ] {
        let found = of(inputs, outputs);
        assert_eq!(found.join("\n"), expected, "{inputs} {outputs}");
    }
}

#[test]
fn the_nearest_output_is_searched_for_the_first_mistakes_only() {
    let input = |i: usize| format!(r#"{{"from": "y", "path": "stat/", "as": "i{i}"}}"#);
    let inputs: Vec<String> = (0..101).map(input).collect();
    let other = "\"bistro_job->y\": {\"outputs\": [\"stats/\"]}";
    let found = errors_across(&inputs.join(","), other);
    let helped = found.iter().filter(|line| line.contains("did you mean"));
    assert_eq!((found.len(), helped.count()), (101, 100));
}

#[test]
fn the_levels_of_both_jobs_fit_the_nodes_of_an_input() {
    let of = |node: &str, level: &str| {
        let other = format!(
            "\"bistro_job->y\": {{\"outputs\": [\"a\"], \"level_for_tasks\": \"{level}\"}}"
        );
        errors_across(
            &format!("{{\"from\": \"y\", \"node\": \"{node}\"}}"),
            &other,
        )
    };
    let told = |on: &str, level: &str, fitting: &str| {
        format!(
            "3:52: bistro_job->x.inputs[0].node: the job's tasks are on nodes of level `db`, and no task of \"y\" is on {on}: its tasks are at level `{level}`; set `node` to \"{fitting}\", or change `level_for_tasks` of one of the jobs"
        )
    };
    for (node, level) in [
        ("same", "db"),
        ("parent", "host"),
        ("all", "db"),
        ("all", "instance"),
    ] {
        assert_eq!(of(node, level), [""; 0], "{node} {level}");
    }
    let (parent, child) = ("the parent of such a node", "a child of such a node");
    for (node, level, on, fitting) in [
        ("same", "host", "the same node", "parent"),
        ("same", "instance", "the same node", "all"),
        ("parent", "db", parent, "same"),
        ("parent", "instance", parent, "all"),
        ("children", "db", child, "same"),
        ("children", "host", child, "parent"),
    ] {
        assert_eq!(
            of(node, level),
            [told(on, level, fitting)],
            "{node} {level}"
        );
    }
}

#[test]
fn an_input_of_the_same_node_without_the_key_is_checked_where_its_job_is_named() {
    let other = "\"bistro_job->y\": {\"outputs\": [\"a\"], \"level_for_tasks\": \"host\"}";
    assert_eq!(
        errors_across(r#"{"from": "y"}"#, other),
        [
            "3:39: bistro_job->x.inputs[0].from: the job's tasks are on nodes of level `db`, and no task of \"y\" is on the same node: its tasks are at level `host`; set `node` to \"parent\", or change `level_for_tasks` of one of the jobs"
        ]
    );
    let children = format!(
        "{other},\n\"bistro_job->z\": {{\"level_for_tasks\": \"instance\", \"inputs\": [{{\"from\": \"y\", \"node\": \"children\"}}]}}"
    );
    assert_eq!(errors_across("", &children), [""; 0]);
}

#[test]
fn an_input_with_two_mistakes_has_both_reported() {
    let other = "\"bistro_job->y\": {\"outputs\": [\"a\"], \"level_for_tasks\": \"host\"}";
    let found = errors_across(
        r#"{"from": "y", "path": "b"}, {"from": "y", "path": "b", "node": "parent"}"#,
        other,
    );
    let places: Vec<&str> = found
        .iter()
        .filter_map(|line| line.split(": ").nth(1))
        .collect();
    assert_eq!(
        places,
        [
            "bistro_job->x.inputs[0].from",
            "bistro_job->x.inputs[0].path",
            "bistro_job->x.inputs[1]",
            "bistro_job->x.inputs[1].path",
        ],
        "{found:#?}"
    );
}

/// Returns the warnings that only `config check` prints, without those about missing commands.
fn questions(jobs: &str) -> Vec<String> {
    let found = lines(&checked(file("", jobs).as_bytes()).warnings);
    let is_other = |line: &String| !line.contains("there is no `command`");
    found.into_iter().filter(is_other).collect()
}

#[test]
fn inputs_that_may_never_be_made_are_worth_a_look() {
    let of = |input: &str, other: &str| {
        let own = r#""filters": {"db": {"whitelist": ["a"]}}"#;
        questions(&format!(
            "\"bistro_job->x\": {{\"inputs\": [{input}], {own}}},\n\"bistro_job->y\": {{\"outputs\": [\"o\"], {other}}}"
        ))
    };
    let from_y = r#"{"from": "y"}"#;
    let parent = r#"{"from": "y", "node": "parent"}"#;
    assert_eq!(
        of(from_y, r#""enabled": false"#),
        [
            "3:39: bistro_job->x.inputs[0].from: the job \"y\" is disabled, so it leaves no outputs; enable \"y\", or disable this job, too"
        ]
    );
    let filtered = [
        "3:39: bistro_job->x.inputs[0].from: the job \"y\" has `filters` that this job does not have: a task waits for ever if they leave out the node of its input; give both jobs the same `filters`, if \"y\" runs on fewer nodes",
    ];
    let other = r#""filters": {"db": {"whitelist": ["b"]}}"#;
    assert_eq!(of(from_y, other), filtered);
    let above = r#""level_for_tasks": "host", "filters": {"host": {"whitelist": ["h"]}}"#;
    assert_eq!(of(parent, above), filtered);
    for (input, fitting) in [
        (from_y, r#""filters": {"db": {"whitelist": ["a"]}}"#),
        (from_y, r#""enabled": true"#),
        (r#"{"from": "y", "node": "all"}"#, other),
    ] {
        assert_eq!(of(input, fitting), [""; 0], "{input} {fitting}");
    }
}

#[test]
fn outputs_that_are_kept_for_no_reader_are_worth_a_look() {
    let of = |keep: &str, inputs: &str| {
        questions(&format!(
            "\"bistro_job->x\": {{\"outputs\": [\"a\"], \"keep\": \"{keep}\"}},\n\"bistro_job->y\": {{\"inputs\": [{inputs}]}}"
        ))
    };
    assert_eq!(
        of("until_consumed", ""),
        [
            "3:45: bistro_job->x.keep: no job of the file has these outputs as inputs, so they are kept for ever; name the job in `inputs` of another one, or keep the outputs for a time, as in \"7d\""
        ]
    );
    assert_eq!(of("until_consumed", r#"{"from": "x"}"#), [""; 0]);
    assert_eq!(of("forever", ""), [""; 0]);
}

#[test]
fn a_task_that_would_have_too_many_artifacts_is_warned_of() {
    let findings = |nodes: u32, input: &str, filters: &str| {
        let text = format!(
            r#"{{"bistro_settings": {{"resources": {{}}, "nodes": {{"levels": ["a", "b"], "node_sources": [
                {{"source": "manual", "prefs": {{"a1": [], "a2": []}}}},
                {{"source": "range_label", "prefs": {{"parent_level": "a", "format": "{{parent}}-{{i}}", "start": 1, "end": {nodes}}}}}]}}}},
            "bistro_job->make": {{"command": ["/bin/true"], "outputs": ["x", "y"] {filters}}},
            "bistro_job->sum": {{"command": ["/bin/true"], "level_for_tasks": "instance", "inputs": [{{"file": "f"}}, {input}]}}}}"#
        );
        let found = checked(text.as_bytes());
        assert_eq!(lines(&found.errors), [""; 0], "{text}");
        lines(&found.warnings)
    };
    let all = r#"{"from": "make", "node": "all"}"#;
    let one = r#"{"from": "make", "node": "all", "path": "x"}"#;
    let found = findings(16_385, all, "");
    let text = "bistro_job->sum.inputs[1].from: the inputs of a task are 65540 artifacts, and at most 65536 are possible";
    assert!(found.len() == 1 && found[0].contains(text), "{found:?}");
    assert_eq!(findings(16_384, all, ""), [""; 0]);
    assert_eq!(findings(16_385, one, ""), [""; 0]);
    let filtered = r#", "filters": {"b": {"fraction_of_nodes": 0.5}}"#;
    assert_eq!(findings(16_385, all, filtered), [""; 0]);
}
