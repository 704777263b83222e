//! Bulk changes of a job's tasks. They are done in slices, since a job may have millions of tasks; each slice is durable before the next
//! begins.

use std::collections::VecDeque;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{JobId, JobName, NodeId, NodeName, RecordSeq, RequestId, Time};
use brasserie_scheduler_engine::Task;

use super::{JobChanged, JobRefusal, Jobs};
use crate::record::{EndedTask, ForgottenTask, Record, until_synced};
use crate::scheduler::Scheduler;
use crate::scheduler::effect::Reply;
use crate::scheduler::replies::HeldReply;

/// The tasks of one slice: some milliseconds of a turn, and one record. A million tasks take a thousand commits, which take seconds.
const SLICE: usize = 1024;
/// The most slices of a turn that change nothing. A check of a task takes a fraction of a microsecond, so these take a few milliseconds.
const MAX_SLICES_A_TURN: usize = 16;
/// The most waiting bulk changes. Each takes the memory of a job's name and of the nodes that it names, and a caller waits for its answer.
const MAX_WAITING: usize = 1024;
/// The most nodes that one request names: more than a person types, and 16 MiB of ids with [`MAX_WAITING`] requests. For more nodes, a
/// caller sends several requests or changes all nodes.
pub const MAX_NAMED_NODES: usize = 4096;

/// The bulk changes of jobs' tasks.
///
/// ```text
///   waiting ---- the one before is over ----> under way ---- its last slice ----> answered, once that is durable
///                                              |     ^
///                                              +-----+  a slice is durable
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    waiting: VecDeque<Wish>,
    under_way: Option<UnderWay>,
    /// The record of the last slice that changed a task. A bulk change that finds nothing left to do depends on it, and is answered no
    /// earlier.
    last: Option<RecordSeq>,
    /// The number of bulk changes that have begun, which is also the number of the next one.
    begun: u64,
    told: Told,
}

/// The progress of reporting to the engine the nodes that bulk changes name.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The engine's number for the cycle in which it asked.
    cycle: u64,
    /// The bulk change being reported; earlier ones are reported, and `nodes` nodes of this one. A running change drops nodes only at its
    /// end.
    wish: u64,
    nodes: usize,
    /// The first bulk change that came later.
    end: u64,
}

#[derive(Clone, Debug)]
struct Wish {
    /// The request to answer. `None`: it was answered that the outcome is unknown, because the store makes no progress.
    request: Option<RequestId>,
    job: JobId,
    what: What,
}

/// The kind of a bulk change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Forgive,
    /// Forgives only tasks that have failed for good.
    ForgiveFailed,
    DeleteHistory(Nodes),
}

/// The nodes whose tasks of a job are changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nodes {
    All,
    These(Vec<NodeId>),
}

#[derive(Clone, Debug)]
struct UnderWay {
    wish: Wish,
    /// The nodes not handled yet, in reverse order.
    rest: Vec<NodeId>,
    counts: Counts,
    /// The record of the last slice.
    after: Option<RecordSeq>,
}

/// The counts of tasks handled so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Counts {
    changed: u64,
    running: u64,
    maybe_alive: u64,
}

/// The result for one task.
pub(super) enum Fate {
    /// The task needs no change.
    Untouched,
    Forgiven(EndedTask),
    Forgotten(ForgottenTask),
    /// The task is running or unsure.
    Runs,
    /// A run of the task was lost, and its process may still be alive.
    MaybeAlive,
}

impl Slices {
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Slices {
            waiting,
            under_way,
            last,
            // The number only tells one change from the next.
            begun: _,
            // The engine's marks imply the progress.
            told: _,
        } = self;
        let last = last.map(|seq| until_synced(seq, persisted));
        s.put(last.filter(|left| *left > 0));
        s.each(waiting, |s, wish| wish.shape(s));
        s.opt(under_way.as_ref(), |s, under_way| {
            under_way.wish.shape(s);
            s.put((&under_way.rest, under_way.counts));
            s.put(under_way.after.map(|seq| until_synced(seq, persisted)));
        });
    }

    fn nodes_of(&self, wish: u64) -> &[NodeId] {
        match wish.checked_sub(self.begun) {
            Some(place) => match self.waiting.get(place as usize).map(|wish| &wish.what) {
                Some(What::DeleteHistory(Nodes::These(nodes))) => nodes,
                Some(What::DeleteHistory(Nodes::All) | What::Forgive | What::ForgiveFailed)
                | None => &[],
            },
            None if wish + 1 == self.begun => {
                let under_way = self.under_way.as_ref();
                under_way.map_or(&[], |under_way| &under_way.rest)
            }
            None => &[],
        }
    }

    /// Returns more of the nodes that bulk changes name; none once all were returned in this cycle. The nodes of a change that comes or
    /// begins meanwhile are reported to the engine then. So neither further changes nor a slow store can keep a cycle from its end.
    fn next_nodes(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        if self.told.cycle != cycle {
            self.told = Told {
                cycle,
                wish: self.begun.saturating_sub(1),
                nodes: 0,
                end: self.begun + self.waiting.len() as u64,
            };
        }
        let mut next = Vec::new();
        while self.told.wish < self.told.end && next.len() < limit {
            let Told { wish, nodes, .. } = self.told;
            let rest = self.nodes_of(wish).get(nodes..).unwrap_or_default();
            let before = next.len();
            next.extend(rest.iter().take(limit - before));
            if next.len() > before {
                self.told.nodes += next.len() - before;
            } else {
                self.told.wish += 1;
                self.told.nodes = 0;
            }
        }
        next
    }
}

