//! Tests with random histories: whatever happens, the engine starts what the plain scheduler would start, until nothing could start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::resources::{NodeResources, ResourceAmount};
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{
    CardChoice, CardUse, GpuShare, Hold, JobId, Processor, StatusBits, Time, WorkRequestSeq,
};
use brasserie_common_config::{
    Config, JobConfig, NodeOrder, ResourceId, ResourceLimit, SchedulerPolicy, WorkerSelector,
};
use proptest::prelude::*;

use super::plain::{Asked, Key, Plain, PlainRun};
use super::world::*;
use crate::pool::work_need::Refusal;
use crate::queues::gates::Gate;
use crate::work::WorkBudget;
use crate::{
    AdoptOutcome, Allowance, Allowances, Due, Eligibility, Engine, HoldBack, NodeTable,
    NodeTableBuilder, NodesOwner, Placement, Reason, Restart, Row, Task, TaskState, Tries,
    WorkFound, WorkerIndex, WorkerResources,
};

const JOBS: [&str; 5] = ["j0", "j1", "j2", "j3", "j4"];
const HOSTS: [&str; 4] = ["h0", "h1", "h2", "both"];
const DBS: [&str; 7] = ["d0", "d1", "d2", "d3", "d4", "d5", "both"];
const SHARDS: [&str; 3] = ["w0", "w1", "d0"];

struct Dice(Rng);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(Rng::new(seed, Purpose::InstanceIds))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

pub(super) fn random_config(seed: u64, order: NodeOrder, policy: SchedulerPolicy) -> Config {
    let mut dice = Dice::new(seed);
    let levels = [brasserie_common_config::LevelId::INSTANCE, HOST, DB, WORKER];
    let mut resources = Vec::new();
    for (i, level) in levels.into_iter().enumerate() {
        for k in 0..dice.below(3) {
            let limit = dice.below(5) as i32;
            resources.push(resource(&format!("r{i}{k}"), level, 1, limit));
        }
    }
    if dice.chance(2) {
        let mut slots = resource("slots", WORKER, 1, 0);
        slots.limit = ResourceLimit::ReportedCores;
        resources.push(slots);
    }
    let cards_a_slot = dice.chance(2).then(|| {
        resources.push(resource("gpu", WORKER, 1, 2));
        resources.push(resource("GPU: A", WORKER, 0, 0));
        [0.25, 0.4, 0.5, 1.0, 2.0][dice.below(5)]
    });
    let jobs = JOBS[..1 + dice.below(JOBS.len())]
        .iter()
        .map(|name| random_job(name, resources.len(), &mut dice))
        .collect();
    let mut config = config(resources, jobs);
    if let Some(cards_a_slot) = cards_a_slot {
        cards_are(&mut config, "gpu", cards_a_slot);
    }
    config.enabled = !dice.chance(12);
    config.node_order = order;
    config.policy = policy;
    config.worker_selector = [
        WorkerSelector::RoundRobin,
        WorkerSelector::Busiest,
        WorkerSelector::Neediest,
    ][dice.below(3)];
    if dice.chance(3)
        && let Some(i) = config.resources.iter().position(|r| r.level == WORKER)
    {
        let amounts = [(ResourceId(i as u16), dice.below(4) as i32)].into();
        let key = dice.pick(&["h0", "h1:1", "w1"]).to_owned();
        config.worker_resources_override.insert(key, amounts);
    }
    config
}

fn random_job(name: &str, resources: usize, dice: &mut Dice) -> JobConfig {
    let mut job = job(name);
    job.resources = (0..resources).map(|_| dice.below(3) as i32).collect();
    job.enabled = !dice.chance(8);
    job.hold = dice.chance(8).then_some(Hold::Paused);
    job.bufferable = dice.chance(2);
    job.max_running = dice.chance(4).then(|| 1 + dice.below(3) as u32);
    if dice.chance(2) {
        job.task_subprocess.deadline = Some(Duration::from_secs(100));
        job.est_duration = dice.chance(3).then(|| Duration::from_secs(30));
    }
    job.priority = dice.below(4) as f64;
    if dice.chance(4) {
        job.level_for_tasks = HOST;
    }
    if dice.chance(3) {
        job.depends_on = vec![job_name(dice.pick(&["j0", "j1", "j2", "j3", "nowhere"]))];
    }
    if dice.chance(3) {
        let on = job_name(dice.pick(&["j0", "j1", "j2", "j3", "nowhere"]));
        job.run_only_after_all_nodes_are_done_for.push(on);
        if dice.chance(3) {
            let on = job_name(dice.pick(&["j0", "j1"]));
            job.run_only_after_all_nodes_are_done_for.push(on);
        }
    }
    if dice.chance(3) {
        let level = if dice.chance(2) { HOST } else { DB };
        let filter = blacklist(&[dice.pick(&HOSTS), dice.pick(&DBS)]);
        job.filters.insert(level, filter);
    }
    if dice.chance(5) {
        job.host_placement = Some(dice.pick(&HOSTS).to_owned());
    }
    if dice.chance(3) {
        job.level_for_host_placement = Some(HOST);
    }
    if dice.chance(4) {
        job.command.clear();
    }
    job
}

