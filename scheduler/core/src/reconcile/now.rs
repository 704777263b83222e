//! The running tasks at one moment, by names, for a plan that uses another engine.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{InvocationId, Shard, TaskKey, Time};

use super::{Nodes, Orphan, Step};
use crate::scheduler::Scheduler;

/// A run at that moment.
#[derive(Clone, Debug)]
pub(crate) struct RunNow {
    pub(crate) task: TaskKey,
    pub(crate) shard: Shard,
    pub(crate) invocation: InvocationId,
    /// Whether the task is unwanted, if that is known.
    pub(crate) is_unwanted: bool,
    pub(crate) orphan: Option<OrphanNow>,
}

/// An orphan that is to be killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrphanNow {
    since: Time,
    next: NextWish,
    pub(crate) asked: u32,
}

/// The time of an orphan's next kill request.
#[derive(Clone, Copy, Debug)]
enum NextWish {
    /// The first request, due when the orphan has run for as long as it may.
    First,
    /// A repeated request, due at this time.
    Again(Time),
    UnderWay,
}

impl OrphanNow {
    fn since(since: Time) -> Self {
        OrphanNow {
            since,
            next: NextWish::First,
            asked: 0,
        }
    }

    /// Returns when the next kill request is due, if the orphan may run for `allowed`.
    pub(crate) fn due(&self, now: Time, allowed: Duration) -> Time {
        let at = match self.next {
            NextWish::First => self.since + allowed,
            NextWish::Again(at) => at.max(self.since + allowed),
            NextWish::UnderWay => now,
        };
        at.max(now)
    }
}

impl Orphan {
    fn now(&self) -> OrphanNow {
        OrphanNow {
            since: self.since,
            next: match (self.step, &self.last) {
                (Step::Waiting(_), None) => NextWish::First,
                (Step::Waiting(at), Some(_)) => NextWish::Again(at),
                (Step::Asked(_), _) => NextWish::UnderWay,
            },
            asked: self.asked,
        }
    }
}

impl Scheduler {
    /// Returns whether the newest nodes, in force or coming into force, are those of the configuration in force.
    pub(crate) fn has_nodes_of_its_config(&self) -> bool {
        let in_force = self.engine().nodes();
        let newest = self.engine().tables().last();
        let on_its_way =
            newest.filter(|newest| in_force.is_none_or(|nodes| !Arc::ptr_eq(nodes, newest)));
        let whose = |nodes| {
            let config = self.engine().config();
            config.map_or(Nodes::OfAnother, |config| self.whose(nodes, config))
        };
        let nodes = on_its_way.map_or(self.orphans().nodes, whose);
        nodes == Nodes::OfTheConfiguration
    }

    /// Returns all runs, by names.
    pub(crate) fn runs_now(&self, now: Time) -> Vec<RunNow> {
        let running = self.tasks().running().map(|(task, run)| {
            let knows = self.knows_what_is_wanted(task.job);
            let is_unwanted = self.unwanted(task).is_some();
            let orphan = self.orphans().by_run.get(&(task, run.invocation));
            let orphan = orphan.map(Orphan::now);
            // Some runs may not have been checked since the wanted tasks became known.
            let found_now = self.kill_delay(task).map(|_| OrphanNow::since(now));
            RunNow {
                task: self.task_key(task),
                shard: run.shard.clone(),
                invocation: run.invocation,
                is_unwanted: knows && is_unwanted,
                orphan: match knows {
                    true => orphan.filter(|_| is_unwanted).or(found_now),
                    false => orphan,
                },
            }
        });
        running.collect()
    }
}
