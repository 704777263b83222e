//! The artifacts of tasks: the registry, and the addresses of the workers that hold copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactCounters, ArtifactsAnswer, ArtifactsReport, DiskCondition, DiskReport,
    ListingNumber, ListingPage, ListingWanted, WaitingRun,
};
use brasserie_common::ids::InstanceId;
use brasserie_common::rng::Rng;
use brasserie_common::{
    Artifact, ArtifactHolder, ArtifactId, ArtifactNamespace, DiskGeneration, InvocationId, JobName,
    LeftOutput, MachinePortLock, NodeName, Shard, TaskKey, Time, WallTime,
};
use brasserie_common_config::{Config, InputSource, KeepOutputs};
use brasserie_scheduler_artifacts::{
    ArtifactAvailability, Clocks, Completeness, DiskAnnouncement, Holder,
    ListingPage as RegistryPage, MissingReplicas, OwnerHeartbeat, OwnerId, PageAnswer, PageEnd,
    RackName, Registry, RegistrySettings, Replicas, RestoredState, RestoredTask, SetEnding,
    SetRetention, SetTerms, WorkerStay, WorkerTrust,
};
use brasserie_scheduler_engine::{OutputSpace, Task};
use brasserie_scheduler_slots::SlotStrategy;

use crate::files::KnownFiles;
use crate::jobs::{HoldId, HoldState};
use crate::owners::Owner;
use crate::slots::{ArtifactSlots, CopyProspect, NoSlots, ReservedPlaces, SlotsRequest};

/// The most holds on the outputs of one job. Beyond them, the one that was renewed longest ago is forgotten.
const MOST_HOLDS: usize = 1000;
/// The time after its last call for which a hold counts as running: three periods of `brasserie artifact hold`.
const HOLD_RUNS: Duration = Duration::from_secs(30);
/// The most holders of one artifact in an answer: enough that some are not busy.
const MOST_HOLDERS: usize = 8;
/// The time within which a worker with a store of artifacts has reported: several periods of its reports.
const REPORT_WAIT: Duration = Duration::from_secs(60);
/// The most copies that one answer has deleted.
const MOST_UNWANTED: usize = 10_000;

/// The most artifacts that a copy for a plan knows: some tens of megabytes and milliseconds.
const MOST_PLANNED: usize = 100_000;

/// Stands for the run that reads all files that jobs may have as inputs. No run has this number: its time is before all schedulers.
const FILES: InvocationId = InvocationId(InstanceId {
    start_time: i64::MIN,
    rand: 0,
});

/// The registry, with what it takes to answer workers.
#[derive(Clone, Debug)]
pub(crate) struct Artifacts {
    registry: Registry,
    /// Whether inputs are checked: not in a copy for a plan.
    checks: InputChecks,
    namespace: ArtifactNamespace,
    /// The workers that have not yet reported which copies they hold, and the times until which the registry waits for that.
    awaited: BTreeMap<MachinePortLock, Time>,
    /// The workers that report.
    places: BTreeMap<MachinePortLock, StoreOfWorker>,
    slots: ArtifactSlots,
    /// The open listing of each disk. A disk that was cloned has the generation of another.
    listings: BTreeMap<Holder, ListingNumber>,
    rng: Rng,
    /// The last known tasks of each set. Only changes are passed on.
    unfinished: BTreeMap<JobName, Unfinished>,
    /// The time of the next look at the sets; `None`: no job has left outputs.
    judge_at: Option<Time>,
    /// Whether a configuration has defined the sets since the start.
    are_defined: bool,
    /// The start of this scheduler, if an earlier one has left outputs.
    started: Option<Time>,
    /// The reason why the outputs of a job are gone, until it leaves others.
    gone: BTreeMap<JobName, (OutputsGone, WallTime)>,
    /// The holds on the outputs of each job. Some may not have been renewed for too long.
    holds: BTreeMap<JobName, BTreeMap<HoldId, Hold>>,
    files: Arc<KnownFiles>,
    /// The running tasks with inputs that were not known yet when a worker listed them.
    to_pin: BTreeMap<InvocationId, Task>,
    locality: LocalityCounts,
}

/// The facts of a worker's last report that the registry does not keep.
#[derive(Clone, Debug)]
pub(crate) struct StoreOfWorker {
    pub shard: Shard,
    pub place: ArtifactHolder,
    /// Whether a report has said what the store has for this scheduler.
    is_known: bool,
    /// The runs that wait for inputs.
    waiting: Vec<WaitingRun>,
    pub disks: Vec<DiskReport>,
    pub counters: Option<ArtifactCounters>,
}

/// A hold on the outputs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    renewed: Time,
    /// Whether outputs have expired or were removed since then.
    have_gone: bool,
}

