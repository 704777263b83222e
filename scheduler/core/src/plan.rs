//! What a configuration would do: a copy of the scheduler hears of it, as the scheduler would, and is looked at.

mod nodes;
mod tasks;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use brasserie_common::Time;
use brasserie_common_config::{Changes, Config};
use brasserie_scheduler_engine::NodeTable;

use crate::event::Event;
use crate::reconcile::has_same_nodes;
use crate::record::Durable;
use crate::scheduler::Scheduler;

pub use nodes::{LevelChanges, NodeChanges};
pub use tasks::{JobPlan, OrphanPlan, PlannedKill, TasksPlan, Total};

/// The largest node table that is copied: a hundred megabytes, within some fifty milliseconds of the scheduler's own time.
pub const MAX_PLANNED_NODES: usize = 1_000_000;
/// Jobs times nodes at most: eight bytes each, so that a copy stays below some two hundred megabytes, and some seconds to look at.
const MAX_PLANNED_TASKS: usize = 20_000_000;
/// Of each list in a plan: more than anybody reads, and a few hundred kilobytes.
const MAX_LISTED: usize = 1000;

/// The first of many.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub total: u64,
    pub first: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed {
            total: 0,
            first: Vec::new(),
        }
    }
}

impl<T> Listed<T> {
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Counts all, and keeps as many as there is room for.
    fn push(&mut self, limit: usize, item: T) {
        self.total += 1;
        if self.first.len() < limit {
            self.first.push(item);
        }
    }

    fn of(all: Vec<T>) -> Self {
        let total = all.len() as u64;
        let first = all.into_iter().take(MAX_LISTED).collect();
        Listed { total, first }
    }
}

/// A configuration that somebody thinks of.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub config: Arc<Config>,
    pub nodes: ProposedNodes,
}

/// The nodes of its sources.
#[derive(Clone, Debug)]
pub enum ProposedNodes {
    /// It has the sources of the configuration in force, so that nothing would be read.
    Kept,
    Read(Arc<NodeTable>),
    /// They cannot be read, for this reason.
    Failed(String),
}

/// What a configuration would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Why it would not be in force; nothing of the rest would happen then.
    pub refused: Option<String>,
    /// What it says otherwise, jobs by API included, as they inherit from the settings.
    pub changes: Changes,
    pub nodes: NodeChanges,
    /// Why its nodes are not known, so that those in force would stay.
    pub nodes_error: Option<String>,
    pub tasks: TasksPlan,
    /// Why nodes and tasks were not compared and counted.
    pub not_counted: Option<String>,
    /// What somebody should know of it that is not so now.
    pub problems: Vec<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Plan {
    /// Whether everything would be as before.
    pub fn changes_nothing(&self) -> bool {
        self.refused.is_none()
            && self.changes.is_empty()
            && self.nodes.levels.is_empty()
            && self.not_counted.is_none()
            && self.tasks.changes_nothing()
    }
}

/// A copy of a scheduler at one moment. Whatever happens in it, the scheduler hears nothing of it.
#[derive(Clone)]
pub struct WhatIf {
    now: Time,
    copy: Scheduler,
    config: Option<Arc<Config>>,
    nodes: Option<Arc<NodeTable>>,
    problems: BTreeSet<String>,
    /// Why the copy has neither nodes nor tasks.
    not_counted: Option<String>,
}

impl WhatIf {
    pub(crate) fn of(scheduler: &Scheduler, now: Time) -> Self {
        let engine = scheduler.engine();
        let (config, nodes) = (engine.config().cloned(), engine.nodes().cloned());
        let not_counted = too_large(config.as_deref(), nodes.as_deref());
        let copy = match not_counted {
            None => scheduler.clone(),
            Some(_) => thin_copy(scheduler, now),
        };
        WhatIf {
            now,
            copy,
            problems: engine.problems().into_iter().collect(),
            config,
            nodes,
            not_counted,
        }
    }

