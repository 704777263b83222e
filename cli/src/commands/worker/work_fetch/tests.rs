//! Tests the output about workers, and the messages if there is nothing to show.

use brasserie_common::work_overview::{
    AssociationFacts, AssociationOverview, PairOverview, RequestOverview, RequestState,
    TypeOverview, WaitOverview, WorkFetchStatus,
};
use brasserie_common::{
    Health, Processor, SchedulerId, Shard, WallTime, WorkDemand, WorkRequestSeq,
};
use brasserie_common_runtime::NetworkExposure;
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerGetWorkFetchArgs, BrasserieWorkerGetWorkFetchResult, ClusterStatus, WorkerStatus,
};
use brasserie_thrift::rpc::{IncomingCall, Limits, Server, Service};
use clap::Parser;
use thrift::ApplicationErrorKind;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::worker_credentials::WorkerCredentials;

const PLAIN: WorkerCredentials = WorkerCredentials::Plain(NetworkExposure::LoopbackOnly);

fn at(port: u16) -> String {
    format!("s.example:{port}")
}

fn wait(millis: u64, why: &str) -> WaitOverview {
    WaitOverview {
        left: Duration::from_millis(millis),
        why: why.to_owned(),
    }
}

/// Returns the overview of a scheduler with a pending request.
fn asked_one() -> AssociationOverview {
    let demand = WorkDemand {
        instance_secs: 90.0,
        idle: 2.0,
        ..WorkDemand::none(Processor::Cpu, 4.0)
    };
    AssociationOverview {
        members: vec![at(6789), at(6790)],
        facts: Some(AssociationFacts {
            shard: Shard::try_from("w1").expect("a name"),
            scheduler: Some(SchedulerId::new(1_700_000_000, 0xAB)),
            health: Health::Healthy,
            running: 3,
            executing: 2,
            stopped: 1,
            waiting: 3,
            unacknowledged: 1,
        }),
        priority: -0.5,
        got: 0.25,
        share: 0.5,
        request: Some(RequestOverview {
            seq: WorkRequestSeq(7),
            age: Duration::from_millis(1200),
            state: RequestState::Pending,
            demands: vec![demand],
        }),
        of_type: vec![PairOverview {
            name: "CPU".to_owned(),
            runnable: 5,
            queued: 75.0,
            deadlines_missed: 1,
            fetchable_share: 0.5,
            ..PairOverview::default()
        }],
        ..AssociationOverview::default()
    }
}

/// Returns the overview of a scheduler that had no work.
fn backed_off_one() -> AssociationOverview {
    let why = "asked for work of that type and did not get any (backoff interval 8s)";
    AssociationOverview {
        members: vec![at(7000)],
        priority: -1.5,
        got: 0.75,
        share: 0.5,
        waits: vec![format!("CPU: backed off, 4500ms from now: {why}")],
        of_type: vec![PairOverview {
            name: "CPU".to_owned(),
            reason: Some("backed off".to_owned()),
            backoff: Some(wait(4500, why)),
            ..PairOverview::default()
        }],
        ..AssociationOverview::default()
    }
}

fn overview() -> Overview {
    Overview {
        profile: "cluster".to_owned(),
        low_water: 10.0,
        high_water: 30.0,
        of_type: vec![TypeOverview {
            name: "CPU".to_owned(),
            instances: 4.0,
            shortfall: 90.0,
            idle_now: 2.0,
            saturated: 2.5,
            busy: 0.0,
        }],
        of_association: vec![asked_one(), backed_off_one()],
    }
}

fn worker(shard: &str, answer: Result<Option<Overview>, &str>) -> AskedWorker {
    AskedWorker {
        shard: Some(shard.to_owned()),
        address: "10.0.0.7:4000".to_owned(),
        state: Some("healthy".to_owned()),
        answer: answer
            .map(|overview| WorkFetchStatus {
                taken: WallTime::from_millis(5000),
                overview,
            })
            .map_err(str::to_owned),
    }
}

fn said(seen: &WorkFetchResult) -> String {
    match show(seen, "") {
        Ok(text) => text,
        Err(error) => format!("error: {error:#}"),
    }
}

