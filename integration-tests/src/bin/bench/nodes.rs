//! Measures a real scheduler with a million nodes: how soon a job on all of them is durable, and how soon as many new nodes are in force.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use brasserie_thrift::generated::scheduler::BistroJobConfig;
use integration_tests::e2e::{Client, Programs, Stage, resident_bytes, wait_within};
use serde_json::json;

use crate::figures::{Line, Report, times_ms};
use crate::jobs::replace;

/// Number of saves, each of a new job, which takes memory on all nodes.
const SAVES: usize = 20;
/// Number of changes of the nodes.
const CHANGES: usize = 5;
/// Minimum nodes of a meaningful measurement.
pub const LEAST: usize = 1000;
/// Number of nodes between two changes.
const FEW: usize = LEAST - 1;
/// Promised limit for the longest save.
const MOST_SAVE_MS: f64 = 200.0;
/// Promised limit for new nodes.
const MOST_CHANGE_MS: f64 = 1000.0;
/// Limit for each step, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures with `nodes` nodes.
pub fn measure(nodes: usize) -> Report {
    eprintln!("nodes: {nodes} of them");
    let stage = Stage::with(Programs::this_one());
    let file = stage.write("config.json", &config("n", nodes));
    let mut spec = stage.scheduler_spec(&file).with("--new-cluster");
    // Uses default timeouts, like users.
    spec.flags.retain(|flag| flag == "--new-cluster");
    let scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    wait_for_nodes(&client, nodes);
    let mut rows = File::create(stage.path("rows")).expect("a file in a temporary folder");
    let bare = times_ms((0..SAVES).map(|_| {
        let began = Instant::now();
        rows.write_all(&[b'x'; 4096]).expect("room on the disk");
        rows.sync_data().expect("a file can be synced");
        began.elapsed()
    }));
    let saves = times_ms((0..SAVES).map(|number| {
        let job = BistroJobConfig {
            name: Some(format!("job{number}")),
            enabled: Some(true),
            command: Some(vec!["/bin/true".to_owned()]),
            arguments: Some("none".to_owned()),
            status_from: Some("exit_code".to_owned()),
            ..BistroJobConfig::default()
        };
        let sent = Instant::now();
        client.save_job(job).expect("a good job is taken");
        let took = sent.elapsed();
        // The job takes effect after its answer, and the next save must not wait for that.
        client.wait_until("an answer", |_| true);
        took
    }));
    for number in 0..SAVES {
        client
            .delete_job(&format!("job{number}"))
            .expect("a job that was given");
    }
    let changes = times_ms((0..CHANGES).map(|round| {
        eprintln!("nodes: change {} of {CHANGES}", round + 1);
        replace(&stage, &config("few", FEW));
        wait_for_nodes(&client, FEW);
        let text = config(&format!("r{round}_"), nodes);
        let changed = Instant::now();
        replace(&stage, &text);
        wait_for_nodes(&client, nodes);
        changed.elapsed()
    }));
    let bare_names = times_ms((0..CHANGES).map(|_| names(nodes)));
    let held = resident_bytes(scheduler.id()).expect("the scheduler lives");
    let lines = vec![
        Line::new(
            format!("saveJob on {nodes} nodes until its durable answer, median of {SAVES}"),
            "ms",
            saves.at(50),
        )
        .beside(bare.at(50)),
        Line::new("  longest", "ms", saves.at(100))
            .beside(bare.at(100))
            .at_most(MOST_SAVE_MS),
        Line::new(
            format!("file with {nodes} new nodes until in force, median of {CHANGES}"),
            "ms",
            changes.at(50),
        )
        .beside(bare_names.at(50))
        .at_most(MOST_CHANGE_MS),
        Line::new("  longest", "ms", changes.at(100)).beside(bare_names.at(100)),
        Line::new("memory after that", "MiB", held as f64 / f64::from(1 << 20)),
    ];
    Report::new("nodes", "sync; names", lines)
}

/// Measures the minimum work of any program for new nodes: write their names, and collect them in a set.
fn names(nodes: usize) -> Duration {
    let began = Instant::now();
    let names: std::collections::BTreeSet<String> = (1..=nodes).map(|i| format!("n{i}")).collect();
    assert_eq!(names.len(), nodes);
    began.elapsed()
}

fn wait_for_nodes(client: &Client, nodes: usize) {
    let nodes = i64::try_from(nodes).expect("a number of nodes");
    wait_within(PATIENCE, "the nodes to be in force", || {
        let status = client.status()?;
        let mut jobs = status.jobs.iter().flatten();
        jobs.any(|job| job.total == Some(nodes)).then_some(())
    });
}

fn config(prefix: &str, nodes: usize) -> String {
    let format = format!("{prefix}{{i}}");
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": format, "start": 1, "end": nodes } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 1 } } }
        },
        "bistro_job->first": { "owner": "bench", "command": ["/bin/true"], "arguments": "none", "status_from": "exit_code" }
    });
    config.to_string()
}
