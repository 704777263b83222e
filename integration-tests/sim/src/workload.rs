//! The work of the simulated cluster: a changing configuration with jobs and nodes that come and go.

mod artifacts;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common::worker::TaskRoom;
use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use brasserie_scheduler_core::Retention;
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};

use crate::dice::{Dice, RandomStream};
use crate::swarm::{
    Fetching, Gates, MachineSizing, OrphanFate, Rooms, Standbys, Swarm, TimeLimits,
};
use artifacts::JobArtifacts;

pub use artifacts::TOP_NODE;

/// The most jobs at once: enough for contention, few enough for a quick run.
const MAX_JOBS: usize = 4;
/// The most nodes at once, for the same reason.
const MAX_NODES: usize = 8;

#[derive(Clone, Debug)]
struct WorkloadJob {
    number: u16,
    enabled: bool,
    backoff: &'static str,
    depends_on: Option<u16>,
    slots: u8,
    /// Jobs that must all be done before a task of this one starts.
    after_all: Vec<u16>,
    needs: Needs,
    /// Keys about orphans, each preceded by a comma.
    orphans: String,
    /// Keys about limits of time, each preceded by a comma.
    limits: String,
    /// Keys about waiting at a worker, each preceded by a comma.
    work: String,
    /// The key for the number of running tasks, preceded by a comma.
    most: String,
    artifacts: JobArtifacts,
}

/// Slots that a task takes of its worker's machine.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    memory: usize,
    half_cards: usize,
    k40: usize,
}

/// Random streams for the rarer parts of a workload.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Jobs state when their orphans end, and nodes may be disabled.
    pub orphans: Option<Dice>,
    /// Some jobs wait until others are completely done.
    pub gates: Option<Dice>,
    /// Machines have memory and GPUs, and tasks need them.
    pub machines: Option<Dice>,
    /// Some jobs limit how long a run may take.
    pub limits: Option<Dice>,
    /// Workers and jobs limit the number of their running tasks.
    pub rooms: Option<Dice>,
    /// Workers request work.
    pub work: Option<WorkStreams>,
    /// Missing jobs and nodes sometimes return.
    pub returns: Option<Dice>,
    /// Tasks stand by at workers.
    pub standby: Option<Dice>,
    /// Jobs have outputs, and inputs from each other.
    pub artifacts: Option<Dice>,
}

/// Random streams for workers that request work.
#[derive(Clone, Debug)]
pub struct WorkStreams {
    pub dice: Dice,
    /// The worker's slots are its processors.
    pub slots_are_cpus: bool,
}

impl Extras {
    pub fn of(seed: u64, swarm: &Swarm) -> Self {
        let dice = |stream| Dice::new(seed, stream);
        Extras {
            orphans: (swarm.orphans == OrphanFate::End).then(|| dice(RandomStream::Orphans)),
            gates: (swarm.gates == Gates::Some).then(|| dice(RandomStream::Gates)),
            machines: (swarm.machines == MachineSizing::Measured)
                .then(|| dice(RandomStream::Machines)),
            limits: (swarm.limits == TimeLimits::Some).then(|| dice(RandomStream::Limits)),
            rooms: (swarm.rooms == Rooms::Small).then(|| dice(RandomStream::Rooms)),
            standby: (swarm.standbys == Standbys::Some).then(|| dice(RandomStream::Standby)),
            artifacts: swarm.artifacts.map(|_| dice(RandomStream::Artifacts)),
            returns: (swarm.retention != Retention::UNLIMITED)
                .then(|| dice(RandomStream::Retention)),
            work: match &swarm.fetching {
                Fetching::Nobody => None,
                Fetching::Some(own) => Some(WorkStreams {
                    dice: dice(RandomStream::WorkFetch),
                    slots_are_cpus: own.slots_are_cpus,
                }),
            },
        }
    }
}

