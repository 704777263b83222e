//! Assembles a scheduler and shuts it down again, for the program, for `brasserie run`, and for tests.

mod options;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use brasserie_common::{Principal, SchedulerId};
use brasserie_common_config::UnknownKeys;
use brasserie_common_runtime::files::Owner;
use brasserie_common_runtime::{Clock, DataDir, DataDirError, ListenAddress, net};
use brasserie_scheduler_core::files::UploadAccess;
use brasserie_scheduler_core::{
    Answer, ConfigOrigin, Durable, Event, ExitReason, Query, Scheduler,
};
use brasserie_thrift::rpc::{
    CallTimeouts, ClientConfig, ClientPool, Credentials, Limits, Server, ServerHandle,
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::answered::AnsweredFile;
use crate::audit::Audit;
use crate::driver::Driver;
use crate::files::{Files, FilesError};
use crate::http;
use crate::inbox::{Inbox, Stopped, lanes};
use crate::news::NewsLog;
use crate::perform::Performer;
use crate::rpc::pool::WorkerPool;
use crate::rpc::service::SchedulerService;
use crate::rpc::workers::Workers;
use crate::security::{self, Invitation, LostIdentityCheck, Protection, Security, SecurityError};
use crate::sources::{
    ConfigFile, ConfigSource, InForce, InstanceNode, LoadedConfig, Periods, Proposals,
    SharedMemory, Sources, TellInForce,
};
use crate::store::{
    DirectoryUse, FormerAuthority, Past, STORE_FILE, Store, StoreError, StoreHandle, StoreReport,
    UsedBy,
};

#[cfg(test)]
pub(crate) use options::FILES_CAPACITY;
pub use options::{DirectoryOrigin, NewCluster, StartOptions};

/// Why a scheduler could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "--new-cluster is refused, because a scheduler has used the data directory {}, and workers may still run its tasks. Leave the flag \
         out: a scheduler with records waits only until the workers that it has recorded are back. To begin another cluster, choose \
         another --data-dir", path.display()
    )]
    NotNew { path: PathBuf },
    #[error(
        "--after-restoring-a-backup is refused, because nothing was restored in the data directory {}: it has no {STORE_FILE}. Put the \
         backup there as {STORE_FILE}, or name the directory of the backup with --data-dir. Without a backup, leave the flag out: \
         nothing starts during the safe wait, then every task runs", path.display()
    )]
    NothingRestored { path: PathBuf },
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("the path of the config file cannot be resolved: {0}")]
    ConfigPath(io::Error),
    #[error("the configuration is not usable:\n{0}")]
    Config(String),
    #[error("the configuration is not read yet: {0}")]
    SlowConfig(String),
    #[error(
        "cannot listen on {address}: {error}. Does another program use that port? Choose another with --listen or --http-listen"
    )]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
}

/// Why a scheduler did not end cleanly.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    #[error("the scheduler's task has failed: {0}")]
    Driver(tokio::task::JoinError),
    #[error("{0}")]
    Exit(ExitReason),
    #[error("the scheduler ended unexpectedly")]
    EndedAlone,
    #[error("the scheduler exited before it could write everything")]
    Store(#[from] StoreError),
}

/// A running scheduler. Dropping the handle stops the scheduler without waiting; [`SchedulerHandle::shutdown`] waits.
pub struct SchedulerHandle {
    id: SchedulerId,
    inbox: Inbox,
    thrift: ServerHandle,
    http_address: Option<SocketAddr>,
    security: Option<Arc<Security>>,
    audit: Audit,
    outside: Vec<JoinHandle<()>>,
    driver: JoinHandle<DriverState>,
    /// Stops the servers and node sources.
    stop_outside: DropGuard,
    /// Cancelled after `stop_outside`, so that the driver still answers the requests that have arrived.
    stop_driver: DropGuard,
}

/// The state that the driver keeps until it ends. The directory stays locked until the store is closed.
struct DriverState {
    store: StoreHandle,
    directory: DataDir,
    exit: Option<ExitReason>,
}

