//! An association as shells see it.

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

/// How far an association is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeStage {
    Running,
    /// The operator wants it gone once its tasks have ended by themselves.
    Draining,
    /// The operator wants it gone; its tasks are ending, or their ends and the goodbye are on their way.
    Leaving,
    /// Suicide: its tasks are ending, or it says goodbye.
    Dying,
    /// It is over: [`crate::Effect::Exit`] was given, or waits for the others, or [`crate::Effect::NewInstance`] was.
    Gone,
}

impl Association {
    /// As the next heartbeat describes the worker.
    pub fn description(&self) -> &WorkerDescription {
        &self.description
    }

    /// As which the scheduler knows the worker; another one after each suicide.
    pub fn instance(&self) -> WorkerId {
        self.description.id
    }

    /// The member of the scheduler to which the heartbeat on its way went, or the next one goes; `None`: none is known.
    pub fn hears_heartbeats(&self) -> Option<&ServiceAddress> {
        self.whereabouts.of_heartbeats()
    }

    /// The same of statuses.
    pub fn hears_statuses(&self) -> Option<&ServiceAddress> {
        self.whereabouts.of_statuses()
    }

    /// What the operator grants this scheduler of the machine, beside the other shares.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// It was HEALTHY for the scheduler and is not: nothing is sent to it, whatever it asks for. One that has not been yet may ask, so that it
    /// is sent no more than that when it is.
    pub(crate) fn is_out_of_favour(&self) -> bool {
        self.health.has_been_healthy() && self.health.health() != Health::Healthy
    }

    /// That the scheduler has not answered for a while, and why that is thought, for people; `None`: its last answer counts.
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

    /// The worker's own view.
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

    /// The latest time by which the worker begins to end the tasks of this association if it hears nothing more; once it has begun, when
    /// it was to begin. `None` while there is no scheduler: nobody counts on their death. Time alone never changes it, and what the
    /// worker hears sets it back only with the association's health, life or scheduler.
    pub fn tasks_may_live_until(&self) -> Option<Time> {
        self.may_live_until()
    }

    /// When the last process is killed because the operator wants the worker gone; `None`: nobody does, or none is left.
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

    /// Between TERM and KILL when it must end itself: no task of it that runs has less.
    pub fn kill_wait(&self) -> Duration {
        self.tasks.shortest_kill_wait()
    }

    /// The scheduler instance whose heartbeat answers count: that of the last heartbeat that counted.
    pub fn scheduler(&self) -> Option<SchedulerId> {
        self.response.as_ref().map(|response| response.scheduler)
    }

    /// The scheduler instance that may start tasks here.
    pub fn bound_to(&self) -> Option<SchedulerId> {
        self.binding.bound()
    }

    /// What the next heartbeat echoes.
    pub fn worker_set(&self) -> WorkerSetId {
        self.response
            .as_ref()
            .map(|response| response.worker_set)
            .unwrap_or_default()
    }

    /// Why the last heartbeat did not count.
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

    /// What `getRunningTasks` would list.
    pub fn running_tasks(&self) -> Vec<RunningTask> {
        self.tasks.listing()
    }

    /// How many processes are alive, healthchecks included.
    pub fn live_processes(&self) -> usize {
        self.tasks.live()
    }

    /// How many ends and "was not running" answers wait to be acknowledged.
    pub fn unacknowledged_reports(&self) -> usize {
        self.reports.tasks_pending()
    }

    /// What people see of it beside its work fetch.
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