/// The workload of a run.
#[derive(Clone, Debug)]
pub struct Workload {
    jobs: Vec<WorkloadJob>,
    nodes: Vec<u16>,
    disabled: BTreeSet<u16>,
    /// Missing jobs and nodes, of which some may return.
    gone: (Vec<WorkloadJob>, Vec<u16>),
    next_job: u16,
    next_node: u16,
    worker_slots: usize,
    node_limit: usize,
    dice: Dice,
    extras: Extras,
    /// Settings for missing jobs, like the keys of a job.
    settings: String,
    config: Arc<Config>,
    table: Arc<NodeTable>,
}

/// Backoffs of jobs.
const BACKOFFS: [&str; 5] = [
    r#"[1, 5, "repeat"]"#,
    r#"[15, 60, "repeat"]"#,
    r#"[30, "fail"]"#,
    r#"["fail"]"#,
    r#"[1, 10, 120, "repeat"]"#,
];

/// Delays after which orphans end.
const ORPHANS_END_AFTER: [&str; 5] = ["false", "true", "2", "15", "90"];
/// Methods by which orphans end.
const ORPHANS_END_BY: [&str; 3] = ["term", "kill", "term_wait_kill"];

/// Limits of a run in seconds. Some, most or all runs take less.
const RUNS_TAKE: [Option<u32>; 5] = [None, Some(1), Some(5), Some(60), Some(600)];

/// Run time estimates of jobs, in seconds.
const TASKS_TAKE: [Option<u32>; 4] = [None, Some(1), Some(30), Some(300)];

/// Processors of a worker that does not request work.
pub const USUAL_CORES: f64 = 2.0;
/// Memory of one slot.
const MEMORY_SLOT_MB: usize = 512;
/// The largest number of tasks that a worker declares it can run, when it declares one: sometimes fewer than its slots, sometimes more.
const MOST_ROOM: usize = 4;
/// The largest `max_running` of a job: in most runs less than the number of its nodes.
const MOST_OF_A_JOB: usize = 3;
/// Memory that no task gets.
const RESERVED_MB: usize = 300;
/// Resources of machines. The limits apply to a machine that does not report its size.
const MACHINES: &str = r#",
    "mem": {"default": 0, "limit": 2}, "gpu": {"default": 0, "limit": 0}, "GPU: K40": {"default": 0, "limit": 0}"#;

