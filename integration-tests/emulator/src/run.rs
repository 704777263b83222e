//! Plays one run of a scenario.
//!
//! Time advances in steps of at most `delta`, and availability changes only between steps. Within a step, time advances from event to
//! event: a task ends, tasks arrive, or the worker's policies are due. Answers and transfers take no time.

mod ends;
mod talk;

use std::collections::BTreeMap;

use brasserie_common::Time;
use brasserie_worker_fetch::TaskNumber;

use crate::client::{Client, TaskArrival, seconds, span};
use crate::figures::Tally;
use crate::machine::{Availability, MachineAvailability, cpu_scale, peak, speeds};
use crate::oracle;
use crate::outcome::{Contact, Outcome, Sample, SchedulerOutcome, Totals};
use crate::scenario::{START, Scenario, Version};
use crate::server::{Sent, Server};

/// Minimum time between two events in seconds. A policy that is due at once again waits for this long.
const LEAST_STEP: f64 = 0.001;
/// Maximum number of decisions at one instant.
const MOST_TURNS: usize = 10_000;
/// Number of samples of the time series.
const SAMPLES: f64 = 1000.0;

/// Plays the scenario. `watch` receives the progress, from 0 to 1.
pub fn run(scenario: &Scenario, watch: &mut dyn FnMut(f64)) -> Outcome {
    let mut world = EmulatedWorld::new(scenario);
    world.begin();
    while world.now < world.end {
        world.step();
        watch(world.elapsed() / scenario.duration);
    }
    world.finish()
}

/// The true state of a task.
struct TaskLife {
    scheduler: usize,
    sent: Sent,
    version: Version,
    /// Completed operations, ...
    done: f64,
    /// ... and the operations at peak speed that they occupied.
    used: f64,
    /// Whether it runs on its processors now.
    runs: bool,
}

struct EmulatedWorld<'s> {
    scenario: &'s Scenario,
    now: Time,
    end: Time,
    client: Client,
    servers: Vec<Server>,
    /// Tasks from their arrival until their completions are reported.
    lives: BTreeMap<TaskNumber, TaskLife>,
    /// Completions to report at once, each in its own contact, and whether the task succeeded.
    to_report: Vec<(TaskNumber, bool)>,
    machine: MachineAvailability,
    /// The availability in this step.
    is: Availability,
    last_number: u64,
    tally: Tally,
    /// Schedulers with a running task in this step.
    ran: Vec<bool>,
    slots: Vec<Vec<f64>>,
    schedulers: Vec<SchedulerOutcome>,
    contacts: Vec<Contact>,
    failed_contacts: u64,
    series: Vec<Sample>,
    next_sample: f64,
}

