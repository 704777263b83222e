//! Groups jobs with the same needs of nodes, so that one check of a node's slots holds for all of them.

use std::collections::BTreeMap;

use brasserie_common::JobId;
use brasserie_common_config::{JobConfig, ResourceId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// Indexed by job id, for configured jobs.
    classes: Vec<u32>,
    known: BTreeMap<Vec<i32>, NeedsClass>,
    next: u32,
    /// The lowest need of any configured job, by resource.
    least: Vec<i32>,
}

/// A class of jobs with the same needs.
#[derive(Clone, Copy, Debug)]
struct NeedsClass {
    number: u32,
    /// Number of jobs, never 0.
    jobs: u32,
}

impl Needs {
    pub(crate) fn join(&mut self, id: JobId, job: &JobConfig) {
        let class = match self.known.get_mut(&job.resources) {
            Some(class) => {
                class.jobs += 1;
                class.number
            }
            None => {
                let number = self.next;
                // Wraps after four billion changes, when the first numbers are long unused.
                self.next = self.next.wrapping_add(1);
                let class = NeedsClass { number, jobs: 1 };
                self.known.insert(job.resources.clone(), class);
                self.lower(&job.resources);
                number
            }
        };
        if self.classes.len() <= id.index() {
            self.classes.resize(id.index() + 1, u32::MAX);
        }
        self.classes[id.index()] = class;
    }

    /// Removes a job that joined with this configuration.
    pub(crate) fn leave(&mut self, id: JobId, job: &JobConfig) {
        self.classes[id.index()] = u32::MAX;
        let Some(class) = self.known.get_mut(&job.resources) else {
            return;
        };
        class.jobs -= 1;
        if class.jobs == 0 {
            self.known.remove(&job.resources);
            self.least.clear();
            let known = std::mem::take(&mut self.known);
            known.keys().for_each(|resources| self.lower(resources));
            self.known = known;
        }
    }

    fn lower(&mut self, resources: &[i32]) {
        self.least.resize(resources.len(), i32::MAX);
        for (least, need) in self.least.iter_mut().zip(resources) {
            *least = (*least).min(*need);
        }
    }

    /// Returns the job's class, which jobs with the same needs share.
    pub(crate) fn class(&self, job: JobId) -> u32 {
        self.classes.get(job.index()).copied().unwrap_or(u32::MAX)
    }

    pub(crate) fn least(&self, id: ResourceId) -> i32 {
        self.least.get(id.index()).copied().unwrap_or(0)
    }
}
