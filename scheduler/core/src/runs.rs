//! Runs: the tasks that the scheduler considers running, from before `runTask` is sent until a completion is accepted or the worker is
//! lost.

mod deleted;
pub mod further_runs;
mod shape;
mod unsure;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use brasserie_common::collections::IdMap;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    BackoffDuration, Fence, InvocationId, JobId, KillRequest, NodeId, RecordSeq, Shard, Time,
    WorkRequestSeq, WorkerId,
};
use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_engine::Task;
use deleted::DeletedEnds;
use further_runs::FurtherRuns;
use unsure::UnsureChecks;

use crate::record::{DeletionNumber, Durable, Forgotten};

/// One run of a task.
#[derive(Clone, Debug)]
pub struct Run {
    pub invocation: InvocationId,
    pub shard: Shard,
    pub next_backoff: BackoffDuration,
    pub kill_wait: Duration,
    pub since: Time,
    /// The time at which the worker confirmed the run. `None`: it has not, even if the run counts as running until the worker denies it.
    pub confirmed: Option<Time>,
    /// The time since when the run may have left outputs that its completion names. `None`: it leaves none.
    pub outputs_since: Option<Time>,
    /// The time for which the task was ready before this scheduler started the run; for people.
    pub queued: Option<Duration>,
    /// The work request for which the run was sent.
    pub sent_for: Option<WorkRequestSeq>,
    /// The fence. `None`: the worker listed the run without one.
    pub fence: Option<Fence>,
    pub state: RunState,
    /// The reason why the outcome of the call that starts the run is not known; for people.
    pub start_failure: Option<Box<str>>,
}

/// The state of a run.
///
/// ```text
///   Starting --- runTask done ---> Running <--- adopted from getRunningTasks
///      |                              ^
///      +--- outcome unknown --> Unsure+  notifyIfTasksNotRunning done
/// ```
/// Every state ends with an accepted status or the loss of the worker; Starting also ends when the call certainly did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    /// `runTask` has no outcome yet.
    Starting,
    /// The worker has confirmed the run, and will report its completion.
    Running,
    /// The run may or may not have started. The scheduler asks the worker.
    Unsure,
}

/// Returns how a job's runs are killed: as the job's config says, else as the settings say.
pub(crate) fn kill_request(config: Option<&Config>, job: Option<&JobConfig>) -> KillRequest {
    let own = job.map(|job| job.kill_subprocess);
    own.or_else(|| config.map(|config| config.kill_subprocess))
        .unwrap_or_default()
}

impl Run {
    pub fn is_unsure(&self) -> bool {
        self.state == RunState::Unsure
    }
}

/// All runs, and the facts remembered of completed runs.
///
/// A task has one run, unless an override or an old backup made a scheduler start it twice. The task then has a main run and further runs
/// (`further`). It starts no third time, and counts as running until the last of its runs has completed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// The main run of each running task, which the engine knows.
    runs: BTreeMap<Task, Run>,
    /// Further runs. Invariant: only of tasks in `runs`.
    further: FurtherRuns,
    on_shard: BTreeMap<Shard, BTreeSet<(Task, InvocationId)>>,
    /// The run of each task's stored completion.
    ended: IdMap<Task, InvocationId>,
    /// The run up to which each task's completions were deleted. A repeated report of one is acknowledged and ignored.
    deleted: DeletedEnds,
    /// The tasks of each record of completions that is not durable yet.
    pending: BTreeMap<RecordSeq, Vec<Task>>,
    pending_by_task: BTreeMap<Task, RecordSeq>,
    unsure: UnsureChecks,
    spans: BTreeMap<JobId, Span>,
}

/// The time in which tasks of a job ran since this scheduler started.
#[derive(Clone, Copy, Debug)]
struct Span {
    first_start: Time,
    last_end: Time,
    running: usize,
}

impl Runs {
    pub(crate) fn new(durable: &Durable) -> Self {
        Runs {
            deleted: DeletedEnds::new(durable),
            ..Runs::default()
        }
    }

    /// Returns a copy without any completions, for a scheduler copy that starts and completes no real task.
    pub(crate) fn without_ends(&self) -> Runs {
        Runs {
            runs: self.runs.clone(),
            further: self.further.clone(),
            on_shard: self.on_shard.clone(),
            ended: IdMap::default(),
            deleted: DeletedEnds::default(),
            pending: BTreeMap::new(),
            pending_by_task: BTreeMap::new(),
            unsure: self.unsure.clone(),
            spans: self.spans.clone(),
        }
    }

    pub(crate) fn run(&self, task: Task) -> Option<&Run> {
        self.runs.get(&task)
    }

    /// Finds this run among the main and the further runs.
    pub(crate) fn find(&self, task: Task, invocation: InvocationId) -> Option<&Run> {
        let run = self.runs.get(&task)?;
        if run.invocation == invocation {
            return Some(run);
        }
        self.further.get(task, invocation)
    }

