//! The time of the next heartbeat. Heartbeats leave one period after the last sending, and sooner after a failure. They leave at once while
//! joining, when the scheduler may have restarted, after a healthcheck, and to echo a new set id.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::health::timeouts::MESSAGE_LIFE;
use brasserie_common::{CallId, Time};

use crate::timer::{EAGER_BURST, EAGER_INTERVAL, HEARTBEAT_RETRY};

/// The heartbeats of one association. At most one is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeats {
    period: Duration,
    in_flight: Option<Beat>,
    next_at: Time,
    haste: Haste,
    echo: EchoRight,
    /// The rate limit: the time when the full burst is available again. Each sending moves it forward by one interval.
    whole_at: Time,
    astray: Option<Astray>,
}

/// Heartbeats with unknown outcomes. A scheduler may have received one of them and associated the worker, or may still do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Astray {
    /// The earliest time at which one of them can have begun the association that a later answer is about.
    since: Time,
    /// The time after which none of them can arrive any more.
    until: Time,
}

/// The reason why the next heartbeat leaves as soon as the rate limit allows.
///
/// ```text
///          soon              connection lost
///   NONE ------> JOINING ----------------------> RESTARTED
///    ^  \           |        connection lost       ^   |
///    |   \----------|------------------------------/   |
///    |              | sent, failed, HEALTHY            | sent, failed
///    +--------------+----------------------------------+
///
///   NONE, JOINING --healthcheck, echo--> ASKED --connection lost--> RESTARTED
///   ASKED --sent, failed--> NONE
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Haste {
    None,
    /// Something changed that the scheduler must receive, or answer, before a joining worker is HEALTHY.
    Joining,
    /// The scheduler may wait for a heartbeat of a HEALTHY worker.
    Asked,
    /// The scheduler may have restarted. It then waits for a heartbeat even of a worker that considers itself HEALTHY.
    Restarted,
}

/// Whether a HEALTHY worker may send an extra heartbeat for a new set id in the last answer: one after each ordinary heartbeat and one
/// after each healthcheck. However often the set changes, extra heartbeats at most double the number.
///
/// ```text
///   FREE --extra heartbeat for a new set id--> USED --ordinary heartbeat, healthcheck--> FREE
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EchoRight {
    Free,
    /// The next ordinary heartbeat echoes the new set id.
    Used,
}

/// A heartbeat in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub call: CallId,
    pub sent: Time,
    deadline: Time,
}

