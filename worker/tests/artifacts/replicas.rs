//! Tests the copies that a scheduler requests without a run.

use std::fs;

use brasserie_thrift::generated::common::{Artifact, ArtifactHolder};
use brasserie_thrift::generated::scheduler::{ArtifactReplica, ArtifactsAnswer};

use super::peers::holder_at;
use super::{BIG, Place, answer, input, wants};

/// Returns an answer that requests copies of artifacts that all these workers hold.
fn replicate(artifacts: &[&Artifact], holders: Vec<ArtifactHolder>) -> ArtifactsAnswer {
    let places: Vec<i32> = (0..).zip(&holders).map(|(place, _)| place).collect();
    let replica = |artifact: &&Artifact| ArtifactReplica {
        artifact: Some((*artifact).clone()),
        holders: Some(places.clone()),
    };
    ArtifactsAnswer {
        holders: Some(holders),
        replicate: Some(artifacts.iter().map(replica).collect()),
        ..answer()
    }
}

impl Place {
    /// Has a worker report, which begins with its first artifact.
    async fn report(&mut self) {
        self.make("echo own > own", "own").await;
    }

    async fn until_stored(&mut self, artifact: &Artifact) {
        self.stage
            .until("report of the copy", |scene| {
                let reports = scene.reports.iter();
                let mut stored = reports.flat_map(|report| report.stored.iter().flatten());
                stored.any(|copy| copy.id == artifact.id)
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_fetches_and_reports_the_copies_that_its_scheduler_wants() {
    let (mut maker, mut taker) = (Place::open().await, Place::open().await);
    let file = maker.make(&format!("{{ {BIG}; }} > out"), "out").await;
    let folder = maker.make("mkdir -p f/g; echo deep > f/g/h", "f/").await;
    let holder = maker.holder().await;
    taker.stage.change(|scene| {
        scene.artifacts = Some(replicate(&[&file, &folder], vec![holder]));
    });
    taker.report().await;
    // The answers repeat the request, also when the worker has the copies.
    taker.until_stored(&file).await;
    taker.until_stored(&folder).await;
    assert_eq!(
        fs::read(taker.file(&file)).expect("it was fetched"),
        fs::read(maker.file(&file)).expect("it was made")
    );
    assert_eq!(
        fs::read(taker.file(&folder)).expect("it was fetched"),
        fs::read(maker.file(&folder)).expect("it was made")
    );
    // The holder has counted what it served.
    maker.report().await;
    let bytes = file
        .size
        .zip(folder.size)
        .map(|(file, folder)| file + folder);
    maker
        .stage
        .until("count of bytes", |scene| {
            let counters = scene
                .reports
                .iter()
                .filter_map(|report| report.counters.as_ref());
            let mut bytes_served = counters.map(|counters| counters.bytes_served);
            bytes_served.any(|served| served == bytes)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_damaged_holders_do_not_keep_a_copy_from_its_worker() {
    let (mut one, mut other, mut taker) = (
        Place::open().await,
        Place::open().await,
        Place::open().await,
    );
    let artifact = one.make("echo sound > out", "out").await;
    assert_eq!(artifact, other.make("echo sound > out", "out").await);
    let file = one.file(&artifact);
    fs::remove_file(&file).expect("it was there");
    fs::write(&file, "Sound\n").expect("a damaged copy");
    // Nobody listens at the first address.
    let lost = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = lost.local_addr().expect("it is bound").port();
    drop(lost);
    let holders = vec![holder_at(port), one.holder().await, other.holder().await];
    taker.stage.change(|scene| {
        scene.artifacts = Some(replicate(&[&artifact], holders));
    });
    taker.report().await;
    taker.until_stored(&artifact).await;
    assert_eq!(
        fs::read(taker.file(&artifact)).expect("it was fetched"),
        b"sound\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_does_not_fit_harms_no_run() {
    let mut maker = Place::open().await;
    let big = maker.make(&format!("{{ {BIG}; }} > out"), "out").await;
    let small = maker.make("echo small > out", "out").await;
    let mut taker = Place::open_with(|dir| {
        let disk = dir.join("artifacts");
        vec![
            "--disk".to_owned(),
            format!("{},capacity=100K", disk.display()),
        ]
    })
    .await;
    let holder = maker.holder().await;
    let needed = maker.make("echo needed > out", "out").await;
    taker.stage.change(|scene| {
        scene.artifacts = Some(replicate(&[&big, &small], vec![holder.clone()]));
    });
    taker.report().await;
    taker.until_stored(&small).await;
    let inputs = vec![input("in", &needed, &[0])];
    let script = "test $(cat \"$BRASSERIE_INPUTS/in\") = needed; echo left > out";
    let task = taker
        .run(script, wants(&["out"], inputs, vec![holder]))
        .await;
    let (status, outputs) = taker.end(&task).await;
    assert_eq!(outputs.len(), 1, "{status}");
    assert!(!taker.file(&big).exists());
}
