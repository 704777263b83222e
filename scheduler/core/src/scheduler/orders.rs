//! `brasserie worker exclude`, `decommission` and `recommission`: accepts operators' orders about workers, and carries them out.

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::text::{printable, readable_bytes};
use brasserie_common::worker::Intake;
use brasserie_common::{
    CallOutcome, Health, MachinePortLock, Principal, RecordSeq, Shard, Time, WorkerId,
};

use super::effect::Reply;
use super::replies::HeldReply;
use super::{Scheduler, View};
use crate::calls::{CallDraft, CallPurpose, CallReply};
use crate::news::{DecommissionNews, News};
use crate::orders::{
    AfterDecommission, ExitWay, MAX_REASON_BYTES, OrderCall, OrderFacts, OrderRequest, OrderStage,
    OrderStatus, OrderStep, WorkLeft, WorkerOrder,
};
use crate::pool::remote::Remote;
use crate::record::Record;
use crate::refusal::OrderRefusal;
use crate::slots::CopyProspect;

/// The most worker names in one refusal.
const MAX_NAMED: usize = 20;
/// The most returns of tasks that one check of a worker requests. The next check continues.
const MAX_ASKED_BACK: usize = 256;
/// The most artifacts without enough copies that the explanation of an order considers: a fraction of a millisecond.
const MAX_SEARCHED: usize = 1000;
/// The most orders in one answer, as many as workers.
const MAX_LISTED_ORDERS: usize = 10_000;

impl Scheduler {
    /// Handles an operator's order. The answer waits for its record.
    pub(super) fn order_worker(
        &mut self,
        now: Time,
        OrderCall {
            request,
            from,
            user,
            shard,
            order,
        }: OrderCall,
    ) {
        let (after, outcome) = match self.view().check_order(&shard, &order) {
            Ok(()) => {
                let recorded = self.accept_order(now, (&from, user.as_deref()), &shard, order);
                (Some(recorded), Ok(self.view().order_status(now, &shard)))
            }
            Err(refusal) => (None, Err(refusal)),
        };
        let reply = Reply::WorkerOrdered(outcome.map(|status| status.map(Box::new)));
        self.outbox
            .reply_after(now, (request, after), reply, HeldReply::Order);
    }

    fn accept_order(
        &mut self,
        now: Time,
        (from, user): (&Principal, Option<&str>),
        shard: &Shard,
        order: OrderRequest,
    ) -> RecordSeq {
        let what = sentence(shard, &order);
        let present = self.orders.get(shard);
        if present.is_some_and(|present| order.is_done_by(present)) {
            return self.outbox.last_record();
        }
        let order = order.order(self.wall, caller(from, user).into());
        let order = match (order, present) {
            (None, None) => return self.outbox.last_record(),
            (Some(order), Some(present)) => Some(order.continuing(present)),
            (order, _) => order,
        };
        let by = from.clone();
        self.notices.news(News::Asked { by, what });
        let recorded = self.record_order(shard, order);
        self.apply_order(now, shard);
        recorded
    }

    fn record_order(&mut self, shard: &Shard, order: Option<WorkerOrder>) -> RecordSeq {
        let recorded = self.outbox.persist(Record::WorkerOrdered {
            shard: shard.clone(),
            order: order.clone(),
        });
        self.orders.set(shard, order, recorded);
        recorded
    }

    /// Lets the present order of a shard, or its end, take effect on the worker that has the shard.
    pub(super) fn apply_order(&mut self, now: Time, shard: &Shard) {
        let stage = self.orders.get(shard).map(|order| &order.stage);
        let (is_barred, is_leaving) = (stage.is_some(), stage.is_some_and(OrderStage::is_leaving));
        let Some(remote) = self.pool.get_mut(shard).filter(|remote| is_here(remote)) else {
            return;
        };
        let lock = remote.description().machine_lock.clone();
        let changes = remote.set_barred(is_barred);
        self.artifacts.set_leaving(&lock, is_leaving);
        if changes {
            self.evaluate(now, shard);
        }
    }

