//! Measures the promises of the project, each figure with a baseline of the same run, so that machines can be compared.

mod artifacts;
mod cluster;
mod fetch;
mod figures;
mod jobs;
mod logs;
mod marks;
mod memory;
mod meter;
mod nodes;
mod noop;
mod peers;
mod restart;
mod rpc;
mod schedule;
mod shares;
mod skew;
mod slots;
mod spawn;
mod statuses;
mod submit;

use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum, value_parser};
use figures::BenchReport;
use integration_tests::e2e::play_role;
use serde_json::Value;

/// The same allocator as the scheduler's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Benchmarks with their baselines.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct BenchOptions {
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
    /// Calls of one measurement of `rpc`
    #[arg(long, default_value_t = 1_000_000, value_parser = from(1))]
    calls: usize,
    /// Concurrent calls in `rpc`
    #[arg(long, default_value_t = 512, value_parser = from(1))]
    pipelined: usize,
    /// Tasks of one measurement of `spawn`
    #[arg(long, default_value_t = 20_000, value_parser = from(1))]
    tasks: usize,
    /// Tasks of one measurement of `peers`; a fifth as many that sleep
    #[arg(long, default_value_t = 10_000, value_parser = from(1))]
    peer_tasks: usize,
    /// Tasks of one measurement of `noop`
    #[arg(long, default_value_t = 200_000, value_parser = from(1))]
    noops: usize,
    /// Sleeping tasks in `memory`
    #[arg(long, default_value_t = 10_000, value_parser = from(1))]
    sleeping: usize,
    /// Waiting tasks in `memory`
    #[arg(long, default_value_t = 100_000, value_parser = from(1))]
    waiting: usize,
    /// Number of pairs of measurement and baseline; the median counts
    #[arg(long, default_value_t = 5, value_parser = from(1))]
    pairs: usize,
    /// Workers of `restart`
    #[arg(long, default_value_t = 50, value_parser = from(1))]
    workers: usize,
    /// Restarts of each kind in `restart`
    #[arg(long, default_value_t = 5, value_parser = from(1))]
    rounds: usize,
    /// Submissions of `submit`
    #[arg(long, default_value_t = 1000, value_parser = from(1))]
    submissions: usize,
    /// Waiting jobs in `jobs`
    #[arg(long, default_value_t = 30_000, value_parser = from(jobs::LEAST))]
    jobs: usize,
    /// Nodes of `nodes`
    #[arg(long, default_value_t = 1_000_000, value_parser = from(nodes::LEAST))]
    nodes: usize,
    /// Lines of one measurement of `logs`
    #[arg(long, default_value_t = 10_000_000, value_parser = from(1))]
    lines: usize,
    /// Stored statuses in `statuses`
    #[arg(long, default_value_t = 1_000_000)]
    statuses: usize,
    /// Completions of missing nodes in `retention`
    #[arg(long, default_value_t = 2_000_000)]
    missing: usize,
    /// Size of the large artifact of `artifacts` in MiB
    #[arg(long, default_value_t = 1024, value_parser = from(1))]
    artifact_mib: usize,
    /// Small files of `artifacts`
    #[arg(long, default_value_t = 10_000, value_parser = from(1))]
    files: usize,
    /// Run only these parts of `artifacts`
    #[arg(long, value_enum, value_delimiter = ',')]
    transfers: Vec<artifacts::TransferKind>,
    /// Seconds of one measurement of `fetch`
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds of each long task of `skew`
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(1..))]
    long_seconds: u64,
    /// Size of `schedule`
    #[arg(long, value_enum, default_value_t = schedule::Scale::Usual)]
    scale: schedule::Scale,
    /// Run only these parts of `schedule`
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<schedule::EnginePart>,
    /// Run `rpc`, `spawn` and `noop` inside TLS too, in pairs with runs without it
    #[arg(long)]
    tls: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Accepts sizes from `least` on.
fn from(least: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least as u64..)
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
    /// Short tasks through `xargs -P`, GNU parallel, HyperQueue and Dask, as far as they are installed; baseline: as for `spawn`
    Peers,
    /// A thousand tasks of 10 ms and ten long ones on four workers; baseline: the shortest makespan
    Skew,
    /// Transfers of artifacts between workers; baseline: the same bytes through one socket with `socat`
    Artifacts,
    /// The choice of places for 100,000 artifacts and their replicas on 1,500 simulated workers; baseline: round robin
    Slots,
    All,
}

type Benchmark = (Which, fn(&BenchOptions) -> BenchReport);

/// All benchmarks, in the order of their runs.
const BENCHMARKS: [Benchmark; 18] = [
    (Which::Rpc, |o| {
        rpc::measure(o.calls, o.pipelined, o.pairs, o.tls)
    }),
    (Which::Restart, |o| restart::measure(o.workers, o.rounds)),
    (Which::Memory, |o| memory::measure(o.sleeping, o.waiting)),
    (Which::Spawn, |o| spawn::measure(o.tasks, o.pairs, o.tls)),
    (Which::Noop, |o| noop::measure(o.noops, o.pairs, o.tls)),
    (Which::Schedule, |o| schedule::measure(o.scale, &o.parts)),
    (Which::Submit, |o| submit::measure(o.submissions)),
    (Which::Jobs, |o| jobs::measure(o.jobs)),
    (Which::Nodes, |o| nodes::measure(o.nodes)),
    (Which::Statuses, |o| statuses::measure(o.statuses)),
    (Which::Retention, |o| statuses::forget(o.missing)),
    (Which::Logs, |o| logs::measure(o.lines, o.pairs)),
    (Which::Fetch, |o| fetch::measure(o.seconds, o.pairs)),
    (Which::Shares, |_| shares::measure()),
    (Which::Peers, |o| peers::measure(o.peer_tasks, o.pairs)),
    (Which::Skew, |o| skew::measure(o.long_seconds)),
    (Which::Artifacts, |o| {
        artifacts::measure(o.artifact_mib, o.files, o.pairs, &o.transfers)
    }),
    (Which::Slots, |o| slots::measure(o.pairs)),
];

fn main() -> ExitCode {
    if let Some(code) = noop::play_worker() {
        return code;
    }
    if let Some(code) = play_role() {
        return code;
    }
    let options = BenchOptions::parse();
    let chosen = BENCHMARKS
        .iter()
        .filter(|(which, _)| [Which::All, *which].contains(&options.which));
    let reports: Vec<BenchReport> = chosen.map(|(_, measure)| measure(&options)).collect();
    if options.json {
        let all = reports.iter().map(BenchReport::json).collect();
        println!("{:#}", Value::Array(all));
    } else {
        reports
            .iter()
            .for_each(|report| print!("{}", report.table()));
    }
    match reports.iter().all(BenchReport::is_kept) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
