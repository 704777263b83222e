//! How tasks ended, as a store hands it over at a start: each name once and the rest by number, so that millions take a second.

use brasserie_common::status::StoredStatus;
use brasserie_common::{InvocationId, JobId, JobName, NodeId, NodeName, TaskKey, Time};
use brasserie_scheduler_engine::Task;

use crate::record::Durable;
use crate::scheduler::Scheduler;

/// The last end of each task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    pub jobs: Vec<JobName>,
    pub nodes: Vec<NodeName>,
    pub ends: Vec<PastEnd>,
}

/// The last end of one task.
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
    /// The same where the other facts are. Slow beside [`Scheduler::remember_end`].
    pub fn add_to(self, durable: &mut Durable) {
        let History { jobs, nodes, ends } = self;
        for end in ends {
            let key = TaskKey {
                job: jobs[end.job as usize].clone(),
                node: nodes[end.node as usize].clone(),
            };
            durable.statuses.insert(key, (end.invocation, end.status));
        }
    }
}

/// What a scheduler calls the jobs and nodes of a history.
#[derive(Debug)]
pub struct HistoryNames {
    jobs: Vec<JobId>,
    nodes: Vec<NodeId>,
}

impl Scheduler {
    /// Takes the names of the history that belongs to what it was made of, before the first event; [`Scheduler::remember_end`] follows.
    pub fn remember_names(&mut self, jobs: &[JobName], nodes: &[NodeName]) -> HistoryNames {
        let engine = self.engine_mut();
        engine.expect_nodes(nodes.len());
        HistoryNames {
            jobs: jobs.iter().map(|job| engine.intern_job(job)).collect(),
            nodes: nodes.iter().map(|node| engine.intern_node(node)).collect(),
        }
    }

    /// Takes one end of a history, before the first event.
    pub fn remember_end(&mut self, now: Time, names: &HistoryNames, end: PastEnd) {
        let task = Task {
            job: names.jobs[end.job as usize],
            node: names.nodes[end.node as usize],
        };
        self.load_end(now, task, end.invocation, end.status);
    }
}
