//! Valid calls of every method, with every kind of field set, in every dialect.

use std::collections::BTreeMap;

use brasserie_thrift::generated::brasserie::{
    BrasserieExplainTaskArgs, BrasserieGetClusterStatusArgs, BrasserieGetTaskPageArgs,
    BrasseriePlanConfigArgs, BrasserieWorkerDrainArgs, BrasserieWorkerFetchWorkArgs,
    BrasserieWorkerGetWorkFetchArgs, DrainTerms, TaskCursor,
};
use brasserie_thrift::generated::common::{
    Artifact, BackoffDuration, BistroInstanceID, BistroWorker, GPUInfo, GpuShare, GpusWanted,
    KillRequest, KnownTask, MachinePortLock, NodeResources, Resource, RunningTask, ServiceAddress,
    SetHash, TaskOutput, TaskPhysicalResources, TaskStory, TaskSubprocessOptions,
    UsablePhysicalResources, WorkDemand, WorkRequest, WorkerSetHash, WorkerSetID,
};
use brasserie_thrift::generated::fb303::FacebookServiceGetStatusArgs;
use brasserie_thrift::generated::scheduler::*;
use brasserie_thrift::generated::worker::*;
use thrift::protocol::{
    TBinaryOutputProtocol, TCompactOutputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol, TSerializable,
};

/// Length of the length field of a frame.
pub const LENGTH_BYTES: usize = 4;

/// The encoding and transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    FramedCompact,
    FramedBinary,
    HeaderCompact,
    HeaderBinary,
}

impl Dialect {
    pub const ALL: [Dialect; 4] = [
        Dialect::FramedCompact,
        Dialect::FramedBinary,
        Dialect::HeaderCompact,
        Dialect::HeaderBinary,
    ];
}

/// The server to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Scheduler,
    Worker,
}

/// Returns the payloads of the frames: one for each method and dialect.
pub fn payloads(target: Target) -> Vec<Vec<u8>> {
    let calls = match target {
        Target::Scheduler => scheduler_calls(),
        Target::Worker => worker_calls(),
    };
    let in_all_dialects = |(name, arguments): &(&str, Box<dyn Encode>)| {
        Dialect::ALL
            .map(|dialect| payload(dialect, name, TMessageType::Call, 7, arguments.as_ref()))
    };
    calls.iter().flat_map(in_all_dialects).collect()
}

/// Encodes one message without its length field.
///
/// # Panics
/// Never, because a vector accepts every byte.
pub fn payload(
    dialect: Dialect,
    method: &str,
    kind: TMessageType,
    sequence: i32,
    body: &dyn Encode,
) -> Vec<u8> {
    let mut bytes = match dialect {
        Dialect::FramedCompact | Dialect::FramedBinary => Vec::new(),
        Dialect::HeaderCompact => header(sequence, 2),
        Dialect::HeaderBinary => header(sequence, 0),
    };
    let name = TMessageIdentifier::new(method, kind, sequence);
    let write = |output: &mut dyn TOutputProtocol| {
        output.write_message_begin(&name)?;
        body.encode(output)?;
        output.write_message_end()
    };
    let written = match dialect {
        Dialect::FramedCompact | Dialect::HeaderCompact => {
            write(&mut TCompactOutputProtocol::new(&mut bytes))
        }
        Dialect::FramedBinary | Dialect::HeaderBinary => {
            write(&mut TBinaryOutputProtocol::new(&mut bytes, true))
        }
    };
    written.expect("a vector takes every byte");
    bytes
}

/// Returns magic, flags, sequence id and one word of header: protocol, no transforms, padding.
fn header(sequence: i32, protocol: u8) -> Vec<u8> {
    let mut bytes = vec![0x0F, 0xFF, 0, 0];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend([0, 1, protocol, 0, 0, 0]);
    bytes
}

/// Prepends the length field.
pub fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], payload].concat()
}

