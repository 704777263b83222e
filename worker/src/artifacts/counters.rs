//! The counters of a worker's store, which its reports name.

use std::sync::Arc;

use brasserie_common::artifact_report::ArtifactCounters;
use parking_lot::Mutex;

/// The counters that all parts of the worker share.
#[derive(Clone, Default)]
pub(crate) struct Counters(Arc<Mutex<ArtifactCounters>>);

impl Counters {
    pub(super) fn change(&self, change: impl FnOnce(&mut ArtifactCounters)) {
        change(&mut self.0.lock());
    }

    pub(super) fn now(&self) -> ArtifactCounters {
        *self.0.lock()
    }
}
