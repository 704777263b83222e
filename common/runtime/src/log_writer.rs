//! Log lines on standard error, written by a separate thread, so that threads that log never wait for a full pipe, a stopped terminal or a
//! stalled disk.
//!
//! Lines queue up to a limit of bytes. A line that does not fit is dropped, and so is one that the kernel refuses (closed reader, full
//! disk). The number of dropped lines precedes the next written line. The descriptor keeps its mode, because other programs share it.
//!
//! Brasserie has its own writer because `tracing-appender` neither prints how many lines it dropped nor reports refused writes, and because
//! the keeper logs without `tracing`.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use parking_lot::{Condvar, Mutex};

use crate::log_format::message_line;

/// The limit for queued lines in bytes: some thousand lines, which a program logs in a busy minute.
const MAX_QUEUED_BYTES: usize = 256 * 1024;
/// How long a program waits for its last lines when it ends. A working reader takes them within milliseconds. A service manager waits for
/// the end of a service, and so does the successor for its directory.
pub const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// The queue in front of a writing thread. Clones share it.
#[derive(Clone, Debug)]
pub struct LogWriter(Arc<SharedQueue>);

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<LineQueue>,
    /// The queue or the writing thread's state has changed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineQueue {
    lines: VecDeque<QueuedLine>,
    /// The total size of `lines` in bytes.
    bytes: usize,
    /// Lines dropped since the last queued one.
    dropped: u64,
    writer: WriterState,
}

#[derive(Debug)]
struct QueuedLine {
    /// Lines dropped between the preceding line and this one.
    dropped_before: u64,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WriterState {
    #[default]
    Idle,
    Writing,
    /// The thread could not be started: every line is dropped.
    Absent,
}

/// Returns the writer of this process's standard error. The first call starts its thread, which blocks all signals.
///
/// A process that gives up capabilities calls this afterwards, because each thread has its own.
pub fn stderr() -> &'static LogWriter {
    static STDERR: OnceLock<LogWriter> = OnceLock::new();
    STDERR.get_or_init(|| LogWriter::start(io::stderr(), &program_name()))
}

/// Returns the last part of the command that started this process.
fn program_name() -> String {
    let command = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&command).file_name();
    name.unwrap_or_default().to_string_lossy().into_owned()
}

impl LogWriter {
    fn start<W: Write + AsFd + Send + 'static>(out: W, program: &str) -> Self {
        let writer = LogWriter(Arc::default());
        let thread = WritingThread {
            out,
            program: program.to_owned(),
            shared: Arc::clone(&writer.0),
            dropped: 0,
            is_within_line: false,
        };
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(|| thread.run());
        if thread.is_err() {
            writer.0.queue.lock().writer = WriterState::Absent;
        }
        writer
    }

    /// Queues a line, which includes its line feed, or drops it. Never waits.
    pub fn write_line(&self, text: Vec<u8>) {
        let mut queue = self.0.queue.lock();
        // A single line always fits, so that a long one is not dropped forever.
        let fits = queue.lines.is_empty() || queue.bytes + text.len() <= MAX_QUEUED_BYTES;
        if !fits || queue.writer == WriterState::Absent {
            queue.dropped += 1;
            return;
        }
        queue.bytes += text.len();
        let dropped_before = std::mem::take(&mut queue.dropped);
        queue.lines.push_back(QueuedLine {
            dropped_before,
            text,
        });
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Waits until all queued lines are written or refused, at most for `limit`.
    pub fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut queue = self.0.queue.lock();
        while queue.writer == WriterState::Writing || !queue.lines.is_empty() {
            if self.0.changed.wait_until(&mut queue, end).timed_out() {
                return;
            }
        }
    }
}

