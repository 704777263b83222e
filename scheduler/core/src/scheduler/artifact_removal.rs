//! Forgets outputs of tasks at the request of a user, unless a task needs them.

use std::collections::BTreeSet;

use brasserie_common::{JobId, JobName, NodeName, TaskKey, Time};
use brasserie_common_config::{InputNodes, InputSource, JobConfig};
use brasserie_scheduler_engine::{Task, TaskState};

use super::view::outputs::Selection;
use super::view::unknown_job;
use super::{Scheduler, View};
use crate::jobs::{JobChanged, JobRefusal, MAX_NAMED_NODES, NeededOutputs};
use crate::record::Record;

/// Why a task needs outputs.
enum Need {
    Runs,
    IsNotDone,
}

impl Scheduler {
    /// Forgets the outputs of a job's tasks on these nodes, or on all nodes if the list is empty.
    pub(super) fn forget_outputs_of(
        &mut self,
        now: Time,
        job: &JobName,
        nodes: &[NodeName],
        needed: NeededOutputs,
    ) -> Result<(Record, JobChanged), JobRefusal> {
        if nodes.len() > MAX_NAMED_NODES {
            return Err(JobRefusal::TooManyNodes(nodes.len()));
        }
        let changed = self.view().may_forget_outputs(job, nodes)?;
        let held = self.artifacts.are_held(now, job).then(|| {
            format!(
                "`brasserie artifact hold` keeps the outputs of job `{job}`, or did so a moment ago"
            )
        });
        let why_needed = || held.or_else(|| self.view().why_needed(job, nodes));
        if needed == NeededOutputs::Keep
            && let Some(why) = why_needed()
        {
            return Err(JobRefusal::OutputsNeeded(why));
        }
        let job = job.clone();
        self.artifacts.note_removed(&job, self.wall);
        if nodes.is_empty() {
            self.artifacts.forget_job(now, &job);
            return Ok((Record::OutputsExpired { job }, changed));
        }
        let nodes: BTreeSet<NodeName> = nodes.iter().cloned().collect();
        for node in &nodes {
            let (job, node) = (job.clone(), node.clone());
            self.artifacts.forget(now, &TaskKey { job, node });
        }
        let nodes = nodes.into_iter().collect();
        Ok((Record::OutputsForgotten { job, nodes }, changed))
    }
}

