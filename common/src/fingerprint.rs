//! Fingerprints of machines and of whole worlds of machines, for searches that visit each state once. Ids count by order of appearance,
//! times relative to now.
//!
//! Two states have one fingerprint if one becomes the other by moving the clock and by renaming ids without changing their order. Such
//! states have the same future, up to that renaming. The search that hashes a world uses one [`Canon`] for all of it: `enter` and `shape`
//! for each machine, [`Shape`] for messages and stores, [`Canon::finish`] at the end.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Duration;

use crate::call::{CallId, RequestId};
use crate::collections::SeededState;
use crate::ids::{InstanceId, InvocationId, SchedulerId, WorkerId};
use crate::status::{ReportedStatus, StatusData, StoredStatus};
use crate::task::RunningTask;
use crate::time::Time;
use crate::worker_set::{SetHash, WorkerSetHash, WorkerSetId};

/// The largest number of workers whose subsets are tried to decompose a worker set's hash. A search cannot afford all subsets of more.
const MAX_MEMBERS_TRIED: usize = 12;

/// A map from raw ids to small numbers, in order of appearance. [`Canon::finish`] adds what else affects decisions: the order of ids, and
/// the members of worker set hashes.
#[derive(Clone, Debug, Default)]
pub struct Canon {
    machine: u64,
    schedulers: NameNumbers<SchedulerId>,
    workers: NameNumbers<WorkerId>,
    invocations: NameNumbers<InvocationId>,
    healthchecks: NameNumbers<InvocationId>,
    calls: NameNumbers<(u64, CallId)>,
    requests: NameNumbers<(u64, RequestId)>,
    /// Versions by their distance from the first version seen of that scheduler, because versions wrap around.
    versions: NameNumbers<(SchedulerId, i64)>,
    first_versions: BTreeMap<SchedulerId, i64>,
    hashes: NameNumbers<MemberSums>,
}

/// The content of a set's hash on the wire: count, sums and xors.
type MemberSums = (i32, [i64; 4]);

#[derive(Clone, Debug)]
struct NameNumbers<K>(BTreeMap<K, u32>);

impl<K> Default for NameNumbers<K> {
    fn default() -> Self {
        NameNumbers(BTreeMap::new())
    }
}

impl<K: Ord + Copy> NameNumbers<K> {
    fn of(&mut self, raw: K) -> u32 {
        // Invariant: each name takes memory, and a search has less than 2^32 names.
        let next = u32::try_from(self.0.len()).expect("fewer than 2^32 ids");
        *self.0.entry(raw).or_insert(next)
    }

    /// Hashes the names in the order of their raw ids, each with whether it shares `key` with the one before.
    fn write_order<Q: PartialEq>(&self, key: impl Fn(&K) -> Q, hasher: &mut impl Hasher) {
        let mut last = None;
        for (raw, name) in &self.0 {
            let key = key(raw);
            (name, last.as_ref() == Some(&key)).hash(hasher);
            last = Some(key);
        }
        u32::MAX.hash(hasher);
    }
}

impl Canon {
    pub fn new() -> Self {
        Canon::default()
    }

    /// Selects the machine, a scheduler or worker process, to which later call and request numbers belong. Each machine counts from 1.
    pub fn enter(&mut self, machine: u64) {
        self.machine = machine;
    }

    /// Adds the order of ids and the members of sets. Must be called once, after everything else.
    pub fn finish(&self, hasher: &mut impl Hasher) {
        let second = |id: InstanceId| id.start_time;
        self.schedulers.write_order(|id| second(id.0), hasher);
        self.workers.write_order(|id| second(id.0), hasher);
        self.invocations.write_order(|id| second(id.0), hasher);
        self.healthchecks.write_order(|id| second(id.0), hasher);
        self.calls.write_order(|(machine, _)| *machine, hasher);
        self.versions.write_order(|(of, _)| *of, hasher);
        self.write_members(hasher);
    }

    /// Hashes the members of each set by name, which shows the sets that will be equal once others join or leave.
    fn write_members(&self, hasher: &mut impl Hasher) {
        let workers: Vec<(WorkerId, u32)> = self.workers.0.iter().map(|(w, n)| (*w, *n)).collect();
        let mut members: BTreeMap<MemberSums, Vec<u32>> = BTreeMap::new();
        if workers.len() <= MAX_MEMBERS_TRIED {
            for mask in 0..1_u32 << workers.len() {
                let chosen = workers
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| mask >> i & 1 == 1);
                let mut names: Vec<u32> = chosen.clone().map(|(_, (_, name))| *name).collect();
                names.sort_unstable();
                let sums = member_sums(chosen.map(|(_, (worker, _))| *worker));
                members.insert(sums, names);
            }
        }
        let mut by_name: Vec<(u32, MemberSums)> = self
            .hashes
            .0
            .iter()
            .map(|(raw, name)| (*name, *raw))
            .collect();
        by_name.sort_unstable();
        for (_, raw) in by_name {
            match members.get(&raw) {
                Some(names) => (true, names).hash(hasher),
                // No set of known workers has this hash. The raw value merges fewer states.
                None => (false, raw).hash(hasher),
            }
        }
    }
}

