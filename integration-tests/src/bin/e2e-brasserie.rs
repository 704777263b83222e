//! The program `brasserie` for end-to-end tests: built with them from the library, so that they never run a stale one.

fn main() -> std::process::ExitCode {
    brasserie::main()
}
