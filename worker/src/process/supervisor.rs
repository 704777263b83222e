//! The supervising thread: starts tasks, reads their pipes, notices their exits, and ends them.

pub(super) mod ends;
mod orphans;
mod output;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::{Bound, EndedBy, Limited, ReportedStatus, Story, TaskSubprocessOptions};
use brasserie_common_runtime::Clock;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::command::{Commands, Reserved, TaskPipes};
use super::events::{self, TaskEvent};
use super::inbox::{Inbox, RunNumber, Stops, SupervisorCommand};
use super::launch::{Child, Launch, Limit, SpawnMethod};
use super::pipes::{LineSplitter, Pipe, PipeKind, StatusCollector, StderrLines};
use super::rate::RateLimit;
use super::refusals::{AttemptedStart, StartFailure, beyond_our_own, explain, kernels};
use super::spawn::{self, Launcher};
use super::strays::{LOOK, Strays};
use super::task::{Declared, EndStage, TaskProcess, Telling};
use super::{Began, RunKey, RunnerConfig, Signalled, SpawnRequest, TaskEnd, TaskSink};
use crate::groups::plan::asks_for_a_group;
use crate::groups::{GroupUsage, Groups, TaskGroup};
use crate::logs::TaskTag;
use crate::output::{OutputConfig, OutputStore};
use output::READ_BYTES;

/// The age from which a task's pipes are read. A short task ends before its pipes are worth three system calls and a wake-up each, and a
/// long one waits only if it fills a pipe within this time.
const YOUNG: Duration = Duration::from_millis(5);
/// The number of events that one call takes from the kernel.
const EVENTS: usize = 256;
/// The number of commands between two checks of running tasks. A start takes a fraction of a millisecond, and pipes must not wait longer
/// than a few starts.
const COMMANDS_PER_TURN: usize = 8;

const WAKE_TOKEN: u64 = u64::MAX;
const PIDFD_SLOT: u64 = 3;

/// The deadlines. A stale one has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// SIGKILL after TERM.
    Kill(EndedBy),
    /// The next stage for pipes that stay open.
    Linger,
    /// The next check of paused pipes.
    Resume,
    /// The report of dropped lines.
    Declare,
    /// The next check of control groups that are being killed or emptied.
    Groups,
}

pub(super) struct Supervisor {
    config: RunnerConfig,
    sink: Box<dyn TaskSink>,
    inbox: Arc<Inbox>,
    /// The absolute path of the folder for output files.
    output_dir: PathBuf,
    outputs: OutputStore,
    epoll: Epoll,
    launcher: Launcher,
    reserved: Reserved,
    commands: Commands,
    /// `None`: tasks that ask for groups are refused.
    groups: Option<Groups>,
    /// The pinned file that was missing at the last start, and the reason.
    missing: Option<String>,
    tasks: HashMap<RunNumber, TaskProcess>,
    timers: BinaryHeap<Reverse<(Instant, RunNumber, Timer)>>,
    /// The young tasks, ordered by time, which is the order of starts.
    young: VecDeque<(Instant, RunNumber)>,
    strays: Strays,
    /// The time of the next check for orphans.
    next_check: Option<Instant>,
    /// Tasks whose end waits for the death of their orphans.
    waiting_for_orphans: Vec<RunNumber>,
    ending: SupervisorEnding,
    waiting_for_end: Vec<Box<dyn FnOnce() + Send>>,
    read_buffer: Vec<u8>,
    scratch: Vec<u8>,
}

/// The end of the supervisor.
///
/// ```text
/// No --kill_all--> Tasks --drop--> Thread
/// No --drop--> Thread
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SupervisorEnding {
    /// Tasks start and end.
    No,
    /// Every task is being ended; none starts.
    Tasks,
    /// Every task is being ended, and then the thread ends.
    Thread,
}

