//! Tests a disk that is really full: a small file system that only this test's threads see.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime};

use brasserie_common::logs::{LogLine, LogQuery, LogStream};
use brasserie_common::{
    InvocationId, JobName, NodeName, Output, StatusFrom, TaskSubprocessOptions, Time, WallTime,
};
use brasserie_worker::logs::{LogConfig, LogHealth, LogStore};
use brasserie_worker::process::{
    ProcessRunner, RunKey, Runner, RunnerConfig, SpawnRequest, TaskEnd,
};
use flate2::read::MultiGzDecoder;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// The longest wait; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The size of the file system. The filler takes half of it.
const DISK_BYTES: usize = 1 << 20;
/// The part that task output leaves free for records, less the bytes by which the last write may round up.
const RESERVE_BYTES: usize = DISK_BYTES / 4 - 8192;

/// Mounts a small file system at `place`, for this thread and those that it starts.
fn mount_small(place: &Path) -> nix::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let size = format!("size={DISK_BYTES}");
    let flags = MsFlags::empty();
    mount(
        Some("tmpfs"),
        place,
        Some("tmpfs"),
        flags,
        Some(size.as_str()),
    )
}

/// A runner that runs tasks one after another, and their logs.
struct Bench {
    runner: ProcessRunner,
    ends: Receiver<TaskEnd>,
    logs: Arc<LogStore>,
    number: i64,
}

impl Bench {
    fn new(data_dir: &Path, logs: &Path) -> Self {
        let clock = || {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let millis = since.expect("the clock is set").as_millis();
            WallTime::from_millis(i64::try_from(millis).expect("in range"))
        };
        let logs = LogStore::open(LogConfig::new(logs.to_owned()), Arc::new(clock));
        let logs = Arc::new(logs.expect("there is room for a folder"));
        let (sender, ends) = mpsc::channel();
        let config = RunnerConfig::new(data_dir.to_owned(), "here".to_owned(), Arc::clone(&logs));
        let sink = move |end: TaskEnd| sender.send(end).expect("the test listens");
        Bench {
            runner: ProcessRunner::start(config, sink).expect("a runner"),
            ends,
            logs,
            number: 0,
        }
    }

    /// Runs a script that must succeed. Returns the state of the log afterwards.
    fn run(&mut self, script: &str) -> LogHealth {
        self.run_into(Output::Log, script)
    }

    fn run_into(&mut self, output: Output, script: &str) -> LogHealth {
        self.number += 1;
        let node = NodeName::try_from(self.number.to_string()).expect("a name");
        let request = SpawnRequest {
            fence: None,
            key: RunKey {
                invocation: InvocationId::new(1, self.number),
                job: JobName::try_from("job").expect("a name"),
                node: node.clone(),
            },
            command: ["sh", "-c", script].map(str::to_owned).into(),
            argument: "{}".to_owned(),
            path_to_node: vec![node],
            options: TaskSubprocessOptions {
                max_log_lines_per_poll_interval: 0,
                status_from: StatusFrom::ExitCode,
                output,
                ..TaskSubprocessOptions::default()
            },
            cuda_devices: Vec::new(),
            not_after: Time::NEVER,
            association: brasserie_worker_core::AssociationIndex::FIRST,
            asked: Instant::now(),
            inputs: None,
        };
        self.runner.spawn(request).expect("accepted");
        let end = self.ends.recv_timeout(PATIENCE).expect("it ends");
        assert!(end.status.is_done(), "{script}: {end:?}");
        self.logs.flush();
        self.logs.health()
    }

    /// Runs a script with a file. Returns the file's content, and the event in the log.
    fn run_into_file(&mut self, script: &str) -> (Vec<u8>, serde_json::Value) {
        self.run_into(Output::File, script);
        let deadline = Instant::now() + PATIENCE;
        let regex = format!("task_output_written.*invocation_rand\":{},", self.number);
        let line = loop {
            if let Some(line) = self.lines(LogStream::Statuses, &regex).pop() {
                break line.line;
            }
            assert!(Instant::now() < deadline, "the file is not finished");
            std::thread::yield_now();
        };
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let file = File::open(event["stdout_file"].as_str().expect("a path"));
        let mut bytes = Vec::new();
        MultiGzDecoder::new(file.expect("it is there"))
            .read_to_end(&mut bytes)
            .expect("whole members");
        (bytes, event)
    }

    fn lines(&self, stream: LogStream, regex: &str) -> Vec<LogLine> {
        let mut query = LogQuery {
            stream,
            jobs: Vec::new(),
            nodes: Vec::new(),
            from: None,
            ascending: true,
            limit: 20_000,
            regex: regex.to_owned(),
            invocation: None,
        };
        let mut lines = Vec::new();
        loop {
            let page = self.logs.query(&query).expect("a valid question");
            lines.extend(page.lines);
            match page.next {
                Some(next) => query.from = Some(next),
                None => return lines,
            }
        }
    }
}

