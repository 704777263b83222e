//! The inputs of runs: the artifacts that a task needs, whether it can have them, and what is done about lost ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::file_name::file_name;
use brasserie_common::text::readable_bytes;
use brasserie_common::{
    Artifact, ArtifactHolder, ArtifactId, Health, InvocationId, JobId, JobName, MachinePortLock,
    NodeId, NodeName, OutputPath, ReportedStatus, Shard, TaskArtifacts, TaskInput, TaskKey,
    TaskOutput, Time,
};
use brasserie_common_config::{InputNodes, InputSource, JobConfig, JobInput, MAX_TASK_ARTIFACTS};
use brasserie_scheduler_artifacts::{ArtifactAvailability, Liveness, Replicas};
use brasserie_scheduler_engine::{Engine, Placement, Reason, Task, TaskState};

use super::{Scheduler, View};
use crate::artifacts::{Artifacts, InputChecks};
use crate::files::{JobOrigin, LackingFile};
use crate::jobs::Jobs;
use crate::pool::Pool;
use crate::pool::remote::Remote;
use crate::slots::CopyProspect;

/// The most workers that an explanation names as holders of an input.
const MOST_NAMED_HOLDERS: usize = 3;

/// An artifact with its place among the inputs of a run.
#[derive(Clone, Debug)]
struct Needed {
    place: OutputPath,
    artifact: Artifact,
    /// The task that made it; `None`: the scheduler has it as a file.
    producer: Option<TaskKey>,
    /// The number of workers with a copy for which the task waits.
    copies: Replicas,
}

/// The most bytes of the paths of a task's inputs below the folder of inputs. With at most 128 bytes for the rest of each artifact, the call
/// that starts the task stays below the frame limit of 16 MiB.
const MAX_TASK_PATHS: usize = 8 << 20;

/// The wait of a task that lacks an input, if it has few: their producers take seconds at least.
pub(super) const LACKING_INPUT_RETRY: Duration = Duration::from_secs(1);
/// The time that one try to start a task takes for each of its inputs, which are looked up some six times: measured in a test build with 63,000
/// inputs.
pub(super) const TRY_FOR_EACH: Duration = Duration::from_micros(2);
/// The part of a longer wait for each input. So the tries of a task with many inputs take no more than a hundredth of the scheduler's time.
const RETRY_FOR_EACH: Duration = TRY_FOR_EACH.saturating_mul(100);
/// The wait of a task that would have too many inputs: only another configuration or other outputs help.
const EXCESSIVE_INPUTS_RETRY: Duration = Duration::from_secs(60);

/// The reason why a task cannot have its inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LackingInput {
    #[error(transparent)]
    File(#[from] LackingFile),
    #[error(
        "no worker has reported yet that it has the output of {}, and some have still to report",
        named(.0)
    )]
    Unknown(TaskKey),
    #[error("{}", copies_text(*.missing, .key))]
    Copies {
        key: TaskKey,
        artifact: Artifact,
        wanted: Replicas,
        missing: usize,
    },
    /// The workers with copies of an input are not healthy, so they may never send it.
    #[error(
        "its input `{place}` is only on {}, which {} not healthy",
        shard_names(.holders), if .holders.len() == 1 { "is" } else { "are" }
    )]
    Unreachable {
        key: TaskKey,
        place: OutputPath,
        holders: Vec<Shard>,
    },
    /// The tasks that made the lost outputs. They can run again.
    #[error("{}", lost_text(.0, .1))]
    Lost(BTreeSet<Task>, TaskKey),
    #[error("the output of {} is lost, and the task cannot run again: {why}", named(.key))]
    NotRunnable { key: TaskKey, why: &'static str },
    #[error(
        "the output of {} is lost, and it was lost again after {runs} more runs; after `brasserie job delete-history {} --node {}` \
         the task runs once more",
        named(.key), .key.job, .key.node
    )]
    GivenUp { key: TaskKey, runs: u32 },
    #[error(
        "its inputs are {0} artifacts, and a task may have at most {MAX_TASK_ARTIFACTS}: name a `path` or fewer nodes in its inputs, or \
         let the jobs that leave them put their files into folders, each of which is one artifact"
    )]
    TooMany(usize),
    #[error(
        "the paths of its inputs have {0} bytes, and those of a task may have at most {MAX_TASK_PATHS}: name a `path`, fewer nodes or a \
         shorter `as` in its inputs, or let the jobs that leave them put their files into folders, each of which is one artifact"
    )]
    LongPaths(usize),
}

