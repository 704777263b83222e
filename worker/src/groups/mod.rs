//! Control groups: what holds a task to its limits, tells what it uses, and finds and ends all of its processes, wherever they
//! went. One interface over both of the kernel's generations, which many machines have at once.
//!
//! ```text
//! mounts   which hierarchies are mounted, where this process is          pure
//! survey   looks; hands controllers out where the worker is delegated some
//! plan     what the machine can do; which groups a task gets             pure
//! task     the groups of one task: make, join, freeze, kill, usage, remove
//!   v1, v2   the files of one group        killing   ends what is in groups, step by step
//! places   what a dead worker left: for its keeper and its next start
//! ```
//!
//! A task has groups if its options ask for any: for a limit, or by naming `cgroups.subsystems`. Others have none, as groups cost
//! more than such a task's start. What is asked for and cannot be had ends the start; nothing ever runs without its limits.
//!
//! * Named subsystems: `<root>/<subsystem>/<slice>/<name>`, of version 1, as it always was. The slice must be there.
//! * Everything else: `<worker's own group>/brasserie/<name>` in the hierarchy that has the controller.
//! * If the machine has version 2, each task with groups has one there too, even without controllers: to be killed at once.
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
use plan::{Facts, Limits, Named};
pub use task::{Emptying, Meter, TaskGroup};

/// How long a group of version 1 may take to freeze before its processes are let go and killed as they run.
pub const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a task cannot have its groups, or something cannot be done to them.
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

/// What groups have counted; `None`: none of them counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub cpu: Option<Duration>,
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

impl GroupUsage {
    /// What one group counts and what another does.
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

/// For want of what memory the kernel killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// The task's own limit was reached.
    OwnLimit,
    /// The machine's, or that of a group around the worker.
    Elsewhere,
}

/// What groups are made with.
#[derive(Clone, Debug)]
pub struct GroupsConfig {
    /// A part of their names.
    pub shard: String,
    /// The same for every user of the data directory, and of no other directory.
    pub tag: Tag,
    /// Where [`places`] are noted.
    pub places: PathBuf,
    /// The group to use instead of the worker's own, by its path in each hierarchy.
    pub root: Option<String>,
    pub freeze_timeout: Duration,
    /// Goes where this process goes.
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
    /// Looks at the machine. What it cannot do is in the [`capabilities`](Self::capabilities).
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

    /// What a worker could do here that is started as this process was. Nothing is changed for it.
    pub(crate) fn seen_from_here() -> Capabilities {
        plan::capabilities(&survey::seen())
    }

    /// Says what tasks can be held to here, and what not.
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

    /// The groups that a task asks for; `None`: it asks for none.
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
        let limits = Limits::of(options);
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
