//! Fetches all outputs of a job, or of one of its tasks, into a folder for each node.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, Result};
use brasserie_common::file_name::file_name;
use brasserie_common::text::{counted, readable_bytes};
use brasserie_common::{Artifact, OutputPath};
use brasserie_thrift::generated::brasserie::ListedOutput;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{Fetch, GetArgs, Place, Progress, Replaces, Transfers, find_any, wanted_of};
use crate::CommandEnding;
use crate::commands::artifact::outputs::artifact_of;
use crate::connection::Connection;
use crate::failure::{Failure, one_line};
use crate::output::{complain, printable};
use crate::worker_credentials::WorkerCredentials;

/// The most failures, and the most problems with copies, that are named in text.
const MAX_NAMED: usize = 20;

/// The result for one output.
enum OutputResult {
    /// It was fetched. The problems are those of other copies.
    Written(Vec<String>),
    /// A file or folder with this content is there already.
    Present,
}

/// The results so far.
#[derive(Default)]
struct Results {
    written: u64,
    bytes: u64,
    present: u64,
    /// The outputs that are not there, each with the reason.
    failed: Vec<(ListedOutput, String)>,
    /// The outputs that were not tried any more, because the disk of this machine is full.
    untried: usize,
    /// Why copies of outputs that are there now were not good.
    problems: Vec<String>,
}

pub(super) async fn get(args: &GetArgs, connection: &Connection) -> Result<CommandEnding> {
    let to = folder_of(args)?;
    let found = find_any(connection, args).await?;
    if !to.is_dir() {
        fs::create_dir(&to).with_context(|| format!("cannot create {}", to.display()))?;
    }
    let artifacts = found.outputs().iter().map(artifact_of);
    let sizes = artifacts.map(|artifact| artifact.map_or(0, |artifact| artifact.size));
    let all = sizes.fold(0, u64::saturating_add);
    let progress = Progress::new(all, "have arrived");
    let transfers = Transfers::new(found.cluster(), WorkerCredentials::of(connection).await?);
    let (mut results, mut before) = (Results::default(), 0);
    let misses = RefCell::default();
    for (number, output) in found.outputs().iter().enumerate() {
        let fetch = Fetch {
            transfers: &transfers,
            artifact: match artifact_of(output) {
                Ok(artifact) => artifact,
                Err(error) => {
                    results.failed.push((output.clone(), one_line(&error)));
                    continue;
                }
            },
            progress: &progress,
            before,
            misses: &misses,
        };
        let size = fetch.artifact.size;
        match get_one(&fetch, output, (&to, args.force), found.cluster()).await {
            Ok(OutputResult::Written(problems)) => {
                results.written += 1;
                results.bytes = results.bytes.saturating_add(size);
                results.problems.extend(problems);
            }
            Ok(OutputResult::Present) => results.present += 1,
            Err(error) => {
                results.failed.push((output.clone(), one_line(&error)));
                if is_full(&error) {
                    results.untried = found.outputs().len() - number - 1;
                    break;
                }
            }
        }
        before = before.saturating_add(size);
        progress.reached(before);
    }
    progress.end();
    results.report(args, &to)
}

/// Returns whether this machine's disk takes no more bytes.
fn is_full(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    let kind = causes.find_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    matches!(
        kind,
        Some(
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
        )
    )
}

/// Returns the folder for all outputs. It exists, or can be created.
fn folder_of(args: &GetArgs) -> Result<PathBuf> {
    let Some(to) = &args.to else {
        let failure = Failure::usage("several outputs need a folder");
        let remedy = "Name one with --to DIR, or name one output: JOB NODE PATH";
        return Err(failure.remedy(remedy).into());
    };
    let shown = to.display();
    if to.is_dir() {
        return Ok(to.clone());
    }
    if fs::symlink_metadata(to).is_ok() {
        let failure = Failure::usage(format!("{shown} is not a folder"));
        let remedy = "Several outputs need a folder: name another with --to";
        return Err(failure.remedy(remedy).into());
    }
    let above = to.parent().filter(|above| *above != Path::new(""));
    if !above.unwrap_or(Path::new(".")).is_dir() {
        let failure = Failure::usage(format!("cannot create {shown}: there is no such folder"));
        return Err(failure
            .remedy("Create the folder above it, or name another with --to")
            .into());
    }
    Ok(to.clone())
}

