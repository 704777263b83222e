//! Tests `brasserie run` as a newcomer uses it: the quick start, errors, an interruption, and continuing afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::fs::DirBuilder;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brasserie_common_runtime::DataDir;
use brasserie_common_runtime::log_writer::FLUSH_LIMIT;
use integration_tests::e2e::{
    Finished, SmallDisk, Stage, WORK_SCRIPT, copy_sources, python, wait_for, warn_not_run,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Duration of tasks that must not end by themselves.
const FOR_EVER: Duration = Duration::from_secs(1000);
/// Far shorter than any default timeout of the worker protocol, so that the test fails if anything waits for one.
const SOON: Duration = Duration::from_secs(60);

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Returns the number of runs of each task of the quick start, by job and node.
fn quickstart_runs(tree: &Path) -> BTreeMap<String, usize> {
    let log = fs::read_to_string(tree.join("target/quickstart/runs.log")).unwrap_or_default();
    let mut runs = BTreeMap::new();
    for line in log.lines() {
        let task = line
            .rsplit_once(' ')
            .map_or(line, |(task, _invocation)| task);
        *runs.entry(task.to_owned()).or_insert(0) += 1;
    }
    runs
}

/// Creates a folder with one crate of two files, and the examples.
fn small_tree(stage: &Stage) -> PathBuf {
    let tree = stage.path("tree");
    copy_sources(&stage.path("all"));
    fs::create_dir(&tree).expect("a folder in a temporary folder");
    fs::rename(stage.path("all/examples"), tree.join("examples"))
        .expect("a rename in a temporary folder");
    stage.write("tree/one/Cargo.toml", "[package]\n");
    stage.write("tree/one/src/lib.rs", "//! One.\n");
    stage.write("tree/one/src/main.rs", "fn main() {}\n");
    tree
}

/// The first config of the guide runs unchanged.
#[test]
fn the_first_config_of_the_guide_runs_to_its_end() {
    let page = include_str!("../../docs/src/guide/config.md");
    let (_, block) = page.split_once("```json\n").expect("a config");
    let (config, _) = block.split_once("```").expect("its end");
    let stage = Stage::new();
    let path = stage.write("config.json", config);
    let checked = stage.brasserie(&["config", "check", text(&path)]);
    assert_eq!(checked.code, Some(0), "{}", checked.output);
    assert!(!checked.output.contains("warning"), "{}", checked.output);
    let ran = stage.brasserie(&["run", text(&path)]);
    assert_eq!(ran.code, Some(0), "{}", ran.output);
    assert!(ran.output.contains("all done"), "{}", ran.output);
}

#[test]
fn the_quick_start_runs_once_and_never_again() {
    let stage = Stage::new();
    let tree = stage.path("tree");
    copy_sources(&tree);
    let config = tree.join("examples/quickstart.json");
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];

    let first = stage.brasserie(&arguments);
    assert_eq!(first.code, Some(0), "{}", first.output);
    assert!(first.output.contains("all done"), "{}", first.output);
    let runs = quickstart_runs(&tree);
    assert!(
        runs.contains_key("measure cli/src/main.rs") && runs.contains_key("check cli/src/main.rs"),
        "{runs:?}"
    );
    assert!(
        runs.values().all(|&count| count == 1),
        "some ran twice: {runs:?}"
    );
    let measured = runs
        .keys()
        .filter(|task| task.starts_with("measure "))
        .count();
    assert_eq!(
        measured * 2,
        runs.len(),
        "each file is measured and checked"
    );

    let second = stage.brasserie(&arguments);
    assert_eq!(second.code, Some(0), "{}", second.output);
    assert_eq!(
        quickstart_runs(&tree),
        runs,
        "the second run started something"
    );
}

/// Files with equal names in several folders are separate tasks. Without `names` the run reports the names and starts nothing.
#[test]
fn files_of_equal_names_are_processed_each() {
    let stage = Stage::new();
    let tree = small_tree(&stage);
    fs::remove_dir_all(tree.join("one")).expect("a folder in a temporary folder");
    for folder in 1..=4 {
        for file in 1..=5 {
            let path = format!("tree/folder{folder}/file{file}");
            stage.write(&path, &format!("{folder} {file}\n"));
        }
    }
    let config = tree.join("examples/files.json");
    let finished = stage.brasserie(&["run", text(&config)]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    for folder in 1..=4 {
        let compressed = tree.join(format!("target/files/folder{folder}"));
        let mut names: Vec<String> = fs::read_dir(&compressed)
            .expect("what the tasks have written")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("plain")
            })
            .collect();
        names.sort();
        let expected: Vec<String> = (1..=5).map(|file| format!("file{file}.gz")).collect();
        assert_eq!(names, expected, "{}", finished.output);
    }

    let plain = fs::read_to_string(&config).expect("the example");
    let plain = plain.replace("\"names\": \"path\", ", "");
    fs::write(&config, plain).expect("a file in a temporary folder");
    let refused = stage.brasserie(&["run", text(&config)]);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let error =
        "the name \"file1\" occurs twice at level `file`: under \"folder1\" and under \"folder2\"";
    assert!(refused.output.contains(error), "{}", refused.output);
}

