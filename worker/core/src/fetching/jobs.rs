//! Numbers for jobs, by which the work fetch policies tell them apart.

use std::collections::BTreeMap;

use brasserie_common::JobName;
use brasserie_worker_fetch::{AssociationIndex, Saved, SavedState};

/// The maximum number of numbered jobs. Another job makes all jobs get new numbers, and what was learned about them is lost.
const MOST_JOBS: usize = 100_000;

/// The numbers of all associations' jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct JobNumbers {
    numbers: BTreeMap<(AssociationIndex, JobName), u32>,
    last: u32,
}

impl JobNumbers {
    pub(super) fn number(&mut self, of: AssociationIndex, name: &JobName) -> u32 {
        let key = (of, name.clone());
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        if self.numbers.len() == MOST_JOBS {
            self.numbers.clear();
        }
        self.last = self.last.wrapping_add(1);
        self.numbers.insert(key, self.last);
        self.last
    }

    pub(super) fn names(&self) -> BTreeMap<(AssociationIndex, u32), &JobName> {
        let numbers = self.numbers.iter();
        numbers
            .map(|((of, name), number)| ((*of, *number), name))
            .collect()
    }

    /// Converts saved state from addresses and names to indexes into `addresses` and job numbers. Drops the state of schedulers that are
    /// not in `addresses`.
    pub(super) fn places(&mut self, saved: &SavedState, addresses: &[String]) -> Saved {
        let own = |address: &String| saved.schedulers.get(address);
        let rec = |address| own(address).map(|one| one.rec).unwrap_or_default();
        let correction = |address| own(address).map_or(1.0, |one| one.correction);
        let contact = |address| own(address).map(|one| one.contact.clone());
        let estimates = saved.estimates(|address, job| {
            let place = addresses.iter().position(|own| own == address)?;
            let of = AssociationIndex(place);
            let name = JobName::try_from(job).ok()?;
            Some((of, self.number(of, &name)))
        });
        Saved {
            contacts: addresses.iter().map(contact).collect(),
            rec: addresses.iter().map(rec).collect(),
            corrections: addresses.iter().map(correction).collect(),
            estimates,
        }
    }
}
