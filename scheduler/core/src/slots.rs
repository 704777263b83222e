//! The slots of artifacts: which worker is asked for a further copy of an artifact, and which places programs have reserved. The rules are
//! those of `brasserie-scheduler-slots`; this file numbers the workers for them, and keeps the copies that workers were asked for.

mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::{ArtifactsReport, DiskCondition, DiskMedium, DiskReport};
use brasserie_common::rng::Rng;
use brasserie_common::{
    ArtifactHolder, ArtifactId, DiskGeneration, InvocationId, JobName, MachinePortLock,
    SchedulerId, Shard, Time, WorkerId,
};
use brasserie_scheduler_artifacts::{MissingReplicas, Registry};
use brasserie_scheduler_slots::{
    Allocator, AllocatorSettings, ArtifactId as SlotNumber, Bytes, CopyRequest, DiskClass, DiskId,
    DiskPlace, DiskState, DrainState, ExceptWorkers, GrantRequest, HolderId, IneligibleReason,
    NoOffer, Rack, Replication, ReservationId, SlotSettings, SlotStrategy, WorkerDisk,
    WorkerRegistration, WorkerReport, WorkloadLevel,
};

use crate::owners::Owner;
use crate::refusal::Rejection;
use space::CopySpace;

/// The most copies that one answer requests: a worker fetches a few at a time, and is asked again.
const MOST_REQUESTED: usize = 64;
/// The most artifacts that one report considers: a fraction of a millisecond.
const MOST_CONSIDERED: usize = 1000;
/// The most choices of workers in one report. Each is for artifacts with the same holders, and takes a fraction of a millisecond.
const MOST_CHOICES: usize = 16;
/// The time that a worker has to fetch a copy before another one is asked, beside the time for its bytes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The bytes a second that a worker fetches at least: less than a busy network brings, so that no worker is replaced that makes progress.
const SLOWEST_BYTES_A_SECOND: u64 = 16 << 20;
/// The time after which a reservation of a program ends by itself: enough to write some gigabytes, and short enough that the space is not
/// missed if the program has forgotten it.
pub(crate) const RESERVED_FOR: Duration = Duration::from_secs(600);
/// The most reservations of programs at a time. Each has a number for every disk of its workers.
const MOST_RESERVATIONS: usize = 1000;
/// The most workers that a refusal names.
const MOST_NAMED: usize = 5;
/// The bytes that the outputs of a run are expected to take before any run of its job has left some: a fresh cluster starts at once.
const FIRST_SIZE: u64 = 1;
/// The most bytes that the outputs of a run are expected to take, so that one huge output does not keep a job from all workers.
const LARGEST_SIZE: u64 = 4 << 30;
/// The time for which a worker that had no space for the outputs of a job gets none of its runs: long beside its backoffs, so that the worker is
/// not tried again and again. After that even a disk that is too small is tried: the job's other tasks may leave less.
const FULL_FOR: Duration = Duration::from_secs(600);
/// The same if all workers with usable space have had none: some reports of disks long, so that a disk that was full for a moment delays nobody
/// for longer.
const ALL_FULL_FOR: Duration = Duration::from_secs(60);
/// The reports of a worker after which one of them surely has the outputs of a run: the first may have been under way when the run ended.
const REPORTS_WITH_OUTPUTS: u8 = 2;
/// No report of a worker says which of its slots are used. So a slot stays reserved until its copy is reported, or until it ends.
const NO_SLOT_IS_REPORTED: Time = Time::ZERO;

/// A worker that was asked for a copy.
#[derive(Clone, Debug)]
struct AskedWorker {
    holder: HolderId,
    reservation: ReservationId,
    /// The time after which it is not waited for.
    until: Time,
}

/// A worker that reports a store.
#[derive(Clone, Debug)]
struct SlotWorker {
    lock: MachinePortLock,
    shard: Shard,
    instance: WorkerId,
    rack: Rack,
}

/// Artifacts of about the same size that the same workers may get.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CopyGroup {
    /// Holders, and workers that were asked.
    taken: BTreeSet<HolderId>,
    /// The racks of these.
    racks: BTreeSet<Rack>,
    /// Workers that were asked and have not fetched the copy in time.
    failed: BTreeSet<HolderId>,
    /// The number of bits of the size.
    magnitude: u32,
}

/// A running task that leaves outputs.
#[derive(Clone, Debug)]
struct OutputRun {
    lock: MachinePortLock,
    job: JobName,
    /// `None`: its worker has reported no healthy disk yet. The allocator ends a reservation at a worker that is lost.
    reservation: Option<ReservationId>,
    /// Whether the worker has stored its outputs.
    has_left_outputs: bool,
}

/// The mark of a worker that had no space for the inputs or outputs of a run of a job.
#[derive(Clone, Copy, Debug)]
struct FullMark {
    until: Time,
    /// The fewest usable bytes that the worker has reported since, but for its first reports. The mark ends once these are more by an eighth,
    /// and by the outputs of a run.
    usable: u64,
    /// The reports that may still count what the run has left behind, which its worker deletes. The most usable bytes of them are the first
    /// value of `usable`.
    unsettled: u8,
}

