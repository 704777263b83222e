//! The reports of the store to a scheduler: a task for each association, which reports every ten seconds and whenever something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactsAnswer, ArtifactsReport, DiskCondition, DiskReport, ListingPage,
    ListingWanted, WaitingRun,
};
use brasserie_common::{ArtifactId, ArtifactNamespace, DiskGeneration};
use brasserie_common_artifacts::{ArtifactStore, DiskContent, DiskUsage, FoundCondition};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerReportArtifactsArgs, BistroSchedulerReportArtifactsResult,
};
use brasserie_thrift::rpc::{CallResult, ClientPool, Unknown};
use brasserie_worker_core::AssociationIndex;
use thrift::ApplicationErrorKind;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::background::Background;
use super::counters::Counters;
use super::handle::{Desk, Holders, ReplicaRequest};
use super::standings::Standing;
use crate::membership::Membership;

/// The time between two reports without a change: two thirds of the usual period of heartbeats.
const PERIOD: Duration = Duration::from_secs(10);
/// The least time between two reports, so that many changes share one.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause after a report without an answer.
const RETRY: Duration = Duration::from_secs(1);
/// The most artifacts in one page of a listing: a megabyte and a half.
const PAGE: usize = 32_768;
/// The most changes that are remembered for a report. Further ones show in the digest, and the scheduler asks for a listing.
const MOST_CHANGES: usize = 16_384;

/// A change of the store, or a question.
pub(super) enum ToReport {
    /// The scheduler's namespace, as a run named it.
    Namespace(ArtifactNamespace),
    /// The store has a new copy.
    Stored(ArtifactId),
    /// Ask for the holders of these.
    Holders(Vec<ArtifactId>),
    /// The runs that wait for inputs have come further.
    Waiting(Vec<WaitingRun>),
    /// The end of a deletion.
    Deleted {
        asked: Vec<ArtifactCopy>,
        /// Those that are gone. The others have come again meanwhile.
        gone: Vec<ArtifactCopy>,
    },
}

pub(super) struct Reporter {
    pub of: AssociationIndex,
    pub store: Arc<ArtifactStore>,
    pub pool: ClientPool,
    pub standing: watch::Receiver<Standing>,
    pub changes: UnboundedReceiver<ToReport>,
    /// The sending side of the same channel, for what the reporter does itself.
    pub own: UnboundedSender<ToReport>,
    pub rack: Option<Arc<str>>,
    pub membership: Membership,
    pub desk: Desk,
    pub background: Background,
    pub counters: Counters,
}

/// The content of the next report.
#[derive(Default)]
struct Pending {
    namespace: Option<ArtifactNamespace>,
    stored: BTreeSet<ArtifactId>,
    gone: Vec<ArtifactCopy>,
    wanted: BTreeSet<ArtifactId>,
    listings: Vec<ListingWanted>,
    /// The runs that wait for inputs. Each report has them.
    waiting: Vec<WaitingRun>,
    /// Copies that are being deleted. They count as present until the report that they are gone: a digest without them would have the
    /// scheduler ask for a listing.
    deleting: BTreeSet<ArtifactCopy>,
    /// The last answer requested replicas.
    has_replicas: bool,
    /// The newest copy of the store when the last report was made.
    newest: u64,
}

impl Pending {
    fn note(&mut self, change: ToReport) {
        match change {
            ToReport::Namespace(namespace) => self.namespace = Some(namespace),
            ToReport::Stored(id) if self.stored.len() < MOST_CHANGES => {
                self.stored.insert(id);
            }
            ToReport::Stored(_) => {}
            ToReport::Holders(ids) => self.wanted.extend(ids),
            ToReport::Waiting(waiting) => self.waiting = waiting,
            ToReport::Deleted { asked, gone } => {
                for copy in &asked {
                    self.deleting.remove(copy);
                }
                self.gone.extend(gone);
            }
        }
    }

    fn is_empty(&self) -> bool {
        let changes = self.stored.len() + self.gone.len() + self.wanted.len() + self.listings.len();
        changes == 0
    }
}

/// The result of a report.
enum Reported {
    Answered(ArtifactsAnswer),
    /// The scheduler does not know the call: it uses no artifacts.
    Unknown,
    Failed,
}