pub(super) fn random_nodes(seed: u64, config: &Config) -> NodeTable {
    let mut dice = Dice::new(seed);
    let mut builder = NodeTableBuilder::new("root", config);
    for host in HOSTS {
        if dice.chance(5) {
            continue;
        }
        let row = builder.add_child(Row::ROOT, host, !dice.chance(6)).unwrap();
        for db in DBS {
            if dice.chance(2) {
                builder.add_child(row, db, !dice.chance(8)).unwrap();
            }
        }
    }
    builder.finish()
}

/// Both schedulers with the same history.
struct Pair {
    engine: Engine,
    plain: Plain,
    now: Time,
    next_job: u32,
    /// Number of work requests so far.
    requests: u64,
    /// Budget of a slice of a refresh.
    slice: u64,
    order: NodeOrder,
    policy: SchedulerPolicy,
}

impl Pair {
    fn new(order: NodeOrder, policy: SchedulerPolicy) -> Self {
        Pair {
            engine: Engine::new(3),
            plain: Plain::default(),
            now: seconds(1),
            next_job: 0,
            requests: 0,
            slice: 1,
            order,
            policy,
        }
    }

    fn key(&self, task: Task) -> Key {
        (
            self.engine.job_name(task.job).to_string(),
            self.engine.node_name(task.node).to_string(),
        )
    }

    fn some_task(&mut self, dice: &mut Dice) -> Task {
        let (job, node) = (dice.pick(&JOBS), dice.pick(&DBS));
        task(&mut self.engine, job, node)
    }

    fn random_status(
        dice: &mut Dice,
        now: Time,
    ) -> (
        brasserie_common::status::StoredStatus,
        Option<Time>,
        Restart,
    ) {
        let bits = [
            StatusBits::DONE,
            StatusBits::DONE,
            StatusBits::INCOMPLETE,
            StatusBits::ERROR.with(StatusBits::USES_BACKOFF),
            StatusBits::FAILED,
        ][dice.below(5)];
        let wait = bits.has(StatusBits::ERROR) || dice.chance(4);
        let until = wait.then(|| now + Duration::from_secs(dice.below(4) as u64));
        let restart = if dice.chance(3) {
            Restart::HeldUntilReleased
        } else {
            Restart::AtOnce
        };
        (status(bits), until, restart)
    }

    fn note_status(
        &mut self,
        key: Key,
        s: brasserie_common::status::StoredStatus,
        until: Option<Time>,
        restart: Restart,
    ) {
        self.plain.statuses.insert(key.clone(), s);
        self.note_wait(key, until, restart);
    }

    fn note_wait(&mut self, key: Key, until: Option<Time>, restart: Restart) {
        match until {
            Some(until) => self.plain.waits.insert(key.clone(), until),
            None => self.plain.waits.remove(&key),
        };
        match restart {
            Restart::AtOnce => self.plain.held.remove(&key),
            Restart::HeldUntilReleased => self.plain.held.insert(key),
        };
    }

