//! The log folder of a worker as another process reads it, while the worker writes or after it has ended. Nothing in the folder changes.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::logs::{LineId, LogLine, LogPage, LogQuery, LogStream};

use super::index::SegmentIndex;
use super::query::{self, Matcher, QueryError, SegmentView};
use super::segment::{frame_length, read_up_to, records, scan, stream_of};
use super::writer::{Sealed, segment_first_id};

/// Bytes that a tail reads at a time: the longest frame fits.
const TAIL_BYTES: usize = 2 << 20;

/// Why the logs in a folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the logs in {}: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Answers queries from the files alone. Lines that the worker has not written yet, which takes a tenth of a second, are missing.
#[derive(Clone, Debug)]
pub struct LogReader {
    folder: PathBuf,
}

impl LogReader {
    /// A folder that does not exist has no lines.
    pub fn new(folder: PathBuf) -> Self {
        LogReader { folder }
    }

    /// One page of lines.
    pub fn query(&self, query: &LogQuery) -> Result<LogPage, ReadError> {
        Ok(self.snapshot()?.query(query)?)
    }

    /// The segments as they are now, for many queries.
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
    /// One page of lines.
    pub fn query(&self, query: &LogQuery) -> Result<LogPage, QueryError> {
        let matcher = Matcher::new(query)?;
        Ok(query::page(&self.views, query, &matcher))
    }
}

/// The segments of a folder, oldest first.
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
    // The newest one may be growing, and its index file may be older than its last lines.
    if let Some((_, path)) = newest {
        views.extend(scanned(path)?);
    }
    Ok(views)
}

/// `None` if retention has removed the segment meanwhile.
fn scanned(path: PathBuf) -> io::Result<Option<SegmentView>> {
    match File::open(&path).and_then(|file| scan(&file)) {
        Ok(index) => Ok(Some(SegmentView::Active { path, index })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads each line of a folder once, in the order in which they were written.
#[derive(Debug)]
pub struct LogTail {
    folder: PathBuf,
    /// The segment that is being read, by its first id; `None`: there was none yet.
    segment: Option<LineId>,
    /// The next frame begins here.
    offset: u64,
}

impl LogTail {
    /// Begins after the last line that is there now.
    pub fn from_end(folder: PathBuf) -> io::Result<Self> {
        let (mut segment, mut offset) = (None, 0);
        if let Some((first, path)) = segments(&folder)?.pop() {
            segment = Some(first);
            offset = scan(&File::open(path)?)?.end;
        }
        Ok(LogTail {
            folder,
            segment,
            offset,
        })
    }

    /// The next lines, a few mebibytes at most; none if there are no more for now.
    pub fn next_lines(&mut self) -> io::Result<Vec<(LogStream, LogLine)>> {
        loop {
            // Listed first: a segment that has a successor does not grow any more.
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

    /// Whole frames of one segment.
    fn read(&mut self, path: &Path) -> io::Result<Vec<(LogStream, LogLine)>> {
        let file = match File::open(path) {
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
