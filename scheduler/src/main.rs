//! The program `brasserie-scheduler`.

use std::process::ExitCode;

fn main() -> ExitCode {
    brasserie_scheduler::run()
}
