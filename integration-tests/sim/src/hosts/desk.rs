//! The desk of a worker process, like `worker/src/artifacts`: it leads runs with artifacts from their acceptance to their end, with the real
//! machine that fetches inputs and a plain model of the store.

mod content;
mod reporter;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::artifact_report::ArtifactsReport;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{
    ArtifactHolder, ArtifactId, ArtifactNamespace, EndedBy, Fault, InvocationId, LeftOutput,
    ReportedStatus, Shard, TaskArtifacts, TaskKey, TaskOutput, Time, WorkerDescription, WorkerId,
};
use brasserie_worker_core::RunTask;
use brasserie_worker_gather::{
    ArtifactWait, ByteCount, GatherAction, GatherEvent, GatherLimits, HostName, InputsAction, Peer,
    PeerId, Priority, RackName, ReceivedCopy, RunInputs, TransferId, TransferOutcome, WaitingTask,
    WantedArtifact,
};

use crate::artifact_events::{ArtifactEvent, PlacedArtifact};
use crate::event_log::{CallTag, Happening, Run, WorkerPlace};
use crate::store::{ArtifactKey, CopyState, FoundCopy, NoSpace, Store};
use reporter::{Orders, Reporter, ToReport, Unwanted};

pub use content::output_of;
pub use reporter::{ReportOutcome, TWO_REPORTS};

/// The number of peers that are served at once: fewer than in the program, so that peers are often busy.
const MOST_SERVED: u32 = 2;
/// The number of times that damaged inputs of one run are fetched again.
const MOST_ROUNDS: u32 = 3;

/// A fact for the desk.
#[derive(Clone, Debug)]
pub enum DeskInput {
    /// The threads for files are ready to copy the inputs of the run, or to take its outputs.
    Prepare(WaitingTask),
    Take(WaitingTask),
    /// A transfer is over.
    Fetched(TransferId, FetchAnswer),
    /// A peer asks for artifacts.
    Asked {
        tag: CallTag,
        namespace: ArtifactNamespace,
        artifacts: Vec<ArtifactId>,
    },
    /// A transfer to a peer is over.
    Served,
    /// A peer has received a damaged copy.
    CheckAsked(ArtifactKey),
    Reported(ReportOutcome),
    /// A thread for files deletes unwanted copies.
    Delete(Unwanted),
}

/// The answer of a peer to a request for artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchAnswer {
    Busy,
    /// No answer came.
    Failed,
    /// The artifacts that the peer has.
    Copies(Vec<(ArtifactId, CopyState)>),
}

/// An order of the desk.
#[derive(Clone, Debug)]
pub enum DeskOutput {
    Prepare(WaitingTask),
    Take(WaitingTask),
    /// Start the process.
    Start(Arc<RunTask>),
    /// The core learns the end of the run.
    Ended(Box<RunEnd>),
    Fetch {
        transfer: TransferId,
        peer: PeerId,
        namespace: ArtifactNamespace,
        artifacts: Vec<ArtifactId>,
    },
    Answer {
        tag: CallTag,
        answer: FetchAnswer,
    },
    HaveChecked(PeerId, ArtifactKey),
    Report(Box<ArtifactsReport>),
    Delete(Unwanted),
}

/// The end of a run that the desk has led.
#[derive(Clone, Debug)]
pub struct RunEnd {
    pub task: TaskKey,
    pub invocation: InvocationId,
    pub status: ReportedStatus,
    pub outputs: Vec<LeftOutput>,
}

/// The surroundings of the desk at one moment.
pub struct DeskMoment<'a> {
    pub now: Time,
    pub store: &'a mut Store,
    /// `None`: there is no scheduler.
    pub tasks_may_live_until: Option<Time>,
    pub association: (Shard, WorkerId),
    pub place: WorkerPlace,
    pub log: &'a mut Vec<Happening>,
}

