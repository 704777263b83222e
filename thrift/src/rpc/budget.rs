//! What all connections of a server may hold together: calls in flight and bytes in flight.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::limits::Limits;

/// Counters of one server. Nothing is ever refused here: whoever finds no room stops reading until there is some.
pub(super) struct Budget {
    max_bytes: usize,
    max_calls: usize,
    allowance: usize,
    bytes: AtomicUsize,
    calls: AtomicUsize,
    room: Notify,
}

/// What one connection holds. Bytes up to the allowance are its own; those above are charged to the budget.
#[derive(Default)]
pub(super) struct Account {
    held: AtomicUsize,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Budget {
            max_bytes: limits.max_bytes_in_flight,
            max_calls: limits.max_calls,
            allowance: limits.connection_allowance_bytes,
            bytes: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            room: Notify::new(),
        }
    }

    pub(super) fn hold(&self, account: &Account, bytes: usize) {
        let before = account.held.fetch_add(bytes, Ordering::Relaxed);
        let charged = self.over(before + bytes) - self.over(before);
        if charged > 0 {
            self.bytes.fetch_add(charged, Ordering::Relaxed);
        }
    }

    pub(super) fn release(&self, account: &Account, bytes: usize) {
        let before = account.held.fetch_sub(bytes, Ordering::Relaxed);
        let freed = self.over(before) - self.over(before - bytes);
        if freed > 0 {
            let used = self.bytes.fetch_sub(freed, Ordering::AcqRel);
            if used >= self.max_bytes && used - freed < self.max_bytes {
                self.room.notify_waiters();
            }
        }
    }

    pub(super) fn begin_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_call(&self) {
        if self.calls.fetch_sub(1, Ordering::AcqRel) == self.max_calls {
            self.room.notify_waiters();
        }
    }

    /// Whether a connection may take in more bytes or another call.
    pub(super) fn has_room(&self, account: &Account) -> bool {
        self.calls.load(Ordering::Acquire) < self.max_calls
            && (account.held.load(Ordering::Relaxed) < self.allowance
                || self.bytes.load(Ordering::Acquire) < self.max_bytes)
    }

    /// Whether even replies, which nothing else holds back, have outgrown the budget twice over.
    pub(super) fn is_overrun(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.max_bytes.saturating_mul(2)
    }

    /// Completes when room has come back; enable it before looking at [`Budget::has_room`] once more.
    pub(super) fn room(&self) -> Notified<'_> {
        self.room.notified()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn over(&self, held: usize) -> usize {
        held.saturating_sub(self.allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(&Limits {
            max_bytes_in_flight: 100,
            max_calls: 2,
            connection_allowance_bytes: 10,
            ..Limits::DEFAULT
        })
    }

    #[test]
    fn only_bytes_above_the_allowance_are_charged() {
        let budget = budget();
        let (hog, small) = (Account::default(), Account::default());
        budget.hold(&small, 9);
        assert_eq!(budget.bytes(), 0);
        budget.hold(&hog, 60);
        budget.hold(&hog, 50);
        assert_eq!(budget.bytes(), 100);
        assert!(!budget.has_room(&hog));
        assert!(budget.has_room(&small), "its allowance is its own");
        budget.release(&hog, 1);
        assert!(budget.has_room(&hog));
        budget.release(&hog, 109);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn calls_leave_no_room_at_their_limit() {
        let budget = budget();
        let account = Account::default();
        budget.begin_call();
        assert!(budget.has_room(&account));
        budget.begin_call();
        assert!(!budget.has_room(&account));
        budget.end_call();
        assert!(budget.has_room(&account));
        assert_eq!(budget.calls(), 1);
    }
}