impl Wish {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Wish { request, job, what } = self;
        s.opt(*request, Shape::request);
        s.put((job, what));
    }

    fn answer(&self, counts: Counts) -> JobChanged {
        match self.what {
            What::Forgive | What::ForgiveFailed => JobChanged::Forgiven {
                tasks: counts.changed,
            },
            What::DeleteHistory(_) => JobChanged::HistoryDeleted {
                tasks: counts.changed,
                running: counts.running,
                maybe_alive: counts.maybe_alive,
            },
        }
    }
}

impl Jobs {
    /// Calls [`Slices::next_nodes`].
    pub(crate) fn next_nodes_of_wishes(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        self.slices.next_nodes(cycle, limit)
    }
}

impl Scheduler {
    pub(super) fn forgive_job(
        &mut self,
        now: Time,
        request: RequestId,
        job: &JobName,
        what: What,
    ) -> Result<(), JobRefusal> {
        let id = self.engine().find_job(job.as_str());
        let has_tasks = id.is_some_and(|id| !self.engine().unfinished_nodes(id).is_empty());
        self.wish(now, request, job, (id.filter(|_| has_tasks), what))
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
        let id = self.engine().find_job(job.as_str());
        let has_tasks = id.is_some_and(|id| !self.nodes_of(id).is_empty());
        let mut named = Vec::with_capacity(nodes.len());
        for node in nodes {
            let known = self.engine().find_node(node.as_str());
            named.push(known.ok_or_else(|| JobRefusal::UnknownNode(node.clone()))?);
        }
        self.engine_mut().hold_nodes(named.iter().copied());
        let nodes = match nodes.is_empty() {
            true => Nodes::All,
            false => Nodes::These(named),
        };
        let what = What::DeleteHistory(nodes);
        self.wish(now, request, job, (id.filter(|_| has_tasks), what))
    }

    /// Adds a bulk change to the waiting ones. `id` is set if the job has tasks that the change may affect.
    fn wish(
        &mut self,
        now: Time,
        request: RequestId,
        job: &JobName,
        (id, what): (Option<JobId>, What),
    ) -> Result<(), JobRefusal> {
        let is_known = self.jobs().has(job);
        let Some(id) = id.or_else(|| self.engine().find_job(job.as_str()).filter(|_| is_known))
        else {
            // A job whose tasks have never run.
            if is_known {
                let wish = Wish {
                    request: Some(request),
                    job: JobId(0),
                    what,
                };
                let nothing = wish.answer(Counts::default());
                self.reply(request, Reply::JobChanged(Ok(nothing)));
                return Ok(());
            }
            return Err(JobRefusal::Unknown(self.unknown_job(job.as_str())));
        };
        let slices = &mut self.jobs_mut().slices;
        if slices.waiting.len() >= MAX_WAITING {
            return Err(JobRefusal::TooManyForgiven);
        }
        slices.waiting.push_back(Wish {
            request: Some(request),
            job: id,
            what,
        });
        self.go_on_with_slices(now);
        Ok(())
    }

    /// Returns whether a bulk change is under way and only waits for the next turn.
    pub(crate) fn slices_are_due(&self) -> bool {
        let under_way = self.jobs().slices.under_way.as_ref();
        under_way.is_some_and(|way| way.after.is_none_or(|seq| self.is_persisted(seq)))
    }

