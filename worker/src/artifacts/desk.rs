//! The desk: the task that leads runs with artifacts from their acceptance to their end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use brasserie_common::artifact_report::{ArtifactCounters, ArtifactsReport, WaitingRun};
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{
    ArtifactId, EndedBy, Fault, KillRequest, LeftOutput, ReportedStatus, Story, TaskArtifacts,
    TaskInput, TaskKey, Time,
};
use brasserie_common_artifacts::{ArtifactStore, StopCheck};
use brasserie_common_runtime::Clock;
use brasserie_worker_core::{AssociationIndex, Event};
use brasserie_worker_gather::{
    GatherAction, GatherEvent, GatherLimits, InputsAction, InputsProgress, Peer, PeerId, Priority,
    RunInputs, TransferId, WaitingTask,
};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::background::Background;
use super::counters::Counters;
use super::folders::{RunFolder, RunFolders};
use super::handle::{Desk, DeskEvent, DeskEvents, Holders, ReplicaRequest};
use super::hands::Hands;
use super::reporter::{Reporter, ToReport};
use super::run::{self, StageFailure, TakeFailure};
use super::side::Side;
use super::standings::Standing;
use super::transfer::{Transferred, Transfers};
use crate::membership::Membership;
use crate::own_events::OwnEvents;
use crate::process::{RunKey, Runner, SpawnRequest, TaskEnd};

/// The number of folders that are deleted at once.
const REMOVERS: usize = 2;
/// The number of times that damaged inputs of one run are fetched again.
const MOST_ROUNDS: u32 = 3;
/// The most replicas of one answer that are fetched. The next answers repeat the others.
const MOST_REPLICAS: usize = 64;

/// The parts of the worker that the desk needs.
pub(crate) struct DeskParts {
    pub store: Arc<ArtifactStore>,
    pub folders: RunFolders,
    pub runner: Arc<dyn Runner>,
    pub own: OwnEvents,
    /// Runs with a timeout and without a process.
    pub timed: Arc<Mutex<HashSet<RunKey>>>,
    pub clock: Clock,
    pub background: Background,
    pub counters: Counters,
    /// This worker as others see it.
    pub me: Peer,
    pub membership: Membership,
    /// One entry for each association.
    pub standings: Vec<watch::Receiver<Standing>>,
    /// The seed of the order in which peers are asked.
    pub seed: u64,
}

/// The most inputs that one text names.
const MOST_NAMED: usize = 5;

/// The state of the desk.
struct DeskTask {
    parts: DeskParts,
    desk: Desk,
    events: UnboundedReceiver<DeskEvent>,
    /// One entry for each association.
    sides: Vec<Side>,
    runs: BTreeMap<WaitingTask, LedRun>,
    numbers: HashMap<RunKey, WaitingTask>,
    last: u64,
    transfers: Transfers,
    hands: Hands,
    removers: Arc<Semaphore>,
}

/// A run on its way.
struct LedRun {
    key: RunKey,
    of: AssociationIndex,
    artifacts: Arc<TaskArtifacts>,
    /// The number of different artifacts among its inputs.
    kinds: u32,
    stage: RunStage,
    /// The run is to be stopped when it starts.
    is_stopped: bool,
    /// The run is over as soon as its present stage is.
    killed: Option<EndedBy>,
    /// Stops the copying of its files.
    stop: CancellationToken,
    since: Time,
    /// The number of times that copies turned out to be damaged.
    rounds: u32,
}

/// The stage of a run.
///
/// ```text
/// Waiting --all inputs are here--> Preparing --folder and copies--> Ready --> Running --last process dead--> Taking --> (over)
///    ^                                |
///    +------- a copy is damaged ------+
/// ```
enum RunStage {
    /// Inputs are missing.
    Waiting(Box<SpawnRequest>),
    /// Its folder is being made, and its inputs are being copied.
    Preparing(Box<SpawnRequest>),
    /// It waits to be continued.
    Ready(Box<SpawnRequest>, RunFolder),
    /// The runner has it.
    Running(RunFolder),
    /// Its outputs are being taken.
    Taking(RunFolder),
    /// The stage is changing, within one function.
    Moving,
}

