//! Queues the tasks of the simulation for each scheduler and type, in the order of arrival, within the limits of concurrent tasks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::ops::Bound;

use super::super::types::{AssociationIndex, PerType, ProcessorType};
use super::{Simulated, SimulationInput};

/// The tasks that have not ended. Running tasks keep their places and are picked again.
pub(super) struct Queues {
    /// The queues by association.
    of: Vec<PerType<ArrivalQueue>>,
    /// The limits of associations.
    own: Vec<Limit>,
    /// The limits of jobs that have one.
    of_jobs: Vec<Limit>,
    /// The index of the limit of each task's job, by task.
    job_of: Vec<Option<usize>>,
}

/// The tasks of one association and type in the order of arrival. Each job with a limit has its own lane, so that other tasks can overtake
/// its tasks.
#[derive(Clone, Default)]
struct ArrivalQueue {
    lanes: Vec<JobLane>,
    /// The first task of each lane that is not empty, with the lane. The task may have ended.
    firsts: BTreeSet<(usize, usize)>,
    /// The last entry of `firsts` that this pick has handled.
    passed: Option<(usize, usize)>,
    /// The next tasks of the lanes from which a task was picked.
    following: BinaryHeap<Reverse<(usize, usize)>>,
}

#[derive(Clone)]
struct JobLane {
    queue: VecDeque<usize>,
    /// The tasks before this position are picked.
    next: usize,
    job: Option<usize>,
}

struct Limit {
    most: u32,
    running: u32,
}

impl Limit {
    fn new(most: u32) -> Self {
        Limit { most, running: 0 }
    }

    fn is_reached(&self) -> bool {
        self.running >= self.most
    }

    fn count(&mut self) {
        self.running = self.running.saturating_add(1);
    }

    fn uncount(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
}

impl Queues {
    /// Creates the queues of `tasks`, which are in the order of arrival.
    pub(super) fn new(simulation_input: &SimulationInput, tasks: &[Simulated]) -> Self {
        let associations = simulation_input.associations;
        let own = associations.iter().map(|association| {
            let most = association.max_concurrent;
            Limit::new(most.unwrap_or(u32::MAX))
        });
        let no_lanes = simulation_input.processors.table(&ArrivalQueue::default());
        let mut queues = Queues {
            of: vec![no_lanes; associations.len()],
            own: own.collect(),
            of_jobs: Vec::new(),
            job_of: Vec::new(),
        };
        let mut limited = BTreeMap::new();
        let mut lane_of = BTreeMap::new();
        for (index, task) in tasks.iter().enumerate() {
            let limits = &associations[task.association.0].max_concurrent_of_jobs;
            let job = limits.get(&task.job).map(|most| {
                *limited
                    .entry((task.association, task.job))
                    .or_insert_with(|| {
                        queues.of_jobs.push(Limit::new(*most));
                        queues.of_jobs.len() - 1
                    })
            });
            queues.job_of.push(job);
            let line = &mut queues.of[task.association.0][task.of_type];
            let lane = *lane_of
                .entry((task.association, task.of_type.0, job))
                .or_insert_with(|| line.open_lane(index, job));
            line.lanes[lane].queue.push_back(index);
        }
        queues
    }

    /// Begins a new pick of all running tasks.
    pub(super) fn begin_pick(&mut self) {
        for limit in self.own.iter_mut().chain(&mut self.of_jobs) {
            limit.running = 0;
        }
    }

    /// Begins to pick tasks of this type, and returns the associations that have some.
    pub(super) fn begin_type(&mut self, of_type: ProcessorType) -> Vec<AssociationIndex> {
        let mut with_tasks = Vec::new();
        for (index, lines) in self.of.iter_mut().enumerate() {
            let line = &mut lines[of_type];
            line.passed = None;
            line.following.clear();
            if !line.firsts.is_empty() {
                with_tasks.push(AssociationIndex(index));
            }
        }
        with_tasks
    }

    /// Picks the association's next task that the limits allow. Ended tasks before it are removed, so that no later pick passes them.
    pub(super) fn next(
        &mut self,
        association: AssociationIndex,
        of_type: ProcessorType,
        tasks: &[Simulated],
    ) -> Option<usize> {
        if self.own[association.0].is_reached() {
            return None;
        }
        let of_jobs = &self.of_jobs;
        let is_reached = |job: Option<usize>| job.is_some_and(|job| of_jobs[job].is_reached());
        let (index, job) = self.of[association.0][of_type].next(is_reached, tasks)?;
        self.own[association.0].count();
        if let Some(job) = job {
            self.of_jobs[job].count();
        }
        Some(index)
    }

    /// Removes the task that was picked last from this pick's counts, because it does not fit.
    pub(super) fn skip(&mut self, index: usize, association: AssociationIndex) {
        self.own[association.0].uncount();
        if let Some(job) = self.job_of[index] {
            self.of_jobs[job].uncount();
        }
    }

    /// Returns whether the association or job of this task has reached its limit.
    pub(super) fn is_at_limit(&self, index: usize, association: AssociationIndex) -> bool {
        let of_job = self.job_of[index];
        self.own[association.0].is_reached()
            || of_job.is_some_and(|job| self.of_jobs[job].is_reached())
    }
}

impl ArrivalQueue {
    /// Adds a lane that begins with task `first`, and returns its index.
    fn open_lane(&mut self, first: usize, job: Option<usize>) -> usize {
        let lane = self.lanes.len();
        self.lanes.push(JobLane {
            queue: VecDeque::new(),
            next: 0,
            job,
        });
        self.firsts.insert((first, lane));
        lane
    }

    /// Picks the first task that is not picked yet, from a lane below its limit. Returns the task and the job of its lane's limit. A lane
    /// at its limit is passed for the rest of the pick, because running tasks only become more during a pick.
    fn next(
        &mut self,
        is_reached: impl Fn(Option<usize>) -> bool,
        tasks: &[Simulated],
    ) -> Option<(usize, Option<usize>)> {
        loop {
            let after = self.passed.map_or(Bound::Unbounded, Bound::Excluded);
            let first = self.firsts.range((after, Bound::Unbounded)).next().copied();
            let following = self.following.peek().map(|Reverse(following)| *following);
            let next = first.into_iter().chain(following).min();
            let (index, lane) = next?;
            let place = if next == first {
                self.passed = first;
                0
            } else {
                self.following.pop();
                self.lanes[lane].next
            };
            if is_reached(self.lanes[lane].job) {
                continue;
            }
            self.lanes[lane].next = place;
            let there = self.lanes[lane].next_of(tasks);
            if there != Some(index) {
                // The task has ended. The first task now comes later in the lane, so the loop will reach it.
                self.firsts.remove(&(index, lane));
                self.firsts.extend(there.map(|there| (there, lane)));
                continue;
            }
            let taken = &mut self.lanes[lane];
            taken.next += 1;
            let job = taken.job;
            let following = taken.next_of(tasks);
            self.following
                .extend(following.map(|following| Reverse((following, lane))));
            return Some((index, job));
        }
    }
}

impl JobLane {
    fn next_of(&mut self, tasks: &[Simulated]) -> Option<usize> {
        while let Some(index) = self.queue.get(self.next).copied() {
            if !tasks[index].done {
                return Some(index);
            }
            self.queue.remove(self.next);
        }
        None
    }
}
