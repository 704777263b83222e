//! Tests `brasserie worker work-fetch` with real programs: its output for pull workers and for other workers.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use integration_tests::e2e::{
    Client, Finished, PATIENCE, SchedulerSpec, Stage, python, wait_within,
};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use serde_json::Value;

/// Runs `brasserie worker work-fetch ...` through the scheduler.
fn look(stage: &Stage, spec: &SchedulerSpec, arguments: &[&str]) -> Finished {
    let address = format!("127.0.0.1:{}", spec.port);
    let mut all = vec!["worker", "work-fetch"];
    all.extend(arguments);
    all.extend(["--scheduler", &address]);
    stage.brasserie(&all)
}

fn says(finished: &Finished, code: i32, parts: &[&str]) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    for part in parts {
        assert!(
            finished.output.contains(part),
            "no {part:?} in {finished:?}"
        );
    }
}

/// Shows a worker repeatedly until the condition holds.
fn wait_to_see(
    stage: &Stage,
    spec: &SchedulerSpec,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    wait_within(PATIENCE, what, || {
        let finished = look(stage, spec, &["asks", "--json"]);
        let document: Value = serde_json::from_str(&finished.output).ok()?;
        is_so(&document["work_fetch"]["schedulers"][0]).then_some(document)
    })
}

#[test]
fn a_worker_that_asks_shows_its_work_fetch_and_others_say_that_there_is_none() {
    let stage = Stage::new();
    let config = stage.write_work(6, Duration::ZERO);
    stage.hold();
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("an answer", |_| true);
    let nobody = look(&stage, &spec, &[]);
    says(&nobody, 1, &["no worker has connected to the scheduler at"]);

    let mut asking = stage.worker_spec("asks", &spec);
    asking.flags.push("--work-fetch=cluster".to_owned());
    let mut asking = stage.start_worker(&asking);
    client.wait_healthy(1);
    let seen = wait_to_see(&stage, &spec, "tasks that it asked for", |one| {
        one["running"].as_u64() > Some(0) && one["health"] == "healthy"
    });
    let fetch = &seen["work_fetch"];
    assert_eq!(seen["worker"], "asks");
    assert_eq!(fetch["profile"], "cluster");
    assert_eq!(fetch["low_water_sec"], 10.0);
    assert_eq!(fetch["processors"][0]["name"], "CPU");
    let one = &fetch["schedulers"][0];
    assert_eq!(one["shard"], "asks");
    assert_eq!(one["members"][0], format!("127.0.0.1:{}", spec.port));
    assert_eq!(one["share"], 1.0);
    assert!(one["instance"]["start_time"].as_i64() > Some(0), "{one}");

    // The only worker needs no name, and with a worker's address no scheduler is needed.
    let parts = ["Worker `asks` at ", "(profile cluster)", "healthy", "CPU"];
    says(&look(&stage, &spec, &[]), 0, &parts);
    let address = seen["address"].as_str().expect("an address").to_owned();
    let direct = stage.brasserie(&["worker", "work-fetch", "--worker", &address]);
    says(&direct, 0, &["The worker at ", "(profile cluster)"]);

    let _plain = stage.start_worker(&stage.worker_spec("plain", &spec));
    client.wait_healthy(2);
    let all = look(&stage, &spec, &[]);
    says(
        &all,
        0,
        &["asks", "plain", "never: it takes what it is sent"],
    );
    let plain = look(&stage, &spec, &["plain"]);
    says(
        &plain,
        1,
        &["worker `plain` takes what it is sent", "--work-fetch"],
    );
    // The command prints the document with `--json`, and has the same exit code.
    let plain = look(&stage, &spec, &["plain", "--json"]);
    let parts = [
        "\"work_fetch\": null",
        "worker `plain` takes what it is sent",
    ];
    says(&plain, 1, &parts);
    let unknown = look(&stage, &spec, &["nobody"]);
    says(&unknown, 1, &["knows no worker `nobody`", "asks", "plain"]);
    // The address of a scheduler is an error.
    let own = format!("127.0.0.1:{}", spec.port);
    let wrong = stage.brasserie(&["worker", "work-fetch", "--worker", &own]);
    says(&wrong, 1, &["does not know the call `getWorkFetch`"]);

    stage.release();
    client.wait_all_done();
    wait_to_see(&stage, &spec, "the ends to be acknowledged", |one| {
        one["running"] == 0 && one["unacknowledged"] == 0 && one["got"] == 1.0
    });
    asking.kill_program();
    let gone = stage.brasserie(&["worker", "work-fetch", "--worker", &address]);
    says(
        &gone,
        1,
        &["cannot ask the worker at", "Is it running", &address],
    );
}

