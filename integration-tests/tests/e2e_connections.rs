//! Tests more connections than a server accepts, and many at a time: workers can still reconnect, and connected ones are not lost.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use brasserie_thrift::generated::brasserie::ClusterStatus;
use brasserie_thrift::generated::common::BistroInstanceID;
use integration_tests::e2e::{Client, Stage, TestAuthority, address_of, range_config};
use integration_tests::fake_worker::FakeFleet;
use integration_tests::hostile::Crowd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use serde_json::json;

/// A server's limit of connections (`Limits::max_connections`), and some more.
const CROWD: usize = 2048 + 200;
/// Limit for a worker to start and become healthy, on a busy machine. Idle connections formerly stayed for ten minutes.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_crowd_of_idle_connections_keeps_no_worker_away() {
    let _alone = alone();
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    // Default timeouts: a worker is unhealthy after a minute without heartbeats, longer than any delay of a busy machine.
    let spec = stage.default_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let stays = stage.start_worker(&stage.worker_spec("stays", &spec));
    let returns = stage.worker_spec("returns", &spec);
    let mut first_life = stage.start_worker(&returns);
    let client = Client::new(spec.port);
    let instance = |status: &brasserie_thrift::generated::brasserie::ClusterStatus, shard: &str| {
        let mut workers = status.workers.iter().flatten();
        let one = workers.find(|worker| worker.shard.as_deref() == Some(shard));
        one.and_then(|worker| worker.instance.clone())
    };
    let before = client.wait_healthy(2);

    let crowd = Crowd::at(spec.port, CROWD);
    first_life.kill_program();
    let restarted = Instant::now();
    let _second_life = stage.start_worker(&returns);
    let after = client.wait_until_within(SOON, "the restarted worker to be healthy", |status| {
        let is_healthy = |worker: &&brasserie_thrift::generated::brasserie::WorkerStatus| {
            worker
                .state
                .as_deref()
                .is_some_and(|state| state.eq_ignore_ascii_case("healthy"))
        };
        let healthy = status.workers.iter().flatten().filter(is_healthy).count();
        healthy == 2 && instance(status, "returns") != instance(&before, "returns")
    });
    println!(
        "healthy again after {:?}, while {} connections were opened",
        restarted.elapsed(),
        crowd.opened()
    );
    assert_eq!(
        instance(&after, "stays"),
        instance(&before, "stays"),
        "the other one did not notice"
    );
    client.wait_all_done();
    assert!(crowd.opened() >= CROWD as u64);
    drop(stays);
}

/// Strangers at each port of a cluster with an authority.
const STRANGERS: usize = 5000;
/// Time for which they are there: longer than a server waits for the end of a handshake.
const SIEGE: Duration = Duration::from_secs(8);
/// The longest time that an answer may take meanwhile, on a busy machine.
const ANSWERED: Duration = Duration::from_secs(10);
/// Workers that reconnect at the same time.
const FLEET: usize = 1000;

/// The tests of this file run one after the other, because each measures what one crowd does to a whole machine.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // Another test that has failed is no reason to fail.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Raises this process's limit of descriptors as far as it may, and returns how many connections it can hold for each of two ports.
fn room_for_strangers() -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("it may be raised to that");
    let each = usize::try_from(most).unwrap_or(usize::MAX) / 2;
    STRANGERS.min(each.saturating_sub(200))
}

fn instances(status: &ClusterStatus) -> BTreeMap<String, BistroInstanceID> {
    let workers = status.workers.iter().flatten();
    let instance = |worker: &brasserie_thrift::generated::brasserie::WorkerStatus| {
        Some((worker.shard.clone()?, worker.instance.clone()?))
    };
    workers.filter_map(instance).collect()
}

#[test]
fn thousands_of_strangers_before_the_end_of_a_handshake_delay_nobody() {
    let _alone = alone();
    let size = room_for_strangers();
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    stage.hold();
    let spec = stage.default_spec(&config);
    let authority = TestAuthority::give(&spec);
    let scheduler = stage.start_scheduler(&spec);
    let (one, two) = (
        stage.worker_spec("one", &spec),
        stage.worker_spec("two", &spec),
    );
    let (one, two) = (authority.admit(one), authority.admit(two));
    let stays = stage.start_worker(&one);
    let client = authority.client(spec.port);
    let before = client.wait_healthy(1);
    let crowds = [spec.port, address_of(&stays).port()].map(|port| Crowd::at_tls(port, size));
    // A newcomer joins in the middle of it.
    let _newcomer = stage.start_worker(&two);
    client.wait_healthy(2);
    let (address, began) = (format!("127.0.0.1:{}", spec.port), Instant::now());
    let token = spec.data_dir.to_string_lossy().into_owned();
    while began.elapsed() < SIEGE {
        let asked = Instant::now();
        let named = ["--scheduler", &address, "--token-file", &token];
        for (command, code, text) in [
            (&["status"][..], 0, "2 running"),
            // The worker itself says so.
            (&["worker", "work-fetch", "one"], 1, "takes what it is sent"),
        ] {
            let told = stage.brasserie(&[command, &named].concat());
            assert_eq!(told.code, Some(code), "{}", told.output);
            assert!(told.output.contains(text), "{}", told.output);
        }
        assert_eq!(spec.get_with_code("/health").0, 200);
        assert!(asked.elapsed() < ANSWERED, "{:?}", asked.elapsed());
    }
    stage.release();
    let after = client.wait_all_done();
    for crowd in &crowds {
        assert!(crowd.opened() > size as u64, "{} of {size}", crowd.opened());
    }
    assert_eq!(instances(&before)["one"], instances(&after)["one"]);
    assert!(!stays.output().contains("fail"), "{}", stays.output());
    assert!(
        !scheduler.output().contains("too many Thrift"),
        "{}",
        scheduler.output()
    );
}

