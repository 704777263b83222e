//! Tests `brasserie artifact` with real programs: people see, fetch and forget the outputs of tasks.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use integration_tests::e2e::{
    Finished, Process, SchedulerSpec, SmallDisk, Stage, wait_for, warn_not_run,
};
use nix::fcntl::{OFlag, open, openat};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::mkfifo;
use serde_json::{Value, json};

/// The task on each node leaves a file and a folder; `read` has them as inputs and runs until it is killed.
fn config() -> Value {
    json!({
        "bistro_settings": {
            "nodes": {"levels": ["part"], "node_sources": [{"source": "manual", "prefs": {"n1": [], "n2": []}}]},
            "resources": {"worker": {"slots": {"default": 1, "limit": 2}}},
        },
        "bistro_job->make": {
            "command": ["/bin/sh", "-ec", "echo $BRASSERIE_NODE > name; mkdir -p f/sub; echo 'echo hello' > f/sub/run; chmod +x f/sub/run; : > f/empty"],
            "arguments": "none", "status_from": "exit_code",
            "outputs": ["name", "f/"],
        },
        "bistro_job->read": {
            "command": ["/bin/sleep", "600"],
            "arguments": "none", "status_from": "exit_code",
            "inputs": [{"from": "make"}],
        },
    })
}

struct Played {
    stage: Stage,
    spec: SchedulerSpec,
    _scheduler: Process,
    _worker: Process,
}

impl Played {
    /// Starts a cluster, and waits until the outputs are there.
    fn start() -> Self {
        Played::start_with(&config())
    }

    fn start_with(config: &Value) -> Self {
        let stage = Stage::new();
        let config = stage.write("config.json", &config.to_string());
        let spec = stage.calm_spec(&config);
        let scheduler = stage.start_scheduler(&spec);
        let worker = stage.start_worker(&stage.worker_spec("one", &spec));
        let played = Played {
            stage,
            spec,
            _scheduler: scheduler,
            _worker: worker,
        };
        wait_for("two tasks to leave outputs that a worker has", || {
            let listed = played.json(&["artifact", "list"]);
            let outputs = listed["outputs"].as_array().cloned().unwrap_or_default();
            let available = |output: &&Value| output["state"] == "available";
            (outputs.iter().filter(available).count() == 4).then_some(())
        });
        played
    }

    fn ask(&self, arguments: &[&str]) -> Finished {
        let address = format!("127.0.0.1:{}", self.spec.port);
        let mut all = arguments.to_vec();
        all.extend(["--scheduler", &address]);
        self.stage.brasserie(&all)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        serde_json::from_str(&self.ask(&all).output).unwrap_or_default()
    }

