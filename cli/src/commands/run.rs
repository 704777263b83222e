//! `brasserie run`: runs a config to its end with a scheduler and a worker of its own, which use the ordinary protocol.

mod cluster;
mod directory;
mod output;
pub(crate) mod progress;
pub(crate) mod rate;
mod settings;
mod summary;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use brasserie_common::logs::LineId;
use brasserie_common_config::UnknownKeys;
use brasserie_common_runtime::telemetry;
use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus};
use brasserie_worker::Contain;
use brasserie_worker::logs::LogReader;
use brasserie_worker::process::{Accounts, AllowedUser};
use serde_json::json;

use crate::CommandEnding;
use crate::connection::{ChangeOutcome, Connection, Forgiven, block_on};
use crate::data_dir::{log_folder, wait_for_nodes};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::{print, print_json, printable};
use cluster::{LocalCluster, WorkerFlags};
use directory::{Keep, RunDirectory};
use output::{PrintedOutput, Printer, Streams};
use progress::ProgressDisplay;
use settings::ENDS_RETRIES;
use summary::{How, Summary};

/// Interval of status requests for the progress: smooth for the eye, one small call each.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Limit for the jobs whose first failure is reported during the run: about a screenful with their last lines.
const MAX_SETBACKS: usize = 3;

/// How much later than the worker this process may notice a signal that was sent to both.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Run every task of every enabled job of FILE on this machine, as many at once as the configuration and the processors allow.
///
/// The run ends when every task is done, has failed for good, or can never run. A run with tasks in backoff continues; the progress bar
/// shows for how long. Ctrl-C kills the tasks, and the last message says how to continue.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie run work.json                                    print task output, a summary, and the failed tasks with their last lines
  brasserie run work.json --data-dir DIR                     keep output and statuses; the same command continues a stopped run
  brasserie run work.json --data-dir DIR --retry-failed      run failed tasks again, after the cause is corrected
  brasserie run work.json --failed-to failed.jsonl           one JSON object a line for each failed task: job, node, why, last_lines
  brasserie logs JOB NODE --data-dir DIR                     print a task's output; status and explain also take --data-dir

Exit codes:
  0    every task of every enabled job is done
  1    a task failed or can never run, or the run could not go on
  2    wrong usage or a config file with errors
  130  interrupted")]
pub(crate) struct RunArgs {
    /// The config file: JSON, or TOML or YAML by its extension.
    file: PathBuf,
    /// Keep statuses and output in DIR, so that the same command continues a stopped run. Without this flag the run uses a temporary
    /// folder, removes it after success, and keeps and names it after a failure.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep the temporary folder after success too, and print its name.
    #[arg(long, conflicts_with = "data_dir")]
    keep: bool,
    /// Run the tasks again that failed in earlier runs of the data directory. Tasks that are done do not run again; unfinished tasks run
    /// as without this flag.
    #[arg(long, requires = "data_dir")]
    retry_failed: bool,
    /// Print the output of these tasks; each line begins with its job and node. The default is `all` for up to 100 tasks, and `failed` for
    /// more.
    #[arg(long, value_name = "WHOSE", value_enum)]
    output: Option<PrintedOutput>,
    /// Write every failed task to FILE, one JSON object a line with `job`, `node` and `why`. A run that ends early leaves an
    /// earlier list as it is, unless tasks have failed.
    #[arg(long, value_name = "FILE")]
    failed_to: Option<PathBuf>,
    /// Print one JSON document with all failed tasks at the end, instead of the summary. Task output goes to standard error.
    #[arg(long)]
    json: bool,
    /// Treat the first error of a task as final: no backoff, no retry.
    #[arg(long)]
    no_retry: bool,
    /// Report unknown keys in the config as errors, also inside a job.
    #[arg(long)]
    strict_config: bool,
    /// The program that tasks of jobs without a command run.
    #[arg(long, value_name = "PROGRAM")]
    worker_command: Option<String>,
    /// The program `nvidia-smi`: with it, tasks of jobs that need GPUs get GPUs of this machine.
    #[arg(long, value_name = "PATH")]
    nvidia_smi: Option<PathBuf>,
    /// A user that jobs may set as `user`, with further groups that they may set as `group`; may be given several times. Needs root.
    #[arg(long, value_name = "USER[:GROUP[,GROUP...]]", value_parser = AllowedUser::parse)]
    allow_user: Vec<AllowedUser>,
    /// How every process of a task is ended, as in brasserie-worker: with `pid-namespace` the kernel ends them when the worker dies, with
    /// `process-groups` another process finds them. `auto` is `pid-namespace` for root where the machine allows it, and otherwise
    /// `process-groups`.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Contain::Auto)]
    contain: Contain,
}

