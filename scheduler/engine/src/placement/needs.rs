//! Which jobs need the same of every node, so that one look tells of all of them whether a node has room.

use std::collections::BTreeMap;

use brasserie_common::JobId;
use brasserie_common_config::{JobConfig, ResourceId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// By job id, for configured jobs.
    classes: Vec<u32>,
    known: BTreeMap<Vec<i32>, Class>,
    next: u32,
    /// By resource: what no configured job needs less of.
    least: Vec<i32>,
}

/// Jobs that need the same.
#[derive(Clone, Copy, Debug)]
struct Class {
    number: u32,
    /// At least one.
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
                // Wraps after four billion changes, when the first are long gone.
                self.next = self.next.wrapping_add(1);
                let class = Class { number, jobs: 1 };
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

    /// A job that has joined like this leaves.
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

    /// Equal for jobs that need the same.
    pub(crate) fn class(&self, job: JobId) -> u32 {
        self.classes.get(job.index()).copied().unwrap_or(u32::MAX)
    }

    pub(crate) fn least(&self, id: ResourceId) -> i32 {
        self.least.get(id.index()).copied().unwrap_or(0)
    }
}
