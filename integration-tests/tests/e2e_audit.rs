//! Tests what people and stolen keys may change, and that the audit log and `status` name those who were refused. The programs and their
//! connections are real.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use brasserie_common::access::SCHEDULER_CALLS;
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
use brasserie_thrift::rpc::{CallResult, ClientConfig, ClientPool, PeerAddr, Unknown};
use integration_tests::e2e::{Secured, Stage, wait_within};
use serde_json::{Value, json};
use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TOutputProtocol, TSerializable,
    TStructIdentifier, TType,
};

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
    secured.must(&secured.spec.data_dir, &["plan", &new]);
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
