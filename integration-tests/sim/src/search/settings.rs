//! The settings of a small world: its parts, the faults it may suffer, and their number.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};

use crate::event_log::{SchedulerPlace, WorkerPlace};

/// The class of a packet. An answer belongs to the class of its request's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketClass {
    Heartbeat,
    Status,
    Fetch,
    Run,
    Healthcheck,
    Notify,
    Suicide,
    Kill,
}

/// How often each fault may still happen. The budget is part of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultBudget {
    /// A waiting packet is lost without notice to its sender.
    pub drops: u8,
    /// A packet arrives and also stays under way.
    pub duplicates: u8,
    /// The caller gives up while the packet is still under way.
    pub breaks: u8,
    pub scheduler_crashes: u8,
    /// `kill -9` of a worker.
    pub worker_kills: u8,
    /// Worker instances that may start in addition to the first ones.
    pub worker_starts: u8,
    /// The keeper is killed with its worker, so task processes remain until a successor ends them.
    pub keeper_kills: u8,
    /// No packet passes between one worker and the schedulers until the link heals.
    pub cuts: u8,
    /// A task ends with an error.
    pub failures: u8,
    /// A copy of the directory is made, and restored before a start.
    pub backups: u8,
    /// The directory is lost before a start.
    pub losses: u8,
    /// A scheduler starts in the second place while the first may be alive; see [`WorldSettings::second`].
    pub second_schedulers: u8,
    /// A worker connects to the scheduler in the other place.
    pub reroutes: u8,
    /// Time advances by one of [`WorldSettings::leaps`], or to the next packet that could arrive or record that could be synced, if one
    /// comes up meanwhile.
    pub leaps: u8,
    /// Time advances although a packet could arrive or a record be synced.
    pub delays: u8,
    /// An operator declares a worker dead. Either it is dead with all its tasks, or by mistake it has just answered.
    pub forgets: u8,
}

impl fmt::Display for FaultBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.drops, "drops"),
            (self.duplicates, "duplicates"),
            (self.breaks, "breaks"),
            (self.scheduler_crashes, "scheduler crashes"),
            (self.worker_kills, "worker kills"),
            (self.keeper_kills, "keeper kills"),
            (self.worker_starts, "worker starts"),
            (self.cuts, "cuts"),
            (self.failures, "failures"),
            (self.backups, "backups"),
            (self.losses, "losses"),
            (self.second_schedulers, "second schedulers"),
            (self.reroutes, "reroutes"),
            (self.delays, "delays"),
            (self.leaps, "leaps"),
            (self.forgets, "declarations of death"),
        ];
        let some = all.iter().filter(|(often, _)| *often > 0);
        let texts: Vec<String> = some
            .map(|(often, what)| format!("{what} {often}"))
            .collect();
        f.write_str(&texts.join(", "))
    }
}

/// One possible step. Numbers are positions in the world that offers the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Deliver(usize),
    /// The packet arrives, and will arrive once more. No caller waits for the answer to the copy.
    Duplicate(usize),
    Drop(usize),
    /// The caller gives up; the packet stays under way.
    GiveUp(usize),
    Sync(SchedulerPlace),
    CrashScheduler {
        place: SchedulerPlace,
        kept: usize,
    },
    StartScheduler(SchedulerPlace),
    /// The old copy is restored first.
    StartOnBackup,
    /// The directory is lost first.
    StartOnNothing,
    StartSecond,
    Backup,
    Submit,
    KillWorker(WorkerPlace),
    KillWorkerAndKeeper(WorkerPlace),
    StartWorker(WorkerPlace),
    Reroute(WorkerPlace),
    Forget(WorkerPlace),
    Cut(WorkerPlace),
    Heal(WorkerPlace),
    End(usize, TaskExit),
    Leap(u64),
}

/// How a process of a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskExit {
    Done,
    Error,
    /// It was signalled.
    Killed,
}

/// One small world. Some parts are fixed, for these reasons:
///
/// * Packets of classes that are not [`WorldSettings::free`] arrive at once and in order, unless their link is cut. In most worlds
///   heartbeats and healthchecks are fixed. They repeat forever, so cuts and leaps have the same effect as their loss. Two worlds free
///   them.
/// * A healthcheck's process ends at once, and the configuration loads at once: both affect only timing.
/// * Records are synced at once in worlds without crashes: a reply that waits for the disk then equals a packet that waits.
/// * All clocks show the same time; the simulator covers clock differences. Time advances by leaps of given lengths, in which everything
///   that is due happens in order. A leap ends early when a packet could arrive or a record be synced, because neither takes time unless a
///   delay is spent. A packet whose caller has stopped waiting is gone, unless a break or a duplicate was spent on it. Then it may arrive
///   at any time, or never.
#[derive(Clone, Debug)]
pub struct WorldSettings {
    pub name: &'static str,
    pub tasks: u8,
    /// The shard of each worker place. Two places of one shard have different machine locks.
    pub places: &'static [u8],
    /// Places in which a worker runs at the beginning.
    pub present: &'static [u8],
    pub free: &'static [PacketClass],
    pub budget: FaultBudget,
    pub leaps: &'static [u64],
    pub new_cluster: NewCluster,
    pub listing: Listing,
    /// A crash loses no written record.
    pub syncs_at_once: bool,
    pub bump_unhealthy: bool,
    /// Each worker has one slot, and tasks may stand by there.
    pub standby: bool,
    /// A scheduler that starts knows until when its predecessors have answered workers.
    pub keeps_answered: bool,
    /// The seconds for which a worker may be unhealthy.
    pub lose_after: u64,
    /// The kill wait of tasks in seconds: for the first scheduler, and for later ones.
    pub kill_waits: [u64; 2],
    /// Seconds in which the world settles before the search begins. With zero the search begins with the first start.
    pub settle: u64,
    pub tasks_come: TasksCome,
    /// The steps, within the budget, that have happened when the search begins.
    pub opening: &'static [Choice],
    pub second: Second,
    /// One in this many states is checked in a calm world, to see whether its work gets done; 0 for none.
    pub probe_one_of: u64,
}

