//! Runs the program `brasserie-worker`: keeper, command line, signals, exit code.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use brasserie_common_runtime::{ServiceManager, signal_name, telemetry};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ExitReason;
use crate::config::{Cli, exit_code};
use crate::containment::{Contain, stage::STAGE_NAME};
use crate::driver::Watchers;
use crate::keeper::{self, KeeperError, KeeperPolicy, StartedBy, lease::Lease};
use crate::options::{OnSigterm, StartOptions};
use crate::process::{DescriptorLimit, OrphanHandling};
use crate::start::{StartError, Surroundings, Wish, start_kept};

/// The name of this program. A file that contains several programs, as `brasserie` does, runs this one if it is started under this name.
pub const PROGRAM_NAME: &str = "brasserie-worker";
/// The period in which repeated signals count as one request. A service manager may signal the whole process group, and the keeper then
/// passes the same signal on. A later repetition means that the worker must not wait for its tasks.
const ONE_WISH: Duration = Duration::from_secs(1);
/// The capacity of the signal queue. There are four kinds of signals, and the kernel merges those of one kind.
const SIGNALS: usize = 16;
/// The exit code of a program that a signal ended is this number plus the signal's number, as in shells.
const SIGNAL_CODE_BASE: i32 = 128;
/// The limit of open files: four for each of 7,000 tasks, two for each connection that the server allows. The limit is not higher, since
/// some old programs close every number up to the limit that they inherit.
pub(crate) const DESCRIPTORS: u64 = 32_768;

/// Returns whether a process that was started under this name is a worker, or about to become one. Such a process calls [`run`].
pub fn is_worker(name: &OsStr) -> bool {
    name == PROGRAM_NAME || name == STAGE_NAME
}

/// Runs the program to its end. `main` calls it before anything else.
pub fn run() -> ExitCode {
    match keeper::become_keeper_with(policy) {
        Ok(()) => {}
        Err(error @ KeeperError::Containment(_)) => return failed(&error, exit_code::USAGE),
        Err(error) => return failed(&error, exit_code::START),
    }
    let options = Cli::parse_or_exit();
    let _log = match telemetry::init(options.started_by.verbosity(), options.log_format) {
        Ok(log) => log,
        Err(error) => return failed(&error, exit_code::USAGE),
    };
    let descriptors = raise_descriptor_limit();
    // Signals stay blocked until there are handlers: PID 1 of a namespace loses signals that arrive earlier.
    let handled = Arc::new(OnceLock::new());
    let is_handled = Arc::clone(&handled);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(move || {
            is_handled.wait();
            // The call fails only for an invalid set of signals. The first thread then still receives all signals.
            let _ = keeper::hear_signals();
        })
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error, exit_code::START),
    };
    let signals = {
        let _on = runtime.enter();
        listen_to_signals()
    };
    // The flag is set after an error, too, so that the waiting threads can end.
    handled.get_or_init(|| ());
    let signals = match signals {
        Ok(signals) => signals,
        Err(error) => return failed(&error, exit_code::START),
    };
    if let Err(error) = keeper::hear_signals() {
        return failed(&error, exit_code::START);
    }
    // The worker runs on a thread of the runtime. The first thread adopts the orphans of tasks, so it must have no children of its own.
    let ended = runtime.block_on(runtime.spawn(work(options, descriptors, signals)));
    // A thread that still waits for a resolver or a disk does not delay the exit: all tasks are dead.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => failed(&error, exit_code::START),
    }
}

/// Returns in the kept program. The process that was started becomes its keeper and does not return. The program gets no namespace.
///
/// Call it before anything else: before threads start, arguments are read, or anything is printed.
pub fn become_keeper_or_continue() -> Result<(), KeeperError> {
    // The keeper of a run's worker begins here as well, because the worker runs the same file.
    let chosen = |arguments: &[OsString]| match arguments.first() {
        Some(name) if name == PROGRAM_NAME => policy(arguments),
        Some(_) | None => KeeperPolicy {
            contain: Contain::ProcessGroups,
            ..KeeperPolicy::default()
        },
    };
    keeper::become_keeper_with(chosen)?;
    keeper::hear_signals()
}

/// Returns the keeper's policy. If the command line cannot be parsed, the program itself prints the error later.
fn policy(arguments: &[OsString]) -> KeeperPolicy {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.policy(),
        Err(_) => KeeperPolicy {
            contain: Contain::ProcessGroups,
            ..KeeperPolicy::default()
        },
    }
}

async fn work(
    options: StartOptions,
    descriptors: Option<DescriptorLimit>,
    mut signals: mpsc::Receiver<SignalKind>,
) -> ExitCode {
    let lease = match Lease::of_this_process() {
        Ok(lease) => lease,
        Err(error) => return failed(&error, exit_code::START),
    };
    let manager = ServiceManager::from_environment();
    let (on_sigterm, started_by) = (options.on_sigterm, options.started_by);
    let surroundings = Surroundings {
        watchers: Watchers {
            lease,
            manager: manager.clone(),
        },
        descriptors,
        orphans: OrphanHandling::Adopt,
    };
    let started = tokio::select! {
        started = start_kept(options, surroundings) => started,
        // No task runs yet, and the start may wait for ever: the program ends at once.
        Some(kind) = signals.recv() => {
            let code = SIGNAL_CODE_BASE + kind.as_raw_value();
            tracing::info!(code, "ended by {} before it took calls", signal_name(kind));
            return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
        }
    };
    let handle = match started {
        Ok(handle) => handle,
        Err(error) => return failed(&error, code_of(&error)),
    };
    tokio::spawn(end_on_signals(signals, on_sigterm, handle.wishes()));
    if started_by == StartedBy::Run {
        end_with_stdin(handle.stopper());
    }
    // The directory is locked, the port is open, and signals are handled.
    manager.ready(&format!("takes calls at {}", handle.address()));
    let ended = handle.wait().await;
    let code = match ended.reason {
        ExitReason::Shutdown => exit_code::SHUTDOWN,
        ExitReason::SuicideRequested | ExitReason::MustDie => exit_code::SUICIDE,
    };
    tracing::info!(code, "{ended}; every task is dead");
    ExitCode::from(code)
}

