//! Tasks that a worker turned down, as it chooses cards and had none for them: they took nothing, so others may be sent in their place.
//!
//! Such a worker says how many instances are idle, and this may be parts of several cards. Who needs a whole one is sent for them all
//! the same, and turned down. It would be sent again and again, each time with all that is left, so it stays away for a while.

use std::time::Duration;

use brasserie_common::{CardChoice, InvocationId, Processor, Time};

use super::amounts::{Class, Piece, sound};
use super::{Amounts, Credits, Request, Wanted};

/// How long it stays away if nothing ends there. Other schedulers of the worker may have tasks there whose ends nobody tells.
const KEEPS_AWAY: Duration = Duration::from_secs(5);

/// What a task took off the newest request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revocable {
    pub(super) processor: Processor,
    pub(super) usage: f64,
    /// Seconds of one instance.
    pub(super) work: f64,
    pub(super) sending: Sending,
}

/// For which request it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sending {
    ForNewest,
    /// It was on its way when that came.
    Before,
}

impl Revocable {
    pub(super) fn new(piece: &Piece<'_>, sending: Sending) -> Self {
        Revocable {
            processor: piece.processor().clone(),
            usage: piece.usage(),
            work: piece.work(),
            sending,
        }
    }
}

impl Credits {
    /// A run certainly never began, as its worker chooses cards and had none for it: all that it took is there again, for others. Whether
    /// such tasks are to stay away for a while.
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

    /// Something ended there: what was turned down may be sent again. Whether anything was.
    pub fn forget_turned_down(&mut self) -> bool {
        self.keeps_away.take().is_some()
    }

    /// The same once that is long enough ago.
    pub fn expire_turned_down(&mut self, now: Time) -> bool {
        self.keeps_away.is_some_and(|until| until <= now) && self.forget_turned_down()
    }
}

impl Request {
    /// One that may wait is turned down when there is too much to do in any case.
    pub(super) fn may_be_turned_down(&self, piece: &Piece<'_>) -> bool {
        let takes_cards = *piece.processor() != Processor::Cpu;
        self.cards == CardChoice::Worker && piece.class() == Class::Immediate && takes_cards
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
        if of_type.wanted == Wanted::Coming && of_type.amounts.are_left() {
            of_type.wanted = Wanted::Something;
        }
    }
}

impl Amounts {
    /// Sums of floats may come out a little higher than they began: never above what was asked for.
    fn take_back(&mut self, took: &Revocable) {
        self.secs = (self.secs + took.work).min(self.asked.secs);
        self.instances = (self.instances + took.usage).min(self.asked.instances);
        self.idle = self.idle.max((self.idle + took.usage).min(self.there));
        self.delay = sound(self.delay - took.work / self.there).max(self.asked.delay);
    }
}
