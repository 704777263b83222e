//! The tasks of an association, from acceptance until the scheduler has acknowledged their completion.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::resources::TaskPhysicalResources;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    GpuShare, InvocationId, ReportedStatus, RunningTask, SchedulerId, Story, TaskKey, Time,
};
use brasserie_worker_fetch::AssociationIndex;

use crate::event::RunTask;
use crate::limits::{LimitTimers, Limits, status_of};
use crate::machine::Machine;
use crate::piece::Piece;
use crate::queue::{Place, Queue};

/// The maximum number of tasks that are open or whose completion is not acknowledged. Each completion is a pending report, so this bounds
/// those reports too.
pub(crate) const MAX_TASKS: usize = 100_000;

/// The maximum bytes of stderr lines in one task list: a quarter of the largest message. Tasks beyond it are listed without their lines. A
/// list that is too large to send would keep the scheduler from knowing what runs.
const LISTED_LINES: usize = 4 * 1024 * 1024;

/// The two nodes that healthchecks may name. Others are refused, so there are at most two healthchecks.
pub(crate) const HEALTHCHECK_NODES: [&str; 2] = ["", HEALTHCHECK_NEW_WORKER_NODE];

/// One run of a task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) running: Arc<RunningTask>,
    /// The scheduler instance that sent the run. A healthcheck answers this instance alone.
    pub(crate) requester: SchedulerId,
    /// The time of acceptance by the worker's own clock. A healthcheck is as fresh as this time.
    pub(crate) accepted_at: Time,
    pub(crate) limits: Option<Limits>,
    pub(crate) stage: Stage,
    /// Present only if the worker fetches work.
    pub(crate) piece: Option<Box<Piece>>,
}

/// The state of a run.
///
/// ```text
///   QUEUED --its turn--> LIVE --process and pipes gone--> ENDED --acknowledged by the scheduler we are bound to--> (forgotten)
///      |                                                    ^
///      +-- killed, a limit is over, or the worker ends -----+
/// ```
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// The task waits until the resources that it needs are free.
    Queued { run: Arc<RunTask>, place: Place },
    /// A process was requested and has not ended.
    Live,
    /// No process is left. The scheduler may not know the completion yet.
    Ended(ReportedStatus),
}

impl Task {
    pub(crate) fn is_live(&self) -> bool {
        match self.stage {
            Stage::Live => true,
            Stage::Queued { .. } | Stage::Ended(_) => false,
        }
    }

    /// Returns whether the run has not ended.
    pub(crate) fn is_open(&self) -> bool {
        match self.stage {
            Stage::Queued { .. } | Stage::Live => true,
            Stage::Ended(_) => false,
        }
    }

    /// Returns whether the run was accepted and its process has not been requested.
    pub(crate) fn is_queued(&self) -> bool {
        self.is_open() && !self.is_live()
    }
}

/// Invariant: at most one task has a given key, and `live` of them have a process. [`Machine`] counts the resources that they use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    by_key: BTreeMap<TaskKey, Task>,
    live: usize,
    /// The shortest kill wait of all processes since there was none.
    shortest_kill_wait: Duration,
    limits: LimitTimers,
}

impl Tasks {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns the number of tasks with a process.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Returns a wait that no process's kill wait is shorter than. While there is no process, returns the last such wait.
    pub(crate) fn shortest_kill_wait(&self) -> Duration {
        self.shortest_kill_wait
    }

    pub(crate) fn get(&self, key: &TaskKey) -> Option<&Task> {
        self.by_key.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TaskKey, &Task)> {
        self.by_key.iter()
    }

    /// Adds a task. No open task may have the key.
    pub(crate) fn insert(
        &mut self,
        machine: &mut Machine,
        (association, key): (AssociationIndex, TaskKey),
        task: Task,
    ) {
        match &task.stage {
            Stage::Queued { place, .. } => {
                let waiting = (association, key.clone());
                machine.queue.insert(*place, waiting, &task.running);
            }
            Stage::Live => self.lives(machine, &task.running),
            Stage::Ended(_) => {}
        }
        self.limits.add(&key, task.limits.as_ref());
        let before = self.by_key.insert(key, task);
        assert!(
            before.is_none_or(|task| !task.is_open()),
            "Invariant: a task has one process at most"
        );
    }

