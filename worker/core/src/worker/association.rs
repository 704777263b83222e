//! The views of an association that shells and people get, and its fingerprint.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::work_overview::AssociationFacts;
use brasserie_common::{
    Health, RunningTask, SchedulerId, ServiceAddress, Time, WorkerDescription, WorkerId,
    WorkerSetId,
};

use super::Association;
use crate::machine::Machine;
use crate::session::{DrainCaller, HeartbeatTrouble, LifeStage};
use crate::tasks::RunStage;
use crate::timer::earliest;

impl Association {
    /// Returns the description that the next heartbeat carries.
    pub fn description(&self) -> &WorkerDescription {
        self.session.description()
    }

    /// Returns the id by which the scheduler knows the worker. It changes each time the association begins anew.
    pub fn instance(&self) -> WorkerId {
        self.session.id()
    }

    /// Returns the member of the scheduler that gets the heartbeat in flight, or else the next one; `None` if no member is known.
    pub fn hears_heartbeats(&self) -> Option<&ServiceAddress> {
        self.session.hears_heartbeats()
    }

    /// Returns the member of the scheduler that gets statuses; `None` if no member is known.
    pub fn hears_statuses(&self) -> Option<&ServiceAddress> {
        self.session.hears_statuses()
    }

    /// Returns the scheduler's share of the machine, relative to the other shares.
    pub fn share(&self) -> f64 {
        self.session.share()
    }

    /// Returns the worker's own view of its health.
    pub fn health(&self) -> Health {
        self.session.health()
    }

    pub fn life_stage(&self) -> LifeStage {
        self.session.life_stage()
    }

    /// Returns the latest time at which the worker begins to end the tasks of this association if no message arrives; once it has begun,
    /// the time when this was due. `None` while there is no scheduler, because then nobody relies on the end of the tasks. Time alone never
    /// changes the result. A message makes it earlier only together with the association's health, life or scheduler.
    pub fn tasks_may_live_until(&self) -> Option<Time> {
        self.session.may_live_until()
    }

    /// Returns whether the scheduler said with its last answer that jobs leave artifacts.
    pub fn scheduler_uses_artifacts(&self) -> bool {
        self.session.scheduler_uses_artifacts()
    }

    /// Returns when the last process is killed because the operator ends the worker. `None` if the operator does not, or if no process is
    /// left.
    pub fn killed_by(&self) -> Option<Time> {
        self.session.kill_by().filter(|_| self.tasks.live() > 0)
    }

    /// Returns the wait between TERM and KILL when the association must end. No running task of it has a shorter wait.
    pub fn kill_wait(&self) -> Duration {
        self.tasks.shortest_kill_wait()
    }

    /// Returns the scheduler instance that sent the last heartbeat answer that counted.
    pub fn scheduler(&self) -> Option<SchedulerId> {
        self.session.scheduler()
    }

    /// Returns the scheduler instance that may start tasks here.
    pub fn bound_to(&self) -> Option<SchedulerId> {
        self.session.bound_to()
    }

    /// Returns the worker set id that the next heartbeat echoes.
    pub fn worker_set(&self) -> WorkerSetId {
        self.session.worker_set()
    }

    /// Returns why the last heartbeat did not count.
    pub fn heartbeat_trouble(&self) -> Option<&HeartbeatTrouble> {
        self.session.heartbeat_trouble()
    }

    /// Returns the last worker set id that the scheduler sent after a later one. The worker ignores this id.
    pub fn older_set(&self) -> Option<WorkerSetId> {
        self.session.older_set()
    }

    /// Returns the caller whose request drained the association; `None` if it is not draining or a signal drained it.
    pub fn drained_by(&self) -> Option<&DrainCaller> {
        self.session.drained_by()
    }

    /// Returns the reason why the association must end, for the log; `None` if it need not end.
    pub fn why_it_ends(&self) -> Option<&str> {
        self.session.why_it_ends()
    }

    /// Returns what `getRunningTasks` would list.
    pub fn running_tasks(&self) -> Vec<RunningTask> {
        self.tasks.listing()
    }

    /// Returns the number of living processes, healthchecks included.
    pub fn live_processes(&self) -> usize {
        self.tasks.live()
    }

    /// Returns the number of completions and "was not running" answers that are not acknowledged.
    pub fn unacknowledged_reports(&self) -> usize {
        self.reports.tasks_pending()
    }

    /// Returns what people see of the association, apart from its work fetch.
    pub(super) fn facts(&self) -> AssociationFacts {
        let (mut running, mut stopped, mut waiting) = (0, 0, 0);
        for (_, task) in self.tasks.iter() {
            match task.stage {
                RunStage::Queued { .. } => waiting += 1,
                RunStage::Live if task.running.is_healthcheck() => {}
                RunStage::Live => {
                    running += 1;
                    stopped += usize::from(task.is_stopped());
                }
                RunStage::Ended(_) => {}
            }
        }
        AssociationFacts {
            shard: self.session.description().shard.clone(),
            scheduler: self.scheduler(),
            health: self.health(),
            running,
            executing: running - stopped,
            stopped,
            waiting,
            unacknowledged: self.unacknowledged_reports(),
        }
    }

    /// Returns when there is something to do if no event arrives.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let reports = self.reports.due(self.session.addressee());
        let reports = reports.filter(|_| !self.session.is_gone());
        earliest([self.session.due(now), reports, self.tasks.next_limit()])
    }

    /// Writes the state for fingerprints.
    pub(super) fn shape<H: Hasher>(&self, machine: &Machine, s: &mut Shape<'_, H>) {
        self.session.shape(s);
        self.tasks
            .shape(s, |s, place| s.put(machine.rank_and_overtaken(place)));
        self.session.shape_runs(s);
        self.reports.shape(s);
    }
}
