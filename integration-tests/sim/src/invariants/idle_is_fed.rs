//! Law `idle_is_fed`: Once nothing fails any more, no CPU of a healthy worker that asks for work is idle while its scheduler has one and
//! the same task ready that could run there, for longer than the worker's longest wait before it asks.
//!
//! Source: thrift/PROTOCOL.md, What our worker does with it. All waits of a worker are bounded, and the end of any wait makes the worker
//! ask. A cluster may be slow to find work for an idle processor, but must find it eventually.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{Health, Processor, Shard, StatusBits, Time, WorkerId};
use brasserie_scheduler_core::{Answer, ClusterStatus, Query, Scheduler};
use brasserie_scheduler_engine::{Allowance, Allowances, Eligibility, Engine, Reason, Task};
use brasserie_worker_core::{LifeStage, Profile};

use super::{Law, Violation};
use crate::cluster::WORKER_CALL_DEADLINE;
use crate::event_log::{Ask, Happening, Run, SchedulerPlace, TaskId, WorkerPlace};
use crate::model::drift;
use crate::model::executions::Executions;
use crate::view::{Contract, Phase, World};

const NAME: &str = "idle_is_fed";
/// The interval at which a worker is checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time for messages and turns, the low mark of a worker that was busy, and the pause before a postponed request.
const SLACK: Duration = Duration::from_secs(5);
/// A backoff of a scheduler and a type lasts at most this many times its interval.
const LONGEST_PART: f64 = 1.5;
/// The number of ready tasks with deadlines that are skipped to find one without.
const MOST_TRIES: usize = 64;
/// Tolerance for sums of processors as floats.
const ROUNDING: f64 = 1e-6;

#[derive(Default)]
pub struct IdleIsFed {
    executions: Executions,
    homes: BTreeMap<WorkerId, Home>,
    /// The CPUs of each run that was sent as work. Other runs count as one CPU.
    cpus: BTreeMap<Run, f64>,
}

/// The place of a live worker, and its stall if there is one.
#[derive(Debug)]
struct Home {
    place: WorkerPlace,
    shard: Shard,
    /// The number of CPUs; `None` if the worker does not request work.
    cpus: Option<f64>,
    looked: Time,
    stall: Option<Stall>,
}

/// The time since which a CPU is idle while this task is ready for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stall {
    task: TaskId,
    since: Time,
}

impl Law for IdleIsFed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "Once nothing fails any more, no CPU of a healthy worker that asks for work is idle while its scheduler has one and the same task ready that could run there, for longer than the worker's longest wait before it asks."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        match happening {
            Happening::WorkerStarted {
                place,
                worker,
                shard,
                ..
            } => self.starts(*worker, *place, shard),
            Happening::FetchesWork { worker, cpus } => {
                if let Some(home) = self.homes.get_mut(worker) {
                    home.cpus = Some(cpus.max(1.0));
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.homes.remove(worker);
            }
            Happening::SchedulerStarted { .. } | Happening::SchedulerStopped { .. } => {
                self.homes.values_mut().for_each(|home| home.stall = None);
            }
            // The worker is no longer idle, or its wait begins again.
            Happening::ProcessStarted { worker, .. } => self.begins(*worker),
            Happening::ProcessEnded {
                worker, run, bits, ..
            } => {
                self.cpus.remove(run);
                if *bits != StatusBits::DONE {
                    self.fails(when, *worker);
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
                return self.look(when, world);
            }
            _ => {}
        }
        Ok(())
    }
}

impl IdleIsFed {
    fn starts(&mut self, worker: WorkerId, place: WorkerPlace, shard: &Shard) {
        let home = Home {
            place,
            shard: shard.clone(),
            cpus: None,
            looked: Time::ZERO,
            stall: None,
        };
        self.homes.insert(worker, home);
    }

    fn begins(&mut self, worker: WorkerId) {
        let is_idle = self.is_idle(worker);
        if let Some(home) = self.homes.get_mut(&worker).filter(|_| !is_idle) {
            home.stall = None;
        }
    }

    /// Records a failed task. The worker then sends no requests to that task's scheduler for a while.
    fn fails(&mut self, when: Time, worker: WorkerId) {
        let home = self.homes.get_mut(&worker);
        if let Some(stall) = home.and_then(|home| home.stall.as_mut()) {
            stall.since = when;
        }
    }

