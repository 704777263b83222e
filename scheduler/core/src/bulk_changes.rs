//! Bulk changes of a job's tasks. They are done in slices, since a job may have millions of tasks; each slice is durable before the next
//! begins.

use std::collections::VecDeque;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{JobId, NodeId, RecordSeq, RequestId};
use brasserie_scheduler_engine::Task;

use crate::jobs::{JobChanged, JobRefusal};
use crate::record::{EndedTask, ForgottenTask, until_synced};

/// The most waiting bulk changes. Each takes the memory of a job's name and of the nodes that it names, and a caller waits for its answer.
const MAX_WAITING: usize = 1024;

/// The bulk changes of jobs' tasks.
///
/// ```text
///   waiting ---- the one before is over ----> under way ---- its last slice ----> answered, once that is durable
///                                              |     ^
///                                              +-----+  a slice is durable
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct BulkChanges {
    waiting: VecDeque<BulkChange>,
    under_way: Option<UnderWay>,
    /// The record of the last slice that changed a task. A bulk change that finds nothing left to do depends on it, and is answered no
    /// earlier.
    last: Option<RecordSeq>,
    /// The number of bulk changes that have begun, which is also the number of the next one.
    begun: u64,
    reported: ReportedChanges,
}

/// The progress of reporting to the engine the nodes that bulk changes name.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedChanges {
    /// The engine's number for the cycle in which it asked.
    cycle: u64,
    /// The bulk change being reported; earlier ones are reported, and `nodes` nodes of this one. A running change drops nodes only at its
    /// end.
    change: u64,
    nodes: usize,
    /// The first bulk change that came later.
    end: u64,
}

/// A change of many tasks of one job.
#[derive(Clone, Debug)]
pub struct BulkChange {
    /// The request to answer. `None`: it was answered that the outcome is unknown, because the store makes no progress.
    pub request: Option<RequestId>,
    pub job: JobId,
    pub kind: BulkKind,
}

/// The kind of a bulk change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BulkKind {
    Forgive,
    /// Forgives only tasks that have failed for good.
    ForgiveFailed,
    DeleteHistory(ChangedNodes),
    /// Deletes the completions of tasks on these nodes whose outputs are lost, so that the tasks run again.
    MakeAgain(Vec<NodeId>),
}

/// The nodes whose tasks of a job are changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangedNodes {
    All,
    These(Vec<NodeId>),
}

#[derive(Clone, Debug)]
struct UnderWay {
    change: BulkChange,
    /// The nodes not handled yet, in reverse order.
    rest: Vec<NodeId>,
    counts: ChangeCounts,
    /// The record of the last slice.
    after: Option<RecordSeq>,
}

impl UnderWay {
    /// Returns whether a slice is not durable yet.
    fn waits(&self, persisted: RecordSeq) -> bool {
        self.after.is_some_and(|seq| seq > persisted)
    }
}

/// A bulk change whose tasks are all handled, with its answer, which leaves once `after` is durable.
#[derive(Debug)]
pub struct Finished {
    pub request: Option<RequestId>,
    pub changed: JobChanged,
    pub after: Option<RecordSeq>,
}

/// The counts of tasks handled so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct ChangeCounts {
    changed: u64,
    running: u64,
    maybe_alive: u64,
}

/// The result for one task.
pub enum TaskChange {
    /// The task needs no change.
    Untouched,
    Forgiven(EndedTask),
    Forgotten(ForgottenTask),
    /// The task is running or unsure.
    Runs,
    /// A run of the task was lost, and its process may still be alive.
    MaybeAlive,
}

impl BulkChanges {
    /// Adds a bulk change to the waiting ones.
    pub(crate) fn add(&mut self, change: BulkChange) -> Result<(), JobRefusal> {
        if self.waiting.len() >= MAX_WAITING {
            return Err(JobRefusal::TooManyForgiven);
        }
        self.waiting.push_back(change);
        Ok(())
    }

    /// Returns whether a bulk change is under way and only waits for the next turn.
    pub(crate) fn is_due(&self, persisted: RecordSeq) -> bool {
        let under_way = self.under_way.as_ref();
        under_way.is_some_and(|way| !way.waits(persisted))
    }

    /// Returns whether a bulk change is under way whose last slice is not durable, and which needs another one.
    pub(crate) fn waits_for_its_slice(&self, persisted: RecordSeq) -> bool {
        let under_way = self.under_way.as_ref();
        under_way.is_some_and(|way| way.waits(persisted) && !way.rest.is_empty())
    }

    /// Returns whether lost outputs of the job are already to be made again. The change has not reached all of its tasks.
    pub(crate) fn makes_again(&self, job: JobId) -> bool {
        let mut all = self.under_way().into_iter().chain(&self.waiting);
        all.any(|change| change.job == job && matches!(change.kind, BulkKind::MakeAgain(_)))
    }

    /// Returns the bulk change that is under way.
    pub(crate) fn under_way(&self) -> Option<&BulkChange> {
        self.under_way.as_ref().map(|way| &way.change)
    }

    /// Returns the bulk change that begins next.
    pub(crate) fn next(&self) -> Option<&BulkChange> {
        self.waiting.front()
    }

