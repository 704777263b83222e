//! The command line of the emulator: plays scenarios of work fetch and prints their figures of merit.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail};
use brasserie_common::time::parse_duration;
use brasserie_emulator::matrix::{self, Cell, Variant};
use brasserie_emulator::outcome::Outcome;
use brasserie_emulator::output::{self, text};
use brasserie_emulator::promises;
use brasserie_emulator::run::run;
use brasserie_emulator::scenario::{Dispatch, Overrides, Scenario};
use brasserie_emulator::storm::{self, RequestWait, Storm};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, value_parser};
use indicatif::{ProgressBar, ProgressStyle};

/// The folder of the repository's scenarios, relative to its root.
const SCENARIOS: &str = "integration-tests/emulator/scenarios";
/// The same folder at the place where this program was built.
const BUILT_WITH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");

// Each paragraph is one line of this text, because the help wraps lines at the terminal's width.
const LEARN: &str = concat!(
    "A scenario is a `.toml` file of this form:\n\n",
    r#"    about = "Two schedulers that share four CPUs one to three."
    duration = "3h"            # simulated; a number is seconds
    delta = "10s"              # availability is looked at so often
    profile = "cluster"        # the constants of the policies, or: "volunteer"

    [worker]
    cpus = 4
    on = { part = 0.9, mean = "1h" }       # also: active, cards_active, connected
    [[worker.cards]]
    model = "A100"
    count = 1
    speed = 10                             # of a CPU

    [policy]                               # also each constant of the profile
    dispatch = "pull"                      # or: "push"
    linger = "0s"
    edf = true
    preemption = "off"                     # or: "suspend"

    [[scheduler]]
    name = "one"
    share = 25
    available = { part = 0.7, mean = "1000s" }
    [[scheduler.job]]
    name = "frames"
    runs = "45s"                           # in truth
    estimate = { factor = 2, spread = "5s" }   # what is said of it, or: "unknown"
    deadline = "10m"                       # from its sending
    every = "30s"                          # one comes so often; without it: no end of them

"#,
    "Results go below the folder of --out, for each scenario: results.txt, results.json, results.dat (the one line of ",
    "the volunteers' simulator), series.csv and contacts.csv; beside them summary.txt, a line for each.\n\n",
    "Exit codes: 0 all was played, 1 a scenario is wrong, something could not be written, or the matrix found a promise ",
    "broken (see the README), 2 the command line is wrong."
);

/// Maximum span on the command line, in seconds.
const TEN_YEARS: f64 = 3.2e8;
/// Minimum of steps and durations, in seconds.
const STEP: f64 = 0.01;
const MOST_WORKERS: u64 = 100_000;

/// Plays scenarios of work fetch with the worker's own policies in simulated time, and prints their figures of merit.
#[derive(Debug, Parser)]
#[command(name = "emulate", after_long_help = LEARN)]
struct EmulateOptions {
    #[command(subcommand)]
    command: EmulateCommand,
}

#[derive(Debug, Subcommand)]
enum EmulateCommand {
    /// Play scenarios as they are
    #[command(after_long_help = LEARN)]
    Run(RunOptions),
    /// Play scenarios in all variants (pull and push, with and without lingering, EDF and suspending), print them side by side, and check
    /// their promises
    Matrix(MatrixOptions),
    /// Check whether scenarios are valid, and print all their mistakes
    Check {
        /// `.toml` files
        #[arg(required = true)]
        scenarios: Vec<PathBuf>,
    },
    /// Take a scheduler away from many workers, and measure their requests after its return
    Storm(StormOptions),
}

#[derive(Debug, Args)]
struct RunOptions {
    /// `.toml` files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Write all results below this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long)]
    json: bool,
    /// Send tasks without requests, as many as there are slots for
    #[arg(long, conflicts_with = "linger")]
    push: bool,
    /// How long a request lingers at its scheduler: `2m`
    #[arg(long, value_parser = span(0.0))]
    linger: Option<f64>,
    #[command(flatten)]
    overrides: OverrideOptions,
}

#[derive(Debug, Args)]
struct MatrixOptions {
    /// `.toml` files; by default all scenarios of the repository, if the program runs in a clone of it or where it was built
    scenarios: Vec<PathBuf>,
    /// Write all results below this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: OverrideOptions,
}

/// Options that override settings of the scenarios.
#[derive(Debug, Args)]
struct OverrideOptions {
    /// Simulated time: `90s`, `5m`, `2h`, `1d`; a number is seconds
    #[arg(long, value_parser = span(STEP))]
    duration: Option<f64>,
    /// Maximum length of a step: `10s`
    #[arg(long, value_parser = span(STEP))]
    delta: Option<f64>,
    /// Seed of the random numbers: the same seed gives the same results
    #[arg(long)]
    seed: Option<u64>,
    /// Give schedulers no tasks beyond those that are queued at the worker
    #[arg(long)]
    existing_jobs_only: bool,
    /// Let schedulers check deadlines against the worker's tasks, not against the delay that it reports
    #[arg(long)]
    server_uses_workload: bool,
    /// Ignore deadlines when choosing the running tasks
    #[arg(long)]
    cpu_sched_rr_only: bool,
    /// Keep schedulers without a job that could run
    #[arg(long)]
    include_empty_projects: bool,
    /// Half-life of the memory of the work that schedulers received: `12h`, `10d`; a number is days
    #[arg(long, value_parser = half_life)]
    rec_half_life: Option<f64>,
}

