//! Artifacts in the scheduler's core: outputs that are recorded, inputs that runs get, lost outputs that are made again, and outputs that
//! nobody needs any more.

#[path = "artifacts/amounts.rs"]
mod amounts;
#[path = "artifacts/calls.rs"]
mod calls;
#[path = "artifacts/copies.rs"]
mod copies;
#[path = "artifacts/files.rs"]
mod files;
#[path = "artifacts/locality.rs"]
mod locality;
#[path = "artifacts/orders.rs"]
mod orders;
#[path = "artifacts/plans.rs"]
mod plans;
#[path = "artifacts/slots.rs"]
mod slots;
#[path = "artifacts/space.rs"]
mod space;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactsAnswer, ArtifactsReport, DiskCondition, DiskMedium, DiskReport,
    InputPeer, ListingPage, WaitingRun,
};
use brasserie_common::worker_set::SetDigest;
use brasserie_common::{
    Artifact, ArtifactForm, ArtifactId, ArtifactNamespace, CallOutcome, DiskGeneration, LeftOutput,
    OutputPath, Principal, ReportedStatus, RunningTask, ServiceAddress, TaskArtifacts, TaskKey,
    TaskOutput, WorkerDescription,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, Call, CallReply, Durable, Event, Query, Record, Rejection, Reply,
};

use crate::support::{self, Script, config, options, worker};

/// A worker with a store on one disk.
struct Store {
    worker: WorkerDescription,
    generation: DiskGeneration,
    rack: Option<Arc<str>>,
    artifacts: BTreeSet<ArtifactId>,
    new: Vec<ArtifactId>,
    gone: Vec<ArtifactId>,
    namespace: Option<ArtifactNamespace>,
    listings: Vec<ListingPage>,
    waiting: Vec<WaitingRun>,
    usable: u64,
    condition: DiskCondition,
    fetch_time: Duration,
    /// The size of the outputs of its runs.
    output_size: u64,
    /// The artifacts whose holders the next report asks for.
    wanted: Vec<ArtifactId>,
}

impl Store {
    fn join(script: &mut Script, shard: &str, lock: i32) -> Store {
        Store::of(script, worker(shard, lock, 100))
    }

    fn of(script: &mut Script, worker: WorkerDescription) -> Store {
        script.join(&worker);
        let lock = worker.machine_lock.port;
        let mut store = Store {
            worker,
            generation: DiskGeneration(u128::from(lock.unsigned_abs())),
            rack: None,
            artifacts: BTreeSet::new(),
            new: Vec::new(),
            gone: Vec::new(),
            namespace: None,
            listings: Vec::new(),
            waiting: Vec::new(),
            usable: 1000,
            condition: DiskCondition::Healthy,
            fetch_time: Duration::ZERO,
            output_size: 1,
            wanted: Vec::new(),
        };
        store.settle(script);
        store
    }

    fn try_report(&mut self, script: &mut Script) -> Result<ArtifactsAnswer, Rejection> {
        let mut digest = SetDigest::default();
        for id in &self.artifacts {
            digest.include(id.0);
        }
        let copy = |id: &ArtifactId| ArtifactCopy {
            generation: self.generation,
            id: *id,
        };
        let disk = DiskReport {
            generation: self.generation,
            digest,
            artifacts: self.artifacts.len() as u64,
            medium: DiskMedium::Ssd,
            total: 1000,
            used: 0,
            usable: self.usable,
            condition: self.condition,
            problem: None,
            flush_time: Duration::ZERO,
            fetch_time: self.fetch_time,
        };
        let report = ArtifactsReport {
            shard: self.worker.shard.clone(),
            worker: self.worker.id,
            namespace: self.namespace.clone(),
            rack: self.rack.clone(),
            disks: self.namespace.iter().map(|_| disk.clone()).collect(),
            stored: self.new.iter().map(|id| (copy(id), 1)).collect(),
            gone: self.gone.iter().map(copy).collect(),
            listings: std::mem::take(&mut self.listings),
            wanted: std::mem::take(&mut self.wanted),
            waiting: self.waiting.clone(),
            counters: None,
        };
        self.new.clear();
        self.gone.clear();
        let request = script.request();
        script.event(Event::ReportArtifacts {
            request,
            from: Principal::Own,
            report: Box::new(report),
        });
        match script.reply_to(request).1 {
            Reply::Artifacts(answer) => answer.map(|answer| *answer),
            other => panic!("a report is answered as such, not {other:?}"),
        }
    }

