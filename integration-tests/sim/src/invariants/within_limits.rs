//! Law `within_limits`: A task starts only where the slots of all that runs, or may run, leave room for it: on its worker, on its node, and
//! in all; to a worker that asks for work its processors, and its cards if none are reserved, are no such slots, but no task goes there
//! that takes more than it has; no worker is sent more tasks than it can run, no job starts a task beyond its `max_running`, and no card is
//! promised twice.
//!
//! Source: thrift/PROTOCOL.md, Requests for work, Cards and How many tasks a worker admits. An overloaded machine lets one job break
//! another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::cards::WHOLE_CARD;
use brasserie_common::{SchedulerId, Time, WorkerId};
use brasserie_common_config::{CARD_PREFIX, Config, LevelId, ResourceLimit};

use super::{Law, Violation};
use crate::event_log::{Ask, Fact, Happening, OutcomeKind, Run, SchedulerPlace, TaskId};
use crate::model::executions::Executions;
use crate::model::machines::Machines;
use crate::view::World;

const NAME: &str = "within_limits";

/// A place where slots are taken, for one scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Where {
    Worker(WorkerId),
    Node(u16),
    Everywhere,
}

/// Checks the instance, node and worker levels. The workload has no levels in between; the engine's own tests cover those.
#[derive(Default)]
pub struct WithinLimits {
    executions: Executions,
    machines: Machines,
    /// Slots of each run by resource, as at its start. Includes adopted runs.
    charges: BTreeMap<Run, Vec<i32>>,
    /// Thousandths of each GPU, as the worker received them.
    gpus: BTreeMap<Run, Vec<(String, u32)>>,
    taken: BTreeMap<(SchedulerId, Where), BTreeSet<Run>>,
    places: BTreeMap<(SchedulerId, Run), WorkerId>,
    /// Workers that were let go. Runs that they list are no longer adopted.
    gone: BTreeSet<(SchedulerId, WorkerId)>,
    /// Workers that requested work. The law `within_processors` bounds execution by their processors. Here one task must not need more than
    /// the worker has.
    asking: BTreeSet<(SchedulerId, WorkerId)>,
}

