//! Tests what people and stolen keys may change, and that the audit log and `status` name those who were refused. The programs and their
//! connections are real.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use brasserie_common::access::SCHEDULER_CALLS;
use brasserie_common::worker::PROTOCOL_VERSION;
use brasserie_common::{
    Artifact, ArtifactForm, ArtifactId, MachinePortLock, ServiceAddress, Shard, WorkerDescription,
    WorkerId, WorkerSetId,
};
use brasserie_common_identity::{Credential, Token};
use brasserie_thrift::generated::brasserie::{
    BrasserieHoldOutputsArgs, BrasserieHoldOutputsResult, BrasseriePauseJobArgs,
    BrasseriePauseJobResult, BrasseriePutFileArgs, BrasseriePutFileResult,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobsArgs, BistroSchedulerGetJobsResult, BistroSchedulerProcessHeartbeatArgs,
    BistroSchedulerProcessHeartbeatResult,
};
use brasserie_thrift::rpc::{CallResult, ClientConfig, ClientPool, PeerAddr, Unknown};
use integration_tests::e2e::{Secured, Stage, address_of, token_in, wait_within};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TOutputProtocol, TSerializable,
    TStructIdentifier, TType,
};
use tokio::task::JoinSet;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thief with the key of a worker.
struct Thief {
    pool: ClientPool,
    scheduler: PeerAddr,
}

impl Thief {
    fn of(secured: &Secured, folder: &Path) -> Self {
        let authority = secured.authority();
        let own = Credential::read(&folder.join("worker.pem"));
        let own = own.expect("a certificate").expect("a certificate");
        let pool = authority.pool(Some(&own));
        let scheduler = authority.scheduler(secured.spec.port);
        Thief { pool, scheduler }
    }

    /// Returns why a call is refused.
    async fn refusal<A: TSerializable, R: TSerializable + Send>(
        &self,
        call: &'static str,
        arguments: &A,
    ) -> String {
        match self
            .pool
            .call::<A, R>(&self.scheduler, call, arguments)
            .await
        {
            CallResult::Unknown(Unknown::Exception { message, .. }) => message,
            CallResult::Done(_) => panic!("{call} was accepted"),
            CallResult::Unknown(why) => panic!("{call}: {why}"),
            CallResult::NotSent(why) => panic!("{call}: {why}"),
        }
    }

    async fn heartbeat(&self, shard: &str) -> String {
        let arguments = heartbeat_with(shard, 1);
        self.refusal::<_, BistroSchedulerProcessHeartbeatResult>("processHeartbeat", &arguments)
            .await
    }
}

/// Returns the heartbeat of a worker at a port of this machine.
fn heartbeat_with(shard: &str, port: u16) -> BistroSchedulerProcessHeartbeatArgs {
    let worker = WorkerDescription {
        shard: Shard::try_from(shard).expect("a shard"),
        machine_lock: MachinePortLock {
            hostname: "elsewhere".into(),
            port: 1,
        },
        id: WorkerId::new(i64::MAX / 2, 1),
        address: ServiceAddress {
            host: "127.0.0.1".into(),
            port,
        },
        protocol_version: PROTOCOL_VERSION,
        ..WorkerDescription::default()
    };
    BistroSchedulerProcessHeartbeatArgs {
        w: worker.into(),
        worker_set_id: WorkerSetId::default().into(),
    }
}

