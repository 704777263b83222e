//! `bistro_settings` to a configuration that has no jobs yet.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{BackoffPolicy, KillRequest, TaskSubprocessOptions};

use crate::coerce::set;
use crate::model::{Config, LevelId, NodeOrder, SchedulerPolicy, WorkerSelector};
use crate::read::{At, Notes, suggest};
use crate::subprocess::{KILL_SUBPROCESS, kill_subprocess, task_subprocess};
use crate::{nodes, resources};

const KEYS: &[&str] = &[
    "enabled",
    "working_wait",
    "idle_wait",
    "scheduler",
    "remote_worker_selector",
    "backoff",
    "nodes",
    "node_order",
    "level_for_tasks",
    "resources",
    "worker_resources_override",
    "worker_resources_overrides",
    "physical_resources",
    "kill_orphan_tasks_after_sec",
    "task_subprocess",
    "kill_subprocess",
    "kill_request",
    "CAUTION_exit_initial_wait_before_timestamp",
];
const NODES_KEYS: &[&str] = &["levels", "node_order", "node_sources"];

/// The names of what replaces limits of single workers, the documented one second.
const OVERRIDES: &[&str] = &["worker_resources_override", "worker_resources_overrides"];

/// Configured levels: each is a column of every path and of every explanation; real forests have a handful.
pub const MAX_LEVELS: usize = 64;

const POLICIES: &[(&str, SchedulerPolicy)] = &[
    ("roundrobin", SchedulerPolicy::RoundRobin),
    ("ranked_priority", SchedulerPolicy::RankedPriority),
    ("randomized_priority", SchedulerPolicy::RandomizedPriority),
    ("long_tail", SchedulerPolicy::LongTail),
];
const SELECTORS: &[(&str, WorkerSelector)] = &[
    ("roundrobin", WorkerSelector::RoundRobin),
    ("busiest", WorkerSelector::Busiest),
];
const ORDERS: &[(&str, NodeOrder)] = &[
    ("original", NodeOrder::Original),
    ("lexicographic", NodeOrder::Lexicographic),
    ("random", NodeOrder::Random),
];

/// What holds where the file says nothing.
pub(crate) fn defaults() -> Config {
    Config {
        enabled: true,
        levels: vec!["instance".to_owned(), "worker".to_owned()],
        level_for_tasks: LevelId::INSTANCE,
        node_order: NodeOrder::default(),
        node_sources: Vec::new(),
        policy: SchedulerPolicy::default(),
        worker_selector: WorkerSelector::default(),
        backoff: BackoffPolicy::default(),
        resources: Vec::new(),
        worker_resources_override: BTreeMap::new(),
        kill_orphan_tasks_after: None,
        task_subprocess: TaskSubprocessOptions::default(),
        kill_subprocess: KillRequest::default(),
        working_wait: Duration::from_millis(500),
        physical_resources: Vec::new(),
        exit_initial_wait_before_timestamp: 0,
        jobs: Vec::new(),
    }
}

/// The configuration is whole even if there are errors, so that jobs can be checked against what is known.
pub(crate) fn parse(at: &At, notes: &mut Notes) -> Config {
    let mut config = defaults();
    if !at.expect_object(notes) {
        return config;
    }
    at.check_duplicates(notes);
    at.check_keys(KEYS, notes);
    let nodes = at.required(
        "nodes",
        "as in {\"levels\": [\"host\"], \"node_sources\": []}",
        notes,
    );
    if let Some(nodes) = &nodes
        && nodes.expect_object(notes)
    {
        nodes.check_keys(NODES_KEYS, notes);
        levels(nodes, &mut config, notes);
    }
    level_for_tasks(at, &mut config, notes);
    resources::resources(at.get("resources").as_ref(), &mut config, notes);
    if let Some(at) = at.get_alias(OVERRIDES, notes) {
        resources::overrides(&at, &mut config, notes);
    }
    if let Some(at) = at.get("physical_resources") {
        resources::physical(&at, &mut config, notes);
    }
    scalars(at, &mut config, notes);
    node_order(at, nodes.as_ref(), &mut config, notes);
    if let Some(nodes) = &nodes {
        nodes::sources(nodes, &mut config, notes);
    }
    config
}

