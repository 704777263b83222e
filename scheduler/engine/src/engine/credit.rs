//! Credit of pull workers: what the core sets, and the available work for a work request.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{GpuShare, JobId, Processor, Shard};
use brasserie_common_config::{Config, JobConfig};

use super::Engine;
use crate::pool::Group;
use crate::pool::work_need::{LearnedStep, OutputNeed, OutputSize, Refusal, WorkNeed};
use crate::pool::worker::PoolWorker;
use crate::queues::wait_lists::WaitKey;
use crate::types::{Allowances, Eligibility, Task, WorkFound, WorkerIndex};

impl Engine {
    /// Sets the run time of a job's successful tasks, in seconds, for jobs without an estimate. Costs nothing while it stays about the
    /// same.
    pub fn set_learned(&mut self, id: JobId, seconds: Option<f64>) {
        let learned = seconds.map(LearnedStep::of);
        let Some(left) = self.tasks.get(id).map(|job| job.demand) else {
            return;
        };
        let before = self.tasks.set_learned(id, learned);
        let counts = |job: &JobConfig| WorkNeed::of(job, before) != WorkNeed::of(job, learned);
        if before != learned && self.tasks.settings(id).is_some_and(counts) {
            self.rejoin_pool(id, left);
        }
    }

    /// Sets the bytes that the outputs of a job's tasks are expected to take, and the workers that lately had no space for the inputs or
    /// outputs of one: these get none of the tasks. Costs nothing while both stay about the same.
    pub fn set_outputs(&mut self, id: JobId, bytes: u64, full_at: BTreeSet<Shard>) {
        let Some(left) = self.tasks.get(id).map(|job| job.demand) else {
            return;
        };
        let size = OutputSize::of(bytes);
        let full_at_now = full_at.clone();
        let before = self.tasks.set_outputs(id, OutputNeed { size, full_at });
        let counts = |job: &JobConfig| {
            before.full_at != full_at_now || before.size != size && !job.outputs.is_empty()
        };
        if self.tasks.settings(id).is_some_and(counts) {
            self.rejoin_pool(id, left);
        }
    }

    /// Moves a job, whose demand has changed, from one group of the pool to another.
    fn rejoin_pool(&mut self, id: JobId, left: usize) {
        let Some(config) = self.config.clone() else {
            return;
        };
        if self.join_pool(id, &config) == Group::New {
            self.check_demand(id);
        }
        self.pool.leave(id, left);
        match self.tasks.job(id).host_level {
            // Tasks that wait for a host may fit now.
            Some(_) => self.wake_where_it_fits(id),
            None => self.count_ready(id),
        }
    }

    /// Wakes the first of a job's tasks that wait for a host, on each host with room. This wakes no more tasks than there are workers,
    /// however many wait.
    fn wake_where_it_fits(&mut self, id: JobId) {
        let Some(forest) = self.forest.as_deref() else {
            return;
        };
        for host in self.pool.hosts_with_room(self.tasks.job(id).demand) {
            let key = WaitKey::Host(host);
            self.queues.offer_to(forest, &self.tasks, key, id);
        }
        self.settle_queues();
        self.count_ready(id);
    }

    /// Sets the credit of a pull worker, by type of processors; `None` for a worker that requests no work. Ignored for a worker that is not
    /// present.
    pub fn set_allowances(&mut self, worker: WorkerIndex, allowances: Option<Allowances>) {
        if self.pool.set_allowances(worker, allowances) {
            self.offer_worker(worker);
        }
    }

    /// Checks a worker again for tasks that would have missed deadlines there, because it has less to do than at the last check.
    pub fn forget_late(&mut self, worker: WorkerIndex) {
        if self.pool.forget_late(worker) {
            self.offer_worker(worker);
        }
    }

    /// Notes that a worker that chooses GPUs had none for a task that may not be queued. No such task goes there until
    /// [`Engine::forget_turned_down`], because it would be sent in vain in place of others. Ignored if the worker was removed meanwhile,
    /// because another one may have its place, or if it no longer chooses GPUs.
    pub fn note_turned_down(&mut self, task: Task) {
        let run = self.tasks.run(task);
        let run = run.filter(|run| run.cards.need.is_some());
        let run = run.filter(|run| {
            let worker = self.pool.get(run.worker);
            worker.is_some_and(PoolWorker::chooses_cards)
        });
        let job = self.tasks.get(task.job);
        if let Some((run, job)) = run.zip(job) {
            self.pool.note_turned_down(job.demand, run.worker);
        }
    }

    /// Checks a worker again for tasks that it had no GPUs for. The caller does this when a run has completed there, or after some time.
    pub fn forget_turned_down(&mut self, worker: WorkerIndex) {
        if self.pool.forget_turned_down(worker) {
            self.offer_worker(worker);
        }
    }

    /// Returns the type of processors of some GPUs of a worker: that of the first, because no task has several types.
    pub fn processor_of_cards(&self, worker: WorkerIndex, gpus: &[GpuShare]) -> Option<Processor> {
        let model = self.pool.get_any(worker)?.model_of(gpus)?;
        Some(Processor::Cards(model))
    }

    /// Returns whether the worker may get tasks now, as last set.
    pub fn is_eligible(&self, worker: WorkerIndex) -> bool {
        let slot = self.pool.get(worker);
        slot.is_some_and(|slot| slot.eligibility == Eligibility::Eligible)
    }

    /// Returns the type of processors that a job's task counts as on a worker, and how many of these it keeps busy. A task that was placed
    /// there keeps the type of its placement.
    pub fn work_of(
        &self,
        config: &Config,
        (job, task): (&JobConfig, Task),
        worker: WorkerIndex,
    ) -> (Processor, f64) {
        let cards = config.card_need(job).unwrap_or_default();
        let run = self.tasks.run(task).filter(|run| run.worker == worker);
        let slot = self.pool.get_any(worker);
        let of_run = run.and_then(|run| slot?.model_of(&run.cards.gpus));
        let counted = run.and_then(|run| run.cards.counts_as.clone());
        let of_run = counted.or(of_run);
        let learned = self.tasks.get(task.job).and_then(|job| job.learned);
        let now = slot.map(|slot| slot.processor_of(&WorkNeed::of(job, learned), &cards));
        match of_run.map(Processor::Cards).or(now) {
            Some(Processor::Cards(model)) => (Processor::Cards(model), cards.amount()),
            Some(Processor::Cpu) | None => (Processor::Cpu, config.cpus_of(job)),
        }
    }

    /// Returns the available work for a pull worker, by the types of processors that jobs use there: tasks that are ready, with or without
    /// room for them, and those of them that would miss deadlines. Visits each group of jobs, not each job.
    pub fn work_found(&self, worker: WorkerIndex) -> BTreeMap<Processor, WorkFound> {
        let mut found = BTreeMap::new();
        let Some(slot) = self.pool.get(worker) else {
            return found;
        };
        let allowances = slot.allowances.as_ref();
        for demand in self.pool.demands() {
            let ready = demand.could_start;
            let is_late = demand.late.contains(worker.index());
            for processor in slot.processors_of(&demand.cards) {
                let refusal = allowances.map(|all| demand.work.refusal(all.of(&processor)));
                let of_type: &mut WorkFound = found.entry(processor).or_default();
                of_type.ready += ready;
                if is_late || refusal == Some(Some(Refusal::Late)) {
                    of_type.late += ready;
                }
            }
        }
        found
    }
}
