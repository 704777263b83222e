//! Random histories of the registry against the plain model.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::listing::{ListingNumber, ListingPage, PageEnd};
use super::super::super::reruns::{GiveUpReason, Rerun};
use super::super::super::types::{WorkerStay, WorkerTrust};
use super::super::ArtifactAvailability;
use super::model::{DISKS, IDS, JOBS, Model, ModelTask, NODES, Place, Task, WORKERS, task_key};
use super::*;

const PATHS: [&str; 3] = ["x", "y", "z"];

/// How a page differs from the one that the registry expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageFault {
    None,
    OtherPosition,
    OldListing,
    Disorder,
}

#[derive(Clone, Debug)]
enum Step {
    /// The flag is set for a repetition of the known run.
    Record(Task, BTreeMap<&'static str, u8>, u8, bool),
    Forget(Task),
    ForgetJob(u8),
    ExpireJob(u8),
    Pin(u8, Vec<u8>),
    Unpin(u8),
    Announce(u8, BTreeMap<u8, bool>),
    Lose(u8),
    Stored(Place, u8),
    Dropped(Place, u8),
    BeginListing(Place),
    Page(Place, Vec<u8>, bool, PageFault),
    ListingFailed(Place),
    Leave(u8, bool),
    Doubt(u8, bool),
    Settle(bool),
    Rerun(Task),
    RerunFailed(Task),
    Consumed(Task),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let jobs = 0..u8::try_from(JOBS.len()).expect("few");
    let task = || (0..2_u8, 0..u8::try_from(NODES.len()).expect("few"));
    let place = || (0..WORKERS, 0..DISKS);
    let outputs = btree_map(select(&PATHS[..]), 0..IDS, 0..=PATHS.len());
    let fault = prop_oneof![
        6 => Just(PageFault::None),
        1 => Just(PageFault::OtherPosition),
        1 => Just(PageFault::OldListing),
        1 => Just(PageFault::Disorder),
    ];
    let agrees = prop::bool::weighted(0.6);
    prop_oneof![
        6 => (task(), outputs, 1..4_u8, prop::bool::weighted(0.2))
            .prop_map(|(t, o, r, again)| Step::Record(t, o, r, again)),
        1 => task().prop_map(Step::Forget),
        1 => jobs.clone().prop_map(Step::ForgetJob),
        1 => jobs.prop_map(Step::ExpireJob),
        2 => (0..3_u8, vec(0..IDS, 0..4)).prop_map(|(run, ids)| Step::Pin(run, ids)),
        1 => (0..3_u8).prop_map(Step::Unpin),
        6 => (0..WORKERS, btree_map(0..DISKS, agrees, 0..=usize::from(DISKS)))
            .prop_map(|(worker, disks)| Step::Announce(worker, disks)),
        1 => (0..WORKERS).prop_map(Step::Lose),
        8 => (place(), 0..IDS).prop_map(|(place, id)| Step::Stored(place, id)),
        3 => (place(), 0..IDS).prop_map(|(place, id)| Step::Dropped(place, id)),
        4 => place().prop_map(Step::BeginListing),
        6 => (place(), vec(0..IDS, 0..4), any::<bool>(), fault)
            .prop_map(|(place, ids, is_last, fault)| Step::Page(place, ids, is_last, fault)),
        1 => place().prop_map(Step::ListingFailed),
        2 => (0..WORKERS, any::<bool>()).prop_map(|(worker, leaves)| Step::Leave(worker, leaves)),
        2 => (0..WORKERS, any::<bool>()).prop_map(|(worker, is_so)| Step::Doubt(worker, is_so)),
        1 => prop::bool::weighted(0.9).prop_map(Step::Settle),
        2 => task().prop_map(Step::Rerun),
        1 => task().prop_map(Step::RerunFailed),
        1 => task().prop_map(Step::Consumed),
        4 => prop_oneof![1..20_u64, 50..100_u64].prop_map(Step::Pass),
    ]
}

/// A registry, its model, and the time of both.
struct Pair {
    registry: Registry,
    model: Model,
    now: u64,
    runs: i64,
    /// A listing that is over.
    old_listing: ListingNumber,
}

impl Pair {
    fn new() -> Self {
        Pair {
            registry: Registry::new(RegistrySettings::default()),
            model: Model::default(),
            now: 1,
            runs: 0,
            old_listing: ListingNumber(u64::MAX),
        }
    }

