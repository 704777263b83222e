//! The newest work request: its amounts, how long it is valid, and the answer to it. [`KnownRuns`] is the list of runs in a request. The
//! invariants C1 to C7 of [`super`] hold for every change here.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::work::{MAX_KNOWN_TASKS, MAX_PROCESSOR_TYPES};
use brasserie_common::{
    InvocationId, KnownTask, Processor, Time, WorkReply, WorkRequest, WorkVerdict,
};

use super::amounts::Amounts;
use super::workload::WorkloadRoom;
use super::{
    Apps, CreditRequest, DEFERRED_DELAY, MAX_OPEN, OfType, RequestPolicy, RequestStage, TaskWork,
    TypeDemand,
};

impl CreditRequest {
    pub(super) fn new(now: Time, policy: &RequestPolicy, request: &WorkRequest) -> Self {
        let mut types: Vec<OfType> = Vec::new();
        let mut processors = 0.0;
        for demand in request.demands.iter().take(MAX_PROCESSOR_TYPES) {
            if types.iter().any(|t| t.processor == demand.processor) {
                continue;
            }
            let amounts = Amounts::of(demand);
            processors += amounts.there
                * match demand.processor {
                    Processor::Cpu => 1.0,
                    Processor::Cards(_) => policy.card_weight,
                };
            types.push(OfType {
                processor: demand.processor.clone(),
                wanted: match amounts.are_left() {
                    true => TypeDemand::Something,
                    false => TypeDemand::Nothing,
                },
                amounts,
                granted: 0,
                verdict: None,
                apps: Apps::Some,
            });
        }
        CreditRequest {
            seq: request.seq,
            at: now,
            types,
            request_delay: policy.request_delay(Duration::ZERO),
            deferred_delay: DEFERRED_DELAY,
            linger: request.linger.min(policy.max_linger),
            // A float cast saturates, which suits a limit. More tasks could not be listed.
            tasks_left: ((policy.tasks_per_processor * processors).ceil() as u32)
                .min(MAX_KNOWN_TASKS as u32),
            workload: None,
            explains_delay: false,
            cards: request.cards,
            stage: RequestStage::Open,
        }
    }

    pub(super) fn good_until(&self) -> Option<Time> {
        match self.stage {
            RequestStage::Open => Some(self.at + MAX_OPEN),
            RequestStage::Lingering(until) => Some(until),
            RequestStage::Over => None,
        }
    }

    /// Returns whether the request is valid. A limit itself is still good.
    pub(super) fn is_good(&self, now: Time) -> bool {
        self.good_until().is_some_and(|until| now <= until)
    }

    /// Returns the time since the request came.
    pub(super) fn age(&self, now: Time) -> Duration {
        now.since(self.at)
    }

    pub(super) fn of(&self, processor: &Processor) -> Option<&OfType> {
        self.types.iter().find(|t| t.processor == *processor)
    }

    pub(super) fn of_mut(&mut self, processor: &Processor) -> Option<&mut OfType> {
        self.types.iter_mut().find(|t| t.processor == *processor)
    }

    /// Takes a task that was sent before off the amounts. The type is then `Coming` if nothing is left of it.
    pub(super) fn charge(&mut self, task_work: &TaskWork<'_>) {
        if let Some(of_type) = self.of_mut(task_work.processor()) {
            of_type.amounts.spend(task_work, Duration::ZERO);
            if of_type.wanted == TypeDemand::Something && !of_type.amounts.are_left() {
                of_type.wanted = TypeDemand::Coming;
            }
        }
    }

    /// Adds a run to the workload that deadlines are checked against. Drops the workload if it is too large.
    pub(super) fn count(
        &mut self,
        now: Time,
        run: (InvocationId, &TaskWork<'_>),
        told: Option<&KnownTask>,
    ) {
        let workload = self.workload.as_mut();
        if workload.is_some_and(|workload| workload.count(now, run, told) == WorkloadRoom::Over) {
            self.workload = None;
        }
    }

    /// Defers the request.
    pub(super) fn defer(&mut self, delay: Duration) {
        let delay = match delay.is_zero() {
            true => DEFERRED_DELAY,
            false => delay,
        };
        (self.request_delay, self.deferred_delay) = (delay, delay);
        self.end();
        if sabotage::on(Sabotage::CreditOfWhatIsPutOff) {
            self.stage = RequestStage::Lingering(self.at + self.linger);
        }
    }

    /// Ends the credit. A type without a verdict gets DEFERRED.
    pub(super) fn end(&mut self) {
        self.stage = RequestStage::Over;
        self.workload = None;
        for of_type in &mut self.types {
            of_type.verdict.get_or_insert(WorkVerdict::Deferred);
        }
    }
}

impl CreditRequest {
    pub(super) fn reply(&self) -> WorkReply {
        let wanted = self.types.iter();
        let wanted = wanted.filter(|of_type| of_type.wanted != TypeDemand::Nothing);
        let verdict = |of_type: &OfType| match (of_type.granted, of_type.verdict) {
            (0, Some(verdict)) => verdict,
            // More tasks may follow.
            (0, None) => WorkVerdict::Pending,
            (tasks, _) => WorkVerdict::Granted(tasks),
        };
        let verdicts: Vec<_> = wanted.map(|t| (t.processor.clone(), verdict(t))).collect();
        // DEFERRED starts no backoff at the worker, so the answer says when to ask again.
        let is_deferred =
            |(_, verdict): &(Processor, WorkVerdict)| *verdict == WorkVerdict::Deferred;
        let request_delay = match verdicts.iter().any(is_deferred) {
            true => self.request_delay.max(self.deferred_delay),
            false => self.request_delay,
        };
        let unused = self.types.iter();
        let unused = unused.filter(|of_type| of_type.apps == Apps::None);
        WorkReply {
            seq: self.seq,
            verdicts,
            request_delay,
            no_apps: unused.map(|t| t.processor.clone()).collect(),
            next_contact: None,
        }
    }
}

/// The runs that a worker reports to have, sorted.
#[derive(Clone, Debug)]
pub struct KnownRuns(Option<Vec<KnownTask>>);

impl KnownRuns {
    pub fn of(request: &WorkRequest) -> Self {
        let mut known = request.known.clone();
        if let Some(known) = &mut known {
            known.sort_by_key(|task| task.invocation);
        }
        KnownRuns(known)
    }

    /// Returns whether the request has such a list.
    pub(super) fn is_told(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the work of the run's task is needed: it is not listed, or it has a deadline. All other runs cost only a search.
    pub fn is_weighed(&self, run: InvocationId) -> bool {
        match (&self.0, self.get(run)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(_), Some(told)) => told.deadline.is_some(),
        }
    }

    pub(super) fn get(&self, run: InvocationId) -> Option<&KnownTask> {
        let known = self.0.as_ref()?;
        let at = known.binary_search_by_key(&run, |task| task.invocation);
        Some(&known[at.ok()?])
    }
}
