//! Tests the reports on runs that wait for inputs, and the counters.

use brasserie_thrift::generated::common::{Artifact, TaskInput};
use brasserie_thrift::generated::scheduler::{ArtifactsReport, WaitingRun};

use super::peers::{ANSWER, Mood, Peer};
use super::{Place, input, wants};

fn waiting(report: &ArtifactsReport) -> Option<&WaitingRun> {
    report.waiting.as_ref()?.first()
}

/// Returns whether a report shows that the run has its first bytes, and was refused twice.
fn is_stuck(run: &WaitingRun) -> bool {
    let busy = run.peers.iter().flatten().map(|peer| peer.busy_answers);
    run.missing_bytes == i64::try_from(2 * ANSWER).ok() && busy.max() >= Some(Some(2))
}

fn inputs(artifact: &Artifact) -> Vec<TaskInput> {
    vec![input("in", artifact, &[0]), input("again", artifact, &[0])]
}

/// Waits for a report that shows why the only run waits.
async fn until_stuck(place: &mut Place) -> WaitingRun {
    let scene = place
        .stage
        .until("progress", |scene| {
            scene.reports.iter().filter_map(waiting).any(is_stuck)
        })
        .await;
    let mut runs = scene.reports.iter().filter_map(waiting);
    runs.find(|run| is_stuck(run)).expect("one").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_resumes_after_a_busy_answer_and_reports_tell_why_its_run_waits() {
    let mut place = Place::open().await;
    let content = (0..3 * ANSWER).map(|at| u8::try_from(at % 251).expect("small"));
    let peer = Peer::open(content.collect(), Mood::BusyAfterOne).await;
    let artifact = peer.artifact();
    let script = "test $(wc -c < \"$BRASSERIE_INPUTS/in\") = 300000";
    let wants = || wants(&[], inputs(&artifact), vec![peer.holder()]);
    let task = place.run(script, wants()).await;
    let run = until_stuck(&mut place).await;
    assert_eq!(
        (run.job, run.node, run.invocation),
        (
            task.job.clone(),
            task.node.clone(),
            task.invocation_id.clone()
        )
    );
    assert_eq!((run.artifacts, run.present), (Some(1), Some(0)));
    let peers = run.peers.expect("it waits for one");
    assert_eq!(peers.len(), 1, "{peers:?}");
    assert_eq!(peers[0].address, peer.holder().address);
    assert_eq!(peers[0].hostname.as_deref(), Some("elsewhere"));
    peer.set(Mood::Open);
    let (status, _) = place.end(&task).await;
    assert!(status.contains("result_bits"), "{status}");
    // Only the first bytes were requested from the begin.
    let offsets = peer.offsets();
    assert!(offsets[1..].iter().all(|at| *at >= 100_000), "{offsets:?}");
    let is_over = |report: &ArtifactsReport| {
        let counters = report.counters.clone().unwrap_or_default();
        report.waiting.is_none() && counters.bytes_taken == Some(300_000)
    };
    let scene = place
        .stage
        .until("report without waiting runs", |scene| {
            scene.reports.iter().any(is_over)
        })
        .await;
    let last = scene.reports.iter().find(|report| is_over(report));
    let counters = last.and_then(|report| report.counters.clone());
    let counters = counters.expect("the worker counts");
    assert_eq!(counters.transfers_taken, Some(2));
    assert!(counters.busy_received >= Some(2), "{counters:?}");
    assert_eq!(counters.inputs_present, Some(0));
    // The next run finds both of its inputs.
    let task = place.run(script, wants()).await;
    place.end(&task).await;
    place.make("echo more > out", "out").await;
    place
        .stage
        .until("count of inputs", |scene| {
            let reports = scene.reports.iter();
            let mut counters = reports.filter_map(|report| report.counters.as_ref());
            counters.any(|all| all.inputs_present == Some(2))
        })
        .await;
}
