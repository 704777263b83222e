//! The worlds of the injected bugs, one for each, and the networks, tasks and calm world from which they are built.

use std::time::Duration;

use brasserie_common::sabotage::Sabotage;
use brasserie_scheduler_core::Retention;

use super::{Fetch, Focus, Rivals, Timing, WorldRequirements};
use crate::event_log::FaultKind;
use crate::network::NetworkFaults;
use crate::processes::ProcessFaults;
use crate::swarm::{
    ArtifactPlan, Gates, MachineSizing, OrphanFate, Restores, Rooms, Standbys, Start, StartSeconds,
    TimeLimits,
};

const fn focus(bug: Sabotage, laws: &'static [&'static str], world: WorldRequirements) -> Focus {
    Focus {
        bug,
        laws,
        first_seed: 1,
        world,
    }
}

impl Focus {
    const fn beginning_at(self, first_seed: u64) -> Focus {
        Focus { first_seed, ..self }
    }
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

/// Packets get lost in both directions.
const LOSSY: NetworkFaults = NetworkFaults {
    lose_request: 60,
    lose_reply: 60,
    ..SOUND
};

/// Most requests arrive, and most answers do not.
const UNANSWERED: NetworkFaults = NetworkFaults {
    lose_reply: 700,
    ..SOUND
};

/// Packets arrive twice, soon or minutes later.
const REPEATING: NetworkFaults = NetworkFaults {
    duplicate: 100,
    late_duplicate: 100,
    ..SOUND
};

/// Some packets take long.
const SLOW: NetworkFaults = NetworkFaults {
    slow_packet: 100,
    slow: secs(30),
    ..SOUND
};

/// Tasks that outlast the faults of their workers and ignore TERM.
const STUBBORN: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 1000,
    slow_kill: 0,
    longest: secs(2000),
};

/// Tasks that outlast their nodes.
const LONG: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(60),
};

/// Tasks that end soon, most of them with errors.
const FAILING: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 800,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(2),
};

/// Tasks that end soon and succeed.
const SUCCEEDING: ProcessFaults = ProcessFaults {
    spawn_failure: 0,
    ends_badly: 0,
    ignores_term: 0,
    slow_kill: 0,
    longest: secs(10),
};

/// A world without faults.
const CALM: WorldRequirements = WorldRequirements {
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
    orphans: OrphanFate::Stay,
    gates: Gates::None,
    machines: MachineSizing::Alike,
    limits: TimeLimits::None,
    rooms: Rooms::Endless,
    standbys: Standbys::None,
    fetch: Fetch::Nobody,
    runs_per_generation: None,
    retention: Retention::UNLIMITED,
    artifacts: None,
};

impl WorldRequirements {
    /// Returns this world with these faults only.
    const fn but(self, faults: &'static [(FaultKind, Duration)]) -> WorldRequirements {
        WorldRequirements { faults, ..self }
    }

    /// Returns this world with this network.
    const fn over(self, network: NetworkFaults) -> WorldRequirements {
        WorldRequirements { network, ..self }
    }
}

/// Tasks stand by at two workers or more, and take longer than their jobs say, so many of them are taken back.
const STANDING_BY: WorldRequirements = WorldRequirements {
    least_places: 2,
    processes: Some(LONG),
    standbys: Standbys::Some,
    ..CALM
};

/// Messages get lost, and nothing else fails.
const LOSING: WorldRequirements = CALM.over(LOSSY);

/// Tasks of two workers or more leave outputs and read those of others.
const WITH_ARTIFACTS: WorldRequirements = WorldRequirements {
    least_places: 2,
    processes: Some(SUCCEEDING),
    artifacts: Some(ArtifactPlan),
    ..CALM
};

/// Restarted schedulers adopt long tasks from workers on machines with measured resources.
const ADOPTING: WorldRequirements = WorldRequirements {
    faults: &[(FaultKind::SchedulerCrash, secs(40))],
    processes: Some(STUBBORN),
    machines: MachineSizing::Measured,
    ..CALM
};