/// The slots, and the workers that were asked for copies.
///
/// Invariants: `asked` has the pairs of `copies` whose time is not over, and some whose time is over. `space` never has more than a worker
/// has. It may have less until the worker's next report. `runs_at` has the runs of `runs`. `marks_in_order` has the marks of `full`, and some that
/// have ended.
#[derive(Clone, Debug)]
pub(crate) struct ArtifactSlots {
    allocator: Allocator,
    numbers: BTreeMap<MachinePortLock, HolderId>,
    workers: BTreeMap<HolderId, SlotWorker>,
    next_number: u32,
    /// Workers that get no slots by order, or because they drain.
    excluded: BTreeSet<MachinePortLock>,
    copies: BTreeMap<ArtifactId, Vec<AskedWorker>>,
    /// The copies that each worker was asked for, with their bytes.
    asked: BTreeMap<HolderId, BTreeMap<ArtifactId, u64>>,
    /// The workers that may be asked for copies now.
    space: CopySpace,
    /// The artifact after which the next report begins.
    after: Option<ArtifactId>,
    /// The time of the last removal of old requests.
    cleaned: Time,
    /// The reservations of programs. Some may have ended.
    reserved: BTreeMap<ReservationId, Option<Arc<str>>>,
    are_requested: bool,
    /// The running tasks that leave outputs.
    runs: BTreeMap<InvocationId, OutputRun>,
    runs_at: BTreeMap<MachinePortLock, BTreeSet<InvocationId>>,
    /// The reservations of runs that have ended, until some more reports of their worker.
    unreported: BTreeMap<MachinePortLock, Vec<(ReservationId, u8)>>,
    /// The average of the bytes that the last runs of each job have left.
    sizes: BTreeMap<JobName, u64>,
    /// The marks of each worker that lately had no space for the outputs of some jobs.
    full: BTreeMap<HolderId, BTreeMap<JobName, FullMark>>,
    marks_in_order: BTreeSet<(Time, HolderId, JobName)>,
    /// The jobs whose marks have changed since the last call of [`ArtifactSlots::take_changed_marks`].
    changed_marks: BTreeSet<JobName>,
    /// The usable bytes of the disk with the most, reserved or not, of each worker that may get artifacts and has some.
    usable: BTreeMap<HolderId, u64>,
    /// The workers whose space may have changed since the last call of [`ArtifactSlots::take_changed`].
    changed: BTreeSet<MachinePortLock>,
}

/// Why an artifact that lacks a copy lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyProspect {
    /// These workers were asked for a copy.
    Asked(Vec<MachinePortLock>),
    /// A worker will be asked soon.
    Soon,
    /// No other worker that may get artifacts has space on a healthy disk.
    NoSpace,
    /// No other worker may get artifacts.
    NoWorker,
}

/// A request for places of artifacts that a program writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsRequest {
    /// 1 to [`SlotsRequest::MOST_ARTIFACTS`].
    pub artifacts: u32,
    pub replicas: Replication,
    /// Workers that the program does not want. Unknown ones do not matter.
    pub except: BTreeSet<Shard>,
    /// `None`: no limit.
    pub most_workers: Option<usize>,
}

impl SlotsRequest {
    /// The most artifacts of one request. It takes some milliseconds, in which heartbeats wait.
    pub const MOST_ARTIFACTS: u32 = 10_000;
}

/// The places that a program has reserved.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservedSlots {
    pub scheduler: SchedulerId,
    pub reservation: u64,
    /// The time after which the reservation ends by itself.
    pub reserved_for: Duration,
    /// Bytes that are reserved for each copy.
    pub bytes_each: u64,
    /// The workers with slots, and then the spare ones.
    pub workers: Vec<WorkerWithSlots>,
    /// One for each artifact, with that of its second copy.
    pub slots: Vec<(SlotPlace, Option<SlotPlace>)>,
}

/// A worker, and its disks that have slots.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerWithSlots {
    pub shard: Shard,
    pub place: ArtifactHolder,
    pub disks: Vec<DiskGeneration>,
}

/// The place of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlace {
    /// Position in [`ReservedSlots::workers`].
    pub worker: usize,
    /// Position in [`WorkerWithSlots::disks`].
    pub disk: usize,
}

/// The place of a copy: a worker, and a disk among those that the worker reports.
pub(crate) type ReservedPlace = (MachinePortLock, DiskId);

/// The places that a program has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReservedPlaces {
    pub reservation: u64,
    pub bytes_each: u64,
    /// One for each artifact, with that of its second copy.
    pub places: Vec<(ReservedPlace, Option<ReservedPlace>)>,
    /// Other workers, for the replacement of those that fail.
    pub spares: Vec<MachinePortLock>,
}

/// The reason why no place is reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSlots {
    #[error(
        "the request names {artifacts} artifacts; it may name 1 to {}",
        SlotsRequest::MOST_ARTIFACTS
    )]
    Artifacts { artifacts: i64 },
    #[error(
        "{0} reservations are open, as many as the scheduler keeps: release some, or ask again when some have ended by themselves"
    )]
    TooMany(usize),
    #[error(
        "no worker has reported a store of artifacts yet. Workers report one when a job of the config leaves outputs, or when a \
         program has asked for slots: ask again in half a minute"
    )]
    NoReport,
    #[error("{offer}{}", because(.others))]
    NoOffer {
        offer: NoOffer,
        /// Why other workers get none, a sentence each.
        others: Vec<String>,
    },
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

