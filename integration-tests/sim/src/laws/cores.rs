//! Schedulers for tests of laws that inspect one: in their initial state, and with a configuration and its nodes.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Time, Timeouts, WallTime};
use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{ConfigOrigin, Durable, Event, Options, Retention, Scheduler};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};

/// Returns the configuration and the nodes of a valid config text with manual nodes.
pub(crate) fn sources_of(text: &str) -> (Arc<Config>, Arc<NodeTable>) {
    let parsed = parse(text, ParseOptions::default());
    let config = Arc::new(parsed.expect("a good text").config);
    let mut table = NodeTableBuilder::new("instance", &config);
    for source in &config.node_sources {
        if let NodeSource::Manual(list) = source {
            table.add_manual(list).expect("good nodes");
        }
    }
    (config, Arc::new(table.finish()))
}

/// Returns a scheduler of a new cluster without any events yet.
pub(crate) fn new_core() -> Scheduler {
    let options = Options {
        timeouts: Timeouts::default(),
        allow_bump_unhealthy_worker: false,
        startup_wait: None,
        new_cluster: true,
        call_deadline: Duration::from_secs(10),
        work: RequestPolicy::default(),
        retention: Retention::UNLIMITED,
        slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
        seed: 1,
    };
    Scheduler::new(options, Durable::default(), Time::ZERO, WallTime::default())
}

/// Loads a configuration and its nodes.
pub(crate) fn load(core: &mut Scheduler, text: &str) {
    let (config, nodes) = sources_of(text);
    let loaded = Event::ConfigLoaded {
        config: Arc::clone(&config),
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    };
    core.handle(Time::ZERO, loaded);
    core.handle(Time::ZERO, Event::NodesLoaded { nodes, config });
    core.handle_timeout(Time::ZERO);
}
