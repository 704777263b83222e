//! Law `deleted_stays_deleted`: A task whose history was deleted starts only after the deletion is synced. No completion of an earlier run
//! is stored again, unless that run was still alive. When the deletion is reported, all history is gone except what the
//! report says has stayed.
//!
//! Source: thrift/PROTOCOL.md, People and programs to scheduler, `deleteHistory`. The operator wants the work done again; a completion that
//! returns would mark it as done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use brasserie_common::{RecordSeq, SchedulerId, Time};
use brasserie_scheduler_engine::Task;

use super::{Law, Violation};
use crate::event_log::{
    Ask, DeletedCounts, DirectoryId, Happening, HistoryOf, Run, SchedulerPlace, TaskId,
};
use crate::model::directories::Directories;
use crate::view::World;

const NAME: &str = "deleted_stays_deleted";

#[derive(Default)]
pub struct DeletedStaysDeleted {
    directories: Directories,
    /// Runs that started, or were listed as alive, since the deletion that would cover them. They are known as running and will complete. A
    /// run may start with an earlier number if the clock went back and no worker is left that could repeat a deleted completion.
    alive: BTreeSet<Run>,
    asked: BTreeMap<(SchedulerId, HistoryOf), VecDeque<Time>>,
    /// Deletions of a job that no answer has reported yet, in order. A scheduler handles one request after the other.
    untold: BTreeMap<(SchedulerId, u16), VecDeque<(RecordSeq, TaskId)>>,
    synced: BTreeMap<SchedulerId, RecordSeq>,
}

impl Law for DeletedStaysDeleted {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task whose history was deleted starts only after the deletion is synced. No completion of an earlier run is stored again, unless that run was still alive. When the deletion is reported, all history is gone except what the report says has stayed."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::Listed {
                run, ended: false, ..
            } => {
                self.alive.insert(run);
            }
            Happening::EndWritten { directory, run, .. } => self.judge_end(directory, run)?,
            Happening::EndDeleted {
                scheduler,
                seq,
                run,
                ..
            } => {
                self.alive
                    .retain(|r| r.task != run.task || r.invocation > run.invocation);
                let untold = self.untold.entry((scheduler, run.task.job)).or_default();
                untold.push_back((seq, run.task));
            }
            Happening::Synced {
                scheduler, up_to, ..
            } => {
                self.synced.insert(scheduler, up_to);
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                self.judge_start(scheduler, run.task)?;
                self.alive.insert(run);
            }
            Happening::DeletionAsked { scheduler, of, .. } => {
                self.asked
                    .entry((scheduler, of))
                    .or_default()
                    .push_back(when);
            }
            Happening::DeletionAnswered {
                scheduler,
                of,
                counts,
                ..
            } => self.judge_answer(scheduler, of, counts)?,
            Happening::SchedulerStopped { scheduler, .. } => {
                self.asked.retain(|(by, _), _| *by != scheduler);
                self.untold.retain(|(by, _), _| *by != scheduler);
                self.synced.remove(&scheduler);
            }
            _ => {}
        }
        self.directories.note(when, happening, world);
        match *happening {
            Happening::SchedulerTurn { place } => self.judge_shown(place, world),
            _ => Ok(()),
        }
    }
}

