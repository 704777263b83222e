//! Two simulations that are simple enough to be evidently correct, however slow: one follows the definition directly, and one advances
//! second by second.

use std::collections::BTreeSet;

use super::super::super::outlook::{AssociationOutlook, Outlook, PairOutlook, TypeOutlook};
use super::super::super::types::{ProcessorType, Task, TaskStage};
use super::{CPU, Case, now};

/// A task in its order of arrival.
struct Placed<'a> {
    task: &'a Task,
    of_type: ProcessorType,
    left: f64,
    done: bool,
}

struct Plain<'a> {
    case: &'a Case,
    tasks: Vec<Placed<'a>>,
    t: f64,
    active: Vec<usize>,
    /// Limits count up to the first pick beyond the buffer.
    picked_beyond: bool,
    out: Outlook,
}

/// Simulates until the last task ends, without an early exit.
pub fn line_by_line(case: &Case) -> Outlook {
    let none = AssociationOutlook {
        of_type: case.processors.table(&PairOutlook::default()),
        limited_at: None,
    };
    let mut plain = Plain {
        case,
        tasks: placed(case),
        t: 0.0,
        active: Vec::new(),
        picked_beyond: false,
        out: Outlook {
            of_type: case.processors.table(&TypeOutlook::default()),
            of_association: vec![none; case.associations.len()],
            misses: BTreeSet::new(),
        },
    };
    plain.run();
    plain.out
}

fn placed(case: &Case) -> Vec<Placed<'_>> {
    let takes_part = |task: &&Task| task.stage != TaskStage::WaitingForInputs { stalled: true };
    let mut tasks: Vec<_> = case.tasks.iter().filter(takes_part).collect();
    tasks.sort_by_key(|task| (task.received, task.number));
    let placed = |task: &'_ Task| task.usage.processor_type();
    tasks
        .into_iter()
        .map(|task| Placed {
            task,
            of_type: placed(task),
            left: task.remaining / case.processors[placed(task)].availability,
            done: false,
        })
        .collect()
}

