//! The state of a link's calls under its lock: how they leave, and how they end when the link closes or their time is over.

use brasserie_common::Time;
use tokio::time::Instant;

use super::super::limits::CallTimeouts;
use super::super::outcome::{NotSent, Unknown};
use super::super::protocol::CallKind;
use super::{
    CallEnding, CallStage, Leftovers, LinkCall, LinkPhase, LinkState, Sequence, Slot, Told,
};

impl LinkState {
    /// Removes a call from the queue if none of its bytes has left.
    pub(super) fn withdraw(&mut self, sequence: Sequence) {
        let Some(call) = self.calls.get(&sequence.0) else {
            return;
        };
        match call.stage {
            CallStage::Queued => {}
            CallStage::Leaving | CallStage::Sent(_) => return,
        }
        let position = self
            .queue
            .iter()
            .position(|waiting| waiting.sequence == sequence);
        if let Some(waiting) = position.and_then(|position| self.queue.remove(position)) {
            self.queued_bytes -= waiting.frame.len();
        }
    }

    /// Ends queued calls after their time. The runtime's timers do not count suspended time, so a call that they count as fresh may be
    /// hours old.
    pub(super) fn drop_outdated(&mut self, now: Time) -> Told {
        let mut told = Told::new();
        let outdated: Vec<Sequence> = self
            .queue
            .iter()
            .filter(|waiting| waiting.not_after < now)
            .map(|waiting| waiting.sequence)
            .collect();
        for sequence in outdated {
            let untouched = self
                .calls
                .get(&sequence.0)
                .is_some_and(|call| matches!(call.stage, CallStage::Queued));
            if untouched {
                self.withdraw(sequence);
                if let Some(call) = self.calls.remove(&sequence.0) {
                    told.push((call.slot, CallEnding::NotSent(NotSent::TooLate)));
                }
            }
        }
        told
    }

    /// Ends the overdue calls with functions. Returns whether one of them blocks all others.
    pub(super) fn take_overdue(
        &mut self,
        now: Instant,
        timeouts: &CallTimeouts,
        told: &mut Told,
    ) -> bool {
        let (mut silent, mut is_stuck) = (false, false);
        let overdue = |call: &LinkCall| match (&call.slot, call.stage) {
            (Slot::Future(_), _) => false,
            (Slot::Function { since, .. }, CallStage::Queued | CallStage::Leaving) => {
                now >= *since + timeouts.send
            }
            (Slot::Function { .. }, CallStage::Sent(at)) => now >= at + timeouts.receive,
        };
        let overdue: Vec<Sequence> = self
            .calls
            .iter()
            .filter(|(_, call)| overdue(call))
            .map(|(&sequence, _)| Sequence(sequence))
            .collect();
        for sequence in overdue {
            self.withdraw(sequence);
            let Some(call) = self.calls.remove(&sequence.0) else {
                continue;
            };
            let ending = match call.stage {
                CallStage::Queued => CallEnding::NotSent(NotSent::SendTimeout),
                CallStage::Leaving => {
                    is_stuck = true;
                    CallEnding::Unknown(Unknown::SendTimeout)
                }
                CallStage::Sent(at) => {
                    silent |= self.last_received < at;
                    CallEnding::Unknown(Unknown::ReceiveTimeout)
                }
            };
            told.push((call.slot, ending));
        }
        if silent && matches!(self.phase, LinkPhase::Open) {
            self.phase = LinkPhase::Retired;
        }
        is_stuck
    }

    /// Notes that the kernel accepted bytes from the front of the queue.
    pub(super) fn advance(&mut self, written: usize, told: &mut Told) {
        let now = Instant::now();
        self.last_used = now;
        let mut left = written + self.head_written;
        while let Some(head) = self.queue.front() {
            let sequence = head.sequence;
            let length = head.frame.len();
            if left < length {
                self.head_written = left;
                if left > 0
                    && let Some(call) = self.calls.get_mut(&sequence.0)
                {
                    call.stage = CallStage::Leaving;
                }
                return;
            }
            left -= length;
            self.queued_bytes -= length;
            self.queue.pop_front();
            self.sent(sequence, now, told);
        }
        self.head_written = 0;
    }

    pub(super) fn sent(&mut self, sequence: Sequence, now: Instant, told: &mut Told) {
        let Some(call) = self.calls.get_mut(&sequence.0) else {
            // The caller has gone while the call was leaving.
            return;
        };
        call.stage = CallStage::Sent(now);
        match call.kind {
            CallKind::Call => {}
            CallKind::Oneway => {
                if let Some(call) = self.calls.remove(&sequence.0) {
                    told.push((call.slot, CallEnding::Written));
                }
            }
        }
    }

    /// Ends every call. A call that has not begun to leave is not sent on this link.
    pub(super) fn close(&mut self, reason: &str, leftovers: Leftovers) -> Told {
        let mut told = Told::new();
        if let LinkPhase::Closed(_) = self.phase {
            return told;
        }
        self.phase = LinkPhase::Closed(reason.to_owned());
        let queue = std::mem::take(&mut self.queue);
        self.queued_bytes = 0;
        for waiting in queue {
            let untouched = self
                .calls
                .get(&waiting.sequence.0)
                .is_some_and(|call| matches!(call.stage, CallStage::Queued));
            if untouched && let Some(call) = self.calls.remove(&waiting.sequence.0) {
                let (frame, reason) = (waiting.frame, reason.to_owned());
                let ending = match leftovers {
                    Leftovers::Return => CallEnding::Returned {
                        frame,
                        why: NotSent::ConnectionLost(reason),
                    },
                    Leftovers::ReturnToOther => CallEnding::Returned {
                        frame,
                        why: NotSent::OtherAuthority(reason),
                    },
                    Leftovers::Fail => CallEnding::NotSent(NotSent::ConnectionLost(reason)),
                };
                told.push((call.slot, ending));
            }
        }
        for (_, call) in self.calls.drain() {
            let reason = reason.to_owned();
            let why = match leftovers {
                Leftovers::Return | Leftovers::Fail => Unknown::ConnectionLost(reason),
                Leftovers::ReturnToOther => Unknown::OtherAuthority(reason),
            };
            told.push((call.slot, CallEnding::Unknown(why)));
        }
        told
    }
}
