//! Puts a worker together, and takes it apart again.

mod core_options;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common_runtime::{Clock, ServiceManager};
use brasserie_thrift::rpc::{Limits, Server, ServerHandle};
use brasserie_worker_core::{Event, ExitReason, Worker};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::core_options::core_options;
use crate::containment::{Containment, own_pid};
use crate::directory::{DirectoryError, HeldUntil, Identity, LEFTOVER_PATIENCE, WorkerDirectory};
use crate::driver::Driver;
use crate::groups::{GroupsConfig, Tag, places};
use crate::keeper::{self, lease::Lease};
use crate::logs::{LogConfig, LogStore, OpenError};
use crate::memory::Memory;
use crate::news::News;
use crate::options::{Retention, SchedulerOptions, StartOptions};
use crate::perform::{OwnEvents, Performer, Supervised, Timed};
use crate::process::{
    self, Accounts, AccountsError, AllowedUser, DescriptorLimit, Marks, Orphans, RunnerConfig,
};
use crate::rpc::{SchedulerClient, WorkerService};
use crate::runner::{self, StartRunner};
use crate::usage::{Monitor, Running, sample_tasks};
use crate::work_fetch::WorkFetchFlags;

/// How often the machine is looked at: cores and memory change when a control group is changed, which is rare.
const USABLE_INTERVAL: Duration = Duration::from_secs(60);
/// How often the list of process groups gets the time until which their numbers were held. A task whose first process and older
/// descendants are dead is certain to a successor only if something of it started before that time.
const HELD_INTERVAL: Duration = Duration::from_secs(1);

/// Why a worker could not start. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Logs(#[from] OpenError),
    #[error(transparent)]
    Processes(#[from] process::StartError),
    #[error(
        "cannot listen on {address}: {error}. Is another program using the port? Choose another with --listen ADDR:PORT"
    )]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    #[error("cannot find out what --worker-command {program:?} means: {error}")]
    WorkerCommand { program: String, error: io::Error },
    #[error(
        "control groups of the last worker that used this directory still hold processes {} s after they were killed ({}). They \
         hang in a device or a file system: wait until it answers, or restart the machine", LEFTOVER_PATIENCE.as_secs(), list(left)
    )]
    Groups { left: Vec<PathBuf> },
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    #[error("cannot open the list of process groups once more: {0}")]
    GroupList(io::Error),
    #[error("cannot tell the keeper what it must know: {0}")]
    Keeper(io::Error),
    #[error("no scheduler is named, or one without an address: a worker works for one at least")]
    NoScheduler,
    #[error("a thread of the start ended early")]
    Interrupted,
}

/// How an operator wants a worker to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// As [`WorkerHandle::shutdown`].
    Shutdown,
    /// It starts no task any more, and ends when those that run have.
    Drain,
}

/// What watches over this process: the keeper that ends the tasks if it cannot, and the service manager.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    pub(crate) lease: Option<Lease>,
    pub(crate) manager: ServiceManager,
}

/// How a worker has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub reason: ExitReason,
    /// Why it had to end, for people; `None`: the operator wanted it.
    pub why: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.reason {
            ExitReason::Shutdown => return f.write_str("ended as asked"),
            ExitReason::SuicideRequested => "the scheduler asks for it",
            ExitReason::MustDie => "the scheduler counts this worker as lost",
        };
        write!(f, "ended: {}", self.why.as_deref().unwrap_or(text))
    }
}

/// A worker at work. Dropping the handle does not end it.
#[derive(Debug)]
pub struct WorkerHandle {
    address: SocketAddr,
    identity: Identity,
    data_dir: PathBuf,
    own: OwnEvents,
    finished: JoinHandle<Ended>,
}

impl WorkerHandle {
    /// Where it takes calls.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it is called.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Absolute.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Ends its tasks, tells the scheduler, and ends. The second time it does not wait for its tasks.
    pub fn shutdown(&self) {
        // Nobody listens any more: it has ended already.
        let _ = self.own.send(Event::Shutdown);
    }

