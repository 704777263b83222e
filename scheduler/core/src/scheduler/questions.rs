//! Queries that count completions. Their answer leaves when the completions that it shows are durable, or marks them as not durable.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{RecordSeq, RequestId, Time};

use super::Scheduler;
use super::effect::Reply;
use super::event::Query;
use crate::record::until_synced;

/// The longest time that an answer waits for the disk. A working disk syncs a record within milliseconds, or within a second under load;
/// callers time out after five seconds.
pub const MAX_ANSWER_WAIT: Duration = Duration::from_secs(1);
/// The most answers that wait at once. An answer of a large cluster takes megabytes, and the shell holds them all meanwhile.
const MAX_WAITING: usize = 64;

/// One query whose answer the shell holds back.
#[derive(Clone, Debug)]
struct WaitingQuery {
    request: RequestId,
    query: Query,
    after: RecordSeq,
    deadline: Time,
}

/// All queries whose answers the shell holds back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    /// The queries in the order in which they arrived, which is also the order of their records and deadlines.
    waiting: VecDeque<WaitingQuery>,
    /// The last durable record when an answer waited for too long. While no later record is durable, answers do not wait, and are marked.
    late_at: Option<RecordSeq>,
}

impl Questions {
    /// Handles the durability of all records up to this one: the shell has sent the answers that waited for them.
    pub(super) fn persisted(&mut self, up_to: RecordSeq) {
        self.waiting.retain(|question| question.after > up_to);
        if self.late_at.is_some_and(|at| at < up_to) {
            self.late_at = None;
        }
    }

    pub(super) fn is_late(&self) -> bool {
        self.late_at.is_some()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.waiting.front().map(|first| first.deadline)
    }

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Questions { waiting, late_at } = self;
        s.each(waiting, |s, waiting| {
            s.request(waiting.request);
            s.put(format!("{:?}", waiting.query));
            s.put(until_synced(waiting.after, persisted));
            s.deadline(waiting.deadline);
        });
        s.put(late_at.is_some());
    }
}

/// Returns whether an answer counts completions without a mark at each. An explanation of a task marks its status.
fn counts_completions(query: &Query) -> bool {
    match query {
        Query::Status | Query::Jobs { .. } | Query::JobStatus { .. } | Query::Histograms { .. } => {
            true
        }
        Query::NothingStarts
        | Query::Config
        | Query::Explain { .. }
        | Query::RunningTasks { .. }
        | Query::Unfinished { .. }
        | Query::Tasks(_)
        | Query::Outputs(_)
        | Query::OutputSets { .. }
        | Query::Files(_)
        | Query::FileReaders(_)
        | Query::LogPeers
        | Query::WhatIf
        | Query::InputsForPlan(_) => false,
    }
}

impl Scheduler {
    /// Answers a query at once, unless the answer counts completions that become durable in a moment.
    pub(super) fn query(&mut self, now: Time, request: RequestId, query: Query) {
        // A caller that received the answer to a save finds the job.
        self.put_jobs_in_force(now);
        let after = self.runs.last_pending();
        let waits = counts_completions(&query) && !self.view().marks_completions();
        let Some(after) = after.filter(|_| waits) else {
            return self.answer_now(now, request, &query);
        };
        if self.questions.waiting.len() >= MAX_WAITING {
            self.answer_all_marked(now);
            return self.answer_now(now, request, &query);
        }
        let reply = Reply::Answer(Box::new(self.answer(now, &query)));
        self.outbox.reply_whenever(request, after, reply);
        self.questions.waiting.push_back(WaitingQuery {
            request,
            query,
            after,
            deadline: now + MAX_ANSWER_WAIT,
        });
    }

    fn answer_now(&mut self, now: Time, request: RequestId, query: &Query) {
        let answer = self.answer(now, query);
        self.outbox.reply(request, Reply::Answer(Box::new(answer)));
    }

    /// Answers queries that have waited for too long.
    pub(super) fn answer_late_questions(&mut self, now: Time) {
        let deadline = self.questions.next_deadline();
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.answer_all_marked(now);
        }
    }

    /// Answers every waiting query, with marks.
    pub(super) fn answer_all_marked(&mut self, now: Time) {
        let persisted = self.outbox.persisted();
        let questions = &mut self.questions;
        let waiting = std::mem::take(&mut questions.waiting);
        if !waiting.is_empty() {
            questions.late_at = Some(persisted);
        }
        for WaitingQuery { request, query, .. } in waiting {
            self.answer_now(now, request, &query);
        }
    }
}
