//! Queues the output of runs, and selects the output that is due. [`RunOutput`] is the handle of a run; `writer` compresses and writes.

use std::collections::VecDeque;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use brasserie_common::collections::IdMap;
use parking_lot::{Condvar, Mutex};

use super::retention::Keeping;
use super::{Stream, Streams};
use crate::logs::LogRoom;

/// The queued size at which a run is written at once. Deflate does not refer to data more than 32 KiB back, so blocks that are eight
/// times as long lose little by starting anew. Eight of them fit into a run's limit, so a single run can keep the writer busy.
pub(super) const BLOCK: usize = 256 << 10;

/// The total size at which the oldest runs are written early. Otherwise many runs that wait for their time could fill the memory
/// together.
const MUCH: usize = 16 * BLOCK;

/// The time for which output that does not fill a block gathers before it is written. A worker that is killed may lose that much.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// One stream of one run whose file is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub file: PathBuf,
    /// The number of printed bytes, including lost ones.
    pub bytes: u64,
    /// The length of the file; 0 without one.
    pub compressed: u64,
    /// The number of printed bytes that were lost.
    pub lost: u64,
    /// The reason of the loss, if there was one.
    pub why: Option<String>,
}

/// A callback that receives finished files.
type Told = dyn Fn(Stream, &Written) + Send + Sync;

/// One run, for the writer.
pub(super) struct OutputRun {
    pub id: u64,
    pub files: Streams<PathBuf>,
    /// Receives each stream that has output, when its file is finished.
    pub told: Box<Told>,
}

/// The queued output of one stream.
#[derive(Debug, Default)]
pub(super) struct QueuedPart {
    pub bytes: Vec<u8>,
    /// The number of bytes that the run dropped instead of waiting.
    pub dropped: u64,
}

/// The queued output of one run.
pub(super) struct QueuedOutput {
    pub run: Arc<OutputRun>,
    pub parts: Streams<QueuedPart>,
    pub end: OutputEnd,
    since: Instant,
}

/// Whether the run is over.
///
/// ```text
/// Open --the handle is dropped--> Over
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputEnd {
    Open,
    /// The run has no further output.
    Over,
}

impl QueuedOutput {
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }
}

/// All queued output.
struct Pending {
    runs: IdMap<u64, QueuedOutput>,
    bytes: usize,
    /// The runs that must be written before their time.
    urgent: Vec<u64>,
    /// The runs in order of time.
    by_age: VecDeque<(Instant, u64)>,
    stage: OutputStage,
}

/// Whether the store is in use.
///
/// ```text
/// Open --drop--> Closing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputStage {
    /// The store accepts output.
    Open,
    /// The writer writes the remaining output and ends.
    Closing,
}

/// The state that the store, its handles and its threads share.
pub(super) struct SharedOutput {
    pending: Mutex<Pending>,
    wake: Condvar,
    next: AtomicU64,
    pub keeping: Keeping,
}

/// The output of one run. Dropping it finishes the files.
pub(crate) struct RunOutput {
    run: Arc<OutputRun>,
    shared: Arc<SharedOutput>,
}

impl RunOutput {
    /// Returns the paths of the files. A stream without output has no file.
    pub(crate) fn files(&self) -> &Streams<PathBuf> {
        &self.run.files
    }

    /// Returns whether more can be read without waiting for the writer. A run that prints much waits for its own output; other runs do
    /// not.
    pub(crate) fn room(&self) -> LogRoom {
        let pending = self.shared.pending.lock();
        let own = pending
            .runs
            .get(&self.run.id)
            .map_or(0, QueuedOutput::bytes);
        LogRoom::of(own, pending.bytes)
    }

    /// Queues output. Never waits for the disk.
    pub(crate) fn append(&self, stream: Stream, bytes: &[u8]) {
        self.change(|waiting| waiting.parts[stream.index()].bytes.extend_from_slice(bytes));
    }

    /// Counts output that is not written, because the run does not wait.
    pub(crate) fn leave_out(&self, stream: Stream, bytes: usize) {
        self.change(|waiting| waiting.parts[stream.index()].dropped += bytes as u64);
    }

