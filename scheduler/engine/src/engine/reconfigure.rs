//! Puts a configuration into force and updates the jobs that it affects.

mod job_list;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, Time};
use brasserie_common_config::{Config, JobConfig, LevelId, ResourceLimit, Shared};

use super::Engine;
use crate::forest::below_builder::index_below;
use crate::placement::needs::Needs;
use crate::placement::policy;
use crate::pool::Group;
use crate::pool::work_need::WorkNeed;
use crate::queues::wait_lists::WaitKey;
use crate::slots::{FormerLimits, Slots};
use crate::tasks::{Tasks, WasMissing};
use crate::types::WorkerIndex;

/// The inputs of a job's columns, except its statuses and the nodes.
#[derive(Clone, Debug)]
struct FormerJob {
    config: Shared<JobConfig>,
    depends_on: Vec<JobId>,
    after_all: Vec<JobId>,
    cyclic: bool,
    infeasible: bool,
}

/// How far a change of the configuration affects a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobEffect {
    Nothing,
    /// Its tasks may have to wait at other places.
    Waits,
    /// Its tasks may have other states.
    Columns,
}

/// Whether workers may have other slots than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerLimits {
    /// There was no configuration before.
    First,
    Kept,
    Changed,
}

impl Engine {
    /// Puts a configuration into force at once, even if the forest must be rebuilt.
    pub fn apply_config(&mut self, now: Time, config: Arc<Config>) {
        self.begin_config(now, config);
        if self.forest.is_none() {
            self.finish_refresh();
        }
    }

    /// Puts a configuration into force for everything that starts from now on; running tasks keep their charges. Updates the changed jobs
    /// and their dependents, or all jobs if resources changed. Visits no other job if only jobs changed and both configurations share the
    /// rest. Under other levels or another node order, no node is in force until [`Engine::continue_refresh`] has completed.
    pub fn begin_config(&mut self, now: Time, config: Arc<Config>) {
        self.expire(now);
        match self.job_list_change(&config) {
            Some(step) => {
                self.config = Some(config);
                self.sources_shape = Default::default();
                self.apply_job_list_change(step);
            }
            None => self.change_config(config),
        }
        self.check_standby();
        self.recheck_locality();
    }

    /// Puts a configuration into force that differs from the former one in more than jobs.
    fn change_config(&mut self, config: Arc<Config>) {
        let before = self.config.replace(Arc::clone(&config));
        if before.as_ref().is_none_or(|b| b.policy != config.policy) {
            self.policy = policy::make(config.policy, self.seed);
        }
        let former = self.former_jobs(self.tasks.configured());
        self.sources_shape = Default::default();
        let former_limits = self.slots.configure(&config);
        self.config_problems.clear();
        self.configure_jobs(&config);
        self.tasks.link_dependencies();
        self.expect_jobs();
        self.restart_pass();
        let limits = match &before {
            Some(before) if same_worker_limits(before, &config) => WorkerLimits::Kept,
            Some(_) => WorkerLimits::Changed,
            None => WorkerLimits::First,
        };
        self.rebuild_pool(&config, limits);
        let kept_order = before
            .as_ref()
            .is_some_and(|b| b.levels == config.levels && b.node_order == config.node_order);
        match before.filter(|_| kept_order) {
            None => {
                self.keep_paths();
                self.begin_anew();
            }
            Some(before) => {
                let ids = former.keys().chain(self.tasks.configured()).copied();
                let (changed, requeued) = self.affected_jobs(ids.collect(), &former);
                for i in 0..self.tasks.configured().len() {
                    self.check_feasibility(self.tasks.configured()[i]);
                }
                if same_resources(&before, &config) {
                    self.rebuild_changed(&config, changed, &requeued, &former_limits);
                } else {
                    let changed = self.tasks.with_dependents(changed);
                    let levels = levels_below(&self.tasks, &self.slots, self.tasks.configured());
                    self.drop_columns(&changed, levels);
                    self.keep_paths();
                    if self.refresh.is_some() || self.waiting.is_some() {
                        // The lists must be freed before other work.
                        self.slice_length.undo();
                    }
                    self.disposal.take_lists(self.queues.take_lists());
                    self.rebuild_columns();
                }
            }
        }
        self.begin_refresh();
    }

    /// Stores the path of every run, so that it survives changes of the forest and the resources.
    fn keep_paths(&mut self) {
        let Some(forest) = &self.forest else {
            return;
        };
        let mut index = 0;
        while self.tasks.keep_path(index, Some(forest)) {
            index += 1;
        }
    }

    fn former_jobs(&self, jobs: &[JobId]) -> BTreeMap<JobId, FormerJob> {
        let of = |id: &JobId| {
            let job = self.tasks.job(*id);
            let former = FormerJob {
                config: job.config.clone()?,
                depends_on: job.depends_on.clone(),
                after_all: job.after_all.clone(),
                cyclic: job.cyclic,
                infeasible: job.infeasible,
            };
            Some((*id, former))
        };
        jobs.iter().filter_map(of).collect()
    }