/// One job adds what the tasks of another have left.
#[test]
fn the_words_of_all_folders_are_added() {
    let stage = Stage::new();
    let tree = small_tree(&stage);
    for (file, words) in [
        ("a/one.md", "zebra okapi, zebra"),
        ("b/two.md", "Zebra quagga"),
    ] {
        stage.write(&format!("tree/{file}"), words);
    }
    let config = tree.join("examples/words.json");
    let finished = stage.brasserie(&["run", text(&config)]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    let words = fs::read_to_string(tree.join("target/words.txt")).expect("the result");
    for line in ["3 zebra", "1 okapi", "1 quagga"] {
        assert!(words.lines().any(|found| found == line), "{words}");
    }
}

/// The config's `env`, `cwd`, `max_running` and `retries` apply to the task's processes.
#[test]
fn a_job_sets_environment_directory_limit_and_retries() {
    let stage = Stage::new();
    fs::create_dir(stage.path("out")).expect("a folder in a temporary folder");
    let say = "mkdir alone || exit 9; echo $GREETING >> said; rmdir alone; exit 3";
    let config = json!({
        "bistro_settings": {"nodes": {"levels": ["n"], "node_sources": [
            {"source": "manual", "prefs": {"a": [], "b": [], "c": []}},
        ]}},
        "bistro_job->say": {
            "command": ["/bin/sh", "-c", say], "arguments": "none",
            "env": {"GREETING": "good day"}, "cwd": "out", "max_running": 1,
            "retries": 1, "retry_delay": "1s",
        },
    });
    stage.write("c.json", &config.to_string());
    let finished = stage.brasserie(&["run", text(&stage.path("c.json"))]);
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    let said = fs::read_to_string(stage.path("out/said")).unwrap_or_default();
    // Each of three tasks runs twice, and no two run at once.
    assert_eq!(said, "good day\n".repeat(6), "{}", finished.output);
}

#[test]
fn a_dangling_link_fails_by_name_after_its_backoff() {
    let stage = Stage::new();
    let tree = small_tree(&stage);
    symlink("nowhere", tree.join("one/src/dangling.rs")).expect("a link in a temporary folder");
    let config = tree.join("examples/quickstart.json");

    let finished = stage.brasserie(&[
        "run",
        text(&config),
        "--data-dir",
        text(&stage.path("data")),
    ]);
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    assert!(
        finished.output.contains("one/src/dangling.rs"),
        "{}",
        finished.output
    );
    assert!(
        finished.output.contains("the file cannot be read"),
        "{}",
        finished.output
    );
    let runs = quickstart_runs(&tree);
    assert_eq!(
        runs.get("measure one/src/dangling.rs"),
        Some(&2),
        "once more after the backoff: {runs:?}"
    );
    assert_eq!(runs.get("check one/src/dangling.rs"), None, "{runs:?}");
    assert_eq!(runs.get("check one/src/lib.rs"), Some(&1), "{runs:?}");
}

#[test]
fn without_retry_the_first_error_is_final() {
    let stage = Stage::new();
    let tree = small_tree(&stage);
    symlink("nowhere", tree.join("one/src/dangling.rs")).expect("a link in a temporary folder");
    let config = tree.join("examples/quickstart.json");

    let finished = stage.brasserie(&[
        "run",
        text(&config),
        "--no-retry",
        "--data-dir",
        text(&stage.path("data")),
    ]);
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    assert!(
        finished.output.contains("one/src/dangling.rs"),
        "{}",
        finished.output
    );
    let runs = quickstart_runs(&tree);
    assert_eq!(
        runs.get("measure one/src/dangling.rs"),
        Some(&1),
        "{runs:?}"
    );
}

#[test]
fn a_temporary_folder_is_kept_and_named_only_after_failure() {
    let stage = Stage::new();
    let tree = small_tree(&stage);
    let config = tree.join("examples/quickstart.json");
    let temporary = stage.path("tmp");
    let run = || stage.brasserie(&["run", text(&config), "--no-retry"]);
    let left = || fs::read_dir(&temporary).expect("a readable folder").count();

    let success = run();
    assert_eq!((success.code, left()), (Some(0), 0), "{}", success.output);
    symlink("nowhere", tree.join("one/src/dangling.rs")).expect("a link in a temporary folder");
    let failure = run();
    assert_eq!((failure.code, left()), (Some(1), 1), "{}", failure.output);
    assert!(
        failure.output.contains(text(&temporary)),
        "the folder is named: {}",
        failure.output
    );
}

#[test]
fn a_run_names_the_job_whose_filters_no_node_passes() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": { "nodes": { "levels": ["item"], "node_sources": [
            { "source": "manual", "prefs": { "a": [] } }
        ] } },
        "bistro_job->all": { "command": ["/bin/true"] },
        "bistro_job->typo": { "command": ["/bin/true"], "filters": { "item": { "whitelist": ["aa"] } } }
    });
    let config = stage.write("config.json", &config.to_string());
    let finished = stage.brasserie(&["run", text(&config)]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    let told = "\njob `typo` has no task: the only node of its level `item` is excluded by its `filters`\n";
    assert!(finished.output.contains(told), "{}", finished.output);
}

#[test]
fn a_run_without_nodes_says_that_its_level_has_none() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": { "nodes": { "levels": ["item"], "node_sources": [
            { "source": "empty" }
        ] } },
        "bistro_job->all": { "command": ["/bin/true"] }
    });
    let config = stage.write("config.json", &config.to_string());
    let data_dir = stage.path("data");
    let finished = stage.brasserie(&["run", text(&config), "--data-dir", text(&data_dir)]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    let why = "has no task, because its level `item` has no node";
    let told = format!("\njob `all` {why}");
    assert!(finished.output.contains(&told), "{}", finished.output);
    assert!(!finished.output.contains("filters"), "{}", finished.output);
    let explained = stage.brasserie(&["explain", "all", "--data-dir", text(&data_dir)]);
    assert!(explained.output.contains(why), "{}", explained.output);
}

/// Writes a config with two nodes and a job that prints `word`.
fn echoing(stage: &Stage, name: &str, word: &str) -> PathBuf {
    let config = json!({
        "bistro_settings": { "nodes": { "levels": ["item"], "node_sources": [
            { "source": "manual", "prefs": { "alpha": [], "beta": [] } }
        ] } },
        "bistro_job->j": { "command": ["/bin/echo", word] }
    });
    stage.write(name, &config.to_string())
}

#[test]
fn a_run_says_what_earlier_runs_in_its_directory_have_done() {
    let stage = Stage::new();
    let data_dir = stage.path("data");
    let in_it =
        |command: &[&str]| stage.brasserie(&[command, &["--data-dir", text(&data_dir)]].concat());
    let ends = |finished: &Finished, parts: &[&str]| {
        assert_eq!(finished.code, Some(0), "{}", finished.output);
        for part in parts {
            assert!(finished.output.contains(part), "{}", finished.output);
        }
    };
    let config = echoing(&stage, "one.json", "first");
    let first = in_it(&["run", text(&config)]);
    ends(&first, &["all done in "]);
    assert!(!first.output.contains("last run"), "{}", first.output);

    const NOTHING: &str = "all done by earlier runs in this directory, so nothing ran";
    let same = in_it(&["run", text(&config)]);
    ends(&same, &[NOTHING]);
    assert!(!same.output.contains("last run"), "{}", same.output);
    echoing(&stage, "one.json", "second");
    let changed = in_it(&["run", text(&config)]);
    ends(
        &changed,
        &[NOTHING, "job `j` has changed since the last run"],
    );
    let other = echoing(&stage, "two.json", "second");
    let other = in_it(&["run", text(&other)]);
    let told = format!(
        "the last run in this directory was of {}, with job `j`. The completed tasks of job `j` do not run again on nodes with the same names. \
         Use another --data-dir",
        text(&config)
    );
    ends(&other, &[NOTHING, &told]);

    let all = in_it(&["logs", "--all"]);
    assert_eq!(all.output.matches("first").count(), 2, "{}", all.output);
    let documents = in_it(&["logs", "--all", "--json"]).output;
    let lines: Vec<Value> = documents
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document a line"))
        .collect();
    assert_eq!(lines.len(), 2, "{documents}");
    for (arguments, why) in [
        (
            &["logs", "j", "alpha", "--stderr"][..],
            "this task has written no line on standard error",
        ),
        (
            &["logs", "j", "--stderr", "--all"],
            "no task of job `j` has written a line on standard error",
        ),
        (&["logs", "--regex", "third"], "no line on standard output"),
    ] {
        ends(&in_it(arguments), &[why]);
    }
    let misspelt = in_it(&["logs", "j", "alpa"]);
    assert_eq!(misspelt.code, Some(1), "{}", misspelt.output);
    let meant = "no node is called `alpa`; did you mean `alpha`?";
    assert!(misspelt.output.contains(meant), "{}", misspelt.output);
    let explained = in_it(&["explain", "j"]);
    let told = format!("task list --job j --data-dir {}", text(&data_dir));
    ends(&explained, &[&told]);
}

