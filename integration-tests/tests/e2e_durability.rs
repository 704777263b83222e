//! Tests that nothing is acknowledged before it is on disk. A killed process does not show that, because the kernel keeps its writes. So
//! the system calls of a real scheduler are traced: between the read of a status and the write of its answer, the store's log must be
//! synced. For failing syncs, a preloaded library records what a power failure would leave.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use brasserie_thrift::generated::brasserie::ClusterStatus;
use brasserie_thrift::generated::worker::BistroWorkerRunTaskArgs;
use integration_tests::e2e::{Client, FailingDisk, Process, SchedulerSpec, Stage, wait_for};
use integration_tests::fake_worker::FakeWorker;

/// A text in the status, and thus in the system call that reads it.
const TOKEN: &str = "watched-status";
const READS: [&str; 4] = ["read", "readv", "recvfrom", "recvmsg"];
const WRITES: [&str; 4] = ["write", "writev", "sendto", "sendmsg"];
const SYNCS: [&str; 2] = ["fsync", "fdatasync"];

/// One finished system call, in the order in which they finished.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    name: String,
    /// The text that strace shows between the brackets.
    arguments: String,
    succeeded: bool,
}

impl Call {
    /// Returns the first argument, `9<TCP:...>` or `9</path>`.
    fn descriptor(&self) -> &str {
        let end = self.arguments.find(", ").unwrap_or(self.arguments.len());
        &self.arguments[..end]
    }
}

/// Parses the output of `strace -f`, in which a call that another thread interrupts takes two lines.
fn finished_calls(text: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, String> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        // The columns are `PID TIME CALL(ARGUMENTS) = RESULT`.
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let Some((_time, rest)) = rest.trim_start().split_once(' ') else {
            continue;
        };
        let whole = if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, start.to_owned());
            continue;
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let end = resumed.split_once(" resumed>").map_or("", |(_, end)| end);
            begun.remove(pid).unwrap_or_default() + end
        } else {
            rest.to_owned()
        };
        let Some((name, rest)) = whole.split_once('(') else {
            continue;
        };
        let Some((arguments, result)) = rest.rsplit_once(") = ").or_else(|| {
            // strace aligns results of short calls with spaces.
            let (head, result) = rest.rsplit_once("= ")?;
            Some((head.trim_end().strip_suffix(')')?, result))
        }) else {
            continue;
        };
        let succeeded = !result.starts_with('-') && !result.starts_with('?');
        calls.push(Call {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            succeeded,
        });
    }
    calls
}

/// Returns the calls from the read of the status to the write of its answer, if both exist.
fn acknowledgement(calls: &[Call]) -> Option<&[Call]> {
    let read = calls.iter().position(|c| {
        READS.contains(&c.name.as_str()) && c.succeeded && c.arguments.contains(TOKEN)
    })?;
    let descriptor = calls[read].descriptor();
    let is_answer =
        |c: &Call| WRITES.contains(&c.name.as_str()) && c.succeeded && c.descriptor() == descriptor;
    let answer = calls[read..].iter().position(is_answer)?;
    Some(&calls[read..=read + answer])
}

fn is_sync_of_the_store(call: &Call) -> bool {
    SYNCS.contains(&call.name.as_str())
        && call.succeeded
        && call.arguments.contains("state.sqlite3")
}

