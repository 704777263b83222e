//! Where each known bug shows: a world that provokes it, drawn from the same generator as every other, and the laws that may catch it
//! there. The laws are the ordinary ones; nothing in them knows of a bug.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};

use crate::dice::{Dice, Stream};
use crate::event_log::FaultKind;
use crate::invariants::Laws;
use crate::network::NetworkFaults;
use crate::processes::ProcessFaults;
use crate::run::{Broken, Outcome, Settings, run_swarm};
use crate::swarm::{Restores, Start, StartSeconds, Swarm, Variant};

/// A bug and where it shows.
#[derive(Clone, Copy, Debug)]
pub struct Focus {
    pub bug: Sabotage,
    /// Any of them may be the first that it breaks.
    pub laws: &'static [&'static str],
    /// From this seed on it is caught within a few.
    pub first_seed: u64,
    world: Wanted,
}

/// Which timeouts a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// Of seconds.
    Quick,
    /// The defaults.
    Usual,
}

/// Whether somebody else claims a shard, and may get it from an unhealthy worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rivals {
    None,
    Bumping,
}

/// What a drawn world must be like, and what takes the place of what was drawn. `None`: as drawn.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    timing: Timing,
    rivals: Rivals,
    start: Option<Start>,
    least_places: usize,
    most_places: usize,
    /// These and no others.
    faults: &'static [(FaultKind, Duration)],
    network: NetworkFaults,
    processes: Option<ProcessFaults>,
    /// A run lasts so long.
    lasts: Duration,
    downtime: Option<Duration>,
    freeze: Option<Duration>,
    sync: Option<Duration>,
    joins: Option<Duration>,
    start_seconds: StartSeconds,
    restores: Restores,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const SOUND: NetworkFaults = NetworkFaults {
    delay: ms(5),
    ..NetworkFaults::NONE
};

/// Packets get lost, either way.
const LOSSY: NetworkFaults = NetworkFaults {
    lose_request: 60,
    lose_reply: 60,
    ..SOUND
};

/// Packets come twice, soon or minutes later.
const REPEATING: NetworkFaults = NetworkFaults {
    duplicate: 100,
    late_duplicate: 100,
    ..SOUND
};

/// Some packets are on their way for long.
const SLOW: NetworkFaults = NetworkFaults {
    slow_packet: 100,
    slow: secs(30),
    ..SOUND
};

/// A sound world in which nothing but work happens.
const CALM: Wanted = Wanted {
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
};

/// Tasks that outlast what happens to their workers, and do not heed TERM.
const STUBBORN: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 1000,
    slow_kill: 0,
    longest: secs(2000),
};

/// Tasks that are over soon, most of them badly.
const FAILING: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 800,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(2),
};

const fn focus(bug: Sabotage, laws: &'static [&'static str], world: Wanted) -> Focus {
    Focus {
        bug,
        laws,
        first_seed: 1,
        world,
    }
}

impl Focus {
    const fn from_seed(self, first_seed: u64) -> Focus {
        Focus { first_seed, ..self }
    }
}

