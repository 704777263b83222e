//! The tasks of an association, from acceptance until the scheduler has acknowledged their completion.

mod limits;
mod pull_task;
mod slots;

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::resources::TaskPhysicalResources;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    Card, CardUse, GpuShare, InvocationId, Kill, LeftOutput, RefusalCode, ReportPolicy,
    ReportedStatus, RunningTask, SchedulerId, Story, TaskKey, Time,
};

use self::limits::{LimitTimers, RunLimits, status_of};
use self::slots::{SlotsInUse, is_charged_elsewhere};
use crate::effect::Refusal;
use crate::event::RunTask;
use crate::machine::Place;
pub(crate) use pull_task::PullTask;

/// The maximum number of tasks that are open or whose completion is not acknowledged. Each completion is a pending report, so this bounds
/// those reports too.
const MAX_TASKS: usize = 100_000;

/// The maximum bytes of stderr lines in one task list: a quarter of the largest message. Tasks beyond it are listed without their lines. A
/// list that is too large to send would keep the scheduler from knowing what runs.
const LISTED_LINES: usize = 4 * 1024 * 1024;

/// The two nodes that healthchecks may name. Others are refused, so there are at most two healthchecks.
pub(crate) const HEALTHCHECK_NODES: [&str; 2] = ["", HEALTHCHECK_NEW_WORKER_NODE];

/// One run of a task.
#[derive(Clone, Debug)]
pub(crate) struct WorkerTask {
    pub running: Arc<RunningTask>,
    /// The scheduler instance that sent the run. A healthcheck answers this instance alone.
    pub requester: SchedulerId,
    /// The time of acceptance by the worker's own clock. A healthcheck is as fresh as this time.
    pub accepted_at: Time,
    limits: Option<RunLimits>,
    pub stage: RunStage,
    /// The time that the task stood by for slots before it began.
    stood_by: Duration,
    /// Present only at a pull worker, and not for healthchecks.
    pub pull: Option<Box<PullTask>>,
}

/// The state of a run.
///
/// ```text
///   QUEUED --its turn--> LIVE --process and pipes gone--> ENDED --acknowledged by the scheduler we are bound to--> (forgotten)
///      |                                                    ^
///      +-- killed, a limit is over, or the worker ends -----+
/// ```
#[derive(Clone, Debug)]
pub(crate) enum RunStage {
    /// The task waits until the resources that it needs are free.
    Queued { run: Arc<RunTask>, place: Place },
    /// A process was requested and has not ended.
    Live,
    /// No process is left. The scheduler may not know the completion yet.
    Ended(ReportedStatus),
}

impl WorkerTask {
    /// Returns a run that is accepted now.
    pub(crate) fn new(
        now: Time,
        run: &RunTask,
        stage: RunStage,
        pull: Option<Box<PullTask>>,
    ) -> Self {
        WorkerTask {
            running: Arc::new(run.task.clone()),
            requester: run.scheduler,
            accepted_at: now,
            limits: RunLimits::new(now, &run.options, &run.task),
            stage,
            stood_by: Duration::ZERO,
            pull,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        match self.stage {
            RunStage::Live => true,
            RunStage::Queued { .. } | RunStage::Ended(_) => false,
        }
    }

    /// Returns whether the run has not ended.
    pub(crate) fn is_open(&self) -> bool {
        match self.stage {
            RunStage::Queued { .. } | RunStage::Live => true,
            RunStage::Ended(_) => false,
        }
    }

    /// Returns whether the run was accepted and its process has not been requested.
    pub(crate) fn is_queued(&self) -> bool {
        self.is_open() && !self.is_live()
    }

    /// Returns whether the completion may wait for others: the task stood by for slots of the worker and frees no others, and its job does
    /// not want reports at once.
    pub(crate) fn may_delay_report(&self) -> bool {
        let is_immediate = self.running.work.report == Some(ReportPolicy::Immediate);
        self.stood_by > Duration::ZERO && !is_immediate && !is_charged_elsewhere(&self.running)
    }

    /// Returns whether the process is stopped in favour of others.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_live() && self.pull.as_ref().is_some_and(|pull| pull.is_stopped())
    }

    /// Returns the data for the policies of a task that executes and may be stopped.
    pub(crate) fn stoppable(&self) -> Option<&PullTask> {
        let pull = self.pull.as_deref().filter(|_| self.is_live())?;
        (pull.executes() && !pull.is_ending()).then_some(pull)
    }
}

