//! The watched configuration file. It is read again when it has changed, and a half-written version is not accepted for long.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::time::readable_duration;
use brasserie_common_config::{
    Config, ConfigErrors, Format, MAX_CONFIG_BYTES, ParseOptions, Parsed, UnknownKeys,
};
use brasserie_common_runtime::files;
use brasserie_scheduler_core::{ConfigOrigin, Event, FileText, KeptConfig};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// A configuration with its warnings and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedConfig {
    pub config: Arc<Config>,
    /// Warnings, each with its place in the file.
    pub warnings: Vec<String>,
    pub origin: ConfigOrigin,
}

impl LoadedConfig {
    pub fn into_event(self) -> Event {
        Event::ConfigLoaded {
            config: self.config,
            warnings: self.warnings,
            origin: self.origin,
        }
    }

    /// Parses a file's text that an earlier scheduler kept, like the file itself.
    pub(crate) fn of_kept(
        kept: &KeptConfig,
        unknown_keys: UnknownKeys,
    ) -> Result<LoadedConfig, String> {
        let path = Path::new(&*kept.path);
        let loaded = parse(path, unknown_keys, kept.text.as_bytes())?;
        Ok(LoadedConfig {
            origin: ConfigOrigin::Kept,
            ..loaded
        })
    }
}

/// Checks in a row without two equal stamps before the file is reported as changing: ten seconds at the usual period, far longer than
/// writing a file of this size takes.
const MAX_RESTLESS_LOOKS: u32 = 40;
/// A check of the file that takes this long is reported, and again each time its age has doubled. A working disk needs far less.
const LONG_LOOK: Duration = Duration::from_secs(10);

/// Metadata that tells one content of a file from another without reading it. Every write changes `changed`, even if an editor resets the
/// modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    changed: (i64, i64),
    modified: (i64, i64),
    length: u64,
    inode: (u64, u64),
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        let meta = std::fs::metadata(path)?;
        Ok(Stamp {
            changed: (meta.ctime(), meta.ctime_nsec()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            length: meta.len(),
            inode: (meta.dev(), meta.ino()),
        })
    }
}

/// The result of one check of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileCheck {
    File(Stamp),
    Unreadable(String),
}

/// The last report to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileReport {
    /// SHA-256 of the bytes, valid or not. Equal bytes are not reported again.
    Content([u8; 32]),
    /// Why the file cannot be read.
    Problem(String),
}

/// A watched file. A half-written file may be valid with half of the jobs missing, so a change is accepted when two checks in a row see the
/// same stamp. The very first version is accepted at once, so that a start need not wait, and is read again later.
///
/// ```text
///           looks the same again              another look
///   Changed ---------------------> Settled ------------------> Changed
/// ```
#[derive(Debug)]
pub struct ConfigFile {
    /// The absolute path, which stays valid after a change of the working directory.
    path: PathBuf,
    unknown_keys: UnknownKeys,
    watch: FileWatch,
    /// The check that is in progress.
    pub(super) looking: Option<Looking>,
}

/// A check of the file on a blocking thread, because config files can be large and disks slow.
#[derive(Debug)]
pub(super) struct Looking {
    began: Instant,
    /// The age at which the check is reported as slow.
    told_at: Duration,
    look: JoinHandle<(FileWatch, News)>,
}