#[test]
fn a_stolen_key_of_a_worker_is_of_no_other_use_and_its_use_is_counted_and_audited() {
    let secured = Secured::start();
    let (_first, stolen) = secured.join("w1");
    let (_second, _) = secured.join("w2");
    let before = secured.status()["workers"].clone();
    let thief = Thief::of(&secured, &stolen);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let why = thief.heartbeat("w2").await;
        assert!(
            why.contains("its certificate is for another shard"),
            "{why}"
        );
        let why = thief.heartbeat("w1").await;
        assert!(why.contains("holds shard `w1`"), "{why}");
        let nothing = BistroSchedulerGetJobsArgs {};
        let why = thief
            .refusal::<_, BistroSchedulerGetJobsResult>("getJobs", &nothing)
            .await;
        assert!(why.contains("not permitted to the role worker"), "{why}");
        let job = "filed".to_owned();
        let pause = BrasseriePauseJobArgs { job };
        let why = thief
            .refusal::<_, BrasseriePauseJobResult>("pauseJob", &pause)
            .await;
        assert!(why.contains("not permitted to the role worker"), "{why}");
    });
    let counts = wait_within(PATIENCE, "the counts of refusals", || {
        let counts = secured.status()["refused_calls"].clone();
        let is_all = ["shard", "instance", "role"]
            .iter()
            .all(|why| counts[why].is_u64());
        is_all.then_some(counts)
    });
    assert_eq!(counts, json!({ "shard": 1, "instance": 1, "role": 2 }));
    let lines = secured.lines(&["--refused", "--who", "w1"]);
    let calls: Vec<&Value> = lines.iter().map(|line| &line["what"]).collect();
    assert_eq!(
        calls,
        [
            "processHeartbeat",
            "processHeartbeat",
            "getJobs",
            "pauseJob"
        ]
    );
    for line in &lines {
        assert_eq!([&line["role"], &line["shard"]], ["worker", "w1"]);
        assert!(
            line["from"]
                .as_str()
                .is_some_and(|from| from.starts_with("127.0.0.1:"))
        );
    }
    let text = secured.ask(&["status"]).output;
    assert!(
        text.contains("Refused calls: 1 by instance, 2 by role, 1 by shard"),
        "{text}"
    );
    // The workers are the same.
    let after = secured.status()["workers"].clone();
    for worker in 0..2 {
        assert_eq!(after[worker]["instance"], before[worker]["instance"]);
        assert_eq!(after[worker]["state"], "healthy");
    }
    let joined = secured.lines(&["--what", "join"]);
    let joined: Vec<&Value> = joined.iter().map(|line| &line["name"]).collect();
    assert_eq!(joined, ["w1", "w2"]);
}

/// Pauses a job again and again, with many calls under way, until one is refused. Returns the number of accepted calls and the reason.
async fn pause_until_refused(
    pool: &ClientPool,
    scheduler: &PeerAddr,
    job: &str,
) -> (usize, String) {
    let mut calls = JoinSet::new();
    let start = |calls: &mut JoinSet<_>| {
        let (pool, scheduler, job) = (pool.clone(), scheduler.clone(), job.to_owned());
        calls.spawn(async move {
            let pause = BrasseriePauseJobArgs { job };
            pool.call::<_, BrasseriePauseJobResult>(&scheduler, "pauseJob", &pause)
                .await
        });
    };
    (0..50).for_each(|_| start(&mut calls));
    let (mut accepted, mut why) = (0, None);
    while let Some(ended) = calls.join_next().await {
        match ended.expect("no panic") {
            CallResult::Done(result) => {
                assert_eq!(result.ex, None);
                accepted += 1;
                if why.is_none() {
                    start(&mut calls);
                }
            }
            CallResult::Unknown(Unknown::Exception { message, .. }) => why = Some(message),
            other => panic!("{other:?}"),
        }
    }
    (accepted, why.expect("a refusal"))
}

/// A hold and an upload that began before their caller has made too many changes.
struct Begun<'a> {
    pool: &'a ClientPool,
    scheduler: &'a PeerAddr,
}

