//! The running tasks at one moment, by names, for a plan that uses another engine.

use std::time::Duration;

use brasserie_common::{InvocationId, Shard, TaskKey, Time};

use super::{Orphan, OrphanKey, OrphanStep, Orphans};

/// A run at that moment.
#[derive(Clone, Debug)]
pub struct RunNow {
    pub task: TaskKey,
    pub shard: Shard,
    pub invocation: InvocationId,
    /// Whether the task is unwanted, if that is known.
    pub is_unwanted: bool,
    pub orphan: Option<OrphanNow>,
}

/// An orphan that is to be killed.
#[derive(Clone, Copy, Debug)]
pub struct OrphanNow {
    since: Time,
    next: NextKill,
    pub asked: u32,
}

/// The time of an orphan's next kill request.
#[derive(Clone, Copy, Debug)]
enum NextKill {
    /// The first request, due when the orphan has run for as long as it may.
    First,
    /// A repeated request, due at this time.
    Again(Time),
    UnderWay,
}

impl OrphanNow {
    /// Creates an orphan that is found at this moment.
    pub fn since(since: Time) -> Self {
        OrphanNow {
            since,
            next: NextKill::First,
            asked: 0,
        }
    }

    /// Returns when the next kill request is due, if the orphan may run for `allowed`.
    pub fn due(&self, now: Time, allowed: Duration) -> Time {
        let at = match self.next {
            NextKill::First => self.since + allowed,
            NextKill::Again(at) => at.max(self.since + allowed),
            NextKill::UnderWay => now,
        };
        at.max(now)
    }
}

impl Orphans {
    /// Returns the run as an orphan at this moment, if it is one.
    pub fn snapshot(&self, run: OrphanKey) -> Option<OrphanNow> {
        self.by_run.get(&run).map(Orphan::now)
    }
}

impl Orphan {
    fn now(&self) -> OrphanNow {
        OrphanNow {
            since: self.since,
            next: match (self.step, &self.last) {
                (OrphanStep::Waiting(_), None) => NextKill::First,
                (OrphanStep::Waiting(at), Some(_)) => NextKill::Again(at),
                (OrphanStep::Asked(_), _) => NextKill::UnderWay,
            },
            asked: self.asked,
        }
    }
}
