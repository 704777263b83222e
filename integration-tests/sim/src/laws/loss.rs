//! Laws about workers that are lost, replaced, silent or declared dead, and about the tasks that they had.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use brasserie_common::{Health, RecordSeq, SchedulerId, StatusBits, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Moment, Verdict, gives_away, law};
use crate::event_log::{Ask, DirectoryId, Fact, Happening, Run, SchedulerPlace, TaskId};
use crate::view::Contract;

#[cfg(test)]
mod tests;

law! {
    /// A worker instance that has left under a scheduler instance, or under an earlier one of its directory, receives MUST_DIE from it for ever, and
    /// gets no more tasks.
    ///
    /// Source: R20. Its tasks are given away, so an instance that returned would run them a second time.
    pub struct LostIsLost = "lost_is_lost" {
        gone: BTreeSet<(SchedulerId, WorkerId)>,
    }
}

impl Law for LostIsLost {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                let found = now
                    .model
                    .directories
                    .get(directory)
                    .map(|c| &c.synced().left);
                let found = found.into_iter().flatten();
                self.gone.extend(found.map(|worker| (scheduler, *worker)));
            }
            Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerLeft { worker, .. },
                ..
            } => {
                self.gone.insert((scheduler, worker));
            }
            Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerAssociated { worker, .. },
                ..
            } => self.judge(scheduler, worker, "associates it again")?,
            // An answer that was decided before may wait for the disk. The worker counts from its own sending and obeys its own timers.
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if state != Health::MustDie => self.judge(scheduler, worker, state.as_str())?,
            Happening::CallSent {
                scheduler,
                worker,
                ask,
                ..
            } => match ask {
                // A fetch or a healthcheck may have waited for the disk since before. Neither gives the instance a task.
                Ask::Suicide | Ask::Drain | Ask::Fetch | Ask::Healthcheck { .. } => {}
                Ask::Run { .. } => self.judge(scheduler, worker, "sends it a task")?,
                Ask::Notify { .. } => self.judge(scheduler, worker, "asks about its tasks")?,
                Ask::Kill { .. } => self.judge(scheduler, worker, "has a task of it killed")?,
                Ask::TakeBack { .. } => self.judge(scheduler, worker, "takes a task of it back")?,
            },
            Happening::SchedulerStopped { scheduler, .. } => {
                self.gone.retain(|(owner, _)| *owner != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl LostIsLost {
    fn judge(&self, scheduler: SchedulerId, worker: WorkerId, what: &str) -> Verdict {
        if !self.gone.contains(&(scheduler, worker)) {
            return Ok(());
        }
        Err(format!(
            "scheduler {scheduler} had let worker {worker} go, and now: {what}"
        ))
    }
}

law! {
    /// A worker that does not return counts as dead no earlier than the safe wait after any scheduler has decided to answer it.
    ///
    /// Source: R8 and R37. By then, and no earlier, the worker's own timers have ended it. They count from the heartbeat that was answered.
    pub struct DeadBySilence = "dead_by_silence" {
        answered: BTreeMap<WorkerId, Time>,
    }
}

impl Law for DeadBySilence {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::HeartbeatDecided { worker, state, .. } if state != Health::MustDie => {
                self.answered.insert(worker, now.when);
            }
            Happening::StatusAcknowledged {
                worker, run, bits, ..
            } if run.task.is_healthcheck() && bits.has(StatusBits::DONE) => {
                self.answered.insert(worker, now.when);
            }
            Happening::RecordWritten {
                scheduler,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause: LeftCause::DidNotReturn,
                        ..
                    },
                ..
            } if now.world.contract == Contract::Whole => {
                let wait = now.world.at_least(now.world.shortest.min_safe_wait());
                let answered = self.answered.get(&worker);
                if let Some(&answered) = answered
                    && now.when < answered + wait
                {
                    return Err(format!(
                        "scheduler {scheduler} takes worker {worker} for dead, which was answered {:?} before",
                        now.when.since(answered)
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A worker that an operator has declared dead had been silent for the loss time, without a pause of the scheduler. It is gone from the directory
    /// when the operator receives the answer and when the next task starts.
    ///
    /// Source: R38. A later scheduler would wait again for a worker that was forgotten in memory only. The law `lost_is_lost` checks that the worker
    /// stays away.
    pub struct ForgottenIsGone = "forgotten_is_gone" {
        /// When a scheduler of the directory last answered the worker.
        answered: BTreeMap<(DirectoryId, WorkerId), Time>,
        declared: BTreeSet<(SchedulerId, WorkerId)>,
        runs_at: BTreeMap<SchedulerPlace, SchedulerId>,
        paused: BTreeMap<SchedulerPlace, Time>,
        /// The end of the last pause that is long enough to hide a heartbeat.
        awake_since: BTreeMap<SchedulerId, Time>,
    }
}

impl Law for ForgottenIsGone {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        self.note_pause(now, happening);
        match *happening {
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if state != Health::MustDie => {
                if let Some(directory) = now.model.directories.directory_of(scheduler) {
                    self.answered.insert((directory, worker), now.when);
                }
            }
            Happening::RecordWritten {
                directory,
                scheduler,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause: LeftCause::Forgotten,
                        ..
                    },
                ..
            } => {
                self.judge_silence(now, (directory, scheduler), worker)?;
                self.declared.insert((scheduler, worker));
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => return self.sends(now, scheduler, run),
            Happening::WorkerDeclaredDead {
                scheduler, worker, ..
            } => {
                let contents = now.model.directories.contents_of(scheduler);
                if contents.is_some_and(|c| c.synced().instances.contains(&worker)) {
                    return Err(format!(
                        "scheduler {scheduler} told the operator that worker {worker} is forgotten, and a crash now would have it \
                             waited for"
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.declared.retain(|(by, _)| *by != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl ForgottenIsGone {
    fn note_pause(&mut self, now: &Moment<'_>, happening: &Happening) {
        match *happening {
            Happening::SchedulerStarted {
                place, scheduler, ..
            } => {
                self.runs_at.insert(place, scheduler);
                self.paused.remove(&place);
            }
            Happening::SchedulerPaused { place } => {
                self.paused.insert(place, now.when);
            }
            Happening::SchedulerResumed { place } => {
                let paused = self.paused.remove(&place);
                let longest = now.world.timeouts.lose_unhealthy_worker_after / 3;
                if paused.is_some_and(|paused| now.when.since(paused) > longest)
                    && let Some(scheduler) = self.runs_at.get(&place)
                {
                    self.awake_since.insert(*scheduler, now.when);
                }
            }
            _ => {}
        }
    }

    fn judge_silence(
        &self,
        now: &Moment<'_>,
        (directory, scheduler): (DirectoryId, SchedulerId),
        worker: WorkerId,
    ) -> Verdict {
        let loss = now.world.shortest.lose_unhealthy_worker_after;
        let awake = self.awake_since.get(&scheduler);
        if awake.is_some_and(|&awake| now.when < awake + now.world.at_least(loss)) {
            return Err(format!(
                "scheduler {scheduler} took worker {worker} for dead soon after a pause, in which it heard nobody"
            ));
        }
        let answered = self.answered.get(&(directory, worker));
        if let Some(&answered) = answered
            && now.when < answered + now.world.at_least(loss)
        {
            return Err(format!(
                "scheduler {scheduler} took worker {worker} for dead, which was answered {:?} before",
                now.when.since(answered)
            ));
        }
        Ok(())
    }

    fn sends(&mut self, now: &Moment<'_>, scheduler: SchedulerId, run: Run) -> Verdict {
        let Some(contents) = now.model.directories.contents_of(scheduler) else {
            return Ok(());
        };
        let is_known = |worker: &WorkerId| contents.synced().instances.contains(worker);
        let mut declared = self.declared.iter().filter(|(by, _)| *by == scheduler);
        if let Some((_, worker)) = declared.find(|(_, worker)| is_known(worker)) {
            return Err(format!(
                "scheduler {scheduler} starts {} after worker {worker} was declared dead, and a crash now would have the next one \
                     take that worker back",
                run.task
            ));
        }
        self.declared.retain(|(by, _)| *by != scheduler);
        Ok(())
    }
}

law! {
    /// A worker that knew another scheduler, and is lost before its running tasks were fetched, holds back all starts.
    ///
    /// Source: R21. Any task may run there, so nothing may start until the worker's own timers have ended it.
    pub struct UnknownTasksHoldBack = "unknown_tasks_hold_back" {
        /// The schedulers whose sets were named in heartbeats that the scheduler has not handled yet, oldest first. A turn may handle several.
        heard: BTreeMap<(SchedulerId, WorkerId), VecDeque<SchedulerId>>,
        /// The scheduler whose set the worker named when it associated, or another that it has named since.
        came_from: BTreeMap<(SchedulerId, WorkerId), SchedulerId>,
    }
}

impl Law for UnknownTasksHoldBack {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::HeartbeatHeard {
                scheduler,
                worker,
                set,
                ..
            } => {
                let heard = self.heard.entry((*scheduler, *worker)).or_default();
                heard.push_back(set.scheduler);
            }
            Happening::HeartbeatDecided {
                scheduler, worker, ..
            }
            | Happening::HeartbeatRejected {
                scheduler, worker, ..
            } => self.looked_at((*scheduler, *worker)),
            Happening::RecordWritten {
                scheduler, fact, ..
            } => return self.recorded(now, *scheduler, fact),
            Happening::SchedulerStopped { scheduler, .. } => {
                self.heard.retain(|(owner, _), _| owner != scheduler);
                self.came_from.retain(|(owner, _), _| owner != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl UnknownTasksHoldBack {
    fn looked_at(&mut self, pair: (SchedulerId, WorkerId)) {
        let Some(heard) = self.heard.get_mut(&pair) else {
            return;
        };
        let named = heard.pop_front().unwrap_or_default();
        if heard.is_empty() {
            self.heard.remove(&pair);
        }
        if ![pair.0, SchedulerId::default()].contains(&named)
            && let Some(came_from) = self.came_from.get_mut(&pair)
        {
            *came_from = named;
        }
    }

    fn recorded(&mut self, now: &Moment<'_>, scheduler: SchedulerId, fact: &Fact) -> Verdict {
        match *fact {
            Fact::WorkerAssociated { worker, .. } => {
                let pair = (scheduler, worker);
                let looked_at = self.heard.get(&pair).and_then(VecDeque::front);
                self.came_from
                    .insert(pair, looked_at.copied().unwrap_or_default());
                Ok(())
            }
            Fact::WorkerLeft {
                worker,
                cause: LeftCause::Lost,
                hold_back,
                ..
            } => {
                let came_from = self.came_from.get(&(scheduler, worker));
                let knew_one = came_from.is_some_and(|named| *named != SchedulerId::default());
                if knew_one
                    && !now.model.associations.has_fetched(scheduler, worker)
                    && hold_back.is_zero()
                {
                    return Err(format!(
                        "worker {worker} is lost, nobody knows what runs there, and nothing is held back"
                    ));
                }
                Ok(())
            }
            Fact::WorkerLeft { .. }
            | Fact::SchedulerStarted { .. }
            | Fact::HoldBack { .. }
            | Fact::HoldBackOver
            | Fact::TaskEnded
            | Fact::Jobs => Ok(()),
        }
    }
}

law! {
    /// The record with which a worker leaves holds the completion of each of its tasks, with the safety wait that the cause requires.
    ///
    /// Source: B7, R4 and R26. After a crash between two records, tasks would start too early or never.
    pub struct LeftInOneCommit = "left_in_one_commit" {
        leaving: Option<Leaving>,
    }
}

impl Law for LeftInOneCommit {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::EndWritten {
                scheduler,
                seq,
                run,
                safety_seconds,
                ..
            } => {
                self.end(scheduler, seq, run.task, safety_seconds)?;
            }
            Happening::RecordWritten {
                scheduler,
                seq,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause,
                        tasks,
                        ..
                    },
                ..
            } => {
                self.close()?;
                let least = match gives_away(cause) {
                    true => now.world.shortest.lost_task_min_backoff(Duration::ZERO),
                    false => Duration::ZERO,
                };
                self.leaving = Some(Leaving {
                    scheduler,
                    seq,
                    worker,
                    least,
                    told: tasks,
                    missing: now.model.runs.on_worker(scheduler, worker).collect(),
                });
            }
            _ => self.close()?,
        }
        Ok(())
    }
}

impl LeftInOneCommit {
    fn end(
        &mut self,
        scheduler: SchedulerId,
        seq: RecordSeq,
        task: TaskId,
        safety_seconds: u32,
    ) -> Verdict {
        let Some(leaving) = &mut self.leaving else {
            return Ok(());
        };
        if (leaving.scheduler, leaving.seq) != (scheduler, seq) {
            return Ok(());
        }
        leaving.missing.remove(&task);
        leaving.told = leaving.told.saturating_sub(1);
        if Duration::from_secs(u64::from(safety_seconds)) >= leaving.least {
            return Ok(());
        }
        Err(format!(
            "worker {} leaves with {task}, which gets {safety_seconds} s of safety wait instead of {:?}",
            leaving.worker, leaving.least
        ))
    }

    fn close(&mut self) -> Verdict {
        let Some(leaving) = self.leaving.take() else {
            return Ok(());
        };
        if leaving.missing.is_empty() && leaving.told == 0 {
            return Ok(());
        }
        Err(format!(
            "worker {} leaves, but its record lacks the ends of {:?} ({} announced ones)",
            leaving.worker, leaving.missing, leaving.told
        ))
    }
}

/// A record whose ends are being reported.
struct Leaving {
    scheduler: SchedulerId,
    seq: RecordSeq,
    worker: WorkerId,
    least: Duration,
    told: u16,
    missing: BTreeSet<TaskId>,
}

law! {
    /// A lost task does not start again before its safety wait is over, counted again in full after a restart.
    ///
    /// Source: B7 and R26. Until then its old process may live on a worker that cannot be reached.
    pub struct SafetyWait = "safety_wait" {
        started: BTreeMap<SchedulerId, Time>,
    }
}

impl Law for SafetyWait {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::SchedulerStarted { scheduler, .. } => {
                self.started.insert(scheduler, now.when);
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                if let Some(end) = now.model.directories.written_end(scheduler, run.task) {
                    // A backoff that was found in the directory counts from the start of the scheduler.
                    let since = if end.by == scheduler {
                        end.at
                    } else {
                        self.started.get(&scheduler).copied().unwrap_or(now.when)
                    };
                    let wait = Duration::from_secs(u64::from(end.safety_seconds));
                    if now.when.since(since) < now.world.at_least(wait) {
                        return Err(format!(
                            "scheduler {scheduler} starts {} after {:?} of the {wait:?} that its lost run {} gets",
                            run.task,
                            now.when.since(since),
                            end.invocation
                        ));
                    }
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.started.remove(&scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}