    /// Reports once, lists what the answer asks for, and deletes what nobody needs.
    fn report(&mut self, script: &mut Script) -> ArtifactsAnswer {
        let answer = self.try_report(script).expect("an associated worker");
        self.namespace = Some(answer.namespace.clone());
        for copy in &answer.unwanted {
            assert_eq!(copy.generation, self.generation);
            assert!(self.artifacts.remove(&copy.id), "it was here");
            self.gone.push(copy.id);
        }
        for wanted in &answer.listings {
            let ids = self.artifacts.iter();
            self.listings.push(ListingPage {
                wanted: *wanted,
                artifacts: ids.map(|id| (*id, 1)).collect(),
                is_last: true,
            });
        }
        answer
    }

    /// Reports until the scheduler knows all copies.
    fn settle(&mut self, script: &mut Script) {
        for _ in 0..3 {
            self.report(script);
        }
    }

    /// Ends a run that leaves one output, of this content and size.
    fn done_with_size(&mut self, script: &mut Script, run: &Run, (content, size): (u8, u64)) {
        let before = std::mem::replace(&mut self.output_size, size);
        self.done(script, run, &[content]);
        self.output_size = before;
    }

    /// Notes a copy that the worker has fetched.
    fn has_copied(&mut self, id: ArtifactId) {
        self.artifacts.insert(id);
        self.new.push(id);
    }

    /// Ends a run with these contents of its outputs, one for each that it is to leave.
    fn done(&mut self, script: &mut Script, run: &Run, contents: &[u8]) {
        let outputs = run.artifacts.iter().flat_map(|of| &of.outputs);
        let outputs = outputs.zip(contents).map(|(path, content)| LeftOutput {
            output: TaskOutput {
                path: path.clone(),
                artifact: Artifact {
                    size: self.output_size,
                    ..artifact(*content)
                },
            },
            generation: self.generation,
        });
        let task = RunningTask {
            outputs: outputs.collect(),
            ..run.task.clone()
        };
        for left in &task.outputs {
            self.artifacts.insert(left.output.artifact.id);
            self.new.push(left.output.artifact.id);
        }
        let result = script.update(&self.worker, &task, ReportedStatus::done());
        assert_eq!(result.1, Ok(()));
    }
}

/// Lets time pass in which all workers but one send heartbeats.
fn pass(script: &mut Script, time: Duration, silent: Option<&WorkerDescription>) {
    let silent = silent.map(|worker| worker.id);
    let workers: Vec<WorkerDescription> = script.told.values().map(|(w, _)| w.clone()).collect();
    let end = script.now + time;
    while script.now < end {
        let left = end.since(script.now);
        script.advance(left.min(Duration::from_secs(10)));
        for worker in workers.iter().filter(|worker| Some(worker.id) != silent) {
            script.echo(worker);
            let is_due =
                |call: &Call| matches!(call, Call::Healthcheck(run) if run.worker == worker.id);
            if script.calls.iter().any(|(_, _, call)| is_due(call)) {
                script.answer_healthcheck(worker);
            }
        }
    }
}

/// A start that has left, and was accepted.
struct Run {
    task: RunningTask,
    on: WorkerDescription,
    artifacts: Option<TaskArtifacts>,
}

fn artifact(content: u8) -> Artifact {
    Artifact {
        id: ArtifactId([content; 32]),
        size: 1,
        form: ArtifactForm::File,
    }
}

