//! Fingerprints of runs and completions.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{RecordSeq, WallTime};

use super::{Run, Runs};
use crate::record::until_synced;
use crate::waits::safety::SafetyWaits;

impl Runs {
    pub(crate) fn shape<H: Hasher>(
        &self,
        s: &mut Shape<'_, H>,
        safety: &SafetyWaits,
        persisted: RecordSeq,
        wall: WallTime,
    ) {
        let Runs {
            runs,
            further,
            on_shard: _,
            ended,
            deleted,
            pending,
            pending_by_task: _,
            unsure,
            spans: _,
        } = self;
        s.each(runs, |s, (task, run)| {
            s.put(task);
            run.shape(s);
        });
        s.each(further.iter(), |s, (task, run)| {
            s.put(task);
            run.shape(s);
        });
        s.each(further.waits(), |s, (task, until)| {
            s.put(task);
            s.deadline(*until);
        });
        safety.shape(s);
        let mut ended: Vec<_> = ended.iter().collect();
        ended.sort_unstable_by_key(|(task, _)| **task);
        s.each(ended, |s, (task, invocation)| {
            s.put(task);
            s.invocation(*invocation);
            // The next run gets the second of the wall clock, or that of this run if it is later.
            s.put(
                invocation
                    .0
                    .start_time
                    .saturating_sub(wall.as_secs())
                    .max(0),
            );
        });
        deleted.shape(s, wall);
        s.each(pending, |s, (seq, tasks)| {
            s.put((until_synced(*seq, persisted), tasks));
        });
        unsure.shape(s);
    }
}

impl Run {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Run {
            invocation,
            shard,
            next_backoff,
            kill_wait,
            // Only shown.
            since: _,
            // Only used in messages about runs that a worker does not list.
            confirmed: _,
            // Only delays the deletion of data.
            outputs_since: _,
            start_failure: _,
            // Only stored with the completion.
            queued: _,
            sent_for,
            // Only the order of fences has effects, and it equals the order of the runs.
            fence: _,
            state,
        } = self;
        s.invocation(*invocation);
        s.put((shard, next_backoff.no_more_backoffs));
        s.put((next_backoff.seconds, next_backoff.times));
        s.put((kill_wait, sent_for, state));
    }
}
