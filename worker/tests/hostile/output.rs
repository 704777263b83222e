//! Tests extreme output of real tasks on a real worker: its memory stays bounded, and every loss is reported.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use brasserie_common::logs::{LogLine, LogQuery, LogStream};
use brasserie_common::{JobName, WallTime};
use brasserie_thrift::generated::common::TaskSubprocessOptions;
use brasserie_worker::logs::{LinePart, LogConfig, LogStore, MAX_LINE_BYTES};
use flate2::read::MultiGzDecoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::sync::Mutex;

use super::super::DONE_BITS;
use super::super::fake::{Stage, children_of};
use super::{bash, end, serves};

/// The output of one run.
const GIB: u64 = 1 << 30;
/// The largest growth of the worker's memory: the bytes that may wait for two writers, once more those that are being written, and the
/// allocator's reserve. It is a sixteenth of a task's output here.
const GROWTH: u64 = 64 << 20;
/// The longest wait; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(120);
/// The size at which a log segment is sealed.
const SEGMENT: u64 = 16 << 20;

fn options(output: &str, overflow: &str) -> TaskSubprocessOptions {
    TaskSubprocessOptions {
        max_log_lines_per_poll_interval: Some(0),
        log_overflow: Some(overflow.to_owned()),
        output: Some(output.to_owned()),
        ..TaskSubprocessOptions::default()
    }
}

/// Returns the largest memory that the process ever used.
fn peak_bytes(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    number.expect("a number of kB") * 1024
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => bytes_in(&entry.path()),
            Ok(about) => about.len(),
            // The file was dropped meanwhile.
            Err(_) => 0,
        })
        .sum()
}

/// A lock for floods. One flood occupies both cores of a small machine, and two at once would only delay the other tests.
static FLOOD: Mutex<()> = Mutex::const_new(());

/// Runs one task that must succeed. Returns the growth of the worker's memory.
async fn run(stage: &mut Stage, script: &str, options: TaskSubprocessOptions) -> u64 {
    // The first task creates threads and buffers.
    serves(stage, "before").await;
    let _alone = FLOOD.lock().await;
    let worker = stage.worker_process();
    let before = peak_bytes(worker);
    let task = stage.task("flood", "node");
    stage
        .run_with(&task, bash(script), options)
        .await
        .expect("accepted");
    let status = stage.end_of(&task).await;
    assert!(status.contains(DONE_BITS), "{status}");
    let grown = peak_bytes(worker) - before;
    serves(stage, "after").await;
    assert_eq!(children_of(worker), []);
    grown
}

/// Opens the logs of a worker that has ended.
fn logs_of(dir: &Path) -> LogStore {
    let clock = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.expect("the clock is set").as_millis();
        WallTime::from_millis(i64::try_from(millis).expect("in range"))
    };
    let config = LogConfig::new(dir.join("logs"));
    LogStore::open(config, std::sync::Arc::new(clock)).expect("the worker's logs")
}

/// Passes each logged line of the flood's stream to `each`, oldest first.
fn lines(logs: &LogStore, stream: LogStream, mut each: impl FnMut(LogLine)) {
    let mut query = LogQuery {
        stream,
        jobs: vec![JobName::try_from("flood").expect("a name")],
        nodes: Vec::new(),
        from: None,
        ascending: true,
        limit: 20_000,
        regex: String::new(),
        invocation: None,
    };
    loop {
        let page = logs.query(&query).expect("a valid question");
        page.lines.into_iter().for_each(&mut each);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return,
        }
    }
}

/// Returns the flood's events with this name.
fn events(logs: &LogStore, name: &str) -> Vec<Value> {
    let mut found = Vec::new();
    lines(logs, LogStream::Statuses, |line| {
        let event: Value = serde_json::from_str(&line.line).expect("JSON");
        if event["event"] == name {
            found.push(event);
        }
    });
    found
}

