//! Operators' orders about workers, by shard: to keep tasks away from a worker, and to take it out of service without losing its data.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    InvocationId, Principal, RecordSeq, RequestId, Shard, Time, WallTime, WorkerId,
};
use brasserie_scheduler_artifacts::ArtifactAmount;
use serde::{Deserialize, Serialize};

/// The most orders: one for each shard of the largest pool.
pub const MAX_ORDERS: usize = 16_384;
/// The most bytes of an order's reason: several lines for people.
pub const MAX_REASON_BYTES: usize = 1000;
/// The time between two checks of the ordered workers: short for an operator who waits, and long beside the cost, which is one lookup for
/// each task of these workers.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// The time between two requests that a decommissioned worker exit. It has a heartbeat period to show that it drains.
const EXIT_RETRY: Duration = Duration::from_secs(15);
/// The time after a deadline in which the copies of a worker that is there become known, so that the loss can be told: after a restart of the
/// scheduler, workers list them within seconds.
const LISTING_WAIT: Duration = Duration::from_secs(60);

/// An order in force, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerOrder {
    pub stage: OrderStage,
    pub reason: Arc<str>,
    /// The caller who gave the order.
    pub by: Arc<str>,
    pub since: WallTime,
}

impl WorkerOrder {
    /// Returns the order with the reason and the deadline of an earlier decommission, where it has none of its own.
    pub(crate) fn continuing(mut self, earlier: &WorkerOrder) -> Self {
        if self.reason.is_empty() && self.stage.is_leaving() && earlier.stage.is_leaving() {
            self.reason = Arc::clone(&earlier.reason);
        }
        if let OrderStage::Decommissioning(terms) = &mut self.stage
            && let OrderStage::Decommissioning(earlier) = &earlier.stage
        {
            terms.deadline = terms.deadline.or(earlier.deadline);
        }
        self
    }
}

/// The stages of an order. `recommission` ends an order in any stage. A later decommission replaces each stage but the last, which it
/// changes only if it has a deadline. A worker that leaves is not excluded.
///
/// ```text
/// Excluded
/// Decommissioning --no task runs, no needed data is only there--> Decommissioned --(exit: Drain)--> the worker drains and exits
///    ^   |                                                           |    |
///    |   +-------------------- the deadline is over -----------------+----|--(exit: Kill)--> the worker kills its tasks and exits
///    +------- needed data is only there again, before the drain ----------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderStage {
    /// The worker gets neither tasks nor replicas. Everything else goes on.
    Excluded,
    /// The worker gets neither tasks nor replicas, and its copies do not count, so that its data is copied to others.
    Decommissioning(Decommission),
    /// The data of the worker is elsewhere or given up. Whichever instance has the shard gets nothing.
    Decommissioned(Decommission),
}

/// The terms of a decommission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decommission {
    /// When the worker is ended, whatever is left to do.
    pub deadline: Option<WallTime>,
    pub then: AfterDecommission,
    /// The instance that is to exit: it had the shard when the stage `Decommissioned` began. A later instance stays, because a service
    /// manager would start another one for ever.
    pub exit: Option<Exit>,
    /// The amount that was only at the worker when the deadline ended it; `None` if nothing, no artifacts if the amount is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostOutputs>,
}

/// Outputs that no other worker had when the deadline of a decommission ended their worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostOutputs {
    pub artifacts: u64,
    pub bytes: u64,
}

/// The fate of a worker whose decommission is done before the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AfterDecommission {
    Exit,
    Idle,
}

/// The end of a decommissioned instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub worker: WorkerId,
    pub way: ExitWay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExitWay {
    /// The worker drains: it has no task left.
    Drain,
    /// The deadline is over: the worker kills its tasks.
    Kill,
}

/// An order as an operator gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderRequest {
    Exclude {
        reason: Arc<str>,
    },
    Decommission {
        reason: Arc<str>,
        /// The time from now to the deadline.
        deadline: Option<Duration>,
        then: AfterDecommission,
    },
    Recommission,
}