#[test]
fn a_run_refuses_a_directory_whose_store_is_gone_or_whose_run_goes_on() {
    let stage = Stage::new();
    let data_dir = stage.path("data");
    let config = echoing(&stage, "one.json", "once");
    let in_it = |arguments: &[&str]| {
        stage.brasserie(
            &[
                &["run", text(&config), "--data-dir", text(&data_dir)],
                arguments,
            ]
            .concat(),
        )
    };
    assert_eq!(in_it(&[]).code, Some(0));
    fs::remove_dir_all(data_dir.join("scheduler")).expect("the store");
    for arguments in [&[][..], &["--retry-failed"]] {
        let refused = in_it(arguments);
        assert_eq!(refused.code, Some(2), "{}", refused.output);
        assert!(refused.output.contains("is gone"), "{}", refused.output);
    }

    let other = stage.path("other");
    let began = stage.path("began");
    let script = format!("echo x >> {}; sleep 60", text(&began));
    let long = json!({
        "bistro_settings": { "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [] } }] } },
        "bistro_job->j": { "command": ["/bin/sh", "-c", script] }
    });
    let long = stage.write("long.json", &long.to_string());
    let arguments = ["run", text(&long), "--data-dir", text(&other)];
    let mut first = stage
        .brasserie_command(&arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("a run");
    wait_for("the task", || began.exists().then_some(()));
    fs::remove_dir_all(&other).expect("the directory of the run");
    let second = stage.brasserie(&arguments);
    assert_eq!(second.code, Some(1), "{}", second.output);
    assert!(
        second
            .output
            .contains("goes on, although that directory was removed"),
        "{}",
        second.output
    );
    let pid = Pid::from_raw(i32::try_from(first.id()).expect("a pid"));
    kill(pid, Signal::SIGTERM).expect("it runs");
    first.wait().expect("it ends");
    assert_eq!(
        fs::read_to_string(&began).expect("a file").lines().count(),
        1
    );
}

#[test]
fn a_run_warns_of_missing_programs_and_names_the_next_time_of_a_schedule() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": { "nodes": { "levels": ["night"], "node_sources": [
            { "source": "add_time", "prefs": { "parent_level": "instance", "schedule": [
                { "lifetime": 60, "cron": { "year": 2199, "month": 1, "day_of_month": 1, "hour": 0, "minute": 0,
                    "time_zone": "UTC", "dst_fixes": ["skip", "repeat_use_both"] } }
            ] } }
        ] } },
        "bistro_job->j": { "command": ["./gone.sh"] }
    });
    let config = stage.write("config.json", &config.to_string());
    let finished = stage.brasserie(&["run", text(&config)]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    for part in [
        "gone.sh does not exist",
        "nothing to do: no enabled job has a task",
        "node source 1 gives nodes of level `night` next on Tue 2199-01-01 00:00",
    ] {
        assert!(finished.output.contains(part), "{}", finished.output);
    }
}

#[test]
fn a_run_without_nodes_says_which_source_gave_none() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": { "nodes": { "levels": ["item"], "node_sources": [
            { "source": "script", "prefs": { "parent_level": "instance", "script": "./none.sh" } }
        ] } },
        "bistro_job->j": { "command": ["/bin/true"] }
    });
    stage.write("config.json", &config.to_string());
    stage.write_script("none.sh", "#!/bin/sh\n");
    let finished = stage.brasserie(&["run", text(&stage.path("config.json"))]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    for part in [
        "node source 1 gave no nodes: its script ./none.sh printed no names",
        "nothing to do: no enabled job has a task",
    ] {
        assert!(finished.output.contains(part), "{}", finished.output);
    }

    // The quick start without its clone reports the missing files once.
    let tree = small_tree(&stage);
    fs::remove_dir_all(tree.join("one")).expect("a folder in a temporary folder");
    let mut command = stage.brasserie_command(&["run", "examples/quickstart.json"]);
    command.current_dir(&tree).env("TMPDIR", stage.path(""));
    let finished = stage.finish("brasserie", command);
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    let told = finished
        .output
        .matches("has no Cargo.toml below it")
        .count();
    assert_eq!(told, 1, "{}", finished.output);
    // No task ran, so nothing is kept.
    assert!(!finished.output.contains("kept"), "{}", finished.output);
    let left = fs::read_dir(stage.path("")).expect("a temporary folder");
    let left = left.map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().starts_with("brasserie-run-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn config_errors_have_a_place_and_a_code_of_their_own() {
    let stage = Stage::new();
    for (name, content, place) in [
        (
            "broken.json",
            "{\n  \"bistro_settings\": {\n    nonsense\n",
            "broken.json:3:5",
        ),
        (
            "wrong.json",
            "{\n  \"bistro_settings\": {\n    \"enabled\": [],\n    \"nodes\": {\"levels\": []}\n  }\n}\n",
            "wrong.json:3:16",
        ),
    ] {
        let config = stage.write(name, content);
        let finished = stage.brasserie(&["run", text(&config)]);
        assert_eq!(finished.code, Some(2), "{}", finished.output);
        assert!(
            finished.output.contains(place),
            "{place}: {}",
            finished.output
        );
    }
    let missing = stage.path("missing.json");
    let finished = stage.brasserie(&["run", text(&missing)]);
    assert_eq!(finished.code, Some(2), "{}", finished.output);
    assert!(
        finished.output.contains("missing.json"),
        "{}",
        finished.output
    );
}

#[test]
fn an_interruption_ends_the_tasks_and_the_rest_can_be_resumed() {
    let stage = Stage::new();
    let config = stage.write_work(4, Duration::ZERO);
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    stage.set_pause(FOR_EVER);

    let mut run = stage.start_brasserie(&arguments);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    assert_eq!(stage.alive().len(), 2);
    run.signal(Signal::SIGINT);
    let status = run.wait();
    assert_eq!(status.code(), Some(130), "{}", run.output());
    assert_eq!(
        stage.alive(),
        Vec::<String>::new(),
        "tasks outlive the program"
    );

    stage.set_pause(Duration::ZERO);
    let resumed = Instant::now();
    // No task has failed, and none is over.
    let retry = [&arguments[..], &["--retry-failed"]].concat();
    let finished = stage.brasserie(&retry);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    assert!(
        resumed.elapsed() < SOON,
        "resuming took {:?}",
        resumed.elapsed()
    );
    let records = stage.records();
    assert_eq!(
        (records.finished(), records.runs.len()),
        (4, 6),
        "{records:?}"
    );
    assert!(records.overlaps.is_empty(), "{records:?}");
}

#[test]
fn a_task_is_not_tried_again_beside_its_own_daemon() {
    let stage = Stage::new();
    let script = "exec 9>>lock; flock -n 9 || echo OVERLAP >> runs; echo run >> runs; \
         setsid bash -c 'setsid sleep 1000 & exit' & sleep .3; exit 1";
    let script = format!("cd '{}'; {script}", text(&stage.path("")));
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": 1 } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 2 } } },
            "backoff": [1, 2, "fail"]
        },
        "bistro_job->work": { "owner": "test", "command": ["/bin/bash", "-c", script] }
    });
    let config = stage.write("config.json", &config.to_string());
    let finished = stage.brasserie(&["run", text(&config)]);
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    let runs = fs::read_to_string(stage.path("runs")).expect("it ran");
    assert_eq!(runs, "run\nrun\nrun\n");
}