    /// What would happen at once if the scheduler read this configuration, and its nodes, at the moment of the copy.
    pub fn plan(mut self, proposal: Proposal) -> Plan {
        let now = self.now;
        let Proposal { config, nodes } = proposal;
        if let ProposedNodes::Read(nodes) = &nodes
            && self.not_counted.is_none()
            && let Some(why) = too_large(Some(&config), Some(nodes))
        {
            self.copy = thin_copy(&self.copy, now);
            self.not_counted = Some(why);
        }
        let before = tasks::Before::of(&self.copy, now);
        let is_same = |before: &Arc<Config>| has_same_nodes(before, &config);
        let other_sources = !self.config.as_ref().is_some_and(is_same);
        self.copy.handle(
            now,
            Event::ConfigLoaded {
                config: Arc::clone(&config),
                warnings: Vec::new(),
            },
        );
        let mut plan = Plan {
            refused: self.refusal(),
            not_counted: self.not_counted.clone(),
            ..Plan::default()
        };
        if plan.refused.is_some() {
            return plan;
        }
        let is_enabled = config.enabled;
        plan.nodes_error = self.load_nodes(config, nodes);
        if let Some(after) = self.copy.engine().config() {
            plan.changes = changes(self.config.as_deref(), after);
        }
        if plan.not_counted.is_none() {
            let after = self.copy.engine().nodes();
            plan.nodes = NodeChanges::between(self.nodes.as_deref(), after.map(|n| &**n));
            plan.tasks = tasks::plan(&mut self.copy, now, &before);
        }
        let problems = self.copy.engine().problems().into_iter();
        plan.problems = problems.filter(|p| !self.problems.contains(p)).collect();
        if !is_enabled {
            let note = "`enabled` is false in the settings: nothing would start, and no orphan would be ended";
            plan.notes.push(note.to_owned());
        }
        if other_sources && plan.nodes_error.is_none() {
            let note = "the node sources are others: until they are read, tasks may start on nodes that are in force now";
            plan.notes.push(note.to_owned());
        }
        plan
    }

    fn refusal(&self) -> Option<String> {
        match self.copy.stepped_down() {
            Some(newer) => Some(format!(
                "this scheduler has stepped down for the newer instance {newer}"
            )),
            None => self.copy.jobs().refused_file(),
        }
    }

    /// The copy hears of the nodes; gives why there are none.
    fn load_nodes(&mut self, config: Arc<Config>, nodes: ProposedNodes) -> Option<String> {
        match nodes {
            ProposedNodes::Kept => None,
            ProposedNodes::Failed(message) => Some(message),
            ProposedNodes::Read(_) if self.not_counted.is_some() => None,
            ProposedNodes::Read(nodes) => {
                self.copy
                    .handle(self.now, Event::NodesLoaded { nodes, config });
                None
            }
        }
    }
}

impl fmt::Debug for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhatIf").finish_non_exhaustive()
    }
}

/// Two are the same if they have the same future.
impl PartialEq for WhatIf {
    fn eq(&self, other: &Self) -> bool {
        self.copy.fingerprint(self.now) == other.copy.fingerprint(other.now)
    }
}

/// Why a copy would cost too much.
fn too_large(config: Option<&Config>, nodes: Option<&NodeTable>) -> Option<String> {
    let nodes = nodes?.len();
    let jobs = config.map_or(0, |config| config.jobs.len());
    if nodes > MAX_PLANNED_NODES {
        return Some(format!(
            "there are {nodes} nodes, and a plan looks at {MAX_PLANNED_NODES} at most"
        ));
    }
    (jobs.saturating_mul(nodes) > MAX_PLANNED_TASKS).then(|| {
        format!(
            "there are {jobs} jobs on {nodes} nodes, and a plan looks at {MAX_PLANNED_TASKS} tasks at most"
        )
    })
}

/// Only what decides whether a configuration comes into force, and how jobs by API read under it.
fn thin_copy(scheduler: &Scheduler, now: Time) -> Scheduler {
    let options = scheduler.options().clone();
    let mut thin = Scheduler::new(options, Durable::default(), now, scheduler.wall());
    *thin.jobs_mut() = scheduler.jobs().clone();
    if let Some(newer) = scheduler.stepped_down() {
        thin.note_stepped_down(newer);
    }
    thin
}

fn changes(before: Option<&Config>, after: &Config) -> Changes {
    match before {
        Some(before) => Changes::between(before, after),
        None => Changes {
            added: after.jobs.iter().map(|job| job.name.clone()).collect(),
            ..Changes::default()
        },
    }
}