/// Starts the desk and the reports of its store.
pub(crate) fn start(desk: Desk, DeskEvents(events): DeskEvents, parts: DeskParts) {
    let background = parts.background.clone();
    let transfers = Transfers::new(
        Arc::clone(&parts.store),
        Arc::clone(&parts.me.host.0),
        background.clone(),
        parts.counters.clone(),
        &parts.membership,
    );
    let sides = (0..parts.standings.len()).map(|of| {
        let (report, changes) = unbounded_channel();
        let reporter = Reporter {
            of: AssociationIndex(of),
            store: Arc::clone(&parts.store),
            pool: transfers.pool(),
            standing: parts.standings[of].clone(),
            changes,
            own: report.clone(),
            rack: parts.me.rack.clone().map(|rack| rack.0),
            desk: desk.clone(),
            background: background.clone(),
            counters: parts.counters.clone(),
            membership: parts.membership.clone(),
        };
        background.spawn(reporter.run());
        let rng = Rng::new(parts.seed.wrapping_add(of as u64), Purpose::PeerOrder);
        let inputs = RunInputs::new(parts.me.clone(), GatherLimits::default(), rng);
        Side::new(inputs, report, parts.standings[of].clone())
    });
    let task = DeskTask {
        sides: sides.collect(),
        desk: desk.clone(),
        events,
        runs: BTreeMap::new(),
        numbers: HashMap::new(),
        last: 0,
        transfers,
        hands: Hands::new(background.clone()),
        removers: Arc::new(Semaphore::new(REMOVERS)),
        parts,
    };
    let folders = task.parts.folders.clone();
    background.spawn(folders.keep_clean(background.clone()));
    background.spawn(task.run());
}

