//! Tests of GPUs that are assigned to workers' tasks, and reported to a restarted scheduler.

mod support;

use std::sync::Arc;

use brasserie_common::resources::GpuInfo;
use brasserie_common::{
    CallOutcome, GpuShare, RefusalCode, ReportedStatus, RunningTask, WorkerDescription, WorkerSetId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::CallReply;

use support::{SETTLE, Script, config, listed, one_job, options, worker};

/// A job whose tasks take half a GPU each, on `nodes` nodes.
fn halves(nodes: usize) -> Arc<Config> {
    let names: Vec<String> = (0..nodes).map(|i| format!("\"n{i}\": []")).collect();
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original",
            "node_sources": [{{"source": "manual", "prefs": {{{}}}}}]}},
            "resources": {{"worker": {{"gpu": {{"default": 1, "limit": 0}}}}}},
            "physical_resources": {{"gpu_card": {{"logical_resource": "gpu", "multiply_logical_by": 0.5}}}}}},
            "bistro_job->j": {{"command": ["/bin/true"]}}}}"#,
        names.join(", ")
    ))
}

/// A worker that lists one of these GPUs twice, which still counts once.
fn with_cards(devices: &[&str]) -> WorkerDescription {
    let mut worker = worker("w", 1, 10);
    let card = |device: &&str| GpuInfo {
        name: "H100".to_owned(),
        pci_bus_id: (*device).to_owned(),
        ..GpuInfo::default()
    };
    worker.usable.gpus = devices.iter().map(card).collect();
    worker
}

fn half(device: &str) -> GpuShare {
    let device = device.into();
    GpuShare { device, milli: 500 }
}

fn started(s: &mut Script) -> Vec<RunningTask> {
    let count = s.starts().len();
    let accept = |_| {
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        task
    };
    (0..count).map(accept).collect()
}

fn shares(tasks: &[RunningTask]) -> Vec<&[GpuShare]> {
    tasks.iter().map(|task| &task.gpus[..]).collect()
}

#[test]
fn a_scheduler_started_anew_learns_from_workers_which_cards_are_taken() {
    let w = with_cards(&["bus0", "bus0", "bus1"]);
    let mut s = Script::with_config(halves(6));
    s.join(&w);
    let running = started(&mut s);
    let (a, b) = ([half("bus0")], [half("bus1")]);
    assert_eq!(shares(&running), [&a, &a, &b, &b]);
    // One task of each GPU completes.
    for (task, card) in [(&running[1], &a), (&running[2], &b)] {
        let acknowledged = s.update(&w, task, ReportedStatus::failed());
        acknowledged.1.expect("known");
        let next = started(&mut s);
        let wanted: &[GpuShare] = card;
        assert_eq!(
            shares(&next),
            [wanted],
            "what was given back is given again"
        );
    }
    // These two complete before the restart.
    let lists = |task: &RunningTask| RunningTask {
        gpus: task.gpus.clone(),
        ..listed("w", task.node.as_str(), task.invocation)
    };
    let (config, kept) = (halves(8), vec![lists(&running[0]), lists(&running[3])]);
    let mut s = s.restart(options());
    s.load(config);
    let set = WorkerSetId::default();
    let told = s.heartbeat(&w, set).expect("a free shard").worker_set;
    s.answer_fetch(kept);
    s.answer_healthcheck(&w);
    s.heartbeat(&w, told).expect("known");
    s.advance(SETTLE);
    let next = started(&mut s);
    assert_eq!(shares(&next), [&a, &b], "beside those that run");
}

#[test]
fn a_worker_that_has_not_the_cards_costs_the_task_nothing() {
    let w = with_cards(&["bus0"]);
    let mut s = Script::with_config(halves(1));
    s.join(&w);
    let (call, task, _) = s.take_start();
    assert_eq!(task.gpus, [half("bus0")]);
    let why = "there is no GPU `bus0` here".to_owned();
    s.complete(call, CallOutcome::Refused(RefusalCode::Busy, why));
    let counts = s.status().jobs[0].counts;
    assert_eq!((counts.running, counts.unstarted), (0, 1));
    assert!(
        s.records
            .iter()
            .all(|record| !format!("{record:?}").contains("Ended"))
    );
    s.advance(std::time::Duration::from_secs(60));
    assert_eq!(s.starts().len(), 1, "it is tried again");
}

#[test]
fn a_job_that_takes_no_cards_is_given_none() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&with_cards(&["bus0"]));
    assert_eq!(started(&mut s).remove(0).gpus, []);
}
