//! What the cluster has to do: a configuration that changes, jobs that come and go, nodes that come and go.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};

use crate::dice::Dice;

/// The most jobs at once: enough for contention, few enough that a run stays quick.
const MAX_JOBS: usize = 4;
/// The most nodes at once, for the same reason.
const MAX_NODES: usize = 8;

#[derive(Clone, Debug)]
struct Job {
    number: u16,
    enabled: bool,
    backoff: &'static str,
    depends_on: Option<u16>,
    slots: u8,
    /// Keys about orphans, each with a comma before it.
    orphans: String,
}

/// The workload of a run.
#[derive(Clone, Debug)]
pub struct Workload {
    jobs: Vec<Job>,
    nodes: Vec<u16>,
    disabled: BTreeSet<u16>,
    next_job: u16,
    next_node: u16,
    worker_slots: usize,
    node_limit: usize,
    dice: Dice,
    /// `None`: orphans run on.
    orphan_dice: Option<Dice>,
    /// As those of a job, for jobs that are gone.
    settings: String,
    config: Arc<Config>,
    table: Arc<NodeTable>,
}

/// What jobs do after errors.
const BACKOFFS: [&str; 5] = [
    r#"[1, 5, "repeat"]"#,
    r#"[15, 60, "repeat"]"#,
    r#"[30, "fail"]"#,
    r#"["fail"]"#,
    r#"[1, 10, 120, "repeat"]"#,
];

/// How long orphans may run.
const ORPHANS_END_AFTER: [&str; 5] = ["false", "true", "2", "15", "90"];
/// How they are ended.
const ORPHANS_END_BY: [&str; 3] = ["term", "kill", "term_wait_kill"];

impl Workload {
    /// With `orphans` jobs say when their orphans are to end, and nodes are also disabled.
    pub fn new(mut dice: Dice, orphans: Option<Dice>) -> Self {
        let worker_slots = 1 + dice.below(4);
        let node_limit = 1 + dice.below(2);
        let mut workload = Workload {
            jobs: Vec::new(),
            nodes: Vec::new(),
            disabled: BTreeSet::new(),
            next_job: 0,
            next_node: 0,
            worker_slots,
            node_limit,
            config: parse_config("{}"),
            table: Arc::new(NodeTableBuilder::new("instance", &parse_config("{}")).finish()),
            dice,
            orphan_dice: orphans,
            settings: String::new(),
        };
        workload.settings = workload.orphan_keys();
        for _ in 0..=workload.dice.below(MAX_NODES) {
            workload.add_node();
        }
        for _ in 0..=workload.dice.below(MAX_JOBS) {
            workload.add_job();
        }
        workload.render();
        workload
    }

    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub fn nodes(&self) -> &Arc<NodeTable> {
        &self.table
    }

    fn add_job(&mut self) {
        let number = self.next_job;
        self.next_job += 1;
        let depends_on = match self.jobs.last() {
            Some(job) if self.dice.per_mille(200) => Some(job.number),
            Some(_) | None => None,
        };
        let backoff = BACKOFFS[self.dice.below(BACKOFFS.len())];
        let orphans = self.orphan_keys();
        self.jobs.push(Job {
            number,
            enabled: true,
            backoff,
            depends_on,
            slots: 1,
            orphans,
        });
    }

    fn orphan_keys(&mut self) -> String {
        let Some(dice) = &mut self.orphan_dice else {
            return String::new();
        };
        let after = ORPHANS_END_AFTER[dice.below(ORPHANS_END_AFTER.len())];
        let by = ORPHANS_END_BY[dice.below(ORPHANS_END_BY.len())];
        format!(
            r#", "kill_orphan_tasks_after_sec": {after}, "kill_subprocess": {{"method": "{by}", "kill_wait_ms": 2000}}"#
        )
    }

    fn add_node(&mut self) {
        self.nodes.push(self.next_node);
        self.next_node += 1;
    }

