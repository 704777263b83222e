//! Converts a job of the original service to the JSON of a config file, so that one parser checks both.

use brasserie_common::Bound;
use brasserie_thrift::generated::common::{
    CGroupOptions, KillMethod, KillRequest, ResourceLimit, TaskSubprocessOptions,
};
use brasserie_thrift::generated::scheduler::{BistroJobConfig, BistroJobConfigFilters};
use serde_json::{Map, Value, json};

/// Why a job has no JSON form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ImportError {
    #[error("saveJob.job.{field}: it is not JSON: {error}")]
    NotJson { field: &'static str, error: String },
    #[error(
        "saveJob.job.killRequest.method: {0} is not allowed; allowed is 1 (TERM_WAIT_KILL), 2 (KILL) or 3 (TERM)"
    )]
    KillMethod(i32),
    #[error("saveJob.job.taskSubprocessOptions.limits: {0:?} is there twice")]
    LimitTwice(String),
}

/// Returns the job's JSON text without its name. Omits the empty fields for which the settings have defaults.
pub(super) fn job(job: BistroJobConfig) -> Result<String, ImportError> {
    let (backoff, further) = (backoff(&job), further(&job));
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("enabled", json!(job.enabled.unwrap_or(false)));
    put("owner", json!(job.owner.unwrap_or_default()));
    put("priority", json!(job.priority.map_or(1.0, f64::from)));
    let config = job.config.filter(|text| !text.is_empty());
    let config = config.map(|text| from_json("config", &text)).transpose()?;
    put("config", config.unwrap_or_else(|| json!({})));
    let orphans = job.kill_orphan_tasks_after_sec.map(f64::from);
    put(
        "kill_orphan_tasks_after_sec",
        orphans.map_or(json!(false), |seconds| json!(seconds)),
    );
    let errors = job.error.filter(|text| !text.is_empty());
    if let Some(errors) = errors {
        put("errors", from_json("error", &errors)?);
    }
    if let Some(version) = job.version_id.filter(|&version| version != -1) {
        put("version_id", json!(version));
    }
    for (key, text) in [
        ("level_for_tasks", job.level_for_tasks),
        ("level_for_host_placement", job.level_for_host_placement),
        ("host_placement", job.host_placement),
        ("status_from", job.status_from),
        ("arguments", job.arguments),
        ("report", job.report),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            put(key, json!(text));
        }
    }
    for (key, names) in [
        ("depends_on", job.depends_on),
        ("command", job.command),
        (
            "run_only_after_all_nodes_are_done_for",
            job.run_only_after_all_nodes_are_done_for,
        ),
    ] {
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            put(key, json!(names));
        }
    }
    for (key, value) in further {
        put(key, value);
    }
    if let Some(bufferable) = job.bufferable {
        put("bufferable", json!(bufferable));
    }
    if let Some(resources) = job.resources.filter(|resources| !resources.is_empty()) {
        put("resources", json!(resources));
    }
    if let Some(filters) = job.filters.filter(|filters| !filters.is_empty()) {
        let filters = filters.into_iter().map(|(level, f)| (level, filter(f)));
        put("filters", Value::Object(filters.collect()));
    }
    if let Some(backoff) = backoff {
        put("backoff", Value::Array(backoff));
    }
    if let Some(options) = job.task_subprocess_options {
        put("task_subprocess", task_subprocess(options)?);
    }
    if let Some(request) = job.kill_request {
        put("kill_subprocess", kill_subprocess(&request)?);
    }
    Ok(Value::Object(fields).to_string())
}

/// Returns the keys for run times in seconds, `max_running`, working directory and environment.
fn further(job: &BistroJobConfig) -> Vec<(&'static str, Value)> {
    let times = [
        ("timeout", job.timeout_sec),
        ("deadline", job.deadline_sec),
        ("est_duration", job.est_duration_sec),
    ];
    let times = times.into_iter();
    let times = times.filter_map(|(key, seconds)| Some((key, json!(f64::from(seconds?)))));
    let options = job.task_subprocess_options.as_ref();
    let environment = options.and_then(|options| options.environment.as_ref());
    let directory = options.and_then(|options| options.working_directory.as_ref());
    let others = [
        ("max_running", job.max_running.map(|most| json!(most))),
        ("env", environment.map(|all| json!(all))),
        ("cwd", directory.map(|path| json!(path))),
    ];
    let others = others.into_iter();
    times
        .chain(others.filter_map(|(key, value)| Some((key, value?))))
        .collect()
}

/// Returns `None` if the backoff is empty, so that the settings apply. `["fail"]` is not empty, and only `backoff_fail` tells the two
/// apart.
fn backoff(job: &BistroJobConfig) -> Option<Vec<Value>> {
    let values = job.backoff_values.iter().flatten();
    let mut backoff: Vec<Value> = values.map(|v| json!(v)).collect();
    match (job.backoff_repeat, job.backoff_fail) {
        (Some(true), _) if !backoff.is_empty() => backoff.push(json!("repeat")),
        (_, Some(true)) => backoff.push(json!("fail")),
        (_, _) => {}
    }
    (!backoff.is_empty()).then_some(backoff)
}