    fn get(&self, node: &str, path: &str, to: &Path, more: &[&str]) -> Finished {
        let to = to.to_str().expect("a path of the stage is UTF-8");
        let mut arguments = vec!["artifact", "get", "make", node, path, "--to", to];
        arguments.extend(more);
        self.ask(&arguments)
    }
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder that can be read") {
        let path = entry.expect("an entry that can be read").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn outputs_are_listed_and_located() {
    let played = Played::start();
    let listed = played.json(&["artifact", "list", "make", "--node", "n1"]);
    let paths = ["f/", "name"].map(|path| json!(path));
    assert_eq!(
        [&listed["outputs"][0]["path"], &listed["outputs"][1]["path"]],
        [&paths[0], &paths[1]]
    );
    assert_eq!(listed["outputs"][1]["bytes"], 3, "{listed}");
    assert_eq!(listed["jobs"][0]["consumers"], json!(["read"]), "{listed}");
    let text = played.ask(&["artifact", "list"]).output;
    for part in [
        "n2    name  file",
        "Outputs of job `make`: ",
        "inputs of read",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let located = played.ask(&["artifact", "locate", "make", "n1", "f"]);
    assert_eq!(located.code, Some(0), "{located:?}");
    assert!(located.output.contains("n1    f/    one"), "{located:?}");
    let unknown = played.ask(&["artifact", "locate", "make", "n1", "nam"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(
        unknown.output.contains("did you mean `name`?"),
        "{unknown:?}"
    );
    let empty = played.ask(&["artifact", "list", "read"]);
    assert_eq!(empty.code, Some(0), "{empty:?}");
    assert!(empty.output.contains("has no key `outputs`"), "{empty:?}");
}

#[test]
fn outputs_are_fetched_verified_and_not_written_over() {
    let played = Played::start();
    let folder = played.stage.path("got");
    fs::create_dir(&folder).expect("a new folder");
    let got = played.get("n2", "name", &folder, &[]);
    assert_eq!(got.code, Some(0), "{got:?}");
    let file = folder.join("name");
    assert!(
        got.output.contains(&format!("{}: written", file.display())),
        "{got:?}"
    );
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "n2\n");
    let again = played.get("n1", "name", &file, &[]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(
        again.output.contains("exists already. `--force`"),
        "{again:?}"
    );
    assert_eq!(played.get("n1", "name", &file, &["--force"]).code, Some(0));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "n1\n");
    let tree = folder.join("tree");
    for more in [&[][..], &["--force"]] {
        let got = played.get("n1", "f/", &tree, more);
        // An existing folder gets the output under its own name.
        assert_eq!(got.code, Some(0), "{got:?}");
    }
    for program in [tree.join("sub/run"), tree.join("f/sub/run")] {
        assert_eq!(
            fs::read_to_string(&program).expect("it is there"),
            "echo hello\n"
        );
        let mode = fs::metadata(&program)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o100, 0o100);
    }
    assert_eq!(
        fs::read_dir(&folder).expect("a folder").count(),
        2,
        "nothing temporary is left"
    );
}

#[test]
fn only_files_and_folders_are_replaced() {
    let played = Played::start();
    let (pipe, link) = (played.stage.path("pipe"), played.stage.path("link"));
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    symlink("pipe", &link).expect("a link");
    for (place, more) in [
        (&pipe, &["--force"][..]),
        (&pipe, &[]),
        (&link, &["--force"]),
        (&link, &[]),
    ] {
        let before = fs::symlink_metadata(place).expect("it is there").ino();
        let got = played.get("n1", "name", place, more);
        assert_eq!(got.code, Some(1), "{got:?}");
        assert!(
            got.output.contains("is neither a plain file nor a folder"),
            "{got:?}"
        );
        // That would not help.
        assert!(!got.output.contains("`--force`"), "{got:?}");
        assert!(got.output.contains("or remove it first"), "{got:?}");
        let after = fs::symlink_metadata(place).expect("it is there").ino();
        assert_eq!(before, after);
    }
}

#[test]
fn all_outputs_of_a_job_are_fetched_and_those_that_are_there_are_skipped() {
    let played = Played::start();
    let folder = played.stage.path("all");
    let to = folder.to_str().expect("a path of the stage is UTF-8");
    let get =
        |more: &[&str]| played.ask(&[&["artifact", "get", "make", "--to", to], more].concat());
    let got = get(&[]);
    assert_eq!(got.code, Some(0), "{got:?}");
    assert!(got.output.contains("4 outputs written with "), "{got:?}");
    for node in ["n1", "n2"] {
        let text = fs::read_to_string(folder.join(node).join("name"));
        assert_eq!(text.expect("it was fetched"), format!("{node}\n"));
        assert!(folder.join(node).join("f/sub/run").is_file());
    }
    assert_eq!(files(&folder).len(), 6, "nothing temporary is left");
    let again = get(&[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let none = "0 outputs written with 0 B, 4 already there";
    assert!(again.output.contains(none), "{again:?}");
    // Others are neither replaced nor do they keep the rest away.
    fs::write(folder.join("n1/name"), "no").expect("ours");
    fs::write(folder.join("n2/f/sub/more"), "").expect("ours");
    fs::remove_file(folder.join("n2/name")).expect("ours");
    let failed = get(&[]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    for part in [
        "`name` of node `n1`: ",
        "`f/` of node `n2`: ",
        "exists already",
        "1 output written with 3 B, 1 already there, 2 failed",
    ] {
        assert!(failed.output.contains(part), "{part}: {failed:?}");
    }
    let document = get(&["--json"]).output;
    assert!(document.contains("\"incomplete\""), "{document}");
    // A link in the place of a node's folder leads nowhere.
    let (node, elsewhere) = (folder.join("n1"), played.stage.path("elsewhere"));
    fs::rename(&node, &elsewhere).expect("ours");
    fs::remove_dir_all(&elsewhere).expect("ours");
    fs::create_dir(&elsewhere).expect("ours");
    symlink(&elsewhere, &node).expect("ours");
    let linked = get(&["--force"]);
    assert_eq!(linked.code, Some(1), "{linked:?}");
    assert!(linked.output.contains("n1 is no folder"), "{linked:?}");
    assert!(files(&elsewhere).is_empty());
    fs::remove_file(&node).expect("ours");
    let forced = get(&["--force"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert!(forced.output.contains("2 outputs written"), "{forced:?}");
    assert_eq!(files(&folder).len(), 6, "nothing else is left");
}

#[test]
fn a_full_disk_ends_the_fetching_of_all_outputs() {
    let played = Played::start();
    let folder = played.stage.path("full");
    // Room for one page.
    let disk = match SmallDisk::new(&folder, 4) {
        Ok(disk) => disk,
        Err(error) => return warn_not_run("the test of outputs on a full disk", &error),
    };
    let (to, address) = (
        folder.to_string_lossy(),
        format!("127.0.0.1:{}", played.spec.port),
    );
    let arguments = ["artifact", "get", "make", "--to", &to, "--json"];
    let arguments = [&arguments[..], &["--scheduler", &address]].concat();
    let command = disk.command(&played.stage.brasserie_command(&arguments));
    let got = played.stage.finish("brasserie", command);
    assert_eq!(got.code, Some(1), "{got:?}");
    let document = got.output.find("{\n").map(|at| &got.output[at..]);
    let document: Value = serde_json::from_str(document.unwrap_or_default()).expect("JSON");
    assert_eq!(
        document["failed"].as_array().map(Vec::len),
        Some(1),
        "{document}"
    );
    let written = document["written"].as_u64().expect("a number");
    assert_eq!(document["untried"], 3 - written, "{document}");
}

#[test]
fn all_outputs_of_a_task_need_a_folder() {
    let played = Played::start();
    let folder = played.stage.path("one");
    let to = folder.to_str().expect("a path of the stage is UTF-8");
    let got = played.ask(&["artifact", "get", "make", "n2", "--to", to]);
    assert_eq!(got.code, Some(0), "{got:?}");
    assert_eq!(files(&folder).len(), 3, "{got:?}");
    let file = folder.join("n2/name");
    let below = folder.join("new/newer");
    for to in [&file, &below] {
        let to = to.to_str().expect("a path of the stage is UTF-8");
        let refused = played.ask(&["artifact", "get", "make", "--to", to]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.output.contains("--to"), "{refused:?}");
    }
    let device = played.get("n1", "name", Path::new("/dev/null"), &[]);
    assert_eq!(device.code, Some(1), "{device:?}");
    assert!(!device.output.contains("remove"), "{device:?}");
    let nowhere = played.ask(&["artifact", "get", "make"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
    assert!(nowhere.output.contains("--to DIR"), "{nowhere:?}");
}

#[test]
fn a_folder_deeper_than_any_path_is_replaced() {
    let played = Played::start();
    let folder = played.stage.path("got");
    fs::create_dir_all(folder.join("name")).expect("a folder");
    let flags = OFlag::O_DIRECTORY;
    let mut at = open(&folder.join("name"), flags, Mode::empty()).expect("a folder");
    for _ in 0..16_000 {
        mkdirat(&at, "d", Mode::S_IRWXU).expect("a free name");
        at = openat(&at, "d", flags, Mode::empty()).expect("a folder");
    }
    let got = played.get("n1", "name", &folder, &["--force"]);
    assert_eq!(got.code, Some(0), "{got:?}");
    let text = fs::read_to_string(folder.join("name"));
    assert_eq!(text.expect("it is a file now"), "n1\n");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
}

#[test]
fn a_file_without_a_reliable_size_is_not_uploaded() {
    let played = Played::start();
    let put = played.ask(&["artifact", "put", "/proc/self/maps"]);
    assert_eq!(put.code, Some(1), "{put:?}");
    for part in [
        "the size of /proc/self/maps is not reliable",
        "says 0 bytes",
        "upload the copy",
    ] {
        assert!(put.output.contains(part), "{part}: {put:?}");
    }
}

#[test]
fn a_damaged_copy_is_not_written() {
    let played = Played::start();
    let is_of_n1 = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes == b"n1\n");
    let copies = files(&played.stage.path("."));
    let stored = copies
        .iter()
        .filter(|path| path.to_string_lossy().contains("/content/"));
    let stored: Vec<&PathBuf> = stored.filter(|path| is_of_n1(path)).collect();
    assert_eq!(stored.len(), 1, "{stored:?}");
    fs::set_permissions(stored[0], fs::Permissions::from_mode(0o600)).expect("an own file");
    fs::write(stored[0], "n3\n").expect("an own file");
    let place = played.stage.path("name");
    let got = played.get("n1", "name", &place, &[]);
    assert_eq!(got.code, Some(1), "{got:?}");
    assert!(got.output.contains("worker `one` at "), "{got:?}");
    assert!(
        got.output.contains("no worker has sent a good copy"),
        "{got:?}"
    );
    assert!(!place.exists());
}

#[test]
fn needed_outputs_are_forgotten_by_force_only() {
    let played = Played::start();
    let refused = played.ask(&["artifact", "rm", "make", "n1"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for part in ["job `read` on `n1`", "nothing was forgotten", "--force"] {
        assert!(refused.output.contains(part), "{part}: {refused:?}");
    }
    let forgotten = played.ask(&["artifact", "rm", "make", "n1", "--force"]);
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    assert!(
        forgotten
            .output
            .contains("make: 2 outputs of 1 task forgotten"),
        "{forgotten:?}"
    );
    let all = played.json(&["artifact", "rm", "make", "--force"]);
    assert_eq!((&all["tasks"], &all["outputs"]), (&json!(1), &json!(2)));
    let listed = played.json(&["artifact", "list", "make"]);
    assert_eq!(listed["outputs"], json!([]));
    let gone = played.ask(&["artifact", "get", "make", "n1", "name"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    for part in ["a user removed them", "`brasserie job delete-history make`"] {
        assert!(gone.output.contains(part), "{part}: {gone:?}");
    }
}

/// Starts a cluster whose outputs are held.
fn start_held() -> Played {
    let mut config = config();
    config["bistro_job->make"]["keep"] = json!("while_held");
    let jobs = config.as_object_mut().expect("an object");
    jobs.remove("bistro_job->read");
    Played::start_with(&config)
}

impl Played {
    fn hold(&self, job: &str, program: &str) -> Finished {
        let address = format!("127.0.0.1:{}", self.spec.port);
        let hold = ["artifact", "hold", job, "--scheduler", &address];
        let program = ["--", "/bin/sh", "-c", program];
        self.stage.brasserie(&[&hold[..], &program].concat())
    }

    fn count_outputs(&self) -> usize {
        let listed = self.json(&["artifact", "list"]);
        listed["outputs"].as_array().map_or(usize::MAX, Vec::len)
    }
}

#[test]
fn held_outputs_go_when_the_last_hold_has_ended() {
    let played = start_held();
    let refused = played.hold("nobody", "echo started");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(!refused.output.contains("started"), "{refused:?}");
    let address = format!("127.0.0.1:{}", played.spec.port);
    let long = ["artifact", "hold", "make", "--scheduler", &address];
    let long = played.stage.brasserie_command(&long);
    let mut long = played.stage.start("hold", long);
    long.wait_for_output("stay until this command ends");
    let short = played.hold("make", "true");
    assert_eq!(short.code, Some(0), "{short:?}");
    assert_eq!(played.count_outputs(), 4);
    long.signal(Signal::SIGINT);
    assert_eq!(long.wait().code(), Some(130));
    wait_for("the outputs to be gone", || {
        (played.count_outputs() == 0).then_some(())
    });
    let late = played.hold("make", "true");
    assert_eq!(late.code, Some(0), "{late:?}");
    assert!(late.output.contains("has no outputs now"), "{late:?}");
    assert!(late.output.contains("the last hold on them"), "{late:?}");
}

#[test]
fn a_program_that_fails_leaves_time_for_another_try_and_ends_the_command_with_its_code() {
    let played = start_held();
    let failed = played.hold("make", "echo failing; exit 7");
    assert_eq!(failed.code, Some(7), "{failed:?}");
    assert!(failed.output.contains("exit status: 7"), "{failed:?}");
    let killed = played.hold("make", "kill -KILL $$");
    assert_eq!(killed.code, Some(137), "{killed:?}");
    assert_eq!(played.count_outputs(), 4);
    // That hold still counts.
    let held = played.hold("make", "true");
    assert_eq!(held.code, Some(0), "{held:?}");
    assert_eq!(played.count_outputs(), 4);
}
