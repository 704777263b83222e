//! Gives runs the artifacts that they need before they start, takes those that they leave, and exchanges them with other workers.
//!
//! A run with inputs or outputs passes through the [`Desk`], which is a task of the runtime; all others pass it by. The desk fetches what
//! the store lacks, as `worker/gather` decides, puts copies into a folder of the run, has the runner start the process, and takes the
//! outputs when the last process is dead. Only then does the core hear of the run's end. Blocking work on files runs on other threads, a
//! few at a time.

mod background;
mod counters;
mod desk;
mod folders;
mod handle;
mod hands;
mod reporter;
mod requests;
mod run;
mod serving;
mod side;
mod standings;
mod transfer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::WorkerDescription;
use brasserie_common_artifacts::{
    ArtifactStore, DiskFlag, DiskMistake, OpenFinding, ServedTransfers, StoreOptions,
};
use brasserie_common_runtime::Clock;
use brasserie_worker_core::Worker;
use brasserie_worker_gather::{HostName, Peer, PeerId, RackName};
use parking_lot::Mutex;

use self::background::Background;
use self::counters::Counters;
use self::desk::DeskParts;
use self::folders::RunFolders;
use self::handle::DeskEvents;
use crate::membership::Membership;
use crate::options::StartOptions;
use crate::own_events::OwnEvents;
use crate::process::{Accounts, RunKey, Runner};

pub(crate) use background::BackgroundOwner;
pub(crate) use handle::Desk;
pub(crate) use serving::Server as ArtifactServer;
pub(crate) use standings::Standings;

/// The folder of the store, below the data directory, if `--disk` names no other.
const STORE: &str = "artifacts";

/// The reason why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactsError {
    #[error(transparent)]
    Disk(#[from] DiskMistake),
    #[error("cannot name the data directory {}: {error}", path.display())]
    DataDir {
        path: PathBuf,
        error: std::io::Error,
    },
}

/// The artifacts of a worker that starts.
pub(crate) struct Artifacts {
    store: Arc<ArtifactStore>,
    folders: RunFolders,
    desk: Desk,
    events: DeskEvents,
}

impl Artifacts {
    /// Opens the store and the folders of runs. Every process of an earlier worker is dead.
    pub(crate) fn open(
        data_dir: &Path,
        accounts: Accounts,
        mut disks: Vec<DiskFlag>,
    ) -> Result<Self, ArtifactsError> {
        if disks.is_empty() {
            disks.push(DiskFlag::new(data_dir.join(STORE)));
        }
        let (store, findings) = ArtifactStore::open(&StoreOptions::new(disks))?;
        for finding in findings {
            match finding {
                // Each worker begins so.
                OpenFinding::NewGeneration { .. } => tracing::info!("{finding}"),
                _ => tracing::warn!("{finding}"),
            }
        }
        let folders = RunFolders::open(data_dir, accounts);
        let folders = folders.map_err(|error| ArtifactsError::DataDir {
            path: data_dir.to_owned(),
            error,
        })?;
        let (desk, events) = Desk::new();
        Ok(Artifacts {
            store: Arc::new(store),
            folders,
            desk,
            events,
        })
    }

    pub(crate) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Starts the desk and the reports. Returns the server of the store, the facts about associations that the driver passes
    /// on, and the work that ends with the worker.
    pub(crate) fn start(
        self,
        worker: &Worker,
        (runner, own, timed): (Arc<dyn Runner>, OwnEvents, Arc<Mutex<HashSet<RunKey>>>),
        (options, membership): (&StartOptions, &Membership),
    ) -> (Arc<ArtifactServer>, Standings, BackgroundOwner) {
        let first = &worker.associations()[0];
        let me = peer_of(first.description(), options.rack.clone());
        let (standings, heard) = Standings::of(worker.associations());
        let background = Background::default();
        let host = Arc::clone(&me.host.0);
        let counters = Counters::default();
        let (store, count) = (Arc::clone(&self.store), counters.clone());
        let transfers = ServedTransfers::new(options.artifact_transfers);
        let served = ArtifactServer::new(store, (host, transfers), background.clone(), count);
        let parts = DeskParts {
            store: self.store,
            folders: self.folders,
            runner,
            own,
            timed,
            clock: Clock,
            background: background.clone(),
            counters,
            me,
            membership: membership.clone(),
            standings: heard,
            // The instance is drawn afresh at each start.
            seed: first.instance().0.rand.cast_unsigned(),
        };
        desk::start(self.desk, self.events, parts);
        (Arc::new(served), standings, background.owner())
    }
}

/// Returns a worker as others see it.
fn peer_of(worker: &WorkerDescription, rack: Option<Arc<str>>) -> Peer {
    Peer {
        id: PeerId(worker.address.to_string().into()),
        host: HostName(Arc::clone(&worker.machine_lock.hostname)),
        rack: rack.map(RackName),
    }
}