    fn time(&self) -> Time {
        second(self.now)
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Record(..)
            | Step::Forget(_)
            | Step::ForgetJob(_)
            | Step::ExpireJob(_)
            | Step::Pin(..)
            | Step::Unpin(_) => self.take_name(step),
            Step::Announce(..)
            | Step::Lose(_)
            | Step::Stored(..)
            | Step::Dropped(..)
            | Step::BeginListing(_)
            | Step::Page(..)
            | Step::ListingFailed(_)
            | Step::Leave(..)
            | Step::Doubt(..) => self.take_copy(step),
            Step::Settle(is_settled) => self.settle(*is_settled),
            Step::Rerun(_) | Step::RerunFailed(_) | Step::Consumed(_) => self.take_rerun(step),
            Step::Pass(seconds) => self.now += seconds,
        }
        let time = self.time();
        self.model.advance(time);
    }

    fn take_name(&mut self, step: &Step) {
        let now = self.time();
        match step {
            Step::Record(task, outputs, replicas, again) => {
                self.record(*task, outputs.clone(), *replicas, *again);
            }
            Step::Forget(task) => {
                self.registry.forget(&task_key(*task), now);
                self.model.forget(*task);
            }
            Step::ForgetJob(number) => {
                self.registry
                    .forget_job(&job(JOBS[usize::from(*number)]), now);
                for node in 0..2 {
                    self.model.forget((*number, node));
                }
            }
            Step::ExpireJob(number) => self.expire_job(*number),
            Step::Pin(number, ids) => {
                let pinned = ids.iter().map(|number| id(*number));
                self.registry.pin(run(i64::from(*number)), pinned, now);
                self.model.pin(*number, ids);
            }
            Step::Unpin(number) => {
                self.registry.unpin(run(i64::from(*number)), now);
                self.model.unpin(*number);
            }
            other => unreachable!("{other:?} is no step about names"),
        }
    }

    fn record(
        &mut self,
        task: Task,
        outputs: BTreeMap<&'static str, u8>,
        replicas: u8,
        again: bool,
    ) {
        let known = self.model.tasks.get(&task).map(|known| known.invocation);
        let invocation = known.filter(|_| again).unwrap_or_else(|| {
            self.runs += 1;
            run(100 + self.runs)
        });
        self.registry.record(
            &task_key(task),
            invocation,
            outputs
                .iter()
                .map(|(path, number)| output(path, *number))
                .collect(),
            Replicas::new(replicas),
            clocks(self.now),
        );
        self.model.record(
            task,
            ModelTask {
                invocation,
                outputs,
                replicas,
                is_live: true,
            },
        );
    }

    /// Makes the set of a job expire the way a deleted job's does. Expires nothing while the registry is not settled.
    fn expire_job(&mut self, number: u8) {
        let name = job(JOBS[usize::from(number)]);
        let now = clocks(self.now);
        self.registry.set_unfinished_producers(&name, 0, now);
        self.registry.set_unfinished_consumers(&name, 0, now);
        self.registry.delete_job(&name, now);
        self.model.advance(now.time);
        self.now += GRACE;
        for expired in self.registry.expire(clocks(self.now)) {
            assert_eq!(expired, name);
            self.model.expire_job(number);
        }
        // The next expiry needs another deletion.
        let now = clocks(self.now);
        let terms = self.registry.set(&name).expect("a set").terms.clone();
        self.registry.define_set(&name, terms, now);
    }

    fn settle(&mut self, is_settled: bool) {
        let completeness = match is_settled {
            true => Completeness::Complete,
            false => Completeness::Incomplete,
        };
        self.registry.set_completeness(completeness, self.time());
        self.model.settle(is_settled, self.time());
    }