    fn step(&mut self, kind: u8, seed: u64) {
        let mut dice = Dice::new(seed);
        match kind {
            0 => {
                let config = Arc::new(random_config(seed, self.order, self.policy));
                self.plain.config = Some(Arc::clone(&config));
                if self
                    .engine
                    .config()
                    .is_none_or(|c| c.policy != config.policy)
                {
                    self.next_job = 0;
                }
                if dice.chance(2) {
                    self.engine.apply_config(self.now, config);
                } else {
                    self.engine.begin_config(self.now, config);
                }
            }
            1 => {
                let Some(config) = self.plain.config.clone() else {
                    return;
                };
                let table = Arc::new(random_nodes(seed, &config));
                if dice.chance(4) {
                    self.engine.apply_nodes(self.now, table);
                } else {
                    self.engine.begin_nodes(table);
                }
            }
            2..=4 => self.worker_step(kind, &mut dice),
            5 | 6 => self.end_some(&mut dice),
            7 => {
                let mut held: Vec<Task> = self.engine.tasks.waits().held().collect();
                held.sort_unstable();
                if !held.is_empty() {
                    let task = held[dice.below(held.len())];
                    self.plain.held.remove(&self.key(task));
                    self.engine.release(self.now, task);
                }
            }
            8 => {
                self.now = self.now + Duration::from_secs(dice.below(3) as u64);
                self.engine.handle_timeout(self.now);
            }
            9 => self.adopt_some(&mut dice),
            13 => self.change_a_bit(&mut dice),
            14 => self.change_owner(&mut dice),
            15 => self.begin_reclaim(seed),
            16 => self.ask_for_work(&mut dice),
            17 => self.learn(&mut dice),
            10 => self.restate_some(&mut dice),
            11 => {
                let task = self.some_task(&mut dice);
                let until = self.now + Duration::from_secs(dice.below(3) as u64);
                if dice.chance(4) {
                    self.engine.hold_back_unknown(HoldBack::All, until);
                    self.plain.barrier = self.plain.barrier.max(Some(until));
                } else if !self.engine.is_running(task) {
                    self.engine
                        .hold_back_unknown(HoldBack::Tasks(&[task]), until);
                    let wait = self.plain.waits.entry(self.key(task)).or_insert(until);
                    *wait = until.max(*wait);
                }
            }
            _ => {
                let task = self.some_task(&mut dice);
                self.engine.hold(task);
                self.plain.held.insert(self.key(task));
            }
        }
    }

    fn change_owner(&mut self, dice: &mut Dice) {
        self.plain.nodes_owner = match dice.chance(2) {
            true => NodesOwner::OtherConfig,
            false => NodesOwner::ThisConfig,
        };
        self.engine.set_nodes_owner(self.plain.nodes_owner);
    }

    fn begin_reclaim(&mut self, seed: u64) {
        // An unused name gets the place of a released one.
        self.engine.intern_node(&node_name(&format!("x{seed}")));
        let is_idle = self.engine.refresh.is_none() && !self.engine.reclaim.is_under_way();
        if is_idle && self.engine.forest.is_some() {
            self.engine.begin_reclaim();
        }
    }

    /// Changes one setting of the configuration in force.
    fn change_a_bit(&mut self, dice: &mut Dice) {
        let Some(config) = &self.plain.config else {
            return;
        };
        let mut config = Config::clone(config);
        let resources = config.resources.len();
        let name = dice.pick(&JOBS);
        let place = config.jobs.iter().position(|j| j.name.as_str() == name);
        match (dice.below(6), place) {
            (0 | 1, _) if resources > 0 => {
                let limit = dice.below(5) as i32;
                config.resources[dice.below(resources)].limit = ResourceLimit::Fixed(limit);
            }
            (2, Some(place)) => {
                config.jobs.remove(place);
            }
            (3, Some(place)) => config.jobs[place].enabled ^= true,
            (4, Some(place)) if resources > 0 => {
                let needs = &mut config.jobs[place].resources;
                needs[dice.below(resources)] = dice.below(3) as i32;
            }
            (5, Some(place)) => {
                let level = dice.chance(2).then_some(HOST);
                config.jobs[place].level_for_host_placement = level;
            }
            (_, Some(place)) => config.jobs[place] = random_job(name, resources, dice).into(),
            (_, None) => config.jobs.push(random_job(name, resources, dice).into()),
        }
        let config = Arc::new(config);
        self.plain.config = Some(Arc::clone(&config));
        self.engine.apply_config(self.now, config);
    }

    fn worker_step(&mut self, kind: u8, dice: &mut Dice) {
        let name = dice.pick(&SHARDS);
        if kind == 4 {
            if let Some(index) = self.engine.find_worker(name) {
                self.engine.remove_worker(index);
            }
            self.plain.workers.remove(name);
            self.plain.asked.remove(name);
            return;
        }
        let mut resources = on_host(dice.pick(&HOSTS));
        resources.cpu_cores = dice.below(4) as f64;
        resources.has_worker_command = !dice.chance(3);
        resources.cards = cards(&["A", "B", "A", "A"][..dice.below(5)]);
        if dice.chance(4) && !resources.cards.is_empty() {
            resources.cards.remove(0);
        }
        resources.room = dice.chance(2).then(|| room(1 + dice.below(3) as u32));
        let index = self.engine.upsert_worker(&shard(name), resources.clone());
        let eligible = !dice.chance(4);
        self.engine.set_eligibility(
            index,
            if eligible {
                Eligibility::Eligible
            } else {
                Eligibility::Ineligible
            },
        );
        self.plain
            .workers
            .insert(name.to_owned(), (resources, eligible));
    }

