//! Tests who may call a scheduler and its workers: how a worker joins, what strangers get, and what each role may do. The programs are real;
//! two machines are two network namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::access::{self, Callers, Role, ShardLabel, Table};
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{Authority, Certified, Credential, KeyRequest, Lifetime, Token};
use brasserie_common_runtime::{Clock, DataDir};
use brasserie_thrift::generated::brasserie::{
    BrasserieJoinArgs, BrasserieJoinResult, BrasseriePutFileArgs, BrasseriePutFileResult,
    BrasserieRevokeTokenArgs, BrasserieRevokeTokenResult,
};
use brasserie_thrift::generated::common as wire;
use brasserie_thrift::rpc::{CallResult, ClientPool, PeerAddr};
use integration_tests::e2e::{
    Admission, Finished, HangingDisk, Impostor, Network, PATIENCE, Process, SchedulerSpec, Secured,
    SmallDisk, Stage, TestAuthority, WorkerSpec, address_of, certify, pool_through, python,
    token_in, try_call, wait_for, warn_not_run,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, HandshakeKind};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// A text that travels in calls, reports and logs, and must be seen by nobody on the way.
const MARK: &str = "marked-to-be-seen-by-nobody";
/// The longest time for which a connection may outlive the command that revokes it.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The calls of a flood: more than the threads of the runtime's blocking pool.
const FLOOD: usize = 1000;
/// The changes of one caller that a scheduler keeps in its queue.
const QUEUE: usize = 256;

/// Writes to a file all packets that a machine sends and receives.
const CAPTURE: &str = "
import socket, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
with open(sys.argv[1], 'wb', buffering=0) as file:
    print('captures', flush=True)
    while True:
        file.write(packets.recv(65536))
";

/// Runs a program on a terminal, whose output it copies.
const ON_A_TERMINAL: &str = "import pty, sys; pty.spawn(sys.argv[1:])";

fn config() -> Value {
    json!({
        "bistro_settings": { "enabled": true, "nodes": { "levels": ["item"], "node_sources": [
            { "source": "manual", "prefs": { "one": [], "two": [] } }
        ] } },
        format!("bistro_job->{MARK}"): { "command": ["/bin/echo", MARK] },
    })
}

fn two_machines(test: &str) -> Option<Network> {
    let network = Network::new(2, 7);
    network
        .inspect_err(|why| warn_not_run(&format!("{test}, which needs namespaces"), why))
        .ok()
}

/// Starts a scheduler with a job whose name has the mark, and another machine without anything. `None` where there are no namespaces.
fn networked(test: &str) -> Option<Secured> {
    let network = two_machines(test)?;
    Some(Secured::start_with(Stage::new(), &config(), Some(network)))
}

/// Starts a program on the other machine.
fn start_away(secured: &Secured, name: &str, command: &Command) -> Process {
    let network = secured.network.as_ref().expect("two machines");
    secured
        .stage
        .start_on(network, network.host(1), name, command)
}

/// Starts a worker on the other machine.
fn start_worker(secured: &Secured, spec: &WorkerSpec) -> Process {
    let name = format!("worker-{}", spec.shard);
    start_away(secured, &name, &secured.stage.worker_command(spec))
}

#[test]
fn a_worker_of_another_machine_joins_with_one_line_and_nothing_travels_in_plain_text() {
    let Some(secured) = networked("joining") else {
        return;
    };
    let captured = secured.stage.path("packets");
    let mut capture = Command::new(python());
    capture.args(["-I", "-c", CAPTURE]).arg(&captured);
    let capture = start_away(&secured, "capture", &capture);
    capture.wait_for_output("captures");
    let token = secured.token("join", &["--role", "worker"]);
    let spec = secured.worker("w1", Some(&token));
    let worker = start_worker(&secured, &spec);
    secured.wait_healthy("w1");
    wait_for("the job to be done", || {
        (secured.status()["jobs"][0]["done"] == 2).then_some(())
    });
    let logs = secured.ask(&["logs", MARK, "one"]);
    assert!(logs.output.contains(MARK), "{}", logs.output);
    drop(capture);
    let packets = fs::read(&captured).expect("the packets");
    let has = |text: &[u8]| packets.windows(text.len()).any(|part| part == text);
    assert!(packets.len() > 10_000, "{} bytes were seen", packets.len());
    let (digits, _) = secret_of(&token);
    for secret in [MARK, "processHeartbeat", "runTask", &digits] {
        assert!(!has(secret.as_bytes()), "{secret} travels in plain text");
    }
    // Its files are its own, and a restart needs no token.
    let file = spec.data_dir.join("identity/worker.pem");
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    drop(worker);
    let again = start_worker(&secured, &secured.worker("w1", None));
    secured.wait_healthy("w1");
    assert!(!again.output().contains("joined the cluster"));
}

/// Returns the last 64 digits of a token, its secret, and all before them.
fn secret_of(token: &Path) -> (String, String) {
    let text = fs::read_to_string(token).expect("a token");
    let (rest, secret) = text.trim().rsplit_once('-').expect("a token has parts");
    (secret.to_owned(), rest.to_owned())
}

