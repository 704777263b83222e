//! Tests `brasserie config` through the program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const SETTINGS: &str = r#""bistro_settings": {
  "nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"h1": []}}]},
  "resources": {"host": {"disk": {"default": 1, "limit": 2}}},
  "backoff": [5, "repeat"],
  "task_subprocess": {"poll_ms": 20}
}"#;

fn brasserie(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brasserie"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

fn out(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stdout))
}

#[test]
fn all_problems_of_all_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "good.json",
        &format!(r#"{{{SETTINGS}, "bistro_job->x": {{"command": ["a"]}}}}"#),
    );
    write(
        "odd.yaml",
        "bistro_settings:\n  nodes: {levels: [], node_source: empty}\n  idle_wait: 5\nbistro_job->x: {command: [a], priorty: 1}\n",
    );
    write(
        "bad.toml",
        "[bistro_settings]\nenabled = 'perhaps'\nidle_wait = 1\nnodes.levels = []\n[\"bistro_job->x\"]\npriority = 'high'\n",
    );
    write(
        "slips.json",
        "{\"bistro_settings\": {\"nodes\": {\"levels\": [],},\n \"enabled\": Yes}, \"bistro_job->x\": {\"command\": [\"a\"]}}",
    );
    let check = |arguments: &[&str]| {
        let all: Vec<&str> = ["config", "check"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        out(&brasserie(folder.path(), &all))
    };
    assert_eq!(
        check(&["good.json"]),
        (Some(0), "the config is good\n".to_owned())
    );
    let odd = "warning: odd.yaml:3:3: bistro_settings.idle_wait: has no effect; nothing waits while there is nothing to do; remove the key\n\
               warning: odd.yaml:4:31: bistro_job->x.priorty: unknown key; did you mean `priority`?\n";
    assert_eq!(
        check(&["good.json", "odd.yaml"]),
        (
            Some(0),
            format!("{odd}the configs are usable, with 2 warnings\n")
        )
    );
    let (code, strict) = check(&["--strict-config", "odd.yaml"]);
    assert_eq!(code, Some(2));
    assert!(
        strict.contains("\nodd.yaml:4:31: bistro_job->x.priorty: unknown key"),
        "{strict}"
    );
    let (code, all) = check(&["bad.toml", "slips.json", "none.json"]);
    assert_eq!(code, Some(2));
    let found: Vec<&str> = all.lines().collect();
    for (line, start) in found.iter().zip([
        "bad.toml:2:11: bistro_settings.enabled: expected true or false",
        "warning: bad.toml:3:1: bistro_settings.idle_wait: has no effect",
        "bad.toml:6:12: bistro_job->x.priority: expected a number",
        "slips.json:1:44: a comma before the closing `}`",
        "slips.json:2:13: expected a value, found `Yes`",
    ]) {
        assert!(line.starts_with(start), "{start}: {line}");
    }
    assert!(found.last().unwrap().contains("none.json"), "{all}");
}

#[test]
fn problems_are_there_for_programs_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{{{SETTINGS}, \"bistro_job->x\": {{\"priority\": []}}}}");
    fs::write(folder.path().join("c.json"), config).unwrap();
    let output = brasserie(
        folder.path(),
        &["config", "check", "--json", "c.json", "no.json"],
    );
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["good"], json!(false));
    assert_eq!(
        found["files"][0],
        json!({
            "file": "c.json",
            "good": false,
            "unreadable": null,
            "errors": [{
                "line": 6,
                "column": 34,
                "key_path": "bistro_job->x.priority",
                "message": "expected a number, found an empty array",
                "value": "an empty array",
                "help": null,
            }],
            "warnings": [],
            "more_errors": 0,
            "more_warnings": 0,
            "schedules": [],
        })
    );
    assert!(found["files"][1]["unreadable"].is_string(), "{found}");
}

#[test]
fn a_relative_program_is_looked_for_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{{{SETTINGS}, \"bistro_job->x\": {{\"command\": [\"./x.sh\"]}}}}");
    fs::create_dir(folder.path().join("conf")).unwrap();
    fs::write(folder.path().join("conf/c.json"), config).unwrap();
    let check = || {
        let checked = brasserie(folder.path(), &["config", "check", "conf/c.json"]);
        let (code, all) = out(&checked);
        assert_eq!(code, Some(0), "{all}");
        all
    };
    let program = folder.path().join("conf/x.sh");
    let shown = program.display();
    let warning = |fault: &str| {
        format!(
            "warning: conf/c.json:6:34: bistro_job->x.command[0]: tasks on this machine cannot run \"./x.sh\": {shown} {fault}; "
        )
    };
    let found = check();
    assert!(found.starts_with(&warning("does not exist")), "{found}");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let found = check();
    assert!(found.starts_with(&warning("is not executable")), "{found}");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(check(), "the config is good\n");
}