    /// A worker requests work, has used up its credit, or becomes an ordinary worker again. The engine ignores a worker that was removed,
    /// even while tasks are charged to it.
    fn ask_for_work(&mut self, dice: &mut Dice) {
        let name = dice.pick(&SHARDS);
        let Some(worker) = self.engine.find_worker(name) else {
            return;
        };
        let is_present = self.plain.workers.contains_key(name);
        if dice.chance(3) {
            self.plain.asked.remove(name);
            return self.engine.set_allowances(worker, None);
        }
        let asked = [(); 3].map(|()| [(); 2].map(|()| !dice.chance(3)));
        let delay = [0.0, 50.0][dice.below(2)];
        let of = |[bufferable, immediate]: [bool; 2]| Allowance {
            bufferable,
            immediate,
            estimated_delay: delay,
            ..Allowance::NOTHING
        };
        let of_model = |model: &str, at: usize| (Processor::Cards(model.into()), of(asked[at]));
        let cards = [of_model("A", 1), of_model("B", 2)];
        let chooses_cards = dice.chance(2);
        let all = cards.into_iter().chain([(Processor::Cpu, of(asked[0]))]);
        let longest = [f64::INFINITY, 65.0, 40.0][dice.below(3)];
        let asked = Asked {
            may: asked,
            chooses_cards,
            delay,
            longest,
        };
        if is_present {
            self.plain.asked.insert(name.to_owned(), asked);
        }
        self.requests += 1;
        let allowances = Allowances::new(all).by(Some(WorkRequestSeq(self.requests)));
        let allowances = allowances.with_cards(match chooses_cards {
            true => CardChoice::Worker,
            false => CardChoice::Scheduler,
        });
        self.engine.set_allowances(worker, Some(allowances));
    }

    /// Sets or removes the learned run time of a job.
    fn learn(&mut self, dice: &mut Dice) {
        let name = dice.pick(&JOBS);
        let Some(id) = self.engine.find_job(name) else {
            return;
        };
        let learned = [None, Some(20.0), Some(80.0)][dice.below(3)];
        self.engine.set_learned(id, learned);
        match learned {
            Some(seconds) => self.plain.learned.insert(name.to_owned(), seconds),
            None => self.plain.learned.remove(name),
        };
    }

    fn end_some(&mut self, dice: &mut Dice) {
        let mut running: Vec<Task> = self.engine.tasks.runs().keys().collect();
        running.sort_unstable();
        if running.is_empty() {
            return;
        }
        let task = running[dice.below(running.len())];
        let (status, until, restart) = Self::random_status(dice, self.now);
        let key = self.key(task);
        self.plain.running.remove(&key);
        if dice.chance(5) {
            self.engine.never_began(self.now, task, until, restart);
            return self.note_wait(key, until, restart);
        }
        self.engine
            .end(self.now, task, status.clone(), until, restart);
        self.note_status(key, status, until, restart);
    }

    fn restate_some(&mut self, dice: &mut Dice) {
        let task = self.some_task(dice);
        if self.engine.is_running(task) {
            return;
        }
        if dice.chance(4) {
            self.engine.forget_status(task);
            let key = self.key(task);
            self.plain.statuses.remove(&key);
            self.plain.waits.remove(&key);
            self.plain.held.insert(key);
            return;
        }
        let (status, until, restart) = Self::random_status(dice, self.now);
        self.engine
            .restate(self.now, task, status.clone(), until, restart);
        let key = self.key(task);
        self.note_status(key, status, until, restart);
    }

