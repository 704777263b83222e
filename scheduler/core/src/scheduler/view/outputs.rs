//! Lists the outputs of tasks in pages, with the workers that have copies, and says how long the outputs of each job are kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common::{
    ArtifactId, ArtifactNamespace, Health, JobName, MachinePortLock, NodeName, ServiceAddress,
    Shard, TaskKey, TaskOutput, Time,
};
use brasserie_common_config::KeepOutputs;
use brasserie_scheduler_artifacts::{
    ArtifactAvailability, Liveness, OutputName, OutputView, Replicas, SetEnding, SetOwner,
    SetRetention, SetView, TaskOutputs,
};

use brasserie_scheduler_engine::{Reason, Task};

use super::{Answer, unknown_job};
use crate::pool::remote::Remote;
use crate::scheduler::event::{OutputCursor, OutputList};
use crate::scheduler::{View, task_key};

/// The most outputs of one page: a page takes a few milliseconds of a turn.
pub const MAX_LISTED_OUTPUTS: usize = 1000;
/// The most bytes of a page's names, far below the size of a frame. The last output may exceed it.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of an output or a holder on the wire, without its names.
const FIXED_BYTES: usize = 80;
/// The most holders of each output in a page of several tasks: enough to choose one that answers.
const MAX_HOLDERS: usize = 8;
/// The most holders of each output in a page of one task.
const MAX_HOLDERS_OF_ONE: usize = 100;

/// One page of outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputPage {
    pub namespace: ArtifactNamespace,
    pub outputs: Vec<ListedOutput>,
    /// The set of each job with an output in this page.
    pub sets: Vec<ListedSet>,
    /// `None` on the last page.
    pub next: Option<OutputCursor>,
    /// Why the first page has no output.
    pub why_empty: Option<String>,
}

/// One output of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedOutput {
    pub task: TaskKey,
    pub output: TaskOutput,
    /// The known copies, each on another disk.
    pub copies: usize,
    /// The number of workers that should have a copy.
    pub replicas: Replicas,
    /// Some of the workers with a copy.
    pub holders: Vec<OutputHolder>,
    pub state: OutputState,
}

/// A worker with a copy of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputHolder {
    pub shard: Shard,
    pub hostname: Arc<str>,
    pub address: ServiceAddress,
    /// Tasks start only with copies of healthy workers.
    pub health: Health,
}

/// Whether a task can read an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputState {
    /// A copy is known.
    Available,
    /// No copy is known, and not all workers have reported.
    Unknown,
    /// There is no copy. The task may run again for it.
    Lost,
    /// There is no copy, and the task does not run again for it.
    GivenUp,
}

impl OutputState {
    pub fn as_str(self) -> &'static str {
        match self {
            OutputState::Available => "available",
            OutputState::Unknown => "unknown",
            OutputState::Lost => "lost",
            OutputState::GivenUp => "given_up",
        }
    }
}

/// All outputs of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSet {
    pub job: JobName,
    pub keep: KeepOutputs,
    /// The jobs that have the outputs as inputs.
    pub consumers: Vec<JobName>,
    /// The time until the outputs expire, or the reason why they do not expire as things are.
    pub expiry: Result<Duration, String>,
    /// Why the outputs expire whatever `keep` says.
    pub ends_because: Option<&'static str>,
    /// The tasks with outputs.
    pub tasks: usize,
    /// The different artifacts.
    pub artifacts: u64,
    /// The bytes of the different artifacts.
    pub bytes: u64,
    pub copies: u64,
    /// The artifacts without a known copy.
    pub without_copy: u64,
}

