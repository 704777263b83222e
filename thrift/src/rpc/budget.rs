//! Counts the calls and bytes in flight on all connections of a server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::limits::{Limits, MAX_REFUSALS_KNOWN, REFUSAL_PAUSE, SAME_REFUSAL_PAUSE};

/// Counters of one server. A connection that exceeds them is not read for a while, and then refuses all but health calls.
pub(super) struct Budget {
    max_bytes: usize,
    max_calls: usize,
    reserved_calls: usize,
    allowance: usize,
    bytes: AtomicUsize,
    /// Bytes of replies beyond the allowances that peers leave unread.
    unread: AtomicUsize,
    calls: AtomicUsize,
    /// Open connections of peers that are not known.
    strangers: AtomicUsize,
    room: Notify,
    /// Has a permit if the peers leave too much unread.
    excess: Notify,
    refusals: Mutex<Refusals>,
}

/// Calls that were refused because of who made them.
#[derive(Default)]
struct Refusals {
    since_logged: u64,
    /// The texts of the last lines, and when they were logged, the oldest first.
    logged: VecDeque<(Instant, String)>,
}

impl Refusals {
    /// Counts a refusal. Returns the number of those since the last line if this one may be logged now.
    fn note(&mut self, now: Instant, text: &str) -> Option<u64> {
        self.since_logged += 1;
        let within = |at: &Instant, pause| now.duration_since(*at) < pause;
        while let Some((at, _)) = self.logged.front()
            && (!within(at, SAME_REFUSAL_PAUSE) || self.logged.len() > MAX_REFUSALS_KNOWN)
        {
            self.logged.pop_front();
        }
        let last = self.logged.back();
        let is_soon = last.is_some_and(|(at, _)| within(at, REFUSAL_PAUSE));
        if is_soon || self.logged.iter().any(|(_, known)| known == text) {
            return None;
        }
        self.logged.push_back((now, text.to_owned()));
        Some(std::mem::take(&mut self.since_logged))
    }
}

/// The bytes held by one connection. Only bytes above the allowance are charged to the budget.
#[derive(Default)]
pub(super) struct Account {
    held: AtomicUsize,
}

/// The calls that a connection may accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRoom {
    /// Any call.
    Free,
    /// Only health calls, and calls that are answered at once: this limit is exceeded.
    Reserve(Scope),
    /// No call.
    Full(Scope),
}

/// The owner of the exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The connection: too many calls, or too many unsent replies.
    Connection,
    /// The server: its connections together exceed a shared limit.
    Server,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Budget {
            max_bytes: limits.max_bytes_in_flight,
            max_calls: limits.max_calls,
            reserved_calls: limits.reserved_calls,
            allowance: limits.connection_allowance_bytes,
            bytes: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            strangers: AtomicUsize::new(0),
            room: Notify::new(),
            excess: Notify::new(),
            refusals: Mutex::default(),
        }
    }

    /// Counts a call that was refused with this text because of who made it. Returns the number of those since the last line of the log if
    /// a line with this text may be written now.
    pub(super) fn count_refusal(&self, text: &str) -> Option<u64> {
        self.refusals.lock().note(Instant::now(), text)
    }

    pub(super) fn begin_stranger(&self) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stranger less, who became known or left.
    pub(super) fn end_stranger(&self) {
        self.strangers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn strangers(&self) -> usize {
        self.strangers.load(Ordering::Relaxed)
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

    /// Returns the bytes beyond the allowances that all peers together may leave unread. The other half of the budget is for calls.
    pub(super) fn max_unread(&self) -> usize {
        self.max_bytes / 2
    }

    /// Replaces what one connection leaves unread beyond its allowance.
    pub(super) fn rebook_unread(&self, before: usize, now: usize) {
        self.unread.fetch_sub(before, Ordering::AcqRel);
        let all = self.unread.fetch_add(now, Ordering::AcqRel) + now;
        if now > before && all > self.max_unread() {
            self.excess.notify_one();
        }
    }

    /// Completes when the peers leave more unread than [`Budget::max_unread`].
    pub(super) async fn excess(&self) {
        self.excess.notified().await;
    }

    pub(super) fn begin_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_call(&self) {
        let before = self.calls.fetch_sub(1, Ordering::AcqRel);
        if before == self.max_calls || before == self.max_calls + self.reserved_calls {
            self.room.notify_waiters();
        }
    }

    /// Returns the calls that the server's limits let a connection accept.
    pub(super) fn room_for(&self, account: &Account) -> CallRoom {
        let calls = self.calls.load(Ordering::Acquire);
        let has_bytes = account.held.load(Ordering::Relaxed) < self.allowance
            || self.bytes.load(Ordering::Acquire) < self.max_bytes;
        if calls >= self.max_calls + self.reserved_calls {
            CallRoom::Full(Scope::Server)
        } else if calls >= self.max_calls || !has_bytes {
            CallRoom::Reserve(Scope::Server)
        } else {
            CallRoom::Free
        }
    }

    /// Returns whether the bytes exceed twice the budget, which only replies can do.
    pub(super) fn is_overrun(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.max_bytes.saturating_mul(2)
    }

    /// Completes when capacity has been released. Enable it before calling [`Budget::room_for`] again.
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
    use std::time::Duration;

    use super::*;

    fn budget() -> Budget {
        Budget::new(&Limits {
            max_bytes_in_flight: 100,
            max_calls: 2,
            reserved_calls: 1,
            connection_allowance_bytes: 10,
            ..Limits::DEFAULT
        })
    }

    #[test]
    fn a_refusal_is_logged_at_once_and_again_a_minute_later() {
        let mut refusals = Refusals::default();
        let start = Instant::now();
        let mut note =
            |seconds: u64, text: &str| refusals.note(start + Duration::from_secs(seconds), text);
        assert_eq!(note(0, "w1 is revoked"), Some(1));
        assert_eq!(note(0, "a flood"), None, "a line each second at most");
        let repeated = (1..60).filter_map(|second| note(second, "w1 is revoked"));
        assert_eq!(repeated.count(), 0);
        assert_eq!(note(59, "w2 is revoked"), Some(61));
        assert_eq!(note(60, "w1 is revoked"), Some(1));
        assert_eq!(note(61, "w2 is revoked"), None);
        let texts = (100..1000).filter_map(|second| note(second, &second.to_string()));
        assert_eq!(texts.count(), 900);
        assert!(refusals.logged.len() <= MAX_REFUSALS_KNOWN + 1);
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
        assert_eq!(budget.room_for(&hog), CallRoom::Reserve(Scope::Server));
        assert_eq!(
            budget.room_for(&small),
            CallRoom::Free,
            "its allowance is its own"
        );
        budget.release(&hog, 1);
        assert_eq!(budget.room_for(&hog), CallRoom::Free);
        budget.release(&hog, 109);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn calls_leave_the_reserve_at_their_limit_and_nothing_behind_it() {
        let budget = budget();
        let account = Account::default();
        let after_a_call = || {
            budget.begin_call();
            budget.room_for(&account)
        };
        let rooms = [after_a_call(), after_a_call(), after_a_call()];
        let (reserve, full) = (
            CallRoom::Reserve(Scope::Server),
            CallRoom::Full(Scope::Server),
        );
        assert_eq!(rooms, [CallRoom::Free, reserve, full]);
        budget.end_call();
        assert_eq!(budget.room_for(&account), reserve);
        budget.end_call();
        assert_eq!(budget.room_for(&account), CallRoom::Free);
        assert_eq!(budget.calls(), 1);
    }
}
