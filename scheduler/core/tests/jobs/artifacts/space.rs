//! Space for the outputs of tasks: a worker without any gets no task that leaves outputs.

use std::sync::Arc;

use brasserie_common::artifact_report::DiskCondition;
use brasserie_common_config::Config;

use super::{Store, explain, start, starts};
use crate::support::{Script, config, worker};

const MIB: u64 = 1 << 20;

/// Three nodes on which `extract` leaves outputs and `look` leaves none.
fn jobs(enabled: bool, jobs: &str) -> Arc<Config> {
    config(&format!(
        r#"{{"bistro_settings": {{"enabled": {enabled}, "nodes": {{"levels": ["l"], "node_order": "original",
            "node_sources": [{{"source": "manual", "prefs": {{"n0": [], "n1": [], "n2": []}}}}]}}, "resources": {{}}}}
            {jobs}}}"#
    ))
}

const EXTRACT: &str =
    r#", "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": ["table"]}"#;
const LOOK: &str = r#", "bistro_job->look": {"owner": "o", "command": ["/bin/true"]}"#;

/// Workers that have reported disks with this usable space, in MiB, before any task starts.
fn cluster(usable: &[u64]) -> (Script, Vec<Store>) {
    let mut script = Script::with_config(jobs(false, EXTRACT));
    let stores = usable.iter().zip(1..).map(|(usable, lock)| {
        let mut store = Store::join(&mut script, &format!("w{lock}"), lock);
        store.usable = usable * MIB;
        store.report(&mut script);
        store
    });
    let stores = stores.collect();
    (script, stores)
}

#[test]
fn a_task_with_outputs_starts_only_where_a_disk_has_space() {
    let (mut script, mut stores) = cluster(&[0, 10]);
    stores[1].condition = DiskCondition::ReadError;
    stores[1].report(&mut script);
    script.load(jobs(true, &format!("{EXTRACT}{LOOK}")));
    // A task without outputs needs no space.
    for node in ["n0", "n1", "n2"] {
        let run = start(&mut script, "look", node);
        let mut at = stores.iter_mut();
        let at = at.find(|store| store.worker.id == run.on.id).unwrap();
        at.done(&mut script, &run, &[]);
    }
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n0").join("; ");
    let expected = "2 without space for its outputs (worker `w1`: none of its disks has space for its outputs)";
    assert!(why.contains(expected), "{why}");
    stores[1].condition = DiskCondition::Healthy;
    stores[1].report(&mut script);
    // The worker runs two tasks at once.
    for node in ["n0", "n1"] {
        assert_eq!(start(&mut script, "extract", node).on.shard.as_str(), "w2");
    }
}

#[test]
fn a_worker_that_has_not_reported_its_disks_gets_tasks_with_outputs() {
    let mut script = Script::with_config(jobs(true, EXTRACT));
    script.join(&worker("w1", 1, 100));
    start(&mut script, "extract", "n0");
}

#[test]
fn a_running_task_reserves_space_for_as_much_as_earlier_ones_have_left() {
    let (mut script, mut stores) = cluster(&[1000]);
    let one = EXTRACT.replace("{", r#"{"max_running": 1, "#);
    script.load(jobs(true, &one));
    let first = start(&mut script, "extract", "n0");
    stores[0].done_with_size(&mut script, &first, (1, 600 * MIB));
    script.load(jobs(true, EXTRACT));
    let second = start(&mut script, "extract", "n1");
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n2").join("; ");
    let expected = "(worker `w1`: none of its disks has space for its outputs, about 640.0 MiB)";
    assert!(why.contains(expected), "{why}");
    stores[0].done_with_size(&mut script, &second, (2, 600 * MIB));
    start(&mut script, "extract", "n2");
}
