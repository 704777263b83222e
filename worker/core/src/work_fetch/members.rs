//! The members of a scheduler cluster, and in which order they are tried.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::ServiceAddress;

use super::backoff::unit;

/// So many tries of one request at least, while members say that they do not lead: an election takes a few seconds, and the pauses
/// between them add up to ten.
const MOST_TRIES: usize = 15;

/// The pause after a member has said that it does not lead grows by this with each try, ...
const PAUSE_STEP: Duration = Duration::from_millis(100);

/// ... up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Who they are. Each worker begins somewhere else, drawn once, so that not all try the same first.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// Each once.
    addresses: Vec<ServiceAddress>,
    /// Of [0, 1].
    rotation: f64,
}

/// What a list that was read changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListChange {
    /// There is a member that was not there before.
    NewMember,
    /// Nobody is new; some may be gone.
    Unchanged,
    /// It names nobody, which is a failure: who was known stays, since some of them may answer.
    Empty,
}

impl Members {
    /// `u`: where to begin, uniform in [0, 1].
    pub fn new(addresses: Vec<ServiceAddress>, u: f64) -> Self {
        Members {
            addresses: each_once(addresses),
            rotation: unit(u),
        }
    }

    pub fn addresses(&self) -> &[ServiceAddress] {
        &self.addresses
    }

    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The `k`-th to be tried, counted from 0 and round and round.
    pub fn nth(&self, k: usize) -> Option<&ServiceAddress> {
        let count = self.addresses.len();
        let first = (self.rotation * count as f64) as usize;
        let place = (k % count.max(1) + first).checked_rem(count)?;
        self.addresses.get(place)
    }

    /// Takes a list that was read, and says what it changes.
    pub fn replace(&mut self, read: Vec<ServiceAddress>) -> ListChange {
        let read = each_once(read);
        if read.is_empty() {
            return ListChange::Empty;
        }
        let is_new = |member: &ServiceAddress| !self.addresses.contains(member);
        let change = match read.iter().any(is_new) {
            true => ListChange::NewMember,
            false => ListChange::Unchanged,
        };
        self.addresses = read;
        change
    }

    /// Nobody is known any more: the list is read before the next request.
    pub fn forget(&mut self) {
        self.addresses.clear();
    }

    /// Begins a request: whom to try first. `None`: nobody is known.
    pub fn begin(&self) -> Option<(Attempt, ServiceAddress)> {
        let first = self.nth(0)?.clone();
        let attempt = Attempt {
            members: self.clone(),
            ordered: 1,
            tries: 1,
            silent: 0,
            asked: first.clone(),
        };
        Some((attempt, first))
    }
}

fn each_once(addresses: Vec<ServiceAddress>) -> Vec<ServiceAddress> {
    let mut seen = BTreeSet::new();
    let is_first = |address: &ServiceAddress| seen.insert(address.clone());
    addresses.into_iter().filter(is_first).collect()
}

/// Why a member did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// It could not be reached, or did not answer.
    Failed,
    /// It answers, and does not lead; it may know who does. That is no failure.
    NotLeader { hint: Option<ServiceAddress> },
}

/// What to do next in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextTry {
    /// Try this one, after this pause.
    Member {
        address: ServiceAddress,
        after: Duration,
    },
    /// Nobody is left: the request has failed, once.
    Exhausted,
}

/// One request and the members that were tried for it. A good answer of any of them ends it.
///
/// ```text
///   asked --failed--> the next in order is asked at once --all failed, one after the other--> exhausted
///     |  ^
///     |  +--- a pause ---+
///     +--not the leader--+ whom it hints at, else the next in order    --too many tries--> exhausted
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// As they were when it began.
    members: Members,
    /// So many have been tried in their order, ...
    ordered: usize,
    /// ... so many with those that were hinted at, ...
    tries: usize,
    /// ... and so many in their order, without any sign of life since.
    silent: usize,
    asked: ServiceAddress,
}

impl Attempt {
    pub fn tries(&self) -> usize {
        self.tries
    }

    /// Who is being asked.
    pub fn asked(&self) -> &ServiceAddress {
        &self.asked
    }

