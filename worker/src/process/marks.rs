//! The mark by which a task's processes are recognised. A daemon that clears its environment and leaves its session carries no other
//! mark. If the worker could not assign the daemon to a task, it would report the task's end while the daemon lives.
//!
//! The mark is the limit RLIMIT_LOCKS. The kernel passes limits on to every descendant, and a program has no reason to change this one:
//! since Linux 2.4.25 the kernel only stores it (getrlimit(2)). So a process without a mark has lowered the limit on purpose, or comes
//! from a worker that may not set it. Every user can read it, even if the process's environment is hidden or gone.
//!
//! The upper bits follow from the marker that a worker's keeper gave it, so its successor in the data directory knows them.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;
use siphasher::sip::SipHasher13;

use super::inbox::RunNumber;
use super::launch::Limit;
use crate::marker::Marker;

/// The limit's name, with which its line in `/proc/PID/limits` begins. The soft limit, the hard limit and the unit follow.
const LINE: &str = "Max file locks";
/// The bits of a mark that hold the task's number; the higher bits identify this worker.
const NUMBER_BITS: u32 = 32;
/// The largest number of workers between a worker and a process whose mark it recognises. Each of them is a task of the one above.
const MOST_NESTED: u64 = 8;

/// The marks that this process gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitMarks {
    /// The upper bits. `None` if this process may set no marks.
    own: Option<u64>,
}

impl LimitMarks {
    /// Returns the marks that this process gives. `marker` is the one that its keeper gave it.
    pub(super) fn new(marker: Option<&Marker>) -> Self {
        let own = match inherited() {
            Limit::INFINITY => Some(bits_of(marker)),
            // A worker that is a task itself stays below its own mark, since it may not raise the limit.
            limited => (limited >> NUMBER_BITS).checked_sub(1),
        };
        let own = own.filter(|bits| *bits > 0);
        if own.is_none() {
            tracing::warn!(
                "the hard limit on file locks (ulimit -x, LimitLOCKS=) of this worker is too low for marks, so the worker cannot attribute daemons that shed their session and environment to tasks; Linux ignores this limit: start the worker without it"
            );
        }
        LimitMarks { own }
    }

    /// Returns the marks that a predecessor gave. `marker` is the one that its keeper had given it. If this worker is itself a task, the
    /// result recognises no process, because other workers there give the same marks.
    pub(crate) fn of_predecessor(marker: &Marker) -> Self {
        let may_know = inherited() == Limit::INFINITY;
        LimitMarks {
            own: may_know.then(|| bits_of(Some(marker))),
        }
    }

    pub(super) fn limit(self, task: RunNumber) -> Option<Limit> {
        let number = u32::try_from(task.0).ok()?;
        let mark = self.own? << NUMBER_BITS | u64::from(number);
        Some(Limit {
            resource: Resource::RLIMIT_LOCKS,
            soft: mark,
            hard: mark,
        })
    }

    /// Returns whether a process descends from a task of this worker, also through workers that were tasks themselves.
    pub(crate) fn are_on(self, pid: Pid) -> bool {
        let Some(own) = self.own else { return false };
        let theirs = mark_of(pid).map(|mark| mark >> NUMBER_BITS);
        theirs.is_some_and(|theirs| (own.saturating_sub(MOST_NESTED)..=own).contains(&theirs))
    }

    /// Returns the task to which a process belongs. `None` if it carries no mark of this worker, or is gone.
    pub(super) fn task_of(self, pid: Pid) -> Option<RunNumber> {
        self.task_by(mark_of(pid)?)
    }

    fn task_by(self, mark: u64) -> Option<RunNumber> {
        (Some(mark >> NUMBER_BITS) == self.own).then_some(RunNumber(mark & u64::from(u32::MAX)))
    }
}

fn mark_of(pid: Pid) -> Option<u64> {
    mark_in(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

fn mark_in(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(LINE))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn inherited() -> u64 {
    getrlimit(Resource::RLIMIT_LOCKS).map_or(0, |(_, hard)| hard)
}

/// Returns the upper bits of a worker's marks, which very probably differ from those of other workers: 29 bits of a hash below a bit that is
/// always set. So the result is never 0, also after [`MOST_NESTED`] decrements, and no mark equals the infinite limit.
fn bits_of(marker: Option<&Marker>) -> u64 {
    let hash = match marker {
        Some(marker) => {
            let mut hasher = SipHasher13::new();
            hasher.write(marker.as_str().as_bytes());
            hasher.finish()
        }
        None => RandomState::new().hash_one(()),
    };
    1 << 29 | hash >> 35
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_a_task_of_this_worker_alone() {
        let marks = LimitMarks { own: Some(7) };
        let mark = marks.limit(RunNumber(5)).expect("a mark").hard;
        let limits = |hard| {
            format!(
                "Max cpu time  1  2  seconds\nMax file locks            {hard} {hard} locks\nMax x  9 9\n"
            )
        };
        assert_eq!(mark_in(&limits(mark)), Some(mark));
        assert_eq!(marks.task_by(mark), Some(RunNumber(5)));
        assert_eq!(LimitMarks { own: Some(6) }.task_by(mark), None);
        assert_eq!(mark_in("Max file locks  unlimited  unlimited  locks"), None);
        assert_eq!(marks.limit(RunNumber(1 << 32)), None);
    }

    #[test]
    fn a_successor_knows_the_marks_of_its_predecessor() {
        let marker = Marker::from_text("12:0123456789abcdef");
        let other = Marker::from_text("13:0123456789abcdef");
        assert_eq!(bits_of(Some(&marker)), bits_of(Some(&marker)));
        assert_ne!(bits_of(Some(&marker)), bits_of(Some(&other)));
        assert_eq!(bits_of(Some(&marker)) >> 29, 1);
    }
}