impl DeskMoment<'_> {
    fn note(&mut self, event: ArtifactEvent) {
        self.log.push(Happening::Artifacts(Box::new(event)));
    }

    fn keep(&mut self, key: &ArtifactKey, size: u64) -> Result<FoundCopy, NoSpace> {
        let is_new = self.store.find(key).is_none();
        let found = self.store.keep(key, size)?;
        if is_new {
            let place = self.place;
            let (generation, id) = (found.generation, key.1);
            self.note(ArtifactEvent::Stored {
                place,
                generation,
                id,
            });
        }
        Ok(found)
    }
}

/// A run on its way.
#[derive(Clone, Debug)]
pub struct LedRun {
    pub run: Arc<RunTask>,
    pub artifacts: Arc<TaskArtifacts>,
    pub stage: RunStage,
    /// The run is over as soon as its inputs are copied.
    killed: Option<EndedBy>,
    /// The number of times that copies turned out to be damaged.
    rounds: u32,
}

/// The stage of a run.
///
/// ```text
/// Waiting --all inputs are here--> Preparing --copies--> Running --last process dead--> Taking --> (over)
///    ^                                |
///    +------- a copy is damaged ------+
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum RunStage {
    Waiting,
    Preparing,
    Running,
    Taking(ReportedStatus),
}

/// The desk of one worker process.
#[derive(Clone, Debug)]
pub struct Desk {
    inputs: RunInputs,
    runs: BTreeMap<WaitingTask, LedRun>,
    last: u64,
    namespace: Option<ArtifactNamespace>,
    /// The numbers of bytes of the artifacts that runs wait for.
    sizes: BTreeMap<ArtifactId, u64>,
    /// Requests to peers under way.
    transfers: BTreeMap<TransferId, Vec<ArtifactId>>,
    reporter: Reporter,
    served: u32,
    out: Vec<DeskOutput>,
}

impl Desk {
    pub fn new(me: &WorkerDescription, store: &Store, now: Time) -> Self {
        let peer = Peer {
            id: PeerId(me.address.to_string().into()),
            host: HostName(Arc::clone(&me.machine_lock.hostname)),
            rack: None,
        };
        let rng = Rng::new(me.id.0.rand.cast_unsigned(), Purpose::PeerOrder);
        Desk {
            inputs: RunInputs::new(peer, GatherLimits::default(), rng),
            runs: BTreeMap::new(),
            last: 0,
            namespace: None,
            sizes: BTreeMap::new(),
            transfers: BTreeMap::new(),
            reporter: Reporter::new(store, now),
            served: 0,
            out: Vec::new(),
        }
    }

    /// Returns the runs that the desk leads.
    pub fn runs(&self) -> impl Iterator<Item = (WaitingTask, &LedRun)> {
        self.runs.iter().map(|(number, run)| (*number, run))
    }

    pub fn waits(&self) -> Vec<ArtifactWait> {
        self.inputs.waits()
    }

    /// Returns the artifacts for which a run still waits.
    pub fn missing_of(&self, run: WaitingTask) -> impl Iterator<Item = ArtifactId> {
        self.inputs.missing_of(run)
    }

    /// Returns whether a request to a peer for this artifact is under way.
    pub fn is_fetching(&self, id: ArtifactId) -> bool {
        self.transfers.values().any(|ids| ids.contains(&id))
    }

