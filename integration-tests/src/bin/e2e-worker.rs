//! The program `brasserie-worker` for end-to-end tests, built with them from the library, so that it is never stale.

fn main() -> std::process::ExitCode {
    brasserie_worker::run()
}
