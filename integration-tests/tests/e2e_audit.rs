//! Tests what people and stolen keys may change, and that the audit log and `status` name those who were refused. The programs and their
//! connections are real.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use brasserie_common::worker::PROTOCOL_VERSION;
use brasserie_common::{
    MachinePortLock, ServiceAddress, Shard, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_common_identity::Credential;
use brasserie_thrift::generated::brasserie::{BrasseriePauseJobArgs, BrasseriePauseJobResult};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobsArgs, BistroSchedulerGetJobsResult, BistroSchedulerProcessHeartbeatArgs,
    BistroSchedulerProcessHeartbeatResult,
};
use brasserie_thrift::rpc::{CallResult, ClientPool, PeerAddr, Unknown};
use integration_tests::e2e::{Secured, Stage, wait_within};
use serde_json::{Value, json};
use thrift::protocol::TSerializable;

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
        let worker = WorkerDescription {
            shard: Shard::try_from(shard).expect("a shard"),
            machine_lock: MachinePortLock {
                hostname: "elsewhere".into(),
                port: 1,
            },
            id: WorkerId::new(i64::MAX / 2, 1),
            address: ServiceAddress {
                host: "127.0.0.1".into(),
                port: 1,
            },
            protocol_version: PROTOCOL_VERSION,
            ..WorkerDescription::default()
        };
        let arguments = BistroSchedulerProcessHeartbeatArgs {
            w: worker.into(),
            worker_set_id: WorkerSetId::default().into(),
        };
        self.refusal::<_, BistroSchedulerProcessHeartbeatResult>("processHeartbeat", &arguments)
            .await
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
    assert_eq!(created[0]["after"]["owner"], "ana");
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
