//! Lists tasks page by page: which state each is in, since when, and why. A page is bounded in tasks, in bytes and in what it looks at.

use std::collections::BTreeSet;

use brasserie_common::{
    InvocationId, JobId, ListedState, NodeId, SchedulerId, Shard, TaskKey, Time, WallTime,
};
use brasserie_scheduler_engine::{Counts, Task, TaskState};

use crate::scheduler::Scheduler;
use crate::tasks::Run;
use crate::view::Answer;

/// Tasks of one page: more than anybody reads at once.
const MAX_TASKS: usize = 1000;
/// Bytes of their names and reasons: far below a frame. One task more may come on top.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Tasks that a page looks at, whether or not it lists them: about two milliseconds of the turn.
const LOOKS: usize = 5_000;
/// To explain a task costs as much as so many looks: it may ask each worker.
const EXPLAINED: usize = 50;
/// Reasons that are listed of one task; `explain` gives all.
const MAX_REASONS: usize = 3;
/// Characters of them.
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

/// How many tasks of a job are in this state and do not run.
fn count(state: ListedState, counts: &Counts) -> u64 {
    match state {
        ListedState::Running | ListedState::Unsure => 0,
        ListedState::Waiting => counts.unstarted + counts.incomplete + counts.error,
        ListedState::Backoff => counts.in_backoff,
        ListedState::Failed => counts.failed,
        ListedState::Never => counts.never,
        ListedState::Done => counts.done,
        ListedState::Disabled => counts.avoided + counts.disabled,
    }
}

/// Which tasks a page is about.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskList {
    /// `None`: of all jobs, also of such as are configured no more and still run.
    pub job: Option<String>,
    /// Empty: all but [`ListedState::Disabled`].
    pub states: BTreeSet<ListedState>,
    /// `None`: the first page.
    pub after: Option<TaskCursor>,
    pub limit: usize,
}

/// Where the next page begins. Jobs go by their ids, which mean something to one scheduler instance only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskCursor {
    pub scheduler: SchedulerId,
    pub job: JobId,
    pub place: CursorPlace,
}

/// A place among a job's tasks: first come those that run, by node, then the others in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorPlace {
    /// The running tasks from this node on.
    Running(NodeId),
    /// The others, after this one, which stood at this place; `None`: from the first on.
    Rest(Option<(NodeId, usize)>),
}

impl CursorPlace {
    const FIRST: CursorPlace = CursorPlace::Running(NodeId(0));
}

/// Some tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPage {
    pub tasks: Vec<ListedTask>,
    /// `None`: there are no more.
    pub next: Option<TaskCursor>,
    pub wall: WallTime,
}

/// A task in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTask {
    pub task: TaskKey,
    pub state: ListedState,
    /// Where it runs.
    pub run: Option<(Shard, InvocationId)>,
    /// Since when it runs, or else when its last run ended.
    pub since: Option<WallTime>,
    /// How its last run ended, if not well; why it does not run.
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

/// A page that is being filled.
struct Filling<'a> {
    scheduler: &'a Scheduler,
    now: Time,
    states: BTreeSet<ListedState>,
    limit: usize,
    looks_left: usize,
    bytes: usize,
    tasks: Vec<ListedTask>,
}

impl Scheduler {
    /// One page of tasks.
    pub(crate) fn list_tasks(&self, now: Time, list: &TaskList) -> Answer {
        if list.after.is_some_and(|after| after.scheduler != self.id()) {
            let why = "the scheduler has started anew since the first page; list the tasks again";
            return Answer::Unknown(why.to_owned());
        }
        let (first, end) = match &list.job {
            None => (0, self.engine().job_ids()),
            Some(job) => match self.find_listed(job) {
                Some(JobId(id)) => (id, id + 1),
                None => {
                    let unknown = format!("no job is called `{job}`");
                    return Answer::Unknown(self.and_config(unknown));
                }
            },
        };
        let mut page = Filling {
            scheduler: self,
            now,
            states: wanted(&list.states),
            limit: list.limit.clamp(1, MAX_TASKS),
            looks_left: LOOKS,
            bytes: 0,
            tasks: Vec::new(),
        };
        let (job, mut place) = list.after.map_or((first, CursorPlace::FIRST), |after| {
            (after.job.0, after.place)
        });
        for job in (job.max(first)..end).map(JobId) {
            if let Some(place) = page.add_job(job, place) {
                let scheduler = self.id();
                let next = TaskCursor {
                    scheduler,
                    job,
                    place,
                };
                return page.end(Some(next));
            }
            place = CursorPlace::FIRST;
        }
        page.end(None)
    }

    /// A job that is configured, or has tasks that run.
    fn find_listed(&self, job: &str) -> Option<JobId> {
        let id = self.engine().find_job(job)?;
        let is_configured = self.engine().job_config(id).is_some();
        (is_configured || self.tasks().runs_of(id).next().is_some()).then_some(id)
    }
}

