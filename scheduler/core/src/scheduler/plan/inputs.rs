//! The inputs that keep planned tasks from starting: outputs whose tasks run again first, files that do not exist, and too many of them.
//!
//! The copy of a plan has no registry of artifacts if that is large, so the scheduler itself finds the lost outputs and counts the inputs
//! ([`crate::Query::InputsForPlan`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::{JobName, NodeName, TaskKey, Time};
use brasserie_common_config::{Config, InputNodes, InputSource, JobConfig};
use brasserie_scheduler_artifacts::{ArtifactAvailability, Liveness};
use brasserie_scheduler_engine::{Restart, Task, TaskState};

use super::MAX_NAMED_JOBS;
use super::outputs::KeptSet;
use crate::files::known_name;
use crate::scheduler::inputs::LACKING_INPUT_RETRY;
use crate::scheduler::{Scheduler, View, task_key};

/// The most tasks whose outputs are checked for a plan: some tens of milliseconds of a turn.
const MAX_CHECKED: usize = 20_000;

/// The inputs of a proposed configuration that are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposedInputs {
    /// The tasks that are done and whose outputs are lost, have expired or were removed.
    pub lost: BTreeSet<TaskKey>,
    /// The outputs that are kept at present, by their jobs.
    pub kept: BTreeMap<JobName, KeptSet>,
    /// The names of files that are not in the folder of the configuration.
    pub absent: BTreeSet<Arc<str>>,
    /// The jobs with tasks that would have too many inputs.
    pub excessive: BTreeMap<JobName, ExcessiveInputs>,
}

/// The tasks of a job that would have too many inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcessiveInputs {
    /// The reason, of one of the tasks.
    pub why: String,
    /// `None`: the tasks on all nodes.
    pub nodes: Option<BTreeSet<NodeName>>,
}

impl View<'_> {
    /// Returns what a plan has to know of artifacts, except the files that are absent.
    pub(in crate::scheduler) fn inputs_for_plan(&self, config: &Config) -> ProposedInputs {
        let enabled = config.jobs.iter().filter(|job| job.enabled);
        let excessive = enabled.filter_map(|job| Some((job.name.clone(), self.excess_of(job)?)));
        ProposedInputs {
            lost: self.lost_outputs(config),
            kept: self.kept_sets(),
            absent: BTreeSet::new(),
            excessive: excessive.collect(),
        }
    }

    /// Returns which tasks of a proposed job would have too many inputs, if any: of at most [`MAX_CHECKED`] tasks. All tasks of a job that is not
    /// configured yet are judged by their inputs from all nodes.
    fn excess_of(&self, proposed: &JobConfig) -> Option<ExcessiveInputs> {
        let inputs = proposed.inputs.iter();
        let several = inputs.filter_map(|input| match &input.source {
            InputSource::Job { job, nodes, .. } if nodes.are_several() => Some((job, *nodes)),
            InputSource::Job { .. } | InputSource::File { .. } => None,
        });
        let (maker, _) = several.clone().next()?;
        let known = self.engine.find_job(proposed.name.as_str());
        let known = known.filter(|id| self.engine.job_config(*id).is_some());
        let mut nodes = several.map(|(_, nodes)| nodes);
        let is_by_node = known.is_some() && nodes.any(|nodes| nodes == InputNodes::Children);
        // Tasks of the job that leaves the inputs stand for those of a new job.
        let id = known.or_else(|| self.engine.find_job(maker.as_str()))?;
        let tasks = self.engine.tasks_below(id, None);
        let mut found: Option<ExcessiveInputs> = None;
        let most = if is_by_node { MAX_CHECKED } else { 1 };
        for (task, _) in tasks.into_iter().take(most) {
            if let Err(why) = self.inputs().amount(task, proposed) {
                let excess = found.get_or_insert_with(|| ExcessiveInputs {
                    why: why.to_string(),
                    nodes: is_by_node.then(BTreeSet::new),
                });
                let nodes = excess.nodes.as_mut();
                nodes.map(|nodes| nodes.insert(self.engine.node_name(task.node)));
            }
        }
        found
    }

    /// Returns the done tasks without outputs of the jobs that the configuration's jobs have as inputs: of at most [`MAX_CHECKED`] tasks.
    fn lost_outputs(&self, config: &Config) -> BTreeSet<TaskKey> {
        let inputs = config.jobs.iter().filter(|job| job.enabled);
        let inputs = inputs.flat_map(|job| &job.inputs);
        let makers = inputs.filter_map(|input| match &input.source {
            InputSource::Job { job, .. } => Some(job),
            InputSource::File { .. } => None,
        });
        let makers: BTreeSet<&JobName> = makers.collect();
        let makers = makers.into_iter();
        let ids = makers.filter_map(|maker| self.engine.find_job(maker.as_str()));
        let tasks = ids.flat_map(|id| self.engine.tasks_below(id, None));
        let done = tasks.filter(|(_, state)| *state == TaskState::Done);
        let keys = done
            .take(MAX_CHECKED)
            .map(|(task, _)| task_key(&self.engine, task));
        keys.filter(|key| self.are_outputs_lost(key)).collect()
    }

    /// Returns whether the task runs again once another one needs its outputs.
    fn are_outputs_lost(&self, key: &TaskKey) -> bool {
        let registry = self.artifacts.registry();
        if registry.exhausted_reruns(key).is_some() {
            return false;
        }
        let left = registry.outputs(key);
        left.filter(|left| left.liveness == Liveness::Live)
            .is_none_or(|left| {
                left.outputs.iter().any(|output| {
                    match self.artifacts.availability(output.artifact.id) {
                        ArtifactAvailability::Available | ArtifactAvailability::Unknown => false,
                        ArtifactAvailability::Lost
                        | ArtifactAvailability::GivenUp(_)
                        | ArtifactAvailability::Unnamed => true,
                    }
                })
            })
    }
}

