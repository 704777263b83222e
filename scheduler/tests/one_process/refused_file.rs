//! Tests a config file that is refused because a submitted job has one of its names. The sources in force continue, and those of the file
//! wait.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use brasserie_scheduler::{Periods, SchedulerHandle, StartOptions, start};

use crate::jobs::{delete, submit};
use crate::{Client, Place, until};

/// Returns a config whose only source is a script beside the file. The script appends a line for each run, and its node has the script's
/// name.
fn with_script(place: &Place, script: &str, job: &str) -> String {
    let path = place.folder.path().join(script);
    // The script is renamed into place. A file that is open for writing while another test forks cannot be started.
    let new = path.with_extension("new");
    let text = format!("#!/bin/sh\necho run >> runs_of_{script}\necho {script}\n");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&new, &path).unwrap();
    format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["item"], "node_sources": [
            {{"source": "script", "prefs": {{"parent_level": "instance", "script": "{script}"}}}}]}}}},
            "bistro_job->{job}": {{"command": ["x"]}}}}"#
    )
}

fn runs(place: &Place, script: &str) -> usize {
    let path = place.folder.path().join(format!("runs_of_{script}"));
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

async fn begin(place: &Place) -> SchedulerHandle {
    let options = StartOptions {
        periods: Periods {
            config_update: Duration::from_millis(10),
            nodes_update: Duration::from_millis(10),
            nodes_retry: Duration::from_millis(10),
        },
        ..place.options()
    };
    start(options).await.unwrap()
}

/// Waits for three more refreshes, so that at least two began after this call.
async fn until_it_runs_on(scheduler: &SchedulerHandle, place: &Place, script: &str) {
    let before = runs(place, script);
    until(scheduler, "refreshed", |_| {
        runs(place, script) >= before + 3
    })
    .await;
}

#[tokio::test]
async fn the_sources_in_force_go_on_and_those_of_a_refused_file_wait() {
    let place = Place::new();
    fs::write(place.config(), with_script(&place, "first", "a")).unwrap();
    let scheduler = begin(&place).await;
    let client = Client::of(&scheduler);
    submit(&client, "b", "{}", -1).await.result_value.unwrap();
    until(&scheduler, "loaded", |status| status.nodes_loaded).await;

    fs::write(place.config(), with_script(&place, "second", "b")).unwrap();
    let is_refused = |status: &brasserie_scheduler_core::ClusterStatus| {
        status.errors.iter().any(|e| e.contains("not in force"))
    };
    until(&scheduler, "refused", is_refused).await;
    until_it_runs_on(&scheduler, &place, "first").await;
    scheduler.shutdown().await.unwrap();

    // The kept copy is in force at a start.
    let scheduler = begin(&place).await;
    until(&scheduler, "refused", is_refused).await;
    until_it_runs_on(&scheduler, &place, "first").await;
    assert_eq!(runs(&place, "second"), 0);

    assert_eq!(delete(&Client::of(&scheduler), "b").await, None);
    until(&scheduler, "in force", |status| status.errors.is_empty()).await;
    until_it_runs_on(&scheduler, &place, "second").await;
    let status = crate::status(&scheduler).await;
    assert!(status.nodes_loaded);
    let names: Vec<&str> = status.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    scheduler.shutdown().await.unwrap();
}