impl DeskTask {
    async fn run(mut self) {
        loop {
            let wakes = self.sides.iter().filter_map(Side::next_wake);
            let due = wakes.min().unwrap_or(Time::NEVER);
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                () = self.parts.clock.sleep_until(due) => self.pass_time(),
            }
        }
    }

    fn handle(&mut self, event: DeskEvent) {
        match event {
            DeskEvent::Spawn(request) => self.begin(request),
            DeskEvent::Kill { key, request, by } => self.kill(&key, request, by),
            DeskEvent::Suspend(key) => self.suspend(&key),
            DeskEvent::Resume(key) => self.resume(&key),
            DeskEvent::ProcessesEnded(end) => self.processes_ended(*end),
            DeskEvent::Prepared { run, result } => self.prepared(run, result),
            DeskEvent::Taken { run, end, result } => self.taken(run, *end, result),
            DeskEvent::Transferred {
                of,
                transfer,
                result,
            } => {
                self.refuse(of, result.refused);
                let outcome = result.outcome;
                self.gather(of, GatherEvent::TransferEnded { transfer, outcome });
                self.forget_unwanted();
            }
            DeskEvent::Holders(Holders { of, holders, lost }) => {
                let side = &mut self.sides[of.0];
                let holders = holders.into_iter();
                let holders = holders.map(|(id, all)| (id, side.peers(all.iter())));
                let holders = holders.collect();
                self.gather(of, GatherEvent::HoldersRefreshed { holders });
                let now = self.parts.clock.now();
                let actions = self.sides[of.0].inputs.lost(&lost, now);
                self.perform(of, actions);
            }
            DeskEvent::Replicate(request) => self.replicate(request),
        }
    }

    fn pass_time(&mut self) {
        for of in (0..self.sides.len()).map(AssociationIndex) {
            self.gather(of, GatherEvent::TimePassed);
            let now = self.parts.clock.now();
            if self.sides[of.0].is_progress_due(now) {
                let waiting = self.waiting(of);
                self.sides[of.0].report_progress(waiting, now);
            }
        }
    }

    /// Returns the progress of the runs that wait for inputs.
    fn waiting(&self, of: AssociationIndex) -> Vec<WaitingRun> {
        let (side, received) = (&self.sides[of.0], self.transfers.received());
        let waiting = |progress: InputsProgress| {
            let run = progress.task;
            let led = self.runs.get(&run)?;
            let parts = received.iter();
            let parts = parts.filter(|(id, _)| side.inputs.is_missing(run, **id));
            let arrived: u64 = parts.map(|(_, bytes)| bytes).sum();
            let missing = u32::try_from(progress.missing).unwrap_or(u32::MAX);
            let RunKey {
                invocation,
                job,
                node,
            } = led.key.clone();
            Some(WaitingRun {
                task: TaskKey { job, node },
                invocation,
                artifacts: led.kinds,
                present: led.kinds.saturating_sub(missing),
                missing_bytes: progress.bytes.0.saturating_sub(arrived),
                peers: side.input_peers(&progress),
            })
        };
        let waiting = side.inputs.progress().filter_map(waiting);
        waiting.take(ArtifactsReport::MOST_WAITING).collect()
    }

    /// Fetches the copies that a scheduler wants here and the store lacks, and no others any more.
    fn replicate(&mut self, request: ReplicaRequest) {
        let ReplicaRequest {
            of,
            namespace,
            artifacts,
        } = request;
        let leads_any = self.runs.values().any(|led| led.of == of);
        let side = &mut self.sides[of.0];
        if side.namespace.as_ref() != Some(&namespace) {
            if leads_any {
                // The runs are of another cluster than the scheduler is now.
                return;
            }
            side.namespace = Some(namespace.clone());
        }
        let store = &self.parts.store;
        let artifacts = artifacts.into_iter().take(MOST_REPLICAS);
        let missing = artifacts.filter(|(one, _)| store.find(&namespace, one.id).is_none());
        let missing = missing.map(|(one, holders)| side.wanted(&one, holders.iter()));
        let missing = missing.collect();
        let actions = side.inputs.replicate(missing, self.parts.clock.now());
        self.perform(of, actions);
        self.forget_unwanted();
    }

    fn gather(&mut self, of: AssociationIndex, event: GatherEvent) {
        let now = self.parts.clock.now();
        let actions = self.sides[of.0].inputs.handle(event, now);
        self.perform(of, actions);
    }

    fn begin(&mut self, mut request: Box<SpawnRequest>) {
        let Some(artifacts) = request.options.artifacts.take() else {
            // Only runs with artifacts come here.
            return;
        };
        let shares_folder =
            request.options.working_directory.is_some() && !artifacts.outputs.is_empty();
        let of = request.association;
        self.last += 1;
        let run = WaitingTask(self.last);
        let inputs = artifacts.inputs.iter();
        let kinds: BTreeSet<ArtifactId> = inputs.map(|input| input.artifact.id).collect();
        let led = LedRun {
            key: request.key.clone(),
            of,
            kinds: u32::try_from(kinds.len()).unwrap_or(u32::MAX),
            artifacts: Arc::from(artifacts),
            stage: RunStage::Waiting(request),
            is_stopped: false,
            killed: None,
            stop: CancellationToken::new(),
            rounds: 0,
            since: self.parts.clock.now(),
        };
        let namespace = led.artifacts.namespace.clone();
        let leads_others = self.runs.values().any(|other| other.of == of);
        self.numbers.insert(led.key.clone(), run);
        self.runs.insert(run, led);
        if shares_folder {
            // Another run may leave its files there, so nobody could tell whose output a file is.
            let why = "its job has outputs and a `cwd`, and outputs are taken from a new folder of each run: remove the `cwd`";
            return self.end_by_fault(run, why, Fault::Task);
        }
        let side = &mut self.sides[of.0];
        if side.namespace.as_ref() != Some(&namespace) {
            if leads_others {
                return self.give_up(run, "other runs use artifacts of another cluster");
            }
            side.tell(ToReport::Namespace(namespace.clone()));
            side.namespace = Some(namespace);
            // Replicas of the former cluster are over. Its gather asks for nothing of the new one yet.
            drop(side.inputs.replicate(Vec::new(), self.parts.clock.now()));
        }
        self.want(run);
    }

    /// Fetches what the store lacks for a run.
    fn want(&mut self, run: WaitingTask) {
        let Some(led) = self.runs.get(&run) else {
            return;
        };
        let (artifacts, store) = (&led.artifacts, &self.parts.store);
        let lacks = |id| store.find(&artifacts.namespace, id).is_none();
        let (missing, present): (Vec<&TaskInput>, Vec<&TaskInput>) = artifacts
            .inputs
            .iter()
            .partition(|input| lacks(input.artifact.id));
        if led.rounds == 0 {
            let count = |all: &mut ArtifactCounters| all.inputs_present += present.len() as u64;
            self.parts.counters.change(count);
        }
        let (of, side) = (led.of, &mut self.sides[led.of.0]);
        let missing = missing.into_iter().map(|input| {
            let holders = input.holders.iter().map(|&at| &artifacts.holders[at]);
            side.wanted(&input.artifact, holders)
        });
        let missing = missing.collect();
        // Runs come in the order of their urgency; the first that waits is served first.
        let priority = Priority(run.0.cast_signed());
        let now = self.parts.clock.now();
        let actions = side.inputs.begin(run, missing, priority, now);
        side.watch_progress(now);
        self.perform(of, actions);
    }

    fn perform(&mut self, of: AssociationIndex, actions: Vec<InputsAction>) {
        for action in actions {
            match action {
                InputsAction::Gather(GatherAction::Fetch {
                    transfer,
                    peer,
                    artifacts,
                    ..
                }) => self.fetch(of, transfer, &peer, artifacts),
                InputsAction::Gather(GatherAction::AskHolders { artifacts }) => {
                    self.sides[of.0].tell(ToReport::Holders(artifacts));
                }
                InputsAction::Gather(GatherAction::ReportCorrupt { peer, artifact }) => {
                    tracing::warn!("{}'s copy of the artifact {artifact} is damaged", peer.0);
                    self.have_checked(of, &peer, artifact);
                }
                InputsAction::Gather(
                    GatherAction::Arrived { .. } | GatherAction::Missing { .. },
                ) => {}
                InputsAction::Arrived(id) => {
                    self.sides[of.0].tell(ToReport::Stored(id));
                }
                InputsAction::Ready(run) => self.prepare(run),
                InputsAction::Failed { task, missing } => self.lack(task, &missing),
                InputsAction::TakenBack { task, lost } => self.take_back(task, &lost),
            }
        }
    }
}

