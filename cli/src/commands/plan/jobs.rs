//! Finds the jobs of which a plan's table has no row: the present tasks of changed jobs, and new jobs of which no task starts at once.

use brasserie_common::cluster_view::JobView;
use brasserie_common_config::{Format, JobConfig, ParseOptions, UnknownKeys, parse_bytes};
use brasserie_thrift::generated::brasserie::Plan;

use crate::connection::Connection;
use crate::output::printable;

/// Maximum number of changed jobs whose tasks are counted: each costs a call, and people read one screen.
const MAX_COUNTED: usize = 20;

/// Facts about new and changed jobs that a plan omits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PlannedJobs {
    /// The first [`MAX_COUNTED`] changed jobs, with the tasks that they have now.
    pub(super) changed: Vec<JobView>,
    /// The new jobs without a row in the plan: none of their tasks would start at once or could never run.
    pub(super) idle: Vec<Idle>,
}

/// A new job of which no task would start at once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Idle {
    pub(super) job: String,
    /// Why, as far as the file says.
    pub(super) why: Option<String>,
}

impl PlannedJobs {
    /// Counts the tasks of changed jobs, and finds new jobs that do not start. `text` is the planned file.
    pub(super) async fn of(
        plan: &Plan,
        text: &[u8],
        format: Format,
        connection: &Connection,
    ) -> Self {
        let changed = plan.first_jobs_changed.iter().flatten();
        let changed: Vec<String> = changed
            .filter_map(|job| job.name.clone())
            .take(MAX_COUNTED)
            .collect();
        let view = match changed.is_empty() {
            true => None,
            // The plan is complete without the counts.
            false => connection.view_of_jobs(&changed).await.ok(),
        };
        PlannedJobs {
            changed: view
                .filter(|view| view.nodes_loaded)
                .map_or_else(Vec::new, |view| view.jobs),
            idle: idle(plan, text, format),
        }
    }
}

/// Returns the new jobs without a row, if the plan counts starts.
fn idle(plan: &Plan, text: &[u8], format: Format) -> Vec<Idle> {
    let is_held = !plan.held.as_deref().unwrap_or_default().is_empty();
    if plan.not_counted.is_some() || is_held {
        return Vec::new();
    }
    let options = ParseOptions {
        format,
        unknown_keys: UnknownKeys::Warn,
    };
    let config = parse_bytes(text, options).ok().map(|parsed| parsed.config);
    let has_row = |name: &str| {
        let mut jobs = plan.jobs.iter().flatten();
        jobs.any(|job| job.job.as_deref() == Some(name))
    };
    let added = plan
        .jobs_added
        .as_ref()
        .and_then(|added| added.first.as_ref());
    let idle = added.into_iter().flatten().filter(|name| !has_row(name));
    idle.map(|name| Idle {
        why: config
            .as_ref()
            .and_then(|config| why_idle(config.job(name)?)),
        job: name.clone(),
    })
    .collect()
}

/// Returns why no task of a job starts at once, if its own configuration says so.
fn why_idle(job: &JobConfig) -> Option<String> {
    if !job.errors.is_empty() {
        return Some("its configuration has errors".to_owned());
    }
    if !job.enabled {
        return Some("it is disabled".to_owned());
    }
    let waits_for: Vec<String> = job
        .waits_for()
        .map(|name| format!("`{}`", printable(name.as_str())))
        .collect();
    (!waits_for.is_empty()).then(|| format!("its tasks wait for {}", waits_for.join(", ")))
}

#[cfg(test)]
mod tests {
    use brasserie_thrift::generated::brasserie::{PlannedNames, PlannedStarts};

    use super::*;

    #[test]
    fn new_jobs_without_a_start_say_why_if_the_file_does() {
        let names = |names: &[&str]| PlannedNames {
            total: i64::try_from(names.len()).ok(),
            first: Some(names.iter().map(|&name| name.to_owned()).collect()),
        };
        let plan = Plan {
            jobs_added: Some(names(&["a", "b", "c", "d"])),
            jobs: Some(vec![PlannedStarts {
                job: Some("a".to_owned()),
                nodes: Some(names(&["n"])),
                ..PlannedStarts::default()
            }]),
            ..Plan::default()
        };
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["n"]}},
            "bistro_job->a": {"command": ["x"]}, "bistro_job->b": {"command": ["x"], "depends_on": ["a"]},
            "bistro_job->c": {"command": ["x"], "enabled": false}, "bistro_job->d": {"command": ["x"]}}"#
            .as_bytes();
        let found = idle(&plan, text, Format::Json);
        let found: Vec<(&str, Option<&str>)> = found
            .iter()
            .map(|idle| (idle.job.as_str(), idle.why.as_deref()))
            .collect();
        let expected = [
            ("b", Some("its tasks wait for `a`")),
            ("c", Some("it is disabled")),
            ("d", None),
        ];
        assert_eq!(found, expected);
        let held = Plan {
            held: Some(vec!["initial wait".to_owned()]),
            ..plan
        };
        assert_eq!(idle(&held, text, Format::Json), []);
    }
}
