//! Properties of random worlds, and of events in any order.

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::super::super::event::{GatherEvent, ReceivedCopy, TransferOutcome, WantedArtifact};
use super::super::super::limits::{BusyJitter, GatherLimits};
use super::super::super::types::{Pressure, TransferId};
use super::super::{Gather, GatherAction};
use super::world::{ArtifactPlan, BusyPlan, Fault, PeerPlan, WorldPlan, faulty_answers, run};
use super::*;

/// The end of everything in a plan that disturbs: wishes, losses, stretches of busy peers, pressure, and the lag of the registry.
const CALM: Duration = Duration::from_secs(8);
/// The most that one fault costs: the query period, and the slowest answers of the scheduler and of a peer.
const COST_OF_FAULT: Duration = Duration::from_millis(15_000 + 100 + 300);
/// The slowest answer of a peer.
const ANSWER: Duration = Duration::from_millis(300);

fn limits() -> impl Strategy<Value = GatherLimits> {
    let small = prop_oneof![Just(1_u64), Just(1000), Just(50_000_000)];
    (
        0..4_usize,
        small.clone(),
        option::of(small.clone()),
        small,
        any::<bool>(),
        (1..4_usize, 1..3_usize),
    )
        .prop_map(
            |(transfers, message, incoming, threshold, jitter, replicas)| GatherLimits {
                transfers,
                replicas: replicas.0,
                replicas_beside_inputs: replicas.1,
                message: ByteCount(message),
                incoming: incoming.map(ByteCount),
                throttle_threshold: ByteCount(threshold),
                busy_jitter: match jitter {
                    true => BusyJitter::Quarter,
                    false => BusyJitter::Off,
                },
                ..GatherLimits::default()
            },
        )
}

fn peer_plan() -> impl Strategy<Value = PeerPlan> {
    let location = prop_oneof![Just('h'), Just('r'), Just('p')];
    let busy = prop_oneof![
        3 => (1..1000_u64).prop_map(BusyPlan::Stretches),
        1 => Just(BusyPlan::Always),
    ];
    let fault = prop_oneof![
        Just(Fault::None),
        Just(Fault::Corrupt),
        Just(Fault::Withhold),
        Just(Fault::Break),
    ];
    (location, busy, vec(fault, 0..3), option::of(0..5000_u64)).prop_map(
        |(location, busy, faults, removed)| PeerPlan {
            location,
            busy,
            faults,
            removed,
        },
    )
}

fn artifact_plan() -> impl Strategy<Value = ArtifactPlan> {
    (
        0..3000_u64,
        option::of(0..3000_u64),
        0..3_i64,
        1..3_u64,
        0..5_usize,
        vec((0..5_usize, option::of(0..5000_u64)), 0..4),
        any::<bool>(),
    )
        .prop_map(
            |(wanted_at, size, priority, tasks, keeper, others, is_listed)| ArtifactPlan {
                wanted_at,
                size,
                priority,
                tasks,
                keeper,
                others,
                is_listed,
            },
        )
}

/// Returns plans in which every keeper serves requests from some time on.
fn plans() -> impl Strategy<Value = WorldPlan> {
    (
        any::<u64>(),
        limits(),
        vec(peer_plan(), 1..6),
        vec(artifact_plan(), 1..9),
        option::of((0..4000_u64, 1..900_u64)),
    )
        .prop_map(|(seed, limits, mut peers, mut artifacts, pressure)| {
            if peers.iter().all(|peer| peer.busy == BusyPlan::Always) {
                peers[0].busy = BusyPlan::Stretches(100);
            }
            let able: Vec<usize> = (0..peers.len())
                .filter(|number| peers[*number].busy != BusyPlan::Always)
                .collect();
            for artifact in &mut artifacts {
                artifact.keeper = able[artifact.keeper % able.len()];
                artifact.others.retain(|(other, _)| *other < peers.len());
            }
            WorldPlan {
                seed,
                limits,
                peers,
                artifacts,
                pressure,
            }
        })
}

/// Returns the virtual time in which all artifacts of a plan must have arrived. Each faulty answer of a keeper may cost a query period, and
/// each artifact may need a transfer of its own, after a refusal by another holder each time.
fn time_needed(plan: &WorldPlan) -> Time {
    let faults = u32::try_from(1 + faulty_answers(plan)).expect("few faults");
    let transfers = u32::try_from(plan.artifacts.len()).expect("few artifacts");
    Time::ZERO + CALM + COST_OF_FAULT * faults + ANSWER * 2 * transfers
}

/// An event of a history without any sense.
#[derive(Clone, Debug)]
enum AnyEvent {
    Want(u8, u64, Option<u64>, Vec<u8>, i64),
    NotWanted(u8, u64),
    Ended(u64, u8, Vec<(u8, bool)>),
    Refreshed(Vec<(u8, Vec<u8>)>),
    Removed(u8),
    Pressure(bool),
    Time,
}

fn priority() -> impl Strategy<Value = i64> {
    prop_oneof![3 => -2..3_i64, 1 => Just(Priority::REPLICA.0)]
}

