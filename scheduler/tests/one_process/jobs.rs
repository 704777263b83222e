//! Tests the API for jobs over Thrift: jobs are submitted, changed, refused, paused, forgiven, deleted, and still present after a restart.

use brasserie_thrift::generated::brasserie::*;
use brasserie_thrift::generated::scheduler::*;

use crate::worker::{FakeWorker, Tasks};
use crate::{Client, Place, until};

async fn saved(client: &Client, name: &str) -> BistroJobConfig {
    let args = BistroSchedulerGetJobArgs {
        job_name: name.to_owned(),
    };
    let job: BistroSchedulerGetJobResult = client.call("getJob", &args).await;
    job.result_value.unwrap()
}

async fn save(client: &Client, job: &BistroJobConfig) {
    let args = BistroSchedulerSaveJobArgs { job: job.clone() };
    let BistroSchedulerSaveJobResult {} = client.call("saveJob", &args).await;
}

async fn refused(client: &Client, job: &BistroJobConfig) -> String {
    let args = BistroSchedulerSaveJobArgs { job: job.clone() };
    client
        .refusal::<_, BistroSchedulerSaveJobResult>("saveJob", &args)
        .await
}

/// Returns the message of the declared exception, if the job is not deleted.
pub(crate) async fn delete(client: &Client, name: &str) -> Option<String> {
    let args = BistroSchedulerDeleteJobArgs {
        job_name: name.to_owned(),
    };
    let deleted: BistroSchedulerDeleteJobResult = client.call("deleteJob", &args).await;
    deleted.ex.map(|ex| ex.message.unwrap())
}

pub(crate) async fn submit(
    client: &Client,
    job: &str,
    text: &str,
    expected: i64,
) -> BrasserieSubmitJobResult {
    let args = BrasserieSubmitJobArgs {
        job: job.to_owned(),
        text: text.to_owned(),
        expected_version: expected,
    };
    client.call("submitJob", &args).await
}

fn message(ex: Option<JobRefusedException>) -> String {
    ex.unwrap().message.unwrap()
}

#[tokio::test]
async fn a_job_goes_out_and_comes_back_without_loss_and_survives_a_restart() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut job = saved(&client, "check").await;
    job.name = Some("again".to_owned());
    job.depends_on = Some(vec!["check".to_owned()]);
    save(&client, &job).await;
    let first = saved(&client, "again").await;
    let expected = BistroJobConfig {
        version_id: Some(1),
        create_time: first.create_time,
        modify_time: first.modify_time,
        ..job.clone()
    };
    assert_eq!(first, expected);
    assert!(first.create_time.unwrap() > 0);
    let text = refused(&client, &job).await;
    assert!(text.contains("version 1"), "{text}");
    save(&client, &first).await;
    let text = refused(&client, &first).await;
    assert!(text.contains("has version 2, not the expected 1"), "{text}");
    scheduler.shutdown().await.unwrap();

    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let found = saved(&client, "again").await;
    assert_eq!((found.version_id, &found.owner), (Some(2), &first.owner));
    assert_eq!(delete(&client, "again").await, None);
    let text = delete(&client, "again").await.unwrap();
    assert!(text.contains("no job is called `again`"), "{text}");
    let text = delete(&client, "check").await.unwrap();
    assert!(text.contains("config file"), "{text}");
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn mistakes_are_told_all_at_once_with_the_place_of_a_text_and_change_nothing() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let text = r#"{"resources": {"nothing": 1},
 "command": "x"}"#;
    let ex = submit(&client, "bad", text, 0).await.ex.unwrap();
    let problems = ex.problems.unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("1:"), "{problems:?}");
    assert!(problems[1].starts_with("2:13: command: "), "{problems:?}");
    let job = BistroJobConfig {
        name: Some("bad".to_owned()),
        resources: Some([("nothing".to_owned(), 1)].into()),
        ..BistroJobConfig::default()
    };
    let text = refused(&client, &job).await;
    assert!(text.contains("resources.nothing"), "{text}");
    let text = message(submit(&client, "bad", "{}", -3).await.ex);
    assert!(text.contains("-3"), "{text}");
    let text = message(submit(&client, &"x".repeat(2000), "{}", 0).await.ex);
    assert!(text.contains("name"), "{text}");
    let text = refused(&client, &BistroJobConfig::default()).await;
    assert!(text.contains("name"), "{text}");
    let done = submit(&client, "good", r#"{"ownr": "ann"}"#, -1).await;
    let done = done.result_value.unwrap();
    assert_eq!(done.version, Some(1));
    assert!(done.warnings.unwrap()[0].contains("did you mean `owner`?"));
    let args = BrasserieRemoveJobArgs {
        job: "good".to_owned(),
        expected_version: 7,
    };
    let removed: BrasserieRemoveJobResult = client.call("removeJob", &args).await;
    assert!(message(removed.ex).contains("has version 1"));
    scheduler.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_tasks_run_again_when_they_are_forgiven_and_not_while_their_job_is_paused() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    for _ in 0..3 {
        let start = worker.next_start().await;
        worker.reporter.report(start, "failed").await;
    }
    until(&scheduler, "failed", |s| s.jobs[0].counts.failed == 3).await;
    let job = || "copy".to_owned();
    let pause = BrasseriePauseJobArgs { job: job() };
    let paused: BrasseriePauseJobResult = client.call("pauseJob", &pause).await;
    assert_eq!(paused.ex, None);
    let failed_only = true;
    let forgive = BrasserieForgiveTasksArgs {
        job: job(),
        failed_only,
    };
    let forgiven: BrasserieForgiveTasksResult = client.call("forgiveTasks", &forgive).await;
    assert_eq!(forgiven.result_value, Some(3));
    let status: BrasserieGetClusterStatusResult = client
        .call("getClusterStatus", &BrasserieGetClusterStatusArgs {})
        .await;
    let copy = &status.result_value.unwrap().jobs.unwrap()[0];
    assert_eq!((copy.paused, copy.version), (Some(true), None));
    assert_eq!((copy.failed, copy.running), (Some(0), Some(0)));
    let resume = BrasserieResumeJobArgs { job: job() };
    let resumed: BrasserieResumeJobResult = client.call("resumeJob", &resume).await;
    assert_eq!(resumed.ex, None);
    // The tasks of the other job follow.
    for _ in 0..6 {
        let start = worker.next_start().await;
        worker.reporter.report(start, "done").await;
    }
    until(&scheduler, "done", |s| s.jobs[0].counts.done == 3).await;
    let args = BistroSchedulerForgiveJobArgs { job_name: job() };
    let BistroSchedulerForgiveJobResult {} = client.call("forgiveJob", &args).await;
    let args = BistroSchedulerForgiveJobArgs {
        job_name: "nobody".to_owned(),
    };
    let text = client
        .refusal::<_, BistroSchedulerForgiveJobResult>("forgiveJob", &args)
        .await;
    assert!(text.contains("no job is called `nobody`"), "{text}");
    scheduler.shutdown().await.unwrap();
}

