//! The paper's workload: hosts with 25 databases each, one slot for each database and two for each host. Tasks take from 0 to twice their
//! mean time. Tasks are simulated, while the engine's own time is measured and added to the virtual clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::status::StoredStatus;
use brasserie_common::{JobName, Shard, StatusBits, Time, WallTime};
use brasserie_common_config::{Config, ParseOptions, ResourceLimit, parse};
use brasserie_scheduler_engine::{
    Eligibility, Engine, NodeTable, NodeTableBuilder, Restart, Row, Task, WorkerResources,
};
use serde_json::json;

use crate::meter::thread_time;

pub const DATABASES_A_HOST: usize = 25;
pub const SLOTS_A_HOST: usize = 2;
/// Few compared with the hosts, but many compared with one: the pool is not measured, but is not free either.
pub const WORKERS: usize = 1000;
const SEED: u64 = 7;
const ROOT_RESOURCE: &str = "root";

/// The size of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub hosts: usize,
    pub jobs: usize,
    /// Slots of the root resource; `None`: no root resource.
    pub root_slots: Option<usize>,
}

impl Size {
    /// Returns a size with `nodes` databases, rounded down to whole hosts.
    pub fn of_nodes(nodes: usize, jobs: usize) -> Self {
        Size {
            hosts: nodes / DATABASES_A_HOST,
            jobs,
            root_slots: None,
        }
    }

    pub fn nodes(self) -> usize {
        self.hosts * DATABASES_A_HOST
    }

    /// Returns the maximum number of running tasks.
    pub fn slots(self) -> usize {
        let on_hosts = self.hosts * SLOTS_A_HOST;
        self.root_slots
            .map_or(on_hosts, |slots| slots.min(on_hosts))
    }

    /// Returns the configuration, with defaults for everything else: nodes in random order, jobs in turn.
    pub fn config(self) -> Config {
        let on_workers = (self.hosts * SLOTS_A_HOST).div_ceil(WORKERS) * 2;
        let mut resources = json!({
            "host": { "disk": { "default": 1, "limit": SLOTS_A_HOST } },
            "db": { "access": { "default": 1, "limit": 1 } },
            "worker": { "slots": { "default": 1, "limit": on_workers } },
        });
        if let Some(slots) = self.root_slots {
            resources["instance"] = json!({ ROOT_RESOURCE: { "default": 1, "limit": slots } });
        }
        let text = json!({
            "bistro_settings": {
                "enabled": true,
                "nodes": { "levels": ["host", "db"], "node_sources": [] },
                "resources": resources,
            },
            "bistro_job->job0": { "owner": "bench", "command": ["/bin/true"] },
        });
        let parsed = parse(&text.to_string(), ParseOptions::default());
        let mut config = parsed.expect("the bench's own text is correct").config;
        let first = config.jobs[0].clone();
        for number in 1..self.jobs {
            let mut job = first.clone();
            job.name = JobName::try_from(format!("job{number}")).expect("a short name");
            config.jobs.push(job);
        }
        config
    }

    pub fn table(self, config: &Config) -> NodeTable {
        self.table_of(config, "host")
    }

    /// Returns the node table with names that begin with `prefix`.
    pub fn table_of(self, config: &Config, prefix: &str) -> NodeTable {
        let mut builder = NodeTableBuilder::new("bench", config);
        for host in 0..self.hosts {
            let name = format!("{prefix}{host:06}");
            let row = builder.add_child(Row::ROOT, &name, true);
            let row = row.expect("the table has room");
            for database in 0..DATABASES_A_HOST {
                let child = builder.add_child(row, &format!("{name}:{database}"), true);
                child.expect("the table has room");
            }
        }
        builder.finish()
    }

    /// Returns an engine with the workers, without configuration and nodes.
    pub fn pool(self) -> Engine {
        let mut engine = Engine::new(SEED);
        for number in 0..WORKERS {
            let shard = Shard::try_from(worker_name(number)).expect("a short name");
            let resources = WorkerResources {
                hostname: Arc::from(format!("machine{number}")),
                port: 1,
                cpu_cores: 0.0,
                memory_mb: 0.0,
                cards: Default::default(),
                has_worker_command: false,
                room: None,
                takes_standby: false,
            };
            let worker = engine.upsert_worker(&shard, resources);
            engine.set_eligibility(worker, Eligibility::Eligible);
        }
        engine
    }

    /// Returns an engine with configuration, nodes and workers that has started no task.
    pub fn engine(self) -> Engine {
        let config = Arc::new(self.config());
        let table = Arc::new(self.table(&config));
        let mut engine = self.pool();
        engine.apply_config(Time::ZERO, config);
        engine.apply_nodes(Time::ZERO, table);
        engine
    }
}

pub fn worker_name(number: usize) -> String {
    format!("worker{number}")
}

/// Returns the status of a successful task.
pub fn done(now: Time) -> StoredStatus {
    StoredStatus {
        bits: StatusBits::DONE,
        time: WallTime::from_millis(
            1_700_000_000_000 + i64::try_from(now.as_nanos() / 1_000_000).unwrap_or(0),
        ),
        backoff_seconds: 0,
        safety_seconds: 0,
        data: None,
    }
}

/// Draws the duration of each task, uniformly from 0 to twice the mean.
#[derive(Debug)]
pub struct TaskTimes {
    rng: Rng,
    pub mean: Duration,
}