/// A caller's order about a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderCall {
    pub request: RequestId,
    pub from: Principal,
    /// The name of the caller's user, as the caller says; for people.
    pub user: Option<Arc<str>>,
    pub shard: Shard,
    pub order: OrderRequest,
}

impl OrderRequest {
    pub(crate) fn reason(&self) -> &str {
        match self {
            OrderRequest::Exclude { reason } | OrderRequest::Decommission { reason, .. } => reason,
            OrderRequest::Recommission => "",
        }
    }

    /// Returns whether the present order has done already what the request asks for: a worker that is decommissioned stays so.
    pub(crate) fn is_done_by(&self, present: &WorkerOrder) -> bool {
        match (self, &present.stage) {
            // A deadline is for the instance that has the shard now.
            (
                OrderRequest::Decommission {
                    deadline: None,
                    then,
                    ..
                },
                OrderStage::Decommissioned(terms),
            ) => terms.then == AfterDecommission::Exit || *then == AfterDecommission::Idle,
            (
                OrderRequest::Exclude { .. }
                | OrderRequest::Decommission { .. }
                | OrderRequest::Recommission,
                _,
            ) => false,
        }
    }

    /// Returns the order that the request gives at this time. `None`: there is to be none.
    pub(crate) fn order(self, wall: WallTime, by: Arc<str>) -> Option<WorkerOrder> {
        let (stage, reason) = match self {
            OrderRequest::Exclude { reason } => (OrderStage::Excluded, reason),
            OrderRequest::Decommission {
                reason,
                deadline,
                then,
            } => {
                let terms = Decommission {
                    deadline: deadline.map(|left| wall + left),
                    then,
                    exit: None,
                    lost: None,
                };
                (OrderStage::Decommissioning(terms), reason)
            }
            OrderRequest::Recommission => return None,
        };
        Some(WorkerOrder {
            stage,
            reason,
            by,
            since: wall,
        })
    }
}

impl OrderStage {
    /// Returns whether the copies of the worker do not count as replicas.
    pub(crate) fn is_leaving(&self) -> bool {
        match self {
            OrderStage::Excluded => false,
            OrderStage::Decommissioning(_) | OrderStage::Decommissioned(_) => true,
        }
    }
}

/// The work that is left at a worker before it may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkLeft {
    pub running: usize,
    /// The needed artifacts of which no worker that stays has a copy.
    pub only_here: ArtifactAmount,
    /// The tasks or the copies of the worker, or the copies of others, are not known yet.
    pub unknown: bool,
}

impl WorkLeft {
    pub(crate) fn is_done(self) -> bool {
        let has_data =
            self.only_here.artifacts > 0 && !sabotage::on(Sabotage::LeaveWithTheOnlyCopy);
        !self.unknown && self.running == 0 && !has_data
    }
}

/// An order and its progress, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    pub shard: Shard,
    pub order: WorkerOrder,
    /// Whether a worker that is not lost has the shard.
    pub connected: bool,
    pub left: WorkLeft,
    /// Why nobody copies some of the artifacts that are only there, as a clause; `None` if there are none, or if they are being copied.
    pub copies_wait_for: Option<String>,
    /// The worker is decommissioned and has not exited yet.
    pub exits: bool,
}

/// The next step of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrderStep {
    /// The order gets this stage, to be recorded.
    Enter(OrderStage),
    /// The worker is to exit.
    End(ExitWay),
    Wait,
}

/// The facts about the worker of an ordered shard that decide the next step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderFacts {
    /// The instance that has the shard and is not lost.
    pub worker: Option<WorkerId>,
    /// Whether there is no such instance, but one of an earlier scheduler may still come back.
    pub may_return: bool,
    /// Whether that instance drains already.
    pub drains: bool,
    pub left: WorkLeft,
    pub wall: WallTime,
}