    fn adopt_some(&mut self, dice: &mut Dice) {
        let task = self.some_task(dice);
        let shard = dice.pick(&SHARDS);
        let Some(worker) = self.engine.find_worker(shard) else {
            return;
        };
        let charges = vec![NodeResources {
            node: node_name(dice.pick(&["root", "h0", "w0", "nobody"])),
            resources: vec![ResourceAmount {
                name: dice.pick(&["r00", "r10", "r30", "slots", "r99"]).to_owned(),
                amount: dice.below(3) as i32,
            }],
        }];
        let gpus: Vec<GpuShare> = ["c0", "c3", "gone"][..dice.below(4)]
            .iter()
            .map(|device| GpuShare {
                device: (*device).into(),
                milli: [250, 400, 1000, 0][dice.below(4)],
            })
            .collect();
        match self
            .engine
            .adopt_running(task, worker, &charges, (&gpus, None))
        {
            AdoptOutcome::Adopted | AdoptOutcome::AdoptedWithUnknownCharges(_) => {
                let key = self.key(task);
                self.plain.waits.remove(&key);
                self.note_run(key, worker, charges, gpus);
            }
            AdoptOutcome::AlreadyRunning(_) | AdoptOutcome::UnknownWorker => {}
        }
    }

    /// Returns the task that the plain scheduler would start next under round robin and the original order.
    fn expected(&self) -> Option<(Key, Vec<String>)> {
        let config = self.plain.config.as_ref()?;
        let mut jobs: Vec<JobId> = self.engine.jobs().collect();
        jobs.sort_unstable_by_key(|job| (job.0 < self.next_job, job.0));
        jobs.into_iter().find_map(|id| {
            let job = config.job(self.engine.job_name(id).as_str())?;
            let (node, workers) = self.plain.first(self.now, job)?;
            Some(((job.name.to_string(), node), workers.into_iter().collect()))
        })
    }

    fn place_and_check(&mut self) {
        self.plain.nodes = self.engine.nodes().cloned();
        // An explanation shows a wait until it is expired.
        self.engine.expire(self.now);
        loop {
            let expected = self.expected();
            if let Some(((job, node), _)) = &expected {
                let task = task(&mut self.engine, job, node);
                assert_eq!(self.engine.explain(self.now, task), [Reason::Runnable]);
            }
            let Some(placement) = self.place() else {
                assert_eq!(expected, None, "the engine starts nothing");
                break;
            };
            let key = self.key(placement.task);
            let config = self.plain.config.clone().unwrap();
            let could = self
                .plain
                .could_start(self.now, config.job(&key.0).unwrap(), &key.1);
            let worker = self
                .engine
                .pool
                .get(placement.worker)
                .unwrap()
                .shard
                .clone();
            assert!(could.contains(worker.as_str()), "{key:?} on {worker}");
            if self.order == NodeOrder::Original && self.policy == SchedulerPolicy::RoundRobin {
                assert_eq!(Some(&key), expected.as_ref().map(|(key, _)| key));
            }
            self.next_job = placement.task.job.0 + 1;
            let charges = self.engine.charges(placement.task);
            let gpus = self.engine.gpus(placement.task).to_vec();
            self.check_gpus(&key, placement, &gpus);
            self.note_run(key, placement.worker, charges, gpus);
        }
        self.check_fixpoint();
    }

    fn place(&mut self) -> Option<Placement> {
        let (asked, engine) = (&self.plain.asked, &self.engine);
        let shards: BTreeMap<_, _> = SHARDS
            .iter()
            .filter_map(|name| Some((engine.find_worker(name)?, *name)))
            .collect();
        // The bounds leave room for the rounding of learned run times.
        let mut judge = |worker, due: Due| {
            let asked = asked.get(shards[&worker]);
            let longest = asked.expect("only who asks is asked").longest;
            judged(due.estimate <= longest)
        };
        self.engine
            .place_within(self.now, &mut Tries::endless(), &mut judge)
    }

    fn note_run(
        &mut self,
        key: Key,
        worker: WorkerIndex,
        charges: Vec<NodeResources>,
        gpus: Vec<GpuShare>,
    ) {
        let shard = self.engine.pool.get_any(worker).unwrap().shard.to_string();
        let run = PlainRun {
            charges,
            shard,
            gpus,
        };
        self.plain.running.insert(key, run);
    }