    fn change(&self, change: impl FnOnce(&mut QueuedOutput)) {
        let now = Instant::now();
        let mut guard = self.shared.pending.lock();
        let pending = &mut *guard;
        let mut is_new = false;
        let waiting = pending.runs.entry(self.run.id).or_insert_with(|| {
            is_new = true;
            QueuedOutput {
                run: Arc::clone(&self.run),
                parts: Streams::default(),
                end: OutputEnd::Open,
                since: now,
            }
        });
        let before = (waiting.bytes(), waiting.end);
        change(waiting);
        let after = (waiting.bytes(), waiting.end);
        let before_in_all = pending.bytes;
        pending.bytes += after.0 - before.0;
        if is_new {
            pending.by_age.push_back((now, self.run.id));
        }
        let is_urgent = (before.0 < BLOCK && after.0 >= BLOCK) || before.1 != after.1;
        if is_urgent {
            pending.urgent.push(self.run.id);
        }
        // A writer without a deadline sleeps until there is any output.
        let is_much = before_in_all < MUCH && pending.bytes >= MUCH;
        let is_due = is_urgent || is_much || pending.by_age.len() == 1;
        // The lock is released first: a writer that is woken earlier takes it, and the next change waits until the writer has run.
        drop(guard);
        if is_due {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for RunOutput {
    fn drop(&mut self) {
        self.change(|waiting| waiting.end = OutputEnd::Over);
    }
}

impl std::fmt::Debug for RunOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOutput")
            .field("files", &self.run.files)
            .finish_non_exhaustive()
    }
}

impl SharedOutput {
    pub(super) fn new(keeping: Keeping) -> Self {
        let pending = Pending {
            runs: IdMap::default(),
            bytes: 0,
            urgent: Vec::new(),
            by_age: VecDeque::new(),
            stage: OutputStage::Open,
        };
        SharedOutput {
            pending: Mutex::new(pending),
            wake: Condvar::new(),
            next: AtomicU64::new(0),
            keeping,
        }
    }

    /// Returns the handle of a run with these files. `told` receives each stream that has output, when its file is finished.
    pub(super) fn run(
        self: &Arc<Self>,
        files: Streams<PathBuf>,
        told: impl Fn(Stream, &Written) + Send + Sync + 'static,
    ) -> RunOutput {
        RunOutput {
            run: Arc::new(OutputRun {
                id: self.next.fetch_add(1, Ordering::Relaxed),
                files,
                told: Box::new(told),
            }),
            shared: Arc::clone(self),
        }
    }

    /// Accepts no more output. The writer writes the rest and ends.
    pub(super) fn close(&self) {
        self.pending.lock().stage = OutputStage::Closing;
        self.wake.notify_all();
        self.keeping.close();
    }

    #[cfg(test)]
    pub(super) fn waiting_bytes(&self) -> usize {
        self.pending.lock().bytes
    }

    /// Waits for output and returns the part that is due. An empty result means that the store is closing, and nothing is left.
    pub(super) fn next_batch(&self) -> Vec<QueuedOutput> {
        let mut pending = self.pending.lock();
        loop {
            let batch = pending.take_due(Instant::now());
            if !batch.is_empty() || pending.stage == OutputStage::Closing {
                return batch;
            }
            match pending.by_age.front() {
                Some(&(since, _)) => {
                    let due = since + FLUSH_INTERVAL;
                    self.wake.wait_until(&mut pending, due);
                }
                None => self.wake.wait(&mut pending),
            }
        }
    }
}

impl Pending {
    fn take_due(&mut self, now: Instant) -> Vec<QueuedOutput> {
        let mut batch = Vec::new();
        for id in mem::take(&mut self.urgent) {
            batch.extend(self.take(id, None));
        }
        while let Some(&(since, id)) = self.by_age.front() {
            let is_due = now.saturating_duration_since(since) >= FLUSH_INTERVAL;
            if !is_due
                && self.bytes < MUCH
                && self.stage == OutputStage::Open
                && self.runs.contains_key(&id)
            {
                break;
            }
            self.by_age.pop_front();
            batch.extend(self.take(id, Some(since)));
        }
        batch
    }

    /// Takes the output of a run. With a time, takes only output that has waited since then.
    fn take(&mut self, id: u64, since: Option<Instant>) -> Option<QueuedOutput> {
        let waiting = self.runs.get(&id)?;
        if since.is_some_and(|since| since != waiting.since) {
            return None;
        }
        let waiting = self.runs.remove(&id)?;
        self.bytes -= waiting.bytes();
        Some(waiting)
    }
}
