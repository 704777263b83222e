//! The course of the initial wait and of hold-backs: what ends them, and what is recorded about them.

use brasserie_common::{Health, RecordSeq, Time, WorkerId, WorkerSetId};

use super::Scheduler;
use crate::news::News;
use crate::pool::remote::Remote;
use crate::record::{LeftCause, Record};
use crate::waits::initial_wait::{Acquaintance, HoldBackEnd};

impl Scheduler {
    /// Iterates over the recorded instances that this scheduler has not answered, with the time since which no scheduler has. All other
    /// instances may be answered at any time.
    pub fn unanswered(&self) -> impl Iterator<Item = (WorkerId, Time)> + '_ {
        self.wait.unanswered()
    }

    /// Returns a number that changes with [`Scheduler::unanswered`].
    pub fn unanswered_version(&self) -> u64 {
        self.wait.unanswered_version()
    }

    pub(super) fn update_initial_wait(&mut self, now: Time) {
        for worker in self.wait.pass_deadlines(now) {
            self.drop_dead(worker);
        }
        let wall_seconds = self.wall.as_secs();
        if let Some(end) = self.wait.end_hold_backs(now, wall_seconds) {
            self.hold_backs_ended(now, &end);
        }
        let workers = &self.pool;
        let knows_runs = || workers.with_unknown_runs().next().is_none();
        let former = workers.former_set();
        let Some(end) = self.wait.end(now, wall_seconds, former, knows_runs) else {
            return;
        };
        self.notices.news(News::WaitEnded { why: end.why });
        if end.is_recorded {
            self.outbox.persist(Record::HoldBackOver);
        }
        if end.settles {
            self.settle_the_set(now);
        }
    }

    /// Drops a recorded instance that did not come back in time.
    fn drop_dead(&mut self, worker: WorkerId) {
        let is_it = |w: &Remote| w.id() == worker && w.health() != Health::MustDie;
        // An associated worker in NEW is waited for as such, and leaves the record by its own loss.
        if self.pool.iter().any(is_it) {
            self.wait.returned(worker);
        } else {
            self.bury_expected(worker, LeftCause::DidNotReturn);
        }
    }

    pub(super) fn hold_backs_ended(&mut self, now: Time, end: &HoldBackEnd) {
        if end.is_recorded {
            self.outbox.persist(Record::HoldBackOver);
        }
        if end.settles {
            self.notices.news(News::HoldBackEnded);
            self.settle_the_set(now);
        }
    }

    /// Marks set ids as settled.
    fn settle_the_set(&mut self, now: Time) {
        self.pool.settle_set();
        // A worker that was permitted during the wait may need another permission, and must not get a task before.
        self.evaluate_all(now);
    }

    /// Checks whether this directory remembers a worker and the scheduler that it knew last. Returns the record that the answer must wait
    /// for: the worker forgets that scheduler when it receives an answer of this one, and from then on only the record has the information.
    pub(super) fn witness(
        &mut self,
        now: Time,
        worker: WorkerId,
        worker_set: WorkerSetId,
    ) -> Option<RecordSeq> {
        if worker_set.scheduler != self.id && worker_set != WorkerSetId::default() {
            let is_remembered = self.pool.shard_with(worker).is_some()
                || self.pool.has_left(worker)
                || self.wait.expects(worker);
            let acquaintance = if is_remembered {
                Acquaintance::Remembered
            } else {
                Acquaintance::Stranger(worker)
            };
            let begins = self.wait.witness(now, worker_set.scheduler, acquaintance);
            if !self.wait.is_over() {
                self.pool.unsettle_set();
                if begins && let Some(why) = self.view().wait_message(now) {
                    self.notices.news(News::WaitBegan { why });
                }
            }
            self.wait_anew_after_a_restart();
        }
        self.wait.waits_anew_by()
    }

    /// Records that a restart must wait, while this scheduler waits without a trusted record.
    fn wait_anew_after_a_restart(&mut self) {
        let wait = self.wait.length_after_a_restart();
        if !wait.is_zero() {
            let seq = self.outbox.persist(Record::HoldBack { wait });
            self.wait.note_waits_anew(seq);
        }
    }
}