    /// As [`WorkerHandle::shutdown`], from elsewhere and without the handle.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let wish = self.wishes();
        move || wish(Wish::Shutdown)
    }

    /// Passes the operator's wishes on, from elsewhere and without the handle.
    pub(crate) fn wishes(&self) -> impl Fn(Wish) + Send + Sync + 'static {
        let own = self.own.clone();
        move |wish| {
            let event = match wish {
                Wish::Shutdown => Event::Shutdown,
                Wish::Drain => Event::Drain,
            };
            // Nobody listens any more: it has ended already.
            let _ = own.send(event);
        }
    }

    /// Waits until it has ended: no task is alive, its logs are written, its port is closed, its directory free.
    pub async fn wait(self) -> Ended {
        match self.finished.await {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                // A broken invariant of the core. Its processes died with the runner.
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that is going away cancels.
                Err(_) => Ended {
                    reason: ExitReason::Shutdown,
                    why: None,
                },
            },
        }
    }
}

/// Starts a worker on the present runtime. It returns once the worker takes calls; joining the scheduler goes on by itself, for
/// as long as it takes.
///
/// Nobody ends its tasks if the whole process is stopped while its scheduler, elsewhere, gives them away: only the program has a
/// keeper with a lease.
pub async fn start(options: StartOptions) -> Result<WorkerHandle, StartError> {
    start_with(options, runner::processes()).await
}

/// As [`start`], with tasks that are no processes: for measurements of everything around them.
pub async fn start_with(
    options: StartOptions,
    runner: StartRunner,
) -> Result<WorkerHandle, StartError> {
    start_all(options, Surroundings::unknown(), runner).await
}

/// What a program knows of the process that it is.
pub(crate) struct Surroundings {
    pub watchers: Watchers,
    /// What tasks may open.
    pub descriptors: Option<DescriptorLimit>,
    pub orphans: Orphans,
}

impl Surroundings {
    /// Inside somebody else's program.
    fn unknown() -> Self {
        Surroundings {
            watchers: Watchers::default(),
            descriptors: None,
            orphans: Orphans::Leave,
        }
    }
}

/// As [`start`], under a keeper that ends the tasks in time if this process cannot.
pub(crate) async fn start_kept(
    options: StartOptions,
    surroundings: Surroundings,
) -> Result<WorkerHandle, StartError> {
    start_all(options, surroundings, runner::processes()).await
}

async fn start_all(
    options: StartOptions,
    surroundings: Surroundings,
    start_runner: StartRunner,
) -> Result<WorkerHandle, StartError> {
    let clock = Clock;
    let has_members = |one: &SchedulerOptions| !one.members.is_empty();
    if options.schedulers.is_empty() || !options.schedulers.iter().all(has_members) {
        return Err(StartError::NoScheduler);
    }
    let accounts = accounts(options.allowed_users.clone()).await?;
    let (path, retention) = (options.data_dir.clone(), options.logs);
    let (directory, logs, held) = blocking(move || open(&path, retention, clock)).await?;
    let listen = options.listen.socket();
    let server = Server::bind(listen)
        .await
        .map_err(|error| StartError::Listen {
            address: listen,
            error,
        })?;
    let address = server.local_addr();
    let identity = directory.identity().clone();
    let monitor = Monitor::new(options.nvidia_smi.clone());
    let (monitor, usable) = look(monitor, clock).await.ok_or(StartError::Interrupted)?;
    let of_core = core_options(&options, &directory, address, usable).await?;
    let worker = Worker::new(of_core, clock.now());
    announce(&worker, &options.work_fetch);
    let (own, own_events) = mpsc::unbounded_channel();
    let running = Arc::new(Running::new(options.nvidia_smi.clone()));
    let config = RunnerConfig {
        accounts,
        ..runner_config(&options, &surroundings, &directory, &logs)?
    };
    let timed = Timed::default();
    let known = (Arc::clone(&running), Arc::clone(&timed));
    let sink = Supervised::new(own.clone(), clock, directory.groups(), known);
    let runner = start_runner(config, Box::new(sink))?;
    let clients = clients(&options);
    let called = options.schedulers.iter().map(SchedulerOptions::called);
    let news = News::new(&worker, called);
    let clients = (clients, directory.instances());
    let (service, lanes) = WorkerService::new(Arc::clone(&logs));
    let stop = CancellationToken::new();
    let server = server.serve(service, Limits::DEFAULT, stop.child_token());
    let performer = Performer::new(runner, clients, own.clone(), timed);
    let watchers = surroundings.watchers;
    takes_calls(&options, &worker, address, directory.path());
    let driver = Driver::new(
        worker,
        clock,
        performer,
        own_events,
        lanes,
        (watchers, news, Memory::new(directory.path(), clock.now())),
    );
    tokio::spawn(write_held(held, stop.clone()));
    tokio::spawn(watch_usage(monitor, own.clone(), clock, stop.clone()));
    tokio::spawn(sample_tasks(running, own.clone(), clock, stop.clone()));
    let data_dir = directory.path().to_owned();
    let parts = Parts {
        server,
        directory,
        logs,
        _stop: stop.drop_guard(),
    };
    let finished = tokio::spawn(to_the_end(driver, parts));
    Ok(WorkerHandle {
        address,
        identity,
        data_dir,
        own,
        finished,
    })
}