impl DeskTask {
    fn fetch(
        &self,
        of: AssociationIndex,
        transfer: TransferId,
        peer: &PeerId,
        artifacts: Vec<ArtifactId>,
    ) {
        let (transfers, desk) = (self.transfers.clone(), self.desk.clone());
        let side = &self.sides[of.0];
        let namespace = side.namespace.clone();
        let artifacts = side.sized(artifacts);
        let address = side.peer_addr(peer, &self.parts.membership);
        self.parts.background.spawn(async move {
            let result = match (namespace, address) {
                (Some(namespace), Some(address)) => {
                    transfers.fetch(address, namespace, artifacts).await
                }
                (None, _) | (_, None) => Transferred::failed(),
            };
            desk.tell(DeskEvent::Transferred {
                of,
                transfer,
                result,
            });
        });
    }

    /// Has a peer check its copy, which arrived damaged here.
    fn have_checked(&self, of: AssociationIndex, peer: &PeerId, artifact: ArtifactId) {
        let side = &self.sides[of.0];
        let (transfers, namespace) = (self.transfers.clone(), side.namespace.clone());
        let address = side.peer_addr(peer, &self.parts.membership);
        if let (Some(namespace), Some(address)) = (namespace, address) {
            self.parts.background.spawn(async move {
                transfers.have_checked(&address, &namespace, artifact).await;
            });
        }
    }

    /// Ends the runs that need an artifact which the own store could not take, and gives up a replica.
    fn refuse(&mut self, of: AssociationIndex, refused: Vec<(ArtifactId, String)>) {
        for (artifact, why) in refused {
            let now = self.parts.clock.now();
            if let Some(actions) = self.sides[of.0].inputs.refuse_replica(artifact, now) {
                self.sides[of.0].warn_of_replica(artifact, &why, now);
                self.perform(of, actions);
            }
            let inputs = &self.sides[of.0].inputs;
            let needs = |(run, led): (&WaitingTask, &LedRun)| {
                let waits = led.of == of && inputs.missing_of(*run).any(|id| id == artifact);
                waits.then_some(*run)
            };
            let runs: Vec<WaitingTask> = self.runs.iter().filter_map(needs).collect();
            for run in runs {
                self.give_up(run, &format!("cannot keep its input {artifact}: {why}"));
            }
        }
    }

