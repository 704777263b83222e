//! Enforces the retention of output files: counts their size, and removes the oldest on a thread.

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use brasserie_common_runtime::Clock;
use brasserie_common_runtime::files::open_own;
use parking_lot::{Condvar, Mutex};

use super::OutputConfig;
use super::names::is_own;
use crate::disk_reserve;

/// The period between checks for old files: retention is in days, so a minute's delay does not matter.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
/// The mode of a folder that only its owner may enter.
const PRIVATE: u32 = 0o700;
/// The largest number of old files that one scan remembers: some megabytes. The next scan follows when all of them are removed.
const REMEMBERED: usize = 16_384;
/// The block size. A file counts as whole blocks, as it does on most disks, so the total also bounds the number of files.
const DISK_BLOCK: u64 = 4096;

/// The largest number of folders that a log line names.
const MAX_NAMED: usize = 10;

/// The error if no finished file is left to remove, and the files that are being written have reached the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all files together may take {0} bytes (--output-max-size)")]
pub(super) struct NoRoom(u64);

/// The accounting of the files on the disk.
#[derive(Debug, Default)]
struct FileLedger {
    /// The files that are being written, with the size of each on the disk.
    active: HashMap<PathBuf, u64>,
    active_bytes: u64,
    finished_bytes: u64,
    /// The files that were finished during the present scan, which must not count them again.
    walking: Option<HashSet<PathBuf>>,
    /// The folders that the last scan could not read.
    unreadable: Vec<PathBuf>,
    stage: RetentionStage,
}

/// Whether the store is in use.
///
/// ```text
/// Open --close--> Closing
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RetentionStage {
    #[default]
    Open,
    Closing,
}

/// The folder of all files. The lock is held while a file is created or removed, so that neither operation removes a folder that the
/// other needs.
pub(super) struct Keeping {
    config: OutputConfig,
    ledger: Mutex<FileLedger>,
    /// Wakes the removing thread: there is too much, or the store closes.
    wake: Condvar,
}

/// A finished file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Old {
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
}

fn wall_now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(Clock.wall().as_millis()).unwrap_or(0))
}

fn on_disk(length: u64) -> u64 {
    length.next_multiple_of(DISK_BLOCK)
}

