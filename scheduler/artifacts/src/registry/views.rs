//! Answers for people: the sets with their sums, and listings of outputs and artifacts.

use std::collections::BTreeSet;

use brasserie_common::{ArtifactId, JobName, TaskKey, TaskOutput, Time, WallTime};

use super::super::outputs::{OutputName, TaskOutputs};
use super::super::sets::{ArtifactSet, SetEnding, SetState, SetTerms};
use super::super::types::{Liveness, SetTotals};
use super::Registry;

/// The set of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetView<'a> {
    pub job: &'a JobName,
    pub terms: &'a SetTerms,
    pub consumers: &'a BTreeSet<JobName>,
    pub state: SetState,
    pub ending: Option<SetEnding>,
    /// The time at which the set was last written or consumed.
    pub touched: WallTime,
    /// The time of the expiry. `None` if the set is kept, or if tasks are unfinished.
    pub expires: Option<Time>,
    /// The tasks with outputs, also expired ones.
    pub tasks: usize,
    pub totals: SetTotals,
}

/// An output in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputView<'a> {
    pub key: TaskKey,
    pub output: &'a TaskOutput,
    pub liveness: Liveness,
    /// The disks with a copy.
    pub copies: usize,
}

impl Registry {
    pub fn set(&self, job: &JobName) -> Option<SetView<'_>> {
        let (job, set) = self.sets.get(job)?;
        Some(self.view(job, set))
    }

    /// Returns the sets of the jobs after `after` in the order of names.
    pub fn sets(&self, after: Option<&JobName>) -> impl Iterator<Item = SetView<'_>> {
        let sets = self.sets.list(after);
        sets.map(|(job, set)| self.view(job, set))
    }

    /// Returns the outputs after `after` in the order of jobs, nodes and paths.
    pub fn list_outputs<'a>(
        &'a self,
        after: Option<&'a OutputName>,
    ) -> impl Iterator<Item = OutputView<'a>> {
        let outputs = self.outputs.list(after);
        outputs.map(|(job, node, output, liveness)| OutputView {
            key: TaskKey {
                job: job.clone(),
                node: node.clone(),
            },
            output,
            liveness,
            copies: self.artifacts.count_copies(output.artifact.id),
        })
    }

    /// Returns the outputs of one job in the order of nodes and paths.
    pub fn list_job_outputs<'a>(&'a self, job: &JobName) -> impl Iterator<Item = OutputView<'a>> {
        let job_name = job.clone();
        self.job_outputs(job).flat_map(move |(node, task)| {
            let key = TaskKey {
                job: job_name.clone(),
                node: node.clone(),
            };
            self.views_of(key, task)
        })
    }

    /// Returns the outputs of one task in the order of paths.
    pub fn list_task_outputs<'a>(&'a self, key: &TaskKey) -> impl Iterator<Item = OutputView<'a>> {
        let key = key.clone();
        let task = self.outputs(&key).into_iter();
        task.flat_map(move |task| self.views_of(key.clone(), task))
    }

    /// Returns the tasks whose live outputs refer to an artifact.
    pub fn producers(&self, id: ArtifactId) -> impl Iterator<Item = &TaskKey> {
        let names = self.artifacts.names(id);
        names.filter_map(|name| self.outputs.key(name.task))
    }

    fn views_of<'a>(
        &'a self,
        key: TaskKey,
        task: &'a TaskOutputs,
    ) -> impl Iterator<Item = OutputView<'a>> {
        task.outputs.iter().map(move |output| OutputView {
            key: key.clone(),
            output,
            liveness: task.liveness,
            copies: self.artifacts.count_copies(output.artifact.id),
        })
    }

    fn view<'a>(&'a self, job: &'a JobName, set: &'a ArtifactSet) -> SetView<'a> {
        SetView {
            job,
            terms: set.terms(),
            consumers: set.consumers(),
            state: set.state(),
            ending: set.ending(),
            touched: set.touched(),
            expires: set.due(),
            tasks: self.outputs.count_tasks(job),
            totals: self.artifacts.totals(job),
        }
    }
}
