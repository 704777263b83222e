//! How many requests of all workers together are looked at.

use std::time::Duration;

use brasserie_common::Time;

/// Turns that nobody took stay for this long: so workers that come at once after a quiet time need not wait.
const KEPT: Duration = Duration::from_secs(1);
/// No turn is given that is further away: then somebody invents requests, and each is told to come again and take its chance.
const FURTHEST: Duration = Duration::from_secs(600);

/// Turns at even distances. Who comes when all are taken is given one that is to come, and gets it whoever else comes then: so nobody
/// starves, and those that were put off come back one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// The next one that is nobody's.
    next: Time,
}

impl Turns {
    /// Takes a turn of so many a second, 0: as many as come. Now, or else the one that is to be waited for.
    pub(super) fn take(&mut self, now: Time, per_second: u32) -> Result<(), Time> {
        let Some(distance) = Duration::from_secs(1).checked_div(per_second) else {
            return Ok(());
        };
        let oldest = Time::ZERO + now.since(Time::ZERO).saturating_sub(KEPT);
        let turn = self.next.max(oldest);
        if turn > now + FURTHEST {
            return Err(now + FURTHEST);
        }
        self.next = turn + distance;
        match turn <= now {
            true => Ok(()),
            false => Err(turn),
        }
    }

    /// For fingerprints: when somebody would have to wait.
    pub(crate) fn next(&self) -> Time {
        self.next
    }
}
