//! Exports a job as JSON that reads back as the same job.

use std::time::Duration;

use brasserie_common::backoff::AfterLast;
use brasserie_common::{Arguments, BackoffPolicy, KillRequest, StatusFrom, TaskSubprocessOptions};
use serde_json::{Map, Value, json};

use crate::artifacts::{InputNodes, InputSource, JobInput, JobOutput, KeepOutputs, Replicas};
use crate::inputs::{AS, FILE, FROM, INPUTS, LOCALITY_WAIT, NODE};
use crate::jobs::{BUFFERABLE, CWD, DEADLINE, ENV, EST_DURATION, MAX_RUNNING, REPORT, TIMEOUT};
use crate::json;
use crate::limits;
use crate::model::{Config, Filter, JobConfig, LevelId};
use crate::outputs::{KEEP, KEEP_WORDS, OUTPUTS, PATH, REPLICAS, WAIT_FOR_REPLICA};
use crate::subprocess::KILL_METHODS;
use crate::waits::{AFTER_ALL, DEPENDS_ON, is_of_same_node, listed};

/// Returns a job as the value of `bistro_job->NAME`, for `config`'s levels and resources. Inherited settings are written out. Keys without
/// a value are left out if their default is the same everywhere, and so are the jobs for which the job waits only because of its inputs. The
/// exported value reads back as the same job, including its errors; an error is not found a second time.
pub fn export_job(config: &Config, job: &JobConfig) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    put("enabled", json!(job.enabled));
    put("owner", json!(job.owner));
    put("level_for_tasks", level_name(config, job.level_for_tasks));
    put("priority", json!(job.priority));
    // Invariant: the parser writes JSON objects there. Any other text is kept as a string, which a reader refuses.
    let config_object = json::value_of(&job.config);
    put(
        "config",
        config_object.map_or_else(|| json!(job.config), |n| n.to_json()),
    );
    put("backoff", backoff(&job.backoff));
    put(
        "kill_orphan_tasks_after_sec",
        orphans(job.kill_orphan_tasks_after),
    );
    put("task_subprocess", task_subprocess(&job.task_subprocess));
    put("kill_subprocess", kill_subprocess(&job.kill_subprocess));
    if !config.resources.is_empty() {
        let amounts = config.resources.iter().zip(&job.resources);
        let amounts: Map<String, Value> = amounts
            .map(|(r, &amount)| (r.name.clone(), json!(amount)))
            .collect();
        put("resources", Value::Object(amounts));
    }
    rarely_set(config, job, &mut out);
    Value::Object(out)
}

fn rarely_set(config: &Config, job: &JobConfig, out: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), value);
        }
    };
    let filters: Map<String, Value> = job
        .filters
        .iter()
        .filter_map(|(level, f)| Some((config.levels.get(level.index())?.clone(), filter(f))))
        .collect();
    put("filters", (!filters.is_empty()).then_some(json!(filters)));
    let placement = job.level_for_host_placement;
    put(
        "level_for_host_placement",
        placement.map(|l| level_name(config, l)),
    );
    put(
        "host_placement",
        job.host_placement.as_ref().map(|h| json!(h)),
    );
    let after_all = &job.run_only_after_all_nodes_are_done_for;
    for (key, names) in [
        (
            DEPENDS_ON,
            listed(&job.depends_on, &job.inputs, is_of_same_node),
        ),
        (
            AFTER_ALL,
            listed(after_all, &job.inputs, |nodes| !is_of_same_node(nodes)),
        ),
    ] {
        let names: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
        put(key, (!names.is_empty()).then_some(json!(names)));
    }
    put(
        "create_time",
        (job.create_time != 0).then_some(json!(job.create_time)),
    );
    put(
        "modify_time",
        (job.modify_time != 0).then_some(json!(job.modify_time)),
    );
    put(
        "version_id",
        (job.version_id != -1).then_some(json!(job.version_id)),
    );
    put(
        "command",
        (!job.command.is_empty()).then_some(json!(job.command)),
    );
    put(
        "errors",
        (!job.errors.is_empty()).then_some(json!(job.errors)),
    );
    process(job, &mut put);
}

/// Puts the keys of the task's process that differ from their defaults.
fn process(job: &JobConfig, put: &mut impl FnMut(&str, Option<Value>)) {
    let status_from = job.status_from();
    put(
        "status_from",
        (status_from != StatusFrom::default()).then_some(json!(status_from.as_str())),
    );
    let arguments = job.arguments();
    put(
        "arguments",
        (arguments != Arguments::default()).then_some(json!(arguments.as_str())),
    );
    for (key, span) in [
        (TIMEOUT, job.timeout()),
        (DEADLINE, job.deadline()),
        (EST_DURATION, job.est_duration),
    ] {
        put(key, span.map(|span| json!(span.as_secs_f64())));
    }
    let options = &job.task_subprocess;
    let environment = &options.environment;
    put(ENV, (!environment.is_empty()).then_some(json!(environment)));
    put(
        CWD,
        options.working_directory.as_ref().map(|path| json!(path)),
    );
    put(MAX_RUNNING, job.max_running.map(|most| json!(most)));
    put(BUFFERABLE, job.bufferable.then_some(json!(true)));
    put(REPORT, job.report.map(|policy| json!(policy.as_str())));
    artifacts(job, put);
}