    /// The member that was asked has not served.
    pub fn next(&mut self, why: NotServed) -> NextTry {
        let known = self.members.addresses.len();
        let (hint, after) = match why {
            NotServed::Failed => {
                self.silent += 1;
                (None, Duration::ZERO)
            }
            NotServed::NotLeader { hint } => {
                self.silent = 0;
                // Whoever hints at itself knows nobody.
                let hint = hint.filter(|hint| *hint != self.asked);
                (hint, self.pause())
            }
        };
        if self.silent >= known || self.tries >= MOST_TRIES.max(known) {
            return NextTry::Exhausted;
        }
        let Some(address) = hint.or_else(|| self.next_in_order()) else {
            return NextTry::Exhausted;
        };
        self.tries += 1;
        self.asked = address.clone();
        NextTry::Member { address, after }
    }

    /// Not the one that was asked just now, which a hint may have taken out of its turn.
    fn next_in_order(&mut self) -> Option<ServiceAddress> {
        let is_only = self.members.addresses.len() == 1;
        let next = [self.ordered, self.ordered + 1].into_iter();
        let mut others = next.filter_map(|k| Some((k, self.members.nth(k)?)));
        let (k, next) = others.find(|&(_, next)| is_only || *next != self.asked)?;
        self.ordered = k + 1;
        Some(next.clone())
    }

