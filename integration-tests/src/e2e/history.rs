//! Writes the store of a scheduler with many completions.

use std::path::Path;
use std::time::Duration;

use brasserie_common::ids::InstanceId;
use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::{
    FenceGeneration, InvocationId, JobName, NodeName, RecordSeq, SchedulerId, Shard, Story,
    WallTime,
};
use brasserie_common_runtime::DataDir;
use brasserie_scheduler::store::Store;
use brasserie_scheduler_core::{ClusterId, EndedTask, KeptStory, Record};

/// Writes a new store in which the tasks of each job are done on the nodes `PREFIX1` to `PREFIXcount`, given as job, prefix and count.
///
/// # Panics
/// If the disk is full, or a name is not valid.
pub fn write_history(data_dir: &Path, jobs: &[(&str, &str, usize)]) {
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
    for (job, prefix, count) in jobs {
        let job = JobName::try_from(*job).expect("a good name");
        for number in 1..=*count {
            while room.is_full() {
                std::thread::sleep(Duration::from_millis(5));
            }
            seq = seq.next();
            let node = format!("{prefix}{number}");
            let node = NodeName::try_from(node.as_str()).expect("a good name");
            store.submit(seq, Record::TaskEnded(done(job.clone(), node, number)));
        }
    }
    store.close().expect("room on the disk");
}

fn done(job: JobName, node: NodeName, number: usize) -> EndedTask {
    let number = i64::try_from(number).expect("a number of completions");
    EndedTask {
        job,
        node,
        invocation: InvocationId::new(1, number),
        status: StoredStatus {
            bits: StatusBits::DONE,
            time: WallTime::from_millis(1_600_000_000_000 + number),
            backoff_seconds: 0,
            safety_seconds: 0,
            data: None,
        },
        // The story of a successful task, like most completions.
        story: Some(Box::new(KeptStory {
            story: Story {
                starting: Duration::from_millis(1),
                ran: Some(Duration::from_millis(1234)),
                cpu: Duration::from_millis(1000),
                peak_memory_bytes: Some(12_345_678),
                read_bytes: 0,
                written_bytes: 4096,
                ..Story::exited(0)
            },
            shard: Shard::try_from("worker1").expect("a good name"),
            queued: Some(Duration::from_millis(5)),
        })),
        outputs: Vec::new(),
    }
}
