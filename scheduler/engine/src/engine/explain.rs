//! Explains why a task is not running: all reasons, from the same predicates that placement uses.

mod infeasible;

use brasserie_common::status::StoredStatus;
use brasserie_common::{JobId, Time};
use brasserie_common_config::{Config, JobConfig, ResourceId};

use super::Engine;
use super::place::required_host;
use crate::forest::Forest;
use crate::pool::work_need::{ExpectedRunTime, Refusal};
use crate::pool::worker::PoolWorker;
use crate::queues::gates::Gate;
use crate::queues::states::{Dependency, Structure, structure};
use crate::reason::{Lack, LateBy, Need, NoSpace, Reason, Refusers, RunWait, resume};
use crate::slots::{is_met, need_of};
use crate::tasks::job::Job;
use crate::types::{Eligibility, NodesOwner, Task, TaskState};

impl Engine {
    /// Returns every reason why the task does not run now; never empty.
    ///
    /// A runnable or running task, and a task that is done or has failed for good, has only this one reason. A task that can never run has
    /// no reason about slots.
    pub fn explain(&self, now: Time, task: Task) -> Vec<Reason> {
        if let Some(run) = self.tasks.run(task) {
            let shard = self.pool.get_any(run.worker).map(|w| w.shard.clone());
            let shard = shard.unwrap_or_default();
            return vec![match self.standby_rank(task) {
                Some(before) => Reason::StandsBy { shard, before },
                None => Reason::RunningOn(shard),
            }];
        }
        let mut status = Vec::new();
        self.explain_status(now, task, &mut status);
        let is_over = |reason: &Reason| matches!(reason, Reason::Done | Reason::Failed { .. });
        if status.iter().any(is_over) {
            status.retain(|reason| !matches!(reason, Reason::HeldBackFor { .. }));
            if let (Some(config), Some(forest), Some(job_config)) =
                (&self.config, &self.forest, self.job_config(task.job))
                && !self.is_at_level(forest, task)
            {
                status.push(self.not_at_level(config, job_config, task));
            }
            return status;
        }
        let mut reasons = self.explain_config();
        reasons.extend(status);
        match (&self.config, &self.forest, self.job_config(task.job)) {
            (Some(_), _, None) => reasons.push(Reason::UnknownJob),
            (Some(config), Some(forest), Some(job_config)) => {
                let job = self.tasks.job(task.job);
                explain_state(job, job_config, &mut reasons);
                self.explain_dependencies(forest, job, task, &mut reasons);
                self.explain_gates(forest, job, &mut reasons);
                let before = reasons.len();
                self.explain_limits(config, job, job_config, &mut reasons);
                // Free slots do not help a task that can never run.
                let is_hopeless = |reason: &Reason| {
                    matches!(
                        reason,
                        Reason::NeverDone { .. } | Reason::NeverAllDone { .. }
                    )
                };
                let slots = reasons.len() == before && !reasons.iter().any(is_hopeless);
                self.explain_place(config, forest, (job_config, slots), task, &mut reasons);
            }
            (_, _, _) => {}
        }
        if reasons.is_empty() {
            reasons.push(Reason::Runnable);
        }
        reasons
    }

    /// Returns the reasons that keep all tasks of a job from running; empty if there are none.
    pub fn explain_job(&self, id: JobId) -> Vec<Reason> {
        let mut reasons = self.explain_config();
        match (&self.config, &self.forest, self.job_config(id)) {
            (Some(_), _, None) => reasons.push(Reason::UnknownJob),
            (Some(config), Some(forest), Some(job_config)) => {
                let job = self.tasks.job(id);
                explain_state(job, job_config, &mut reasons);
                self.explain_gates(forest, job, &mut reasons);
                self.explain_limits(config, job, job_config, &mut reasons);
            }
            (_, _, _) => {}
        }
        reasons
    }

    fn explain_config(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        match &self.config {
            None => reasons.push(Reason::NoConfig),
            Some(config) if !config.enabled => reasons.push(Reason::ConfigDisabled),
            Some(_) => {}
        }
        if self.forest.is_none() {
            reasons.push(Reason::NoNodes);
        }
        reasons
    }

