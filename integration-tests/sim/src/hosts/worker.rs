//! A worker process: the real core, and the subject of each request and call. Its task processes live outside of it.

mod arrival;
mod calls;
mod changes;
mod departure;
mod runs;

use std::sync::Arc;

use brasserie_common::collections::IdMap;
use brasserie_common::{
    CallId, CallOutcome, Health, InvocationId, KillRequest, ReportedStatus, RequestId, RunningTask,
    SchedulerId, StatusBits, TaskKey, Time, WallTime, WorkerId,
};
use brasserie_scheduler_core::{Call, CallReply as SchedulerCallReply};
use brasserie_worker_core::{
    Association, AssociationIndex, CallReply, Effect, Event, ExitReason, LifeStage, Options,
    Refusal, Reply, RunTask, Worker,
};

pub use self::arrival::EventArrival;
pub use self::departure::{refused, story_of, update};
use super::ToScheduler;
use super::desk::{Desk, DeskInput, DeskOutput, RunEnd};
use crate::event_log::{Ask, CallTag, Happening, MachineSize, Run, SetMark, TaskId, WorkerPlace};
use crate::store::Store;

/// An input of a worker process.
#[derive(Clone, Debug)]
pub enum WorkerInput {
    Request {
        tag: CallTag,
        message: Call,
    },
    Outcome {
        call: CallId,
        outcome: CallOutcome<CallReply>,
    },
    ConnectionLost,
    TaskEnded {
        task: TaskKey,
        invocation: InvocationId,
        status: ReportedStatus,
    },
    /// The process of a run with a timeout exists.
    TaskStarted {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// A fact for the desk.
    Desk(DeskInput),
    /// The end of a run that the desk has led.
    RunEnded(Box<RunEnd>),
    /// SIGTERM.
    Shutdown,
    /// SIGTERM to a worker that drains in response.
    Drain,
    /// A timer of the core.
    Wake,
}

/// An output of a worker process.
#[derive(Clone, Debug)]
pub enum WorkerOutput {
    /// Answers the scheduler that asked, as that scheduler will see the answer.
    Answer {
        tag: CallTag,
        outcome: CallOutcome<SchedulerCallReply>,
    },
    Call {
        call: CallId,
        tag: CallTag,
        request: ToScheduler,
    },
    Spawn {
        run: Arc<RunTask>,
    },
    Kill {
        task: TaskKey,
        invocation: InvocationId,
        kill: KillRequest,
    },
    /// An order of the desk.
    Desk(DeskOutput),
    /// The process has ended. No later output takes effect.
    Exit {
        reason: ExitReason,
    },
}

/// An open request.
#[derive(Clone, Copy, Debug)]
struct WorkerRequest {
    tag: CallTag,
    scheduler: SchedulerId,
    meant: WorkerId,
    ask: Ask,
    health: Health,
    bound: Option<SchedulerId>,
}

/// An open call.
#[derive(Clone, Copy, Debug)]
enum Asking {
    Heartbeat,
    Work,
    Status {
        scheduler: SchedulerId,
        run: Run,
        bits: StatusBits,
    },
}

#[derive(Clone, Debug)]
struct HostedWorker {
    core: Worker,
    /// `None`: no task of the world has artifacts.
    desk: Option<Desk>,
    id: WorkerId,
    next_request: u64,
    requests: IdMap<RequestId, WorkerRequest>,
    calls: IdMap<CallId, Asking>,
    /// The health as last reported.
    health: Health,
    bound: Option<SchedulerId>,
    life: LifeStage,
}

impl HostedWorker {
    fn own(&self) -> &Association {
        self.core.association(AssociationIndex::FIRST)
    }
}

/// A place where worker processes run one after another.
#[derive(Clone, Debug)]
pub struct WorkerHost {
    place: WorkerPlace,
    process: Option<HostedWorker>,
    /// Survives processes. `None`: no task of the world has artifacts.
    store: Option<Store>,
    next_tag: u32,
    generation: u32,
}

/// The first tag of workers' calls, above those of schedulers.
const FIRST_WORKER_TAG: u32 = 1 << 30;
/// The tags of one place: more than any run has calls.
const TAGS_A_PLACE: u32 = 1 << 25;

impl WorkerHost {
    pub fn new(place: WorkerPlace) -> Self {
        WorkerHost {
            place,
            process: None,
            store: None,
            next_tag: FIRST_WORKER_TAG + u32::from(place.0) * TAGS_A_PLACE,
            generation: 0,
        }
    }

