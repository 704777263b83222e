//! Processes the output of a task's pipes: pieces of lines for the log, the status line, the last lines of stderr.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use brasserie_common::status::MAX_STATUS_BYTES;

use super::ending::StatusLine;
use crate::logs::{LinePart, MAX_LINE_BYTES};

/// The number of lines of stderr in an error summary: the end of a traceback.
const TAIL_LINES: usize = 5;
/// The bytes of these lines: a screenful. 10,000 tasks at once keep 40 MB at most.
const TAIL_BYTES: usize = 4 * 1024;

/// One of a task's three pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeKind {
    Stdout,
    Stderr,
    Status,
}

impl PipeKind {
    pub(super) const ALL: [PipeKind; 3] = [PipeKind::Stdout, PipeKind::Stderr, PipeKind::Status];

    pub(super) fn index(self) -> usize {
        match self {
            PipeKind::Stdout => 0,
            PipeKind::Stderr => 1,
            PipeKind::Status => 2,
        }
    }
}

/// The state of one pipe.
///
/// ```text
/// Unwatched --young time over, or child exited--> Watched <--room, tokens-- Paused
///                                                 Watched --log full, rate--> Paused
/// any --end of file, abandoned--> Closed
/// ```
#[derive(Debug)]
pub(super) enum Pipe {
    /// Open, not in the epoll yet: most short tasks end before it is worth the system call.
    Unwatched(OwnedFd),
    /// Open and in the epoll.
    Watched(OwnedFd),
    /// Open and deliberately not read; the task blocks once the kernel's buffer is full.
    Paused(OwnedFd),
    Closed,
}

impl Pipe {
    pub(super) fn fd(&self) -> Option<&OwnedFd> {
        match self {
            Pipe::Unwatched(fd) | Pipe::Watched(fd) | Pipe::Paused(fd) => Some(fd),
            Pipe::Closed => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.fd().is_some()
    }
}

/// Cuts a stream into lines, and lines into pieces of at most [`MAX_LINE_BYTES`]. Newlines stay.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    partial: Vec<u8>,
}

impl LineSplitter {
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut piece: impl FnMut(&[u8], LinePart)) {
        while !bytes.is_empty() {
            let room = MAX_LINE_BYTES - self.partial.len();
            let window = &bytes[..bytes.len().min(room)];
            let (taken, part) = match memchr::memchr(b'\n', window) {
                Some(newline) => (newline + 1, Some(LinePart::Last)),
                None if window.len() == room => (room, Some(LinePart::Continued)),
                None => (window.len(), None),
            };
            let (head, rest) = bytes.split_at(taken);
            match (part, self.partial.is_empty()) {
                (Some(part), true) => piece(head, part),
                (Some(part), false) => {
                    self.partial.extend_from_slice(head);
                    piece(&self.partial, part);
                    self.partial.clear();
                }
                (None, _) => self.partial.extend_from_slice(head),
            }
            bytes = rest;
        }
    }

    /// Ends the stream: the rest is a line without a newline.
    pub(super) fn finish(&mut self, mut piece: impl FnMut(&[u8], LinePart)) {
        if !self.partial.is_empty() {
            piece(&self.partial, LinePart::Last);
            self.partial = Vec::new();
        }
    }
}

/// Keeps the last non-empty line of the status pipe, however much arrives.
#[derive(Debug, Default)]
pub(super) struct StatusCollector {
    partial: Vec<u8>,
    last: StatusLine,
}

