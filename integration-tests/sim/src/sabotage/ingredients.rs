//! Networks and tasks of which the worlds of known bugs are made.

use std::time::Duration;

use crate::network::NetworkFaults;
use crate::processes::ProcessFaults;

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

/// Packets get lost, either way.
pub(super) const LOSSY: NetworkFaults = NetworkFaults {
    lose_request: 60,
    lose_reply: 60,
    ..SOUND
};

/// Packets come twice, soon or minutes later.
pub(super) const REPEATING: NetworkFaults = NetworkFaults {
    duplicate: 100,
    late_duplicate: 100,
    ..SOUND
};

/// Some packets are on their way for long.
pub(super) const SLOW: NetworkFaults = NetworkFaults {
    slow_packet: 100,
    slow: secs(30),
    ..SOUND
};

/// Tasks that outlast what happens to their workers, and do not heed TERM.
pub(super) const STUBBORN: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 1000,
    slow_kill: 0,
    longest: secs(2000),
};

/// Tasks that are over soon, most of them badly.
pub(super) const FAILING: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 800,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(2),
};
