//! Tests plans over Thrift: the effects of a file, and requests that are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use brasserie_common::cluster_view::{ClusterView, ScheduleView};
use brasserie_scheduler::{ConfigSource, SchedulerHandle, StartOptions, start};
use brasserie_thrift::generated::brasserie::*;
use brasserie_thrift::rpc::{CallTimeouts, ClientConfig, ClientPool};

use crate::{Client, PATIENCE, Place, read, status, until};

/// Returns a client with a long timeout, because scripts take time.
fn patient(scheduler: &SchedulerHandle) -> Client {
    let timeouts = CallTimeouts {
        receive: PATIENCE,
        ..CallTimeouts::DEFAULT
    };
    Client {
        pool: ClientPool::new(ClientConfig {
            timeouts,
            ..ClientConfig::default()
        }),
        peer: scheduler.thrift_address().into(),
    }
}

async fn plan_in(client: &Client, text: &str, folder: &str) -> BrasseriePlanConfigResult {
    let args = BrasseriePlanConfigArgs {
        text: text.as_bytes().to_vec(),
        format: "json".to_owned(),
        folder: folder.to_owned(),
    };
    client.call("planConfig", &args).await
}

async fn plan(client: &Client, text: &str) -> Plan {
    plan_in(client, text, "").await.result_value.unwrap()
}

async fn refused(client: &Client, format: &str, folder: &str) -> String {
    let args = BrasseriePlanConfigArgs {
        text: b"{}".to_vec(),
        format: format.to_owned(),
        folder: folder.to_owned(),
    };
    let result: BrasseriePlanConfigResult = client.call("planConfig", &args).await;
    result.ex.unwrap().message.unwrap()
}

/// Returns the place's config with a script as its only source.
fn with_script(place: &Place) -> String {
    let text = read(&place.config());
    let (before, rest) = text.split_once(r#"{"source": "manual""#).unwrap();
    let (_, after) = rest.split_once("]").unwrap().1.split_once("]").unwrap();
    let script =
        r#"{"source": "script", "prefs": {"parent_level": "instance", "script": "list"}}]"#;
    format!("{before}{script}{after}")
}

fn write_script(path: &Path, text: &str) {
    // The script is renamed into place. A file that is open for writing while another test forks cannot be started.
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&new, path).unwrap();
}

