//! Tests the worker program with a small scheduler that speaks real Thrift, with real processes, signals and restarts.

mod artifacts;
mod fake;
mod hang;
mod hostile;

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::health::timeouts::KEEPER_DELAY;
use brasserie_common::logs::{LogQuery, LogStream};
use brasserie_thrift::generated::common::{
    BistroWorker, KillMethod, KillRequest, NodeResources, Resource, TaskSubprocessOptions,
};
use brasserie_thrift::generated::fb303::{
    FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult, FbStatus,
};
use brasserie_thrift::generated::worker::{
    BistroWorkerGetJobLogsByIDArgs, BistroWorkerGetJobLogsByIDResult,
};
use brasserie_thrift::rpc::CallResult;
use brasserie_worker::logs::{LogConfig, LogStore};
use fake::{Stage, is_alive, pid_in, until_dead, worker_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource as Limited, Rlimit, prlimit};
use tokio::net::TcpListener;
use tokio::time::timeout;

const DONE_BITS: &str = "\"result_bits\":4";
/// The promised time after a `kill -9` and the end of the kill wait.
const PROMISE: Duration = Duration::from_secs(1);

fn logs(stream: &str, job: &str, regex: &str) -> BistroWorkerGetJobLogsByIDArgs {
    BistroWorkerGetJobLogsByIDArgs {
        logtype: stream.to_owned(),
        job_ids: vec![job.to_owned()],
        node_ids: Vec::new(),
        line_id: -1,
        is_ascending: true,
        limit: 100,
        regex_filter: regex.to_owned(),
        invocation: None,
    }
}

