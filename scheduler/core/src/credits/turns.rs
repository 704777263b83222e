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
/// A look goes through all runs: so many of them take as long as all else.
const RUNS_A_TURN: usize = 100;
/// However many runs a request has, and however few turns there are.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// So much is looked at before something else has its turn: some ten milliseconds.
const MOST_AT_ONCE: u32 = 256;
/// Who comes when so much was looked at comes again so soon.
const PAUSE: Duration = Duration::from_millis(20);

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

/// How many turns a request takes that has so many runs to be gone through.
pub(super) fn turns_for(runs: usize) -> u32 {
    // There are far fewer runs than that.
    u32::try_from(runs / RUNS_A_TURN).unwrap_or(u32::MAX - 1) + 1
}

/// Turns at even distances. Who comes when all are taken is given one that is to come, and gets it whoever else comes then, if it comes in
/// time: so nobody starves, and those that were put off come back one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// The next one that is nobody's.
    next: Time,
    /// Turns that were used since something else had its turn.
    used: u32,
}

impl Turns {
    /// Takes turns of so many a second, 0: as many as come. Now, or else the first one that is to be waited for.
    pub(super) fn take(&mut self, now: Time, per_second: u32, turns: u32) -> Turn {
        let Some(length) = length_of(per_second, turns) else {
            return Turn::Now;
        };
        let oldest = Time::ZERO + now.since(Time::ZERO).saturating_sub(KEPT);
        let turn = self.next.max(oldest);
        if turn > now + FURTHEST {
            return Turn::Nobodys(now + FURTHEST);
        }
        self.next = turn + length;
        match turn <= now {
            true => self.begin(now, turns),
            false => Turn::Held(turn),
        }
    }

    /// Its turn has come, for which some were paid already; it may have more runs by now.
    pub(super) fn take_held(&mut self, now: Time, per_second: u32, turns: u32, paid: u32) -> Turn {
        if per_second == 0 {
            return Turn::Now;
        }
        let begun = self.begin(now, turns);
        if begun == Turn::Now {
            self.charge(per_second, turns.saturating_sub(paid));
        }
        begun
    }

    /// A look took so many more than were paid.
    pub(super) fn charge(&mut self, per_second: u32, turns: u32) {
        let length = length_of(per_second, turns);
        self.next = self.next + length.unwrap_or_default();
    }

    /// A single one is never too much.
    fn begin(&mut self, now: Time, turns: u32) -> Turn {
        if self.used >= MOST_AT_ONCE {
            return Turn::Held(now + PAUSE);
        }
        self.used = self.used.saturating_add(turns);
        Turn::Now
    }

    /// Something else has its turn.
    pub(crate) fn pass_on(&mut self) {
        self.used = 0;
    }

    /// For fingerprints: when somebody would have to wait.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// For fingerprints.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }
}

fn length_of(per_second: u32, turns: u32) -> Option<Duration> {
    let distance = Duration::from_secs(1).checked_div(per_second)?;
    Some(distance.saturating_mul(turns).min(LONGEST_LOOK))
}
