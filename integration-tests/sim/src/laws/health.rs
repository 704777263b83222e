//! Laws about health: starts on healthy workers only, joining, and workers that give up before they are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{Health, SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;
use brasserie_worker_core::LifeStage;

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, Fact, Happening, RejectionKind};
use crate::view::Contract;

#[cfg(test)]
mod tests;

law! {
    /// A task starts only on a worker that both sides consider HEALTHY, and whose running tasks the scheduler has fetched.
    ///
    /// Source: B5. Only then do both sides know when the other takes the task for lost.
    pub struct HealthyStarts = "healthy_starts" {}
}

impl Law for HealthyStarts {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                ..
            } => {
                let pair = now.model.associations.get(scheduler, worker);
                let what = match pair {
                    None => "that it never heard of",
                    Some(pair) if pair.left => "that has left",
                    Some(pair) if !pair.fetched => "whose running tasks it has not fetched",
                    Some(pair) if pair.told != Some(Health::Healthy) => {
                        "that it has not told to be HEALTHY"
                    }
                    Some(_) => return Ok(()),
                };
                Err(format!(
                    "scheduler {scheduler} sends {} to worker {worker}, {what}",
                    run.task
                ))
            }
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                health,
                ..
            } if health != Health::Healthy => Err(format!(
                "worker {worker} accepts {} while it is {}",
                run.task,
                health.as_str()
            )),
            _ => Ok(()),
        }
    }
}

law! {
    /// A task leaves a scheduler, and is accepted by a worker, only on a heartbeat and a healthcheck that are fresh in true time.
    ///
    /// Source: R28 and R29. A process that slept must read the clock before it acts on its old state.
        pub struct FreshBelief = "fresh_belief" {}
}

