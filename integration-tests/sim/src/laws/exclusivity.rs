//! Laws that keep a task from running twice: live processes, and the fences by which storage tells runs apart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{
    Fence, FenceGeneration, Health, InvocationId, RecordSeq, SchedulerId, Time, WorkerId,
};

use super::{Law, Moment, Verdict, gives_away, law};
use crate::event_log::{
    Ask, DirectoryId, Fact, Happening, ProcessId, Run, RunSent, TaskId, WorkerPlace,
};
use crate::model::executions::Execution;
use crate::view::{Contract, World};

#[cfg(test)]
mod tests;

law! {
    /// A task has at most one live process, on all workers together.
    ///
    /// Source: B6. This law is the contract with users: two copies of a task could both write what only one may write.
    ///
    /// Overlaps with a process on a sleeping machine are checked once the machine had time to end that process.
    pub struct NeverTwice = "never_twice" {
        /// Tasks with an excused overlap.
        excused: BTreeMap<TaskId, Time>,
    }
}

impl Law for NeverTwice {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if now.world.contract == Contract::Obedience {
            return Ok(());
        }
        if let Happening::ProcessStarted { run, .. } = happening {
            self.judge(now, run.task)?;
        }
        if self.excused.is_empty() {
            return Ok(());
        }
        let due: Vec<TaskId> = self.excused.keys().copied().collect();
        due.into_iter().try_for_each(|task| self.judge(now, task))
    }
}

impl NeverTwice {
    fn judge(&mut self, now: &Moment<'_>, task: TaskId) -> Verdict {
        let mut until = None;
        let mut alive = Vec::new();
        for (process, execution) in now.model.executions.of_task(task) {
            match now.excused_until(execution.place) {
                Some(at) => until = until.max(Some(at)),
                None => alive.push((process, *execution)),
            }
        }
        match until.filter(|_| !alive.is_empty()) {
            Some(at) => self.excused.insert(task, at),
            None => self.excused.remove(&task),
        };
        match alive.as_slice() {
            [(_, one), (_, other), ..] => Err(format!(
                "{task} runs twice: run {} on worker {} and run {} on worker {}",
                one.run.invocation, one.worker, other.run.invocation, other.worker
            )),
            [] | [_] => Ok(()),
        }
    }
}

law! {
    /// No scheduler starts a task while one of its live processes is on a worker whose running tasks that scheduler has not fetched.
    ///
    /// Source: R3, R8, R9, R10 and R21. A second copy of a task starts in this way: the first one runs on an unknown worker.
    pub struct NothingUnseen = "nothing_unseen" {}
}

impl Law for NothingUnseen {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let Some(RunSent { scheduler, run, .. }) = happening.run_sent() else {
            return Ok(());
        };
        if now.world.contract == Contract::Obedience {
            return Ok(());
        }
        let mut live = now.model.executions.of_task(run.task);
        let unseen = live.find(|(_, execution)| {
            let is_seen = now
                .model
                .associations
                .has_fetched(scheduler, execution.worker);
            !is_seen && now.excused_until(execution.place).is_none()
        });
        match unseen {
            None => Ok(()),
            Some((_, Execution { run, worker, .. })) => Err(format!(
                "scheduler {scheduler} starts {}, of which run {} lives on worker {worker}, whose tasks it has not fetched",
                run.task, run.invocation
            )),
        }
    }
}

law! {
    /// A task that was given away starts again only when the worker that had it is dead or is ending itself.
    ///
    /// Source: R22 and R29. An instance that was replaced early obeys its own timers, whatever its scheduler believes. Its tasks wait until those
    /// timers have expired.
    pub struct GivenAwayIsDead = "given_away_is_dead" {

        /// The record whose ends follow.
        latest: Option<Had>,
        had: BTreeMap<TaskId, BTreeMap<WorkerId, Had>>,
    }
}

