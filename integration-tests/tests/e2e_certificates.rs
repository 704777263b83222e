//! Tests certificates over time: their revocation, their renewal, and the replacement of the authority while tasks run. The programs are
//! real.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::access::{Role, TokenNumber};
use brasserie_common_identity::{Credential, KeyRequest, Lifetime, proven};
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie::{
    BrasserieRenewCertificateArgs, BrasserieRenewCertificateResult, ClusterStatus,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobLogsByIDArgs, BistroSchedulerGetJobLogsByIDResult,
};
use brasserie_thrift::rpc::{CallError, CallResult, ClientPool, PeerAddr, Unknown};
use integration_tests::e2e::{
    Admission, Client, Impostor, Process, SchedulerSpec, Secured, Stage, TestAuthority, WorkerSpec,
    address_of, try_call, wait_for, wait_within, warn_not_run,
};
use serde_json::Value;
use tokio::runtime::Runtime;

/// The life of certificates that are renewed while a test watches.
const BRIEF: &str = "--worker-certificate-life=10s";
/// Far longer than a scheduler needs to tell its workers something.
const SOON: Duration = Duration::from_secs(20);

/// A scheduler with an authority on a loopback address, and tasks that run until the test releases them.
struct Certified {
    secured: Secured,
    client: Client,
    authority: TestAuthority,
}

impl Deref for Certified {
    type Target = Secured;

    fn deref(&self) -> &Secured {
        &self.secured
    }
}

impl Certified {
    fn start(flags: &[&str]) -> Self {
        let stage = Stage::new();
        stage.hold();
        let config = stage.write_work(2, Duration::ZERO);
        let spec = stage.calm_spec(&config);
        let spec = flags.iter().fold(spec, |spec, flag| spec.with(flag));
        let authority = TestAuthority::give(&spec);
        let command = stage.scheduler_command(&spec);
        Certified {
            client: authority.client(spec.port),
            authority,
            secured: Secured::start_by(stage, spec, command),
        }
    }

    /// Starts a worker that is a member already.
    fn start_worker(&self, shard: &str) -> (Process, WorkerSpec) {
        let spec = self.stage.worker_spec(shard, &self.spec);
        let spec = self.authority.admit(spec);
        (self.stage.start_worker(&spec), spec)
    }

    /// Returns the client of the administrator by the authority that the scheduler has now.
    fn client_now(&self) -> Client {
        self.secured.authority().client(self.spec.port)
    }

    /// Creates a token for people with this role. Returns its number.
    fn person(&self, role: &str) -> TokenNumber {
        let created = self.asked(&["token", "create", "--role", role, "--json"]);
        let created: Value = serde_json::from_str(&created).expect("JSON");
        let number = created["status"]["number"].as_str().expect("a number");
        TokenNumber(u64::from_str_radix(number, 16).expect("hex digits"))
    }

    /// Runs a command that must print JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.asked(&[arguments, &["--json"]].concat())).expect("JSON")
    }

    fn ca(&self) -> Value {
        self.json(&["ca", "status"])
    }

    /// Makes a worker start with a new token for its shard.
    fn give_token(&self, spec: &mut WorkerSpec) {
        let token = self.token("join", &["--role", "worker", "--shard", &spec.shard]);
        spec.flags
            .push(format!("--join-token=@{}", token.display()));
    }

    /// Returns the problem of workers that a rotation has shut out.
    fn shut_out(&self) -> Option<String> {
        let status = self.json(&["status"]);
        let errors = status["errors"].as_array().expect("a list").iter();
        let mut errors = errors.filter_map(Value::as_str);
        errors
            .find(|error| error.contains("shut out"))
            .map(str::to_owned)
    }

    fn wait_until_all_have_renewed(&self) {
        wait_within(SOON, "all workers to renew", || {
            (self.ca()["behind_count"] == 0).then_some(())
        });
    }

    /// Waits until both tasks run.
    fn wait_for_tasks(&self) {
        wait_for("the tasks to run", || {
            (self.stage.alive().len() == 2).then_some(())
        });
    }

    /// Lets the tasks end, each of which must have run once.
    fn finish(&self) {
        self.stage.release();
        self.client.wait_all_done();
        let starts: Vec<usize> = self.stage.records().starts().into_values().collect();
        assert_eq!(starts, [1, 1], "each task has run once");
    }
}

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

