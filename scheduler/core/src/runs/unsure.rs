//! Unsure runs: the scheduler asks their workers, with growing pauses, whether they run.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CallId, InvocationId, Shard, Time, Timeouts};
use brasserie_scheduler_engine::Task;

use super::{RunState, Runs};

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
struct Check {
    tasks: BTreeSet<(Task, InvocationId)>,
    last: Option<Time>,
    repeats: u32,
    /// The `notifyIfTasksNotRunning` call under way. A slow worker gets one at a time.
    open: Option<CallId>,
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

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.by_shard, |s, (shard, check)| {
            s.put((shard, check.repeats));
            s.each(&check.tasks, |s, (task, invocation)| {
                s.put(task);
                s.invocation(*invocation);
            });
            s.time_if(check.last);
            s.opt(check.open, Shape::call);
        });
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

impl Runs {
    /// Marks the run as unsure. `start_failure` is the reason if that is the call that starts it; for people.
    pub(crate) fn make_unsure(
        &mut self,
        task: Task,
        invocation: InvocationId,
        start_failure: Option<Box<str>>,
    ) {
        let Some(run) = self.find_mut(task, invocation) else {
            return;
        };
        run.state = RunState::Unsure;
        run.start_failure = start_failure;
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

    /// Returns when to ask a worker about its unsure runs; the first question is due at once.
    pub(crate) fn next_question(&self, shard: &Shard, timeouts: &Timeouts) -> Option<Time> {
        self.unsure.next(shard, timeouts)
    }

    /// Returns the unsure runs of the next question to a worker.
    pub(crate) fn next_unsure(&self, shard: &Shard) -> Vec<(Task, InvocationId)> {
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

    pub(crate) fn question_sent(&mut self, shard: &Shard, now: Time, call: CallId) {
        if let Some(check) = self.unsure.by_shard.get_mut(shard) {
            check.last = Some(now);
            check.repeats = (check.repeats + 1).min(MAX_DOUBLINGS);
            check.open = Some(call);
        }
    }

    pub(crate) fn question_closed(&mut self, shard: &Shard) {
        if let Some(check) = self.unsure.by_shard.get_mut(shard) {
            check.open = None;
        }
    }

    /// Marks these runs as running. The worker will report those that do not run.
    pub(crate) fn become_sure(&mut self, shard: &Shard, tasks: &[(Task, InvocationId)]) {
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