/// Starts a scheduler inside this process, on the current tokio runtime.
pub async fn start(options: StartOptions) -> Result<SchedulerHandle, StartError> {
    // The directory is locked before anything is read.
    let directory = DataDir::open(&options.data_dir)?.of(Owner::Scheduler)?;
    let (mut store, durable, past) = open_store(&options, &directory)?;
    let mut first = FirstConfig::read(options.config.clone(), options.unknown_keys).await?;
    first.check(&durable, options.unknown_keys)?;
    let (security, audit, server) = open_port(&options, &directory, (&mut store, &durable)).await?;
    let (http_listener, http_address) = bind_http(options.http_listen).await?;

    let (inbox, lanes) = lanes();
    let core_options = options.core_options(Clock.seed(), store.usage());
    let call_deadline = core_options.call_deadline;
    let memory = SharedMemory::new(durable.schedule_memory());
    let (answered, durable) = recall_answers(&options, &store, durable);
    let mut scheduler = Scheduler::new(core_options, durable, Clock.now(), Clock.wall());
    store.drop_names(past.tell(&mut scheduler, Clock.now())?)?;
    let namespace = scheduler.artifact_namespace();
    let files = Files::open(&directory, namespace, file_terms(&options), inbox.clone())?;
    let events = [files.first_event()].into_iter().chain(first.events());
    tell_all(&mut scheduler, Clock, events);
    let (id, stories) = (scheduler.id(), store.stories());
    let (tell_in_force, in_force) = TellInForce::new(&scheduler);
    let pool = worker_pool(options.call_timeouts, security.clone());
    let protection = Protection::new(security.clone(), options.plain_peers).log_open_flag();
    let store = store.start(store_reporter(inbox.clone()))?;

    let (stop_outside, stop_driver) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(pool.clone().spread_news(stop_outside.clone()));
    let instance = instance_node(options.instance_node_name);
    let service = SchedulerService::new(
        inbox.clone(),
        store.room(),
        pool.clone(),
        first.proposals(options.unknown_keys, instance.clone(), memory.clone()),
        (stories, files.clone(), protection.clone(), audit.clone()),
    );
    let driver = Driver {
        scheduler,
        lanes,
        performer: Performer::new(store, Workers { pool }, inbox.clone(), call_deadline),
        in_force: tell_in_force,
        answered,
        news: NewsLog::new(audit.clone()),
        clock: Clock,
        stop: stop_driver.clone(),
        watchdog: options.manager.watchdog(Clock.now()),
    };
    let driver = tokio::spawn(drive(driver, directory));
    let files = files.run(in_force.clone(), first.place(), stop_outside.clone());
    let sources = first.into_sources((inbox.clone(), options.periods), instance, in_force, memory);
    let sources = sources.run(stop_outside.clone());
    let mut outside = vec![tokio::spawn(sources), tokio::spawn(files)];
    outside.push(audit.watch(inbox.clone(), stop_outside.clone()));
    outside.extend(protection.write_revocations(stop_outside.clone()));
    if let Some(listener) = http_listener {
        let web = http::Web::new(service.for_pages(), protection, options.http_hosts);
        outside.push(web.start(listener, stop_outside.clone()));
    }
    let thrift = server.serve(service, Limits::default(), stop_outside.clone());
    announce(id, (&thrift, http_address), (security.as_ref(), &audit));
    Ok(SchedulerHandle {
        id,
        inbox,
        thrift,
        http_address,
        security,
        audit,
        outside,
        driver,
        stop_outside: stop_outside.drop_guard(),
        stop_driver: stop_driver.drop_guard(),
    })
}

/// Notes that the scheduler is up.
fn announce(
    id: SchedulerId,
    (thrift, http): (&ServerHandle, Option<SocketAddr>),
    (security, audit): (Option<&Arc<Security>>, &Audit),
) {
    security
        .into_iter()
        .for_each(|security| security.set_server(thrift));
    let thrift = thrift.local_addr();
    let started = json!({ "scheduler": id.to_string(), "address": thrift.to_string() });
    audit.own("start", Some(started));
    tracing::info!(%id, %thrift, http = http.map(tracing::field::display), "the scheduler is up");
}

