//! A scheduler process: the real core, the replies and calls that wait for the disk, and the subject of each request and call.

mod effects;
mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::ArtifactsAnswer;
use brasserie_common::collections::IdMap;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CallId, CallOutcome, JobName, Principal, RecordSeq, RefusalCode, RequestId, SchedulerId,
    ServiceAddress, Shard, StatusBits, TaskKey, Time, WallTime, WorkerId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, Call, CallReply, ConfigOrigin, Durable, Event, ExitReason, Options, OrderCall,
    OrderRequest, Query, Record, Rejection, Scheduler,
};
use brasserie_scheduler_engine::NodeTable;
use brasserie_worker_core::CallReply as WorkerCallReply;

use super::ToScheduler;
use crate::event_log::{
    Ask, CallTag, DirectoryId, Happening, HistoryOf, OutcomeKind, Run, SchedulerPlace,
};

/// An input of a scheduler process.
#[derive(Clone, Debug)]
pub enum SchedulerInput {
    Request {
        tag: CallTag,
        request: ToScheduler,
    },
    Outcome {
        call: CallId,
        outcome: CallOutcome<CallReply>,
    },
    Persisted(RecordSeq),
    StoreFailed,
    StoreRecovered,
    /// A configuration with its nodes.
    Loaded {
        config: Arc<Config>,
        nodes: Arc<NodeTable>,
    },
    /// A configuration whose nodes come later.
    LoadedConfig(Arc<Config>),
    /// The nodes of this configuration.
    LoadedNodes {
        config: Arc<Config>,
        nodes: Arc<NodeTable>,
    },
    /// Requests of operators.
    Kill(TaskKey),
    Forgive(JobName),
    Forget(HistoryOf),
    /// The operator declares this listed instance dead.
    /// An operator's order about a worker.
    Order {
        shard: Shard,
        order: OrderRequest,
    },
    ForgetWorker {
        shard: Shard,
        worker: WorkerId,
    },
    /// A timer of the core.
    Wake,
}

/// An output of a scheduler process.
#[derive(Clone, Debug)]
pub enum SchedulerOutput {
    /// Writes a record into the directory, not synced yet.
    Record { seq: RecordSeq, record: Record },
    /// Answers the sender of a request, as that worker will see the answer.
    Answer {
        tag: CallTag,
        outcome: CallOutcome<WorkerCallReply>,
    },
    Call {
        call: CallId,
        tag: CallTag,
        peer: ServiceAddress,
        message: Call,
    },
    /// Answers the report of a store.
    AnswerReport {
        tag: CallTag,
        answer: Result<Box<ArtifactsAnswer>, Rejection>,
    },
    /// Answers an operator.
    Told,
    /// The process ends after its earlier outputs.
    Exit { reason: ExitReason },
}

/// The worker instance that asked for a shard.
#[derive(Clone, Debug)]
struct ShardClaim {
    shard: Shard,
    worker: WorkerId,
    lock_port: i32,
}

/// The subject of an open request.
#[derive(Clone, Debug)]
enum RequestSubject {
    Heartbeat { tag: CallTag, held: ShardClaim },
    Status(StatusAsked),
    Work { tag: CallTag, worker: WorkerId },
    Artifacts { tag: CallTag },
    Operator,
    Deletion(HistoryOf),
    Declaration(WorkerId),
}

/// A status that a worker reported.
#[derive(Clone, Copy, Debug)]
struct StatusAsked {
    tag: CallTag,
    worker: WorkerId,
    run: Run,
    bits: StatusBits,
}

/// The subject of an open call.
#[derive(Clone, Copy, Debug)]
struct Asking {
    tag: CallTag,
    worker: WorkerId,
    ask: Ask,
}

/// A reply that waits for the disk.
#[derive(Clone, Debug)]
struct HeldBack {
    after: RecordSeq,
    request: RequestId,
    /// The subject of the request, in case it is refused before the record is durable.
    asked: RequestSubject,
    output: SchedulerOutput,
    happening: Option<Happening>,
}