impl Law for FreshBelief {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some(sent) = happening.run_sent() {
            let (scheduler, worker, task) = (sent.scheduler, sent.worker, sent.run.task);
            let pair = now.model.associations.get(scheduler, worker);
            let period = now.model.workers.heartbeat_period(worker);
            let timeouts = now.world.timeouts;
            let heartbeat = pair.and_then(|pair| pair.heartbeat_heard);
            let heartbeat = stale(now, heartbeat, timeouts.max_heartbeat_gap(period));
            let check = pair.and_then(|pair| pair.good_check);
            let check = stale(now, check, timeouts.max_healthcheck_gap());
            let old = heartbeat.map(|age| ("heartbeat", age));
            if let Some((what, age)) = old.or(check.map(|age| ("healthcheck", age))) {
                return Err(format!(
                    "scheduler {scheduler} sends {task} to worker {worker} on a {what} {age}"
                ));
            }
        }
        if let Some((worker, run)) = happening.run_accepted()
            && let Some(live) = now.model.workers.get(worker)
        {
            let gap = now.world.timeouts.max_heartbeat_gap(live.heartbeat_period);
            if let Some(age) = stale(now, live.answered, gap) {
                let task = run.task;
                return Err(format!(
                    "worker {worker} accepts {task} on a heartbeat {age}"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the age of `last` if no clock of this world can take it for fresh.
fn stale(now: &Moment<'_>, last: Option<Time>, gap: Duration) -> Option<String> {
    match last {
        None => Some("that never was".to_owned()),
        Some(at) => {
            let age = now.when.since(at);
            (age > now.world.at_most(gap)).then(|| format!("of {age:?} ago"))
        }
    }
}

law! {
    /// Where only workers come and go, and one of them lasts, a worker that starts is HEALTHY within two heartbeat periods.
    ///
    /// Source: Worker-set consensus. High turnover must not keep new workers from getting tasks.
    pub struct JoinsInTime = "joins_in_time" {
        joining: BTreeMap<WorkerId, Joining>,
        deadlines: BTreeSet<(Time, WorkerId)>,
        healthy: BTreeSet<WorkerId>,
    }
}

struct Joining {
    deadline: Time,
    /// A worker that stays. If it dies too, all remaining workers may be silent, and a new worker must wait until they are lost.
    witness: WorkerId,
}

impl Law for JoinsInTime {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerStarted { worker, .. } if now.world.only_workers_fail => {
                let period = now.model.workers.heartbeat_period(worker);
                let deadline = now.when + period * PERIODS + SLACK;
                if let Some(&witness) = self.healthy.first() {
                    self.joining.insert(worker, Joining { deadline, witness });
                    self.deadlines.insert((deadline, worker));
                }
            }
            Happening::WorkerHealth {
                worker,
                to: Health::Healthy,
                ..
            } => {
                self.settle(worker);
                self.healthy.insert(worker);
            }
            Happening::WorkerHealth { worker, to, .. } => {
                self.falls_ill(worker);
                if to == Health::MustDie {
                    self.settle(worker);
                }
            }
            Happening::HeartbeatSent {
                worker,
                goodbye: true,
                ..
            }
            | Happening::WorkerStopped { worker, .. } => {
                self.settle(worker);
                self.falls_ill(worker);
            }
            Happening::FaultsOver => {
                self.joining.clear();
                self.deadlines.clear();
            }
            _ => {}
        }
        match self.deadlines.first() {
            Some(&(deadline, worker)) if deadline < now.when => {
                Err(format!("worker {worker} is not HEALTHY yet"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl JoinsInTime {
    fn settle(&mut self, worker: WorkerId) {
        if let Some(joining) = self.joining.remove(&worker) {
            self.deadlines.remove(&(joining.deadline, worker));
        }
    }

    fn falls_ill(&mut self, witness: WorkerId) {
        if self.healthy.remove(&witness) {
            let alone = self.joining.iter().filter(|(_, j)| j.witness == witness);
            let alone: Vec<WorkerId> = alone.map(|(worker, _)| *worker).collect();
            for worker in alone {
                self.settle(worker);
            }
        }
    }
}

/// Time for first round trips, syncs and pauses between attempts, in addition to the two periods.
const SLACK: Duration = Duration::from_secs(5);
/// The documented number of periods.
const PERIODS: u32 = 2;

law! {
    /// When a scheduler loses a worker by its timers, that worker does not consider itself HEALTHY, and gives up within the safety margin at the
    /// latest.
    ///
    /// Source: B9 and R29. Otherwise its processes could be alive when their tasks run again.
    ///
    /// Tells a loss by timers from an early replacement by the happenings just before it.
    pub struct WorkerGivesUpFirst = "worker_gives_up_first" {
                contested: BTreeSet<WorkerId>,
        lost: BTreeSet<(Time, WorkerId)>,
    }
}

impl Law for WorkerGivesUpFirst {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::ShardContested { incumbent, .. } => {
                self.contested.insert(incumbent);
            }
            Happening::SchedulerTurn { .. } => self.contested.clear(),
            Happening::RecordWritten {
                scheduler,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause: LeftCause::Lost,
                        ..
                    },
                ..
            } if now.world.contract == Contract::Whole => self.lost(now, scheduler, worker)?,
            _ => {}
        }
        self.judge(now)
    }
}

impl WorkerGivesUpFirst {
    fn lost(&mut self, now: &Moment<'_>, scheduler: SchedulerId, worker: WorkerId) -> Verdict {
        let Some(alive) = now.model.workers.get(worker) else {
            return Ok(());
        };
        let is_early = self.contested.contains(&worker);
        let is_asleep = now.cannot_read_clock(alive.place);
        let core = now.world.worker(alive.place);
        // Other timers apply to a worker that never had an answer of this scheduler, or already has one of a later scheduler. It ignores an
        // answer to a call that it abandoned.
        let is_other = alive.scheduler != Some(scheduler)
            || core.is_some_and(|core| core.scheduler() != Some(scheduler));
        // A worker that was told to leave is already ending its tasks.
        let is_leaving = core.is_some_and(|core| match core.life_stage() {
            LifeStage::Running | LifeStage::Draining => false,
            LifeStage::Leaving | LifeStage::Dying | LifeStage::Gone => true,
        });
        if is_early || is_asleep || is_other || is_leaving {
            return Ok(());
        }
        match alive.health {
            Health::Healthy => Err(format!(
                "scheduler {scheduler} loses worker {worker}, which holds itself HEALTHY"
            )),
            Health::New | Health::Unhealthy => {
                let margin = now
                    .world
                    .at_least(now.world.timeouts.suicide_backoff_safety_margin);
                self.lost.insert((now.when + margin, worker));
                Ok(())
            }
            Health::MustDie => Ok(()),
        }
    }

    fn judge(&mut self, now: &Moment<'_>) -> Verdict {
        while let Some(&(deadline, worker)) = self.lost.first() {
            if deadline >= now.when {
                return Ok(());
            }
            self.lost.pop_first();
            let staying = now.model.workers.staying(worker);
            if let Some(live) = staying.filter(|live| !now.cannot_read_clock(live.place)) {
                return Err(format!(
                    "worker {worker} is still {}, and was lost longer ago than the safety margin",
                    live.health.as_str()
                ));
            }
        }
        Ok(())
    }
}

law! {
    /// A heartbeat is refused as stale only if a later instance has taken the same machine lock.
    ///
    /// Source: Association, rows 4 to 6 of the replacement table. A worker refused by mistake stays out until its predecessor is forgotten.
    pub struct StaleIsEarlier = "stale_is_earlier" {
        lock_of: BTreeMap<WorkerId, i32>,
        /// The latest start second of each machine lock.
        latest: BTreeMap<i32, i64>,
    }
}

impl Law for StaleIsEarlier {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerStarted {
                worker, lock_port, ..
            } => {
                self.lock_of.insert(worker, lock_port);
                let start = worker.0.start_time;
                let latest = self.latest.entry(lock_port).or_insert(start);
                *latest = (*latest).max(start);
                Ok(())
            }
            Happening::HeartbeatRejected {
                worker,
                why: RejectionKind::StaleInstance,
                ..
            } => {
                let latest = self
                    .lock_of
                    .get(&worker)
                    .and_then(|lock| self.latest.get(lock));
                if latest.is_some_and(|latest| *latest <= worker.0.start_time) {
                    return Err(format!(
                        "worker {worker} is refused as stale, and none is later"
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