impl Plain<'_> {
    fn run(&mut self) {
        self.count_queued();
        let end = self.case.profile.high_water();
        let mut missed = Vec::new();
        let mut first = true;
        loop {
            self.pick();
            if first {
                for rt in self.case.processors.types() {
                    self.out.of_type[rt].idle_now = (-self.over(rt)).max(0.0);
                }
                first = false;
            }
            let Some(best) = self.best() else { break };
            let dt = self.tasks[best].left;
            self.tasks[best].done = true;
            if self.is_late(best, self.t + dt) {
                missed.push(best);
            }
            for index in &self.active {
                let task = &mut self.tasks[*index];
                task.left = (task.left - dt).max(0.0);
            }
            self.update_stats(dt, end);
            self.t += dt;
        }
        if self.t < end {
            self.update_stats(end - self.t, end);
        }
        self.keep_busy(missed);
    }

    fn best(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for index in &self.active {
            if best.is_none_or(|best| self.tasks[*index].left < self.tasks[best].left) {
                best = Some(*index);
            }
        }
        best
    }

    fn count_queued(&mut self) {
        for placed in &self.tasks {
            let pairs = &mut self.out.of_association[placed.task.association.0].of_type;
            pairs[placed.of_type].runnable += 1;
            pairs[placed.of_type].queued += placed.left;
            pairs[ProcessorType::CPU].used_by_all += placed.task.usage.cpus;
            if let Some((cards, much)) = placed.task.usage.cards {
                pairs[cards].used_by_all += much;
            }
        }
    }

    /// Returns the instances that the running tasks of the association, or of all, use.
    fn used(&self, rt: ProcessorType, association: Option<usize>) -> f64 {
        let active = self.active.iter().map(|index| self.tasks[*index].task);
        active
            .filter(|task| association.is_none_or(|only| task.association.0 == only))
            .map(|task| task.usage.of(rt))
            .sum()
    }

    fn over(&self, rt: ProcessorType) -> f64 {
        self.used(rt, None) - self.case.processors.instances(rt)
    }

    fn running(&self, association: usize, job: Option<u32>) -> u32 {
        let active = self.active.iter().map(|index| self.tasks[*index].task);
        let counted = active.filter(|task| {
            task.association.0 == association && job.is_none_or(|only| task.job == only)
        });
        counted.count() as u32
    }

    fn is_at_limit(&self, association: usize, job: u32) -> bool {
        let limits = &self.case.associations[association];
        let own = limits.max_concurrent;
        let of_job = limits.max_concurrent_of_jobs.get(&job);
        own.is_some_and(|most| self.running(association, None) >= most)
            || of_job.is_some_and(|most| self.running(association, Some(job)) >= *most)
    }

    fn priority(&self, association: usize, rec: &[f64]) -> f64 {
        let associations = &self.case.associations;
        let is_counted = |of: &usize| self.tasks.iter().any(|task| task.task.association.0 == *of);
        let counted: Vec<_> = (0..associations.len()).filter(is_counted).collect();
        let shares: f64 = counted.iter().map(|of| associations[*of].share).sum();
        let all = self.rec_sum(&counted);
        let got = rec[association] / all;
        match associations[association].share {
            0.0 if shares == 0.0 && rec[association] == self.case.rec[association] => 0.0,
            0.0 => -1000.0 - got,
            share => -(got / (share / shares)),
        }
    }

    fn rec_sum(&self, counted: &[usize]) -> f64 {
        match counted.iter().map(|of| self.case.rec[*of]).sum::<f64>() {
            0.0 => 1.0,
            sum => sum,
        }
    }

    fn pick(&mut self) {
        self.active.clear();
        for rt in self.case.processors.types().rev() {
            let mut rec = self.case.rec.clone();
            let mut passed = Vec::new();
            while let Some(index) = self.next(rt, &rec, &passed) {
                let task = self.tasks[index].task;
                let is_free = self.used(rt, None) == 0.0;
                if rt != CPU && !is_free && self.over(rt) + task.usage.of(rt) > 1e-6 {
                    passed.push(index);
                    if passed.len() == 4 {
                        break;
                    }
                    continue;
                }
                self.active.push(index);
                let association = task.association.0;
                let is_counted =
                    |of: &usize| self.tasks.iter().any(|task| task.task.association.0 == *of);
                let counted: Vec<_> = (0..rec.len()).filter(is_counted).collect();
                let host = self.case.processors.peak();
                let fraction = task.usage.peak(&self.case.processors) / host;
                rec[association] += fraction * self.rec_sum(&counted) / 24.0;
                if self.is_at_limit(association, task.job) && !self.picked_beyond {
                    self.out.of_association[association].limited_at = Some(self.t);
                }
                if self.over(rt) >= 0.0 {
                    break;
                }
            }
        }
        self.picked_beyond = self.t > self.case.profile.high_water();
    }

    /// Returns the next task: the first one that may run, of the association with the highest priority.
    fn next(&self, rt: ProcessorType, rec: &[f64], passed: &[usize]) -> Option<usize> {
        let mut best: Option<(f64, usize, usize)> = None;
        for (index, placed) in self.tasks.iter().enumerate() {
            let association = placed.task.association.0;
            let is_picked = self.active.contains(&index) || passed.contains(&index);
            let can_run = !placed.done && placed.of_type == rt && !is_picked;
            if !can_run || self.is_at_limit(association, placed.task.job) {
                continue;
            }
            let priority = self.priority(association, rec);
            let is_better = best.is_none_or(|(best, of, _)| {
                priority > best || (priority == best && association < of)
            });
            if is_better {
                best = Some((priority, association, index));
            }
        }
        best.map(|(_, _, index)| index)
    }

    fn is_late(&self, index: usize, at: f64) -> bool {
        let Some(deadline) = self.tasks[index].task.deadline else {
            return false;
        };
        let ahead = deadline.since(now()).as_secs_f64() - now().since(deadline).as_secs_f64();
        at - (ahead - self.case.profile.low_water()) > 0.0
    }

    /// Counts a step, up to the end of the buffer.
    fn update_stats(&mut self, dt: f64, end: f64) {
        for rt in self.case.processors.types() {
            let idle = -self.over(rt);
            if self.t >= end {
                continue;
            }
            let dt2 = dt.min(end - self.t);
            if idle > 1e-6 {
                self.out.of_type[rt].shortfall += idle * dt2;
            }
            if idle < 1e-6 {
                self.out.of_type[rt].saturated = self.t + dt;
            }
            for association in 0..self.case.associations.len() {
                let more = self.limited_more(rt, association, idle);
                let pairs = &mut self.out.of_association[association].of_type;
                pairs[rt].limited_shortfall += more.max(0.0) * dt2;
            }
        }
    }

    fn limited_more(&self, rt: ProcessorType, association: usize, idle: f64) -> f64 {
        let limits = &self.case.associations[association];
        let Some(limit) = limits.max_concurrent else {
            return if limits.max_concurrent_of_jobs.is_empty() {
                0.0
            } else {
                idle
            };
        };
        let of_it = (self.tasks.iter())
            .filter(|task| task.task.association.0 == association && task.of_type == rt);
        let most = of_it.map(|task| task.task.usage.of(rt)).reduce(f64::max);
        let could = f64::from(limit) * most.unwrap_or(1.0);
        could.min(self.case.processors.instances(rt)) - self.used(rt, Some(association))
    }

    fn keep_busy(&mut self, mut missed: Vec<usize>) {
        missed.sort_by_key(|index| {
            (
                self.tasks[*index].task.deadline,
                self.tasks[*index].task.number,
            )
        });
        for rt in self.case.processors.types() {
            let instances = self.case.processors.instances(rt) as usize;
            let mut busy = vec![0.0_f64; instances];
            for index in &missed {
                let task = &self.tasks[*index];
                let wanted = (task.task.usage.of(rt).floor() as usize).min(instances);
                let window = |first: usize| (first..first + wanted).map(move |at| at % instances);
                let busiest = |first: usize| window(first).map(|at| busy[at]).fold(0.0, f64::max);
                let mut best = 0;
                for first in 0..instances {
                    if wanted > 0 && busiest(first) < busiest(best) {
                        best = first;
                    }
                }
                let availability = self.case.processors[task.of_type].availability;
                for at in window(best).collect::<Vec<_>>() {
                    busy[at] += task.task.remaining / availability;
                }
            }
            self.out.of_type[rt].busy = busy.into_iter().reduce(f64::min).unwrap_or(0.0);
        }
        for index in missed {
            let placed = &self.tasks[index];
            self.out.misses.insert(placed.task.number);
            let pairs = &mut self.out.of_association[placed.task.association.0].of_type;
            pairs[placed.of_type].deadlines_missed += 1;
        }
    }
}

