//! Tests real programs with a data directory that others change: deleted, unmounted and damaged.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use brasserie_thrift::generated::brasserie::ClusterStatus;
use integration_tests::e2e::WORK_SCRIPT;
use integration_tests::e2e::{
    Client, Finished, HangingDisk, Process, SchedulerSpec, SmallDisk, Stage, wait_for, warn_not_run,
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
    // A scheduler does not start either where the store is missing.
    fs::remove_file(spec.data_dir.join("state.sqlite3")).unwrap();
    for flags in [&["--new-cluster"][..], &[]] {
        let damaged = refused(&stage, &spec, flags);
        assert_eq!(damaged.code, Some(1), "{}", damaged.output);
        let told = damaged.output.matches("this file is missing").count();
        assert_eq!(told, 1, "{}", damaged.output);
    }
    assert!(!spec.data_dir.join("state.sqlite3").exists());
}

/// Checks that the missing store is noticed: the completion is not acknowledged, and every status shows the reason.
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

/// Mounts a small disk at a scheduler's data directory. Returns `None` and prints a warning where that is not permitted.
fn small_disk(spec: &SchedulerSpec, test: &str) -> Option<SmallDisk> {
    match SmallDisk::new(&spec.data_dir, 1024) {
        Ok(disk) => Some(disk),
        Err(error) => {
            warn_not_run(test, &format!("a disk of one's own: {error}"));
            None
        }
    }
}

fn start_on(disk: &SmallDisk, stage: &Stage, spec: &SchedulerSpec) -> Process {
    stage.start("scheduler", disk.command(&stage.scheduler_command(spec)))
}

#[test]
fn a_store_that_was_unmounted_is_not_created_again() {
    let stage = Stage::new();
    let spec = one_task(&stage);
    let test = "a_store_that_was_unmounted_is_not_created_again";
    let Some(disk) = small_disk(&spec, test) else {
        return;
    };
    let _scheduler = start_on(&disk, &stage, &spec);
    let worker = FakeWorker::start(spec.port, "fake");
    Client::new(spec.port).wait_healthy(1);
    let unmounted = disk.shell("umount --lazy \"$0\"");
    assert!(unmounted.status.success(), "{unmounted:?}");
    is_noticed(
        &stage,
        &spec,
        &worker,
        "was replaced by another file or disk",
    );
    // The folder that the test has created lies below the disk.
    assert_eq!(fs::read_dir(&spec.data_dir).unwrap().count(), 0);
}

/// Much longer than a worker may be unhealthy.
const FULL_FOR: Duration = Duration::from_secs(20);

#[test]
fn a_disk_that_is_full_for_long_costs_no_worker_and_no_task() {
    const TASKS: usize = 8;
    let stage = Stage::new();
    let config = stage.write_work(TASKS, Duration::ZERO);
    // Larger than the disk space that a checkpoint of the store's log frees.
    let large = r#"printf '{"result": "done", "data": {"x": "%060000d"}}\n' 0 >"#;
    stage.write_script(
        "work/bin/work.sh",
        &WORK_SCRIPT.replace("echo done >", large),
    );
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let spec = spec.with("--lose-unhealthy-worker-after=5s");
    let spec = spec.with("--heartbeat-grace-period=4s");
    stage.hold();
    let test = "a_disk_that_is_full_for_long_costs_no_worker_and_no_task";
    let Some(disk) = small_disk(&spec, test) else {
        return;
    };
    let _scheduler = start_on(&disk, &stage, &spec);
    let shards = ["a", "b", "c"];
    let mut workers = shards.map(|shard| stage.start_worker(&stage.worker_spec(shard, &spec)));
    let client = Client::new(spec.port);
    client.wait_healthy(workers.len());
    let running = 2 * workers.len();
    wait_for("tasks on every worker", || {
        (stage.records().runs.len() == running).then_some(())
    });
    disk.fill();
    stage.release();
    let cannot_write = |status: &ClusterStatus| has_error(status, "the store cannot write");
    client.wait_until("an error of the store", cannot_write);
    let until = Instant::now() + FULL_FOR;
    wait_for("the end of a long time with a full disk", || {
        for worker in &mut workers {
            assert_eq!(worker.ended(), None, "no worker exits");
        }
        // The store's own attempts free some space, so the disk is filled again.
        disk.fill();
        (Instant::now() > until).then_some(())
    });
    let status = client.wait_healthy(workers.len());
    assert!(cannot_write(&status), "the disk is full all the time");
    // One more task may have started before the store noticed.
    let records = stage.records();
    let finished = records.finished();
    assert_eq!(finished, records.runs.len(), "no task was killed");
    disk.free();
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.overlaps, Vec::<String>::new());
    assert_eq!(records.runs.len(), TASKS, "each task ran once");
    for worker in &mut workers {
        assert_eq!(worker.ended(), None);
    }
}

