//! Queues lines for the writer, numbers them, and wakes the writer. `store` has the limits, and `writer` writes.

use brasserie_common::WallTime;
use brasserie_common::logs::{LineId, LinePart, LogStream};
use parking_lot::{Condvar, Mutex};

use super::WallClock;
use super::segment::{FRAME_BYTES, Frame, TaskTag};

/// The size at which a batch is written at once: an eighth of the bytes that may wait in memory, so that the writer starts long before
/// readers have to pause.
pub(super) const BIG_BATCH: usize = 1 << 20;

/// The queue between the store's callers and its writer. Lock order: the writer's disk before `pending`.
pub(super) struct LogQueue {
    pub clock: WallClock,
    pub pending: Mutex<Pending>,
    /// Wakes the writer: the first line of a batch, a big batch, the end.
    pub wake: Condvar,
}

/// The state of logging.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHealth {
    /// Lines that could not be written since the store was opened.
    pub dropped_lines: u64,
    /// The error of the last write; `None` while the disk accepts everything.
    pub error: Option<String>,
}

/// Lines on their way to the disk.
pub(super) struct Pending {
    pub frames: Vec<Frame>,
    pub bytes: usize,
    /// The number of the present batch. The bytes in a share of an earlier batch no longer wait.
    pub batch: u64,
    pub last_id: LineId,
    pub health: LogHealth,
    pub stage: LogQueueStage,
}

/// Whether the store is in use.
///
/// ```text
/// Open --drop--> Closing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogQueueStage {
    /// The store accepts lines.
    Open,
    /// The writer writes the remaining lines and ends.
    Closing,
}

/// Wakes the writer on drop, if there is a reason. Each caller drops it after the lock: a writer that is woken earlier takes the lock
/// first, and the next append waits until the writer has run.
pub(super) struct WakeUp<'a> {
    wake: &'a Condvar,
    is_due: bool,
}

impl<'a> WakeUp<'a> {
    pub(super) fn of(wake: &'a Condvar) -> Self {
        WakeUp {
            wake,
            is_due: false,
        }
    }

    /// Checks whether there is a reason. The writer sleeps until there is a line, and gathers until there is a big batch.
    pub(super) fn look(&mut self, before: usize, pending: &Pending) {
        let is_first = before == 0 && pending.bytes > 0;
        let is_much = before < BIG_BATCH && pending.bytes >= BIG_BATCH;
        self.is_due |= is_first || is_much;
    }
}

impl Drop for WakeUp<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.wake.notify_one();
        }
    }
}

impl LogQueue {
    pub(super) fn append(
        &self,
        tag: &TaskTag,
        stream: LogStream,
        part: LinePart,
        line: &[u8],
    ) -> LineId {
        let time = (self.clock)();
        let mut wake_up = WakeUp::of(&self.wake);
        let mut pending = self.pending.lock();
        let before = pending.bytes;
        let id = pending.push(time, tag, stream, part, line);
        wake_up.look(before, &pending);
        id
    }

    /// Appends an event that reports this number of lost lines.
    pub(super) fn declare(&self, lost: u64, tag: &TaskTag, event: &[u8]) {
        let time = (self.clock)();
        let mut wake_up = WakeUp::of(&self.wake);
        let mut pending = self.pending.lock();
        let before = pending.bytes;
        pending.push(time, tag, LogStream::Statuses, LinePart::Last, event);
        if let Some(frame) = pending.frames.last_mut() {
            frame.lines -= 1;
            frame.declares += lost;
        }
        wake_up.look(before, &pending);
    }
}

impl Pending {
    pub(super) fn push(
        &mut self,
        time: WallTime,
        tag: &TaskTag,
        stream: LogStream,
        part: LinePart,
        line: &[u8],
    ) -> LineId {
        // If the clock goes back, or stands still for long, the ids continue from the last one.
        let id = LineId::first_of(time).max(self.last_id.next());
        self.last_id = id;
        if self
            .frames
            .last()
            .is_none_or(|frame| frame.len() >= FRAME_BYTES)
        {
            self.frames.push(Frame::new());
        }
        if let Some(frame) = self.frames.last_mut() {
            let length = frame.len();
            frame.push(id, time, stream, part, tag, line);
            self.bytes += frame.len() - length;
        }
        id
    }
}
