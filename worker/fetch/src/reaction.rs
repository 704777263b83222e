//! Maps a scheduler's verdict on a work request to the worker's reaction, for each processor type.

use brasserie_common::WorkVerdict;

/// The worker's reaction for the pair of scheduler and processor type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// The backoff of the pair ends.
    Clear,
    /// The backoff begins or doubles, if the worker asked of its own accord and the pair was not backed off.
    BackOff,
    /// The type is not asked for until a reply no longer says that no job uses it.
    Flag,
    /// The worker only obeys the delay in the reply.
    Obey,
    /// The verdict comes later.
    Await,
    /// The reply has no effect.
    Ignore,
}

impl Reaction {
    pub fn to(verdict: WorkVerdict) -> Self {
        match verdict {
            // A grant of no task means that the scheduler had none.
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
