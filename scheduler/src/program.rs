//! The program `brasserie-scheduler`: parses the command line, runs until a signal, and prints the reason of a failure.

use std::convert::Infallible;
use std::fmt::Display;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Context;
use brasserie_common_identity::{TOKEN_IN_PLAIN_SIGHT, Token};
use brasserie_common_runtime::{LogFormat, ServiceManager, Shutdown, Verbosity, telemetry};
use brasserie_scheduler_core::ExitReason;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Flags;
use crate::security::Invitation;
use crate::start::{EndError, StartError, StartOptions, start};

/// Exit code after another scheduler instance took over. A supervisor should not restart this one.
const STEPPED_DOWN: u8 = 3;
/// Exit code for flags that contradict the data directory, and for an unusable config file at a first start. The same start would fail
/// again. A config file that could not be read in time has another exit code, so that a supervisor retries.
const WRONG_USAGE: u8 = 2;

/// Runs the program and returns the exit code, as `--help` documents it.
pub fn run() -> ExitCode {
    // The parser's own message would repeat the token.
    if Token::is_in_command_line() {
        refuse(format!(
            "{TOKEN_IN_PLAIN_SIGHT}. Revoke the token with `brasserie token revoke`; a scheduler needs none"
        ));
    }
    let flags = Flags::parse();
    let format = flags.log_format;
    let options = flags.into_options().unwrap_or_else(|error| refuse(error));
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

/// Prints why the command line cannot be used, and ends the process.
fn refuse(why: impl Display) -> ! {
    let mut command = Flags::command();
    command.error(ErrorKind::ValueValidation, why).exit()
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
        let at_terminal = std::io::stderr().is_terminal();
        let invitation = at_terminal.then(|| scheduler.invite());
        let asked = shutdown.asked();
        wait_for_end(invitation, asked.cancelled(), scheduler.failed()).await?;
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

/// Waits until the operator asks for an exit, or the scheduler ends by itself, which is an error. Meanwhile prints the invitation for a worker, which
/// waits for the disk and delays no exit. The token's secret is for the owner of the terminal, and for no log.
async fn wait_for_end(
    invitation: Option<impl Future<Output = Option<Invitation>>>,
    asked: impl Future<Output = ()>,
    failed: impl Future<Output = EndError>,
) -> Result<(), EndError> {
    let invite = async {
        if let Some(invitation) = invitation
            && let Some(invitation) = invitation.await
        {
            eprintln!("\n{invitation}\n");
        }
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        never = invite => match never {},
        () = asked => Ok(()),
        error = failed => {
            tracing::error!("{error}");
            Err(error)
        }
    }
}

/// Raises the limit, because each worker has a connection in either direction. The usual soft limit of 1024 is a relic of `select`.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_signal_ends_a_scheduler_whose_invitation_waits_for_the_disk() {
        let invitation = || Some(pending::<Option<Invitation>>());
        let ended = wait_for_end(invitation(), ready(()), pending()).await;
        assert!(ended.is_ok());
        let ended = wait_for_end(invitation(), pending(), ready(EndError::EndedAlone)).await;
        assert!(matches!(ended, Err(EndError::EndedAlone)));
    }
}