/// Before anything else, since it may fail for what a flag says.
async fn accounts(allowed: Vec<AllowedUser>) -> Result<Accounts, StartError> {
    let accounts = blocking(move || Ok(Accounts::resolve(&allowed)?)).await?;
    if !accounts.is_empty() {
        tracing::info!("tasks may have the rights of other users; {accounts}");
    }
    Ok(accounts)
}

/// The data directory, which is this process's own from now on and in which nothing of a predecessor is alive, and the logs in it.
fn open(
    path: &Path,
    retention: Retention,
    clock: Clock,
) -> Result<(WorkerDirectory, Arc<LogStore>, HeldUntil), StartError> {
    let directory = WorkerDirectory::open(path, keeper::marker().as_ref(), clock)?;
    let left = places::end_all(&directory.path().join(places::FILE), LEFTOVER_PATIENCE);
    if !left.is_empty() {
        return Err(StartError::Groups { left });
    }
    let mut config = LogConfig::new(directory.logs()?);
    config.retention = retention.max_age;
    config.max_bytes = retention.max_bytes;
    let logs = LogStore::open(config, Arc::new(move || clock.wall()))?;
    let held = directory.groups().lock().held_until();
    let held = held.map_err(StartError::GroupList)?;
    Ok((directory, Arc::new(logs), held))
}

/// What must outlive the driver, in the order in which it goes.
struct Parts {
    server: ServerHandle,
    logs: Arc<LogStore>,
    directory: WorkerDirectory,
    _stop: DropGuard,
}

async fn to_the_end(driver: Driver, parts: Parts) -> Ended {
    let ended = driver.run().await;
    let Parts {
        server,
        logs,
        directory,
        _stop,
    } = parts;
    // Gives the last answers a moment to leave.
    server.shutdown().await;
    // Writes what is left, then frees the directory; both touch the disk.
    let closed = tokio::task::spawn_blocking(move || {
        logs.flush();
        drop(logs);
        drop(directory);
    });
    // It can only have panicked, which was printed.
    let _ = closed.await;
    ended
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StartError> + Send + 'static,
) -> Result<T, StartError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(StartError::Interrupted))
}

fn runner_config(
    options: &StartOptions,
    surroundings: &Surroundings,
    directory: &WorkerDirectory,
    logs: &Arc<LogStore>,
) -> Result<RunnerConfig, StartError> {
    let host = &directory.identity().machine_lock.hostname;
    let lease = surroundings.watchers.lease.as_ref();
    Ok(RunnerConfig {
        groups: Some(groups_config(options, directory, lease)?),
        environment: options.pass_environment.clone(),
        descriptors: surroundings.descriptors,
        orphans: surroundings.orphans,
        marks: match options.schedulers.len() {
            1 => Marks::None,
            _ => Marks::OfSchedulers,
        },
        output: options.output,
        pinned: directory.pinned().to_vec(),
        ..RunnerConfig::new(
            directory.path().to_owned(),
            host.as_ref().to_owned(),
            Arc::clone(logs),
        )
    })
}