impl Reporter {
    /// Reports until the worker ends. Says nothing before the store has artifacts, a run needs or leaves any, or the scheduler says that
    /// jobs do.
    pub(super) async fn run(mut self) {
        let mut pending = Pending::default();
        if self.store.namespaces().is_empty() {
            let mut standing = self.standing.clone();
            tokio::select! {
                change = self.changes.recv() => match change {
                    Some(change) => pending.note(change),
                    None => return,
                },
                // Fails only if the worker ends, and then the other channel ends, too.
                Ok(_) = standing.wait_for(|standing| standing.uses_artifacts) => {}
            }
        }
        let mut measure_at = Instant::now();
        loop {
            let begun = Instant::now();
            // Reports of changes follow each other fast.
            if measure_at <= begun {
                measure_at = begun + PERIOD;
                self.measure_disks();
            }
            let answer = self.report(&mut pending).await;
            let due = match answer {
                Reported::Unknown => begun + PERIOD,
                Reported::Answered(answer) => {
                    self.obey(answer, &mut pending);
                    match pending.is_empty() {
                        true => begun + PERIOD,
                        false => begun + PAUSE,
                    }
                }
                Reported::Failed => begun + RETRY,
            };
            if !self.wait(due, begun + PAUSE, &mut pending).await {
                return;
            }
        }
    }

    /// Has the disks measured again. The next report says what was found.
    fn measure_disks(&self) {
        let store = Arc::clone(&self.store);
        self.background.block(move || store.measure_again());
    }

    /// Waits until a report is due, or a change comes. Returns false if the worker ends.
    async fn wait(&mut self, due: Instant, not_before: Instant, pending: &mut Pending) -> bool {
        tokio::select! {
            () = sleep_until(due) => {}
            change = self.changes.recv() => match change {
                Some(change) => {
                    pending.note(change);
                    sleep_until(not_before.min(due)).await;
                }
                None => return false,
            },
        }
        while let Ok(change) = self.changes.try_recv() {
            pending.note(change);
        }
        true
    }

    async fn report(&mut self, pending: &mut Pending) -> Reported {
        pending.newest = self.store.newest_serial();
        let standing = self.standing.borrow_and_update().clone();
        let report = self.compose(&standing, pending);
        let peer = self.membership.scheduler(&standing.member);
        let arguments = BistroSchedulerReportArtifactsArgs {
            report: report.into(),
        };
        let call = self.pool.call::<_, BistroSchedulerReportArtifactsResult>(
            &peer,
            "reportArtifacts",
            &arguments,
        );
        let answer = match call.await {
            CallResult::Done(result) => result.result_value,
            CallResult::Unknown(Unknown::Exception {
                kind: ApplicationErrorKind::UnknownMethod,
                ..
            }) => return Reported::Unknown,
            failed => {
                tracing::debug!("the scheduler did not answer a report of artifacts: {failed:?}");
                None
            }
        };
        match answer.map(ArtifactsAnswer::try_from) {
            Some(Ok(answer)) => Reported::Answered(answer),
            Some(Err(error)) => {
                tracing::warn!("the scheduler's answer about artifacts is senseless: {error}");
                Reported::Failed
            }
            None => Reported::Failed,
        }
    }

    fn compose(&self, standing: &Standing, pending: &mut Pending) -> ArtifactsReport {
        if let Some(namespace) = &pending.namespace {
            pending.gone.extend(self.lost(namespace));
        }
        let namespace = pending.namespace.as_ref();
        let held: BTreeMap<ArtifactId, _> = match (namespace, pending.listings.is_empty()) {
            (Some(namespace), false) => {
                let held = self.store.holdings(namespace).into_iter();
                held.map(|one| (one.id, (one.generation, one.size)))
                    .collect()
            }
            (Some(_) | None, _) => BTreeMap::new(),
        };
        let stored = pending.stored.iter().filter_map(|&id| {
            let held = self.store.find(namespace?, id)?;
            let generation = held.generation;
            Some((ArtifactCopy { generation, id }, held.size))
        });
        ArtifactsReport {
            shard: standing.shard.clone(),
            worker: standing.worker,
            namespace: namespace.cloned(),
            rack: self.rack.clone(),
            disks: self.disks(namespace, &pending.deleting),
            stored: stored.collect(),
            gone: pending
                .gone
                .iter()
                .filter(|copy| !self.has(namespace, copy))
                .copied()
                .collect(),
            listings: pending
                .listings
                .iter()
                .map(|wanted| page(&held, *wanted))
                .collect(),
            wanted: pending.wanted.iter().copied().collect(),
            waiting: pending.waiting.clone(),
            counters: Some(self.counters.now()),
        }
    }

    /// Returns the copies that the store has lost since the last report.
    fn lost(&self, namespace: &ArtifactNamespace) -> impl Iterator<Item = ArtifactCopy> {
        for finding in self.store.drain_set_aside() {
            tracing::warn!("{finding}");
        }
        let lost = self.store.drain_lost(namespace).into_iter();
        lost.filter_map(|lost| {
            tracing::error!("the artifact {} is lost here: {}", lost.id, lost.cause);
            let (generation, id) = (lost.generation?, lost.id);
            Some(ArtifactCopy { generation, id })
        })
    }