    /// Somebody edits the file: jobs are added, removed, switched off and on.
    pub fn change_jobs(&mut self) {
        match self.dice.below(5) {
            0 if !self.jobs.is_empty() => {
                let at = self.dice.below(self.jobs.len());
                self.jobs[at].enabled = !self.jobs[at].enabled;
            }
            1 if self.jobs.len() > 1 => {
                let at = self.dice.below(self.jobs.len());
                self.jobs.remove(at);
            }
            _ => self.new_work(),
        }
        self.render();
    }

    /// The world goes on: a new job, in the place of the oldest if there are many.
    pub fn new_work(&mut self) {
        if self.jobs.len() >= MAX_JOBS {
            self.jobs.remove(0);
        }
        self.add_job();
        self.render();
    }

    /// The node source tells of other nodes.
    pub fn change_nodes(&mut self) {
        if let Some(dice) = &mut self.orphan_dice
            && dice.per_mille(300)
            && let Some(node) = dice.pick(&self.nodes).copied()
        {
            if !self.disabled.remove(&node) {
                self.disabled.insert(node);
            }
            return self.render();
        }
        if self.nodes.len() >= MAX_NODES || (self.nodes.len() > 1 && self.dice.per_mille(500)) {
            let at = self.dice.below(self.nodes.len());
            self.nodes.remove(at);
        } else {
            self.add_node();
        }
        self.render();
    }

    /// Everything that was switched off is on again, so that all of it can get done.
    pub fn enable_all(&mut self) {
        for job in &mut self.jobs {
            job.enabled = true;
        }
        self.disabled.clear();
        self.render();
    }

    fn render(&mut self) {
        let mut nodes = String::new();
        for node in &self.nodes {
            let comma = if nodes.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = if self.disabled.contains(node) {
                write!(nodes, r#"{comma}"n{node}": {{"disabled": true}}"#)
            } else {
                write!(nodes, r#"{comma}"n{node}": []"#)
            };
        }
        let mut text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"],
                "node_sources": [{{"source": "manual", "prefs": {{{nodes}}}}}]}},
                "resources": {{"worker": {{"slots": {{"default": 1, "limit": {}}}}},
                               "l": {{"lock": {{"default": 1, "limit": {}}}}}}}{}}}"#,
            self.worker_slots, self.node_limit, self.settings
        );
        for job in &self.jobs {
            let known = |number: &u16| self.jobs.iter().any(|j| j.number == *number);
            let depends_on = match job.depends_on.filter(known) {
                Some(number) => format!(r#", "depends_on": ["j{number}"]"#),
                None => String::new(),
            };
            let _ = write!(
                text,
                r#", "bistro_job->j{}": {{"owner": "sim", "command": ["/bin/true"], "enabled": {},
                    "backoff": {}, "resources": {{"slots": {}}}{depends_on}{}}}"#,
                job.number, job.enabled, job.backoff, job.slots, job.orphans
            );
        }
        text.push('}');
        self.config = parse_config(&text);
        let mut table = NodeTableBuilder::new("instance", &self.config);
        for source in &self.config.node_sources {
            if let NodeSource::Manual(list) = source {
                table
                    .add_manual(list)
                    .expect("Invariant: the workload names each node once");
            }
        }
        self.table = Arc::new(table.finish());
    }
}

fn parse_config(text: &str) -> Arc<Config> {
    let parsed = if text == "{}" {
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": []}, "resources": {}}}"#
    } else {
        text
    };
    let parsed = parse(parsed, ParseOptions::default());
    Arc::new(
        parsed
            .expect("Invariant: the workload writes good configurations")
            .config,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Stream;

    #[test]
    fn every_change_gives_a_configuration_without_errors() {
        for seed in 0..20 {
            let orphans = (seed % 2 == 0).then(|| Dice::new(seed, Stream::Orphans));
            let mut workload = Workload::new(Dice::new(seed, Stream::Workload), orphans);
            for _ in 0..30 {
                workload.change_jobs();
                workload.change_nodes();
                let config = workload.config();
                assert!(!config.jobs.is_empty() && config.jobs.len() <= MAX_JOBS + 1);
                assert!(config.jobs.iter().all(|job| job.errors.is_empty()));
                assert!(!workload.nodes().is_empty());
            }
        }
    }
}
