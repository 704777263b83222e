//! Fingerprints of the worker set and of its echoes.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::{Consensus, Member, Serial};

impl Consensus {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        // Serials count from the start, so only their distance from the present one counts. The other collections follow from the members.
        // The steps behind the floor only serve to recognize wrong echoes.
        let Consensus {
            current,
            serial,
            base: _,
            members,
            by_first: _,
            initial: _,
            unsettled: _,
            foreigners,
            floor,
            last_settled,
            beyond,
            ready,
            granted,
            steps: _,
            cursor,
        } = self;
        let back = |at: Serial| serial.0 - at.0;
        s.set(*current);
        s.each(members, |s, (worker, member)| {
            let Member {
                first,
                echoed,
                initial,
                permit,
            } = member;
            s.worker(*worker);
            s.put((back(*first), echoed.map(back)));
            s.set(*initial);
            s.put(std::mem::discriminant(permit));
        });
        s.each(foreigners, |s, worker| s.worker(*worker));
        s.put((back(*floor), last_settled.map(back)));
        s.each(beyond, |s, (first, bound)| {
            s.put((back(*first), back(*bound)));
        });
        s.each(ready, |s, (_, worker)| s.worker(*worker));
        s.each(granted, |s, worker| s.worker(*worker));
        s.put(back(*cursor));
    }
}
