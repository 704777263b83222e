//! Tests that the store returns exactly what was recorded, recovers from its failures, and refuses files that it does not understand.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::{
    Artifact, ArtifactForm, ArtifactId, EndedBy, Ending, Fault, FenceGeneration, Hold,
    InvocationId, JobName, MachinePortLock, NodeName, OutputPath, RecordSeq, SchedulerId, Shard,
    Story, TaskKey, TaskOutput, Timeouts, WallTime, WorkerId,
};
use brasserie_scheduler_core::{
    AfterDecommission, ClusterId, Decommission, DeletionNumber, Durable, EndedTask, Exit, ExitWay,
    ForgottenTask, GivenStretch, GivenTimes, InstanceRecord, ItemName, JobVersion, KeptConfig,
    KeptStory, LeftCause, LeftInstance, LostOutputs, MAX_LEFT, OrderStage, Record, SavedJob, Trim,
    WorkerOrder,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proptest::prelude::*;
use rusqlite::Connection;

use super::queue::WriterWork;
use super::schema::{Database, STEPS, SchemaStep};
use super::*;

/// Long enough for a slow disk. A test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a time after the end of any test.
fn never() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}

fn ended(job: &str, node: &str, rand: i64) -> EndedTask {
    EndedTask {
        job: JobName::try_from(job).unwrap(),
        node: NodeName::try_from(node).unwrap(),
        invocation: InvocationId::new(17, rand),
        status: StoredStatus {
            bits: StatusBits::DONE,
            time: WallTime::from_millis(1_700_000_000_123),
            backoff_seconds: 0,
            safety_seconds: 0,
            data: None,
        },
        story: None,
        outputs: Vec::new(),
    }
}

fn output(path: &str, content: u8) -> TaskOutput {
    TaskOutput {
        path: OutputPath::try_from(path).unwrap(),
        artifact: Artifact {
            id: ArtifactId([content; 32]),
            size: 1 << 40,
            form: ArtifactForm::File,
        },
    }
}

fn task_ended() -> impl Strategy<Value = EndedTask> {
    let data = proptest::option::of(("[a-z\u{e9}\"\\\\]{0,6}", any::<i64>()));
    (
        0..4_u8,
        0..5_u8,
        any::<i64>(),
        any::<u16>(),
        any::<i32>(),
        any::<(u32, u32)>(),
        (data, proptest::collection::vec(any_output(), 0..3)),
    )
        .prop_map(
            |(job, node, rand, bits, time, (backoff_seconds, safety_seconds), (data, outputs))| {
                EndedTask {
                    outputs,
                    invocation: InvocationId::new(i64::from(time), rand),
                    status: StoredStatus {
                        bits: StatusBits(bits),
                        time: WallTime::from_millis(i64::from(time)),
                        backoff_seconds,
                        safety_seconds,
                        data: data.map(|(key, value)| {
                            Arc::new([(key, value.into())].into_iter().collect())
                        }),
                    },
                    ..ended(
                        &format!("job '{job}"),
                        &format!("node \"{node}\u{1F35D}"),
                        0,
                    )
                }
            },
        )
}

fn any_output() -> impl Strategy<Value = TaskOutput> {
    ("[a-z'\"]{1,3}/?", any::<[u8; 32]>(), any::<u64>()).prop_map(|(path, id, size)| TaskOutput {
        path: OutputPath::try_from(path.as_str()).unwrap(),
        artifact: Artifact {
            id: ArtifactId(id),
            size,
            form: ArtifactForm::File,
        },
    })
}

fn worker() -> impl Strategy<Value = WorkerId> {
    (0..3_i64, 0..2_i64).prop_map(|(start, rand)| WorkerId::new(start, rand))
}

/// Generates one of few names, so that records affect the same rows.
fn job_name() -> impl Strategy<Value = JobName> {
    (0..3_u8).prop_map(|n| JobName::try_from(format!("job '{n}")).unwrap())
}

fn record() -> impl Strategy<Value = Record> {
    let cause = prop_oneof![
        Just(LeftCause::CleanExit),
        Just(LeftCause::Lost),
        Just(LeftCause::Replaced),
        Just(LeftCause::DidNotReturn),
        Just(LeftCause::Forgotten)
    ];
    let nanos = any::<u32>().prop_map(|n| Duration::from_nanos(u64::from(n)));
    prop_oneof![
        job_name().prop_map(|job| Record::OutputsExpired { job }),
        worker_ordered(),
        (any::<u64>(), 0..3_i64, 0..3_u64).prop_map(|(cluster, start, wait)| {
            Record::SchedulerStarted {
                generation: FenceGeneration(cluster as u32),
                wait: Duration::from_secs(wait),
                cluster: ClusterId(cluster),
                scheduler: SchedulerId::new(start, -1),
            }
        }),
        any::<u32>().prop_map(|generation| Record::FenceRaised {
            generation: FenceGeneration(generation)
        }),
        (worker(), "[a-z']{0,5}", any::<i32>(), nanos.clone()).prop_map(
            |(worker, shard, port, period)| {
                let instance = InstanceRecord {
                    shard: Shard::try_from(shard.as_str()).unwrap(),
                    machine_lock: MachinePortLock {
                        hostname: shard.as_str().into(),
                        port,
                    },
                    heartbeat_period: period,
                    timeouts: Timeouts {
                        suicide_task_kill_wait: period,
                        ..Timeouts::default()
                    },
                    // Derived from the instance, because it never changes for one.
                    since: DeletionNumber(worker.0.start_time.unsigned_abs() % 4),
                };
                Record::WorkerAssociated { worker, instance }
            }
        ),
        (
            worker(),
            cause,
            proptest::collection::vec(task_ended(), 0..4),
            nanos.clone()
        )
            .prop_map(|(worker, cause, tasks, hold_back)| Record::WorkerLeft {
                worker,
                cause,
                wall: WallTime::from_millis(i64::from(hold_back.subsec_nanos())),
                tasks,
                hold_back
            }),
        of_jobs(),
        nanos.prop_map(|wait| Record::HoldBack { wait }),
        Just(Record::HoldBackOver),
        history_trimmed(),
        task_ended().prop_map(Record::TaskEnded),
    ]
}

/// Generates records about jobs and node sources.
fn of_jobs() -> impl Strategy<Value = Record> {
    prop_oneof![
        (
            job_name(),
            any::<(i32, i64, i64, bool)>(),
            "[{\u{e9}'\"}]{0,6}"
        )
            .prop_map(|(job, (version, created, modified, is_owned), text)| {
                Record::JobSaved {
                    job,
                    saved: SavedJob {
                        version: JobVersion(version.into()),
                        created: WallTime::from_millis(created),
                        modified: WallTime::from_millis(modified),
                        owner: is_owned.then(|| text.as_str().into()),
                        text: text.into(),
                    },
                }
            }),
        (job_name(), any::<i32>()).prop_map(|(job, version)| Record::JobDeleted {
            job,
            version: JobVersion(version.into())
        }),
        (
            job_name(),
            prop_oneof![Just(Hold::Paused), Just(Hold::Cancelled)]
        )
            .prop_map(|(job, hold)| Record::JobHeld { job, hold }),
        job_name().prop_map(|job| Record::JobResumed { job }),
        proptest::collection::vec(task_ended(), 0..4)
            .prop_map(|tasks| Record::TasksForgiven { tasks }),
        times_given(),
        history_deleted(),
        outputs_forgotten(),
        ("[a-z/.']{0,6}", "[{\u{e9}'\"}]{0,6}", any::<i64>()).prop_map(|(path, text, since)| {
            let config = KeptConfig {
                path: path.into(),
                text: text.into(),
                since: WallTime::from_millis(since),
            };
            Record::ConfigKept { config }
        }),
    ]
}

fn decommission() -> impl Strategy<Value = Decommission> {
    let exit = (worker(), any::<bool>()).prop_map(|(worker, kills)| Exit {
        worker,
        way: match kills {
            true => ExitWay::Kill,
            false => ExitWay::Drain,
        },
    });
    let deadline = any::<i64>().prop_map(WallTime::from_millis);
    let then = prop_oneof![Just(AfterDecommission::Exit), Just(AfterDecommission::Idle)];
    let (deadline, exit) = (proptest::option::of(deadline), proptest::option::of(exit));
    let lost = proptest::option::of(any::<(u64, u64)>());
    (deadline, then, exit, lost).prop_map(|(deadline, then, exit, lost)| Decommission {
        deadline,
        then,
        exit,
        lost: lost.map(|(artifacts, bytes)| LostOutputs { artifacts, bytes }),
    })
}

