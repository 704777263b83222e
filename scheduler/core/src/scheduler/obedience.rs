//! Workers that obey another scheduler instance. This instance takes over workers of an older one, and steps down for a newer one.
//!
//! Only a refusal makes a scheduler step down. A scheduler that a heartbeat names may long be dead; it makes the record stale instead,
//! which a wait resolves. A worker that refuses has met the newer instance and never comes back to this one.

use brasserie_common::{Health, SchedulerId, Shard, Time, WorkerId};
use brasserie_scheduler_engine::Eligibility;

use super::Scheduler;
use super::effect::Reply;
use super::event::Event;
use crate::jobs::JobRefusal;
use crate::refusal::{ForgetRefusal, OrderRefusal, Rejection};

impl Scheduler {
    /// Steps down for a newer instance. Calls that have not left are dropped, and their runs stay known as running.
    pub(super) fn step_down(&mut self, newer: SchedulerId) {
        assert!(
            newer > self.id,
            "Invariant: nobody steps down for an older instance"
        );
        if self.stepped_down.is_some() {
            return;
        }
        self.stepped_down = Some(newer);
        self.refuse_requests(&Rejection::SteppedDown { newer });
        self.outbox.exit_for(newer);
    }

    /// Handles an event after this scheduler has stepped down. A completion accepted now would be stored in the wrong directory, so every
    /// change is refused.
    pub(super) fn handle_stepped_down(&mut self, now: Time, newer: SchedulerId, event: Event) {
        let rejection = Rejection::SteppedDown { newer };
        match event {
            Event::Heartbeat { request, .. } => {
                self.outbox.reply(request, Reply::Heartbeat(Err(rejection)));
            }
            Event::UpdateStatus { request, .. } => {
                self.outbox
                    .reply(request, Reply::UpdateStatus(Err(rejection)));
            }
            Event::KillTask { request, .. } => {
                self.outbox.reply(request, Reply::KillTask(Err(rejection)));
            }
            Event::ReportArtifacts { request, .. } => {
                self.outbox.reply(request, Reply::Artifacts(Err(rejection)));
            }
            Event::Slots(call) => self.refuse_slots(&call, rejection),
            Event::RequestWork { request, .. } => {
                if let Some(request) = request {
                    self.outbox.reply(request, Reply::Work(Err(rejection)));
                }
            }
            Event::ChangeJob { request, .. } => {
                let refusal = JobRefusal::SteppedDown { newer };
                self.outbox.reply(request, Reply::JobChanged(Err(refusal)));
            }
            Event::ForgetWorker { request, .. } => {
                let refusal = ForgetRefusal::SteppedDown { newer };
                self.outbox
                    .reply(request, Reply::WorkerForgotten(Err(refusal)));
            }
            Event::OrderWorker(call) => {
                let refusal = OrderRefusal::SteppedDown { newer };
                self.outbox
                    .reply(call.request, Reply::WorkerOrdered(Err(refusal)));
            }
            Event::Query { request, query, .. } => {
                let answer = self.answer(now, &query);
                self.outbox.reply(request, Reply::Answer(Box::new(answer)));
            }
            Event::WallClock(_)
            | Event::CallCompleted { .. }
            | Event::Persisted { .. }
            | Event::StoreFailed { .. }
            | Event::StoreRecovered
            | Event::StoreMeasured { .. }
            | Event::ShellReported(_)
            | Event::ConfigLoaded { .. }
            | Event::ConfigFailed { .. }
            | Event::NodesLoaded { .. }
            | Event::NodesFailed { .. }
            | Event::FilesKnown { .. } => {}
        }
    }

    /// Begins the association again with a worker that obeys an older instance although its tasks were fetched. They are fetched again,
    /// which binds the worker to this scheduler. The sequence number is kept, because the worker keeps it, too. A worker that associates as
    /// if for the first time begins below it.
    pub(super) fn associate_anew(&mut self, now: Time, shard: &Shard, worker: WorkerId) {
        let timeouts = self.options.timeouts;
        let Some(remote) = self.pool.instance_mut(shard, worker) else {
            return;
        };
        match remote.health() {
            // The worker's tasks are being fetched, or it is gone.
            Health::New | Health::MustDie => return,
            Health::Healthy | Health::Unhealthy => {}
        }
        remote.begin_anew(now, &timeouts);
        let index = remote.index();
        self.engine.set_eligibility(index, Eligibility::Ineligible);
        self.evaluate(now, shard);
    }
}