/// The shown reason is the missing answer, not a suspension. `--now` reports the missing answer too.
#[test]
fn a_scheduler_that_is_gone_is_shown_as_such() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let mut asking = stage.worker_spec("asks", &spec);
    asking.flags.push("--work-fetch=cluster".to_owned());
    let _asking = stage.start_worker(&asking);
    Client::new(spec.port).wait_all_done();
    let seen = wait_to_see(&stage, &spec, "a healthy worker", |one| {
        one["health"] == "healthy" && one["unacknowledged"] == 0
    });
    let address = seen["address"].as_str().expect("an address").to_owned();
    scheduler.kill_program();
    let direct = ["worker", "work-fetch", "--json", "--worker", &address];
    wait_within(PATIENCE, "the worker to miss its scheduler", || {
        let document: Value = serde_json::from_str(&stage.brasserie(&direct).output).ok()?;
        let reason = document["work_fetch"]["schedulers"][0]["reason"].clone();
        let why = reason.as_str()?;
        why.starts_with("has not answered for ").then_some(())
    });
    let now = ["worker", "work-fetch", "--now", "--worker", &address];
    says(&stage.brasserie(&now), 0, &["it has not answered for "]);
}

#[test]
fn a_scheduler_says_what_a_worker_asked_for_and_why_a_task_waits() {
    let stage = Stage::new();
    let nodes = 2 * std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let path = stage.write_work(nodes, Duration::ZERO);
    let text = fs::read_to_string(&path).expect("it was written");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    // Only the processors limit the running tasks.
    config["bistro_settings"]["resources"] = serde_json::json!({});
    let path = stage.write("work/config.json", &format!("{config:#}"));
    stage.hold();
    let spec = stage.calm_spec(&path);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let mut asking = stage.worker_spec("asks", &spec);
    asking.flags.push("--work-fetch=cluster".to_owned());
    let _asking = stage.start_worker(&asking);
    client.wait_healthy(1);

    // Each of the worker's processors has a task, and other tasks are not queued there.
    wait_within(PATIENCE, "a task that waits for a processor", || {
        (1..=nodes).find_map(|node| {
            let document = stage.explain(&spec, "work", &format!("n{node}"));
            let reasons = document["reasons"].as_array()?.clone();
            let mut texts = reasons.iter().filter_map(Value::as_str);
            let why = "has no idle CPU for this task, which may not wait there (`bufferable`)";
            texts
                .any(|text| text.starts_with("worker `asks` asked for work ") && text.contains(why))
                .then_some(())
        })
    });
    let address = format!("127.0.0.1:{}", spec.port);
    let status = stage.brasserie(&["status", "--scheduler", &address]);
    let parts = ["\nasks asked for work ", " sent, ", "\nWork requests: "];
    says(&status, 0, &parts);
    let status = stage.brasserie(&["status", "--json", "--scheduler", &address]);
    let status: Value = serde_json::from_str(&status.output).expect("JSON");
    let asked = &status["workers"][0]["asked"];
    assert!(asked["seq"].as_u64() > Some(0), "{asked}");
    assert!(asked["left_ms"].as_u64() > Some(0), "{asked}");
    let of_type = &asked["of_types"][0];
    assert_eq!(of_type["processor"], "CPU", "{asked}");
    assert!(of_type["ready"].as_u64() > Some(0), "{asked}");
    let counts = &status["work_requests"];
    assert!(counts["looked_at"].as_u64() > Some(0), "{counts}");
    stage.release();
    client.wait_all_done();
}

