//! Performs effects without ever waiting. A reply that depends on a record is deferred until the record is on disk.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::collections::IdMap;
use brasserie_common::{EndedBy, RecordSeq, RequestId, RunningTask, Time};
use brasserie_scheduler_core::{Call, Effect, EndedTask, Event, ExitReason, Record, Reply};

use crate::inbox::{EventLane, Inbox, Waiter};
use crate::rpc::workers::{WorkerCall, Workers};
use crate::store::StoreHandle;

pub(crate) struct Performer {
    store: StoreHandle,
    workers: Workers,
    inbox: Inbox,
    /// Time after the core's decision at which the core abandons a call.
    call_deadline: Duration,
    requests: OpenRequests,
    /// Set once the core wants the program to end.
    exit: Option<ExitReason>,
}

/// Unanswered requests. The server's limit of unanswered calls bounds their number.
#[derive(Default)]
struct OpenRequests {
    waiters: IdMap<RequestId, UnansweredRequest>,
    persisted: RecordSeq,
    /// Replies that wait for a record, in the order of the records. Each belongs to one of `waiters`.
    deferred: BTreeMap<(RecordSeq, RequestId), Reply>,
}

/// One unanswered request.
struct UnansweredRequest {
    waiter: Waiter,
    /// The record that its deferred reply waits for.
    after: Option<RecordSeq>,
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
            requests: OpenRequests::default(),
            exit: None,
        }
    }

    pub(crate) fn exit(&self) -> Option<ExitReason> {
        self.exit
    }

    pub(crate) fn into_store(self) -> StoreHandle {
        self.store
    }

    /// Registers the waiter that receives the answer to this request.
    pub(crate) fn await_answer(&mut self, request: RequestId, waiter: Waiter) {
        self.requests.expect(request, waiter);
    }

    /// Sends the replies that waited for records up to this one, which are now on disk.
    pub(crate) fn persisted(&mut self, up_to: RecordSeq) {
        self.requests.release(up_to);
    }

    /// Performs one effect. `decided` is the time at which the core decided it.
    pub(crate) fn perform(&mut self, decided: Time, effect: Effect) {
        match effect {
            Effect::Persist { seq, record } => {
                log_completions(&record);
                self.store.submit(seq, record);
            }
            Effect::Reply {
                request,
                after,
                reply,
            } => self.requests.answer(request, after, reply),
            Effect::Call {
                id,
                shard,
                peer,
                call,
            } => {
                log_start(&call);
                let (lane, inbox) = (lane_of(&call), self.inbox.clone());
                // A later call, after a pause of this process, would act on a decision that the core has since abandoned.
                let not_after = decided + self.call_deadline;
                let call = WorkerCall::new((shard, peer), call, not_after);
                self.workers.call(call, move |outcome| {
                    inbox.tell_soon(lane, Event::CallCompleted { call: id, outcome });
                });
            }
            Effect::Exit { reason } => self.exit = Some(reason),
        }
    }
}

impl OpenRequests {
    fn expect(&mut self, request: RequestId, waiter: Waiter) {
        let after = None;
        self.waiters
            .insert(request, UnansweredRequest { waiter, after });
    }

    fn release(&mut self, up_to: RecordSeq) {
        self.persisted = self.persisted.max(up_to);
        while let Some(first) = self.deferred.first_entry()
            && first.key().0 <= self.persisted
        {
            let ((_, request), reply) = first.remove_entry();
            if let Some(open) = self.waiters.remove(&request) {
                (open.waiter)(reply);
            }
        }
    }

    /// Answers a request once: a reply that need not wait replaces a deferred one.
    fn answer(&mut self, request: RequestId, after: Option<RecordSeq>, reply: Reply) {
        let Some(open) = self.waiters.get_mut(&request) else {
            return;
        };
        match after {
            Some(seq) if seq > self.persisted => {
                open.after = Some(seq);
                self.deferred.insert((seq, request), reply);
            }
            Some(_) | None => {
                let waited = open.after.map(|seq| (seq, request));
                if let Some(open) = self.waiters.remove(&request) {
                    (open.waiter)(reply);
                }
                if let Some(waited) = waited {
                    self.deferred.remove(&waited);
                }
            }
        }
    }
}

/// Logs the start and the take-back of a task at debug level, because they are as many as tasks.
fn log_start(call: &Call) {
    let (task, what) = match call {
        Call::RunTask(run) => (&run.task, "starts a task"),
        Call::KillTask { task, kill, .. } if kill.by == EndedBy::TakeBack => {
            (&**task, "takes a task back, if it has not begun")
        }
        _ => return,
    };
    let RunningTask {
        job,
        node,
        shard,
        invocation,
        ..
    } = task;
    tracing::debug!(%job, %node, worker = %shard, %invocation, "{what}");
}

fn log_completions(record: &Record) {
    let ends = match record {
        Record::TaskEnded(end) => std::slice::from_ref(end),
        Record::WorkerLeft { tasks, .. } => tasks,
        _ => return,
    };
    for EndedTask {
        job,
        node,
        invocation,
        status,
        ..
    } in ends
    {
        tracing::debug!(%job, %node, %invocation, %status, "a task has ended");
    }
}

/// Returns the lane for the outcome of a call. Outcomes that affect worker health must not queue behind results.
fn lane_of(call: &Call) -> EventLane {
    match call {
        Call::GetRunningTasks { .. }
        | Call::Healthcheck(_)
        | Call::NotifyIfTasksNotRunning { .. }
        | Call::RequestSuicide { .. } => EventLane::Health,
        Call::RunTask(_) | Call::KillTask { .. } | Call::Drain { .. } => EventLane::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use brasserie_scheduler_core::Rejection;

    use super::*;

    type Said = Arc<Mutex<Vec<(u64, Reply)>>>;

    fn expect(requests: &mut OpenRequests, number: u64, said: &Said) -> RequestId {
        let said = Arc::clone(said);
        let waiter = Box::new(move |reply| said.lock().unwrap().push((number, reply)));
        requests.expect(RequestId(number), waiter);
        RequestId(number)
    }

    #[test]
    fn a_refusal_takes_the_place_of_a_reply_that_waits() {
        let (mut requests, said) = (OpenRequests::default(), Said::default());
        let done = || Reply::UpdateStatus(Ok(()));
        let refused = || Reply::UpdateStatus(Err(Rejection::NotDurableYet));
        let first = expect(&mut requests, 1, &said);
        let second = expect(&mut requests, 2, &said);
        let third = expect(&mut requests, 3, &said);
        requests.answer(first, Some(RecordSeq(5)), done());
        requests.answer(second, Some(RecordSeq(5)), done());
        requests.answer(third, Some(RecordSeq(6)), done());
        requests.answer(first, None, refused());
        assert_eq!(*said.lock().unwrap(), [(1, refused())]);
        requests.release(RecordSeq(5));
        // The core decided this refusal before it was notified that the record is durable.
        requests.answer(second, None, refused());
        assert_eq!(*said.lock().unwrap(), [(1, refused()), (2, done())]);
        requests.answer(third, None, refused());
        assert!(requests.waiters.is_empty() && requests.deferred.is_empty());
        requests.release(RecordSeq(6));
        assert_eq!(said.lock().unwrap().len(), 3);
    }
}
