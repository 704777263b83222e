//! Fingerprints of the requests and the credit of a worker, for searches that visit each state once ([`brasserie_common::fingerprint`]).
//! Every field on which a later decision depends is written here, times by `time`. A field may be left out only if it is merely shown or can
//! be recomputed.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::amounts::Amounts;
use super::workload::DeadlineWorkload;
use super::{CreditRequest, Credits, OfType, RequestStage};

impl Credits {
    /// Writes the state into a machine's hash.
    pub fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Credits {
            supply,
            newest,
            looked_at,
            turn,
            took,
            revocable,
            keeps_away,
            listed,
            // Only shown.
            unlisted: _,
            violations: _,
        } = self;
        s.put(*supply);
        s.opt(newest.as_ref(), |s, newest| newest.shape(s));
        s.opt(*looked_at, Shape::time);
        s.opt(*turn, |s, (at, turns)| {
            s.time(at);
            s.put(turns);
        });
        s.each(took, |s, (run, took)| {
            s.invocation(*run);
            s.put((&took.processor, took.usage.to_bits(), took.counted));
        });
        s.each(revocable, |s, (run, took)| {
            s.invocation(*run);
            s.put((&took.processor, took.usage.to_bits()));
            s.put((took.work.to_bits(), took.sending));
        });
        s.opt(*keeps_away, Shape::time);
        s.each(listed, |s, run| s.invocation(*run));
    }
}

impl CreditRequest {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let CreditRequest {
            seq,
            at,
            types,
            request_delay,
            deferred_delay,
            linger,
            tasks_left,
            workload,
            explains_delay,
            cards,
            stage,
        } = self;
        s.put((seq, request_delay, deferred_delay, linger, tasks_left));
        s.put((explains_delay, cards));
        s.time(*at);
        match stage {
            RequestStage::Open => s.put(0_u8),
            // A time that has just come differs from Over, because the request is good until it has passed.
            RequestStage::Lingering(until) => s.time(*until),
            RequestStage::Over => s.put(1_u8),
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
    fn bits(&self) -> ([u64; 5], Option<u64>, [u64; 3]) {
        let Amounts {
            secs,
            instances,
            idle,
            delay,
            there,
            waiting,
            asked,
        } = self;
        let amounts = [secs, instances, idle, delay, there].map(|amount| amount.to_bits());
        let asked = [asked.secs, asked.instances, asked.delay].map(f64::to_bits);
        (amounts, waiting.map(f64::to_bits), asked)
    }
}

impl DeadlineWorkload {
    /// Writes the state without the caches.
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let DeadlineWorkload {
            cpus,
            low_water,
            at,
            jobs,
            runs,
            rejected: _,
            ends: _,
        } = self;
        s.put((*cpus, low_water.to_bits()));
        s.time(*at);
        s.each(jobs.iter().zip(runs), |s, (job, run)| {
            s.put((job.remaining.to_bits(), job.deadline.to_bits()));
            s.invocation(*run);
        });
    }
}