/// One process.
#[derive(Clone, Debug)]
struct HostedScheduler {
    core: Scheduler,
    directory: DirectoryId,
    /// The last record that the disk has reported as synced to this process.
    persisted: RecordSeq,
    held: VecDeque<HeldBack>,
    next_request: u64,
    requests: IdMap<RequestId, RequestSubject>,
    calls: IdMap<CallId, Asking>,
    /// The instance last answered for each shard, to notice when another one claims the shard.
    incumbents: Vec<ShardClaim>,
    /// Workers that have requested work.
    asking: BTreeSet<WorkerId>,
    wait_ended: bool,
    /// Only a heartbeat of a worker that knew another scheduler starts a wait again.
    wait_may_have_changed: bool,
}

impl HostedScheduler {
    fn remember(&mut self, held: ShardClaim) {
        match self.incumbents.iter_mut().find(|h| h.shard == held.shard) {
            Some(known) => *known = held,
            None => self.incumbents.push(held),
        }
    }
}

/// The time until which a scheduler has answered workers, in the memory of its machine. The program keeps it in a file there.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    directory: DirectoryId,
    store: u32,
    pub scheduler: SchedulerId,
    pub previous: Option<SchedulerId>,
    pub until: Time,
    pub former: BTreeMap<WorkerId, Time>,
    version: u64,
}

impl Answered {
    /// How far ahead the bound is written. It is smaller than the program's, because some worlds have timeouts of a second.
    const STEP: Duration = Duration::from_secs(1);

    /// Returns until when each recorded instance may have been answered, if the bound is for the same store, as its last scheduler left it.
    fn of(
        &self,
        (directory, store, durable): (DirectoryId, u32, &Durable),
    ) -> BTreeMap<WorkerId, Time> {
        let last = durable.last_scheduler();
        let is_its_last = last.is_some() && (last == Some(self.scheduler) || last == self.previous);
        if (self.directory, self.store) != (directory, store) || !is_its_last {
            return BTreeMap::new();
        }
        let of = |worker: &WorkerId| self.former.get(worker).copied().unwrap_or(self.until);
        let recorded = durable.instances.keys();
        recorded.map(|worker| (*worker, of(worker))).collect()
    }
}

/// A place where scheduler processes run one after another.
#[derive(Clone, Debug)]
pub struct SchedulerHost {
    /// Survives processes, but not the end of the machine's uptime. `None`: no process has written it, or `keeps_answered` is false.
    answered: Option<Answered>,
    keeps_answered: bool,
    place: SchedulerPlace,
    process: Option<HostedScheduler>,
    /// The next tag. It continues over restarts, so a tag names one call of the whole run.
    next_tag: u32,
    /// The number of processes that have lived here.
    generation: u32,
    /// Runs that share a generation of fences, if fewer than in the program.
    runs_per_generation: Option<u32>,
}

/// The tags of one place: more than any run has calls.
const TAGS_A_PLACE: u32 = 1 << 27;

impl SchedulerHost {
    pub fn new(place: SchedulerPlace) -> Self {
        SchedulerHost {
            answered: None,
            keeps_answered: false,
            place,
            process: None,
            next_tag: u32::from(place.0) * TAGS_A_PLACE,
            generation: 0,
            runs_per_generation: None,
        }
    }

    /// Puts the host on a machine whose memory survives processes.
    pub fn with_memory(self) -> Self {
        SchedulerHost {
            keeps_answered: true,
            ..self
        }
    }

    /// Lets the schedulers raise their fences after this number of runs.
    pub fn with_runs_per_generation(self, runs_per_generation: Option<u32>) -> Self {
        SchedulerHost {
            runs_per_generation,
            ..self
        }
    }

    /// Clears the memory of the machine.
    pub fn forget_answered(&mut self) {
        self.answered = None;
    }

