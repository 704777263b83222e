//! Opens and locks the data directory of a run, which is the user's or a temporary one, and tells the user how to use it afterwards.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use brasserie_common_runtime::files::{DataDir, DataDirError, Owner};
use brasserie_common_runtime::telemetry;
use brasserie_scheduler::SchedulerHandle;
use brasserie_scheduler::store::{MARKER_FILE, STORE_FILE};
use brasserie_worker::directory::{JOBS, USERS};
use sha2::{Digest, Sha256};

use super::output::PrintedOutput;
use super::settings::RunConfig;
use crate::CommandEnding;
use crate::data_dir::{RunRecord, not_a_directory, scheduler_folder, worker_folder};
use crate::failure::Failure;
use crate::output::{duration, shell_word};
use crate::temporary::TemporaryFolder;

/// The data directory of a run, locked while the run lives.
pub(super) struct RunDirectory {
    folder: Folder,
    keep: Keep,
    /// The record that other commands read; `None` until the scheduler has started.
    record: Option<RunRecord>,
    /// Whether no task of this run has started.
    nothing_ran: bool,
}

enum Folder {
    /// The path, and what reserves it for this run until [`RunDirectory::release`].
    Given(PathBuf, Option<Reserved>),
    Temporary(TemporaryFolder),
}

/// The lock and the name of the path are held as long as this value.
struct Reserved(
    #[expect(dead_code, reason = "held, not read")] DataDir,
    #[expect(dead_code, reason = "held, not read")] UnixListener,
);

/// The choice whether a temporary folder is kept after success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// `--keep`.
    Always,
    UnlessSuccess,
}

impl Keep {
    pub(super) fn from_flag(keep: bool) -> Self {
        match keep {
            true => Keep::Always,
            false => Keep::UnlessSuccess,
        }
    }
}

