//! Law `as_configured`: A task starts only if its job is there and enabled, its node is there and enabled at the level of the job, no
//! filter keeps it off, and what it depends on is done.
//!
//! Source: README.md, and thrift/PROTOCOL.md, Run of a task. The configuration in force decides which tasks may run.

use brasserie_common::Time;
use brasserie_common_config::{Config, Filter};
use brasserie_scheduler_core::Scheduler;
use brasserie_scheduler_engine::{NodeTable, Row, Task, TaskState};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, TaskId};
use crate::view::World;

const NAME: &str = "as_configured";

#[derive(Default)]
pub struct AsConfigured;

impl Law for AsConfigured {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task starts only if its job is there and enabled, its node is there and enabled at the level of the job, no filter keeps it off, and what it depends on is done."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let Happening::CallSent {
            place,
            ask: Ask::Run { run, .. },
            ..
        } = *happening
        else {
            return Ok(());
        };
        let Some(core) = world
            .schedulers
            .get(usize::from(place.0))
            .and_then(|host| host.core())
        else {
            return Ok(());
        };
        judge(run.task, core)
    }
}

fn judge(task: TaskId, core: &Scheduler) -> Result<(), Violation> {
    let engine = core.engine();
    let (Some(config), Some(nodes)) = (engine.config(), engine.nodes()) else {
        return forbidden(task, "nothing is configured".to_owned());
    };
    if let Some(reason) = why_not(task, config, nodes) {
        return forbidden(task, reason);
    }
    let job = config.job(&format!("j{}", task.job));
    for needed in job.into_iter().flat_map(|job| &job.depends_on) {
        let job = engine.find_job(needed.as_str());
        let node = engine.find_node(&format!("n{}", task.node));
        if let (Some(job), Some(node)) = (job, node)
            && config.job(needed.as_str()).is_some()
            && engine.task_state(Task { job, node }) != TaskState::Done
        {
            return forbidden(task, format!("`{needed}` is not done there"));
        }
    }
    Ok(())
}

fn forbidden(task: TaskId, reason: String) -> Result<(), Violation> {
    Err(Violation::new(
        NAME,
        format_args!("{task} starts, although {reason}"),
    ))
}

/// Returns why the configuration and the nodes forbid the task to start.
pub(super) fn why_not(task: TaskId, config: &Config, nodes: &NodeTable) -> Option<String> {
    let Some(job) = config.job(&format!("j{}", task.job)) else {
        return Some("its job is not configured".to_owned());
    };
    if !config.enabled || !job.can_run() {
        return Some("its job is not enabled".to_owned());
    }
    let name = format!("n{}", task.node);
    // One fitting node among those of one name is enough.
    let mut rows = nodes.rows().filter(|row| nodes.name(*row) == name);
    let fits = |row: Row| {
        let path = std::iter::successors(Some(row), |row| nodes.parent(*row));
        nodes.level(row) == job.level_for_tasks
            && path.into_iter().all(|row| {
                let filter = job.filters.get(&nodes.level(row));
                nodes.enabled(row) && filter.is_none_or(|f| passes(f, nodes.name(row)))
            })
    };
    (!rows.any(fits))
        .then(|| "its node is missing, disabled, avoided or at another level".to_owned())
}

/// Checks lists only; the engine's own tests cover patterns and fractions.
fn passes(filter: &Filter, name: &str) -> bool {
    let listed = filter.whitelist.is_empty() || filter.whitelist.iter().any(|n| n == name);
    listed && !filter.blacklist.iter().any(|n| n == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::cores::{load, new_core, sources_of};

    fn text(job: &str) -> String {
        format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs":
                {{"n0": [], "n1": []}}}}]}}, "resources": {{}}}}, "bistro_job->j0": {{"owner": "o", "command": ["x"]{job}}}}}"#
        )
    }

    fn verdict(job: &str, task: TaskId) -> Option<String> {
        let (config, nodes) = sources_of(&text(job));
        why_not(task, &config, &nodes)
    }

    #[test]
    fn job_and_node_must_be_there_and_enabled() {
        assert_eq!(verdict("", TaskId { job: 0, node: 1 }), None);
        let missing_job = verdict("", TaskId { job: 1, node: 1 });
        assert!(missing_job.unwrap().contains("not configured"));
        let off = verdict(r#", "enabled": false"#, TaskId { job: 0, node: 1 });
        assert!(off.unwrap().contains("not enabled"));
        let missing_node = verdict("", TaskId { job: 0, node: 7 });
        assert!(missing_node.unwrap().contains("its node"));
        let level = verdict(
            r#", "level_for_tasks": "instance""#,
            TaskId { job: 0, node: 1 },
        );
        assert!(level.unwrap().contains("at another level"));
        let filter = r#", "filters": {"l": {"blacklist": ["n1"]}}"#;
        assert_eq!(verdict(filter, TaskId { job: 0, node: 0 }), None);
        assert!(verdict(filter, TaskId { job: 0, node: 1 }).is_some());
    }

    #[test]
    fn what_it_depends_on_must_be_done() {
        let text =
            text(r#", "depends_on": ["j1"]}, "bistro_job->j1": {"owner": "o", "command": ["x"]"#);
        let mut core = new_core();
        let (j0, j1) = (TaskId { job: 0, node: 0 }, TaskId { job: 1, node: 0 });
        let violation = judge(j1, &core).unwrap_err();
        assert!(
            violation.what.contains("nothing is configured"),
            "{violation}"
        );
        load(&mut core, &text);
        assert_eq!(judge(j1, &core), Ok(()));
        let violation = judge(j0, &core).unwrap_err();
        assert!(
            violation.what.contains("`j1` is not done there"),
            "{violation}"
        );
    }
}
