//! Kernel limits on each process of a task, with the names of `prlimit` and limits.conf.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource that the kernel limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Limited {
    As,
    Core,
    Cpu,
    Data,
    Fsize,
    Locks,
    Memlock,
    Msgqueue,
    Nice,
    Nofile,
    Nproc,
    Rss,
    Rtprio,
    Rttime,
    Sigpending,
    Stack,
}

impl Limited {
    /// All resources in the order of their names.
    pub const ALL: [Limited; 16] = [
        Limited::As,
        Limited::Core,
        Limited::Cpu,
        Limited::Data,
        Limited::Fsize,
        Limited::Locks,
        Limited::Memlock,
        Limited::Msgqueue,
        Limited::Nice,
        Limited::Nofile,
        Limited::Nproc,
        Limited::Rss,
        Limited::Rtprio,
        Limited::Rttime,
        Limited::Sigpending,
        Limited::Stack,
    ];

    /// All names, for errors.
    pub const NAMES: &'static str = "as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, \
         sigpending, stack";

    pub fn as_str(self) -> &'static str {
        match self {
            Limited::As => "as",
            Limited::Core => "core",
            Limited::Cpu => "cpu",
            Limited::Data => "data",
            Limited::Fsize => "fsize",
            Limited::Locks => "locks",
            Limited::Memlock => "memlock",
            Limited::Msgqueue => "msgqueue",
            Limited::Nice => "nice",
            Limited::Nofile => "nofile",
            Limited::Nproc => "nproc",
            Limited::Rss => "rss",
            Limited::Rtprio => "rtprio",
            Limited::Rttime => "rttime",
            Limited::Sigpending => "sigpending",
            Limited::Stack => "stack",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Limited::ALL.into_iter().find(|l| l.as_str() == text)
    }
}

/// The value of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Bound {
    /// Bytes, seconds or a number, in the kernel's unit of the resource; at most `i64::MAX`.
    At(u64),
    Unlimited,
}

impl Bound {
    /// The text of [`Bound::Unlimited`] in a config.
    pub const UNLIMITED: &'static str = "unlimited";
    /// The number of [`Bound::Unlimited`] on the wire.
    const UNLIMITED_NUMBER: i64 = -1;

    /// Converts the result of [`Bound::number`] back; `None` if the number is no bound.
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            Bound::UNLIMITED_NUMBER => Some(Bound::Unlimited),
            number => u64::try_from(number).ok().map(Bound::At),
        }
    }

    /// Returns the amount, or -1 for unlimited.
    pub fn number(self) -> i64 {
        match self {
            Bound::At(amount) => i64::try_from(amount).unwrap_or(i64::MAX),
            Bound::Unlimited => Bound::UNLIMITED_NUMBER,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::At(amount) => amount.fmt(f),
            Bound::Unlimited => f.write_str(Bound::UNLIMITED),
        }
    }
}

/// A limit on each process of a task. Invariant: `soft` is not above `hard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessLimit {
    soft: Bound,
    hard: Bound,
}

impl ProcessLimit {
    /// Returns `None` if `soft` is above `hard`.
    pub fn new(soft: Bound, hard: Bound) -> Option<Self> {
        (soft <= hard).then_some(ProcessLimit { soft, hard })
    }

    /// Creates a limit with the same soft and hard bound.
    pub fn both(bound: Bound) -> Self {
        ProcessLimit {
            soft: bound,
            hard: bound,
        }
    }

    /// Returns the bound that the kernel enforces.
    pub fn soft(self) -> Bound {
        self.soft
    }

    /// Returns the bound up to which a process may raise its soft bound itself.
    pub fn hard(self) -> Bound {
        self.hard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_its_own_and_listed() {
        for limited in Limited::ALL {
            assert_eq!(Limited::parse(limited.as_str()), Some(limited));
        }
        let names = Limited::ALL.map(Limited::as_str).join(", ");
        assert_eq!(names, Limited::NAMES);
        assert_eq!(Limited::parse("NOFILE"), None);
    }

    #[test]
    fn no_amount_is_above_unlimited() {
        let most = Bound::At(u64::MAX);
        assert!(most < Bound::Unlimited);
        assert!(ProcessLimit::new(Bound::At(1), Bound::Unlimited).is_some());
        assert_eq!(ProcessLimit::new(Bound::Unlimited, most), None);
        assert_eq!(ProcessLimit::new(Bound::At(2), Bound::At(1)), None);
    }

    #[test]
    fn numbers_come_back_as_they_went() {
        for number in [-1, 0, 1, i64::MAX] {
            assert_eq!(Bound::from_number(number).map(Bound::number), Some(number));
        }
        assert_eq!(Bound::from_number(-1), Some(Bound::Unlimited));
        assert_eq!(Bound::from_number(-2), None);
    }
}
