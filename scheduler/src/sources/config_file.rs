//! The configuration file: read when it has changed, and never believed half-written for long.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common_config::{Config, Format, MAX_CONFIG_BYTES, ParseOptions, UnknownKeys};
use brasserie_common_runtime::files;
use brasserie_scheduler_core::Event;

/// A configuration and what is worth a look in it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedConfig {
    pub config: Arc<Config>,
    /// Each with its place in the file.
    pub warnings: Vec<String>,
}

impl LoadedConfig {
    pub fn into_event(self) -> Event {
        Event::ConfigLoaded {
            config: self.config,
            warnings: self.warnings,
        }
    }
}

/// What tells one content of a file from another without reading it. Editors that keep the modification time are rare,
/// and ones that keep the length and the inode too are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    length: u64,
    inode: (u64, u64),
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        let meta = std::fs::metadata(path)?;
        Ok(Stamp {
            modified: (meta.mtime(), meta.mtime_nsec()),
            length: meta.len(),
            inode: (meta.dev(), meta.ino()),
        })
    }
}

/// A watched file.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Absolute, so that it means the same after a change of the working directory.
    path: PathBuf,
    unknown_keys: UnknownKeys,
    seen: Seen,
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Nothing,
    /// Read, well or not; the same content is not read again.
    Content(Stamp),
    /// Not even that, for this reason.
    Unreadable(String),
}

impl ConfigFile {
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(ConfigFile {
            path: std::path::absolute(path)?,
            unknown_keys: UnknownKeys::default(),
            seen: Seen::Nothing,
        })
    }

    /// The same, with another word on keys that nobody reads.
    pub fn with_unknown_keys(mut self, unknown_keys: UnknownKeys) -> Self {
        self.unknown_keys = unknown_keys;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where relative paths in the file start.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The new content, or why there is none; `None` while nothing has changed. An error is told once.
    pub async fn check(&mut self) -> Option<Result<LoadedConfig, String>> {
        let path = self.path.clone();
        let seen = self.seen.clone();
        let unknown_keys = self.unknown_keys;
        // Config files are large at times, and disks are slow.
        let looked = tokio::task::spawn_blocking(move || look(&path, unknown_keys, &seen)).await;
        let (seen, outcome) = looked.unwrap_or_else(|error| {
            (
                Seen::Nothing,
                Some(Err(format!(
                    "{}: reading it failed: {error}",
                    self.path.display()
                ))),
            )
        });
        self.seen = seen;
        outcome
    }
}

fn look(
    path: &Path,
    unknown_keys: UnknownKeys,
    seen: &Seen,
) -> (Seen, Option<Result<LoadedConfig, String>>) {
    // Taken before reading: a change during the reading is seen the next time.
    let stamp = match Stamp::of(path) {
        Ok(stamp) => stamp,
        Err(error) => {
            return unreadable(seen, format!("{}: cannot read it: {error}", path.display()));
        }
    };
    if *seen == Seen::Content(stamp) {
        return (seen.clone(), None);
    }
    match files::read(path, MAX_CONFIG_BYTES as u64) {
        Ok(bytes) => (
            Seen::Content(stamp),
            Some(parse(path, unknown_keys, &bytes)),
        ),
        Err(error) => unreadable(seen, error.to_string()),
    }
}

fn unreadable(seen: &Seen, why: String) -> (Seen, Option<Result<LoadedConfig, String>>) {
    let now = Seen::Unreadable(why.clone());
    let outcome = (*seen != now).then_some(Err(why));
    (now, outcome)
}

/// All problems, a line each, as FILE:LINE:COLUMN.
fn parse(path: &Path, unknown_keys: UnknownKeys, bytes: &[u8]) -> Result<LoadedConfig, String> {
    let file = path.display().to_string();
    let options = ParseOptions {
        format: Format::of_path(path),
        unknown_keys,
    };
    let parsed = brasserie_common_config::parse_bytes(bytes, options)
        .map_err(|errors| errors.display_with(&file))?;
    // A job with problems does not run, but the others do: for the file as a whole that is a warning.
    let warnings = parsed.job_problems().iter().chain(&parsed.warnings);
    let warnings = warnings
        .map(|problem| problem.display_with(&file).to_string())
        .collect();
    let mut config = parsed.config;
    if let Some(folder) = path.parent() {
        config.resolve_commands(folder);
    }
    Ok(LoadedConfig {
        config: Arc::new(config),
        warnings,
    })
}
