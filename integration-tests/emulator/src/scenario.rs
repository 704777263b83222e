//! What is emulated: one worker, the schedulers that it is attached to, and their jobs.

pub mod problems;
mod toml;
mod xml;

use std::path::Path;

use brasserie_worker_core::work_fetch::{Preemption, Profile};
use serde::Serialize;

use crate::availability::OnOff;
use crate::promises::Excuse;
use problems::{Problem, Problems};

/// Where time begins: the volunteers' simulator does so, too.
pub const START: f64 = 3600.0;
/// The largest file of a scenario; real ones are below a megabyte.
const MAX_BYTES: u64 = 16 << 20;
/// Of one type: more than any machine has.
const MOST_INSTANCES: u32 = 4096;
/// What the processors are called that are no cards.
const CPU: &str = "CPU";
/// Shorter tasks would end more often than the emulator looks.
const SHORTEST_TASK: f64 = 0.01;
/// At the worker when it all begins: as many as a worker may have, and as can be looked at each second.
const MOST_QUEUED: u64 = 10_000;

/// What is emulated. Spans are seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// What it shows.
    pub about: String,
    pub duration: f64,
    /// Availability is looked at so often, and no step is longer.
    pub delta: f64,
    pub seed: u64,
    /// The constants of the policies.
    pub profile: Profile,
    pub worker: Worker,
    pub policy: Policy,
    pub schedulers: Vec<Scheduler>,
    /// What is not promised of it as of others; none: nothing is.
    pub excuses: Option<Vec<Excuse>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    pub cpus: u32,
    /// Floating point operations a second of one CPU, `p_fpops`: only quotients of it matter.
    pub flops: f64,
    pub cards: Vec<Cards>,
    pub on: OnOff,
    pub active: OnOff,
    pub cards_active: OnOff,
    pub connected: OnOff,
}

/// All cards of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Cards {
    pub model: String,
    pub count: u32,
    /// What one is worth beside a CPU.
    pub speed: f64,
}

/// How the worker and its schedulers do their parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    pub dispatch: Dispatch,
    /// How long a request stays good; only of [`Dispatch::Pull`].
    pub linger: f64,
    pub deadlines: Deadlines,
    pub preemption: Preemption,
    pub server_check: ServerCheck,
    pub supply: Jobs,
    /// Tasks say how much of them is done.
    pub tells_progress: bool,
}

/// How work gets to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// It asks for as much as it needs.
    Pull,
    /// It is sent as much as it has slots for, unasked.
    Push,
}

/// Whether tasks whose deadlines are in danger go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadlines {
    EarliestFirst,
    /// Priorities alone decide.
    Ignored,
}

/// How a scheduler sees whether a task would make its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCheck {
    /// By the delay that the worker tells.
    EstimatedDelay,
    /// By all tasks of it that the worker has, run by their deadlines.
    Workload,
}

/// Whether schedulers have anything beyond the tasks that are at the worker when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    AsListed,
    ExistingOnly,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    pub name: String,
    /// 0: only what the others leave.
    pub share: f64,
    pub available: OnOff,
    /// Of the types of processors that it says it has no jobs for, the places.
    pub no_jobs_for: Vec<usize>,
    pub max_concurrent: Option<u32>,
    /// What it got lately when it all begins, in instances.
    pub rec: f64,
    /// What each answer asks for.
    pub request_delay: f64,
    /// Requests that come sooner are deferred; 0: none are.
    pub min_request_interval: f64,
    /// What it may send unasked, for each type; none: its part of the instances by the shares.
    pub slots: Option<u32>,
    pub jobs: Vec<Job>,
}

/// What a scheduler has many tasks of.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub name: String,
    /// What each of its tasks takes, in floating point operations.
    pub work: f64,
    /// By so much of it true amounts differ (a standard deviation); 0: they do not.
    pub varies: f64,
    pub estimate: Estimate,
    /// From its sending until it must be reported; none: whenever.
    pub deadline: Option<f64>,
    /// How often it is taken beside the other jobs.
    pub weight: f64,
    pub max_concurrent: Option<u32>,
    pub supply: Supply,
    /// Seconds from the start before which the scheduler has no tasks.
    pub after: f64,
    /// Its tasks may wait at the worker.
    pub bufferable: bool,
    /// The part of its tasks that fail, each somewhere on its way.
    pub fails: f64,
    /// So many are at the worker when it all begins.
    pub queued: u32,
    /// The ways in which it can run.
    pub versions: Vec<Version>,
}

/// What is said of a task's amount of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimate {
    Unknown,
    /// Drawn for each task from a normal distribution; negative ones are 0.
    Normal {
        mean: f64,
        deviation: f64,
    },
}

/// Where tasks come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Supply {
    Endless,
    /// So many are there from the beginning.
    All {
        count: u32,
    },
    /// One comes after so long, on average, `count` in all.
    Every {
        mean: f64,
        count: Option<u32>,
    },
}

/// How a task can run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Version {
    pub cpus: f64,
    /// The place among the worker's cards, and how many of them.
    pub cards: Option<(usize, f64)>,
    /// Operations a second.
    pub flops: f64,
}

