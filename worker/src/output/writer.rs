//! Compresses and writes files on one thread, and counts output that the disk refuses.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use brasserie_common::collections::IdMap;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::queue::{BLOCK, OutputEnd, OutputRun, QueuedOutput, QueuedPart, SharedOutput, Written};
use super::retention::{Keeping, NoRoom};
use super::{Stream, Streams};

/// The compression level, of 1 to 9. The next levels make logs a tenth smaller at a quarter of the speed, and one thread writes for all
/// tasks.
const LEVEL: u32 = 1;
/// The step by which the compressor's result buffer grows, in bytes.
const STEP: usize = 64 << 10;
/// A member's header according to RFC 1952: deflate, no name, no time, no flags, from a Unix-like system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// The reason why output is not in a file.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("the worker's disk is slower than the task, which does not wait (`log_overflow`)")]
    Slow,
}

/// Runs the writer until the store is dropped and everything is written.
pub(super) fn run(shared: &SharedOutput) {
    let mut writer = Writer {
        keeping: &shared.keeping,
        packer: Packer::new(),
        open: IdMap::default(),
        trouble: Trouble::No,
    };
    loop {
        let batch = shared.next_batch();
        if batch.is_empty() {
            // Only handles that outlive the store have left these files open.
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
    /// The runs that have printed something and are not over.
    open: IdMap<u64, OpenFiles>,
    trouble: Trouble,
}

/// Whether the last write failed. A failure is logged once.
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
struct OpenFiles {
    run: Arc<OutputRun>,
    files: Streams<OutFile>,
}

/// A growing file, which is created once there is output.
#[derive(Debug, Default)]
struct OutFile {
    file: Option<File>,
    /// The length of the good bytes.
    end: u64,
    tail: FileTail,
    printed: u64,
    lost: u64,
    why: Option<String>,
}

/// The state of the file after the good bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FileTail {
    #[default]
    Clean,
    /// A failed write may have left bytes there.
    Torn,
}

impl Writer<'_> {
    fn write(&mut self, waiting: QueuedOutput) {
        let QueuedOutput {
            run, parts, end, ..
        } = waiting;
        let id = run.id;
        let open = self.open.entry(id).or_insert_with(|| OpenFiles {
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
            OutputEnd::Open => {}
            OutputEnd::Over => self.finish(id),
        }
    }

    fn finish(&mut self, id: u64) {
        let Some(OpenFiles { run, files }) = self.open.remove(&id) else {
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
    /// Writes one part. `None` if there was nothing to write.
    fn take(
        &mut self,
        path: &Path,
        part: QueuedPart,
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
        // The blocks are written one by one, so that those that still fit are kept.
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

    /// Writes a whole member or nothing. It follows the good bytes and overwrites the rest of a failed write.
    fn append(&mut self, path: &Path, member: &[u8], keeping: &Keeping) -> Result<(), Lost> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = keeping.create(path)?;
                // A second run of the same name continues where the first one ended.
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
                Ok(()) => FileTail::Clean,
                Err(_) => FileTail::Torn,
            };
            keeping.shrink(path, self.end);
            return Err(error.into());
        }
        self.end = end;
        Ok(())
    }

    /// Finishes the file. `None` if nothing was printed.
    fn finish(self, path: &Path, keeping: &Keeping) -> Option<Written> {
        if let Some(file) = &self.file {
            if self.tail == FileTail::Torn
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
