//! Tests that acknowledged statuses are on disk and survive a restart, and that none is acknowledged while the disk fails.

use std::time::Duration;

use brasserie_thrift::rpc::CallResult;

use crate::worker::{FakeWorker, Tasks};
use crate::{Place, all_settled, status, until};

fn tasks(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names
        .iter()
        .map(|(job, node)| ((*job).to_owned(), (*node).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_runs_to_its_end_once() {
    let place = Place::new();
    let scheduler = place.start().await;
    let mut one = FakeWorker::start(&scheduler, "one", Tasks::EndAtOnce).await;
    until(&scheduler, "settled", all_settled).await;
    let found = status(&scheduler).await;
    assert!(
        found
            .jobs
            .iter()
            .all(|job| job.counts.done == 3 && job.counts.total == 3)
    );
    assert_eq!((&found.errors[..], found.initial_wait), (&[][..], None));
    let mut started = one.all_started();
    started.sort();
    let expected = ["a", "b", "c"];
    let expected = [
        expected.map(|n| ("check", n)),
        expected.map(|n| ("copy", n)),
    ]
    .concat();
    assert_eq!(started, tasks(&expected));
    scheduler.shutdown().await.unwrap();
    drop(one);

    // A restart loads the completions, but not the worker that reported them.
    let scheduler = place.start().await;
    until(&scheduler, "settled from the disk alone", all_settled).await;
    let found = status(&scheduler).await;
    assert!(
        found.jobs.iter().all(|job| job.counts.done == 3),
        "{found:#?}"
    );
    scheduler.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_while_the_store_fails() {
    let place = Place::new();
    let scheduler = place.start().await;
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    let first = worker.next_start().await;
    let second = worker.next_start().await;

    let other = rusqlite::Connection::open(place.store()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let reporter = worker.reporter.clone();
    let report = tokio::spawn(async move { reporter.report(first.clone(), "done").await });
    until(&scheduler, "failing", |s| {
        s.errors.iter().any(|e| e.contains("locked"))
    })
    .await;
    // The client has no answer, whether it has timed out or still waits.
    let outcome = report.await.unwrap();
    assert!(
        matches!(outcome, CallResult::Unknown(_)),
        "an answer without a sync"
    );
    // The free slot may have been reused before the failure was known. From now on no task starts.
    worker.all_started();
    let outcome = worker.reporter.report(second.clone(), "done").await;
    assert!(
        matches!(outcome, CallResult::Unknown(_)),
        "an answer without a sync"
    );
    assert_eq!(worker.all_started(), []);

    other.execute_batch("ROLLBACK").unwrap();
    until(&scheduler, "recovered", |s| s.errors.is_empty()).await;
    // The status that came during the failure was refused, so its task keeps its slot until the status comes again.
    let acknowledged = worker.reporter.report(second, "done").await;
    assert!(matches!(acknowledged, CallResult::Done(_)));
    worker.next_start().await;
    scheduler.shutdown().await.unwrap();
    let ended: i64 = rusqlite::Connection::open(place.store())
        .unwrap()
        .query_row("SELECT count(*) FROM statuses", (), |row| row.get(0))
        .unwrap();
    assert_eq!(ended, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_end_is_in_the_file_at_once() {
    let place = Place::new();
    let scheduler = place.start().await;
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    let reader = rusqlite::Connection::open(place.store()).unwrap();
    for expected in 1..=3_i64 {
        let run = worker.next_start().await;
        let report = worker
            .reporter
            .report(run, r#"{"result": "done", "data": {"x": 1}}"#);
        let outcome = tokio::time::timeout(Duration::from_secs(60), report)
            .await
            .unwrap();
        assert!(matches!(outcome, CallResult::Done(_)));
        let ended: i64 = reader
            .query_row("SELECT count(*) FROM statuses", (), |row| row.get(0))
            .unwrap();
        assert_eq!(ended, expected);
    }
    // The scheduler is dropped without a shutdown, like by a kill. Acknowledged statuses stay.
    drop(scheduler);
    let ended: i64 = reader
        .query_row("SELECT count(*) FROM statuses", (), |row| row.get(0))
        .unwrap();
    assert_eq!(ended, 3);
}
