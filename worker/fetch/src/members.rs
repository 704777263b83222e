//! The members of a scheduler cluster, and the order in which they are tried.

use std::collections::BTreeSet;

use brasserie_common::ServiceAddress;

use super::backoff::unit;

/// The addresses of a scheduler's members and their last responses.
///
/// Each worker starts at another member, drawn once, so that not all try the same one first, and proceeds cyclically. Last responses
/// override this order, because an unreachable member delays each request until the connection fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// The addresses without duplicates.
    addresses: Vec<ServiceAddress>,
    /// The start position, in [0, 1].
    rotation: f64,
    /// The member that answered last.
    answered: Option<ServiceAddress>,
    /// The members that did not serve their last request.
    silent: BTreeSet<ServiceAddress>,
}

/// The effect of a list that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListChange {
    /// The list has a new member.
    NewMember,
    /// No member is new; some may be gone.
    Unchanged,
    /// The list is empty, which is a failure. The known members stay, since some of them may answer.
    Empty,
}

impl Members {
    /// Creates the member list. `u`, uniform in [0, 1], selects the start position.
    pub fn new(addresses: Vec<ServiceAddress>, u: f64) -> Self {
        Members {
            addresses: each_once(addresses),
            rotation: unit(u),
            answered: None,
            silent: BTreeSet::new(),
        }
    }

    pub fn addresses(&self) -> &[ServiceAddress] {
        &self.addresses
    }

    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the members in the order in which they are tried: the one that answered last, then those without a response yet, then those
    /// that did not serve. Members of the same group follow cyclically from the worker's start position.
    pub fn in_order(&self) -> Vec<&ServiceAddress> {
        let count = self.addresses.len();
        let first = (self.rotation * count as f64) as usize;
        let round = self.addresses.iter().cycle().skip(first).take(count);
        let mut order: Vec<&ServiceAddress> = round.collect();
        order.sort_by_key(|one| {
            let has_answered = self.answered.as_ref() == Some(*one);
            (self.silent.contains(*one), !has_answered)
        });
        order
    }

    /// Notes that a member has answered.
    pub fn answered(&mut self, by: &ServiceAddress) {
        if self.addresses.contains(by) {
            self.silent.remove(by);
            self.answered = Some(by.clone());
        }
    }

    /// Notes that a member was asked and did not serve.
    pub fn did_not_serve(&mut self, asked: &ServiceAddress) {
        if self.addresses.contains(asked) {
            self.silent.insert(asked.clone());
        }
    }

    /// Replaces the list by one that was read, and returns the effect.
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
        self.silent.retain(|one| self.addresses.contains(one));
        self.answered.take_if(|one| !self.addresses.contains(one));
        change
    }

    /// Forgets all members, so that the list is read before the next request.
    #[cfg(test)]
    pub fn forget(&mut self) {
        self.addresses.clear();
    }

    /// Begins a request with the first member; `None` if no member is known.
    pub fn begin(&self) -> Option<Attempt> {
        let first = self.in_order().first().copied()?.clone();
        Some(Attempt {
            tried: BTreeSet::from([first.clone()]),
            asked: first,
        })
    }
}

fn each_once(addresses: Vec<ServiceAddress>) -> Vec<ServiceAddress> {
    let mut seen = BTreeSet::new();
    let is_first = |address: &ServiceAddress| seen.insert(address.clone());
    addresses.into_iter().filter(is_first).collect()
}

/// One request and the members that were tried for it, each once and one after the other. The request fails, once, if none of them serves
/// it. A good answer of any member ends it. Members that leave the list meanwhile are not tried, and new ones are.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    tried: BTreeSet<ServiceAddress>,
    asked: ServiceAddress,
}

impl Attempt {
    /// Returns the member that is being asked.
    pub fn asked(&self) -> &ServiceAddress {
        &self.asked
    }

    /// Selects the next member after the current one did not serve; `None` if all were tried.
    pub fn ask_next(&mut self, of: &Members) -> Option<&ServiceAddress> {
        let mut left = of.in_order().into_iter();
        let next = left.find(|one| !self.tried.contains(*one))?;
        self.tried.insert(next.clone());
        self.asked = next.clone();
        Some(&self.asked)
    }