    /// Gives the workers of this place a store of artifacts.
    pub fn with_store(self, store: Option<Store>) -> Self {
        WorkerHost { store, ..self }
    }

    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub fn store_mut(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    pub fn desk(&self) -> Option<&Desk> {
        self.process.as_ref()?.desk.as_ref()
    }

    pub fn place(&self) -> WorkerPlace {
        self.place
    }

    /// Returns the association of the process with its one scheduler.
    pub fn core(&self) -> Option<&Association> {
        self.process.as_ref().map(HostedWorker::own)
    }

    /// Returns the whole core.
    pub fn machine(&self) -> Option<&Worker> {
        self.process.as_ref().map(|process| &process.core)
    }

    pub fn worker(&self) -> Option<WorkerId> {
        self.process.as_ref().map(|process| process.id)
    }

    /// Returns the generation, which changes with each start. Timers and outcomes of an earlier process are void.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns when the core wants to be driven without input.
    pub fn due(&self) -> Option<Time> {
        let process = self.process.as_ref()?;
        let desk = process.desk.as_ref().and_then(Desk::due);
        process.core.poll_timeout().into_iter().chain(desk).min()
    }

    /// Starts a process and performs its first turn.
    pub fn start(
        &mut self,
        options: Options,
        (now, wall): (Time, WallTime),
        out: &mut Vec<WorkerOutput>,
        log: &mut Vec<Happening>,
    ) {
        assert!(
            self.process.is_none(),
            "Invariant: one process at a time in a place"
        );
        self.generation += 1;
        let description = &options.description;
        let [own] = &options.associations[..] else {
            panic!("Invariant: every worker here has one scheduler");
        };
        let id = own.id;
        log.push(Happening::WorkerStarted {
            place: self.place,
            worker: id,
            shard: own.shard.clone(),
            lock_port: description.machine_lock.port,
        });
        log.push(Happening::WorkerDeclared {
            worker: id,
            size: MachineSize::from(description),
        });
        if options.work_fetch.is_some() {
            let cpus = description.usable.cpu_cores;
            log.push(Happening::FetchesWork { worker: id, cpus });
        }
        let described = description.clone();
        let core = Worker::new(options, now);
        let desk = self.store.as_mut().map(|store| {
            store.reopen();
            Desk::new(&described, store, now)
        });
        let own = core.association(AssociationIndex::FIRST);
        self.process = Some(HostedWorker {
            health: own.health(),
            bound: None,
            life: own.life_stage(),
            core,
            desk,
            id,
            next_request: 0,
            requests: IdMap::default(),
            calls: IdMap::default(),
        });
        self.turn(now, wall, &mut vec![WorkerInput::Wake], out, log);
    }

    /// Ends the process like `kill -9`.
    pub fn crash(&mut self) {
        self.process = None;
    }

    /// Performs one turn of the driver. Does nothing in an empty place.
    pub fn turn(
        &mut self,
        now: Time,
        wall: WallTime,
        inputs: &mut Vec<WorkerInput>,
        out: &mut Vec<WorkerOutput>,
        log: &mut Vec<Happening>,
    ) {
        let Some(process) = &mut self.process else {
            inputs.clear();
            return;
        };
        let mut turn = WorkerTurn {
            place: self.place,
            process,
            store: self.store.as_mut(),
            next_tag: &mut self.next_tag,
            now,
            out,
            log,
        };
        turn.process.core.handle(now, Event::WallClock(wall));
        for input in inputs.drain(..) {
            turn.hear(input);
        }
        turn.process.core.handle_timeout(now);
        let mut over = false;
        while let Some(effect) = turn.process.core.poll_effect() {
            over = matches!(effect, Effect::Exit { .. });
            turn.perform(effect);
            if over {
                break;
            }
        }
        if !over {
            turn.poll_desk();
        }
        turn.note_changes();
        turn.log.push(Happening::WorkerTurn { place: self.place });
        if over {
            self.process = None;
        }
    }
}

struct WorkerTurn<'a> {
    place: WorkerPlace,
    process: &'a mut HostedWorker,
    store: Option<&'a mut Store>,
    next_tag: &'a mut u32,
    now: Time,
    out: &'a mut Vec<WorkerOutput>,
    log: &'a mut Vec<Happening>,
}

fn run_of(task: &RunningTask) -> Run {
    run_named(&task.key(), task.invocation)
}

fn run_named(task: &TaskKey, invocation: InvocationId) -> Run {
    Run {
        task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
        invocation,
    }
}

impl WorkerTurn<'_> {
    fn hear(&mut self, input: WorkerInput) {
        let event = match input {
            WorkerInput::Request { tag, message } => return self.request(tag, message),
            WorkerInput::Outcome { call, outcome } => {
                self.call_over(call, &outcome);
                Event::CallCompleted { call, outcome }
            }
            WorkerInput::ConnectionLost => Event::ConnectionLost {
                association: AssociationIndex::FIRST,
            },
            WorkerInput::TaskEnded {
                task,
                invocation,
                status,
            } if self.leads(&task, invocation) => {
                self.with_desk(|desk, _| desk.processes_ended(&task, invocation, status));
                return;
            }
            WorkerInput::Desk(input) => {
                self.with_desk(|desk, at| desk.hear(input, at));
                return;
            }
            WorkerInput::RunEnded(end) => self.run_ended(*end),
            WorkerInput::TaskEnded {
                task,
                invocation,
                status,
            } => Event::TaskEnded {
                story: Box::new(story_of(invocation)),
                task,
                invocation,
                status,
            },
            WorkerInput::TaskStarted { task, invocation } => {
                let run = run_named(&task, invocation);
                let worker = self.process.id;
                self.log.push(Happening::StartHeard { worker, run });
                Event::TaskStarted { task, invocation }
            }
            WorkerInput::Shutdown => {
                let worker = self.process.id;
                self.log.push(Happening::WorkerShutsDown { worker });
                Event::Shutdown
            }
            WorkerInput::Drain => Event::Drain,
            WorkerInput::Wake => return,
        };
        self.process.core.handle(self.now, event);
    }

