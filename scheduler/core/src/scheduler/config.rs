//! Configurations and nodes that come into force, and what follows from them for runs, waits and records.

use std::sync::Arc;

use brasserie_common::{JobId, Time};
use brasserie_common_config::Config;
use brasserie_scheduler_engine::{NodesOwner, TimesGiven};

use super::Scheduler;
use crate::jobs::{ConfigOrigin, SourceInForce};
use crate::news::News;
use crate::nodes::SourceNodes;
use crate::times::record_of;

/// The most nodes that are reported to the engine in one turn: about a millisecond.
const REPORTED_A_TURN: usize = 10_000;

impl Scheduler {
    /// Returns the configuration of the file in force, after a turn. A shell reads the nodes of its sources and of no others. A refused
    /// file comes into force when the API job with the same name is gone, and only this function reports that.
    pub fn source_in_force(&self) -> Option<SourceInForce<'_>> {
        self.jobs.source_in_force()
    }

    pub(super) fn config_loaded(
        &mut self,
        now: Time,
        (config, warnings, origin): (Arc<Config>, Vec<String>, ConfigOrigin),
    ) {
        self.config_error = None;
        self.jobs.load_file(config, warnings, origin);
        self.put_jobs_in_force(now);
        if let Some(why) = self.jobs.refused_file() {
            self.notices.news(News::Problem(why));
        }
    }

    pub(super) fn config_failed(&mut self, message: String) {
        self.config_error = Some(message);
        self.jobs.file_failed();
    }

    /// Puts changed jobs in force. All changes of a turn take effect together, because each time costs a check of every job's position. The
    /// nodes stay those of their sources if both configurations have the same sources in the same order.
    pub(super) fn put_jobs_in_force(&mut self, now: Time) {
        let Some(config) = self.jobs.take_changed() else {
            return;
        };
        // A crash before the record is durable keeps the previous file, as if the file had been changed a moment later.
        let (kept, news) = self.jobs.note_in_force(self.wall);
        if let Some(record) = kept {
            self.outbox.persist(record);
        }
        if let Some(news) = news {
            self.notices.news(news);
        }
        self.wait
            .config_override(config.exit_initial_wait_before_timestamp);
        let before = self.engine.config().cloned();
        let before = before.filter(|_| self.view().wanted().is_known_of_all());
        self.apply_config(now, config);
        self.note_configured_jobs();
        self.define_output_sets(now);
        self.recheck_runs(before.as_deref());
        let engine = &self.engine;
        let is_configured = |job: JobId| engine.job_config(job).is_some();
        for job in self.estimates.keep_jobs(is_configured) {
            self.engine.set_learned(job, None);
        }
    }

    /// Notes the jobs whose tasks may start since now; for people.
    fn note_configured_jobs(&mut self) {
        let engine = &self.engine;
        let may_start = |job: &JobId| engine.job_config(*job).is_some_and(|job| job.can_run());
        self.configured_since.retain(|job, _| may_start(job));
        for job in engine.jobs().filter(may_start) {
            self.configured_since.entry(job).or_insert(self.wall);
        }
    }

    /// Gives a configuration to the engine, with the owner of the nodes in force. Drops the problems of jobs that it does not have.
    fn apply_config(&mut self, now: Time, config: Arc<Config>) {
        // The sources may be those of the configuration before the last one. Then the shell does not read them again.
        let nodes = self.engine.nodes();
        let owner = nodes.map_or(NodesOwner::OtherConfig, |nodes| {
            self.nodes.owner_of(nodes, &config)
        });
        self.engine.set_nodes_owner(owner);
        self.engine.begin_config(now, config);
        let engine = &self.engine;
        self.notices.keep_jobs(|job| {
            let id = engine.find_job(job.as_str());
            id.is_some_and(|id| engine.job_config(id).is_some())
        });
        if self.engine.nodes().is_none() {
            // The levels have another order, so the nodes come into force again.
            self.engine.set_nodes_owner(NodesOwner::OtherConfig);
        }
    }

    /// Begins to put nodes in force. Until they are, the nodes in force decide.
    pub(super) fn nodes_loaded(&mut self, now: Time, loaded: SourceNodes) {
        self.nodes_error = None;
        self.put_jobs_in_force(now);
        if self.jobs.wants(&loaded) {
            self.nodes.note_table(&loaded);
            self.engine.begin_nodes(loaded.nodes);
        }
    }

    /// Continues to put nodes in force. Called once a turn.
    pub(super) fn continue_refresh(&mut self, now: Time) {
        let before = self.engine.tables_put_in_force();
        self.engine.continue_refresh();
        if self.engine.tables_put_in_force() != before {
            self.nodes_came_in_force(now);
        }
        if let Some(cycle) = self.engine.wants_held_nodes() {
            self.report_nodes(cycle);
        }
    }

    /// Notes the owner and the issued times of nodes that have just come into force. All runs are checked again.
    fn nodes_came_in_force(&mut self, now: Time) {
        let (Some(nodes), Some(config)) = (self.engine.nodes(), self.engine.config()) else {
            return;
        };
        let (owner, nodes) = (self.nodes.owner_of(nodes, config), Arc::clone(nodes));
        self.engine.set_nodes_owner(owner);
        self.nodes.note_in_force(self.wall);
        self.record_times(now, nodes.times());
        self.orphans.recheck_all();
    }

    /// Reports to the engine which nodes this crate still refers to. Nodes that bulk changes name come first, because their deletions may
    /// be moved to the second list meanwhile.
    fn report_nodes(&mut self, cycle: u64) {
        let mut nodes = self.bulk_changes.next_nodes(cycle, REPORTED_A_TURN);
        if nodes.is_empty() {
            nodes = self.runs.next_nodes_of_deleted(cycle, REPORTED_A_TURN);
        }
        if nodes.is_empty() {
            // The engine itself knows the running tasks and the completions.
            self.engine.all_nodes_are_held();
        } else {
            self.engine.hold_nodes(nodes);
        }
    }

    /// Records the times that schedules issued for nodes that come into force in this turn.
    fn record_times(&mut self, now: Time, times: &TimesGiven) {
        for given_up in &times.given_up {
            self.notices.problem(now, given_up);
        }
        let changes = times.memory.changes_since(&self.times);
        if !changes.is_empty() {
            self.times.change(&changes);
            self.outbox.persist(record_of(changes));
        }
    }

    /// Returns whether new nodes are coming into force, or runs are still to be checked after such a change.
    pub(super) fn is_settling(&self) -> bool {
        self.engine.is_refreshing() || self.orphans.is_rechecking()
    }

    /// Puts all coming nodes in force without waiting for turns; for a copy of the scheduler.
    pub(super) fn finish_refresh(&mut self, now: Time) {
        while self.is_settling() {
            self.continue_refresh(now);
            self.check_runs(now);
        }
    }
}
