//! Values that every test of the core starts with: settings, a config, workers and tasks.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::worker::{Intake, PROTOCOL_VERSION, Supply};
use brasserie_common::{
    BackoffDuration, InvocationId, MachinePortLock, RunningTask, ServiceAddress, Shard, Timeouts,
    WorkerDescription, WorkerId,
};
use brasserie_common_config::{Config, ParseOptions, parse};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{Options, Retention, SlotStrategy};

/// Wall time, in seconds, at virtual time zero.
pub const EPOCH: i64 = 1_700_000_000;

pub fn options() -> Options {
    Options {
        timeouts: Timeouts {
            healthcheck_period: Duration::from_secs(60),
            lose_unhealthy_worker_after: Duration::from_secs(100),
            ..Timeouts::default()
        },
        allow_bump_unhealthy_worker: false,
        startup_wait: None,
        new_cluster: true,
        call_deadline: Duration::from_secs(5),
        work: RequestPolicy::default(),
        retention: Retention::default(),
        slots: SlotStrategy::RoundRobin,
        seed: 7,
    }
}

pub fn config(text: &str) -> Arc<Config> {
    Arc::new(
        parse(text, ParseOptions::default())
            .expect("a good config")
            .config,
    )
}

/// A config with one job `j` on `nodes` nodes, whose tasks take one slot each.
pub fn one_job(nodes: usize, job: &str) -> Arc<Config> {
    let names: Vec<String> = (0..nodes).map(|i| format!("\"n{i}\": []")).collect();
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original",
            "node_sources": [{{"source": "manual", "prefs": {{{}}}}}]}}, "resources": {{}}}},
            "bistro_job->j": {{"owner": "o", "command": ["/bin/true"] {job}}}}}"#,
        names.join(", ")
    ))
}

pub fn worker(shard: &str, lock: i32, start_time: i64) -> WorkerDescription {
    WorkerDescription {
        shard: Shard::try_from(shard).expect("a name"),
        machine_lock: MachinePortLock {
            hostname: "host".into(),
            port: lock,
        },
        address: ServiceAddress {
            host: "127.0.0.1".into(),
            port: 1,
        },
        id: WorkerId::new(start_time, i64::from(lock)),
        heartbeat_period: Duration::from_secs(15),
        protocol_version: PROTOCOL_VERSION,
        usable: UsablePhysicalResources {
            cpu_cores: 2.0,
            ..UsablePhysicalResources::default()
        },
        has_worker_command: false,
        intake: Intake::Open,
        supply: Supply::AsSlotsAllow,
        room: None,
        containment: None,
        log_folder: None,
        takes_standby: false,
    }
}

/// A task as a worker lists it.
pub fn listed(shard: &str, node: &str, invocation: InvocationId) -> RunningTask {
    RunningTask {
        job: "j".try_into().expect("a name"),
        node: node.try_into().expect("a name"),
        invocation,
        shard: Shard::try_from(shard).expect("a name"),
        resources: Vec::new(),
        gpus: Vec::new(),
        gpus_wanted: None,
        next_backoff: BackoffDuration {
            no_more_backoffs: false,
            seconds: 15,
            times: 1,
        },
        suicide_kill_wait: Duration::from_secs(5),
        physical: None,
        fence: None,
        worker_slots: None,
        outputs: Vec::new(),
        ended: None,
        story: None,
        work: Default::default(),
    }
}