fn from_json(field: &'static str, text: &str) -> Result<Value, ImportError> {
    serde_json::from_str(text).map_err(|error| ImportError::NotJson {
        field,
        error: error.to_string(),
    })
}

/// Returns an object of the fields that have a value.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let said = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(said.collect())
}

fn filter(filter: BistroJobConfigFilters) -> Value {
    let names = |names: Option<std::collections::BTreeSet<String>>| {
        names.filter(|names| !names.is_empty()).map(|n| json!(n))
    };
    let pattern = |text: Option<String>| text.filter(|t| !t.is_empty()).map(|t| json!(t));
    let fraction = filter.fraction_of_nodes.map(f64::from);
    object([
        ("whitelist", names(filter.whitelist)),
        ("whitelist_regex", pattern(filter.whitelist_regex)),
        ("blacklist", names(filter.blacklist)),
        ("blacklist_regex", pattern(filter.blacklist_regex)),
        ("tag_whitelist", names(filter.tag_whitelist)),
        (
            "fraction_of_nodes",
            fraction.filter(|f| *f != 1.0).map(|f| json!(f)),
        ),
    ])
}

fn task_subprocess(options: TaskSubprocessOptions) -> Result<Value, ImportError> {
    let cgroups = |groups: CGroupOptions| {
        object([
            ("root", groups.root.map(|v| json!(v))),
            ("slice", groups.slice.map(|v| json!(v))),
            ("subsystems", groups.subsystems.map(|v| json!(v))),
            (
                "kill_without_freezer",
                groups.kill_without_freezer.map(|v| json!(v)),
            ),
            ("pids_max", groups.pids_max.map(|v| json!(v))),
        ])
    };
    Ok(object([
        ("poll_ms", options.poll_ms.map(|v| json!(v))),
        (
            "max_log_lines_per_poll_interval",
            options.max_log_lines_per_poll_interval.map(|v| json!(v)),
        ),
        (
            "max_log_bytes_per_poll_interval",
            options.max_log_bytes_per_poll_interval.map(|v| json!(v)),
        ),
        ("log_overflow", options.log_overflow.map(|v| json!(v))),
        ("output", options.output.map(|v| json!(v))),
        (
            "parent_death_signal",
            options.parent_death_signal.map(|v| json!(v)),
        ),
        (
            "process_group_leader",
            options.process_group_leader.map(|v| json!(v)),
        ),
        ("use_canary_pipe", options.use_canary_pipe.map(|v| json!(v))),
        ("cgroups", options.cgroup_options.map(cgroups)),
        ("limits", options.limits.map(limits).transpose()?),
        ("user", options.user.map(|v| json!(v))),
        ("group", options.group.map(|v| json!(v))),
    ]))
}

/// Returns the limits in the format of the config file. The file's parser refuses invalid numbers.
fn limits(limits: Vec<ResourceLimit>) -> Result<Value, ImportError> {
    let bound = |number: Option<i64>| match number.and_then(Bound::from_number) {
        Some(Bound::Unlimited) => json!(Bound::UNLIMITED),
        Some(Bound::At(amount)) => json!(amount),
        None => json!(number),
    };
    let mut all = Map::new();
    for limit in limits {
        let both = json!({"soft": bound(limit.soft), "hard": bound(limit.hard)});
        let name = limit.name.unwrap_or_default();
        if all.insert(name.clone(), both).is_some() {
            return Err(ImportError::LimitTwice(name));
        }
    }
    Ok(Value::Object(all))
}