    /// Counts a task whose process begins.
    fn lives(&mut self, machine: &mut Machine, task: &RunningTask) {
        let kill_wait = task.suicide_kill_wait;
        self.shortest_kill_wait = match self.live {
            0 => kill_wait,
            _ => self.shortest_kill_wait.min(kill_wait),
        };
        self.live += 1;
        machine.lives(task);
    }

    /// Stops counting a task whose process is gone.
    fn is_dead(&mut self, machine: &mut Machine, task: &RunningTask) {
        self.live -= 1;
        machine.is_dead(task);
    }

    /// Starts a queued task with these GPUs. Returns the run to start, or `None` if the task is not queued.
    pub(crate) fn begin(
        &mut self,
        machine: &mut Machine,
        key: &TaskKey,
        cards: Vec<GpuShare>,
        now: Time,
    ) -> Option<Arc<RunTask>> {
        let task = self.by_key.get_mut(key).filter(|task| task.is_queued())?;
        if let Some(piece) = &mut task.piece {
            if let Some(fetching) = &mut machine.fetching {
                fetching.left_the_queue(piece);
            }
            piece.has_cards(&cards, &machine.cards);
            piece.begin(now);
        }
        let Stage::Queued { mut run, place } = mem::replace(&mut task.stage, Stage::Live) else {
            return None;
        };
        if task.running.takes_cards() {
            Arc::make_mut(&mut task.running).give_cards(cards);
            Arc::make_mut(&mut run).task = (*task.running).clone();
        }
        let running = Arc::clone(&task.running);
        machine.queue.remove(place);
        self.lives(machine, &running);
        Some(run)
    }

    /// Marks an executing task as stopped, if it may stop, and returns the invocation of its run.
    pub(crate) fn suspend(
        &mut self,
        machine: &mut Machine,
        (of, key): (AssociationIndex, &TaskKey),
        now: Time,
    ) -> Option<InvocationId> {
        let task = self.by_key.get_mut(key).filter(|task| task.is_live())?;
        let piece = task.piece.as_mut();
        let piece = piece.filter(|piece| piece.executes() && !piece.is_ending())?;
        if let Some(fetching) = &mut machine.fetching {
            fetching.stopped(now, of, piece);
        }
        piece.stop(now);
        machine.stops(&task.running);
        Some(task.running.invocation)
    }

    /// Marks a stopped task as executing again, unless it is ending, and returns the invocation of its run.
    pub(crate) fn resume(
        &mut self,
        machine: &mut Machine,
        key: &TaskKey,
        now: Time,
    ) -> Option<InvocationId> {
        let task = self.by_key.get_mut(key).filter(|task| task.is_live())?;
        let piece = task.piece.as_mut();
        let piece = piece.filter(|piece| piece.is_stopped() && !piece.is_ending())?;
        piece.begin(now);
        machine.goes_on(&task.running);
        Some(task.running.invocation)
    }

    /// Records that the task was asked to end. Returns whether it is stopped and was not asked before.
    pub(crate) fn note_kill(&mut self, key: &TaskKey) -> bool {
        let task = self.by_key.get_mut(key);
        let piece = task.and_then(|task| task.piece.as_mut());
        piece.is_some_and(|piece| piece.note_kill())
    }

    /// Moves a queued task to the front of the queue.
    pub(crate) fn move_to_the_front(&mut self, queue: &mut Queue, key: &TaskKey) {
        let task = self.by_key.get_mut(key);
        if let Some(Stage::Queued { place, .. }) = task.map(|task| &mut task.stage) {
            *place = queue.move_to_the_front(*place);
        }
    }