#[test]
fn a_run_with_a_user_that_the_machine_lacks_does_not_start() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let run = stage.brasserie(&["run", text(&config), "--allow-user", "no-such-user"]);
    assert_eq!(run.code, Some(2), "{}", run.output);
    let why = "--allow-user no-such-user: this machine has no user";
    assert!(run.output.contains(why), "{}", run.output);
}

#[test]
fn a_run_whose_worker_cannot_start_says_so() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let (list, new) = (
        stage.write("failed.jsonl", "an earlier list\n"),
        stage.path("new"),
    );
    // The identity of the worker is damaged.
    let directory = stage.path("damaged");
    let worker = directory.join("worker");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&worker)
        .expect("a folder");
    fs::write(directory.join("lock"), "").expect("a file");
    fs::write(worker.join("worker.json"), "damaged").expect("a file");
    let nobody = ["run", text(&config), "--data-dir", text(&directory)];
    let finished = stage.brasserie(&[&nobody[..], &["--failed-to", text(&list)]].concat());
    let kept = fs::read_to_string(&list).expect("the list");
    assert_eq!(kept, "an earlier list\n", "{}", finished.output);
    stage.brasserie(&[&nobody[..], &["--failed-to", text(&new)]].concat());
    assert!(
        !new.exists(),
        "a list of no tasks says that none has failed"
    );
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    for part in [
        "worker.json cannot be understood",
        "the worker ended: it could not start",
    ] {
        assert!(
            finished.output.contains(part),
            "{part}: {}",
            finished.output
        );
    }
}

#[test]
fn a_killed_run_leaves_no_task_and_can_be_resumed() {
    let stage = Stage::new();
    let config = stage.write_work(3, Duration::ZERO);
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    stage.set_pause(FOR_EVER);

    let mut run = stage.start_brasserie(&arguments);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    run.kill_program();
    assert_eq!(
        stage.alive(),
        Vec::<String>::new(),
        "tasks outlive the program"
    );

    stage.set_pause(Duration::ZERO);
    let resumed = Instant::now();
    let finished = stage.brasserie(&arguments);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    assert!(
        resumed.elapsed() < SOON,
        "resuming took {:?}",
        resumed.elapsed()
    );
    let records = stage.records();
    assert_eq!(records.finished(), 3, "{records:?}");
    assert!(records.overlaps.is_empty(), "{records:?}");
}

#[test]
fn a_run_waits_a_moment_for_the_end_of_another_one_in_its_directory() {
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    stage.set_pause(FOR_EVER);
    let run = stage.start_brasserie(&arguments);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    let second = stage.brasserie(&arguments);
    assert_eq!(second.code, Some(1), "{}", second.output);
    for part in ["; waiting up to 3.0 s for its end", "end that one first"] {
        assert!(second.output.contains(part), "{part}: {}", second.output);
    }

    // The processes of the killed run need a moment to end.
    run.signal(Signal::SIGKILL);
    stage.set_pause(Duration::ZERO);
    let resumed = stage.brasserie(&arguments);
    assert_eq!(resumed.code, Some(0), "{}", resumed.output);
    let records = stage.records();
    assert_eq!(records.finished(), 2, "{records:?}");
    assert!(records.overlaps.is_empty(), "{records:?}");
}

/// Writes a config whose job prints on both streams and fails on `bad`.
fn talkative(stage: &Stage, nodes: &[&str]) -> PathBuf {
    let nodes: BTreeMap<&str, [&str; 0]> = nodes.iter().map(|node| (*node, [])).collect();
    let script = "echo \"out of $BRASSERIE_NODE\"; echo \"err of $BRASSERIE_NODE\" >&2; test $BRASSERIE_NODE != bad || exit 3";
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": nodes }] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 2 } } },
            "backoff": ["fail"]
        },
        "bistro_job->talk": { "command": ["/bin/sh", "-c", script], "arguments": "none" }
    });
    stage.write("talk.json", &format!("{config:#}"))
}

/// Returns the paths, lengths and modification times of all files and folders below `folder`.
fn stamps(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let meta = path.symlink_metadata().expect("its metadata");
        found.push((path.clone(), meta.len(), meta.modified().expect("a time")));
        if meta.is_dir() {
            found.extend(stamps(&path));
        }
    }
    found.sort();
    found
}

