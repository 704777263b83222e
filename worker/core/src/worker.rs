//! The worker: a table of contents of what it hears, and the surface that a shell drives.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::{Canon, Shape, fingerprint_of};
use brasserie_common::{Health, RunningTask, SchedulerId, Time, WorkerDescription, WorkerSetId};

use crate::association::{Association, HeartbeatTrouble};
use crate::config::Options;
use crate::effect::{Effect, Reply};
use crate::event::Event;
use crate::outbox::{Outbox, Turn};
use crate::suicide::Life;

/// A worker's side of the protocol.
#[derive(Clone, Debug)]
pub struct Worker {
    association: Association,
    out: Outbox,
    /// The latest reading: time does not go back here, whatever a caller says.
    now: Time,
}

/// How far the worker is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeStage {
    Running,
    /// The operator wants it gone once its tasks have ended by themselves.
    Draining,
    /// The operator wants it gone; its tasks are ending, or their ends and the goodbye are on their way.
    Leaving,
    /// Suicide: its tasks are ending, or it says goodbye.
    Dying,
    /// [`Effect::Exit`] was given.
    Gone,
}

impl Worker {
    pub fn new(options: Options, now: Time) -> Worker {
        Worker {
            association: Association::new(options.normalised(), now),
            out: Outbox::default(),
            now,
        }
    }

    /// Takes in one event. Health is judged first, so that a machine that wakes up does not act on stale belief.
    pub fn handle(&mut self, now: Time, event: Event) {
        self.turn(now, |association, turn| {
            association.judge_health(turn);
            association.hear(turn, event);
        });
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.turn(now, |_, _| ());
    }

    /// When [`Worker::handle_timeout`] has something to do; it never names a time that was handled.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.association.due(self.now)
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop()
    }

    fn turn(&mut self, now: Time, hear: impl FnOnce(&mut Association, &mut Turn<'_>)) {
        self.now = self.now.max(now);
        let mut turn = Turn {
            now: self.now,
            out: &mut self.out,
        };
        hear(&mut self.association, &mut turn);
        self.association.advance(&mut turn);
    }

    /// As the next heartbeat describes it.
    pub fn description(&self) -> &WorkerDescription {
        &self.association.options.description
    }

    /// The worker's own view.
    pub fn health(&self) -> Health {
        self.association.health.health()
    }

    pub fn life_stage(&self) -> LifeStage {
        match self.association.life {
            Life::Running => LifeStage::Running,
            Life::Draining { .. } => LifeStage::Draining,
            Life::Farewell { .. } if self.association.life.is_suicide() => LifeStage::Dying,
            Life::Leaving { .. } | Life::Farewell { .. } => LifeStage::Leaving,
            Life::Dying { .. } => LifeStage::Dying,
            Life::Gone => LifeStage::Gone,
        }
    }

    /// The latest time by which the worker begins to end its tasks if it hears nothing more; once it has begun, when it was to
    /// begin. `None` while it is in no association: nobody counts on its death. Time alone never changes it, and what the worker
    /// hears sets it back only with its health, its life or its scheduler.
    pub fn tasks_may_live_until(&self) -> Option<Time> {
        self.association.tasks_may_live_until()
    }

    /// Between TERM and KILL when the worker must end itself: no task that runs has less.
    pub fn kill_wait(&self) -> Duration {
        self.association.tasks.shortest_kill_wait()
    }

    /// The scheduler instance whose heartbeat answers count.
    pub fn scheduler(&self) -> Option<SchedulerId> {
        self.association.scheduler()
    }

    /// The scheduler instance that may start tasks here.
    pub fn bound_to(&self) -> Option<SchedulerId> {
        self.association.binding.bound()
    }

    /// What the next heartbeat echoes.
    pub fn worker_set(&self) -> WorkerSetId {
        self.association.worker_set()
    }

    /// Why the last heartbeat did not count.
    pub fn heartbeat_trouble(&self) -> Option<&HeartbeatTrouble> {
        self.association.trouble()
    }

    /// What `getRunningTasks` would list.
    pub fn running_tasks(&self) -> Vec<RunningTask> {
        self.association.tasks.listing()
    }

    /// How many processes are alive, healthchecks included.
    pub fn live_processes(&self) -> usize {
        self.association.tasks.live()
    }

    /// Whether it asks for work, and lets tasks wait.
    pub fn fetches_work(&self) -> bool {
        self.association.options.work_fetch.is_some()
    }

    /// How many tasks wait for processors.
    pub fn queued_tasks(&self) -> usize {
        self.association.tasks.queue().len()
    }

    /// How many ends and "was not running" answers wait to be acknowledged.
    pub fn unacknowledged_reports(&self) -> usize {
        self.association.reports.tasks_pending()
    }

    /// Writes the state, with ids renamed and times relative to `now`, into a world's hash; see
    /// [`brasserie_common::fingerprint`]. Drain the effects first: any that wait are hashed as they are.
    pub fn shape(&self, now: Time, canon: &mut Canon, hasher: &mut impl Hasher) {
        let mut shape = Shape::new(now.max(self.now), canon, hasher);
        self.association.shape(&mut shape);
        shape.each(self.out.iter(), |s, effect| s.put(format!("{effect:?}")));
    }

    /// A hash of the state, for searches that visit each state once.
    pub fn fingerprint(&self) -> u64 {
        fingerprint_of(|canon, hasher| self.shape(self.now, canon, hasher))
    }
}

impl Association {
    fn hear(&mut self, turn: &mut Turn<'_>, event: Event) {
        match event {
            Event::WallClock(_) => {}
            Event::GetRunningTasks {
                request,
                from: _,
                worker,
                scheduler,
            } => {
                let reply = self.get_running_tasks(worker, scheduler);
                turn.reply(request, reply);
            }
            Event::RunTask {
                request,
                from: _,
                run,
            } => {
                let reply = self.run_task(turn, *run);
                turn.reply(request, reply);
            }
            Event::NotifyIfTasksNotRunning {
                request,
                from: _,
                tasks,
                scheduler,
                worker,
                sequence,
            } => {
                let ids = (scheduler, worker);
                let reply = self.notify_if_tasks_not_running(turn, tasks, ids, sequence);
                turn.reply(request, reply);
            }
            Event::RequestSuicide {
                request,
                from: _,
                scheduler,
                worker,
            } => {
                let reply = self.request_suicide(turn, (scheduler, worker));
                turn.reply(request, reply);
            }
            Event::KillTask {
                request,
                from: _,
                task,
                invocation,
                scheduler,
                worker,
                kill,
            } => {
                let reply = self.kill_task(turn, (task, invocation), (scheduler, worker), kill);
                turn.reply(request, reply);
            }
            Event::ShowWorkFetch { request } => turn.reply(request, Ok(Reply::WorkFetch(None))),
            Event::CallCompleted { call, outcome } => self.call_completed(turn, call, outcome),
            Event::ConnectionLost => self.connection_lost(),
            Event::TaskStarted { task, invocation } => self.started(turn.now, &task, invocation),
            Event::TaskEnded {
                task,
                invocation,
                status,
                story,
            } => self.task_ended(turn, &task, invocation, (status, *story)),
            Event::TaskSampled {
                task,
                invocation,
                physical,
            } => self.tasks.sampled(&task, invocation, physical),
            Event::UsableResources(usable) => self.options.description.usable = usable,
            Event::Drain => self.drain(turn),
            Event::Shutdown => self.shut_down(turn),
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_sides;
