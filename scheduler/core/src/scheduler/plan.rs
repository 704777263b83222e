//! Plans: the effects of a proposed configuration, found by loading it into a copy of the scheduler.

mod inputs;
mod nodes;
mod outputs;
mod tasks;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use brasserie_common::cluster_view::MAX_SCHEDULES;
use brasserie_common::{JobName, Time};
use brasserie_common_config::{Changes, Config};
use brasserie_scheduler_engine::{Counts, NodeTable, NodesOwner};

use super::event::Event;
use super::{Scheduler, View, task_key};
use crate::jobs::ConfigOrigin;
use crate::nodes::has_same_nodes;
use crate::orphans::snapshot::{OrphanNow, RunNow};
use crate::record::Durable;
use crate::times::schedules;
use inputs::LackingInputs;

pub use inputs::{ExcessiveInputs, ProposedInputs};
pub use nodes::{LevelChanges, NodeChanges};
pub use outputs::KeptSet;
pub use tasks::{JobPlan, OrphanPlan, PlannedKill, TasksPlan, Total};

/// The most nodes for which a copy is made. The copy takes a hundred megabytes, and a tenth of a second of the scheduler's own time.
pub const MAX_PLANNED_NODES: usize = 1_000_000;
/// The most jobs times nodes. Each takes two or three bytes beside its status, and all of them take some seconds to check.
const MAX_PLANNED_TASKS: usize = 20_000_000;
/// The most bytes that the engine remembers: names, statuses, waiting and running tasks, also of nodes and jobs that are gone. Suffices for
/// [`MAX_PLANNED_TASKS`] that are done. With the two limits above, a copy takes at most about four hundred megabytes and half a second.
const MAX_PLANNED_BYTES: usize = 256 * 1024 * 1024;
/// The most jobs that one note names.
const MAX_NAMED_JOBS: usize = 5;
/// The most entries of each list in a plan: more than a person reads, and a few hundred kilobytes.
const MAX_LISTED: usize = 1000;

/// The first entries of a list, and the total number.
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

    /// Counts the item, and keeps it if fewer than `limit` are kept.
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

/// A configuration whose effects are to be planned.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub config: Arc<Config>,
    pub nodes: ProposedNodes,
    pub inputs: ProposedInputs,
}

/// The nodes of the proposed configuration.
#[derive(Clone, Debug)]
pub enum ProposedNodes {
    /// The proposal has the node sources of the configuration in force, so nothing would be read.
    Kept,
    Read(Arc<NodeTable>),
    /// The node sources cannot be read, for this reason.
    Failed(String),
}

/// The effects of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Why the configuration would not come into force. The rest is empty then.
    pub refused: Option<String>,
    /// The changes of the settings and jobs. API jobs are included, because they inherit from the settings.
    pub changes: Changes,
    pub nodes: NodeChanges,
    /// Why the nodes cannot be read; the nodes in force would stay.
    pub nodes_error: Option<String>,
    pub tasks: TasksPlan,
    /// Why nodes were not compared and starts not counted.
    pub not_counted: Option<String>,
    /// The problems that the configuration would add.
    pub problems: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Plan {
    /// Returns whether the configuration would change nothing.
    pub fn changes_nothing(&self) -> bool {
        self.refused.is_none()
            && self.changes.is_empty()
            && self.nodes.levels.is_empty()
            && self.not_counted.is_none()
            && self.tasks.changes_nothing()
    }
}

/// A copy of a scheduler at one moment. Events in the copy do not affect the scheduler.
#[derive(Clone)]
pub struct WhatIf {
    now: Time,
    copy: Scheduler,
    config: Option<Arc<Config>>,
    nodes: Option<Arc<NodeTable>>,
    owner: NodesOwner,
    problems: BTreeSet<String>,
    /// The running tasks, set at once if the copy has no tasks.
    runs: Option<Vec<RunNow>>,
    /// Why the copy has neither nodes nor tasks.
    not_counted: Option<String>,
}

impl WhatIf {
    pub(crate) fn of(scheduler: &Scheduler, now: Time) -> Self {
        Self::within(scheduler, now, MAX_PLANNED_BYTES)
    }

    /// Copies the scheduler, without nodes and tasks if the engine remembers more than `remembered` bytes.
    fn within(scheduler: &Scheduler, now: Time, remembered: usize) -> Self {
        let engine = scheduler.engine();
        let (config, nodes) = (engine.config().cloned(), engine.tables().last().cloned());
        let mut tables = engine.tables();
        let not_counted = tables
            .find_map(|table| too_large(config.as_deref(), Some(table)))
            .or_else(|| too_heavy(engine.remembered_bytes(), remembered));
        let (copy, runs) = match not_counted {
            None => (scheduler.to_try_out(), None),
            Some(_) => (
                thin_copy(scheduler, now),
                Some(scheduler.view().runs_now(now)),
            ),
        };
        WhatIf {
            now,
            copy,
            owner: scheduler.view().owner_of_newest_nodes(),
            problems: engine.problems().into_iter().collect(),
            config,
            nodes,
            runs,
            not_counted,
        }
    }

