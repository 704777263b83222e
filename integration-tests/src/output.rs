//! Standard output of programs whose exit code does not depend on its reader.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Prints until the reader is gone. A closed pipe (`| head`) is no error, and the program continues to its verdict.
#[derive(Debug, Default)]
pub struct Printer {
    ended: Option<io::Error>,
}

impl Printer {
    pub fn print(&mut self, text: &str) {
        if self.ended.is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.ended = printed.err();
    }

    pub fn line(&mut self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Returns the program's exit code: the verdict, or a failure if writing failed for another reason than a closed pipe.
    pub fn end(self, verdict: ExitCode) -> ExitCode {
        match self.ended {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("standard output: cannot be written: {error}");
                ExitCode::FAILURE
            }
            Some(_) | None => verdict,
        }
    }
}
