//! The smallest known world in which the contract breaks without a rule, for each rule that can be switched off.

use brasserie_common::sabotage::Sabotage;

use super::explore::SearchLimits;
use super::settings::{
    Choice, FaultBudget, Listing, NewCluster, PacketClass, TasksCome, WorldSettings,
};
use super::worlds::{ALONE, BUMP, FORGETTING, NO, PAIR, PATIENT, SLOW, STANDBY};
use crate::event_log::WorkerPlace;

/// A rule, the injected bug that switches it off, and the world in which that shows.
#[derive(Clone, Debug)]
pub struct Rule {
    pub id: &'static str,
    pub bug: Sabotage,
    pub world: WorldSettings,
}

/// The limits of a rule's search: several times what the widest of these worlds needs.
pub const RULE_LIMITS: SearchLimits = SearchLimits {
    states: 400_000,
    depth: 100,
};

/// Returns every rule marked M.
pub fn rules() -> Vec<Rule> {
    let mut rules = directory_rules();
    rules.extend(wait_rules());
    rules.extend(worker_rules());
    rules.extend(status_rules());
    rules.extend(standby_rules());
    rules
}

const W0: WorkerPlace = WorkerPlace(0);
const W1: WorkerPlace = WorkerPlace(1);

fn rule(
    id: &'static str,
    bug: Sabotage,
    base: WorldSettings,
    budget: FaultBudget,
    leaps: &'static [u64],
) -> Rule {
    let world = WorldSettings {
        name: id,
        budget,
        leaps,
        ..base
    };
    Rule { id, bug, world }
}

/// Returns the rules R1 to R7: the scheduler's data directory.
#[expect(clippy::too_many_lines, reason = "a table")]
fn directory_rules() -> Vec<Rule> {
    let late_pair = WorldSettings {
        present: &[],
        ..PATIENT
    };
    let late_tasks = WorldSettings {
        present: &[0],
        tasks_come: TasksCome::ByChoice,
        syncs_at_once: true,
        ..PATIENT
    };
    vec![
        rule(
            "R1",
            Sabotage::ShareDirectory,
            late_pair.clone(),
            NO.worker_starts(2)
                .second_schedulers(1)
                .reroutes(1)
                .leaps(3),
            &[1],
        ),
        rule(
            "R3",
            Sabotage::RecordAtFirstTask,
            WorldSettings {
                opening: &[Choice::Backup, Choice::Submit],
                ..late_tasks.clone()
            },
            NO.backups(1)
                .scheduler_crashes(1)
                .worker_starts(1)
                .cuts(1)
                .leaps(3),
            &[1],
        ),
        rule(
            "R3 durable",
            Sabotage::InstanceRecordAfterSending,
            WorldSettings {
                opening: &[Choice::StartWorker(W0)],
                ..late_pair
            },
            NO.scheduler_crashes(1)
                .worker_starts(2)
                .cuts(1)
                .leaps(3)
                .delays(3),
            &[1],
        ),
        rule(
            "R4",
            Sabotage::LeaveRecordBeforeBackoff,
            SLOW,
            NO.scheduler_crashes(1).cuts(1).leaps(4),
            &[2, 7],
        ),
        // The newcomer is first by name, so it gets the task.
        rule(
            "R5",
            Sabotage::TrustStaleRecord,
            WorldSettings {
                places: &[1, 0],
                opening: &[Choice::Backup, Choice::StartWorker(W1)],
                ..late_tasks
            },
            NO.backups(1)
                .scheduler_crashes(2)
                .worker_starts(1)
                .cuts(1)
                .leaps(2),
            &[2],
        ),
        rule(
            "R7",
            Sabotage::NewClusterAlways,
            PAIR,
            NO.scheduler_crashes(1).cuts(1).leaps(1),
            &[2],
        ),
    ]
}

/// Returns the rules R9 to R12, R37 and R38: leaving the initial wait.
fn wait_rules() -> Vec<Rule> {
    vec![
        rule(
            "R37",
            Sabotage::BoundNotMoved,
            WorldSettings {
                keeps_answered: true,
                ..SLOW
            },
            NO.scheduler_crashes(1).cuts(1).leaps(4),
            &[2, 7],
        ),
        rule(
            "R38",
            Sabotage::ForgetTheLiving,
            FORGETTING,
            NO.cuts(1).forgets(1).leaps(3),
            &[1, 5],
        ),
        // The later scheduler has shorter timeouts, and the other workers learn of the loss before it is on disk.
        rule(
            "R9",
            Sabotage::ConsensusOverridesRecord,
            WorldSettings {
                kill_waits: [12, 1],
                ..SLOW
            },
            NO.scheduler_crashes(1).cuts(1).leaps(4).delays(2),
            &[1, 7],
        ),
        rule(
            "R10",
            Sabotage::ConsensusOfUnsettledSets,
            WorldSettings {
                syncs_at_once: true,
                ..PATIENT
            },
            NO.scheduler_crashes(2).losses(2).cuts(1).leaps(2),
            &[1, 5],
        ),
        rule(
            "R11",
            Sabotage::ConsensusBeforeKillMargin,
            WorldSettings {
                new_cluster: NewCluster::OnlyFirst,
                ..SLOW
            },
            NO.scheduler_crashes(1).losses(1).cuts(1).leaps(4),
            &[2, 7],
        ),
        rule(
            "R12",
            Sabotage::SkipFirstHealthPermission,
            WorldSettings {
                places: &[1, 0],
                present: &[0],
                tasks_come: TasksCome::ByChoice,
                opening: &[Choice::Cut(W0), Choice::StartWorker(W1)],
                syncs_at_once: true,
                ..PATIENT
            },
            NO.scheduler_crashes(1)
                .losses(1)
                .worker_starts(1)
                .cuts(2)
                .leaps(3),
            &[1, 5],
        ),
    ]
}