    fn request(&mut self, tag: CallTag, message: Call) {
        self.process.next_request += 1;
        let request = RequestId(self.process.next_request);
        let EventArrival {
            scheduler,
            meant,
            ask,
            event,
        } = EventArrival::new(request, message);
        let bound = self.process.own().bound_to();
        self.process.core.handle(self.now, event);
        let health = self.process.own().health();
        let asked = WorkerRequest {
            tag,
            scheduler,
            meant,
            ask,
            health,
            bound,
        };
        self.process.requests.insert(request, asked);
    }

    fn call_over(&mut self, call: CallId, outcome: &CallOutcome<CallReply>) {
        let (place, worker) = (self.place, self.process.id);
        match (self.process.calls.remove(&call), outcome) {
            (Some(Asking::Heartbeat), CallOutcome::Done(CallReply::Heartbeat(response))) => {
                self.log.push(Happening::HeartbeatAnswerHeard {
                    place,
                    worker,
                    scheduler: response.scheduler,
                    state: response.worker_state,
                    set: SetMark::from(&response.worker_set),
                });
            }
            (
                Some(Asking::Status {
                    scheduler,
                    run,
                    bits,
                }),
                CallOutcome::Done(CallReply::Acknowledged),
            ) => self.log.push(Happening::StatusSettled {
                place,
                worker,
                scheduler,
                run,
                bits,
            }),
            (Some(Asking::Work), CallOutcome::Done(CallReply::Work(reply))) => {
                self.log.push(Happening::WorkAnswerHeard {
                    worker,
                    seq: reply.seq,
                    verdicts: reply.verdicts.clone(),
                });
            }
            (_, _) => {}
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Suspend { .. } | Effect::Resume { .. } => {}
            Effect::Reply { request, reply } => self.reply(request, reply),
            Effect::Call { id, call, .. } => self.call(id, call),
            Effect::Spawn { run, .. } => {
                if let Some(fence) = run.task.fence {
                    let run = run_of(&run.task);
                    self.log.push(Happening::Fenced { run, fence });
                }
                if !run.task.gpus.is_empty() && self.process.core.fetches_work() {
                    let gpus = run.task.gpus.iter();
                    let gpus = gpus.map(|share| (share.device.to_string(), share.milli));
                    self.log.push(Happening::HasCards {
                        worker: self.process.id,
                        run: run_of(&run.task),
                        gpus: gpus.collect(),
                    });
                }
                let (timeout, deadline) = (run.options.timeout, run.options.deadline);
                if timeout.is_some() || deadline.is_some() {
                    self.log.push(Happening::Limited {
                        place: self.place,
                        worker: self.process.id,
                        run: run_of(&run.task),
                        timeout,
                        deadline,
                    });
                }
                self.spawn(run);
            }
            Effect::Kill {
                task,
                invocation,
                kill,
            } => {
                self.log.push(Happening::KillAsked {
                    place: self.place,
                    worker: self.process.id,
                    run: run_named(&task, invocation),
                    by: kill.by,
                });
                let run = (&task, invocation);
                let has_process = self.with_desk(|desk, at| desk.kill(run, kill.by, at));
                if has_process != Some(false) {
                    self.out.push(WorkerOutput::Kill {
                        task,
                        invocation,
                        kill: kill.request,
                    });
                }
            }
            Effect::NewInstance { .. } => {
                panic!("Invariant: the only association never begins anew")
            }
            Effect::Exit { reason } => self.out.push(WorkerOutput::Exit { reason }),
        }
    }

