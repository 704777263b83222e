//! The bounded queue of commands between callers of the runner and the supervising thread.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use brasserie_common::{EndedBy, Fault, KillMethod, KillRequest, ReportedStatus, Story};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;

use super::{RunKey, SpawnRequest};

/// The number of queued commands above which starts are refused: more than any worker has slots for. Starting thousands of tasks takes
/// about a second. With arguments of a few KiB the queue takes tens of megabytes in the worst case. A kill is always accepted, at most
/// one per run: if it were lost, a task would live on that its scheduler takes for dead.
const QUEUE_LIMIT: usize = 16_384;

/// The number of a run inside the runner; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RunNumber(pub u64);

/// The reason why a task was not accepted. Nothing happened, and the sink receives nothing.
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

impl SpawnError {
    /// Returns the completion of a run that was refused for this reason.
    pub(crate) fn completion(&self) -> (ReportedStatus, Story) {
        let text = format!("cannot start: {self}");
        let (status, fault) = match self {
            SpawnError::Busy | SpawnError::Ending => {
                (ReportedStatus::incomplete_backoff(&text), Fault::Worker)
            }
            SpawnError::AlreadyRunning | SpawnError::NoCommand => {
                (ReportedStatus::error_backoff(&text), Fault::Task)
            }
        };
        let story = Story::not_started(&self.to_string(), fault, Duration::ZERO);
        (status, story)
    }
}

/// The reason why a kill was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    #[error("no such invocation runs here: it has ended, or never started")]
    Unknown,
}

/// A command for the supervisor.
pub(super) enum SupervisorCommand {
    Spawn {
        number: RunNumber,
        key: Arc<RunKey>,
        request: Box<SpawnRequest>,
    },
    /// Ends the run as [`Inbox::take_kill`] says.
    Kill(RunNumber),
    /// Stops or continues the run's processes.
    Pause { number: RunNumber, stops: Stops },
    KillAll {
        wait: Duration,
        by: EndedBy,
        asked: Instant,
        done: Box<dyn FnOnce() + Send>,
    },
    /// Kills everything at once and ends the thread.
    Stop,
}

/// Whether a run's processes are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stops {
    Now,
    NoMore,
}

/// A request to end a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunKill {
    pub(super) request: KillRequest,
    pub(super) by: EndedBy,
    pub(super) asked: Instant,
}

impl RunKill {
    /// Returns the time of the certain kill. A wait beyond the range of time never ends.
    fn due(&self) -> Option<Instant> {
        match self.request.method {
            KillMethod::Kill => Some(self.asked),
            KillMethod::Term => None,
            KillMethod::TermWaitKill => self.asked.checked_add(self.request.wait),
        }
    }

    /// Returns the kill that ends the task first. The later one sends no signal that the other does not send or make unnecessary.
    fn sooner(self, other: RunKill) -> RunKill {
        match (self.due(), other.due()) {
            (Some(own), Some(others)) if others < own => other,
            (None, Some(_)) => other,
            (Some(_), _) | (None, None) => self,
        }
    }
}

/// The state that callers and the supervisor share.
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    wake: EventFd,
    /// Set while the supervisor waits or is about to wait: only then a wake-up is worth a system call.
    sleeping: AtomicBool,
}

struct InboxState {
    keys: HashMap<Arc<RunKey>, RunNumber>,
    queue: VecDeque<SupervisorCommand>,
    /// The requested kills whose command is in the queue, one per run.
    kills: HashMap<RunNumber, RunKill>,
    next: u64,
    stage: IntakeStage,
}