pub(crate) fn run(args: RunArgs) -> Result<CommandEnding> {
    let retries = settings::Retries::from_flag(args.no_retry);
    let unknown_keys = UnknownKeys::from_strict_flag(args.strict_config);
    let config = settings::load(&args.file, unknown_keys, retries)?;
    if let Some(directory) = args.data_dir.as_deref().filter(|_| args.retry_failed)
        && let Some(problem) = directory::nothing_to_retry(directory)
    {
        return Err(Failure::usage(problem).into());
    }
    check_users(&args, &config)?;
    if let Some(path) = &args.failed_to {
        summary::check_failed_to(path, &config.file)?;
    }
    block_on(run_to_the_end(args, config))?
}

/// Errors if tasks of a job can never start, because the run's worker may not give them the user or group for which they ask.
fn check_users(args: &RunArgs, run: &settings::RunConfig) -> Result<()> {
    let accounts = Accounts::resolve(&args.allow_user);
    let accounts = accounts.map_err(|error| Failure::usage(error.to_string()))?;
    for job in run.config.jobs.iter().filter(|job| job.can_run()) {
        if let Some(why) = accounts.refusal(&job.task_subprocess) {
            let (file, job) = (args.file.display(), printable(job.name.as_str()));
            return Err(
                Failure::usage(format!("{file}: job `{job}` can start no task: {why}")).into(),
            );
        }
    }
    Ok(())
}

async fn run_to_the_end(args: RunArgs, config: settings::RunConfig) -> Result<CommandEnding> {
    let started = Instant::now();
    let keep = Keep::from_flag(args.keep);
    let mut directory = RunDirectory::open(args.data_dir.as_deref(), keep).await?;
    let mut interrupts = Interrupts::listen().context("cannot listen for signals")?;
    let streams = match args.json {
        true => Streams::ErrorOnly,
        false => Streams::Both,
    };
    let printer = Printer::new(streams, &directory.path())?;
    let mut cluster = LocalCluster::start(&config, &directory.path()).await?;
    directory.record(&args.file, &config, cluster.scheduler())?;
    let address = cluster.scheduler().thrift_address().to_string();
    let connection = Connection::new(&address)?;
    let mut progress = ProgressDisplay::start(
        printer,
        args.output,
        directory.path(),
        config.endless_jobs(),
    );

    let before = async {
        match args.retry_failed {
            true => retry_failed(&address, &connection, &directory).await,
            false => Ok(None),
        }
    };
    let before = tokio::select! {
        before = before => before,
        () = interrupts.next() => Ok(Some(WatchEnd::Interrupted)),
    };
    let watched = match before.transpose() {
        Some(watched) => watched,
        None => {
            cluster.start_worker(&directory.path(), WorkerFlags::of(&args))?;
            let setbacks = Setbacks {
                logs: LogReader::new(log_folder(&directory.path())),
                output: args.output,
                reported: BTreeSet::new(),
                endless: config.endless_jobs(),
            };
            let watching = watch(&connection, &progress, setbacks);
            watch_cluster(&mut cluster, watching, &mut interrupts).await
        }
    };
    progress.end_bars().await;
    let retries = progress.retries_left();
    if let Ok(WatchEnd::NoNodes(_)) = &watched {
        directory.nothing_ran();
    }
    let (summary, stop) = end(cluster, watched, &connection, started, &mut interrupts).await;
    let summary = summary
        .with_next_times(config.next_times())
        .with_retries(retries);
    let report = RunReport {
        ending: summary.ending(),
        summary,
        logs: LogReader::new(log_folder(&directory.path())),
        unwritten: None,
        json: args.json,
    };
    let ended = EndedCluster {
        directory,
        stop,
        progress,
    };
    ended.report(report, args.failed_to, &mut interrupts).await
}

