//! Calls of a worker to its scheduler, and what else is visible after a turn.

use brasserie_common::CallId;
use brasserie_worker_core::{Call, Goodbye};

use super::{Asking, TAGS_A_PLACE, WorkerOutput, WorkerTurn, run_of, update};
use crate::event_log::{CallTag, Happening, SetMark};
use crate::hosts::ToScheduler;

impl WorkerTurn<'_> {
    pub(super) fn call(&mut self, call: CallId, what: Call) {
        *self.next_tag += 1;
        let tag = CallTag(*self.next_tag);
        assert!(
            !self.next_tag.is_multiple_of(TAGS_A_PLACE),
            "Invariant: no run makes so many calls"
        );
        let (place, worker) = (self.place, self.process.id);
        let (asking, happening, request) = match what {
            Call::Heartbeat {
                worker: description,
                worker_set,
                goodbye,
            } => {
                let happening = Happening::HeartbeatSent {
                    place,
                    worker,
                    set: SetMark::from(&worker_set),
                    goodbye: goodbye == Goodbye::TasksAreDead,
                };
                let request = ToScheduler::Heartbeat {
                    worker: description,
                    set: worker_set,
                    goodbye,
                };
                (Asking::Heartbeat, happening, request)
            }
            // The network already knows the place of the scheduler.
            Call::RequestWork { to: _, request } => {
                let happening = Happening::WorkAsked {
                    worker,
                    scheduler: request.scheduler,
                    seq: request.seq,
                };
                (Asking::Work, happening, ToScheduler::Work(request))
            }
            Call::ReadMembers => panic!("Invariant: the list of its members is fixed"),
            Call::UpdateStatus {
                task,
                status,
                scheduler,
                worker: sender,
                goes: _,
            } => {
                let (run, bits) = (run_of(&task), status.bits());
                let happening = Happening::StatusSent {
                    place,
                    worker,
                    scheduler,
                    run,
                    bits,
                };
                let asking = Asking::Status {
                    scheduler,
                    run,
                    bits,
                };
                let update = update(&task, status, (scheduler, sender));
                (asking, happening, ToScheduler::Status(Box::new(update)))
            }
        };
        self.process.calls.insert(call, asking);
        self.log.push(happening);
        self.out.push(WorkerOutput::Call { call, tag, request });
    }
}
