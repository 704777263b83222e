//! The wanted artifacts by the peers that hold them.

use std::collections::{BTreeMap, BTreeSet};

use super::types::{ArtifactId, Distance, PeerId, Priority};

/// The place of an artifact among those that wait for a request: urgent ones first, then those that have been wanted longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    pub priority: Priority,
    /// The number of artifacts wanted before. No two artifacts have the same.
    pub order: u64,
}

/// The wanted artifacts that each peer holds, and which of these wait for a request. A peer without any has no entry.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    peers: BTreeMap<PeerId, Holding>,
}

#[derive(Clone, Debug)]
struct Holding {
    distance: Distance,
    held: BTreeSet<ArtifactId>,
    /// Those that wait for a request.
    needed: BTreeMap<Rank, ArtifactId>,
}

/// A peer with artifacts that wait for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededFrom {
    pub distance: Distance,
    /// The priority of the most urgent artifact.
    pub priority: Priority,
    pub count: usize,
}

impl Holdings {
    /// Adds a holder of an artifact. `rank` is given if the artifact waits for a request.
    pub fn add(
        &mut self,
        peer: &PeerId,
        distance: Distance,
        artifact: ArtifactId,
        rank: Option<Rank>,
    ) {
        let holding = self.peers.entry(peer.clone()).or_insert_with(|| Holding {
            distance,
            held: BTreeSet::new(),
            needed: BTreeMap::new(),
        });
        holding.distance = distance;
        holding.held.insert(artifact);
        if let Some(rank) = rank {
            holding.needed.insert(rank, artifact);
        }
    }

    /// Removes what [`Holdings::add`] added with the same arguments.
    pub fn remove(&mut self, peer: &PeerId, artifact: ArtifactId, rank: Option<Rank>) {
        let Some(holding) = self.peers.get_mut(peer) else {
            return;
        };
        holding.held.remove(&artifact);
        if let Some(rank) = rank {
            holding.needed.remove(&rank);
        }
        if holding.held.is_empty() {
            self.peers.remove(peer);
        }
    }

    /// Returns the wanted artifacts that the peer holds.
    pub fn held(&self, peer: &PeerId) -> Vec<ArtifactId> {
        let holding = self.peers.get(peer);
        holding.map_or_else(Vec::new, |holding| holding.held.iter().copied().collect())
    }

    /// Returns the artifacts that wait for a request and that the peer holds, in the order of their ranks.
    pub fn needed(&self, peer: &PeerId) -> impl Iterator<Item = ArtifactId> {
        let holding = self.peers.get(peer);
        holding
            .into_iter()
            .flat_map(|holding| holding.needed.values().copied())
    }

    /// Returns what waits for a request and the peer holds; none if nothing does.
    pub fn needed_from(&self, peer: &PeerId) -> Option<NeededFrom> {
        self.peers.get(peer)?.summary()
    }

    /// Returns the peers with artifacts that wait for a request.
    pub fn sources(&self) -> impl Iterator<Item = (&PeerId, NeededFrom)> {
        let source = |(peer, holding): (_, &Holding)| Some((peer, holding.summary()?));
        self.peers.iter().filter_map(source)
    }

    #[cfg(test)]
    pub fn entries(&self) -> usize {
        let size = |holding: &Holding| holding.held.len() + holding.needed.len();
        self.peers.values().map(size).sum()
    }

    #[cfg(test)]
    pub fn lists(&self, peer: &PeerId, artifact: ArtifactId, rank: Option<Rank>) -> bool {
        self.peers.get(peer).is_some_and(|holding| {
            holding.held.contains(&artifact)
                && rank.is_none_or(|rank| holding.needed.get(&rank) == Some(&artifact))
        })
    }
}

impl Holding {
    fn summary(&self) -> Option<NeededFrom> {
        let (first, _) = self.needed.first_key_value()?;
        Some(NeededFrom {
            distance: self.distance,
            priority: first.priority,
            count: self.needed.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_known_distance_counts_and_entries_end_with_their_artifacts() {
        let (peer, near, far) = (
            PeerId::from("peer"),
            Distance::SameHost,
            Distance::Elsewhere,
        );
        let rank = |order: u64| {
            let priority = Priority(7 - order.cast_signed());
            Some(Rank { priority, order })
        };
        let ids = [ArtifactId([1; 32]), ArtifactId([2; 32])];
        let mut holdings = Holdings::default();
        holdings.add(&peer, far, ids[0], rank(1));
        holdings.add(&peer, near, ids[1], rank(2));
        let needed = holdings.needed_from(&peer).expect("two are needed");
        assert_eq!((needed.distance, needed.count), (near, 2));
        assert_eq!(needed.priority, Priority(5));
        assert!(holdings.needed(&peer).eq([ids[1], ids[0]]));
        holdings.remove(&peer, ids[1], rank(2));
        holdings.remove(&peer, ids[0], rank(1));
        assert_eq!((holdings.entries(), holdings.needed_from(&peer)), (0, None));
        assert_eq!(holdings.sources().count(), 0);
    }
}
