//! The turns of hosts, and the packets between them.

use std::time::Duration;

use brasserie_common::{CallId, CallOutcome, ServiceAddress, Time};
use brasserie_scheduler_core::{Call, CallReply as SchedulerCallReply, ExitReason};
use brasserie_worker_core::CallReply as WorkerCallReply;
use brasserie_worker_gather::TransferId;

use super::{CALL_TIMEOUT, Cluster, Due};
use crate::event_log::{CallTag, MachineId, SchedulerPlace, WorkerPlace};
use crate::hosts::ToScheduler;
use crate::hosts::desk::{FetchAnswer, ReportOutcome};
use crate::hosts::scheduler::{SchedulerInput, SchedulerOutput};
use crate::hosts::worker::{WorkerInput, WorkerOutput};
use crate::network::{ReplyFate, RequestFate};

/// The bit in the tags of repeated packets, for whose answers no caller waits.
pub(super) const COPY: u32 = 1 << 31;
/// The port of the first worker.
pub(super) const FIRST_PORT: u16 = 10_000;

#[derive(Clone, Debug)]
pub(super) enum PacketOutcome {
    ToScheduler(CallOutcome<SchedulerCallReply>),
    ToWorker(CallOutcome<WorkerCallReply>),
    /// The answer of a peer's store.
    Copies(FetchAnswer),
    /// The answer to the report of a store.
    Report(ReportOutcome),
    /// The outcome is unknown, for either kind of caller.
    TimedOut,
    Refused,
}

/// The party that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Caller {
    Scheduler {
        place: SchedulerPlace,
        generation: u32,
        call: CallId,
        callee: WorkerPlace,
    },
    Worker {
        place: WorkerPlace,
        generation: u32,
        call: CallId,
        callee: SchedulerPlace,
    },
    /// A desk that fetches artifacts from a peer. `None`: it wants no answer.
    Desk {
        place: WorkerPlace,
        generation: u32,
        transfer: Option<TransferId>,
        callee: WorkerPlace,
    },
    /// A desk that reports to its scheduler.
    Reporter {
        place: WorkerPlace,
        generation: u32,
        callee: SchedulerPlace,
    },
}

impl Cluster {
    pub(super) fn drive_scheduler(&mut self, place: SchedulerPlace, input: SchedulerInput) {
        if let Some(backlog) = &mut self.scheduler_post_mut(place).frozen {
            backlog.push(input);
            return;
        }
        self.turn_scheduler(place, &mut vec![input]);
    }

    pub(super) fn turn_scheduler(
        &mut self,
        place: SchedulerPlace,
        inputs: &mut Vec<SchedulerInput>,
    ) {
        self.stats.core_events += inputs.len() as u64;
        let (now, wall) = self.clocks_of(self.scheduler_post(place).machine);
        let host = &mut self.schedulers[usize::from(place.0)];
        let outputs = &mut self.scheduler_outputs;
        host.turn(now, wall, inputs, outputs, &mut self.log);
        self.after_scheduler_turn(place);
        self.keep_busy(place);
    }

    /// Keeps the scheduler busy; inputs that arrive now wait for the next turn.
    fn keep_busy(&mut self, place: SchedulerPlace) {
        let turn_takes = self.swarm.turn_takes;
        if turn_takes > Duration::ZERO && self.scheduler(place).core().is_some() {
            let post = self.scheduler_post_mut(place);
            (post.frozen, post.is_busy) = (Some(Vec::new()), true);
            self.queue
                .push(self.now + turn_takes, Due::ThawScheduler { place });
        }
    }

    pub(super) fn after_scheduler_turn(&mut self, place: SchedulerPlace) {
        let mut outputs = std::mem::take(&mut self.scheduler_outputs);
        let mut over = None;
        for output in outputs.drain(..) {
            match output {
                SchedulerOutput::AnswerReport { tag, answer } => {
                    let outcome = match answer {
                        Ok(answer) => ReportOutcome::Answered(answer),
                        Err(_) => ReportOutcome::Failed,
                    };
                    self.answer(tag, PacketOutcome::Report(outcome));
                }
                SchedulerOutput::Told => {}
                SchedulerOutput::Exit { reason } => over = Some(reason),
                SchedulerOutput::Record { seq, record } => self.write_record(place, seq, record),
                SchedulerOutput::Answer { tag, outcome } => {
                    self.answer(tag, PacketOutcome::ToWorker(outcome));
                }
                SchedulerOutput::Call {
                    call,
                    tag,
                    peer,
                    message,
                } => self.scheduler_calls(place, (call, tag), &peer, message),
            }
        }
        self.scheduler_outputs = outputs;
        if let Some(ExitReason::SteppedDown { newer: _ }) = over {
            self.scheduler_steps_down(place);
        }
        let due = self.scheduler(place).due();
        let clock = &self.clocks[usize::from(self.scheduler_post(place).machine.0)];
        let at = due.map(|at| clock.when(at).max(self.now));
        let wake = &mut self.scheduler_post_mut(place).wake;
        if wake.0 != at {
            *wake = (at, wake.1 + 1);
            let number = wake.1;
            if let Some(at) = at.filter(|at| *at < Time::NEVER) {
                self.queue.push(at, Due::SchedulerWake { place, number });
            }
        }
    }

