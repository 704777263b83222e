//! Which jobs need the same of every node, so that one look tells of all of them whether a node has room.

use std::collections::BTreeMap;

use brasserie_common::JobId;
use brasserie_common_config::{JobConfig, ResourceId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// By job id, for configured jobs.
    classes: Vec<u32>,
    /// By resource: what no configured job needs less of.
    least: Vec<i32>,
}

impl Needs {
    pub(crate) fn new<'a>(jobs: impl Iterator<Item = (JobId, &'a JobConfig)>) -> Self {
        let mut needs = Needs::default();
        let mut known: BTreeMap<&[i32], u32> = BTreeMap::new();
        for (id, job) in jobs {
            let next = known.len() as u32;
            let class = *known.entry(&job.resources).or_insert(next);
            if needs.classes.len() <= id.index() {
                needs.classes.resize(id.index() + 1, u32::MAX);
            }
            needs.classes[id.index()] = class;
            needs.least.resize(job.resources.len(), i32::MAX);
            for (least, need) in needs.least.iter_mut().zip(&job.resources) {
                *least = (*least).min(*need);
            }
        }
        needs
    }

    /// Equal for jobs that need the same.
    pub(crate) fn class(&self, job: JobId) -> u32 {
        self.classes.get(job.index()).copied().unwrap_or(u32::MAX)
    }

    pub(crate) fn least(&self, id: ResourceId) -> i32 {
        self.least.get(id.index()).copied().unwrap_or(0)
    }
}
