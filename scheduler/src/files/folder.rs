//! Reads the files that the configuration in force names, from its folder into the store, and again when they have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::text::printable;
use brasserie_common::time::readable_duration;
use brasserie_common::{Artifact, ArtifactId, OutputPath};
use brasserie_common_artifacts::{
    FolderLimits, OutputRefusal, StopCheck, TakeInError, TaskFolder, TaskUser,
};
use brasserie_common_config::{Config, InputSource};
use brasserie_scheduler_core::files::{ConfiguredFile, known_name};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Files;
use super::index::{FileStamp, ReadFile};
use crate::sources::InForce;

/// The time between two looks at the metadata of all files.
const LOOK: Duration = Duration::from_secs(5);
/// The same while a file changes. A changed file is read when two looks in a row see the same metadata.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The most files and folders in a folder: a look at that many takes some ten milliseconds.
const MAX_ENTRIES: u64 = 10_000;
/// The pause after a read that failed, as a multiple of its time. So a large folder that cannot be kept uses the disk a twentieth of the
/// time. A read that took less than a twentieth of the time between two looks is repeated at the next look.
const PAUSE_PER_READ: u32 = 20;
/// The most names in a path within a folder. The store takes no deeper folder.
const MAX_DEPTH: usize = FolderLimits::DEFAULT.depth;

/// The folder of the configuration.
///
/// ```text
///            there at the first look, or the copy is lost    copied
///   Absent -----------------------------------> Reading -------------> Present
///                                                ^   ^                    |
///                          still other metadata  |   |   other metadata   |
///                                                +---+--------------------+
/// ```
pub(super) struct ConfigFolder {
    files: Files,
    /// The watched config file, and its folder.
    file: (Option<PathBuf>, PathBuf),
    stop: CancellationToken,
    /// The files that have changed, with the metadata at the last look.
    changing: BTreeMap<PathBuf, FileStamp>,
    /// The files that could not be read, with their metadata then. They are read again after that time, or when they have changed.
    refused: BTreeMap<PathBuf, (FileStamp, Instant)>,
}

/// A file that the configuration names, and that exists.
pub(super) struct Found {
    /// The path without links, below the folder.
    below: PathBuf,
    is_folder: bool,
    stamp: FileStamp,
    /// The bytes of all its files.
    size: u64,
}

/// The state of a file at a look.
pub(super) enum Look {
    Known(ConfiguredFile),
    /// It has changed, and may still change.
    Changing,
    ToRead(Found),
}

