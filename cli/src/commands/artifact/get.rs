//! `brasserie artifact get`: fetches an output from a worker that has it, or a file from the scheduler, verifies it, and writes it as a file
//! or folder.

mod all;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, Permissions};
use std::io::{self, BufReader, IsTerminal as _, Seek as _, stderr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use brasserie_common::text::readable_bytes;
use brasserie_common::{Artifact, ArtifactForm};
use brasserie_thrift::generated::brasserie::{ListedOutput, OutputHolder};
use brasserie_worker::UnpackError;
use clap::builder::NonEmptyStringValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tempfile::{Builder, NamedTempFile};

use super::files::{self, find_files};
use super::outputs::{FoundOutputs, address_of, artifact_of, find};
use super::transfer::{BusyWait, FetchFailure, PartialCopy, Transfers};
use crate::CommandEnding;
use crate::addresses::scheduler_peer;
use crate::connection::{AskArgs, Connection, block_on};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::{complain, printable};
use crate::temporary::TemporaryFolder;
use crate::worker_credentials::{Callee, WorkerCredentials};

/// The pause after all workers were busy: as between workers.
const BUSY_PAUSE: Duration = Duration::from_millis(150);
/// How often in a row a source may be gone. Then it is asked for no further output, because each question may take ten seconds.
const MOST_MISSES: u32 = 2;
/// The time between two lines about the progress, if standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(override_usage = "\
brasserie artifact get [OPTIONS] <JOB> [NODE] [PATH]
       brasserie artifact get [OPTIONS] --file <NAME>")]
#[command(after_help = "\
Try it:
  brasserie artifact get extract db1 table               writes `table` in the current folder
  brasserie artifact get extract db1 table --to t.csv    writes `t.csv`
  brasserie artifact get extract db1 stats/ --to /tmp    writes the folder `/tmp/stats`
  brasserie artifact get extract --to /tmp/all           writes all outputs of the job, as `/tmp/all/NODE/PATH`
  brasserie artifact get --file dims.csv                 writes the file of inputs `dims.csv`")]
pub(super) struct GetArgs {
    /// The name of the job.
    #[arg(required_unless_present = "file", value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// The node of the task. Without it, fetch all outputs of the job.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
    /// The path of the output, as in the job's `outputs`. Without it, fetch all outputs of the task.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    path: Option<String>,
    /// Fetch the file that jobs name in `file` of an input, in place of an output. Of a file in the config file's folder and an uploaded
    /// one with the same name it is the one in the folder.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["job", "node", "path"], value_parser = NonEmptyStringValueParser::new())]
    file: Option<String>,
    /// Write the output into this folder, or under this name. Several outputs need a folder, which is created if it is missing [default: its
    /// own name, in the current folder].
    #[arg(long, value_name = "DIR|FILE")]
    to: Option<PathBuf>,
    /// Replace the file or folder at the place of the output.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn run(args: &GetArgs) -> Result<CommandEnding> {
    block_on(async {
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            got = get(args) => args.ask.advised(got),
            // Dropping the transfer deletes its temporary file.
            () = interrupts.next() => Ok(CommandEnding::Interrupted),
        }
    })?
}

async fn get(args: &GetArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect()?;
    let wanted = match (&args.file, &args.path) {
        (Some(name), _) => wanted_file(&connection, name).await?,
        (None, Some(path)) => wanted_output(&connection, args, path).await?,
        (None, None) => return all::get(args, &connection).await,
    };
    let artifact = wanted.artifact;
    let place = Place::new(args, &wanted.path)?;
    let progress = Progress::new(artifact.size, "have arrived");
    let transfers = Transfers::new(&wanted.cluster, WorkerCredentials::of(&connection).await?);
    let fetch = Fetch {
        transfers: &transfers,
        artifact,
        progress: &progress,
        before: 0,
        misses: &RefCell::default(),
    };
    let fetched = fetch.write_to(&place, &wanted).await;
    progress.end();
    let Fetched { source, problems } = fetched?;
    for problem in &problems {
        complain!("brasserie: {problem}; {} had a good copy", source.title);
    }
    let written = place.shown();
    let sentence = format!(
        "{written}: written, {} from {}, and its SHA-256 is right",
        readable_bytes(artifact.size),
        source.title
    );
    let mut document = wanted.document;
    document["outcome"] = json!("written");
    document["written"] = json!(written);
    document["bytes"] = json!(artifact.size);
    document["sha256"] = json!(artifact.id.to_string());
    document["worker"] = json!(source.shard);
    args.ask.say(&sentence, &document)?;
    Ok(CommandEnding::Success)
}

