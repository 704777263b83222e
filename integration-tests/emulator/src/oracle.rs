//! Computes the idle fraction that no policy can avoid, because the worker is available and has nothing to do.
//!
//! The ideal worker knows each task as soon as it exists, gets all tasks of every scheduler, and never waits for an answer. None of the
//! judged policies takes part in the computation.

use crate::figures::Tally;
use crate::machine::{MachineAvailability, cpu_scale, peak, speeds};
use crate::scenario::{START, Scenario, Version};
use crate::server::{Sent, Server};

/// The number of CPUs by which running GPU tasks may exceed the CPUs of the worker.
const GPU_TASK_CPU_EXCESS: f64 = 1.0;

/// A running task of the ideal worker.
struct OracleTask {
    scheduler: usize,
    number: u64,
    sent: Sent,
    version: Version,
    left: f64,
}

/// Returns the unavoidable idle fraction of the possible work.
pub fn allowed_idle(scenario: &Scenario) -> f64 {
    let endless = scenario.schedulers.iter().any(|scheduler| {
        let mut jobs = scheduler.jobs.iter();
        jobs.any(|job| job.supply == crate::scenario::Supply::Endless && job.after == 0.0)
    });
    if endless && scenario.has_supply() && scenario.worker.types() == 1 {
        return 0.0;
    }
    let mut ideal = Ideal::new(scenario);
    let end = START + scenario.duration;
    while ideal.now < end {
        ideal.step((ideal.now + scenario.delta).min(end));
    }
    ideal.tally.figures().idle
}

struct Ideal<'s> {
    scenario: &'s Scenario,
    now: f64,
    machine: MachineAvailability,
    servers: Vec<Server>,
    running: Vec<OracleTask>,
    last_number: u64,
    tally: Tally,
}

impl<'s> Ideal<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let places = 0..scenario.schedulers.len();
        let shares = scenario.schedulers.iter().map(|it| it.share).collect();
        let mut ideal = Ideal {
            scenario,
            now: START,
            machine: MachineAvailability::new(scenario, START),
            servers: places.map(|at| Server::new(scenario, at, START)).collect(),
            running: Vec::new(),
            last_number: 0,
            tally: Tally::new(peak(scenario), shares, 1.0),
        };
        ideal.take_queued();
        ideal
    }

    /// Returns the initially queued tasks to their schedulers, which can send them at once.
    fn take_queued(&mut self) {
        for (place, scheduler) in self.scenario.schedulers.iter().enumerate() {
            for (job, of) in scheduler.jobs.iter().enumerate() {
                for _ in 0..of.queued {
                    self.servers[place].has_ended(0, job, false);
                }
            }
        }
    }

    fn step(&mut self, end: f64) {
        let is = self.machine.at(self.now);
        let (active, cards) = (is.active, is.cards);
        while self.now < end {
            if active {
                self.fill();
            }
            let versions = self.running.iter().map(|it| &it.version);
            let scale = cpu_scale(self.scenario.worker.cpus, versions);
            let can = |version: &Version| active && (cards || version.cards.is_none());
            let rates = |runs: &OracleTask| match can(&runs.version) {
                true => speeds(self.scenario, &runs.version, scale),
                false => (0.0, 0.0),
            };
            let ends = self
                .running
                .iter()
                .map(|runs| self.now + runs.left / rates(runs).1);
            let arrivals = self.servers.iter().map(|it| it.next_arrival());
            let next = ends.chain(arrivals).fold(end, f64::min);
            // Time never passes the end of the step, and always advances a little.
            let next = next.max(self.now + 1e-3).min(end);
            let passed = next - self.now;
            if active {
                self.tally.active(passed, cards);
            }
            let rates: Vec<(f64, f64)> = self.running.iter().map(rates).collect();
            for (runs, (used, flops)) in self.running.iter_mut().zip(rates) {
                self.tally.used(runs.scheduler, used * passed);
                runs.left -= flops * passed;
            }
            self.now = next;
            self.end_tasks();
        }
    }

    fn end_tasks(&mut self) {
        let servers = &mut self.servers;
        self.running.retain(|runs| {
            let ends = runs.left <= runs.sent.work * 1e-9;
            if ends {
                let well = runs.sent.fails_at.is_none();
                servers[runs.scheduler].has_ended(runs.number, runs.sent.job, well);
            }
            !ends
        });
    }

    /// Returns the CPUs that further GPU tasks may use. CPU tasks do not reduce this number: they run slower beside GPU tasks.
    fn cpus_for_gpu_tasks(&self) -> f64 {
        let gpu_tasks = self.running.iter().filter(|it| it.version.cards.is_some());
        let used: f64 = gpu_tasks.map(|it| it.version.cpus).sum();
        f64::from(self.scenario.worker.cpus) + GPU_TASK_CPU_EXCESS - used
    }

    /// Starts all tasks that fit.
    fn fill(&mut self) {
        for place in 0..self.servers.len() {
            let types = 0..self.scenario.worker.types();
            let free = |of_type: usize, all: bool| {
                let its = self
                    .running
                    .iter()
                    .filter(|it| it.version.of_type() == of_type);
                let others = its.filter(|it| all || it.scheduler != place);
                let used: f64 = others.map(|it| it.version.of_its_type()).sum();
                f64::from(self.scenario.worker.instances(of_type)) - used
            };
            if types.clone().all(|of_type| free(of_type, true) <= 0.0) {
                return;
            }
            let slots: Vec<f64> = types.map(|of_type| free(of_type, false)).collect();
            let mut cpus = self.cpus_for_gpu_tasks();
            let sent = self.servers[place].push_within(self.scenario, self.now, &slots, &mut cpus);
            for sent in sent {
                self.last_number += 1;
                let number = self.last_number;
                self.servers[place].has_sent(self.scenario, number, &sent);
                let version = self.scenario.schedulers[place].jobs[sent.job].versions[sent.version];
                self.running.push(OracleTask {
                    scheduler: place,
                    number,
                    sent,
                    version,
                    left: sent.fails_at.unwrap_or(sent.work),
                });
            }
        }
    }
}
