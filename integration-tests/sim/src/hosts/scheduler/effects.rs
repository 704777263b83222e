//! Performs the effects of the core, and reports them as happenings.

use brasserie_common::cards::WHOLE_CARD;
use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::{
    CallId, CallOutcome, Health, RecordSeq, RequestId, RunningTask, ServiceAddress, WorkReply,
    WorkerId,
};
use brasserie_scheduler_core::{
    Answer, Call, Effect, EndedTask, ForgetRefusal, ForgottenTask, JobChanged, JobRefusal,
    OrderRefusal, Query, Record, Rejection, Reply,
};
use brasserie_worker_core::CallReply as WorkerCallReply;

use super::{Asking, RequestSubject, SchedulerOutput, SchedulerTurn, StatusAsked, TAGS_A_PLACE};
use crate::artifact_events::ArtifactEvent;
use crate::event_log::{
    Ask, CallTag, DeletedCounts, Fact, Happening, HistoryOf, RejectionKind, Run, SetMark, TaskId,
    WaitExit, WantedCards,
};

impl SchedulerTurn<'_> {
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Persist { seq, record } => {
                self.note_record(seq, &record);
                self.out.push(SchedulerOutput::Record { seq, record });
            }
            Effect::Reply {
                request,
                after,
                reply,
            } => self.reply(request, after, reply),
            Effect::Call {
                id,
                shard: _,
                peer,
                call,
            } => self.call(id, peer, call),
            Effect::Exit { reason } => self.out.push(SchedulerOutput::Exit { reason }),
        }
    }

    fn work_reply(
        &mut self,
        (tag, worker): (CallTag, WorkerId),
        result: Result<Box<WorkReply>, Rejection>,
    ) {
        let scheduler = self.process.core.id();
        let seq = result.as_ref().ok().map(|reply| reply.seq);
        let outcome = match result {
            Ok(reply) => {
                self.note_told(worker, &reply);
                CallOutcome::Done(WorkerCallReply::Work(reply))
            }
            Err(rejection) => {
                let why = RejectionKind::from(&rejection);
                self.log.push(Happening::WorkRejected {
                    scheduler,
                    worker,
                    why,
                });
                // The method declares no exception.
                CallOutcome::Unknown(rejection.to_string())
            }
        };
        self.log.push(Happening::WorkAnswered {
            scheduler,
            worker,
            call: tag,
            seq,
        });
        self.out.push(SchedulerOutput::Answer { tag, outcome });
    }

    fn note_told(&mut self, worker: WorkerId, reply: &WorkReply) {
        self.log.push(Happening::WorkTold {
            place: self.place,
            scheduler: self.process.core.id(),
            worker,
            seq: reply.seq,
            verdicts: reply.verdicts.clone(),
        });
    }

    fn reply(&mut self, request: RequestId, after: Option<RecordSeq>, reply: Reply) {
        let (place, scheduler) = (self.place, self.process.core.id());
        let asked = self.take_open(request);
        let about = asked.clone();
        let (tag, outcome, happening) = match (asked, reply) {
            (Some(RequestSubject::Heartbeat { tag, held }), Reply::Heartbeat(Ok(response))) => {
                let worker = held.worker;
                // An instance that must die holds no shard.
                if response.worker_state != Health::MustDie {
                    self.process.remember(held);
                }
                self.log.push(Happening::HeartbeatDecided {
                    place,
                    scheduler,
                    worker,
                    state: response.worker_state,
                    set: SetMark::from(&response.worker_set),
                });
                let happening = Happening::HeartbeatAnswered {
                    place,
                    scheduler,
                    worker,
                    state: response.worker_state,
                    set: SetMark::from(&response.worker_set),
                };
                if let Some(work) = &response.work {
                    self.note_told(worker, work);
                }
                let reply = WorkerCallReply::Heartbeat(response);
                (tag, CallOutcome::Done(reply), happening)
            }
            (Some(RequestSubject::Heartbeat { tag, held }), Reply::Heartbeat(Err(rejection))) => {
                let worker = held.worker;
                let happening = Happening::HeartbeatRejected {
                    place,
                    scheduler,
                    worker,
                    why: RejectionKind::from(&rejection),
                };
                // The method declares no exception.
                (tag, CallOutcome::Unknown(rejection.to_string()), happening)
            }
            (Some(RequestSubject::Status(about)), Reply::UpdateStatus(result)) => {
                self.status_reply(about, after, result)
            }
            (Some(RequestSubject::Work { tag, worker }), Reply::Work(result)) => {
                // The answer reports nothing that could be lost with the process.
                assert_eq!(after, None, "Invariant: such an answer waits for no record");
                return self.work_reply((tag, worker), result);
            }
            (Some(RequestSubject::Artifacts { tag }), Reply::Artifacts(answer)) => {
                // The answer reports nothing that could be lost with the process.
                assert_eq!(after, None, "Invariant: such an answer waits for no record");
                return self.out.push(SchedulerOutput::AnswerReport { tag, answer });
            }
            (Some(RequestSubject::Operator), reply) if is_for_operator(&reply) => return,
            (Some(RequestSubject::Deletion(of)), Reply::JobChanged(changed)) => {
                return self.deletion_reply((request, of), after, &changed);
            }
            (Some(RequestSubject::Declaration(worker)), Reply::WorkerForgotten(declared)) => {
                let happening = Happening::WorkerDeclaredDead {
                    place,
                    scheduler,
                    worker,
                };
                // No caller acts on a refusal.
                let happening = declared.is_ok().then_some(happening);
                let about = RequestSubject::Declaration(worker);
                return self.emit((request, about), after, SchedulerOutput::Told, happening);
            }
            // The reply has just left: in one turn the disk reported the record as durable and the core abandoned the reply.
            (None, reply) if is_abandoned(&reply) => return,
            (asked, reply) => panic!("Invariant: a reply fits its request: {asked:?} {reply:?}"),
        };
        let about = about.expect("Invariant: a request without subject is answered above");
        let output = SchedulerOutput::Answer { tag, outcome };
        self.emit((request, about), after, output, Some(happening));
    }

    /// Answers an operator, so no packet leaves.
    fn deletion_reply(
        &mut self,
        (request, of): (RequestId, HistoryOf),
        after: Option<RecordSeq>,
        changed: &Result<JobChanged, JobRefusal>,
    ) {
        let Ok(JobChanged::HistoryDeleted {
            tasks,
            running,
            maybe_alive,
        }) = changed
        else {
            return;
        };
        let about = RequestSubject::Deletion(of);
        let counts = DeletedCounts {
            deleted: *tasks,
            running: *running,
            maybe_alive: *maybe_alive,
        };
        let happening = Happening::DeletionAnswered {
            place: self.place,
            scheduler: self.process.core.id(),
            of,
            counts,
        };
        self.emit(
            (request, about),
            after,
            SchedulerOutput::Told,
            Some(happening),
        );
    }

    fn status_reply(
        &self,
        about: StatusAsked,
        after: Option<RecordSeq>,
        result: Result<(), Rejection>,
    ) -> (CallTag, CallOutcome<WorkerCallReply>, Happening) {
        let (place, scheduler) = (self.place, self.process.core.id());
        let StatusAsked {
            tag,
            worker,
            run,
            bits,
        } = about;
        match result {
            Ok(()) => {
                let happening = Happening::StatusAcknowledged {
                    place,
                    scheduler,
                    worker,
                    run,
                    bits,
                    after,
                };
                let outcome = CallOutcome::Done(WorkerCallReply::Acknowledged);
                (tag, outcome, happening)
            }
            Err(rejection) => {
                let happening = Happening::StatusRejected {
                    place,
                    scheduler,
                    worker,
                    run,
                    bits,
                    why: RejectionKind::from(&rejection),
                };
                (tag, CallOutcome::Unknown(rejection.to_string()), happening)
            }
        }
    }

    fn call(&mut self, call: CallId, peer: ServiceAddress, message: Call) {
        *self.next_tag += 1;
        let tag = CallTag(*self.next_tag);
        assert!(
            !self.next_tag.is_multiple_of(TAGS_A_PLACE),
            "Invariant: no run makes so many calls"
        );
        let (worker, ask) = ask(&message);
        self.process.calls.insert(call, Asking { tag, worker, ask });
        self.note_charges(worker, ask, &message);
        self.log.push(Happening::CallSent {
            place: self.place,
            scheduler: self.process.core.id(),
            worker,
            call: tag,
            ask,
        });
        if let Call::NotifyIfTasksNotRunning { tasks, .. } = &message {
            let runs = tasks.iter().map(run_of);
            let named = runs.map(|run| Happening::NotifyNames {
                call: tag,
                worker,
                run,
            });
            self.log.extend(named);
        }
        self.out.push(SchedulerOutput::Call {
            call,
            tag,
            peer,
            message,
        });
    }

    fn note_artifacts(&mut self, event: ArtifactEvent) {
        self.log.push(Happening::Artifacts(Box::new(event)));
    }

    fn note_charges(&mut self, worker: WorkerId, ask: Ask, message: &Call) {
        let (Ask::Run { run, sequence: _ }, Call::RunTask(told)) = (ask, message) else {
            return;
        };
        if let Some(artifacts) = &told.options.artifacts {
            let inputs = artifacts.inputs.iter();
            let inputs = inputs.map(|input| (input.place.to_string(), input.artifact.id));
            let inputs = inputs.collect();
            self.note_artifacts(ArtifactEvent::Needed {
                place: self.place,
                worker,
                run,
                inputs,
            });
        }
        let on_worker = told.task.resources.iter();
        let on_worker = on_worker.filter(|on| on.node.as_str() == told.task.shard.as_str());
        let amounts = on_worker.flat_map(|on| &on.resources);
        let charges = amounts.map(|amount| (amount.name.clone(), amount.amount));
        let charges = charges.collect();
        let gpus = told.task.gpus.iter();
        let gpus = gpus.map(|share| (share.device.to_string(), share.milli));
        if let Some(wanted) = &told.task.gpus_wanted {
            let wanted = WantedCards {
                milli: (wanted.need.amount() * f64::from(WHOLE_CARD)).round() as u32,
                counts_as: wanted.counts_as.as_deref().map(str::to_owned),
            };
            self.log.push(Happening::WantsCards { run, wanted });
        }
        self.log.push(Happening::Charged {
            worker,
            run,
            charges,
            gpus: gpus.collect(),
        });
        if let Some(slots) = &told.task.worker_slots {
            let slots = slots.iter().map(|slot| (slot.name.clone(), slot.amount));
            self.log.push(Happening::StatesSlots {
                worker,
                run,
                slots: slots.collect(),
            });
        }
        if self.process.asking.contains(&worker) {
            self.log.push(Happening::SentAsWork {
                scheduler: self.process.core.id(),
                worker,
                run,
                terms: told.task.work,
            });
        }
    }

    fn note_record(&mut self, seq: RecordSeq, record: &Record) {
        let ended = match record {
            Record::WorkerLeft { tasks, .. } => tasks.as_slice(),
            Record::TaskEnded(task) => std::slice::from_ref(task),
            Record::SchedulerStarted { .. }
            | Record::FenceRaised { .. }
            | Record::WorkerAssociated { .. }
            | Record::HoldBack { .. }
            | Record::HoldBackOver
            | Record::JobSaved { .. }
            | Record::JobDeleted { .. }
            | Record::JobHeld { .. }
            | Record::JobResumed { .. }
            // No run has ended.
            | Record::TasksForgiven { .. }
            | Record::HistoryDeleted { .. }
            | Record::HistoryTrimmed(_)
            | Record::OutputsExpired { .. }
            | Record::OutputsForgotten { .. }
            | Record::WorkerOrdered { .. }
            | Record::ConfigKept { .. }
            | Record::TimesGiven { .. } => &[],
        };
        let forgiven = match record {
            Record::TasksForgiven { tasks } => tasks.as_slice(),
            _ => &[],
        };
        self.log.push(Happening::RecordWritten {
            directory: self.process.directory,
            scheduler: self.process.core.id(),
            seq,
            fact: fact(record),
        });
        for task in ended {
            self.note_end(seq, task);
        }
        for task in forgiven {
            self.note_forgiven(seq, task);
        }
        if let Record::HistoryDeleted { tasks, .. } = record {
            for task in tasks {
                self.note_deleted(seq, task);
            }
        }
        if let Record::HistoryTrimmed(trim) = record {
            for key in &trim.expired {
                self.log.push(Happening::EndExpired {
                    directory: self.process.directory,
                    scheduler: self.process.core.id(),
                    seq,
                    task: TaskId::from_names(key.job.as_str(), key.node.as_str()),
                });
            }
        }
    }

    fn note_deleted(&mut self, seq: RecordSeq, task: &ForgottenTask) {
        self.log.push(Happening::EndDeleted {
            directory: self.process.directory,
            scheduler: self.process.core.id(),
            seq,
            run: Run {
                task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
                invocation: task.up_to,
            },
        });
    }

    fn note_forgiven(&mut self, seq: RecordSeq, task: &EndedTask) {
        self.log.push(Happening::EndForgiven {
            directory: self.process.directory,
            scheduler: self.process.core.id(),
            seq,
            run: Run {
                task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
                invocation: task.invocation,
            },
            bits: task.status.bits,
            backoff_seconds: task.status.backoff_seconds,
            safety_seconds: task.status.safety_seconds,
        });
    }

    fn note_end(&mut self, seq: RecordSeq, task: &EndedTask) {
        self.log.push(Happening::EndWritten {
            directory: self.process.directory,
            scheduler: self.process.core.id(),
            seq,
            run: Run {
                task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
                invocation: task.invocation,
            },
            bits: task.status.bits,
            backoff_seconds: task.status.backoff_seconds,
            safety_seconds: task.status.safety_seconds,
        });
        if !task.outputs.is_empty() {
            let run = Run {
                task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
                invocation: task.invocation,
            };
            let outputs = task.outputs.iter();
            let outputs = outputs.map(|output| (output.path.to_string(), output.artifact.id));
            let outputs = outputs.collect();
            self.note_artifacts(ArtifactEvent::OutputsWritten {
                directory: self.process.directory,
                seq,
                run,
                outputs,
            });
        }
    }

    /// Reports the end of the wait, which the core shows in its status only.
    pub(super) fn note_wait(&mut self) {
        let may_have_changed = std::mem::take(&mut self.process.wait_may_have_changed);
        if self.process.wait_ended && !may_have_changed {
            return;
        }
        let Answer::Status(status) = self.process.core.answer(self.now, &Query::Status) else {
            return;
        };
        let (place, scheduler) = (self.place, self.process.core.id());
        match (self.process.wait_ended, status.wait_ended) {
            (false, Some(reason)) => {
                self.process.wait_ended = true;
                self.log.push(Happening::WaitEnded {
                    place,
                    scheduler,
                    why: WaitExit::from_reason(&reason),
                });
            }
            (true, None) => {
                self.process.wait_ended = false;
                self.log.push(Happening::WaitsAgain { place, scheduler });
            }
            (false, None) | (true, Some(_)) => {}
        }
    }
}