impl LackingInput {
    /// Returns the part of the reason that tasks on other nodes share.
    fn cause(&self) -> String {
        match self {
            LackingInput::NotRunnable { key, why } => format!("{}: {why}", key.job),
            LackingInput::File(_)
            | LackingInput::Unknown(_)
            | LackingInput::Copies { .. }
            | LackingInput::Unreachable { .. }
            | LackingInput::Lost(..)
            | LackingInput::GivenUp { .. } => self.to_string(),
            // The numbers differ from node to node.
            LackingInput::TooMany(_) => "too many artifacts".to_owned(),
            LackingInput::LongPaths(_) => "too long paths".to_owned(),
        }
    }

    /// Returns whether the task would have too many inputs.
    fn is_excess(&self) -> bool {
        matches!(self, LackingInput::TooMany(_) | LackingInput::LongPaths(_))
    }

    /// Returns whether no waiting helps.
    fn is_final(&self) -> bool {
        matches!(self, LackingInput::GivenUp { .. })
    }
}

/// Returns the place of an input, or the folder of its places.
fn base_of(input: &JobInput) -> String {
    let default = || match &input.source {
        InputSource::Job { job, .. } => file_name(job.as_str()),
        InputSource::File { path } => path.to_string(),
    };
    let place = input.place();
    place.map_or_else(default, |place| place.as_str().to_owned())
}

fn named(key: &TaskKey) -> String {
    format!("the task of `{}` on `{}`", key.job, key.node)
}

fn copies_text(missing: usize, key: &TaskKey) -> String {
    let copies = match missing {
        1 => "1 more copy".to_owned(),
        missing => format!("{missing} more copies"),
    };
    format!("it waits for {copies} of the output of {}", named(key))
}

fn shard_names(shards: &[Shard]) -> String {
    let names: Vec<String> = shards.iter().map(|shard| format!("`{shard}`")).collect();
    names.join(" and ")
}

fn lost_text(tasks: &BTreeSet<Task>, first: &TaskKey) -> String {
    let first = named(first);
    match tasks.len() {
        0 | 1 => format!(
            "{first} has left no such output, or no worker has it any more, so it runs again"
        ),
        tasks => format!(
            "{tasks} tasks have left no such outputs, or no worker has them any more, so these tasks run again, as {first}"
        ),
    }
}

/// The result of the check of a run's inputs.
pub(super) enum InputsCheck {
    Present,
    Lacking {
        /// The wait until the next try.
        again: Duration,
        /// The cause and the reason, for the operator if waiting alone does not help.
        why: Option<(String, String)>,
    },
    /// The task fails with this status.
    Final(ReportedStatus),
}

impl Scheduler {
    /// Checks that a run can have its inputs, and keeps them for it. Lets tasks run again whose outputs are lost.
    pub(super) fn check_inputs(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        shard: &Shard,
    ) -> InputsCheck {
        match self.view().inputs().available(task) {
            Ok(needed) => {
                if !needed.is_empty() {
                    let ids = needed.iter().map(|needed| needed.artifact.id);
                    self.artifacts.pin(now, invocation, ids);
                    if let Some(remote) = self.pool.get(shard) {
                        let artifacts = needed.iter().map(|needed| needed.artifact);
                        let lock = &remote.description().machine_lock;
                        self.artifacts.count_start(lock, artifacts);
                    }
                }
                InputsCheck::Present
            }
            Err(lacking) if lacking.is_final() => {
                InputsCheck::Final(ReportedStatus::failed().with_reason(&lacking.to_string()))
            }
            Err(lacking) => {
                let why = (lacking.cause(), lacking.to_string());
                let again = match lacking.is_excess() {
                    true => EXCESSIVE_INPUTS_RETRY,
                    false => self.view().inputs().retry_of(task),
                };
                let why = match lacking {
                    LackingInput::Lost(tasks, _) => {
                        self.lost_producers.extend(tasks);
                        None
                    }
                    LackingInput::Unknown(_)
                    | LackingInput::Copies { .. }
                    | LackingInput::Unreachable { .. }
                    // The file is there in a moment.
                    | LackingInput::File(LackingFile::Unread { .. }) => None,
                    LackingInput::File(_)
                    | LackingInput::NotRunnable { .. }
                    | LackingInput::GivenUp { .. }
                    | LackingInput::TooMany(_)
                    | LackingInput::LongPaths(_) => Some(why),
                };
                InputsCheck::Lacking { again, why }
            }
        }
    }