#[test]
fn a_worker_that_is_told_to_asks_at_once_whatever_it_waited_for() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let mut asking = stage.worker_spec("asks", &spec);
    // The worker's backoffs last at least five minutes, so only `--now` makes it request work earlier.
    asking.flags.push("--work-fetch=volunteer".to_owned());
    let mut asking = stage.start_worker(&asking);
    client.wait_healthy(1);
    client.wait_all_done();
    let backs_off = |one: &Value| {
        let pair = &one["processors"][0]["backoff"];
        pair["left_sec"].as_f64() > Some(200.0) && one["request"].is_null()
    };
    wait_to_see(&stage, &spec, "a backoff of minutes", backs_off);
    let extra = stage.write("extra.json", r#"{"owner": "test", "command": ["true"]}"#);
    let extra = extra.to_str().expect("text");
    let own = format!("127.0.0.1:{}", spec.port);
    let submitted = stage.brasserie(&["job", "submit", extra, "--scheduler", &own]);
    says(&submitted, 0, &["version 1"]);
    let now = ["asks", "--now", "--json"];
    let told = look(&stage, &spec, &now);
    assert_eq!(told.code, Some(0), "{told:?}");
    let document: Value = serde_json::from_str(&told.output).expect("a document");
    assert_eq!(document["worker"], "asks");
    let one = &document["schedulers"][0];
    assert_eq!(one["asks"], "now", "{document}");
    assert_eq!(one["members"][0], own.as_str());
    let ended = one["ended"][0].as_str().expect("a line");
    assert!(ended.starts_with("CPU: backed off, "), "{ended}");
    client.wait_all_done();
    // The only worker needs no name.
    says(&look(&stage, &spec, &["--now"]), 0, &["worker `asks`"]);
    let from = ["--now", "--from", &own];
    says(&look(&stage, &spec, &from), 0, &[&own]);

    let other = ["--now", "--from", "127.0.0.1:1"];
    let parts = ["refused", "no scheduler at 127.0.0.1:1", &own];
    says(&look(&stage, &spec, &other), 1, &parts);
    let nowhere = ["--now", "--from", "nowhere"];
    says(&look(&stage, &spec, &nowhere), 2, &["--from", "nowhere"]);
    let alone = ["--from", &own];
    says(&look(&stage, &spec, &alone), 2, &["--now"]);
    let both = ["--now", "--watch"];
    says(&look(&stage, &spec, &both), 2, &["--watch"]);

    let _plain = stage.start_worker(&stage.worker_spec("plain", &spec));
    client.wait_healthy(2);
    let which = look(&stage, &spec, &["--now"]);
    says(&which, 1, &["knows 2 workers", "name the one"]);
    let plain = look(&stage, &spec, &["plain", "--now"]);
    says(&plain, 1, &["it takes what it is sent", "--work-fetch"]);
    let scheduler = ["worker", "work-fetch", "--now", "--worker", &own];
    let wrong = stage.brasserie(&scheduler);
    let parts = ["does not know the call `fetchWork`", "older release"];
    says(&wrong, 1, &parts);
    let address = document["address"].as_str().expect("an address").to_owned();
    asking.kill_program();
    let gone = stage.brasserie(&["worker", "work-fetch", "--now", "--worker", &address]);
    says(&gone, 1, &["cannot ask the worker at", &address]);
}

#[test]
fn a_watcher_sees_one_document_a_line_until_it_is_interrupted() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("an answer", |_| true);
    let address = format!("127.0.0.1:{}", spec.port);
    let line = ["worker", "work-fetch", "--watch", "--json", "--scheduler"];
    let mut watcher = stage.start_brasserie(&[&line[..], &[&address]].concat());
    // A worker that has not connected yet may still come.
    watcher.wait_for_output("no worker has connected");
    let mut worker = stage.worker_spec("asks", &spec);
    worker.flags.push("--work-fetch=volunteer".to_owned());
    let _worker = stage.start_worker(&worker);
    let documents = || {
        let output = watcher.output();
        let lines = output.lines().filter(|line| line.starts_with('{'));
        let documents = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        documents
            .filter(|one| one["workers"][0]["work_fetch"]["profile"] == "volunteer")
            .count()
    };
    let two = || (documents() >= 2).then_some(());
    wait_within(PATIENCE, "two looks at the worker", two);
    watcher.signal(Signal::SIGINT);
    assert_eq!(watcher.wait().code(), Some(0));
}

