//! Preemption: stops tasks in favour of others, resumes them later, and kills stopped tasks.
//!
//! A stopped task keeps its process, GPUs, memory and slots at the scheduler; only its processors are free. To the scheduler, it is
//! running.

use brasserie_common::{InvocationId, Kill, KillMethod, TaskKey};

use crate::association::Association;
use crate::effect::Effect;
use crate::limits::Limits;
use crate::turn::Turn;

impl Association {
    /// Stops the task's process in favour of others.
    pub(crate) fn suspend(&mut self, turn: &mut Turn<'_>, key: &TaskKey) {
        let now = turn.now;
        if let Some(invocation) = self.tasks.suspend(turn.machine, (self.index, key), now) {
            let own = |limits: &mut Limits| limits.stopped(now);
            self.tasks.change_limits(key, invocation, own);
            let task = key.clone();
            turn.effect(Effect::Suspend { task, invocation });
        }
    }

    /// Resumes the task's process.
    pub(crate) fn resume(&mut self, turn: &mut Turn<'_>, key: &TaskKey) {
        let now = turn.now;
        if let Some(invocation) = self.tasks.resume(turn.machine, key, now) {
            let own = |limits: &mut Limits| limits.resumed(now);
            self.tasks.change_limits(key, invocation, own);
            let task = key.clone();
            turn.effect(Effect::Resume { task, invocation });
        }
    }

    /// Kills a run. Resumes a stopped process before the signal, because a stopped process does not handle it. Other tasks keep the
    /// processors that they got in its place.
    pub(crate) fn kill(
        &mut self,
        turn: &mut Turn<'_>,
        key: TaskKey,
        invocation: InvocationId,
        kill: Kill,
    ) {
        match kill.request.method {
            // The task may ignore TERM and continue, so it counts as executing again.
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
