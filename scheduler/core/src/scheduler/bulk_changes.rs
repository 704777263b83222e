//! Bulk changes of the tasks of a job: which tasks a request concerns, and what each slice does to them.

use std::collections::BTreeMap;

use brasserie_common::{JobId, JobName, NodeId, NodeName, RequestId, TaskKey, Time};
use brasserie_scheduler_engine::Task;

use super::effect::Reply;
use super::replies::HeldReply;
use super::view::unknown_job;
use super::{Scheduler, View, task_key};
use crate::bulk_changes::{BulkChange, BulkKind, ChangedNodes, Finished, TaskChange};
use crate::jobs::{JobRefusal, MAX_NAMED_NODES};
use crate::news::{MissedOutputs, News};
use crate::record::Record;

/// The tasks of one slice: some milliseconds of a turn, and one record. A million tasks take a thousand commits, which take seconds.
const SLICE: usize = 1024;
/// The most slices of a turn that change nothing. A check of a task takes a fraction of a microsecond, so these take a few milliseconds.
const MAX_SLICES_A_TURN: usize = 16;

impl Scheduler {
    pub(super) fn forgive_job(
        &mut self,
        now: Time,
        request: RequestId,
        job: &JobName,
        kind: BulkKind,
    ) -> Result<(), JobRefusal> {
        let id = self.engine.find_job(job.as_str());
        let has_tasks = id.is_some_and(|id| !self.engine.unfinished_nodes(id).is_empty());
        self.add_bulk_change(now, request, job, (id.filter(|_| has_tasks), kind))
    }

    pub(super) fn delete_history(
        &mut self,
        now: Time,
        request: RequestId,
        job: &JobName,
        nodes: &[NodeName],
    ) -> Result<(), JobRefusal> {
        if nodes.len() > MAX_NAMED_NODES {
            return Err(JobRefusal::TooManyNodes(nodes.len()));
        }
        let id = self.engine.find_job(job.as_str());
        let has_tasks = id.is_some_and(|id| !self.view().nodes_with_history(id).is_empty());
        let mut named = Vec::with_capacity(nodes.len());
        for node in nodes {
            let known = self.engine.find_node(node.as_str());
            named.push(known.ok_or_else(|| JobRefusal::UnknownNode(node.clone()))?);
        }
        self.engine.hold_nodes(named.iter().copied());
        let nodes = match nodes.is_empty() {
            true => ChangedNodes::All,
            false => ChangedNodes::These(named),
        };
        let kind = BulkKind::DeleteHistory(nodes);
        self.add_bulk_change(now, request, job, (id.filter(|_| has_tasks), kind))
    }

    /// Adds a bulk change to the waiting ones. `id` is set if the job has tasks that the change may affect.
    fn add_bulk_change(
        &mut self,
        now: Time,
        request: RequestId,
        job: &JobName,
        (id, kind): (Option<JobId>, BulkKind),
    ) -> Result<(), JobRefusal> {
        let is_known = self.jobs.has(job);
        let id = id.or_else(|| self.engine.find_job(job.as_str()).filter(|_| is_known));
        let change = BulkChange {
            request: Some(request),
            job: id.unwrap_or(JobId(0)),
            kind,
        };
        match id {
            Some(_) => {
                self.bulk_changes.add(change)?;
                self.continue_bulk_changes(now);
            }
            // A job whose tasks have never run.
            None if is_known => {
                let nothing = change.changes_nothing();
                self.outbox.reply(request, Reply::JobChanged(Ok(nothing)));
            }
            None => {
                let unknown = unknown_job(&self.engine, job.as_str());
                return Err(JobRefusal::Unknown(unknown));
            }
        }
        Ok(())
    }

    /// Handles slices: one that changes tasks, unless the previous one is not durable yet, and a few that change nothing. So neither a turn
    /// nor the store's queue gets long.
    pub(super) fn continue_bulk_changes(&mut self, now: Time) {
        let persisted = self.outbox.persisted();
        let mut slices = 0;
        loop {
            if self.bulk_changes.under_way().is_none() {
                let Some(rest) = self.view().nodes_of_next_bulk_change() else {
                    return;
                };
                // This visits each node, which takes as long as listing them did.
                self.engine.hold_nodes(rest.iter().copied());
                self.bulk_changes.begin(rest, persisted);
            }
            if self.bulk_changes.waits_for_its_slice(persisted) {
                return;
            }
            self.change_slice(now);
            slices += 1;
            match self.bulk_changes.take_finished() {
                Some(finished) => {
                    let after = finished.after;
                    self.answer_bulk_change(now, finished);
                    if after.is_some_and(|seq| !self.outbox.is_persisted(seq)) {
                        return;
                    }
                }
                None if slices >= MAX_SLICES_A_TURN => return,
                None => {}
            }
        }
    }

    fn answer_bulk_change(&mut self, now: Time, finished: Finished) {
        let Finished {
            request,
            changed,
            after,
        } = finished;
        if let Some(request) = request {
            let reply = Reply::JobChanged(Ok(changed));
            self.outbox
                .reply_after(now, (request, after), reply, HeldReply::JobChange);
        }
    }