/// One for each bug, in their order.
pub const FOCI: [Focus; Sabotage::ALL.len()] = [
    focus(
        Sabotage::SkipSequenceCheck,
        &["denied_never_starts"],
        Wanted {
            timing: Timing::Usual,
            network: SLOW,
            lasts: secs(3000),
            ..CALM
        },
    ),
    focus(
        Sabotage::MarkRunningAfterSending,
        &["running_before_sent"],
        CALM,
    ),
    focus(
        Sabotage::AcceptStatusInNew,
        &["no_status_in_new"],
        Wanted {
            faults: &[(FaultKind::SchedulerCrash, secs(20))],
            network: NetworkFaults {
                lose_reply: 700,
                ..SOUND
            },
            lasts: secs(1200),
            ..CALM
        },
    ),
    focus(
        Sabotage::RetrySentInvocation,
        &["sent_once"],
        Wanted {
            network: LOSSY,
            ..CALM
        },
    ),
    focus(
        Sabotage::EndWaitOneWorkerEarly,
        &["wait_ends_rightly"],
        Wanted {
            faults: &[(FaultKind::SchedulerCrash, secs(60))],
            ..CALM
        },
    ),
    focus(
        Sabotage::IgnoreSafetyBackoff,
        &["safety_backoff", "backoff"],
        Wanted {
            faults: &[(FaultKind::WorkerKilled, secs(20))],
            ..CALM
        },
    ),
    focus(
        Sabotage::RestartLostAtConfiguredBackoff,
        &["left_in_one_commit"],
        Wanted {
            faults: &[(FaultKind::WorkerKilled, secs(20))],
            ..CALM
        },
    ),
    focus(
        Sabotage::KeepCounterForNewScheduler,
        &["settles"],
        Wanted {
            timing: Timing::Usual,
            most_places: 1,
            faults: &[(FaultKind::SchedulerCrash, secs(500))],
            network: NetworkFaults {
                lose_request: 200,
                ..LOSSY
            },
            lasts: secs(3000),
            ..CALM
        },
    )
    .from_seed(9),
    focus(
        Sabotage::AskWithoutRaising,
        &["settles"],
        Wanted {
            network: LOSSY,
            ..CALM
        },
    ),
    focus(
        Sabotage::UnknownIsFailure,
        &["running_before_sent", "within_limits"],
        Wanted {
            network: LOSSY,
            ..CALM
        },
    ),
    focus(
        Sabotage::AcknowledgeBeforeDurable,
        &["own_record_first", "acknowledged_after_sync"],
        CALM,
    ),
    focus(
        Sabotage::AcknowledgeBeforeSync,
        &["own_record_first", "acknowledged_after_sync"],
        CALM,
    ),
    focus(
        Sabotage::AcknowledgeRepeatAtOnce,
        &["acknowledged_after_sync"],
        Wanted {
            faults: &[(FaultKind::SlowSync, secs(100))],
            network: REPEATING,
            sync: Some(ms(300)),
            ..CALM
        },
    ),
    focus(
        Sabotage::Row5AsRow4,
        &["settles"],
        Wanted {
            most_places: 1,
            faults: &[(FaultKind::WorkerKilled, ms(500))],
            downtime: Some(ms(60)),
            lasts: secs(60),
            start_seconds: StartSeconds::MayRepeat,
            ..CALM
        },
    ),
    focus(
        Sabotage::SkipFirstHealthPermission,
        &["every_viable_set", "first_health_after_echo"],
        Wanted {
            timing: Timing::Usual,
            least_places: 2,
            ..CALM
        },
    ),
    focus(
        Sabotage::ApplyLateRunningTasks,
        &["healthy_starts", "obedience"],
        Wanted {
            faults: &[(FaultKind::WorkerKilled, secs(3))],
            network: NetworkFaults {
                slow_packet: 300,
                slow: secs(6),
                ..SOUND
            },
            downtime: Some(ms(200)),
            ..CALM
        },
    ),
    focus(
        Sabotage::IgnoreSuspend,
        &["fresh_belief", "never_twice", "worker_gives_up_first"],
        Wanted {
            faults: &[(FaultKind::Suspend, secs(60))],
            freeze: Some(secs(60)),
            ..CALM
        },
    ),
    focus(
        Sabotage::InstanceRecordAfterSending,
        &["recorded_before_healthy"],
        Wanted {
            faults: &[
                (FaultKind::StoreFailure, secs(60)),
                (FaultKind::WorkerKilled, secs(10)),
            ],
            ..CALM
        },
    ),
    focus(
        Sabotage::NotifySettlesNewerInvocation,
        &["settles"],
        Wanted {
            timing: Timing::Usual,
            most_places: 2,
            network: NetworkFaults {
                lose_request: 300,
                slow_packet: 500,
                slow: secs(4),
                ..SOUND
            },
            lasts: secs(3000),
            ..CALM
        },
    ),
    focus(
        Sabotage::SetIdGoesBack,
        &["sets_are_true", "sets_go_forward"],
        Wanted {
            least_places: 2,
            faults: &[(FaultKind::WorkerKilled, secs(30))],
            downtime: Some(secs(200)),
            ..CALM
        },
    ),
    focus(
        Sabotage::ShareDirectory,
        &["one_scheduler_a_directory"],
        Wanted {
            faults: &[(FaultKind::LockRefused, secs(60))],
            ..CALM
        },
    ),
    focus(
        Sabotage::RecordAtFirstTask,
        &["recorded_before_healthy", "sets_are_true"],
        CALM,
    ),
    focus(
        Sabotage::LeaveRecordBeforeBackoff,
        &["left_in_one_commit"],
        Wanted {
            faults: &[(FaultKind::WorkerKilled, secs(30))],
            ..CALM
        },
    ),
    focus(
        Sabotage::TrustStaleRecord,
        &["wait_ends_rightly"],
        Wanted {
            faults: &[
                (FaultKind::StaleCopy, secs(60)),
                (FaultKind::SchedulerCrash, secs(60)),
            ],
            restores: Restores::Carelessly,
            ..CALM
        },
    ),
    focus(
        Sabotage::NewClusterAlways,
        &["wait_ends_rightly"],
        Wanted {
            start: Some(Start::NewCluster),
            faults: &[(FaultKind::SchedulerCrash, secs(60))],
            ..CALM
        },
    ),
    focus(
        Sabotage::ConsensusOverridesRecord,
        &["wait_ends_rightly"],
        Wanted {
            least_places: 2,
            most_places: 3,
            faults: &[
                (FaultKind::SchedulerCrash, secs(40)),
                (FaultKind::WorkerKilled, secs(10)),
            ],
            // Workers hear late who has come.
            network: NetworkFaults {
                slow_packet: 400,
                slow: secs(6),
                ..SOUND
            },
            downtime: Some(secs(40)),
            lasts: secs(3000),
            ..CALM
        },
    )
    .from_seed(16),
    focus(
        Sabotage::ConsensusOfUnsettledSets,
        &["wait_ends_rightly"],
        Wanted {
            start: Some(Start::Empty),
            faults: &[(FaultKind::LostDirectory, secs(10))],
            downtime: Some(ms(500)),
            ..CALM
        },
    ),
    focus(
        Sabotage::ConsensusBeforeKillMargin,
        &["wait_ends_rightly"],
        Wanted {
            faults: &[(FaultKind::LostDirectory, secs(60))],
            downtime: Some(ms(500)),
            ..CALM
        },
    ),
    focus(
        Sabotage::NoBinding,
        &["obedience"],
        Wanted {
            timing: Timing::Usual,
            faults: &[(FaultKind::SecondScheduler, secs(300))],
            lasts: secs(6000),
            ..CALM
        },
    ),
    focus(
        Sabotage::BindBackwards,
        &["bindings_go_forward"],
        Wanted {
            timing: Timing::Usual,
            faults: &[(FaultKind::SchedulerCrash, secs(100))],
            network: REPEATING,
            lasts: secs(2000),
            ..CALM
        },
    ),
    focus(
        Sabotage::TakeBackTheLost,
        &["lost_is_lost"],
        Wanted {
            faults: &[(FaultKind::WorkerShutdown, secs(30))],
            network: REPEATING,
            ..CALM
        },
    ),
    focus(
        Sabotage::DropOnAnyAcknowledgement,
        &[
            "running_until_acknowledged",
            "never_twice",
            "acknowledged_is_kept",
        ],
        Wanted {
            faults: &[(FaultKind::SchedulerCrash, secs(20))],
            network: NetworkFaults {
                lose_reply: 200,
                slow_packet: 300,
                slow: secs(4),
                ..SOUND
            },
            processes: Some(FAILING),
            ..CALM
        },
    )
    .from_seed(7),
    focus(
        Sabotage::ForgetAccepted,
        &["accepted_once"],
        Wanted {
            network: REPEATING,
            ..CALM
        },
    ),
    focus(
        Sabotage::ForgetRefused,
        &["denied_never_starts"],
        Wanted {
            network: NetworkFaults {
                duplicate: 200,
                delay: ms(100),
                ..REPEATING
            },
            faults: &[(FaultKind::WorkerKilled, secs(20))],
            ..CALM
        },
    ),
    focus(
        Sabotage::NoHoldBack,
        &["nothing_unseen", "never_twice", "zombies_end"],
        Wanted {
            timing: Timing::Usual,
            most_places: 3,
            faults: &[
                (FaultKind::SchedulerCrash, secs(900)),
                (FaultKind::AsymmetricPartition, secs(100)),
            ],
            processes: Some(STUBBORN),
            lasts: secs(20_000),
            ..CALM
        },
    )
    .from_seed(34),
    focus(
        Sabotage::BumpWithUsualBackoff,
        &["never_twice", "zombies_end"],
        Wanted {
            timing: Timing::Usual,
            rivals: Rivals::Bumping,
            faults: &[(FaultKind::Partition, secs(300))],
            processes: Some(STUBBORN),
            lasts: secs(6000),
            ..CALM
        },
    ),
    focus(
        Sabotage::SuccessorBeforeTheDead,
        &["predecessor_is_dead"],
        Wanted {
            faults: &[(FaultKind::WorkerKilled, secs(10))],
            downtime: Some(ms(100)),
            ..CALM
        },
    ),
    focus(
        Sabotage::AnyRunReplacesProvisional,
        &["ends_are_not_undone"],
        Wanted {
            faults: &[
                (FaultKind::AsymmetricPartition, secs(10)),
                (FaultKind::WorkerKilled, secs(5)),
            ],
            network: LOSSY,
            processes: Some(FAILING),
            downtime: Some(ms(500)),
            lasts: secs(1200),
            ..CALM
        },
    )
    .from_seed(35),
    focus(
        Sabotage::ForgetSafetyBackoffs,
        &["safety_backoff"],
        Wanted {
            faults: &[
                (FaultKind::WorkerKilled, secs(10)),
                (FaultKind::SchedulerCrash, secs(20)),
            ],
            downtime: Some(ms(500)),
            ..CALM
        },
    ),
];