impl Law for WithinLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task starts only where the slots of all that runs, or may run, leave room for it: on its worker, on its node, and in all; to a worker that asks for work its processors, and its cards if none are reserved, are no such slots, but no task goes there that takes more than it has; no worker is sent more tasks than it can run, no job starts a task beyond its `max_running`, and no card is promised twice."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        self.machines.note(happening);
        if let Happening::Charged { run, gpus, .. } = happening {
            self.gpus.insert(*run, gpus.clone());
        }
        match *happening {
            Happening::SentAsWork {
                scheduler,
                worker,
                terms,
                ..
            } => {
                // Tasks sent for a request belong to a worker that requests work.
                match terms.request {
                    Some(_) => self.asking.insert((scheduler, worker)),
                    None => self.asking.remove(&(scheduler, worker)),
                };
            }
            Happening::CallSent {
                place,
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                ..
            } => {
                let config = config_of(world, place);
                self.start(scheduler, worker, run, &config)?;
            }
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Fetch,
                outcome: OutcomeKind::Done,
                ..
            } => self.fetched(scheduler, worker),
            Happening::CallOver {
                scheduler,
                ask: Ask::Run { run, .. },
                outcome: OutcomeKind::Refused(_) | OutcomeKind::NotSent,
                ..
            } => self.give_back(scheduler, run),
            Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerLeft { worker, .. },
                ..
            } => {
                self.gone.insert((scheduler, worker));
                self.give_back_all(scheduler, worker);
            }
            Happening::EndWritten { scheduler, run, .. } => {
                if let Some(known) = self.running(scheduler, run) {
                    self.give_back(scheduler, known);
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.taken.retain(|(of, _), _| *of != scheduler);
                self.places.retain(|(of, _), _| *of != scheduler);
                self.gone.retain(|(of, _)| *of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the configuration that the scheduler uses, or the one it will receive if it cannot be queried.
fn config_of(world: &World<'_>, place: SchedulerPlace) -> Arc<Config> {
    let core = world
        .schedulers
        .get(usize::from(place.0))
        .and_then(|host| host.core());
    let own = core.and_then(|core| core.engine().config().cloned());
    own.unwrap_or_else(|| Arc::clone(world.config))
}

/// Returns whether these slots stand for all cards of a worker, or all of a model. Not if the configuration reserves some, because the
/// worker does not know of that.
fn is_of_all_cards(config: &Config, number: usize) -> bool {
    let Some(entry) = config.card_slots() else {
        return false;
    };
    if entry.logical_resource.index() == number {
        return entry.physical_reserve_amount <= 0.0;
    }
    config.resources[number].name.starts_with(CARD_PREFIX)
}

impl WithinLimits {
    /// Marks the worker's tasks as known to the scheduler.
    fn fetched(&mut self, scheduler: SchedulerId, worker: WorkerId) {
        if self.gone.contains(&(scheduler, worker)) {
            return;
        }
        let runs = self.executions.of_worker(worker);
        let runs: Vec<Run> = runs.map(|(_, e)| e.run).collect();
        for run in runs {
            if self.running(scheduler, run).is_none() {
                self.take(scheduler, worker, run);
            }
        }
    }

    /// Returns the run of this task that has slots of this scheduler.
    fn running(&self, scheduler: SchedulerId, run: Run) -> Option<Run> {
        let on_node = self.taken.get(&(scheduler, Where::Node(run.task.node)))?;
        on_node.iter().find(|r| r.task == run.task).copied()
    }

    fn take(&mut self, scheduler: SchedulerId, worker: WorkerId, run: Run) {
        self.places.insert((scheduler, run), worker);
        for at in [
            Where::Worker(worker),
            Where::Node(run.task.node),
            Where::Everywhere,
        ] {
            self.taken.entry((scheduler, at)).or_default().insert(run);
        }
    }

    fn give_back(&mut self, scheduler: SchedulerId, run: Run) {
        let Some(worker) = self.places.remove(&(scheduler, run)) else {
            return;
        };
        for at in [
            Where::Worker(worker),
            Where::Node(run.task.node),
            Where::Everywhere,
        ] {
            if let Some(runs) = self.taken.get_mut(&(scheduler, at)) {
                runs.remove(&run);
            }
        }
    }

    /// Frees the slots of a lost worker. Runs that the scheduler knew end with the worker; a list of the same turn is not adopted.
    fn give_back_all(&mut self, scheduler: SchedulerId, worker: WorkerId) {
        let of_worker = self.taken.remove(&(scheduler, Where::Worker(worker)));
        for run in of_worker.unwrap_or_default() {
            self.give_back(scheduler, run);
        }
    }

    /// Returns whether tasks may wait at the worker for this resource. GPUs count only if the worker lists them, because it chooses them.
    fn waits_for(&self, scheduler: SchedulerId, at: Where, config: &Config, number: usize) -> bool {
        let is_cpus = config
            .cpu_slots()
            .is_some_and(|(id, _)| id.index() == number);
        match at {
            Where::Worker(worker) => {
                let size = self.machines.get(worker);
                let lists_cards = size.is_some_and(|size| !size.devices.is_empty());
                let waits = is_cpus || (lists_cards && is_of_all_cards(config, number));
                waits && self.asking.contains(&(scheduler, worker))
            }
            Where::Node(_) | Where::Everywhere => false,
        }
    }

    fn judge_room(&self, scheduler: SchedulerId, worker: WorkerId) -> Result<(), Violation> {
        let most = self.machines.get(worker).and_then(|size| size.most_tasks);
        let taken = self.taken.get(&(scheduler, Where::Worker(worker)));
        let taken = taken.map_or(0, BTreeSet::len);
        match most {
            Some(most) if taken > most as usize => Err(Violation::new(
                NAME,
                format_args!("worker {worker} can run {most} tasks, and has got {taken}"),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts tasks and not runs, like the engine: a lost run may live on beside its task's next one.
    fn judge_job(
        &self,
        scheduler: SchedulerId,
        task: TaskId,
        most: Option<u32>,
    ) -> Result<(), Violation> {
        let taken = self.taken.get(&(scheduler, Where::Everywhere));
        let of_job = taken.into_iter().flatten().map(|run| run.task);
        let of_job: BTreeSet<TaskId> = of_job.filter(|other| other.job == task.job).collect();
        match most {
            Some(most) if of_job.len() > most as usize => Err(Violation::new(
                NAME,
                format_args!(
                    "with {task}, {} tasks of its job run, and its `max_running` is {most}",
                    of_job.len()
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn judge_cards(&self, scheduler: SchedulerId, worker: WorkerId) -> Result<(), Violation> {
        let taken = self.taken.get(&(scheduler, Where::Worker(worker)));
        let shares = taken.into_iter().flatten();
        let shares = shares.filter_map(|run| self.gpus.get(run)).flatten();
        let mut of_cards: BTreeMap<&str, u32> = BTreeMap::new();
        for (device, milli) in shares {
            let of_card = of_cards.entry(device).or_default();
            *of_card += milli;
            if *of_card > WHOLE_CARD {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "{of_card} thousandths of card `{device}` of worker {worker} are promised"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        config: &Config,
    ) -> Result<(), Violation> {
        let job = config.job(&format!("j{}", run.task.job));
        let charge = job.map(|job| job.resources.clone()).unwrap_or_default();
        self.charges.insert(run, charge);
        self.take(scheduler, worker, run);
        self.judge_room(scheduler, worker)?;
        self.judge_cards(scheduler, worker)?;
        self.judge_job(scheduler, run.task, job.and_then(|job| job.max_running))?;
        let level = job.map_or(config.level_for_tasks, |job| job.level_for_tasks);
        for (number, resource) in config.resources.iter().enumerate() {
            let ResourceLimit::Fixed(limit) = resource.limit else {
                continue;
            };
            let at = match resource.level {
                at if at == config.worker_level() => Where::Worker(worker),
                at if at == level => Where::Node(run.task.node),
                LevelId::INSTANCE => Where::Everywhere,
                LevelId(_) => continue,
            };
            // A resource that the task does not need may be overused.
            let own = self.charges.get(&run).and_then(|slots| slots.get(number));
            if own.is_none_or(|slots| *slots <= 0) {
                continue;
            }
            let limit = match at {
                Where::Worker(worker) => self.machines.slots(worker, config, number, limit),
                Where::Node(_) | Where::Everywhere => i64::from(limit),
            };
            let runs = self.taken.get(&(scheduler, at)).into_iter().flatten();
            let waits = self.waits_for(scheduler, at, config, number);
            let runs = runs.filter(|other| **other == run || !waits);
            let charged = runs.filter_map(|run| self.charges.get(run)?.get(number));
            let sum: i64 = charged.map(|slots| i64::from(*slots)).sum();
            if sum > limit {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "with {}, {at:?} has {sum} of {limit} `{}`",
                        run.task, resource.name
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
    use brasserie_common::InvocationId;
    use brasserie_common_config::{ParseOptions, parse};
    use brasserie_scheduler_core::LeftCause;

    fn config() -> Config {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]}, "resources": {
            "worker": {"slots": {"default": 1, "limit": 2}}, "l": {"lock": {"default": 1, "limit": 1}}}},
            "bistro_job->j0": {"owner": "o", "command": ["x"]}, "bistro_job->j1": {"owner": "o", "command": ["x"]}}"#;
        parse(text, ParseOptions::default()).unwrap().config
    }

    fn of(job: u16, node: u16) -> Run {
        let mut one = run(i64::from(job * 10 + node));
        (one.task.job, one.task.node) = (job, node);
        one
    }

    #[test]
    fn a_worker_and_a_node_fill_up() {
        let (config, mut law) = (config(), WithinLimits::default());
        let (s, w) = (sid(1), wid(1));
        assert_eq!(law.start(s, w, of(0, 0), &config), Ok(()));
        let violation = law.start(s, wid(2), of(1, 0), &config).unwrap_err();
        assert!(
            violation.what.contains("Node(0) has 2 of 1 `lock`"),
            "{violation}"
        );
        law.give_back(s, of(1, 0));
        assert_eq!(law.start(s, w, of(0, 1), &config), Ok(()));
        let violation = law.start(s, w, of(0, 2), &config).unwrap_err();
        assert!(violation.what.contains("has 3 of 2 `slots`"), "{violation}");
    }

    #[test]
    fn a_worker_gets_no_more_than_it_can_run() {
        let (config, mut law) = (config(), WithinLimits::default());
        law.machines.note(&Happening::WorkerDeclared {
            worker: wid(1),
            size: crate::event_log::MachineSize {
                most_tasks: Some(1),
                ..Default::default()
            },
        });
        assert_eq!(law.start(sid(1), wid(1), of(0, 0), &config), Ok(()));
        let violation = law.start(sid(1), wid(1), of(0, 1), &config).unwrap_err();
        let text = "can run 1 tasks, and has got 2";
        assert!(violation.what.contains(text), "{violation}");
    }

    #[test]
    fn a_job_runs_no_more_tasks_than_it_allows() {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]}, "resources": {}},
            "bistro_job->j0": {"owner": "o", "command": ["x"], "max_running": 2}}"#;
        let config = parse(text, ParseOptions::default()).unwrap().config;
        let (s, mut law) = (sid(1), WithinLimits::default());
        assert_eq!(law.start(s, wid(1), of(0, 0), &config), Ok(()));
        // The next run of a lost task, and a task of another job, do not count as further tasks of this job.
        let again = Run {
            invocation: InvocationId::new(99, 0),
            ..of(0, 0)
        };
        assert_eq!(law.start(s, wid(2), again, &config), Ok(()));
        assert_eq!(law.start(s, wid(2), of(1, 0), &config), Ok(()));
        // A task of another scheduler does not count; an adopted one does.
        assert_eq!(law.start(sid(2), wid(1), of(0, 2), &config), Ok(()));
        law.take(s, wid(1), of(0, 1));
        let violation = law.start(s, wid(1), of(0, 2), &config).unwrap_err();
        let text = "3 tasks of its job run, and its `max_running` is 2";
        assert!(violation.what.contains(text), "{violation}");
        law.give_back(s, of(0, 1));
        law.give_back(s, of(0, 2));
        assert_eq!(law.start(s, wid(1), of(0, 3), &config), Ok(()));
    }

    #[test]
    fn who_chooses_cards_has_tasks_wait_for_them_unless_some_are_reserved() {
        let with = |reserve: &str| {
            let text = format!(
                r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"]}}, "resources": {{
                "worker": {{"gpu": {{"default": 0, "limit": 0}}, "GPU: K40": {{"default": 0, "limit": 0}}}}}},
                "physical_resources": {{"gpu_card": {{"logical_resource": "gpu"{reserve}}}}}}},
                "bistro_job->j0": {{"owner": "o", "command": ["x"], "resources": {{"gpu": 1}}}},
                "bistro_job->j1": {{"owner": "o", "command": ["x"], "resources": {{"GPU: K40": 1}}}}}}"#
            );
            parse(&text, ParseOptions::default()).unwrap().config
        };
        let asking = || {
            let mut law = WithinLimits::default();
            let devices = ["0", "1"].map(|device| (device.to_owned(), "K40".to_owned()));
            law.machines.note(&Happening::WorkerDeclared {
                worker: wid(1),
                size: crate::event_log::MachineSize {
                    cards: [("K40".to_owned(), 2)].into(),
                    devices: devices.into(),
                    ..Default::default()
                },
            });
            law.asking.insert((sid(1), wid(1)));
            law
        };
        let starts = |law: &mut WithinLimits, config: &Config, job, node| {
            law.start(sid(1), wid(1), of(job, node), config)
        };
        let (config, mut law) = (with(""), asking());
        for node in 0..5 {
            assert_eq!(starts(&mut law, &config, 0, node), Ok(()));
            assert_eq!(starts(&mut law, &config, 1, node), Ok(()));
        }
        let (config, mut law) = (with(r#", "physical_reserve_amount": 1"#), asking());
        for node in 0..5 {
            assert_eq!(starts(&mut law, &config, 1, node), Ok(()));
        }
        assert_eq!(starts(&mut law, &config, 0, 0), Ok(()));
        let violation = starts(&mut law, &config, 0, 1).unwrap_err();
        assert!(violation.what.contains("has 2 of 1 `gpu`"), "{violation}");
    }

    #[test]
    fn no_card_is_promised_twice() {
        let (config, mut law) = (config(), WithinLimits::default());
        for (job, milli) in [(0, 600), (1, 500)] {
            let share = ("card".to_owned(), milli);
            law.gpus.insert(of(job, job), vec![share]);
        }
        let (s, w) = (sid(1), wid(1));
        assert_eq!(law.start(s, w, of(0, 0), &config), Ok(()));
        // A GPU of the same name on another machine is another GPU.
        assert_eq!(law.start(s, wid(2), of(1, 1), &config), Ok(()));
        law.give_back(s, of(1, 1));
        let violation = law.start(s, w, of(1, 1), &config).unwrap_err();
        let text = "1100 thousandths of card `card` of worker";
        assert!(violation.what.starts_with(text), "{violation}");
    }

    #[test]
    fn an_end_gives_back_and_an_adopted_run_counts() {
        let mut trial = Trial::of(WithinLimits::default());
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
        assert_eq!(trial.law.taken[&(sid(1), Where::Worker(wid(1)))].len(), 1);
        for happening in ended(1, 2, run(1), ERROR) {
            trial.sees(happening);
        }
        assert_eq!(trial.law.taken[&(sid(1), Where::Worker(wid(1)))].len(), 0);
        trial.sees(begins(1, 1, run(2))).sees(fetched(1, 1, 2));
        assert_eq!(trial.law.taken[&(sid(1), Where::Worker(wid(1)))].len(), 1);
        // A worker that has left has no tasks that count.
        trial.sees(begins(2, 2, run(3)));
        trial
            .sees(left(1, 4, 2, LeftCause::Lost, 0))
            .sees(fetched(1, 2, 3));
        let taken_from =
            |law: &WithinLimits, at| law.taken.get(&(sid(1), at)).map_or(0, BTreeSet::len);
        assert_eq!(taken_from(&trial.law, Where::Worker(wid(2))), 0);
        // Neither has a worker that leaves in the turn in which its list arrives.
        trial.sees(begins(3, 3, of(1, 1))).sees(fetched(1, 3, 4));
        assert_eq!(taken_from(&trial.law, Where::Everywhere), 2);
        trial.sees(left(1, 5, 3, LeftCause::Lost, 0));
        assert_eq!(taken_from(&trial.law, Where::Worker(wid(3))), 0);
        assert_eq!(taken_from(&trial.law, Where::Everywhere), 1);
    }
}