    /// Checks the GPUs of a task that is about to be noted: they belong to its worker, suffice for its need, and are not in use by others.
    fn check_gpus(&self, key: &Key, placement: Placement, gpus: &[GpuShare]) {
        let worker = self.engine.pool.get(placement.worker).unwrap();
        let config = self.plain.config.as_ref().unwrap();
        let job = config.job(&key.0).unwrap();
        let cards = &worker.resources.cards;
        for (i, share) in gpus.iter().enumerate() {
            assert!(cards.iter().any(|card| card.device == share.device));
            assert!(gpus[..i].iter().all(|other| other.device != share.device));
            let taken = self.plain.card_used(worker.shard.as_str(), &share.device);
            assert!(taken + u64::from(share.milli) <= 1000, "{key:?}: {gpus:?}");
        }
        let given: u32 = gpus.iter().map(|share| share.milli).sum();
        let (all, named) = Plain::cards_needed(config, job);
        let wanted = match cards.is_empty() {
            true => 0,
            false if all < 1000 && named.is_empty() => all,
            false => all.max(named.values().sum::<u32>() * 1000) / 1000 * 1000,
        };
        let told = self.engine.gpus_wanted(placement.task);
        let told = told.map(|told| (told.need.amount() * 1000.0).round() as u32);
        match self.plain.chooses_cards(worker.shard.as_str()) && wanted > 0 {
            true => assert_eq!((given, told), (0, Some(wanted)), "{key:?}"),
            false => assert_eq!((given, told), (wanted, None), "{key:?}"),
        }
    }

    /// Checks that the engine knows each task by its names, even if its node is gone.
    fn check_names(&self) {
        let plain = &self.plain;
        let mut keys: Vec<&Key> = plain.statuses.keys().collect();
        let waits = plain.waits.iter().filter(|(_, until)| **until > self.now);
        keys.extend(waits.map(|(key, _)| key).chain(&plain.held));
        keys.extend(plain.running.keys());
        for key in keys {
            let job = self.engine.find_job(&key.0).unwrap();
            let node = self.engine.find_node(&key.1).unwrap();
            let task = Task { job, node };
            let engine = &self.engine;
            assert_eq!(
                engine.previous_status(task).as_ref(),
                plain.statuses.get(key)
            );
            assert_eq!(engine.tasks.waits().is_held(task), plain.held.contains(key));
            assert_eq!(engine.is_running(task), plain.running.contains_key(key));
            let until = plain.waits.get(key).filter(|until| **until > self.now);
            assert_eq!(engine.waits_until(task).as_ref(), until);
        }
    }

    /// Checks the available work for each worker against a scan of all jobs.
    fn check_found(&self) {
        let engine = &self.engine;
        for (index, worker) in engine.pool.present() {
            let mut plain: BTreeMap<Processor, WorkFound> = BTreeMap::new();
            for id in engine.jobs() {
                let (job, columns) = (engine.tasks.job(id), engine.queues.of(id));
                let demand = engine.pool.demand(job.demand).unwrap();
                let ready = match job.can_run && columns.gate == Gate::Open {
                    true => u64::from(
                        columns
                            .eligible
                            .min(self.plain.may_start(engine.job_config(id))),
                    ),
                    false => 0,
                };
                let allowances = worker.allowances.as_ref();
                for processor in worker.processors_of(&demand.cards) {
                    let refusal =
                        allowances.and_then(|all| demand.work.refusal(all.of(&processor)));
                    let found = plain.entry(processor).or_default();
                    found.ready += ready;
                    if demand.late.contains(index.index()) || refusal == Some(Refusal::Late) {
                        found.late += ready;
                    }
                }
            }
            assert_eq!(engine.work_found(index), plain, "{}", worker.shard);
        }
    }

    fn check_fixpoint(&mut self) {
        self.check_names();
        self.check_found();
        let mut fresh = self.engine.clone();
        fresh.queues.take_lists();
        fresh.rebuild_columns();
        for job in self.engine.jobs().collect::<Vec<_>>() {
            for task in self.engine.tasks(job).collect::<Vec<_>>() {
                let key = self.key(task);
                assert_eq!(
                    self.engine.task_state(task),
                    fresh.task_state(task),
                    "{key:?}"
                );
                let reasons = self.engine.explain(self.now, task);
                assert!(!reasons.contains(&Reason::Runnable), "{key:?}");
                assert!(!reasons.is_empty() && reasons.iter().all(|r| !r.to_string().is_empty()));
            }
            let counts = self.engine.counts(job);
            assert_eq!(counts, fresh.counts(job));
            assert_eq!(self.engine.histogram(job, 2), fresh.histogram(job, 2));
            let all = self.engine.tasks(job);
            let done = all.filter(|t| self.engine.task_state(*t) == TaskState::Done);
            assert_eq!(counts.done, done.count() as u64);
            assert_eq!(self.engine.is_settled(job), fresh.is_settled(job));
        }
        for worker in self.engine.pool.workers() {
            let shard = worker.shard.as_str();
            for (device, used) in worker.card_use.all() {
                assert_eq!(
                    used,
                    self.plain.card_used(shard, device),
                    "{device} of {shard}"
                );
            }
        }
        let held: u64 = self
            .plain
            .running
            .values()
            .flat_map(|run| &run.gpus)
            .map(|s| u64::from(s.milli))
            .sum();
        let of_workers = self
            .engine
            .pool
            .workers()
            .iter()
            .flat_map(|w| w.card_use.all());
        assert_eq!(of_workers.map(|(_, used)| used).sum::<u64>(), held);
        for ((node, resource), used) in self.engine.slots.all_used() {
            let node = self.engine.node_text(node);
            let resource = self.engine.slots.text(resource);
            assert_eq!(
                used,
                self.plain.used(node, resource),
                "{resource} on {node}"
            );
        }
    }