    /// Handles slices: one that changes tasks, unless the previous one is not durable yet, and a few that change nothing. So neither a turn
    /// nor the store's queue gets long.
    pub(crate) fn go_on_with_slices(&mut self, now: Time) {
        let mut slices = 0;
        loop {
            let mut under_way = match self.jobs_mut().slices.under_way.take() {
                Some(under_way) => under_way,
                None => {
                    let Some(wish) = self.jobs_mut().slices.waiting.pop_front() else {
                        return;
                    };
                    let mut rest = match &wish.what {
                        What::Forgive | What::ForgiveFailed => {
                            self.engine().unfinished_nodes(wish.job)
                        }
                        What::DeleteHistory(Nodes::All) => self.nodes_of(wish.job),
                        What::DeleteHistory(Nodes::These(nodes)) => nodes.clone(),
                    };
                    rest.reverse();
                    self.jobs_mut().slices.begun += 1;
                    // This visits each node, which takes as long as listing them did.
                    self.engine_mut().hold_nodes(rest.iter().copied());
                    let last = self.jobs().slices.last;
                    UnderWay {
                        wish,
                        rest,
                        counts: Counts::default(),
                        after: last.filter(|seq| !self.is_persisted(*seq)),
                    }
                }
            };
            if under_way.after.is_some_and(|seq| !self.is_persisted(seq))
                && !under_way.rest.is_empty()
            {
                self.jobs_mut().slices.under_way = Some(under_way);
                return;
            }
            self.do_slice(now, &mut under_way);
            slices += 1;
            if !under_way.rest.is_empty() {
                self.jobs_mut().slices.under_way = Some(under_way);
                if slices >= MAX_SLICES_A_TURN {
                    return;
                }
                continue;
            }
            let UnderWay {
                wish,
                counts,
                after,
                ..
            } = under_way;
            let changed = wish.answer(counts);
            if let Some(request) = wish.request {
                let reply = Reply::JobChanged(Ok(changed));
                self.reply_after(now, (request, after), reply, HeldReply::JobChange);
            }
            if after.is_some_and(|seq| !self.is_persisted(seq)) {
                return;
            }
        }
    }

    /// Returns the nodes on which the job has a completion or runs. A task that runs for the first time will have a history.
    fn nodes_of(&self, job: JobId) -> Vec<NodeId> {
        let running = self.tasks().running();
        let running = running.filter(|(task, _)| task.job == job);
        let mut nodes = self.engine().ended_nodes(job);
        nodes.extend(running.map(|(task, _)| task.node));
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Changes the next [`SLICE`] tasks, and writes one record of the changes.
    fn do_slice(&mut self, now: Time, under_way: &mut UnderWay) {
        let seq = self.next_record();
        let (mut forgiven, mut forgotten) = (Vec::new(), Vec::new());
        for _ in 0..SLICE {
            let Some(node) = under_way.rest.pop() else {
                break;
            };
            let task = Task {
                job: under_way.wish.job,
                node,
            };
            let fate = match under_way.wish.what {
                What::Forgive => self.forgive(now, task, seq),
                What::ForgiveFailed => self.forgive_failed(now, task, seq),
                What::DeleteHistory(_) => self.delete_end(now, task, seq),
            };
            let counts = &mut under_way.counts;
            match fate {
                Fate::Untouched => {}
                Fate::Forgiven(task) => {
                    counts.changed += 1;
                    forgiven.push(task);
                }
                Fate::Forgotten(task) => {
                    counts.changed += 1;
                    forgotten.push(task);
                }
                Fate::Runs => counts.running += 1,
                Fate::MaybeAlive => counts.maybe_alive += 1,
            }
        }
        let record = match under_way.wish.what {
            What::Forgive | What::ForgiveFailed if !forgiven.is_empty() => {
                Record::TasksForgiven { tasks: forgiven }
            }
            What::DeleteHistory(_) if !forgotten.is_empty() => Record::HistoryDeleted {
                number: self.tasks_mut().record_forgotten(),
                tasks: forgotten,
            },
            What::Forgive | What::ForgiveFailed | What::DeleteHistory(_) => return,
        };
        under_way.after = Some(seq);
        self.jobs_mut().slices.last = Some(seq);
        let persisted = self.persist(record);
        assert_eq!(
            seq, persisted,
            "Invariant: what is done to a task records nothing itself"
        );
    }

    /// Answers all callers whose changes are not done, because the store makes no progress. The changes are made once the store writes
    /// again.
    pub(crate) fn abandon_wishes(&mut self) {
        let slices = &mut self.jobs_mut().slices;
        let under_way = slices.under_way.iter_mut().map(|way| &mut way.wish);
        let wishes = under_way.chain(&mut slices.waiting);
        let requests: Vec<RequestId> = wishes.filter_map(|wish| wish.request.take()).collect();
        for request in requests {
            let refusal = JobRefusal::NotDurableYet;
            self.reply(request, Reply::JobChanged(Err(refusal)));
        }
    }
}