impl Keeping {
    pub(super) fn new(config: OutputConfig) -> io::Result<Self> {
        // The folder is private like that of the log, because tasks may print secrets.
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE)
            .create(&config.dir)?;
        Ok(Keeping {
            config,
            ledger: Mutex::default(),
            wake: Condvar::new(),
        })
    }

    /// Opens a file for writing, with its folders. From now on it is not removed.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        let mut ledger = self.ledger.lock();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let opened = open_own(path, &mut options);
        match &opened {
            Ok(_) => {
                ledger.active.insert(path.to_owned(), 0);
            }
            Err(_) => remove_empty_folders(path),
        }
        opened
    }

    /// Errors if `bytes` more would use the reserve of the disk.
    pub(super) fn check_reserve(&self, bytes: u64) -> io::Result<()> {
        disk_reserve::check(&self.config.dir, bytes)
    }

    /// Reserves space for a file that grows to `length`. Finished files are removed for it.
    pub(super) fn grow(&self, path: &Path, length: u64) -> Result<(), NoRoom> {
        let mut ledger = self.ledger.lock();
        let max = self.config.retention.max_bytes;
        let before = ledger.active.get(path).copied().unwrap_or(0);
        let active = ledger.active_bytes - before + on_disk(length);
        if active > max {
            return Err(NoRoom(max));
        }
        ledger.set(path, length);
        self.wake_if_full(&ledger);
        Ok(())
    }

    /// Gives reserved space back after a failed write.
    pub(super) fn shrink(&self, path: &Path, length: u64) {
        self.ledger.lock().set(path, length);
    }

    /// Marks a file as finished. Removes a file without content.
    pub(super) fn finish(&self, path: &Path, length: u64) {
        let mut ledger = self.ledger.lock();
        ledger.set(path, 0);
        ledger.active.remove(path);
        if length == 0 {
            // If the removal fails, the file that stays is empty.
            let _ = remove(path);
            return;
        }
        ledger.finished_bytes += on_disk(length);
        if let Some(finished) = &mut ledger.walking {
            finished.insert(path.to_owned());
        }
        self.wake_if_full(&ledger);
    }

    pub(super) fn close(&self) {
        self.ledger.lock().stage = RetentionStage::Closing;
        self.wake.notify_all();
    }

    #[cfg(test)]
    pub(super) fn hold(&self) -> impl Drop + '_ {
        self.ledger.lock()
    }

    fn wake_if_full(&self, ledger: &FileLedger) {
        if self.is_full(ledger) {
            self.wake.notify_one();
        }
    }

    /// Runs the removing thread until the store is dropped.
    pub(super) fn run(&self) {
        // The files of earlier workers count from the start.
        let mut oldest = self.walk();
        loop {
            let pruned = self.prune(&mut oldest, wall_now());
            let mut ledger = self.ledger.lock();
            let until = Instant::now() + PRUNE_INTERVAL;
            let waits = |ledger: &FileLedger| pruned == Pruned::Refused || !self.is_full(ledger);
            while ledger.stage == RetentionStage::Open && waits(&ledger) {
                if self.wake.wait_until(&mut ledger, until).timed_out() {
                    break;
                }
            }
            if ledger.stage == RetentionStage::Closing {
                return;
            }
        }
    }

    /// Returns whether there is more than the retention allows, and some of it can be removed.
    fn is_full(&self, ledger: &FileLedger) -> bool {
        let all = ledger.active_bytes + ledger.finished_bytes;
        all > self.config.retention.max_bytes && ledger.finished_bytes > 0
    }

    /// Removes files that are too old or too many.
    fn prune(&self, oldest: &mut VecDeque<Old>, now: SystemTime) -> Pruned {
        let mut removed = Removed::Some;
        loop {
            let is_over = {
                let ledger = self.ledger.lock();
                if ledger.stage == RetentionStage::Closing || ledger.finished_bytes == 0 {
                    return Pruned::Enough;
                }
                self.is_full(&ledger)
            };
            if oldest.is_empty() {
                // No file of a whole list could be removed: another scan would find the same files.
                if removed == Removed::None {
                    return Pruned::Refused;
                }
                *oldest = self.walk();
                removed = Removed::None;
            }
            let Some(first) = oldest.front() else {
                return Pruned::Enough;
            };
            let age = now.duration_since(first.modified).unwrap_or_default();
            if !is_over && age <= self.config.retention.max_age {
                return Pruned::Enough;
            }
            if let Some(old) = oldest.pop_front()
                && self.remove(&old) == Removed::Some
            {
                removed = Removed::Some;
            }
        }
    }

    fn remove(&self, old: &Old) -> Removed {
        let mut ledger = self.ledger.lock();
        if ledger.active.contains_key(&old.path) {
            return Removed::None;
        }
        // A file that cannot be removed is logged, and tried again only when the next scan finds it.
        ledger.finished_bytes = ledger.finished_bytes.saturating_sub(old.bytes);
        remove(&old.path)
    }

    /// Scans all files: recounts the finished ones, and returns the oldest, in order.
    fn walk(&self) -> VecDeque<Old> {
        self.ledger.lock().walking = Some(HashSet::new());
        let mut oldest = BinaryHeap::new();
        let mut bytes = 0;
        let mut unreadable = Vec::new();
        'walk: for job in folders_in(&self.config.dir, &mut unreadable) {
            for path in folders_in(&job, &mut unreadable) {
                if self.ledger.lock().stage == RetentionStage::Closing {
                    break 'walk;
                }
                for old in entries_in(&path, &mut unreadable).filter_map(|entry| finished(&entry)) {
                    if !self.ledger.lock().counts(&old.path) {
                        continue;
                    }
                    bytes += old.bytes;
                    oldest.push(old);
                    if oldest.len() > REMEMBERED {
                        oldest.pop();
                    }
                }
            }
        }
        let mut ledger = self.ledger.lock();
        let meanwhile = ledger.walking.take().unwrap_or_default();
        bytes += meanwhile
            .iter()
            .filter_map(|path| fs::symlink_metadata(path).ok())
            .map(|about| on_disk(about.len()))
            .sum::<u64>();
        ledger.finished_bytes = bytes;
        let before = std::mem::replace(&mut ledger.unreadable, unreadable.clone());
        drop(ledger);
        if !unreadable.is_empty() && unreadable != before {
            tracing::warn!(
                "cannot read {} folders of output, so what is in them is neither counted nor removed: {}. Make them readable for the \
                 worker's user, or remove them",
                unreadable.len(),
                named(&unreadable)
            );
        }
        oldest.into_sorted_vec().into()
    }
}