/// Makes calls until one is refused for this reason. None may be served before.
async fn until(pool: &ClientPool, peer: &PeerAddr, call: &'static str, wanted: &str) {
    let refused = async {
        loop {
            match try_call(pool, peer, call).await {
                Admission::Refused(why) if why.contains(wanted) => return,
                Admission::Refused(why) => assert!(why.contains("just started"), "{why}"),
                Admission::Closed => {}
                Admission::Served => panic!("{call} is served"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let refused = tokio::time::timeout(SOON, refused).await;
    refused.unwrap_or_else(|_| panic!("no refusal with `{wanted}`"));
}

/// Makes calls that are all refused until the called worker has logged this reason. It does not log each refusal.
async fn until_logged(
    worker: &Process,
    (pool, peer): (&ClientPool, &PeerAddr),
    call: &'static str,
    why: &str,
) {
    let logged = async {
        while !worker.output().contains(why) {
            let refused = try_call(pool, peer, call).await;
            assert_ne!(refused, Admission::Served, "{call}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let logged = tokio::time::timeout(SOON, logged).await;
    logged.unwrap_or_else(|_| panic!("no line with `{why}`"));
}

/// Checks that a caller whose call a worker serves is cut off and refused once it is revoked, also by the worker's next start.
async fn check_revocation(
    (pool, peer): (&ClientPool, &PeerAddr),
    call: &'static str,
    revoke: impl FnOnce(),
) {
    assert_eq!(try_call(pool, peer, call).await, Admission::Served);
    let mut losses = pool.losses(peer);
    revoke();
    let closed = tokio::time::timeout(SOON, losses.next()).await;
    closed.expect("its connection is closed");
    until(pool, peer, call, "its certificate is revoked").await;
}

#[test]
fn workers_cut_off_those_whose_certificate_is_revoked_and_refuse_them_also_after_a_restart() {
    let cluster = Certified::start(&[]);
    let (mut one, one_spec) = cluster.start_worker("w1");
    let (_two, two_spec) = cluster.start_worker("w2");
    cluster.client.wait_healthy(2);
    let stolen = Credential::read(&two_spec.data_dir.join("identity/worker.pem"));
    let stolen = stolen.expect("whole").expect("a certificate");
    let number = cluster.person("viewer");
    let other = cluster.person("viewer");
    let person = |number| {
        let own = cluster.authority.person(Role::Viewer, Some(number));
        cluster.authority.pool(Some(&own))
    };
    let (worker, viewer) = (cluster.authority.pool(Some(&stolen)), person(number));
    let runtime = runtime();
    let peer = cluster.authority.worker_at_port(address_of(&one).port());
    runtime.block_on(async {
        // It may fetch artifacts and nothing else.
        let why = "getWorkFetch is not permitted to the role worker of the shard `w2`";
        until_logged(&one, (&worker, &peer), "getWorkFetch", why).await;
        check_revocation((&worker, &peer), "fetchArtifacts", || {
            cluster.asked(&["worker", "revoke", "w2"]);
        })
        .await;
        let why = "its certificate is revoked, that of the shard `w2`";
        until_logged(&one, (&worker, &peer), "fetchArtifacts", why).await;
        check_revocation((&viewer, &peer), "getWorkFetch", || {
            cluster.asked(&["token", "revoke", &number.to_string()]);
        })
        .await;
        // Nobody else is concerned.
        let served = try_call(&person(other), &peer, "getWorkFetch").await;
        assert_eq!(served, Admission::Served);
    });
    one.kill_program();
    let again = cluster.stage.start_worker(&one_spec);
    let peer = cluster.authority.worker_at_port(address_of(&again).port());
    runtime.block_on(async {
        until(
            &worker,
            &peer,
            "fetchArtifacts",
            "its certificate is revoked",
        )
        .await;
        until(&viewer, &peer, "getWorkFetch", "its certificate is revoked").await;
    });
}

#[test]
fn a_worker_refuses_a_person_whose_certificate_has_expired_on_an_open_connection() {
    let cluster = Certified::start(&[]);
    let (worker, _) = cluster.start_worker("w1");
    cluster.client.wait_healthy(1);
    let number = cluster.person("viewer");
    let peer = cluster.authority.worker_at_port(address_of(&worker).port());
    runtime().block_on(async {
        // The worker knows which certificates are revoked.
        let lasting = cluster.authority.person(Role::Viewer, Some(number));
        let lasting = cluster.authority.pool(Some(&lasting));
        let known = async {
            while try_call(&lasting, &peer, "getWorkFetch").await != Admission::Served {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, known).await.expect("served");
        let brief = cluster.authority.person_for(SOON / 2, Role::Viewer, number);
        let brief = cluster.authority.pool(Some(&brief));
        let served = try_call(&brief, &peer, "getWorkFetch").await;
        assert_eq!(served, Admission::Served);
        let refused = async {
            loop {
                match try_call(&brief, &peer, "getWorkFetch").await {
                    Admission::Served => tokio::time::sleep(Duration::from_millis(100)).await,
                    Admission::Refused(why) => return why,
                    Admission::Closed => panic!("another connection would prove nothing"),
                }
            }
        };
        let why = tokio::time::timeout(2 * SOON, refused).await;
        let why = why.expect("the end of the certificate");
        let of_the_connection = "the token or certificate of the caller has expired";
        assert!(why.contains(of_the_connection), "{why}");
        let served = try_call(&lasting, &peer, "getWorkFetch").await;
        assert_eq!(served, Admission::Served);
    });
}

#[test]
fn a_worker_that_was_away_for_longer_than_its_certificate_renews_it_and_works() {
    let cluster = Certified::start(&[]);
    let spec = cluster.stage.worker_spec("w1", &cluster.spec);
    let eight_days = 8 * 24 * 60 * 60 * 1000;
    let long_ago = WallTime(Clock.wall().0 - eight_days);
    let spec = cluster.authority.admit_at(spec, long_ago);
    let worker = cluster.stage.start_worker(&spec);
    worker.wait_for_output("renewed the certificate");
    cluster.client.wait_healthy(1);
    cluster.wait_for_tasks();
    cluster.finish();
}

/// Returns the authorities of the certificate that a worker has now.
fn authorities_of(worker: &WorkerSpec) -> usize {
    let read = Credential::read(&worker.data_dir.join("identity/worker.pem"));
    // Two files are replaced one after the other.
    read.ok().flatten().map_or(0, |own| own.authorities().len())
}

#[test]
fn certificates_and_the_authority_are_replaced_while_tasks_run_and_no_heartbeat_is_missed() {
    let mut cluster = Certified::start(&[BRIEF]);
    let (worker, spec) = cluster.start_worker("w1");
    let before = cluster.client.wait_healthy(1);
    cluster.wait_for_tasks();
    let renewals = || worker.output().matches("renewed the certificate").count();
    let old_token = cluster.stage.path("old.token");
    let admin = cluster.spec.data_dir.join("identity/admin.token");
    fs::copy(admin, &old_token).expect("a token");
    let (mut late, late_spec) = cluster.start_worker("w2");
    cluster.client.wait_healthy(2);
    late.kill_program();
    let first = cluster.ca();
    assert!(first["former"].is_null(), "{first}");

    cluster.asked(&["ca", "rotate"]);
    // A worker that was away knows the former authority only.
    let _late = cluster.stage.start_worker(&late_spec);
    cluster.wait_until_all_have_renewed();
    cluster.client.wait_healthy(2);
    let second = cluster.ca();
    assert_eq!(
        (&second["former"], &second["trust_domain"]),
        (&first["hash"], &first["trust_domain"])
    );
    assert_eq!(authorities_of(&spec), 2);
    let again = cluster.ask(&["ca", "rotate"]);
    assert!(
        again.output.contains("under way already"),
        "{}",
        again.output
    );
    // Tokens of both prove the scheduler.
    for token in [&old_token, &cluster.spec.data_dir] {
        let asked = cluster.ask_as(token, &["status"]);
        assert_eq!(asked.code, Some(0), "{}", asked.output);
    }
    // A restart in the middle.
    cluster.secured.scheduler.kill_program();
    cluster.secured.scheduler = cluster.stage.start_scheduler(&cluster.spec);
    cluster.client = cluster.client_now();
    cluster.client.wait_healthy(2);
    assert_eq!(cluster.ca(), second);

    cluster.asked(&["ca", "rotate", "--finish"]);
    wait_within(SOON, "the worker to forget the former authority", || {
        (authorities_of(&spec) == 1).then_some(())
    });
    let asked = cluster.ask_as(&old_token, &["status"]).output;
    assert!(asked.contains("does not have the authority"), "{asked}");
    let seen = renewals();
    wait_within(SOON, "renewals to go on", || {
        (renewals() > seen).then_some(())
    });
    let after = cluster.client.wait_healthy(2);
    let instance = |status: &ClusterStatus| {
        let mut workers = status.workers.iter().flatten();
        let first = workers.find(|worker| worker.shard.as_deref() == Some("w1"));
        first.expect("it is listed").instance.clone()
    };
    assert_eq!(instance(&before), instance(&after));
    cluster.finish();
    // Only the scheduler's restart shows in the worker's log.
    let failing = worker.output();
    let failing = failing.lines().filter(|line| line.contains("fail:"));
    assert!(failing.count() <= 1, "{}", worker.output());
}

#[test]
fn a_worker_that_is_away_for_a_whole_rotation_learns_that_it_must_join_again() {
    let mut cluster = Certified::start(&[]);
    let (_stays, _) = cluster.start_worker("stays");
    let (mut leaves, leaves_spec) = cluster.start_worker("leaves");
    cluster.client.wait_healthy(2);
    leaves.kill_program();
    cluster.asked(&["ca", "rotate"]);
    wait_within(SOON, "the worker that is there to renew", || {
        (cluster.ca()["behind"] == serde_json::json!(["leaves"])).then_some(())
    });
    let refused = cluster.ask(&["ca", "rotate", "--finish"]);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    assert!(refused.output.contains("leaves"), "{}", refused.output);
    assert_eq!(cluster.shut_out(), None);
    cluster.asked(&["ca", "rotate", "--finish", "--force"]);
    let back = cluster.stage.start_worker(&leaves_spec);
    back.wait_for_output("its authority was replaced while this worker was away");
    assert!(back.output().contains("--join-token"), "{}", back.output());
    drop(back);
    cluster.secured.scheduler.kill_program();
    cluster.secured.scheduler = cluster.stage.start_scheduler(&cluster.spec);
    cluster.scheduler.wait_for_output("the scheduler is up");
    let shut_out = cluster.shut_out().expect("a problem");
    assert!(shut_out.contains("authority: leaves."), "{shut_out}");
    // The remedy of the message.
    let mut spec = leaves_spec;
    cluster.give_token(&mut spec);
    let again = cluster.stage.start_worker(&spec);
    let client = cluster.client_now();
    client.wait_healthy(2);
    assert_eq!(cluster.shut_out(), None);
    again.wait_for_output("joined the cluster");
    let output = again.output();
    assert!(!output.contains("left another"), "{output}");
}

/// Returns the name of the cluster in the certificate that a worker has.
fn cluster_of(worker: &WorkerSpec) -> String {
    let read = Credential::read(&worker.data_dir.join("identity/worker.pem"));
    let own = read.expect("whole").expect("a certificate");
    let proven = proven(own.certificate()).expect("a certificate of a cluster");
    proven.certified.trust_domain.to_string()
}

#[test]
fn a_worker_moves_to_another_cluster_by_a_token_of_it_and_by_nothing_else() {
    let (first, second) = (Certified::start(&[]), Certified::start(&[]));
    let (mut worker, mut spec) = first.start_worker("w1");
    first.client.wait_healthy(1);
    worker.kill_with_keeper();
    let left = cluster_of(&spec);
    let usual = spec.flags.clone();
    spec.scheduler = format!("127.0.0.1:{}", second.spec.port);
    // A token of the cluster that the worker knows, one that no scheduler proves, and none that can be read.
    let text = format!("brj1-{}-{}", "ab".repeat(32), "cd".repeat(32));
    let unknown = first.stage.write_secret("unknown", &text);
    let missing = first.stage.path("missing");
    first.give_token(&mut spec);
    let known = spec.flags.pop().expect("a token");
    let flag = |path: &Path| format!("--join-token=@{}", path.display());
    let keeps = "the worker keeps the certificate that it has";
    for (token, wanted) in [
        (known, ""),
        (flag(&unknown), keeps),
        (flag(&missing), keeps),
    ] {
        spec.flags = [&usual[..], &[token]].concat();
        let mut stays = first.stage.start_worker(&spec);
        stays.wait_for_output("has another authority than the certificate of this worker");
        assert!(stays.output().contains(wanted), "{}", stays.output());
        assert_eq!(cluster_of(&spec), left);
        stays.kill_with_keeper();
    }
    spec.flags = usual;
    second.give_token(&mut spec);
    let moved = first.stage.start_worker(&spec);
    second.client.wait_healthy(1);
    moved.wait_for_output("left another one");
    let joined = cluster_of(&spec);
    assert_eq!(joined, second.ca()["trust_domain"]);
    let output = moved.output();
    assert!(
        output.contains(&left) && output.contains(&joined),
        "{output}"
    );
}

#[test]
fn a_revoked_worker_is_shown_as_such_at_once_and_fills_no_log() {
    let cluster = Certified::start(&[]);
    let (worker, _) = cluster.start_worker("w1");
    cluster.client.wait_healthy(1);
    cluster.asked(&["worker", "revoke", "w1"]);
    let listed = cluster.asked(&["worker", "list"]);
    assert!(listed.contains("revoked"), "{listed}");
    let listed = cluster.json(&["worker", "list"]);
    assert_eq!(listed["workers"][0]["state"], "revoked", "{listed}");
    let status = cluster.asked(&["status"]);
    assert!(status.contains("worker `w1` is revoked"), "{status}");
    wait_for("some refused heartbeats", || {
        let refused = cluster.json(&["status"])["refused_calls"]["proof"].as_u64();
        (refused? >= 4).then_some(())
    });
    for process in [&worker, &cluster.scheduler] {
        let output = process.output();
        let lines = output.lines();
        let lines = lines.filter(|line| line.contains("processHeartbeat is not permitted"));
        assert_eq!(lines.count(), 1, "{output}");
    }
}

#[test]
fn a_worker_goes_on_trying_to_join_while_the_disk_of_its_scheduler_takes_nothing() {
    let cluster = Certified::start(&[]);
    let token = cluster.token("join", &["--role", "worker"]);
    // It is in the way of a temporary file.
    let obstacle = cluster.spec.data_dir.join("identity/.tokens.json.tmp");
    fs::create_dir(&obstacle).expect("a folder");
    let spec = cluster.worker("w1", Some(&token));
    let worker = cluster.stage.start_worker(&spec);
    worker.wait_for_output("cannot join yet, trying again");
    assert!(
        worker.output().contains("tokens.json"),
        "{}",
        worker.output()
    );
    fs::remove_dir(&obstacle).expect("it is there");
    cluster.client.wait_healthy(1);
}

fn log_arguments() -> BistroSchedulerGetJobLogsByIDArgs {
    BistroSchedulerGetJobLogsByIDArgs {
        logtype: "stdout".to_owned(),
        job_id: "work".to_owned(),
        node_id: String::new(),
        line_id: -1,
        is_ascending: false,
        regex_filter: String::new(),
        invocation: None,
    }
}

#[test]
fn a_revoked_certificate_proves_no_server_to_the_scheduler() {
    let cluster = Certified::start(&[]);
    let (mut one, spec) = cluster.start_worker("w1");
    cluster.client.wait_healthy(1);
    cluster.wait_for_tasks();
    let stolen = Credential::read(&spec.data_dir.join("identity/worker.pem"));
    let stolen = stolen.expect("whole").expect("a certificate");
    let port = address_of(&one).port();
    // The scheduler asks its workers for their lines, and says why one does not answer.
    let why = || {
        let page: Result<BistroSchedulerGetJobLogsByIDResult, CallError> =
            cluster.client.call("getJobLogsByID", &log_arguments());
        format!("{page:?}")
    };
    one.kill_program();
    let impostor = Impostor::start(port, cluster.authority.authority(), &stolen);
    // The scheduler calls the address of the worker: with the stolen key, somebody else can answer there.
    wait_within(SOON, "a call", || {
        why();
        (impostor.calls() > 0).then_some(())
    });
    cluster.asked(&["worker", "revoke", "w1"]);
    let seen = impostor.calls();
    // Calls may end with the connection that the revocation closes, until they are refused.
    wait_within(SOON, "the refusal of the stolen key", || {
        why().contains("is revoked").then_some(())
    });
    let refused = why();
    assert!(refused.contains("is revoked"), "{refused}");
    assert_eq!(impostor.calls(), seen);
}

#[test]
fn a_stolen_key_answers_people_for_no_other_worker_and_for_none_once_it_is_revoked() {
    let cluster = Certified::start(&[]);
    let (mut one, _) = cluster.start_worker("w1");
    let (mut two, two_spec) = cluster.start_worker("w2");
    cluster.client.wait_healthy(2);
    let stolen = Credential::read(&two_spec.data_dir.join("identity/worker.pem"));
    let stolen = stolen.expect("whole").expect("a certificate");
    let ports = [address_of(&one).port(), address_of(&two).port()];
    one.kill_program();
    two.kill_program();
    let pose = |port| Impostor::start(port, cluster.authority.authority(), &stolen);
    let [first, second] = ports.map(pose);
    let ask = |arguments: &[&str]| {
        let asked = cluster.ask(&[&["worker", "work-fetch"], arguments].concat());
        assert_eq!(asked.code, Some(1), "{}", asked.output);
        asked
            .output
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let why = ask(&["w1"]);
    assert!(why.contains("not valid for name"), "{why}");
    let drained = cluster.ask(&["worker", "drain", "w1"]);
    assert_eq!(drained.code, Some(1), "{}", drained.output);
    assert_eq!(first.calls(), 0, "it speaks for another shard");
    let why = ask(&["w2"]);
    assert!(why.contains("does not know the call"), "{why}");
    cluster.asked(&["worker", "revoke", "w2"]);
    // The scheduler may have called until then.
    let seen = ["before", "after"].map(|_| {
        let why = ask(&["w2"]);
        assert!(why.contains("its certificate is revoked"), "{why}");
        second.calls()
    });
    assert_eq!(seen[0], seen[1]);
}

/// Renews the certificate of a shard without end, with many calls under way. Counts the accepted and the refused ones.
fn renew_without_end(
    runtime: &Runtime,
    (pool, peer): (ClientPool, &PeerAddr),
    counts: &Arc<[AtomicUsize; 2]>,
) {
    let key = KeyRequest::create().expect("a key");
    for _ in 0..40 {
        let (pool, peer, counts) = (pool.clone(), peer.clone(), Arc::clone(counts));
        let request = key.request().to_vec();
        runtime.spawn(async move {
            let arguments = BrasserieRenewCertificateArgs { request };
            let call = || {
                pool.call::<_, BrasserieRenewCertificateResult>(
                    &peer,
                    "renewCertificate",
                    &arguments,
                )
            };
            loop {
                let outcome = match call().await {
                    CallResult::Done(_) => 0,
                    CallResult::Unknown(Unknown::Exception { .. }) => 1,
                    _ => return,
                };
                counts[outcome].fetch_add(1, Ordering::SeqCst);
            }
        });
    }
}

#[test]
fn renewals_without_end_with_a_stolen_key_prevent_no_revocation() {
    let cluster = Certified::start(&[]);
    let (_one, spec) = cluster.start_worker("w1");
    cluster.client.wait_healthy(1);
    let stolen = Credential::read(&spec.data_dir.join("identity/worker.pem"));
    let stolen = stolen.expect("whole").expect("a certificate");
    let (runtime, counts) = (runtime(), Arc::default());
    let peer = cluster.authority.scheduler(cluster.spec.port);
    for _ in 0..16 {
        let pool = cluster.authority.pool(Some(&stolen));
        renew_without_end(&runtime, (pool, &peer), &counts);
    }
    wait_for("many renewals", || {
        (counts[1].load(Ordering::SeqCst) > 1000).then_some(())
    });
    cluster.asked(&["token", "create", "--role", "viewer"]);
    cluster.asked(&["worker", "revoke", "w1"]);
    let [renewed, refused] = [0, 1].map(|at: usize| counts[at].load(Ordering::SeqCst));
    assert!(
        renewed < refused / 100,
        "{renewed} renewals, {refused} refused"
    );
    let audited = cluster.asked(&["audit", "--refused", "--what", "renewCertificate"]);
    assert!(audited.contains("is being renewed, or was"), "{audited}");
}

/// Checks that a thief with the key of the former authority is refused between the steps, by a worker that has renewed and by the scheduler.
fn check_thief(cluster: &Certified, stolen: &TestAuthority, at_worker: &PeerAddr) {
    let runtime = runtime();
    let refused = |own: &Credential, peer: &PeerAddr, call: &'static str, wanted: &str| {
        let answer = runtime.block_on(try_call(&stolen.pool(Some(own)), peer, call));
        let is_it = matches!(&answer, Admission::Refused(why) if why.contains(wanted));
        assert!(is_it, "{call}: {answer:?}");
    };
    let authority = stolen.authority();
    let scheduler = authority.credential(Role::Scheduler, Clock.wall(), Lifetime::SCHEDULER);
    let scheduler = scheduler.expect("a credential");
    let admin = stolen.person(Role::Admin, Some(cluster.person("admin")));
    refused(&scheduler, at_worker, "getRunningTasks", "was replaced");
    refused(&admin, at_worker, "getWorkFetch", "was replaced");
    let at_scheduler = stolen.scheduler(cluster.spec.port);
    // Only workers come in with a certificate of the former authority, and with the key of their shard.
    refused(&admin, &at_scheduler, "getJobs", "was replaced");
    for shard in ["w1", "w9"] {
        let forged = stolen.worker(shard);
        let wanted = format!("brasserie worker revoke {shard}");
        refused(&forged, &at_scheduler, "renewCertificate", &wanted);
    }
    let audited = cluster.asked(&["audit", "--refused", "--what", "renewCertificate"]);
    assert!(audited.contains("not for a key"), "{audited}");
}

#[test]
fn each_step_of_a_rotation_ends_the_connections_of_those_whose_certificates_it_ends() {
    let cluster = Certified::start(&[]);
    let (one, spec) = cluster.start_worker("w1");
    cluster.client.wait_healthy(1);
    // A thief has the key of the authority, and connections from before.
    let stolen = TestAuthority::of(&cluster.spec);
    let number = Some(cluster.person("admin"));
    let admin = stolen.pool(Some(&stolen.person(Role::Admin, number)));
    let at_scheduler = stolen.scheduler(cluster.spec.port);
    let other_worker = stolen.pool(Some(&stolen.worker("w9")));
    let at_worker = stolen.worker_at_port(address_of(&one).port());
    let runtime = runtime();
    let served = |pool: &ClientPool, peer: &PeerAddr, call| {
        let answer = runtime.block_on(try_call(pool, peer, call));
        assert_eq!(answer, Admission::Served, "{call}");
    };
    served(&admin, &at_scheduler, "getJobs");
    let mut at_scheduler_lost = admin.losses(&at_scheduler);
    cluster.asked(&["ca", "rotate"]);
    runtime.block_on(async {
        let lost = tokio::time::timeout(SOON, at_scheduler_lost.next()).await;
        lost.expect("the connection at the scheduler is closed");
    });
    cluster.wait_until_all_have_renewed();
    check_thief(&cluster, &stolen, &at_worker);
    // Workers that have not renewed may still fetch artifacts.
    served(&other_worker, &at_worker, "fetchArtifacts");
    let mut at_worker_lost = other_worker.losses(&at_worker);
    cluster.asked(&["ca", "rotate", "--finish"]);
    runtime.block_on(async {
        let lost = tokio::time::timeout(SOON, at_worker_lost.next()).await;
        lost.expect("the connection at the worker is closed");
    });
    // The worker has only just received the news, and renews within seconds.
    let refused = runtime.block_on(try_call(&other_worker, &at_worker, "fetchArtifacts"));
    assert_ne!(refused, Admission::Served);
    wait_within(SOON, "the worker to forget the former authority", || {
        (authorities_of(&spec) == 1).then_some(())
    });
    for (pool, peer) in [(&admin, &at_scheduler), (&other_worker, &at_worker)] {
        wait_within(SOON, "the end of all handshakes with the thief", || {
            let answer = runtime.block_on(try_call(pool, peer, "getStatus"));
            (answer == Admission::Closed).then_some(())
        });
    }
    let client = cluster.client_now();
    client.wait_healthy(1);
}

#[test]
fn https_clients_with_the_former_authority_are_served_until_the_rotation_is_finished() {
    let has_curl = Command::new("curl").arg("--version").output();
    if let Err(error) = has_curl {
        return warn_not_run("HTTPS during a rotation, with curl", &error);
    }
    let cluster = Certified::start(&[]);
    let kept = |name: &str| {
        let (from, to) = (
            cluster.spec.data_dir.join("identity"),
            cluster.stage.path(name),
        );
        fs::copy(from.join("authority.pem"), &to).expect("a copy");
        to
    };
    let url = format!("https://127.0.0.1:{}/health/live", cluster.spec.http_port);
    let is_served = |authority: &Path| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--max-time", "20", "--cacert"]);
        let done = curl.arg(authority).arg(&url).output();
        done.expect("curl runs").status.success()
    };
    let first = kept("first.pem");
    assert!(is_served(&first));
    let rotated = cluster.asked(&["ca", "rotate"]);
    assert!(rotated.contains("curl --cacert"), "{rotated}");
    let between = kept("between.pem");
    assert!(is_served(&first) && is_served(&between));
    cluster.asked(&["ca", "rotate", "--finish"]);
    assert!(is_served(&between) && is_served(&kept("last.pem")));
    assert!(!is_served(&first));
}

/// Writes a list of the addresses at which a scheduler may be.
fn members(stage: &Stage, of: &[&SchedulerSpec]) -> PathBuf {
    let lines = of.iter().map(|spec| format!("127.0.0.1:{}\n", spec.port));
    stage.write("members", &lines.collect::<String>())
}

#[test]
fn a_scheduler_of_another_cluster_gets_no_heartbeat_and_nobody_steps_down() {
    let mut cluster = Certified::start(&[]);
    let other = Certified::start(&[]);
    let members = members(&cluster.stage, &[&cluster.spec, &other.spec]);
    let mut spec = cluster.stage.worker_spec("w1", &cluster.spec);
    spec.scheduler = format!("@{}", members.display());
    let spec = cluster.authority.admit(spec);
    let worker = cluster.stage.start_worker(&spec);
    cluster.client.wait_healthy(1);
    cluster.wait_for_tasks();
    cluster.secured.scheduler.kill_program();
    worker.wait_for_output("has another authority than the certificate of this worker");
    cluster.secured.scheduler = cluster.stage.start_scheduler(&cluster.spec);
    cluster.client.wait_healthy(1);
    cluster.finish();
    let mut other = other;
    assert!(cluster.secured.scheduler.ended().is_none());
    assert!(other.secured.scheduler.ended().is_none());
    let seen = other.client.status().expect("it answers");
    assert_eq!(seen.workers.unwrap_or_default().len(), 0);
}

#[test]
fn a_second_head_node_with_a_copy_of_the_authority_takes_over_the_workers() {
    let mut cluster = Certified::start(&[]);
    let mut second = cluster.stage.scheduler_spec(&cluster.spec.config);
    second.data_dir = cluster.stage.path("second");
    let members = members(&cluster.stage, &[&cluster.spec, &second]);
    // The worker joins with a token, of which the second head node knows nothing.
    let token = cluster.token("join", &["--role", "worker"]);
    let name = "node7.example.com";
    let mut spec = cluster.worker(name, Some(&token));
    spec.scheduler = format!("@{}", members.display());
    let _worker = cluster.stage.start_worker(&spec);
    cluster.client.wait_healthy(1);
    cluster.wait_for_tasks();
    cluster.secured.scheduler.kill_program();
    let (from, to) = (
        cluster.spec.data_dir.join("identity"),
        second.data_dir.join("identity"),
    );
    fs::create_dir_all(&to).expect("a folder");
    for file in ["authority.pem", "authority.key"] {
        fs::copy(from.join(file), to.join(file)).expect("a copy");
    }
    // Instances of schedulers are ordered by the second of their start.
    let killed = Clock.wall().as_secs();
    wait_for("a later second", || {
        (Clock.wall().as_secs() > killed).then_some(())
    });
    let _second = cluster.stage.start_scheduler(&second);
    let client = TestAuthority::of(&second).client(second.port);
    client.wait_healthy(1);
    (cluster.client, cluster.secured.spec) = (client, second);
    // It has an administrator of its own, and can revoke the worker that it has never admitted.
    cluster.finish();
    // It knows the worker by its name, which is no label of a certificate.
    cluster.asked(&["ca", "rotate"]);
    wait_for("the line of the renewal", || {
        let lines = cluster.lines(&["--who", name, "--what", "renewCertificate"]);
        lines.first().map(|line| assert_eq!(line["shard"], name))
    });
    let shown = cluster.asked(&["audit", "--who", name]);
    assert!(shown.contains(&format!("worker `{name}` at ")), "{shown}");
    let done = cluster.asked(&["worker", "revoke", name]);
    assert!(done.contains("its tasks run elsewhere"), "{done}");
    assert!(cluster.secured.scheduler.ended().is_some());
}
