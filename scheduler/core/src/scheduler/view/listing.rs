//! Lists tasks with their states and reasons in pages. A page is bounded in listed tasks, in bytes and in scanned tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{
    FailedTries, InvocationId, JobId, ListedState, NodeId, Shard, TaskKey, Time, WallTime,
};
use brasserie_scheduler_engine::{Counts, Task, TaskState};

use super::{Answer, unknown_job};
use crate::runs::Run;
use crate::scheduler::event::{CursorPlace, TaskCursor, TaskList};
use crate::scheduler::{View, task_key};

/// The most tasks of one page: more than a person reads at once.
const MAX_TASKS: usize = 1000;
/// The most bytes of a page's names and reasons, far below the size of a frame. The last task may exceed it.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most tasks that one page scans, listed or not: about two milliseconds of a turn.
const MAX_SCANNED: usize = 5_000;
/// The cost of explaining one task, in scanned tasks: an explanation may check every worker.
const EXPLANATION_COST: usize = 50;
/// The most listed reasons of one task; `brasserie explain` prints all.
const MAX_REASONS: usize = 3;
/// The most characters of one task's reasons.
const MAX_REASON_CHARS: usize = 1000;

fn listed_state(state: TaskState) -> ListedState {
    match state {
        TaskState::Running => ListedState::Running,
        TaskState::Unstarted | TaskState::Incomplete | TaskState::Error => ListedState::Waiting,
        TaskState::InBackoff => ListedState::Backoff,
        TaskState::Failed => ListedState::Failed,
        TaskState::Never => ListedState::Never,
        TaskState::Done => ListedState::Done,
        TaskState::Avoided | TaskState::Disabled => ListedState::Disabled,
    }
}

/// Returns the number of a job's tasks in this state that do not run.
fn count(state: ListedState, counts: &Counts) -> u64 {
    match state {
        ListedState::Running | ListedState::Unsure | ListedState::Standby => 0,
        ListedState::Waiting => counts.unstarted + counts.incomplete + counts.error,
        ListedState::Backoff => counts.in_backoff,
        ListedState::Failed => counts.failed,
        ListedState::Never => counts.never,
        ListedState::Done => counts.done,
        ListedState::Disabled => counts.avoided + counts.disabled,
    }
}

/// The first place of a job.
const FIRST: CursorPlace = CursorPlace::Running(NodeId(0));

/// One page of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPage {
    pub tasks: Vec<ListedTask>,
    /// `None` on the last page.
    pub next: Option<TaskCursor>,
    pub wall: WallTime,
}

/// One task of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTask {
    pub task: TaskKey,
    pub state: ListedState,
    /// The worker and the invocation of a running task.
    pub run: Option<(Shard, InvocationId)>,
    /// The start of the present run, or else the completion of the last one.
    pub since: Option<WallTime>,
    /// The consecutive tries that failed; `None`: no try failed, or the number is not known.
    pub tries: Option<FailedTries>,
    /// The error of the last run, or the reasons why the task does not run.
    pub reason: Option<String>,
}

impl ListedTask {
    fn bytes(&self) -> usize {
        let reason = self.reason.as_ref().map_or(0, String::len);
        let shard = self
            .run
            .as_ref()
            .map_or(0, |(shard, _)| shard.as_str().len());
        self.task.job.as_str().len() + self.task.node.as_str().len() + shard + reason
    }
}

/// A page under construction.
struct PageBuilder<'a> {
    scheduler: View<'a>,
    now: Time,
    states: BTreeSet<ListedState>,
    limit: usize,
    /// Tasks that the page may still scan.
    scans_left: usize,
    bytes: usize,
    tasks: Vec<ListedTask>,
}