fn because(others: &[String]) -> String {
    match others.is_empty() {
        true => String::new(),
        false => format!(". {}", others.join("; ")),
    }
}

impl ArtifactSlots {
    pub(crate) fn new(now: Time, strategy: SlotStrategy) -> Self {
        let settings = AllocatorSettings {
            slots: SlotSettings {
                strategy,
                ..SlotSettings::default()
            },
            ..AllocatorSettings::default()
        };
        ArtifactSlots {
            allocator: Allocator::new(settings, now),
            numbers: BTreeMap::new(),
            workers: BTreeMap::new(),
            next_number: 0,
            excluded: BTreeSet::new(),
            copies: BTreeMap::new(),
            asked: BTreeMap::new(),
            space: CopySpace::default(),
            after: None,
            cleaned: now,
            reserved: BTreeMap::new(),
            are_requested: false,
            runs: BTreeMap::new(),
            runs_at: BTreeMap::new(),
            unreported: BTreeMap::new(),
            sizes: BTreeMap::new(),
            full: BTreeMap::new(),
            marks_in_order: BTreeSet::new(),
            changed_marks: BTreeSet::new(),
            usable: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Returns whether a program has asked for slots.
    pub(crate) fn are_requested(&self) -> bool {
        self.are_requested
    }

    /// Accepts the disks of a worker. If none is healthy, others are asked for the copies that the worker was asked for.
    pub(crate) fn report(&mut self, now: Time, lock: &MachinePortLock, report: &ArtifactsReport) {
        self.allocator.advance(now);
        let holder = self.number(lock);
        self.accept_disks(holder, lock, report);
        self.changed.insert(lock.clone());
        if !self.allocator.workers().is_eligible(holder) {
            self.withdraw(holder);
        }
        self.end_reported(lock);
        for run in self.runs_at.get(lock).cloned().unwrap_or_default() {
            self.reserve_on_disk(now, run);
        }
        self.note_space(holder);
        self.note_usable(now, holder);
        for (_, mark) in self.full.get_mut(&holder).into_iter().flatten() {
            mark.unsettled = mark.unsettled.saturating_sub(1);
        }
    }

    /// Notes the space of the disks of a worker, after it may have changed.
    fn note_usable(&mut self, now: Time, holder: HolderId) {
        let most = self.usable_at(holder);
        let marks = self.full.get(&holder).into_iter().flatten();
        // Small changes are usual.
        let has_more = |(job, mark): &(&JobName, &FullMark)| {
            let more = self.size_of_outputs(job).max(mark.usable / 8);
            mark.unsettled == 0 && most >= mark.usable.saturating_add(more)
        };
        let ended: Vec<JobName> = marks.filter(has_more).map(|(job, _)| job.clone()).collect();
        for job in ended {
            self.end_mark(holder, &job);
        }
        for (_, mark) in self.full.get_mut(&holder).into_iter().flatten() {
            mark.usable = match mark.unsettled {
                0 => mark.usable.min(most),
                _ => mark.usable.max(most),
            };
        }
        let before = self.usable.remove(&holder).unwrap_or(0);
        let usable = match self.allocator.workers().is_eligible(holder) {
            true => most,
            false => 0,
        };
        if usable > 0 {
            self.usable.insert(holder, usable);
        }
        let marked = self.full.values().flat_map(BTreeMap::keys);
        let fits_no_more =
            |job: &&JobName| (usable + 1..=before).contains(&self.size_of_outputs(job));
        let marked: BTreeSet<JobName> = marked.filter(fits_no_more).cloned().collect();
        for job in marked {
            self.shorten_marks_of_all(now, &job);
        }
    }

    /// Lets the marks of a job end within [`ALL_FULL_FOR`] if each worker with usable space for a run has one.
    fn shorten_marks_of_all(&mut self, now: Time, job: &JobName) {
        let is_marked =
            |holder: &HolderId| self.full.get(holder).is_some_and(|of| of.contains_key(job));
        let size = self.size_of_outputs(job);
        let mut with_space = self.usable.iter().filter(|(_, usable)| size <= **usable);
        if !with_space.all(|(holder, _)| is_marked(holder)) {
            return;
        }
        let until = now + ALL_FULL_FOR;
        for (holder, of) in &mut self.full {
            if let Some(mark) = of.get_mut(job).filter(|mark| until < mark.until) {
                mark.until = until;
                self.marks_in_order.insert((until, *holder, job.clone()));
            }
        }
    }

    /// Ends the mark of a worker for a job, if it has one.
    fn end_mark(&mut self, holder: HolderId, job: &JobName) {
        let Some(marks) = self.full.get_mut(&holder) else {
            return;
        };
        if marks.remove(job).is_some() {
            self.changed_marks.insert(job.clone());
        }
        if marks.is_empty() {
            self.full.remove(&holder);
        }
    }

    /// Returns the usable bytes of the healthy disk of a worker with the most, reserved or not.
    fn usable_at(&self, holder: HolderId) -> u64 {
        let disks = self.allocator.workers().disks(holder);
        let healthy = disks.filter(|disk| disk.is_healthy());
        healthy.map(|disk| disk.usable.0).max().unwrap_or(0)
    }

    /// Notes the space of a worker for copies, after it may have changed. A worker that was asked for many copies has none.
    fn note_space(&mut self, holder: HolderId) {
        let is_busy = self
            .asked
            .get(&holder)
            .is_some_and(|asked| asked.len() >= MOST_REQUESTED);
        match self.workers.get(&holder).filter(|_| !is_busy) {
            Some(worker) => {
                let space = self.allocator.largest_space(holder);
                self.space.set(holder, &worker.rack, space);
            }
            None => self.space.remove(holder),
        }
    }

    fn accept_disks(&mut self, holder: HolderId, lock: &MachinePortLock, report: &ArtifactsReport) {
        let disks = report.disks.iter().map(worker_disk);
        let content = WorkerReport {
            disks: disks.collect(),
            workload: WorkloadLevel::Normal,
            // Workers that drain are excluded.
            state: DrainState::Normal,
            notice: None,
        };
        let known = self.workers.get(&holder);
        let rack = Rack::new(report.rack.as_deref().unwrap_or_default());
        let is_known =
            known.is_some_and(|known| known.instance == report.worker && known.rack == rack);
        if is_known {
            let allocator = &mut self.allocator;
            let event = allocator.heartbeat(holder, content, NO_SLOT_IS_REPORTED);
            debug_assert_eq!(
                event,
                Ok(None),
                "it is registered, and no event was requested"
            );
            return;
        }
        let registration = WorkerRegistration {
            rack: rack.clone(),
            report: content,
        };
        self.allocator.register(holder, registration);
        self.forget_reservations(lock);
        let worker = SlotWorker {
            lock: lock.clone(),
            shard: report.shard.clone(),
            instance: report.worker,
            rack,
        };
        self.workers.insert(holder, worker);
        if self.excluded.contains(lock) {
            self.allocator.exclude(holder);
        }
    }

    /// Returns the worker's number, also of one that has not reported.
    fn number(&mut self, lock: &MachinePortLock) -> HolderId {
        if let Some(&number) = self.numbers.get(lock) {
            return number;
        }
        let number = HolderId(self.next_number);
        self.next_number = self.next_number.wrapping_add(1);
        self.numbers.insert(lock.clone(), number);
        number
    }

    /// Forgets a lost worker. Others are asked for the copies that it was asked for.
    pub(crate) fn lose(&mut self, now: Time, lock: &MachinePortLock) {
        self.excluded.remove(lock);
        let Some(holder) = self.numbers.remove(lock) else {
            return;
        };
        self.withdraw(holder);
        self.allocator.readmit(holder);
        self.allocator.lose(holder, now);
        self.workers.remove(&holder);
        self.unreported.remove(lock);
        for job in self.full.remove(&holder).unwrap_or_default().into_keys() {
            self.changed_marks.insert(job);
        }
        self.note_space(holder);
        self.note_usable(now, holder);
        self.changed.insert(lock.clone());
    }

    /// Notes that the allocator has ended the reservations of a worker, which has registered anew.
    fn forget_reservations(&mut self, lock: &MachinePortLock) {
        self.unreported.remove(lock);
        for id in self.runs_at.get(lock).into_iter().flatten() {
            if let Some(run) = self.runs.get_mut(id) {
                run.reservation = None;
            }
        }
    }

    /// Reserves space for the outputs of a run of the job: now, or as soon as its worker reports a healthy disk.
    pub(crate) fn reserve_for_run(
        &mut self,
        now: Time,
        (lock, run): (&MachinePortLock, InvocationId),
        job: &JobName,
    ) {
        let of = OutputRun {
            lock: lock.clone(),
            job: job.clone(),
            reservation: None,
            has_left_outputs: false,
        };
        self.runs.insert(run, of);
        self.runs_at.entry(lock.clone()).or_default().insert(run);
        self.reserve_on_disk(now, run);
    }

    /// Reserves space for a run without any, if its worker has reported a healthy disk.
    fn reserve_on_disk(&mut self, now: Time, id: InvocationId) {
        let run = self.runs.get(&id);
        let Some(run) = run.filter(|run| run.reservation.is_none()) else {
            return;
        };
        let size = self.size_of_outputs(&run.job);
        let holder = self.numbers.get(&run.lock).copied();
        let holder = holder.filter(|holder| self.workers.contains_key(holder));
        let roomiest = holder.and_then(|holder| {
            let (_, disk) = self.allocator.roomiest_disk(holder)?;
            Some(DiskPlace { holder, disk })
        });
        let Some(place) = roomiest else {
            return;
        };
        let reservation = self.allocator.reserve(place, Bytes(size), now);
        if let Some(run) = self.runs.get_mut(&id) {
            run.reservation = Some(reservation);
        }
        self.note_space(place.holder);
    }

    /// Ends the reservation of a run, if it has one.
    pub(crate) fn end_run(&mut self, run: InvocationId) {
        let Some(of) = self.runs.remove(&run) else {
            return;
        };
        match of.reservation {
            Some(reservation) if of.has_left_outputs => {
                let unreported = self.unreported.entry(of.lock.clone()).or_default();
                unreported.push((reservation, REPORTS_WITH_OUTPUTS));
            }
            Some(reservation) => self.allocator.release(reservation),
            None => {}
        }
        if let Some(runs) = self.runs_at.get_mut(&of.lock) {
            runs.remove(&run);
            if runs.is_empty() {
                self.runs_at.remove(&of.lock);
            }
        }
    }

    /// Notes that a run that has not ended here yet has left outputs. Its reservation stays until the worker's reports count them.
    pub(crate) fn note_left_outputs(&mut self, run: InvocationId) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.has_left_outputs = true;
        }
    }