    /// Changes the next [`SLICE`] tasks, and writes one record of the changes.
    fn change_slice(&mut self, now: Time) {
        let seq = self.outbox.next_record();
        let (mut forgiven, mut forgotten) = (Vec::new(), Vec::new());
        for _ in 0..SLICE {
            let Some(task) = self.bulk_changes.next_task() else {
                break;
            };
            let change = match self.bulk_changes.under_way().map(|change| &change.kind) {
                Some(BulkKind::Forgive) => self.ledger().forgive(now, task, seq),
                Some(BulkKind::ForgiveFailed) => self.ledger().forgive_failed(now, task, seq),
                Some(BulkKind::DeleteHistory(_) | BulkKind::MakeAgain(_)) => {
                    self.ledger().delete_completion(now, task, seq)
                }
                None => return,
            };
            self.bulk_changes.count(&change);
            match change {
                TaskChange::Forgiven(task) => forgiven.push(task),
                TaskChange::Forgotten(task) => {
                    self.forget_outputs(now, &task.key());
                    forgotten.push(task);
                }
                TaskChange::Untouched | TaskChange::Runs | TaskChange::MaybeAlive => {}
            }
        }
        let record = if !forgiven.is_empty() {
            Record::TasksForgiven { tasks: forgiven }
        } else if !forgotten.is_empty() {
            Record::HistoryDeleted {
                number: self.runs.record_deletion(),
                tasks: forgotten,
            }
        } else {
            return;
        };
        self.bulk_changes.note_slice(seq);
        let persisted = self.outbox.persist(record);
        assert_eq!(
            seq, persisted,
            "Invariant: what is done to a task records nothing itself"
        );
    }

    fn forget_outputs(&mut self, now: Time, key: &TaskKey) {
        match self.bulk_changes.under_way().map(|change| &change.kind) {
            Some(BulkKind::MakeAgain(_)) => self.artifacts.make_again(now, key),
            Some(BulkKind::DeleteHistory(_) | BulkKind::Forgive | BulkKind::ForgiveFailed)
            | None => self.artifacts.forget(now, key),
        }
    }

    /// Makes tasks with lost outputs run again, unless others of their job are about to: their consumers ask again soon.
    pub(super) fn make_again(&mut self, now: Time, lost: BTreeMap<JobId, Vec<NodeId>>) {
        for (job, nodes) in lost {
            if self.bulk_changes.makes_again(job) {
                continue;
            }
            self.engine.hold_nodes(nodes.iter().copied());
            let (tasks, why) = (nodes.len(), self.view().why_missed(job, &nodes));
            let change = BulkChange {
                request: None,
                job,
                kind: BulkKind::MakeAgain(nodes),
            };
            // If too many changes wait, the consumers ask again.
            if self.bulk_changes.add(change).is_ok() {
                let job = self.engine.job_name(job).clone();
                self.notices.news(News::MadeAgain { job, tasks, why });
                self.continue_bulk_changes(now);
            }
        }
    }

    /// Answers all callers whose changes are not done, because the store makes no progress. The changes are made once the store writes
    /// again.
    pub(super) fn abandon_bulk_requests(&mut self) {
        for request in self.bulk_changes.abandon_requests() {
            let refusal = JobRefusal::NotDurableYet;
            self.outbox.reply(request, Reply::JobChanged(Err(refusal)));
        }
    }
}

impl View<'_> {
    /// Returns why outputs of the job's tasks on these nodes are not there.
    fn why_missed(&self, job: JobId, nodes: &[NodeId]) -> MissedOutputs {
        let mut keys = nodes.iter().map(|node| {
            let node = *node;
            task_key(&self.engine, Task { job, node })
        });
        let registry = self.artifacts.registry();
        match keys.any(|key| registry.outputs(&key).is_some()) {
            true => MissedOutputs::Lost,
            false => MissedOutputs::NotKept,
        }
    }

    /// Returns the nodes of the bulk change that begins next, in reverse order; `None` if none waits.
    fn nodes_of_next_bulk_change(&self) -> Option<Vec<NodeId>> {
        let next = self.bulk_changes.next()?;
        let mut nodes = match &next.kind {
            BulkKind::Forgive | BulkKind::ForgiveFailed => self.engine.unfinished_nodes(next.job),
            BulkKind::DeleteHistory(ChangedNodes::All) => self.nodes_with_history(next.job),
            BulkKind::DeleteHistory(ChangedNodes::These(nodes)) | BulkKind::MakeAgain(nodes) => {
                nodes.clone()
            }
        };
        nodes.reverse();
        Some(nodes)
    }

    /// Returns the nodes on which the job has a completion or runs. A task that runs for the first time will have a history.
    fn nodes_with_history(&self, job: JobId) -> Vec<NodeId> {
        let running = self.runs.running();
        let running = running.filter(|(task, _)| task.job == job);
        let mut nodes = self.engine.ended_nodes(job);
        nodes.extend(running.map(|(task, _)| task.node));
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