/// Implements the writer for subscribers of `tracing`, which write one event at a time.
impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_line(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread that writes lines. No other thread waits for the output.
struct WritingThread<W> {
    out: W,
    program: String,
    shared: Arc<SharedQueue>,
    /// Lines dropped or refused since the last written one.
    dropped: u64,
    /// The last write was refused after a part of its line.
    is_within_line: bool,
}

impl<W: Write + AsFd> WritingThread<W> {
    fn run(mut self) {
        // This includes SIGTTOU: with it blocked, a background process writes to its terminal without being stopped.
        let _ = SigSet::all().thread_block();
        loop {
            let line = self.next();
            self.dropped += line.dropped_before;
            if self.dropped > 0 && self.write_notice().is_ok() {
                self.dropped = 0;
            }
            if !line.text.is_empty() && self.write(&line.text).is_err() {
                self.dropped += 1;
            }
        }
    }

    /// Waits for the next line. An empty line stands for lines dropped at the end of the queue.
    fn next(&self) -> QueuedLine {
        let mut queue = self.shared.queue.lock();
        loop {
            let dropped_before = match queue.lines.pop_front() {
                Some(line) => {
                    queue.bytes -= line.text.len();
                    queue.writer = WriterState::Writing;
                    return line;
                }
                None => std::mem::take(&mut queue.dropped),
            };
            if dropped_before > 0 {
                queue.writer = WriterState::Writing;
                let text = Vec::new();
                return QueuedLine {
                    dropped_before,
                    text,
                };
            }
            queue.writer = WriterState::Idle;
            self.shared.changed.notify_all();
            self.shared.changed.wait(&mut queue);
        }
    }

    fn write_notice(&mut self) -> io::Result<()> {
        let end_of_line = match self.is_within_line {
            true => "\n",
            false => "",
        };
        let notice = message_line(&format!(
            "{}: {} log lines were dropped here, because standard error did not accept them",
            self.program, self.dropped
        ));
        self.write(format!("{end_of_line}{notice}").as_bytes())
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = &rest[count..];
                    self.is_within_line = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another program that shares the descriptor has made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(self.out.as_fd(), PollFlags::POLLOUT)];
                    poll(&mut fds, PollTimeout::NONE)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read};

    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    /// Returns a pipe that holds one page, and a writer to it.
    fn small_pipe() -> (File, LogWriter) {
        let (reader, writer) = nix::unistd::pipe().expect("a pipe");
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
        let writer = LogWriter::start(File::from(writer), "test");
        (File::from(reader), writer)
    }

    fn numbered(number: usize) -> String {
        format!("{number:0>99}\n")
    }

    /// Reads until this line arrives.
    fn read_until(reader: &mut File, last: &str) -> String {
        let mut text = String::new();
        let mut bytes = [0; 4096];
        while !text.ends_with(last) {
            let count = reader.read(&mut bytes).expect("readable");
            text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
        }
        text
    }

    #[test]
    fn a_full_pipe_delays_nobody_and_the_number_of_dropped_lines_is_printed_in_their_place() {
        let (mut reader, writer) = small_pipe();
        let count = 10 * MAX_QUEUED_BYTES / 100;
        for number in 0..count {
            writer.write_line(numbered(number).into_bytes());
        }
        let started = Instant::now();
        writer.flush(Duration::from_millis(50));
        assert!(started.elapsed() >= Duration::from_millis(50));
        // The reader finds each line, or its place in a number of dropped ones.
        let (mut next, mut notices) = (0, 0);
        let mut lines = BufReader::new(&mut reader).lines();
        while next < count {
            let line = lines.next().expect("a line").expect("readable");
            if let Some(rest) = line.strip_prefix("test: ") {
                let number = rest.split(' ').next().expect("a word");
                next += number.parse::<usize>().expect("a number");
                notices += 1;
            } else {
                assert_eq!(format!("{line}\n"), numbered(next));
                next += 1;
            }
        }
        assert_eq!(next, count);
        assert!(notices > 0, "nothing was dropped");
        writer.write_line(b"later\n".to_vec());
        assert_eq!(read_until(&mut reader, "later\n"), "later\n");
    }

    #[test]
    fn a_flush_returns_as_soon_as_the_last_line_is_written() {
        let (mut reader, writer) = small_pipe();
        writer.write_line(b"last words\n".to_vec());
        let started = Instant::now();
        writer.flush(Duration::from_secs(60));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!(read_until(&mut reader, "words\n"), "last words\n");
    }

    #[test]
    fn a_closed_reader_and_a_full_disk_are_no_reason_to_wait_or_to_die() {
        let (reader, closed) = small_pipe();
        drop(reader);
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("a device");
        for writer in [closed, LogWriter::start(full, "test")] {
            for _ in 0..3 {
                writer.write_line(b"nobody\n".to_vec());
                let started = Instant::now();
                writer.flush(Duration::from_secs(60));
                assert!(started.elapsed() < Duration::from_secs(30));
            }
        }
    }

    #[test]
    fn refused_lines_are_counted_when_the_output_accepts_lines_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let file = File::create(&path).expect("a file");
        // The writer refuses lines until the file may be longer.
        let out = Refusing {
            file,
            refusals: 3,
            halves: 1,
        };
        let writer = LogWriter::start(out, "test");
        for number in 0..3 {
            writer.write_line(format!("line {number}\n").into_bytes());
            writer.flush(Duration::from_secs(60));
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let notice =
            "test: 2 log lines were dropped here, because standard error did not accept them\n";
        assert_eq!(text, format!("lin\n{notice}line 2\n"));
    }

    /// A disk that takes part of a line, and then nothing for a while.
    struct Refusing {
        file: File,
        refusals: usize,
        halves: usize,
    }

    impl AsFd for Refusing {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    impl Write for Refusing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.halves > 0 {
                self.halves -= 1;
                return self.file.write(&bytes[..3]);
            }
            if self.refusals > 0 {
                self.refusals -= 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.file.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    #[test]
    fn a_descriptor_that_somebody_else_made_non_blocking_loses_nothing() {
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).expect("a pipe");
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
        let writer = LogWriter::start(File::from(writer), "test");
        for number in 0..100 {
            writer.write_line(numbered(number).into_bytes());
        }
        let mut all = String::new();
        let mut bytes = [0; 4096];
        let mut reader = File::from(reader);
        while all.len() < 100 * 100 {
            match reader.read(&mut bytes) {
                Ok(count) => all.push_str(std::str::from_utf8(&bytes[..count]).expect("text")),
                Err(_) => std::thread::yield_now(),
            }
        }
        let expected: String = (0..100).map(numbered).collect();
        assert_eq!(all, expected);
    }
}
