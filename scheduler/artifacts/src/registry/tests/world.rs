//! Workers whose disks change while notices and pages are delayed, lost, repeated and reordered. When the messages arrive again, the
//! registry must soon believe exactly in the artifacts that the disks hold.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::super::listing::{ListingNumber, ListingPage, PageAnswer, PageEnd};
use super::*;

const WORKERS: u8 = 2;
/// The heartbeats without faults until the registry is exact. The first may be older than the last facts, and only begins a listing. The
/// second finds the consequence of facts that arrived during that listing, and the third checks the second listing.
const CALM_HEARTBEATS: u64 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(u8, u8),
    Delete(u8, u8),
    /// The disk loses its data, and begins again with another generation.
    Wipe(u8),
    Heartbeat(u8),
    Lose(u8),
    /// A message of the queue arrives: the one at this position, and again later if the flag is set.
    Deliver(usize, bool),
    /// A message of the queue is lost.
    Vanish(usize),
    /// The scheduler repeats a request, or gives a listing up.
    Repeat(u8),
    GiveUp(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKERS;
    prop_oneof![
        6 => (worker(), 0..20_u8).prop_map(|(worker, id)| Step::Store(worker, id)),
        4 => (worker(), 0..20_u8).prop_map(|(worker, id)| Step::Delete(worker, id)),
        1 => worker().prop_map(Step::Wipe),
        4 => worker().prop_map(Step::Heartbeat),
        1 => worker().prop_map(Step::Lose),
        12 => (0..8_usize, any::<bool>()).prop_map(|(at, again)| Step::Deliver(at, again)),
        2 => (0..8_usize).prop_map(Step::Vanish),
        1 => worker().prop_map(Step::Repeat),
        1 => worker().prop_map(Step::GiveUp),
    ]
}

#[derive(Clone, Debug)]
enum Message {
    Stored(Holder, ArtifactId),
    Dropped(Holder, ArtifactId),
    Heartbeat(u8, DiskAnnouncement),
    Request(u8, ListingNumber, DiskGeneration, Option<ArtifactId>),
    Page(u8, ListingPage),
}

struct World {
    registry: Registry,
    /// The generation of each worker's disk, and its artifacts.
    disks: BTreeMap<u8, (u8, BTreeSet<ArtifactId>)>,
    open: BTreeMap<u8, ListingNumber>,
    queue: VecDeque<Message>,
    page_size: usize,
    now: u64,
}

impl World {
    fn new(page_size: usize) -> Self {
        World {
            registry: registry(0),
            disks: (0..WORKERS)
                .map(|worker| (worker, (0, BTreeSet::new())))
                .collect(),
            open: BTreeMap::new(),
            queue: VecDeque::new(),
            page_size,
            now: 0,
        }
    }