/// A queued task that has just begun.
#[derive(Debug)]
pub(crate) struct BegunTask {
    pub running: Arc<RunningTask>,
    pub run: Arc<RunTask>,
    /// Its former place in the queue.
    pub place: Place,
}

/// A run that has just ended.
#[derive(Debug)]
pub(crate) struct RunEnd<'a> {
    pub task: &'a WorkerTask,
    /// The final status.
    pub status: ReportedStatus,
    pub before: BeforeEnd,
}

/// The state of a run before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeforeEnd {
    Queued(Place),
    Executing,
    Stopped,
}

/// A run whose time limit has expired.
#[derive(Debug)]
pub(crate) struct Expired {
    pub key: TaskKey,
    pub invocation: InvocationId,
    pub is_queued: bool,
    /// How to end its process.
    pub kill: Kill,
}

/// The tasks of one association.
///
/// Invariant: at most one task has a given key, and `live` of them have a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    by_key: BTreeMap<TaskKey, WorkerTask>,
    live: usize,
    /// The slots that these use.
    slots: SlotsInUse,
    /// The shortest kill wait of all processes since there was none.
    shortest_kill_wait: Duration,
    limits: LimitTimers,
}

impl Tasks {
    /// Returns the number of tasks with a process.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Returns a wait that no process's kill wait is shorter than. While there is no process, returns the last such wait.
    pub(crate) fn shortest_kill_wait(&self) -> Duration {
        self.shortest_kill_wait
    }

    pub(crate) fn get(&self, key: &TaskKey) -> Option<&WorkerTask> {
        self.by_key.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TaskKey, &WorkerTask)> {
        self.by_key.iter()
    }

    /// Refuses a run if a task with its key does not permit it.
    pub(crate) fn check_key(&self, run: &RunTask) -> Result<(), Refusal> {
        let known = self.by_key.get(&run.task.key());
        if run.task.is_healthcheck() {
            return match known {
                Some(known) if known.is_open() || known.requester >= run.scheduler => Err(
                    Refusal::new(RefusalCode::Duplicate, "another healthcheck is not over"),
                ),
                Some(_) | None => Ok(()),
            };
        }
        let Some(known) = known else {
            return Ok(());
        };
        let (job, node, other) = (&run.task.job, &run.task.node, known.running.invocation);
        let what = match known.stage {
            RunStage::Queued { .. } => "waits here",
            RunStage::Live => "runs",
            RunStage::Ended(_) => "has ended, which is not acknowledged yet",
        };
        Err(Refusal::new(
            RefusalCode::Duplicate,
            format!("task `{job}` on `{node}`: invocation {other} {what}"),
        ))
    }

