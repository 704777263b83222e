//! A plain model of the registry. It keeps facts only, and derives each answer from all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::listing::{ListingNumber, ListingPage, PageAnswer, PageEnd};
use super::super::super::types::{ArtifactAmount, SetTotals};
use super::*;

/// A worker and one of its disks.
pub type Place = (u8, u8);
/// A job and a node.
pub type Task = (u8, u8);

pub const JOBS: [&str; 2] = ["a", "b"];
pub const NODES: [&str; 2] = ["1", "2"];
pub const WORKERS: u8 = 3;
pub const DISKS: u8 = 2;
pub const IDS: u8 = 8;
/// One of the limits that the model repeats from the rules.
const MOST_FAILURES: u32 = 5;
const MOST_RERUNS: u32 = 3;

pub fn task_key((job, node): Task) -> TaskKey {
    key(JOBS[usize::from(job)], NODES[usize::from(node)])
}

#[derive(Clone, Debug)]
pub struct ModelTask {
    pub invocation: InvocationId,
    /// The paths with the numbers of their artifacts.
    pub outputs: BTreeMap<&'static str, u8>,
    pub replicas: u8,
    pub is_live: bool,
}

#[derive(Clone, Debug, Default)]
pub struct ModelDisk {
    pub ids: BTreeSet<u8>,
    wants_listing: bool,
    pub open: Option<ModelListing>,
    failures: u32,
    was_known: bool,
}

#[derive(Clone, Debug)]
pub struct ModelListing {
    pub number: ListingNumber,
    pub after: Option<u8>,
    facts: BTreeSet<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ModelReruns {
    granted: u32,
    is_running: bool,
    is_given_up: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub tasks: BTreeMap<Task, ModelTask>,
    pins: BTreeMap<u8, BTreeSet<u8>>,
    pub workers: BTreeSet<u8>,
    leaving: BTreeSet<u8>,
    doubtful: BTreeSet<u8>,
    pub disks: BTreeMap<Place, ModelDisk>,
    /// All copies in the order in which they became known.
    arrivals: Vec<(Place, u8)>,
    /// The time since which a copy is unwanted.
    unwanted_since: BTreeMap<(Place, u8), Time>,
    /// The artifacts that have had a name since they became known.
    sized: BTreeSet<u8>,
    settled: Option<Time>,
    reruns: BTreeMap<Task, ModelReruns>,
}

/// The changes.
impl Model {
    pub fn record(&mut self, task: Task, new: ModelTask) {
        let known = self.tasks.insert(task, new.clone());
        if known.is_some_and(|known| known.invocation == new.invocation) {
            return;
        }
        match self.reruns.get_mut(&task) {
            Some(reruns) if reruns.is_running => reruns.is_running = false,
            Some(_) | None => self.reset_reruns(task),
        }
    }

    pub fn forget(&mut self, task: Task) {
        self.tasks.remove(&task);
        self.reset_reruns(task);
    }

    pub fn expire_job(&mut self, job: u8) {
        let tasks = self.tasks.iter_mut();
        for (_, task) in tasks.filter(|(task, _)| task.0 == job) {
            task.is_live = false;
        }
    }

    pub fn pin(&mut self, run: u8, ids: &[u8]) {
        self.pins.entry(run).or_default().extend(ids);
    }

    pub fn unpin(&mut self, run: u8) {
        self.pins.remove(&run);
    }

    /// Accepts the disks of a worker, each with whether its digest is that of the believed artifacts.
    pub fn announce(&mut self, worker: u8, announced: &BTreeMap<u8, bool>) {
        self.workers.insert(worker);
        self.disks
            .retain(|place, _| place.0 != worker || announced.contains_key(&place.1));
        for (disk, agrees) in announced {
            let disk = self.disks.entry((worker, *disk)).or_default();
            if disk.open.is_some() {
                continue;
            }
            disk.wants_listing = !agrees;
            if *agrees {
                (disk.was_known, disk.failures) = (true, 0);
            }
        }
    }

