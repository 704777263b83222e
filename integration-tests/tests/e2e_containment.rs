//! Tests workers in separate PID namespaces: no process of a task outlives the worker, whatever the task does to hide it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use integration_tests::e2e::{Client, Process, Stage, WorkerSpec, wait_for, warn_not_run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;

const TASKS: usize = 10;
/// Limit for the death of all processes after keeper and worker have been killed.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Takes the lock of its node, and starts a daemon that holds it too. The daemon has lost everything by which its task could be found: it
/// is two sessions away, with another parent, without the environment and the pipes of the task. Then the script waits.
const HIDING_SCRIPT: &str = r#"#!/bin/sh
set -u
node=$1 status=$2 place=$PWD
cd "$(dirname "$0")/.."
exec 9> "locks/$node"
record() { echo "$1 $node $BRASSERIE_INVOCATION $(date +%s%N) $place" >> runs; }
flock -n 9 || record overlap
record start
(setsid sh -c 'setsid env -i "$(command -v sh)" -c "exec 3>&- 4>&- 5>&-; echo hidden >> hidden; while :; do /bin/sleep 0.1; done" &' </dev/null >/dev/null 2>&1 &)
while [ -e hold ]; do sleep 0.1; done
record end
echo done > "$status"
"#;

/// Returns `unshare` with a separate PID namespace, in which the test may kill by name. `None` where the machine does not allow it.
fn own_namespace() -> Option<Command> {
    let new = || {
        let mut unshare = Command::new("unshare");
        if !geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        unshare
    };
    let tried = new().arg("true").output();
    match tried {
        Ok(output) if output.status.success() => Some(new()),
        Ok(output) => {
            warn_not_run("PID namespaces", &String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            warn_not_run("PID namespaces", &error);
            None
        }
    }
}

/// Starts a program in the test's namespace under its usual name. When there is a file `kill`, kills all programs of Brasserie there.
fn start_to_be_killed(
    stage: &Stage,
    mut unshare: Command,
    program: &Command,
    name: &str,
) -> Process {
    let named = stage.path(name);
    fs::copy(program.get_program(), &named).expect("copied");
    let script = "\"$@\" & while ! [ -e kill ]; do sleep 0.05; done; pkill -9 brasserie; echo $? > killed; exec sleep 1000";
    unshare
        .current_dir(stage.path(""))
        .args(["sh", "-c", script, "sh"])
        .arg(&named)
        .args(program.get_args())
        .arg0("unshare");
    stage.start("namespace", unshare)
}

/// Writes a configuration with ten concurrent tasks, each of which starts a hiding daemon.
fn write_hiding_work(stage: &Stage) -> PathBuf {
    let config = stage.write_work(TASKS, Duration::ZERO);
    let text = fs::read_to_string(&config).expect("it was written");
    fs::write(&config, text.replace("\"limit\": 2", "\"limit\": 10")).expect("written");
    stage.write_script("work/bin/work.sh", HIDING_SCRIPT);
    stage.hold();
    config
}

fn wait_for_daemons(stage: &Stage) {
    wait_for("ten tasks and their daemons", || {
        let text = fs::read_to_string(stage.path("work/hidden")).unwrap_or_default();
        (text.lines().count() >= TASKS).then_some(())
    });
    assert_eq!(stage.alive().len(), TASKS);
}

/// Kills the programs in the test's namespace, and checks that every task and every daemon is dead at once.
fn kill_at_once(stage: &Stage) {
    stage.write("kill", "");
    wait_for("the kill", || stage.path("killed").exists().then_some(()));
    let killed = Instant::now();
    wait_for("the end of all processes", || {
        stage.alive().is_empty().then_some(())
    });
    assert!(killed.elapsed() < AT_ONCE, "{:?}", killed.elapsed());
    assert_eq!(stage.records().runs.len(), TASKS);
}

fn kill_everything_by_name(again_in: impl FnOnce(&Stage, &mut WorkerSpec)) {
    let Some(unshare) = own_namespace() else {
        return;
    };
    let stage = Stage::new();
    let config = write_hiding_work(&stage);
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let mut worker = stage.worker_spec("one", &spec);
    let program = stage.worker_command(&worker);
    let first = start_to_be_killed(&stage, unshare, &program, "brasserie-worker");
    wait_for_daemons(&stage);
    first.wait_for_output("containment: pid-namespace");

    kill_at_once(&stage);

    again_in(&stage, &mut worker);
    stage.release();
    let mut second = stage.start_worker(&worker);
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.runs.len(), 2 * TASKS);
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
    let holder = fs::read_to_string(worker.data_dir.join("lock")).expect("it is in use");
    let seen_here = second.program().to_string();
    assert_eq!(
        holder.trim(),
        seen_here,
        "the number outside of the namespace"
    );
    second.signal(Signal::SIGTERM);
    second.wait();
    assert!(stage.alive().is_empty(), "{:?}", stage.alive());
}

#[test]
fn kill_9_of_all_programs_at_once_leaves_no_process_and_the_directory_comes_back() {
    kill_everything_by_name(|_, _| {});
}

#[test]
fn kill_9_of_all_programs_at_once_leaves_no_process_although_the_directory_is_lost() {
    kill_everything_by_name(|stage, worker| {
        fs::remove_dir_all(&worker.data_dir).expect("lost");
        worker.data_dir = stage.path("another");
    });
}