fn start(script: &mut Script, job: &str, node: &str) -> Run {
    let is_it = |call: &Call| {
        matches!(call, Call::RunTask(run)
            if run.task.job.as_str() == job && run.task.node.as_str() == node)
    };
    let (id, call) = script
        .take_call(is_it)
        .unwrap_or_else(|| panic!("{job} on {node} starts: {:?}", explain(script, job, node)));
    let Call::RunTask(run) = call else {
        panic!("a start is a runTask");
    };
    let accepted = CallReply::Accepted { queued_at: None };
    script.complete(id, CallOutcome::Done(accepted));
    let (on, _) = script.told[&run.worker].clone();
    Run {
        task: run.task,
        on,
        artifacts: run.options.artifacts.map(|artifacts| *artifacts),
    }
}

fn explain(script: &Script, job: &str, node: &str) -> Vec<String> {
    let query = Query::Explain {
        job: job.into(),
        node: node.into(),
    };
    match script.scheduler.answer(script.now, &query) {
        Answer::Explain(reasons) => reasons,
        other => panic!("an explanation, not {other:?}"),
    }
}

fn starts(script: &Script) -> Vec<String> {
    let all = script.starts();
    all.iter()
        .map(|task| format!("{} on {}", task.job, task.node))
        .collect()
}

/// Two nodes; `join` reads the outputs of `extract` on the same node, and `sum` those of all nodes.
fn two_jobs(keep: &str) -> Arc<Config> {
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original",
            "node_sources": [{{"source": "manual", "prefs": {{"n0": [], "n1": []}}}}]}},
            "resources": {{}}}},
            "bistro_job->extract": {{"owner": "o", "command": ["/bin/true"], "outputs": ["table", "stats/"] {keep}}},
            "bistro_job->join": {{"owner": "o", "command": ["/bin/true"], "inputs": [{{"from": "extract", "path": "table"}}]}},
            "bistro_job->sum": {{"owner": "o", "command": ["/bin/true"], "level_for_tasks": "instance",
                "inputs": [{{"from": "extract", "node": "all", "as": "all"}}]}}}}"#
    ))
}

fn places(run: &Run) -> Vec<(String, u8, usize)> {
    let artifacts = run.artifacts.as_ref().expect("it has inputs");
    let inputs = artifacts.inputs.iter();
    inputs
        .map(|input| {
            let content = input.artifact.id.0[0];
            (input.place.to_string(), content, input.holders.len())
        })
        .collect()
}

fn paths(of: &[OutputPath]) -> Vec<&str> {
    of.iter().map(OutputPath::as_str).collect()
}

fn extract_both(script: &mut Script, store: &mut Store) {
    for (node, contents) in [("n0", [1, 2]), ("n1", [3, 4])] {
        let run = start(script, "extract", node);
        let wanted = run.artifacts.as_ref().expect("it leaves outputs");
        assert_eq!(paths(&wanted.outputs), ["table", "stats/"]);
        store.done(script, &run, &contents);
    }
    store.report(script);
}

