//! What a worker makes of what a scheduler says of a request for work, for each type of processors.

use brasserie_common::WorkVerdict;

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
    /// It comes later.
    Await,
    /// The reply says nothing.
    Ignore,
}

impl Reaction {
    pub fn to(verdict: WorkVerdict) -> Self {
        match verdict {
            // Whoever grants nothing had nothing, however it is called.
            WorkVerdict::Granted(0)
            | WorkVerdict::NoWork
            | WorkVerdict::Limited
            | WorkVerdict::Deadline => Reaction::BackOff,
            WorkVerdict::Granted(_) => Reaction::Clear,
            WorkVerdict::NoApps => Reaction::Flag,
            WorkVerdict::Deferred => Reaction::Obey,
            WorkVerdict::Pending => Reaction::Await,
            WorkVerdict::Stale => Reaction::Ignore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reaction_to_each_verdict() {
        for (verdict, reaction) in [
            (WorkVerdict::Granted(3), Reaction::Clear),
            (WorkVerdict::Granted(0), Reaction::BackOff),
            (WorkVerdict::NoWork, Reaction::BackOff),
            (WorkVerdict::Limited, Reaction::BackOff),
            (WorkVerdict::Deadline, Reaction::BackOff),
            (WorkVerdict::NoApps, Reaction::Flag),
            (WorkVerdict::Deferred, Reaction::Obey),
            (WorkVerdict::Stale, Reaction::Ignore),
            (WorkVerdict::Pending, Reaction::Await),
        ] {
            assert_eq!(Reaction::to(verdict), reaction, "{verdict}");
        }
    }
}
