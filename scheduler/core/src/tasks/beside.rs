//! Further runs of tasks that run already: nobody should have started them, but somebody did, and they must be known as running.

use std::collections::BTreeMap;

use brasserie_common::resources::NodeResources;
use brasserie_common::{CardsWanted, GpuShare, InvocationId, RecordSeq, RunningTask, Shard, Time};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use super::{Run, RunState, Tasks};
use crate::news::News;
use crate::scheduler::Scheduler;

/// Further runs of one task: one on each of some workers, more than any real mistake makes. Beyond them a listed run is only
/// shown: those that are known hold the task anyway, and a worker that invents runs costs no memory.
const MAX_BESIDE: usize = 16;

/// By task and run. Each holds its slots, since it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Besides {
    runs: BTreeMap<(Task, InvocationId), Beside>,
    /// When tasks may start again by the end of a run beside their own, should that one turn out never to have begun.
    waits: BTreeMap<Task, Time>,
}

#[derive(Clone, Debug)]
struct Beside {
    run: Run,
    held: Held,
}

/// The slots and the cards that the engine holds for a run.
#[derive(Clone, Debug)]
struct Held {
    charges: Vec<NodeResources>,
    gpus: Vec<GpuShare>,
    /// What it is to have of them, if its worker had not chosen yet.
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

    /// The task's own run is over.
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

    /// The earliest run beside the task's own.
    fn first_beside(&self, task: Task) -> Option<InvocationId> {
        Some(self.beside.of(task).next()?.invocation)
    }

    /// When the end of a run beside it lets the task start again.
    pub(super) fn wait_beside(&self, task: Task) -> Option<Time> {
        self.beside.waits.get(&task).copied()
    }
}

impl Scheduler {
    /// A worker lists a run of a task that runs already, by another run.
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

    /// A run beside the task's own is over, or becomes the task's own.
    fn stop_beside(&mut self, task: Task, invocation: InvocationId) -> Option<(Run, Held)> {
        let (run, held) = self.tasks_mut().take_beside(task, invocation)?;
        let index = self.index_of(&run);
        self.engine_mut()
            .release_slots(index, &held.charges, &held.gpus);
        Some((run, held))
    }

    /// `of`: whose end is stored, in the record `seq`. By it the task may start again at `not_before`, if at all.
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

    /// The run that the engine knew has ended: of those beside it the earliest takes its place, so that the task does not
    /// start again.
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

    /// Tasks that run more than once, for as long as they do.
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
