//! Fingerprints of a scheduler's whole state, for searches over states.

use std::hash::Hasher;

use brasserie_common::fingerprint::{Canon, Shape, fingerprint_of};
use brasserie_common::{InvocationId, Time};

use super::Scheduler;
use crate::record::until_synced;

impl Scheduler {
    /// Writes the state into a world's hash, with ids renamed and times relative to `now`; see [`brasserie_common::fingerprint`].
    ///
    /// Omitted is everything that decides nothing: statistics, texts for people, and news for the log. The wall clock counts only by its
    /// distance from the times that it is compared with. Streams of random numbers are omitted, because a search takes their draws as they
    /// come. Drain the effects first: pending ones are hashed unchanged.
    pub fn shape(&self, now: Time, canon: &mut Canon, hasher: &mut impl Hasher) {
        let mut shape = Shape::new(now, canon, hasher);
        let s = &mut shape;
        s.scheduler(self.id);
        self.options.shape(s);
        self.engine.shape(s);
        let persisted = self.outbox.persisted();
        self.pool.shape(s, persisted);
        self.runs.shape(s, &self.safety, persisted, self.wall);
        self.orphans.shape(s);
        self.orders.shape(s, self.wall);
        self.jobs.shape(s, persisted);
        self.bulk_changes.shape(s, persisted);
        s.put(format!("{:?}", self.times));
        self.wait.shape(s, persisted, self.wall);
        self.calls.shape(s);
        s.each(self.work_requests.waiting(), |s, (request, shard, seq)| {
            s.put((request, shard, seq));
        });
        s.deadline(self.work_requests.next_turn());
        s.put(self.work_requests.used_turns());
        s.put(self.estimates.is_learning());
        for (job, seconds) in self.estimates.learned() {
            s.put((job, seconds));
        }
        let (not_durable, store_fails) = self.outbox.store_shape();
        s.put((not_durable, store_fails, self.more_to_place));
        // Fences affect the future only by a generation that is not durable, which keeps tasks from starting.
        s.put(until_synced(self.fences.recorded(), persisted));
        self.outbox.replies_shape(s);
        self.questions.shape(s, persisted);
        // The second of the next ids, until the next wall clock arrives. It may be earlier than, later than or equal to the second of other
        // ids.
        let drawn_next = InvocationId::new(self.wall.as_secs(), i64::MIN);
        s.invocation(drawn_next);
        s.healthcheck(drawn_next);
        s.opt(self.stepped_down, Shape::scheduler);
        self.outbox.effects_shape(s);
    }

    /// Returns a hash of the state, for searches that visit each state once.
    pub fn fingerprint(&self, now: Time) -> u64 {
        fingerprint_of(|canon, hasher| self.shape(now, canon, hasher))
    }
}
