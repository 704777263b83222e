//! Forgiving a job's tasks: slice by slice, since there may be millions, each durable before the next begins.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, JobName, NodeId, RecordSeq, RequestId, Time};
use brasserie_scheduler_engine::{Restart, Task};

use super::{JobChanged, JobRefusal};
use crate::effect::Reply;
use crate::record::{EndedTask, Record};
use crate::scheduler::Scheduler;
use crate::workers::shape::until_synced;

/// Tasks of one slice: some milliseconds of a turn, and one record. A million tasks take a thousand commits, thus seconds.
const SLICE: usize = 1024;
/// Wishes that wait: each costs no more than a job's name, and somebody waits for its answer.
const MAX_WAITING: usize = 1024;

/// ```text
///   waiting ---- the one before is over ----> under way ---- its last slice ----> answered, once that is durable
///                                              |     ^
///                                              +-----+  a slice is durable
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct Forgiving {
    waiting: VecDeque<(RequestId, JobId)>,
    under_way: Option<UnderWay>,
}

#[derive(Clone, Debug)]
struct UnderWay {
    request: RequestId,
    job: JobId,
    /// Not looked at yet, last first.
    rest: Vec<NodeId>,
    forgiven: u64,
    /// The record of the last slice.
    after: Option<RecordSeq>,
}

impl Forgiving {
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Forgiving { waiting, under_way } = self;
        s.each(waiting, |s, (request, job)| {
            s.request(*request);
            s.put(job);
        });
        s.opt(under_way.as_ref(), |s, under_way| {
            s.request(under_way.request);
            s.put((under_way.job, &under_way.rest, under_way.forgiven));
            s.put(under_way.after.map(|seq| until_synced(seq, persisted)));
        });
    }
}

impl Scheduler {
    pub(super) fn forgive_job(
        &mut self,
        now: Time,
        request: RequestId,
        job: &JobName,
    ) -> Result<(), JobRefusal> {
        let is_known = self.jobs().latest(job).is_some() || self.jobs().in_file(job);
        let id = self.engine().find_job(job.as_str());
        let has_tasks = |id: &JobId| !self.engine().unfinished_nodes(*id).is_empty();
        let Some(id) = id.filter(|id| is_known || has_tasks(id)) else {
            // One that nothing has happened to.
            if is_known {
                let nothing = JobChanged::Forgiven { tasks: 0 };
                self.reply(request, None, Reply::JobChanged(Ok(nothing)));
                return Ok(());
            }
            return Err(JobRefusal::Unknown(job.clone()));
        };
        let forgiving = &mut self.jobs_mut().forgiving;
        if forgiving.waiting.len() >= MAX_WAITING {
            return Err(JobRefusal::TooManyForgiven);
        }
        forgiving.waiting.push_back((request, id));
        self.go_on_forgiving(now);
        Ok(())
    }

    /// One slice, unless the one before is not durable yet: so neither a turn nor the store's queue gets long.
    pub(crate) fn go_on_forgiving(&mut self, now: Time) {
        loop {
            let mut under_way = match self.jobs_mut().forgiving.under_way.take() {
                Some(under_way) => under_way,
                None => {
                    let Some((request, job)) = self.jobs_mut().forgiving.waiting.pop_front() else {
                        return;
                    };
                    let mut rest = self.engine().unfinished_nodes(job);
                    rest.reverse();
                    UnderWay {
                        request,
                        job,
                        rest,
                        forgiven: 0,
                        after: None,
                    }
                }
            };
            if under_way.after.is_some_and(|seq| !self.is_persisted(seq))
                && !under_way.rest.is_empty()
            {
                self.jobs_mut().forgiving.under_way = Some(under_way);
                return;
            }
            self.forgive_slice(now, &mut under_way);
            if !under_way.rest.is_empty() {
                self.jobs_mut().forgiving.under_way = Some(under_way);
                continue;
            }
            let UnderWay {
                request,
                forgiven: tasks,
                after,
                ..
            } = under_way;
            let forgiven = JobChanged::Forgiven { tasks };
            self.reply(request, after, Reply::JobChanged(Ok(forgiven)));
            if after.is_some_and(|seq| !self.is_persisted(seq)) {
                return;
            }
        }
    }

    fn forgive_slice(&mut self, now: Time, under_way: &mut UnderWay) {
        let seq = self.next_record();
        let mut tasks = Vec::new();
        while tasks.len() < SLICE
            && let Some(node) = under_way.rest.pop()
        {
            let task = Task {
                job: under_way.job,
                node,
            };
            tasks.extend(self.forgive(now, task, seq));
        }
        if tasks.is_empty() {
            return;
        }
        under_way.forgiven += tasks.len() as u64;
        under_way.after = Some(seq);
        let persisted = self.persist(Record::TasksForgiven { tasks });
        assert_eq!(
            seq, persisted,
            "Invariant: forgiving a task records nothing itself"
        );
    }

    /// One that runs has an end to come, whose backoff was settled when it began. The status stays that of the same run, so that
    /// a repeat of its end is known as one, and "lost" can still be replaced by the true end.
    fn forgive(&mut self, now: Time, task: Task, seq: RecordSeq) -> Option<EndedTask> {
        if self.tasks().run(task).is_some() {
            return None;
        }
        let invocation = self.tasks().ended(task)?;
        let old = self.engine().previous_status(task)?;
        let status = old.forgiven()?;
        let safe_at = now + Duration::from_secs(u64::from(status.safety_seconds));
        let not_before = match self.engine().waits_until(task) {
            _ if sabotage::on(Sabotage::ForgiveSafetyToo) => now,
            Some(until) => until.min(safe_at),
            // Nobody counted its safety wait, as it was never to run again.
            None if old.is_failed() => safe_at,
            None => now,
        };
        self.tasks_mut().note_end(task, invocation, seq);
        // Held, since it must not run before this is durable, nor before its end is, if that was not yet.
        let restart = Restart::HeldUntilReleased;
        self.engine_mut()
            .restate(now, task, status.clone(), Some(not_before), restart);
        let key = self.task_key(task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status,
        })
    }
}