    fn pause(&self) -> Duration {
        let tries = u32::try_from(self.tries).unwrap_or(u32::MAX);
        PAUSE_STEP.saturating_mul(tries).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(n: u16) -> ServiceAddress {
        ServiceAddress {
            host: "scheduler".into(),
            port: n,
        }
    }

    fn members(numbers: &[u16], u: f64) -> Members {
        Members::new(numbers.iter().copied().map(member).collect(), u)
    }

    fn not_leader(hint: Option<u16>) -> NotServed {
        NotServed::NotLeader {
            hint: hint.map(member),
        }
    }

    fn then(n: u16, millis: u64) -> NextTry {
        NextTry::Member {
            address: member(n),
            after: Duration::from_millis(millis),
        }
    }

    /// Whom a request tries when nobody answers.
    fn order(members: &Members) -> Vec<u16> {
        let Some((mut attempt, first)) = members.begin() else {
            return Vec::new();
        };
        let mut order = vec![first.port];
        while let NextTry::Member { address, after } = attempt.next(NotServed::Failed) {
            assert_eq!(after, Duration::ZERO);
            order.push(address.port);
        }
        assert_eq!(attempt.tries(), order.len());
        order
    }

    #[test]
    fn the_order_is_rotated_by_what_was_drawn() {
        for (u, expected) in [
            (0.0, [1, 2, 3, 4]),
            (0.24, [1, 2, 3, 4]),
            (0.25, [2, 3, 4, 1]),
            (0.6, [3, 4, 1, 2]),
            (0.99, [4, 1, 2, 3]),
            (1.0, [1, 2, 3, 4]),
        ] {
            assert_eq!(order(&members(&[1, 2, 3, 4], u)), expected, "{u}");
        }
        assert!(order(&members(&[], 0.5)).is_empty());
        assert_eq!(members(&[], 0.5).nth(3), None);
        assert_eq!(order(&members(&[7, 7, 8, 7], 0.0)), [7, 8]);
    }

    #[test]
    fn a_hint_is_followed_and_then_the_order_goes_on() {
        let (mut attempt, first) = members(&[1, 2, 3], 0.0).begin().unwrap();
        assert_eq!(first, member(1));
        assert_eq!(attempt.next(not_leader(Some(2))), then(2, 100));
        // Whoever was hinted at is not asked again because its turn comes.
        assert_eq!(attempt.next(NotServed::Failed), then(3, 0));
        assert_eq!(attempt.next(NotServed::Failed), then(1, 0));
        assert_eq!(attempt.next(NotServed::Failed), NextTry::Exhausted);

        let (mut attempt, _) = members(&[1, 2, 3], 0.0).begin().unwrap();
        assert_eq!(attempt.next(not_leader(Some(3))), then(3, 100));
        assert_eq!(attempt.next(NotServed::Failed), then(2, 0));
        assert_eq!(attempt.next(not_leader(None)), then(3, 300));
        assert_eq!(*attempt.asked(), member(3));
        // A hint at itself is none, and one at somebody who is not on the list is as good as another.
        assert_eq!(attempt.next(not_leader(Some(3))), then(1, 400));
        assert_eq!(attempt.next(not_leader(Some(9))), then(9, 500));
        // All have to fail in a row after the last sign of life.
        assert_eq!(attempt.next(NotServed::Failed), then(2, 0));
        assert_eq!(attempt.next(NotServed::Failed), then(3, 0));
        assert_eq!(attempt.next(NotServed::Failed), NextTry::Exhausted);
    }

    #[test]
    fn a_cluster_without_a_leader_is_asked_fifteen_times() {
        for hint in [None, Some(1), Some(2)] {
            let (mut attempt, _) = members(&[1, 2, 3], 0.0).begin().unwrap();
            let mut pauses = Vec::new();
            while let NextTry::Member { after, .. } = attempt.next(not_leader(hint)) {
                pauses.push(after.as_millis());
            }
            let expected: Vec<u128> = (1..15).map(|n| n * 100).collect();
            assert_eq!(pauses, expected);
        }
        // A large one is asked once round, and no pause is longer than two seconds.
        let numbers: Vec<u16> = (0..30).collect();
        let (mut attempt, _) = members(&numbers, 0.0).begin().unwrap();
        let mut last = Duration::ZERO;
        while let NextTry::Member { after, .. } = attempt.next(not_leader(None)) {
            last = after;
        }
        assert_eq!((attempt.tries(), last), (30, Duration::from_secs(2)));
    }

    #[test]
    fn a_list_that_was_read_is_compared_with_the_old_one() {
        let mut known = members(&[1, 2], 0.0);
        let read = |numbers: &[u16]| numbers.iter().copied().map(member).collect();
        assert_eq!(known.replace(read(&[2, 1])), ListChange::Unchanged);
        assert_eq!(order(&known), [2, 1]);
        assert_eq!(known.replace(read(&[1])), ListChange::Unchanged);
        assert_eq!(known.replace(read(&[1, 2])), ListChange::NewMember);
        assert_eq!(known.replace(read(&[])), ListChange::Empty);
        assert_eq!(order(&known), [1, 2]);
        known.forget();
        assert!(known.is_empty() && known.begin().is_none());
        assert_eq!(known.replace(read(&[1])), ListChange::NewMember);
    }

    proptest! {
        #[test]
        fn each_member_is_tried_once_before_one_failure_counts(count in 0_u16..20, u in any::<f64>()) {
            let numbers: Vec<u16> = (0..count).collect();
            let mut order = order(&members(&numbers, u));
            prop_assert!(order.windows(2).all(|pair| pair[1] == (pair[0] + 1) % count));
            order.sort_unstable();
            prop_assert_eq!(order, numbers);
        }

        #[test]
        fn a_request_ends_whatever_they_answer(
            count in 1_u16..40,
            u in 0.0_f64..1.0,
            answers in proptest::collection::vec(proptest::option::of(proptest::option::of(0_u16..50)), 60),
        ) {
            let numbers: Vec<u16> = (0..count).collect();
            let (mut attempt, _) = members(&numbers, u).begin().unwrap();
            let most = usize::from(count).max(15);
            for (done, answer) in answers.into_iter().enumerate() {
                let answer = answer.map_or(NotServed::Failed, not_leader);
                let is_failed = answer == NotServed::Failed;
                let asked = attempt.asked().clone();
                match attempt.next(answer) {
                    NextTry::Exhausted => return Ok(()),
                    NextTry::Member { address, after } => {
                        prop_assert!(done + 2 <= most);
                        prop_assert!(after <= LONGEST_PAUSE);
                        prop_assert_eq!(after.is_zero(), is_failed);
                        // Nobody is asked twice in a row, unless there is nobody else.
                        prop_assert!(address != asked || count == 1);
                    }
                }
            }
            prop_assert!(false, "it goes on for ever");
        }
    }
}
