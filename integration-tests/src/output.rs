//! Standard output of programs whose verdict does not depend on who reads it.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Prints until nobody reads any more: a reader that went away (`| head`) is no error, and the work goes on to its verdict.
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

    /// What the program ends with: its verdict, unless one who still reads could not be told.
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
