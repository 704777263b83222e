//! Parses `bistro_settings` to a configuration without jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{BackoffPolicy, KillRequest, TaskSubprocessOptions};

use crate::coerce::set;
use crate::keys::{INT64, Key, Shape, names};
use crate::levels::task_level;
use crate::model::{Config, LevelId, NodeOrder, SchedulerPolicy, WorkerSelector};
use crate::read::{At, Notes};
use crate::subprocess::{self, KILL_SUBPROCESS, kill_subprocess, task_subprocess};
use crate::{nodes, resources};

pub(crate) const KEYS: &[Key] = &[
    Key::new("enabled", Shape::Truth, "With `false`, no new task starts."),
    Key::new(
        "working_wait",
        Shape::Duration,
        "The wait before a task runs again that ended without backoff and is neither done nor failed.",
    ),
    Key::new("idle_wait", Shape::Any, subprocess::NO_EFFECT),
    Key::new(
        "scheduler",
        Shape::Words(|| names(POLICIES)),
        "The policy that chooses the next job.",
    ),
    Key::new(
        "remote_worker_selector",
        Shape::Words(|| names(SELECTORS)),
        "The rule that chooses the worker of a task.",
    ),
    Key::new(
        "standby",
        Shape::Truth,
        "With `false`, no task is sent to a worker before slots are free there.",
    ),
    Key::new(
        "backoff",
        Shape::Backoff,
        "The waits after the first, second and further errors of a task. The last item is `repeat` or `fail`.",
    ),
    Key::required(
        "nodes",
        Shape::Fields(NODES_KEYS),
        "The nodes: the pieces of data for which tasks run.",
    ),
    Key::new("node_order", ORDER, "The same as `nodes.node_order`."),
    Key::new(
        "level_for_tasks",
        Shape::Name,
        "The level on whose nodes jobs have their tasks.",
    ),
    Key::new(
        "resources",
        resources::RESOURCES,
        "The slots of each node of a level, by level and resource.",
    ),
    Key::new(
        "worker_resources_override",
        resources::OVERRIDES,
        "Limits of single workers, by HOST:PORT, HOST or SHARD.",
    ),
    Key::new(
        "worker_resources_overrides",
        resources::OVERRIDES,
        "The same as `worker_resources_override`.",
    ),
    Key::new(
        "physical_resources",
        resources::PHYSICAL,
        "Limits of resources that follow the hardware of a worker's machine.",
    ),
    subprocess::ORPHANS_KEY,
    subprocess::TASK_KEY,
    subprocess::KILL_KEY,
    subprocess::KILL_ALIAS_KEY,
    Key::new(
        "CAUTION_exit_initial_wait_before_timestamp",
        INT64,
        "A Unix time in the future ends the initial wait. Tasks may then run twice.",
    ),
];
const NODES_KEYS: &[Key] = &[
    Key::required(
        "levels",
        Shape::List(&Shape::Name),
        "The names of the levels, from top to bottom.",
    ),
    Key::new(
        "node_order",
        ORDER,
        "The order in which the scheduler tries nodes.",
    ),
    Key::new(
        "node_sources",
        nodes::SOURCES_SHAPE,
        "The sources of nodes, in order.",
    ),
    Key::new(
        "node_source",
        Shape::Words(nodes::source_names),
        "The kind of a source that precedes those of `node_sources`.",
    ),
    Key::new(
        "node_source_prefs",
        Shape::AnyObject,
        "The preferences of `node_source`.",
    ),
];
const ORDER: Shape = Shape::Words(|| names(ORDERS));

/// The names of the key that replaces limits of single workers; the documented one is second.
const OVERRIDES: &[&str] = &["worker_resources_override", "worker_resources_overrides"];

/// The number of configured levels. Each is a column of every path and of every explanation; real forests have a few.
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
    ("neediest", WorkerSelector::Neediest),
];
const ORDERS: &[(&str, NodeOrder)] = &[
    ("original", NodeOrder::Original),
    ("lexicographic", NodeOrder::Lexicographic),
    ("random", NodeOrder::Random),
];

fn name_of<T: PartialEq>(names: &'static [(&'static str, T)], value: &T) -> &'static str {
    let found = names.iter().find(|(_, named)| named == value);
    // Invariant: the tables name every variant.
    found.map_or("", |(name, _)| name)
}

pub(crate) fn policy_name(policy: SchedulerPolicy) -> &'static str {
    name_of(POLICIES, &policy)
}

pub(crate) fn selector_name(selector: WorkerSelector) -> &'static str {
    name_of(SELECTORS, &selector)
}

pub(crate) fn order_name(order: NodeOrder) -> &'static str {
    name_of(ORDERS, &order)
}

/// Returns the configuration of an empty file.
pub(crate) fn defaults() -> Config {
    Config {
        enabled: true,
        levels: vec!["instance".to_owned(), "worker".to_owned()],
        level_for_tasks: LevelId::INSTANCE,
        node_order: NodeOrder::default(),
        node_sources: Vec::new().into(),
        policy: SchedulerPolicy::default(),
        worker_selector: WorkerSelector::default(),
        standby: true,
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

/// Parses the settings. The result is complete even if there are errors, so that jobs can be checked against it.
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
        set(&mut config.working_wait, at.duration(notes));
    }
    if let Some(at) = at.get("idle_wait") {
        notes.warning(
            at.key_problem("has no effect")
                .help("nothing waits while there is nothing to do; remove the key"),
        );
    }
    if let Some(at) = at.get("scheduler") {
        set(&mut config.policy, at.choice(POLICIES, notes));
    }
    if let Some(at) = at.get("remote_worker_selector") {
        set(&mut config.worker_selector, at.choice(SELECTORS, notes));
    }
    if let Some(at) = at.get("standby") {
        set(&mut config.standby, at.boolean(notes));
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
            _ if names.contains(&name) => {
                let help = "the first counts; remove the other";
                notes.warning(item.problem("the level is named twice").help(help));
                continue;
            }
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
    // The default is the last configured level, or `instance`.
    let above_worker = config.worker_level().0.saturating_sub(1);
    config.level_for_tasks = LevelId(above_worker);
    if let Some(at) = at.get("level_for_tasks") {
        let level = task_level(&at, config, notes);
        set(&mut config.level_for_tasks, level);
    }
}
