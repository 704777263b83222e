//! A scheduler process: the real core, replies and calls that wait for the disk, and what each request and call was about.

mod effects;
mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::collections::IdMap;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CallId, CallOutcome, JobName, Principal, RecordSeq, RefusalCode, RequestId, SchedulerId,
    ServiceAddress, Shard, StatusBits, TaskKey, Time, WallTime, WorkerId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, CallReply, ConfigOrigin, Durable, Event, ExitReason, Message, Options, Query, Record,
    Scheduler,
};
use brasserie_scheduler_engine::NodeTable;
use brasserie_worker_core::CallReply as WorkerCallReply;

use super::ToScheduler;
use crate::event_log::{
    Ask, CallTag, DirectoryId, Happening, HistoryOf, OutcomeKind, Run, SchedulerPlace,
};

/// What reaches a scheduler process.
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
    /// Its nodes come later.
    LoadedConfig(Arc<Config>),
    /// Those of this configuration.
    LoadedNodes {
        config: Arc<Config>,
        nodes: Arc<NodeTable>,
    },
    /// An operator's wishes.
    Kill(TaskKey),
    Forgive(JobName),
    Forget(HistoryOf),
    /// The operator declares this instance dead, after a look at what is listed.
    ForgetWorker {
        shard: Shard,
        worker: WorkerId,
    },
    /// A timer of the core.
    Wake,
}

/// What a scheduler process does to the world.
#[derive(Clone, Debug)]
pub enum SchedulerOutput {
    /// Into the directory, not synced yet.
    Record { seq: RecordSeq, record: Record },
    /// To whoever sent the request, as that worker will see it.
    Answer {
        tag: CallTag,
        outcome: CallOutcome<WorkerCallReply>,
    },
    Call {
        call: CallId,
        tag: CallTag,
        peer: ServiceAddress,
        message: Message,
    },
    /// An answer to an operator.
    Told,
    /// The process ends; what it has done before this is done.
    Exit { reason: ExitReason },
}

/// Who asked for which shard.
#[derive(Clone, Debug)]
struct Held {
    shard: Shard,
    worker: WorkerId,
    lock_port: i32,
}

/// What an open request was about.
#[derive(Clone, Debug)]
enum Asked {
    Heartbeat { tag: CallTag, held: Held },
    Status(StatusAsked),
    Work { tag: CallTag, worker: WorkerId },
    Operator,
    Deletion(HistoryOf),
    Declaration(WorkerId),
}

/// A status that a worker told.
#[derive(Clone, Copy, Debug)]
struct StatusAsked {
    tag: CallTag,
    worker: WorkerId,
    run: Run,
    bits: StatusBits,
}

/// What an open call was about.
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
    /// What the request was about, should it be refused before the record is durable.
    asked: Asked,
    output: SchedulerOutput,
    happening: Option<Happening>,
}

/// One process.
#[derive(Clone, Debug)]
struct Process {
    core: Scheduler,
    directory: DirectoryId,
    /// Reported by the disk to this process.
    persisted: RecordSeq,
    held: VecDeque<HeldBack>,
    next_request: u64,
    requests: IdMap<RequestId, Asked>,
    calls: IdMap<CallId, Asking>,
    /// Who was last answered for each shard, to notice when another one wants it.
    incumbents: Vec<Held>,
    /// Who has asked for work.
    asking: BTreeSet<WorkerId>,
    wait_ended: bool,
    /// Only the word of a worker that knew another scheduler makes one wait again.
    wait_may_have_changed: bool,
}

impl Process {
    fn remember(&mut self, held: Held) {
        match self.incumbents.iter_mut().find(|h| h.shard == held.shard) {
            Some(known) => *known = held,
            None => self.incumbents.push(held),
        }
    }
}

/// Until when a scheduler has answered workers, in the memory of its machine: what the program keeps in a file there.
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
    /// How far ahead it is written; less than the program's, as some worlds have timeouts of a second.
    const STEP: Duration = Duration::from_secs(1);

    /// Until when each recorded instance may have been answered, if this is about the same store as its last scheduler left it.
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
    /// Outlives processes, but not the machine's uptime. `None`: no process has written it, or `keeps_answered` is false.
    answered: Option<Answered>,
    keeps_answered: bool,
    place: SchedulerPlace,
    process: Option<Process>,
    /// Goes on over restarts, so that a tag names one call of the whole run.
    next_tag: u32,
    /// How many processes have lived here.
    generation: u32,
    /// Runs that share a generation of fences, if fewer than in the program.
    runs_per_generation: Option<u32>,
}

