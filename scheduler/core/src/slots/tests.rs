//! Tests of the choice of workers for further copies, with a registry of artifacts and reports of workers.

use std::collections::BTreeSet;

use brasserie_common::rng::Purpose;
use brasserie_common::worker_set::SetDigest;
use brasserie_common::{
    Artifact, ArtifactForm, InvocationId, JobName, NodeName, OutputPath, TaskKey, TaskOutput,
    WallTime,
};
use brasserie_scheduler_artifacts::{
    Clocks, Completeness, DiskAnnouncement, Holder, RegistrySettings, Replicas,
};

use super::*;

const GIB: u64 = 1 << 30;

fn second(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn lock(worker: u8) -> MachinePortLock {
    MachinePortLock {
        hostname: format!("host{worker}").into(),
        port: 1,
    }
}

fn id(number: u8) -> ArtifactId {
    ArtifactId([number; 32])
}

/// A registry in which worker 0 alone has artifacts that should be on two workers.
struct Bench {
    registry: Registry,
    slots: ArtifactSlots,
    rng: Rng,
}

impl Bench {
    /// Gives worker 0 these artifacts, each with its size, and no space.
    fn new(artifacts: &[(u8, u64)]) -> Bench {
        let mut bench = Bench {
            registry: Registry::new(RegistrySettings::default()),
            slots: ArtifactSlots::new(Time::ZERO, SlotStrategy::RoundRobin),
            rng: Rng::new(1, Purpose::Placement),
        };
        bench.report(0, 0, 0);
        for (number, size) in artifacts {
            bench.store(0, *number);
            let output = TaskOutput {
                path: OutputPath::try_from("out").expect("a path"),
                artifact: Artifact {
                    id: id(*number),
                    size: *size,
                    form: ArtifactForm::File,
                },
            };
            let key = TaskKey {
                job: JobName::try_from("job").expect("a name"),
                node: NodeName::try_from(format!("n{number}").as_str()).expect("a name"),
            };
            let now = Clocks {
                time: Time::ZERO,
                wall: WallTime::from_secs(0),
            };
            let run = InvocationId::new(0, i64::from(*number));
            let two = Replicas::new(2);
            bench.registry.record(&key, run, vec![output], two, now);
        }
        let complete = Completeness::Complete;
        bench.registry.set_completeness(complete, Time::ZERO);
        bench
    }

    fn store(&mut self, worker: u8, number: u8) {
        let holder = Holder {
            lock: lock(worker),
            generation: DiskGeneration(u128::from(worker)),
        };
        self.registry.stored(&holder, id(number), Time::ZERO);
    }

    /// Reports a worker with so many usable bytes.
    fn report(&mut self, seconds: u64, worker: u8, usable: u64) {
        let generation = DiskGeneration(u128::from(worker));
        let empty = DiskAnnouncement {
            generation,
            digest: SetDigest::EMPTY,
            count: 0,
        };
        let (lock, now) = (lock(worker), second(seconds));
        if self.slots.number(&lock) == HolderId(self.slots.next_number - 1) {
            self.registry.announce(&lock, &[empty], now);
        }
        let disk = DiskReport {
            generation,
            digest: SetDigest::EMPTY,
            artifacts: 0,
            medium: DiskMedium::Ssd,
            total: 1 << 50,
            used: 0,
            usable,
            condition: DiskCondition::Healthy,
            problem: None,
            flush_time: Duration::ZERO,
            fetch_time: Duration::ZERO,
        };
        let report = ArtifactsReport {
            shard: Shard::try_from(format!("w{worker}").as_str()).expect("a name"),
            worker: WorkerId::default(),
            namespace: None,
            rack: None,
            disks: vec![disk],
            stored: Vec::new(),
            gone: Vec::new(),
            listings: Vec::new(),
            wanted: Vec::new(),
            waiting: Vec::new(),
            counters: None,
        };
        self.slots.report(now, &lock, &report);
    }

    /// Chooses workers, and returns the artifacts that one of them is asked for.
    fn asked(&mut self, seconds: u64, worker: u8) -> Vec<ArtifactId> {
        let now = second(seconds);
        self.slots
            .choose_workers(now, &self.registry, &mut self.rng);
        self.slots.asked_of(now, &self.registry, &lock(worker))
    }
}

#[test]
fn a_copy_gets_time_for_the_copies_that_were_asked_before_it() {
    let artifacts: Vec<(u8, u64)> = (1..=8).map(|number| (number, GIB)).collect();
    let mut bench = Bench::new(&artifacts);
    bench.report(0, 1, 100 * GIB);
    let order = bench.asked(0, 1);
    assert_eq!(order.len(), 8);
    // A copy takes 64 seconds. Another worker has space, too.
    for (done, first) in (1..=6).zip(&order) {
        bench.store(1, first.0[0]);
        let seconds = 64 * done;
        bench.report(seconds, 1, 100 * GIB);
        bench.report(seconds, 2, 100 * GIB);
        assert_eq!(bench.asked(seconds, 2), []);
        let left = &order[usize::try_from(done).expect("small")..];
        assert_eq!(bench.asked(seconds, 1), left, "{done}");
    }
    // The worker makes no progress any more: the seventh copy had 60 seconds and 7 * 64.
    bench.report(507, 2, 100 * GIB);
    assert_eq!(bench.asked(507, 2), []);
    bench.report(508, 2, 100 * GIB);
    assert_eq!(bench.asked(508, 2), order[6..7]);
}

#[test]
fn a_report_chooses_nobody_if_no_other_worker_has_space() {
    let artifacts: Vec<(u8, u64)> = (0..32).map(|bits| (bits, 1 << bits)).collect();
    let mut bench = Bench::new(&artifacts);
    // Worker 0 has all artifacts and much space, the others have less than the larger half needs.
    bench.report(0, 0, 100 * GIB);
    for worker in 1..20 {
        bench.report(0, worker, 1 << 15);
    }
    for _ in 0..40 {
        for worker in 1..20 {
            bench.asked(0, worker);
        }
    }
    for worker in 1..20 {
        bench.report(1, worker, 0);
    }
    let before = bench.rng.clone();
    let asked: BTreeSet<ArtifactId> = (1..20).flat_map(|worker| bench.asked(1, worker)).collect();
    let small: BTreeSet<ArtifactId> = (0..16).map(id).collect();
    assert_eq!(asked, small);
    assert!(bench.rng == before, "a search among workers draws a number");
    // More space of one worker has an effect at once.
    bench.report(2, 7, 1 << 16);
    assert!(bench.asked(2, 7).contains(&id(16)));
}
