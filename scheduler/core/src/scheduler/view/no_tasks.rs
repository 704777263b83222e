//! Says why a job has no tasks. The engine's reasons are those of tasks, and a job without nodes has none.

use brasserie_common::cluster_view::NO_TASK;
use brasserie_common::{JobId, StatusBits};
use brasserie_common_config::JobConfig;

use super::View;

impl View<'_> {
    /// Returns the reason why the job has no task; `None` if it has some, or if no nodes are loaded or the job has errors, which other
    /// reasons say.
    pub(super) fn why_no_tasks(&self, id: JobId) -> Option<String> {
        let job = self.engine.job_config(id)?;
        let has_no_task = job.errors.is_empty() && self.engine.counts(id).total == 0;
        self.engine.nodes().filter(|_| has_no_task)?;
        // The last level of the histogram is the level of the job's tasks.
        let (level, nodes) = self.engine.histogram(id, 0).pop()?;
        let nodes = nodes.into_iter().map(|(bits, (count, _))| (bits, count));
        sentence(&level, &nodes.collect::<Vec<_>>(), job)
    }
}

/// Formats the reason; `None` if the nodes of the job's level do not explain it. The histogram counts these nodes.
fn sentence(level: &str, nodes: &[(StatusBits, u64)], job: &JobConfig) -> Option<String> {
    let count = |bit| {
        let with_bit = nodes.iter().filter(|(bits, _)| bits.has(bit));
        with_bit.map(|(_, count)| count).sum::<u64>()
    };
    let total: u64 = nodes.iter().map(|(_, count)| count).sum();
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
        let config = parse(&text, ParseOptions::default()).unwrap().config;
        let job = config.job("j").expect("the job is in the text");
        sentence("db", nodes, job).unwrap_or_default()
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