/// One for each scheduler.
fn clients(options: &StartOptions) -> Vec<SchedulerClient> {
    let schedulers = options.schedulers.iter();
    let new = |scheduler: &SchedulerOptions| {
        let (timeouts, period) = (options.timeouts, options.heartbeat_period);
        SchedulerClient::new(scheduler, timeouts, period)
    };
    schedulers.map(new).collect()
}

fn takes_calls(options: &StartOptions, worker: &Worker, address: SocketAddr, data_dir: &Path) {
    for (scheduler, association) in options.schedulers.iter().zip(worker.associations()) {
        tracing::info!(
            shard = scheduler.shard.as_str(), instance = %association.instance(), %address, scheduler = %scheduler.called(),
            data_dir = %data_dir.display(), "the worker takes calls"
        );
    }
}

/// What it can run, and whether that can be too much: schedulers know nothing of each other, and each sees the whole machine.
fn announce(worker: &Worker, flags: &WorkFetchFlags) {
    let process = own_pid();
    tracing::info!(%process, "containment: {}", Containment::of_this_process());
    if let Some(room) = &worker.associations()[0].description().room {
        tracing::info!("the worker runs {room}");
    }
    let schedulers = worker.associations().len();
    if schedulers > 1 && !worker.fetches_work() {
        tracing::warn!(
            schedulers,
            "each of the schedulers may fill this machine by itself: give each a fixed partition, or --work-fetch"
        );
    }
    let flags = flags.without_effect();
    if !flags.is_empty() {
        tracing::warn!(
            "{} without --work-fetch: the worker takes what it is sent, and this changes nothing",
            flags.join(", ")
        );
    }
}

/// The keeper must know of them before there is one.
fn groups_config(
    options: &StartOptions,
    directory: &WorkerDirectory,
    lease: Option<&Lease>,
) -> Result<GroupsConfig, StartError> {
    let places = directory.path().join(places::FILE);
    if let Some(lease) = lease {
        lease.tell_places(&places).map_err(StartError::Keeper)?;
        let schedulers = options.schedulers.len();
        lease
            .tell_schedulers(schedulers)
            .map_err(StartError::Keeper)?;
    }
    let number = directory.identity().machine_lock.port;
    Ok(GroupsConfig {
        shard: options.schedulers[0].shard.as_str().to_owned(),
        tag: Tag(number.cast_unsigned()),
        places,
        root: options.cgroup_root.clone(),
        freeze_timeout: options.cgroup_freeze_timeout,
        keeper: keeper::visible_keeper(),
    })
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// Files of control groups may make a reader wait, and the start of a program waits for the disk that the program is on: neither must
/// hold a thread that also carries heartbeats.
async fn look(mut monitor: Monitor, clock: Clock) -> Option<(Monitor, UsablePhysicalResources)> {
    let runtime = Handle::current();
    let look = move || {
        let usable = runtime.block_on(monitor.usable(clock.wall()));
        (monitor, usable)
    };
    tokio::task::spawn_blocking(look).await.ok()
}

/// On a thread that may wait for a disk.
async fn write_held(mut held: HeldUntil, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(HELD_INTERVAL) => {}
        }
        let written = tokio::task::spawn_blocking(move || {
            held.write();
            held
        });
        match written.await {
            Ok(same) => held = same,
            Err(_) => return,
        }
    }
}

async fn watch_usage(mut monitor: Monitor, own: OwnEvents, clock: Clock, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(USABLE_INTERVAL) => {}
        }
        // It can only have panicked, which was printed.
        let Some((same, usable)) = look(monitor, clock).await else {
            return;
        };
        monitor = same;
        if own.send(Event::UsableResources(usable)).is_err() {
            return;
        }
    }
}