/// Checks that commands report unknown names in the directory of an ended run, and delete the copy of the store that they read.
fn unknown_names_are_reported(stage: &Stage, data_dir: &Path) {
    let temporary = stage.path("copies");
    fs::create_dir(&temporary).expect("a folder in a temporary folder");
    for (command, unknown) in [
        (&["logs", "nobody"][..], "no job is called `nobody`"),
        (&["logs", "talk", "nowhere"], "no node is called `nowhere`"),
        (
            &["logs", "talk", "nowhere", "--follow"],
            "no node is called `nowhere`",
        ),
        (
            &["explain", "talk", "nowhere"],
            "no node is called `nowhere`",
        ),
        (&["status", "--job", "nobody"], "no job is called `nobody`"),
        (
            &["task", "list", "--job", "nobody"],
            "no job is called `nobody`",
        ),
    ] {
        let arguments = [command, &["--data-dir", text(data_dir)]].concat();
        let mut command = stage.brasserie_command(&arguments);
        command.env("TMPDIR", &temporary);
        let finished = stage.finish("brasserie", command);
        assert_eq!(finished.code, Some(1), "{}", finished.output);
        let told = &finished.output;
        let remedy = match unknown.starts_with("no node") {
            true => "task list --job",
            false => "status --all",
        };
        assert!(told.contains(unknown) && told.contains(remedy), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        let left = fs::read_dir(&temporary).expect("a readable folder").count();
        assert_eq!(left, 0, "{told}");
    }
}

#[test]
fn commands_read_the_directory_of_an_ended_run_and_change_nothing() {
    let stage = Stage::new();
    let config = talkative(&stage, &["good", "bad"]);
    let data_dir = stage.path("a data dir");
    let run = stage.brasserie(&["run", text(&config), "--data-dir", text(&data_dir)]);
    assert_eq!(run.code, Some(1), "{}", run.output);

    let before = stamps(&data_dir);
    let look = |arguments: &[&str]| {
        let arguments = [arguments, &["--data-dir", text(&data_dir)]].concat();
        let finished = stage.brasserie(&arguments);
        assert_eq!(finished.code, Some(0), "{arguments:?}: {}", finished.output);
        finished.output
    };
    let status = look(&["status"]);
    assert!(status.contains("has ended"), "{status}");
    let go_on = format!("brasserie run {} --data-dir '", text(&config));
    assert!(status.contains(&go_on), "{status}");
    assert!(status.contains(" --retry-failed\n"), "{status}");
    let status: Value = serde_json::from_str(&look(&["status", "--json"])).expect("JSON");
    let job = &status["jobs"][0];
    let counts = (&job["total"], &job["done"], &job["failed"]);
    assert_eq!(counts, (&json!(2), &json!(1), &json!(1)), "{status}");
    let problems = (&status["errors"], &status["initial_wait"]);
    assert_eq!(problems, (&json!([]), &Value::Null), "{status}");

    assert_eq!(look(&["logs", "talk", "good"]), "out of good\n");
    assert_eq!(look(&["logs", "talk", "bad", "--stderr"]), "err of bad\n");
    assert_eq!(look(&["logs", "talk", "bad", "--follow"]), "out of bad\n");
    let explained = look(&["explain", "talk", "bad"]);
    assert!(explained.contains("exited with code 3"), "{explained}");
    assert!(explained.contains("err of bad"), "{explained}");
    let listed = look(&["task", "list", "--state", "failed"]);
    assert!(listed.contains("\ntalk  bad   failed"), "{listed}");
    assert!(listed.contains("    | err of bad\n"), "{listed}");
    let cut = look(&["logs", "--limit", "1", "--from-start"]);
    assert!(
        cut.contains("\nbrasserie: only the oldest 1 lines"),
        "{cut}"
    );
    let one = look(&["logs", "--limit", "1", "--json"]);
    assert!(one.contains("only the newest 1 lines"), "{one}");
    assert!(!look(&["logs", "talk"]).contains("newest"));

    // The id of a run has the same format everywhere.
    let explained = look(&["explain", "talk", "bad", "--json"]);
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    let run = explained["last_run"]["invocation"].as_str().expect("text");
    let of_run = look(&["logs", "--invocation", run]);
    assert_eq!(of_run, "talk bad: out of bad\n");

    unknown_names_are_reported(&stage, &data_dir);
    assert_eq!(stamps(&data_dir), before, "looking changed something");

    let nothing = stage.path("nothing");
    for command in [&["status"][..], &["logs"], &["explain", "talk", "bad"]] {
        let arguments = [command, &["--data-dir", text(&nothing)]].concat();
        let finished = stage.brasserie(&arguments);
        assert_eq!(finished.code, Some(2), "{}", finished.output);
        let told = finished.output.contains("no run has used");
        assert!(told, "{}", finished.output);
    }
    assert!(!nothing.exists(), "looking made the directory");
}

#[test]
fn commands_read_the_directory_of_a_run_during_it_and_after_it_was_killed() {
    let stage = Stage::new();
    let config = stage.write_work(4, FOR_EVER);
    let data_dir = stage.path("data");
    let mut run = stage.start_brasserie(&["run", text(&config), "--data-dir", text(&data_dir)]);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    let job = || {
        let arguments = ["status", "--json", "--data-dir", text(&data_dir)];
        let finished = stage.brasserie(&arguments);
        assert_eq!(finished.code, Some(0), "{}", finished.output);
        let status: Value = serde_json::from_str(&finished.output).expect("JSON");
        let workers = status["workers"].as_array().map_or(0, Vec::len);
        (workers, status["jobs"][0]["running"].clone())
    };
    assert_eq!(job(), (1, json!(2)), "its own scheduler answers");
    let running = stage.records().runs[0].node.clone();
    let events = [
        "logs",
        "work",
        &running,
        "--events",
        "--data-dir",
        text(&data_dir),
    ];
    // The worker writes lines every tenth of a second.
    wait_for("the event of its start", || {
        let told = stage.brasserie(&events).output;
        told.contains("\"running\"").then_some(())
    });
    let explain = ["explain", "work", &running, "--data-dir", text(&data_dir)];
    let explained = stage.brasserie(&explain).output;
    assert!(explained.contains("local"), "where it runs: {explained}");

    run.kill_program();
    assert_eq!(
        job(),
        (0, json!(0)),
        "the record names a scheduler that is gone"
    );

    let record = fs::read(data_dir.join("run.json")).expect("its record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let address = record["scheduler"].as_str().expect("it was killed");
    let another = TcpListener::bind(address).expect("the port is free");
    std::thread::spawn(move || another.incoming().for_each(drop));
    assert_eq!(job(), (0, json!(0)), "another program has its port");
}

/// Runs `brasserie` and returns its exit code, standard output and standard error.
fn streams(stage: &Stage, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = stage.brasserie_command(arguments);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_run_prints_each_stream_of_a_task_to_the_same_stream() {
    let stage = Stage::new();
    let config = talkative(&stage, &["good", "bad"]);
    let run = |flags: &[&str]| {
        let (code, out, err) = streams(&stage, &[&["run", text(&config)], flags].concat());
        assert_eq!(code, Some(1), "{flags:?}: {out}{err}");
        (out, err)
    };
    let (good, bad) = ("talk good: out of good\n", "talk bad: err of bad\n");
    let last_words = "  bad: the task exited with code 3\n      | out of bad\n      | err of bad\n";

    let (out, err) = run(&[]);
    assert!(out.contains(good) && !out.contains(bad), "{out}");
    assert!(err.contains(bad) && !err.contains(good), "{err}");
    assert!(out.contains(last_words), "{out}");

    let (out, err) = run(&["--output", "failed"]);
    assert!(!out.contains(good) && !err.contains(bad), "{out}{err}");
    assert!(out.contains(last_words), "{out}");

    let (out, err) = run(&["--output", "none"]);
    assert!(!format!("{out}{err}").contains(" of bad\n"), "{out}{err}");
    assert!(
        out.contains("  bad: the task exited with code 3\n"),
        "{out}"
    );

    let (out, err) = run(&["--json"]);
    assert!(err.contains(good) && err.contains(bad), "{err}");
    let document: Value = serde_json::from_str(&out).expect("nothing else is on stdout");
    assert_eq!(document["result"], "not_done", "{document}");
    let folder = document["data_dir"].as_str().expect("it is kept");
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_run_of_many_tasks_prints_only_the_output_of_failed_ones_by_default() {
    let stage = Stage::new();
    let names: Vec<String> = (0..101).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let config = talkative(&stage, &nodes);
    let (code, out, err) = streams(&stage, &["run", text(&config)]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!out.contains("out of"), "{out}");
    assert!(err.contains("--output all prints it"), "{err}");
    let (code, out, err) = streams(&stage, &["run", text(&config), "--output=all", "--keep"]);
    assert_eq!(code, Some(0), "{out}{err}");
    for node in &nodes {
        let line = format!("talk {node}: out of {node}\n");
        assert_eq!(out.matches(&line).count(), 1, "{line}{out}");
    }
    let kept = err.split_once("are kept in ").expect("it is named").1;
    let folder = kept.split_once(';').expect("a command follows").0;
    let logs = stage.brasserie(&["logs", "talk", "n7", "--data-dir", folder]);
    assert_eq!(logs.output, "out of n7\n");
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_reader_that_begins_after_the_run_gets_every_line() {
    const LINES: usize = 6000;
    let stage = Stage::new();
    let line = "x".repeat(999);
    let script = format!("yes {line} | head -n {LINES}");
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [] } }] },
            "task_subprocess": { "max_log_lines_per_poll_interval": 0 }
        },
        "bistro_job->talk": { "command": ["/bin/sh", "-c", script], "arguments": "none" }
    });
    let config = stage.write("talk.json", &config.to_string());
    let data = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data)];
    let mut command = stage.brasserie_command(&arguments);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut run = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut out = run.stdout.take().expect("it is piped");
    // One byte shows that the cluster works.
    out.read_exact(&mut [0]).expect("a task has printed");
    let scheduler = data.join("scheduler");
    wait_for("the end of the cluster", || {
        let is_in_use = DataDir::is_in_use(&scheduler).expect("it is there");
        (!is_in_use).then_some(())
    });
    // Longer than the run waits for any other output of progress.
    std::thread::sleep(3 * FLUSH_LIMIT);
    // The state of the run is complete, and its directory is free, although nobody reads.
    wait_for("the lock of the run", || {
        let is_in_use = DataDir::is_in_use(&data).expect("it is there");
        (!is_in_use).then_some(())
    });
    let again = stage.brasserie(&[&arguments[..], &["--output", "none"]].concat());
    assert_eq!(again.code, Some(0), "{}", again.output);
    let told = "all done by earlier runs in this directory";
    assert!(again.output.contains(told), "{}", again.output);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    let code = run.wait().expect("one's own child").code();
    assert_eq!(code, Some(0), "{}", rest.len());
    let printed = rest.matches(&line).count();
    assert_eq!(printed, LINES, "of {} bytes", rest.len());
    assert!(rest.contains("all done in "), "the summary comes last");
}