/// The starts of tasks with inputs: those at a worker with at least half of the bytes, and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalityCounts {
    pub hits: u64,
    pub misses: u64,
}

/// The reason why the outputs of a job are not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputsGone {
    Expired,
    HoldEnded,
    Removed,
}

impl OutputsGone {
    /// Returns the reason as the beginning of a sentence that says when.
    pub(crate) fn text(self) -> &'static str {
        match self {
            OutputsGone::Expired => "they expired, as the job's `keep` says,",
            OutputsGone::HoldEnded => "the last hold on them (`keep`) ended",
            OutputsGone::Removed => "a user removed them",
        }
    }
}

/// Whether a task starts only if its inputs are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputChecks {
    On,
    Off,
    /// The registry is empty, too, so that nobody knows where inputs are.
    OffAndUnknown,
}

/// The tasks that may still make or read the outputs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub producers: u64,
    pub consumers: u64,
}

impl Artifacts {
    pub(crate) fn new(
        namespace: ArtifactNamespace,
        restored: RestoredState,
        now: Clocks,
        (strategy, rng): (SlotStrategy, Rng),
    ) -> Self {
        let mut slots = ArtifactSlots::new(now.time, strategy);
        // The latest runs count most.
        let mut runs: Vec<&RestoredTask> = restored.tasks.iter().collect();
        runs.sort_by_key(|task| task.invocation);
        for RestoredTask { key, outputs, .. } in runs {
            let sizes = outputs.iter().map(|output| output.artifact.size);
            slots.record_run(&key.job, sizes.fold(0, u64::saturating_add));
        }
        let has_outputs = !restored.sets.is_empty();
        Artifacts {
            judge_at: has_outputs.then_some(now.time),
            are_defined: false,
            started: has_outputs.then_some(now.time),
            holds: BTreeMap::new(),
            gone: BTreeMap::new(),
            registry: Registry::restore(RegistrySettings::default(), restored, now),
            checks: InputChecks::On,
            namespace,
            awaited: BTreeMap::new(),
            places: BTreeMap::new(),
            slots,
            listings: BTreeMap::new(),
            rng,
            unfinished: BTreeMap::new(),
            files: Arc::default(),
            to_pin: BTreeMap::new(),
            locality: LocalityCounts::default(),
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns artifacts for a copy of the scheduler that places tasks for a plan. The inputs of each task count as present. The registry
    /// stays behind if it is large.
    pub(crate) fn for_a_plan(&self) -> Self {
        let is_known = self.registry.count_artifacts() <= MOST_PLANNED;
        let (registry, checks) = match is_known {
            true => (self.registry.clone(), InputChecks::Off),
            false => (
                Registry::new(RegistrySettings::default()),
                InputChecks::OffAndUnknown,
            ),
        };
        let places = self.places.iter().filter(|_| is_known);
        Artifacts {
            registry,
            checks,
            namespace: self.namespace.clone(),
            awaited: BTreeMap::new(),
            places: places
                .map(|(lock, store)| (lock.clone(), store.clone()))
                .collect(),
            slots: ArtifactSlots::new(Time::ZERO, SlotStrategy::RoundRobin),
            listings: BTreeMap::new(),
            rng: self.rng.clone(),
            unfinished: BTreeMap::new(),
            judge_at: None,
            are_defined: true,
            started: None,
            holds: BTreeMap::new(),
            gone: BTreeMap::new(),
            files: Arc::clone(&self.files),
            to_pin: BTreeMap::new(),
            locality: LocalityCounts::default(),
        }
    }

    pub(crate) fn files(&self) -> &KnownFiles {
        &self.files
    }

    /// Accepts the files that jobs may have as inputs, and keeps their copies on workers.
    pub(crate) fn set_files(&mut self, now: Time, files: Arc<KnownFiles>) {
        let (before, ids) = (self.files.kept(), files.kept());
        self.files = files;
        if before != ids {
            self.unpin(now, FILES);
            self.pin(now, FILES, ids);
        }
    }

    /// Returns those of the artifacts that running tasks read.
    pub(crate) fn read_by_runs(&self, ids: &[ArtifactId]) -> BTreeSet<ArtifactId> {
        let is_read = |id: &&ArtifactId| self.registry.readers(**id).any(|run| run != FILES);
        ids.iter().filter(is_read).copied().collect()
    }

    /// Returns whether any job leaves outputs, or has left some, or a program has asked for slots.
    pub(crate) fn are_used(&self) -> bool {
        self.registry.sets(None).next().is_some() || self.slots.are_requested()
    }

    pub(crate) fn checks(&self) -> InputChecks {
        self.checks
    }

    pub(crate) fn namespace(&self) -> &ArtifactNamespace {
        &self.namespace
    }

    /// Accepts a report of the worker at `place`, and returns the answer. `oldest_run` is when the first of its running tasks began that
    /// leave outputs.
    pub(crate) fn report(
        &mut self,
        now: Time,
        (lock, place): (&MachinePortLock, ArtifactHolder),
        report: &ArtifactsReport,
        oldest_run: Option<Time>,
    ) -> ArtifactsAnswer {
        // Other answers name other holders of an artifact that many have.
        self.rng.next_u64();
        let rack = report.rack.clone();
        self.registry.set_rack(lock, rack.clone().map(RackName));
        let is_ours = report.namespace.as_ref() == Some(&self.namespace);
        let before = self.places.remove(lock);
        let store = StoreOfWorker {
            shard: report.shard.clone(),
            place: ArtifactHolder { rack, ..place },
            is_known: is_ours,
            waiting: report.waiting.clone(),
            counters: report.counters,
            // A worker that does not know the namespace yet names no disks.
            disks: match is_ours {
                true => report.disks.clone(),
                false => before.map(|before| before.disks).unwrap_or_default(),
            },
        };
        self.places.insert(lock.clone(), store);
        let mut answer = ArtifactsAnswer {
            namespace: self.namespace.clone(),
            listings: Vec::new(),
            unwanted: Vec::new(),
            wanted: Vec::new(),
            replicate: Vec::new(),
            lost: Vec::new(),
        };
        if is_ours {
            self.awaited.remove(lock);
            self.learn(now, lock, report);
            answer.listings = self.wanted_listings(lock, report);
            let times = (now, oldest_run.unwrap_or(now));
            let unwanted = self.registry.unwanted(lock, times, MOST_UNWANTED);
            let copy = |(generation, id)| ArtifactCopy { generation, id };
            answer.unwanted = unwanted.into_iter().map(copy).collect();
            self.slots.report(now, lock, report);
            answer.replicate = self.wanted_replicas(now, lock);
        }
        let lost = report.wanted.iter().filter(|id| self.is_nowhere(**id));
        answer.lost = lost.copied().collect();
        let wanted = report.wanted.iter();
        answer.wanted = wanted.map(|&id| (id, self.holders(id, lock))).collect();
        answer
    }

    /// Returns the artifacts of which the worker should fetch a copy, with their holders.
    fn wanted_replicas(
        &mut self,
        now: Time,
        lock: &MachinePortLock,
    ) -> Vec<(Artifact, Vec<ArtifactHolder>)> {
        self.slots
            .choose_workers(now, &self.registry, &mut self.rng);
        let asked = self.slots.asked_of(now, &self.registry, lock);
        let with_holders = |id| Some((self.registry.artifact(id)?, self.holders(id, lock)));
        asked.into_iter().filter_map(with_holders).collect()
    }

    /// Reserves places of artifacts that a program writes.
    pub(crate) fn reserve_slots(
        &mut self,
        now: Time,
        wanted: (&SlotsRequest, Option<&Arc<str>>),
        except: &BTreeSet<MachinePortLock>,
    ) -> Result<ReservedPlaces, NoSlots> {
        self.slots.reserve(now, wanted, except, &mut self.rng)
    }

    /// Returns who owns a reservation of a program.
    pub(crate) fn slots_owner(&self, reservation: u64) -> Owner {
        self.slots.owner(reservation)
    }

    /// Ends a reservation of a program. Returns false if it has ended before.
    pub(crate) fn release_slots(&mut self, now: Time, reservation: u64) -> bool {
        self.slots.release(now, reservation)
    }

    /// Reserves space for the outputs of a run of the job at the worker with this lock.
    pub(crate) fn reserve_for_run(
        &mut self,
        now: Time,
        of: (&MachinePortLock, InvocationId),
        job: &JobName,
    ) {
        self.slots.reserve_for_run(now, of, job);
    }

    /// Notes that the worker with this lock had no space for the outputs of a run.
    pub(crate) fn record_no_space(&mut self, now: Time, lock: &MachinePortLock, job: &JobName) {
        self.slots.record_no_space(now, lock, job);
    }

    /// Returns the bytes that a run of the job is expected to leave.
    pub(crate) fn size_of_outputs(&self, job: &JobName) -> u64 {
        self.slots.size_of_outputs(job)
    }

    /// Returns whether a run of the job has left outputs.
    pub(crate) fn knows_size_of(&self, job: &JobName) -> bool {
        self.slots.knows_size_of(job)
    }

    /// Returns the workers that lately had no space for the outputs of the job.
    pub(crate) fn full_for(&self, job: &JobName) -> BTreeSet<Shard> {
        self.slots.full_for(job)
    }

    /// Returns the jobs for which other workers lack space than at the last call.
    pub(crate) fn take_changed_marks(&mut self, now: Time) -> BTreeSet<JobName> {
        self.slots.take_changed_marks(now)
    }

    /// Returns the workers whose space for outputs may have changed.
    pub(crate) fn take_changed_space(&mut self) -> Vec<(MachinePortLock, OutputSpace)> {
        let changed = self.slots.take_changed().into_iter();
        let with_space = |(lock, bytes)| {
            let space = match bytes {
                Some(bytes) => OutputSpace::Bytes(bytes),
                None if self.awaited.contains_key(&lock) => OutputSpace::Awaited,
                None => OutputSpace::Unknown,
            };
            (lock, space)
        };
        changed.map(with_space).collect()
    }

    /// Returns when the wait for the first report of a worker ends next, if tasks may wait for that.
    pub(crate) fn next_report_due(&self) -> Option<Time> {
        let awaited = self.awaited.values().filter(|_| self.slots.know_sizes());
        awaited.min().copied()
    }

    /// Returns the store of a worker that reports it.
    pub(crate) fn store(&self, lock: &MachinePortLock) -> Option<&StoreOfWorker> {
        self.places.get(lock)
    }

    /// Keeps a worker from getting further copies and slots, or ends that.
    pub(crate) fn set_excluded(&mut self, now: Time, lock: &MachinePortLock, is_excluded: bool) {
        self.slots.set_excluded(now, lock, is_excluded);
    }

    /// Returns how many more workers must get a copy until an artifact is on so many.
    pub(crate) fn count_missing_copies(&self, id: ArtifactId, wanted: Replicas) -> usize {
        match wanted {
            Replicas::ONE => 0,
            _ => wanted.get() - self.registry.count_replicas(id, wanted),
        }
    }

    /// Returns why an artifact is on too few workers.
    pub(crate) fn copy_prospect(
        &self,
        now: Time,
        artifact: Artifact,
        wanted: Replicas,
    ) -> CopyProspect {
        let missing = MissingReplicas {
            id: artifact.id,
            size: artifact.size,
            replicas: self.count_missing_copies(artifact.id, wanted),
        };
        self.prospect(now, &missing)
    }

    /// Returns why an artifact of which the registry misses copies lacks them.
    pub(crate) fn prospect(&self, now: Time, missing: &MissingReplicas) -> CopyProspect {
        self.slots.prospect(now, &self.registry, missing)
    }

    /// Returns how far the inputs of a run are, if its worker has reported that it waits for them.
    pub(crate) fn waiting_run(
        &self,
        lock: &MachinePortLock,
        run: InvocationId,
    ) -> Option<&WaitingRun> {
        let waiting = &self.places.get(lock)?.waiting;
        waiting.iter().find(|waiting| waiting.invocation == run)
    }

    /// Sets on how many workers each output of a job should be.
    pub(crate) fn set_replicas(&mut self, job: &JobName, replicas: Replicas, now: Time) {
        self.registry.set_replicas(job, replicas, now);
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
            self.page(&holder(page.wanted.generation), page, now);
        }
        let disks = report.disks.iter().map(|disk| DiskAnnouncement {
            generation: disk.generation,
            digest: disk.digest,
            count: disk.artifacts,
        });
        let disks: Vec<DiskAnnouncement> = disks.collect();
        self.registry.announce(lock, &disks, now);
    }

    fn page(&mut self, disk: &Holder, page: &ListingPage, now: Time) {
        let Some(&listing) = self.listings.get(disk) else {
            return;
        };
        if listing != page.wanted.listing {
            return;
        }
        let registry_page = RegistryPage {
            listing,
            after: page.wanted.after,
            ids: page.artifacts.iter().map(|(id, _)| *id).collect(),
            end: match page.is_last {
                true => PageEnd::Last,
                false => PageEnd::More,
            },
        };
        match self.registry.page(&registry_page, now) {
            PageAnswer::Next(_) | PageAnswer::Ignored => {}
            PageAnswer::Complete => drop(self.listings.remove(disk)),
            PageAnswer::Malformed => {
                self.listings.remove(disk);
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
        let holder = |generation| Holder {
            lock: lock.clone(),
            generation,
        };
        for disk in new.into_iter().map(holder) {
            if let Some(listing) = self.registry.begin_listing(&disk) {
                self.listings.insert(disk, listing);
            }
        }
        let disks = report.disks.iter().map(|disk| disk.generation);
        let wanted = disks.filter_map(|generation| {
            let listing = *self.listings.get(&holder(generation))?;
            let after = self.registry.listing_position(listing)?;
            Some(ListingWanted {
                generation,
                listing,
                after,
            })
        });
        wanted.collect()
    }

    /// Returns the workers with copies of any of the artifacts, those with the most bytes first, and then the other workers in their racks,
    /// with 0 bytes.
    pub(crate) fn nearest(
        &self,
        artifacts: impl Iterator<Item = Artifact>,
    ) -> Vec<(MachinePortLock, u64)> {
        let mut bytes: BTreeMap<&MachinePortLock, u64> = BTreeMap::new();
        let mut in_rack: BTreeMap<&str, u64> = BTreeMap::new();
        for artifact in artifacts {
            let holders = self.registry.holders(artifact.id);
            let locks: BTreeSet<&MachinePortLock> = holders.map(|holder| &holder.lock).collect();
            let racks = locks.iter().filter_map(|lock| self.rack_of(lock));
            // An empty file counts, too.
            let size = artifact.size.saturating_add(1);
            for rack in racks.collect::<BTreeSet<&str>>() {
                let sum = in_rack.entry(rack).or_default();
                *sum = sum.saturating_add(size);
            }
            for lock in locks {
                let sum = bytes.entry(lock).or_default();
                *sum = sum.saturating_add(size);
            }
        }
        let others = self.places.keys().filter(|_| !in_rack.is_empty());
        let others = others.filter(|lock| !bytes.contains_key(lock));
        let beside = |lock| Some((*in_rack.get(self.rack_of(lock)?)?, lock));
        let mut others: Vec<(u64, &MachinePortLock)> = others.filter_map(beside).collect();
        let mut holders: Vec<(u64, &MachinePortLock)> =
            bytes.iter().map(|(lock, bytes)| (*bytes, *lock)).collect();
        for list in [&mut holders, &mut others] {
            list.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        }
        let others = others.into_iter().map(|(_, lock)| (0, lock));
        let all = holders.into_iter().chain(others);
        all.map(|(bytes, lock)| (lock.clone(), bytes)).collect()
    }

    /// Returns the bytes of the artifacts that a worker lacks, and those of all.
    pub(crate) fn bytes_elsewhere(
        &self,
        lock: &MachinePortLock,
        artifacts: impl Iterator<Item = Artifact>,
    ) -> (u64, u64) {
        artifacts.fold((0, 0), |(elsewhere, all): (u64, u64), artifact| {
            let mut holders = self.registry.holders(artifact.id);
            let moved = match holders.any(|holder| holder.lock == *lock) {
                true => 0,
                false => artifact.size,
            };
            (
                elsewhere.saturating_add(moved),
                all.saturating_add(artifact.size),
            )
        })
    }

    /// Returns whether the disks of a worker have no space for those of the artifacts that it lacks, by its last report.
    pub(crate) fn lacks_space_for(
        &self,
        lock: &MachinePortLock,
        artifacts: impl Iterator<Item = Artifact>,
    ) -> bool {
        let Some(store) = self.places.get(lock).filter(|store| store.is_known) else {
            return false;
        };
        let healthy = store.disks.iter();
        let healthy = healthy.filter(|disk| disk.condition == DiskCondition::Healthy);
        let usable = largest_and_sum(healthy.map(|disk| disk.usable));
        let is_here = |id| {
            let mut holders = self.registry.holders(id);
            holders.any(|holder| holder.lock == *lock)
        };
        let lacking = artifacts.filter(|artifact| !is_here(artifact.id));
        let lacking = largest_and_sum(lacking.map(|artifact| artifact.size));
        lacking.0 > usable.0 || lacking.1 > usable.1
    }

    /// Counts the start of a task with these inputs at a worker.
    pub(crate) fn count_start(
        &mut self,
        lock: &MachinePortLock,
        artifacts: impl Iterator<Item = Artifact>,
    ) {
        let (elsewhere, all) = self.bytes_elsewhere(lock, artifacts);
        match elsewhere <= all / 2 {
            true => self.locality.hits += 1,
            false => self.locality.misses += 1,
        }
    }

    /// Returns the sums of the counters of all workers; `None` if none has reported any.
    pub(crate) fn sum_of_counters(&self) -> Option<ArtifactCounters> {
        let counters = self.places.values().filter_map(|store| store.counters);
        counters.reduce(|sum, one| sum.plus(&one))
    }

    pub(crate) fn locality(&self) -> LocalityCounts {
        self.locality
    }

    fn rack_of(&self, lock: &MachinePortLock) -> Option<&str> {
        self.places.get(lock)?.place.rack.as_deref()
    }

    /// Returns some workers with a copy, other than the one that asks.
    pub(crate) fn holders(&self, id: ArtifactId, asker: &MachinePortLock) -> Vec<ArtifactHolder> {
        // A copy of the generator, since a question changes nothing.
        let mut rng = self.rng.clone();
        let some = self.registry.some_holders(id, MOST_HOLDERS + 1, &mut rng);
        let others = some.into_iter().filter(|holder| holder.lock != *asker);
        let stores = others.filter_map(|holder| self.places.get(&holder.lock));
        let places = stores.map(|store| store.place.clone());
        let own = self.files.has(id).then(ArtifactHolder::scheduler);
        places.take(MOST_HOLDERS).chain(own).collect()
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
            self.slots.record_output(left.output.artifact.size);
        }
        let sizes = outputs.iter().map(|left| left.output.artifact.size);
        let bytes = sizes.fold(0, u64::saturating_add);
        if !outputs.is_empty() {
            self.slots.note_left_outputs(invocation);
        }
        self.slots.record_run(&key.job, bytes);
        self.slots.record_space(lock, &key.job);
        let outputs = outputs.into_iter().map(|left| left.output).collect();
        self.gone.remove(&key.job);
        self.registry
            .record(key, invocation, outputs, replicas, now);
    }

    pub(crate) fn forget(&mut self, now: Time, key: &TaskKey) {
        self.registry.forget(key, now);
    }

    pub(crate) fn forget_job(&mut self, now: Time, job: &JobName) {
        self.registry.forget_job(job, now);
        // The registry may have forgotten the set with what it knew of its tasks.
        self.unfinished.remove(job);
    }

    /// Returns whether a program that holds the outputs of a job has said so lately.
    pub(crate) fn are_held(&self, now: Time, job: &JobName) -> bool {
        let holds = self.holds.get(job).into_iter().flatten();
        holds
            .into_iter()
            .any(|(_, hold)| now < hold.renewed + HOLD_RUNS)
    }

    /// Notes that a user has removed outputs of a job. Those who hold them learn of it.
    pub(crate) fn note_removed(&mut self, job: &JobName, wall: WallTime) {
        let holds = self.holds.get_mut(job).into_iter().flatten();
        holds.for_each(|(_, hold)| hold.have_gone = true);
        let removed = (OutputsGone::Removed, wall);
        self.gone.insert(job.clone(), removed);
    }

    /// Returns why outputs of a job are gone, and since when, if that was since the start.
    pub(crate) fn why_gone(&self, job: &JobName) -> Option<(OutputsGone, WallTime)> {
        self.gone.get(job).copied()
    }

    /// Forgets the outputs of a task that runs again because some of them are lost.
    pub(crate) fn make_again(&mut self, now: Time, key: &TaskKey) {
        self.registry.make_again(key, now);
    }

    /// Notes that a run of the task has not succeeded.
    pub(crate) fn run_failed(&mut self, key: &TaskKey) {
        if self.registry.is_made_again(key) {
            self.registry.rerun_failed(key);
        }
    }

    /// Notes that a run has succeeded that read outputs of a job: those of the tasks on these nodes, or of all.
    pub(crate) fn consumed(&mut self, job: &JobName, nodes: Option<Vec<NodeName>>, now: Clocks) {
        let registry = &mut self.registry;
        let Some(nodes) = nodes else {
            return registry.consumed_job(job, now);
        };
        for node in nodes {
            let job = job.clone();
            registry.consumed(&TaskKey { job, node }, now);
        }
    }

    /// Defines how long the outputs of a job are kept, and which jobs read them.
    pub(crate) fn define(
        &mut self,
        now: Clocks,
        job: &JobName,
        terms: SetTerms,
        consumers: BTreeSet<JobName>,
    ) {
        let known = self.registry.set(job);
        if known.is_some_and(|known| *known.terms == terms && *known.consumers == consumers) {
            return;
        }
        let registry = &mut self.registry;
        registry.define_set(job, terms, now);
        registry.set_consumers(job, consumers, now);
    }

    /// Notes that a configuration defines the sets. Returns whether it is the first one since the start.
    pub(crate) fn begin_definitions(&mut self) -> bool {
        !std::mem::replace(&mut self.are_defined, true)
    }

    /// Sets when the outputs of a job were last written or read before the start.
    pub(crate) fn restore_use(&mut self, now: Clocks, job: &JobName, last_use: WallTime) {
        self.registry.restore_use(job, last_use, now);
    }

    /// Notes that only these jobs leave outputs.
    pub(crate) fn keep_sets(&mut self, now: Clocks, jobs: &BTreeSet<JobName>) {
        self.slots.keep_sizes(jobs);
        self.gone.retain(|job, _| jobs.contains(job));
        let all = self.registry.sets(None);
        let gone = all.filter(|set| !jobs.contains(set.job) && set.ending.is_none());
        let gone: Vec<JobName> = gone.map(|set| set.job.clone()).collect();
        for job in gone {
            self.registry.delete_job(&job, now);
        }
    }

    /// Sets when the sets are looked at next, if there are any.
    pub(crate) fn judge_at(&mut self, due: Time) {
        self.judge_at = self.registry.sets(None).next().map(|_| due);
    }

    /// Returns when the sets are to be looked at.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.judge_at
    }

    pub(crate) fn set_unfinished(&mut self, now: Clocks, job: &JobName, tasks: Unfinished) {
        if self.unfinished.get(job) == Some(&tasks) {
            return;
        }
        self.unfinished.insert(job.clone(), tasks);
        let registry = &mut self.registry;
        registry.set_unfinished_producers(job, tasks.producers, now);
        registry.set_unfinished_consumers(job, tasks.consumers, now);
    }

    /// Forgets the outputs of sets that have expired. Returns their jobs, and whether each had outputs.
    pub(crate) fn expire(&mut self, now: Clocks) -> Vec<(JobName, bool)> {
        if self.registry.next_expiry().is_none_or(|due| now.time < due) {
            return Vec::new();
        }
        let expired = self.registry.expire(now).into_iter();
        let forget = |job: JobName| {
            self.unfinished.remove(&job);
            let had_outputs = self.registry.job_outputs(&job).next().is_some();
            let ending = self.registry.set(&job).and_then(|set| set.ending);
            match (ending, self.holds.get_mut(&job)) {
                (Some(SetEnding::OwnerExpired), Some(holds)) if had_outputs => {
                    holds.values_mut().for_each(|hold| hold.have_gone = true);
                }
                (Some(SetEnding::OwnerExpired), _) => {}
                (Some(SetEnding::JobDeleted) | None, _) => drop(self.holds.remove(&job)),
            }
            if had_outputs {
                let why = match ending {
                    Some(SetEnding::OwnerExpired) => OutputsGone::HoldEnded,
                    Some(SetEnding::JobDeleted) | None => OutputsGone::Expired,
                };
                self.gone.insert(job.clone(), (why, now.wall));
            }
            self.registry.forget_job(&job, now.time);
            (job, had_outputs)
        };
        expired.map(forget).collect()
    }

    /// Holds the outputs of a job with this owner. If all earlier holds have ended, the outputs expire all the same. A hold that was not
    /// renewed in time, and whose outputs have gone meanwhile, is reported as ended once, and begins anew.
    pub(crate) fn hold(
        &mut self,
        now: Time,
        job: &JobName,
        (owner, id): (&OwnerId, HoldId),
    ) -> HoldState {
        let set = self.registry.set(job);
        if set.is_some_and(|set| set.ending == Some(SetEnding::OwnerExpired)) {
            return HoldState::Ended;
        }
        let holds = self.holds.entry(job.clone()).or_default();
        if holds.len() >= MOST_HOLDS
            && !holds.contains_key(&id)
            && let Some(oldest) = holds.iter().min_by_key(|(_, hold)| **hold)
        {
            let oldest = *oldest.0;
            holds.remove(&oldest);
        }
        let hold = Hold {
            renewed: now,
            have_gone: false,
        };
        let have_gone = holds.insert(id, hold).is_some_and(|hold| hold.have_gone);
        match self.registry.owner_heartbeat(owner, now) {
            OwnerHeartbeat::Continued if !have_gone => HoldState::Continued,
            OwnerHeartbeat::Continued | OwnerHeartbeat::Began => HoldState::Ended,
        }
    }

    /// Ends one hold on the outputs of a job. With the last one, the session of their owner ends. Others continue, also those from before the
    /// start, which have as long as any to say so.
    pub(crate) fn end_hold(
        &mut self,
        now: Clocks,
        job: &JobName,
        (owner, id): (&OwnerId, HoldId),
    ) -> HoldState {
        let timeout = self.registry.settings().owner_timeout;
        let is_fresh = |since: Time| now.time < since + timeout;
        let holds = self.holds.entry(job.clone()).or_default();
        holds.remove(&id);
        if holds.values().any(|hold| is_fresh(hold.renewed)) {
            return HoldState::Continued;
        }
        if holds.is_empty() {
            self.holds.remove(job);
        }
        if self.started.is_some_and(is_fresh) {
            return HoldState::Continued;
        }
        self.registry.end_owner(owner, now);
        HoldState::Ended
    }

    /// Notes that a worker has associated. Until its report, its copies are unknown. A worker without a store of artifacts sends none.
    pub(crate) fn associated(&mut self, now: Time, lock: &MachinePortLock) {
        self.awaited.insert(lock.clone(), now + REPORT_WAIT);
        self.slots.note_changed(lock);
    }

    /// Sets whether the copies of a worker do not count as replicas, by an operator's order.
    pub(crate) fn set_leaving(&mut self, lock: &MachinePortLock, is_leaving: bool) {
        let stay = match is_leaving {
            true => WorkerStay::Leaving,
            false => WorkerStay::Staying,
        };
        self.registry.set_stay(lock, stay);
    }

    /// Sets whether a worker is expected to keep its copies: it is healthy and does not drain.
    pub(crate) fn set_trusted(&mut self, lock: &MachinePortLock, is_trusted: bool) {
        let trust = match is_trusted {
            true => WorkerTrust::Trusted,
            false => WorkerTrust::Doubtful,
        };
        self.registry.set_trust(lock, trust);
    }

    /// Returns whether all copies of a worker, and those of others, are known, as far as anything depends on that. A worker that has not
    /// reported has no needed copy if each needed artifact has one elsewhere. It counts as one without a store when its time to report is
    /// over.
    pub(crate) fn knows_copies_of(&self, lock: &MachinePortLock) -> bool {
        let is_complete = self.registry.completeness() == Completeness::Complete;
        let knows_copies = || {
            let is_unlisted = match self.places.get(lock) {
                Some(store) => !store.is_known,
                None => self.awaited.contains_key(lock),
            };
            !is_unlisted || self.registry.lost().next().is_none()
        };
        !self.are_used() || is_complete && knows_copies()
    }

    /// Returns the prospects of a task that wants to read an artifact. As long as workers have to report, nothing counts as lost.
    pub(crate) fn availability(&self, id: ArtifactId) -> ArtifactAvailability {
        match self.registry.availability(id) {
            ArtifactAvailability::Available => ArtifactAvailability::Available,
            _ if !self.awaited.is_empty() => ArtifactAvailability::Unknown,
            other => other,
        }
    }

    /// Returns whether nobody has a copy of an artifact. As long as workers have to report, this is known of none.
    fn is_nowhere(&self, id: ArtifactId) -> bool {
        let is_gone = match self.availability(id) {
            ArtifactAvailability::Available | ArtifactAvailability::Unknown => false,
            ArtifactAvailability::Lost
            | ArtifactAvailability::GivenUp(_)
            | ArtifactAvailability::Unnamed => true,
        };
        is_gone && !self.files.has(id)
    }

    /// Forgets a lost worker.
    pub(crate) fn lose(&mut self, now: Time, lock: &MachinePortLock) {
        self.awaited.remove(lock);
        self.listings.retain(|disk, _| disk.lock != *lock);
        self.places.remove(lock);
        self.slots.lose(now, lock);
        self.registry.lose(lock, now);
    }

    /// Accepts whether all workers and running tasks are known.
    pub(crate) fn judge_completeness(&mut self, now: Time, all_known: bool) {
        self.awaited.retain(|lock, until| {
            let waits = now < *until;
            if !waits {
                self.slots.note_changed(lock);
            }
            waits
        });
        if self.registry.is_settled() != all_known {
            let completeness = match all_known {
                true => Completeness::Complete,
                false => Completeness::Incomplete,
            };
            self.registry.set_completeness(completeness, now);
        }
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

    /// Notes that some inputs of a running task are not known yet.
    pub(crate) fn pin_later(&mut self, run: InvocationId, task: Task) {
        self.to_pin.insert(run, task);
    }

    /// Takes the running tasks of which some inputs were not known.
    pub(crate) fn take_pins_for_later(&mut self) -> BTreeMap<InvocationId, Task> {
        std::mem::take(&mut self.to_pin)
    }

    pub(crate) fn unpin(&mut self, now: Time, run: InvocationId) {
        self.to_pin.remove(&run);
        self.slots.end_run(run);
        if self.registry.has_pins(run) {
            self.registry.unpin(run, now);
        }
    }
}

/// Returns how long a set is kept whose session lives.
pub(crate) fn retention_of(keep: KeepOutputs) -> SetRetention {
    match keep {
        KeepOutputs::UntilConsumed => SetRetention::UntilConsumed,
        KeepOutputs::For(time) => SetRetention::For(time),
        KeepOutputs::WhileHeld | KeepOutputs::Forever => SetRetention::Forever,
    }
}

/// Returns, for each wanted job, the jobs that have its outputs as inputs.
pub(crate) fn consumers(
    config: &Config,
    is_wanted: impl Fn(&JobName) -> bool,
) -> BTreeMap<JobName, BTreeSet<JobName>> {
    let mut consumers: BTreeMap<JobName, BTreeSet<JobName>> = BTreeMap::new();
    for job in &config.jobs {
        for input in &job.inputs {
            if let InputSource::Job { job: from, .. } = &input.source
                && is_wanted(from)
            {
                let of = consumers.entry(from.clone()).or_default();
                of.insert(job.name.clone());
            }
        }
    }
    consumers
}

/// Returns the largest of some sizes, and their sum.
fn largest_and_sum(sizes: impl Iterator<Item = u64>) -> (u64, u64) {
    sizes.fold((0, 0), |(largest, sum): (u64, u64), size| {
        (largest.max(size), sum.saturating_add(size))
    })
}
