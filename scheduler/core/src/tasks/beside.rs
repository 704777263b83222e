//! Further runs of tasks that are already running. They exist only after a mistake, but the scheduler must count them as running.

use std::collections::BTreeMap;

use brasserie_common::resources::NodeResources;
use brasserie_common::{CardsWanted, GpuShare, InvocationId, RecordSeq, RunningTask, Shard, Time};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use super::{Run, RunState, Tasks};
use crate::news::News;
use crate::scheduler::Scheduler;

/// The most further runs of one task: one on each of several workers, more than any real mistake causes. Beyond them a listed run is only
/// shown. The known runs keep the task from starting anyway, and a worker that invents runs uses no memory.
const MAX_BESIDE: usize = 16;

/// The further runs, by task and run. Each holds its slots, because it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Besides {
    runs: BTreeMap<(Task, InvocationId), Beside>,
    /// When tasks may start again by the completion of a further run. Used if the task's main run turns out never to have begun.
    waits: BTreeMap<Task, Time>,
}

#[derive(Clone, Debug)]
struct Beside {
    run: Run,
    held: Held,
}

/// The slots and the GPUs that the engine holds for a run.
#[derive(Clone, Debug)]
struct Held {
    charges: Vec<NodeResources>,
    gpus: Vec<GpuShare>,
    /// The GPUs that the run requests, if its worker had not chosen them yet.
    gpus_wanted: Option<CardsWanted>,
}

impl Besides {
    pub(super) fn get(&self, task: Task, invocation: InvocationId) -> Option<&Run> {
        self.runs.get(&(task, invocation)).map(|beside| &beside.run)
    }

    pub(super) fn get_mut(&mut self, task: Task, invocation: InvocationId) -> Option<&mut Run> {
        let beside = self.runs.get_mut(&(task, invocation))?;
        Some(&mut beside.run)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Task, &Run)> {
        let runs = self.runs.iter();
        runs.map(|((task, _), beside)| (*task, &beside.run))
    }

    pub(super) fn of(&self, task: Task) -> impl Iterator<Item = &Run> {
        let all = (task, InvocationId::new(i64::MIN, i64::MIN))
            ..=(task, InvocationId::new(i64::MAX, i64::MAX));
        self.runs.range(all).map(|(_, beside)| &beside.run)
    }

    pub(super) fn waits(&self) -> &BTreeMap<Task, Time> {
        &self.waits
    }

    /// Forgets the wait of a task whose main run has ended.
    pub(super) fn forget_wait(&mut self, task: Task) {
        self.waits.remove(&task);
    }
}

impl Tasks {
    fn take_beside(&mut self, task: Task, invocation: InvocationId) -> Option<(Run, Held)> {
        let beside = self.beside.runs.remove(&(task, invocation))?;
        self.unindex(task, &beside.run);
        Some((beside.run, beside.held))
    }

    fn begin_beside(&mut self, task: Task, run: Run, held: Held) {
        self.index(task, &run);
        let key = (task, run.invocation);
        let was = self.beside.runs.insert(key, Beside { run, held });
        assert!(was.is_none(), "Invariant: a known run is not begun again");
    }

    /// Returns the earliest further run of the task.
    fn first_beside(&self, task: Task) -> Option<InvocationId> {
        Some(self.beside.of(task).next()?.invocation)
    }

    /// Returns when the completion of a further run permits the task to start again.
    pub(super) fn wait_beside(&self, task: Task) -> Option<Time> {
        self.beside.waits.get(&task).copied()
    }
}

impl Scheduler {
    /// Adopts a listed run of a task that already has another run.
    pub(super) fn adopt_beside(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        listed: RunningTask,
    ) {
        if self.tasks().beside.of(task).count() >= MAX_BESIDE {
            let text = format!(
                "worker `{shard}` lists {} on {} as run {}, but {MAX_BESIDE} further runs of it are known already",
                listed.job, listed.node, listed.invocation
            );
            self.note_problem(now, &text);
            return;
        }
        let run = Run {
            invocation: listed.invocation,
            shard: shard.clone(),
            next_backoff: listed.next_backoff,
            kill_wait: listed.suicide_kill_wait,
            since: now,
            confirmed: Some(now),
            queued: None,
            sent_for: listed.work.request,
            fence: listed.fence,
            state: RunState::Running,
        };
        let index = self.index_of(&run);
        let held = Held {
            charges: listed.resources,
            gpus: listed.gpus,
            gpus_wanted: listed.gpus_wanted,
        };
        self.engine_mut()
            .hold_slots(index, &held.charges, &held.gpus);
        if let Some(first) = self.tasks().run(task).map(|run| run.shard.clone()) {
            self.note_news(News::RunsTwice {
                task: self.task_key(task),
                workers: [first, shard.clone()],
            });
        }
        self.tasks_mut().begin_beside(task, run, held);
    }

    /// Removes a further run and releases its slots, because it has ended or becomes the main run.
    fn stop_beside(&mut self, task: Task, invocation: InvocationId) -> Option<(Run, Held)> {
        let (run, held) = self.tasks_mut().take_beside(task, invocation)?;
        let index = self.index_of(&run);
        self.engine_mut()
            .release_slots(index, &held.charges, &held.gpus);
        Some((run, held))
    }

    /// Ends a further run. `of` is the run whose completion is stored, in the record `seq`. The completion permits the task to start again
    /// at `not_before`, if at all.
    pub(crate) fn end_beside(
        &mut self,
        (task, invocation): (Task, InvocationId),
        of: InvocationId,
        seq: RecordSeq,
        not_before: Option<Time>,
    ) {
        self.stop_beside(task, invocation);
        let tasks = self.tasks_mut();
        tasks.note_end(task, of, seq);
        match not_before {
            Some(at) => tasks.beside.waits.insert(task, at),
            None => tasks.beside.waits.remove(&task),
        };
    }

    fn index_of(&self, run: &Run) -> WorkerIndex {
        let remote = self.workers().get(&run.shard);
        let remote = remote.expect("Invariant: a worker with runs stays in the pool");
        remote.index()
    }

    /// Makes the earliest further run the main run after the former main run has ended, so that the task does not start again.
    pub(crate) fn promote(&mut self, task: Task) {
        let earliest = self.tasks().first_beside(task);
        if let Some((run, held)) = earliest.and_then(|id| self.stop_beside(task, id)) {
            let index = self.index_of(&run);
            let cards = (&held.gpus[..], held.gpus_wanted.as_ref());
            self.engine_mut()
                .adopt_running(task, index, &held.charges, cards);
            self.tasks_mut().begin(task, run);
        }
    }

    /// Iterates over messages about tasks that run more than once, for as long as they do.
    pub(crate) fn tasks_that_run_twice(&self) -> impl Iterator<Item = String> + '_ {
        self.tasks().beside.iter().map(|(task, beside)| {
            let key = self.task_key(task);
            let known = self.tasks().run(task);
            let (run, on) = known.map_or((String::new(), ""), |run| {
                (run.invocation.to_string(), run.shard.as_str())
            });
            format!(
                "{} on {} runs twice: run {run} on worker `{on}` and run {} on worker `{}`. It starts no further time \
                 until both have ended; kill one of them if they must not run together",
                key.job, key.node, beside.invocation, beside.shard
            )
        })
    }
}
