//! Laws about pull workers: verdicts, lists of known runs, and idle processors. The law about their credit is in `credit.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{
    Health, InvocationId, Processor, SchedulerId, Shard, StatusBits, Time, WorkRequestSeq,
    WorkVerdict, WorkerId,
};
use brasserie_scheduler_core::{Answer, ClusterStatus, Query, Scheduler, WorkCounts};
use brasserie_scheduler_engine::{Allowance, Allowances, Eligibility, Engine, Reason, Task};
use brasserie_worker_core::{LifeStage, Profile};

use super::{Law, Moment, Verdict, law};
use crate::cluster::WORKER_CALL_DEADLINE;
use crate::event_log::{Ask, Happening, Run, SchedulerPlace, TaskId};
use crate::hosts::desk::RunStage;
use crate::model::workers::LiveWorker;
use crate::view::{Contract, Phase, World};

#[cfg(test)]
mod tests;

law! {
    /// A scheduler that reports a number of tasks sent for a request has sent as many for it, and they count as running.
    ///
    /// Source: Requests for work. The law `running_before_sent` checks that the tasks count as running.
    pub struct GrantedWasSent = "granted_was_sent" {
        sent: BTreeMap<Asked, u32>,
        /// Answers of this turn.
        told: Vec<(Asked, u32)>,
    }
}