impl Heartbeats {
    /// Creates the state for a worker that starts now. The first heartbeat leaves at once.
    pub(crate) fn new(now: Time, period: Duration) -> Self {
        Heartbeats {
            period,
            in_flight: None,
            next_at: now,
            haste: Haste::None,
            echo: EchoRight::Free,
            whole_at: now,
            astray: None,
        }
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns whether the heartbeat in flight is this call.
    pub(crate) fn waits_for(&self, call: CallId) -> bool {
        self.in_flight.is_some_and(|beat| beat.call == call)
    }

    /// Returns when the next heartbeat leaves, or when the one in flight times out.
    pub(crate) fn due(&self) -> Time {
        match (self.in_flight, self.haste) {
            (Some(beat), _) => beat.deadline,
            (None, Haste::Joining | Haste::Asked | Haste::Restarted) => {
                self.next_at.min(self.eager_at())
            }
            (None, Haste::None) => self.next_at,
        }
    }

    fn eager_at(&self) -> Time {
        self.whole_at - EAGER_INTERVAL * (EAGER_BURST - 1)
    }

    /// Requests a heartbeat as soon as the rate limit allows, after the one in flight has an outcome.
    pub(crate) fn soon(&mut self) {
        self.haste = match self.haste {
            Haste::None | Haste::Joining => Haste::Joining,
            Haste::Asked => Haste::Asked,
            Haste::Restarted => Haste::Restarted,
        };
    }

    /// Drops the haste of joining, because the worker is HEALTHY.
    pub(crate) fn no_hurry(&mut self) {
        self.haste = match self.haste {
            Haste::None | Haste::Joining => Haste::None,
            Haste::Asked => Haste::Asked,
            Haste::Restarted => Haste::Restarted,
        };
    }

    /// Requests a heartbeat after a healthcheck, which the scheduler may have sent to get the echo of its set id.
    pub(crate) fn healthcheck_acknowledged(&mut self) {
        self.echo = EchoRight::Free;
        self.asked();
    }

    /// Requests a heartbeat because the last answer had another set id. Other workers may wait until the scheduler knows that this one has
    /// it.
    pub(crate) fn new_set(&mut self) {
        match self.echo {
            EchoRight::Free => {
                self.echo = EchoRight::Used;
                self.asked();
            }
            EchoRight::Used => {}
        }
    }

    /// Requests a heartbeat as `soon` does, also for a HEALTHY worker.
    pub(crate) fn asked(&mut self) {
        self.haste = match self.haste {
            Haste::None | Haste::Joining | Haste::Asked => Haste::Asked,
            Haste::Restarted => Haste::Restarted,
        };
    }

    /// Requests a heartbeat as `soon` does, also for a HEALTHY worker. A heartbeat in flight does not count: its answer may be older than
    /// the loss.
    pub(crate) fn connection_lost(&mut self) {
        self.haste = Haste::Restarted;
    }

    /// Schedules the next heartbeat as after a failure, although no heartbeat has failed.
    pub(crate) fn doubted(&mut self, now: Time) {
        self.next_at = self.next_at.min(now + HEARTBEAT_RETRY);
    }

    pub(crate) fn sent(&mut self, now: Time, call: CallId, deadline: Time) {
        self.whole_at = self.whole_at.max(now) + EAGER_INTERVAL;
        if self.haste == Haste::None {
            self.echo = EchoRight::Free;
        }
        self.next_at = now + self.period;
        self.haste = Haste::None;
        self.in_flight = Some(Beat {
            call,
            sent: now,
            deadline,
        });
    }

    /// Takes the heartbeat that this outcome is for. `None` if it has timed out.
    pub(crate) fn take(&mut self, call: CallId) -> Option<Beat> {
        self.in_flight.take_if(|beat| beat.call == call)
    }

    /// Abandons the heartbeat in flight if it has timed out, and returns whether it has.
    pub(crate) fn give_up(&mut self, now: Time) -> bool {
        let given_up = self.in_flight.take_if(|beat| beat.deadline <= now);
        if let Some(beat) = given_up {
            self.went_astray(beat.sent);
        }
        given_up.is_some()
    }

    /// Records a heartbeat that a scheduler may have received.
    pub(crate) fn went_astray(&mut self, sent: Time) {
        let earlier = self.astray.filter(|astray| sent <= astray.until);
        self.astray = Some(Astray {
            since: earlier.map_or(sent, |astray| astray.since),
            until: sent + MESSAGE_LIFE,
        });
    }

    /// Handles the answer to the heartbeat that was sent at `sent`. Returns the earliest time at which the opinion in the answer can have
    /// begun. The scheduler counts from the receipt of the heartbeat that began the association. A later association begins after `sent`,
    /// even if a heartbeat that was sent earlier and arrives later begins it.
    pub(crate) fn settled(&mut self, sent: Time) -> Time {
        let astray = self.astray.filter(|astray| sent <= astray.until);
        self.astray = astray.map(|astray| Astray {
            since: sent,
            ..astray
        });
        astray.map_or(sent, |astray| astray.since)
    }

    pub(crate) fn failed(&mut self, now: Time) {
        self.haste = Haste::None;
        self.next_at = now + self.period.min(HEARTBEAT_RETRY);
    }

    /// Writes the state for fingerprints.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.opt(self.in_flight, |s, beat| {
            s.call(beat.call);
            s.time(beat.sent);
            s.deadline(beat.deadline);
        });
        s.deadline(self.next_at);
        s.put((self.haste, self.echo));
        // Once the burst is full, it does not matter since when.
        s.deadline(self.whole_at);
        s.opt(self.astray, |s, astray| {
            s.time(astray.since);
            s.deadline(astray.until);
        });
    }
}