    /// Checks that the table on its way would be right if it came into force now, gates included.
    fn check_coming(&self) {
        if self.engine.refresh.is_none() {
            return;
        }
        let mut coming = self.engine.clone();
        coming.finish_refresh();
        let mut fresh = coming.clone();
        fresh.queues.take_lists();
        fresh.rebuild_columns();
        for job in coming.jobs() {
            let gate = |engine: &Engine| engine.queues.of(job).gate;
            let state = |engine: &Engine| {
                let tasks = engine.tasks(job);
                let states: Vec<TaskState> = tasks.map(|task| engine.task_state(task)).collect();
                (states, engine.queues.of(job).eligible)
            };
            let name = self.engine.job_name(job);
            assert_eq!(state(&coming), state(&fresh), "{name}");
            assert_eq!(gate(&coming), gate(&fresh), "{name}");
            assert_eq!(coming.counts(job), fresh.counts(job), "{name}");
        }
    }

    /// Completes the refresh, and checks that the result is the same as that of a refresh that begins now.
    fn finish_refresh(&mut self) {
        for _ in 0..100_000 {
            if !self.engine.is_refreshing() {
                break;
            }
            self.engine.run_slice(&mut WorkBudget::new(self.slice));
        }
        assert!(!self.engine.is_refreshing(), "a refresh comes to its end");
        self.place_and_check();
    }

    fn end_all(&mut self) {
        let running: Vec<Task> = self.engine.tasks.runs().keys().collect();
        for task in running {
            end(&mut self.engine, self.now, task, StatusBits::DONE);
            self.plain.running.remove(&self.key(task));
        }
        assert_eq!(self.engine.slots.all_used(), []);
        for worker in self.engine.pool.workers() {
            assert_eq!(worker.card_use, CardUse::default());
        }
        assert_eq!(self.engine.running_count(), 0);
    }
}

fn run(order: NodeOrder, policy: SchedulerPolicy, steps: Vec<(u8, u64)>) {
    let mut pair = Pair::new(order, policy);
    for (kind, seed) in steps {
        pair.step(kind, seed);
        pair.check_found();
        // A slice covers from one row, or one task, to the whole table.
        pair.slice = [1, 250, 1000, 5000, 100_000][Dice::new(!seed).below(5)];
        if seed % 4 == 0 {
            pair.check_coming();
        }
        pair.engine.run_slice(&mut WorkBudget::new(pair.slice));
        pair.check_found();
        if seed % 3 != 0 {
            // No node is held outside the engine here, so every node that it releases must be unused.
            pair.engine.all_nodes_are_held();
        }
        pair.place_and_check();
    }
    pair.finish_refresh();
    pair.end_all();
}