/// Returns the capacity for files of inputs, in bytes, and who may upload them.
fn file_terms(options: &StartOptions) -> (u64, UploadAccess) {
    let access = match options.used_by {
        UsedBy::SchedulerProgram => UploadAccess::Open,
        UsedBy::Run => UploadAccess::None,
    };
    (options.files_capacity, access)
}

fn open_store(
    options: &StartOptions,
    directory: &DataDir,
) -> Result<(Store, Durable, Past), StartError> {
    if options.directory == DirectoryOrigin::RestoredFromBackup && !Store::is_in(directory) {
        return Err(StartError::NothingRestored {
            path: directory.path().to_owned(),
        });
    }
    let (store, durable, past) = Store::open_apart(directory, options.directory.lost_records())?;
    match (store.usage(), options.new_cluster) {
        (DirectoryUse::Used, NewCluster::Yes) => Err(StartError::NotNew {
            path: directory.path().to_owned(),
        }),
        (DirectoryUse::Used, NewCluster::IfUnused | NewCluster::No) | (DirectoryUse::New, _) => {
            Ok((store.used_by(options.used_by), durable, past))
        }
    }
}

/// Adds the times until which earlier schedulers answered workers. Returns the file for this scheduler's own bound, if the bound can be
/// kept in memory.
fn recall_answers(
    options: &StartOptions,
    store: &Store,
    durable: Durable,
) -> (Option<AnsweredFile>, Durable) {
    let durable = options.directory.of(durable);
    let folder = options.answered_folder.as_ref();
    let opened = folder.and_then(|f| AnsweredFile::open(f, store.identity(), &durable));
    match opened {
        Some((file, former)) => (Some(file), durable.last_answered(former)),
        None => (None, durable),
    }
}

fn tell_all(scheduler: &mut Scheduler, clock: Clock, events: impl IntoIterator<Item = Event>) {
    for event in events {
        scheduler.handle(clock.now(), event);
    }
}

fn worker_pool(timeouts: CallTimeouts, security: Option<Arc<Security>>) -> WorkerPool {
    let credentials = security.clone();
    let pool = ClientPool::new(ClientConfig {
        timeouts,
        credentials: credentials.map(|security| security as Arc<dyn Credentials>),
        ..ClientConfig::default()
    });
    WorkerPool::new(pool, security)
}

/// Runs the driver to its end, and returns the resources to close afterwards.
async fn drive(driver: Driver, directory: DataDir) -> DriverState {
    let performer = Box::pin(driver.run()).await;
    let exit = performer.exit();
    let store = performer.into_store();
    DriverState {
        store,
        directory,
        exit,
    }
}

impl SchedulerHandle {
    pub fn id(&self) -> SchedulerId {
        self.id
    }

    /// Returns the address for workers.
    pub fn thrift_address(&self) -> SocketAddr {
        self.thrift.local_addr()
    }

    /// Creates a token with which one worker may join, and returns what to do with it. `None` if peers need not prove who they are.
    ///
    /// The text has the token's secret, and is for a terminal alone.
    pub fn invite(&self) -> impl Future<Output = Option<Invitation>> + Send + use<> {
        let (security, address) = (self.security.clone(), self.thrift_address());
        async move {
            let security = security?;
            let invited = tokio::task::spawn_blocking(move || security.invite(address)).await;
            invited
                .ok()?
                .inspect_err(|error| tracing::error!(%error, "cannot create a token for a worker"))
                .ok()
        }
    }

    /// Returns the address for browsers.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Sends a query to the core and returns its answer.
    pub async fn query(&self, query: Query) -> Result<Answer, Stopped> {
        self.inbox.query(Principal::Own, query).await
    }

    /// Waits until the scheduler ends by itself: because it failed, or because it steps down. A separate thread then closes the store.
    /// Nothing waits for that thread, because its unwritten records were never acknowledged.
    pub async fn failed(&mut self) -> EndError {
        let held = match (&mut self.driver).await {
            Err(error) => return EndError::Driver(error),
            Ok(held) => held,
        };
        let exit = held.exit;
        let why = exit.map(|exit| json!({ "why": exit.to_string() }));
        self.audit.own("stop", why);
        tokio::task::spawn_blocking(move || drop(held));
        exit.map_or(EndError::EndedAlone, EndError::Exit)
    }

