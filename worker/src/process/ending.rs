//! Decides the final status of a run from its status line, its exit and its kill. Performs no input or output.
//!
//! | `status_from` | status line | exit | signalled by the worker | status |
//! |---|---|---|---|---|
//! | `auto`, `pipe` | yes | any | any | that of the line |
//! | `auto`, `pipe` | none | any | yes | by fault: the task's is an error, else incomplete; backs off |
//! | `auto` | none | code 0 | no | done |
//! | `auto` | none | anything else | no | error, backs off |
//! | `pipe` | none | any | no | error, backs off |
//! | any | none | killed by the kernel for lack of memory | no | by limit: the task's own is an error, else incomplete; backs off |
//! | `exit_code` | ignored | code 0 | any | done |
//! | `exit_code` | ignored | anything else | yes | by fault, as above |
//! | `exit_code` | ignored | anything else | no | error, backs off |
//!
//! A timeout, a deadline and the task's memory limit are the task's fault; other reasons for a signal are not. A task that is signalled
//! without its fault gets "incomplete" and loses no retry even if it then exits with 0: only a status line can say that its work was
//! finished earlier. With `exit_code` the user chose to trust the code.

use brasserie_common::status::MAX_STATUS_BYTES;
use brasserie_common::{EndedBy, ReportedStatus, StatusFrom, StatusSource};

use super::{ProcessExit, Signalled};

/// The last content of the status pipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum StatusLine {
    #[default]
    None,
    /// The last line that was not empty, without its newline.
    Text(String),
    /// The last line was longer than a status may be.
    TooLong,
}

impl StatusLine {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            StatusLine::Text(text) => Some(text),
            StatusLine::None | StatusLine::TooLong => None,
        }
    }
}

pub(super) fn final_status(
    from: StatusFrom,
    line: &StatusLine,
    exit: ProcessExit,
    signalled: Signalled,
    ended_by: Option<EndedBy>,
) -> ReportedStatus {
    let line = match from {
        StatusFrom::Auto | StatusFrom::Pipe => line,
        StatusFrom::ExitCode => &StatusLine::None,
    };
    match line {
        StatusLine::Text(text) => return ReportedStatus::parse(text, StatusSource::Task),
        StatusLine::TooLong => {
            return ReportedStatus::error_backoff(&format!(
                "the status line is longer than {MAX_STATUS_BYTES} bytes (the task {exit})"
            ));
        }
        StatusLine::None => {}
    }
    if let (Signalled::No, Some(by)) = (signalled, ended_by) {
        return ReportedStatus::by_fault(by.fault(), &format!("the task {exit}, as {by}"));
    }
    match (from, exit, signalled) {
        (StatusFrom::ExitCode, ProcessExit::Code(0), _) => ReportedStatus::done(),
        (_, _, Signalled::Term | Signalled::Kill) => ended_before_a_status(exit, ended_by),
        (StatusFrom::Auto, ProcessExit::Code(0), Signalled::No) => ReportedStatus::done(),
        (StatusFrom::Pipe, _, Signalled::No) => ReportedStatus::error_backoff(&format!(
            "could not read a status: the task wrote none ({exit})"
        )),
        (StatusFrom::Auto | StatusFrom::ExitCode, _, Signalled::No) => {
            ReportedStatus::error_backoff(&format!("the task {exit}"))
        }
    }
}

