//! The configuration in force, since when it is, and the copy kept for a scheduler that cannot use the file.

use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::WallTime;
use brasserie_common::fingerprint::Shape;
use brasserie_common_config::Config;

use super::Jobs;
use crate::news::{ConfigTexts, News};
use crate::record::{KeptConfig, Record};

/// The origin of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigOrigin {
    /// No file: the caller passes the configuration again at each start.
    Given,
    /// A file that was read. Its text is kept once the configuration is in force.
    File(FileText),
    /// The configuration that an earlier scheduler has kept, because the file cannot be used.
    Kept,
}

/// The text of a config file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileText {
    /// An absolute path. Its extension decides the format, and relative paths in the file are relative to its folder.
    pub path: Arc<str>,
    pub text: Arc<str>,
}

/// The configuration in force.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigInForce {
    /// The path of the file. `None`: the configuration comes from no file.
    pub path: Option<Arc<str>>,
    pub read_by: ReadBy,
    /// When the configuration first came into force with this text, under this or an earlier scheduler.
    pub since: WallTime,
}

/// The configuration whose sources give the nodes.
#[derive(Clone, Copy, Debug)]
pub struct SourceInForce<'a> {
    /// The configuration of the file, without the API jobs.
    pub config: &'a Arc<Config>,
    /// The path of the file; relative scripts begin in its folder. `None`: the configuration comes from no file.
    pub path: Option<&'a Arc<str>>,
}

/// The scheduler that has read the configuration in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    ThisScheduler,
    /// An earlier scheduler: its copy is used, because the file could not be used since this scheduler started.
    AnEarlierScheduler,
}

/// The origin of the configuration in force, and the copy of it in the store.
#[derive(Clone, Debug, Default)]
pub(super) struct FileSource {
    /// The origin of the configuration that comes into force in this turn.
    coming: Option<ConfigOrigin>,
    in_force: Option<ConfigInForce>,
    /// The copy in the last record.
    kept: Option<KeptConfig>,
}

impl FileSource {
    pub(super) fn new(kept: Option<KeptConfig>) -> Self {
        FileSource {
            kept,
            ..FileSource::default()
        }
    }

    pub(super) fn comes(&mut self, origin: ConfigOrigin) {
        self.coming = Some(origin);
    }

    pub(super) fn in_force(&self) -> Option<&ConfigInForce> {
        self.in_force.as_ref()
    }

    /// Notes that the coming configuration is in force. Returns the copy to record; the same text is recorded once.
    fn settle(&mut self, wall: WallTime) -> Option<KeptConfig> {
        let (read_by, file) = match self.coming.take()? {
            ConfigOrigin::Given => {
                self.in_force = Some(ConfigInForce {
                    path: None,
                    read_by: ReadBy::ThisScheduler,
                    since: wall,
                });
                return None;
            }
            ConfigOrigin::Kept => (ReadBy::AnEarlierScheduler, None),
            ConfigOrigin::File(file) => (ReadBy::ThisScheduler, Some(file)),
        };
        let is_kept = |file: &FileText| {
            let kept = self.kept.as_ref();
            kept.is_some_and(|kept| (&kept.path, &kept.text) == (&file.path, &file.text))
        };
        let news = file.filter(|file| !is_kept(file)).map(|file| KeptConfig {
            path: file.path,
            text: file.text,
            since: wall,
        });
        self.kept = news.clone().or(self.kept.take());
        self.in_force = self.kept.as_ref().map(|kept| ConfigInForce {
            path: Some(Arc::clone(&kept.path)),
            read_by,
            since: kept.since,
        });
        news
    }

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let FileSource {
            coming,
            // Only shown.
            in_force: _,
            kept,
        } = self;
        s.put(format!("{coming:?}"));
        s.opt(kept.as_ref(), |s, kept| s.put((&kept.path, &kept.text)));
    }
}

impl Jobs {
    /// Returns the configuration of the file in force.
    pub(crate) fn source_in_force(&self) -> Option<SourceInForce<'_>> {
        Some(SourceInForce {
            config: &self.file.as_ref()?.config,
            path: self.in_force().and_then(|known| known.path.as_ref()),
        })
    }

    /// Notes that the configuration from [`Jobs::take_changed`] is in force. Returns the record of its file, if the file is new, and what
    /// the log says about it.
    pub(crate) fn note_in_force(&mut self, wall: WallTime) -> (Option<Record>, Option<News>) {
        let comes = self.source.coming.is_some();
        let before = self.source.kept.as_ref();
        let before = before.map(|kept| Arc::clone(&kept.text));
        let kept = self.source.settle(wall);
        let what = self.in_force_text().filter(|_| comes);
        let text = kept.as_ref().map(|kept| Arc::clone(&kept.text));
        let texts = text.map(|after| ConfigTexts { before, after });
        (
            kept.map(|config| Record::ConfigKept { config }),
            what.map(|what| News::ConfigInForce { what, texts }),
        )
    }

    /// Describes the configuration in force for the log; `None` if it comes from no file.
    fn in_force_text(&self) -> Option<String> {
        let ConfigInForce { path, read_by, .. } = self.in_force()?;
        let path = path.as_ref()?;
        let jobs = self.file.as_ref()?.config.jobs.len();
        Some(match read_by {
            ReadBy::ThisScheduler => format!("the configuration in {path} ({jobs} jobs)"),
            ReadBy::AnEarlierScheduler => {
                format!("the configuration that an earlier scheduler read in {path} ({jobs} jobs)")
            }
        })
    }
}
