//! Writes the lines of the audit log, on a thread of its own.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use brasserie_common::Principal;
use nix::fcntl::OFlag;

use super::State;
use super::lines::{Line, MAX_LINE_BYTES, Outcome};

/// The file that is written. Older ones have a dot and a number behind this name; 1 is the latest.
pub(super) const FILE: &str = "audit.log";
/// The longest time for which a line is not synced, and between two tries to write after a failure.
const SYNC_PERIOD: Duration = Duration::from_millis(500);
/// The most lines of one write.
const BATCH: usize = 256;
/// The bytes after which another file begins.
const FILE_BYTES: u64 = 16 << 20;
/// The most files: a reader opens all of them, and each that begins renames all.
pub(super) const MOST_FILES: u32 = 64;
/// The most bytes of lines that can be kept: 1 GiB.
pub(crate) const MOST_KEPT: u64 = FILE_BYTES * MOST_FILES as u64;
/// The bytes at the end of a file in which its last lines are, also if a crash has cut off the last one. Only an earlier release wrote longer
/// lines.
const TAIL: u64 = 2 * MAX_LINE_BYTES as u64;

/// A request to the thread.
pub(super) enum Message {
    Line(Box<Line>),
    /// Write and sync all, say so, and end.
    Close(Sender<()>),
}

/// The sizes of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The bytes after which another file begins.
    pub file_bytes: u64,
    /// The files that are kept, with that which is written.
    pub files: u32,
}

impl Sizes {
    /// Keeps about this number of bytes, in at least two files and at most [`MOST_FILES`].
    pub(super) fn keeping(bytes: u64) -> Sizes {
        let files = u32::try_from(bytes.div_ceil(FILE_BYTES)).unwrap_or(u32::MAX);
        Sizes {
            file_bytes: FILE_BYTES,
            files: files.clamp(2, MOST_FILES),
        }
    }

    /// Returns the bytes that are kept.
    pub(super) fn kept(self) -> u64 {
        self.file_bytes * u64::from(self.files)
    }
}

/// Returns the path of the file that is `age` files older than the one that is written.
pub(super) fn path(folder: &Path, age: u32) -> PathBuf {
    match age {
        0 => folder.join(FILE),
        age => folder.join(format!("{FILE}.{age}")),
    }
}

/// The thread's side.
pub(super) struct Writer {
    folder: PathBuf,
    sizes: Sizes,
    state: Arc<State>,
    open: Option<OpenFile>,
    /// Lines that are not in the file yet.
    waiting: VecDeque<Box<Line>>,
    /// The time since which the file has lines that are not synced.
    unsynced: Option<Instant>,
}

struct OpenFile {
    file: File,
    bytes: u64,
    next_number: u64,
}

impl Writer {
    pub(super) fn new(folder: PathBuf, sizes: Sizes, state: Arc<State>) -> Self {
        Writer {
            folder,
            sizes,
            state,
            open: None,
            waiting: VecDeque::new(),
            unsynced: None,
        }
    }

    /// Writes lines until the log is closed, or nobody can write to it any more.
    pub(super) fn run(mut self, lines: &Receiver<Message>) {
        loop {
            let mut done = None;
            let mut is_over = false;
            // Further lines stay in the queue, whose length is bounded, until these are written.
            let mut next = match (self.waiting.len(), self.unsynced) {
                (0, None) => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (BATCH.., _) => {
                    std::thread::sleep(SYNC_PERIOD);
                    Err(RecvTimeoutError::Timeout)
                }
                _ => lines.recv_timeout(SYNC_PERIOD),
            };
            loop {
                match next {
                    Ok(Message::Line(line)) => self.waiting.push_back(line),
                    Ok(Message::Close(ack)) => done = Some(ack),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        is_over = true;
                        break;
                    }
                }
                if self.waiting.len() >= BATCH || done.is_some() {
                    break;
                }
                next = lines.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            is_over |= done.is_some();
            *self.state.busy_since.lock() = Some(Instant::now());
            let written = self.write().and_then(|()| self.sync(is_over));
            *self.state.busy_since.lock() = None;
            self.note(written);
            if is_over {
                // Nobody waits any more if this fails.
                let _ = done.map(|done| done.send(()));
                return;
            }
        }
    }

    /// Notes whether the disk takes lines, for `status` and for the log of the program.
    fn note(&mut self, written: io::Result<()>) {
        let mut failure = self.state.failure.lock();
        match written {
            Ok(()) => {
                if failure.take().is_some() {
                    tracing::info!("the audit log can be written again");
                }
            }
            Err(error) => {
                let path = path(&self.folder, 0);
                let text = format!(
                    "the audit log {} cannot be written: {error}. Its lines wait in memory; check the disk of the data directory",
                    path.display()
                );
                if failure.is_none() {
                    tracing::error!("{text}");
                }
                *failure = Some(text);
                self.open = None;
            }
        }
    }

