//! The replicas that the scheduler requests: which are being fetched, and when failed ones may be tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::Time;

use super::event::WantedArtifact;
use super::types::ArtifactId;

/// The artifacts of which the scheduler's last answer requests a copy here.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    requested: BTreeMap<ArtifactId, ReplicaStage>,
}

/// How far the fetching of a replica is.
///
/// ```text
///   (requested) --> Fetching --no holder, or no space--> Failed
///                   |  ^                                   |
///                   |  +---- requested after a pause ------+
///                   +--a valid copy--> (forgotten)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicaStage {
    Fetching,
    /// The last attempt failed at this time.
    Failed(Time),
}

/// The changes that follow from an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReplicaChanges {
    /// The artifacts to fetch from now on.
    pub begun: Vec<WantedArtifact>,
    /// The artifacts that are not to be fetched any more.
    pub dropped: Vec<ArtifactId>,
}

impl Replicas {
    /// Replaces the requests by those of an answer.
    pub fn request(
        &mut self,
        wanted: Vec<WantedArtifact>,
        retry: Duration,
        now: Time,
    ) -> ReplicaChanges {
        let mut before = std::mem::take(&mut self.requested);
        let mut begun = Vec::new();
        for one in wanted {
            let id = one.artifact;
            let stage = match before.remove(&id) {
                Some(ReplicaStage::Failed(at)) if now < at + retry => ReplicaStage::Failed(at),
                Some(ReplicaStage::Fetching) => ReplicaStage::Fetching,
                // An answer may name an artifact twice.
                None if self.requested.contains_key(&id) => continue,
                Some(ReplicaStage::Failed(_)) | None => {
                    begun.push(one);
                    ReplicaStage::Fetching
                }
            };
            self.requested.insert(id, stage);
        }
        let dropped = before.into_iter();
        let dropped = dropped.filter(|(_, stage)| *stage == ReplicaStage::Fetching);
        ReplicaChanges {
            begun,
            dropped: dropped.map(|(id, _)| id).collect(),
        }
    }

    /// Forgets a request whose copy has arrived.
    pub fn arrived(&mut self, id: ArtifactId) {
        self.requested.remove(&id);
    }

    /// Notes a failed attempt. Returns whether the replica was being fetched.
    pub fn fail(&mut self, id: ArtifactId, now: Time) -> bool {
        let stage = self.requested.get_mut(&id);
        let stage = stage.filter(|stage| **stage == ReplicaStage::Fetching);
        stage
            .map(|stage| *stage = ReplicaStage::Failed(now))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_secs(10);

    fn id(number: u8) -> ArtifactId {
        ArtifactId([number; 32])
    }

    fn wanted(numbers: &[u8]) -> Vec<WantedArtifact> {
        let one = |&number: &u8| WantedArtifact {
            artifact: id(number),
            size: None,
            holders: Vec::new(),
        };
        numbers.iter().map(one).collect()
    }

    #[test]
    fn a_request_lasts_until_it_is_not_repeated_or_its_copy_arrives() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut replicas = Replicas::default();
        let mut request = |numbers: &[u8], seconds| {
            let changes = replicas.request(wanted(numbers), RETRY, at(seconds));
            let begun = changes.begun.iter().map(|one| one.artifact.0[0]);
            let dropped = changes.dropped.iter().map(|id| id.0[0]);
            (begun.collect::<Vec<u8>>(), dropped.collect::<Vec<u8>>())
        };
        assert_eq!(request(&[1, 2, 2], 0), (vec![1, 2], vec![]));
        assert_eq!(request(&[2, 3], 1), (vec![3], vec![1]));
        assert_eq!(request(&[1, 2, 3], 2), (vec![1], vec![]));
        assert!(replicas.fail(id(2), at(3)) && !replicas.fail(id(2), at(4)));
        replicas.arrived(id(3));
        let mut request = |numbers: &[u8], seconds| {
            let changes = replicas.request(wanted(numbers), RETRY, at(seconds));
            (changes.begun.len(), changes.dropped.len())
        };
        // The failed one waits, and the pause begins with the failure.
        assert_eq!(request(&[1, 2], 12), (0, 0));
        assert_eq!(request(&[1, 2], 13), (1, 0));
        assert_eq!(request(&[], 14), (0, 2));
        assert_eq!(request(&[1], 14), (1, 0));
    }
}
