//! The artifacts that running tasks read. A pin keeps an artifact that no live output refers to any more.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{ArtifactId, InvocationId};

/// The pins of each run.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    runs: BTreeMap<InvocationId, BTreeSet<ArtifactId>>,
}

impl Pins {
    /// Adds a pin. Returns whether the run had none on this artifact.
    pub fn add(&mut self, run: InvocationId, id: ArtifactId) -> bool {
        self.runs.entry(run).or_default().insert(id)
    }

    pub fn contains(&self, run: InvocationId) -> bool {
        self.runs.contains_key(&run)
    }

    /// Returns the runs that have a pin on an artifact.
    pub fn of_artifact(&self, id: ArtifactId) -> impl Iterator<Item = InvocationId> {
        let with_it = self.runs.iter().filter(move |(_, ids)| ids.contains(&id));
        with_it.map(|(run, _)| *run)
    }

    /// Removes the pins of a run and returns their artifacts.
    pub fn remove(&mut self, run: InvocationId) -> BTreeSet<ArtifactId> {
        self.runs.remove(&run).unwrap_or_default()
    }
}
