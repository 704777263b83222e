//! Tasks that stop for others and go on later, and what a kill means for one that is stopped.
//!
//! A stopped task keeps what it has but its processors: its process, its cards, its memory, its slots at the scheduler. To the scheduler
//! it runs.

use brasserie_common::{InvocationId, Kill, KillMethod, TaskKey};

use crate::association::Association;
use crate::effect::Effect;
use crate::limits::Limits;
use crate::outbox::Turn;

impl Association {
    /// Its process stops, for others.
    pub(crate) fn suspend(&mut self, turn: &mut Turn<'_>, key: &TaskKey) {
        let now = turn.now;
        if let Some(invocation) = self.tasks.suspend(turn.machine, (self.index, key), now) {
            let own = |limits: &mut Limits| limits.stopped(now);
            self.tasks.change_limits(key, invocation, own);
            let task = key.clone();
            turn.effect(Effect::Suspend { task, invocation });
        }
    }

    /// It goes on.
    pub(crate) fn resume(&mut self, turn: &mut Turn<'_>, key: &TaskKey) {
        let now = turn.now;
        if let Some(invocation) = self.tasks.resume(turn.machine, key, now) {
            let own = |limits: &mut Limits| limits.resumed(now);
            self.tasks.change_limits(key, invocation, own);
            let task = key.clone();
            turn.effect(Effect::Resume { task, invocation });
        }
    }

    /// One that is stopped goes on before it is told to end: else it would not hear it. The processors that it has then were given to others,
    /// who keep them.
    pub(crate) fn kill(
        &mut self,
        turn: &mut Turn<'_>,
        key: TaskKey,
        invocation: InvocationId,
        kill: Kill,
    ) {
        match kill.request.method {
            // It may take that for no reason to end, and is one that runs.
            KillMethod::Term => self.resume(turn, &key),
            KillMethod::TermWaitKill | KillMethod::Kill => {}
        }
        if self.tasks.note_kill(&key) {
            let now = turn.now;
            let own = |limits: &mut Limits| limits.resumed(now);
            self.tasks.change_limits(&key, invocation, own);
            let task = key.clone();
            turn.effect(Effect::Resume { task, invocation });
        }
        turn.effect(Effect::Kill {
            task: key,
            invocation,
            kill,
        });
    }
}
