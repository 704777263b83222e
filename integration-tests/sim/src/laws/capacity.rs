//! Laws about resources: slots, memory, GPUs and processors are never given away twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::cards::WHOLE_CARD;
use brasserie_common::{SchedulerId, WorkTerms, WorkerId};
use brasserie_common_config::{CARD_PREFIX, Config, LevelId, PhysicalKind, ResourceLimit};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, Fact, Happening, OutcomeKind, Run, SchedulerPlace, TaskId};
use crate::model::Model;
use crate::view::World;

#[cfg(test)]
mod tests;

law! {
    /// A task starts only where the slots of all tasks that run, or may run, leave enough free: on its worker, on its node, and in all. To a pull
    /// worker its processors, and its GPUs if none are reserved, are no such slots, but no task goes there that takes more than it has. No worker is
    /// sent more tasks than it can run, no job starts a task beyond its `max_running`, and no GPU is promised twice.
    ///
    /// A task that may stand by waits for slots at its worker.
    ///
    /// Source: Requests for work, Standing by, Cards and How many tasks a worker admits. An overloaded machine lets one job break another.
    ///
    /// Checks the instance, node and worker levels. The workload has no levels in between; the engine's own tests cover those.
    pub struct WithinLimits = "within_limits" {
        /// Slots of each run by resource, as at its start. Includes adopted runs.
        charges: BTreeMap<Run, Vec<i32>>,
        /// Thousandths of each GPU, as the worker received them.
        gpus: BTreeMap<Run, Vec<(String, u32)>>,
        taken: BTreeMap<(SchedulerId, Where), BTreeSet<Run>>,
        places: BTreeMap<(SchedulerId, Run), WorkerId>,
        /// Workers that were let go. Runs that they list are no longer adopted.
        gone: BTreeSet<(SchedulerId, WorkerId)>,
        /// Runs that stand by under the slots that their worker was told. The law `within_stated_slots` bounds their execution.
        standby: BTreeSet<Run>,
        /// Workers that requested work. The law `within_processors` bounds execution by their processors. Here one task must not need more than
        /// the worker has.
        asking: BTreeSet<(SchedulerId, WorkerId)>,
    }
}

