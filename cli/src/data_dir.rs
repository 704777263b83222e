//! Writes the record of a `brasserie run` in its data directory, and lets other commands read the directory without changing it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use brasserie_common::SchedulerId;
use brasserie_common::cluster_view::{ClusterView, NO_WORKER};
use brasserie_common::logs::{LineId, LogQuery};
use brasserie_common_config::{
    Config, Format, JobConfig, MAX_CONFIG_BYTES, ParseOptions, UnknownKeys, parse_bytes,
};
use brasserie_common_runtime::files::{self, DataDir, FileError, Owner};
use brasserie_scheduler::store::{UsedBy, copy_store};
use brasserie_scheduler::{ConfigSource, SchedulerHandle, StartError, StartOptions};
use brasserie_thrift::generated::common::LogLines;
use brasserie_worker::logs::LogReader;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::access::unreadable;
use crate::addresses::socket_address;
use crate::connection::{Connection, LogRequest};
use crate::destination::{Destination, SchedulerArgs, socket_in};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::{printable, shell_word};

/// File name of the run's record in the data directory.
const RECORD: &str = "run.json";
/// Folder name of the logs in a worker's data directory.
const LOGS: &str = "logs";
/// Limit for the size of the record: JSON may need six bytes for one byte of the config.
const MAX_RECORD_BYTES: u64 = 6 * MAX_CONFIG_BYTES as u64 + 65_536;
const ABOUT: &str = "The last `brasserie run` on this data directory; `brasserie status`, `logs` and `explain` read this file with --data-dir.";
/// Limit for the jobs that a run names because they have changed.
const MAX_DIFFERENCES: usize = 3;
/// Number of lines on a page of logs, the same as a scheduler's.
const PAGE_LINES: usize = 5000;
/// Time between two checks whether nodes are loaded, which takes milliseconds unless a script lists them.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// Limit for the time to connect. A scheduler on the same machine accepts a connection within a millisecond.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the folder of the run's scheduler in its data directory.
pub(crate) fn scheduler_folder(directory: &Path) -> PathBuf {
    directory.join("scheduler")
}

/// Returns the folder of the run's worker in its data directory.
pub(crate) fn worker_folder(directory: &Path) -> PathBuf {
    directory.join("worker")
}

/// Returns the log folder of the run's worker.
pub(crate) fn log_folder(directory: &Path) -> PathBuf {
    worker_folder(directory).join(LOGS)
}

/// Creates the failure for a `--data-dir` that names a file.
pub(crate) fn not_a_directory(path: &Path) -> Failure {
    Failure::usage(format!("{} is a file, not a directory", path.display()))
        .remedy("Name a directory with --data-dir")
}

/// The record that a run leaves in its data directory for other commands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    about: String,
    /// The address of the run's scheduler; `None` if the run has ended cleanly.
    scheduler: Option<SocketAddr>,
    /// Start time and random part of the scheduler's id, because another process may use the port later.
    instance: [i64; 2],
    /// The absolute path of the config file.
    file: String,
    /// The text of the config file when the run read it.
    config: String,
    /// The command line that continues the run; `None` once all of its tasks are done.
    command: Option<String>,
}

impl RunRecord {
    /// Creates the record of a run with the config `text` of `file`.
    pub(crate) fn new(
        (scheduler, instance): (SocketAddr, SchedulerId),
        (file, text): (&Path, &str),
        command: String,
    ) -> Self {
        RunRecord {
            about: ABOUT.to_owned(),
            scheduler: Some(scheduler),
            instance: [instance.0.start_time, instance.0.rand],
            file: file.to_string_lossy().into_owned(),
            config: text.to_owned(),
            command: Some(command),
        }
    }

    /// Returns this record for a run that has ended, with the command line that continues it.
    pub(crate) fn ended(self, command: Option<String>) -> Self {
        RunRecord {
            scheduler: None,
            command,
            ..self
        }
    }

