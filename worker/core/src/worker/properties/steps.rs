//! The random events of the property tests.

use brasserie_common::Health;
use proptest::prelude::*;

/// One random event. Small numbers pick from small pools.
#[derive(Clone, Debug)]
pub(super) enum WorkerStep {
    Wait(u64),
    Sleep(u64),
    Fetch(Option<i64>),
    Run {
        n: i64,
        node: u8,
        invocation: i64,
        sequence: i64,
        stranger: bool,
    },
    Healthcheck {
        n: i64,
        second: i64,
        first: bool,
    },
    Notify {
        n: i64,
        sequence: i64,
        tasks: Vec<(u8, i64)>,
    },
    Kill(i64, u8, i64),
    Suicide(i64),
    Shutdown,
    Drain,
    ConnectionLost,
    /// The answer to a heartbeat in flight.
    Answer {
        n: i64,
        version: i64,
        state: Health,
    },
    /// The outcome of a report in flight.
    Outcome(usize, u8),
    End(usize, u8),
    /// An end and an outcome that match nothing.
    Stray(u64, u8, i64),
    /// A verdict on a request for work, as the answer to its call or with a heartbeat.
    Verdict(usize, u8),
}

pub(super) fn step() -> impl Strategy<Value = WorkerStep> {
    let state = prop_oneof![
        3 => Just(Health::New),
        5 => Just(Health::Unhealthy),
        20 => Just(Health::Healthy),
        1 => Just(Health::MustDie),
    ];
    let n = prop_oneof![12 => Just(1_i64), 3 => Just(2), 1 => Just(3)];
    prop_oneof![
        8 => (0_u64..20_000).prop_map(WorkerStep::Wait),
        1 => (0_u64..400_000).prop_map(WorkerStep::Sleep),
        4 => proptest::option::weighted(0.8, n.clone()).prop_map(WorkerStep::Fetch),
        16 => (n.clone(), 0_u8..3, 0_i64..30, 0_i64..6, proptest::bool::weighted(0.05)).prop_map(
            |(n, node, invocation, sequence, stranger)| WorkerStep::Run { n, node, invocation, sequence, stranger }
        ),
        4 => (n.clone(), 0_i64..20, any::<bool>())
            .prop_map(|(n, second, first)| WorkerStep::Healthcheck { n, second, first }),
        3 => (n.clone(), 0_i64..6, proptest::collection::vec((0_u8..3, 0_i64..30), 0..4))
            .prop_map(|(n, sequence, tasks)| WorkerStep::Notify { n, sequence, tasks }),
        1 => (n.clone(), 0_u8..3, 0_i64..30).prop_map(|(n, node, i)| WorkerStep::Kill(n, node, i)),
        1 => proptest::option::weighted(0.1, n.clone()).prop_map(|n| n.map_or(WorkerStep::Wait(1), WorkerStep::Suicide)),
        1 => (0_u8..20).prop_map(|die| match die {
            0 | 1 => WorkerStep::Shutdown,
            2 | 3 => WorkerStep::Drain,
            _ => WorkerStep::Wait(1),
        }),
        3 => Just(WorkerStep::ConnectionLost),
        12 => (n, 0_i64..4, state).prop_map(|(n, version, state)| WorkerStep::Answer { n, version, state }),
        10 => (0_usize..8, 0_u8..8).prop_map(|(which, what)| WorkerStep::Outcome(which, what)),
        10 => (0_usize..8, 0_u8..4).prop_map(|(which, what)| WorkerStep::End(which, what)),
        1 => (0_u64..50, 0_u8..3, 0_i64..30).prop_map(|(call, node, i)| WorkerStep::Stray(call, node, i)),
        6 => (0_usize..3, 0_u8..9).prop_map(|(which, what)| WorkerStep::Verdict(which, what)),
    ]
}