fn worker_ordered() -> impl Strategy<Value = Record> {
    let stage = prop_oneof![
        Just(OrderStage::Excluded),
        decommission().prop_map(OrderStage::Decommissioning),
        decommission().prop_map(OrderStage::Decommissioned),
    ];
    let order = (stage, "[{\u{e9}'\"}]{0,6}", any::<i64>());
    let order = order.prop_map(|(stage, text, since)| WorkerOrder {
        stage,
        reason: text.as_str().into(),
        by: text.into(),
        since: WallTime::from_millis(since),
    });
    ("[a-c']{1,2}", proptest::option::of(order)).prop_map(|(shard, order)| Record::WorkerOrdered {
        shard: Shard::try_from(shard.as_str()).expect("a short name"),
        order,
    })
}

fn outputs_forgotten() -> impl Strategy<Value = Record> {
    let tasks = proptest::collection::vec(task_ended(), 0..4);
    (job_name(), tasks).prop_map(|(job, tasks)| match tasks.is_empty() {
        true => Record::OutputsExpired { job },
        false => Record::OutputsForgotten {
            job,
            nodes: tasks.into_iter().map(|task| task.node).collect(),
        },
    })
}

fn history_deleted() -> impl Strategy<Value = Record> {
    let forgotten = task_ended().prop_map(|task| ForgottenTask {
        job: task.job,
        node: task.node,
        up_to: task.invocation,
    });
    let tasks = proptest::collection::vec(forgotten, 0..4);
    (1..5_u64, tasks).prop_map(|(number, tasks)| Record::HistoryDeleted {
        number: DeletionNumber(number),
        tasks,
    })
}

/// Generates trims without missing nodes, because the rows of names also delete their notes.
fn history_trimmed() -> impl Strategy<Value = Record> {
    let expired = proptest::collection::vec(task_ended(), 0..3);
    (any::<u32>(), expired, proptest::option::of(0..5_u64)).prop_map(
        |(observed, expired, settled)| {
            let keys = expired.into_iter().map(|task| TaskKey {
                job: task.job,
                node: task.node,
            });
            Record::HistoryTrimmed(Box::new(Trim {
                observed,
                expired: keys.collect(),
                settled: settled.map(DeletionNumber),
                ..Trim::default()
            }))
        },
    )
}

fn times_given() -> impl Strategy<Value = Record> {
    let item = || (0..3_u8).prop_map(|n| ItemName(format!("item '{n}")));
    let stretch = any::<(i32, i64, i64)>().prop_map(|(after, up_to, seen)| GivenStretch {
        after: WallTime::from_millis(after.into()),
        up_to: WallTime::from_millis(up_to),
        seen: WallTime::from_millis(seen),
        zone: "Europe/Berlin".to_owned(),
    });
    let stretches = proptest::collection::vec(stretch, 0..3);
    let absent = proptest::option::of(any::<i64>().prop_map(WallTime::from_millis));
    let given = (stretches, absent).prop_map(|(stretches, absent_since)| GivenTimes {
        stretches,
        absent_since,
    });
    let changed = proptest::collection::vec((item(), given), 0..3);
    let forgotten = proptest::collection::vec(item(), 0..2);
    (changed, forgotten).prop_map(|(changed, forgotten)| Record::TimesGiven { changed, forgotten })
}

integration_tests_properties::properties! {
    64;

    #[test]
    fn what_waits_adds_up_to_all_records(records in proptest::collection::vec(record(), 1..40), written in 0..40_usize) {
        let queue = RecordQueue::default();
        let (mut all, mut stored) = (Durable::default(), Durable::default());
        let mut last = RecordSeq::default();
        let mut write = || {
            let WriterWork::Write(batch) = queue.take(never()) else {
                panic!("work waits")
            };
            batch.iter().for_each(|waiting| stored.apply(&waiting.record));
            queue.room().committed(&batch);
            last = batch[batch.len() - 1].seq;
            batch
        };
        for (seq, record) in (1..).map(RecordSeq).zip(&records) {
            queue.push(seq, record.clone());
            all.apply(record);
            if seq.0 == written as u64 {
                write();
            }
        }
        if written != records.len() {
            let batch = write();
            prop_assert!(batch.is_sorted_by_key(|waiting| waiting.seq));
            for kind in [is_config, is_times] {
                prop_assert!(batch.iter().filter(|waiting| kind(&waiting.record)).count() <= 1);
            }
        }
        prop_assert_eq!(last, RecordSeq(records.len() as u64));
        prop_assert_eq!(stored, all);
        prop_assert!(queue.room().is_empty());
    }

    #[test]
    fn rows_are_what_the_records_add_up_to(batches in proptest::collection::vec(proptest::collection::vec(record(), 1..8), 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        let mut folded = Durable::default();
        for batch in &batches {
            // The database is reopened for each batch, so no state may live in the connection alone. A commit in doubt is repeated.
            for (name, times) in [("once", 1), ("repeated", 2)] {
                let mut database = Database::open(&folder.path().join(name)).unwrap();
                // Loading finds the unused names, which later transactions delete.
                database.load().unwrap();
                for _ in 0..times {
                    database.write(batch.iter()).unwrap();
                }
            }
            batch.iter().for_each(|record| folded.apply(record));
        }
        let load = |name| Database::open(&folder.path().join(name)).unwrap().load().unwrap();
        prop_assert_eq!(&load("once"), &folded);
        // Repeating a batch changes nothing except deleted completions. The first attempt dropped some because no worker was left. In the
        // repetition, the worker that came afterwards is present, so more of them are kept.
        let mut repeated = load("repeated");
        let kept = std::mem::take(&mut repeated.forgotten);
        prop_assert!(folded.forgotten.iter().all(|(task, up_to)| kept.get(task) == Some(up_to)));
        folded.forgotten.clear();
        prop_assert_eq!(repeated, folded);
    }
}

fn collect(store: Store) -> (StoreHandle, mpsc::Receiver<StoreReport>) {
    let (sender, receiver) = mpsc::channel();
    let handle = store
        .start(move |report| match report {
            StoreReport::Measured(_) => {}
            report => sender.send(report).unwrap_or_default(),
        })
        .unwrap();
    (handle, receiver)
}

#[test]
fn reports_follow_the_order_and_survive_a_reopen() {
    let folder = tempfile::tempdir().unwrap();
    let directory = DataDir::open(folder.path()).unwrap();
    let (store, durable) = Store::open(&directory).unwrap();
    assert_eq!(durable, Durable::default());
    let (handle, reports) = collect(store);
    for i in 1..=100 {
        handle.submit(
            RecordSeq(i),
            Record::TaskEnded(ended("j", &format!("n{i}"), 1)),
        );
    }
    let mut last = RecordSeq(0);
    while last < RecordSeq(100) {
        match reports.recv_timeout(PATIENCE).unwrap() {
            StoreReport::Persisted(seq) => {
                assert!(seq > last);
                last = seq;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((1..=100).contains(&handle.commits()));
    // Closing writes this record, although nothing waits for its report.
    handle.submit(RecordSeq(101), Record::TaskEnded(ended("j", "last", 1)));
    handle.close().unwrap();
    let (_, durable) = Store::open(&directory).unwrap();
    assert_eq!(durable.statuses.len(), 101);
}

#[test]
fn a_store_that_fails_reports_nothing_persisted_and_goes_on_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (store, _) = Store::open_file(&path).unwrap();
    let (handle, reports) = collect(store);
    // Another connection holds a lock on the file until it rolls back.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    handle.submit(RecordSeq(1), Record::TaskEnded(ended("j", "n", 1)));
    handle.submit(RecordSeq(2), Record::TaskEnded(ended("j", "n", 2)));
    let StoreReport::Failed(message) = reports.recv_timeout(PATIENCE).unwrap() else {
        panic!("a failure must be reported first");
    };
    assert!(message.contains("locked"), "{message}");
    assert_eq!(handle.commits(), 0);
    handle.submit(RecordSeq(3), Record::TaskEnded(ended("j", "n", 3)));
    other.execute_batch("ROLLBACK").unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&StoreReport::Persisted(RecordSeq(3))) {
        seen.push(reports.recv_timeout(PATIENCE).unwrap());
    }
    assert_eq!(seen[0], StoreReport::Recovered);
    handle.close().unwrap();
    let (_, durable) = Store::open_file(&path).unwrap();
    let (invocation, _) = durable.statuses.values().next().unwrap();
    assert_eq!(*invocation, InvocationId::new(17, 3));
}

/// Set in the process that the test below starts. Only that process may change the limit on file sizes, because the limit affects the whole
/// process.
const LIMITED: &str = "BRASSERIE_TEST_FILE_LIMIT";

#[test]
fn a_full_disk_is_reported_and_overcome() {
    if std::env::var_os(LIMITED).is_some() {
        return fill_and_recover();
    }
    with_limited_files("a_full_disk_is_reported_and_overcome");
}

/// Runs this test in another process, where [`LIMITED`] is set.
fn with_limited_files(test: &str) {
    // An ignored SIGXFSZ turns the limit into a write error, and `exec` passes the ignored signal on.
    let status = Command::new("/bin/sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("store::tests::{test}"), "--nocapture"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(
        status.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&status.stderr)
    );
}

fn fill_and_recover() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (store, _) = Store::open_file(&path).unwrap();
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), Record::TaskEnded(ended("j", "before", 1)));
    assert_eq!(
        reports.recv_timeout(PATIENCE).unwrap(),
        StoreReport::Persisted(RecordSeq(1))
    );
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 0, hard).unwrap();
    handle.submit(RecordSeq(2), Record::TaskEnded(ended("j", "during", 1)));
    let StoreReport::Failed(message) = reports.recv_timeout(PATIENCE).unwrap() else {
        panic!("nothing can be written");
    };
    assert!(
        message.contains("disk I/O error") || message.contains("full"),
        "{message}"
    );
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&StoreReport::Persisted(RecordSeq(2))) {
        seen.push(reports.recv_timeout(PATIENCE).unwrap());
    }
    assert!(seen.contains(&StoreReport::Recovered), "{seen:?}");
    handle.close().unwrap();
    assert_eq!(Store::open_file(&path).unwrap().1.statuses.len(), 2);
}