/// When the tasks of a small world are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TasksCome {
    AtOnce,
    WhenSettled,
    /// When the search chooses to submit them.
    ByChoice,
}

/// The directory of a scheduler in the second place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// R1 keeps the second scheduler out.
    SameDirectory,
    /// Only workers connect the two schedulers. Neither knows completions that the other has acknowledged, so the judge checks "never
    /// twice" only. That holds as long as both schedulers can reach all workers.
    OwnDirectory,
}

/// The schedulers that start with `--new-cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewCluster {
    /// The flag is left in a unit file.
    Always,
    /// The operator uses the flag as required where directories are lost (R7).
    OnlyFirst,
}

/// The content of answers to `getRunningTasks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    Ours,
    /// Ended tasks look like running ones, as between peers that know only the original interface.
    Original,
}

/// No packet arrives unless it is chosen.
pub const EVERYTHING: &[PacketClass] = &[
    PacketClass::Heartbeat,
    PacketClass::Healthcheck,
    PacketClass::Status,
    PacketClass::Fetch,
    PacketClass::Run,
    PacketClass::Notify,
    PacketClass::Suicide,
    PacketClass::Kill,
];

/// All classes but those that repeat forever.
pub const USUAL: &[PacketClass] = EVERYTHING.split_at(2).1;

impl FaultBudget {
    pub const NONE: FaultBudget = FaultBudget {
        drops: 0,
        duplicates: 0,
        breaks: 0,
        scheduler_crashes: 0,
        worker_kills: 0,
        worker_starts: 0,
        keeper_kills: 0,
        cuts: 0,
        failures: 0,
        backups: 0,
        losses: 0,
        second_schedulers: 0,
        reroutes: 0,
        leaps: 0,
        delays: 0,
        forgets: 0,
    };
}

/// Defines for each kind of fault a method that returns the budget with this number of it.
macro_rules! numbers {
    ($($fault:ident)*) => {
        impl FaultBudget {
            $(pub const fn $fault(self, $fault: u8) -> FaultBudget {
                FaultBudget { $fault, ..self }
            })*
        }
    };
}

numbers! {
    drops duplicates breaks scheduler_crashes worker_kills worker_starts keeper_kills cuts failures backups losses
    second_schedulers reroutes leaps delays forgets
}

impl WorldSettings {
    /// One worker, one task, no fault.
    pub const CALM: WorldSettings = WorldSettings {
        name: "calm",
        tasks: 1,
        places: &[0],
        present: &[0],
        free: USUAL,
        budget: FaultBudget::NONE,
        leaps: &[],
        new_cluster: NewCluster::Always,
        listing: Listing::Ours,
        syncs_at_once: false,
        bump_unhealthy: false,
        standby: false,
        keeps_answered: false,
        lose_after: 4,
        kill_waits: [1, 1],
        settle: 4,
        tasks_come: TasksCome::WhenSettled,
        opening: &[],
        second: Second::SameDirectory,
        probe_one_of: 0,
    };

    /// Returns the shortest timeouts that the flags allow, except for the loss time.
    pub fn timeouts(&self, is_first: bool) -> Timeouts {
        let second = Duration::from_secs(1);
        Timeouts {
            heartbeat_grace_period: second,
            healthcheck_period: second,
            healthcheck_grace_period: second,
            lose_unhealthy_worker_after: Duration::from_secs(self.lose_after),
            worker_check_interval: second,
            unsure_if_running_check_initial_period: second,
            suicide_backoff_safety_margin: second,
            suicide_task_kill_wait: Duration::from_secs(self.kill_waits[usize::from(!is_first)]),
        }
    }

    /// Returns the configuration: one job with a node for each task.
    pub fn config(&self) -> (Arc<Config>, Arc<NodeTable>) {
        let tasks = self.tasks;
        let (slots, keys) = match self.standby {
            false => (tasks, ""),
            true => (1, r#", "bufferable": true, "est_duration": 0.01"#),
        };
        let mut nodes = String::new();
        for node in 0..tasks {
            let comma = if nodes.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(nodes, r#"{comma}"n{node}": []"#);
        }
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"],
                "node_sources": [{{"source": "manual", "prefs": {{{nodes}}}}}]}},
                "resources": {{"worker": {{"slots": {{"default": 1, "limit": {slots}}}}}}}}},
                "bistro_job->j0": {{"owner": "search", "command": ["/bin/true"], "enabled": true,
                    "backoff": [1, "repeat"]{keys}}}}}"#,
        );
        let parsed = parse(&text, ParseOptions::default())
            .expect("Invariant: the search writes good configurations");
        let config = Arc::new(parsed.config);
        let mut table = NodeTableBuilder::new("instance", &config);
        for source in &config.node_sources {
            if let NodeSource::Manual(list) = source {
                table
                    .add_manual(list)
                    .expect("Invariant: each node is named once");
            }
        }
        (config, Arc::new(table.finish()))
    }
}
