//! Tests of `outputs` and `keep`.

use std::time::Duration;

use super::*;

/// Returns the errors and the warnings of a job whose body is on the third line, which begins with the 18 characters `"bistro_job->x": {`.
fn found(body: &str) -> (Vec<String>, Vec<String>) {
    let parsed = good("", &format!("\"bistro_job->x\": {{{body}}}"));
    let errors = lines(parsed.job_problems());
    assert_eq!(parsed.config.jobs[0].errors, errors);
    (errors, lines(&parsed.warnings))
}

fn errors(body: &str) -> Vec<String> {
    let (errors, warnings) = found(body);
    assert_eq!(warnings, [""; 0], "{body}");
    errors
}

fn output(path: &str, replicas: u8, wait_for_replica: bool) -> JobOutput {
    JobOutput {
        path: path.try_into().unwrap(),
        replicas: Replicas::new(replicas).unwrap(),
        wait_for_replica,
    }
}

#[test]
fn a_job_lists_its_outputs() {
    let job = job(
        r#""outputs": ["table.parquet", "stats/", {"path": "index.bin", "replicas": 2, "wait_for_replica": true},
        {"path": 5, "replicas": "8", "wait_for_replica": "no"}, {"path": "logs/a b.txt"}]"#,
    );
    assert_eq!(
        job.outputs,
        [
            output("table.parquet", 1, false),
            output("stats/", 1, false),
            output("index.bin", 2, true),
            output("5", 8, false),
            output("logs/a b.txt", 1, false),
        ]
    );
    assert!(super::job("").outputs.is_empty());
}

