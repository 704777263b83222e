//! Further copies of outputs: who is asked for them, and tasks that wait for them.

use std::time::Duration;

use brasserie_common::artifact_report::DiskCondition;
use brasserie_common::worker::Intake;

use super::{Store, artifact, explain, pass, start, starts};
use crate::support::{Script, config, options};

/// `extract` leaves an output on several workers, for which `join` waits or does not.
fn pair(replicas: u8, wait: bool) -> Script {
    Script::with_config(config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [
            {{"source": "manual", "prefs": {{"n0": []}}}}]}}, "resources": {{}}}},
        "bistro_job->extract": {{"owner": "o", "command": ["/bin/true"],
            "outputs": [{{"path": "table", "replicas": {replicas}, "wait_for_replica": {wait}}}]}},
        "bistro_job->join": {{"owner": "o", "command": ["/bin/true"], "inputs": [{{"from": "extract"}}]}}}}"#
    )))
}

/// Lets `extract` end on the first of several workers. Returns all of them.
fn extracted(script: &mut Script, workers: usize) -> Vec<Store> {
    let mut stores = vec![Store::join(script, "w0", 1)];
    let run = start(script, "extract", "n0");
    for (number, lock) in (1..workers).zip(2..) {
        stores.push(Store::join(script, &format!("w{number}"), lock));
    }
    stores[0].done(script, &run, &[1]);
    stores
}

/// Has all workers report. Returns the workers that are asked for the copy.
fn asked(script: &mut Script, stores: &mut [Store]) -> Vec<usize> {
    // The first round may choose workers that have reported before.
    for store in stores.iter_mut() {
        store.report(script);
    }
    let answers = stores.iter_mut().map(|store| store.report(script));
    let asked = answers.enumerate().filter(|(_, answer)| {
        let wanted = answer.replicate.iter();
        wanted.map(|(wanted, _)| *wanted).eq([artifact(1)])
    });
    asked.map(|(number, _)| number).collect()
}

fn why(script: &Script) -> String {
    explain(script, "join", "n0").join("; ")
}

#[test]
fn as_many_workers_are_asked_as_copies_are_missing() {
    let mut script = pair(3, false);
    let mut stores = extracted(&mut script, 4);
    let chosen = asked(&mut script, &mut stores);
    assert_eq!(chosen.len(), 2, "{chosen:?}");
    assert!(!chosen.contains(&0), "it has the output");
    assert_eq!(asked(&mut script, &mut stores), chosen);
    stores[chosen[0]].has_copied(artifact(1).id);
    assert_eq!(asked(&mut script, &mut stores), chosen[1..]);
}

#[test]
fn a_worker_without_space_or_healthy_disk_gets_no_copy() {
    let mut script = pair(2, false);
    let mut stores = extracted(&mut script, 3);
    stores[1].usable = 0;
    stores[2].condition = DiskCondition::IoHang;
    for store in &mut stores[1..] {
        store.report(&mut script);
    }
    assert_eq!(asked(&mut script, &mut stores), Vec::<usize>::new());
    // A disk that was unhealthy is trusted again once it has space for a usual artifact.
    stores[2].condition = DiskCondition::Healthy;
    stores[2].usable = 1 << 30;
    assert_eq!(asked(&mut script, &mut stores), [2]);
}

#[test]
fn a_worker_that_drains_gets_no_copy_and_another_is_asked() {
    let mut script = pair(2, false);
    let mut stores = extracted(&mut script, 3);
    let chosen = asked(&mut script, &mut stores);
    let [first] = chosen[..] else {
        panic!("one worker is asked, not {chosen:?}");
    };
    stores[first].worker.intake = Intake::Draining;
    script.echo(&stores[first].worker);
    assert_eq!(asked(&mut script, &mut stores), [3 - first]);
}

#[test]
fn a_lost_worker_is_not_waited_for() {
    let mut script = pair(2, false);
    let mut stores = extracted(&mut script, 3);
    let chosen = asked(&mut script, &mut stores);
    let [first] = chosen[..] else {
        panic!("one worker is asked, not {chosen:?}");
    };
    let silent = stores[first].worker.clone();
    let lost = 4 * options().timeouts.lose_unhealthy_worker_after;
    pass(&mut script, lost, Some(&silent));
    stores.remove(first);
    for store in &mut stores {
        store.settle(&mut script);
    }
    assert_eq!(asked(&mut script, &mut stores), [1]);
}

#[test]
fn an_unhealthy_worker_is_not_asked_for_a_copy() {
    let mut script = pair(2, true);
    let mut holder = Store::join(&mut script, "w0", 1);
    let run = start(&mut script, "extract", "n0");
    let silent = Store::join(&mut script, "w1", 2);
    pass(&mut script, Duration::from_secs(90), Some(&silent.worker));
    holder.done(&mut script, &run, &[1]);
    holder.settle(&mut script);
    let why = explain(&script, "join", "n0").join("; ");
    assert!(why.contains("no other worker may keep artifacts"), "{why}");
}

