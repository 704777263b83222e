//! Sends a million random and mutated frames to each server. Fails if a server dies, stops answering or keeps memory.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use integration_tests::e2e::{Client, Programs, Stage, free_port, play_role};
use integration_tests::hostile::attack::MAX_GROWTH_BYTES;
use integration_tests::hostile::originals::Target;
use integration_tests::hostile::{Attack, AttackReport, Crowd, Damage};
use serde_json::json;

/// Attacks a scheduler and a worker, as processes, with invalid frames.
#[derive(Debug, Parser)]
#[command(name = "hostile")]
struct HostileOptions {
    /// Frames for each server
    #[arg(long, default_value_t = 1_000_000)]
    frames: u64,
    /// Number of silent connections held to each server meanwhile
    #[arg(long, default_value_t = 0)]
    silent: usize,
    /// Seed of the random numbers; a failure names it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if let Some(code) = play_role() {
        return code;
    }
    let options = HostileOptions::parse();
    let stage = Stage::with(Programs::this_one());
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.default_spec(&config);
    let scheduler = stage.start_scheduler(&spec);
    let worker_port = free_port();
    let mut worker_spec = stage.worker_spec("one", &spec);
    worker_spec
        .flags
        .push(format!("--listen=127.0.0.1:{worker_port}"));
    let worker = stage.start_worker(&worker_spec);
    Client::new(spec.port).wait_all_done();

    let mut code = ExitCode::SUCCESS;
    for (name, target, port, process) in [
        (
            "scheduler",
            Target::Scheduler,
            spec.port,
            scheduler.program(),
        ),
        ("worker", Target::Worker, worker_port, worker.program()),
    ] {
        let attack = Attack {
            target,
            port,
            process,
            frames: options.frames,
            seed: options.seed,
        };
        let _crowd = Crowd::at(port, options.silent);
        let started = Instant::now();
        let outcome = attack.run(&|frames| {
            eprint!("\r{name}: {frames} of {} frames", options.frames);
            // The progress is not part of the verdict.
            let _ = std::io::stderr().flush();
        });
        eprintln!();
        show(&options, name, started.elapsed(), &outcome);
        if outcome.is_err() {
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn show(
    options: &HostileOptions,
    name: &str,
    elapsed: Duration,
    outcome: &Result<AttackReport, Damage>,
) {
    match outcome {
        Err(damage) => println!("{name}: {damage}"),
        Ok(report) if options.json => {
            let value = json!({
                "server": name, "frames": report.frames, "connections": report.connections, "seconds": elapsed.as_secs_f64(),
                "first_bytes": report.first_bytes, "most_bytes": report.most_bytes, "seed": options.seed,
            });
            println!("{value}");
        }
        Ok(report) => {
            let mib = |bytes: u64| bytes as f64 / f64::from(1024 * 1024);
            println!(
                "{name}: survived {} frames on {} connections in {:.0} s; {:.1} MiB after the first per cent, at most {:.1} MiB later \
                 ({:.0} MiB more are allowed)",
                report.frames,
                report.connections,
                elapsed.as_secs_f64(),
                mib(report.first_bytes),
                mib(report.most_bytes),
                mib(MAX_GROWTH_BYTES),
            );
        }
    }
}