    fn is_sent(&mut self, task: TaskId) {
        for home in self.homes.values_mut() {
            home.stall = home.stall.filter(|stall| stall.task != task);
        }
    }

    /// Returns whether a whole CPU is idle, by the processes that really run.
    fn is_idle(&self, worker: WorkerId) -> bool {
        let Some(cpus) = self.homes.get(&worker).and_then(|home| home.cpus) else {
            return false;
        };
        let live = self.executions.of_worker(worker).map(|(_, one)| one.run);
        let busy: f64 = live
            .map(|run| self.cpus.get(&run).copied().unwrap_or(1.0))
            .sum();
        busy <= cpus - 1.0 + ROUNDING
    }

    fn look(&mut self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        let is_quiet = matches!(world.phase, Phase::Quiet { .. });
        if !is_quiet || world.contract != Contract::Whole {
            return Ok(());
        }
        let due = |home: &&Home| home.cpus.is_some() && when >= home.looked + LOOK_EVERY;
        let due = self.homes.iter().filter(|(_, home)| due(home));
        let due: Vec<WorkerId> = due.map(|(worker, _)| *worker).collect();
        let status = match due.is_empty() {
            true => return Ok(()),
            false => world.scheduler(SchedulerPlace(0)).and_then(status),
        };
        for worker in due {
            let ready = (status.as_ref()).and_then(|of| self.ready_for(worker, of, world));
            let place = self.homes.get(&worker).map(|home| home.place);
            if let Some(fetching) = place.and_then(|place| world.fetching.of(place)) {
                let longest = drift::at_most(world, longest_wait(&fetching.profile, world));
                self.judge(when, worker, ready, longest)?;
            }
        }
        Ok(())
    }

    /// Returns a ready task for an idle CPU of this worker. Prefers the task of the last check if it is still ready.
    fn ready_for(
        &self,
        worker: WorkerId,
        (core, status): &(&Scheduler, ClusterStatus),
        world: &World<'_>,
    ) -> Option<TaskId> {
        let home = self.homes.get(&worker).filter(|_| self.is_idle(worker))?;
        let own = world.worker(home.place)?;
        let serves = own.health() == Health::Healthy
            && own.bound_to() == Some(core.id())
            && own.life_stage() == LifeStage::Running;
        let told = status.workers.iter().find(|told| told.id == worker)?;
        if !serves || told.health != Health::Healthy || told.waits_for.is_some() {
            return None;
        }
        let others = (self.homes.values()).map(|other| &other.shard);
        let others = others.filter(|other| **other != home.shard);
        let alone = asked_for_all(core.engine(), &home.shard, others)?;
        let has_tasks = told.running > 0;
        let last = home.stall.map(|stall| stall.task);
        last.filter(|task| is_runnable(&alone, *task))
            .or_else(|| first_ready(alone, has_tasks))
    }

