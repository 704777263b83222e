//! What a scheduler says of a request for work, for each type of processors, and what the worker makes of it.

use std::fmt;

/// What became of the part of a request that is for one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// So many tasks were sent for it.
    Granted(u32),
    /// No task of the type waits.
    NoWork,
    /// Tasks wait, but resources, levels or the worker's slots forbid them.
    Limited,
    /// Tasks wait, but none could make its deadline here.
    Deadline,
    /// No job uses the type at all.
    NoApps,
    /// It was not looked at: the worker is not healthy there, the scheduler has just begun, one of them drains, or it was too soon.
    Deferred,
    /// A newer request has taken its place.
    Stale,
}

/// What the worker does about the pair of the scheduler and the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// Its backoff ends.
    Clear,
    /// Its backoff begins or doubles, if it was asked for, by itself, and was not backed off.
    BackOff,
    /// It is not asked for until a reply no longer says so.
    Flag,
    /// Only the delay that the reply asks for is obeyed.
    Obey,
    /// The reply says nothing.
    Ignore,
}

impl Verdict {
    pub fn reaction(self) -> Reaction {
        match self {
            // Whoever grants nothing had nothing, however it is called.
            Verdict::Granted(0) | Verdict::NoWork | Verdict::Limited | Verdict::Deadline => {
                Reaction::BackOff
            }
            Verdict::Granted(_) => Reaction::Clear,
            Verdict::NoApps => Reaction::Flag,
            Verdict::Deferred => Reaction::Obey,
            Verdict::Stale => Reaction::Ignore,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Granted(1) => f.write_str("1 task was sent"),
            Verdict::Granted(tasks) => write!(f, "{tasks} tasks were sent"),
            Verdict::NoWork => f.write_str("no task of the type waits"),
            Verdict::Limited => f.write_str("tasks wait, but resources or slots forbid them"),
            Verdict::Deadline => f.write_str("tasks wait, but none could make its deadline here"),
            Verdict::NoApps => f.write_str("no job uses the type"),
            Verdict::Deferred => f.write_str("not looked at yet"),
            Verdict::Stale => f.write_str("replaced by a newer request"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reaction_to_each_verdict() {
        for (verdict, reaction) in [
            (Verdict::Granted(3), Reaction::Clear),
            (Verdict::Granted(0), Reaction::BackOff),
            (Verdict::NoWork, Reaction::BackOff),
            (Verdict::Limited, Reaction::BackOff),
            (Verdict::Deadline, Reaction::BackOff),
            (Verdict::NoApps, Reaction::Flag),
            (Verdict::Deferred, Reaction::Obey),
            (Verdict::Stale, Reaction::Ignore),
        ] {
            assert_eq!(verdict.reaction(), reaction, "{verdict}");
        }
    }
}
