//! Decides what this machine's control groups can enforce, and where a task's groups are made, from collected facts. Performs no input or
//! output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use brasserie_common::task::CGroupOptions;

use super::mounts::{Mount, Version};

/// The parent of all task groups, below the worker's own group.
pub const PARENT: &str = "brasserie";
/// The first kernel that can freeze groups of version 2; frozen processes can be killed. (From 5.14 on, one write kills a whole group.)
const FREEZES: (u32, u32) = (5, 2);

/// A controller of the kernel, which works on groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Memory,
    Cpu,
    Pids,
    /// A controller of version 1 only; version 2 freezes without one.
    Freezer,
}

impl Controller {
    pub const ALL: [Controller; 4] = [
        Controller::Memory,
        Controller::Cpu,
        Controller::Pids,
        Controller::Freezer,
    ];

    /// Returns the kernel's name of the controller.
    pub fn as_str(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Cpu => "cpu",
            Controller::Pids => "pids",
            Controller::Freezer => "freezer",
        }
    }
}

/// The facts that were found about a machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub mounts: Vec<Mount>,
    /// The kernel's version, major and minor.
    pub kernel: (u32, u32),
    pub unified: Option<Unified>,
    /// The worker's own group in each controller's hierarchy of version 1, or the reason why it cannot be used. Controllers without such
    /// a hierarchy are absent.
    pub legacy: BTreeMap<Controller, Result<PathBuf, String>>,
}

/// The hierarchy of version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unified {
    /// The worker's own group, or the reason why no group can be made in it.
    pub own: Result<PathBuf, String>,
    /// The controllers that task groups have, or the reason why they have none.
    pub controllers: Result<BTreeSet<Controller>, String>,
}

/// Whether a machine can do one thing to a group of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ability {
    Enforced(Version),
    /// The machine cannot, for this reason, which is a message.
    Missing(String),
}

/// Everything that this machine can enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub memory: Ability,
    pub cpu_weight: Ability,
    pub cpu_quota: Ability,
    pub pids: Ability,
    pub freeze: Ability,
    pub kill: Ability,
    pub emptiness: Ability,
}

impl Capabilities {
    /// Returns each ability with its name.
    pub fn all(&self) -> [(&'static str, &Ability); 7] {
        [
            ("memory limit", &self.memory),
            ("cpu weight", &self.cpu_weight),
            ("cpu quota", &self.cpu_quota),
            ("limit of processes", &self.pids),
            ("freeze", &self.freeze),
            ("kill of a whole group", &self.kill),
            ("emptiness", &self.emptiness),
        ]
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ability::Enforced(Version::One) => f.write_str("by control groups of version 1"),
            Ability::Enforced(Version::Two) => f.write_str("by control groups of version 2"),
            Ability::Missing(why) => write!(f, "missing: {why}"),
        }
    }
}

/// Returns everything that the machine can enforce.
pub fn capabilities(facts: &Facts) -> Capabilities {
    let cpu = limit(facts, Controller::Cpu);
    Capabilities {
        memory: limit(facts, Controller::Memory),
        cpu_weight: cpu.clone(),
        cpu_quota: cpu,
        pids: limit(facts, Controller::Pids),
        freeze: freeze(facts),
        kill: kill(facts),
        emptiness: emptiness(facts),
    }
}

/// Returns whether the controller can limit tasks. A controller belongs to one hierarchy at a time.
fn limit(facts: &Facts, controller: Controller) -> Ability {
    match (place(facts, controller), facts.legacy.get(&controller)) {
        (Ok(_), Some(_)) => Ability::Enforced(Version::One),
        (Ok(_), None) => Ability::Enforced(Version::Two),
        (Err(why), _) => Ability::Missing(why),
    }
}

fn freeze(facts: &Facts) -> Ability {
    if tracked_from(facts, FREEZES).is_ok() {
        return Ability::Enforced(Version::Two);
    }
    limit(facts, Controller::Freezer)
}

fn kill(facts: &Facts) -> Ability {
    let unified = tracked_from(facts, FREEZES);
    let mut legacy = [Controller::Freezer, Controller::Pids].into_iter();
    let legacy = legacy.any(|c| matches!(facts.legacy.get(&c), Some(Ok(_))));
    match unified {
        Ok(_) => Ability::Enforced(Version::Two),
        Err(_) if legacy => Ability::Enforced(Version::One),
        Err(why) => Ability::Missing(why),
    }
}