    fn take_copy(&mut self, step: &Step) {
        let now = self.time();
        match step {
            Step::Announce(worker, disks) => self.announce(*worker, disks),
            Step::Lose(worker) => {
                self.registry.lose(&lock(*worker), now);
                self.model.lose(*worker);
            }
            Step::Stored((worker, disk), number) => {
                self.registry
                    .stored(&holder(*worker, *disk), id(*number), now);
                self.model.store((*worker, *disk), *number);
            }
            Step::Dropped((worker, disk), number) => {
                self.registry
                    .dropped(&holder(*worker, *disk), id(*number), now);
                self.model.discard((*worker, *disk), *number);
            }
            Step::BeginListing(place) => {
                let begun = self.registry.begin_listing(&holder(place.0, place.1));
                assert_eq!(begun.is_some(), self.model.wants_listing(*place));
                if let Some(number) = begun {
                    self.model.begin_listing(*place, number);
                }
            }
            Step::Page(place, ids, is_last, fault) => self.page(*place, ids, *is_last, *fault),
            Step::ListingFailed(place) => {
                let number = self.open_listing(*place).unwrap_or(self.old_listing);
                self.registry.listing_failed(number);
                self.model.fail_listing(number);
                self.old_listing = number;
            }
            Step::Leave(worker, is_leaving) => {
                let stay = match is_leaving {
                    true => WorkerStay::Leaving,
                    false => WorkerStay::Staying,
                };
                self.registry.set_stay(&lock(*worker), stay);
                self.model.set_leaving(*worker, *is_leaving);
            }
            Step::Doubt(worker, is_doubtful) => {
                let trust = match is_doubtful {
                    true => WorkerTrust::Doubtful,
                    false => WorkerTrust::Trusted,
                };
                self.registry.set_trust(&lock(*worker), trust);
                self.model.set_doubtful(*worker, *is_doubtful);
            }
            other => unreachable!("{other:?} is no step about copies"),
        }
    }

    fn announce(&mut self, worker: u8, disks: &BTreeMap<u8, bool>) {
        let believed = |disk| {
            let disk = self.model.disks.get(&(worker, disk));
            disk.map(|disk| disk.ids.clone()).unwrap_or_default()
        };
        let announced = disks.iter().map(|(disk, agrees)| {
            let other = (!agrees).then(|| id(250));
            announcement(*disk, believed(*disk).into_iter().map(id).chain(other))
        });
        let announced: Vec<DiskAnnouncement> = announced.collect();
        self.registry
            .announce(&lock(worker), &announced, self.time());
        self.model.announce(worker, disks);
    }

    fn open_listing(&self, place: Place) -> Option<ListingNumber> {
        Some(self.model.disks.get(&place)?.open.as_ref()?.number)
    }

    fn page(&mut self, place: Place, ids: &[u8], is_last: bool, fault: PageFault) {
        let open = self
            .model
            .disks
            .get(&place)
            .and_then(|disk| disk.open.clone());
        let position = open.as_ref().and_then(|open| open.after);
        let mut ids = ids.to_vec();
        if fault != PageFault::Disorder {
            ids.retain(|number| Some(*number) > position);
            ids.sort_unstable();
            ids.dedup();
        }
        let page = ListingPage {
            listing: match (&open, fault) {
                (Some(open), PageFault::None | PageFault::OtherPosition | PageFault::Disorder) => {
                    open.number
                }
                (Some(_), PageFault::OldListing) | (None, _) => self.old_listing,
            },
            after: match fault {
                PageFault::OtherPosition => Some(id(position.map_or(3, |position| position ^ 1))),
                PageFault::None | PageFault::OldListing | PageFault::Disorder => position.map(id),
            },
            ids: ids.into_iter().map(id).collect(),
            end: match is_last {
                true => PageEnd::Last,
                false => PageEnd::More,
            },
        };
        let answer = self.registry.page(&page, self.time());
        assert_eq!(answer, self.model.page(&page), "{page:?}");
    }

    fn take_rerun(&mut self, step: &Step) {
        match step {
            Step::Rerun(task) => {
                let expected = match self.model.rerun(*task) {
                    (true, count) => Rerun::Granted(count),
                    (false, count) => Rerun::GivenUp(GiveUpReason::TooManyReruns(count)),
                };
                assert_eq!(self.registry.rerun(&task_key(*task)), expected);
            }
            Step::RerunFailed(task) => {
                self.registry.rerun_failed(&task_key(*task));
                self.model.rerun_failed(*task);
            }
            Step::Consumed(task) => {
                self.registry.consumed(&task_key(*task), clocks(self.now));
                self.model.reset_reruns(*task);
            }
            other => unreachable!("{other:?} is no step about repeated runs"),
        }
    }