impl TaskTimes {
    pub fn new(mean: Duration) -> Self {
        TaskTimes {
            rng: Rng::new(SEED, Purpose::Backoff),
            mean,
        }
    }

    pub fn draw(&mut self) -> Duration {
        let most = usize::try_from(2 * self.mean.as_nanos()).unwrap_or(usize::MAX);
        Duration::from_nanos(self.rng.below(most) as u64)
    }
}

/// The result of a window of virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub ended: u64,
    /// Processor time within the engine.
    pub engine_time: Duration,
    /// Used slots times their duration, limited by the offered slots; the offered slots times their duration follow.
    busy: f64,
    offered: f64,
}

impl Window {
    /// Returns the throughput relative to an infinitely fast scheduler.
    pub fn normalised_throughput(&self) -> f64 {
        self.busy / self.offered
    }

    pub fn micros_an_event(&self) -> f64 {
        self.engine_time.as_secs_f64() * 1e6 / self.ended.max(1) as f64
    }

    pub fn add(&mut self, slots: f64, running: f64, length: f64) {
        self.busy += running.min(slots * length);
        self.offered += slots * length;
    }
}

/// An engine with simulated tasks. Completions within one slice of virtual time are reported one by one at its end, each followed by all
/// starts that it permits. Then the clock advances by the engine's time. Measuring single events would cost as much as the events, and
/// reporting them late costs the engine some of its throughput.
pub struct Simulation {
    pub engine: Engine,
    /// The number of tasks that can run now.
    slots: usize,
    most_slots: usize,
    slice: Duration,
    times: TaskTimes,
    now: Time,
    due: BinaryHeap<Reverse<(Time, Task)>>,
    ends: Vec<(Time, Task)>,
    started: Vec<Task>,
}

impl Simulation {
    /// Starts everything that can start, with a whole pass.
    pub fn new(engine: Engine, slots: usize, mean: Duration, slice: Duration) -> Self {
        let mut simulation = Simulation {
            engine,
            slots,
            most_slots: slots,
            slice,
            times: TaskTimes::new(mean),
            now: Time::ZERO + Duration::from_secs(1),
            due: BinaryHeap::new(),
            ends: Vec::new(),
            started: Vec::new(),
        };
        simulation.engine_turn(|_, _| {});
        simulation
    }

    /// Sets the mean duration of tasks that start from now on.
    pub fn set_mean(&mut self, mean: Duration) {
        self.times.mean = mean;
    }

    /// Passes an event to the engine, and places all tasks that can start. Returns the engine's time, which the caller adds to the clock.
    fn engine_turn(&mut self, event: impl FnOnce(&mut Engine, Time)) -> Duration {
        let before = thread_time();
        event(&mut self.engine, self.now);
        while let Some(placement) = self.engine.place(self.now) {
            self.started.push(placement.task);
        }
        for (_, task) in self.ends.drain(..) {
            self.engine
                .end(self.now, task, done(self.now), None, Restart::AtOnce);
            while let Some(placement) = self.engine.place(self.now) {
                self.started.push(placement.task);
            }
        }
        let took = thread_time().saturating_sub(before);
        self.now = self.now + took;
        for task in self.started.drain(..) {
            self.due.push(Reverse((self.now + self.times.draw(), task)));
        }
        took
    }

    /// Advances the clock by a slice, and collects the completions until then.
    fn pass_slice(&mut self) {
        self.now = self.now + self.slice;
        while let Some(Reverse((due, _))) = self.due.peek()
            && *due <= self.now
        {
            self.ends.extend(self.due.pop().map(|Reverse(end)| end));
        }
    }

    /// Runs for `length` of virtual time. The slots of the root resource change `changes` times, evenly spread.
    pub fn run(&mut self, length: Duration, changes: usize) -> Window {
        let begin = self.now;
        let mut window = Window::default();
        let mut changed = 0;
        while self.now < begin + length {
            let (before, slots, running) = (self.now, self.slots as f64, self.due.len() as f64);
            self.pass_slice();
            let ends: Vec<Time> = self.ends.iter().map(|(due, _)| *due).collect();
            // Changes come in the middle of each part, so that a single change is within the window.
            let share = self.now.since(begin).as_secs_f64() / length.as_secs_f64();
            let is_due = changed < changes && share * changes as f64 >= changed as f64 + 0.5;
            let replaced = is_due.then(|| self.other_capacity());
            changed += usize::from(is_due);
            window.engine_time += self.engine_turn(|engine, now| {
                if let Some(config) = replaced {
                    engine.apply_config(now, config);
                }
            });
            window.ended += ends.len() as u64;
            // A slot is idle from its task's completion until the engine has placed the next tasks.
            let idle = ends.iter().map(|due| self.now.since(*due).as_secs_f64());
            let idle: f64 = idle.sum();
            let took = self.now.since(before).as_secs_f64();
            window.add(slots, running * took - idle, took);
        }
        window
    }

    /// Draws a capacity from three quarters to all of the hosts' slots.
    fn other_capacity(&mut self) -> Arc<Config> {
        let mut config = Config::clone(self.engine.config().expect("one was applied"));
        let root = config
            .resource(ROOT_RESOURCE)
            .expect("there is a root resource");
        self.slots = self.most_slots - self.times.rng.below(self.most_slots / 4);
        let limit = i32::try_from(self.slots).expect("few slots");
        config.resources[root.index()].limit = ResourceLimit::Fixed(limit);
        Arc::new(config)
    }
}
