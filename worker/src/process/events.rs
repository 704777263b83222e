//! Logs the events of a task's life, one JSON object a line in the log's `statuses` stream.

use std::borrow::Cow;
use std::path::PathBuf;

use brasserie_common::ReportedStatus;
use brasserie_common::logs::LogStream;
use brasserie_common::story::cut;
use serde::Serialize;
use serde_json::{Map, Value};

use super::RunKey;
use super::rate::Dropped;
use crate::logs::{LinePart, LogStore, MAX_LINE_BYTES, TaskTag};
use crate::output::{Stream, Streams, Written};

/// The largest part of a command line in its event, in bytes. The rest would only repeat the JSON argument.
const LOGGED_ARGUMENT_BYTES: usize = 4 * 1024;

/// An event of a task's life.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaskEvent<'a> {
    Running {
        command: &'a [String],
        /// The files that get the task's output, if it does not go into the log.
        files: Option<&'a Streams<PathBuf>>,
    },
    ProcessExited {
        message: &'a str,
    },
    PipeError {
        message: &'a str,
    },
    LineSplit {
        message: &'a str,
    },
    StraysKilled {
        message: &'a str,
    },
    /// Lines beyond the job's rate were dropped, as the job asked.
    LinesDropped {
        dropped: Dropped,
    },
    /// All pipes of the task are closed, so its own status is known if it wrote one to its status pipe.
    PipesClosed {
        raw: Option<&'a str>,
    },
    /// A file is finished, a moment after the task's end.
    OutputWritten {
        stream: Stream,
        written: &'a Written,
    },
    GotStatus {
        raw: Option<&'a str>,
        status: &'a ReportedStatus,
    },
    FailedToStart {
        status: &'a ReportedStatus,
    },
}

#[derive(Default, Serialize)]
struct Fields<'a> {
    event: &'static str,
    /// The id of the run as `logs --invocation` takes it. Bistro logs only the two numbers.
    invocation: String,
    invocation_start_time: i64,
    invocation_rand: i64,
    worker_host: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compressed_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_bytes: Option<u64>,
}

/// A status without its times, which only the scheduler knows.
#[derive(Serialize)]
struct Status<'a> {
    result_bits: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Map<String, Value>>,
}

/// Appends one event to the log. `scratch` is only reused memory.
pub(super) fn log(
    logs: &LogStore,
    host: &str,
    key: &RunKey,
    tag: &TaskTag,
    event: TaskEvent<'_>,
    scratch: &mut Vec<u8>,
) {
    let mut fields = Fields {
        event: name(event),
        invocation: key.invocation.to_string(),
        invocation_start_time: key.invocation.0.start_time,
        invocation_rand: key.invocation.0.rand,
        worker_host: host,
        ..Fields::default()
    };
    let told;
    match event {
        TaskEvent::Running { command, files } => {
            let command = command.iter().map(|text| cut(text, LOGGED_ARGUMENT_BYTES));
            fields.command = Some(command.collect());
            if let Some([stdout, stderr]) = files {
                fields.stdout_file = Some(stdout.to_string_lossy());
                fields.stderr_file = Some(stderr.to_string_lossy());
            }
        }
        TaskEvent::OutputWritten { stream, written } => {
            told = tell(stream, written, host);
            fields.message = Some(&told);
            let file = Some(written.file.to_string_lossy());
            match stream {
                Stream::Stdout => fields.stdout_file = file,
                Stream::Stderr => fields.stderr_file = file,
            }
            fields.bytes = Some(written.bytes);
            fields.compressed_bytes = Some(written.compressed);
            fields.lost_bytes = Some(written.lost);
        }
        TaskEvent::ProcessExited { message }
        | TaskEvent::PipeError { message }
        | TaskEvent::LineSplit { message }
        | TaskEvent::StraysKilled { message } => {
            fields.message = Some(message);
        }
        TaskEvent::LinesDropped { dropped } => {
            fields.message =
                Some("output beyond the job's rate limit or the log's capacity was dropped");
            fields.lines = Some(dropped.lines);
            fields.bytes = Some(dropped.bytes);
        }
        TaskEvent::PipesClosed { raw } => fields.raw_status = raw,
        TaskEvent::GotStatus { raw, status } => {
            fields.raw_status = raw;
            fields.status = Some(Status::of(status));
        }
        TaskEvent::FailedToStart { status } => fields.status = Some(Status::of(status)),
    }
    scratch.clear();
    serde_json::to_writer(&mut *scratch, &fields)
        .expect("texts and numbers always serialise, and memory takes them");
    scratch.push(b'\n');
    // A status with 64 KiB of data does not fit one piece.
    let mut pieces = scratch.chunks(MAX_LINE_BYTES).peekable();
    while let Some(piece) = pieces.next() {
        let part = if pieces.peek().is_some() {
            LinePart::Continued
        } else {
            LinePart::Last
        };
        logs.append(tag, LogStream::Statuses, part, piece);
    }
}

/// Returns the message about a finished file.
fn tell(stream: Stream, written: &Written, host: &str) -> String {
    let Written {
        file,
        bytes,
        compressed,
        lost,
        why,
    } = written;
    let stream = stream.as_str();
    let kept = bytes - lost;
    let lost = match why {
        None => String::new(),
        Some(why) => format!("; {lost} bytes were lost: {why}"),
    };
    match compressed {
        0 => format!("nothing of {stream} was kept{lost}"),
        _ => format!(
            "{stream} is in {} on {host}: {kept} bytes, {compressed} compressed{lost}",
            file.display()
        ),
    }
}

impl<'a> Status<'a> {
    fn of(status: &'a ReportedStatus) -> Self {
        Status {
            result_bits: status.bits().0,
            data: status.data().map(|data| &**data),
        }
    }
}

fn name(event: TaskEvent<'_>) -> &'static str {
    match event {
        TaskEvent::Running { .. } => "running",
        TaskEvent::ProcessExited { .. } => "process_exited",
        TaskEvent::PipeError { .. } => "task_pipe_error",
        TaskEvent::LineSplit { .. } => "task_line_split",
        TaskEvent::StraysKilled { .. } => "task_strays_killed",
        TaskEvent::LinesDropped { .. } => "task_lines_dropped",
        TaskEvent::PipesClosed { .. } => "task_pipes_closed",
        TaskEvent::OutputWritten { .. } => "task_output_written",
        TaskEvent::GotStatus { .. } => "got_status",
        TaskEvent::FailedToStart { .. } => "task_failed_to_start",
    }
}
