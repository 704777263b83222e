//! What of a fetcher outlives its worker, by the places of its associations.

use brasserie_common::{ServiceAddress, Time};

use super::super::contact_state::{ContactState, SavedContact};
use super::super::estimates::{Estimates, SavedEstimate};
use super::super::members::Members;
use super::super::rec::SavedRec;
use super::super::types::Processors;
use super::{Fetcher, attached};

/// All of it, aged as it is to be taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// By association; nothing is known of those that are missing.
    pub contacts: Vec<Option<SavedContact>>,
    pub rec: Vec<SavedRec>,
    pub estimates: Vec<SavedEstimate>,
}

impl Saved {
    /// Whoever the operator names now is asked, not whom the list named then.
    pub(super) fn contact(
        &self,
        index: usize,
        now: Time,
        processors: &Processors,
        members: Vec<ServiceAddress>,
        u: f64,
    ) -> ContactState {
        let Some(saved) = self.contacts.get(index).and_then(Option::as_ref) else {
            return attached(processors, members, u);
        };
        let mut contact = ContactState::restore(now, processors, saved, u);
        if !members.is_empty() {
            contact.members = Members::new(members, u);
        }
        contact
    }

    pub(super) fn rec(&self, index: usize) -> SavedRec {
        self.rec.get(index).copied().unwrap_or_default()
    }

    pub(super) fn estimates(&self) -> Estimates {
        Estimates::restored(self.estimates.iter().copied())
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
            estimates: self.estimates.save(),
        }
    }
}
