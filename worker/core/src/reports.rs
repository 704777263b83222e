//! Statuses in flight to the scheduler. Each is repeated until it is acknowledged. Many are in flight at a time, and none waits for
//! another.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{
    CallId, InvocationId, RefusalCode, ReportedStatus, RunningTask, SchedulerId, TaskKey, Time,
    WorkerId,
};
use brasserie_worker_fetch::{AssociationIndex, TaskNumber};

use crate::effect::{Call, Goes, Outbox, Refusal};
use crate::timer::{COMPLETION_DELAY, LONGEST_REPORT_RETRY, REPORT_RETRY};

/// The maximum number of calls in flight while the scheduler keeps up. The scheduler answers a call once its record is durable, which takes
/// the store's pause and a sync: about 10 ms, or 20 ms on a busy machine. So a thousand calls carry 50,000 completions a second, more than
/// a worker can start. They are a quarter of what a scheduler accepts from one connection.
const MOST_IN_FLIGHT: usize = 1024;

/// The maximum number of calls in flight at first, and after any call that was not acknowledged. A thousand workers that return to a
/// scheduler with all their completions send it at most 100,000, which it writes within a second. With ten times as many, the answers would
/// come after the workers have abandoned the calls, and no completion would ever be acknowledged.
const LEAST_IN_FLIGHT: usize = 100;

/// The maximum number of pending "was not running" answers. A question that would exceed it is refused as a whole, and asked again.
const MAX_NOT_RUNNING: usize = 10_000;

/// The number of a report, in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReportId(u64);

/// A status that the scheduler has not acknowledged.
///
/// ```text
///   HELD --whatever its scheduler is talked to for--> WAITING
///
///   WAITING --sent--> (in flight) --acknowledged--> (forgotten)
///      ^                   |
///      +--- anything else -+
/// ```
#[derive(Clone, Debug)]
pub(crate) struct PendingReport {
    pub task: Arc<RunningTask>,
    pub status: ReportedStatus,
    pub kind: ReportKind,
    goes: Goes,
    /// The earliest time of the next sending; `None` while the report is in flight or held.
    ready_at: Option<Time>,
    /// Consecutive calls that were not acknowledged, as far as they lengthen the pause.
    failures: u32,
}

impl PendingReport {
    fn is_of_healthcheck(&self) -> bool {
        match self.kind {
            ReportKind::Healthcheck(_) => true,
            ReportKind::End | ReportKind::NotRunning => false,
        }
    }
}

/// A completion that is held back, to be sent together with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldCompletion {
    pub task: TaskNumber,
    pub ended: Time,
    pub deadline: Option<Time>,
}

/// The subject of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReportKind {
    /// The completion of a task.
    End,
    /// The completion of a healthcheck, which only this scheduler instance needs.
    Healthcheck(SchedulerId),
    /// The answer to `notifyIfTasksNotRunning`.
    NotRunning,
}

/// A report in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub report: ReportId,
    /// Only this instance's acknowledgement counts.
    pub addressed: SchedulerId,
    deadline: Time,
}

/// The scheduler instance that reports may go to now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressee {
    pub association: AssociationIndex,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
    pub tasks: TaskLane,
}

/// Whether the scheduler accepts the statuses of tasks. It always accepts those of healthchecks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskLane {
    Open,
    /// The scheduler has not fetched the running tasks: it would refuse, or its acknowledgement would not count.
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) struct Reports {
    all: BTreeMap<ReportId, PendingReport>,
    /// Completions that a pull worker holds back.
    held: BTreeMap<ReportId, HeldCompletion>,
    /// Completions that wait a moment for others, while tasks stand by.
    delayed: BTreeSet<ReportId>,
    /// The time at which these leave at the latest.
    delayed_until: Time,
    /// Waiting completions and answers, the longest ready first.
    lane: BTreeSet<(Time, ReportId)>,
    /// Waiting healthchecks, at most two. They overtake other reports, because the worker's health depends on them.
    healthchecks: BTreeSet<ReportId>,
    /// Calls get ascending ids and equal deadlines, so the first call here is the first to time out.
    calls: BTreeMap<CallId, InFlight>,
    not_running: BTreeSet<InvocationId>,
    last_id: u64,
    /// The end of a pause after the scheduler could not be reached, when other calls would be in vain.
    paused_until: Time,
    /// The number of calls that may be in flight, from [`LEAST_IN_FLIGHT`] to [`MOST_IN_FLIGHT`].
    window: usize,
}

