//! The artifacts that the store has, in memory: on which disk each is, and a digest of them for each namespace and disk. Also those that it
//! has lost.

use std::collections::{BTreeMap, btree_map};

use brasserie_common::{ArtifactId, ArtifactNamespace, DiskGeneration, SetDigest};
use thiserror::Error;

use crate::artifact_key::ArtifactKey;

/// A disk of the store, by its place among the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskNumber(pub usize);

/// One copy of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredCopy {
    pub disk: DiskNumber,
    /// Bytes.
    pub size: u64,
    /// Another number for each copy, so that a reader of a former copy does not delete the next one.
    pub serial: u64,
}

/// The artifacts of one namespace on one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskContent {
    /// The digest of their ids.
    pub digest: SetDigest,
    pub artifacts: u64,
}

/// All artifacts.
///
/// Invariant: `digests` has for each namespace and disk the digest of the ids there.
#[derive(Debug, Default)]
pub struct Catalog {
    namespaces: BTreeMap<ArtifactNamespace, BTreeMap<ArtifactId, StoredCopy>>,
    contents: BTreeMap<(ArtifactNamespace, DiskNumber), DiskContent>,
    copies_so_far: u64,
}

impl Catalog {
    pub fn find(&self, key: &ArtifactKey) -> Option<StoredCopy> {
        self.namespaces.get(&key.namespace)?.get(&key.id).copied()
    }

    /// Adds a copy. Returns whether the artifact had none before; if it had one, that one stays.
    pub fn add(&mut self, key: &ArtifactKey, disk: DiskNumber, size: u64) -> bool {
        let artifacts = self.namespaces.entry(key.namespace.clone()).or_default();
        let btree_map::Entry::Vacant(place) = artifacts.entry(key.id) else {
            return false;
        };
        self.copies_so_far += 1;
        let serial = self.copies_so_far;
        place.insert(StoredCopy { disk, size, serial });
        let content = self
            .contents
            .entry((key.namespace.clone(), disk))
            .or_default();
        content.digest.include(key.id.0);
        content.artifacts += 1;
        true
    }

    /// Returns the serial of the newest copy.
    pub fn newest_serial(&self) -> u64 {
        self.copies_so_far
    }

    pub fn remove(&mut self, key: &ArtifactKey) -> Option<StoredCopy> {
        let copy = self.namespaces.get_mut(&key.namespace)?.remove(&key.id)?;
        let content = self.contents.get_mut(&(key.namespace.clone(), copy.disk));
        let content = content.expect("Invariant: each copy is in a digest");
        content.digest.exclude(key.id.0);
        content.artifacts -= 1;
        Some(copy)
    }

    pub fn artifacts(
        &self,
        namespace: &ArtifactNamespace,
    ) -> impl Iterator<Item = (ArtifactId, StoredCopy)> {
        let artifacts = self.namespaces.get(namespace).into_iter().flatten();
        artifacts.map(|(id, copy)| (*id, *copy))
    }

    pub fn content(&self, namespace: &ArtifactNamespace, disk: DiskNumber) -> DiskContent {
        let content = self.contents.get(&(namespace.clone(), disk));
        content.copied().unwrap_or_default()
    }

    /// Returns the namespaces that have artifacts.
    pub fn namespaces(&self) -> impl Iterator<Item = &ArtifactNamespace> {
        let filled = self
            .namespaces
            .iter()
            .filter(|(_, artifacts)| !artifacts.is_empty());
        filled.map(|(namespace, _)| namespace)
    }
}

/// The reason why a copy of an artifact is lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CopyLoss {
    #[error("its file is missing")]
    Missing,
    #[error("its file has {found} bytes instead of {expected}")]
    WrongSize { expected: u64, found: u64 },
    #[error("its content has another SHA-256")]
    WrongContent,
    #[error("its disk cannot read it: {0}")]
    Unreadable(String),
}

/// An artifact that the store has dropped. The caller reports it to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostArtifact {
    pub namespace: ArtifactNamespace,
    pub id: ArtifactId,
    /// The generation of the disk that had the copy.
    pub generation: Option<DiskGeneration>,
    pub cause: CopyLoss,
}