/// Waits for a failure that contains this text. Panics if anything but failures is reported before.
fn fails_with(reports: &mpsc::Receiver<StoreReport>, text: &str) {
    loop {
        match reports.recv_timeout(PATIENCE).unwrap() {
            StoreReport::Failed(message) if message.contains(text) => return,
            StoreReport::Failed(_) => {}
            other => panic!("a failure that says `{text}`, not {other:?}"),
        }
    }
}

/// Waits for the report that all records up to this one are on disk, and returns the reports before it.
fn until_persisted(reports: &mpsc::Receiver<StoreReport>, seq: u64) -> Vec<StoreReport> {
    let mut before = Vec::new();
    loop {
        match reports.recv_timeout(PATIENCE) {
            Ok(StoreReport::Persisted(up_to)) if up_to == RecordSeq(seq) => return before,
            Ok(other) => before.push(other),
            Err(error) => panic!("{error}; before that: {before:?}"),
        }
    }
}

fn end_of(node: &str) -> Record {
    Record::TaskEnded(ended("j", node, 1))
}

#[test]
fn a_database_file_that_has_left_its_path_is_not_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let aside = folder.path().join("aside");
    let (store, _) = Store::open_file(&path).unwrap();
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), end_of("before"));
    assert_eq!(until_persisted(&reports, 1), []);
    fs::rename(&path, &aside).unwrap();
    handle.submit(RecordSeq(2), end_of("during"));
    fails_with(&reports, "was deleted or unmounted");
    // A copy has the same content but is another file, whose log is not the one that was written.
    fs::copy(&aside, &path).unwrap();
    fails_with(&reports, "was replaced by another file");
    fs::rename(&aside, &path).unwrap();
    assert_eq!(until_persisted(&reports, 2), [StoreReport::Recovered]);
    handle.close().unwrap();
    assert_eq!(Store::open_file(&path).unwrap().1.statuses.len(), 2);
}

#[test]
fn a_folder_that_has_left_its_path_is_not_filled_anew() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, aside) = (parent.path().join("data"), parent.path().join("aside"));
    fs::create_dir(&folder).unwrap();
    let path = folder.join("db");
    let (store, _) = Store::open_file(&path).unwrap();
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), end_of("before"));
    assert_eq!(until_persisted(&reports, 1), []);
    // Simulates `umount -l`, which leaves an empty folder.
    fs::rename(&folder, &aside).unwrap();
    fs::create_dir(&folder).unwrap();
    handle.submit(RecordSeq(2), end_of("during"));
    fails_with(&reports, "was replaced by another file or disk");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir(&folder).unwrap();
    fails_with(&reports, "was deleted or unmounted");
    fs::rename(&aside, &folder).unwrap();
    assert_eq!(until_persisted(&reports, 2), [StoreReport::Recovered]);
    handle.close().unwrap();
    assert_eq!(Store::open_file(&path).unwrap().1.statuses.len(), 2);
}

#[test]
fn a_log_that_was_deleted_is_saved_before_anything_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (store, _) = Store::open_file(&path).unwrap();
    let stories = store.stories();
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), end_of("before"));
    assert_eq!(until_persisted(&reports, 1), []);
    // A reader that stays open shares the index of the log.
    let task = TaskKey {
        job: JobName::try_from("j").unwrap(),
        node: NodeName::try_from("before").unwrap(),
    };
    assert_eq!(stories.of(&task).unwrap(), None);
    fs::remove_file(folder.path().join("db-wal")).unwrap();
    handle.submit(RecordSeq(2), end_of("during"));
    fails_with(&reports, "db-wal");
    assert_eq!(until_persisted(&reports, 2), [StoreReport::Recovered]);
    handle.submit(RecordSeq(3), end_of("after"));
    assert_eq!(until_persisted(&reports, 3), []);
    // Copies the files as they are on disk now, like after a crash.
    let crashed = tempfile::tempdir().unwrap();
    for name in ["db", "db-wal"] {
        fs::copy(folder.path().join(name), crashed.path().join(name)).unwrap();
    }
    let (_, durable) = Store::open_file(&crashed.path().join("db")).unwrap();
    assert_eq!(durable.statuses.len(), 3);
    handle.close().unwrap();
}

/// Returns a store that cannot write, because the returned connection has locked its file.
fn failing_store(path: &Path) -> (StoreHandle, mpsc::Receiver<StoreReport>, Connection) {
    let (store, _) = Store::open_file(path).unwrap();
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), started(5));
    handle.submit(RecordSeq(2), end_of("before"));
    until_persisted(&reports, 2);
    handle.submit(RecordSeq(3), end_of("only in the log"));
    until_persisted(&reports, 3);
    let other = Connection::open(path).unwrap();
    other
        .set_db_config(
            rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
            true,
        )
        .unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    handle.submit(RecordSeq(4), end_of("during"));
    fails_with(&reports, "locked");
    (handle, reports, other)
}

#[test]
fn a_log_that_is_deleted_while_the_store_fails_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (handle, reports, other) = failing_store(&path);
    fs::remove_file(folder.path().join("db-wal")).unwrap();
    drop(other);
    assert_eq!(until_persisted(&reports, 4), [StoreReport::Recovered]);
    handle.close().unwrap();
    assert_eq!(Store::open_file(&path).unwrap().1.statuses.len(), 3);
}

#[test]
fn a_database_file_that_is_emptied_while_the_store_fails_is_not_filled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (handle, reports, other) = failing_store(&path);
    drop(other);
    fs::write(&path, "").unwrap();
    fails_with(&reports, "another copy was put in its place");
    assert_eq!(path.metadata().unwrap().len(), 0);
    assert!(folder.path().join("db-wal").metadata().unwrap().len() > 0);
    handle.close().unwrap_err();
}

