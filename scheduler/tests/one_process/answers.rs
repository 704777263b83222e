//! Tests the calls of the services for people and programs: each answer and each refusal.

use brasserie_common::Health;
use brasserie_common::logs::LogPage;
use brasserie_thrift::convert;
use brasserie_thrift::generated::bits::BistroTaskStatusBits;
use brasserie_thrift::generated::brasserie::*;
use brasserie_thrift::generated::common::LogLines;
use brasserie_thrift::generated::fb303::*;
use brasserie_thrift::generated::scheduler::*;

use crate::worker::{FakeWorker, Tasks};
use crate::{Client, Place, all_settled, until};

fn tasks_of(job: &str, state: &str, limit: i32) -> BrasserieGetTaskPageArgs {
    BrasserieGetTaskPageArgs {
        job: job.to_owned(),
        states: vec![state.to_owned()],
        after: None,
        limit,
    }
}

#[tokio::test]
async fn jobs_and_levels_are_those_of_the_file() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let jobs: BistroSchedulerGetJobsResult =
        client.call("getJobs", &BistroSchedulerGetJobsArgs {}).await;
    let jobs = jobs.result_value.unwrap();
    let names: Vec<_> = jobs
        .iter()
        .map(|job| job.name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["copy", "check"]);
    let args = BistroSchedulerGetJobArgs {
        job_name: "check".to_owned(),
    };
    let job: BistroSchedulerGetJobResult = client.call("getJob", &args).await;
    let job = job.result_value.unwrap();
    assert_eq!(job, jobs[1]);
    assert_eq!(job.depends_on.unwrap(), ["copy"]);
    assert_eq!(job.command.unwrap(), ["check"]);
    assert_eq!(
        (job.backoff_values.unwrap(), job.backoff_repeat),
        (vec![1], Some(false))
    );
    assert_eq!((job.enabled, job.error.as_deref()), (Some(true), Some("")));
    assert_eq!(job.level_for_tasks.as_deref(), Some("db"));
    assert_eq!(job.resources.unwrap()["slots"], 1);
    let levels: BistroSchedulerGetLevelsResult = client
        .call("getLevels", &BistroSchedulerGetLevelsArgs {})
        .await;
    assert_eq!(levels.result_value.unwrap(), ["host", "db"]);
    let alive: FacebookServiceGetStatusResult = client
        .call("getStatus", &FacebookServiceGetStatusArgs {})
        .await;
    assert_eq!(alive.result_value, Some(FbStatus::ALIVE));
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_not_offered_is_refused_with_a_reason() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let nobody = || "nobody".to_owned();
    let args = BistroSchedulerGetJobArgs { job_name: nobody() };
    let text = client
        .refusal::<_, BistroSchedulerGetJobResult>("getJob", &args)
        .await;
    assert!(text.contains("no job is called `nobody`"), "{text}");
    let page: BrasserieGetTaskPageResult = client
        .call("getTaskPage", &tasks_of("nobody", "running", 5))
        .await;
    assert!(page.ex.unwrap().message.unwrap().contains("`nobody`"));
    let args = BrasserieExplainTaskArgs {
        job: nobody(),
        node: nobody(),
    };
    let reasons: BrasserieExplainTaskResult = client.call("explainTask", &args).await;
    assert!(reasons.ex.unwrap().message.unwrap().contains("`nobody`"));
    let none = BistroSchedulerGetJobsArgs {};
    let text = client
        .refusal::<_, BistroSchedulerGetJobsResult>("noSuchCall", &none)
        .await;
    assert!(text.contains("noSuchCall"), "{text}");
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn messages_of_workers_that_make_no_sense_name_the_field() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let args = BistroSchedulerProcessHeartbeatArgs {
        w: Default::default(),
        worker_set_id: Default::default(),
    };
    let call =
        client.refusal::<_, BistroSchedulerProcessHeartbeatResult>("processHeartbeat", &args);
    let text = call.await;
    assert!(text.contains("processHeartbeat.w.machineLock"), "{text}");
    let args = BistroSchedulerUpdateStatusArgs {
        running_task: Default::default(),
        status: "done".to_owned(),
        scheduler: Default::default(),
        worker: Default::default(),
    };
    let call = client.refusal::<_, BistroSchedulerUpdateStatusResult>("updateStatus", &args);
    let text = call.await;
    assert!(
        text.contains("updateStatus.running_task.invocationID"),
        "{text}"
    );
    scheduler.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_and_its_tasks_are_told_as_they_are() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    let first = worker.next_start().await;
    worker.next_start().await;
    let page: BrasserieGetTaskPageResult = client
        .call("getTaskPage", &tasks_of("copy", "running", 5))
        .await;
    let list = page.result_value.unwrap().tasks.unwrap();
    assert_eq!(list.len(), 2);
    assert!(
        list.iter()
            .all(|task| task.worker_shard.as_deref() == Some("one"))
    );
    worker.reporter.report(first.clone(), "failed").await;
    let page: BrasserieGetTaskPageResult =
        client.call("getTaskPage", &tasks_of("", "failed", 1)).await;
    let [task] = &page.result_value.unwrap().tasks.unwrap()[..] else {
        panic!("one, as asked")
    };
    assert_eq!(task.node, first.rt.node);
    let node = first.rt.node.clone().unwrap();
    let args = BrasserieExplainTaskArgs {
        job: "check".to_owned(),
        node,
    };
    let reasons: BrasserieExplainTaskResult = client.call("explainTask", &args).await;
    assert!(
        reasons
            .result_value
            .unwrap()
            .iter()
            .any(|reason| reason.contains("copy"))
    );
    let found: BrasserieGetClusterStatusResult = client
        .call("getClusterStatus", &BrasserieGetClusterStatusArgs {})
        .await;
    let found = found.result_value.unwrap();
    let copy = &found.jobs.unwrap()[0];
    assert_eq!(
        (copy.total, copy.failed, copy.running),
        (Some(3), Some(1), Some(2))
    );
    assert_eq!(found.workers.unwrap()[0].state.as_deref(), Some("healthy"));
    scheduler.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histograms_count_and_name_nodes() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let _worker = FakeWorker::start(&scheduler, "one", Tasks::EndAtOnce).await;
    until(&scheduler, "settled", all_settled).await;
    let args = BistroSchedulerGetJobHistogramsArgs {
        jobs: vec!["copy".to_owned()],
        samples: 2,
    };
    let histograms: BistroSchedulerGetJobHistogramsResult =
        client.call("getJobHistograms", &args).await;
    let [copy] = &histograms.result_value.unwrap()[..] else {
        panic!("one, as asked")
    };
    let levels = copy.statuses.as_ref().unwrap();
    let done = &levels["db"][&BistroTaskStatusBits::DONE];
    assert_eq!(
        (done.count, done.samples.as_ref().unwrap().len()),
        (Some(3), 2)
    );
    assert_eq!(levels["host"][&BistroTaskStatusBits::DONE].count, Some(2));
    scheduler.shutdown().await.unwrap();
}

