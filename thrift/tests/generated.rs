//! Tests that each generated struct survives compact and binary encoding with every field set, and reads as its defaults from an empty
//! struct.

use std::fmt::Debug;

use brasserie_thrift::generated::{brasserie, common, fb303, scheduler, worker};
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TMessageIdentifier,
    TOutputProtocol, TSerializable, TSetIdentifier, TStructIdentifier, TType,
};

/// Upper bound of the IDL's field ids. A new field above it stays unset and fails the tests.
const MAX_FIELD_ID: i16 = 32;

const FIELD_TYPES: [TType; 11] = [
    TType::Bool,
    TType::I08,
    TType::I16,
    TType::I32,
    TType::I64,
    TType::Double,
    TType::String,
    TType::Struct,
    TType::List,
    TType::Set,
    TType::Map,
];

/// A reader that generates a message of any type. It offers each field id with each type, and generated code accepts its own.
struct Filler {
    state: u64,
    /// The number of fields offered in each open struct.
    offered: Vec<usize>,
}

impl Filler {
    fn new(seed: u64) -> Self {
        Filler {
            state: seed,
            offered: Vec::new(),
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The high bits of this generator are the random ones. Sometimes few bits are used, so that small numbers occur too.
        let bits = self.state >> 33 ^ self.state;
        bits >> (self.state >> 59)
    }

    fn size(&mut self) -> i32 {
        i32::try_from(self.next() % 3 + 1).expect("at most 3")
    }
}

impl TInputProtocol for Filler {
    fn read_message_begin(&mut self) -> thrift::Result<TMessageIdentifier> {
        unreachable!("only structs are read")
    }
    fn read_message_end(&mut self) -> thrift::Result<()> {
        unreachable!("only structs are read")
    }
    fn read_struct_begin(&mut self) -> thrift::Result<Option<TStructIdentifier>> {
        self.offered.push(0);
        Ok(None)
    }
    fn read_struct_end(&mut self) -> thrift::Result<()> {
        self.offered.pop();
        Ok(())
    }
    fn read_field_begin(&mut self) -> thrift::Result<TFieldIdentifier> {
        let offered = self.offered.last_mut().expect("a struct is open");
        let field_type = FIELD_TYPES[*offered % FIELD_TYPES.len()];
        let id = i16::try_from(*offered / FIELD_TYPES.len()).expect("few fields are offered");
        *offered += 1;
        if id > MAX_FIELD_ID {
            return Ok(TFieldIdentifier::new::<Option<String>, String, _>(
                None,
                TType::Stop,
                None,
            ));
        }
        Ok(TFieldIdentifier::new::<Option<String>, String, _>(
            None, field_type, id,
        ))
    }
    fn read_field_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }
    fn read_bool(&mut self) -> thrift::Result<bool> {
        Ok(self.next() % 2 == 1)
    }
    fn read_bytes(&mut self) -> thrift::Result<Vec<u8>> {
        Ok(self.next().to_be_bytes().to_vec())
    }
    fn read_i8(&mut self) -> thrift::Result<i8> {
        Ok(self.next() as i8)
    }
    fn read_i16(&mut self) -> thrift::Result<i16> {
        Ok(self.next() as i16)
    }
    fn read_i32(&mut self) -> thrift::Result<i32> {
        Ok(self.next() as i32)
    }
    fn read_i64(&mut self) -> thrift::Result<i64> {
        Ok(self.next() as i64)
    }
    fn read_double(&mut self) -> thrift::Result<f64> {
        Ok(self.next() as f64 / 7.0)
    }
    fn read_uuid(&mut self) -> thrift::Result<uuid::Uuid> {
        unreachable!("the IDL has no uuid")
    }
    fn read_string(&mut self) -> thrift::Result<String> {
        Ok(format!("täsk {}", self.next()))
    }
    fn read_list_begin(&mut self) -> thrift::Result<TListIdentifier> {
        let size = self.size();
        Ok(TListIdentifier::new(TType::Struct, size))
    }
    fn read_list_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }
    fn read_set_begin(&mut self) -> thrift::Result<TSetIdentifier> {
        let size = self.size();
        Ok(TSetIdentifier::new(TType::Struct, size))
    }
    fn read_set_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }
    fn read_map_begin(&mut self) -> thrift::Result<TMapIdentifier> {
        let size = self.size();
        Ok(TMapIdentifier::new(TType::String, TType::Struct, size))
    }
    fn read_map_end(&mut self) -> thrift::Result<()> {
        Ok(())
    }
    fn skip_till_depth(&mut self, _: TType, _: i8) -> thrift::Result<()> {
        Ok(())
    }
    fn read_byte(&mut self) -> thrift::Result<u8> {
        Ok(self.next() as u8)
    }
}

