//! Names to small ids and back; keyed hashing, because peers and scripts choose the names.

use std::borrow::Borrow;
use std::hash::Hash;

use brasserie_common::NodeName;
use brasserie_common::collections::{SeededMap, SeededState};

/// Ids in order of first appearance.
#[derive(Clone, Debug)]
pub(crate) struct Names<N> {
    names: Vec<N>,
    /// Answers for ids that nobody handed out.
    nobody: N,
    ids: SeededMap<N, u32>,
}

impl<N: Clone + Default + Eq + Hash + Borrow<str>> Names<N> {
    pub(crate) fn new(seed: u64) -> Self {
        Names {
            names: Vec::new(),
            nobody: N::default(),
            ids: SeededMap::with_hasher(SeededState(seed)),
        }
    }

    pub(crate) fn intern(&mut self, name: &N) -> u32 {
        if let Some(&id) = self.ids.get(name.borrow()) {
            return id;
        }
        // Invariant: 2^32 names would need more memory than any machine that we run on has.
        let id = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The empty name for an id that was never handed out.
    pub(crate) fn get(&self, id: u32) -> &N {
        self.names.get(id as usize).unwrap_or(&self.nobody)
    }

    /// In the order of their ids.
    pub(crate) fn all(&self) -> &[N] {
        &self.names
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Names<NodeName> {
    /// `text` comes from a node table, which checked it.
    pub(crate) fn intern_text(&mut self, text: &str) -> u32 {
        match self.find(text) {
            Some(id) => id,
            None => self.intern(&NodeName::try_from(text).unwrap_or_default()),
        }
    }
}
