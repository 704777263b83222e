//! Law `acknowledged_is_kept`: After every restart, the store of a scheduler that has acknowledged a task's end holds that end or the end
//! of a later run, unless it was deleted or has expired.
//!
//! Source: thrift/PROTOCOL.md, R17, R24 and R25. The worker has forgotten the completion because it was acknowledged.

use std::collections::BTreeMap;

use brasserie_common::{InvocationId, StatusBits, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, DirectoryId, Happening, Run, TaskId};
use crate::model::directories::{Directories, Stored};
use crate::view::World;

const NAME: &str = "acknowledged_is_kept";

/// The latest acknowledged completion of a task, and whether any was DONE.
#[derive(Clone, Copy)]
struct Promise {
    invocation: InvocationId,
    done: bool,
}

#[derive(Default)]
pub struct AcknowledgedIsKept {
    directories: Directories,
    promised: BTreeMap<(DirectoryId, TaskId), Promise>,
}

impl Law for AcknowledgedIsKept {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "After every restart, the store of a scheduler that has acknowledged a task's end holds that end or the end of a later run, unless it was deleted or has expired."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::StatusAcknowledged {
                scheduler,
                run,
                bits,
                ..
            } if !run.task.is_healthcheck() && !bits.has(StatusBits::OVERWRITEABLE) => {
                if let Some(directory) = self.directories.directory_of(scheduler) {
                    self.promise(directory, run, bits);
                }
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                let directory = self.directories.directory_of(scheduler);
                let promise = directory.and_then(|d| self.promised.get(&(d, run.task)));
                let is_deleted = directory.is_some_and(|d| self.is_deleted(d, run.task));
                if promise.is_some_and(|promise| promise.done) && !is_deleted {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} runs {} again, whose DONE was acknowledged",
                            run.task
                        ),
                    ));
                }
            }
            Happening::BackupRestored { directory } | Happening::DirectoryLost { directory } => {
                // A restored copy lacks later completions, which R6 permits.
                self.promised.retain(|(of, _), _| *of != directory);
            }
            _ => {}
        }
        self.directories.note(when, happening, world);
        if let Happening::SchedulerStarted { directory, .. } = *happening {
            self.judge(directory)?;
        }
        Ok(())
    }
}

impl AcknowledgedIsKept {
    /// Returns whether the last promise was kept and later deleted by an operator or expired.
    fn is_deleted(&self, directory: DirectoryId, task: TaskId) -> bool {
        let promise = self.promised.get(&(directory, task));
        let contents = self.directories.get(directory);
        let deleted = contents.and_then(|contents| contents.synced().gone_up_to(task));
        match (promise, deleted) {
            (Some(promise), Some(up_to)) => promise.invocation <= up_to,
            (None, _) | (_, None) => false,
        }
    }

    fn promise(&mut self, directory: DirectoryId, run: Run, bits: StatusBits) {
        if self.is_deleted(directory, run.task) {
            self.promised.remove(&(directory, run.task));
        }
        let contents = self.directories.get(directory);
        let deleted = contents.and_then(|contents| contents.synced().gone_up_to(run.task));
        if deleted.is_some_and(|up_to| run.invocation <= up_to) {
            return;
        }
        let promise = self
            .promised
            .entry((directory, run.task))
            .or_insert(Promise {
                invocation: run.invocation,
                done: false,
            });
        promise.invocation = promise.invocation.max(run.invocation);
        promise.done |= bits.has(StatusBits::DONE);
    }

    fn judge(&self, directory: DirectoryId) -> Result<(), Violation> {
        let of_it = (directory, TaskId { job: 0, node: 0 })..=(directory, TaskId::HEALTHCHECK);
        for ((_, task), promise) in self.promised.range(of_it) {
            let contents = self.directories.get(directory);
            let stored = contents.and_then(|c| c.synced().ends.get(task));
            let is_kept = |stored: &Stored| {
                let same = stored.invocation == promise.invocation && !stored.is_provisional();
                let later = stored.invocation > promise.invocation;
                stored.is_done() || ((same || later) && !promise.done)
            };
            if !stored.is_some_and(is_kept) && !self.is_deleted(directory, *task) {
                let (id, what) = (
                    promise.invocation,
                    if promise.done { "DONE" } else { "its end" },
                );
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "{what} of {task} was acknowledged (run {id}), but after a restart the directory has {stored:?}"
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn a_restart_finds_what_was_acknowledged() {
        let mut trial = Trial::of(AcknowledgedIsKept::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), ERROR) {
            trial.sees(happening);
        }
        trial
            .sees(synced(1, 2))
            .sees(acknowledged(1, 1, run(1), ERROR));
        trial
            .sees(stopped(1))
            .sees(started(2))
            .sees(sent(2, 1, 1, ask_run(run(2))));
    }

    #[test]
    fn an_end_that_a_crash_took_was_acknowledged_too_early() {
        let mut trial = Trial::of(AcknowledgedIsKept::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), ERROR) {
            trial.sees(happening);
        }
        trial
            .sees(acknowledged(1, 1, run(1), ERROR))
            .sees(stopped(1))
            .sees(tail_lost(1, 1));
        trial.breaks(started(2), "was acknowledged");
    }

    #[test]
    fn done_is_done() {
        let mut trial = Trial::of(AcknowledgedIsKept::default());
        trial
            .sees(started(1))
            .sees(acknowledged(1, 1, run(1), DONE));
        trial.breaks(
            sent(1, 1, 1, ask_run(run(2))),
            "whose DONE was acknowledged",
        );
    }
}