impl Law for WithinLimits {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Happening::Charged { run, gpus, .. } = happening {
            self.gpus.insert(*run, gpus.clone());
        }
        if let Happening::StatesSlots { run, .. } = happening {
            self.standby.insert(*run);
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
                let config = config_of(now.world, place);
                self.start(now.model, scheduler, worker, run, &config)?;
            }
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Fetch,
                outcome: OutcomeKind::Done,
                ..
            } => self.fetched(now.model, scheduler, worker),
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
    fn fetched(&mut self, model: &Model, scheduler: SchedulerId, worker: WorkerId) {
        if self.gone.contains(&(scheduler, worker)) {
            return;
        }
        let runs = model.executions.of_worker(worker);
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
    fn waits_for(
        &self,
        model: &Model,
        scheduler: SchedulerId,
        at: Where,
        config: &Config,
        number: usize,
    ) -> bool {
        let is_cpus = config
            .cpu_slots()
            .is_some_and(|(id, _)| id.index() == number);
        match at {
            Where::Worker(worker) => {
                let size = model.machines.get(worker);
                let lists_cards = size.is_some_and(|size| !size.devices.is_empty());
                let waits = is_cpus || (lists_cards && is_of_all_cards(config, number));
                waits && self.asking.contains(&(scheduler, worker))
            }
            Where::Node(_) | Where::Everywhere => false,
        }
    }

    fn judge_room(&self, model: &Model, scheduler: SchedulerId, worker: WorkerId) -> Verdict {
        let most = model.machines.get(worker).and_then(|size| size.most_tasks);
        let taken = self.taken.get(&(scheduler, Where::Worker(worker)));
        let taken = taken.map_or(0, BTreeSet::len);
        match most {
            Some(most) if taken > most as usize => Err(format!(
                "worker {worker} can run {most} tasks, and has got {taken}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts tasks and not runs, like the engine: a lost run may live on beside its task's next one.
    fn judge_job(&self, scheduler: SchedulerId, task: TaskId, most: Option<u32>) -> Verdict {
        let taken = self.taken.get(&(scheduler, Where::Everywhere));
        let of_job = taken.into_iter().flatten().map(|run| run.task);
        let of_job: BTreeSet<TaskId> = of_job.filter(|other| other.job == task.job).collect();
        match most {
            Some(most) if of_job.len() > most as usize => Err(format!(
                "with {task}, {} tasks of its job run, and its `max_running` is {most}",
                of_job.len()
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn judge_cards(&self, scheduler: SchedulerId, worker: WorkerId) -> Verdict {
        let taken = self.taken.get(&(scheduler, Where::Worker(worker)));
        let shares = taken.into_iter().flatten();
        let shares = shares.filter_map(|run| self.gpus.get(run)).flatten();
        let mut of_cards: BTreeMap<&str, u32> = BTreeMap::new();
        for (device, milli) in shares {
            let of_card = of_cards.entry(device).or_default();
            *of_card += milli;
            if *of_card > WHOLE_CARD {
                return Err(format!(
                    "{of_card} thousandths of card `{device}` of worker {worker} are promised"
                ));
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        model: &Model,
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        config: &Config,
    ) -> Verdict {
        let job = config.job(&run.task.job_name());
        let charge = job.map(|job| job.resources.clone()).unwrap_or_default();
        self.charges.insert(run, charge);
        self.take(scheduler, worker, run);
        self.judge_room(model, scheduler, worker)?;
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
            if self.standby.contains(&run) && matches!(at, Where::Worker(_)) {
                continue;
            }
            let limit = match at {
                Where::Worker(worker) => model.machines.slots(worker, config, number, limit),
                Where::Node(_) | Where::Everywhere => i64::from(limit),
            };
            let runs = self.taken.get(&(scheduler, at)).into_iter().flatten();
            let waits = self.waits_for(model, scheduler, at, config, number);
            let runs = runs.filter(|other| **other == run || !waits);
            let charged = runs.filter_map(|run| self.charges.get(run)?.get(number));
            let sum: i64 = charged.map(|slots| i64::from(*slots)).sum();
            if sum > limit {
                return Err(format!(
                    "with {}, {at:?} has {sum} of {limit} `{}`",
                    run.task, resource.name
                ));
            }
        }
        Ok(())
    }
}

/// A place where slots are taken, for one scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Where {
    Worker(WorkerId),
    Node(u16),
    Everywhere,
}

law! {
    /// The memory and the GPUs that the live tasks of a worker were charged at their starts never add up to more than it has declared, less what the
    /// configuration reserves. Each task begins with GPUs of its machine for exactly what it was charged, of the models that it was charged, and with
    /// whole ones if it is more than a part of one. No GPU is given away twice. No worker has more live tasks than it has declared that it can run.
    ///
    /// Source: Cards and How many tasks a worker admits. The law adds up live processes, whatever a scheduler believes: if two tasks rely on the same
    /// memory, one of them is killed.
    pub struct WithinMachines = "within_machines" {
        /// Slots by resource name, as the worker received them.
        charges: BTreeMap<Run, Vec<(String, i32)>>,
        /// Thousandths of each GPU, as the worker received or chose them.
        gpus: BTreeMap<Run, Vec<(String, u32)>>,
    }
}

impl Law for WithinMachines {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::Charged {
                run, charges, gpus, ..
            } => {
                self.charges.insert(*run, charges.clone());
                self.gpus.insert(*run, gpus.clone());
            }
            Happening::HasCards { run, gpus, .. } => {
                self.gpus.insert(*run, gpus.clone());
            }
            Happening::ProcessStarted { worker, run, .. } if !run.task.is_healthcheck() => {
                self.judge_room(now.model, *worker)?;
                self.judge(now.model, *worker, now.world.config)?;
                self.judge_cards(now.model, *worker, *run, now.world.config)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl WithinMachines {
    fn judge_room(&self, model: &Model, worker: WorkerId) -> Verdict {
        let most = model.machines.get(worker).and_then(|size| size.most_tasks);
        let all = model.executions.of_worker(worker);
        let live = all.filter(|(_, e)| !e.run.task.is_healthcheck()).count();
        match most {
            Some(most) if live > most as usize => Err(format!(
                "worker {worker} can run {most} tasks, and {live} live there"
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn judge(&self, model: &Model, worker: WorkerId, config: &Config) -> Verdict {
        let Some(size) = model.machines.get(worker) else {
            return Ok(());
        };
        for entry in &config.physical_resources {
            let has = match entry.kind {
                PhysicalKind::RamMb => f64::from(size.memory_mb),
                PhysicalKind::GpuCard => f64::from(size.all_cards()),
                // No workload has CPU slots of this kind.
                PhysicalKind::CpuCore => continue,
            };
            let name = &config.resources[entry.logical_resource.index()].name;
            let taken = self.taken(model, worker, name) as f64 * entry.multiply_logical_by;
            let left = has - entry.physical_reserve_amount;
            // If the worker does not report an amount, the configured one applies.
            if has > 0.0 && taken > left.max(0.0) + ROUNDING {
                return broken(worker, name, taken, left);
            }
        }
        for resource in &config.resources {
            let cards = resource.name.strip_prefix(CARD_PREFIX);
            let cards = cards.map(|of| size.cards.get(of).copied().unwrap_or(0));
            let taken = self.taken(model, worker, &resource.name);
            if let Some(cards) = cards
                && taken > i64::from(cards)
            {
                return broken(worker, &resource.name, taken as f64, f64::from(cards));
            }
        }
        Ok(())
    }

    /// Checks the GPUs of a run that has just begun against all other live runs of its worker.
    fn judge_cards(&self, model: &Model, worker: WorkerId, run: Run, config: &Config) -> Verdict {
        // A worker that lists no GPUs gives none away.
        let size = model.machines.get(worker);
        let Some(size) = size.filter(|size| !size.devices.is_empty()) else {
            return Ok(());
        };
        let given = self.gpus.get(&run).map_or(&[][..], Vec::as_slice);
        let sum: u32 = given.iter().map(|(_, milli)| milli).sum();
        let wanted = self.thousandths(run, config);
        if sum != wanted {
            return broken_cards(worker, format_args!("{run:?} got {sum} of {wanted}"));
        }
        self.judge_shape(worker, run, &size.devices)?;
        let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
        let live = model.executions.of_worker(worker);
        for (device, milli) in live.filter_map(|(_, e)| self.gpus.get(&e.run)).flatten() {
            let of_card = taken.entry(device).or_default();
            *of_card += milli;
            if *of_card > WHOLE_CARD || !size.devices.contains_key(device) {
                let of_card = *of_card;
                return broken_cards(worker, format_args!("{of_card} of card `{device}`"));
            }
        }
        Ok(())
    }

    /// Checks the shape of a charge: less than one GPU is a part of one; more is whole GPUs. Each model occurs as often as it was charged.
    fn judge_shape(
        &self,
        worker: WorkerId,
        run: Run,
        models: &BTreeMap<String, String>,
    ) -> Verdict {
        let given = self.gpus.get(&run).map_or(&[][..], Vec::as_slice);
        if given.len() > 1 && given.iter().any(|(_, milli)| *milli != WHOLE_CARD) {
            return broken_cards(worker, format_args!("{run:?} got pieces, {given:?}, in"));
        }
        let charges = self.charges.get(&run).map_or(&[][..], Vec::as_slice);
        for (name, amount) in charges {
            let Some(model) = name.strip_prefix(CARD_PREFIX) else {
                continue;
            };
            let of_model = |device| models.get(device).is_some_and(|of| of == model);
            let cards = given.iter().filter(|(device, _)| of_model(device)).count();
            if (cards as i64) < i64::from(*amount) {
                let text = format_args!("{run:?} got {cards} of {amount} {model}s in");
                return broken_cards(worker, text);
            }
        }
        Ok(())
    }

    /// Returns the thousandths of GPUs that a run was charged for. Slots of a model are included in those of all GPUs.
    fn thousandths(&self, run: Run, config: &Config) -> u32 {
        let charges = self.charges.get(&run).map_or(&[][..], Vec::as_slice);
        let mut entries = config.physical_resources.iter();
        let Some(entry) = entries.find(|entry| entry.kind == PhysicalKind::GpuCard) else {
            return 0;
        };
        let slots = &config.resources[entry.logical_resource.index()].name;
        let (mut all, mut named) = (0, 0);
        for (name, amount) in charges {
            let amount = f64::from(*amount);
            if name == slots {
                all = (amount * entry.multiply_logical_by * f64::from(WHOLE_CARD)).round() as u32;
            } else if name.starts_with(CARD_PREFIX) {
                named += amount as u32 * WHOLE_CARD;
            }
        }
        all.max(named)
    }

    fn taken(&self, model: &Model, worker: WorkerId, resource: &str) -> i64 {
        let live = model.executions.of_worker(worker);
        let charges = live.filter_map(|(_, e)| self.charges.get(&e.run));
        let of_it = charges.flatten().filter(|(name, _)| name == resource);
        of_it.map(|(_, amount)| i64::from(*amount)).sum()
    }
}

fn broken(worker: WorkerId, name: &str, taken: f64, has: f64) -> Verdict {
    Err(format!(
        "worker {worker} has {has} of `{name}`, and what lives there was charged {taken}"
    ))
}

fn broken_cards(worker: WorkerId, what: std::fmt::Arguments<'_>) -> Verdict {
    Err(format!("on worker {worker}: {what} thousandths"))
}

law! {
    /// A task that may stand by begins only while the slots that the live tasks of its worker were charged, with its own, are within those that its
    /// scheduler stated.
    ///
    /// Source: Standing by. Its scheduler sends such tasks beyond the slots and relies on the worker.
    pub struct WithinStatedSlots = "within_stated_slots" {
        /// Slots by resource name, as the worker received them.
        charges: BTreeMap<Run, Vec<(String, i32)>>,
        /// The slots of the worker, for each run that states them.
        stated: BTreeMap<Run, Vec<(String, i32)>>,
    }
}

impl Law for WithinStatedSlots {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::Charged { run, charges, .. } => {
                self.charges.insert(*run, charges.clone());
            }
            Happening::StatesSlots { run, slots, .. } => {
                self.stated.insert(*run, slots.clone());
            }
            _ => {
                if let Some((worker, run)) = now.model.led_runs.begins(happening) {
                    return self.judge(now.model, worker, run);
                }
            }
        }
        Ok(())
    }
}

impl WithinStatedSlots {
    /// Checks a run that begins against all live runs of its worker.
    fn judge(&self, model: &Model, worker: WorkerId, run: Run) -> Verdict {
        let live = model.executions.of_worker(worker);
        let mut runs: BTreeSet<Run> = live.map(|(_, e)| e.run).collect();
        runs.insert(run);
        for (name, limit) in self.stated.get(&run).into_iter().flatten() {
            let slots = |run: &Run| {
                let charges = self.charges.get(run).into_iter().flatten();
                let of_it = charges.filter(|(charged, _)| charged == name);
                of_it.map(|(_, amount)| i64::from(*amount)).sum::<i64>()
            };
            let sum: i64 = runs.iter().map(slots).sum();
            if slots(&run) > 0 && sum > i64::from(*limit) {
                return Err(format!(
                    "worker {worker} starts {} with {sum} of {limit} `{name}`",
                    run.task
                ));
            }
        }
        Ok(())
    }
}

law! {
    /// A bufferable task begins on a pull worker only while a processor is free: for the CPU, while any is; for GPUs, while the task takes at most
    /// one CPU too many.
    ///
    /// Source: What our worker does with it. Queued tasks are running for schedulers; the machine bounds the tasks that execute.
    pub struct WithinProcessors = "within_processors" {
        cpus: BTreeMap<WorkerId, f64>,
        terms: BTreeMap<Run, WorkTerms>,
        /// Whether each run has GPUs.
        cards: BTreeMap<Run, bool>,
    }
}

impl Law for WithinProcessors {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::FetchesWork { worker, cpus } => {
                self.cpus.insert(*worker, cpus.max(1.0));
                Ok(())
            }
            Happening::WantsCards { run, .. } => {
                self.cards.insert(*run, true);
                Ok(())
            }
            Happening::Charged { run, gpus, .. } => {
                *self.cards.entry(*run).or_default() |= !gpus.is_empty();
                Ok(())
            }
            Happening::SentAsWork { run, terms, .. } => {
                self.terms.insert(*run, *terms);
                Ok(())
            }
            _ => match now.model.led_runs.begins(happening) {
                Some((worker, run)) => self.judge(now.model, worker, run),
                None => Ok(()),
            },
        }
    }
}

impl WithinProcessors {
    fn usage(&self, run: Run) -> f64 {
        self.terms
            .get(&run)
            .and_then(|terms| terms.cpus)
            .unwrap_or(1.0)
    }

    /// Checks a run that begins against all other live runs of its worker.
    fn judge(&self, model: &Model, worker: WorkerId, run: Run) -> Verdict {
        let terms = self.terms.get(&run).filter(|terms| terms.bufferable);
        let (Some(_), Some(cpus)) = (terms, self.cpus.get(&worker)) else {
            return Ok(());
        };
        let live = model.executions.of_worker(worker);
        let busy: f64 = live.map(|(_, e)| self.usage(e.run)).sum();
        let fits = match self.cards.get(&run) {
            Some(true) => busy < ROUNDING || busy + self.usage(run) <= cpus + 1.0 + ROUNDING,
            Some(false) | None => busy < *cpus - ROUNDING,
        };
        match fits {
            true => Ok(()),
            false => Err(format!(
                "worker {worker} starts {}, which may wait, while {busy} of its {cpus} processors are busy",
                run.task
            )),
        }
    }
}

/// Tolerance for sums of floats.
const ROUNDING: f64 = 1e-6;
