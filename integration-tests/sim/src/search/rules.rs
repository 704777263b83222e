//! The worlds that are searched: without bugs, and for each rule that can be switched off the world in which that breaks the
//! contract.

use brasserie_common::sabotage::Sabotage;

use super::explore::Limits;
use super::settings::{Budget, Settings};

/// A rule, the bug that switches it off, and where that shows.
#[derive(Clone, Debug)]
pub struct Rule {
    pub id: &'static str,
    pub bug: Sabotage,
    pub world: Settings,
}

/// How far a rule's search goes.
pub const RULE_LIMITS: Limits = Limits {
    states: 3_000_000,
    depth: 40,
};

const NO: Budget = Settings::CALM.budget;

/// Two workers of two shards.
const PAIR: Settings = Settings {
    name: "pair",
    places: &[0, 1],
    present: &[0, 1],
    ..Settings::CALM
};

/// Worlds that must keep the contract, small ones first.
#[expect(clippy::too_many_lines, reason = "a table, one world after the other")]
pub fn sound_worlds() -> Vec<Settings> {
    let with = |name, base: &Settings, budget| Settings {
        name,
        budget,
        probe_one_of: 64,
        ..base.clone()
    };
    let alone = Settings::CALM;
    let two_tasks = Settings {
        tasks: 2,
        ..Settings::CALM
    };
    let rivals = Settings {
        places: &[0, 0],
        ..Settings::CALM
    };
    vec![
        with(
            "network",
            &alone,
            Budget {
                drops: 1,
                duplicates: 1,
                breaks: 1,
                failures: 1,
                ..NO
            },
        ),
        with(
            "one crash",
            &alone,
            Budget {
                scheduler_crashes: 1,
                breaks: 1,
                ..NO
            },
        ),
        with(
            "one crash, one duplicate",
            &alone,
            Budget {
                scheduler_crashes: 1,
                duplicates: 1,
                ..NO
            },
        ),
        with(
            "two crashes",
            &alone,
            Budget {
                scheduler_crashes: 2,
                ..NO
            },
        ),
        with(
            "two workers, one crash",
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                breaks: 1,
                ..NO
            },
        ),
        with(
            "two tasks, one crash",
            &two_tasks,
            Budget {
                scheduler_crashes: 1,
                breaks: 1,
                ..NO
            },
        ),
        with(
            "successor",
            &alone,
            Budget {
                scheduler_crashes: 1,
                worker_kills: 1,
                worker_starts: 1,
                ..NO
            },
        ),
        Settings {
            leaps: &[1, 5],
            ..with(
                "rivals",
                &rivals,
                Budget {
                    worker_starts: 1,
                    cuts: 1,
                    leaps: 3,
                    ..NO
                },
            )
        },
        Settings {
            leaps: &[1, 6],
            ..with(
                "loss",
                &PAIR,
                Budget {
                    cuts: 1,
                    leaps: 3,
                    ..NO
                },
            )
        },
        Settings {
            leaps: &[1, 6],
            ..with(
                "loss and crash",
                &PAIR,
                Budget {
                    cuts: 1,
                    leaps: 2,
                    scheduler_crashes: 1,
                    ..NO
                },
            )
        },
        Settings {
            leaps: &[2],
            ..with(
                "old copy",
                &PAIR,
                Budget {
                    backups: 1,
                    scheduler_crashes: 1,
                    cuts: 1,
                    leaps: 1,
                    ..NO
                },
            )
        },
    ]
}