/// Returns the status of a task that the worker ended before it wrote one. Its fault decides whether it loses a retry.
fn ended_before_a_status(exit: ProcessExit, ended_by: Option<EndedBy>) -> ReportedStatus {
    let why = ended_by
        .map(|by| format!(" because {by}"))
        .unwrap_or_default();
    let text = format!("ended by the worker{why} before it wrote a status ({exit})");
    match ended_by {
        Some(by) => ReportedStatus::by_fault(by.fault(), &text),
        None => ReportedStatus::incomplete_backoff(&text),
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::{Fault, StatusBits};

    use super::*;

    const KILLED: ProcessExit = ProcessExit::Signal(9);
    const OK: ProcessExit = ProcessExit::Code(0);
    const BAD: ProcessExit = ProcessExit::Code(3);

    fn bits(from: StatusFrom, line: &str, exit: ProcessExit, signalled: Signalled) -> StatusBits {
        let line = match line {
            "" => StatusLine::None,
            text => StatusLine::Text(text.to_owned()),
        };
        final_status(from, &line, exit, signalled, None).bits()
    }

    #[test]
    fn every_row_of_the_table() {
        let done = ReportedStatus::done().bits();
        let failed = ReportedStatus::failed().bits();
        let error = ReportedStatus::error_backoff("").bits();
        let incomplete = ReportedStatus::incomplete_backoff("").bits();
        use Signalled::{Kill, No, Term};
        use StatusFrom::{Auto, ExitCode, Pipe};
        for (from, line, exit, signalled, want) in [
            (Auto, "done", BAD, No, done),
            (Auto, "failed", OK, Kill, failed),
            (Pipe, "done", KILLED, Kill, done),
            (Pipe, "nonsense", OK, No, error),
            (Auto, "", OK, Term, incomplete),
            (Auto, "", KILLED, Kill, incomplete),
            (Pipe, "", BAD, Term, incomplete),
            (Auto, "", OK, No, done),
            (Auto, "", BAD, No, error),
            (Auto, "", KILLED, No, error),
            (Auto, "", ProcessExit::Unknown, No, error),
            (Pipe, "", OK, No, error),
            (ExitCode, "failed", OK, No, done),
            (ExitCode, "done", BAD, No, error),
            (ExitCode, "", OK, Term, done),
            (ExitCode, "done", KILLED, Kill, incomplete),
        ] {
            assert_eq!(
                bits(from, line, exit, signalled),
                want,
                "{from:?} {line:?} {exit:?} {signalled:?}"
            );
        }
    }

    #[test]
    fn errors_name_the_exit_and_overlong_lines_their_limit() {
        let status = final_status(
            StatusFrom::Auto,
            &StatusLine::None,
            BAD,
            Signalled::No,
            None,
        );
        assert_eq!(status.exception(), Some("the task exited with code 3"));
        let status = final_status(
            StatusFrom::Auto,
            &StatusLine::None,
            KILLED,
            Signalled::No,
            None,
        );
        assert_eq!(
            status.exception(),
            Some("the task was killed by signal 9 (SIGKILL)")
        );
        let status = final_status(
            StatusFrom::Auto,
            &StatusLine::TooLong,
            OK,
            Signalled::No,
            None,
        );
        assert!(
            status
                .exception()
                .is_some_and(|text| text.contains("longer than 65536 bytes"))
        );
    }

    #[test]
    fn the_kernels_kill_for_want_of_memory_costs_what_its_cause_does() {
        let status = |by| {
            let none = &StatusLine::None;
            final_status(StatusFrom::Auto, none, KILLED, Signalled::No, Some(by))
        };
        let own = status(EndedBy::MemoryLimit);
        assert_eq!(
            own.exception(),
            Some("the task was killed by signal 9 (SIGKILL), as it reached its memory limit")
        );
        assert!(!own.is_incomplete_backoff());
        assert!(status(EndedBy::OutOfMemory).is_incomplete_backoff());
    }

    #[test]
    fn a_limit_of_the_task_costs_a_retry_and_an_operators_wish_does_not() {
        let status = |by| {
            let none = &StatusLine::None;
            final_status(StatusFrom::Auto, none, KILLED, Signalled::Kill, Some(by))
        };
        for by in EndedBy::ALL {
            let status = status(by);
            let is_error = !status.is_incomplete_backoff();
            assert_eq!(is_error, by.fault() == Fault::Task, "{by:?}");
        }
        let text = status(EndedBy::Timeout);
        let text = text.exception().expect("it says why");
        assert!(text.contains("its timeout was over"), "{text}");
    }
}
