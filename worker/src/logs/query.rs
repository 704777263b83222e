//! Reads pages: selects the blocks that may hold wanted lines, the lines that match, and the start of the next page.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::logs::{LineId, LogLine, LogPage, LogQuery};
use brasserie_common::{InvocationId, JobName, NodeName};
use brasserie_common_runtime::files::open_regular;
use regex::bytes::{Regex, RegexBuilder};

use super::codes::stream_code;
use super::index::{Block, Bloom, SegmentIndex};
use super::segment::{LineRecord, read_up_to, records, scan};

/// The number of scanned lines of its stream after which a page ends: about 20 ms of work, so that no reader holds a thread.
const PAGE_SCANNED_LINES: usize = 20_000;
/// The time after which a page ends: slow disks and slow patterns must not hold a thread either.
pub(super) const PAGE_TIME: Duration = Duration::from_millis(40);
/// The largest number of lines on a page, whatever the limit of the query.
const PAGE_LINES: usize = PAGE_SCANNED_LINES;
/// The largest text on a page, names included: half of the largest frame, so that the reply certainly fits one.
const PAGE_BYTES: usize = 8 << 20;
/// The largest compiled size of a pattern. A stranger may send one, and the longest sensible patterns need this much.
const PATTERN_BYTES: usize = 1 << 20;
/// The number of lines for which the clock is read once.
const LINES_PER_CLOCK: usize = 64;

/// The reason why a query cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("the regex filter {pattern:?} cannot be used: {reason}")]
    Pattern { pattern: String, reason: String },
}

/// Errors if the pattern is no valid regular expression, or is too large.
pub fn check_pattern(text: &str) -> Result<(), QueryError> {
    compile(text).map(|_: Regex| ())
}

fn compile(text: &str) -> Result<Regex, QueryError> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
    built.map_err(|e| QueryError::Pattern {
        pattern: text.chars().take(200).collect(),
        reason: e.to_string(),
    })
}

/// A query in a form that is fast to compare.
pub(super) struct Matcher {
    stream: u8,
    jobs: Vec<(JobName, Bloom)>,
    nodes: Vec<(NodeName, Bloom)>,
    pattern: Option<Regex>,
    invocation: Option<InvocationId>,
}

impl Matcher {
    pub(super) fn new(query: &LogQuery) -> Result<Self, QueryError> {
        let pattern = match query.regex.as_str() {
            "" => None,
            text => Some(compile(text)?),
        };
        let jobs = query
            .jobs
            .iter()
            .map(|j| (j.clone(), Bloom::of_job(j.as_str().as_bytes())))
            .collect();
        let nodes = query
            .nodes
            .iter()
            .map(|n| (n.clone(), Bloom::of_node(n.as_str().as_bytes())))
            .collect();
        Ok(Matcher {
            stream: stream_code(query.stream),
            jobs,
            nodes,
            pattern,
            invocation: query.invocation,
        })
    }

    fn may_match(&self, block: &Block, query: &LogQuery) -> bool {
        block.may_hold_stream(query.stream)
            && (self.jobs.is_empty()
                || self
                    .jobs
                    .iter()
                    .any(|(_, bloom)| block.names.may_contain(bloom)))
            && (self.nodes.is_empty()
                || self
                    .nodes
                    .iter()
                    .any(|(_, bloom)| block.names.may_contain(bloom)))
    }

    fn matches(&self, record: &LineRecord<'_>) -> bool {
        (self.jobs.is_empty()
            || self
                .jobs
                .iter()
                .any(|(job, _)| job.as_str().as_bytes() == record.job))
            && (self.nodes.is_empty()
                || self
                    .nodes
                    .iter()
                    .any(|(node, _)| node.as_str().as_bytes() == record.node))
            && self.invocation.is_none_or(|run| run == record.invocation)
            && self.pattern.as_ref().is_none_or(|pattern| {
                // The newline is removed, so that `$` matches as people expect.
                pattern.is_match(record.line.strip_suffix(b"\n").unwrap_or(record.line))
            })
    }
}

/// A segment that is no longer written.
#[derive(Debug)]
pub(super) struct Sealed {
    pub path: PathBuf,
    pub first: LineId,
    pub last: LineId,
    pub bytes: u64,
}

/// The state of one segment for a query.
pub(super) enum SegmentView {
    Sealed(Arc<Sealed>),
    Active { path: PathBuf, index: SegmentIndex },
}

impl SegmentView {
    fn path(&self) -> &Path {
        match self {
            SegmentView::Sealed(sealed) => &sealed.path,
            SegmentView::Active { path, .. } => path,
        }
    }

    /// Returns whether any line can lie at or beyond `from`, in reading direction.
    fn reaches(&self, query: &LogQuery) -> bool {
        let (first, last) = match self {
            SegmentView::Sealed(sealed) => (sealed.first, sealed.last),
            SegmentView::Active { index, .. } => match (index.blocks.first(), index.last_id()) {
                (Some(block), Some(last)) => (block.first, last),
                (None, _) | (_, None) => return false,
            },
        };
        in_range(query, first) || in_range(query, last)
    }
}

fn in_range(query: &LogQuery, id: LineId) -> bool {
    match (query.from, query.ascending) {
        (None, _) => true,
        (Some(from), true) => id >= from,
        (Some(from), false) => id <= from,
    }
}

/// Reads one page. Skips segments that retention has removed meanwhile. A line without an id reports unreadable segments.
pub(super) fn page(segments: &[SegmentView], query: &LogQuery, matcher: &Matcher) -> LogPage {
    let mut page = PageBuilder::new(query, matcher);
    let mut visit = |segment: &SegmentView| match segment.reaches(query) {
        true => page.read_segment(segment),
        false => ControlFlow::Continue(()),
    };
    let _: ControlFlow<()> = match query.ascending {
        true => segments.iter().try_for_each(&mut visit),
        false => segments.iter().rev().try_for_each(&mut visit),
    };
    page.finish()
}

