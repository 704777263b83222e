//! What comes from the sources outlives a killed scheduler: each time of a schedule has its node once.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use integration_tests::e2e::{Client, Stage, wait_within};
use serde_json::json;

/// Longer than it takes to be up again and to know what runs, on a machine that does other things too.
const LIFETIME: Duration = Duration::from_secs(15);
/// For a minute of wall time and a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn wall_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.expect("it is after 1970").as_secs()).expect("a time of this millennium")
}

/// A node each second, whose task writes its name.
fn write_config(stage: &Stage) -> std::path::PathBuf {
    let mark = stage.path("mark");
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["time"], "node_sources": [
                { "source": "add_time", "prefs": { "parent_level": "instance", "format": "{time}", "schedule": [
                    { "cron": { "epoch": {} }, "lifetime": LIFETIME.as_secs() }
                ] } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 4 } } }
        },
        "bistro_job->work": {
            "command": ["/bin/sh", "-c", format!("echo $BRASSERIE_NODE >> {}", mark.display())],
            "arguments": "none"
        }
    });
    stage.write("config.json", &format!("{config:#}"))
}

/// How often the task of each second has run.
fn runs(stage: &Stage) -> BTreeMap<i64, usize> {
    let text = std::fs::read_to_string(stage.path("mark")).unwrap_or_default();
    let mut runs = BTreeMap::new();
    // A line that is being written has no end yet.
    for line in text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        let second: i64 = line.parse().expect("a node is called after its second");
        *runs.entry(second).or_default() += 1;
    }
    runs
}

/// The scheduler is killed, and comes back when the lives of all that it had given are over.
#[test]
fn each_second_has_its_node_once_though_the_scheduler_is_killed() {
    let stage = Stage::new();
    let spec = stage
        .scheduler_spec(&write_config(&stage))
        .with("--new-cluster")
        // The worker stays, with the ends that nobody has acknowledged.
        .with("--lose-unhealthy-worker-after=10m");
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    let first = wall_seconds();
    wait_within(PATIENCE, "the tasks of some seconds", || {
        let last = *runs(&stage).last_key_value()?.0;
        (last >= first + 3).then_some(())
    });

    scheduler.kill_program();
    let killed = wall_seconds();
    let down = i64::try_from(LIFETIME.as_secs()).expect("a short time") + 3;
    wait_within(PATIENCE, "the lives of all times to be over", || {
        (wall_seconds() > killed + down).then_some(())
    });
    let before = runs(&stage);
    let _scheduler = stage.start_scheduler(&spec);
    let back = wall_seconds();
    let all = wait_within(PATIENCE, "the tasks of all seconds since", || {
        let runs = runs(&stage);
        (first..=back + 2)
            .all(|second| runs.contains_key(&second))
            .then_some(runs)
    });
    let again: Vec<_> = all.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        again.is_empty(),
        "more than once: {again:?}; before the kill: {before:?}"
    );
    // Those that were missed ran late, and not before.
    assert!((killed + 3..killed + down).all(|second| !before.contains_key(&second)));
}