impl Looking {
    pub(super) fn at(look: JoinHandle<(FileWatch, News)>) -> Self {
        Looking {
            began: Instant::now(),
            told_at: LONG_LOOK,
            look,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct FileWatch {
    told: Option<FileReport>,
    last: Option<FileCheck>,
    /// The accepted stamp. The file is not read again while its stamp equals this.
    settled: Option<FileCheck>,
    /// Checks since two checks in a row saw the same stamp.
    restless: u32,
}

/// The result of a check; `None` if nothing has changed.
pub(super) type News = Option<Result<LoadedConfig, String>>;

impl ConfigFile {
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(ConfigFile {
            path: std::path::absolute(path)?,
            unknown_keys: UnknownKeys::default(),
            watch: FileWatch::default(),
            looking: None,
        })
    }

    /// Sets the treatment of unknown keys.
    pub fn with_unknown_keys(mut self, unknown_keys: UnknownKeys) -> Self {
        self.unknown_keys = unknown_keys;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder against which relative paths in the file resolve.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns whether a check is in progress.
    pub(crate) fn is_being_read(&self) -> bool {
        self.looking.is_some()
    }

    /// Returns the new content, or why there is none; `None` while nothing has changed. An error is reported once. A slow check is reported
    /// as an error and continues. Cancel safe: the next call waits for the same check.
    pub async fn check(&mut self) -> News {
        let looking = self.looking.get_or_insert_with(|| {
            let (path, watch) = (self.path.clone(), self.watch.clone());
            let unknown_keys = self.unknown_keys;
            let look = tokio::task::spawn_blocking(move || watch.look(&path, unknown_keys));
            Looking::at(look)
        });
        let told_at = looking.told_at;
        let Ok(looked) = timeout_at(looking.began + told_at, &mut looking.look).await else {
            looking.told_at = told_at.saturating_mul(2);
            return Some(Err(format!(
                "{}: reading it has taken more than {} so far; does its file system answer?",
                self.path.display(),
                readable_duration(told_at)
            )));
        };
        self.looking = None;
        match looked {
            Ok((mut watch, news)) => {
                if told_at > LONG_LOOK && news.is_none() {
                    // The next check reports the content again, which ends the problem.
                    watch.told = Some(FileReport::Problem(String::new()));
                    watch.settled = None;
                }
                self.watch = watch;
                news
            }
            Err(error) => {
                let problem = format!("{}: reading it failed: {error}", self.path.display());
                self.watch = FileWatch::default();
                self.watch.tell(problem)
            }
        }
    }
}

impl FileWatch {
    fn look(mut self, path: &Path, unknown_keys: UnknownKeys) -> (Self, News) {
        let look = match Stamp::of(path) {
            Ok(stamp) => FileCheck::File(stamp),
            Err(error) => FileCheck::Unreadable(format!(
                "{}: cannot read it: {error}. Check the path and its permissions",
                path.display()
            )),
        };
        let is_first = self.told.is_none();
        let is_calm = self.last.replace(look.clone()).as_ref() == Some(&look);
        if is_calm && self.settled.as_ref() == Some(&look) {
            return (self, None);
        }
        if !is_calm && !is_first {
            let news = self.grow_restless(path);
            return (self, news);
        }
        self.restless = 0;
        // The first check may have come in the middle of a write.
        self.settled = (!is_first).then_some(look.clone());
        let news = match look {
            FileCheck::File(_) => self.read(path, unknown_keys),
            FileCheck::Unreadable(why) => self.tell(why),
        };
        (self, news)
    }

    fn grow_restless(&mut self, path: &Path) -> News {
        self.settled = None;
        self.restless = self.restless.saturating_add(1);
        let why = format!(
            "{}: it changes all the time, so that it may never be whole; write another file and rename it to this one",
            path.display()
        );
        (self.restless >= MAX_RESTLESS_LOOKS).then(|| self.tell(why))?
    }

    fn read(&mut self, path: &Path, unknown_keys: UnknownKeys) -> News {
        let bytes = match files::read_regular(path, MAX_CONFIG_BYTES as u64) {
            Ok(bytes) => bytes,
            Err(error) => {
                // A read error may be temporary, so the next check reads the file again.
                self.settled = None;
                return self.tell(error.to_string());
            }
        };
        let told = Some(FileReport::Content(Sha256::digest(&bytes).into()));
        if self.told == told {
            return None;
        }
        self.told = told;
        Some(parse(path, unknown_keys, &bytes))
    }

    fn tell(&mut self, problem: String) -> News {
        let told = Some(FileReport::Problem(problem.clone()));
        if self.told == told {
            return None;
        }
        self.told = told;
        Some(Err(problem))
    }
}

/// Parses a configuration. Errors list all problems, one a line, as FILE:LINE:COLUMN.
fn parse(path: &Path, unknown_keys: UnknownKeys, bytes: &[u8]) -> Result<LoadedConfig, String> {
    let file = path.display().to_string();
    let options = ParseOptions {
        format: Format::of_path(path),
        unknown_keys,
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let parsed =
        read_config(bytes, options, folder).map_err(|errors| errors.display_with(&file))?;
    // A job with problems does not run, but the others do. For the file as a whole such a problem is a warning.
    let warnings = parsed.job_problems().iter().chain(&parsed.warnings);
    let warnings = warnings
        .map(|problem| problem.display_with(&file).to_string())
        .collect();
    let text = std::str::from_utf8(bytes);
    let origin = ConfigOrigin::File(FileText {
        path: file.into(),
        text: text.expect("Invariant: only UTF-8 is a config").into(),
    });
    Ok(LoadedConfig {
        warnings,
        config: Arc::new(parsed.config),
        origin,
    })
}

/// Parses the configuration in a file's bytes, and resolves relative paths against this folder.
pub(super) fn read_config(
    bytes: &[u8],
    options: ParseOptions,
    folder: &Path,
) -> Result<Parsed, ConfigErrors> {
    let mut parsed = brasserie_common_config::parse_bytes(bytes, options)?;
    parsed.config.resolve_commands(folder);
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_start_reads_in_the_middle_of_a_write_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.json");
        let text = |level: &str| {
            format!(r#"{{"bistro_settings": {{"nodes": {{"levels": ["{level}"]}}}}}}"#)
        };
        std::fs::write(&path, text("host")).unwrap();
        let mut file = ConfigFile::new(&path).unwrap();
        file.check().await.unwrap().unwrap();
        std::fs::write(&path, text("rack")).unwrap();
        // Simulates a file system clock that did not advance between the two writes.
        file.watch.last = Some(FileCheck::File(Stamp::of(&path).unwrap()));
        let loaded = file.check().await.unwrap().unwrap();
        assert_eq!(loaded.config.levels[1], "rack");
    }

    #[tokio::test]
    async fn a_look_that_takes_long_is_told_and_the_content_again_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.json");
        std::fs::write(&path, r#"{"bistro_settings": {"nodes": {"levels": []}}}"#).unwrap();
        let mut file = ConfigFile::new(&path).unwrap();
        let first = file.check().await.unwrap().unwrap();
        let watch = file.watch.clone();
        let (answers, answered) = tokio::sync::oneshot::channel();
        let look = tokio::spawn(async move {
            answered.await.expect("the file system answers again");
            (watch, None)
        });
        file.looking = Some(Looking {
            began: Instant::now() - LONG_LOOK,
            ..Looking::at(look)
        });
        let told = file.check().await.unwrap().unwrap_err();
        assert!(
            told.contains("c.json: reading it has taken more than 10.0 s"),
            "{told}"
        );
        answers.send(()).unwrap();
        assert_eq!(file.check().await, None);
        assert_eq!(file.check().await, Some(Ok(first)));
        assert_eq!(file.check().await, None);
    }
}