/// All workers request work, and tasks take long enough for others to wait.
const ASKING: WorldRequirements = WorldRequirements {
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

/// Workers die for long, and schedulers restart again and again.
const SILENCE: WorldRequirements = WorldRequirements {
    faults: &[
        (FaultKind::WorkerKilled, secs(40)),
        (FaultKind::SchedulerCrash, secs(20)),
    ],
    downtime: Some(secs(120)),
    lasts: secs(3000),
    ..CALM
};

/// Workers die, schedulers restart without them, and an operator declares them dead.
const FORGETTING: &[(FaultKind, Duration)] = &[
    (FaultKind::WorkerKilled, secs(10)),
    (FaultKind::SchedulerCrash, secs(20)),
    (FaultKind::OperatorForgetsWorker, secs(2)),
];

/// Jobs, nodes and schedulers come and go.
const COMING_BACK: WorldRequirements = WorldRequirements {
    faults: &[
        (FaultKind::ConfigChange, secs(10)),
        (FaultKind::NodesChange, secs(10)),
        (FaultKind::SchedulerCrash, secs(60)),
    ],
    retention: Retention {
        missing_for: secs(30),
        max_missing: usize::MAX,
    },
    ..CALM
};

/// One world for each bug, in their order.
pub static FOCI: [Focus; Sabotage::ALL.len()] = [
    focus(
        Sabotage::SkipSequenceCheck,
        &["denied_never_starts"],
        WorldRequirements {
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
        WorldRequirements {
            faults: &[(FaultKind::SchedulerCrash, secs(20))],
            network: UNANSWERED,
            lasts: secs(1200),
            ..CALM
        },
    ),
    focus(Sabotage::RetrySentInvocation, &["sent_once"], LOSING),
    focus(
        Sabotage::EndWaitOneWorkerEarly,
        &["wait_ends_rightly"],
        CALM.but(&[(FaultKind::SchedulerCrash, secs(60))]),
    ),
    focus(
        Sabotage::IgnoreSafetyWait,
        &["safety_wait", "backoff"],
        CALM.but(&[(FaultKind::WorkerKilled, secs(20))]),
    ),
    focus(
        Sabotage::RestartLostAtConfiguredBackoff,
        &["left_in_one_commit"],
        CALM.but(&[(FaultKind::WorkerKilled, secs(20))]),
    ),
    focus(
        Sabotage::KeepCounterForNewScheduler,
        &["settles"],
        WorldRequirements {
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
    .beginning_at(9),
    focus(Sabotage::AskWithoutRaising, &["settles"], LOSING),
    focus(
        Sabotage::UnknownIsFailure,
        &["running_before_sent", "within_limits"],
        LOSING,
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
        WorldRequirements {
            faults: &[(FaultKind::SlowSync, secs(100))],
            network: REPEATING,
            sync: Some(ms(300)),
            ..CALM
        },
    ),
    focus(
        Sabotage::ForgetTheLiving,
        &["forgotten_is_gone"],
        CALM.but(&[(FaultKind::OperatorForgetsWorker, secs(20))]),
    ),
    focus(
        Sabotage::ForgetSoonAfterARestart,
        &["forgotten_is_gone"],
        WorldRequirements {
            faults: FORGETTING,
            downtime: Some(secs(60)),
            ..CALM
        },
    ),
    focus(
        Sabotage::ForgetAfterAPause,
        &["forgotten_is_gone"],
        CALM.but(&[
            (FaultKind::SchedulerPause, secs(10)),
            (FaultKind::OperatorForgetsWorker, secs(2)),
        ]),
    ),
    focus(
        Sabotage::ForgetInMemory,
        &["forgotten_is_gone"],
        WorldRequirements {
            faults: FORGETTING,
            downtime: Some(secs(60)),
            ..CALM
        },
    ),
    focus(
        Sabotage::StartBeforeForgetIsDurable,
        &["forgotten_is_gone"],
        WorldRequirements {
            faults: FORGETTING,
            downtime: Some(secs(60)),
            sync: Some(ms(300)),
            ..CALM
        },
    ),
    focus(
        Sabotage::TakeBackTheForgotten,
        &["lost_is_lost"],
        WorldRequirements {
            faults: FORGETTING,
            network: NetworkFaults {
                late_duplicate: 400,
                ..REPEATING
            },
            // No worker starts in the place of a dead one.
            downtime: Some(secs(600)),
            lasts: secs(3000),
            ..CALM
        },
    ),
    focus(
        Sabotage::BoundAfterTheAnswer,
        &["dead_by_silence"],
        WorldRequirements {
            // The worker does not know that it was answered, so it does not list its tasks.
            network: UNANSWERED,
            ..SILENCE
        },
    ),
    focus(Sabotage::BoundNotMoved, &["dead_by_silence"], SILENCE),
    focus(
        Sabotage::Row5AsRow4,
        &["stale_is_earlier", "settles"],
        WorldRequirements {
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
        WorldRequirements {
            timing: Timing::Usual,
            least_places: 2,
            ..CALM
        },
    ),
    focus(
        Sabotage::ApplyLateRunningTasks,
        &["healthy_starts", "obedience"],
        WorldRequirements {
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
        // A start that was decided before the pause arrives after the start of the next run, with the smaller fence.
        &[
            "fresh_belief",
            "never_twice",
            "worker_gives_up_first",
            "fences_increase",
        ],
        WorldRequirements {
            faults: &[(FaultKind::Suspend, secs(60))],
            freeze: Some(secs(60)),
            ..CALM
        },
    ),
    focus(
        Sabotage::InstanceRecordAfterSending,
        &["recorded_before_healthy"],
        CALM.but(&[
            (FaultKind::StoreFailure, secs(60)),
            (FaultKind::WorkerKilled, secs(10)),
        ]),
    ),
    focus(
        Sabotage::NotifySettlesNewerInvocation,
        &["settles"],
        WorldRequirements {
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
        WorldRequirements {
            least_places: 2,
            faults: &[(FaultKind::WorkerKilled, secs(30))],
            downtime: Some(secs(200)),
            ..CALM
        },
    ),
    focus(
        Sabotage::ShareDirectory,
        &["one_scheduler_a_directory"],
        CALM.but(&[(FaultKind::LockRefused, secs(60))]),
    ),
    focus(
        Sabotage::RecordAtFirstTask,
        &["recorded_before_healthy", "sets_are_true"],
        CALM,
    ),
    focus(
        Sabotage::LeaveRecordBeforeBackoff,
        &["left_in_one_commit"],
        CALM.but(&[(FaultKind::WorkerKilled, secs(30))]),
    ),
    focus(
        Sabotage::TrustStaleRecord,
        &["wait_ends_rightly"],
        WorldRequirements {
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
        WorldRequirements {
            start: Some(Start::NewCluster),
            faults: &[(FaultKind::SchedulerCrash, secs(60))],
            ..CALM
        },
    ),
    focus(
        Sabotage::ConsensusOverridesRecord,
        &["wait_ends_rightly"],
        WorldRequirements {
            least_places: 2,
            most_places: 3,
            faults: &[
                (FaultKind::SchedulerCrash, secs(40)),
                (FaultKind::WorkerKilled, secs(10)),
            ],
            // Workers learn late of new set members.
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
    .beginning_at(96),
    focus(
        Sabotage::ConsensusOfUnsettledSets,
        &["wait_ends_rightly"],
        WorldRequirements {
            start: Some(Start::Empty),
            faults: &[(FaultKind::LostDirectory, secs(10))],
            downtime: Some(ms(500)),
            ..CALM
        },
    ),
    focus(
        Sabotage::ConsensusBeforeKillMargin,
        &["wait_ends_rightly"],
        WorldRequirements {
            faults: &[(FaultKind::LostDirectory, secs(60))],
            downtime: Some(ms(500)),
            ..CALM
        },
    ),
    focus(
        Sabotage::NoBinding,
        &["obedience"],
        WorldRequirements {
            timing: Timing::Usual,
            faults: &[(FaultKind::SecondScheduler, secs(300))],
            lasts: secs(6000),
            ..CALM
        },
    ),
    focus(
        Sabotage::BindBackwards,
        &["bindings_go_forward"],
        WorldRequirements {
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
        CALM.but(&[(FaultKind::WorkerShutdown, secs(30))])
            .over(REPEATING),
    ),
    focus(
        Sabotage::DropOnAnyAcknowledgement,
        &[
            "running_until_acknowledged",
            "never_twice",
            "acknowledged_is_kept",
        ],
        WorldRequirements {
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
    .beginning_at(78),
    focus(
        Sabotage::ForgetAccepted,
        // A run that begins again has the same fence as before.
        &["accepted_once", "fences_increase"],
        CALM.over(REPEATING),
    ),
    focus(
        Sabotage::ForgetRefused,
        &["denied_never_starts"],
        CALM.over(NetworkFaults {
            duplicate: 200,
            delay: ms(100),
            ..REPEATING
        })
        .but(&[(FaultKind::WorkerKilled, secs(20))]),
    ),
    focus(
        Sabotage::NoHoldBack,
        &[
            "unknown_tasks_hold_back",
            "nothing_unseen",
            "never_twice",
            "zombies_end",
        ],
        WorldRequirements {
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
    .beginning_at(34),
    focus(
        Sabotage::BumpWithUsualBackoff,
        &["given_away_is_dead", "never_twice", "zombies_end"],
        WorldRequirements {
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
        WorldRequirements {
            faults: &[(FaultKind::WorkerKilled, secs(10))],
            downtime: Some(ms(100)),
            ..CALM
        },
    ),
    focus(
        Sabotage::AnyRunReplacesProvisional,
        &["ends_are_not_undone"],
        WorldRequirements {
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
    .beginning_at(35),
    focus(
        Sabotage::ForgetSafetyWaits,
        &["safety_wait"],
        WorldRequirements {
            faults: &[
                (FaultKind::WorkerKilled, secs(10)),
                (FaultKind::SchedulerCrash, secs(20)),
            ],
            downtime: Some(ms(500)),
            ..CALM
        },
    ),
    focus(
        Sabotage::KillOrphansAtOnce,
        &["orphans_end"],
        WorldRequirements {
            faults: &[(FaultKind::ConfigChange, secs(10))],
            orphans: OrphanFate::End,
            ..CALM
        },
    ),
    focus(
        Sabotage::ForgiveSafetyToo,
        &["safety_wait", "backoff"],
        CALM.but(&[
            (FaultKind::WorkerKilled, secs(20)),
            (FaultKind::OperatorForgives, secs(3)),
        ]),
    ),
    focus(
        Sabotage::GiveBackNamesInUse,
        &["settles"],
        WorldRequirements {
            faults: &[(FaultKind::NodesChange, secs(3))],
            processes: Some(LONG),
            ..CALM
        },
    ),
    focus(
        Sabotage::ForgetWhatWasDeleted,
        &["deleted_stays_deleted"],
        WorldRequirements {
            faults: &[
                (FaultKind::SchedulerCrash, secs(20)),
                (FaultKind::OperatorForgets, secs(2)),
            ],
            network: NetworkFaults {
                lose_reply: 300,
                ..SOUND
            },
            processes: Some(FAILING),
            downtime: Some(ms(500)),
            lasts: secs(1200),
            ..CALM
        },
    ),
    focus(
        Sabotage::StartBeforeDeletionIsDurable,
        &["deleted_stays_deleted"],
        CALM.but(&[(FaultKind::OperatorForgets, secs(3))]),
    ),
    focus(
        Sabotage::FailureOpensGate,
        &["gates_hold"],
        WorldRequirements {
            processes: Some(FAILING),
            gates: Gates::Some,
            ..CALM
        },
    ),
    focus(
        Sabotage::AdoptWithoutCharges,
        &["within_limits", "within_machines"],
        ADOPTING,
    ),
    focus(
        // The bug has no effect on processes, because workers refuse GPUs that are not free. The tasks sent to workers show it.
        Sabotage::AdoptWithoutCards,
        &["within_limits"],
        ADOPTING,
    ),
    focus(
        Sabotage::GiveAwayTheReserve,
        &["within_limits", "within_machines"],
        WorldRequirements {
            machines: MachineSizing::Measured,
            ..CALM
        },
    ),
    focus(
        Sabotage::HideHowLong,
        &["worker_gives_up_first"],
        WorldRequirements {
            faults: &[
                (FaultKind::SchedulerCrash, secs(20)),
                (FaultKind::AsymmetricPartition, secs(10)),
            ],
            network: UNANSWERED,
            lasts: secs(6000),
            ..CALM
        },
    )
    .beginning_at(83),
    focus(
        Sabotage::RefillOnReplay,
        &["within_credit"],
        // A run that has ended since is no longer charged.
        WorldRequirements {
            network: REPEATING,
            processes: None,
            ..ASKING
        },
    ),
    focus(
        Sabotage::CreditOfTheSick,
        &["within_credit"],
        WorldRequirements {
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
        ASKING.over(UNSURE),
    ),
    focus(
        Sabotage::HideQueued,
        &["running_until_acknowledged"],
        ASKING.but(&[(FaultKind::SchedulerCrash, secs(30))]),
    ),
    focus(
        Sabotage::DenyQueued,
        &["denied_never_starts", "running_until_acknowledged"],
        WorldRequirements {
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
        WorldRequirements {
            machines: MachineSizing::Measured,
            ..ASKING
        },
    ),
    focus(Sabotage::SendForNothing, &["within_credit"], ASKING),
    focus(
        Sabotage::CreditOfWhatIsPutOff,
        &["within_credit"],
        ASKING.but(&[(FaultKind::SchedulerCrash, secs(30))]),
    ),
    focus(
        Sabotage::GiveBackTwice,
        &["within_credit"],
        ASKING.over(LATE),
    ),
    focus(
        Sabotage::KeepWaitingWhenIdle,
        &["idle_is_fed"],
        WorldRequirements {
            fetch: Fetch::EverybodyAnew,
            ..ASKING
        },
    ),
    focus(
        Sabotage::NeverAbandonReplies,
        &["requests_are_answered"],
        CALM.but(&[(FaultKind::StoreFailure, secs(60))]),
    ),
    focus(
        Sabotage::LetRepeatsPileUp,
        &["requests_are_answered"],
        CALM.but(&[(FaultKind::StoreFailure, secs(60))])
            .over(REPEATING),
    ),
    focus(
        Sabotage::FenceNotRaisedAboveReports,
        &["fences_increase"],
        WorldRequirements {
            // The next scheduler begins a second after the last one, whose generations have gone on since.
            faults: &[
                (FaultKind::LostDirectory, secs(30)),
                (FaultKind::WallJump, secs(5)),
            ],
            downtime: Some(ms(500)),
            runs_per_generation: Some(1),
            ..CALM
        },
    ),
    focus(
        Sabotage::GenerationNotSynced,
        &["fences_increase"],
        WorldRequirements {
            // Tasks end and run again, and the runs that a worker still lists raise the fences.
            faults: &[
                (FaultKind::SchedulerCrash, secs(20)),
                (FaultKind::WallJump, secs(5)),
            ],
            processes: Some(FAILING),
            downtime: Some(ms(500)),
            lasts: secs(1200),
            runs_per_generation: Some(1),
            ..CALM
        },
    ),
    focus(
        Sabotage::ExpireWhatCameBack,
        &["only_the_missing_expire"],
        COMING_BACK,
    ),
    focus(
        Sabotage::CountAgeFromTheStart,
        &["only_the_missing_expire"],
        COMING_BACK,
    ),
    focus(
        Sabotage::IgnoreMaxRunning,
        &["within_limits"],
        WorldRequirements {
            faults: &[(FaultKind::SchedulerCrash, secs(40))],
            processes: Some(LONG),
            rooms: Rooms::Small,
            ..CALM
        },
    ),
    focus(
        Sabotage::BeginWithoutSlots,
        &["within_stated_slots"],
        STANDING_BY,
    ),
    focus(
        Sabotage::KillBegunForTakeBack,
        &["returned_is_no_run"],
        STANDING_BY.over(SLOW),
    ),
    focus(
        Sabotage::StartWhileTakingBack,
        // The worker may begin the run that it should return after the next run has begun elsewhere.
        &[
            "never_twice",
            "running_until_acknowledged",
            "fences_increase",
        ],
        STANDING_BY.over(SLOW),
    ),
    focus(Sabotage::LoseTakenBack, &["settles"], STANDING_BY),
    focus(
        Sabotage::TakeBackAdvancesBackoff,
        &["returned_is_no_run"],
        STANDING_BY,
    ),
    focus(
        Sabotage::NeverTakeBack,
        &["taken_back_in_time"],
        STANDING_BY,
    ),
    focus(
        Sabotage::StageWithoutCheck,
        &["inputs_are_complete"],
        WITH_ARTIFACTS.but(&[(FaultKind::CopyDamaged, secs(2))]),
    ),
    focus(
        Sabotage::DeleteWithoutGrace,
        &["last_copy_stays"],
        WITH_ARTIFACTS.over(LOSSY),
    ),
    focus(
        Sabotage::LoseRefusedTransfer,
        &["inputs_are_sought"],
        WITH_ARTIFACTS,
    ),
    focus(
        Sabotage::NeverUnwanted,
        &["unnamed_data_goes"],
        WITH_ARTIFACTS.but(&[(FaultKind::OperatorForgets, secs(20))]),
    ),
    focus(
        Sabotage::ForgetOutputs,
        &["inputs_are_complete"],
        WITH_ARTIFACTS,
    ),
    focus(
        Sabotage::LeaveWithTheOnlyCopy,
        &["leaves_nothing_behind"],
        WITH_ARTIFACTS.but(&[(FaultKind::OperatorOrders, secs(10))]),
    ),
];