#[test]
fn kill_9_of_a_worker_with_two_schedulers_and_of_its_keeper_leaves_no_process_of_either() {
    if own_namespace().is_none() {
        return;
    }
    let stages = [Stage::new(), Stage::new()];
    let specs = [&stages[0], &stages[1]].map(|stage| {
        let config = write_hiding_work(stage);
        stage.scheduler_spec(&config).with("--new-cluster")
    });
    let _schedulers = [0, 1].map(|at| stages[at].start_scheduler(&specs[at]));
    let mut spec = stages[0].worker_spec("two", &specs[0]);
    let second = format!("--scheduler={}:{}", specs[1].address, specs[1].port);
    spec.flags.push(second);
    spec.flags.push("--contain=pid-namespace".to_owned());
    let mut worker = stages[0].start_worker(&spec);
    stages.iter().for_each(wait_for_daemons);
    let program = worker.program();
    worker.signal(Signal::SIGKILL);
    kill(program, Signal::SIGKILL).expect("the worker below the keeper");
    worker.wait();
    for stage in &stages {
        wait_for("the end of all processes", || {
            stage.alive().is_empty().then_some(())
        });
        assert_eq!(stage.records().runs.len(), TASKS);
    }
}

const NOBODY: u32 = 65_534;

/// Returns `setpriv` for a program of another user.
fn as_nobody() -> Command {
    let id = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
    command
}

fn give_to_nobody(stage: &Stage, worker: &WorkerSpec) {
    fs::create_dir(&worker.data_dir).expect("a new folder");
    for entry in ["", "work", "work/locks", "worker-one"] {
        chown(stage.path(entry), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
}

fn start_as_nobody(stage: &Stage, worker: &WorkerSpec) -> Process {
    let program = stage.worker_command(worker);
    let file = PathBuf::from(program.get_program());
    let mut command = as_nobody();
    command.arg(&file).args(program.get_args());
    stage.start_through("worker", command, &file)
}

#[test]
fn a_namespace_of_an_ordinary_user_ends_all_tasks_of_a_killed_worker() {
    if !geteuid().is_root() {
        warn_not_run("a worker of another user", &"only root can start it");
        return;
    }
    let namespaces = [
        "unshare",
        "--user",
        "--pid",
        "--fork",
        "--mount-proc",
        "true",
    ];
    let tried = as_nobody().args(namespaces).output().expect("setpriv");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        warn_not_run("user namespaces", &why);
        return;
    }
    let stage = Stage::new();
    let config = write_hiding_work(&stage);
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let _scheduler = stage.start_scheduler(&spec);
    let mut worker = stage.worker_spec("one", &spec);
    worker.flags.push("--contain=pid-namespace".to_owned());
    give_to_nobody(&stage, &worker);
    let mut first = start_as_nobody(&stage, &worker);
    wait_for_daemons(&stage);
    first.wait_for_output("containment: pid-namespace");
    first.kill_with_keeper();
    wait_for("the end of all processes", || {
        stage.alive().is_empty().then_some(())
    });
    let records = stage.records();
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
}

#[test]
fn a_worker_of_an_ordinary_user_ends_what_its_killed_predecessor_left() {
    if !geteuid().is_root() {
        warn_not_run("a worker of another user", &"only root can start it");
        return;
    }
    let stage = Stage::new();
    let config = write_hiding_work(&stage);
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let _scheduler = stage.start_scheduler(&spec);
    let worker = stage.worker_spec("one", &spec);
    give_to_nobody(&stage, &worker);
    let mut first = start_as_nobody(&stage, &worker);
    wait_for_daemons(&stage);
    first.wait_for_output("containment: process-groups");
    first.wait_for_output("CAP_SYS_ADMIN");
    first.kill_with_keeper();
    assert_eq!(stage.alive().len(), TASKS, "nobody has ended them yet");

    stage.release();
    let mut second = start_as_nobody(&stage, &worker);
    Client::new(spec.port).wait_all_done();
    let records = stage.records();
    assert_eq!(records.runs.len(), 2 * TASKS);
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
    second.signal(Signal::SIGTERM);
    second.wait();
    assert!(stage.alive().is_empty(), "{:?}", stage.alive());
}

#[test]
fn kill_9_of_a_whole_run_at_once_leaves_no_process_and_the_run_can_be_resumed() {
    let Some(unshare) = own_namespace() else {
        return;
    };
    let stage = Stage::new();
    let config = write_hiding_work(&stage);
    let data_dir = stage.path("data");
    let text = |path: &PathBuf| {
        path.to_str()
            .expect("temporary folders have plain names")
            .to_owned()
    };
    let (config, data_dir) = (text(&config), text(&data_dir));
    let arguments = ["run", &config, "--data-dir", &data_dir];
    let program = stage.brasserie_command(&arguments);
    let _first = start_to_be_killed(&stage, unshare, &program, "brasserie");
    wait_for_daemons(&stage);
    kill_at_once(&stage);

    stage.release();
    let resumed = stage.brasserie(&arguments);
    assert_eq!(resumed.code, Some(0), "{}", resumed.output);
    let records = stage.records();
    assert_eq!(records.runs.len(), 2 * TASKS);
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
    assert!(stage.alive().is_empty(), "{:?}", stage.alive());
}
