//! The standard error of a program as a named pipe, whose reader can stop reading or close it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::libc::O_NONBLOCK;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Interval of reads from an empty pipe.
const PAUSE: Duration = Duration::from_millis(20);

const READING: u8 = 0;
const STALLED: u8 = 1;
const CLOSED: u8 = 2;
const ENDED: u8 = 3;

/// A pipe, and the thread that copies its text into a file.
#[derive(Debug)]
pub(super) struct LogPipe {
    path: PathBuf,
    state: Arc<AtomicU8>,
    reader: Option<JoinHandle<()>>,
}

impl LogPipe {
    /// Creates the pipe `NAME.pipe` in the folder; its text goes to `NAME.log`.
    pub(super) fn new(folder: &Path, name: &str) -> std::io::Result<Self> {
        let path = folder.join(format!("{name}.pipe"));
        mkfifo(&path, Mode::from_bits_truncate(0o666))?;
        // The program may run as another user, so the mode must not depend on the umask.
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(format!("{name}.log")))?;
        let state = Arc::new(AtomicU8::new(READING));
        let (shared, pipe) = (Arc::clone(&state), path.clone());
        let first = open(&pipe)?;
        let reader = std::thread::spawn(move || copy(&pipe, first, log, &shared));
        Ok(LogPipe {
            path,
            state,
            reader: Some(reader),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the text.
    pub(super) fn text_path(&self) -> PathBuf {
        self.path.with_extension("log")
    }

    /// Stops reading and fills the pipe.
    pub(super) fn stall(&self) -> std::io::Result<()> {
        self.state.store(STALLED, Ordering::SeqCst);
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(O_NONBLOCK)
            .open(&self.path);
        let mut pipe = match opened {
            // An earlier disturbance has closed the pipe, which is not read either way.
            Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) => return Ok(()),
            opened => opened?,
        };
        loop {
            match pipe.write(b"\n") {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes the reading end.
    pub(super) fn close(&self) {
        self.state.store(CLOSED, Ordering::SeqCst);
    }

    /// Opens the pipe and reads again.
    pub(super) fn heal(&self) {
        self.state.store(READING, Ordering::SeqCst);
    }
}

impl Drop for LogPipe {
    fn drop(&mut self) {
        self.state.store(ENDED, Ordering::SeqCst);
        if let Some(reader) = self.reader.take() {
            // A reader that panicked needs no handling.
            let _ = reader.join();
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // O_NONBLOCK makes `open` return without a writer.
    OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)
}

fn copy(path: &Path, first: File, mut log: File, state: &AtomicU8) {
    let mut pipe = Some(first);
    let mut bytes = [0; 64 * 1024];
    loop {
        match state.load(Ordering::SeqCst) {
            ENDED => return,
            CLOSED => pipe = None,
            STALLED => {}
            _ => {
                if pipe.is_none() {
                    pipe = open(path).ok();
                }
                if let Some(Ok(count @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut bytes)) {
                    // The text is for diagnosis only; the verdict does not depend on it.
                    let _ = log.write_all(&bytes[..count]);
                    continue;
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_pipe_takes_nothing_and_a_closed_one_has_no_reader() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = LogPipe::new(folder.path(), "x").expect("a pipe");
        let writer = || {
            OpenOptions::new()
                .write(true)
                .custom_flags(O_NONBLOCK)
                .open(pipe.path())
        };
        let mut open = writer().expect("it has a reader");
        open.write_all(b"one\n").expect("there is room");
        pipe.stall().expect("filled");
        let full = open.write(b"two\n").expect_err("it is full");
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        pipe.heal();
        crate::e2e::wait_for("room in the pipe", || open.write(b"three\n").ok());
        let log = folder.path().join("x.log");
        let text = || fs::read_to_string(&log).unwrap_or_default();
        crate::e2e::wait_for("the text in the log", || {
            text().contains("three").then_some(())
        });
        assert!(text().starts_with("one\n\n"), "{}", text());
        pipe.close();
        crate::e2e::wait_for("a pipe without a reader", || {
            open.write(b"four\n")
                .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
                .then_some(())
        });
    }
}