    fn explain_status(&self, now: Time, task: Task, reasons: &mut Vec<Reason>) {
        let status = self.previous_status(task);
        match &status {
            Some(s) if s.is_done() => reasons.push(Reason::Done),
            Some(s) if s.is_failed() => reasons.push(Reason::Failed {
                job: self.job_name(task.job).clone(),
                status: s.to_string(),
            }),
            Some(_) | None => {}
        }
        if let Some(until) = self.tasks.waits().get(task) {
            // The stored backoff is the longer of both waits. It equals the safety wait if that one decided.
            let is_safety =
                |s: &StoredStatus| s.safety_seconds > 0 && s.safety_seconds == s.backoff_seconds;
            let wait = match status.as_ref().is_some_and(is_safety) {
                true => RunWait::Safety,
                false => RunWait::Backoff,
            };
            let status = status
                .as_ref()
                .map_or_else(|| "none".to_owned(), ToString::to_string);
            reasons.push(Reason::WaitsAfterItsLastRun {
                wait,
                remaining: until.since(now),
                status,
            });
        }
        if let Some(wait) = self.tasks.locality().get(task) {
            let workers = wait.workers.iter();
            let shards = workers.filter_map(|worker| Some(self.pool.get(*worker)?.shard.clone()));
            reasons.push(Reason::WaitsForInputs {
                at: shards.collect(),
                bytes: wait.bytes,
                remaining: wait.until.since(now),
            });
        }
        if let Some(until) = self.tasks.waits().all_held_until() {
            reasons.push(Reason::HeldBackFor {
                remaining: until.since(now),
            });
        }
        if self.tasks.waits().is_held(task) {
            reasons.push(Reason::HeldUntilDurable);
        }
    }

    fn explain_dependencies(
        &self,
        forest: &Forest,
        job: &Job,
        task: Task,
        reasons: &mut Vec<Reason>,
    ) {
        for &on in &job.depends_on {
            let upstream = self.tasks.job(on);
            let depends = Task {
                job: on,
                node: task.node,
            };
            if self.tasks.is_done(depends) {
                continue;
            }
            let name = self.job_name(on).clone();
            let node = self.node_name(task.node);
            let state = self.task_state(depends);
            let hopeless =
                self.queues.dependency(forest, &self.tasks, on, task.node) == Dependency::Hopeless;
            let cannot_run = self.why_job_cannot_run(on);
            let why = match state {
                _ if job.cyclic => "the jobs depend on each other in a circle",
                _ if upstream.config.is_none() => "no such job is configured",
                _ if !upstream.can_run => &cannot_run,
                TaskState::Failed => "it has failed for good there",
                TaskState::Never => "it can never run there",
                TaskState::Avoided => "its filters avoid that node",
                TaskState::Disabled if !self.is_at_level(forest, depends) => {
                    "that node is not at that job's level"
                }
                TaskState::Disabled => "that node or one above it is disabled",
                TaskState::Unstarted
                | TaskState::Running
                | TaskState::Done
                | TaskState::Incomplete
                | TaskState::Error
                | TaskState::InBackoff => "it does not run there",
            };
            reasons.push(if hopeless || job.cyclic {
                Reason::NeverDone {
                    job: name,
                    node,
                    why: why.to_owned(),
                }
            } else {
                Reason::WaitsFor {
                    job: name,
                    node,
                    state,
                }
            });
        }
    }

    /// Returns the reason why no task of a configured job can start.
    fn why_job_cannot_run(&self, id: JobId) -> String {
        let why = match self.job_config(id) {
            Some(job) if !job.errors.is_empty() => "that job has errors",
            Some(job) if !job.enabled => "that job is disabled",
            Some(job) if job.is_cancelled() => {
                let resume = resume(self.job_name(id));
                return format!("that job is cancelled ({resume} lets its tasks run again)");
            }
            Some(job) if job.hold.is_some() => {
                let resume = resume(self.job_name(id));
                return format!("that job is paused ({resume} lets its tasks start again)");
            }
            Some(_) | None => "that job cannot run",
        };
        why.to_owned()
    }

