//! The scheduler's data directory in the hands of others: deleted, unmounted and damaged, under real programs.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use brasserie_thrift::generated::brasserie::ClusterStatus;
use integration_tests::e2e::WORK_SCRIPT;
use integration_tests::e2e::{
    Client, Finished, Process, SchedulerSpec, Stage, wait_for, warn_not_run,
};
use integration_tests::fake_worker::FakeWorker;

const DONE: &str = r#"{"result": "done"}"#;

fn one_task(stage: &Stage) -> SchedulerSpec {
    let config = stage.write_work(1, Duration::ZERO);
    stage.calm_spec(&config)
}

fn has_error(status: &ClusterStatus, text: &str) -> bool {
    let mut errors = status.errors.iter().flatten();
    errors.any(|error| error.contains(text))
}

/// Runs a scheduler that is expected to refuse its directory.
fn refused(stage: &Stage, spec: &SchedulerSpec, flags: &[&str]) -> Finished {
    let mut command = stage.scheduler_command(spec);
    command.args(flags);
    stage.finish("scheduler", command)
}

#[test]
fn a_new_cluster_begins_in_a_new_directory_only() {
    let stage = Stage::new();
    let spec = one_task(&stage);
    let mut scheduler = stage.start_scheduler(&spec);
    Client::new(spec.port).wait_until("an answer", |_| true);
    let _worker = FakeWorker::start(spec.port, "fake");
    Client::new(spec.port).wait_healthy(1);
    scheduler.kill_program();
    let again = refused(&stage, &spec, &["--new-cluster"]);
    assert_eq!(again.code, Some(2), "{}", again.output);
    for text in ["--new-cluster is refused", "Leave the flag out"] {
        assert!(again.output.contains(text), "{}", again.output);
    }
    // Nor does it begin where the store was.
    fs::remove_file(spec.data_dir.join("state.sqlite3")).unwrap();
    for flags in [&["--new-cluster"][..], &[]] {
        let damaged = refused(&stage, &spec, flags);
        assert_eq!(damaged.code, Some(1), "{}", damaged.output);
        let text = "this file is missing";
        assert!(damaged.output.contains(text), "{}", damaged.output);
    }
    assert!(!spec.data_dir.join("state.sqlite3").exists());
}

/// The store is gone: the end of the task is not acknowledged, and everybody who asks learns why.
fn is_noticed(stage: &Stage, spec: &SchedulerSpec, worker: &FakeWorker, what: &str) {
    let task = worker.next_task();
    let answer = worker.report(&task, DONE).into_result();
    assert!(answer.is_err(), "acknowledged: {answer:?}");
    let client = Client::new(spec.port);
    let status = client.wait_until(what, |status| has_error(status, what));
    let mut jobs = status.jobs.iter().flatten();
    assert!(!jobs.any(|job| job.settled == Some(true)), "{status:?}");
    let shown = stage.brasserie(&["status", "--scheduler", &format!("127.0.0.1:{}", spec.port)]);
    assert!(shown.output.contains(what), "{}", shown.output);
}

#[test]
fn a_store_that_was_deleted_is_noticed() {
    let stage = Stage::new();
    let spec = one_task(&stage);
    let scheduler = stage.start_scheduler(&spec);
    let worker = FakeWorker::start(spec.port, "fake");
    Client::new(spec.port).wait_healthy(1);
    fs::remove_dir_all(&spec.data_dir).unwrap();
    is_noticed(&stage, &spec, &worker, "was deleted or unmounted");
    scheduler.wait_for_output("was deleted or unmounted");
    assert!(!spec.data_dir.exists(), "nothing is created in its place");
}

/// A scheduler with a small disk of its own at its data directory, in a mount namespace that ends with it; `None`, said aloud, where that is
/// not permitted.
fn start_on_disk(stage: &Stage, spec: &SchedulerSpec, test: &str) -> Option<Process> {
    fs::create_dir(&spec.data_dir).expect("a folder in a temporary folder");
    let mount = "mount -t tmpfs -o size=1m,mode=700 none \"$0\"";
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
        command.arg(&spec.data_dir);
        command
    };
    let tried = inside(mount).output();
    let allowed = tried.as_ref().is_ok_and(|output| output.status.success());
    if !allowed {
        warn_not_run(test, &format!("a disk of one's own: {tried:?}"));
        return None;
    }
    let scheduler = stage.scheduler_command(spec);
    let mut command = inside(&format!("{mount} && exec \"$@\""));
    command
        .arg(scheduler.get_program())
        .args(scheduler.get_args());
    Some(stage.start("scheduler", command))
}