#[test]
fn a_script_and_a_working_directory_are_looked_for_on_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [
        {"source": "script", "prefs": {"parent_level": "instance", "script": "nodes.sh"}}]}},
        "bistro_job->x": {"command": ["true"], "cwd": "work"}}"#;
    fs::write(folder.path().join("c.json"), config).unwrap();
    let check = || {
        let (code, all) = out(&brasserie(folder.path(), &["config", "check", "c.json"]));
        assert_eq!(code, Some(0), "{all}");
        all
    };
    let (script, work) = (folder.path().join("nodes.sh"), folder.path().join("work"));
    let has = |script_fault: &str, work_fault: &str| {
        let found = check();
        for part in [
            format!("run \"nodes.sh\": {} {script_fault}; ", script.display()),
            format!("start in \"work\": {} {work_fault}; ", work.display()),
        ] {
            assert!(found.contains(&part), "{part}: {found}");
        }
    };
    has("does not exist", "does not exist");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    fs::write(&work, "").unwrap();
    has("is not executable", "is not a directory");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(&work).unwrap();
    fs::create_dir(&work).unwrap();
    assert_eq!(check(), "the config is good\n");
}

#[test]
fn files_that_cannot_be_inputs_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("dims.csv"), "").unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = format!(
        r#"{{{SETTINGS}, "bistro_job->x": {{"command": ["true"], "inputs": [{{"file": "dims.csv"}}, {{"file": "tables"}}]}}}}"#
    );
    fs::write(at("c.json"), config).unwrap();
    let check = || {
        let (code, all) = out(&brasserie(folder.path(), &["config", "check", "c.json"]));
        assert_eq!(code, Some(0), "{all}");
        all
    };
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
    link(&elsewhere.path().join("dims.csv"), "dims.csv");
    fs::create_dir(at("tables")).unwrap();
    link(Path::new("t1"), "tables/t2");
    let found = check();
    for part in [
        "outside of the config file's folder",
        "`tables/t2` is a symbolic link",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
    fs::remove_file(at("tables/t2")).unwrap();
    fs::create_dir_all(at("tables").join("d/".repeat(65))).unwrap();
    let found = check();
    assert!(found.contains("more than 64 levels deep"), "{found}");
    fs::remove_dir_all(at("tables/d")).unwrap();
    // A link within the folder is good.
    fs::write(at("other.csv"), "").unwrap();
    fs::remove_file(at("dims.csv")).unwrap();
    link(Path::new("other.csv"), "dims.csv");
    assert_eq!(check(), "the config is good\n");
}

#[test]
fn the_output_for_a_file_of_mistakes_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let jobs: Vec<String> = (0..5000)
        .map(|i| format!("\"bistro_job->{i}\": {{\"comand\": [], \"x\": 1}}"))
        .collect();
    let config = format!("{{{SETTINGS},\n{}}}", jobs.join(",\n"));
    fs::write(folder.path().join("c.json"), config).unwrap();
    let (code, all) = out(&brasserie(folder.path(), &["config", "check", "c.json"]));
    assert_eq!((code, all.lines().count()), (Some(2), 402), "{all}");
    let last: Vec<&str> = all.lines().skip(400).collect();
    assert_eq!(
        last,
        ["errors", "warnings"].map(|what| format!(
            "c.json: 4800 more {what} are not shown; correct the first ones and check again"
        ))
    );
    let output = brasserie(folder.path(), &["config", "check", "--json", "c.json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = &found["files"][0];
    assert_eq!(
        (&file["more_errors"], &file["more_warnings"]),
        (&json!(4800), &json!(4800))
    );
    assert_eq!(file["errors"].as_array().map(Vec::len), Some(200));
}

#[test]
fn the_schema_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let output = brasserie(folder.path(), &["config", "schema"]);
    assert_eq!(output.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema, brasserie_common_config::config_schema());
}