    /// Returns the member for a repeat of the request: the same one, unless it left the list.
    pub fn ask_again(&mut self, of: &Members) -> &ServiceAddress {
        if !of.addresses.contains(&self.asked) && self.ask_next(of).is_none() {
            // All members were tried. The list is empty only before the first request.
            if let Some(first) = of.in_order().first() {
                self.asked = (*first).clone();
            }
        }
        &self.asked
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

    /// Returns the members in the order in which a request tries them if none answers.
    fn order(members: &Members) -> Vec<u16> {
        let Some(mut attempt) = members.begin() else {
            return Vec::new();
        };
        let mut order = vec![attempt.asked().port];
        while let Some(address) = attempt.ask_next(members) {
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
        assert_eq!(order(&members(&[7, 7, 8, 7], 0.0)), [7, 8]);
    }

    /// Runs a request that only the member `by` serves, and returns the members that were tried.
    fn served_by(members: &mut Members, by: u16) -> Vec<u16> {
        let mut attempt = members.begin().expect("somebody is known");
        let mut tried = vec![attempt.asked().port];
        while *attempt.asked() != member(by) {
            members.did_not_serve(attempt.asked());
            let next = attempt.ask_next(members);
            tried.push(next.expect("it is one of them").port);
        }
        members.answered(attempt.asked());
        tried
    }

    #[test]
    fn whoever_answered_is_asked_first_and_who_did_not_last() {
        let mut known = members(&[1, 2, 3, 4], 0.25);
        assert_eq!(served_by(&mut known, 4), [2, 3, 4]);
        // Member 1 has no response yet.
        assert_eq!(order(&known), [4, 1, 2, 3]);
        assert_eq!(served_by(&mut known, 4), [4]);
        assert_eq!(served_by(&mut known, 1), [4, 1]);
        assert_eq!(order(&known), [1, 2, 3, 4]);
        // If no member answers, only the last answer affects the order.
        for one in 1..=4 {
            known.did_not_serve(&member(one));
        }
        assert_eq!(order(&known), [1, 2, 3, 4]);
        known.answered(&member(9));
        known.did_not_serve(&member(9));
        assert_eq!(order(&known), [1, 2, 3, 4], "no member");
    }

    #[test]
    fn who_is_new_is_asked_before_those_that_did_not_answer() {
        let mut known = members(&[1, 2, 3], 0.0);
        assert_eq!(served_by(&mut known, 3), [1, 2, 3]);
        let read = |numbers: &[u16]| numbers.iter().copied().map(member).collect();
        known.replace(read(&[1, 3, 4]));
        assert_eq!(order(&known), [3, 4, 1]);
        // A returning member counts as new, and the answer of a removed one is forgotten.
        known.replace(read(&[2, 4]));
        known.replace(read(&[1, 2, 3, 4]));
        assert_eq!(order(&known), [1, 2, 3, 4]);
    }

    #[test]
    fn a_request_goes_by_the_list_as_it_is_when_it_is_asked() {
        let read = |numbers: &[u16]| numbers.iter().copied().map(member).collect();
        let mut known = members(&[1, 2, 3], 0.0);
        let mut attempt = known.begin().expect("somebody");
        assert_eq!(attempt.ask_again(&known), &member(1));
        known.did_not_serve(&member(1));
        known.replace(read(&[1, 3, 4]));
        assert_eq!(attempt.ask_next(&known), Some(&member(3)));
        known.replace(read(&[1, 4]));
        assert_eq!(attempt.ask_again(&known), &member(4));
        assert_eq!(attempt.ask_next(&known), None);
        known.replace(read(&[1]));
        assert_eq!(attempt.ask_again(&known), &member(1));
        known.forget();
        assert_eq!(attempt.ask_again(&known), &member(1), "there is no other");
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

    integration_tests_properties::properties! {
        256;

        #[test]
        fn each_member_is_tried_once_before_one_failure_counts(count in 0_u16..20, u in any::<f64>()) {
            let numbers: Vec<u16> = (0..count).collect();
            let mut order = order(&members(&numbers, u));
            prop_assert!(order.windows(2).all(|pair| pair[1] == (pair[0] + 1) % count));
            order.sort_unstable();
            prop_assert_eq!(order, numbers);
        }

        #[test]
        fn whatever_was_heard_each_is_tried_once_and_whoever_answered_last_first(
            list in proptest::collection::btree_set(0_u16..8, 1..6),
            u in any::<f64>(),
            heard in proptest::collection::vec((0_u16..8, any::<bool>()), 0..20),
        ) {
            let list: Vec<u16> = list.into_iter().collect();
            let mut known = members(&list, u);
            let heard: Vec<_> = heard.into_iter().filter(|(who, _)| list.contains(who)).collect();
            for (who, has_answered) in &heard {
                match has_answered {
                    true => known.answered(&member(*who)),
                    false => known.did_not_serve(&member(*who)),
                }
            }
            let mut order = order(&known);
            // The rank of a member's last response: 0 for an answer, 1 for none yet, 2 for no service.
            let rank = |who: &u16| {
                let last = heard.iter().rev().find(|(one, _)| one == who);
                last.map_or(1, |(_, has_answered)| if *has_answered { 0 } else { 2 })
            };
            let last_answer = heard.iter().rev().find(|(_, has_answered)| *has_answered);
            if let Some((who, _)) = last_answer.filter(|(who, _)| rank(who) == 0) {
                prop_assert_eq!(order[0], *who);
            }
            let first_silent = order.iter().position(|who| rank(who) == 2).unwrap_or(order.len());
            prop_assert!(order[first_silent..].iter().all(|who| rank(who) == 2));
            order.sort_unstable();
            prop_assert_eq!(order, list);
        }
    }
}