impl Begun<'_> {
    async fn hold(&self, hold: i64) -> CallResult<BrasserieHoldOutputsResult> {
        let args = BrasserieHoldOutputsArgs {
            job: "kept".to_owned(),
            release: false,
            hold: Some(hold),
        };
        self.pool.call(self.scheduler, "holdOutputs", &args).await
    }

    /// Sends the bytes of a file of 70,000 zeros from the offset to the end.
    async fn put(
        &self,
        upload: i64,
        (from, to): (usize, usize),
    ) -> CallResult<BrasseriePutFileResult> {
        let content = vec![0; 70_000];
        let artifact = Artifact {
            id: ArtifactId(Sha256::digest(&content).into()),
            size: 70_000,
            form: ArtifactForm::File,
        };
        let args = BrasseriePutFileArgs {
            name: "file".to_owned(),
            artifact: artifact.into(),
            upload,
            offset: i64::try_from(from).expect("a small number"),
            bytes: content[from..to].to_vec(),
        };
        self.pool.call(self.scheduler, "putFile", &args).await
    }

    /// Begins both, and returns the number of the upload.
    async fn begin(&self) -> i64 {
        let held = self.hold(1).await;
        assert!(matches!(held, CallResult::Done(_)), "{held:?}");
        let CallResult::Done(begun) = self.put(0, (0, 66_000)).await else {
            panic!("the upload does not begin");
        };
        begun
            .result_value
            .and_then(|begun| begun.upload)
            .expect("more is wanted")
    }

    /// Checks that both go on, and that no others begin.
    async fn go_on(&self, upload: i64) {
        let held = self.hold(1).await;
        assert!(
            matches!(&held, CallResult::Done(held) if held.result_value == Some(true)),
            "{held:?}"
        );
        for refused in [
            self.hold(2).await.map(|_| ()),
            self.put(0, (0, 66_000)).await.map(|_| ()),
        ] {
            let CallResult::Unknown(Unknown::Exception { message, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert!(
                message.contains("too many changes by this caller"),
                "{message}"
            );
        }
        let put = self.put(upload, (66_000, 70_000)).await;
        let is_done = |put: &BrasseriePutFileResult| {
            put.result_value
                .as_ref()
                .is_some_and(|put| put.done == Some(true))
        };
        assert!(
            matches!(&put, CallResult::Done(put) if is_done(put)),
            "{put:?}"
        );
    }
}

#[test]
fn a_submitter_that_changes_without_a_pause_is_made_to_wait_and_pushes_no_lines_out() {
    let stage = Stage::new();
    let config = stage.write("config.json", &Secured::config().to_string());
    let mut spec = stage.calm_spec(&config).with("--audit-keep=1");
    spec.address = Ipv4Addr::UNSPECIFIED;
    let command = stage.scheduler_command(&spec);
    let secured = Secured::start_by(stage, spec, command);
    let ana = secured.token("ana", &["--role", "submitter", "--owner", "ana"]);
    let bob = secured.token("bob", &["--role", "submitter", "--owner", "bob"]);
    let text = r#"{"command": ["/bin/true"], "enabled": false}"#;
    let text = secured.stage.write("job.json", text);
    let text = text.to_string_lossy();
    // Long lines are sooner too many.
    let long = "j".repeat(1000);
    secured.must(&ana, &["job", "submit", &text, "--name", &long]);
    let secret = fs::read_to_string(&ana).expect("a token");
    let (pool, scheduler) = (
        secured.authority().pool_with(&secret),
        secured.authority().scheduler(secured.spec.port),
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let kept = json!({
        "command": ["/bin/true"], "enabled": false, "outputs": ["x"], "keep": "while_held",
    });
    let kept = secured.stage.write("kept.json", &kept.to_string());
    secured.must(
        &ana,
        &["job", "submit", &kept.to_string_lossy(), "--name", "kept"],
    );
    let begun = Begun {
        pool: &pool,
        scheduler: &scheduler,
    };
    let upload = runtime.block_on(begun.begin());
    let (accepted, why) = runtime.block_on(pause_until_refused(&pool, &scheduler, &long));
    runtime.block_on(begun.go_on(upload));
    assert!(
        why.contains("too many changes by this caller: try again in"),
        "{why}"
    );
    assert!(accepted > 1000, "{accepted}");
    let refused = secured.ask_as(&ana, &["job", "pause", &long]);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    // It still sees all, and others make changes.
    secured.must(&ana, &["status"]);
    secured.must(&bob, &["job", "submit", &text, "--name", "other"]);
    let lines = secured.lines(&["--what", "pauseJob"]);
    let written = lines.iter().filter(|line| line["outcome"] == "ok").count();
    assert_eq!(written, accepted, "each accepted change has a line");
    assert_eq!(
        secured.lines(&["--what", "start"]).len(),
        1,
        "nothing is lost"
    );
}

#[test]
fn a_stolen_key_with_the_address_of_another_worker_diverts_no_call() {
    let secured = Secured::start();
    let (victim, _) = secured.join("w2");
    let port = address_of(&victim).port();
    let (mut first, stolen) = secured.join("w1");
    // The worker has left, and the thief speaks for its shard with its key.
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait().code(), Some(0), "{}", first.output());
    let thief = Thief::of(&secured, &stolen);
    let arguments = heartbeat_with("w1", port);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let beat = || {
        let call = "processHeartbeat";
        let called = thief.pool.call::<_, BistroSchedulerProcessHeartbeatResult>(
            &thief.scheduler,
            call,
            &arguments,
        );
        let answer = runtime.block_on(called);
        assert!(matches!(answer, CallResult::Done(_)), "{answer:?}");
    };
    let state = |shard: &str| {
        let status = secured.status();
        let mut workers = status["workers"].as_array()?.iter();
        let worker = workers.find(|worker| worker["shard"] == shard)?;
        Some(worker["state"].as_str()?.to_owned())
    };
    beat();
    let text = r#"{"command": ["/bin/echo", "at the right worker"]}"#;
    let job = secured.stage.write("work.json", text);
    secured.must(
        &secured.spec.data_dir,
        &["job", "submit", &job.to_string_lossy()],
    );
    // The calls for `w1` go to the port of `w2`, which proves another shard, and those for `w2` go there as before.
    wait_within(PATIENCE, "the job to be done", || {
        beat();
        assert_ne!(state("w1")?, "healthy");
        let jobs = secured.status()["jobs"].clone();
        let mut jobs = jobs.as_array()?.iter();
        let job = jobs.find(|job| job["name"] == "work")?;
        (job["done"] == 1).then_some(())
    });
    let logs = secured.asked(&["logs", "work", "one"]);
    assert!(logs.contains("at the right worker"), "{logs}");
    assert_eq!(state("w2").as_deref(), Some("healthy"));
}

/// Returns the number of the token in a file.
fn number_of(token: &Path) -> String {
    let text = fs::read_to_string(token).expect("a token");
    let token = Token::from_text(&text).expect("a token");
    token.secret.number().to_string()
}

#[test]
fn tokens_are_listed_with_their_notes_and_the_log_names_them() {
    let secured = Secured::start();
    let admin = secured.spec.data_dir.clone();
    let made = [
        "token",
        "create",
        "--role",
        "viewer",
        "--note",
        "wall\u{1b}",
    ];
    let made = secured.must(&admin, &made);
    let viewer = secured.stage.write_secret("viewer", token_in(&made));
    let number = number_of(&viewer);
    let said = format!("The token has the number {number}, and is valid until ");
    assert!(made.contains(&said), "{made}");
    let creator = format!("token {}", number_of(&admin.join("identity/admin.token")));
    let listed = secured.must(&admin, &["token", "list"]);
    let mut rows = listed.lines();
    let row = rows.find(|row| row.starts_with(&number)).expect("a row");
    assert!(
        row.contains("wall\\u{1b}") && row.contains(&creator),
        "{row}"
    );
    let join = secured.token(
        "join",
        &["--role", "worker", "--note", "rack 7", "--uses", "2"],
    );
    let joined = number_of(&join);
    let spec = secured.worker("w1", Some(&join));
    let worker = secured.stage.start_worker(&spec);
    secured.wait_healthy("w1");
    let listed: Value =
        serde_json::from_str(&secured.must(&admin, &["token", "list", "--json"])).expect("JSON");
    let mut tokens = listed["tokens"].as_array().expect("tokens").iter();
    let token = tokens.find(|token| token["number"] == *joined);
    let token = token.expect("the token");
    assert_eq!(token["note"], "rack 7");
    assert_eq!(token["created_by"], *creator);
    assert_eq!(
        (&token["uses"], &token["uses_left"]),
        (&json!(2), &json!(1))
    );
    secured.must(&admin, &["token", "revoke", &number]);
    secured.refused(&viewer, &["status"], "no such token");
    secured.must(&admin, &["worker", "revoke", "w1"]);
    worker.wait_for_output("goes on asking");
    let mut copy = spec;
    copy.data_dir = secured.stage.path("copy");
    let mut copy = secured.stage.start_worker(&copy);
    assert_eq!(copy.wait().code(), Some(4), "{}", copy.output());
    // A secret in place of a number is repeated nowhere.
    let secret = fs::read_to_string(&viewer).expect("a token");
    let secret = secret.rsplit('-').next().expect("a secret");
    let done = secured.ask_as(&admin, &["token", "revoke", secret]);
    assert_eq!(done.code, Some(2), "{}", done.output);
    assert!(
        done.output.contains("no number of a token"),
        "{}",
        done.output
    );
    check_lines_about_tokens(&secured, &number, &joined);
    let log = fs::read_to_string(admin.join("audit/audit.log")).expect("the log");
    let output = secured.scheduler.output();
    assert!(
        !log.contains(secret) && !output.contains(secret),
        "{output}"
    );
}

/// Checks the lines about a token for people that was revoked, and about one with which `w1` has joined, before it was revoked.
fn check_lines_about_tokens(secured: &Secured, person: &str, joined: &str) {
    let told = |arguments: &[&str], key: &str| {
        let lines = secured.lines(arguments);
        let told = lines.iter().map(|line| {
            let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (field("what"), field("outcome"), field(key))
        });
        told.collect::<Vec<_>>()
    };
    let line = |what: &str, outcome: &str, value: &str| {
        (what.to_owned(), outcome.to_owned(), value.to_owned())
    };
    let expected = [
        line("createToken", "ok", person),
        line("revokeToken", "ok", person),
    ];
    assert_eq!(told(&["--what", person], "name"), expected);
    let shown = told(&["--who", person], "token");
    assert_eq!(shown[0], line("authenticate", "refused", person));
    let uses = told(&["--who", joined, "--what", "join"], "name");
    let expected = [line("join", "ok", "w1"), line("join", "refused", "w1")];
    assert_eq!(uses, expected);
    let refused = told(&["--who", "w1", "--refused"], "shard");
    assert!(
        refused.contains(&line("processHeartbeat", "refused", "w1")),
        "{refused:?}"
    );
    let text = secured.asked(&["audit", "--who", "w1"]);
    assert!(text.contains("refused worker `w1` at "), "{text}");
}

#[test]
fn submitters_change_their_own_and_the_log_says_who_has_done_what() {
    let secured = Secured::start();
    let ana = secured.token("ana", &["--role", "submitter", "--owner", "ana"]);
    let bob = secured.token("bob", &["--role", "submitter", "--owner", "bob"]);
    let operator = secured.token("operator", &["--role", "operator"]);
    let command = r#"{"command": ["/bin/true"], "enabled": false}"#;
    let job = secured.stage.write("copy.json", command);
    let job = job.to_string_lossy();
    secured.must(&ana, &["job", "submit", &job]);
    let bobs =
        "job `copy` is owned by `ana`: ask `ana`, an operator or an administrator to change it";
    for command in [
        "pause",
        "cancel",
        "resume",
        "delete",
        "forgive",
        "delete-history",
    ] {
        secured.refused(&bob, &["job", command, "copy"], bobs);
    }
    secured.refused(&bob, &["job", "submit", &job, "--replace"], bobs);
    secured.refused(&bob, &["task", "kill", "copy", "one"], bobs);
    secured.refused(&bob, &["artifact", "rm", "copy"], bobs);
    secured.refused(
        &ana,
        &["job", "pause", "filed"],
        "`filed` is owned by the scheduler",
    );
    secured.must(&ana, &["job", "pause", "copy"]);
    secured.must(&operator, &["job", "resume", "copy"]);
    secured.must(&ana, &["artifact", "put", &job, "--name", "dims.json"]);
    let file = "the file `dims.json` is owned by `ana`";
    secured.refused(
        &bob,
        &["artifact", "put", &job, "--name", "dims.json"],
        file,
    );
    secured.refused(&bob, &["artifact", "rm", "--file", "dims.json"], file);
    secured.must(&ana, &["artifact", "rm", "--file", "dims.json"]);
    let explained = secured.must(&bob, &["explain", "copy", "one"]);
    assert!(
        explained.contains("The job is owned by `ana`."),
        "{explained}"
    );
    let listed = secured.must(&bob, &["job", "list"]);
    assert!(listed.contains("ana"), "{listed}");
    check_documents(&secured, &bob);

    let text =
        r#"{"command": ["/bin/true"], "enabled": false, "task_subprocess": {"user": "batch"}}"#;
    let as_batch = secured.stage.write("batch.json", text);
    let as_batch = as_batch.to_string_lossy();
    let refused = secured.ask_as(&ana, &["job", "submit", &as_batch]);
    assert!(
        refused.output.contains("--run-as batch"),
        "{}",
        refused.output
    );
    let granted = ["--role", "submitter", "--owner", "ana", "--run-as", "batch"];
    let granted = secured.token("granted", &granted);
    secured.must(&granted, &["job", "submit", &as_batch]);
    secured.must(&ana, &["job", "delete", "batch"]);

    secured.refused(&ana, &["audit"], "not permitted to the role submitter");
    let seen = secured.must(&operator, &["audit", "--who", "ana", "--what", "pauseJob"]);
    assert!(seen.contains("hold: none -> paused"), "{seen}");
    check_log(&secured);
}

/// Checks that all documents about the job `copy` name its owner by the same key.
fn check_documents(secured: &Secured, token: &Path) {
    for command in [
        &["status"][..],
        &["explain", "copy", "one"],
        &["job", "list"],
    ] {
        let document = secured.must(token, &[command, &["--json"]].concat());
        assert!(document.contains(r#""owned_by": "ana""#), "{document}");
    }
}

/// Checks the lines about the job `copy`, from the oldest on.
fn check_log(secured: &Secured) {
    let lines = secured.lines(&["--what", "copy"]);
    let told: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            let field = |name: &str| line[name].as_str().unwrap_or_default();
            let who = line["owner"].as_str().or(line["role"].as_str());
            (who.unwrap_or_default(), field("what"), field("outcome"))
        })
        .collect();
    let refused = [
        "pauseJob",
        "cancelJob",
        "resumeJob",
        "removeJob",
        "forgiveTasks",
        "deleteHistory",
        "submitJob",
        "killTask",
        "forgetOutputs",
    ];
    let mut expected = vec![("ana", "submitJob", "ok")];
    expected.extend(refused.map(|call| ("bob", call, "refused")));
    expected.push(("ana", "pauseJob", "ok"));
    expected.push(("operator", "resumeJob", "ok"));
    assert_eq!(told, expected);
    assert_eq!(lines[11]["before"], json!({ "hold": "paused" }));
    let all = secured.lines(&[]);
    assert_eq!(all[0]["number"], 1);
    for own in ["start", "configInForce"] {
        assert!(all.iter().any(|line| line["what"] == own), "{own}");
    }
    let created = secured.lines(&["--what", "createToken"]);
    assert_eq!(created[0]["after"]["note"], "in identity/admin.token");
    assert_eq!(created[1]["after"]["owner"], "ana");
    // No secret is in it, as a token shows when it is created.
    let log = secured.spec.data_dir.join("audit/audit.log");
    let text = fs::read_to_string(&log).expect("the log");
    let token = fs::read_to_string(secured.stage.path("ana")).expect("a token");
    let secret = token.trim().rsplit('-').next().expect("a secret");
    assert!(secret.len() == 64 && !text.contains(secret) && !text.contains("/bin/true"));
    let mode = fs::metadata(&log).expect("the log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_scheduler_without_an_authority_keeps_the_log_too_and_over_a_restart() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": { "enabled": true, "nodes": { "levels": ["item"], "node_sources": [
            { "source": "manual", "prefs": { "one": [] } }
        ] } },
        "bistro_job->filed": { "command": ["/bin/true"], "enabled": false },
    });
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    scheduler.wait_for_output("the scheduler is up");
    let address = format!("{}:{}", spec.address, spec.port);
    let paused = stage.brasserie(&["job", "pause", "filed", "--scheduler", &address]);
    assert_eq!(paused.code, Some(0), "{}", paused.output);
    // The line is written soon after the answer, also if the scheduler is killed then.
    let log = spec.data_dir.join("audit/audit.log");
    wait_within(PATIENCE, "the line", || {
        let text = fs::read_to_string(&log).ok()?;
        text.contains("pauseJob").then_some(())
    });
    scheduler.kill_program();
    let scheduler = stage.start_scheduler(&spec);
    scheduler.wait_for_output("the scheduler is up");
    let shown = wait_within(PATIENCE, "the second start", || {
        let shown = stage.brasserie(&["audit", "--scheduler", &address]);
        (shown.output.matches(" start ").count() == 2).then_some(shown.output)
    });
    assert!(shown.contains("unauthenticated at 127.0.0.1:"), "{shown}");
    assert!(shown.contains("pauseJob job filed"), "{shown}");
}