#[test]
fn a_store_of_another_scheduler_is_not_gone_on_with() {
    for change in ["UPDATE meta SET cluster = 8", "DELETE FROM schedulers"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let (store, _) = Store::open_file(&path).unwrap();
        let (handle, reports) = collect(store);
        handle.submit(RecordSeq(1), started(5));
        assert_eq!(until_persisted(&reports, 1), []);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        handle.submit(RecordSeq(2), end_of("n"));
        fails_with(&reports, "locked");
        other.execute_batch(change).unwrap();
        other.execute_batch("COMMIT").unwrap();
        fails_with(&reports, "another cluster or lacks those of this scheduler");
        let back = "UPDATE meta SET cluster = 7; INSERT INTO schedulers VALUES (5, 5) ON CONFLICT DO NOTHING";
        other.execute_batch(back).unwrap();
        assert_eq!(until_persisted(&reports, 2), [StoreReport::Recovered]);
        handle.close().unwrap();
    }
}

/// Returns a directory that the scheduler instance `start` has used, as after a crash: a copy made while the store was open.
fn crashed_directory(start: i64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let directory = DataDir::open(folder.path()).unwrap();
    let (store, _) = Store::open(&directory).unwrap();
    assert_eq!(store.usage(), DirectoryUse::New);
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), started(start));
    assert_eq!(until_persisted(&reports, 1), []);
    handle.submit(RecordSeq(2), end_of("n"));
    assert_eq!(until_persisted(&reports, 2), []);
    let crashed = tempfile::tempdir().unwrap();
    for name in ["state.sqlite3", "state.sqlite3-wal", MARKER_FILE] {
        fs::copy(folder.path().join(name), crashed.path().join(name)).unwrap();
    }
    crashed
}

fn started(start: i64) -> Record {
    Record::SchedulerStarted {
        cluster: ClusterId(7),
        scheduler: SchedulerId::new(start, 5),
        wait: Duration::ZERO,
        generation: FenceGeneration(9),
    }
}

fn open_in(folder: &Path, lost: LostRecords) -> Result<(DirectoryUse, usize), StoreError> {
    let directory = DataDir::open(folder).unwrap();
    let (store, mut durable, past) = Store::open_apart(&directory, lost)?;
    past.collect()?.0.add_to(&mut durable);
    Ok((store.usage(), durable.statuses.len()))
}

#[test]
fn a_directory_is_marked_and_its_file_complete_before_the_first_record_is_reported() {
    let crashed = crashed_directory(1);
    // The copy lacks the log, and with it everything after the first record.
    fs::remove_file(crashed.path().join("state.sqlite3-wal")).unwrap();
    let used = open_in(crashed.path(), LostRecords::Expected).unwrap();
    assert_eq!(used, (DirectoryUse::Used, 0));
}

#[test]
fn a_crashed_directory_goes_on_and_a_directory_that_was_closed_needs_no_log() {
    let crashed = crashed_directory(1);
    assert_eq!(
        open_in(crashed.path(), LostRecords::None).unwrap(),
        (DirectoryUse::Used, 1)
    );
    let directory = DataDir::open(crashed.path()).unwrap();
    let (store, _) = Store::open(&directory).unwrap();
    let (handle, reports) = collect(store);
    handle.submit(RecordSeq(1), started(2));
    assert_eq!(until_persisted(&reports, 1), []);
    handle.close().unwrap();
    drop(directory);
    fs::remove_file(crashed.path().join("state.sqlite3-wal")).unwrap();
    assert_eq!(
        open_in(crashed.path(), LostRecords::None).unwrap(),
        (DirectoryUse::Used, 1)
    );
}

type Damage = fn(&Path);

/// Returns for each damage the text of the refusal, the change to the directory, and whether the directory may be started as a restored
/// backup.
fn damages() -> [(&'static str, Damage, bool); 9] {
    [
        (
            "state.sqlite3, but this file is missing",
            |folder| fs::remove_file(folder.join("state.sqlite3")).unwrap(),
            false,
        ),
        (
            "is empty",
            |folder| fs::write(folder.join("state.sqlite3"), "").unwrap(),
            false,
        ),
        (
            "is empty",
            |folder| {
                fs::write(folder.join("state.sqlite3"), "").unwrap();
                fs::remove_file(folder.join(MARKER_FILE)).unwrap();
            },
            false,
        ),
        (
            "holds no record of a scheduler",
            |folder| {
                for name in ["state.sqlite3", "state.sqlite3-wal"] {
                    fs::remove_file(folder.join(name)).unwrap();
                }
                drop(Database::open(&folder.join("state.sqlite3")).unwrap());
            },
            false,
        ),
        (
            "state.sqlite3-wal is missing",
            |folder| fs::remove_file(folder.join("state.sqlite3-wal")).unwrap(),
            true,
        ),
        (
            "state.sqlite3-wal is missing",
            |folder| {
                fs::remove_file(folder.join("state.sqlite3-wal")).unwrap();
                fs::write(folder.join(MARKER_FILE), "{").unwrap();
            },
            true,
        ),
        (
            "state.sqlite3-wal is empty",
            |folder| fs::write(folder.join("state.sqlite3-wal"), "").unwrap(),
            true,
        ),
        (
            "state.sqlite3-wal is empty",
            |folder| {
                let log = folder.join("state.sqlite3-wal");
                let header = fs::read(&log).unwrap()[..32].to_vec();
                fs::write(log, header).unwrap();
            },
            true,
        ),
        (
            "an older copy has taken its place",
            |folder| {
                let newer = crashed_directory(9);
                let marker = newer.path().join(MARKER_FILE);
                fs::copy(marker, folder.join(MARKER_FILE)).unwrap();
            },
            true,
        ),
    ]
}

#[test]
fn a_used_directory_that_lacks_something_is_no_new_one() {
    for (message, damage, is_a_backup) in damages() {
        let crashed = crashed_directory(1);
        damage(crashed.path());
        let log = || fs::read(crashed.path().join("state.sqlite3-wal")).ok();
        let log_before = log();
        // The second attempt must find the same state, because a refusal changes nothing.
        for _ in 0..2 {
            let text = open_in(crashed.path(), LostRecords::None).unwrap_err();
            let text = text.to_string();
            assert!(text.contains(message), "{text}");
            assert!(text.contains("--after-restoring-a-backup"), "{text}");
            assert!(log() == log_before, "{message}: the log is another one");
        }
        let as_backup = open_in(crashed.path(), LostRecords::Expected);
        assert_eq!(as_backup.is_ok(), is_a_backup, "{message}: {as_backup:?}");
    }
}

#[test]
fn a_directory_without_a_marker_is_used_if_it_holds_records_or_an_empty_file() {
    let usage = |prepare: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        open_in(folder.path(), LostRecords::None).unwrap().0
    };
    let file = |folder: &Path| folder.join("state.sqlite3");
    assert_eq!(usage(&|_| {}), DirectoryUse::New);
    // A first start may end before it records itself, for example because its port is taken.
    let without_records = |folder: &Path| drop(Database::open(&file(folder)).unwrap());
    assert_eq!(usage(&without_records), DirectoryUse::New);
    assert_eq!(
        usage(&|folder| fs::write(file(folder), "").unwrap()),
        DirectoryUse::Used
    );
    let former_release = |folder: &Path| {
        let mut database = Database::open(&file(folder)).unwrap();
        database.write([started(1)].iter()).unwrap();
    };
    assert_eq!(usage(&former_release), DirectoryUse::Used);
}

#[test]
fn files_of_the_store_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Database::open_with(&path, &STEPS[..5]).unwrap());
    // Former releases created the files with this mode.
    for entry in fs::read_dir(folder.path()).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let database = Database::open(&path).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{names:?}");
    }
    names.sort();
    assert_eq!(names, ["db", "db-shm", "db-wal", "db.format-5"]);
    drop(database);
    let target = folder.path().join("elsewhere");
    fs::rename(&path, &target).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let text = Database::open(&path).unwrap_err().to_string();
    assert!(text.contains("through a link"), "{text}");
}

#[test]
fn closing_a_store_that_fails_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (store, _) = Store::open_file(&path).unwrap();
    let (handle, reports) = collect(store);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    handle.submit(RecordSeq(1), Record::HoldBackOver);
    assert!(matches!(
        reports.recv_timeout(PATIENCE).unwrap(),
        StoreReport::Failed(_)
    ));
    let text = handle.close().unwrap_err().to_string();
    assert!(text.contains("something else uses the store"), "{text}");
}

