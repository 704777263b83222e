//! Tests running tasks that the config file no longer contains.

use std::collections::BTreeSet;
use std::fs;

use brasserie_thrift::generated::common::KillMethod;

use crate::worker::{FakeWorker, Tasks};
use crate::{Place, read};

#[tokio::test]
async fn tasks_whose_job_leaves_the_file_are_asked_to_end() {
    let place = Place::new();
    let keys = r#""kill_orphan_tasks_after_sec": true, "kill_subprocess": {"method": "kill"},"#;
    let config = read(&place.config()).replacen("\"backoff\"", &format!("{keys} \"backoff\""), 1);
    fs::write(place.config(), &config).unwrap();
    let scheduler = place.start().await;
    let mut worker = FakeWorker::start(&scheduler, "w", Tasks::AreLeftToTheTest).await;
    let mut started = BTreeSet::new();
    for _ in 0..2 {
        let run = worker.next_start().await;
        assert_eq!(run.rt.job.as_deref(), Some("copy"));
        started.insert(run.rt.node);
    }
    fs::write(place.config(), config.replace("copy", "copies")).unwrap();
    let mut killed = BTreeSet::new();
    for _ in 0..2 {
        let kill = worker.next_kill().await;
        assert_eq!(kill.rt.job.as_deref(), Some("copy"));
        assert_eq!(kill.req.method, Some(KillMethod::KILL));
        killed.insert(kill.rt.node);
    }
    assert_eq!(killed, started);
    scheduler.shutdown().await.unwrap();
}