async fn get_one(
    fetch: &Fetch<'_>,
    output: &ListedOutput,
    (to, force): (&Path, bool),
    cluster: &str,
) -> Result<OutputResult> {
    let wanted = wanted_of(cluster, output)?;
    let path = place_of(to, output)?;
    check_around(to, &path)?;
    let there = is_there(&path, fetch.artifact).await;
    if let Ok(true) = there {
        return Ok(OutputResult::Present);
    }
    if wanted.sources.is_empty() {
        return Err(wanted.without_copy());
    }
    let parent = path.parent().unwrap_or(to).to_owned();
    let place = Place {
        path,
        parent,
        replaces: match force {
            true => Replaces::FileOrFolder,
            false => Replaces::Nothing,
        },
    };
    place.check_free().map_err(|error| match there {
        Err(why) => error.context(format!("cannot compare what is there: {why}")),
        Ok(_) => error,
    })?;
    let made = fs::create_dir_all(&place.parent);
    made.map_err(|error| place.failure(error))?;
    let fetched = fetch.write_to(&place, &wanted).await?;
    Ok(OutputResult::Written(fetched.problems))
}

/// Returns the place of an output. The names of nodes are those of folders below the inputs of tasks; paths of outputs stay within the folder.
fn place_of(to: &Path, output: &ListedOutput) -> Result<PathBuf> {
    let node = file_name(output.node.as_deref().unwrap_or_default());
    let path = OutputPath::try_from(output.path.as_deref().unwrap_or_default());
    let path = path.context("the scheduler sent an output without a good path")?;
    Ok(to.join(node).join(path.parts().collect::<PathBuf>()))
}

/// Errors if something else than a folder is in the place of a folder around an output. A link may lead to where others write.
fn check_around(to: &Path, path: &Path) -> Result<()> {
    let around = path.ancestors().skip(1);
    for folder in around.take_while(|folder| *folder != to) {
        if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
            let failure = Failure::new(format!("{} is no folder", folder.display()));
            let remedy = "Remove it, or name another folder with --to";
            return Err(failure.remedy(remedy).into());
        }
    }
    Ok(())
}

/// Returns whether a file or folder has the content of an artifact. Errors if something is there that cannot be read as an output.
async fn is_there(path: &Path, artifact: Artifact) -> io::Result<bool> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        about => about?,
    };
    if about.is_file() && about.len() != artifact.size {
        return Ok(false);
    }
    let path = path.to_owned();
    let there = spawn_blocking(move || brasserie_worker::local_artifact(&path));
    Ok(there.await?? == artifact)
}

impl Results {
    fn report(&self, args: &GetArgs, to: &Path) -> Result<CommandEnding> {
        let text =
            |text: &Option<String>| printable(text.as_deref().unwrap_or_default()).to_string();
        for (output, why) in self.failed.iter().take(MAX_NAMED) {
            let (node, path) = (text(&output.node), text(&output.path));
            complain!("brasserie: `{path}` of node `{node}`: {}", printable(why));
        }
        for problem in self.problems.iter().take(MAX_NAMED) {
            complain!("brasserie: {problem}; another copy was good");
        }
        let more = self.failed.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            complain!("brasserie: {more} more outputs failed; `--json` lists all of them");
        }
        let to = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
        let present = match self.present {
            0 => String::new(),
            present => format!(", {present} already there"),
        };
        let untried = match self.untried {
            0 => String::new(),
            untried => format!(", {untried} not tried"),
        };
        let failed = match self.failed.len() {
            0 => String::new(),
            failed => format!(
                ", {failed} failed{untried}. `brasserie artifact list` shows the states of outputs; the same command tries again"
            ),
        };
        let sentence = format!(
            "{}: {} written with {}{present}{failed}",
            to.display(),
            counted(self.written, "output"),
            readable_bytes(self.bytes)
        );
        let failures = self.failed.iter().map(|(output, why)| -> Value {
            json!({ "node": output.node, "path": output.path, "why": why })
        });
        let outcome = match self.failed.is_empty() {
            true => "written",
            false => "incomplete",
        };
        let document = json!({
            "job": args.job, "node": args.node, "outcome": outcome, "folder": to.display().to_string(),
            "written": self.written, "bytes": self.bytes, "present": self.present, "failed": failures.collect::<Vec<_>>(),
            "untried": self.untried, "problems": self.problems,
        });
        args.ask.say(&sentence, &document)?;
        Ok(match self.failed.is_empty() {
            true => CommandEnding::Success,
            false => CommandEnding::Failure,
        })
    }
}
