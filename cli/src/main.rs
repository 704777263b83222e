//! The `brasserie` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    brasserie::main()
}
