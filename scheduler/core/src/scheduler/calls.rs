//! Calls to workers, and the dispatch of their outcomes.

use std::sync::Arc;

use brasserie_common::{CallId, CallOutcome, ServiceAddress, Shard, Time, WorkerId};

use super::Scheduler;
use crate::calls::{CallDraft, CallPurpose, CallReply, obeyed_instead};

impl Scheduler {
    pub(super) fn call(
        &mut self,
        now: Time,
        peer: ServiceAddress,
        call: CallDraft,
        purpose: CallPurpose,
    ) -> CallId {
        let deadline = now + self.options.call_deadline;
        let shard = purpose.shard().clone();
        let id = self.calls.open(deadline, purpose);
        self.outbox.call(id, (shard, peer), call);
        id
    }

    /// Asks an instance of a shard to exit. A failure is the normal outcome: the instance dies, or does not know this scheduler.
    pub(super) fn ask_to_die(
        &mut self,
        now: Time,
        (shard, worker, peer): (Shard, WorkerId, ServiceAddress),
        why: &Arc<str>,
    ) {
        // An instance that must exit sends further heartbeats, each of which leads here again.
        if !self.outbox.may_call() {
            return;
        }
        if self.calls.may_ask_to_die(worker) {
            self.calls.note_asked_to_die(worker, why);
            let call = CallDraft::RequestSuicide { worker };
            self.call(now, peer, call, CallPurpose::Suicide { shard, worker });
        }
    }

    /// Asks the instance of a shard to exit.
    pub(super) fn request_suicide(&mut self, now: Time, shard: &Shard, why: &Arc<str>) {
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        let peer = (shard.clone(), remote.id(), remote.address().clone());
        self.ask_to_die(now, peer, why);
    }

    /// Closes calls that took too long, with an unknown outcome. Later outcomes are dropped. A worker refuses a `runTask` that arrives even
    /// later by its sequence number.
    pub(super) fn expire_calls(&mut self, now: Time) {
        while let Some(id) = self.calls.next_overdue(now) {
            self.call_completed(
                now,
                id,
                CallOutcome::Unknown("no outcome in time".to_owned()),
            );
        }
    }

    pub(super) fn call_completed(
        &mut self,
        now: Time,
        id: CallId,
        outcome: CallOutcome<CallReply>,
    ) {
        let Some((deadline, purpose)) = self.calls.close(id) else {
            return;
        };
        let sent = deadline - self.options.call_deadline;
        let peer = purpose.peer();
        let remote = peer.and_then(|(shard, worker)| self.pool.instance_mut(shard, worker));
        if let Some(remote) = remote {
            remote.note_reached(sent, &outcome);
        }
        let obeyed = obeyed_instead(&purpose, &outcome);
        if let Some((_, _, newer)) = obeyed.as_ref().filter(|(_, _, other)| *other > self.id) {
            return self.step_down(*newer);
        }
        match purpose {
            CallPurpose::Fetch { shard, worker } => self.fetched(now, &shard, worker, outcome),
            CallPurpose::Start {
                shard,
                worker,
                task,
                invocation,
            } => self.start_completed(now, (&shard, worker), task, invocation, outcome),
            CallPurpose::Healthcheck {
                shard,
                worker,
                invocation,
            } => self.healthcheck_sent(now, &shard, worker, invocation, &outcome),
            CallPurpose::Notify {
                shard,
                worker,
                tasks,
            } => self.notified(now, &shard, worker, &tasks, &outcome),
            CallPurpose::Suicide { .. } => {}
            CallPurpose::Drain { shard, worker } => {
                self.drain_answered(now, &shard, worker, &outcome);
            }
            CallPurpose::Kill {
                worker: _,
                request,
                killed,
            } => self.kill_completed(request, killed, outcome),
            CallPurpose::EndOrphan {
                shard,
                worker: _,
                task,
                invocation,
            } => self.orphan_kill_answered(now, &shard, ((task, invocation), id), &outcome),
            CallPurpose::TakeBack {
                shard,
                worker,
                task,
                invocation,
            } => self.take_back_answered(now, (&shard, worker), (task, invocation), &outcome),
        }
        if let Some((shard, worker, older)) = obeyed
            && older < self.id
        {
            self.associate_anew(now, &shard, worker);
        }
    }
}
