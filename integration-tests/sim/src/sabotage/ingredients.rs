//! Networks, tasks and the calm world that the worlds of injected bugs are built from.

use std::time::Duration;

use brasserie_scheduler_core::Retention;

use super::{Fetch, Rivals, Timing, Wanted};
use crate::event_log::FaultKind;
use crate::network::NetworkFaults;
use crate::processes::ProcessFaults;
use crate::swarm::{Gates, Limits, Machines, Orphans, Restores, Rooms, StartSeconds};

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) const SOUND: NetworkFaults = NetworkFaults {
    delay: ms(5),
    ..NetworkFaults::NONE
};

/// Packets get lost in both directions.
pub(super) const LOSSY: NetworkFaults = NetworkFaults {
    lose_request: 60,
    lose_reply: 60,
    ..SOUND
};

/// Most requests arrive, and most answers do not.
pub(super) const UNANSWERED: NetworkFaults = NetworkFaults {
    lose_reply: 700,
    ..SOUND
};

/// Packets arrive twice, soon or minutes later.
pub(super) const REPEATING: NetworkFaults = NetworkFaults {
    duplicate: 100,
    late_duplicate: 100,
    ..SOUND
};

/// Some packets take long.
pub(super) const SLOW: NetworkFaults = NetworkFaults {
    slow_packet: 100,
    slow: secs(30),
    ..SOUND
};

/// Tasks that outlast the faults of their workers and ignore TERM.
pub(super) const STUBBORN: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 1000,
    slow_kill: 0,
    longest: secs(2000),
};

/// Tasks that outlast their nodes.
pub(super) const LONG: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(60),
};

/// Tasks that end soon, most of them with errors.
pub(super) const FAILING: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 800,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(2),
};

/// A world without faults.
pub(super) const CALM: Wanted = Wanted {
    timing: Timing::Quick,
    rivals: Rivals::None,
    start: None,
    least_places: 1,
    most_places: usize::MAX,
    faults: &[],
    network: SOUND,
    processes: None,
    lasts: secs(600),
    downtime: Some(secs(3)),
    freeze: None,
    sync: None,
    joins: None,
    start_seconds: StartSeconds::Distinct,
    restores: Restores::AsDocumented,
    orphans: Orphans::Stay,
    gates: Gates::None,
    machines: Machines::Alike,
    limits: Limits::None,
    rooms: Rooms::Endless,
    fetch: Fetch::Nobody,
    runs_per_generation: None,
    retention: Retention::UNLIMITED,
};

/// Returns a world with these faults only.
pub(super) const fn calm_but(faults: &'static [(FaultKind, Duration)]) -> Wanted {
    Wanted { faults, ..CALM }
}

/// Messages get lost, and nothing else fails.
pub(super) const LOSING: Wanted = Wanted {
    network: LOSSY,
    ..CALM
};

/// Restarted schedulers adopt long tasks from workers on machines with measured resources.
pub(super) const ADOPTING: Wanted = Wanted {
    faults: &[(FaultKind::SchedulerCrash, secs(40))],
    processes: Some(STUBBORN),
    machines: Machines::Measured,
    ..CALM
};