impl Supervisor {
    pub(super) fn new(
        config: RunnerConfig,
        sink: Box<dyn TaskSink>,
        inbox: Arc<Inbox>,
    ) -> io::Result<Self> {
        spawn::close_inherited_on_exec()?;
        spawn::keep_children_waitable();
        let reserved = Reserved::new()?;
        let output_dir = path::absolute(&config.data_dir)?.join("output");
        let outputs = OutputStore::open(OutputConfig {
            dir: output_dir.clone(),
            retention: config.output,
        })?;
        let commands = Commands::new(
            &config.data_dir,
            reserved.status_number(),
            &config.environment,
            (&config.accounts, config.marks),
        )?;
        tracing::info!(
            path = commands.path_text(),
            "finds programs of tasks in PATH"
        );
        let groups = config.groups.clone().map(Groups::open);
        groups.iter().for_each(Groups::announce);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        // The event is edge-triggered: every write wakes the thread, and the counter need never be read back.
        let wake = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(inbox.wake_fd(), EpollEvent::new(wake, WAKE_TOKEN))?;
        let strays = Strays::new(config.orphans)?;
        Ok(Supervisor {
            config,
            strays,
            next_check: None,
            waiting_for_orphans: Vec::new(),
            sink,
            inbox,
            output_dir,
            outputs,
            epoll,
            launcher: Launcher::new(SpawnMethod::Clone)?,
            reserved,
            commands,
            groups,
            missing: None,
            tasks: HashMap::new(),
            timers: BinaryHeap::new(),
            young: VecDeque::new(),
            ending: SupervisorEnding::No,
            waiting_for_end: Vec::new(),
            read_buffer: vec![0; READ_BYTES],
            scratch: Vec::new(),
        })
    }