#[test]
fn a_run_gets_the_outputs_of_its_producers_with_their_holders() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    assert_eq!(starts(&script), ["extract on n0", "extract on n1"]);
    // Also a worker with an empty store is to report it.
    assert!(script.echo(&store.worker).uses_artifacts);
    extract_both(&mut script, &mut store);
    let other = Store::join(&mut script, "b", 2);
    drop(other);
    let join = start(&mut script, "join", "n1");
    // A worker is no holder for its own runs: it knows its copies.
    let holders = usize::from(join.on.shard.as_str() == "b");
    assert_eq!(places(&join), [("extract/table".to_owned(), 3, holders)]);
    let sum = start(&mut script, "sum", "instance");
    let names: Vec<String> = places(&sum).into_iter().map(|(place, ..)| place).collect();
    let expected = [
        "all/n0/stats/",
        "all/n0/table",
        "all/n1/stats/",
        "all/n1/table",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_task_starts_where_most_bytes_of_its_inputs_are() {
    for holder in ["a", "b"] {
        let mut script = Script::with_config(two_jobs(""));
        let mut stores = vec![Store::join(&mut script, holder, 1)];
        let extract = start(&mut script, "extract", "n0");
        for (other, lock) in [("c", 2), ("d", 3), ("e", 4)] {
            stores.push(Store::join(&mut script, other, lock));
        }
        // The slots of no worker are limited, so that only the inputs and the turn of the workers matter.
        stores[0].done(&mut script, &extract, &[1, 2]);
        let join = start(&mut script, "join", "n0");
        assert_eq!(join.on.shard.as_str(), holder);
    }
}

#[test]
fn a_restarted_scheduler_knows_outputs_from_its_store_and_holders_from_workers() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let recorded = script.durable.outputs.len();
    assert_eq!(recorded, 2);
    let mut script = script.restart(options());
    script.load(two_jobs(""));
    store.worker = worker("a", 1, 200);
    script.join(&store.worker);
    store.settle(&mut script);
    let mut other = Store::join(&mut script, "b", 2);
    other.settle(&mut script);
    pass(&mut script, Duration::from_secs(2), None);
    let mut places_seen = 0;
    for node in ["n0", "n1"] {
        let join = start(&mut script, "join", node);
        let places = places(&join);
        assert_eq!(places.len(), 1);
        places_seen += places[0].2;
    }
    let on_b = usize::from(places_seen > 0);
    assert!(on_b <= 1, "only `a` holds copies");
}

#[test]
fn disks_with_the_same_generation_are_listed_each_for_itself() {
    let mut script = Script::with_config(two_jobs(""));
    let mut a = Store::join(&mut script, "a", 1);
    let mut b = Store::join(&mut script, "b", 2);
    for (node, content) in [("n0", 1), ("n1", 3)] {
        let run = start(&mut script, "extract", node);
        a.done(&mut script, &run, &[content, content + 1]);
    }
    let mut script = script.restart(options());
    script.load(two_jobs(r#", "enabled": false"#));
    // One disk is a clone of the other one.
    b.generation = a.generation;
    b.artifacts = a.artifacts.split_off(&artifact(3).id);
    for (store, port) in [(&mut a, 1), (&mut b, 2)] {
        store.worker = worker(store.worker.shard.as_str(), port.into(), 200);
        store.worker.address.port = port;
        script.join(&store.worker);
    }
    a.new.clear();
    for _ in 0..3 {
        a.report(&mut script);
        b.report(&mut script);
    }
    let mut c = Store::join(&mut script, "c", 3);
    c.wanted = vec![artifact(1).id, artifact(3).id];
    let answer = c.try_report(&mut script).expect("an associated worker");
    let ports = answer.wanted.iter().map(|(_, holders)| {
        let addresses = holders.iter().flat_map(|holder| &holder.address);
        addresses.map(|address| address.port).collect()
    });
    assert_eq!(ports.collect::<Vec<Vec<u16>>>(), [[1], [2]]);
}

#[test]
fn a_report_of_an_unknown_worker_is_refused() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    store.worker.id = worker("a", 1, 300).id;
    let refused = store.try_report(&mut script);
    assert!(
        matches!(refused, Err(Rejection::WrongWorker { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_report_that_comes_after_its_worker_has_left_changes_nothing() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let set = script.told[&store.worker.id].1;
    script
        .heartbeat_with(&store.worker, set, true)
        .expect("a goodbye");
    let refused = store.try_report(&mut script);
    assert!(
        matches!(refused, Err(Rejection::UnknownWorker { .. })),
        "{refused:?}"
    );
    // If it had made known a disk that nobody lists, nothing would count as lost.
    let mut store = Store::join(&mut script, "b", 2);
    pass(&mut script, Duration::from_secs(70), None);
    store.settle(&mut script);
    start(&mut script, "extract", "n0");
}

#[test]
fn a_run_without_outputs_does_not_delay_deletions_when_its_job_is_removed() {
    let nodes = r#""bistro_settings": {"nodes": {"levels": ["l"], "node_order": "original",
        "node_sources": [{"source": "manual", "prefs": {"n0": []}}]}, "resources": {}}"#;
    let mut script = Script::with_config(config(&format!(
        r#"{{{nodes}, "bistro_job->make": {{"owner": "o", "command": ["/bin/true"], "outputs": ["table"]}},
            "bistro_job->sleep": {{"owner": "o", "command": ["/bin/true"]}}}}"#
    )));
    let mut store = Store::join(&mut script, "a", 1);
    start(&mut script, "sleep", "n0");
    script.advance(Duration::from_secs(1));
    let run = start(&mut script, "make", "n0");
    store.done(&mut script, &run, &[1]);
    store.settle(&mut script);
    script.load(config(&format!("{{{nodes}}}")));
    pass(&mut script, Duration::from_secs(140), None);
    assert_eq!(store.report(&mut script).unwanted.len(), 1);
}

#[test]
fn lost_outputs_are_made_again_by_the_tasks_that_left_them() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    let extract = start(&mut script, "extract", "n0");
    let mut other = Store::join(&mut script, "b", 2);
    store.done(&mut script, &extract, &[1, 2]);
    store.report(&mut script);
    let join = start(&mut script, "join", "n0");
    assert_eq!(join.on.shard.as_str(), "a");
    // The holder is lost, and the run with it.
    let lost = 4 * options().timeouts.lose_unhealthy_worker_after;
    pass(&mut script, lost, Some(&store.worker));
    other.settle(&mut script);
    pass(&mut script, Duration::from_secs(2), Some(&store.worker));
    let again = start(&mut script, "extract", "n0");
    let why = explain(&script, "join", "n0").join("; ");
    assert!(why.contains("waits for job `extract` on `n0`"), "{why}");
    other.done(&mut script, &again, &[7, 8]);
    pass(&mut script, Duration::from_secs(2), None);
    let join = start(&mut script, "join", "n0");
    assert_eq!(places(&join), [("extract/table".to_owned(), 7, 0)]);
}

