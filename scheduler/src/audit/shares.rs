//! Bounds what one caller may add to the audit log, so that nobody pushes the lines of others out of it by changes without a pause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use brasserie_common::access::{Identity, Role, SCHEDULER_CALLS, callers};
use parking_lot::Mutex;

/// A caller may fill one of so many parts of the kept log at once: 16 MiB by default, which is some 30,000 changes.
const PARTS: u64 = 8;
/// The time in which a caller may fill one more part. So one caller alone needs seven hours to push out the lines of others.
const PERIOD: Duration = Duration::from_secs(60 * 60);
/// The number of callers above which those are forgotten that may fill a whole part at once again.
const MANY: usize = 4096;
/// Calls that viewers may not make, and that are always served: two change nothing, and a stolen token must not delay its own revocation.
const ALWAYS_SERVED: [&str; 4] = ["getAuditPage", "listTokens", "revokeToken", "revokeWorker"];

/// The refusal of a change whose caller has filled its part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many changes by this caller: try again in {0} s")]
pub(crate) struct TooManyChanges(u64);

/// The parts of the log that callers have filled.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The bytes of one part.
    part: u32,
    /// The times at which callers will have nothing in their part any more. Each byte moves the time of its caller by its share of the
    /// period.
    free_at: Mutex<BTreeMap<String, Instant>>,
}

impl Shares {
    /// Divides a log that keeps this number of bytes.
    pub(super) fn of(kept: u64) -> Self {
        Shares {
            part: u32::try_from(kept / PARTS).unwrap_or(u32::MAX),
            free_at: Mutex::default(),
        }
    }

    /// Counts bytes that the log has got about a caller.
    pub(super) fn add(&self, now: Instant, caller: &str, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let time = PERIOD * bytes / self.part.max(1);
        let mut free_at = self.free_at.lock();
        match free_at.get_mut(caller) {
            Some(at) => *at = (*at).max(now) + time,
            None => {
                if free_at.len() >= MANY {
                    free_at.retain(|_, at| *at > now);
                }
                free_at.insert(caller.to_owned(), now + time);
            }
        }
    }

    /// Errors if a caller has filled its part.
    pub(super) fn check(&self, now: Instant, caller: &str) -> Result<(), TooManyChanges> {
        let free_at = self.free_at.lock().get(caller).copied();
        let wait = free_at.map(|at| at.saturating_duration_since(now).saturating_sub(PERIOD));
        match wait {
            Some(wait) if !wait.is_zero() => Err(TooManyChanges(wait.as_secs() + 1)),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns whether the log may have so many lines about this call that the caller must wait.
pub(super) fn is_bounded(by: &Identity, call: &str) -> bool {
    let has_changes = match by.role {
        Role::Admin | Role::Operator | Role::Submitter => true,
        Role::Scheduler | Role::Worker | Role::Lapsed | Role::Viewer => false,
    };
    let shows =
        |call| callers(SCHEDULER_CALLS, call).is_some_and(|all| all.include(Some(Role::Viewer)));
    has_changes && !shows(call) && !ALWAYS_SERVED.contains(&call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_fills_a_part_at_once_and_another_one_in_an_hour() {
        let (shares, begin) = (Shares::of(PARTS * 1000), Instant::now());
        let fill = |now: Instant, caller: &str| {
            let mut lines = 0;
            while shares.check(now, caller).is_ok() {
                shares.add(now, caller, 10);
                lines += 1;
            }
            lines
        };
        // The line that begins within the part may end after it.
        assert_eq!(fill(begin, "ana"), 101);
        assert_eq!(shares.check(begin, "ana"), Err(TooManyChanges(37)));
        assert_eq!(fill(begin, "bob"), 101, "nobody waits for others");
        assert_eq!(fill(begin + PERIOD, "ana"), 100);
        assert_eq!(
            fill(begin + 9 * PERIOD, "ana"),
            101,
            "a rest saves one part"
        );
    }

    #[test]
    fn callers_are_forgotten_once_their_part_is_free() {
        let (shares, begin) = (Shares::of(PARTS * 1000), Instant::now());
        (0..2 * MANY).for_each(|n| shares.add(begin, &n.to_string(), 1000));
        assert_eq!(shares.free_at.lock().len(), 2 * MANY, "all are in use");
        shares.add(begin + PERIOD, "late", 1000);
        assert_eq!(shares.free_at.lock().len(), 1);
    }
}
