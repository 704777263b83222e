//! Law `only_the_missing_expire`: A completion is forgotten for its age only while its job or its node does not exist, and no earlier than
//! the retention after one of them was first missing.
//!
//! Source: README.md, "Completions of missing nodes and jobs". If a completion expires too early, a finished task runs again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{InvocationId, SchedulerId, Time};
use brasserie_scheduler_core::{Retention, Scheduler};

use super::{Law, Violation};
use crate::event_log::{DirectoryId, Happening, SchedulerPlace, TaskId};
use crate::model::directories::Directories;
use crate::model::drift;
use crate::view::{Contract, World};

const NAME: &str = "only_the_missing_expire";

/// A scheduler counts the retention in this unit.
const COUNTED_IN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct OnlyTheMissingExpire {
    directories: Directories,
    /// When the job or the node of a stored end was first seen missing. Past absences stay, because schedulers check only periodically.
    missing: BTreeMap<(DirectoryId, TaskId, InvocationId), Time>,
    /// Directories with recorded absences that this law has not seen.
    restored: BTreeSet<DirectoryId>,
}

impl Law for OnlyTheMissingExpire {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A completion is forgotten for its age only while its job or its node does not exist, and no earlier than the retention after one of them was first missing."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        if world.retention == Retention::UNLIMITED || world.contract == Contract::Obedience {
            return Ok(());
        }
        match *happening {
            Happening::SchedulerTurn { place } => self.note_missing(when, place, world),
            Happening::EndExpired {
                directory,
                scheduler,
                task,
                ..
            } => self.judge(when, (directory, scheduler), task, world)?,
            Happening::BackupRestored { directory } => {
                self.restored.insert(directory);
            }
            _ => {}
        }
        self.directories.note(when, happening, world);
        Ok(())
    }
}

impl OnlyTheMissingExpire {
    fn note_missing(&mut self, when: Time, place: SchedulerPlace, world: &World<'_>) {
        let Some(core) = world.scheduler(place) else {
            return;
        };
        let Some(directory) = self.directories.directory_of(core.id()) else {
            return;
        };
        let Some(contents) = self.directories.get(directory) else {
            return;
        };
        let ended = contents.ended().filter(|task| !exists(*task, core));
        for task in ended {
            if let Some(end) = contents.written_end(task) {
                let key = (directory, task, end.invocation);
                self.missing.entry(key).or_insert(when);
            }
        }
    }

    fn judge(
        &self,
        when: Time,
        (directory, scheduler): (DirectoryId, SchedulerId),
        task: TaskId,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let mut cores = world.schedulers.iter().filter_map(|host| host.core());
        let core = cores.find(|core| core.id() == scheduler);
        if core.is_some_and(|core| exists(task, core)) {
            return broken(format_args!(
                "the completion of {task} is forgotten, and both its job and its node exist"
            ));
        }
        let contents = self.directories.get(directory);
        let Some(end) = contents.and_then(|contents| contents.written_end(task)) else {
            return broken(format_args!(
                "the completion of {task} is forgotten, and there is none"
            ));
        };
        let since = self.missing.get(&(directory, task, end.invocation));
        let missing_for = since.map(|since| when.since(*since)).unwrap_or_default();
        let least = world.retention.missing_for.saturating_sub(COUNTED_IN);
        let is_known = !self.restored.contains(&directory);
        match is_known && missing_for < drift::at_least(world, least) {
            false => Ok(()),
            true => broken(format_args!(
                "the completion of {task} is forgotten after {missing_for:?} without its job or node"
            )),
        }
    }
}

/// Returns whether the configuration and the nodes in force have the job and the node of a task.
fn exists(task: TaskId, core: &Scheduler) -> bool {
    let engine = core.engine();
    let (Some(config), Some(nodes)) = (engine.config(), engine.nodes()) else {
        return true;
    };
    let node = format!("n{}", task.node);
    config.job(&format!("j{}", task.job)).is_some()
        && nodes.rows().any(|row| nodes.name(row) == node)
}

fn broken(what: impl std::fmt::Display) -> Result<(), Violation> {
    Err(Violation::new(NAME, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::cores::{load, new_core};
    use super::super::trial::*;
    use crate::event_log::Fact;
    use brasserie_common::RecordSeq;

    const SECOND: Duration = Duration::from_secs(1);

    fn expired(s: i64, seq: u64, task: TaskId) -> Happening {
        Happening::EndExpired {
            directory: D,
            scheduler: sid(s),
            seq: RecordSeq(seq),
            task,
        }
    }

    #[test]
    fn a_completion_that_nobody_saw_missing_stays() {
        let mut trial = Trial::of(OnlyTheMissingExpire::default());
        trial.retention.missing_for = 30 * SECOND;
        trial.sees(started(1)).sees(wrote_start(1));
        let run = run(1);
        for happening in ended(1, 2, run, DONE) {
            trial.sees(happening);
        }
        trial.at(100);
        trial.breaks(expired(1, 3, run.task), "without its job or node");
        // The test enters the absence that a turn would have recorded.
        let key = (D, run.task, run.invocation);
        trial.law.missing.insert(key, Time::ZERO + 71 * SECOND);
        trial.at(99).breaks(expired(1, 3, run.task), "after 28s");
        trial.at(101).sees(expired(1, 3, run.task));
        trial.sees(wrote(1, 4, Fact::Jobs));
    }

    #[test]
    fn a_task_exists_if_its_job_and_its_node_do() {
        let mut core = new_core();
        let task = |job, node| TaskId { job, node };
        load(
            &mut core,
            r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [{"source": "manual", "prefs": {"n0": []}}]},
                "resources": {}}, "bistro_job->j0": {"owner": "o", "command": ["x"]}}"#,
        );
        assert!(exists(task(0, 0), &core));
        assert!(!exists(task(1, 0), &core) && !exists(task(0, 1), &core));
    }
}