    fn configure_jobs(&mut self, config: &Config) {
        self.tasks.clear_settings();
        self.needs = Needs::default();
        for job_config in &config.jobs {
            let id = self.intern_job(&job_config.name);
            if self.tasks.job(id).config.is_some() {
                self.config_problems
                    .push(format!("job `{}` is configured twice", job_config.name));
                continue;
            }
            self.configure_job(id, job_config);
            self.tasks.append(id);
        }
    }

    /// Applies a job's configuration.
    fn configure_job(&mut self, id: JobId, job_config: &Shared<JobConfig>) {
        let expires = sabotage::on(Sabotage::ExpireWhatCameBack);
        if !expires && self.tasks.note_returned(id) == WasMissing::Yes {
            self.returned_jobs.push(id);
        }
        let unmeetable = self.slots.above_limit(job_config);
        self.tasks.configure(id, job_config, unmeetable);
        self.needs.join(id, job_config);
    }

    fn rebuild_pool(&mut self, config: &Config, limits: WorkerLimits) {
        self.pool.clear_demands();
        for id in self.tasks.configured().to_vec() {
            self.join_pool(id, config);
        }
        let workers: Vec<WorkerIndex> = self.pool.present().map(|(index, _)| index).collect();
        for worker in workers {
            match limits {
                WorkerLimits::Kept => {}
                WorkerLimits::First => self.pool.set_limits(worker, config, &self.slots),
                WorkerLimits::Changed => {
                    self.pool.set_limits(worker, config, &self.slots);
                    // The worker knows the former limits of what stands by there.
                    self.mark_unwanted(worker, |_| true);
                }
            }
            self.pool.update(worker, &self.slots);
        }
    }

    /// Assigns a configured job to its demand.
    pub(super) fn join_pool(&mut self, id: JobId, config: &Config) -> Group {
        let job = self.tasks.job(id);
        let Some(job_config) = &job.config else {
            return Group::Known;
        };
        let filter = job.filters.at(config.worker_level());
        let job_config = (&**job_config, job.learned, &job.outputs);
        let (demand, group) = self.pool.join(config, &self.slots, job_config, filter);
        self.tasks.set_demand(id, demand);
        group
    }

    /// Computes which workers can run the first job of a demand.
    pub(super) fn check_demand(&mut self, id: JobId) {
        let demand = self.tasks.job(id).demand;
        self.pool.update_demand(demand, &self.slots);
    }

    /// Computes whether the job is infeasible: no worker could ever run it, or no node ever has what it needs.
    pub(super) fn check_feasibility(&mut self, id: JobId) {
        let job = self.tasks.job(id);
        let infeasible = job.unmeetable.is_some() || self.pool.is_infeasible(job.demand);
        self.tasks.set_infeasible(id, infeasible);
    }

    /// Counts the ready tasks of all configured jobs in the pool.
    pub(super) fn count_all_ready(&mut self) {
        for i in 0..self.tasks.configured().len() {
            self.count_ready(self.tasks.configured()[i]);
        }
    }

