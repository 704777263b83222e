//! `brasserie artifact put`: uploads a file to the scheduler, which gives it to tasks that have it as an input.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use brasserie_common::text::readable_bytes;
use brasserie_common::{Artifact, ArtifactForm, ArtifactId};
use brasserie_thrift::generated::brasserie::{BrasseriePutFileArgs, FileUpload};
use clap::builder::NonEmptyStringValueParser;
use nix::fcntl::OFlag;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::files::find_files;
use super::get::Progress;
use super::transfer::BusyWait;
use crate::CommandEnding;
use crate::connection::{AskArgs, Connection, block_on};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::{complain, printable};

/// The bytes of one piece, as of transfers between workers.
const PIECE: usize = 2 << 20;
/// The pause after the scheduler was busy.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie artifact put dims.csv                        for inputs such as {\"file\": \"dims.csv\"}
  brasserie artifact put /data/new.csv --name dims.csv   replaces it
  brasserie artifact put run.sh --name tools/run.sh      tasks find the file `run.sh`, which they may execute if you may")]
pub(super) struct PutArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The name under which jobs find the file [default: its own name].
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn run(args: &PutArgs) -> Result<CommandEnding> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => own_name(&args.path)?,
    };
    let mut file = LocalFile::open(&args.path)?;
    let artifact = file.hash()?;
    block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let connection = args.ask.connect_for_changes()?;
        tokio::select! {
            // The scheduler forgets the upload after a minute without a piece.
            () = interrupts.next() => return Ok(CommandEnding::Interrupted),
            put = put(&connection, &name, (&mut file, artifact)) => put?,
        }
        let sentence = format!(
            "{}: uploaded, {}, SHA-256 {}",
            printable(&name),
            readable_bytes(artifact.size),
            artifact.id
        );
        // The upload is on disk, whether or not the scheduler answers this.
        let files = find_files(&connection, &name).await.unwrap_or_default();
        let is_shadowed = files.has_configured();
        let document = json!({
            "file": name, "outcome": "uploaded", "bytes": artifact.size, "sha256": artifact.id.to_string(), "shadowed": is_shadowed,
        });
        args.ask.say(&sentence, &document)?;
        if is_shadowed {
            complain!(
                "brasserie: the config file's folder has a file `{}`, too: jobs of the config file get that one, and only submitted jobs this one",
                printable(&name)
            );
        }
        Ok(CommandEnding::Success)
    })?
}

fn own_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| {
        let failure = Failure::usage(format!("{} has no name that jobs can use", path.display()));
        failure.remedy("Name it with --name")
    })?;
    Ok(name.to_owned())
}

/// A file that is uploaded.
struct LocalFile {
    path: PathBuf,
    file: File,
    form: ArtifactForm,
}

impl LocalFile {
    fn open(path: &Path) -> Result<Self> {
        let unreadable = |why: &dyn std::fmt::Display| {
            Failure::new(format!("cannot read {}: {why}", path.display()))
        };
        // Does not wait for the writer of a pipe.
        let mut options = File::options();
        let opened = options
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path);
        let file = opened.map_err(|error| unreadable(&error))?;
        let about = file.metadata().map_err(|error| unreadable(&error))?;
        if about.is_dir() {
            let remedy = "Pack the folder into an archive, and upload that";
            return Err(unreadable(&"it is a folder").remedy(remedy).into());
        }
        if !about.is_file() {
            return Err(unreadable(&"it is no plain file").into());
        }
        let form = match about.permissions().mode() & 0o100 {
            0 => ArtifactForm::File,
            _ => ArtifactForm::Executable,
        };
        let path = path.to_owned();
        Ok(LocalFile { path, file, form })
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("cannot read {}: {error}", self.path.display()))
    }

    /// Reads the whole file, and returns what it is.
    fn hash(&mut self) -> Result<Artifact, Failure> {
        let (mut hasher, mut size) = (Sha256::new(), 0);
        let mut buffer = vec![0; PIECE];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    size += count as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        // The files of `/proc` and `/sys` have no size, and another content at each read.
        let stated = self.file.metadata().map_err(|error| self.failed(&error))?;
        if stated.len() != size {
            let (path, stated) = (self.path.display(), stated.len());
            let text = format!(
                "the size of {path} is not reliable: the file system says {stated} bytes, and {size} were read"
            );
            return Err(Failure::new(text)
                .remedy("Copy the file when nobody writes to it, and upload the copy"));
        }
        Ok(Artifact {
            id: ArtifactId(hasher.finalize().into()),
            size,
            form: self.form,
        })
    }

    /// Reads the piece from a byte on.
    fn piece(&mut self, offset: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let read = self
            .file
            .seek(std::io::SeekFrom::Start(offset))
            .and_then(|_| (&self.file).take(PIECE as u64).read_to_end(&mut bytes));
        read.map_err(|error| self.failed(&error))?;
        Ok(bytes)
    }
}

async fn put(
    connection: &Connection,
    name: &str,
    (file, artifact): (&mut LocalFile, Artifact),
) -> Result<()> {
    let progress = Progress::new(artifact.size, "are sent");
    let mut wait = BusyWait::new(Instant::now());
    let (mut upload, mut offset, mut bytes) = (0, 0, Vec::new());
    loop {
        let arguments = BrasseriePutFileArgs {
            name: name.to_owned(),
            artifact: artifact.into(),
            upload,
            offset: i64::try_from(offset)?,
            bytes,
        };
        let done = match connection.put_file(&arguments).await? {
            Ok(FileUpload {
                done: Some(true), ..
            }) => true,
            Ok(next) => {
                upload = next.upload.unwrap_or(0);
                offset = u64::try_from(next.offset.unwrap_or(0))?;
                false
            }
            Err(refused) if refused.busy == Some(true) && !wait.is_over(Instant::now()) => {
                tokio::time::sleep(BUSY_PAUSE).await;
                false
            }
            Err(refused) => {
                progress.end();
                let why = printable(&refused.message.unwrap_or_default());
                bail!("the scheduler has not taken the file: {why}");
            }
        };
        if done {
            progress.end();
            return Ok(());
        }
        progress.reached(offset);
        wait.reached(offset, Instant::now());
        bytes = match upload {
            0 => Vec::new(),
            _ => file.piece(offset)?,
        };
        if upload != 0 && bytes.is_empty() {
            progress.end();
            let shown = file.path.display();
            bail!("{shown} has become shorter while it was read: upload it again");
        }
    }
}