/// A run whose cluster has ended.
struct EndedCluster {
    directory: RunDirectory,
    stop: ClusterStop,
    progress: ProgressDisplay,
}

/// How the cluster of a run has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterStop {
    /// Every program of the run has ended.
    Complete,
    /// A second signal came first. The programs end with this process.
    Cut,
}

impl EndedCluster {
    /// Completes the files of the run, frees its directory, prints the report, and removes or names the folder. A reader that does not
    /// read delays only the printing.
    async fn report(
        mut self,
        report: RunReport,
        failed_to: Option<PathBuf>,
        interrupts: &mut Interrupts,
    ) -> Result<CommandEnding> {
        let has_failed_tasks = report.summary.has_failed_tasks();
        let completed = tokio::task::spawn_blocking(move || report.complete(failed_to.as_deref()));
        let report = tokio::select! {
            report = completed => report?,
            () = interrupts.next() => {
                let ending = CommandEnding::Interrupted;
                self.directory.release(ending, has_failed_tasks)?;
                self.directory.close(ending, has_failed_tasks, PrintedOutput::None)?;
                return Ok(ending);
            }
        };
        let (ending, last_line) = (report.ending, report.last_line());
        if self.stop == ClusterStop::Complete {
            self.directory.release(ending, has_failed_tasks)?;
        }
        let kept = self.directory.kept_after(ending);
        let shown = tokio::select! {
            shown = report.show(self.progress, last_line, kept) => shown,
            () = interrupts.next() => Ok((CommandEnding::Interrupted, PrintedOutput::None)),
        };
        // An error of the output must not remove the folder.
        let (ending, output) = match &shown {
            Ok(shown) => *shown,
            Err(_) => (CommandEnding::Failure, PrintedOutput::None),
        };
        if self.stop == ClusterStop::Cut {
            self.directory.release(ending, has_failed_tasks)?;
        }
        self.directory.close(ending, has_failed_tasks, output)?;
        shown?;
        Ok(ending)
    }
}

/// Watches a run until it has settled, is interrupted, or cannot continue.
async fn watch_cluster(
    cluster: &mut LocalCluster,
    watching: impl Future<Output = Result<WatchEnd>>,
    interrupts: &mut Interrupts,
) -> Result<WatchEnd> {
    tokio::select! {
        watched = watching => watched,
        () = interrupts.next() => Ok(WatchEnd::Interrupted),
        reason = cluster.worker_ended() => {
            // A terminal signals the worker as well, and the worker may end first.
            match tokio::time::timeout(SAME_SIGNAL, interrupts.next()).await {
                Ok(()) => Ok(WatchEnd::Interrupted),
                Err(_) => Ok(WatchEnd::Broken(format!("the worker ended: {reason}"))),
            }
        }
    }
}

/// Stops the cluster and returns the summary, and whether every program has ended. The summary of a settled run is made before the stop;
/// any other after its tasks are killed.
async fn end(
    mut cluster: LocalCluster,
    watched: Result<WatchEnd>,
    connection: &Connection,
    started: Instant,
    interrupts: &mut Interrupts,
) -> (Summary, ClusterStop) {
    let (mut summary, how) = match watched {
        Ok(WatchEnd::Settled(status)) => {
            let summary = Summary::of(connection, *status, How::Settled, started.elapsed());
            match summary.await {
                Ok(summary) => (Some(summary), How::Settled),
                Err(error) => (None, How::Broken(format!("{error:#}"))),
            }
        }
        Ok(WatchEnd::Interrupted) => {
            telemetry::print_error("brasserie: interrupted; ending the tasks");
            (None, How::Interrupted)
        }
        Ok(WatchEnd::Broken(why) | WatchEnd::NoNodes(why)) => (None, How::Broken(why)),
        Err(error) => (None, How::Broken(format!("{error:#}"))),
    };
    if let How::Broken(why) = &how {
        telemetry::print_error(&format!("brasserie: {why}"));
    }
    let stop = async {
        cluster.stop_worker().await;
        if summary.is_none() {
            summary = last_summary(connection, how.clone(), started).await;
        }
        cluster.stop_scheduler().await;
    };
    let stop = tokio::select! {
        () = stop => ClusterStop::Complete,
        () = interrupts.next() => {
            telemetry::print_error("brasserie: stopping at once");
            ClusterStop::Cut
        }
    };
    let summary = summary.unwrap_or_else(|| Summary::empty(how, started.elapsed()));
    (summary, stop)
}