    /// Ends the reservations for outputs that a report of the worker now has.
    fn end_reported(&mut self, lock: &MachinePortLock) {
        let Some(mut unreported) = self.unreported.remove(lock) else {
            return;
        };
        unreported.retain_mut(|(reservation, reports)| {
            *reports -= 1;
            if *reports == 0 {
                self.allocator.release(*reservation);
            }
            *reports > 0
        });
        if !unreported.is_empty() {
            self.unreported.insert(lock.clone(), unreported);
        }
    }

    /// Counts the bytes of all outputs of an accepted completion.
    pub(crate) fn record_run(&mut self, job: &JobName, bytes: u64) {
        let bytes = bytes.clamp(FIRST_SIZE, LARGEST_SIZE);
        let average = |before: u64| before - before / 4 + bytes / 4;
        let known = self.sizes.get(job).copied();
        let size = known.map_or(bytes, average).max(FIRST_SIZE);
        self.sizes.insert(job.clone(), size);
    }

    /// Notes that the worker with this lock had no space for the inputs or outputs of a run. For [`FULL_FOR`] it gets no run of the job, or
    /// for [`ALL_FULL_FOR`] if all workers with usable space for a run have had none.
    pub(crate) fn record_no_space(&mut self, now: Time, lock: &MachinePortLock, job: &JobName) {
        let holder = self.numbers.get(lock).copied();
        let Some(holder) = holder.filter(|holder| self.workers.contains_key(holder)) else {
            return;
        };
        let mark = FullMark {
            until: now + FULL_FOR,
            usable: 0,
            unsettled: REPORTS_WITH_OUTPUTS,
        };
        let marks = self.full.entry(holder).or_default();
        marks.insert(job.clone(), mark);
        self.marks_in_order
            .insert((mark.until, holder, job.clone()));
        self.changed_marks.insert(job.clone());
        self.shorten_marks_of_all(now, job);
    }

