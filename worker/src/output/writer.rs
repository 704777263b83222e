//! The one thread that compresses and writes files, and what happens when the disk refuses.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::collections::IdMap;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::Stream;
use super::retention::{Keeping, NoRoom};
use super::store::{BLOCK, End, Part, Run, Shared, Streams, Waiting};

/// Output of a run that does not fill a block gathers this long before it is written: what a worker that is killed may lose.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Of 1 to 9: with the next ones logs get a tenth smaller at a quarter of the speed, and one thread writes for all tasks.
const LEVEL: u32 = 1;
/// How much the compressor's result grows by at a time.
const STEP: usize = 64 << 10;
/// A member's header as RFC 1952 has it: deflate, no name, no time, no flags, from a system like Unix.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// One stream of one run, when its file is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub file: PathBuf,
    /// Printed, what was lost included.
    pub bytes: u64,
    /// The length of the file; without one 0.
    pub compressed: u64,
    /// Of what was printed.
    pub lost: u64,
    /// Why something was lost, if it was.
    pub why: Option<String>,
}

/// Why something is not in a file.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("the worker's disk is slower than the task, which does not wait (`log_overflow`)")]
    Slow,
}

/// Ends when the store is dropped and everything is written.
pub(super) fn run(shared: &Shared) {
    let mut writer = Writer {
        keeping: &shared.keeping,
        packer: Packer::new(),
        open: IdMap::default(),
        trouble: Trouble::No,
    };
    loop {
        let batch = shared.next_batch();
        if batch.is_empty() {
            // Only handles that outlive the store have left these open.
            let left: Vec<u64> = writer.open.keys().copied().collect();
            left.into_iter().for_each(|id| writer.finish(id));
            return;
        }
        for waiting in batch {
            writer.write(waiting);
        }
    }
}

struct Writer<'a> {
    keeping: &'a Keeping,
    packer: Packer,
    /// Runs that have printed something and are not over.
    open: IdMap<u64, Open>,
    trouble: Trouble,
}

/// Whether the last write failed, which is told once.
///
/// ```text
/// No <--a write succeeds, one fails--> Told
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    No,
    Told,
}

/// The files of a run.
struct Open {
    run: Arc<Run>,
    files: Streams<OutFile>,
}

/// A file that grows, once there is something to write.
#[derive(Debug, Default)]
struct OutFile {
    file: Option<File>,
    /// Of the good bytes.
    end: u64,
    tail: Tail,
    printed: u64,
    lost: u64,
    why: Option<String>,
}

/// What lies behind the good bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tail {
    #[default]
    Clean,
    /// What a failed write may have left.
    Torn,
}

impl Writer<'_> {
    fn write(&mut self, waiting: Waiting) {
        let Waiting {
            run, parts, end, ..
        } = waiting;
        let id = run.id;
        let open = self.open.entry(id).or_insert_with(|| Open {
            run,
            files: Streams::default(),
        });
        for (stream, part) in Stream::ALL.into_iter().zip(parts) {
            let path = &open.run.files[stream.index()];
            let file = &mut open.files[stream.index()];
            let Some(result) = file.take(path, part, &mut self.packer, self.keeping) else {
                continue;
            };
            match (result, self.trouble) {
                (Ok(()), _) => self.trouble = Trouble::No,
                (Err(_), Trouble::Told) => {}
                (Err(why), Trouble::No) => {
                    self.trouble = Trouble::Told;
                    tracing::error!(file = %path.display(), "output of a task cannot be written, it is dropped until it can: {why}");
                }
            }
        }
        match end {
            End::Open => {}
            End::Over => self.finish(id),
        }
    }

    fn finish(&mut self, id: u64) {
        let Some(Open { run, files }) = self.open.remove(&id) else {
            return;
        };
        for ((stream, file), path) in Stream::ALL.into_iter().zip(files).zip(&run.files) {
            if let Some(written) = file.finish(path, self.keeping) {
                (run.told)(stream, &written);
            }
        }
    }
}

impl OutFile {
    /// `None`: there was nothing to write.
    fn take(
        &mut self,
        path: &Path,
        part: Part,
        packer: &mut Packer,
        keeping: &Keeping,
    ) -> Option<Result<(), Lost>> {
        self.printed += part.dropped;
        if part.dropped > 0 {
            self.lose(part.dropped, &Lost::Slow);
        }
        if part.bytes.is_empty() {
            return None;
        }
        let mut result = Ok(());
        // One by one, so that what still fits is kept.
        for block in part.bytes.chunks(BLOCK) {
            let length = block.len() as u64;
            self.printed += length;
            if let Err(why) = self.append(path, packer.pack(block), keeping) {
                self.lose(length, &why);
                result = Err(why);
            }
        }
        Some(result)
    }

    fn lose(&mut self, bytes: u64, why: &Lost) {
        self.lost += bytes;
        self.why = Some(why.to_string());
    }

    /// Behind the good bytes, whatever a failed write left there. All of it, or nothing.
    fn append(&mut self, path: &Path, member: &[u8], keeping: &Keeping) -> Result<(), Lost> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = keeping.create(path)?;
                // A second run of the same name goes on where the first one ended.
                self.end = file.metadata()?.len();
                self.file.insert(file)
            }
        };
        let length = member.len() as u64;
        keeping.check_reserve(length)?;
        let end = self.end + length;
        keeping.grow(path, end)?;
        if let Err(error) = file.write_all_at(member, self.end) {
            self.tail = match file.set_len(self.end) {
                Ok(()) => Tail::Clean,
                Err(_) => Tail::Torn,
            };
            keeping.shrink(path, self.end);
            return Err(error.into());
        }
        self.end = end;
        Ok(())
    }

    /// `None`: nothing was printed.
    fn finish(self, path: &Path, keeping: &Keeping) -> Option<Written> {
        if let Some(file) = &self.file {
            if self.tail == Tail::Torn
                && let Err(error) = file.set_len(self.end)
            {
                tracing::warn!(file = %path.display(), "cannot cut what a failed write left behind: {error}");
            }
            keeping.finish(path, self.end);
        }
        (self.printed > 0).then(|| Written {
            file: path.to_owned(),
            bytes: self.printed,
            compressed: self.end,
            lost: self.lost,
            why: self.why,
        })
    }
}

/// Makes gzip members, with one compressor for all.
struct Packer {
    deflate: Compress,
    member: Vec<u8>,
}

impl Packer {
    fn new() -> Self {
        Packer {
            deflate: Compress::new(Compression::new(LEVEL), false),
            member: Vec::new(),
        }
    }

    fn pack(&mut self, bytes: &[u8]) -> &[u8] {
        self.member.clear();
        self.member.extend_from_slice(&HEADER);
        self.deflate.reset();
        loop {
            self.member.reserve(STEP);
            let done = usize::try_from(self.deflate.total_in()).unwrap_or(usize::MAX);
            let status =
                self.deflate
                    .compress_vec(&bytes[done..], &mut self.member, FlushCompress::Finish);
            match status.expect("a compressor takes any bytes") {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {}
            }
        }
        let mut crc = Crc::new();
        crc.update(bytes);
        self.member.extend_from_slice(&crc.sum().to_le_bytes());
        self.member.extend_from_slice(&crc.amount().to_le_bytes());
        &self.member
    }
}
