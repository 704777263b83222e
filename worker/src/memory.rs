//! Stores what a worker has learned of its schedulers and their jobs, in `work-fetch.json` in the data directory, for its successor.
//!
//! The file may be lost: the next worker then makes a superfluous request, and learns anew.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::{Time, WallTime};
use brasserie_common_runtime::FileError;
use brasserie_common_runtime::files::{atomic_write, read_to_string};
use brasserie_worker_core::SavedState;
use tokio::task::JoinHandle;

const FILE: &str = "work-fetch.json";
/// The largest file that is read, in bytes: more than is ever written.
const MAX_BYTES: u64 = 64 << 20;
/// The period between writes. A worker that is killed loses the changes of at most this time.
const PERIOD: Duration = Duration::from_secs(60);

/// Returns the state that an earlier worker has left, aged to the present. Logs and ignores a file that it cannot read.
pub(crate) fn recall(dir: &Path, wall: WallTime) -> Option<SavedState> {
    let path = dir.join(FILE);
    // Opening anything but a file might block for ever.
    if std::fs::metadata(&path).is_ok_and(|about| !about.is_file()) {
        tracing::warn!(
            "the saved work-fetch state is lost: {} is not a file",
            path.display()
        );
        return None;
    }
    let text = match read_to_string(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(FileError::Read { error, .. }) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!("what was learned of schedulers is lost: {error}");
            return None;
        }
    };
    match SavedState::read(&text) {
        Ok(state) => Some(state.aged(wall)),
        Err(error) => {
            tracing::warn!(file = %path.display(), "what was learned of schedulers is lost: {error}");
            None
        }
    }
}

/// The periodic writer of the file.
#[derive(Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    next: Time,
    writing: Option<JoinHandle<()>>,
}

impl Memory {
    pub(crate) fn new(dir: &Path, now: Time) -> Self {
        Memory {
            path: dir.join(FILE),
            next: now + PERIOD,
            writing: None,
        }
    }

    pub(crate) fn due(&self) -> Time {
        self.next
    }

    /// Writes the state if it is due, on another thread, as disks may be slow.
    pub(crate) fn keep(&mut self, now: Time, state: impl FnOnce() -> Option<SavedState>) {
        if now < self.next {
            return;
        }
        self.next = now + PERIOD;
        let is_writing = |writing: &JoinHandle<()>| !writing.is_finished();
        if self.writing.as_ref().is_some_and(is_writing) {
            return;
        }
        let Some(state) = state() else {
            return;
        };
        let path = self.path.clone();
        self.writing = Some(tokio::task::spawn_blocking(move || write(&path, &state)));
    }

    /// Writes the state a last time, after a write that is under way.
    pub(crate) async fn close(self, state: Option<SavedState>) {
        if let Some(writing) = self.writing {
            // The panic was printed where it happened.
            let _ = writing.await;
        }
        if let Some(state) = state {
            let path = self.path;
            let _ = tokio::task::spawn_blocking(move || write(&path, &state)).await;
        }
    }
}

fn write(path: &Path, state: &SavedState) {
    if let Err(error) = atomic_write(path, state.to_text().as_bytes()) {
        tracing::warn!(
            file = %path.display(),
            "cannot save the work-fetch state, so the next worker in this directory starts without it: {error}"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use brasserie_worker_core::SavedJob;

    use super::*;

    fn state(at: WallTime) -> SavedState {
        SavedState {
            at,
            schedulers: BTreeMap::new(),
            jobs: vec![SavedJob {
                scheduler: "a.example:6789".to_owned(),
                name: "job".to_owned(),
                said: None,
                seconds: 7.0,
            }],
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_recalled() {
        let dir = tempfile::tempdir().expect("a folder");
        let wall = WallTime::from_millis(1_700_000_000_000);
        assert_eq!(recall(dir.path(), wall), None);
        let mut memory = Memory::new(dir.path(), Time::ZERO);
        memory.keep(Time::ZERO, || panic!("it is not time yet"));
        memory.keep(Time::ZERO + PERIOD, || Some(state(wall)));
        memory.close(None).await;
        assert_eq!(recall(dir.path(), wall), Some(state(wall)));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(FILE);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert_eq!(recall(dir.path(), WallTime::from_millis(0)), None);
    }

    #[tokio::test]
    async fn the_last_word_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let wall = WallTime::from_millis(1_700_000_000_000);
        let memory = Memory::new(dir.path(), Time::ZERO);
        memory.close(Some(state(wall))).await;
        assert_eq!(recall(dir.path(), wall), Some(state(wall)));
    }

    #[test]
    fn a_broken_or_older_file_is_ignored() {
        let dir = tempfile::tempdir().expect("a folder");
        let wall = WallTime::from_millis(1_700_000_000_000);
        let older = b"{\"version\": 1, \"at_ms\": 5, \"schedulers\": {}, \"jobs\": []}";
        for bytes in [&[0xff, 0xfe][..], b"{", older] {
            fs::write(dir.path().join(FILE), bytes).expect("written");
            assert_eq!(recall(dir.path(), wall), None);
        }
    }
}
