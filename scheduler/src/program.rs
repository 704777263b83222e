//! The program `brasserie-scheduler`: parses the command line, runs until a signal, and prints the reason of a failure.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Context;
use brasserie_common_runtime::{LogFormat, ServiceManager, Shutdown, Verbosity, telemetry};
use brasserie_scheduler_core::ExitReason;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Flags;
use crate::start::{EndError, StartError, StartOptions, start};

/// Exit code after another scheduler instance took over. A supervisor should not restart this one.
const STEPPED_DOWN: u8 = 3;
/// Exit code for flags that contradict the data directory, and for an unusable config file at a first start. The same start would fail
/// again. A config file that could not be read in time has another exit code, so that a supervisor retries.
const WRONG_USAGE: u8 = 2;

/// Runs the program and returns the exit code, as `--help` documents it.
pub fn run() -> ExitCode {
    let flags = Flags::parse();
    let format = flags.log_format;
    let options = match flags.into_options() {
        Ok(options) => options,
        Err(error) => Flags::command()
            .error(ErrorKind::ValueValidation, error)
            .exit(),
    };
    match serve(options, format) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            telemetry::print_last_error(&format!("brasserie-scheduler: {error:#}"));
            if let Some(
                StartError::NotNew { .. }
                | StartError::NothingRestored { .. }
                | StartError::Config(_),
            ) = error.downcast_ref()
            {
                return ExitCode::from(WRONG_USAGE);
            }
            match error.downcast_ref() {
                Some(EndError::Exit(ExitReason::SteppedDown { .. })) => {
                    ExitCode::from(STEPPED_DOWN)
                }
                Some(EndError::Driver(_) | EndError::EndedAlone | EndError::Store(_)) | None => {
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn serve(options: StartOptions, format: LogFormat) -> anyhow::Result<()> {
    let _log = telemetry::init(Verbosity::Info, format)?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let shutdown = Shutdown::on_signals().context("cannot listen for signals")?;
        let manager = ServiceManager::from_environment();
        // The start is a task of its own. A hanging disk blocks its thread, and a signal must still end the program.
        let started = tokio::spawn(start(StartOptions {
            manager: manager.clone(),
            ..options
        }));
        let mut scheduler = tokio::select! {
            started = started => started??,
            // Either the start still waits for the config file or a disk, or it has just ended. The store survives an exit at any moment.
            () = shutdown.asked().cancelled() => return Ok(()),
        };
        // The data directory is locked and the ports are open.
        manager.ready(&format!("takes calls at {}", scheduler.thrift_address()));
        // The token's secret is for the eyes of whom the terminal belongs to, and for no log.
        if std::io::stderr().is_terminal()
            && let Some(invitation) = scheduler.invite().await
        {
            eprintln!("\n{invitation}\n");
        }
        tokio::select! {
            () = shutdown.asked().cancelled() => {}
            error = scheduler.failed() => {
                tracing::error!("{error}");
                return Err(error.into());
            }
        }
        tracing::info!("received a request to exit; tasks continue on their workers");
        manager.stopping("exiting; tasks continue on their workers");
        tokio::select! {
            ended = scheduler.shutdown() => Ok(ended?),
            () = shutdown.insisted().cancelled() => anyhow::bail!("ended by a second signal"),
        }
    });
    // The store is closed, or a second signal came. Threads that still wait for a resolver or a disk must not keep the program alive.
    runtime.shutdown_background();
    ended
}

/// Raises the limit, because each worker has a connection in either direction. The usual soft limit of 1024 is a relic of `select`.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}
