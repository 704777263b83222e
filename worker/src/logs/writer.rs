//! Writes segments on one thread: batches, rotation, retention, and the counting of lines that the disk refuses.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::logs::LineId;
use brasserie_common::{InvocationId, JobName, NodeName, WallTime};
use brasserie_common_runtime::files::open_regular;
use parking_lot::Mutex;
use serde_json::json;

use super::LogConfig;
use super::index::SegmentIndex;
use super::query::{Sealed, SegmentView};
use super::queue::{BIG_BATCH, LogQueue, LogQueueStage};
use super::segment::{Frame, TaskTag, scan};
use crate::disk_reserve;

/// The time for which lines gather before they are written. A process crash may lose that much. It is well below the second that a
/// follower of a log would notice, and ten writes a second cost nothing.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_millis(100);
/// The period between checks for old segments: retention is in days, so a minute's delay does not matter.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
/// The divisor of the retention time that gives the longest span of a segment. A segment that is not full is sealed then, so that a quiet
/// worker's lines stay too long by at most that span.
const SEGMENTS_PER_RETENTION: u32 = 30;

/// The segment that grows.
struct Active {
    file: File,
    path: PathBuf,
    first: LineId,
    index: SegmentIndex,
}

/// The files of the log folder.
pub(super) struct Disk {
    config: LogConfig,
    sealed: Vec<Arc<Sealed>>,
    active: Option<Active>,
    next_prune: Option<Instant>,
    /// Lines lost since the last successful write, still to be declared.
    undeclared: u64,
}

/// Runs the writer until the store is dropped and everything is written.
pub(super) fn run(queue: &LogQueue, disk: &Mutex<Disk>) {
    loop {
        let stage = wait_for_batch(queue);
        let mut disk = disk.lock();
        flush(queue, &mut disk);
        disk.prune_if_due((queue.clock)());
        if stage == LogQueueStage::Closing {
            // A declaration of lost lines may just have been appended.
            flush(queue, &mut disk);
            return;
        }
    }
}

/// Sleeps until there is a line or retention is due, then gathers lines for one interval.
fn wait_for_batch(queue: &LogQueue) -> LogQueueStage {
    let mut pending = queue.pending.lock();
    let idle_until = Instant::now() + PRUNE_INTERVAL;
    while pending.bytes == 0 && pending.stage == LogQueueStage::Open {
        if queue.wake.wait_until(&mut pending, idle_until).timed_out() {
            return pending.stage;
        }
    }
    let gather_until = Instant::now() + FLUSH_INTERVAL;
    while pending.bytes < BIG_BATCH && pending.stage == LogQueueStage::Open {
        if queue
            .wake
            .wait_until(&mut pending, gather_until)
            .timed_out()
        {
            break;
        }
    }
    pending.stage
}

/// Writes everything that is pending. A batch that cannot be written is dropped and counted: tasks must continue, and memory must not
/// grow.
pub(super) fn flush(queue: &LogQueue, disk: &mut Disk) {
    let frames = {
        let mut pending = queue.pending.lock();
        pending.bytes = 0;
        pending.batch += 1;
        mem::take(&mut pending.frames)
    };
    if frames.is_empty() {
        return;
    }
    let (mut lost, mut error) = (0, None);
    for mut frame in frames {
        if let Err(e) = disk.write(&mut frame, (queue.clock)()) {
            lost += frame.lines;
            // A declaration that is itself lost must be repeated.
            disk.undeclared += frame.declares;
            error = Some(e.to_string());
        }
    }
    let mut pending = queue.pending.lock();
    if let Some(text) = &error
        && pending.health.error.is_none()
    {
        tracing::error!(folder = %disk.config.dir.display(), "task output cannot be logged; its lines are dropped and counted until they can be written: {text}");
    }
    pending.health.dropped_lines += lost;
    pending.health.error = error;
    disk.undeclared += lost;
    let declare = pending.health.error.is_none() && disk.undeclared > 0;
    drop(pending);
    if declare {
        let lines = mem::take(&mut disk.undeclared);
        tracing::warn!(lines, "task logs can be written again");
        declare_loss(queue, lines);
    }
}

