//! Laws about stored completions: what they replace, how long their tasks wait, and how they are deleted or expire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use brasserie_common::{InvocationId, RecordSeq, SchedulerId, StatusBits, Time, WorkerId};
use brasserie_scheduler_core::{Retention, Scheduler};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{
    Ask, DeletedCounts, DirectoryId, Happening, HistoryOf, Run, RunSent, SchedulerPlace, TaskId,
};
use crate::model::directories::Stored;
use crate::view::Contract;

#[cfg(test)]
mod tests;

law! {
    /// A scheduler accepts no status of a task from a worker whose running tasks are not fetched yet.
    ///
    /// Source: B8 and R16. The list that comes later would contradict the status.
    pub struct NoStatusInNew = "no_status_in_new" {
        /// Statuses that arrived before the fetch succeeded and were not repeated since.
        too_early: BTreeSet<(SchedulerId, WorkerId, Run)>,
    }
}

impl Law for NoStatusInNew {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::StatusHeard {
                scheduler,
                worker,
                run,
                ..
            } if !run.task.is_healthcheck() => {
                let key = (scheduler, worker, run);
                // A lost instance is no longer NEW, and no list follows.
                let pair = now.model.associations.get(scheduler, worker);
                if pair.is_some_and(|pair| pair.fetched || pair.left) {
                    self.too_early.remove(&key);
                } else {
                    self.too_early.insert(key);
                }
            }
            Happening::StatusAcknowledged {
                scheduler,
                worker,
                run,
                ..
            } if self.too_early.contains(&(scheduler, worker, run))
                // The instance may have been lost in the same turn, before its status was handled.
                && now.model.associations.get(scheduler, worker).is_none_or(|pair| !pair.left) =>
            {
                return Err(format!(
                    "scheduler {scheduler} takes the status of {} from worker {worker}, which was NEW when it came",
                    run.task
                ));
            }
            Happening::StatusRejected {
                scheduler,
                worker,
                run,
                ..
            } => {
                self.too_early.remove(&(scheduler, worker, run));
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.too_early.retain(|(owner, _, _)| *owner != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A stored completion gives way only to the completion of a later run; lost and was-not-running also to the true completion of their run; and
    /// all but DONE to DONE. Forgiving keeps what is done, whose completion it is, whether a true completion may still come, and how long a lost run
    /// may live.
    ///
    /// Source: R17, R27 and Run of a task. The true end of a run is final, in whatever order messages arrive.
    pub struct EndsAreNotUndone = "ends_are_not_undone" {}
}

impl Law for EndsAreNotUndone {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let Some((directory, task, new)) = Stored::written(now.when, happening) else {
            return Ok(());
        };
        let contents = now.model.directories.get(directory);
        let old = contents.and_then(|contents| contents.written_end(task));
        if matches!(happening, Happening::EndForgiven { .. }) {
            return match not_only_forgiven(old, &new) {
                None => Ok(()),
                Some(what) => Err(format!("{task} was forgiven, but {what}: {old:?}, {new:?}")),
            };
        }
        match old.and_then(|old| Some((old, undone(old, &new)?))) {
            None => Ok(()),
            Some((old, what)) => Err(format!(
                "{task}: {what}: run {} with bits {} after run {} with bits {}",
                new.invocation, new.bits.0, old.invocation, old.bits.0
            )),
        }
    }
}

/// Returns a change to `old` that forgiving must not make.
fn not_only_forgiven(old: Option<&Stored>, new: &Stored) -> Option<&'static str> {
    let Some(old) = old else {
        return Some("it had not ended");
    };
    if old.is_done() || new.is_done() {
        return Some("DONE is nothing to forgive");
    }
    if old.invocation != new.invocation {
        return Some("the end is another run's");
    }
    if old.is_provisional() != new.is_provisional() {
        return Some("whether a true end may come is another");
    }
    // The operator declared the lost run dead, so only its wait may change.
    if old.bits == new.bits && new.safety_seconds < old.safety_seconds {
        let is_longer = new.backoff_seconds > old.backoff_seconds;
        return is_longer.then_some("the task waits for longer");
    }
    if old.safety_seconds != new.safety_seconds || new.backoff_seconds < new.safety_seconds {
        return Some("a lost run has another time to live");
    }
    (new.bits.has(StatusBits::FAILED) || new.backoff_seconds > new.safety_seconds)
        .then_some("something is left to forgive")
}

const RESULT: StatusBits = StatusBits::DONE
    .with(StatusBits::INCOMPLETE)
    .with(StatusBits::FAILED)
    .with(StatusBits::ERROR);

/// Returns why `new` must not replace `old`.
fn undone(old: &Stored, new: &Stored) -> Option<&'static str> {
    let is_same_run = old.invocation == new.invocation;
    let is_same_end = is_same_run && old.bits.0 & RESULT.0 == new.bits.0 & RESULT.0;
    if old.is_done() {
        return (!new.is_done()).then_some("DONE is undone");
    }
    if is_same_run {
        let is_taken_back = !old.is_provisional() && new.is_provisional();
        return (is_taken_back && !is_same_end).then_some("a true end is taken back");
    }
    (new.invocation < old.invocation && !new.is_done())
        .then_some("the end of an earlier run takes the place of a later one's")
}

