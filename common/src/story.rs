//! What happened in a run that is over, beside its status: the worker tells it, the scheduler keeps it, people read it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::status::ReportedStatus;

/// Lines of stderr that a story keeps: what a program says last is why it ended.
pub const MAX_LAST_LINES: usize = 5;
/// Bytes of them together: with as many ends as a worker remembers that is still memory.
pub const MAX_LAST_BYTES: usize = 4 * 1024;
/// Bytes of any other text of a story: a sentence with a path in it.
pub const MAX_TEXT_BYTES: usize = 1024;

/// What happened in a run that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    pub ending: Ending,
    /// Who of us ended it, and why, if it was still running then.
    pub ended_by: Option<EndedBy>,
    pub fault: Fault,
    /// From when the worker was asked until its process was there.
    pub starting: Duration,
    /// Before that, at a worker that lets tasks wait for processors: from its acceptance until it was its turn.
    pub waited: Duration,
    /// From there until its last process, and whatever held its pipes, was gone, without the time for which it was stopped for others.
    pub ran: Duration,
    /// User and system time of all its processes that were waited for.
    pub cpu: Duration,
    /// `None`: nothing measured it.
    pub peak_memory_bytes: Option<u64>,
    /// From and to disks, as far as it was counted.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The last lines of stderr, oldest first, without newlines.
    pub last_lines: Vec<String>,
}

/// How its process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// There was none, for this reason.
    NotStarted(String),
    Exited(i32),
    Signalled(i32),
    /// Somebody else took its exit code.
    Unknown,
}

/// Who of us ends a run, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndedBy {
    /// Somebody asked for it.
    Operator,
    /// The scheduler: its job or its node is gone.
    Orphan,
    /// It ran for as long as its job allows.
    Timeout,
    /// It was not over when it had to be.
    Deadline,
    /// The kernel, as its own memory limit was reached.
    MemoryLimit,
    /// The kernel, as the machine, or what its worker may use of it, had no memory left.
    OutOfMemory,
    /// The worker's operator wanted the worker gone.
    Shutdown,
    /// The worker had to end, since its scheduler gives its tasks to others.
    Suicide,
}

/// Whose fault an end is that is not a good one: what backoff and people go by.
///
/// | what happened | whose |
/// |---|---|
/// | it ended by itself, well or not; a signal that nobody of us sent | nobody's if well, else the task's |
/// | it cannot be executed as it is: no such program, no right to it, arguments too long | the task's |
/// | its own memory limit, its timeout, its deadline | the task's |
/// | this worker has no descriptors, processes or disk left for it; it could not be watched | the worker's |
/// | the worker shuts down, or has to end | the worker's |
/// | the machine has no memory, processes or descriptors left for anybody; the worker was lost | the system's |
/// | somebody asked for its end, or nobody wants it any more | nobody's |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fault {
    Nobody,
    Task,
    Worker,
    System,
}

impl EndedBy {
    pub const ALL: [EndedBy; 8] = [
        EndedBy::Operator,
        EndedBy::Orphan,
        EndedBy::Timeout,
        EndedBy::Deadline,
        EndedBy::MemoryLimit,
        EndedBy::OutOfMemory,
        EndedBy::Shutdown,
        EndedBy::Suicide,
    ];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            EndedBy::Operator => "operator",
            EndedBy::Orphan => "orphan",
            EndedBy::Timeout => "timeout",
            EndedBy::Deadline => "deadline",
            EndedBy::MemoryLimit => "memory_limit",
            EndedBy::OutOfMemory => "out_of_memory",
            EndedBy::Shutdown => "shutdown",
            EndedBy::Suicide => "suicide",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        EndedBy::ALL.into_iter().find(|by| by.as_str() == text)
    }

    pub fn fault(self) -> Fault {
        match self {
            EndedBy::Operator | EndedBy::Orphan => Fault::Nobody,
            EndedBy::Timeout | EndedBy::Deadline | EndedBy::MemoryLimit => Fault::Task,
            EndedBy::Shutdown | EndedBy::Suicide => Fault::Worker,
            EndedBy::OutOfMemory => Fault::System,
        }
    }
}

/// As a part of a sentence.
impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndedBy::Operator => "an operator wanted it to end",
            EndedBy::Orphan => "its job or node is gone",
            EndedBy::Timeout => "its timeout was over",
            EndedBy::Deadline => "its deadline had passed",
            EndedBy::MemoryLimit => "it reached its memory limit",
            EndedBy::OutOfMemory => "the machine had no memory left",
            EndedBy::Shutdown => "its worker was shut down",
            EndedBy::Suicide => "its worker had to end",
        })
    }
}

impl Fault {
    pub const ALL: [Fault; 4] = [Fault::Nobody, Fault::Task, Fault::Worker, Fault::System];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Nobody => "nobody",
            Fault::Task => "task",
            Fault::Worker => "worker",
            Fault::System => "system",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Fault::ALL.into_iter().find(|fault| fault.as_str() == text)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::NotStarted(why) => write!(f, "could not be started: {why}"),
            Ending::Exited(code) => write!(f, "exited with code {code}"),
            Ending::Signalled(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Ending::Unknown => f.write_str("ended, and nobody knows how: its worker was lost, or another process took its exit code"),
        }
    }
}

/// On Linux, where the first 31 mean the same on all machines that we run on.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    let index = usize::try_from(signal).ok()?.checked_sub(1)?;
    NAMES.get(index).copied()
}

