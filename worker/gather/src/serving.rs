//! The serving side: whether the worker sends artifacts to a peer now.

use std::num::NonZeroU32;

use super::types::Pressure;

/// The most peers served at once by default. Few at a time finish early and become holders themselves.
pub const DEFAULT_SERVED: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// The number of peers that the worker serves, and its limit. Nothing waits: a peer beyond the limit receives the answer "busy" at once and
/// asks another holder.
#[derive(Debug)]
pub struct Serving {
    /// None for no limit, which is not the same as a limit of zero.
    limit: Option<NonZeroU32>,
    pressure: Pressure,
    served: u32,
}

/// The location of the peer that makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// Its transfer does not use the network, so twice as many are served.
    SameHost,
    OtherHost,
}

/// The permission to serve one request. Pass it to [`Serving::end`] on every path on which the request is over.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ticket that is never returned counts as a peer that is served for ever"]
pub struct ServingTicket(());

/// The worker serves as many peers as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl Default for Serving {
    fn default() -> Self {
        Serving::new(Some(DEFAULT_SERVED))
    }
}

impl Serving {
    pub fn new(limit: Option<NonZeroU32>) -> Serving {
        Serving {
            limit,
            pressure: Pressure::Normal,
            served: 0,
        }
    }

    /// Sets the pressure. Requests that are served already continue.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Begins to serve a request, or refuses it at once.
    pub fn begin(&mut self, requester: Requester) -> Result<ServingTicket, Busy> {
        let limit = match (self.pressure, self.limit, requester) {
            (Pressure::High, _, _) => 1,
            (Pressure::Normal, None, _) => u32::MAX,
            (Pressure::Normal, Some(limit), Requester::SameHost) => limit.get().saturating_mul(2),
            (Pressure::Normal, Some(limit), Requester::OtherHost) => limit.get(),
        };
        if self.served >= limit {
            return Err(Busy);
        }
        self.served += 1;
        Ok(ServingTicket(()))
    }

    /// Ends a request, whether its artifacts were sent or not.
    pub fn end(&mut self, ticket: ServingTicket) {
        let ServingTicket(()) = ticket;
        self.served = self.served.saturating_sub(1);
    }

    /// Returns how many peers are served.
    pub fn served(&self) -> u32 {
        self.served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(limit: u32) -> Serving {
        Serving::new(NonZeroU32::new(limit))
    }

    /// Returns how many further requests of one kind are served.
    fn room(serving: &mut Serving, requester: Requester) -> (usize, Vec<ServingTicket>) {
        let tickets: Vec<ServingTicket> = (0..100)
            .map_while(|_| serving.begin(requester).ok())
            .collect();
        (tickets.len(), tickets)
    }

    #[test]
    fn limits_of_both_kinds_of_requesters() {
        for (mut serving, other, same) in [
            (Serving::default(), 10, 20),
            (serving(1), 1, 2),
            (serving(u32::MAX), 100, 100),
            (Serving::new(None), 100, 100),
        ] {
            for (requester, expected) in
                [(Requester::OtherHost, other), (Requester::SameHost, same)]
            {
                let (count, tickets) = room(&mut serving, requester);
                assert_eq!(count, expected, "{serving:?} {requester:?}");
                assert_eq!(serving.served() as usize, count);
                tickets.into_iter().for_each(|ticket| serving.end(ticket));
                assert_eq!(serving.served(), 0);
            }
        }
    }

    #[test]
    fn requesters_of_the_same_host_use_the_second_half_of_the_limit() {
        let mut serving = serving(2);
        let (_, held) = room(&mut serving, Requester::OtherHost);
        assert_eq!(held.len(), 2);
        let (more, _) = room(&mut serving, Requester::SameHost);
        assert_eq!(more, 2);
        assert_eq!(serving.begin(Requester::OtherHost), Err(Busy));
    }

    #[test]
    fn one_peer_is_served_under_pressure_whatever_the_limit() {
        for limit in [None, NonZeroU32::new(10)] {
            let mut serving = Serving::new(limit);
            serving.set_pressure(Pressure::High);
            for requester in [Requester::SameHost, Requester::OtherHost] {
                let (count, tickets) = room(&mut serving, requester);
                assert_eq!(count, 1);
                tickets.into_iter().for_each(|ticket| serving.end(ticket));
            }
        }
    }

    #[test]
    fn running_requests_survive_the_begin_of_pressure() {
        let mut serving = serving(3);
        let (_, mut tickets) = room(&mut serving, Requester::OtherHost);
        serving.set_pressure(Pressure::High);
        assert_eq!(serving.served(), 3);
        assert_eq!(serving.begin(Requester::OtherHost), Err(Busy));
        for ticket in tickets.drain(..) {
            assert_eq!(serving.begin(Requester::OtherHost), Err(Busy));
            serving.end(ticket);
        }
        let last = serving
            .begin(Requester::OtherHost)
            .expect("nobody is served");
        serving.set_pressure(Pressure::Normal);
        let (count, _) = room(&mut serving, Requester::OtherHost);
        assert_eq!(count, 2);
        serving.end(last);
    }
}