/// Calls that may change something and leave no line, and why.
const WITHOUT_LINE: &[(&str, &str)] = &[
    (
        "authenticate",
        "it changes nothing. False tokens have lines",
    ),
    (
        "renewCertificate",
        "it is for workers. A test of certificates reads its lines",
    ),
    (
        "processHeartbeat",
        "workers report all the time. Refused workers have lines",
    ),
    ("updateStatus", "as heartbeats"),
    ("updateStatusBatch", "as heartbeats"),
    ("reportArtifacts", "as heartbeats"),
    ("requestWork", "as heartbeats"),
    (
        "releaseArtifactSlots",
        "a release without a reservation, as this test could make, changes nothing",
    ),
];

/// An argument of a call.
enum Field {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    Nothings,
    /// A list with one structure, which has no fields.
    OneThing,
    Fields(&'static [(i16, Field)]),
}

/// The arguments of a call, by their ids; as a result, anything.
struct Fields(&'static [(i16, Field)]);

impl Field {
    fn kind(&self) -> TType {
        match self {
            Field::Text(_) => TType::String,
            Field::Number(_) => TType::I64,
            Field::Flag(_) => TType::Bool,
            Field::Nothings | Field::OneThing => TType::List,
            Field::Fields(_) => TType::Struct,
        }
    }

    fn write(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        match self {
            Field::Text(text) => output.write_string(text),
            Field::Number(number) => output.write_i64(*number),
            Field::Flag(flag) => output.write_bool(*flag),
            Field::Nothings => {
                output.write_list_begin(&TListIdentifier::new(TType::String, 0))?;
                output.write_list_end()
            }
            Field::OneThing => {
                output.write_list_begin(&TListIdentifier::new(TType::Struct, 1))?;
                Fields(&[]).write_to_out_protocol(output)?;
                output.write_list_end()
            }
            Field::Fields(fields) => Fields(fields).write_to_out_protocol(output),
        }
    }
}

impl TSerializable for Fields {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        input.skip(TType::Struct)?;
        Ok(Fields(&[]))
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("Fields"))?;
        for (id, field) in self.0 {
            output.write_field_begin(&TFieldIdentifier::new("", field.kind(), *id))?;
            field.write(output)?;
            output.write_field_end()?;
        }
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

/// Returns arguments with which a call is either accepted or refused, and does not fail to be read.
fn arguments(call: &str) -> Fields {
    use Field::{Fields as Inner, Flag, Nothings, Number, OneThing, Text};
    const EMPTY: &str = "";
    Fields(match call {
        "join" => &[(1, Text("0")), (2, Text("w9")), (3, Text(EMPTY))],
        "certify" | "revokeToken" | "revokeWorker" | "deleteJob" | "forgiveJob" => {
            &[(1, Text("none"))]
        }
        "createToken" | "requestArtifactSlots" => &[(1, Inner(&[]))],
        "saveJob" => &[(1, Inner(&[(1, Text("none"))]))],
        "rotateAuthority" => &[(1, Flag(false)), (2, Flag(false))],
        "submitJob" => &[(1, Text("none")), (2, Text("{}")), (3, Number(0))],
        "removeJob" => &[(1, Text("none")), (2, Number(-2))],
        "pauseJob" | "resumeJob" | "cancelJob" => &[(1, Text("none"))],
        "killTask" => &[(1, Text("none")), (2, Text("one"))],
        "forgiveTasks" => &[(1, Text("none")), (2, Flag(false))],
        "deleteHistory" => &[(1, Text("none")), (2, Nothings)],
        "forgetOutputs" => &[(1, Text("none")), (2, Nothings), (3, Flag(true))],
        "holdOutputs" => &[(1, Text("none")), (2, Flag(false)), (3, Number(1))],
        "putFile" => &[
            (1, Text("/")),
            (
                2,
                Inner(&[(1, Text(DIGEST)), (2, Number(0)), (3, Text("file"))]),
            ),
            (3, Number(0)),
            (4, Number(0)),
            (5, Text(EMPTY)),
        ],
        "removeFile" => &[(1, Text("none")), (2, Flag(false))],
        "planConfig" => &[(1, Text("{}")), (2, Text("json")), (3, Text(EMPTY))],
        // A call without instances is a question.
        "forgetWorker" => &[(1, Text("w9")), (2, OneThing)],
        "orderWorker" => &[(1, Text("w9")), (2, Inner(&[]))],
        _ => panic!("{call} is new: name its arguments here, or say why it leaves no line"),
    })
}

/// The bytes of a digest.
const DIGEST: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn each_call_that_changes_something_leaves_a_line() {
    let secured = Secured::start();
    let local = PeerAddr::local(&secured.spec.data_dir.join("control.sock"));
    let pool = ClientPool::new(ClientConfig::default());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let reads = ["get", "list", "explain", "fetch", "check"];
    let calls = SCHEDULER_CALLS.iter().map(|(call, _)| *call);
    let changes: Vec<&str> = calls
        .filter(|call| !reads.iter().any(|begin| call.starts_with(begin)))
        .filter(|call| !WITHOUT_LINE.iter().any(|(without, _)| without == call))
        .collect();
    assert!(changes.len() > 20, "{changes:?}");
    for call in &changes {
        let arguments = arguments(call);
        let made = runtime.block_on(pool.call::<Fields, Fields>(&local, call, &arguments));
        if let CallResult::NotSent(why) = made {
            panic!("{call}: {why}");
        }
        wait_within(PATIENCE, &format!("a line about {call}"), || {
            let lines = secured.lines(&["--what", call]);
            // The socket is for root and the user of the scheduler.
            let is_it = |line: &&Value| line["role"] == "admin" && line["user"].is_string();
            lines.iter().any(|line| is_it(&line)).then_some(())
        });
    }
    let rotated = secured.lines(&["--what", "rotateAuthority"]);
    let hash = |side: &Value| side["hash"].as_str().map(str::to_owned);
    let (before, after) = (&rotated[0]["before"], &rotated[0]["after"]["authority"]);
    assert!(
        hash(before).is_some() && hash(before) != hash(after),
        "{rotated:?}"
    );
    for step in [&["--finish"][..], &["--finish", "--force"]] {
        secured.ask(&[&["ca", "rotate"], step].concat());
    }
    let rotated = secured.lines(&["--what", "rotateAuthority"]);
    let steps: Vec<_> = rotated.iter().map(|line| &line["after"]["step"]).collect();
    let named = [
        "rotate the authority",
        "finish the rotation",
        "finish the rotation by force",
    ];
    assert_eq!(steps, named);
}

/// Returns a config whose scripts print the parts of items, with more sources after them.
fn with_scripts(items: &[&str], scripts: &[&Path], more: &[Value]) -> String {
    let items = items.iter().map(|item| ((*item).to_owned(), json!([])));
    let items: serde_json::Map<String, Value> = items.collect();
    let mut sources = vec![json!({ "source": "manual", "prefs": items })];
    sources.extend(scripts.iter().map(|script| {
        json!({ "source": "script", "prefs": { "parent_level": "item", "script": script } })
    }));
    sources.extend(more.iter().cloned());
    let mut config = Secured::config();
    config["bistro_settings"]["nodes"] =
        json!({ "levels": ["item", "part"], "node_sources": sources });
    config.to_string()
}

#[test]
fn an_operator_runs_no_program_as_the_user_of_the_scheduler_by_a_plan() {
    let secured = Secured::start();
    let stage = &secured.stage;
    let operator = secured.token("operator", &["--role", "operator"]);
    let mark = stage.path("mark");
    let text = format!("#!/bin/sh\necho \"$1\" >> {}\necho part\n", mark.display());
    let script = stage.write_script("script.sh", &text);
    let runs = || fs::read_to_string(&mark).unwrap_or_default();
    let draft = |name: &str, text: &str| stage.write(name, text).to_string_lossy().into_owned();
    let with_script = with_scripts(&["one"], &[&script], &[]);
    let new = draft("new.json", &with_script);
    let refused = |draft: &str, why: &str| secured.refused(&operator, &["plan", draft], why);
    refused(
        &new,
        "does not run it for the same nodes: an administrator can make this plan",
    );
    let elsewhere = ["plan", &new, "--folder", "/tmp"];
    let why = "names the folder /tmp, which is not that of the scheduler's config file";
    secured.refused(&operator, &elsewhere, why);
    assert_eq!(runs(), "");
    secured.asked(&["plan", &new]);
    assert_eq!(runs(), "one\n");
    let lines = secured.lines(&["--what", "planConfig"]);
    let told = lines
        .iter()
        .map(|line| format!("{} {}", line["role"], line["outcome"]));
    let expected = [
        r#""operator" "refused""#,
        r#""operator" "refused""#,
        r#""admin" "ok""#,
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);

    // A script runs if the config in force runs it with the same arguments.
    draft("config.json", &with_script);
    wait_within(PATIENCE, "the script to be in force", || {
        let planned = secured.ask_as(&operator, &["plan", &new]).output;
        planned.contains("changes nothing").then_some(())
    });
    let twice = with_scripts(&["one"], &[&script, Path::new("/bin/false")], &[]);
    refused(
        &draft("twice.json", &twice),
        "node source 3 would run the script /bin/false",
    );
    let other = with_scripts(&["two"], &[&script], &[]);
    refused(
        &draft("other.json", &other),
        "node source 2 would run the script",
    );
    let before = runs();
    let source = json!({ "source": "manual", "prefs": { "three": [] } });
    let more = with_scripts(&["one"], &[&script], &[source]);
    let planned = secured.must(&operator, &["plan", &draft("more.json", &more)]);
    assert!(planned.contains("three"), "{planned}");
    assert_eq!(runs(), format!("{before}one\n"));
    assert!(!before.contains("two"), "{before}");
}
