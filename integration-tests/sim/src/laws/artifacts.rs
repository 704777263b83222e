//! Laws about artifacts: what a run finds when it starts, which copies may be deleted, and which must be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{
    ArtifactId, ArtifactNamespace, DiskGeneration, Health, InvocationId, RunningTask, Shard,
    StatusBits, TaskOutput, Time, WorkerId,
};
use brasserie_common_config::InputSource;
use brasserie_scheduler_core::{Answer, Query, Scheduler};
use brasserie_worker_gather::ArtifactWaitReason;

use super::{Law, Moment, Stated, Verdict, law};
use crate::artifact_events::{ArtifactEvent, PlacedArtifact};
use crate::event_log::{
    Ask, DirectoryId, Happening, Run, RunSent, SchedulerPlace, TaskId, WorkerPlace,
};
use crate::hosts::desk::{RunStage, TWO_REPORTS};
use crate::hosts::worker::WorkerHost;
use crate::store::{ArtifactKey, CopyState};
use crate::view::{Contract, Phase, World};
use crate::workload::TOP_NODE;

#[cfg(test)]
mod tests;

/// The scheduler and the directory of a world without a second scheduler.
const FIRST: SchedulerPlace = SchedulerPlace(0);
const DIRECTORY: DirectoryId = DirectoryId(0);

/// Returns the laws of this file.
pub fn all() -> [Box<dyn Stated>; 5] {
    [
        Box::new(InputsAreComplete::default()),
        Box::new(LastCopyStays::default()),
        Box::new(InputsAreSought::default()),
        Box::new(UnnamedDataGoes::default()),
        Box::new(LeavesNothingBehind::default()),
    ]
}

type RunAtWorker = (WorkerId, InvocationId);

law! {
    /// A run starts its process only with a sound copy of each input of its job, with the content that a completion of the producer recorded.
    ///
    /// Source: Artifacts. A task that reads something else, or nothing, computes a wrong result without notice.
    pub struct InputsAreComplete = "inputs_are_complete" {
        /// The content that completions have recorded for each output.
        recorded: BTreeMap<(TaskId, String), BTreeSet<ArtifactId>>,
        /// The content that the present state of the directory has.
        latest: BTreeMap<(TaskId, String), ArtifactId>,
        /// Inputs that were named in this turn.
        fresh: Vec<(Run, Vec<PlacedArtifact>)>,
        /// The inputs that `runTask` named.
        needed: BTreeMap<RunAtWorker, Vec<PlacedArtifact>>,
        staged: BTreeMap<RunAtWorker, BTreeMap<String, (ArtifactId, Option<CopyState>)>>,
        /// The runs that have left outputs which no completion has recorded.
        left: BTreeSet<InvocationId>,
        /// The runs of the completions of this turn.
        done: Vec<Run>,
    }
}

impl Law for InputsAreComplete {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if now.world.contract == Contract::Obedience {
            return Ok(());
        }
        match happening {
            Happening::Artifacts(event) => self.note(event),
            Happening::ProcessStarted { worker, run, .. } => return self.judge(*worker, *run),
            Happening::SchedulerStarted { directory, .. } => {
                self.latest = outputs_of(now.world, *directory).collect();
                self.fresh.clear();
            }
            Happening::EndWritten { run, bits, .. } if *bits == StatusBits::DONE => {
                self.done.push(*run);
            }
            Happening::SchedulerTurn { .. } => {
                self.are_recorded()?;
                return self.are_latest();
            }
            Happening::WorkerStopped { worker, .. } => {
                self.needed.retain(|(of, _), _| of != worker);
                self.staged.retain(|(of, _), _| of != worker);
            }
            _ => {
                if let Some(sent) = happening.run_sent() {
                    return self.names_all(now, sent);
                }
            }
        }
        Ok(())
    }
}

impl InputsAreComplete {
    fn note(&mut self, event: &ArtifactEvent) {
        match event {
            ArtifactEvent::Needed {
                worker,
                run,
                inputs,
                ..
            } => {
                let key = (*worker, run.invocation);
                self.needed.insert(key, inputs.clone());
                self.fresh.push((*run, inputs.clone()));
            }
            ArtifactEvent::Left { run, outputs, .. } if !outputs.is_empty() => {
                self.left.insert(run.invocation);
            }
            ArtifactEvent::OutputsWritten { run, outputs, .. } => {
                self.left.remove(&run.invocation);
                for (path, id) in outputs {
                    let output = (run.task, path.clone());
                    self.latest.insert(output.clone(), *id);
                    self.recorded.entry(output).or_default().insert(*id);
                }
            }
            ArtifactEvent::Staged {
                worker,
                run,
                copies,
                ..
            } => {
                let copies = copies.iter();
                let copies = copies.map(|(place, id, state)| (place.clone(), (*id, *state)));
                let key = (*worker, run.invocation);
                self.staged.insert(key, copies.collect());
            }
            _ => {}
        }
    }