/// The tasks of a plan that lack inputs.
pub(super) struct LackingInputs<'a> {
    inputs: &'a ProposedInputs,
    /// The tasks that run again.
    again: BTreeSet<Task>,
    /// The jobs whose tasks wait for a file, with its name.
    waiting: BTreeSet<(JobName, Arc<str>)>,
    /// The jobs with a task that would have too many inputs, and the reason.
    excessive: BTreeMap<JobName, String>,
}

impl<'a> LackingInputs<'a> {
    pub(super) fn new(inputs: &'a ProposedInputs) -> Self {
        LackingInputs {
            inputs,
            again: BTreeSet::new(),
            waiting: BTreeSet::new(),
            excessive: BTreeMap::new(),
        }
    }

    /// Takes back the start of a task that lacks an input, and lets the tasks run again that make it. Returns false if the task lacks none.
    pub(super) fn hold_back(&mut self, copy: &mut Scheduler, now: Time, task: Task) -> bool {
        let (makers, files) = (self.makers(copy, task), self.files(copy, task));
        let excess = self.excess(copy, task);
        if makers.is_empty() && files.is_empty() && excess.is_none() {
            return false;
        }
        self.waiting.extend(files);
        if let Some(why) = excess {
            let job = copy.engine.job_name(task.job).clone();
            self.excessive.entry(job).or_insert(why);
        }
        let not_before = Some(now + LACKING_INPUT_RETRY);
        copy.engine
            .never_began(now, task, not_before, Restart::AtOnce);
        for maker in makers {
            if self.again.insert(maker) {
                copy.engine.forget_status(maker);
                // No record has to be durable before a copy starts it.
                copy.engine.release(now, maker);
            }
        }
        true
    }

    /// Returns why the task would have too many inputs, if it would.
    fn excess(&self, copy: &Scheduler, task: Task) -> Option<String> {
        let excess = self.inputs.excessive.get(copy.engine.job_name(task.job))?;
        let is_meant = excess.nodes.as_ref().is_none_or(|nodes| {
            let node = copy.engine.node_name(task.node);
            nodes.contains(&node)
        });
        is_meant.then(|| excess.why.clone())
    }

    fn makers(&self, copy: &Scheduler, task: Task) -> Vec<Task> {
        if self.inputs.lost.is_empty() {
            return Vec::new();
        }
        let job = copy.engine.job_config(task.job);
        let inputs = job.into_iter().flat_map(|job| &job.inputs);
        let mut makers = Vec::new();
        for input in inputs {
            let InputSource::Job { job, nodes, .. } = &input.source else {
                continue;
            };
            let Some(id) = copy.engine.find_job(job.as_str()) else {
                continue;
            };
            for node in copy.view().inputs().nodes_of_input(task, job, *nodes) {
                let key = TaskKey {
                    job: job.clone(),
                    node,
                };
                let node = copy.engine.find_node(key.node.as_str());
                if let Some(node) = node.filter(|_| self.inputs.lost.contains(&key)) {
                    makers.push(Task { job: id, node });
                }
            }
        }
        makers.retain(|maker| !self.again.contains(maker));
        makers
    }

    /// Returns the files that the task waits for.
    fn files(&self, copy: &Scheduler, task: Task) -> Vec<(JobName, Arc<str>)> {
        if self.inputs.absent.is_empty() {
            return Vec::new();
        }
        let job = copy.engine.job_config(task.job);
        let inputs = job.iter().flat_map(|job| {
            let name = &job.name;
            job.inputs.iter().map(move |input| (name, input))
        });
        let uploaded = &copy.artifacts.files().uploaded;
        let lacking = inputs.filter_map(|(job, input)| match &input.source {
            InputSource::File { path } => {
                let name = self.inputs.absent.get(known_name(path))?;
                let is_absent = !uploaded.contains_key(name);
                is_absent.then(|| (job.clone(), Arc::clone(name)))
            }
            InputSource::Job { .. } => None,
        });
        lacking.collect()
    }

    /// Returns what people should know.
    pub(super) fn notes(&self, copy: &Scheduler) -> Vec<String> {
        let mut again: BTreeMap<&JobName, u64> = BTreeMap::new();
        for task in &self.again {
            *again.entry(copy.engine.job_name(task.job)).or_default() += 1;
        }
        let again = again.into_iter().map(|(job, tasks)| {
            let tasks = match tasks {
                1 => "1 done task".to_owned(),
                tasks => format!("{tasks} done tasks"),
            };
            format!("{tasks} of `{job}` would run again first: other tasks have the outputs as inputs, and these are lost, have expired or were removed")
        });
        let waiting = self.waiting.iter().map(|(job, file)| {
            format!("the tasks of `{job}` would wait for the file `{file}`: it is not in the folder of the configuration, and none was uploaded under this name")
        });
        let excessive = self
            .excessive
            .iter()
            .map(|(job, why)| format!("tasks of `{job}` could not start: {why}"));
        let named = again.take(MAX_NAMED_JOBS);
        let named = named.chain(waiting.take(MAX_NAMED_JOBS));
        named.chain(excessive.take(MAX_NAMED_JOBS)).collect()
    }
}