/// Tags of one place: more calls than any run makes.
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

    /// The machine has lost its memory.
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

    /// Of the living process.
    pub fn directory(&self) -> Option<DirectoryId> {
        self.process.as_ref().map(|process| process.directory)
    }

    /// Changes with each start; timers and outcomes of an earlier one are void.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Replies and calls that wait for the disk.
    pub fn held_back(&self) -> usize {
        self.process.as_ref().map_or(0, |p| p.held.len())
    }

    /// How far the disk has told the process that records are synced.
    pub fn persisted(&self) -> RecordSeq {
        self.process
            .as_ref()
            .map_or(RecordSeq::default(), |p| p.persisted)
    }

    /// Replies that wait for the disk, in their order.
    pub fn waiting(&self) -> impl Iterator<Item = (RecordSeq, &SchedulerOutput)> {
        let held = self.process.iter().flat_map(|p| &p.held);
        held.map(|held| (held.after, &held.output))
    }

    /// Requests that the core has not answered, in their order.
    pub fn requests(&self) -> Vec<(RequestId, CallTag)> {
        let mut open: Vec<(RequestId, CallTag)> = Vec::new();
        if let Some(process) = &self.process {
            for number in 1..=process.next_request {
                match process.requests.get(&RequestId(number)) {
                    Some(Asked::Heartbeat { tag, .. } | Asked::Work { tag, .. }) => {
                        open.push((RequestId(number), *tag));
                    }
                    Some(Asked::Status(about)) => open.push((RequestId(number), about.tag)),
                    Some(Asked::Operator | Asked::Deletion(_) | Asked::Declaration(_)) | None => {}
                }
            }
        }
        open
    }

    /// Of every request whose answer has not left.
    pub fn open_tags(&self) -> Vec<CallTag> {
        let mut tags: Vec<CallTag> = self.requests().into_iter().map(|(_, tag)| tag).collect();
        for (_, output) in self.waiting() {
            if let SchedulerOutput::Answer { tag, .. } = output {
                tags.push(*tag);
            }
        }
        tags
    }

    /// Starts a process on what the directory holds; its first turn has been done.
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
        self.process = Some(Process {
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

    /// The process is gone, whatever it was doing.
    pub fn crash(&mut self) {
        self.process = None;
    }

    /// When the core wants to be driven without input.
    pub fn due(&self) -> Option<Time> {
        self.process.as_ref()?.core.poll_timeout()
    }

    /// One turn of the driver: takes the inputs, lets the core decide, performs. Nothing happens in an empty place.
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
        let mut turn = Turn {
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

struct Turn<'a> {
    place: SchedulerPlace,
    process: &'a mut Process,
    next_tag: &'a mut u32,
    now: Time,
    out: &'a mut Vec<SchedulerOutput>,
    log: &'a mut Vec<Happening>,
}

impl Turn<'_> {
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
                request: self.expect(Asked::Operator),
                from: Principal::Own,
                job,
                change: brasserie_scheduler_core::JobChange::Forgive,
            },
            SchedulerInput::Forget(of) => self.operator_forgets(of),
            SchedulerInput::ForgetWorker { shard, worker } => Event::ForgetWorker {
                request: self.expect(Asked::Declaration(worker)),
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
    fn take_open(&mut self, request: RequestId) -> Option<Asked> {
        if let Some(asked) = self.process.requests.remove(&request) {
            return Some(asked);
        }
        let held = &mut self.process.held;
        let at = held.iter().position(|held| held.request == request)?;
        held.remove(at).map(|held| held.asked)
    }

    fn expect(&mut self, asked: Asked) -> RequestId {
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

    /// Lets go what waited for the disk, before the core hears of it, as the program does.
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

    /// The answer to this request leaves once `after` is durable.
    fn emit(
        &mut self,
        (request, asked): (RequestId, Asked),
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