    /// Refuses a task if there are too many.
    pub(crate) fn check_number(&self) -> Result<(), Refusal> {
        if self.by_key.len() < MAX_TASKS {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::Busy,
            format!("{MAX_TASKS} tasks run here or wait to be acknowledged"),
        ))
    }

    /// Adds a task. No open task may have the key.
    pub(crate) fn insert(&mut self, key: TaskKey, task: WorkerTask) {
        match &task.stage {
            RunStage::Live => self.count_begin(&task.running),
            RunStage::Queued { .. } | RunStage::Ended(_) => {}
        }
        self.limits.add(&key, task.limits.as_ref());
        let before = self.by_key.insert(key, task);
        assert!(
            before.is_none_or(|task| !task.is_open()),
            "Invariant: a task has one process at most"
        );
    }

    /// Counts a task whose process begins.
    fn count_begin(&mut self, task: &RunningTask) {
        let kill_wait = task.suicide_kill_wait;
        self.shortest_kill_wait = match self.live {
            0 => kill_wait,
            _ => self.shortest_kill_wait.min(kill_wait),
        };
        self.live += 1;
        self.slots.take(task);
    }

    /// Returns whether the tasks with a process leave room for a task under the slots that its scheduler states.
    pub(crate) fn have_slots_for(&self, task: &RunningTask) -> bool {
        self.slots.have_room_for(task)
    }

    /// Starts a queued task with these GPUs, which are among the machine's. `None` if the task is not queued.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        key: &TaskKey,
        own: Vec<GpuShare>,
        machine: &[Card],
    ) -> Option<BegunTask> {
        let task = self.by_key.get_mut(key).filter(|task| task.is_queued())?;
        if let Some(pull) = &mut task.pull {
            pull.set_cards(&own, machine);
            pull.begin(now);
        }
        let RunStage::Queued { mut run, place } = mem::replace(&mut task.stage, RunStage::Live)
        else {
            return None;
        };
        if task.running.worker_slots.is_some() {
            // The task is listed as one that has begun from now on.
            Arc::make_mut(&mut task.running).worker_slots = None;
            task.stood_by = now.since(task.accepted_at);
        }
        if task.running.takes_cards() {
            Arc::make_mut(&mut task.running).give_cards(own);
            Arc::make_mut(&mut run).task = (*task.running).clone();
        }
        let running = Arc::clone(&task.running);
        self.count_begin(&running);
        Some(BegunTask {
            running,
            run,
            place,
        })
    }

    /// Marks an executing task as stopped, if it may stop, and returns its run.
    pub(crate) fn suspend(&mut self, now: Time, key: &TaskKey) -> Option<Arc<RunningTask>> {
        let task = self.by_key.get_mut(key)?;
        task.stoppable()?;
        task.pull.as_mut()?.stop(now);
        let running = Arc::clone(&task.running);
        self.change_limits(key, running.invocation, |limits| limits.stopped(now));
        Some(running)
    }

    /// Marks a stopped task as executing again, unless it is ending, and returns its run.
    pub(crate) fn resume(&mut self, now: Time, key: &TaskKey) -> Option<Arc<RunningTask>> {
        let task = self.by_key.get_mut(key).filter(|task| task.is_live())?;
        let pull = task.pull.as_mut();
        let pull = pull.filter(|pull| pull.is_stopped() && !pull.is_ending())?;
        pull.begin(now);
        let running = Arc::clone(&task.running);
        self.change_limits(key, running.invocation, |limits| limits.resumed(now));
        Some(running)
    }

    /// Records that this run was asked to end. Returns whether its process is stopped and was not asked before: then it must continue, or
    /// it would not handle the signal.
    pub(crate) fn record_kill(
        &mut self,
        now: Time,
        key: &TaskKey,
        invocation: InvocationId,
    ) -> bool {
        let task = self.by_key.get_mut(key);
        let pull = task.and_then(|task| task.pull.as_mut());
        let must_continue = pull.is_some_and(|pull| pull.record_kill());
        if must_continue {
            self.change_limits(key, invocation, |limits| limits.resumed(now));
        }
        must_continue
    }

    /// Changes the place of a queued task to the one that `new` returns.
    pub(crate) fn change_place(&mut self, key: &TaskKey, new: impl FnOnce(Place) -> Place) {
        let task = self.by_key.get_mut(key);
        if let Some(RunStage::Queued { place, .. }) = task.map(|task| &mut task.stage) {
            *place = new(*place);
        }
    }

    /// Ends a run whose process is gone or will never exist. `None` if the run is unknown or has ended before.
    pub(crate) fn end(
        &mut self,
        now: Time,
        (key, invocation): (&TaskKey, InvocationId),
        (status, mut story): (ReportedStatus, Story),
    ) -> Option<RunEnd<'_>> {
        let task = self.open_run(key, invocation)?;
        let limits = task.limits.take();
        if let Some(pull) = &task.pull
            && !pull.waits()
        {
            story.waited = pull.waited();
            // Estimates of run times must not include the time for which the task was stopped.
            story.ran = story.ran.map(|ran| ran.saturating_sub(pull.stopped(now)));
        }
        if task.stood_by > Duration::ZERO {
            story.waited = task.stood_by;
        }
        let status = status_of(status, &story, limits.as_ref());
        Arc::make_mut(&mut task.running).story = Some(Arc::new(story));
        let was_stopped = task.is_stopped();
        let running = Arc::clone(&task.running);
        let before = match mem::replace(&mut task.stage, RunStage::Ended(status.clone())) {
            RunStage::Queued { place, .. } => BeforeEnd::Queued(place),
            RunStage::Live | RunStage::Ended(_) => {
                self.live -= 1;
                self.slots.give_back(&running);
                match was_stopped {
                    true => BeforeEnd::Stopped,
                    false => BeforeEnd::Executing,
                }
            }
        };
        self.limits.remove(key, limits.as_ref());
        Some(RunEnd {
            task: self.by_key.get(key)?,
            status,
            before,
        })
    }

    /// Records the resources that a run uses.
    pub(crate) fn record_sample(
        &mut self,
        key: &TaskKey,
        invocation: InvocationId,
        physical: TaskPhysicalResources,
    ) {
        if let Some(task) = self.open_run(key, invocation) {
            Arc::make_mut(&mut task.running).physical = Some(physical);
        }
    }

    /// Records the outputs that a run has left. They travel with its completion.
    pub(crate) fn record_outputs(
        &mut self,
        run: (&TaskKey, InvocationId),
        outputs: Vec<LeftOutput>,
    ) {
        if let Some(task) = self.open_run(run.0, run.1)
            && !sabotage::on(Sabotage::ForgetOutputs)
        {
            Arc::make_mut(&mut task.running).outputs = outputs;
        }
    }

    /// Returns when the next limit of a run expires.
    pub(crate) fn next_limit(&self) -> Option<Time> {
        self.limits.next()
    }

    /// Starts the timeout of a run, because its process exists.
    pub(crate) fn record_process(&mut self, now: Time, key: &TaskKey, invocation: InvocationId) {
        let task = self.by_key.get(key);
        let pull = task.and_then(|task| task.pull.as_ref());
        let is_stopped = pull.is_some_and(|pull| pull.is_stopped() && !pull.is_ending());
        self.change_limits(key, invocation, |limits| {
            limits.started(now);
            if is_stopped {
                limits.stopped(now);
            }
        });
    }

    /// Takes a run whose limit has expired. Each run is taken once.
    pub(crate) fn take_expired(&mut self, now: Time) -> Option<Expired> {
        let key = self.limits.first_until(now)?.clone();
        let task = self.by_key.get(&key);
        let task = task.expect("Invariant: limits are those of live runs");
        let (invocation, is_queued) = (task.running.invocation, task.is_queued());
        let mut kill = None;
        self.change_limits(&key, invocation, |limits| kill = limits.expire());
        Some(Expired {
            key,
            invocation,
            is_queued,
            kill: kill.expect("Invariant: a timer is that of a limit that is due"),
        })
    }

    /// Changes the limits of this run, if it is open and has limits.
    fn change_limits(
        &mut self,
        key: &TaskKey,
        invocation: InvocationId,
        change: impl FnOnce(&mut RunLimits),
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

    fn open_run(&mut self, key: &TaskKey, invocation: InvocationId) -> Option<&mut WorkerTask> {
        self.by_key
            .get_mut(key)
            .filter(|task| task.is_open() && task.running.invocation == invocation)
    }

    /// Forgets an ended run.
    pub(crate) fn forget(&mut self, key: &TaskKey, invocation: InvocationId) -> Option<WorkerTask> {
        let task = self.by_key.get(key)?;
        if task.is_open() || task.running.invocation != invocation {
            return None;
        }
        self.by_key.remove(key)
    }

    /// Returns the answer to `getRunningTasks`: all runs but healthchecks, and queued ones last, in their order. A run whose completion is
    /// not acknowledged carries its final status.
    pub(crate) fn listing(&self) -> Vec<RunningTask> {
        let mut room = LISTED_LINES;
        let mut tasks: Vec<&WorkerTask> = self.by_key.values().collect();
        tasks.sort_by_key(|task| match &task.stage {
            RunStage::Queued { place, .. } => Some(*place),
            RunStage::Live | RunStage::Ended(_) => None,
        });
        let tasks = tasks.into_iter();
        tasks
            .filter(|task| !task.running.is_healthcheck())
            .filter(|task| !task.is_queued() || !sabotage::on(Sabotage::HideQueued))
            .map(|task| RunningTask {
                ended: match &task.stage {
                    RunStage::Queued { .. } | RunStage::Live => None,
                    RunStage::Ended(status) => Some(status.clone()),
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

    /// Returns the GPUs that the processes of this association use.
    pub(crate) fn card_use(&self) -> CardUse {
        let mut own = CardUse::default();
        for task in self.by_key.values().filter(|task| task.is_live()) {
            own.take(&task.running.gpus);
        }
        own
    }

    /// Writes the state for fingerprints. `queued` writes the place of a queued task.
    pub(crate) fn shape<H: Hasher>(
        &self,
        s: &mut Shape<'_, H>,
        queued: impl Fn(&mut Shape<'_, H>, Place),
    ) {
        s.each(&self.by_key, |s, (_, task)| {
            s.running_task(&task.running);
            s.scheduler(task.requester);
            match &task.stage {
                RunStage::Queued { place, .. } => queued(s, *place),
                RunStage::Live => s.put(true),
                RunStage::Ended(status) => s.reported(status),
            }
            s.opt(task.limits, |s, limits| limits.shape(s));
            // The time dates a healthcheck. For other tasks it is only displayed.
            if task.running.is_healthcheck() {
                s.time(task.accepted_at);
            }
        });
    }
}
