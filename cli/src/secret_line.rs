//! Reads a secret from standard input: its first line, which a terminal does not show.

use std::ffi::OsString;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use parking_lot::Mutex;

/// Signals that end the program, but only once the terminal shows again what is typed.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Reads the secret now if these words of a command line name standard input for it. `main` calls it before any other thread exists, so
/// that no signal ends the program while a terminal hides what is typed. [`secret_line`] returns the errors.
pub(crate) fn read_early(words: impl Iterator<Item = OsString>, max_bytes: u64) {
    let own: Vec<OsString> = words.take_while(|word| word != "--").collect();
    let is_named = own.windows(2).any(|pair| pair == ["--token-file", "-"])
        || own.iter().any(|word| word == "--token-file=-");
    if is_named {
        let _ = secret_line(max_bytes);
    }
}

/// Returns the first line of standard input, or its first `max_bytes` bytes. Later calls return the same: a command may need its secret
/// again.
pub(crate) fn secret_line(max_bytes: u64) -> io::Result<String> {
    static LINE: Mutex<Option<String>> = Mutex::new(None);
    let mut known = LINE.lock();
    if let Some(line) = &*known {
        return Ok(line.clone());
    }
    let line = match io::stdin().is_terminal() {
        true => typed_line(max_bytes),
        false => next_line(max_bytes),
    }?;
    *known = Some(line.clone());
    Ok(line)
}

fn next_line(max_bytes: u64) -> io::Result<String> {
    let mut line = String::new();
    let input = io::stdin().lock();
    input.take(max_bytes).read_line(&mut line)?;
    Ok(line)
}

/// Asks for a line on a terminal. A signal that would end the program waits until the terminal is as before.
fn typed_line(max_bytes: u64) -> io::Result<String> {
    let ending = SigSet::from_iter(ENDING);
    ending.thread_block()?;
    let line = hidden_line(&ending, max_bytes);
    ending.thread_unblock()?;
    line
}

fn hidden_line(ending: &SigSet, max_bytes: u64) -> io::Result<String> {
    let input = io::stdin();
    let signals = SignalFd::with_flags(ending, SfdFlags::SFD_CLOEXEC)?;
    let _hidden = HiddenInput::begin(input.as_fd())?;
    write!(io::stderr(), "Token: ")?;
    let waits_for = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut ready = [waits_for(input.as_fd()), waits_for(signals.as_fd())];
    while let Err(error) = poll(&mut ready, PollTimeout::NONE) {
        if error != Errno::EINTR {
            return Err(error.into());
        }
    }
    let line = match ready[1].any() {
        // The signal stays pending.
        Some(true) => Err(io::ErrorKind::Interrupted.into()),
        Some(false) | None => next_line(max_bytes),
    };
    writeln!(io::stderr())?;
    line
}

/// A terminal that does not show what is typed, as long as this lives.
struct HiddenInput<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> HiddenInput<'a> {
    fn begin(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(terminal, SetArg::TCSANOW, &hidden)?;
        Ok(HiddenInput { terminal, before })
    }
}

impl Drop for HiddenInput<'_> {
    fn drop(&mut self) {
        // A terminal that has gone shows nothing.
        let _ = tcsetattr(self.terminal, SetArg::TCSANOW, &self.before);
    }
}
