//! Limits of concurrent tasks for schedulers and for their jobs.

use std::collections::BTreeMap;

use super::super::types::{AssociationIndex, Associations, Task};

/// Counts the chosen tasks against the limits.
#[derive(Clone)]
pub(super) struct Concurrency<'a> {
    associations: &'a Associations,
    of_associations: BTreeMap<AssociationIndex, u32>,
    of_jobs: BTreeMap<(AssociationIndex, u32), u32>,
}

impl<'a> Concurrency<'a> {
    pub fn new(associations: &'a Associations) -> Self {
        Concurrency {
            associations,
            of_associations: BTreeMap::new(),
            of_jobs: BTreeMap::new(),
        }
    }

    pub fn allows(&self, task: &Task) -> bool {
        let Some(association) = self.associations.get(task.association.0) else {
            return false;
        };
        let running = self.of_associations.get(&task.association).copied();
        let of_job = self.of_jobs.get(&(task.association, task.job)).copied();
        let limit_of_job = association.max_concurrent_of_jobs.get(&task.job);
        is_below(running, association.max_concurrent) && is_below(of_job, limit_of_job.copied())
    }

    pub fn count(&mut self, task: &Task) {
        *self.of_associations.entry(task.association).or_default() += 1;
        let job = (task.association, task.job);
        *self.of_jobs.entry(job).or_default() += 1;
    }
}

fn is_below(running: Option<u32>, limit: Option<u32>) -> bool {
    limit.is_none_or(|limit| running.unwrap_or(0) < limit)
}
