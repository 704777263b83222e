//! Tests that a worker without descriptors fails tasks with a clear message, and continues. The test is alone in its file because it
//! changes the limit of its whole process.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brasserie_common::{
    Ending, Fault, InvocationId, JobName, NodeName, TaskSubprocessOptions, Time, WallTime,
};
use brasserie_worker::logs::{LogConfig, LogStore};
use brasserie_worker::process::{
    ProcessRunner, RunKey, Runner, RunnerConfig, SpawnRequest, TaskEnd,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The longest wait; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

fn request(number: i64) -> SpawnRequest {
    let node = NodeName::try_from(number.to_string()).expect("a name");
    SpawnRequest {
        key: RunKey {
            invocation: InvocationId::new(1, number),
            job: JobName::try_from("job").expect("a name"),
            node: node.clone(),
        },
        command: vec!["true".to_owned()],
        argument: "{}".to_owned(),
        path_to_node: vec![node],
        options: TaskSubprocessOptions::default(),
        cuda_devices: Vec::new(),
        fence: None,
        not_after: Time::NEVER,
        association: brasserie_worker_core::AssociationIndex::FIRST,
        asked: Instant::now(),
        inputs: None,
    }
}

#[test]
fn tasks_fail_by_name_at_every_step_and_the_runner_survives() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(|| WallTime::from_secs(1_700_000_000));
    let logs = LogStore::open(LogConfig::new(dir.path().join("logs")), clock).expect("logs");
    let (sender, ends) = mpsc::channel();
    let (data_dir, host) = (dir.path().to_owned(), "here".to_owned());
    let config = RunnerConfig::new(data_dir, host, Arc::new(logs));
    let sink = move |end: TaskEnd| sender.send(end).expect("the test listens");
    let runner = ProcessRunner::start(config, sink).expect("a runner");
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("readable");
    let lowest_free = {
        let probe = std::fs::File::open("/dev/null").expect("always there");
        u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&probe)).expect("not negative")
    };
    // A start takes three pipes of two descriptors each, and one more to watch the process. With fewer free descriptors it stops at
    // another step each time, the last of them after the process was created.
    for free in 0..7 {
        setrlimit(Resource::RLIMIT_NOFILE, lowest_free + free, hard).expect("lowered");
        let number = i64::try_from(free).expect("small");
        runner.spawn(request(number)).expect("accepted");
        let end = ends.recv_timeout(PATIENCE).expect("reported");
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("restored");
        match &end.story.ending {
            Ending::NotStarted(why) => {
                assert!(why.contains("descriptors"), "{why}");
                assert_eq!(end.story.fault, Fault::Worker);
                assert!(end.status.is_incomplete_backoff(), "{:?}", end.status);
            }
            other => panic!("ran with {free} descriptors: {other:?}"),
        }
        assert!(
            end.status
                .exception()
                .is_some_and(|text| text.starts_with("cannot start"))
        );
        runner.spawn(request(100 + number)).expect("accepted");
        assert!(
            ends.recv_timeout(PATIENCE)
                .expect("reported")
                .status
                .is_done()
        );
    }
    assert_eq!(runner.running(), 0);
}