    /// Ends a run that has waited too long for artifacts that no worker has sent.
    fn lack(&mut self, run: WaitingTask, missing: &[ArtifactId]) {
        let why = format!("no worker has sent its {}", self.names_of(run, missing));
        self.give_up(run, &why);
    }

    /// Gives a run back to the scheduler, which has its inputs made again.
    fn take_back(&mut self, run: WaitingTask, lost: &[ArtifactId]) {
        let why = format!("no worker has its {} any more", self.names_of(run, lost));
        let by = EndedBy::TakeBack;
        let status = ReportedStatus::taken_back();
        self.end_unstarted(run, status, (&why, by.fault(), Some(by)));
    }

    fn names_of(&self, run: WaitingTask, ids: &[ArtifactId]) -> String {
        let named = ids.iter().take(MOST_NAMED);
        let names: Vec<String> = named.map(|id| self.name_of(run, *id)).collect();
        let more = match ids.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("inputs {}{more}", names.join(", "))
    }

    /// Returns the place at which the run expects an artifact, for people.
    fn name_of(&self, run: WaitingTask, id: ArtifactId) -> String {
        let led = self.runs.get(&run);
        let inputs = led.map(|led| led.artifacts.inputs.as_slice());
        let named = inputs.unwrap_or_default().iter();
        let place = named
            .filter(|input| input.artifact.id == id)
            .map(|input| &input.place);
        place
            .map(ToString::to_string)
            .next()
            .unwrap_or_else(|| id.to_string())
    }

    /// Ends a run that cannot start because of other machines.
    fn give_up(&mut self, run: WaitingTask, why: &str) {
        self.end_by_fault(run, why, Fault::System);
    }

    /// Ends a run that cannot start because of this worker.
    fn fail(&mut self, run: WaitingTask, why: &str) {
        self.end_by_fault(run, why, Fault::Worker);
    }

    fn end_by_fault(&mut self, run: WaitingTask, why: &str, fault: Fault) {
        let status = ReportedStatus::by_fault(fault, &format!("cannot start: {why}"));
        self.end_unstarted(run, status, (why, fault, None));
    }

    fn end_unstarted(
        &mut self,
        run: WaitingTask,
        status: ReportedStatus,
        (why, fault, by): (&str, Fault, Option<EndedBy>),
    ) {
        let Some(led) = self.runs.get(&run) else {
            return;
        };
        let waited = self.parts.clock.now().since(led.since);
        let mut story = Story::not_started(why, fault, waited);
        story.ended_by = by;
        let of = led.of;
        let actions = self.sides[of.0].inputs.cancel(run, self.parts.clock.now());
        self.perform(of, actions);
        self.finish(run, status, story, Vec::new());
    }

    fn prepare(&mut self, run: WaitingTask) {
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        let request = match std::mem::replace(&mut led.stage, RunStage::Moving) {
            RunStage::Waiting(request) => request,
            other => {
                led.stage = other;
                return;
            }
        };
        led.stage = RunStage::Preparing(request.clone());
        let artifacts = Arc::clone(&led.artifacts);
        let (store, folders) = (Arc::clone(&self.parts.store), self.parts.folders.clone());
        let (hands, desk, stop) = (self.hands.clone(), self.desk.clone(), led.stop.clone());
        self.parts.background.spawn(async move {
            let token = stop.clone();
            let prepared = hands.work(&stop, move || {
                let inputs = (&artifacts.namespace, artifacts.inputs.as_slice());
                let is_stopped = || token.is_cancelled();
                run::prepare(&store, &folders, &request, inputs, StopCheck(&is_stopped))
            });
            let result = prepared.await.unwrap_or_else(|undone| Err(undone.into()));
            desk.tell(DeskEvent::Prepared { run, result });
        });
    }

