//! The views of an association that shells and people get.

use std::time::Duration;

use brasserie_common::health::timeouts::whole_secs;
use brasserie_common::time::format_duration;
use brasserie_common::work_overview::AssociationFacts;
use brasserie_common::{
    Health, RunningTask, SchedulerId, ServiceAddress, Time, WorkerDescription, WorkerId,
    WorkerSetId,
};

use super::{Association, HeartbeatTrouble};
use crate::suicide::Life;
use crate::tasks::Stage;

/// How close an association is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeStage {
    Running,
    /// The operator drains the worker: the association ends once its tasks have ended by themselves.
    Draining,
    /// The operator ends the worker: tasks are ending, or their completions and the goodbye are in flight.
    Leaving,
    /// The association must end: its tasks are ending, or it says goodbye.
    Dying,
    /// The association is over. The worker has returned [`crate::Effect::Exit`] or [`crate::Effect::NewInstance`], or waits for the end of
    /// the other associations.
    Gone,
}

impl Association {
    /// Returns the description that the next heartbeat carries.
    pub fn description(&self) -> &WorkerDescription {
        &self.description
    }

    /// Returns the id by which the scheduler knows the worker. It changes each time the association begins anew.
    pub fn instance(&self) -> WorkerId {
        self.description.id
    }

    /// Returns the member of the scheduler that gets the heartbeat in flight, or else the next one; `None` if no member is known.
    pub fn hears_heartbeats(&self) -> Option<&ServiceAddress> {
        self.whereabouts.of_heartbeats()
    }

    /// Returns the member of the scheduler that gets statuses; `None` if no member is known.
    pub fn hears_statuses(&self) -> Option<&ServiceAddress> {
        self.whereabouts.of_statuses()
    }

    /// Returns the scheduler's share of the machine, relative to the other shares.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Returns whether the worker was HEALTHY for the scheduler and is not now. The scheduler then sends nothing, whatever the worker
    /// requests. A worker that was never HEALTHY may still send requests, which limit what it gets once it is HEALTHY.
    pub(crate) fn is_out_of_favour(&self) -> bool {
        self.health.has_been_healthy() && self.health.health() != Health::Healthy
    }

    /// Returns for how long the scheduler has not answered, and why, as a text for people; `None` if its last answer counts.
    pub(crate) fn unanswered(&self, now: Time) -> Option<String> {
        let since = self
            .health
            .last_heartbeat()
            .filter(|_| self.scheduler().is_some());
        let span = since.map(|at| format_duration(whole_secs(now.since(at))));
        Some(match (span, &self.trouble) {
            (Some(_), None) => return None,
            (None, None) => "has not answered yet".to_owned(),
            (None, Some(HeartbeatTrouble::Failed(why))) => format!("has not answered yet: {why}"),
            (None, Some(trouble)) => format!("has not given an answer that counts: {trouble}"),
            (Some(span), Some(HeartbeatTrouble::Failed(why))) => {
                format!("has not answered for {span}: {why}")
            }
            (Some(span), Some(trouble)) => {
                format!("has not given an answer that counts for {span}: {trouble}")
            }
        })
    }

    /// Returns the worker's own view of its health.
    pub fn health(&self) -> Health {
        self.health.health()
    }

    pub fn life_stage(&self) -> LifeStage {
        match self.life {
            Life::Running => LifeStage::Running,
            Life::Draining { .. } => LifeStage::Draining,
            Life::Farewell { .. } if self.life.is_suicide() => LifeStage::Dying,
            Life::Leaving { .. } | Life::Farewell { .. } => LifeStage::Leaving,
            Life::Dying { .. } => LifeStage::Dying,
            Life::Gone => LifeStage::Gone,
        }
    }

    /// Returns the latest time at which the worker begins to end the tasks of this association if no message arrives; once it has begun,
    /// the time when this was due. `None` while there is no scheduler, because then nobody relies on the end of the tasks. Time alone never
    /// changes the result. A message makes it earlier only together with the association's health, life or scheduler.
    pub fn tasks_may_live_until(&self) -> Option<Time> {
        self.may_live_until()
    }

    /// Returns when the last process is killed because the operator ends the worker. `None` if the operator does not, or if no process is
    /// left.
    pub fn killed_by(&self) -> Option<Time> {
        match self.life {
            Life::Leaving { kill_by, .. } if self.tasks.live() > 0 => Some(kill_by),
            Life::Running
            | Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => None,
        }
    }

    /// Returns the wait between TERM and KILL when the association must end. No running task of it has a shorter wait.
    pub fn kill_wait(&self) -> Duration {
        self.tasks.shortest_kill_wait()
    }

    /// Returns the scheduler instance that sent the last heartbeat answer that counted.
    pub fn scheduler(&self) -> Option<SchedulerId> {
        self.response.as_ref().map(|response| response.scheduler)
    }

    /// Returns the scheduler instance that may start tasks here.
    pub fn bound_to(&self) -> Option<SchedulerId> {
        self.binding.bound()
    }

    /// Returns the worker set id that the next heartbeat echoes.
    pub fn worker_set(&self) -> WorkerSetId {
        self.response
            .as_ref()
            .map(|response| response.worker_set)
            .unwrap_or_default()
    }

    /// Returns why the last heartbeat did not count.
    pub fn heartbeat_trouble(&self) -> Option<&HeartbeatTrouble> {
        self.trouble.as_ref()
    }

    /// Returns the last worker set id that the scheduler sent after a later one. The worker ignores this id.
    pub fn older_set(&self) -> Option<WorkerSetId> {
        self.older_set
    }

    /// Returns the reason why the association must end, for the log; `None` if it need not end.
    pub fn why_it_ends(&self) -> Option<&str> {
        self.why_it_ends.as_deref()
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
    pub(crate) fn facts(&self) -> AssociationFacts {
        let (mut running, mut stopped, mut waiting) = (0, 0, 0);
        for (_, task) in self.tasks.iter() {
            match task.stage {
                Stage::Queued { .. } => waiting += 1,
                Stage::Live if task.running.is_healthcheck() => {}
                Stage::Live => {
                    running += 1;
                    let piece = task.piece.as_ref();
                    stopped += usize::from(piece.is_some_and(|piece| piece.is_stopped()));
                }
                Stage::Ended(_) => {}
            }
        }
        AssociationFacts {
            shard: self.description.shard.clone(),
            scheduler: self.scheduler(),
            health: self.health(),
            running,
            stopped,
            waiting,
            unacknowledged: self.unacknowledged_reports(),
        }
    }
}