impl<'s> EmulatedWorld<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let now = Time::ZERO + span(START);
        let schedulers = &scenario.schedulers;
        let outcome = schedulers.iter().map(|scheduler| SchedulerOutcome {
            name: scheduler.name.clone(),
            share: scheduler.share,
            ..SchedulerOutcome::default()
        });
        let shares: Vec<f64> = schedulers.iter().map(|it| it.share).collect();
        let mut machine = MachineAvailability::new(scenario, START);
        EmulatedWorld {
            now,
            end: now + span(scenario.duration),
            client: Client::new(scenario, now),
            servers: (0..schedulers.len())
                .map(|place| Server::new(scenario, place, START))
                .collect(),
            lives: BTreeMap::new(),
            to_report: Vec::new(),
            is: machine.at(START),
            machine,
            last_number: 0,
            tally: Tally::new(peak(scenario), shares, scenario.profile.time_slice),
            ran: vec![false; schedulers.len()],
            slots: talk::slots(scenario),
            schedulers: outcome.collect(),
            contacts: Vec::new(),
            failed_contacts: 0,
            series: Vec::new(),
            next_sample: 0.0,
            scenario,
        }
    }

    /// Returns the seconds since the run began.
    fn elapsed(&self) -> f64 {
        seconds(self.now) - START
    }

    fn begin(&mut self) {
        let scenario = self.scenario;
        for (place, scheduler) in scenario.schedulers.iter().enumerate() {
            for (job, of) in scheduler.jobs.iter().enumerate() {
                for _ in 0..of.queued {
                    let sent = self.servers[place].queued(scenario, job, seconds(self.now));
                    self.comes(place, sent);
                }
            }
        }
        if !self.is.active {
            self.client.suspend(self.now);
        }
    }

    /// Plays one step of `delta`.
    fn step(&mut self) {
        let step_end = (self.now + span(self.scenario.delta)).min(self.end);
        let before = self.elapsed();
        self.look_who_is_there();
        loop {
            if self.is.on {
                self.decide();
            }
            let next = self.next_event().min(step_end);
            let next = next.max(self.now + span(LEAST_STEP)).min(step_end);
            self.advance(next);
            if self.now >= step_end {
                break;
            }
        }
        let after = self.elapsed();
        if self.is.active {
            self.tally.step(after - before, &self.ran);
        }
        self.ran.fill(false);
        if after >= self.next_sample {
            self.sample();
        }
    }

    fn look_who_is_there(&mut self) {
        let was = self.is.active;
        self.is = self.machine.at(seconds(self.now));
        if was && !self.is.active {
            for number in self.client.suspend(self.now) {
                self.set_runs(number, false);
            }
        }
        if !was && self.is.active {
            self.client.resume();
        }
    }

    /// Makes all contacts and choices that are due at this instant.
    fn decide(&mut self) {
        for _ in 0..MOST_TURNS {
            let talked = self.talk();
            let chosen = match self.client.choose(self.now) {
                Some(schedule) => {
                    for number in &schedule.preempt {
                        self.set_runs(*number, false);
                    }
                    for number in schedule.start.iter().chain(&schedule.resume) {
                        self.set_runs(*number, true);
                    }
                    true
                }
                None => false,
            };
            if !talked && !chosen {
                return;
            }
        }
    }

    fn next_event(&self) -> Time {
        if !self.is.on {
            return Time::NEVER;
        }
        let now = seconds(self.now);
        let scale = self.cpu_scale();
        let ends = self.lives.values().filter_map(|life| {
            let (_, flops) = self.rates(life, scale)?;
            let goal = life.sent.fails_at.unwrap_or(life.sent.work);
            Some(self.now + span((goal - life.done) / flops))
        });
        let arrivals = self.servers.iter().filter_map(|server| {
            let at = server.wakes(self.scenario, now);
            at.is_finite().then(|| self.now + span(at - now))
        });
        let wakes = self.client.wakes(self.is.connected);
        ends.chain(arrivals).fold(wakes, Time::min)
    }

    fn cpu_scale(&self) -> f64 {
        let running = self.lives.values().filter(|life| life.runs);
        cpu_scale(self.scenario.worker.cpus, running.map(|life| &life.version))
    }

    /// Returns the result of [`speeds`] for a running task; `None` if the task does not run.
    fn rates(&self, life: &TaskLife, scale: f64) -> Option<(f64, f64)> {
        let can = life.runs && self.is.active && (self.is.cards || life.version.cards.is_none());
        can.then(|| speeds(self.scenario, &life.version, scale))
    }

    /// Advances time and the running tasks.
    fn advance(&mut self, to: Time) {
        let passed = to.since(self.now).as_secs_f64();
        let scale = self.cpu_scale();
        if self.is.active {
            self.tally.active(passed, self.is.cards);
        }
        let mut ended = Vec::new();
        let numbers: Vec<TaskNumber> = self.lives.keys().copied().collect();
        for number in numbers {
            let life = &self.lives[&number];
            let Some((used, flops)) = self.rates(life, scale) else {
                continue;
            };
            let Some(life) = self.lives.get_mut(&number) else {
                continue;
            };
            life.done += flops * passed;
            life.used += used * passed;
            self.ran[life.scheduler] = true;
            self.tally.used(life.scheduler, used * passed);
            let part = (life.done / life.sent.work).min(1.0);
            self.client.ran(number, passed, part);
            let goal = life.sent.fails_at.unwrap_or(life.sent.work);
            // The tolerance is the work of a nanosecond, because event times are rounded to nanoseconds.
            if life.done >= goal - flops * 1e-9 {
                ended.push((number, life.sent.fails_at.is_none()));
            }
        }
        self.now = to;
        for (number, well) in ended {
            self.ends(number, well);
        }
    }

    fn comes(&mut self, scheduler: usize, sent: Sent) {
        self.last_number += 1;
        let number = TaskNumber(self.last_number);
        let job = &self.scenario.schedulers[scheduler].jobs[sent.job];
        let version = job.versions[sent.version];
        let deadline = sent.deadline.map(|at| Time::ZERO + span(at));
        let arrival = TaskArrival {
            number,
            scheduler,
            job: sent.job,
            version,
            estimate: sent.estimate,
            deadline,
        };
        self.servers[scheduler].has_sent(self.scenario, number.0, &sent);
        self.client.came(self.now, &arrival);
        self.tally.job();
        self.schedulers[scheduler].jobs += 1;
        let life = TaskLife {
            scheduler,
            sent,
            version,
            done: 0.0,
            used: 0.0,
            runs: false,
        };
        self.lives.insert(number, life);
    }

    /// Starts or stops the run of a task on its processors.
    fn set_runs(&mut self, number: TaskNumber, runs: bool) {
        if let Some(life) = self.lives.get_mut(&number) {
            life.runs = runs;
        }
    }

    fn sample(&mut self) {
        let at = self.elapsed();
        self.next_sample = at + self.scenario.duration / SAMPLES;
        let (schedulers, shortfall) = self.client.glance(self.now);
        self.series.push(Sample {
            at,
            schedulers,
            shortfall: shortfall.iter().sum(),
        });
    }

    fn finish(mut self) -> Outcome {
        let now = seconds(self.now);
        for life in self.lives.values() {
            let is_late = life.sent.deadline.is_some_and(|at| at < now);
            self.schedulers[life.scheduler].overdue += u64::from(is_late);
        }
        let used: f64 = self.tally.all_used().iter().sum();
        for (place, scheduler) in self.schedulers.iter_mut().enumerate() {
            scheduler.used = self.tally.all_used()[place];
            scheduler.wasted = self.tally.all_wasted()[place];
            scheduler.got = if used > 0.0 {
                scheduler.used / used
            } else {
                0.0
            };
        }
        Outcome {
            scenario: self.scenario.name.clone(),
            about: self.scenario.about.clone(),
            seed: self.scenario.seed,
            duration: self.scenario.duration,
            figures: self.tally.figures(),
            allowed_idle: oracle::allowed_idle(self.scenario),
            totals: Totals {
                could: self.tally.total(),
                used,
                jobs: self.tally.jobs(),
                contacts: self.tally.contacts(),
                failed_contacts: self.failed_contacts,
            },
            schedulers: self.schedulers,
            contacts: self.contacts,
            series: self.series,
        }
    }
}

#[cfg(test)]
mod tests;
