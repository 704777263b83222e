//! Laws about the data directory: what is on the disk before an answer or a call leaves, and what a restart finds.

use std::collections::BTreeMap;

use brasserie_common::{Health, InvocationId, SchedulerId, StatusBits};
use brasserie_scheduler_core::Scheduler;

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, DirectoryId, Happening, Run, TaskId};
use crate::model::directories::{Contents, RecordedState, Stored};

#[cfg(test)]
mod tests;

law! {
    /// One scheduler at a time uses a data directory, and each is later than every one that it remembers.
    ///
    /// Source: R1 and R14. Two schedulers would acknowledge completions and start tasks unknown to each other.
    pub struct OneSchedulerADirectory = "one_scheduler_a_directory" {
        holder: BTreeMap<DirectoryId, SchedulerId>,
    }
}

impl Law for OneSchedulerADirectory {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                if let Some(holder) = self.holder.insert(directory, scheduler) {
                    return Err(format!(
                        "scheduler {scheduler} starts on directory {}, which {holder} uses",
                        directory.0
                    ));
                }
                let contents = now.model.directories.get(directory);
                if let Some(last) = contents.and_then(|c| c.synced().schedulers.last())
                    && *last >= scheduler
                {
                    return Err(format!(
                        "scheduler {scheduler} is no later than {last}, which its directory remembers"
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.holder.retain(|_, holder| *holder != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A scheduler instance is on the disk before it answers a heartbeat or calls a worker.
    ///
    /// Source: R2. Workers remember the instance. If the directory does not, nobody can notice that its record is stale.
    pub struct OwnRecordFirst = "own_record_first" {}
}

impl Law for OwnRecordFirst {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::HeartbeatAnswered { scheduler, .. } => {
                self.judge(now, scheduler, "answers a heartbeat")
            }
            Happening::CallSent { scheduler, .. } => self.judge(now, scheduler, "calls a worker"),
            _ => Ok(()),
        }
    }
}

impl OwnRecordFirst {
    fn judge(&self, now: &Moment<'_>, scheduler: SchedulerId, what: &str) -> Verdict {
        let contents = now.model.directories.contents_of(scheduler);
        if contents.is_some_and(|c| c.synced().schedulers.contains(&scheduler)) {
            return Ok(());
        }
        Err(format!(
            "scheduler {scheduler} {what} before its directory remembers it"
        ))
    }
}

law! {
    /// A worker instance is on the disk before it receives HEALTHY and before a task is sent to it.
    ///
    /// Source: R3. After a crash the next scheduler must know that this instance may run tasks.
    pub struct RecordedBeforeHealthy = "recorded_before_healthy" {}
}

impl Law for RecordedBeforeHealthy {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let (scheduler, worker, what) = match *happening {
            Happening::HeartbeatAnswered {
                scheduler,
                worker,
                state: Health::Healthy,
                ..
            } => (scheduler, worker, "sends HEALTHY to"),
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { .. },
                ..
            } => (scheduler, worker, "sends a task to"),
            _ => return Ok(()),
        };
        // The same sync may record that the instance joined and that it left. An answer from in between is late, not early.
        let may_have_left = happening.run_sent().is_none();
        let contents = now.model.directories.contents_of(scheduler);
        let is_recorded = contents.map(Contents::synced).is_some_and(|state| {
            state.instances.contains(&worker) || may_have_left && state.left.contains(&worker)
        });
        match is_recorded {
            true => Ok(()),
            false => Err(format!(
                "scheduler {scheduler} {what} worker {worker}, which no synced record names"
            )),
        }
    }
}

law! {
    /// A completion is acknowledged only when its record is synced, and a repeat no earlier than the first.
    ///
    /// Source: R24 and R25. A crash loses unsynced records, and the worker forgets an acknowledged completion.
    pub struct AcknowledgedAfterSync = "acknowledged_after_sync" {}
}

impl Law for AcknowledgedAfterSync {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let Happening::StatusAcknowledged {
            scheduler,
            run,
            bits,
            ..
        } = *happening
        else {
            return Ok(());
        };
        if run.task.is_healthcheck() || bits.has(StatusBits::OVERWRITEABLE) {
            return Ok(());
        }
        let contents = now.model.directories.contents_of(scheduler);
        let synced = contents.and_then(|c| c.synced().ends.get(&run.task));
        let covers = synced.is_some_and(|end| {
            let same = end.invocation == run.invocation && !end.is_provisional();
            end.is_done() || same || end.invocation > run.invocation
        });
        let deleted = contents.and_then(|c| c.synced().deleted.get(&run.task));
        if covers || deleted.is_some_and(|up_to| run.invocation <= *up_to) {
            return Ok(());
        }
        Err(format!(
            "scheduler {scheduler} acknowledges {run} while the disk has {synced:?}"
        ))
    }
}

law! {
    /// The store of a scheduler that has acknowledged a task's completion holds, after every restart, that completion or the one of a later run,
    /// unless it was deleted or has expired.
    ///
    /// Source: R17, R24 and R25. The worker has forgotten the completion because it was acknowledged.
    pub struct AcknowledgedIsKept = "acknowledged_is_kept" {
        promised: BTreeMap<(DirectoryId, TaskId), Promise>,
    }
}