/// Declares lost lines. The loss belongs to no single task, so its event has neither job nor node.
fn declare_loss(queue: &LogQueue, lines: u64) {
    let tag = TaskTag::new(
        InvocationId::default(),
        &JobName::default(),
        &NodeName::default(),
    );
    let event = json!({
        "event": "log_lines_dropped",
        "message": format!("{lines} lines of this worker's tasks could not be written to the log"),
        "lines": lines,
    });
    queue.declare(lines, &tag, format!("{event}\n").as_bytes());
}

impl Disk {
    pub(super) fn open(config: LogConfig) -> io::Result<Self> {
        fs::create_dir_all(&config.dir)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&config.dir)? {
            let path = entry?.path();
            if let Some(first) = segment_first_id(&path) {
                names.push((first, path));
            }
        }
        names.sort();
        let newest = names.pop();
        let mut disk = Disk {
            config,
            sealed: Vec::new(),
            active: None,
            next_prune: None,
            undeclared: 0,
        };
        for (first, path) in names {
            disk.sealed.push(Arc::new(open_sealed(first, path)?));
        }
        if let Some((first, path)) = newest {
            disk.active = Some(open_active(first, path)?);
        }
        Ok(disk)
    }

    /// Returns the largest id so far. New ids must be greater.
    pub(super) fn last_id(&self) -> LineId {
        let active = self
            .active
            .as_ref()
            .map(|a| a.index.last_id().unwrap_or(a.first));
        let sealed = self.sealed.last().map(|s| s.last);
        active.or(sealed).unwrap_or(LineId(0))
    }

    /// Returns the segments for a query, oldest first. They stay readable while writing continues.
    pub(super) fn snapshot(&self) -> Vec<SegmentView> {
        let mut views: Vec<_> = self
            .sealed
            .iter()
            .cloned()
            .map(SegmentView::Sealed)
            .collect();
        if let Some(active) = &self.active {
            views.push(SegmentView::Active {
                path: active.path.clone(),
                index: active.index.clone(),
            });
        }
        views
    }

    pub(super) fn write(&mut self, frame: &mut Frame, now: WallTime) -> io::Result<()> {
        self.seal_if_due(now);
        self.check_reserve(frame.len() as u64)?;
        let first = frame.block.first;
        let active = match &mut self.active {
            Some(active) => active,
            none => none.insert(create_active(&self.config.dir, first)?),
        };
        let bytes = frame.seal();
        // The frame always follows the good bytes: it overwrites the rest of a failed write, or the next open cuts that rest.
        active.file.write_all_at(bytes, active.index.end)?;
        let length = bytes.len() as u64;
        active.index.push(&frame.block, length);
        Ok(())
    }

    /// Errors if `bytes` more would use the reserve of the disk.
    fn check_reserve(&self, bytes: u64) -> io::Result<()> {
        disk_reserve::check(&self.config.dir, bytes).map_err(|error| {
            let remedy = "a job with \"output\": \"file\" in its task_subprocess keeps its output compressed";
            io::Error::new(error.kind(), format!("{error}; {remedy}"))
        })
    }

    fn seal_if_due(&mut self, now: WallTime) {
        let Some(active) = &self.active else { return };
        let span = (self.config.retention / SEGMENTS_PER_RETENTION).as_secs();
        let age = u64::try_from(now.as_secs() - active.first.seconds()).unwrap_or(0);
        let (Some(last), full) = (
            active.index.last_id(),
            active.index.end >= self.config.segment_bytes,
        ) else {
            return;
        };
        if !full && age <= span {
            return;
        }
        if let Err(e) = active.index.save(&active.path) {
            // Queries scan the segment instead, and the next open tries again.
            tracing::warn!(segment = %active.path.display(), "cannot write a log index: {e}");
        }
        let (path, first, bytes) = (active.path.clone(), active.first, active.index.end);
        self.sealed.push(Arc::new(Sealed {
            path,
            first,
            last,
            bytes,
        }));
        self.active = None;
        self.next_prune = None;
    }

    pub(super) fn prune_if_due(&mut self, now: WallTime) {
        let clock = Instant::now();
        if self.next_prune.is_some_and(|due| clock < due) {
            return;
        }
        self.next_prune = Some(clock + PRUNE_INTERVAL);
        self.seal_if_due(now);
        let retention = i64::try_from(self.config.retention.as_secs()).unwrap_or(i64::MAX);
        let oldest_kept = LineId::first_of_second(
            now.as_secs()
                .saturating_sub(retention)
                .clamp(0, i64::from(i32::MAX)),
        );
        let mut total: u64 = self.sealed.iter().map(|s| s.bytes).sum();
        total += self.active.as_ref().map_or(0, |a| a.index.end);
        let mut doomed: usize = 0;
        for segment in &self.sealed {
            if segment.last >= oldest_kept && total <= self.config.max_bytes {
                break;
            }
            total -= segment.bytes;
            doomed += 1;
        }
        if let (Some(newest), None) = (self.sealed.get(doomed.wrapping_sub(1)), &self.active)
            && doomed == self.sealed.len()
        {
            // If no segment were left, a restart with an earlier clock would reuse old ids.
            match create_active(&self.config.dir, LineId(newest.last.0.saturating_add(1))) {
                Ok(active) => self.active = Some(active),
                Err(_) => doomed -= 1,
            }
        }
        for segment in self.sealed.drain(..doomed) {
            for path in [&segment.path, &SegmentIndex::path_of(&segment.path)] {
                if let Err(e) = fs::remove_file(path)
                    && e.kind() != io::ErrorKind::NotFound
                {
                    tracing::warn!(file = %path.display(), "cannot remove an old log segment: {e}");
                }
            }
        }
    }
}

