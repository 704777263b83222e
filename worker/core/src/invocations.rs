//! The invocations that were accepted, refused or denied before, and the healthchecks that were accepted, so that a repeated message starts
//! nothing.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, NodeName, SchedulerId, Time};

use crate::event::RunTask;
use brasserie_common::health::timeouts::MESSAGE_LIFE;

/// The maximum number of ids in one generation, about 4 MiB of memory. A worker cannot start as many tasks in most of a minute, so an id
/// that the floor refuses is nearly a minute late.
const MAX_IDS: usize = 100_000;

/// A bounded memory of invocations that keeps each for at least the longest life of a message. A new generation begins once per message
/// life, and the one before the last is forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Invocations {
    current: Generation,
    previous: Generation,
    since: Time,
}

/// Invariant: every id that this generation has recorded is in `ids` or not later than `floor`.
#[derive(Clone, Debug, Default)]
struct Generation {
    ids: BTreeSet<InvocationId>,
    /// Ids with this start second or an earlier one may have been dropped. The seconds are from the scheduler's clock and are compared only
    /// with each other. If that clock jumps back while the floor is set, new ids are refused until the generation is forgotten.
    floor: Option<i64>,
}

/// Whether an invocation is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Familiarity {
    New,
    Known,
    /// The invocation is so old that it may have been known and dropped.
    TooOld,
}

impl Invocations {
    pub(crate) fn new(now: Time) -> Self {
        Invocations {
            current: Generation::default(),
            previous: Generation::default(),
            since: now,
        }
    }

    pub(crate) fn familiarity(&mut self, now: Time, id: InvocationId) -> Familiarity {
        self.turn_over(now);
        let generations = [&self.current, &self.previous];
        if generations.iter().any(|g| g.ids.contains(&id)) {
            Familiarity::Known
        } else if generations
            .iter()
            .any(|g| g.floor.is_some_and(|floor| id.0.start_time <= floor))
        {
            Familiarity::TooOld
        } else {
            Familiarity::New
        }
    }

    pub(crate) fn remember(&mut self, now: Time, id: InvocationId) {
        self.turn_over(now);
        self.current.remember(id);
    }

    /// Drops an id, for the injected bugs.
    pub(crate) fn forget(&mut self, id: InvocationId) {
        for generation in [&mut self.current, &mut self.previous] {
            generation.ids.remove(&id);
        }
    }

    fn turn_over(&mut self, now: Time) {
        if now.since(self.since) < MESSAGE_LIFE {
            return;
        }
        // No id was recorded in `current` in the second half, or the generations would have changed then.
        let both_old = now.since(self.since) >= MESSAGE_LIFE * 2;
        let last = std::mem::take(&mut self.current);
        self.previous = if both_old {
            Generation::default()
        } else {
            last
        };
        self.since = now;
    }

    /// Writes the state for fingerprints. The floor is a second of the scheduler's clock, compared only with the seconds of ids.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        for generation in [&self.current, &self.previous] {
            s.each(&generation.ids, |s, id| s.invocation(*id));
            s.opt(generation.floor, |s, second| {
                s.invocation(InvocationId::new(second, i64::MAX));
            });
        }
        s.time(self.since);
    }
}

impl Generation {
    fn remember(&mut self, id: InvocationId) {
        self.ids.insert(id);
        if self.ids.len() <= MAX_IDS {
            return;
        }
        let Some(oldest) = self.ids.first().map(|id| id.0.start_time) else {
            return;
        };
        self.ids = match oldest.checked_add(1) {
            Some(second) => self.ids.split_off(&InvocationId::new(second, i64::MIN)),
            None => BTreeSet::new(),
        };
        self.floor = self.floor.max(Some(oldest));
    }
}

/// The number of accepted healthchecks to remember. At most one arrives a second, so they span more than the longest life of a message.
const MAX_HEALTHCHECKS_SEEN: usize = 1024;

/// The last accepted healthchecks. A repeated one would count as fresh on the worker and not on the scheduler, so the worker would believe
/// in its health for longer. The id of a healthcheck is only a second, so scheduler and node count, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct HealthchecksSeen(VecDeque<(SchedulerId, NodeName, InvocationId)>);

impl HealthchecksSeen {
    pub(crate) fn contains(&self, run: &RunTask) -> bool {
        self.0.iter().any(|(scheduler, node, invocation)| {
            *scheduler == run.scheduler
                && *node == run.task.node
                && *invocation == run.task.invocation
        })
    }

    pub(crate) fn remember(&mut self, run: &RunTask) {
        if self.0.len() == MAX_HEALTHCHECKS_SEEN {
            self.0.pop_front();
        }
        self.0
            .push_back((run.scheduler, run.task.node.clone(), run.task.invocation));
    }

    /// Writes the state for fingerprints.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.0, |s, (scheduler, node, invocation)| {
            s.scheduler(*scheduler);
            s.put(node);
            s.healthcheck(*invocation);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_id_is_known_for_a_message_life_wherever_it_falls() {
        let second = Duration::from_secs(1);
        for offset in [0, 1, 300, 599, 600, 601, 1199, 1200, 5000] {
            let mut seen = Invocations::new(Time::ZERO);
            let at = Time::ZERO + second * offset;
            seen.remember(at, InvocationId::new(1, 1));
            // Other traffic changes generations at the worst moments.
            for later in 1..600 {
                seen.remember(at + second * later, InvocationId::new(2, i64::from(later)));
            }
            let end = at + MESSAGE_LIFE;
            assert_eq!(
                seen.familiarity(end - second, InvocationId::new(1, 1)),
                Familiarity::Known,
                "{offset}"
            );
            assert_eq!(
                seen.familiarity(end + MESSAGE_LIFE * 2, InvocationId::new(1, 1)),
                Familiarity::New
            );
        }
    }

    #[test]
    fn when_full_the_oldest_second_is_refused_as_a_whole() {
        let mut seen = Invocations::new(Time::ZERO);
        let id = |n: usize| InvocationId::new((n / 1000) as i64, n as i64);
        for n in 0..=MAX_IDS {
            seen.remember(Time::ZERO, id(n));
        }
        assert!(seen.current.ids.len() <= MAX_IDS);
        assert_eq!(seen.familiarity(Time::ZERO, id(0)), Familiarity::TooOld);
        assert_eq!(
            seen.familiarity(Time::ZERO, InvocationId::new(0, -5)),
            Familiarity::TooOld
        );
        assert_eq!(seen.familiarity(Time::ZERO, id(1000)), Familiarity::Known);
        assert_eq!(
            seen.familiarity(Time::ZERO, InvocationId::new(1, -5)),
            Familiarity::New
        );
    }

    #[test]
    fn the_last_second_of_time_does_not_overflow() {
        let mut seen = Invocations::new(Time::ZERO);
        for n in 0..=MAX_IDS {
            seen.remember(Time::ZERO, InvocationId::new(i64::MAX, n as i64));
        }
        assert_eq!(
            seen.familiarity(Time::ZERO, InvocationId::new(i64::MAX, -1)),
            Familiarity::TooOld
        );
    }
}