impl Law for GivenAwayIsDead {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::RecordWritten {
                scheduler,
                seq,
                ref fact,
                ..
            } => {
                self.latest = given_away(fact).map(|worker| Had {
                    worker,
                    by: scheduler,
                    seq,
                })
            }
            Happening::EndWritten {
                scheduler,
                seq,
                run,
                ..
            } => {
                if let Some(had) = self.latest
                    && (had.by, had.seq) == (scheduler, seq)
                    && now.model.workers.staying(had.worker).is_some()
                {
                    let of_task = self.had.entry(run.task).or_default();
                    of_task.insert(had.worker, had);
                }
            }
            Happening::TailLost {
                scheduler, after, ..
            } => self.forgive(|had| had.by == scheduler && had.seq > after),
            Happening::BackupRestored { .. } | Happening::DirectoryLost { .. } => {
                self.forgive(|_| true);
            }
            _ => {}
        }
        let start = happening.run_sent();
        let start = start.filter(|_| now.world.contract == Contract::Whole);
        match start.and_then(|start| Some((start, self.living(now, start.run.task)?))) {
            None => Ok(()),
            Some((RunSent { scheduler, run, .. }, worker)) => Err(format!(
                "scheduler {scheduler} starts {}, and worker {worker}, which had it, is not ending itself",
                run.task
            )),
        }
    }
}

/// Returns the worker whose tasks were given away. After a clean exit, a worker's failure to return or an operator's declaration there is
/// nothing to wait for; other laws check these.
fn given_away(fact: &Fact) -> Option<WorkerId> {
    match *fact {
        Fact::WorkerLeft { worker, cause, .. } if gives_away(cause) => Some(worker),
        _ => None,
    }
}

impl GivenAwayIsDead {
    fn forgive(&mut self, which: impl Fn(&Had) -> bool) {
        for had in self.had.values_mut() {
            had.retain(|_, had| !which(had));
        }
        self.had.retain(|_, had| !had.is_empty());
    }

    /// Returns a worker that had the task and is not ending itself.
    fn living(&self, now: &Moment<'_>, task: TaskId) -> Option<WorkerId> {
        let mut had = self.had.get(&task)?.keys().copied();
        had.find(|worker| {
            let staying = now.model.workers.staying(*worker);
            staying.is_some_and(|live| !now.cannot_read_clock(live.place))
        })
    }
}

/// The worker that had a task when it was given away, and the record of that.
#[derive(Clone, Copy)]
struct Had {
    worker: WorkerId,
    by: SchedulerId,
    seq: RecordSeq,
}

law! {
    /// The processes of a worker whose tasks were given away end before those may run again.
    ///
    /// Source: B9, R4 and R22. A zombie that outlives the safety wait overlaps with the next run of its task.
    pub struct ZombiesEnd = "zombies_end" {
        given_away: BTreeMap<WorkerId, GivenAway>,
        /// The last worker whose tasks were given away; its ends follow.
        latest: Option<WorkerId>,
        zombies: BTreeSet<(Time, ProcessId)>,
    }
}

impl Law for ZombiesEnd {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if now.world.contract == Contract::Obedience {
            return Ok(());
        }
        match *happening {
            Happening::RecordWritten {
                scheduler,
                seq,
                ref fact,
                ..
            } => {
                self.recorded(now, (scheduler, seq), fact);
            }
            Happening::EndWritten {
                scheduler,
                seq,
                safety_seconds,
                ..
            } => {
                self.longer(now, (scheduler, seq), safety_seconds);
            }
            Happening::TailLost {
                scheduler, after, ..
            } => {
                self.forgive(now, |given| given.by == scheduler && given.seq > after);
            }
            Happening::BackupRestored { .. } | Happening::DirectoryLost { .. } => {
                self.forgive(now, |_| true)
            }
            // The worker starts nothing more. Its remaining processes are in the list.
            Happening::WorkerStopped { worker, .. } => {
                self.given_away.remove(&worker);
            }
            Happening::ProcessStarted {
                worker, process, ..
            } => {
                if let Some(given) = self.given_away.get(&worker) {
                    self.zombies.insert((given.deadline, process));
                }
            }
            _ => {}
        }
        self.judge(now)
    }
}

