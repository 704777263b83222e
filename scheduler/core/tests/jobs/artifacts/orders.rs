//! Operators' orders about workers: exclusion, decommission with the copies that it needs, deadlines, and the way back.

use std::time::Duration;

use brasserie_common::resources::ResourceAmount;
use brasserie_common::{
    CallId, CallOutcome, EndedBy, InvocationId, Principal, ReportedStatus, Shard,
    WorkerDescription, WorkerSetId,
};
use brasserie_scheduler_core::{
    AfterDecommission, Call, CallReply, Event, MAX_REASON_BYTES, OrderCall, OrderRefusal,
    OrderRequest, OrderStage, OrderStatus, Reply,
};

use super::{Run, Store, artifact, explain, pass, places, start, starts, two_jobs};
use crate::support::{Script, config, listed, one_job, options, worker};

const HOUR: Duration = Duration::from_secs(3600);
/// Time in which the scheduler checks all orders.
const A_WHILE: Duration = Duration::from_secs(3);

type Ordered = Result<Option<Box<OrderStatus>>, OrderRefusal>;

fn order(script: &mut Script, shard: &str, order: OrderRequest) -> Ordered {
    let (request, records) = (script.request(), script.records.len());
    script.event(Event::OrderWorker(Box::new(OrderCall {
        request,
        from: Principal::Unauthenticated(([10, 0, 0, 7], 60604).into()),
        user: Some("ann".into()),
        shard: Shard::try_from(shard).expect("a name"),
        order,
    })));
    match script.reply_to(request) {
        (after, Reply::WorkerOrdered(result)) => {
            let is_change = matches!(result, Ok(Some(_))) && script.records.len() > records;
            assert!(!is_change || after.is_some(), "an order is on disk");
            if let Ok(Some(status)) = &result {
                // The port belongs to this call.
                assert_eq!(&*status.order.by, "ann at 10.0.0.7");
            }
            result
        }
        other => panic!("an order is answered as such, not {other:?}"),
    }
}

fn exclude(script: &mut Script, shard: &str) {
    let reason = "slow disk".into();
    order(script, shard, OrderRequest::Exclude { reason }).expect("a known worker");
}

fn decommission(script: &mut Script, shard: &str, deadline: Option<Duration>) -> OrderStatus {
    let request = OrderRequest::Decommission {
        reason: "new disk".into(),
        deadline,
        then: AfterDecommission::Exit,
    };
    let ordered = order(script, shard, request).expect("a known worker");
    *ordered.expect("an order")
}

fn recommission(script: &mut Script, shard: &str) {
    let ended = order(script, shard, OrderRequest::Recommission);
    assert_eq!(ended, Ok(None));
}

fn status(script: &mut Script) -> OrderStatus {
    let mut orders = script.status().orders;
    assert_eq!(orders.len(), 1, "{orders:?}");
    orders.remove(0)
}

fn is_decommissioned(script: &mut Script) -> bool {
    matches!(status(script).order.stage, OrderStage::Decommissioned(_))
}

fn take_drain(script: &mut Script) -> Option<CallId> {
    let drain = script.take_call(|call| matches!(call, Call::Drain { .. }));
    drain.map(|(id, _)| id)
}

fn take_suicide(script: &mut Script) -> Option<CallId> {
    let suicide = script.take_call(|call| matches!(call, Call::RequestSuicide { .. }));
    suicide.map(|(id, _)| id)
}

/// Lets the worker exit with all its tasks.
fn goodbye(script: &mut Script, worker: &WorkerDescription) {
    let (_, set) = script.told[&worker.id];
    let result = script.heartbeat_with(worker, set, true);
    assert!(result.is_ok(), "{result:?}");
    script.told.remove(&worker.id);
    let id = worker.id;
    script.calls.retain(|(_, _, call)| call.worker() != id);
}

fn finish(script: &mut Script, run: &Run) {
    let result = script.update(&run.on, &run.task, ReportedStatus::done());
    assert_eq!(result.1, Ok(()));
}

