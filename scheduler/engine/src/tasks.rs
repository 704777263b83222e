//! Jobs and tasks apart from nodes: the settings and links of jobs, the last status of each task, running tasks, and waits.

pub(crate) mod job;
pub(crate) mod links;
pub(crate) mod locality;
pub(crate) mod runs;
mod statuses;
mod waits;

use std::hash::Hasher;
use std::ops::Range;

use brasserie_common::fingerprint::Shape;
use brasserie_common::status::StoredStatus;
use brasserie_common::{GpuShare, JobId, JobName};
use brasserie_common_config::{JobConfig, ResourceId, Shared};

use crate::forest::Forest;
use crate::forest::filter::JobFilters;
use crate::names::Names;
use crate::pool::work_need::{LearnedStep, OutputNeed};
use crate::types::{NodesOwner, QueuePlace, Task};
use job::Job;
use locality::LocalityWaits;
use runs::{PlacedRun, RunTable};
use waits::Waits;

/// Every job that has a name here, and what is known of its tasks.
///
/// Invariant: `Job::running` counts the runs of each job.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    names: Names<JobName>,
    /// Indexed by job id.
    jobs: Vec<Job>,
    /// Configured jobs, in file order.
    configured: Vec<JobId>,
    /// Configured jobs, those first that others depend on. Jobs in a cycle come in between.
    by_dependency: Vec<JobId>,
    /// Number of links between jobs and the jobs that they wait for as a whole.
    gates: usize,
    /// The configuration that the nodes in force belong to.
    nodes_owner: NodesOwner,
    runs: RunTable,
    waits: Waits,
    locality: LocalityWaits,
}

/// Whether a caller had noted that a job was missing before it was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WasMissing {
    Yes,
    No,
}

impl Tasks {
    pub(crate) fn new(seed: u64) -> Self {
        Tasks {
            names: Names::new(seed),
            jobs: Vec::new(),
            configured: Vec::new(),
            by_dependency: Vec::new(),
            gates: 0,
            nodes_owner: NodesOwner::default(),
            runs: RunTable::default(),
            waits: Waits::default(),
            locality: LocalityWaits::default(),
        }
    }