    /// Notes that the worker with this lock had space for the outputs of a run.
    pub(crate) fn record_space(&mut self, lock: &MachinePortLock, job: &JobName) {
        if let Some(&holder) = self.numbers.get(lock) {
            self.end_mark(holder, job);
        }
    }

    /// Forgets the sizes of jobs that leave no outputs any more.
    pub(crate) fn keep_sizes(&mut self, jobs: &BTreeSet<JobName>) {
        self.sizes.retain(|job, _| jobs.contains(job));
    }

    /// Returns whether a run of the job has left outputs.
    pub(crate) fn knows_size_of(&self, job: &JobName) -> bool {
        self.sizes.contains_key(job)
    }

    /// Returns whether a run of any job has left outputs.
    pub(crate) fn know_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Notes that the space of a worker for outputs may have changed.
    pub(crate) fn note_changed(&mut self, lock: &MachinePortLock) {
        self.changed.insert(lock.clone());
    }

    /// Returns the bytes that a run of the job is expected to leave. Before the first completion, any space is enough.
    pub(crate) fn size_of_outputs(&self, job: &JobName) -> u64 {
        self.sizes.get(job).copied().unwrap_or(FIRST_SIZE)
    }

    /// Returns the workers that lately had no space for the outputs of the job.
    pub(crate) fn full_for(&self, job: &JobName) -> BTreeSet<Shard> {
        let marked = self.full.iter().filter(|(_, of)| of.contains_key(job));
        let workers = marked.filter_map(|(holder, _)| self.workers.get(holder));
        workers.map(|worker| worker.shard.clone()).collect()
    }

    /// Returns the jobs for which another set of workers lacks space than at the last call.
    pub(crate) fn take_changed_marks(&mut self, now: Time) -> BTreeSet<JobName> {
        while self.marks_in_order.first().is_some_and(|one| one.0 <= now)
            && let Some((_, holder, job)) = self.marks_in_order.pop_first()
        {
            let mark = self.full.get(&holder).and_then(|of| of.get(&job));
            if mark.is_some_and(|mark| mark.until <= now) {
                self.end_mark(holder, &job);
            }
        }
        std::mem::take(&mut self.changed_marks)
    }

    /// Returns the workers whose space for outputs may have changed, with the unreserved bytes of their healthy disk with the most; `None`
    /// for a worker that has not reported.
    pub(crate) fn take_changed(&mut self) -> Vec<(MachinePortLock, Option<u64>)> {
        for holder in self.allocator.take_changed() {
            self.note_space(holder);
            if let Some(worker) = self.workers.get(&holder) {
                self.changed.insert(worker.lock.clone());
            }
        }
        let changed = std::mem::take(&mut self.changed).into_iter();
        let with_space = |lock: MachinePortLock| {
            let holder = self.numbers.get(&lock);
            let holder = holder.filter(|holder| self.workers.contains_key(holder));
            let space = holder.map(|holder| {
                let roomiest = self.allocator.roomiest_disk(*holder);
                roomiest.map_or(0, |(space, _)| space.0)
            });
            (lock, space)
        };
        changed.map(with_space).collect()
    }