#[test]
fn an_output_that_a_running_task_misses_is_made_again() {
    let mut script = Script::with_config(two_jobs(""));
    let mut a = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut a);
    a.settle(&mut script);
    let mut b = Store::join(&mut script, "b", 2);
    let join = start(&mut script, "join", "n0");
    let missed = join.artifacts.as_ref().expect("it has inputs").inputs[0]
        .artifact
        .id;
    // The only copy is damaged, so the run finds none.
    a.artifacts.remove(&missed);
    a.gone.push(missed);
    a.report(&mut script);
    b.wanted.push(missed);
    b.report(&mut script);
    let again = start(&mut script, "extract", "n0");
    let maker = match again.on.id == a.worker.id {
        true => &mut a,
        false => &mut b,
    };
    maker.done(&mut script, &again, &[1, 2]);
    assert!(maker.artifacts.contains(&missed), "it is the same content");
}

/// A run that waits for an input which no worker has any more goes back, so that its slot is free for the task that makes the input.
#[test]
fn a_run_whose_input_is_lost_goes_back_and_uses_no_try() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let join = start(&mut script, "join", "n0");
    let input = ArtifactId([1; 32]);
    store.wanted = vec![input];
    assert_eq!(store.report(&mut script).lost, []);
    // An empty disk replaces the one with the outputs.
    store.generation = DiskGeneration(store.generation.0 + 1);
    store.artifacts.clear();
    store.settle(&mut script);
    store.wanted = vec![input];
    assert_eq!(store.report(&mut script).lost, [input]);
    let back = script.update(&store.worker, &join.task, ReportedStatus::taken_back());
    assert_eq!(back.1, Ok(()));
    let key = TaskKey {
        job: join.task.job.clone(),
        node: join.task.node.clone(),
    };
    let (_, status) = &script.durable.statuses[&key];
    assert_eq!(status.backoff_seconds, 0, "{status}");
    // The answer is the same when the maker runs, and ends when it has made the input.
    let extract = start(&mut script, "extract", "n0");
    store.wanted = vec![input];
    assert_eq!(store.report(&mut script).lost, [input]);
    store.done(&mut script, &extract, &[1, 2]);
    store.wanted = vec![input];
    assert_eq!(store.report(&mut script).lost, []);
    pass(&mut script, Duration::from_secs(2), None);
    start(&mut script, "join", "n0");
}