impl Law for GrantedWasSent {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::SentAsWork {
                scheduler,
                worker,
                run: _,
                terms,
            } => {
                if let Some(seq) = terms.request {
                    *self.sent.entry((*scheduler, *worker, seq)).or_default() += 1;
                }
            }
            Happening::WorkTold {
                scheduler,
                worker,
                seq,
                verdicts,
                ..
            } => {
                let granted = verdicts.iter().filter_map(|(_, verdict)| match verdict {
                    WorkVerdict::Granted(tasks) => Some(*tasks),
                    _ => None,
                });
                let granted = granted.reduce(|a, b| a.saturating_add(b));
                let asked = (*scheduler, *worker, *seq);
                self.told.extend(granted.map(|tasks| (asked, tasks)));
            }
            Happening::SchedulerTurn { .. } => {
                for (asked, told) in std::mem::take(&mut self.told) {
                    let sent = self.sent.get(&asked).copied().unwrap_or(0);
                    if told == 0 || told > sent {
                        let (scheduler, worker, seq) = asked;
                        return Err(format!(
                            "scheduler {scheduler} tells worker {worker} of {told} tasks for request {}, and has sent {sent}",
                            seq.0
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

type Asked = (SchedulerId, WorkerId, WorkRequestSeq);

law! {
    /// A worker that requests work from a scheduler lists every run that it has accepted from the scheduler, until the completion of that run is
    /// acknowledged; and no scheduler reports otherwise.
    ///
    /// Source: Requests for work. An unlisted run counts as under way, and nobody may give it away. A list with gaps means that a worker lost a task,
    /// or that a scheduler kept one.
    pub struct ListsWhatItHas = "lists_what_it_has" {
        /// The accepted runs of each worker and scheduler.
        accepted: BTreeMap<(WorkerId, SchedulerId), InvocationSet>,
        /// The runs that a request under way must list.
        asked: BTreeMap<(WorkerId, SchedulerId, WorkRequestSeq), InvocationSet>,
    }
}

impl Law for ListsWhatItHas {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::Served {
                worker,
                scheduler,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => {
                let runs = self.accepted.entry((*worker, *scheduler)).or_default();
                runs.insert(run.invocation);
            }
            Happening::StatusSettled { worker, run, .. } => {
                let of_worker = self.accepted.iter_mut().filter(|((of, _), _)| of == worker);
                for (_, runs) in of_worker {
                    runs.remove(&run.invocation);
                }
            }
            Happening::WorkAsked {
                worker,
                scheduler,
                seq,
            } => {
                let runs = self.accepted.get(&(*worker, *scheduler));
                let runs = runs.cloned().unwrap_or_default();
                // The same request may be sent again with a newer list, and the older one may arrive later.
                let asked = self.asked.entry((*worker, *scheduler, *seq));
                let asked = asked.or_insert_with(|| runs.clone());
                asked.retain(|run| runs.contains(run));
            }
            Happening::WorkHeard {
                worker,
                meant,
                seq,
                known: Some(known),
                ..
            } => return self.heard((*worker, *meant, *seq), known),
            Happening::WorkerStopped { worker, .. } => {
                self.accepted.retain(|(of, _), _| of != worker);
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.accepted.retain(|(_, by), _| by != scheduler);
                self.asked.retain(|(_, of, _), _| of != scheduler);
            }
            Happening::SchedulerTurn { place } => {
                let core = now.world.scheduler(*place);
                return core.map_or(Ok(()), |core| judge(&core.work_counts()));
            }
            _ => {}
        }
        Ok(())
    }
}

impl ListsWhatItHas {
    /// A request may arrive several times.
    fn heard(
        &mut self,
        of: (WorkerId, SchedulerId, WorkRequestSeq),
        known: &[InvocationId],
    ) -> Verdict {
        let Some(runs) = self.asked.get(&of) else {
            return Ok(());
        };
        let known: BTreeSet<&InvocationId> = known.iter().collect();
        match runs.iter().find(|run| !known.contains(run)) {
            None => Ok(()),
            Some(run) => {
                let (worker, scheduler, seq) = of;
                Err(format!(
                    "worker {worker} asks scheduler {scheduler} for work with request {} and does not list run {run}, which it has accepted",
                    seq.0
                ))
            }
        }
    }
}

/// A scheduler compares each list with its own runs and counts the missing ones. The count must stay zero.
fn judge(counts: &WorkCounts) -> Verdict {
    match counts.missing_runs {
        0 => Ok(()),
        missing => Err(format!(
            "a scheduler misses {missing} runs in requests for work"
        )),
    }
}

type InvocationSet = BTreeSet<InvocationId>;

law! {
    /// Once nothing fails any more, no CPU of a healthy pull worker is idle for longer than the worker's longest wait before it asks, while its
    /// scheduler has one and the same task ready that could run there.
    ///
    /// Source: What our worker does with it. All waits of a worker are bounded, and the end of any wait makes the worker ask. A cluster may be slow
    /// to find work for an idle processor, but must find it eventually.
    pub struct IdleIsFed = "idle_is_fed" {
        checks: BTreeMap<WorkerId, Check>,
        /// The CPUs of each run that was sent as work. Other runs count as one CPU.
        cpus: BTreeMap<Run, f64>,
    }
}

/// The last check of a worker, and its stall if there is one.
#[derive(Debug, Default)]
struct Check {
    at: Time,
    stall: Option<Stall>,
}

/// The time since which a CPU is idle while this task is ready for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stall {
    task: TaskId,
    since: Time,
}

impl Law for IdleIsFed {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::WorkerStopped { worker, .. } => {
                self.checks.remove(worker);
            }
            Happening::SchedulerStarted { .. } | Happening::SchedulerStopped { .. } => {
                self.checks
                    .values_mut()
                    .for_each(|check| check.stall = None);
            }
            // The worker is no longer idle, or its wait begins again.
            Happening::ProcessStarted { worker, .. } => self.begins(now, *worker),
            Happening::ProcessEnded {
                worker, run, bits, ..
            } => {
                self.cpus.remove(run);
                if *bits != StatusBits::DONE {
                    self.fails(now.when, *worker);
                }
            }
            Happening::SentAsWork { run, terms, .. } => {
                self.cpus.insert(*run, terms.cpus.unwrap_or(1.0));
            }
            Happening::CallSent {
                ask: Ask::Run { run, .. },
                ..
            } => self.is_sent(run.task),
            Happening::SchedulerTurn { .. } | Happening::WorkerTurn { .. } => {
                return self.check(now);
            }
            _ => {}
        }
        Ok(())
    }
}

impl IdleIsFed {
    fn begins(&mut self, now: &Moment<'_>, worker: WorkerId) {
        let is_idle = self.is_idle(now, worker);
        if let Some(check) = self.checks.get_mut(&worker).filter(|_| !is_idle) {
            check.stall = None;
        }
    }

    /// Records a failed task. The worker then sends no requests to that task's scheduler for a while.
    fn fails(&mut self, when: Time, worker: WorkerId) {
        let check = self.checks.get_mut(&worker);
        if let Some(stall) = check.and_then(|check| check.stall.as_mut()) {
            stall.since = when;
        }
    }

    fn is_sent(&mut self, task: TaskId) {
        for check in self.checks.values_mut() {
            check.stall = check.stall.filter(|stall| stall.task != task);
        }
    }

    /// Returns whether a whole CPU is idle, by the processes that really run and the runs that wait for their artifacts.
    fn is_idle(&self, now: &Moment<'_>, worker: WorkerId) -> bool {
        let Some(cpus) = now.model.machines.cpus(worker) else {
            return false;
        };
        let live = now.model.executions.of_worker(worker);
        let live = live.map(|(_, one)| one.run);
        let host = now.world.workers.iter();
        let host = host.filter(|host| host.worker() == Some(worker));
        let led = host
            .filter_map(|host| host.desk())
            .flat_map(|desk| desk.runs());
        let led = led.filter(|(_, led)| led.stage != RunStage::Running);
        let led = led.map(|(_, led)| Run::of(&led.run.task));
        let busy: f64 = live
            .chain(led)
            .map(|run| self.cpus.get(&run).copied().unwrap_or(1.0))
            .sum();
        busy <= cpus.max(1.0) - 1.0 + ROUNDING
    }

    fn check(&mut self, now: &Moment<'_>) -> Verdict {
        let is_quiet = matches!(now.world.phase, Phase::Quiet { .. });
        if !is_quiet || now.world.contract != Contract::Whole {
            return Ok(());
        }
        let is_due = |worker: &WorkerId| {
            let last = self.checks.get(worker).map_or(Time::ZERO, |check| check.at);
            now.model.machines.cpus(*worker).is_some() && now.when >= last + CHECK_EVERY
        };
        let live = now.model.workers.iter();
        let due = live.filter(|(worker, _)| is_due(worker));
        let due: Vec<(WorkerId, &LiveWorker)> = due.collect();
        let status = match due.is_empty() {
            true => return Ok(()),
            false => now.world.scheduler(SchedulerPlace(0)).and_then(status),
        };
        for (worker, live) in due {
            let ready = (status.as_ref()).and_then(|of| self.ready_for(now, (worker, live), of));
            if let Some(fetching) = now.world.fetching.of(live.place) {
                let longest = longest_wait(&fetching.profile, now.world);
                self.judge(now.when, worker, ready, now.world.at_most(longest))?;
            }
        }
        Ok(())
    }

    /// Returns a ready task for an idle CPU of this worker. Prefers the task of the last check if it is still ready.
    fn ready_for(
        &self,
        now: &Moment<'_>,
        (worker, live): (WorkerId, &LiveWorker),
        (core, status): &(&Scheduler, ClusterStatus),
    ) -> Option<TaskId> {
        if !self.is_idle(now, worker) {
            return None;
        }
        let own = now.world.worker(live.place)?;
        let serves = own.health() == Health::Healthy
            && own.bound_to() == Some(core.id())
            && own.life_stage() == LifeStage::Running;
        let told = status.workers.iter().find(|told| told.id == worker)?;
        if !serves || told.health != Health::Healthy || told.waits_for.is_some() {
            return None;
        }
        let others = now.model.workers.iter().map(|(_, other)| &other.shard);
        let others = others.filter(|other| **other != live.shard);
        let alone = asked_for_all(core.engine(), &live.shard, others)?;
        let has_tasks = told.running > 0;
        let stall = self.checks.get(&worker).and_then(|check| check.stall);
        let last = stall.map(|stall| stall.task);
        last.filter(|task| is_runnable(&alone, *task))
            .or_else(|| first_ready(alone, has_tasks))
    }

    fn judge(
        &mut self,
        when: Time,
        worker: WorkerId,
        ready: Option<TaskId>,
        longest: Duration,
    ) -> Verdict {
        let check = self.checks.entry(worker).or_default();
        check.at = when;
        let last = check.stall.take();
        let Some(task) = ready else {
            return Ok(());
        };
        let last = last.filter(|stall| stall.task == task);
        let stall = last.unwrap_or(Stall { task, since: when });
        check.stall = Some(stall);
        if when > stall.since + longest {
            let secs = when.since(stall.since).as_secs();
            return Err(format!(
                "worker {worker} has an idle CPU, and {task} is ready that could run there, for {secs} s"
            ));
        }
        Ok(())
    }
}

/// Returns the status of a scheduler that may start tasks.
fn status(core: &Scheduler) -> Option<(&Scheduler, ClusterStatus)> {
    let Answer::Status(status) = core.answer(Time::ZERO, &Query::Status) else {
        return None;
    };
    let starts = status.initial_wait.is_none() && status.nodes_loaded;
    starts.then_some((core, *status))
}

/// Returns the longest time until a worker asks again after a failed request, or after one whose answer is lost, plus the longest time that
/// its scheduler takes to answer.
fn longest_wait(profile: &Profile, world: &World<'_>) -> Duration {
    let backoff = (LONGEST_PART * profile.pair_backoff_max).max(profile.rpc_backoff_max);
    let looks = profile.driver_period + profile.fetch_period + profile.schedule_period;
    let verdicts = world.heartbeat_period * 2;
    WORKER_CALL_DEADLINE + Duration::from_secs_f64(backoff + looks) + verdicts + SLACK
}

/// Returns the engine as if this worker were the only one and had just requested any number of tasks for its CPUs.
fn asked_for_all<'a>(
    engine: &Engine,
    shard: &Shard,
    others: impl Iterator<Item = &'a Shard>,
) -> Option<Engine> {
    let index = engine.find_worker(shard.as_str())?;
    let found = engine.work_found(index);
    if found.get(&Processor::Cpu).is_none_or(|cpu| cpu.ready == 0) {
        return None;
    }
    let mut alone = engine.clone();
    for other in others {
        if let Some(other) = alone.find_worker(other.as_str()) {
            alone.set_eligibility(other, Eligibility::Ineligible);
        }
    }
    let all = Allowance {
        bufferable: true,
        immediate: true,
        instances: f64::INFINITY,
        instance_secs: f64::INFINITY,
        estimated_delay: 0.0,
    };
    alone.set_allowances(index, Some(Allowances::new([(Processor::Cpu, all)])));
    alone.set_eligibility(index, Eligibility::Eligible);
    Some(alone)
}

fn is_runnable(engine: &Engine, task: TaskId) -> bool {
    let Some(known) = task.known_to(engine) else {
        return false;
    };
    engine.explain(Time::ZERO, known) == [Reason::Runnable]
}

/// Returns the first task that starts there. A task with a deadline may be too late for a worker that has tasks.
fn first_ready(mut engine: Engine, has_tasks: bool) -> Option<TaskId> {
    for _ in 0..MOST_TRIES {
        // The placement at time zero ends no backoff.
        let Task { job, node } = engine.place(Time::ZERO)?.task;
        let has_deadline = engine.job_config(job)?.deadline().is_some();
        if !(has_deadline && has_tasks) {
            let (job, node) = (engine.job_name(job), engine.node_name(node));
            return Some(TaskId::from_names(job.as_str(), node.as_str()));
        }
    }
    None
}

/// The interval at which a worker is checked.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Time for messages and turns, the low mark of a worker that was busy, and the pause before a postponed request.
const SLACK: Duration = Duration::from_secs(5);
/// A backoff of a scheduler and a type lasts at most this many times its interval.
const LONGEST_PART: f64 = 1.5;
/// The number of ready tasks with deadlines that are skipped to find one without.
const MOST_TRIES: usize = 64;
/// Tolerance for sums of processors as floats.
const ROUNDING: f64 = 1e-6;