    /// Returns the id of a job's name, which is assigned at its first use.
    pub(crate) fn intern(&mut self, name: &JobName) -> JobId {
        let id = JobId(self.names.intern(name));
        if self.jobs.len() <= id.index() {
            self.jobs.resize_with(id.index() + 1, Job::default);
        }
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<JobId> {
        self.names.find(name).map(JobId)
    }

    /// Returns the job's name, or the empty name for an unknown id.
    pub(crate) fn name(&self, job: JobId) -> &JobName {
        self.names.get(job.0)
    }

    /// Returns all names in the order of their ids.
    pub(crate) fn names(&self) -> &[JobName] {
        self.names.all()
    }

    /// Returns the number of known jobs.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns a known job.
    pub(crate) fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.index()]
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id.index())
    }

    /// Returns all known jobs, by id.
    pub(crate) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns a job's settings; `None` if it is not configured.
    pub(crate) fn settings(&self, id: JobId) -> Option<&JobConfig> {
        self.get(id)?.config.as_deref()
    }

    /// Returns the slots that a job's tasks take, by resource.
    pub(crate) fn needs(&self, id: JobId) -> &[i32] {
        self.settings(id).map_or(&[], |job| &job.resources)
    }

    pub(crate) fn configured(&self) -> &[JobId] {
        &self.configured
    }

    pub(crate) fn nodes_owner(&self) -> NodesOwner {
        self.nodes_owner
    }

    /// Sets the configuration that the nodes in force belong to. Returns the former one.
    pub(crate) fn set_nodes_owner(&mut self, owner: NodesOwner) -> NodesOwner {
        std::mem::replace(&mut self.nodes_owner, owner)
    }

    /// Removes the settings of all jobs.
    pub(crate) fn clear_settings(&mut self) {
        for job in &mut self.jobs {
            job.remove_settings();
        }
        self.configured.clear();
    }

    /// Removes the settings of a job.
    pub(crate) fn remove_settings(&mut self, id: JobId) {
        self.jobs[id.index()].remove_settings();
    }

    /// Adds a job to the end of the configured ones.
    pub(crate) fn append(&mut self, id: JobId) {
        self.configured.push(id);
    }

    /// Replaces a range of the configured jobs.
    pub(crate) fn replace(&mut self, range: Range<usize>, jobs: &[JobId]) {
        self.configured.splice(range, jobs.iter().copied());
    }

    /// Applies a job's settings. `unmeetable` is a resource of the path of which no node has enough.
    pub(crate) fn configure(
        &mut self,
        id: JobId,
        config: &Shared<JobConfig>,
        unmeetable: Option<ResourceId>,
    ) {
        let (filters, errors) = JobFilters::new(config);
        let job = &mut self.jobs[id.index()];
        job.config = Some(config.clone());
        job.level = Some(config.level_for_tasks);
        job.can_run = config.can_run();
        job.host_level = config.level_for_host_placement.filter(|_| {
            let host = config.host_placement.as_ref();
            host.is_none_or(String::is_empty)
        });
        job.filters = filters;
        job.filter_problems = errors.iter().map(ToString::to_string).collect();
        job.unmeetable = unmeetable;
    }

    pub(crate) fn set_demand(&mut self, id: JobId, demand: usize) {
        self.jobs[id.index()].demand = demand;
    }

    /// Sets whether no worker, or no node, could ever run the job.
    pub(crate) fn set_infeasible(&mut self, id: JobId, infeasible: bool) {
        self.jobs[id.index()].infeasible = infeasible;
    }

    /// Sets the learned run time of a job's tasks. Returns the former one.
    pub(crate) fn set_learned(
        &mut self,
        id: JobId,
        learned: Option<LearnedStep>,
    ) -> Option<LearnedStep> {
        std::mem::replace(&mut self.jobs[id.index()].learned, learned)
    }

    /// Sets what is known of the outputs of a job's tasks. Returns what was known.
    pub(crate) fn set_outputs(&mut self, id: JobId, outputs: OutputNeed) -> OutputNeed {
        std::mem::replace(&mut self.jobs[id.index()].outputs, outputs)
    }

    /// Notes since when a job is missing; `None` drops the note.
    pub(crate) fn note_missing(&mut self, id: JobId, since: Option<u32>) {
        if let Some(job) = self.jobs.get_mut(id.index()) {
            job.missing_since = since;
        }
    }

    /// Drops the note that a job is missing. Returns whether there was one.
    pub(crate) fn note_returned(&mut self, id: JobId) -> WasMissing {
        match self.jobs[id.index()].missing_since.take() {
            Some(_) => WasMissing::Yes,
            None => WasMissing::No,
        }
    }

    /// Replaces the last status of a task.
    pub(crate) fn set_status(&mut self, task: Task, status: StoredStatus) {
        self.jobs[task.job.index()]
            .statuses
            .insert(task.node, status);
    }

    /// Removes the last status of a task, as if it had never run.
    pub(crate) fn remove_status(&mut self, task: Task) {
        self.jobs[task.job.index()].statuses.remove(task.node);
    }

    pub(crate) fn runs(&self) -> &RunTable {
        &self.runs
    }

    pub(crate) fn run(&self, task: Task) -> Option<&PlacedRun> {
        self.runs.get(&task)
    }

    pub(crate) fn is_running(&self, task: Task) -> bool {
        self.runs.contains_key(&task)
    }

    /// Notes that a task has started.
    pub(crate) fn start(&mut self, task: Task, run: PlacedRun) {
        self.runs.insert(task, run);
        self.jobs[task.job.index()].running += 1;
    }

    /// Removes the run of a task.
    pub(crate) fn stop(&mut self, task: Task) -> Option<PlacedRun> {
        let run = self.runs.remove(&task)?;
        self.jobs[task.job.index()].running -= 1;
        Some(run)
    }

    /// Replaces the GPUs of a run. Returns the former ones.
    pub(crate) fn set_gpus(&mut self, task: Task, gpus: &[GpuShare]) -> Option<Box<[GpuShare]>> {
        let run = self.runs.get_mut(&task)?;
        Some(std::mem::replace(&mut run.cards.gpus, gpus.into()))
    }

    /// Notes what a task's worker says of its place in the queue.
    pub(crate) fn note_place(&mut self, task: Task, place: QueuePlace) {
        if let Some(run) = self.runs.get_mut(&task) {
            run.place = place;
        }
    }

    /// Stores the path of the run at an index of the table of runs, so that the path survives changes of the forest. Returns whether the
    /// index exists.
    pub(crate) fn keep_path(&mut self, index: usize, forest: Option<&Forest>) -> bool {
        match self.runs.at_mut(index) {
            None => false,
            Some(run) => {
                if let (Some(run), Some(forest)) = (run, forest) {
                    run.keep_path(forest);
                }
                true
            }
        }
    }

    /// Returns whether the task's last run ended in DONE and no other runs now, also for jobs and nodes that are no longer configured.
    pub(crate) fn is_done(&self, task: Task) -> bool {
        let job = self.job(task.job);
        job.is_done_on(task.node) && (job.running == 0 || !self.is_running(task))
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn locality(&self) -> &LocalityWaits {
        &self.locality
    }

    pub(crate) fn locality_mut(&mut self) -> &mut LocalityWaits {
        &mut self.locality
    }

    pub(crate) fn waits_mut(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// Writes statuses, runs and waits into a hash.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        for job in &self.jobs {
            if let Some(learned) = job.learned {
                s.put(learned);
            }
            s.put(&job.outputs);
            s.each(job.statuses.iter(), |s, (node, status)| {
                s.put(node);
                s.stored(&status);
            });
        }
        let mut running: Vec<_> = self.runs.iter().collect();
        running.sort_unstable_by_key(|(task, _)| *task);
        s.each(running, |s, (task, run)| {
            s.put((task, run.worker));
            s.each(&run.charges, |s, charge| {
                s.put((charge.node, charge.resource, charge.amount));
            });
            s.put((&run.cards.gpus, &run.cards.need, &run.cards.counts_as));
            s.put(run.place);
        });
        self.waits.shape(s);
        self.locality.shape(s);
    }
}