/// A task does not take a slot to wait for an input that only a silent worker has.
#[test]
fn a_task_whose_input_is_on_a_silent_worker_does_not_start() {
    let mut makers = (*two_jobs("")).clone();
    makers.jobs.retain(|job| job.inputs.is_empty());
    let mut script = Script::with_config(Arc::new(makers));
    let mut silent = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut silent);
    Store::join(&mut script, "b", 2);
    pass(&mut script, Duration::from_secs(90), Some(&silent.worker));
    script.load(two_jobs(""));
    pass(&mut script, Duration::from_secs(5), Some(&silent.worker));
    assert_eq!(starts(&script), [""; 0]);
    let why = explain(&script, "join", "n0").join("; ");
    for part in [
        "it waits for its input `extract/table`, which is only on `a`, which is unhealthy, sent its last heartbeat",
        "and is lost in ",
        "If no worker with a copy is left, the task of `extract` on `n0` runs again",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    // When the worker is lost, its outputs are made again.
    pass(&mut script, Duration::from_secs(200), Some(&silent.worker));
    let made: BTreeSet<String> = starts(&script).into_iter().collect();
    assert!(made.contains("extract on n0"), "{made:?}");
    assert!(!made.contains("join on n0"), "{made:?}");
}

#[test]
fn a_task_fails_whose_input_is_lost_again_and_again() {
    let pair = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [
            {"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
        "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": ["table"]},
        "bistro_job->join": {"owner": "o", "command": ["/bin/true"], "inputs": [{"from": "extract"}]}}"#;
    let mut script = Script::with_config(config(pair));
    let mut store = Store::join(&mut script, "a", 1);
    let mut runs = 0;
    while starts(&script) == ["extract on n0"] {
        let extract = start(&mut script, "extract", "n0");
        runs += 1;
        store.done(&mut script, &extract, &[1]);
        let join = start(&mut script, "join", "n0");
        // An empty disk replaces the one with the output, and the run cannot do its work.
        store.generation = DiskGeneration(store.generation.0 + 1);
        store.artifacts.clear();
        store.new.clear();
        store.settle(&mut script);
        let ended = script.update(&store.worker, &join.task, ReportedStatus::incomplete());
        assert_eq!(ended.1, Ok(()));
        pass(&mut script, Duration::from_secs(2), None);
        assert!(runs < 10, "the number of runs is bounded");
    }
    assert_eq!(runs, 4);
    let why = explain(&script, "join", "n0").join("; ");
    assert!(why.contains("has failed for good"), "{why}");
    assert!(why.contains("lost again after 3 more runs"), "{why}");
}

#[test]
fn outputs_that_were_read_by_all_are_deleted_after_a_grace() {
    let keep = r#", "keep": "until_consumed""#;
    let mut script = Script::with_config(two_jobs(keep));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    for (job, node) in [("join", "n0"), ("sum", "instance"), ("join", "n1")] {
        pass(&mut script, Duration::from_secs(300), None);
        assert_eq!(store.report(&mut script).unwanted, []);
        assert_eq!(script.durable.outputs.len(), 2);
        let run = start(&mut script, job, node);
        store.done(&mut script, &run, &[]);
    }
    pass(&mut script, Duration::from_secs(70), None);
    let expired = |record: &&Record| matches!(record, Record::OutputsExpired { .. });
    assert_eq!(script.records.iter().filter(expired).count(), 1);
    assert_eq!(script.durable.outputs.len(), 0);
    pass(&mut script, Duration::from_secs(61), None);
    assert_eq!(store.report(&mut script).unwanted.len(), 4);
    assert_eq!(store.report(&mut script).unwanted, []);
}

