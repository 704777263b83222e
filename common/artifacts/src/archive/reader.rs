//! The reading of archives: nothing is accepted but the bytes that this store writes, since each header is written again and compared.

use std::io::{self, Read};

use thiserror::Error;

use super::{
    BLOCK, EntryKind, FileMode, FolderLimits, NAME_BYTES, SIZE_AT, TYPE_AT, TYPE_FILE, TYPE_FOLDER,
    TYPE_LONG_NAME, ZERO_BLOCK, header, padding,
};

/// The reason why bytes are not the archive of a folder.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Read(io::Error),
    #[error("{0}")]
    Form(&'static str),
}

/// A file or folder in an archive. The content of a file follows: see [`ArchiveReader::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The number of folders on the path to it. They are those of the entry before, from the outermost on.
    pub depth: usize,
    /// The name in its folder, without `/` and NUL; neither `.` nor `..`.
    pub name: Vec<u8>,
    pub kind: EntryKind,
}

/// Reads an archive and errors at the first byte that [`header`], [`padding`] and [`END`](super::END) would not have written there.
pub struct ArchiveReader<R> {
    source: R,
    limits: FolderLimits,
    entries: u64,
    /// The names on the path of the last entry.
    path: Vec<Vec<u8>>,
    kind: EntryKind,
    /// Bytes of the last entry's content that were not read yet.
    rest: u64,
}

impl<R: Read> ArchiveReader<R> {
    pub fn new(source: R, limits: FolderLimits) -> Self {
        ArchiveReader {
            source,
            limits,
            entries: 0,
            path: Vec::new(),
            kind: EntryKind::Folder,
            rest: 0,
        }
    }

    /// Returns the next entry; none after the last one. The content of the entry before must have been read.
    pub fn next(&mut self) -> Result<Option<ArchiveEntry>, ArchiveError> {
        assert_eq!(self.rest, 0, "Invariant: callers read each content");
        if let EntryKind::File { size, .. } = self.kind {
            self.expect(padding(size), "bytes follow the content of a file")?;
        }
        let mut bytes = self.block()?.to_vec();
        if bytes == ZERO_BLOCK {
            self.expect(&ZERO_BLOCK, "the end of the archive is not 1024 zero bytes")?;
            return match self.source.read(&mut [0]).map_err(ArchiveError::Read)? {
                0 => Ok(None),
                _ => Err(ArchiveError::Form("bytes follow the end of the archive")),
            };
        }
        let mut name = None;
        if bytes[TYPE_AT] == TYPE_LONG_NAME {
            name = Some(self.long_name(&mut bytes)?);
        }
        let last = &bytes[bytes.len() - BLOCK..];
        let mut name = name.unwrap_or_else(|| {
            let field = &last[..NAME_BYTES];
            field
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default()
                .to_vec()
        });
        let kind = match last[TYPE_AT] {
            TYPE_FOLDER if name.pop() == Some(b'/') => EntryKind::Folder,
            TYPE_FILE => EntryKind::File {
                size: size_field(last),
                mode: match &last[100..107] {
                    b"0000755" => FileMode::Executable,
                    _ => FileMode::Plain,
                },
            },
            _ => {
                return Err(ArchiveError::Form(
                    "an entry is neither a file nor a folder",
                ));
            }
        };
        if header(&name, kind) != bytes {
            return Err(ArchiveError::Form(
                "a header differs from the one that this store writes",
            ));
        }
        self.advance(&name, kind).map(Some)
    }

    /// Reads from the content of the last entry. Returns the number of bytes, which is zero at the end of the content.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let most = usize::try_from(self.rest)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self
            .source
            .read(&mut buffer[..most])
            .map_err(ArchiveError::Read)?;
        if count == 0 {
            return Err(ArchiveError::Form("the archive ends within a file"));
        }
        self.rest -= count as u64;
        Ok(count)
    }

    fn block(&mut self) -> Result<[u8; BLOCK], ArchiveError> {
        let mut block = ZERO_BLOCK;
        self.fill(&mut block)?;
        Ok(block)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.source
            .read_exact(buffer)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ArchiveError::Form("the archive ends too early"),
                _ => ArchiveError::Read(error),
            })
    }

    fn expect(&mut self, bytes: &[u8], otherwise: &'static str) -> Result<(), ArchiveError> {
        let mut found = vec![0; bytes.len()];
        self.fill(&mut found)?;
        match found == bytes {
            true => Ok(()),
            false => Err(ArchiveError::Form(otherwise)),
        }
    }

    /// Reads the content of an entry with a long name, and the header after it. Appends both to `bytes`, the header of the former.
    fn long_name(&mut self, bytes: &mut Vec<u8>) -> Result<Vec<u8>, ArchiveError> {
        let length = size_field(bytes);
        // The path of a folder ends in `/`, and each path in NUL.
        let most = self.limits.path_bytes as u64 + 2;
        if length == 0 || length > most {
            return Err(ArchiveError::Form("a path is too long"));
        }
        let length = usize::try_from(length).expect("Invariant: at most `path_bytes` + 2");
        let mut content = vec![0; length.next_multiple_of(BLOCK)];
        self.fill(&mut content)?;
        bytes.extend(&content);
        bytes.extend(self.block()?);
        content.truncate(length - 1);
        Ok(content)
    }

    /// Checks the path of the next entry against the last one, and makes it the last one.
    fn advance(&mut self, path: &[u8], kind: EntryKind) -> Result<ArchiveEntry, ArchiveError> {
        self.entries += 1;
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        if self.entries > self.limits.entries
            || path.len() > self.limits.path_bytes
            || names.len() > self.limits.depth
        {
            return Err(ArchiveError::Form(
                "too many entries, or a path is too long or too deep",
            ));
        }
        let is_name = |name: &&[u8]| !matches!(*name, b"" | b"." | b"..") && !name.contains(&0);
        if !names.iter().all(is_name) {
            return Err(ArchiveError::Form(
                "a path has an empty name, `.`, `..` or NUL",
            ));
        }
        let (name, folders) = names.split_last().expect("Invariant: a split has a part");
        let depth = folders.len();
        let in_known_folder = self.path.len() >= depth
            && self
                .path
                .iter()
                .zip(folders)
                .all(|(known, folder)| known == folder);
        let in_order = match self.path.get(depth) {
            Some(before) => before.as_slice() < *name,
            None => self.kind == EntryKind::Folder,
        };
        if !(in_known_folder && in_order) {
            return Err(ArchiveError::Form(
                "entries are not in order, or a folder has no entry",
            ));
        }
        self.path.truncate(depth);
        self.path.push(name.to_vec());
        self.kind = kind;
        self.rest = match kind {
            EntryKind::File { size, .. } => size,
            EntryKind::Folder => 0,
        };
        let name = name.to_vec();
        Ok(ArchiveEntry { depth, name, kind })
    }
}

/// Returns the number in the field of the size. The result of a wrong field is arbitrary.
fn size_field(block: &[u8]) -> u64 {
    let field = &block[SIZE_AT..SIZE_AT + 12];
    match field[0] {
        0x80 => field[4..]
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        _ => field[..11]
            .iter()
            .fold(0, |sum, digit| sum << 3 | u64::from(digit & 7)),
    }
}
