//! Keeps a time after which this scheduler has answered no worker. The next scheduler counts its initial wait from that time.
//!
//! The bound is a time of the boot clock, which also counts suspended time. The bound is meaningless after the machine's next boot, so it
//! must survive only the process. It lies in memory (`/dev/shm`, a tmpfs): writing it never waits for a disk, a full or failing disk cannot
//! stop it from advancing, and no backup of the data directory contains it. The file is bound to the boot, the clock's namespace, the
//! store's inode and the last scheduler instance that the store remembers. If any of them differs, the next initial wait counts from the
//! start.
//!
//! The driver advances the bound at the end of a turn, before it performs the turn's effects ([`AnsweredFile::cover`]). A worker counts
//! from the moment at which it *sent* the answered request. The scheduler received that request before it advanced the bound. So the bound
//! is never earlier than the time from which the worker counts, however late the answer leaves. Nothing is synced, because the kernel keeps
//! the writes of a killed process.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::{SchedulerId, Time, WorkerId};
use brasserie_common_runtime::FileId;
use brasserie_scheduler_core::{Durable, Scheduler};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

/// How far the bound lies ahead of the moment at which it is advanced. The file is written once in this time, and the wait grows by at most
/// this.
const STEP: Duration = Duration::from_secs(5);
/// Thousands of workers need less. No scheduler writes a larger file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Identifies a boot clock. Times of equal epochs can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Epoch {
    boot: String,
    clock_namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AnsweredContent {
    epoch: Epoch,
    store: FileId,
    scheduler: SchedulerId,
    /// The last instance that the store named when `scheduler` started. The store may still name it, because `scheduler` answers no worker
    /// before its own record is durable.
    previous: Option<SchedulerId>,
    /// The bound, in nanoseconds of the boot clock.
    until: u64,
    /// The bounds of instances that may have been answered by an earlier scheduler only.
    former: Vec<(WorkerId, u64)>,
}

/// The file of one running scheduler.
#[derive(Debug)]
pub(crate) struct AnsweredFile {
    state: AnsweredState,
    path: PathBuf,
    epoch: Epoch,
    store: FileId,
    previous: Option<SchedulerId>,
    until: Time,
    /// The value of [`Scheduler::unanswered_version`] when the file was written.
    version: Option<u64>,
}

/// ```text
///   Kept --a write fails, the file is emptied--> Void
/// ```
#[derive(Debug)]
enum AnsweredState {
    Kept(File),
    /// There is no bound: the next scheduler waits from its start.
    Void,
}

/// The bound could be neither advanced nor removed, so the scheduler must answer no worker any more.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write or empty {} ({error}); with its old content a later scheduler would start tasks too early, so this scheduler exits", path.display()
)]
pub(crate) struct Stuck {
    path: PathBuf,
    error: io::Error,
}

impl AnsweredFile {
    /// Opens the file for a store, and returns its bounds for the store's recorded instances. If the file cannot be kept in memory, logs
    /// the reason and returns `None`.
    pub(crate) fn open(
        folder: &Path,
        store: FileId,
        durable: &Durable,
    ) -> Option<(AnsweredFile, BTreeMap<WorkerId, Time>)> {
        match Self::try_open(folder, store, durable) {
            Ok(opened) => Some(opened),
            Err(error) => {
                tracing::warn!(
                    folder = %folder.display(),
                    %error,
                    "cannot record when workers were last answered: after a restart the initial wait begins at that restart"
                );
                None
            }
        }
    }

