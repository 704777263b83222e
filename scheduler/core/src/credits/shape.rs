//! Fingerprints: what a worker asked for, and what is left of it.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::amounts::Amounts;
use super::workload::Workload;
use super::{Credits, OfType, Request, Stage};

impl Credits {
    /// Writes the state into a machine's hash.
    pub fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Credits {
            supply,
            newest,
            looked_at,
            turn,
            listed,
            // For people.
            unlisted: _,
            violations: _,
        } = self;
        s.put(*supply);
        s.opt(newest.as_ref(), |s, newest| newest.shape(s));
        s.opt(*looked_at, Shape::time);
        s.opt(*turn, Shape::time);
        s.each(listed, |s, run| s.invocation(*run));
    }
}

impl Request {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Request {
            seq,
            at,
            types,
            request_delay,
            deferred_delay,
            linger,
            tasks_left,
            workload,
            explains_delay,
            stage,
        } = self;
        s.put((seq, request_delay, deferred_delay, linger, tasks_left));
        s.put(explains_delay);
        s.time(*at);
        match stage {
            Stage::Open => s.put(0_u8),
            // The limit itself is still good, so it is not yet over.
            Stage::Lingering(until) => s.time(*until),
            Stage::Over => s.put(1_u8),
        }
        s.each(types, |s, of_type| {
            let OfType {
                processor,
                wanted,
                amounts,
                granted,
                verdict,
                apps,
            } = of_type;
            s.put((processor, wanted, granted, verdict, apps));
            s.put(amounts.bits());
        });
        s.opt(workload.as_ref(), |s, workload| workload.shape(s));
    }
}

impl Amounts {
    fn bits(&self) -> [u64; 5] {
        let Amounts {
            secs,
            instances,
            idle,
            delay,
            there,
        } = self;
        [secs, instances, idle, delay, there].map(|amount| amount.to_bits())
    }
}

impl Workload {
    /// Without what is only remembered to be spared.
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Workload {
            cpus,
            at,
            jobs,
            runs,
            rejected: _,
            ends: _,
        } = self;
        s.put(*cpus);
        s.time(*at);
        s.each(jobs.iter().zip(runs), |s, (job, run)| {
            s.put((job.remaining.to_bits(), job.deadline.to_bits()));
            s.invocation(*run);
        });
    }
}