const NOT_DURABLE: &str = " completion(s) shown here are not yet on disk";

/// Returns the number of completions that a status shows, without those that it marks as not durable.
fn shown_as_durable(status: &ClusterStatus) -> i64 {
    let jobs = status.jobs.iter().flatten();
    let done: i64 = jobs.filter_map(|job| job.done).sum();
    let marked = status.errors.iter().flatten().filter_map(|error| {
        let count = error.split_once(NOT_DURABLE)?.0.rsplit(' ').next()?;
        count.parse::<i64>().ok()
    });
    done - marked.sum::<i64>()
}

/// Kills the scheduler and restarts it without repeated statuses. Returns the number of completions in its store.
fn found_again(mut scheduler: Process, spec: &SchedulerSpec, start: impl Fn() -> Process) -> i64 {
    scheduler.kill_program();
    let _scheduler = start();
    let loaded = |status: &ClusterStatus| status.nodes_loaded == Some(true);
    let status = Client::new(spec.port).wait_until("the store and the nodes", loaded);
    shown_as_durable(&status)
}

#[test]
fn what_is_shown_as_done_while_a_disk_fills_up_is_not_lost() {
    // More than fit on the disk.
    const TASKS: usize = 100;
    let stage = Stage::new();
    let config = stage.write_work(TASKS, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let test = "what_is_shown_as_done_while_a_disk_fills_up_is_not_lost";
    let Some(disk) = small_disk(&spec, test) else {
        return;
    };
    let scheduler = start_on(&disk, &stage, &spec);
    let worker = FakeWorker::start(spec.port, "fake");
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    let reporter = thread::spawn(move || {
        let status = format!(r#"{{"result": "done", "data": {{"x": "{:030000}"}}}}"#, 0);
        let mut acknowledged = 0;
        while worker
            .report(&worker.next_task(), &status)
            .into_result()
            .is_ok()
        {
            acknowledged += 1;
        }
        acknowledged
    });
    let mut shown = 0;
    wait_for("a completion that is not on disk", || {
        let status = client.status()?;
        shown = shown_as_durable(&status).max(shown);
        has_error(&status, NOT_DURABLE).then_some(())
    });
    let acknowledged: i64 = reporter.join().expect("it reports without an error");
    disk.shell("mount -o remount,size=8m \"$0\"");
    let mut again = spec.clone();
    again.flags.retain(|flag| flag != "--new-cluster");
    let start = || start_on(&disk, &stage, &again);
    let found = found_again(scheduler, &spec, start);
    assert!(found >= shown, "{found} were left of {shown}");
    assert!(found >= acknowledged, "{found} were left of {acknowledged}");
}

#[test]
fn what_is_shown_as_done_while_a_disk_hangs_is_marked_and_nobody_waits_for_it() {
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let disk = HangingDisk::new(&stage.path("disk"));
    let start = || {
        disk.recover();
        let mut command = stage.scheduler_command(&spec);
        disk.holds(&spec.data_dir, &mut command);
        stage.start("scheduler", command)
    };
    let scheduler = start();
    let worker = FakeWorker::start(spec.port, "fake");
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    let reported = worker.report(&worker.next_task(), DONE).into_result();
    assert!(reported.is_ok(), "{reported:?}");
    let task = worker.next_task();
    client.wait_until("the first completion", |status| {
        shown_as_durable(status) == 1
    });
    disk.hang();
    let node = task.rt.node.clone().expect("a task has a node");
    let reporter = thread::spawn(move || worker.report(&task, DONE).into_result());
    wait_for("a completion that is not on disk", || {
        let status = client.status()?;
        assert!(shown_as_durable(&status) < 2, "{status:?}");
        has_error(&status, NOT_DURABLE).then_some(())
    });
    for _ in 0..100 {
        let status = client.status().expect("an answer");
        assert_eq!(shown_as_durable(&status), 1, "{status:?}");
    }
    assert_eq!(spec.get("/health/live"), "alive\n");
    let explained = stage.explain(&spec, "work", &node);
    let text = explained.to_string();
    for part in ["not yet stored durably", "\"last_run_error\""] {
        assert!(text.contains(part), "{text}");
    }
    let acknowledged = reporter.join().expect("it reports without an error");
    assert!(acknowledged.is_err(), "{acknowledged:?}");
    assert_eq!(found_again(scheduler, &spec, start), 1);
}
