//! The engine's part of a fingerprint: everything that can change what it answers from now on.
//!
//! Left out is what follows from the rest (columns, ready lists, limits, the ledger, but for slots held by whoever asked for
//! them, who tells of them), what is only shown, and the streams of random numbers: a search takes each draw as it comes. So is how far
//! work is that takes slices: a table on its way, names that are looked through, memory that is given back. In worlds so small that all
//! their states can be visited each turn brings it to its end, or as far as it gets without others; that there is some left is told.

use std::hash::{BuildHasher, Hasher};

use brasserie_common::Time;
use brasserie_common::collections::SeededState;
use brasserie_common::fingerprint::{Shape, fingerprint_of};
use brasserie_common_config::NodeOrder;

use crate::engine::Engine;
use crate::types::Task;

impl Engine {
    /// Writes the state into a hash. Small ids stay as they are: they are handed out in order of appearance.
    pub fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(*self.sources_shape.get_or_init(|| self.hash_sources()));
        s.each(self.job_names.all(), |s, name| s.put(name));
        self.node_names.shape(s);
        self.reclaim.shape(s);
        s.put(self.is_refreshing());
        s.each(self.resource_names.all(), |s, name| s.put(name));
        self.shape_order(s);
        self.shape_tasks(s);
        s.opt(self.barrier, Shape::deadline);
        self.pool.shape(s);
        s.put((self.policy.cursor(), self.nodes_of));
    }

    /// A hash of the state, for searches that visit each state once.
    pub fn fingerprint(&self, now: Time) -> u64 {
        fingerprint_of(|canon, hasher| self.shape(&mut Shape::new(now, canon, hasher)))
    }

    /// Of the configuration and the node table, which change rarely and are long.
    fn hash_sources(&self) -> u64 {
        let state = SeededState::default();
        let config = self.config.as_ref().map(|config| format!("{config:?}"));
        let tables = [
            self.nodes.as_ref(),
            self.table_on_its_way(),
            self.waiting.as_ref(),
        ];
        let tables = tables.map(|table| table.map(|table| format!("{table:?}")));
        state.hash_one((config, tables))
    }

    /// A shuffle is a draw that is kept.
    fn shape_order<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let is_random = |c: &&std::sync::Arc<brasserie_common_config::Config>| {
            c.node_order == NodeOrder::Random
        };
        let (Some(forest), Some(_)) = (&self.forest, self.config.as_ref().filter(is_random)) else {
            return;
        };
        for id in &self.configured {
            let level = self.jobs[id.index()].level;
            s.put(level.map_or(&[][..], |level| forest.order(level)));
        }
    }

    fn shape_tasks<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        for job in &self.jobs {
            if let Some(learned) = job.learned {
                s.put(learned);
            }
            s.each(job.statuses.iter(), |s, (node, status)| {
                s.put(node);
                s.stored(&status);
            });
        }
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_unstable_by_key(|(task, _)| *task);
        s.each(running, |s, (task, run)| {
            s.put((task, run.worker));
            s.each(&run.charges, |s, charge| {
                s.put((charge.node, charge.resource, charge.amount));
            });
            s.put((&run.cards.gpus, &run.cards.need, &run.cards.counts_as));
        });
        let mut held: Vec<Task> = self.held.iter().copied().collect();
        held.sort_unstable();
        s.put(held);
        self.waits.shape(s);
    }
}