    /// Returns the immediate effects if the scheduler read this configuration and its nodes at the moment of the copy. Nodes that have been
    /// read count as in force, before and after.
    pub fn plan(mut self, proposal: Proposal) -> Plan {
        let now = self.now;
        if self.copy.is_settling() {
            self.copy.finish_refresh(now);
            self.problems = self.copy.engine().problems().into_iter().collect();
        }
        let Proposal {
            config,
            nodes,
            inputs,
        } = proposal;
        let runs = self
            .runs
            .take()
            .unwrap_or_else(|| self.copy.view().runs_now(now));
        if let ProposedNodes::Read(nodes) = &nodes
            && self.not_counted.is_none()
            && let Some(why) = too_large(Some(&config), Some(nodes))
        {
            self.copy = thin_copy(&self.copy, now);
            self.not_counted = Some(why);
        }
        let hopeless = tasks::hopeless(&self.copy);
        let event = Event::ConfigLoaded {
            config: Arc::clone(&config),
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        };
        self.copy.handle(now, event);
        let mut plan = Plan {
            refused: self.refusal(),
            not_counted: self.not_counted.clone(),
            ..Plan::default()
        };
        if plan.refused.is_some() {
            return plan;
        }
        plan.notes = self.notes(&config, &nodes);
        let (owner, table) = self.nodes_after(&config, &nodes);
        plan.nodes_error = self.load_nodes(config, nodes);
        self.copy.finish_refresh(now);
        plan.notes.extend(self.expiring_outputs(&inputs.kept));
        if let Some(after) = self.copy.engine().config() {
            plan.changes = changes(self.config.as_deref(), after);
            plan.notes.extend(self.stay_as_they_are(&plan.changes));
            let before = wanted(self.config.as_deref(), self.nodes.as_deref(), self.owner);
            let after = wanted(Some(after), table.as_deref(), owner);
            tasks::add_orphans(&mut plan.tasks, now, &runs, (before, after));
        }
        plan.nodes = match plan.not_counted {
            None => NodeChanges::between(self.nodes.as_deref(), table.as_deref()),
            Some(_) => NodeChanges::counts(self.nodes.as_deref(), table.as_deref()),
        };
        if plan.not_counted.is_none() {
            let mut lacking = LackingInputs::new(&inputs);
            let moment = (now, &hopeless);
            tasks::add_starts(&mut plan.tasks, &mut self.copy, moment, &mut lacking);
            plan.notes.extend(lacking.notes(&self.copy));
        }
        let problems = self.copy.engine().problems().into_iter();
        plan.problems = problems.filter(|p| !self.problems.contains(p)).collect();
        plan
    }

    fn refusal(&self) -> Option<String> {
        match self.copy.stepped_down() {
            Some(newer) => Some(format!(
                "this scheduler has stepped down for the newer instance {newer}"
            )),
            None => self.copy.jobs.refused_file(),
        }
    }

    fn has_sources_of(&self, config: &Config) -> bool {
        let before = self.config.as_ref();
        before.is_some_and(|before| has_same_nodes(before, config))
    }

    fn notes(&self, config: &Config, nodes: &ProposedNodes) -> Vec<String> {
        let mut notes = Vec::new();
        if !config.enabled {
            let note = "`enabled` is false in the settings: nothing would start, and no orphan would be ended but those of cancelled jobs";
            notes.push(note.to_owned());
        }
        match nodes {
            ProposedNodes::Read(table) if !self.has_sources_of(config) => {
                let note = "the node sources are others: until they are read, tasks may start on nodes that are in force now";
                notes.push(note.to_owned());
                let wall = self.copy.wall().as_millis();
                let schedules = schedules(table).take(MAX_SCHEDULES);
                notes.extend(schedules.map(|(_, schedule)| schedule.clause(wall)));
            }
            ProposedNodes::Read(_) | ProposedNodes::Kept | ProposedNodes::Failed(_) => {}
        }
        notes
    }