impl Default for Reports {
    fn default() -> Self {
        Reports {
            all: BTreeMap::new(),
            held: BTreeMap::new(),
            delayed: BTreeSet::new(),
            delayed_until: Time::NEVER,
            lane: BTreeSet::new(),
            healthchecks: BTreeSet::new(),
            calls: BTreeMap::new(),
            not_running: BTreeSet::new(),
            last_id: 0,
            paused_until: Time::ZERO,
            window: LEAST_IN_FLIGHT,
        }
    }
}

impl Reports {
    pub(crate) fn get(&self, id: ReportId) -> Option<&PendingReport> {
        self.all.get(&id)
    }

    /// Returns the number of completions and answers of tasks that are not acknowledged.
    pub(crate) fn tasks_pending(&self) -> usize {
        self.all.len() - self.healthcheck_count()
    }

    /// Returns the same number without the completions that are held back. It includes the delayed ones.
    pub(crate) fn tasks_told(&self) -> usize {
        self.tasks_pending().saturating_sub(self.held.len())
    }

    /// Returns whether [`Reports::tasks_pending`] is more than zero. Cheap enough for every event: few reports are of healthchecks.
    pub(crate) fn are_tasks_pending(&self) -> bool {
        !self.all.values().all(PendingReport::is_of_healthcheck)
    }

    fn healthcheck_count(&self) -> usize {
        let in_flight = self.calls.values().filter_map(|c| self.all.get(&c.report));
        self.healthchecks.len() + in_flight.filter(|r| r.is_of_healthcheck()).count()
    }