/// Whether tasks are accepted.
///
/// ```text
/// Open --kill_all, drop--> Ending
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IntakeStage {
    /// Tasks are accepted.
    Open,
    /// No new tasks.
    Ending,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("running", &self.running())
            .finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let state = InboxState {
            keys: HashMap::new(),
            queue: VecDeque::new(),
            kills: HashMap::new(),
            next: 0,
            stage: IntakeStage::Open,
        };
        Ok(Inbox {
            state: Mutex::new(state),
            wake,
            sleeping: AtomicBool::new(false),
        })
    }

    pub(super) fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        if request.command.is_empty() {
            return Err(SpawnError::NoCommand);
        }
        let key = Arc::new(request.key.clone());
        let request = Box::new(request);
        {
            let mut state = self.state.lock();
            if state.stage == IntakeStage::Ending {
                return Err(SpawnError::Ending);
            }
            if state.queue.len() >= QUEUE_LIMIT {
                return Err(SpawnError::Busy);
            }
            if state.keys.contains_key(&key) {
                return Err(SpawnError::AlreadyRunning);
            }
            let number = RunNumber(state.next);
            state.next += 1;
            state.keys.insert(Arc::clone(&key), number);
            state.queue.push_back(SupervisorCommand::Spawn {
                number,
                key,
                request,
            });
        }
        self.wake_up();
        Ok(())
    }

    pub(super) fn kill(
        &self,
        key: &RunKey,
        request: KillRequest,
        by: EndedBy,
    ) -> Result<(), KillError> {
        {
            let mut state = self.state.lock();
            let number = *state.keys.get(key).ok_or(KillError::Unknown)?;
            let kill = RunKill {
                request,
                by,
                asked: Instant::now(),
            };
            match state.kills.entry(number) {
                Entry::Occupied(mut waiting) => {
                    let sooner = waiting.get().sooner(kill);
                    waiting.insert(sooner);
                }
                Entry::Vacant(none) => {
                    none.insert(kill);
                    state.queue.push_back(SupervisorCommand::Kill(number));
                }
            }
        }
        self.wake_up();
        Ok(())
    }

    /// Queues a stop or continuation. It is always accepted: the core sends only a few for each run that begins or ends.
    pub(super) fn pause(&self, key: &RunKey, stops: Stops) {
        {
            let mut state = self.state.lock();
            let Some(number) = state.keys.get(key).copied() else {
                return;
            };
            state
                .queue
                .push_back(SupervisorCommand::Pause { number, stops });
        }
        self.wake_up();
    }

    /// Queues the end. It is always accepted, because an end must not fail.
    pub(super) fn end(&self, command: SupervisorCommand) {
        {
            let mut state = self.state.lock();
            state.stage = IntakeStage::Ending;
            state.queue.push_back(command);
        }
        self.wake_up();
    }

    fn wake_up(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // The write fails only after 2^64 - 2 wake-ups, centuries from now.
            let _ = self.wake.write(1);
        }
    }

    /// Returns the number of runs that were accepted and have not ended.
    pub(super) fn running(&self) -> usize {
        self.state.lock().keys.len()
    }

    /// Returns the number of the next task.
    pub(super) fn next(&self) -> RunNumber {
        RunNumber(self.state.lock().next)
    }

    pub(super) fn wake_fd(&self) -> &EventFd {
        &self.wake
    }

    /// Returns the next command, if there is one.
    pub(super) fn pop(&self) -> Option<SupervisorCommand> {
        self.state.lock().queue.pop_front()
    }

    /// Returns the kill that a [`SupervisorCommand::Kill`] of this run stands for.
    pub(super) fn take_kill(&self, number: RunNumber) -> Option<RunKill> {
        self.state.lock().kills.remove(&number)
    }

    /// Announces a wait. Returns `false` if a command has arrived meanwhile: then the supervisor must not wait.
    pub(super) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        // The store comes first: a caller either sees it and wakes the supervisor, or its command is seen here.
        let empty = self.state.lock().queue.is_empty();
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Releases the key of a run that has ended.
    pub(super) fn forget(&self, key: &Arc<RunKey>) {
        self.state.lock().keys.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: i64) -> SpawnRequest {
        SpawnRequest {
            key: key(number),
            command: vec!["/bin/true".to_owned()],
            argument: String::new(),
            path_to_node: Vec::new(),
            options: brasserie_common::TaskSubprocessOptions::default(),
            cuda_devices: Vec::new(),
            fence: None,
            not_after: brasserie_common::Time::NEVER,
            association: brasserie_worker_core::AssociationIndex::FIRST,
            asked: Instant::now(),
            inputs: None,
        }
    }

    fn key(number: i64) -> RunKey {
        RunKey {
            invocation: brasserie_common::InvocationId::new(1, number),
            job: "j".try_into().expect("a name"),
            node: "n".try_into().expect("a name"),
        }
    }

    fn kill(method: KillMethod, seconds: u64) -> KillRequest {
        let wait = Duration::from_secs(seconds);
        KillRequest { method, wait }
    }

    #[test]
    fn a_full_queue_takes_a_kill_of_every_run_and_no_start() {
        // No supervisor empties the queue.
        let inbox = Inbox::new().expect("an eventfd");
        let runs = i64::try_from(QUEUE_LIMIT).expect("a small number");
        for number in 0..runs {
            assert_eq!(inbox.spawn(request(number)), Ok(()));
        }
        assert_eq!(inbox.spawn(request(runs)), Err(SpawnError::Busy));
        for number in (0..runs).chain(0..runs) {
            let request = kill(KillMethod::TermWaitKill, 5);
            assert_eq!(inbox.kill(&key(number), request, EndedBy::Operator), Ok(()));
        }
        assert_eq!(
            inbox.kill(&key(runs), kill(KillMethod::Kill, 0), EndedBy::Operator),
            Err(KillError::Unknown)
        );
        // There is one kill per run, however many were requested.
        assert_eq!(inbox.state.lock().queue.len(), 2 * QUEUE_LIMIT);
    }

    #[test]
    fn of_several_waiting_kills_the_soonest_counts() {
        use KillMethod::{Kill, Term, TermWaitKill};
        for (first, second, want) in [
            (kill(Term, 0), kill(TermWaitKill, 5), kill(TermWaitKill, 5)),
            (kill(TermWaitKill, 5), kill(Term, 0), kill(TermWaitKill, 5)),
            (
                kill(TermWaitKill, 3600),
                kill(TermWaitKill, 5),
                kill(TermWaitKill, 5),
            ),
            (
                kill(TermWaitKill, 5),
                kill(TermWaitKill, 3600),
                kill(TermWaitKill, 5),
            ),
            (kill(TermWaitKill, 5), kill(Kill, 0), kill(Kill, 0)),
            (kill(Kill, 0), kill(TermWaitKill, 5), kill(Kill, 0)),
        ] {
            let inbox = Inbox::new().expect("an eventfd");
            assert_eq!(inbox.spawn(request(1)), Ok(()));
            for asked in [first, second] {
                assert_eq!(inbox.kill(&key(1), asked, EndedBy::Operator), Ok(()));
            }
            assert!(matches!(inbox.pop(), Some(SupervisorCommand::Spawn { .. })));
            let Some(SupervisorCommand::Kill(number)) = inbox.pop() else {
                panic!("the kill comes after the start");
            };
            let waiting = inbox.take_kill(number).expect("a kill");
            assert_eq!(waiting.request, want);
            assert!(inbox.pop().is_none());
        }
    }
}