/// Passes a file's content to `each` in pieces, and returns its length.
fn unpack(path: &Path, mut each: impl FnMut(&[u8])) -> u64 {
    let mut decoder = MultiGzDecoder::new(File::open(path).expect("it is there"));
    let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
    loop {
        match decoder.read(&mut buffer).expect("whole members") {
            0 => return total,
            count => {
                each(&buffer[..count]);
                total += count as u64;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_without_a_newline_fits_a_small_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &["--log-max-size", "32M"]).await;
    stage.join().await;
    let script = format!("head -c {GIB} /dev/zero | tr '\\0' x");
    let grown = run(&mut stage, &script, options("log", "wait")).await;
    assert!(grown < GROWTH, "{grown} bytes");
    // Everything beyond the retention is dropped, without a restart or further output.
    let logs = dir.path().join("logs");
    let deadline = Instant::now() + PATIENCE;
    while bytes_in(&logs) > 32 * (1 << 20) + 2 * SEGMENT {
        assert!(Instant::now() < deadline, "{} bytes", bytes_in(&logs));
        tokio::task::yield_now().await;
    }
    end(stage).await;
    let logs = logs_of(dir.path());
    let (mut kept, mut last) = (0, None);
    lines(&logs, LogStream::Stdout, |line| {
        assert!(line.line.bytes().all(|byte| byte == b'x'));
        assert!(line.line.len() <= MAX_LINE_BYTES);
        assert_eq!(
            last.replace(line.part).unwrap_or(LinePart::Continued),
            LinePart::Continued
        );
        kept += line.line.len() as u64;
    });
    assert!(
        last.is_some() && (SEGMENT / 2..GIB / 8).contains(&kept),
        "{kept} bytes"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_without_a_newline_fits_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let script = format!("head -c {GIB} /dev/zero");
    let grown = run(&mut stage, &script, options("file", "wait")).await;
    assert!(grown < GROWTH, "{grown} bytes");
    end(stage).await;
    let told = events(&logs_of(dir.path()), "task_output_written");
    let [told] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        (&told["bytes"], &told["lost_bytes"]),
        (&GIB.into(), &0.into())
    );
    let file = PathBuf::from(told["stdout_file"].as_str().expect("a path"));
    let size = file.metadata().expect("it is there").len();
    assert!(
        told["compressed_bytes"] == size && size < GIB / 100,
        "{size}"
    );
    let zeros = vec![0; 1 << 20];
    let total = unpack(&file, |piece| assert!(piece == &zeros[..piece.len()]));
    assert_eq!(total, GIB);
}

/// The number of lines: five seconds at 200,000 a second, which is as fast as they are accepted.
const LINES: u64 = 1_000_000;

async fn a_million_lines(dir: &Path, options: TaskSubprocessOptions) -> LogStore {
    let mut stage = Stage::open(dir, &[]).await;
    stage.join().await;
    let grown = run(&mut stage, &format!("seq 1 {LINES}"), options).await;
    assert!(grown < GROWTH, "{grown} bytes");
    end(stage).await;
    logs_of(dir)
}

/// Returns the number of logged lines, after checking that each is there once and in order.
fn numbers(logs: &LogStore) -> u64 {
    let (mut count, mut last) = (0, 0);
    lines(logs, LogStream::Stdout, |line| {
        let number: u64 = line.line.trim_end().parse().expect("a number");
        assert!(number > last, "{number} after {last}");
        (count, last) = (count + 1, number);
    });
    assert!(last <= LINES);
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_lines_of_a_task_that_waits_are_all_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let logs = a_million_lines(dir.path(), options("log", "wait")).await;
    assert_eq!(numbers(&logs), LINES);
    assert_eq!(events(&logs, "task_lines_dropped"), [Value::Null; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_lines_of_a_task_that_does_not_wait_are_there_or_told_of() {
    let dir = tempfile::tempdir().expect("a folder");
    let logs = a_million_lines(dir.path(), options("log", "drop")).await;
    let told = events(&logs, "task_lines_dropped");
    let told: u64 = told
        .iter()
        .filter_map(|event| event["lines"].as_u64())
        .sum();
    assert_eq!(numbers(&logs) + told, LINES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_lines_into_a_file_are_there_or_told_of() {
    let printed: u64 = (1..=LINES).map(|i| i.to_string().len() as u64 + 1).sum();
    for overflow in ["wait", "drop"] {
        let dir = tempfile::tempdir().expect("a folder");
        let logs = a_million_lines(dir.path(), options("file", overflow)).await;
        let told = events(&logs, "task_output_written");
        let [told] = &told[..] else {
            panic!("{told:?}")
        };
        let lost = told["lost_bytes"].as_u64().expect("a number");
        assert_eq!(told["bytes"], printed);
        assert!(lost == 0 || overflow == "drop", "{told}");
        let file = PathBuf::from(told["stdout_file"].as_str().expect("a path"));
        let mut text = Vec::new();
        assert_eq!(
            unpack(&file, |piece| text.extend_from_slice(piece)),
            printed - lost
        );
        if lost == 0 {
            let want: String = (1..=LINES).map(|i| format!("{i}\n")).collect();
            assert!(text == want.as_bytes());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_a_file_survives_a_killed_worker() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    let task = stage.task("flood", "node");
    let script = "seq 1 300000; exec sleep 1000";
    stage
        .run_with(&task, bash(script), options("file", "wait"))
        .await
        .expect("accepted");
    let want: String = (1..=300_000).map(|i| format!("{i}\n")).collect();
    let folder = dir.path().join("output/flood/node");
    let deadline = Instant::now() + PATIENCE;
    let read = || {
        let mut bytes = Vec::new();
        let file = folder.read_dir().ok()?.next()?.ok()?.path();
        // A read during a write may end within a member.
        let _ = MultiGzDecoder::new(File::open(file).ok()?).read_to_end(&mut bytes);
        Some(bytes)
    };
    while read().is_none_or(|bytes| bytes.len() < want.len()) {
        assert!(
            Instant::now() < deadline,
            "it is not written while the task lives"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kill(worker, Signal::SIGKILL).expect("sent");
    assert_eq!(stage.code().await, Some(128 + 9));
    assert!(read().is_some_and(|bytes| bytes == want.as_bytes()));
}