#[test]
fn what_an_earlier_run_printed_is_not_printed_again() {
    let stage = Stage::new();
    let config = talkative(&stage, &["good"]);
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    let first = streams(&stage, &arguments).1;
    assert!(first.contains("out of good"), "{first}");
    let second = streams(&stage, &arguments).1;
    assert!(
        second.contains("all done") && !second.contains("out of good"),
        "{second}"
    );
}

#[test]
fn all_failed_tasks_are_listed_and_written() {
    let stage = Stage::new();
    let script = "echo \"because of $BRASSERIE_NODE\" >&2; exit 3";
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": 1100 } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 8 } } },
            "backoff": ["fail"]
        },
        "bistro_job->fail": { "command": ["/bin/sh", "-c", script], "arguments": "none" },
        "bistro_job->after": { "command": ["/bin/true"], "depends_on": ["fail"], "arguments": "none" }
    });
    let config = stage.write("config.json", &config.to_string());
    let (data_dir, failed) = (stage.path("data"), stage.path("failed.jsonl"));
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    let to_file = ["--failed-to", text(&failed)];
    let (code, out, err) = streams(&stage, &[&arguments[..], &to_file].concat());
    assert_eq!(code, Some(1), "{out}{err}");
    for n in [1, 500, 1100] {
        let task = format!("\n  n{n}: the task exited with code 3\n");
        assert_eq!(out.matches(&task).count(), 1, "n{n}: {out}");
    }
    let first = "tasks failed\n  n1: the task exited with code 3\n      | because of n1\n  n10: the task exited";
    assert!(out.contains(first), "{out}");
    assert!(out.contains("      | because of n7\n"), "{out}");
    assert!(out.contains("after: 1100 of 1100 tasks never ran"), "{out}");
    let lines = fs::read_to_string(&failed).expect("it was written");
    let tasks: BTreeMap<String, String> = lines
        .lines()
        .map(|line| {
            let task: Value = serde_json::from_str(line).expect("a JSON object");
            let part = |key: &str| task[key].as_str().expect("text").to_owned();
            assert_eq!(part("why"), "the task exited with code 3");
            if part("node") == "n7" {
                assert_eq!(task["last_lines"], json!(["because of n7"]), "{task}");
            }
            (part("node"), part("job"))
        })
        .collect();
    assert_eq!((tasks.len(), lines.lines().count()), (1100, 1100));

    // No task is left to start, so the same command lists the same tasks, even if it cannot write the list.
    let full = [&arguments[..], &["--failed-to", "/dev/full"]].concat();
    let (code, out, err) = streams(&stage, &full);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        out.contains("\n  n1100: the task exited with code 3\n"),
        "{out}"
    );
    let why = "cannot write /dev/full (--failed-to): No space left on device";
    assert!(err.contains(why), "{err}");
    let (code, out, _) = streams(&stage, &[&full[..], &["--json"]].concat());
    assert_eq!(code, Some(1));
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let error = document["error"].as_str().unwrap_or_default();
    assert!(error.contains(why), "{document}");
    let failed = document["failed_tasks"].as_array().expect("a list");
    assert_eq!(failed.len(), 1100);
    assert_eq!(failed[0]["last_lines"], json!(["because of n1"]));

    // A terminal shows a screenful.
    let screen = on_terminal(&stage, 80, &[], &arguments);
    assert!(screen.contains("1090 more tasks failed"), "{screen}");
    let shown = screen.matches(": the task exited with code 3").count();
    assert_eq!(shown, 10, "{screen}");
}