    /// Returns notes that name the changed jobs with failed and with done tasks: a user who changes a job may expect these to run again.
    fn stay_as_they_are(&self, changes: &Changes) -> Vec<String> {
        let engine = self.copy.engine();
        let jobs = changes.changed.iter();
        let counts = jobs.filter_map(|(job, _)| {
            let counts = engine.counts(engine.find_job(job.as_str())?);
            Some((job, counts))
        });
        let counts: Vec<_> = counts.collect();
        let note = |state: &str, remedy: &str, count: fn(&Counts) -> u64| {
            let of_job = |(job, counts): &(&JobName, Counts)| {
                let tasks = count(counts);
                (tasks > 0).then(|| format!("{tasks} of `{job}`"))
            };
            let jobs: Vec<String> = counts.iter().filter_map(of_job).collect();
            let named = jobs.len().min(MAX_NAMED_JOBS);
            let others = match jobs.len() - named {
                0 => String::new(),
                1 => " and those of 1 more job".to_owned(),
                others => format!(" and those of {others} more jobs"),
            };
            (named > 0).then(|| {
                format!(
                    "{state} tasks of changed jobs stay {state} until `brasserie job {remedy} JOB`: {}{others}",
                    jobs[..named].join(", ")
                )
            })
        };
        let failed = note("failed", "forgive", |counts| counts.failed);
        let done = note("done", "delete-history", |counts| counts.done);
        failed.into_iter().chain(done).collect()
    }

    /// Returns the nodes that would be in force once the proposal is loaded.
    fn nodes_after(
        &self,
        config: &Config,
        nodes: &ProposedNodes,
    ) -> (NodesOwner, Option<Arc<NodeTable>>) {
        match nodes {
            ProposedNodes::Read(nodes) => (NodesOwner::ThisConfig, Some(Arc::clone(nodes))),
            ProposedNodes::Kept if self.has_sources_of(config) => (self.owner, self.nodes.clone()),
            ProposedNodes::Kept | ProposedNodes::Failed(_) => {
                (NodesOwner::OtherConfig, self.nodes.clone())
            }
        }
    }

    /// Loads the nodes into the copy. Returns why the sources failed, if they did.
    fn load_nodes(&mut self, config: Arc<Config>, nodes: ProposedNodes) -> Option<String> {
        match nodes {
            ProposedNodes::Kept => None,
            ProposedNodes::Failed(message) => Some(message),
            ProposedNodes::Read(_) if self.not_counted.is_some() => None,
            ProposedNodes::Read(nodes) => {
                let event = Event::NodesLoaded { nodes, config };
                self.copy.handle(self.now, event);
                None
            }
        }
    }
}

impl View<'_> {
    /// Returns whether the newest nodes, in force or coming into force, are those of the configuration in force.
    fn owner_of_newest_nodes(&self) -> NodesOwner {
        let in_force = self.engine.nodes();
        let newest = self.engine.tables().last();
        let on_its_way =
            newest.filter(|newest| in_force.is_none_or(|nodes| !Arc::ptr_eq(nodes, newest)));
        match (on_its_way, self.engine.config()) {
            (Some(nodes), Some(config)) => self.nodes.owner_of(nodes, config),
            (Some(_), None) => NodesOwner::OtherConfig,
            (None, _) => self.engine.nodes_owner(),
        }
    }

    /// Returns all runs, by names.
    fn runs_now(&self, now: Time) -> Vec<RunNow> {
        let running = self.runs.running().map(|(task, run)| {
            let knows = self.wanted().is_known_of(task.job);
            let is_unwanted = self.wanted().why_not(task).is_some();
            let orphan = self.orphans.snapshot((task, run.invocation));
            // Some runs may not have been checked since the wanted tasks became known.
            let found_now = self
                .wanted()
                .kill_delay(task)
                .map(|_| OrphanNow::since(now));
            RunNow {
                task: task_key(&self.engine, task),
                shard: run.shard.clone(),
                invocation: run.invocation,
                is_unwanted: knows && is_unwanted,
                orphan: match knows {
                    true => orphan.filter(|_| is_unwanted).or(found_now),
                    false => orphan,
                },
            }
        });
        running.collect()
    }
}

/// Returns the configuration and the nodes by which the plan decides which tasks are wanted.
fn wanted<'a>(
    config: Option<&'a Config>,
    nodes: Option<&'a NodeTable>,
    owner: NodesOwner,
) -> tasks::PlanInputs<'a> {
    let is_enabled = config.is_some_and(|config| config.enabled);
    let are_known = is_enabled && owner == NodesOwner::ThisConfig;
    tasks::PlanInputs {
        config,
        nodes: nodes.filter(|_| are_known),
    }
}

impl fmt::Debug for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhatIf").finish_non_exhaustive()
    }
}

/// Two copies are equal if they have the same future.
impl PartialEq for WhatIf {
    fn eq(&self, other: &Self) -> bool {
        self.copy.fingerprint(self.now) == other.copy.fingerprint(other.now)
    }
}