fn compact<T: TSerializable>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut output = TCompactOutputProtocol::new(&mut bytes);
    value
        .write_to_out_protocol(&mut output)
        .expect("memory takes all");
    output.flush().expect("memory takes all");
    drop(output);
    bytes
}

fn binary<T: TSerializable>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut output = TBinaryOutputProtocol::new(&mut bytes, true);
    value
        .write_to_out_protocol(&mut output)
        .expect("memory takes all");
    output.flush().expect("memory takes all");
    bytes
}

fn from_compact<T: TSerializable>(bytes: &[u8]) -> thrift::Result<T> {
    T::read_from_in_protocol(&mut TCompactInputProtocol::new(bytes))
}

fn from_binary<T: TSerializable>(bytes: &[u8]) -> thrift::Result<T> {
    T::read_from_in_protocol(&mut TBinaryInputProtocol::new(bytes, true))
}

fn survives<T: TSerializable + Debug + PartialEq>() {
    for seed in 0..50 {
        let value = T::read_from_in_protocol(&mut Filler::new(seed)).expect("the filler fills");
        let shown = format!("{value:?}");
        assert!(!shown.contains("None"), "a field stayed unset: {shown}");
        let (in_compact, in_binary) = (compact(&value), binary(&value));
        assert_eq!(
            from_compact::<T>(&in_compact).expect("compact reads back"),
            value
        );
        assert_eq!(
            from_binary::<T>(&in_binary).expect("binary reads back"),
            value
        );
        if seed == 0 {
            refuses_prefixes(&in_compact, from_compact::<T>);
            refuses_prefixes(&in_binary, from_binary::<T>);
        }
    }
}

/// Approximate number of prefixes tried for a message: all prefixes of most messages, and a sample for the longest.
const PREFIXES: usize = 300;

