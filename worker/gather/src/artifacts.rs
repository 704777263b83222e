//! The wanted artifacts: the tasks that wait for them, their holders, and how far their fetching is.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::Time;

use super::holder_query::HolderQuery;
use super::holdings::{Holdings, NeededFrom, Rank};
use super::limits::GatherLimits;
use super::types::{
    ArtifactId, ByteCount, Distance, PeerId, Priority, TransferPurpose, WaitingTask,
};

/// The holders of an artifact with their distances.
pub type Holders = BTreeMap<PeerId, Distance>;

/// How far the fetching of an artifact is.
///
/// ```text
///              +------ a holder is known --------+
///              v                                 |
///   wanted --> Needed --- holders are lost --> Missing --no holder for too long--> (forgotten, the tasks fail)
///              |    ^                            ^
///           request +--no copy, other holders--+ |
///              v                               | |
///           InFlight --no copy-----------------+-+
///              |
///              +--a valid copy--> (forgotten, the tasks have it)
/// ```
///
/// An artifact that no task wants any more is forgotten too, but not while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A holder is known, and the artifact waits for a request.
    Needed,
    /// One transfer contains the artifact.
    InFlight,
    /// No holder is known.
    Missing,
}

/// Why a peer does not count as a holder any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// A request to the peer failed to give a valid copy.
    Failed,
    /// The peer is not in the worker pool any more.
    Removed,
}

/// All artifacts that tasks want or that are in flight, with indexes by peer and of missing ones.
#[derive(Clone, Debug, Default)]
pub struct Artifacts {
    known: BTreeMap<ArtifactId, Artifact>,
    holdings: Holdings,
    missing: BTreeSet<ArtifactId>,
    wanted_so_far: u64,
}

#[derive(Clone, Debug)]
struct Artifact {
    order: u64,
    wanted_since: Time,
    size: Option<ByteCount>,
    tasks: BTreeMap<WaitingTask, Priority>,
    holders: Holders,
    /// Peers from which a request got no valid copy. A refresh may restore them as holders, because they may have one now. They do not end
    /// the time without a holder, so a registry that repeats a wrong entry cannot make the tasks wait for ever.
    failed: BTreeSet<PeerId>,
    /// The number of busy answers of each peer while the artifact waited for it.
    busy: BTreeMap<PeerId, u32>,
    stage: Stage,
    /// The time since which no holder is known but `failed` ones.
    holderless_since: Option<Time>,
    query: HolderQuery,
}

impl Artifacts {
    /// Adds a task that waits for the artifact, and holders.
    pub fn want(
        &mut self,
        (task, priority): (WaitingTask, Priority),
        id: ArtifactId,
        size: Option<ByteCount>,
        holders: Holders,
        now: Time,
    ) {
        let order = &mut self.wanted_so_far;
        self.known.entry(id).or_insert_with(|| {
            *order += 1;
            Artifact::new(*order, now)
        });
        self.update(id, now, |artifact| {
            if artifact.tasks.is_empty() {
                artifact.wanted_since = now;
            }
            artifact.tasks.insert(task, priority);
            artifact.size = artifact.size.or(size);
            artifact.holders.extend(holders);
        });
    }

    pub fn unwant(&mut self, task: WaitingTask, id: ArtifactId, now: Time) {
        self.update(id, now, |artifact| {
            artifact.tasks.remove(&task);
        });
    }

    pub fn begin_transfer(&mut self, id: ArtifactId, now: Time) {
        self.update(id, now, |artifact| artifact.stage = Stage::InFlight);
    }

    /// Ends a transfer that gave no valid copy. The artifact is needed again, or missing.
    pub fn end_transfer(&mut self, id: ArtifactId, now: Time) {
        self.update(id, now, |artifact| artifact.stage = Stage::Needed);
    }

    /// Forgets an artifact, and returns the tasks that waited for it.
    pub fn forget(&mut self, id: ArtifactId, now: Time) -> Vec<WaitingTask> {
        let mut tasks = BTreeMap::new();
        self.update(id, now, |artifact| {
            artifact.stage = Stage::Needed;
            tasks = std::mem::take(&mut artifact.tasks);
        });
        tasks.into_keys().collect()
    }

