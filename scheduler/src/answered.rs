//! Until when this scheduler has answered workers, kept for the next one, which counts its initial wait from there.
//!
//! The bound is told by the clock that counts suspend, so it means nothing after the machine's next boot, and has to survive the
//! process alone. So it lies in memory (`/dev/shm`, a tmpfs): no write of it waits for a disk, a full or failing disk cannot keep it
//! from moving on, and no backup of the data directory has it. It is bound to the boot, the clock's namespace, the store's inode and
//! the last scheduler instance that the store remembers; if any of them differs, the wait counts from the start.
//!
//! The driver moves the bound at the end of a turn, before the turn's effects are carried out ([`AnsweredFile::cover`]): whatever a
//! worker can count from an answer, it has sent before, and that was received by then. Nothing is synced, as a process that is killed
//! leaves its writes to the kernel.

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

/// How far the bound is ahead of the moment at which it is moved: one write each few seconds, and a wait that is longer by no more.
const STEP: Duration = Duration::from_secs(5);
/// More than thousands of workers take; what is larger is none of ours.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What has to be the same for times of the clock to mean the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Epoch {
    boot: String,
    clock_namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    epoch: Epoch,
    /// Device and inode.
    store: (u64, u64),
    scheduler: SchedulerId,
    /// The last instance that the store remembered when that one started. Until its own record is durable it answers nobody.
    previous: Option<SchedulerId>,
    /// Times are nanoseconds of the clock.
    until: u64,
    /// Instances that this scheduler has not answered, and until when an earlier one may have.
    former: Vec<(WorkerId, u64)>,
}

/// The file of one running scheduler.
#[derive(Debug)]
pub(crate) struct AnsweredFile {
    state: State,
    path: PathBuf,
    epoch: Epoch,
    store: FileId,
    previous: Option<SchedulerId>,
    until: Time,
    /// What [`Scheduler::unanswered_version`] was when the file was written.
    version: Option<u64>,
}

/// ```text
///   Kept --a write fails, the file is emptied--> Void
/// ```
#[derive(Debug)]
enum State {
    Kept(File),
    /// There is no bound: the next scheduler waits from its start.
    Void,
}

/// The bound could be neither moved nor taken back: nobody may be answered any more.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} in memory can neither be written nor emptied ({error}); it would make a later scheduler start tasks too early", path.display()
)]
pub(crate) struct Stuck {
    path: PathBuf,
    error: io::Error,
}

impl AnsweredFile {
    /// Opens the file for a store, and gives what it says of this store's recorded instances. `None`: there is no memory to keep it in,
    /// which is logged, and this scheduler keeps none.
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
                    "cannot keep in memory until when workers are answered: after a restart the initial wait counts from that restart"
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
        let content = Content::read(&mut file)?;
        let previous = durable.last_scheduler();
        let is_trusted = |content: &Content| {
            content.epoch == epoch
                && content.store == (store.device, store.inode)
                && previous.is_some()
                && (previous == Some(content.scheduler) || previous == content.previous)
        };
        let former = match content.filter(is_trusted) {
            Some(content) => content.former(durable),
            None => BTreeMap::new(),
        };
        let opened = AnsweredFile {
            state: State::Kept(file),
            path,
            epoch,
            store,
            previous,
            until: Time::ZERO,
            version: None,
        };
        Ok((opened, former))
    }

    /// Moves the bound beyond `now` if need be. Call it with a fresh time after the core was given what has been received, and
    /// before its effects are carried out.
    pub(crate) fn cover(&mut self, now: Time, scheduler: &Scheduler) -> Result<(), Stuck> {
        let State::Kept(file) = &self.state else {
            return Ok(());
        };
        let version = Some(scheduler.unanswered_version());
        if now < self.until && version == self.version {
            return Ok(());
        }
        let until = now + STEP;
        let content = Content {
            epoch: self.epoch.clone(),
            store: (self.store.device, self.store.inode),
            scheduler: scheduler.id(),
            previous: self.previous,
            until: until.as_nanos(),
            former: scheduler
                .unanswered()
                .map(|(worker, since)| (worker, since.as_nanos()))
                .collect(),
        };
        if let Err(error) = content.write(file) {
            // In memory nothing keeps a file from being emptied; one that cannot be emptied says something wrong.
            file.set_len(0).map_err(|error| Stuck {
                path: self.path.clone(),
                error,
            })?;
            self.state = State::Void;
            tracing::warn!(
                path = %self.path.display(),
                %error,
                "cannot keep until when workers are answered: after a restart the initial wait counts from that restart"
            );
            return Ok(());
        }
        (self.until, self.version) = (until, version);
        Ok(())
    }
}

impl Epoch {
    fn now() -> io::Result<Self> {
        // Kernels before 5.6 have one clock for all.
        let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(Epoch {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
            clock_namespace: namespace.to_string_lossy().into_owned(),
        })
    }
}

impl Content {
    /// `None`: nothing was written, or not the whole of it.
    fn read(file: &mut File) -> io::Result<Option<Content>> {
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

    /// In place: a process that is killed meanwhile leaves something whose checksum is wrong.
    fn write(&self, file: &File) -> io::Result<()> {
        let json = serde_json::to_string(self)?;
        let text = format!("{}\n{json}", checksum(&json));
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }

    /// Until when each recorded instance may have been answered.
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
