//! The program: what it writes, what it says of mistakes, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn emulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
    command
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn scenario(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    folder.join(name).to_string_lossy().into_owned()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = folder.join(name);
    fs::write(&path, text).expect("a temporary folder is writable");
    path.to_string_lossy().into_owned()
}

#[test]
fn a_run_writes_all_that_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_string_lossy().into_owned();
    let played = emulate(&[
        "run",
        &scenario("sim-2007/client_state.xml"),
        "--duration",
        "2h",
        "--out",
        &to,
    ]);
    assert!(played.status.success(), "{}", err(&played));
    assert!(out(&played).contains("share violation"), "{}", out(&played));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let line = read("sim-2007/results.dat");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words.len(), 10, "{line}");
    for (word, expected) in words.iter().step_by(2).zip(["wf", "if", "sv", "m", "r"]) {
        assert_eq!(*word, expected);
    }
    let json: serde_json::Value = serde_json::from_str(&read("sim-2007/results.json")).unwrap();
    let wasted: f64 = words[1].parse().unwrap();
    let told = json["figures"]["wasted"].as_f64().unwrap();
    assert!((told - wasted).abs() < 1e-6);
    assert_eq!(read("sim-2007/results.txt"), out(&played));
    assert!(read("summary.txt").contains("sim-2007"));
    let series = read("sim-2007/series.csv");
    let columns = series.lines().map(|line| line.split(',').count());
    assert!(columns.clone().count() > 100 && columns.min() == Some(8));
    roxmltree::Document::parse(&read("sim-2007/timeline.svg")).expect("a picture is XML");
}

#[test]
fn all_mistakes_of_all_scenarios_are_told_and_nothing_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "one.toml", "[worker]\ncpus = \"four\"\n");
    let state = "<client_state>\n<host_info/>\n</client_state>\n";
    let two = write(folder.path(), "two.xml", state);
    let played = emulate(&["run", &one, &two, &scenario("steady.toml")]);
    assert_eq!(played.status.code(), Some(1));
    assert_eq!(out(&played), "");
    let told = err(&played);
    for expected in [
        "one.toml:2: worker.cpus: must be a whole number",
        "one.toml: missing: each `[[scheduler]]`",
        "two.xml:2: host_info/p_ncpus: missing",
    ] {
        assert!(told.contains(expected), "{expected}\nis not in\n{told}");
    }
    let checked = emulate(&["check", &one]);
    assert_eq!(checked.status.code(), Some(1));
    let checked = emulate(&["check", &scenario("steady.toml")]);
    assert_eq!(out(&checked), "steady: right\n");
}

#[test]
fn what_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "a file", "");
    let path = scenario("one-scheduler.toml");
    let played = emulate(&["run", &path, "--duration", "1m", "--out", &file]);
    assert_eq!(played.status.code(), Some(1));
    assert!(
        err(&played).contains("cannot be written"),
        "{}",
        err(&played)
    );
}

#[test]
fn a_wrong_command_line_ends_with_two() {
    assert_eq!(emulate(&["run"]).status.code(), Some(2));
    assert_eq!(emulate(&["play", "x"]).status.code(), Some(2));
    let path = scenario("steady.toml");
    for bad in [
        ["--duration", "soon"],
        ["--seed", "-1"],
        ["--duration", "20000d"],
    ] {
        let played = emulate(&["run", &path, bad[0], bad[1]]);
        assert_eq!(played.status.code(), Some(2), "{bad:?}");
    }
    let played = emulate(&["run", &path, "--rec-half-life", "0"]);
    assert_eq!(played.status.code(), Some(1));
}

/// What the help teaches can be played.
#[test]
fn the_example_of_the_help_is_right() {
    let help = out(&emulate(&["--help"]));
    let example: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("about = "))
        .take_while(|line| line.is_empty() || line.starts_with("    "))
        .collect();
    assert!(example.len() > 25, "{help}");
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "example.toml", &example.join("\n"));
    let played = emulate(&["run", &path, "--duration", "10m", "--json"]);
    assert!(played.status.success(), "{}", err(&played));
    let json: serde_json::Value = serde_json::from_str(&out(&played)).unwrap();
    assert_eq!(json[0]["scenario"], "example");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).unwrap();
    for line in example.iter().filter(|line| !line.trim().is_empty()) {
        let line = line.trim();
        assert!(readme.contains(line), "the README lacks `{line}`");
    }
}

#[test]
fn variants_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_string_lossy().into_owned();
    let path = scenario("one-scheduler.toml");
    let played = emulate(&["matrix", &path, "--duration", "5m", "--out", &to]);
    assert!(played.status.success(), "{}", err(&played));
    let table = out(&played);
    for expected in [
        "one-scheduler: pull, linger 0 s ",
        "one-scheduler: pull, linger 120 s ",
        "one-scheduler: push ",
        "one-scheduler: pull, linger 120 s, no EDF ",
        "one-scheduler: pull, linger 0 s, suspend ",
    ] {
        assert!(table.contains(expected), "{expected}\nis not in\n{table}");
    }
    let json = fs::read_to_string(folder.path().join("matrix.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(7));
}

#[test]
fn a_storm_is_told_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_string_lossy().into_owned();
    let arguments = ["storm", "--workers", "20", "--outage", "2m", "--out", &to];
    let played = emulate(&arguments);
    assert!(played.status.success(), "{}", err(&played));
    assert!(out(&played).contains("\nours "), "{}", out(&played));
    for name in ["storm.txt", "storm.json", "storm.svg"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    assert_eq!(emulate(&["storm", "--workers", "0"]).status.code(), Some(1));
}
