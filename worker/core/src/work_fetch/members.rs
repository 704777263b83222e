//! The members of a scheduler cluster, and in which order they are tried.

use std::collections::BTreeSet;

use brasserie_common::ServiceAddress;

use super::backoff::unit;

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
    #[cfg(test)]
    pub fn forget(&mut self) {
        self.addresses.clear();
    }

    /// Begins a request: whom to try first. `None`: nobody is known.
    pub fn begin(&self) -> Option<(Attempt, ServiceAddress)> {
        let first = self.nth(0)?.clone();
        let attempt = Attempt {
            members: self.clone(),
            tries: 1,
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

/// One request and the members that were tried for it, each once and one at once after the other: if none of them served, the request has
/// failed, once. A good answer of any of them ends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// As they were when it began.
    members: Members,
    tries: usize,
    asked: ServiceAddress,
}

impl Attempt {
    /// Who is being asked.
    pub fn asked(&self) -> &ServiceAddress {
        &self.asked
    }

    /// The member that was asked has not served: whom to ask now. `None`: nobody is left.
    pub fn ask_next(&mut self) -> Option<ServiceAddress> {
        if self.tries >= self.members.addresses.len() {
            return None;
        }
        self.asked = self.members.nth(self.tries)?.clone();
        self.tries += 1;
        Some(self.asked.clone())
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

    /// Whom a request tries when nobody answers.
    fn order(members: &Members) -> Vec<u16> {
        let Some((mut attempt, first)) = members.begin() else {
            return Vec::new();
        };
        let mut order = vec![first.port];
        while let Some(address) = attempt.ask_next() {
            assert_eq!(*attempt.asked(), address);
            order.push(address.port);
        }
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
    }
}