    /// Returns whether the store has this copy, maybe again.
    fn has(&self, namespace: Option<&ArtifactNamespace>, copy: &ArtifactCopy) -> bool {
        let found = namespace.and_then(|namespace| self.store.find(namespace, copy.id));
        found.is_some_and(|found| found.generation == copy.generation)
    }

    fn disks(
        &self,
        namespace: Option<&ArtifactNamespace>,
        deleting: &BTreeSet<ArtifactCopy>,
    ) -> Vec<DiskReport> {
        let contents = namespace.map(|namespace| self.store.contents_with(namespace, deleting));
        let contents: BTreeMap<DiskGeneration, DiskContent> =
            contents.unwrap_or_default().into_iter().collect();
        let disks = self.store.usage().into_iter();
        let report = |disk: DiskUsage| {
            let generation = disk.generation?;
            let content = contents.get(&generation).copied().unwrap_or_default();
            let (condition, problem) = match disk.condition {
                FoundCondition::Healthy => (DiskCondition::Healthy, None),
                FoundCondition::ReadError(why) => (DiskCondition::ReadError, Some(why.into())),
                FoundCondition::IoHang => (DiskCondition::IoHang, None),
                FoundCondition::HighUsage => (DiskCondition::HighUsage, None),
            };
            Some(DiskReport {
                generation,
                digest: content.digest,
                artifacts: content.artifacts,
                medium: disk.medium,
                total: disk.total,
                used: disk.used,
                usable: disk.usable,
                condition,
                problem,
                flush_time: disk.flush_time,
                fetch_time: disk.fetch_time,
            })
        };
        disks.filter_map(report).collect()
    }

    /// Does what the scheduler's answer asks for, and notes what the next report has to say.
    fn obey(&mut self, answer: ArtifactsAnswer, pending: &mut Pending) {
        let (had_replicas, newest) = (pending.has_replicas, pending.newest);
        *pending = Pending {
            namespace: Some(answer.namespace.clone()),
            listings: answer.listings,
            waiting: std::mem::take(&mut pending.waiting),
            deleting: std::mem::take(&mut pending.deleting),
            has_replicas: !answer.replicate.is_empty(),
            ..Pending::default()
        };
        if pending.has_replicas || had_replicas {
            self.desk.replicate(ReplicaRequest {
                of: self.of,
                namespace: answer.namespace.clone(),
                artifacts: answer.replicate,
            });
        }
        if !answer.wanted.is_empty() || !answer.lost.is_empty() {
            self.desk.holders(Holders {
                of: self.of,
                holders: answer.wanted,
                lost: answer.lost.into_iter().collect(),
            });
        }
        let unwanted = (answer.unwanted, newest);
        self.delete(answer.namespace, unwanted, &mut pending.deleting);
    }

    /// Deletes copies that were there when the report was made, and reports them as gone when they are. Skips those that are being deleted.
    fn delete(
        &self,
        namespace: ArtifactNamespace,
        (mut unwanted, newest): (Vec<ArtifactCopy>, u64),
        deleting: &mut BTreeSet<ArtifactCopy>,
    ) {
        unwanted.retain(|copy| deleting.insert(*copy));
        if unwanted.is_empty() {
            return;
        }
        let (store, own) = (Arc::clone(&self.store), self.own.clone());
        self.background.block(move || {
            // A disk that was replaced may have another copy.
            let is_here = |copy: &&ArtifactCopy| {
                let found = store.find(&namespace, copy.id);
                found.is_some_and(|found| found.generation == copy.generation)
            };
            let here = unwanted.iter().filter(is_here).map(|copy| copy.id);
            let ids: Vec<ArtifactId> = here.collect();
            for (path, error) in store.delete_up_to(&namespace, ids, newest) {
                tracing::warn!("cannot delete the artifact {}: {error}", path.display());
            }
            let gone = unwanted.iter().filter(|copy| !is_here(copy)).copied();
            // The send fails only if the worker has already ended.
            let _ = own.send(ToReport::Deleted {
                gone: gone.collect(),
                asked: unwanted,
            });
        });
    }
}

/// Returns the part of a disk's list that the scheduler asks for.
fn page(held: &BTreeMap<ArtifactId, (DiskGeneration, u64)>, wanted: ListingWanted) -> ListingPage {
    let after = wanted.after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = held
        .range((after, Bound::Unbounded))
        .filter(|(_, (generation, _))| *generation == wanted.generation)
        .map(|(&id, &(_, size))| (id, size));
    let artifacts: Vec<(ArtifactId, u64)> = rest.by_ref().take(PAGE).collect();
    ListingPage {
        wanted,
        is_last: rest.next().is_none(),
        artifacts,
    }
}
