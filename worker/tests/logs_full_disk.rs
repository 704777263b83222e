//! A disk that is full for real: a small file system that only this test's threads see.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime};

use brasserie_common::logs::{LogLine, LogQuery, LogStream};
use brasserie_common::{
    InvocationId, JobName, NodeName, StatusFrom, TaskSubprocessOptions, Time, WallTime,
};
use brasserie_worker::logs::{LogConfig, LogHealth, LogStore};
use brasserie_worker::process::{ProcessRunner, RunKey, RunnerConfig, SpawnRequest, TaskEnd};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the file system holds, of which the filler takes half.
const DISK_BYTES: usize = 1 << 20;

/// Mounts a small file system there, for this thread and those that it starts.
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

/// Tasks one after another, and their logs.
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

    /// Runs a script to its good end; how the log is afterwards.
    fn run(&mut self, script: &str) -> LogHealth {
        self.number += 1;
        let node = NodeName::try_from(self.number.to_string()).expect("a name");
        let request = SpawnRequest {
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
                ..TaskSubprocessOptions::default()
            },
            not_after: Time::NEVER,
            asked: Instant::now(),
        };
        self.runner.spawn(request).expect("accepted");
        let end = self.ends.recv_timeout(PATIENCE).expect("it ends");
        assert!(end.status.is_done(), "{script}: {end:?}");
        self.logs.flush();
        self.logs.health()
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

/// Of few of which the end fits.
const FLOODS: usize = 20;

fn a_full_disk(data_dir: &Path, disk: &Path) {
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; DISK_BYTES / 2]).expect("there is room");
    let mut bench = Bench::new(data_dir, &disk.join("logs"));
    assert_eq!(bench.run("echo before"), LogHealth::default());

    // The last lines of a flood may fit into what is left of the last block, and then the last write is a good one.
    let flood = "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 99";
    let mut floods = (0..FLOODS).map(|_| bench.run(flood));
    let health = floods.find(|health| health.error.is_some());
    let health = health.expect("a flood whose last write failed");
    assert!(health.dropped_lines > 10_000, "{health:?}");
    let error = health.error.expect("the last write failed");
    assert!(error.contains("No space left"), "{error}");
    // Few lines may still fit the last block; tasks go on in any case.
    bench.run("echo perhaps");

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

#[test]
fn a_full_disk_stops_logging_not_tasks_and_room_starts_it_again() {
    let data_dir = tempfile::tempdir().expect("a folder");
    let disk = tempfile::tempdir().expect("a folder");
    // The mount is seen by the thread that asked for it, and ends with it.
    let test = std::thread::spawn(move || match mount_small(disk.path()) {
        Ok(()) => a_full_disk(data_dir.path(), disk.path()),
        Err(error) => eprintln!(
            "unproven: a full disk cannot be made here, a mount of one's own is refused: {error}"
        ),
    });
    test.join().expect("the disk's part went well");
}
