//! The reports of a store to the scheduler, like `worker/src/artifacts/reporter.rs`: when one leaves, what it says, and what its answer asks
//! for.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactsAnswer, ArtifactsReport, ListingWanted,
};
use brasserie_common::{ArtifactHolder, ArtifactId, ArtifactNamespace, Shard, Time, WorkerId};

use crate::store::Store;

/// The time between two reports without a change.
const PERIOD: Duration = Duration::from_secs(10);
/// The least time between two reports.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause after a report without an answer.
const RETRY: Duration = Duration::from_secs(1);

/// The longest time between a fact and the second report after it, while the scheduler answers.
pub const TWO_REPORTS: Duration = PERIOD.saturating_mul(2);

/// A change of the store, or a question.
#[derive(Clone, Debug)]
pub enum ToReport {
    /// The scheduler's namespace, as a run named it.
    Namespace(ArtifactNamespace),
    /// The store has a new copy.
    Stored(ArtifactId),
    /// A copy was deleted.
    Gone(ArtifactCopy),
    /// Ask for the holders of these.
    Holders(Vec<ArtifactId>),
}

/// The result of a report at its sender.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportOutcome {
    Answered(Box<ArtifactsAnswer>),
    Failed,
}

/// The content of the next report.
#[derive(Clone, Debug, Default)]
struct PendingReport {
    namespace: Option<ArtifactNamespace>,
    stored: BTreeSet<ArtifactId>,
    gone: Vec<ArtifactCopy>,
    wanted: BTreeSet<ArtifactId>,
    listings: Vec<ListingWanted>,
}

/// The stage of the reporter.
///
/// ```text
///   Silent --a change--> Waiting --due--> Asking --outcome--> Waiting
/// ```
#[derive(Clone, Copy, Debug)]
enum ReporterStage {
    /// The store is empty, and no run has had artifacts.
    Silent,
    /// The last report left at `begun`.
    Waiting { begun: Time, due: Time },
    /// A report is under way.
    Asking { begun: Time, newest: u64 },
}

/// The consequences of an answer.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    pub holders: Vec<(ArtifactId, Vec<ArtifactHolder>)>,
    pub lost: BTreeSet<ArtifactId>,
    pub unwanted: Option<Unwanted>,
}

/// Copies to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwanted {
    pub namespace: ArtifactNamespace,
    pub copies: Vec<ArtifactCopy>,
    /// The serial of the newest copy when the report was made.
    pub newest: u64,
}

#[derive(Clone, Debug)]
pub struct Reporter {
    stage: ReporterStage,
    pending: PendingReport,
    /// Changes since the last report left.
    changes: VecDeque<ToReport>,
}

impl Reporter {
    pub fn new(store: &Store, now: Time) -> Self {
        Reporter {
            stage: match store.is_empty() {
                true => ReporterStage::Silent,
                false => ReporterStage::Waiting {
                    begun: now,
                    due: now,
                },
            },
            pending: PendingReport::default(),
            changes: VecDeque::new(),
        }
    }

    pub fn tell(&mut self, change: ToReport) {
        self.changes.push_back(change);
    }

    /// Returns when the next report is due; `None` if only a change or an outcome leads to one.
    pub fn due(&self) -> Option<Time> {
        match (self.stage, self.changes.is_empty()) {
            (ReporterStage::Silent, true) | (ReporterStage::Asking { .. }, _) => None,
            (ReporterStage::Silent, false) => Some(Time::ZERO),
            (ReporterStage::Waiting { due, .. }, true) => Some(due),
            (ReporterStage::Waiting { begun, due }, false) => Some(due.min(begun + PAUSE)),
        }
    }

    /// Returns the report that is due now.
    pub fn poll(
        &mut self,
        now: Time,
        store: &mut Store,
        (shard, worker): (Shard, WorkerId),
    ) -> Option<Box<ArtifactsReport>> {
        self.due().filter(|due| *due <= now)?;
        for change in std::mem::take(&mut self.changes) {
            self.pending.note(change);
        }
        let newest = store.newest_serial();
        self.stage = ReporterStage::Asking { begun: now, newest };
        if let Some(namespace) = &self.pending.namespace {
            let lost = store.drain_lost(namespace);
            self.pending.gone.extend(lost);
        }
        Some(Box::new(self.pending.compose(store, shard, worker)))
    }

    /// Accepts the outcome of the report under way.
    pub fn reported(&mut self, outcome: ReportOutcome) -> Orders {
        let ReporterStage::Asking { begun, newest } = self.stage else {
            return Orders::default();
        };
        let (after, orders) = match outcome {
            ReportOutcome::Failed => (RETRY, Orders::default()),
            ReportOutcome::Answered(answer) => {
                let orders = self.pending.obey(*answer, newest);
                let after = match self.pending.is_empty() {
                    true => PERIOD,
                    false => PAUSE,
                };
                (after, orders)
            }
        };
        let due = begun + after;
        self.stage = ReporterStage::Waiting { begun, due };
        orders
    }
}

impl PendingReport {
    fn note(&mut self, change: ToReport) {
        match change {
            ToReport::Namespace(namespace) => self.namespace = Some(namespace),
            ToReport::Stored(id) => drop(self.stored.insert(id)),
            ToReport::Gone(copy) => self.gone.push(copy),
            ToReport::Holders(ids) => self.wanted.extend(ids),
        }
    }

    fn is_empty(&self) -> bool {
        let changes = self.stored.len() + self.gone.len() + self.wanted.len() + self.listings.len();
        changes == 0
    }

    fn compose(&self, store: &Store, shard: Shard, worker: WorkerId) -> ArtifactsReport {
        let namespace = self.namespace.as_ref();
        let stored = self.stored.iter().filter_map(|&id| {
            let found = store.find(&(namespace?.clone(), id))?;
            let generation = found.generation;
            Some((ArtifactCopy { generation, id }, found.copy.size))
        });
        // A copy may have come again.
        let is_gone = |copy: &&ArtifactCopy| {
            let found = namespace.and_then(|namespace| store.find(&(namespace.clone(), copy.id)));
            found.is_none_or(|found| found.generation != copy.generation)
        };
        let pages = self.listings.iter();
        let pages = pages.filter_map(|wanted| Some(store.page(namespace?, *wanted)));
        ArtifactsReport {
            shard,
            worker,
            namespace: namespace.cloned(),
            rack: None,
            disks: store.reports(namespace),
            stored: stored.collect(),
            gone: self.gone.iter().filter(is_gone).copied().collect(),
            listings: pages.collect(),
            wanted: self.wanted.iter().copied().collect(),
            waiting: Vec::new(),
            counters: None,
        }
    }

    /// Begins the next report as the answer asks.
    fn obey(&mut self, answer: ArtifactsAnswer, newest: u64) -> Orders {
        *self = PendingReport {
            namespace: Some(answer.namespace.clone()),
            listings: answer.listings,
            ..PendingReport::default()
        };
        let unwanted = (!answer.unwanted.is_empty()).then_some(Unwanted {
            namespace: answer.namespace,
            copies: answer.unwanted,
            newest,
        });
        Orders {
            holders: answer.wanted,
            lost: answer.lost.into_iter().collect(),
            unwanted,
        }
    }
}