/// Regression test: the plain scheduler once applied the request of a removed worker to the next worker with its name.
#[test]
fn a_request_of_a_removed_worker_is_not_that_of_the_next_one_with_its_name() {
    let (slots, gpu) = (
        resource("slots", WORKER, 1, 9),
        resource("gpu", WORKER, 1, 9),
    );
    let two_gpus = |name| JobConfig {
        resources: vec![0, 2],
        ..job(name)
    };
    let mut config = config(vec![slots, gpu], ["j0", "j1"].map(two_gpus).to_vec());
    cards_are(&mut config, "gpu", 1.0);
    let table = Arc::new(nodes(&config, &[("h0", &["d0"])]));
    let mut pair = Pair::new(NodeOrder::Original, SchedulerPolicy::RoundRobin);
    let config = Arc::new(config);
    pair.plain.config = Some(Arc::clone(&config));
    pair.engine.apply_config(pair.now, config);
    pair.engine.apply_nodes(pair.now, table);
    let arrives = |pair: &mut Pair| {
        let resources = WorkerResources {
            cards: cards(&["A", "A"]),
            ..on_host("h0")
        };
        let worker = pair.engine.upsert_worker(&shard("w0"), resources.clone());
        pair.engine.set_eligibility(worker, Eligibility::Eligible);
        pair.plain
            .workers
            .insert("w0".to_owned(), (resources, true));
        worker
    };
    let worker = arrives(&mut pair);
    pair.place_and_check();
    let running: Vec<Task> = pair.engine.tasks.runs().keys().collect();
    assert_eq!(running.len(), 1);

    pair.engine.remove_worker(worker);
    pair.plain.workers.remove("w0");
    assert_eq!(pair.engine.find_worker("w0"), Some(worker));
    for seed in 0..100 {
        pair.ask_for_work(&mut Dice::new(seed));
    }
    assert!(pair.requests > 0 && pair.plain.asked.is_empty());

    // Its tasks hold GPUs 0 and 1, which a worker that chooses GPUs itself would ignore.
    assert_eq!(arrives(&mut pair), worker);
    pair.place_and_check();
    assert_eq!(pair.engine.running_count(), 1);
    pair.end_all();
}

/// Two workers, and jobs whose tasks could all start but for the workers' requests.
fn pair_with_deadlines() -> Pair {
    let mut pair = Pair::new(NodeOrder::Original, SchedulerPolicy::RoundRobin);
    let mut slots = resource("slots", WORKER, 1, 0);
    slots.limit = ResourceLimit::ReportedCores;
    let mut jobs = ["j0", "j1", "j2"].map(job);
    for job in &mut jobs {
        job.resources = vec![1];
        job.bufferable = true;
        job.task_subprocess.deadline = Some(Duration::from_secs(100));
    }
    jobs[1].est_duration = Some(Duration::from_secs(30));
    jobs[2].level_for_host_placement = Some(HOST);
    let config = Arc::new(config(vec![slots], jobs.to_vec()));
    for (name, host) in [("w0", "h0"), ("w1", "h1")] {
        let worker = pair.engine.upsert_worker(&shard(name), on_host(host));
        pair.engine.set_eligibility(worker, Eligibility::Eligible);
        pair.plain
            .workers
            .insert(name.to_owned(), (on_host(host), true));
    }
    for seed in 0..9 {
        pair.ask_for_work(&mut Dice::new(seed));
    }
    let hosts: [(&str, &[&str]); 2] = [("h0", &["d0", "d1", "d2"]), ("h1", &["d3", "d4"])];
    let table = Arc::new(nodes(&config, &hosts));
    pair.plain.config = Some(Arc::clone(&config));
    pair.engine.apply_config(pair.now, config);
    pair.engine.apply_nodes(pair.now, table);
    pair
}

fn steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
    let start = (any::<u64>(), any::<u64>(), any::<u64>());
    let more = proptest::collection::vec((0u8..28, any::<u64>()), 1..60);
    (start, more).prop_map(|((a, b, c), more)| {
        let more = more.into_iter().map(|(kind, seed)| {
            // Completions and work requests are the most frequent events.
            let kind = match kind {
                0..18 => kind,
                18..22 => 5,
                22..25 => 16,
                _ => 17,
            };
            (kind, seed)
        });
        [(0, a), (1, b), (2, c)].into_iter().chain(more).collect()
    })
}

integration_tests_properties::properties! {
    150;

    #[test]
    fn original_order_and_round_robin_start_the_very_same(steps in steps()) {
        run(NodeOrder::Original, SchedulerPolicy::RoundRobin, steps);
    }

    #[test]
    fn random_order_starts_all_that_could_start(steps in steps()) {
        run(NodeOrder::Random, SchedulerPolicy::RoundRobin, steps);
    }

    #[test]
    fn who_would_be_late_waits_until_its_worker_asks_anew(
        steps in proptest::collection::vec((0..6_usize, any::<u64>()), 1..80),
    ) {
        let mut pair = pair_with_deadlines();
        for (kind, seed) in steps {
            // The steps are work requests, learned run times, and completions.
            pair.step([16, 16, 17, 5, 5, 8][kind], seed);
            pair.place_and_check();
        }
    }

    #[test]
    fn other_policies_start_all_that_could_start(steps in steps(), which in 0usize..3) {
        let policy = [
            SchedulerPolicy::RankedPriority,
            SchedulerPolicy::LongTail,
            SchedulerPolicy::RandomizedPriority,
        ][which];
        run(NodeOrder::Lexicographic, policy, steps);
    }
}