#[derive(Debug, Args)]
struct StormOptions {
    /// Number of workers
    #[arg(long, default_value_t = 1000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_WORKERS))]
    workers: usize,
    /// How long the scheduler is away
    #[arg(long, value_parser = span(0.0), default_value = "10m")]
    outage: f64,
    /// Number of requests that the scheduler serves in a second
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..))]
    rate_limit: u32,
    /// Delay before the workers that it does not serve ask again
    #[arg(long, value_parser = span(0.0), default_value = "10s")]
    defer: f64,
    /// How long tasks run
    #[arg(long, value_parser = span(1.0), default_value = "5m")]
    task: f64,
    /// The wait between requests of workers with a fixed retry
    #[arg(long, value_parser = span(0.1), default_value = "5s")]
    fixed_retry: f64,
    /// Seed of the random numbers: the same seed gives the same results
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write storm.txt, storm.json and storm.csv into this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long)]
    json: bool,
}

/// Returns a parser of spans of at least `least` seconds.
fn span(least: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match parse_duration(text) {
        Ok(span) => within(least, span.as_secs_f64()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a half-life like BOINC's simulator: a plain number is days.
fn half_life(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(days) => within(STEP, days * 86_400.0),
        Err(_) => span(STEP)(text),
    }
}

fn within(least: f64, seconds: f64) -> Result<f64, String> {
    match (least..=TEN_YEARS).contains(&seconds) {
        true => Ok(seconds),
        false => Err(format!("must be {least} s at least and ten years at most")),
    }
}

fn main() -> ExitCode {
    let done = match EmulateOptions::parse().command {
        EmulateCommand::Run(options) => play(&options),
        EmulateCommand::Matrix(options) => play_matrix(&options),
        EmulateCommand::Check { scenarios } => check(&scenarios),
        EmulateCommand::Storm(options) => play_storm(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed too; the exit code still reports the failure.
            let _ = writeln!(io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

impl OverrideOptions {
    fn overrides(&self) -> Overrides {
        Overrides {
            duration: self.duration,
            delta: self.delta,
            seed: self.seed,
            existing_jobs_only: self.existing_jobs_only,
            server_uses_workload: self.server_uses_workload,
            cpu_sched_rr_only: self.cpu_sched_rr_only,
            include_empty_projects: self.include_empty_projects,
            rec_half_life: self.rec_half_life,
        }
    }
}

/// Reads all scenarios. Errors with all mistakes of all files.
fn read(paths: &[PathBuf], overrides: &Overrides) -> anyhow::Result<Vec<Scenario>> {
    let mut read: Vec<Scenario> = Vec::new();
    let mut wrong = String::new();
    for path in paths {
        match Scenario::read(path, overrides) {
            Ok(scenario) if read.iter().any(|other| other.name == scenario.name) => {
                wrong += &format!("{}: another is called so, too\n", path.display());
            }
            Ok(scenario) => read.push(scenario),
            Err(problems) => wrong += &problems.to_string(),
        }
    }
    match wrong.is_empty() {
        true => Ok(read),
        false => bail!("{}", wrong.trim_end()),
    }
}

fn check(paths: &[PathBuf]) -> anyhow::Result<()> {
    let right = read(paths, &Overrides::default())?;
    let lines: String = right
        .iter()
        .map(|it| format!("{}: right\n", it.name))
        .collect();
    print(&lines)
}

fn print(text: &str) -> anyhow::Result<()> {
    output::print(text).context("standard output: cannot be written")
}

fn play(options: &RunOptions) -> anyhow::Result<()> {
    let mut scenarios = read(&options.scenarios, &options.overrides.overrides())?;
    for scenario in &mut scenarios {
        if options.push {
            scenario.policy.dispatch = Dispatch::Push;
        }
        if let Some(linger) = options.linger {
            scenario.policy.dispatch = Dispatch::Pull;
            scenario.policy.linger = linger;
        }
    }
    let outcomes = play_all(&scenarios);
    let width = scenarios.iter().map(|it| it.name.chars().count()).max();
    let width = width.unwrap_or(0).max("scenario".len());
    let mut summary = text::summary_head(width);
    for outcome in &outcomes {
        summary += &text::summary_row(&outcome.scenario, outcome, width);
    }
    if let Some(out) = &options.out {
        for outcome in &outcomes {
            let folder = out.join(&outcome.scenario);
            output::write(&folder, outcome).with_context(|| writing(&folder))?;
        }
        write(out, "summary.txt", &summary)?;
    }
    match (options.json, outcomes.as_slice()) {
        (true, all) => print(&output::json(all)?),
        (false, [one]) => print(&text::results(one)),
        (false, _) => print(&summary),
    }
}

fn play_matrix(options: &MatrixOptions) -> anyhow::Result<()> {
    let paths = match options.scenarios.is_empty() {
        true => all_of(&own_scenarios()?)?,
        false => options.scenarios.clone(),
    };
    let scenarios = read(&paths, &options.overrides.overrides())?;
    let variants = Variant::all();
    let each = |scenario: &Scenario| -> Vec<Scenario> {
        variants.iter().map(|it| it.of(scenario)).collect()
    };
    let all: Vec<Scenario> = scenarios.iter().flat_map(each).collect();
    let outcomes = play_all(&all);
    let overrides = &options.overrides;
    // A shortened scenario, or one with another seed, is a different one, so no promise applies.
    let is_whole = overrides.duration.is_none() && overrides.seed.is_none();
    let kept = all
        .iter()
        .filter(|_| is_whole)
        .zip(&outcomes)
        .zip(variants.iter().cycle());
    let broken: Vec<String> = kept
        .flat_map(|((scenario, outcome), variant)| {
            let broken = promises::broken(scenario, outcome).into_iter();
            broken.map(move |what| format!("{variant}: {what}"))
        })
        .collect();
    let outcomes = outcomes.into_iter();
    let cells: Vec<Cell> = outcomes
        .zip(variants.iter().cycle())
        .map(|(outcome, variant)| Cell {
            variant: *variant,
            outcome,
        })
        .collect();
    let table = matrix::table(&cells);
    let json = output::json(&cells)?;
    if let Some(out) = &options.out {
        for cell in cells.iter().filter(|cell| cell.variant == Variant::USUAL) {
            let folder = out.join(&cell.outcome.scenario);
            output::write(&folder, &cell.outcome).with_context(|| writing(&folder))?;
        }
        write(out, "summary.txt", &table)?;
        write(out, "matrix.json", &json)?;
    }
    print(if options.json { &json } else { &table })?;
    if !broken.is_empty() {
        bail!("promises were broken:\n{}", broken.join("\n"));
    }
    Ok(())
}

/// Returns the folder of the repository's scenarios: that of the current directory's repository, else that of the build.
fn own_scenarios() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut folders = here
        .ancestors()
        .map(|folder| folder.join(SCENARIOS))
        .chain([PathBuf::from(BUILT_WITH)]);
    let found = folders.find(|folder| folder.is_dir());
    found.with_context(|| {
        format!("no scenario is given, and there is no {SCENARIOS} here or in a folder above: name scenarios, or run this in a clone of the repository")
    })
}

/// Returns the scenarios below a folder, sorted by path.
fn all_of(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let failed = || format!("{}: the scenarios cannot be listed", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.extension().is_some_and(|it| it == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        bail!("{}: there is no scenario", folder.display());
    }
    Ok(paths)
}

/// Plays all scenarios on all processors. The outcomes are in the order of the scenarios.
fn play_all(scenarios: &[Scenario]) -> Vec<Outcome> {
    const PARTS: f64 = 1000.0;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = ProgressBar::new(scenarios.len() as u64 * PARTS as u64);
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {elapsed}, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(scenarios.len()) {
            scope.spawn(|| {
                while let Some((at, scenario)) = take(&next, scenarios) {
                    bar.set_message(scenario.name.clone());
                    let mut told = 0;
                    let outcome = run(scenario, &mut |part| {
                        let parts = (part * PARTS) as u64;
                        bar.inc(parts.saturating_sub(told));
                        told = told.max(parts);
                    });
                    let mut done = done.lock().unwrap_or_else(|poison| poison.into_inner());
                    done.push((at, outcome));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'a>(next: &AtomicUsize, scenarios: &'a [Scenario]) -> Option<(usize, &'a Scenario)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, scenarios.get(at)?))
}

fn play_storm(options: &StormOptions) -> anyhow::Result<()> {
    let storm = Storm {
        workers: options.workers,
        outage: options.outage,
        rate_limit: options.rate_limit,
        defer: options.defer,
        task: options.task,
        fixed_retry: options.fixed_retry,
        seed: options.seed,
        ..Storm::default()
    };
    let bar = ProgressBar::new(RequestWait::ALL.len() as u64);
    let outcomes = RequestWait::ALL.map(|waiting| {
        let outcome = storm::play(&storm, waiting);
        bar.inc(1);
        outcome
    });
    bar.finish_and_clear();
    let table = storm::table(&storm, &outcomes);
    let json = output::json(outcomes.as_slice())?;
    if let Some(out) = &options.out {
        fs::create_dir_all(out).with_context(|| writing(out))?;
        write(out, "storm.txt", &table)?;
        write(out, "storm.json", &json)?;
        write(out, "storm.csv", &storm::rates_csv(&outcomes))?;
    }
    print(if options.json { &json } else { &table })
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| writing(&path))
}

fn writing(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}
