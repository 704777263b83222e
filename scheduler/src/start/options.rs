//! The options with which a scheduler starts.

use std::path::PathBuf;
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common_config::UnknownKeys;
use brasserie_common_identity::Lifetime;
use brasserie_common_runtime::{ListenAddress, ServiceManager};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{Durable, Options, Retention, SlotStrategy};
use brasserie_thrift::rpc::CallTimeouts;

use crate::security::{AuthorityCreation, PlainPeers};
use crate::sources::{ConfigSource, Periods};
use crate::store::{DirectoryUse, LostRecords, UsedBy};

/// The default size of the audit log, in bytes: some hundred thousand lines.
const USUAL_AUDIT_KEEP: u64 = 128 << 20;
/// Only a delay on this machine can prolong a call beyond its three timeouts. After this slack the core abandons the call.
const CALL_SLACK: Duration = Duration::from_secs(1);

/// The default limit for the files of inputs: more than lookup tables and models have, and little enough for the disk of a scheduler.
pub(crate) const FILES_CAPACITY: u64 = 10 << 30;

/// Whether the operator states that no scheduler ever ran for these workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewCluster {
    /// A data directory that was in use is an error.
    Yes,
    /// The records of a used data directory decide.
    IfUnused,
    #[default]
    No,
}

/// The operator's statement about the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryOrigin {
    /// The directory is as the last scheduler left it.
    AsLeft,
    RestoredFromBackup,
}

impl DirectoryOrigin {
    pub(super) fn of(self, durable: Durable) -> Durable {
        match self {
            DirectoryOrigin::AsLeft => durable,
            DirectoryOrigin::RestoredFromBackup => durable.restored_from_a_backup(),
        }
    }

    pub(super) fn lost_records(self) -> LostRecords {
        match self {
            DirectoryOrigin::AsLeft => LostRecords::None,
            DirectoryOrigin::RestoredFromBackup => LostRecords::Expected,
        }
    }
}

/// The options with which a scheduler starts.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The data directory, created if missing and locked while the scheduler lives.
    pub data_dir: PathBuf,
    /// A tmpfs directory for the time until which workers were answered. `None`: the time is not kept, and each initial wait counts from
    /// the scheduler's start.
    pub answered_folder: Option<PathBuf>,
    pub config: ConfigSource,
    /// Treatment of unknown keys in a config file.
    pub unknown_keys: UnknownKeys,
    pub listen: ListenAddress,
    /// Whether the start creates an authority. With one, peers must prove who they are.
    pub authority_creation: AuthorityCreation,
    /// The treatment of peers without TLS, if peers must prove who they are.
    pub plain_peers: PlainPeers,
    /// How long the certificates of workers are valid.
    pub worker_certificate_life: Duration,
    /// The bytes of the audit log that are kept, about.
    pub audit_keep: u64,
    /// The address for HTTP. `None`: no HTTP server.
    pub http_listen: Option<ListenAddress>,
    /// Host names that browsers may use, besides addresses, `localhost` and the machine's own name.
    pub http_hosts: Vec<String>,
    pub new_cluster: NewCluster,
    pub directory: DirectoryOrigin,
    /// The program whose flags the messages about the store name.
    pub used_by: UsedBy,
    /// The name of the instance node. `None`: the host's name.
    pub instance_node_name: Option<String>,
    pub timeouts: Timeouts,
    pub allow_bump_unhealthy_worker: bool,
    /// The initial wait. `None`: the safe wait.
    pub startup_wait: Option<Duration>,
    pub call_timeouts: CallTimeouts,
    /// The policy for pull workers.
    pub work: RequestPolicy,
    /// The limits for completions of missing nodes.
    pub retention: Retention,
    pub periods: Periods,
    /// The most bytes of all files that jobs name as inputs.
    pub files_capacity: u64,
    /// The rule for the choice of disks for copies of artifacts.
    pub slots: SlotStrategy,
    /// The service manager, which learns from the watchdog that the driver is alive.
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
            authority_creation: AuthorityCreation::default(),
            plain_peers: PlainPeers::default(),
            worker_certificate_life: Lifetime::WORKER.0,
            audit_keep: USUAL_AUDIT_KEEP,
            http_listen: None,
            http_hosts: Vec::new(),
            new_cluster: NewCluster::No,
            directory: DirectoryOrigin::AsLeft,
            used_by: UsedBy::default(),
            instance_node_name: None,
            timeouts: Timeouts::default(),
            allow_bump_unhealthy_worker: false,
            startup_wait: None,
            call_timeouts: CallTimeouts::DEFAULT,
            work: RequestPolicy::default(),
            retention: Retention::default(),
            periods: Periods::default(),
            files_capacity: FILES_CAPACITY,
            slots: SlotStrategy::RoundRobin,
            manager: ServiceManager::default(),
        }
    }

    pub(super) fn core_options(&self, seed: u64, usage: DirectoryUse) -> Options {
        let calls = self.call_timeouts;
        Options {
            timeouts: self.timeouts,
            allow_bump_unhealthy_worker: self.allow_bump_unhealthy_worker,
            startup_wait: self.startup_wait,
            new_cluster: self.new_cluster != NewCluster::No && usage == DirectoryUse::New,
            call_deadline: calls.connect + calls.send + calls.receive + CALL_SLACK,
            work: self.work.clone(),
            retention: self.retention,
            slots: self.slots,
            seed,
        }
    }
}