    /// Checks that `runTask` names something for each input of the job that comes from one node. Of several nodes, none may be left.
    fn names_all(&self, now: &Moment<'_>, sent: RunSent) -> Verdict {
        let config = now.world.scheduler(sent.place).map(Scheduler::engine);
        let config = config.and_then(|engine| engine.config());
        let job = config.and_then(|config| config.job(&sent.run.task.job_name()));
        let needed = self.needed.get(&(sent.worker, sent.run.invocation));
        for input in job.into_iter().flat_map(|job| &job.inputs) {
            let source = match &input.source {
                InputSource::Job { job, nodes, .. } if !nodes.are_several() => job,
                InputSource::Job { .. } | InputSource::File { .. } => continue,
            };
            let mut named = needed.into_iter().flatten();
            let prefix = format!("{source}/");
            if !named.any(|(place, _)| place.starts_with(&prefix)) {
                return Err(format!("{} leaves without an input of {source}", sent.run));
            }
        }
        Ok(())
    }

    /// Checks that the completions of this turn have the outputs that their runs have left.
    fn are_recorded(&mut self) -> Verdict {
        for run in std::mem::take(&mut self.done) {
            if self.left.contains(&run.invocation) {
                return Err(format!(
                    "the completion of {run} lacks the outputs of the run"
                ));
            }
        }
        Ok(())
    }

