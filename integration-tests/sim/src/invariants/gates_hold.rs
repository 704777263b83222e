//! Law `gates_hold`: A task of a job that runs only after all nodes are done for others starts only when each of these jobs is there and
//! enabled, every task that it has is done by the records, and none of its runs is under way.
//!
//! Source: README.md (`run_only_after_all_nodes_are_done_for`). The task reads the complete output of the other jobs.

use brasserie_common::{SchedulerId, Time};
use brasserie_common_config::JobConfig;
use brasserie_scheduler_core::Scheduler;

use super::as_configured::why_not;
use super::{Law, Violation};
use crate::event_log::{Ask, Happening, TaskId};
use crate::model::directories::Directories;
use crate::model::runs::Runs;
use crate::view::World;

const NAME: &str = "gates_hold";

#[derive(Default)]
pub struct GatesHold {
    directories: Directories,
    runs: Runs,
}

impl Law for GatesHold {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task of a job that runs only after all nodes are done for others starts only when each of these jobs is there and enabled, every task that it has is done by the records, and none of its runs is under way."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        if let Happening::CallSent {
            place,
            scheduler,
            ask: Ask::Run { run, .. },
            ..
        } = *happening
            && let Some(core) = world
                .schedulers
                .get(usize::from(place.0))
                .and_then(|host| host.core())
        {
            self.judge(scheduler, run.task, core)?;
        }
        self.directories.note(when, happening, world);
        self.runs.note(happening);
        Ok(())
    }
}

impl GatesHold {
    fn judge(
        &self,
        scheduler: SchedulerId,
        task: TaskId,
        core: &Scheduler,
    ) -> Result<(), Violation> {
        let config = core.engine().config();
        let job = config.and_then(|config| config.job(&format!("j{}", task.job)));
        for on in job
            .into_iter()
            .flat_map(|job| &job.run_only_after_all_nodes_are_done_for)
        {
            let on = TaskId::from_names(on.as_str(), "n0").job;
            if let Some(why) = self.not_done(scheduler, on, core) {
                return Err(Violation::new(
                    NAME,
                    format_args!("{task} starts, although {why}"),
                ));
            }
        }
        Ok(())
    }

    /// Returns why not all tasks of a job are done.
    fn not_done(&self, scheduler: SchedulerId, job: u16, core: &Scheduler) -> Option<String> {
        let engine = core.engine();
        let (Some(config), Some(nodes)) = (engine.config(), engine.nodes()) else {
            return Some("nothing is configured".to_owned());
        };
        let on: Option<&JobConfig> = config.job(&format!("j{job}"));
        let Some(on) = on.filter(|on| on.enabled && on.errors.is_empty()) else {
            return Some(format!("job j{job} is missing, disabled or wrong"));
        };
        if let Some(run) = self.runs.of_job(scheduler, job).next() {
            return Some(format!("{} runs", run.task));
        }
        let contents = self.directories.contents_of(scheduler);
        let rows = nodes
            .rows()
            .filter(|row| nodes.level(*row) == on.level_for_tasks);
        let tasks = rows.map(|row| TaskId::from_names(on.name.as_str(), nodes.name(row)));
        let mut counted = tasks.filter(|task| why_not(*task, config, nodes).is_none());
        let open = counted.find(|task| {
            let end = contents.and_then(|contents| contents.written_end(*task));
            !end.is_some_and(|end| end.is_done())
        });
        open.map(|task| format!("{task} is not done"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cores::{load, new_core};
    use super::super::trial::*;
    use super::*;

    const LAST: TaskId = TaskId { job: 1, node: 0 };

    fn core(first: &str) -> Scheduler {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs":
                {{"n0": [], "n1": [], "n2": {{"disabled": true}}}}}}]}}, "resources": {{}}}},
                "bistro_job->j0": {{"owner": "o", "command": ["x"]{first}}},
                "bistro_job->j1": {{"owner": "o", "command": ["x"], "run_only_after_all_nodes_are_done_for": ["j0"]}}}}"#
        );
        let mut core = new_core();
        load(&mut core, &text);
        core
    }

    fn on(invocation: i64, node: u16) -> crate::event_log::Run {
        let mut run = run(invocation);
        run.task.node = node;
        run
    }

    #[test]
    fn every_node_must_be_done() {
        let core = core("");
        let mut trial = Trial::of(GatesHold::default());
        trial.sees(started(1)).sees(wrote_start(1));
        let verdict = |trial: &Trial<GatesHold>| trial.law.judge(sid(1), LAST, &core);
        for happening in ended(1, 2, on(1, 0), DONE) {
            trial.sees(happening);
        }
        let violation = verdict(&trial).unwrap_err();
        assert!(violation.what.contains("j0/n1 is not done"), "{violation}");
        for happening in ended(1, 3, on(2, 1), DONE) {
            trial.sees(happening);
        }
        assert_eq!(verdict(&trial), Ok(()));
        // Jobs that others wait for have no gate themselves.
        assert_eq!(
            trial.law.judge(sid(1), TaskId { job: 0, node: 0 }, &core),
            Ok(())
        );
        trial.sees(sent(1, 1, 1, ask_run(on(3, 2))));
        let violation = verdict(&trial).unwrap_err();
        assert!(violation.what.contains("j0/n2 runs"), "{violation}");
    }

    #[test]
    fn a_job_that_is_off_is_never_done() {
        let core = core(r#", "enabled": false"#);
        let violation = GatesHold::default().judge(sid(1), LAST, &core).unwrap_err();
        assert!(violation.what.contains("disabled"), "{violation}");
    }
}
