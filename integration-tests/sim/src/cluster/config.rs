//! Delivers configurations and nodes to schedulers.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common_config::Config;
use brasserie_scheduler_engine::NodeTable;

use super::{Cluster, Due, FIRST, SECOND};
use crate::event_log::SchedulerPlace;
use crate::hosts::scheduler::SchedulerInput;
use crate::swarm::OrphanFate;

/// The longest delay of a configuration's nodes. It sometimes exceeds the time between two changes of the configuration.
const LATEST_NODES: Duration = Duration::from_secs(5);

impl Cluster {
    pub(super) fn load_config(&mut self, place: SchedulerPlace, generation: u32) {
        if self.scheduler(place).generation() == generation {
            let config = self.workload.config().clone();
            let nodes = self.workload.nodes().clone();
            if self.swarm.orphans == OrphanFate::Stay {
                return self.drive_scheduler(place, SchedulerInput::Loaded { config, nodes });
            }
            self.scheduler_post_mut(place).config = Some(Arc::clone(&config));
            self.drive_scheduler(place, SchedulerInput::LoadedConfig(Arc::clone(&config)));
            let after = self.chance.skewed(Duration::from_millis(1), LATEST_NODES);
            let due = Due::LoadNodes {
                place,
                generation,
                config,
                nodes,
            };
            self.queue.push(self.now + after, due);
        }
    }

    /// Loads the nodes, unless the scheduler has a newer configuration, whose node sources replace these.
    pub(super) fn load_nodes(
        &mut self,
        place: SchedulerPlace,
        generation: u32,
        config: Arc<Config>,
        nodes: Arc<NodeTable>,
    ) {
        let latest = self.scheduler_post(place).config.as_ref();
        let is_latest = latest.is_some_and(|latest| Arc::ptr_eq(latest, &config));
        if self.scheduler(place).generation() == generation && is_latest {
            self.drive_scheduler(place, SchedulerInput::LoadedNodes { config, nodes });
        }
    }

    /// Handles a change of the file: each scheduler reads it a little later.
    pub(super) fn config_changed(&mut self) {
        for place in [FIRST, SECOND] {
            if self.scheduler(place).core().is_some() {
                let generation = self.scheduler(place).generation();
                let after = self.chance.between(Duration::ZERO, Duration::from_secs(5));
                self.config_comes(after, place, generation);
            }
        }
    }

    pub(super) fn config_comes(&mut self, after: Duration, place: SchedulerPlace, generation: u32) {
        let at = self.now + after;
        self.queue.push(at, Due::LoadConfig { place, generation });
        self.config_comes_until = self.config_comes_until.max(at + LATEST_NODES);
    }
}