impl DeletedStaysDeleted {
    fn judge_end(&self, directory: DirectoryId, run: Run) -> Result<(), Violation> {
        let contents = self.directories.get(directory);
        let deleted = contents.and_then(|contents| contents.deleted(run.task));
        match deleted {
            Some(up_to) if run.invocation <= up_to && !self.alive.contains(&run) => {
                broken(format_args!(
                    "an end of run {} of {} is stored, whose history was deleted up to run {up_to}",
                    run.invocation, run.task
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn judge_start(&self, scheduler: SchedulerId, task: TaskId) -> Result<(), Violation> {
        let contents = self.directories.contents_of(scheduler);
        match contents.is_some_and(|contents| contents.has_unsynced_deletion(task)) {
            true => broken(format_args!(
                "{task} starts, although a crash may still undo the deletion of its history"
            )),
            false => Ok(()),
        }
    }

    fn judge_answer(
        &mut self,
        scheduler: SchedulerId,
        of: HistoryOf,
        counts: DeletedCounts,
    ) -> Result<(), Violation> {
        let asked = self.asked.get_mut(&(scheduler, of));
        let Some(asked) = asked.and_then(VecDeque::pop_front) else {
            return broken(format_args!("{of:?} is answered, and nobody asked"));
        };
        let synced = self.synced.get(&scheduler).copied().unwrap_or_default();
        let untold = self.untold.entry((scheduler, of.job)).or_default();
        for _ in 0..counts.deleted {
            // The scheduler abandoned some requests when its store failed, and never reports their tasks.
            while untold.front().is_some_and(|(_, task)| !of.has(*task)) {
                untold.pop_front();
            }
            match untold.pop_front() {
                Some((seq, task)) if of.has(task) && seq <= synced => {}
                other => {
                    return broken(format_args!(
                        "{of:?} is answered with {counts:?}, and {other:?} is not deleted for good, as only record {synced:?} is synced"
                    ));
                }
            }
        }
        let contents = self.directories.contents_of(scheduler);
        let ends = contents.into_iter().flat_map(|c| &c.synced().ends);
        let left: Vec<TaskId> = ends
            .filter(|(task, end)| of.has(**task) && end.at < asked)
            .map(|(task, _)| *task)
            .collect();
        if left.len() as u64 > counts.running + counts.maybe_alive {
            return broken(format_args!(
                "{of:?} is answered with {counts:?}, and these kept their history: {left:?}"
            ));
        }
        Ok(())
    }

    /// Checks that a task without a stored completion has no status.
    fn judge_shown(&self, place: SchedulerPlace, world: &World<'_>) -> Result<(), Violation> {
        let Some(core) = world.scheduler(place) else {
            return Ok(());
        };
        let Some(contents) = self.directories.contents_of(core.id()) else {
            return Ok(());
        };
        let engine = core.engine();
        for id in contents.synced().deleted.keys() {
            if contents.written_end(*id).is_some() {
                continue;
            }
            let job = engine.find_job(&format!("j{}", id.job));
            let node = engine.find_node(&format!("n{}", id.node));
            let task = job.zip(node).map(|(job, node)| Task { job, node });
            if let Some(status) = task.and_then(|task| engine.previous_status(task)) {
                return broken(format_args!(
                    "the history of {id} was deleted, and it shows {status:?}"
                ));
            }
        }
        Ok(())
    }
}

fn broken(what: impl std::fmt::Display) -> Result<(), Violation> {
    Err(Violation::new(NAME, what))
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::Fact;

    const OF: HistoryOf = HistoryOf { job: 0, node: None };

    fn asked(s: i64) -> Happening {
        Happening::DeletionAsked {
            place: SchedulerPlace(0),
            scheduler: sid(s),
            of: OF,
        }
    }

    fn told(s: i64, deleted: u64, running: u64) -> Happening {
        Happening::DeletionAnswered {
            place: SchedulerPlace(0),
            scheduler: sid(s),
            of: OF,
            counts: DeletedCounts {
                deleted,
                running,
                maybe_alive: 0,
            },
        }
    }

    /// Run 1 has ended, and record 3 deleted its completion.
    fn deleted() -> Trial<DeletedStaysDeleted> {
        let mut trial = Trial::of(DeletedStaysDeleted::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), DONE) {
            trial.sees(happening);
        }
        trial.at(5).sees(asked(1)).sees(wrote(1, 3, Fact::Jobs));
        trial.sees(end_deleted(1, 3, run(1)));
        trial
    }

    #[test]
    fn it_starts_again_once_that_is_durable() {
        deleted().breaks(sent(1, 1, 1, ask_run(run(2))), "may still undo");
        let mut trial = deleted();
        trial.sees(synced(1, 3)).sees(told(1, 1, 0));
        trial.sees(sent(1, 1, 1, ask_run(run(2))));
        for happening in ended(1, 4, run(2), ERROR) {
            trial.sees(happening);
        }
    }

    #[test]
    fn an_old_end_does_not_come_back() {
        let mut trial = deleted();
        trial.sees(synced(1, 3)).sees(stopped(1)).sees(started(2));
        trial.sees(wrote_start(2)).sees(listed(1, run(1), true));
        let [record, end] = ended(2, 2, run(1), DONE);
        trial
            .sees(record)
            .breaks(end.clone(), "history was deleted");
        // A run that was alive all the time may still complete.
        trial.sees(listed(1, run(1), false)).sees(end);
    }

    #[test]
    fn a_deletion_that_a_crash_took_is_none() {
        let mut trial = deleted();
        trial.sees(stopped(1)).sees(tail_lost(1, 2));
        trial.sees(started(2)).sees(wrote_start(2));
        for happening in ended(2, 2, run(1), DONE) {
            trial.sees(happening);
        }
    }

    #[test]
    fn the_answer_comes_last_and_is_true() {
        deleted().breaks(told(1, 1, 0), "is not deleted for good");
        deleted().sees(synced(1, 3)).breaks(told(1, 2, 0), "None");
        let mut trial = Trial::of(DeletedStaysDeleted::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), DONE) {
            trial.sees(happening);
        }
        trial.sees(synced(1, 2)).at(5);
        trial.sees(asked(1)).sees(told(1, 0, 1));
        trial
            .sees(asked(1))
            .breaks(told(1, 0, 0), "kept their history");
        trial.breaks(told(1, 0, 0), "nobody asked");
    }
}
