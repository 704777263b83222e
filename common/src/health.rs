//! The health of a worker instance within one association. Both sides run this model with the scheduler's timeouts, so that a worker that
//! is cut off stops itself before its tasks are given away.

pub mod timeouts;

use std::hash::Hasher;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Shape;
use crate::time::Time;

/// ```text
///          tasks fetched            fresh heartbeat and healthcheck, permitted
///   NEW ----------------> UNHEALTHY <------------------------------> HEALTHY
///    |   (worker: state in      |         either one too old
///    |    a heartbeat reply)    |
///    +---------> MUST_DIE <-----+   not HEALTHY for the loss time; absorbing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// The association has begun; the worker's running tasks are not known yet.
    #[serde(rename = "joining")]
    New,
    /// A heartbeat and a healthcheck are fresh: tasks may start.
    Healthy,
    /// Running tasks are known, but nothing may start.
    Unhealthy,
    /// Lost: its tasks are given away, and it may only end itself.
    #[serde(rename = "lost")]
    MustDie,
}

impl Health {
    /// Returns the number on the wire.
    pub fn to_wire(self) -> i32 {
        match self {
            Health::New => 0,
            Health::Healthy => 1,
            Health::Unhealthy => 2,
            Health::MustDie => 3,
        }
    }

    pub fn from_wire(number: i32) -> Option<Self> {
        [
            Health::New,
            Health::Healthy,
            Health::Unhealthy,
            Health::MustDie,
        ]
        .into_iter()
        .find(|h| h.to_wire() == number)
    }

    /// Returns the lower-case word that logs, tables and the status document use.
    pub fn word(self) -> &'static str {
        match self {
            Health::New => "joining",
            Health::Healthy => "healthy",
            Health::Unhealthy => "unhealthy",
            Health::MustDie => "lost",
        }
    }

    /// Returns the name in `thrift/PROTOCOL.md`.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::New => "NEW",
            Health::Healthy => "HEALTHY",
            Health::Unhealthy => "UNHEALTHY",
            Health::MustDie => "MUST_DIE",
        }
    }
}

/// The three gaps of the model, as one side applies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    pub max_healthcheck: Duration,
    pub max_heartbeat: Duration,
    /// How long a worker may be other than HEALTHY.
    pub lose_after: Duration,
}

/// Whether a worker with fresh evidence may become HEALTHY for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstHealth {
    Permitted,
    /// Withheld by worker-set consensus, or because the instance record is not durable yet.
    Withheld,
}

/// The result of [`HealthModel::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub health: Health,
    /// Only [`FirstHealth::Withheld`] prevents HEALTHY. The worker is not lost for that.
    pub only_withheld: bool,
}

/// One side's knowledge of one worker instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthModel {
    health: Health,
    became_unhealthy: Time,
    last_good_healthcheck: Option<Time>,
    last_heartbeat: Option<Time>,
    has_been_healthy: bool,
    /// Used on the scheduler only, see [`HealthModel::acknowledged_healthcheck`].
    last_acknowledged: Option<Time>,
}

impl HealthModel {
    /// Creates the model of a new association.
    pub fn new(now: Time) -> Self {
        HealthModel {
            health: Health::New,
            became_unhealthy: now,
            last_good_healthcheck: None,
            last_heartbeat: None,
            has_been_healthy: false,
            last_acknowledged: None,
        }
    }

    pub fn health(&self) -> Health {
        self.health
    }

    pub fn has_been_healthy(&self) -> bool {
        self.has_been_healthy
    }

    /// Returns the time since which the worker has been other than HEALTHY. Meaningless while it is HEALTHY.
    pub fn became_unhealthy(&self) -> Time {
        self.became_unhealthy
    }

    /// Returns how long the worker has counted towards its loss; `None` if it does not.
    pub fn not_healthy_for(&self, now: Time) -> Option<Duration> {
        match self.health {
            Health::New | Health::Unhealthy => Some(now.since(self.became_unhealthy)),
            Health::Healthy | Health::MustDie => None,
        }
    }

    pub fn last_heartbeat(&self) -> Option<Time> {
        self.last_heartbeat
    }

    pub fn last_good_healthcheck(&self) -> Option<Time> {
        self.last_good_healthcheck
    }

    /// Returns the latest acceptance time passed to [`HealthModel::acknowledged_healthcheck`]. On the scheduler only.
    pub fn last_acknowledged_healthcheck(&self) -> Option<Time> {
        self.last_acknowledged
    }

    /// Records a heartbeat: by its sending on the worker, by its receipt on the scheduler, so that the worker's timer ends first.
    pub fn heartbeat(&mut self, at: Time) {
        self.last_heartbeat = self.last_heartbeat.max(Some(at));
    }

    /// Records a healthcheck that began at `at` and succeeded.
    pub fn good_healthcheck(&mut self, at: Time) {
        self.last_good_healthcheck = self.last_good_healthcheck.max(Some(at));
    }

    /// Records that the scheduler acknowledges a healthcheck which the worker accepted at `at` or before.
    ///
    /// The worker counts an acknowledged healthcheck from its acceptance. The scheduler counts it from its sending, or not at all if it has
    /// forgotten the check, and the request may have been under way for long. So the worker may believe itself healthy longer than the
    /// scheduler does. The scheduler must not count the loss from before that belief ends: see `believed_until`.
    pub fn acknowledged_healthcheck(&mut self, at: Time) {
        self.last_acknowledged = self.last_acknowledged.max(Some(at));
    }