fn refuses_prefixes<T>(bytes: &[u8], read: impl Fn(&[u8]) -> thrift::Result<T>) {
    for cut in (0..bytes.len()).step_by(bytes.len() / PREFIXES + 1) {
        assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

/// Generates a test for each struct, and the list of structs.
macro_rules! structs {
    ($($module:ident: $($name:ident),+;)+) => {
        mod both_protocols {
        $(pub mod $module {
            $(
                #[test]
                #[expect(non_snake_case, reason = "the test is named after its type")]
                fn $name() {
                    crate::survives::<brasserie_thrift::generated::$module::$name>();
                }
            )+
        })+
        }

        const TESTED: &[(&str, &str)] = &[$($((stringify!($module), stringify!($name)),)+)+];
    };
}

structs! {
    fb303: FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult;
    common: Artifact, ArtifactHolder, TaskInput, TaskOutput, TaskArtifacts, GPUInfo, GpuShare, GpusWanted, UsablePhysicalResources, TaskPhysicalResources, BackoffDuration, LogLine, LogLines, Resource,
        NodeResources, BistroInstanceID, RunningTask, MachinePortLock, ServiceAddress, SetHash, WorkerSetHash, WorkerSetID,
        BistroWorker, PhysicalResourceConfig, CGroupOptions, TaskSubprocessOptions, SchedulerHeartbeatResponse, KillRequest,
        ResourceLimit,
        TaskStory, WorkDemand, KnownTask, WorkRequest, ProcessorVerdict, WorkReply;
    scheduler: BistroJobConfigFilters, BistroJobConfig, BistroCountWithSamples, BistroJobHistogram,
        BistroSchedulerUnknownJobException,
        BistroSchedulerGetJobsArgs, BistroSchedulerGetJobsResult, BistroSchedulerGetJobArgs, BistroSchedulerGetJobResult,
        BistroSchedulerSaveJobArgs, BistroSchedulerSaveJobResult, BistroSchedulerDeleteJobArgs,
        BistroSchedulerDeleteJobResult, BistroSchedulerGetLevelsArgs, BistroSchedulerGetLevelsResult,
        BistroSchedulerGetJobHistogramsArgs, BistroSchedulerGetJobHistogramsResult,
        BistroSchedulerGetJobLogsByTimeArgs, BistroSchedulerGetJobLogsByTimeResult, BistroSchedulerGetJobLogsByIDArgs,
        BistroSchedulerGetJobLogsByIDResult, BistroSchedulerForgiveJobArgs, BistroSchedulerForgiveJobResult,
        BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusResult, BistroSchedulerUpdateStatusBatchArgs,
        BistroSchedulerUpdateStatusBatchResult, StatusUpdate, StatusResult, ArtifactDisk, ArtifactCopy, ArtifactListing, InputPeer, WaitingRun, ArtifactCounters, ArtifactsReport, ListingWanted, ArtifactHolders, ArtifactReplica, ArtifactsAnswer, ArtifactSlotsRequest, ArtifactSlotsWorker, ArtifactPlace, ArtifactSlot, ArtifactSlots, NoArtifactSlotsException, BistroSchedulerRequestArtifactSlotsArgs, BistroSchedulerRequestArtifactSlotsResult, BistroSchedulerReleaseArtifactSlotsArgs, BistroSchedulerReleaseArtifactSlotsResult, BistroSchedulerReportArtifactsArgs, BistroSchedulerReportArtifactsResult, BistroSchedulerProcessHeartbeatArgs,
        BistroSchedulerProcessHeartbeatResult, BistroSchedulerRequestWorkArgs, BistroSchedulerRequestWorkResult,
        BistroSchedulerFetchArtifactsArgs, BistroSchedulerFetchArtifactsResult, BistroSchedulerCheckArtifactArgs, BistroSchedulerCheckArtifactResult;
    worker: BistroWorkerException, RunTaskAnswer, ArtifactRange, ArtifactPiece, ArtifactPieces, BistroWorkerFetchArtifactsArgs, BistroWorkerFetchArtifactsResult, BistroWorkerCheckArtifactArgs, BistroWorkerCheckArtifactResult,
        BistroWorkerGetRunningTasksArgs, BistroWorkerGetRunningTasksResult, BistroWorkerRunTaskArgs,
        BistroWorkerRunTaskResult, BistroWorkerNotifyIfTasksNotRunningArgs, BistroWorkerNotifyIfTasksNotRunningResult,
        BistroWorkerRequestSuicideArgs, BistroWorkerRequestSuicideResult, BistroWorkerKillTaskArgs,
        BistroWorkerKillTaskResult, BistroWorkerGetJobLogsByIDArgs, BistroWorkerGetJobLogsByIDResult;
    brasserie: JobStatus, TaskCounts, JobTotals, JobStatusPage, SlotUse, WorkAskedOfType, WorkAsked, DiskStatus, TransferCounts, LocalityCounts, WorkerStatus, WorkRequestCounts, ConfigStatus, ClusterStatus,
        BrasserieGetClusterStatusArgs, BrasserieGetClusterStatusResult,
        BrasserieExplainTaskArgs, BrasserieExplainTaskResult,
        SubmittedJob, JobRefusedException, PlannedKey, PlannedJob, PlannedNames, PlannedNodes, PlannedStarts,
        PlannedOrphan, PlannedOrphans, Plan, PlanRefusedException, BrasserieSubmitJobArgs, BrasserieSubmitJobResult,
        BrasserieRemoveJobArgs, BrasserieRemoveJobResult, BrasseriePauseJobArgs, BrasseriePauseJobResult,
        BrasserieResumeJobArgs, BrasserieResumeJobResult, BrasserieForgiveTasksArgs, BrasserieForgiveTasksResult,
        BrasseriePlanConfigArgs, BrasseriePlanConfigResult,
        DeletedHistory, BrasserieDeleteHistoryArgs, BrasserieDeleteHistoryResult,
        WorkerOrder, WorkerOrderRequest, OrderRefusedException, BrasserieOrderWorkerArgs, BrasserieOrderWorkerResult, DrainTerms,
        MissingInstance, ForgetRefusedException, BrasserieForgetWorkerArgs, BrasserieForgetWorkerResult,
        JobPage, BrasserieGetJobPageArgs, BrasserieGetJobPageResult, BrasserieGetJobStatusPageArgs, BrasserieGetJobStatusPageResult,
        LastRun, StoreStatus, ScheduleStatus, BrasserieGetTaskHistoryArgs, BrasserieGetTaskHistoryResult,
        TaskCursor, ListedTask, TaskPage, TaskKill, BrasserieGetTaskPageArgs, BrasserieGetTaskPageResult,
        BrasserieGetJobStatusArgs, BrasserieGetJobStatusResult, BrasserieKillTaskArgs, BrasserieKillTaskResult,
        OutputHolder, ListedOutput, OutputSet, OutputCursor, OutputPage, BrasserieGetOutputPageArgs, BrasserieGetOutputPageResult,
        ListedFile, FilePage, FileUpload, FileRefusedException, BrasserieGetFilePageArgs, BrasserieGetFilePageResult,
        BrasseriePutFileArgs, BrasseriePutFileResult, BrasserieRemoveFileArgs, BrasserieRemoveFileResult,
        ForgottenOutputs, BrasserieForgetOutputsArgs, BrasserieForgetOutputsResult,
        BrasserieHoldOutputsArgs, BrasserieHoldOutputsResult,
        BrasserieCancelJobArgs, BrasserieCancelJobResult,
        WorkFetchStatus, BrasserieWorkerGetWorkFetchArgs, BrasserieWorkerGetWorkFetchResult,
        WorkWish, BrasserieWorkerFetchWorkArgs, BrasserieWorkerFetchWorkResult, BrasserieWorkerDrainArgs, BrasserieWorkerDrainResult,
        IssuedCertificate, Caller, TokenTerms, TokenStatus, CreatedToken, NotAdmittedException,
        BrasserieJoinArgs, BrasserieJoinResult, BrasserieRenewCertificateArgs, BrasserieRenewCertificateResult,
        BrasserieCertifyArgs, BrasserieCertifyResult, BrasserieAuthenticateArgs, BrasserieAuthenticateResult,
        BrasserieCreateTokenArgs, BrasserieCreateTokenResult, BrasserieListTokensArgs, BrasserieListTokensResult,
        BrasserieRevokeTokenArgs, BrasserieRevokeTokenResult, BrasserieRevokeWorkerArgs, BrasserieRevokeWorkerResult,
        RevokedShard, CertificateNews, BrasserieWorkerLearnCertificatesArgs, BrasserieWorkerLearnCertificatesResult,
        AuthorityStatus, BrasserieGetAuthorityArgs, BrasserieGetAuthorityResult, BrasserieRotateAuthorityArgs, BrasserieRotateAuthorityResult,
        AuditCursor, AuditQuery, AuditPage, BrasserieGetAuditPageArgs, BrasserieGetAuditPageResult;
}

#[test]
fn no_struct_is_left_out() {
    let sources = [
        ("fb303", include_str!("../src/generated/fb303.rs")),
        ("common", include_str!("../src/generated/common.rs")),
        ("scheduler", include_str!("../src/generated/scheduler.rs")),
        ("worker", include_str!("../src/generated/worker.rs")),
        ("brasserie", include_str!("../src/generated/brasserie.rs")),
    ];
    let mut found = 0;
    for (module, source) in sources {
        for line in source.lines() {
            let name = line
                .strip_prefix("pub struct ")
                .and_then(|rest| rest.strip_suffix(" {").or_else(|| rest.strip_suffix(" {}")));
            if let Some(name) = name {
                assert!(TESTED.contains(&(module, name)), "{module}::{name}");
                found += 1;
            }
        }
    }
    assert_eq!(found, TESTED.len());
}

/// A struct without fields, in both protocols.
const NOTHING: &[u8] = &[0];

fn reads_nothing_as<T: TSerializable + Debug + PartialEq>(expected: T) {
    assert_eq!(
        from_compact::<T>(NOTHING).expect("nothing is required"),
        expected
    );
    assert_eq!(
        from_binary::<T>(NOTHING).expect("nothing is required"),
        expected
    );
}

#[test]
fn absent_fields_take_the_defaults_of_the_idl() {
    reads_nothing_as(common::TaskSubprocessOptions {
        poll_ms: Some(10),
        max_log_lines_per_poll_interval: Some(50),
        parent_death_signal: Some(9),
        process_group_leader: Some(false),
        use_canary_pipe: Some(true),
        refresh_resources_sec: Some(2),
        cgroup_options: None,
        timeout_sec: None,
        status_from: None,
        arguments: None,
        max_log_bytes_per_poll_interval: None,
        log_overflow: None,
        output: None,
        kill_request: None,
        limits: None,
        user: None,
        group: None,
        environment: None,
        working_directory: None,
        artifacts: None,
    });
    reads_nothing_as(common::KillRequest {
        method: Some(common::KillMethod::TERM),
        kill_wait_ms: Some(0),
        reason: None,
    });
    let job = from_compact::<scheduler::BistroJobConfig>(NOTHING).expect("nothing is required");
    assert_eq!(job.priority, Some(1.0.into()));
    assert_eq!(job.version_id, Some(-1));
    assert_eq!(job.enabled, Some(false));
    assert_eq!(job.kill_orphan_tasks_after_sec, None);
    assert_eq!(job, scheduler::BistroJobConfig::default());
    let filters =
        from_compact::<scheduler::BistroJobConfigFilters>(NOTHING).expect("nothing is required");
    assert_eq!(filters.fraction_of_nodes, Some(1.0.into()));
    let physical =
        from_compact::<common::PhysicalResourceConfig>(NOTHING).expect("nothing is required");
    assert_eq!(physical.multiply_logical_by, Some(1.0.into()));
    assert_eq!(
        physical.enforcement,
        Some(common::PhysicalResourceEnforcement::NONE)
    );
    reads_nothing_as(common::RunningTask::default());
    reads_nothing_as(common::BistroWorker::default());
    reads_nothing_as(common::SchedulerHeartbeatResponse::default());
}

#[test]
fn required_fields_are_required() {
    for result in [
        from_compact::<common::BackoffDuration>(NOTHING),
        from_binary::<common::BackoffDuration>(NOTHING),
    ] {
        let text = format!("{:?}", result.expect_err("noMoreBackoffs is required"));
        assert!(text.contains("no_more_backoffs"), "{text}");
    }
    assert!(from_compact::<common::Resource>(NOTHING).is_err());
    assert!(from_compact::<common::NodeResources>(NOTHING).is_err());
}

#[test]
fn an_older_scheduler_does_not_say_who_asks_for_running_tasks() {
    let worker = common::BistroInstanceID {
        start_time: Some(5),
        rand: Some(-6),
    };
    let args = worker::BistroWorkerGetRunningTasksArgs {
        worker: worker.clone(),
        scheduler: None,
    };
    let read: worker::BistroWorkerGetRunningTasksArgs =
        from_compact(&compact(&args)).expect("the scheduler is optional");
    assert_eq!(read.scheduler, None);
    assert_eq!(read.worker, worker);
}

#[test]
fn a_field_of_another_type_counts_as_absent() {
    // Field 1 of KillRequest is an i32; here it is a string.
    let mut bytes = vec![11, 0, 1, 0, 0, 0, 3, b'a', b'b', b'c'];
    bytes.extend([8, 0, 2, 0, 0, 0, 42, 0]);
    let request: common::KillRequest = from_binary(&bytes).expect("the string is skipped");
    assert_eq!(request.method, Some(common::KillMethod::TERM));
    assert_eq!(request.kill_wait_ms, Some(42));
}

#[test]
fn unknown_fields_of_newer_peers_are_ignored() {
    let filled =
        common::RunningTask::read_from_in_protocol(&mut Filler::new(1)).expect("the filler fills");
    // This struct has ids that `KillRequest` lacks, and two with other types.
    let read: common::KillRequest =
        from_binary(&binary(&filled)).expect("whatever is not known is skipped");
    assert_eq!(read, common::KillRequest::default());
}

#[test]
fn a_container_that_lies_about_its_size_costs_nothing() {
    // LogLines.lines: a list of 2^31 - 1 structs in nine bytes.
    let lie = [15, 0, 1, 12, 0x7f, 0xff, 0xff, 0xff, 0];
    assert!(from_binary::<common::LogLines>(&lie).is_err());
}

#[test]
fn statuses_of_fb303_keep_their_numbers() {
    assert_eq!(i32::from(fb303::FbStatus::ALIVE), 2);
    assert_eq!(fb303::FbStatus::from(5), fb303::FbStatus::WARNING);
    assert_eq!(i32::from(worker::BistroWorkerExceptionCode::DRAINING), 6);
    assert_eq!(brasserie::ClusterStatus::default().wall_time_ms, Some(0));
}

/// A `runTask` as Apache Thrift's Python library encodes it.
const PYTHON_BINARY: &str = concat!(
    "0c00010b0001000000016a0b0002000000016e0f00030c000000010b0001000000016e0f00020c000000010b000100000005",
    "736c6f74730800020000000100000b000400000001770c00050a0001000000006553f1000a0002fffffffffffffffe000c00",
    "06020001000800020000003c000c00070a000100000000000000050a00020000000000000006040003401e0000000000000f",
    "00040c000000000008000800001388000b0002000000027b7d0f00030b00000002000000016100000001620c00040a000100",
    "000000000000010a00020000000000000002000c00050a000100000000000000030a0002fffffffffffffffc000a00060000",
    "0000000000090c00070800010000000a08000200000032080003000000090200040002000501080006000000020c00070b00",
    "0100000001720b000200000001730f00030b00000001000000036370750200040006000500000a0006000000000000000002",
    "000700000b000a00000004706970650b000b000000046e6f6e650000"
);
const PYTHON_COMPACT: &str = concat!(
    "1c18016a18016e191c18016e191c1805736c6f7473150200001801771c1680c49fd50c1603001c121578001c160a160c1700",
    "00000000001e40190c0015904e0018027b7d1928016101621c16021604001c160616070016121c151415641512121115041c",
    "1801721801731918036370751214001600120038047069706518046e6f6e650000"
);

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) * 16 + digit(pair[1]))
        .collect()
}