    /// Keeps the inputs of a run that a worker lists. A file that is not known yet is kept when it is.
    pub(super) fn pin_inputs(&mut self, now: Time, task: Task, invocation: InvocationId) {
        let (ids, lacks_some) = self.view().inputs().known(task);
        self.artifacts.pin(now, invocation, ids);
        if lacks_some {
            self.artifacts.pin_later(invocation, task);
        }
    }

    /// Keeps the inputs of the runs that had some unknown ones.
    pub(super) fn pin_more_inputs(&mut self, now: Time) {
        for (invocation, task) in self.artifacts.take_pins_for_later() {
            self.pin_inputs(now, task, invocation);
        }
    }

    /// Lets the tasks run again of which the last turn has missed outputs. Called once a turn.
    pub(super) fn make_lost_again(&mut self, now: Time) {
        let mut lost: BTreeMap<JobId, Vec<NodeId>> = BTreeMap::new();
        for task in std::mem::take(&mut self.lost_producers) {
            lost.entry(task.job).or_default().push(task.node);
        }
        self.make_again(now, lost);
    }

    /// Notes that a run has succeeded that read the outputs of other tasks.
    pub(super) fn note_consumed(&mut self, now: Time, task: Task) {
        let Some(job) = self.engine.job_config(task.job) else {
            return;
        };
        let mut read = Vec::new();
        for input in &job.inputs {
            if let InputSource::Job { job, nodes, .. } = &input.source {
                let nodes = match nodes {
                    InputNodes::All => None,
                    InputNodes::Same | InputNodes::Parent | InputNodes::Children => {
                        Some(self.view().inputs().nodes_of_input(task, job, *nodes))
                    }
                };
                read.push((job.clone(), nodes));
            }
        }
        let now = self.clocks(now);
        for (job, nodes) in read {
            self.artifacts.consumed(&job, nodes, now);
        }
    }
}