/// Simulates second by second, for one association, CPUs only and whole seconds. Returns the shortfall, the saturated time and the late
/// tasks.
pub fn second_by_second(case: &Case) -> (f64, f64, BTreeSet<u64>) {
    let instances = case.processors.instances(ProcessorType::CPU);
    let end = case.profile.high_water();
    let mut left: Vec<_> = case.tasks.iter().map(|task| task.remaining).collect();
    let mut misses = BTreeSet::new();
    let (mut shortfall, mut saturated, mut second) = (0.0, 0.0, 0.0);
    while second < end || left.iter().any(|left| *left > 0.0) {
        let mut used = 0.0;
        for (task, left) in case.tasks.iter().zip(&mut left) {
            if *left == 0.0 || used >= instances {
                continue;
            }
            used += task.usage.cpus;
            *left -= 1.0;
            let until = task
                .deadline
                .map(|deadline| deadline.since(now()).as_secs_f64());
            if *left == 0.0
                && until.is_some_and(|until| second + 1.0 > until - case.profile.low_water())
            {
                misses.insert(task.number.0);
            }
        }
        if second < end {
            shortfall += (instances - used).max(0.0);
            if used >= instances {
                saturated = second + 1.0;
            }
        }
        second += 1.0;
    }
    (shortfall, saturated, misses)
}
