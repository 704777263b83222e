//! Chooses the worker of a task.

use brasserie_common::{JobId, NodeId};
use brasserie_common_config::{Config, JobConfig};

use super::demands::Demand;
use super::worker_limits::leftover;
use super::workers::Worker;
use crate::engine::Engine;
use crate::forest::index::Forest;
use crate::types::{Due, Judged, Timeliness, Tries, WorkerIndex};

/// The reason why no worker takes a task.
pub(super) enum NoWorker {
    /// No worker has room.
    Anywhere,
    /// No worker has room on the host where the task must run.
    OnHost(NodeId),
    /// A worker has room, but deadlines would be missed there.
    Late,
}

/// A callback that judges whether a worker's tasks meet their deadlines with one more task. The caller knows the work of each worker.
pub type KeepsDeadlines<'a> = &'a mut dyn FnMut(WorkerIndex, Due) -> Judged;

impl Engine {
    /// Returns a worker with room, or else why there is none. Checks of deadlines cost tries.
    pub(super) fn find_worker_for(
        &mut self,
        forest: &Forest,
        config: &Config,
        job_config: &JobConfig,
        (id, row): (JobId, u32),
        (tries, judge): (&mut Tries, KeepsDeadlines<'_>),
    ) -> Result<WorkerIndex, NoWorker> {
        let host = self.required_host(forest, job_config, row);
        let demand = self.jobs[id.index()].demand;
        let (plan, ledger) = (&self.plan, &self.ledger);
        let leftover =
            |worker: &Worker, demand: &Demand| leftover(config, plan, ledger, worker, demand);
        let chosen = self
            .pool
            .select(demand, host, config.worker_selector, leftover);
        let worker = chosen.ok_or(host.map_or(NoWorker::Anywhere, NoWorker::OnHost))?;
        let due = self.pool.due_at(demand, worker);
        let judged = due.map_or(Judged::UNSEEN, |due| judge(worker, due));
        match judged.timeliness {
            Timeliness::InTime => {
                tries.take(judged.tries);
                Ok(worker)
            }
            Timeliness::Late => {
                // A failed check costs at least one try, or placing might not end.
                tries.take(judged.tries.max(1));
                self.pool.note_late(demand, worker);
                Err(NoWorker::Late)
            }
        }
    }
}
