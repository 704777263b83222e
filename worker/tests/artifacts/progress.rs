//! Tests the reports on runs that wait for inputs, and the counters.

use brasserie_thrift::generated::common::{Artifact, TaskInput};
use brasserie_thrift::generated::scheduler::{
    ArtifactHolders, ArtifactsAnswer, ArtifactsReport, WaitingRun,
};

use super::peers::{ANSWER, Mood, Peer, other_artifact};
use super::{Place, answer, input, wants};

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
    // Only the first bytes were requested from the begin. Calls may be in flight when the first busy answer comes.
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

fn content(answers: usize) -> Vec<u8> {
    let bytes = (0..answers * ANSWER).map(|at| u8::try_from(at % 251).expect("small"));
    bytes.collect()
}

/// Three calls are in flight after the first one, each where the one before it ends. Their answers may come in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_on_their_way_together() {
    let mut place = Place::open().await;
    let peer = Peer::open(content(10), Mood::Threes).await;
    let inputs = vec![input("in", &peer.artifact(), &[0])];
    let script = "test $(wc -c < \"$BRASSERIE_INPUTS/in\") = 1000000";
    let task = place
        .run(script, wants(&[], inputs, vec![peer.holder()]))
        .await;
    let (status, _) = place.end(&task).await;
    assert!(status.contains("result_bits"), "{status}");
    let mut offsets = peer.offsets();
    offsets.sort_unstable();
    let expected = (0..10).map(|answer| answer * 100_000);
    assert_eq!(offsets, expected.collect::<Vec<i64>>());
}

/// Waits for a question for other holders of an artifact, and names a peer.
async fn answer_with_holder(place: &mut Place, artifact: &Artifact, peer: &Peer) {
    place
        .stage
        .until("question for other holders", |scene| {
            let mut reports = scene.reports.iter();
            reports.any(|report| report.wanted.as_ref().is_some_and(|all| !all.is_empty()))
        })
        .await;
    place.stage.change(|scene| {
        scene.artifacts = Some(ArtifactsAnswer {
            wanted: Some(vec![ArtifactHolders {
                id: artifact.id.clone(),
                holders: Some(vec![0]),
            }]),
            holders: Some(vec![peer.holder()]),
            ..answer()
        });
    });
}

/// A peer that has lost an artifact in the middle of a transfer has given the bytes before, although the transfer goes on with another
/// artifact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_peer_continues_where_one_has_lost_the_artifact() {
    let mut place = Place::open().await;
    let loser = Peer::open(content(10), Mood::LacksFrom(4 * ANSWER)).await;
    let holder = Peer::open(content(10), Mood::Open).await;
    let artifact = loser.artifact();
    let inputs = vec![
        input("in", &artifact, &[0]),
        input("more", &other_artifact(), &[0]),
    ];
    let script =
        "cd \"$BRASSERIE_INPUTS\"; test $(wc -c < in) = 1000000 && test \"$(cat more)\" = more";
    let task = place
        .run(script, wants(&[], inputs, vec![loser.holder()]))
        .await;
    answer_with_holder(&mut place, &artifact, &holder).await;
    let (status, _) = place.end(&task).await;
    assert!(status.contains("result_bits"), "{status}");
    let offsets = holder.offsets();
    assert_eq!(offsets.iter().min(), Some(&400_000), "{offsets:?}");
}

/// A peer that breaks in the middle has given the bytes before, and another peer gives only the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_peer_continues_where_a_broken_one_has_stopped() {
    let mut place = Place::open().await;
    let broken = Peer::open(content(10), Mood::BreaksAt(4 * ANSWER)).await;
    let other = Peer::open(content(10), Mood::Open).await;
    let artifact = broken.artifact();
    let inputs = vec![input("in", &artifact, &[0])];
    let script = "test $(wc -c < \"$BRASSERIE_INPUTS/in\") = 1000000";
    let task = place
        .run(script, wants(&[], inputs, vec![broken.holder()]))
        .await;
    answer_with_holder(&mut place, &artifact, &other).await;
    let (status, _) = place.end(&task).await;
    assert!(status.contains("result_bits"), "{status}");
    let offsets = other.offsets();
    assert_eq!(offsets.iter().min(), Some(&400_000), "{offsets:?}");
    let took = |report: &ArtifactsReport| report.counters.as_ref().and_then(|all| all.bytes_taken);
    place.make("echo more > out", "out").await;
    place
        .stage
        .until("count of bytes", |scene| {
            scene
                .reports
                .iter()
                .any(|report| took(report) == Some(1_000_000))
        })
        .await;
}
