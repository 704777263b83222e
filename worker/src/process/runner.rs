//! The handle of the runner: what callers see, and the bounded queue between them and the supervising thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use brasserie_common::KillRequest;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;

use super::supervisor::Supervisor;
use super::{RunKey, RunnerConfig, SpawnRequest, TaskSink};

/// Commands that may wait for the supervisor: more starts than any worker has slots for, at a second's work for
/// thousands; with arguments of a few KiB they take tens of megabytes at the very worst.
const QUEUE_LIMIT: usize = 16_384;

/// Names a run inside the runner; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TaskNumber(pub u64);

/// Why a task was not accepted. Nothing happened, and the sink hears nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    #[error("this invocation is already running here")]
    AlreadyRunning,
    #[error("the command is empty")]
    NoCommand,
    #[error("{QUEUE_LIMIT} starts and kills are already waiting")]
    Busy,
    #[error("the worker is ending its tasks")]
    Ending,
}

/// Why a kill was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    #[error("no such invocation runs here: it has ended, or never started")]
    Unknown,
    #[error("{QUEUE_LIMIT} starts and kills are already waiting")]
    Busy,
}

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up task processes in {data_dir}: {source}")]
pub struct StartError {
    pub data_dir: std::path::PathBuf,
    pub source: io::Error,
}

/// Runs tasks. Calls only queue and never wait; results come through the sink. Dropping it kills what still runs and
/// waits for the sink to hear of it.
#[derive(Debug)]
pub struct ProcessRunner {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl ProcessRunner {
    /// Starts the supervising thread. Descriptors that this process inherited become close-on-exec.
    pub fn start(config: RunnerConfig, sink: impl TaskSink + 'static) -> Result<Self, StartError> {
        let data_dir = config.data_dir.clone();
        let error = |source| StartError {
            data_dir: data_dir.clone(),
            source,
        };
        let inbox = Arc::new(Inbox::new().map_err(error)?);
        let supervisor =
            Supervisor::new(config, Box::new(sink), Arc::clone(&inbox)).map_err(error)?;
        let thread = std::thread::Builder::new()
            .name("task-supervisor".to_owned())
            .spawn(move || supervisor.run());
        Ok(ProcessRunner {
            inbox,
            thread: Some(thread.map_err(error)?),
        })
    }

    /// Queues a start. From now on the key is known to [`ProcessRunner::kill`], and the sink will hear of its end once.
    pub fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        self.inbox.spawn(request)
    }

    /// Queues a kill of exactly this run; its wait counts from now. Does not wait for the death.
    pub fn kill(&self, key: &RunKey, request: KillRequest) -> Result<(), KillError> {
        self.inbox.kill(key, request)
    }

    /// Ends every task, those that only wait for their start included: TERM, and KILL after `wait` (at once if zero). No
    /// task is accepted from now on. `done` is called on the supervising thread once the sink has heard of the last one.
    pub fn kill_all(&self, wait: Duration, done: impl FnOnce() + Send + 'static) {
        self.inbox.end(Command::KillAll {
            wait,
            asked: Instant::now(),
            done: Box::new(done),
        });
    }

    /// Runs that were accepted and have not ended.
    pub fn running(&self) -> usize {
        self.inbox.state.lock().keys.len()
    }
}

impl Drop for ProcessRunner {
    fn drop(&mut self) {
        self.inbox.end(Command::Stop);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A supervisor that panicked printed why where it happened.
            let _ = thread.join();
        }
    }
}

/// What the supervisor is asked to do.
pub(super) enum Command {
    Spawn {
        number: TaskNumber,
        key: Arc<RunKey>,
        request: Box<SpawnRequest>,
    },
    Kill {
        number: TaskNumber,
        request: KillRequest,
        asked: Instant,
    },
    KillAll {
        wait: Duration,
        asked: Instant,
        done: Box<dyn FnOnce() + Send>,
    },
    /// Kill everything at once and leave.
    Stop,
}

/// What callers and the supervisor share.
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    wake: EventFd,
    /// Set while the supervisor is, or is about to be, in its wait: only then is a wake-up worth a system call.
    sleeping: AtomicBool,
}

struct InboxState {
    keys: HashMap<Arc<RunKey>, TaskNumber>,
    queue: VecDeque<Command>,
    next: u64,
    stage: Stage,
}

/// ```text
/// Open --kill_all, drop--> Ending
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Tasks are accepted.
    Open,
    /// No new tasks.
    Ending,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("running", &self.state.lock().keys.len())
            .finish_non_exhaustive()
    }
}

impl Inbox {
    fn new() -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let state = InboxState {
            keys: HashMap::new(),
            queue: VecDeque::new(),
            next: 0,
            stage: Stage::Open,
        };
        Ok(Inbox {
            state: Mutex::new(state),
            wake,
            sleeping: AtomicBool::new(false),
        })
    }

    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        if request.command.is_empty() {
            return Err(SpawnError::NoCommand);
        }
        let key = Arc::new(request.key.clone());
        let request = Box::new(request);
        {
            let mut state = self.state.lock();
            if state.stage == Stage::Ending {
                return Err(SpawnError::Ending);
            }
            if state.queue.len() >= QUEUE_LIMIT {
                return Err(SpawnError::Busy);
            }
            if state.keys.contains_key(&key) {
                return Err(SpawnError::AlreadyRunning);
            }
            let number = TaskNumber(state.next);
            state.next += 1;
            state.keys.insert(Arc::clone(&key), number);
            state.queue.push_back(Command::Spawn {
                number,
                key,
                request,
            });
        }
        self.wake_up();
        Ok(())
    }

    fn kill(&self, key: &RunKey, request: KillRequest) -> Result<(), KillError> {
        {
            let mut state = self.state.lock();
            let number = *state.keys.get(key).ok_or(KillError::Unknown)?;
            if state.queue.len() >= QUEUE_LIMIT {
                return Err(KillError::Busy);
            }
            state.queue.push_back(Command::Kill {
                number,
                request,
                asked: Instant::now(),
            });
        }
        self.wake_up();
        Ok(())
    }

    /// Always accepted, whatever waits: an end must not fail.
    fn end(&self, command: Command) {
        {
            let mut state = self.state.lock();
            state.stage = Stage::Ending;
            state.queue.push_back(command);
        }
        self.wake_up();
    }

    fn wake_up(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // Fails only after 2^64 - 2 wake-ups, centuries from now.
            let _ = self.wake.write(1);
        }
    }

    pub(super) fn wake_fd(&self) -> &EventFd {
        &self.wake
    }

    /// The next command, if there is one.
    pub(super) fn pop(&self) -> Option<Command> {
        self.state.lock().queue.pop_front()
    }

    /// Announces a wait. `false`: a command came meanwhile, do not wait.
    pub(super) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        // After the store, so that a caller either sees it and wakes us, or has its command seen here.
        let empty = self.state.lock().queue.is_empty();
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// The run has ended: its key may be used again.
    pub(super) fn forget(&self, key: &Arc<RunKey>) {
        self.state.lock().keys.remove(key);
    }
}
