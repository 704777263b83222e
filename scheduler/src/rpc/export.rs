//! Converts a job of the configuration to the original service's format.

use brasserie_common::backoff::AfterLast;
use brasserie_common_config::{Config, Filter, JobConfig, LevelId};
use brasserie_thrift::generated::scheduler::{BistroJobConfig, BistroJobConfigFilters};

pub(super) fn job(config: &Config, job: &JobConfig) -> BistroJobConfig {
    let level = |id: LevelId| config.levels.get(id.index()).cloned().unwrap_or_default();
    let resources = config
        .resources
        .iter()
        .zip(&job.resources)
        .map(|(r, &amount)| (r.name.clone(), amount));
    let filters = job.filters.iter().map(|(&id, f)| (level(id), filter(f)));
    BistroJobConfig {
        name: Some(job.name.as_str().to_owned()),
        enabled: Some(job.enabled),
        owner: Some(job.owner.clone()),
        resources: Some(resources.collect()),
        config: Some(job.config.clone()),
        priority: Some(job.priority.into()),
        filters: Some(filters.collect()),
        error: Some(errors(&job.errors)),
        // A backoff policy's values are at most i32::MAX.
        backoff_values: Some(
            job.backoff
                .values()
                .iter()
                .map(|&v| v.cast_signed())
                .collect(),
        ),
        backoff_repeat: Some(job.backoff.after_last() == AfterLast::Repeat),
        create_time: Some(job.create_time),
        modify_time: Some(job.modify_time),
        level_for_tasks: Some(level(job.level_for_tasks)),
        level_for_host_placement: Some(job.level_for_host_placement.map(level).unwrap_or_default()),
        depends_on: Some(
            job.depends_on
                .iter()
                .map(|name| name.as_str().to_owned())
                .collect(),
        ),
        host_placement: Some(job.host_placement.clone().unwrap_or_default()),
        kill_orphan_tasks_after_sec: job.kill_orphan_tasks_after.map(|d| d.as_secs_f64().into()),
        version_id: Some(job.version_id),
        task_subprocess_options: Some(job.task_subprocess.clone().into()),
        kill_request: Some(job.kill_subprocess.into()),
        command: Some(job.command.clone()),
        backoff_fail: Some(job.backoff.after_last() == AfterLast::Fail),
        run_only_after_all_nodes_are_done_for: Some(
            job.run_only_after_all_nodes_are_done_for
                .iter()
                .map(|name| name.as_str().to_owned())
                .collect(),
        ),
        timeout_sec: job.timeout().map(|t| t.as_secs_f64().into()),
        status_from: Some(job.status_from().as_str().to_owned()),
        arguments: Some(job.arguments().as_str().to_owned()),
        deadline_sec: job.deadline().map(|d| d.as_secs_f64().into()),
        est_duration_sec: job.est_duration.map(|d| d.as_secs_f64().into()),
        bufferable: Some(job.bufferable),
        report: job.report.map(|policy| policy.as_str().to_owned()),
        max_running: job
            .max_running
            .map(|most| i32::try_from(most).unwrap_or(i32::MAX)),
    }
}

/// Returns the errors as JSON, the format of the field; empty if the job has none.
fn errors(errors: &[String]) -> String {
    match errors {
        [] => String::new(),
        errors => serde_json::json!({ "error": errors.join("\n") }).to_string(),
    }
}

fn filter(filter: &Filter) -> BistroJobConfigFilters {
    let set = |names: &[String]| Some(names.iter().cloned().collect());
    BistroJobConfigFilters {
        whitelist: set(&filter.whitelist),
        whitelist_regex: Some(filter.whitelist_regex.clone()),
        blacklist: set(&filter.blacklist),
        blacklist_regex: Some(filter.blacklist_regex.clone()),
        fraction_of_nodes: Some(filter.fraction_of_nodes.into()),
        tag_whitelist: set(&filter.tag_whitelist),
    }
}