    fn not_at_level(&self, config: &Config, job_config: &JobConfig, task: Task) -> Reason {
        let level = config.levels.get(job_config.level_for_tasks.index());
        Reason::NotAtLevel {
            node: self.node_name(task.node),
            level: level.cloned().unwrap_or_default(),
        }
    }

    fn is_at_level(&self, forest: &Forest, task: Task) -> bool {
        let level = self.tasks.job(task.job).level;
        level.is_some_and(|level| forest.row_of(level, task.node).is_some())
    }

    /// Adds the jobs that must be done as a whole before this one.
    fn explain_gates(&self, forest: &Forest, job: &Job, reasons: &mut Vec<Reason>) {
        if self.tasks.nodes_owner() == NodesOwner::OtherConfig && !job.after_all.is_empty() {
            reasons.push(Reason::OtherNodes);
        }
        for &on in &job.after_all {
            let gate = self.queues.gate_of(&self.tasks, on);
            if gate == Gate::Open {
                continue;
            }
            let settings = self.job_config(on);
            let first = self.queues.first_not_done(forest, &self.tasks, on);
            let first = first.map(|(node, state)| (self.node_name(node), state));
            let left = self.queues.not_done(&self.tasks, on);
            let name = self.job_name(on).clone();
            let cannot_run = self.why_job_cannot_run(on);
            let why = match (gate, settings) {
                _ if job.cyclic => "the jobs wait for each other in a circle",
                (Gate::Open | Gate::Closed, _) => {
                    reasons.push(Reason::WaitsForAll {
                        job: name,
                        left,
                        first,
                    });
                    continue;
                }
                (Gate::Hopeless, None) => "no such job is configured",
                (Gate::Hopeless, Some(job)) if !job.errors.is_empty() || !job.enabled => {
                    &cannot_run
                }
                (Gate::Hopeless, Some(_)) if self.queues.of(on).count(TaskState::Failed) > 0 => {
                    "it has failed for good"
                }
                (Gate::Hopeless, Some(job)) if job.hold.is_some() => &cannot_run,
                (Gate::Hopeless, Some(_)) => "some of its tasks can never run",
            };
            reasons.push(Reason::NeverAllDone {
                job: name,
                why: why.to_owned(),
                left,
                first,
            });
        }
    }