impl View<'_> {
    /// Returns whether a task waits and lacks an input.
    pub(super) fn lacks_an_input(&self, task: &TaskKey) -> bool {
        let job = self.engine.find_job(task.job.as_str());
        let node = self.engine.find_node(task.node.as_str());
        let task = job.zip(node).map(|(job, node)| Task { job, node });
        task.is_some_and(|task| {
            let waits = self.engine.task_state(task).is_waiting();
            waits && self.inputs().available(task).is_err()
        })
    }

    /// Returns the tasks that can make artifacts again of which no copy is left.
    pub(super) fn makers_of_lost(&self, ids: &[ArtifactId]) -> Vec<Task> {
        let ids = ids.iter();
        let lost = ids.filter(|id| self.artifacts.availability(**id) == ArtifactAvailability::Lost);
        let makers = lost.flat_map(|id| self.artifacts.registry().makers_of_lost(*id));
        let inputs = self.inputs();
        makers
            .filter_map(|key| inputs.runnable_producer(key).ok())
            .collect()
    }

    /// Returns what a run of the task needs and leaves; `None` if nothing.
    pub(super) fn artifacts_for(&self, task: Task, shard: &Shard) -> Option<TaskArtifacts> {
        let job = self.engine.job_config(task.job)?;
        if job.inputs.is_empty() && job.outputs.is_empty() {
            return None;
        }
        let outputs = job.outputs.iter().map(|output| output.path.clone());
        // The inputs were there when the run was placed, in this turn.
        let (needed, _) = self.inputs().needed(task, job).unwrap_or_default();
        let asker = self.pool.get(shard);
        let asker = asker.map(|remote| remote.description().machine_lock.clone());
        let asker = asker.unwrap_or_default();
        let mut places: BTreeMap<ArtifactHolder, usize> = BTreeMap::new();
        let mut inputs = Vec::with_capacity(needed.len());
        for Needed {
            place, artifact, ..
        } in needed
        {
            let holders = self.artifacts.holders(artifact.id, &asker).into_iter();
            let holders = holders.map(|holder| {
                let next = places.len();
                *places.entry(holder).or_insert(next)
            });
            inputs.push(TaskInput {
                place,
                artifact,
                holders: holders.collect(),
            });
        }
        let mut holders: Vec<(ArtifactHolder, usize)> = places.into_iter().collect();
        holders.sort_by_key(|(_, place)| *place);
        Some(TaskArtifacts {
            namespace: self.artifacts.namespace().clone(),
            inputs,
            holders: holders.into_iter().map(|(holder, _)| holder).collect(),
            outputs: outputs.collect(),
        })
    }

    /// Returns why the task cannot have its inputs, unless other jobs have to be done first.
    pub(super) fn why_inputs_lack(
        &self,
        now: Time,
        task: Task,
        reasons: &[Reason],
    ) -> Option<String> {
        let is_about_inputs = reasons.iter().all(|reason| {
            !matches!(
                reason,
                Reason::RunningOn(_)
                    | Reason::StandsBy { .. }
                    | Reason::Done
                    | Reason::Failed { .. }
                    | Reason::UnknownJob
                    | Reason::WaitsFor { .. }
                    | Reason::NeverDone { .. }
                    | Reason::WaitsForAll { .. }
                    | Reason::NeverAllDone { .. }
            )
        });
        let lacking = is_about_inputs.then(|| self.inputs().available(task).err());
        let lacking = lacking.flatten()?;
        match &lacking {
            LackingInput::Copies {
                artifact, wanted, ..
            } => {
                let why = self.why_copies_lack(now, *artifact, *wanted);
                Some(format!("{lacking}, and {why}"))
            }
            LackingInput::Unreachable { .. } => Some(self.why_unreachable(now, &lacking)),
            LackingInput::TooMany(_) | LackingInput::LongPaths(_) => {
                Some(format!("it cannot start: {lacking}"))
            }
            _ => Some(format!("it lacks an input: {lacking}")),
        }
    }

    /// Returns what is known of the workers that have an input and are not healthy, and what follows if they are lost.
    fn why_unreachable(&self, now: Time, lacking: &LackingInput) -> String {
        let LackingInput::Unreachable {
            key,
            place,
            holders,
        } = lacking
        else {
            return lacking.to_string();
        };
        format!(
            "it waits for its input `{place}`, which is only on {}. If no worker with a copy is left, {} runs again",
            self.with_doubts(now, holders),
            named(key)
        )
    }

    /// Names workers, each with the reason for which it may not answer, if there is any.
    pub(super) fn with_doubts(&self, now: Time, shards: &[Shard]) -> String {
        let timeouts = &self.options.timeouts;
        let about = shards.iter().map(|shard| {
            let is_new = self.pool.get(shard).map(Remote::health) == Some(Health::New);
            match self.pool.doubt_about(now, timeouts, shard) {
                Some(doubt) => format!("`{shard}`, {doubt}"),
                None if is_new => format!("`{shard}`, which has just associated"),
                None => format!("`{shard}`"),
            }
        });
        let about: Vec<String> = about.collect();
        about.join(", and ")
    }

    /// Returns why an artifact is on too few workers, as the rest of a sentence.
    pub(super) fn why_copies_lack(
        &self,
        now: Time,
        artifact: Artifact,
        wanted: Replicas,
    ) -> String {
        match self.artifacts.copy_prospect(now, artifact, wanted) {
            CopyProspect::Asked(locks) => {
                let shards = locks.iter().flat_map(|lock| self.pool.with_lock(lock));
                let names: Vec<String> = shards
                    .map(|remote| format!("`{}`", remote.shard()))
                    .collect();
                match names.len() {
                    1 => format!("a copy is being made by {}", names[0]),
                    _ => format!("copies are being made by {}", names.join(" and ")),
                }
            }
            CopyProspect::Soon => "a worker will be asked for one within seconds".to_owned(),
            CopyProspect::NoSpace => format!(
                "no other worker has room: no healthy disk has {} left",
                readable_bytes(artifact.size)
            ),
            CopyProspect::NoWorker => {
                "no other worker may keep artifacts: a copy needs another worker that is healthy, neither drains nor \
                 is excluded, and has a healthy disk"
                    .to_owned()
            }
        }
    }

    /// Returns how far the inputs of a running task are, if it waits for them.
    pub(super) fn progress_of_inputs(&self, now: Time, task: Task) -> Option<String> {
        let run = self.runs.run(task)?;
        let worker = self.pool.get(&run.shard)?.description();
        let waiting = self
            .artifacts
            .waiting_run(&worker.machine_lock, run.invocation)?;
        let lacking = waiting.artifacts.saturating_sub(waiting.present);
        let peers: Vec<String> = waiting
            .peers
            .iter()
            .map(|peer| {
                let with_address = |remote: &&Remote| remote.address() == &peer.address;
                let known = self.pool.iter().find(with_address);
                let name = known.map_or(&*peer.hostname, |remote| remote.shard().as_str());
                let name = match name {
                    "" => "the scheduler".to_owned(),
                    name => format!("`{name}`"),
                };
                match peer.busy_answers {
                    0 => name,
                    1 => format!("{name} (busy once)"),
                    2 => format!("{name} (busy twice)"),
                    times => format!("{name} (busy {times} times)"),
                }
            })
            .collect();
        let from = match peers.is_empty() {
            true => self.why_no_peer(now, task, &worker.machine_lock),
            false => format!(", from {}", peers.join(" and ")),
        };
        let (all, bytes) = (waiting.artifacts, readable_bytes(waiting.missing_bytes));
        Some(format!(
            "it waits for {lacking} of {all} inputs, {bytes}{from}"
        ))
    }

    /// Returns why a run gets its inputs from nobody, as the rest of a sentence. `lock` is that of its worker.
    fn why_no_peer(&self, now: Time, task: Task, lock: &MachinePortLock) -> String {
        let needed = match self.inputs().available(task) {
            Ok(needed) => needed,
            Err(lacking @ LackingInput::Unreachable { .. }) => {
                return format!(": {}", self.why_unreachable(now, &lacking));
            }
            Err(lacking) => return format!("; {lacking}"),
        };
        let registry = self.artifacts.registry();
        let is_here = |id| registry.holders(id).any(|holder| holder.lock == *lock);
        let mut ids = needed.iter().map(|needed| needed.artifact.id);
        let elsewhere = ids.find(|id| !is_here(*id));
        let holders = elsewhere.map(|id| self.inputs().shards_with(id));
        match holders.unwrap_or_default().as_slice() {
            [] => "; its worker looks for one that has them".to_owned(),
            holders => format!(
                "; its worker has not reached one that has them: {}",
                self.with_doubts(now, holders)
            ),
        }
    }

    /// Returns the bytes of a task's inputs that its worker lacks; `None` for a task without inputs, and if it is unknown.
    pub(super) fn bytes_to_move(&self, placement: Placement) -> Option<u64> {
        let Placement { task, worker } = placement;
        let job = self.engine.job_config(task.job);
        let job = job.filter(|job| !job.inputs.is_empty())?;
        if self.artifacts.checks() == InputChecks::OffAndUnknown {
            return None;
        }
        let (needed, _) = self.inputs().needed(task, job).ok()?;
        let remote = self.pool.get(self.pool.shard_of(worker)?)?;
        let lock = &remote.description().machine_lock;
        let artifacts = needed.into_iter().map(|needed| needed.artifact);
        let (elsewhere, _) = self.artifacts.bytes_elsewhere(lock, artifacts);
        Some(elsewhere)
    }

    /// Returns whether a worker has no space for the inputs of the task that it lacks, by its last report.
    pub(super) fn lacks_space_for_inputs(&self, task: Task, shard: &Shard) -> bool {
        let job = self.engine.job_config(task.job);
        let job = job.filter(|job| !job.inputs.is_empty());
        let needed = job.and_then(|job| self.inputs().needed(task, job).ok());
        let (Some((needed, _)), Some(remote)) = (needed, self.pool.get(shard)) else {
            return false;
        };
        let lock = &remote.description().machine_lock;
        let artifacts = needed.into_iter().map(|needed| needed.artifact);
        self.artifacts.lacks_space_for(lock, artifacts)
    }

    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            engine: &self.engine,
            artifacts: &self.artifacts,
            jobs: &self.jobs,
            pool: &self.pool,
        }
    }
}