fn sums_of(start_time: SetHash, rand: SetHash, num_workers: i32) -> MemberSums {
    let sums = [
        start_time.add_all,
        start_time.xor_all,
        rand.add_all,
        rand.xor_all,
    ];
    (num_workers, sums)
}

fn member_sums(members: impl Iterator<Item = WorkerId>) -> MemberSums {
    let (mut count, mut sums) = (0, [0_i64; 4]);
    for WorkerId(id) in members {
        count += 1;
        sums[0] = sums[0].wrapping_add(id.start_time);
        sums[1] ^= id.start_time;
        sums[2] = sums[2].wrapping_add(id.rand);
        sums[3] ^= id.rand;
    }
    (count, sums)
}

/// A hasher of a state, which knows the present time and renames ids.
#[derive(Debug)]
pub struct Shape<'a, H> {
    now: Time,
    canon: &'a mut Canon,
    hasher: &'a mut H,
}

impl<'a, H: Hasher> Shape<'a, H> {
    pub fn new(now: Time, canon: &'a mut Canon, hasher: &'a mut H) -> Self {
        Shape { now, canon, hasher }
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn canon(&mut self) -> (&mut Canon, &mut H) {
        (self.canon, self.hasher)
    }

    /// Hashes a value that is neither an id nor a time.
    pub fn put(&mut self, value: impl Hash) {
        value.hash(self.hasher);
    }

    /// Hashes a past or future time as its distance from now.
    pub fn time(&mut self, at: Time) {
        let distance: (Duration, Duration) = (self.now.since(at), at.since(self.now));
        // `NEVER` has the same distance at any time.
        self.put((at == Time::NEVER).then_some(()).ok_or(distance));
    }

    /// Hashes a deadline. All past deadlines are equal.
    pub fn deadline(&mut self, at: Time) {
        let left = (at < Time::NEVER).then(|| at.since(self.now));
        self.put(left);
    }

    pub fn time_if(&mut self, at: Option<Time>) {
        self.opt(at, Shape::time);
    }

    pub fn opt<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.put(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Hashes each value, and where the sequence ends.
    pub fn each<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        for item in items {
            self.put(true);
            write(self, item);
        }
        self.put(false);
    }

    pub fn scheduler(&mut self, id: SchedulerId) {
        // The id that stands for none is not renamed.
        let name = (id != SchedulerId::default()).then(|| self.canon.schedulers.of(id));
        self.put(name);
    }

    pub fn worker(&mut self, id: WorkerId) {
        let name = self.canon.workers.of(id);
        self.put(name);
    }

    pub fn invocation(&mut self, id: InvocationId) {
        let name = self.canon.invocations.of(id);
        self.put(name);
    }

    /// Hashes the id of a healthcheck, which is compared only with other healthchecks.
    pub fn healthcheck(&mut self, id: InvocationId) {
        let name = self.canon.healthchecks.of(id);
        self.put(name);
    }

    /// Hashes the run of a task or of a healthcheck.
    pub fn run_of(&mut self, task: &RunningTask) {
        if task.is_healthcheck() {
            self.healthcheck(task.invocation);
        } else {
            self.invocation(task.invocation);
        }
    }

    /// Hashes a call of the machine entered last.
    pub fn call(&mut self, id: CallId) {
        let name = self.canon.calls.of((self.canon.machine, id));
        self.put(name);
    }

    /// Hashes a request of the machine entered last.
    pub fn request(&mut self, id: RequestId) {
        let name = self.canon.requests.of((self.canon.machine, id));
        self.put(name);
    }

    pub fn set(&mut self, set: WorkerSetId) {
        let WorkerSetId {
            scheduler,
            version,
            hash,
            standing,
        } = set;
        self.scheduler(scheduler);
        self.put(standing);
        let first = *self
            .canon
            .first_versions
            .entry(scheduler)
            .or_insert(version);
        let distance = version.wrapping_sub(first);
        let name = self.canon.versions.of((scheduler, distance));
        self.put(name);
        self.set_hash(hash);
    }

    pub fn set_hash(&mut self, hash: WorkerSetHash) {
        let WorkerSetHash {
            start_time,
            rand,
            num_workers,
            digest,
        } = hash;
        // The digest follows from the members.
        self.put(digest.is_some());
        let name = self.canon.hashes.of(sums_of(start_time, rand, num_workers));
        self.put(name);
    }
}

impl<H: Hasher> Shape<'_, H> {
    pub fn reported(&mut self, status: &ReportedStatus) {
        self.put(status.bits());
        self.data(status.data());
    }

