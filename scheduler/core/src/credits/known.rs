//! The runs that a work request lists.

use brasserie_common::{InvocationId, KnownTask, WorkRequest};

/// The runs that a worker reports to have, sorted.
#[derive(Clone, Debug)]
pub struct Known(Option<Vec<KnownTask>>);

impl Known {
    pub fn of(request: &WorkRequest) -> Self {
        let mut known = request.known.clone();
        if let Some(known) = &mut known {
            known.sort_by_key(|task| task.invocation);
        }
        Known(known)
    }

    /// Returns whether the request has such a list.
    pub(super) fn is_told(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the run is needed as a piece of work: it is not listed, or it has a deadline. All other runs cost only a search.
    pub fn is_weighed(&self, run: InvocationId) -> bool {
        match (&self.0, self.get(run)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(_), Some(told)) => told.deadline.is_some(),
        }
    }

    pub(super) fn get(&self, run: InvocationId) -> Option<&KnownTask> {
        let known = self.0.as_ref()?;
        let at = known.binary_search_by_key(&run, |task| task.invocation);
        Some(&known[at.ok()?])
    }
}
