//! Control groups: enforce a task's limits, count its usage, and find and end all of its processes, wherever they moved. One interface
//! covers both kernel versions of control groups, which many machines have at the same time.
//!
//! ```text
//! mounts   which hierarchies are mounted, where this process is          pure
//! survey   inspects the machine; hands delegated controllers out
//! plan     what the machine can do; which groups a task gets             pure
//! task     the groups of one task: make, join, freeze, kill, usage, remove
//!   v1, v2   the files of one group        killing   ends the processes in groups, step by step
//! places   groups that a dead worker left: for its keeper and its next start
//! ```
//!
//! A task gets groups if its options ask for any: by a limit, or by naming `cgroups.subsystems`. Other tasks have none, because making
//! groups takes longer than starting such a task. If a requested limit is impossible, the start fails; no task ever runs without its
//! limits.
//!
//! * Named subsystems: `<root>/<subsystem>/<slice>/<name>`, in version 1, as in the original Bistro. The slice must exist.
//! * Everything else: `<worker's own group>/brasserie/<name>` in the hierarchy that has the controller.
//! * If the machine has version 2, each task with groups also has one there, even without controllers: to kill all processes at once.
//!
//! The name is `<shard>:<start>:<tag and count>:<worker's process id>`, one path component whatever the shard contains.

mod files;
mod killing;
pub mod mounts;
mod name;
pub mod places;
pub mod plan;
pub(crate) mod survey;
mod task;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::path::PathBuf;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::task::CGroupOptions;
use brasserie_worker_core::AssociationIndex;
use nix::unistd::Pid;

pub use files::FileError;
use killing::Racy;
use name::Namer;
pub use name::Tag;
use places::Places;
pub use plan::{Ability, Capabilities, PlanError};
use plan::{Facts, GroupLimits, Named};
pub use task::{Emptying, Meter, TaskGroup};

/// The default time that a group of version 1 gets to freeze. After it, the processes are killed although some are not frozen, and the group
/// is thawed.
pub const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why a task cannot have its groups, or why an operation on them failed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} was set to {written} and reads back {read}", path.display())]
    ReadBack {
        path: PathBuf,
        written: u64,
        read: String,
    },
    #[error("`cgroups.subsystems` names {0:?}, which is no name of a folder")]
    Subsystem(String),
    #[error("the slice {} cannot be used: {why}", path.display())]
    Slice { path: PathBuf, why: String },
    #[error("nothing here freezes its processes")]
    NoFreezer,
    #[error("groups were made in {0} different folders, which is the most")]
    TooManyPlaces(usize),
    #[error("{0}")]
    Several(String),
}

impl GroupError {
    /// Joins all errors to one; `None` if there are none.
    fn of_all(mut errors: Vec<GroupError>) -> Option<GroupError> {
        if errors.len() < 2 {
            return errors.pop();
        }
        let texts: Vec<String> = errors.iter().map(GroupError::to_string).collect();
        Some(GroupError::Several(texts.join("; ")))
    }
}

/// The usage that groups have counted; `None`: no group counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub cpu: Option<Duration>,
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

impl GroupUsage {
    /// Returns this group's counts, completed by those of another group.
    pub fn or(self, other: Self) -> Self {
        GroupUsage {
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            memory_peak_bytes: self.memory_peak_bytes.or(other.memory_peak_bytes),
            cpu: self.cpu.or(other.cpu),
            read_bytes: self.read_bytes.or(other.read_bytes),
            written_bytes: self.written_bytes.or(other.written_bytes),
        }
    }
}

/// The limit because of which the kernel killed a process for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// The task's own limit.
    OwnLimit,
    /// The machine's limit, or that of a group around the worker.
    Elsewhere,
}

