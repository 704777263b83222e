//! The checks of the scheduler's calls: the reasons for which a session refuses them.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Health, RefusalCode, SchedulerId, SequenceNumber, Time, WorkerId};

use super::life::Life;
use super::{Binding, KillAll, Session, with_reason};
use crate::effect::{ExitReason, Refusal};
use crate::event::RunTask;
use crate::invocations::Familiarity;
use crate::tasks::HEALTHCHECK_NODES;

fn refuse<T>(code: RefusalCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, message))
}

impl Session {
    /// Binds the worker to a scheduler instance, which fetches the running tasks. `None` if the peer knows only the original interface.
    pub(crate) fn bind(
        &mut self,
        worker: WorkerId,
        scheduler: Option<SchedulerId>,
    ) -> Result<(), Refusal> {
        self.check_not_dying()?;
        self.check_worker(worker)?;
        match scheduler {
            Some(scheduler) => {
                if !sabotage::on(Sabotage::BindBackwards) {
                    self.check_not_outdated(scheduler)?;
                }
                self.newest = Some(scheduler);
                self.binding = Binding::To(scheduler);
            }
            None => self.bind_unnamed(),
        }
        self.hurry();
        Ok(())
    }

    /// Binds the worker to a peer that knows only the original interface. This is the scheduler whose heartbeat answers count, or the one
    /// that is about to answer its first heartbeat.
    fn bind_unnamed(&mut self) {
        let associated = self.scheduler();
        self.binding = match associated {
            Some(scheduler) if !self.heartbeats.is_in_flight() && associated >= self.newest => {
                Binding::To(scheduler)
            }
            Some(_) | None => Binding::WhoeverAnswers(associated.max(self.binding.bound())),
        };
    }

    /// Checks the state of the association, and the ids of a run.
    pub(crate) fn check_start(&self, run: &RunTask) -> Result<(), Refusal> {
        self.check_not_leaving()?;
        if run.task.is_healthcheck() {
            return self.check_healthcheck(run);
        }
        self.check_not_draining()?;
        if self.health.health() != Health::Healthy {
            let state = self.health.health().word();
            return refuse(
                RefusalCode::Unhealthy,
                format!("the worker is {state}, and only a healthy one starts tasks"),
            );
        }
        if !sabotage::on(Sabotage::NoBinding) {
            self.check_ids(run.scheduler, run.worker)?;
            self.check_bound(run.scheduler)?;
        }
        if run.sequence < self.sequence && !sabotage::on(Sabotage::SkipSequenceCheck) {
            return refuse(
                RefusalCode::OldSequence,
                format!(
                    "sequence number {} is below {}: the run may have been denied",
                    run.sequence.0, self.sequence.0
                ),
            );
        }
        Ok(())
    }

    fn check_healthcheck(&self, run: &RunTask) -> Result<(), Refusal> {
        let node = run.task.node.as_str();
        if !HEALTHCHECK_NODES.contains(&node) {
            return refuse(
                RefusalCode::Unspecified,
                format!("a healthcheck cannot be on node `{node}`"),
            );
        }
        if node.is_empty() {
            return self.check_ids(run.scheduler, run.worker);
        }
        // This healthcheck arrives before the scheduler's first answer.
        self.check_worker(run.worker)?;
        self.check_not_outdated(run.scheduler)
    }

    /// Checks that the run was neither accepted, refused nor denied before.
    pub(crate) fn check_new(&mut self, now: Time, run: &RunTask) -> Result<(), Refusal> {
        if run.task.is_healthcheck() {
            return match self.healthchecks.contains(run) {
                true => refuse(RefusalCode::Duplicate, "this healthcheck was run before"),
                false => Ok(()),
            };
        }
        let invocation = run.task.invocation;
        match self.invocations.familiarity(now, invocation) {
            Familiarity::New => Ok(()),
            Familiarity::Known => refuse(
                RefusalCode::Duplicate,
                format!("invocation {invocation} was accepted, refused or denied before"),
            ),
            Familiarity::TooOld => refuse(
                RefusalCode::Busy,
                format!("invocation {invocation} is older than what is remembered of past ones"),
            ),
        }
    }

