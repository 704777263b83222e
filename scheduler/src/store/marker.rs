//! The marker file tells a used data directory from a new one, and a lost log from a closed one. Without it a damaged directory would look
//! new, and a new cluster would start tasks that workers of the old one still run.

use std::io;
use std::path::{Path, PathBuf};

use brasserie_common::SchedulerId;
use brasserie_common_runtime::files::{self, FileError, atomic_write};
use serde::{Deserialize, Serialize};

use super::error::StoreError;

/// The name of the marker file in the data directory.
pub const MARKER_FILE: &str = "used.json";
/// Maximum bytes that are read, far more than a scheduler writes.
const MAX_BYTES: u64 = 4096;
const ABOUT: &str = "A scheduler has used this data directory. Do not remove this file: without it a damaged directory looks like a new one.";

/// Whether the write-ahead log may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Log {
    /// The scheduler has copied the log into the database file and ended.
    Copied,
    /// The log may hold records that the database file lacks.
    Needed,
}

/// Whether a scheduler that has used a directory had an authority. A directory that has lost its folder `identity` looks like one without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormerAuthority {
    /// A former release has written the file, or there is none.
    #[default]
    Unknown,
    Absent,
    Present,
}

/// The content of the marker file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) log: Log,
    /// The last scheduler that recorded itself; `None` if the file cannot be parsed.
    pub(super) scheduler: Option<SchedulerId>,
    authority: FormerAuthority,
}

impl Marker {
    pub(super) fn authority(&self) -> FormerAuthority {
        self.authority
    }
}

#[derive(Serialize, Deserialize)]
struct Text {
    about: String,
    log: Log,
    /// The start time and the random part of the instance.
    scheduler: [i64; 2],
    #[serde(default)]
    authority: FormerAuthority,
}

/// The path of the file, and what this scheduler writes in it.
#[derive(Clone, Debug)]
pub(super) struct MarkerFile {
    path: PathBuf,
    authority: FormerAuthority,
}

impl MarkerFile {
    pub(super) fn in_folder(folder: &Path) -> Self {
        MarkerFile {
            path: folder.join(MARKER_FILE),
            authority: FormerAuthority::default(),
        }
    }

    /// Sets what [`MarkerFile::write`] writes about this scheduler.
    pub(super) fn note_authority(&mut self, authority: FormerAuthority) {
        self.authority = authority;
    }

    /// Returns `None` if there is no marker file. A file that cannot be parsed marks the directory too.
    pub(super) fn read(&self) -> Result<Option<Marker>, StoreError> {
        let bytes = match files::read_regular(&self.path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(FileError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(FileError::TooLarge { .. }) => Vec::new(),
            Err(
                error @ (FileError::Read { .. }
                | FileError::NotText { .. }
                | FileError::Exposed { .. }
                | FileError::NotOwn { .. }),
            ) => {
                return Err(StoreError::ReadMarker(error));
            }
        };
        let text: Option<Text> = serde_json::from_slice(&bytes).ok();
        Ok(Some(Marker {
            log: text.as_ref().map_or(Log::Needed, |text| text.log),
            authority: text.as_ref().map(|text| text.authority).unwrap_or_default(),
            scheduler: text.map(|text| SchedulerId::new(text.scheduler[0], text.scheduler[1])),
        }))
    }

    /// Replaces the file and syncs it with its folder.
    pub(super) fn write(&self, log: Log, scheduler: SchedulerId) -> Result<(), StoreError> {
        let text = Text {
            about: ABOUT.to_owned(),
            log,
            scheduler: [scheduler.0.start_time, scheduler.0.rand],
            authority: self.authority,
        };
        let mut bytes = serde_json::to_vec_pretty(&text)?;
        bytes.push(b'\n');
        atomic_write(&self.path, &bytes).map_err(|error| StoreError::WriteMarker {
            path: self.path.clone(),
            error,
        })
    }
}
