//! Task logs as both sides name them. Log data never passes through a core; only its vocabulary lives here.

use std::fmt;

use crate::ids::{InvocationId, JobName, NodeName, Shard};
use crate::time::WallTime;

/// Which output of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogStream {
    Stdout,
    Stderr,
    /// Events of the task's life, one JSON object a line.
    Statuses,
}

impl LogStream {
    pub const ALL: [LogStream; 3] = [LogStream::Stdout, LogStream::Stderr, LogStream::Statuses];

    pub fn as_str(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
            LogStream::Statuses => "statuses",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        LogStream::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

impl fmt::Display for LogStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Paging key of a log line: Unix seconds in the upper half, a counter in the lower, strictly increasing on one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub i64);

impl LineId {
    /// The first id of a second.
    pub fn first_of_second(secs: i64) -> Self {
        LineId(secs << 32)
    }

    pub fn seconds(self) -> i64 {
        self.0 >> 32
    }
}

/// Whether a record ends its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinePart {
    /// The end of a line, or the whole of it.
    #[default]
    Last,
    /// The line goes on in the next record of the same stream and invocation.
    Continued,
}

/// One line of a page; job and node are empty in notices about workers that could not be asked (`id` is then `None`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLine {
    pub job: JobName,
    pub node: NodeName,
    /// Unix seconds.
    pub time_secs: i64,
    /// With its newline if the task wrote one. Bytes that are no UTF-8 are replaced.
    pub line: String,
    pub id: Option<LineId>,
    /// `None`: an older worker knows the second only.
    pub time: Option<WallTime>,
    /// The run that wrote it; `None` in notices, in what concerns a whole worker, and from older workers.
    pub invocation: Option<InvocationId>,
    /// In whose log it is, as far as the page's reader knows.
    pub shard: Option<Shard>,
    /// What the task wrote, if that is no UTF-8.
    pub bytes: Option<Vec<u8>>,
    pub part: LinePart,
}

impl LogLine {
    /// The memory of its texts, for limits on pages.
    pub fn text_bytes(&self) -> usize {
        self.line.len()
            + self.bytes.as_ref().map_or(0, Vec::len)
            + self.job.as_str().len()
            + self.node.as_str().len()
    }
}

/// Some lines, and where the next page starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// `None`: this was the last page.
    pub next: Option<LineId>,
}

/// What lines a reader wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub stream: LogStream,
    /// Empty: of all jobs.
    pub jobs: Vec<JobName>,
    /// Empty: of all nodes.
    pub nodes: Vec<NodeName>,
    /// Inclusive start; `None`: the oldest line when ascending, else the newest.
    pub from: Option<LineId>,
    pub ascending: bool,
    pub limit: usize,
    /// Searched for anywhere in the line; empty matches all.
    pub regex: String,
    /// `None`: of all runs.
    pub invocation: Option<InvocationId>,
}