#[test]
fn a_large_copy_gets_time_for_its_bytes() {
    let mut script = pair(2, false);
    let mut stores = vec![Store::join(&mut script, "w0", 1)];
    let run = start(&mut script, "extract", "n0");
    for (shard, lock) in [("w1", 2), ("w2", 3)] {
        let mut store = Store::join(&mut script, shard, lock);
        store.usable = 1 << 40;
        store.report(&mut script);
        stores.push(store);
    }
    stores[0].done_with_size(&mut script, &run, (1, 16 << 30));
    let wanted = |script: &mut Script, stores: &mut [Store]| -> Vec<usize> {
        let answers = stores.iter_mut().map(|store| store.report(script));
        answers.map(|answer| answer.replicate.len()).collect()
    };
    wanted(&mut script, &mut stores);
    let first = wanted(&mut script, &mut stores);
    assert_eq!(first.iter().sum::<usize>(), 1, "{first:?}");
    pass(&mut script, Duration::from_secs(1000), None);
    assert_eq!(wanted(&mut script, &mut stores), first);
    pass(&mut script, Duration::from_secs(100), None);
    wanted(&mut script, &mut stores);
    let second = wanted(&mut script, &mut stores);
    assert!(
        second != first && second.iter().sum::<usize>() == 1,
        "{second:?}"
    );
}

#[test]
fn a_task_waits_until_an_output_is_on_as_many_workers_as_it_should_be() {
    let mut script = pair(3, true);
    let mut stores = extracted(&mut script, 3);
    assert_eq!(asked(&mut script, &mut stores), [1, 2]);
    pass(&mut script, Duration::from_secs(3), None);
    assert_eq!(starts(&script), Vec::<String>::new());
    let text = why(&script);
    let expected = "it waits for 2 more copies of the output of the task of `extract` on `n0`, and copies are being made by `w1` and `w2`";
    assert!(
        text.contains(expected) || text.contains("`w2` and `w1`"),
        "{text}"
    );
    stores[1].has_copied(artifact(1).id);
    stores[1].report(&mut script);
    pass(&mut script, Duration::from_secs(3), None);
    assert_eq!(starts(&script), Vec::<String>::new());
    let text = why(&script);
    assert!(text.contains("waits for 1 more copy of"), "{text}");
    assert!(text.contains("a copy is being made by `w2`"), "{text}");
    stores[2].has_copied(artifact(1).id);
    stores[2].report(&mut script);
    pass(&mut script, Duration::from_secs(3), None);
    start(&mut script, "join", "n0");
}

#[test]
fn an_explanation_says_why_nobody_makes_a_copy() {
    let mut script = pair(2, true);
    let mut stores = extracted(&mut script, 1);
    stores[0].report(&mut script);
    let text = why(&script);
    assert!(
        text.contains("no other worker may keep artifacts"),
        "{text}"
    );
    let mut other = Store::join(&mut script, "w1", 2);
    other.usable = 0;
    other.report(&mut script);
    pass(&mut script, Duration::from_secs(90), None);
    other.report(&mut script);
    let text = why(&script);
    assert!(text.contains("no other worker has room"), "{text}");
    other.usable = 10;
    other.report(&mut script);
    let text = why(&script);
    assert!(text.contains("a copy is being made by `w1`"), "{text}");
    // A task starts at once if its input lacks the key.
    let mut script = pair(2, false);
    extracted(&mut script, 1);
    start(&mut script, "join", "n0");
}

#[test]
fn unhealthy_disks_are_problems_of_their_workers() {
    use brasserie_scheduler_core::{Answer, Query};
    let mut script = pair(2, false);
    let mut stores = extracted(&mut script, 1);
    stores[0].usable = 77;
    stores[0].report(&mut script);
    let worker = |script: &Script| match script.scheduler.answer(script.now, &Query::Status) {
        Answer::Status(status) => status.workers[0].clone(),
        other => panic!("a status, not {other:?}"),
    };
    let status = worker(&script);
    assert_eq!(status.problems, Vec::<String>::new());
    let usable: Vec<u64> = status.disks.iter().map(|disk| disk.usable).collect();
    assert_eq!(usable, [77]);
    stores[0].condition = DiskCondition::HighUsage;
    stores[0].report(&mut script);
    let problems = worker(&script).problems.join("; ");
    let expected = "artifact disk 1 (ssd) gets no artifacts: it is nearly full";
    assert!(problems.contains(expected), "{problems}");
}

#[test]
fn an_explanation_of_a_task_that_is_done_says_what_its_outputs_lack() {
    let mut script = Script::with_config(config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [
            {"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
        "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": [{"path": "table", "replicas": 3}]}}"#,
    ));
    let mut stores = extracted(&mut script, 1);
    stores[0].report(&mut script);
    let why = |script: &Script| explain(script, "extract", "n0").join("; ");
    let text = why(&script);
    let expected =
        "its output `table` is on 1 of 3 workers, and no other worker may keep artifacts";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("a copy needs another worker"), "{text}");
    let mut other = Store::join(&mut script, "w1", 2);
    other.usable = 0;
    other.report(&mut script);
    let silent = stores[0].worker.clone();
    pass(&mut script, Duration::from_secs(90), Some(&silent));
    let text = why(&script);
    let expected = "its output `table` is only on `w0`, which is unhealthy";
    assert!(text.contains(expected), "{text}");
    let lost = 4 * options().timeouts.lose_unhealthy_worker_after;
    pass(&mut script, lost, Some(&silent));
    other.settle(&mut script);
    let text = why(&script);
    let expected = "no copy of its output `table` is left: it runs again when a task needs that";
    assert!(text.contains(expected), "{text}");
}
