//! Fingerprints of orphans and of their kill requests.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::{OnShard, Orphan, Orphans, Step};

impl Orphans {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Orphans {
            unchecked,
            by_run,
            by_shard,
            evaluated,
        } = self;
        s.put(evaluated);
        unchecked.shape(s);
        s.each(by_run, |s, ((task, invocation), orphan)| {
            s.put(task);
            s.invocation(*invocation);
            orphan.shape(s);
        });
        s.each(by_shard, |s, (shard, on_shard)| {
            let OnShard {
                // Follows from the steps.
                waiting: _,
                open,
            } = on_shard;
            s.put(shard);
            s.each(open, |s, call| s.call(*call));
        });
    }
}

impl Orphan {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Orphan {
            shard,
            since,
            step,
            asked,
            // Only shown, except for whether there was a first request.
            last,
        } = self;
        s.put((shard, asked, last.is_some()));
        s.time(*since);
        match step {
            Step::Waiting(at) => s.opt(Some(*at), Shape::deadline),
            Step::Asked(call) => {
                s.opt(None, Shape::deadline);
                s.call(*call);
            }
        }
    }
}