    /// Keeps a worker from getting slots, or ends that. Others are asked for the copies that it was asked for.
    pub(crate) fn set_excluded(&mut self, now: Time, lock: &MachinePortLock, is_excluded: bool) {
        if self.excluded.contains(lock) == is_excluded {
            return;
        }
        match is_excluded {
            true => self.excluded.insert(lock.clone()),
            false => self.excluded.remove(lock),
        };
        let Some(&holder) = self.numbers.get(lock) else {
            return;
        };
        match is_excluded {
            true => {
                self.withdraw(holder);
                self.allocator.exclude(holder);
            }
            false => self.allocator.readmit(holder),
        }
        self.note_space(holder);
        self.note_usable(now, holder);
    }

    /// Counts the size of an output of an accepted completion.
    pub(crate) fn record_output(&mut self, bytes: u64) {
        self.allocator.record_output(Bytes(bytes));
    }

    /// Ends all requests to a worker.
    fn withdraw(&mut self, holder: HolderId) {
        for id in self.asked.remove(&holder).unwrap_or_default().into_keys() {
            self.forget(holder, id);
        }
    }

    /// Ends the request for one copy, and forgets it.
    fn forget(&mut self, holder: HolderId, id: ArtifactId) {
        let Some(workers) = self.copies.get_mut(&id) else {
            return;
        };
        for worker in workers.extract_if(.., |worker| worker.holder == holder) {
            self.allocator.release(worker.reservation);
        }
        if workers.is_empty() {
            self.copies.remove(&id);
        }
    }

    /// Chooses workers for missing copies. An artifact for which no worker has space costs no more than a comparison.
    pub(crate) fn choose_workers(&mut self, now: Time, registry: &Registry, rng: &mut Rng) {
        self.clean(now);
        let mut groups: BTreeMap<CopyGroup, Vec<MissingReplicas>> = BTreeMap::new();
        let mut considered = 0;
        let mut is_full = false;
        let largest = self.space.largest();
        for missing in registry.missing_replicas(self.after).take(MOST_CONSIDERED) {
            considered += 1;
            if Bytes(missing.size) <= largest
                && let Some(group) = self.group_of(now, registry, &missing)
            {
                if groups.len() == MOST_CHOICES && !groups.contains_key(&group) {
                    is_full = true;
                    break;
                }
                groups.entry(group).or_default().push(missing);
            }
            self.after = Some(missing.id);
        }
        if considered < MOST_CONSIDERED && !is_full {
            self.after = None;
        }
        for (group, missing) in groups {
            self.choose_for(now, group, missing, rng);
        }
    }

    /// Returns who may get a copy; `None` if enough workers are asked for one.
    fn group_of(
        &self,
        now: Time,
        registry: &Registry,
        missing: &MissingReplicas,
    ) -> Option<CopyGroup> {
        let asked = self.copies.get(&missing.id).map_or(&[][..], Vec::as_slice);
        let holders = registry.holders(missing.id);
        let holders = holders.filter_map(|holder| self.numbers.get(&holder.lock).copied());
        let mut taken: BTreeSet<HolderId> = holders.collect();
        let (waited, failed): (Vec<&AskedWorker>, Vec<_>) =
            asked.iter().partition(|worker| now < worker.until);
        let waited = waited.into_iter().map(|worker| worker.holder);
        let waited: BTreeSet<HolderId> = waited.filter(|one| !taken.contains(one)).collect();
        if waited.len() >= missing.replicas {
            return None;
        }
        taken.extend(waited);
        let racks = taken.iter().filter_map(|holder| self.workers.get(holder));
        let racks = racks.map(|worker| worker.rack.clone());
        // A worker whose rack is unknown may be in any of them.
        let racks = racks.chain([Rack::default()]).collect();
        Some(CopyGroup {
            taken,
            racks,
            failed: failed.into_iter().map(|worker| worker.holder).collect(),
            magnitude: u64::BITS - missing.size.leading_zeros(),
        })
    }

    /// Chooses a worker for one copy of each artifact of a group: in other racks, else in any, else one that has failed before.
    fn choose_for(
        &mut self,
        now: Time,
        group: CopyGroup,
        mut missing: Vec<MissingReplicas>,
        rng: &mut Rng,
    ) {
        let busy = self.asked.iter();
        let busy = busy.filter(|(_, asked)| asked.len() >= MOST_REQUESTED);
        let busy = busy.map(|(holder, _)| *holder);
        let taken: BTreeSet<HolderId> = group.taken.iter().copied().chain(busy).collect();
        let with_failed = &taken | &group.failed;
        let attempts = [
            (with_failed.clone(), group.racks),
            (with_failed, BTreeSet::new()),
            (taken, BTreeSet::new()),
        ];
        for (holders, racks) in attempts {
            let Some(size) = missing.iter().map(|missing| missing.size).max() else {
                return;
            };
            let request = CopyRequest {
                ids: (0..).take(missing.len()).map(SlotNumber).collect(),
                size: Bytes(size),
                except: ExceptWorkers { holders, racks },
            };
            // A request that finds no space scans all workers.
            if self.space.has(request.size, &request.except) {
                let chosen = self.request_copies(now, &request, &missing, rng);
                missing.retain(|missing| !chosen.contains(&missing.id));
            }
        }
    }