/// Returns the rules R13 to R23: workers and scheduler instances.
#[expect(clippy::too_many_lines, reason = "a table")]
fn worker_rules() -> Vec<Rule> {
    let free = |free, base| WorldSettings { free, ..base };
    vec![
        rule(
            "R13",
            Sabotage::NoBinding,
            ALONE,
            NO.scheduler_crashes(1).leaps(3),
            &[2],
        ),
        // One scheduler acknowledges the completion, and the worker never drops it because of another scheduler that is gone.
        rule(
            "R14",
            Sabotage::BindBackwards,
            WorldSettings {
                settle: 0,
                tasks_come: TasksCome::AtOnce,
                probe_one_of: 1,
                ..free(&[PacketClass::Fetch], ALONE)
            },
            NO.scheduler_crashes(1).duplicates(1).leaps(4),
            &[2],
        ),
        // If the list marks ended tasks, it already contains the same information.
        rule(
            "R17",
            Sabotage::DropOnAnyAcknowledgement,
            WorldSettings {
                listing: Listing::Original,
                ..free(&[PacketClass::Status], ALONE)
            },
            NO.scheduler_crashes(1)
                .worker_kills(1)
                .worker_starts(1)
                .leaps(4),
            &[2, 5],
        ),
        rule(
            "R18 accepted",
            Sabotage::ForgetAccepted,
            ALONE,
            NO.duplicates(1),
            &[],
        ),
        rule(
            "R18 refused",
            Sabotage::ForgetRefused,
            WorldSettings {
                tasks_come: TasksCome::ByChoice,
                ..free(&[PacketClass::Run], ALONE)
            },
            NO.duplicates(1).cuts(1).leaps(4),
            &[1, 2],
        ),
        rule(
            "R19",
            Sabotage::SkipSequenceCheck,
            free(&[PacketClass::Run], ALONE),
            NO.breaks(1).leaps(4),
            &[2],
        ),
        rule(
            "R21",
            Sabotage::NoHoldBack,
            free(&[PacketClass::Fetch], SLOW),
            NO.scheduler_crashes(1).cuts(1).leaps(4),
            &[2, 7],
        ),
        rule(
            "R22",
            Sabotage::BumpWithUsualBackoff,
            BUMP,
            NO.cuts(1).worker_starts(1).leaps(3),
            &[2, 3],
        ),
        rule(
            "R23",
            Sabotage::SuccessorBeforeTheDead,
            free(&[], ALONE),
            NO.worker_kills(1).keeper_kills(1).worker_starts(1).leaps(3),
            &[3],
        ),
    ]
}

/// Returns the rules for tasks that stand by.
fn standby_rules() -> Vec<Rule> {
    let probed = WorldSettings {
        probe_one_of: 1,
        ..STANDBY
    };
    vec![
        rule(
            "standby: only in free slots",
            Sabotage::BeginWithoutSlots,
            STANDBY,
            NO,
            &[],
        ),
        rule(
            "standby: returned before it starts elsewhere",
            Sabotage::StartWhileTakingBack,
            STANDBY,
            NO.worker_starts(1).leaps(2),
            &[1],
        ),
        rule(
            "standby: returned tasks start again",
            Sabotage::LoseTakenBack,
            probed,
            NO.worker_starts(1).leaps(2),
            &[1],
        ),
    ]
}

/// Returns the rules R24 to R27: durability and statuses.
fn status_rules() -> Vec<Rule> {
    vec![
        rule(
            "R24",
            Sabotage::AcknowledgeBeforeDurable,
            ALONE,
            NO.scheduler_crashes(1),
            &[],
        ),
        rule(
            "R24 synced",
            Sabotage::AcknowledgeBeforeSync,
            ALONE,
            NO.scheduler_crashes(1),
            &[],
        ),
        rule(
            "R25",
            Sabotage::AcknowledgeRepeatAtOnce,
            ALONE,
            NO.scheduler_crashes(1).duplicates(1),
            &[],
        ),
        rule(
            "R26",
            Sabotage::ForgetSafetyWaits,
            SLOW,
            NO.scheduler_crashes(1).cuts(1).leaps(4),
            &[2, 7],
        ),
        rule(
            "R27",
            Sabotage::AnyRunReplacesProvisional,
            WorldSettings {
                free: &[PacketClass::Status],
                ..SLOW
            },
            NO.duplicates(1).failures(1).cuts(1).leaps(3),
            &[2, 7],
        ),
    ]
}
