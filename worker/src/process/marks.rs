//! A mark by which the processes of a task are known. A daemon that clears its environment and leaves its session carries no other, and
//! unless the worker knows whose it is, it would report the end of the task while the daemon lives.
//!
//! The mark is the limit RLIMIT_LOCKS. The kernel hands limits on to every descendant, and a program has no reason to change this one:
//! since Linux 2.4.25 the kernel only stores it (getrlimit(2)). So a process without a mark has lowered the limit on purpose, or comes from
//! a worker that may not set it.

use std::fs;
use std::hash::{BuildHasher, RandomState};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use super::launch::Limit;
use super::runner::TaskNumber;

/// Its line in `/proc/PID/limits`: the name, the soft and the hard limit, the unit.
const LINE: &str = "Max file locks";
/// Bits of a mark that hold the task's number; those above are this worker's.
const NUMBER_BITS: u32 = 32;

/// The marks that this process gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitMarks {
    /// The upper bits. `None` if this process may set no marks.
    own: Option<u64>,
}

impl LimitMarks {
    pub(super) fn new() -> Self {
        let inherited = getrlimit(Resource::RLIMIT_LOCKS).map_or(0, |(_, hard)| hard);
        LimitMarks {
            own: own_bits(inherited),
        }
    }

    pub(super) fn limit(self, task: TaskNumber) -> Option<Limit> {
        let number = u32::try_from(task.0).ok()?;
        let mark = self.own? << NUMBER_BITS | u64::from(number);
        Some(Limit {
            resource: Resource::RLIMIT_LOCKS,
            soft: mark,
            hard: mark,
        })
    }

    /// Whose a process is. `None` if it carries no mark of this worker, or is gone.
    pub(super) fn task_of(self, pid: Pid) -> Option<TaskNumber> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        self.task_in(&limits)
    }

    fn task_in(self, limits: &str) -> Option<TaskNumber> {
        let line = limits.lines().find_map(|line| line.strip_prefix(LINE))?;
        let hard: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        (Some(hard >> NUMBER_BITS) == self.own).then_some(TaskNumber(hard & u64::from(u32::MAX)))
    }
}

/// Differs from those of other workers, whose tasks may come here after they are dead. A worker that is a task itself stays below its
/// own mark, since it may not raise the limit.
fn own_bits(inherited: u64) -> Option<u64> {
    let bits = match inherited {
        Limit::INFINITY => 1 << 29 | RandomState::new().hash_one(()) >> 35,
        limited => (limited >> NUMBER_BITS).saturating_sub(1),
    };
    (bits > 0).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_a_task_of_this_worker_alone() {
        let marks = LimitMarks { own: Some(7) };
        let mark = marks.limit(TaskNumber(5)).expect("a mark").hard;
        let limits = |hard| {
            format!(
                "Max cpu time  1  2  seconds\nMax file locks            {hard} {hard} locks\nMax x  9 9\n"
            )
        };
        assert_eq!(marks.task_in(&limits(mark)), Some(TaskNumber(5)));
        assert_eq!(LimitMarks { own: Some(6) }.task_in(&limits(mark)), None);
        assert_eq!(marks.task_in(&limits(Limit::INFINITY)), None);
        assert_eq!(
            marks.task_in("Max file locks  unlimited  unlimited  locks"),
            None
        );
        assert_eq!(marks.limit(TaskNumber(1 << 32)), None);
    }

    #[test]
    fn a_worker_that_is_a_task_gives_marks_below_its_own() {
        let outer = own_bits(Limit::INFINITY).expect("marks");
        assert_eq!(own_bits(outer << NUMBER_BITS | 3), Some(outer - 1));
        assert_eq!(own_bits(1 << NUMBER_BITS), None);
        assert_eq!(own_bits(0), None);
    }
}
