//! Counts the kernel's disk syncs between a status and its acknowledgement. A `kill -9` cannot tell a synced write from one that is only in
//! the page cache.

use std::process::Command;

use brasserie_thrift::rpc::CallResult;

use crate::Place;
use crate::worker::{FakeWorker, Tasks};

/// Set in the traced process.
const TRACED: &str = "BRASSERIE_TEST_TRACED";
const STATUSES: usize = 3;

#[test]
fn every_acknowledgement_follows_a_disk_sync_of_its_own() {
    if std::env::var_os(TRACED).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(report_one_by_one());
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let output = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,write",
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "syncs::every_acknowledgement_follows_a_disk_sync_of_its_own",
        ])
        .arg("--nocapture")
        .env(TRACED, "1")
        .output()
        .expect("this test needs strace: install the package of that name");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let syncs = syncs_per_status(&crate::read(&trace));
    assert_eq!(syncs.len(), STATUSES);
    assert!(syncs.iter().all(|&count| count >= 1), "{syncs:?}");
}

/// Reports each status when no other record is queued, between two marks in the trace.
async fn report_one_by_one() {
    let place = Place::new();
    let scheduler = place.start().await;
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    for _ in 0..STATUSES {
        let run = worker.next_start().await;
        eprintln!("MARK status");
        let outcome = worker.reporter.report(run, "done").await;
        eprintln!("MARK acknowledged");
        assert!(matches!(outcome, CallResult::Done(_)));
    }
    scheduler.shutdown().await.unwrap();
}

/// Returns the number of successful syncs between the marks of each status.
fn syncs_per_status(trace: &str) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut open: Option<usize> = None;
    for line in trace.lines() {
        // A call that another thread interrupts in the trace ends on a separate line.
        let is_sync = ["fsync(", "fdatasync(", "fsync resumed", "fdatasync resumed"];
        if line.contains("MARK status") {
            open = Some(0);
        } else if line.contains("MARK acknowledged") {
            counts.extend(open.take());
        } else if is_sync.iter().any(|call| line.contains(call))
            && line.trim_end().ends_with("= 0")
            && let Some(count) = &mut open
        {
            *count += 1;
        }
    }
    counts
}
