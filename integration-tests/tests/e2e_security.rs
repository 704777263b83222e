//! Tests who may call a scheduler and its workers: how a worker joins, what strangers get, and what each role may do. The programs are real;
//! two machines are two network namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::access::{self, Callers, Role, ShardLabel, Table};
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{
    Authority, Certified, Credential, KeyRequest, Lifetime, client_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{
    CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials, PeerAddr, THRIFT, Unknown,
};
use integration_tests::e2e::{
    Finished, Host, Network, Process, SchedulerSpec, Stage, WorkerSpec, python, wait_for,
    wait_within, warn_not_run,
};
use serde_json::Value;
use thrift::ApplicationErrorKind;
use thrift::protocol::{TInputProtocol, TOutputProtocol, TSerializable, TStructIdentifier, TType};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A text that travels in calls, reports and logs, and must be seen by nobody on the way.
const MARK: &str = "marked-to-be-seen-by-nobody";

/// Writes to a file all packets that a machine sends and receives.
const CAPTURE: &str = "
import socket, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
with open(sys.argv[1], 'wb', buffering=0) as file:
    print('captures', flush=True)
    while True:
        file.write(packets.recv(65536))
";

/// A scheduler that asks for proofs, on a machine of its own.
struct Secured {
    scheduler: Process,
    network: Network,
    stage: Stage,
    spec: SchedulerSpec,
}

impl Secured {
    /// Starts a scheduler with a job whose name has the mark, and another machine without anything. `None` where there are no namespaces.
    fn start(test: &str) -> Option<Self> {
        let network = match Network::new(2, 7) {
            Ok(network) => network,
            Err(why) => {
                warn_not_run(&format!("{test}, which needs namespaces"), &why);
                return None;
            }
        };
        let stage = Stage::new();
        let config = serde_json::json!({
            "bistro_settings": { "enabled": true, "nodes": { "levels": ["item"], "node_sources": [
                { "source": "manual", "prefs": { "one": [], "two": [] } }
            ] } },
            format!("bistro_job->{MARK}"): { "command": ["/bin/echo", MARK] },
        });
        let config = stage.write("config.json", &config.to_string());
        let mut spec = stage.calm_spec(&config);
        spec.address = network.address(network.host(0));
        let command = stage.scheduler_command(&spec);
        let scheduler = stage.start_on(&network, network.host(0), "scheduler", &command);
        let secured = Secured {
            scheduler,
            network,
            stage,
            spec,
        };
        wait_within(
            PATIENCE,
            "the scheduler to answer its administrator",
            || (secured.ask(&["status", "--json"]).code == Some(0)).then_some(()),
        );
        Some(secured)
    }

    fn head(&self) -> Host {
        self.network.host(0)
    }

    fn address(&self) -> String {
        format!("{}:{}", self.spec.address, self.spec.port)
    }

    /// Runs a command of the administrator on the scheduler's machine.
    fn ask(&self, arguments: &[&str]) -> Finished {
        let token = self.spec.data_dir.to_string_lossy().into_owned();
        self.ask_as(&token, arguments)
    }

    /// Runs a command with the token of this file on the scheduler's machine.
    fn ask_as(&self, token: &str, arguments: &[&str]) -> Finished {
        let address = self.address();
        let mut all = arguments.to_vec();
        all.extend(["--scheduler", &address, "--token-file", token]);
        let command = self.stage.brasserie_command(&all);
        self.stage
            .finish("brasserie", self.network.command_on(self.head(), &command))
    }

    /// Creates a token, and keeps it in a file as its holder would.
    fn token(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let mut all = vec!["token", "create"];
        all.extend(arguments);
        let created = self.ask(&all);
        assert_eq!(created.code, Some(0), "{}", created.output);
        let file = self.stage.write(name, &created.output);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        file
    }

    fn worker(&self, shard: &str, token: Option<&Path>) -> WorkerSpec {
        let mut spec = self.stage.worker_spec(shard, &self.spec);
        if let Some(token) = token {
            spec.flags
                .push(format!("--join-token=@{}", token.display()));
        }
        spec
    }

    /// Starts a worker on the other machine.
    fn start_worker(&self, spec: &WorkerSpec) -> Process {
        let command = self.stage.worker_command(spec);
        let name = format!("worker-{}", spec.shard);
        self.stage
            .start_on(&self.network, self.network.host(1), &name, &command)
    }

    fn status(&self) -> Value {
        let status = self.ask(&["status", "--json"]);
        serde_json::from_str(&status.output).unwrap_or_default()
    }

    fn wait_healthy(&self, shard: &str) {
        wait_within(PATIENCE, &format!("{shard} to be healthy"), || {
            let status = self.status();
            let mut workers = status["workers"].as_array()?.iter();
            workers
                .any(|w| w["shard"] == shard && w["state"] == "healthy")
                .then_some(())
        });
    }

    fn authority(&self) -> Authority {
        let folder = self.spec.data_dir.join("identity");
        let read = Authority::read(&folder).expect("an authority");
        read.expect("an authority")
    }
}

#[test]
fn a_worker_of_another_machine_joins_with_one_line_and_nothing_travels_in_plain_text() {
    let Some(secured) = Secured::start("joining") else {
        return;
    };
    let captured = secured.stage.path("packets");
    let mut capture = Command::new(python());
    capture.args(["-I", "-c", CAPTURE]).arg(&captured);
    let capture = secured.stage.start_on(
        &secured.network,
        secured.network.host(1),
        "capture",
        &capture,
    );
    capture.wait_for_output("captures");
    let token = secured.token("join", &["--role", "worker"]);
    let spec = secured.worker("w1", Some(&token));
    let worker = secured.start_worker(&spec);
    secured.wait_healthy("w1");
    wait_within(PATIENCE, "the job to be done", || {
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
    let again = secured.start_worker(&secured.worker("w1", None));
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
    let Some(secured) = Secured::start("refusals") else {
        return;
    };
    let refused = |shard: &str, token: &Path, why: &str| {
        let mut worker = secured.start_worker(&secured.worker(shard, Some(token)));
        let ended = worker.wait();
        assert_eq!(ended.code(), Some(3), "{}", worker.output());
        assert!(worker.output().contains(why), "{}", worker.output());
        wait_for("the scheduler to log the refusal", || {
            secured.scheduler.output().contains(why).then_some(())
        });
    };
    let once = secured.token("once", &["--role", "worker", "--shard", "w1"]);
    refused("w2", &once, "for the shard `w1` alone");
    let worker = secured.start_worker(&secured.worker("w1", Some(&once)));
    secured.wait_healthy("w1");
    // Another machine with the same token, and one with a new token for a shard that is taken.
    let mut copy = secured.worker("w1", Some(&once));
    copy.data_dir = secured.stage.path("copy");
    let mut second = secured.start_worker(&copy);
    assert_eq!(second.wait().code(), Some(3), "{}", second.output());
    assert!(
        second.output().contains("was used before"),
        "{}",
        second.output()
    );
    let thief = secured.token("thief", &["--role", "worker"]);
    copy.flags = secured.worker("w1", Some(&thief)).flags;
    let mut third = secured.start_worker(&copy);
    assert_eq!(third.wait().code(), Some(3), "{}", third.output());
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
        .write("wrong", &format!("brj1-{}-{secret}", "ab".repeat(32)));
    let mut stranger = secured.start_worker(&secured.worker("w4", Some(&wrong)));
    assert_eq!(stranger.wait().code(), Some(3), "{}", stranger.output());
    let output = stranger.output();
    assert!(output.contains("get a new token"), "{output}");
    drop((stranger, worker));
    assert!(!secured.scheduler.output().contains(&secret));
}

/// Arguments without any field, and any result.
#[derive(Debug)]
struct Nothing;

impl TSerializable for Nothing {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        input.skip(TType::Struct)?;
        Ok(Nothing)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("Nothing"))?;
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

/// A caller's side of TLS.
#[derive(Debug)]
struct Shown(Arc<rustls::ClientConfig>);

impl Credentials for Shown {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.0)
    }
}

fn pool(authority: &Authority, own: Option<&Credential>) -> ClientPool {
    let trusted = [authority.certificate().clone()];
    let tls = client_config(own, &trusted, THRIFT).expect("a configuration");
    ClientPool::new(ClientConfig {
        timeouts: CallTimeouts {
            connect: PATIENCE,
            send: PATIENCE,
            receive: PATIENCE,
        },
        credentials: Some(Arc::new(Shown(tls))),
        ..ClientConfig::default()
    })
}

fn label(shard: &str) -> ShardLabel {
    ShardLabel::of(&Shard::try_from(shard).expect("a shard"))
}

/// Returns a credential of a role, as the authority would issue it.
fn credential(authority: &Authority, role: Role, at: WallTime) -> Credential {
    let key = KeyRequest::create().expect("a key");
    let certified = Certified {
        cluster: authority.cluster().clone(),
        role,
        shard: (role == Role::Worker).then(|| label("w1")),
        token: None,
    };
    let chain = authority.certify(key.request(), &certified, at, Lifetime::WORKER);
    key.with_chain(chain.expect("a certificate"))
        .expect("its key")
}

/// Makes a call without arguments. Returns the refusal of a caller that may not make it.
async fn refusal(pool: &ClientPool, peer: &PeerAddr, call: &'static str) -> Option<String> {
    match pool.call::<_, Nothing>(peer, call, &Nothing).await {
        CallResult::Unknown(Unknown::Exception { kind, message }) => {
            let is_refused =
                kind == ApplicationErrorKind::Unknown && message.contains("not permitted");
            is_refused.then_some(message)
        }
        CallResult::Done(_) | CallResult::Unknown(_) => None,
        CallResult::NotSent(why) => panic!("{call}: {why}"),
    }
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
            let why = refusal(pool, peer, call).await;
            assert_eq!(
                why.is_none(),
                allowed.include(role),
                "{call} by {role:?}: {why:?}"
            );
        }
        let why = refusal(&callers[&None], plain, call).await;
        let is_open = allowed == Callers::Anyone;
        assert_eq!(why.is_none(), is_open, "{call} in plain text: {why:?}");
    }
}

