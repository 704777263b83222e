//! The scan for completions of missing nodes and jobs, some in each turn.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, JobName, NodeId, NodeName, RecordSeq, Time};
use brasserie_scheduler_engine::{NodePresence, Task};

use super::Scheduler;
use super::ledger::Ledger;
use crate::jobs::Jobs;
use crate::news::News;
use crate::record::{Record, Trim};
use crate::retention::{Expiry, FACTS_A_TURN, Retention, RetentionRound, Upkeep, UpkeepWork};

/// The most pages of statuses, or jobs without any, that are scanned in one turn: a fraction of a millisecond.
const PAGES_A_TURN: usize = 64;

/// The scan of one turn.
struct Scan<'a> {
    now: Time,
    retention: Retention,
    /// The record of the scan.
    seq: RecordSeq,
    ledger: Ledger<'a>,
    jobs: &'a Jobs,
    upkeep: &'a mut Upkeep,
    trim: Trim,
}

impl Scheduler {
    /// Continues the retention. Called once a turn.
    pub(super) fn trim_history(&mut self, now: Time) {
        let retention = self.options.retention;
        if retention == Retention::UNLIMITED {
            return;
        }
        self.note_returned();
        // A failing source may hide that a node is back.
        let is_blind = !self.engine.has_nodes_in_force() || self.nodes_error.is_some();
        if is_blind || self.outbox.store_error().is_some() {
            return self.upkeep.stop_counting();
        }
        let persisted = self.outbox.persisted();
        match self.upkeep.turn(now, retention, persisted) {
            UpkeepWork::Nothing => {}
            UpkeepWork::Record(trim) => {
                self.record_trim(trim);
            }
            UpkeepWork::Scan(round) => self.scan_completions(now, retention, round),
        }
    }

    /// Drops the notes of missing nodes that are in the table in force again, and of jobs that are configured again. A node or job that
    /// exists for a few minutes each night is never missing for long, even if no round scans it in these minutes.
    fn note_returned(&mut self) {
        let jobs = self.engine.take_returned_jobs();
        let is_new = self.upkeep.note_tables(self.engine.tables_put_in_force());
        let nodes = match is_new {
            true => self.engine.note_returned(),
            false => Vec::new(),
        };
        self.upkeep.note_returned(nodes, jobs);
    }

    fn record_trim(&mut self, trim: Trim) -> RecordSeq {
        let seq = self.outbox.persist(Record::HistoryTrimmed(Box::new(trim)));
        self.upkeep.note_recorded(seq);
        seq
    }

    fn scan_completions(&mut self, now: Time, retention: Retention, mut round: RetentionRound) {
        let seq = self.outbox.next_record();
        let mut scan = Scan {
            now,
            retention,
            seq,
            trim: Trim {
                observed: self.upkeep.observed(),
                ..Trim::default()
            },
            ledger: Ledger::new(
                (&mut self.engine, &mut self.runs, &mut self.safety),
                self.wall,
            ),
            jobs: &self.jobs,
            upkeep: &mut self.upkeep,
        };
        let mut is_over = false;
        let mut pages = 0;
        while pages < PAGES_A_TURN && scan.trim.facts() < FACTS_A_TURN && !is_over {
            pages += 1;
            is_over = scan.scan_page(&mut round);
        }
        let mut trim = scan.trim;
        round.count_expired(trim.expired.len());
        if is_over {
            let last = self.runs.last_deletion();
            let deleted = self.runs.count_deleted();
            trim.settled = self.upkeep.settled(last, deleted);
            if let Some(settled) = trim.settled {
                self.runs.settle(settled);
            }
            let count = round.expired();
            if count > 0 {
                self.engine.names_were_let_go(count);
                self.runs.shrink();
                self.notices.news(News::CompletionsForgotten { count });
            }
            self.upkeep.end(round, retention);
        } else {
            self.upkeep.put_off(round);
        }
        let is_time = is_over && self.upkeep.missing() > 0;
        for key in &trim.expired {
            self.artifacts.forget(now, key);
        }
        if trim.facts() > 0 || trim.settled.is_some() || is_time {
            let recorded = self.record_trim(trim);
            assert_eq!(
                seq, recorded,
                "Invariant: a scan of completions records nothing itself"
            );
        }
    }

    /// Loads since when nodes and jobs of the history have been missing, before the first event.
    pub fn remember_missing(
        &mut self,
        nodes: impl IntoIterator<Item = (NodeName, u32)>,
        jobs: impl IntoIterator<Item = (JobName, u32)>,
    ) {
        for (node, since) in nodes {
            if let Some(node) = self.engine.find_node(node.as_str()) {
                self.engine.note_missing(node, since);
            }
        }
        for (job, since) in jobs {
            if let Some(job) = self.engine.find_job(job.as_str()) {
                self.engine.note_job_missing(job, Some(since));
            }
        }
    }
}

impl Scan<'_> {
    /// Scans one page of completions, which the round names. Returns whether there was none left.
    fn scan_page(&mut self, round: &mut RetentionRound) -> bool {
        let (job, page) = round.place();
        let Some(nodes) = self.ledger.engine().ended_nodes_of_page(job, page) else {
            if self.ledger.engine().has_job(job) {
                round.next_job();
                return false;
            }
            return true;
        };
        let job_since = match nodes.is_empty() {
            true => None,
            false => self.note_job(job),
        };
        for node in nodes {
            let since = self.note_node(node);
            let since = since.into_iter().chain(job_since).min();
            if let Some(since) = since
                && !self.expire_if_due(Task { job, node }, since)
            {
                round.count_missing(since);
            }
        }
        round.next_page();
        false
    }

    /// Returns since when the job of a completion has been missing; `None` if it exists. Notes a change.
    fn note_job(&mut self, job: JobId) -> Option<u32> {
        let engine = self.ledger.engine();
        let since = engine.job_missing_since(job);
        let name = engine.job_name(job).clone();
        let exists = engine.job_config(job).is_some() || self.jobs.has(&name);
        match (exists, since) {
            (true, None) => None,
            (true, Some(since)) if sabotage::on(Sabotage::ExpireWhatCameBack) => Some(since),
            (true, Some(_)) => {
                engine.note_job_missing(job, None);
                self.trim.found_jobs.push(name);
                None
            }
            (false, Some(since)) => Some(since),
            (false, None) => {
                let observed = self.upkeep.noted_at();
                engine.note_job_missing(job, Some(observed));
                self.trim.missing_jobs.push(name);
                Some(observed)
            }
        }
    }

    /// Returns since when the node of a completion has been missing; `None` if it exists. Notes a change.
    fn note_node(&mut self, node: NodeId) -> Option<u32> {
        let engine = self.ledger.engine();
        match engine.presence(node) {
            // `note_returned` has dropped its note.
            NodePresence::InForce => None,
            NodePresence::Missing(Some(since)) => Some(since),
            NodePresence::Missing(None) => {
                let observed = self.upkeep.noted_at();
                engine.note_missing(node, observed);
                self.trim.missing.push(engine.node_name(node));
                Some(observed)
            }
        }
    }

    /// Forgets the completion of a task whose node or job is missing, if its time is over or there are too many. Returns whether it did.
    fn expire_if_due(&mut self, task: Task, since: u32) -> bool {
        let expiry = self.upkeep.expiry(since, self.retention);
        if expiry == Expiry::NotYet {
            return false;
        }
        let Some(key) = self.ledger.expire(self.now, task, self.seq) else {
            return false;
        };
        self.trim.expired.push(key);
        self.upkeep.note_expired(expiry);
        true
    }
}