    /// Indexes the tasks below each node where tasks of these jobs may have to wait.
    fn index_forest<'a>(&mut self, jobs: impl IntoIterator<Item = &'a JobId>) {
        if let Some(forest) = &mut self.forest {
            for (tasks, above) in levels_below(&self.tasks, &self.slots, jobs) {
                index_below(forest, tasks, above);
            }
        }
    }

    /// Recomputes the columns of all jobs.
    pub(super) fn rebuild_columns(&mut self) {
        self.pool.clear_active();
        let configured = self.tasks.configured().to_vec();
        self.index_forest(&configured);
        if self.forest.is_some() {
            let jobs = (0_u32..).map(JobId).zip(self.tasks.jobs());
            for (id, _) in jobs.filter(|(_, job)| job.config.is_none()) {
                self.queues.reset(id);
            }
        }
        self.rebuild_columns_of(configured.into_iter().collect());
        self.check_root();
    }

    /// Recomputes the columns in force of these jobs, and of all jobs that then see them differently.
    pub(super) fn rebuild_columns_of(&mut self, changed: BTreeSet<JobId>) {
        if let Some(forest) = self.forest.as_deref() {
            self.queues.rebuild(forest, &self.tasks, changed);
            self.settle_queues();
        }
    }

    /// Applies a change that leaves the forest and the list of resources as they were.
    fn rebuild_changed(
        &mut self,
        config: &Config,
        changed: BTreeSet<JobId>,
        requeued: &BTreeSet<JobId>,
        former_limits: &FormerLimits,
    ) {
        self.rebuild_jobs(changed, requeued);
        let Some(forest) = self.forest.as_deref() else {
            return;
        };
        let is_raised = |level: LevelId| self.slots.are_raised(level, former_limits);
        let below_root = (1..config.worker_level().0).map(LevelId);
        let raised: Vec<LevelId> = below_root.filter(|level| is_raised(*level)).collect();
        let keys = self.queues.lists().keys(|key| match key {
            WaitKey::Node(row) => {
                !raised.is_empty()
                    && forest
                        .level(row)
                        .is_some_and(|level| raised.contains(&level))
            }
            // Workers may have other limits.
            WaitKey::Host(_) => true,
        });
        self.count_all_ready();
        self.check_root();
        for key in keys {
            match key {
                WaitKey::Node(row) => self.offer_place(row),
                WaitKey::Host(_) => self.wake_all(key),
            }
        }
    }

    /// Returns the jobs whose columns no longer hold, and the jobs whose tasks may have to wait elsewhere.
    fn affected_jobs(
        &self,
        ids: BTreeSet<JobId>,
        former: &BTreeMap<JobId, FormerJob>,
    ) -> (BTreeSet<JobId>, BTreeSet<JobId>) {
        let mut changed = BTreeSet::new();
        let mut requeued = BTreeSet::new();
        for id in ids {
            match self.effect_on(id, former.get(&id)) {
                JobEffect::Nothing => {}
                JobEffect::Waits => {
                    requeued.insert(id);
                }
                JobEffect::Columns => {
                    changed.insert(id);
                }
            }
        }
        (changed, requeued)
    }

    /// Returns how far a job differs from its former state.
    fn effect_on(&self, id: JobId, former: Option<&FormerJob>) -> JobEffect {
        let job = self.tasks.job(id);
        let (Some(old), Some(is)) = (former, &job.config) else {
            return JobEffect::Columns;
        };
        let was = &old.config;
        let infeasible = job.unmeetable.is_some() || self.pool.is_infeasible(job.demand);
        if was.is_same(is)
            && (&old.depends_on, &old.after_all) == (&job.depends_on, &job.after_all)
            && old.cyclic == job.cyclic
            && old.infeasible == infeasible
        {
            return JobEffect::Nothing;
        }
        let same_columns = was.level_for_tasks == is.level_for_tasks
            && was.can_run() == is.can_run()
            && was.filters == is.filters
            && old.depends_on == job.depends_on
            && old.after_all == job.after_all
            && old.cyclic == job.cyclic
            && old.infeasible == infeasible;
        let same_waits = was.resources == is.resources
            && was.host_placement == is.host_placement
            && was.level_for_host_placement == is.level_for_host_placement
            && was.command.is_empty() == is.command.is_empty()
            && was.outputs.is_empty() == is.outputs.is_empty()
            && WorkNeed::of(was, job.learned) == WorkNeed::of(is, job.learned);
        match (same_columns, same_waits) {
            (true, true) => JobEffect::Nothing,
            (true, false) => JobEffect::Waits,
            (false, _) => JobEffect::Columns,
        }
    }

    /// Recomputes the columns of the changed jobs and their dependents. Afterwards none of their tasks, and none of those of `requeued`, is
    /// in a wait list.
    pub(super) fn rebuild_jobs(&mut self, changed: BTreeSet<JobId>, requeued: &BTreeSet<JobId>) {
        let changed = self.tasks.with_dependents(changed);
        for id in &changed {
            self.check_feasibility(*id);
        }
        // The gates of jobs that wait for others as a whole may change with the same columns.
        if !changed.is_empty() || !requeued.is_empty() || self.tasks.has_gates() {
            let jobs = changed.iter().chain(requeued);
            let levels = levels_below(&self.tasks, &self.slots, jobs);
            self.drop_columns(&changed, levels);
        }
        if self.forest.is_none() {
            return;
        }
        self.index_forest(changed.iter().chain(requeued));
        if !requeued.is_empty() {
            self.queues.forget(|job| requeued.contains(&job));
        }
        self.rebuild_columns_of(changed);
        for &id in requeued {
            self.queues.requeue(id);
        }
        self.settle_queues();
    }
}

/// Returns the levels of these jobs' tasks, each with a level above where they may have to wait.
pub(super) fn levels_below<'a>(
    tasks: &Tasks,
    slots: &Slots,
    jobs: impl IntoIterator<Item = &'a JobId>,
) -> Vec<(LevelId, LevelId)> {
    let mut levels = BTreeSet::new();
    for id in jobs {
        let job = tasks.job(*id);
        let Some(own) = job.level else { continue };
        let above = (1..own.0).map(LevelId);
        let with_slots = above.filter(|level| !slots.at(*level).is_empty());
        levels.extend(with_slots.chain(job.host_level).map(|above| (own, above)));
    }
    levels.into_iter().collect()
}

/// Returns whether every worker has the same limits under both configurations, and resource ids mean the same.
fn same_worker_limits(a: &Config, b: &Config) -> bool {
    let at_workers = |config: &Config| -> Vec<ResourceLimit> {
        let level = config.worker_level();
        let all = config.resources.iter().filter(|r| r.level == level);
        all.map(|r| r.limit).collect()
    };
    a.levels == b.levels
        && same_resources(a, b)
        && at_workers(a) == at_workers(b)
        && a.worker_resources_override == b.worker_resources_override
        && a.physical_resources == b.physical_resources
}

/// Returns whether resource ids mean the same; limits may differ.
fn same_resources(a: &Config, b: &Config) -> bool {
    let declared = |config: &Config| -> Vec<(String, LevelId)> {
        let all = config.resources.iter();
        all.map(|r| (r.name.clone(), r.level)).collect()
    };
    declared(a) == declared(b)
}