impl View<'_> {
    /// Returns one page of outputs, or [`Answer::Unknown`] for an unknown job or node.
    pub(in crate::scheduler) fn list_outputs(&self, now: Time, list: &OutputList) -> Answer {
        let selection = match self.select_outputs(list) {
            Ok(selection) => selection,
            Err(unknown) => return Answer::Unknown(self.and_config(unknown)),
        };
        let mut page = self.page_of(now, &selection, list);
        if page.outputs.is_empty() && list.after.is_none() {
            page.why_empty = Some(self.why_no_outputs(&selection));
        }
        Answer::Outputs(page)
    }

    /// Returns the first sets that have artifacts, in the order of their jobs, and the number of further ones.
    pub(in crate::scheduler) fn list_sets(
        &self,
        now: Time,
        limit: usize,
    ) -> (Vec<ListedSet>, usize) {
        let sets = self.artifacts.registry().sets(None);
        let mut sets = sets.filter(|set| set.totals.amount.artifacts > 0);
        let first = sets.by_ref().take(limit);
        let first = first.map(|set| self.listed_set(now, &set)).collect();
        (first, sets.count())
    }

    fn select_outputs(&self, list: &OutputList) -> Result<Selection, String> {
        let Some(text) = &list.job else {
            return Ok(Selection::All);
        };
        let job = JobName::try_from(text.as_str()).map_err(|error| error.to_string())?;
        if !self.has_outputs(&job) && self.find_listed(text).is_none() {
            return Err(unknown_job(&self.engine, text));
        }
        let Some(text) = &list.node else {
            return Ok(Selection::Job(job));
        };
        let node = NodeName::try_from(text.as_str()).map_err(|error| error.to_string())?;
        let key = TaskKey { job, node };
        if self.artifacts.registry().outputs(&key).is_none() {
            self.find_task(key.job.as_str(), text)?;
        }
        Ok(Selection::Task(key))
    }

    pub(in crate::scheduler) fn has_outputs(&self, job: &JobName) -> bool {
        let mut all = self.artifacts.registry().job_outputs(job);
        all.next().is_some()
    }

    fn page_of(&self, now: Time, selection: &Selection, list: &OutputList) -> OutputPage {
        let registry = self.artifacts.registry();
        let after = list.after.clone().map(|after| OutputName {
            key: after.task,
            path: after.path,
        });
        let mut page = PageBuilder {
            view: *self,
            workers: self.workers_by_lock(),
            most_holders: match selection {
                Selection::Task(_) => MAX_HOLDERS_OF_ONE,
                Selection::Job(_) | Selection::All => MAX_HOLDERS,
            },
            limit: list.limit.clamp(1, MAX_LISTED_OUTPUTS),
            bytes: 0,
            outputs: Vec::new(),
        };
        let next = match (selection, &after) {
            (Selection::Task(key), _) => {
                let all = registry.list_task_outputs(key);
                let path = after.as_ref().map(|after| &after.path);
                page.fill(all.filter(|one| path.is_none_or(|path| one.output.path > *path)))
            }
            (Selection::Job(job), None) => page.fill(registry.list_job_outputs(job)),
            (Selection::Job(job), Some(_)) => {
                let all = registry.list_outputs(after.as_ref());
                page.fill(all.take_while(|one| one.key.job == *job))
            }
            (Selection::All, _) => page.fill(registry.list_outputs(after.as_ref())),
        };
        let outputs = page.outputs;
        let mut jobs: Vec<&JobName> = outputs.iter().map(|output| &output.task.job).collect();
        jobs.dedup();
        let sets = jobs.into_iter().filter_map(|job| registry.set(job));
        OutputPage {
            namespace: self.artifacts.namespace().clone(),
            sets: sets.map(|set| self.listed_set(now, &set)).collect(),
            outputs,
            next,
            why_empty: None,
        }
    }

    /// Returns at most `most` workers with a copy of an artifact.
    pub(in crate::scheduler) fn output_holders(
        &self,
        id: ArtifactId,
        most: usize,
    ) -> Vec<OutputHolder> {
        holders_of(*self, &self.workers_by_lock(), id, most)
    }

    fn workers_by_lock(&self) -> BTreeMap<&MachinePortLock, &Remote> {
        let here = self.pool.iter().filter(|worker| !worker.said_goodbye());
        here.map(|worker| (&worker.description().machine_lock, worker))
            .collect()
    }

    fn listed_set(&self, now: Time, set: &SetView<'_>) -> ListedSet {
        ListedSet {
            job: set.job.clone(),
            keep: match (set.terms.retention, &set.terms.owner) {
                (SetRetention::UntilConsumed, _) => KeepOutputs::UntilConsumed,
                (SetRetention::For(time), _) => KeepOutputs::For(time),
                (SetRetention::Forever, SetOwner::Session(_)) => KeepOutputs::WhileHeld,
                (SetRetention::Forever, SetOwner::Scheduler) => KeepOutputs::Forever,
            },
            consumers: set.consumers.iter().cloned().collect(),
            expiry: self.expiry(now, set),
            ends_because: set.ending.map(|ending| match ending {
                SetEnding::JobDeleted => "the job is not configured any more, or has no `outputs`",
                SetEnding::OwnerExpired => "no `brasserie artifact hold` runs for the job",
            }),
            tasks: set.tasks,
            artifacts: set.totals.amount.artifacts,
            bytes: set.totals.amount.bytes,
            copies: set.totals.copies,
            without_copy: set.totals.without_copy,
        }
    }

    /// Returns the time until the outputs of a set expire, or why they do not.
    fn expiry(&self, now: Time, set: &SetView<'_>) -> Result<Duration, String> {
        if !self.artifacts.registry().is_settled() {
            return Err("the scheduler does not know all workers yet".to_owned());
        }
        let retention = set.terms.retention;
        let mut hold_ends = None;
        if set.ending.is_none() {
            match retention {
                SetRetention::Forever => match &set.terms.owner {
                    SetOwner::Scheduler => return Err("`keep` is \"forever\"".to_owned()),
                    SetOwner::Session(_) if self.artifacts.are_held(now, set.job) => {
                        return Err("they are held".to_owned());
                    }
                    SetOwner::Session(owner) => {
                        hold_ends = self.artifacts.registry().owner_expiry(owner);
                    }
                },
                SetRetention::UntilConsumed if set.consumers.is_empty() => {
                    return Err("no job has them as inputs".to_owned());
                }
                SetRetention::UntilConsumed | SetRetention::For(_) => {}
            }
        }
        if let Some(due) = set.expires {
            return Ok(due.since(now));
        }
        if !self.engine.has_nodes_in_force() {
            return Err(
                "the nodes are not loaded yet, so it is not known which tasks are done".to_owned(),
            );
        }
        let unfinished = |job: &&JobName| self.count_unfinished(job, retention) > 0;
        let consumer = set.consumers.iter().find(unfinished);
        let producer = Some(set.job).filter(unfinished);
        Err(match (producer, consumer, hold_ends) {
            (Some(job), ..) => format!("tasks of job `{job}` are not finished"),
            (None, Some(job), _) => format!("tasks of job `{job}` may still read them"),
            // Nobody holds them now. The time for the next hold runs.
            (None, None, Some(due)) => return Ok(due.since(now)),
            (None, None, None) => "the scheduler checks soon when they expire".to_owned(),
        })
    }

    /// Returns which output of a task that is done lacks copies, and why; `None` if each has as many as it should.
    pub(in crate::scheduler) fn why_outputs_lack(
        &self,
        now: Time,
        task: Task,
        reasons: &[Reason],
    ) -> Option<String> {
        let config = self.engine.job_config(task.job)?;
        if config.outputs.is_empty() || !reasons.contains(&Reason::Done) {
            return None;
        }
        let key = task_key(&self.engine, task);
        let outputs = self.artifacts.registry().outputs(&key);
        let live = outputs.filter(|outputs| outputs.liveness == Liveness::Live);
        match live.filter(|outputs| !outputs.outputs.is_empty()) {
            Some(live) => live
                .outputs
                .iter()
                .find_map(|output| self.why_output_lacks(now, output, live.replicas)),
            None => Some(self.why_no_outputs(&Selection::Task(key))),
        }
    }

    fn why_output_lacks(
        &self,
        now: Time,
        output: &TaskOutput,
        replicas: Replicas,
    ) -> Option<String> {
        let (path, id) = (&output.path, output.artifact.id);
        match self.artifacts.availability(id) {
            ArtifactAvailability::Available if !self.inputs().is_reachable(id) => {
                let holders = self.inputs().shards_with(id);
                let holders = self.with_doubts(now, &holders);
                Some(format!("its output `{path}` is only on {holders}"))
            }
            ArtifactAvailability::Available => {
                let missing = self.artifacts.count_missing_copies(id, replicas);
                let why = || self.why_copies_lack(now, output.artifact, replicas);
                (missing > 0).then(|| {
                    let (on, all) = (replicas.get() - missing, replicas.get());
                    format!(
                        "its output `{path}` is on {on} of {all} workers, and {}",
                        why()
                    )
                })
            }
            ArtifactAvailability::Unknown => Some(format!(
                "no worker has reported yet that it has its output `{path}`, and some have still to report"
            )),
            ArtifactAvailability::Lost | ArtifactAvailability::Unnamed => Some(format!(
                "no copy of its output `{path}` is left: it runs again when a task needs that"
            )),
            ArtifactAvailability::GivenUp(_) => Some(format!(
                "no copy of its output `{path}` is left, and it does not run again for that"
            )),
        }
    }

    /// Returns why there are no outputs.
    pub(in crate::scheduler) fn why_no_outputs(&self, selection: &Selection) -> String {
        let job = match selection {
            Selection::All => return "no task has left outputs that are still kept".to_owned(),
            Selection::Job(job) => job,
            Selection::Task(key) => &key.job,
        };
        let id = self.engine.find_job(job.as_str());
        let config = id.and_then(|id| self.engine.job_config(id));
        let sentence = match selection {
            Selection::Task(TaskKey { node, .. }) => {
                format!("the task of job `{job}` on `{node}` has no outputs")
            }
            Selection::Job(_) | Selection::All => format!("no task of job `{job}` has outputs"),
        };
        match config {
            Some(config) if config.outputs.is_empty() => {
                format!("{sentence}, because the job has no key `outputs`")
            }
            Some(_) => format!("{sentence}{}", self.why_not_left(job, selection)),
            None => format!("{sentence}, and the job is not configured"),
        }
    }

    /// Returns why a job with the key `outputs` has none, as the rest of a sentence.
    fn why_not_left(&self, job: &JobName, selection: &Selection) -> String {
        let id = self.engine.find_job(job.as_str());
        let node = match selection {
            Selection::Task(key) => Some(self.engine.find_node(key.node.as_str())),
            Selection::Job(_) | Selection::All => None,
        };
        let has_succeeded = id.is_some_and(|job| match node {
            Some(node) => node.is_some_and(|node| {
                let status = self.engine.previous_status(Task { job, node });
                status.is_some_and(|status| status.is_done())
            }),
            None => self.engine.counts(job).done > 0,
        });
        let again = format!("`brasserie job delete-history {job}` has its tasks run again");
        match (has_succeeded, self.artifacts.why_gone(job)) {
            (false, _) if node.is_some() => ", because it has not succeeded yet".to_owned(),
            (false, _) => ", because none has succeeded yet".to_owned(),
            (true, Some((why, at))) => {
                let ago = format_duration(Duration::from_secs(at.until(self.wall).as_secs()));
                format!(", because {} {ago} ago; {again}", why.text())
            }
            (true, None) => format!(
                ", because they had expired or were removed when this scheduler started, or the job had no key `outputs` when it ran; {again}"
            ),
        }
    }

    /// Counts the tasks with outputs, and their outputs.
    pub(in crate::scheduler) fn count_outputs(&self, selection: &Selection) -> (u64, u64) {
        let registry = self.artifacts.registry();
        let live = |outputs: &&TaskOutputs| {
            outputs.liveness == Liveness::Live && !outputs.outputs.is_empty()
        };
        let tasks: Vec<_> = match selection {
            Selection::All => return (0, 0),
            Selection::Job(job) => {
                let all = registry.job_outputs(job).map(|(_, outputs)| outputs);
                all.filter(live).collect()
            }
            Selection::Task(key) => registry.outputs(key).filter(live).into_iter().collect(),
        };
        let outputs: usize = tasks.iter().map(|task| task.outputs.len()).sum();
        (tasks.len() as u64, outputs as u64)
    }
}