    pub fn drop_holder(&mut self, id: ArtifactId, peer: &PeerId, cause: LossCause, now: Time) {
        self.update(id, now, |artifact| {
            artifact.holders.remove(peer);
            match cause {
                LossCause::Failed => {
                    artifact.failed.insert(peer.clone());
                }
                LossCause::Removed => {}
            }
        });
    }

    /// Replaces the holders by those of the scheduler's answer.
    pub fn refresh(&mut self, id: ArtifactId, holders: Holders, now: Time) {
        self.update(id, now, |artifact| {
            artifact.holders = holders;
            artifact.query.answer();
        });
    }

    pub fn send_query(&mut self, id: ArtifactId, now: Time) {
        if let Some(artifact) = self.known.get_mut(&id) {
            artifact.query.send(now);
        }
    }

    /// Returns the stage; none if the artifact is not known.
    pub fn stage(&self, id: ArtifactId) -> Option<Stage> {
        self.known.get(&id).map(|artifact| artifact.stage)
    }

    pub fn size(&self, id: ArtifactId) -> Option<ByteCount> {
        self.known.get(&id)?.size
    }

    pub fn query(&self, id: ArtifactId) -> HolderQuery {
        let artifact = self.known.get(&id);
        artifact.map_or(HolderQuery::Never, |artifact| artifact.query)
    }

    pub fn holders(&self, id: ArtifactId) -> impl Iterator<Item = &PeerId> {
        let artifact = self.known.get(&id);
        artifact
            .into_iter()
            .flat_map(|artifact| artifact.holders.keys())
    }

    /// Returns the holders, each with the number of its busy answers.
    pub fn holders_with_busy_answers(
        &self,
        id: ArtifactId,
    ) -> impl Iterator<Item = (&PeerId, u32)> {
        self.known.get(&id).into_iter().flat_map(|artifact| {
            let busy = |peer| artifact.busy.get(peer).copied().unwrap_or(0);
            let holders = artifact.holders.keys();
            holders.map(move |peer| (peer, busy(peer)))
        })
    }

