//! Waits that keep tasks from starting while a run that the scheduler cannot see may be alive.

pub mod initial_wait;
pub mod safety;

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Time, Timeouts};

/// The last pause of the scheduler. Messages that workers sent during a pause may not have been read yet, so the silence of workers counts
/// from the end of the pause at the earliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    /// The end of the last pause. A start is no pause: the initial wait knows what earlier schedulers may have received.
    last_end: Option<Time>,
    last_turn: Time,
    /// The time between two turns above which it was a pause: a quarter of the loss time. A turn is due after half of this.
    longest_gap: Duration,
}

impl Pauses {
    pub(crate) fn new(now: Time, ours: Timeouts) -> Self {
        Pauses {
            last_end: None,
            last_turn: now,
            longest_gap: ours.lose_unhealthy_worker_after / 4,
        }
    }

    pub(crate) fn turn(&mut self, now: Time) {
        if now > self.last_turn + self.longest_gap && !sabotage::on(Sabotage::ForgetAfterAPause) {
            self.last_end = Some(now);
        }
        self.last_turn = now;
    }

    /// Returns the end of the last pause.
    pub(crate) fn last_end(self) -> Option<Time> {
        self.last_end
    }

    pub(crate) fn next_turn(self) -> Time {
        self.last_turn + self.longest_gap / 2
    }
}
