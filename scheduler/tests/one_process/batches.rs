//! Tests batches of statuses, each of which is handled like a call of its own.

use brasserie_thrift::generated::common::RunningTask;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusBatchArgs,
    BistroSchedulerUpdateStatusBatchResult, BistroSchedulerUpdateStatusResult, StatusUpdate,
};
use brasserie_thrift::generated::worker::BistroWorkerRunTaskArgs;

use crate::worker::{FakeWorker, Tasks};
use crate::{Client, Place, all_settled, until};

fn done(run: &BistroWorkerRunTaskArgs) -> StatusUpdate {
    StatusUpdate {
        running_task: Some(run.rt.clone()),
        status: Some("done".to_owned()),
        scheduler: Some(run.scheduler.clone()),
        worker: Some(run.worker.clone()),
    }
}

async fn told(client: &Client, updates: Vec<StatusUpdate>) -> Vec<Option<String>> {
    let args = BistroSchedulerUpdateStatusBatchArgs { updates };
    let result: BistroSchedulerUpdateStatusBatchResult =
        client.call("updateStatusBatch", &args).await;
    let results = result.result_value.unwrap();
    results.into_iter().map(|one| one.refusal).collect()
}

/// Returns the refusal of the same status in a call of its own.
async fn alone(client: &Client, update: StatusUpdate) -> String {
    let args = BistroSchedulerUpdateStatusArgs {
        running_task: update.running_task.unwrap(),
        status: update.status.unwrap(),
        scheduler: update.scheduler.unwrap(),
        worker: update.worker.unwrap(),
    };
    client
        .refusal::<_, BistroSchedulerUpdateStatusResult>("updateStatus", &args)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_taken_or_refused_as_if_it_were_alone() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    let (first, second) = (worker.next_start().await, worker.next_start().await);
    assert_eq!(told(&client, Vec::new()).await, []);
    let of_nobody = StatusUpdate {
        running_task: Some(RunningTask::default()),
        ..done(&first)
    };
    let without_status = StatusUpdate {
        status: None,
        ..done(&first)
    };
    let of_another = StatusUpdate {
        scheduler: Some(first.worker.clone()),
        ..done(&first)
    };
    let updates = vec![
        done(&second),
        of_nobody.clone(),
        without_status,
        of_another.clone(),
        done(&first),
        done(&second),
    ];
    let results = told(&client, updates).await;
    assert_eq!((&results[4], &results[5]), (&None, &None), "{results:?}");
    let refused = |at: usize| results[at].clone().expect("it is refused");
    // The later of two equal statuses waits until their record is durable. The earlier one is refused, and a worker would send it again.
    assert!(refused(0).contains("came again"), "{results:?}");
    assert!(
        refused(1).contains("updateStatusBatch.updates[1].running_task.invocationID"),
        "{results:?}"
    );
    assert!(
        refused(2).contains("updateStatusBatch.updates[2]: a task, a status"),
        "{results:?}"
    );
    let as_alone = alone(&client, of_another).await;
    assert!(as_alone.contains(&refused(3)), "{as_alone} {results:?}");
    // The accepted statuses have released their slots.
    worker.next_start().await;
    worker.next_start().await;
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn too_many_are_refused_as_a_whole() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let args = BistroSchedulerUpdateStatusBatchArgs {
        updates: vec![StatusUpdate::default(); 1001],
    };
    let call =
        client.refusal::<_, BistroSchedulerUpdateStatusBatchResult>("updateStatusBatch", &args);
    let text = call.await;
    assert!(
        text.contains("1001 statuses are too many; 1000 at most"),
        "{text}"
    );
    scheduler.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_in_the_file() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    let reader = rusqlite::Connection::open(place.store()).unwrap();
    for expected in [2_i64, 4, 6] {
        let runs = [worker.next_start().await, worker.next_start().await];
        let results = told(&client, runs.iter().map(done).collect()).await;
        assert_eq!(results, [None, None]);
        let ended: i64 = reader
            .query_row("SELECT count(*) FROM statuses", (), |row| row.get(0))
            .unwrap();
        assert_eq!(ended, expected);
    }
    until(&scheduler, "settled", all_settled).await;
    scheduler.shutdown().await.unwrap();
}