fn kill_subprocess(request: &KillRequest) -> Result<Value, ImportError> {
    let method = match request.method {
        None => None,
        Some(KillMethod::TERM_WAIT_KILL) => Some("term_wait_kill"),
        Some(KillMethod::KILL) => Some("kill"),
        Some(KillMethod::TERM) => Some("term"),
        Some(KillMethod(other)) => return Err(ImportError::KillMethod(other)),
    };
    Ok(object([
        ("method", method.map(|v| json!(v))),
        // The interface promises that a wait of zero or less kills at once.
        (
            "kill_wait_ms",
            request.kill_wait_ms.map(|ms| json!(ms.max(0))),
        ),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::export;
    use brasserie_common_config::{JobConfig, ParseOptions, parse, parse_job};

    /// Every field is set, and differs from the settings.
    const FILE: &str = r#"{
        "bistro_settings": {
            "nodes": {"levels": ["host", "db"], "node_sources": []},
            "resources": {"host": {"disk": {"default": 2, "limit": 9}}, "worker": {"slots": {"default": 1, "limit": 2}}},
            "backoff": [7, "repeat"],
            "kill_orphan_tasks_after_sec": 12
        },
        "bistro_job->full": {
            "enabled": false, "owner": "ann", "level_for_tasks": "host", "priority": 2.5,
            "resources": {"disk": 3, "slots": 0}, "config": {"a": [1, {"b": null}]},
            "filters": {"db": {"whitelist": ["x"], "whitelist_regex": "x+", "blacklist": ["y"], "blacklist_regex": "^y",
                "tag_whitelist": ["t"], "fraction_of_nodes": 0.5}},
            "level_for_host_placement": "host", "host_placement": "h", "backoff": [1, 2, 2, "fail"], "depends_on": ["plain"],
            "run_only_after_all_nodes_are_done_for": ["plain", "never"],
            "kill_orphan_tasks_after_sec": 1.5, "command": ["/bin/true", "x"],
            "task_subprocess": {"poll_ms": 20, "max_log_lines_per_poll_interval": 7,
                "max_log_bytes_per_poll_interval": 9, "log_overflow": "drop", "output": "file", "parent_death_signal": 15,
                "process_group_leader": true, "use_canary_pipe": false,
                "cgroups": {"root": "r", "slice": "s", "subsystems": ["cpu"], "kill_without_freezer": true, "pids_max": 8},
                "limits": {"nofile": 5, "core": {"soft": 0, "hard": "unlimited"}}, "user": "ann", "group": "g"},
            "kill_subprocess": {"method": "term_wait_kill", "kill_wait_ms": 5},
            "version_id": 3, "status_from": "exit_code", "arguments": "none", "timeout": 1.5, "deadline": 2.25,
            "est_duration": 3.5, "bufferable": true, "report": "lazy",
            "env": {"A": "b=c", "E": ""}, "cwd": "/data", "max_running": 3
        },
        "bistro_job->plain": {},
        "bistro_job->never": {"backoff": ["fail"], "kill_orphan_tasks_after_sec": false},
        "bistro_job->broken": {"resources": {"nothing": 1}}
    }"#;

    #[test]
    fn what_is_exported_comes_back_as_the_same_job() {
        let config = parse(FILE, ParseOptions::default()).unwrap().config;
        for original in &config.jobs {
            let text = job(export::job(&config, original)).unwrap();
            let back = parse_job(&original.name, &text, &config, ParseOptions::default()).unwrap();
            let errors = original.errors.is_empty();
            assert_eq!(back.problems.is_empty(), errors, "{text}");
            let is_unknown =
                |warning: &brasserie_common_config::Problem| warning.message.contains("unknown");
            assert!(!back.warnings.iter().any(is_unknown), "{text}");
            let expected = JobConfig {
                errors: back.job.errors.clone(),
                ..brasserie_common_config::JobConfig::clone(original)
            };
            assert_eq!(back.job, expected, "{text}");
        }
    }

    #[test]
    fn a_job_that_says_nothing_is_disabled_and_inherits() {
        let config = parse(FILE, ParseOptions::default()).unwrap().config;
        let text = job(BistroJobConfig::default()).unwrap();
        let name = brasserie_common::JobName::try_from("new").unwrap();
        let parsed = parse_job(&name, &text, &config, ParseOptions::default()).unwrap();
        assert_eq!(parsed.problems, [], "{text}");
        assert!(!parsed.job.enabled);
        assert_eq!(parsed.job.backoff, config.backoff);
        assert_eq!(parsed.job.resources, [2, 1]);
        // The interface defines an unset field as never.
        assert_eq!(parsed.job.kill_orphan_tasks_after, None);
    }

    #[test]
    fn what_cannot_be_said_in_json_names_its_field() {
        let bad = |change: fn(&mut BistroJobConfig)| {
            let mut wire = BistroJobConfig::default();
            change(&mut wire);
            job(wire).unwrap_err().to_string()
        };
        assert!(bad(|j| j.config = Some("{".to_owned())).starts_with("saveJob.job.config: "));
        assert!(bad(|j| j.error = Some("x".to_owned())).starts_with("saveJob.job.error: "));
        let method = |j: &mut BistroJobConfig| {
            j.kill_request = Some(KillRequest {
                method: Some(KillMethod(9)),
                kill_wait_ms: None,
                reason: None,
            });
        };
        assert!(bad(method).contains("9 is not allowed"));
        let twice: fn(&mut BistroJobConfig) = |job| {
            let limit = |soft| ResourceLimit {
                name: Some("nofile".to_owned()),
                soft: Some(soft),
                hard: Some(soft),
            };
            job.task_subprocess_options = Some(TaskSubprocessOptions {
                limits: Some(vec![limit(5), limit(6)]),
                ..TaskSubprocessOptions::default()
            });
        };
        assert!(bad(twice).contains("\"nofile\" is there twice"));
    }
}
