//! The queue of records that are not yet on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use brasserie_common::RecordSeq;
use brasserie_scheduler_core::{EndedTask, Record};
use parking_lot::{Condvar, Mutex};

/// Queued records at which the scheduler refuses new statuses; their workers keep and repeat them. The limit is a few seconds of the
/// fastest cluster, so only a store that hangs reaches it.
const MAX_WAITING_RECORDS: usize = 65_536;
/// The same limit in bytes: a thousand statuses with the largest permitted data.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// Maximum records of one transaction: about 100 ms of work, which bounds how long the last record waits for its sync.
const MAX_BATCH_RECORDS: usize = 16_384;
/// The same limit in bytes, for the texts of jobs, each of which may have a megabyte.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// The fill state of the queue.
#[derive(Debug, Default)]
pub struct QueueRoom {
    records: AtomicUsize,
    bytes: AtomicUsize,
    commits: AtomicU64,
}

impl QueueRoom {
    /// Returns whether the queue is full, so that callers that can should retry later.
    pub fn is_full(&self) -> bool {
        self.records.load(Ordering::Relaxed) >= MAX_WAITING_RECORDS
            || self.bytes.load(Ordering::Relaxed) >= MAX_WAITING_BYTES
    }

    /// Returns whether no record is queued.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let (records, bytes) = (&self.records, &self.bytes);
        records.load(Ordering::Relaxed) == 0 && bytes.load(Ordering::Relaxed) == 0
    }

    /// Returns the number of transactions synced to disk.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.records.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, waiting: &QueuedRecord) {
        self.records.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
    }

    /// Counts a batch as written to disk.
    pub(super) fn committed(&self, batch: &[QueuedRecord]) {
        self.records.fetch_sub(batch.len(), Ordering::Relaxed);
        self.bytes
            .fetch_sub(batch.iter().map(|w| w.bytes).sum(), Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// One record that is not on disk yet.
#[derive(Debug)]
pub(super) struct QueuedRecord {
    pub(super) seq: RecordSeq,
    pub(super) record: Record,
    bytes: usize,
}

/// The queue between the driver and the writer.
#[derive(Debug, Default)]
pub(super) struct RecordQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// A separate condition variable, so that new records do not wake a writer that gathers records.
    closed: Condvar,
    room: Arc<QueueRoom>,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<QueuedRecord>,
    end: QueueEnd,
}

/// Whether more records may be queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueueEnd {
    #[default]
    Open,
    /// The queued records are written in one last attempt, then the writer ends.
    Closed,
}

/// The writer's next action.
pub(super) enum WriterWork {
    Write(Vec<QueuedRecord>),
    /// `tidy_at` has passed.
    Tidy,
    /// No record is queued, and none will be.
    End,
}

impl RecordQueue {
    pub(super) fn room(&self) -> Arc<QueueRoom> {
        Arc::clone(&self.room)
    }