#[test]
fn those_who_may_not_join_learn_why_on_both_sides() {
    let Some(secured) = networked("refusals") else {
        return;
    };
    let refused = |shard: &str, token: &Path, why: &str| {
        let mut worker = start_worker(&secured, &secured.worker(shard, Some(token)));
        let ended = worker.wait();
        assert_eq!(ended.code(), Some(4), "{}", worker.output());
        assert!(worker.output().contains(why), "{}", worker.output());
        wait_for("the scheduler to log the refusal", || {
            secured.scheduler.output().contains(why).then_some(())
        });
    };
    let once = secured.token("once", &["--role", "worker", "--shard", "w1"]);
    refused("w2", &once, "for the shard `w1` alone");
    let worker = start_worker(&secured, &secured.worker("w1", Some(&once)));
    secured.wait_healthy("w1");
    // Another machine with the same token, and one with a new token for a shard that is taken.
    let mut copy = secured.worker("w1", Some(&once));
    copy.data_dir = secured.stage.path("copy");
    let mut second = start_worker(&secured, &copy);
    assert_eq!(second.wait().code(), Some(4), "{}", second.output());
    assert!(
        second.output().contains("was used before"),
        "{}",
        second.output()
    );
    let thief = secured.token("thief", &["--role", "worker"]);
    copy.flags = secured.worker("w1", Some(&thief)).flags;
    let mut third = start_worker(&secured, &copy);
    assert_eq!(third.wait().code(), Some(4), "{}", third.output());
    assert!(
        third.output().contains("has a valid certificate"),
        "{}",
        third.output()
    );
    let brief = secured.token("brief", &["--role", "worker", "--ttl", "1s"]);
    let created = Instant::now();
    wait_for("the token to expire", || {
        (created.elapsed() > Duration::from_millis(1100)).then_some(())
    });
    refused("w3", &brief, "the token has expired");
    // A token whose authority is not the scheduler's: it is not sent at all, and the worker says what to do.
    let (secret, _) = secret_of(&thief);
    let wrong = secured
        .stage
        .write_secret("wrong", &format!("brj1-{}-{secret}", "ab".repeat(32)));
    let mut stranger = start_worker(&secured, &secured.worker("w4", Some(&wrong)));
    assert_eq!(stranger.wait().code(), Some(4), "{}", stranger.output());
    let output = stranger.output();
    assert!(output.contains("get a new token"), "{output}");
    wait_for("the scheduler to say why the caller has left", || {
        let log = secured.scheduler.output();
        log.contains("does not accept the authority of this scheduler")
            .then_some(())
    });
    drop((stranger, worker));
    assert!(!secured.scheduler.output().contains(&secret));
}

#[test]
fn a_man_in_the_middle_with_an_authority_of_his_own_learns_no_secret_and_is_noticed() {
    let secured = Secured::start();
    let now = Clock.wall();
    let foreign = Authority::create(now).expect("an authority");
    let own = credential(&foreign, Role::Scheduler, None, now);
    let impostor = Impostor::start(0, &foreign, &own);
    let address = impostor.address().to_string();
    let seen = |what: &str, count: usize| {
        wait_for(&format!("the handshake of {what} to fail"), || {
            (impostor.failures().len() > count).then_some(())
        });
        impostor.failures().len()
    };
    // A worker that joins.
    let token = secured.token("join", &["--role", "worker"]);
    let mut spec = secured.worker("w1", Some(&token));
    spec.scheduler = address.clone();
    let mut joins = secured.stage.start_worker(&spec);
    assert_eq!(joins.wait().code(), Some(4), "{}", joins.output());
    let output = joins.output();
    assert!(
        output.contains("somebody poses as the scheduler"),
        "{output}"
    );
    let count = seen("a worker that joins", 0);
    // A worker that has joined.
    let mut spec = secured.authority().admit(secured.worker("w2", None));
    spec.scheduler = address.clone();
    let member = secured.stage.start_worker(&spec);
    member.wait_for_output("has another authority than the certificate of this worker");
    let count = seen("a member", count);
    drop(member);
    // A person.
    let viewer = secured.token("viewer", &["--role", "viewer"]);
    let viewer_file = viewer.to_string_lossy();
    let asked = ["--scheduler", &address, "--token-file", &viewer_file];
    let asked = secured.stage.brasserie(&[&["status"], &asked[..]].concat());
    assert_eq!(asked.code, Some(1), "{}", asked.output);
    let told = "does not have the authority";
    assert!(asked.output.contains(told), "{}", asked.output);
    seen("a person", count);
    // Each of them has ended the handshake: nothing was sent inside TLS, and no secret before.
    assert_eq!(impostor.calls(), 0);
    for why in impostor.failures() {
        assert!(why.contains("UnknownCA"), "{why}");
    }
    // The scheduler refuses the man in the middle, too.
    let shown = credential(&foreign, Role::Worker, Some("w1"), now);
    let pool = secured.authority().pool(Some(&shown));
    let scheduler = secured.authority().scheduler(secured.spec.port);
    let runtime = Runtime::new().expect("a runtime");
    let answer = runtime.block_on(try_call(&pool, &scheduler, "join"));
    assert_eq!(answer, Admission::Closed);
    wait_for("the refusal in the log", || {
        let log = secured.scheduler.output();
        log.contains("somebody may pose as a worker").then_some(())
    });
}

/// Returns the first line of a text that has this beginning, without it.
fn line_with<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(begin))
}

#[test]
fn the_command_that_a_scheduler_prints_on_a_terminal_lets_a_worker_join() {
    let Some(network) = two_machines("the printed command") else {
        return;
    };
    let stage = Stage::new();
    let config = stage.write("config.json", &config().to_string());
    let mut spec = stage.calm_spec(&config);
    spec.address = network.address(network.host(0));
    let inner = stage.scheduler_command(&spec);
    let mut terminal = Command::new(python());
    terminal.args(["-I", "-c", ON_A_TERMINAL]);
    terminal.arg(inner.get_program()).args(inner.get_args());
    let scheduler = stage.start_on(&network, network.host(0), "scheduler", &terminal);
    let secured = Secured {
        scheduler,
        stage,
        spec,
        network: Some(network),
    };
    secured.scheduler.wait_for_output("For others:");
    let printed = secured.scheduler.output();
    let line = line_with(&printed, "brasserie-worker ").expect("a command");
    let token = line_with(&printed, "brj1-").expect("a token");
    let token = format!("brj1-{token}");
    let other = secured.token("other", &["--role", "worker"]);
    let other = fs::read_to_string(other).expect("a token");
    let program = secured.stage.worker_program();
    let program = program.get_program().to_string_lossy().into_owned();
    // The second worker has the token in its environment.
    for (shard, line, token, input) in [
        ("w1", line.to_owned(), "", token.as_str()),
        ("w2", line.replace(" --join-token -", ""), other.trim(), ""),
    ] {
        let directory = secured.stage.path(shard).to_string_lossy().into_owned();
        let line = line.replace("NAME", shard).replace("DIR", &directory);
        let mut shell = Command::new("sh");
        let text = format!("echo {input} | exec {program} {line} --heartbeat-period=1s");
        shell.args(["-c", &text]);
        if !token.is_empty() {
            shell.env("BRASSERIE_JOIN_TOKEN", token);
        }
        let worker = start_away(&secured, shard, &shell);
        worker.wait_for_output("joined the cluster");
        secured.wait_healthy(shard);
        drop(worker);
    }
}