    /// Begins the next bulk change, on these nodes in reverse order.
    pub(crate) fn begin(&mut self, rest: Vec<NodeId>, persisted: RecordSeq) {
        if let Some(change) = self.waiting.pop_front() {
            self.begun += 1;
            self.under_way = Some(UnderWay {
                change,
                rest,
                counts: ChangeCounts::default(),
                after: self.last.filter(|seq| *seq > persisted),
            });
        }
    }

    /// Takes the next task of the bulk change that is under way.
    pub(crate) fn next_task(&mut self) -> Option<Task> {
        let under_way = self.under_way.as_mut()?;
        let node = under_way.rest.pop()?;
        let job = under_way.change.job;
        Some(Task { job, node })
    }

    pub(crate) fn count(&mut self, change: &TaskChange) {
        let Some(under_way) = &mut self.under_way else {
            return;
        };
        let counts = &mut under_way.counts;
        match change {
            TaskChange::Untouched => {}
            TaskChange::Forgiven(_) | TaskChange::Forgotten(_) => counts.changed += 1,
            TaskChange::Runs => counts.running += 1,
            TaskChange::MaybeAlive => counts.maybe_alive += 1,
        }
    }

    /// Notes that a slice of the bulk change that is under way is recorded.
    pub(crate) fn note_slice(&mut self, seq: RecordSeq) {
        if let Some(under_way) = &mut self.under_way {
            under_way.after = Some(seq);
            self.last = Some(seq);
        }
    }

    /// Removes the bulk change that is under way if all its tasks are handled.
    pub(crate) fn take_finished(&mut self) -> Option<Finished> {
        let under_way = self.under_way.take_if(|way| way.rest.is_empty())?;
        Some(Finished {
            request: under_way.change.request,
            changed: under_way.change.answer(under_way.counts),
            after: under_way.after,
        })
    }

    /// Removes and returns the requests whose changes are not done. The changes are made once the store writes again.
    pub(crate) fn abandon_requests(&mut self) -> Vec<RequestId> {
        let under_way = self.under_way.iter_mut().map(|way| &mut way.change);
        let changes = under_way.chain(&mut self.waiting);
        changes.filter_map(|change| change.request.take()).collect()
    }

    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let BulkChanges {
            waiting,
            under_way,
            last,
            // The number only tells one change from the next.
            begun: _,
            // The engine's marks imply the progress.
            reported: _,
        } = self;
        let last = last.map(|seq| until_synced(seq, persisted));
        s.put(last.filter(|left| *left > 0));
        s.each(waiting, |s, change| change.shape(s));
        s.opt(under_way.as_ref(), |s, under_way| {
            under_way.change.shape(s);
            s.put((&under_way.rest, under_way.counts));
            s.put(under_way.after.map(|seq| until_synced(seq, persisted)));
        });
    }

    fn nodes_of(&self, change: u64) -> &[NodeId] {
        match change.checked_sub(self.begun) {
            Some(place) => match self.waiting.get(place as usize).map(|change| &change.kind) {
                Some(
                    BulkKind::DeleteHistory(ChangedNodes::These(nodes))
                    | BulkKind::MakeAgain(nodes),
                ) => nodes,
                Some(
                    BulkKind::DeleteHistory(ChangedNodes::All)
                    | BulkKind::Forgive
                    | BulkKind::ForgiveFailed,
                )
                | None => &[],
            },
            None if change + 1 == self.begun => {
                let under_way = self.under_way.as_ref();
                under_way.map_or(&[], |under_way| &under_way.rest)
            }
            None => &[],
        }
    }

    /// Returns more of the nodes that bulk changes name; none once all were returned in this cycle. The nodes of a change that comes or
    /// begins meanwhile are reported to the engine then. So neither further changes nor a slow store can keep a cycle from its end.
    pub(crate) fn next_nodes(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        if self.reported.cycle != cycle {
            self.reported = ReportedChanges {
                cycle,
                change: self.begun.saturating_sub(1),
                nodes: 0,
                end: self.begun + self.waiting.len() as u64,
            };
        }
        let mut next = Vec::new();
        while self.reported.change < self.reported.end && next.len() < limit {
            let ReportedChanges { change, nodes, .. } = self.reported;
            let rest = self.nodes_of(change).get(nodes..).unwrap_or_default();
            let before = next.len();
            next.extend(rest.iter().take(limit - before));
            if next.len() > before {
                self.reported.nodes += next.len() - before;
            } else {
                self.reported.change += 1;
                self.reported.nodes = 0;
            }
        }
        next
    }
}

impl BulkChange {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let BulkChange { request, job, kind } = self;
        s.opt(*request, Shape::request);
        s.put((job, kind));
    }

    /// Returns the answer if the job has no tasks that the change could affect.
    pub(crate) fn changes_nothing(&self) -> JobChanged {
        self.answer(ChangeCounts::default())
    }

    fn answer(&self, counts: ChangeCounts) -> JobChanged {
        match self.kind {
            BulkKind::Forgive | BulkKind::ForgiveFailed => JobChanged::Forgiven {
                tasks: counts.changed,
            },
            BulkKind::DeleteHistory(_) | BulkKind::MakeAgain(_) => JobChanged::HistoryDeleted {
                tasks: counts.changed,
                running: counts.running,
                maybe_alive: counts.maybe_alive,
            },
        }
    }
}