law! {
    /// A task that is DONE or FAILED does not run again, not after a restart either.
    ///
    /// Source: Run of a task. Either the work is done, or an operator must examine it first.
    pub struct FinalStaysFinal = "final_stays_final" {}
}

impl Law for FinalStaysFinal {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some(RunSent { scheduler, run, .. }) = happening.run_sent()
            && let Some(end) = now.model.directories.written_end(scheduler, run.task)
            && (end.is_done() || end.is_failed())
        {
            let what = if end.is_done() { "DONE" } else { "FAILED" };
            return Err(format!(
                "scheduler {scheduler} starts {} although its run {} has {what}",
                run.task, end.invocation
            ));
        }
        Ok(())
    }
}

law! {
    /// A task does not start again before the configured backoff of its last completion is over.
    ///
    /// Source: Run of a task. A failing task must not take the resources of the cluster.
    ///
    /// Checks completions of the same scheduler instance only. A later instance knows the configured backoff only by wall clocks.
    pub struct Backoff = "backoff" {}
}

impl Law for Backoff {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some(RunSent { scheduler, run, .. }) = happening.run_sent()
            && let Some(end) = now.model.directories.written_end(scheduler, run.task)
            && end.by == scheduler
            && end.bits.has(StatusBits::USES_BACKOFF)
        {
            let wait = Duration::from_secs(u64::from(end.backoff_seconds));
            if now.when.since(end.at) < now.world.at_least(wait) {
                return Err(format!(
                    "scheduler {scheduler} starts {} after {:?} of a backoff of {wait:?}",
                    run.task,
                    now.when.since(end.at)
                ));
            }
        }
        Ok(())
    }
}

law! {
    /// A task whose history was deleted starts only once the deletion is synced. No completion of an earlier run is stored again, unless that run was
    /// still alive. When the deletion is reported, all history is gone except what the report says has stayed.
    ///
    /// Source: People and programs to scheduler, `deleteHistory`. The operator wants the work done again; a completion that returns would mark it as
    /// done.
    pub struct DeletedStaysDeleted = "deleted_stays_deleted" {
        /// Runs that started, or were listed as alive, since the deletion that would cover them. They are known as running and will complete. A
        /// run may start with an earlier number if the clock went back and no worker is left that could repeat a deleted completion.
        alive: BTreeSet<Run>,
        asked: BTreeMap<(SchedulerId, HistoryOf), VecDeque<Time>>,
        /// Deletions of a job that no answer has reported yet, in order. A scheduler handles one request after the other.
        untold: BTreeMap<(SchedulerId, u16), VecDeque<(RecordSeq, TaskId)>>,
        synced: BTreeMap<SchedulerId, RecordSeq>,
    }
}

impl Law for DeletedStaysDeleted {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::Listed {
                run, ended: false, ..
            } => {
                self.alive.insert(run);
            }
            Happening::EndWritten { directory, run, .. } => self.judge_end(now, directory, run)?,
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
                self.judge_start(now, scheduler, run.task)?;
                self.alive.insert(run);
            }
            Happening::DeletionAsked { scheduler, of, .. } => {
                self.asked
                    .entry((scheduler, of))
                    .or_default()
                    .push_back(now.when);
            }
            Happening::DeletionAnswered {
                scheduler,
                of,
                counts,
                ..
            } => self.judge_answer(now, scheduler, of, counts)?,
            Happening::SchedulerStopped { scheduler, .. } => {
                self.asked.retain(|(by, _), _| *by != scheduler);
                self.untold.retain(|(by, _), _| *by != scheduler);
                self.synced.remove(&scheduler);
            }
            _ => {}
        }
        match *happening {
            Happening::SchedulerTurn { place } => self.judge_shown(now, place),
            _ => Ok(()),
        }
    }
}

