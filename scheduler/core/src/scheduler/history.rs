//! Completions as a store supplies them at a start: each name once and references by number, so that millions load in a second.

use std::collections::BTreeMap;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::{InvocationId, JobId, JobName, NodeId, NodeName, TaskKey, Time};
use brasserie_scheduler_engine::Task;

use super::Scheduler;
use crate::record::{Durable, Forgotten};

/// The last completion of each task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    pub jobs: Vec<JobName>,
    pub nodes: Vec<NodeName>,
    pub ends: Vec<PastEnd>,
    /// Missing nodes and the second since which each is missing, as in [`crate::Durable::missing`].
    pub missing: Vec<(NodeName, u32)>,
    /// Missing jobs, likewise.
    pub missing_jobs: Vec<(JobName, u32)>,
}

/// The last completion of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct PastEnd {
    /// Invariant: a position in [`History::jobs`].
    pub job: u32,
    /// Invariant: a position in [`History::nodes`].
    pub node: u32,
    pub invocation: InvocationId,
    pub status: StoredStatus,
}

impl History {
    /// Adds the history to the other durable facts. Slower than [`Scheduler::remember_end`].
    pub fn add_to(self, durable: &mut Durable) {
        let History {
            jobs,
            nodes,
            ends,
            missing,
            missing_jobs,
        } = self;
        durable.missing.extend(missing);
        durable.missing_jobs.extend(missing_jobs);
        for end in ends {
            let key = TaskKey {
                job: jobs[end.job as usize].clone(),
                node: nodes[end.node as usize].clone(),
            };
            durable.statuses.insert(key, (end.invocation, end.status));
        }
    }
}

/// The scheduler's ids of the jobs and nodes of a history.
#[derive(Debug)]
pub struct HistoryNames {
    jobs: Vec<JobId>,
    nodes: Vec<NodeId>,
}

impl Scheduler {
    /// Registers the names of the history of this scheduler's directory, before the first event. [`Scheduler::remember_end`] follows.
    pub fn remember_names(&mut self, jobs: &[JobName], nodes: &[NodeName]) -> HistoryNames {
        let engine = &mut self.engine;
        engine.expect_nodes(nodes.len());
        HistoryNames {
            jobs: jobs.iter().map(|job| engine.intern_job(job)).collect(),
            nodes: nodes.iter().map(|node| engine.intern_node(node)).collect(),
        }
    }

    /// Loads one completion of a history, before the first event.
    pub fn remember_end(&mut self, now: Time, names: &HistoryNames, end: PastEnd) {
        let task = Task {
            job: names.jobs[end.job as usize],
            node: names.nodes[end.node as usize],
        };
        self.ledger()
            .load_end(now, task, end.invocation, end.status);
    }

    /// Loads the completions that are part of [`Durable`], and the deleted ones.
    pub(super) fn remember(
        &mut self,
        now: Time,
        forgotten: BTreeMap<TaskKey, Forgotten>,
        statuses: BTreeMap<TaskKey, (InvocationId, StoredStatus)>,
    ) {
        for (key, of) in forgotten {
            if sabotage::on(Sabotage::ForgetWhatWasDeleted) {
                continue;
            }
            let job = self.engine.intern_job(&key.job);
            let node = self.engine.intern_node(&key.node);
            self.runs.remember_deletion(Task { job, node }, of);
        }
        for (key, (invocation, status)) in statuses {
            let job = self.engine.intern_job(&key.job);
            let node = self.engine.intern_node(&key.node);
            self.ledger()
                .load_end(now, Task { job, node }, invocation, status);
        }
    }
}
