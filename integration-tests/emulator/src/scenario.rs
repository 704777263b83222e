//! Defines a scenario: one worker, the schedulers that it is attached to, and their jobs.

pub mod problems;
mod toml;

use std::path::Path;

use brasserie_worker_fetch::{Preemption, Profile};
use serde::Serialize;

use crate::availability::OnOff;
use problems::{ScenarioProblem, ScenarioProblems};

/// Start of simulated time in seconds, as in BOINC's simulator.
pub const START: f64 = 3600.0;
/// Maximum size of a scenario file in bytes; real ones are below a megabyte.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of processors of one type, more than any machine has.
const MOST_INSTANCES: u32 = 4096;
/// The name of the CPU's processor type.
const CPU: &str = "CPU";
/// Minimum run time in seconds. Shorter tasks would end more often than the emulator's steps.
const SHORTEST_TASK: f64 = 0.01;
/// Maximum number of tasks at the worker at the start: the most that a worker may have and that it can scan each second.
const MOST_QUEUED: u64 = 10_000;

/// A scenario. Spans are seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// A description of the scenario's purpose.
    pub about: String,
    pub duration: f64,
    /// Time between checks of availability, which is also the longest step.
    pub delta: f64,
    pub seed: u64,
    /// The constants of the policies.
    pub profile: Profile,
    pub worker: Worker,
    pub policy: Policy,
    pub schedulers: Vec<Scheduler>,
    /// The exceptions from the promises.
    pub excuses: Vec<Excuse>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    pub cpus: u32,
    /// Floating point operations per second of one CPU (BOINC's `p_fpops`). Only quotients of it matter.
    pub flops: f64,
    pub cards: Vec<Cards>,
    pub on: OnOff,
    pub active: OnOff,
    pub cards_active: OnOff,
    pub connected: OnOff,
}

/// All GPUs of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Cards {
    pub model: String,
    pub count: u32,
    /// The speed of one GPU relative to a CPU.
    pub speed: f64,
}

/// The policies of the worker and its schedulers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    pub dispatch: Dispatch,
    /// Seconds that a request lingers; only for [`Dispatch::Pull`].
    pub linger: f64,
    pub deadlines: Deadlines,
    pub preemption: Preemption,
    pub server_check: ServerCheck,
    pub supply: JobSupply,
    /// Whether tasks report their progress.
    pub tells_progress: bool,
}

/// How work gets to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// The worker requests as much as it needs.
    Pull,
    /// Schedulers send tasks without requests, as many as there are slots for.
    Push,
}

/// Whether tasks in danger of missing their deadlines go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadlines {
    EarliestFirst,
    /// Only priorities decide.
    Ignored,
}

/// How a scheduler checks whether a task would meet its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCheck {
    /// The scheduler uses the delay that the worker reports.
    EstimatedDelay,
    /// The scheduler simulates its tasks at the worker, in the order of their deadlines.
    Workload,
}

/// Whether schedulers have tasks beyond those at the worker at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSupply {
    AsListed,
    ExistingOnly,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    pub name: String,
    /// The share; 0 if the scheduler only gets what the others leave.
    pub share: f64,
    pub available: OnOff,
    /// Indexes of the processor types for which it says that it has no jobs.
    pub no_jobs_for: Vec<usize>,
    pub max_concurrent: Option<u32>,
    /// Its recent work at the start, in instances.
    pub rec: f64,
    /// The delay in seconds that each of its answers asks for.
    pub request_delay: f64,
    /// Requests within this time in seconds of the last one are deferred; 0 for none.
    pub min_request_interval: f64,
    /// Slots of each type for tasks without requests; `None` for its share of the instances.
    pub slots: Option<u32>,
    pub jobs: Vec<Job>,
}

/// A job with many tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub name: String,
    /// Work of each task, in floating point operations.
    pub work: f64,
    /// Standard deviation of the true work, in operations.
    pub varies: f64,
    pub estimate: Estimate,
    /// Seconds from the sending of a task until it must be reported; `None` for no deadline.
    pub deadline: Option<f64>,
    /// Relative frequency with which it is chosen among the jobs.
    pub weight: f64,
    pub max_concurrent: Option<u32>,
    pub supply: Supply,
    /// Seconds from the start before which the scheduler has no tasks.
    pub after: f64,
    /// Whether its tasks may wait at the worker.
    pub bufferable: bool,
    /// The fraction of its tasks that fail, each at a random point of its run.
    pub fails: f64,
    /// Number of its tasks at the worker at the start.
    pub queued: u32,
    /// The alternative ways to run its tasks.
    pub versions: Vec<Version>,
}

/// The estimate of a task's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimate {
    Unknown,
    /// Drawn for each task from a normal distribution; negative values count as 0. In operations.
    Normal {
        mean: f64,
        deviation: f64,
    },
}

/// The source of a job's tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Supply {
    Endless,
    /// All tasks exist from the start.
    All {
        count: u32,
    },
    /// One task arrives each `mean` seconds on average, `count` in all.
    Every {
        mean: f64,
        count: Option<u32>,
    },
}

/// A way to run a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Version {
    pub cpus: f64,
    /// The index among the worker's GPU models, and the number of GPUs.
    pub cards: Option<(usize, f64)>,
    /// Operations per second.
    pub flops: f64,
}

/// A promise of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioPromise {
    /// Nothing is wasted.
    Wasted,
    /// The idle fraction exceeds the unavoidable one by at most a hundredth.
    Idle,
}

/// An exception from a promise, with the limit that holds instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Excuse {
    pub of: ScenarioPromise,
    pub most: f64,
    pub why: String,
}

