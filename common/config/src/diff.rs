//! Computes the difference between two configurations, in the words of the file.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::JobName;
use serde_json::{Map, Value, json};

use crate::export::{self, export_job};
use crate::model::{Config, JobConfig, LevelId, NodeSource, Resource, ResourceLimit};
use crate::settings;

/// The key of a job's variables.
const ENV: &str = "env";

/// A changed key. A side is `None` if the key is not set there and has no default.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyChange {
    /// The key as in `nodes.levels`.
    pub key: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// The difference between two configurations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub settings: Vec<KeyChange>,
    /// Added jobs in the order of the later file.
    pub added: Vec<JobName>,
    /// Removed jobs in the order of the earlier one.
    pub removed: Vec<JobName>,
    /// Changed jobs in the order of the later file. Values inherited from changed settings count.
    pub changed: Vec<(JobName, Vec<KeyChange>)>,
}

impl Changes {
    pub fn between(before: &Config, after: &Config) -> Self {
        let by_name = |config: &Config| -> BTreeMap<JobName, usize> {
            let jobs = config.jobs.iter().enumerate();
            jobs.map(|(i, job)| (job.name.clone(), i)).collect()
        };
        let (old, new) = (by_name(before), by_name(after));
        let mut changes = Changes {
            settings: key_changes(&settings_of(before), &settings_of(after)),
            ..Changes::default()
        };
        let sources = &before.node_sources;
        if *sources != after.node_sources {
            changes.settings.push(sources_change(before, after));
        }
        let gone = before
            .jobs
            .iter()
            .filter(|job| !new.contains_key(&job.name));
        changes.removed = gone.map(|job| job.name.clone()).collect();
        for job in &after.jobs {
            let Some(&at) = old.get(&job.name) else {
                changes.added.push(job.name.clone());
                continue;
            };
            let keys = key_changes(&job_of(before, &before.jobs[at]), &job_of(after, job));
            if !keys.is_empty() {
                changes.changed.push((job.name.clone(), keys));
            }
        }
        changes
    }

    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

fn key_changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<KeyChange> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changes = keys.into_iter().flat_map(|key| {
        let (before, after) = (before.get(key), after.get(key));
        // Compares variables one by one, because a job may have many of which one has changed.
        if let (ENV, Some(Value::Object(before)), Some(Value::Object(after))) =
            (key.as_str(), before, after)
        {
            let mut variables = key_changes(before, after);
            for variable in &mut variables {
                variable.key = format!("{ENV}.{}", variable.key);
            }
            return variables;
        }
        vec![KeyChange {
            key: key.clone(),
            before: before.cloned(),
            after: after.cloned(),
        }]
    });
    changes.filter(|c| c.before != c.after).collect()
}

fn job_of(config: &Config, job: &JobConfig) -> Map<String, Value> {
    match export_job(config, job) {
        Value::Object(keys) => keys,
        other => Map::from_iter([("job".to_owned(), other)]),
    }
}

/// Returns the settings without the node sources, which may be large.
fn settings_of(config: &Config) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    put("enabled", json!(config.enabled));
    put("nodes.levels", json!(config.levels));
    put(
        "nodes.node_order",
        json!(settings::order_name(config.node_order)),
    );
    put(
        "level_for_tasks",
        export::level_name(config, config.level_for_tasks),
    );
    put("scheduler", json!(settings::policy_name(config.policy)));
    let selector = settings::selector_name(config.worker_selector);
    put("remote_worker_selector", json!(selector));
    put("standby", json!(config.standby));
    put("backoff", export::backoff(&config.backoff));
    put("working_wait", json!(config.working_wait.as_secs_f64()));
    let orphans = config.kill_orphan_tasks_after;
    put("kill_orphan_tasks_after_sec", export::orphans(orphans));
    let subprocess = &config.task_subprocess;
    put("task_subprocess", export::task_subprocess(subprocess));
    put(
        "kill_subprocess",
        export::kill_subprocess(&config.kill_subprocess),
    );
    let until = config.exit_initial_wait_before_timestamp;
    put("CAUTION_exit_initial_wait_before_timestamp", json!(until));
    for resource in &config.resources {
        let level = config.levels.get(resource.level.index());
        let level = level.map_or("", String::as_str);
        put(
            &format!("resources.{level}.{}", resource.name),
            describe_resource(resource),
        );
    }
    let name = |id: usize| config.resources.get(id).map_or("", |r| r.name.as_str());
    for (worker, amounts) in &config.worker_resources_override {
        let amounts: BTreeMap<&str, i32> = amounts
            .iter()
            .map(|(id, amount)| (name(id.index()), *amount))
            .collect();
        put(
            &format!("worker_resources_override.{worker}"),
            json!(amounts),
        );
    }
    for entry in &config.physical_resources {
        let value = json!({
            "logical_resource": name(entry.logical_resource.index()),
            "multiply_logical_by": entry.multiply_logical_by,
            "enforcement": entry.enforcement.as_str(),
            "physical_reserve_amount": entry.physical_reserve_amount,
        });
        put(
            &format!("physical_resources.{}", entry.kind.as_str()),
            value,
        );
    }
    out
}

fn describe_resource(resource: &Resource) -> Value {
    let limit = match resource.limit {
        ResourceLimit::Fixed(limit) => json!(limit),
        ResourceLimit::ReportedCores => json!("as many as the worker reports cores"),
    };
    json!({"default": resource.default, "limit": limit, "weight": resource.weight})
}

fn sources_change(before: &Config, after: &Config) -> KeyChange {
    let describe = |config: &Config| -> Vec<String> {
        let sources = config.node_sources.iter();
        sources
            .map(|source| describe_source(source, &config.levels))
            .collect()
    };
    let (old, mut new) = (describe(before), describe(after));
    let pairs = before.node_sources.iter().zip(&after.node_sources);
    for ((was, is), (old, new)) in pairs.zip(old.iter().zip(&mut new)) {
        if was != is && old == new {
            new.push_str(", with other details");
        }
    }
    KeyChange {
        key: "nodes.node_sources".to_owned(),
        before: Some(json!(old)),
        after: Some(json!(new)),
    }
}

/// Returns a short description, because a manual source may have a million nodes.
fn describe_source(source: &NodeSource, levels: &[String]) -> String {
    let below = |level: LevelId| {
        let name = levels.get(level.index()).map_or("", String::as_str);
        format!("below level `{name}`")
    };
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    match source {
        NodeSource::Empty => "empty".to_owned(),
        NodeSource::Manual(nodes) => format!("manual, {}", count(nodes.nodes.len(), "node")),
        NodeSource::RangeLabel(range) => format!(
            "range_label {} from {} to {} {}",
            range.format,
            range.start,
            range.end,
            below(range.parent_level)
        ),
        NodeSource::Script(script) => format!(
            "script {} {}",
            script.script.display(),
            below(script.parent_level)
        ),
        NodeSource::AddTime(times) => format!(
            "add_time {} {}, {}",
            times.format,
            below(times.parent_level),
            count(times.schedule.len(), "item")
        ),
    }
}