#[test]
fn a_thousand_workers_with_certificates_stay_healthy_when_their_scheduler_restarts() {
    let _alone = alone();
    room_for_strangers();
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    let spec = stage.default_spec(&config);
    let authority = TestAuthority::give(&spec);
    let mut scheduler = stage.start_scheduler(&spec);
    let _fleet = FakeFleet::start(&authority, spec.port, FLEET);
    let client = authority.client(spec.port);
    let before = client.wait_healthy(FLEET);
    scheduler.kill_program();
    let restarted = Instant::now();
    let scheduler = stage.start_scheduler(&spec);
    let after = client.wait_healthy(FLEET);
    println!(
        "{FLEET} workers are healthy again after {:?}",
        restarted.elapsed()
    );
    assert_eq!(instances(&before), instances(&after));
    let output = scheduler.output();
    for trouble in ["unhealthy", "is lost", "too many Thrift"] {
        assert!(!output.contains(trouble), "{trouble}: {output}");
    }
}

/// Jobs whose list is an answer of some hundred KiB.
const JOBS: usize = 1000;
/// Calls of `getJobs` on each of some connections. The scheduler refuses most of them, because one caller has at most [`PLACES`].
const HEAVY: usize = 3000;
const FLOODS: usize = 5;
/// Calls of one caller that the scheduler lets wait or be at work (`MAX_PLACES` in `scheduler/src/turns.rs`).
const PLACES: usize = 256;
/// Connections whose calls are at work at the same time.
const AT_WORK: usize = 2;

/// Writes a configuration with many jobs that do not run.
fn write_jobs(stage: &Stage) -> PathBuf {
    let mut config = range_config(1, None);
    for number in 0..JOBS {
        config[format!("bistro_job->j{number:04}")] =
            json!({ "command": ["true"], "enabled": false });
    }
    stage.write("config.json", &config.to_string())
}

/// Sends many calls of `getJobs` over one connection, and reads no answer.
fn flood(port: u16, calls: usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the scheduler listens");
    let call = b"\0\0\0\x0c\x82\x21\x01\x07getJobs\0";
    stream.write_all(&call.repeat(calls)).expect("it reads");
    stream
}

/// Reads the answers to a flood of this many calls.
fn read_answers(mut stream: TcpStream, calls: usize) {
    stream.set_read_timeout(Some(SOON)).expect("an option");
    for _ in 0..calls {
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).expect("a whole answer");
        assert!(answer.len() > JOBS * 10, "{} bytes", answer.len());
    }
}

/// Returns the processor time of a process in ticks of the kernel, with that of threads that have ended.
fn processor_ticks(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the program runs");
    // The name is in brackets and may contain brackets and spaces. User and system time are the fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<u64>().expect("a number"));
    ticks.sum()
}

#[test]
fn heavy_calls_delay_neither_heartbeats_nor_others() {
    let _alone = alone();
    let stage = Stage::new();
    let spec = stage.default_spec(&write_jobs(&stage));
    let _scheduler = stage.start_scheduler(&spec);
    let worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    let before = worker.output().len();

    for closes in [false, true] {
        let floods: Vec<TcpStream> = (0..FLOODS).map(|_| flood(spec.port, HEAVY)).collect();
        let kept = (!closes).then_some(floods);
        let began = Instant::now();
        // Workers send a heartbeat each second here, and each is answered within its two seconds.
        while began.elapsed() < SIEGE {
            assert_eq!(spec.get_with_code("/health/live").0, 200);
            let status = client.wait_until_within(SOON, "an answer", |_| true);
            assert_eq!(status.workers.iter().flatten().count(), 1);
        }
        drop(kept);
    }
    client.wait_healthy(1);
    let output = worker.output();
    assert!(!output[before..].contains("fail"), "{output}");
}

#[test]
fn heavy_calls_end_with_their_connections() {
    let _alone = alone();
    let stage = Stage::new();
    let spec = stage.default_spec(&write_jobs(&stage));
    let scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("the jobs", |status| {
        status.jobs.iter().flatten().next().is_some()
    });
    let floods = || -> Vec<TcpStream> {
        let floods = (0..AT_WORK).map(|_| flood(spec.port, PLACES));
        floods.collect()
    };

    let before = processor_ticks(scheduler.id());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for stream in floods() {
            scope.spawn(move || read_answers(stream, PLACES));
        }
    });
    let took = began.elapsed();
    let all = processor_ticks(scheduler.id()) - before;

    // The same calls for as long, but nobody waits for their answers.
    let before = processor_ticks(scheduler.id());
    drop(floods());
    std::thread::sleep(took);
    let wasted = processor_ticks(scheduler.id()) - before;
    println!("{all} ticks for the answers within {took:?}, and {wasted} for nobody");
    assert!(wasted * 2 < all, "{wasted} ticks of {all} are for nobody");
}
