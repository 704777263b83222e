//! Everything that leaves the scheduler, in the order in which it was decided: records, answers and calls. Knows which records are durable.

use std::collections::VecDeque;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CallId, RecordSeq, RequestId, SchedulerId, ServiceAddress, Shard, Time};

use super::effect::{Effect, ExitReason, Reply};
use super::replies::{HeldReply, Replies};
use crate::calls::CallDraft;
use crate::record::{OWN_RECORD, Record};

/// The effects that the shell has not taken yet, the numbers of the last record and of the last durable record, and the replies that wait for one.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Outgoing>,
    last: RecordSeq,
    persisted: RecordSeq,
    /// Why the store cannot write.
    error: Option<String>,
    replies: Replies,
}

/// One item that leaves the scheduler.
#[derive(Clone, Debug)]
pub(super) enum Outgoing {
    Effect(Effect),
    /// A call whose names and texts are filled in when it leaves, in the turn in which it is decided.
    Call {
        id: CallId,
        shard: Shard,
        peer: ServiceAddress,
        call: CallDraft,
    },
}

impl Outbox {
    /// Returns an outbox with the same record numbers, and with nothing in it.
    pub(super) fn emptied(&self) -> Outbox {
        Outbox {
            last: self.last,
            persisted: self.persisted,
            error: self.error.clone(),
            ..Outbox::default()
        }
    }

    fn push(&mut self, effect: Effect) {
        self.waiting.push_back(Outgoing::Effect(effect));
    }

    /// Returns the next outgoing, in order.
    pub(super) fn poll(&mut self) -> Option<Outgoing> {
        self.waiting.pop_front()
    }

    /// Returns the latest durable record.
    pub(super) fn persisted(&self) -> RecordSeq {
        self.persisted
    }

    pub(super) fn is_persisted(&self, seq: RecordSeq) -> bool {
        seq <= self.persisted
    }

    /// Returns the latest record, durable or not.
    pub(super) fn last_record(&self) -> RecordSeq {
        self.last
    }

    /// Returns the number of the next record.
    pub(super) fn next_record(&self) -> RecordSeq {
        self.last.next()
    }

    /// Requests that a record be made durable.
    pub(super) fn persist(&mut self, record: Record) -> RecordSeq {
        self.last = self.last.next();
        let seq = self.last;
        self.push(Effect::Persist { seq, record });
        seq
    }

    /// Answers a request at once. This reply replaces one that waits for a record.
    pub(super) fn reply(&mut self, request: RequestId, reply: Reply) {
        self.push(Effect::Reply {
            request,
            after: None,
            reply,
        });
    }

    /// Answers a request once `after` is durable, or with a refusal if that takes longer than [`crate::MAX_REPLY_WAIT`].
    pub(super) fn reply_after(
        &mut self,
        now: Time,
        (request, after): (RequestId, Option<RecordSeq>),
        reply: Reply,
        held: HeldReply,
    ) {
        let after = after.filter(|&seq| !self.is_persisted(seq));
        let after = after.filter(|_| !sabotage::on(Sabotage::AcknowledgeBeforeDurable));
        if let Some(after) = after {
            let persisted = self.persisted;
            let earlier = self.replies.wait(now, persisted, (request, after), held);
            if let Some((earlier, refusal)) = earlier {
                self.reply(earlier, refusal);
            }
        }
        self.push(Effect::Reply {
            request,
            after,
            reply,
        });
    }

    /// Answers a request once `after` is durable, however long that takes. The caller watches the time.
    pub(super) fn reply_whenever(&mut self, request: RequestId, after: RecordSeq, reply: Reply) {
        self.push(Effect::Reply {
            request,
            after: Some(after),
            reply,
        });
    }

    /// Refuses requests whose reply has waited for too long. Their changes may still become durable, and the refusal says so.
    pub(super) fn abandon_replies(&mut self, now: Time) {
        while let Some((request, refusal)) = self.replies.abandon(now, self.persisted) {
            self.reply(request, refusal);
        }
    }

    /// Returns whether the store makes no progress.
    pub(super) fn is_stalled(&self) -> bool {
        self.replies.is_stalled()
    }

    /// Returns whether this instance's own record is durable. A worker called before that would remember an instance that the directory
    /// does not. Calls that waited for a failing store would also pile up and leave all at once.
    pub(super) fn may_call(&self) -> bool {
        self.is_persisted(OWN_RECORD)
    }

    /// Calls a worker. The call leaves at once, because the records that it depends on are already durable:
    ///
    /// * A task goes only to an instance that became HEALTHY after its record was durable, and only after the task's previous completion is
    ///   durable.
    /// * Questions and kills concern runs that were started so, or that the worker listed.
    /// * Fetches and healthchecks start no task.
    /// * An instance that is asked to die before its loss is durable counts as alive after a restart, and the restarted scheduler waits for
    ///   it.
    pub(super) fn call(
        &mut self,
        id: CallId,
        (shard, peer): (Shard, ServiceAddress),
        call: CallDraft,
    ) {
        assert!(
            self.may_call(),
            "Invariant: nobody is called before this instance is recorded"
        );
        self.waiting.push_back(Outgoing::Call {
            id,
            shard,
            peer,
            call,
        });
    }

    /// Ends the program for a newer instance. Calls that have not left are dropped.
    pub(super) fn exit_for(&mut self, newer: SchedulerId) {
        self.waiting
            .retain(|outgoing| !matches!(outgoing, Outgoing::Call { .. }));
        self.push(Effect::Exit {
            reason: ExitReason::SteppedDown { newer },
        });
    }

    /// Notes that all records up to this one are durable.
    pub(super) fn note_persisted(&mut self, up_to: RecordSeq) {
        self.persisted = self.persisted.max(up_to);
        self.replies.persisted(self.persisted);
    }

    pub(super) fn store_failed(&mut self, message: String) {
        self.error = Some(message);
    }

    pub(super) fn store_recovered(&mut self) {
        self.error = None;
    }

    /// Returns why nothing can be made durable at present: the store reports a failure, or it makes no progress.
    pub(super) fn store_error(&self) -> Option<&str> {
        let stall = "it has not synced a record for seconds; check the disk of the data directory";
        let stalled = self.replies.is_stalled().then_some(stall);
        self.error.as_deref().or(stalled)
    }

    /// Watches the store even if no reply waits, so that a stall is noticed in time. Called once a turn.
    pub(super) fn watch_store(&mut self, now: Time) {
        self.replies.watch(now, self.persisted, self.last);
    }

    /// Returns when the next reply has waited for too long.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.replies.next_deadline()
    }

    /// Returns how many records are not durable, and whether the store reports a failure, for fingerprints.
    pub(super) fn store_shape(&self) -> (u64, bool) {
        (self.last.0 - self.persisted.0, self.error.is_some())
    }

    pub(super) fn replies_shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        self.replies.shape(s, self.persisted);
    }

    pub(super) fn effects_shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.waiting, |s, outgoing| s.put(format!("{outgoing:?}")));
    }
}
