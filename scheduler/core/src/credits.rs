//! How much work a worker wants, and how that is spent by ordinary `runTask` calls: its *credit*.
//!
//! A request sets the credit, and takes the place of the one before; each task that is sent spends some. Nothing gives any back but the
//! end of a run, which leaves instances idle, if the worker wants that, and the certain refusal of one for want of cards, which has taken
//! nothing. So
//! whatever is lost, doubled or late of requests and answers, no more is sent than the newest request that was heard asked for, and one
//! task. All of it is volatile: it ends with the association, and when the worker may get no tasks.
//!
//! Invariants:
//!
//! * C1: between two requests that are taken, each amount of a credit only falls, but by two things that happen to runs, to each run once
//!   at most. By the end of one idle instances alone rise, by what it took, and to no more than there are. By the refusal of one that
//!   certainly never began, as its worker chooses cards and had none for it, all amounts rise by what this very run took off them, and to
//!   no more than was asked for; idle ones to no more than there are.
//! * C2: before a task is sent there was credit for its class: of a bufferable one seconds or instances above 0, of another idle
//!   instances. So requests for seconds are exceeded by less than one task.
//! * C3: no credit outlives [`Credits::clear`], nor an association ([`Credits::begin_anew`]), nor an instance, as each has `Credits` of its own.
//! * C4: a request that was heard already, or is older than one that was, changes nothing.
//! * C5: what runs is read here, and never changed.
//! * C6: whose worker never asked, nor says that it will, has no credit to be held to.
//! * C7: no verdict says GRANTED but of tasks that were sent for this very request.

mod amounts;
mod answer;
mod known;
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

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::work::MAX_KNOWN_TASKS;
use brasserie_common::worker::Supply;
use brasserie_common::{
    CardChoice, InvocationId, Processor, Time, WorkReply, WorkRequest, WorkRequestSeq, WorkVerdict,
};

pub use amounts::{Class, Piece};
pub use known::Known;
pub use policy::{DeadlineRule, Policy};
pub use turns::Turns;
pub use view::{Asked, AskedOfType, NotSent};

use amounts::Amounts;
use turned_down::{Revocable, Sending};
use turns::{Turn, turns_for};
pub use workload::Relief;
use workload::{CpuShare, ListedRun, Room, Workload};

/// What a worker waits at least that is put off.
pub const DEFERRED_DELAY: Duration = Duration::from_secs(1);
/// How long a request waits for a pass to look at it; then its worker has given it up: two heartbeat periods, by default.
const MAX_OPEN: Duration = Duration::from_secs(30);
/// No message is taken to live longer.
const MESSAGE_LIFE: Duration = Duration::from_secs(600);

/// Whether a worker may get tasks at all: HEALTHY, not draining, nothing held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    MayWork,
    MayNot,
}

/// A run that the scheduler takes to be at a worker, whether or not that is sure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent<'a> {
    pub invocation: InvocationId,
    /// Its bound is what is left of the deadline. `None`: not [`Known::is_weighed`].
    pub piece: Option<Piece<'a>>,
    /// No later than when the worker said that it has it.
    pub acknowledged: Option<Time>,
}

/// What becomes of a request before anybody has looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// [`Credits::look_at`] follows.
    ToLookAt,
    /// There was a newer one.
    Stale,
    /// It was heard already.
    Repeated,
    /// Its worker may get nothing.
    NotReady,
    /// Its worker asks too often.
    TooSoon,
    /// All workers together do.
    TooMany,
}

/// What a pass found of one type of processors, for one worker that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Tasks that are ready, whether or not there is room for them.
    pub candidates: u64,
    /// Of these, those that would not make their deadlines at this worker.
    pub late: u64,
    pub apps: Apps,
}

/// Whether any job of the configuration uses a type of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Apps {
    Some,
    None,
}

/// What is known of the requests of one association.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credits {
    supply: Supply,
    newest: Option<Request>,
    /// When one was looked at last.
    looked_at: Option<Time>,
    /// When the next one will be, if it comes in time, as it came when all turns were taken; and how many turns it was given.
    turn: Option<(Time, u32)>,
    /// What each run took that is under way, of those that were sent for requests whose idle instances come back.
    took: BTreeMap<InvocationId, Took>,
    /// What tasks took off the newest request that its worker may turn down for want of cards.
    revocable: BTreeMap<InvocationId, Revocable>,
    /// Until then such tasks stay away that it turned down, if nothing happens there before.
    keeps_away: Option<Time>,
    /// Runs that it listed last, of those that it has, in order.
    listed: Vec<InvocationId>,
    /// Runs that it has, and did not list once although it must, in order.
    unlisted: Vec<InvocationId>,
    violations: u64,
}

