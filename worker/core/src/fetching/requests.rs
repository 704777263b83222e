//! Requests for work in flight, and their outcomes.

use brasserie_common::{
    CallId, CallOutcome, CardChoice, KnownTask, SchedulerId, Time, WorkRequest, WorkRequestSeq,
};
use brasserie_worker_fetch::{AssociationIndex, Request};

use super::{Fetching, SchedulerView, Takes};
use crate::effect::Call;
use crate::event::CallReply;
use crate::tasks::WorkerTask;

/// A request for work that the policies have decided on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecidedRequest {
    pub association: AssociationIndex,
    pub seq: WorkRequestSeq,
    pub deadline: Time,
}

impl Fetching {
    /// Handles the outcome of a call, if the call is a request for work. Returns whether it is.
    pub(crate) fn call_completed(
        &mut self,
        now: Time,
        call: CallId,
        outcome: &CallOutcome<CallReply>,
    ) -> bool {
        let Some(asked) = self.calls.remove(&call) else {
            return false;
        };
        match outcome {
            CallOutcome::Done(CallReply::Work(reply)) if reply.seq == asked.seq => {
                self.takes_requests[asked.association.0] = Takes::Requests;
                self.fetcher.answered(now, asked.association, reply);
            }
            // The reply is to another request, and no further reply to this one will arrive.
            CallOutcome::Done(CallReply::Work(_)) => self.failed(now, asked),
            CallOutcome::Done(CallReply::NoSuchCall) => {
                let members = self.fetcher.members(asked.association);
                self.takes_requests[asked.association.0].is_unknown_to_one_of(members);
                self.failed(now, asked);
            }
            CallOutcome::Done(
                CallReply::Heartbeat(_) | CallReply::Acknowledged | CallReply::Members(_),
            )
            | CallOutcome::Refused(..)
            | CallOutcome::NotSent(_)
            | CallOutcome::Unknown(_) => self.failed(now, asked),
        }
        true
    }

    /// Handles the failure of a request.
    pub(crate) fn failed(&mut self, now: Time, asked: DecidedRequest) {
        let DecidedRequest {
            association, seq, ..
        } = asked;
        self.fetcher.not_served(now, association, seq);
    }

    /// Abandons the requests that have timed out.
    pub(crate) fn time_out_requests(&mut self, now: Time) {
        // Calls get ascending ids and equal deadlines.
        while let Some((id, asked)) = self.calls.first_key_value()
            && asked.deadline <= now
        {
            let (id, asked) = (*id, *asked);
            self.calls.remove(&id);
            self.failed(now, asked);
        }
    }

    /// Returns the call of a request to this scheduler instance. `tasks` are all tasks of the association.
    pub(crate) fn call<'a>(
        &self,
        now: Time,
        request: Request,
        (view, scheduler): (&SchedulerView<'_>, SchedulerId),
        tasks: impl Iterator<Item = &'a WorkerTask>,
    ) -> Call {
        Call::RequestWork {
            to: request.to,
            request: Box::new(WorkRequest {
                worker: view.instance,
                scheduler,
                seq: request.seq,
                demands: request.demands,
                known: Some(self.known(now, view.index, tasks)),
                linger: request.linger,
                low_water: self.fetcher.profile().low_water(),
                cards: CardChoice::Worker,
            }),
        }
    }

    /// Records that a request was sent as this call.
    pub(crate) fn sent(&mut self, call: CallId, asked: DecidedRequest) {
        self.calls.insert(call, asked);
    }

    /// Returns all runs of the association until their completions are acknowledged.
    fn known<'a>(
        &self,
        now: Time,
        of: AssociationIndex,
        tasks: impl Iterator<Item = &'a WorkerTask>,
    ) -> Vec<KnownTask> {
        let tasks = tasks.filter(|task| !task.running.is_healthcheck());
        tasks
            .map(|task| {
                let pull = task.pull.as_ref().filter(|_| task.is_open());
                let work = pull.map(|pull| self.task(now, of, pull));
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
