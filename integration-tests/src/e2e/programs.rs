//! Locates the programs. Tests use the binaries that Cargo builds with them. A benchmark plays the programs itself, so that `cargo run
//! --bin` alone builds everything. Neither can be stale.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Environment variable that makes [`play_role`] play a program.
const ROLE_VARIABLE: &str = "BRASSERIE_TEST_ROLE";

/// The programs of the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Brasserie,
    Scheduler,
    Worker,
}

impl Program {
    const ALL: [Program; 3] = [Program::Brasserie, Program::Scheduler, Program::Worker];

    /// Returns the name of the binary that calls the program's library.
    fn binary(self) -> &'static str {
        match self {
            Program::Brasserie => "e2e-brasserie",
            Program::Scheduler => "e2e-scheduler",
            Program::Worker => "e2e-worker",
        }
    }

    /// Runs the program to its end.
    fn play(self) -> ExitCode {
        match self {
            Program::Brasserie => brasserie::main(),
            Program::Scheduler => brasserie_scheduler::run(),
            Program::Worker => brasserie_worker::run(),
        }
    }
}

/// The location of the programs.
#[derive(Clone, Debug)]
pub enum Programs {
    /// A folder with this package's binaries.
    In(PathBuf),
    /// This file, whose `main` begins with [`play_role`].
    This(PathBuf),
}

impl Programs {
    /// Returns the programs that Cargo built for the running test.
    ///
    /// # Panics
    /// If the running program has no path.
    pub fn of_this_test() -> Self {
        let mut folder = std::env::current_exe().expect("a running program has a path");
        folder.pop();
        if folder.ends_with("deps") {
            folder.pop();
        }
        Programs::In(folder)
    }

    /// Returns the running program itself.
    ///
    /// # Panics
    /// If the running program has no path.
    pub fn this_one() -> Self {
        Programs::This(std::env::current_exe().expect("a running program has a path"))
    }

    pub(super) fn file(&self, program: Program) -> PathBuf {
        match self {
            Programs::In(folder) => folder.join(program.binary()),
            Programs::This(file) => file.clone(),
        }
    }

    /// Returns a command that starts the program, without arguments.
    pub fn command(&self, program: Program) -> Command {
        let mut command = Command::new(self.file(program));
        match self {
            Programs::In(_) => {}
            Programs::This(_) => {
                command.env(ROLE_VARIABLE, program.binary());
            }
        }
        command
    }
}

/// Plays the program that [`Programs::command`] requested, if this process was started that way. Call it first in `main`.
pub fn play_role() -> Option<ExitCode> {
    let role = std::env::var(ROLE_VARIABLE).ok()?;
    let program = Program::ALL
        .into_iter()
        .find(|program| program.binary() == role)?;
    Some(program.play())
}