#[test]
fn one_worker_is_shown_in_full() {
    let expected = "\
Worker `w1` at 10.0.0.7:4000 asks for work when less than 10.0 s of it is there, for up to 30.0 s (profile cluster).

processors  instances  idle  saturated  shortfall      busy
CPU                 4     2  2.5 s      90 instance-s  0 s

scheduler                  shard  health   priority  got   share  executing  stopped  waiting  unacknowledged  next request
s.example:6789 and 1 more  w1     healthy  -0.50     25 %  50 %           2        1        3               1  under way
s.example:7000             -      -        -1.50     75 %  50 %           -        -        -               -  in 4.5 s at the earliest

s.example:6789, s.example:6790, instance 1700000000:00000000000000ab
  request 7 for 90 s and 2.0 instances of CPU, 1.2 s ago, has no verdict yet
  for  tasks  work        deadlines missed  may have  not asked
  CPU      5  1 min 15 s                 1  50 %      -

s.example:7000, which has not answered yet
  CPU: backed off, 4500ms from now: asked for work of that type and did not get any (backoff interval 8s)
  for  tasks  work  deadlines missed  may have  not asked
  CPU      0  0 s                  0  0 %       backed off
";
    let one = worker("w1", Ok(Some(overview())));
    assert_eq!(said(&WorkFetchResult::One(one.clone())), expected);
    // The only worker of the scheduler is shown in full.
    assert_eq!(said(&WorkFetchResult::All(vec![one])), expected);
}

#[test]
fn of_several_workers_each_has_a_line_for_each_scheduler() {
    let all = vec![
        worker("w1", Ok(Some(overview()))),
        worker("w2", Ok(None)),
        worker("w\u{1b}3", Err("it is down")),
    ];
    let expected = "\
worker    state    scheduler                  asks for              got of share  next request
w1        healthy  s.example:6789 and 1 more  90 instance-s, 2 CPU  25 % of 50 %  under way
w1        healthy  s.example:7000             -                     75 % of 50 %  in 4.5 s at the earliest
w2        healthy  -                          -                     -             never: it takes what it is sent
w\\u{1b}3  healthy  -                          -                     -             unknown: it did not answer
! w\\u{1b}3: it is down

`brasserie worker work-fetch WORKER` shows one of them in full.
";
    assert_eq!(said(&WorkFetchResult::All(all)), expected);
}

/// Returns the shown time of the next request to a scheduler in backoff, after this change to the overview.
fn next(change: &dyn Fn(&mut Overview)) -> String {
    let mut overview = overview();
    overview.of_association = vec![backed_off_one()];
    change(&mut overview);
    let all = [
        worker("w", Ok(Some(overview))),
        worker("other", Err("it is down")),
    ];
    let text = text::all(&all);
    let line = text.lines().nth(1).expect("a line of the worker");
    line.split_once("50 %  ")
        .expect("the last column")
        .1
        .to_owned()
}

#[test]
fn the_next_request_is_told_as_far_as_it_is_known() {
    let first = |overview: &mut Overview, change: &dyn Fn(&mut AssociationOverview)| {
        change(&mut overview.of_association[0]);
    };
    let not_backed_off = |one: &mut AssociationOverview| {
        one.of_type[0].reason = None;
        one.of_type[0].backoff = None;
    };
    let of = |change: &dyn Fn(&mut AssociationOverview)| next(&|o| first(o, change));
    assert_eq!(
        of(&|one| one.wait = Some(wait(61_000, "requested by the scheduler"))),
        "in 1 min 1 s at the earliest"
    );
    assert_eq!(
        of(&|one| {
            one.wait = Some(wait(61_000, "RPCs have failed"));
            one.reason = Some("has not answered for 20s".to_owned());
        }),
        "in 1 min 1 s at the earliest: has not answered for 20s"
    );
    assert_eq!(
        of(&|one| one.reason = Some("no more work wanted".to_owned())),
        "none: no more work wanted"
    );
    assert_eq!(
        of(&|one| {
            one.of_type[0].backoff = None;
            one.of_type[0].reason = Some("no job uses this type".to_owned());
        }),
        "none: no job uses this type"
    );
    assert_eq!(of(&not_backed_off), "when it is its turn");
    let enough = next(&|overview| {
        overview.of_type[0].saturated = 20.0;
        first(overview, &not_backed_off);
    });
    assert_eq!(enough, "below 10.0 s of work");
    assert_eq!(of(&|one| one.of_type.clear()), "-");
}

/// The cases include a backoff that the end of a request would end, and types with and without a shortfall.
#[test]
fn the_next_request_waits_for_a_backoff_unless_another_type_needs_work() {
    let in_backoff = "in 4.5 s at the earliest";
    assert_eq!(
        next(&|overview| overview.of_association[0].of_type[0].reason = None),
        in_backoff
    );
    let beside = |shortfall: f64| {
        next(&|overview| {
            let card = TypeOverview {
                name: "H100".to_owned(),
                shortfall,
                ..overview.of_type[0].clone()
            };
            overview.of_type.push(card);
            let pair = PairOverview {
                name: "H100".to_owned(),
                ..PairOverview::default()
            };
            overview.of_association[0].of_type.push(pair);
        })
    };
    assert_eq!(beside(0.0), in_backoff);
    assert_eq!(beside(1.0), "when it is its turn");
}