/// Receives the signals that the keeper passes on, and SIGTERM once the keeper is dead. The kernel also sends that SIGTERM when a single
/// thread of the keeper dies.
fn listen_to_signals() -> std::io::Result<mpsc::Receiver<SignalKind>> {
    let (sender, signals) = mpsc::channel(SIGNALS);
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::hangup(),
    ] {
        let (mut stream, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                // A full queue already contains such a request.
                let _ = sender.try_send(kind);
            }
        });
    }
    keeper::on_keeper_death(move || {
        // A full queue may drop this signal. The receiver of any signal checks whether the keeper lives.
        let _ = sender.try_send(SignalKind::terminate());
    })?;
    Ok(signals)
}

async fn end_on_signals(
    mut signals: mpsc::Receiver<SignalKind>,
    on_sigterm: OnSigterm,
    stop: impl Fn(Wish) + Send + 'static,
) {
    let mut wishes = Wishes::default();
    while let Some(kind) = signals.recv().await {
        // A worker without a keeper does not drain: if it were killed meanwhile, nothing would end its tasks.
        let is_kept = keeper::keeper_lives();
        let wish = match on_sigterm {
            OnSigterm::Drain if kind == SignalKind::terminate() && is_kept => Wish::Drain,
            OnSigterm::Drain | OnSigterm::Kill => Wish::Shutdown,
        };
        if let Some(wish) = wishes.hear(wish, Instant::now()) {
            match is_kept {
                true => tracing::info!("received {}", signal_name(kind)),
                false => tracing::warn!("the keeper of this worker has died"),
            }
            stop(wish);
        }
    }
}

/// Ends the worker at the end of its standard input: then the run that started it is gone.
fn end_with_stdin(stop: impl FnOnce() + Send + 'static) {
    // A task of the runtime would delay the runtime's end until the read returns.
    std::thread::spawn(move || {
        // Nothing is ever written, and an error means the same as the end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop();
    });
}

/// The last request, and its time.
#[derive(Debug, Default)]
struct Wishes {
    last: Option<(Wish, Instant)>,
}

impl Wishes {
    /// Returns the request to carry out, or `None` if another sender has repeated the last one.
    fn hear(&mut self, wish: Wish, now: Instant) -> Option<Wish> {
        let (heard, since) = match self.last {
            None => (wish, now),
            Some((Wish::Drain, _)) if wish == Wish::Shutdown => (wish, now),
            Some((last, since)) if now - since < ONE_WISH => {
                self.last = Some((last, since));
                return None;
            }
            Some(_) => (Wish::Shutdown, now),
        };
        self.last = Some((heard, since));
        Some(heard)
    }
}

/// Raises the soft limit of open files to the hard limit, at most to [`DESCRIPTORS`]. Returns the former limit, which tasks get. A task
/// takes four descriptors of the worker, and two more if its output goes into files.
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

fn code_of(error: &StartError) -> u8 {
    match error {
        StartError::Membership(error) if error.is_final() => exit_code::NOT_ADMITTED,
        _ => exit_code::START,
    }
}

fn failed(error: &dyn std::error::Error, code: u8) -> ExitCode {
    telemetry::print_last_error(&format!("{PROGRAM_NAME}: {error}"));
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(signals: &[(u64, Wish)]) -> Vec<Option<Wish>> {
        let start = Instant::now();
        let mut wishes = Wishes::default();
        let hear = |(millis, wish): &(u64, Wish)| {
            wishes.hear(*wish, start + Duration::from_millis(*millis))
        };
        signals.iter().map(hear).collect()
    }

    #[test]
    fn signals_within_a_second_are_one_wish() {
        use Wish::{Drain, Shutdown};
        let kills = [0, 1, 999, 1000, 1001].map(|millis| (millis, Shutdown));
        let twice = [Some(Shutdown), None, None, Some(Shutdown), None];
        assert_eq!(heard(&kills), twice);
        let drains = [0, 999, 1000, 1001].map(|millis| (millis, Drain));
        assert_eq!(heard(&drains), [Some(Drain), None, Some(Shutdown), None]);
    }

    #[test]
    fn a_shutdown_within_a_second_of_a_drain_is_obeyed() {
        use Wish::{Drain, Shutdown};
        // The keeper is killed right after it has passed SIGTERM on: only the worker is left to end the tasks.
        let lost = [(0, Drain), (1, Shutdown), (2, Drain), (3, Shutdown)];
        assert_eq!(heard(&lost), [Some(Drain), Some(Shutdown), None, None]);
        let later = [(0, Drain), (999, Shutdown), (1500, Drain), (1999, Drain)];
        assert_eq!(
            heard(&later),
            [Some(Drain), Some(Shutdown), None, Some(Shutdown)]
        );
    }
}