fn emptiness(facts: &Facts) -> Ability {
    let legacy = facts.legacy.values().any(Result::is_ok);
    match tracked_from(facts, (0, 0)) {
        Ok(_) => Ability::Enforced(Version::Two),
        Err(_) if legacy => Ability::Enforced(Version::One),
        Err(why) => Ability::Missing(why),
    }
}

/// Returns the worker's own group of version 2. Errors if there is none, or if the running kernel is older than `kernel`.
fn tracked_from(facts: &Facts, kernel: (u32, u32)) -> Result<&Path, String> {
    let Some(unified) = &facts.unified else {
        return Err("no control groups of version 2 are mounted".to_owned());
    };
    let own = unified.own.as_deref().map_err(Clone::clone)?;
    if facts.kernel < kernel {
        let (major, minor) = kernel;
        return Err(format!(
            "the kernel is older than {major}.{minor}, which control groups of version 2 need for it"
        ));
    }
    Ok(own)
}

/// Returns the worker's own group in the hierarchy that has the controller.
fn place(facts: &Facts, controller: Controller) -> Result<PathBuf, String> {
    if let Some(legacy) = facts.legacy.get(&controller) {
        return legacy.clone();
    }
    let name = controller.as_str();
    let Some(unified) = &facts.unified else {
        return Err(format!("no control groups are mounted that have `{name}`"));
    };
    let own = unified.own.clone()?;
    let had = unified.controllers.as_ref().map_err(Clone::clone)?;
    if !had.contains(&controller) {
        let group = own.display();
        return Err(format!(
            "`{name}` is not among the controllers that {group} was given"
        ));
    }
    Ok(own)
}

/// The limits of a task. The wire's 0 is `None` here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    pub memory_bytes: Option<u64>,
    pub cpu_shares: Option<u64>,
    /// Thousandths of a core.
    pub cpu_milli: Option<u64>,
    pub pids: Option<u64>,
}

impl GroupLimits {
    pub fn of(options: &CGroupOptions) -> Self {
        let some = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
        GroupLimits {
            memory_bytes: some(options.memory_limit_in_bytes),
            cpu_shares: some(options.cpu_shares.into()),
            cpu_milli: some(options.cpu_quota_milli),
            pids: some(options.pids_max),
        }
    }

    fn of_controller(self, controller: Controller) -> Vec<Setting> {
        let settings = match controller {
            Controller::Memory => [self.memory_bytes.map(Setting::Memory), None],
            Controller::Cpu => [
                self.cpu_shares.map(Setting::Shares),
                self.cpu_milli.map(Setting::Quota),
            ],
            Controller::Pids => [self.pids.map(Setting::Pids), None],
            Controller::Freezer => [None, None],
        };
        settings.into_iter().flatten().collect()
    }
}

/// Returns whether a task asks for any group.
pub fn asks_for_a_group(options: &CGroupOptions) -> bool {
    !options.subsystems.is_empty() || GroupLimits::of(options) != GroupLimits::default()
}

/// One limit of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Bytes.
    Memory(u64),
    /// Shares in version 1's scale, in which the default is 1024.
    Shares(u64),
    /// Thousandths of a core.
    Quota(u64),
    /// Processes and threads.
    Pids(u64),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Memory(bytes) => write!(f, "a memory limit of {bytes} bytes"),
            Setting::Shares(shares) => write!(f, "{shares} CPU shares"),
            Setting::Quota(milli) => write!(f, "a limit of {milli} thousandths of a core"),
            Setting::Pids(count) => write!(f, "a limit of {count} processes"),
        }
    }
}

/// A group to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The folder of the parent group.
    pub parent: PathBuf,
    pub version: Version,
    /// The owner of the parent, which decides whether a missing parent is made.
    pub owner: GroupOwner,
    pub settings: Vec<Setting>,
}

/// The owner of a parent of task groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOwner {
    /// The worker: the parent is made when it is needed.
    Worker,
    /// The administrator, by `cgroups.root` and `cgroups.slice`: the parent must exist.
    Administrator,
}

/// An existing `<root>/<subsystem>/<slice>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub subsystem: String,
    /// The path without symbolic links.
    pub path: PathBuf,
}

