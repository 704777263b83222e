//! `brasserie run`: a scheduler and a worker of its own, on the ordinary protocol path, until a config is finished.

mod cluster;
mod directory;
mod interrupts;
mod progress;
mod settings;
mod summary;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use brasserie_common_config::UnknownKeys;
use brasserie_common_runtime::telemetry;
use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus};
use brasserie_worker::Contain;
use brasserie_worker::process::AllowedUser;

use crate::Ending;
use crate::connection::{Connection, block_on};
use crate::output::{self, complain};
use cluster::{Cluster, WorkerFlags};
use directory::Directory;
use interrupts::Interrupts;
use progress::Progress;

/// How often the progress is looked at: smooth for the eye, and one small call each.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How much later than the worker this process may notice a signal that was sent to both.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Runs every task of every enabled job of FILE on this machine, as many at once as the configuration and the processors allow.
///
/// It ends when every task is done, has failed for good, or can never run. A task in backoff keeps it alive, and the progress
/// bar says until when. Ctrl-C ends the tasks too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The config file: JSON, or TOML or YAML by its extension.
    file: PathBuf,
    /// Keep statuses and logs here, so that the same command goes on where it stopped. Without it a temporary folder is used,
    /// removed after success, kept and named after failure.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The first error of a task is final: no backoff, no second try.
    #[arg(long)]
    no_retry: bool,
    /// A key that nobody reads is an error, in a job too.
    #[arg(long)]
    strict_config: bool,
    /// For jobs without a command: the program that every task runs.
    #[arg(long, value_name = "PROGRAM")]
    worker_command: Option<String>,
    /// The program `nvidia-smi`: with it tasks of jobs that ask for graphics cards get some of this machine's.
    #[arg(long, value_name = "PATH")]
    nvidia_smi: Option<PathBuf>,
    /// A user whose rights jobs may ask for (`user`), with groups beside the user's own that they may ask for (`group`); once
    /// for each. It takes root.
    #[arg(long, value_name = "USER[:GROUP[,GROUP...]]", value_parser = AllowedUser::parse)]
    allow_user: Vec<AllowedUser>,
    /// Decides what ends every process of a task, as the flag of the same name of brasserie-worker: `pid-namespace` has the kernel end
    /// them when the worker dies, `process-groups` has another process find them. `auto` is `pid-namespace` for root where the
    /// machine allows it, and else `process-groups`.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Contain::Auto)]
    contain: Contain,
}

pub(crate) fn run(args: Args) -> Result<Ending> {
    let retries = settings::Retries::from_flag(args.no_retry);
    let unknown_keys = UnknownKeys::from_strict_flag(args.strict_config);
    let config = match settings::load(&args.file, unknown_keys, retries)? {
        settings::Loaded::Config(config) => config,
        settings::Loaded::Problems(text) => {
            complain!("{}", text.trim_end());
            return Ok(Ending::Usage);
        }
    };
    block_on(run_to_the_end(args, config))?
}

async fn run_to_the_end(args: Args, config: settings::RunConfig) -> Result<Ending> {
    let started = Instant::now();
    let mut directory = Directory::open(args.data_dir.as_deref())?;
    let mut interrupts = Interrupts::listen().context("cannot listen for signals")?;
    let worker = WorkerFlags {
        worker_command: args.worker_command,
        nvidia_smi: args.nvidia_smi,
        allowed_users: args.allow_user,
        contain: args.contain,
    };
    let scheduler = cluster::start_scheduler(&config, &directory.path()).await?;
    directory.record(&config, &scheduler)?;
    let connection = Connection::new(&scheduler.thrift_address().to_string())?;
    let mut cluster = Cluster::start(scheduler, &directory.path(), worker)?;
    let progress = Progress::start();

    let outcome = tokio::select! {
        outcome = watch(&connection, &progress) => outcome,
        () = interrupts.next() => Ok(Watched::Interrupted),
        reason = cluster.worker_ended() => {
            // A terminal signals the worker as well, which may be the first to end.
            match tokio::time::timeout(SAME_SIGNAL, interrupts.next()).await {
                Ok(()) => Ok(Watched::Interrupted),
                Err(_) => Ok(Watched::Broken(format!("the worker ended: {reason}"))),
            }
        }
    };
    progress.finish();
    let mut shown = String::new();
    let ending = match outcome {
        Ok(Watched::Settled(status)) => {
            let summary = summary::describe(&connection, &status, started.elapsed()).await?;
            shown = summary.text;
            summary.ending
        }
        Ok(Watched::Interrupted) => {
            telemetry::print_error("brasserie: interrupted; ending the tasks");
            Ending::Interrupted
        }
        Ok(Watched::Broken(why)) => {
            telemetry::print_error(&format!("brasserie: {why}"));
            Ending::Failure
        }
        Err(error) => {
            telemetry::print_error(&format!("brasserie: {error:#}"));
            Ending::Failure
        }
    };
    tokio::select! {
        () = cluster.stop() => {}
        () = interrupts.next() => telemetry::print_error("brasserie: stopping at once"),
    }
    // The reader of standard output may make this program wait, so the program prints only after everything else has ended.
    let printed = tokio::task::spawn_blocking(move || output::print(&shown));
    tokio::select! {
        printed = printed => printed??,
        () = interrupts.next() => return Ok(Ending::Interrupted),
    }
    directory.close(ending)?;
    Ok(ending)
}

/// How watching ended.
enum Watched {
    Settled(Box<ClusterStatus>),
    Interrupted,
    /// Nothing can come of it any more.
    Broken(String),
}

async fn watch(connection: &Connection, progress: &Progress) -> Result<Watched> {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let status = connection.cluster_status().await?;
        let nodes_loaded = status.nodes_loaded.unwrap_or(false);
        if !nodes_loaded
            && let Some(errors) = status.errors.as_ref().filter(|errors| !errors.is_empty())
        {
            return Ok(Watched::Broken(errors.join("\n")));
        }
        progress.show(status.clone());
        let mut jobs = status
            .jobs
            .iter()
            .flatten()
            .filter(|job| job.enabled.unwrap_or(false));
        if nodes_loaded && jobs.all(|job| job.settled.unwrap_or(false)) {
            return Ok(Watched::Settled(Box::new(status)));
        }
    }
}

/// Tasks that neither run nor have ended for good.
fn waiting(job: &JobStatus) -> i64 {
    let sum = [job.unstarted, job.incomplete, job.error, job.in_backoff];
    sum.into_iter().flatten().sum()
}
