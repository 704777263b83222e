//! The context of one turn.

use brasserie_common::{CallId, RequestId, Time};
use brasserie_worker_fetch::AssociationIndex;

use crate::effect::{Call, Effect, ExitReason, Outbox, Refusal, Reply};
use crate::machine::Machine;

/// The context of one turn, which every step of an association needs.
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    pub(crate) out: &'a mut Outbox,
    pub(crate) machine: &'a mut Machine,
    /// Associations that came to their end in this turn.
    pub(crate) over: Vec<(AssociationIndex, ExitReason)>,
}

impl Turn<'_> {
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    pub(crate) fn reply(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        self.out.reply(request, reply);
    }

    /// Requests a call to the scheduler of this association, and returns its id.
    pub(crate) fn call(&mut self, association: AssociationIndex, call: Call) -> CallId {
        self.out.call(association, call)
    }
}
