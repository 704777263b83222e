//! Statuses on their way to the scheduler: each until it is acknowledged, many at a time, none waiting for another.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{
    CallId, InvocationId, ReportedStatus, RunningTask, SchedulerId, TaskKey, Time, WorkerId,
};

use crate::effect::{Call, Goes};
use crate::outbox::Turn;
use crate::timer::{LONGEST_REPORT_RETRY, REPORT_RETRY};
use crate::work_fetch::{AssociationIndex, TaskNumber};

/// Calls on their way at once, as long as the scheduler shows that it keeps up. Each is answered once its record is durable, which takes
/// the store's pause and a sync: some ten milliseconds, twenty on a busy machine. So a thousand of them carry 50,000 ends a second,
/// more than a worker can start. They are a quarter of what a scheduler takes from one connection.
const MOST_IN_FLIGHT: usize = 1024;

/// The same at first, and after any call that was not acknowledged. A thousand workers that come back to a scheduler with all their ends
/// then send it at most 100,000, which it writes within a second; with ten times as many the answers would come when the workers have
/// given the calls up, and nothing would ever be acknowledged.
const LEAST_IN_FLIGHT: usize = 100;

/// "was not running" answers that wait. A question that needs more room than is left is refused as a whole, and asked again.
pub(crate) const MAX_NOT_RUNNING: usize = 10_000;

/// One report, in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReportId(u64);

/// ```text
///   HELD --whatever its scheduler is talked to for--> WAITING
///
///   WAITING --sent--> (in flight) --acknowledged--> (forgotten)
///      ^                   |
///      +--- anything else -+
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) task: Arc<RunningTask>,
    pub(crate) status: ReportedStatus,
    pub(crate) kind: Kind,
    goes: Goes,
    /// When it may leave; `None` while it is in flight, or held.
    ready_at: Option<Time>,
    /// Calls in a row that were not acknowledged, as far as they lengthen the pause.
    failures: u32,
}

/// An end that waits for others to be told with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) task: TaskNumber,
    pub(crate) ended: Time,
    pub(crate) deadline: Option<Time>,
}

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The end of a task.
    End,
    /// The end of a healthcheck, which only this scheduler cares about.
    Healthcheck(SchedulerId),
    /// The answer to `notifyIfTasksNotRunning`.
    NotRunning,
}

/// A report on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) report: ReportId,
    /// Only this instance's acknowledgement counts.
    pub(crate) addressed: SchedulerId,
    deadline: Time,
}

/// To whom reports may go now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addressee {
    pub(crate) association: AssociationIndex,
    pub(crate) scheduler: SchedulerId,
    pub(crate) worker: WorkerId,
    pub(crate) tasks: TaskLane,
}

/// Whether the scheduler takes the statuses of tasks; those of healthchecks it always takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskLane {
    Open,
    /// It has not fetched the running tasks: it would refuse, or its acknowledgement would not count.
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) struct Reports {
    all: BTreeMap<ReportId, Report>,
    /// Ends that do not leave yet, of a worker that fetches work.
    held: BTreeMap<ReportId, Held>,
    /// Waiting ends and answers, the longest ready first.
    lane: BTreeSet<(Time, ReportId)>,
    /// Healthchecks overtake, since the health of the worker hangs on them; at most two.
    healthchecks: BTreeSet<ReportId>,
    /// Calls get ascending ids and equal deadlines, so the first one here is the first to be given up.
    calls: BTreeMap<CallId, InFlight>,
    not_running: BTreeSet<InvocationId>,
    last_id: u64,
    /// The scheduler could not be reached: there is no use in trying the others before this.
    paused_until: Time,
    /// How many calls may be on their way: from [`LEAST_IN_FLIGHT`] to [`MOST_IN_FLIGHT`].
    window: usize,
}