/// Returns why the nodes or tasks are too many for a copy.
fn too_large(config: Option<&Config>, nodes: Option<&NodeTable>) -> Option<String> {
    // The instance node does not count.
    let nodes = nodes?.len() - 1;
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

/// Returns why the engine remembers too much for a copy. Nothing in force limits the size of the history.
fn too_heavy(bytes: usize, most: usize) -> Option<String> {
    let mebibytes = |bytes: usize| bytes.div_ceil(1024 * 1024);
    (bytes > most).then(|| {
        format!(
            "the names of nodes and jobs and how their tasks have ended, those that are gone included, take {} MiB here, and a plan copies \
             {} MiB at most; `brasserie job delete-history` takes ends away",
            mebibytes(bytes),
            mebibytes(most)
        )
    })
}

/// Returns a copy without nodes and tasks. It has only the state that decides whether a configuration comes into force, and how API jobs
/// are read under it.
fn thin_copy(scheduler: &Scheduler, now: Time) -> Scheduler {
    let options = scheduler.options.clone();
    let mut thin = Scheduler::new(options, Durable::default(), now, scheduler.wall());
    thin.jobs = scheduler.jobs.clone();
    thin.bulk_changes = scheduler.bulk_changes.clone();
    thin.stepped_down = scheduler.stepped_down;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brasserie_common::status::StoredStatus;
    use brasserie_common::{InvocationId, StatusBits, TaskKey, Timeouts, WallTime};
    use brasserie_scheduler_engine::Task;

    use super::*;
    use crate::record::{DeletionNumber, Forgotten};
    use crate::scheduler::Options;

    /// Returns a scheduler with no configuration and this many completions on nodes that no longer exist.
    fn with_history(ends: usize) -> Scheduler {
        let status = StoredStatus {
            bits: StatusBits::DONE,
            time: WallTime::from_secs(1),
            backoff_seconds: 0,
            safety_seconds: 0,
            data: None,
        };
        let key = |i: usize| TaskKey {
            job: "j".try_into().expect("a name"),
            node: format!("gone{i}").as_str().try_into().expect("a name"),
        };
        let run = InvocationId::new(1, 1);
        let forgotten = Forgotten {
            up_to: run,
            number: DeletionNumber(1),
        };
        let durable = Durable {
            statuses: (0..ends).map(|i| (key(i), (run, status.clone()))).collect(),
            forgotten: [(key(ends), forgotten)].into(),
            ..Durable::default()
        };
        let options = Options {
            timeouts: Timeouts::default(),
            allow_bump_unhealthy_worker: false,
            startup_wait: None,
            new_cluster: true,
            call_deadline: Duration::from_secs(1),
            work: crate::credits::RequestPolicy::default(),
            retention: crate::retention::Retention::UNLIMITED,
            slots: brasserie_scheduler_slots::SlotStrategy::RoundRobin,
            seed: 7,
        };
        Scheduler::new(options, durable, Time::ZERO, WallTime::from_secs(10))
    }

    #[test]
    fn what_is_remembered_of_nodes_that_are_gone_counts() {
        let scheduler = with_history(5000);
        let limit = 100_000;
        let heavy = WhatIf::within(&scheduler, Time::ZERO, limit);
        let why = heavy.not_counted.as_deref().unwrap_or_default();
        assert!(why.contains("gone") && why.contains("1 MiB"), "{why}");
        // Nothing of the history was copied.
        assert!(heavy.copy.engine().remembered_bytes() < limit / 10);
        let light = WhatIf::within(&with_history(50), Time::ZERO, limit);
        assert_eq!(light.not_counted, None);
        assert_eq!(WhatIf::of(&scheduler, Time::ZERO).not_counted, None);
    }

    /// The runs of completions take more memory than everything else, and only decide about workers' reports.
    #[test]
    fn whose_the_ends_are_is_not_copied() {
        let scheduler = with_history(3);
        let engine = scheduler.engine();
        let task = |node: &str| Task {
            job: engine.find_job("j").expect("a job of the history"),
            node: engine.find_node(node).expect("a node of the history"),
        };
        assert!(scheduler.runs.ended(task("gone0")).is_some());
        assert!(scheduler.runs.last_deleted(task("gone3")).is_some());
        let copy = WhatIf::of(&scheduler, Time::ZERO).copy;
        assert_eq!(copy.runs.last_ended(task("gone0")), None);
        assert_eq!(copy.runs.last_ended(task("gone3")), None);
        // The statuses are copied.
        assert!(copy.engine().previous_status(task("gone0")).is_some());
    }
}