#[test]
fn a_worker_without_a_token_stays_on_its_machine() {
    let stage = Stage::new();
    let spec = stage.default_spec(&stage.write_work(1, Duration::ZERO));
    let mut far = stage.worker_spec("w1", &spec);
    far.scheduler = "192.0.2.1:6789".to_owned();
    for (variable, why) in [
        (None, "--insecure-network"),
        (Some(""), "BRASSERIE_JOIN_TOKEN is set"),
        (Some(" "), "BRASSERIE_JOIN_TOKEN is set"),
    ] {
        let mut command = stage.worker_command(&far);
        if let Some(variable) = variable {
            command.env("BRASSERIE_JOIN_TOKEN", variable);
        }
        let refused = stage.finish("worker", command);
        assert_eq!(refused.code, Some(2), "{}", refused.output);
        assert!(refused.output.contains(why), "{}", refused.output);
    }
    // A list of addresses is checked again when it changes.
    let members = stage.write("members", "127.0.0.1:1\n");
    far.scheduler = format!("@{}", members.display());
    let worker = stage.start_worker(&far);
    worker.wait_for_output("the worker takes calls");
    stage.write("members", "192.0.2.1:6789\n");
    worker.wait_for_output("stay in use: --scheduler: 192.0.2.1:6789");
    // The worker of a run takes no token.
    let config = stage.write("run.json", &config().to_string());
    let directory = stage.path("run").to_string_lossy().into_owned();
    let config = config.to_string_lossy();
    let mut run = stage.brasserie_command(&["run", &config, "--data-dir", &directory]);
    run.env("BRASSERIE_JOIN_TOKEN", "brj1-of-another-cluster");
    let run = stage.finish("run", run);
    assert_eq!(run.code, Some(0), "{}", run.output);
}

#[test]
fn a_member_waits_for_a_route_to_its_scheduler() {
    let Some(network) = two_machines("a worker without a route") else {
        return;
    };
    let stage = Stage::new();
    let spec = stage.calm_spec(&stage.write("config.json", &config().to_string()));
    let authority = TestAuthority::give(&spec);
    let mut worker = authority.admit(stage.worker_spec("w1", &spec));
    worker.flags.retain(|flag| !flag.starts_with("--listen"));
    worker.scheduler = "203.0.113.1:6789".to_owned();
    let here = network.host(1);
    let started = stage.start_on(&network, here, "worker", &stage.worker_command(&worker));
    started.wait_for_output("cannot find the address of this machine");
    let mut route = Command::new("ip");
    route.args(["route", "add", "203.0.113.0/24", "dev", "wire1"]);
    let added = stage.finish("ip", network.command_on(here, &route));
    assert_eq!(added.code, Some(0), "{}", added.output);
    started.wait_for_output("the worker takes calls");
}

#[test]
fn files_with_tokens_that_others_may_read_are_refused() {
    let secured = Secured::start();
    let (viewer, join) = (
        secured.token("viewer", &["--role", "viewer"]),
        secured.token("join", &["--role", "worker"]),
    );
    for file in [&viewer, &join] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("its mode");
    }
    let refused = secured.ask_as(&viewer, &["status"]);
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    assert!(refused.output.contains("chmod 600"), "{}", refused.output);
    let mut worker = secured
        .stage
        .start_worker(&secured.worker("w1", Some(&join)));
    assert_eq!(worker.wait().code(), Some(3), "{}", worker.output());
    assert!(worker.output().contains("chmod 600"), "{}", worker.output());
}

#[test]
fn a_worker_that_has_lost_the_answer_in_a_crash_makes_the_same_request_again() {
    let secured = Secured::start();
    let token = secured.token("join", &["--role", "worker"]);
    let spec = secured.worker("w1", Some(&token));
    // The worker wrote this before it asked, and the scheduler has used the token for it.
    let folder = spec.data_dir.join("identity");
    fs::create_dir_all(&folder).expect("a folder");
    let key = KeyRequest::create().expect("a key");
    key.write(&folder.join("joining.pem")).expect("a new file");
    let text = fs::read_to_string(&token).expect("a token");
    let token = Token::from_text(&text).expect("a token");
    let authority = secured.authority();
    let arguments = BrasserieJoinArgs {
        secret: token.secret.reveal(),
        shard: "w1".to_owned(),
        request: key.request().to_vec(),
    };
    let pool = authority.pool(None);
    let scheduler = authority.scheduler(secured.spec.port);
    let called = Runtime::new().expect("a runtime").block_on(async {
        pool.call::<_, BrasserieJoinResult>(&scheduler, "join", &arguments)
            .await
    });
    let CallResult::Done(answer) = called else {
        panic!("{called:?}");
    };
    assert!(answer.result_value.is_some(), "{answer:?}");
    let worker = secured.stage.start_worker(&spec);
    secured.wait_healthy("w1");
    assert!(worker.output().contains("joined the cluster"));
    assert!(!folder.join("joining.pem").exists());
}