    fn try_open(
        folder: &Path,
        store: FileId,
        durable: &Durable,
    ) -> io::Result<(AnsweredFile, BTreeMap<WorkerId, Time>)> {
        if statfs(folder)?.filesystem_type() != TMPFS_MAGIC {
            let text = "it is no tmpfs, so writing could wait for a disk";
            return Err(io::Error::other(text));
        }
        let epoch = Epoch::now()?;
        let user = geteuid();
        let name = format!("brasserie-{user}-{:x}-{:x}", store.device, store.inode);
        let path = folder.join(name);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&path)?;
        let metadata = file.metadata()?;
        let is_ours = metadata.is_file()
            && metadata.uid() == user.as_raw()
            && metadata.mode() & 0o077 == 0
            && metadata.nlink() == 1;
        if !is_ours {
            let text = format!("{} is not a private file of this user", path.display());
            return Err(io::Error::other(text));
        }
        let content = AnsweredContent::read(&mut file)?;
        let previous = durable.last_scheduler();
        let doubt = content
            .as_ref()
            .map_or(Some("it is missing or incomplete"), |content| {
                content.doubt(&epoch, store, previous)
            });
        if let (Some(why), Some(_)) = (doubt, previous) {
            tracing::info!(
                file = %path.display(),
                "the recorded times of the last answers to workers are not used, because {why}: the initial wait begins at this start"
            );
        }
        let former = match content.filter(|_| doubt.is_none()) {
            Some(content) => content.former(durable),
            None => BTreeMap::new(),
        };
        let opened = AnsweredFile {
            state: AnsweredState::Kept(file),
            path,
            epoch,
            store,
            previous,
            until: Time::ZERO,
            version: None,
        };
        Ok((opened, former))
    }

    /// Advances the bound beyond `now` if it is not. Call it after the core has handled the received events and before its effects are
    /// performed, with the time of this call.
    pub(crate) fn cover(&mut self, now: Time, scheduler: &Scheduler) -> Result<(), Stuck> {
        let AnsweredState::Kept(file) = &self.state else {
            return Ok(());
        };
        let version = Some(scheduler.unanswered_version());
        if now < self.until && version == self.version {
            return Ok(());
        }
        let until = now + STEP;
        let content = AnsweredContent {
            epoch: self.epoch.clone(),
            store: self.store,
            scheduler: scheduler.id(),
            previous: self.previous,
            until: until.as_nanos(),
            former: scheduler
                .unanswered()
                .map(|(worker, since)| (worker, since.as_nanos()))
                .collect(),
        };
        if let Err(error) = content.write(file) {
            // The old bound would soon be too early. A tmpfs always has space to empty a file.
            file.set_len(0).map_err(|error| Stuck {
                path: self.path.clone(),
                error,
            })?;
            self.state = AnsweredState::Void;
            tracing::warn!(
                path = %self.path.display(),
                %error,
                "cannot record when workers were last answered: after a restart the initial wait begins at that restart"
            );
            return Ok(());
        }
        (self.until, self.version) = (until, version);
        Ok(())
    }
}

impl Epoch {
    fn now() -> io::Result<Self> {
        // Kernels before 5.6 have no time namespaces.
        let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(Epoch {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
            clock_namespace: namespace.to_string_lossy().into_owned(),
        })
    }
}

impl AnsweredContent {
    /// Returns `None` if the file is empty or incomplete.
    fn read(file: &mut File) -> io::Result<Option<AnsweredContent>> {
        let mut text = String::new();
        match file.take(MAX_BYTES).read_to_string(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(None),
            Err(error) => return Err(error),
        }
        let whole = text
            .split_once('\n')
            .filter(|(sum, json)| *sum == checksum(json));
        Ok(whole.and_then(|(_, json)| serde_json::from_str(json).ok()))
    }

    /// Returns the reason why the file does not apply to this store, or `None` if it does. `previous` is the store's last scheduler.
    fn doubt(
        &self,
        epoch: &Epoch,
        store: FileId,
        previous: Option<SchedulerId>,
    ) -> Option<&'static str> {
        if self.epoch != *epoch {
            return Some("the machine was started again, or this is another time namespace");
        }
        if self.store != store {
            return Some("it belongs to another store");
        }
        let is_last = previous == Some(self.scheduler) || previous == self.previous;
        match previous.is_some() && is_last {
            true => None,
            false => Some("the store names another last scheduler"),
        }
    }

    /// Writes in place. A process that is killed during the write leaves a file with a wrong checksum.
    fn write(&self, file: &File) -> io::Result<()> {
        let json = serde_json::to_string(self)?;
        let text = format!("{}\n{json}", checksum(&json));
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }

    /// Returns the bound for each recorded instance.
    fn former(&self, durable: &Durable) -> BTreeMap<WorkerId, Time> {
        let listed: BTreeMap<WorkerId, u64> = self.former.iter().copied().collect();
        let of = |worker| listed.get(worker).copied().unwrap_or(self.until);
        let recorded = durable.instances.keys();
        recorded
            .map(|worker| (*worker, Time::from_nanos(of(worker))))
            .collect()
    }
}

fn checksum(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests;
