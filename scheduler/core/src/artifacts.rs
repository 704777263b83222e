//! The artifacts of tasks: the registry, and the addresses of the workers that hold copies.

use std::collections::BTreeMap;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactsAnswer, ArtifactsReport, ListingNumber, ListingPage, ListingWanted,
};
use brasserie_common::rng::Rng;
use brasserie_common::{
    ArtifactHolder, ArtifactId, ArtifactNamespace, DiskGeneration, InvocationId, LeftOutput,
    MachinePortLock, TaskKey, Time,
};
use brasserie_scheduler_artifacts::{
    Clocks, Completeness, DiskAnnouncement, Holder, ListingPage as RegistryPage, PageAnswer,
    PageEnd, RackName, Registry, RegistrySettings, Replicas, RestoredState,
};

/// The most holders that a worker is told of one artifact: enough that some are not busy.
const MOST_HOLDERS: usize = 8;
/// The most copies that one answer has deleted.
const MOST_UNWANTED: usize = 10_000;

/// The registry, with what it takes to answer workers.
#[derive(Clone, Debug)]
pub(crate) struct Artifacts {
    registry: Registry,
    namespace: ArtifactNamespace,
    /// The workers that report.
    places: BTreeMap<MachinePortLock, ArtifactHolder>,
    /// The open listing of each disk.
    listings: BTreeMap<DiskGeneration, ListingNumber>,
    rng: Rng,
}

