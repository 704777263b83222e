//! Small configurations, node tables and statuses for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::worker::TaskRoom;
use brasserie_common::{
    BackoffPolicy, Card, JobName, KillRequest, NodeName, Shard, StatusBits, TaskSubprocessOptions,
    Time, WallTime,
};
use brasserie_common_config::{
    Config, Enforcement, Filter, JobConfig, KeepOutputs, LevelId, NodeOrder, PhysicalKind,
    PhysicalResource, Resource, ResourceLimit, SchedulerPolicy, WorkerSelector,
};

use crate::{
    Eligibility, Engine, Judged, NodeTable, NodeTableBuilder, Placement, Restart, Row, Task,
    Timeliness, WorkerIndex, WorkerResources,
};

/// The levels are instance, host, db and worker.
pub(super) const HOST: LevelId = LevelId(1);
pub(super) const DB: LevelId = LevelId(2);
pub(super) const WORKER: LevelId = LevelId(3);

pub(super) fn resource(name: &str, level: LevelId, default: i32, limit: i32) -> Resource {
    Resource {
        name: name.to_owned(),
        level,
        default,
        limit: ResourceLimit::Fixed(limit),
        weight: 1,
    }
}

pub(super) fn config(resources: Vec<Resource>, jobs: Vec<JobConfig>) -> Config {
    let mut config = Config {
        enabled: true,
        levels: ["instance", "host", "db", "worker"]
            .map(str::to_owned)
            .to_vec(),
        level_for_tasks: DB,
        node_order: NodeOrder::Original,
        node_sources: Vec::new().into(),
        policy: SchedulerPolicy::RoundRobin,
        worker_selector: WorkerSelector::RoundRobin,
        standby: true,
        backoff: BackoffPolicy::default(),
        resources,
        worker_resources_override: BTreeMap::new(),
        kill_orphan_tasks_after: None,
        task_subprocess: TaskSubprocessOptions::default(),
        kill_subprocess: KillRequest::default(),
        working_wait: Duration::from_millis(500),
        physical_resources: Vec::new(),
        exit_initial_wait_before_timestamp: 0,
        jobs: jobs.into_iter().map(Into::into).collect(),
    };
    let defaults: Vec<i32> = config.resources.iter().map(|r| r.default).collect();
    for job in &mut config.jobs {
        for missing in &defaults[job.resources.len().min(defaults.len())..] {
            job.resources.push(*missing);
        }
    }
    config
}

pub(super) fn job(name: &str) -> JobConfig {
    JobConfig {
        name: job_name(name),
        enabled: true,
        owner: "owner".to_owned(),
        level_for_tasks: DB,
        priority: 1.0,
        resources: Vec::new(),
        config: "{\"key\":1}".to_owned(),
        filters: BTreeMap::new(),
        level_for_host_placement: None,
        host_placement: None,
        backoff: BackoffPolicy::default(),
        depends_on: Vec::new(),
        run_only_after_all_nodes_are_done_for: Vec::new(),
        kill_orphan_tasks_after: None,
        task_subprocess: TaskSubprocessOptions::default(),
        kill_subprocess: KillRequest::default(),
        command: vec!["true".to_owned()],
        est_duration: None,
        bufferable: false,
        max_running: None,
        report: None,
        outputs: Vec::new(),
        keep: KeepOutputs::default(),
        inputs: Vec::new(),
        locality_wait: Duration::ZERO,
        create_time: 0,
        modify_time: 0,
        version_id: -1,
        errors: Vec::new(),
        hold: None,
    }
}

pub(super) fn blacklist(names: &[&str]) -> Filter {
    Filter {
        blacklist: names.iter().map(|n| (*n).to_owned()).collect(),
        fraction_of_nodes: 1.0,
        ..Filter::default()
    }
}

pub(super) fn job_name(name: &str) -> JobName {
    JobName::try_from(name).unwrap()
}

pub(super) fn node_name(name: &str) -> NodeName {
    NodeName::try_from(name).unwrap()
}

pub(super) fn shard(name: &str) -> Shard {
    Shard::try_from(name).unwrap()
}

