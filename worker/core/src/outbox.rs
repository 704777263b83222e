//! The queue of effects, and the context of one turn.

use std::collections::VecDeque;

use brasserie_common::{CallId, RequestId, Time};
use brasserie_worker_fetch::AssociationIndex;

use crate::effect::{Call, Effect, ExitReason, Refusal, Reply};
use crate::machine::Machine;

/// The effects that the shell has not drained yet. The shell drains them once a turn, so the effects of one turn bound the length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    effects: VecDeque<Effect>,
    last_call: u64,
}

impl Outbox {
    pub(crate) fn pop(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter()
    }
}

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
        self.effect(Effect::Reply { request, reply });
    }

    /// Requests a call to the scheduler of this association, and returns its id.
    pub(crate) fn call(&mut self, association: AssociationIndex, call: Call) -> CallId {
        self.out.last_call += 1;
        let id = CallId(self.out.last_call);
        self.effect(Effect::Call {
            association,
            id,
            call,
        });
        id
    }
}