impl StatusCollector {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(newline) = bytes.iter().position(|b| *b == b'\n') {
            self.add(&bytes[..newline]);
            self.end_line();
            bytes = &bytes[newline + 1..];
        }
        self.add(bytes);
    }

    pub(super) fn finish(&mut self) -> StatusLine {
        self.end_line();
        std::mem::take(&mut self.last)
    }

    /// Keeps one byte more than allowed, by which `end_line` recognises a line that is too long.
    fn add(&mut self, bytes: &[u8]) {
        let room = (MAX_STATUS_BYTES + 1).saturating_sub(self.partial.len());
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        if self.partial.is_empty() {
            return;
        }
        self.last = match self.partial.len() > MAX_STATUS_BYTES {
            true => StatusLine::TooLong,
            false => StatusLine::Text(String::from_utf8_lossy(&self.partial).into_owned()),
        };
        self.partial.clear();
    }
}

/// The last lines of stderr.
#[derive(Debug, Default)]
pub(super) struct StderrLines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl StderrLines {
    pub(super) fn push(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = &line[line.len().saturating_sub(TAIL_BYTES)..];
        if line.is_empty() {
            return;
        }
        self.lines.push_back(line.to_vec());
        self.bytes += line.len();
        while self.lines.len() > TAIL_LINES || self.bytes > TAIL_BYTES {
            self.bytes -= self.lines.pop_front().map_or(0, |dropped| dropped.len());
        }
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        self.bytes = 0;
        std::mem::take(&mut self.lines)
            .iter()
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<(Vec<u8>, LinePart)> {
        let mut out = Vec::new();
        let mut splitter = LineSplitter::default();
        for chunk in chunks {
            splitter.feed(chunk, |piece, part| out.push((piece.to_vec(), part)));
        }
        splitter.finish(|piece, part| out.push((piece.to_vec(), part)));
        out
    }

    #[test]
    fn lines_are_put_together_over_reads_and_keep_their_newline() {
        let got = split(&[b"a\nb", b"c", b"\n\nrest"]);
        let want: Vec<_> = ["a\n", "bc\n", "\n", "rest"]
            .iter()
            .map(|l| (l.as_bytes().to_vec(), LinePart::Last))
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn long_lines_are_split_and_marked() {
        let long = vec![b'x'; 2 * MAX_LINE_BYTES + 5];
        let got = split(&[&long[..10], &long[10..], b"\n"]);
        let lengths: Vec<_> = got
            .iter()
            .map(|(piece, part)| (piece.len(), *part))
            .collect();
        let want = [
            (MAX_LINE_BYTES, LinePart::Continued),
            (MAX_LINE_BYTES, LinePart::Continued),
            (6, LinePart::Last),
        ];
        assert_eq!(lengths, want);
    }

    fn status(chunks: &[&str]) -> StatusLine {
        let mut collector = StatusCollector::default();
        chunks.iter().for_each(|c| collector.feed(c.as_bytes()));
        collector.finish()
    }

    #[test]
    fn the_last_non_empty_status_line_wins() {
        assert_eq!(status(&[]), StatusLine::None);
        assert_eq!(status(&["\n\n"]), StatusLine::None);
        assert_eq!(
            status(&["inco", "mplete\ndo", "ne\n\n"]),
            StatusLine::Text("done".to_owned())
        );
        assert_eq!(
            status(&["done\nfailed"]),
            StatusLine::Text("failed".to_owned())
        );
        let long = "x".repeat(MAX_STATUS_BYTES);
        assert_eq!(status(&[&long, "\n"]), StatusLine::Text(long.clone()));
        assert_eq!(status(&["done\n", &long, "x"]), StatusLine::TooLong);
        assert_eq!(
            status(&[&long, "x\ndone"]),
            StatusLine::Text("done".to_owned())
        );
    }

    #[test]
    fn the_tail_is_bounded_in_lines_and_bytes() {
        let mut tail = StderrLines::default();
        (0..9).for_each(|i| tail.push(format!("line {i}\n").as_bytes()));
        assert_eq!(
            tail.take(),
            ["line 4", "line 5", "line 6", "line 7", "line 8"]
        );
        tail.push(&[b'y'; 3000]);
        tail.push(&[b'z'; 9000]);
        let lines = tail.take();
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [TAIL_BYTES]
        );
    }
}