impl Version {
    /// Returns the index of the processor type that it counts as; 0 is the CPU.
    pub fn of_type(&self) -> usize {
        self.cards.map_or(0, |(place, _)| place + 1)
    }

    /// Returns the number of instances of that type that it uses.
    pub fn of_its_type(&self) -> f64 {
        self.cards.map_or(self.cpus, |(_, count)| count)
    }
}

impl Worker {
    /// Returns the number of processor types.
    pub fn types(&self) -> usize {
        1 + self.cards.len()
    }

    pub fn type_name(&self, of_type: usize) -> &str {
        let cards = of_type.checked_sub(1).and_then(|at| self.cards.get(at));
        cards.map_or(CPU, |cards| &cards.model)
    }

    pub fn instances(&self, of_type: usize) -> u32 {
        let cards = of_type.checked_sub(1).map(|at| self.cards.get(at));
        cards.map_or(self.cpus, |cards| cards.map_or(0, |cards| cards.count))
    }

    /// Returns the speed of one instance relative to a CPU.
    pub fn speed(&self, of_type: usize) -> f64 {
        let cards = of_type.checked_sub(1).and_then(|at| self.cards.get(at));
        cards.map_or(1.0, |cards| cards.speed)
    }
}

/// Settings of the command line that override those of all scenarios. Spans are seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    pub duration: Option<f64>,
    pub delta: Option<f64>,
    pub seed: Option<u64>,
    pub existing_jobs_only: bool,
    pub server_uses_workload: bool,
    pub cpu_sched_rr_only: bool,
    /// Keeps schedulers without a job that could run.
    pub include_empty_projects: bool,
    pub rec_half_life: Option<f64>,
}

impl Scenario {
    /// Reads a scenario from a `.toml` file. Errors with all mistakes.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Scenario, ScenarioProblems> {
        if path.extension().is_none_or(|it| it != "toml") {
            return Err(ScenarioProblems::one(path, "a scenario is a `.toml` file"));
        }
        let mut scenario = toml::read(path)?;
        scenario.heed(overrides);
        scenario.check(path)?;
        Ok(scenario)
    }

    fn heed(&mut self, overrides: &Overrides) {
        self.duration = overrides.duration.unwrap_or(self.duration);
        self.delta = overrides.delta.unwrap_or(self.delta);
        self.seed = overrides.seed.unwrap_or(self.seed);
        if overrides.existing_jobs_only {
            self.policy.supply = JobSupply::ExistingOnly;
        }
        if overrides.server_uses_workload {
            self.policy.server_check = ServerCheck::Workload;
        }
        if overrides.cpu_sched_rr_only {
            self.policy.deadlines = Deadlines::Ignored;
        }
        let half_life = overrides.rec_half_life;
        self.profile.rec_half_life = half_life.unwrap_or(self.profile.rec_half_life);
        if !overrides.include_empty_projects {
            self.drop_empty();
        }
    }

    /// Removes jobs that could never run, and schedulers without any job left.
    fn drop_empty(&mut self) {
        let worker = &self.worker;
        let can_run = |version: &Version| worker.instances(version.of_type()) > 0;
        for scheduler in &mut self.schedulers {
            scheduler
                .jobs
                .retain(|job| job.versions.iter().any(can_run));
        }
        self.schedulers
            .retain(|scheduler| !scheduler.jobs.is_empty());
    }

    /// Checks conditions that involve several places of the file.
    fn check(&self, path: &Path) -> Result<(), ScenarioProblems> {
        let mut problems = ScenarioProblems::new(path);
        if self.schedulers.is_empty() {
            let text = "no scheduler has a job that could run on this worker";
            problems.add(ScenarioProblem::of_all(text));
        }
        if self.duration / self.delta > 1e7 {
            let text = "more than ten million steps: take a longer `delta` or a shorter `duration`";
            problems.add(ScenarioProblem::of_all(text));
        }
        self.check_jobs(&mut problems);
        problems.none_or(())
    }

    fn check_jobs(&self, problems: &mut ScenarioProblems) {
        let jobs = || self.schedulers.iter().flat_map(|it| &it.jobs);
        let mut means = jobs().filter_map(|job| match job.supply {
            Supply::Every { mean, .. } => Some(mean),
            Supply::Endless | Supply::All { .. } => None,
        });
        if means.any(|mean| self.duration / mean > 1e7) {
            let text = "more than ten million tasks of one job: let them come less often";
            problems.add(ScenarioProblem::of_all(text));
        }
        let shortest = |job: &Job| {
            let versions = job.versions.iter();
            let times = versions.map(|version| job.work / version.flops);
            times.fold(f64::INFINITY, f64::min)
        };
        if jobs().any(|job| shortest(job) < SHORTEST_TASK) {
            let text = format!("tasks that run for less than {SHORTEST_TASK} s");
            problems.add(ScenarioProblem::of_all(&text));
        }
        if jobs().map(|job| u64::from(job.queued)).sum::<u64>() > MOST_QUEUED {
            let text = format!("more than {MOST_QUEUED} tasks are queued");
            problems.add(ScenarioProblem::of_all(&text));
        }
    }
}

/// Reads a file. Errors if it is too large for a scenario.
fn text_of(path: &Path) -> Result<String, ScenarioProblems> {
    let failed =
        |error: std::io::Error| ScenarioProblems::one(path, &format!("cannot be read: {error}"));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_BYTES {
        let text = format!("has {size} bytes; a scenario has {MAX_BYTES} at most");
        return Err(ScenarioProblems::one(path, &text));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Returns the name of a scenario: its file stem.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or("scenario").to_owned()
}

#[cfg(test)]
mod tests;
