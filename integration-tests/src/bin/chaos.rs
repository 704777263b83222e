//! Plays seeds of real clusters under faults, counts the disturbances, and prints the command that replays a failed seed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::{Parser, value_parser};
use integration_tests::chaos::{ChaosSettings, Contain, run};
use integration_tests::e2e::{Programs, play_role};
use integration_tests::output::Printer;

/// Environment variable of the program inside its namespaces.
const INSIDE_VARIABLE: &str = "BRASSERIE_CHAOS_INSIDE";

/// Runs real clusters as processes while programs are killed and stopped, logs stalled, disks filled, unmounted and emptied, links cut,
/// servers flooded and clocks moved. Fails if a task ran twice at once, a durable completion was forgotten, or a program crashed.
///
/// Needs root, for separate mounts and namespaces. Nothing outside these is touched.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct ChaosOptions {
    /// The first seed; each seed is one cluster and takes about a minute
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds to play
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// Play seeds for this many minutes instead
    #[arg(long, conflicts_with = "seeds", value_parser = value_parser!(u64).range(1..=10_000))]
    minutes: Option<u64>,
    /// Workers of each cluster
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u64).range(1..=20))]
    workers: u64,
    /// How workers contain their tasks [default: the workers decide]
    #[arg(long, value_enum)]
    contain: Option<Contain>,
    /// Run scheduler and workers as the user nobody
    #[arg(long)]
    as_user: bool,
    /// Append each step to this file as well
    #[arg(long)]
    log: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(code) = play_role() {
        return code;
    }
    let options = ChaosOptions::parse();
    if !nix::unistd::geteuid().is_root() {
        eprintln!("chaos: must be started by root: it mounts disks and makes namespaces");
        return ExitCode::from(2);
    }
    if std::env::var_os(INSIDE_VARIABLE).is_none() {
        return match in_namespaces() {
            Ok(status) => status.code().map_or(ExitCode::FAILURE, |code| {
                ExitCode::from(u8::try_from(code).unwrap_or(1))
            }),
            Err(error) => {
                eprintln!("chaos: cannot make namespaces of its own with `unshare`: {error}");
                ExitCode::from(2)
            }
        };
    }
    play(&options)
}

/// Runs this program again in namespaces whose processes and mounts end with it. This process remains, because PID 1 of a namespace ignores
/// Ctrl-C.
fn in_namespaces() -> std::io::Result<ExitStatus> {
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "unshare"])
        .args([
            "--mount",
            "--propagation=private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE_VARIABLE, "1")
        .status()
}

/// The totals over all seeds.
#[derive(Default)]
struct ChaosTotal {
    counts: BTreeMap<&'static str, u64>,
    played: u64,
    runs: usize,
    failed: u64,
}

/// The outputs of each step: standard output, and a file if requested.
struct Journal {
    printer: Printer,
    file: Option<File>,
}

impl Journal {
    fn tell(&mut self, seed: u64, text: &str) {
        let line = format!("seed {seed}: {text}\n");
        self.printer.print(&line);
        if let Some(file) = &mut self.file {
            // The verdict does not depend on the file.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

fn play(options: &ChaosOptions) -> ExitCode {
    let open = |path| File::options().create(true).append(true).open(path);
    let file = match options.log.as_ref().map(open).transpose() {
        Ok(file) => file,
        Err(error) => {
            eprintln!("chaos: cannot write the log: {error}");
            return ExitCode::from(2);
        }
    };
    let printer = Printer::default();
    let mut journal = Journal { printer, file };
    let began = Instant::now();
    let mut total = ChaosTotal::default();
    for seed in options.seed.. {
        let is_over = match options.minutes {
            Some(minutes) => began.elapsed() >= Duration::from_secs(minutes * 60),
            None => total.played >= options.seeds,
        };
        if is_over {
            break;
        }
        if let Err(error) = play_seed(options, seed, &mut journal, &mut total) {
            journal.tell(seed, &format!("cannot be played: {error}"));
            return ExitCode::from(2);
        }
    }
    let mut printer = journal.printer;
    for (name, count) in total.counts {
        printer.line(&format!("{count:6} {name}"));
    }
    printer.line(&format!(
        "{} seeds in {:.0} s, {} runs of tasks, {} seeds with violations",
        total.played,
        began.elapsed().as_secs_f64(),
        total.runs,
        total.failed
    ));
    printer.end(match total.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn play_seed(
    options: &ChaosOptions,
    seed: u64,
    journal: &mut Journal,
    total: &mut ChaosTotal,
) -> Result<(), String> {
    let settings = ChaosSettings {
        seed,
        workers: options.workers as usize,
        contain: options.contain,
        as_user: options.as_user,
    };
    let outcome = run(Programs::this_one(), settings, &mut |text| {
        journal.tell(seed, text)
    })?;
    total.played += 1;
    total.runs += outcome.runs;
    for name in outcome.disturbances {
        *total.counts.entry(name).or_default() += 1;
    }
    for violation in &outcome.violations {
        journal.tell(seed, &format!("VIOLATION: {violation}"));
    }
    if let Some(kept) = &outcome.kept {
        total.failed += 1;
        let again = command_line(options, seed);
        journal.tell(
            seed,
            &format!(
                "logs are kept in {}; play it again: {again}",
                kept.display()
            ),
        );
    }
    let seconds = outcome.took.as_secs_f64();
    journal.tell(
        seed,
        &format!("{} runs of tasks in {seconds:.0} s", outcome.runs),
    );
    Ok(())
}

fn command_line(options: &ChaosOptions, seed: u64) -> String {
    let contain = match options.contain {
        None => "",
        Some(Contain::PidNamespace) => " --contain pid-namespace",
        Some(Contain::ProcessGroups) => " --contain process-groups",
    };
    let user = if options.as_user { " --as-user" } else { "" };
    format!(
        "cargo run --release -p integration-tests --bin chaos -- --seed {seed} --workers {}{contain}{user}",
        options.workers
    )
}
