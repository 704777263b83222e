//! The writes to the folder `identity`: one change writes there at a time, and no thread waits for the disk without a limit.
//!
//! A write that the disk does not answer keeps its thread in the kernel. So threads that only read the registry, or revoke, take no turn here.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::NotAdmitted;

/// The time without an answer of the disk that `status` names, as of the audit log.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// The longest wait of a change for those before it: far longer than as many writes take as calls may wait.
const LONGEST_TURN: Duration = Duration::from_secs(10);
/// The longest wait for the answer of the disk to a revocation, which is in effect already.
const LONGEST_ANSWER: Duration = Duration::from_secs(5);

/// The turns of changes, and the outcome of their writes.
#[derive(Default)]
pub(super) struct Writes {
    /// Locked by a change from its copy of the registry until that is on disk.
    changing: Mutex<()>,
    state: Mutex<WriteState>,
    /// Notified after each write.
    written: Condvar,
}

#[derive(Default)]
struct WriteState {
    /// The time since which a change has its turn.
    busy_since: Option<Instant>,
    /// The reason for which the last write has failed; `None` after one that has not.
    failure: Option<String>,
    /// The number of writes that have failed.
    failures: u64,
    /// A thread writes revocations.
    has_thread: bool,
}

/// The turn of a change.
pub(super) struct WriteTurn<'a> {
    writes: &'a Writes,
    _changing: MutexGuard<'a, ()>,
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        self.writes.state.lock().busy_since = None;
    }
}

impl Writes {
    /// Waits until no other change is being written. Errors after [`LONGEST_TURN`].
    pub(super) fn turn(&self) -> Result<WriteTurn<'_>, NotAdmitted> {
        self.turn_within(LONGEST_TURN)
    }

    fn turn_within(&self, longest: Duration) -> Result<WriteTurn<'_>, NotAdmitted> {
        let changing = self.changing.try_lock_for(longest);
        let changing = changing.ok_or_else(|| {
            let queue = "too many changes of tokens and certificates wait for the disk of the scheduler: try again later";
            NotAdmitted::Failed(self.stall().unwrap_or_else(|| queue.to_owned()))
        })?;
        self.state.lock().busy_since = Some(Instant::now());
        Ok(WriteTurn {
            writes: self,
            _changing: changing,
        })
    }

    /// Notes the end of a write, and why it has failed.
    pub(super) fn note(&self, failed: Option<&NotAdmitted>) {
        let mut state = self.state.lock();
        state.failure = failed.map(ToString::to_string);
        state.failures += u64::from(failed.is_some());
        self.written.notify_all();
    }

    /// Returns why the disk does not take what is written; `None` if it does.
    pub(super) fn problem(&self) -> Option<String> {
        let failure = self.state.lock().failure.clone();
        self.stall().or(failure)
    }

    /// Returns for how long the disk has not answered; `None` if that is no problem.
    pub(super) fn stall(&self) -> Option<String> {
        let busy_since = self.state.lock().busy_since;
        let busy = busy_since.map(|since| since.elapsed());
        busy.filter(|time| *time >= STALLED_AFTER).map(no_answer)
    }

    /// Calls `start` unless a thread writes revocations already. Returns the number of writes that have failed until now.
    pub(super) fn ensure_thread(
        &self,
        start: impl FnOnce() -> std::io::Result<()>,
    ) -> std::io::Result<u64> {
        let mut state = self.state.lock();
        if !state.has_thread {
            start()?;
            state.has_thread = true;
        }
        Ok(state.failures)
    }

    /// Returns whether the thread that writes revocations ends, because there is nothing to do for it.
    pub(super) fn ends_thread(&self, is_idle: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        let is_idle = is_idle();
        state.has_thread = !is_idle;
        is_idle
    }

    /// Waits until `is_done` after a write. Errors if a write fails after the first `failures`, and after [`LONGEST_ANSWER`].
    pub(super) fn wait(&self, failures: u64, is_done: impl Fn() -> bool) -> Result<(), String> {
        let until = Instant::now() + LONGEST_ANSWER;
        let mut state = self.state.lock();
        loop {
            if is_done() {
                return Ok(());
            }
            if state.failures > failures
                && let Some(why) = &state.failure
            {
                return Err(why.clone());
            }
            let waited = self.written.wait_until(&mut state, until);
            if waited.timed_out() && !is_done() {
                return Err(no_answer(LONGEST_ANSWER));
            }
        }
    }
}

fn no_answer(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("the disk of the scheduler's folder `identity` has not answered for {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_does_not_wait_for_ever_for_one_that_the_disk_does_not_answer() {
        let writes = Writes::default();
        let turn = writes.turn().expect("nobody else");
        assert_eq!(writes.stall(), None);
        let second = writes.turn_within(Duration::from_millis(1)).map(|_| ());
        assert!(second.expect_err("it is not its turn").is_temporary());
        writes.state.lock().busy_since = Instant::now().checked_sub(STALLED_AFTER);
        let stall = writes.stall().expect("it hangs");
        assert!(stall.contains("has not answered for 5 s"), "{stall}");
        drop(turn);
        assert_eq!(writes.problem(), None);
        writes.turn().expect("nobody else");
    }
}