    pub(super) fn drive_worker(&mut self, place: WorkerPlace, input: WorkerInput) {
        if let Some(backlog) = &mut self.worker_post_mut(place).frozen {
            backlog.push(input);
            return;
        }
        self.turn_worker(place, &mut vec![input]);
    }

    pub(super) fn turn_worker(&mut self, place: WorkerPlace, inputs: &mut Vec<WorkerInput>) {
        self.stats.core_events += inputs.len() as u64;
        let (now, wall) = self.clocks_of(self.worker_machine(place));
        let host = &mut self.workers[usize::from(place.0)];
        let outputs = &mut self.worker_outputs;
        let worker = host.worker();
        host.turn(now, wall, inputs, outputs, &mut self.log);
        self.after_worker_turn(place, worker);
    }

    pub(super) fn after_worker_turn(
        &mut self,
        place: WorkerPlace,
        worker: Option<brasserie_common::WorkerId>,
    ) {
        let Some(worker) = worker else {
            return;
        };
        let mut outputs = std::mem::take(&mut self.worker_outputs);
        for output in outputs.drain(..) {
            match output {
                WorkerOutput::Answer { tag, outcome } => {
                    self.answer(tag, PacketOutcome::ToScheduler(outcome));
                }
                WorkerOutput::Call { call, tag, request } => {
                    self.worker_calls(place, call, tag, request);
                }
                WorkerOutput::Spawn { run } => self.spawn(place, worker, &run),
                WorkerOutput::Kill {
                    task,
                    invocation,
                    kill,
                } => self.kill(place, (&task, invocation), kill),
                WorkerOutput::Desk(order) => self.perform_order(place, order),
                WorkerOutput::Exit { reason } => self.worker_exits(place, worker, reason),
            }
        }
        self.worker_outputs = outputs;
        self.renew_lease(place);
        let due = self.worker(place).due();
        let clock = &self.clocks[usize::from(self.worker_machine(place).0)];
        let at = due.map(|at| clock.when(at).max(self.now));
        let wake = &mut self.worker_post_mut(place).wake;
        if wake.0 != at {
            *wake = (at, wake.1 + 1);
            let number = wake.1;
            if let Some(at) = at {
                self.queue.push(at, Due::WorkerWake { place, number });
            }
        }
    }

    fn scheduler_calls(
        &mut self,
        place: SchedulerPlace,
        (call, tag): (CallId, CallTag),
        peer: &ServiceAddress,
        message: Call,
    ) {
        let callee = WorkerPlace(peer.port - FIRST_PORT);
        let caller = Caller::Scheduler {
            place,
            generation: self.scheduler(place).generation(),
            call,
            callee,
        };
        let from = self.scheduler_post(place).machine;
        let to = self.worker_machine(callee);
        let Some((after, again)) = self.send(tag, caller, from, to) else {
            return;
        };
        if let Some(again) = again {
            let copy = Due::WorkerRequest {
                place: callee,
                tag: CallTag(tag.0 | COPY),
                message: message.clone(),
            };
            self.queue.push(self.now + again, copy);
        }
        let packet = Due::WorkerRequest {
            place: callee,
            tag,
            message,
        };
        self.queue.push(self.now + after, packet);
    }

    fn worker_calls(
        &mut self,
        place: WorkerPlace,
        call: CallId,
        tag: CallTag,
        request: ToScheduler,
    ) {
        let callee = self.worker_post(place).route;
        let caller = Caller::Worker {
            place,
            generation: self.worker(place).generation(),
            call,
            callee,
        };
        let from = self.worker_machine(place);
        let to = self.scheduler_post(callee).machine;
        let Some((after, again)) = self.send(tag, caller, from, to) else {
            return;
        };
        if let Some(again) = again {
            let copy = Due::SchedulerRequest {
                place: callee,
                tag: CallTag(tag.0 | COPY),
                request: request.clone(),
            };
            self.queue.push(self.now + again, copy);
        }
        let packet = Due::SchedulerRequest {
            place: callee,
            tag,
            request,
        };
        self.queue.push(self.now + after, packet);
    }

    /// Draws the fate of a request, and schedules what its caller learns if no answer comes.
    pub(super) fn send(
        &mut self,
        tag: CallTag,
        caller: Caller,
        from: MachineId,
        to: MachineId,
    ) -> Option<(Duration, Option<Duration>)> {
        self.open.insert(tag, caller);
        let fate = self
            .network
            .request(self.now, from, to, &mut self.seen_faults);
        let (known, outcome, packet) = match fate {
            RequestFate::Arrives { after, again } => {
                (CALL_TIMEOUT, PacketOutcome::TimedOut, Some((after, again)))
            }
            RequestFate::NotSent { known } => (known, PacketOutcome::Refused, None),
            RequestFate::Lost { broken } => (
                broken.unwrap_or(CALL_TIMEOUT),
                PacketOutcome::TimedOut,
                None,
            ),
        };
        self.queue
            .push(self.now + known, Due::Known { tag, outcome });
        packet
    }

