//! Credits: how much work a worker requests, and how ordinary `runTask` calls spend it.
//!
//! A request sets the credit and replaces the previous one; each task that is sent spends some of it. Only two things return credit: the
//! end of a run, which leaves instances idle, if the worker wants that; and the certain refusal of a run for want of GPUs, because it has
//! used nothing. So whatever requests and answers are lost, duplicated or late, the scheduler sends at most one task more than the newest
//! received request asked for. Credits are volatile: they end with the association, and when the worker may get no tasks.
//!
//! Invariants:
//!
//! * C1: Between two accepted requests, each amount of a credit only falls, with two exceptions, each at most once for each run. The end of
//!   a run raises only the idle instances, by those that the run took, and to no more than the worker has. A worker that chooses GPUs may
//!   refuse a run for want of a free one, so that the run certainly never began. The refusal raises all amounts by those that the run took,
//!   and to no more than was requested; idle instances to no more than the worker has.
//! * C2: Before a task is sent, there was credit for its class: seconds or instances above 0 for a bufferable task, idle instances above 0
//!   for any other. So requests for seconds are exceeded by less than one task.
//! * C3: No credit outlives [`Credits::clear`], an association ([`Credits::begin_anew`]), or an instance, because each instance has its own
//!   `Credits`.
//! * C4: A repeated request, or one that is older than a received one, changes nothing.
//! * C5: Credits read the running tasks, and never change them.
//! * C6: A worker that never requested work, nor announced that it will, is not limited by a credit.
//! * C7: A verdict is GRANTED only for tasks that were sent for this request.

mod amounts;
mod policy;
mod request;
mod shape;
mod spending;
mod turned_down;
mod turns;
mod view;
mod workload;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use amounts::Amounts;
use brasserie_common::health::timeouts::MESSAGE_LIFE;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::Supply;
use brasserie_common::{
    CardChoice, InvocationId, Processor, Time, WorkReply, WorkRequest, WorkRequestSeq, WorkVerdict,
};
use turned_down::{Revocable, Sending};
use turns::{RequestTurn, turns_for};
use workload::{CpuShare, DeadlineWorkload, ListedRun};

pub use amounts::{TaskClass, TaskWork};
pub use policy::{DeadlineRule, RequestPolicy};
pub use request::KnownRuns;
pub use turns::Turns;
pub use view::{NotSent, RequestView, RequestedType};

pub use workload::Relief;

/// The minimum delay of a worker whose request is deferred.
pub const DEFERRED_DELAY: Duration = Duration::from_secs(1);
/// How long a request stays open before a placement has considered it. Its worker then has abandoned it: two heartbeat periods, by default.
const MAX_OPEN: Duration = Duration::from_secs(30);

/// Whether a worker may get tasks at all: it is HEALTHY, does not drain, and nothing is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    MayWork,
    MayNot,
}

/// A run that the scheduler counts as present at a worker, confirmed or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent<'a> {
    pub invocation: InvocationId,
    /// The work of the run, with the rest of its deadline as bound. `None`: not [`KnownRuns::is_weighed`].
    pub task_work: Option<TaskWork<'a>>,
    /// The time at which the worker confirmed the run, or an earlier one.
    pub acknowledged: Option<Time>,
}

/// The first evaluation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The request is accepted, and [`Credits::look_at`] follows.
    ToLookAt,
    /// There was a newer request.
    Stale,
    /// The request was received before.
    Repeated,
    /// The worker may get no tasks.
    NotReady,
    /// The worker requests work too often.
    TooSoon,
    /// All workers together request work too often.
    TooMany,
}

/// The result of a placement for one worker and one type of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementResult {
    /// The tasks that are ready, whether or not the worker has free slots for them.
    pub candidates: u64,
    /// The candidates that would miss their deadlines at this worker.
    pub late: u64,
    pub apps: Apps,
}

/// Whether any job of the configuration uses a type of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Apps {
    Some,
    None,
}

/// The requests of one association, and the credit left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credits {
    supply: Supply,
    newest: Option<CreditRequest>,
    /// When a request was last accepted.
    looked_at: Option<Time>,
    /// The reserved turn for the next request, and the number of turns reserved. It was given to a request that came when all turns were
    /// taken.
    turn: Option<(Time, u32)>,
    /// The instances taken by each current run that was sent for a request whose idle instances come back.
    took: BTreeMap<InvocationId, Took>,
    /// The amounts that each run took off the newest request, if the worker may refuse the run for want of GPUs.
    revocable: BTreeMap<InvocationId, Revocable>,
    /// The time until which tasks similar to the refused ones are not sent, unless a run ends there before.
    keeps_away: Option<Time>,
    /// The known runs in the worker's last list, sorted.
    listed: Vec<InvocationId>,
    /// The runs that the worker has and once failed to list although it must, sorted.
    unlisted: Vec<InvocationId>,
    violations: u64,
}