#[test]
fn a_task_sees_no_token() {
    let mut config = config();
    config[format!("bistro_job->{MARK}")]["command"] = json!(["/bin/sh", "-c", "env"]);
    let secured = Secured::start_with(Stage::new(), &config, None);
    let token = secured.token("join", &["--role", "worker"]);
    let token = fs::read_to_string(token).expect("a token");
    let mut spec = secured.worker("w1", None);
    spec.flags.push("--pass-environment=*".to_owned());
    let mut worker = secured.stage.worker_command(&spec);
    worker.env("BRASSERIE_JOIN_TOKEN", token.trim());
    worker
        .env("BRASSERIE_TOKEN", "of-a-person")
        .env("KNOWN", "yes");
    let _worker = secured.stage.start("worker", worker);
    wait_for("the job to be done", || {
        (secured.status()["jobs"][0]["done"] == 2).then_some(())
    });
    let logs = secured.ask(&["logs", MARK, "one"]);
    assert!(logs.output.contains("KNOWN=yes"), "{}", logs.output);
    for secret in ["BRASSERIE_JOIN_TOKEN", "BRASSERIE_TOKEN", "of-a-person"] {
        assert!(!logs.output.contains(secret), "{}", logs.output);
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused_and_audited() {
    let secured = Secured::start();
    let authority = secured.authority();
    let foreign = Authority::create(Clock.wall()).expect("an authority");
    let foreign = credential(&foreign, Role::Admin, None, Clock.wall());
    let pool = authority.pool(Some(&foreign));
    let scheduler = authority.scheduler(secured.spec.port);
    let runtime = Runtime::new().expect("a runtime");
    let answer = runtime.block_on(try_call(&pool, &scheduler, "getStatus"));
    assert_eq!(answer, Admission::Closed);
    let why = "UnknownIssuer";
    wait_for("the refusal in the log", || {
        let log = secured.scheduler.output();
        let mut lines = log.lines();
        lines
            .any(|line| line.contains("no handshake of TLS") && line.contains(why))
            .then_some(())
    });
    wait_for("the refusal in the audit log", || {
        let lines = secured.lines(&["--refused", "--what", "handshake"]);
        lines
            .iter()
            .any(|line| line.to_string().contains(why))
            .then_some(())
    });
}

/// Returns a credential of a role, as the authority would issue it.
fn credential(authority: &Authority, role: Role, shard: Option<&str>, at: WallTime) -> Credential {
    let key = KeyRequest::create().expect("a key");
    let shard = shard.map(|shard| ShardLabel::of(&Shard::try_from(shard).expect("a shard")));
    let certified = Certified {
        trust_domain: authority.trust_domain().clone(),
        role,
        shard,
        token: None,
    };
    let chain = authority.certify(key.request(), &certified, at, Lifetime::WORKER);
    key.with_chain(chain.expect("a certificate"))
        .expect("its key")
}

/// Checks all rows of a table for all callers on one port.
async fn check_matrix(
    table: &'static Table,
    peer: &PeerAddr,
    plain: &PeerAddr,
    callers: &BTreeMap<Option<Role>, ClientPool>,
) {
    for &(call, allowed) in table {
        for (&role, pool) in callers {
            let answer = try_call(pool, peer, call).await;
            let by = format!("{call} by {role:?}: {answer:?}");
            match allowed.include(role) {
                true => assert_eq!(answer, Admission::Served, "{by}"),
                false => assert!(matches!(answer, Admission::Refused(_)), "{by}"),
            }
        }
        let answer = try_call(&callers[&None], plain, call).await;
        let in_plain_text = format!("{call} in plain text: {answer:?}");
        match allowed {
            Callers::Anyone => assert_ne!(answer, Admission::Closed, "{in_plain_text}"),
            Callers::AnyoneInPrivate | Callers::Only(_) => {
                assert!(matches!(answer, Admission::Refused(_)), "{in_plain_text}");
            }
        }
    }
}

/// Returns the callers that show a certificate of their own or none.
fn machines(authority: &TestAuthority, worker: &Path) -> BTreeMap<Option<Role>, ClientPool> {
    let own = Credential::read(&worker.join("worker.pem"));
    let own = own.expect("a certificate").expect("a certificate");
    let now = Clock.wall();
    let scheduler = credential(authority.authority(), Role::Scheduler, None, now);
    let eight_days_ago = WallTime(now.0 - 8 * 24 * 60 * 60 * 1000);
    let expired = credential(
        authority.authority(),
        Role::Worker,
        Some("away"),
        eight_days_ago,
    );
    BTreeMap::from([
        (None, authority.pool(None)),
        (Some(Role::Worker), authority.pool(Some(&own))),
        (Some(Role::Scheduler), authority.pool(Some(&scheduler))),
        (Some(Role::Lapsed), authority.pool(Some(&expired))),
    ])
}

#[test]
fn each_role_may_make_exactly_the_calls_of_the_table() {
    let secured = Secured::start();
    let authority = secured.authority();
    let (worker, folder) = secured.join("w1");
    let mut callers = machines(&authority, &folder);
    let mut of_worker = machines(&authority, &folder);
    let scheduler = authority.scheduler(secured.spec.port);
    let runtime = Runtime::new().expect("a runtime");
    for role in [Role::Admin, Role::Operator, Role::Submitter, Role::Viewer] {
        let mut terms = vec!["--role", role.name()];
        if role == Role::Submitter {
            terms.extend(["--owner", "ana"]);
        }
        let token = secured.token(role.name(), &terms);
        let pool = authority.pool_with(&fs::read_to_string(token).expect("a token"));
        // Workers know no tokens.
        let own = runtime.block_on(certify(&pool, &scheduler));
        of_worker.insert(Some(role), authority.pool(Some(&own)));
        callers.insert(Some(role), pool);
    }
    assert_eq!(callers.len(), Role::ALL.len() + 1);
    let at = |address: SocketAddr| PeerAddr::from(address);
    runtime.block_on(async {
        let here = at(([127, 0, 0, 1], secured.spec.port).into());
        check_matrix(access::SCHEDULER_CALLS, &scheduler, &here, &callers).await;
        let answer = try_call(&callers[&Some(Role::Lapsed)], &scheduler, "getJobs").await;
        let Admission::Refused(why) = answer else {
            panic!("{answer:?}");
        };
        assert!(why.contains("has expired"), "{why}");
        // The certificate of a user of the local socket is for workers only.
        let tokenless = credential(authority.authority(), Role::Admin, None, Clock.wall());
        let tokenless = authority.pool(Some(&tokenless));
        let answer = try_call(&tokenless, &scheduler, "getJobs").await;
        let Admission::Refused(why) = answer else {
            panic!("{answer:?}");
        };
        assert!(why.contains("goes back to no token"), "{why}");
        let port = address_of(&worker).port();
        let (here, peer) = (
            at(([127, 0, 0, 1], port).into()),
            authority.worker_at_port(port),
        );
        check_matrix(access::WORKER_CALLS, &peer, &here, &of_worker).await;
    });
}

/// Opens a connection by a call that is served, revokes its right, and checks that it ends at once and no other call is served.
fn check_revocation(
    (pool, peer): (&ClientPool, &PeerAddr),
    call: &'static str,
    (secured, command): (&Secured, &[&str]),
    why: &str,
) {
    let runtime = Runtime::new().expect("a runtime");
    let mut losses = runtime.block_on(async {
        let served = try_call(pool, peer, call).await;
        assert_eq!(served, Admission::Served);
        pool.losses(peer)
    });
    let revoked = secured.ask(command);
    let returned = Instant::now();
    assert_eq!(revoked.code, Some(0), "{}", revoked.output);
    runtime.block_on(async {
        let closed = tokio::time::timeout(AT_ONCE, losses.next()).await;
        assert!(closed.is_ok(), "open after {:?}", returned.elapsed());
        let answer = try_call(pool, peer, call).await;
        let Admission::Refused(said) = answer else {
            panic!("{answer:?}");
        };
        assert!(said.contains(why), "{said}");
    });
}

#[test]
fn what_is_revoked_is_closed_within_a_second_and_stays_out() {
    let secured = Secured::start();
    let authority = secured.authority();
    let scheduler = authority.scheduler(secured.spec.port);
    let (worker, folder) = secured.join("w1");
    let own = Credential::read(&folder.join("worker.pem"));
    let own = own.expect("a certificate").expect("a certificate");
    let pool = authority.pool(Some(&own));
    check_revocation(
        (&pool, &scheduler),
        "processHeartbeat",
        (&secured, &["worker", "revoke", "w1"]),
        "is revoked",
    );
    worker.wait_for_output("is revoked");
    // A token for people ends too, also for those who have used it.
    let viewer = secured.token("viewer", &["--role", "viewer"]);
    secured.refused(
        &viewer,
        &["token", "list"],
        "not permitted to the role viewer",
    );
    let text = fs::read_to_string(&viewer).expect("a token");
    let number = Token::from_text(&text).expect("a token").secret.number();
    check_revocation(
        (&authority.pool_with(&text), &scheduler),
        "getJobs",
        (&secured, &["token", "revoke", &number.to_string()]),
        "no such token",
    );
    secured.refused(&viewer, &["status"], "no such token");
    // A new token lets the worker join again, in an empty directory.
    drop(worker);
    let again = secured.token("again", &["--role", "worker"]);
    let mut spec = secured.worker("w1", Some(&again));
    spec.data_dir = secured.stage.path("another-directory");
    let worker = secured.stage.start_worker(&spec);
    worker.wait_for_output("joined the cluster");
}

/// Kills the scheduler once its data directory is marked as used.
fn kill_used(secured: &mut Secured) {
    let marker = secured.spec.data_dir.join("used.json");
    wait_for("the mark of a used directory", || {
        marker.exists().then_some(())
    });
    secured.scheduler.kill_program();
}

/// Starts a scheduler that must refuse its data directory, and returns its output.
fn refused_start(secured: &Secured, spec: &SchedulerSpec) -> String {
    let mut refused = secured.stage.start_scheduler(spec);
    assert_eq!(refused.wait().code(), Some(1), "{}", refused.output());
    let output = refused.output();
    // The output may break lines.
    output.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_data_directory_that_has_lost_its_tokens_or_its_authority_is_no_new_one() {
    let mut secured = Secured::start();
    let known = secured.spec.clone().with("--after-restoring-a-backup");
    let mut local = secured.spec.clone();
    local.address = Ipv4Addr::LOCALHOST;
    let identity = secured.spec.data_dir.join("identity");
    let first = secured.authority().authority().trust_domain().clone();
    for lost in ["tokens.json", ""] {
        kill_used(&mut secured);
        let path = identity.join(lost);
        match lost {
            "" => fs::remove_dir_all(&path).expect("a folder"),
            _ => fs::remove_file(&path).expect("a file"),
        }
        for spec in [&secured.spec, &local] {
            let why = refused_start(&secured, spec);
            assert!(why.contains("--after-restoring-a-backup"), "{why}");
            assert!(
                why.contains("from a backup of this data directory"),
                "{why}"
            );
        }
        secured.scheduler = secured.stage.start_scheduler(&known);
        secured.wait_up();
        let log = secured.scheduler.output();
        assert!(
            log.contains("of this cluster") && log.contains("lost"),
            "{log}"
        );
        wait_for("the line of the loss", || {
            let lines = secured.lines(&[]);
            let mut lines = lines.iter().rev();
            lines
                .find(|line| line["what"] == "identityLost")
                .map(|_| ())
        });
        let kept = *secured.authority().authority().trust_domain() == first;
        assert_eq!(kept, !lost.is_empty(), "tokens alone are no cluster");
        // The statement is for one start.
        kill_used(&mut secured);
        secured.scheduler = secured.stage.start_scheduler(&secured.spec);
        secured.wait_up();
    }
}

#[test]
fn after_the_loss_of_the_tokens_a_worker_is_revoked_before_it_shows_its_certificate() {
    let mut secured = Secured::start();
    let name = "node7.example.com";
    let (mut worker, _) = secured.join(name);
    worker.kill_with_keeper();
    kill_used(&mut secured);
    let tokens = secured.spec.data_dir.join("identity/tokens.json");
    fs::remove_file(tokens).expect("a file");
    let known = secured.spec.clone().with("--after-restoring-a-backup");
    secured.scheduler = secured.stage.start_scheduler(&known);
    secured.wait_up();
    let done = secured.asked(&["worker", "revoke", name]);
    assert!(
        done.contains(&format!("knows no worker `{name}`")),
        "{done}"
    );
    let done = secured.asked(&["worker", "revoke", "node8", "--json"]);
    let done: Value = serde_json::from_str(&done).expect("JSON");
    assert_eq!(done, json!({ "revoked": "node8", "known": false }));
    let mut spec = secured.worker(name, None);
    let mut worker = secured.stage.start_worker(&spec);
    worker.wait_for_output("join again with a new token");
    wait_for("the lines of the refusals", || {
        let lines = secured.lines(&["--who", name, "--refused"]);
        lines.first().map(|line| assert_eq!(line["shard"], name))
    });
    worker.kill_with_keeper();
    drop(worker);
    for shard in [name, "node8"] {
        let token = secured.token(shard, &["--role", "worker"]);
        spec = secured.worker(shard, Some(&token));
        let _worker = secured.stage.start_worker(&spec);
        secured.wait_healthy(shard);
    }
    let done = secured.asked(&["worker", "revoke", name]);
    assert!(done.contains("its tasks run elsewhere"), "{done}");
}

#[test]
fn files_of_an_identity_that_are_not_the_schedulers_own_are_refused() {
    let mut secured = Secured::start();
    kill_used(&mut secured);
    let identity = secured.spec.data_dir.join("identity");
    let damage = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(&identity);
        let done = secured.stage.finish("sh", shell);
        assert_eq!(done.code, Some(0), "{}", done.output);
    };
    for (script, command) in [
        ("chmod 666 tokens.json", "chmod 600 "),
        ("chmod 644 admin.token", "chmod 600 "),
        ("chmod 666 authority.pem", "chmod go-w "),
        (
            "mv tokens.json other; ln -s other tokens.json",
            "cp -p --remove-destination ",
        ),
        ("rm tokens.json; mkfifo tokens.json", "rm -r "),
        ("rm tokens.json; mkdir tokens.json", "rm -r "),
    ] {
        damage(&format!("cp -a . ../kept; {script}"));
        let why = refused_start(&secured, &secured.spec);
        assert!(why.contains(command), "{script}: {why}");
        damage("rm -rf ./*; mv ../kept/* .; rmdir ../kept");
    }
    secured.scheduler = secured.stage.start_scheduler(&secured.spec);
    secured.wait_up();
}

/// A scheduler whose identity is on a small disk, which only its machine sees.
struct OnSmallDisk {
    stage: Stage,
    spec: SchedulerSpec,
    disk: SmallDisk,
}

impl OnSmallDisk {
    /// Returns `None` where no disk can be mounted.
    fn new(test: &str) -> Option<Self> {
        let stage = Stage::new();
        let config = stage.write("config.json", &config().to_string());
        let mut spec = stage.calm_spec(&config);
        spec.address = Ipv4Addr::UNSPECIFIED;
        drop(DataDir::open(&spec.data_dir).expect("a new directory"));
        let disk = SmallDisk::new(&spec.data_dir.join("identity"), 64);
        let disk = disk.inspect_err(|why| warn_not_run(test, why)).ok()?;
        Some(OnSmallDisk { stage, spec, disk })
    }

    fn start(&self) -> Process {
        let command = self.stage.scheduler_command(&self.spec);
        let scheduler = self.stage.start("scheduler", self.disk.command(&command));
        wait_for("the scheduler", || {
            (self.ask(&["status"]).code == Some(0)).then_some(())
        });
        scheduler
    }

    /// Runs a command of the administrator, over the local socket.
    fn ask(&self, arguments: &[&str]) -> Finished {
        let socket = format!("unix:{}", self.spec.data_dir.join("control.sock").display());
        let command = [arguments, &["--scheduler", &socket]].concat();
        let command = self.disk.command(&self.stage.brasserie_command(&command));
        self.stage.finish("brasserie", command)
    }

    fn token(&self, role: &str) -> PathBuf {
        let created = self.ask(&["token", "create", "--role", role]);
        assert_eq!(created.code, Some(0), "{}", created.output);
        self.stage.write_secret(role, token_in(&created.output))
    }

    /// Asks for the status with the token in a file.
    fn status_with(&self, token: &Path) -> Finished {
        let address = format!("127.0.0.1:{}", self.spec.port);
        let token = token.to_string_lossy();
        self.stage
            .brasserie(&["status", "--scheduler", &address, "--token-file", &token])
    }

    fn has_problem(&self) -> bool {
        let status = self.ask(&["status", "--json"]).output;
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let errors = status["errors"].to_string();
        errors.contains("revocations are in effect, but not on disk")
    }
}

#[test]
fn revocations_have_effect_while_the_disk_is_full_and_are_kept_once_it_is_not() {
    let test = "revocations_have_effect_while_the_disk_is_full_and_are_kept_once_it_is_not";
    let Some(cluster) = OnSmallDisk::new(test) else {
        return;
    };
    let mut scheduler = cluster.start();
    let (viewer, join) = (cluster.token("viewer"), cluster.token("worker"));
    let mut worker = cluster.stage.worker_spec("w1", &cluster.spec);
    worker.scheduler = format!("127.0.0.1:{}", cluster.spec.port);
    worker
        .flags
        .push(format!("--join-token=@{}", join.display()));
    worker.flags.push("--listen=127.0.0.1:0".to_owned());
    let worker = cluster.stage.start_worker(&worker);
    worker.wait_for_output("joined the cluster");
    assert_eq!(cluster.status_with(&viewer).code, Some(0));
    let text = fs::read_to_string(&viewer).expect("a token");
    let number = Token::from_text(&text).expect("a token").secret.number();
    cluster.disk.fill();
    for command in [
        ["token", "revoke", &number.to_string()],
        ["worker", "revoke", "w1"],
    ] {
        let done = cluster.ask(&command);
        assert_eq!(done.code, Some(1), "{}", done.output);
        let text = done.output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("it is in effect, but not on disk"), "{text}");
    }
    worker.wait_for_output("is revoked");
    let refused = cluster.status_with(&viewer);
    assert!(
        refused.output.contains("no such token"),
        "{}",
        refused.output
    );
    assert!(cluster.has_problem());
    let created = cluster.ask(&["token", "create", "--role", "viewer"]);
    assert_eq!(
        created.code,
        Some(1),
        "the disk is full: {}",
        created.output
    );
    cluster.disk.free();
    wait_for("the revocations to be written", || {
        (!cluster.has_problem()).then_some(())
    });
    scheduler.kill_program();
    let _again = cluster.start();
    let refused = cluster.status_with(&viewer);
    assert!(
        refused.output.contains("no such token"),
        "{}",
        refused.output
    );
}

/// Uploads a content of three bytes under this name.
async fn put(
    pool: &ClientPool,
    scheduler: &PeerAddr,
    name: &str,
) -> CallResult<BrasseriePutFileResult> {
    let content = b"abc";
    let artifact = wire::Artifact {
        id: Some(Sha256::digest(content).to_vec()),
        size: Some(3),
        form: Some("file".to_owned()),
    };
    let call = BrasseriePutFileArgs {
        name: name.to_owned(),
        artifact,
        upload: 0,
        offset: 0,
        bytes: content.to_vec(),
    };
    pool.call(scheduler, "putFile", &call).await
}

/// Returns whether the file has its name.
fn is_named(put: &CallResult<BrasseriePutFileResult>) -> bool {
    match put {
        CallResult::Done(done) => done
            .result_value
            .as_ref()
            .is_some_and(|it| it.done == Some(true)),
        CallResult::NotSent(_) | CallResult::Unknown(_) => false,
    }
}

/// Starts a scheduler whose names of files are on a disk that can hang.
fn with_hanging_names() -> (Secured, HangingDisk) {
    let stage = Stage::new();
    let config = stage.write("config.json", &Secured::config().to_string());
    let mut spec = stage.calm_spec(&config);
    spec.address = Ipv4Addr::UNSPECIFIED;
    let disk = HangingDisk::new(&stage.path("disk"));
    let mut command = stage.scheduler_command(&spec);
    disk.holds(&spec.data_dir.join(".files.json"), &mut command);
    let scheduler = stage.start("scheduler", command);
    let secured = Secured {
        scheduler,
        stage,
        spec,
        network: None,
    };
    secured.wait_up();
    (secured, disk)
}

#[test]
fn a_flood_of_changes_neither_delays_the_revocation_of_its_token_nor_acts_after_it() {
    let (secured, disk) = with_hanging_names();
    let authority = secured.authority();
    let scheduler = authority.scheduler(secured.spec.port);
    let holder = |name: &str, role: &str| {
        let file = secured.token(name, &["--role", role, "--owner", name]);
        fs::read_to_string(file).expect("a token")
    };
    let (stolen, honest) = (holder("ana", "submitter"), holder("bob", "submitter"));
    let number = Token::from_text(&stolen).expect("a token").secret.number();
    let administrator = fs::read_to_string(secured.token("admin", &["--role", "admin"]));
    let administrator = authority.pool_with(&administrator.expect("a token"));
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let thief = Arc::new(authority.pool_with(&stolen));
        assert!(is_named(&put(&thief, &scheduler, "known").await));
        let served = try_call(&administrator, &scheduler, "listTokens").await;
        assert_eq!(served, Admission::Served);
        let mut losses = thief.losses(&scheduler);
        disk.hang();
        let mut flood = JoinSet::new();
        for number in 0..FLOOD {
            let (thief, scheduler) = (Arc::clone(&thief), scheduler.clone());
            flood.spawn(async move { put(&thief, &scheduler, &format!("late-{number}")).await });
        }
        // The scheduler has read them all once it has refused those beyond its queue.
        for _ in 0..FLOOD - QUEUE {
            let refused = flood.join_next().await.expect("a call").expect("its end");
            let text = format!("{refused:?}");
            assert!(text.contains("too many calls are in progress"), "{text}");
        }
        let began = Instant::now();
        let number = number.to_string();
        let revoke = BrasserieRevokeTokenArgs { number };
        let revoked: CallResult<BrasserieRevokeTokenResult> =
            administrator.call(&scheduler, "revokeToken", &revoke).await;
        assert!(
            matches!(&revoked, CallResult::Done(done) if done.ex.is_none()),
            "{revoked:?}"
        );
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        let closed = tokio::time::timeout(AT_ONCE, losses.next()).await;
        assert!(closed.is_ok(), "open after {:?}", began.elapsed());
        disk.recover();
        let honest = authority.pool_with(&honest);
        for name in ["one", "two", "three"] {
            assert!(is_named(&put(&honest, &scheduler, name).await));
        }
    });
    let listed = secured.must(&secured.spec.data_dir, &["artifact", "list", "--json"]);
    assert!(
        listed.contains("known") && listed.contains("three"),
        "{listed}"
    );
    // The one whose write the disk had begun takes effect.
    assert!(listed.matches("late-").count() <= 1, "{listed}");
}

