//! When the next heartbeat leaves: each period counted from the last sending, sooner after a failure, at once while joining,
//! when the scheduler may have restarted, after a healthcheck, and to send back a new set id.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{CallId, Time};

use crate::timer::{EAGER_BURST, EAGER_INTERVAL, HEARTBEAT_RETRY, MESSAGE_LIFE};

/// One association's heartbeats; at most one is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeats {
    period: Duration,
    in_flight: Option<Beat>,
    next_at: Time,
    haste: Haste,
    echo: EchoRight,
    /// Rate limit: when the burst would be whole again; each sending moves it on by one interval.
    whole_at: Time,
    astray: Option<Astray>,
}

/// Heartbeats whose outcome is not known: a scheduler may have received one of them, and associated the worker, or may yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Astray {
    /// None of them has made an association earlier than this that a later answer could be about.
    since: Time,
    /// Afterwards none of them can arrive any more.
    until: Time,
}

/// Why the next one should leave as soon as the rate limit allows.
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
    /// Something changed that the scheduler should hear, or answer, before a joining worker is HEALTHY.
    Joining,
    /// Somebody may wait for what a HEALTHY worker has to say.
    Asked,
    /// The scheduler may be another one: it waits for each worker, however healthy that thinks it is.
    Restarted,
}

/// Whether a HEALTHY worker may send an extra heartbeat for a new set id in the last answer: one after each ordinary heartbeat
/// and after each healthcheck. However often the set changes, there are at most twice as many heartbeats as without.
///
/// ```text
///   FREE --extra heartbeat for a new set id--> USED --ordinary heartbeat, healthcheck--> FREE
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EchoRight {
    Free,
    /// The next ordinary heartbeat will say it.
    Used,
}

/// A heartbeat on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) call: CallId,
    pub(crate) sent: Time,
    deadline: Time,
}

impl Heartbeats {
    /// The first one leaves at once.
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

    /// Whether it is this call.
    pub(crate) fn waits_for(&self, call: CallId) -> bool {
        self.in_flight.is_some_and(|beat| beat.call == call)
    }

    /// When the next one leaves, or the one on its way is given up.
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

    /// As soon as the rate limit allows, and after the one on its way has come back.
    pub(crate) fn soon(&mut self) {
        self.haste = match self.haste {
            Haste::None | Haste::Joining => Haste::Joining,
            Haste::Asked => Haste::Asked,
            Haste::Restarted => Haste::Restarted,
        };
    }

    /// The worker is HEALTHY: joining is no reason for haste any more.
    pub(crate) fn no_hurry(&mut self) {
        self.haste = match self.haste {
            Haste::None | Haste::Joining => Haste::None,
            Haste::Asked => Haste::Asked,
            Haste::Restarted => Haste::Restarted,
        };
    }

    /// A healthcheck may have come for the sake of the answer's echo.
    pub(crate) fn healthcheck_acknowledged(&mut self) {
        self.echo = EchoRight::Free;
        self.asked();
    }

    /// The last answer brought another set id: others may wait until the scheduler knows that this worker has it.
    pub(crate) fn new_set(&mut self) {
        match self.echo {
            EchoRight::Free => {
                self.echo = EchoRight::Used;
                self.asked();
            }
            EchoRight::Used => {}
        }
    }

    /// As `soon`, also for a HEALTHY worker.
    pub(crate) fn asked(&mut self) {
        self.haste = match self.haste {
            Haste::None | Haste::Joining | Haste::Asked => Haste::Asked,
            Haste::Restarted => Haste::Restarted,
        };
    }

    /// As `soon`, also for a HEALTHY worker. One on its way does not count: its answer may have come before the loss.
    pub(crate) fn connection_lost(&mut self) {
        self.haste = Haste::Restarted;
    }

    /// Like after a failure, though none of ours has failed.
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

    /// The heartbeat that this outcome is for, unless it was given up before.
    pub(crate) fn take(&mut self, call: CallId) -> Option<Beat> {
        self.in_flight.take_if(|beat| beat.call == call)
    }

    /// Whether the one on its way has just been given up.
    pub(crate) fn give_up(&mut self, now: Time) -> bool {
        let given_up = self.in_flight.take_if(|beat| beat.deadline <= now);
        if let Some(beat) = given_up {
            self.went_astray(beat.sent);
        }
        given_up.is_some()
    }

    /// Somebody may have received it.
    pub(crate) fn went_astray(&mut self, sent: Time) {
        let earlier = self.astray.filter(|astray| sent <= astray.until);
        self.astray = Some(Astray {
            since: earlier.map_or(sent, |astray| astray.since),
            until: sent + MESSAGE_LIFE,
        });
    }

    /// A heartbeat was answered. Gives the earliest time at which the opinion in the answer can have begun, whose clock runs on
    /// the scheduler from the receipt of whichever heartbeat made it. What follows began after this answer, whatever of the
    /// earlier ones arrives yet.
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

    /// For fingerprints.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.opt(self.in_flight, |s, beat| {
            s.call(beat.call);
            s.time(beat.sent);
            s.deadline(beat.deadline);
        });
        s.deadline(self.next_at);
        s.put((self.haste, self.echo));
        // A burst that is whole is whole however long ago.
        s.deadline(self.whole_at);
        s.opt(self.astray, |s, astray| {
            s.time(astray.since);
            s.deadline(astray.until);
        });
    }
}
