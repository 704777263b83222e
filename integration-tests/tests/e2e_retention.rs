//! Tests a real scheduler that deletes completions of missing nodes and jobs, is killed meanwhile, and fills its disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use brasserie_thrift::generated::brasserie::ClusterStatus;
use integration_tests::e2e::{
    Client, Process, SchedulerSpec, SmallDisk, Stage, wait_for, warn_not_run, write_history,
};
use rusqlite::Connection;

/// Number of tasks of an existing job on existing nodes.
const KEPT: usize = 8;
/// Number of completions of missing nodes, and of a job that is not in the file.
const GONE: usize = 15_000;
/// Size of the disk; the store takes some five megabytes.
const DISK_KIB: u32 = 32 * 1024;

/// Returns a scheduler that deletes completions of nodes and jobs that have been missing for `seconds`.
fn forgetful(stage: &Stage, seconds: usize) -> SchedulerSpec {
    let config = stage.write_work(KEPT, Duration::ZERO);
    let flag = format!("--keep-missing-for={seconds}s");
    let mut spec = stage.calm_spec(&config).with(&flag);
    // The test writes its directory before it starts.
    spec.flags.retain(|flag| flag != "--new-cluster");
    spec
}

fn write(folder: &Path) {
    let kept = ("work", "n", KEPT);
    write_history(
        folder,
        &[kept, ("work", "gone", GONE), ("deleted", "n", GONE)],
    );
}

/// Returns the number of the scheduler's completions, once every existing task is shown as done.
fn completions(status: &ClusterStatus) -> Option<usize> {
    if status.nodes_loaded != Some(true) {
        return None;
    }
    let mut jobs = status.jobs.iter().flatten();
    let work = jobs.find(|job| job.name.as_deref() == Some("work"))?;
    let counts = (work.total, work.done);
    let all = i64::try_from(KEPT).ok();
    assert_eq!(counts, (all, all), "a completion is lost: {status:?}");
    let completions = status.store.as_ref()?.completions?;
    usize::try_from(completions).ok()
}

/// Kills a scheduler once it has deleted some completions. `None` if it has deleted all of them, because this machine was too busy.
fn killed_while_it_forgets(stage: &Stage, spec: &SchedulerSpec) -> Option<usize> {
    let mut scheduler = stage.start_scheduler(spec);
    let client = Client::new(spec.port);
    let left = wait_for("fewer completions", || {
        completions(&client.status()?).filter(|left| *left < KEPT + 2 * GONE)
    });
    scheduler.kill_program();
    (left > KEPT).then_some(left)
}

#[test]
fn a_scheduler_that_is_killed_while_it_forgets_loses_nothing_of_what_exists() {
    let stage = Stage::new();
    let spec = forgetful(&stage, 1);
    wait_for("a kill while it forgets", || {
        let _ = fs::remove_dir_all(&spec.data_dir);
        write(&spec.data_dir);
        killed_while_it_forgets(&stage, &spec)
    });
    let file = spec.data_dir.join("state.sqlite3");
    let size = || fs::metadata(&file).map_or(0, |file| file.len());
    let before = size();
    let client = Client::new(spec.port);
    // The file begins to shrink once all are deleted.
    let mut scheduler = stage.start_scheduler(&spec);
    wait_for("the last one to go", || {
        completions(&client.status()?).filter(|left| *left == KEPT)
    });
    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    wait_for("a small store", || {
        let left = completions(&client.status()?)?;
        (left == KEPT && size() < before / 8).then_some(())
    });
}

fn start_on(disk: &SmallDisk, stage: &Stage, spec: &SchedulerSpec) -> Process {
    stage.start("scheduler", disk.command(&stage.scheduler_command(spec)))
}

#[test]
fn a_full_disk_stops_forgetting_only_as_long_as_it_is_full() {
    let test = "a_full_disk_stops_forgetting_only_as_long_as_it_is_full";
    let stage = Stage::new();
    // Long enough for a busy machine to fill the disk before the last completion is deleted.
    let spec = forgetful(&stage, 20);
    let disk = match SmallDisk::new(&spec.data_dir, DISK_KIB) {
        Ok(disk) => disk,
        Err(error) => return warn_not_run(test, &format!("a disk of one's own: {error}")),
    };
    let elsewhere = stage.path("elsewhere");
    write(&elsewhere);
    // A large log would need no more space on the full disk. The connection stays open until the log is copied, because closing it removes
    // the log.
    let store = Connection::open(elsewhere.join("state.sqlite3")).expect("a database");
    let emptied = store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0));
    assert_eq!(emptied, Ok(0), "it is in use");
    let copied = disk.shell(&format!("cp -p '{}'/* \"$0\"", elsewhere.display()));
    assert!(copied.status.success(), "{copied:?}");
    drop(store);
    let client = Client::new(spec.port);
    let mut scheduler = start_on(&disk, &stage, &spec);
    client.wait_until("the nodes", |status| status.nodes_loaded == Some(true));
    disk.fill();
    client.wait_until("an error of the store", |status| {
        let mut errors = status.errors.iter().flatten();
        errors.any(|error| error.contains("the store cannot write"))
    });
    let left = wait_for("a store that was measured", || {
        completions(&client.status()?)
    });
    assert!(left > KEPT, "it had nothing to write");
    scheduler.kill_program();
    disk.free();
    let _scheduler = start_on(&disk, &stage, &spec);
    wait_for("a small store", || {
        let left = completions(&client.status()?)?;
        let size = disk.shell("stat -c %s \"$0/state.sqlite3\"").stdout;
        let size: u32 = String::from_utf8_lossy(&size).trim().parse().ok()?;
        (left == KEPT && size < 1 << 20).then_some(())
    });
}
