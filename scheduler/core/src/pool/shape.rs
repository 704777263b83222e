//! Fingerprints of the pool.

use std::hash::Hasher;

use brasserie_common::RecordSeq;
use brasserie_common::fingerprint::Shape;

use super::Pool;
use crate::record::until_synced;

impl Pool {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        // The indexes follow from the workers.
        let Pool {
            by_shard,
            shards: _,
            by_id: _,
            by_lock: _,
            dead: _,
            left,
            consensus,
            spreading,
            wakes: _,
            unrecorded,
            gone,
        } = self;
        s.each(by_shard.values(), |s, remote| remote.shape(s, persisted));
        s.each(left.keys(), |s, worker| s.worker(*worker));
        consensus.shape(s);
        spreading.shape(s);
        s.each(gone, |s, worker| s.worker(*worker));
        s.each(unrecorded, |s, (seq, shard)| {
            s.put((until_synced(*seq, persisted), shard));
        });
    }
}
