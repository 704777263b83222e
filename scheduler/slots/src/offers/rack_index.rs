//! A search for the next worker on a circle that is still available and in another rack.
//!
//! A scan would visit the same exhausted workers, or the same long run of one rack, for each artifact. The index is a binary tree over the
//! circle whose nodes know whether all available workers below them are in one rack, so a search takes logarithmic time.

/// The number of a rack within one offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RackNumber(pub u32);

/// The available workers below a node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    Nobody,
    One(RackNumber),
    SeveralRacks,
}

impl Below {
    fn join(self, other: Below) -> Below {
        match (self, other) {
            (Below::Nobody, rest) | (rest, Below::Nobody) => rest,
            (Below::One(left), Below::One(right)) if left == right => self,
            (Below::One(_), Below::One(_))
            | (Below::SeveralRacks, _)
            | (_, Below::SeveralRacks) => Below::SeveralRacks,
        }
    }

    /// Returns true if there is a worker outside the rack `other_than`.
    fn has(self, other_than: Option<RackNumber>) -> bool {
        match self {
            Below::Nobody => false,
            Below::One(rack) => Some(rack) != other_than,
            Below::SeveralRacks => true,
        }
    }
}

/// The available workers of a list, with their racks.
///
/// Invariant: node `i` joins the nodes `2 i` and `2 i + 1`, and the leaves begin at `leaves`, a power of two.
#[derive(Clone, Debug)]
pub struct RackIndex {
    nodes: Vec<Below>,
    leaves: usize,
}

impl RackIndex {
    /// Takes the rack of each worker of the list, or `None` for a worker that is not available.
    pub fn new(racks: &[Option<RackNumber>]) -> Self {
        let leaves = racks.len().next_power_of_two();
        let mut nodes = vec![Below::Nobody; 2 * leaves];
        for (leaf, rack) in nodes[leaves..].iter_mut().zip(racks) {
            *leaf = rack.map_or(Below::Nobody, Below::One);
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].join(nodes[2 * node + 1]);
        }
        RackIndex { nodes, leaves }
    }

    /// Makes a worker unavailable.
    pub fn remove(&mut self, position: usize) {
        let mut node = self.leaves + position;
        self.nodes[node] = Below::Nobody;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].join(self.nodes[2 * node + 1]);
        }
    }

    /// Returns the first available worker outside the rack `other_than`, from `start` to the end and then from the beginning.
    pub fn first_from(&self, start: usize, other_than: Option<RackNumber>) -> Option<usize> {
        self.first_between(start, other_than)
            .or_else(|| self.first_between(0, other_than))
    }

    /// Returns the first such worker at or after `start`.
    fn first_between(&self, start: usize, other_than: Option<RackNumber>) -> Option<usize> {
        if start >= self.leaves {
            return None;
        }
        let mut node = self.leaves + start;
        while !self.nodes[node].has(other_than) {
            // The next node to the right begins where this one ends. A path of right children ends at the root, whose number is odd.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.leaves {
            node *= 2;
            if !self.nodes[node].has(other_than) {
                node += 1;
            }
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_list_has_no_worker() {
        let index = RackIndex::new(&[]);
        assert_eq!(index.first_from(0, None), None);
        assert_eq!(index.first_from(9, Some(RackNumber(0))), None);
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn searches_find_what_a_scan_finds(
            racks in proptest::collection::vec(proptest::option::of(0..3_u32), 1..40),
            removed in proptest::collection::vec(0..40_usize, 0..40),
        ) {
            let mut racks: Vec<Option<RackNumber>> =
                racks.into_iter().map(|rack| rack.map(RackNumber)).collect();
            let mut index = RackIndex::new(&racks);
            for position in removed {
                let count = racks.len();
                racks[position % count] = None;
                index.remove(position % count);
                for other_than in [None, Some(RackNumber(0)), Some(RackNumber(1)), Some(RackNumber(9))] {
                    for start in 0..=count {
                        let mut circle = (0..count).map(|step| (start + step) % count);
                        let found = circle.find(|&at| racks[at].is_some() && racks[at] != other_than);
                        prop_assert_eq!(index.first_from(start, other_than), found);
                    }
                }
            }
        }
    }
}
