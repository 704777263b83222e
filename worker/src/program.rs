//! The program `brasserie-worker`: keeper, command line, signals, exit code.

use std::process::ExitCode;
use std::time::Duration;

use brasserie_common_runtime::{Verbosity, telemetry};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ExitReason;
use crate::config::{Cli, exit_code};
use crate::keeper;
use crate::options::StartOptions;
use crate::start::start;

/// A keeper passes on what a service manager may have sent to the whole group already: within this time two signals are one
/// wish. Later a second one means that the tasks must not be waited for.
const ONE_WISH: Duration = Duration::from_secs(1);
/// Signals that may wait to be noticed: there are four kinds, and the kernel merges those of one kind.
const SIGNALS: usize = 16;

/// Runs the program to its end. Call it first of all in `main`.
pub fn run() -> ExitCode {
    match keeper::become_keeper_or_continue() {
        Ok(()) => {}
        Err(error) => return failed(&error),
    }
    let options = Cli::parse_or_exit();
    match telemetry::init(Verbosity::Info) {
        Ok(()) => {}
        Err(error) => {
            eprintln!("brasserie-worker: {error}");
            return ExitCode::from(exit_code::USAGE);
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(work(options)),
        Err(error) => failed(&error),
    }
}

async fn work(options: StartOptions) -> ExitCode {
    let handle = match start(options).await {
        Ok(handle) => handle,
        Err(error) => return failed(&error),
    };
    match end_on_signals(handle.stopper()) {
        Ok(()) => {}
        Err(error) => return failed(&error),
    }
    let reason = handle.wait().await;
    let (code, text) = match reason {
        ExitReason::Shutdown => (exit_code::SHUTDOWN, "ended as asked; every task is dead"),
        ExitReason::SuicideRequested => (
            exit_code::SUICIDE,
            "ended as the scheduler asked; every task is dead",
        ),
        ExitReason::MustDie => (
            exit_code::SUICIDE,
            "ended, because the scheduler counts this worker as lost; every task is dead",
        ),
    };
    tracing::info!(code, "{text}");
    ExitCode::from(code)
}

fn end_on_signals(stop: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let (sender, mut signals) = mpsc::channel(SIGNALS);
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::hangup(),
    ] {
        let (mut stream, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                // A full queue says the same already.
                let _ = sender.try_send(());
            }
        });
    }
    tokio::spawn(async move {
        let mut first: Option<Instant> = None;
        while signals.recv().await.is_some() {
            match first {
                None => first = Some(Instant::now()),
                Some(at) if at.elapsed() < ONE_WISH => continue,
                Some(_) => {}
            }
            stop();
        }
    });
    Ok(())
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("brasserie-worker: {error}");
    ExitCode::from(exit_code::START)
}
