//! Task logs as both sides name them. Log data never passes through a core; this module has only the types.

use std::fmt;

use crate::ids::{InvocationId, JobName, NodeName, Shard};
use crate::time::WallTime;

/// The kind of output of a task.
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

/// The paging key of a log line. The upper half has Unix seconds; the lower half has the millisecond within the second (10 bits) and a
/// counter (22 bits). Keys strictly increase on one worker, so pages of several workers merge by time, to the millisecond where their
/// clocks agree. Ids of earlier versions had only a counter in the lower half; they sort before later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub i64);

impl LineId {
    /// Returns the first id of a second.
    pub fn first_of_second(secs: i64) -> Self {
        LineId(secs << 32)
    }

    /// Returns the first id of a millisecond. Ids keep 31 bits of seconds, like the wire's times; times outside are clamped.
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
    /// The end of a line, or a whole line.
    #[default]
    Last,
    /// The line continues in the next record of the same stream and invocation.
    Continued,
}

/// One line of a page. A notice about a worker that could not be asked has empty `job` and `node`, and its `id` is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLine {
    pub job: JobName,
    pub node: NodeName,
    /// Unix seconds.
    pub time_secs: i64,
    /// The text, with its newline if the task wrote one. Invalid UTF-8 is replaced.
    pub line: String,
    pub id: Option<LineId>,
    /// The time to the millisecond; `None` from older workers, which know only the second.
    pub time: Option<WallTime>,
    /// The run that wrote the line; `None` in notices, in lines about a whole worker, and from older workers.
    pub invocation: Option<InvocationId>,
    /// The worker in whose log the line is, as far as the page's reader knows.
    pub shard: Option<Shard>,
    /// The line as the task wrote it, if that is not UTF-8.
    pub bytes: Option<Vec<u8>>,
    pub part: LinePart,
}

impl LogLine {
    /// Returns the memory of the line's texts, for limits on pages.
    pub fn text_bytes(&self) -> usize {
        self.line.len()
            + self.bytes.as_ref().map_or(0, Vec::len)
            + self.job.as_str().len()
            + self.node.as_str().len()
    }
}

/// Some lines, and the start of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// `None`: this was the last page.
    pub next: Option<LineId>,
}

/// The lines that a reader requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub stream: LogStream,
    /// Empty for all jobs.
    pub jobs: Vec<JobName>,
    /// Empty for all nodes.
    pub nodes: Vec<NodeName>,
    /// Inclusive start; `None`: the oldest line when ascending, else the newest.
    pub from: Option<LineId>,
    pub ascending: bool,
    pub limit: usize,
    /// Matched anywhere in the line; an empty expression matches all lines.
    pub regex: String,
    /// `None` for all runs.
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
        // The counters of one millisecond end where the next begins, also at the end of a second.
        assert!(id(7_999).0 + (1 << 22) <= id(8_000).0);
        assert_eq!(id(-5), LineId(0));
        assert_eq!(id(i64::MAX).seconds(), i64::from(i32::MAX));
    }
}