/// A restart neither shortens nor prolongs the time for which outputs are kept after they were written or read.
#[test]
fn outputs_are_kept_for_their_time_also_after_a_restart() {
    let keep = r#", "keep": "1h""#;
    let mut script = Script::with_config(two_jobs(keep));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    for (job, node) in [("join", "n0"), ("join", "n1"), ("sum", "instance")] {
        pass(&mut script, Duration::from_secs(600), None);
        let run = start(&mut script, job, node);
        store.done(&mut script, &run, &[]);
    }
    pass(&mut script, Duration::from_secs(1000), None);
    let mut script = script.restart(options());
    script.load(two_jobs(keep));
    store.worker = worker("a", 1, 200);
    script.join(&store.worker);
    store.settle(&mut script);
    pass(&mut script, Duration::from_secs(2400), None);
    assert_eq!(script.durable.outputs.len(), 2, "1 h after they were read");
    pass(&mut script, Duration::from_secs(300), None);
    assert_eq!(script.durable.outputs.len(), 0);
}

/// An output whose completion is not known counts as written when the scheduler starts.
#[test]
fn an_output_of_unknown_age_is_kept_for_its_whole_time() {
    let keep = r#", "keep": "1h""#;
    let (mut script, mut store) = calls::all_done(keep);
    script
        .durable
        .statuses
        .retain(|key, _| key.node.as_str() != "n1");
    pass(&mut script, Duration::from_secs(3000), None);
    let mut script = script.restart(options());
    let mut jobs = (*two_jobs(keep)).clone();
    jobs.jobs.retain(|job| job.name.as_str() == "extract");
    jobs.jobs[0].enabled = false;
    script.load(Arc::new(jobs));
    store.worker = worker("a", 1, 200);
    script.join(&store.worker);
    store.settle(&mut script);
    pass(&mut script, Duration::from_secs(3000), None);
    assert_eq!(script.durable.outputs.len(), 2);
    pass(&mut script, Duration::from_secs(800), None);
    assert_eq!(script.durable.outputs.len(), 0);
}

#[test]
fn outputs_of_a_removed_job_are_deleted_also_after_a_restart() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let mut script = script.restart(options());
    let without = config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_order": "original",
            "node_sources": [{"source": "manual", "prefs": {"n0": [], "n1": []}}]}, "resources": {}}}"#,
    );
    script.load(without);
    store.worker = worker("a", 1, 200);
    script.join(&store.worker);
    store.settle(&mut script);
    pass(&mut script, Duration::from_secs(70), None);
    assert_eq!(script.durable.outputs.len(), 0);
    pass(&mut script, Duration::from_secs(61), None);
    assert_eq!(store.report(&mut script).unwanted.len(), 4);
}

#[test]
fn an_output_that_was_never_left_is_made_by_another_run() {
    let before = config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_order": "original",
            "node_sources": [{"source": "manual", "prefs": {"n0": [], "n1": []}}]}, "resources": {}},
            "bistro_job->extract": {"owner": "o", "command": ["/bin/true"]}}"#,
    );
    let mut script = Script::with_config(before);
    let mut store = Store::join(&mut script, "a", 1);
    for node in ["n0", "n1"] {
        let run = start(&mut script, "extract", node);
        store.done(&mut script, &run, &[]);
    }
    script.load(two_jobs(""));
    pass(&mut script, Duration::from_secs(2), None);
    let why = explain(&script, "join", "n0").join("; ");
    assert!(why.contains("waits for job `extract` on `n0`"), "{why}");
    let run = start(&mut script, "extract", "n0");
    store.done(&mut script, &run, &[1, 2]);
    pass(&mut script, Duration::from_secs(2), None);
    start(&mut script, "join", "n0");
}