/// The outputs to which a request refers.
pub(in crate::scheduler) enum Selection {
    All,
    Job(JobName),
    Task(TaskKey),
}

/// A page under construction.
struct PageBuilder<'a> {
    view: View<'a>,
    workers: BTreeMap<&'a MachinePortLock, &'a Remote>,
    most_holders: usize,
    limit: usize,
    bytes: usize,
    outputs: Vec<ListedOutput>,
}

impl PageBuilder<'_> {
    /// Adds outputs until the page is full. Returns the last one if others follow.
    fn fill<'a>(&mut self, all: impl Iterator<Item = OutputView<'a>>) -> Option<OutputCursor> {
        for one in all.filter(|one| one.liveness == Liveness::Live) {
            if self.outputs.len() >= self.limit || self.bytes > MAX_BYTES {
                let last = self.outputs.last()?;
                return Some(OutputCursor {
                    task: last.task.clone(),
                    path: last.output.path.clone(),
                });
            }
            self.add(one);
        }
        None
    }

    fn add(&mut self, one: OutputView<'_>) {
        let id = one.output.artifact.id;
        let holders = holders_of(self.view, &self.workers, id, self.most_holders);
        let of_holder = |holder: &OutputHolder| {
            FIXED_BYTES + holder.shard.as_str().len() + holder.hostname.len()
        };
        self.bytes += FIXED_BYTES + one.key.job.as_str().len() + one.key.node.as_str().len();
        self.bytes += one.output.path.as_str().len();
        self.bytes += holders.iter().map(of_holder).sum::<usize>();
        let state = match self.view.artifacts.availability(id) {
            ArtifactAvailability::Available => OutputState::Available,
            ArtifactAvailability::Unknown => OutputState::Unknown,
            ArtifactAvailability::Lost | ArtifactAvailability::Unnamed => OutputState::Lost,
            ArtifactAvailability::GivenUp(_) => OutputState::GivenUp,
        };
        let task = self.view.artifacts.registry().outputs(&one.key);
        self.outputs.push(ListedOutput {
            replicas: task.map_or(Replicas::ONE, |task| task.replicas),
            task: one.key,
            output: one.output.clone(),
            copies: one.copies,
            holders,
            state,
        });
    }
}

/// Returns some workers with a copy, each once.
fn holders_of(
    view: View<'_>,
    workers: &BTreeMap<&MachinePortLock, &Remote>,
    id: ArtifactId,
    most: usize,
) -> Vec<OutputHolder> {
    let registry = view.artifacts.registry();
    let mut holders: Vec<OutputHolder> = Vec::new();
    for holder in registry.holders(id).take(most) {
        let Some(worker) = workers.get(&holder.lock) else {
            continue;
        };
        if holders.iter().any(|known| known.shard == *worker.shard()) {
            continue;
        }
        holders.push(OutputHolder {
            shard: worker.shard().clone(),
            hostname: holder.lock.hostname.clone(),
            address: worker.address().clone(),
            health: worker.health(),
        });
    }
    holders
}