/// The instances that a run keeps from being idle.
#[derive(Clone, Debug, PartialEq)]
struct Took {
    /// The type of processors that the run was charged to.
    processor: Processor,
    usage: f64,
    counted: Counted,
}

/// Whether the scheduler or the worker took a run off the idle instances of the newest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counted {
    /// The scheduler: the run was sent since, or was on its way, and was charged to the type that it counted as then.
    Here,
    /// The worker: it listed the run, and had already counted it as using the type of its GPUs.
    ByItsWorker,
}

/// The newest request. It is remembered after its credit has ended, so that a copy of it sets no credit.
#[derive(Clone, Debug, PartialEq)]
struct CreditRequest {
    seq: WorkRequestSeq,
    at: Time,
    types: Vec<OfType>,
    request_delay: Duration,
    /// The delay if the request is deferred.
    deferred_delay: Duration,
    linger: Duration,
    /// The number of tasks that may still be sent for the request.
    tasks_left: u32,
    workload: Option<DeadlineWorkload>,
    /// Whether the workload contains all work that delays the worker.
    explains_delay: bool,
    /// Whether the scheduler or the worker chooses the GPUs of tasks sent for the request.
    cards: CardChoice,
    stage: RequestStage,
}

/// The stage of a request.
///
/// ```text
///   Open --a pass ends--> Lingering --its time is over, or cleared--> Over
///    |                                                                 ^
///    +--a pass ends, and it is not to linger; too late; cleared--------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestStage {
    /// The request is valid, and no placement that considered it has ended.
    Open,
    /// The request has its verdicts, and is valid until this time.
    Lingering(Time),
    /// The request has no credit.
    Over,
}

/// The state of a request for one type of processors.
#[derive(Clone, Debug, PartialEq)]
struct OfType {
    processor: Processor,
    wanted: TypeDemand,
    amounts: Amounts,
    granted: u32,
    /// The verdict, as long as nothing was granted; `None`: not fixed yet.
    verdict: Option<WorkVerdict>,
    apps: Apps,
}

/// Whether a worker requested work for a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TypeDemand {
    Nothing,
    Something,
    /// The worker requested work, but the tasks on their way were enough.
    Coming,
}

impl Credits {
    /// Creates the credits of an instance. `supply` is what the worker announces.
    pub fn new(supply: Supply) -> Self {
        Credits {
            supply,
            ..Credits::default()
        }
    }

    /// Begins another association of the same instance. The newest request is kept, so that a copy of an earlier one sets no credit.
    pub fn begin_anew(&mut self) {
        let newest = self.newest.take();
        let keeps_away = self.keeps_away;
        *self = Credits::new(self.supply);
        (self.newest, self.keeps_away) = (newest, keeps_away);
        self.clear();
    }

    /// Handles a request of the worker, whose ids the caller has checked. [`Credits::reply`] gives the answer, except to a stale request.
    pub fn hear(
        &mut self,
        now: Time,
        (policy, turns): (&RequestPolicy, &mut Turns),
        readiness: Readiness,
        request: &WorkRequest,
    ) -> Heard {
        match &self.newest {
            Some(newest) if request.seq < newest.seq => return Heard::Stale,
            Some(newest)
                if request.seq == newest.seq && !sabotage::on(Sabotage::RefillOnReplay) =>
            {
                self.expire(now);
                return Heard::Repeated;
            }
            Some(_) | None => {}
        }
        let interval = policy.min_request_interval;
        let is_too_soon = self.looked_at.is_some_and(|at| now.since(at) < interval);
        let (heard, delay) = match readiness {
            Readiness::MayNot => {
                let delay = self.delay_of_unseen(now, policy, policy.deferred_delay);
                (Heard::NotReady, delay)
            }
            Readiness::MayWork if is_too_soon => {
                (Heard::TooSoon, policy.request_delay(Duration::ZERO))
            }
            Readiness::MayWork => match self.take_turn(now, (policy, turns), request) {
                RequestTurn::Now => (Heard::ToLookAt, Duration::ZERO),
                RequestTurn::Held(turn) | RequestTurn::Nobodys(turn) => {
                    let delay = self.delay_of_unseen(now, policy, turn.since(now));
                    (Heard::TooMany, delay)
                }
            },
        };
        let mut newest = CreditRequest::new(now, policy, request);
        if heard != Heard::ToLookAt {
            newest.defer(delay);
        }
        self.newest = Some(newest);
        self.revocable.clear();
        heard
    }