async fn check_logs(stage: &mut Stage) {
    let page: CallResult<BistroWorkerGetJobLogsByIDResult> = stage
        .call("getJobLogsByID", &logs("stdout", "job", "^hello"))
        .await;
    let CallResult::Done(page) = page else {
        panic!("{page:?}")
    };
    let lines = page.result_value.expect("a page").lines.expect("lines");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].line.as_deref(), Some("hello node\n"));
    for (query, part) in [
        (logs("stdin", "job", ""), "logtype"),
        (logs("stdout", "job", "("), "regex"),
    ] {
        let refused: CallResult<BistroWorkerGetJobLogsByIDResult> =
            stage.call("getJobLogsByID", &query).await;
        let CallResult::Done(refused) = refused else {
            panic!("{refused:?}")
        };
        let text = refused
            .ex
            .expect("an exception")
            .message
            .expect("a message");
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_may_stand_by_is_answered_with_its_place_and_no_other_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let one_slot = || {
        vec![Resource {
            name: "slots".to_owned(),
            amount: 1,
        }]
    };
    let mut places = Vec::new();
    for (node, may_stand_by) in [("a", true), ("b", true), ("c", true), ("d", false)] {
        let mut task = stage.task("job", node);
        task.node_resources = Some(vec![NodeResources {
            node: "shard".to_owned(),
            resources: one_slot(),
        }]);
        task.worker_slots = may_stand_by.then(one_slot);
        let command = ["/bin/sh", "-c", "sleep 60", "sh"];
        let command = command.map(str::to_owned).to_vec();
        let answer = stage
            .start(&task, command, TaskSubprocessOptions::default())
            .await;
        assert_eq!(answer.ex, None);
        places.push(answer.queued_at);
    }
    assert_eq!(places, [Some(0), Some(1), Some(2), None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_joins_runs_reports_until_acknowledged_and_serves_its_logs() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    let worker = stage.worker().await;
    assert_eq!(worker.shard.as_deref(), Some("shard"));
    assert_eq!(
        (worker.protocol_version, worker.has_worker_command),
        (Some(2), Some(false))
    );
    assert!(worker.machine_lock.expect("a lock").port.expect("a number") >= 65_536);
    let usable = worker.usable_resources.expect("resources");
    assert!(usable.cpu_cores.expect("cores").into_inner() >= 1.0);
    let early = stage.task("job", "too-early");
    let refusal = stage
        .run(&early, "true")
        .await
        .expect_err("not healthy yet");
    assert!(refusal.contains("only a healthy one"), "{refusal}");
    stage.join().await;

    stage.change(|scene| scene.statuses_to_refuse = 2);
    let task = stage.task("job", "node");
    let heard = stage.scene.borrow().statuses.len();
    stage
        .run(&task, "echo hello $1; echo done > $2")
        .await
        .expect("accepted");
    let scene = stage
        .until("third try", |scene| scene.statuses.len() >= heard + 3)
        .await;
    for status in &scene.statuses[heard..] {
        assert_eq!(status.running_task.invocation_id, task.invocation_id);
        assert!(status.status.contains(DONE_BITS), "{}", status.status);
    }

    check_logs(&mut stage).await;
    let status: CallResult<FacebookServiceGetStatusResult> = stage
        .call("getStatus", &FacebookServiceGetStatusArgs {})
        .await;
    let alive = FacebookServiceGetStatusResult {
        result_value: Some(FbStatus::ALIVE),
    };
    assert_eq!(status, CallResult::Done(alive));

    let bare = stage.task("job", "without-command");
    let refusal = stage
        .run_command(&bare, Vec::new())
        .await
        .expect_err("no command");
    assert!(refusal.contains("--worker-command"), "{refusal}");
    kill(stage.keeper(), Signal::SIGINT).expect("sent");
    assert_eq!(stage.code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_kills_a_task_and_then_the_worker() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let (one, two) = (stage.task("job", "one"), stage.task("job", "two"));
    stage.run(&one, "exec sleep 1000").await.expect("accepted");
    stage
        .run(&two, "echo $$ > pid; exec sleep 1000")
        .await
        .expect("accepted");
    let survivor = pid_in(&dir.path().join("jobs/job/pid")).await;
    let at_once = KillRequest {
        method: Some(KillMethod::KILL),
        kill_wait_ms: None,
        reason: None,
    };
    assert_eq!(stage.kill(&one, at_once.clone()).await, None);
    let end = stage.end_of(&one).await;
    assert!(end.contains("ended by the worker"), "{end}");
    let never = stage.task("job", "never");
    let refusal = stage.kill(&never, at_once).await.expect("refused");
    assert!(refusal.contains("does not run here"), "{refusal}");
    assert!(is_alive(survivor));
    stage.request_suicide().await;
    assert_eq!(stage.code().await, Some(1));
    assert!(!is_alive(survivor));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_task_uses_is_told_while_it_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "busy");
    // A child that has left the group does the work.
    let work = "setsid sh -c 'while :; do :; done' & wait";
    stage.run(&task, work).await.expect("accepted");
    let used = loop {
        let running = stage.fetch().await;
        let used = running[0].physical_resources.clone();
        let cpu_time = used.as_ref().and_then(|used| used.cpu_time_ms);
        match used {
            Some(used) if cpu_time > Some(0) => break used,
            Some(_) | None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert!(used.memory_mb.is_some_and(|mb| mb.0 > 0.1), "{used:?}");
    assert!(used.ms_since_epoch > Some(0), "{used:?}");
    stage.request_suicide().await;
    assert_eq!(stage.code().await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_tasks_reports_them_and_says_goodbye() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "trap 'echo done > $2; exit' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    stage.run(&task, script).await.expect("accepted");
    let process = pid_in(&dir.path().join("jobs/job/pid")).await;
    kill(stage.keeper(), Signal::SIGTERM).expect("sent");
    let end = stage.end_of(&task).await;
    assert!(end.contains(DONE_BITS), "the trap had its time: {end}");
    let scene = stage.until("goodbye", |scene| {
        scene
            .heartbeats
            .last()
            .is_some_and(|worker| worker.tasks_are_dead == Some(true))
    });
    let scene = scene.await;
    let goodbyes = scene
        .heartbeats
        .iter()
        .filter(|w| w.tasks_are_dead.is_some())
        .count();
    assert_eq!(goodbyes, 1);
    assert!(!is_alive(process));
    assert_eq!(stage.code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_worker_ends_its_tasks_and_their_descendants() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "setsid sh -c 'echo $$ > escaped; exec env -i sleep 1000' & echo $$ > pid; wait";
    stage.run(&task, script).await.expect("accepted");
    let process = pid_in(&dir.path().join("jobs/job/pid")).await;
    let escaped = pid_in(&dir.path().join("jobs/job/escaped")).await;
    kill(stage.worker_process(), Signal::SIGKILL).expect("killed");
    until_dead(process, PROMISE).await;
    until_dead(escaped, PROMISE).await;
    assert_eq!(stage.code().await, Some(128 + 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_ends_what_worker_and_keeper_left_before_it_is_heard() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let first = stage.worker().await;
    let [plain, bare, after] = ["plain", "bare", "after"].map(|node| stage.task("job", node));
    stage
        .run(&plain, "setsid sh -c 'echo $$ > plain; exec sleep 1000'")
        .await
        .expect("accepted");
    // The kernel kills this process with the worker, because it is the first process of a task.
    stage
        .run(&bare, "echo $$ > bare; exec env -i sleep 1000")
        .await
        .expect("accepted");
    let plain = pid_in(&dir.path().join("jobs/job/plain")).await;
    let bare = pid_in(&dir.path().join("jobs/job/bare")).await;
    // Tasks are listed in the order of their starts, right after each start.
    stage.run(&after, "true").await.expect("accepted");
    stage.end_of(&after).await;
    let worker = stage.worker_process();
    let is_contained = stage.is_contained();
    kill(stage.keeper(), Signal::SIGSTOP).expect("stopped, so that it cannot sweep");
    kill(worker, Signal::SIGKILL).expect("killed");
    kill(stage.keeper(), Signal::SIGKILL).expect("killed");
    assert_eq!(stage.code().await, None);
    match is_contained {
        // The kernel has ended the processes.
        true => {
            until_dead(plain, PROMISE).await;
            until_dead(bare, PROMISE).await;
        }
        false => {
            until_dead(bare, PROMISE).await;
            assert!(is_alive(plain), "nobody is left who could have ended it");
        }
    }

    let mut stage = Stage::open(dir.path(), &[]).await;
    let second = stage.worker().await;
    for pid in [plain, bare] {
        assert!(!is_alive(pid), "process {pid} is alive");
    }
    assert_eq!(second.machine_lock, first.machine_lock);
    let start = |id: Option<brasserie_thrift::generated::common::BistroInstanceID>| {
        id.expect("an id").start_time
    };
    assert!(start(second.id) > start(first.id));
    kill(stage.keeper(), Signal::SIGTERM).expect("sent");
    assert_eq!(stage.code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_command_serves_jobs_without_a_command() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &["--worker-command", "true"]).await;
    assert_eq!(stage.worker().await.has_worker_command, Some(true));
    stage.join().await;
    let task = stage.task("job", "node");
    stage
        .run_command(&task, Vec::new())
        .await
        .expect("accepted");
    let end = stage.end_of(&task).await;
    assert!(end.contains(DONE_BITS), "{end}");
    // The worker ends without a goodbye.
    kill(stage.worker_process(), Signal::SIGKILL).expect("killed");
    assert_eq!(stage.code().await, Some(128 + 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_at_the_start_are_named_and_have_codes() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.worker().await;
    let run = |flags: &[&str]| {
        let command = worker_program("localhost:1", dir.path(), flags)
            .stderr(Stdio::piped())
            .output();
        let output = command.expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = run(&[]);
    assert_eq!(code, Some(3));
    assert!(text.contains("in use"), "{text}");
    let (code, text) = run(&["--scheduler", "localhost:1,share=3"]);
    assert_eq!(code, Some(2));
    assert!(
        text.contains("--scheduler names localhost:1 twice: give each scheduler once"),
        "{text}"
    );
    let (code, text) = run(&["--scheduler", "localhost:2,share=many"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("`many` is not a share"), "{text}");
    let (code, text) = run(&["--listen", "0.0.0.0:1"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--insecure-network"), "{text}");
    kill(stage.keeper(), Signal::SIGHUP).expect("sent");
    assert_eq!(stage.code().await, Some(0));
}

/// The time for which a scheduler is away.
#[derive(Clone, Copy, Debug)]
enum Absence {
    None,
    /// The scheduler is away until the worker has tried to reach it.
    Noticed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_scheduler_hears_of_a_healthy_worker_long_before_its_heartbeat_is_due() {
    let dir = tempfile::tempdir().expect("a folder");
    // No heartbeat is due during the test: each one after joining was sent because the connection broke.
    let mut stage = Stage::open(dir.path(), &["--heartbeat-period", "1h"]).await;
    stage.check_health().await;
    // The worker is HEALTHY once it accepts a task; an invocation that was refused stays refused.
    let taken = timeout(fake::PATIENCE, async {
        loop {
            let task = stage.task("job", "node");
            if stage.run(&task, "exec sleep 1000").await.is_ok() {
                break task;
            }
        }
    });
    let task = taken.await.expect("it becomes HEALTHY");
    for absence in [Absence::None, Absence::Noticed] {
        let address = stage.stop().await;
        let before = stage.scene.borrow().heartbeats.len();
        match absence {
            Absence::None => {}
            Absence::Noticed => {
                let nobody = TcpListener::bind(address).await.expect("the same port");
                let tried = timeout(fake::PATIENCE, nobody.accept()).await;
                // The worker notices only the end of the connection.
                drop(tried.expect("it tries").expect("a connection"));
            }
        }
        stage.start_again(address).await;
        // The second heartbeat echoes the new scheduler's worker set: the association continues without a wait, too.
        stage
            .until("heartbeats at the new instance", |scene| {
                scene.heartbeats.len() >= before + 2
            })
            .await;
        let running = stage.fetch().await;
        assert_eq!(running.len(), 1);
        assert_eq!(running[0].invocation_id, task.invocation_id);
    }
    kill(stage.worker_process(), Signal::SIGKILL).expect("killed");
    assert_eq!(stage.code().await, Some(128 + 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_must_die_takes_its_tasks_along() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    stage.run(&task, script).await.expect("accepted");
    let process = pid_in(&dir.path().join("jobs/job/pid")).await;
    stage.change(|scene| scene.worker_state = fake::MUST_DIE);
    assert_eq!(stage.code().await, Some(1));
    assert!(
        !is_alive(process),
        "KILL follows TERM after the task's own wait"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tasks_of_a_stopped_worker_are_dead_before_they_run_elsewhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    // The worker's own timers make it unhealthy two seconds after its last heartbeat, and let it die a second later.
    stage.change(|scene| scene.short_times = Some((1, 2)));
    let task = stage.task("job", "node");
    stage
        .run(&task, "trap '' TERM; echo $$ > pid; exec sleep 1000")
        .await
        .expect("accepted");
    let pid = pid_in(&dir.path().join("jobs/job/pid")).await;
    // The task outlives the lifetime of any single heartbeat.
    let count = stage.scene.borrow().heartbeats.len();
    stage
        .until("heartbeats", |scene| scene.heartbeats.len() >= count + 6)
        .await;
    assert!(is_alive(pid));
    let worker = stage.worker_process();
    kill(worker, Signal::SIGSTOP).expect("sent");
    let own_time = Duration::from_secs(3);
    // A scheduler relies on the death a second later.
    let kill_wait = Duration::from_millis(100);
    until_dead(pid, own_time + kill_wait + KEEPER_DELAY + PROMISE).await;
    until_dead(worker, PROMISE).await;
    assert_eq!(stage.code().await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_stopped_for_a_moment_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    stage
        .run(&task, "echo $$ > pid; exec sleep 1000")
        .await
        .expect("accepted");
    let pid = pid_in(&dir.path().join("jobs/job/pid")).await;
    let worker = stage.worker_process();
    kill(worker, Signal::SIGSTOP).expect("sent");
    let stopped = |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        stat.contains(") T ")
    };
    while !stopped(worker) {
        tokio::task::yield_now().await;
    }
    kill(worker, Signal::SIGCONT).expect("sent");
    let count = stage.scene.borrow().heartbeats.len();
    stage
        .until("heartbeats", |scene| scene.heartbeats.len() >= count + 3)
        .await;
    assert!(is_alive(pid));
    stage.request_suicide().await;
    assert_eq!(stage.code().await, Some(1));
    assert!(!is_alive(pid));
}

/// Returns the number of numbered lines in a task's log, after checking that they are complete and in order.
fn logged_numbers(dir: &Path) -> usize {
    let clock = Arc::new(|| WallTime::from_secs(0));
    let logs = LogStore::open(LogConfig::new(dir.join("logs")), clock).expect("usable");
    let mut query = LogQuery {
        stream: LogStream::Stdout,
        jobs: Vec::new(),
        nodes: Vec::new(),
        from: None,
        ascending: true,
        limit: 20_000,
        regex: String::new(),
        invocation: None,
    };
    let mut count = 0;
    loop {
        let page = logs.query(&query).expect("a valid question");
        for line in &page.lines {
            assert_eq!(line.line, format!("{count}\n"));
            count += 1;
        }
        match page.next {
            Some(next) => query.from = Some(next),
            None => return count,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_worker_costs_the_last_second_of_the_log_at_most() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "i=0; while :; do echo $i; echo $i >> written; i=$((i+1)); sleep 0.01; done";
    stage.run(&task, script).await.expect("accepted");
    let written = || {
        let text = std::fs::read_to_string(dir.path().join("jobs/job/written"));
        text.unwrap_or_default().lines().count()
    };
    let patience = std::time::Instant::now() + fake::PATIENCE;
    while written() < 100 {
        assert!(std::time::Instant::now() < patience, "nothing is written");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Lines that are a second old at the end must not be lost.
    let safe = written();
    tokio::time::sleep(Duration::from_secs(1)).await;
    kill(stage.worker_process(), Signal::SIGKILL).expect("killed");
    assert_eq!(stage.code().await, Some(128 + 9));
    let found = logged_numbers(dir.path());
    assert!(
        found >= safe,
        "{found} of the {safe} lines that were a second old"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_a_worker_whose_start_waits() {
    let text = signalled_while_starting(&[]).await;
    let named = ["SIGTERM came while process", "ended by SIGTERM before"];
    assert!(named.iter().any(|part| text.contains(part)), "{text}");
    // The run that has sent the signal reports why it ends.
    assert_eq!(signalled_while_starting(&["--of-run"]).await, "");
}

/// Returns the output of a worker with these flags that gets SIGTERM while its start waits for the program that lists GPUs.
async fn signalled_while_starting(flags: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let (smi, began) = (dir.path().join("smi"), dir.path().join("began"));
    let script = format!("#!/bin/sh\n: > {}\nexec sleep 100\n", began.display());
    std::fs::write(&smi, script).expect("written");
    std::fs::set_permissions(&smi, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let data = dir.path().join("data");
    let mut program = worker_program("localhost:1", &data, flags);
    program.arg("--nvidia-smi").arg(&smi);
    let program = program.stdin(Stdio::piped()).stderr(Stdio::piped());
    let program = program.spawn().expect("it starts");
    let waits = async {
        while !began.exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(fake::PATIENCE, waits).await.expect("it waits");
    let keeper = Pid::from_raw(i32::try_from(program.id()).expect("an id"));
    kill(keeper, Signal::SIGTERM).expect("sent");
    let ended = tokio::task::spawn_blocking(move || program.wait_with_output());
    let ended = timeout(fake::PATIENCE, ended).await;
    if ended.is_err() {
        kill(keeper, Signal::SIGKILL).expect("killed");
    }
    let output = ended.expect("it ends").expect("no panic").expect("read");
    assert_eq!(output.status.code(), Some(128 + 15));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_logs_what_it_ends() {
    let dir = tempfile::tempdir().expect("a folder");
    let in_groups: &[&str] = match fake::IN_GROUPS {
        true => &[],
        false => &["--contain", "process-groups"],
    };
    let mut stage = Stage::open(dir.path(), in_groups).await;
    stage.worker().await;
    let worker = stage.worker_process();
    kill(stage.keeper(), Signal::SIGSTOP).expect("stopped, so that it cannot sweep");
    kill(worker, Signal::SIGKILL).expect("killed");
    kill(stage.keeper(), Signal::SIGKILL).expect("killed");
    assert_eq!(stage.code().await, None);
    let state = std::fs::read_to_string(dir.path().join("worker.json")).expect("stored");
    let state: serde_json::Value = serde_json::from_str(&state).expect("JSON");
    let mut left = Command::new("sleep")
        .arg("1000")
        .env(
            "BRASSERIE_KEPT",
            state["marker"].as_str().expect("a marker"),
        )
        .spawn()
        .expect("started");

    let mut successor = worker_program("localhost:1", dir.path(), &[]);
    let mut successor = successor.stderr(Stdio::piped()).spawn().expect("started");
    let lines = BufReader::new(successor.stderr.take().expect("piped")).lines();
    let named = format!("processes={}", left.id());
    let logged = tokio::task::spawn_blocking(move || {
        let mut lines = lines.map_while(Result::ok);
        let line = lines.find(|line| line.contains("left running") || line.contains("takes calls"));
        // The pipe stays open.
        (line.unwrap_or_default(), lines)
    });
    let logged = timeout(fake::PATIENCE, logged).await;
    let keeper = Pid::from_raw(i32::try_from(successor.id()).expect("an id"));
    kill(keeper, Signal::SIGTERM).expect("sent");
    successor.wait().expect("it ends");
    let was_alive = matches!(left.try_wait(), Ok(None));
    let _ = left.kill();
    let _ = left.wait();
    let (line, _lines) = logged.expect("it logs").expect("no panic");
    assert!(
        line.contains("left running") && line.contains(&named),
        "{line}"
    );
    assert!(!was_alive, "it was killed before the worker began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_worker_without_free_descriptors_ends_with_its_keeper() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &["--on-sigterm", "drain"]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "echo $$ > pid; exec sleep 1000";
    stage.run(&task, script).await.expect("accepted");
    let process = pid_in(&dir.path().join("jobs/job/pid")).await;
    let worker = stage.worker_process();
    let none = Rlimit {
        current: Some(3),
        maximum: Some(3),
    };
    let number = rustix::process::Pid::from_raw(worker.as_raw());
    prlimit(number, Limited::Nofile, none).expect("limited");
    kill(stage.keeper(), Signal::SIGKILL).expect("killed");
    until_dead(process, fake::PATIENCE).await;
    until_dead(worker, fake::PATIENCE).await;
    assert_eq!(stage.code().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_drains_ends_at_once_when_its_keeper_dies() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &["--on-sigterm", "drain"]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "echo $$ > pid; exec sleep 1000";
    stage.run(&task, script).await.expect("accepted");
    let process = pid_in(&dir.path().join("jobs/job/pid")).await;
    let worker = stage.worker_process();
    kill(stage.keeper(), Signal::SIGTERM).expect("sent");
    let drains = |worker: &BistroWorker| worker.draining == Some(true);
    stage
        .until("the drain", |scene| scene.heartbeats.iter().any(drains))
        .await;
    assert!(is_alive(process), "it ends by itself");
    kill(stage.keeper(), Signal::SIGKILL).expect("killed");
    until_dead(process, fake::PATIENCE).await;
    until_dead(worker, fake::PATIENCE).await;
    assert_eq!(stage.code().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_of_the_worker_leaves_running_is_no_task_s() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("cards");
    std::fs::create_dir(&folder).expect("created");
    let program = folder.join("nvidia-smi");
    // The worker adopts the program's child, which carries no sign of a task.
    let script = format!(
        "#!/bin/sh\ncd '{}' && mkdir once 2>/dev/null || exit 0\nenv -i sleep 1000 >/dev/null 2>&1 &\necho $! > new; mv new pid\n",
        folder.display()
    );
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("set");
    let smi = program.to_str().expect("a plain name");
    let data_dir = dir.path().join("data");
    let mut stage = Stage::open(&data_dir, &["--nvidia-smi", smi]).await;
    let left = pid_in(&folder.join("pid")).await;
    stage.join().await;
    let task = stage.task("job", "node");
    stage.run(&task, "echo done > $2").await.expect("accepted");
    let status = stage.end_of(&task).await;
    assert!(status.contains(DONE_BITS), "{status}");
    assert!(is_alive(left), "the end of a task has killed it");
    kill(stage.keeper(), Signal::SIGTERM).expect("sent");
    assert_eq!(stage.code().await, Some(0));
    until_dead(left, fake::PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_inherits_no_pipe_but_that_of_its_keeper() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.worker().await;
    let pipes = |pid: Pid| -> BTreeSet<PathBuf> {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
        let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links
            .filter(|link| link.to_string_lossy().starts_with("pipe:"))
            .collect()
    };
    let (of_worker, of_keeper) = (pipes(stage.worker_process()), pipes(stage.keeper()));
    assert!(
        of_worker.is_subset(&of_keeper),
        "{of_worker:?} {of_keeper:?}"
    );
    kill(stage.keeper(), Signal::SIGTERM).expect("sent");
    assert_eq!(stage.code().await, Some(0));
}