impl DeletedStaysDeleted {
    fn judge_end(&self, now: &Moment<'_>, directory: DirectoryId, run: Run) -> Verdict {
        let contents = now.model.directories.get(directory);
        let deleted = contents.and_then(|contents| contents.deleted(run.task));
        match deleted {
            Some(up_to) if run.invocation <= up_to && !self.alive.contains(&run) => Err(format!(
                "an end of run {} of {} is stored, whose history was deleted up to run {up_to}",
                run.invocation, run.task
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn judge_start(&self, now: &Moment<'_>, scheduler: SchedulerId, task: TaskId) -> Verdict {
        let contents = now.model.directories.contents_of(scheduler);
        match contents.is_some_and(|contents| contents.has_unsynced_deletion(task)) {
            true => Err(format!(
                "{task} starts, although a crash may still undo the deletion of its history"
            )),
            false => Ok(()),
        }
    }

    fn judge_answer(
        &mut self,
        now: &Moment<'_>,
        scheduler: SchedulerId,
        of: HistoryOf,
        counts: DeletedCounts,
    ) -> Verdict {
        let asked = self.asked.get_mut(&(scheduler, of));
        let Some(asked) = asked.and_then(VecDeque::pop_front) else {
            return Err(format!("{of:?} is answered, and nobody asked"));
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
                    return Err(format!(
                        "{of:?} is answered with {counts:?}, and {other:?} is not deleted for good, as only record {synced:?} is synced"
                    ));
                }
            }
        }
        let contents = now.model.directories.contents_of(scheduler);
        let ends = contents.into_iter().flat_map(|c| &c.synced().ends);
        let left: Vec<TaskId> = ends
            .filter(|(task, end)| of.has(**task) && end.at < asked)
            .map(|(task, _)| *task)
            .collect();
        if left.len() as u64 > counts.running + counts.maybe_alive {
            return Err(format!(
                "{of:?} is answered with {counts:?}, and these kept their history: {left:?}"
            ));
        }
        Ok(())
    }

    /// Checks that a task without a stored completion has no status.
    fn judge_shown(&self, now: &Moment<'_>, place: SchedulerPlace) -> Verdict {
        let Some(core) = now.world.scheduler(place) else {
            return Ok(());
        };
        let Some(contents) = now.model.directories.contents_of(core.id()) else {
            return Ok(());
        };
        let engine = core.engine();
        for id in contents.synced().deleted.keys() {
            if contents.written_end(*id).is_some() {
                continue;
            }
            let task = id.known_to(engine);
            if let Some(status) = task.and_then(|task| engine.previous_status(task)) {
                return Err(format!(
                    "the history of {id} was deleted, and it shows {status:?}"
                ));
            }
        }
        Ok(())
    }
}

law! {
    /// A completion is forgotten for its age only while its job or its node does not exist, and no earlier than the retention after one of them was
    /// first missing.
    ///
    /// Source: README.md, "Completions of missing nodes and jobs". If a completion expires too early, a finished task runs again.
    pub struct OnlyTheMissingExpire = "only_the_missing_expire" {
        /// When the job or the node of a stored end was first seen missing. Past absences stay, because schedulers check only periodically.
        missing: BTreeMap<(DirectoryId, TaskId, InvocationId), Time>,
        /// Directories with recorded absences that this law has not seen.
        restored: BTreeSet<DirectoryId>,
    }
}

impl Law for OnlyTheMissingExpire {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if now.world.retention == Retention::UNLIMITED || now.world.contract == Contract::Obedience
        {
            return Ok(());
        }
        match *happening {
            Happening::SchedulerTurn { place } => self.note_missing(now, place),
            Happening::EndExpired {
                directory,
                scheduler,
                task,
                ..
            } => self.judge(now, (directory, scheduler), task)?,
            Happening::BackupRestored { directory } => {
                self.restored.insert(directory);
            }
            _ => {}
        }
        Ok(())
    }
}

impl OnlyTheMissingExpire {
    fn note_missing(&mut self, now: &Moment<'_>, place: SchedulerPlace) {
        let Some(core) = now.world.scheduler(place) else {
            return;
        };
        let Some(directory) = now.model.directories.directory_of(core.id()) else {
            return;
        };
        let Some(contents) = now.model.directories.get(directory) else {
            return;
        };
        let ended = contents.ended().filter(|task| !exists(*task, core));
        for task in ended {
            if let Some(end) = contents.written_end(task) {
                let key = (directory, task, end.invocation);
                self.missing.entry(key).or_insert(now.when);
            }
        }
    }

    fn judge(
        &self,
        now: &Moment<'_>,
        (directory, scheduler): (DirectoryId, SchedulerId),
        task: TaskId,
    ) -> Verdict {
        let mut cores = now.world.schedulers.iter().filter_map(|host| host.core());
        let core = cores.find(|core| core.id() == scheduler);
        if core.is_some_and(|core| exists(task, core)) {
            return Err(format!(
                "the completion of {task} is forgotten, and both its job and its node exist"
            ));
        }
        let contents = now.model.directories.get(directory);
        let Some(end) = contents.and_then(|contents| contents.written_end(task)) else {
            return Err(format!(
                "the completion of {task} is forgotten, and there is none"
            ));
        };
        let since = self.missing.get(&(directory, task, end.invocation));
        let missing_for = since
            .map(|since| now.when.since(*since))
            .unwrap_or_default();
        let least = now.world.retention.missing_for.saturating_sub(COUNTED_IN);
        let is_known = !self.restored.contains(&directory);
        match is_known && missing_for < now.world.at_least(least) {
            false => Ok(()),
            true => Err(format!(
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
    let node = task.node_name();
    config.job(&task.job_name()).is_some() && nodes.rows().any(|row| nodes.name(row) == node)
}

/// A scheduler counts the retention in this unit.
const COUNTED_IN: Duration = Duration::from_secs(1);