/// Creates a table of hosts and the databases below them.
pub(super) fn nodes(config: &Config, hosts: &[(&str, &[&str])]) -> NodeTable {
    let mut builder = NodeTableBuilder::new("root", config);
    for (host, dbs) in hosts {
        let row = builder.add_child(Row::ROOT, host, true).unwrap();
        for db in *dbs {
            builder.add_child(row, db, true).unwrap();
        }
    }
    builder.finish()
}

pub(super) fn on_host(hostname: &str) -> WorkerResources {
    WorkerResources {
        takes_standby: false,
        hostname: hostname.into(),
        port: 1,
        cpu_cores: 4.0,
        memory_mb: 0.0,
        cards: Vec::new(),
        has_worker_command: true,
        room: None,
    }
}

/// Returns a GPU of each of these models, named `c0` and so on.
pub(super) fn cards(models: &[&str]) -> Vec<Card> {
    let card = |(i, model): (usize, &&str)| Card {
        device: format!("c{i}").into(),
        model: (*model).into(),
    };
    models.iter().enumerate().map(card).collect()
}

/// Makes a slot of `resource` stand for `cards_a_slot` GPUs.
pub(super) fn cards_are(config: &mut Config, resource: &str, cards_a_slot: f64) {
    let logical_resource = config.resource(resource).unwrap();
    config.physical_resources.push(PhysicalResource {
        kind: PhysicalKind::GpuCard,
        logical_resource,
        multiply_logical_by: cards_a_slot,
        enforcement: Enforcement::None,
        physical_reserve_amount: 0.0,
    });
}

pub(super) fn seconds(n: u64) -> Time {
    Time::ZERO + Duration::from_secs(n)
}

pub(super) fn status(bits: StatusBits) -> StoredStatus {
    StoredStatus {
        bits,
        time: WallTime::from_secs(7),
        backoff_seconds: 0,
        safety_seconds: 0,
        data: None,
    }
}

/// Creates an engine with a configuration, nodes, and one eligible worker `w1` on host `m1`.
pub(super) fn engine(config: Config, hosts: &[(&str, &[&str])]) -> (Engine, WorkerIndex) {
    let mut engine = Engine::new(1);
    let table = nodes(&config, hosts);
    engine.apply_config(Time::ZERO, Arc::new(config));
    engine.apply_nodes(Time::ZERO, Arc::new(table));
    let worker = engine.upsert_worker(&shard("w1"), on_host("m1"));
    engine.set_eligibility(worker, Eligibility::Eligible);
    (engine, worker)
}

pub(super) fn task(engine: &mut Engine, job: &str, node: &str) -> Task {
    Task {
        job: engine.intern_job(&job_name(job)),
        node: engine.intern_node(&node_name(node)),
    }
}

/// Places tasks until no more start. Returns the placements.
pub(super) fn place_all(engine: &mut Engine, now: Time) -> Vec<Placement> {
    std::iter::from_fn(|| engine.place(now)).collect()
}

/// Returns `job node` for each placement.
pub(super) fn names(engine: &Engine, placements: &[Placement]) -> Vec<String> {
    let name = |p: &Placement| {
        format!(
            "{} {}",
            engine.job_name(p.task.job),
            engine.node_name(p.task.node)
        )
    };
    placements.iter().map(name).collect()
}

pub(super) fn end(engine: &mut Engine, now: Time, task: Task, bits: StatusBits) {
    engine.end(now, task, status(bits), None, Restart::AtOnce);
}

/// The report of a worker that can run `most` tasks at once.
pub(super) fn room(most: u32) -> TaskRoom {
    TaskRoom {
        most: most.try_into().expect("one task at least"),
        limited_by: "open files: 300, 6 a task".into(),
    }
}

/// A judgement without the cost of a simulation.
pub(super) fn judged(is_in_time: bool) -> Judged {
    Judged {
        timeliness: match is_in_time {
            true => Timeliness::InTime,
            false => Timeliness::Late,
        },
        tries: 0,
    }
}