impl FileLedger {
    /// Sets the size of an active file.
    fn set(&mut self, path: &Path, length: u64) {
        if let Some(bytes) = self.active.get_mut(path) {
            self.active_bytes = self.active_bytes - *bytes + on_disk(length);
            *bytes = on_disk(length);
        }
    }

    /// Returns whether the file was finished before the present scan began.
    fn counts(&self, path: &Path) -> bool {
        let finished = self.walking.as_ref();
        !self.active.contains_key(path) && finished.is_none_or(|paths| !paths.contains(path))
    }
}

/// Returns the entries of a folder. An unreadable folder has none, and is added to the list unless it has been removed meanwhile.
fn entries_in(
    folder: &Path,
    unreadable: &mut Vec<PathBuf>,
) -> impl Iterator<Item = DirEntry> + use<> {
    let entries = fs::read_dir(folder);
    if entries
        .as_ref()
        .is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
    {
        unreadable.push(folder.to_owned());
    }
    entries.into_iter().flatten().flatten()
}

fn folders_in(folder: &Path, unreadable: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    entries_in(folder, unreadable)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Returns the first of some folders, for a log line.
fn named(folders: &[PathBuf]) -> String {
    let first = folders.iter().take(MAX_NAMED);
    let mut names: Vec<String> = first.map(|path| path.display().to_string()).collect();
    if folders.len() > MAX_NAMED {
        names.push("...".to_owned());
    }
    names.join(", ")
}

fn finished(entry: &DirEntry) -> Option<Old> {
    let about = entry.metadata().ok()?;
    let is_ours = about.is_file() && is_own(entry.file_name().to_str()?);
    is_ours.then_some(())?;
    Some(Old {
        modified: about.modified().ok()?,
        path: entry.path(),
        bytes: on_disk(about.len()),
    })
}

/// The result of a round of removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pruned {
    /// The remaining files may stay, for now.
    Enough,
    /// The disk refuses all removals; a later round tries again.
    Refused,
}

/// Whether files were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removed {
    None,
    Some,
}

fn remove(path: &Path) -> Removed {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(file = %path.display(), "cannot remove old output: {error}");
            Removed::None
        }
        Ok(()) | Err(_) => {
            remove_empty_folders(path);
            Removed::Some
        }
    }
}

/// Removes the folder of the node, then that of the job, if they are empty.
fn remove_empty_folders(path: &Path) {
    path.ancestors()
        .skip(1)
        .take(2)
        .take_while(|folder| fs::remove_dir(folder).is_ok())
        .for_each(drop);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Retention;

    #[test]
    fn a_folder_that_cannot_be_read_is_remembered() {
        let dir = tempfile::tempdir().expect("a folder");
        let output = dir.path().join("output");
        let retention = Retention {
            max_age: Duration::from_secs(86_400),
            max_bytes: 1,
        };
        let config = OutputConfig {
            dir: output.clone(),
            retention,
        };
        let keeping = Keeping::new(config).expect("it is made");
        let unreadable = || {
            keeping.walk();
            keeping.ledger.lock().unreadable.clone()
        };
        assert_eq!(unreadable(), [] as [PathBuf; 0]);
        fs::remove_dir(&output).expect("it is empty");
        assert_eq!(unreadable(), [] as [PathBuf; 0], "it is gone");
        // Root may read every folder, but no file as a folder.
        fs::write(&output, "").expect("written");
        assert_eq!(unreadable(), std::slice::from_ref(&output));
        assert_eq!(named(&vec![output.clone(); 12]).matches(", ").count(), 10);
    }
}