impl ZombiesEnd {
    fn recorded(&mut self, now: &Moment<'_>, (by, seq): (SchedulerId, RecordSeq), fact: &Fact) {
        match *fact {
            Fact::WorkerLeft {
                worker,
                cause,
                hold_back,
                ..
            } => {
                let backoff = now.world.timeouts.lost_task_min_backoff(Duration::ZERO);
                let wait = match gives_away(cause) {
                    true => backoff.max(hold_back),
                    false => Duration::ZERO,
                };

                let deadline = now.when + now.world.at_least(wait);
                self.give_away(now, worker, GivenAway { by, seq, deadline });
            }
            // The worker associated with another scheduler, which knows its tasks.
            Fact::WorkerAssociated { worker, .. } => {
                self.forgive_worker(now, worker);
            }
            _ => {}
        }
    }

    fn give_away(&mut self, now: &Moment<'_>, worker: WorkerId, given: GivenAway) {
        self.given_away.insert(worker, given);
        self.latest = Some(worker);
        for (process, _) in now.model.executions.of_worker(worker) {
            self.zombies.insert((given.deadline, process));
        }
    }

    /// Extends the wait of these tasks by the record.
    fn longer(
        &mut self,
        now: &Moment<'_>,
        (by, seq): (SchedulerId, RecordSeq),
        safety_seconds: u32,
    ) {
        let wait = Duration::from_secs(u64::from(safety_seconds));
        let deadline = now.when + now.world.at_least(wait);
        if let Some(worker) = self.latest
            && let Some(given) = self.given_away.get(&worker)
            && (given.by, given.seq) == (by, seq)
            && given.deadline < deadline
        {
            self.forgive_worker(now, worker);
            self.give_away(now, worker, GivenAway { by, seq, deadline });
        }
    }

    fn forgive(&mut self, now: &Moment<'_>, which: impl Fn(&GivenAway) -> bool) {
        let workers = self.given_away.iter().filter(|(_, given)| which(given));
        let workers: Vec<WorkerId> = workers.map(|(worker, _)| *worker).collect();
        for worker in workers {
            self.forgive_worker(now, worker);
        }
    }

    fn forgive_worker(&mut self, now: &Moment<'_>, worker: WorkerId) {
        let Some(given) = self.given_away.remove(&worker) else {
            return;
        };
        for (process, _) in now.model.executions.of_worker(worker) {
            self.zombies.remove(&(given.deadline, process));
        }
    }

