//! The `brasserie-worker` program.

fn main() -> std::process::ExitCode {
    brasserie_worker::run()
}
