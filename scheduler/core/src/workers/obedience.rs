//! Workers that obey another scheduler instance: an older one's are taken over, a newer one is left the field.
//!
//! Only a refusal makes a scheduler step down: what a heartbeat names may long be dead, and makes the record stale instead,
//! which is waited out. A worker that refuses has met the newer instance and never comes back to this one.

use brasserie_common::{CallOutcome, Health, RefusalCode, SchedulerId, Shard, Time, WorkerId};
use brasserie_scheduler_engine::Eligibility;

use crate::calls::Purpose;
use crate::effect::{CallReply, Effect, ExitReason, Rejection, Reply};
use crate::event::Event;
use crate::jobs::JobRefusal;
use crate::scheduler::Scheduler;
use crate::workers::forgetting::ForgetRefusal;

/// The scheduler instance that a refusal names, and whose. Healthchecks and suicide requests go also to workers that do not
/// obey yet, or not any more, and tell nothing by being refused.
pub(crate) fn obeyed_instead(
    purpose: &Purpose,
    outcome: &CallOutcome<CallReply>,
) -> Option<(Shard, WorkerId, SchedulerId)> {
    let CallOutcome::Refused(RefusalCode::BoundTo(obeyed), _) = outcome else {
        return None;
    };
    match purpose {
        Purpose::Fetch { shard, worker }
        | Purpose::Start { shard, worker, .. }
        | Purpose::Notify { shard, worker, .. } => Some((shard.clone(), *worker, *obeyed)),
        Purpose::Healthcheck { .. }
        | Purpose::Suicide { .. }
        | Purpose::Kill { .. }
        | Purpose::EndOrphan { .. } => None,
    }
}

impl Scheduler {
    /// Whatever was about to start must not: calls that have not left are dropped, their runs stay known as running.
    pub(crate) fn step_down(&mut self, newer: SchedulerId) {
        assert!(
            newer > self.id(),
            "Invariant: nobody steps down for an older instance"
        );
        if self.stepped_down().is_some() {
            return;
        }
        self.note_stepped_down(newer);
        self.refuse_requests(&Rejection::SteppedDown { newer });
        let effects = self.effects_mut();
        effects.retain(|effect| !matches!(effect, Effect::Call { .. }));
        effects.push_back(Effect::Exit {
            reason: ExitReason::SteppedDown { newer },
        });
    }

    /// An end that was accepted now would be known to the wrong directory only, so everything that changes something is
    /// refused.
    pub(crate) fn handle_stepped_down(&mut self, now: Time, newer: SchedulerId, event: Event) {
        let rejection = Rejection::SteppedDown { newer };
        match event {
            Event::Heartbeat { request, .. } => {
                self.reply(request, Reply::Heartbeat(Err(rejection)));
            }
            Event::UpdateStatus { request, .. } => {
                self.reply(request, Reply::UpdateStatus(Err(rejection)));
            }
            Event::KillTask { request, .. } => {
                self.reply(request, Reply::KillTask(Err(rejection)));
            }
            Event::RequestWork { request, .. } => {
                if let Some(request) = request {
                    self.reply(request, Reply::Work(Err(rejection)));
                }
            }
            Event::ChangeJob { request, .. } => {
                let refusal = JobRefusal::SteppedDown { newer };
                self.reply(request, Reply::JobChanged(Err(refusal)));
            }
            Event::ForgetWorker { request, .. } => {
                let refusal = ForgetRefusal::SteppedDown { newer };
                self.reply(request, Reply::WorkerForgotten(Err(refusal)));
            }
            Event::Query { request, query, .. } => {
                let answer = self.answer(now, &query);
                self.reply(request, Reply::Answer(Box::new(answer)));
            }
            Event::WallClock(_)
            | Event::CallCompleted { .. }
            | Event::Persisted { .. }
            | Event::StoreFailed { .. }
            | Event::StoreRecovered
            | Event::StoreMeasured { .. }
            | Event::ConfigLoaded { .. }
            | Event::ConfigFailed { .. }
            | Event::NodesLoaded { .. }
            | Event::NodesFailed { .. } => {}
        }
    }

    /// It obeys an older instance, although its tasks were fetched: they are fetched again, which binds it to this one. Its
    /// sequence number is kept, as it keeps ours unless it meets us anew, when it begins below ours.
    pub(crate) fn associate_anew(&mut self, now: Time, shard: &Shard, worker: WorkerId) {
        let timeouts = self.options().timeouts;
        let Some(remote) = self.workers_mut().instance_mut(shard, worker) else {
            return;
        };
        match remote.health() {
            // Its tasks are being fetched, or it is gone.
            Health::New | Health::MustDie => return,
            Health::Healthy | Health::Unhealthy => {}
        }
        remote.begin_anew(now, &timeouts);
        let index = remote.index();
        self.engine_mut()
            .set_eligibility(index, Eligibility::Ineligible);
        self.evaluate(now, shard);
    }
}