    pub(super) fn run(mut self) {
        let mut events = vec![EpollEvent::empty(); EVENTS];
        loop {
            self.sink.holds_all();
            let more = self.run_commands();
            self.run_timers(Instant::now());
            if self.tasks.is_empty() && self.ending != SupervisorEnding::No && !more {
                self.waiting_for_end.drain(..).for_each(|done| done());
                if self.ending == SupervisorEnding::Thread {
                    return;
                }
            }
            let timeout = match !more && self.inbox.may_sleep() {
                true => self.next_timeout(),
                false => EpollTimeout::ZERO,
            };
            let count = match self.epoll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                // Invariant: the descriptor and the buffer are valid and belong to this thread, so there is no other error.
                Err(error) => panic!("waiting for tasks failed: {error}"),
            };
            self.inbox.awake();
            for event in &events[..count] {
                self.on_event(event.data());
            }
        }
    }

    /// Runs queued commands. Returns whether more are queued.
    fn run_commands(&mut self) -> bool {
        for _ in 0..COMMANDS_PER_TURN {
            match self.inbox.pop() {
                None => return false,
                Some(SupervisorCommand::Spawn {
                    number,
                    key,
                    request,
                }) => self.spawn(number, key, &request),
                Some(SupervisorCommand::Kill(number)) => {
                    if let Some(kill) = self.inbox.take_kill(number) {
                        self.kill(number, kill.request, kill.by, kill.asked);
                    }
                }
                Some(SupervisorCommand::Pause { number, stops }) => {
                    if let Some(task) = self.tasks.get_mut(&number) {
                        match stops {
                            Stops::Now => task.stop(),
                            Stops::NoMore => task.go_on(),
                        }
                    }
                }
                Some(SupervisorCommand::KillAll {
                    wait,
                    by,
                    asked,
                    done,
                }) => {
                    self.ending = self.ending.max(SupervisorEnding::Tasks);
                    self.waiting_for_end.push(done);
                    self.kill_all(wait, by, asked);
                }
                Some(SupervisorCommand::Stop) => {
                    self.ending = SupervisorEnding::Thread;
                    self.kill_all(Duration::ZERO, EndedBy::Shutdown, Instant::now());
                }
            }
        }
        true
    }

    fn on_event(&mut self, token: u64) {
        if token == WAKE_TOKEN {
            return;
        }
        let number = RunNumber(token >> 2);
        match PipeKind::ALL
            .into_iter()
            .find(|kind| kind.index() as u64 == token & 3)
        {
            Some(kind) => {
                self.read_pipe(number, kind);
                self.finish_if_over(number);
            }
            None => self.exited(number),
        }
    }

    fn spawn(&mut self, number: RunNumber, key: Arc<RunKey>, request: &SpawnRequest) {
        let tag = TaskTag::new(key.invocation, &key.job, &key.node);
        if self.ending != SupervisorEnding::No {
            let reason = "the worker is ending its tasks; this one did not start".to_owned();
            let failure = StartFailure::of_worker(reason);
            return self.report_failure(key, &tag, request, failure);
        }
        if let Err(failure) = self.check_pinned() {
            return self.report_failure(key, &tag, request, failure);
        }
        let arguments = self.commands.arguments(request);
        let destination = self.destination(&key, &tag, request.options.output);
        let (command, files) = (&arguments[..], destination.files());
        self.log(&key, &tag, TaskEvent::Running { command, files });
        let now = Instant::now();
        match self.launch(number, request, &arguments) {
            Ok((child, pipes, group)) => {
                let began = Began {
                    leader: child.pid,
                    refresh: request.options.refresh_resources,
                    meter: group.as_ref().map(TaskGroup::meter),
                    association: request.association,
                };
                self.sink.started(&key, began);
                let task = TaskProcess {
                    key,
                    tag,
                    pid: child.pid,
                    pidfd: Some(child.pidfd),
                    pipes: pipes.map(Pipe::Unwatched),
                    stage: EndStage::Running,
                    is_stopped: false,
                    sent: Signalled::No,
                    signalled: Signalled::No,
                    kill_at: None,
                    complain_at: None,
                    ended_by: None,
                    starting: now.saturating_duration_since(request.asked),
                    status_from: request.options.status_from,
                    status: StatusCollector::default(),
                    tail: StderrLines::default(),
                    group,
                    counted: GroupUsage::default(),
                    out_of_memory: None,
                    rate: RateLimit::new(&request.options, now),
                    destination,
                    telling: Telling::Nothing,
                    started: now,
                    splitters: [LineSplitter::default(), LineSplitter::default()],
                    split: Declared::No,
                };
                self.tasks.insert(number, task);
                self.schedule_check(now + LOOK);
                self.young.push_back((now + YOUNG, number));
            }
            Err(failure) => self.report_failure(key, &tag, request, failure),
        }
    }

    /// Errors if a pinned file is no longer at its path. It must precede every other step of a start, because those would recreate the
    /// data directory.
    fn check_pinned(&mut self) -> Result<(), StartFailure> {
        let mut pinned = self.config.pinned.iter();
        let missing =
            pinned.find_map(|file| Some(format!("{} {}", file.path().display(), file.change()?)));
        if missing != self.missing {
            match &missing {
                Some(missing) => tracing::error!(
                    "{missing}: no task starts until the very same file is back. Healthchecks fail as well, so the scheduler gives this \
                     worker's tasks to others in the end. To begin in a new directory, restart the worker"
                ),
                None => tracing::info!("the data directory is back: tasks start again"),
            }
            self.missing.clone_from(&missing);
        }
        match missing {
            None => Ok(()),
            Some(missing) => Err(StartFailure::of_worker(missing)),
        }
    }

    fn launch(
        &mut self,
        number: RunNumber,
        request: &SpawnRequest,
        arguments: &[String],
    ) -> Result<(Child, [OwnedFd; 3], Option<TaskGroup>), StartFailure> {
        let chosen = self.config.accounts.choose(&request.options);
        let chosen = chosen.map_err(StartFailure::of_worker)?;
        let mut group = self.make_group(request)?;
        let joins = group.as_ref().map(TaskGroup::joins).unwrap_or_default();
        let chosen = chosen.as_ref();
        let prepared = self.commands.prepare(request, arguments, chosen)?;
        let program = prepared.program.to_string_lossy();
        let asked = AttemptedStart {
            program: &program,
            options: &request.options,
            chosen,
        };
        let account = chosen.and_then(|chosen| chosen.account.as_ref());
        let limits = process_limits(&request.options);
        if let Some(failure) = beyond_our_own(&limits, &request.options) {
            return Err(failure);
        }
        let pipes = TaskPipes::new(account).map_err(|refused| explain(refused, asked))?;
        let [stdout, stderr, status] = pipes.write.each_ref().map(OwnedFd::as_fd);
        let passed = self.commands.environment(chosen, request);
        let launch = Launch {
            program: &prepared.program,
            argv: &prepared.argv,
            environment: [&passed, &prepared.environment],
            working_dir: prepared.working_dir.path(),
            enters_as_account: prepared.working_dir.is_given(),
            stdin: self.reserved.null.as_fd(),
            stdout,
            stderr,
            status,
            status_number: self.reserved.status_number(),
            joins: &joins,
            descriptors: self.config.descriptors.map(Limit::from),
            mark: self.strays.marks().limit(number),
            limits: &limits,
            account,
        };
        if Clock.now() > request.not_after {
            let why = "the worker was paused, and the task's latest start has passed";
            return Err(StartFailure::of_worker(why.to_owned()));
        }
        let child = match self.launcher.spawn(&launch) {
            Err(refused) if prepared.working_dir.is_lost(refused) => {
                self.commands.restore(&prepared.working_dir)?;
                self.launcher.spawn(&launch)
            }
            result => result,
        };
        let child = child.map_err(|refused| explain(refused, asked))?;
        self.watch(number, &child)?;
        if let Some(group) = &mut group {
            group.close_joins();
        }
        Ok((child, pipes.read, group))
    }

    fn watch(&self, number: RunNumber, child: &Child) -> Result<(), StartFailure> {
        // The event is reported once. A child that is just being started holds a copy of the descriptor, so closing it would not remove
        // it from the epoll. The event would then repeat until that child runs its program.
        let once = EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT;
        let event = EpollEvent::new(once, number.0 << 2 | PIDFD_SLOT);
        self.epoll.add(&child.pidfd, event).map_err(|error| {
            spawn::end_unwatched(child.pid);
            let reason = format!("its process cannot be watched: {}", error.desc());
            StartFailure::of_worker(reason)
        })
    }

    /// Makes the control groups that the task asks for. The task does not start without them.
    fn make_group(&mut self, request: &SpawnRequest) -> Result<Option<TaskGroup>, StartFailure> {
        let asked = &request.options.cgroups;
        let made = match &mut self.groups {
            Some(groups) => groups
                .create(asked, Clock.wall(), request.association)
                .map_err(|e| e.to_string()),
            None if asks_for_a_group(asked) => {
                Err("this worker makes no control groups".to_owned())
            }
            None => Ok(None),
        };
        made.map_err(|why| {
            StartFailure::of_worker(format!("its control groups cannot be made: {why}"))
        })
    }

    fn report_failure(
        &mut self,
        key: Arc<RunKey>,
        tag: &TaskTag,
        request: &SpawnRequest,
        StartFailure { why, fault }: StartFailure,
    ) {
        let text = format!("cannot start: {why}");
        let status = ReportedStatus::by_fault(fault, &text);
        self.log(&key, tag, TaskEvent::FailedToStart { status: &status });
        self.inbox.forget(&key);
        self.sink.ended(TaskEnd {
            key,
            status,
            story: Story::not_started(&why, fault, request.asked.elapsed()),
            signalled: Signalled::No,
            raw_status: None,
        });
    }

    fn next_timeout(&self) -> EpollTimeout {
        let young = self.young.front().map(|(due, _)| *due);
        let timer = self.timers.peek().map(|Reverse((due, ..))| *due);
        let Some(due) = young.into_iter().chain(timer).chain(self.next_check).min() else {
            return EpollTimeout::NONE;
        };
        // The timeout is rounded up: waking a fraction of a millisecond early would only spin.
        let millis = due
            .saturating_duration_since(Instant::now())
            .as_micros()
            .div_ceil(1000);
        EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX)
    }

    fn log(&mut self, key: &RunKey, tag: &TaskTag, event: TaskEvent<'_>) {
        events::log(
            &self.config.logs,
            &self.config.worker_host,
            key,
            tag,
            event,
            &mut self.scratch,
        );
    }
}

fn process_limits(options: &TaskSubprocessOptions) -> Vec<Limit> {
    let bound = |bound| match bound {
        Bound::At(amount) => amount,
        Bound::Unlimited => Limit::INFINITY,
    };
    // RLIMIT_LOCKS holds the mark by which the task's processes are recognised.
    let limits = options.limits.iter();
    limits
        .filter(|(limited, _)| **limited != Limited::Locks)
        .map(|(limited, limit)| Limit {
            resource: kernels(*limited),
            soft: bound(limit.soft()),
            hard: bound(limit.hard()),
        })
        .collect()
}