impl Focus {
    pub fn of(bug: Sabotage) -> &'static Focus {
        let found = FOCI.iter().find(|focus| focus.bug == bug);
        found.expect("Invariant: each bug has a focus")
    }

    /// The world that this seed gives: the first one drawn that fits.
    pub fn swarm(&self, seed: u64) -> Swarm {
        let mut dice = Dice::new(seed, Stream::Swarm);
        let mut variants = Dice::new(seed, Stream::Variants);
        let mut swarm = Swarm::draw(&mut dice, &mut variants);
        while !self.world.fits(&swarm) {
            swarm = Swarm::draw(&mut dice, &mut variants);
        }
        self.world.shape(swarm)
    }

    /// Plays one seed with the bug, or without it.
    pub fn play(
        &self,
        (seed, bug): (u64, Option<Sabotage>),
        settings: &Settings,
        sink: &mut dyn FnMut(&str),
    ) -> Outcome {
        sabotage::choose(bug);
        let swarm = self.swarm(seed);
        let outcome = run_swarm((seed, swarm), settings, Laws::all(), sink);
        sabotage::choose(None);
        outcome
    }

    /// The first of these seeds in which a law catches the bug.
    pub fn hunt(&self, seeds: std::ops::Range<u64>) -> Option<Catch> {
        for seed in seeds.clone() {
            let outcome = self.play((seed, Some(self.bug)), &Settings::default(), &mut |_| ());
            if let Some(broken) = outcome.violations.into_iter().next() {
                let seeds = seed - seeds.start + 1;
                return Some(Catch {
                    seed,
                    seeds,
                    broken,
                });
            }
        }
        None
    }
}

