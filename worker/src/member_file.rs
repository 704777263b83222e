//! Reads a file that names the members of one scheduler: `HOST:PORT`, one a line.

use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use brasserie_common::ServiceAddress;
use brasserie_common_runtime::{files, parse_peer};
use parking_lot::Mutex;

/// The largest file that is read, in bytes: far more than any list of members needs.
const MOST_BYTES: u64 = 64 * 1024;
/// The largest number of members. Each member that does not answer delays a worker by seconds.
pub(crate) const MOST_MEMBERS: usize = 64;
/// The longest line: more than the longest host name with brackets, colon and port.
const MOST_LINE_BYTES: usize = 300;
/// The largest number of mistakes that an error names.
const MOST_PROBLEMS: usize = 20;

/// The reason why a file cannot be used: each mistake with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct MemberFileError {
    problems: Vec<String>,
}

impl MemberFileError {
    fn new(problem: String) -> Self {
        MemberFileError {
            problems: vec![problem],
        }
    }
}

type FileResult = Result<Vec<ServiceAddress>, MemberFileError>;
/// A callback that receives the result of a read, on a thread of its own.
pub(crate) type OnRead = Box<dyn FnOnce(FileResult) + Send>;

/// A file of members that is read repeatedly.
pub(crate) struct MemberFile {
    path: PathBuf,
    state: Mutex<MemberFileState>,
}

#[derive(Default)]
struct MemberFileState {
    /// The error of the last read, which was logged. The same error is not logged again.
    told: Option<MemberFileError>,
    reading: Option<MemberFileRead>,
}

/// The read under way. There is at most one, so a file system that does not answer blocks only one thread.
struct MemberFileRead {
    /// The callback of the latest caller. Earlier callers received an error.
    on_read: OnRead,
    patience: Patience,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Usual,
    /// The log has reported that the read takes long.
    Lost,
}

impl MemberFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        MemberFile {
            path,
            state: Mutex::default(),
        }
    }

    /// Reads the file on another thread, and passes the result to `on_read`. After an error the caller continues with the earlier members.
    /// If a read is under way, `on_read` receives its result.
    pub(crate) fn read_again(self: &Arc<Self>, on_read: OnRead) {
        self.read_by(read, on_read);
    }

    /// Uses a thread of its own. The runtime would wait for its own threads at its end, and so for a file system that does not answer.
    fn read_by(
        self: &Arc<Self>,
        read: impl FnOnce(&Path) -> FileResult + Send + 'static,
        on_read: OnRead,
    ) {
        if let Some(before) = self.begin(on_read) {
            let text = format!("{} is being read for somebody else", self.path.display());
            return before(Err(MemberFileError::new(text)));
        }
        let file = Arc::clone(self);
        let reading = move || file.end(read(&file.path));
        let thread = thread::Builder::new().name("member-file".to_owned());
        if let Err(error) = thread.spawn(reading) {
            let path = self.path.display();
            let text = format!("cannot read {path}: no thread can be started: {error}");
            self.end(Err(MemberFileError::new(text)));
        }
    }

    /// Registers a caller. Returns the previous caller's callback if a read is under way.
    fn begin(&self, on_read: OnRead) -> Option<OnRead> {
        let mut state = self.state.lock();
        let Some(reading) = &mut state.reading else {
            state.reading = Some(MemberFileRead {
                on_read,
                patience: Patience::Usual,
            });
            return None;
        };
        if reading.patience == Patience::Usual {
            reading.patience = Patience::Lost;
            tracing::warn!(
                "the known addresses of the scheduler stay in use, because the read of {} has not finished: its file system does not answer",
                self.path.display()
            );
        }
        Some(std::mem::replace(&mut reading.on_read, on_read))
    }

    fn end(&self, read: FileResult) {
        let mut state = self.state.lock();
        match &read {
            Ok(_) if state.told.is_some() => {
                tracing::info!("{} can be used again", self.path.display());
            }
            Err(error) if state.told.as_ref() != Some(error) => {
                tracing::warn!(
                    "the known addresses of the scheduler stay in use, because the new list is not usable: {}",
                    error.problems.join("; ")
                );
            }
            Ok(_) | Err(_) => {}
        }
        state.told = read.as_ref().err().cloned();
        let reading = state.reading.take();
        drop(state);
        if let Some(MemberFileRead { on_read, .. }) = reading {
            on_read(read);
        }
    }
}

