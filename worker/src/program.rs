//! The program `brasserie-worker`: keeper, command line, signals, exit code.

use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::time::Duration;

use brasserie_common_runtime::{ServiceManager, Verbosity, telemetry};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ExitReason;
use crate::config::{Cli, exit_code};
use crate::keeper::{self, lease::Lease};
use crate::options::{OnSigterm, StartOptions};
use crate::process::{DescriptorLimit, Orphans};
use crate::start::{Surroundings, Watchers, Wish, start_kept};

/// A keeper passes on what a service manager may have sent to the whole group already: within this time two signals are one
/// wish. Later a second one means that the tasks must not be waited for.
const ONE_WISH: Duration = Duration::from_secs(1);
/// Signals that may wait to be noticed: there are four kinds, and the kernel merges those of one kind.
const SIGNALS: usize = 16;
/// Open files: four for each of 7,000 tasks, two for each connection that the server allows. No more, since some old programs
/// close every number up to the limit that they inherit.
pub(crate) const DESCRIPTORS: u64 = 32_768;

/// Runs the program to its end. Call it first of all in `main`.
pub fn run() -> ExitCode {
    match keeper::become_keeper_or_continue() {
        Ok(()) => {}
        Err(error) => return failed(&error, exit_code::START),
    }
    let options = Cli::parse_or_exit();
    let _log = match telemetry::init(Verbosity::Info) {
        Ok(log) => log,
        Err(error) => return failed(&error, exit_code::USAGE),
    };
    let descriptors = raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        // On a thread of the runtime: children of the first one are orphans of tasks, so it must have none of its own.
        Ok(runtime) => {
            let ended = runtime.block_on(runtime.spawn(work(options, descriptors)));
            // A thread that still waits for a resolver or a disk does not keep the program, whose tasks are dead.
            runtime.shutdown_background();
            match ended {
                Ok(code) => code,
                Err(error) => failed(&error, exit_code::START),
            }
        }
        Err(error) => failed(&error, exit_code::START),
    }
}

async fn work(options: StartOptions, descriptors: Option<DescriptorLimit>) -> ExitCode {
    let lease = match Lease::of_this_process() {
        Ok(lease) => lease,
        Err(error) => return failed(&error, exit_code::START),
    };
    let manager = ServiceManager::from_environment();
    let on_sigterm = options.on_sigterm;
    let surroundings = Surroundings {
        watchers: Watchers {
            lease,
            manager: manager.clone(),
        },
        descriptors,
        orphans: Orphans::Adopt,
    };
    let handle = match start_kept(options, surroundings).await {
        Ok(handle) => handle,
        Err(error) => return failed(&error, exit_code::START),
    };
    match end_on_signals(on_sigterm, handle.wishes()) {
        Ok(()) => {}
        Err(error) => return failed(&error, exit_code::START),
    }
    // Its directory is locked, its port is open, and a signal would be understood.
    manager.ready(&format!("takes calls at {}", handle.address()));
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

fn end_on_signals(
    on_sigterm: OnSigterm,
    stop: impl Fn(Wish) + Send + 'static,
) -> std::io::Result<()> {
    let keeper = parent_id();
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
                let _ = sender.try_send(kind);
            }
        });
    }
    tokio::spawn(async move {
        let mut wishes = Wishes::default();
        while let Some(kind) = signals.recv().await {
            // The kernel sends it also when the keeper is gone; without one nobody would end the tasks of a worker that is killed.
            let means_drain = kind == SignalKind::terminate() && parent_id() == keeper;
            match (wishes.hear(Instant::now()), on_sigterm) {
                (Heard::First, OnSigterm::Drain) if means_drain => stop(Wish::Drain),
                (Heard::First | Heard::New, OnSigterm::Drain | OnSigterm::Kill) => {
                    stop(Wish::Shutdown);
                }
                (Heard::Repeated, OnSigterm::Drain | OnSigterm::Kill) => {}
            }
        }
    });
    Ok(())
}

/// Signals so far.
#[derive(Debug, Default)]
struct Wishes {
    first: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    First,
    New,
    /// Another sender's words for the first one.
    Repeated,
}

impl Wishes {
    fn hear(&mut self, now: Instant) -> Heard {
        let Some(first) = self.first else {
            self.first = Some(now);
            return Heard::First;
        };
        if now - first < ONE_WISH {
            Heard::Repeated
        } else {
            Heard::New
        }
    }
}

/// A task takes four descriptors here, and two more if its output goes into files. What the administrator allows at most (the
/// hard limit) is what the worker uses, up to [`DESCRIPTORS`]. Returns the former limit, which is what tasks get.
fn raise_descriptor_limit() -> Option<DescriptorLimit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let wanted = hard.min(DESCRIPTORS);
    if soft < wanted
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
    {
        tracing::warn!("cannot raise the limit of open files from {soft} to {wanted}: {error}");
    }
    Some(DescriptorLimit { soft, hard })
}

fn failed(error: &dyn std::error::Error, code: u8) -> ExitCode {
    telemetry::print_last_error(&format!("brasserie-worker: {error}"));
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one_wish() {
        let start = Instant::now();
        let mut wishes = Wishes::default();
        let after = |millis| start + Duration::from_millis(millis);
        let heard = [0, 1, 999, 1000, 1001].map(|millis| wishes.hear(after(millis)));
        assert_eq!(
            heard,
            [
                Heard::First,
                Heard::Repeated,
                Heard::Repeated,
                Heard::New,
                Heard::New
            ]
        );
    }
}