#[test]
fn files_of_others_of_the_future_and_of_nobody_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let refused = |path: &Path| Database::open(path).unwrap_err().to_string();
    drop(Database::open(&path).unwrap());
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE meta SET version = 99", ())
        .unwrap();
    let text = refused(&path);
    assert!(
        text.contains("newer version") && text.contains("99"),
        "{text}"
    );
    assert!(!text.contains("put back"), "there is no copy: {text}");
    // A newer release may have upgraded from any format.
    let copy = folder.path().join("db.format-1");
    std::fs::write(&copy, "").unwrap();
    let text = refused(&path);
    let advice = format!("or put back the copy {}", copy.display());
    assert!(text.contains(&advice), "{text}");
    std::fs::remove_file(&copy).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute("DELETE FROM meta", ())
        .unwrap();
    assert!(refused(&path).contains("`meta`"));

    let foreign = folder.path().join("foreign");
    Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    assert!(refused(&foreign).contains("not a store of this program"));

    let noise = folder.path().join("noise");
    fs::write(
        &noise,
        "no database at all, but long enough to look at. ".repeat(100),
    )
    .unwrap();
    assert!(
        refused(&noise).contains("not a database"),
        "{}",
        refused(&noise)
    );
    assert!(refused(&folder.path().join("absent/db")).contains("absent/db"));
}

#[test]
fn damaged_rows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    database
        .write([Record::TaskEnded(ended("j", "n", 1))].iter())
        .unwrap();
    database
        .connection()
        .execute("UPDATE statuses SET data = '{'", ())
        .unwrap();
    let text = database.load().unwrap_err().to_string();
    assert!(
        text.contains("`statuses`") && text.contains("backup"),
        "{text}"
    );
}

fn current_format() -> i64 {
    STEPS.last().map_or(0, |step| step.to)
}

#[test]
fn an_older_format_is_migrated_after_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    database
        .write([Record::TaskEnded(ended("j", "n", 1))].iter())
        .unwrap();
    drop(database);
    let current = current_format();
    let next = SchemaStep {
        to: current + 1,
        sql: "ALTER TABLE meta ADD COLUMN colour TEXT",
    };
    let mut database = Database::open_with(&path, &[next]).unwrap();
    assert_eq!(database.load().unwrap().statuses.len(), 1);
    let version: i64 = database
        .connection()
        .query_row("SELECT version FROM meta", (), |r| r.get(0))
        .unwrap();
    assert_eq!(version, current + 1);
    drop(database);
    assert!(matches!(
        Database::open(&path),
        Err(StoreError::Newer { found, known, .. }) if (found, known) == (current + 1, current)
    ));
    // The copy is a complete store of the old format.
    let copy = folder.path().join(format!("db.format-{current}"));
    let mut copy = Database::open(&copy).unwrap();
    assert_eq!(copy.load().unwrap().statuses.len(), 1);
}

#[test]
fn an_upgrade_removes_the_copies_of_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Database::open_with(&path, &STEPS[..3]).unwrap());
    let others = ["db.format-1", "db.format-2.unfinished"];
    let kept = ["db.format-12", "db.format-x", "other.format-1"];
    for name in others.iter().chain(&kept) {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let has = |name: &str| folder.path().join(name).exists();
    drop(Database::open_with(&path, &STEPS[..4]).unwrap());
    assert!(has("db.format-3") && others.iter().all(|name| !has(name)));
    drop(Database::open(&path).unwrap());
    assert!(has("db.format-4") && !has("db.format-3"));
    assert!(kept.iter().all(|name| has(name)));
    // A start without a migration removes no copies.
    drop(Database::open(&path).unwrap());
    assert!(has("db.format-4"));
}

#[test]
fn the_first_format_learns_to_remember_who_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Database::open_with(&path, &STEPS[..1]).unwrap());
    let mut database = Database::open(&path).unwrap();
    database.write([left(1), left(2)].iter()).unwrap();
    assert_eq!(database.load().unwrap().left.len(), 2);
}

#[test]
fn the_tenth_format_learns_the_names_of_those_that_leave() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..10]).unwrap();
    let timeouts = serde_json::to_string(&Timeouts::default()).unwrap();
    let rows = format!(
        "INSERT INTO left_instances VALUES (1, 1);
         INSERT INTO instances VALUES (2, 1, 'a', 'h', 1, 5, '{timeouts}', 0);"
    );
    old.connection().execute_batch(&rows).unwrap();
    drop(old);
    let mut database = Database::open(&path).unwrap();
    let mut expected = database.load().unwrap();
    assert_eq!(expected.left, [(WorkerId::new(1, 1), None)].into());
    // The second record of the same instance changes nothing.
    for record in [left(2), left(2), left(3)] {
        database.write([&record].into_iter()).unwrap();
        expected.apply(&record);
    }
    let named = LeftInstance {
        shard: "a".to_owned().try_into().unwrap(),
        wall: WallTime::from_secs(9),
    };
    assert_eq!(expected.left[&WorkerId::new(2, 1)], Some(named));
    assert_eq!(expected.left[&WorkerId::new(3, 1)], None);
    assert_eq!(database.load().unwrap(), expected);
    assert!(folder.path().join("db.format-10").exists());
}

/// The rows of [`ended`] for `j` on `n`, run 1, in the format without stories.
const END_OF_THEN: &str = "INSERT INTO jobs VALUES (1, 'j');
    INSERT INTO nodes VALUES (1, 'n');
    INSERT INTO statuses VALUES (1, 1, 17, 1, 4, 1700000000123, 0, 0, NULL);";

#[test]
fn ends_of_the_fifth_format_have_no_story_and_later_ones_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..5]).unwrap();
    old.connection().execute_batch(END_OF_THEN).unwrap();
    drop(old);
    let mut database = Database::open(&path).unwrap();
    let mut expected = Durable::default();
    expected.apply(&Record::TaskEnded(ended("j", "n", 1)));
    assert_eq!(database.load().unwrap(), expected);
    let task = TaskKey {
        job: JobName::try_from("j").unwrap(),
        node: NodeName::try_from("n").unwrap(),
    };
    let stories = Stories::new(&path);
    assert_eq!(stories.of(&task).unwrap(), None);
    let told = EndedTask {
        story: kept(Story::exited(0)),
        ..ended("j", "n", 2)
    };
    database.write([Record::TaskEnded(told)].iter()).unwrap();
    assert!(stories.of(&task).unwrap().is_some());
    assert!(folder.path().join("db.format-5").exists());
}

/// The file is as the former release wrote it, whose schedulers assigned no fences.
#[test]
fn the_sixth_format_learns_of_fences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..6]).unwrap();
    let rows = "UPDATE meta SET cluster = 7; INSERT INTO schedulers VALUES (17, 5);";
    old.connection().execute_batch(rows).unwrap();
    drop(old);
    let mut database = Database::open(&path).unwrap();
    let loaded = database.load().unwrap();
    assert_eq!(loaded.last_scheduler(), Some(SchedulerId::new(17, 5)));
    assert_eq!(loaded.fence_generation, FenceGeneration(0));
    assert!(folder.path().join("db.format-6").exists());
    let generation = FenceGeneration(u32::MAX);
    database
        .write([started(18), Record::FenceRaised { generation }, started(19)].iter())
        .unwrap();
    drop(database);
    let loaded = Database::open(&path).unwrap().load().unwrap();
    assert_eq!(loaded.fence_generation, generation, "it never goes back");
}

/// Writes completions of `j` on `n1` to `n3`, where the first two nodes and the job are missing.
fn with_missing_nodes(database: &mut Database) {
    let ends: Vec<Record> = (1..4).map(|i| end_of(&format!("n{i}"))).collect();
    database.write(ends.iter()).unwrap();
    database
        .write(
            [trimmed(Trim {
                observed: 100,
                missing: vec![node("n1"), node("n2")],
                missing_jobs: vec![job_j()],
                ..Trim::default()
            })]
            .iter(),
        )
        .unwrap();
}

fn node(name: &str) -> NodeName {
    NodeName::try_from(name).unwrap()
}

