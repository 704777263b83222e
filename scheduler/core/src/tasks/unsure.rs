//! Unsure runs: the scheduler asks their workers, with growing pauses, whether they run.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CallId, CallOutcome, InvocationId, Shard, Time, Timeouts, WorkerId};
use brasserie_scheduler_engine::Task;

use super::{RunState, Tasks};
use crate::calls::{Call, CallReply, Purpose};
use crate::scheduler::Scheduler;

/// The most doublings of the pause p between two questions: p, 2p, 4p ... 256p, 256p ...
const MAX_DOUBLINGS: u32 = 8;
/// The most tasks in one `notifyIfTasksNotRunning`. Such a frame stays far below the frame limit, whatever the names.
const MAX_TASKS_PER_NOTIFY: usize = 1000;

/// The unsure runs of each shard, and when to ask about them next.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsureChecks {
    by_shard: BTreeMap<Shard, Check>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Check {
    pub(super) tasks: BTreeSet<(Task, InvocationId)>,
    pub(super) last: Option<Time>,
    pub(super) repeats: u32,
    /// The `notifyIfTasksNotRunning` call under way. A slow worker gets one at a time.
    pub(super) open: Option<CallId>,
}

impl UnsureChecks {
    fn add(&mut self, shard: &Shard, run: (Task, InvocationId)) {
        self.by_shard
            .entry(shard.clone())
            .or_default()
            .tasks
            .insert(run);
    }

    pub(super) fn remove(&mut self, shard: &Shard, run: (Task, InvocationId)) {
        if let Some(check) = self.by_shard.get_mut(shard) {
            check.tasks.remove(&run);
            if check.tasks.is_empty() {
                self.by_shard.remove(shard);
            }
        }
    }

    /// Returns the checks, for fingerprints.
    pub(super) fn by_shard(&self) -> &BTreeMap<Shard, Check> {
        &self.by_shard
    }

    pub(super) fn count(&self, shard: &Shard) -> usize {
        self.by_shard
            .get(shard)
            .map_or(0, |check| check.tasks.len())
    }

    /// Returns when to ask next; the first question is due at once.
    pub(super) fn next(&self, shard: &Shard, timeouts: &Timeouts) -> Option<Time> {
        let check = self
            .by_shard
            .get(shard)
            .filter(|check| check.open.is_none())?;
        Some(match check.last {
            None => Time::ZERO,
            Some(last) => {
                last + timeouts.unsure_if_running_check_initial_period * (1 << check.repeats)
            }
        })
    }
}

impl Tasks {
    pub(crate) fn make_unsure(&mut self, task: Task, invocation: InvocationId) {
        let Some(run) = self.find_mut(task, invocation) else {
            return;
        };
        run.state = RunState::Unsure;
        let shard = run.shard.clone();
        self.unsure.add(&shard, (task, invocation));
    }

    /// Marks the run as running, confirmed by its worker.
    pub(crate) fn confirm(&mut self, now: Time, task: Task, invocation: InvocationId) {
        self.make_running(task, invocation);
        if let Some(run) = self.find_mut(task, invocation) {
            run.confirmed.get_or_insert(now);
        }
    }

    /// Marks the run as running.
    fn make_running(&mut self, task: Task, invocation: InvocationId) {
        let Some(run) = self.find_mut(task, invocation) else {
            return;
        };
        run.state = RunState::Running;
        let shard = run.shard.clone();
        self.unsure.remove(&shard, (task, invocation));
    }

    fn unsure_batch(&self, shard: &Shard) -> Vec<(Task, InvocationId)> {
        let Some(check) = self.unsure.by_shard.get(shard) else {
            return Vec::new();
        };
        check
            .tasks
            .iter()
            .take(MAX_TASKS_PER_NOTIFY)
            .copied()
            .collect()
    }

    fn notify_sent(&mut self, shard: &Shard, now: Time, open: Option<CallId>) {
        if let Some(check) = self.unsure.by_shard.get_mut(shard) {
            check.last = Some(now);
            check.repeats = (check.repeats + 1).min(MAX_DOUBLINGS);
            check.open = open;
        }
    }

    fn notify_closed(&mut self, shard: &Shard) {
        if let Some(check) = self.unsure.by_shard.get_mut(shard) {
            check.open = None;
        }
    }

    /// Marks these runs as running. The worker will report those that do not run.
    fn become_sure(&mut self, shard: &Shard, tasks: &[(Task, InvocationId)]) {
        for &(task, mut invocation) in tasks {
            if sabotage::on(Sabotage::NotifySettlesNewerInvocation) {
                invocation = self.run(task).map_or(invocation, |run| run.invocation);
            }
            if self
                .find(task, invocation)
                .is_some_and(|run| run.shard == *shard)
            {
                self.make_running(task, invocation);
            }
        }
        // The worker answers, so the rest of a long list does not wait for the next doubled pause.
        if let Some(check) = self.unsure.by_shard.get_mut(shard) {
            (check.last, check.repeats) = (None, 0);
        }
    }
}

impl Scheduler {
    pub(crate) fn notify_if_due(&mut self, now: Time, shard: &Shard) {
        let timeouts = self.options().timeouts;
        if self
            .tasks()
            .next_notify(shard, &timeouts)
            .is_none_or(|at| at > now)
        {
            return;
        }
        let tasks = self.tasks().unsure_batch(shard);
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        let sequence = if sabotage::on(Sabotage::AskWithoutRaising) {
            remote.sequence()
        } else {
            remote.next_sequence()
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let call = Call::NotifyIfTasksNotRunning {
            worker,
            tasks: tasks.clone(),
            sequence,
        };
        let id = self.call(
            now,
            peer,
            call,
            Purpose::Notify {
                shard: shard.clone(),
                worker,
                tasks,
            },
        );
        self.tasks_mut().notify_sent(shard, now, Some(id));
    }

    pub(crate) fn notified(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        tasks: &[(Task, InvocationId)],
        outcome: &CallOutcome<CallReply>,
    ) {
        if self.workers_mut().instance_mut(shard, worker).is_none() {
            return;
        }
        self.tasks_mut().notify_closed(shard);
        if matches!(outcome, CallOutcome::Done(_)) {
            self.tasks_mut().become_sure(shard, tasks);
        }
        self.evaluate(now, shard);
    }
}