fn python_call() -> worker::BistroWorkerRunTaskArgs {
    let instance = |start_time, rand| common::BistroInstanceID {
        start_time: Some(start_time),
        rand: Some(rand),
    };
    worker::BistroWorkerRunTaskArgs {
        rt: common::RunningTask {
            job: Some("j".to_owned()),
            node: Some("n".to_owned()),
            node_resources: Some(vec![common::NodeResources {
                node: "n".to_owned(),
                resources: vec![common::Resource {
                    name: "slots".to_owned(),
                    amount: 1,
                }],
            }]),
            worker_shard: Some("w".to_owned()),
            invocation_id: Some(instance(1_700_000_000, -2)),
            next_backoff_duration: Some(common::BackoffDuration {
                no_more_backoffs: false,
                seconds: 60,
                times: None,
            }),
            physical_resources: Some(common::TaskPhysicalResources {
                ms_since_epoch: Some(5),
                cpu_time_ms: Some(6),
                memory_mb: Some(7.5.into()),
                peak_memory_mb: None,
                gpus: Some(Vec::new()),
                read_bytes: None,
                written_bytes: None,
            }),
            worker_suicide_task_kill_wait_ms: Some(5000),
            ..Default::default()
        },
        config: "{}".to_owned(),
        command: vec!["a".to_owned(), "b".to_owned()],
        scheduler: instance(1, 2),
        worker: instance(3, -4),
        notify_if_tasks_not_running_sequence_num: 9,
        opts: common::TaskSubprocessOptions {
            cgroup_options: Some(common::CGroupOptions {
                root: Some("r".to_owned()),
                slice: Some("s".to_owned()),
                subsystems: Some(vec!["cpu".to_owned()]),
                ..Default::default()
            }),
            status_from: Some("pipe".to_owned()),
            arguments: Some("none".to_owned()),
            ..Default::default()
        },
    }
}

#[test]
fn the_bytes_are_those_of_another_implementation() {
    assert_eq!(binary(&python_call()), bytes_of(PYTHON_BINARY));
    assert_eq!(compact(&python_call()), bytes_of(PYTHON_COMPACT));
    assert_eq!(
        from_binary::<worker::BistroWorkerRunTaskArgs>(&bytes_of(PYTHON_BINARY))
            .expect("a sound call"),
        python_call()
    );
    assert_eq!(
        from_compact::<worker::BistroWorkerRunTaskArgs>(&bytes_of(PYTHON_COMPACT))
            .expect("a sound call"),
        python_call()
    );
}
