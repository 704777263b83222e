//! Who waits within the simulation: of each scheduler and type in the order in which they came, as far as limits of tasks at once allow.

use std::collections::{BTreeMap, VecDeque};

use super::super::types::{AssociationIndex, PerType, ProcessorType};
use super::{Simulated, Situation};

/// Tasks that have not ended, those that run among them: they keep their places, and are picked again.
pub(super) struct Queues {
    /// By association.
    of: Vec<PerType<Vec<Lane>>>,
    /// Of associations.
    own: Vec<Limit>,
    /// Of those jobs that have one.
    of_jobs: Vec<Limit>,
    /// By task.
    job_of: Vec<Option<usize>>,
}

/// Tasks of one association and type, first come first. Those of a job that has a limit have a lane of their own: others pass them.
#[derive(Clone)]
struct Lane {
    queue: VecDeque<usize>,
    /// Those before it are picked.
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
}

impl Queues {
    /// `tasks` as they came.
    pub(super) fn new(situation: &Situation, tasks: &[Simulated]) -> Self {
        let associations = situation.associations;
        let own = associations.iter().map(|association| {
            let most = association.max_concurrent;
            Limit::new(most.unwrap_or(u32::MAX))
        });
        let no_lanes = situation.processors.table(&Vec::new());
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
            let lanes = &mut queues.of[task.association.0][task.of_type];
            let lane = *lane_of
                .entry((task.association, task.of_type.0, job))
                .or_insert_with(|| {
                    lanes.push(Lane {
                        queue: VecDeque::new(),
                        next: 0,
                        job,
                    });
                    lanes.len() - 1
                });
            lanes[lane].queue.push_back(index);
        }
        queues
    }

    /// All are picked anew.
    pub(super) fn begin_pick(&mut self) {
        for limit in self.own.iter_mut().chain(&mut self.of_jobs) {
            limit.running = 0;
        }
    }

    /// Those that have tasks of this type, which are picked next.
    pub(super) fn begin_type(&mut self, of_type: ProcessorType) -> Vec<AssociationIndex> {
        let mut with_tasks = Vec::new();
        for (index, lanes) in self.of.iter_mut().enumerate() {
            let lanes = &mut lanes[of_type];
            for lane in &mut *lanes {
                lane.next = 0;
            }
            if lanes.iter().any(|lane| !lane.queue.is_empty()) {
                with_tasks.push(AssociationIndex(index));
            }
        }
        with_tasks
    }

    /// The next that the limits allow; with it those are forgotten that have ended and stand before it, so that nobody passes them again.
    pub(super) fn next(
        &mut self,
        association: AssociationIndex,
        of_type: ProcessorType,
        tasks: &[Simulated],
    ) -> Option<usize> {
        if self.own[association.0].is_reached() {
            return None;
        }
        let mut first: Option<(usize, &mut Lane)> = None;
        for lane in &mut self.of[association.0][of_type] {
            if lane.job.is_some_and(|job| self.of_jobs[job].is_reached()) {
                continue;
            }
            if let Some(index) = lane.next_of(tasks)
                && first.as_ref().is_none_or(|(before, _)| index < *before)
            {
                first = Some((index, lane));
            }
        }
        let (index, lane) = first?;
        lane.next += 1;
        self.own[association.0].count();
        if let Some(job) = lane.job {
            self.of_jobs[job].count();
        }
        Some(index)
    }

    /// Whether, with this task, its association or its job has as many as it may have.
    pub(super) fn is_at_limit(&self, index: usize, association: AssociationIndex) -> bool {
        let of_job = self.job_of[index];
        self.own[association.0].is_reached()
            || of_job.is_some_and(|job| self.of_jobs[job].is_reached())
    }
}

impl Lane {
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