fn job_j() -> JobName {
    JobName::try_from("j").unwrap()
}

fn trimmed(trim: Trim) -> Record {
    Record::HistoryTrimmed(Box::new(trim))
}

#[test]
fn it_is_kept_since_when_nodes_and_jobs_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    with_missing_nodes(&mut database);
    let durable = database.load().unwrap();
    assert_eq!(durable.observed, 100);
    assert_eq!(
        durable.missing,
        [(node("n1"), 100), (node("n2"), 100)].into()
    );
    assert_eq!(durable.missing_jobs, [(job_j(), 100)].into());
    let trim = Trim {
        observed: 200,
        found: vec![node("n1")],
        found_jobs: vec![job_j()],
        expired: vec![TaskKey {
            job: job_j(),
            node: node("n2"),
        }],
        ..Trim::default()
    };
    database.write([trimmed(trim)].iter()).unwrap();
    let mut database = Database::open(&path).unwrap();
    let durable = database.load().unwrap();
    assert_eq!((durable.observed, durable.missing.len()), (200, 0));
    assert_eq!(durable.missing_jobs.len(), 0);
    let nodes: Vec<&str> = durable
        .statuses
        .keys()
        .map(|key| key.node.as_str())
        .collect();
    assert_eq!(nodes, ["n1", "n3"]);
}

/// Otherwise a node that was missing once would count as missing for long as soon as it is missing again after a restart.
#[test]
fn a_completion_ends_the_notes_of_its_node_and_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    with_missing_nodes(&mut database);
    database.write([end_of("n1")].iter()).unwrap();
    let durable = database.load().unwrap();
    assert_eq!(durable.missing, [(node("n2"), 100)].into());
    assert_eq!(durable.missing_jobs.len(), 0);
}

#[test]
fn forgotten_outputs_are_those_of_the_named_tasks_and_no_status_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    let end = |job: &str, node: &str| {
        Record::TaskEnded(EndedTask {
            outputs: vec![output("table", 1), output("stats/", 2)],
            ..ended(job, node, 1)
        })
    };
    let ends = [
        end("j", "n1"),
        end("j", "n2"),
        end("j", "n3"),
        end("k", "n1"),
    ];
    database.write(ends.iter()).unwrap();
    let forgotten = Record::OutputsForgotten {
        job: job_j(),
        nodes: vec![node("n1"), node("n3"), node("never heard of")],
    };
    database.write([forgotten].iter()).unwrap();
    let outputs = |database: &mut Database| {
        let durable = database.load().unwrap();
        assert_eq!(durable.statuses.len(), 4);
        let keys = durable.outputs.into_keys();
        keys.map(|key| format!("{}/{}", key.job, key.node))
            .collect::<Vec<_>>()
    };
    assert_eq!(outputs(&mut database), ["j/n2", "k/n1"]);
    let expired = Record::OutputsExpired { job: job_j() };
    database.write([expired].iter()).unwrap();
    assert_eq!(outputs(&mut Database::open(&path).unwrap()), ["k/n1"]);
}

#[test]
fn a_job_whose_completions_have_expired_leaves_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    with_missing_nodes(&mut database);
    let jobs = |database: &Database| -> i64 {
        let count = "SELECT count(*) FROM jobs";
        let row = database.connection().query_row(count, (), |row| row.get(0));
        row.unwrap()
    };
    let expired = |nodes: &[&str]| {
        let key = |name: &&str| TaskKey {
            job: job_j(),
            node: node(name),
        };
        trimmed(Trim {
            observed: 200,
            expired: nodes.iter().map(key).collect(),
            ..Trim::default()
        })
    };
    database.write([expired(&["n1", "n2"])].iter()).unwrap();
    assert_eq!(jobs(&database), 1);
    database.write([expired(&["n3"])].iter()).unwrap();
    assert_eq!(jobs(&database), 0);
    database.write([end_of("n1")].iter()).unwrap();
    let durable = Database::open(&path).unwrap().load().unwrap();
    assert_eq!((durable.statuses.len(), durable.missing_jobs.len()), (1, 0));
    // This job was not missing, so its id was cached until its row was deleted.
    database.write([expired(&["n1"])].iter()).unwrap();
    assert_eq!(jobs(&database), 0);
    database.write([end_of("n2")].iter()).unwrap();
    let durable = Database::open(&path).unwrap().load().unwrap();
    assert_eq!(durable.statuses.len(), 1);
}

#[test]
fn the_ninth_format_learns_of_missing_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..9]).unwrap();
    let jobs = "INSERT INTO jobs VALUES (1, 'j'); INSERT INTO nodes VALUES (1, 'n1', NULL);";
    old.connection().execute_batch(jobs).unwrap();
    drop(old);
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.load().unwrap().missing_jobs.len(), 0);
    with_missing_nodes(&mut database);
    assert_eq!(database.load().unwrap().missing_jobs.len(), 1);
}

#[test]
fn the_eighth_format_is_upgraded_to_record_missing_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..8]).unwrap();
    old.connection()
        .execute_batch(
            "INSERT INTO jobs VALUES (1, 'j'); INSERT INTO nodes VALUES (1, 'n1'), (2, 'n2'), (3, 'n3');",
        )
        .unwrap();
    drop(old);
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.load().unwrap().missing.len(), 0);
    with_missing_nodes(&mut database);
    assert_eq!(database.load().unwrap().missing.len(), 2);
}

#[test]
fn the_second_format_learns_of_jobs_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..2]).unwrap();
    old.connection().execute_batch(END_OF_THEN).unwrap();
    let wait = "UPDATE meta SET hold_back_ns = 5000000000";
    old.connection().execute(wait, ()).unwrap();
    drop(old);
    let kept = [
        Record::TaskEnded(ended("j", "n", 1)),
        Record::HoldBack {
            wait: Duration::from_secs(5),
        },
    ];
    let mut expected = Durable::default();
    kept.iter().for_each(|record| expected.apply(record));
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.load().unwrap(), expected);
    let saved = Record::JobSaved {
        job: JobName::try_from("by API").unwrap(),
        saved: SavedJob {
            version: JobVersion(7),
            created: WallTime::from_secs(1),
            modified: WallTime::from_secs(2),
            text: "{}".into(),
            owner: Some("ana".into()),
        },
    };
    database.write([&saved].into_iter()).unwrap();
    expected.apply(&saved);
    drop(database);
    assert_eq!(Database::open(&path).unwrap().load().unwrap(), expected);
    assert!(folder.path().join("db.format-2").exists());
}

#[test]
fn the_third_format_learns_of_sources_and_keeps_its_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..3]).unwrap();
    let pause = "INSERT INTO paused_jobs VALUES ('held')";
    old.connection().execute_batch(pause).unwrap();
    drop(old);
    let job = JobName::try_from("held").unwrap();
    let mut expected = Durable::default();
    let hold = Hold::Paused;
    expected.apply(&Record::JobHeld { job, hold });
    assert_eq!(Database::open(&path).unwrap().load().unwrap(), expected);
    let mut write = |database: &mut Database, record: Record| {
        expected.apply(&record);
        database.write([&record].into_iter()).unwrap();
        expected.clone()
    };
    let mut database = Database::open(&path).unwrap();
    let config = KeptConfig {
        path: "/c.yaml".into(),
        text: "a: 1".into(),
        since: WallTime::from_secs(1),
    };
    let all = write(&mut database, Record::ConfigKept { config });
    drop(database);
    assert_eq!(Database::open(&path).unwrap().load().unwrap(), all);
    assert!(folder.path().join("db.format-3").exists());
}

/// The format does not record which instances were present at deletions, so each may have been present.
#[test]
fn the_fourth_format_learns_who_was_there_when_ends_were_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let old = Database::open_with(&path, &STEPS[..4]).unwrap();
    let timeouts = serde_json::to_string(&Timeouts::default()).unwrap();
    let rows = format!(
        "INSERT INTO instances VALUES (1, 1, 'a', 'h', 1, 5, '{timeouts}'), (2, 1, 'b', 'h', 2, 5, '{timeouts}');
         INSERT INTO jobs VALUES (1, 'j');
         INSERT INTO nodes VALUES (1, 'n');
         INSERT INTO forgotten VALUES (1, 1, 17, 3);"
    );
    old.connection().execute_batch(&rows).unwrap();
    drop(old);
    let mut database = Database::open(&path).unwrap();
    let kept = database.load().unwrap();
    let numbers = kept.forgotten.values().map(|of| of.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [DeletionNumber(1)]);
    for (leaves, remembered) in [(1, 1), (2, 0)] {
        database.write([left(leaves)].iter()).unwrap();
        assert_eq!(database.load().unwrap().forgotten.len(), remembered);
    }
    assert!(folder.path().join("db.format-4").exists());
}

