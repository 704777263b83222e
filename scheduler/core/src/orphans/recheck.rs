//! The tasks whose runs must be checked after a change of the wanted tasks. The check is done in slices, since there may be a million runs.

use std::collections::VecDeque;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{JobId, NodeId};
use brasserie_scheduler_engine::Task;

/// The most jobs that are checked separately. With more changed jobs within a few turns, all runs are checked instead.
const MAX_PARTS: usize = 64;

const FIRST: Task = Task {
    job: JobId(0),
    node: NodeId(0),
};
const LAST: Task = Task {
    job: JobId(u32::MAX),
    node: NodeId(u32::MAX),
};

/// The tasks that have not been checked since their wanted state changed.
///
/// A new orphan gets its time limit when it is checked. A task that is wanted again is not killed before its check, because a kill checks
/// that first. But if it is an orphan again when it is checked, it counts as one all the time.
#[derive(Clone, Debug, Default)]
pub(super) struct Unchecked {
    /// The ranges from the first to the last task, in the order in which they are checked.
    parts: VecDeque<(Task, Task)>,
}

impl Unchecked {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn next(&self) -> Option<(Task, Task)> {
        self.parts.front().copied()
    }

    /// Marks all tasks. The check goes on where it is and wraps around, so that each task is checked however often everything changes.
    pub(super) fn everything(&mut self) {
        let at = self.parts.front().map_or(FIRST, |(at, _)| *at);
        self.parts.clear();
        self.parts.push_back((at, LAST));
        if let Some(before) = previous(at) {
            self.parts.push_back((FIRST, before));
        }
    }

    pub(super) fn job(&mut self, job: JobId) {
        let first = Task { job, ..FIRST };
        let last = Task { job, ..LAST };
        let holds_it = |(from, to): &(Task, Task)| *from <= first && last <= *to;
        if self.parts.iter().any(holds_it) {
            return;
        }
        if self.parts.len() >= MAX_PARTS {
            return self.everything();
        }
        self.parts.push_back((first, last));
    }

    /// Notes that the first range is checked up to this task; `None`: to its end.
    pub(super) fn checked(&mut self, up_to: Option<Task>) {
        let Some((from, to)) = self.parts.front_mut() else {
            return;
        };
        match up_to.and_then(next) {
            Some(rest) if rest <= *to => *from = rest,
            Some(_) | None => {
                self.parts.pop_front();
            }
        }
    }

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(&self.parts);
    }
}

fn next(Task { job, node }: Task) -> Option<Task> {
    match node.0.checked_add(1) {
        Some(node) => Some(Task {
            job,
            node: NodeId(node),
        }),
        None => Some(Task {
            job: JobId(job.0.checked_add(1)?),
            ..FIRST
        }),
    }
}

fn previous(Task { job, node }: Task) -> Option<Task> {
    match node.0.checked_sub(1) {
        Some(node) => Some(Task {
            job,
            node: NodeId(node),
        }),
        None => Some(Task {
            job: JobId(job.0.checked_sub(1)?),
            ..LAST
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Ids of jobs and nodes, including the extreme values.
    const IDS: [u32; 6] = [0, 1, 2, 7, u32::MAX - 1, u32::MAX];

    fn tasks() -> impl Iterator<Item = Task> {
        let of = |job: u32| {
            IDS.iter().map(move |node| Task {
                job: JobId(job),
                node: NodeId(*node),
            })
        };
        IDS.into_iter().flat_map(of)
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Everything,
        Job(u32),
        Look(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Everything),
            proptest::sample::select(&IDS[..]).prop_map(Step::Job),
            (1..9_usize).prop_map(Step::Look),
        ]
    }

    /// Simulates the scheduler's check, if all of these tasks run.
    fn look(unchecked: &mut Unchecked, mut left: usize) -> BTreeSet<Task> {
        let mut seen = BTreeSet::new();
        while left > 0
            && let Some((from, to)) = unchecked.parts.front().copied()
        {
            let part: Vec<Task> = tasks().filter(|task| (from..=to).contains(task)).collect();
            let some = &part[..left.min(part.len())];
            seen.extend(some);
            left -= some.len();
            unchecked.checked(some.last().copied().filter(|_| left == 0));
        }
        seen
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn everything_that_changes_is_looked_at_afterwards(steps in proptest::collection::vec(step(), 0..60)) {
            let mut unchecked = Unchecked::default();
            let mut expected = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Everything => {
                        unchecked.everything();
                        expected.extend(tasks());
                    }
                    Step::Job(job) => {
                        unchecked.job(JobId(job));
                        expected.extend(tasks().filter(|task| task.job == JobId(job)));
                    }
                    Step::Look(left) => {
                        for task in look(&mut unchecked, left) {
                            expected.remove(&task);
                        }
                    }
                }
                prop_assert!(unchecked.parts.len() <= MAX_PARTS + 1);
            }
            for _ in 0..expected.len() + unchecked.parts.len() {
                for task in look(&mut unchecked, 9) {
                    expected.remove(&task);
                }
            }
            prop_assert!(expected.is_empty(), "never looked at: {expected:?}");
            prop_assert!(unchecked.is_empty());
        }
    }

    #[test]
    fn many_jobs_are_everything() {
        let mut unchecked = Unchecked::default();
        for job in 0..200 {
            unchecked.job(JobId(3 * job));
        }
        assert!(unchecked.parts.len() <= 2, "{:?}", unchecked.parts);
        assert_eq!(unchecked.parts.back().map(|(_, to)| *to), Some(LAST));
    }
}