fn create_active(dir: &Path, first: LineId) -> io::Result<Active> {
    let path = segment_path(dir, first);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    Ok(Active {
        file,
        path,
        first,
        index: SegmentIndex::default(),
    })
}

/// Returns the path of the segment that begins with this id.
fn segment_path(dir: &Path, first: LineId) -> PathBuf {
    dir.join(format!("{:016x}.log", first.0))
}

/// Returns the first id of a segment; `None` for any other file. A segment may be cut and removed, so a user's `cafe.log` must not pass.
pub(super) fn segment_first_id(path: &Path) -> Option<LineId> {
    let digits = path.file_stem()?.to_str()?;
    let first = LineId(i64::from_str_radix(digits, 16).ok()?);
    (path == segment_path(path.parent()?, first)).then_some(first)
}

fn open_sealed(first: LineId, path: PathBuf) -> io::Result<Sealed> {
    let index = match SegmentIndex::load(&path) {
        Some(index) => index,
        None => {
            let file = open_regular(&path)?;
            let index = scan(&file)?;
            let bytes = file.metadata()?.len() - index.end;
            if bytes > 0 {
                tracing::warn!(segment = %path.display(), bytes, "a log segment is damaged; its later lines are lost");
            }
            if let Err(e) = index.save(&path) {
                tracing::warn!(segment = %path.display(), "cannot write a log index: {e}");
            }
            index
        }
    };
    Ok(Sealed {
        last: index.last_id().unwrap_or(first),
        bytes: index.end,
        path,
        first,
    })
}

fn open_active(first: LineId, path: PathBuf) -> io::Result<Active> {
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let index = scan(&file)?;
    let length = file.metadata()?.len();
    if length > index.end {
        tracing::warn!(segment = %path.display(), bytes = length - index.end, "cutting the torn tail of a log segment");
        file.set_len(index.end)?;
    }
    Ok(Active {
        file,
        path,
        first,
        index,
    })
}