fn kept(story: Story) -> Option<Box<KeptStory>> {
    Some(Box::new(KeptStory {
        story,
        shard: "w \"1\"".to_owned().try_into().unwrap(),
        queued: Some(Duration::from_millis(7)),
    }))
}

#[test]
fn a_story_is_that_of_the_stored_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    let stories = Stories::new(&path);
    let task = TaskKey {
        job: JobName::try_from("j").unwrap(),
        node: NodeName::try_from("n").unwrap(),
    };
    let of = |database: &mut Database, run: i64, story: Option<Box<KeptStory>>| {
        let ended = EndedTask {
            story,
            ..ended("j", "n", run)
        };
        database.write([Record::TaskEnded(ended)].iter()).unwrap();
        stories.of(&task).unwrap()
    };
    assert_eq!(of(&mut database, 1, None), None);
    for (run, story) in [
        (2, Story::exited(0)),
        (
            3,
            Story::not_started("no such file", Fault::Task, Duration::from_millis(1)),
        ),
        (4, Story::lost()),
        (
            5,
            Story {
                ending: Ending::Signalled(9),
                ended_by: Some(EndedBy::MemoryLimit),
                fault: Fault::Task,
                cpu: Duration::from_millis(3),
                peak_memory_bytes: Some(1 << 40),
                read_bytes: 1 << 41,
                written_bytes: 7,
                last_lines: vec!["\u{1b}[31mred\0".to_owned(), String::new()],
                ..Story::exited(0)
            },
        ),
    ] {
        let story = kept(story);
        let invocation = InvocationId::new(17, run);
        let told = of(&mut database, run, story.clone());
        assert_eq!(told, story.map(|story| (invocation, *story)));
        // A change without a story, such as forgiving the task, keeps the story.
        assert_eq!(of(&mut database, run, None), told);
    }
    assert_eq!(of(&mut database, 6, None), None, "of another run");
    let _ = of(&mut database, 6, kept(Story::exited(1)));
    let deleted = Record::HistoryDeleted {
        number: DeletionNumber(1),
        tasks: vec![ForgottenTask {
            job: task.job.clone(),
            node: task.node.clone(),
            up_to: InvocationId::new(17, 6),
        }],
    };
    database.write([deleted].iter()).unwrap();
    assert_eq!(stories.of(&task).unwrap(), None);
}

#[test]
fn a_damaged_story_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    let record = Record::TaskEnded(ended("j", "n", 1));
    database.write([record].iter()).unwrap();
    let damage = "UPDATE statuses SET story = '{'";
    database.connection().execute(damage, ()).unwrap();
    let task = TaskKey {
        job: JobName::try_from("j").unwrap(),
        node: NodeName::try_from("n").unwrap(),
    };
    let text = Stories::new(&path).of(&task).unwrap_err().to_string();
    assert!(text.contains("`statuses`"), "{text}");
}

/// Returns a record that deletes the first completions of this many nodes.
fn deleted(nodes: usize) -> Record {
    let tasks = (0..nodes).map(|i| ForgottenTask {
        job: JobName::try_from("j").unwrap(),
        node: NodeName::try_from(format!("n{i}").as_str()).unwrap(),
        up_to: InvocationId::new(17, 1),
    });
    Record::HistoryDeleted {
        number: DeletionNumber(1),
        tasks: tasks.collect(),
    }
}

#[test]
fn deleted_ends_leave_the_file_a_transaction_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("db")).unwrap();
    let deleted = deleted(10_000);
    database.write([&deleted].into_iter()).unwrap();
    // Many instances leave at once and share the limit of one transaction.
    database.write([left(1), left(2), left(3)].iter()).unwrap();
    let mut counts = Vec::new();
    for i in 0..3 {
        let connection = database.connection();
        let count = connection.query_row("SELECT count(*) FROM forgotten", (), |row| row.get(0));
        let count: i64 = count.unwrap();
        counts.push(count);
        let other = Record::TaskEnded(ended("other", "n", i));
        database.write([&other].into_iter()).unwrap();
    }
    assert_eq!(counts, [5904, 1808, 0]);
}

#[test]
fn names_that_nothing_needs_leave_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    let all: Vec<Record> = (0..400)
        .map(|i| Record::TaskEnded(ended("j", &format!("n{i}"), 1)))
        .collect();
    database.write(all.iter()).unwrap();
    let deleted = deleted(399);
    database.write([&deleted].into_iter()).unwrap();
    let count = |database: &Database| -> i64 {
        let connection = database.connection();
        let count = connection.query_row("SELECT count(*) FROM nodes", (), |row| row.get(0));
        count.unwrap()
    };
    database.load().unwrap();
    assert!(!database.is_tidying_due().unwrap());
    assert_eq!(count(&database), 400, "a worker might repeat their ends");
    database.write([left(1)].iter()).unwrap();
    // A completion for one node arrives before its row is deleted.
    let again = Record::TaskEnded(ended("j", "n7", 2));
    let mut counts = Vec::new();
    database.write([&again].into_iter()).unwrap();
    while database.is_tidying_due().unwrap() {
        counts.push(count(&database));
        database.tidy().unwrap();
    }
    assert_eq!((counts, count(&database)), (vec![144], 2));
    // The name's row is written again, because it was deleted.
    database.write([&end_of("n8")].into_iter()).unwrap();
    let nodes: Vec<String> = database
        .load()
        .unwrap()
        .statuses
        .keys()
        .map(|key| key.node.to_string())
        .collect();
    assert_eq!(nodes, ["n399", "n7", "n8"]);
}

/// Writes completions of job `j` on `nodes` nodes and deletes all but the last ten.
fn write_and_delete(database: &mut Database, nodes: usize) {
    let all: Vec<Record> = (0..nodes).map(|i| end_of(&format!("n{i}"))).collect();
    database.write(all.iter()).unwrap();
    database.write([&deleted(nodes - 10)].into_iter()).unwrap();
    database.write([left(1)].iter()).unwrap();
    for _ in 0..nodes / 4096 {
        database.write([].into_iter()).unwrap();
    }
}

fn is_sound(database: &Database) -> bool {
    let check: String = database
        .connection()
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .unwrap();
    check == "ok"
}

#[test]
fn a_store_shrinks_after_completions_were_deleted_and_takes_records_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (mut store, _) = Store::open_file(&path).unwrap();
    write_and_delete(&mut store.database, 51_000);
    store.database.checkpoint().unwrap();
    let before = path.metadata().unwrap().len();
    let (handle, reports) = collect(store);
    let mut seq = 0;
    let until = Instant::now() + PATIENCE;
    while path.metadata().unwrap().len() > before / 8 {
        assert!(Instant::now() < until, "{before} {seq}");
        seq += 1;
        handle.submit(RecordSeq(seq), end_of("again"));
        until_persisted(&reports, seq);
    }
    handle.close().unwrap();
    let (store, durable) = Store::open_file(&path).unwrap();
    assert_eq!(durable.statuses.len(), 11);
    assert!(is_sound(&store.database));
}

#[test]
fn a_store_of_an_earlier_release_can_shrink_after_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    {
        let (mut store, _) = Store::open_file(&path).unwrap();
        write_and_delete(&mut store.database, 2000);
        let connection = store.database.connection();
        connection.pragma_update(None, "auto_vacuum", 0).unwrap();
        connection.execute_batch("VACUUM").unwrap();
        store.database.checkpoint().unwrap();
    }
    std::fs::rename(&path, folder.path().join(STORE_FILE)).unwrap();
    let directory = DataDir::open(folder.path()).unwrap();
    let _ = std::fs::remove_file(folder.path().join("db-wal"));
    let (store, durable) = Store::open(&directory).unwrap();
    assert_eq!(durable.statuses.len(), 10);
    let mode: i64 = store
        .database
        .connection()
        .pragma_query_value(None, "auto_vacuum", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, 2);
}