    /// Hashes a stored status, without the time of its acceptance, which decides nothing.
    pub fn stored(&mut self, status: &StoredStatus) {
        self.put((status.bits, status.backoff_seconds, status.safety_seconds));
        self.data(status.data.as_ref());
    }

    /// Hashes the data without the text of an error, which decides nothing and may contain ids.
    fn data(&mut self, data: Option<&StatusData>) {
        let decisive = data.into_iter().flat_map(|data| data.iter());
        let decisive = decisive.filter(|(key, _)| *key != "exception");
        self.each(decisive, |s, (key, value)| s.put((key, value.to_string())));
    }

    /// Hashes a running task as it is on the wire, without measurements, which decide nothing.
    pub fn running_task(&mut self, task: &RunningTask) {
        self.put((&task.job, &task.node, &task.shard));
        self.run_of(task);
        self.put((
            task.next_backoff.no_more_backoffs,
            task.next_backoff.seconds,
            task.next_backoff.times,
        ));
        self.put(task.suicide_kill_wait);
        self.each(&task.resources, |s, on| {
            s.put(&on.node);
            s.each(&on.resources, |s, slot| s.put((&slot.name, slot.amount)));
        });
        self.put((&task.gpus, &task.gpus_wanted));
        let work = &task.work;
        self.put((work.est_duration.map(f64::to_bits), work.request));
        self.put((work.cpus.map(f64::to_bits), work.bufferable, work.report));
        self.opt(task.ended.as_ref(), Shape::reported);
        self.put(&task.worker_slots);
    }
}

/// Returns the fingerprint of a single machine.
pub fn fingerprint_of(write: impl FnOnce(&mut Canon, &mut siphasher::sip::SipHasher13)) -> u64 {
    let mut canon = Canon::new();
    let mut hasher = SeededState::default().build_hasher();
    write(&mut canon, &mut hasher);
    canon.finish(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(now: u64, write: impl FnOnce(&mut Shape<'_, siphasher::sip::SipHasher13>)) -> u64 {
        fingerprint_of(|canon, hasher| {
            write(&mut Shape::new(Time::from_nanos(now), canon, hasher));
        })
    }

    #[test]
    fn renaming_in_order_and_moving_the_clock_change_nothing() {
        let state = |now: u64, ids: [i64; 2]| {
            of(now, |s| {
                s.invocation(InvocationId::new(ids[0], 5));
                s.time(Time::from_nanos(now + 7));
                s.invocation(InvocationId::new(ids[1], 5));
                s.time(Time::NEVER);
            })
        };
        assert_eq!(state(10, [1, 2]), state(90, [30, 90]));
        assert_ne!(state(10, [1, 2]), state(10, [2, 1]), "the order decides");
        assert_ne!(state(10, [1, 2]), state(10, [2, 2]), "so does equality");
    }

    #[test]
    fn ids_of_one_second_are_told_from_ids_of_two() {
        let state = |a: WorkerId, b: WorkerId| {
            of(0, |s| {
                s.worker(a);
                s.worker(b);
            })
        };
        let w = WorkerId::new;
        assert_eq!(state(w(1, 1), w(1, 2)), state(w(8, 1), w(8, 2)));
        assert_ne!(state(w(1, 1), w(1, 2)), state(w(1, 1), w(2, 2)));
    }

    #[test]
    fn the_same_call_number_of_two_machines_is_two_calls() {
        let state = |second: u64| {
            fingerprint_of(|canon, hasher| {
                canon.enter(1);
                Shape::new(Time::ZERO, canon, hasher).call(CallId(1));
                canon.enter(second);
                Shape::new(Time::ZERO, canon, hasher).call(CallId(1));
            })
        };
        assert_ne!(state(1), state(2));
    }

    #[test]
    fn a_set_is_its_members_and_the_order_of_its_version() {
        let state = |ids: [i64; 2], members: &[usize], versions: [i64; 2]| {
            of(0, |s| {
                let workers = ids.map(|id| WorkerId::new(id, id));
                let mut hash = WorkerSetHash::default();
                for &i in members {
                    hash.add(workers[i]);
                }
                for version in versions {
                    let scheduler = SchedulerId::new(3, ids[0]);
                    s.set(WorkerSetId {
                        scheduler,
                        version,
                        hash,
                        standing: Default::default(),
                    });
                }
                for worker in workers {
                    s.worker(worker);
                }
            })
        };
        let one = state([10, 11], &[0], [1, 2]);
        assert_eq!(one, state([70, 90], &[0], [5, 6]));
        assert_eq!(one, state([70, 90], &[0], [i64::MAX, i64::MIN]));
        assert_ne!(one, state([10, 11], &[1], [1, 2]));
        assert_ne!(one, state([10, 11], &[0, 1], [1, 2]));
        assert_ne!(one, state([10, 11], &[0], [2, 1]));
        // No set of known workers has this hash.
        assert_ne!(state([1, 2], &[], [1, 1]), state([1, 2], &[0], [1, 1]));
    }
}
