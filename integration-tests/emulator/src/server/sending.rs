//! Chooses the tasks that a scheduler sends, by the credit of a request or by slots.

use std::collections::BTreeSet;

use brasserie_common::edf::{Candidate, EdfJob, edf};

use super::{RequestCredit, Sent, Server, Want};
use crate::scenario::{Estimate, Job, Scenario, ServerCheck};

/// Maximum number of tasks for one request, per processor.
const MOST_PER_PROCESSOR: u32 = 10;
/// Minimum of random run times, as a fraction of the job's usual one.
const LEAST_PART: f64 = 0.05;

/// A request at its arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivedRequest {
    /// The wanted work by type.
    pub wants: Vec<Want>,
    /// The worker's tasks of this scheduler.
    pub known: Vec<TaskAtWorker>,
    pub linger: f64,
}

/// A task at the worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskAtWorker {
    /// Remaining run time in seconds.
    pub remaining: f64,
    /// Seconds until its deadline.
    pub deadline: Option<f64>,
}

/// The outcome of a request for one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeVerdict {
    Granted(u32),
    NoWork,
    Limited,
    Deadline,
    NoApps,
    Deferred,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RequestAnswer {
    pub sent: Vec<Sent>,
    /// The verdicts by type.
    pub verdicts: Vec<Option<TypeVerdict>>,
    pub request_delay: f64,
    /// Types that no job uses.
    pub no_apps: Vec<usize>,
}

/// The versions that one request has ruled out: the index of the job, and of the version.
type Rejected = BTreeSet<(usize, usize)>;

impl Server {
    /// Answers a request.
    pub fn request(
        &mut self,
        scenario: &Scenario,
        now: f64,
        asked: ArrivedRequest,
    ) -> RequestAnswer {
        self.advance(now);
        let own = self.own(scenario);
        let interval = own.min_request_interval;
        let since = self.last_request.map_or(f64::INFINITY, |last| now - last);
        self.last_request = Some(now);
        let wanted: Vec<bool> = asked.wants.iter().map(Want::wants_something).collect();
        if since < interval {
            let deferred = |wanted: &bool| wanted.then_some(TypeVerdict::Deferred);
            return RequestAnswer {
                sent: Vec::new(),
                verdicts: wanted.iter().map(deferred).collect(),
                request_delay: (1.01 * interval).max(interval + 1.0),
                no_apps: Vec::new(),
            };
        }
        let there = (0..scenario.worker.types()).map(|of_type| scenario.worker.instances(of_type));
        let processors: u32 = there.clone().sum();
        self.credit = Some(RequestCredit {
            wants: asked.wants,
            there: there.map(f64::from).collect(),
            known: asked.known,
            until: now + asked.linger,
            left: processors.saturating_mul(MOST_PER_PROCESSOR),
        });
        let mut rejected = Rejected::new();
        let sent = self.spend(scenario, now, &mut rejected);
        let types = 0..scenario.worker.types();
        let verdicts = types
            .clone()
            .map(|of_type| {
                let wanted = wanted[of_type];
                wanted.then(|| self.verdict(scenario, of_type, &sent, &rejected))
            })
            .collect();
        RequestAnswer {
            sent,
            verdicts,
            request_delay: own.request_delay,
            no_apps: types.filter(|it| !self.has_apps(scenario, *it)).collect(),
        }
    }

    /// Sends tasks that have become ready since the last request, if that lingers.
    pub fn linger(&mut self, scenario: &Scenario, now: f64) -> Vec<Sent> {
        self.advance(now);
        if self
            .credit
            .as_ref()
            .is_none_or(|credit| credit.until <= now)
        {
            self.credit = None;
            return Vec::new();
        }
        if now < self.busy_until {
            return Vec::new();
        }
        self.spend(scenario, now, &mut Rejected::new())
    }

    /// Sends tasks without a request, as many as fit into the free slots.
    pub fn push(&mut self, scenario: &Scenario, now: f64, slots: &[f64]) -> Vec<Sent> {
        self.push_within(scenario, now, slots, &mut { f64::INFINITY })
    }

