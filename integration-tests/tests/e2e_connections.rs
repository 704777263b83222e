//! Tests more unused connections than a server accepts: workers can still reconnect, and connected ones are not lost.

use std::time::{Duration, Instant};

use integration_tests::e2e::{Client, Stage};
use integration_tests::hostile::Crowd;

/// A server's limit of connections (`Limits::max_connections`), and some more.
const CROWD: usize = 2048 + 200;
/// Limit for a worker to start and become healthy, on a busy machine. Idle connections formerly stayed for ten minutes.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_crowd_of_idle_connections_keeps_no_worker_away() {
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    // Default timeouts: a worker is unhealthy after a minute without heartbeats, longer than any delay of a busy machine.
    let spec = stage.default_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let stays = stage.start_worker(&stage.worker_spec("stays", &spec));
    let returns = stage.worker_spec("returns", &spec);
    let mut first_life = stage.start_worker(&returns);
    let client = Client::new(spec.port);
    let instance = |status: &brasserie_thrift::generated::brasserie::ClusterStatus, shard: &str| {
        let mut workers = status.workers.iter().flatten();
        let one = workers.find(|worker| worker.shard.as_deref() == Some(shard));
        one.and_then(|worker| worker.instance.clone())
    };
    let before = client.wait_healthy(2);

    let crowd = Crowd::at(spec.port, CROWD);
    first_life.kill_program();
    let restarted = Instant::now();
    let _second_life = stage.start_worker(&returns);
    let after = client.wait_until_within(SOON, "the restarted worker to be healthy", |status| {
        let is_healthy = |worker: &&brasserie_thrift::generated::brasserie::WorkerStatus| {
            worker
                .state
                .as_deref()
                .is_some_and(|state| state.eq_ignore_ascii_case("healthy"))
        };
        let healthy = status.workers.iter().flatten().filter(is_healthy).count();
        healthy == 2 && instance(status, "returns") != instance(&before, "returns")
    });
    println!(
        "healthy again after {:?}, while {} connections were opened",
        restarted.elapsed(),
        crowd.opened()
    );
    assert_eq!(
        instance(&after, "stays"),
        instance(&before, "stays"),
        "the other one did not notice"
    );
    client.wait_all_done();
    assert!(crowd.opened() >= CROWD as u64);
    drop(stays);
}
