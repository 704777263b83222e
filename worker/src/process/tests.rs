//! Tests the runner with real processes.

mod ends;
mod kills;
mod limits;
mod output;
mod start;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use brasserie_common::logs::{LogQuery, LogStream};
use brasserie_common::{
    Arguments, InvocationId, JobName, LogOverflow, NodeName, StatusFrom, TaskSubprocessOptions,
    WallTime,
};
use serde_json::Value;

use super::*;
use crate::logs::{LogConfig, LogStore};

/// The longest wait of any test; only a failing one reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Bench {
    runner: ProcessRunner,
    ends: Receiver<TaskEnd>,
    early: HashMap<RunKey, TaskEnd>,
    logs: Arc<LogStore>,
    dir: tempfile::TempDir,
}

pub(super) fn wall_clock() -> crate::logs::WallClock {
    Arc::new(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        WallTime::from_millis(i64::try_from(now.as_millis()).expect("before the year 292 million"))
    })
}

impl Bench {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let logs =
            LogStore::open(LogConfig::new(dir.path().join("logs")), wall_clock()).expect("logs");
        let logs = Arc::new(logs);
        let (data_dir, host) = (dir.path().to_owned(), "here".to_owned());
        let config = RunnerConfig {
            pinned: vec![PinnedFile::at(data_dir.clone()).expect("a folder")],
            ..RunnerConfig::new(data_dir, host, Arc::clone(&logs))
        };
        let (sender, ends) = mpsc::channel();
        let sink = move |end: TaskEnd| {
            let _ = sender.send(end);
        };
        let runner = ProcessRunner::start(config, sink).expect("a runner");
        Bench {
            runner,
            ends,
            early: HashMap::new(),
            logs,
            dir,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn end(&mut self, key: &RunKey) -> TaskEnd {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.early.remove(key) {
                return end;
            }
            match self
                .ends
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(end) => drop(self.early.insert((*end.key).clone(), end)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{key} did not end")
                }
            }
        }
    }

    /// Runs a shell script to its end. `$1` is the node, `$2` the status path, `$3` the argument.
    pub(super) fn script(&mut self, text: &str, from: StatusFrom) -> TaskEnd {
        let request = script(text, from);
        let key = request.key.clone();
        self.runner.spawn(request).expect("accepted");
        self.end(&key)
    }

    pub(super) fn lines(&self, stream: LogStream, key: &RunKey) -> Vec<String> {
        let mut query = LogQuery {
            stream,
            jobs: vec![key.job.clone()],
            nodes: vec![key.node.clone()],
            from: None,
            ascending: true,
            limit: 20_000,
            regex: String::new(),
            invocation: None,
        };
        let mut lines = Vec::new();
        loop {
            let page = self.logs.query(&query).expect("a valid query");
            lines.extend(page.lines.into_iter().map(|line| line.line));
            match page.next {
                Some(next) => query.from = Some(next),
                None => return lines,
            }
        }
    }

    /// Waits until the task has written a line on stdout that begins with `wanted`.
    pub(super) fn await_line(&self, key: &RunKey, wanted: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self
                .lines(LogStream::Stdout, key)
                .into_iter()
                .find(|line| line.starts_with(wanted));
            if let Some(line) = found {
                return line.trim_end().to_owned();
            }
            assert!(Instant::now() < deadline, "{key} never wrote {wanted:?}");
            std::thread::yield_now();
        }
    }

    pub(super) fn events(&self, key: &RunKey) -> Vec<Value> {
        let lines = self.lines(LogStream::Statuses, key);
        lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("events are JSON"))
            .collect()
    }
}

pub(super) fn key(job: &str) -> RunKey {
    use std::sync::atomic::{AtomicI64, Ordering};
    static NEXT: AtomicI64 = AtomicI64::new(-3);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    RunKey {
        invocation: InvocationId::new(1_700_000_000, number),
        job: JobName::try_from(job).expect("a name"),
        node: NodeName::try_from(format!("node {number}")).expect("a name"),
    }
}

pub(super) fn command(words: &[&str]) -> SpawnRequest {
    let key = key("job");
    SpawnRequest {
        path_to_node: vec![
            NodeName::try_from("root").expect("a name"),
            key.node.clone(),
        ],
        key,
        command: words.iter().map(|&word| word.to_owned()).collect(),
        argument: r#"{"id":"job"}"#.to_owned(),
        options: TaskSubprocessOptions {
            arguments: Arguments::None,
            ..Default::default()
        },
        cuda_devices: Vec::new(),
        fence: None,
        not_after: Time::NEVER,
        association: brasserie_worker_core::AssociationIndex::FIRST,
        asked: Instant::now(),
        inputs: None,
    }
}

pub(super) fn script(text: &str, from: StatusFrom) -> SpawnRequest {
    let mut request = command(&["/bin/sh", "-c", text, "script"]);
    request.options.arguments = Arguments::Append;
    request.options.status_from = from;
    request
}

pub(super) fn ran(end: &TaskEnd) -> &TaskEnd {
    if let Ending::NotStarted(why) = &end.story.ending {
        panic!("{} did not start: {why}", end.key);
    }
    end
}

pub(super) fn failure(end: &TaskEnd) -> &str {
    match &end.story.ending {
        Ending::NotStarted(why) => why,
        Ending::Exited(_) | Ending::Signalled(_) | Ending::Unknown => panic!("it ran: {end:?}"),
    }
}