/// Describes a worker that joins a scheduler on loopback with a new token.
fn joining(stage: &Stage, spec: &SchedulerSpec, shard: &str) -> WorkerSpec {
    let address = format!("127.0.0.1:{}", spec.port);
    let data_dir = spec.data_dir.to_string_lossy();
    let create = ["token", "create", "--role", "worker"];
    let at = ["--scheduler", &address, "--token-file", &data_dir];
    let token = stage.brasserie(&[create, at].concat());
    assert_eq!(token.code, Some(0), "{}", token.output);
    let token = stage.write("join", &token.output);
    let mut worker = stage.worker_spec(shard, spec);
    let token = format!("--join-token=@{}", token.display());
    worker
        .flags
        .extend([token, "--listen=127.0.0.1:0".to_owned()]);
    worker
}

#[test]
fn each_role_may_make_exactly_the_calls_of_the_table() {
    let Some(secured) = Secured::start("the matrix of roles") else {
        return;
    };
    drop(secured.network);
    // The same directory on loopback, where this test can call; an authority that exists stays.
    let mut scheduler = secured.scheduler;
    scheduler.kill_program();
    let mut spec = secured.spec;
    spec.address = std::net::Ipv4Addr::LOCALHOST;
    let scheduler = secured.stage.start_scheduler(&spec);
    let read = Authority::read(&spec.data_dir.join("identity"));
    let authority = read.expect("an authority").expect("an authority");
    scheduler.wait_for_output("the scheduler is up");
    let address = format!("127.0.0.1:{}", spec.port);
    let worker_spec = joining(&secured.stage, &spec, "w1");
    let worker = secured.stage.start_worker(&worker_spec);
    worker.wait_for_output("takes calls");
    let own = Credential::read(&worker_spec.data_dir.join("identity/worker.pem"));
    let own = own.expect("a certificate").expect("a certificate");
    let mut callers = BTreeMap::from([
        (None, pool(&authority, None)),
        (Some(Role::Worker), pool(&authority, Some(&own))),
    ]);
    use Role::{Admin, Operator, Scheduler, Submitter, Viewer};
    for role in [Scheduler, Admin, Operator, Submitter, Viewer] {
        let own = credential(&authority, role, Clock.wall());
        callers.insert(Some(role), pool(&authority, Some(&own)));
    }
    // The scheduler's first call tells the worker which certificates are revoked. Before it, the worker refuses everybody else.
    let status = ["status", "--json", "--scheduler", &address, "--token-file"];
    let data_dir = spec.data_dir.to_string_lossy().into_owned();
    wait_for("the worker to be healthy", || {
        let status = secured
            .stage
            .brasserie(&[&status[..], &[&data_dir]].concat());
        status.output.contains("\"healthy\"").then_some(())
    });
    let listens = address_in(&worker.output());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let plain = PeerAddr::from(address.parse::<SocketAddr>().expect("an address"));
        let peer = plain
            .clone()
            .proving(&authority.cluster().of_role(Role::Scheduler));
        check_matrix(access::SCHEDULER_CALLS, &peer, &plain, &callers).await;
        // An expired certificate may be renewed, and nothing else.
        let eight_days = 8 * 24 * 60 * 60 * 1000;
        let expired = credential(
            &authority,
            Role::Worker,
            WallTime(Clock.wall().0 - eight_days),
        );
        let lapsed = pool(&authority, Some(&expired));
        assert_eq!(refusal(&lapsed, &peer, "renewCertificate").await, None);
        let why = refusal(&lapsed, &peer, "processHeartbeat").await;
        assert!(why.is_some_and(|why| why.contains("has expired")));
        let plain = PeerAddr::from(listens);
        let peer = plain
            .clone()
            .proving(&authority.cluster().of_shard(&label("w1")));
        check_matrix(access::WORKER_CALLS, &peer, &plain, &callers).await;
    });
}

