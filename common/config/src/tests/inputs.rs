//! Tests of `inputs`.

use std::time::Duration;

use super::*;

/// Returns the errors of a job whose body is on the third line, which begins with the 18 characters `"bistro_job->x": {`.
fn errors(body: &str) -> Vec<String> {
    let parsed = good(
        "",
        &format!(
            "\"bistro_job->x\": {{{body}}},\n\"bistro_job->y\": {{\"outputs\": [\"a\", \"b/\"]}}"
        ),
    );
    let errors = lines(parsed.job_problems());
    assert_eq!(parsed.config.jobs[0].errors, errors);
    assert_eq!(parsed.warnings, [], "{body}");
    errors
}

fn of_job(job: &str, nodes: InputNodes, path: Option<&str>) -> InputSource {
    InputSource::Job {
        job: JobName::try_from(job).unwrap(),
        nodes,
        path: path.map(|path| path.try_into().unwrap()),
    }
}

fn names(names: &[JobName]) -> Vec<&str> {
    names.iter().map(JobName::as_str).collect()
}

#[test]
fn a_task_waits_for_a_worker_at_most_an_hour() {
    let wait = |keys: &str| job(keys).locality_wait;
    assert_eq!(wait(r#""inputs": [{"from": "a"}]"#), Duration::ZERO);
    for (value, seconds) in [("0", 0), ("\"90s\"", 90), ("\"1h\"", 3600)] {
        let keys = format!(r#""inputs": [{{"from": "a"}}], "locality_wait": {value}"#);
        assert_eq!(wait(&keys), Duration::from_secs(seconds), "{value}");
    }
    assert_eq!(
        errors(r#""inputs": [{"from": "y"}], "locality_wait": "61 min""#),
        [
            "3:63: bistro_job->x.locality_wait: \"61 min\" is too long to wait for a worker; a duration of at most 1h"
        ]
    );
    let parsed = good("", r#""bistro_job->x": {"locality_wait": "5s"}"#);
    let warnings = parsed.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = warnings.collect();
    let expected = "bistro_job->x.locality_wait: has no effect: the job has no `inputs`; remove the key, or list the files that its tasks need";
    assert!(
        warnings.iter().any(|warning| warning.ends_with(expected)),
        "{warnings:?}"
    );
}

#[test]
fn a_job_lists_its_inputs() {
    let job = job(
        r#""inputs": [{"from": "a"}, {"from": "b", "node": "same", "path": "stats/"}, {"from": "c", "node": "parent", "path": 5},
        {"from": "d", "node": "children"}, {"from": "d", "node": "all", "as": "tables/raw"}, {"file": "./geo/dims.csv"},
        {"file": "geo/dims.csv", "as": "dims"}]"#,
    );
    let dims = |path: &str| InputSource::File {
        path: path.to_owned(),
    };
    let found: Vec<_> = job
        .inputs
        .iter()
        .map(|input| {
            let name = input.name.as_ref().map(InputPath::as_str);
            let place = input.place().map(|place| place.to_string());
            (input.source.clone(), name, place.unwrap())
        })
        .collect();
    let expected = [
        (of_job("a", InputNodes::Same, None), None, "a"),
        (of_job("b", InputNodes::Same, Some("stats/")), None, "b"),
        (of_job("c", InputNodes::Parent, Some("5")), None, "c"),
        (of_job("d", InputNodes::Children, None), None, "d"),
        (
            of_job("d", InputNodes::All, None),
            Some("tables/raw"),
            "tables/raw",
        ),
        (dims("./geo/dims.csv"), None, "dims.csv"),
        (dims("geo/dims.csv"), Some("dims"), "dims"),
    ]
    .map(|(source, name, place)| (source, name, place.to_owned()));
    assert_eq!(found, expected);
    assert!(super::job("").inputs.is_empty());
}

#[test]
fn a_job_waits_for_the_jobs_of_its_inputs() {
    let job = job(
        r#""depends_on": ["listed", "both"], "run_only_after_all_nodes_are_done_for": ["both"],
        "inputs": [{"from": "same", "path": "a"}, {"from": "same", "path": "b"}, {"from": "parent", "node": "parent"},
        {"from": "children", "node": "children"}, {"from": "all", "node": "all"}, {"from": "both", "node": "all"},
        {"from": "listed"}, {"from": "listed", "node": "all", "as": "others"}, {"file": "f"}]"#,
    );
    assert_eq!(names(&job.depends_on), ["listed", "both", "same"]);
    assert_eq!(
        names(&job.run_only_after_all_nodes_are_done_for),
        ["both", "parent", "children", "all", "listed"]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_of_inputs_have_their_places() {
    const FORMS: &str =
        "as in {\"from\": \"JOB\"}, or {\"file\": \"PATH\"} for a file in the config file's folder";
    const FILE: &str = "as in \"dims.csv\", or \"tables/\" for a folder";
    for (inputs, expected) in [
        (
            r#"{"from": "y"}"#,
            "3:29: bistro_job->x.inputs: expected an array of inputs, found an object".to_owned(),
        ),
        (
            r#"["y"]"#,
            format!("3:30: bistro_job->x.inputs[0]: expected an object, found \"y\"; {FORMS}"),
        ),
        (
            r#"[{"from": "y", "nodes": "all"}]"#,
            "3:44: bistro_job->x.inputs[0].nodes: unknown key; did you mean `node`?".to_owned(),
        ),
        (
            r#"[{"form": "y"}]"#,
            "3:31: bistro_job->x.inputs[0].form: unknown key; did you mean `from`?".to_owned(),
        ),
        (
            r#"[{"as": "y"}]"#,
            format!("3:30: bistro_job->x.inputs[0]: the input has neither `from` nor `file`; {FORMS}"),
        ),
        (
            r#"[{"from": "y", "file": "f"}]"#,
            "3:44: bistro_job->x.inputs[0].file: an input has either `from` or `file`; make two inputs of it"
                .to_owned(),
        ),
        (
            r#"[{"file": "f", "node": "all", "path": "a"}]"#,
            "3:44: bistro_job->x.inputs[0].node: `node` has no meaning beside `file`; remove the key, or name a job in `from` in place of the file\n\
             3:59: bistro_job->x.inputs[0].path: `path` has no meaning beside `file`; remove the key, or name a job in `from` in place of the file"
                .to_owned(),
        ),
        (
            r#"[{"from": "x"}]"#,
            "3:39: bistro_job->x.inputs[0].from: a job cannot have its own outputs as inputs; name another job; a task finds its own files without `inputs`"
                .to_owned(),
        ),
        (
            r#"[{"from": ""}]"#,
            "3:39: bistro_job->x.inputs[0].from: the name is empty".to_owned(),
        ),
        (
            r#"[{"from": "y", "node": "child"}]"#,
            "3:52: bistro_job->x.inputs[0].node: expected one of the allowed words, found \"child\"; allowed: same, parent, children, all"
                .to_owned(),
        ),
        (
            r#"[{"from": "y", "path": "/a", "as": "b/"}]"#,
            "3:52: bistro_job->x.inputs[0].path: \"/a\" is no path of an output: an output is below the working directory of its task, so its path does not begin with `/`; as in \"table.parquet\", or \"stats/\" for a folder\n\
             3:64: bistro_job->x.inputs[0].as: \"b/\" is no place of an input: the path of an input has no `/` at its end; as in \"tables\""
                .to_owned(),
        ),
        (
            r#"[{"file": "f", "as": "../f"}]"#,
            "3:50: bistro_job->x.inputs[0].as: \"../f\" is no place of an input: an input is below `$BRASSERIE_INPUTS`, so its path has no empty part and no part `.` or `..`; as in \"tables\""
                .to_owned(),
        ),
        (
            r#"[{"file": "/etc/f"}, {"file": "../f"}, {"file": "d//"}, {"file": "./"}]"#,
            format!("3:39: bistro_job->x.inputs[0].file: \"/etc/f\" is no file of an input: the file is below the config file's folder, so its path does not begin with `/`; {FILE}\n\
             3:59: bistro_job->x.inputs[1].file: \"../f\" is no file of an input: the file is below the config file's folder, so its path has no empty part and no part `.` or `..`; {FILE}\n\
             3:77: bistro_job->x.inputs[2].file: \"d//\" is no file of an input: the path of the file has no `/` at its end; {FILE}\n\
             3:94: bistro_job->x.inputs[3].file: \"./\" is no file of an input: the file needs a name; {FILE}"
            ),
        ),
    ] {
        let found = errors(&format!("\"inputs\": {inputs}"));
        assert_eq!(found.join("\n"), expected, "{inputs}");
    }
}

#[test]
fn two_inputs_have_different_places() {
    let errors = |first: &str, second: &str| errors(&format!("\"inputs\": [{first},\n{second}]"));
    for (first, second, places) in [
        (
            r#"{"from": "y"}"#,
            r#"{"from": "y", "path": "a"}"#,
            ["y/a", "y/"],
        ),
        (
            r#"{"from": "y", "path": "a"}"#,
            r#"{"from": "y", "path": "a", "node": "all"}"#,
            ["y/NODE/a", "y/a"],
        ),
        (
            r#"{"from": "y", "node": "all"}"#,
            r#"{"from": "y", "path": "b/", "node": "all"}"#,
            ["y/NODE/b/", "y/NODE/"],
        ),
        (r#"{"file": "d"}"#, r#"{"file": "e/d"}"#, ["d", "d"]),
        (
            r#"{"file": "d"}"#,
            r#"{"from": "y", "as": "d/e"}"#,
            ["d/e/", "d"],
        ),
        (
            r#"{"from": "y"}"#,
            r#"{"file": "d", "as": "y/d"}"#,
            ["y/d", "y/"],
        ),
    ] {
        let [place, earlier] = places;
        assert_eq!(
            errors(first, second),
            [format!(
                "4:1: bistro_job->x.inputs[1]: the input's place below `$BRASSERIE_INPUTS`, `{place}`, collides with the place of `inputs[0]` at 3:30, `{earlier}`; give one of them another place with `as`"
            )],
            "{first} {second}"
        );
    }
    for (first, second) in [
        (
            r#"{"from": "y", "path": "a"}"#,
            r#"{"from": "y", "path": "b/"}"#,
        ),
        (
            r#"{"from": "y", "path": "a", "node": "all"}"#,
            r#"{"from": "y", "path": "b/", "node": "all"}"#,
        ),
        (
            r#"{"from": "y"}"#,
            r#"{"from": "y", "node": "all", "as": "all"}"#,
        ),
        (r#"{"file": "d"}"#, r#"{"file": "e/d", "as": "e"}"#),
    ] {
        assert_eq!(errors(first, second), [""; 0], "{first} {second}");
    }
}

#[test]
fn a_job_whose_name_is_no_path_needs_a_place() {
    let problems = |input: &str| {
        let jobs = format!(
            "\"bistro_job->x\": {{\"inputs\": [{input}]}},\n\"bistro_job->../y\": {{\"outputs\": [\"a\"]}}"
        );
        lines(good("", &jobs).job_problems())
    };
    assert_eq!(
        problems(r#"{"from": "../y"}"#),
        [
            "3:39: bistro_job->x.inputs[0].from: \"../y\" is no path below `$BRASSERIE_INPUTS`; give the input a place with `as`"
        ]
    );
    assert_eq!(problems(r#"{"from": "../y", "as": "y"}"#), [""; 0]);
}

#[test]
fn a_job_has_at_most_256_inputs() {
    let inputs = |count: usize| {
        let files: Vec<String> = (0..count)
            .map(|i| format!("{{\"file\": \"f{i}\"}}"))
            .collect();
        format!("\"inputs\": [\n{}]", files.join(",\n"))
    };
    assert_eq!(job(&inputs(MAX_INPUTS)).inputs.len(), 256);
    assert_eq!(
        errors(&inputs(MAX_INPUTS + 2)),
        [
            "260:1: bistro_job->x.inputs[256]: more than 256 inputs; put files into one folder that is an output, or leave out `path` to get all outputs of a job"
        ]
    );
}

#[test]
fn messages_about_dependencies_name_the_input() {
    let parsed = good(
        "",
        "\"bistro_job->a\": {\"inputs\": [{\"file\": \"f\"}, {\"from\": \"b\"}]},\n\
         \"bistro_job->b\": {\"depends_on\": [\"a\"], \"outputs\": [\"o\"]},\n\
         \"bistro_job->c\": {\"inputs\": [{\"from\": \"of\"}, {\"from\": \"off\", \"node\": \"all\"}]},\n\
         \"bistro_job->off\": {\"enabled\": false, \"outputs\": [\"o\"]}",
    );
    assert_eq!(
        lines(parsed.job_problems()),
        [
            "3:54: bistro_job->a.inputs[1].from: the job waits for itself: a -> b -> a; a job waits for the jobs of its inputs: remove one input or dependency of the cycle",
            "4:34: bistro_job->b.depends_on[0]: the job waits for itself: b -> a -> b; remove one dependency of the cycle",
        ]
    );
    assert_eq!(
        lines(&parsed.warnings),
        [
            "5:39: bistro_job->c.inputs[0].from: there is no job \"of\", so no task will start; did you mean `off`?",
            "5:55: bistro_job->c.inputs[1].from: the job \"off\" is disabled, so no task will start",
        ]
    );
}

#[test]
fn files_that_are_missing_are_worth_a_look() {
    let text = file(
        "",
        r#""bistro_job->x": {"command": ["c"], "inputs": [{"file": "here"}, {"file": "./gone"}, {"file": "/gone"}, {"from": "y"}]},
        "bistro_job->y": {"command": ["c"], "outputs": ["a"]}"#,
    );
    let fault = |path: &str, of_use| {
        (path != "here" && of_use == PathUse::InputFile).then(|| format!("/conf/{path} is missing"))
    };
    assert_eq!(
        lines(&checked_with(text.as_bytes(), fault).warnings),
        [
            "3:75: bistro_job->x.inputs[1].file: the tasks wait for the file \"./gone\": /conf/./gone is missing"
        ]
    );
}

#[test]
fn an_export_has_the_dependencies_that_a_job_lists_itself() {
    let exported = |body: &str| {
        let export = export_job(&config(""), &job(body));
        let names = |key: &str| export.get(key).map(ToString::to_string).unwrap_or_default();
        [
            names("depends_on"),
            names("run_only_after_all_nodes_are_done_for"),
        ]
    };
    let inputs = r#""inputs": [{"from": "a"}, {"from": "b", "node": "all"}, {"from": "c"}]"#;
    for (listed, expected) in [
        ("", ["", ""]),
        (r#""depends_on": ["z"], "#, [r#"["z"]"#, ""]),
        // The order of the list stays.
        (r#""depends_on": ["c", "z"], "#, [r#"["c","z"]"#, ""]),
        (r#""depends_on": ["b"], "#, [r#"["b"]"#, ""]),
        (r#""depends_on": ["a", "c"], "#, ["", ""]),
    ] {
        assert_eq!(exported(&format!("{listed}{inputs}")), expected, "{listed}");
    }
}

#[test]
fn a_folder_may_be_written_with_a_slash() {
    let job = job(r#""inputs": [{"file": "./d/tables/"}, {"file": "e"}]"#);
    let paths = job.inputs.iter().map(|input| match &input.source {
        InputSource::File { path } => path.as_str(),
        InputSource::Job { .. } => "",
    });
    assert!(paths.eq(["./d/tables", "e"]));
    let place = job.inputs[0].place().expect("a place");
    assert_eq!(place.as_str(), "tables");
}

#[test]
fn a_job_with_files_survives_its_export() {
    let body = r#""inputs": [{"from": "y", "node": "parent", "path": "b/"}, {"file": "./d/f", "as": "g"}, {"from": "z", "node": "same"}]"#;
    let job = job(body);
    let config = config(r#""resources": {"host": {"disk": {"default": 2, "limit": 9}}}"#);
    let export = export_job(&config, &job);
    let expected =
        r#"[{"from":"y","node":"parent","path":"b/"},{"as":"g","file":"./d/f"},{"from":"z"}]"#;
    assert_eq!(export["inputs"].to_string(), expected);
    // Reading the inputs adds the jobs for which the job waits.
    assert_eq!(export.get("depends_on"), None);
    assert_eq!(export.get("run_only_after_all_nodes_are_done_for"), None);
    assert_eq!(job.depends_on, ["z".try_into().expect("a name")]);
    let read = parse_job(
        &job.name,
        &export.to_string(),
        &config,
        ParseOptions::default(),
    );
    let read = read.unwrap();
    assert_eq!(
        (read.problems, read.warnings, read.job),
        (vec![], vec![], job)
    );
}

#[test]
fn one_pipeline_is_the_same_in_each_format() {
    let in_toml = r#"
[bistro_settings.nodes]
levels = ["host", "db"]
node_source = "empty"

["bistro_job->extract"]
outputs = ["table.parquet", "stats/", { path = "index.bin", replicas = 2, wait_for_replica = true }]
keep = "until_consumed"

["bistro_job->join"]
inputs = [
  { from = "extract" },
  { from = "extract", node = "all", as = "tables" },
  { file = "dims.csv" },
]
"#;
    let in_yaml = r#"
bistro_settings:
  nodes: {levels: [host, db], node_source: empty}
bistro_job->extract:
  outputs:
    - table.parquet
    - stats/
    - {path: index.bin, replicas: 2, wait_for_replica: true}
  keep: until_consumed
bistro_job->join:
  inputs:
    - from: extract
    - {from: extract, node: all, as: tables}
    - file: dims.csv
"#;
    let in_json = r#"{
  "bistro_settings": {"nodes": {"levels": ["host", "db"], "node_source": "empty"}},
  "bistro_job->extract": {
    "outputs": ["table.parquet", "stats/", {"path": "index.bin", "replicas": 2, "wait_for_replica": true}],
    "keep": "until_consumed"
  },
  "bistro_job->join": {
    "inputs": [{"from": "extract"}, {"from": "extract", "node": "all", "as": "tables"}, {"file": "dims.csv"}]
  }
}"#;
    let read = |text: &str, format| {
        let unknown_keys = UnknownKeys::Refuse;
        let options = ParseOptions {
            format,
            unknown_keys,
        };
        let (config, warnings) = parse(text, options).unwrap().into_correct().unwrap();
        assert_eq!(warnings, [], "{format:?}");
        config
    };
    let config = read(in_toml, Format::Toml);
    let join = config.job("join").unwrap();
    assert_eq!(
        (join.inputs.len(), names(&join.depends_on)),
        (3, vec!["extract"])
    );
    assert_eq!(read(in_yaml, Format::Yaml), config);
    assert_eq!(read(in_json, Format::Json), config);
    let wrong = in_toml.replace("node = \"all\"", "node = \"parent\"");
    let options = ParseOptions {
        format: Format::Toml,
        ..ParseOptions::default()
    };
    let parsed = parse(&wrong, options).unwrap();
    assert_eq!(
        lines(parsed.job_problems()),
        [
            "13:30: bistro_job->join.inputs[1].node: the job's tasks are on nodes of level `db`, and no task of \"extract\" is on the parent of such a node: its tasks are at level `db`; set `node` to \"same\", or change `level_for_tasks` of one of the jobs"
        ]
    );
}

#[test]
fn a_plan_shows_changed_inputs() {
    let config = |inputs: &str| {
        good(
            "",
            &format!("\"bistro_job->x\": {{\"inputs\": [{inputs}]}}"),
        )
        .config
    };
    let before = config(r#"{"file": "f"}"#);
    let after = config(r#"{"file": "f"}, {"from": "y", "node": "all"}"#);
    let changes = Changes::between(&before, &after);
    let [(_, keys)] = &changes.changed[..] else {
        panic!("{changes:?}");
    };
    let shown: Vec<String> = keys
        .iter()
        .map(|key| {
            format!(
                "{}: {:?}",
                key.key,
                key.after.as_ref().map(ToString::to_string)
            )
        })
        .collect();
    assert_eq!(
        shown,
        [r#"inputs: Some("[{\"file\":\"f\"},{\"from\":\"y\",\"node\":\"all\"}]")"#]
    );
}
