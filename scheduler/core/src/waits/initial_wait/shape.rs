//! Fingerprints of the initial wait.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{RecordSeq, Time, WallTime};

use super::{Basis, Expected, InitialWait, Witness};
use crate::record::until_synced;

impl InitialWait {
    pub(crate) fn shape<H: Hasher>(
        &self,
        s: &mut Shape<'_, H>,
        persisted: RecordSeq,
        wall: WallTime,
    ) {
        let InitialWait {
            start,
            safe_at,
            consensus_at,
            startup_wait,
            warning: _,
            basis,
            expected,
            counts_from_bounds,
            unanswered_version: _,
            schedulers,
            hold_backs,
            declared_dead,
            waits_anew_by,
            override_timestamp,
            over,
            seen,
        } = self;
        // A deadline also counts by whether it has been handled, which may be later than its time.
        let deadline = |s: &mut Shape<'_, H>, at: Time| {
            s.deadline(at);
            s.put(at > *seen);
        };
        deadline(s, *safe_at);
        deadline(s, *consensus_at);
        s.put(safe_at.since(*start));
        s.opt(*startup_wait, |s, wait| deadline(s, *start + wait));
        s.put(std::mem::discriminant(basis));
        match basis {
            Basis::Record | Basis::NewCluster | Basis::Nothing | Basis::Restored => {}
            Basis::Stale(Witness::Scheduler(scheduler)) => s.scheduler(*scheduler),
            Basis::Stale(Witness::Worker(worker)) => s.worker(*worker),
        }
        s.each(expected, |s, (worker, expected)| {
            let Expected {
                instance,
                dead_at,
                unanswered_since,
                heard_at,
            } = expected;
            s.worker(*worker);
            s.put((&instance.shard, &instance.machine_lock));
            s.put((instance.heartbeat_period, instance.timeouts));
            deadline(s, *dead_at);
            s.time_if(*unanswered_since);
            s.time_if(*heard_at);
        });
        s.each(schedulers, |s, scheduler| s.scheduler(*scheduler));
        s.each(hold_backs, |s, (worker, until)| {
            s.opt(*worker, Shape::worker);
            deadline(s, *until);
        });
        for seq in [declared_dead, waits_anew_by] {
            s.opt(*seq, |s, seq| s.put(until_synced(seq, persisted)));
        }
        let until_override = override_timestamp.saturating_sub(wall.as_secs()).max(0);
        s.put((over.is_some(), until_override));
        s.put(counts_from_bounds);
    }
}
