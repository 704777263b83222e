//! Tests of the deletion of a job's history: deleted completions stay deleted, tasks that run or may be alive are left alone, and no late
//! repeat counts as new.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::{
    CallOutcome, Fault, InvocationId, NodeName, Principal, RecordSeq, ReportedStatus, RunningTask,
    Story, TaskKey, Time, WorkerDescription, WorkerSetId,
};
use brasserie_scheduler_core::{
    CallReply, Durable, Event, ExpectedVersion, JobChange, JobChanged, JobRefusal, MAX_NAMED_NODES,
    Record, Reply, StatusUpdate,
};
use brasserie_scheduler_engine::{NodeTableBuilder, Row};

use crate::support::{Script, one_job, options, worker};
use crate::{JOB, change, create, delete, failed, name, reasons, restarted, started};

/// Numbers of tasks: deleted, running, possibly alive.
type Counts = (u64, u64, u64);

fn delete_history(s: &mut Script, job: &str, nodes: &[&str]) -> (Option<RecordSeq>, Counts) {
    let nodes = nodes.iter().map(|node| node_name(node)).collect();
    match change(s, job, JobChange::DeleteHistory { nodes }) {
        (
            after,
            Ok(JobChanged::HistoryDeleted {
                tasks,
                running,
                maybe_alive,
            }),
        ) => (after, (tasks, running, maybe_alive)),
        other => panic!("{other:?}"),
    }
}

fn node_name(node: &str) -> NodeName {
    node.try_into().expect("a name")
}

fn stored(s: &Script, node: &str) -> Option<(InvocationId, StoredStatus)> {
    let key = TaskKey {
        job: name("j"),
        node: node_name(node),
    };
    s.durable.statuses.get(&key).cloned()
}

/// Starts the task that is due. Its worker accepts it.
fn begin(s: &mut Script) -> RunningTask {
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    task
}

fn end(s: &mut Script, w: &WorkerDescription, task: &RunningTask, status: ReportedStatus) {
    assert_eq!(s.update(w, task, status).1, Ok(()));
}

/// A job on `n0`, and its worker.
fn one(job: &str) -> (Script, WorkerDescription) {
    let mut s = Script::with_config(one_job(1, job));
    let w = worker("w", 1, 10);
    s.join(&w);
    (s, w)
}