fn any_event() -> impl Strategy<Value = AnyEvent> {
    let peers = || btree_set(0..5_u8, 0..4).prop_map(|set| set.into_iter().collect::<Vec<u8>>());
    prop_oneof![
        4 => (0..6_u8, 0..3_u64, option::of(0..200_u64), peers(), priority())
            .prop_map(|(a, t, s, h, p)| AnyEvent::Want(a, t, s, h, p)),
        1 => (0..6_u8, 0..3_u64).prop_map(|(a, t)| AnyEvent::NotWanted(a, t)),
        // Most outcomes are of recent transfers.
        6 => (0..4_u64, 0..3_u8, vec((0..6_u8, any::<bool>()), 0..6))
            .prop_map(|(back, kind, copies)| AnyEvent::Ended(back, kind, copies)),
        2 => vec((0..7_u8, peers()), 0..4).prop_map(AnyEvent::Refreshed),
        1 => (0..5_u8).prop_map(AnyEvent::Removed),
        1 => any::<bool>().prop_map(AnyEvent::Pressure),
        3 => Just(AnyEvent::Time),
    ]
}

fn numbered(number: u8) -> Peer {
    peer(["h0", "h1", "r2", "p3", "me"][usize::from(number)])
}

fn event(any: AnyEvent, started: u64) -> GatherEvent {
    let peers = |numbers: Vec<u8>| numbers.into_iter().map(numbered).collect();
    match any {
        AnyEvent::Want(id, task, size, holders, priority) => GatherEvent::Wanted {
            task: WaitingTask(task),
            priority: Priority(priority),
            artifacts: vec![WantedArtifact {
                artifact: artifact(id),
                size: size.map(ByteCount),
                holders: peers(holders),
            }],
        },
        AnyEvent::NotWanted(id, task) => GatherEvent::NotWanted {
            task: WaitingTask(task),
            artifacts: vec![artifact(id)],
        },
        AnyEvent::Ended(back, kind, copies) => {
            let copy = |(id, valid)| match valid {
                true => (artifact(id), ReceivedCopy::Valid),
                false => (artifact(id), ReceivedCopy::Corrupt),
            };
            let copies = copies.into_iter().map(copy).collect();
            GatherEvent::TransferEnded {
                transfer: TransferId(started.saturating_sub(back)),
                outcome: match kind {
                    0 => TransferOutcome::Busy(copies),
                    1 => TransferOutcome::Answered(copies),
                    _ => TransferOutcome::ConnectionFailed(copies),
                },
            }
        }
        AnyEvent::Refreshed(holders) => GatherEvent::HoldersRefreshed {
            holders: holders
                .into_iter()
                .map(|(id, numbers)| (artifact(id), peers(numbers)))
                .collect(),
        },
        AnyEvent::Removed(number) => GatherEvent::PeerRemoved {
            peer: numbered(number).id,
        },
        AnyEvent::Pressure(true) => GatherEvent::PressureChanged(Pressure::High),
        AnyEvent::Pressure(false) => GatherEvent::PressureChanged(Pressure::Normal),
        AnyEvent::Time => GatherEvent::TimePassed,
    }
}

integration_tests_properties::properties! {
    300;

    /// Invariants hold after each event of any history, also of one that no network produces.
    #[test]
    fn any_history_keeps_the_invariants(
        seed in any::<u64>(), limits in limits(), events in vec((any_event(), 0..400_u64), 0..120),
    ) {
        let mut gather = Gather::new(me(), limits, rng(seed));
        let (mut started, mut now) = (0, 0);
        for (any, pause) in events {
            now += pause * pause / 100;
            let actions = gather.handle(event(any, started), at(now));
            gather.check();
            started += actions.iter().filter(|a| matches!(a, GatherAction::Fetch { .. })).count() as u64;
        }
    }

    #[test]
    fn every_artifact_with_a_holder_arrives_in_bounded_time(plan in plans()) {
        let history = run(&plan, time_needed(&plan));
        prop_assert_eq!(history.arrived.len(), plan.artifacts.len(), "{:?}", history.actions);
        let is_missing = |action: &GatherAction| matches!(action, GatherAction::Missing { .. });
        prop_assert!(!history.actions.iter().any(|(_, action)| is_missing(action)));
    }

    /// One more artifact exists only at peers that are always busy, so the worker never stops asking them.
    #[test]
    fn a_busy_peer_gets_few_requests(plan in plans(), sole in 1..3_usize) {
        let mut plan = plan;
        plan.limits.busy_jitter = BusyJitter::Off;
        let first = plan.peers.len();
        for _ in 0..sole {
            plan.peers.push(PeerPlan {
                location: 'p', busy: BusyPlan::Always, faults: Vec::new(), removed: None,
            });
        }
        plan.artifacts.push(ArtifactPlan {
            wanted_at: 0, size: None, priority: 9, tasks: 1, keeper: first,
            others: vec![(first + sole - 1, None)], is_listed: true,
        });
        let end = at(20_000);
        let history = run(&plan, end);
        for (number, peer) in plan.peers.iter().enumerate() {
            let id = PeerId::from(plan.name(number).as_str());
            let requests = history.requests.get(&id).map_or(&[][..], |times| &times[..]);
            let refusals = history.refusals.get(&id).map_or(&[][..], |times| &times[..]);
            if peer.busy == BusyPlan::Always {
                let most = 1 + 20_000 / 150;
                prop_assert!(requests.len() <= most, "{} requests", requests.len());
            }
            for refusal in refusals {
                let next = requests.iter().find(|time| *time >= refusal);
                prop_assert!(next.is_none_or(|next| next.since(*refusal) >= Duration::from_millis(150)));
            }
            if number >= first {
                // The pressure, and limits of one transfer at a time, keep some requests back.
                prop_assert!(requests.len() >= 20, "only {} requests", requests.len());
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_actions(plan in plans()) {
        let end = at(30_000);
        prop_assert_eq!(run(&plan, end), run(&plan, end));
    }
}