    pub fn lose(&mut self, worker: u8) {
        self.workers.remove(&worker);
        self.leaving.remove(&worker);
        self.doubtful.remove(&worker);
        self.disks.retain(|place, _| place.0 != worker);
    }

    pub fn store(&mut self, place: Place, number: u8) {
        if self.workers.contains(&place.0) {
            let disk = self.disks.entry(place).or_default();
            disk.ids.insert(number);
            // A copy that comes again counts as new.
            self.unwanted_since.remove(&(place, number));
            if let Some(open) = &mut disk.open {
                open.facts.insert(number);
            }
        }
    }

    pub fn discard(&mut self, place: Place, number: u8) {
        if let Some(disk) = self.disks.get_mut(&place) {
            disk.ids.remove(&number);
            if let Some(open) = &mut disk.open {
                open.facts.insert(number);
            }
        }
    }

    pub fn set_doubtful(&mut self, worker: u8, is_doubtful: bool) {
        match is_doubtful {
            true => self.workers.insert(worker) | self.doubtful.insert(worker),
            false => self.doubtful.remove(&worker),
        };
    }

    pub fn set_leaving(&mut self, worker: u8, is_leaving: bool) {
        self.workers.insert(worker);
        match is_leaving {
            true => self.leaving.insert(worker),
            false => self.leaving.remove(&worker),
        };
    }

    pub fn settle(&mut self, is_settled: bool, now: Time) {
        self.settled = is_settled.then(|| self.settled.unwrap_or(now));
    }

    pub fn wants_listing(&self, place: Place) -> bool {
        let disk = self.disks.get(&place);
        disk.is_some_and(|disk| disk.wants_listing && disk.open.is_none())
    }

    pub fn begin_listing(&mut self, place: Place, number: ListingNumber) {
        let disk = self.disks.get_mut(&place).expect("a disk that wants one");
        disk.open = Some(ModelListing {
            number,
            after: None,
            facts: BTreeSet::new(),
        });
    }

    pub fn fail_listing(&mut self, number: ListingNumber) {
        if let Some(disk) = self.listed_disk(number) {
            disk.open = None;
            disk.failures += 1;
        }
    }

    /// Applies a page, and returns the answer that it should get.
    pub fn page(&mut self, page: &ListingPage) -> PageAnswer {
        let ids: Vec<u8> = page.ids.iter().map(|id| id.0[0]).collect();
        let after = page.after.map(|id| id.0[0]);
        let Some(disk) = self.listed_disk(page.listing) else {
            return PageAnswer::Ignored;
        };
        let open = disk.open.clone().expect("the listing is open");
        if open.after != after {
            return PageAnswer::Ignored;
        }
        let is_in_order = ids.is_sorted_by(|one, next| one < next);
        let is_endless = page.end == PageEnd::More && ids.is_empty();
        if !is_in_order || ids.first().is_some_and(|id| Some(*id) <= after) || is_endless {
            self.fail_listing(page.listing);
            return PageAnswer::Malformed;
        }
        let last = match page.end {
            PageEnd::Last => u8::MAX,
            PageEnd::More => *ids.last().expect("not empty"),
        };
        for number in (0..=last).filter(|id| Some(*id) > after && !open.facts.contains(id)) {
            match ids.contains(&number) {
                true => disk.ids.insert(number),
                false => disk.ids.remove(&number),
            };
        }
        match page.end {
            PageEnd::More => {
                disk.open.as_mut().expect("the listing is open").after = Some(last);
                PageAnswer::Next(id(last))
            }
            PageEnd::Last => {
                (disk.open, disk.wants_listing) = (None, false);
                (disk.was_known, disk.failures) = (true, 0);
                PageAnswer::Complete
            }
        }
    }

