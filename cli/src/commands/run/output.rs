//! Selects the tasks whose output a run prints, and prints each line after its job and node.

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::Path;

use anyhow::Result;
use brasserie_common::logs::{LineId, LogLine, LogStream};
use brasserie_common_runtime::telemetry;
use brasserie_thrift::generated::brasserie::ClusterStatus;
use brasserie_worker::logs::LogTail;

use crate::commands::logs::lines::{self, ShownNames, TaskText};
use crate::data_dir;
use crate::output::{OutputReader, print_raw};

/// Largest number of tasks whose output is printed by default. People do not read the output of more tasks.
pub(super) const MAX_TASKS_PRINTED: i64 = 100;

/// The tasks whose output a run prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PrintedOutput {
    /// Print no task output.
    None,
    /// Print the last lines of each failed task in the summary at the end.
    Failed,
    /// Print all task output at once, each stream to the same stream, and the last lines of failed tasks in the summary.
    All,
}

impl PrintedOutput {
    /// Returns the choice on the command line, or else the default for the number of tasks.
    pub(super) fn chosen(said: Option<PrintedOutput>, status: &ClusterStatus) -> Self {
        let jobs = status.jobs.iter().flatten();
        let enabled = jobs.filter(|job| job.enabled.unwrap_or(false));
        let tasks: i64 = enabled.filter_map(|job| job.total).sum();
        said.unwrap_or(match tasks <= MAX_TASKS_PRINTED {
            true => PrintedOutput::All,
            false => PrintedOutput::Failed,
        })
    }

    /// Returns the choice on the command line, or, once the status counts tasks, the default for their number. `None` before that.
    pub(super) fn decided(said: Option<PrintedOutput>, status: &ClusterStatus) -> Option<Self> {
        match status.nodes_loaded.unwrap_or(false) {
            true => Some(PrintedOutput::chosen(said, status)),
            false => said,
        }
    }
}

/// The streams to which the run prints task output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// Each stream of a task to the same stream of the run.
    Both,
    /// Both to standard error, because standard output has a JSON document.
    ErrorOnly,
}

/// Prints the lines that tasks write, in the order of the log.
pub(super) struct Printer {
    /// `None` if the log is unreadable or the reader of this program's output is gone: nothing more is printed.
    tail: Option<LogTail>,
    /// `None` while the choice depends on the number of tasks, which is not known yet.
    output: Option<PrintedOutput>,
    streams: Streams,
    /// The last line to print; `None` for no limit.
    last_line: Option<LineId>,
}

impl Printer {
    /// Begins with the lines that tasks write from now on.
    pub(super) fn new(streams: Streams, directory: &Path) -> std::io::Result<Self> {
        let tail = LogTail::from_end(data_dir::log_folder(directory))?;
        Ok(Printer {
            tail: Some(tail),
            output: None,
            streams,
            last_line: None,
        })
    }

    pub(super) fn choose(&mut self, output: Option<PrintedOutput>) {
        self.output = output;
    }

    /// Prints no line after this one.
    pub(super) fn end_at(&mut self, last_line: Option<LineId>) {
        self.last_line = last_line;
    }

    /// Returns the next lines, at most a few mebibytes; empty if there are no new lines.
    pub(super) fn next(&mut self) -> Vec<LogPiece> {
        let Some(tail) = self
            .tail
            .as_mut()
            .filter(|_| self.output == Some(PrintedOutput::All))
        else {
            return Vec::new();
        };
        loop {
            let lines = match tail.next_lines() {
                Ok(mut lines) => {
                    let last = self.last_line;
                    lines.retain(|(_, line)| last.is_none_or(|last| line.id <= Some(last)));
                    lines
                }
                Err(error) => {
                    telemetry::print_error(&format!("brasserie: cannot read task output: {error}"));
                    self.tail = None;
                    return Vec::new();
                }
            };
            let is_end = lines.is_empty();
            let pieces = pieces(lines, self.streams);
            // A batch may have only events, which are not printed.
            if is_end || !pieces.is_empty() {
                return pieces;
            }
        }
    }