    fn take(&mut self, step: Step) {
        self.now += 1;
        match step {
            Step::Store(worker, number) => {
                let (disk, ids) = self.disks.get_mut(&worker).expect("a worker");
                if ids.insert(id(number)) {
                    let notice = Message::Stored(holder(worker, *disk), id(number));
                    self.queue.push_back(notice);
                }
            }
            Step::Delete(worker, number) => {
                let (disk, ids) = self.disks.get_mut(&worker).expect("a worker");
                if ids.remove(&id(number)) {
                    let notice = Message::Dropped(holder(worker, *disk), id(number));
                    self.queue.push_back(notice);
                }
            }
            Step::Wipe(worker) => {
                let (disk, ids) = self.disks.get_mut(&worker).expect("a worker");
                (*disk, *ids) = (*disk + 1, BTreeSet::new());
            }
            Step::Heartbeat(worker) => {
                let (disk, ids) = &self.disks[&worker];
                let heartbeat = Message::Heartbeat(worker, announcement(*disk, ids.clone()));
                self.queue.push_back(heartbeat);
            }
            Step::Lose(worker) => self.registry.lose(&lock(worker), second(self.now)),
            Step::Deliver(position, again) => {
                if let Some(message) = self.queue.remove(position) {
                    if again {
                        self.queue.push_back(message.clone());
                    }
                    self.deliver(message);
                }
            }
            Step::Vanish(position) => {
                self.queue.remove(position);
            }
            Step::Repeat(worker) => self.request(worker),
            Step::GiveUp(worker) => {
                if let Some(listing) = self.open.remove(&worker) {
                    self.registry.listing_failed(listing);
                }
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        let now = second(self.now);
        match message {
            Message::Stored(holder, id) => self.registry.stored(&holder, id, now),
            Message::Dropped(holder, id) => self.registry.dropped(&holder, id, now),
            Message::Heartbeat(worker, disk) => {
                self.registry.announce(&lock(worker), &[disk], now);
                let wanted = self.registry.listing_wanted(&lock(worker)).next();
                if let Some(generation) = wanted {
                    let holder = Holder {
                        lock: lock(worker),
                        generation,
                    };
                    let listing = self.registry.begin_listing(&holder).expect("wanted");
                    self.open.insert(worker, listing);
                    let first = Message::Request(worker, listing, generation, None);
                    self.queue.push_back(first);
                }
            }
            Message::Request(worker, listing, generation, after) => {
                self.answer(worker, listing, generation, after);
            }
            Message::Page(worker, page) => match self.registry.page(&page, now) {
                PageAnswer::Next(_) => self.request(worker),
                PageAnswer::Complete | PageAnswer::Ignored => {}
                PageAnswer::Malformed => panic!("{page:?}"),
            },
        }
    }

    /// Requests the next page of the open listing of a worker.
    fn request(&mut self, worker: u8) {
        let Some(listing) = self.open.get(&worker).copied() else {
            return;
        };
        if let Some(after) = self.registry.listing_position(listing) {
            let generation = generation(self.disks[&worker].0);
            let request = Message::Request(worker, listing, generation, after);
            self.queue.push_back(request);
        }
    }

    /// Sends the page of a request, as the disk is now. A worker knows nothing of a generation that it has lost.
    fn answer(
        &mut self,
        worker: u8,
        listing: ListingNumber,
        requested: DiskGeneration,
        after: Option<ArtifactId>,
    ) {
        let (disk, ids) = &self.disks[&worker];
        if generation(*disk) != requested {
            return;
        }
        let rest = ids.iter().copied().filter(|id| Some(*id) > after);
        let mut ids: Vec<ArtifactId> = rest.take(self.page_size + 1).collect();
        let end = match ids.len() > self.page_size {
            true => PageEnd::More,
            false => PageEnd::Last,
        };
        ids.truncate(self.page_size);
        let page = ListingPage {
            listing,
            after,
            ids,
            end,
        };
        self.queue.push_back(Message::Page(worker, page));
    }

    fn deliver_all(&mut self) {
        while let Some(message) = self.queue.pop_front() {
            self.now += 1;
            self.deliver(message);
        }
    }
}

integration_tests_properties::properties! {
    300;

    #[test]
    fn the_registry_becomes_exact_when_messages_arrive(
        steps in vec(step(), 1..150),
        page_size in 1..6_usize,
    ) {
        let mut world = World::new(page_size);
        for step in steps {
            world.take(step);
        }
        world.deliver_all();
        // A request of before may be lost, and the scheduler gives its listing up.
        for worker in 0..WORKERS {
            world.take(Step::GiveUp(worker));
        }
        for _ in 0..CALM_HEARTBEATS {
            for worker in 0..WORKERS {
                world.take(Step::Heartbeat(worker));
            }
            world.deliver_all();
        }
        for (worker, (disk, ids)) in &world.disks {
            let expected = announcement(*disk, ids.clone());
            let believed = world.registry.believed(&holder(*worker, *disk));
            prop_assert_eq!(believed, Some((expected.digest, expected.count)));
            let wanted = world.registry.listing_wanted(&lock(*worker)).count();
            prop_assert_eq!(wanted, 0);
            for number in 0..20 {
                let mut holders = world.registry.holders(id(number));
                let is_held = holders.any(|holder| holder.lock == lock(*worker));
                prop_assert_eq!(is_held, ids.contains(&id(number)));
            }
        }
        prop_assert_eq!(world.registry.completeness(), Completeness::Complete);
    }
}
