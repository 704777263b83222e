//! Reads proposed configurations like the config file, and builds the nodes of their sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common_config::{
    Config, ConfigErrors, Format, NodeSource, ParseOptions, Parsed, ScheduleMemory, UnknownKeys,
};
use brasserie_common_runtime::Clock;
use brasserie_scheduler_core::ProposedNodes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config_file::read_config;
use super::nodes::{BuildMoment, InstanceNode, build_nodes};
use super::zone::system_zone;

/// Maximum plans at once. Each may hold a copy of a large scheduler, and runs as many scripts at once as a refresh does.
const MAX_PLANS: usize = 2;
/// Limit for building the nodes of a plan, with any number of scripts. The caller waits two minutes, and the rest of the plan takes
/// seconds.
const NODES_DEADLINE: Duration = Duration::from_secs(90);

/// The memory of schedules, which the sources write and plans begin from.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedMemory(Arc<Mutex<Arc<ScheduleMemory>>>);

impl SharedMemory {
    pub(crate) fn new(memory: ScheduleMemory) -> Self {
        SharedMemory(Arc::new(Mutex::new(Arc::new(memory))))
    }

    pub(super) fn set(&self, memory: &Arc<ScheduleMemory>) {
        *self.0.lock() = Arc::clone(memory);
    }

    pub(super) fn get(&self) -> Arc<ScheduleMemory> {
        Arc::clone(&self.0.lock())
    }
}

/// Why a plan was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotBegun {
    #[error("{MAX_PLANS} plans are being made already; try again when they are done")]
    TooMany,
    #[error("this scheduler was started with a configuration that never changes")]
    NoFile,
}

/// A proposed text of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) text: Vec<u8>,
    pub(crate) format: Format,
    /// The folder against which its relative paths resolve; `None`: the folder of the scheduler's own config file.
    pub(crate) folder: Option<PathBuf>,
}

/// Reads drafts with the settings of the scheduler's own file.
pub(crate) struct Proposals {
    /// `None`: the configuration never changes.
    pub(crate) file: Option<PathBuf>,
    /// The folder of that file.
    pub(crate) folder: PathBuf,
    pub(crate) unknown_keys: UnknownKeys,
    pub(crate) instance: InstanceNode,
    pub(crate) memory: SharedMemory,
    pub(crate) room: Arc<Semaphore>,
}

/// Returns the first script of a draft, and the position of its source from one on, that the configuration in force does not run with the same
/// arguments. A script's arguments are the nodes of the sources before it.
pub(crate) fn first_new_script<'a>(
    draft: &'a Config,
    in_force: Option<&Config>,
) -> Option<(usize, &'a Path)> {
    let known = in_force.map_or(&[][..], |config| &config.node_sources[..]);
    let same = draft.node_sources.iter().zip(known);
    let same = same.take_while(|(new, known)| new == known).count();
    let mut new = draft.node_sources.iter().enumerate().skip(same);
    new.find_map(|(index, source)| match source {
        NodeSource::Script(script) => Some((index + 1, &*script.script)),
        NodeSource::Empty
        | NodeSource::Manual(_)
        | NodeSource::RangeLabel(_)
        | NodeSource::AddTime(_) => None,
    })
}

/// A permit for one plan, held until it is dropped, and the file that a draft would replace.
pub(crate) struct PlanPermit<'a> {
    pub(crate) file: &'a Path,
    pub(crate) room: OwnedSemaphorePermit,
}

impl Proposals {
    pub(crate) fn room() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_PLANS))
    }

    pub(crate) fn begin(&self) -> Result<PlanPermit<'_>, NotBegun> {
        let file = self.file.as_deref().ok_or(NotBegun::NoFile)?;
        let room = Arc::clone(&self.room).try_acquire_owned();
        let room = room.map_err(|_| NotBegun::TooMany)?;
        Ok(PlanPermit { file, room })
    }

    /// Returns the folder against which a draft's relative paths resolve.
    pub(crate) fn folder_of(&self, draft: &Draft) -> PathBuf {
        draft.folder.clone().unwrap_or_else(|| self.folder.clone())
    }

    /// Returns whether the relative paths of a draft resolve elsewhere than those of the scheduler's own file.
    pub(crate) fn is_elsewhere(&self, draft: &Draft) -> bool {
        draft.folder.as_ref().is_some_and(|at| *at != self.folder)
    }

    /// Parses a draft on a blocking thread, because texts can be long.
    pub(crate) async fn read(
        &self,
        draft: Draft,
    ) -> Result<Result<Parsed, ConfigErrors>, tokio::task::JoinError> {
        let options = ParseOptions {
            format: draft.format,
            unknown_keys: self.unknown_keys,
        };
        let folder = self.folder_of(&draft);
        tokio::task::spawn_blocking(move || read_config(&draft.text, options, &folder)).await
    }

    /// Builds the nodes that a refresh would give now. Dropping the future ends its scripts.
    pub(crate) async fn nodes(&self, config: &Arc<Config>, folder: PathBuf) -> ProposedNodes {
        let moment = BuildMoment {
            now: Clock.wall(),
            zone: system_zone().zone,
            memory: self.memory.get(),
        };
        let nodes = build_nodes(Arc::clone(config), folder, self.instance.clone(), moment);
        match tokio::time::timeout(NODES_DEADLINE, nodes).await {
            Ok(Ok(built)) => ProposedNodes::Read(Arc::new(built.table)),
            Ok(Err(error)) => ProposedNodes::Failed(error.to_string()),
            Err(_) => ProposedNodes::Failed(format!(
                "reading them takes longer than {}, the time limit of a plan",
                format_duration(NODES_DEADLINE)
            )),
        }
    }
}
