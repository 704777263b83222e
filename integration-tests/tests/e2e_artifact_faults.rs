//! Tests artifacts with real programs while workers fail: a killed one that loses its store, a damaged file, a full disk and a decommission.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use integration_tests::e2e::{
    SchedulerSpec, SmallDisk, Stage, TestAuthority, wait_for, warn_not_run,
};
use serde_json::{Value, json};

const NODES: usize = 200;
/// Bytes of each output.
const SIZE: u64 = 64 << 10;

/// The content of a node's output, by a shell function: 4096 lines of 16 bytes.
const MAKE: &str = r#"make() { awk -v s="${1#n}" 'BEGIN {for (i = 1; i <= 4096; i++) printf "%015d\n", i * s % 1000003}'; }"#;

/// `map` leaves a file for each node; `join` reads that of its node, and `all` those of all nodes. Both compute again what the bytes must be.
fn config(stage: &Stage) -> Value {
    let (joined, all) = (stage.path("joined"), stage.path("all"));
    let is_right = r#"is_right() { test "$(make "$1" | sha256sum)" = "$(sha256sum < "$2")"; }"#;
    let job = |command: String| {
        json!({
            "command": ["/bin/sh", "-ec", command], "arguments": "none", "status_from": "exit_code",
            "backoff": [1, "repeat"],
        })
    };
    let mut map = job(format!("{MAKE}\nmake $BRASSERIE_NODE > data"));
    map["outputs"] = json!(["data"]);
    let mut join = job(format!(
        "{MAKE}\n{is_right}\nis_right $BRASSERIE_NODE $BRASSERIE_INPUTS/map/data\necho $BRASSERIE_NODE >> {}",
        joined.display()
    ));
    join["inputs"] = json!([{"from": "map"}]);
    let mut gather = job(format!(
        "{MAKE}\n{is_right}\ncount=0\nfor of in $BRASSERIE_INPUTS/map/n*; do\nis_right ${{of##*/}} $of/data\ncount=$((count + 1))\ndone\n\
         echo $count > {}",
        all.display()
    ));
    gather["inputs"] = json!([{"from": "map", "node": "all"}]);
    gather["level_for_tasks"] = json!("instance");
    json!({
        "bistro_settings": {
            "nodes": {"levels": ["part"], "node_sources": [{"source": "range_label", "prefs": {
                "parent_level": "instance", "format": "n{i}", "start": 1, "end": NODES,
            }}]},
            "resources": {"worker": {"slots": {"default": 1, "limit": 2}}},
        },
        "bistro_job->map": map,
        "bistro_job->join": join,
        "bistro_job->all": gather,
    })
}

/// Returns the files of outputs below a folder.
fn outputs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => outputs_in(&path),
            false => vec![path],
        })
        .filter(|path| path.to_string_lossy().contains("/content/"))
        .filter(|path| fs::metadata(path).is_ok_and(|found| found.len() == SIZE))
        .collect()
}

/// Changes a byte of a file of the store that the worker has written.
fn damage(store: &Path) {
    let file = wait_for("an output in the store", || outputs_in(store).pop());
    let mut bytes = fs::read(&file).expect("an own file");
    bytes[1000] ^= 1;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("an own file");
    fs::write(&file, bytes).expect("an own file");
}

struct Asking<'a> {
    stage: &'a Stage,
    flags: Vec<String>,
}

impl<'a> Asking<'a> {
    fn of(stage: &'a Stage, spec: &SchedulerSpec) -> Self {
        let address = format!("127.0.0.1:{}", spec.port);
        Asking {
            stage,
            flags: vec!["--scheduler".to_owned(), address],
        }
    }

    fn ask(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let done = self.stage.brasserie(&[arguments, &flags].concat());
        (done.code, done.output)
    }

