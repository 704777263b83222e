//! Says why a job has no tasks. The core's reasons are those of tasks, and a job without nodes has none.

use std::sync::Arc;

use brasserie_common::cluster_view::NO_TASK;
use brasserie_common::{Principal, StatusBits};
use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_core::{Answer, LevelHistogram, Query};

use super::{Failure, job_status};
use crate::inbox::Inbox;

/// Returns the reason why the job has no task; `None` if it has some, or if the core's reasons say more: no nodes are loaded, or the job
/// is unknown or has errors.
pub(super) async fn why(
    inbox: &Inbox,
    from: Principal,
    name: &str,
) -> Result<Option<String>, Failure> {
    let status = job_status(inbox, from.clone(), name.to_owned()).await;
    let config = inbox.query(from.clone(), Query::Config).await?;
    let (Ok(status), Answer::Config(Some(config))) = (status, config) else {
        return Ok(None);
    };
    let Some(job) = job_without_errors(&config, name).filter(|_| status.total == Some(0)) else {
        return Ok(None);
    };
    let query = Query::Histograms {
        jobs: vec![name.to_owned()],
        samples: 0,
    };
    let Answer::Histograms(histograms) = inbox.query(from, query).await? else {
        return Ok(None);
    };
    if !histograms.nodes_loaded {
        return Ok(None);
    }
    // The last level of the histogram is the level of the job's tasks.
    let levels = histograms.jobs.first().map(|(_, levels)| levels);
    Ok(levels
        .and_then(|levels| levels.last())
        .and_then(|level| sentence(level, job)))
}

fn job_without_errors<'a>(config: &'a Arc<Config>, name: &str) -> Option<&'a JobConfig> {
    config.job(name).filter(|job| job.errors.is_empty())
}

/// Formats the reason; `None` if the nodes of the job's level do not explain it. The histogram counts these nodes.
fn sentence((level, nodes): &LevelHistogram, job: &JobConfig) -> Option<String> {
    let count = |bit| {
        let with_bit = nodes.iter().filter(|(bits, _, _)| bits.has(bit));
        with_bit.map(|(_, count, _)| count).sum::<u64>()
    };
    let total: u64 = nodes.iter().map(|(_, count, _)| count).sum();
    let (avoided, disabled) = (count(StatusBits::AVOIDED), count(StatusBits::DISABLED));
    let are = |count: u64| if count == 1 { "is" } else { "are" };
    let mut parts = Vec::new();
    if avoided > 0 {
        let by = match job.filters.is_empty() {
            true => "",
            false => " by its `filters`",
        };
        parts.push(format!("{avoided} {} excluded{by}", are(avoided)));
    }
    if disabled > 0 {
        parts.push(format!(
            "{disabled} {} disabled, or below a disabled node",
            are(disabled)
        ));
    }
    let parts = parts.join(", ");
    match total {
        0 => Some(format!(
            "{NO_TASK}, because its level `{level}` has no node: no node source gives one now"
        )),
        _ if parts.is_empty() => None,
        1 => Some(format!(
            "{NO_TASK}: the only node of its level `{level}` {}",
            parts.trim_start_matches("1 ")
        )),
        _ => Some(format!(
            "{NO_TASK}: of the {total} nodes of its level `{level}`, {parts}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common_config::{ParseOptions, parse};

    use super::*;

    fn said(nodes: &[(StatusBits, u64)], filters: &str) -> String {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["db"]}}}}, "bistro_job->j": {{"command": ["x"], "filters": {filters}}}}}"#
        );
        let config = Arc::new(parse(&text, ParseOptions::default()).unwrap().config);
        let job = job_without_errors(&config, "j").expect("the job has no error");
        let nodes = nodes
            .iter()
            .map(|(bits, count)| (*bits, *count, Vec::new()));
        sentence(&("db".to_owned(), nodes.collect()), job).unwrap_or_default()
    }

    #[test]
    fn a_job_without_tasks_says_what_its_level_has() {
        let filters = r#"{"db": {"whitelist": ["x"]}}"#;
        let avoided = (StatusBits::AVOIDED, 3);
        let disabled = (StatusBits::DISABLED, 1);
        let begin = "it has no task: of the";
        for (nodes, filters, expected) in [
            (
                &[][..],
                "{}",
                "it has no task, because its level `db` has no node: no node source gives one now".to_owned(),
            ),
            (
                &[avoided],
                filters,
                format!("{begin} 3 nodes of its level `db`, 3 are excluded by its `filters`"),
            ),
            (
                &[avoided, disabled],
                filters,
                format!(
                    "{begin} 4 nodes of its level `db`, 3 are excluded by its `filters`, 1 is disabled, or below a disabled node"
                ),
            ),
            (
                &[disabled],
                "{}",
                "it has no task: the only node of its level `db` is disabled, or below a disabled node".to_owned(),
            ),
        ] {
            assert_eq!(said(nodes, filters), expected);
        }
    }
}
