//! Tests the calls about outputs over Thrift: pages of outputs, and outputs that are forgotten, also on disk.

use brasserie_common::{
    Artifact, ArtifactForm, ArtifactId, DiskGeneration, LeftOutput, OutputPath, TaskOutput,
};
use brasserie_thrift::generated::brasserie::*;
use brasserie_thrift::rpc::LACK_OF_ROOM;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::worker::{FakeWorker, Tasks};
use crate::{Client, Place, until};

const CONFIG: &str = r#"{
    "bistro_settings": {
        "nodes": {"levels": ["db"], "node_sources": [{"source": "manual", "prefs": {"a": [], "b": []}}]},
        "resources": {"worker": {"slots": {"default": 1, "limit": 4}}}
    },
    "bistro_job->copy": {"command": ["copy"], "outputs": ["table"]},
    "bistro_job->check": {"command": ["check"], "inputs": [{"from": "copy"}]}
}"#;

fn left(content: u8) -> LeftOutput {
    LeftOutput {
        output: TaskOutput {
            path: OutputPath::try_from("table").unwrap(),
            artifact: Artifact {
                id: ArtifactId([content; 32]),
                size: 7,
                form: ArtifactForm::File,
            },
        },
        generation: DiskGeneration(1),
    }
}

async fn page(
    client: &Client,
    (job, node): (&str, &str),
    after: Option<OutputCursor>,
) -> BrasserieGetOutputPageResult {
    let args = BrasserieGetOutputPageArgs {
        job: job.to_owned(),
        node: node.to_owned(),
        after,
        limit: 1,
    };
    client.call("getOutputPage", &args).await
}

async fn forget(
    client: &Client,
    (job, nodes): (&str, &[&str]),
    force: bool,
) -> Result<ForgottenOutputs, String> {
    let args = BrasserieForgetOutputsArgs {
        job: job.to_owned(),
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        force,
    };
    let result: BrasserieForgetOutputsResult = client.call("forgetOutputs", &args).await;
    match result.ex {
        Some(ex) => Err(ex.message.unwrap()),
        None => Ok(result.result_value.unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_listed_and_forgotten_and_stay_so_after_a_restart() {
    let place = Place::new();
    std::fs::write(place.config(), CONFIG).unwrap();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    for content in [1, 2] {
        let mut start = worker.next_start().await;
        start.rt.outputs = Some(vec![left(content).into()]);
        worker.reporter.report(start, "done").await;
    }
    until(&scheduler, "done", |s| s.jobs[0].counts.done == 2).await;
    let first = page(&client, ("", ""), None).await.result_value.unwrap();
    let next = first.next_page.clone().unwrap();
    let listed = &first.outputs.unwrap()[0];
    assert_eq!(
        (listed.node.as_deref(), listed.path.as_deref()),
        (Some("a"), Some("table"))
    );
    assert_eq!(listed.artifact.clone().unwrap().size, Some(7));
    let set = &first.sets.unwrap()[0];
    assert_eq!((set.keep.as_deref(), set.tasks), (Some("for"), Some(2)));
    assert_eq!(set.consumers.as_deref(), Some(&["check".to_owned()][..]));
    assert_eq!(first.cluster.unwrap().len(), 16);
    let second = page(&client, ("copy", ""), Some(next))
        .await
        .result_value
        .unwrap();
    assert_eq!(second.outputs.unwrap()[0].node.as_deref(), Some("b"));
    assert_eq!(second.next_page, None);
    let unknown = page(&client, ("copi", ""), None).await.ex.unwrap();
    assert!(unknown.message.unwrap().contains("did you mean `copy`?"));

    let refused = forget(&client, ("copy", &["a"]), false).await.unwrap_err();
    assert!(
        refused.contains("job `check`") && refused.contains("--force"),
        "{refused}"
    );
    let forgotten = forget(&client, ("copy", &["a"]), true).await.unwrap();
    assert_eq!((forgotten.tasks, forgotten.outputs), (Some(1), Some(1)));
    scheduler.shutdown().await.unwrap();

    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let rest = page(&client, ("copy", ""), None)
        .await
        .result_value
        .unwrap();
    assert_eq!(rest.outputs.unwrap()[0].node.as_deref(), Some("b"));
    forget(&client, ("copy", &[]), true).await.unwrap();
    scheduler.shutdown().await.unwrap();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let none = page(&client, ("", ""), None).await.result_value.unwrap();
    assert!(none.why_empty.unwrap().contains("no task has left outputs"));
    scheduler.shutdown().await.unwrap();
}

/// A call of `requestArtifactSlots` for one artifact in the compact protocol, with its length.
const SLOT: &[u8] = b"\0\0\0\x1d\x82\x21\x01\x14requestArtifactSlots\x1c\x15\x02\0\0";

/// One thread serves, so the calls that arrive together are read before the core answers the first.
#[tokio::test]
async fn requests_for_slots_have_places_as_other_changes() {
    let place = Place::new();
    let scheduler = place.start().await;
    let stream = TcpStream::connect(scheduler.thrift_address()).await;
    let mut stream = stream.unwrap();
    stream.write_all(&SLOT.repeat(600)).await.unwrap();
    let (mut refused, mut answered) = (0, 0);
    for _ in 0..600 {
        let length = stream.read_u32().await.unwrap();
        let mut answer = vec![0; length as usize];
        stream.read_exact(&mut answer).await.unwrap();
        match String::from_utf8_lossy(&answer).contains(LACK_OF_ROOM) {
            true => refused += 1,
            false => answered += 1,
        }
    }
    assert!(answered >= 256, "{answered}");
    assert!(refused > 0, "a caller has 256 changes that wait");
    // Their answers have freed the places.
    stream.write_all(SLOT).await.unwrap();
    let length = stream.read_u32().await.unwrap();
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await.unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains(LACK_OF_ROOM));
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn bad_requests_are_refused_with_the_reason() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let args = |node: &str, after| BrasserieGetOutputPageArgs {
        job: String::new(),
        node: node.to_owned(),
        after,
        limit: 0,
    };
    let call = args("a", None);
    let text = client.refusal::<_, BrasserieGetOutputPageResult>("getOutputPage", &call);
    let text = text.await;
    assert!(text.contains("without a job"), "{text}");
    let cursor = OutputCursor {
        job: Some("copy".to_owned()),
        node: Some("a".to_owned()),
        path: Some("../x".to_owned()),
    };
    let call = args("", Some(cursor));
    let text = client.refusal::<_, BrasserieGetOutputPageResult>("getOutputPage", &call);
    let text = text.await;
    assert!(text.contains("the path of `after` is invalid"), "{text}");
    let refused = forget(&client, ("copy", &[]), false).await.unwrap_err();
    assert!(refused.contains("has no key `outputs`"), "{refused}");
    scheduler.shutdown().await.unwrap();
}
