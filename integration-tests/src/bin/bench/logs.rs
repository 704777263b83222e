//! Measures one task that prints as fast as it is read: into the worker's log, and into a compressed file. The baseline is the minimum of
//! any program: `cat` into a file on the same disk.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use brasserie_common::{
    Arguments, InvocationId, JobName, NodeName, Output, StatusFrom, TaskSubprocessOptions, Time,
};
use brasserie_common_runtime::Clock;
use brasserie_worker::logs::{LogConfig, LogStore};
use brasserie_worker::process::{
    ProcessRunner, RunKey, Runner, RunnerConfig, SpawnRequest, TaskEnd,
};

use crate::cluster::PATIENCE;
use crate::figures::{BenchReport, Figure, Samples, per_second};

/// A common length of lines, with the newline.
const LINE_BYTES: usize = 80;

/// Lines a second.
struct LogSample {
    cat: f64,
    log: f64,
    file: f64,
}

/// Measures pairs without a scheduler, because a line only passes the worker's process runner and its logs.
pub fn measure(lines: usize, pairs: usize) -> BenchReport {
    let samples = Samples::take("logs", pairs, |pair| {
        pair.begin("cat");
        let cat = rate(lines, through_cat);
        pair.begin("the log");
        let log = rate(lines, |dir, lines| through_worker(dir, lines, Output::Log));
        pair.begin("a file");
        let file = rate(lines, |dir, lines| through_worker(dir, lines, Output::File));
        LogSample { cat, log, file }
    });
    let cat = samples.median(|s| s.cat);
    let into_log = format!("lines of {LINE_BYTES} bytes a second into the log, median of {pairs}");
    let lines = [
        samples.line(into_log, "/s", |s| s.log).beside(cat),
        samples
            .line("the same into a compressed file", "/s", |s| s.file)
            .beside(cat),
        samples.line("share of the baseline, into the log", "", |s| s.log / s.cat),
        samples.line("share of the baseline, into a file", "", |s| s.file / s.cat),
    ];
    let lines = lines.map(Figure::more_is_better).into();
    BenchReport::new("logs", "cat into a file", lines)
}

/// Measures in a separate folder, always on the same disk.
fn rate(lines: usize, work: impl FnOnce(&Path, usize)) -> f64 {
    let dir = tempfile::tempdir().expect("a folder");
    let started = Instant::now();
    work(dir.path(), lines);
    per_second(lines, started.elapsed())
}

fn script(lines: usize) -> String {
    let text = "x".repeat(LINE_BYTES - 1);
    format!("yes {text} | head -n {lines}")
}

fn through_cat(dir: &Path, lines: usize) {
    let mut producer = Command::new("sh")
        .args(["-c", &script(lines)])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut cat = Command::new("cat")
        .stdin(producer.stdout.take().expect("piped"))
        .stdout(File::create(dir.join("output")).expect("there is room"))
        .spawn()
        .expect("cat");
    for child in [&mut producer, &mut cat] {
        assert!(child.wait().expect("our child").success());
    }
    let written = dir.join("output").metadata().expect("written").len();
    assert_eq!(written, (lines * LINE_BYTES) as u64);
}

/// Runs until the last line was passed to the operating system.
fn through_worker(dir: &Path, lines: usize, output: Output) {
    let clock = Arc::new(|| Clock.wall());
    let logs = LogStore::open(LogConfig::new(dir.join("logs")), clock);
    let logs = Arc::new(logs.expect("there is room for a folder"));
    let (sender, ends) = mpsc::channel();
    let config = RunnerConfig::new(dir.to_owned(), "bench".to_owned(), Arc::clone(&logs));
    let sink = move |end: TaskEnd| sender.send(end).expect("somebody listens");
    let runner = ProcessRunner::start(config, sink).expect("a runner");
    let node = NodeName::try_from("node").expect("a name");
    let request = SpawnRequest {
        fence: None,
        key: RunKey {
            invocation: InvocationId::new(1, 1),
            job: JobName::try_from("lines").expect("a name"),
            node: node.clone(),
        },
        command: vec!["sh".to_owned(), "-c".to_owned(), script(lines)],
        argument: String::new(),
        path_to_node: vec![node],
        cuda_devices: Vec::new(),
        options: TaskSubprocessOptions {
            max_log_lines_per_poll_interval: 0,
            status_from: StatusFrom::ExitCode,
            arguments: Arguments::None,
            output,
            ..TaskSubprocessOptions::default()
        },
        not_after: Time::NEVER,
        association: brasserie_worker_core::AssociationIndex::FIRST,
        asked: Instant::now(),
        inputs: None,
    };
    runner.spawn(request).expect("accepted");
    let end = ends.recv_timeout(PATIENCE).expect("it ends");
    assert!(end.status.is_done(), "{end:?}");
    // Dropping the runner also ends the writer of files.
    drop(runner);
    logs.flush();
    assert_eq!(logs.health().dropped_lines, 0);
}