    /// Counts another run. Returns whether it is granted, and the number of runs so far.
    pub fn rerun(&mut self, task: Task) -> (bool, u32) {
        let reruns = self.reruns.entry(task).or_default();
        let is_granted = reruns.granted < MOST_RERUNS;
        reruns.granted += u32::from(is_granted);
        (reruns.is_running, reruns.is_given_up) = (is_granted, !is_granted);
        (is_granted, reruns.granted)
    }

    pub fn rerun_failed(&mut self, task: Task) {
        if let Some(reruns) = self.reruns.get_mut(&task) {
            reruns.is_running = false;
        }
    }

    pub fn reset_reruns(&mut self, task: Task) {
        self.reruns.remove(&task);
    }

    /// Derives the order of copies, the known sizes, and the times since which copies are unwanted, after each step.
    pub fn advance(&mut self, now: Time) {
        let believed: BTreeSet<(Place, u8)> = self.copies().collect();
        for number in 0..IDS {
            let has_copy = believed.iter().any(|(_, copy)| *copy == number);
            if self.names(number).next().is_some() {
                self.sized.insert(number);
            } else if !has_copy && !self.is_wanted(number) {
                self.sized.remove(&number);
            }
        }
        self.arrivals.retain(|copy| believed.contains(copy));
        for copy in &believed {
            if !self.arrivals.contains(copy) {
                self.arrivals.push(*copy);
            }
        }
        let unwanted: BTreeSet<(Place, u8)> = believed
            .into_iter()
            .filter(|(_, number)| !self.is_wanted(*number))
            .collect();
        self.unwanted_since
            .retain(|copy, _| unwanted.contains(copy));
        for copy in unwanted {
            self.unwanted_since.entry(copy).or_insert(now);
        }
    }

    fn listed_disk(&mut self, number: ListingNumber) -> Option<&mut ModelDisk> {
        let mut disks = self.disks.values_mut();
        disks.find(|disk| disk.open.as_ref().is_some_and(|open| open.number == number))
    }
}

/// The answers.
impl Model {
    pub fn is_complete(&self) -> bool {
        let hinders = |disk: &ModelDisk| {
            let is_listing = disk.wants_listing || disk.open.is_some();
            is_listing && !disk.was_known && disk.failures < MOST_FAILURES
        };
        self.settled.is_some() && !self.disks.values().any(hinders)
    }

    /// Returns the tasks whose live outputs refer to an artifact.
    fn names(&self, number: u8) -> impl Iterator<Item = (Task, &ModelTask)> {
        let tasks = self.tasks.iter().map(|(key, task)| (*key, task));
        tasks.filter(move |(_, task)| {
            task.is_live && task.outputs.values().any(|output| *output == number)
        })
    }

    pub fn is_wanted(&self, number: u8) -> bool {
        let is_pinned = self.pins.values().any(|ids| ids.contains(&number));
        is_pinned || self.names(number).next().is_some()
    }

    fn copies(&self) -> impl Iterator<Item = (Place, u8)> {
        let disks = self.disks.iter();
        disks.flat_map(|(place, disk)| disk.ids.iter().map(|number| (*place, *number)))
    }

    /// Returns the places of an artifact, the newest first.
    pub fn holders(&self, number: u8) -> Vec<Place> {
        let copies = self.arrivals.iter().rev();
        let copies = copies.filter(|(_, copy)| *copy == number);
        copies.map(|(place, _)| *place).collect()
    }

    /// Returns whether a leaving worker has the artifact, and no other worker than leaving and doubtful ones.
    fn is_left_to_doubtful(&self, number: u8) -> bool {
        let holders = self.holders(number).into_iter().map(|place| place.0);
        let holders: BTreeSet<u8> = holders.collect();
        let mut safe = &(&holders - &self.leaving) - &self.doubtful;
        holders.iter().any(|worker| self.leaving.contains(worker)) && safe.pop_first().is_none()
    }

    fn staying(&self, number: u8) -> BTreeSet<u8> {
        let workers = self.holders(number).into_iter().map(|place| place.0);
        workers
            .filter(|worker| !self.leaving.contains(worker))
            .collect()
    }

