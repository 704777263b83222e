//! The small worlds that must keep the contract, and the settings that they are built from.

use super::settings::{
    EVERYTHING, FaultBudget, NewCluster, PacketClass, Second, TasksCome, WorldSettings,
};

pub(super) const NO: FaultBudget = FaultBudget::NONE;

/// One worker.
pub(super) const ALONE: WorldSettings = WorldSettings::CALM;

/// Two workers of two shards.
pub(super) const PAIR: WorldSettings = WorldSettings {
    places: &[0, 1],
    present: &[0, 1],
    ..WorldSettings::CALM
};

/// A second worker may come and claim the shard of the first.
pub(super) const RIVALS: WorldSettings = WorldSettings {
    places: &[0, 0],
    ..WorldSettings::CALM
};

/// A second worker may also take the shard while the first is unhealthy.
pub(super) const BUMP: WorldSettings = WorldSettings {
    bump_unhealthy: true,
    ..RIVALS
};

/// Two workers that take long to end their tasks, and a network that is up or cut.
pub(super) const SLOW: WorldSettings = WorldSettings {
    kill_waits: [8, 8],
    free: &[],
    ..PAIR
};

/// Two workers that may be away for long without being lost, and directories that get lost.
pub(super) const PATIENT: WorldSettings = WorldSettings {
    lose_after: 30,
    new_cluster: NewCluster::OnlyFirst,
    free: &[],
    ..PAIR
};

/// Two workers that an operator may declare dead.
pub(super) const FORGETTING: WorldSettings = WorldSettings {
    free: &[PacketClass::Run],
    syncs_at_once: true,
    ..PAIR
};

/// A worker with one slot and two tasks: one of them stands by. A second worker may come and take it.
pub(super) const STANDBY: WorldSettings = WorldSettings {
    tasks: 2,
    places: &[0, 1],
    free: &[PacketClass::Run, PacketClass::Status, PacketClass::Kill],
    standby: true,
    ..ALONE
};

/// Returns the worlds that must keep the contract, small ones first.
pub fn sound_worlds() -> Vec<WorldSettings> {
    let mut worlds = without_time();
    worlds.extend(with_time());
    worlds
}

/// One in this many states is checked in a calm world, to see whether its work gets done.
const PROBE_ONE_OF: u64 = 64;

fn world(
    name: &'static str,
    base: WorldSettings,
    budget: FaultBudget,
    leaps: &'static [u64],
) -> WorldSettings {
    WorldSettings {
        name,
        budget,
        leaps,
        probe_one_of: PROBE_ONE_OF,
        ..base
    }
}

/// Returns worlds with packets, crashes and starts in every order, within one moment.
fn without_time() -> Vec<WorldSettings> {
    let two_tasks = WorldSettings { tasks: 2, ..ALONE };
    let world = |name, base, budget| world(name, base, budget, &[]);
    vec![
        world("one crash", ALONE, NO.scheduler_crashes(1).breaks(1)),
        world(
            "one crash, one duplicate",
            ALONE,
            NO.scheduler_crashes(1).duplicates(1),
        ),
        world("two crashes", ALONE, NO.scheduler_crashes(2)),
        world(
            "successor",
            ALONE,
            NO.scheduler_crashes(1).worker_kills(1).worker_starts(1),
        ),
        world(
            "network",
            ALONE,
            NO.drops(2).duplicates(2).breaks(1).failures(1),
        ),
        world(
            "two workers, one crash",
            PAIR,
            NO.scheduler_crashes(1).breaks(1),
        ),
        world(
            "two tasks, one crash",
            two_tasks.clone(),
            NO.scheduler_crashes(1).breaks(1),
        ),
        world(
            "two tasks, two crashes",
            two_tasks,
            NO.scheduler_crashes(2).duplicates(1),
        ),
        world(
            "standby, one crash",
            STANDBY,
            NO.scheduler_crashes(1).failures(1),
        ),
    ]
}