fn wanted(states: &BTreeSet<ListedState>) -> BTreeSet<ListedState> {
    if !states.is_empty() {
        return states.clone();
    }
    let all = ListedState::ALL.into_iter();
    all.filter(|state| *state != ListedState::Disabled)
        .collect()
}

impl Filling<'_> {
    fn end(self, next: Option<TaskCursor>) -> Answer {
        Answer::Tasks(TaskPage {
            tasks: self.tasks,
            next,
            wall: self.scheduler.wall(),
        })
    }

    fn is_full(&self) -> bool {
        self.looks_left == 0 || self.tasks.len() >= self.limit || self.bytes >= MAX_BYTES
    }

    /// Adds what of a job fits, from a place on; where to go on if the page is full.
    fn add_job(&mut self, job: JobId, place: CursorPlace) -> Option<CursorPlace> {
        if self.is_full() {
            return Some(place);
        }
        self.looks_left -= 1;
        match place {
            CursorPlace::Running(node) => self
                .add_running(Task { job, node })
                .or_else(|| self.add_rest(job, None)),
            CursorPlace::Rest(after) => self.add_rest(job, after),
        }
    }

    fn add_running(&mut self, first: Task) -> Option<CursorPlace> {
        let is_wanted = |state| self.states.contains(&state);
        if !is_wanted(ListedState::Running) && !is_wanted(ListedState::Unsure) {
            return None;
        }
        let mut last = None;
        for (task, run) in self.scheduler.tasks().runs_from(first) {
            // All runs of one task come together.
            if self.is_full() && last != Some(task) {
                return Some(CursorPlace::Running(task.node));
            }
            last = Some(task);
            self.looks_left = self.looks_left.saturating_sub(1);
            let listed = self.running(task, run);
            if self.states.contains(&listed.state) {
                self.add(listed);
            }
        }
        None
    }

    fn running(&self, task: Task, run: &Run) -> ListedTask {
        let wall = self.scheduler.wall();
        let (state, reason) = match run.is_unsure() {
            false => (ListedState::Running, None),
            true => {
                let why = "it is not known whether it runs; its worker is asked";
                (ListedState::Unsure, Some(why.to_owned()))
            }
        };
        ListedTask {
            task: self.scheduler.task_key(task),
            state,
            run: Some((run.shard.clone(), run.invocation)),
            since: Some(wall - self.now.since(run.since)),
            reason,
        }
    }

    fn add_rest(&mut self, job: JobId, after: Option<(NodeId, usize)>) -> Option<CursorPlace> {
        let engine = self.scheduler.engine();
        let counts = engine.counts(job);
        if self.states.iter().all(|state| count(*state, &counts) == 0) {
            return None;
        }
        let mut looked_at = after;
        let first = after.map_or(0, |(node, place)| {
            // If its node is gone, the next one has moved up.
            let found = engine.place_of(Task { job, node });
            found.map_or(place, |place| place + 1)
        });
        for (place, task) in engine.tasks_from(job, first) {
            if self.is_full() {
                return Some(CursorPlace::Rest(looked_at));
            }
            looked_at = Some((task.node, place));
            self.looks_left -= 1;
            let state = engine.task_state(task);
            if state != TaskState::Running && self.states.contains(&listed_state(state)) {
                let listed = self.not_running(task, listed_state(state));
                self.add(listed);
            }
        }
        None
    }

    fn not_running(&mut self, task: Task, state: ListedState) -> ListedTask {
        let status = self.scheduler.engine().previous_status(task);
        let last = status.as_ref().and_then(|status| status.exception());
        // An end that a crash may still lose is marked; the reasons of a task that waits for it say so.
        let mark = self
            .scheduler
            .tasks()
            .is_pending(task)
            .then_some("its end is not yet on disk");
        let reason = match state {
            ListedState::Done | ListedState::Failed => {
                let parts: Vec<&str> = last.into_iter().chain(mark).collect();
                (!parts.is_empty()).then(|| parts.join("; "))
            }
            ListedState::Running
            | ListedState::Unsure
            | ListedState::Waiting
            | ListedState::Backoff
            | ListedState::Never
            | ListedState::Disabled => {
                self.looks_left = self.looks_left.saturating_sub(EXPLAINED);
                let mut reasons = self.scheduler.reasons(self.now, task);
                reasons.truncate(MAX_REASONS);
                let last = last.filter(|_| state == ListedState::Waiting);
                reasons.extend(last.map(|last| format!("its last run: {last}")));
                Some(reasons.join("; "))
            }
        };
        ListedTask {
            task: self.scheduler.task_key(task),
            state,
            run: None,
            since: status.map(|status| status.time),
            reason: reason.map(|text| text.chars().take(MAX_REASON_CHARS).collect()),
        }
    }

    fn add(&mut self, task: ListedTask) {
        self.bytes += task.bytes();
        self.tasks.push(task);
    }
}