#[test]
fn a_revoked_worker_fetches_nothing_from_others_on_open_new_and_resumed_connections() {
    let secured = Secured::start();
    let authority = secured.authority();
    let (_revoked, folder) = secured.join("w1");
    let (other, _) = secured.join("w2");
    let own = Credential::read(&folder.join("worker.pem"));
    let own = own.expect("a certificate").expect("a certificate");
    let peer = authority.worker_at_port(address_of(&other).port());
    let tls = authority.tls(Some(&own));
    let (pool, fresh) = (pool_through(&tls), authority.pool(Some(&own)));
    let runtime = Runtime::new().expect("a runtime");
    let ask = |pool: &ClientPool| runtime.block_on(try_call(pool, &peer, "fetchArtifacts"));
    wait_for("the other worker to know the revocations", || {
        (ask(&pool) == Admission::Served).then_some(())
    });
    assert_eq!(handshake(&tls, &peer), Some(HandshakeKind::Resumed));
    let mut losses = runtime.block_on(async { pool.losses(&peer) });
    secured.asked(&["worker", "revoke", "w1"]);
    let lost = async { tokio::time::timeout(PATIENCE, losses.next()).await };
    assert!(runtime.block_on(lost).is_ok(), "the connection is open");
    for pool in [&pool, &fresh] {
        let Admission::Refused(why) = ask(pool) else {
            panic!("a revoked worker is served");
        };
        assert!(why.contains("its certificate is revoked"), "{why}");
    }
    // TLS itself resumes the session, so that the refusal is of the one who has shown the certificate.
    assert_eq!(handshake(&tls, &peer), Some(HandshakeKind::Resumed));
}