/// Time for which a run waits for its directory. The processes of a killed run hold it until their keeper has ended them, within a second.
const WAITS_FOR_DIRECTORY: Duration = Duration::from_secs(3);
/// Time between two tries to lock the directory.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Opens and locks the directory. Waits a moment for another run in it, which may have been killed and be about to end.
async fn lock(path: &Path) -> Result<DataDir, DataDirError> {
    let started = Instant::now();
    let mut has_told = false;
    loop {
        let error = match DataDir::open(path) {
            Err(error @ DataDirError::InUse { .. }) if started.elapsed() < WAITS_FOR_DIRECTORY => {
                error
            }
            opened => return opened,
        };
        if let (DataDirError::InUse { path, holder }, false) = (error, has_told) {
            telemetry::print_error(&format!(
                "brasserie: {} is in use by {holder}; waiting up to {} for its end",
                path.display(),
                duration(WAITS_FOR_DIRECTORY)
            ));
            has_told = true;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

/// Converts the refusal of a directory to a failure. A directory in use may become free; every other refusal is a usage error.
fn unusable(refusal: DataDirError) -> anyhow::Error {
    match refusal {
        DataDirError::InUse { .. } => refusal.into(),
        DataDirError::Create { .. }
        | DataDirError::Use { .. }
        | DataDirError::Foreign { .. }
        | DataDirError::Strange { .. }
        | DataDirError::OfAnother { .. }
        | DataDirError::Writable { .. } => Failure::usage(refusal.to_string()).into(),
    }
}

/// Returns the reason why the directory can have no failed task; `None` if it may have some. Changes nothing.
pub(super) fn nothing_to_retry(directory: &Path) -> Option<String> {
    let is_used = has_store(directory) || RunRecord::exists(directory);
    (!is_used).then(|| {
        format!(
            "--retry-failed: no run has used {}, so nothing in it has failed. Name the --data-dir of an earlier run, or leave \
             --retry-failed out",
            directory.display()
        )
    })
}

/// Returns whether an earlier run has left its store or the trace of one. The scheduler judges what it finds there.
fn has_store(directory: &Path) -> bool {
    let folder = scheduler_folder(directory);
    let has_records = |store: std::fs::Metadata| store.len() > 0;
    folder.join(MARKER_FILE).exists() || folder.join(STORE_FILE).metadata().is_ok_and(has_records)
}

/// Errors if the scheduler or the worker of the run would refuse its folder, for example because another program has used it.
fn check_folders(directory: &Path) -> Result<()> {
    for (folder, owner) in [
        (scheduler_folder(directory), Owner::Scheduler),
        (worker_folder(directory), Owner::Worker),
    ] {
        if folder.exists() {
            DataDir::check(&folder, owner).map_err(unusable)?;
        }
    }
    Ok(())
}

/// Errors if an earlier run has used the directory and its store is gone: all that the run has completed would run again.
fn check_store(directory: &Path) -> Result<()> {
    if has_store(directory) || !RunRecord::exists(directory) {
        return Ok(());
    }
    let store = scheduler_folder(directory).join(STORE_FILE);
    let what = match store.exists() {
        true => "is empty",
        false => "is gone",
    };
    let message = format!(
        "an earlier run has used {}, and its store, {}, {what}: the tasks that it has completed would run again",
        directory.display(),
        store.display()
    );
    let remedy = "Restore the whole directory from a backup, or choose another --data-dir, where every task runs again";
    Err(Failure::usage(message).remedy(remedy).into())
}

/// Binds a name that belongs to the path until this process ends. Errors if a run that began under the path continues: its lock may have
/// been removed, moved or unmounted with the directory, while its tasks still run. The name is valid within one network namespace. It
/// includes the mount namespace, because the same path in another one is another directory.
fn hold_path(path: &Path) -> Result<UnixListener> {
    let mounts = std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    let place = mounts.join(path.strip_prefix("/").unwrap_or(path));
    let digest = Sha256::digest(place.as_os_str().as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("brasserie-run-{}-{digest}", nix::unistd::getuid());
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "a run that began in {} goes on, although that directory was removed, moved or unmounted since: its tasks would run twice. End \
             that run first, or choose another --data-dir",
            path.display()
        ),
        _ => anyhow!(error).context("cannot bind the name that belongs to the data directory"),
    })
}

impl RunDirectory {
    pub(super) async fn open(path: Option<&Path>, keep: Keep) -> Result<Self> {
        let folder = match path {
            Some(path) if path.is_file() => return Err(not_a_directory(path).into()),
            Some(path) => {
                let folder = lock(path).await.and_then(|folder| folder.of(Owner::Run));
                let folder = folder.map_err(unusable)?;
                check_folders(folder.path())?;
                check_store(folder.path())?;
                let name = hold_path(folder.path())?;
                Folder::Given(folder.path().to_owned(), Some(Reserved(folder, name)))
            }
            None => Folder::Temporary(
                tempfile::Builder::new()
                    .prefix("brasserie-run-")
                    .tempdir()
                    .context("cannot make a temporary folder for statuses and logs; --data-dir DIR names another")?
                    .into(),
            ),
        };
        Ok(RunDirectory {
            folder,
            keep,
            record: None,
            nothing_ran: false,
        })
    }

    /// Notes that no task of this run has started, so that a temporary folder need not be kept.
    pub(super) fn nothing_ran(&mut self) {
        self.nothing_ran = true;
    }

    /// Lets other commands find the scheduler of the run. `file` is the config file as the command line names it.
    pub(super) fn record(
        &mut self,
        file: &Path,
        run: &RunConfig,
        scheduler: &SchedulerHandle,
    ) -> Result<()> {
        let path = self.path();
        let arguments = std::env::args_os()
            .skip(2)
            .map(|argument| match argument == file {
                true => run.file.clone().into_os_string(),
                false => argument,
            });
        let record = RunRecord::new(
            (scheduler.thrift_address(), scheduler.id()),
            (&run.file, &run.text),
            command_to_go_on(&path, arguments),
        );
        // A missing or damaged record does not describe an earlier run.
        let earlier = RunRecord::read(&path).ok();
        for note in earlier
            .iter()
            .flat_map(|earlier| record.differences(earlier))
        {
            telemetry::print_error(&format!("brasserie: {note}"));
        }
        record.write(&path)?;
        self.record = Some(record);
        Ok(())
    }

    pub(super) fn path(&self) -> PathBuf {
        match &self.folder {
            Folder::Given(path, _) => path.clone(),
            Folder::Temporary(folder) => folder.path().to_owned(),
        }
    }

    /// Returns the path if the folder is kept after this ending.
    pub(super) fn kept_after(&self, ending: CommandEnding) -> Option<PathBuf> {
        let goes = matches!(self.folder, Folder::Temporary(_))
            && self.keep == Keep::UnlessSuccess
            && (ending == CommandEnding::Success || self.nothing_ran)
            && !self.has_files_of_tasks();
        (!goes).then(|| self.path())
    }

    /// Returns whether tasks have left files in the working directories that the worker has made for them. They may be results.
    fn has_files_of_tasks(&self) -> bool {
        let worker = worker_folder(&self.path());
        has_files(&worker.join(JOBS)) || has_files(&worker.join(USERS))
    }

    /// Writes the record of the ended run, and lets another run use the directory. Call it once no task and no program of this run is
    /// alive. The rest of the output may wait for a reader for ever.
    pub(super) fn release(&mut self, ending: CommandEnding, has_failed_tasks: bool) -> Result<()> {
        if let Some(path) = self.kept_after(ending)
            && let Some(record) = &self.record
        {
            let command = record.command_to_go_on().unwrap_or_default();
            let next = next_command(command, ending, has_failed_tasks);
            record.clone().ended(next).write(&path)?;
        }
        if let Folder::Given(_, reserved) = &mut self.folder {
            *reserved = None;
        }
        Ok(())
    }

    /// Removes the folder, or prints its path and the commands that use it.
    pub(super) fn close(
        self,
        ending: CommandEnding,
        has_failed_tasks: bool,
        output: PrintedOutput,
    ) -> Result<()> {
        let Some(path) = self.kept_after(ending) else {
            let all = match output {
                PrintedOutput::All => "",
                PrintedOutput::None | PrintedOutput::Failed => "; --output all prints it",
            };
            if !self.nothing_ran {
                telemetry::print_error(&format!(
                    "brasserie: task output is not kept; --data-dir DIR or --keep keeps it for `brasserie logs`{all}"
                ));
            }
            return match self.folder {
                Folder::Temporary(folder) => {
                    folder.close().context("cannot remove the temporary folder")
                }
                Folder::Given(..) => Ok(()),
            };
        };
        let is_kept_for_files = matches!(self.folder, Folder::Temporary(_))
            && self.keep == Keep::UnlessSuccess
            && ending == CommandEnding::Success
            && self.has_files_of_tasks();
        if is_kept_for_files {
            telemetry::print_error(&format!(
                "brasserie: tasks have left files in {}, so the temporary folder is not removed; `\"cwd\": \".\"` in a job makes its tasks \
                 write beside the config file",
                worker_folder(&path).join(JOBS).display()
            ));
        }
        if let Folder::Temporary(folder) = self.folder {
            folder.keep();
        }
        let shown = shell_word(&path.to_string_lossy());
        telemetry::print_error(&format!(
            "brasserie: statuses and output are kept in {}; to show output: brasserie logs --data-dir {shown}",
            path.display()
        ));
        let Some(record) = self.record else {
            return Ok(());
        };
        let command = record.command_to_go_on().unwrap_or_default();
        if let Some(command) = next_command(command, ending, has_failed_tasks) {
            let what = match has_failed_tasks {
                true => "to run the failed tasks again",
                false => "to go on",
            };
            telemetry::print_error(&format!("brasserie: {what}: {command}"));
        }
        Ok(())
    }
}

/// Returns whether the folder or a folder in it has an entry that is no folder. An unreadable folder counts as one with files.
fn has_files(folder: &Path) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return true,
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => return true,
            }
        }
    }
    false
}