/// Environment variable that names the database in the process that the test below starts and kills.
const KILLED: &str = "BRASSERIE_TEST_KILLED_WHILE_TIDYING";

#[test]
fn a_store_that_is_killed_while_it_shrinks_keeps_everything() {
    if let Some(path) = std::env::var_os(KILLED) {
        let mut database = Database::open(Path::new(&path)).unwrap();
        database.load().unwrap();
        while database.is_tidying_due().unwrap() {
            database.tidy().unwrap();
            println!("step");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Database::open(&path).unwrap();
    write_and_delete(&mut database, 30_000);
    drop(database);
    let mut kills = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::tests::a_store_that_is_killed_while_it_shrinks_keeps_everything",
                "--nocapture",
            ])
            .env(KILLED, &path)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let steps = lines
            .map_while(Result::ok)
            .filter(|line| line.ends_with("step"));
        // The process is killed during the next step.
        let killed = steps.take(2).count() == 2;
        child.kill().unwrap();
        child.wait().unwrap();
        let mut database = Database::open(&path).unwrap();
        assert!(is_sound(&database));
        assert_eq!(database.load().unwrap().statuses.len(), 10);
        if !killed {
            assert!(!database.is_tidying_due().unwrap());
            break;
        }
        kills += 1;
    }
    assert!(kills > 1, "{kills}");
}

#[test]
fn a_disk_that_is_full_while_the_store_shrinks_stops_only_that() {
    if std::env::var_os(LIMITED).is_some() {
        return fill_while_tidying();
    }
    with_limited_files("a_disk_that_is_full_while_the_store_shrinks_stops_only_that");
}

fn fill_while_tidying() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (mut store, _) = Store::open_file(&path).unwrap();
    write_and_delete(&mut store.database, 30_000);
    store.database.checkpoint().unwrap();
    let before = path.metadata().unwrap().len();
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 0, hard).unwrap();
    assert!(store.database.tidy().is_err());
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    drop(store);
    let (store, durable) = Store::open_file(&path).unwrap();
    assert_eq!(durable.statuses.len(), 10);
    setrlimit(Resource::RLIMIT_FSIZE, 0, hard).unwrap();
    let (handle, reports) = collect(store);
    // The failure of the first step is not reported, because no record was refused.
    assert!(reports.recv_timeout(3 * super::writer::TIDY_AFTER).is_err());
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    handle.submit(RecordSeq(1), end_of("after"));
    assert_eq!(until_persisted(&reports, 1), []);
    let until = Instant::now() + PATIENCE;
    while path.metadata().unwrap().len() > before / 2 {
        assert!(Instant::now() < until, "{before}");
        std::thread::sleep(Duration::from_millis(10));
    }
    handle.close().unwrap();
    let (store, durable) = Store::open_file(&path).unwrap();
    assert_eq!(durable.statuses.len(), 11);
    assert!(is_sound(&store.database));
}

fn left(start: i64) -> Record {
    Record::WorkerLeft {
        worker: WorkerId::new(start, 1),
        cause: LeftCause::Lost,
        wall: WallTime::from_secs(9),
        tasks: Vec::new(),
        hold_back: Duration::ZERO,
    }
}

#[test]
fn of_those_that_left_the_latest_are_remembered_however_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("db")).unwrap();
    let mut durable = Durable::default();
    let limit = i64::try_from(MAX_LEFT).unwrap();
    let downwards: Vec<Record> = (10..limit + 20).rev().map(left).collect();
    for batch in [downwards, vec![left(1)], vec![left(limit + 20)]] {
        database.write(batch.iter()).unwrap();
        batch.iter().for_each(|record| durable.apply(record));
        assert_eq!(durable.left.len(), MAX_LEFT);
        assert_eq!(database.load().unwrap().left, durable.left);
    }
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(Database::open(&path).unwrap());
    let current = current_format();
    let broken = [SchemaStep {
        to: current + 1,
        sql: "DROP TABLE statuses; DROP TABLE nothing",
    }];
    let text = Database::open_with(&path, &broken).unwrap_err().to_string();
    let formats = format!("format {current} to {}", current + 1);
    assert!(
        text.contains(&formats) && text.contains("Nothing was changed"),
        "{text}"
    );
    assert!(Database::open(&path).unwrap().load().is_ok());
}

#[test]
fn long_texts_are_written_in_several_transactions() {
    let queue = RecordQueue::default();
    let text: Arc<str> = "x".repeat(3 * 1024 * 1024).into();
    for i in 0..4 {
        let saved = SavedJob {
            version: JobVersion(i),
            created: WallTime::from_secs(1),
            modified: WallTime::from_secs(1),
            text: Arc::clone(&text),
            owner: None,
        };
        let job = JobName::try_from("j").unwrap();
        queue.push(RecordSeq(i.unsigned_abs()), Record::JobSaved { job, saved });
    }
    for _ in 0..2 {
        let WriterWork::Write(batch) = queue.take(never()) else {
            panic!("work waits")
        };
        assert_eq!(batch.len(), 2);
    }
}

fn is_config(record: &Record) -> bool {
    matches!(record, Record::ConfigKept { .. })
}

fn is_times(record: &Record) -> bool {
    matches!(record, Record::TimesGiven { .. })
}

#[test]
fn configurations_and_times_do_not_gather_in_a_store_that_cannot_write() {
    let queue = RecordQueue::default();
    let end = |node| Record::TaskEnded(ended("j", node, 1));
    queue.push(RecordSeq(1), end("before"));
    for i in 1..100_000 {
        let item = ItemName(format!("item {}", i % 3));
        let changed = vec![(item, GivenTimes::default())];
        let forgotten = Vec::new();
        queue.push(RecordSeq(2 * i), Record::TimesGiven { changed, forgotten });
        if i == 1 {
            queue.push(RecordSeq(3), end("between"));
        }
        let config = KeptConfig {
            path: "/config".into(),
            text: format!("text {i}").into(),
            since: WallTime::from_secs(1),
        };
        queue.push(RecordSeq(2 * i + 2), Record::ConfigKept { config });
    }
    assert!(!queue.room().is_full());
    let WriterWork::Write(batch) = queue.take(never()) else {
        panic!("work waits")
    };
    let kinds: Vec<&str> = batch
        .iter()
        .map(|waiting| match &waiting.record {
            Record::TaskEnded(task) => task.node.as_str(),
            Record::TimesGiven { changed, .. } if changed.len() == 3 => "all times",
            Record::ConfigKept { config } if &*config.text == "text 99999" => "the last config",
            other => panic!("not {other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        ["before", "all times", "between", "the last config"],
        "times stay before what follows from them"
    );
    assert_eq!(batch[3].seq, RecordSeq(200_000));
}

#[test]
fn a_store_that_stands_still_is_full_at_its_bound() {
    let queue = RecordQueue::default();
    let room = queue.room();
    for i in 0..65_536 {
        assert!(!room.is_full());
        queue.push(RecordSeq(i), Record::HoldBackOver);
    }
    assert!(room.is_full());
    let WriterWork::Write(batch) = queue.take(never()) else {
        panic!("work waits")
    };
    assert!(batch.len() < 65_536);
    room.committed(&batch);
    assert!(!room.is_full());
}

#[test]
fn a_directory_knows_whether_its_last_scheduler_had_an_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = SchedulerId::new(1, 2);
    let mut file = MarkerFile::in_folder(folder.path());
    for authority in [FormerAuthority::Present, FormerAuthority::Absent] {
        file.note_authority(authority);
        file.write(Log::Needed, id).expect("a file");
        let read = MarkerFile::in_folder(folder.path()).read();
        let read = read.expect("readable").expect("a file");
        assert_eq!((read.authority(), read.scheduler), (authority, Some(id)));
    }
    // A former release has written the file.
    let text = r#"{"about": "", "log": "copied", "scheduler": [1, 2]}"#;
    fs::write(folder.path().join(MARKER_FILE), text).expect("a file");
    let read = file.read().expect("readable").expect("a file");
    assert_eq!(
        (read.authority(), read.log),
        (FormerAuthority::Unknown, Log::Copied)
    );
}
