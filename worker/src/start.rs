//! Starts a worker's parts, and stops them in order.

mod core_options;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ServiceAddress;
use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{Limits, Server, ServerHandle};
use brasserie_worker_core::{Event, ExitReason, Worker};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::core_options::core_options;
use crate::artifacts::{Artifacts, ArtifactsError, BackgroundOwner};
use crate::containment::Containment;
use crate::directory::{DirectoryError, HeldUntil, Identity, LEFTOVER_PATIENCE, WorkerDirectory};
use crate::driver::{Driver, Watchers, WorkerEnd};
use crate::groups::{GroupsConfig, Tag, places};
use crate::keeper::lease::Lease;
use crate::logs::{LogConfig, LogStore, OpenError};
use crate::marker;
use crate::membership::{Membership, MembershipError, RETRY};
use crate::memory::Memory;
use crate::news::ReportedStates;
use crate::options::{PlainAddressError, SchedulerOptions, StartOptions};
use crate::output::Retention;
use crate::own_events::OwnEvents;
use crate::perform::{Performer, Supervised, Timed};
use crate::pid_namespace::own_pid;
use crate::process::{
    self, Accounts, AccountsError, AllowedUser, DescriptorLimit, OrphanHandling, Runner,
    RunnerConfig, TaskMarks,
};
use crate::rpc::{SchedulerClient, WorkerService};
use crate::runner::{self, StartRunner};
use crate::usage::{Monitor, Running, sample_tasks};
use crate::work_fetch::WorkFetchFlags;

/// The period at which the worker measures the machine's cores and memory. They change only with a control group, which is rare.
const USABLE_INTERVAL: Duration = Duration::from_secs(60);
/// The period at which the list of process groups stores the time until which the worker held their numbers. A successor may be left with
/// only the younger descendants of a task. It recognises them only if one of them started before that time.
const HELD_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a worker could not start. Everything that had started is stopped.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Logs(#[from] OpenError),
    #[error(transparent)]
    Processes(#[from] process::RunnerStartError),
    #[error(
        "cannot listen on {address}: {error}. Is another program using the port? Choose another with --listen ADDR:PORT"
    )]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    #[error("cannot resolve --worker-command {program:?}: {error}")]
    WorkerCommand { program: String, error: io::Error },
    #[error(
        "control groups of the last worker that used this directory still hold processes {} s after they were killed ({}). They \
         hang in a device or a file system: wait until it answers, or restart the machine", LEFTOVER_PATIENCE.as_secs(), list(left)
    )]
    Groups { left: Vec<PathBuf> },
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    #[error(transparent)]
    Artifacts(#[from] ArtifactsError),
    #[error(transparent)]
    Membership(#[from] MembershipError),
    #[error(transparent)]
    Plain(#[from] PlainAddressError),
    #[error("cannot open the list of process groups once more: {0}")]
    GroupList(io::Error),
    #[error(
        "cannot pass the locations of the control groups and the number of schedulers to the keeper: {0}"
    )]
    Keeper(io::Error),
    #[error(
        "no scheduler is given, or one without an address: a worker needs at least one scheduler with an address"
    )]
    NoScheduler,
    #[error("a thread of the start ended early")]
    Interrupted,
}

/// The operator's request to end a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// End as by [`WorkerHandle::shutdown`].
    Shutdown,
    /// Start no more tasks, and end when the running tasks have ended.
    Drain,
}

/// A running worker. Dropping the handle does not end it.
#[derive(Debug)]
pub struct WorkerHandle {
    address: SocketAddr,
    identity: Identity,
    data_dir: PathBuf,
    own: OwnEvents,
    finished: JoinHandle<WorkerEnd>,
}

impl WorkerHandle {
    /// Returns the address on which the worker takes calls.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the worker's names and identifiers.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the absolute path of the data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Ends the worker's tasks, reports their completions to the scheduler, and ends the worker. A second call ends it without waiting
    /// for the tasks.
    pub fn shutdown(&self) {
        // The send fails only if the worker has already ended.
        let _ = self.own.send(Event::Shutdown);
    }