#[test]
fn outputs_are_kept_for_a_week_or_as_the_job_says() {
    let week = KeepOutputs::For(Duration::from_secs(7 * 86400));
    assert_eq!((job("").keep, KeepOutputs::default()), (week, week));
    for (keep, expected) in [
        ("\"7d\"", week),
        ("\"90 min\"", KeepOutputs::For(Duration::from_secs(5400))),
        ("1.5", KeepOutputs::For(Duration::from_millis(1500))),
        ("\"until_consumed\"", KeepOutputs::UntilConsumed),
        ("\"while_held\"", KeepOutputs::WhileHeld),
        ("\"forever\"", KeepOutputs::Forever),
    ] {
        let job = job(&format!(r#""outputs": ["a"], "keep": {keep}"#));
        assert_eq!(job.keep, expected, "{keep}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_of_outputs_have_their_places() {
    const PATH: &str = "as in \"table.parquet\", or \"stats/\" for a folder";
    const KEEP: &str = "allowed: until_consumed, while_held, forever, or a duration as in \"7d\"";
    for (body, expected) in [
        (
            r#""outputs": "a.txt""#,
            "3:30: bistro_job->x.outputs: expected an array of outputs, found \"a.txt\"".to_owned(),
        ),
        (
            r#""outputs": ["a", null]"#,
            format!(
                "3:36: bistro_job->x.outputs[1]: expected a path, or an object with a path, found null; {PATH}"
            ),
        ),
        (
            r#""outputs": ["/etc"]"#,
            format!(
                "3:31: bistro_job->x.outputs[0]: \"/etc\" is no path of an output: an output is below the working directory of its task, so its path does not begin with `/`; {PATH}"
            ),
        ),
        (
            r#""outputs": [{"path": "a/../b"}]"#,
            format!(
                "3:40: bistro_job->x.outputs[0].path: \"a/../b\" is no path of an output: the path of an output has no empty part and no part `.` or `..`; {PATH}"
            ),
        ),
        (
            r#""outputs": [""]"#,
            format!(
                "3:31: bistro_job->x.outputs[0]: \"\" is no path of an output: an output needs a name; {PATH}"
            ),
        ),
        (
            r#""outputs": [{"replicas": 2}]"#,
            format!("3:31: bistro_job->x.outputs[0].path: the key is missing; {PATH}"),
        ),
        (
            r#""outputs": [{"path": "a", "replica": 2}]"#,
            "3:45: bistro_job->x.outputs[0].replica: unknown key; did you mean `replicas`?"
                .to_owned(),
        ),
        (
            r#""outputs": [{"path": "a", "replicas": 0}]"#,
            "3:57: bistro_job->x.outputs[0].replicas: 0 is out of range; an integer from 1 to 8"
                .to_owned(),
        ),
        (
            r#""outputs": [{"path": "a", "replicas": 9, "wait_for_replica": true}]"#,
            "3:57: bistro_job->x.outputs[0].replicas: 9 is out of range; an integer from 1 to 8"
                .to_owned(),
        ),
        (
            r#""outputs": [{"path": "a", "wait_for_replica": "perhaps"}]"#,
            "3:65: bistro_job->x.outputs[0].wait_for_replica: expected true or false, found \"perhaps\""
                .to_owned(),
        ),
        (
            r#""outputs": ["a", "/", "a"]"#,
            format!(
                "3:36: bistro_job->x.outputs[1]: \"/\" is no path of an output: an output is below the working directory of its task, so its path does not begin with `/`; {PATH}\n\
                 3:41: bistro_job->x.outputs[2]: the output \"a\" is also `outputs[0]`; remove one of them"
            ),
        ),
        (
            r#""outputs": ["a/", {"path": "a/b"}]"#,
            "3:46: bistro_job->x.outputs[1].path: the outputs \"a/b\" and \"a/\" (`outputs[0]`) overlap, and a file is in one output only; remove one of them, or let the tasks use folders side by side"
                .to_owned(),
        ),
        (
            r#""outputs": ["a"], "keep": "0s""#,
            "3:45: bistro_job->x.keep: \"0s\" keeps no output; a duration above 0, or one of until_consumed, while_held, forever"
                .to_owned(),
        ),
        (
            r#""outputs": ["a"], "keep": "until_consummed""#,
            format!(
                "3:45: bistro_job->x.keep: expected a duration or an allowed word, found \"until_consummed\"; did you mean `until_consumed`? ({KEEP})"
            ),
        ),
        (
            r#""outputs": ["a"], "keep": true"#,
            format!(
                "3:45: bistro_job->x.keep: expected a duration or an allowed word, found true; {KEEP}"
            ),
        ),
        (
            r#""outputs": ["a"], "keep": "7 weeks""#,
            format!(
                "3:45: bistro_job->x.keep: expected a duration or an allowed word, found \"7 weeks\"; {KEEP}"
            ),
        ),
        (
            r#""outputs": ["a"], "keep": -1"#,
            "3:45: bistro_job->x.keep: -1 is out of range; seconds from 0 to 2147483647".to_owned(),
        ),
    ] {
        assert_eq!(errors(body).join("\n"), expected, "{body}");
    }
}

#[test]
fn a_job_has_at_most_64_outputs() {
    let outputs = |count: usize| {
        let paths: Vec<String> = (0..count).map(|i| format!("\"o{i}\"")).collect();
        format!("\"outputs\": [\n{}]", paths.join(",\n"))
    };
    assert_eq!(job(&outputs(MAX_OUTPUTS)).outputs.len(), 64);
    assert_eq!(
        errors(&outputs(MAX_OUTPUTS + 2)),
        [
            "68:1: bistro_job->x.outputs[64]: more than 64 outputs; let the tasks put the files into a folder, and list the folder"
        ]
    );
}

#[test]
fn keys_of_outputs_without_effect_are_warnings() {
    let keep = "3:19: bistro_job->x.keep: has no effect: the job has no `outputs`; remove the key, or list the files that its tasks leave";
    assert_eq!(found(r#""keep": "1d""#).1, [keep]);
    assert_eq!(found(r#""keep": "1d", "outputs": []"#).1, [keep]);
    // The output that was meant is reported as wrong.
    let (errors, warnings) = found(r#""keep": "1d", "outputs": ["/"]"#);
    assert_eq!((errors.len(), warnings.len()), (1, 0));
    for body in ["", ", \"replicas\": 1"] {
        let (errors, warnings) = found(&format!(
            r#""outputs": [{{"path": "a", "wait_for_replica": true{body}}}]"#
        ));
        assert_eq!(errors, [""; 0]);
        assert_eq!(
            warnings,
            [
                "3:45: bistro_job->x.outputs[0].wait_for_replica: has no effect: the output has no second copy, as `replicas` is 1; remove the key, or set `replicas` to 2 or more"
            ]
        );
    }
}

#[test]
fn an_output_that_looks_like_a_pattern_is_worth_a_look() {
    let (errors, warnings) = found(r#""outputs": ["*.csv", {"path": "a[1]/"}, "b"]"#);
    assert_eq!(errors, [""; 0]);
    let told = |place: &str, path: &str| {
        format!(
            "3:{place}: the path \"{path}\" is no pattern: the task must leave a file of exactly this name; let the tasks put the files into a folder, and list the folder, as in \"tables/\""
        )
    };
    assert_eq!(
        warnings,
        [
            told("31: bistro_job->x.outputs[0]", "*.csv"),
            told("49: bistro_job->x.outputs[1].path", "a[1]/"),
        ]
    );
}

/// The runs of the job would share the directory.
#[test]
fn a_job_with_outputs_has_no_working_directory() {
    let told = "a job with `outputs` has no `cwd`: each run leaves its outputs in a new folder, in which it starts; remove the key; a program that needs the directory changes to it, as in [\"/bin/sh\", \"-ec\", \"out=$PWD; cd DIR; ./x > $out/FILE\"]";
    for cwd in ["/data", "."] {
        assert_eq!(
            errors(&format!(r#""outputs": ["a"], "cwd": "{cwd}""#)),
            [format!("3:37: bistro_job->x.cwd: {told}")]
        );
    }
    assert_eq!(errors(r#""outputs": [], "cwd": "/data""#), [""; 0]);
    let text = r#"{"command": ["x"], "outputs": ["a"], "cwd": "/data"}"#;
    let submitted = parse_job(
        &"api".try_into().unwrap(),
        text,
        &config(""),
        ParseOptions::default(),
    );
    assert_eq!(
        lines(&submitted.unwrap().problems),
        [format!("1:38: cwd: {told}")]
    );
}

/// The tasks of the job would run without their data, or leave none.
#[test]
fn a_misspelt_key_about_artifacts_is_an_error() {
    for (misspelt, key) in [
        ("input", "inputs"),
        ("inptus", "inputs"),
        ("output", "outputs"),
        ("Outputs", "outputs"),
        ("kepe", "keep"),
    ] {
        let outputs = match key {
            "outputs" => "",
            _ => r#""outputs": ["a"], "#,
        };
        let (errors, warnings) = found(&format!("{outputs}\"{misspelt}\": [\"a\"]"));
        let column = 19 + outputs.len();
        assert_eq!(
            errors,
            [format!(
                "3:{column}: bistro_job->x.{misspelt}: unknown key, and the job has no `{key}`; did you mean `{key}`?"
            )]
        );
        assert_eq!(warnings, [""; 0]);
    }
    // A job with the right key has a comment beside it, or a duplicate.
    let (errors, warnings) = found(r#""outputs": ["a"], "output": ["b"]"#);
    assert_eq!((errors.len(), warnings.len()), (0, 1));
    // One message is enough for a job whose outputs are misspelt, also about a job that has them as inputs.
    let text = r#""bistro_job->x": {"output": ["a"], "keep": "1d"}, "bistro_job->y": {"inputs": [{"from": "x"}]}"#;
    let parsed = good("", text);
    assert_eq!((parsed.job_problems().len(), parsed.warnings.len()), (1, 0));
}

#[test]
fn an_unknown_key_of_an_output_is_an_error_in_any_case() {
    let text = file(
        "",
        r#""bistro_job->x": {"outputs": [{"path": "a", "replica": 2}]}"#,
    );
    let parsed = parse(&text, ParseOptions::default()).expect("only the job is wrong");
    assert_eq!((parsed.job_problems().len(), parsed.warnings.len()), (1, 0));
    let strict = ParseOptions {
        unknown_keys: UnknownKeys::Refuse,
        ..ParseOptions::default()
    };
    let refused = parse(&text, strict).expect_err("a strict parser refuses the whole file");
    assert_eq!(refused.0, parsed.job_problems());
}

#[test]
fn an_export_writes_more_than_the_path_only_if_there_is_more() {
    let exported = |body: &str| {
        let config = config("");
        let export = export_job(&config, &job(body));
        (export["outputs"].to_string(), export["keep"].to_string())
    };
    let body = r#""outputs": [{"path": "a", "replicas": 1}, {"path": "b", "replicas": 3}, {"path": "c", "replicas": 2, "wait_for_replica": true}]"#;
    let outputs =
        r#"["a",{"path":"b","replicas":3},{"path":"c","replicas":2,"wait_for_replica":true}]"#;
    assert_eq!(exported(body), (outputs.to_owned(), "604800.0".to_owned()));
    let kept = exported(&format!("{body}, \"keep\": \"forever\"")).1;
    assert_eq!(kept, "\"forever\"");
    let none = || "null".to_owned();
    assert_eq!(exported(""), (none(), none()));
}

#[test]
fn a_plan_shows_changed_outputs() {
    let config = |body: &str| good("", &format!("\"bistro_job->x\": {{{body}}}")).config;
    let before = config(r#""outputs": ["a"]"#);
    let after =
        config(r#""outputs": ["a", {"path": "b", "replicas": 2}], "keep": "until_consumed""#);
    let changes = Changes::between(&before, &after);
    let [(_, keys)] = &changes.changed[..] else {
        panic!("{changes:?}");
    };
    let shown: Vec<String> = keys
        .iter()
        .map(|key| {
            let text = |value: &Option<serde_json::Value>| value.as_ref().unwrap().to_string();
            format!("{}: {} -> {}", key.key, text(&key.before), text(&key.after))
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#"keep: 604800.0 -> "until_consumed""#,
            r#"outputs: ["a"] -> ["a",{"path":"b","replicas":2}]"#,
        ]
    );
}