    /// Carries the orders out. Called once a turn, before tasks start.
    pub(super) fn carry_out_orders(&mut self, now: Time) {
        for shard in self.orders.begin_check(now) {
            self.apply_order(now, &shard);
            self.ask_tasks_back(now, &shard);
            let facts = self.view().order_facts(&shard);
            let persisted = self.outbox.persisted();
            match self.orders.step(now, &shard, facts, persisted) {
                OrderStep::Wait => {}
                OrderStep::Enter(stage) => self.enter_stage(&shard, stage, facts),
                OrderStep::End(way) => self.end_ordered(now, &shard, way),
            }
        }
    }

    /// Asks an ordered worker to return the tasks that it has not begun. It refuses for the others.
    fn ask_tasks_back(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.pool.get(shard).filter(|remote| is_here(remote)) else {
            return;
        };
        // Another peer would end a running task.
        let may_queue = remote.description().takes_standby || remote.credits().are_used();
        if !may_queue || !self.outbox.may_call() {
            return;
        }
        let runs = self.runs.on_shard(shard);
        for (task, run) in self.orders.ask_back(shard, &runs, MAX_ASKED_BACK) {
            if !self.send_take_back(now, task) {
                self.orders.not_asked_back(shard, run);
            }
        }
    }

    fn enter_stage(&mut self, shard: &Shard, stage: OrderStage, facts: OrderFacts) {
        let left = facts.left;
        let Some(order) = self.orders.get(shard) else {
            return;
        };
        let shard = shard.clone();
        let step = match &stage {
            OrderStage::Excluded | OrderStage::Decommissioning(_) => DecommissionNews::GoesOn(left),
            OrderStage::Decommissioned(terms) => match (terms.exit, facts.worker) {
                (Some(exit), _) if exit.way == ExitWay::Drain => {
                    DecommissionNews::Done(AfterDecommission::Exit)
                }
                (Some(_), _) => DecommissionNews::Overdue(left),
                (None, Some(_)) => DecommissionNews::Done(AfterDecommission::Idle),
                (None, None) => DecommissionNews::OverdueAway,
            },
        };
        let order = WorkerOrder {
            stage,
            ..order.clone()
        };
        self.record_order(&shard, Some(order));
        self.notices.news(News::Decommission { shard, step });
    }

    /// Requests that the worker of a decommissioned shard exit.
    fn end_ordered(&mut self, now: Time, shard: &Shard, way: ExitWay) {
        if !self.outbox.may_call() {
            return self.orders.not_asked_to_exit(shard);
        }
        let why: Arc<str> = self.view().why_decommissioned(shard).into();
        match way {
            ExitWay::Kill => self.request_suicide(now, shard, &why),
            ExitWay::Drain => {
                let Some(remote) = self.pool.get(shard) else {
                    return;
                };
                let (worker, peer) = (remote.id(), remote.address().clone());
                let purpose = CallPurpose::Drain {
                    shard: shard.clone(),
                    worker,
                };
                self.call(now, peer, CallDraft::Drain { worker, why }, purpose);
            }
        }
    }

    /// Handles the answer of a worker that was asked to drain.
    pub(super) fn drain_answered(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        outcome: &CallOutcome<CallReply>,
    ) {
        let why = match outcome {
            CallOutcome::Done(_) => return,
            CallOutcome::Refused(_, why)
            | CallOutcome::NotSent(why)
            | CallOutcome::Unknown(why) => why,
        };
        match outcome {
            CallOutcome::Done(_) | CallOutcome::Unknown(_) => {}
            CallOutcome::Refused(..) | CallOutcome::NotSent(_) => {
                self.orders.not_asked_to_exit(shard);
            }
        }
        // It may have exited before its answer left.
        if self
            .pool
            .instance_mut(shard, worker)
            .is_some_and(|remote| is_here(remote))
        {
            let text = format!(
                "worker `{shard}` is decommissioned and has not accepted the request to exit: {why}"
            );
            self.notices.problem(now, &text);
        }
    }
}