impl ConfigFolder {
    pub(super) fn new(
        files: Files,
        file: (Option<PathBuf>, PathBuf),
        stop: CancellationToken,
    ) -> Self {
        ConfigFolder {
            files,
            file,
            stop,
            changing: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    pub(super) async fn watch(mut self, mut in_force: watch::Receiver<Option<InForce>>) {
        loop {
            let now = in_force.borrow_and_update().clone();
            let looked = tokio::task::spawn_blocking(move || {
                let is_settled = now.is_none_or(|now| self.look(&now));
                (self, is_settled)
            });
            let Ok((own, is_settled)) = looked.await else {
                // The panic is in the log. The files that are known stay known.
                return std::future::pending().await;
            };
            self = own;
            let wait = match is_settled {
                true => LOOK,
                false => LOOK_AGAIN,
            };
            tokio::select! {
                changed = in_force.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = sleep(wait) => {}
            }
        }
    }

    /// Looks at all files, and reads those that are new or have changed. Returns false if some may still change.
    pub(super) fn look(&mut self, in_force: &InForce) -> bool {
        let names = names_in(in_force.config());
        let (file, folder) = &self.file;
        let folder = in_force.folder(file.as_deref(), folder).to_owned();
        let is_named = |path: &PathBuf| names.iter().any(|name| *path == folder.join(&**name));
        self.changing.retain(|path, _| is_named(path));
        self.refused.retain(|path, _| is_named(path));
        let mut states = BTreeMap::new();
        let (mut to_read, mut is_settled) = (Vec::new(), true);
        for name in names {
            let state = match self.look_at(&folder, &name) {
                Look::Known(state) => state,
                Look::Changing => {
                    is_settled = false;
                    ConfiguredFile::Reading
                }
                Look::ToRead(found) => {
                    let before = self.files.0.names.lock().configured().get(&name).cloned();
                    to_read.push((Arc::clone(&name), found));
                    // A file that cannot be read stays so until it can.
                    let failed = before.filter(|it| matches!(it, ConfiguredFile::Unusable(_)));
                    failed.unwrap_or(ConfiguredFile::Reading)
                }
            };
            states.insert(name, state);
        }
        let configured = self.files.0.names.lock().configure(&folder, states);
        self.warn_of_index(configured);
        self.files.tell();
        for (name, found) in to_read {
            if self.stop.is_cancelled() {
                break;
            }
            is_settled &= self.read(&folder, &name, &found);
            self.files.tell();
        }
        is_settled
    }

    fn warn_of_index(&self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!("{}", self.files.cannot_record(&error));
        }
    }

    pub(super) fn look_at(&mut self, folder: &Path, name: &str) -> Look {
        let path = folder.join(name);
        let found = match find(folder, name) {
            Ok(Some(found)) => found,
            Ok(None) => return Look::Known(ConfiguredFile::Absent),
            Err(why) => return Look::Known(ConfiguredFile::Unusable(why)),
        };
        let names = self.files.0.names.lock();
        let last = names.last_read(&path);
        let before = names.configured().get(name).cloned();
        drop(names);
        if let Some(state @ ConfiguredFile::Unusable(_)) = &before
            && let Some((stamp, until)) = self.refused.get(&path)
            && *stamp == found.stamp
            && Instant::now() < *until
        {
            return Look::Known(state.clone());
        }
        // A file that has just come may still be written.
        let is_new = before == Some(ConfiguredFile::Absent);
        match last {
            Some(last) if last.stamp == found.stamp => {
                self.changing.remove(&path);
                match self.files.has(last.artifact.id) {
                    true => Look::Known(ConfiguredFile::Present(last.artifact)),
                    false => Look::ToRead(found),
                }
            }
            None if !is_new && !self.changing.contains_key(&path) => Look::ToRead(found),
            Some(_) | None => match self.changing.insert(path, found.stamp) == Some(found.stamp) {
                true => Look::ToRead(found),
                false => Look::Changing,
            },
        }
    }

    /// Reads one file into the store. Returns false if it has changed meanwhile.
    fn read(&mut self, folder: &Path, name: &str, found: &Found) -> bool {
        let path = folder.join(name);
        let began = Instant::now();
        let taken = self.take(folder, found);
        let pause = began.elapsed() * PAUSE_PER_READ;
        let again = find(folder, name);
        let is_same = matches!(&again, Ok(Some(again)) if again.stamp == found.stamp);
        let state = match taken {
            Ok(artifact) if is_same => {
                let stamp = found.stamp;
                self.changing.remove(&path);
                let mut names = self.files.0.names.lock();
                let written = names.remember(path, ReadFile { stamp, artifact });
                names.set(name, ConfiguredFile::Present(artifact));
                drop(names);
                self.warn_of_index(written);
                return true;
            }
            Ok(_) | Err(TakeFailure::Changed) => {
                if let Ok(Some(again)) = again {
                    self.changing.insert(path, again.stamp);
                }
                self.files.0.names.lock().set(name, ConfiguredFile::Reading);
                return false;
            }
            Err(TakeFailure::Stopped) => return true,
            Err(TakeFailure::Refused(why)) if pause <= LOOK => ConfiguredFile::Unusable(why),
            Err(TakeFailure::Refused(why)) => {
                let until = Instant::now() + pause;
                self.refused.insert(path, (found.stamp, until));
                ConfiguredFile::Unusable(format!(
                    "{why}. The scheduler reads it again in {}, or when it has changed",
                    readable_duration(pause)
                ))
            }
        };
        self.files.0.names.lock().set(name, state);
        true
    }

    fn take(&self, folder: &Path, found: &Found) -> Result<Artifact, TakeFailure> {
        let refused = |error: io::Error| TakeFailure::Refused(error.to_string());
        let root = fs::File::open(fs::canonicalize(folder).map_err(refused)?).map_err(refused)?;
        // The archive of a folder is larger than its files.
        if let Some(why) = self.files.why_too_large(found.size) {
            return Err(TakeFailure::Refused(why));
        }
        let end = if found.is_folder { "/" } else { "" };
        let below = found.below.to_str().map(|below| format!("{below}{end}"));
        let below = below.and_then(|below| OutputPath::try_from(below.as_str()).ok());
        let below = below.ok_or_else(|| {
            let path = printable(&found.below.to_string_lossy());
            TakeFailure::Refused(format!("it is a link to `{path}`, which is no good path"))
        })?;
        let stops = || self.stop.is_cancelled();
        let task = TaskFolder {
            folder: root.as_fd(),
            user: TaskUser::of_this_process(),
            stop: StopCheck(&stops),
        };
        self.files.measure_again();
        if let Some(why) = self.files.why_no_space(found.size) {
            return Err(TakeFailure::Refused(why));
        }
        let parts = &self.files.0;
        let taken = parts.store.take_in(&parts.namespace, task, &below);
        taken.map_err(|error| match error {
            TakeInError::Stopped => TakeFailure::Stopped,
            TakeInError::Store(error) => TakeFailure::Refused(self.files.explain_write(&error)),
            TakeInError::Output { path, why } => TakeFailure::of(&path, why),
        })
    }
}

#[cfg(test)]
impl ConfigFolder {
    /// Counts a file as one of which a long read has just failed.
    pub(super) fn refuse_for_an_hour(&mut self, folder: &Path, name: &str) {
        let found = find(folder, name).ok().flatten().expect("a file");
        let until = Instant::now() + Duration::from_secs(3600);
        self.refused.insert(folder.join(name), (found.stamp, until));
    }
}

/// The reason why a file was not read.
enum TakeFailure {
    Changed,
    Stopped,
    /// The text is for people.
    Refused(String),
}

impl TakeFailure {
    fn of(path: &Path, why: OutputRefusal) -> Self {
        match why {
            OutputRefusal::Absent
            | OutputRefusal::Folder
            | OutputRefusal::File
            | OutputRefusal::Replaced
            | OutputRefusal::Changed { .. } => TakeFailure::Changed,
            OutputRefusal::Link => {
                let path = printable(&path.to_string_lossy());
                TakeFailure::Refused(format!("`{path}` is a symbolic link"))
            }
            OutputRefusal::Unreadable { owner, mode, .. } => TakeFailure::Refused(format!(
                "it belongs to user {owner}, and its mode {mode:04o} does not let everybody read it"
            )),
            why => TakeFailure::Refused(why.to_string()),
        }
    }
}

/// Returns the names of all files that the configuration's jobs have as inputs.
fn names_in(config: &Config) -> Vec<Arc<str>> {
    let inputs = config.jobs.iter().flat_map(|job| &job.inputs);
    let names = inputs.filter_map(|input| match &input.source {
        InputSource::File { path } => Some(Arc::from(known_name(path))),
        InputSource::Job { .. } => None,
    });
    let mut names: Vec<Arc<str>> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the names of the files that the configuration's jobs have as inputs and that are not in the folder.
pub(crate) fn absent_files(config: &Config, folder: &Path) -> BTreeSet<Arc<str>> {
    let names = names_in(config).into_iter();
    names
        .filter(|name| matches!(find(folder, name), Ok(None)))
        .collect()
}

/// Returns why the scheduler cannot give a file or folder below the folder of a config file to tasks; `None` if it can, and if nothing is
/// there.
pub fn input_fault(folder: &Path, name: &str) -> Option<String> {
    find(folder, name).err()
}

/// Finds a file below a folder, which links must not leave. Returns `None` if it does not exist. The error is for people.
fn find(folder: &Path, name: &str) -> Result<Option<Found>, String> {
    let root = fs::canonicalize(folder).map_err(|error| error.to_string())?;
    let path = match fs::canonicalize(root.join(name)) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let Ok(below) = path.strip_prefix(&root) else {
        let path = printable(&path.to_string_lossy()).to_string();
        return Err(format!(
            "a link leads to `{path}`, outside of the config file's folder: copy the file into that folder"
        ));
    };
    let about = fs::metadata(&path).map_err(|error| error.to_string())?;
    if !about.is_file() && !about.is_dir() {
        return Err("it is neither a file nor a folder".to_owned());
    }
    let mut stamp = StampMaker {
        root: &root,
        hasher: Sha256::new(),
        // The folder itself is no entry of it.
        left: MAX_ENTRIES + 1,
        size: 0,
    };
    let added = stamp.add(&path, &about, 0);
    added.map_err(|error| error.to_string())?;
    Ok(Some(Found {
        below: below.to_owned(),
        is_folder: about.is_dir(),
        size: stamp.size,
        stamp: FileStamp(ArtifactId(stamp.hasher.finalize().into())),
    }))
}

struct StampMaker<'a> {
    /// The folder of the configuration.
    root: &'a Path,
    hasher: Sha256,
    /// The number of entries that may follow.
    left: u64,
    /// The bytes of all files so far.
    size: u64,
}

impl StampMaker<'_> {
    /// Adds a file, or a folder with everything in it. `depth` is the number of names on the path to it.
    fn add(&mut self, path: &Path, about: &Metadata, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!(
                "the folder has folders in folders more than {MAX_DEPTH} levels deep: pack it into an archive"
            )));
        }
        let kind = about.file_type();
        if !kind.is_file() && !kind.is_dir() {
            let below = path.strip_prefix(self.root).unwrap_or(path);
            let below = printable(&below.to_string_lossy()).to_string();
            return Err(io::Error::other(match kind.is_symlink() {
                true => format!("`{below}` is a symbolic link: copy the file in its place"),
                false => format!("`{below}` is neither a file nor a folder: remove it"),
            }));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            io::Error::other(format!(
                "the folder has more than {MAX_ENTRIES} files and folders: pack them into an archive"
            ))
        })?;
        self.hasher.update(path.as_os_str().as_encoded_bytes());
        for number in [
            about.dev(),
            about.ino(),
            about.len(),
            u64::from(about.mode()),
        ] {
            self.hasher.update(number.to_le_bytes());
        }
        for time in [
            about.mtime(),
            about.mtime_nsec(),
            about.ctime(),
            about.ctime_nsec(),
        ] {
            self.hasher.update(time.to_le_bytes());
        }
        if about.is_file() {
            self.size = self.size.saturating_add(about.len());
        }
        if about.is_dir() {
            // One more than may follow is an error, whichever ones they are.
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            let entries = fs::read_dir(path)?.take(most.saturating_add(1));
            let mut paths = entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<Vec<PathBuf>>>()?;
            paths.sort_unstable();
            for path in paths {
                let about = fs::symlink_metadata(&path)?;
                self.add(&path, &about, depth + 1)?;
            }
        }
        Ok(())
    }
}