    /// Ends a run whose process is gone or will never exist. Returns the task and its final status, or `None` if the run is unknown or has
    /// ended before.
    pub(crate) fn end(
        &mut self,
        machine: &mut Machine,
        (key, invocation): (&TaskKey, InvocationId),
        (status, mut story): (ReportedStatus, Story),
        now: Time,
    ) -> Option<(&Task, ReportedStatus)> {
        let task = self.open_run(key, invocation)?;
        let limits = task.limits.take();
        if let Some(piece) = &task.piece
            && !piece.waits()
        {
            story.waited = piece.waited();
            // Estimates of run times must not include the time for which the task was stopped.
            story.ran = story.ran.saturating_sub(piece.stopped(now));
        }
        let status = status_of(status, &story, limits.as_ref());
        Arc::make_mut(&mut task.running).story = Some(Arc::new(story));
        let running = Arc::clone(&task.running);
        if task.piece.as_ref().is_some_and(|piece| piece.is_stopped()) {
            // A stopped task has given its processors back already, and `is_dead` gives them back again.
            machine.goes_on(&running);
        }
        match mem::replace(&mut task.stage, Stage::Ended(status.clone())) {
            Stage::Queued { place, .. } => machine.queue.remove(place),
            Stage::Live | Stage::Ended(_) => self.is_dead(machine, &running),
        }
        self.limits.remove(key, limits.as_ref());
        Some((self.by_key.get(key)?, status))
    }

    pub(crate) fn sampled(
        &mut self,
        key: &TaskKey,
        invocation: InvocationId,
        physical: TaskPhysicalResources,
    ) {
        if let Some(task) = self.open_run(key, invocation) {
            Arc::make_mut(&mut task.running).physical = Some(physical);
        }
    }

    /// Returns when the next limit of a run expires.
    pub(crate) fn next_limit(&self) -> Option<Time> {
        self.limits.next()
    }

    /// Returns a run whose limit has expired and that was not asked to end yet.
    pub(crate) fn first_over(&self, now: Time) -> Option<(TaskKey, InvocationId)> {
        let key = self.limits.first_until(now)?;
        let task = self.by_key.get(key);
        let task = task.expect("Invariant: limits are those of live runs");
        Some((key.clone(), task.running.invocation))
    }

    /// Changes the limits of this run, if it is open and has limits.
    pub(crate) fn change_limits(
        &mut self,
        key: &TaskKey,
        invocation: InvocationId,
        change: impl FnOnce(&mut Limits),
    ) {
        let Some(task) = self.open_run(key, invocation) else {
            return;
        };
        let before = task.limits;
        if let Some(limits) = &mut task.limits {
            change(limits);
        }
        let after = task.limits;
        self.limits.remove(key, before.as_ref());
        self.limits.add(key, after.as_ref());
    }

    /// Returns whether this run is queued or has a process.
    pub(crate) fn is_open(&self, key: &TaskKey, invocation: InvocationId) -> bool {
        let task = self.by_key.get(key);
        task.is_some_and(|task| task.is_open() && task.running.invocation == invocation)
    }

    fn open_run(&mut self, key: &TaskKey, invocation: InvocationId) -> Option<&mut Task> {
        self.by_key
            .get_mut(key)
            .filter(|task| task.is_open() && task.running.invocation == invocation)
    }

    /// Forgets an ended run.
    pub(crate) fn forget(&mut self, key: &TaskKey, invocation: InvocationId) -> Option<Task> {
        let task = self.by_key.get(key)?;
        if task.is_open() || task.running.invocation != invocation {
            return None;
        }
        self.by_key.remove(key)
    }

    /// Returns the answer to `getRunningTasks`: all runs but healthchecks. A run whose completion is not acknowledged carries its final
    /// status.
    pub(crate) fn listing(&self) -> Vec<RunningTask> {
        let mut room = LISTED_LINES;
        self.by_key
            .values()
            .filter(|task| !task.running.is_healthcheck())
            .filter(|task| !task.is_queued() || !sabotage::on(Sabotage::HideQueued))
            .map(|task| RunningTask {
                ended: match &task.stage {
                    Stage::Queued { .. } | Stage::Live => None,
                    Stage::Ended(status) => Some(status.clone()),
                },
                story: task.running.story.clone().map(|story| {
                    let bytes: usize = story.last_lines.iter().map(String::len).sum();
                    match bytes <= room {
                        true => {
                            room -= bytes;
                            story
                        }
                        false => Arc::new(Story {
                            last_lines: Vec::new(),
                            ..(*story).clone()
                        }),
                    }
                }),
                ..(*task.running).clone()
            })
            .collect()
    }
}