    pub(crate) fn command_to_go_on(&self) -> Option<&str> {
        self.command.as_deref()
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(RECORD);
        let text = serde_json::to_vec_pretty(self)?;
        files::atomic_write(&path, &text)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the record. Errors if no run has used the directory.
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(RECORD);
        let bytes = match files::read_regular(&path, MAX_RECORD_BYTES) {
            Ok(bytes) => bytes,
            Err(FileError::Read { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                let lacks = match directory.exists() {
                    true => format!("it has no file {RECORD}"),
                    false => "it does not exist".to_owned(),
                };
                let message = format!("no run has used {}: {lacks}", directory.display());
                let remedy = match DataDir::was_used_by(directory, Owner::Worker) {
                    true => {
                        "It is the directory of a worker, of which `brasserie logs` alone reads something"
                    }
                    false => {
                        "Name the directory that `brasserie run --data-dir` has used, or ask a running scheduler with `--scheduler`"
                    }
                };
                return Err(Failure::usage(message).remedy(remedy).into());
            }
            Err(FileError::Read { error, .. })
                if error.kind() == std::io::ErrorKind::NotADirectory =>
            {
                return Err(not_a_directory(directory).into());
            }
            Err(error) => return Err(unreadable(&path, &error).into()),
        };
        serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is not the record of a run", path.display()))
    }

    /// Lists the differences from the earlier run in the same directory. Tasks that the earlier run has completed do not run again, even if
    /// their job has changed.
    pub(crate) fn differences(&self, earlier: &RunRecord) -> Vec<String> {
        let (Ok(new), Ok(old)) = (self.parse(), earlier.parse()) else {
            return match self.file == earlier.file {
                true => Vec::new(),
                false => vec![format!(
                    "the last run in this directory was of {}",
                    earlier.file
                )],
            };
        };
        if self.file != earlier.file {
            return vec![other_file(&earlier.file, &old, &new)];
        }
        let old: HashMap<_, _> = old.jobs.iter().map(|old| (&old.name, old)).collect();
        let is_other = |new: &JobConfig| {
            old.get(&new.name).is_some_and(|old| {
                (&old.command, &old.config) != (&new.command, &new.config)
                    || old.task_subprocess != new.task_subprocess
            })
        };
        let mut others = new.jobs.iter().filter(|job| is_other(job));
        let mut notes: Vec<String> = others.by_ref().take(MAX_DIFFERENCES).map(|job| {
            format!(
                "job `{}` has changed since the last run in this directory; its tasks that are done do not run again",
                printable(job.name.as_str())
            )
        }).collect();
        match others.count() {
            0 => {}
            more => notes.push(format!("{more} more jobs have changed")),
        }
        notes
    }

    /// Returns whether a run has left its record in the directory, damaged or not.
    pub(crate) fn exists(directory: &Path) -> bool {
        directory.join(RECORD).exists()
    }

    /// Connects to the scheduler of the run; `None` if the run has ended.
    async fn running(&self, directory: &Path) -> Result<Option<Connection>> {
        if !self.is_reachable().await {
            return Ok(None);
        }
        let Some(address) = self.scheduler else {
            return Ok(None);
        };
        let connection = Connection::new(&address.to_string())?;
        let instance = match connection.bounded_status().await {
            Ok(status) => status.scheduler,
            // The run was killed, and another process may use its port.
            Err(_) if !DataDir::is_in_use(&scheduler_folder(directory))? => return Ok(None),
            Err(error) => return Err(error),
        };
        let [start_time, rand] = self.instance;
        let is_same = instance.is_some_and(|instance| {
            (instance.start_time, instance.rand) == (Some(start_time), Some(rand))
        });
        Ok(is_same.then_some(connection))
    }

    /// Returns whether a process accepts connections at the address of the run's scheduler.
    async fn is_reachable(&self) -> bool {
        let Some(address) = self.scheduler else {
            return false;
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        // A timeout means that the port is in use and only the process is slow.
        connected.is_err() || connected.is_ok_and(|connected| connected.is_ok())
    }

    /// Parses the config. Ignores the flags of the run, which do not change stored completions.
    fn parse(&self) -> Result<Config> {
        let file = Path::new(&self.file);
        let options = ParseOptions {
            format: Format::of_path(file),
            unknown_keys: UnknownKeys::Warn,
        };
        let parsed = parse_bytes(self.config.as_bytes(), options);
        let (mut config, _) = parsed
            .and_then(|parsed| parsed.into_correct())
            .map_err(|errors| anyhow!("{}", errors.display_with(&self.file)))?;
        config.resolve_commands(self.folder());
        // No worker ever connects to the scheduler of the copy, so its initial wait is skipped.
        config.exit_initial_wait_before_timestamp = i64::MAX;
        Ok(config)
    }

    fn folder(&self) -> &Path {
        Path::new(&self.file).parent().unwrap_or(Path::new("/"))
    }
}

/// Says that the earlier run in a directory was of another file, and what becomes of its completions: they count by the names of job and
/// node, and a file may have been renamed or copied.
fn other_file(file: &str, old: &Config, new: &Config) -> String {
    let all: Vec<&str> = old.jobs.iter().map(|job| job.name.as_str()).collect();
    let (common, others): (Vec<&str>, Vec<&str>) = all
        .iter()
        .copied()
        .partition(|name| new.job(name).is_some());
    let of_others = match others.is_empty() {
        true => String::new(),
        false => format!(
            " The completed tasks of {} stay in the directory, and do not run again if that file runs here again within 30 days.",
            job_names(&others)
        ),
    };
    let of_common = match common.is_empty() {
        true => " No job of this file is among them, so all of its tasks run.".to_owned(),
        false => format!(
            " The completed tasks of {} do not run again on nodes with the same names.",
            job_names(&common)
        ),
    };
    format!(
        "the last run in this directory was of {file}, with {}.{of_common}{of_others} Use another --data-dir if these are other tasks",
        job_names(&all)
    )
}

/// Formats the names of the first [`MAX_DIFFERENCES`] jobs, as in `job `a`, job `b` and 3 more jobs`.
fn job_names(names: &[&str]) -> String {
    let named = names.iter().take(MAX_DIFFERENCES);
    let named: Vec<String> = named
        .map(|name| format!("job `{}`", printable(name)))
        .collect();
    let more = match names.len().saturating_sub(MAX_DIFFERENCES) {
        0 => String::new(),
        1 => " and 1 more job".to_owned(),
        more => format!(" and {more} more jobs"),
    };
    format!("{}{more}", named.join(", "))
}

/// The flags that choose the scheduler or data directory of a command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// Read the data directory of a `brasserie run` instead of a scheduler, during the run or after it. `brasserie logs` also reads the data
    /// directory of a worker. The command changes nothing in it. The data directory of a scheduler stands for its local socket.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scheduler", "context"])]
    data_dir: Option<PathBuf>,
}

impl SourceArgs {
    /// Returns whether the command reads the directory of a `brasserie run`, which `brasserie job` cannot change.
    pub(crate) fn is_run(&self) -> bool {
        self.data_dir.is_some() && self.socket().is_none()
    }

