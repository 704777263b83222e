//! Fingerprints: the whole state of a scheduler as a search sees it.

use std::hash::Hasher;

use brasserie_common::fingerprint::{Canon, Shape, fingerprint_of};
use brasserie_common::{InvocationId, Time};

use super::{Log, Options, Scheduler};
use crate::workers::shape::until_synced;

impl Scheduler {
    /// Writes the state, with ids renamed and times relative to `now`, into a world's hash; see
    /// [`brasserie_common::fingerprint`]. Left out is what decides nothing: statistics, texts for people, news for the log, the wall clock but
    /// for its distance from what it is compared with, and the streams of random numbers, whose draws a search takes as they
    /// come. Drain the effects first: any that wait are hashed as they are.
    pub fn shape(&self, now: Time, canon: &mut Canon, hasher: &mut impl Hasher) {
        let mut shape = Shape::new(now, canon, hasher);
        let s = &mut shape;
        s.scheduler(self.id);
        self.options.shape(s);
        self.engine.shape(s);
        let persisted = self.log.persisted;
        self.workers.shape(s, persisted);
        self.tasks.shape(s, persisted, self.wall);
        self.orphans.shape(s);
        self.jobs.shape(s, persisted);
        s.put(format!("{:?}", self.times));
        self.wait.shape(s, persisted, self.wall);
        self.calls.shape(s);
        s.each(self.asking.waiting(), |s, (request, shard, seq)| {
            s.put((request, shard, seq));
        });
        s.deadline(self.asking.next_turn());
        s.put(self.asking.used_turns());
        s.put(self.estimates.is_learning());
        for (job, seconds) in self.estimates.learned() {
            s.put((job, seconds));
        }
        let Log {
            last,
            persisted: _,
            error,
        } = &self.log;
        s.put((last.0 - persisted.0, error.is_some(), self.more_to_place));
        // Fences affect the future only by an undurable generation, which keeps tasks from starting.
        s.put(until_synced(self.fences.recorded(), persisted));
        self.replies.shape(s, persisted);
        self.questions.shape(s, persisted);
        // The second of the next ids, until the clock is told again: before or after those of others, or the same.
        let drawn_next = InvocationId::new(self.wall.as_secs(), i64::MIN);
        s.invocation(drawn_next);
        s.healthcheck(drawn_next);
        s.opt(self.stepped_down, Shape::scheduler);
        s.each(&self.effects, |s, effect| s.put(format!("{effect:?}")));
    }

    /// A hash of the state, for searches that visit each state once.
    pub fn fingerprint(&self, now: Time) -> u64 {
        fingerprint_of(|canon, hasher| self.shape(now, canon, hasher))
    }
}

impl Options {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Options {
            timeouts,
            allow_bump_unhealthy_worker,
            startup_wait,
            new_cluster,
            call_deadline,
            work,
            // Searched worlds are too short to forget completions.
            retention: _,
            // A stream of random numbers.
            seed: _,
        } = self;
        s.put((timeouts, allow_bump_unhealthy_worker, startup_wait));
        s.put((new_cluster, call_deadline));
        s.put(format!("{work:?}"));
    }
}