impl Default for Reports {
    fn default() -> Self {
        Reports {
            all: BTreeMap::new(),
            held: BTreeMap::new(),
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
    pub(crate) fn get(&self, id: ReportId) -> Option<&Report> {
        self.all.get(&id)
    }

    /// How many ends and answers of tasks are not acknowledged.
    pub(crate) fn tasks_pending(&self) -> usize {
        self.all.len() - self.healthcheck_count()
    }

    /// The same without those that are held back.
    pub(crate) fn tasks_told(&self) -> usize {
        self.tasks_pending().saturating_sub(self.held.len())
    }

    fn healthcheck_count(&self) -> usize {
        let is_healthcheck = |report: &Report| match report.kind {
            Kind::Healthcheck(_) => true,
            Kind::End | Kind::NotRunning => false,
        };
        let in_flight = self.calls.values().filter_map(|c| self.all.get(&c.report));
        self.healthchecks.len() + in_flight.filter(|r| is_healthcheck(r)).count()
    }

    pub(crate) fn not_running_room(&self) -> usize {
        MAX_NOT_RUNNING.saturating_sub(self.not_running.len())
    }

    pub(crate) fn add(
        &mut self,
        now: Time,
        task: Arc<RunningTask>,
        status: ReportedStatus,
        kind: Kind,
    ) {
        if kind == Kind::NotRunning && !self.not_running.insert(task.invocation) {
            return;
        }
        match kind {
            Kind::End | Kind::NotRunning => self.release(now),
            Kind::Healthcheck(_) => {}
        }
        let id = self.insert((task, status), kind, Goes::Alone);
        self.wait(id, now);
    }

    /// An end that waits for others to be told with them.
    pub(crate) fn hold(&mut self, end: (Arc<RunningTask>, ReportedStatus), held: Held) {
        let id = self.insert(end, Kind::End, Goes::Together);
        self.held.insert(id, held);
    }

    fn insert(
        &mut self,
        (task, status): (Arc<RunningTask>, ReportedStatus),
        kind: Kind,
        goes: Goes,
    ) -> ReportId {
        self.last_id += 1;
        let id = ReportId(self.last_id);
        let report = Report {
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

    /// In the order in which they ended.
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = &Held> {
        self.held.values()
    }

    /// The scheduler is talked to: what was held is told, too. From here on each is a report as any other, and repeated as such.
    pub(crate) fn release(&mut self, now: Time) {
        for id in std::mem::take(&mut self.held).into_keys() {
            self.wait(id, now);
        }
    }

    /// It leaves again, not before `ready_at`.
    pub(crate) fn wait(&mut self, id: ReportId, ready_at: Time) {
        let Some(report) = self.all.get_mut(&id) else {
            return;
        };
        report.ready_at = Some(ready_at);
        match report.kind {
            Kind::End | Kind::NotRunning => {
                self.lane.insert((ready_at, id));
            }
            Kind::Healthcheck(_) => {
                self.healthchecks.insert(id);
            }
        }
    }

    /// It was not acknowledged, and leaves again after a pause that grows to [`LONGEST_REPORT_RETRY`]. A healthcheck's does not, since the
    /// worker's health depends on it.
    pub(crate) fn wait_again(&mut self, id: ReportId, now: Time) {
        let Some(report) = self.all.get_mut(&id) else {
            return;
        };
        let pause = REPORT_RETRY * (1 << report.failures);
        if pause < LONGEST_REPORT_RETRY && !matches!(report.kind, Kind::Healthcheck(_)) {
            report.failures += 1;
        }
        self.wait(id, now + pause);
    }

    /// A call was acknowledged: one more may be on its way, if all that may be are.
    pub(crate) fn widen(&mut self) {
        if self.calls.len() + 1 == self.window {
            self.window = (self.window + 1).min(MOST_IN_FLIGHT);
        }
    }

    /// A call was not acknowledged: the scheduler may have more to do than it can.
    pub(crate) fn narrow(&mut self) {
        self.window = LEAST_IN_FLIGHT;
    }

    pub(crate) fn pause(&mut self, until: Time) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Everything that waits leaves at once: what refused or could not be reached may take it now.
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

    pub(crate) fn remove(&mut self, id: ReportId) -> Option<Report> {
        let report = self.all.remove(&id)?;
        if let Some(at) = report.ready_at {
            self.lane.remove(&(at, id));
        }
        self.healthchecks.remove(&id);
        self.held.remove(&id);
        if report.kind == Kind::NotRunning {
            self.not_running.remove(&report.task.invocation);
        }
        Some(report)
    }

    /// Drops the reports that `keep` does not want, and says which runs they were about.
    pub(crate) fn retain(
        &mut self,
        keep: impl Fn(&Report) -> bool,
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

    pub(crate) fn is_in_flight(&self, call: CallId) -> bool {
        self.calls.contains_key(&call)
    }

    /// The report that this outcome is about, unless it was given up before.
    pub(crate) fn take(&mut self, call: CallId) -> Option<InFlight> {
        self.calls.remove(&call)
    }

    /// The next one whose outcome did not come in time.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<InFlight> {
        let first = self.calls.first_entry()?;
        (first.get().deadline <= now).then(|| first.remove())
    }

    /// Sends what may leave now.
    pub(crate) fn send(&mut self, turn: &mut Turn<'_>, to: Addressee, deadline: Time) {
        while let Some(id) = self.ready(turn.now, to)
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
            let call = turn.call(to.association, call);
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

    /// The next healthcheck and the next task to leave, and when.
    fn next(&self, to: Addressee) -> [Option<(Time, ReportId)>; 2] {
        let mine = |report: &&Report| report.kind == Kind::Healthcheck(to.scheduler);
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

    /// When something must be sent or given up.
    pub(crate) fn due(&self, to: Option<Addressee>) -> Option<Time> {
        let next = to.into_iter().flat_map(|to| self.next(to)).flatten();
        let deadline = self.calls.values().next().map(|call| call.deadline);
        next.map(|(at, _)| at).chain(deadline).min()
    }

    /// For fingerprints. Without the window, which no world that is searched ever fills.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.all, |s, (id, report)| {
            s.put((&report.task.job, &report.task.node));
            s.run_of(&report.task);
            s.reported(&report.status);
            match report.kind {
                Kind::End if self.held.contains_key(id) => s.put(3_u8),
                Kind::End if report.goes == Goes::Together => s.put(4_u8),
                Kind::End => s.put(0_u8),
                Kind::Healthcheck(scheduler) => s.scheduler(scheduler),
                Kind::NotRunning => s.put(2_u8),
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
    }
}