    fn judge(
        &mut self,
        when: Time,
        worker: WorkerId,
        ready: Option<TaskId>,
        longest: Duration,
    ) -> Result<(), Violation> {
        let Some(home) = self.homes.get_mut(&worker) else {
            return Ok(());
        };
        home.looked = when;
        let last = home.stall.take();
        let Some(task) = ready else {
            return Ok(());
        };
        let last = last.filter(|stall| stall.task == task);
        let stall = last.unwrap_or(Stall { task, since: when });
        home.stall = Some(stall);
        if when > stall.since + longest {
            let secs = when.since(stall.since).as_secs();
            let text = format!(
                "worker {worker} has an idle CPU, and {task} is ready that could run there, for {secs} s"
            );
            return Err(Violation::new(NAME, text));
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
    let job = engine.find_job(&format!("j{}", task.job));
    let node = engine.find_node(&format!("n{}", task.node));
    let (Some(job), Some(node)) = (job, node) else {
        return false;
    };
    engine.explain(Time::ZERO, Task { job, node }) == [Reason::Runnable]
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

#[cfg(test)]
mod tests {
    use brasserie_scheduler_engine::WorkerResources;

    use super::super::cores::{load, new_core};
    use super::super::trial::*;
    use super::*;

    const LONGEST: Duration = Duration::from_secs(100);
    const TASK: TaskId = TaskId { job: 0, node: 0 };

    fn shard(name: &str) -> Shard {
        name.try_into().unwrap()
    }

    /// Worker 1, with this many CPUs, requests work.
    fn law(cpus: f64) -> IdleIsFed {
        let mut law = IdleIsFed::default();
        law.starts(wid(1), place(1), &shard("w"));
        law.homes.get_mut(&wid(1)).unwrap().cpus = Some(cpus);
        law
    }

    fn at(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    fn looks(law: &mut IdleIsFed, secs: u64, ready: Option<TaskId>) -> Result<(), Violation> {
        law.judge(at(secs), wid(1), ready, LONGEST)
    }

    fn sees(law: &mut IdleIsFed, happening: Happening) {
        let mut trial = Trial::of(std::mem::take(law));
        trial.sees(happening);
        *law = trial.law;
    }

    #[test]
    fn one_task_is_ready_for_so_long_and_no_longer() {
        let mut law = law(1.0);
        assert_eq!(looks(&mut law, 10, Some(TASK)), Ok(()));
        assert_eq!(looks(&mut law, 110, Some(TASK)), Ok(()));
        let broken = looks(&mut law, 111, Some(TASK)).unwrap_err();
        assert!(broken.what.contains("for 101 s"), "{broken}");
    }

    #[test]
    fn whatever_ends_it_begins_it_anew() {
        let other = TaskId { job: 0, node: 1 };
        let ends: [fn(&mut IdleIsFed); 4] = [
            |law| looks(law, 60, None).unwrap(),
            |law| looks(law, 60, Some(TaskId { job: 0, node: 1 })).unwrap(),
            |law| sees(law, sent(1, 1, 1, ask_run(run(1)))),
            |law| sees(law, begins(1, 1, run(1))),
        ];
        for end in ends {
            let mut law = law(1.0);
            assert_eq!(looks(&mut law, 10, Some(TASK)), Ok(()));
            end(&mut law);
            assert_eq!(looks(&mut law, 120, Some(TASK)), Ok(()));
        }
        // Sending one task does not restart the wait for another.
        let mut law = law(1.0);
        assert_eq!(looks(&mut law, 10, Some(other)), Ok(()));
        sees(&mut law, sent(1, 1, 1, ask_run(run(1))));
        assert!(looks(&mut law, 120, Some(other)).is_err());
    }

    #[test]
    fn a_worker_is_idle_while_a_whole_cpu_is() {
        let mut law = law(2.0);
        sees(&mut law, begins(1, 1, run(1)));
        assert!(law.is_idle(wid(1)));
        law.cpus.insert(run(1), 1.5);
        assert!(!law.is_idle(wid(1)));
        assert!(!law.is_idle(wid(2)), "nobody");
    }

    #[test]
    fn what_is_ready_is_what_would_start_there() {
        let mut core = new_core();
        load(
            &mut core,
            r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_source": "manual",
                "node_source_prefs": {"n0": []}}}, "bistro_job->j0": {"command": ["x"]}}"#,
        );
        let mut engine = core.engine().clone();
        let (own, other) = (shard("w"), shard("v"));
        for shard in [&own, &other] {
            engine.upsert_worker(
                shard,
                WorkerResources {
                    hostname: "host".into(),
                    port: 1,
                    cpu_cores: 1.0,
                    memory_mb: 0.0,
                    cards: Vec::new(),
                    has_worker_command: false,
                    room: None,
                },
            );
        }
        let alone = || asked_for_all(&engine, &own, [&other].into_iter());
        assert!(alone().is_some_and(|alone| is_runnable(&alone, TASK)));
        assert_eq!(first_ready(alone().unwrap(), true), Some(TASK));
        assert!(!is_runnable(&engine, TASK), "nobody may get anything");
        let index = engine.find_worker("w").unwrap();
        engine.set_eligibility(index, Eligibility::Eligible);
        assert!(engine.place(Time::ZERO).is_some());
        assert!(
            asked_for_all(&engine, &own, [&other].into_iter()).is_none(),
            "nothing is left"
        );
    }
}
