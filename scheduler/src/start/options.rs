//! How a scheduler is run.

use std::path::PathBuf;
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common_config::UnknownKeys;
use brasserie_common_runtime::{ListenAddress, ServiceManager};
use brasserie_scheduler_core::credits::Policy;
use brasserie_scheduler_core::{Durable, Options, Retention};
use brasserie_thrift::rpc::Timeouts as CallTimeouts;

use crate::sources::{ConfigSource, Periods};
use crate::store::{LostRecords, Usage};

/// Beyond its three timeouts a call may be delayed by our own machine only; after that the core gives it up.
const CALL_SLACK: Duration = Duration::from_secs(1);

/// Whether the operator says that no scheduler ever ran for these workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewCluster {
    /// A used directory is an error.
    Yes,
    /// In a used directory the records decide.
    IfUnused,
    #[default]
    No,
}

/// What the operator says of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// It is as the last scheduler left it.
    AsLeft,
    RestoredFromBackup,
}

impl Directory {
    pub(super) fn of(self, durable: Durable) -> Durable {
        match self {
            Directory::AsLeft => durable,
            Directory::RestoredFromBackup => durable.restored_from_a_backup(),
        }
    }

    pub(super) fn lost_records(self) -> LostRecords {
        match self {
            Directory::AsLeft => LostRecords::None,
            Directory::RestoredFromBackup => LostRecords::Expected,
        }
    }
}

/// How a scheduler is run.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// Created if need be, and locked for as long as the scheduler lives.
    pub data_dir: PathBuf,
    /// A tmpfs for the time until which workers were answered. `None`: the time is not kept, and each initial wait counts from the
    /// scheduler's start.
    pub answered_folder: Option<PathBuf>,
    pub config: ConfigSource,
    /// What a key of a config file means that nobody reads.
    pub unknown_keys: UnknownKeys,
    pub listen: ListenAddress,
    /// `None`: no HTTP.
    pub http_listen: Option<ListenAddress>,
    /// Names under which browsers may reach it, besides addresses, `localhost` and the machine's own name.
    pub http_hosts: Vec<String>,
    pub new_cluster: NewCluster,
    pub directory: Directory,
    /// `None`: the host's name.
    pub instance_node_name: Option<String>,
    pub timeouts: Timeouts,
    pub allow_bump_unhealthy_worker: bool,
    /// `None`: the safe wait.
    pub startup_wait: Option<Duration>,
    pub call_timeouts: CallTimeouts,
    /// For workers that ask for work.
    pub work: Policy,
    /// The limits for completions of missing nodes.
    pub retention: Retention,
    pub periods: Periods,
    /// Who hears that the core's driver lives.
    pub manager: ServiceManager,
}

impl StartOptions {
    /// The defaults: loopback on any free port, no HTTP.
    pub fn new(data_dir: PathBuf, config: ConfigSource) -> Self {
        StartOptions {
            data_dir,
            answered_folder: None,
            config,
            unknown_keys: UnknownKeys::default(),
            listen: ListenAddress::ANY_LOOPBACK_PORT,
            http_listen: None,
            http_hosts: Vec::new(),
            new_cluster: NewCluster::No,
            directory: Directory::AsLeft,
            instance_node_name: None,
            timeouts: Timeouts::default(),
            allow_bump_unhealthy_worker: false,
            startup_wait: None,
            call_timeouts: CallTimeouts::DEFAULT,
            work: Policy::default(),
            retention: Retention::default(),
            periods: Periods::default(),
            manager: ServiceManager::default(),
        }
    }

    pub(super) fn core_options(&self, seed: u64, usage: Usage) -> Options {
        let calls = self.call_timeouts;
        Options {
            timeouts: self.timeouts,
            allow_bump_unhealthy_worker: self.allow_bump_unhealthy_worker,
            startup_wait: self.startup_wait,
            new_cluster: self.new_cluster != NewCluster::No && usage == Usage::New,
            call_deadline: calls.connect + calls.send + calls.receive + CALL_SLACK,
            work: self.work.clone(),
            retention: self.retention,
            seed,
        }
    }
}