fn scalars(at: &At, config: &mut Config, notes: &mut Notes) {
    if let Some(at) = at.get("enabled") {
        set(&mut config.enabled, at.boolean(notes));
    }
    if let Some(at) = at.get("working_wait") {
        set(&mut config.working_wait, at.seconds(notes));
    }
    if let Some(at) = at.get("idle_wait") {
        // Nothing waits while idle; the key is read so that a mistake in it shows.
        at.seconds(notes);
    }
    if let Some(at) = at.get("scheduler") {
        set(&mut config.policy, at.choice(POLICIES, notes));
    }
    if let Some(at) = at.get("remote_worker_selector") {
        set(&mut config.worker_selector, at.choice(SELECTORS, notes));
    }
    if let Some(at) = at.get("backoff") {
        set(&mut config.backoff, at.backoff(notes));
    }
    if let Some(at) = at.get("kill_orphan_tasks_after_sec") {
        set(
            &mut config.kill_orphan_tasks_after,
            at.never_or_seconds(notes),
        );
    }
    if let Some(at) = at.get("task_subprocess") {
        task_subprocess(&at, &mut config.task_subprocess, notes);
    }
    if let Some(at) = at.get_alias(KILL_SUBPROCESS, notes) {
        kill_subprocess(&at, &mut config.kill_subprocess, notes);
    }
    if let Some(at) = at.get("CAUTION_exit_initial_wait_before_timestamp") {
        set(
            &mut config.exit_initial_wait_before_timestamp,
            at.integer(i64::MIN..=i64::MAX, notes),
        );
    }
}

fn node_order(at: &At, nodes: Option<&At>, config: &mut Config, notes: &mut Notes) {
    let inner = nodes.and_then(|n| n.get("node_order"));
    let outer = at.get("node_order");
    if let (Some(_), Some(outer)) = (&inner, &outer) {
        notes.error(
            outer
                .key_problem("means the same as `nodes.node_order`")
                .help("keep one of them"),
        );
    }
    if let Some(order) = inner.or(outer) {
        set(&mut config.node_order, order.choice(ORDERS, notes));
    }
}

fn levels(nodes: &At, config: &mut Config, notes: &mut Notes) {
    let help = "an array of level names, top to bottom";
    let Some(at) = nodes.required("levels", help, notes) else {
        return;
    };
    if !at.expect_array("level names", notes) {
        return;
    }
    let mut names: Vec<String> = Vec::new();
    for item in at.items() {
        let Some(name) = item.name(notes) else {
            continue;
        };
        let problem = match name.as_str() {
            "instance" => Some("the level `instance` is always there, above all others"),
            "worker" => Some("the level `worker` is always there, below all others"),
            _ if names.contains(&name) => Some("the level is named twice"),
            _ if names.len() == MAX_LEVELS => {
                let text = format!("more than {MAX_LEVELS} levels");
                notes.error(item.problem(text));
                break;
            }
            _ => None,
        };
        match problem {
            Some(problem) => notes.error(item.problem(problem).help("remove it, or rename it")),
            None => names.push(name),
        }
    }
    let last = config.levels.len() - 1;
    config.levels.splice(last..last, names);
}

fn level_for_tasks(at: &At, config: &mut Config, notes: &mut Notes) {
    // The last one that is configured, or `instance`.
    let above_worker = config.worker_level().0.saturating_sub(1);
    config.level_for_tasks = LevelId(above_worker);
    if let Some(at) = at.get("level_for_tasks") {
        let level = task_level(&at, config, notes);
        set(&mut config.level_for_tasks, level);
    }
}

/// The level whose nodes a job has tasks on.
pub(crate) fn task_level(at: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let level = level(at, config, notes)?;
    if level == config.worker_level() {
        notes.warning(at.problem("no node is at the level `worker`, so there will be no task"));
    }
    Some(level)
}

/// A known level, named by a value.
pub(crate) fn level(at: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let name = at.string(notes)?;
    let level = config.level(&name);
    if level.is_none() && notes.error_is_kept() {
        let known = config.levels.iter().map(String::as_str);
        let help = suggest(&name, known);
        notes.error(
            at.problem(format!("there is no level {}", at.node))
                .help(help),
        );
    }
    level
}

/// A known level, named by the key of a value.
pub(crate) fn key_level(at: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let level = config.level(at.key());
    if level.is_none() && notes.error_is_kept() {
        let known = config.levels.iter().map(String::as_str);
        let help = suggest(at.key(), known);
        let name = crate::tree::quote(at.key());
        notes.error(
            at.key_problem(format!("there is no level {name}"))
                .value(name)
                .help(help),
        );
    }
    level
}