#[test]
fn a_scheduler_that_moves_is_found_by_the_file_that_says_where_it_is() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let mut spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let address = |spec: &SchedulerSpec| format!("127.0.0.1:{}", spec.port);
    let first = address(&spec);
    let list = stage.write("members", &format!("# where it is\n{first}\n"));
    let listed = format!("@{}", list.display());
    let mut asking = stage.worker_spec("asks", &spec);
    asking.scheduler.clone_from(&listed);
    asking.flags.push("--work-fetch=cluster".to_owned());
    let mut worker = stage.start_worker(&asking);
    Client::new(spec.port).wait_all_done();

    scheduler.kill_program();
    std::fs::write(&list, "127.0.0.1\n# nothing\n127.0.0.1:0\n").expect("it can be written");
    worker.wait_for_output("members:3: ");
    std::fs::remove_file(&list).expect("it is there");
    worker.wait_for_output("cannot read ");
    assert!(worker.output().contains("members:1: "));
    // The same scheduler at another port.
    let elsewhere = stage.calm_spec(&config);
    assert_ne!(spec.port, elsewhere.port);
    spec.port = elsewhere.port;
    let second = address(&spec);
    stage.write("members", &format!("{second}\n"));
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    let seen = wait_to_see(&stage, &spec, "the new address", |one| {
        one["members"][0] == second.as_str() && one["health"] == "healthy"
    });
    assert_eq!(seen["worker"], "asks");
    let extra = stage.write("extra.json", r#"{"owner": "test", "command": ["true"]}"#);
    let extra = extra.to_str().expect("text");
    let submitted = stage.brasserie(&["job", "submit", extra, "--scheduler", &second]);
    says(&submitted, 0, &["version 1"]);
    client.wait_all_done();
    worker.wait_for_output("can be used again");
    assert!(worker.ended().is_none(), "it has lived through all of it");

    // A file that is unusable when the worker starts is a usage error that lists each problem.
    std::fs::write(&list, "a\nb\n").expect("it can be written");
    let mut other = stage.worker_spec("other", &spec);
    other.scheduler = listed;
    let mut refused = stage.start_worker(&other);
    assert_eq!(refused.wait().code(), Some(2));
    for place in ["members:1: ", "members:2: "] {
        assert!(refused.output().contains(place), "{}", refused.output());
    }
}

/// Blocks every open of the file like a hanging file system: for `/proc/sys/fs/lease-break-time`, or until this script ends.
const LEASE: &str = "
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
signal.sigwait([signal.SIGIO])
print('opened', flush=True)
sys.stdin.read()
";

#[test]
fn a_worker_ends_while_the_file_that_names_its_scheduler_cannot_be_read() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let list = stage.write("members", &format!("127.0.0.1:{}\n", spec.port));
    let mut lists = stage.worker_spec("lists", &spec);
    lists.scheduler = format!("@{}", list.display());
    let mut worker = stage.start_worker(&lists);
    Client::new(spec.port).wait_healthy(1);
    let said = stage.write("said", "");
    let mut lease = Command::new(python())
        .args(["-I", "-c", LEASE])
        .arg(&list)
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&said).expect("it can be written"))
        .spawn()
        .expect("python3");
    let says = |what: &str| {
        let has_said = || fs::read_to_string(&said).is_ok_and(|text| text.contains(what));
        wait_within(PATIENCE, what, || has_said().then_some(()));
    };
    says("held");
    scheduler.kill_program();
    says("opened");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait().code(), Some(0));
    let nonblocking = OFlag::O_NONBLOCK.bits();
    let open = fs::File::options()
        .read(true)
        .custom_flags(nonblocking)
        .open(&list);
    let error = open.expect_err("it was not let go before").kind();
    assert_eq!(error, ErrorKind::WouldBlock);
    drop(lease.stdin.take());
    assert!(lease.wait().expect("one's own child").success());
}

#[test]
fn a_worker_that_ends_tells_the_end_that_it_has_held_back() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let text = std::fs::read_to_string(&config).expect("it was written");
    let lazy = text.replace(r#""owner": "test""#, r#""owner": "test", "report": "lazy""#);
    assert_ne!(lazy, text);
    std::fs::write(&config, lazy).expect("it can be written");
    stage.hold();
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let mut worker = stage.worker_spec("asks", &spec);
    worker.flags.push("--work-fetch=cluster".to_owned());
    let mut worker = stage.start_worker(&worker);
    client.wait_healthy(1);
    let it_runs = || (stage.alive().len() == 1).then_some(());
    wait_within(PATIENCE, "the task to run", it_runs);
    stage.release();
    let it_is_over = || stage.alive().is_empty().then_some(());
    wait_within(PATIENCE, "the task to end", it_is_over);
    // No other worker could run the task again.
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait().code(), Some(0));
    client.wait_all_done();
}