    /// Checks that runs are sent with the content that the last completion of each producer recorded.
    fn are_latest(&mut self) -> Verdict {
        for (run, inputs) in std::mem::take(&mut self.fresh) {
            for (place, id) in inputs {
                let sources = sources_of(&place, run.task).into_iter();
                let mut latest = sources.filter_map(|from| self.latest.get(&from));
                if !latest.any(|latest| *latest == id) {
                    return Err(format!(
                        "{run} is sent with {id:?} at {place}, which its producer did not leave last"
                    ));
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, worker: WorkerId, run: Run) -> Verdict {
        let key = (worker, run.invocation);
        let needed = self.needed.remove(&key).unwrap_or_default();
        let staged = self.staged.remove(&key).unwrap_or_default();
        for (place, id) in needed {
            match staged.get(&place) {
                Some((of, Some(CopyState::Sound))) if *of == id => {}
                other => return Err(format!("{run} starts with {other:?} at {place}")),
            }
            let mut sources = sources_of(&place, run.task).into_iter();
            let is_recorded = |output| {
                let recorded = self.recorded.get(&output);
                recorded.is_some_and(|ids| ids.contains(&id))
            };
            if !sources.any(is_recorded) {
                return Err(format!(
                    "{run} starts with {id:?} at {place}, which no completion recorded"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the outputs that the durable state of a directory has.
fn outputs_of(
    world: &World<'_>,
    directory: DirectoryId,
) -> impl Iterator<Item = ((TaskId, String), ArtifactId)> {
    let durable = world.durable(directory).into_iter();
    durable.flat_map(|durable| {
        durable.outputs.iter().flat_map(|(key, (_, outputs))| {
            let task = TaskId::from_names(key.job.as_str(), key.node.as_str());
            let output = move |output: &TaskOutput| {
                let path = output.path.to_string();
                ((task, path), output.artifact.id)
            };
            outputs.iter().map(output)
        })
    })
}

/// Returns the outputs that a run may find at this place: below the name of the job, and of the node if several nodes have it. One node is
/// the run's own or the one above.
fn sources_of(place: &str, reader: TaskId) -> Vec<(TaskId, String)> {
    let parts: Vec<&str> = place.split('/').collect();
    let (job, nodes, path) = match parts[..] {
        [job, path] => (job, vec![reader.node_name(), TOP_NODE.to_owned()], path),
        [job, node, path] => (job, vec![node.to_owned()], path),
        _ => return Vec::new(),
    };
    let source = |node: String| (TaskId::from_names(job, &node), path.to_owned());
    nodes.into_iter().map(source).collect()
}

law! {
    /// No worker deletes the last sound copy of an artifact that the scheduler's durable state, an unacknowledged completion or a waiting run names.
    ///
    /// Source: Artifacts. What we delete ourselves, no producer has lost.
    pub struct LastCopyStays = "last_copy_stays" {
        /// The time until which answers of a scheduler with another directory may arrive.
        restored_until: Time,
    }
}

/// The time after which no answer of an earlier directory arrives.
const OLD_ANSWERS: Duration = Duration::from_secs(600);

impl Law for LastCopyStays {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::BackupRestored { .. } => self.restored_until = now.when + OLD_ANSWERS,
            Happening::Artifacts(event) => {
                if let ArtifactEvent::Deleted {
                    place,
                    namespace,
                    id,
                    ..
                } = &**event
                    && now.when >= self.restored_until
                    && now.world.contract == Contract::Whole
                {
                    return last_copy(now, *place, &(namespace.clone(), *id));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn last_copy(now: &Moment<'_>, place: WorkerPlace, key: &ArtifactKey) -> Verdict {
    if has_sound_copy(now.world, key) {
        return Ok(());
    }
    let broken = |why: String| {
        Err(format!(
            "{place:?} deletes the last {:?}, although {why}",
            key.1
        ))
    };
    if namespace(now.world).as_ref() == Some(&key.0)
        && let Some(durable) = now.world.durable(DIRECTORY)
    {
        for (task, (_, outputs)) in &durable.outputs {
            if outputs.iter().any(|output| output.artifact.id == key.1) {
                return broken(format!("{}/{} has recorded it", task.job, task.node));
            }
        }
    }
    for host in now.world.workers {
        if let Some(why) = needs(now, host, key) {
            return broken(why);
        }
    }
    Ok(())
}

/// Returns why a worker that the present scheduler knows still needs the artifact.
fn needs(now: &Moment<'_>, host: &WorkerHost, key: &ArtifactKey) -> Option<String> {
    let (core, desk) = (host.core()?, host.desk()?);
    let scheduler = now.world.scheduler(FIRST)?;
    if core.bound_to() != Some(scheduler.id()) || core.health() != Health::Healthy {
        return None;
    }
    let reads = desk.runs().find(|(number, led)| {
        let is_input = led.artifacts.inputs.iter().any(|i| i.artifact.id == key.1);
        let waits = match led.stage {
            RunStage::Waiting => desk.missing_of(*number).any(|id| id == key.1),
            RunStage::Preparing => true,
            RunStage::Running | RunStage::Taking(_) => false,
        };
        is_input && waits && led.artifacts.namespace == key.0
    });
    if let Some((_, led)) = reads {
        return Some(format!("{} waits for it", Run::of(&led.run.task)));
    }
    let tasks = core.running_tasks();
    let mut ended = tasks.iter().filter(|task| task.ended.is_some());
    let left = ended.find(|task| {
        let mut outputs = task.outputs.iter();
        outputs.any(|left| left.output.artifact.id == key.1)
    });
    left.map(|task| format!("the completion of {} names it", Run::of(task)))
}

/// Returns whether the store of a living worker has a sound copy.
pub fn has_sound_copy(world: &World<'_>, key: &ArtifactKey) -> bool {
    let living = world.workers.iter().filter(|host| host.core().is_some());
    let mut stores = living.filter_map(WorkerHost::store);
    stores.any(|store| {
        let found = store.find(key);
        found.is_some_and(|found| found.copy.state == CopyState::Sound)
    })
}

/// Returns the name of the artifacts of the directory.
pub fn namespace(world: &World<'_>) -> Option<ArtifactNamespace> {
    let cluster = world.durable(DIRECTORY)?.cluster?;
    ArtifactNamespace::try_from(cluster.to_string().as_str()).ok()
}

law! {
    /// Each artifact for which a run waits is in a transfer that is under way, or can be requested when one ends, or has a time at which its
    /// worker asks for it again.
    ///
    /// Source: Artifacts. Otherwise the run waits for ever.
    pub struct InputsAreSought = "inputs_are_sought" {}
}

impl Law for InputsAreSought {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let Happening::WorkerTurn { place } = *happening else {
            return Ok(());
        };
        let host = now.world.workers.get(usize::from(place.0));
        let Some(desk) = host.and_then(WorkerHost::desk) else {
            return Ok(());
        };
        let waits = desk.waits();
        for (number, led) in desk
            .runs()
            .filter(|(_, led)| led.stage == RunStage::Waiting)
        {
            let mut missing = desk.missing_of(number).peekable();
            if missing.peek().is_none() {
                return Err(format!("{} waits for nothing", Run::of(&led.run.task)));
            }
            if let Some(id) = missing.find(|id| waits.iter().all(|wait| wait.artifact != *id)) {
                return Err(format!(
                    "{} waits for {id:?} in vain",
                    Run::of(&led.run.task)
                ));
            }
        }
        for wait in waits {
            let is_sought = match wait.reason {
                ArtifactWaitReason::InFlight => desk.is_fetching(wait.artifact),
                ArtifactWaitReason::Queued => desk.has_transfers(),
                ArtifactWaitReason::HoldersBusy | ArtifactWaitReason::NoHolder => {
                    desk.gather_due().is_some()
                }
            };
            if !is_sought {
                return Err(format!("{place:?} does not seek {wait:?}"));
            }
        }
        Ok(())
    }
}

law! {
    /// Once faults have stopped and the scheduler knows all workers, a copy that no durable output, no completion and no run names is gone after
    /// the grace and two reports; after twice the grace if an old report has named it as new.
    ///
    /// Source: Artifacts. Otherwise disks fill up with data of which nobody knows.
    pub struct UnnamedDataGoes = "unnamed_data_goes" {
        since: BTreeMap<(WorkerPlace, DiskGeneration, ArtifactId), Time>,
    }
}

/// The grace of the scheduler before it wants an unnamed copy deleted.
const GRACE: Duration = Duration::from_secs(60);
/// Time for listings, for answers that get lost with a worker, and for the thread that deletes.
const SLACK: Duration = Duration::from_secs(30);

impl Law for UnnamedDataGoes {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::WorkerTurn { place } => self.judge(now, *place),
            Happening::SchedulerStarted { .. }
            | Happening::SchedulerPaused { .. }
            | Happening::MachineSuspended { .. } => {
                self.since.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl UnnamedDataGoes {
    fn judge(&mut self, now: &Moment<'_>, place: WorkerPlace) -> Verdict {
        if !is_calm(now) {
            self.since.clear();
            return Ok(());
        }
        if leaves_outputs(now.world, place) {
            self.since.retain(|(of, ..), _| *of != place);
            return Ok(());
        }
        let unnamed: BTreeSet<(DiskGeneration, ArtifactId)> =
            unnamed_copies(now.world, place).into_iter().collect();
        self.since.retain(|(of, generation, id), _| {
            *of != place || unnamed.contains(&(*generation, *id))
        });
        for (generation, id) in unnamed {
            let since = self.since.entry((place, generation, id));
            let since = *since.or_insert(now.when);
            // A report that was on its way for long names the copy as new, so that the grace begins once more.
            let limit = now.world.at_most(GRACE * 2 + TWO_REPORTS + SLACK);
            if now.when.since(since) > limit {
                return Err(format!("{place:?} keeps {id:?}, which nothing names"));
            }
        }
        Ok(())
    }
}

law! {
    /// A worker that an operator decommissions is drained only when it runs no task of the scheduler and no other worker lacks what it has: each
    /// artifact that the scheduler's durable state names has, or has had, another place, whose worker the scheduler holds for healthy.
    ///
    /// Source: Artifacts. Otherwise the operator loses work by the command that is to keep it.
    pub struct LeavesNothingBehind = "leaves_nothing_behind" {
        /// The places that have had a copy.
        places: BTreeMap<ArtifactId, BTreeSet<WorkerPlace>>,
        shards: BTreeMap<WorkerPlace, Shard>,
    }
}

impl Law for LeavesNothingBehind {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match happening {
            Happening::WorkerStarted { place, shard, .. } => {
                self.shards.insert(*place, shard.clone());
            }
            Happening::Artifacts(event) => self.note(event),
            Happening::CallSent {
                place: FIRST,
                worker,
                ask: Ask::Drain,
                ..
            } if now.world.contract == Contract::Whole => return self.judge(now, *worker),
            _ => {}
        }
        Ok(())
    }
}

impl LeavesNothingBehind {
    fn note(&mut self, event: &ArtifactEvent) {
        match event {
            ArtifactEvent::Stored { place, id, .. } => {
                self.places.entry(*id).or_default().insert(*place);
            }
            ArtifactEvent::Left { place, outputs, .. } => {
                for (_, id) in outputs {
                    self.places.entry(*id).or_default().insert(*place);
                }
            }
            _ => {}
        }
    }

    fn judge(&self, now: &Moment<'_>, worker: WorkerId) -> Verdict {
        let mut hosts = now.world.workers.iter();
        let host = hosts.find(|host| host.worker() == Some(worker));
        // Its process may have ended.
        let Some((host, core)) = host.and_then(|host| Some((host, host.core()?))) else {
            return Ok(());
        };
        let scheduler = now.world.scheduler(FIRST).map(Scheduler::id);
        if core.bound_to() == scheduler {
            let tasks = core.running_tasks();
            let mut live = tasks.iter().filter(|task| task.ended.is_none());
            if let Some(task) = live.find(|task| !task.is_healthcheck()) {
                return Err(format!("{worker} is drained while {} runs", Run::of(task)));
            }
        }
        let (Some(store), Some(own)) = (host.store(), namespace(now.world)) else {
            return Ok(());
        };
        let healthy = healthy_shards(now);
        let durable = now.world.durable(DIRECTORY).into_iter();
        let outputs = durable.flat_map(|durable| durable.outputs.values());
        for output in outputs.flat_map(|(_, outputs)| outputs) {
            let id = output.artifact.id;
            let places = self.places.get(&id).into_iter().flatten();
            let is_another = |place: &WorkerPlace| {
                let shard = self.shards.get(place);
                *place != host.place() && shard.is_some_and(|shard| healthy.contains(shard))
            };
            let has_another = places.into_iter().any(is_another);
            if !has_another && store.find(&(own.clone(), id)).is_some() {
                return Err(format!("{worker} is drained with the only {id:?}"));
            }
        }
        Ok(())
    }
}

/// Returns the shards of the workers that the scheduler holds for healthy.
fn healthy_shards(now: &Moment<'_>) -> BTreeSet<Shard> {
    let scheduler = now.world.scheduler(FIRST);
    let answer = scheduler.map(|scheduler| scheduler.answer(now.when, &Query::Status));
    let Some(Answer::Status(status)) = answer else {
        return BTreeSet::new();
    };
    let workers = status.workers.into_iter();
    let healthy = workers.filter(|worker| worker.health == Health::Healthy);
    healthy.map(|worker| worker.shard).collect()
}

/// Returns whether a worker has a run that leaves outputs, or that the scheduler may have adopted without its job, or a completion with
/// outputs. Until it is acknowledged, the scheduler does not know which of the new copies nobody needs.
fn leaves_outputs(world: &World<'_>, place: WorkerPlace) -> bool {
    let Some(host) = world.workers.get(usize::from(place.0)) else {
        return false;
    };
    let (Some(core), Some(desk)) = (host.core(), host.desk()) else {
        return false;
    };
    let config = world.scheduler(FIRST).map(Scheduler::engine);
    let config = config.and_then(|engine| engine.config());
    let has_job =
        |task: &RunningTask| config.is_some_and(|config| config.job(task.job.as_str()).is_some());
    let mut runs = desk.runs();
    let mut tasks = core.running_tasks().into_iter();
    runs.any(|(_, led)| !led.artifacts.outputs.is_empty())
        || tasks.any(|task| !task.outputs.is_empty() || !task.is_healthcheck() && !has_job(&task))
}

/// Returns whether no fault is left and the scheduler knows all workers.
fn is_calm(now: &Moment<'_>) -> bool {
    let Some(scheduler) = now.world.scheduler(FIRST) else {
        return false;
    };
    let knows = |host: &WorkerHost| {
        host.core().is_none_or(|core| {
            core.health() == Health::Healthy && core.bound_to() == Some(scheduler.id())
        })
    };
    matches!(now.world.phase, Phase::Quiet { .. })
        && now.world.contract == Contract::Whole
        && now.model.past_wait.contains(&scheduler.id())
        && now.world.workers.iter().all(knows)
}

/// Returns the copies of a living worker that no durable output, no unacknowledged completion and no run at any worker names.
pub fn unnamed_copies(world: &World<'_>, place: WorkerPlace) -> Vec<(DiskGeneration, ArtifactId)> {
    let host = world.workers.get(usize::from(place.0));
    let host = host.filter(|host| host.core().is_some());
    let Some(store) = host.and_then(WorkerHost::store) else {
        return Vec::new();
    };
    let Some(own) = namespace(world) else {
        return Vec::new();
    };
    let mut named: BTreeSet<ArtifactId> = BTreeSet::new();
    if let Some(durable) = world.durable(DIRECTORY) {
        let outputs = durable.outputs.values().flat_map(|(_, outputs)| outputs);
        named.extend(outputs.map(|output| output.artifact.id));
    }
    for host in world.workers {
        let tasks = host.core().map(|core| core.running_tasks());
        let outputs = tasks.iter().flatten().flat_map(|task| &task.outputs);
        named.extend(outputs.map(|left| left.output.artifact.id));
        let runs = host.desk().into_iter().flat_map(|desk| desk.runs());
        let inputs = runs.flat_map(|(_, led)| &led.artifacts.inputs);
        named.extend(inputs.map(|input| input.artifact.id));
    }
    let copies = store
        .copies()
        .filter(|((of, id), _)| *of == own && !named.contains(id));
    copies
        .map(|((_, id), found)| (found.generation, *id))
        .collect()
}