impl View<'_> {
    fn check_order(&self, shard: &Shard, order: &OrderRequest) -> Result<(), OrderRefusal> {
        if let Some(error) = self.outbox.store_error() {
            return Err(OrderRefusal::StoreFails(error.to_owned()));
        }
        let bytes = order.reason().len();
        if bytes > MAX_REASON_BYTES {
            return Err(OrderRefusal::LongReason { bytes });
        }
        let has_order = self.orders.get(shard).is_some();
        let is_expected = || {
            let expected = self.wait.expected_where(|_, one| one.shard == *shard);
            !expected.is_empty()
        };
        let is_known = has_order
            || self.pool.get(shard).is_some()
            || is_expected()
            || self.pool.last_left(shard).is_some();
        if !is_known {
            return Err(OrderRefusal::Unknown {
                shard: shard.clone(),
                known: self.names_to_order(),
            });
        }
        let is_leaving = |order: &WorkerOrder| order.stage.is_leaving();
        match order {
            OrderRequest::Exclude { .. } if self.orders.get(shard).is_some_and(is_leaving) => {
                return Err(OrderRefusal::Leaves {
                    shard: shard.clone(),
                });
            }
            OrderRequest::Exclude { .. }
            | OrderRequest::Decommission { .. }
            | OrderRequest::Recommission => {}
        }
        match !has_order && self.orders.is_full() {
            true => Err(OrderRefusal::TooMany),
            false => Ok(()),
        }
    }

    fn names_to_order(&self) -> Vec<Shard> {
        let expected = self.wait.expected_where(|_, _| true).into_iter();
        let expected = expected.filter_map(|id| Some(&self.wait.recorded(id)?.shard));
        let here = self.pool.iter().map(Remote::shard);
        let ordered = self.orders.iter().map(|(shard, _)| shard);
        let names: BTreeSet<&Shard> = here.chain(expected).chain(ordered).collect();
        names.into_iter().take(MAX_NAMED).cloned().collect()
    }

    fn order_facts(&self, shard: &Shard) -> OrderFacts {
        let remote = self.pool.get(shard).filter(|remote| is_here(remote));
        let mut expected = self.wait.expected_where(|_, _| true).into_iter();
        let is_of_shard = |id| {
            self.wait
                .recorded(id)
                .is_some_and(|one| one.shard == *shard)
        };
        OrderFacts {
            worker: remote.map(Remote::id),
            may_return: remote.is_none() && expected.any(is_of_shard),
            drains: remote.is_some_and(|w| w.description().intake == Intake::Draining),
            left: self.work_left(shard),
            wall: self.wall,
        }
    }

    fn work_left(&self, shard: &Shard) -> WorkLeft {
        let remote = self.pool.get(shard).filter(|remote| is_here(remote));
        let Some(remote) = remote else {
            return WorkLeft::default();
        };
        let lock = &remote.description().machine_lock;
        WorkLeft {
            running: self.runs.counts_on(shard).0,
            only_here: self.artifacts.registry().only_at(lock),
            unknown: !self.wait.is_over()
                || remote.health() == Health::New
                || !self.artifacts.knows_copies_of(lock),
        }
    }

    /// Returns the order about a shard with its progress.
    fn order_status(&self, now: Time, shard: &Shard) -> Option<OrderStatus> {
        let order = self.orders.get(shard)?;
        let facts = self.order_facts(shard);
        let copies = order.stage.is_leaving() && facts.left.only_here.artifacts > 0;
        let exits = match &order.stage {
            OrderStage::Excluded | OrderStage::Decommissioning(_) => false,
            OrderStage::Decommissioned(terms) => {
                let exit = terms.exit.map(|exit| exit.worker);
                exit.is_some() && exit == facts.worker
            }
        };
        Some(OrderStatus {
            shard: shard.clone(),
            order: order.clone(),
            connected: facts.worker.is_some(),
            left: facts.left,
            copies_wait_for: copies.then(|| self.why_not_copied(now, shard)).flatten(),
            exits,
        })
    }

    /// Returns all orders in force, as far as one answer lists them.
    pub(super) fn all_orders(&self, now: Time) -> Vec<OrderStatus> {
        let all = self.orders.iter().take(MAX_LISTED_ORDERS);
        all.filter_map(|(shard, _)| self.order_status(now, shard))
            .collect()
    }

    /// Returns why nobody copies some of the artifacts that only the worker of a shard has, as a clause; `None` if they are being copied.
    fn why_not_copied(&self, now: Time, shard: &Shard) -> Option<String> {
        let lock = &self.pool.get(shard)?.description().machine_lock;
        let registry = self.artifacts.registry();
        let missing = registry.missing_replicas(None).take(MAX_SEARCHED);
        let is_here = |id| registry.holders(id).any(|holder| holder.lock == *lock);
        let mut here = missing.filter(|missing| is_here(missing.id));
        here.find_map(|missing| {
            let why = match self.artifacts.prospect(now, &missing) {
                CopyProspect::Asked(_) | CopyProspect::Soon => return None,
                CopyProspect::NoSpace => format!(
                    "no other worker has room: no healthy disk has {} left",
                    readable_bytes(missing.size)
                ),
                CopyProspect::NoWorker => "no other worker can take copies: each is unhealthy, drains, is excluded, or has no healthy \
                     disk"
                    .to_owned(),
            };
            let others = registry.holders(missing.id);
            let others = others.filter(|holder| holder.lock != *lock);
            let others: BTreeSet<&MachinePortLock> = others.map(|holder| &holder.lock).collect();
            let others = others.into_iter().flat_map(|lock| self.pool.with_lock(lock));
            let mut doubtful = others.filter(|other| is_here_and_doubtful(other));
            let copy = doubtful.next().map(|other| {
                let state = match other.health() {
                    Health::New => "has just associated",
                    Health::Unhealthy | Health::MustDie => "is unhealthy",
                    Health::Healthy => "drains",
                };
                format!(", and a copy on `{}` does not count, as that worker {state}", other.shard())
            });
            Some(format!("{why}{}", copy.unwrap_or_default()))
        })
    }

    /// Returns why a worker gets no tasks, as a clause that follows its name.
    pub(super) fn why_barred(&self, shard: &Shard) -> Option<String> {
        let order = self.orders.get(shard)?;
        let what = match order.stage {
            OrderStage::Excluded => "excluded",
            OrderStage::Decommissioning(_) => "being decommissioned",
            OrderStage::Decommissioned(_) => "decommissioned",
        };
        Some(format!("is {what}{}", because(&order.reason)))
    }

    fn why_decommissioned(&self, shard: &Shard) -> String {
        let order = self.orders.get(shard);
        let reason = order.map(|order| because(&order.reason));
        format!(
            "an operator has decommissioned this worker{}",
            reason.unwrap_or_default()
        )
    }
}

