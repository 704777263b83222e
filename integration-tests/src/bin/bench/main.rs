//! Measures the promises of the project, each figure with a baseline of the same run, so that machines can be compared.

mod fetch;
mod figures;
mod jobs;
mod logs;
mod memory;
mod nodes;
mod noop;
mod restart;
mod rpc;
mod schedule;
mod shares;
mod spawn;
mod statuses;
mod submit;
mod usage;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use figures::Report;
use integration_tests::e2e::play_role;
use serde_json::Value;

/// The same allocator as the scheduler's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Benchmarks with their baselines.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Options {
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
    /// Calls of one measurement of `rpc`
    #[arg(long, default_value_t = 1_000_000)]
    calls: usize,
    /// Concurrent calls in `rpc`
    #[arg(long, default_value_t = 512)]
    pipelined: usize,
    /// Tasks of one measurement of `spawn`
    #[arg(long, default_value_t = 20_000)]
    tasks: usize,
    /// Tasks of one measurement of `noop`
    #[arg(long, default_value_t = 200_000)]
    noops: usize,
    /// Sleeping tasks in `memory`
    #[arg(long, default_value_t = 10_000)]
    sleeping: usize,
    /// Waiting tasks in `memory`
    #[arg(long, default_value_t = 100_000)]
    waiting: usize,
    /// Number of pairs of measurement and baseline; the median counts
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Workers of `restart`
    #[arg(long, default_value_t = 50)]
    workers: usize,
    /// Restarts of each kind in `restart`
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Submissions of `submit`
    #[arg(long, default_value_t = 1000)]
    submissions: usize,
    /// Waiting jobs in `jobs`
    #[arg(long, default_value_t = 30_000)]
    jobs: usize,
    /// Nodes of `nodes`
    #[arg(long, default_value_t = 1_000_000)]
    nodes: usize,
    /// Lines of one measurement of `logs`
    #[arg(long, default_value_t = 10_000_000)]
    lines: usize,
    /// Stored statuses in `statuses`
    #[arg(long, default_value_t = 1_000_000)]
    statuses: usize,
    /// Completions of missing nodes in `retention`
    #[arg(long, default_value_t = 2_000_000)]
    missing: usize,
    /// Seconds of one measurement of `fetch`
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Size of `schedule`
    #[arg(long, value_enum, default_value_t = schedule::Scale::Usual)]
    scale: schedule::Scale,
    /// Run only these parts of `schedule`
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<schedule::Part>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Returns whether every size is above zero.
    fn are_usable(&self) -> bool {
        let sizes = [
            self.calls,
            self.pipelined,
            self.tasks,
            self.noops,
            self.sleeping,
            self.waiting,
            self.pairs,
            self.workers,
            self.rounds,
            self.submissions,
            self.lines,
        ];
        !sizes.contains(&0)
            && self.seconds > 0
            && self.jobs >= jobs::LEAST
            && self.nodes >= nodes::LEAST
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Small pipelined calls a second on one connection; baseline: an echo of the same bytes over bare TCP
    Rpc,
    /// Tasks a second through scheduler and worker with two slots; baseline: a bare posix_spawn loop with two children
    Spawn,
    /// Tasks a second through scheduler and worker with 1,000 slots, on a runner that starts no process
    Noop,
    /// Memory of ten thousand tasks that sleep on four workers, and of a hundred thousand waiting tasks
    Memory,
    /// Time from the start of a killed scheduler to the end of its initial wait, with its directory and with an empty one
    Restart,
    /// The engine alone: an event, a whole pass, the use of slots, memory, answers; baseline: a scheduler that scans everything
    Schedule,
    /// Time from a submission to the first write of its process on an idle cluster; baseline: a sync and a bare start of the same process
    Submit,
    /// Tens of thousands of waiting jobs in a real scheduler: the cost of adding them, of one more, of waiting and of answers
    Jobs,
    /// A million nodes in a real scheduler: a job on all of them, and as many new ones
    Nodes,
    /// Restart with a million statuses
    Statuses,
    /// Disk and memory before and after completions of missing nodes and a job's history are deleted
    Retention,
    /// Lines a second of one task into the worker's log and into a compressed file; baseline: `cat` into a file
    Logs,
    /// A pull worker compared with a push worker: tasks a second, delays, idle processors, calls
    Fetch,
    /// Usage of one worker by two schedulers compared with their shares, also when one of them is down for a while
    Shares,
    All,
}

/// The result of one benchmark.
struct Outcome {
    name: &'static str,
    unit: &'static str,
    pairs: Vec<Pair>,
    /// The promised minimum.
    least_rate: f64,
}

/// A measurement and its baseline, each in `unit`s a second.
#[derive(Clone, Copy, Debug)]
struct Pair {
    rate: f64,
    baseline: f64,
}