/// An output or a file that is fetched.
struct Wanted {
    path: String,
    artifact: Artifact,
    /// The space of the artifacts.
    cluster: String,
    sources: Vec<Source>,
    /// The failure if there are no sources, and what helps.
    no_copy: (String, &'static str),
    /// The part of the JSON document that names it.
    document: Value,
}

impl Wanted {
    /// Returns the failure for an artifact without sources.
    fn without_copy(&self) -> anyhow::Error {
        let (message, remedy) = &self.no_copy;
        Failure::new(&**message).remedy(*remedy).into()
    }
}

/// A worker with a copy, or the scheduler.
#[derive(Clone)]
struct Source {
    /// The name in sentences, such as "worker `one`".
    title: String,
    /// `None`: the scheduler.
    shard: Option<String>,
    address: String,
}

impl Source {
    fn of(holder: &OutputHolder) -> Self {
        let shard = holder.shard.clone().unwrap_or_default();
        Source {
            title: format!("worker `{}`", printable(&shard)),
            shard: Some(shard),
            address: address_of(holder),
        }
    }

    /// Returns the holder for calls. Only the scheduler may have a local socket.
    fn callee(&self) -> Option<Callee> {
        match &self.shard {
            None => scheduler_peer(&self.address).map(Callee::from),
            Some(shard) => Callee::worker(shard, &self.address),
        }
    }
}

/// Returns the outputs of the job, or of its task on the node. Errors if there are none.
async fn find_any(connection: &Connection, args: &GetArgs) -> Result<FoundOutputs> {
    let job = args.job.as_deref().unwrap_or_default();
    let node = args.node.as_deref().unwrap_or_default();
    let found = find(connection, (job, node), usize::MAX).await?;
    match found.why_empty() {
        Some(why) => {
            let why = printable(why);
            Err(Failure::new(why).into())
        }
        None => Ok(found),
    }
}

async fn wanted_output(connection: &Connection, args: &GetArgs, path: &str) -> Result<Wanted> {
    let found = find_any(connection, args).await?;
    let selected = found.with_path(path)?;
    let output = selected.first().context("the scheduler sent no output")?;
    wanted_of(found.cluster(), output)
}

fn wanted_of(cluster: &str, output: &ListedOutput) -> Result<Wanted> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let state = text(&output.state).replace('_', " ");
    let remedy = match &*state {
        "unknown" => "Not all workers have reported yet: try again in a minute",
        _ => "`brasserie job delete-history JOB --node NODE` lets the task run again",
    };
    Ok(Wanted {
        path: text(&output.path),
        artifact: artifact_of(output)?,
        cluster: cluster.to_owned(),
        sources: output.holders.iter().flatten().map(Source::of).collect(),
        no_copy: (
            format!("no worker has a copy of the output ({state})"),
            remedy,
        ),
        document: json!({ "job": output.job, "node": output.node, "path": output.path }),
    })
}

