//! Carries effects out, one arm each, without ever waiting: a reply that must wait is put aside until its record is on disk.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::collections::IdMap;
use brasserie_common::{CallId, RecordSeq, RequestId, Time};
use brasserie_scheduler_core::{Call, Effect, Event, ExitReason, Reply, Scheduler};

use crate::inbox::{Inbox, Lane, Waiter};
use crate::rpc::workers::{WorkerCall, Workers};
use crate::store::StoreHandle;

pub(crate) struct Performer {
    store: StoreHandle,
    workers: Workers,
    inbox: Inbox,
    /// When the core gives a call up, from when it decided on it.
    call_deadline: Duration,
    /// Who waits for which answer. Bounded by the calls that the server lets be in flight.
    waiters: IdMap<RequestId, Waiter>,
    persisted: RecordSeq,
    /// Replies that wait for a record, in the order of the records. Bounded like `waiters`, out of which they come.
    deferred: BTreeMap<RecordSeq, Vec<Deferred>>,
    /// The core wants the program to end.
    exit: Option<ExitReason>,
}

struct Deferred {
    waiter: Waiter,
    reply: Reply,
}

impl Performer {
    pub(crate) fn new(
        store: StoreHandle,
        workers: Workers,
        inbox: Inbox,
        call_deadline: Duration,
    ) -> Self {
        Performer {
            store,
            workers,
            inbox,
            call_deadline,
            waiters: IdMap::default(),
            persisted: RecordSeq::default(),
            deferred: BTreeMap::new(),
            exit: None,
        }
    }

    pub(crate) fn exit(&self) -> Option<ExitReason> {
        self.exit
    }

    pub(crate) fn into_store(self) -> StoreHandle {
        self.store
    }

    /// Somebody waits for the answer to this request.
    pub(crate) fn expect(&mut self, request: RequestId, waiter: Waiter) {
        self.waiters.insert(request, waiter);
    }

    /// Everything up to this record is on disk: what waited for it goes out.
    pub(crate) fn persisted(&mut self, up_to: RecordSeq) {
        self.persisted = self.persisted.max(up_to);
        let still_waiting = self.deferred.split_off(&up_to.next());
        let ready = std::mem::replace(&mut self.deferred, still_waiting);
        for deferred in ready.into_values().flatten() {
            deferred.release();
        }
    }

    /// `decided`: the time that the core went by.
    pub(crate) fn perform(&mut self, scheduler: &Scheduler, decided: Time, effect: Effect) {
        match effect {
            Effect::Persist { seq, record } => self.store.submit(seq, record),
            Effect::Reply {
                request,
                after,
                reply,
            } => {
                if let Some(waiter) = self.waiters.remove(&request) {
                    self.answer(after, Deferred { waiter, reply });
                }
            }
            Effect::Call { id, peer, call } => {
                // Now, because the names behind its ids may mean something else in a later turn.
                let message = scheduler.message(&call);
                let lane = lane_of(&call);
                // After a pause it would act on what the core believed long ago, and has given up.
                let not_after = decided + self.call_deadline;
                self.call(id, lane, WorkerCall::new(&peer, message, not_after));
            }
            Effect::Exit { reason } => self.exit = Some(reason),
        }
    }

    fn answer(&mut self, after: Option<RecordSeq>, deferred: Deferred) {
        match after {
            Some(seq) if seq > self.persisted => {
                self.deferred.entry(seq).or_default().push(deferred)
            }
            Some(_) | None => deferred.release(),
        }
    }

    fn call(&self, id: CallId, lane: Lane, call: WorkerCall) {
        let inbox = self.inbox.clone();
        self.workers.call(call, move |outcome| {
            inbox.tell_soon(lane, Event::CallCompleted { call: id, outcome });
        });
    }
}

impl Deferred {
    fn release(self) {
        (self.waiter)(self.reply);
    }
}

/// Where the outcome of a call goes: what health depends on must not queue behind results.
fn lane_of(call: &Call) -> Lane {
    match call {
        Call::GetRunningTasks { .. }
        | Call::Healthcheck { .. }
        | Call::NotifyIfTasksNotRunning { .. }
        | Call::RequestSuicide { .. } => Lane::Health,
        Call::RunTask { .. } | Call::KillTask { .. } => Lane::Ordinary,
    }
}
