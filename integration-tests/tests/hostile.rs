//! Sends invalid frames to both servers as real processes: none crashes, none keeps memory. The binary `hostile` does the same with a
//! million frames each.

use std::time::Duration;

use integration_tests::e2e::{Client, Stage};
use integration_tests::hostile::attack::MAX_GROWTH_BYTES;
use integration_tests::hostile::originals::Target;
use integration_tests::hostile::{Attack, AttackReport};

/// Frames for each server. Both together take about three minutes on two cores without optimization.
const FRAMES: u64 = 1_000_000;

fn survives(target: Target) -> AttackReport {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    // No worker must be lost meanwhile.
    let spec = stage.default_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let worker_port = integration_tests::e2e::free_port();
    let mut worker_spec = stage.worker_spec("one", &spec);
    worker_spec
        .flags
        .push(format!("--listen=127.0.0.1:{worker_port}"));
    let mut worker = stage.start_worker(&worker_spec);
    let client = Client::new(spec.port);
    client.wait_all_done();

    let (port, process) = match target {
        Target::Scheduler => (spec.port, scheduler.program()),
        Target::Worker => (worker_port, worker.program()),
    };
    let report = Attack {
        target,
        port,
        process,
        frames: FRAMES,
        seed: 1,
    }
    .run(&|_| {});
    assert!(
        scheduler.ended().is_none() && worker.ended().is_none(),
        "a server died: {report:?}"
    );
    let status = client.wait_until("the scheduler to answer", |_| true);
    let one = status
        .workers
        .iter()
        .flatten()
        .find(|w| w.shard.as_deref() == Some("one"))
        .cloned();
    let state = one.and_then(|worker| worker.state).unwrap_or_default();
    assert!(
        state.eq_ignore_ascii_case("healthy"),
        "the worker is {state}"
    );
    report.unwrap_or_else(|damage| panic!("{damage}"))
}

#[test]
fn a_scheduler_survives_what_nobody_should_send() {
    let report = survives(Target::Scheduler);
    assert!(
        report.frames >= FRAMES && report.most_bytes <= report.first_bytes + MAX_GROWTH_BYTES,
        "{report:?}"
    );
}

#[test]
fn a_worker_survives_what_nobody_should_send() {
    let report = survives(Target::Worker);
    assert!(
        report.frames >= FRAMES && report.most_bytes <= report.first_bytes + MAX_GROWTH_BYTES,
        "{report:?}"
    );
}