    /// Returns a function that does the same as [`WorkerHandle::shutdown`], for use without the handle.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let wish = self.wishes();
        move || wish(Wish::Shutdown)
    }

    /// Returns a function that passes the operator's requests on, for use without the handle.
    pub(crate) fn wishes(&self) -> impl Fn(Wish) + Send + Sync + 'static {
        let own = self.own.clone();
        move |wish| {
            let event = match wish {
                Wish::Shutdown => Event::Shutdown,
                Wish::Drain => Event::Drain,
            };
            // The send fails only if the worker has already ended.
            let _ = own.send(event);
        }
    }

    /// Waits for the end of the worker. Then no task is alive, its logs are written, its port is closed and its directory is free.
    pub async fn wait(self) -> WorkerEnd {
        match self.finished.await {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                // The core has broken an invariant. The task processes died with the runner.
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that shuts down cancels tasks.
                Err(_) => WorkerEnd {
                    reason: ExitReason::Shutdown,
                    why: None,
                },
            },
        }
    }
}

/// Starts a worker on the current runtime. Returns as soon as the worker takes calls; it joins the scheduler in the background, however
/// long that takes.
///
/// If the whole process is stopped while its scheduler gives its tasks to other workers, nothing ends the tasks here. Only the program
/// has a keeper with a lease.
pub async fn start(options: StartOptions) -> Result<WorkerHandle, StartError> {
    start_with(options, runner::processes()).await
}

/// Starts a worker like [`start`], with another runner in place of processes. Measurements use it to exclude the cost of processes.
pub async fn start_with(
    options: StartOptions,
    runner: StartRunner,
) -> Result<WorkerHandle, StartError> {
    start_all(options, Surroundings::unknown(), runner).await
}

/// The properties of the process in which the worker runs.
pub(crate) struct Surroundings {
    pub watchers: Watchers,
    /// The limits of open files that tasks get.
    pub descriptors: Option<DescriptorLimit>,
    pub orphans: OrphanHandling,
}

impl Surroundings {
    /// Returns the properties of an unknown host program.
    fn unknown() -> Self {
        Surroundings {
            watchers: Watchers::default(),
            descriptors: None,
            orphans: OrphanHandling::Leave,
        }
    }
}

/// Starts a worker like [`start`], under a keeper that ends the tasks in time if this process cannot.
pub(crate) async fn start_kept(
    options: StartOptions,
    surroundings: Surroundings,
) -> Result<WorkerHandle, StartError> {
    start_all(options, surroundings, runner::processes()).await
}

async fn start_all(
    mut options: StartOptions,
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
    let artifacts = open_artifacts(&options, &directory, accounts.clone()).await?;
    let (membership, server) = open_port(&mut options, directory.path()).await?;
    let (address, identity) = (server.local_addr(), directory.identity().clone());
    let monitor = Monitor::new(options.nvidia_smi.clone());
    let (monitor, usable) = look(monitor, clock).await.ok_or(StartError::Interrupted)?;
    let of_core = core_options(&options, &directory, address, usable).await?;
    let worker = Worker::new(of_core, clock.now());
    announce(&worker, &options.work_fetch);
    let (own, own_events) = mpsc::unbounded_channel();
    let running = Arc::new(Running::new(options.nvidia_smi.clone()));
    let config = runner_config(&options, &surroundings, (&directory, accounts), &logs)?;
    let timed = Timed::default();
    let known = (Arc::clone(&running), Arc::clone(&timed));
    let desk = artifacts.desk();
    let sink = Supervised::new(own.clone(), clock, directory.groups(), known, desk.clone());
    let runner: Arc<dyn Runner> = start_runner(config, Box::new(sink))?.into();
    let news = ReportedStates::new(
        &worker,
        options.schedulers.iter().map(SchedulerOptions::called),
    );
    let clients = (clients(&options, &membership), directory.instances());
    let renewing = clients.0[0].renewing();
    let known = (Arc::clone(&runner), own.clone(), Arc::clone(&timed));
    let (artifacts, standings, background) =
        artifacts.start(&worker, known, (&options, &membership));
    let (service, lanes) = WorkerService::new(Arc::clone(&logs), artifacts, membership.clone());
    let stop = CancellationToken::new();
    let server = server.serve(service, Limits::DEFAULT, stop.child_token());
    membership.set_server(&server);
    tokio::spawn(membership.renew_until_stopped(renewing, standings.scheduler(), stop.clone()));
    let performer = Performer::new((runner, desk), clients, own.clone(), timed);
    let memory = Memory::new(directory.path(), clock.now());
    takes_calls(&options, &worker, address, directory.path());
    let driver = Driver::new(
        worker,
        clock,
        performer,
        own_events,
        lanes,
        (surroundings.watchers, news, memory, standings),
    );
    tokio::spawn(write_held(held, stop.clone()));
    tokio::spawn(watch_usage(monitor, own.clone(), clock, stop.clone()));
    tokio::spawn(sample_tasks(running, own.clone(), clock, stop.clone()));
    let data_dir = directory.path().to_owned();
    let parts = Parts {
        server,
        directory,
        logs,
        background,
        _stop: stop.drop_guard(),
    };
    let finished = on_a_thread(to_the_end(driver, parts));
    Ok(WorkerHandle {
        address,
        identity,
        data_dir,
        own,
        finished,
    })
}