    /// Returns the local socket of the scheduler whose directory `--data-dir` names.
    fn socket(&self) -> Option<PathBuf> {
        let directory = self.data_dir.as_deref()?;
        let is_scheduler = DataDir::was_used_by(directory, Owner::Scheduler);
        (is_scheduler && !RunRecord::exists(directory)).then(|| socket_in(directory))
    }

    /// Creates a connection to the scheduler, if the flags name one.
    fn connect(&self) -> Result<Option<Connection>> {
        let connection = match (self.socket(), &self.data_dir) {
            (Some(socket), _) => Connection::to_destination(&Destination::local(&socket))?,
            (None, Some(_)) => return Ok(None),
            (None, None) => Connection::to(&self.scheduler)?,
        };
        Ok(Some(connection.named_by(self.flag())))
    }

    /// Returns whether `--data-dir` names the directory of a worker, of which only the logs can be read.
    pub(crate) fn is_worker(&self) -> bool {
        let directory = self.data_dir.as_deref();
        directory.is_some_and(|directory| DataDir::was_used_by(directory, Owner::Worker))
    }

    /// Returns the flag that names this source to another command, with a space before it; empty for the default.
    pub(crate) fn flag(&self) -> String {
        match (self.socket(), &self.data_dir) {
            (Some(socket), _) => format!(" --scheduler {}", shell_word(&socket_address(&socket))),
            (None, Some(directory)) => {
                format!(" --data-dir {}", shell_word(&directory.to_string_lossy()))
            }
            (None, None) => self.scheduler.flag(),
        }
    }
}

/// A connection to a scheduler: a running one, or one in this process on a copy of an ended run's store.
pub(crate) struct SchedulerSource {
    pub(crate) connection: Connection,
    ended: Option<EndedRun>,
}

/// A scheduler without workers on a copy of an ended run's store.
struct EndedRun {
    scheduler: SchedulerHandle,
    _copy: TempDir,
    directory: PathBuf,
    record: RunRecord,
}

impl SchedulerSource {
    /// Opens the source that the command line names, runs `question` on it, and closes it. Returns `None` if a signal came first; then no
    /// copy is left.
    pub(crate) async fn ask<T>(
        args: &SourceArgs,
        question: impl AsyncFnOnce(&SchedulerSource) -> Result<T>,
    ) -> Result<Option<T>> {
        let (source, interrupts) = SchedulerSource::open(args).await?;
        let Some(mut interrupts) = interrupts else {
            return question(&source).await.map(Some);
        };
        let answer = async {
            wait_for_nodes(&source.connection).await?;
            question(&source).await.map(Some)
        };
        let answer = tokio::select! {
            answer = answer => answer,
            () = interrupts.next() => Ok(None),
        };
        source.close().await;
        answer
    }