/// Returns the names of one page, the number of all jobs, and whether more follow.
async fn page(client: &Client, after: &str, limit: i32) -> (Vec<String>, i64, bool) {
    let args = BrasserieGetJobPageArgs {
        after: after.to_owned(),
        limit,
    };
    let page: BrasserieGetJobPageResult = client.call("getJobPage", &args).await;
    let page = page.result_value.unwrap();
    let names = page.jobs.unwrap().into_iter().map(|job| job.name.unwrap());
    (names.collect(), page.total.unwrap(), page.has_more.unwrap())
}

/// Jobs are added and deleted between two pages, on both sides of the next page's start.
#[tokio::test]
async fn pages_miss_and_double_no_job_that_is_there_all_the_while() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut lasting = vec!["check".to_owned(), "copy".to_owned()];
    for i in 0..20 {
        let name = format!("j{i:02}");
        submit(&client, &name, "{}", 0).await.result_value.unwrap();
        if i % 4 != 1 {
            lasting.push(name);
        }
    }
    let (mut seen, mut after, mut pages): (Vec<String>, _, _) = (Vec::new(), String::new(), 0);
    loop {
        let (names, total, has_more) = page(&client, &after, 3).await;
        assert!(names.len() <= 3 && total >= 20, "{names:?} {total}");
        after = names.last().cloned().unwrap_or(after);
        seen.extend(names);
        if !has_more {
            break;
        }
        pages += 1;
        // The jobs of the file come first.
        let at = (seen.len() as u32 / 4 * 4) % 20 + 1;
        delete(&client, &format!("j{at:02}")).await;
        for new in [
            format!("a{pages}"),
            format!("{after}-new"),
            format!("z{pages}"),
        ] {
            submit(&client, &new, "{}", 0).await.result_value.unwrap();
        }
    }
    assert!(pages >= 7, "{pages}");
    let met: Vec<&String> = seen.iter().filter(|name| lasting.contains(name)).collect();
    let mut expected: Vec<&String> = lasting.iter().collect();
    expected.sort_unstable();
    assert_eq!(met, expected);
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct, seen, "in order, and none twice");
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn who_asks_for_all_jobs_gets_all_or_hears_of_pages() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let text = format!(r#"{{"config": {{"data": "{}"}}}}"#, "x".repeat(900_000));
    let jobs = BistroSchedulerGetJobsArgs {};
    for i in 0..20 {
        let all = client
            .try_call::<_, BistroSchedulerGetJobsResult>("getJobs", &jobs)
            .await;
        if i < 17 {
            let all = all.into_result().unwrap().result_value.unwrap();
            assert_eq!(all.len(), 2 + i);
        }
        let name = format!("long{i}");
        submit(&client, &name, &text, 0).await.result_value.unwrap();
    }
    let text = client
        .refusal::<_, BistroSchedulerGetJobsResult>("getJobs", &jobs)
        .await;
    assert!(
        text.contains("22 jobs") && text.contains("`getJobPage`"),
        "{text}"
    );
    let (first, total, has_more) = page(&client, "", 0).await;
    assert!((5..22).contains(&first.len()), "{first:?}");
    assert_eq!((total, has_more), (22, true));
    scheduler.shutdown().await.unwrap();
}