#[test]
fn jobs_are_exported_and_read_back_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = r#"
        "bistro_job->dump": {"owner": "ann", "command": ["./dump", "a b"], "config": {"to": [null, 1.5]}, "priority": 2,
            "filters": {"host": {"whitelist_regex": "^h\\d"}}, "status_from": "exit_code", "arguments": "none",
            "kill_subprocess": {"method": "kill"}, "version_id": 7},
        "bistro_job->check": {"depends_on": ["dump"], "backoff": ["fail"], "kill_orphan_tasks_after_sec": 0.5,
            "host_placement": "m1", "task_subprocess": {"max_log_lines_per_poll_interval": 3}, "enabled": false},
        "bistro_job->broken": {"priority": "high"}"#;
    fs::write(
        folder.path().join("c.json"),
        format!("{{{SETTINGS},\n{jobs}}}"),
    )
    .unwrap();
    let export = |file: &str| {
        let output = brasserie(folder.path(), &["config", "export", file]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = export("c.json");
    let exported: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(exported.as_object().unwrap().len(), 3);
    assert_eq!(
        exported["bistro_job->dump"]["task_subprocess"]["poll_ms"],
        json!(20)
    );
    assert_eq!(
        exported["bistro_job->dump"]["backoff"],
        json!([5, "repeat"])
    );
    assert_eq!(
        exported["bistro_job->broken"]["errors"],
        json!(["13:44: bistro_job->broken.priority: expected a number, found \"high\""])
    );

    // The exported jobs with the same settings are the same configuration, and have the same export.
    let again = first.replacen('{', &format!("{{{SETTINGS},"), 1);
    fs::write(folder.path().join("again.json"), &again).unwrap();
    assert_eq!(export("again.json"), first);
    fs::write(folder.path().join("again.yaml"), &again).unwrap();
    assert_eq!(export("again.yaml"), first);
    let read = |text: &str| {
        let parsed = brasserie_common_config::parse(text, Default::default()).unwrap();
        let mut jobs = parsed.config.jobs;
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        jobs
    };
    let before = fs::read_to_string(folder.path().join("c.json")).unwrap();
    assert_eq!(read(&again), read(&before));

    let output = brasserie(
        folder.path(),
        &["config", "export", "c.json", "--job", "dump"],
    );
    let one: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        one,
        json!({"bistro_job->dump": exported["bistro_job->dump"]})
    );
    let output = brasserie(
        folder.path(),
        &["config", "export", "c.json", "--job", "nobody"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("has no job `nobody`"));
    fs::write(folder.path().join("c.json"), "{").unwrap();
    let output = brasserie(folder.path(), &["config", "export", "c.json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn check_shows_the_next_times_of_schedules() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"bistro_settings": {"nodes": {"levels": ["city", "night"], "node_sources": [
        {"source": "manual", "prefs": {"berlin": []}},
        {"source": "add_time", "prefs": {"parent_level": "city", "schedule": [{"lifetime": 60, "cron": {
            "year": 3000, "month": 1, "day_of_month": {"start": 1, "end": 4}, "hour": 3, "minute": 0,
            "time_zone": "Europe/Berlin", "dst_fixes": ["skip", "repeat_use_both"]}}]}},
        {"source": "add_time", "prefs": {"parent_level": "city", "format": "x{time}", "schedule": [
            {"lifetime": 60, "cron": {"epoch": 1}}]}},
        {"source": "add_time", "prefs": {"parent_level": "city", "format": "y{time}", "schedule": [
            {"lifetime": 2147483647, "cron": {"epoch": {"start": 1700000000, "end": 1700000001}}}]}}]}, "resources": {}}, "bistro_job->x": {"command": ["a"], "enabled": false}}"#;
    fs::write(folder.path().join("c.json"), config).unwrap();
    let times = [
        "Wed 3000-01-01 03:00 +01:00 (Europe/Berlin)",
        "Thu 3000-01-02 03:00 +01:00 (Europe/Berlin)",
        "Fri 3000-01-03 03:00 +01:00 (Europe/Berlin)",
    ];
    let (code, text) = out(&brasserie(folder.path(), &["config", "check", "c.json"]));
    let expected = format!(
        "c.json: node source 2 gives nodes of level `night` next on {}\n\
         c.json: node source 3 gives nodes of level `night` never again\n\
         c.json: node source 4 gives nodes of level `night` for 2 times now, and never again\n\
         the config is good\n",
        times.join(", ")
    );
    assert_eq!((code, text), (Some(0), expected));
    let (_, text) = out(&brasserie(
        folder.path(),
        &["config", "check", "--json", "c.json"],
    ));
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        document["files"][0]["schedules"],
        json!([
            {"source": 2, "level": "night", "now": 0, "next": times, "zone_is_a_guess": false},
            {"source": 3, "level": "night", "now": 0, "next": [], "zone_is_a_guess": false},
            {"source": 4, "level": "night", "now": 2, "next": [], "zone_is_a_guess": false},
        ])
    );
}