    /// Opens the scheduler, or a copy of an ended run's store. A signal that ends the program at once would leave the copy behind, so a
    /// copy comes with a signal handler.
    async fn open(args: &SourceArgs) -> Result<(Self, Option<Interrupts>)> {
        if let Some(connection) = args.connect()? {
            return Ok((SchedulerSource::running(connection), None));
        }
        let directory = args.data_dir.as_deref().unwrap_or(Path::new("."));
        let record = RunRecord::read(directory)?;
        let running = record.running(directory).await;
        let running = running.with_context(|| {
            let directory = directory.display();
            format!("the run in {directory} is still active, but its scheduler does not answer")
        });
        if let Some(connection) = running? {
            return Ok((
                SchedulerSource::running(connection.named_by(args.flag())),
                None,
            ));
        }
        let interrupts = Interrupts::listen().context("cannot listen for signals")?;
        let ended = EndedRun::open(directory, record).await?;
        let connection = Connection::new(&ended.scheduler.thrift_address().to_string())?;
        let connection = connection.named_by(args.flag());
        let source = SchedulerSource {
            connection,
            ended: Some(ended),
        };
        Ok((source, Some(interrupts)))
    }

    fn running(connection: Connection) -> Self {
        SchedulerSource {
            connection,
            ended: None,
        }
    }

    /// Removes statements about the start of the scheduler on the copy.
    pub(crate) fn without_own_start(&self, view: ClusterView) -> ClusterView {
        match self.ended {
            None => view,
            Some(_) => ClusterView {
                wait_ended: None,
                nothing_starts: Vec::new(),
                ..view
            },
        }
    }

    /// Removes the reason that the scheduler on the copy has no workers.
    pub(crate) fn without_own_pool(&self, reasons: Vec<String>) -> Vec<String> {
        match self.ended {
            None => reasons,
            Some(_) => without_no_worker(reasons),
        }
    }

    /// Removes that reason from a listed task's reasons, which are one text.
    pub(crate) fn without_own_pool_in(&self, reasons: String) -> Option<String> {
        match self.ended {
            None => Some(reasons),
            Some(_) => {
                let all = reasons.split("; ").map(str::to_owned).collect();
                let left = without_no_worker(all);
                (!left.is_empty()).then(|| left.join("; "))
            }
        }
    }

    /// Returns a note that the run has ended and how to continue it, if it can be continued; `None` for a running scheduler.
    pub(crate) fn note(&self) -> Option<String> {
        let EndedRun {
            directory, record, ..
        } = self.ended.as_ref()?;
        let go_on = match record.command_to_go_on() {
            Some(command) => format!(" To continue it: {command}"),
            None => String::new(),
        };
        Some(format!(
            "The run in {} has ended; these are its results, for the nodes that its sources give now.{go_on}\n\n",
            directory.display()
        ))
    }

