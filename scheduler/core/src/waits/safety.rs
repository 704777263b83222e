//! Safety waits: for each lost run, the time until which it may be alive. No other run of its task starts before that time, whatever the
//! scheduler learns about other runs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::health::timeouts::whole_secs;
use brasserie_common::{InvocationId, Time};
use brasserie_scheduler_engine::Task;

/// The most lost runs of one task that are tracked separately, more than any real mistake causes. Further ones share one wait, so that a
/// worker that invents runs uses no memory.
const MAX_APART: usize = 16;
/// The most expired waits that are dropped in one turn, which takes about a millisecond. A start of the scheduler begins one wait for each
/// lost task.
const DROPPED_A_TURN: usize = 4096;

/// The run that may be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LostRun {
    /// An unknown run: a stored wait does not name its run, and runs beyond the limit share this entry. No completion ends this wait.
    Unknown,
    /// A known run. Its completion ends the wait.
    Known(InvocationId),
}

/// The safety waits of all tasks. A wait lasts until it has expired or the completion of its run is known; other runs do not affect it.
///
/// Waits need no names: a task with a wait has a status, because it was lost, and that status is not deleted before the wait has
/// expired.
#[derive(Clone, Debug, Default)]
pub(crate) struct SafetyWaits {
    by_task: BTreeMap<(Task, LostRun), Time>,
    /// The same waits, ordered by time.
    by_time: BTreeSet<(Time, Task, LostRun)>,
}

impl SafetyWaits {
    fn of(&self, task: Task) -> impl Iterator<Item = Time> + '_ {
        let last = LostRun::Known(InvocationId::new(i64::MAX, i64::MAX));
        let all = (task, LostRun::Unknown)..=(task, last);
        self.by_task.range(all).map(|(_, until)| *until)
    }

    /// Returns the latest time until which a lost run of the task may be alive; `None` if that time has passed.
    pub(crate) fn until(&self, now: Time, task: Task) -> Option<Time> {
        self.of(task).max().filter(|until| *until > now)
    }

    /// Returns the time until which this run may be alive; `None` if that time has passed.
    pub(crate) fn until_of(&self, now: Time, task: Task, run: InvocationId) -> Option<Time> {
        let until = self.by_task.get(&(task, LostRun::Known(run))).copied();
        until.filter(|until| *until > now)
    }

    /// Returns how long the next run must wait, in whole seconds.
    pub(crate) fn seconds(&self, now: Time, task: Task) -> u32 {
        let until = self.until(now, task);
        until.map_or(0, |until| stored_seconds(until.since(now)))
    }

    /// Notes that a lost run may be alive until then. A wait never gets shorter.
    pub(crate) fn raise(&mut self, task: Task, lost: LostRun, until: Time) {
        let is_known = self.by_task.contains_key(&(task, lost));
        let lost = match is_known || self.of(task).count() < MAX_APART {
            true => lost,
            false => LostRun::Unknown,
        };
        let known = self.remove(task, lost);
        let until = known.map_or(until, |known| known.max(until));
        self.by_task.insert((task, lost), until);
        self.by_time.insert((until, task, lost));
    }

    /// Ends the wait for a run that is certainly dead.
    pub(crate) fn over(&mut self, task: Task, invocation: InvocationId) {
        self.remove(task, LostRun::Known(invocation));
    }

    fn remove(&mut self, task: Task, lost: LostRun) -> Option<Time> {
        let until = self.by_task.remove(&(task, lost))?;
        self.by_time.remove(&(until, task, lost));
        Some(until)
    }

    /// Drops some of the expired waits. They have no effect, so no timer is needed for them.
    pub(crate) fn drop_passed(&mut self, now: Time) {
        for _ in 0..DROPPED_A_TURN {
            let first = self.by_time.first().copied();
            let Some((_, task, lost)) = first.filter(|(until, ..)| *until <= now) else {
                return;
            };
            self.remove(task, lost);
        }
    }

    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let SafetyWaits {
            by_task,
            by_time: _,
        } = self;
        let now = s.now();
        let ahead = by_task.iter().filter(|(_, until)| **until > now);
        s.each(ahead, |s, ((task, lost), until)| {
            s.put(task);
            let run = match lost {
                LostRun::Unknown => None,
                LostRun::Known(invocation) => Some(*invocation),
            };
            s.opt(run, Shape::invocation);
            s.deadline(*until);
        });
    }
}

/// Converts a wait to its stored form: whole seconds, rounded up, so that no wait gets shorter.
fn stored_seconds(wait: Duration) -> u32 {
    u32::try_from(whole_secs(wait).as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common::{JobId, NodeId};

    const TASK: Task = Task {
        job: JobId(1),
        node: NodeId(2),
    };

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn run(rand: i64) -> LostRun {
        LostRun::Known(InvocationId::new(0, rand))
    }

    #[test]
    fn the_end_of_one_run_ends_no_wait_for_another() {
        let mut waits = SafetyWaits::default();
        waits.raise(TASK, run(1), at(10));
        waits.raise(TASK, run(2), at(20));
        assert_eq!(waits.until(at(0), TASK), Some(at(20)));
        waits.over(TASK, InvocationId::new(0, 2));
        assert_eq!(waits.until(at(0), TASK), Some(at(10)));
        assert_eq!(waits.until(at(10), TASK), None);
        waits.raise(TASK, run(1), at(5));
        assert_eq!(waits.until(at(0), TASK), Some(at(10)), "never lower");
        waits.over(TASK, InvocationId::new(0, 1));
        assert_eq!(waits.until(at(0), TASK), None);
    }

    #[test]
    fn no_run_ends_the_wait_for_an_unknown_one() {
        let mut waits = SafetyWaits::default();
        waits.raise(TASK, LostRun::Unknown, at(10));
        waits.over(TASK, InvocationId::new(0, 1));
        assert_eq!(waits.seconds(Time::from_nanos(1), TASK), 10, "rounded up");
    }

    #[test]
    fn invented_runs_are_waited_for_and_cost_no_memory() {
        let mut waits = SafetyWaits::default();
        for i in 0..1000 {
            waits.raise(TASK, run(i), at(1000 - i.unsigned_abs()));
        }
        assert_eq!(waits.by_task.len(), MAX_APART + 1);
        for i in 0..1000 {
            waits.over(TASK, InvocationId::new(0, i));
        }
        let apart = MAX_APART as u64;
        assert_eq!(waits.until(at(0), TASK), Some(at(1000 - apart)));
    }

    #[test]
    fn what_has_passed_is_dropped() {
        let mut waits = SafetyWaits::default();
        for node in 0..10_000_u32 {
            let task = Task {
                node: NodeId(node),
                ..TASK
            };
            waits.raise(task, run(1), at(u64::from(node)));
        }
        waits.drop_passed(at(4999));
        waits.drop_passed(at(4999));
        assert_eq!((waits.by_task.len(), waits.by_time.len()), (5000, 5000));
    }
}
