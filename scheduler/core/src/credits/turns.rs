//! How many requests of all workers together are looked at.

use std::time::Duration;

use brasserie_common::Time;

/// Turns that nobody took stay for this long: so workers that come at once after a quiet time need not wait.
const KEPT: Duration = Duration::from_secs(1);
/// No turn is given that is further away: then somebody invents requests, and each is told to come again and take its chance.
const FURTHEST: Duration = Duration::from_secs(600);
/// Who comes later than this after its turn has lost it: workers that were cut off do not come back all in one turn. Long enough for a
/// message, and for a worker that counts whole seconds.
const HELD: Duration = Duration::from_secs(2);

/// What becomes of who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// It has one that is to come.
    Held(Time),
    /// It has none, and is to come again then.
    Nobodys(Time),
}

impl Turn {
    /// Of who was given one before.
    pub(super) fn held(now: Time, turn: Time) -> Option<Self> {
        match turn > now {
            true => Some(Turn::Held(turn)),
            false => (now.since(turn) <= HELD).then_some(Turn::Now),
        }
    }
}

/// Turns at even distances. Who comes when all are taken is given one that is to come, and gets it whoever else comes then, if it comes in
/// time: so nobody starves, and those that were put off come back one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// The next one that is nobody's.
    next: Time,
}

impl Turns {
    /// Takes a turn of so many a second, 0: as many as come. Now, or else the one that is to be waited for.
    pub(super) fn take(&mut self, now: Time, per_second: u32) -> Turn {
        let Some(distance) = Duration::from_secs(1).checked_div(per_second) else {
            return Turn::Now;
        };
        let oldest = Time::ZERO + now.since(Time::ZERO).saturating_sub(KEPT);
        let turn = self.next.max(oldest);
        if turn > now + FURTHEST {
            return Turn::Nobodys(now + FURTHEST);
        }
        self.next = turn + distance;
        match turn <= now {
            true => Turn::Now,
            false => Turn::Held(turn),
        }
    }

    /// For fingerprints: when somebody would have to wait.
    pub(crate) fn next(&self) -> Time {
        self.next
    }
}
