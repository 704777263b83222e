//! Packets between hosts, and their fates.

use brasserie_common::{CallId, CallOutcome, ServiceAddress};
use brasserie_scheduler_core::{Call, CallReply as SchedulerCallReply};
use brasserie_worker_core::CallReply as WorkerCallReply;

use super::{CALL_DEADLINE, Caller, OpenCall, Pace, SmallWorld};
use crate::event_log::{CallTag, SchedulerPlace, WorkerPlace};
use crate::hosts::ToScheduler;
use crate::hosts::scheduler::{SchedulerInput, SchedulerOutput};
use crate::hosts::worker::{WorkerInput, WorkerOutput};
use crate::search::settings::{Listing, PacketClass};

/// The port of the first worker.
pub(super) const FIRST_PORT: u16 = 10_000;

/// The content of an answer, or the news that none will come.
#[derive(Clone, Debug)]
pub(super) enum PacketContent {
    ToScheduler(CallOutcome<SchedulerCallReply>),
    ToWorker(CallOutcome<WorkerCallReply>),
    Unknown,
    NotSent,
}

/// One packet under way.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    ToScheduler {
        from: WorkerPlace,
        to: SchedulerPlace,
        tag: CallTag,
        request: ToScheduler,
    },
    ToWorker {
        from: SchedulerPlace,
        to: WorkerPlace,
        tag: CallTag,
        message: Call,
    },
    Back {
        tag: CallTag,
        news: PacketContent,
    },
}

pub(super) fn class_of(message: &Call) -> PacketClass {
    match message {
        Call::GetRunningTasks { .. } => PacketClass::Fetch,
        Call::Healthcheck(_) => PacketClass::Healthcheck,
        Call::RunTask(_) => PacketClass::Run,
        Call::NotifyIfTasksNotRunning { .. } => PacketClass::Notify,
        // No operator of a small world decommissions a worker.
        Call::RequestSuicide { .. } | Call::Drain { .. } => PacketClass::Suicide,
        Call::KillTask { .. } => PacketClass::Kill,
    }
}

fn class_of_request(request: &ToScheduler) -> PacketClass {
    match request {
        // No worker of a small world requests work.
        ToScheduler::Heartbeat { .. } | ToScheduler::Work(_) => PacketClass::Heartbeat,
        // The completion of a healthcheck.
        ToScheduler::Status(update) if !update.job.as_str().starts_with('j') => {
            PacketClass::Healthcheck
        }
        ToScheduler::Status(_) => PacketClass::Status,
        ToScheduler::Artifacts(_) => panic!("{NO_ARTIFACTS}"),
    }
}

const NO_ARTIFACTS: &str = "Invariant: no task of a small world has artifacts";

/// The bit in the tags of copies.
const COPY: u32 = 1 << 31;

impl Packet {
    /// Turns the packet into a copy, whose answer no caller receives.
    pub fn nobody_waits(&mut self) {
        match self {
            Packet::ToScheduler { tag, .. }
            | Packet::ToWorker { tag, .. }
            | Packet::Back { tag, .. } => *tag = CallTag(tag.0 | COPY),
        }
    }

    pub fn tag(&self) -> CallTag {
        match self {
            Packet::ToScheduler { tag, .. }
            | Packet::ToWorker { tag, .. }
            | Packet::Back { tag, .. } => *tag,
        }
    }
}

/// Removes completions, for which the original interface has no field.
fn hide_ends(outcome: &mut CallOutcome<SchedulerCallReply>) {
    if let CallOutcome::Done(SchedulerCallReply::RunningTasks(tasks)) = outcome {
        for task in tasks {
            task.ended = None;
        }
    }
}

impl SmallWorld {
    /// Returns the worker whose link the packet uses, and its class. `None` if no caller waits for this answer any more.
    pub(super) fn link_of(&self, packet: &Packet) -> Option<(WorkerPlace, PacketClass)> {
        match packet {
            Packet::ToScheduler { from, request, .. } => Some((*from, class_of_request(request))),
            Packet::ToWorker { to, message, .. } => Some((*to, class_of(message))),
            Packet::Back { tag, .. } => {
                let open = self.open.get(tag)?;
                Some((open.worker, open.class))
            }
        }
    }

    pub(super) fn is_blocked(&self, packet: &Packet) -> bool {
        self.link_of(packet)
            .is_some_and(|(place, _)| self.post(place).is_cut)
    }

    fn send(&mut self, packet: Packet) {
        let Some((_, class)) = self.link_of(&packet) else {
            return;
        };
        let is_free = self.pace == Pace::Chosen && self.settings.free.contains(&class);
        if is_free {
            self.packets.push(packet);
        } else {
            self.express.push_back(packet);
        }
    }

    /// Tells the caller at once that no answer will come.
    pub(super) fn fail(&mut self, tag: CallTag, news: PacketContent) {
        if self.open.contains_key(&tag) {
            self.express.push_back(Packet::Back { tag, news });
        }
    }