async fn open_artifacts(
    options: &StartOptions,
    directory: &WorkerDirectory,
    users: Accounts,
) -> Result<Artifacts, StartError> {
    let (path, disks) = (directory.path().to_owned(), options.disks.clone());
    blocking(move || Ok(Artifacts::open(&path, users, disks)?)).await
}

/// Joins the cluster if the worker is to be a member, and opens the port.
async fn open_port(
    options: &mut StartOptions,
    data_dir: &Path,
) -> Result<(Membership, Server), StartError> {
    let (timeouts, token) = (options.timeouts, options.join_token.take());
    let membership = Membership::establish(data_dir, token, &options.schedulers, timeouts);
    let membership = membership.await?;
    if !membership.is_member() {
        options.check_plain()?;
    }
    let server = bind(options.listen.socket(), &membership).await?;
    advertise(options, server.local_addr()).await;
    Ok((membership, server))
}

async fn bind(address: SocketAddr, membership: &Membership) -> Result<Server, StartError> {
    let bound = Server::bind(address).await;
    let server = bound.map_err(|error| StartError::Listen { address, error })?;
    Ok(match membership.authenticator() {
        Some(authenticator) => server.authenticated_by(authenticator),
        None => server,
    })
}

/// Finds the address that the worker gives to its scheduler if it listens on all of them: that of its own end towards the scheduler. Waits
/// for a name server or a route, however long that takes, as joining waits for the scheduler.
async fn advertise(options: &mut StartOptions, listens: SocketAddr) {
    if !listens.ip().is_unspecified() || options.advertise.is_some() {
        return;
    }
    let scheduler = options.schedulers[0].members[0].clone();
    let host = loop {
        match own_address_towards(&scheduler).await {
            Ok(host) => break host,
            Err(error) => tracing::warn!(
                "cannot find the address of this machine by which the scheduler at {scheduler} reaches it, trying again: {error}. \
                 --advertise HOST:PORT names one"
            ),
        }
        tokio::time::sleep(RETRY).await;
    };
    options.advertise = Some(ServiceAddress {
        host: host.to_string().into(),
        port: listens.port(),
    });
}