#[test]
fn a_status_is_synced_before_it_is_acknowledged() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let trace = stage.path("trace");
    let scheduler = stage.scheduler_command(&spec);
    let mut command = Command::new("strace");
    let watched = [READS.as_slice(), WRITES.as_slice(), SYNCS.as_slice()]
        .concat()
        .join(",");
    command
        // Longer than a status, so that the token is shown.
        .args([
            "-f",
            "-tt",
            "-y",
            "-s",
            "2000",
            "-e",
            &format!("trace={watched}"),
            "-o",
        ])
        .arg(&trace)
        .arg(scheduler.get_program())
        .args(scheduler.get_args());
    let _scheduler = stage.start("strace", command);

    let worker = FakeWorker::start(spec.port, "fake");
    let task = worker.next_task();
    let status = format!(r#"{{"result": "done", "data": {{"token": "{TOKEN}"}}}}"#);
    let acknowledged = worker.report(&task, &status).into_result();
    assert!(acknowledged.is_ok(), "{acknowledged:?}");
    Client::new(spec.port).wait_all_done();

    let calls = wait_for("the status and its answer in the trace", || {
        let text = String::from_utf8_lossy(&std::fs::read(&trace).unwrap_or_default()).into_owned();
        acknowledgement(&finished_calls(&text)).map(<[Call]>::to_vec)
    });
    let syncs = calls
        .iter()
        .filter(|call| is_sync_of_the_store(call))
        .count();
    assert!(
        syncs > 0,
        "acknowledged without a sync of the store: {calls:#?}"
    );
}