/// Puts the outputs and inputs of the job.
fn artifacts(job: &JobConfig, put: &mut impl FnMut(&str, Option<Value>)) {
    let outputs: Vec<Value> = job.outputs.iter().map(output).collect();
    // A job with outputs has its `keep` written out, so that a comparison of two jobs shows both values.
    let has_keep = !outputs.is_empty() || job.keep != KeepOutputs::default();
    put(OUTPUTS, (!outputs.is_empty()).then_some(json!(outputs)));
    put(KEEP, has_keep.then(|| keep(job.keep)));
    let inputs: Vec<Value> = job.inputs.iter().map(input).collect();
    put(INPUTS, (!inputs.is_empty()).then_some(json!(inputs)));
    let wait = job.locality_wait;
    put(
        LOCALITY_WAIT,
        (!wait.is_zero()).then(|| json!(wait.as_secs_f64())),
    );
}

fn input(input: &JobInput) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, text: &str| out.insert(key.to_owned(), json!(text));
    match &input.source {
        InputSource::Job { job, nodes, path } => {
            put(FROM, job.as_str());
            if *nodes != InputNodes::default() {
                put(NODE, nodes.as_str());
            }
            if let Some(path) = path {
                put(PATH, path.as_str());
            }
        }
        InputSource::File { path } => {
            put(FILE, path);
        }
    }
    if let Some(name) = &input.name {
        put(AS, name.as_str());
    }
    Value::Object(out)
}

/// Returns the path of an output, or an object if there is more than the path.
fn output(output: &JobOutput) -> Value {
    let path = output.path.as_str();
    if *output == JobOutput::new(output.path.clone()) {
        return json!(path);
    }
    let mut out = Map::from_iter([(PATH.to_owned(), json!(path))]);
    if output.replicas != Replicas::ONE {
        out.insert(REPLICAS.to_owned(), json!(output.replicas.get()));
    }
    if output.wait_for_replica {
        out.insert(WAIT_FOR_REPLICA.to_owned(), json!(true));
    }
    Value::Object(out)
}

fn keep(keep: KeepOutputs) -> Value {
    match keep {
        KeepOutputs::For(time) => json!(time.as_secs_f64()),
        KeepOutputs::UntilConsumed | KeepOutputs::WhileHeld | KeepOutputs::Forever => {
            let word = KEEP_WORDS.iter().find(|(_, value)| *value == keep);
            json!(word.map(|(word, _)| *word))
        }
    }
}

pub(crate) fn level_name(config: &Config, level: LevelId) -> Value {
    json!(config.levels.get(level.index()))
}

pub(crate) fn backoff(policy: &BackoffPolicy) -> Value {
    let mut items: Vec<Value> = policy.values().iter().map(|v| json!(v)).collect();
    items.push(json!(match policy.after_last() {
        AfterLast::Repeat => "repeat",
        AfterLast::Fail => "fail",
    }));
    Value::Array(items)
}

pub(crate) fn orphans(after: Option<Duration>) -> Value {
    match after {
        None => json!(false),
        Some(after) => json!(after.as_secs_f64()),
    }
}

fn milliseconds(duration: Duration) -> Value {
    json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) fn task_subprocess(options: &TaskSubprocessOptions) -> Value {
    let mut out = json!({
        "poll_ms": milliseconds(options.poll),
        "max_log_lines_per_poll_interval": options.max_log_lines_per_poll_interval,
        "max_log_bytes_per_poll_interval": options.max_log_bytes_per_poll_interval,
        "log_overflow": options.log_overflow.as_str(),
        "output": options.output.as_str(),
        "parent_death_signal": options.parent_death_signal,
        "process_group_leader": options.process_group_leader,
        "use_canary_pipe": options.use_canary_pipe,
        "cgroups": {
            "root": options.cgroups.root,
            "slice": options.cgroups.slice,
            "subsystems": options.cgroups.subsystems,
            "kill_without_freezer": options.cgroups.kill_without_freezer,
            "pids_max": options.cgroups.pids_max,
        },
    });
    if let Some(out) = out.as_object_mut() {
        limits::export(options, out);
    }
    out
}

pub(crate) fn kill_subprocess(request: &KillRequest) -> Value {
    let method = KILL_METHODS
        .iter()
        .find(|(_, method)| *method == request.method);
    json!({
        "method": method.map(|(name, _)| *name),
        "kill_wait_ms": milliseconds(request.wait),
    })
}

fn filter(filter: &Filter) -> Value {
    let mut out = Map::new();
    for (key, list) in [
        ("whitelist", &filter.whitelist),
        ("blacklist", &filter.blacklist),
        ("tag_whitelist", &filter.tag_whitelist),
    ] {
        if !list.is_empty() {
            out.insert(key.to_owned(), json!(list));
        }
    }
    for (key, pattern) in [
        ("whitelist_regex", &filter.whitelist_regex),
        ("blacklist_regex", &filter.blacklist_regex),
    ] {
        if !pattern.is_empty() {
            out.insert(key.to_owned(), json!(pattern));
        }
    }
    if filter.fraction_of_nodes != 1.0 {
        out.insert(
            "fraction_of_nodes".to_owned(),
            json!(filter.fraction_of_nodes),
        );
    }
    Value::Object(out)
}
