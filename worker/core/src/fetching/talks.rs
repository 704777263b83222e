//! Requests for work in flight, and their outcomes.

use brasserie_common::{CallId, CallOutcome, CardChoice, KnownTask, Time, WorkRequest};
use brasserie_worker_fetch::Request;

use super::{Asking, Fetching, Takes};
use crate::association::Association;
use crate::effect::Call;
use crate::event::CallReply;
use crate::turn::Turn;

impl Fetching {
    /// Handles the outcome of a call, if the call is a request for work. Returns whether it is.
    pub(crate) fn call_completed(
        &mut self,
        now: Time,
        call: CallId,
        outcome: &CallOutcome<CallReply>,
    ) -> bool {
        let Some(asking) = self.calls.remove(&call) else {
            return false;
        };
        match outcome {
            CallOutcome::Done(CallReply::Work(reply)) if reply.seq == asking.seq => {
                self.takes_requests[asking.association.0] = Takes::Requests;
                self.fetcher.answered(now, asking.association, reply);
            }
            // The reply is to another request, and no further reply to this one will arrive.
            CallOutcome::Done(CallReply::Work(_)) => self.failed(now, asking),
            CallOutcome::Done(CallReply::NoSuchCall) => {
                let members = self.fetcher.members(asking.association);
                self.takes_requests[asking.association.0].is_unknown_to_one_of(members);
                self.failed(now, asking);
            }
            CallOutcome::Done(
                CallReply::Heartbeat(_) | CallReply::Acknowledged | CallReply::Members(_),
            )
            | CallOutcome::Refused(..)
            | CallOutcome::NotSent(_)
            | CallOutcome::Unknown(_) => self.failed(now, asking),
        }
        true
    }

    fn failed(&mut self, now: Time, asking: Asking) {
        let Asking {
            association, seq, ..
        } = asking;
        self.fetcher.not_served(now, association, seq);
    }

    pub(super) fn give_up_calls(&mut self, now: Time) {
        // Calls get ascending ids and equal deadlines.
        while let Some((id, asking)) = self.calls.first_key_value()
            && asking.deadline <= now
        {
            let (id, asking) = (*id, *asking);
            self.calls.remove(&id);
            self.failed(now, asking);
        }
    }

    pub(super) fn send(
        &mut self,
        associations: &[Association],
        turn: &mut Turn<'_>,
        request: Request,
    ) {
        let association = &associations[request.association.0];
        let deadline = turn.now + association.options.call_deadline;
        let (seq, index) = (request.seq, request.association);
        let asking = Asking {
            association: index,
            seq,
            deadline,
        };
        let Some(scheduler) = association.scheduler() else {
            // A scheduler that has never answered a heartbeat gets no requests.
            return self.failed(turn.now, asking);
        };
        let call = Call::RequestWork {
            to: request.to,
            request: Box::new(WorkRequest {
                worker: association.id(),
                scheduler,
                seq,
                demands: request.demands,
                known: Some(self.known(turn.now, association)),
                linger: request.linger,
                low_water: self.fetcher.profile().low_water(),
                cards: CardChoice::Worker,
            }),
        };
        let call = turn.call(index, call);
        self.calls.insert(call, asking);
    }

    /// Returns all runs of the association until their completions are acknowledged.
    fn known(&self, now: Time, association: &Association) -> Vec<KnownTask> {
        let tasks = association.tasks.iter().map(|(_, task)| task);
        let tasks = tasks.filter(|task| !task.running.is_healthcheck());
        tasks
            .map(|task| {
                let piece = task.piece.as_ref().filter(|_| task.is_open());
                let work = piece.map(|piece| self.task(now, association.index, piece));
                let deadline = work.as_ref().and_then(|work| work.deadline);
                KnownTask {
                    invocation: task.running.invocation,
                    remaining: Some(work.map_or(0.0, |work| work.remaining)),
                    deadline: deadline.map(|at| at.since(now).as_secs_f64()),
                }
            })
            .collect()
    }
}
