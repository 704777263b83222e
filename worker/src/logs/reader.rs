//! Reads the log folder of a worker from another process, while the worker writes or after it has ended, without changing the folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::logs::{LineId, LogLine, LogPage, LogQuery, LogStream};
use brasserie_common_runtime::files::open_regular;

use super::codes::stream_of;
use super::index::SegmentIndex;
use super::query::{self, Matcher, QueryError, Sealed, SegmentView};
use super::segment::{frame_length, read_up_to, records, scan};
use super::writer::segment_first_id;

/// Number of bytes of one read of a tail, enough for the longest frame.
const TAIL_BYTES: usize = 2 << 20;

/// The reason why the logs in a folder are unreadable.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the logs in {}: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// A reader that answers queries from the files alone. The worker writes a line to its file within a tenth of a second.
#[derive(Clone, Debug)]
pub struct LogReader {
    folder: PathBuf,
}

impl LogReader {
    /// Creates a reader. The folder need not exist; it has no lines then.
    pub fn new(folder: PathBuf) -> Self {
        LogReader { folder }
    }

    /// Returns one page of lines.
    pub fn query(&self, query: &LogQuery) -> Result<LogPage, ReadError> {
        Ok(self.snapshot()?.query(query)?)
    }

    /// Returns the id of the last line in the files; `None` if there is no line.
    pub fn last_id(&self) -> io::Result<Option<LineId>> {
        match segments(&self.folder)?.pop() {
            Some((first, path)) => Ok(scan(&open_regular(&path)?)?.last_id().or(Some(first))),
            None => Ok(None),
        }
    }

    /// Returns the present segments, for many queries.
    pub fn snapshot(&self) -> Result<LogSnapshot, ReadError> {
        let error = |error| ReadError::Folder {
            path: self.folder.clone(),
            error,
        };
        let views = views(&self.folder).map_err(error)?;
        Ok(LogSnapshot { views })
    }
}

/// The lines that a log folder has at one moment.
pub struct LogSnapshot {
    views: Vec<SegmentView>,
}

impl LogSnapshot {
    /// Returns one page of lines.
    pub fn query(&self, query: &LogQuery) -> Result<LogPage, QueryError> {
        let matcher = Matcher::new(query)?;
        Ok(query::page(&self.views, query, &matcher))
    }
}

/// Lists the segments of a folder, oldest first.
fn segments(folder: &Path) -> io::Result<Vec<(LineId, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        found.extend(segment_first_id(&path).map(|first| (first, path)));
    }
    found.sort();
    Ok(found)
}

fn views(folder: &Path) -> io::Result<Vec<SegmentView>> {
    let mut segments = segments(folder)?;
    let newest = segments.pop();
    let mut views = Vec::new();
    for (first, path) in segments {
        match SegmentIndex::load(&path) {
            Some(index) => views.push(SegmentView::Sealed(Arc::new(Sealed {
                last: index.last_id().unwrap_or(first),
                bytes: index.end,
                path,
                first,
            }))),
            None => views.extend(scanned(path)?),
        }
    }
    // The newest segment may be growing, so its index file may lack its last lines.
    if let Some((_, path)) = newest {
        views.extend(scanned(path)?);
    }
    Ok(views)
}

/// Scans one segment; `None` if retention has removed it meanwhile.
fn scanned(path: PathBuf) -> io::Result<Option<SegmentView>> {
    match open_regular(&path).and_then(|file| scan(&file)) {
        Ok(index) => Ok(Some(SegmentView::Active { path, index })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A reader that returns each line of a folder once, in the order in which the worker wrote them.
#[derive(Debug)]
pub struct LogTail {
    folder: PathBuf,
    /// The first id of the segment that is being read; `None` while the folder has no segment.
    segment: Option<LineId>,
    /// The position of the next frame in the segment, in bytes.
    offset: u64,
}

impl LogTail {
    /// Creates a tail that begins after the present last line.
    pub fn from_end(folder: PathBuf) -> io::Result<Self> {
        let (mut segment, mut offset) = (None, 0);
        if let Some((first, path)) = segments(&folder)?.pop() {
            segment = Some(first);
            offset = scan(&open_regular(&path)?)?.end;
        }
        Ok(LogTail {
            folder,
            segment,
            offset,
        })
    }

    /// Returns the next lines, at most a few mebibytes; empty if there are no new lines.
    pub fn next_lines(&mut self) -> io::Result<Vec<(LogStream, LogLine)>> {
        loop {
            // Segments are listed before the read, because a segment with a successor no longer grows.
            let segments = segments(&self.folder)?;
            let current = segments
                .iter()
                .find(|(first, _)| Some(*first) >= self.segment);
            let Some((first, path)) = current else {
                return Ok(Vec::new());
            };
            if Some(*first) != self.segment {
                (self.segment, self.offset) = (Some(*first), 0);
            }
            let lines = self.read(path)?;
            if !lines.is_empty() {
                return Ok(lines);
            }
            match segments.iter().find(|(next, _)| next > first) {
                Some((next, _)) => (self.segment, self.offset) = (Some(*next), 0),
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Reads the next whole frames of one segment.
    fn read(&mut self, path: &Path) -> io::Result<Vec<(LogStream, LogLine)>> {
        let file = match open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; TAIL_BYTES];
        let got = read_up_to(&file, &mut bytes, self.offset)?;
        let mut frames = &bytes[..got];
        let mut lines = Vec::new();
        while let Some(length) = frame_length(frames) {
            let (frame, rest) = frames.split_at(length);
            let known = records(frame).filter_map(|r| Some((stream_of(r.stream)?, r)));
            lines.extend(known.map(|(stream, record)| (stream, query::line(&record))));
            self.offset += length as u64;
            frames = rest;
        }
        Ok(lines)
    }
}