/// The report of a run. It is printed after the cluster has stopped, because a slow reader may block this program.
struct RunReport {
    summary: Summary,
    ending: CommandEnding,
    logs: LogReader,
    /// Why the list of failed tasks could not be written.
    unwritten: Option<String>,
    json: bool,
}

impl RunReport {
    /// Reads the last lines of failed tasks, and writes the list of failed tasks. A run without that list is a failure. Blocks for the disk.
    fn complete(mut self, failed_to: Option<&Path>) -> Self {
        self.summary.read_last_lines(&self.logs);
        let unwritten = failed_to.and_then(|path| self.summary.write_failed_to(path).err());
        self.unwritten = unwritten.map(|error| format!("{error:#}"));
        if self.ending == CommandEnding::Success && self.unwritten.is_some() {
            self.ending = CommandEnding::Failure;
        }
        self
    }

    /// Returns the id of the last line that a task of this run or of an earlier one has printed. The folder may get lines of the next run.
    fn last_line(&self) -> Option<LineId> {
        self.logs.last_id().ok().flatten()
    }

    /// Prints the remaining task output up to `last_line`, then the summary, and the reason if the list of failed tasks could not be
    /// written. `kept` is the folder, if it is kept. Returns the ending of the run and whose output was printed.
    async fn show(
        self,
        progress: ProgressDisplay,
        last_line: Option<LineId>,
        kept: Option<PathBuf>,
    ) -> Result<(CommandEnding, PrintedOutput)> {
        let output = progress
            .finish(last_line)
            .await
            .unwrap_or(PrintedOutput::Failed);
        let show = move || {
            match self.json {
                true => {
                    let mut document = self.summary.json(kept.as_deref());
                    if document["error"].is_null() {
                        document["error"] = json!(self.unwritten);
                    }
                    print_json(&document)?;
                }
                false => print(&self.summary.text(output, stdout().is_terminal()))?,
            }
            if let Some(why) = &self.unwritten {
                telemetry::print_error(&format!("brasserie: {why}"));
            }
            anyhow::Ok((self.ending, output))
        };
        tokio::task::spawn_blocking(show).await?
    }
}

/// Makes failed tasks run again. Returns the ending of the run if no task has failed and all are over; `None`: the worker has work.
async fn retry_failed(
    address: &str,
    connection: &Connection,
    directory: &RunDirectory,
) -> Result<Option<WatchEnd>> {
    wait_for_nodes(connection).await?;
    let status = connection.cluster_status().await?;
    if let Some(why) = why_no_nodes(&status) {
        return Ok(Some(WatchEnd::Broken(why)));
    }
    let changes = Connection::for_changes(address)?;
    let mut failed = 0;
    for job in status.jobs.iter().flatten().filter(|job| has_failed(job)) {
        let name = job.name.as_deref().unwrap_or_default();
        if let ChangeOutcome::Refused { message, .. } =
            changes.forgive_tasks(name, Forgiven::Failed).await?
        {
            anyhow::bail!("the failed tasks cannot run again: {message}");
        }
        failed += job.failed.unwrap_or(0);
    }
    if failed == 0 && !is_settled(&status) {
        return Ok(None);
    }
    if failed == 0 {
        telemetry::print_error(&format!(
            "brasserie: no task has failed in {}, so there is nothing to retry",
            directory.path().display()
        ));
        return Ok(Some(WatchEnd::Settled(Box::new(status))));
    }
    telemetry::print_error(&format!("brasserie: failed tasks that run again: {failed}"));
    Ok(None)
}

/// Returns whether the job has failed tasks that may run again.
fn has_failed(job: &JobStatus) -> bool {
    job.enabled.unwrap_or(false) && job.failed.unwrap_or(0) > 0
}