impl Workload {
    pub fn new(mut dice: Dice, extras: Extras) -> Self {
        let worker_slots = 1 + dice.below(4);
        let node_limit = 1 + dice.below(2);
        let mut workload = Workload {
            jobs: Vec::new(),
            nodes: Vec::new(),
            disabled: BTreeSet::new(),
            gone: (Vec::new(), Vec::new()),
            next_job: 0,
            next_node: 0,
            worker_slots,
            node_limit,
            config: parse_config("{}"),
            table: Arc::new(NodeTableBuilder::new("instance", &parse_config("{}")).finish()),
            dice,
            extras,
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

    pub fn node_numbers(&self) -> &[u16] {
        &self.nodes
    }

    fn add_job(&mut self) {
        let number = self.next_job;
        self.next_job += 1;
        let depends_on = match self.jobs.last() {
            Some(job) if self.dice.per_mille(200) => Some(job.number),
            Some(_) | None => None,
        };
        let backoff = BACKOFFS[self.dice.below(BACKOFFS.len())];
        let (orphans, limits) = (self.orphan_keys(), self.limit_keys());
        let (after_all, needs) = (self.draw_gate(), self.draw_needs());
        let (slots, work) = self.draw_work();
        let most = self.draw_max_running();
        let artifacts = self.draw_artifacts();
        self.jobs.push(WorkloadJob {
            number,
            enabled: true,
            backoff,
            depends_on,
            slots,
            after_all,
            needs,
            orphans,
            limits,
            work,
            most,
            artifacts,
        });
    }

    fn limit_keys(&mut self) -> String {
        let Some(dice) = &mut self.extras.limits else {
            return String::new();
        };
        let mut keys = String::new();
        for key in ["timeout", "deadline"] {
            if let Some(secs) = RUNS_TAKE[dice.below(RUNS_TAKE.len())] {
                // Writing to a String cannot fail.
                let _ = write!(keys, r#", "{key}": {secs}"#);
            }
        }
        keys
    }

    /// Draws whether the tasks of a job may stand by. Their estimates are often wrong.
    fn draw_standby(&mut self) -> String {
        let dice = self.extras.standby.as_mut();
        match dice.is_some_and(|dice| dice.per_mille(700)) {
            true => r#", "bufferable": true, "est_duration": 0.05"#.to_owned(),
            false => String::new(),
        }
    }

    /// Draws whether tasks may stand by at a worker that starts.
    pub fn draw_takes_standby(&mut self) -> bool {
        let dice = self.extras.standby.as_mut();
        dice.is_some_and(|dice| dice.per_mille(800))
    }

    /// Draws the processors of a task and whether it may wait at its worker. A deadline leaves time for the task's own run.
    fn draw_work(&mut self) -> (u8, String) {
        let Some(WorkStreams {
            dice,
            slots_are_cpus,
        }) = &mut self.extras.work
        else {
            return (1, self.draw_standby());
        };
        let slots = 1 + u8::from(*slots_are_cpus && dice.per_mille(200));
        let mut keys = String::new();
        if dice.per_mille(700) {
            keys.push_str(r#", "bufferable": true"#);
        }
        let estimate = TASKS_TAKE[dice.below(TASKS_TAKE.len())];
        if let Some(secs) = estimate {
            // Writing to a String cannot fail.
            let _ = write!(keys, r#", "est_duration": {secs}"#);
        }
        if self.extras.limits.is_none() && dice.per_mille(200) {
            let secs = estimate.unwrap_or(60) * 3 + 30;
            let _ = write!(keys, r#", "deadline": {secs}"#);
        }
        (slots, keys)
    }

    fn draw_max_running(&mut self) -> String {
        let dice = self.extras.rooms.as_mut();
        match dice.map_or(0, |dice| dice.below(MOST_OF_A_JOB + 1)) {
            0 => String::new(),
            most => format!(r#", "max_running": {most}"#),
        }
    }

    fn orphan_keys(&mut self) -> String {
        let Some(dice) = &mut self.extras.orphans else {
            return String::new();
        };
        let after = ORPHANS_END_AFTER[dice.below(ORPHANS_END_AFTER.len())];
        let by = ORPHANS_END_BY[dice.below(ORPHANS_END_BY.len())];
        format!(
            r#", "kill_orphan_tasks_after_sec": {after}, "kill_subprocess": {{"method": "{by}", "kill_wait_ms": 2000}}"#
        )
    }

    /// Draws one or two existing jobs.
    fn draw_gate(&mut self) -> Vec<u16> {
        let Some(dice) = &mut self.extras.gates else {
            return Vec::new();
        };
        if !dice.per_mille(500) {
            return Vec::new();
        }
        let mut after: Vec<u16> = (0..=dice.below(2))
            .filter_map(|_| dice.pick(&self.jobs).map(|job| job.number))
            .collect();
        after.sort_unstable();
        after.dedup();
        after
    }

    fn draw_needs(&mut self) -> Needs {
        match &mut self.extras.machines {
            None => Needs::default(),
            Some(dice) => Needs {
                memory: dice.below(3),
                half_cards: match dice.per_mille(350) {
                    true => 1 + dice.below(2),
                    false => 0,
                },
                k40: usize::from(dice.per_mille(150)),
            },
        }
    }

    /// Draws the machine of a worker that starts.
    pub fn draw_machine(&mut self) -> UsablePhysicalResources {
        let mut usable = UsablePhysicalResources {
            cpu_cores: USUAL_CORES,
            ..UsablePhysicalResources::default()
        };
        if let Some(dice) = &mut self.extras.machines {
            if dice.per_mille(800) {
                let slots = 1 + dice.below(4);
                let memory = RESERVED_MB + slots * MEMORY_SLOT_MB + dice.below(MEMORY_SLOT_MB);
                usable.memory_mb = memory as f64;
            }
            for (model, most) in [("K40", 2), ("H100", 1)] {
                for number in 0..dice.below(most + 1) {
                    usable.gpus.push(GpuInfo {
                        name: model.to_owned(),
                        pci_bus_id: format!("{model} {number}"),
                        cuda_device: String::new(),
                        memory_mb: 1024.0,
                        compute: 1.0,
                    });
                }
            }
        }
        usable
    }

    /// Draws the processors of a worker that requests work: at least as many as any task takes.
    pub fn draw_cores(&mut self) -> f64 {
        let work = self.extras.work.as_mut();
        work.map_or(USUAL_CORES, |work| USUAL_CORES + work.dice.below(3) as f64)
    }

    /// Draws how many tasks a worker that starts can run at once; `None` if it does not say.
    pub fn draw_room(&mut self) -> Option<TaskRoom> {
        let dice = self.extras.rooms.as_mut()?;
        if dice.per_mille(200) {
            return None;
        }
        let most = u32::try_from(1 + dice.below(MOST_ROOM)).ok()?;
        Some(TaskRoom {
            most: most.try_into().ok()?,
            limited_by: "a limit of its machine".into(),
        })
    }

    fn add_node(&mut self) {
        self.nodes.push(self.next_node);
        self.next_node += 1;
    }

    /// Edits the config file: adds, removes, disables and enables jobs.
    pub fn change_jobs(&mut self) {
        // Running tasks keep what they took.
        if let Some(dice) = &mut self.extras.machines
            && dice.per_mille(400)
        {
            let at = dice.below(self.jobs.len());
            self.jobs[at].needs = self.draw_needs();
            return self.render();
        }
        if let Some(dice) = &mut self.extras.returns
            && self.jobs.len() < MAX_JOBS
            && dice.per_mille(500)
            && let Some(job) = self.gone.0.pop()
        {
            self.jobs.push(job);
            return self.render();
        }
        match self.dice.below(5) {
            0 if !self.jobs.is_empty() => {
                let at = self.dice.below(self.jobs.len());
                self.jobs[at].enabled = !self.jobs[at].enabled;
            }
            1 if self.jobs.len() > 1 => {
                let at = self.dice.below(self.jobs.len());
                let job = self.jobs.remove(at);
                self.gone.0.push(job);
            }
            _ => self.new_work(),
        }
        self.render();
    }

    /// Adds a new job, in place of the oldest if there are many.
    pub fn new_work(&mut self) {
        if self.jobs.len() >= MAX_JOBS {
            let job = self.jobs.remove(0);
            self.gone.0.push(job);
        }
        self.add_job();
        self.render();
    }

    /// Changes the nodes of the node source.
    pub fn change_nodes(&mut self) {
        if let Some(dice) = &mut self.extras.orphans
            && dice.per_mille(300)
            && let Some(node) = dice.pick(&self.nodes).copied()
        {
            if !self.disabled.remove(&node) {
                self.disabled.insert(node);
            }
            return self.render();
        }
        if let Some(dice) = &mut self.extras.returns
            && self.nodes.len() < MAX_NODES
            && dice.per_mille(500)
            && let Some(node) = self.gone.1.pop()
        {
            self.nodes.push(node);
            return self.render();
        }
        if self.nodes.len() >= MAX_NODES || (self.nodes.len() > 1 && self.dice.per_mille(500)) {
            let at = self.dice.below(self.nodes.len());
            let node = self.nodes.remove(at);
            self.gone.1.push(node);
        } else {
            self.add_node();
        }
        self.render();
    }

    /// Enables everything, so that all tasks can get done.
    pub fn enable_all(&mut self) {
        for job in &mut self.jobs {
            job.enabled = true;
        }
        self.disabled.clear();
        self.render();
    }

    /// Returns the settings of the measured resources.
    fn measures(&self) -> String {
        let mut entries = Vec::new();
        if self.extras.machines.is_some() {
            entries.push(format!(
                r#""gpu_card": {{"logical_resource": "gpu", "multiply_logical_by": 0.5}}, "ram_mb":
                {{"logical_resource": "mem", "multiply_logical_by": {MEMORY_SLOT_MB}, "physical_reserve_amount": {RESERVED_MB}}}"#
            ));
        }
        if self
            .extras
            .work
            .as_ref()
            .is_some_and(|work| work.slots_are_cpus)
        {
            entries.push(r#""cpu_core": {"logical_resource": "slots"}"#.to_owned());
        }
        match entries.is_empty() {
            true => String::new(),
            false => format!(r#", "physical_resources": {{{}}}"#, entries.join(", ")),
        }
    }

    /// Returns the keys about other jobs for which the job waits, each preceded by a comma. Jobs that are gone are left out.
    fn wait_keys(&self, job: &WorkloadJob) -> String {
        let known = |number: &u16| self.jobs.iter().any(|j| j.number == *number);
        let depends_on = job.depends_on.filter(known);
        let depends_on = depends_on.filter(|number| self.have_one_level(&job.artifacts, *number));
        let depends_on = match depends_on {
            Some(number) => format!(r#", "depends_on": ["j{number}"]"#),
            None => String::new(),
        };
        let after_all = job.after_all.iter().filter(|number| known(number));
        let after_all: Vec<String> = after_all.map(|number| format!(r#""j{number}""#)).collect();
        let after_all = match after_all.is_empty() {
            true => String::new(),
            false => format!(
                r#", "run_only_after_all_nodes_are_done_for": [{}]"#,
                after_all.join(", ")
            ),
        };
        depends_on + &after_all
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
        let has_machines = self.extras.machines.is_some();
        let measures = self.measures();
        let mut text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"],
                "node_sources": [{{"source": "manual", "prefs": {{{nodes}}}}}]}},
                "resources": {{"worker": {{"slots": {{"default": 1, "limit": {}}}{}}},
                               "l": {{"lock": {{"default": 1, "limit": {}}}}}}}{}{}}}"#,
            self.worker_slots,
            if has_machines { MACHINES } else { "" },
            self.node_limit,
            measures,
            self.settings
        );
        for job in &self.jobs {
            let waits = self.wait_keys(job);
            let Needs {
                memory,
                half_cards,
                k40,
            } = job.needs;
            let needs = match has_machines {
                true => format!(r#", "mem": {memory}, "gpu": {half_cards}, "GPU: K40": {k40}"#),
                false => String::new(),
            };
            let keys = [&job.orphans, &job.limits, &job.work, &job.most].map(String::as_str);
            let _ = write!(
                text,
                r#", "bistro_job->j{}": {{"owner": "sim", "command": ["/bin/true"], "enabled": {},
                    "backoff": {}, "resources": {{"slots": {}{needs}}}{waits}{}}}"#,
                job.number,
                job.enabled,
                job.backoff,
                job.slots,
                keys.concat() + &self.artifact_keys(&job.artifacts)
            );
        }
        text.push('}');
        self.config = parse_config(&text);
        let mut table = NodeTableBuilder::new(self.top_node(), &self.config);
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

    #[test]
    fn every_change_gives_a_configuration_without_errors() {
        for seed in 0..20 {
            let some = |modulus, stream| (seed % modulus == 0).then(|| Dice::new(seed, stream));
            let extras = Extras {
                orphans: some(2, RandomStream::Orphans),
                gates: some(3, RandomStream::Gates),
                machines: some(4, RandomStream::Machines),
                limits: some(5, RandomStream::Limits),
                rooms: some(5, RandomStream::Rooms),
                returns: some(2, RandomStream::Retention),
                standby: some(2, RandomStream::Standby),
                artifacts: some(2, RandomStream::Artifacts),
                work: some(3, RandomStream::WorkFetch).map(|dice| WorkStreams {
                    dice,
                    slots_are_cpus: seed % 2 == 0,
                }),
            };
            let mut workload = Workload::new(Dice::new(seed, RandomStream::Workload), extras);
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