impl View<'_> {
    /// Returns one page of tasks, or [`Answer::Unknown`] for an unknown job or a cursor of another scheduler instance.
    pub(in crate::scheduler) fn list_tasks(&self, now: Time, list: &TaskList) -> Answer {
        if list.after.is_some_and(|after| after.scheduler != self.id) {
            let why = "the scheduler has started anew since the first page; list the tasks again";
            return Answer::Unknown(why.to_owned());
        }
        let (first, end) = match &list.job {
            None => (0, self.engine.job_ids()),
            Some(job) => match self.find_listed(job) {
                Some(JobId(id)) => (id, id + 1),
                None => {
                    let unknown = unknown_job(&self.engine, job);
                    return Answer::Unknown(self.and_config(unknown));
                }
            },
        };
        let mut page = PageBuilder {
            scheduler: *self,
            now,
            states: wanted(&list.states),
            limit: list.limit.clamp(1, MAX_TASKS),
            scans_left: MAX_SCANNED,
            bytes: 0,
            tasks: Vec::new(),
        };
        let (job, mut place) = list
            .after
            .map_or((first, FIRST), |after| (after.job.0, after.place));
        for job in (job.max(first)..end).map(JobId) {
            if let Some(place) = page.add_job(job, place) {
                let scheduler = self.id;
                let next = TaskCursor {
                    scheduler,
                    job,
                    place,
                };
                return page.finish(Some(next));
            }
            place = FIRST;
        }
        page.finish(None)
    }

    /// Finds a job that is configured or has running tasks.
    pub(in crate::scheduler) fn find_listed(&self, job: &str) -> Option<JobId> {
        let id = self.engine.find_job(job)?;
        let is_configured = self.engine.job_config(id).is_some();
        (is_configured || self.runs.runs_of(id).next().is_some()).then_some(id)
    }
}

/// Returns when the run started. A run that this scheduler adopted at `known` may be older: its invocation id has the start in whole seconds,
/// and the end of that second is the latest start.
fn since_start(run: &Run, known: WallTime) -> WallTime {
    known.min(WallTime::from_secs(
        run.invocation.0.start_time.saturating_add(1),
    ))
}

/// Returns for how long a run has run that this scheduler has known for `known`.
pub(super) fn running_for(run: &Run, wall: WallTime, known: Duration) -> Duration {
    let since = since_start(run, wall - known).as_millis();
    Duration::from_millis(u64::try_from(wall.as_millis().saturating_sub(since)).unwrap_or(0))
}

fn wanted(states: &BTreeSet<ListedState>) -> BTreeSet<ListedState> {
    if !states.is_empty() {
        return states.clone();
    }
    let all = ListedState::ALL.into_iter();
    all.filter(|state| *state != ListedState::Disabled)
        .collect()
}