    /// Prints the pieces from [`Printer::next`]. Blocks while the readers are slow.
    pub(super) fn print(&mut self, pieces: Vec<LogPiece>) {
        for piece in pieces {
            match piece.print() {
                Ok(OutputReader::Listens) => {}
                Ok(OutputReader::Gone) => self.tail = None,
                Err(error) => {
                    let message = format!("brasserie: cannot print task output: {error:#}");
                    telemetry::print_error(&message);
                    self.tail = None;
                }
            }
        }
    }
}

/// Text for one stream.
pub(super) struct LogPiece {
    stream: LogStream,
    text: String,
}

impl LogPiece {
    fn print(&self) -> Result<OutputReader> {
        match self.stream {
            LogStream::Stdout => print_raw(&self.text),
            LogStream::Stderr | LogStream::Statuses => {
                // The line is lost if standard error has no reader, like every other message.
                let _ = stderr().lock().write_all(self.text.as_bytes());
                Ok(OutputReader::Listens)
            }
        }
    }
}

/// Joins successive lines of one stream to one piece.
fn pieces(lines: Vec<(LogStream, LogLine)>, streams: Streams) -> Vec<LogPiece> {
    let how = |is_terminal| match is_terminal {
        true => TaskText::Printable,
        false => TaskText::AsWritten,
    };
    let (out, error) = (how(stdout().is_terminal()), how(stderr().is_terminal()));
    let mut pieces: Vec<LogPiece> = Vec::new();
    for (stream, line) in lines {
        let (stream, how) = match (stream, streams) {
            (LogStream::Statuses, _) => continue,
            (LogStream::Stdout, Streams::Both) => (LogStream::Stdout, out),
            (LogStream::Stdout | LogStream::Stderr, _) => (LogStream::Stderr, error),
        };
        let text = lines::text(&line.into(), ShownNames::JobAndNode, how);
        match pieces.last_mut() {
            Some(last) if last.stream == stream => last.text.push_str(&text),
            Some(_) | None => pieces.push(LogPiece { stream, text }),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use brasserie_common::{JobName, NodeName};
    use brasserie_thrift::generated::brasserie::JobStatus;

    use super::*;

    fn line(stream: LogStream, text: &str) -> (LogStream, LogLine) {
        let line = LogLine {
            job: JobName::try_from("j").unwrap(),
            node: NodeName::try_from("n").unwrap(),
            line: text.to_owned(),
            ..LogLine::default()
        };
        (stream, line)
    }

    #[test]
    fn task_output_keeps_its_stream_or_goes_to_standard_error() {
        let lines = || {
            vec![
                line(LogStream::Stdout, "a\n"),
                line(LogStream::Statuses, "{}\n"),
                line(LogStream::Stdout, "b\n"),
                line(LogStream::Stderr, "c"),
            ]
        };
        let texts = |streams| -> Vec<(LogStream, String)> {
            let pieces = pieces(lines(), streams).into_iter();
            pieces.map(|piece| (piece.stream, piece.text)).collect()
        };
        let both = [
            (LogStream::Stdout, "j n: a\nj n: b\n".to_owned()),
            (LogStream::Stderr, "j n: c\n".to_owned()),
        ];
        assert_eq!(texts(Streams::Both), both);
        let error = [(LogStream::Stderr, "j n: a\nj n: b\nj n: c\n".to_owned())];
        assert_eq!(texts(Streams::ErrorOnly), error);
    }

    #[test]
    fn the_number_of_tasks_decides_where_the_command_line_does_not() {
        let of = |chosen, total| {
            let job = JobStatus {
                enabled: Some(true),
                total: Some(total),
                ..JobStatus::default()
            };
            let loading = ClusterStatus {
                jobs: Some(vec![job]),
                ..ClusterStatus::default()
            };
            let early = PrintedOutput::decided(chosen, &loading);
            assert_eq!(early, chosen, "nodes are not there yet");
            let loaded = ClusterStatus {
                nodes_loaded: Some(true),
                ..loading
            };
            PrintedOutput::decided(early, &loaded)
        };
        assert_eq!(of(None, MAX_TASKS_PRINTED), Some(PrintedOutput::All));
        assert_eq!(of(None, MAX_TASKS_PRINTED + 1), Some(PrintedOutput::Failed));
        assert_eq!(of(Some(PrintedOutput::None), 1), Some(PrintedOutput::None));
    }
}
