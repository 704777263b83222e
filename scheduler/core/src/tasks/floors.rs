//! Floors: until when runs that were lost may be alive. So long no other run of their task starts, whatever is learnt meanwhile of
//! other runs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, Time};
use brasserie_scheduler_engine::Task;

use super::stored_seconds;

/// Lost runs of one task that are told apart: one on each of some workers, more than any real mistake makes. Further ones are waited
/// for together, so that a worker that invents runs costs no memory.
const MAX_APART: usize = 16;
/// Floors that are dropped in one turn once they have passed: about a millisecond. As many are set at a start as tasks were lost.
const DROPPED_A_TURN: usize = 4096;

/// Who may be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    /// A stored wait does not say whose it is, nor do runs that are not told apart: nobody's end ends it.
    Somebody,
    /// Its own end ends the wait for it.
    Run(InvocationId),
}

/// They live until they have passed, or the end of the run that they are about is known; who else runs or ends does not matter.
///
/// They hold no name: a task with a floor has a status, since it was lost, and that is not deleted before the floor has passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floors {
    by_task: BTreeMap<(Task, Lost), Time>,
    /// The same.
    by_time: BTreeSet<(Time, Task, Lost)>,
}

impl Floors {
    fn of(&self, task: Task) -> impl Iterator<Item = Time> + '_ {
        let last = Lost::Run(InvocationId::new(i64::MAX, i64::MAX));
        let all = (task, Lost::Somebody)..=(task, last);
        self.by_task.range(all).map(|(_, until)| *until)
    }

    /// Until when some lost run of the task may be alive, if one may be still.
    pub(crate) fn until(&self, now: Time, task: Task) -> Option<Time> {
        self.of(task).max().filter(|until| *until > now)
    }

    /// Until when this run may be alive, if it may be still.
    pub(crate) fn until_of(&self, now: Time, task: Task, run: InvocationId) -> Option<Time> {
        let until = self.by_task.get(&(task, Lost::Run(run))).copied();
        until.filter(|until| *until > now)
    }

    /// How long the next run must be kept away, in whole seconds.
    pub(crate) fn seconds(&self, now: Time, task: Task) -> u32 {
        let until = self.until(now, task);
        until.map_or(0, |until| stored_seconds(until.since(now)))
    }

    /// It may be alive until then.
    pub(crate) fn raise(&mut self, task: Task, lost: Lost, until: Time) {
        let is_known = self.by_task.contains_key(&(task, lost));
        let lost = match is_known || self.of(task).count() < MAX_APART {
            true => lost,
            false => Lost::Somebody,
        };
        let known = self.remove(task, lost);
        let until = known.map_or(until, |known| known.max(until));
        self.by_task.insert((task, lost), until);
        self.by_time.insert((until, task, lost));
    }

    /// The run is certainly dead.
    pub(crate) fn over(&mut self, task: Task, invocation: InvocationId) {
        self.remove(task, Lost::Run(invocation));
    }

    fn remove(&mut self, task: Task, lost: Lost) -> Option<Time> {
        let until = self.by_task.remove(&(task, lost))?;
        self.by_time.remove(&(until, task, lost));
        Some(until)
    }

    /// Some of those that have passed. Nobody needs to wake up for it: they count for nothing.
    pub(crate) fn drop_passed(&mut self, now: Time) {
        for _ in 0..DROPPED_A_TURN {
            let first = self.by_time.first().copied();
            let Some((_, task, lost)) = first.filter(|(until, ..)| *until <= now) else {
                return;
            };
            self.remove(task, lost);
        }
    }

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Floors {
            by_task,
            by_time: _,
        } = self;
        let now = s.now();
        let ahead = by_task.iter().filter(|(_, until)| **until > now);
        s.each(ahead, |s, ((task, lost), until)| {
            s.put(task);
            let run = match lost {
                Lost::Somebody => None,
                Lost::Run(invocation) => Some(*invocation),
            };
            s.opt(run, Shape::invocation);
            s.deadline(*until);
        });
    }
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

    fn run(rand: i64) -> Lost {
        Lost::Run(InvocationId::new(0, rand))
    }

    #[test]
    fn the_end_of_one_run_ends_no_wait_for_another() {
        let mut floors = Floors::default();
        floors.raise(TASK, run(1), at(10));
        floors.raise(TASK, run(2), at(20));
        assert_eq!(floors.until(at(0), TASK), Some(at(20)));
        floors.over(TASK, InvocationId::new(0, 2));
        assert_eq!(floors.until(at(0), TASK), Some(at(10)));
        assert_eq!(floors.until(at(10), TASK), None);
        floors.raise(TASK, run(1), at(5));
        assert_eq!(floors.until(at(0), TASK), Some(at(10)), "never lower");
        floors.over(TASK, InvocationId::new(0, 1));
        assert_eq!(floors.until(at(0), TASK), None);
    }

    #[test]
    fn nobody_ends_the_wait_for_somebody() {
        let mut floors = Floors::default();
        floors.raise(TASK, Lost::Somebody, at(10));
        floors.over(TASK, InvocationId::new(0, 1));
        assert_eq!(floors.seconds(Time::from_nanos(1), TASK), 10, "rounded up");
    }

    #[test]
    fn invented_runs_are_waited_for_and_cost_no_memory() {
        let mut floors = Floors::default();
        for i in 0..1000 {
            floors.raise(TASK, run(i), at(1000 - i.unsigned_abs()));
        }
        assert_eq!(floors.by_task.len(), MAX_APART + 1);
        for i in 0..1000 {
            floors.over(TASK, InvocationId::new(0, i));
        }
        let apart = MAX_APART as u64;
        assert_eq!(floors.until(at(0), TASK), Some(at(1000 - apart)));
    }

    #[test]
    fn what_has_passed_is_dropped() {
        let mut floors = Floors::default();
        for node in 0..10_000_u32 {
            let task = Task {
                node: NodeId(node),
                ..TASK
            };
            floors.raise(task, run(1), at(u64::from(node)));
        }
        floors.drop_passed(at(4999));
        floors.drop_passed(at(4999));
        assert_eq!((floors.by_task.len(), floors.by_time.len()), (5000, 5000));
    }
}