/// A struct that can be encoded, whatever its type.
pub trait Encode {
    /// # Errors
    /// Those of the protocol.
    fn encode(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()>;
}

impl<T: TSerializable> Encode for T {
    fn encode(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        self.write_to_out_protocol(output)
    }
}

type Calls = Vec<(&'static str, Box<dyn Encode>)>;

#[expect(clippy::too_many_lines, reason = "a list of one call each")]
fn scheduler_calls() -> Calls {
    let job_name = "measure".to_owned();
    let by_id = BistroSchedulerGetJobLogsByIDArgs {
        logtype: "stdout".to_owned(),
        job_id: job_name.clone(),
        node_id: "n1".to_owned(),
        line_id: -1,
        is_ascending: true,
        regex_filter: "a+b".to_owned(),
        invocation: None,
    };
    let by_time = BistroSchedulerGetJobLogsByTimeArgs {
        logtype: by_id.logtype.clone(),
        job_id: by_id.job_id.clone(),
        node_id: by_id.node_id.clone(),
        time: 1,
        is_ascending: false,
        regex_filter: by_id.regex_filter.clone(),
        invocation: None,
    };
    let status = BistroSchedulerUpdateStatusArgs {
        running_task: task(),
        status: r#"{"result": "done", "data": {"lines": [1, 2.5, null, "x"]}}"#.to_owned(),
        scheduler: instance(1),
        worker: instance(2),
    };
    let batch = BistroSchedulerUpdateStatusBatchArgs {
        updates: vec![
            StatusUpdate {
                running_task: Some(task()),
                status: Some(status.status.clone()),
                scheduler: Some(instance(1)),
                worker: Some(instance(2)),
            };
            2
        ],
    };
    let histograms = BistroSchedulerGetJobHistogramsArgs {
        jobs: vec![job_name.clone()],
        samples: 3,
    };
    vec![
        ("getStatus", Box::new(FacebookServiceGetStatusArgs {})),
        ("getJobs", Box::new(BistroSchedulerGetJobsArgs {})),
        (
            "getJob",
            Box::new(BistroSchedulerGetJobArgs {
                job_name: job_name.clone(),
            }),
        ),
        (
            "saveJob",
            Box::new(BistroSchedulerSaveJobArgs { job: job() }),
        ),
        (
            "deleteJob",
            Box::new(BistroSchedulerDeleteJobArgs {
                job_name: job_name.clone(),
            }),
        ),
        ("getLevels", Box::new(BistroSchedulerGetLevelsArgs {})),
        ("getJobHistograms", Box::new(histograms)),
        ("getJobLogsByTime", Box::new(by_time)),
        ("getJobLogsByID", Box::new(by_id)),
        (
            "forgiveJob",
            Box::new(BistroSchedulerForgiveJobArgs {
                job_name: job_name.clone(),
            }),
        ),
        ("updateStatus", Box::new(status)),
        ("updateStatusBatch", Box::new(batch)),
        (
            "processHeartbeat",
            Box::new(BistroSchedulerProcessHeartbeatArgs {
                w: worker(),
                worker_set_id: worker_set(),
            }),
        ),
        (
            "requestWork",
            Box::new(BistroSchedulerRequestWorkArgs {
                request: work_request(),
            }),
        ),
        (
            "getClusterStatus",
            Box::new(BrasserieGetClusterStatusArgs {}),
        ),
        (
            "getTaskPage",
            Box::new(BrasserieGetTaskPageArgs {
                job: String::new(),
                states: vec!["running".to_owned()],
                after: Some(TaskCursor::default()),
                limit: 10,
            }),
        ),
        (
            "explainTask",
            Box::new(BrasserieExplainTaskArgs {
                job: job_name,
                node: "n1".to_owned(),
            }),
        ),
        (
            "planConfig",
            Box::new(BrasseriePlanConfigArgs {
                text: br#"{"bistro_settings": {"nodes": {"levels": ["l"]}}}"#.to_vec(),
                format: "json".to_owned(),
                folder: String::new(),
            }),
        ),
        ("noSuchMethod", Box::new(FacebookServiceGetStatusArgs {})),
    ]
}

fn drain_terms() -> DrainTerms {
    DrainTerms {
        deadline_ms: Some(1),
        reason: Some("hostile".to_owned()),
    }
}

fn worker_calls() -> Calls {
    let drain = BrasserieWorkerDrainArgs {
        shard: "no-such-worker".to_owned(),
        instance: instance(1),
        terms: Some(drain_terms()),
    };
    let run = BistroWorkerRunTaskArgs {
        rt: task(),
        config: r#"{"id": "measure"}"#.to_owned(),
        command: vec!["/bin/true".to_owned()],
        scheduler: instance(1),
        worker: instance(2),
        notify_if_tasks_not_running_sequence_num: 1,
        opts: TaskSubprocessOptions::default(),
    };
    let notify = BistroWorkerNotifyIfTasksNotRunningArgs {
        rts: vec![task(), task()],
        scheduler: instance(1),
        worker: instance(2),
        notify_if_tasks_not_running_sequence_num: 2,
    };
    let kill = BistroWorkerKillTaskArgs {
        rt: task(),
        scheduler: instance(1),
        worker: instance(2),
        req: KillRequest::default(),
    };
    let logs = BistroWorkerGetJobLogsByIDArgs {
        logtype: "stderr".to_owned(),
        job_ids: vec!["measure".to_owned()],
        node_ids: Vec::new(),
        line_id: -1,
        is_ascending: true,
        limit: 100,
        regex_filter: "x*".to_owned(),
        invocation: None,
    };
    vec![
        ("getStatus", Box::new(FacebookServiceGetStatusArgs {})),
        (
            "getRunningTasks",
            Box::new(BistroWorkerGetRunningTasksArgs {
                worker: instance(2),
                scheduler: Some(instance(1)),
            }),
        ),
        ("runTask", Box::new(run)),
        ("notifyIfTasksNotRunning", Box::new(notify)),
        (
            "requestSuicide",
            Box::new(BistroWorkerRequestSuicideArgs {
                scheduler: instance(1),
                worker: instance(2),
                reason: None,
            }),
        ),
        ("killTask", Box::new(kill)),
        ("getJobLogsByID", Box::new(logs)),
        ("getWorkFetch", Box::new(BrasserieWorkerGetWorkFetchArgs {})),
        (
            "fetchWork",
            Box::new(BrasserieWorkerFetchWorkArgs {
                scheduler: Some(ServiceAddress {
                    ip_or_host: Some("127.0.0.1".to_owned()),
                    port: Some(6789),
                }),
            }),
        ),
        ("drain", Box::new(drain)),
        ("noSuchMethod", Box::new(FacebookServiceGetStatusArgs {})),
    ]
}

fn instance(number: i64) -> BistroInstanceID {
    BistroInstanceID {
        start_time: Some(1_700_000_000 + number),
        rand: Some(number.wrapping_mul(0x1234_5678_9ABC_DEF1)),
    }
}

fn gpus() -> Vec<GPUInfo> {
    vec![GPUInfo {
        name: Some("gpu".to_owned()),
        pci_bus_id: Some("0000:00:00.0".to_owned()),
        memory_mb: Some(1024.0.into()),
        compute: Some(1.0.into()),
        cuda_device: Some("GPU-1".to_owned()),
    }]
}

fn task() -> RunningTask {
    let resources = vec![Resource {
        name: "readers".to_owned(),
        amount: 1,
    }];
    RunningTask {
        job: Some("measure".to_owned()),
        node: Some("n1".to_owned()),
        node_resources: Some(vec![NodeResources {
            node: "n1".to_owned(),
            resources,
        }]),
        worker_shard: Some("one".to_owned()),
        invocation_id: Some(instance(3)),
        next_backoff_duration: Some(BackoffDuration {
            no_more_backoffs: false,
            seconds: 5,
            times: None,
        }),
        physical_resources: Some(TaskPhysicalResources {
            ms_since_epoch: Some(1),
            cpu_time_ms: Some(2),
            memory_mb: Some(3.0.into()),
            peak_memory_mb: Some(4.0.into()),
            gpus: Some(gpus()),
            read_bytes: Some(8),
            written_bytes: Some(9),
        }),
        worker_suicide_task_kill_wait_ms: Some(5000),
        est_duration_sec: Some(1.5.into()),
        deadline_sec: Some(60),
        usage: Some(BTreeMap::from([("cpu".to_owned(), 0.5.into())])),
        gpus: Some(vec![GpuShare {
            device: "0000:00:00.0".to_owned(),
            milli: 500,
        }]),
        fence: Some(3_650_722_250_992_123_905),
        outputs: Some(vec![output()]),
        worker_slots: Some(vec![Resource {
            name: "slots".to_owned(),
            amount: 2,
        }]),
        gpus_wanted: Some(GpusWanted {
            of_models: Some([("H100".to_owned(), 1)].into()),
            any_milli: Some(1000),
            counts_as: Some("H100".to_owned()),
        }),
        work_request_seq: Some(1),
        bufferable: Some(true),
        report: Some("lazy".to_owned()),
        ended: Some("done".to_owned()),
        story: Some(TaskStory {
            exit_code: Some(0),
            signal: Some(15),
            not_started: Some("no such file".to_owned()),
            ended_by: Some("operator".to_owned()),
            fault: Some("task".to_owned()),
            starting_ms: Some(1),
            ran_ms: Some(2),
            cpu_ms: Some(3),
            peak_memory_bytes: Some(4),
            read_bytes: Some(5),
            written_bytes: Some(6),
            last_lines: Some(vec!["a line".to_owned()]),
            waited_ms: Some(7),
        }),
    }
}

fn job() -> BistroJobConfig {
    BistroJobConfig {
        name: Some("measure".to_owned()),
        resources: Some(BTreeMap::from([("readers".to_owned(), 1)])),
        filters: Some(BTreeMap::from([(
            "file".to_owned(),
            BistroJobConfigFilters::default(),
        )])),
        backoff_values: Some(vec![1, 2, 3]),
        depends_on: Some(vec!["other".to_owned()]),
        command: Some(vec!["/bin/true".to_owned()]),
        ..BistroJobConfig::default()
    }
}

fn worker_set() -> WorkerSetID {
    let hash = SetHash {
        add_all: Some(1),
        xor_all: Some(-1),
    };
    WorkerSetID {
        scheduler_id: Some(instance(1)),
        version: Some(3),
        hash: Some(WorkerSetHash {
            start_time: Some(hash.clone()),
            rand: Some(hash),
            num_workers: Some(1),
            digest: Some(vec![7; 32]),
        }),
        settled: Some(true),
    }
}

fn worker() -> BistroWorker {
    BistroWorker {
        shard: Some("hostile".to_owned()),
        machine_lock: Some(MachinePortLock {
            hostname: Some("host".to_owned()),
            port: Some(1),
        }),
        // Nothing listens on this port.
        addr: Some(ServiceAddress {
            ip_or_host: Some("127.0.0.1".to_owned()),
            port: Some(9),
        }),
        id: Some(instance(2)),
        heartbeat_period_sec: Some(15),
        protocol_version: Some(2),
        usable_resources: Some(UsablePhysicalResources {
            ms_since_epoch: Some(1),
            cpu_cores: Some(4.0.into()),
            memory_mb: Some(2048.0.into()),
            gpus: Some(gpus()),
        }),
        has_worker_command: Some(true),
        draining: None,
        asks_for_work: Some(true),
        tasks_are_dead: Some(false),
        max_tasks: Some(100),
        limited_by: Some("open files: 1024, 4 a task".to_owned()),
        containment: Some("process-groups: a reason".to_owned()),
        log_folder: Some("/var/lib/worker/logs".to_owned()),
        takes_standby: Some(true),
        work_request: Some(work_request()),
    }
}

fn work_request() -> WorkRequest {
    let demand = |processor: &str| WorkDemand {
        processor: Some(processor.to_owned()),
        instances: Some(4.0.into()),
        req_instance_secs: Some(9000.0.into()),
        req_instances: Some(2.0.into()),
        idle_instances: Some(1.0.into()),
        estimated_delay_sec: Some(0.5.into()),
        waiting_instances: Some(3.0.into()),
    };
    WorkRequest {
        worker: Some(instance(2)),
        scheduler: Some(instance(1)),
        seq: Some(1),
        demands: Some(vec![demand("CPU"), demand("gpu")]),
        known: Some(vec![KnownTask {
            invocation_id: Some(instance(3)),
            remaining_sec: Some(60.0.into()),
            deadline_sec: Some(600.0.into()),
        }]),
        linger_sec: Some(120.0.into()),
        low_water_sec: Some(10.0.into()),
        chooses_cards: Some(true),
    }
}

fn output() -> TaskOutput {
    TaskOutput {
        path: Some("table".to_owned()),
        artifact: Some(Artifact {
            id: Some(vec![7; 32]),
            size: Some(1),
            form: Some("file".to_owned()),
        }),
        generation: Some(vec![9; 16]),
    }
}
