//! Measures a real scheduler with a million nodes: how soon a job on all of them is durable, and how soon as many new nodes are in force.

use std::time::Instant;

use integration_tests::e2e::range_config;
use integration_tests::e2e::wait_within;
use serde_json::Value;

use crate::cluster::{BareStore, BenchCluster, PATIENCE, api_job, with_job};
use crate::figures::{BenchReport, Figure, times_ms, times_of};

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

/// Measures with `nodes` nodes.
pub fn measure(nodes: usize) -> BenchReport {
    eprintln!("nodes: {nodes} of them");
    let cluster = BenchCluster::start(&config("n", nodes));
    wait_for_nodes(&cluster, nodes);
    let mut store = BareStore::new(&cluster.stage);
    let bare = times_of(SAVES, |_| store.save());
    let saves = times_ms((0..SAVES).map(|number| {
        let job = api_job(format!("job{number}"), vec!["/bin/true".to_owned()]);
        let sent = Instant::now();
        cluster.client.save_job(job).expect("a good job is taken");
        let took = sent.elapsed();
        // The job takes effect after its answer, and the next save must not wait for that.
        cluster.client.wait_until("an answer", |_| true);
        took
    }));
    for number in 0..SAVES {
        cluster
            .client
            .delete_job(&format!("job{number}"))
            .expect("a job that was given");
    }
    let changes = times_ms((0..CHANGES).map(|round| {
        eprintln!("nodes: change {} of {CHANGES}", round + 1);
        cluster.replace_config(&config("few", FEW).to_string());
        wait_for_nodes(&cluster, FEW);
        let text = config(&format!("r{round}_"), nodes).to_string();
        let changed = Instant::now();
        cluster.replace_config(&text);
        wait_for_nodes(&cluster, nodes);
        changed.elapsed()
    }));
    let bare_names = times_of(CHANGES, |_| names(nodes));
    let lines = vec![
        Figure::new(
            format!("saveJob on {nodes} nodes until its durable answer, median of {SAVES}"),
            "ms",
            saves.at(50),
        )
        .beside(bare.at(50)),
        Figure::new("  longest", "ms", saves.at(100))
            .beside(bare.at(100))
            .at_most(MOST_SAVE_MS),
        Figure::new(
            format!("file with {nodes} new nodes until in force, median of {CHANGES}"),
            "ms",
            changes.at(50),
        )
        .beside(bare_names.at(50))
        .at_most(MOST_CHANGE_MS),
        Figure::new("  longest", "ms", changes.at(100)).beside(bare_names.at(100)),
        Figure::new("memory after that", "MiB", cluster.resident_mib()),
    ];
    BenchReport::new("nodes", "sync; names", lines)
}

/// Does the minimum work of any program for new nodes: writes their names, and collects them in a set.
fn names(nodes: usize) {
    let names: std::collections::BTreeSet<String> = (1..=nodes).map(|i| format!("n{i}")).collect();
    assert_eq!(names.len(), nodes);
}

fn wait_for_nodes(cluster: &BenchCluster, nodes: usize) {
    let nodes = i64::try_from(nodes).expect("a number of nodes");
    wait_within(PATIENCE, "the nodes to be in force", || {
        let status = cluster.client.status()?;
        let mut jobs = status.jobs.iter().flatten();
        jobs.any(|job| job.total == Some(nodes)).then_some(())
    });
}

fn config(prefix: &str, nodes: usize) -> Value {
    let mut config = with_job(range_config(nodes, Some(1)), "first", ["/bin/true"]);
    let source = &mut config["bistro_settings"]["nodes"]["node_sources"][0];
    source["prefs"]["format"] = format!("{prefix}{{i}}").into();
    config
}