    /// Sends tasks like [`push`](Self::push), but GPU tasks for no more than `cpus` CPUs. Subtracts the CPUs of the sent GPU tasks from
    /// `cpus`.
    pub fn push_within(
        &mut self,
        scenario: &Scenario,
        now: f64,
        slots: &[f64],
        cpus: &mut f64,
    ) -> Vec<Sent> {
        self.advance(now);
        if now < self.busy_until {
            return Vec::new();
        }
        let mut free = slots.to_vec();
        for (of_type, instances) in self.held.values() {
            free[*of_type] -= instances;
        }
        let mut sent = Vec::new();
        loop {
            let own = self.own(scenario);
            let fits = |job: &Job| {
                let versions = job.versions.iter().enumerate();
                let fitting = versions.filter(|(_, it)| {
                    let has_cpus = it.cards.is_none() || it.cpus <= *cpus + 1e-9;
                    has_cpus && it.of_its_type() <= free[it.of_type()] + 1e-9
                });
                let fastest =
                    fitting.max_by(|(_, one), (_, other)| one.flops.total_cmp(&other.flops));
                fastest.map(|(version, _)| version)
            };
            let open = own.jobs.iter().zip(&self.pools);
            let weights: Vec<f64> = open
                .map(|(job, pool)| match pool.is_empty() || fits(job).is_none() {
                    true => 0.0,
                    false => job.weight,
                })
                .collect();
            let Some(job) = self.chance.weighted(weights.iter().copied()) else {
                return sent;
            };
            let Some(version) = fits(&own.jobs[job]) else {
                return sent;
            };
            let of = own.jobs[job].versions[version];
            free[of.of_type()] -= of.of_its_type();
            if of.cards.is_some() {
                *cpus -= of.cpus;
            }
            self.pools[job].take();
            sent.push(self.draw(scenario, job, version, now));
        }
    }

    fn spend(&mut self, scenario: &Scenario, now: f64, rejected: &mut Rejected) -> Vec<Sent> {
        let mut sent = Vec::new();
        let Some(mut credit) = self.credit.take() else {
            return sent;
        };
        while credit.left > 0 {
            let own = self.own(scenario);
            let open = own.jobs.iter().zip(&self.pools).enumerate();
            let weights: Vec<f64> = open
                .map(|(place, (job, pool))| {
                    let version = wanted_version(job, place, &credit, rejected);
                    match pool.is_empty() || version.is_none() {
                        true => 0.0,
                        false => job.weight,
                    }
                })
                .collect();
            let Some(job) = self.chance.weighted(weights.iter().copied()) else {
                break;
            };
            let Some(version) = wanted_version(&own.jobs[job], job, &credit, rejected) else {
                break;
            };
            let task = self.draw(scenario, job, version, now);
            if !is_feasible(scenario, &own.jobs[job], &task, &credit) {
                rejected.insert((job, version));
                continue;
            }
            charge(scenario, &own.jobs[job], &task, &mut credit);
            self.pools[job].take();
            sent.push(task);
        }
        if credit.until > now {
            self.credit = Some(credit);
        }
        sent
    }

    /// Creates a random task of the job.
    pub(super) fn draw(
        &mut self,
        scenario: &Scenario,
        job: usize,
        version: usize,
        now: f64,
    ) -> Sent {
        let of = &scenario.schedulers[self.place].jobs[job];
        let flops = of.versions[version].flops;
        let work = self.sizes.normal(of.work, of.varies);
        let (mean, deviation) = match of.estimate {
            Estimate::Unknown => (0.0, 0.0),
            Estimate::Normal { mean, deviation } => (mean, deviation),
        };
        let estimate = self.sizes.normal(mean, deviation).max(0.0) / flops;
        let (luck, part) = (self.sizes.unit(), self.sizes.unit());
        let work = work.max(LEAST_PART * of.work);
        Sent {
            job,
            version,
            work,
            estimate: (of.estimate != Estimate::Unknown).then_some(estimate),
            deadline: of.deadline.map(|bound| now + bound),
            fails_at: (luck < of.fails).then_some(part * work),
        }
    }

