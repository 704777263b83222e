//! The check of running tasks after a change of the wanted tasks. It is done in slices, since there may be a million of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, JobId, JobName, NodeId, Shard, Time};
use brasserie_common_config::{Config, JobConfig, Shared};
use brasserie_scheduler_engine::Task;

use super::RunKey;
use crate::scheduler::Scheduler;

/// The budget of a turn, in checks of one run. With a million runs a check takes a fraction of a microsecond, so this takes about two
/// milliseconds.
const LOOKS_A_TURN: usize = 5_000;
/// The cost of a run that is or was an orphan, in checks: it may be the only orphan of its worker, whose timers are then computed again.
const ORPHAN: usize = 10;
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
pub(super) struct Unseen {
    /// The ranges from the first to the last task, in the order in which they are checked.
    parts: VecDeque<(Task, Task)>,
}

impl Unseen {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
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

    fn job(&mut self, job: JobId) {
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
    fn seen(&mut self, up_to: Option<Task>) {
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

/// The result of a check.
#[derive(Debug, Default)]
struct Found {
    orphans: Vec<(RunKey, Shard, Duration)>,
    /// The runs that were orphans and are wanted.
    wanted: Vec<(RunKey, Shard)>,
    /// The last checked task; `None`: the end of the range.
    up_to: Option<Task>,
}

impl Scheduler {
    /// Handles a new configuration. `before` is the previous one if its wanted tasks were known.
    pub(super) fn wants_change(&mut self, before: Option<&Config>) {
        let (Some(before), Some(after)) = (before, self.engine().config().cloned()) else {
            return self.orphans_mut().unseen.everything();
        };
        if before.kill_orphan_tasks_after != after.kill_orphan_tasks_after {
            return self.orphans_mut().unseen.everything();
        }
        for job in changed_jobs(before, &after) {
            if let Some(job) = self.engine().find_job(job.as_str()) {
                self.orphans_mut().unseen.job(job);
            }
        }
    }

    /// Checks the next runs. Called once a turn.
    pub(crate) fn look_for_orphans(&mut self, now: Time) {
        let mut left = LOOKS_A_TURN;
        while left > 0 && self.looks_for_orphans() {
            let found = self.look(&mut left);
            self.orphans_mut().unseen.seen(found.up_to);
            let orphans = self.orphans_mut();
            let mut shards = BTreeSet::new();
            for (run, shard) in found.wanted {
                orphans.forget(run);
                shards.insert(shard);
            }
            for (run, shard, delay) in found.orphans {
                orphans.note(now, run, &shard, delay);
                shards.insert(shard);
            }
            for shard in &shards {
                self.evaluate(now, shard);
            }
        }
    }

    pub(crate) fn looks_for_orphans(&self) -> bool {
        !self.orphans().unseen.is_empty()
    }

    fn look(&self, left: &mut usize) -> Found {
        let mut found = Found::default();
        let Some((from, to)) = self.orphans().unseen.parts.front().copied() else {
            return found;
        };
        for (task, runs) in self.tasks().running_in(from..=to) {
            let delay = self.kill_delay(task);
            for run in runs {
                let key: (Task, InvocationId) = (task, run.invocation);
                *left = left.saturating_sub(1);
                match delay {
                    Some(delay) => found.orphans.push((key, run.shard.clone(), delay)),
                    None if self.knows_what_is_wanted(task.job)
                        && self.orphans().by_run.contains_key(&key) =>
                    {
                        found.wanted.push((key, run.shard.clone()));
                    }
                    None => continue,
                }
                *left = left.saturating_sub(ORPHAN);
            }
            if *left == 0 {
                found.up_to = Some(task);
                break;
            }
        }
        found
    }
}

/// Returns the jobs whose wanted state may have changed.
fn changed_jobs<'a>(before: &'a Config, after: &'a Config) -> Vec<&'a JobName> {
    let pairs = before.jobs.iter().zip(&after.jobs);
    let first = pairs.take_while(|(one, other)| one.is_same(other)).count();
    let (one, other) = (&before.jobs[first..], &after.jobs[first..]);
    let pairs = one.iter().rev().zip(other.iter().rev());
    let last = pairs.take_while(|(one, other)| one.is_same(other)).count();
    let (one, other) = (&one[..one.len() - last], &other[..other.len() - last]);
    let pairs = || one.iter().zip(other);
    let is_one_job =
        |(a, b): (&Shared<JobConfig>, &Shared<JobConfig>)| a.is_same(b) || a.name == b.name;
    if one.len() == other.len() && pairs().all(is_one_job) {
        let changed = pairs().filter(|(a, b)| !a.is_same(b) && says(a) != says(b));
        return changed.map(|(_, job)| &job.name).collect();
    }
    let by_name = |jobs: &'a [Shared<JobConfig>]| {
        let jobs = jobs.iter().map(|job| (&job.name, says(job)));
        jobs.collect::<BTreeMap<_, _>>()
    };
    let (before, after) = (by_name(one), by_name(other));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let changed = after
        .iter()
        .filter(|(name, job)| before.get(*name) != Some(*job));
    gone.copied()
        .chain(changed.map(|(name, _)| *name))
        .collect()
}

/// Returns the properties of a job that [`super::why_unwanted`] and [`super::allowed`] use.
fn says(job: &JobConfig) -> (bool, bool, bool, Option<Duration>) {
    (
        job.is_cancelled(),
        job.enabled,
        job.errors.is_empty(),
        job.kill_orphan_tasks_after,
    )
}

#[cfg(test)]
mod tests {
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
    fn look(unseen: &mut Unseen, mut left: usize) -> BTreeSet<Task> {
        let mut seen = BTreeSet::new();
        while left > 0
            && let Some((from, to)) = unseen.parts.front().copied()
        {
            let part: Vec<Task> = tasks().filter(|task| (from..=to).contains(task)).collect();
            let some = &part[..left.min(part.len())];
            seen.extend(some);
            left -= some.len();
            unseen.seen(some.last().copied().filter(|_| left == 0));
        }
        seen
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn everything_that_changes_is_looked_at_afterwards(steps in proptest::collection::vec(step(), 0..60)) {
            let mut unseen = Unseen::default();
            let mut expected = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Everything => {
                        unseen.everything();
                        expected.extend(tasks());
                    }
                    Step::Job(job) => {
                        unseen.job(JobId(job));
                        expected.extend(tasks().filter(|task| task.job == JobId(job)));
                    }
                    Step::Look(left) => {
                        for task in look(&mut unseen, left) {
                            expected.remove(&task);
                        }
                    }
                }
                prop_assert!(unseen.parts.len() <= MAX_PARTS + 1);
            }
            for _ in 0..expected.len() + unseen.parts.len() {
                for task in look(&mut unseen, 9) {
                    expected.remove(&task);
                }
            }
            prop_assert!(expected.is_empty(), "never looked at: {expected:?}");
            prop_assert!(unseen.is_empty());
        }
    }

    #[test]
    fn many_jobs_are_everything() {
        let mut unseen = Unseen::default();
        for job in 0..200 {
            unseen.job(JobId(3 * job));
        }
        assert!(unseen.parts.len() <= 2, "{:?}", unseen.parts);
        assert_eq!(unseen.parts.back().map(|(_, to)| *to), Some(LAST));
    }
}