/// Returns whether the worker has not left.
fn is_here(remote: &Remote) -> bool {
    remote.health() != Health::MustDie
}

/// Returns whether the worker has not left, and may not keep its copies.
fn is_here_and_doubtful(remote: &Remote) -> bool {
    is_here(remote) && !remote.keeps_artifacts()
}

fn because(reason: &str) -> String {
    match reason.is_empty() {
        true => String::new(),
        false => format!(" ({})", printable(reason)),
    }
}

/// Returns who gave an order, for people. The port of the caller's address belongs to one call, so it says nothing.
fn caller(from: &Principal, user: Option<&str>) -> String {
    let place = match from {
        Principal::Unauthenticated(address) => address.ip().to_string(),
        Principal::Stranger(_) | Principal::Authenticated(_) | Principal::Own => from.to_string(),
    };
    match user {
        Some(user) => format!("{user} at {place}"),
        None => place,
    }
}

/// Returns what the caller did, for the log.
fn sentence(shard: &Shard, order: &OrderRequest) -> String {
    let reason = because(order.reason());
    match order {
        OrderRequest::Exclude { .. } => format!("excluded worker `{shard}`{reason}"),
        OrderRequest::Decommission { deadline, then, .. } => {
            let within = deadline.map(|left| {
                let left = brasserie_common::time::format_duration(left);
                format!(", with a deadline in {left}")
            });
            let then = match then {
                AfterDecommission::Exit => "",
                AfterDecommission::Idle => ", to stay idle then",
            };
            let within = within.unwrap_or_default();
            format!("began to decommission worker `{shard}`{within}{then}{reason}")
        }
        OrderRequest::Recommission => format!("recommissioned worker `{shard}`"),
    }
}