    pub(crate) fn answered(&self) -> Option<&Answered> {
        self.answered.as_ref()
    }

    pub fn place(&self) -> SchedulerPlace {
        self.place
    }

    pub fn core(&self) -> Option<&Scheduler> {
        self.process.as_ref().map(|process| &process.core)
    }

    /// Returns the directory of the living process.
    pub fn directory(&self) -> Option<DirectoryId> {
        self.process.as_ref().map(|process| process.directory)
    }

    /// Returns the generation, which changes with each start. Timers and outcomes of an earlier one are void.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the number of replies and calls that wait for the disk.
    pub fn held_back(&self) -> usize {
        self.process.as_ref().map_or(0, |p| p.held.len())
    }

    /// Returns the last record that the disk has reported as synced to the process.
    pub fn persisted(&self) -> RecordSeq {
        self.process
            .as_ref()
            .map_or(RecordSeq::default(), |p| p.persisted)
    }

    /// Returns the replies that wait for the disk, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (RecordSeq, &SchedulerOutput)> {
        let held = self.process.iter().flat_map(|p| &p.held);
        held.map(|held| (held.after, &held.output))
    }

    /// Returns the requests that the core has not answered, in order.
    pub fn requests(&self) -> Vec<(RequestId, CallTag)> {
        let mut open: Vec<(RequestId, CallTag)> = Vec::new();
        if let Some(process) = &self.process {
            for number in 1..=process.next_request {
                match process.requests.get(&RequestId(number)) {
                    Some(
                        RequestSubject::Heartbeat { tag, .. }
                        | RequestSubject::Work { tag, .. }
                        | RequestSubject::Artifacts { tag },
                    ) => {
                        open.push((RequestId(number), *tag));
                    }
                    Some(RequestSubject::Status(about)) => {
                        open.push((RequestId(number), about.tag))
                    }
                    Some(
                        RequestSubject::Operator
                        | RequestSubject::Deletion(_)
                        | RequestSubject::Declaration(_),
                    )
                    | None => {}
                }
            }
        }
        open
    }

    /// Returns the tag of every request whose answer has not left.
    pub fn open_tags(&self) -> Vec<CallTag> {
        let mut tags: Vec<CallTag> = self.requests().into_iter().map(|(_, tag)| tag).collect();
        for (_, output) in self.waiting() {
            if let SchedulerOutput::Answer { tag, .. } = output {
                tags.push(*tag);
            }
        }
        tags
    }

    /// Starts a process on the content of the directory and performs its first turn.
    pub fn start(
        &mut self,
        options: Options,
        (directory, store, durable): (DirectoryId, u32, Durable),
        (now, wall): (Time, WallTime),
        out: &mut Vec<SchedulerOutput>,
        log: &mut Vec<Happening>,
    ) {
        assert!(
            self.process.is_none(),
            "Invariant: one process at a time in a place"
        );
        self.generation += 1;
        let previous = durable.last_scheduler();
        let known = self.answered.take();
        let known = known.map(|known| known.of((directory, store, &durable)));
        let durable = durable.last_answered(known.unwrap_or_default());
        let core = Scheduler::new(options, durable, now, wall);
        let core = match self.runs_per_generation {
            Some(runs) => core.with_runs_per_generation(runs),
            None => core,
        };
        self.answered = self.keeps_answered.then(|| Answered {
            directory,
            store,
            scheduler: core.id(),
            previous,
            until: now,
            former: core.unanswered().collect(),
            version: core.unanswered_version(),
        });
        log.push(Happening::SchedulerStarted {
            place: self.place,
            directory,
            scheduler: core.id(),
        });
        self.process = Some(HostedScheduler {
            core,
            directory,
            persisted: RecordSeq::default(),
            held: VecDeque::new(),
            next_request: 0,
            requests: IdMap::default(),
            calls: IdMap::default(),
            incumbents: Vec::new(),
            asking: BTreeSet::new(),
            wait_ended: false,
            wait_may_have_changed: false,
        });
        self.turn(now, wall, &mut vec![SchedulerInput::Wake], out, log);
    }

    /// Ends the process, whatever it was doing.
    pub fn crash(&mut self) {
        self.process = None;
    }

    /// Returns when the core wants to be driven without input.
    pub fn due(&self) -> Option<Time> {
        self.process.as_ref()?.core.poll_timeout()
    }

    /// Performs one turn of the driver: handles the inputs and performs the core's effects. Does nothing in an empty place.
    pub fn turn(
        &mut self,
        now: Time,
        wall: WallTime,
        inputs: &mut Vec<SchedulerInput>,
        out: &mut Vec<SchedulerOutput>,
        log: &mut Vec<Happening>,
    ) {
        let Some(process) = &mut self.process else {
            inputs.clear();
            return;
        };
        let mut turn = SchedulerTurn {
            place: self.place,
            process,
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
        if let Some(answered) = &mut self.answered {
            let core = &turn.process.core;
            let version = core.unanswered_version();
            let stays = now < answered.until && version == answered.version;
            if !stays && !sabotage::on(Sabotage::BoundNotMoved) {
                answered.until = now + Answered::STEP;
                answered.former = core.unanswered().collect();
                answered.version = version;
            }
        }
        while let Some(effect) = turn.process.core.poll_effect() {
            turn.perform(effect);
        }
        turn.note_wait();
        turn.log
            .push(Happening::SchedulerTurn { place: self.place });
    }
}