    pub(super) fn request_to_scheduler(
        &mut self,
        place: SchedulerPlace,
        tag: CallTag,
        request: ToScheduler,
    ) {
        if self.scheduler(place).core().is_none() {
            return self.nobody_there(tag);
        }
        self.drive_scheduler(place, SchedulerInput::Request { tag, request });
    }

    pub(super) fn request_to_worker(&mut self, place: WorkerPlace, tag: CallTag, message: Call) {
        if self.worker(place).core().is_none() {
            return self.nobody_there(tag);
        }
        self.drive_worker(place, WorkerInput::Request { tag, message });
    }

    /// Refuses the call at once, because no process listens on that port.
    pub(super) fn nobody_there(&mut self, tag: CallTag) {
        let outcome = PacketOutcome::Refused;
        let after = self.network.faults.delay;
        self.queue
            .push(self.now + after, Due::Known { tag, outcome });
    }

    /// Sends an answer back.
    pub(super) fn answer(&mut self, tag: CallTag, outcome: PacketOutcome) {
        let Some(caller) = self.open.get(&tag) else {
            return;
        };
        let (from, to) = match *caller {
            Caller::Scheduler { place, callee, .. } => (
                self.worker_machine(callee),
                self.scheduler_post(place).machine,
            ),
            Caller::Worker { place, callee, .. } | Caller::Reporter { place, callee, .. } => (
                self.scheduler_post(callee).machine,
                self.worker_machine(place),
            ),
            Caller::Desk { place, callee, .. } => {
                (self.worker_machine(callee), self.worker_machine(place))
            }
        };
        let fate = self
            .network
            .reply(self.now, from, to, &mut self.seen_faults);
        match fate {
            ReplyFate::Arrives { after } => self
                .queue
                .push(self.now + after, Due::Known { tag, outcome }),
            ReplyFate::Lost {
                broken: Some(after),
            } => {
                let outcome = PacketOutcome::TimedOut;
                self.queue
                    .push(self.now + after, Due::Known { tag, outcome });
            }
            // The caller's own timeout ends the call.
            ReplyFate::Lost { broken: None } => {}
        }
    }

    /// Reports the outcome of a call. Only the first one counts.
    pub(super) fn known(&mut self, tag: CallTag, outcome: PacketOutcome) {
        let Some(caller) = self.open.remove(&tag) else {
            return;
        };
        let unknown = || "no answer".to_owned();
        let refused = || "nobody listens".to_owned();
        match caller {
            Caller::Scheduler {
                place,
                generation,
                call,
                ..
            } => {
                let outcome = match outcome {
                    PacketOutcome::ToScheduler(outcome) => outcome,
                    PacketOutcome::Refused => CallOutcome::NotSent(refused()),
                    PacketOutcome::TimedOut
                    | PacketOutcome::ToWorker(_)
                    | PacketOutcome::Copies(_)
                    | PacketOutcome::Report(_) => CallOutcome::Unknown(unknown()),
                };
                if self.scheduler(place).generation() == generation {
                    self.drive_scheduler(place, SchedulerInput::Outcome { call, outcome });
                }
            }
            Caller::Worker {
                place,
                generation,
                call,
                ..
            } => {
                let outcome = match outcome {
                    PacketOutcome::ToWorker(outcome) => outcome,
                    PacketOutcome::Refused => CallOutcome::NotSent(refused()),
                    PacketOutcome::TimedOut
                    | PacketOutcome::ToScheduler(_)
                    | PacketOutcome::Copies(_)
                    | PacketOutcome::Report(_) => CallOutcome::Unknown(unknown()),
                };
                if self.worker(place).generation() == generation {
                    self.drive_worker(place, WorkerInput::Outcome { call, outcome });
                }
            }
            Caller::Desk { .. } | Caller::Reporter { .. } => self.desk_knows(caller, outcome),
        }
    }

    /// Breaks the connections to a scheduler that is gone. Its workers notice if the network lets them.
    pub(super) fn connections_break(&mut self, callee: SchedulerPlace) {
        let there = self.scheduler_post(callee).machine;
        for at in 0..self.workers.len() {
            let place = self.workers[at].place();
            let machine = self.worker_machine(place);
            let hears = self.worker_post(place).route == callee
                && !self.network.is_blocked(self.now, there, machine)
                && self.chance.per_mille(900);
            if hears {
                self.connection_lost(place);
            }
        }
    }

    pub(super) fn connection_lost(&mut self, place: WorkerPlace) {
        let generation = self.worker(place).generation();
        let after = self.network.faults.delay;
        let due = Due::WorkerHears {
            place,
            generation,
            input: WorkerInput::ConnectionLost,
        };
        self.queue.push(self.now + after, due);
    }
}