/// The reason why a task cannot have the groups that it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("it asks for {asked}, which cannot be had here: {why}")]
    Missing { asked: String, why: String },
    #[error("{} holds no control groups of version 1 that have `{subsystem}`", path.display())]
    NotAGroup { subsystem: String, path: PathBuf },
    #[error(
        "its control groups could not be emptied: {why}. Name `freezer` in `cgroups.subsystems`, or set `cgroups.kill_without_freezer`"
    )]
    NoKill { why: String },
}

/// Returns the groups of a task: those that its options name, those that its limits also need, and one by which all of its processes are
/// found and killed.
pub fn spots(
    facts: &Facts,
    options: &CGroupOptions,
    named: &[Named],
) -> Result<Vec<Spot>, PlanError> {
    let mut spots: Vec<Spot> = Vec::new();
    let mut held: BTreeSet<Controller> = BTreeSet::new();
    for named in named {
        let found = controllers_at(&facts.mounts, named)?;
        held.extend(found);
        at(
            &mut spots,
            named.path.clone(),
            Version::One,
            GroupOwner::Administrator,
        );
    }
    let limits = GroupLimits::of(options);
    for controller in Controller::ALL {
        let settings = limits.of_controller(controller);
        let Some(first) = settings.first() else {
            continue;
        };
        let spot = if held.contains(&controller) {
            let path = named
                .iter()
                .find(|n| n.subsystem == controller.as_str())
                .or_else(|| {
                    let has = |n: &&Named| {
                        controllers_at(&facts.mounts, n).is_ok_and(|c| c.contains(&controller))
                    };
                    named.iter().find(has)
                })
                .map(|n| n.path.clone())
                .expect("Invariant: a held controller is a named one's");
            at(&mut spots, path, Version::One, GroupOwner::Administrator)
        } else {
            let own = place(facts, controller).map_err(|why| PlanError::Missing {
                asked: first.to_string(),
                why,
            })?;
            let version = match facts.legacy.contains_key(&controller) {
                true => Version::One,
                false => Version::Two,
            };
            held.insert(controller);
            at(&mut spots, own.join(PARENT), version, GroupOwner::Worker)
        };
        spot.settings.extend(settings);
    }
    track(facts, options, &held, &mut spots)?;
    Ok(spots)
}

/// Adds a group by which all of the task's processes can be killed, if no group of the task can do that.
fn track(
    facts: &Facts,
    options: &CGroupOptions,
    held: &BTreeSet<Controller>,
    spots: &mut Vec<Spot>,
) -> Result<(), PlanError> {
    let why = match tracked_from(facts, FREEZES) {
        Ok(own) => {
            at(spots, own.join(PARENT), Version::Two, GroupOwner::Worker);
            return Ok(());
        }
        Err(why) => why,
    };
    if held.contains(&Controller::Freezer) {
        return Ok(());
    }
    for controller in [Controller::Freezer, Controller::Pids] {
        if held.contains(&controller) {
            return Ok(());
        }
        if let Some(Ok(own)) = facts.legacy.get(&controller) {
            at(spots, own.join(PARENT), Version::One, GroupOwner::Worker);
            return Ok(());
        }
    }
    match options.kill_without_freezer {
        true => Ok(()),
        false => Err(PlanError::NoKill { why }),
    }
}

/// Returns the group below a parent. Controllers of one hierarchy share a group.
fn at(spots: &mut Vec<Spot>, parent: PathBuf, version: Version, owner: GroupOwner) -> &mut Spot {
    let known = spots.iter().position(|spot| spot.parent == parent);
    let index = known.unwrap_or_else(|| {
        spots.push(Spot {
            parent,
            version,
            owner,
            settings: Vec::new(),
        });
        spots.len() - 1
    });
    &mut spots[index]
}

/// Returns the controllers of the hierarchy at a named path. Errors if the named subsystem is not among them, so that the worker never
/// writes to other folders.
fn controllers_at(mounts: &[Mount], named: &Named) -> Result<Vec<Controller>, PlanError> {
    let holds = |mount: &&Mount| named.path.starts_with(&mount.point);
    let innermost = mounts
        .iter()
        .filter(holds)
        .max_by_key(|mount| mount.point.components().count());
    let mount =
        innermost.filter(|m| m.version == Version::One && m.controllers.contains(&named.subsystem));
    let Some(mount) = mount else {
        return Err(PlanError::NotAGroup {
            subsystem: named.subsystem.clone(),
            path: named.path.clone(),
        });
    };
    let found = Controller::ALL.into_iter();
    Ok(found
        .filter(|c| mount.controllers.contains(c.as_str()))
        .collect())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
