//! The coordinator of the fetching of artifacts. Each event ends in one evaluation of what can be fetched now.

mod outcomes;
mod selection;
mod timers;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use brasserie_common::Time;
use brasserie_common::rng::Rng;

use super::action::GatherAction;
use super::artifacts::{Artifacts, Holders, LossCause, Stage};
use super::busy_marks::BusyMarks;
use super::event::GatherEvent;
use super::limits::GatherLimits;
use super::transfers::Transfers;
use super::types::{ArtifactId, Distance, Peer, PeerId, Pressure};

/// Fetches artifacts from peers for the tasks of one worker.
///
/// The events decide everything: the same events, times and random numbers give the same actions. After each event the coordinator starts
/// the requests that are possible now, and asks the scheduler for holders where all known ones are busy. Nothing else starts
/// requests, and no wait grows:
///
/// * A busy peer is marked for [`GatherLimits::busy_mark`], and another holder is asked at once.
/// * A peer that sends no valid copy of an artifact does not count as its holder any more, until a refresh restores it.
/// * An artifact without holders is asked for periodically, and fails after [`GatherLimits::missing_timeout`].
///
/// Invariant: each wanted artifact is in a transfer, or can be requested as soon as the limits or the pressure allow it, or has a time at
/// which [`Gather::next_wake`] is due.
#[derive(Clone, Debug)]
pub struct Gather {
    me: Peer,
    limits: GatherLimits,
    rng: Rng,
    now: Time,
    pressure: Pressure,
    artifacts: Artifacts,
    transfers: Transfers,
    marks: BusyMarks,
}

/// How long a task has waited for an artifact, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactWait {
    pub artifact: ArtifactId,
    /// The time since which a task wants it.
    pub since: Time,
    pub reason: ArtifactWaitReason,
}

/// The reason for which an artifact has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactWaitReason {
    /// A transfer contains the artifact.
    InFlight,
    /// A holder is not busy, but the limits, the pressure, or another transfer from that holder delay the request.
    Queued,
    /// All known holders answered busy a moment ago.
    HoldersBusy,
    /// No holder is known.
    NoHolder,
}

/// The results of one event on its way through the components.
#[derive(Debug, Default)]
struct Turn {
    actions: Vec<GatherAction>,
    /// The artifacts whose holders may all be busy now.
    doubtful: BTreeSet<ArtifactId>,
    /// The artifacts that the scheduler is asked for.
    queries: BTreeSet<ArtifactId>,
}

impl Gather {
    /// Creates the state of a worker without wanted artifacts. `me` is never asked for anything.
    pub fn new(me: Peer, limits: GatherLimits, rng: Rng) -> Gather {
        Gather {
            me,
            limits,
            rng,
            now: Time::ZERO,
            pressure: Pressure::Normal,
            artifacts: Artifacts::default(),
            transfers: Transfers::default(),
            marks: BusyMarks::default(),
        }
    }

    /// Applies an event at the time `now`, and returns what to do in this order. Times never decrease: an earlier `now` counts as the last.
    #[must_use = "an action that is not performed makes tasks wait for ever"]
    pub fn handle(&mut self, event: GatherEvent, now: Time) -> Vec<GatherAction> {
        self.now = self.now.max(now);
        self.marks.expire(self.now);
        let mut turn = Turn::default();
        self.apply(event, &mut turn);
        self.check_missing(&mut turn);
        self.start_transfers(&mut turn);
        self.ask_for_holders(&mut turn);
        turn.actions
    }

    /// Returns the time at which [`GatherEvent::TimePassed`] is due; none if only other events can change anything.
    pub fn next_wake(&self) -> Option<Time> {
        self.marks
            .next_end()
            .into_iter()
            .chain(self.next_missing())
            .min()
    }

    /// Returns the artifacts that tasks wait for.
    pub fn waits(&self) -> Vec<ArtifactWait> {
        let wanted = self.artifacts.wanted();
        wanted
            .map(|(artifact, since)| ArtifactWait {
                artifact,
                since,
                reason: match self.artifacts.stage(artifact) {
                    Some(Stage::InFlight) => ArtifactWaitReason::InFlight,
                    Some(Stage::Needed) if self.are_all_busy(artifact) => {
                        ArtifactWaitReason::HoldersBusy
                    }
                    Some(Stage::Needed) => ArtifactWaitReason::Queued,
                    Some(Stage::Missing) | None => ArtifactWaitReason::NoHolder,
                },
            })
            .collect()
    }

    /// Returns the holders of an artifact that tasks wait for, each with the number of its busy answers meanwhile.
    pub fn holders_of(&self, artifact: ArtifactId) -> impl Iterator<Item = (&PeerId, u32)> {
        self.artifacts.holders_with_busy_answers(artifact)
    }

    fn apply(&mut self, event: GatherEvent, turn: &mut Turn) {
        let now = self.now;
        match event {
            GatherEvent::Wanted {
                task,
                priority,
                artifacts,
            } => {
                for wanted in artifacts {
                    let (artifact, holders) = (wanted.artifact, self.holders(wanted.holders));
                    self.artifacts
                        .want((task, priority), artifact, wanted.size, holders, now);
                    turn.doubtful.insert(artifact);
                }
            }
            GatherEvent::NotWanted { task, artifacts } => {
                for artifact in artifacts {
                    self.artifacts.unwant(task, artifact, now);
                }
            }
            GatherEvent::TransferEnded { transfer, outcome } => {
                self.end_transfer(transfer, outcome, turn);
            }
            // No query follows if the holders are all busy: the answer is fresh, and the end of a mark leads to the next request.
            GatherEvent::HoldersRefreshed { holders } => {
                for (artifact, holders) in holders {
                    let holders = self.holders(holders);
                    self.artifacts.refresh(artifact, holders, now);
                }
            }
            GatherEvent::PeerRemoved { peer } => self.drop_peer(&peer, LossCause::Removed, turn),
            GatherEvent::PressureChanged(pressure) => self.pressure = pressure,
            GatherEvent::TimePassed => {}
        }
    }

    /// Returns the other workers of a list with their distances.
    fn holders(&self, peers: Vec<Peer>) -> Holders {
        let others = peers.into_iter().filter(|peer| peer.id != self.me.id);
        others
            .map(|peer| {
                let distance = Distance::between(&self.me, &peer);
                (peer.id, distance)
            })
            .collect()
    }

    /// Removes the peer from the holders of all artifacts. What is in flight stays so.
    fn drop_peer(&mut self, peer: &PeerId, cause: LossCause, turn: &mut Turn) {
        for artifact in self.artifacts.held(peer) {
            self.artifacts.drop_holder(artifact, peer, cause, self.now);
            turn.doubtful.insert(artifact);
        }
    }

    /// Returns whether no known holder may be asked before its busy mark ends. Holds for an artifact without holders too.
    fn are_all_busy(&self, artifact: ArtifactId) -> bool {
        self.artifacts
            .holders(artifact)
            .all(|peer| self.marks.is_marked(peer))
    }
}