#[test]
fn a_task_without_history_runs_again_once_that_is_durable() {
    let mut s = failed();
    let (old, _) = stored(&s, "n0").expect("its end");
    s.sync_at_once = false;
    let (after, counts) = delete_history(&mut s, "j", &[]);
    assert_eq!((after.is_some(), counts), (true, (1, 0, 0)));
    assert_eq!(s.status().jobs[0].counts.unstarted, 1);
    s.advance(Duration::from_secs(60));
    assert_eq!(started(&s), Vec::<String>::new());
    s.sync();
    assert_eq!(started(&s), ["j"]);
    assert_eq!(stored(&s, "n0"), None);
    let forgotten = s.durable.forgotten.values();
    assert_eq!(forgotten.map(|of| of.up_to).collect::<Vec<_>>(), [old]);
    assert_eq!(
        delete_history(&mut s, "j", &[]),
        (None, (0, 1, 0)),
        "it runs without any"
    );
    assert!(s.starts()[0].invocation > old);
    // The first run after a restart with a clock that went back is later, too.
    let earlier = Time::ZERO + Duration::from_secs(10);
    let mut s = Script::at(restarted(), s.durable, earlier);
    s.load(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    assert!(s.starts()[0].invocation > old);
}

#[test]
fn a_crash_before_it_is_durable_deletes_nothing() {
    let mut s = failed();
    s.sync_at_once = false;
    delete_history(&mut s, "j", &[]);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    assert!(reasons(&s, "j", "n0").contains("failed for good"));
    assert_eq!(delete_history(&mut s, "j", &[]).1, (1, 0, 0));
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    assert!(!reasons(&s, "j", "n0").contains("failed for good"));
    assert_eq!(s.status().jobs[0].counts.unstarted, 1);
}

#[test]
fn what_runs_or_may_run_keeps_its_history() {
    let mut s = Script::with_config(one_job(2, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    // Each task has a completion and a further run.
    for _ in 0..2 {
        let task = begin(&mut s);
        end(&mut s, &w, &task, ReportedStatus::incomplete());
    }
    s.advance(Duration::from_secs(1));
    begin(&mut s);
    let (call, _, _) = s.take_start();
    s.complete(call, CallOutcome::Unknown("a broken connection".to_owned()));
    assert_eq!(s.status().workers[0].unsure, 1);
    let before = s.durable.statuses.clone();
    assert_eq!(before.len(), 2);
    assert_eq!(delete_history(&mut s, "j", &[]), (None, (0, 2, 0)));
    assert_eq!(s.durable.statuses, before);
}

#[test]
fn a_lost_run_that_may_be_alive_keeps_its_wait() {
    for backoff in [r#", "backoff": ["fail"]"#, r#", "backoff": [1, "repeat"]"#] {
        let (mut s, _) = one(backoff);
        begin(&mut s);
        let is_lost = |record: &Record| matches!(record, Record::WorkerLeft { .. });
        while !s.records.iter().any(is_lost) {
            s.advance(Duration::from_secs(1));
        }
        let (_, lost) = stored(&s, "n0").expect("it was lost");
        let safety = u64::from(lost.safety_seconds);
        assert!(safety > 10, "{lost:?}");
        let before = reasons(&s, "j", "n0");
        // The wait counts from the loss, even for a run that had failed for good.
        assert_eq!(delete_history(&mut s, "j", &[]), (None, (0, 0, 1)));
        assert_eq!(reasons(&s, "j", "n0"), before, "left alone");
        assert_eq!(stored(&s, "n0").map(|(_, status)| status), Some(lost));
        s.advance(Duration::from_secs(safety - 2));
        assert_eq!(delete_history(&mut s, "j", &[]).1, (0, 0, 1));
        s.advance(Duration::from_secs(3));
        assert_eq!(delete_history(&mut s, "j", &[]).1, (1, 0, 0));
        assert_eq!(stored(&s, "n0"), None);
    }
}

/// The worker received no acknowledgement of a completion, and repeats it again and again.
#[test]
fn a_late_repeat_of_a_deleted_end_is_acknowledged_and_is_no_news() {
    let (mut s, w) = one(r#", "backoff": [1, "repeat"]"#);
    let first = begin(&mut s);
    s.sync_at_once = false;
    let (taken, _) = s.update(&w, &first, ReportedStatus::done());
    let (deleted, counts) = delete_history(&mut s, "j", &[]);
    assert_eq!(counts, (1, 0, 0));
    assert!(deleted > taken);
    // The repeat comes while the deletion is being written, and afterwards.
    assert_eq!(
        s.update(&w, &first, ReportedStatus::done()),
        (deleted, Ok(()))
    );
    s.sync_at_once = true;
    s.sync();
    assert_eq!(s.update(&w, &first, ReportedStatus::done()), (None, Ok(())));
    assert_eq!(stored(&s, "n0"), None);
    // The repeat comes during the next run and after its completion. The task is no longer done.
    let second = begin(&mut s);
    assert_eq!(s.update(&w, &first, ReportedStatus::done()), (None, Ok(())));
    end(&mut s, &w, &second, ReportedStatus::error_backoff("no"));
    assert_eq!(s.update(&w, &first, ReportedStatus::done()), (None, Ok(())));
    let (of, status) = stored(&s, "n0").expect("the second end");
    assert_eq!((of, status.is_done()), (second.invocation, false));
    // The worker lists the run as ended after a restart.
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    s.heartbeat(&w, WorkerSetId::default())
        .expect("it is known");
    let mut listed = first.clone();
    listed.ended = Some(ReportedStatus::done());
    s.answer_fetch(vec![listed]);
    assert_eq!(s.status().workers[0].running, 0);
    assert_eq!(s.update(&w, &first, ReportedStatus::done()), (None, Ok(())));
    assert_eq!(stored(&s, "n0").map(|(of, _)| of), Some(second.invocation));
}

/// A worker of the original interface lists the runs that it holds without their completions.
#[test]
fn a_listed_run_whose_end_was_deleted_is_not_adopted() {
    let (mut s, w) = one("");
    let first = begin(&mut s);
    end(&mut s, &w, &first, ReportedStatus::done());
    delete_history(&mut s, "j", &[]);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    s.heartbeat(&w, WorkerSetId::default())
        .expect("it is known");
    s.answer_fetch(vec![first.clone()]);
    assert_eq!(s.status().workers[0].running, 0);
    assert_eq!(s.update(&w, &first, ReportedStatus::done()), (None, Ok(())));
    assert_eq!(stored(&s, "n0"), None);
}

/// A later run that was not reported yet is adopted.
#[test]
fn a_run_that_nobody_knew_of_is_adopted_and_ends() {
    let (mut s, w) = one(r#", "backoff": [1, "repeat"]"#);
    let first = begin(&mut s);
    end(&mut s, &w, &first, ReportedStatus::error_backoff("no"));
    s.advance(Duration::from_secs(2));
    let second = begin(&mut s);
    // The next scheduler deletes the history before the worker is back.
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    assert_eq!(delete_history(&mut s, "j", &[]).1, (1, 0, 0));
    s.heartbeat(&w, WorkerSetId::default())
        .expect("it is known");
    s.answer_fetch(vec![second.clone()]);
    assert_eq!(s.status().workers[0].running, 1);
    end(&mut s, &w, &second, ReportedStatus::done());
    assert_eq!(stored(&s, "n0").map(|(of, _)| of), Some(second.invocation));
}

#[test]
fn a_job_that_exists_no_more_loses_its_history() {
    let mut s = Script::with_config(one_job(1, r#", "enabled": false"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    create(&mut s, "api", JOB);
    let task = begin(&mut s);
    end(&mut s, &w, &task, ReportedStatus::done());
    delete(&mut s, "api", ExpectedVersion::Any).expect("it was given");
    let mut s = s.restart(restarted());
    s.load(one_job(1, r#", "enabled": false"#));
    assert_eq!(s.durable.statuses.len(), 1);
    assert_eq!(delete_history(&mut s, "api", &[]).1, (1, 0, 0));
    assert_eq!(s.durable.statuses.len(), 0);
    let nodes = Vec::new();
    let again = change(&mut s, "api", JobChange::DeleteHistory { nodes }).1;
    let unknown = JobRefusal::Unknown("no job is called `api`".to_owned());
    assert_eq!(again, Err(unknown));
    // Job `j` of the file has no history.
    assert_eq!(delete_history(&mut s, "j", &[]), (None, (0, 0, 0)));
}

#[test]
fn only_the_nodes_that_are_named_lose_their_history() {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    for _ in 0..3 {
        let task = begin(&mut s);
        end(&mut s, &w, &task, ReportedStatus::done());
    }
    let nodes = vec![node_name("n1"), node_name("nobody")];
    let refused = change(&mut s, "j", JobChange::DeleteHistory { nodes }).1;
    let nobody = node_name("nobody");
    assert_eq!(refused, Err(JobRefusal::UnknownNode(nobody)));
    let named = ["n2", "n0", "n0"];
    assert_eq!(delete_history(&mut s, "j", &named).1, (2, 0, 0));
    assert!(stored(&s, "n1").is_some());
    assert_eq!(s.durable.statuses.len(), 1);
    let nodes = vec![node_name("n1"); MAX_NAMED_NODES + 1];
    let refused = change(&mut s, "j", JobChange::DeleteHistory { nodes }).1;
    assert_eq!(refused, Err(JobRefusal::TooManyNodes(MAX_NAMED_NODES + 1)));
}

#[test]
fn many_tasks_are_forgotten_in_slices_each_after_the_one_before_is_durable() {
    const NODES: usize = 2500;
    let mut durable = Durable::default();
    let end = stored(&failed(), "n0").expect("an end");
    for i in 0..NODES {
        let key = TaskKey {
            job: name("j"),
            node: node_name(&format!("n{i}")),
        };
        durable.statuses.insert(key, end.clone());
    }
    let mut s = Script::new(options(), durable);
    s.load(one_job(NODES, ""));
    s.sync_at_once = false;
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: brasserie_common::Principal::Own,
        job: name("j"),
        change: JobChange::DeleteHistory { nodes: Vec::new() },
    });
    let slices = |s: &Script| -> Vec<usize> {
        let slices = s.records.iter().filter_map(|record| match record {
            Record::HistoryDeleted { tasks, .. } => Some(tasks.len()),
            _ => None,
        });
        slices.collect()
    };
    assert_eq!(slices(&s), [1024]);
    s.sync();
    s.sync();
    assert_eq!(slices(&s), [1024, 1024, 452]);
    let (after, reply) = s.reply_to(request);
    assert!(after.is_some());
    let all = JobChanged::HistoryDeleted {
        tasks: NODES as u64,
        running: 0,
        maybe_alive: 0,
    };
    assert_eq!(reply, Reply::JobChanged(Ok(all)));
    s.sync();
    assert_eq!(
        (s.durable.statuses.len(), s.durable.forgotten.len()),
        (0, NODES)
    );
}

/// Deleted completions that no worker can repeat are forgotten.
#[test]
fn what_nobody_can_repeat_is_not_remembered() {
    let (mut s, w) = one("");
    let task = begin(&mut s);
    end(&mut s, &w, &task, ReportedStatus::done());
    delete_history(&mut s, "j", &[]);
    assert_eq!(s.durable.forgotten.len(), 1);
    let set = WorkerSetId::default();
    s.heartbeat_with(&w, set, true).expect("a goodbye");
    assert_eq!(s.durable.instances.len(), 0);
    assert_eq!(s.durable.forgotten.len(), 0);
}

/// Returns whether the deleted completion on a node is remembered: durably, and in memory.
fn is_remembered(s: &mut Script, node: &str) -> (bool, bool) {
    put_nodes(s, &["a", "b", "c"]);
    put_nodes(s, &["d", "e", "f"]);
    let is_durable = s
        .durable
        .forgotten
        .keys()
        .any(|key| key.node.as_str() == node);
    (is_durable, s.scheduler.engine().find_node(node).is_some())
}

fn goodbye(s: &mut Script, w: &WorkerDescription) {
    let set = WorkerSetId::default();
    s.heartbeat_with(w, set, true).expect("a goodbye");
}

/// Only workers that were present at the deletion can repeat the completion, and they leave at different times.
#[test]
fn who_came_later_has_nothing_to_repeat() {
    let (mut s, w) = one("");
    let early = worker("early", 2, 20);
    s.join(&early);
    let task = begin(&mut s);
    end(&mut s, &w, &task, ReportedStatus::done());
    put_nodes(&mut s, &["a", "b", "c"]);
    delete_history(&mut s, "j", &[]);
    let late = worker("late", 3, 30);
    s.join(&late);
    assert_eq!(is_remembered(&mut s, "n0"), (true, true));
    goodbye(&mut s, &w);
    assert_eq!(
        is_remembered(&mut s, "n0"),
        (true, true),
        "one is there still"
    );
    // The record of who was present survives a restart.
    let mut s = Script::new(restarted(), s.durable);
    s.load(one_job(1, r#", "enabled": false"#));
    s.join(&early);
    s.join(&late);
    assert_eq!(is_remembered(&mut s, "n0"), (true, true));
    goodbye(&mut s, &late);
    assert_eq!(
        is_remembered(&mut s, "n0"),
        (true, true),
        "it was not there"
    );
    s.join(&worker("latest", 4, 40));
    goodbye(&mut s, &early);
    // The scheduler accepts reports for a shard until it forgets the shard.
    assert_eq!(is_remembered(&mut s, "n0"), (false, true));
    s.advance(Duration::from_secs(600));
    assert_eq!(is_remembered(&mut s, "n0"), (false, false));
}

/// Completions from before the deletion do not count either, least of all those of the run that was lost with the worker.
#[test]
fn a_worker_that_was_lost_repeats_an_end_in_vain() {
    let (mut s, w) = one(r#", "backoff": [1, "repeat"]"#);
    let first = begin(&mut s);
    end(&mut s, &w, &first, ReportedStatus::done());
    delete_history(&mut s, "j", &[]);
    let second = begin(&mut s);
    s.advance(Duration::from_secs(200));
    assert_eq!(s.durable.instances.len(), 0, "it is lost");
    let (of, lost) = stored(&s, "n0").expect("the end of the loss");
    assert_eq!((of, lost.is_done()), (second.invocation, false));
    let repeat = s.update(&w, &first, ReportedStatus::done());
    assert_eq!(repeat, (None, Ok(())));
    assert_eq!(stored(&s, "n0"), Some((of, lost)));
}

/// One task whose worker receives no acknowledgement, so that it may repeat any completion at any time.
struct Repeater {
    s: Script,
    w: WorkerDescription,
    ended: Vec<(RunningTask, ReportedStatus)>,
    /// The run of the last completion, unless it was deleted.
    expected: Option<InvocationId>,
}

impl Repeater {
    fn config() -> std::sync::Arc<brasserie_common_config::Config> {
        one_job(1, r#", "backoff": [1, "repeat"]"#)
    }

    fn step(&mut self, kind: u8, pick: usize) {
        let repeated = (!self.ended.is_empty()).then(|| pick % self.ended.len());
        match (kind, repeated) {
            (0..=2, _) => self.run(kind),
            (3, _) => {
                let is_running = !self.s.starts().is_empty();
                let (_, counts) = delete_history(&mut self.s, "j", &[]);
                assert_eq!(counts.1, u64::from(is_running));
                if !is_running {
                    self.expected = None;
                }
            }
            (4, _) => self.restart(repeated),
            (_, Some(at)) => {
                let (task, status) = self.ended[at].clone();
                assert_eq!(self.s.update(&self.w, &task, status).1, Ok(()));
            }
            (_, None) => {}
        }
        let stored = stored(&self.s, "n0").map(|(of, _)| of);
        assert_eq!(stored, self.expected);
    }

    /// Starts the next run, unless the task is done.
    fn run(&mut self, kind: u8) {
        self.s.advance(Duration::from_secs(2));
        self.s.echo(&self.w);
        if self.s.starts().is_empty() {
            return;
        }
        let task = begin(&mut self.s);
        let before = self.ended.iter().map(|(task, _)| task.invocation);
        assert!(
            before.max() < Some(task.invocation),
            "later than all before"
        );
        let status = match kind {
            0 => ReportedStatus::done(),
            1 => ReportedStatus::error_backoff("no"),
            _ => ReportedStatus::failed(),
        };
        end(&mut self.s, &self.w, &task, status.clone());
        self.expected = Some(task.invocation);
        self.ended.push((task, status));
    }

    /// Restarts the scheduler. The worker lists one of the completions that it holds.
    fn restart(&mut self, listed: Option<usize>) {
        let durable = std::mem::take(&mut self.s.durable);
        self.s = Script::at(restarted(), durable, self.s.now);
        self.s.load(Self::config());
        let first = WorkerSetId::default();
        let answer = self.s.heartbeat(&self.w, first).expect("it is known");
        let listed = listed.map(|at| {
            let (mut task, status) = self.ended[at].clone();
            task.ended = Some(status);
            task
        });
        self.s.answer_fetch(listed.into_iter().collect());
        self.s.answer_healthcheck(&self.w);
        let told = answer.worker_set;
        self.s.heartbeat(&self.w, told).expect("it is known");
        self.s.advance(crate::support::SETTLE);
    }
}

integration_tests_properties::properties! {
    256;

    /// A deleted completion never returns, and one that was accepted and not deleted stays. Every repeat is acknowledged, and each run is
    /// later than all before.
    #[test]
    fn whatever_is_repeated_after_a_deletion_is_no_news(steps in proptest::collection::vec((0u8..8, 0usize..100), 1..25)) {
        let (s, w) = one(r#", "backoff": [1, "repeat"]"#);
        let mut repeater = Repeater { s, w, ended: Vec::new(), expected: None };
        for (kind, pick) in steps {
            repeater.step(kind, pick);
        }
    }
}

#[test]
fn a_wish_that_changes_nothing_does_not_take_one_long_turn() {
    const NODES: usize = 40_000;
    let mut durable = Durable::default();
    let (invocation, end) = stored(&failed(), "n0").expect("an end");
    let forgiven = end.forgiven().expect("a failure");
    for i in 0..NODES {
        let key = TaskKey {
            job: name("j"),
            node: node_name(&format!("n{i}")),
        };
        let end = (invocation, forgiven.clone());
        durable.statuses.insert(key, end);
    }
    let mut s = Script::new(options(), durable);
    s.load(one_job(1, ""));
    let request = s.request();
    s.scheduler.handle(
        s.now,
        Event::ChangeJob {
            request,
            from: brasserie_common::Principal::Own,
            job: name("j"),
            change: JobChange::Forgive,
        },
    );
    let mut turns = 0;
    while s.scheduler.poll_timeout() == Some(Time::ZERO) {
        s.scheduler.handle_timeout(s.now);
        turns += 1;
    }
    assert!(turns >= 2, "{turns} turns");
    s.advance(Duration::ZERO);
    let (after, reply) = s.reply_to(request);
    let nothing = JobChanged::Forgiven { tasks: 0 };
    assert_eq!((after, reply), (None, Reply::JobChanged(Ok(nothing))));
}

/// Loads disabled nodes of these names.
fn put_nodes(s: &mut Script, names: &[&str]) {
    let config = one_job(1, "");
    let mut builder = NodeTableBuilder::new("instance", &config);
    for name in names {
        let child = builder.add_child(Row::ROOT, name, false);
        child.expect("the table has room");
    }
    let nodes = Arc::new(builder.finish());
    s.event(Event::NodesLoaded { nodes, config });
    while s.scheduler.poll_timeout() == Some(Time::ZERO) {
        s.advance(Duration::ZERO);
    }
}

#[test]
fn a_deleted_end_is_remembered_by_its_name_when_its_node_is_gone() {
    let (mut s, w) = one("");
    let task = begin(&mut s);
    end(&mut s, &w, &task, ReportedStatus::done());
    put_nodes(&mut s, &["a", "b", "c"]);
    assert_eq!(delete_history(&mut s, "j", &[]).1, (1, 0, 0));
    // Unused names are released.
    put_nodes(&mut s, &["d", "e", "f"]);
    put_nodes(&mut s, &["g", "h", "i"]);
    let engine = s.scheduler.engine();
    let known = ["n0", "a", "d", "g"].map(|name| engine.find_node(name).is_some());
    assert_eq!(known, [true, false, false, true]);
    let (after, told) = s.update(&w, &task, ReportedStatus::done());
    assert_eq!((after, told), (None, Ok(())), "a repeat is no news");
    assert_eq!(stored(&s, "n0"), None);
}

/// Sends a change that is answered only when its last record is durable.
fn wish(s: &mut Script, change: JobChange) {
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: brasserie_common::Principal::Own,
        job: name("j"),
        change,
    });
}

/// A script with two changes that wait for the store, and with nodes of these names.
fn wishing(nodes: &[&str]) -> Script {
    let mut s = failed();
    put_nodes(&mut s, nodes);
    s.sync_at_once = false;
    wish(&mut s, JobChange::Forgive);
    wish(&mut s, JobChange::Forgive);
    s
}

fn known(s: &Script, names: &[&str]) -> Vec<bool> {
    let engine = s.scheduler.engine();
    let all = names.iter();
    all.map(|name| engine.find_node(name).is_some()).collect()
}

#[test]
fn wishes_without_end_do_not_keep_names_that_nobody_has() {
    let mut s = wishing(&["a", "b", "c"]);
    let nodes = vec![node_name("a")];
    wish(&mut s, JobChange::DeleteHistory { nodes });
    for names in [["d", "e", "f"], ["g", "h", "i"], ["k", "l", "m"]] {
        wish(&mut s, JobChange::Forgive);
        put_nodes(&mut s, &names);
    }
    let names = ["n0", "a", "b", "d", "g", "k"];
    // A pending change names node `a`.
    let are_known = [true, true, false, false, false, true];
    assert_eq!(known(&s, &names), are_known);
    s.sync_at_once = true;
    s.sync();
    put_nodes(&mut s, &["o", "p", "q"]);
    put_nodes(&mut s, &["r", "s", "t"]);
    assert_eq!(known(&s, &["a", "k", "r"]), [false, false, true]);
}

#[test]
fn a_node_is_kept_for_a_wish_that_comes_while_it_is_asked_who_has_which() {
    let mut s = wishing(&["a", "b", "c"]);
    let mut builder = NodeTableBuilder::new("instance", &one_job(1, ""));
    for name in ["d", "e", "f", "g"] {
        let child = builder.add_child(Row::ROOT, name, false);
        child.expect("the table has room");
    }
    s.event(Event::NodesLoaded {
        nodes: Arc::new(builder.finish()),
        config: one_job(1, ""),
    });
    assert!(s.scheduler.engine().wants_held_nodes().is_some());
    let nodes = vec![node_name("a")];
    wish(&mut s, JobChange::DeleteHistory { nodes });
    assert_eq!(s.scheduler.engine().wants_held_nodes(), None, "all is told");
    s.advance(Duration::ZERO);
    assert!(!s.scheduler.engine().is_refreshing());
    assert_eq!(known(&s, &["a", "b", "c", "d"]), [true, false, false, true]);
}

/// The second deletion finds nothing because of the first, which a crash may still undo.
#[test]
fn who_asks_again_before_it_is_durable_waits_for_the_same_record() {
    let mut s = failed();
    s.sync_at_once = false;
    let (first, counts) = delete_history(&mut s, "j", &[]);
    assert_eq!((first.is_some(), counts), (true, (1, 0, 0)));
    assert_eq!(delete_history(&mut s, "j", &[]), (first, (0, 0, 0)));
    s.sync();
    assert_eq!(delete_history(&mut s, "j", &["n0"]).1, (0, 1, 0));
}

/// A `done` of an earlier run replaces a later run's completion. Its deletion deletes both, and a repeat of either does not count.
#[test]
fn the_ends_of_all_runs_are_deleted() {
    let (mut s, w) = one(r#", "backoff": [1, "repeat"]"#);
    let (call, first, _) = s.take_start();
    s.complete(call, CallOutcome::Unknown("timeout".to_owned()));
    end(&mut s, &w, &first, ReportedStatus::was_not_running());
    s.advance(Duration::from_secs(2));
    let second = begin(&mut s);
    end(&mut s, &w, &second, ReportedStatus::error_backoff("no"));
    end(&mut s, &w, &first, ReportedStatus::done());
    let (of, status) = stored(&s, "n0").expect("done");
    assert_eq!((of, status.is_done()), (second.invocation, true));
    assert_eq!(delete_history(&mut s, "j", &[]).1, (1, 0, 0));
    for task in [&first, &second] {
        let repeat = s.update(&w, task, ReportedStatus::error_backoff("no"));
        assert_eq!(repeat, (None, Ok(())));
    }
    assert_eq!(stored(&s, "n0"), None);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    s.heartbeat(&w, WorkerSetId::default())
        .expect("it is known");
    let mut listed = second.clone();
    listed.ended = Some(ReportedStatus::error_backoff("no"));
    s.answer_fetch(vec![listed]);
    assert_eq!(s.status().workers[0].running, 0);
    assert_eq!(stored(&s, "n0"), None);
}

/// Ends a run with a story, and returns for how long its task had been ready, as the record says.
pub(crate) fn ready_for(
    s: &mut Script,
    w: &WorkerDescription,
    task: &RunningTask,
) -> Option<Duration> {
    let request = s.request();
    let story = Story::not_started("", Fault::Nobody, Duration::ZERO);
    let update = Box::new(StatusUpdate {
        job: task.job.clone(),
        node: task.node.clone(),
        shard: task.shard.clone(),
        invocation: task.invocation,
        next_backoff: task.next_backoff,
        gpus: task.gpus.clone(),
        status: ReportedStatus::done(),
        story: Some(Arc::new(story)),
        outputs: Vec::new(),
        scheduler: s.scheduler.id(),
        worker: w.id,
    });
    s.event(Event::UpdateStatus {
        request,
        from: Principal::Own,
        update,
    });
    let last = s.records.iter().rev().find_map(|record| match record {
        Record::TaskEnded(ended) => ended.story.clone(),
        _ => None,
    });
    last.expect("a story").queued
}

#[test]
fn a_task_is_ready_since_its_job_may_run_and_for_an_unknown_time_without_its_history() {
    let (mut s, w) = one(r#", "enabled": false"#);
    s.advance(Duration::from_secs(5));
    s.load(one_job(1, ""));
    let first = begin(&mut s);
    let ready = ready_for(&mut s, &w, &first);
    assert!(
        ready.is_some_and(|ready| ready < Duration::from_secs(1)),
        "{ready:?}"
    );
    s.advance(Duration::from_secs(5));
    delete_history(&mut s, "j", &[]);
    let again = begin(&mut s);
    assert_eq!(ready_for(&mut s, &w, &again), None);
}