    /// Refuses this many further "was not running" answers if they would exceed the limit.
    pub(crate) fn check_answers(&self, number: usize) -> Result<(), Refusal> {
        if number <= MAX_NOT_RUNNING.saturating_sub(self.not_running.len()) {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::Busy,
            format!(
                "{number} tasks do not fit into the {MAX_NOT_RUNNING} answers that may wait: ask again later, or for fewer"
            ),
        ))
    }

    pub(crate) fn add(
        &mut self,
        now: Time,
        task: Arc<RunningTask>,
        status: ReportedStatus,
        kind: ReportKind,
    ) {
        if kind == ReportKind::NotRunning && !self.not_running.insert(task.invocation) {
            return;
        }
        match kind {
            ReportKind::End | ReportKind::NotRunning => self.release(now),
            ReportKind::Healthcheck(_) => {}
        }
        let id = self.insert((task, status), kind, Goes::Alone);
        self.wait(id, now);
    }

    /// Adds a completion that is held back, to be sent together with others.
    pub(crate) fn hold(&mut self, end: (Arc<RunningTask>, ReportedStatus), held: HeldCompletion) {
        let id = self.insert(end, ReportKind::End, Goes::Together);
        self.held.insert(id, held);
    }

    fn insert(
        &mut self,
        (task, status): (Arc<RunningTask>, ReportedStatus),
        kind: ReportKind,
        goes: Goes,
    ) -> ReportId {
        self.last_id += 1;
        let id = ReportId(self.last_id);
        let report = PendingReport {
            task,
            status,
            kind,
            goes,
            ready_at: None,
            failures: 0,
        };
        self.all.insert(id, report);
        id
    }

    /// Returns the held completions in the order in which the tasks ended.
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = &HeldCompletion> {
        self.held.values()
    }

    /// Releases the held and the delayed completions, because the worker contacts the scheduler. From now on, each is an ordinary report
    /// and is repeated.
    pub(crate) fn release(&mut self, now: Time) {
        for id in std::mem::take(&mut self.held).into_keys() {
            self.wait(id, now);
        }
        self.release_delayed(now, || 0);
    }

    /// Adds a completion that waits for others, at most [`COMPLETION_DELAY`].
    pub(crate) fn delay(&mut self, now: Time, end: (Arc<RunningTask>, ReportedStatus)) {
        let id = self.insert(end, ReportKind::End, Goes::Together);
        self.delayed.insert(id);
        self.delayed_until = self.delayed_until.min(now + COMPLETION_DELAY);
    }

    /// Releases the delayed completions if they have waited for long enough, or are as many as the tasks that still stand by, which the
    /// scheduler should replenish.
    pub(crate) fn release_delayed(&mut self, now: Time, standing_by: impl FnOnce() -> usize) {
        if self.delayed.is_empty() {
            return;
        }
        if self.delayed_until <= now || self.delayed.len() >= standing_by() {
            for id in std::mem::take(&mut self.delayed) {
                self.wait(id, now);
            }
            self.delayed_until = Time::NEVER;
        }
    }

    /// Schedules a report, not before `ready_at`.
    pub(crate) fn wait(&mut self, id: ReportId, ready_at: Time) {
        let Some(report) = self.all.get_mut(&id) else {
            return;
        };
        report.ready_at = Some(ready_at);
        match report.kind {
            ReportKind::End | ReportKind::NotRunning => {
                self.lane.insert((ready_at, id));
            }
            ReportKind::Healthcheck(_) => {
                self.healthchecks.insert(id);
            }
        }
    }

    /// Schedules a report that was not acknowledged, after a pause that grows to [`LONGEST_REPORT_RETRY`]. The pause of a healthcheck does
    /// not grow, because the worker's health depends on it.
    pub(crate) fn wait_again(&mut self, id: ReportId, now: Time) {
        let Some(report) = self.all.get_mut(&id) else {
            return;
        };
        let pause = REPORT_RETRY * (1 << report.failures);
        if pause < LONGEST_REPORT_RETRY && !matches!(report.kind, ReportKind::Healthcheck(_)) {
            report.failures += 1;
        }
        self.wait(id, now + pause);
    }

    /// Allows one more call in flight after an acknowledgement, if the window was full.
    pub(crate) fn widen(&mut self) {
        if self.calls.len() + 1 == self.window {
            self.window = (self.window + 1).min(MOST_IN_FLIGHT);
        }
    }

    /// Resets the window after a call that was not acknowledged, because the scheduler may be overloaded.
    pub(crate) fn narrow(&mut self) {
        self.window = LEAST_IN_FLIGHT;
    }

    pub(crate) fn pause(&mut self, until: Time) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Makes all waiting reports ready now, because the scheduler may accept them now.
    pub(crate) fn ready_all(&mut self, now: Time) {
        self.release(now);
        self.paused_until = Time::ZERO;
        for report in self.all.values_mut() {
            report.ready_at = report.ready_at.map(|_| now);
            report.failures = 0;
        }
        self.lane = std::mem::take(&mut self.lane)
            .into_iter()
            .map(|(_, id)| (now, id))
            .collect();
    }

    pub(crate) fn remove(&mut self, id: ReportId) -> Option<PendingReport> {
        let report = self.all.remove(&id)?;
        if let Some(at) = report.ready_at {
            self.lane.remove(&(at, id));
        }
        self.healthchecks.remove(&id);
        self.held.remove(&id);
        if self.delayed.remove(&id) && self.delayed.is_empty() {
            self.delayed_until = Time::NEVER;
        }
        if report.kind == ReportKind::NotRunning {
            self.not_running.remove(&report.task.invocation);
        }
        Some(report)
    }

    /// Drops the reports for which `keep` returns false, and returns their runs.
    pub(crate) fn retain(
        &mut self,
        keep: impl Fn(&PendingReport) -> bool,
    ) -> Vec<(TaskKey, InvocationId)> {
        let drop: Vec<ReportId> = self
            .all
            .iter()
            .filter(|(_, report)| !keep(report))
            .map(|(&id, _)| id)
            .collect();
        drop.into_iter()
            .filter_map(|id| self.remove(id))
            .map(|report| (report.task.key(), report.task.invocation))
            .collect()
    }

    /// Takes the report that this outcome is for. `None` if the call has timed out.
    pub(crate) fn take(&mut self, call: CallId) -> Option<InFlight> {
        self.calls.remove(&call)
    }

    /// Takes the next call that has timed out.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<InFlight> {
        let first = self.calls.first_entry()?;
        (first.get().deadline <= now).then(|| first.remove())
    }

    /// Sends the reports that are ready.
    pub(crate) fn send(&mut self, now: Time, to: Addressee, deadline: Time, out: &mut Outbox) {
        while let Some(id) = self.ready(now, to)
            && let Some(report) = self.all.get_mut(&id)
        {
            let ready_at = report.ready_at.take();
            let call = Call::UpdateStatus {
                task: Arc::clone(&report.task),
                status: report.status.clone(),
                scheduler: to.scheduler,
                worker: to.worker,
                goes: report.goes,
            };
            let call = out.call(to.association, call);
            self.healthchecks.remove(&id);
            if let Some(at) = ready_at {
                self.lane.remove(&(at, id));
            }
            self.calls.insert(
                call,
                InFlight {
                    report: id,
                    addressed: to.scheduler,
                    deadline,
                },
            );
        }
    }

    fn ready(&self, now: Time, to: Addressee) -> Option<ReportId> {
        let next = self.next(to).into_iter().flatten();
        next.filter(|&(at, _)| at <= now).map(|(_, id)| id).next()
    }

    /// Returns the next healthcheck and the next task report to send, with their times.
    fn next(&self, to: Addressee) -> [Option<(Time, ReportId)>; 2] {
        let mine = |report: &&PendingReport| report.kind == ReportKind::Healthcheck(to.scheduler);
        let healthcheck = self.healthchecks.iter().filter_map(|id| {
            let report = self.all.get(id).filter(mine)?;
            Some((report.ready_at?, *id))
        });
        let task = match to.tasks {
            TaskLane::Open if self.calls.len() < self.window => self.lane.first().copied(),
            TaskLane::Open | TaskLane::Closed => None,
        };
        [healthcheck.min(), task].map(|next| next.map(|(at, id)| (at.max(self.paused_until), id)))
    }

    /// Returns when a report must be sent or a call times out.
    pub(crate) fn due(&self, to: Option<Addressee>) -> Option<Time> {
        let next = to.into_iter().flat_map(|to| self.next(to)).flatten();
        let deadline = self.calls.values().next().map(|call| call.deadline);
        let times = next.map(|(at, _)| at).chain(deadline);
        times.chain([self.delayed_until]).min()
    }

    /// Writes the state for fingerprints. Omits the window, which no searched world ever fills.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.all, |s, (id, report)| {
            s.put((&report.task.job, &report.task.node));
            s.run_of(&report.task);
            s.reported(&report.status);
            match report.kind {
                ReportKind::End if self.held.contains_key(id) => s.put(3_u8),
                ReportKind::End if self.delayed.contains(id) => s.put(5_u8),
                ReportKind::End if report.goes == Goes::Together => s.put(4_u8),
                ReportKind::End => s.put(0_u8),
                ReportKind::Healthcheck(scheduler) => s.scheduler(scheduler),
                ReportKind::NotRunning => s.put(2_u8),
            }
            s.opt(report.ready_at, Shape::deadline);
            s.put(report.failures);
        });
        s.each(&self.calls, |s, (id, call)| {
            s.call(*id);
            s.opt(self.all.get(&call.report), |s, report| {
                s.run_of(&report.task);
            });
            s.scheduler(call.addressed);
            s.deadline(call.deadline);
        });
        s.deadline(self.paused_until);
        s.deadline(self.delayed_until);
    }
}