#[test]
fn a_config_without_artifacts_sends_and_records_none() {
    let mut script = Script::new(options(), Durable::default());
    script.load(support::one_job(1, ""));
    let mut store = Store::join(&mut script, "a", 1);
    let run = start(&mut script, "j", "n0");
    assert!(run.artifacts.is_none());
    assert!(!script.echo(&store.worker).uses_artifacts);
    store.done(&mut script, &run, &[]);
    assert_eq!(script.durable.outputs.len(), 0);
}

#[test]
fn replicas_are_requested_from_workers_in_other_racks() {
    let pair = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [
            {"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
        "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": [{"path": "table", "replicas": 2}]}}"#;
    let mut script = Script::with_config(config(pair));
    let mut stores = vec![Store::join(&mut script, "a", 1)];
    let extract = start(&mut script, "extract", "n0");
    for (shard, lock, rack) in [("b", 2, "east"), ("c", 3, "west"), ("d", 4, "west")] {
        let mut store = Store::join(&mut script, shard, lock);
        store.rack = Some(rack.into());
        store.settle(&mut script);
        stores.push(store);
    }
    stores[0].rack = Some("east".into());
    stores[0].done(&mut script, &extract, &[1]);
    for store in &mut stores {
        store.settle(&mut script);
    }
    let requests = |script: &mut Script, stores: &mut [Store]| -> Vec<usize> {
        let answers = stores.iter_mut().map(|store| store.report(script));
        answers.map(|answer| answer.replicate.len()).collect()
    };
    // One worker of the other rack is asked, again and again.
    let first = requests(&mut script, &mut stores);
    assert!(first == [0, 0, 1, 0] || first == [0, 0, 0, 1], "{first:?}");
    assert_eq!(requests(&mut script, &mut stores), first);
    let (asked, other) = if first[2] == 1 { (2, 3) } else { (3, 2) };
    let answer = stores[asked].report(&mut script);
    let (wanted, holders) = &answer.replicate[0];
    assert_eq!((*wanted, holders.len()), (artifact(1), 1));
    // If it does not fetch the copy, another worker is asked.
    pass(&mut script, Duration::from_secs(80), None);
    assert_eq!(requests(&mut script, &mut stores[other..=other]), [1]);
    stores[other].has_copied(artifact(1).id);
    stores[other].report(&mut script);
    assert_eq!(requests(&mut script, &mut stores), [0, 0, 0, 0]);
}

#[test]
fn an_explanation_shows_how_far_the_inputs_are() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let join = start(&mut script, "join", "n0");
    store.waiting = vec![WaitingRun {
        task: TaskKey {
            job: join.task.job.clone(),
            node: join.task.node.clone(),
        },
        invocation: join.task.invocation,
        artifacts: 12,
        present: 9,
        missing_bytes: 1_288_490_189,
        peers: vec![
            InputPeer {
                address: store.worker.address.clone(),
                hostname: "host".into(),
                busy_answers: 2,
            },
            InputPeer {
                address: ServiceAddress {
                    host: "10.0.0.7".into(),
                    port: 7,
                },
                hostname: "w7".into(),
                busy_answers: 0,
            },
        ],
    }];
    store.report(&mut script);
    let why = explain(&script, "join", "n0").join("; ");
    let expected = "it waits for 3 of 12 inputs, 1.2 GiB, from `a` (busy twice) and `w7`";
    assert!(why.contains(expected), "{why}");
    // A worker that asks nobody has not reached the one that the scheduler knows.
    let mut other = Store::join(&mut script, "b", 2);
    other.waiting = std::mem::take(&mut store.waiting);
    other.waiting[0].peers.clear();
    other.waiting[0].invocation = start(&mut script, "join", "n1").task.invocation;
    other.report(&mut script);
    store.report(&mut script);
    assert!(!explain(&script, "join", "n0").join("; ").contains("inputs"));
}