    /// Stops the scheduler on the copy, if there is one.
    async fn close(self) {
        if let Some(ended) = self.ended {
            // A write error concerns only the copy, which is deleted next.
            let _ = ended.scheduler.shutdown().await;
        }
    }
}

fn without_no_worker(mut reasons: Vec<String>) -> Vec<String> {
    reasons.retain(|reason| reason != NO_WORKER);
    reasons
}

impl EndedRun {
    async fn open(directory: &Path, record: RunRecord) -> Result<Self> {
        let copy = tempfile::Builder::new()
            .prefix("brasserie-copy-")
            .tempdir()
            .context("cannot make a temporary folder for a copy of the run's store")?;
        let (from, to) = (scheduler_folder(directory), copy.path().to_owned());
        let copied = tokio::task::spawn_blocking(move || copy_store(&from, &to)).await?;
        copied.map_err(|error| anyhow!(error.text_for(UsedBy::Run)))?;
        let source = ConfigSource::Given {
            config: Arc::new(record.parse()?),
            folder: record.folder().to_owned(),
        };
        let options = StartOptions::new(copy.path().to_owned(), source);
        let scheduler = brasserie_scheduler::start(options).await;
        let scheduler = scheduler
            .map_err(|error| match error {
                StartError::Store(error) => anyhow!(error.text_for(UsedBy::Run)),
                error => anyhow!(error),
            })
            .with_context(|| {
                format!(
                    "cannot read the results of the run in {}",
                    directory.display()
                )
            })?;
        Ok(EndedRun {
            scheduler,
            _copy: copy,
            directory: directory.to_owned(),
            record,
        })
    }
}

/// Waits until nodes are loaded or an error explains why they are not. Task counts are incomplete before that.
pub(crate) async fn wait_for_nodes(connection: &Connection) -> Result<()> {
    loop {
        let status = connection.bounded_status().await?;
        if status.nodes_loaded.unwrap_or(false) || status.nodes_error.is_some() {
            return Ok(());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// The source of log lines: the workers of a scheduler, or files.
pub(crate) enum LogSource {
    Scheduler(Connection),
    /// The files of a run.
    RunFiles(LogReader, RunRecord),
    /// The files in the data directory of one worker.
    WorkerFiles(LogReader, PathBuf),
}

impl LogSource {
    pub(crate) fn open(args: &SourceArgs) -> Result<Self> {
        let directory = args.data_dir.as_deref().unwrap_or(Path::new("."));
        Ok(match args.connect()? {
            Some(connection) => LogSource::Scheduler(connection),
            None if args.is_worker() => {
                LogSource::WorkerFiles(LogReader::new(directory.join(LOGS)), directory.to_owned())
            }
            None => LogSource::RunFiles(
                LogReader::new(log_folder(directory)),
                RunRecord::read(directory)?,
            ),
        })
    }

    /// Returns one page of lines.
    pub(crate) async fn logs(&self, request: &LogRequest) -> Result<LogLines> {
        match self {
            LogSource::Scheduler(connection) => connection.logs(request).await,
            LogSource::RunFiles(reader, _) | LogSource::WorkerFiles(reader, _) => {
                Ok(reader.query(&query(request)?)?.into())
            }
        }
    }

    /// Returns whether no more lines can follow.
    pub(crate) async fn is_complete(&self) -> bool {
        match self {
            LogSource::Scheduler(_) => false,
            LogSource::RunFiles(_, record) => !record.is_reachable().await,
            LogSource::WorkerFiles(_, directory) => {
                !DataDir::is_in_use(directory).is_ok_and(|is_in_use| is_in_use)
            }
        }
    }
}

fn query(request: &LogRequest) -> Result<LogQuery> {
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    Ok(LogQuery {
        stream: request.stream,
        jobs: named(&request.job)
            .map(TryInto::try_into)
            .into_iter()
            .collect::<Result<_, _>>()?,
        nodes: named(&request.node)
            .map(TryInto::try_into)
            .into_iter()
            .collect::<Result<_, _>>()?,
        from: (request.from != -1).then_some(LineId(request.from)),
        ascending: request.ascending,
        limit: PAGE_LINES,
        regex: request.regex.clone(),
        invocation: request.invocation,
    })
}