/// How a bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    pub seed: u64,
    /// How many it took.
    pub seeds: u64,
    pub broken: Broken,
}

impl Wanted {
    fn fits(&self, swarm: &Swarm) -> bool {
        let is_quick = swarm.heartbeat_period == secs(1);
        let timing = match self.timing {
            Timing::Quick => is_quick,
            Timing::Usual => !is_quick,
        };
        let has_rivals = swarm.places.iter().any(|plan| plan.is_rival);
        let rivals = match self.rivals {
            Rivals::None => !has_rivals,
            Rivals::Bumping => has_rivals && swarm.bump_unhealthy,
        };
        let places = (self.least_places..=self.most_places).contains(&swarm.places.len());
        let start = self.start.is_none_or(|start| start == swarm.start);
        let is_plain = swarm.variant == Variant::Mixed && swarm.settings.len() == 1;
        timing && rivals && places && start && is_plain && !swarm.mixed_bump
    }

    fn shape(&self, drawn: Swarm) -> Swarm {
        Swarm {
            faults: self.faults.to_vec(),
            network: self.network,
            processes: self.processes.unwrap_or(drawn.processes),
            fault_phase: self.lasts,
            longest_downtime: self.downtime.unwrap_or(drawn.longest_downtime),
            longest_freeze: self.freeze.unwrap_or(drawn.longest_freeze),
            sync_delay: self.sync.unwrap_or(drawn.sync_delay),
            spread_out_joins: self.joins.unwrap_or(drawn.spread_out_joins),
            start_seconds: self.start_seconds,
            restores: self.restores,
            ..drawn
        }
    }
}