    pub(super) fn arrive(&mut self, packet: Packet) {
        let is_news = matches!(
            packet,
            Packet::Back {
                news: PacketContent::Unknown | PacketContent::NotSent,
                ..
            }
        );
        // News that is known without the other side passes any link.
        if !is_news && self.is_blocked(&packet) {
            return match packet {
                Packet::Back { tag, .. } => self.fail(tag, PacketContent::Unknown),
                Packet::ToScheduler { tag, .. } | Packet::ToWorker { tag, .. } => {
                    self.fail(tag, PacketContent::Unknown);
                }
            };
        }
        match packet {
            Packet::ToScheduler {
                to, tag, request, ..
            } => {
                if self.scheduler(to).core().is_none() {
                    return self.fail(tag, PacketContent::NotSent);
                }
                self.drive_scheduler(to, SchedulerInput::Request { tag, request });
            }
            Packet::ToWorker {
                to, tag, message, ..
            } => {
                if self.worker(to).core().is_none() {
                    return self.fail(tag, PacketContent::NotSent);
                }
                self.drive_worker(to, WorkerInput::Request { tag, message });
            }
            Packet::Back { tag, news } => self.known(tag, news),
        }
    }

    /// Reports the outcome of a call. Only the first one counts.
    fn known(&mut self, tag: CallTag, news: PacketContent) {
        let unknown = || "no answer".to_owned();
        let not_sent = || "nobody listens".to_owned();
        let Some(OpenCall { caller, call, .. }) = self.open.remove(&tag) else {
            return;
        };
        match caller {
            Caller::Scheduler(place) => {
                let outcome = match news {
                    PacketContent::ToScheduler(outcome) => outcome,
                    PacketContent::NotSent => CallOutcome::NotSent(not_sent()),
                    PacketContent::Unknown | PacketContent::ToWorker(_) => {
                        CallOutcome::Unknown(unknown())
                    }
                };
                self.drive_scheduler(place, SchedulerInput::Outcome { call, outcome });
            }
            Caller::Worker(place) => {
                let outcome = match news {
                    PacketContent::ToWorker(outcome) => outcome,
                    PacketContent::NotSent => CallOutcome::NotSent(not_sent()),
                    PacketContent::Unknown | PacketContent::ToScheduler(_) => {
                        CallOutcome::Unknown(unknown())
                    }
                };
                self.drive_worker(place, WorkerInput::Outcome { call, outcome });
            }
        }
    }

    pub(super) fn scheduler_outputs(&mut self, place: SchedulerPlace, out: Vec<SchedulerOutput>) {
        for output in out {
            match output {
                SchedulerOutput::Record { seq, record } => {
                    self.directory_mut(place).write(seq, record);
                }
                SchedulerOutput::Answer { tag, outcome } => self.send(Packet::Back {
                    tag,
                    news: PacketContent::ToWorker(outcome),
                }),
                SchedulerOutput::Call {
                    call,
                    tag,
                    peer,
                    message,
                } => self.scheduler_calls(place, call, tag, &peer, message),
                SchedulerOutput::AnswerReport { .. } => panic!("{NO_ARTIFACTS}"),
                SchedulerOutput::Told => {}
                SchedulerOutput::Exit { .. } => {
                    let kept = self.unsynced(place);
                    self.scheduler_gone(place, kept);
                    return;
                }
            }
        }
    }

    fn opens(
        &mut self,
        tag: CallTag,
        caller: Caller,
        call: CallId,
        (worker, class): (WorkerPlace, PacketClass),
    ) {
        let open = OpenCall {
            caller,
            call,
            worker,
            class,
            until: self.now + CALL_DEADLINE,
        };
        self.open.insert(tag, open);
    }

    fn scheduler_calls(
        &mut self,
        place: SchedulerPlace,
        call: CallId,
        tag: CallTag,
        peer: &ServiceAddress,
        message: Call,
    ) {
        let worker = WorkerPlace(peer.port - FIRST_PORT);
        let class = class_of(&message);
        self.opens(tag, Caller::Scheduler(place), call, (worker, class));
        self.send(Packet::ToWorker {
            from: place,
            to: worker,
            tag,
            message,
        });
    }

    pub(super) fn worker_outputs(&mut self, place: WorkerPlace, out: Vec<WorkerOutput>) {
        for output in out {
            match output {
                WorkerOutput::Answer { tag, mut outcome } => {
                    if self.settings.listing == Listing::Original {
                        hide_ends(&mut outcome);
                    }
                    let news = PacketContent::ToScheduler(outcome);
                    self.send(Packet::Back { tag, news });
                }
                WorkerOutput::Call { call, tag, request } => {
                    let callee = self.post(place).route;
                    let class = class_of_request(&request);
                    self.opens(tag, Caller::Worker(place), call, (place, class));
                    self.send(Packet::ToScheduler {
                        from: place,
                        to: callee,
                        tag,
                        request,
                    });
                }
                WorkerOutput::Spawn { run } => self.spawn(place, &run.task),
                WorkerOutput::Kill {
                    task,
                    invocation,
                    kill,
                } => self.kill(place, (&task, invocation), kill),
                WorkerOutput::Desk(_) => panic!("{NO_ARTIFACTS}"),
                WorkerOutput::Exit { .. } => self.worker_gone(place),
            }
        }
    }
}