    fn find_mut(&mut self, task: Task, invocation: InvocationId) -> Option<&mut Run> {
        let run = self.runs.get_mut(&task)?;
        if run.invocation == invocation {
            return Some(run);
        }
        self.further.get_mut(task, invocation)
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (Task, &Run)> {
        let runs = self.runs.iter().map(|(task, run)| (*task, run));
        runs.chain(self.further.iter())
    }

    /// Iterates over the running tasks in a range, each with its main run and its further runs.
    pub(crate) fn running_in(
        &self,
        tasks: RangeInclusive<Task>,
    ) -> impl Iterator<Item = (Task, impl Iterator<Item = &Run>)> {
        let runs = self.runs.range(tasks);
        runs.map(|(task, run)| (*task, std::iter::once(run).chain(self.further.of(*task))))
    }

    /// Iterates over the jobs with running tasks, with the number of those tasks.
    pub(crate) fn running_by_job(&self) -> impl Iterator<Item = (JobId, u64)> {
        let spans = self.spans.iter().filter(|(_, span)| span.running > 0);
        spans.map(|(job, span)| (*job, span.running as u64))
    }

    /// Iterates over the runs of a job's tasks, ordered by node.
    pub(crate) fn runs_of(&self, job: JobId) -> impl Iterator<Item = (Task, &Run)> {
        self.runs_from(Task {
            job,
            node: NodeId(0),
        })
    }

    /// Iterates over the runs of the job of `first`, from this task on, ordered by node.
    pub(crate) fn runs_from(&self, first: Task) -> impl Iterator<Item = (Task, &Run)> {
        let last = Task {
            node: NodeId(u32::MAX),
            ..first
        };
        let running = self.running_in(first..=last);
        running.flat_map(|(task, runs)| runs.map(move |run| (task, run)))
    }

    /// Returns the runs on a shard, ordered by task and then by age, oldest first.
    pub(crate) fn on_shard(&self, shard: &Shard) -> Vec<(Task, InvocationId)> {
        self.on_shard
            .get(shard)
            .map(|runs| runs.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Returns the number of runs on a shard, and the number of unsure ones among them.
    pub(crate) fn counts_on(&self, shard: &Shard) -> (usize, usize) {
        (
            self.on_shard.get(shard).map_or(0, BTreeSet::len),
            self.unsure.count(shard),
        )
    }

    pub(crate) fn begin(&mut self, task: Task, run: Run) {
        let since = run.since;
        self.index(task, &run);
        let was = self.runs.insert(task, run);
        assert!(was.is_none(), "Invariant: a task has one run of its own");
        let span = self.spans.entry(task.job).or_insert(Span {
            first_start: since,
            last_end: since,
            running: 0,
        });
        span.running += 1;
    }

    fn index(&mut self, task: Task, run: &Run) {
        let on_shard = self.on_shard.entry(run.shard.clone()).or_default();
        on_shard.insert((task, run.invocation));
    }

    fn unindex(&mut self, task: Task, run: &Run) {
        if let Some(runs) = self.on_shard.get_mut(&run.shard) {
            runs.remove(&(task, run.invocation));
            if runs.is_empty() {
                self.on_shard.remove(&run.shard);
            }
        }
        self.unsure.remove(&run.shard, (task, run.invocation));
    }

    /// Ends the main run of the task. `seq` is the record of the completion; `None`: the run never began. `of` is the run whose completion
    /// is stored.
    pub(crate) fn end(&mut self, now: Time, task: Task, of: InvocationId, seq: Option<RecordSeq>) {
        self.forget_run(now, task);
        if let Some(seq) = seq {
            self.note_end(task, of, seq);
        }
    }

    pub(crate) fn note_end(&mut self, task: Task, of: InvocationId, seq: RecordSeq) {
        self.ended.insert(task, of);
        self.pending.entry(seq).or_default().push(task);
        self.pending_by_task.insert(task, seq);
    }

    fn forget_run(&mut self, now: Time, task: Task) {
        let Some(run) = self.runs.remove(&task) else {
            return;
        };
        self.unindex(task, &run);
        self.further.forget_wait(task);
        if let Some(span) = self.spans.get_mut(&task.job) {
            span.running -= 1;
            span.last_end = now;
        }
    }

    pub(crate) fn remember_end(&mut self, task: Task, invocation: InvocationId) {
        self.ended.insert(task, invocation);
    }

    /// Forgets the stored completion of the task, by the record `seq`.
    pub(crate) fn forget_end(&mut self, task: Task, up_to: InvocationId, seq: RecordSeq) {
        self.ended.remove(&task);
        let number = self.deleted.next_number();
        self.remember_deletion(task, Forgotten { up_to, number });
        self.pending.entry(seq).or_default().push(task);
        self.pending_by_task.insert(task, seq);
    }

    /// Forgets the task's stored completion with record `seq`. The completion is so old that no worker repeats its report.
    pub(crate) fn expire_end(&mut self, task: Task, seq: RecordSeq) {
        self.ended.remove(&task);
        self.pending.entry(seq).or_default().push(task);
        self.pending_by_task.insert(task, seq);
    }

    /// Releases memory after many completions have expired. Shrinking is worthwhile only where at most an eighth remains.
    pub(crate) fn shrink(&mut self) {
        if self.ended.len() < self.ended.capacity() / 8 {
            self.ended.shrink_to_fit();
        }
    }

    /// Returns the number of the last deletion.
    pub(crate) fn last_deletion(&self) -> DeletionNumber {
        self.deleted.last()
    }

    /// Returns the number of tasks with a remembered deletion.
    pub(crate) fn count_deleted(&self) -> usize {
        self.deleted.len()
    }

    /// Forgets the deletions up to this one.
    pub(crate) fn settle(&mut self, number: DeletionNumber) {
        self.deleted.settle(number);
    }

    pub(crate) fn remember_deletion(&mut self, task: Task, of: Forgotten) {
        self.deleted.remember(task, of);
    }

    /// Counts a recorded deletion, and returns its number. It covers the completions that were forgotten since the last one.
    pub(crate) fn record_deletion(&mut self) -> DeletionNumber {
        self.deleted.record()
    }

    /// Returns the number of the last deletion before an instance first associated.
    pub(crate) fn associated(&mut self, worker: WorkerId) -> DeletionNumber {
        self.deleted.associated(worker)
    }

    /// Notes that an instance has left for good and reports nothing any more.
    pub(crate) fn left(&mut self, worker: WorkerId) {
        self.deleted.left(worker);
    }

    /// Returns whether a deletion is remembered that no worker can undo any more.
    pub(crate) fn is_drop_due(&self) -> bool {
        self.deleted.is_drop_due()
    }

    /// Drops some of those deletions.
    pub(crate) fn drop_settled_deletions(&mut self) {
        self.deleted.drop_some();
    }

    /// Returns whether the deletion of the task's completions covers this run, whether or not its completion was accepted.
    pub(crate) fn is_deleted(&self, task: Task, invocation: InvocationId) -> bool {
        self.deleted
            .get(task)
            .is_some_and(|up_to| invocation <= up_to)
    }

    /// Returns the last run whose completion was deleted.
    pub(crate) fn last_deleted(&self, task: Task) -> Option<InvocationId> {
        self.deleted.get(task)
    }

    /// Returns more of the nodes of deleted completions. Empty once all of them were returned in this cycle.
    pub(crate) fn next_nodes_of_deleted(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        self.deleted.next_nodes(cycle, limit)
    }

    /// Returns the latest completed run of the task, even if its completion was deleted.
    pub(crate) fn last_ended(&self, task: Task) -> Option<InvocationId> {
        self.ended(task).max(self.last_deleted(task))
    }

    /// Returns the number of stored completions.
    pub(crate) fn completions(&self) -> usize {
        self.ended.len()
    }

    pub(crate) fn ended(&self, task: Task) -> Option<InvocationId> {
        self.ended.get(&task).copied()
    }

    /// Returns the record that an acknowledgement of this task's stored completion must wait for.
    pub(crate) fn pending_record(&self, task: Task) -> Option<RecordSeq> {
        if sabotage::on(Sabotage::AcknowledgeRepeatAtOnce) {
            return None;
        }
        self.pending_by_task.get(&task).copied()
    }

    /// Returns whether the task's stored completion is not durable yet.
    pub(crate) fn is_pending(&self, task: Task) -> bool {
        self.pending_by_task.contains_key(&task)
    }

    pub(crate) fn has_pending_end(&self, job: JobId) -> bool {
        let first = Task {
            job,
            node: NodeId(0),
        };
        let last = Task {
            job,
            node: NodeId(u32::MAX),
        };
        self.pending_by_task.range(first..=last).next().is_some()
    }

    /// Returns the record that makes every stored completion durable; `None` if all are durable.
    pub(crate) fn last_pending(&self) -> Option<RecordSeq> {
        self.pending.last_key_value().map(|(seq, _)| *seq)
    }

    /// Iterates over the tasks whose stored completion is not durable yet.
    pub(crate) fn pending(&self) -> impl Iterator<Item = Task> {
        self.pending_by_task.keys().copied()
    }

    /// Removes and returns the tasks whose latest completion is durable now.
    pub(crate) fn take_persisted(&mut self, up_to: RecordSeq) -> Vec<Task> {
        let mut released = Vec::new();
        while let Some(entry) = self.pending.first_entry() {
            if *entry.key() > up_to {
                break;
            }
            let (seq, tasks) = entry.remove_entry();
            for task in tasks {
                // A later completion of the same task may not be durable yet.
                if self.pending_by_task.get(&task) == Some(&seq) {
                    self.pending_by_task.remove(&task);
                    released.push(task);
                }
            }
        }
        released
    }

    pub(crate) fn elapsed(&self, job: JobId, now: Time) -> Option<Duration> {
        let span = self.spans.get(&job)?;
        let end = if span.running > 0 { now } else { span.last_end };
        Some(end.since(span.first_start))
    }
}