    /// Asks workers for copies. Returns the artifacts for which one was found.
    fn request_copies(
        &mut self,
        now: Time,
        request: &CopyRequest,
        missing: &[MissingReplicas],
        rng: &mut Rng,
    ) -> BTreeSet<ArtifactId> {
        let mut queued: BTreeMap<HolderId, u64> = BTreeMap::new();
        let asked = &self.asked;
        let until = |id: SlotNumber, holder| {
            // A worker fetches a copy after those that it was asked for before.
            let bytes = queued.entry(holder).or_insert_with(|| {
                let before = asked.get(&holder).into_iter().flat_map(BTreeMap::values);
                before.fold(0, |sum, size| sum.saturating_add(*size))
            });
            *bytes = bytes.saturating_add(missing[id.0 as usize].size);
            now + PATIENCE + Duration::from_secs(*bytes / SLOWEST_BYTES_A_SECOND)
        };
        let granted = self.allocator.request_copies(request, now, until, rng);
        let mut chosen = BTreeSet::new();
        for copy in granted.unwrap_or_default() {
            let MissingReplicas { id, size, .. } = missing[copy.id.0 as usize];
            let holder = copy.place.holder;
            let asked = AskedWorker {
                holder,
                reservation: copy.reservation,
                until: copy.until,
            };
            self.forget(holder, id);
            self.copies.entry(id).or_default().push(asked);
            self.asked.entry(holder).or_default().insert(id, size);
            self.note_space(holder);
            chosen.insert(id);
        }
        chosen
    }

    /// Returns the artifacts of which the worker should fetch a copy, at most [`MOST_REQUESTED`], those with the least time first. Ends the
    /// requests that are no longer wanted.
    pub(crate) fn asked_of(
        &mut self,
        now: Time,
        registry: &Registry,
        lock: &MachinePortLock,
    ) -> Vec<ArtifactId> {
        let holder = self.numbers.get(lock).copied();
        let Some((holder, asked)) = holder.and_then(|holder| self.asked.remove_entry(&holder))
        else {
            return Vec::new();
        };
        let (mut remaining, mut wanted) = (BTreeMap::new(), Vec::new());
        for (id, size) in asked {
            let is_here = registry.holders(id).any(|holder| holder.lock == *lock);
            if is_here || registry.count_missing(id) == Some(0) {
                self.forget(holder, id);
            } else if let Some(until) = waited_until(&self.copies, now, (holder, id)) {
                remaining.insert(id, size);
                wanted.push((until, id));
            }
        }
        if !remaining.is_empty() {
            self.asked.insert(holder, remaining);
        }
        self.note_space(holder);
        wanted.sort_unstable();
        let wanted = wanted.into_iter().map(|(_, id)| id);
        wanted.take(MOST_REQUESTED).collect()
    }

    /// Forgets the workers that have failed long ago. Until then, others are asked first.
    fn clean(&mut self, now: Time) {
        if now < self.cleaned + PATIENCE / 4 {
            return;
        }
        self.cleaned = now;
        self.copies.retain(|_, workers| {
            workers.retain(|worker| now < worker.until + PATIENCE);
            !workers.is_empty()
        });
        self.asked.retain(|holder, asked| {
            asked.retain(|id, _| waited_until(&self.copies, now, (*holder, *id)).is_some());
            !asked.is_empty()
        });
    }

    /// Reserves places of artifacts that a program writes, for [`RESERVED_FOR`].
    pub(crate) fn reserve(
        &mut self,
        now: Time,
        (wanted, owner): (&SlotsRequest, Option<&Arc<str>>),
        except: &BTreeSet<MachinePortLock>,
        rng: &mut Rng,
    ) -> Result<ReservedPlaces, NoSlots> {
        self.are_requested = true;
        self.allocator.advance(now);
        let reservations = self.allocator.reservations();
        self.reserved.retain(|id, _| reservations.is_open(*id));
        if self.reserved.len() >= MOST_RESERVATIONS {
            return Err(NoSlots::TooMany(self.reserved.len()));
        }
        if self.workers.is_empty() {
            return Err(NoSlots::NoReport);
        }
        let holders = except.iter().filter_map(|lock| self.numbers.get(lock));
        let request = GrantRequest {
            ids: (0..wanted.artifacts).map(SlotNumber).collect(),
            replication: wanted.replicas,
            except: ExceptWorkers {
                holders: holders.copied().collect(),
                ..ExceptWorkers::default()
            },
            most_workers: wanted.most_workers,
            until: now + RESERVED_FOR,
        };
        let bytes_each = self.allocator.estimated_size().0;
        let grant = self.allocator.request_slots(&request, now, rng);
        let grant = grant.map_err(|offer| NoSlots::NoOffer {
            offer,
            others: self.why_not_eligible(),
        })?;
        self.reserved.insert(grant.reservation, owner.cloned());
        for holder in grant.offer.workers.keys() {
            self.note_space(*holder);
        }
        let place = |place: DiskPlace| (self.lock(place.holder), place.disk);
        let locations = grant.offer.locations.into_iter();
        Ok(ReservedPlaces {
            reservation: grant.reservation.0,
            bytes_each,
            places: locations
                .map(|one| (place(one.primary), one.replica.map(place)))
                .collect(),
            spares: grant.spares.into_iter().map(|one| self.lock(one)).collect(),
        })
    }

