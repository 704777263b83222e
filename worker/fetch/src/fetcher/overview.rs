//! Describes the state and the waits of a fetcher for the operator.

use brasserie_common::Time;
use brasserie_common::work_overview::{Asks, RequestOverview, RequestState, WaitOverview};

use super::super::fetch::Survey;
use super::super::types::{AssociationIndex, ProcessorType};
use super::super::wait::{Wait, left};
use super::conversion::{fetch_input, sources};
use super::{AssociationState, Fetcher, FetcherInput, RequestPhase};

pub use brasserie_common::work_overview::{
    AssociationOverview, Overview, PairOverview, TypeOverview,
};

/// The reason for the operator while there is no healthy association.
const ABSENT: &str = "it does not take the worker for healthy: it is asked when it does";

impl Fetcher {
    /// Returns the overview without the health of the associations, which the fetcher does not know; the caller adds it.
    pub fn overview(&self, input: &FetcherInput<'_>) -> Overview {
        let now = input.now;
        let outlook = self.outlook(now, input.tasks);
        let sources = sources(
            &self.processors,
            self.contacts.iter(),
            input.association_states,
            &self.estimates,
        );
        let outstanding = self.asked_by_type();
        let simulation_input = self.simulation_input(now, input.tasks);
        let survey = Survey::new(fetch_input(
            &simulation_input,
            self.preemption,
            &sources,
            &outlook,
            &outstanding,
        ));
        let of_type = |of: ProcessorType| {
            let expected = &outlook.of_type[of];
            TypeOverview {
                name: self.processors[of].name.clone(),
                instances: self.processors.instances(of),
                shortfall: expected.shortfall,
                idle_now: expected.idle_now,
                saturated: expected.saturated,
                busy: expected.busy,
            }
        };
        let association = |place: usize| {
            let index = AssociationIndex(place);
            let contact = &self.contacts[place];
            let members = contact.members.addresses().iter();
            let of_type = |of: ProcessorType| {
                let expected = &outlook.of(index).of_type[of];
                PairOverview {
                    name: self.processors[of].name.clone(),
                    runnable: expected.runnable,
                    queued: expected.queued,
                    deadlines_missed: expected.deadlines_missed,
                    fetchable_share: survey.may_have(index, of),
                    reason: survey.pair_reason(index, of).map(|why| why.to_string()),
                    backoff: contact.pairs.of(of).wait(now).map(|wait| told(now, wait)),
                }
            };
            let shares: f64 = self.associations.iter().map(|one| one.share).sum();
            let got = self.accounting.averages();
            AssociationOverview {
                members: members.map(ToString::to_string).collect(),
                facts: None,
                priority: survey.priority(index),
                got: part(got[place], got.iter().sum()),
                share: part(self.associations[place].share, shares),
                reason: survey.reason(index).map(|why| why.to_string()),
                wait: contact.rpc.wait(now).map(|wait| told(now, wait)),
                waits: contact.explain(now, &self.processors),
                request: self.request_under_way(place, now),
                of_type: self.processors.types().map(of_type).collect(),
            }
        };
        Overview {
            profile: self.profile.name().to_owned(),
            low_water: self.profile.low_water(),
            high_water: self.profile.high_water(),
            of_type: self.processors.types().map(of_type).collect(),
            of_association: (0..self.associations.len()).map(association).collect(),
        }
    }

    /// Returns when the scheduler is asked after the operator's request.
    pub fn asks(
        &self,
        now: Time,
        association: AssociationIndex,
        association_state: AssociationState,
    ) -> Asks {
        let later = |left, why: &str| {
            let why = why.to_owned();
            Asks::Later { left, why }
        };
        let Some(contact) = self.contacts.get(association.0) else {
            return later(None, ABSENT);
        };
        if association_state.is_absent {
            return later(None, ABSENT);
        }
        if let Some(request) = self.request_under_way(association.0, now) {
            return later(None, &format!("{request}: it is asked again after that"));
        }
        if let Some(wait) = contact.rpc.wait(now) {
            let told = told(now, wait);
            return later(Some(told.left), &told.why);
        }
        match contact.rpc.wants_list() {
            true => later(None, "the list of its members is read before"),
            false => Asks::Now,
        }
    }

    fn request_under_way(&self, place: usize, now: Time) -> Option<RequestOverview> {
        let outstanding = self.outstanding[place].as_ref()?;
        Some(RequestOverview {
            seq: outstanding.seq,
            age: now.since(outstanding.since),
            state: match outstanding.phase {
                RequestPhase::InFlight => RequestState::InFlight,
                RequestPhase::Retry => RequestState::Retry,
                RequestPhase::Pending { .. } => RequestState::Pending,
            },
            demands: outstanding.demands.clone(),
        })
    }
}

fn told(now: Time, wait: Wait) -> WaitOverview {
    WaitOverview {
        left: left(now, wait.until),
        why: wait.cause.to_string(),
    }
}

/// Returns the quotient; 0 if `all` is 0.
fn part(of_it: f64, all: f64) -> f64 {
    if all > 0.0 { of_it / all } else { 0.0 }
}
