//! The healthchecks of one worker: which are under way, and when the next one is due.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, Time};

/// Healthchecks without a result that are remembered: one a period for far longer than a worker lives without one.
const MAX_OPEN_HEALTHCHECKS: usize = 64;
/// Extra healthchecks that only make a worker ask for its state are at least this far apart.
const POKE_SPACING: Duration = Duration::from_millis(100);

/// Of one worker instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Healthchecks {
    pub(super) last_sent: Option<Time>,
    /// The last one did not arrive, and the next one is due before its time.
    pub(super) retry_at: Option<Time>,
    /// When each without a result was sent, by our clock.
    pub(super) open: BTreeMap<InvocationId, Time>,
    /// Distinct within the instance even when two start in one second, unlike the original's zero: the worker refuses an
    /// invocation that it has seen.
    next_rand: i64,
}

impl Healthchecks {
    /// When the next one is due; at once for a first time.
    pub(super) fn next(&self, period: Duration, poke: bool) -> Option<Time> {
        let spacing = if poke { POKE_SPACING } else { period };
        let due = self.last_sent.map(|last| last + spacing);
        match (due, self.retry_at) {
            (Some(due), Some(retry)) => Some(due.min(retry)),
            (due, _) => due,
        }
    }

    pub(super) fn draw(&mut self, wall_seconds: i64) -> InvocationId {
        let rand = self.next_rand;
        self.next_rand = rand.wrapping_add(1);
        InvocationId::new(wall_seconds, rand)
    }

    /// For fingerprints. Ids only have to differ, so the next one is none.
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.time_if(self.last_sent);
        s.opt(self.retry_at, Shape::deadline);
        s.each(&self.open, |s, (invocation, sent)| {
            s.healthcheck(*invocation);
            s.time(*sent);
        });
    }

    /// Those of an earlier association do not count, and the next one is due at once.
    pub(super) fn begin_anew(&mut self) {
        (self.last_sent, self.retry_at) = (None, None);
        self.open.clear();
    }

    /// Results that would be too old to count are not waited for.
    pub(super) fn forget_old(&mut self, now: Time, max_gap: Duration) {
        self.open.retain(|_, sent| now <= *sent + max_gap);
        while self.open.len() >= MAX_OPEN_HEALTHCHECKS {
            self.open.pop_first();
        }
    }
}