#[derive(Clone, Debug)]
struct OrderInForce {
    order: WorkerOrder,
    /// The record of the present stage.
    recorded: RecordSeq,
    /// When the worker was last asked to exit.
    asked_to_exit: Option<Time>,
    /// The runs whose return the worker was asked for.
    asked_back: BTreeSet<InvocationId>,
}

/// All orders in force.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    by_shard: BTreeMap<Shard, OrderInForce>,
    check_at: Time,
}

impl Orders {
    /// Restores the stored orders.
    pub(crate) fn new(stored: BTreeMap<Shard, WorkerOrder>) -> Self {
        let stored = stored.into_iter();
        Orders {
            by_shard: stored
                .map(|(shard, order)| (shard, OrderInForce::new(order, RecordSeq::default())))
                .collect(),
            check_at: Time::ZERO,
        }
    }

    pub(crate) fn get(&self, shard: &Shard) -> Option<&WorkerOrder> {
        Some(&self.by_shard.get(shard)?.order)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Shard, &WorkerOrder)> {
        let all = self.by_shard.iter();
        all.map(|(shard, one)| (shard, &one.order))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.by_shard.len() >= MAX_ORDERS
    }

    /// Puts an order in force, or ends the present one. `recorded` is its record.
    pub(crate) fn set(&mut self, shard: &Shard, order: Option<WorkerOrder>, recorded: RecordSeq) {
        self.check_soon();
        match order {
            Some(order) => {
                let new = OrderInForce::new(order, recorded);
                self.by_shard.insert(shard.clone(), new);
            }
            None => drop(self.by_shard.remove(shard)),
        }
    }

    /// Has the next turn check all ordered workers.
    pub(crate) fn check_soon(&mut self) {
        self.check_at = Time::ZERO;
    }

    pub(crate) fn next_check(&self) -> Option<Time> {
        (!self.by_shard.is_empty()).then_some(self.check_at)
    }

    /// Returns the ordered shards if their check is due.
    pub(crate) fn begin_check(&mut self, now: Time) -> Vec<Shard> {
        if self.by_shard.is_empty() || now < self.check_at {
            return Vec::new();
        }
        self.check_at = now + CHECK_PERIOD;
        self.by_shard.keys().cloned().collect()
    }

    /// Returns runs of an ordered worker that it was not asked for yet, and notes that it is asked now.
    pub(crate) fn ask_back<T: Copy>(
        &mut self,
        shard: &Shard,
        runs: &[(T, InvocationId)],
        most: usize,
    ) -> Vec<(T, InvocationId)> {
        let Some(one) = self.by_shard.get_mut(shard) else {
            return Vec::new();
        };
        let running: BTreeSet<InvocationId> = runs.iter().map(|(_, run)| *run).collect();
        one.asked_back.retain(|run| running.contains(run));
        let new = runs.iter().filter(|(_, run)| one.asked_back.insert(*run));
        new.take(most).copied().collect()
    }

    /// Notes that the worker has not been asked to exit, or has refused.
    pub(crate) fn not_asked_to_exit(&mut self, shard: &Shard) {
        if let Some(one) = self.by_shard.get_mut(shard) {
            one.asked_to_exit = None;
        }
    }

    /// Notes that it is not known whether the worker has been asked for a run: it is asked again.
    pub(crate) fn not_asked_back(&mut self, shard: &Shard, run: InvocationId) {
        if let Some(one) = self.by_shard.get_mut(shard) {
            one.asked_back.remove(&run);
        }
    }