/// Returns the output of `brasserie` on a terminal of `columns` columns.
fn on_terminal(
    stage: &Stage,
    columns: u16,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> String {
    const TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
os.waitpid(child, 0)
"#;
    let program = stage.brasserie_command(arguments);
    let mut command = Command::new(python());
    command.args(["-I", "-c", TERMINAL, &columns.to_string()]);
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .env("TERM", "xterm-256color")
        .envs(variables.iter().copied());
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("Python 3 starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn bars_on_a_terminal_show_rate_and_time_left_and_keep_to_its_width() {
    let stage = Stage::new();
    let config = stage.write_work(6, Duration::from_millis(700));
    for (columns, flag) in [(100, ("COLORTERM", "truecolor")), (30, ("NO_COLOR", "1"))] {
        let shown = on_terminal(
            &stage,
            columns,
            &[flag],
            &["run", text(&config), "--output=none"],
        );
        assert!(
            !shown.contains("\u{1b}[3") && !shown.contains("\u{1b}[9"),
            "colours: {shown:?}"
        );
        let is_bar = |line: &&str| line.contains("work [");
        let bars: Vec<&str> = shown.split(['\r', '\n']).filter(is_bar).collect();
        assert!(!bars.is_empty(), "{shown:?}");
        for bar in &bars {
            let (_, bar) = bar.rsplit_once("\u{1b}[2K").unwrap_or(("", bar));
            // The last bar fills its line, so the summary begins on the next line.
            let (bar, rest): (Vec<_>, Vec<_>) = bar
                .char_indices()
                .partition(|(at, _)| *at < usize::from(columns));
            let rest: String = rest.into_iter().map(|(_, c)| c).collect();
            assert!(
                rest.is_empty() || rest.starts_with("job "),
                "{columns}: {bar:?}{rest}"
            );
        }
        if columns == 100 {
            let speed = bars
                .iter()
                .any(|bar| bar.contains("/s, ") || bar.contains("/min, "));
            let left = bars.iter().any(|bar| bar.contains(" left, "));
            assert!(speed && left, "{bars:?}");
        }
    }
}

#[test]
fn retry_failed_runs_only_the_failed_tasks() {
    let stage = Stage::new();
    let mended = stage.path("mended");
    let script = format!(
        "echo \"$BRASSERIE_JOB $BRASSERIE_NODE\" >> '{}'; test $BRASSERIE_NODE != bad || test -e '{}'",
        text(&stage.path("runs")),
        text(&mended)
    );
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [], "b": [], "bad": [] } }] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 1 } } },
            "backoff": ["fail"]
        },
        "bistro_job->one": { "command": ["/bin/sh", "-c", script], "arguments": "none" },
        "bistro_job->two": { "command": ["/bin/sh", "-c", script], "arguments": "none", "depends_on": ["one"] }
    });
    let config = stage.write("config.json", &config.to_string());
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    let retry = [&arguments[..], &["--retry-failed"]].concat();

    let nothing = stage.brasserie(&retry);
    assert_eq!(nothing.code, Some(2), "{}", nothing.output);
    assert!(
        nothing.output.contains("no run has used"),
        "{}",
        nothing.output
    );
    assert!(!data_dir.exists(), "a mistake made the directory");
    let without = stage.brasserie(&["run", text(&config), "--retry-failed"]);
    assert_eq!(without.code, Some(2), "{}", without.output);

    let first = stage.brasserie(&arguments);
    assert_eq!(first.code, Some(1), "{}", first.output);
    let hint = "brasserie: to run the failed tasks again: brasserie run ";
    assert!(first.output.contains(hint), "{}", first.output);
    let runs = || {
        let runs = fs::read_to_string(stage.path("runs")).expect("some ran");
        let mut runs: Vec<String> = runs.lines().map(str::to_owned).collect();
        runs.sort();
        runs
    };
    assert_eq!(runs(), ["one a", "one b", "one bad", "two a", "two b"]);

    stage.write("mended", "");
    let again = stage.brasserie(&arguments);
    assert_eq!(
        again.code,
        Some(1),
        "without the flag a failure is final: {}",
        again.output
    );
    assert_eq!(runs().len(), 5);
    let retried = stage.brasserie(&retry);
    assert_eq!(retried.code, Some(0), "{}", retried.output);
    let want = [
        "one a", "one b", "one bad", "one bad", "two a", "two b", "two bad",
    ];
    assert_eq!(runs(), want);

    let nothing = stage.brasserie(&retry);
    assert_eq!(nothing.code, Some(0), "{}", nothing.output);
    assert!(
        nothing.output.contains("nothing to retry"),
        "{}",
        nothing.output
    );
    assert_eq!(runs(), want);
    let left = stage.brasserie(&["status", "--data-dir", text(&data_dir)]);
    assert!(
        left.output.contains("has ended; these are its results"),
        "{left:?}"
    );
    assert!(!left.output.contains("To continue"), "{left:?}");
}

#[test]
fn an_interrupted_run_prints_a_command_that_continues_it() {
    let stage = Stage::new();
    let config = stage.write_work(4, FOR_EVER);
    let mut run = stage.start_brasserie(&["run", text(&config), "--no-retry"]);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait().code(), Some(130), "{}", run.output());
    let told = run.output();
    assert!(told.contains("interrupted after "), "{told}");
    assert!(told.contains(": 0 of 4 tasks are done"), "{told}");
    let command = told
        .split_once("brasserie: to go on: brasserie ")
        .expect(&told)
        .1;
    let command = command.lines().next().expect("a line");
    let words: Vec<&str> = command.split(' ').collect();
    assert!(words.contains(&"--no-retry"), "{command}");

    stage.set_pause(Duration::ZERO);
    let finished = stage.brasserie(&words);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    assert_eq!(stage.records().finished(), 4);
}

#[test]
fn a_failure_with_retries_left_is_reported_during_the_run() {
    let stage = Stage::new();
    let runs = stage.path("runs");
    let script = format!("echo because >&2; echo run >> '{}'; exit 1", text(&runs));
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [] } }] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 1 } } },
            "backoff": [3600, "fail"]
        },
        "bistro_job->j": { "command": ["/bin/sh", "-c", script], "arguments": "none" }
    });
    let config = stage.write("config.json", &config.to_string());
    let data_dir = stage.path("data");
    let mut run = stage.start_brasserie(&[
        "run",
        text(&config),
        "--output",
        "failed",
        "--data-dir",
        text(&data_dir),
    ]);
    wait_for("the failure to be told", || {
        let told = run.output();
        let failure = told.split_once("j: a task did not succeed and will run again")?;
        let lines = failure.1;
        (lines.contains("exited with code 1") && lines.contains("| because")).then_some(())
    });
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait().code(), Some(130), "{}", run.output());

    // A task in backoff has not failed: the run continues and does not shorten its wait.
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    let mut run = stage.start_brasserie(&[&arguments[..], &["--retry-failed"]].concat());
    wait_for("the worker", || {
        let status = ["status", "--json", "--data-dir", text(&data_dir)];
        let status: Value = serde_json::from_str(&stage.brasserie(&status).output).ok()?;
        let facts = (
            &status["workers"][0]["state"],
            &status["jobs"][0]["in_backoff"],
        );
        (facts == (&json!("healthy"), &json!(1))).then_some(())
    });
    assert_eq!(fs::read_to_string(&runs).expect("it ran"), "run\n");
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait().code(), Some(130), "{}", run.output());
    assert!(!run.output().contains("to retry"), "{}", run.output());
}

/// The default backoff has no end: the run names the next retry and the ways to end the retries, at once and when it is interrupted.
#[test]
fn a_run_whose_retries_have_no_end_says_how_to_end_them() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [] } }] },
        },
        "bistro_job->j": { "command": ["/bin/false"], "arguments": "none" }
    });
    let config = stage.write("config.json", &config.to_string());
    let mut run = stage.start_brasserie(&["run", text(&config)]);
    let ways = [
        "`--no-retry`",
        "`retries` in the job",
        "\"fail\" as the last item of its `backoff`",
    ];
    wait_for("the ways to end the retries", || {
        let told = run.output();
        let (_, told) = told.split_once("will run again; the next retry is in ")?;
        ways.iter().all(|way| told.contains(way)).then_some(())
    });
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait().code(), Some(130), "{}", run.output());
    let told = run.output();
    let (_, summary) = told.split_once("interrupted after ").expect(&told);
    assert!(
        summary.contains("1 task was waiting for a retry, due in "),
        "{told}"
    );
    assert!(ways.iter().all(|way| summary.contains(way)), "{told}");
}

/// Tasks may leave their results in their working directory, which is in the temporary folder.
#[test]
fn a_temporary_folder_with_files_of_tasks_is_kept() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [] } }] },
        },
        "bistro_job->j": { "command": ["/bin/sh", "-c", "echo 42 > result"], "arguments": "none" }
    });
    let config = stage.write("config.json", &config.to_string());
    let finished = stage.brasserie(&["run", text(&config)]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    let (_, told) = finished
        .output
        .split_once("tasks have left files in ")
        .expect(&finished.output);
    let (jobs, _) = told.split_once(", so").expect(told);
    let result = fs::read_to_string(Path::new(jobs).join("j/result"));
    assert_eq!(result.expect("it is kept"), "42\n");
}

