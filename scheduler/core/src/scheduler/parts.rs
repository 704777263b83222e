//! Accessors to the parts of a [`Scheduler`], for the modules that decide about them.

use std::collections::VecDeque;

use brasserie_common_config::ScheduleMemory;
use brasserie_scheduler_engine::Engine;

use super::Scheduler;
use super::effect::Effect;
use super::questions::Questions;
use super::replies::Replies;
use crate::calls::Calls;
use crate::estimates::Estimates;
use crate::fences::Fences;
use crate::jobs::Jobs;
use crate::news::Kept;
use crate::options::Options;
use crate::reconcile::Orphans;
use crate::retention::Upkeep;
use crate::store_size::StoreSizes;
use crate::tasks::Tasks;
use crate::workers::Workers;
use crate::workers::asking::Asking;
use crate::workers::forgetting::Awake;
use crate::workers::initial_wait::InitialWait;

impl Scheduler {
    /// Returns a copy on which a configuration is tried out and which is then dropped. Omits the history of completions, which is the bulk
    /// of the state.
    pub(crate) fn to_try_out(&self) -> Scheduler {
        Scheduler {
            options: self.options.clone(),
            id: self.id,
            cluster: self.cluster,
            wall: self.wall,
            engine: self.engine.clone(),
            workers: self.workers.clone(),
            tasks: self.tasks.without_ends(),
            fences: self.fences.clone(),
            orphans: self.orphans.clone(),
            jobs: self.jobs.clone(),
            times: self.times.clone(),
            wait: self.wait.clone(),
            awake: self.awake,
            calls: self.calls.clone(),
            asking: Asking::default(),
            estimates: self.estimates.clone(),
            log: self.log.clone(),
            replies: Replies::default(),
            upkeep: Upkeep::default(),
            store_sizes: StoreSizes::default(),
            questions: Questions::default(),
            effects: VecDeque::new(),
            news: Kept::default(),
            invocation_ids: self.invocation_ids.clone(),
            config_error: self.config_error.clone(),
            nodes_error: self.nodes_error.clone(),
            more_to_place: self.more_to_place,
            stepped_down: self.stepped_down,
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(crate) fn workers_mut(&mut self) -> &mut Workers {
        &mut self.workers
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    pub(crate) fn tasks_mut(&mut self) -> &mut Tasks {
        &mut self.tasks
    }

    pub(crate) fn fences(&self) -> &Fences {
        &self.fences
    }

    pub(crate) fn fences_mut(&mut self) -> &mut Fences {
        &mut self.fences
    }

    pub(crate) fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    pub(crate) fn estimates_mut(&mut self) -> &mut Estimates {
        &mut self.estimates
    }

    /// Returns the two parts that placement changes: the engine, and the workers' cached simulations of deadlines.
    pub(super) fn engine_and_workers(&mut self) -> (&mut Engine, &mut Workers) {
        (&mut self.engine, &mut self.workers)
    }

    pub(crate) fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    pub(crate) fn upkeep_mut(&mut self) -> &mut Upkeep {
        &mut self.upkeep
    }

    pub(crate) fn store_sizes(&self) -> &StoreSizes {
        &self.store_sizes
    }

    pub(crate) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    pub(crate) fn orphans_mut(&mut self) -> &mut Orphans {
        &mut self.orphans
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(crate) fn jobs_mut(&mut self) -> &mut Jobs {
        &mut self.jobs
    }

    pub(crate) fn recorded_times(&self) -> &ScheduleMemory {
        &self.times
    }

    pub(crate) fn recorded_times_mut(&mut self) -> &mut ScheduleMemory {
        &mut self.times
    }

    pub(crate) fn awake(&self) -> Awake {
        self.awake
    }

    pub(crate) fn initial_wait(&self) -> &InitialWait {
        &self.wait
    }

    pub(crate) fn initial_wait_mut(&mut self) -> &mut InitialWait {
        &mut self.wait
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn calls_mut(&mut self) -> &mut Calls {
        &mut self.calls
    }

    pub(crate) fn questions(&self) -> &Questions {
        &self.questions
    }

    pub(crate) fn questions_mut(&mut self) -> &mut Questions {
        &mut self.questions
    }

    pub(crate) fn effects_mut(&mut self) -> &mut VecDeque<Effect> {
        &mut self.effects
    }
}