async fn wanted_file(connection: &Connection, name: &str) -> Result<Wanted> {
    let found = find_files(connection, name).await?;
    let file = found.named(name)?;
    let scheduler = Source {
        title: "the scheduler".to_owned(),
        shard: None,
        address: connection.address().to_owned(),
    };
    let workers = file.holders.iter().flatten().map(Source::of);
    Ok(Wanted {
        path: name.to_owned(),
        artifact: files::artifact_of(file)?,
        cluster: found.cluster().to_owned(),
        sources: [scheduler].into_iter().chain(workers).collect(),
        no_copy: (
            "nobody has a copy of the file".to_owned(),
            "Upload it again",
        ),
        document: json!({ "file": name }),
    })
}

/// The place where the output is written.
struct Place {
    path: PathBuf,
    /// The folder of `path`, which exists.
    parent: PathBuf,
    replaces: Replaces,
}

/// Whether the output may replace what is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaces {
    Nothing,
    FileOrFolder,
}

impl Place {
    /// Chooses the place. Errors if something is there that may not be replaced.
    fn new(args: &GetArgs, path: &str) -> Result<Self> {
        let own_name = path.trim_end_matches('/').rsplit('/').next();
        let own_name = own_name.filter(|name| !matches!(*name, "" | "." | ".."));
        let own_name = own_name.context("the scheduler sent an output without a name")?;
        if args.to.as_deref() == Some(Path::new("-")) {
            let failure = Failure::usage("an output is written to a file, not to standard output");
            let remedy = "Name a file or folder with --to; a file called `-` is `./-`";
            return Err(failure.remedy(remedy).into());
        }
        let path = match &args.to {
            None => PathBuf::from(own_name),
            Some(to) if to.is_dir() => to.join(own_name),
            Some(to) => to.clone(),
        };
        let replaces = match args.force {
            true => Replaces::FileOrFolder,
            false => Replaces::Nothing,
        };
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let parent = folder.unwrap_or(Path::new(".")).to_owned();
        if !parent.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            let shown = path.display();
            let failure = Failure::usage(format!("cannot write {shown}: there is no such folder"));
            return Err(failure
                .remedy("Create it, or name another with --to")
                .into());
        }
        let place = Place {
            path,
            parent,
            replaces,
        };
        place.check_free()?;
        Ok(place)
    }

    fn check_free(&self) -> Result<()> {
        // A link counts as itself, wherever it leads.
        let Ok(found) = fs::symlink_metadata(&self.path) else {
            return Ok(());
        };
        let shown = self.path.display();
        let kind = found.file_type();
        let is_replaceable = kind.is_file() || kind.is_dir();
        let failure = match self.replaces {
            _ if !is_replaceable => {
                let failure = Failure::new(format!("{shown} is neither a plain file nor a folder"));
                // Other programs may need a device, such as `/dev/null`.
                failure.remedy(match kind.is_block_device() || kind.is_char_device() {
                    true => "Name another place with --to",
                    false => "Name another place with --to, or remove it first",
                })
            }
            Replaces::Nothing => Failure::new(format!("{shown} exists already"))
                .remedy("`--force` replaces it, and `--to` names another place"),
            Replaces::FileOrFolder => return Ok(()),
        };
        Err(failure.into())
    }

    fn shown(&self) -> String {
        let absolute = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        absolute.display().to_string()
    }

    /// Creates the file that gets the bytes, in the folder of the output.
    fn temporary(&self, form: ArtifactForm) -> Result<NamedTempFile> {
        let mode = match form {
            ArtifactForm::Executable => 0o777,
            ArtifactForm::File | ArtifactForm::Folder => 0o666,
        };
        let mut builder = Builder::new();
        let builder = builder
            .prefix(".brasserie-")
            .permissions(Permissions::from_mode(mode));
        let created = builder.tempfile_in(&self.parent);
        created.map_err(|error| self.failure(error))
    }

    /// Moves the complete copy to its place, or unpacks it there.
    fn keep(&self, copy: NamedTempFile, form: ArtifactForm) -> Result<()> {
        match form {
            ArtifactForm::File | ArtifactForm::Executable => self.keep_file(copy),
            ArtifactForm::Folder => self.keep_folder(copy),
        }
    }

    fn keep_file(&self, copy: NamedTempFile) -> Result<()> {
        let kept = match self.replaces {
            Replaces::Nothing => copy.persist_noclobber(&self.path),
            Replaces::FileOrFolder => {
                let old = self.set_aside()?;
                let kept = copy.persist(&self.path);
                drop(old);
                kept
            }
        };
        kept.map(drop).map_err(|error| self.failure(error.error))
    }

    /// Unpacks the copy in a folder that nobody else can reach, and moves the result to its place.
    fn keep_folder(&self, mut copy: NamedTempFile) -> Result<()> {
        let private = self.private_folder()?;
        copy.rewind().map_err(|error| self.failure(error))?;
        let unpacked = private.path().join("output");
        let read = BufReader::new(copy.as_file());
        brasserie_worker::unpack(read, &unpacked).map_err(|error| match error {
            UnpackError::Write { error, .. } => self.failure(error),
            error @ UnpackError::Archive(_) => {
                let shown = self.path.display();
                anyhow::Error::new(error).context(format!("cannot unpack the output to {shown}"))
            }
        })?;
        let old = match self.replaces {
            Replaces::Nothing => self.check_free().map(|()| None)?,
            Replaces::FileOrFolder => self.set_aside()?,
        };
        fs::rename(&unpacked, &self.path).map_err(|error| self.failure(error))?;
        drop(old);
        Ok(())
    }

    /// Moves what is at the place of the output into a folder that is deleted when it is dropped.
    fn set_aside(&self) -> Result<Option<TemporaryFolder>> {
        self.check_free()?;
        if fs::symlink_metadata(&self.path).is_err() {
            return Ok(None);
        }
        let old = self.private_folder()?;
        fs::rename(&self.path, old.path().join("old")).map_err(|error| self.failure(error))?;
        Ok(Some(old))
    }

    fn private_folder(&self) -> Result<TemporaryFolder> {
        let mut builder = Builder::new();
        let builder = builder
            .prefix(".brasserie-")
            .permissions(Permissions::from_mode(0o700));
        let created = builder.tempdir_in(&self.parent).map(Into::into);
        created.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: io::Error) -> anyhow::Error {
        let failure = Failure::new(format!("cannot write {}", self.path.display()));
        let failure = failure.remedy("Correct that, or name another place with --to");
        anyhow::Error::new(error).context(failure)
    }
}