impl Artifacts {
    pub(crate) fn new(
        namespace: ArtifactNamespace,
        restored: RestoredState,
        now: Clocks,
        rng: Rng,
    ) -> Self {
        Artifacts {
            registry: Registry::restore(RegistrySettings::default(), restored, now),
            namespace,
            places: BTreeMap::new(),
            listings: BTreeMap::new(),
            rng,
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn namespace(&self) -> &ArtifactNamespace {
        &self.namespace
    }

    /// Accepts a report of the worker at `place`, and returns the answer.
    pub(crate) fn report(
        &mut self,
        now: Time,
        (lock, place): (&MachinePortLock, ArtifactHolder),
        report: &ArtifactsReport,
    ) -> ArtifactsAnswer {
        let rack = report.rack.clone();
        self.registry.set_rack(lock, rack.clone().map(RackName));
        self.places
            .insert(lock.clone(), ArtifactHolder { rack, ..place });
        let mut answer = ArtifactsAnswer {
            namespace: self.namespace.clone(),
            listings: Vec::new(),
            unwanted: Vec::new(),
            wanted: Vec::new(),
            replicate: Vec::new(),
        };
        if report.namespace.as_ref() == Some(&self.namespace) {
            self.learn(now, lock, report);
            answer.listings = self.wanted_listings(lock, report);
            let unwanted = self.registry.unwanted(lock, now, MOST_UNWANTED);
            let copy = |(generation, id)| ArtifactCopy { generation, id };
            answer.unwanted = unwanted.into_iter().map(copy).collect();
        }
        let wanted = report.wanted.iter();
        answer.wanted = wanted.map(|&id| (id, self.holders(id, lock))).collect();
        answer
    }

    /// Learns the copies of a report. Single facts come before the disks, whose digests contain them.
    fn learn(&mut self, now: Time, lock: &MachinePortLock, report: &ArtifactsReport) {
        let holder = |generation| Holder {
            lock: lock.clone(),
            generation,
        };
        for (copy, _) in &report.stored {
            self.registry.stored(&holder(copy.generation), copy.id, now);
        }
        for copy in &report.gone {
            self.registry
                .dropped(&holder(copy.generation), copy.id, now);
        }
        for page in &report.listings {
            self.page(page, now);
        }
        let disks = report.disks.iter().map(|disk| DiskAnnouncement {
            generation: disk.generation,
            digest: disk.digest,
            count: disk.artifacts,
        });
        let disks: Vec<DiskAnnouncement> = disks.collect();
        self.registry.announce(lock, &disks, now);
    }

    fn page(&mut self, page: &ListingPage, now: Time) {
        let generation = page.wanted.generation;
        let Some(&listing) = self.listings.get(&generation) else {
            return;
        };
        if listing != page.wanted.listing {
            return;
        }
        let registry_page = RegistryPage {
            listing: brasserie_scheduler_artifacts::ListingNumber(listing.0),
            after: page.wanted.after,
            ids: page.artifacts.iter().map(|(id, _)| *id).collect(),
            end: match page.is_last {
                true => PageEnd::Last,
                false => PageEnd::More,
            },
        };
        match self.registry.page(&registry_page, now) {
            PageAnswer::Next(_) | PageAnswer::Ignored => {}
            PageAnswer::Complete => drop(self.listings.remove(&generation)),
            PageAnswer::Malformed => {
                self.listings.remove(&generation);
                self.registry.listing_failed(registry_page.listing);
            }
        }
    }

    /// Returns the parts of lists that the worker is to send with its next report: of open listings, and of disks that want one.
    fn wanted_listings(
        &mut self,
        lock: &MachinePortLock,
        report: &ArtifactsReport,
    ) -> Vec<ListingWanted> {
        let new: Vec<DiskGeneration> = self.registry.listing_wanted(lock).collect();
        for generation in new {
            let lock = lock.clone();
            if let Some(listing) = self.registry.begin_listing(&Holder { lock, generation }) {
                self.listings.insert(generation, ListingNumber(listing.0));
            }
        }
        let disks = report.disks.iter().map(|disk| disk.generation);
        let wanted = disks.filter_map(|generation| {
            let listing = *self.listings.get(&generation)?;
            let number = brasserie_scheduler_artifacts::ListingNumber(listing.0);
            let after = self.registry.listing_position(number)?;
            Some(ListingWanted {
                generation,
                listing,
                after,
            })
        });
        wanted.collect()
    }

    /// Returns some workers with a copy, other than the one that asks.
    pub(crate) fn holders(&self, id: ArtifactId, asker: &MachinePortLock) -> Vec<ArtifactHolder> {
        // A copy of the generator, since a question changes nothing.
        let mut rng = self.rng.clone();
        let some = self.registry.some_holders(id, MOST_HOLDERS + 1, &mut rng);
        let others = some.into_iter().filter(|holder| holder.lock != *asker);
        let places = others.filter_map(|holder| self.places.get(&holder.lock).cloned());
        places.take(MOST_HOLDERS).collect()
    }

    /// Records the outputs of a successful run on the worker with this lock.
    pub(crate) fn record(
        &mut self,
        now: Clocks,
        (key, invocation): (&TaskKey, InvocationId),
        lock: &MachinePortLock,
        (outputs, replicas): (Vec<LeftOutput>, Replicas),
    ) {
        for left in &outputs {
            let holder = Holder {
                lock: lock.clone(),
                generation: left.generation,
            };
            self.registry
                .stored(&holder, left.output.artifact.id, now.time);
        }
        let outputs = outputs.into_iter().map(|left| left.output).collect();
        self.registry
            .record(key, invocation, outputs, replicas, now);
    }

    pub(crate) fn forget(&mut self, now: Time, key: &TaskKey) {
        self.registry.forget(key, now);
    }

    /// Forgets a lost worker.
    pub(crate) fn lose(&mut self, now: Time, lock: &MachinePortLock) {
        self.places.remove(lock);
        self.registry.lose(lock, now);
    }

    pub(crate) fn set_completeness(&mut self, now: Time, completeness: Completeness) {
        self.registry.set_completeness(completeness, now);
    }

    /// Keeps the inputs of a run, or ends that.
    pub(crate) fn pin(
        &mut self,
        now: Time,
        run: InvocationId,
        ids: impl IntoIterator<Item = ArtifactId>,
    ) {
        self.registry.pin(run, ids, now);
    }

    pub(crate) fn unpin(&mut self, now: Time, run: InvocationId) {
        self.registry.unpin(run, now);
    }
}