/// Returns worlds with time, in which workers become unhealthy, are lost, and tasks wait.
#[expect(clippy::too_many_lines, reason = "a table")]
fn with_time() -> Vec<WorldSettings> {
    vec![
        world(
            "network and time",
            ALONE,
            NO.drops(1).duplicates(1).breaks(1).delays(1).leaps(3),
            &[1],
        ),
        world(
            "heartbeats too",
            WorldSettings {
                free: EVERYTHING,
                ..ALONE
            },
            NO.duplicates(1).drops(1).leaps(2),
            &[1],
        ),
        world(
            "heartbeats too, one crash",
            WorldSettings {
                free: EVERYTHING,
                ..ALONE
            },
            NO.scheduler_crashes(1).leaps(2),
            &[2],
        ),
        world(
            "crash and time",
            ALONE,
            NO.scheduler_crashes(1)
                .duplicates(1)
                .breaks(1)
                .failures(1)
                .leaps(3),
            &[2],
        ),
        world(
            "standby and a second worker",
            STANDBY,
            NO.worker_starts(1).duplicates(1).leaps(2),
            &[1],
        ),
        world(
            "standby, a second worker, one crash",
            STANDBY,
            NO.worker_starts(1).scheduler_crashes(1).breaks(1).leaps(2),
            &[1],
        ),
        world("two workers, loss", PAIR, NO.cuts(1).leaps(4), &[1, 6]),
        world(
            "two workers, loss and crash",
            PAIR,
            NO.cuts(1).scheduler_crashes(1).leaps(3),
            &[1, 6],
        ),
        world(
            "loss and retry: three invocations",
            PAIR,
            NO.cuts(2).failures(1).leaps(4),
            &[2, 7],
        ),
        world(
            "rivals: two instances claim one shard",
            RIVALS,
            NO.worker_starts(1).cuts(1).leaps(4),
            &[1, 5],
        ),
        world(
            "rivals, the unhealthy one is bumped",
            BUMP,
            NO.worker_starts(1).cuts(1).scheduler_crashes(1).leaps(3),
            &[2, 3],
        ),
        world(
            "successor of a worker whose keeper died too",
            ALONE,
            NO.worker_kills(1)
                .keeper_kills(1)
                .worker_starts(1)
                .scheduler_crashes(1)
                .leaps(3),
            &[1, 5],
        ),
        world(
            "tasks that die slowly",
            SLOW,
            NO.cuts(1).scheduler_crashes(1).leaps(4),
            &[2, 7],
        ),
        world(
            "a lost directory",
            WorldSettings {
                free: &[PacketClass::Fetch, PacketClass::Run],
                ..PATIENT
            },
            NO.cuts(1).scheduler_crashes(1).losses(1).leaps(2),
            &[1, 5],
        ),
        world(
            "waits across restarts",
            WorldSettings {
                keeps_answered: true,
                ..SLOW
            },
            NO.scheduler_crashes(2).cuts(1).leaps(3),
            &[7],
        ),
        world(
            "forgotten workers",
            FORGETTING,
            NO.worker_kills(1)
                .worker_starts(1)
                .scheduler_crashes(1)
                .forgets(1)
                .leaps(2),
            &[1, 5],
        ),
        world(
            "an old copy",
            PAIR,
            NO.backups(1).scheduler_crashes(1).cuts(1).leaps(2),
            &[2],
        ),
        WorldSettings {
            // Each scheduler has its own view of what is done.
            probe_one_of: 0,
            ..world(
                "two schedulers",
                WorldSettings {
                    second: Second::OwnDirectory,
                    new_cluster: NewCluster::OnlyFirst,
                    lose_after: 2,
                    tasks_come: TasksCome::AtOnce,
                    ..ALONE
                },
                NO.second_schedulers(1).reroutes(2).failures(1).leaps(4),
                &[1, 12],
            )
        },
    ]
}