/// Returns whether the reply answers a request of an operator on which no caller acts.
fn is_for_operator(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::KillTask(_) | Reply::JobChanged(_) | Reply::WorkerOrdered(_)
    )
}

/// Returns whether the core has abandoned the wait for the record of this reply.
fn is_abandoned(reply: &Reply) -> bool {
    match reply {
        Reply::JobChanged(Err(refusal)) => *refusal == JobRefusal::NotDurableYet,
        Reply::WorkerForgotten(Err(refusal)) => *refusal == ForgetRefusal::NotDurableYet,
        Reply::WorkerOrdered(Err(refusal)) => *refusal == OrderRefusal::NotDurableYet,
        Reply::UpdateStatus(Err(rejection)) | Reply::Heartbeat(Err(rejection)) => {
            matches!(rejection, Rejection::NotDurableYet | Rejection::Repeated)
        }
        _ => false,
    }
}

fn count(tasks: usize) -> u16 {
    u16::try_from(tasks).unwrap_or(u16::MAX)
}

fn fact(record: &Record) -> Fact {
    match record {
        Record::SchedulerStarted {
            cluster: _,
            scheduler,
            wait,
            generation: _,
        } => Fact::SchedulerStarted {
            scheduler: *scheduler,
            wait: *wait,
        },
        Record::WorkerAssociated { worker, instance } => Fact::WorkerAssociated {
            worker: *worker,
            shard: instance.shard.clone(),
        },
        Record::WorkerLeft {
            worker,
            cause,
            wall: _,
            tasks,
            hold_back,
        } => Fact::WorkerLeft {
            worker: *worker,
            cause: *cause,
            tasks: count(tasks.len()),
            hold_back: *hold_back,
        },
        Record::HoldBack { wait } => Fact::HoldBack { wait: *wait },
        Record::HoldBackOver => Fact::HoldBackOver,
        Record::TaskEnded(_) => Fact::TaskEnded,
        Record::JobSaved { .. }
        | Record::JobDeleted { .. }
        | Record::JobHeld { .. }
        | Record::JobResumed { .. }
        | Record::TasksForgiven { .. }
        | Record::HistoryDeleted { .. }
        | Record::HistoryTrimmed(_)
        | Record::OutputsExpired { .. }
        | Record::OutputsForgotten { .. }
        | Record::WorkerOrdered { .. }
        | Record::ConfigKept { .. }
        | Record::FenceRaised { .. }
        | Record::TimesGiven { .. } => Fact::Jobs,
    }
}

fn run_of(task: &RunningTask) -> Run {
    Run {
        task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
        invocation: task.invocation,
    }
}

/// Returns the callee of a call, and what the call asks.
fn ask(call: &Call) -> (WorkerId, Ask) {
    let ask = match call {
        Call::GetRunningTasks { .. } => Ask::Fetch,
        Call::RunTask(run) => Ask::Run {
            run: run_of(&run.task),
            sequence: run.sequence,
        },
        Call::Healthcheck(run) => Ask::Healthcheck {
            invocation: run.task.invocation,
            for_new_worker: run.task.node.as_str() == HEALTHCHECK_NEW_WORKER_NODE,
        },
        Call::NotifyIfTasksNotRunning {
            tasks, sequence, ..
        } => Ask::Notify {
            tasks: count(tasks.len()),
            sequence: *sequence,
        },
        Call::RequestSuicide { .. } => Ask::Suicide,
        Call::Drain { .. } => Ask::Drain,
        Call::KillTask { task, kill, .. } => Ask::of_kill(run_of(task), kill.by),
    };
    (call.worker(), ask)
}