    pub fn is_lost(&self, number: u8) -> bool {
        self.names(number).next().is_some() && self.holders(number).is_empty()
    }

    pub fn lost(&self) -> Vec<u8> {
        let is_lost = |number: &u8| self.is_complete() && self.is_lost(*number);
        (0..IDS).filter(is_lost).collect()
    }

    pub fn to_repeat(&self) -> BTreeSet<Task> {
        let tasks = self
            .lost()
            .into_iter()
            .flat_map(|number| self.names(number));
        let may_run = |task: &Task| {
            let reruns = self.reruns.get(task);
            reruns.is_none_or(|reruns| !reruns.is_running && !reruns.is_given_up)
        };
        tasks.map(|(task, _)| task).filter(may_run).collect()
    }

    /// Returns whether all producers of an artifact are given up, and there is one.
    pub fn is_given_up(&self, number: u8) -> bool {
        let is_given_up = |task| {
            self.reruns
                .get(&task)
                .is_some_and(|reruns| reruns.is_given_up)
        };
        let mut names = self.names(number).peekable();
        names.peek().is_some() && names.all(|(task, _)| is_given_up(task))
    }

    pub fn missing(&self) -> Vec<(u8, usize)> {
        let missing = |number: u8| {
            let wanted = self
                .names(number)
                .map(|(_, task)| usize::from(task.replicas));
            let missing = wanted.max()?.saturating_sub(self.staying(number).len());
            let missing = missing.max(usize::from(self.is_left_to_doubtful(number)));
            let is_missing = missing > 0 && !self.holders(number).is_empty() && self.is_complete();
            is_missing.then_some((number, missing))
        };
        (0..IDS).filter_map(missing).collect()
    }

    pub fn has_replicas(&self, task: Task) -> bool {
        self.tasks.get(&task).is_some_and(|task| {
            let has_all = |number| self.staying(number).len() >= usize::from(task.replicas);
            task.is_live && task.outputs.values().copied().all(has_all)
        })
    }

    pub fn unwanted(&self, worker: u8, now: Time) -> Vec<(u8, u8)> {
        let grace = Duration::from_secs(GRACE);
        let is_settled = self.settled.is_some_and(|settled| settled + grace <= now);
        if !is_settled || !self.is_complete() {
            return Vec::new();
        }
        let copies = self.unwanted_since.iter();
        let copies =
            copies.filter(|((place, _), since)| place.0 == worker && **since + grace <= now);
        let mut copies: Vec<(Time, u8, u8)> = copies
            .map(|((place, number), since)| (*since, place.1, *number))
            .collect();
        copies.sort_unstable();
        copies
            .into_iter()
            .map(|(_, disk, number)| (disk, number))
            .collect()
    }

    pub fn only_at(&self, worker: u8) -> ArtifactAmount {
        let mut amount = ArtifactAmount::default();
        for number in (0..IDS).filter(|number| self.names(*number).next().is_some()) {
            let is_here = self.holders(number).iter().any(|place| place.0 == worker);
            let mut others = self.staying(number);
            others.remove(&worker);
            if is_here && (others.is_empty() || self.is_left_to_doubtful(number)) {
                amount.artifacts += 1;
                amount.bytes += self.known_size(number);
            }
        }
        amount
    }

    pub fn totals(&self, job: u8) -> SetTotals {
        let mut totals = SetTotals::default();
        for number in 0..IDS {
            if self.names(number).any(|(task, _)| task.0 == job) {
                totals.amount.artifacts += 1;
                totals.amount.bytes += size(number);
                totals.copies += self.holders(number).len() as u64;
                totals.without_copy += u64::from(self.is_lost(number));
            }
        }
        totals
    }

    fn known_size(&self, number: u8) -> u64 {
        match self.sized.contains(&number) {
            true => size(number),
            false => 0,
        }
    }
}