    /// Returns the delay for a request that is not accepted, at least `least`. The interval counts from the last accepted request, not from
    /// this one.
    fn delay_of_unseen(&self, now: Time, policy: &RequestPolicy, least: Duration) -> Duration {
        let rest = self.looked_at.map_or(Duration::ZERO, |at| {
            let whole = policy.request_delay(Duration::ZERO);
            whole.saturating_sub(now.since(at))
        });
        least.max(rest)
    }

    fn take_turn(
        &mut self,
        now: Time,
        (policy, turns): (&RequestPolicy, &mut Turns),
        request: &WorkRequest,
    ) -> RequestTurn {
        let per_second = policy.max_requests_per_second;
        let wanted = turns_for(request.known.as_ref().map_or(0, Vec::len));
        let held = self.turn.and_then(|(at, _)| RequestTurn::held(now, at));
        let turn = match (held, self.turn) {
            (Some(RequestTurn::Now), Some((_, paid))) => {
                turns.take_held(now, per_second, wanted, paid)
            }
            (Some(turn), _) => turn,
            (None, _) => turns.take(now, per_second, wanted),
        };
        self.turn = match (turn, held.and(self.turn)) {
            (RequestTurn::Held(at), Some((_, paid))) => Some((at, paid)),
            (RequestTurn::Held(at), None) => Some((at, wanted)),
            (RequestTurn::Now | RequestTurn::Nobodys(_), _) => None,
        };
        turn
    }

    /// Charges turns for the runs that the evaluation of a request visits, listed or not.
    pub fn charge_look(
        policy: &RequestPolicy,
        turns: &mut Turns,
        request: &WorkRequest,
        runs: usize,
    ) {
        let paid = turns_for(request.known.as_ref().map_or(0, Vec::len));
        let more = turns_for(runs).saturating_sub(paid);
        turns.charge(policy.max_requests_per_second, more);
    }