/// Returns all members, each once, in the order of the file.
pub(crate) fn read(path: &Path) -> FileResult {
    // Opening a pipe blocks until somebody writes, and its content is gone after one read.
    if let Ok(known) = fs::metadata(path)
        && !known.is_file()
    {
        return Err(MemberFileError::new(format!(
            "{} is {}: name a file, since it is read again; it holds HOST:PORT, one a line",
            path.display(),
            what_it_is(known.file_type())
        )));
    }
    let bytes = files::read_regular(path, MOST_BYTES);
    let bytes = bytes.map_err(|error| MemberFileError::new(error.to_string()))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(path, text),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(MemberFileError::new(format!(
                "{}:{line}: this is not UTF-8 text",
                path.display()
            )))
        }
    }
}

fn what_it_is(of: FileType) -> &'static str {
    if of.is_dir() {
        "a folder"
    } else if of.is_fifo() {
        "a pipe"
    } else if of.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<ServiceAddress>, MemberFileError> {
    let path = path.display();
    let mut members: Vec<(usize, ServiceAddress)> = Vec::new();
    let mut problems = Vec::new();
    let lines = text.lines().zip(1..);
    let lines = lines.map(|(line, number)| (line.split('#').next().unwrap_or_default(), number));
    for (line, number) in lines {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.len() > MOST_LINE_BYTES {
            problems.push(format!(
                "{path}:{number}: {} bytes are no HOST:PORT",
                line.len()
            ));
            continue;
        }
        let member = match parse_peer(line) {
            Ok(member) => member,
            Err(error) => {
                problems.push(format!("{path}:{number}: {error}"));
                continue;
            }
        };
        match members.iter().find(|(_, known)| *known == member) {
            Some((first, _)) => problems.push(format!(
                "{path}:{number}: {member} is named in line {first} already"
            )),
            None if members.len() == MOST_MEMBERS => problems.push(format!(
                "{path}:{number}: {member} is one too many: a scheduler has {MOST_MEMBERS} members at most"
            )),
            None => members.push((number, member)),
        }
    }
    if members.is_empty() && problems.is_empty() {
        problems.push(format!(
            "{path} contains no address: write HOST:PORT, one a line; a # starts a comment"
        ));
    }
    if problems.is_empty() {
        return Ok(members.into_iter().map(|(_, member)| member).collect());
    }
    let more = problems.len().saturating_sub(MOST_PROBLEMS);
    problems.truncate(MOST_PROBLEMS);
    if more > 0 {
        problems.push(format!("{path}: and {more} more"));
    }
    Err(MemberFileError { problems })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// Longer than any of these tests takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let read = parse(Path::new("/f"), text);
        let read = read.map(|all| all.iter().map(ToString::to_string).collect());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_members_in_their_order() {
        let text = "# who serves\n\n  b.example:2  # the usual one\r\na.example:1\n[::1]:3";
        let expected = ["b.example:2", "a.example:1", "[::1]:3"];
        assert_eq!(parsed(text), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn all_mistakes_are_told_with_their_lines() {
        let error = parsed("a:1\nb\na:1\n:3\n").expect_err("none of them is right");
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        assert!(lines[0].starts_with("/f:2: "), "{error}");
        assert_eq!(lines[1], "/f:3: a:1 is named in line 1 already");
        assert!(lines[2].starts_with("/f:4: "), "{error}");
        for nobody in ["", "# a:1\n"] {
            assert!(
                parsed(nobody)
                    .expect_err("nobody")
                    .starts_with("/f contains no address: write HOST:PORT")
            );
        }
        let many: String = (1..=100).map(|port| format!("a:{port}\n")).collect();
        let error = parsed(&many).expect_err("too many");
        assert!(
            error.starts_with("/f:65: a:65 is one too many: a scheduler has 64"),
            "{error}"
        );
        assert!(error.ends_with("/f: and 16 more"), "{error}");
    }

    /// Returns a callback, and the channel that receives its result.
    fn asker() -> (OnRead, Receiver<FileResult>) {
        let (sender, hears) = channel();
        let on_read = Box::new(move |read| drop(sender.send(read)));
        (on_read, hears)
    }

    fn read_again(file: &Arc<MemberFile>) -> FileResult {
        let (on_read, hears) = asker();
        file.read_again(on_read);
        hears.recv_timeout(PATIENCE).expect("it hears of it")
    }

    #[test]
    fn a_long_line_is_not_repeated() {
        let error = parsed(&format!("a:1\n{}\n", "x".repeat(60_000))).expect_err("no member");
        assert_eq!(error, "/f:2: 60000 bytes are no HOST:PORT");
        let longest = format!("{}:65535", "h".repeat(255));
        assert_eq!(parsed(&longest), Ok(vec![longest.clone()]));
    }

    #[test]
    fn what_cannot_be_read_again_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("members");
        let file = Arc::new(MemberFile::new(path.clone()));
        let refused = || read_again(&file).expect_err("it is no file").to_string();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        // No process writes to the pipe.
        assert!(refused().contains("members is a pipe: name a file"));
        fs::remove_file(&path).expect("removed");
        let _socket = UnixListener::bind(&path).expect("a socket");
        assert!(refused().contains("is a socket"));
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
        assert!(refused().contains("is a device"));
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(dir.path(), &path).expect("a link");
        assert!(refused().contains("is a folder"));
    }

    #[test]
    fn a_reading_that_hangs_is_the_only_one_and_ends_for_whoever_asked_last() {
        let file = Arc::new(MemberFile::new("/f".into()));
        let (release, hangs) = channel::<()>();
        let (first, hears_first) = asker();
        let reading = move |_: &Path| {
            let _ = hangs.recv();
            parse(Path::new("/f"), "a:1")
        };
        file.read_by(reading, first);
        let mut last = hears_first;
        for _ in 0..100 {
            let (on_read, hears) = asker();
            file.read_by(|_| panic!("another reading"), on_read);
            let before = last.recv_timeout(PATIENCE).expect("who waited is told");
            let text = before.expect_err("nothing was read").to_string();
            assert_eq!(text, "/f is being read for somebody else");
            last = hears;
        }
        drop(release);
        let read = last.recv_timeout(PATIENCE).expect("it has ended");
        assert_eq!(read, parse(Path::new("/f"), "a:1"));
        // The next call starts a new read.
        assert!(read_again(&file).is_err());
    }

    #[test]
    fn a_reading_that_hangs_keeps_no_runtime_from_ending() {
        let (release, hangs) = channel::<()>();
        let (ended, has_ended) = channel();
        let (on_read, hears) = asker();
        let worker = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let file = Arc::new(MemberFile::new("/f".into()));
                let reading = move |_: &Path| {
                    let _ = hangs.recv();
                    parse(Path::new("/f"), "a:1")
                };
                file.read_by(reading, on_read);
            });
            drop(runtime);
            let _ = ended.send(());
        });
        let has_ended = has_ended.recv_timeout(PATIENCE);
        assert!(hears.try_recv().is_err(), "it still hangs");
        drop(release);
        has_ended.expect("the runtime waits for nobody");
        worker.join().expect("no panic");
        assert!(hears.recv_timeout(PATIENCE).expect("it goes on").is_ok());
    }

    #[test]
    fn a_file_is_read_as_it_is_now() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("members");
        let file = Arc::new(MemberFile::new(path.clone()));
        let gone = read_again(&file).expect_err("there is none").to_string();
        assert!(gone.contains(path.to_str().expect("text")), "{gone}");
        fs::write(&path, "a:1\n").expect("written");
        assert_eq!(read_again(&file).map(|all| all.len()), Ok(1));
        fs::write(&path, b"a:1\n# \xff").expect("written");
        let strange = read_again(&file).expect_err("no text").to_string();
        assert!(strange.ends_with("members:2: this is not UTF-8 text"));
        fs::write(&path, vec![b'#'; 65 * 1024]).expect("written");
        let large = read_again(&file).expect_err("too large").to_string();
        assert!(large.contains("65536 bytes"), "{large}");
    }
}
