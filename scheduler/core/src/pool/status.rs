//! The condition of workers for people, as far as it depends on other workers, too.

use std::time::Duration;

use brasserie_common::{Shard, Time, Timeouts};

use super::Pool;
use super::consensus::WithheldBy;
use super::remote::Remote;

/// Why a worker gets no tasks, and its problems.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The time since the last heartbeat of a HEALTHY worker that has missed heartbeats or could not be reached.
    pub silent_for: Option<Duration>,
    /// The condition that the worker must meet before it gets tasks.
    pub waits_for: Option<String>,
    /// The time until the worker is lost without new evidence of its health.
    pub lost_in: Option<Duration>,
    /// Problems that need an operator.
    pub problems: Vec<String>,
    pub notes: Vec<String>,
}

impl Pool {
    pub(crate) fn condition(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Condition {
        Condition {
            silent_for: worker.silent_for(now),
            waits_for: self.what_it_waits_for(now, timeouts, worker),
            lost_in: self.lost_in(now, timeouts, worker),
            problems: worker.problems(now, timeouts),
            notes: worker.notes(timeouts),
        }
    }

    fn what_it_waits_for(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Option<String> {
        worker.what_it_waits_for(now, timeouts, || self.withheld(worker))
    }

    /// Returns why a pull worker gets no task at present, as a clause that follows its name. Other workers are only counted.
    pub(crate) fn why_not_ready(
        &self,
        now: Time,
        timeouts: &Timeouts,
        shard: &Shard,
    ) -> Option<String> {
        let worker = self.get(shard);
        let worker = worker.filter(|worker| worker.credits().are_used())?;
        if let Some(what) = self.what_it_waits_for(now, timeouts, worker) {
            return Some(format!("waits {what}"));
        }
        worker.is_left_alone(now).then(|| {
            "is left alone for a moment: it was busy, has just become healthy, or is sent many tasks"
                .to_owned()
        })
    }

    fn withheld(&self, worker: &Remote) -> Option<String> {
        Some(match self.consensus.withheld_by(worker.id())? {
            WithheldBy::Itself => {
                "until it has sent back a worker set of this scheduler".to_owned()
            }
            WithheldBy::Foreigner(first, count) => {
                let shard = self.shard_with(first).cloned().unwrap_or_default();
                format!(
                    "until worker `{shard}`, one of {count} that still hold an earlier scheduler's worker set, has sent back \
                     one of this scheduler"
                )
            }
            WithheldBy::Others => {
                "until a worker that came before it has sent back a worker set with it".to_owned()
            }
        })
    }

    /// Returns why a worker may not run its tasks any more, as a clause that begins with `which`; `None` if nothing says so.
    pub(crate) fn doubt_about(
        &self,
        now: Time,
        timeouts: &Timeouts,
        shard: &Shard,
    ) -> Option<String> {
        let worker = self.get(shard)?;
        worker.doubt(now, timeouts, self.lost_in(now, timeouts, worker))
    }

    fn lost_in(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Option<Duration> {
        let first = worker.first_health(&self.consensus);
        worker.lost_in(now, timeouts, first)
    }
}
