//! The answer to a work request.

use brasserie_common::{Processor, WorkReply, WorkVerdict};

use super::{Apps, OfType, Request, Wanted};

impl Request {
    pub(super) fn reply(&self) -> WorkReply {
        let wanted = self.types.iter();
        let wanted = wanted.filter(|of_type| of_type.wanted != Wanted::Nothing);
        let verdict = |of_type: &OfType| match (of_type.granted, of_type.verdict) {
            (0, Some(verdict)) => verdict,
            // More tasks may follow.
            (0, None) => WorkVerdict::Pending,
            (tasks, _) => WorkVerdict::Granted(tasks),
        };
        let verdicts: Vec<_> = wanted.map(|t| (t.processor.clone(), verdict(t))).collect();
        // DEFERRED starts no backoff at the worker, so the answer says when to ask again.
        let is_deferred =
            |(_, verdict): &(Processor, WorkVerdict)| *verdict == WorkVerdict::Deferred;
        let request_delay = match verdicts.iter().any(is_deferred) {
            true => self.request_delay.max(self.deferred_delay),
            false => self.request_delay,
        };
        let unused = self.types.iter();
        let unused = unused.filter(|of_type| of_type.apps == Apps::None);
        WorkReply {
            seq: self.seq,
            verdicts,
            request_delay,
            no_apps: unused.map(|t| t.processor.clone()).collect(),
            next_contact: None,
        }
    }
}