/// Opens a connection, and returns how its session of TLS began.
fn handshake(tls: &Arc<rustls::ClientConfig>, peer: &PeerAddr) -> Option<HandshakeKind> {
    let name = ServerName::try_from(peer.name().expect("a name").to_owned());
    let name = name.expect("a name of DNS");
    let mut opened = ClientConnection::new(Arc::clone(tls), name).expect("good settings");
    let mut stream = TcpStream::connect(peer.as_str()).expect("it listens");
    while opened.is_handshaking() {
        opened.complete_io(&mut stream).expect("a handshake");
    }
    opened.handshake_kind()
}

#[test]
fn a_revoked_worker_joins_again_with_a_new_token_and_not_with_the_one_that_it_has_used() {
    let secured = Secured::start();
    let used = secured.token("used", &["--role", "worker", "--uses", "9"]);
    let mut spec = secured.worker("w1", Some(&used));
    let mut worker = secured.stage.start_worker(&spec);
    secured.wait_healthy("w1");
    secured.asked(&["worker", "revoke", "w1"]);
    worker.wait_for_output("join again with a new token");
    worker.wait_for_output("goes on asking");
    assert!(worker.ended().is_none(), "{}", worker.output());
    worker.kill_with_keeper();
    let mut again = secured.stage.start_worker(&spec);
    assert_eq!(again.wait().code(), Some(4), "{}", again.output());
    let why = "has joined with this token before";
    assert!(again.output().contains(why), "{}", again.output());
    drop(again);
    let token = secured.token("new", &["--role", "worker"]);
    spec.flags = secured.worker("w1", Some(&token)).flags;
    let mut worker = secured.stage.start_worker(&spec);
    worker.wait_for_output("joined the cluster");
    secured.wait_healthy("w1");
    worker.kill_with_keeper();
    drop(worker);
    // A valid certificate needs no token, also if the file of the token is gone.
    fs::remove_file(&token).expect("it is there");
    let worker = secured.stage.start_worker(&spec);
    secured.wait_healthy("w1");
    assert!(!worker.output().contains("joined the cluster"));
}

