//! Measures the choice of places for artifacts on a large cluster: its time, how evenly it uses workers and disks, and what the strategy
//! that prefers fast disks gains. The workers and disks are simulated.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use brasserie_common::Time;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_scheduler_slots::{
    Allocator, AllocatorSettings, ArtifactId, Bytes, CopyRequest, DiskClass, DiskId, DiskState,
    DrainState, ExceptWorkers, Grant, GrantRequest, HolderId, IntraGroup, LoadAware, Rack,
    Replication, SlotPass, SlotSettings, SlotStrategy, Weight, WorkerDisk, WorkerRegistration,
    WorkerReport, WorkloadLevel,
};

use crate::figures::{BenchReport, Figure, Samples, times_of};

const WORKERS: u32 = 1500;
const DISKS: u64 = 4;
const RACKS: u32 = 41;
const ARTIFACTS: u32 = 100_000;
/// The permitted seconds of one choice.
const MOST_SECONDS: f64 = 1.0;
/// The copies of one request, as many as the scheduler asks of a worker at once.
const COPIES: u32 = 64;
/// The time of one artifact on a fast disk. The disks of two workers in five take four times as long.
const FAST: Duration = Duration::from_millis(10);

/// A strategy with its name.
type NamedStrategy = (&'static str, fn() -> SlotStrategy);

const STRATEGIES: [NamedStrategy; 4] = [
    ("round robin", || SlotStrategy::RoundRobin),
    ("load aware", || {
        SlotStrategy::LoadAware(LoadAware::default())
    }),
    ("load aware, even in groups", || {
        SlotStrategy::LoadAware(LoadAware {
            intra_group: IntraGroup::Even,
            ..LoadAware::default()
        })
    }),
    ("load aware, even in groups, gradient 0.5", || {
        SlotStrategy::LoadAware(LoadAware {
            gradient: Weight::new(0.5).expect("0.5 is a weight"),
            intra_group: IntraGroup::Even,
            ..LoadAware::default()
        })
    }),
];

/// One choice of places for all artifacts.
struct Choice {
    seconds: f64,
    per_worker: f64,
    per_disk: f64,
    /// The share of artifacts with space on a healthy disk in another rack.
    within_budgets: f64,
    /// The seconds until the last disk is done with its artifacts.
    completion: f64,
}

/// Measures `pairs` choices with each strategy.
pub fn measure(pairs: usize) -> BenchReport {
    let mut lines = Vec::new();
    let mut completions = Vec::new();
    for (name, strategy) in STRATEGIES {
        let samples = Samples::take(&format!("slots, {name}"), pairs, |pair| {
            pair.begin("100,000 artifacts with replicas in other racks");
            choose(strategy(), pair.number as u64)
        });
        let line = |what: &str, unit, of: fn(&Choice) -> f64| {
            samples.line(format!("{name}: {what}"), unit, of)
        };
        lines.push(line("time", "s", |one| one.seconds).at_most(MOST_SECONDS));
        lines.push(line("most slots of a worker / mean", "", |one| {
            one.per_worker
        }));
        lines.push(line("most slots of a disk / mean", "", |one| one.per_disk));
        lines.push(line("artifacts within budgets", "", |one| one.within_budgets).more_is_better());
        completions.push(samples.median(|one| one.completion));
    }
    for ((name, _), completion) in STRATEGIES.iter().zip(&completions).skip(1) {
        let what = format!("{name}: simulated completion");
        lines.push(Figure::new(what, "s", *completion).beside(completions[0]));
    }
    let what = "choice of workers for 64 further copies";
    lines.push(Figure::new(what, "ms", copies()));
    BenchReport::new("slots", "round robin", lines)
}

/// Workers in racks. Each disk has 200 to 400 slots of the estimated size.
fn cluster(strategy: SlotStrategy) -> Allocator {
    let settings = AllocatorSettings {
        slots: SlotSettings {
            strategy,
            ..SlotSettings::default()
        },
        ..AllocatorSettings::default()
    };
    let mut all = Allocator::new(settings, Time::ZERO);
    for number in 0..WORKERS {
        let disk = |id: u64| WorkerDisk {
            id: DiskId(id),
            class: DiskClass::Ssd,
            total: Bytes::from_gib(100),
            usable: Bytes::from_mib(64 * (200 + (u64::from(number) * 7 + id * 11) % 201)),
            flush_time: Duration::ZERO,
            fetch_time: time_of(HolderId(number)),
            active_slots: 0,
            state: DiskState::Healthy,
        };
        let report = WorkerReport {
            disks: (0..DISKS).map(disk).collect(),
            workload: WorkloadLevel::Normal,
            state: DrainState::Normal,
            notice: None,
        };
        let rack = Rack::new(&format!("r{}", number % RACKS));
        all.register(HolderId(number), WorkerRegistration { rack, report });
    }
    all
}

fn time_of(worker: HolderId) -> Duration {
    match worker.0 % 5 {
        0..3 => FAST,
        _ => FAST * 4,
    }
}

fn choose(strategy: SlotStrategy, seed: u64) -> Choice {
    let mut all = cluster(strategy);
    let request = GrantRequest {
        ids: (0..ARTIFACTS).map(ArtifactId).collect(),
        replication: Replication::OtherRack,
        except: ExceptWorkers::default(),
        most_workers: None,
        until: Time::NEVER,
    };
    let mut rng = Rng::new(seed, Purpose::Placement);
    let began = Instant::now();
    let grant = all.request_slots(&request, Time::ZERO, &mut rng);
    let seconds = began.elapsed().as_secs_f64();
    let grant = grant.expect("a healthy cluster has slots");
    let disks = grant.offer.disks();
    let disks: BTreeMap<(HolderId, DiskId), u64> = disks
        .map(|(holder, disk, slots)| ((holder, disk), slots))
        .collect();
    let times = disks.iter();
    let times = times.map(|((holder, _), slots)| time_of(*holder).as_secs_f64() * *slots as f64);
    Choice {
        seconds,
        per_worker: imbalance(slots_of_workers(&grant), u64::from(WORKERS)),
        per_disk: imbalance(disks.values().copied(), u64::from(WORKERS) * DISKS),
        within_budgets: within_budgets(&grant),
        completion: times.fold(0.0, f64::max),
    }
}

fn slots_of_workers(grant: &Grant) -> impl Iterator<Item = u64> {
    let workers = grant.offer.workers.values();
    workers.map(|one| one.primaries + one.replicas)
}

fn within_budgets(grant: &Grant) -> f64 {
    let all = grant.offer.locations.iter();
    let within = all.filter(|one| one.pass == SlotPass::WithinBudgets);
    within.count() as f64 / f64::from(ARTIFACTS)
}

/// Returns the largest number as a multiple of the mean of `count` numbers, of which some may be missing zeros.
fn imbalance(numbers: impl Iterator<Item = u64>, count: u64) -> f64 {
    let (mut most, mut sum) = (0, 0);
    for number in numbers {
        most = most.max(number);
        sum += number;
    }
    most as f64 * count as f64 / sum as f64
}

/// Returns the milliseconds of a choice of workers for some copies.
fn copies() -> f64 {
    let mut all = cluster(SlotStrategy::RoundRobin);
    let mut rng = Rng::new(1, Purpose::Placement);
    let times = times_of(200, |_| {
        let request = CopyRequest {
            ids: (0..COPIES).map(ArtifactId).collect(),
            size: Bytes::from_mib(10),
            except: ExceptWorkers::default(),
        };
        let granted = all.request_copies(&request, Time::ZERO, |_, _| Time::NEVER, &mut rng);
        assert_eq!(granted.map(|granted| granted.len()), Ok(COPIES as usize));
    });
    times.at(50)
}