/// Returns why the scheduler has no nodes; `None` if it has nodes or may still get them.
fn why_no_nodes(status: &ClusterStatus) -> Option<String> {
    let error = status.nodes_error.clone()?;
    (!status.nodes_loaded.unwrap_or(false)).then_some(error)
}

/// Returns the summary of an unsettled run; `None` if the scheduler does not answer or has not counted the tasks.
async fn last_summary(connection: &Connection, how: How, started: Instant) -> Option<Summary> {
    let status = connection.cluster_status().await.ok()?;
    if !status.nodes_loaded.unwrap_or(false) {
        return None;
    }
    Summary::of(connection, status, how, started.elapsed())
        .await
        .ok()
}

/// How watching the run ended.
enum WatchEnd {
    Settled(Box<ClusterStatus>),
    Interrupted,
    /// The run cannot continue, for this reason.
    Broken(String),
    /// The node sources failed, so no task has started.
    NoNodes(String),
}

async fn watch(
    connection: &Connection,
    progress: &ProgressDisplay,
    mut setbacks: Setbacks,
) -> Result<WatchEnd> {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let status = connection.cluster_status().await?;
        if let Some(why) = why_no_nodes(&status) {
            return Ok(WatchEnd::NoNodes(why));
        }
        progress.show(status.clone());
        setbacks.report(connection, &status, progress).await;
        if is_settled(&status) {
            return Ok(WatchEnd::Settled(Box::new(status)));
        }
    }
}

/// Returns whether each task of the enabled jobs is over, on disk.
fn is_settled(status: &ClusterStatus) -> bool {
    let mut jobs = status
        .jobs
        .iter()
        .flatten()
        .filter(|job| job.enabled.unwrap_or(false));
    // The pages of jobs are from different moments; the totals are consistent.
    let totals = status.job_totals.as_ref();
    let is_settled = match totals.and_then(|totals| totals.unsettled_jobs) {
        Some(unsettled) => unsettled == 0,
        None => jobs.all(|job| job.settled.unwrap_or(false)),
    };
    status.nodes_loaded.unwrap_or(false) && is_settled
}

/// Reports the first failure of the first [`MAX_SETBACKS`] jobs with tasks in backoff. A run whose tasks all fail would otherwise show no
/// reason until the last retry.
struct Setbacks {
    logs: LogReader,
    output: Option<PrintedOutput>,
    /// The jobs whose failure was reported.
    reported: BTreeSet<String>,
    /// The jobs whose tasks are retried for ever.
    endless: BTreeSet<String>,
}

impl Setbacks {
    async fn report(
        &mut self,
        connection: &Connection,
        status: &ClusterStatus,
        progress: &ProgressDisplay,
    ) {
        let output = PrintedOutput::chosen(self.output, status);
        for job in status.jobs.iter().flatten() {
            let name = job.name.as_deref().unwrap_or_default();
            if self.reported.len() >= MAX_SETBACKS {
                break;
            }
            if job.in_backoff.unwrap_or(0) == 0 || self.reported.contains(name) {
                continue;
            }
            // A call that fails is repeated with the next status.
            let retry = next_retry(job, status.wall_time_ms);
            let setback = summary::setback(connection, &self.logs, (name, retry), output).await;
            if let Ok(Some(mut text)) = setback {
                if self.endless.contains(name) {
                    text.push_str(&format!(
                        "  This job has no limit of retries: {ENDS_RETRIES}\n"
                    ));
                }
                progress.say(text);
                self.reported.insert(name.to_owned());
            }
        }
    }
}

/// Returns the time until the first task of the job that is in backoff may run again.
fn next_retry(job: &JobStatus, wall_ms: Option<i64>) -> Duration {
    let until = job.next_backoff_end_ms.zip(wall_ms);
    let left = until.map_or(0, |(until, now)| until.saturating_sub(now));
    Duration::from_millis(u64::try_from(left).unwrap_or(0))
}

/// Returns the number of tasks that neither run nor have ended for good.
fn waiting_or_in_backoff(job: &JobStatus) -> i64 {
    let sum = [job.unstarted, job.incomplete, job.error, job.in_backoff];
    sum.into_iter().flatten().sum()
}
