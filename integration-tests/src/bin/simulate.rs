//! Plays thousands of seeds of the simulated cluster, and gives the one command that replays a seed that breaks a law.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use integration_tests_sim::coverage::Coverage;
use integration_tests_sim::event_log::FaultKind;
use integration_tests_sim::run::{Judges, Outcome, Record, Settings, run_seed};
use integration_tests_sim::view::Contract;

/// Plays clusters of the real cores under faults, and holds them to their laws.
#[derive(Debug, Parser)]
#[command(name = "simulate")]
struct Options {
    /// How many seeds to play
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Play seeds for so long instead
    #[arg(long)]
    minutes: Option<u64>,
    /// Play this one only
    #[arg(long)]
    seed: Option<u64>,
    /// Print what happens, one line each
    #[arg(long, requires = "seed")]
    trace: bool,
    /// One thread per processor unless told otherwise
    #[arg(long)]
    threads: Option<usize>,
    /// Stop at the first broken law
    #[arg(long)]
    fail_fast: bool,
    /// Measure without laws
    #[arg(long)]
    no_laws: bool,
    /// Leave this law out, to look past it
    #[arg(long)]
    without: Vec<String>,
}

thread_local! {
    /// For the message of a panic, which ends the program.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// All outcomes together.
struct Total {
    seeds: u64,
    virtual_time: Duration,
    core_events: u64,
    faults: BTreeMap<FaultKind, u64>,
    coverage: Coverage,
    obedience: u64,
    broken: Vec<(u64, String)>,
}

impl Total {
    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.virtual_time += outcome.virtual_time;
        self.core_events += outcome.core_events;
        self.obedience += u64::from(outcome.contract == Contract::Obedience);
        self.coverage.merge(&outcome.coverage);
        for (kind, count) in outcome.faults {
            *self.faults.entry(kind).or_insert(0) += count;
        }
        for broken in outcome.violations {
            let secs = broken.at.as_nanos() as f64 / 1e9;
            let text = format!("at {secs:.3} s: {}", broken.violation);
            self.broken.push((outcome.seed, text));
        }
    }

    fn print(&self, took: Duration) {
        let hours = self.virtual_time.as_secs_f64() / 3600.0;
        let secs = took.as_secs_f64();
        println!(
            "{} seeds, {hours:.0} virtual hours in {secs:.1} s: {:.0} times real time; {} core events, {:.0} a second",
            self.seeds,
            self.virtual_time.as_secs_f64() / secs,
            self.core_events,
            self.core_events as f64 / secs,
        );
        println!(
            "{} of the seeds had a second scheduler on a copied directory and were held to obedience alone",
            self.obedience
        );
        println!("\nfaults");
        for (kind, count) in &self.faults {
            println!("  {count:>10}  {kind:?}");
        }
        for (title, branches) in self.coverage.table() {
            println!("\n{title}");
            for (branch, count) in branches {
                println!("  {count:>10}  {branch}");
            }
        }
        for (seed, what) in &self.broken {
            println!(
                "\nseed {seed} breaks a law {what}\n  replay: {}",
                replay(*seed)
            );
        }
    }
}

fn replay(seed: u64) -> String {
    format!("cargo run --release -p integration-tests --bin simulate -- --seed {seed} --trace")
}

fn main() -> ExitCode {
    let options = Options::parse();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let seed = SEED.get();
        eprintln!("seed {seed} panics; replay: {}", replay(seed));
        usual(info);
    }));
    let settings = Settings {
        judges: if options.no_laws {
            Judges::None
        } else {
            Judges::AllBut(options.without.clone())
        },
        record: if options.trace {
            Record::Trace
        } else {
            Record::Nothing
        },
    };
    let started = Instant::now();
    let total = match options.seed {
        Some(seed) => play_one(seed, &settings),
        None => play_many(&options, &settings),
    };
    total.print(started.elapsed());
    if total.broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn empty() -> Total {
    Total {
        seeds: 0,
        virtual_time: Duration::ZERO,
        core_events: 0,
        faults: BTreeMap::new(),
        coverage: Coverage::new(false),
        obedience: 0,
        broken: Vec::new(),
    }
}

fn play_one(seed: u64, settings: &Settings) -> Total {
    SEED.set(seed);
    let mut total = empty();
    total.add(run_seed(seed, settings, &mut |line| println!("{line}")));
    total
}

fn play_many(options: &Options, settings: &Settings) -> Total {
    let seeds = match options.minutes {
        Some(_) => u64::MAX - options.first_seed,
        None => options.seeds,
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
    let total = Mutex::new(empty());
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
                    let outcome = run_seed(seed, settings, &mut |_| ());
                    if !outcome.violations.is_empty() {
                        bar.println(format!("seed {seed} breaks a law"));
                        stop.fetch_or(options.fail_fast, Ordering::Relaxed);
                    }
                    total
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(outcome);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn bar(options: &Options) -> ProgressBar {
    let bar = match options.minutes {
        Some(_) => ProgressBar::new_spinner(),
        None => ProgressBar::new(options.seeds),
    };
    let style = ProgressStyle::with_template("{bar:30} {pos} seeds, {per_sec}, {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style)
}
