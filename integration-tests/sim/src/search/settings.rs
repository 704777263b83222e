//! What a small world consists of, which faults it may suffer and how often.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};

/// What a packet is about; an answer belongs to the class of its request's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Heartbeat,
    Status,
    Fetch,
    Run,
    Healthcheck,
    Notify,
    Suicide,
    Kill,
}

/// How often each fault may still happen; part of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// A packet that waits is lost, and its sender knows nothing.
    pub drops: u8,
    /// It arrives and stays on its way.
    pub duplicates: u8,
    /// The caller gives up while the packet is still on its way.
    pub breaks: u8,
    pub scheduler_crashes: u8,
    /// `kill -9` of a worker.
    pub worker_kills: u8,
    /// Worker instances that may be started beside those of the beginning.
    pub worker_starts: u8,
    /// Nothing passes between one worker and the schedulers until the link heals.
    pub cuts: u8,
    /// A task ends with an error.
    pub failures: u8,
    /// A copy of the directory is made, and put back before a start.
    pub backups: u8,
    /// The directory is lost before a start.
    pub losses: u8,
    /// A scheduler starts in the second place, while the first may be alive.
    pub second_schedulers: u8,
    /// A worker is told to talk to the scheduler in the other place.
    pub reroutes: u8,
    /// Time passes by [`Settings::leaps`].
    pub leaps: u8,
}

/// One small world. What it fixes, and why nothing of interest is lost by it:
///
/// * Packets of classes that are not [`Settings::free`] arrive at once and in order, unless their link is cut. Heartbeats and
///   healthchecks are so in most worlds: they are repeated for ever, so their loss is a matter of time, which cuts and leaps
///   give; another world frees them.
/// * A healthcheck's process ends at once, and the configuration is loaded at once: neither decides anything but when.
/// * Records are synced at once where nobody can crash any more: a reply that waits for the disk is then a packet that waits.
/// * All clocks show the same: differences of clocks are the simulator's subject. Time passes by leaps of given lengths, in
///   which everything that is due happens in its order; packets that are free may wait through leaps.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: &'static str,
    pub tasks: u8,
    /// Each place of workers: its shard. Two places of one shard have different machine locks.
    pub places: &'static [u8],
    /// Places in which a worker runs at the beginning.
    pub present: &'static [u8],
    pub free: &'static [Class],
    pub budget: Budget,
    pub leaps: &'static [u64],
    pub new_cluster: bool,
    pub bump_unhealthy: bool,
    /// In seconds: how long a worker may be unhealthy.
    pub lose_after: u64,
    /// Seconds in which the world settles before the search begins; none: it begins with the first start.
    pub settle: u64,
    /// Tasks are there from the beginning, or only when the search begins.
    pub tasks_at_once: bool,
    /// Of how many states one is left alone with a calm world, to see whether its work gets done; 0: none.
    pub probe_one_of: u64,
}

/// Everything free that is not repeated for ever.
pub const USUAL: &[Class] = &[
    Class::Status,
    Class::Fetch,
    Class::Run,
    Class::Notify,
    Class::Suicide,
    Class::Kill,
];

impl Settings {
    /// One worker, one task, no fault.
    pub const CALM: Settings = Settings {
        name: "calm",
        tasks: 1,
        places: &[0],
        present: &[0],
        free: USUAL,
        budget: Budget {
            drops: 0,
            duplicates: 0,
            breaks: 0,
            scheduler_crashes: 0,
            worker_kills: 0,
            worker_starts: 0,
            cuts: 0,
            failures: 0,
            backups: 0,
            losses: 0,
            second_schedulers: 0,
            reroutes: 0,
            leaps: 0,
        },
        leaps: &[],
        new_cluster: true,
        bump_unhealthy: false,
        lose_after: 4,
        settle: 4,
        tasks_at_once: false,
        probe_one_of: 0,
    };

    /// The shortest that the flags allow, but for the loss.
    pub fn timeouts(&self) -> Timeouts {
        let second = Duration::from_secs(1);
        Timeouts {
            heartbeat_grace_period: second,
            healthcheck_period: second,
            healthcheck_grace_period: second,
            lose_unhealthy_worker_after: Duration::from_secs(self.lose_after),
            worker_check_interval: second,
            unsure_if_running_check_initial_period: second,
            suicide_backoff_safety_margin: second,
            suicide_task_kill_wait: second,
        }
    }

    /// The configuration with this many tasks: one job, a node each.
    pub fn config(tasks: u8) -> (Arc<Config>, Arc<NodeTable>) {
        let mut nodes = String::new();
        for node in 0..tasks {
            let comma = if nodes.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(nodes, r#"{comma}"n{node}": []"#);
        }
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"],
                "node_sources": [{{"source": "manual", "prefs": {{{nodes}}}}}]}},
                "resources": {{"worker": {{"slots": {{"default": 1, "limit": {tasks}}}}}}}}},
                "bistro_job->j0": {{"owner": "search", "command": ["/bin/true"], "enabled": true,
                    "backoff": [1, "repeat"]}}}}"#,
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