impl PageBuilder<'_> {
    fn finish(self, next: Option<TaskCursor>) -> Answer {
        Answer::Tasks(TaskPage {
            tasks: self.tasks,
            next,
            wall: self.scheduler.wall,
        })
    }

    fn is_full(&self) -> bool {
        self.scans_left == 0 || self.tasks.len() >= self.limit || self.bytes >= MAX_BYTES
    }

    /// Adds a job's tasks from `place` on until the page is full. Returns the place where the next page continues.
    fn add_job(&mut self, job: JobId, place: CursorPlace) -> Option<CursorPlace> {
        if self.is_full() {
            return Some(place);
        }
        self.scans_left -= 1;
        match place {
            CursorPlace::Running(node) => self
                .add_running(Task { job, node })
                .or_else(|| self.add_rest(job, None)),
            CursorPlace::Rest(after) => self.add_rest(job, after),
        }
    }

    fn add_running(&mut self, first: Task) -> Option<CursorPlace> {
        let is_wanted = |state| self.states.contains(&state);
        if ![
            ListedState::Running,
            ListedState::Unsure,
            ListedState::Standby,
        ]
        .into_iter()
        .any(is_wanted)
        {
            return None;
        }
        let mut last = None;
        for (task, run) in self.scheduler.0.runs.runs_from(first) {
            // The runs of one task stay on one page, because a cursor names a node and not a run.
            if self.is_full() && last != Some(task) {
                return Some(CursorPlace::Running(task.node));
            }
            last = Some(task);
            self.scans_left = self.scans_left.saturating_sub(1);
            let listed = self.running(task, run);
            if self.states.contains(&listed.state) {
                self.add(listed);
            }
        }
        None
    }

    fn running(&self, task: Task, run: &Run) -> ListedTask {
        let wall = self.scheduler.wall;
        let standby = self.scheduler.engine.standby_rank(task);
        let (state, reason) = match (run.is_unsure(), standby) {
            (false, Some(before)) => {
                let position = format!("position {} at `{}`", before + 1, run.shard);
                (ListedState::Standby, Some(position))
            }
            (false, None) => {
                let doubt = self.scheduler.pool.doubt_about(
                    self.now,
                    &self.scheduler.options.timeouts,
                    &run.shard,
                );
                let doubt = doubt.map(|doubt| format!("it runs on `{}`, {doubt}", run.shard));
                (ListedState::Running, doubt)
            }
            (true, _) => {
                let why = "it is not known whether it runs; its worker is asked";
                (ListedState::Unsure, Some(why.to_owned()))
            }
        };
        ListedTask {
            task: task_key(&self.scheduler.engine, task),
            state,
            run: Some((run.shard.clone(), run.invocation)),
            since: Some(since_start(run, wall - self.now.since(run.since))),
            tries: self.scheduler.engine.failed_tries(task),
            reason,
        }
    }

    fn add_rest(&mut self, job: JobId, after: Option<(NodeId, usize)>) -> Option<CursorPlace> {
        let engine = &self.scheduler.0.engine;
        let counts = engine.counts(job);
        if self.states.iter().all(|state| count(*state, &counts) == 0) {
            return None;
        }
        let mut scanned = after;
        let first = after.map_or(0, |(node, place)| {
            // If the node no longer exists, its successor now has the node's index.
            let found = engine.place_of(Task { job, node });
            found.map_or(place, |place| place + 1)
        });
        for (place, task) in engine.tasks_from(job, first) {
            if self.is_full() {
                return Some(CursorPlace::Rest(scanned));
            }
            scanned = Some((task.node, place));
            self.scans_left -= 1;
            let state = engine.task_state(task);
            if state != TaskState::Running && self.states.contains(&listed_state(state)) {
                let listed = self.not_running(task, listed_state(state));
                self.add(listed);
            }
        }
        None
    }

    fn not_running(&mut self, task: Task, state: ListedState) -> ListedTask {
        let status = self.scheduler.engine.previous_status(task);
        let last = status.as_ref().and_then(|status| status.exception());
        // Marks a completion that a crash may still lose. For a waiting task, its reasons already say so.
        let mark = self
            .scheduler
            .runs
            .is_pending(task)
            .then_some("its end is not yet on disk");
        let reason = match state {
            ListedState::Done | ListedState::Failed => {
                let parts: Vec<&str> = last.into_iter().chain(mark).collect();
                (!parts.is_empty()).then(|| parts.join("; "))
            }
            ListedState::Running
            | ListedState::Unsure
            | ListedState::Standby
            | ListedState::Waiting
            | ListedState::Backoff
            | ListedState::Never
            | ListedState::Disabled => {
                self.scans_left = self.scans_left.saturating_sub(EXPLANATION_COST);
                let mut reasons = self.scheduler.reasons(self.now, task);
                reasons.truncate(MAX_REASONS);
                let last = last.filter(|_| state == ListedState::Waiting);
                reasons.extend(last.map(|last| format!("its last run: {last}")));
                Some(reasons.join("; "))
            }
        };
        ListedTask {
            task: task_key(&self.scheduler.engine, task),
            state,
            run: None,
            since: status.map(|status| status.time),
            tries: self.scheduler.engine.failed_tries(task),
            reason: reason.map(|text| text.chars().take(MAX_REASON_CHARS).collect()),
        }
    }

    fn add(&mut self, task: ListedTask) {
        self.bytes += task.bytes();
        self.tasks.push(task);
    }
}
