//! Plays thousands of seeds of the simulated cluster, and prints the command that replays a seed that breaks a law.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use integration_tests::output::Printer;
use integration_tests::sabotage;
use integration_tests_sim::laws::Laws;
use integration_tests_sim::report::{OutcomeTotal, replay};
use integration_tests_sim::run::{HistoryOutput, Judges, SeedSettings, run_seed};
use integration_tests_sim::swarm::{ArtifactWorlds, Fetchers};

/// Default number of seeds: a few seconds.
const USUAL_SEEDS: u64 = 200;
/// Default number of seeds for each bug. The rarest of the bugs shows in one seed of sixty.
const SABOTAGE_SEEDS: u64 = 1000;
/// Maximum of the first seed, and of the number of seeds, because their sum is a seed too.
const MOST_SEEDS: u64 = u64::MAX / 2;
/// Maximum threads, more than any machine has processors; each takes a stack.
const MOST_THREADS: u64 = 1024;
/// Maximum minutes: a year.
const MOST_MINUTES: u64 = 366 * 24 * 60;

/// Plays clusters of the real cores under faults, and checks them against their laws.
#[derive(Debug, Parser)]
#[command(name = "simulate")]
struct SimulateOptions {
    /// Number of seeds to play; with `--sabotage` the maximum for each bug [default: 200, with `--sabotage` 1000]
    #[arg(long, value_parser = value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(..=MOST_SEEDS))]
    first_seed: u64,
    /// Play seeds for this many minutes instead
    #[arg(long, conflicts_with_all = ["seeds", "sabotage"], value_parser = value_parser!(u64).range(1..=MOST_MINUTES))]
    minutes: Option<u64>,
    /// Play only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Print each event, one a line
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Number of threads [default: one per processor]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_THREADS))]
    threads: Option<usize>,
    /// Stop at the first broken law
    #[arg(long)]
    fail_fast: bool,
    /// Check no laws, to measure the speed
    #[arg(long, conflicts_with_all = ["without", "sabotage"])]
    no_laws: bool,
    /// Inject this bug, or `all` in turn, and report which law catches it within `--seeds` seeds
    #[arg(long)]
    sabotage: Option<String>,
    /// Runs in which workers fetch work
    #[arg(long, value_enum, default_value_t = WorkFetch::Mixed)]
    work_fetch: WorkFetch,
    /// Runs in which tasks have artifacts
    #[arg(long, value_enum, default_value_t = Artifacts::Mixed)]
    artifacts: Artifacts,
    /// Do not check this law, to find what else breaks
    #[arg(long, value_name = "LAW", value_parser = law, conflicts_with = "sabotage")]
    without: Vec<String>,
}

/// The runs in which workers fetch work.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WorkFetch {
    /// All runs, by at least some of their workers
    Always,
    /// No run: histories are those of a cluster without work fetch
    Never,
    /// Some runs
    Mixed,
}

impl From<WorkFetch> for Fetchers {
    fn from(chosen: WorkFetch) -> Self {
        match chosen {
            WorkFetch::Always => Fetchers::Always,
            WorkFetch::Never => Fetchers::Never,
            WorkFetch::Mixed => Fetchers::Mixed,
        }
    }
}

/// The runs in which tasks have artifacts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Artifacts {
    /// All runs
    Always,
    /// No run: histories are those of a cluster without artifacts
    Never,
    /// Some runs
    Mixed,
}

impl From<Artifacts> for ArtifactWorlds {
    fn from(chosen: Artifacts) -> Self {
        match chosen {
            Artifacts::Always => ArtifactWorlds::Always,
            Artifacts::Never => ArtifactWorlds::Never,
            Artifacts::Mixed => ArtifactWorlds::Mixed,
        }
    }
}

/// Parses the name of an existing law.
fn law(name: &str) -> Result<String, String> {
    let laws = Laws::all();
    let known: Vec<&str> = laws.statements().map(|(name, _)| name).collect();
    match known.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "no law is called so; there are {}",
            known.join(", ")
        )),
    }
}

thread_local! {
    /// The current seed, for the message of a panic, which ends the program.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

fn main() -> ExitCode {
    let options = SimulateOptions::parse();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let seed = SEED.get();
        eprintln!("seed {seed} panics; replay: {}", replay(seed));
        usual(info);
    }));
    let settings = SeedSettings {
        judges: if options.no_laws {
            Judges::None
        } else {
            Judges::AllBut(options.without.clone())
        },
        record: if options.trace {
            HistoryOutput::Trace
        } else {
            HistoryOutput::Nothing
        },
        fetchers: options.work_fetch.into(),
        artifacts: options.artifacts.into(),
    };
    let mut printer = Printer::default();
    let verdict = play(&options, &settings, &mut printer);
    printer.end(verdict)
}

fn play(options: &SimulateOptions, settings: &SeedSettings, printer: &mut Printer) -> ExitCode {
    if let Some(name) = &options.sabotage {
        let seeds = options.seeds.unwrap_or(SABOTAGE_SEEDS);
        let seeds = options.first_seed..options.first_seed + seeds;
        return match options.seed {
            Some(seed) => sabotage::replay(name, seed, settings, printer),
            None => sabotage::table(name, seeds, printer),
        };
    }
    let started = Instant::now();
    let total = match options.seed {
        Some(seed) => play_one(seed, settings, printer),
        None => play_many(options, settings),
    };
    printer.print(&total.text(started.elapsed()));
    if total.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn play_one(seed: u64, settings: &SeedSettings, printer: &mut Printer) -> OutcomeTotal {
    SEED.set(seed);
    let mut total = OutcomeTotal::default();
    let started = Instant::now();
    let outcome = run_seed(seed, settings, &mut |line| printer.line(line));
    total.add(outcome, started.elapsed());
    total
}

fn play_many(options: &SimulateOptions, settings: &SeedSettings) -> OutcomeTotal {
    let seeds = match options.minutes {
        Some(_) => u64::MAX - options.first_seed,
        None => options.seeds.unwrap_or(USUAL_SEEDS),
    };
    let until = options
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let threads = options
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1);
    let bar = bar(options);
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(OutcomeTotal::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let over = until.is_some_and(|until| Instant::now() >= until);
                    if number >= seeds || over || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let seed = options.first_seed + number;
                    SEED.set(seed);
                    let started = Instant::now();
                    let outcome = run_seed(seed, settings, &mut |_| ());
                    let took = started.elapsed();
                    if !outcome.violations.is_empty() {
                        bar.println(format!("seed {seed} breaks a law"));
                        stop.fetch_or(options.fail_fast, Ordering::Relaxed);
                    }
                    total
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(outcome, took);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn bar(options: &SimulateOptions) -> ProgressBar {
    let bar = match options.minutes {
        Some(_) => ProgressBar::new_spinner(),
        None => ProgressBar::new(options.seeds.unwrap_or(USUAL_SEEDS)),
    };
    let style = ProgressStyle::with_template("{bar:30} {pos} seeds, {per_sec}, {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style)
}