/// Returns the address at which a worker says that it takes calls.
fn address_in(log: &str) -> SocketAddr {
    let line = log
        .lines()
        .find(|line| line.contains("the worker takes calls"));
    let address = line.and_then(|line| line.split("address=").nth(1));
    let address = address.and_then(|rest| rest.split_whitespace().next());
    address.expect("an address").parse().expect("an address")
}

#[test]
fn what_is_revoked_is_closed_within_a_second_and_stays_out() {
    let Some(secured) = Secured::start("revocation") else {
        return;
    };
    let token = secured.token("join", &["--role", "worker"]);
    let worker = secured.start_worker(&secured.worker("w1", Some(&token)));
    secured.wait_healthy("w1");
    let revoked = secured.ask(&["worker", "revoke", "w1"]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.output);
    worker.wait_for_output("is revoked");
    // A token for people ends too, also for those who have used it.
    let viewer = secured.token("viewer", &["--role", "viewer"]);
    let viewer = viewer.to_string_lossy().into_owned();
    let seen = secured.ask_as(&viewer, &["status", "--json"]);
    assert_eq!(seen.code, Some(0), "{}", seen.output);
    let denied = secured.ask_as(&viewer, &["token", "list"]);
    assert!(
        denied.output.contains("not permitted to the role viewer"),
        "{}",
        denied.output
    );
    let listed = secured.ask(&["token", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.output).expect("JSON");
    let tokens = listed["tokens"].as_array().expect("tokens").iter();
    let mut number = tokens
        .filter(|token| token["role"] == "viewer")
        .map(|token| &token["number"]);
    let number = number
        .next_back()
        .and_then(Value::as_str)
        .expect("the viewer's")
        .to_owned();
    let ended = secured.ask(&["token", "revoke", &number]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let seen = secured.ask_as(&viewer, &["status", "--json"]);
    assert_eq!(seen.code, Some(1), "{}", seen.output);
    assert!(seen.output.contains("no such token"), "{}", seen.output);
    // A new token lets the worker join again, in an empty directory.
    drop(worker);
    let again = secured.token("again", &["--role", "worker"]);
    let mut spec = secured.worker("w1", Some(&again));
    spec.data_dir = secured.stage.path("another-directory");
    let worker = secured.start_worker(&spec);
    worker.wait_for_output("joined the cluster");
    let _ = secured.authority();
}