#[tokio::test]
async fn a_plan_says_what_changes_and_changes_nothing() {
    let place = Place::new();
    let scheduler = place.start().await;
    until(&scheduler, "ready", |status| status.nodes_loaded).await;
    let client = patient(&scheduler);
    let text = read(&place.config());
    let same = plan(&client, &text).await;
    assert_eq!(
        (same.usable, same.changes_nothing),
        (Some(true), Some(true))
    );
    assert_eq!(same.file.as_deref(), place.config().to_str());

    let other = text
        .replace(
            r#"["copy"]}"#,
            r#"["copy"], "priority": 3, "owner": "eve"}"#,
        )
        .replace(r#""h2": "c""#, r#""h2": ["c", "d"], "h3": []"#)
        .replace("bistro_job->check", "bistro_job->verify");
    let made = plan(&client, &other).await;
    assert_eq!(made.jobs_added.unwrap().first.unwrap(), ["verify"]);
    assert_eq!(made.jobs_removed.unwrap().first.unwrap(), ["check"]);
    let nodes: Vec<_> = made.nodes.unwrap();
    let added: Vec<_> = nodes
        .iter()
        .map(|level| level.added.clone().unwrap().first.unwrap().join(","))
        .collect();
    assert_eq!(added, ["h3", "d"]);
    assert_eq!((made.nodes_before, made.nodes_after), (Some(5), Some(7)));
    // No worker is connected.
    assert_eq!(made.starts, Some(0));
    let status = status(&scheduler).await;
    let names: Vec<&str> = status.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["copy", "check"]);
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn scripts_run_where_the_file_is_and_their_failures_are_told() {
    let place = Place::new();
    let scheduler = place.start().await;
    until(&scheduler, "ready", |status| status.nodes_loaded).await;
    let client = patient(&scheduler);
    let text = with_script(&place);
    let failed = plan(&client, &text).await;
    let why = failed.nodes_error.unwrap();
    assert!(
        why.contains("list") && why.contains("cannot be started"),
        "{why}"
    );
    write_script(&place.folder.path().join("list"), "#!/bin/sh\necho x\n");
    let there = plan(&client, &text).await;
    assert_eq!((there.nodes_error, there.nodes_after), (None, Some(1)));
    let other = tempfile::tempdir().unwrap();
    write_script(&other.path().join("list"), "#!/bin/sh\necho x; echo y\n");
    let elsewhere = plan_in(&client, &text, other.path().to_str().unwrap()).await;
    assert_eq!(elsewhere.result_value.unwrap().nodes_after, Some(2));
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn few_plans_are_made_at_once() {
    let place = Place::new();
    let list = place.folder.path().join("list");
    write_script(
        &list,
        "#!/bin/sh\necho > \"began.$$\"\nwhile [ ! -e go ]; do sleep 0.02; done\necho x\n",
    );
    let scheduler = place.start().await;
    let text = with_script(&place);
    let plans: Vec<_> = (0..2)
        .map(|_| {
            let (client, text) = (patient(&scheduler), text.clone());
            tokio::spawn(async move { plan_in(&client, &text, "").await })
        })
        .collect();
    let began = || {
        let files = fs::read_dir(place.folder.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("began."))
            .count()
    };
    while began() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let third = plan_in(&patient(&scheduler), &text, "").await;
    let why = third.ex.unwrap().message.unwrap();
    assert!(why.contains("2 plans are being made"), "{why}");
    fs::write(place.folder.path().join("go"), "").unwrap();
    for plan in plans {
        let made = plan.await.unwrap();
        assert_eq!(made.result_value.unwrap().nodes_after, Some(1));
    }
    let again = plan(&patient(&scheduler), &text).await;
    assert_eq!(again.nodes_after, Some(1));
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_planned_is_refused() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = patient(&scheduler);
    let format = refused(&client, "xml", "").await;
    assert!(
        format.contains("`xml`") && format.contains("yaml"),
        "{format}"
    );
    let folder = refused(&client, "json", "here").await;
    assert!(folder.contains("here is relative"), "{folder}");
    let bad = plan(&client, "{\n  \"bistro_settings\": 7\n}").await;
    assert_eq!(bad.usable, Some(false));
    let errors = bad.errors.unwrap();
    assert!(
        errors[0].starts_with("2:22: bistro_settings: "),
        "{errors:?}"
    );
    scheduler.shutdown().await.unwrap();

    let config = brasserie_common_config::parse(&read(&place.config()), Default::default());
    let given = ConfigSource::Given {
        config: config.unwrap().config.into(),
        folder: place.folder.path().to_owned(),
    };
    let options = StartOptions::new(place.folder.path().join("other"), given);
    let scheduler = start(options).await.unwrap();
    let never = refused(&patient(&scheduler), "json", "").await;
    assert!(never.contains("never changes"), "{never}");
    scheduler.shutdown().await.unwrap();
}

/// Returns the place's config with a time at 03:00 on New Year's Day 3000 below each node of its last level.
fn with_schedule(place: &Place) -> String {
    let text = read(&place.config());
    let text = text.replace(r#"["host", "db"]"#, r#"["host", "db", "day"]"#);
    let (before, rest) = text.split_once(r#""h2": "c"}}]"#).unwrap();
    let source = r#""h2": "c"}}, {"source": "add_time", "prefs": {"parent_level": "db", "schedule": [{"lifetime": 60, "cron": {
        "year": 3000, "month": 1, "day_of_month": 1, "hour": 3, "minute": 0, "time_zone": "Europe/Berlin",
        "dst_fixes": ["skip", "repeat_use_both"]}}]}}]"#;
    format!("{before}{source}{rest}")
}

#[tokio::test]
async fn a_plan_the_status_and_the_page_show_the_next_time_of_a_schedule() {
    let place = Place::new();
    let scheduler = place.start().await;
    until(&scheduler, "ready", |status| status.nodes_loaded).await;
    let client = patient(&scheduler);
    let time = "Wed 3000-01-01 03:00 +01:00 (Europe/Berlin)";
    let clause = format!("node source 2 gives the next nodes of level `day` on {time}, in ");
    let text = with_schedule(&place);
    let planned = plan(&client, &text).await;
    let notes = planned.notes.unwrap().join("\n");
    assert!(notes.contains(&clause), "{notes}");
    fs::write(place.config(), text).unwrap();
    until(&scheduler, "in force", |status| {
        !status.schedules.is_empty()
    })
    .await;
    let args = BrasserieGetClusterStatusArgs {};
    let answer: BrasserieGetClusterStatusResult = client.call("getClusterStatus", &args).await;
    let view = ClusterView::from(answer.result_value.unwrap());
    let expected = ScheduleView {
        source: 2,
        level: "day".to_owned(),
        next_ms: Some(32_503_687_200_000),
        next: Some(time.to_owned()),
    };
    assert_eq!(view.schedules, [expected]);
    let facts = view.report(9).facts.join("\n");
    assert!(facts.contains(&clause[1..]), "{facts}");
    let args = BrasserieExplainTaskArgs {
        job: "copy".to_owned(),
        node: String::new(),
    };
    let told: BrasserieExplainTaskResult = client.call("explainTask", &args).await;
    let told = told.result_value.unwrap().join("\n");
    assert!(told.contains(&clause), "{told}");
    scheduler.shutdown().await.unwrap();
}
