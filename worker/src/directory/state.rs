//! The file `worker.json`, in which one user of the directory leaves its state for the next.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use brasserie_common_runtime::files::{atomic_write, read_to_string};
use brasserie_common_runtime::{FileError, FileId};
use serde::{Deserialize, Serialize};

use super::{DirectoryError, io_error};
use crate::marker::Marker;
use crate::pid_namespace::Init;

/// The version of the file's format.
pub(super) const VERSION: u64 = 1;
const FILE: &str = "worker.json";
/// The largest file that is read, in bytes; the file has some 300 bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// The smallest number of a machine lock. It is beyond every real port: the number is an identity, and nobody listens on it.
const FIRST_NUMBER: i32 = 65_536;
/// The latest start second of an instance, whatever the clock says.
const LAST_SECOND: i64 = i64::MAX / 2;
const LOCK_FILE: &str = "lock";
/// The largest number of remembered locks: more than the schedulers that one worker may have.
const MOST_LOCKS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DirectoryState {
    version: u64,
    pub lock_number: LockNumber,
    pub last_start_time: i64,
    /// The boot in which the state was written. Process ids and markers of earlier boots are void.
    pub boot_id: String,
    marker: Option<String>,
    /// PID 1 of the last user's namespace, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedulers: Vec<Option<String>>,
    /// The directory itself; `None` if an earlier release wrote the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<FileId>,
}

/// The number of the machine lock, and the lock file that it belongs to. A copy of the directory has another file, and so draws its own
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockNumber {
    pub number: i32,
    #[serde(flatten)]
    pub file: LockFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockFile {
    device: u64,
    inode: u64,
}

/// The version alone. It is read before the rest, which a newer version may have changed.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Returns the boot id, which differs after each start of the machine. Returns an empty text if it cannot be read.
pub(super) fn boot_id() -> String {
    let text = read_to_string(Path::new("/proc/sys/kernel/random/boot_id"), 256);
    text.map_or_else(|_| String::new(), |t| t.trim().to_owned())
}

impl DirectoryState {
    pub(super) fn new(
        lock_number: LockNumber,
        start_time: i64,
        boot_id: String,
        marker: Option<&Marker>,
        schedulers: Vec<Option<String>>,
        directory: FileId,
    ) -> Self {
        DirectoryState {
            version: VERSION,
            lock_number,
            last_start_time: start_time,
            boot_id,
            marker: marker.map(|m| m.as_str().to_owned()),
            init: Init::of_this_process(),
            schedulers,
            directory: Some(directory),
        }
    }

    /// Returns the state after one more instance.
    pub(super) fn used_at(&self, start_time: i64) -> Self {
        DirectoryState {
            last_start_time: start_time,
            ..self.clone()
        }
    }

    /// Returns the state with these schedulers, each at the index of its lock.
    pub(super) fn with_schedulers(&self, schedulers: Vec<Option<String>>) -> Self {
        DirectoryState {
            schedulers,
            ..self.clone()
        }
    }

    /// Loads the state. `None` in a directory that no worker has used.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, DirectoryError> {
        let malformed = |reason: String| DirectoryError::Malformed {
            path: path.to_owned(),
            reason,
        };
        let text = match read_to_string(path, MAX_BYTES) {
            Ok(text) => text,
            Err(FileError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(FileError::Read { error, path }) => {
                return Err(DirectoryError::Io { path, error });
            }
            Err(
                error @ (FileError::TooLarge { .. }
                | FileError::NotText { .. }
                | FileError::Exposed { .. }
                | FileError::NotOwn { .. }),
            ) => {
                return Err(malformed(error.to_string()));
            }
        };
        let version: VersionOnly =
            serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        if version.version > VERSION {
            return Err(DirectoryError::Newer {
                path: path.to_owned(),
                found: version.version,
            });
        }
        let state: DirectoryState =
            serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        if state.lock_number.number < FIRST_NUMBER {
            let number = state.lock_number.number;
            return Err(malformed(format!("lock_number {number} could be a port")));
        }
        if state.last_start_time > LAST_SECOND {
            let time = state.last_start_time;
            let reason = format!(
                "last_start_time {time} is too large: no later instance can have a larger one"
            );
            return Err(malformed(reason));
        }
        Ok(Some(state))
    }

    /// Stores the state durably.
    pub(super) fn store(&self, path: &Path) -> Result<(), DirectoryError> {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers always serialise");
        atomic_write(path, text.as_bytes()).map_err(io_error(path))
    }

    /// Returns a text that distinguishes this user of the directory from every other one.
    pub(super) fn user(&self) -> String {
        let marker = self.marker.as_deref().unwrap_or_default();
        format!("{} {} {marker}", self.boot_id, self.last_start_time)
    }

    pub(super) fn marker(&self) -> Option<Marker> {
        self.marker.as_deref().map(Marker::from_text)
    }
}

/// Assigns a lock to each of these schedulers, by its distance from the first lock. A scheduler that is known keeps its lock, so that it
/// recognises the worker. A new scheduler takes the lock at its own position if no present scheduler has it: it is taken for the former
/// one at a new address. Returns also the new owners of the locks.
pub(super) fn lock_places(
    known: &[Option<String>],
    called: &[String],
) -> (Vec<usize>, Vec<Option<String>>) {
    let found = |name: &String| known.iter().position(|one| one.as_ref() == Some(name));
    let mut places: Vec<Option<usize>> = called.iter().map(found).collect();
    let mut owners = known.to_vec();
    owners.truncate(MOST_LOCKS);
    for at in 0..called.len() {
        if places[at].is_some() {
            continue;
        }
        let is_used = |place: usize| places.contains(&Some(place));
        let has_owner = |place: usize| owners.get(place).is_some_and(Option::is_some);
        let mut free = (0..MOST_LOCKS).filter(|place| !is_used(*place) && !has_owner(*place));
        let place = match is_used(at) {
            false => at,
            // If no lock is free, the scheduler takes one whose owner is absent.
            true => (free.next())
                .or_else(|| (0..MOST_LOCKS).find(|place| !is_used(*place)))
                .unwrap_or(at),
        };
        places[at] = Some(place);
        if owners.len() <= place {
            owners.resize(place + 1, None);
        }
        owners[place] = Some(called[at].clone());
    }
    (places.into_iter().flatten().collect(), owners)
}

impl LockNumber {
    /// Returns the identity of the lock file of an open directory.
    pub(super) fn file_of(dir: &Path) -> Result<LockFile, DirectoryError> {
        let path = dir.join(LOCK_FILE);
        let about = fs::metadata(&path).map_err(io_error(&path))?;
        Ok(LockFile {
            device: about.dev(),
            inode: about.ino(),
        })
    }

    /// Returns the number that is `at` places behind `number`, which is another lock of the same user.
    pub(super) fn behind(number: i32, at: usize) -> i32 {
        let span = i64::from(i32::MAX) - i64::from(FIRST_NUMBER) + 1;
        let at = i64::try_from(at).unwrap_or_default();
        let offset = (i64::from(number) - i64::from(FIRST_NUMBER) + at).rem_euclid(span);
        i32::try_from(i64::from(FIRST_NUMBER) + offset).unwrap_or(number)
    }

    /// Draws a number. Two workers of one host name draw the same one with a probability of 2^-31.
    pub(super) fn draw(entropy: u64, file: LockFile) -> Self {
        let span = u64::from(i32::MAX.abs_diff(FIRST_NUMBER)) + 1;
        let offset = i32::try_from(entropy % span).expect("less than 2^31");
        LockNumber {
            number: FIRST_NUMBER + offset,
            file,
        }
    }
}