    /// Checks a question which tasks run, before [`Session::advance_sequence`].
    pub(crate) fn check_question(
        &self,
        ids: (SchedulerId, WorkerId),
        sequence: SequenceNumber,
    ) -> Result<(), Refusal> {
        self.check_ids(ids.0, ids.1)?;
        if sequence <= self.sequence {
            return refuse(
                RefusalCode::OldSequence,
                format!(
                    "sequence number {} is not above {}",
                    sequence.0, self.sequence.0
                ),
            );
        }
        Ok(())
    }

    /// Refuses from now on all runs with a lower sequence number.
    pub(crate) fn advance_sequence(&mut self, sequence: SequenceNumber) {
        self.sequence = sequence;
    }

    pub(crate) fn request_suicide(
        &mut self,
        now: Time,
        ids: (SchedulerId, WorkerId),
        why: Option<&str>,
    ) -> Result<Option<KillAll>, Refusal> {
        self.check_serves(ids)?;
        self.why_it_ends = Some(with_reason("the scheduler has requested it", why));
        // The worker's own timers have not run out, so the full kill wait from now ends in time, as after an answer of MUST_DIE.
        Ok(self.die(ExitReason::SuicideRequested, now))
    }

    /// Checks that the association need not end, and the ids of a call.
    pub(crate) fn check_serves(&self, ids: (SchedulerId, WorkerId)) -> Result<(), Refusal> {
        self.check_not_dying()?;
        self.check_ids(ids.0, ids.1)
    }

    fn check_not_dying(&self) -> Result<(), Refusal> {
        if self.life.is_suicide() || self.life == Life::Gone {
            return refuse(
                RefusalCode::Unhealthy,
                "the worker ends this association and kills its tasks",
            );
        }
        Ok(())
    }

    fn check_not_leaving(&self) -> Result<(), Refusal> {
        self.check_not_dying()?;
        match self.life {
            Life::Leaving { .. } | Life::Farewell { .. } => refuse(
                RefusalCode::Draining,
                "the worker was told to end, and starts nothing more",
            ),
            Life::Running | Life::Draining { .. } | Life::Dying { .. } | Life::Gone => Ok(()),
        }
    }

    /// Healthchecks are still accepted, because a worker must stay HEALTHY until its tasks have ended.
    fn check_not_draining(&self) -> Result<(), Refusal> {
        match self.life {
            Life::Draining { .. } => refuse(
                RefusalCode::Draining,
                "the worker ends with the tasks that it has, and starts none any more",
            ),
            Life::Running
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => Ok(()),
        }
    }

    fn check_worker(&self, worker: WorkerId) -> Result<(), Refusal> {
        let own = self.id();
        if worker == own {
            return Ok(());
        }
        refuse(
            RefusalCode::WrongId,
            format!("meant for worker instance {worker}, this is {own}"),
        )
    }

    /// Refuses an instance older than the newest known one: bindings only move forward.
    fn check_not_outdated(&self, scheduler: SchedulerId) -> Result<(), Refusal> {
        match self.newest {
            Some(newest) if scheduler < newest => self.refuse_scheduler(scheduler),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that the call is for this worker instance, and from the scheduler instance whose heartbeat answers count.
    fn check_ids(&self, scheduler: SchedulerId, worker: WorkerId) -> Result<(), Refusal> {
        self.check_worker(worker)?;
        self.check_not_outdated(scheduler)?;
        if self.scheduler() == Some(scheduler) {
            return Ok(());
        }
        self.refuse_scheduler(scheduler)
    }

    fn check_bound(&self, scheduler: SchedulerId) -> Result<(), Refusal> {
        if self.binding.bound() == Some(scheduler) {
            return Ok(());
        }
        self.refuse_scheduler(scheduler)
    }

    /// Refuses a call and names the scheduler instance that the worker obeys instead: a later one that it has met, or else the bound one.
    fn refuse_scheduler(&self, scheduler: SchedulerId) -> Result<(), Refusal> {
        let later = self.newest.filter(|newest| *newest > scheduler);
        let obeyed = later.or_else(|| self.binding.bound());
        let code = match obeyed.filter(|obeyed| *obeyed != scheduler) {
            Some(obeyed) => RefusalCode::BoundTo(obeyed),
            None => RefusalCode::WrongId,
        };
        let said = |id: Option<SchedulerId>| id.map_or("none".to_owned(), |id| id.to_string());
        refuse(
            code,
            format!(
                "refused scheduler instance {scheduler}: the worker is bound to {}, hears heartbeat answers of {}, and has met {} last",
                said(self.binding.bound()),
                said(self.scheduler()),
                said(self.newest),
            ),
        )
    }
}