struct SchedulerTurn<'a> {
    place: SchedulerPlace,
    process: &'a mut HostedScheduler,
    next_tag: &'a mut u32,
    now: Time,
    out: &'a mut Vec<SchedulerOutput>,
    log: &'a mut Vec<Happening>,
}

impl SchedulerTurn<'_> {
    fn hear(&mut self, input: SchedulerInput) {
        let event = match input {
            SchedulerInput::Request { tag, request } => self.request(tag, request),
            SchedulerInput::Outcome { call, outcome } => {
                return self.call_over(call, outcome);
            }
            SchedulerInput::Persisted(up_to) => {
                self.release(up_to);
                Event::Persisted { up_to }
            }
            SchedulerInput::StoreFailed => Event::StoreFailed {
                message: "the simulated disk fails".to_owned(),
            },
            SchedulerInput::StoreRecovered => Event::StoreRecovered,
            SchedulerInput::Loaded { config, nodes } => {
                let loaded = self.config_loaded(Arc::clone(&config));
                self.process.core.handle(self.now, loaded);
                self.nodes_loaded(config, nodes)
            }
            SchedulerInput::LoadedConfig(config) => self.config_loaded(config),
            SchedulerInput::LoadedNodes { config, nodes } => self.nodes_loaded(config, nodes),
            SchedulerInput::Kill(key) => self.operator_kills(key),
            SchedulerInput::Forgive(job) => Event::ChangeJob {
                request: self.expect(RequestSubject::Operator),
                from: Principal::Own,
                job,
                change: brasserie_scheduler_core::JobChange::Forgive,
            },
            SchedulerInput::Forget(of) => self.operator_forgets(of),
            SchedulerInput::Order { shard, order } => Event::OrderWorker(Box::new(OrderCall {
                request: self.expect(RequestSubject::Operator),
                from: Principal::Own,
                user: None,
                shard,
                order,
            })),
            SchedulerInput::ForgetWorker { shard, worker } => Event::ForgetWorker {
                request: self.expect(RequestSubject::Declaration(worker)),
                from: Principal::Own,
                shard,
                confirmed: vec![worker],
            },
            SchedulerInput::Wake => return,
        };
        self.process.core.handle(self.now, event);
    }

    fn config_loaded(&mut self, config: Arc<Config>) -> Event {
        self.log.push(Happening::ConfigLoaded {
            place: self.place,
            scheduler: self.process.core.id(),
        });
        Event::ConfigLoaded {
            config,
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        }
    }

    fn nodes_loaded(&mut self, config: Arc<Config>, nodes: Arc<NodeTable>) -> Event {
        self.log.push(Happening::NodesLoaded {
            place: self.place,
            scheduler: self.process.core.id(),
        });
        Event::NodesLoaded { nodes, config }
    }

    /// Removes an unanswered request and returns its subject. A request whose reply waits for the disk counts as unanswered: the next
    /// reply replaces the waiting one.
    fn take_open(&mut self, request: RequestId) -> Option<RequestSubject> {
        if let Some(asked) = self.process.requests.remove(&request) {
            return Some(asked);
        }
        let held = &mut self.process.held;
        let at = held.iter().position(|held| held.request == request)?;
        held.remove(at).map(|held| held.asked)
    }

    fn expect(&mut self, asked: RequestSubject) -> RequestId {
        self.process.next_request += 1;
        let request = RequestId(self.process.next_request);
        self.process.requests.insert(request, asked);
        request
    }

    fn call_over(&mut self, call: CallId, outcome: CallOutcome<CallReply>) {
        let asking = self.process.calls.remove(&call);
        let obeys_another = matches!(outcome, CallOutcome::Refused(RefusalCode::BoundTo(_), _));
        let asked = asking.filter(|_| obeys_another);
        let before = asked.and_then(|asking| self.begun_anew(asking.worker));
        if let Some(asking) = asking {
            self.note_outcome(asking, &outcome);
        }
        self.process
            .core
            .handle(self.now, Event::CallCompleted { call, outcome });
        if let Some(asking) = asked
            && self.begun_anew(asking.worker) != before
        {
            self.log.push(Happening::AssociationBegan {
                place: self.place,
                scheduler: self.process.core.id(),
                worker: asking.worker,
            });
        }
    }

    fn begun_anew(&self, worker: WorkerId) -> Option<u32> {
        let Answer::Status(status) = self.process.core.answer(self.now, &Query::Status) else {
            return None;
        };
        let held = status.workers.iter().find(|w| w.id == worker)?;
        Some(held.begun_anew)
    }

    fn note_outcome(&mut self, asking: Asking, outcome: &CallOutcome<CallReply>) {
        let outcome = match outcome {
            CallOutcome::Done(_) => OutcomeKind::Done,
            CallOutcome::Refused(code, _) => OutcomeKind::Refused(*code),
            CallOutcome::NotSent(_) => OutcomeKind::NotSent,
            CallOutcome::Unknown(_) => OutcomeKind::Unknown,
        };
        self.log.push(Happening::CallOver {
            place: self.place,
            scheduler: self.process.core.id(),
            worker: asking.worker,
            call: asking.tag,
            ask: asking.ask,
            outcome,
        });
    }

    /// Releases what waited for the disk before the core is notified, like the program does.
    fn release(&mut self, up_to: RecordSeq) {
        self.process.persisted = self.process.persisted.max(up_to);
        let held = std::mem::take(&mut self.process.held);
        for held in held {
            if held.after <= self.process.persisted {
                self.log.extend(held.happening);
                self.out.push(held.output);
            } else {
                self.process.held.push_back(held);
            }
        }
    }

    /// Answers this request once `after` is durable.
    fn emit(
        &mut self,
        (request, asked): (RequestId, RequestSubject),
        after: Option<RecordSeq>,
        output: SchedulerOutput,
        happening: Option<Happening>,
    ) {
        match after.filter(|&seq| seq > self.process.persisted) {
            Some(after) => self.process.held.push_back(HeldBack {
                after,
                request,
                asked,
                output,
                happening,
            }),
            None => {
                self.log.extend(happening);
                self.out.push(output);
            }
        }
    }
}