/// A later run without output must not be shown with the lines of the run before.
#[test]
fn the_last_lines_of_a_failure_are_those_of_its_last_run() {
    let stage = Stage::new();
    let first = stage.path("first");
    let script = format!(
        "test -e '{first}' && kill -KILL $$; touch '{first}'; echo not an image; exit 1",
        first = text(&first)
    );
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a": [] } }] },
            "backoff": [1, "fail"]
        },
        "bistro_job->j": { "command": ["/bin/sh", "-c", script], "arguments": "none" }
    });
    let config = stage.write("config.json", &config.to_string());
    let arguments = ["run", text(&config), "--output", "failed"];
    let (code, out, err) = streams(&stage, &arguments);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(err.contains("| not an image"), "the first failure: {err}");
    assert!(out.contains("  a: "), "the last failure: {out}");
    assert!(!out.contains("| not an image"), "{out}");
    let kept = err.split_once("are kept in ").expect("it is named").1;
    let folder = kept.split_once(';').expect("a command follows").0;
    fs::remove_dir_all(folder).expect("it is there");
}

/// Ctrl-C ends a command that waits for the nodes of a data directory, and leaves no copy of its store.
#[test]
fn a_signal_ends_what_waits_for_a_slow_script() {
    let stage = Stage::new();
    let (slow, waits) = (stage.path("slow"), stage.path("waits"));
    let list = format!(
        "#!/bin/sh\necho n1\ntest -e '{}' || exit 0\ntouch '{}'\nexec sleep 1000\n",
        slow.display(),
        waits.display()
    );
    stage.write_script("list", &list);
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "script", "prefs": { "parent_level": "instance", "script": "./list", "timeout": 900 } }
            ] },
            "backoff": ["fail"]
        },
        "bistro_job->fail": { "command": ["/bin/false"], "arguments": "none" }
    });
    let config = stage.write("config.json", &config.to_string());
    let data_dir = stage.path("data");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    let first = stage.brasserie(&arguments);
    assert_eq!(first.code, Some(1), "{}", first.output);

    stage.write("slow", "");
    let temporary = stage.path("tmp");
    let left = || fs::read_dir(&temporary).expect("a readable folder").count();
    let retry = [&arguments[..], &["--retry-failed"]].concat();
    let status = ["status", "--data-dir", text(&data_dir)];
    let explain = ["explain", "fail", "n1", "--data-dir", text(&data_dir)];
    for (arguments, copies) in [(&retry[..], 0), (&status, 1), (&explain, 1)] {
        let mut process = stage.start_brasserie(arguments);
        wait_for("the script", || waits.exists().then_some(()));
        assert_eq!(left(), copies, "{arguments:?}");
        process.signal(Signal::SIGINT);
        assert_eq!(process.wait().code(), Some(130), "{}", process.output());
        assert_eq!(left(), 0, "{arguments:?}: {}", process.output());
        fs::remove_file(&waits).expect("it was made");
    }
}

/// Returns a small disk for a run's data directory; `None`, after a warning, if this process may not mount one.
fn small_disk(stage: &Stage, test: &str) -> Option<SmallDisk> {
    const KIB: u32 = 8192;
    let disk = SmallDisk::new(&stage.path("disk"), KIB);
    if let Err(error) = &disk {
        warn_not_run(test, &format!("a disk of one's own: {error}"));
    }
    disk.ok()
}

/// Runs tasks whose output exceeds a small disk, and expects their completions and `words` in the run's output.
fn assert_output_leaves_room(test: &str, command: &[&str], output: &str, words: &[&str]) {
    const TASKS: usize = 12;
    let stage = Stage::new();
    let Some(disk) = small_disk(&stage, test) else {
        return;
    };
    let nodes: serde_json::Map<String, Value> = (0..TASKS)
        .map(|number| (format!("n{number}"), json!([])))
        .collect();
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": nodes }] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 2 } } }
        },
        "bistro_job->j": {
            "command": command, "arguments": "none",
            "task_subprocess": { "max_log_lines_per_poll_interval": 0, "output": output }
        }
    });
    let config = stage.write("config.json", &config.to_string());
    let data_dir = stage.path("disk");
    let run = stage.brasserie_command(&[
        "run",
        text(&config),
        "--output",
        "none",
        "--data-dir",
        text(&data_dir),
    ]);
    let run = stage.finish("brasserie", disk.command(&run));
    assert_eq!(run.code, Some(0), "{}", run.output);
    for words in [
        words,
        &["task output leaves 2.0 MiB to the records", "all done"],
    ]
    .concat()
    {
        assert!(run.output.contains(words), "{words}: {}", run.output);
    }
    assert!(!run.output.contains("stands still"), "{}", run.output);
}

#[test]
fn task_output_leaves_room_on_a_small_disk_for_completions() {
    assert_output_leaves_room(
        "task_output_leaves_room_on_a_small_disk_for_completions",
        // The log takes several times as much for each line.
        &["seq", "1", "20000"],
        "log",
        &["/worker/logs has "],
    );
}

#[test]
fn task_output_in_files_leaves_room_on_a_small_disk_for_completions() {
    assert_output_leaves_room(
        "task_output_in_files_leaves_room_on_a_small_disk_for_completions",
        // Random bytes cannot be compressed.
        &["head", "-c", "2000000", "/dev/urandom"],
        "file",
        &["/worker/output has "],
    );
}

#[test]
fn a_run_whose_disk_is_full_says_so_and_goes_on_once_there_is_room() {
    const TASKS: usize = 4;
    let stage = Stage::new();
    let Some(disk) = small_disk(
        &stage,
        "a_run_whose_disk_is_full_says_so_and_goes_on_once_there_is_room",
    ) else {
        return;
    };
    let config = stage.write_work(TASKS, Duration::ZERO);
    // Larger than the disk space that a checkpoint of the store's log frees.
    let large = r#"printf '{"result": "done", "data": {"x": "%060000d"}}\n' 0 >"#;
    stage.write_script(
        "work/bin/work.sh",
        &WORK_SCRIPT.replace("echo done >", large),
    );
    stage.hold();
    let data_dir = stage.path("disk");
    let arguments = ["run", text(&config), "--data-dir", text(&data_dir)];
    let run = disk.command(&stage.brasserie_command(&arguments));
    let mut run = stage.start("brasserie", run);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    disk.fill();
    stage.release();
    wait_for("the full disk to be told", || {
        let told = run.output();
        let (_, told) =
            told.split_once("brasserie: the run stands still: the store cannot write")?;
        let facts = [
            "The disk of ",
            text(&data_dir),
            " of 8.0 MiB free; logged task output takes ",
            "make room there, and the run goes on by itself",
        ];
        facts.iter().all(|fact| told.contains(fact)).then_some(())
    });
    disk.free();
    assert_eq!(run.wait().code(), Some(0), "{}", run.output());
    let told = run.output();
    assert!(told.contains("brasserie: the run goes on\n"), "{told}");
    assert_eq!(stage.records().finished(), TASKS);
}