    fn prepared(&mut self, run: WaitingTask, result: Result<RunFolder, StageFailure>) {
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        let RunStage::Preparing(request) = std::mem::replace(&mut led.stage, RunStage::Moving)
        else {
            return;
        };
        match result {
            Ok(folder) => {
                led.stage = RunStage::Ready(request, folder);
                match led.killed {
                    Some(by) => self.end_killed(run, by),
                    None if led.is_stopped => {}
                    None => self.start(run),
                }
            }
            Err(failure) => {
                led.stage = RunStage::Waiting(request);
                match (led.killed, failure) {
                    (Some(by), _) => self.end_killed(run, by),
                    (None, StageFailure::Lost(lost)) if led.rounds < MOST_ROUNDS => {
                        led.rounds += 1;
                        tracing::warn!(
                            "{} inputs of a run were damaged: fetching them again",
                            lost.len()
                        );
                        self.want(run);
                    }
                    (None, StageFailure::Lost(_)) => {
                        self.fail(run, "its inputs are damaged here again and again");
                    }
                    (None, StageFailure::Other(why)) => self.fail(run, &why),
                    // Only a kill stops the copying.
                    (None, StageFailure::Stopped) => self.fail(run, "it was stopped"),
                }
            }
        }
    }

    fn start(&mut self, run: WaitingTask) {
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        let RunStage::Ready(mut request, folder) =
            std::mem::replace(&mut led.stage, RunStage::Moving)
        else {
            return;
        };
        let lives = self.parts.standings[led.of.0].borrow().tasks_may_live_until;
        // A run of an association without a scheduler must not start.
        request.not_after = lives.unwrap_or(Time::ZERO);
        request.inputs = Some(folder.inputs.clone());
        request.options.working_directory = Some(folder.work.to_string_lossy().into_owned());
        led.stage = RunStage::Running(folder);
        if let Err(error) = self.parts.runner.spawn(*request) {
            let (status, story) = error.completion();
            self.finish(run, status, story, Vec::new());
        }
    }

    fn kill(&mut self, key: &RunKey, request: KillRequest, by: EndedBy) {
        let Some(run) = self.numbers.get(key).copied() else {
            return;
        };
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        match led.stage {
            RunStage::Waiting(_) | RunStage::Ready(..) => self.end_killed(run, by),
            RunStage::Preparing(_) | RunStage::Taking(_) => {
                led.killed.get_or_insert(by);
                led.stop.cancel();
            }
            // A run that has ended meanwhile needs no kill.
            RunStage::Running(_) => drop(self.parts.runner.kill(key, request, by)),
            RunStage::Moving => {}
        }
    }

    fn end_killed(&mut self, run: WaitingTask, by: EndedBy) {
        let fault = by.fault();
        let why = format!("ended by the worker as {by} while it waited for its inputs");
        let status = ReportedStatus::by_fault(fault, &why);
        self.end_unstarted(run, status, (&why, fault, Some(by)));
    }

    fn suspend(&mut self, key: &RunKey) {
        if let Some(led) = self.led(key) {
            led.is_stopped = true;
            if let RunStage::Running(_) = led.stage {
                self.parts.runner.suspend(key);
            }
        }
    }

    fn resume(&mut self, key: &RunKey) {
        let Some(led) = self.led(key) else {
            return;
        };
        led.is_stopped = false;
        match led.stage {
            RunStage::Ready(..) => {
                if let Some(run) = self.numbers.get(key).copied() {
                    self.start(run);
                }
            }
            RunStage::Running(_) => self.parts.runner.resume(key),
            RunStage::Waiting(_)
            | RunStage::Preparing(_)
            | RunStage::Taking(_)
            | RunStage::Moving => {}
        }
    }

    fn led(&mut self, key: &RunKey) -> Option<&mut LedRun> {
        self.runs.get_mut(self.numbers.get(key)?)
    }

