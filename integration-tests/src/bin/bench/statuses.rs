//! How long a scheduler that remembers a million statuses takes to be back after it was killed.

use std::path::Path;
use std::time::{Duration, Instant};

use brasserie_common::ids::InstanceId;
use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::{
    FenceGeneration, InvocationId, JobName, NodeName, RecordSeq, SchedulerId, Shard, Story,
    WallTime,
};
use brasserie_common_runtime::DataDir;
use brasserie_scheduler::store::Store;
use brasserie_scheduler_core::{ClusterId, EndedTask, KeptStory, Record};
use integration_tests::e2e::{
    Client, Programs, Stage, resident_bytes, used_processor_time, wait_within,
};
use serde_json::json;

use crate::figures::{Line, Report, times_ms};
use crate::submit::Marks;

/// Restarts.
const ROUNDS: usize = 5;
/// Tasks that are not done yet: more than run in all rounds.
const LEFT: usize = 2000;
/// Promised from the start of the process to the first answer that goes the way of heartbeats.
const MOST_ANSWER_S: f64 = 1.0;
/// Promised from the start of the process to the first task that it starts.
const MOST_TASK_S: f64 = 3.0;
/// For each step, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures with so many statuses of one job.
pub fn measure(statuses: usize) -> Report {
    let stage = Stage::with(Programs::this_one());
    let marks = Marks::new(stage.path("marks"));
    let file = stage.write("config.json", &config(&marks, statuses + LEFT));
    let mut spec = stage.scheduler_spec(&file);
    // Default timeouts, as users have them.
    spec.flags.clear();
    eprintln!("statuses: writing {statuses} of them");
    let began = Instant::now();
    fill(&spec.data_dir, statuses);
    let rate = statuses as f64 / began.elapsed().as_secs_f64();
    let mut scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    marks.next_within(PATIENCE);
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        eprintln!("statuses: round {} of {ROUNDS}", round + 1);
        scheduler.kill_program();
        // A task that was being started begins by now, and is not the next scheduler's.
        std::thread::sleep(Duration::from_millis(500));
        marks.forget();
        let began = Instant::now();
        scheduler = stage.start_scheduler(&spec);
        let answered = wait_within(PATIENCE, "an answer", || {
            client.status()?;
            Some(began.elapsed())
        });
        let used = used_processor_time(scheduler.id()).expect("the scheduler lives");
        let heard = wait_within(PATIENCE, "the worker to be heard", || {
            let status = client.status()?;
            let mut workers = status.workers.iter().flatten();
            let heard = workers.any(|worker| worker.since_heartbeat_ms.is_some());
            heard.then(|| began.elapsed())
        });
        let started = marks.next_within(PATIENCE).duration_since(began);
        rounds.push([answered, heard, started, used]);
    }
    let held = resident_bytes(scheduler.id()).expect("the scheduler lives");
    let seconds = |which: usize| times_ms(rounds.iter().map(|round| round[which])).at(50) / 1e3;
    let lines = vec![
        Line::new(
            format!("restart on {statuses} statuses: first answer, median of {ROUNDS}"),
            "s",
            seconds(0),
        )
        .at_most(MOST_ANSWER_S),
        Line::new(
            "  first heartbeat of the worker, which tries each second",
            "s",
            seconds(1),
        ),
        Line::new("  first task starts", "s", seconds(2)).at_most(MOST_TASK_S),
        Line::new("  processor time until the first answer", "s", seconds(3)),
        Line::new("memory after that", "MiB", held as f64 / f64::from(1 << 20)),
        Line::new("statuses that the store writes", "/s", rate).more_is_better(),
    ];
    Report::new("statuses", "", lines)
}

/// Tasks that are done, as the store of a scheduler writes them.
fn fill(data_dir: &Path, statuses: usize) {
    let directory = DataDir::open(data_dir).expect("a new directory");
    let (store, _) = Store::open(&directory).expect("a new store");
    let store = store.start(|_| {}).expect("a thread");
    let room = store.room();
    let scheduler = InstanceId {
        start_time: 1,
        rand: 1,
    };
    let started = Record::SchedulerStarted {
        cluster: ClusterId(1),
        scheduler: SchedulerId(scheduler),
        wait: Duration::ZERO,
        generation: FenceGeneration(1),
    };
    let mut seq = RecordSeq::default().next();
    store.submit(seq, started);
    let job = JobName::try_from("work").expect("a good name");
    for number in 1..=statuses {
        while room.is_full() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let number = i64::try_from(number).expect("a number of statuses");
        let node = format!("n{number}");
        seq = seq.next();
        let ended = EndedTask {
            job: job.clone(),
            node: NodeName::try_from(node.as_str()).expect("a good name"),
            invocation: InvocationId::new(1, number),
            status: StoredStatus {
                bits: StatusBits::DONE,
                time: WallTime::from_millis(1_600_000_000_000 + number),
                backoff_seconds: 0,
                safety_seconds: 0,
                data: None,
            },
            // As of a task that ended well: that is what the most ends are.
            story: Some(Box::new(KeptStory {
                story: Story {
                    starting: Duration::from_millis(1),
                    ran: Duration::from_millis(1234),
                    cpu: Duration::from_millis(1000),
                    peak_memory_bytes: Some(12_345_678),
                    read_bytes: 0,
                    written_bytes: 4096,
                    ..Story::exited(0)
                },
                shard: Shard::try_from("worker1").expect("a good name"),
                queued: Some(Duration::from_millis(5)),
            })),
        };
        store.submit(seq, Record::TaskEnded(ended));
    }
    store.close().expect("room on the disk");
}

fn config(marks: &Marks, nodes: usize) -> String {
    let [shell, option, mark] = marks.command();
    let command = [shell, option, format!("{mark}; sleep 0.05")];
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_order": "original", "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 1 } } }
        },
        "bistro_job->work": { "owner": "bench", "command": command, "arguments": "none", "status_from": "exit_code" }
    });
    config.to_string()
}
