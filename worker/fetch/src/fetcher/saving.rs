//! Saves and restores the part of a fetcher that survives a restart of the worker, by association.

use std::time::Duration;

use brasserie_common::{ServiceAddress, Time};

use super::super::contact_state::{ContactState, SavedContact};
use super::super::estimates::{Estimates, SavedEstimate};
use super::super::members::Members;
use super::super::profile::Profile;
use super::super::rec::SavedRec;
use super::super::types::{AssociationIndex, Processors};
use super::{Fetcher, attached};

/// The context in which a saved state is restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here<'a> {
    pub now: Time,
    pub processors: &'a Processors,
    pub profile: &'a Profile,
    /// How long requests linger here.
    pub linger: Duration,
}

/// A saved state, aged to the time of its restoration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// The contacts by association. An association without an entry starts anew.
    pub contacts: Vec<Option<SavedContact>>,
    pub rec: Vec<SavedRec>,
    /// See [`Estimates::correction`].
    pub corrections: Vec<f64>,
    pub estimates: Vec<SavedEstimate>,
}

impl Saved {
    /// Restores a contact. The configured `members` replace the saved ones.
    pub(super) fn contact(
        &self,
        index: usize,
        here: Here<'_>,
        members: Vec<ServiceAddress>,
        u: f64,
    ) -> ContactState {
        let Here {
            now,
            processors,
            profile,
            linger,
        } = here;
        let Some(saved) = self.contacts.get(index).and_then(Option::as_ref) else {
            return attached(processors, members, u);
        };
        let mut contact = ContactState::restore(now, processors, profile, saved, u);
        // The saved waits relied on a request of the previous worker instance. This one gets no work before it asks.
        if !linger.is_zero() {
            contact.pairs.wait_no_more();
        }
        if !members.is_empty() {
            contact.members = Members::new(members, u);
        }
        contact
    }

    pub(super) fn rec(&self, index: usize) -> SavedRec {
        self.rec.get(index).copied().unwrap_or_default()
    }

    pub(super) fn estimates(&self) -> Estimates {
        let mut estimates = Estimates::restored(self.estimates.iter().copied());
        for (place, correction) in self.corrections.iter().enumerate() {
            estimates.set_correction(AssociationIndex(place), *correction);
        }
        estimates
    }
}

impl Fetcher {
    pub fn save(&self, now: Time) -> Saved {
        let contacts = self.contacts.iter();
        Saved {
            contacts: contacts
                .map(|contact| Some(contact.save(now, &self.processors)))
                .collect(),
            rec: self.accounting.save(now),
            corrections: (0..self.associations.len())
                .map(|place| self.estimates.correction(AssociationIndex(place)))
                .collect(),
            estimates: self.estimates.save(),
        }
    }
}