impl Outcome {
    fn rate(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.rate))
    }

    fn baseline(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.baseline))
    }

    /// Returns the median ratio. The ratio is computed for each pair, because a temporary disturbance of the machine affects both halves.
    fn ratio(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.rate / pair.baseline))
    }

    fn is_kept(&self) -> bool {
        self.rate() >= self.least_rate
    }

    fn row(&self) -> String {
        let verdict = if self.is_kept() { "kept" } else { "NOT KEPT" };
        format!(
            "{:<7}{:>12.0}{:>12.0}{:>8.3}  at least {:.0} {}/s: {verdict}",
            self.name,
            self.rate(),
            self.baseline(),
            self.ratio(),
            self.least_rate,
            self.unit,
        )
    }

    fn json(&self) -> Value {
        let pairs: Vec<Value> = self
            .pairs
            .iter()
            .map(|pair| serde_json::json!({ "rate": pair.rate, "baseline": pair.baseline }))
            .collect();
        serde_json::json!({
            "name": self.name, "unit": format!("{}/s", self.unit), "rate": self.rate(), "baseline": self.baseline(),
            "ratio": self.ratio(), "least_rate": self.least_rate, "kept": self.is_kept(), "pairs": pairs,
        })
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> ExitCode {
    if let Some(code) = noop::play_worker() {
        return code;
    }
    if let Some(code) = play_role() {
        return code;
    }
    let options = Options::parse();
    if !options.are_usable() {
        eprintln!(
            "bench: --calls, --pipelined, --tasks, --noops, --sleeping, --waiting, --pairs, --workers, --rounds, --submissions, --lines and --seconds must be at least 1, --jobs and --nodes at least 1000"
        );
        return ExitCode::from(2);
    }
    let mut outcomes = Vec::new();
    if matches!(options.which, Which::Rpc | Which::All) {
        outcomes.push(rpc::measure(
            options.calls,
            options.pipelined,
            options.pairs,
        ));
    }
    let restart = matches!(options.which, Which::Restart | Which::All)
        .then(|| restart::measure(options.workers, options.rounds));
    let reports = reports(&options);
    show(options.json, &outcomes, restart.as_ref(), &reports);
    let is_kept = outcomes.iter().all(Outcome::is_kept)
        && restart.is_none_or(|report| report.is_kept())
        && reports.iter().all(Report::is_kept);
    if is_kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn reports(options: &Options) -> Vec<Report> {
    let mut reports = Vec::new();
    if matches!(options.which, Which::Memory | Which::All) {
        reports.push(memory::measure(options.sleeping, options.waiting));
    }
    if matches!(options.which, Which::Spawn | Which::All) {
        reports.push(spawn::measure(options.tasks, options.pairs));
    }
    if matches!(options.which, Which::Noop | Which::All) {
        reports.push(noop::measure(options.noops, options.pairs));
    }
    if matches!(options.which, Which::Schedule | Which::All) {
        reports.push(schedule::measure(options.scale, &options.parts));
    }
    if matches!(options.which, Which::Submit | Which::All) {
        reports.push(submit::measure(options.submissions));
    }
    if matches!(options.which, Which::Jobs | Which::All) {
        reports.push(jobs::measure(options.jobs));
    }
    if matches!(options.which, Which::Nodes | Which::All) {
        reports.push(nodes::measure(options.nodes));
    }
    if matches!(options.which, Which::Statuses | Which::All) {
        reports.push(statuses::measure(options.statuses));
    }
    if matches!(options.which, Which::Retention | Which::All) {
        reports.push(statuses::forget(options.missing));
    }
    if matches!(options.which, Which::Logs | Which::All) {
        reports.push(logs::measure(options.lines, options.pairs));
    }
    if matches!(options.which, Which::Fetch | Which::All) {
        reports.push(fetch::measure(options.seconds, options.pairs));
    }
    if matches!(options.which, Which::Shares | Which::All) {
        reports.push(shares::measure());
    }
    reports
}

fn show(json: bool, outcomes: &[Outcome], restart: Option<&restart::Report>, reports: &[Report]) {
    if json {
        let all = outcomes.iter().map(Outcome::json);
        let all = all
            .chain(restart.map(restart::Report::json))
            .chain(reports.iter().map(Report::json))
            .collect();
        println!("{:#}", Value::Array(all));
        return;
    }
    if !outcomes.is_empty() {
        println!(
            "{:<7}{:>12}{:>12}{:>8}",
            "", "a second", "baseline", "ratio"
        );
    }
    for outcome in outcomes {
        println!("{}", outcome.row());
    }
    if let Some(report) = restart {
        print!("{}", report.table());
    }
    for report in reports {
        print!("{}", report.table());
    }
}

/// Prints the progress of a benchmark on standard error.
fn progress(name: &str, pair: usize, pairs: usize, what: &str) {
    eprintln!("{name}: pair {} of {pairs}: {what}", pair + 1);
}