    fn check(&self) {
        self.registry.check();
        let is_complete = self.registry.completeness() == Completeness::Complete;
        assert_eq!(is_complete, self.model.is_complete());
        assert_eq!(lost(&self.registry), self.model.lost());
        let to_repeat: Vec<TaskKey> = self.registry.producers_of_lost().cloned().collect();
        let expected: BTreeSet<TaskKey> =
            self.model.to_repeat().into_iter().map(task_key).collect();
        assert_eq!(to_repeat.len(), expected.len(), "{to_repeat:?}");
        assert_eq!(to_repeat.into_iter().collect::<BTreeSet<_>>(), expected);
        let missing = self.registry.missing_replicas(None);
        let missing: Vec<(u8, usize)> = missing
            .map(|missing| (missing.id.0[0], missing.replicas))
            .collect();
        assert_eq!(missing, self.model.missing());
        for number in 0..IDS {
            self.check_artifact(number);
        }
        for worker in 0..WORKERS {
            self.check_worker(worker);
        }
        for job in 0..2 {
            self.check_job(job);
        }
    }

    fn check_artifact(&self, number: u8) {
        let holders: Vec<Holder> = self.registry.holders(id(number)).cloned().collect();
        let expected = self.model.holders(number).into_iter();
        let expected: Vec<Holder> = expected
            .map(|(worker, disk)| holder(worker, disk))
            .collect();
        assert_eq!(holders, expected, "{number}");
        let is_available = self.registry.availability(id(number));
        let expected = match (holders.is_empty(), self.model.is_complete()) {
            (false, _) => ArtifactAvailability::Available,
            (true, false) => ArtifactAvailability::Unknown,
            (true, true) if self.model.is_given_up(number) => {
                ArtifactAvailability::GivenUp(GiveUpReason::TooManyReruns(3))
            }
            (true, true) if self.model.is_lost(number) => ArtifactAvailability::Lost,
            (true, true) => ArtifactAvailability::Unnamed,
        };
        assert_eq!(is_available, expected, "{number}");
    }

    fn check_worker(&self, worker: u8) {
        let expected = self.model.unwanted(worker, self.time());
        let expected: Vec<(DiskGeneration, ArtifactId)> = expected
            .into_iter()
            .map(|(disk, number)| (generation(disk), id(number)))
            .collect();
        for most in 0..=expected.len() + 1 {
            let unwanted = self
                .registry
                .unwanted(&lock(worker), (self.time(), self.time()), most);
            assert_eq!(unwanted, expected[..most.min(expected.len())], "{worker}");
        }
        let only_at = self.registry.only_at(&lock(worker));
        assert_eq!(only_at, self.model.only_at(worker));
        for disk in 0..DISKS {
            let believed = self.registry.believed(&holder(worker, disk));
            let expected = self.model.disks.get(&(worker, disk));
            let expected =
                expected.map(|model| announcement(disk, model.ids.iter().map(|n| id(*n))));
            assert_eq!(believed, expected.map(|disk| (disk.digest, disk.count)));
        }
        let wanted = (0..DISKS).filter(|disk| self.model.wants_listing((worker, *disk)));
        let wanted: Vec<DiskGeneration> = wanted.map(generation).collect();
        assert!(self.registry.listing_wanted(&lock(worker)).eq(wanted));
    }

    fn check_job(&self, number: u8) {
        let name = job(JOBS[usize::from(number)]);
        let set = self.registry.set(&name);
        let totals = set.map(|set| set.totals).unwrap_or_default();
        assert_eq!(totals, self.model.totals(number));
        let tasks = self.model.tasks.keys().filter(|task| task.0 == number);
        let expected: Vec<NodeName> = tasks.map(|task| task_key(*task).node).collect();
        let nodes = self.registry.job_outputs(&name).map(|(node, _)| node);
        assert!(nodes.eq(expected.iter()));
        for node in 0..2 {
            let replicated = self.registry.has_replicas(&task_key((number, node)));
            assert_eq!(replicated, self.model.has_replicas((number, node)));
        }
    }
}

integration_tests_properties::properties! {
    300;

    #[test]
    fn all_answers_are_those_of_the_plain_model(steps in vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step);
            pair.check();
        }
    }
}
