//! The limit on accepted requests of all workers together.

use std::time::Duration;

use brasserie_common::Time;

/// How long unused turns are kept, so that workers that come at once after a quiet time need not wait.
const KEPT: Duration = Duration::from_secs(1);
/// The furthest turn that is reserved. Beyond it a peer invents requests, and the answer to each request says to come again, without a
/// reservation.
const FURTHEST: Duration = Duration::from_secs(600);
/// How long after its time a turn stays reserved, so that workers that were unreachable do not return all at once. Long enough for a
/// message, and for a worker that counts whole seconds.
const HELD: Duration = Duration::from_secs(2);
/// The number of runs whose check takes as long as the rest of an evaluation.
const RUNS_A_TURN: usize = 100;
/// The longest time that one request takes from others, however many runs it has and however few turns there are.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// The most turns that are used before other events are handled: some ten milliseconds.
const MOST_AT_ONCE: u32 = 256;
/// The delay of a request that comes after these.
const PAUSE: Duration = Duration::from_millis(20);

/// The turn of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestTurn {
    Now,
    /// The request has a reserved turn at this time.
    Held(Time),
    /// The request has no turn, and must come again at this time.
    Nobodys(Time),
}

impl RequestTurn {
    /// Returns the turn of a worker that has reserved one; `None` if it was lost.
    pub(super) fn held(now: Time, turn: Time) -> Option<Self> {
        match turn > now {
            true => Some(RequestTurn::Held(turn)),
            false => (now.since(turn) <= HELD).then_some(RequestTurn::Now),
        }
    }
}

/// Returns how many turns a request takes that needs a check of this many runs.
pub(super) fn turns_for(runs: usize) -> u32 {
    // There are far fewer runs than that.
    u32::try_from(runs / RUNS_A_TURN).unwrap_or(u32::MAX - 1) + 1
}

/// Turns at even distances. A request that comes when all are taken reserves a later one, and gets it if it comes in time, whatever other
/// requests come. So no worker starves, and deferred requests come back one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// The next free turn.
    next: Time,
    /// The turns used since other events were handled.
    used: u32,
}

impl Turns {
    /// Takes turns, of which there are `per_second` (0: no limit). Returns whether the request is accepted now, or the turn to wait for.
    pub(super) fn take(&mut self, now: Time, per_second: u32, turns: u32) -> RequestTurn {
        let Some(length) = length_of(per_second, turns) else {
            return RequestTurn::Now;
        };
        let oldest = Time::ZERO + now.since(Time::ZERO).saturating_sub(KEPT);
        let turn = self.next.max(oldest);
        if turn > now + FURTHEST {
            return RequestTurn::Nobodys(now + FURTHEST);
        }
        self.next = turn + length;
        match turn <= now {
            true => self.begin(now, turns),
            false => RequestTurn::Held(turn),
        }
    }

    /// Uses a reserved turn, for which `paid` turns were taken already. The worker may have more runs by now.
    pub(super) fn take_held(
        &mut self,
        now: Time,
        per_second: u32,
        turns: u32,
        paid: u32,
    ) -> RequestTurn {
        if per_second == 0 {
            return RequestTurn::Now;
        }
        let begun = self.begin(now, turns);
        if begun == RequestTurn::Now {
            self.charge(per_second, turns.saturating_sub(paid));
        }
        begun
    }

    /// Charges turns that an evaluation took beyond those that were paid.
    pub(super) fn charge(&mut self, per_second: u32, turns: u32) {
        let length = length_of(per_second, turns);
        self.next = self.next + length.unwrap_or_default();
    }

    /// Begins an evaluation. A single one is never too long.
    fn begin(&mut self, now: Time, turns: u32) -> RequestTurn {
        if self.used >= MOST_AT_ONCE {
            return RequestTurn::Held(now + PAUSE);
        }
        self.used = self.used.saturating_add(turns);
        RequestTurn::Now
    }

    /// Notes that other events were handled.
    pub(crate) fn pass_on(&mut self) {
        self.used = 0;
    }

    /// Returns the next free turn, for fingerprints.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// Returns the used turns, for fingerprints.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }
}

fn length_of(per_second: u32, turns: u32) -> Option<Duration> {
    let distance = Duration::from_secs(1).checked_div(per_second)?;
    Some(distance.saturating_mul(turns).min(LONGEST_LOOK))
}
