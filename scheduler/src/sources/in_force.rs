//! Whose sources are asked: what the core has put in force, on its way from the driver.

use std::path::Path;
use std::sync::Arc;

use brasserie_common_config::Config;
use brasserie_scheduler_core::{Scheduler, SourceInForce, has_same_nodes};
use tokio::sync::watch;

/// The configuration in force, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    config: Arc<Config>,
    /// `None`: from no file.
    path: Option<Arc<str>>,
}

impl InForce {
    pub(crate) fn of(scheduler: &Scheduler) -> Option<InForce> {
        scheduler.source_in_force().map(InForce::from)
    }

    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Absolute, if it comes from a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref().map(Path::new)
    }

    /// Whether nodes of that one are nodes of this one, so that nothing need be read again.
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

/// The driver's end. It tells what is so, not what has happened, so nothing is lost where two changes come at once.
pub(crate) struct TellInForce(watch::Sender<Option<InForce>>);

impl TellInForce {
    pub(crate) fn new(scheduler: &Scheduler) -> (TellInForce, watch::Receiver<Option<InForce>>) {
        let (sender, receiver) = watch::channel(InForce::of(scheduler));
        (TellInForce(sender), receiver)
    }

    /// After each turn; a look at two pointers where nothing has changed.
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