/// The configuration with which groups are made.
#[derive(Clone, Debug)]
pub struct GroupsConfig {
    /// The worker's shard, which is a part of the groups' names.
    pub shard: String,
    /// The tag of the data directory: the same for all of its users, different for any other directory.
    pub tag: Tag,
    /// The file in which [`places`] notes the groups' locations.
    pub places: PathBuf,
    /// The group to use instead of the worker's own, by its path in each hierarchy.
    pub root: Option<String>,
    pub freeze_timeout: Duration,
    /// The keeper, which moves to the same groups as this process.
    pub keeper: Option<Pid>,
}

/// The control groups of one worker's tasks.
#[derive(Debug)]
pub struct Groups {
    facts: Facts,
    namer: Namer,
    places: Places,
    freeze_timeout: Duration,
}

impl Groups {
    /// Inspects the machine. The result of [`capabilities`](Self::capabilities) names what the machine cannot do.
    pub fn open(config: GroupsConfig) -> Self {
        let facts = survey::facts(config.root.as_deref(), config.keeper);
        Groups {
            facts,
            namer: Namer::new(&config.shard, config.tag),
            places: Places::new(config.places, config.tag),
            freeze_timeout: config.freeze_timeout,
        }
    }

    pub fn capabilities(&self) -> Capabilities {
        plan::capabilities(&self.facts)
    }

    /// Returns the capabilities of a worker that is started as this process was. Changes nothing on the machine.
    pub(crate) fn seen_from_here() -> Capabilities {
        plan::capabilities(&survey::seen())
    }

    /// Logs the limits that tasks can have here, and those that they cannot have.
    pub fn announce(&self) {
        let all = self.capabilities();
        let had = all
            .all()
            .into_iter()
            .filter(|(_, ability)| matches!(ability, Ability::Enforced(_)));
        let had: Vec<String> = had.map(|(name, how)| format!("{name} {how}")).collect();
        if !had.is_empty() {
            tracing::info!("tasks can have: {}", had.join(", "));
        }
        for (name, ability) in all.all() {
            if let Ability::Missing(why) = ability {
                tracing::info!(
                    "tasks cannot have: {name} ({why}); those that ask for it are refused"
                );
            }
        }
    }

    /// Makes the groups that a task asks for; `None` if it asks for none.
    pub fn create(
        &mut self,
        options: &CGroupOptions,
        now: WallTime,
        of: AssociationIndex,
    ) -> Result<Option<TaskGroup>, GroupError> {
        if !plan::asks_for_a_group(options) {
            return Ok(None);
        }
        let named = named(options)?;
        let spots = plan::spots(&self.facts, options, &named)?;
        for spot in &spots {
            self.places.note(&spot.parent)?;
        }
        let name = self.namer.next(now, of);
        let limits = GroupLimits::of(options);
        let racy = match options.kill_without_freezer {
            true => Racy::Allowed,
            false => Racy::Forbidden,
        };
        TaskGroup::make(&spots, &name, limits, racy, self.freeze_timeout).map(Some)
    }
}

/// Finds the slices that the options name. The error names every missing one.
fn named(options: &CGroupOptions) -> Result<Vec<Named>, GroupError> {
    let each = options.subsystems.iter().map(|subsystem| {
        let is_name = !subsystem.contains('/') && !matches!(subsystem.as_str(), "" | "." | "..");
        if !is_name {
            return Err(GroupError::Subsystem(subsystem.clone()));
        }
        let slice = options.slice.trim_start_matches('/');
        let path = PathBuf::from(&options.root).join(subsystem).join(slice);
        let unusable = |why: String| GroupError::Slice {
            path: path.clone(),
            why,
        };
        if !path.is_absolute() {
            return Err(unusable(
                "`cgroups.root` must be an absolute path".to_owned(),
            ));
        }
        let found = path
            .canonicalize()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Named {
            subsystem: subsystem.clone(),
            path: found,
        })
    });
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for one in each {
        match one {
            Ok(named) => found.push(named),
            Err(error) => errors.push(error),
        }
    }
    match GroupError::of_all(errors) {
        Some(error) => Err(error),
        None => Ok(found),
    }
}