/// The part of the scheduler that knows the inputs of tasks.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub engine: &'a Engine,
    pub artifacts: &'a Artifacts,
    pub jobs: &'a Jobs,
    pub pool: &'a Pool,
}

impl Inputs<'_> {
    /// Returns the workers with inputs of the task, those with the most bytes first, and then the workers in the racks of these, with 0 bytes.
    ///
    /// Also returns the number of inputs, all of which were looked up.
    pub(super) fn nearest(&self, task: Task) -> (Vec<(MachinePortLock, u64)>, usize) {
        let needed = self.engine.job_config(task.job);
        let needed = needed.and_then(|job| self.needed(task, job).ok());
        let (needed, _) = needed.unwrap_or_default();
        let count = needed.len();
        let artifacts = needed.into_iter().map(|needed| needed.artifact);
        (self.artifacts.nearest(artifacts), count)
    }

    /// Returns the wait of a task that lacks an input and does not have too many.
    fn retry_of(&self, task: Task) -> Duration {
        let job = self.engine.job_config(task.job);
        let inputs = job.and_then(|job| self.amount(task, job).ok());
        let inputs = u32::try_from(inputs.unwrap_or(0)).unwrap_or(u32::MAX);
        LACKING_INPUT_RETRY.max(RETRY_FOR_EACH.saturating_mul(inputs))
    }

    /// Returns whether a run of the task would find its inputs.
    pub(super) fn are_there(&self, task: Task) -> bool {
        self.available(task).is_ok()
    }

    /// Returns the artifacts that a run of the task needs, if none of them is lost.
    fn available(&self, task: Task) -> Result<Vec<Needed>, LackingInput> {
        let (needed, missing) = match self.engine.job_config(task.job) {
            Some(job) if !job.inputs.is_empty() && self.artifacts.checks() == InputChecks::On => {
                self.needed(task, job)?
            }
            Some(_) | None => return Ok(Vec::new()),
        };
        let mut lost: BTreeMap<Task, &TaskKey> = BTreeMap::new();
        for key in &missing {
            lost.insert(self.runnable_producer(key)?, key);
        }
        let (mut few, mut unreachable) = (None, None);
        for Needed {
            place,
            artifact,
            producer,
            copies,
        } in &needed
        {
            let Some(producer) = producer else {
                continue;
            };
            match self.artifacts.availability(artifact.id) {
                ArtifactAvailability::Available
                    if unreachable.is_none() && !self.is_reachable(artifact.id) =>
                {
                    unreachable = Some(LackingInput::Unreachable {
                        key: producer.clone(),
                        place: place.clone(),
                        holders: self.shards_with(artifact.id),
                    });
                }
                ArtifactAvailability::Available if few.is_none() => {
                    let missing = self.artifacts.count_missing_copies(artifact.id, *copies);
                    few = (missing > 0).then(|| LackingInput::Copies {
                        key: producer.clone(),
                        artifact: *artifact,
                        wanted: *copies,
                        missing,
                    });
                }
                ArtifactAvailability::Available => {}
                ArtifactAvailability::Unknown => {
                    return Err(LackingInput::Unknown(producer.clone()));
                }
                ArtifactAvailability::Lost
                | ArtifactAvailability::GivenUp(_)
                | ArtifactAvailability::Unnamed => {
                    lost.insert(self.runnable_producer(producer)?, producer);
                }
            }
        }
        match lost.first_key_value() {
            None => unreachable.or(few).map_or(Ok(needed), Err),
            Some((_, first)) => {
                let first = (*first).clone();
                Err(LackingInput::Lost(lost.into_keys().collect(), first))
            }
        }
    }

    /// Returns whether a copy of an artifact is at a healthy worker, or at the scheduler.
    pub(super) fn is_reachable(&self, id: ArtifactId) -> bool {
        let mut holders = self.artifacts.registry().holders(id);
        let is_healthy = |remote: &Remote| remote.health() == Health::Healthy;
        self.artifacts.files().has(id)
            || holders.any(|holder| self.pool.with_lock(&holder.lock).any(is_healthy))
    }

    /// Returns the workers with a copy that are not lost, at most [`MOST_NAMED_HOLDERS`].
    pub(super) fn shards_with(&self, id: ArtifactId) -> Vec<Shard> {
        let holders = self.artifacts.registry().holders(id);
        let locks: BTreeSet<&MachinePortLock> = holders.map(|holder| &holder.lock).collect();
        let remotes = locks.into_iter().flat_map(|lock| self.pool.with_lock(lock));
        let here = remotes.filter(|remote| remote.health() != Health::MustDie);
        let shards = here.map(|remote| remote.shard().clone());
        shards.take(MOST_NAMED_HOLDERS).collect()
    }

    /// Returns the task that made a lost output, or else why it cannot make it again.
    fn runnable_producer(&self, key: &TaskKey) -> Result<Task, LackingInput> {
        let not_runnable = |why| LackingInput::NotRunnable {
            key: key.clone(),
            why,
        };
        if let Some(runs) = self.artifacts.registry().exhausted_reruns(key) {
            let key = key.clone();
            return Err(LackingInput::GivenUp { key, runs });
        }
        let job = self.engine.find_job(key.job.as_str());
        let job = job.filter(|job| self.engine.job_config(*job).is_some());
        let node = self.engine.find_node(key.node.as_str());
        let job = job.ok_or_else(|| not_runnable("its job is not configured any more"))?;
        let node = node.filter(|node| self.engine.has_enabled_node(*node));
        let node = node.ok_or_else(|| not_runnable("its node is gone or disabled"))?;
        let config = self.engine.job_config(job);
        match config.is_some_and(|config| config.enabled && config.errors.is_empty()) {
            true => Ok(Task { job, node }),
            false => Err(not_runnable("its job is disabled or has errors")),
        }
    }

    /// Returns the artifacts among the inputs of a run that are known, and whether others are not.
    fn known(&self, task: Task) -> (Vec<ArtifactId>, bool) {
        let Some(job) = self.engine.job_config(task.job) else {
            return (Vec::new(), true);
        };
        let (mut all, mut lacks_some) = (Vec::new(), false);
        for input in &job.inputs {
            match self.add_input(task, job, input, (&mut all, &mut Vec::new())) {
                Ok(()) => {}
                Err(_) => lacks_some = true,
            }
        }
        let ids = all.into_iter().map(|needed| needed.artifact.id);
        (ids.collect(), lacks_some)
    }

    /// Returns the artifacts that a run of the task needs.
    ///
    /// The second list is of tasks that have left no such outputs: they ran before their job had them, or the outputs have expired.
    fn needed(
        &self,
        task: Task,
        job: &JobConfig,
    ) -> Result<(Vec<Needed>, Vec<TaskKey>), LackingInput> {
        let amount = self.amount(task, job)?;
        let (mut all, mut missing) = (Vec::with_capacity(amount), Vec::new());
        for input in &job.inputs {
            self.add_input(task, job, input, (&mut all, &mut missing))?;
        }
        Ok((all, missing))
    }

    /// Adds the artifacts of one input, and the tasks that have left none.
    fn add_input(
        &self,
        task: Task,
        job: &JobConfig,
        input: &JobInput,
        (all, missing): (&mut Vec<Needed>, &mut Vec<TaskKey>),
    ) -> Result<(), LackingInput> {
        match &input.source {
            InputSource::Job { .. } => self.add_needed(task, input, (all, missing)),
            InputSource::File { path } => all.extend(self.needed_file(&job.name, path, input)?),
        }
        Ok(())
    }

    /// Returns the number of artifacts that a run of the task needs, or an error if these are too many. If each input of the job comes from one
    /// task, the number of these inputs is returned instead, and nothing is counted: the artifacts are then few. The count makes nothing for each
    /// artifact, so many of them cost little.
    pub(super) fn amount(&self, task: Task, job: &JobConfig) -> Result<usize, LackingInput> {
        let are_several = |input: &JobInput| match &input.source {
            InputSource::Job { nodes, .. } => nodes.are_several(),
            InputSource::File { .. } => false,
        };
        if !job.inputs.iter().any(are_several) {
            // The numbers of a job's inputs and of a task's outputs are limited.
            return Ok(job.inputs.len());
        }
        let (mut artifacts, mut paths) = (0_usize, 0_usize);
        for input in &job.inputs {
            let base = base_of(input).len();
            let InputSource::Job { job, nodes, path } = &input.source else {
                (artifacts, paths) = (artifacts + 1, paths + base);
                continue;
            };
            for node in self.nodes_of_input(task, job, *nodes) {
                let above = base + file_name(node.as_str()).len();
                let job = job.clone();
                for output in self.wanted_outputs(&TaskKey { job, node }, path.as_ref()) {
                    artifacts += 1;
                    paths += above + output.path.as_str().len() + 2;
                }
            }
        }
        if artifacts > MAX_TASK_ARTIFACTS {
            Err(LackingInput::TooMany(artifacts))
        } else if paths > MAX_TASK_PATHS {
            Err(LackingInput::LongPaths(paths))
        } else {
            Ok(artifacts)
        }
    }

    /// Returns the outputs of a task that an input takes.
    fn wanted_outputs(
        &self,
        key: &TaskKey,
        path: Option<&OutputPath>,
    ) -> impl Iterator<Item = &TaskOutput> {
        let outputs = self.artifacts.registry().outputs(key);
        let outputs = outputs.filter(|outputs| outputs.liveness == Liveness::Live);
        let outputs = outputs.map_or(&[][..], |outputs| &outputs.outputs);
        let is_wanted = move |output: &&TaskOutput| path.is_none_or(|path| output.path == *path);
        outputs.iter().filter(is_wanted)
    }

    /// Returns the file that a job names. It has no place if its name is none, which the config refuses.
    fn needed_file(
        &self,
        job: &JobName,
        path: &str,
        input: &JobInput,
    ) -> Result<Option<Needed>, LackingInput> {
        let artifact = self.file_of(job, path)?;
        let place = input.place().map(|place| place.as_str().to_owned());
        let place = place.and_then(|place| OutputPath::try_from(place.as_str()).ok());
        Ok(place.map(|place| Needed {
            place,
            artifact,
            producer: None,
            copies: Replicas::ONE,
        }))
    }

    /// Returns the file that a job gets for a path.
    pub(super) fn file_of(&self, job: &JobName, path: &str) -> Result<Artifact, LackingFile> {
        self.artifacts.files().find(path, self.origin(job))
    }

    pub(super) fn origin(&self, job: &JobName) -> JobOrigin {
        match self.jobs.version(job) {
            Some(_) => JobOrigin::Submitted,
            None => JobOrigin::ConfigFile,
        }
    }

    fn add_needed(
        &self,
        task: Task,
        input: &JobInput,
        (all, missing): (&mut Vec<Needed>, &mut Vec<TaskKey>),
    ) {
        let InputSource::Job { job, nodes, path } = &input.source else {
            return;
        };
        let (nodes, path) = (*nodes, path.as_ref());
        let base = base_of(input);
        let copies = self.copies_before_use(job);
        for node in self.nodes_of_input(task, job, nodes) {
            let key = TaskKey {
                job: job.clone(),
                node,
            };
            let folder = match nodes.are_several() {
                true => format!("{base}/{}", file_name(key.node.as_str())),
                false => base.clone(),
            };
            let before = all.len();
            for output in self.wanted_outputs(&key, path) {
                // Invariant: both parts are paths without empty parts.
                let place = format!("{folder}/{}", output.path);
                if let Ok(place) = OutputPath::try_from(place.as_str()) {
                    all.push(Needed {
                        place,
                        artifact: output.artifact,
                        producer: Some(key.clone()),
                        copies: copies.get(&output.path).copied().unwrap_or(Replicas::ONE),
                    });
                }
            }
            if all.len() == before {
                missing.push(key);
            }
        }
    }

    /// Returns on how many workers outputs of a job must be before a task may read them, as the job is configured now. Outputs that are
    /// not in the map must be on one worker.
    fn copies_before_use(&self, job: &JobName) -> BTreeMap<&OutputPath, Replicas> {
        let job = self.engine.find_job(job.as_str());
        let job = job.and_then(|job| self.engine.job_config(job));
        let outputs = job.into_iter().flat_map(|job| &job.outputs);
        let waiting = outputs.filter(|output| output.wait_for_replica);
        waiting
            .map(|output| (&output.path, Replicas::new(output.replicas.get())))
            .collect()
    }

    /// Returns the nodes of whose tasks an input takes the outputs.
    pub(super) fn nodes_of_input(
        &self,
        task: Task,
        job: &JobName,
        nodes: InputNodes,
    ) -> Vec<NodeName> {
        let below = match nodes {
            InputNodes::Same => return vec![self.engine.node_name(task.node)],
            InputNodes::Parent => {
                let path = self.engine.path(task);
                let parent = path.len().checked_sub(2).and_then(|at| path.get(at));
                return parent.into_iter().cloned().collect();
            }
            InputNodes::Children => Some(task.node),
            InputNodes::All => None,
        };
        let id = self.engine.find_job(job.as_str());
        let tasks = id.map(|id| self.engine.tasks_below(id, below));
        let tasks = tasks.into_iter().flatten();
        let nodes = tasks.filter_map(|(task, state)| {
            let node = self.engine.node_name(task.node);
            let counts = match state {
                TaskState::Avoided | TaskState::Disabled => self.has_outputs(job, &node),
                _ => true,
            };
            counts.then_some(node)
        });
        nodes.collect()
    }

    /// Returns whether a task on a node where the job does not run any more has left outputs that are not lost.
    fn has_outputs(&self, job: &JobName, node: &NodeName) -> bool {
        let (job, node) = (job.clone(), node.clone());
        let registry = self.artifacts.registry();
        let outputs = registry.outputs(&TaskKey { job, node });
        let is_there = |output: &TaskOutput| {
            let availability = self.artifacts.availability(output.artifact.id);
            matches!(
                availability,
                ArtifactAvailability::Available | ArtifactAvailability::Unknown
            )
        };
        outputs.is_some_and(|outputs| outputs.outputs.iter().all(is_there))
    }
}
