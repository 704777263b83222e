//! Sends statuses over real Thrift, to schedulers that accept many in one message and to schedulers that do not.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{CallOutcome, InvocationId, ServiceAddress, Shard};
use brasserie_common_runtime::NetworkExposure;
use brasserie_thrift::rpc::{CallTimeouts, ClientConfig, IncomingCall, Limits, Server, Service};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::membership::Membership;
use crate::options::SchedulerOptions;
use crate::rpc::SchedulerClient;

/// Longer than any of these tests takes, even on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reaction of the fake scheduler to a message with many statuses.
#[derive(Clone, Copy)]
enum Takes {
    Each,
    /// It does not know the method.
    OneByOne,
    /// It answers with one result too few.
    OneTooFew,
    /// It cannot parse the message.
    NotThis,
}

/// A scheduler that refuses runs with an odd number, and records the runs of each message it receives.
struct Fake {
    takes: Takes,
    heard: Arc<Mutex<Vec<Vec<i64>>>>,
}

fn number(task: &RunningTask) -> i64 {
    let id = task.invocation_id.as_ref();
    id.and_then(|id| id.rand).expect("a number")
}

impl Service for Fake {
    fn call(&self, call: IncomingCall<'_>) {
        match (call.method(), self.takes) {
            ("updateStatus", _) => call.serve(|args: BistroSchedulerUpdateStatusArgs, to| {
                let run = number(&args.running_task);
                self.heard.lock().push(vec![run]);
                match run % 2 {
                    0 => to.reply(&BistroSchedulerUpdateStatusResult {}),
                    _ => to.exception(ApplicationErrorKind::InternalError, "odd"),
                }
            }),
            ("updateStatusBatch", Takes::Each | Takes::OneTooFew | Takes::NotThis) => {
                call.serve(|args: BistroSchedulerUpdateStatusBatchArgs, to| {
                    let tasks = args.updates.iter().flat_map(|one| &one.running_task);
                    let runs: Vec<i64> = tasks.map(number).collect();
                    self.heard.lock().push(runs.clone());
                    let results = runs.iter().map(|run| StatusResult {
                        refusal: (run % 2 != 0).then(|| "odd".to_owned()),
                    });
                    let mut results: Vec<StatusResult> = results.collect();
                    match self.takes {
                        Takes::NotThis => {
                            return to.exception(ApplicationErrorKind::ProtocolError, "what?");
                        }
                        Takes::OneTooFew => drop(results.pop()),
                        Takes::Each | Takes::OneByOne => {}
                    }
                    to.reply(&BistroSchedulerUpdateStatusBatchResult {
                        result_value: Some(results),
                    });
                });
            }
            _ => {
                self.heard.lock().push(Vec::new());
                call.unknown_method();
            }
        }
    }
}

/// A worker's client, and the messages that its scheduler received.
struct Pair {
    client: SchedulerClient,
    heard: Arc<Mutex<Vec<Vec<i64>>>>,
    _stop: DropGuard,
}

impl Pair {
    async fn new(takes: Takes) -> Self {
        let any = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(any).await.expect("a port");
        let address = ServiceAddress {
            host: "127.0.0.1".into(),
            port: server.local_addr().port(),
        };
        let (heard, stop) = (Arc::default(), CancellationToken::new());
        let fake = Fake {
            takes,
            heard: Arc::clone(&heard),
        };
        server.serve(fake, Limits::default(), stop.clone());
        let timeouts: CallTimeouts = ClientConfig::default().timeouts;
        let scheduler = SchedulerOptions {
            members: vec![address],
            list: None,
            shard: Shard::default(),
            share: 1.0,
        };
        Pair {
            client: SchedulerClient::new(
                &scheduler,
                timeouts,
                PATIENCE,
                (Membership::default(), NetworkExposure::LoopbackOnly),
            ),
            heard,
            _stop: stop.drop_guard(),
        }
    }

    /// Sends the statuses of these runs together. Returns the runs that were acknowledged, and those that were not.
    async fn tell(&self, runs: std::ops::Range<i64>, bytes: usize) -> (Vec<i64>, Vec<i64>) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let tellings = runs.clone().map(|run| {
            let sender = sender.clone();
            let task = RunningTask {
                invocation_id: Some(InvocationId::new(1, run).into()),
                ..RunningTask::default()
            };
            Telling {
                arguments: BistroSchedulerUpdateStatusArgs {
                    running_task: task,
                    status: "x".repeat(bytes),
                    scheduler: SchedulerId::new(1, 1).into(),
                    worker: WorkerId::new(1, 1).into(),
                },
                done: Box::new(move |outcome| drop(sender.send((run, outcome)))),
            }
        });
        self.client.tell_all(tellings.collect());
        let (mut taken, mut not) = (Vec::new(), Vec::new());
        for _ in runs {
            let next = tokio::time::timeout(PATIENCE, receiver.recv()).await;
            let (run, outcome) = next.expect("in time").expect("one outcome each");
            match outcome {
                CallOutcome::Done(CallReply::Acknowledged) => taken.push(run),
                CallOutcome::Unknown(_) => not.push(run),
                other => panic!("{run}: {other:?}"),
            }
        }
        taken.sort_unstable();
        not.sort_unstable();
        (taken, not)
    }

    /// Returns the number of statuses in each message.
    fn sizes(&self) -> Vec<usize> {
        self.heard.lock().drain(..).map(|runs| runs.len()).collect()
    }
}

fn halves(runs: std::ops::Range<i64>) -> (Vec<i64>, Vec<i64>) {
    runs.partition(|run| run % 2 == 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hears_its_own_result() {
    let pair = Pair::new(Takes::Each).await;
    assert_eq!(pair.tell(0..250, 4).await, halves(0..250));
    let mut sizes = pair.sizes();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
    assert_eq!(pair.tell(2..3, 4).await, halves(2..3));
    assert_eq!(pair.tell(0..2, 4).await, halves(0..2));
    assert_eq!(pair.sizes(), [1, 2]);
    // Long statuses are split among short messages.
    assert_eq!(pair.tell(0..5, 400_000).await, halves(0..5));
    let mut sizes = pair.sizes();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 2, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_scheduler_receives_statuses_one_by_one() {
    let pair = Pair::new(Takes::OneByOne).await;
    assert_eq!(pair.tell(0..30, 4).await, halves(0..30));
    let first = pair.sizes();
    assert_eq!((first[0], &first[1..]), (0, &[1; 30][..]));
    // The sender does not try messages with many statuses again.
    assert_eq!(pair.tell(0..30, 4).await, halves(0..30));
    assert_eq!(pair.sizes(), [1; 30]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_too_few_acknowledges_nobody() {
    let pair = Pair::new(Takes::OneTooFew).await;
    assert_eq!(pair.tell(0..4, 4).await, (vec![], vec![0, 1, 2, 3]));
    assert_eq!(pair.sizes(), [4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_batch_is_sent_one_by_one_this_time() {
    let pair = Pair::new(Takes::NotThis).await;
    for _ in 0..2 {
        assert_eq!(pair.tell(0..4, 4).await, halves(0..4));
        let mut sizes = pair.sizes();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 1, 1, 4]);
    }
}
