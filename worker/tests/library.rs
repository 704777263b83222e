//! Tests a worker inside another program: started and ended without signals, keeper or command line.

use std::path::Path;
use std::time::Duration;

use brasserie_common::work_overview::{Overview, WorkFetchStatus};
use brasserie_common::{ServiceAddress, Shard};
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerGetWorkFetchArgs, BrasserieWorkerGetWorkFetchResult,
};
use brasserie_thrift::generated::common::{BistroInstanceID, RunningTask, TaskSubprocessOptions};
use brasserie_thrift::generated::worker::{BistroWorkerRunTaskArgs, BistroWorkerRunTaskResult};
use brasserie_thrift::rpc::{CallResult, ClientConfig, ClientPool, PeerAddr};
use brasserie_worker::{ExitReason, StartError, StartOptions, WorkFetchProfile, start};
use tokio::time::timeout;

/// Longer than any of these tests takes, even on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns options for a scheduler that does not exist.
fn options(data_dir: &Path) -> StartOptions {
    let nobody = ServiceAddress {
        host: "127.0.0.1".into(),
        port: 1,
    };
    StartOptions::new(
        nobody,
        Shard::try_from("shard").expect("a name"),
        data_dir.to_owned(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_ends_and_frees_its_directory_without_a_scheduler() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut identities = Vec::new();
    for _ in 0..2 {
        let handle = start(options(dir.path())).await.expect("it starts");
        assert!(handle.address().ip().is_loopback() && handle.address().port() != 0);
        let error = start(options(dir.path()))
            .await
            .expect_err("the directory is taken");
        assert!(matches!(error, StartError::Directory(_)), "{error}");
        identities.push(handle.identity().clone());
        handle.shutdown();
        let ended = timeout(PATIENCE, handle.wait())
            .await
            .expect("it ends in time");
        assert_eq!(ended.reason, ExitReason::Shutdown);
    }
    assert_eq!(identities[0].machine_lock, identities[1].machine_lock);
    assert!(identities[0].instance.0.start_time < identities[1].instance.0.start_time);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let dir = tempfile::tempdir().expect("a folder");
    let mut options = options(dir.path());
    let exposure = brasserie_common_runtime::NetworkExposure::LoopbackOnly;
    options.listen =
        brasserie_common_runtime::ListenAddress::check(address, exposure).expect("loopback");
    let error = start(options).await.expect_err("it is taken").to_string();
    assert!(
        error.contains(&address.to_string()) && error.contains("--listen"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_mean_nothing_are_refused_by_their_path_and_methods_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let handle = start(options(dir.path())).await.expect("it starts");
    let pool = ClientPool::new(ClientConfig::default());
    let peer = PeerAddr::from(handle.address());
    let id = BistroInstanceID {
        start_time: Some(1),
        rand: Some(1),
    };
    let arguments = BistroWorkerRunTaskArgs {
        rt: RunningTask {
            job: Some("a\0b".to_owned()),
            ..RunningTask::default()
        },
        config: String::new(),
        command: Vec::new(),
        scheduler: id.clone(),
        worker: id,
        notify_if_tasks_not_running_sequence_num: 0,
        opts: TaskSubprocessOptions::default(),
    };
    let result: CallResult<BistroWorkerRunTaskResult> =
        pool.call(&peer, "runTask", &arguments).await;
    let CallResult::Done(result) = result else {
        panic!("{result:?}")
    };
    let text = result
        .ex
        .expect("a declared exception")
        .message
        .expect("a message");
    assert!(text.starts_with("runTask.rt."), "{text}");
    let result: CallResult<BistroWorkerRunTaskResult> =
        pool.call(&peer, "runTasks", &arguments).await;
    let text = result
        .into_result()
        .expect_err("no such method")
        .to_string();
    assert!(text.contains("runTasks"), "{text}");
    handle.shutdown();
    timeout(PATIENCE, handle.wait())
        .await
        .expect("it ends in time");
}

/// Calls `getWorkFetch` of a worker that has just started.
async fn look(pool: &ClientPool, peer: &PeerAddr) -> CallResult<BrasserieWorkerGetWorkFetchResult> {
    pool.call(peer, "getWorkFetch", &BrasserieWorkerGetWorkFetchArgs {})
        .await
}

fn seen(result: CallResult<BrasserieWorkerGetWorkFetchResult>) -> Option<Overview> {
    let CallResult::Done(result) = result else {
        panic!("{result:?}")
    };
    let status = result.result_value.expect("an answer");
    let status = WorkFetchStatus::try_from(status).expect("it can be read");
    assert!(status.taken.as_secs() > 0, "{:?}", status.taken);
    status.overview
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_fetches_work_shows_it_and_who_does_not_says_so() {
    let pool = ClientPool::new(ClientConfig::default());
    for fetches in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut options = options(dir.path());
        if fetches {
            options.work_fetch.work_fetch = WorkFetchProfile::Volunteer;
        }
        let handle = start(options).await.expect("it starts");
        let overview = seen(look(&pool, &PeerAddr::from(handle.address())).await);
        assert_eq!(overview.is_some(), fetches);
        if let Some(overview) = overview {
            assert_eq!(overview.profile, "volunteer");
            let one = &overview.of_association[0];
            assert_eq!(one.members, ["127.0.0.1:1"]);
            let facts = one.facts.as_ref().expect("facts");
            assert_eq!((facts.shard.as_str(), facts.scheduler), ("shard", None));
        }
        handle.shutdown();
        timeout(PATIENCE, handle.wait())
            .await
            .expect("it ends in time");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_look_at_once_are_answered_or_told_to_ask_again_and_keep_no_place() {
    const LOOKS: usize = 500;
    let dir = tempfile::tempdir().expect("a folder");
    let mut options = options(dir.path());
    options.work_fetch.work_fetch = WorkFetchProfile::Cluster;
    let handle = start(options).await.expect("it starts");
    let mut config = ClientConfig::default();
    config.timeouts.send = PATIENCE;
    config.timeouts.receive = PATIENCE;
    let pool = ClientPool::new(config);
    let peer = PeerAddr::from(handle.address());
    let mut looks = tokio::task::JoinSet::new();
    for _ in 0..LOOKS {
        let (pool, peer) = (pool.clone(), peer.clone());
        looks.spawn(async move { look(&pool, &peer).await });
    }
    let (mut shown, mut refused) = (0, 0);
    for result in looks.join_all().await {
        match result.into_result() {
            Ok(_) => shown += 1,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("ask again"), "{text}");
                refused += 1;
            }
        }
    }
    assert!(shown > 0, "{refused} of {LOOKS} were refused");
    // Finished calls occupy no place.
    for _ in 0..4 {
        assert!(seen(look(&pool, &peer).await).is_some());
    }
    handle.shutdown();
    timeout(PATIENCE, handle.wait())
        .await
        .expect("it ends in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_calls_is_answered_completely() {
    const CALLS: usize = 20_000;
    let dir = tempfile::tempdir().expect("a folder");
    let handle = start(options(dir.path())).await.expect("it starts");
    let mut config = ClientConfig::default();
    config.timeouts.send = PATIENCE;
    config.timeouts.receive = PATIENCE;
    let pool = ClientPool::new(config);
    let peer = PeerAddr::from(handle.address());
    let id = BistroInstanceID {
        start_time: Some(1),
        rand: Some(1),
    };
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let arguments = BistroWorkerRunTaskArgs {
                rt: RunningTask {
                    job: Some("job".to_owned()),
                    node: Some(number.to_string()),
                    invocation_id: Some(id.clone()),
                    ..RunningTask::default()
                },
                config: String::new(),
                command: vec!["true".to_owned()],
                scheduler: id.clone(),
                worker: id.clone(),
                notify_if_tasks_not_running_sequence_num: 0,
                opts: TaskSubprocessOptions::default(),
            };
            tokio::spawn(pool.call::<_, BistroWorkerRunTaskResult>(&peer, "runTask", &arguments))
        })
        .collect();
    for call in calls {
        let CallResult::Done(result) = call.await.expect("no panic") else {
            panic!("no answer")
        };
        assert!(result.ex.is_some(), "not associated: refused, or BUSY");
    }
    handle.shutdown();
    timeout(PATIENCE, handle.wait())
        .await
        .expect("it ends in time");
}
