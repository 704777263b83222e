//! The program `brasserie-scheduler`.

use std::process::ExitCode;

/// jemalloc; its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    brasserie_scheduler::run()
}