struct PageBuilder<'a> {
    query: &'a LogQuery,
    matcher: &'a Matcher,
    limit: usize,
    deadline: Instant,
    scanned: usize,
    blocks: usize,
    bytes: usize,
    page: LogPage,
    /// The notice about the first segment that could not be read completely.
    unread: Option<String>,
}

impl<'a> PageBuilder<'a> {
    fn new(query: &'a LogQuery, matcher: &'a Matcher) -> Self {
        let limit = query.limit.clamp(1, PAGE_LINES);
        let deadline = Instant::now() + PAGE_TIME;
        PageBuilder {
            query,
            matcher,
            limit,
            deadline,
            scanned: 0,
            blocks: 0,
            bytes: 0,
            page: LogPage::default(),
            unread: None,
        }
    }

    fn finish(mut self) -> LogPage {
        let notice = self.unread.map(|line| LogLine {
            line,
            ..LogLine::default()
        });
        self.page.lines.extend(notice);
        self.page
    }

    /// Skips the unreadable rest of a segment, and notes the first one.
    fn skip_unreadable(&mut self, path: &Path, why: &dyn fmt::Display) -> ControlFlow<()> {
        let text = || {
            format!(
                "lines are missing, since {} cannot be read: {why}",
                path.display()
            )
        };
        self.unread.get_or_insert_with(text);
        ControlFlow::Continue(())
    }

    fn read_segment(&mut self, segment: &SegmentView) -> ControlFlow<()> {
        let file = match open_regular(segment.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return ControlFlow::Continue(());
            }
            Err(error) => return self.skip_unreadable(segment.path(), &error),
        };
        let loaded;
        let index = match segment {
            SegmentView::Active { index, .. } => index,
            SegmentView::Sealed(sealed) => {
                let index = SegmentIndex::load(&sealed.path).map_or_else(|| scan(&file), Ok);
                match index {
                    Ok(index) => loaded = index,
                    Err(error) => return self.skip_unreadable(&sealed.path, &error),
                }
                &loaded
            }
        };
        let ascending = self.query.ascending;
        let mut visit = |at: usize| self.read_block((segment.path(), &file), index, at);
        match ascending {
            true => (0..index.blocks.len()).try_for_each(&mut visit),
            false => (0..index.blocks.len()).rev().try_for_each(&mut visit),
        }
    }

    fn read_block(
        &mut self,
        (path, file): (&Path, &File),
        index: &SegmentIndex,
        position: usize,
    ) -> ControlFlow<()> {
        let block = &index.blocks[position];
        let (nearest, farthest) = match self.query.ascending {
            true => (block.first, block.last),
            false => (block.last, block.first),
        };
        if !in_range(self.query, farthest) || !self.matcher.may_match(block, self.query) {
            return ControlFlow::Continue(());
        }
        // A page reads at least one block before its time can end it, so that the reader makes progress.
        if self.blocks > 0 && Instant::now() >= self.deadline {
            self.page.next = Some(nearest);
            return ControlFlow::Break(());
        }
        self.blocks += 1;
        let (offset, length) = index.extent(position);
        let mut bytes = vec![0; length];
        let got = match read_up_to(file, &mut bytes, offset) {
            Ok(got) => got,
            Err(error) => return self.skip_unreadable(path, &error),
        };
        let mut records = records(&bytes[..got]);
        let stream = self.matcher.stream;
        let wanted: Vec<_> = records.by_ref().filter(|r| r.stream == stream).collect();
        if got < length || !records.is_whole() {
            let _: ControlFlow<()> = self.skip_unreadable(path, &"it is damaged");
        }
        match self.query.ascending {
            true => wanted.iter().try_for_each(|record| self.offer(record)),
            false => wanted
                .iter()
                .rev()
                .try_for_each(|record| self.offer(record)),
        }
    }

    /// Adds a line if it matches. Ends the page before the line if the page is full or its time is over.
    fn offer(&mut self, record: &LineRecord<'_>) -> ControlFlow<()> {
        if !in_range(self.query, record.id) {
            return ControlFlow::Continue(());
        }
        let out_of_time = self.scanned > 0
            && self.scanned.is_multiple_of(LINES_PER_CLOCK)
            && Instant::now() >= self.deadline;
        if self.page.lines.len() >= self.limit
            || self.scanned >= PAGE_SCANNED_LINES
            || self.bytes >= PAGE_BYTES
            || out_of_time
        {
            self.page.next = Some(record.id);
            return ControlFlow::Break(());
        }
        self.scanned += 1;
        if self.matcher.matches(record) {
            let line = line(record);
            self.bytes += line.text_bytes();
            self.page.lines.push(line);
        }
        ControlFlow::Continue(())
    }
}

/// Converts a record to a line. If it is not UTF-8, the line has both a readable text and the original bytes.
pub(super) fn line(record: &LineRecord<'_>) -> LogLine {
    let (line, bytes) = match std::str::from_utf8(record.line) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (
            String::from_utf8_lossy(record.line).into_owned(),
            Some(record.line.to_vec()),
        ),
    };
    LogLine {
        job: JobName::try_from(&*String::from_utf8_lossy(record.job)).unwrap_or_default(),
        node: NodeName::try_from(&*String::from_utf8_lossy(record.node)).unwrap_or_default(),
        time_secs: record.time.as_secs(),
        line,
        id: Some(record.id),
        time: Some(record.time),
        invocation: (record.invocation != InvocationId::default()).then_some(record.invocation),
        shard: None,
        bytes,
        part: record.part,
    }
}
