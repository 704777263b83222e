//! The engine's part of a fingerprint: all state that can change its later answers.
//!
//! The fingerprint leaves out:
//!
//! * state derived from the rest: columns, ready lists, limits, the ledger. Callers of [`Engine::hold_slots`] add these slots to their own
//!   part;
//! * state that is only shown, and the random number streams: a search tries each draw;
//! * the progress of work in slices: a node table on its way, a reclaim of names, memory release. In worlds small enough for an exhaustive
//!   search, each turn completes such work or gets as far as it can alone. The fingerprint only says whether some is left.

use std::hash::{BuildHasher, Hasher};

use brasserie_common::Time;
use brasserie_common::collections::SeededState;
use brasserie_common::fingerprint::{Shape, fingerprint_of};
use brasserie_common_config::NodeOrder;

use super::Engine;

impl Engine {
    /// Writes the state into a hash. Ids are written as they are, because they are assigned in order of appearance.
    pub fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(*self.sources_shape.get_or_init(|| self.hash_sources()));
        s.each(self.tasks.names(), |s, name| s.put(name));
        self.node_names.shape(s);
        self.reclaim.shape(s);
        s.put(self.is_refreshing());
        s.each(self.slots.names(), |s, name| s.put(name));
        self.shape_order(s);
        self.tasks.shape(s);
        s.opt(self.tasks.waits().all_held_until(), Shape::deadline);
        self.pool.shape(s);
        s.put((self.policy.cursor(), self.tasks.nodes_owner()));
    }

    /// Returns a hash of the state, for searches that visit each state once.
    pub fn fingerprint(&self, now: Time) -> u64 {
        fingerprint_of(|canon, hasher| self.shape(&mut Shape::new(now, canon, hasher)))
    }

    /// Hashes the configuration and the node tables, which are long and rarely change.
    fn hash_sources(&self) -> u64 {
        let state = SeededState::default();
        let config = self.config.as_ref().map(|config| format!("{config:?}"));
        let tables = [self.nodes(), self.table_on_its_way(), self.waiting.as_ref()];
        let tables = tables.map(|table| table.map(|table| format!("{table:?}")));
        state.hash_one((config, tables))
    }

    /// Writes the order of shuffled levels, because the shuffle is a random draw that persists.
    fn shape_order<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let is_random = |c: &&std::sync::Arc<brasserie_common_config::Config>| {
            c.node_order == NodeOrder::Random
        };
        let (Some(forest), Some(_)) = (&self.forest, self.config.as_ref().filter(is_random)) else {
            return;
        };
        for id in self.tasks.configured() {
            let level = self.tasks.job(*id).level;
            s.put(level.map_or(&[][..], |level| forest.order(level)));
        }
    }
}