#[test]
fn a_worker_that_cannot_join_because_there_is_no_authority_ends_with_the_remedy() {
    let stage = Stage::new();
    let spec = stage.calm_spec(&stage.write_work(1, Duration::ZERO));
    let text = format!("brj1-{}-{}", "ab".repeat(32), "cd".repeat(32));
    let token = stage.write_secret("token", &text);
    let mut worker = stage.worker_spec("w1", &spec);
    worker
        .flags
        .push(format!("--join-token=@{}", token.display()));
    // It waits for a scheduler that is not up yet.
    let mut worker = stage.start_worker(&worker);
    worker.wait_for_output("cannot join yet, trying again");
    assert!(worker.ended().is_none(), "{}", worker.output());
    let scheduler = stage.start_scheduler(&spec);
    assert_eq!(worker.wait().code(), Some(4), "{}", worker.output());
    let output = worker.output();
    assert!(output.contains("has no authority"), "{output}");
    assert!(output.contains("remove --join-token"), "{output}");
    let secret = "cd".repeat(32);
    assert!(!scheduler.output().contains(&secret));
}

#[test]
fn a_worker_whose_certificate_can_no_longer_be_renewed_joins_again_with_its_token() {
    let secured = Secured::start();
    let token = secured.token("join", &["--role", "worker"]);
    let spec = secured.worker("w1", Some(&token));
    let forty_days = 40 * 24 * 60 * 60 * 1000;
    let long_ago = WallTime(Clock.wall().0 - forty_days);
    let spec = secured.authority().admit_at(spec, long_ago);
    let worker = secured.stage.start_worker(&spec);
    worker.wait_for_output("expired more than 30 days ago");
    worker.wait_for_output("joined the cluster");
    secured.wait_healthy("w1");
}