    /// Evaluates the request that was just received: charges the tasks that were sent and that the worker does not count yet. `running` are
    /// all runs that may be there. Returns the runs that the worker must have and does not list, each once. They are only reported to
    /// people.
    ///
    /// If verdicts are pending afterwards ([`Credits::is_pending`]), tasks must be placed, and [`Credits::end_pass`] fixes the verdicts.
    pub fn look_at<'a>(
        &mut self,
        now: Time,
        policy: &RequestPolicy,
        (request, known): (&WorkRequest, &KnownRuns),
        running: impl IntoIterator<Item = Sent<'a>>,
    ) -> Vec<InvocationId> {
        self.looked_at = Some(now);
        let mut missing = Vec::new();
        let before = std::mem::take(&mut self.listed);
        let took = std::mem::take(&mut self.took);
        let mut unlisted = Vec::new();
        let mut listed = Vec::new();
        let Some(newest) = self.newest.as_mut().filter(|_| known.is_told()) else {
            return missing;
        };
        newest.workload = match policy.deadlines {
            DeadlineRule::Simulated => DeadlineWorkload::of(now, request),
            DeadlineRule::Delayed => None,
        };
        for sent in running {
            let told = known.get(sent.invocation);
            // The instances of a run that has ended at the worker are idle there already, if no other task has taken them.
            let is_over = told.is_some_and(|told| told.remaining.is_some_and(|left| left <= 0.0));
            let is_over = is_over && !sabotage::on(Sabotage::GiveBackTwice);
            if let Some(took) = took.get(&sent.invocation).filter(|_| !is_over) {
                let counted = match told {
                    Some(_) => Counted::ByItsWorker,
                    None => Counted::Here,
                };
                let took = Took {
                    counted,
                    ..took.clone()
                };
                self.took.insert(sent.invocation, took);
            }
            let is_no_news = self.unlisted.binary_search(&sent.invocation).is_ok();
            if is_no_news {
                unlisted.push(sent.invocation);
            }
            if let Some(task_work) = &sent.task_work {
                newest.count(now, (sent.invocation, task_work), told);
                listed.extend(told.map(|_| ListedRun {
                    run: sent.invocation,
                    share: CpuShare::of(task_work),
                }));
            }
            if told.is_some() {
                self.listed.push(sent.invocation);
                continue;
            }
            if let Some(task_work) = &sent.task_work
                && !sabotage::on(Sabotage::ForgetWhatIsOnItsWay)
            {
                newest.charge(task_work);
                if newest.may_be_turned_down(task_work) {
                    let took = Revocable::new(task_work, Sending::Before);
                    self.revocable.insert(sent.invocation, took);
                }
            }
            // The worker had the run when it wrote an earlier list, or accepted it so long ago that this request is certainly newer. It
            // keeps each run until its completion is acknowledged, and an acknowledged run is not among these.
            let was_listed = before.binary_search(&sent.invocation).is_ok();
            let is_long_there = |at: Time| now.since(at) > MESSAGE_LIFE;
            if !is_no_news && (was_listed || sent.acknowledged.is_some_and(is_long_there)) {
                missing.push(sent.invocation);
            }
        }
        listed.sort_unstable();
        let workload = newest.workload.as_ref();
        newest.explains_delay = workload.is_some_and(|w| w.explains_delay(request, &listed));
        self.listed.sort_unstable();
        unlisted.extend(&missing);
        unlisted.sort_unstable();
        self.unlisted = unlisted;
        self.violations += missing.len() as u64;
        missing
    }

    /// Fixes the pending verdicts after a placement that considered the credit: no further task can start now.
    pub fn end_pass(&mut self, now: Time, mut found: impl FnMut(&Processor) -> PlacementResult) {
        self.expire(now);
        let Some(newest) = &mut self.newest else {
            return;
        };
        if newest.stage != RequestStage::Open {
            return;
        }
        for of_type in &mut newest.types {
            let found = found(&of_type.processor);
            of_type.apps = found.apps;
            of_type.verdict = Some(match of_type.wanted {
                _ if found.apps == Apps::None => WorkVerdict::NoApps,
                _ if found.candidates == 0 => WorkVerdict::NoWork,
                // The worker need not wait long, because the tasks on their way are those that it requested.
                TypeDemand::Coming => WorkVerdict::Deferred,
                TypeDemand::Nothing | TypeDemand::Something if found.late >= found.candidates => {
                    WorkVerdict::Deadline
                }
                TypeDemand::Nothing | TypeDemand::Something => WorkVerdict::Limited,
            });
        }
        let until = newest.at + newest.linger;
        newest.stage = match newest.linger.is_zero() || now > until {
            true => RequestStage::Over,
            false => RequestStage::Lingering(until),
        };
    }

    /// Ends the credit, because the worker may get no tasks any more or is asked to exit.
    pub fn clear(&mut self) {
        if let Some(newest) = &mut self.newest {
            newest.end();
        }
    }

    /// Ends a credit whose time is over. Only the answer depends on this; permitted tasks do not.
    pub fn expire(&mut self, now: Time) {
        if let Some(newest) = &mut self.newest
            && !newest.is_good(now)
        {
            newest.end();
        }
    }

    /// Returns when the credit ends by itself, or when a delay ends before that.
    fn next_change_of_credit(&self, now: Time) -> Option<Time> {
        let newest = self.newest.as_ref()?;
        let until = newest.good_until()?;
        let ends = newest
            .types
            .iter()
            .map(|of_type| of_type.amounts.delay_end());
        let ends = ends
            .filter(|end| !end.is_zero() && *end >= newest.age(now) && *end < newest.age(until));
        ends.map(|end| newest.at + end).min().or(Some(until))
    }

    /// Returns the same, or when refused tasks are tried again before that.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let keeps_away = self.keeps_away.map(|until| until.max(now));
        self.next_change_of_credit(now)
            .into_iter()
            .chain(keeps_away)
            .min()
    }

    /// Returns whether the worker is a pull worker: it has requested work, or announces that it will. Any other worker is sent tasks while
    /// it has free slots.
    pub fn are_used(&self) -> bool {
        self.newest.is_some() || self.supply == Supply::AsAsked
    }

    /// Returns the number of the newest request.
    pub fn newest_seq(&self) -> Option<WorkRequestSeq> {
        self.newest.as_ref().map(|newest| newest.seq)
    }

    /// Returns whether a request waits for the end of a placement.
    pub fn is_pending(&self) -> bool {
        let newest = self.newest.as_ref();
        newest.is_some_and(|newest| newest.stage == RequestStage::Open)
    }

    /// Returns the present answer to the newest request, if there was one.
    pub fn reply(&self) -> Option<WorkReply> {
        self.newest.as_ref().map(CreditRequest::reply)
    }

    /// Returns how many runs were missing in lists that must name them.
    pub fn violations(&self) -> u64 {
        self.violations
    }
}