    fn judge(&mut self, now: &Moment<'_>) -> Verdict {
        while let Some(&(deadline, process)) = self.zombies.first() {
            if deadline >= now.when {
                return Ok(());
            }
            self.zombies.pop_first();
            let Some(execution) = now.model.executions.get(process) else {
                continue;
            };
            match now.excused_until(execution.place) {
                Some(Time::NEVER) => {
                    // A sleeping process is checked once a second until it wakes.
                    self.zombies
                        .insert((now.when + Duration::from_secs(1), process));
                }
                Some(until) => {
                    self.zombies.insert((until, process));
                }
                None => {
                    let Execution { run, worker, .. } = execution;
                    return Err(format!(
                        "{run} on worker {worker} lives on, though it was given away and may run again"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct GivenAway {
    by: SchedulerId,
    seq: RecordSeq,
    deadline: Time,
}

law! {
    /// A worker instance sends no heartbeat while a process of an earlier instance at its place is alive.
    ///
    /// Source: R23. By its heartbeat the scheduler knows that the earlier holder of the machine lock is dead.
    pub struct PredecessorIsDead = "predecessor_is_dead" {
        /// Earlier instances of each place that may have left processes behind.
        earlier: BTreeMap<WorkerPlace, Vec<WorkerId>>,
    }
}

impl Law for PredecessorIsDead {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerStopped { place, worker, .. } => {
                self.earlier.entry(place).or_default().push(worker);
            }
            Happening::HeartbeatSent { place, worker, .. } => {
                let earlier = self.earlier.remove(&place).into_iter().flatten();
                let mut live = earlier.flat_map(|old| now.model.executions.of_worker(old));
                if let Some((
                    _,
                    Execution {
                        run, worker: old, ..
                    },
                )) = live.next()
                {
                    return Err(format!(
                        "worker {worker} sends a heartbeat while {run} of its predecessor {old} lives"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// The fences of a task's runs strictly increase in the order in which the runs begin.
    ///
    /// Source: R40 and Fences. Storage that rejects smaller fences is safe from a run that outlives its replacement. A directory that was lost or
    /// restored forgets the fences given out since. Then a fence is above an earlier one only in two cases: a worker has listed that fence or a
    /// larger one to the new scheduler, or the new scheduler began in a later second than the earlier fence's generation.
    pub struct FencesIncrease = "fences_increase" {
        /// How often each directory has lost records.
        losses: BTreeMap<DirectoryId, u32>,
        /// The losses of the directory before each scheduler started.
        after_losses: BTreeMap<SchedulerId, u32>,
        senders: BTreeMap<InvocationId, SchedulerId>,
        fences: BTreeMap<InvocationId, Fence>,
        last: BTreeMap<TaskId, InvocationId>,
        /// The scheduler whose fetch was served last.
        asking: Option<SchedulerId>,
        /// The largest fence in the latest list.
        listed: BTreeMap<(SchedulerId, WorkerId), Option<Fence>>,
        /// The largest fence in all lists that a scheduler has certainly read.
        known: BTreeMap<SchedulerId, Fence>,
    }
}

impl Law for FencesIncrease {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::SchedulerStarted {
                scheduler,
                directory,
                ..
            } => {
                let losses = self.losses.get(&directory).copied().unwrap_or(0);
                self.after_losses.insert(scheduler, losses);
            }
            Happening::DirectoryLost { directory } | Happening::BackupRestored { directory } => {
                *self.losses.entry(directory).or_default() += 1;
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                self.senders.insert(run.invocation, scheduler);
            }
            Happening::Served {
                scheduler,
                worker,
                ask: Ask::Fetch,
                refusal: None,
                ..
            } => {
                self.asking = Some(scheduler);
                self.listed.insert((scheduler, worker), None);
            }
            Happening::Listed { worker, run, .. } => {
                let fence = self.fences.get(&run.invocation).copied();
                if let Some(scheduler) = self.asking
                    && let Some(listed) = self.listed.get_mut(&(scheduler, worker))
                {
                    *listed = fence.max(*listed);
                }
            }
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if state != Health::New => {
                if let Some(Some(listed)) = self.listed.remove(&(scheduler, worker)) {
                    let known = self.known.entry(scheduler).or_insert(listed);
                    *known = listed.max(*known);
                }
            }
            Happening::Fenced { run, fence } => return self.begins(run, fence, now.world),
            _ => {}
        }
        Ok(())
    }
}

impl FencesIncrease {
    fn begins(&mut self, run: Run, fence: Fence, world: &World<'_>) -> Verdict {
        self.fences.insert(run.invocation, fence);
        let before = self.last.insert(run.task, run.invocation);
        let Some(before) = before.filter(|_| world.contract == Contract::Whole) else {
            return Ok(());
        };
        let Some(earlier) = self.fences.get(&before).copied() else {
            return Ok(());
        };
        if fence > earlier || self.is_forgotten((before, earlier), run.invocation) {
            return Ok(());
        }
        Err(format!(
            "{} begins run {} with fence {fence} after run {before} with fence {earlier}",
            run.task, run.invocation
        ))
    }

    /// Returns whether the scheduler of `run` could not know that this fence was given out.
    fn is_forgotten(&self, (before, earlier): (InvocationId, Fence), run: InvocationId) -> bool {
        let sender = |of| self.senders.get(of).copied();
        let (Some(old), Some(new)) = (sender(&before), sender(&run)) else {
            return false;
        };
        let began = FenceGeneration::of_second(new.0.start_time);
        self.after_losses.get(&old) != self.after_losses.get(&new)
            && earlier.generation() >= began
            && self.known.get(&new) < Some(&earlier)
    }
}
