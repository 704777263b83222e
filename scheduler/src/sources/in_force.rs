//! Passes the configuration in force from the driver to the node sources.

use std::path::Path;
use std::sync::Arc;

use brasserie_common_config::Config;
use brasserie_scheduler_core::{Scheduler, SourceInForce, has_same_nodes};
use tokio::sync::watch;

/// The configuration in force and its origin.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    config: Arc<Config>,
    /// The path of its file, or `None` if it comes from no file.
    path: Option<Arc<str>>,
}

impl InForce {
    pub(crate) fn of(scheduler: &Scheduler) -> Option<InForce> {
        scheduler.source_in_force().map(InForce::from)
    }

    /// Returns a configuration that comes from no file.
    #[cfg(test)]
    pub(crate) fn given(config: Arc<Config>) -> InForce {
        InForce { config, path: None }
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the absolute path of its file, if it comes from one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref().map(Path::new)
    }

    /// Returns the folder against which relative paths of the configuration resolve. `file` is the watched file, in `folder`.
    pub(crate) fn folder<'a>(&'a self, file: Option<&Path>, folder: &'a Path) -> &'a Path {
        match (self.path(), file) {
            // The configuration is a kept copy of another file, with its own folder. Paths are compared as text, because the copy's path is
            // kept as text.
            (Some(path), Some(file)) if *path.as_os_str() != *file.display().to_string() => {
                path.parent().unwrap_or(Path::new("/"))
            }
            (Some(_), Some(_) | None) | (None, _) => folder,
        }
    }

    /// Returns whether the other configuration has the same node sources, so that its nodes stay valid.
    pub(super) fn has_sources_of(&self, before: &InForce) -> bool {
        let folder = |of: &InForce| of.path().and_then(Path::parent).map(Path::to_owned);
        has_same_nodes(&before.config, &self.config) && folder(before) == folder(self)
    }

    fn is(&self, source: SourceInForce<'_>) -> bool {
        Arc::ptr_eq(&self.config, source.config) && self.path.as_ref() == source.path
    }
}

impl From<SourceInForce<'_>> for InForce {
    fn from(source: SourceInForce<'_>) -> InForce {
        InForce {
            config: Arc::clone(source.config),
            path: source.path.cloned(),
        }
    }
}

/// The driver's sender. It publishes the current state instead of changes, so two changes at once lose nothing.
pub(crate) struct TellInForce(watch::Sender<Option<InForce>>);

impl TellInForce {
    pub(crate) fn new(scheduler: &Scheduler) -> (TellInForce, watch::Receiver<Option<InForce>>) {
        let (sender, receiver) = watch::channel(InForce::of(scheduler));
        (TellInForce(sender), receiver)
    }

    /// Publishes the configuration in force. Called after each turn; if nothing has changed, this only compares two pointers.
    pub(crate) fn tell(&self, scheduler: &Scheduler) {
        let now = scheduler.source_in_force();
        self.0.send_if_modified(|told| {
            let is_news = match (&*told, now) {
                (Some(told), Some(now)) => !told.is(now),
                (None, None) => false,
                (Some(_), None) | (None, Some(_)) => true,
            };
            if is_news {
                *told = now.map(InForce::from);
            }
            is_news
        });
    }
}