#[test]
fn the_trace_is_understood() {
    let text = "\
10    12:00:00.000000 read(9<socket:[1]>,  <unfinished ...>
10    12:00:00.000001 <... read resumed>\"..updateStatus..watched-status\", 8192) = 30
11 12:00:00.000002 fdatasync(5</d/state.sqlite3-wal> <unfinished ...>
10 12:00:00.000003 sendto(8<socket:[2]>, \"other\", 5, MSG_NOSIGNAL, NULL, 0) = 5
11 12:00:00.000004 <... fdatasync resumed>)        = 0
10 12:00:00.000005 sendto(9<socket:[1]>, \"updateStatus\", 12, MSG_NOSIGNAL, NULL, 0) = 12
10 12:00:00.000006 fsync(5</d/state.sqlite3-wal>)        = -1 EIO (Input/output error)
10 12:00:00.000007 +++ exited with 0 +++";
    let calls = finished_calls(text);
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["read", "sendto", "fdatasync", "sendto", "fsync"]);
    let between = acknowledgement(&calls).unwrap();
    assert_eq!(between.len(), 4);
    assert_eq!(
        between
            .iter()
            .filter(|call| is_sync_of_the_store(call))
            .count(),
        1
    );
    assert!(!is_sync_of_the_store(&calls[4]), "it failed");
    assert_eq!(
        acknowledgement(&calls[1..]),
        None,
        "without the status there is no answer to it"
    );
}

const DATABASE: &str = "state.sqlite3";
const LOG: &str = "state.sqlite3-wal";
const DONE: &str = r#"{"result": "done"}"#;

/// A scheduler whose store is on a failing disk, and a worker that reports what the test requests.
struct FailingStore {
    stage: Stage,
    spec: SchedulerSpec,
    disk: FailingDisk,
    scheduler: Process,
    worker: FakeWorker,
    client: Client,
    /// The number of completions that were acknowledged or shown as durable.
    durable: i64,
}

impl FailingStore {
    fn start(tasks: usize) -> Self {
        let stage = Stage::new();
        let config = stage.write_work(tasks, Duration::ZERO);
        let spec = stage.calm_spec(&config);
        let disk = FailingDisk::new(&stage.path("disk"), &spec.data_dir.join(DATABASE));
        FailingStore {
            scheduler: start_on(&stage, &spec, &disk),
            worker: FakeWorker::start(spec.port, "fake"),
            client: Client::new(spec.port),
            durable: 0,
            stage,
            spec,
            disk,
        }
    }

    fn restart(&mut self) {
        self.scheduler = start_on(&self.stage, &self.spec, &self.disk);
    }

    /// Completes a task, which must be acknowledged.
    fn complete(&mut self, task: &BistroWorkerRunTaskArgs, status: &str) {
        let answer = self.worker.report(task, status).into_result();
        assert!(answer.is_ok(), "{answer:?}");
        self.durable += 1;
    }

    /// Makes syncs fail until those of a commit and of a checkpoint of the reopened store have failed. Returns a task whose completion was
    /// not acknowledged.
    fn fail(&self) -> BistroWorkerRunTaskArgs {
        self.disk.fail_syncs_of("");
        let task = self.worker.next_task();
        let answer = self.worker.report(&task, DONE).into_result();
        assert!(answer.is_err(), "acknowledged: {answer:?}");
        wait_for("a checkpoint to fail twice", || {
            (self.disk.failures(DATABASE) >= 2).then_some(())
        });
        assert!(self.disk.failures(LOG) >= 1);
        let answer = self.worker.report(&task, DONE).into_result();
        assert!(answer.is_err(), "acknowledged: {answer:?}");
        self.client
            .wait_until("an error of the store", store_has_failed);
        task
    }

    /// Restarts the scheduler after a power failure, and checks that it has exactly the durable completions.
    fn survives_power_failure(mut self) {
        self.scheduler.kill_program();
        self.disk.lose_power();
        self.restart();
        self.client.wait_healthy(1);
        let status = self.client.wait_until("tasks", |status| {
            let mut jobs = status.jobs.iter().flatten();
            status.nodes_loaded == Some(true) && jobs.any(|job| job.running > Some(0))
        });
        let counts = status.jobs.iter().flatten().map(|job| job.done);
        assert_eq!(counts.collect::<Vec<_>>(), [Some(self.durable)]);
    }
}

fn start_on(stage: &Stage, spec: &SchedulerSpec, disk: &FailingDisk) -> Process {
    let mut command = stage.scheduler_command(spec);
    disk.holds(&mut command);
    stage.start("scheduler", command)
}

fn store_has_failed(status: &ClusterStatus) -> bool {
    let mut errors = status.errors.iter().flatten();
    errors.any(|error| error.contains("the store cannot write"))
}

#[test]
fn a_store_recovers_from_failed_syncs_only_with_all_of_it_on_disk() {
    let mut store = FailingStore::start(5);
    let task = store.worker.next_task();
    store.complete(&task, DONE);
    let refused = store.fail();
    store.disk.repair();
    let recovered = |status: &ClusterStatus| !store_has_failed(status);
    store.client.wait_until("the store to recover", recovered);
    store.complete(&refused, DONE);
    let task = store.worker.next_task();
    store.complete(&task, DONE);
    store.survives_power_failure();
}

#[test]
fn a_scheduler_killed_while_syncs_fail_starts_with_all_of_its_store_on_disk() {
    let mut store = FailingStore::start(5);
    let task = store.worker.next_task();
    store.complete(&task, DONE);
    let refused = store.fail();
    store.scheduler.kill_program();
    store.disk.repair();
    // The machine keeps running, so the completion with the failed syncs is still readable. Once it is shown, it must last.
    store.restart();
    store.client.wait_healthy(1);
    let is_shown = |status: &ClusterStatus| {
        let mut jobs = status.jobs.iter().flatten();
        jobs.any(|job| job.done == Some(2))
    };
    store.client.wait_until("both completions", is_shown);
    store.durable += 1;
    let task = wait_for("a task of this scheduler", || {
        Some(store.worker.next_task()).filter(|task| task.scheduler != refused.scheduler)
    });
    store.complete(&task, DONE);
    store.survives_power_failure();
}

#[test]
fn failed_syncs_of_the_database_file_alone_lose_nothing() {
    // SQLite copies its log into the database file when the log has 4 MB.
    const TASKS: usize = 80;
    let large = format!(
        r#"{{"result": "done", "data": {{"x": "{}"}}}}"#,
        "x".repeat(60_000)
    );
    let mut store = FailingStore::start(TASKS + 3);
    let task = store.worker.next_task();
    store.complete(&task, DONE);
    store.disk.fail_syncs_of(DATABASE);
    for _ in 0..TASKS {
        let task = store.worker.next_task();
        store.complete(&task, &large);
    }
    assert!(
        store.disk.failures(DATABASE) >= 1,
        "SQLite has copied its log"
    );
    store.disk.repair();
    store.survives_power_failure();
}
