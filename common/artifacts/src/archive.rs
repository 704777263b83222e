//! The bytes of an artifact that is a folder: a tar archive with one possible form for each folder.
//!
//! An archive is a sequence of entries, then 1024 zero bytes. The folder itself has no entry. Entries are in depth-first order: each
//! folder comes before its content, and the entries of one folder are sorted by the bytes of their names.
//!
//! An entry is a header of 512 bytes in GNU's format. A file's content follows, with zero bytes up to a multiple of 512. The fields of a
//! header are:
//!
//! | field | content |
//! |---|---|
//! | name | the path from the folder, with `/` at the end of a folder's path; its first 100 bytes if it is longer |
//! | mode | `0000755` for folders and executable files, else `0000644` |
//! | uid, gid | `0000000` |
//! | size | 11 octal digits; from 8 GiB on the byte 0x80, then the number with the most significant byte first |
//! | mtime | `00000000000` |
//! | chksum | six octal digits, NUL, space |
//! | typeflag | `0` for files, `5` for folders |
//! | magic, version | `ustar`, two spaces, NUL |
//! | all others | NUL |
//!
//! A path of more than 100 bytes is preceded by an entry `././@LongLink` of type `L`, whose content is the path and a NUL.
//!
//! The reader accepts only these bytes. The module knows no files.

mod reader;

pub use reader::{ArchiveEntry, ArchiveError, ArchiveReader};

/// Limits of a folder, in both directions. They bound the memory and the open files of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderLimits {
    /// The most files and folders in it.
    pub entries: u64,
    /// The most names in a path. An operation opens this many folders.
    pub depth: usize,
    /// The longest path, in bytes.
    pub path_bytes: usize,
}

impl FolderLimits {
    pub const DEFAULT: FolderLimits = FolderLimits {
        // A package tree has some hundred thousand files; the names of one folder are in memory at once.
        entries: 1_000_000,
        // The deepest known source trees have about 30 levels.
        depth: 64,
        // Linux opens no longer path.
        path_bytes: 4095,
    };
}

impl Default for FolderLimits {
    fn default() -> Self {
        FolderLimits::DEFAULT
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File { size: u64, mode: FileMode },
    Folder,
}

/// The part of a file's mode that an archive keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    Plain,
    Executable,
}

const BLOCK: usize = 512;
const ZERO_BLOCK: [u8; BLOCK] = [0; BLOCK];
/// The bytes after the last entry.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];
/// The longest path in a header.
const NAME_BYTES: usize = 100;
const LONG_NAME: &[u8] = b"././@LongLink";
const TYPE_FILE: u8 = b'0';
const TYPE_FOLDER: u8 = b'5';
const TYPE_LONG_NAME: u8 = b'L';
const TYPE_AT: usize = 156;
const SIZE_AT: usize = 124;
/// The largest size of 11 octal digits.
const MAX_OCTAL_SIZE: u64 = (1 << 33) - 1;

/// Returns the header of an entry. `path` has no `/` at its end.
pub fn header(path: &[u8], kind: EntryKind) -> Vec<u8> {
    let mut name = path.to_owned();
    let (kind_byte, size, mode): (u8, u64, &[u8]) = match kind {
        EntryKind::Folder => (TYPE_FOLDER, 0, b"0000755"),
        EntryKind::File {
            size,
            mode: FileMode::Executable,
        } => (TYPE_FILE, size, b"0000755"),
        EntryKind::File {
            size,
            mode: FileMode::Plain,
        } => (TYPE_FILE, size, b"0000644"),
    };
    if kind == EntryKind::Folder {
        name.push(b'/');
    }
    let mut bytes = Vec::with_capacity(BLOCK);
    if name.len() > NAME_BYTES {
        let length = name.len() as u64 + 1;
        bytes.extend(block(LONG_NAME, TYPE_LONG_NAME, length, b"0000644"));
        bytes.extend(&name);
        bytes.push(0);
        bytes.extend(padding(length));
        name.truncate(NAME_BYTES);
    }
    bytes.extend(block(&name, kind_byte, size, mode));
    bytes
}

/// Returns the zero bytes that follow the content of a file.
pub fn padding(size: u64) -> &'static [u8] {
    static ZEROS: [u8; BLOCK] = ZERO_BLOCK;
    let rest = usize::try_from(size % BLOCK as u64).expect("Invariant: a remainder is below 512");
    match rest {
        0 => &[],
        rest => &ZEROS[rest..],
    }
}

fn block(name: &[u8], kind: u8, size: u64, mode: &[u8]) -> [u8; BLOCK] {
    let mut block = ZERO_BLOCK;
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, mode);
    put(108, b"0000000");
    put(116, b"0000000");
    if size > MAX_OCTAL_SIZE {
        put(SIZE_AT, &[0x80]);
        put(SIZE_AT + 4, &size.to_be_bytes());
    } else {
        put(SIZE_AT, format!("{size:011o}").as_bytes());
    }
    put(136, b"00000000000");
    // The sum counts the bytes of its own field as spaces.
    put(148, b"        ");
    put(TYPE_AT, &[kind]);
    put(257, b"ustar  \0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests;