/// Instances that a run keeps from being idle.
#[derive(Clone, Debug, PartialEq)]
struct Took {
    /// What it was charged as.
    processor: Processor,
    usage: f64,
    counted: Counted,
}

/// By whom a run is taken off the idle instances of the newest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counted {
    /// It was sent since, or was on its way: it was charged as what it counted as then.
    Here,
    /// Its worker listed it, and had taken it off already, as cards of the model that it has.
    ByItsWorker,
}

/// The newest request. It is remembered when its credit is over, so that a copy of it sets none.
#[derive(Clone, Debug, PartialEq)]
struct Request {
    seq: WorkRequestSeq,
    at: Time,
    types: Vec<OfType>,
    request_delay: Duration,
    /// The same if it is put off.
    deferred_delay: Duration,
    linger: Duration,
    /// How many tasks may still be sent for it.
    tasks_left: u32,
    workload: Option<Workload>,
    /// The workload has all that the worker has to do in time.
    explains_delay: bool,
    /// Who chooses the cards of what is sent for it.
    cards: CardChoice,
    stage: Stage,
}

/// ```text
///   Open --a pass ends--> Lingering --its time is over, or cleared--> Over
///    |                                                                 ^
///    +--a pass ends, and it is not to linger; too late; cleared--------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is good, and no pass that saw it has ended.
    Open,
    /// It has its verdicts, and is good until then.
    Lingering(Time),
    /// There is no credit.
    Over,
}

/// What a request has of one type of processors.
#[derive(Clone, Debug, PartialEq)]
struct OfType {
    processor: Processor,
    wanted: Wanted,
    amounts: Amounts,
    granted: u32,
    /// What it heard, as long as nothing was granted; `None`: nothing yet.
    verdict: Option<WorkVerdict>,
    apps: Apps,
}

/// What a worker wanted for a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Nothing,
    Something,
    /// It wanted something, but what was on its way was enough.
    Coming,
}

impl Credits {
    /// `supply`: what its worker says.
    pub fn new(supply: Supply) -> Self {
        Credits {
            supply,
            ..Credits::default()
        }
    }

    /// Another association of the same instance. Its requests go on counting, so that a copy of an earlier one sets no credit.
    pub fn begin_anew(&mut self) {
        let newest = self.newest.take();
        let keeps_away = self.keeps_away;
        *self = Credits::new(self.supply);
        (self.newest, self.keeps_away) = (newest, keeps_away);
        self.clear();
    }