    /// Returns the time until which the worker may have fresh evidence. It has no heartbeat later than the scheduler's.
    fn believed_until(&self, gaps: Gaps) -> Time {
        let both = self.last_acknowledged.zip(self.last_heartbeat);
        both.map_or(Time::ZERO, |(check, beat)| {
            (check + gaps.max_healthcheck).min(beat + gaps.max_heartbeat)
        })
    }

    /// Returns the last moment at which the worker is not lost, if it is not HEALTHY by then. In the same states the worker acts as
    /// follows:
    /// * Never HEALTHY before: it counts from the beginning, and lives on while its evidence is fresh.
    /// * HEALTHY before: it counts from the end of its fresh evidence, or from an earlier word of the scheduler.
    /// * NEW: it counts from the beginning, or from the answer that said NEW again.
    pub fn lost_after(&self, gaps: Gaps) -> Time {
        let believed = self.believed_until(gaps);
        match self.health {
            Health::Healthy | Health::Unhealthy if self.has_been_healthy => {
                self.became_unhealthy.max(believed) + gaps.lose_after
            }
            Health::Healthy | Health::Unhealthy => {
                (self.became_unhealthy + gaps.lose_after).max(believed)
            }
            Health::New | Health::MustDie => self.became_unhealthy + gaps.lose_after,
        }
    }

    /// Returns the model's verdict at `now` without adopting it.
    pub fn next(&self, now: Time, gaps: Gaps, first: FirstHealth) -> Verdict {
        let stale = |last: Option<Time>, gap| last.is_none_or(|at| now > at + gap);
        let mut only_withheld = false;
        let health = match self.health {
            Health::MustDie => {
                return Verdict {
                    health: Health::MustDie,
                    only_withheld,
                };
            }
            Health::New => Health::New,
            Health::Healthy | Health::Unhealthy => {
                if stale(self.last_good_healthcheck, gaps.max_healthcheck)
                    || stale(self.last_heartbeat, gaps.max_heartbeat)
                {
                    Health::Unhealthy
                } else if first == FirstHealth::Withheld && !self.has_been_healthy {
                    only_withheld = true;
                    Health::Unhealthy
                } else {
                    Health::Healthy
                }
            }
        };
        // The loss after HEALTHY takes two checks: the first one only starts its clock.
        let is_lost = !only_withheld
            && health != Health::Healthy
            && self.health != Health::Healthy
            && now > self.lost_after(gaps);
        Verdict {
            health: if is_lost { Health::MustDie } else { health },
            only_withheld,
        }
    }

    /// Adopts a state: the model's own verdict, the fetch of running tasks, or on the worker the scheduler's word.
    pub fn adopt(&mut self, now: Time, health: Health) {
        if self.health == Health::Healthy && health != Health::Healthy {
            self.became_unhealthy = now;
        }
        self.has_been_healthy |= health == Health::Healthy;
        self.health = health;
    }

    /// Begins a further association with the same instance in NEW. The worker learns of it with its next heartbeat, or is unhealthy by
    /// itself when its last heartbeat is older than the heartbeat gap. Until then an earlier healthcheck can still be acknowledged, which
    /// makes the worker's healthchecks fresh again. So the scheduler loses a worker
    /// that has been HEALTHY at the earliest the loss time after the end of that gap. It loses any other worker at the earliest at the end of
    /// that gap, because such a worker lives on while its evidence is fresh.
    pub fn begin_anew(&mut self, now: Time, gaps: Gaps) {
        let heard_until = self
            .last_heartbeat
            .map_or(Time::ZERO, |beat| beat + gaps.max_heartbeat);
        self.became_unhealthy = match self.health {
            Health::Healthy => now + gaps.max_heartbeat,
            Health::Unhealthy if self.has_been_healthy => self.became_unhealthy.max(heard_until),
            Health::Unhealthy => self.became_unhealthy.max(heard_until - gaps.lose_after),
            Health::New | Health::MustDie => self.became_unhealthy,
        };
        self.health = Health::New;
        self.has_been_healthy = false;
        self.last_good_healthcheck = None;
    }

    /// Adds the model to a fingerprint.
    pub fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put((self.health, self.has_been_healthy));
        if self.health != Health::MustDie {
            s.time(self.became_unhealthy);
            s.time_if(self.last_good_healthcheck);
            s.time_if(self.last_heartbeat);
            s.time_if(self.last_acknowledged);
        }
    }

    /// Returns the time until the worker is lost without new evidence of its health; `None` if no loss is due.
    pub fn lost_in(&self, now: Time, gaps: Gaps, first: FirstHealth) -> Option<Duration> {
        let counts = match self.health {
            Health::New | Health::Unhealthy => !self.next(now, gaps, first).only_withheld,
            Health::Healthy | Health::MustDie => false,
        };
        counts.then(|| self.lost_after(gaps).since(now))
    }

    /// Returns when `next` could change without further input: just after a limit, because the limit itself is still good.
    pub fn next_change(&self, gaps: Gaps) -> Option<Time> {
        let just_after = |at: Time| at + Duration::from_nanos(1);
        match self.health {
            Health::MustDie => None,
            Health::New | Health::Unhealthy => Some(just_after(self.lost_after(gaps))),
            Health::Healthy => {
                let heartbeat = self
                    .last_heartbeat
                    .map(|at| just_after(at + gaps.max_heartbeat));
                let healthcheck = self
                    .last_good_healthcheck
                    .map(|at| just_after(at + gaps.max_healthcheck));
                heartbeat.into_iter().chain(healthcheck).min()
            }
        }
    }
}

#[cfg(test)]
mod tests;
