//! Tests of the lists of workers: a table of how they are entered and left, and the laws of eligibility.

use proptest::prelude::*;

use super::super::disk::DiskClass;
use super::*;

const SIZE: Bytes = Bytes::from_mib(64);
const A: HolderId = HolderId(1);
const B: HolderId = HolderId(2);

fn second(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn disk(id: u64, state: DiskState, mib: u64) -> WorkerDisk {
    WorkerDisk {
        id: DiskId(id),
        class: DiskClass::Hdd,
        total: Bytes::from_gib(1),
        usable: Bytes::from_mib(mib),
        flush_time: Duration::ZERO,
        fetch_time: Duration::ZERO,
        active_slots: 0,
        state,
    }
}

fn report(state: DrainState) -> WorkerReport {
    WorkerReport {
        disks: vec![disk(1, DiskState::Healthy, 1024)],
        workload: WorkloadLevel::Normal,
        state,
        notice: None,
    }
}

fn with_disks(disks: Vec<WorkerDisk>) -> WorkerReport {
    WorkerReport {
        disks,
        ..report(DrainState::Normal)
    }
}

fn busy() -> WorkerReport {
    WorkerReport {
        workload: WorkloadLevel::High,
        ..report(DrainState::Normal)
    }
}

fn registration(report: WorkerReport) -> WorkerRegistration {
    WorkerRegistration {
        rack: Rack::new("a"),
        report,
    }
}

fn register(workers: &mut ArtifactWorkers, holder: HolderId) -> Registered {
    workers.register(holder, registration(report(DrainState::Normal)), SIZE)
}

fn registered(policy: WorkerPolicy) -> ArtifactWorkers {
    let mut workers = ArtifactWorkers::new(policy);
    assert_eq!(register(&mut workers, A), Registered::First);
    workers
}

fn beat(workers: &mut ArtifactWorkers, report: WorkerReport) -> Option<DrainEvent> {
    workers.heartbeat(A, report, SIZE).unwrap()
}

fn reasons(workers: &ArtifactWorkers, holder: HolderId) -> Vec<IneligibleReason> {
    workers.reasons(holder).collect()
}

fn candidates(workers: &ArtifactWorkers) -> Vec<HolderId> {
    let all = workers.candidates(SIZE, &Reservations::default(), &ExceptWorkers::default());
    all.into_iter().map(|one| one.holder).collect()
}

/// A step of a worker's history.
type Step = fn(&mut ArtifactWorkers);

const REGISTER: Step = |workers| {
    register(workers, A);
};
const BEAT: Step = |workers| {
    let _ = workers.heartbeat(A, report(DrainState::Normal), SIZE);
};
const BEAT_BUSY: Step = |workers| {
    let _ = workers.heartbeat(A, busy(), SIZE);
};
const BEAT_UNHEALTHY: Step = |workers| {
    let disks = vec![disk(1, DiskState::ReadError, 1024)];
    let _ = workers.heartbeat(A, with_disks(disks), SIZE);
};
const BEAT_FULL: Step = |workers| {
    let disks = vec![disk(1, DiskState::Healthy, 63)];
    let _ = workers.heartbeat(A, with_disks(disks), SIZE);
};
const BEAT_DECOMMISSIONING: Step = |workers| {
    let _ = workers.heartbeat(A, report(DrainState::DecommissioningThenIdle), SIZE);
};
const BEAT_IDLE: Step = |workers| {
    let _ = workers.heartbeat(A, report(DrainState::Idle), SIZE);
};
const LOSE: Step = |workers| {
    workers.lose(A, second(100));
};
const EXPIRE: Step = |workers| workers.expire(second(1901));
const EXCLUDE: Step = |workers| workers.exclude(A);
const READMIT: Step = |workers| workers.readmit(A);
const ANNOUNCE_EXIT: Step = |workers| {
    workers.announce_drain(A, DrainState::GracefulExit).unwrap();
};
const ANNOUNCE_DECOMMISSION: Step = |workers| {
    let state = DrainState::DecommissioningThenIdle;
    workers.announce_drain(A, state).unwrap();
};
const ASK_IDLE: Step = |workers| {
    let event = DrainEvent::DecommissionThenIdle;
    workers.request_event(A, event).unwrap();
};
const ASK_BACK: Step = |workers| {
    let event = DrainEvent::Recommission;
    workers.request_event(A, event).unwrap();
};
const WITHDRAW: Step = |workers| workers.withdraw_event(A);

/// The reason that a list gives. `None` stands for no reason of that list.
type List = fn(&IneligibleReason) -> bool;

const EXCLUDED: List = |reason| {
    matches!(
        reason,
        IneligibleReason::ExcludedDisks | IneligibleReason::ExcludedWorkload
    )
};
const MANUALLY: List = |reason| *reason == IneligibleReason::ManuallyExcluded;
const SHUTTING_DOWN: List = |reason| *reason == IneligibleReason::ShuttingDown;
const DECOMMISSIONED: List = |reason| *reason == IneligibleReason::Decommissioned;
const LOST: List = |reason| matches!(reason, IneligibleReason::Lost { .. });
const PENDING: List = |reason| matches!(reason, IneligibleReason::PendingEvent(_));

/// Its name, the list, the steps that enter it, steps that do not leave it, and steps of which each leaves it.
type Row = (
    &'static str,
    List,
    &'static [Step],
    &'static [Step],
    &'static [Step],
);

const LISTS: &[Row] = &[
    (
        "unhealthy",
        EXCLUDED,
        &[BEAT_UNHEALTHY],
        &[BEAT_FULL, BEAT_BUSY],
        &[BEAT, REGISTER, LOSE],
    ),
    (
        "high workload",
        EXCLUDED,
        &[BEAT_BUSY],
        &[BEAT_BUSY, BEAT_FULL, READMIT],
        &[BEAT, REGISTER, LOSE],
    ),
    (
        "manually",
        MANUALLY,
        &[EXCLUDE],
        &[BEAT, REGISTER, LOSE, EXPIRE],
        &[READMIT],
    ),
    // A heartbeat cannot end a shutdown: only another instance comes back.
    (
        "shutdown",
        SHUTTING_DOWN,
        &[ANNOUNCE_EXIT],
        &[BEAT, BEAT_IDLE, LOSE],
        &[REGISTER],
    ),
    (
        "shutdown",
        SHUTTING_DOWN,
        &[ANNOUNCE_EXIT, LOSE],
        &[BEAT],
        &[EXPIRE, REGISTER],
    ),
    (
        "decommission",
        DECOMMISSIONED,
        &[ANNOUNCE_DECOMMISSION],
        &[BEAT_DECOMMISSIONING, BEAT_IDLE, ASK_BACK, LOSE],
        &[REGISTER],
    ),
    // Recommission: the worker has reached Normal.
    (
        "decommission",
        DECOMMISSIONED,
        &[ANNOUNCE_DECOMMISSION, BEAT_IDLE, ASK_BACK],
        &[BEAT_IDLE],
        &[BEAT],
    ),
    (
        "decommission",
        DECOMMISSIONED,
        &[ANNOUNCE_DECOMMISSION, LOSE],
        &[BEAT],
        &[EXPIRE, REGISTER],
    ),
    ("lost", LOST, &[LOSE], &[BEAT, READMIT], &[REGISTER, EXPIRE]),
    (
        "event",
        PENDING,
        &[ASK_IDLE],
        &[BEAT, BEAT_DECOMMISSIONING, LOSE],
        &[REGISTER],
    ),
    (
        "event",
        PENDING,
        &[ASK_IDLE],
        &[],
        &[BEAT_IDLE, WITHDRAW, REGISTER],
    ),
    ("event", PENDING, &[ASK_IDLE, LOSE], &[], &[EXPIRE]),
    (
        "event",
        PENDING,
        &[BEAT_IDLE, ASK_BACK],
        &[BEAT_IDLE, BEAT_DECOMMISSIONING],
        &[BEAT, WITHDRAW],
    ),
];

#[test]
fn every_list_is_entered_and_left_as_in_the_table() {
    for (row, (name, list, enter, stay, leave)) in LISTS.iter().enumerate() {
        let on = |workers: &ArtifactWorkers| workers.reasons(A).any(|reason| list(&reason));
        let mut workers = registered(WorkerPolicy::default());
        assert!(!on(&workers) && workers.is_eligible(A));
        for step in *enter {
            step(&mut workers);
        }
        assert!(on(&workers), "{row} {name}: entered");
        assert!(!workers.is_eligible(A), "{row} {name}");
        for (number, step) in leave.iter().enumerate() {
            let mut after = workers.clone();
            step(&mut after);
            assert!(!on(&after), "{row} {name}: left by {number}");
        }
        for (number, step) in stay.iter().enumerate() {
            step(&mut workers);
            assert!(on(&workers), "{row} {name}: not left by {number}");
        }
    }
}

#[test]
fn heartbeats_of_unknown_workers_change_nothing() {
    let mut workers = registered(WorkerPolicy::default());
    let before = workers.clone();
    let answer = workers.heartbeat(B, report(DrainState::Normal), SIZE);
    assert_eq!(answer, Err(UnknownWorker(B)));
    assert_eq!(
        workers.announce_drain(B, DrainState::GracefulExit),
        Err(UnknownWorker(B))
    );
    let asked = workers.request_event(B, DrainEvent::Graceful);
    assert_eq!(asked, Err(UnknownWorker(B).into()));
    assert!(!workers.lose(B, second(1)));
    assert_eq!(workers, before);
    assert_eq!(reasons(&workers, B), [IneligibleReason::NotRegistered]);
}

#[test]
fn a_recommissioned_worker_is_on_no_list() {
    let mut workers = registered(WorkerPolicy::default());
    ASK_IDLE(&mut workers);
    let idle = DrainEvent::DecommissionThenIdle;
    assert_eq!(beat(&mut workers, report(DrainState::Normal)), Some(idle));
    ANNOUNCE_DECOMMISSION(&mut workers);
    assert_eq!(workers.leaving(), BTreeSet::from([A]));
    let draining = DrainState::DecommissioningThenIdle;
    assert_eq!(beat(&mut workers, report(draining)), Some(idle));
    assert_eq!(beat(&mut workers, report(DrainState::Idle)), None);
    assert_eq!(
        reasons(&workers, A),
        [
            IneligibleReason::Draining(DrainState::Idle),
            IneligibleReason::Decommissioned
        ]
    );
    ASK_BACK(&mut workers);
    let back = Some(DrainEvent::Recommission);
    assert_eq!(beat(&mut workers, report(DrainState::Idle)), back);
    assert_eq!(beat(&mut workers, report(DrainState::Normal)), None);
    assert_eq!(reasons(&workers, A), []);
    assert!(workers.leaving().is_empty());
    assert_eq!(candidates(&workers), [A]);
}

#[test]
fn another_registration_replaces_disks_and_keeps_the_manual_exclusion() {
    let mut workers = registered(WorkerPolicy::default());
    workers.exclude(A);
    let disks = vec![
        disk(8, DiskState::Healthy, 100),
        disk(9, DiskState::Healthy, 200),
    ];
    let again = workers.register(A, registration(with_disks(disks)), SIZE);
    assert_eq!(again, Registered::Again);
    let ids: Vec<u64> = workers.disks(A).map(|disk| disk.id.0).collect();
    assert_eq!(ids, [8, 9]);
    assert_eq!(reasons(&workers, A), [IneligibleReason::ManuallyExcluded]);
    LOSE(&mut workers);
    assert_eq!(workers.disks(A).count(), 0);
    assert_eq!(register(&mut workers, A), Registered::Again);
    LOSE(&mut workers);
    EXPIRE(&mut workers);
    assert_eq!(register(&mut workers, A), Registered::First);
}

#[test]
fn a_heartbeat_replaces_the_disks() {
    let mut workers = registered(WorkerPolicy::default());
    let disks = vec![
        disk(1, DiskState::Healthy, 128),
        disk(5, DiskState::IoHang, 256),
    ];
    beat(&mut workers, with_disks(disks));
    let mut reservations = Reservations::default();
    reservations.reserve([(A, DiskId(1), SIZE)], second(1), Time::NEVER);
    let all = workers.candidates(SIZE, &reservations, &ExceptWorkers::default());
    let available: Vec<(u64, u64)> = all[0]
        .disks
        .iter()
        .map(|one| (one.disk.id.0, one.available))
        .collect();
    assert_eq!(available, [(1, 1), (5, 4)]);
    let except = ExceptWorkers {
        holders: BTreeSet::from([A]),
        ..ExceptWorkers::default()
    };
    assert!(workers.candidates(SIZE, &reservations, &except).is_empty());
}

#[test]
fn a_worker_that_registers_while_it_drains_is_not_eligible() {
    let mut workers = ArtifactWorkers::new(WorkerPolicy::default());
    let draining = DrainState::DecommissioningThenIdle;
    workers.register(A, registration(report(draining)), SIZE);
    assert_eq!(reasons(&workers, A), [IneligibleReason::Draining(draining)]);
    workers.register(B, registration(with_disks(Vec::new())), SIZE);
    assert_eq!(reasons(&workers, B), [IneligibleReason::ExcludedDisks]);
}

#[test]
fn events_replace_each_other_and_leaving_workers_refuse_them() {
    let mut workers = registered(WorkerPolicy::default());
    ASK_IDLE(&mut workers);
    workers.request_event(A, DrainEvent::Graceful).unwrap();
    let answer = beat(&mut workers, report(DrainState::Normal));
    assert_eq!(answer, Some(DrainEvent::Graceful));
    // The event stays until the worker has left.
    let leaving = DrainState::GracefulExit;
    assert_eq!(
        beat(&mut workers, report(leaving)),
        Some(DrainEvent::Graceful)
    );
    for event in DrainEvent::ALL {
        let refused = EventRefused {
            state: leaving,
            event,
        };
        assert_eq!(workers.request_event(A, event), Err(refused.into()));
    }
    // A late heartbeat does not bring it back.
    workers.withdraw_event(A);
    beat(&mut workers, report(DrainState::Normal));
    assert_eq!(reasons(&workers, A), [IneligibleReason::Draining(leaving)]);
}

#[test]
fn the_part_of_unhealthy_disks_decides() {
    let report = |unhealthy: u64| {
        let state = |id| match id < unhealthy {
            true => DiskState::HighUsage,
            false => DiskState::Healthy,
        };
        with_disks((0..4).map(|id| disk(id, state(id), 1024)).collect())
    };
    for (threshold, excluded_from) in [(1000, 4), (500, 2), (750, 3), (251, 2), (0, 0)] {
        let mut workers = registered(WorkerPolicy {
            unhealthy_disks: Permille(threshold),
            ..WorkerPolicy::default()
        });
        for unhealthy in 0..=4 {
            beat(&mut workers, report(unhealthy));
            let excluded = reasons(&workers, A) == [IneligibleReason::ExcludedDisks];
            assert_eq!(
                excluded,
                unhealthy >= excluded_from,
                "{threshold} {unhealthy}"
            );
        }
    }
}

#[test]
fn an_excluded_worker_returns_with_slots_only() {
    let full = || with_disks(vec![disk(1, DiskState::Healthy, 63)]);
    let mut workers = registered(WorkerPolicy::default());
    beat(&mut workers, full());
    assert!(workers.is_eligible(A), "being full excludes nobody");
    beat(&mut workers, busy());
    assert_eq!(workers.excluded(), BTreeSet::from([A]));
    beat(&mut workers, full());
    assert_eq!(reasons(&workers, A), [IneligibleReason::ExcludedWorkload]);
    beat(
        &mut workers,
        with_disks(vec![disk(1, DiskState::Healthy, 64)]),
    );
    assert!(workers.is_eligible(A));
}

/// Returns the number of eligible workers of `count`, of which `busy` have a high workload.
fn eligible_of(count: u32, busy_ones: u32, auto_release: Option<Permille>) -> usize {
    let mut workers = ArtifactWorkers::new(WorkerPolicy {
        auto_release,
        ..WorkerPolicy::default()
    });
    for number in 0..count {
        register(&mut workers, HolderId(number));
    }
    for number in 0..busy_ones {
        workers.heartbeat(HolderId(number), busy(), SIZE).unwrap();
    }
    candidates(&workers).len()
}

#[test]
fn workers_with_high_workload_return_when_too_many_are_excluded() {
    let ratio = Some(WorkerPolicy::AUTO_RELEASE);
    for (count, busy_ones, auto_release, eligible) in [
        (10, 2, ratio, 8),
        // The third one makes 3 of 10, which is the limit: all return.
        (10, 3, ratio, 10),
        (10, 4, ratio, 9),
        (10, 9, None, 1),
        (13, 3, ratio, 13),
        (14, 3, ratio, 11),
        (3, 1, ratio, 3),
    ] {
        let found = eligible_of(count, busy_ones, auto_release);
        assert_eq!(found, eligible, "{busy_ones} of {count}");
    }
    let mut workers = registered(WorkerPolicy {
        auto_release: ratio,
        ..WorkerPolicy::default()
    });
    BEAT_UNHEALTHY(&mut workers);
    assert!(!workers.is_eligible(A), "bad disks are not released");
}

#[test]
fn lost_workers_expire_after_half_an_hour() {
    let mut workers = registered(WorkerPolicy::default());
    ANNOUNCE_EXIT(&mut workers);
    workers.exclude(A);
    LOSE(&mut workers);
    assert!(workers.reasons(A).any(|reason| LOST(&reason)));
    assert_eq!(workers.lost().collect::<Vec<_>>(), [(A, second(100))]);
    workers.expire(second(1900));
    assert!(workers.reasons(A).any(|reason| LOST(&reason)));
    assert_eq!(workers.leaving(), BTreeSet::from([A]));
    workers.expire(second(1901));
    assert!(!workers.reasons(A).any(|reason| LOST(&reason)));
    assert!(workers.leaving().is_empty());
    assert_eq!(workers.excluded(), BTreeSet::from([A]), "by an operator");
}

#[derive(Clone, Debug)]
enum Change {
    Register(DrainState),
    Beat(DrainState, WorkloadLevel, DiskState),
    Announce(DrainState),
    Ask(DrainEvent),
    Withdraw,
    Lose,
    Expire,
    Exclude,
    Readmit,
}

fn change() -> impl Strategy<Value = Change> {
    let state = || proptest::sample::select(&DrainState::ALL[..]);
    let level = proptest::sample::select(&[WorkloadLevel::Normal, WorkloadLevel::High][..]);
    let disk = proptest::sample::select(&[DiskState::Healthy, DiskState::IoHang][..]);
    prop_oneof![
        2 => state().prop_map(Change::Register),
        4 => (state(), level, disk).prop_map(|(state, level, disk)| Change::Beat(state, level, disk)),
        2 => state().prop_map(Change::Announce),
        2 => proptest::sample::select(&DrainEvent::ALL[..]).prop_map(Change::Ask),
        1 => Just(Change::Withdraw),
        1 => Just(Change::Lose),
        1 => Just(Change::Expire),
        1 => Just(Change::Exclude),
        1 => Just(Change::Readmit),
    ]
}

fn apply(workers: &mut ArtifactWorkers, holder: HolderId, change: &Change, now: Time) {
    match change.clone() {
        Change::Register(state) => {
            workers.register(holder, registration(report(state)), SIZE);
        }
        Change::Beat(state, workload, disk_state) => {
            let report = WorkerReport {
                disks: vec![disk(1, disk_state, 1024)],
                workload,
                ..report(state)
            };
            let _ = workers.heartbeat(holder, report, SIZE);
        }
        Change::Announce(state) => {
            let _ = workers.announce_drain(holder, state);
        }
        Change::Ask(event) => {
            let _ = workers.request_event(holder, event);
        }
        Change::Withdraw => workers.withdraw_event(holder),
        Change::Lose => {
            workers.lose(holder, now);
        }
        Change::Expire => workers.expire(now),
        Change::Exclude => workers.exclude(holder),
        Change::Readmit => workers.readmit(holder),
    }
}

integration_tests_properties::properties! {
    300;

    #[test]
    fn no_history_gives_a_draining_worker_slots(
        changes in proptest::collection::vec((0..3_u32, change(), 0..1000_u64), 0..60),
        auto_release in proptest::option::of(Just(WorkerPolicy::AUTO_RELEASE)),
    ) {
        let policy = WorkerPolicy { auto_release, ..WorkerPolicy::default() };
        let mut workers = ArtifactWorkers::new(policy);
        let mut now = Time::ZERO;
        // The state that each worker entered last, by its own word. `None`: it must register.
        let mut states: BTreeMap<u32, Option<DrainState>> = BTreeMap::new();
        for (number, change, seconds) in changes {
            now = now + Duration::from_secs(seconds);
            let holder = HolderId(number);
            apply(&mut workers, holder, &change, now);
            let state = states.entry(number).or_default();
            *state = match (change, *state) {
                (Change::Register(new), _) => Some(new),
                (Change::Beat(new, ..) | Change::Announce(new), Some(old)) => {
                    Some(if old.is_leaving() && !new.is_leaving() { old } else { new })
                }
                (Change::Lose, _) => None,
                (_, old) => old,
            };
            let getting = candidates(&workers);
            for (&number, &state) in &states {
                let holder = HolderId(number);
                let reasons = reasons(&workers, holder);
                prop_assert_eq!(workers.is_eligible(holder), reasons.is_empty());
                prop_assert_eq!(getting.contains(&holder), reasons.is_empty());
                if state != Some(DrainState::Normal) {
                    prop_assert!(!getting.contains(&holder));
                }
                let lost = reasons.iter().any(LOST);
                prop_assert!(!lost || reasons.contains(&IneligibleReason::NotRegistered));
            }
        }
    }
}