fn page(lines: Option<LogLines>) -> Vec<String> {
    let page: LogPage = convert::parse("page", lines.unwrap()).unwrap();
    page.lines.into_iter().map(|line| line.line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_of_all_workers_are_one() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let by_id = BistroSchedulerGetJobLogsByIDArgs {
        logtype: "stdout".to_owned(),
        job_id: "copy".to_owned(),
        node_id: String::new(),
        line_id: -1,
        is_ascending: true,
        regex_filter: String::new(),
        invocation: None,
    };
    let nobody = client.refusal::<_, BistroSchedulerGetJobLogsByIDResult>("getJobLogsByID", &by_id);
    let text = nobody.await;
    assert!(text.contains("no worker is connected"), "{text}");
    let one = FakeWorker::start(&scheduler, "one", Tasks::EndAtOnce).await;
    let _two = FakeWorker::start(&scheduler, "two", Tasks::EndAtOnce).await;
    until(&scheduler, "joined by two", |s| {
        s.workers.len() == 2 && s.workers.iter().all(|w| w.health == Health::Healthy)
    })
    .await;
    let found: BistroSchedulerGetJobLogsByIDResult = client.call("getJobLogsByID", &by_id).await;
    let found = found.result_value.unwrap();
    for (line, shard) in found.lines.iter().flatten().zip(["one", "two"]) {
        // The page passes the worker's line through, except the shard, which the scheduler sets.
        assert_eq!(line.worker_shard.as_deref(), Some(shard));
        assert_eq!(line.bytes.as_deref(), Some(&b"\xff"[..]));
        assert_eq!(line.continued, Some(true));
    }
    let lines = page(Some(found));
    assert_eq!(lines, ["from one\n", "from two\n"]);
    let by_time = BistroSchedulerGetJobLogsByTimeArgs {
        logtype: "stdout".to_owned(),
        job_id: "copy".to_owned(),
        node_id: String::new(),
        time: 7,
        is_ascending: false,
        regex_filter: String::new(),
        invocation: None,
    };
    drop(one);
    let found: BistroSchedulerGetJobLogsByTimeResult =
        client.call("getJobLogsByTime", &by_time).await;
    let lines = page(found.result_value);
    assert_eq!(lines[0], "from two\n");
    assert!(
        lines[1].starts_with("worker one: ") || lines[1] == "from one\n",
        "{lines:?}"
    );
    let bad = BistroSchedulerGetJobLogsByIDArgs {
        logtype: "stdwhat".to_owned(),
        ..by_id
    };
    let text = client
        .refusal::<_, BistroSchedulerGetJobLogsByIDResult>("getJobLogsByID", &bad)
        .await;
    assert!(
        text.contains("logtype") && text.contains("stdwhat"),
        "{text}"
    );
    scheduler.shutdown().await.unwrap();
}