    /// Returns who owns a reservation of a program.
    pub(crate) fn owner(&self, reservation: u64) -> Owner {
        match self.reserved.get(&ReservationId(reservation)) {
            Some(owner) => Owner::of(owner.as_ref()),
            // It has ended, and its release changes nothing.
            None => Owner::Caller,
        }
    }

    /// Ends a reservation of a program. Returns false if it has ended before.
    pub(crate) fn release(&mut self, now: Time, reservation: u64) -> bool {
        self.allocator.advance(now);
        let id = ReservationId(reservation);
        let was_open =
            self.reserved.remove(&id).is_some() && self.allocator.reservations().is_open(id);
        if was_open {
            self.allocator.release(id);
        }
        was_open
    }

    fn lock(&self, holder: HolderId) -> MachinePortLock {
        let worker = self.workers.get(&holder);
        let worker = worker.expect("Invariant: a worker with slots has registered");
        worker.lock.clone()
    }

    /// Returns why workers get no slots, for some of those that get none.
    fn why_not_eligible(&self) -> Vec<String> {
        let workers = self.allocator.workers();
        let why = |(holder, worker): (&HolderId, &SlotWorker)| {
            let why = match workers.reasons(*holder).next()? {
                IneligibleReason::ExcludedDisks => "none of its disks is healthy",
                IneligibleReason::ManuallyExcluded => "it drains or is excluded",
                // The scheduler passes neither workloads nor states of a drain on.
                _ => "it may get no artifacts",
            };
            Some(format!("worker `{}`: {why}", worker.shard))
        };
        let all = self.workers.iter().filter_map(why);
        all.take(MOST_NAMED).collect()
    }

    /// Returns why an artifact lacks copies.
    pub(crate) fn prospect(
        &self,
        now: Time,
        registry: &Registry,
        missing: &MissingReplicas,
    ) -> CopyProspect {
        let asked = self.copies.get(&missing.id).into_iter().flatten();
        let asked = asked.filter(|worker| now < worker.until);
        let asked = asked.filter_map(|asked| self.workers.get(&asked.holder));
        let asked: Vec<MachinePortLock> = asked.map(|worker| worker.lock.clone()).collect();
        if !asked.is_empty() {
            return CopyProspect::Asked(asked);
        }
        let holders = registry.holders(missing.id);
        let holders = holders.filter_map(|holder| self.numbers.get(&holder.lock).copied());
        let except = ExceptWorkers {
            holders: holders.collect(),
            ..ExceptWorkers::default()
        };
        let workers = self.allocator.workers();
        let size = Bytes(missing.size);
        let mut others = self.workers.keys();
        let mut others_asked = self.asked.keys();
        let is_other = |one: &&HolderId| !except.holders.contains(one);
        // A worker that was asked for many copies has space for more of them later.
        let has_space =
            |one: &HolderId| is_other(&one) && size <= self.allocator.largest_space(*one);
        if self.space.has(size, &except) || others_asked.any(has_space) {
            CopyProspect::Soon
        } else if others.any(|one| is_other(&one) && workers.is_eligible(*one)) {
            CopyProspect::NoSpace
        } else {
            CopyProspect::NoWorker
        }
    }
}

/// Returns the time until which a worker is waited for that was asked for a copy; `None` if it is over.
fn waited_until(
    copies: &BTreeMap<ArtifactId, Vec<AskedWorker>>,
    now: Time,
    (holder, id): (HolderId, ArtifactId),
) -> Option<Time> {
    let asked = copies.get(&id)?.iter();
    let mut untils = asked.filter(|worker| worker.holder == holder);
    untils.find_map(|worker| (now < worker.until).then_some(worker.until))
}

/// Returns the number of a disk among those of its worker: the lower half of the random number of its data.
pub(crate) fn disk_id(generation: DiskGeneration) -> DiskId {
    DiskId((generation.0 & u128::from(u64::MAX)) as u64)
}

fn worker_disk(disk: &DiskReport) -> WorkerDisk {
    WorkerDisk {
        id: disk_id(disk.generation),
        class: match disk.medium {
            DiskMedium::Ssd => DiskClass::Ssd,
            DiskMedium::Hdd => DiskClass::Hdd,
        },
        total: Bytes(disk.total),
        usable: Bytes(disk.usable),
        flush_time: disk.flush_time,
        fetch_time: disk.fetch_time,
        active_slots: disk.artifacts,
        state: match disk.condition {
            DiskCondition::Healthy => DiskState::Healthy,
            DiskCondition::ReadError => DiskState::ReadError,
            DiskCondition::IoHang => DiskState::IoHang,
            DiskCondition::HighUsage => DiskState::HighUsage,
        },
    }
}

#[cfg(test)]
mod tests;