    pub fn has_transfers(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// Returns when the machine that fetches inputs wants to be driven without input.
    pub fn gather_due(&self) -> Option<Time> {
        self.inputs.next_wake()
    }

    /// Returns when the desk wants to be driven without input.
    pub fn due(&self) -> Option<Time> {
        self.gather_due()
            .into_iter()
            .chain(self.reporter.due())
            .min()
    }

    pub fn leads(&self, task: &TaskKey, invocation: InvocationId) -> bool {
        self.find(task, invocation).is_some()
    }

    fn find(&self, task: &TaskKey, invocation: InvocationId) -> Option<WaitingTask> {
        let is_it =
            |led: &LedRun| led.run.task.invocation == invocation && led.run.task.key() == *task;
        let found = self.runs.iter().find(|(_, led)| is_it(led));
        found.map(|(number, _)| *number)
    }

    /// Performs what is due, and returns the orders since the last call.
    pub fn poll(&mut self, at: &mut DeskMoment<'_>) -> Vec<DeskOutput> {
        if self.gather_due().is_some_and(|due| due <= at.now) {
            self.gather(GatherEvent::TimePassed, at);
        }
        let association = at.association.clone();
        if let Some(report) = self.reporter.poll(at.now, at.store, association) {
            self.out.push(DeskOutput::Report(report));
        }
        std::mem::take(&mut self.out)
    }

    pub fn hear(&mut self, input: DeskInput, at: &mut DeskMoment<'_>) {
        match input {
            DeskInput::Prepare(run) => self.prepare(run, at),
            DeskInput::Take(run) => self.take(run, at),
            DeskInput::Fetched(transfer, answer) => self.fetched(transfer, answer, at),
            DeskInput::Asked {
                tag,
                namespace,
                artifacts,
            } => {
                let answer = self.serve(&namespace, artifacts, at);
                self.out.push(DeskOutput::Answer { tag, answer });
            }
            DeskInput::Served => self.served = self.served.saturating_sub(1),
            DeskInput::CheckAsked(key) => {
                at.store.verify(&key);
            }
            DeskInput::Reported(outcome) => {
                let Orders {
                    holders,
                    lost,
                    unwanted,
                } = self.reporter.reported(outcome);
                if !holders.is_empty() {
                    let peers = |all: Vec<ArtifactHolder>| all.iter().map(peer).collect();
                    let holders = holders.into_iter().map(|(id, all)| (id, peers(all)));
                    let holders = holders.collect();
                    self.gather(GatherEvent::HoldersRefreshed { holders }, at);
                }
                let actions = self.inputs.lost(&lost, at.now);
                self.perform(actions, at);
                if let Some(unwanted) = unwanted {
                    self.out.push(DeskOutput::Delete(unwanted));
                }
            }
            DeskInput::Delete(unwanted) => self.delete(unwanted, at),
        }
    }

    /// Deletes copies that were there when the report was made, and reports them as gone.
    fn delete(&mut self, unwanted: Unwanted, at: &mut DeskMoment<'_>) {
        let Unwanted {
            namespace,
            copies,
            newest,
        } = unwanted;
        for copy in copies {
            if at.store.delete_up_to(&namespace, copy, newest) {
                self.reporter.tell(ToReport::Gone(copy));
                at.note(ArtifactEvent::Deleted {
                    place: at.place,
                    generation: copy.generation,
                    namespace: namespace.clone(),
                    id: copy.id,
                });
            }
        }
    }

    /// Begins a run that has no process yet.
    pub fn begin(&mut self, run: Arc<RunTask>, at: &mut DeskMoment<'_>) {
        let Some(artifacts) = run.options.artifacts.clone() else {
            return;
        };
        self.last += 1;
        let number = WaitingTask(self.last);
        at.note(ArtifactEvent::Waits {
            place: at.place,
            worker: run.worker,
            run: Run::of(&run.task),
            namespace: artifacts.namespace.clone(),
            inputs: artifacts.inputs.iter().map(|i| i.artifact.id).collect(),
        });
        let namespace = artifacts.namespace.clone();
        let leads_others = !self.runs.is_empty();
        let led = LedRun {
            run,
            artifacts: Arc::from(artifacts),
            stage: RunStage::Waiting,
            killed: None,
            rounds: 0,
        };
        self.runs.insert(number, led);
        if self.namespace.as_ref() != Some(&namespace) {
            if leads_others {
                return self.end_unstarted(number, Fault::System, at);
            }
            self.reporter.tell(ToReport::Namespace(namespace.clone()));
            self.namespace = Some(namespace);
        }
        self.want(number, at);
    }

    /// Fetches what the store lacks for a run.
    fn want(&mut self, run: WaitingTask, at: &mut DeskMoment<'_>) {
        let Some(led) = self.runs.get(&run) else {
            return;
        };
        let artifacts = &led.artifacts;
        let lacks = |id| at.store.find(&(artifacts.namespace.clone(), id)).is_none();
        let missing = artifacts.inputs.iter().filter(|i| lacks(i.artifact.id));
        let missing = missing.map(|input| WantedArtifact {
            artifact: input.artifact.id,
            size: Some(ByteCount(input.artifact.size)),
            holders: input
                .holders
                .iter()
                .map(|&at| peer(&artifacts.holders[at]))
                .collect(),
        });
        let missing: Vec<WantedArtifact> = missing.collect();
        let sizes = missing
            .iter()
            .filter_map(|wanted| Some((wanted.artifact, wanted.size?.0)));
        self.sizes.extend(sizes);
        let priority = Priority(i64::try_from(run.0).unwrap_or(i64::MAX));
        let actions = self.inputs.begin(run, missing, priority, at.now);
        self.perform(actions, at);
    }

    fn gather(&mut self, event: GatherEvent, at: &mut DeskMoment<'_>) {
        let actions = self.inputs.handle(event, at.now);
        self.perform(actions, at);
    }

    fn perform(&mut self, actions: Vec<InputsAction>, at: &mut DeskMoment<'_>) {
        for action in actions {
            match action {
                InputsAction::Gather(GatherAction::Fetch {
                    transfer,
                    peer,
                    artifacts,
                    ..
                }) => self.fetch(transfer, peer, artifacts),
                InputsAction::Gather(GatherAction::AskHolders { artifacts }) => {
                    self.reporter.tell(ToReport::Holders(artifacts));
                }
                InputsAction::Gather(GatherAction::ReportCorrupt { peer, artifact }) => {
                    if let Some(namespace) = self.namespace.clone() {
                        let key = (namespace, artifact);
                        self.out.push(DeskOutput::HaveChecked(peer, key));
                    }
                }
                InputsAction::Gather(
                    GatherAction::Arrived { .. } | GatherAction::Missing { .. },
                ) => {}
                InputsAction::Arrived(id) => self.reporter.tell(ToReport::Stored(id)),
                InputsAction::Ready(run) => {
                    if let Some(led) = self.runs.get_mut(&run)
                        && led.stage == RunStage::Waiting
                    {
                        led.stage = RunStage::Preparing;
                        self.out.push(DeskOutput::Prepare(run));
                    }
                }
                InputsAction::Failed { task, .. } => self.end_unstarted(task, Fault::System, at),
                InputsAction::TakenBack { task, .. } => {
                    self.end_unstarted_as(task, ReportedStatus::taken_back(), at);
                }
            }
        }
    }

    fn fetch(&mut self, transfer: TransferId, peer: PeerId, artifacts: Vec<ArtifactId>) {
        let Some(namespace) = self.namespace.clone() else {
            return;
        };
        self.transfers.insert(transfer, artifacts.clone());
        self.out.push(DeskOutput::Fetch {
            transfer,
            peer,
            namespace,
            artifacts,
        });
    }

    /// Keeps the sound copies of an answer. Runs whose input the own store cannot take end.
    fn fetched(&mut self, transfer: TransferId, answer: FetchAnswer, at: &mut DeskMoment<'_>) {
        if self.transfers.remove(&transfer).is_none() {
            return;
        }
        let mut refused = Vec::new();
        let outcome = match answer {
            FetchAnswer::Busy => TransferOutcome::Busy(BTreeMap::new()),
            FetchAnswer::Failed => TransferOutcome::ConnectionFailed(BTreeMap::new()),
            FetchAnswer::Copies(copies) => {
                let mut received = BTreeMap::new();
                for (id, state) in copies {
                    match self.receive(id, state, at) {
                        Ok(copy) => drop(received.insert(id, copy)),
                        Err(NoSpace) => refused.push(id),
                    }
                }
                TransferOutcome::Answered(received)
            }
        };
        for id in refused {
            let needs = |run: &WaitingTask| self.inputs.missing_of(*run).any(|other| other == id);
            let runs: Vec<WaitingTask> = self.runs.keys().copied().filter(needs).collect();
            for run in runs {
                self.end_unstarted(run, Fault::System, at);
            }
        }
        self.gather(GatherEvent::TransferEnded { transfer, outcome }, at);
        let waits: BTreeSet<ArtifactId> = self.waits().iter().map(|wait| wait.artifact).collect();
        self.sizes.retain(|id, _| waits.contains(id));
    }

    fn receive(
        &mut self,
        id: ArtifactId,
        state: CopyState,
        at: &mut DeskMoment<'_>,
    ) -> Result<ReceivedCopy, NoSpace> {
        let Some(namespace) = self.namespace.clone() else {
            return Ok(ReceivedCopy::Corrupt);
        };
        let key = (namespace, id);
        if at.store.find(&key).is_some() {
            return Ok(ReceivedCopy::Valid);
        }
        match state {
            CopyState::Damaged | CopyState::Missing => Ok(ReceivedCopy::Corrupt),
            CopyState::Sound => {
                let size = self.sizes.get(&id).copied().unwrap_or(1);
                at.keep(&key, size).map(|_| ReceivedCopy::Valid)
            }
        }
    }

    fn serve(
        &mut self,
        namespace: &ArtifactNamespace,
        artifacts: Vec<ArtifactId>,
        at: &mut DeskMoment<'_>,
    ) -> FetchAnswer {
        if self.served >= MOST_SERVED {
            return FetchAnswer::Busy;
        }
        self.served += 1;
        let mut open = |id| Some((id, at.store.open(&(namespace.clone(), id))?));
        let copies = artifacts.into_iter().filter_map(&mut open);
        FetchAnswer::Copies(copies.collect())
    }

    /// Copies the inputs of a run, verified, and starts it.
    fn prepare(&mut self, run: WaitingTask, at: &mut DeskMoment<'_>) {
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        if led.stage != RunStage::Preparing {
            return;
        }
        if let Some(by) = led.killed {
            return self.end_unstarted(run, by.fault(), at);
        }
        let namespace = led.artifacts.namespace.clone();
        let inputs = led.artifacts.inputs.iter();
        let staged = inputs.map(|input| {
            let key = (namespace.clone(), input.artifact.id);
            let found = at.store.find(&key).map(|found| found.copy.state);
            let state = found.filter(|_| at.store.verify(&key));
            (input.place.to_string(), input.artifact.id, state)
        });
        let copies: Vec<(String, ArtifactId, Option<CopyState>)> = staged.collect();
        if copies.iter().any(|(_, _, state)| state.is_none()) {
            led.stage = RunStage::Waiting;
            led.rounds += 1;
            return match led.rounds <= MOST_ROUNDS {
                true => self.want(run, at),
                false => self.end_unstarted(run, Fault::Worker, at),
            };
        }
        // A run of an association without a scheduler must not start.
        if at.tasks_may_live_until.is_none_or(|until| until < at.now) {
            return self.end_unstarted(run, Fault::Worker, at);
        }
        led.stage = RunStage::Running;
        let request = Arc::clone(&led.run);
        at.note(ArtifactEvent::Staged {
            place: at.place,
            worker: request.worker,
            run: Run::of(&request.task),
            copies,
        });
        self.out.push(DeskOutput::Start(request));
    }

    /// Returns whether the caller must signal the process of the run.
    pub fn kill(
        &mut self,
        (task, invocation): (&TaskKey, InvocationId),
        by: EndedBy,
        at: &mut DeskMoment<'_>,
    ) -> bool {
        let Some(run) = self.find(task, invocation) else {
            return true;
        };
        let Some(led) = self.runs.get_mut(&run) else {
            return true;
        };
        match led.stage {
            RunStage::Waiting => self.end_unstarted(run, by.fault(), at),
            RunStage::Preparing => drop(led.killed.get_or_insert(by)),
            RunStage::Running => return true,
            RunStage::Taking(_) => {}
        }
        false
    }

    fn end_unstarted(&mut self, run: WaitingTask, fault: Fault, at: &mut DeskMoment<'_>) {
        let status = ReportedStatus::by_fault(fault, "cannot start");
        self.end_unstarted_as(run, status, at);
    }

    fn end_unstarted_as(
        &mut self,
        run: WaitingTask,
        status: ReportedStatus,
        at: &mut DeskMoment<'_>,
    ) {
        let actions = self.inputs.cancel(run, at.now);
        self.perform(actions, at);
        if let Some(led) = self.runs.get(&run) {
            let (worker, run) = (led.run.worker, Run::of(&led.run.task));
            at.note(ArtifactEvent::NotStarted { worker, run });
        }
        self.finish(run, status, Vec::new());
    }

    /// Takes the outputs of a run whose last process is dead; only a run that is done leaves some.
    pub fn processes_ended(
        &mut self,
        task: &TaskKey,
        invocation: InvocationId,
        status: ReportedStatus,
    ) {
        let Some(run) = self.find(task, invocation) else {
            return;
        };
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        if led.stage != RunStage::Running {
            return;
        }
        if !status.is_done() || led.artifacts.outputs.is_empty() {
            return self.finish(run, status, Vec::new());
        }
        led.stage = RunStage::Taking(status);
        self.out.push(DeskOutput::Take(run));
    }

    fn take(&mut self, run: WaitingTask, at: &mut DeskMoment<'_>) {
        let Some(led) = self.runs.get(&run) else {
            return;
        };
        let RunStage::Taking(status) = led.stage.clone() else {
            return;
        };
        let (request, artifacts) = (Arc::clone(&led.run), Arc::clone(&led.artifacts));
        let mut outputs = Vec::new();
        for path in &artifacts.outputs {
            let artifact = output_of(&request.task, path);
            let key = (artifacts.namespace.clone(), artifact.id);
            let Ok(found) = at.keep(&key, artifact.size) else {
                let status = ReportedStatus::error_backoff("the store is full");
                return self.finish(run, status, Vec::new());
            };
            let path = path.clone();
            outputs.push(LeftOutput {
                output: TaskOutput { path, artifact },
                generation: found.generation,
            });
        }
        let mut actions = Vec::new();
        for output in &outputs {
            let id = output.output.artifact.id;
            self.reporter.tell(ToReport::Stored(id));
            actions.extend(self.inputs.left_here(id, at.now));
        }
        at.note(ArtifactEvent::Left {
            place: at.place,
            worker: request.worker,
            run: Run::of(&request.task),
            outputs: outputs.iter().map(|left| placed(&left.output)).collect(),
        });
        self.finish(run, status, outputs);
        self.perform(actions, at);
    }

    /// Reports the end of a run, and forgets it.
    fn finish(&mut self, run: WaitingTask, status: ReportedStatus, outputs: Vec<LeftOutput>) {
        let Some(led) = self.runs.remove(&run) else {
            return;
        };
        self.out.push(DeskOutput::Ended(Box::new(RunEnd {
            task: led.run.task.key(),
            invocation: led.run.task.invocation,
            status,
            outputs,
        })));
    }
}

/// Returns an output with its path as text.
pub fn placed(output: &TaskOutput) -> PlacedArtifact {
    (output.path.to_string(), output.artifact.id)
}

/// Returns a holder as the machine that fetches inputs knows it: by its address. No scheduler of the simulator has files.
fn peer(holder: &ArtifactHolder) -> Peer {
    let address = holder.address.as_ref().map(ToString::to_string);
    Peer {
        id: PeerId(address.unwrap_or_default().into()),
        host: HostName(Arc::clone(&holder.hostname)),
        rack: holder.rack.clone().map(RackName),
    }
}