impl View<'_> {
    /// Counts the outputs. Errors if the job is unknown, or if a named task or all tasks have none.
    fn may_forget_outputs(
        &self,
        job: &JobName,
        nodes: &[NodeName],
    ) -> Result<JobChanged, JobRefusal> {
        if !self.has_outputs(job) && self.find_listed(job.as_str()).is_none() {
            let unknown = unknown_job(&self.engine, job.as_str());
            return Err(JobRefusal::Unknown(unknown));
        }
        let named: BTreeSet<&NodeName> = nodes.iter().collect();
        let task = |node: &NodeName| TaskKey {
            job: job.clone(),
            node: node.clone(),
        };
        let selections: Vec<Selection> = match named.is_empty() {
            true => vec![Selection::Job(job.clone())],
            false => named
                .into_iter()
                .map(|node| Selection::Task(task(node)))
                .collect(),
        };
        let (mut tasks, mut outputs) = (0, 0);
        for selection in selections {
            let (of_tasks, of_outputs) = self.count_outputs(&selection);
            if of_tasks == 0 {
                return Err(JobRefusal::NoOutputs(self.why_no_outputs(&selection)));
            }
            tasks += of_tasks;
            outputs += of_outputs;
        }
        Ok(JobChanged::OutputsForgotten { tasks, outputs })
    }

    /// Returns which task needs outputs of the job on these nodes, or of all nodes if the list is empty.
    fn why_needed(&self, job: &JobName, nodes: &[NodeName]) -> Option<String> {
        if self.engine.nodes().is_none() || !self.wait.is_over() {
            return Some(
                "the scheduler has started a short while ago and does not know all running tasks yet"
                    .to_owned(),
            );
        }
        let consumers = self.engine.jobs().filter_map(|id| {
            let config = self.engine.job_config(id)?;
            reads(config, job).next().map(|_| (id, config))
        });
        let consumers: Vec<(JobId, &JobConfig)> = consumers.collect();
        let mut waiting = None;
        for (id, config) in consumers {
            let name = self.engine.job_name(id);
            for input in reads(config, job) {
                let Some((task, need)) = self.first_need((id, job), input, nodes) else {
                    continue;
                };
                let node = self.engine.node_name(task.node);
                match need {
                    Need::Runs => {
                        return Some(format!(
                            "the task of job `{name}` on `{node}` runs, and has outputs of job `{job}` as inputs"
                        ));
                    }
                    Need::IsNotDone => {
                        waiting.get_or_insert_with(|| {
                            format!(
                                "the task of job `{name}` on `{node}` is not done, and needs outputs of job `{job}` as inputs"
                            )
                        });
                    }
                }
            }
        }
        waiting
    }

    /// Returns a task of the consumer that needs outputs of `job` on these nodes: one that runs, if there is any.
    fn first_need(
        &self,
        (consumer, job): (JobId, &JobName),
        input: InputNodes,
        nodes: &[NodeName],
    ) -> Option<(Task, Need)> {
        let counts = self.engine.counts(consumer);
        let runs = self.runs.runs_of(consumer).next().is_some();
        if !runs && counts.done + counts.never >= counts.total {
            return None;
        }
        let on = |node: &NodeName| {
            let node = self.engine.find_node(node.as_str())?;
            Some(Task {
                job: consumer,
                node,
            })
        };
        let tasks: Box<dyn Iterator<Item = Task>> = match (input, nodes.is_empty()) {
            (InputNodes::Same, false) => Box::new(nodes.iter().filter_map(on)),
            (InputNodes::Children, false) => {
                let parents = nodes.iter().filter_map(|node| self.parent_of(job, node));
                let parents: BTreeSet<NodeName> = parents.collect();
                let tasks: Vec<Task> = parents.iter().filter_map(on).collect();
                Box::new(tasks.into_iter())
            }
            (InputNodes::Parent, false) => {
                let above = |task: &Task| {
                    let path = self.engine.path(*task);
                    let parent = path.len().checked_sub(2).and_then(|at| path.get(at));
                    parent.is_some_and(|parent| nodes.contains(parent))
                };
                Box::new(self.engine.tasks(consumer).filter(above))
            }
            (InputNodes::All, _) | (_, true) => Box::new(self.engine.tasks(consumer)),
        };
        let mut waiting = None;
        for task in tasks {
            match self.engine.task_state(task) {
                TaskState::Running => return Some((task, Need::Runs)),
                TaskState::Unstarted
                | TaskState::Incomplete
                | TaskState::Error
                | TaskState::InBackoff
                | TaskState::Failed => waiting = waiting.or(Some(task)),
                TaskState::Done | TaskState::Never | TaskState::Avoided | TaskState::Disabled => {}
            }
        }
        waiting.map(|task| (task, Need::IsNotDone))
    }

    /// Returns the parent of a node in the path of the job's task there.
    fn parent_of(&self, job: &JobName, node: &NodeName) -> Option<NodeName> {
        let job = self.engine.find_job(job.as_str())?;
        let node = self.engine.find_node(node.as_str())?;
        let path = self.engine.path(Task { job, node });
        path.get(path.len().checked_sub(2)?).cloned()
    }
}

/// Returns the nodes of whose tasks each input of a consumer takes outputs of `job`.
fn reads(consumer: &JobConfig, job: &JobName) -> impl Iterator<Item = InputNodes> {
    consumer
        .inputs
        .iter()
        .filter_map(move |input| match &input.source {
            InputSource::Job {
                job: from, nodes, ..
            } if from == job => Some(*nodes),
            InputSource::Job { .. } | InputSource::File { .. } => None,
        })
}