    fn done(&self, job: &str) -> u64 {
        let (_, listed) = self.ask(&["status", "--job", job, "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap_or_default();
        listed["jobs"][0]["done"].as_u64().unwrap_or(0)
    }

    fn wait_until_done(&self, job: &str) {
        let (code, text) = self.ask(&["job", "wait", job, "--timeout", "110s"]);
        if code != Some(0) {
            let (_, running) = self.ask(&["task", "list", job, "--state", "running"]);
            let node = running
                .split_whitespace()
                .find(|word| word.starts_with('n') && word[1..].parse::<u32>().is_ok());
            let (_, why) = self.ask(&["explain", job, node.unwrap_or("instance")]);
            panic!("{text}\n{running}\n{why}");
        }
    }
}

fn start_with_small_disk(
    stage: &Stage,
    spec: &SchedulerSpec,
    disk: &SmallDisk,
    folder: &Path,
) -> integration_tests::e2e::Process {
    let mut worker = stage.worker_spec("full", spec);
    worker.flags.push(format!("--disk={}", folder.display()));
    stage.start("worker-full", disk.command(&stage.worker_command(&worker)))
}

#[test]
fn all_tasks_get_right_bytes_while_workers_fail() {
    let stage = Stage::new();
    let folder = stage.path("small");
    // Room for about twenty outputs: the rest of the tasks there find it full.
    let disk = match SmallDisk::new(&folder, 2048) {
        Ok(disk) => disk,
        Err(error) => return warn_not_run("the test of artifacts on a full disk", &error),
    };
    let config = stage.write("config.json", &config(&stage).to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let killed = stage.worker_spec("killed", &spec);
    let damaged = stage.worker_spec("damaged", &spec);
    let mut first = stage.start_worker(&killed);
    let _second = stage.start_worker(&damaged);
    let _third = start_with_small_disk(&stage, &spec, &disk, &folder);
    let mut leaving = stage.start_worker(&stage.worker_spec("leaving", &spec));
    let asking = Asking::of(&stage, &spec);
    wait_for("a third of the outputs", || {
        (asking.done("map") >= 70).then_some(())
    });
    damage(&damaged.data_dir.join("artifacts"));
    let (code, text) = asking.ask(&["worker", "decommission", "leaving"]);
    assert_eq!(code, Some(0), "{text}");
    first.kill_with_keeper();
    fs::remove_dir_all(killed.data_dir.join("artifacts")).expect("the store of the worker");
    let _first = stage.start_worker(&killed);
    for job in ["map", "join", "all"] {
        asking.wait_until_done(job);
    }
    let all = fs::read_to_string(stage.path("all")).expect("the count of the gathered files");
    assert_eq!(all.trim(), NODES.to_string());
    let joined = fs::read_to_string(stage.path("joined")).expect("the nodes that were joined");
    let joined: std::collections::BTreeSet<&str> = joined.lines().collect();
    assert_eq!(joined.len(), NODES);
    assert_eq!(leaving.wait().code(), Some(0));
}

/// `map` leaves an output at the worker `holder`, and `join` reads it at the worker `reader`.
fn config_of_two(stage: &Stage) -> Value {
    const CONTENT: &str =
        r#"content() { awk 'BEGIN {for (i = 1; i <= 4096; i++) printf "%015d\n", i}'; }"#;
    let job = |script: String, place: &str| {
        json!({
            "command": ["/bin/sh", "-ec", format!("{CONTENT}\n{script}")], "arguments": "none", "status_from": "exit_code",
            "level_for_tasks": "instance", "resources": {place: 1}, "backoff": [1, "repeat"],
        })
    };
    let made = stage.path("made");
    let mut map = job(
        format!("echo once >> {}\ncontent > data", made.display()),
        "making",
    );
    map["outputs"] = json!(["data"]);
    let read = "content | cmp - $BRASSERIE_INPUTS/map/data";
    let mut join = job(read.to_owned(), "reading");
    join["inputs"] = json!([{"from": "map"}]);
    let none = json!({"default": 0, "limit": 0});
    json!({
        "bistro_settings": {
            "nodes": {"levels": [], "node_sources": []},
            "resources": {"worker": {"making": none, "reading": none}},
            "worker_resources_override": {"holder": {"making": 1}, "reader": {"reading": 1}},
        },
        "bistro_job->map": map,
        "bistro_job->join": join,
    })
}

/// Damages the only copy of an output before another worker fetches it, which must make its producer run again.
fn check_repair(authority: impl FnOnce(&SchedulerSpec) -> Option<TestAuthority>) {
    let stage = Stage::new();
    let config = stage.write("config.json", &config_of_two(&stage).to_string());
    let spec = stage.calm_spec(&config);
    let authority = authority(&spec);
    let worker = |shard: &str| {
        let worker = stage.worker_spec(shard, &spec);
        match &authority {
            Some(authority) => authority.admit(worker),
            None => worker,
        }
    };
    let _scheduler = stage.start_scheduler(&spec);
    let holder = worker("holder");
    let _holder = stage.start_worker(&holder);
    let mut asking = Asking::of(&stage, &spec);
    if authority.is_some() {
        let directory = spec.data_dir.to_string_lossy().into_owned();
        asking.flags.extend(["--token-file".to_owned(), directory]);
    }
    wait_for("the output", || (asking.done("map") == 1).then_some(()));
    damage(&holder.data_dir.join("artifacts"));
    let _reader = stage.start_worker(&worker("reader"));
    wait_for("the task that reads the output", || {
        (asking.done("join") == 1).then_some(())
    });
    let made = fs::read_to_string(stage.path("made")).expect("the runs of the producer");
    assert_eq!(made.lines().count(), 2, "it has run again");
}

#[test]
fn a_damaged_output_is_made_again() {
    check_repair(|_| None);
}

#[test]
fn a_damaged_output_is_made_again_where_workers_prove_who_they_are() {
    check_repair(|spec| Some(TestAuthority::give(spec)));
}
