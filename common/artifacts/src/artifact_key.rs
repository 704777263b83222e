//! The names of artifacts in a store: each cluster that the worker serves has artifacts of its own.

use brasserie_common::{ArtifactId, ArtifactNamespace};

/// The name of an artifact in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArtifactKey {
    pub namespace: ArtifactNamespace,
    pub id: ArtifactId,
}

impl ArtifactKey {
    pub fn new(namespace: &ArtifactNamespace, id: ArtifactId) -> Self {
        let namespace = namespace.clone();
        ArtifactKey { namespace, id }
    }
}