    /// Takes the outputs of a run that is done; any other run leaves none.
    fn processes_ended(&mut self, end: TaskEnd) {
        let Some(run) = self.numbers.get(&*end.key).copied() else {
            return;
        };
        let Some(led) = self.runs.get_mut(&run) else {
            return;
        };
        let folder = match std::mem::replace(&mut led.stage, RunStage::Moving) {
            RunStage::Running(folder) => folder,
            other => {
                led.stage = other;
                return;
            }
        };
        led.stage = RunStage::Taking(folder.clone());
        if !end.status.is_done() || led.artifacts.outputs.is_empty() {
            return self.finish(run, end.status, end.story, Vec::new());
        }
        let (artifacts, store) = (Arc::clone(&led.artifacts), Arc::clone(&self.parts.store));
        let (hands, desk, stop) = (self.hands.clone(), self.desk.clone(), led.stop.clone());
        self.parts.background.spawn(async move {
            let token = stop.clone();
            let taken = hands.work(&stop, move || {
                let TaskArtifacts {
                    namespace, outputs, ..
                } = &*artifacts;
                let is_stopped = || token.is_cancelled();
                run::take(&store, &folder, namespace, outputs, StopCheck(&is_stopped))
            });
            let result = match taken.await {
                Ok(taken) => taken.map_err(TakeFailure::from),
                Err(undone) => Err(undone.into()),
            };
            let end = Box::new(end);
            desk.tell(DeskEvent::Taken { run, end, result });
        });
    }

    fn taken(
        &mut self,
        run: WaitingTask,
        mut end: TaskEnd,
        result: Result<Vec<LeftOutput>, TakeFailure>,
    ) {
        let Some(led) = self.runs.get(&run) else {
            return;
        };
        match result {
            Ok(outputs) => {
                let (of, now) = (led.of, self.parts.clock.now());
                let mut actions = Vec::new();
                for output in &outputs {
                    let id = output.output.artifact.id;
                    self.sides[of.0].tell(ToReport::Stored(id));
                    actions.extend(self.sides[of.0].inputs.left_here(id, now));
                }
                self.finish(run, end.status, end.story, outputs);
                self.perform(of, actions);
            }
            Err(error) => {
                let (fault, status) = match led.killed {
                    Some(by) => {
                        end.story.ended_by = Some(by);
                        let why =
                            format!("ended by the worker as {by} while its outputs were taken");
                        (by.fault(), ReportedStatus::by_fault(by.fault(), &why))
                    }
                    None => {
                        let disks = self.parts.store.usage();
                        let largest = disks.iter().map(|disk| disk.total).max();
                        (error.fault(), error.status(largest.unwrap_or(0)))
                    }
                };
                end.story.fault = fault;
                self.finish(run, status, end.story, Vec::new());
            }
        }
    }

    /// Deletes the folder of a run that is over, a few at a time.
    fn remove(&self, folder: RunFolder) {
        let (removers, background) = (Arc::clone(&self.removers), self.parts.background.clone());
        self.parts.background.spawn(async move {
            // The semaphore is never closed, so the permit always comes.
            let turn = removers.acquire_owned().await;
            background.block(move || {
                folder.remove();
                drop(turn);
            });
        });
    }

    /// Drops what broken transfers have left of artifacts that no run waits for.
    fn forget_unwanted(&mut self) {
        self.sides.iter_mut().for_each(Side::forget_unwanted);
        let sides = &self.sides;
        let wanted = || sides.iter().flat_map(Side::wanted_ids).collect();
        self.transfers.forget_unwanted(wanted);
    }

    /// Reports the end of a run, and forgets it.
    fn finish(
        &mut self,
        run: WaitingTask,
        status: ReportedStatus,
        story: Story,
        outputs: Vec<LeftOutput>,
    ) {
        let Some(led) = self.runs.remove(&run) else {
            return;
        };
        self.forget_unwanted();
        self.numbers.remove(&led.key);
        // The run may never have had a process.
        self.parts.timed.lock().remove(&led.key);
        self.desk.led.lock().remove(&led.key);
        match led.stage {
            RunStage::Ready(_, folder) | RunStage::Running(folder) | RunStage::Taking(folder) => {
                self.remove(folder);
            }
            RunStage::Waiting(_) | RunStage::Preparing(_) | RunStage::Moving => {}
        }
        let RunKey {
            invocation,
            job,
            node,
        } = led.key;
        let task = TaskKey { job, node };
        if !outputs.is_empty() {
            // The sends fail only if the worker has already ended.
            let run = (task.clone(), invocation);
            let _ = self.parts.own.send(Event::OutputsTaken { run, outputs });
        }
        let _ = self.parts.own.send(Event::TaskEnded {
            task,
            invocation,
            status,
            story: Box::new(story),
        });
    }
}