    /// A request of the worker; whoever calls has compared the ids. What is told follows from [`Credits::reply`], but for a stale one.
    pub fn hear(
        &mut self,
        now: Time,
        (policy, turns): (&Policy, &mut Turns),
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
                Turn::Now => (Heard::ToLookAt, Duration::ZERO),
                Turn::Held(turn) | Turn::Nobodys(turn) => {
                    let delay = self.delay_of_unseen(now, policy, turn.since(now));
                    (Heard::TooMany, delay)
                }
            },
        };
        let mut newest = Request::new(now, policy, request);
        if heard != Heard::ToLookAt {
            newest.defer(delay);
        }
        self.newest = Some(newest);
        self.revocable.clear();
        heard
    }

    /// Of a request at which nobody looks, and which is answered with so long a delay at least: nothing passes from now on but from the
    /// last look.
    fn delay_of_unseen(&self, now: Time, policy: &Policy, least: Duration) -> Duration {
        let rest = self.looked_at.map_or(Duration::ZERO, |at| {
            let whole = policy.request_delay(Duration::ZERO);
            whole.saturating_sub(now.since(at))
        });
        least.max(rest)
    }

    fn take_turn(
        &mut self,
        now: Time,
        (policy, turns): (&Policy, &mut Turns),
        request: &WorkRequest,
    ) -> Turn {
        let per_second = policy.max_requests_per_second;
        let wanted = turns_for(request.known.as_ref().map_or(0, Vec::len));
        let held = self.turn.and_then(|(at, _)| Turn::held(now, at));
        let turn = match (held, self.turn) {
            (Some(Turn::Now), Some((_, paid))) => turns.take_held(now, per_second, wanted, paid),
            (Some(turn), _) => turn,
            (None, _) => turns.take(now, per_second, wanted),
        };
        self.turn = match (turn, held.and(self.turn)) {
            (Turn::Held(at), Some((_, paid))) => Some((at, paid)),
            (Turn::Held(at), None) => Some((at, wanted)),
            (Turn::Now | Turn::Nobodys(_), _) => None,
        };
        turn
    }

    /// The look at a request went through so many runs, whether or not it lists them.
    pub fn charge_look(policy: &Policy, turns: &mut Turns, request: &WorkRequest, runs: usize) {
        let paid = turns_for(request.known.as_ref().map_or(0, Vec::len));
        let more = turns_for(runs).saturating_sub(paid);
        turns.charge(policy.max_requests_per_second, more);
    }

    /// The request that was just heard is looked at: what was sent and is not counted by the worker yet is charged. `running`: all that
    /// may run there. Gives the runs that the worker must have, and does not list, each once: for people to hear of, and for nobody to act on.
    ///
    /// If verdicts are still to come ([`Credits::is_pending`]), tasks are to be placed, and [`Credits::end_pass`] gives them.
    pub fn look_at<'a>(
        &mut self,
        now: Time,
        policy: &Policy,
        (request, known): (&WorkRequest, &Known),
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
            DeadlineRule::Simulated => Workload::of(now, request),
            DeadlineRule::Delayed => None,
        };
        for sent in running {
            let told = known.get(sent.invocation);
            // What has ended at the worker is idle there already, if nobody else has taken it.
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
            if let Some(piece) = &sent.piece {
                newest.count(now, (sent.invocation, piece), told);
                listed.extend(told.map(|_| ListedRun {
                    run: sent.invocation,
                    share: CpuShare::of(piece),
                }));
            }
            if told.is_some() {
                self.listed.push(sent.invocation);
                continue;
            }
            if let Some(piece) = &sent.piece
                && !sabotage::on(Sabotage::ForgetWhatIsOnItsWay)
            {
                newest.charge(piece);
                if newest.may_be_turned_down(piece) {
                    let took = Revocable::new(piece, Sending::Before);
                    self.revocable.insert(sent.invocation, took);
                }
            }
            // It had it when it wrote an earlier list, or it took it so long ago that this request was not written then. It keeps each
            // until its end is acknowledged, and an acknowledged end does not run here.
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

    /// A placement that saw the credit has come to its end: nothing more can start now. Gives the verdicts that are still to come.
    pub fn end_pass(&mut self, now: Time, mut found: impl FnMut(&Processor) -> Found) {
        self.expire(now);
        let Some(newest) = &mut self.newest else {
            return;
        };
        if newest.stage != Stage::Open {
            return;
        }
        for of_type in &mut newest.types {
            let found = found(&of_type.processor);
            of_type.apps = found.apps;
            of_type.verdict = Some(match of_type.wanted {
                _ if found.apps == Apps::None => WorkVerdict::NoApps,
                _ if found.candidates == 0 => WorkVerdict::NoWork,
                // No reason to wait long: what is coming is what it asked for.
                Wanted::Coming => WorkVerdict::Deferred,
                Wanted::Nothing | Wanted::Something if found.late >= found.candidates => {
                    WorkVerdict::Deadline
                }
                Wanted::Nothing | Wanted::Something => WorkVerdict::Limited,
            });
        }
        let until = newest.at + newest.linger;
        newest.stage = match newest.linger.is_zero() || now > until {
            true => Stage::Over,
            false => Stage::Lingering(until),
        };
    }

    /// The worker may get no tasks any more, for whatever reason, or is told to come to its end.
    pub fn clear(&mut self) {
        if let Some(newest) = &mut self.newest {
            newest.end();
        }
    }

    /// Ends a credit whose time is over. What tasks may be sent for does not depend on this; what is told does.
    pub fn expire(&mut self, now: Time) {
        if let Some(newest) = &mut self.newest
            && !newest.is_good(now)
        {
            newest.end();
        }
    }

    /// When its credit ends by itself, or before that no task has to wait any more for those with near deadlines.
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

    /// The same, or before that it is asked again for what it turned down.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let keeps_away = self.keeps_away.map(|until| until.max(now));
        self.next_change_of_credit(now)
            .into_iter()
            .chain(keeps_away)
            .min()
    }

    /// It has asked, or says that it will, so it gets what it asks for. Whoever does neither is sent whatever there is room for.
    pub fn are_used(&self) -> bool {
        self.newest.is_some() || self.supply == Supply::AsAsked
    }

    /// Which request is the newest.
    pub fn newest(&self) -> Option<WorkRequestSeq> {
        self.newest.as_ref().map(|newest| newest.seq)
    }

    /// A request waits for the end of a pass.
    pub fn is_pending(&self) -> bool {
        let newest = self.newest.as_ref();
        newest.is_some_and(|newest| newest.stage == Stage::Open)
    }

    /// What the newest request is told by now, if there was one.
    pub fn reply(&self) -> Option<WorkReply> {
        self.newest.as_ref().map(Request::reply)
    }

    /// How many runs were missing in lists that must name them.
    pub fn violations(&self) -> u64 {
        self.violations
    }
}