    /// Ends the scheduler cleanly: closes the servers, answers the requests that have arrived, and writes all records to disk. Tasks
    /// continue on their workers.
    pub async fn shutdown(self) -> Result<(), EndError> {
        self.stop_outside.disarm().cancel();
        self.thrift.stopped().await;
        for task in self.outside {
            // A failed task has already logged its error.
            let _ = task.await;
        }
        if let Some(security) = self.security {
            // The last calls may have revoked something.
            let over = CancellationToken::new();
            over.cancel();
            security.write_revocations(over).await;
        }
        self.stop_driver.disarm().cancel();
        let DriverState {
            store,
            directory,
            exit: _,
        } = self.driver.await.map_err(EndError::Driver)?;
        let audit = self.audit;
        let close = move || {
            audit.own("stop", None);
            audit.close();
            store.close()
        };
        let closed = tokio::task::spawn_blocking(close);
        let closed = closed.await.map_err(EndError::Driver)?;
        drop(directory);
        Ok(closed?)
    }
}

/// The configuration at the start.
struct FirstConfig {
    /// `None`: the configuration never changes.
    file: Option<ConfigFile>,
    /// The working directory of scripts if there is no config file.
    folder: PathBuf,
    outcome: Result<LoadedConfig, String>,
    /// The last good configuration, used in place of an unusable file.
    kept: Option<LoadedConfig>,
}

impl FirstConfig {
    async fn read(source: ConfigSource, unknown_keys: UnknownKeys) -> Result<Self, StartError> {
        match source {
            ConfigSource::Given { config, folder } => {
                let outcome = Ok(LoadedConfig {
                    config,
                    warnings: Vec::new(),
                    origin: ConfigOrigin::Given,
                });
                Ok(FirstConfig {
                    file: None,
                    folder,
                    outcome,
                    kept: None,
                })
            }
            ConfigSource::File(path) => {
                let file = ConfigFile::new(&path).map_err(StartError::ConfigPath)?;
                let mut file = file.with_unknown_keys(unknown_keys);
                let outcome = file
                    .check()
                    .await
                    .unwrap_or_else(|| Err("the file was not read".to_owned()));
                if let Ok(loaded) = &outcome {
                    for warning in &loaded.warnings {
                        tracing::warn!("{warning}");
                    }
                }
                Ok(FirstConfig {
                    folder: file.folder().to_owned(),
                    file: Some(file),
                    outcome,
                    kept: None,
                })
            }
        }
    }

    /// Replaces an unusable config file by the last good configuration. A directory that was in use has running tasks and their statuses,
    /// which matter more than a file that is broken now. Fails at the first start in a directory, where the operator should see the error
    /// at once.
    fn check(&mut self, durable: &Durable, unknown_keys: UnknownKeys) -> Result<(), StartError> {
        let problems = match &mut self.outcome {
            Ok(loaded) => {
                // A job submitted through the API has the same name. The core refuses such a file, and the last good one stays.
                let mut jobs = loaded.config.jobs.iter();
                if jobs.any(|job| durable.jobs.contains_key(&job.name)) {
                    let kept = durable.config.as_ref();
                    let kept = kept.map(|kept| LoadedConfig::of_kept(kept, unknown_keys));
                    self.kept = kept.and_then(Result::ok);
                }
                return Ok(());
            }
            Err(problems) => problems,
        };
        if durable.cluster.is_none() {
            let is_slow = self.file.as_ref().is_some_and(ConfigFile::is_being_read);
            return Err(match is_slow {
                true => StartError::SlowConfig(problems.clone()),
                false => StartError::Config(problems.clone()),
            });
        }
        let Some(kept) = &durable.config else {
            tracing::error!("the configuration is not usable, so nothing starts: {problems}");
            return Ok(());
        };
        match LoadedConfig::of_kept(kept, unknown_keys) {
            Ok(loaded) => {
                tracing::error!(
                    "the configuration is not usable; the stored last good configuration stays in force: {problems}"
                );
                self.kept = Some(loaded);
            }
            Err(others) => {
                problems.push_str("\nthe stored last good configuration is not usable either:\n");
                problems.push_str(&others);
                tracing::error!("the configuration is not usable, so nothing starts: {problems}");
            }
        }
        Ok(())
    }

