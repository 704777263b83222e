//! Completions as a store supplies them at a start: each name once and references by number, so that millions load in a second.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::{InvocationId, JobId, JobName, NodeId, NodeName, TaskKey, Time};
use brasserie_scheduler_engine::Task;

use crate::record::{Durable, Forgotten};
use crate::scheduler::Scheduler;
use crate::tasks::Lost;

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
        let engine = self.engine_mut();
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
        self.load_end(now, task, end.invocation, end.status);
    }

    /// Loads the completions that are part of [`Durable`], and the deleted ones.
    pub(crate) fn remember(
        &mut self,
        now: Time,
        forgotten: BTreeMap<TaskKey, Forgotten>,
        statuses: BTreeMap<TaskKey, (InvocationId, StoredStatus)>,
    ) {
        for (key, of) in forgotten {
            if sabotage::on(Sabotage::ForgetWhatWasDeleted) {
                continue;
            }
            let job = self.engine_mut().intern_job(&key.job);
            let node = self.engine_mut().intern_node(&key.node);
            self.tasks_mut().remember_forgotten(Task { job, node }, of);
        }
        for (key, (invocation, status)) in statuses {
            let job = self.engine_mut().intern_job(&key.job);
            let node = self.engine_mut().intern_node(&key.node);
            self.load_end(now, Task { job, node }, invocation, status);
        }
    }

    fn load_end(&mut self, now: Time, task: Task, invocation: InvocationId, status: StoredStatus) {
        let not_before = self.remaining_backoff(now, &status);
        if status.safety_seconds > 0 && !sabotage::on(Sabotage::ForgetSafetyBackoffs) {
            let safety = Duration::from_secs(u64::from(status.safety_seconds));
            let floors = self.tasks_mut().floors_mut();
            floors.raise(task, Lost::Somebody, now + safety);
        }
        self.tasks_mut().remember_end(task, invocation);
        self.engine_mut().load_status(now, task, status, not_before);
    }

    /// Returns when a task with a stored status may run again. The configured part goes by the wall clock, which may have jumped, and is
    /// never longer than configured. The safety part starts again in full.
    fn remaining_backoff(&self, now: Time, status: &StoredStatus) -> Option<Time> {
        let waits = status.uses_backoff() || status.safety_seconds > 0;
        let forgets = status.safety_seconds > 0 && sabotage::on(Sabotage::ForgetSafetyBackoffs);
        if !waits || status.is_failed() || status.is_done() || forgets {
            return None;
        }
        let configured = Duration::from_secs(u64::from(status.backoff_seconds));
        let elapsed_ms = self
            .wall()
            .as_millis()
            .saturating_sub(status.time.as_millis())
            .max(0);
        let remaining = configured.saturating_sub(Duration::from_millis(elapsed_ms.unsigned_abs()));
        Some(now + remaining.max(Duration::from_secs(u64::from(status.safety_seconds))))
    }
}