#[test]
fn a_store_that_was_unmounted_is_not_created_again() {
    let stage = Stage::new();
    let spec = one_task(&stage);
    let test = "a_store_that_was_unmounted_is_not_created_again";
    let Some(scheduler) = start_on_disk(&stage, &spec, test) else {
        return;
    };
    let worker = FakeWorker::start(spec.port, "fake");
    Client::new(spec.port).wait_healthy(1);
    let inside = Command::new("nsenter")
        .args(["--mount", "--target", &scheduler.id().to_string()])
        .args(["umount", "--lazy"])
        .arg(&spec.data_dir)
        .output()
        .unwrap();
    assert!(inside.status.success(), "{inside:?}");
    is_noticed(
        &stage,
        &spec,
        &worker,
        "was replaced by another file or disk",
    );
    // Below the disk lies the folder that the test has made.
    assert_eq!(fs::read_dir(&spec.data_dir).unwrap().count(), 0);
}

/// Much longer than a worker may be unhealthy.
const FULL_FOR: Duration = Duration::from_secs(20);

#[test]
fn a_disk_that_is_full_for_long_costs_no_worker_and_no_task() {
    const TASKS: usize = 8;
    let stage = Stage::new();
    let config = stage.write_work(TASKS, Duration::ZERO);
    // Larger than what a checkpoint of the store's log gives back to the disk.
    let large = r#"printf '{"result": "done", "data": {"x": "%060000d"}}\n' 0 >"#;
    stage.write_script(
        "work/bin/work.sh",
        &WORK_SCRIPT.replace("echo done >", large),
    );
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let spec = spec.with("--lose-unhealthy-worker-after=5s");
    let spec = spec.with("--heartbeat-grace-period=4s");
    stage.hold();
    let Some(scheduler) = start_on_disk(
        &stage,
        &spec,
        "a_disk_that_is_full_for_long_costs_no_worker_and_no_task",
    ) else {
        return;
    };
    let shards = ["a", "b", "c"];
    let mut workers = shards.map(|shard| stage.start_worker(&stage.worker_spec(shard, &spec)));
    let client = Client::new(spec.port);
    client.wait_healthy(workers.len());
    let running = 2 * workers.len();
    wait_for("tasks on every worker", || {
        (stage.records().runs.len() == running).then_some(())
    });
    let on_disk = |script: &str| {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &scheduler.id().to_string()]);
        command.args(["sh", "-c", script]).arg(&spec.data_dir);
        command.output().expect("nsenter can be started")
    };
    let fill = "cat /dev/zero > \"$0/filler\"; test -s \"$0/filler\"";
    assert!(on_disk(fill).status.success());
    stage.release();
    let cannot_write = |status: &ClusterStatus| has_error(status, "the store cannot write");
    client.wait_until("an error of the store", cannot_write);
    let until = Instant::now() + FULL_FOR;
    wait_for("the end of a long time with a full disk", || {
        for worker in &mut workers {
            assert_eq!(worker.ended(), None, "no worker exits");
        }
        // The store's own attempts give some of it back.
        on_disk("cat /dev/zero >> \"$0/filler\"");
        (Instant::now() > until).then_some(())
    });
    let status = client.wait_healthy(workers.len());
    assert!(cannot_write(&status), "the disk is full all the time");
    // One more may have started before the store noticed.
    let records = stage.records();
    let finished = records.finished();
    assert_eq!(finished, records.runs.len(), "no task was killed");
    assert!(on_disk("rm \"$0/filler\"").status.success());
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.overlaps, Vec::<String>::new());
    assert_eq!(records.runs.len(), TASKS, "each task ran once");
    for worker in &mut workers {
        assert_eq!(worker.ended(), None);
    }
}
