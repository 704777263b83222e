//! Tasks that a worker refused because it chooses GPUs and had none free for them. They used nothing, so others may be sent instead.
//!
//! Such a worker reports how many instances are idle, which may be parts of several GPUs. A task that needs a whole GPU is sent
//! nevertheless, and refused. It would be sent again and again, each time with all that is left, so such tasks are not sent for a while.

use std::time::Duration;

use brasserie_common::{CardChoice, InvocationId, Processor, Time};

use super::amounts::{Amounts, sound};
use super::{CreditRequest, Credits, TaskClass, TaskWork, TypeDemand};

/// How long such tasks are not sent if no run ends there. Other schedulers of the worker may have tasks there whose ends are unknown here.
const KEEPS_AWAY: Duration = Duration::from_secs(5);

/// The amounts that a task took off the newest request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revocable {
    pub processor: Processor,
    pub usage: f64,
    /// Instance-seconds.
    pub work: f64,
    pub sending: Sending,
}

/// The request for which a task was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sending {
    ForNewest,
    /// The task was on its way when the newest request came.
    Before,
}

impl Revocable {
    pub(super) fn new(task_work: &TaskWork<'_>, sending: Sending) -> Self {
        Revocable {
            processor: task_work.processor().clone(),
            usage: task_work.usage(),
            work: task_work.work(),
            sending,
        }
    }
}

impl Credits {
    /// Returns all amounts of a run that certainly never began, because its worker chooses GPUs and had none free. Returns whether similar
    /// tasks must not be sent for a while.
    pub fn turned_down(&mut self, now: Time, run: InvocationId) -> bool {
        let Some(took) = self.revocable.remove(&run) else {
            return false;
        };
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.is_good(now)) {
            newest.take_back(&took);
        }
        self.keeps_away.get_or_insert(now + KEEPS_AWAY);
        true
    }

    /// Permits refused tasks again after a run has ended there. Returns whether any were refused.
    pub fn forget_turned_down(&mut self) -> bool {
        self.keeps_away.take().is_some()
    }

    /// Does the same after enough time has passed.
    pub fn expire_turned_down(&mut self, now: Time) -> bool {
        self.keeps_away.is_some_and(|until| until <= now) && self.forget_turned_down()
    }
}

impl CreditRequest {
    /// Returns whether the worker may refuse the task for want of GPUs. A bufferable task is refused only when the worker has too much work
    /// in any case.
    pub(super) fn may_be_turned_down(&self, task_work: &TaskWork<'_>) -> bool {
        let takes_cards = *task_work.processor() != Processor::Cpu;
        self.cards == CardChoice::Worker && task_work.class() == TaskClass::Immediate && takes_cards
    }

    fn take_back(&mut self, took: &Revocable) {
        match took.sending {
            Sending::ForNewest => self.tasks_left = self.tasks_left.saturating_add(1),
            Sending::Before => {}
        }
        let Some(of_type) = self.of_mut(&took.processor) else {
            return;
        };
        of_type.amounts.take_back(took);
        if of_type.wanted == TypeDemand::Coming && of_type.amounts.are_left() {
            of_type.wanted = TypeDemand::Something;
        }
    }
}

impl Amounts {
    /// Returns the amounts. Sums of floats may exceed their start a little, so each is limited to the requested amount.
    fn take_back(&mut self, took: &Revocable) {
        self.secs = (self.secs + took.work).min(self.asked.secs);
        self.instances = (self.instances + took.usage).min(self.asked.instances);
        self.idle = self.idle.max((self.idle + took.usage).min(self.there));
        self.delay = sound(self.delay - took.work / self.there).max(self.asked.delay);
    }
}