/// Lets the store fetch what the scheduler wants there.
fn replicate(script: &mut Script, store: &mut Store) -> usize {
    let wanted = store.report(script).replicate;
    for (artifact, _) in &wanted {
        store.artifacts.insert(artifact.id);
        store.new.push(artifact.id);
    }
    store.settle(script);
    wanted.len()
}

fn news(script: &mut Script) -> String {
    let (news, _) = script.scheduler.take_news();
    let lines = news.iter().map(ToString::to_string);
    lines.collect::<Vec<String>>().join("\n")
}

/// `extract` on one node, and `join`, which reads its output.
fn pair(more: &str) -> std::sync::Arc<brasserie_common_config::Config> {
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [
                {{"source": "manual", "prefs": {{"n0": []}}}}]}}, "resources": {{}}}},
            "bistro_job->extract": {{"owner": "o", "command": ["/bin/true"], "outputs": ["table"]}},
            "bistro_job->join": {{"owner": "o", "command": ["/bin/true"], "inputs": [{{"from": "extract"}}] {more}}}}}"#
    ))
}

/// The worker `a` has left the output of `extract`, and `b` has joined. `join` waits, as it is disabled.
fn a_has_the_only_copy() -> (Script, Store, Store) {
    let mut script = Script::with_config(pair(r#", "enabled": false"#));
    let mut a = Store::join(&mut script, "a", 1);
    let extract = start(&mut script, "extract", "n0");
    let b = Store::join(&mut script, "b", 2);
    a.done(&mut script, &extract, &[1]);
    a.settle(&mut script);
    (script, a, b)
}

#[test]
fn the_only_copies_move_before_a_worker_is_drained() {
    let (mut script, a, mut b) = a_has_the_only_copy();
    let status_now = decommission(&mut script, "a", None);
    let left = status_now.left;
    assert_eq!(
        (left.running, left.only_here.artifacts, left.unknown),
        (0, 1, false)
    );
    pass(&mut script, HOUR, None);
    assert_eq!(take_drain(&mut script), None);
    assert_eq!(replicate(&mut script, &mut b), 1);
    pass(&mut script, A_WHILE, None);
    let drain = take_drain(&mut script).expect("nothing is left");
    script.complete(drain, CallOutcome::Done(CallReply::Empty));
    assert!(status(&mut script).exits);
    let told = news(&mut script);
    assert!(
        told.contains("its needed outputs are elsewhere; it exits now"),
        "{told}"
    );
    goodbye(&mut script, &a.worker);
    let over = status(&mut script);
    assert!(!over.exits && !over.connected);
    // The consumer runs at once, with the copy, and the producer does not run again.
    script.load(pair(""));
    assert_eq!(starts(&script), ["join on n0"]);
    let join = start(&mut script, "join", "n0");
    assert_eq!(join.on.shard.as_str(), "b");
}

#[test]
fn a_worker_that_comes_back_after_its_decommission_stays_idle_until_it_is_recommissioned() {
    let (mut script, a, mut b) = a_has_the_only_copy();
    decommission(&mut script, "a", None);
    replicate(&mut script, &mut b);
    pass(&mut script, A_WHILE, None);
    take_drain(&mut script).expect("nothing is left");
    goodbye(&mut script, &a.worker);
    goodbye(&mut script, &b.worker);
    script.join(&worker("a", 1, 300));
    script.load(one_job(1, ""));
    pass(&mut script, HOUR, None);
    assert_eq!(
        (take_drain(&mut script), take_suicide(&mut script)),
        (None, None)
    );
    assert_eq!(starts(&script), [""; 0]);
    let why = explain(&script, "j", "n0").join("; ");
    assert!(
        why.contains("1 excluded or decommissioned by an operator"),
        "{why}"
    );
    assert!(
        why.contains("worker `a` is decommissioned (new disk)"),
        "{why}"
    );
    recommission(&mut script, "a");
    assert_eq!(starts(&script), ["j on n0"]);
    assert_eq!(script.durable.orders.len(), 0);
}

// nomad#28008: a drain killed batch tasks before its deadline. nomad#26929: it restarted them elsewhere although they went on.
#[test]
fn batch_tasks_are_neither_killed_nor_started_elsewhere_before_the_deadline() {
    let mut script = Script::with_config(one_job(1, ""));
    let a = Store::join(&mut script, "a", 1);
    let run = start(&mut script, "j", "n0");
    let b = Store::join(&mut script, "b", 2);
    drop(b);
    decommission(&mut script, "a", Some(2 * HOUR));
    pass(&mut script, 2 * HOUR - Duration::from_secs(5), None);
    assert_eq!(starts(&script), [""; 0]);
    assert_eq!(
        (take_drain(&mut script), take_suicide(&mut script)),
        (None, None)
    );
    assert!(!is_decommissioned(&mut script));
    finish(&mut script, &run);
    pass(&mut script, A_WHILE, None);
    assert!(take_drain(&mut script).is_some());
    assert_eq!(a.worker.shard.as_str(), "a");
}

#[test]
fn a_deadline_ends_the_worker_and_says_what_is_lost() {
    let (mut script, a, mut b) = a_has_the_only_copy();
    script.load(pair(r#", "replicas": 1"#));
    let join = start(&mut script, "join", "n0");
    assert_eq!(join.on.shard.as_str(), "a");
    decommission(&mut script, "a", Some(HOUR));
    pass(&mut script, HOUR - Duration::from_secs(5), None);
    assert_eq!(take_suicide(&mut script), None);
    pass(&mut script, Duration::from_secs(10), None);
    assert!(take_suicide(&mut script).is_some());
    assert_eq!(take_drain(&mut script), None);
    let told = news(&mut script);
    let expected =
        "ends with 1 task that still run, and 1 output (1 B) that no other worker has are lost";
    assert!(told.contains(expected), "{told}");
    goodbye(&mut script, &a.worker);
    let OrderStage::Decommissioned(terms) = status(&mut script).order.stage else {
        panic!("the deadline is over");
    };
    let lost = terms.lost.map(|lost| (lost.artifacts, lost.bytes));
    assert_eq!(lost, Some((1, 1)));
    b.settle(&mut script);
    pass(&mut script, Duration::from_secs(120), None);
    // The task runs elsewhere, after its input is made again.
    let extract = start(&mut script, "extract", "n0");
    assert_eq!(extract.on.shard.as_str(), "b");
}

#[test]
fn an_excluded_worker_gets_neither_tasks_nor_replicas_and_keeps_its_own() {
    let two_copies = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [
            {"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
        "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": [{"path": "table", "replicas": 2}]}}"#;
    let mut script = Script::with_config(config(two_copies));
    let mut a = Store::join(&mut script, "a", 1);
    let extract = start(&mut script, "extract", "n0");
    let mut b = Store::join(&mut script, "b", 2);
    exclude(&mut script, "a");
    exclude(&mut script, "b");
    // The task goes on, and its outputs are taken.
    pass(&mut script, HOUR, None);
    assert_eq!(
        (take_drain(&mut script), take_suicide(&mut script)),
        (None, None)
    );
    a.done(&mut script, &extract, &[1]);
    a.settle(&mut script);
    b.settle(&mut script);
    assert_eq!(b.report(&mut script).replicate, []);
    recommission(&mut script, "b");
    let wanted = b.report(&mut script).replicate;
    let [(copy, holders)] = &wanted[..] else {
        panic!("one copy, not {wanted:?}");
    };
    assert_eq!((*copy, holders.len()), (artifact(1), 1));
}

#[test]
fn an_exclusion_outlives_restarts_of_scheduler_and_worker() {
    let mut script = Script::with_config(one_job(1, r#", "enabled": false"#));
    let w = worker("a", 1, 100);
    script.join(&w);
    exclude(&mut script, "a");
    let mut script = script.restart(options());
    // The order about a worker that has not returned yet can be shown and changed.
    assert!(!status(&mut script).connected);
    exclude(&mut script, "a");
    let successor = worker("a", 1, 200);
    script.join(&successor);
    script.load(one_job(1, ""));
    pass(&mut script, HOUR, None);
    assert_eq!(starts(&script), [""; 0]);
    recommission(&mut script, "a");
    assert_eq!(starts(&script), ["j on n0"]);
}

#[test]
fn a_decommission_goes_on_after_a_restart_of_the_scheduler() {
    let (mut script, mut a, mut b) = a_has_the_only_copy();
    decommission(&mut script, "a", Some(HOUR));
    let deadline = status(&mut script).order;
    let mut script = script.restart(options());
    script.load(pair(r#", "enabled": false"#));
    assert_eq!(status(&mut script).order, deadline);
    for (store, start_time) in [(&mut a, 200), (&mut b, 200)] {
        let lock = store.worker.machine_lock.port;
        store.worker = worker(store.worker.shard.as_str(), lock, start_time);
        script.join(&store.worker);
        // Nothing is decided before all copies are known.
        assert!(!is_decommissioned(&mut script));
        store.namespace = None;
    }
    for store in [&mut a, &mut b] {
        store.settle(&mut script);
    }
    pass(&mut script, A_WHILE, None);
    assert_eq!(take_drain(&mut script), None);
    assert_eq!(status(&mut script).left.only_here.artifacts, 1);
    assert_eq!(replicate(&mut script, &mut b), 1);
    pass(&mut script, A_WHILE, None);
    assert!(take_drain(&mut script).is_some());
}

#[test]
fn a_worker_without_a_store_is_drained_although_an_output_is_lost() {
    let (mut script, a, _b) = a_has_the_only_copy();
    let lost = 4 * options().timeouts.lose_unhealthy_worker_after;
    pass(&mut script, lost, Some(&a.worker));
    // It has associated and never reports.
    let storeless = worker("c", 3, 100);
    script.join(&storeless);
    decommission(&mut script, "c", None);
    pass(&mut script, Duration::from_secs(40), Some(&a.worker));
    assert!(status(&mut script).left.unknown, "it may still report");
    assert_eq!(take_drain(&mut script), None);
    pass(&mut script, Duration::from_secs(30), Some(&a.worker));
    assert!(!status(&mut script).left.unknown);
    assert!(take_drain(&mut script).is_some());
}

#[test]
fn a_scheduler_that_restarts_before_the_drain_drains_the_same_instance() {
    let mut script = Script::with_config(one_job(1, r#", "enabled": false"#));
    let w = worker("a", 1, 100);
    script.join(&w);
    decommission(&mut script, "a", None);
    pass(&mut script, A_WHILE, None);
    // The request to drain is lost with the scheduler.
    assert!(is_decommissioned(&mut script));
    let mut script = script.restart(options());
    script.load(one_job(1, r#", "enabled": false"#));
    script
        .heartbeat(&w, WorkerSetId::default())
        .expect("the same instance");
    script.answer_fetch(Vec::new());
    script.advance(A_WHILE);
    let drain = take_drain(&mut script).expect("the worker is still there");
    let unreached = CallOutcome::Unknown("no answer".to_owned());
    script.complete(drain, unreached);
    assert!(
        script
            .status()
            .errors
            .join("; ")
            .contains("has not accepted the request to exit")
    );
    pass(&mut script, Duration::from_secs(20), None);
    assert!(take_drain(&mut script).is_some(), "the request is repeated");
}

#[test]
fn a_worker_that_is_replaced_half_way_goes_on_with_its_decommission() {
    let (mut script, mut a, mut b) = a_has_the_only_copy();
    decommission(&mut script, "a", None);
    goodbye(&mut script, &a.worker);
    assert!(!status(&mut script).connected);
    pass(&mut script, A_WHILE, None);
    assert!(
        !is_decommissioned(&mut script),
        "its data is unknown while it is away"
    );
    a.worker = worker("a", 1, 300);
    script.join(&a.worker);
    a.settle(&mut script);
    pass(&mut script, A_WHILE, None);
    assert_eq!(status(&mut script).left.only_here.artifacts, 1);
    assert_eq!(replicate(&mut script, &mut b), 1);
    pass(&mut script, A_WHILE, None);
    assert!(take_drain(&mut script).is_some());
}

#[test]
fn a_deadline_passes_also_for_a_worker_that_is_away() {
    let (mut script, a, _b) = a_has_the_only_copy();
    decommission(&mut script, "a", Some(HOUR));
    goodbye(&mut script, &a.worker);
    pass(&mut script, HOUR, None);
    assert!(is_decommissioned(&mut script));
    let told = news(&mut script);
    assert!(told.contains("the worker is not connected"), "{told}");
}

#[test]
fn recommission_half_way_lets_the_worker_stay_with_its_tasks() {
    let (mut script, a, mut b) = a_has_the_only_copy();
    decommission(&mut script, "a", Some(HOUR));
    recommission(&mut script, "a");
    assert_eq!(
        b.report(&mut script).replicate,
        [],
        "its copies count again"
    );
    pass(&mut script, 2 * HOUR, None);
    assert_eq!(
        (take_drain(&mut script), take_suicide(&mut script)),
        (None, None)
    );
    script.load(pair(""));
    let join = start(&mut script, "join", "n0");
    // The worker with the input is preferred as before.
    assert_eq!(join.on.id, a.worker.id);
    assert_eq!(places(&join), [("extract/table".to_owned(), 1, 0)]);
    assert_eq!(
        order(&mut script, "a", OrderRequest::Recommission),
        Ok(None)
    );
}

#[test]
fn tasks_that_have_not_begun_go_to_other_workers_without_a_backoff() {
    let mut script = Script::with_config(one_job(2, r#", "est_duration": "1s""#));
    let a = WorkerDescription {
        takes_standby: true,
        ..worker("a", 1, 100)
    };
    script.join(&a);
    let (first, running, _) = script.take_start();
    script.complete(
        first,
        CallOutcome::Done(CallReply::Accepted { queued_at: None }),
    );
    let (second, queued, _) = script.take_start();
    let stands_by = CallReply::Accepted { queued_at: Some(1) };
    script.complete(second, CallOutcome::Done(stands_by));
    let b = worker("b", 2, 100);
    script.join(&b);
    exclude(&mut script, "a");
    script.advance(A_WHILE);
    let asked = |script: &mut Script, run: InvocationId| {
        let is_it = |call: &Call| {
            matches!(call, Call::KillTask { task, kill, .. }
                if task.invocation == run && kill.by == EndedBy::TakeBack)
        };
        script.take_call(is_it).map(|(id, _)| id)
    };
    let begun = asked(&mut script, running.invocation).expect("asked once");
    let code = brasserie_common::RefusalCode::Unspecified;
    script.complete(begun, CallOutcome::Refused(code, "it has begun".to_owned()));
    let back = asked(&mut script, queued.invocation).expect("asked once");
    script.complete(back, CallOutcome::Done(CallReply::Empty));
    let result = script.update(&a, &queued, ReportedStatus::taken_back());
    assert_eq!(result.1, Ok(()));
    let (_, again, _) = script.take_start();
    assert_eq!((again.node, again.shard.as_str()), (queued.node, "b"));
    assert_eq!(again.next_backoff, queued.next_backoff);
    pass(&mut script, HOUR, None);
    assert_eq!(asked(&mut script, running.invocation), None);
}

#[test]
fn tasks_that_a_worker_lists_after_a_restart_are_asked_back_too() {
    let mut script = Script::with_config(one_job(1, ""));
    let a = WorkerDescription {
        takes_standby: true,
        ..worker("a", 1, 100)
    };
    script.join(&a);
    let (id, task, _) = script.take_start();
    let stands_by = CallReply::Accepted { queued_at: Some(1) };
    script.complete(id, CallOutcome::Done(stands_by));
    exclude(&mut script, "a");
    let mut script = script.restart(options());
    script.load(one_job(1, ""));
    script
        .heartbeat(&a, WorkerSetId::default())
        .expect("the same instance");
    let slots = ResourceAmount {
        name: "cpu".to_owned(),
        amount: 1,
    };
    let mut standing_by = listed("a", "n0", task.invocation);
    standing_by.worker_slots = Some(vec![slots]);
    script.answer_fetch(vec![standing_by]);
    script.advance(A_WHILE);
    let back = script.take_call(|call| matches!(call, Call::KillTask { .. }));
    assert!(back.is_some());
}

#[test]
fn an_idle_decommission_ends_without_an_exit() {
    let mut script = Script::with_config(one_job(1, r#", "enabled": false"#));
    script.join(&worker("a", 1, 100));
    let request = OrderRequest::Decommission {
        reason: "".into(),
        deadline: Some(HOUR),
        then: AfterDecommission::Idle,
    };
    assert!(order(&mut script, "a", request).is_ok());
    pass(&mut script, 2 * HOUR, None);
    assert!(is_decommissioned(&mut script));
    let over = status(&mut script);
    assert!(over.connected && !over.exits);
    assert_eq!(
        (take_drain(&mut script), take_suicide(&mut script)),
        (None, None)
    );
    let told = news(&mut script);
    assert!(told.contains("it stays idle"), "{told}");
}

#[test]
fn a_worker_leaves_no_output_to_an_unhealthy_one() {
    let (mut script, _a, mut b) = a_has_the_only_copy();
    b.has_copied(artifact(1).id);
    b.settle(&mut script);
    let silent = b.worker.clone();
    pass(&mut script, Duration::from_secs(90), Some(&silent));
    let ordered = decommission(&mut script, "a", None);
    assert_eq!(ordered.left.only_here.artifacts, 1);
    let why = ordered.copies_wait_for.expect("there is no other worker");
    for part in [
        "no other worker can take copies: each is unhealthy,",
        "a copy on `b` does not count, as that worker is unhealthy",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    pass(&mut script, Duration::from_secs(30), Some(&silent));
    assert_eq!(take_drain(&mut script), None);
    // Another worker gets a copy.
    let mut c = Store::join(&mut script, "c", 3);
    assert_eq!(replicate(&mut script, &mut c), 1);
    pass(&mut script, A_WHILE, Some(&silent));
    assert_eq!(status(&mut script).left.only_here.artifacts, 0);
    assert!(take_drain(&mut script).is_some());
}

#[test]
fn a_worker_leaves_when_the_other_holder_is_healthy_again() {
    let (mut script, _a, mut b) = a_has_the_only_copy();
    b.has_copied(artifact(1).id);
    b.settle(&mut script);
    let silent = b.worker.clone();
    pass(&mut script, Duration::from_secs(90), Some(&silent));
    decommission(&mut script, "a", None);
    pass(&mut script, A_WHILE, Some(&silent));
    assert!(!is_decommissioned(&mut script));
    pass(&mut script, Duration::from_secs(60), None);
    assert!(is_decommissioned(&mut script));
    assert!(take_drain(&mut script).is_some());
}

#[test]
fn the_data_of_one_leaving_worker_is_no_copy_for_another() {
    let (mut script, _a, mut b) = a_has_the_only_copy();
    decommission(&mut script, "b", None);
    decommission(&mut script, "a", None);
    assert_eq!(b.report(&mut script).replicate, [], "it leaves, too");
    let mut c = Store::join(&mut script, "c", 3);
    assert_eq!(replicate(&mut script, &mut c), 1);
    pass(&mut script, A_WHILE, None);
    assert_eq!(script.status().orders.len(), 2);
    assert!(take_drain(&mut script).is_some() && take_drain(&mut script).is_some());
}

#[test]
fn a_repeated_decommission_neither_begins_anew_nor_loses_its_reason_and_no_exclusion_replaces_it() {
    let again = |deadline| OrderRequest::Decommission {
        reason: "".into(),
        deadline,
        then: AfterDecommission::Exit,
    };
    let mut script = Script::with_config(one_job(1, ""));
    let a = worker("a", 1, 100);
    script.join(&a);
    let run = start(&mut script, "j", "n0");
    decommission(&mut script, "a", Some(HOUR));
    let refused = order(
        &mut script,
        "a",
        OrderRequest::Exclude { reason: "".into() },
    );
    let text = refused.expect_err("it leaves").to_string();
    assert!(
        text.contains("`brasserie worker recommission a` first"),
        "{text}"
    );
    order(&mut script, "a", again(None)).expect("it is not done");
    assert_eq!(&*status(&mut script).order.reason, "new disk");
    finish(&mut script, &run);
    pass(&mut script, A_WHILE, None);
    assert!(is_decommissioned(&mut script));
    take_drain(&mut script).expect("nothing is left");
    goodbye(&mut script, &a);
    let records = script.records.len();
    let ordered = order(&mut script, "a", again(None)).expect("a known worker");
    assert_eq!(&*ordered.expect("an order").order.reason, "new disk");
    assert_eq!(script.records.len(), records);
    // The worker comes back, and stays.
    script.join(&worker("a", 1, 200));
    order(&mut script, "a", again(None)).expect("a known worker");
    pass(&mut script, A_WHILE, None);
    assert!(is_decommissioned(&mut script));
    assert!(take_drain(&mut script).is_none());
}

#[test]
fn orders_that_cannot_be_kept_are_refused_with_the_reason() {
    let mut script = Script::with_config(two_jobs(""));
    script.join(&worker("a", 1, 100));
    let unknown = order(&mut script, "b", OrderRequest::Recommission);
    let text = unknown.expect_err("no such worker").to_string();
    assert!(text.contains("`b`") && text.contains("knows `a`"), "{text}");
    let reason = "x".repeat(MAX_REASON_BYTES + 1).into();
    let long = order(&mut script, "a", OrderRequest::Exclude { reason });
    assert_eq!(
        long,
        Err(OrderRefusal::LongReason {
            bytes: MAX_REASON_BYTES + 1
        })
    );
    script.event(Event::StoreFailed {
        message: "disk full".to_owned(),
    });
    let failing = order(&mut script, "a", OrderRequest::Recommission);
    assert!(matches!(failing, Err(OrderRefusal::StoreFails(_))));
    assert_eq!(script.durable.orders.len(), 0);
}

/// The state of a worker with an order is that of the order, also while it is silent.
#[test]
fn a_silent_worker_with_an_order_has_one_state() {
    let mut script = Script::with_config(one_job(1, ""));
    let a = Store::join(&mut script, "a", 1);
    exclude(&mut script, "a");
    pass(&mut script, Duration::from_secs(40), Some(&a.worker));
    let problems = script.status().workers.remove(0).problems;
    assert!(
        problems[0].starts_with("has been silent for "),
        "{problems:?}"
    );
}

/// A job whose task waits for a file.
fn one_reader() -> std::sync::Arc<brasserie_common_config::Config> {
    config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"],
            "node_sources": [{"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
            "bistro_job->read": {"owner": "o", "command": ["/bin/true"], "inputs": [{"file": "dims.csv"}]}}"#,
    )
}

#[test]
fn a_copy_of_a_file_that_the_scheduler_has_keeps_no_worker() {
    let mut script = Script::with_config(one_reader());
    let mut a = Store::join(&mut script, "a", 1);
    super::files::know_present(&mut script, artifact(7));
    let read = start(&mut script, "read", "n0");
    a.artifacts.insert(artifact(7).id);
    a.new.push(artifact(7).id);
    a.settle(&mut script);
    finish(&mut script, &read);
    Store::join(&mut script, "b", 2);
    let left = decommission(&mut script, "a", None).left;
    assert_eq!(left.only_here.artifacts, 0);
    pass(&mut script, A_WHILE, None);
    assert!(is_decommissioned(&mut script));
    assert!(take_drain(&mut script).is_some());
}

#[test]
fn a_worker_that_does_not_drain_in_time_is_killed_at_the_deadline() {
    let mut script = Script::with_config(one_reader());
    Store::join(&mut script, "a", 1);
    decommission(&mut script, "a", Some(HOUR));
    pass(&mut script, A_WHILE, None);
    let drain = take_drain(&mut script).expect("it has nothing to do");
    let refused = CallOutcome::NotSent("no route".into());
    script.complete(drain, refused);
    pass(&mut script, A_WHILE, None);
    assert!(
        take_drain(&mut script).is_some(),
        "it is asked again at once"
    );
    pass(&mut script, HOUR, None);
    assert!(take_suicide(&mut script).is_some());
}
