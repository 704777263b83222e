//! The times at which the scheduler is asked for the holders of an artifact.

use brasserie_common::Time;

use super::limits::GatherLimits;

/// The last query for the holders of one artifact.
///
/// ```text
///   Never --sent--> Awaited --answered--> Answered
///                    ^   |                   |
///                    |   +--no answer--+     |
///                    +------sent-------+-----+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HolderQuery {
    #[default]
    Never,
    /// The answer to the query of this time is under way, or lost.
    Awaited(Time),
    /// The query of this time was answered.
    Answered(Time),
}

impl HolderQuery {
    pub fn send(&mut self, now: Time) {
        *self = HolderQuery::Awaited(now);
    }

    pub fn answer(&mut self) {
        match *self {
            HolderQuery::Never | HolderQuery::Answered(_) => {}
            HolderQuery::Awaited(at) => *self = HolderQuery::Answered(at),
        }
    }

    /// Returns the earliest time of the next query. One query at a time is outstanding. An answered one is not repeated within a busy mark:
    /// several busy holders would otherwise cause one query each.
    pub fn earliest(self, limits: &GatherLimits) -> Time {
        match self {
            HolderQuery::Never => Time::ZERO,
            HolderQuery::Awaited(at) => at + limits.query_period,
            HolderQuery::Answered(at) => at + limits.busy_mark,
        }
    }

    /// Returns the time of the next query for an artifact without holders since `since`.
    pub fn due_without_holder(self, since: Time, limits: &GatherLimits) -> Time {
        let first = since + limits.first_query;
        let regular = match self {
            HolderQuery::Awaited(at) | HolderQuery::Answered(at) if at >= since => {
                at + limits.query_period
            }
            HolderQuery::Never | HolderQuery::Awaited(_) | HolderQuery::Answered(_) => first,
        };
        regular.max(self.earliest(limits))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn one_query_at_a_time_and_one_in_a_busy_mark() {
        let limits = GatherLimits::default();
        let mut query = HolderQuery::default();
        assert_eq!(query.earliest(&limits), Time::ZERO);
        query.send(at(1000));
        assert_eq!(query.earliest(&limits), at(16_000));
        query.answer();
        assert_eq!(query.earliest(&limits), at(1150));
        query.answer();
        assert_eq!(query.earliest(&limits), at(1150));
    }

    #[test]
    fn an_artifact_without_holders_is_asked_for_after_a_second_and_then_in_each_period() {
        let limits = GatherLimits::default();
        let mut query = HolderQuery::default();
        let due = |query: HolderQuery| query.due_without_holder(at(500), &limits);
        assert_eq!(due(query), at(1500));
        // An earlier query, sent when all holders were busy, does not delay the first one.
        query.send(at(400));
        assert_eq!(due(query), at(15_400));
        query.answer();
        assert_eq!(due(query), at(1500));
        query.send(at(1500));
        assert_eq!(due(query), at(16_500));
        query.answer();
        assert_eq!(due(query), at(16_500));
    }
}
