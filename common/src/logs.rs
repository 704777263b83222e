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

/// Paging key of a log line: Unix seconds in the upper half; in the lower one the millisecond within the second (10 bits) and
/// a counter (22 bits). Strictly increasing on one worker, so pages of several workers merge by time, to the millisecond where
/// their clocks agree. Ids of earlier versions had a counter alone in the lower half; they sort before those that follow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub i64);

impl LineId {
    /// The first id of a second.
    pub fn first_of_second(secs: i64) -> Self {
        LineId(secs << 32)
    }

    /// The first id of a millisecond. Ids keep 31 bits of seconds, as the wire's times do: a clock beyond them stays at the ends.
    pub fn first_of(time: WallTime) -> Self {
        let time = time.as_millis().clamp(0, i64::from(i32::MAX) * 1000 + 999);
        LineId((time / 1000) << 32 | (time % 1000) << 22)
    }

    pub fn next(self) -> Self {
        LineId(self.0.saturating_add(1))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_the_millisecond_within_their_second() {
        let id = |millis| LineId::first_of(WallTime::from_millis(millis));
        assert_eq!(id(7_000), LineId::first_of_second(7));
        assert_eq!(id(7_999).seconds(), 7);
        assert!(id(7_999) < id(8_000) && id(7_001).0 - id(7_000).0 == 1 << 22);
        // The counter of one millisecond ends where the next begins, and the last one within the second.
        assert!(id(7_999).0 + (1 << 22) <= id(8_000).0);
        assert_eq!(id(-5), LineId(0));
        assert_eq!(id(i64::MAX).seconds(), i64::from(i32::MAX));
    }
}