/// Returns the command that continues a run after this ending; `None` if nothing is left to do. `command` is the run's own.
fn next_command(command: &str, ending: CommandEnding, has_failed_tasks: bool) -> Option<String> {
    match ending {
        CommandEnding::Success => None,
        _ if has_failed_tasks => Some(format!("{command} --retry-failed")),
        _ => Some(command.to_owned()),
    }
}

/// Returns the command line that continues the run in this directory. `arguments` are those after `run`.
fn command_to_go_on(directory: &Path, arguments: impl Iterator<Item = OsString>) -> String {
    let mut words = vec!["brasserie".to_owned(), "run".to_owned()];
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--data-dir" => drop(arguments.next()),
            "--failed-to" => {
                words.push(argument);
                words.extend(arguments.next().map(absolute));
            }
            // The file's path is absolute, so `--` is not needed.
            "--keep" | "--retry-failed" | "--" => {}
            other if other.starts_with("--data-dir=") => {}
            other => match other.strip_prefix("--failed-to=") {
                Some(file) => words.push(format!("--failed-to={}", absolute(file.to_owned()))),
                None => words.push(shell_word(other)),
            },
        }
    }
    words.push("--data-dir".to_owned());
    words.push(shell_word(&directory.to_string_lossy()));
    words.join(" ")
}

/// Returns the absolute path of a file as a shell word, because a user may repeat the command line in another folder.
fn absolute(file: String) -> String {
    let path = std::path::absolute(&file);
    shell_word(&path.map_or(file, |path| path.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_go_on_is_the_same_for_the_directory() {
        let of = |arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from);
            command_to_go_on(Path::new("/a b"), arguments)
        };
        let want = "brasserie run --no-retry /c.json --data-dir '/a b'";
        assert_eq!(of(&["--no-retry", "/c.json"]), want);
        assert_eq!(of(&["--no-retry", "--data-dir", "x", "/c.json"]), want);
        assert_eq!(
            of(&["--data-dir=x", "--no-retry", "--retry-failed", "/c.json"]),
            want
        );
        assert_eq!(of(&["--keep", "--no-retry", "--", "/c.json"]), want);
        let here = std::env::current_dir().unwrap();
        let failed = shell_word(&here.join("f.jsonl").to_string_lossy());
        let end = "/c.json --data-dir '/a b'";
        assert_eq!(
            of(&["--failed-to", "f.jsonl", "/c.json"]),
            format!("brasserie run --failed-to {failed} {end}")
        );
        assert_eq!(
            of(&["--failed-to=f.jsonl", "/c.json"]),
            format!("brasserie run --failed-to={failed} {end}")
        );
    }
}