/// The fetching of one artifact.
struct Fetch<'a> {
    transfers: &'a Transfers,
    artifact: Artifact,
    progress: &'a Progress,
    /// The bytes of the artifacts that were fetched before this one.
    before: u64,
    /// How often in a row sources were gone, by their addresses.
    misses: &'a RefCell<BTreeMap<String, u32>>,
}

/// The source of the last bytes of a good copy, and the reasons why others had none.
struct Fetched {
    source: Source,
    problems: Vec<String>,
}

impl Fetch<'_> {
    /// Fetches the artifact, and writes it to its place.
    async fn write_to(&self, place: &Place, wanted: &Wanted) -> Result<Fetched> {
        let form = self.artifact.form;
        let mut copy = PartialCopy::new(place.temporary(form)?);
        let fetched = self.fetch_from_any(wanted, &mut copy).await?;
        place.keep(copy.into_file(), form)?;
        Ok(fetched)
    }

    /// Fetches the artifact from the first source that sends a good copy. Each continues where the one before it has stopped.
    async fn fetch_from_any(
        &self,
        wanted: &Wanted,
        copy: &mut PartialCopy<NamedTempFile>,
    ) -> Result<Fetched> {
        let misses = |source: &Source| {
            let misses = self.misses.borrow();
            misses.get(&source.address).copied().unwrap_or(0)
        };
        let mut sources: Vec<&Source> = wanted.sources.iter().collect();
        sources.sort_by_key(|source| misses(source));
        let mut left = VecDeque::from(sources);
        let mut problems = Vec::new();
        // The sources of the bytes so far.
        let mut senders = BTreeSet::new();
        let (mut wait, mut busy) = (BusyWait::new(Instant::now()), 0);
        while let Some(source) = left.pop_front() {
            let before = copy.offset();
            let failure = match source.callee() {
                Some(_) if misses(source) >= MOST_MISSES => {
                    FetchFailure::Gone("it has not answered before".to_owned())
                }
                None => FetchFailure::Gone("its address is not known".to_owned()),
                Some(peer) => match self.fetch_from_one(&peer, copy, &mut senders).await {
                    Ok(()) => {
                        self.misses.borrow_mut().remove(&source.address);
                        let source = source.clone();
                        return Ok(Fetched { source, problems });
                    }
                    Err(FetchFailure::Local(error)) => {
                        let failure = anyhow::Error::new(error);
                        return Err(failure.context("cannot write the output"));
                    }
                    Err(failure) => {
                        if let FetchFailure::Gone(_) = failure {
                            let mut misses = self.misses.borrow_mut();
                            *misses.entry(source.address.clone()).or_default() += 1;
                        }
                        failure
                    }
                },
            };
            wait.reached(copy.offset(), Instant::now());
            match failure {
                FetchFailure::Busy if !wait.is_over(Instant::now()) => {
                    left.push_back(source);
                    busy += 1;
                    if busy >= left.len() {
                        busy = 0;
                        tokio::time::sleep(BUSY_PAUSE).await;
                    }
                    continue;
                }
                // The damaged bytes may be those of an earlier source.
                FetchFailure::Damaged if before > 0 => {
                    left.push_front(source);
                    continue;
                }
                _ => {}
            }
            problems.push(format!("{} at {}: {failure}", source.title, source.address));
        }
        if problems.is_empty() {
            return Err(wanted.without_copy());
        }
        let remedy = "Try again; `brasserie artifact locate` shows the workers with copies, which this machine must reach";
        let why = problems.join("; ");
        let failure = Failure::new(format!("no worker has sent a good copy: {why}"));
        Err(failure.remedy(remedy).into())
    }

    async fn fetch_from_one(
        &self,
        peer: &Callee,
        copy: &mut PartialCopy<NamedTempFile>,
        senders: &mut BTreeSet<Callee>,
    ) -> Result<(), FetchFailure> {
        let before = copy.offset();
        let received = |bytes| self.progress.reached(self.before.saturating_add(bytes));
        let fetched = self
            .transfers
            .fetch(peer, &self.artifact, copy, received)
            .await;
        match &fetched {
            Err(FetchFailure::Damaged) => {
                senders.insert(peer.clone());
                for sender in std::mem::take(senders) {
                    self.transfers.have_checked(&sender, self.artifact.id).await;
                }
            }
            _ if copy.offset() > before => drop(senders.insert(peer.clone())),
            _ => {}
        }
        fetched
    }
}

/// Shows how much of an artifact has been sent: a bar on a terminal, lines elsewhere.
pub(super) struct Progress {
    bar: ProgressBar,
    size: u64,
    /// The end of a line, after the bytes.
    verb: &'static str,
    /// The time of the next line, if the bar is hidden.
    next_line: Cell<Instant>,
}

impl Progress {
    pub(super) fn new(size: u64, verb: &'static str) -> Self {
        let bar = match stderr().is_terminal() {
            true => ProgressBar::new(size),
            false => ProgressBar::hidden(),
        };
        let template = "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            bar,
            size,
            verb,
            next_line: Cell::new(Instant::now() + LINE_EVERY),
        }
    }

    pub(super) fn reached(&self, bytes: u64) {
        self.bar.set_position(bytes);
        if self.bar.is_hidden() && Instant::now() >= self.next_line.get() {
            self.next_line.set(Instant::now() + LINE_EVERY);
            complain!(
                "brasserie: {} of {} {}",
                readable_bytes(bytes),
                readable_bytes(self.size),
                self.verb
            );
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