    /// Queues a record. Configurations and given times also arrive while the store cannot write, without a limit of time. So at most one
    /// record of each of these kinds is queued.
    pub(super) fn push(&self, seq: RecordSeq, record: Record) {
        let mut state = self.state.lock();
        let waiting = &mut state.waiting;
        let mut entry = QueuedRecord {
            seq,
            bytes: 0,
            record,
        };
        let mut place = waiting.len();
        let kind = mem::discriminant(&entry.record);
        let gathers = matches!(
            entry.record,
            Record::ConfigKept { .. } | Record::TimesGiven { .. }
        );
        let is_alike = |queued: &QueuedRecord| mem::discriminant(&queued.record) == kind;
        let alike = gathers.then(|| waiting.iter().rposition(is_alike));
        if let Some(at) = alike.flatten()
            && let Some(earlier) = waiting.remove(at)
        {
            self.room.subtract(&earlier);
            // Given times must precede the records that follow from them. A configuration must follow the job changes that it needs.
            place = match entry.record {
                Record::TimesGiven { .. } => at,
                _ => waiting.len(),
            };
            entry.seq = earlier.seq;
            entry.record = joined(earlier.record, entry.record);
        }
        entry.bytes = weight(&entry.record);
        self.room.add(entry.bytes);
        waiting.insert(place, entry);
        // Once the last queued record is on disk, everything up to `seq` is.
        if let Some(last) = waiting.back_mut() {
            last.seq = seq;
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.state.lock().end = QueueEnd::Closed;
        self.changed.notify_one();
        self.closed.notify_one();
    }

    /// Waits for records or for `tidy_at`. Returns all queued records up to the batch limit.
    pub(super) fn take(&self, tidy_at: Instant) -> WriterWork {
        let mut state = self.state.lock();
        loop {
            match state.end {
                QueueEnd::Closed if state.waiting.is_empty() => return WriterWork::End,
                QueueEnd::Open if tidy_at <= Instant::now() => return WriterWork::Tidy,
                QueueEnd::Open if state.waiting.is_empty() => {
                    self.changed.wait_until(&mut state, tidy_at);
                }
                QueueEnd::Open | QueueEnd::Closed => break,
            }
        }
        let mut bytes = 0;
        let fits = |waiting: &&QueuedRecord| {
            let is_first = bytes == 0;
            bytes += waiting.bytes;
            is_first || bytes <= MAX_BATCH_BYTES
        };
        let batch = state.waiting.iter().take(MAX_BATCH_RECORDS);
        let count = batch.take_while(fits).count();
        WriterWork::Write(state.waiting.drain(..count).collect())
    }

    /// Lets records accumulate for this long, unless the queue is closed.
    pub(super) fn gather(&self, wait: Duration) {
        let mut state = self.state.lock();
        let is_open = |state: &mut QueueState| state.end == QueueEnd::Open;
        self.closed.wait_while_for(&mut state, is_open, wait);
    }

    /// Waits before another attempt. Returns true if the queue was closed, so that there is no other attempt.
    pub(super) fn pause(&self, wait: Duration) -> bool {
        let mut state = self.state.lock();
        // A new record wakes this early, which only causes one more attempt.
        if state.end == QueueEnd::Open {
            self.changed.wait_for(&mut state, wait);
        }
        state.end == QueueEnd::Closed
    }
}

/// Merges two records into one with the effect of both in order.
fn joined(earlier: Record, later: Record) -> Record {
    match (earlier, later) {
        (
            Record::TimesGiven {
                changed: before,
                forgotten: gone,
            },
            Record::TimesGiven { changed, forgotten },
        ) => {
            let mut times: BTreeMap<_, _> = before.into_iter().collect();
            times.retain(|item, _| !forgotten.contains(item));
            times.extend(changed);
            let gone: BTreeSet<_> = gone.into_iter().chain(forgotten).collect();
            Record::TimesGiven {
                changed: times.into_iter().collect(),
                forgotten: gone.into_iter().collect(),
            }
        }
        (_, later) => later,
    }
}

/// Returns the approximate memory of a record in bytes.
fn weight(record: &Record) -> usize {
    const FIXED: usize = 256;
    let task = |task: &EndedTask| {
        let data = task
            .status
            .data
            .as_ref()
            .map_or(0, |d| approximate_json_bytes(d));
        let story = task.story.as_ref().map_or(0, |kept| {
            let lines = kept.story.last_lines.iter();
            FIXED + lines.map(String::len).sum::<usize>()
        });
        let outputs = task.outputs.len() * FIXED;
        FIXED + task.job.as_str().len() + task.node.as_str().len() + data + story + outputs
    };
    match record {
        Record::SchedulerStarted { .. }
        | Record::FenceRaised { .. }
        | Record::WorkerAssociated { .. }
        | Record::HoldBack { .. }
        | Record::HoldBackOver
        | Record::JobDeleted { .. }
        | Record::JobHeld { .. }
        | Record::OutputsExpired { .. }
        | Record::JobResumed { .. } => FIXED,
        Record::OutputsForgotten { job: _, nodes } => {
            let names = nodes.iter().map(|node| FIXED + node.as_str().len());
            FIXED + names.sum::<usize>()
        }
        Record::WorkerOrdered { shard, order } => {
            let texts = order.as_ref();
            let texts = texts.map_or(0, |order| order.reason.len() + order.by.len());
            FIXED + shard.as_str().len() + texts
        }
        Record::JobSaved { job: _, saved } => FIXED + saved.text.len(),
        Record::WorkerLeft { tasks, .. } | Record::TasksForgiven { tasks } => {
            FIXED + tasks.iter().map(task).sum::<usize>()
        }
        Record::TaskEnded(ended) => task(ended),
        Record::HistoryDeleted { number: _, tasks } => {
            let names = tasks.iter();
            let names = names.map(|ended| ended.job.as_str().len() + ended.node.as_str().len());
            let forgotten: usize = names.map(|bytes| FIXED + bytes).sum();
            FIXED + forgotten
        }
        Record::HistoryTrimmed(trim) => {
            let nodes = trim.missing.iter().chain(&trim.found);
            let keys = trim.expired.iter();
            let keys = keys.map(|key| key.job.as_str().len() + key.node.as_str().len());
            let jobs = trim.missing_jobs.iter().chain(&trim.found_jobs);
            let jobs = jobs.map(|job| job.as_str().len());
            let names = nodes.map(|node| node.as_str().len()).chain(jobs);
            let names = names.chain(keys);
            FIXED + names.map(|bytes| FIXED + bytes).sum::<usize>()
        }
        Record::ConfigKept { config } => FIXED + config.text.len(),
        Record::TimesGiven { changed, forgotten } => {
            let names = changed.iter().map(|(item, _)| item).chain(forgotten);
            FIXED + names.map(|item| FIXED + item.0.len()).sum::<usize>()
        }
    }
}

fn approximate_json_bytes(map: &serde_json::Map<String, serde_json::Value>) -> usize {
    use serde_json::Value;
    const NODE: usize = 32;
    fn value_bytes(value: &Value) -> usize {
        NODE + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            // The parser that made the value bounds its depth.
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            Value::Object(fields) => approximate_json_bytes(fields),
        }
    }
    map.iter()
        .map(|(key, value)| key.len() + value_bytes(value))
        .sum()
}
