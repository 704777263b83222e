//! The worlds of the injected bugs of work fetch.

use brasserie_common::sabotage::Sabotage;

use super::foci::focus;
use super::ingredients::{CALM, LONG, LOSSY, REPEATING, SOUND, ms, secs};
use super::{Fetch, Focus, Wanted};
use crate::event_log::FaultKind;
use crate::network::NetworkFaults;
use crate::swarm::Machines;

/// All workers request work, and tasks take long enough for others to wait.
const ASKING: Wanted = Wanted {
    processes: Some(LONG),
    fetch: Fetch::Everybody,
    lasts: secs(1200),
    ..CALM
};

/// Packets get lost or take long.
const UNSURE: NetworkFaults = NetworkFaults {
    lose_reply: 300,
    slow_packet: 100,
    slow: secs(20),
    ..LOSSY
};

/// Completions arrive long after their workers have asked again.
const LATE: NetworkFaults = NetworkFaults {
    slow_packet: 300,
    slow: secs(20),
    ..SOUND
};

/// The worlds in the order of the bugs.
pub(super) const OF_WORK_FETCH: [Focus; 11] = [
    focus(
        Sabotage::RefillOnReplay,
        &["within_credit"],
        // A run that has ended since is no longer charged.
        Wanted {
            network: REPEATING,
            processes: None,
            ..ASKING
        },
    ),
    focus(
        Sabotage::CreditOfTheSick,
        &["within_credit"],
        Wanted {
            faults: &[
                (FaultKind::AsymmetricPartition, secs(15)),
                (FaultKind::WorkerPause, secs(15)),
            ],
            freeze: Some(secs(8)),
            ..ASKING
        },
    ),
    focus(
        Sabotage::ForgetWhatIsOnItsWay,
        &["within_credit"],
        Wanted {
            network: UNSURE,
            ..ASKING
        },
    ),
    focus(
        Sabotage::HideQueued,
        &["running_until_acknowledged"],
        Wanted {
            faults: &[(FaultKind::SchedulerCrash, secs(30))],
            ..ASKING
        },
    ),
    focus(
        Sabotage::DenyQueued,
        &["denied_never_starts", "running_until_acknowledged"],
        Wanted {
            network: UNSURE,
            downtime: Some(ms(500)),
            ..ASKING
        },
    ),
    focus(
        Sabotage::BeginWithoutProcessors,
        &["within_processors"],
        ASKING,
    ),
    focus(
        Sabotage::ChooseCardsBlindly,
        &["within_machines"],
        Wanted {
            machines: Machines::Measured,
            ..ASKING
        },
    ),
    focus(Sabotage::SendForNothing, &["within_credit"], ASKING),
    focus(
        Sabotage::CreditOfWhatIsPutOff,
        &["within_credit"],
        Wanted {
            faults: &[(FaultKind::SchedulerCrash, secs(30))],
            ..ASKING
        },
    ),
    focus(
        Sabotage::GiveBackTwice,
        &["within_credit"],
        Wanted {
            network: LATE,
            ..ASKING
        },
    ),
    focus(
        Sabotage::KeepWaitingWhenIdle,
        &["idle_is_fed"],
        Wanted {
            fetch: Fetch::EverybodyAnew,
            ..ASKING
        },
    ),
];