impl Law for AcknowledgedIsKept {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::StatusAcknowledged {
                scheduler,
                run,
                bits,
                ..
            } if !run.task.is_healthcheck() && !bits.has(StatusBits::OVERWRITEABLE) => {
                if let Some(directory) = now.model.directories.directory_of(scheduler) {
                    self.promise(now, directory, run, bits);
                }
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                let directory = now.model.directories.directory_of(scheduler);
                let promise = directory.and_then(|d| self.promised.get(&(d, run.task)));
                let is_deleted = directory.is_some_and(|d| self.is_deleted(now, d, run.task));
                if promise.is_some_and(|promise| promise.done) && !is_deleted {
                    return Err(format!(
                        "scheduler {scheduler} runs {} again, whose DONE was acknowledged",
                        run.task
                    ));
                }
            }
            Happening::BackupRestored { directory } | Happening::DirectoryLost { directory } => {
                // A restored copy lacks later completions, which R6 permits.
                self.promised.retain(|(of, _), _| *of != directory);
            }
            _ => {}
        }
        if let Happening::SchedulerStarted { directory, .. } = *happening {
            self.judge(now, directory)?;
        }
        Ok(())
    }
}

impl AcknowledgedIsKept {
    /// Returns whether the last promise was kept and later deleted by an operator or expired.
    fn is_deleted(&self, now: &Moment<'_>, directory: DirectoryId, task: TaskId) -> bool {
        let promise = self.promised.get(&(directory, task));
        let contents = now.model.directories.get(directory);
        let deleted = contents.and_then(|contents| contents.synced().gone_up_to(task));
        match (promise, deleted) {
            (Some(promise), Some(up_to)) => promise.invocation <= up_to,
            (None, _) | (_, None) => false,
        }
    }

    fn promise(&mut self, now: &Moment<'_>, directory: DirectoryId, run: Run, bits: StatusBits) {
        if self.is_deleted(now, directory, run.task) {
            self.promised.remove(&(directory, run.task));
        }
        let contents = now.model.directories.get(directory);
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

    fn judge(&self, now: &Moment<'_>, directory: DirectoryId) -> Verdict {
        let of_it = (directory, TaskId { job: 0, node: 0 })..=(directory, TaskId::HEALTHCHECK);
        for ((_, task), promise) in self.promised.range(of_it) {
            let contents = now.model.directories.get(directory);
            let stored = contents.and_then(|c| c.synced().ends.get(task));
            let is_kept = |stored: &Stored| {
                let same = stored.invocation == promise.invocation && !stored.is_provisional();
                let later = stored.invocation > promise.invocation;
                stored.is_done() || ((same || later) && !promise.done)
            };
            if !stored.is_some_and(is_kept) && !self.is_deleted(now, directory, *task) {
                let (id, what) = (
                    promise.invocation,
                    if promise.done { "DONE" } else { "its end" },
                );
                return Err(format!(
                    "{what} of {task} was acknowledged (run {id}), but after a restart the directory has {stored:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The latest acknowledged completion of a task, and whether any was DONE.
#[derive(Clone, Copy)]
struct Promise {
    invocation: InvocationId,
    done: bool,
}

law! {
    /// A scheduler that starts finds in its directory, and shows, the state that the synced records produce.
    ///
    /// Source: R24. All durable state is a function of the records.
    pub struct RecordsAddUp = "records_add_up" {}
}

impl Law for RecordsAddUp {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let Happening::SchedulerStarted {
            place, directory, ..
        } = *happening
        else {
            return Ok(());
        };
        let Some(expected) = now.model.directories.get(directory).map(|c| c.synced()) else {
            return Ok(());
        };
        if let Some(real) = now.world.durable(directory) {
            same(expected, &RecordedState::of(real, now.when), directory)?;
        }
        let core = now.world.scheduler(place);
        core.map_or(Ok(()), |core| shown(expected, core))
    }
}

fn same(expected: &RecordedState, real: &RecordedState, directory: DirectoryId) -> Verdict {
    if expected.same_as(real) {
        return Ok(());
    }
    Err(format!(
        "directory {} holds {real:?}, but its records add up to {expected:?}",
        directory.0
    ))
}

/// Checks that the scheduler has each stored end, except ends of tasks that no job or node names any more.
fn shown(expected: &RecordedState, core: &Scheduler) -> Verdict {
    let engine = core.engine();
    for (id, end) in &expected.ends {
        let Some(known) = id.known_to(engine) else {
            return Err(format!("the scheduler does not know {id}"));
        };
        let shown = engine.previous_status(known).map(|s| s.bits);
        if shown != Some(end.bits) {
            return Err(format!(
                "the scheduler has {id} with {shown:?}, its directory with {:?}",
                end.bits
            ));
        }
    }
    for id in expected.deleted.keys() {
        let task = id.known_to(engine);
        let shown = task.and_then(|task| engine.previous_status(task));
        if shown.is_some() && !expected.ends.contains_key(id) {
            return Err(format!(
                "the scheduler has {id} with {shown:?}, its directory nothing"
            ));
        }
    }
    Ok(())
}