#[test]
fn json_contains_the_whole_overview() {
    let document = document(&WorkFetchResult::All(vec![
        worker("w1", Ok(Some(overview()))),
        worker("w2", Ok(None)),
        worker("w3", Err("it is down")),
    ]));
    let [one, two, three] = [0, 1, 2].map(|at| &document["workers"][at]);
    assert_eq!(one["worker"], "w1");
    assert_eq!(one["taken_ms"], 5000);
    assert_eq!(one["error"], Value::Null);
    let fetch = &one["work_fetch"];
    assert_eq!(fetch["low_water_sec"], 10.0);
    assert_eq!(fetch["processors"][0]["shortfall_instance_sec"], 90.0);
    let [asked, backed_off] = [&fetch["schedulers"][0], &fetch["schedulers"][1]];
    assert_eq!(asked["members"][1], "s.example:6790");
    assert_eq!(asked["instance"]["rand"], 0xAB);
    assert_eq!(
        (&asked["health"], &asked["waiting"]),
        (&"healthy".into(), &3.into())
    );
    assert_eq!(
        [&asked["running"], &asked["executing"], &asked["stopped"]],
        [3, 2, 1]
    );
    assert_eq!(asked["request"]["state"], "pending");
    assert_eq!(asked["request"]["demands"][0]["wants_instance_sec"], 90.0);
    assert_eq!(backed_off["health"], Value::Null);
    assert_eq!(backed_off["processors"][0]["backoff"]["left_sec"], 4.5);
    assert_eq!(
        (&two["work_fetch"], &two["error"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(three["error"], "it is down");
}

#[test]
fn an_error_says_why_no_worker_can_be_shown() {
    assert_eq!(
        said(&WorkFetchResult::One(worker("w1", Ok(None)))),
        "error: worker `w1` takes what it is sent and asks for nothing; to have it ask for work, start it with `--work-fetch`"
    );
    let of_address = AskedWorker {
        shard: None,
        state: None,
        ..worker("", Ok(None))
    };
    assert!(
        said(&WorkFetchResult::One(of_address))
            .starts_with("error: the worker at 10.0.0.7:4000 takes")
    );
    let down = || worker("w1", Err("it is down"));
    assert_eq!(said(&WorkFetchResult::One(down())), "error: it is down");
    assert_eq!(
        said(&WorkFetchResult::All(vec![down(), down()])),
        "error: it is down (none of 2 workers answered)"
    );
    let plain = || worker("w1", Ok(None));
    let all_plain = WorkFetchResult::All(vec![plain(), plain()]);
    assert_eq!(
        said(&all_plain),
        "error: all 2 workers take what they are sent and ask for nothing; to have them ask for work, start them with `--work-fetch`"
    );
    let mixed = WorkFetchResult::All(vec![plain(), down(), plain()]);
    assert_eq!(
        said(&mixed),
        "error: it is down (1 of 3 workers did not answer, and the others take what they are sent)"
    );
    assert!(something(&WorkFetchResult::All(vec![plain()])).is_err());
    // One worker that fetches work is enough.
    let one = WorkFetchResult::All(vec![plain(), down(), worker("w4", Ok(Some(overview())))]);
    assert!(something(&one).is_ok());
}

fn cluster(shards: &[&str]) -> ClusterStatus {
    let worker = |shard: &&str| WorkerStatus {
        shard: Some((*shard).to_owned()),
        address: Some("10.0.0.7:4000".to_owned()),
        state: Some("healthy".to_owned()),
        ..WorkerStatus::default()
    };
    ClusterStatus {
        workers: Some(shards.iter().map(worker).collect()),
        ..ClusterStatus::default()
    }
}

#[test]
fn a_shard_that_nobody_knows_is_answered_with_those_that_exist() {
    let find = |shards: &[&str], shard: &str| {
        let workers = asking::workers(&cluster(shards), "s:1")?;
        asking::find(workers, shard)
    };
    assert_eq!(find(&["a", "b"], "b").expect("it is there").shard, "b");
    let error = find(&["a", "b"], "c").expect_err("there is none");
    assert_eq!(
        error.to_string(),
        "the scheduler knows no worker `c`; it knows a, b"
    );
    let many: Vec<String> = (0..25).map(|n| format!("w{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = find(&many, "w25").expect_err("there is none").to_string();
    assert!(error.ends_with("w18, w19, and 5 more"), "{error}");
    assert_eq!(find(&many, "w24").expect("it is there").shard, "w24");
    let error = find(&[], "c").expect_err("there is nobody").to_string();
    assert!(
        error.starts_with("no worker has connected to the scheduler at s:1. Start one:"),
        "{error}"
    );
}

/// A peer that is not a worker of this release.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Older,
    Refuses,
    Nonsense,
    /// Sends the overview in the form of an older release.
    OfAStruct,
    Silent,
}

impl Service for Peer {
    fn call(&self, call: IncomingCall<'_>) {
        type Arguments = BrasserieWorkerGetWorkFetchArgs;
        match self {
            Peer::Older => call.unknown_method(),
            Peer::Refuses => call.serve(|_: Arguments, responder| {
                responder.exception(ApplicationErrorKind::InternalError, "busy \u{1b}");
            }),
            Peer::Nonsense => call.serve(|_: Arguments, responder| {
                let status = brasserie_thrift::generated::brasserie::WorkFetchStatus {
                    overview: Some("[7]".to_owned()),
                    ..Default::default()
                };
                responder.reply(&BrasserieWorkerGetWorkFetchResult {
                    result_value: Some(status),
                });
            }),
            Peer::OfAStruct => call.serve(|_: Arguments, responder| {
                responder.reply(&BrasserieWorkerGetWorkFetchResult {
                    result_value: Some(Default::default()),
                });
            }),
            Peer::Silent => call.serve(|_: Arguments, responder| {
                responder.reply(&BrasserieWorkerGetWorkFetchResult { result_value: None });
            }),
        }
    }
}

#[tokio::test]
async fn an_error_says_why_a_peer_has_no_work_fetch() {
    for (other, expected) in [
        (
            Peer::Older,
            "does not know the call `getWorkFetch`: a worker of an older release, which lacks it, or no worker",
        ),
        (Peer::Refuses, "refused: busy \\u{1b}"),
        (
            Peer::Nonsense,
            "makes no sense: WorkFetchStatus.overview: it is no such document: ",
        ),
        (
            Peer::OfAStruct,
            "it is missing; the peer is of an older release",
        ),
        (Peer::Silent, "sent nothing"),
    ] {
        let server = Server::bind(([127, 0, 0, 1], 0).into())
            .await
            .expect("a port");
        let address = server.local_addr();
        let stop = CancellationToken::new();
        let handle = server.serve(other, Limits::DEFAULT, stop.clone());
        let asked = WorkerConnections::showing(PLAIN)
            .ask_address(&PeerAddr::from(address))
            .await;
        let error = asked.answer.expect_err("nothing of use");
        assert!(error.contains(expected), "{other:?}: {error}");
        assert!(error.contains(&address.to_string()), "{other:?}: {error}");
        stop.cancel();
        handle.stopped().await;
    }
}

#[tokio::test]
async fn a_worker_that_cannot_be_reached_is_named_with_its_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port that was free");
    let asked = WorkerConnections::showing(PLAIN)
        .ask_address(&PeerAddr::from(free))
        .await;
    let error = asked.answer.expect_err("nobody is there");
    let start = format!("cannot ask the worker at {free}: ");
    assert!(
        error.starts_with(&start) && error.contains("Is it running"),
        "{error}"
    );
    // The address that a scheduler reports may be unusable.
    let known = asking::ListedWorker {
        shard: "w1".to_owned(),
        address: String::new(),
        state: "new".to_owned(),
        instance: None,
    };
    let all = WorkerConnections::showing(PLAIN).ask_all(vec![known]).await;
    let error = all[0].answer.as_ref().expect_err("nowhere");
    assert!(
        error.contains("does not tell where worker `w1` is"),
        "{error}"
    );
}

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: WorkFetchArgs,
}

#[test]
fn the_command_calls_a_shard_an_address_or_all_workers() {
    let read = |line: &[&str]| {
        let line = ["work-fetch"].iter().chain(line);
        let read = Line::try_parse_from(line).map_err(|error| {
            // A command line that is invalid by itself is refused before any call.
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        });
        read.map(|line| whom(&line.args))
    };
    assert_eq!(read(&[]), Ok(Whom::All));
    assert_eq!(read(&["w1"]), Ok(Whom::Shard("w1".to_owned())));
    assert_eq!(
        read(&["--worker", "h:1"]),
        Ok(Whom::Address(PeerAddr::new("h", 1)))
    );
    for (line, said) in [
        (&["--worker", "h"][..], "no worker address; write HOST:PORT"),
        (&["--worker", ""], "--worker <HOST:PORT>"),
        (&["--scheduler", "nan"], "no scheduler address; write"),
        (&[""], "[SHARD]"),
        (&["w1", "--worker", "h:1"], "cannot be used with"),
        (
            &["--worker", "h:1", "--scheduler", "s:1"],
            "cannot be used with",
        ),
        (&["w1", "w2"], "unexpected argument"),
    ] {
        let error = read(line).expect_err("it cannot be meant");
        assert!(error.contains(said), "{line:?}: {error}");
    }
}