/// Every rule marked M.
#[expect(clippy::too_many_lines, reason = "a table, one world after the other")]
pub fn rules() -> Vec<Rule> {
    let rule = |id, bug, base: &Settings, budget, leaps| Rule {
        id,
        bug,
        world: Settings {
            name: id,
            budget,
            leaps,
            ..base.clone()
        },
    };
    let alone = &Settings::CALM;
    let rivals = &Settings {
        places: &[0, 0],
        ..Settings::CALM
    };
    let bump = &Settings {
        bump_unhealthy: true,
        ..rivals.clone()
    };
    let fresh = &Settings {
        settle: 0,
        tasks_at_once: true,
        places: &[0, 1],
        present: &[0, 1],
        ..Settings::CALM
    };
    let nothing = &Settings {
        new_cluster: false,
        ..PAIR
    };
    use Sabotage as B;
    vec![
        rule(
            "R1",
            B::ShareDirectory,
            alone,
            Budget {
                second_schedulers: 1,
                reroutes: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R3",
            B::RecordAtFirstTask,
            &PAIR,
            Budget {
                backups: 1,
                scheduler_crashes: 1,
                cuts: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R4",
            B::LeaveRecordBeforeBackoff,
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[1, 5],
        ),
        rule(
            "R5",
            B::TrustStaleRecord,
            &PAIR,
            Budget {
                backups: 1,
                scheduler_crashes: 2,
                cuts: 1,
                leaps: 1,
                ..NO
            },
            &[2],
        ),
        rule(
            "R7",
            B::NewClusterAlways,
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                cuts: 1,
                leaps: 1,
                ..NO
            },
            &[2],
        ),
        rule(
            "R9",
            B::ConsensusOverridesRecord,
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[3],
        ),
        rule(
            "R10",
            B::ConsensusOfUnsettledSets,
            nothing,
            Budget {
                scheduler_crashes: 2,
                losses: 2,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[3],
        ),
        rule(
            "R11",
            B::ConsensusBeforeKillMargin,
            nothing,
            Budget {
                scheduler_crashes: 1,
                losses: 1,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[1, 5],
        ),
        rule(
            "R12",
            B::SkipFirstHealthPermission,
            nothing,
            Budget {
                scheduler_crashes: 1,
                losses: 1,
                worker_starts: 1,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[3],
        ),
        rule(
            "R13",
            B::NoBinding,
            alone,
            Budget {
                scheduler_crashes: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R14",
            B::BindBackwards,
            alone,
            Budget {
                scheduler_crashes: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R17",
            B::DropOnAnyAcknowledgement,
            alone,
            Budget {
                scheduler_crashes: 1,
                breaks: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R18 accepted",
            B::ForgetAccepted,
            alone,
            Budget {
                duplicates: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R18 refused",
            B::ForgetRefused,
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                duplicates: 1,
                leaps: 1,
                ..NO
            },
            &[2],
        ),
        rule(
            "R19",
            B::SkipSequenceCheck,
            alone,
            Budget {
                breaks: 2,
                leaps: 2,
                ..NO
            },
            &[1],
        ),
        rule(
            "R21",
            B::NoHoldBack,
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[1, 5],
        ),
        rule(
            "R22",
            B::BumpWithUsualBackoff,
            bump,
            Budget {
                cuts: 1,
                worker_starts: 1,
                leaps: 3,
                ..NO
            },
            &[2, 3],
        ),
        rule(
            "R23",
            B::SuccessorBeforeTheDead,
            alone,
            Budget {
                worker_kills: 1,
                worker_starts: 1,
                leaps: 1,
                ..NO
            },
            &[3],
        ),
        rule(
            "R24",
            B::AcknowledgeBeforeDurable,
            alone,
            Budget {
                scheduler_crashes: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R24 synced",
            B::AcknowledgeBeforeSync,
            alone,
            Budget {
                scheduler_crashes: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R25",
            B::AcknowledgeRepeatAtOnce,
            alone,
            Budget {
                scheduler_crashes: 1,
                duplicates: 1,
                ..NO
            },
            &[],
        ),
        rule(
            "R26",
            B::ForgetSafetyBackoffs,
            &PAIR,
            Budget {
                scheduler_crashes: 1,
                cuts: 1,
                leaps: 2,
                ..NO
            },
            &[1, 5],
        ),
        rule(
            "R27",
            B::AnyRunReplacesProvisional,
            alone,
            Budget {
                breaks: 1,
                failures: 1,
                scheduler_crashes: 1,
                leaps: 2,
                ..NO
            },
            &[2],
        ),
        rule(
            "fresh",
            B::InstanceRecordAfterSending,
            fresh,
            Budget {
                scheduler_crashes: 1,
                ..NO
            },
            &[],
        ),
    ]
}