    /// Adds reasons about the forest, slots and workers. With replicas, adds the obstacles of each; nothing if one of them is free.
    fn explain_place(
        &self,
        config: &Config,
        forest: &Forest,
        (job_config, slots): (&JobConfig, bool),
        task: Task,
        reasons: &mut Vec<Reason>,
    ) {
        let Some(canonical) = forest.row_of(job_config.level_for_tasks, task.node) else {
            reasons.push(self.not_at_level(config, job_config, task));
            return;
        };
        let mut all = Vec::new();
        for row in forest.rows(canonical) {
            let before = all.len();
            self.explain_structure(config, forest, task.job, row, &mut all);
            if slots && all.len() == before {
                self.explain_slots(config, forest, job_config, task.job, row, &mut all);
            }
            if all.len() == before {
                return;
            }
        }
        for reason in all {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }

    fn explain_structure(
        &self,
        config: &Config,
        forest: &Forest,
        id: JobId,
        row: u32,
        reasons: &mut Vec<Reason>,
    ) {
        let name = |row| self.node_name(forest.node(row));
        match structure(forest, &self.tasks, id, row) {
            Structure::Open => {}
            Structure::Disabled(above) => {
                let level = forest.level(above);
                reasons.push(Reason::NodeDisabled {
                    node: name(above),
                    by_schedule: level
                        .is_some_and(|level| config.is_disabled_only_by_schedule(level)),
                });
            }
            Structure::Avoided(above) => {
                let level = forest.level(above).map_or(0, |l| l.index());
                reasons.push(Reason::AvoidedByFilter {
                    node: name(above),
                    level: config.levels[level].clone(),
                });
            }
        }
    }

    fn explain_slots(
        &self,
        config: &Config,
        forest: &Forest,
        job_config: &JobConfig,
        id: JobId,
        row: u32,
        reasons: &mut Vec<Reason>,
    ) {
        let job = self.tasks.job(id);
        for above in forest.upward(row) {
            let Some(level) = forest.level(above) else {
                continue;
            };
            for &id in self.slots.at(level) {
                let need = need_of(&job_config.resources, id);
                let limit = self.slots.limit(id);
                let used = self.slots.used(forest.node(above), id);
                if !is_met(need, limit, used) {
                    reasons.push(Reason::Short {
                        node: self.node_name(forest.node(above)),
                        need: Need {
                            resource: config.resources[id.index()].name.clone(),
                            need,
                            free: i64::from(limit) - used,
                            limit,
                        },
                    });
                }
            }
        }
        self.explain_workers(config, forest, job_config, job, row, reasons);
    }

    fn explain_workers(
        &self,
        config: &Config,
        forest: &Forest,
        job_config: &JobConfig,
        job: &Job,
        row: u32,
        reasons: &mut Vec<Reason>,
    ) {
        let is_here = |worker: &PoolWorker| worker.eligibility != Eligibility::Gone;
        if !self.pool.present().any(|(_, worker)| is_here(worker)) {
            reasons.push(Reason::NoWorkers);
            return;
        }
        let host = required_host(forest, job_config, row);
        let [mut not_ready, mut not_asked, mut barred, mut no_space] =
            [const { Refusers::NONE }; 4];
        let (mut draining, mut unsuitable, mut short, mut example) = (0, 0, 0, None);
        let (mut full, mut fullest, mut late, mut turned_down) = (0, None, 0, 0);
        for (index, worker) in self.pool.present().filter(|(_, worker)| is_here(worker)) {
            if host.is_some_and(|host| host != worker.host) {
                unsuitable += 1;
                continue;
            }
            let refusal = self.pool.refusal((index, worker), job.demand, &self.slots);
            match refusal.map(|refusal| decisive(refusal, worker.eligibility)) {
                None => return,
                Some(Refusal::Ineligible) => not_ready.add(&worker.shard),
                Some(Refusal::Draining) => draining += 1,
                Some(Refusal::Barred) => barred.add(&worker.shard),
                Some(Refusal::Filtered | Refusal::OtherHost | Refusal::NoCommand) => {
                    unsuitable += 1;
                }
                Some(Refusal::NotAsked) => not_asked.add(&worker.shard),
                Some(Refusal::Late) => late += 1,
                Some(Refusal::TurnedDown) => turned_down += 1,
                Some(Refusal::NoSpace) => no_space.add(&worker.shard),
                Some(Refusal::Full) => {
                    full += 1;
                    let room = worker.resources.room.clone();
                    fullest = fullest.or_else(|| Some((worker.shard.clone(), room?)));
                }
                Some(refusal @ (Refusal::Short(..) | Refusal::Cards)) => {
                    short += 1;
                    let lack = || self.lack(config, worker, (job_config, job), refusal);
                    example = example.or_else(|| Some((worker.shard.clone(), lack())));
                }
            }
        }
        let named = job_config.host_placement.clone().filter(|h| !h.is_empty());
        reasons.push(Reason::NoWorkerNow {
            host: named.or_else(|| host.map(|h| self.node_text(h).to_owned())),
            not_ready,
            draining,
            barred,
            unsuitable,
            short,
            example,
            full,
            fullest,
            not_asked,
            late,
            late_by: self.late_by(job.demand),
            turned_down,
            no_space: self.lack_of_space(no_space, job),
            not_on_standby: self.why_not_on_standby(short, (job_config, job)),
        });
    }

    /// Returns these workers as those without space for the outputs of the job's tasks, if there are any.
    fn lack_of_space(&self, refusers: Refusers, job: &Job) -> Option<Box<NoSpace>> {
        let first = refusers.first.as_ref();
        let first = first.and_then(|shard| self.pool.get(self.pool.find(shard.as_str())?));
        let space = first.map(|worker| worker.output_space);
        refusers.lack_of_space(&job.outputs, space)
    }

    /// Returns why a task does not stand by, if this many workers lack room for it. `None` if there are none, if no worker takes such tasks,
    /// and for tasks that take too long.
    fn why_not_on_standby(
        &self,
        without_room: u32,
        (job_config, job): (&JobConfig, &Job),
    ) -> Option<&'static str> {
        let mut workers = self.pool.present();
        let takes_standby = workers.any(|(_, worker)| worker.resources.takes_standby);
        let is_on = self.config.as_ref().is_some_and(|config| config.standby);
        if without_room == 0 || !takes_standby || !is_on {
            return None;
        }
        let is_known = job_config.est_duration.is_some() || job.learned.is_some();
        let is_short = ExpectedRunTime::of(job_config, job.learned).is_some();
        match (is_known, is_short, self.pool.may_stand_by(job.demand)) {
            (false, ..) => {
                Some("its duration is not known yet (`est_duration`, or the first completion)")
            }
            (true, false, _) => None,
            (true, true, false) => Some(
                "that is for jobs without `deadline`, `max_running`, host placement and GPUs, and with slots of workers only or `bufferable`",
            ),
            (true, true, true) => Some("enough tasks do so, or another job comes first"),
        }
    }