    fn reply(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        let Some(asked) = self.process.requests.remove(&request) else {
            panic!("Invariant: a request is answered once: {request:?}");
        };
        self.log.push(Happening::Served {
            place: self.place,
            worker: self.process.id,
            scheduler: asked.scheduler,
            meant: asked.meant,
            call: asked.tag,
            ask: asked.ask,
            health: asked.health,
            bound: asked.bound,
            refusal: reply.as_ref().err().map(|refusal| refusal.code),
        });
        if let Ok(Reply::RunningTasks(tasks)) = &reply {
            for task in tasks {
                self.log.push(Happening::Listed {
                    worker: self.process.id,
                    run: run_of(task),
                    ended: task.ended.is_some(),
                });
            }
        }
        let outcome = match reply {
            // Only schedulers call workers in the simulator.
            Ok(Reply::Empty) => CallOutcome::Done(SchedulerCallReply::Empty),
            Ok(Reply::Accepted { queued_at }) => {
                CallOutcome::Done(SchedulerCallReply::Accepted { queued_at })
            }
            Ok(Reply::RunningTasks(tasks)) => {
                CallOutcome::Done(SchedulerCallReply::RunningTasks(tasks))
            }
            Ok(Reply::Draining(_)) => CallOutcome::Done(SchedulerCallReply::Empty),
            Ok(Reply::WorkFetch(_) | Reply::WorkWishes(_)) => {
                panic!("Invariant: no operator calls a worker here")
            }
            Err(refusal) => refused(asked.ask, refusal),
        };
        self.out.push(WorkerOutput::Answer {
            tag: asked.tag,
            outcome,
        });
    }
}