    /// Counts a busy answer of a peer for which the artifact waits.
    pub fn count_busy(&mut self, id: ArtifactId, peer: &PeerId) {
        if let Some(artifact) = self.known.get_mut(&id) {
            let count = artifact.busy.entry(peer.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Returns the purpose for which the artifact is wanted. A replica that a task needs too is an input.
    pub fn purpose(&self, id: ArtifactId) -> TransferPurpose {
        let artifact = self.known.get(&id);
        artifact.map_or(TransferPurpose::Inputs, Artifact::purpose)
    }

    /// Returns whether tasks wait for artifacts.
    pub fn are_inputs_wanted(&self) -> bool {
        let is_input = |artifact: &Artifact| {
            artifact.purpose() == TransferPurpose::Inputs && !artifact.tasks.is_empty()
        };
        self.known.values().any(is_input)
    }

    /// Returns the artifacts that tasks wait for, with the times since which they are wanted.
    pub fn wanted(&self) -> impl Iterator<Item = (ArtifactId, Time)> {
        let wanted = self.known.iter();
        wanted
            .filter(|(_, artifact)| !artifact.tasks.is_empty())
            .map(|(id, artifact)| (*id, artifact.wanted_since))
    }

    /// Returns the missing artifacts, each with the time since which it has no holder.
    pub fn missing(&self) -> impl Iterator<Item = (ArtifactId, Time)> {
        let since = |id: &ArtifactId| Some((*id, self.known.get(id)?.holderless_since?));
        self.missing.iter().filter_map(since)
    }

    /// Returns the time of the next query for a missing artifact.
    pub fn next_query(&self, (id, since): (ArtifactId, Time), limits: &GatherLimits) -> Time {
        self.query(id).due_without_holder(since, limits)
    }

    /// Returns the artifacts that the peer holds, whatever their stage.
    pub fn held(&self, peer: &PeerId) -> Vec<ArtifactId> {
        self.holdings.held(peer)
    }

    /// Returns the artifacts that the peer holds and that wait for a request, most urgent first.
    pub fn needed(&self, peer: &PeerId) -> impl Iterator<Item = ArtifactId> {
        self.holdings.needed(peer)
    }

    pub fn needed_from(&self, peer: &PeerId) -> Option<NeededFrom> {
        self.holdings.needed_from(peer)
    }

    /// Returns the peers with artifacts that wait for a request.
    pub fn sources(&self) -> impl Iterator<Item = (&PeerId, NeededFrom)> {
        self.holdings.sources()
    }

    /// Changes an artifact and keeps the indexes. Forgets it if no task wants it and it is not in flight.
    fn update(&mut self, id: ArtifactId, now: Time, change: impl FnOnce(&mut Artifact)) {
        let Some(artifact) = self.known.get_mut(&id) else {
            return;
        };
        let rank = artifact.rank_if_needed();
        for peer in artifact.holders.keys() {
            self.holdings.remove(peer, id, rank);
        }
        self.missing.remove(&id);
        change(artifact);
        artifact.settle(now);
        if artifact.tasks.is_empty() && artifact.stage != Stage::InFlight {
            self.known.remove(&id);
            return;
        }
        let rank = artifact.rank_if_needed();
        for (peer, distance) in &artifact.holders {
            self.holdings.add(peer, *distance, id, rank);
        }
        if artifact.stage == Stage::Missing {
            self.missing.insert(id);
        }
    }
}

impl Artifact {
    fn new(order: u64, now: Time) -> Artifact {
        Artifact {
            order,
            wanted_since: now,
            size: None,
            tasks: BTreeMap::new(),
            holders: Holders::new(),
            failed: BTreeSet::new(),
            busy: BTreeMap::new(),
            stage: Stage::Missing,
            holderless_since: None,
            query: HolderQuery::Never,
        }
    }

    /// Derives the stage of an artifact that is not in flight from its holders.
    fn settle(&mut self, now: Time) {
        if self.holders.keys().any(|peer| !self.failed.contains(peer)) {
            self.holderless_since = None;
        }
        self.stage = match self.stage {
            Stage::InFlight => Stage::InFlight,
            Stage::Needed | Stage::Missing if self.holders.is_empty() => {
                self.holderless_since.get_or_insert(now);
                Stage::Missing
            }
            Stage::Needed | Stage::Missing => Stage::Needed,
        };
    }

    fn purpose(&self) -> TransferPurpose {
        let priority = self.tasks.values().min();
        priority.map_or(TransferPurpose::Inputs, |priority| priority.purpose())
    }

    /// Returns the rank of an artifact that waits for a request: the priority is the best of its tasks.
    fn rank_if_needed(&self) -> Option<Rank> {
        let priority = self.tasks.values().copied().min()?;
        (self.stage == Stage::Needed).then_some(Rank {
            priority,
            order: self.order,
        })
    }
}

#[cfg(test)]
impl Artifacts {
    /// Checks that the indexes are exact: an artifact is needed from a peer if and only if it waits for a request and the peer holds it, and
    /// is missing if and only if it is wanted without a holder.
    pub fn check(&self) {
        let mut entries = 0;
        for (id, artifact) in &self.known {
            let is_wanted = !artifact.tasks.is_empty();
            let rank = artifact.rank_if_needed();
            match artifact.stage {
                Stage::Needed => assert!(is_wanted && !artifact.holders.is_empty(), "{id:?}"),
                Stage::InFlight => {}
                Stage::Missing => assert!(is_wanted && artifact.holders.is_empty(), "{id:?}"),
            }
            let is_missing = artifact.stage == Stage::Missing;
            assert_eq!(self.missing.contains(id), is_missing, "{id:?}");
            assert!(
                !is_missing || artifact.holderless_since.is_some(),
                "{id:?} has no clock"
            );
            for peer in artifact.holders.keys() {
                assert!(self.holdings.lists(peer, *id, rank), "{id:?} of {peer:?}");
                entries += 1 + usize::from(rank.is_some());
            }
        }
        assert_eq!(self.holdings.entries(), entries, "an index has old entries");
        assert!(self.missing.iter().all(|id| self.known.contains_key(id)));
    }

    pub fn in_flight(&self) -> BTreeSet<ArtifactId> {
        let in_flight = self.known.iter();
        in_flight
            .filter(|(_, artifact)| artifact.stage == Stage::InFlight)
            .map(|(id, _)| *id)
            .collect()
    }
}