/// The part of an error message about the reserve.
const RESERVE: &str =
    "free, and task output leaves 256.0 KiB to the records of completions. Make room there";

fn assert_reserve_is_free(disk: &Path) {
    let records = disk.join("records");
    fs::write(&records, vec![0; RESERVE_BYTES]).expect("task output leaves room for it");
    fs::remove_file(&records).expect("removed");
}

/// The number of floods, so that at least one has a last write that does not fit.
const FLOODS: usize = 20;

fn a_full_disk(data_dir: &Path, disk: &Path) {
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; DISK_BYTES / 2]).expect("there is room");
    let mut bench = Bench::new(data_dir, &disk.join("logs"));
    assert_eq!(bench.run("echo before"), LogHealth::default());

    // The last lines of a flood may fit into the rest of the last block, and then the last write succeeds.
    let flood = "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 99";
    let mut floods = (0..FLOODS).map(|_| bench.run(flood));
    let health = floods.find(|health| health.error.is_some());
    let health = health.expect("a flood whose last write failed");
    assert!(health.dropped_lines > 10_000, "{health:?}");
    let error = health.error.expect("the last write failed");
    assert!(error.contains(RESERVE), "{error}");
    // A few lines may still fit the last block; tasks continue in any case.
    bench.run("echo perhaps");
    assert_reserve_is_free(disk);

    fs::remove_file(&filler).expect("removed");
    let health = bench.run("echo after");
    assert_eq!(health.error, None);
    let said = bench.lines(LogStream::Stdout, "before|after");
    let said: Vec<&str> = said.iter().map(|line| line.line.as_str()).collect();
    assert_eq!(said, ["before\n", "after\n"]);
    let told = bench.lines(LogStream::Statuses, "log_lines_dropped");
    let told: u64 = told
        .iter()
        .map(|line| serde_json::from_str(&line.line).expect("JSON"))
        .map(|event: serde_json::Value| event["lines"].as_u64().expect("a number"))
        .sum();
    assert_eq!(told, health.dropped_lines, "each lost line was declared");
}

fn a_full_disk_of_files(disk: &Path, logs: &Path) {
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; DISK_BYTES / 4]).expect("there is room");
    let mut bench = Bench::new(disk, logs);
    let (bytes, event) = bench.run_into_file("echo before");
    assert_eq!(
        (bytes, &event["lost_bytes"]),
        (b"before\n".to_vec(), &0.into())
    );

    // The task prints more than the disk can hold in compressed form; the members in the file are whole.
    let (bytes, event) = bench.run_into_file("head -c 3000000 /dev/urandom");
    let lost = event["lost_bytes"].as_u64().expect("a number");
    assert_eq!(event["bytes"], 3_000_000);
    assert_eq!(bytes.len() as u64 + lost, 3_000_000);
    assert!(!bytes.is_empty() && lost > 2_000_000, "{event}");
    let told = event["message"].as_str().expect("words");
    assert!(told.contains(RESERVE), "{told}");
    assert_reserve_is_free(disk);

    fs::remove_file(&filler).expect("removed");
    let (bytes, event) = bench.run_into_file("echo after");
    assert_eq!(
        (bytes, &event["lost_bytes"]),
        (b"after\n".to_vec(), &0.into())
    );
}

#[test]
fn a_full_disk_loses_output_of_files_and_says_so_and_tasks_go_on() {
    let test = std::thread::spawn(|| {
        let logs = tempfile::tempdir().expect("a folder");
        let disk = tempfile::tempdir().expect("a folder");
        match mount_small(disk.path()) {
            Ok(()) => a_full_disk_of_files(disk.path(), logs.path()),
            Err(error) => eprintln!(
                "unproven: a full disk cannot be made here, a mount of one's own is refused: {error}"
            ),
        }
    });
    test.join().expect("the disk's part went well");
}

#[test]
fn a_full_disk_stops_logging_not_tasks_and_room_starts_it_again() {
    let data_dir = tempfile::tempdir().expect("a folder");
    let disk = tempfile::tempdir().expect("a folder");
    // Only the thread that made the mount sees it, and the mount ends with the thread.
    let test = std::thread::spawn(move || match mount_small(disk.path()) {
        Ok(()) => a_full_disk(data_dir.path(), disk.path()),
        Err(error) => eprintln!(
            "unproven: a full disk cannot be made here, a mount of one's own is refused: {error}"
        ),
    });
    test.join().expect("the disk's part went well");
}