    /// Writes the lines that wait, and before them how many were lost.
    fn write(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() || self.state.lost.load(Ordering::Relaxed) > 0 {
            if self
                .open
                .as_ref()
                .is_some_and(|open| open.bytes >= self.sizes.file_bytes)
            {
                self.begin_another()?;
            }
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(OpenFile::open(&self.folder)?),
            };
            let lost = self.state.lost.load(Ordering::Relaxed);
            let mut text = String::new();
            let mut number = open.next_number;
            if lost > 0 {
                let line = Line::new(&Principal::Own, "linesLost").suppressed(lost);
                let why = "the disk did not take them in time, and too many waited";
                text.push_str(&line.end(Outcome::Failed, Some(why)).text(number));
                number += 1;
            }
            let batch = self.waiting.len().min(BATCH);
            let mut sizes = Vec::with_capacity(batch);
            for line in self.waiting.iter().take(batch) {
                let line = line.text(number);
                sizes.push(line.len());
                text.push_str(&line);
                number += 1;
            }
            open.append(text.as_bytes())?;
            open.next_number = number;
            self.unsynced.get_or_insert_with(Instant::now);
            self.state.lost.fetch_sub(lost, Ordering::Relaxed);
            let now = Instant::now();
            for (line, bytes) in self.waiting.drain(..batch).zip(sizes) {
                self.state.backlog.lock().remove(line.bytes());
                if !line.caller().is_empty() {
                    self.state.shares.add(now, line.caller(), bytes);
                }
            }
        }
        Ok(())
    }

    /// Syncs lines that have waited for it.
    fn sync(&mut self, at_once: bool) -> io::Result<()> {
        let is_due = |since: Instant| at_once || since.elapsed() >= SYNC_PERIOD / 2;
        if self.unsynced.is_some_and(is_due) {
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(OpenFile::open(&self.folder)?),
            };
            open.file.sync_data()?;
            self.unsynced = None;
        }
        Ok(())
    }

    /// Gives all files the next number, drops the oldest, and begins another one.
    fn begin_another(&mut self) -> io::Result<()> {
        let Some(full) = self.open.take() else {
            return Ok(());
        };
        full.file.sync_data()?;
        let _renames = self.state.renames.lock();
        for age in (0..self.sizes.files.saturating_sub(1)).rev() {
            match fs::rename(path(&self.folder, age), path(&self.folder, age + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        let file = create(&path(&self.folder, 0))?;
        File::open(&self.folder)?.sync_all()?;
        self.open = Some(OpenFile {
            file,
            bytes: 0,
            next_number: full.next_number,
        });
        Ok(())
    }
}

impl OpenFile {
    /// Opens the file to append, and finds the number of its next line. A line that a crash has cut off gets its end.
    fn open(folder: &Path) -> io::Result<Self> {
        let mut file = create(&path(folder, 0))?;
        let mut bytes = file.metadata()?.len();
        let last_byte = read_tail(&mut file, bytes, 1)?.pop();
        let last = match last_number(&mut file, bytes)? {
            Some(last) => Some(last),
            None => File::open(path(folder, 1)).ok().and_then(|mut former| {
                let bytes = former.metadata().ok()?.len();
                last_number(&mut former, bytes).ok()?
            }),
        };
        if last_byte.is_some_and(|last| last != b'\n') {
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok(OpenFile {
            file,
            bytes,
            next_number: last.map_or(1, |last| last.saturating_add(1)),
        })
    }

    /// Appends whole lines, or none.
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(text) {
            // If this fails too, the line that is cut off gets its end at the next opening.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += text.len() as u64;
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Returns the last `tail` bytes of a file that has this number of bytes.
fn read_tail(file: &mut File, bytes: u64, tail: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(bytes.saturating_sub(tail)))?;
    let mut read = Vec::new();
    file.take(tail).read_to_end(&mut read)?;
    Ok(read)
}

/// Returns the number of the last line that is one, in a file that has this number of bytes.
fn last_number(file: &mut File, bytes: u64) -> io::Result<Option<u64>> {
    let mut tail = TAIL;
    loop {
        let read = read_tail(file, bytes, tail)?;
        let last = read.rsplit(|byte| *byte == b'\n').find_map(number);
        if last.is_some() || tail >= bytes {
            return Ok(last);
        }
        tail = tail.saturating_mul(4);
    }
}

/// Returns the number of a line; `None` if it is none.
pub(super) fn number(line: &[u8]) -> Option<u64> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    line.get("number")?.as_u64()
}
