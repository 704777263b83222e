//! Replies that wait for a record. Each waits for a bounded time, and at most one for each run. The shell holds their content.

use std::collections::VecDeque;
use std::hash::Hasher;

use brasserie_common::collections::IdMap;
use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{InvocationId, RecordSeq, RequestId, Time};

use super::effect::Reply;
use crate::jobs::JobRefusal;
use crate::record::until_synced;
use crate::refusal::{ForgetRefusal, MAX_REPLY_WAIT, OrderRefusal, Rejection};

/// The kind of a request whose reply waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HeldReply {
    Heartbeat,
    /// The status of this run.
    Status(InvocationId),
    JobChange,
    /// The answer to `forgetWorker`.
    Declaration,
    /// The answer to `orderWorker`.
    Order,
}

/// A record that should be durable by a deadline.
#[derive(Clone, Copy, Debug)]
struct WaitingReply {
    after: RecordSeq,
    deadline: Time,
    /// The reply that the shell holds back until then. `None`: the record only serves to detect a store without progress.
    reply: Option<(RequestId, HeldReply)>,
}

/// All replies that the shell holds back, the records that the store should sync soon, and whether the store makes progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replies {
    /// Sorted by deadline.
    waiting: VecDeque<WaitingReply>,
    /// The request whose reply waits for the record of this run's status. Never iterated.
    latest: IdMap<InvocationId, (RequestId, RecordSeq)>,
    /// The last durable record when a later one had waited for too long. The store is stalled until it syncs another record.
    stalled_at: Option<RecordSeq>,
}

impl HeldReply {
    /// Returns the refusal that leaves open whether the request has a lasting effect.
    fn refusal(self) -> Reply {
        match self {
            HeldReply::Heartbeat => Reply::Heartbeat(Err(Rejection::NotDurableYet)),
            HeldReply::Status(_) => Reply::UpdateStatus(Err(Rejection::NotDurableYet)),
            HeldReply::JobChange => Reply::JobChanged(Err(JobRefusal::NotDurableYet)),
            HeldReply::Declaration => Reply::WorkerForgotten(Err(ForgetRefusal::NotDurableYet)),
            HeldReply::Order => Reply::WorkerOrdered(Err(OrderRefusal::NotDurableYet)),
        }
    }
}

impl Replies {
    /// Notes a reply that waits from now on. Returns an earlier request about the same run whose reply was waiting, with its refusal.
    pub(crate) fn wait(
        &mut self,
        now: Time,
        persisted: RecordSeq,
        (request, after): (RequestId, RecordSeq),
        held: HeldReply,
    ) -> Option<(RequestId, Reply)> {
        self.push(now, after, Some((request, held)));
        let HeldReply::Status(run) = held else {
            return None;
        };
        let (earlier, after) = self.latest.insert(run, (request, after))?;
        let is_open = after > persisted && !sabotage::on(Sabotage::LetRepeatsPileUp);
        let repeated = Reply::UpdateStatus(Err(Rejection::Repeated));
        is_open.then_some((earlier, repeated))
    }

    /// Watches the store even if no reply waits, so that a stall is noticed within [`MAX_REPLY_WAIT`].
    pub(crate) fn watch(&mut self, now: Time, persisted: RecordSeq, latest: RecordSeq) {
        if latest > persisted && self.waiting.is_empty() {
            self.push(now, latest, None);
        }
    }

    fn push(&mut self, now: Time, after: RecordSeq, reply: Option<(RequestId, HeldReply)>) {
        self.waiting.push_back(WaitingReply {
            after,
            deadline: match sabotage::on(Sabotage::NeverAbandonReplies) {
                true => Time::NEVER,
                false => now + MAX_REPLY_WAIT,
            },
            reply,
        });
    }

    /// Handles the durability of all records up to this one: the shell has sent the replies that waited for them.
    pub(crate) fn persisted(&mut self, up_to: RecordSeq) {
        while let Some(first) = self.waiting.front().copied()
            && first.after <= up_to
        {
            self.forget(first);
            self.waiting.pop_front();
        }
        if self.stalled_at.is_some_and(|at| at < up_to) {
            self.stalled_at = None;
        }
    }

    /// Returns the next request that has waited for too long, with its refusal.
    pub(crate) fn abandon(
        &mut self,
        now: Time,
        persisted: RecordSeq,
    ) -> Option<(RequestId, Reply)> {
        while let Some(first) = self.waiting.front().copied()
            && first.deadline <= now
        {
            let is_latest = self.forget(first);
            self.waiting.pop_front();
            if first.after <= persisted {
                continue;
            }
            self.stalled_at = Some(persisted);
            if let Some((request, held)) = first.reply.filter(|_| is_latest) {
                return Some((request, held.refusal()));
            }
        }
        None
    }

    /// Forgets a reply. Returns `false` if a repeated request has taken its place.
    fn forget(&mut self, waiting: WaitingReply) -> bool {
        let Some((request, HeldReply::Status(run))) = waiting.reply else {
            return true;
        };
        let is_latest = self.latest.get(&run).map(|(of, _)| *of) == Some(request);
        if is_latest {
            self.latest.remove(&run);
        }
        is_latest || sabotage::on(Sabotage::LetRepeatsPileUp)
    }

    /// Returns whether a record has waited for [`MAX_REPLY_WAIT`] and none was synced since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled_at.is_some()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.waiting.front().map(|first| first.deadline)
    }

    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Replies {
            waiting,
            // Follows from `waiting`: the last reply of each run.
            latest: _,
            stalled_at,
        } = self;
        s.each(waiting, |s, waiting| {
            s.opt(waiting.reply, |s, (request, _)| s.request(request));
            s.put(until_synced(waiting.after, persisted));
            s.deadline(waiting.deadline);
        });
        s.put(stalled_at.is_some());
    }
}