/// Returns the address of this machine from which packets to a peer leave. Sends nothing.
async fn own_address_towards(peer: &ServiceAddress) -> io::Result<IpAddr> {
    let found = tokio::net::lookup_host((&*peer.host, peer.port)).await?;
    let mut last = io::Error::other("the name has no address");
    for address in found {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = tokio::net::UdpSocket::bind(any).await?;
        match socket.connect(address).await {
            Ok(()) => return Ok(socket.local_addr()?.ip()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Resolves the users of `--allow-user`. The start calls it first, because a wrong flag makes it fail.
async fn accounts(allowed: Vec<AllowedUser>) -> Result<Accounts, StartError> {
    let accounts = blocking(move || Ok(Accounts::resolve(&allowed)?)).await?;
    if !accounts.is_empty() {
        tracing::info!("tasks may have the rights of other users; {accounts}");
    }
    Ok(accounts)
}

/// Opens and locks the data directory and its logs. Kills the leftover tasks of a predecessor, and errors if some survive.
fn open(
    path: &Path,
    retention: Retention,
    clock: Clock,
) -> Result<(WorkerDirectory, Arc<LogStore>, HeldUntil), StartError> {
    let directory = WorkerDirectory::open(path, marker::marker().as_ref(), clock)?;
    let left = places::remove_leftovers(&directory.path().join(places::FILE), LEFTOVER_PATIENCE);
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

/// The parts that outlive the driver, in the order in which they stop.
struct Parts {
    server: ServerHandle,
    logs: Arc<LogStore>,
    directory: WorkerDirectory,
    background: BackgroundOwner,
    _stop: DropGuard,
}

/// Runs a future on a thread of its own. As a task of the runtime, the driver would wake two threads for each event.
fn on_a_thread(work: impl Future<Output = WorkerEnd> + Send + 'static) -> JoinHandle<WorkerEnd> {
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(work))
}

async fn to_the_end(driver: Driver, parts: Parts) -> WorkerEnd {
    let ended = driver.run().await;
    let Parts {
        server,
        logs,
        directory,
        background,
        _stop,
    } = parts;
    // Gives the last answers a moment to leave.
    server.shutdown().await;
    background.end().await;
    // Flushes the logs, then unlocks the directory; both access the disk.
    let closed = tokio::task::spawn_blocking(move || {
        logs.flush();
        drop(logs);
        drop(directory);
    });
    // The closure can only panic, and the panic was printed.
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
    (directory, accounts): (&WorkerDirectory, Accounts),
    logs: &Arc<LogStore>,
) -> Result<RunnerConfig, StartError> {
    let host = &directory.identity().machine_lock.hostname;
    let lease = surroundings.watchers.lease.as_ref();
    Ok(RunnerConfig {
        accounts,
        groups: Some(groups_config(options, directory, lease)?),
        environment: options.pass_environment.clone(),
        descriptors: surroundings.descriptors,
        orphans: surroundings.orphans,
        marks: match options.schedulers.len() {
            1 => TaskMarks::None,
            _ => TaskMarks::OfSchedulers,
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

/// Returns one client for each scheduler, in the order of the options.
fn clients(options: &StartOptions, membership: &Membership) -> Vec<SchedulerClient> {
    let schedulers = options.schedulers.iter();
    let new = |scheduler: &SchedulerOptions| {
        let (timeouts, period) = (options.timeouts, options.heartbeat_period);
        let membership = (membership.clone(), options.exposure);
        SchedulerClient::new(scheduler, timeouts, period, membership)
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

/// Logs the containment and the task capacity, and warns if several schedulers can overload the machine. Schedulers do not know of each
/// other, and each sees the whole machine.
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

/// Returns the configuration of the tasks' control groups. It reports their locations to the keeper first, because the keeper must know
/// them before a group exists.
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
        keeper: marker::visible_keeper(),
    })
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// Measures the machine on a blocking thread. Reading control group files and starting `nvidia-smi` may wait for a disk, and must not
/// occupy a thread that also carries heartbeats.
async fn look(mut monitor: Monitor, clock: Clock) -> Option<(Monitor, UsablePhysicalResources)> {
    let runtime = Handle::current();
    let look = move || {
        let usable = runtime.block_on(monitor.usable(clock.wall()));
        (monitor, usable)
    };
    tokio::task::spawn_blocking(look).await.ok()
}

/// Stores the hold times once per [`HELD_INTERVAL`], on a thread that may wait for a disk.
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
        // The measurement can only panic, and the panic was printed.
        let Some((same, usable)) = look(monitor, clock).await else {
            return;
        };
        monitor = same;
        if own.send(Event::UsableResources(usable)).is_err() {
            return;
        }
    }
}