    fn late_by(&self, demand: usize) -> LateBy {
        let demand = self.pool.demand(demand);
        match demand.is_some_and(|demand| demand.work.is_late_anywhere()) {
            true => LateBy::ItsOwnLength,
            false => LateBy::OtherWork,
        }
    }

    /// Returns what a worker is short of that refuses a task for this reason.
    fn lack(
        &self,
        config: &Config,
        worker: &PoolWorker,
        (job_config, job): (&JobConfig, &Job),
        refusal: Refusal,
    ) -> Lack {
        match refusal {
            Refusal::Short(id, limit) => {
                let need = need_of(&job_config.resources, id);
                self.lack_of_slots(config, worker, (id, need, limit))
            }
            _ => self.lack_of_cards(worker, job.demand),
        }
    }

    fn lack_of_slots(
        &self,
        config: &Config,
        worker: &PoolWorker,
        (id, need, limit): (ResourceId, i32, i32),
    ) -> Lack {
        let used = self.slots.used(worker.node, id);
        Lack::Slots(Need {
            resource: config.resources[id.index()].name.clone(),
            need,
            free: i64::from(limit) - used,
            limit,
        })
    }

    fn lack_of_cards(&self, worker: &PoolWorker, demand: usize) -> Lack {
        let cards = worker.resources.cards.iter();
        let need = self
            .pool
            .demand(demand)
            .map(|demand| demand.cards.to_string());
        Lack::Cards {
            need: need.unwrap_or_default(),
            free: cards.map(|c| worker.card_use.free(&c.device)).collect(),
        }
    }
}

/// Adds the reasons in a job's own configuration that keep all of its tasks from running.
fn explain_state(job: &Job, job_config: &JobConfig, reasons: &mut Vec<Reason>) {
    if !job_config.errors.is_empty() {
        reasons.push(Reason::JobErrors(job_config.errors.clone()));
    } else if !job_config.enabled {
        reasons.push(Reason::JobDisabled);
    }
    if let Some(hold) = job_config.hold {
        let job = job_config.name.clone();
        reasons.push(Reason::JobHeld { job, hold });
    }
    if let Some(most) = job_config.max_running.filter(|_| job.may_start() == 0) {
        let running = job.running;
        reasons.push(Reason::JobFull { running, most });
    }
}

/// Returns the reason that lasts: slots that become free on a draining, barred or unhealthy worker are for no task.
fn decisive(refusal: Refusal, eligibility: Eligibility) -> Refusal {
    match (refusal, eligibility) {
        (Refusal::Short(..) | Refusal::Cards, Eligibility::Draining) => Refusal::Draining,
        (Refusal::Short(..) | Refusal::Cards, Eligibility::Barred) => Refusal::Barred,
        (Refusal::Short(..) | Refusal::Cards, Eligibility::Ineligible) => Refusal::Ineligible,
        _ => refusal,
    }
}
