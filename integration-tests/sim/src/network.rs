//! The network between machines: the delay of each packet, whether it arrives, and the outcome that its sender learns.

use std::time::Duration;

use brasserie_common::Time;

use crate::dice::Dice;
use crate::event_log::{FaultKind, MachineId};

/// The longest life of a packet. It is below the 600 s for which a worker remembers invocations, with a margin for clock drift.
pub const LONGEST_LIFE: Duration = Duration::from_secs(560);

/// The faults of the network in a run. Probabilities are in parts per thousand per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFaults {
    pub lose_request: u32,
    pub lose_reply: u32,
    pub slow_packet: u32,
    pub duplicate: u32,
    pub late_duplicate: u32,
    pub refuse: u32,
    /// The usual one-way delay.
    pub delay: Duration,
    /// The longest delay of a slow packet.
    pub slow: Duration,
}

impl NetworkFaults {
    /// A small delay and no faults.
    pub const NONE: NetworkFaults = NetworkFaults {
        lose_request: 0,
        lose_reply: 0,
        slow_packet: 0,
        duplicate: 0,
        late_duplicate: 0,
        refuse: 0,
        delay: Duration::from_millis(1),
        slow: Duration::from_millis(1),
    };
}

/// One direction between two machines.
#[derive(Clone, Copy, Debug, Default)]
struct LinkDirection {
    /// No packet passes before this time.
    blocked_until: Time,
    slow_until: Time,
    extra: Duration,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFate {
    /// Arrives after this time, and again after the second time if there is one.
    Arrives {
        after: Duration,
        again: Option<Duration>,
    },
    /// Is not sent. The caller learns that after this time.
    NotSent { known: Duration },
    /// Is lost. The caller notices a broken connection after this time, or waits for its timeout.
    Lost { broken: Option<Duration> },
}

/// The fate of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFate {
    Arrives { after: Duration },
    Lost { broken: Option<Duration> },
}

/// All links.
#[derive(Clone, Debug)]
pub struct Network {
    machines: usize,
    links: Vec<LinkDirection>,
    pub faults: NetworkFaults,
    last_arrival: Time,
    old_until: Time,
    dice: Dice,
}

impl Network {
    pub fn new(machines: usize, faults: NetworkFaults, dice: Dice) -> Self {
        Network {
            machines,
            links: vec![LinkDirection::default(); machines * machines],
            faults,
            last_arrival: Time::ZERO,
            old_until: Time::ZERO,
            dice,
        }
    }

    fn link(&self, from: MachineId, to: MachineId) -> &LinkDirection {
        &self.links[usize::from(from.0) * self.machines + usize::from(to.0)]
    }

    fn link_mut(&mut self, from: MachineId, to: MachineId) -> &mut LinkDirection {
        &mut self.links[usize::from(from.0) * self.machines + usize::from(to.0)]
    }

    /// Blocks this direction until the given time.
    pub fn block(&mut self, from: MachineId, to: MachineId, until: Time) {
        let link = self.link_mut(from, to);
        link.blocked_until = link.blocked_until.max(until);
    }

    /// Delays packets in this direction until the given time.
    pub fn slow_down(&mut self, from: MachineId, to: MachineId, extra: Duration, until: Time) {
        let link = self.link_mut(from, to);
        link.extra = extra;
        link.slow_until = link.slow_until.max(until);
    }

    pub fn is_blocked(&self, now: Time, from: MachineId, to: MachineId) -> bool {
        now < self.link(from, to).blocked_until
    }

    /// Ends every network fault. Packets under way may still be late: see [`Network::old_until`].
    pub fn heal(&mut self) {
        self.old_until = self.last_arrival;
        self.links.fill(LinkDirection::default());
        self.faults = NetworkFaults {
            delay: self.faults.delay,
            ..NetworkFaults::NONE
        };
    }

    /// Returns when the last packet sent before [`Network::heal`] arrives.
    pub fn old_until(&self) -> Time {
        self.old_until
    }

    fn arrives(&mut self, at: Time) {
        self.last_arrival = self.last_arrival.max(at);
    }

    fn delay(
        &mut self,
        now: Time,
        from: MachineId,
        to: MachineId,
        seen: &mut Vec<FaultKind>,
    ) -> Duration {
        let link = *self.link(from, to);
        let usual = self
            .dice
            .skewed(self.faults.delay / 4, self.faults.delay * 4);
        let extra = if now < link.slow_until {
            self.dice.around(link.extra)
        } else {
            Duration::ZERO
        };
        let slow = if self.dice.per_mille(self.faults.slow_packet) {
            seen.push(FaultKind::SlowPacket);
            self.dice.skewed(Duration::ZERO, self.faults.slow)
        } else {
            Duration::ZERO
        };
        (usual + extra + slow).min(LONGEST_LIFE)
    }

    /// Returns when the connection breaks; `None` if the caller does not notice.
    fn breaks(&mut self) -> Option<Duration> {
        self.dice.per_mille(500).then(|| {
            self.dice
                .skewed(Duration::from_millis(1), Duration::from_secs(2))
        })
    }

    pub fn request(
        &mut self,
        now: Time,
        from: MachineId,
        to: MachineId,
        seen: &mut Vec<FaultKind>,
    ) -> RequestFate {
        let there = self.is_blocked(now, from, to);
        let back = self.is_blocked(now, to, from);
        // Half of the calls need a new connection, and opening one needs both directions.
        if (there || back) && self.dice.per_mille(500) {
            let known = Duration::from_millis(250);
            return RequestFate::NotSent { known };
        }
        if there {
            let broken = self.breaks();
            return RequestFate::Lost { broken };
        }
        if self.dice.per_mille(self.faults.refuse) {
            seen.push(FaultKind::ConnectionRefused);
            let known = Duration::from_millis(1);
            return RequestFate::NotSent { known };
        }
        if self.dice.per_mille(self.faults.lose_request) {
            seen.push(FaultKind::RequestLost);
            let broken = self.breaks();
            return RequestFate::Lost { broken };
        }
        let after = self.delay(now, from, to, seen);
        let again = if self.dice.per_mille(self.faults.duplicate) {
            seen.push(FaultKind::DuplicateRequest);
            let most = self.faults.delay * 8;
            Some(after + self.dice.between(Duration::ZERO, most))
        } else if self.dice.per_mille(self.faults.late_duplicate) {
            seen.push(FaultKind::LateDuplicate);
            Some(after + self.dice.between(Duration::from_secs(1), LONGEST_LIFE))
        } else {
            None
        };
        let again = again.map(|d| d.min(LONGEST_LIFE));
        self.arrives(now + again.unwrap_or(after).max(after));
        RequestFate::Arrives { after, again }
    }

    pub fn reply(
        &mut self,
        now: Time,
        from: MachineId,
        to: MachineId,
        seen: &mut Vec<FaultKind>,
    ) -> ReplyFate {
        if self.is_blocked(now, from, to) {
            let broken = self.breaks();
            return ReplyFate::Lost { broken };
        }
        if self.dice.per_mille(self.faults.lose_reply) {
            seen.push(FaultKind::ReplyLost);
            let broken = self.breaks();
            return ReplyFate::Lost { broken };
        }
        let after = self.delay(now, from, to, seen);
        self.arrives(now + after);
        ReplyFate::Arrives { after }
    }
}
