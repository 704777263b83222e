//! Tests of the program: its output, its messages about mistakes, and its exit codes.

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
        &scenario("sim-2007.toml"),
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
    let contacts = read("sim-2007/contacts.csv");
    assert!(contacts.starts_with("seconds,scheduler,kind,result,tasks,"));
}

#[test]
fn all_mistakes_of_all_scenarios_are_told_and_nothing_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "one.toml", "[worker]\ncpus = \"four\"\n");
    let two = write(folder.path(), "two.toml", "[worker]\ncpus = 0\n");
    let played = emulate(&["run", &one, &two, &scenario("steady.toml")]);
    assert_eq!(played.status.code(), Some(1));
    assert_eq!(out(&played), "");
    let told = err(&played);
    for expected in [
        "one.toml:2: worker.cpus: must be a whole number",
        "one.toml: missing: each `[[scheduler]]`",
        "two.toml:2: worker.cpus: a worker has one CPU at least",
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
fn a_wrong_command_line_ends_with_two_and_names_the_argument_and_its_limit() {
    assert_eq!(emulate(&["run"]).status.code(), Some(2));
    assert_eq!(emulate(&["play", "x"]).status.code(), Some(2));
    let path = scenario("steady.toml");
    let run = ["run", path.as_str()];
    let spans = "must be 0.01 s at least and ten years at most";
    for (command, argument, value, limit) in [
        (run.as_slice(), "--duration", "soon", "soon"),
        (&run, "--duration", "20000d", spans),
        (&run, "--duration", "0", spans),
        (&run, "--delta", "0s", spans),
        (&run, "--rec-half-life", "0", spans),
        (&run, "--rec-half-life", "4000", spans),
        (&run, "--rec-half-life", "NaN", spans),
        (&run, "--rec-half-life", "9ms", spans),
        (&run, "--rec-half-life", "10 moons", "10 moons"),
        (&run, "--linger", "4000d", "must be 0 s at least"),
        (&["matrix"], "--delta", "0", spans),
        (&["storm"], "--workers", "0", "0 is not in 1..=100000"),
        (&["storm"], "--workers", "100001", "is not in 1..=100000"),
        (&["storm"], "--rate-limit", "0", "0 is not in 1.."),
        (&["storm"], "--task", "999ms", "must be 1 s at least"),
        (
            &["storm"],
            "--fixed-retry",
            "99ms",
            "must be 0.1 s at least",
        ),
    ] {
        let played = emulate(&[command, &[argument, value]].concat());
        let told = err(&played);
        assert_eq!(played.status.code(), Some(2), "{argument} {value}: {told}");
        for word in [argument, limit] {
            assert!(told.contains(word), "`{word}` is not in\n{told}");
        }
    }
    let played = emulate(&[run.as_slice(), &["--seed", "-1"]].concat());
    assert_eq!(played.status.code(), Some(2));
}

/// A plain number is days, as in BOINC's simulator.
#[test]
fn a_half_life_has_the_units_of_all_spans() {
    let path = scenario("several-types.toml");
    let shares = |half_life: &str| {
        let played = emulate(&["run", &path, "--json", "--rec-half-life", half_life]);
        assert!(played.status.success(), "{}", err(&played));
        out(&played)
    };
    let day = shares("1");
    assert_eq!(day, shares("1d"));
    assert_eq!(day, shares("24h"));
    assert_ne!(day, shares("1s"));
}

/// A pipe reader such as `| head` may close the pipe early.
#[test]
fn a_reader_that_is_gone_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = write(folder.path(), "wrong.toml", "[worker]\ncpus = 0\n");
    let path = scenario("one-scheduler.toml");
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        writer
    };
    for arguments in [
        ["check", &path].as_slice(),
        &["run", &path, "--duration", "5m"],
        &["run", &path, "--duration", "5m", "--json"],
        &["matrix", &path, "--duration", "1m"],
        &["storm", "--workers", "2", "--outage", "1s"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        let ended = command.args(arguments).stdout(closed()).output().unwrap();
        assert_eq!(
            (ended.status.code(), err(&ended)),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
    let ended = command.args(["check", &wrong]).stderr(closed()).output();
    assert_eq!(ended.unwrap().status.code(), Some(1));
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
    let ended = command
        .args(["check", &path])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(err(&ended).contains("standard output: cannot be written"));
}

/// The scenarios are found in the clone from any of its folders, and elsewhere in the place where the program was built.
#[test]
fn the_matrix_finds_the_scenarios_of_the_repository_anywhere() {
    let elsewhere = tempfile::tempdir().unwrap();
    let clone = tempfile::tempdir().unwrap();
    let own = clone.path().join("integration-tests/emulator/scenarios");
    let below = clone.path().join("common/src");
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(&below).unwrap();
    fs::copy(scenario("one-scheduler.toml"), own.join("mine.toml")).unwrap();
    let matrix = |folder: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emulate"));
        let played = command.args(["matrix", "--duration", "10s"]);
        let played = played.current_dir(folder).output().unwrap();
        assert!(played.status.success(), "{}", err(&played));
        out(&played)
    };
    let mine = matrix(&below);
    assert!(
        mine.contains("mine: push") && !mine.contains("steady: push"),
        "{mine}"
    );
    assert!(matrix(elsewhere.path()).contains("steady: push"));
}

/// Each option has a description, and no paragraph is wrapped twice.
#[test]
fn the_help_is_whole() {
    for command in ["run", "matrix", "check", "storm"] {
        let help = out(&emulate(&[command, "--help"]));
        let lines: Vec<&str> = help.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let start = line.trim_start();
            if line.starts_with(' ') && (start.starts_with("--") || start.starts_with('<')) {
                let next = lines.get(at + 1).map_or("", |next| next.trim());
                let says = start.contains("  ") || !next.is_empty() && !next.starts_with('-');
                assert!(says, "{command}: {start} says nothing:\n{help}");
            }
            let continues = lines.get(at + 1).is_some_and(|next| !next.is_empty());
            let is_text =
                line.starts_with(|c: char| c.is_ascii_uppercase()) && !line.ends_with(':');
            if is_text && continues {
                assert!(line.len() > 70, "{command}: broken early: {line}");
            }
        }
    }
}

/// The example in the help is a valid scenario.
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
fn a_storm_is_told_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_string_lossy().into_owned();
    let arguments = ["storm", "--workers", "20", "--outage", "2m", "--out", &to];
    let played = emulate(&arguments);
    assert!(played.status.success(), "{}", err(&played));
    assert!(out(&played).contains("\nours "), "{}", out(&played));
    for name in ["storm.txt", "storm.json", "storm.csv"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
