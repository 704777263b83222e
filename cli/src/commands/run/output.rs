//! Selects the tasks whose output a run prints, and prints each line after its job and node.

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::Path;

use anyhow::Result;
use brasserie_common::logs::{LogLine, LogStream};
use brasserie_common_runtime::telemetry;
use brasserie_thrift::generated::brasserie::ClusterStatus;
use brasserie_worker::logs::LogTail;

use crate::commands::logs::lines::{self, Names, TaskText};
use crate::data_dir;
use crate::output::{Reader, print_raw};

/// Up to so many tasks all output is printed unless the command line says otherwise: what a person reads.
pub(super) const MAX_TASKS_PRINTED: i64 = 100;

/// The tasks whose output a run prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// No task's.
    None,
    /// The last lines of each failed task, in the summary at the end.
    Failed,
    /// Of each task as it prints, standard output to standard output and standard error to standard error, and of failed tasks also as
    /// above.
    All,
}

impl Output {
    /// Returns the choice of the command line, or else the default for the number of tasks.
    pub(super) fn chosen(said: Option<Output>, status: &ClusterStatus) -> Self {
        let jobs = status.jobs.iter().flatten();
        let enabled = jobs.filter(|job| job.enabled.unwrap_or(false));
        let tasks: i64 = enabled.filter_map(|job| job.total).sum();
        said.unwrap_or(match tasks <= MAX_TASKS_PRINTED {
            true => Output::All,
            false => Output::Failed,
        })
    }

    /// Returns the same once the status counts tasks, which decide unless the command line or an earlier status has.
    pub(super) fn decided(said: Option<Output>, status: &ClusterStatus) -> Option<Self> {
        match status.nodes_loaded.unwrap_or(false) {
            true => Some(Output::chosen(said, status)),
            false => said,
        }
    }
}

/// Which stream of the run gets what tasks print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// Their own each.
    Both,
    /// Standard error: the other one has a document.
    ErrorOnly,
}

/// Prints the lines that tasks write, in the order of the log.
pub(super) struct Printer {
    /// `None`: nothing is printed any more, since the log cannot be read or nobody reads it here.
    tail: Option<LogTail>,
    /// `None`: the number of tasks decides, and is not known yet.
    output: Option<Output>,
    streams: Streams,
}

impl Printer {
    /// Begins with the lines that tasks write from now on.
    pub(super) fn new(streams: Streams, directory: &Path) -> std::io::Result<Self> {
        let tail = LogTail::from_end(data_dir::log_folder(directory))?;
        Ok(Printer {
            tail: Some(tail),
            output: None,
            streams,
        })
    }

    pub(super) fn choose(&mut self, output: Option<Output>) {
        self.output = output;
    }

    /// The next lines, a few mebibytes at most, ready to print; none if there are no more for now.
    pub(super) fn next(&mut self) -> Vec<Piece> {
        let Some(tail) = self
            .tail
            .as_mut()
            .filter(|_| self.output == Some(Output::All))
        else {
            return Vec::new();
        };
        loop {
            let lines = match tail.next_lines() {
                Ok(lines) => lines,
                Err(error) => {
                    telemetry::print_error(&format!(
                        "brasserie: what tasks print cannot be read: {error}"
                    ));
                    self.tail = None;
                    return Vec::new();
                }
            };
            let is_end = lines.is_empty();
            let pieces = pieces(lines, self.streams);
            // Events alone are nothing to print.
            if is_end || !pieces.is_empty() {
                return pieces;
            }
        }
    }

    /// Prints what [`Printer::next`] gave. Waits for the readers.
    pub(super) fn print(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece.print() {
                Ok(Reader::Listens) => {}
                Ok(Reader::Gone) => self.tail = None,
                Err(error) => {
                    let message = format!("brasserie: what tasks print cannot be shown: {error:#}");
                    telemetry::print_error(&message);
                    self.tail = None;
                }
            }
        }
    }
}

/// Text for one stream.
pub(super) struct Piece {
    stream: LogStream,
    text: String,
}

impl Piece {
    fn print(&self) -> Result<Reader> {
        match self.stream {
            LogStream::Stdout => print_raw(&self.text),
            LogStream::Stderr | LogStream::Statuses => {
                // A reader who has closed standard error misses the line, as with all messages of a program.
                let _ = stderr().lock().write_all(self.text.as_bytes());
                Ok(Reader::Listens)
            }
        }
    }
}

/// Neighbours of one stream become one text.
fn pieces(lines: Vec<(LogStream, LogLine)>, streams: Streams) -> Vec<Piece> {
    let how = |is_terminal| match is_terminal {
        true => TaskText::Printable,
        false => TaskText::AsWritten,
    };
    let (out, error) = (how(stdout().is_terminal()), how(stderr().is_terminal()));
    let mut pieces: Vec<Piece> = Vec::new();
    for (stream, line) in lines {
        let (stream, how) = match (stream, streams) {
            (LogStream::Statuses, _) => continue,
            (LogStream::Stdout, Streams::Both) => (LogStream::Stdout, out),
            (LogStream::Stdout | LogStream::Stderr, _) => (LogStream::Stderr, error),
        };
        let text = lines::text(&line.into(), Names::JobAndNode, how);
        match pieces.last_mut() {
            Some(last) if last.stream == stream => last.text.push_str(&text),
            Some(_) | None => pieces.push(Piece { stream, text }),
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
    fn each_stream_keeps_its_own_and_a_document_is_left_alone() {
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
            let early = Output::decided(chosen, &loading);
            assert_eq!(early, chosen, "nodes are not there yet");
            let loaded = ClusterStatus {
                nodes_loaded: Some(true),
                ..loading
            };
            Output::decided(early, &loaded)
        };
        assert_eq!(of(None, MAX_TASKS_PRINTED), Some(Output::All));
        assert_eq!(of(None, MAX_TASKS_PRINTED + 1), Some(Output::Failed));
        assert_eq!(of(Some(Output::None), 1), Some(Output::None));
    }
}