    /// Returns the next step of an order. `persisted` is the last durable record: nobody exits before the reason for it is on disk.
    pub(crate) fn step(
        &mut self,
        now: Time,
        shard: &Shard,
        facts: OrderFacts,
        persisted: RecordSeq,
    ) -> OrderStep {
        let Some(one) = self.by_shard.get_mut(shard) else {
            return OrderStep::Wait;
        };
        match &one.order.stage {
            OrderStage::Excluded => OrderStep::Wait,
            OrderStage::Decommissioning(terms) => terms.step(facts),
            OrderStage::Decommissioned(terms) => {
                let exit = terms.exit.filter(|exit| facts.worker == Some(exit.worker));
                let Some(Exit { way, .. }) = exit.filter(|_| one.recorded <= persisted) else {
                    return OrderStep::Wait;
                };
                let waits = one.asked_to_exit.is_some_and(|at| now < at + EXIT_RETRY);
                match way {
                    ExitWay::Drain if terms.ends(facts) => OrderStep::Enter(
                        OrderStage::Decommissioned(terms.with_exit(Some(ExitWay::Kill), facts)),
                    ),
                    ExitWay::Drain if facts.drains || facts.left.unknown => OrderStep::Wait,
                    ExitWay::Drain | ExitWay::Kill if waits => OrderStep::Wait,
                    // A copy elsewhere is gone since.
                    ExitWay::Drain if !facts.left.is_done() => {
                        OrderStep::Enter(OrderStage::Decommissioning(Decommission {
                            exit: None,
                            ..terms.clone()
                        }))
                    }
                    ExitWay::Drain | ExitWay::Kill => {
                        one.asked_to_exit = Some(now);
                        OrderStep::End(way)
                    }
                }
            }
        }
    }

    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, wall: WallTime) {
        s.each(&self.by_shard, |s, (shard, one)| {
            let OrderInForce {
                order,
                recorded: _,
                asked_to_exit,
                asked_back,
            } = one;
            s.put(shard);
            s.opt(*asked_to_exit, Shape::time);
            s.each(asked_back, |s, run| s.invocation(*run));
            let (stage, terms) = match &order.stage {
                OrderStage::Excluded => (0_u8, None),
                OrderStage::Decommissioning(terms) => (1, Some(terms)),
                OrderStage::Decommissioned(terms) => (2, Some(terms)),
            };
            s.put(stage);
            s.opt(terms, |s, terms| {
                s.put((terms.deadline.map(|at| wall.until(at)), terms.then));
                s.opt(terms.exit, |s, exit| {
                    s.worker(exit.worker);
                    s.put(exit.way);
                });
            });
        });
    }
}

impl OrderInForce {
    fn new(order: WorkerOrder, recorded: RecordSeq) -> Self {
        OrderInForce {
            order,
            recorded,
            asked_to_exit: None,
            asked_back: BTreeSet::new(),
        }
    }
}

impl Decommission {
    /// Returns whether the deadline ends the worker now.
    fn ends(&self, facts: OrderFacts) -> bool {
        let wait = match facts.worker.is_some() && facts.left.unknown {
            true => LISTING_WAIT,
            false => Duration::ZERO,
        };
        self.deadline
            .is_some_and(|deadline| deadline + wait <= facts.wall)
    }

    fn with_exit(&self, way: Option<ExitWay>, facts: OrderFacts) -> Self {
        let exit = way.zip(facts.worker);
        let is_unknown = facts.left.unknown || facts.worker.is_none();
        let left = match is_unknown {
            true => ArtifactAmount::default(),
            false => facts.left.only_here,
        };
        let is_killed = way == Some(ExitWay::Kill) && (is_unknown || left.artifacts > 0);
        Decommission {
            exit: exit.map(|(way, worker)| Exit { worker, way }),
            lost: is_killed.then_some(LostOutputs {
                artifacts: left.artifacts,
                bytes: left.bytes,
            }),
            ..self.clone()
        }
    }