impl Version {
    /// The type of processors that it counts as: 0 is the CPU.
    pub fn of_type(&self) -> usize {
        self.cards.map_or(0, |(place, _)| place + 1)
    }

    /// How many of them it uses.
    pub fn of_its_type(&self) -> f64 {
        self.cards.map_or(self.cpus, |(_, count)| count)
    }
}

impl Worker {
    /// How many types of processors it has.
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

    /// What one instance is worth beside one of the CPU.
    pub fn speed(&self, of_type: usize) -> f64 {
        let cards = of_type.checked_sub(1).and_then(|at| self.cards.get(at));
        cards.map_or(1.0, |cards| cards.speed)
    }
}

/// What the command line says of all scenarios; it goes before what they say themselves. Spans are seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    pub duration: Option<f64>,
    pub delta: Option<f64>,
    pub seed: Option<u64>,
    pub existing_jobs_only: bool,
    pub server_uses_workload: bool,
    pub cpu_sched_rr_only: bool,
    /// Schedulers without a job that could run stay.
    pub include_empty_projects: bool,
    pub rec_half_life: Option<f64>,
}

impl Scenario {
    /// Reads a scenario: `.toml` is ours, `.xml` a `client_state.xml`, beside which its other files are looked for. Otherwise all that is
    /// wrong with it.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Scenario, Problems> {
        let is = |extension: &str| path.extension().is_some_and(|it| it == extension);
        let mut scenario = if is("toml") {
            toml::read(path)?
        } else if is("xml") {
            xml::read(path)?
        } else {
            let text = "a scenario is a `.toml` file or a `client_state.xml`";
            return Err(Problems::one(path, text));
        };
        scenario.heed(overrides);
        scenario.check(path)?;
        Ok(scenario)
    }

    fn heed(&mut self, overrides: &Overrides) {
        self.duration = overrides.duration.unwrap_or(self.duration);
        self.delta = overrides.delta.unwrap_or(self.delta);
        self.seed = overrides.seed.unwrap_or(self.seed);
        if overrides.existing_jobs_only {
            self.policy.supply = Jobs::ExistingOnly;
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

    /// Leaves out what could never run, and schedulers of which nothing is left.
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

    /// What cannot be seen in any one place of its files.
    fn check(&self, path: &Path) -> Result<(), Problems> {
        let mut problems = Problems::new(path);
        if self.schedulers.is_empty() {
            let text = "no scheduler has a job that could run on this worker";
            problems.add(Problem::of_all(text));
        }
        if self.duration / self.delta > 1e7 {
            let text = "more than ten million steps: take a longer `delta` or a shorter `duration`";
            problems.add(Problem::of_all(text));
        }
        self.check_jobs(&mut problems);
        problems.none_or(())
    }

    fn check_jobs(&self, problems: &mut Problems) {
        let jobs = || self.schedulers.iter().flat_map(|it| &it.jobs);
        let mut means = jobs().filter_map(|job| match job.supply {
            Supply::Every { mean, .. } => Some(mean),
            Supply::Endless | Supply::All { .. } => None,
        });
        if means.any(|mean| self.duration / mean > 1e7) {
            let text = "more than ten million tasks of one job: let them come less often";
            problems.add(Problem::of_all(text));
        }
        let shortest = |job: &Job| {
            let versions = job.versions.iter();
            let times = versions.map(|version| job.work / version.flops);
            times.fold(f64::INFINITY, f64::min)
        };
        if jobs().any(|job| shortest(job) < SHORTEST_TASK) {
            let text = format!("tasks that run for less than {SHORTEST_TASK} s");
            problems.add(Problem::of_all(&text));
        }
        if let Some(job) = jobs().find(|job| job.queued > 0 && job.versions.is_empty()) {
            let name = &job.name;
            let text = format!("tasks of `{name}` are queued, and no version of it runs here");
            problems.add(Problem::of_all(&text));
        }
        if jobs().map(|job| u64::from(job.queued)).sum::<u64>() > MOST_QUEUED {
            let text = format!("more than {MOST_QUEUED} tasks are queued");
            problems.add(Problem::of_all(&text));
        }
    }
}

/// The text of a file, if it can be one of a scenario.
fn text_of(path: &Path) -> Result<String, Problems> {
    let failed = |error: std::io::Error| Problems::one(path, &format!("cannot be read: {error}"));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_BYTES {
        let text = format!("has {size} bytes; a scenario has {MAX_BYTES} at most");
        return Err(Problems::one(path, &text));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// What a scenario is called: its file, or the folder of a `client_state.xml`.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.unwrap_or("scenario");
    let prefix = stem.strip_suffix("client_state").map(|prefix| {
        let folder = path.parent().and_then(Path::file_name);
        match prefix.trim_end_matches(['_', '-', '.']) {
            "" => folder.and_then(|name| name.to_str()).unwrap_or(stem),
            prefix => prefix,
        }
    });
    prefix.unwrap_or(stem).to_owned()
}

#[cfg(test)]
mod tests;
