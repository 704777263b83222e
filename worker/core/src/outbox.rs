//! Effects on their way out of the machine, and one turn: an instant and the outbox.

use std::collections::VecDeque;

use brasserie_common::{CallId, RequestId, Time};

use crate::effect::{Call, Effect, Refusal, Reply};

/// Drained by the shell once a turn, so its length is bounded by what one turn of events can cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    effects: VecDeque<Effect>,
    last_call: u64,
}

impl Outbox {
    pub(crate) fn pop(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter()
    }
}

/// What every step of the machine needs: the time, read once, and where its effects go.
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    pub(crate) out: &'a mut Outbox,
}

impl Turn<'_> {
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.out.effects.push_back(effect);
    }

    pub(crate) fn reply(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        self.effect(Effect::Reply { request, reply });
    }

    pub(crate) fn call(&mut self, call: Call) -> CallId {
        self.out.last_call += 1;
        let id = CallId(self.out.last_call);
        self.effect(Effect::Call { id, call });
        id
    }
}