    /// Returns the path of the watched file, if there is one, and the folder of the configuration.
    fn place(&self) -> (Option<PathBuf>, PathBuf) {
        let file = self.file.as_ref().map(|file| file.path().to_owned());
        (file, self.folder.clone())
    }

    /// Returns the task that keeps the configuration and its nodes current.
    fn into_sources(
        self,
        (inbox, periods): (Inbox, Periods),
        instance: InstanceNode,
        in_force: watch::Receiver<Option<InForce>>,
        memory: SharedMemory,
    ) -> Sources {
        Sources {
            inbox,
            periods,
            instance,
            in_force,
            file: self.file,
            folder: self.folder,
            memory,
        }
    }

    fn events(&self) -> Vec<Event> {
        let kept = self.kept.clone().map(LoadedConfig::into_event);
        let own = match &self.outcome {
            Ok(loaded) => loaded.clone().into_event(),
            Err(message) => Event::ConfigFailed {
                message: message.clone(),
            },
        };
        kept.into_iter().chain([own]).collect()
    }

    /// Returns the settings by which proposed configurations are read.
    fn proposals(
        &self,
        unknown_keys: UnknownKeys,
        instance: InstanceNode,
        memory: SharedMemory,
    ) -> Proposals {
        Proposals {
            file: self.file.as_ref().map(|file| file.path().to_owned()),
            folder: self
                .file
                .as_ref()
                .map_or(&*self.folder, ConfigFile::folder)
                .to_owned(),
            unknown_keys,
            instance,
            memory,
            room: Proposals::room(),
        }
    }
}

/// Opens the port for Thrift, which asks for proofs if the scheduler has an authority, and the audit log. Errors if the data directory has lost
/// the authority that it had.
async fn open_port(
    options: &StartOptions,
    directory: &DataDir,
    (store, durable): (&mut Store, &Durable),
) -> Result<(Option<Arc<Security>>, Audit, Server), StartError> {
    let audit = Audit::open(directory, options.audit_keep)?;
    let check = LostIdentityCheck {
        authority: store.former_authority(),
        has_records: durable.cluster.is_some(),
        may_be_lost: options.directory.lost_records(),
    };
    let lost = check.lost_text(directory)?;
    let creation = check.check(directory, options.authority_creation, &audit)?;
    let choices = (creation, options.plain_peers);
    let life = options.worker_certificate_life;
    let security = Security::open(directory, choices, life, audit.clone())?;
    if let (Some(security), Some(lost)) = (&security, lost) {
        security.note_lost(lost);
    }
    store.note_authority(match &security {
        Some(_) => FormerAuthority::Present,
        None => FormerAuthority::Absent,
    });
    let address = options.listen.socket();
    let bound = Server::bind(address).await;
    let server = bound.map_err(|error| StartError::Listen { address, error })?;
    Ok(match security {
        Some(security) => {
            let server = server.with_socket(security::open_local_socket(directory));
            (
                Some(Arc::clone(&security)),
                audit,
                server.authenticated_by(security),
            )
        }
        None => (None, audit, server),
    })
}

async fn bind_http(
    address: Option<ListenAddress>,
) -> Result<(Option<TcpListener>, Option<SocketAddr>), StartError> {
    let Some(address) = address.map(ListenAddress::socket) else {
        return Ok((None, None));
    };
    let failed = |error| StartError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((Some(listener), Some(bound)))
}

fn store_reporter(inbox: Inbox) -> impl Fn(StoreReport) + Send {
    move |report| {
        inbox.tell_blocking(match report {
            StoreReport::Persisted(up_to) => Event::Persisted { up_to },
            StoreReport::Failed(message) => Event::StoreFailed { message },
            StoreReport::Recovered => Event::StoreRecovered,
            StoreReport::Measured(size) => Event::StoreMeasured { size },
        });
    }
}

fn instance_node(name: Option<String>) -> InstanceNode {
    let name = name.filter(|name| !name.is_empty()).or_else(net::host_name);
    InstanceNode(name.unwrap_or_else(|| "instance".to_owned()).into())
}