    fn has_apps(&self, scenario: &Scenario, of_type: usize) -> bool {
        let own = self.own(scenario);
        let mut versions = own.jobs.iter().flat_map(|job| &job.versions);
        !own.no_jobs_for.contains(&of_type) && versions.any(|it| it.of_type() == of_type)
    }

    fn verdict(
        &self,
        scenario: &Scenario,
        of_type: usize,
        sent: &[Sent],
        rejected: &Rejected,
    ) -> TypeVerdict {
        let own = self.own(scenario);
        let type_of = |job: usize, version: usize| own.jobs[job].versions[version].of_type();
        let its = sent
            .iter()
            .filter(|it| type_of(it.job, it.version) == of_type);
        let granted = u32::try_from(its.count()).unwrap_or(u32::MAX);
        let mut ready = own.jobs.iter().zip(&self.pools);
        let has = |job: &Job| job.versions.iter().any(|it| it.of_type() == of_type);
        if granted > 0 {
            TypeVerdict::Granted(granted)
        } else if !self.has_apps(scenario, of_type) {
            TypeVerdict::NoApps
        } else if rejected
            .iter()
            .any(|&(job, at)| type_of(job, at) == of_type)
        {
            TypeVerdict::Deadline
        } else if ready.any(|(job, pool)| !pool.is_empty() && has(job)) {
            TypeVerdict::Limited
        } else {
            TypeVerdict::NoWork
        }
    }
}

/// Returns the fastest version of the job for which there is credit.
fn wanted_version(
    job: &Job,
    place: usize,
    credit: &RequestCredit,
    rejected: &Rejected,
) -> Option<usize> {
    let wanted = |of_type: usize| {
        let want = &credit.wants[of_type];
        match job.bufferable {
            true => want.secs > 0.0 || want.instances > 0.0,
            false => want.idle > 0.0,
        }
    };
    let versions = job.versions.iter().enumerate();
    let open = versions
        .filter(|(at, version)| wanted(version.of_type()) && !rejected.contains(&(place, *at)));
    open.max_by(|(_, one), (_, other)| one.flops.total_cmp(&other.flops))
        .map(|(at, _)| at)
}

/// Returns whether the task would meet its deadline by the scheduler's check.
fn is_feasible(scenario: &Scenario, job: &Job, task: &Sent, credit: &RequestCredit) -> bool {
    let Some(bound) = job.deadline else {
        return true;
    };
    let takes = task.estimate.unwrap_or(0.0);
    match scenario.policy.server_check {
        ServerCheck::EstimatedDelay => {
            let of_type = job.versions[task.version].of_type();
            credit.wants[of_type].delay + takes <= bound
        }
        ServerCheck::Workload => {
            let low_water = scenario.profile.low_water();
            let due = |known: &TaskAtWorker| known.deadline.map(|deadline| deadline - low_water);
            let jobs = credit.known.iter().map(|known| EdfJob {
                remaining: known.remaining,
                deadline: due(known).unwrap_or(f64::INFINITY),
            });
            let (cpus, jobs) = (scenario.worker.cpus as usize, jobs.collect::<Vec<_>>());
            Candidate::new(takes, bound, low_water).fits(cpus, &jobs, &edf(cpus, &jobs))
        }
    }
}

/// Subtracts the task's use from the credit, including the CPUs of a GPU task.
fn charge(scenario: &Scenario, job: &Job, task: &Sent, credit: &mut RequestCredit) {
    let version = &job.versions[task.version];
    let takes = task
        .estimate
        .unwrap_or(brasserie_common::work::DEFAULT_ESTIMATE);
    let of_type = version.of_type();
    let mut take = |of_type: usize, usage: f64| {
        let want = &mut credit.wants[of_type];
        want.secs -= takes * usage;
        want.instances -= usage;
        want.idle -= usage;
    };
    take(of_type, version.of_its_type());
    if of_type != 0 && version.cpus > 0.0 {
        take(0, version.cpus);
    }
    let instances = f64::from(scenario.worker.instances(of_type)).max(1.0);
    credit.wants[of_type].delay += takes * version.of_its_type() / instances;
    credit.left -= 1;
    credit.known.push(TaskAtWorker {
        remaining: takes,
        deadline: job.deadline,
    });
}