    fn step(&self, facts: OrderFacts) -> OrderStep {
        let is_done = facts.worker.is_some() && facts.left.is_done();
        let way = match (is_done, self.then) {
            (true, AfterDecommission::Exit) => Some(ExitWay::Drain),
            (true, AfterDecommission::Idle) => None,
            (false, _) if self.ends(facts) && !facts.may_return => Some(ExitWay::Kill),
            (false, _) => return OrderStep::Wait,
        };
        OrderStep::Enter(OrderStage::Decommissioned(self.with_exit(way, facts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: RecordSeq = RecordSeq(7);

    fn shard() -> Shard {
        Shard::try_from("w").expect("a name")
    }

    fn facts(running: usize, artifacts: u64) -> OrderFacts {
        OrderFacts {
            worker: Some(WorkerId::new(1, 2)),
            may_return: false,
            drains: false,
            left: WorkLeft {
                running,
                only_here: ArtifactAmount {
                    artifacts,
                    bytes: artifacts,
                },
                unknown: false,
            },
            wall: WallTime::from_secs(100),
        }
    }

    fn ordered(deadline: Option<u64>, then: AfterDecommission) -> Orders {
        let request = OrderRequest::Decommission {
            reason: "disk".into(),
            deadline: deadline.map(Duration::from_secs),
            then,
        };
        let mut orders = Orders::new(BTreeMap::new());
        let order = request.order(WallTime::from_secs(100), "me".into());
        orders.set(&shard(), order, RECORD);
        orders
    }

    /// Takes the step and enters the stage that it demands. Returns the step.
    fn step(orders: &mut Orders, now: u64, facts: OrderFacts, persisted: RecordSeq) -> OrderStep {
        let now = Time::ZERO + Duration::from_secs(now);
        let step = orders.step(now, &shard(), facts, persisted);
        if let OrderStep::Enter(stage) = &step {
            let order = orders.get(&shard()).expect("an order").clone();
            let stage = stage.clone();
            orders.set(&shard(), Some(WorkerOrder { stage, ..order }), RECORD);
        }
        step
    }

    fn exit_of(step: &OrderStep) -> Option<ExitWay> {
        match step {
            OrderStep::Enter(OrderStage::Decommissioned(terms)) => {
                Some(terms.exit.expect("an exit").way)
            }
            OrderStep::Enter(_) | OrderStep::End(_) | OrderStep::Wait => None,
        }
    }

    #[test]
    fn a_worker_exits_when_nothing_is_left_and_that_is_on_disk() {
        let mut orders = ordered(None, AfterDecommission::Exit);
        let unknown = OrderFacts {
            left: WorkLeft {
                unknown: true,
                ..WorkLeft::default()
            },
            ..facts(0, 0)
        };
        let absent = OrderFacts {
            worker: None,
            ..facts(0, 0)
        };
        for not_yet in [facts(1, 0), facts(0, 1), unknown, absent] {
            assert_eq!(step(&mut orders, 0, not_yet, RECORD), OrderStep::Wait);
        }
        let done = step(&mut orders, 1, facts(0, 0), RECORD);
        assert_eq!(exit_of(&done), Some(ExitWay::Drain));
        let before = RecordSeq(RECORD.0 - 1);
        assert_eq!(step(&mut orders, 1, facts(0, 0), before), OrderStep::Wait);
        let end = OrderStep::End(ExitWay::Drain);
        assert_eq!(step(&mut orders, 2, facts(0, 0), RECORD), end);
        assert_eq!(step(&mut orders, 3, facts(0, 0), RECORD), OrderStep::Wait);
        // The request may be lost.
        assert_eq!(step(&mut orders, 17, facts(0, 0), RECORD), end);
        let drains = OrderFacts {
            drains: true,
            ..facts(0, 0)
        };
        assert_eq!(step(&mut orders, 99, drains, RECORD), OrderStep::Wait);
        let successor = OrderFacts {
            worker: Some(WorkerId::new(9, 9)),
            ..facts(0, 0)
        };
        assert_eq!(step(&mut orders, 99, successor, RECORD), OrderStep::Wait);
    }

    #[test]
    fn a_deadline_waits_a_while_for_the_list_of_what_it_loses() {
        let unknown = |wall: i64| OrderFacts {
            left: WorkLeft {
                unknown: true,
                ..WorkLeft::default()
            },
            wall: WallTime::from_secs(wall),
            ..facts(0, 0)
        };
        let lost = |orders: &Orders| match &orders.get(&shard()).expect("an order").stage {
            OrderStage::Decommissioned(terms) => terms.lost.map(|lost| lost.artifacts),
            stage => panic!("{stage:?}"),
        };
        let mut orders = ordered(Some(5), AfterDecommission::Exit);
        let late = OrderFacts {
            wall: WallTime::from_secs(164),
            ..facts(0, 6)
        };
        assert_eq!(step(&mut orders, 0, unknown(164), RECORD), OrderStep::Wait);
        let known = step(&mut orders, 1, late, RECORD);
        assert_eq!(
            (exit_of(&known), lost(&orders)),
            (Some(ExitWay::Kill), Some(6))
        );
        let mut orders = ordered(Some(5), AfterDecommission::Exit);
        let ended = step(&mut orders, 2, unknown(165), RECORD);
        assert_eq!(
            (exit_of(&ended), lost(&orders)),
            (Some(ExitWay::Kill), Some(0))
        );
        // The copies of a worker that is away are lost with it.
        let mut orders = ordered(Some(5), AfterDecommission::Exit);
        let away = OrderFacts {
            worker: None,
            ..late
        };
        step(&mut orders, 3, away, RECORD);
        assert_eq!(lost(&orders), Some(0));
    }

    #[test]
    fn data_that_is_only_there_again_delays_the_exit() {
        let mut orders = ordered(None, AfterDecommission::Exit);
        step(&mut orders, 1, facts(0, 0), RECORD);
        let again = step(&mut orders, 2, facts(0, 1), RECORD);
        assert!(matches!(
            again,
            OrderStep::Enter(OrderStage::Decommissioning(_))
        ));
        let done = step(&mut orders, 3, facts(0, 0), RECORD);
        assert_eq!(exit_of(&done), Some(ExitWay::Drain));
    }

    #[test]
    fn a_deadline_ends_the_worker_and_nothing_does_before() {
        let mut orders = ordered(Some(50), AfterDecommission::Idle);
        let at = |secs| OrderFacts {
            wall: WallTime::from_secs(secs),
            ..facts(3, 2)
        };
        assert_eq!(step(&mut orders, 0, at(149), RECORD), OrderStep::Wait);
        // The worker may still be back, as it was recorded by an earlier scheduler.
        let away = OrderFacts {
            worker: None,
            may_return: true,
            ..at(150)
        };
        assert_eq!(step(&mut orders, 0, away, RECORD), OrderStep::Wait);
        let over = step(&mut orders, 0, at(150), RECORD);
        assert_eq!(exit_of(&over), Some(ExitWay::Kill));
        let end = OrderStep::End(ExitWay::Kill);
        assert_eq!(step(&mut orders, 1, at(151), RECORD), end);
    }

    #[test]
    fn a_worker_may_stay_idle() {
        let mut orders = ordered(None, AfterDecommission::Idle);
        let done = step(&mut orders, 0, facts(0, 0), RECORD);
        assert!(matches!(
            done,
            OrderStep::Enter(OrderStage::Decommissioned(Decommission { exit: None, .. }))
        ));
        assert_eq!(step(&mut orders, 1, facts(0, 0), RECORD), OrderStep::Wait);
    }

    #[test]
    fn each_run_is_asked_back_once_unless_the_request_may_be_lost() {
        let mut orders = ordered(None, AfterDecommission::Exit);
        let run = |rand| (rand, InvocationId::new(1, rand));
        let runs = [run(1), run(2)];
        assert_eq!(orders.ask_back(&shard(), &runs, 1), [run(1)]);
        assert_eq!(orders.ask_back(&shard(), &runs, 9), [run(2)]);
        assert_eq!(orders.ask_back(&shard(), &runs, 9), []);
        orders.not_asked_back(&shard(), run(2).1);
        assert_eq!(orders.ask_back(&shard(), &runs, 9), [run(2)]);
    }
}