impl ReportedStatus {
    /// Of a run that was ended, or could not begin: whose fault that is decides whether it costs a retry.
    pub fn by_fault(fault: Fault, text: &str) -> Self {
        match fault {
            Fault::Task => ReportedStatus::error_backoff(text),
            Fault::Nobody | Fault::Worker | Fault::System => {
                ReportedStatus::incomplete_backoff(text)
            }
        }
    }
}

impl Story {
    /// Of a run without a process.
    pub fn not_started(why: &str, fault: Fault, starting: Duration) -> Self {
        Story {
            ending: Ending::NotStarted(cut(why, MAX_TEXT_BYTES).to_owned()),
            fault,
            starting,
            ..Story::exited(0)
        }
    }

    /// Of a run that nobody heard of any more: its worker was lost, or has left without a word about it.
    pub fn lost(ran: Duration) -> Self {
        Story {
            fault: Fault::System,
            ending: Ending::Unknown,
            ran,
            ..Story::exited(0)
        }
    }

    /// Of a run that ended well, or as it wanted.
    pub fn exited(code: i32) -> Self {
        Story {
            ending: Ending::Exited(code),
            ended_by: None,
            fault: fault_of(&Ending::Exited(code), None),
            starting: Duration::ZERO,
            waited: Duration::ZERO,
            ran: Duration::ZERO,
            cpu: Duration::ZERO,
            peak_memory_bytes: None,
            read_bytes: 0,
            written_bytes: 0,
            last_lines: Vec::new(),
        }
    }

    /// Within the bounds, whoever told it.
    pub fn bounded(mut self) -> Self {
        if let Ending::NotStarted(why) = &mut self.ending
            && why.len() > MAX_TEXT_BYTES
        {
            *why = cut(why, MAX_TEXT_BYTES).to_owned();
        }
        let extra = self.last_lines.len().saturating_sub(MAX_LAST_LINES);
        self.last_lines.drain(..extra);
        let mut left = MAX_LAST_BYTES;
        for line in self.last_lines.iter_mut().rev() {
            if line.len() > left {
                *line = cut(line, left).to_owned();
            }
            left -= line.len();
        }
        self
    }
}

/// Whose fault it is that the process of a run ended so.
pub fn fault_of(ending: &Ending, ended_by: Option<EndedBy>) -> Fault {
    match (ending, ended_by) {
        (_, Some(by)) => by.fault(),
        (Ending::Exited(0), None) => Fault::Nobody,
        (Ending::Exited(_) | Ending::Signalled(_) | Ending::Unknown, None) => Fault::Task,
        (Ending::NotStarted(_), None) => Fault::Task,
    }
}

/// The beginning of a text, at most so many bytes of it.
pub fn cut(text: &str, most: usize) -> &str {
    let longest = text.len().min(most);
    let end = (0..=longest).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_wire_are_read_as_they_are_written() {
        for by in EndedBy::ALL {
            assert_eq!(EndedBy::parse(by.as_str()), Some(by));
        }
        for fault in Fault::ALL {
            assert_eq!(Fault::parse(fault.as_str()), Some(fault));
        }
        assert_eq!(EndedBy::parse("nobody"), None);
        assert_eq!(Fault::parse("orphan"), None);
    }

    #[test]
    fn each_end_is_somebodys_fault_or_nobodys() {
        for (ending, by, fault) in [
            (Ending::Exited(0), None, Fault::Nobody),
            (Ending::Exited(1), None, Fault::Task),
            (Ending::Signalled(11), None, Fault::Task),
            (
                Ending::Signalled(9),
                Some(EndedBy::MemoryLimit),
                Fault::Task,
            ),
            (
                Ending::Signalled(9),
                Some(EndedBy::OutOfMemory),
                Fault::System,
            ),
            (Ending::Signalled(9), Some(EndedBy::Operator), Fault::Nobody),
            (Ending::Signalled(15), Some(EndedBy::Suicide), Fault::Worker),
            (Ending::Exited(0), Some(EndedBy::Timeout), Fault::Task),
        ] {
            assert_eq!(fault_of(&ending, by), fault, "{ending:?} {by:?}");
        }
    }

    #[test]
    fn signals_have_their_names() {
        for (signal, name) in [
            (1, Some("SIGHUP")),
            (9, Some("SIGKILL")),
            (11, Some("SIGSEGV")),
            (15, Some("SIGTERM")),
            (19, Some("SIGSTOP")),
            (31, Some("SIGSYS")),
            (0, None),
            (-9, None),
            (32, None),
        ] {
            assert_eq!(signal_name(signal), name, "{signal}");
        }
        let text = Ending::Signalled(9).to_string();
        assert_eq!(text, "was killed by signal 9 (SIGKILL)");
        assert_eq!(Ending::Signalled(40).to_string(), "was killed by signal 40");
    }

    #[test]
    fn what_a_peer_tells_is_cut_to_its_bounds_and_the_last_lines_stay() {
        let line = |n: usize| format!("{n}{}", "ä".repeat(1000));
        let story = Story {
            last_lines: (0..9).map(line).collect(),
            ..Story::not_started(&"ä".repeat(5000), Fault::Task, Duration::ZERO)
        };
        let story = story.bounded();
        assert_eq!(story.last_lines.len(), MAX_LAST_LINES);
        assert!(story.last_lines[4].starts_with('8') && story.last_lines[4].len() == 2001);
        let bytes: usize = story.last_lines.iter().map(String::len).sum();
        assert!(bytes <= MAX_LAST_BYTES, "{bytes}");
        let Ending::NotStarted(why) = &story.ending else {
            panic!("{story:?}");
        };
        assert!(why.len() <= MAX_TEXT_BYTES && why.len() > MAX_TEXT_BYTES - 2);
        assert_eq!(story.clone().bounded(), story);
    }
}
