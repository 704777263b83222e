//! The story of a completed run, in addition to its status: the worker reports it, the scheduler stores it, people read it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::status::ReportedStatus;

/// The lines of stderr that a story keeps. The last output of a program usually explains its end.
pub const MAX_LAST_LINES: usize = 5;
/// The bytes of these lines together. A worker keeps them in memory for all unacknowledged completions.
pub const MAX_LAST_BYTES: usize = 4 * 1024;
/// The bytes of any other text of a story: a sentence with a path.
pub const MAX_TEXT_BYTES: usize = 1024;

/// The story of a completed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    pub ending: Ending,
    /// The party that ended the run while it was running, and why.
    pub ended_by: Option<EndedBy>,
    pub fault: Fault,
    /// The time from the request to the worker until the process existed.
    pub starting: Duration,
    /// The time before `starting` for which a worker kept the task queued: from its acceptance until its turn.
    pub waited: Duration,
    /// The time from there until the last process, and every holder of its pipes, was gone. Excludes the time for which the task was
    /// stopped for others. `None`: unknown, because the run was lost with its worker.
    pub ran: Option<Duration>,
    /// User and system time of all its processes that were waited for.
    pub cpu: Duration,
    /// The peak of the control group or of the largest process, or else the largest sum of all processes in any measurement, which counts
    /// shared pages once for each process. `None`: unknown.
    pub peak_memory_bytes: Option<u64>,
    /// Bytes from and to disks, as far as counted.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The last lines of stderr, oldest first, without newlines.
    pub last_lines: Vec<String>,
}

/// How the process of a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// No process started, for this reason.
    NotStarted(String),
    Exited(i32),
    Signalled(i32),
    /// Another program collected the exit code.
    Unknown,
}

/// The party that ended a run, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndedBy {
    /// A person requested it.
    Operator,
    /// The scheduler: the job or the node is gone.
    Orphan,
    /// The run took as long as its job allows.
    Timeout,
    /// The run passed its deadline.
    Deadline,
    /// The kernel: the task reached its own memory limit.
    MemoryLimit,
    /// The kernel: the machine, or the part for the worker, had no memory left.
    OutOfMemory,
    /// The worker's operator shut the worker down.
    Shutdown,
    /// The worker had to end itself, because its scheduler gives its tasks away.
    Suicide,
    /// The scheduler, before the task began: it may start elsewhere. A task that has begun is not ended for this.
    TakeBack,
}

/// The cause of an unsuccessful end. It decides the backoff, and people see it.
///
/// | what happened | fault of |
/// |---|---|
/// | it ended by itself; a signal that this system did not send | nobody if successful, else the task |
/// | it cannot be executed: no such program, no permission, arguments too long | the task |
/// | its own memory limit, its timeout, its deadline | the task |
/// | this worker has no descriptors, processes or disk left for it; the worker cannot watch it | the worker |
/// | the worker shuts down, or has to end | the worker |
/// | the machine has no memory, processes or descriptors left at all; the worker was lost | the system |
/// | a person requested its end, or the configuration no longer wants it | nobody |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fault {
    Nobody,
    Task,
    Worker,
    System,
}

impl EndedBy {
    pub const ALL: [EndedBy; 9] = [
        EndedBy::Operator,
        EndedBy::Orphan,
        EndedBy::Timeout,
        EndedBy::Deadline,
        EndedBy::MemoryLimit,
        EndedBy::OutOfMemory,
        EndedBy::Shutdown,
        EndedBy::Suicide,
        EndedBy::TakeBack,
    ];

    /// Returns the name on the wire.
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
            EndedBy::TakeBack => "take_back",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        EndedBy::ALL.into_iter().find(|by| by.as_str() == text)
    }

    pub fn fault(self) -> Fault {
        match self {
            EndedBy::Operator | EndedBy::Orphan | EndedBy::TakeBack => Fault::Nobody,
            EndedBy::Timeout | EndedBy::Deadline | EndedBy::MemoryLimit => Fault::Task,
            EndedBy::Shutdown | EndedBy::Suicide => Fault::Worker,
            EndedBy::OutOfMemory => Fault::System,
        }
    }
}

/// Formats the reason as a part of a sentence.
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
            EndedBy::TakeBack => "the scheduler took it back",
        })
    }
}

impl Fault {
    pub const ALL: [Fault; 4] = [Fault::Nobody, Fault::Task, Fault::Worker, Fault::System];

    /// Returns the name on the wire.
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
            Ending::Unknown => f.write_str("ended in an unknown way: its worker was lost, or another process took its exit code"),
        }
    }
}

/// Returns the Linux name of a signal. The first 31 numbers are the same on all supported machines.
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
    /// Returns the status of a run that was ended or could not begin. The fault decides whether it costs a retry.
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
    /// Returns the story of a run without a process.
    pub fn not_started(why: &str, fault: Fault, starting: Duration) -> Self {
        Story {
            ending: Ending::NotStarted(cut(why, MAX_TEXT_BYTES).to_owned()),
            fault,
            starting,
            ..Story::exited(0)
        }
    }

    /// Returns the story of a run without any report: its worker was lost, or left without reporting it.
    pub fn lost() -> Self {
        Story {
            fault: Fault::System,
            ending: Ending::Unknown,
            ran: None,
            ..Story::exited(0)
        }
    }

    /// Returns the story of a run that exited by itself.
    pub fn exited(code: i32) -> Self {
        Story {
            ending: Ending::Exited(code),
            ended_by: None,
            fault: fault_of(&Ending::Exited(code), None),
            starting: Duration::ZERO,
            waited: Duration::ZERO,
            ran: Some(Duration::ZERO),
            cpu: Duration::ZERO,
            peak_memory_bytes: None,
            read_bytes: 0,
            written_bytes: 0,
            last_lines: Vec::new(),
        }
    }

    /// Returns the story cut to its limits, because a peer may send more.
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

/// Returns the fault for the end of a run's process.
pub fn fault_of(ending: &Ending, ended_by: Option<EndedBy>) -> Fault {
    match (ending, ended_by) {
        (_, Some(by)) => by.fault(),
        (Ending::Exited(0), None) => Fault::Nobody,
        (Ending::Exited(_) | Ending::Signalled(_) | Ending::Unknown, None) => Fault::Task,
        (Ending::NotStarted(_), None) => Fault::Task,
    }
}

/// Returns the beginning of a text, at most `most` bytes.
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
