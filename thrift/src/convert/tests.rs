//! Round trips of every pair of types, and one test for each error that a peer can cause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample;
use thrift::OrderedFloat;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactCounters, ArtifactsAnswer, ArtifactsReport, DiskCondition, DiskMedium,
    DiskReport, InputPeer, ListingNumber, ListingPage, ListingWanted, WaitingRun,
};
use brasserie_common::cards::MAX_CARDS;
use brasserie_common::logs::{LineId, LinePart, LogLine, LogPage, LogQuery, LogStream};
use brasserie_common::resources::{
    GpuInfo, NodeResources, ResourceAmount, TaskPhysicalResources, UsablePhysicalResources,
};
use brasserie_common::task::CGroupOptions;
use brasserie_common::work::{MAX_KNOWN_TASKS, MAX_PROCESSOR_TYPES};
use brasserie_common::work_overview::{Asks, Overview, WorkFetchStatus, WorkWish};
use brasserie_common::worker::{DrainTerms, HeartbeatResponse, Intake, Supply, TaskRoom};
use brasserie_common::worker_set::SetHash;
use brasserie_common::{
    AccountName, Arguments, Artifact, ArtifactForm, ArtifactHolder, ArtifactId, ArtifactNamespace,
    BackoffDuration, Bound, CardAmount, CardChoice, CardNeed, CardsWanted, DiskGeneration, EndedBy,
    Ending, Fault, Fence, GpuShare, Health, InstanceId, InvocationId, JobName, Kill, KillMethod,
    KillRequest, KnownTask, LeftOutput, Limited, LogOverflow, MachinePortLock, NodeName, Output,
    OutputPath, ProcessLimit, Processor, RefusalCode, ReportPolicy, ReportedStatus, RunningTask,
    SchedulerId, ServiceAddress, SetDigest, Shard, Standing, StatusFrom, Story, TaskArtifacts,
    TaskInput, TaskKey, TaskOutput, TaskSubprocessOptions, WallTime, WorkDemand, WorkReply,
    WorkRequest, WorkRequestSeq, WorkTerms, WorkVerdict, WorkerDescription, WorkerId,
    WorkerSetHash, WorkerSetId,
};

use super::{
    WireError, bound_of, parse, parse_list, parse_name, refusal, riding_request,
    scheduler_log_query, undeclared_refusal, worker_exception,
};
use crate::generated::scheduler::BistroSchedulerGetJobLogsByIDArgs;
use crate::generated::worker::{
    BistroWorkerException, BistroWorkerExceptionCode, BistroWorkerGetJobLogsByIDArgs,
};
use crate::generated::{brasserie, common as wire};

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 /äß:%._-]{0,20}"
}

fn job() -> impl Strategy<Value = JobName> {
    text().prop_map(|text| text.try_into().expect("a name"))
}

fn node() -> impl Strategy<Value = NodeName> {
    text().prop_map(|text| text.try_into().expect("a name"))
}

fn shard() -> impl Strategy<Value = Shard> {
    text().prop_map(|text| text.try_into().expect("a name"))
}

fn instance() -> impl Strategy<Value = InstanceId> {
    (0..=i64::MAX, any::<i64>()).prop_map(|(start_time, rand)| InstanceId { start_time, rand })
}

fn whole_seconds() -> impl Strategy<Value = Duration> {
    (0..=i32::MAX as u64).prop_map(Duration::from_secs)
}

fn milliseconds(least: u64) -> impl Strategy<Value = Duration> {
    (least..=i32::MAX as u64).prop_map(Duration::from_millis)
}

fn an_amount() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1e12]
}

fn gpus() -> impl Strategy<Value = Vec<GpuInfo>> {
    let gpu = (text(), text(), text(), an_amount(), an_amount()).prop_map(
        |(name, pci_bus_id, cuda_device, memory_mb, compute)| GpuInfo {
            name,
            pci_bus_id,
            cuda_device,
            memory_mb,
            compute,
        },
    );
    vec(gpu, 0..3)
}

fn usable() -> impl Strategy<Value = UsablePhysicalResources> {
    (any::<i64>(), an_amount(), an_amount(), gpus()).prop_map(
        |(ms_since_epoch, cpu_cores, memory_mb, gpus)| UsablePhysicalResources {
            ms_since_epoch,
            cpu_cores,
            memory_mb,
            gpus,
        },
    )
}

fn used() -> impl Strategy<Value = TaskPhysicalResources> {
    (
        any::<i64>(),
        option::of(0..=i64::MAX),
        option::of(an_amount()),
        option::of(0..=i64::MAX as u64),
        gpus(),
    )
        .prop_map(
            |(ms_since_epoch, cpu_time_ms, memory_mb, read_bytes, gpus)| TaskPhysicalResources {
                ms_since_epoch,
                cpu_time_ms,
                memory_mb,
                peak_memory_mb: memory_mb.map(|mb| mb * 2.0),
                read_bytes,
                written_bytes: read_bytes.map(|bytes| bytes / 2),
                gpus,
            },
        )
}

fn amount() -> impl Strategy<Value = ResourceAmount> {
    (text(), 0..=i32::MAX).prop_map(|(name, amount)| ResourceAmount { name, amount })
}

fn held() -> impl Strategy<Value = NodeResources> {
    (node(), vec(amount(), 0..4)).prop_map(|(node, resources)| NodeResources { node, resources })
}

fn share() -> impl Strategy<Value = GpuShare> {
    (text(), 1_u32..=1000).prop_map(|(device, milli)| GpuShare {
        device: device.into(),
        milli,
    })
}

fn backoff() -> impl Strategy<Value = BackoffDuration> {
    (any::<bool>(), 0..=i32::MAX as u32, 0..=i32::MAX as u32).prop_map(
        |(no_more_backoffs, seconds, times)| BackoffDuration {
            no_more_backoffs,
            seconds,
            times,
        },
    )
}

fn reported() -> impl Strategy<Value = ReportedStatus> {
    prop_oneof![
        Just(ReportedStatus::done()),
        Just(ReportedStatus::failed()),
        Just(ReportedStatus::incomplete()),
        Just(ReportedStatus::was_not_running()),
        text().prop_map(|text| ReportedStatus::error_backoff(&text)),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        text().prop_map(Ending::NotStarted),
        any::<i32>().prop_map(Ending::Exited),
        any::<i32>().prop_map(Ending::Signalled),
        Just(Ending::Unknown),
    ]
}

prop_compose! {
    fn story()(
        ending in ending(),
        ended_by in option::of(sample::select(&EndedBy::ALL[..])),
        fault in sample::select(&Fault::ALL[..]),
        (starting, waited) in (milliseconds(0), milliseconds(0)),
        ran in option::of(milliseconds(0)),
        cpu in milliseconds(0),
        peak_memory_bytes in option::of(0..=i64::MAX as u64),
        (read_bytes, written_bytes) in (0..=i64::MAX as u64, 0..=i64::MAX as u64),
        last_lines in vec(text(), 0..5),
    ) -> Arc<Story> {
        let story = Story { ending, ended_by, fault, starting, waited, ran, cpu, peak_memory_bytes, read_bytes, written_bytes, last_lines };
        Arc::new(story.bounded())
    }
}

fn kill() -> impl Strategy<Value = Kill> {
    let by = sample::select(&EndedBy::ALL[..]);
    (kill_request(), by).prop_map(|(request, by)| Kill { request, by })
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1e9]
}

fn work_terms() -> impl Strategy<Value = WorkTerms> {
    let request = option::of((0..=i64::MAX.cast_unsigned()).prop_map(WorkRequestSeq));
    let cpus = option::of(seconds());
    let report = option::of(proptest::sample::select(ReportPolicy::ALL.to_vec()));
    (option::of(1e-3..1e9), request, cpus, any::<bool>(), report).prop_map(
        |(est_duration, request, cpus, bufferable, report)| WorkTerms {
            est_duration,
            request,
            cpus,
            bufferable,
            report,
        },
    )
}

prop_compose! {
    fn cards_wanted()(
        of_models in btree_map(node(), 1..=MAX_CARDS, 0..4),
        part in 1..1000_u32,
        whole in option::of(0..=MAX_CARDS),
        counts_as in option::of(node()),
    ) -> CardsWanted {
        let of_models: BTreeMap<String, u32> = of_models.into_iter().map(|(model, cards)| (model.into(), cards)).collect();
        let of_any = match whole {
            None if of_models.is_empty() => CardAmount::Part(part),
            whole => CardAmount::Whole(whole.unwrap_or(0)),
        };
        CardsWanted {
            need: CardNeed::of_parts(of_models, of_any).expect("within the limits"),
            counts_as: counts_as.map(|model| model.as_str().into()),
        }
    }
}

prop_compose! {
    fn running_task()(
        job in job(),
        node in node(),
        invocation in instance(),
        shard in shard(),
        resources in vec(held(), 0..4),
        (gpus, gpus_wanted) in (vec(share(), 0..4), option::of(cards_wanted())),
        next_backoff in backoff(),
        suicide_kill_wait in milliseconds(0),
        physical in option::of(used()),
        ended in option::of(reported()),
        (story, work, fence) in (option::of(story()), work_terms(), option::of(1..=i64::MAX)),
        (worker_slots, outputs) in (option::of(vec(amount(), 0..3)), vec(task_output(), 0..3)),
    ) -> RunningTask {
        RunningTask {
            job, node, invocation: InvocationId(invocation), shard, resources, gpus, gpus_wanted, next_backoff, suicide_kill_wait, physical,
            ended, story, work, fence: fence.and_then(Fence::from_wire), worker_slots, outputs,
        }
    }
}

fn kill_request() -> impl Strategy<Value = KillRequest> {
    let method = prop_oneof![
        Just(KillMethod::TermWaitKill),
        Just(KillMethod::Kill),
        Just(KillMethod::Term)
    ];
    (method, milliseconds(0)).prop_map(|(method, wait)| KillRequest { method, wait })
}

prop_compose! {
    fn cgroups()(
        root in text(),
        slice in text(),
        subsystems in vec(text(), 0..3),
        unit_test_create_files in any::<bool>(),
        cpu_shares in prop_oneof![Just(0_i16), 2..=i16::MAX],
        memory_limit_in_bytes in 0..=i64::MAX,
        kill_without_freezer in any::<bool>(),
        pids_max in 0..=i64::MAX,
        cpu_quota_milli in 0..=i64::MAX,
    ) -> CGroupOptions {
        CGroupOptions {
            root, slice, subsystems, unit_test_create_files, cpu_shares, memory_limit_in_bytes, kill_without_freezer,
            pids_max, cpu_quota_milli,
        }
    }
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        Just(Bound::Unlimited),
        (0..=i64::MAX.cast_unsigned()).prop_map(Bound::At)
    ]
}

fn process_limits() -> impl Strategy<Value = BTreeMap<Limited, ProcessLimit>> {
    let limit = (bound(), bound()).prop_map(|(one, other)| {
        ProcessLimit::new(one.min(other), one.max(other)).expect("in order")
    });
    btree_map(sample::select(&Limited::ALL), limit, 0..4)
}

fn account() -> impl Strategy<Value = Option<AccountName>> {
    let name = "[^\0]{1,12}".prop_map(|text| AccountName::try_from(text).expect("a name"));
    proptest::option::of(name)
}

fn artifact() -> impl Strategy<Value = Artifact> {
    let form = sample::select(&[
        ArtifactForm::File,
        ArtifactForm::Executable,
        ArtifactForm::Folder,
    ]);
    (any::<[u8; 32]>(), 0..=i64::MAX.cast_unsigned(), form).prop_map(|(id, size, form)| Artifact {
        id: ArtifactId(id),
        size,
        form,
    })
}

fn output_path() -> impl Strategy<Value = OutputPath> {
    "[a-z]{1,9}(/[a-z]{1,9}){0,2}/?".prop_map(|text| OutputPath::try_from(&*text).expect("a path"))
}

fn task_output() -> impl Strategy<Value = LeftOutput> {
    (output_path(), artifact(), any::<u128>()).prop_map(|(path, artifact, generation)| LeftOutput {
        output: TaskOutput { path, artifact },
        generation: DiskGeneration(generation),
    })
}

fn artifact_holder() -> impl Strategy<Value = ArtifactHolder> {
    let parts = (option::of(address()), text(), option::of(text()));
    parts.prop_map(|(address, hostname, rack)| ArtifactHolder {
        address,
        hostname: hostname.into(),
        rack: rack.map(Into::into),
    })
}

fn task_artifacts() -> impl Strategy<Value = TaskArtifacts> {
    let input = (output_path(), artifact(), vec(0..2_usize, 0..3));
    let input = input.prop_map(|(place, artifact, holders)| TaskInput {
        place,
        artifact,
        holders,
    });
    let parts = (
        "[a-zA-Z0-9_-]{1,64}",
        vec(input, 0..3),
        vec(artifact_holder(), 2..4),
        vec(output_path(), 0..3),
    );
    parts.prop_map(|(namespace, inputs, holders, outputs)| TaskArtifacts {
        namespace: ArtifactNamespace::try_from(&*namespace).expect("a name"),
        inputs,
        holders,
        outputs,
    })
}

prop_compose! {
    fn subprocess_options()(
        poll in milliseconds(1),
        max_log_lines_per_poll_interval in any::<i32>(),
        parent_death_signal in 0..=64,
        process_group_leader in any::<bool>(),
        use_canary_pipe in any::<bool>(),
        refresh_resources in whole_seconds(),
        cgroups in cgroups(),
        status_from in prop_oneof![Just(StatusFrom::Auto), Just(StatusFrom::Pipe), Just(StatusFrom::ExitCode)],
        arguments in prop_oneof![Just(Arguments::Append), Just(Arguments::None)],
        max_log_bytes_per_poll_interval in any::<i32>(),
        log_overflow in prop_oneof![Just(LogOverflow::Wait), Just(LogOverflow::Drop)],
        output in prop_oneof![Just(Output::Log), Just(Output::File)],
        timeout in proptest::option::of(milliseconds(1)),
        limit_kill in proptest::option::of(kill_request()),
        limits in process_limits(),
        (user, group, environment, working_directory, artifacts) in (
            account(),
            account(),
            proptest::collection::btree_map("[A-Z_]{1,9}", "[^\0]{0,9}", 0..3),
            proptest::option::of("/[^\0]{0,9}"),
            proptest::option::of(task_artifacts()),
        ),
    ) -> TaskSubprocessOptions {
        TaskSubprocessOptions {
            poll, max_log_lines_per_poll_interval, parent_death_signal, process_group_leader, use_canary_pipe,
            refresh_resources, cgroups, status_from, arguments, max_log_bytes_per_poll_interval, log_overflow, output,
            timeout, deadline: None, limit_kill, limits, user, group, environment, working_directory,
            artifacts: artifacts.map(Box::new),
        }
    }
}

fn address() -> impl Strategy<Value = ServiceAddress> {
    ("[a-z0-9.:-]{1,20}", 1..=u16::MAX).prop_map(|(host, port)| ServiceAddress {
        host: host.into(),
        port,
    })
}

fn machine_lock() -> impl Strategy<Value = MachinePortLock> {
    (text(), any::<i32>()).prop_map(|(hostname, port)| MachinePortLock {
        hostname: hostname.into(),
        port,
    })
}

fn task_room(most: u32, limited_by: &str) -> TaskRoom {
    TaskRoom {
        most: most.try_into().expect("one task at least"),
        limited_by: limited_by.into(),
    }
}

prop_compose! {
    fn worker()(
        shard in shard(),
        machine_lock in machine_lock(),
        address in address(),
        id in instance(),
        heartbeat_period in whole_seconds(),
        protocol_version in any::<i16>(),
        usable in usable(),
        has_worker_command in any::<bool>(),
        intake in prop_oneof![Just(Intake::Open), Just(Intake::Draining)],
        supply in prop_oneof![Just(Supply::AsSlotsAllow), Just(Supply::AsAsked)],
        room in option::of((1..=i32::MAX.cast_unsigned(), text())),
        (containment, log_folder) in (option::of("[a-z: ]{1,40}"), option::of("/[a-z/ ]{1,40}")),
        takes_standby in any::<bool>(),
    ) -> WorkerDescription {
        WorkerDescription {
            shard, machine_lock, address, id: WorkerId(id), heartbeat_period, protocol_version, usable, has_worker_command, intake, supply,
            room: room.map(|(most, limit)| task_room(most, &limit)),
            containment: containment.map(Into::into),
            log_folder: log_folder.map(Into::into),
            takes_standby,
        }
    }
}

fn set_hash() -> impl Strategy<Value = SetHash> {
    (any::<i64>(), any::<i64>()).prop_map(|(add_all, xor_all)| SetHash { add_all, xor_all })
}

fn worker_set() -> impl Strategy<Value = WorkerSetId> {
    (
        instance(),
        any::<i64>(),
        set_hash(),
        set_hash(),
        0..=i32::MAX,
        proptest::option::of(any::<[u8; 32]>()),
        any::<bool>(),
    )
        .prop_map(
            |(scheduler, version, start_time, rand, num_workers, digest, settled)| WorkerSetId {
                scheduler: SchedulerId(scheduler),
                version,
                hash: WorkerSetHash {
                    start_time,
                    rand,
                    num_workers,
                    digest: digest.map(SetDigest::from_be_bytes),
                },
                standing: if settled {
                    Standing::Settled
                } else {
                    Standing::Unsettled
                },
            },
        )
}

fn processor() -> impl Strategy<Value = Processor> {
    prop_oneof![
        Just(Processor::Cpu),
        "[a-zA-Z0-9 /äß]{1,12}".prop_map(|name| Processor::named(&name))
    ]
}

prop_compose! {
    fn demand()(
        processor in processor(),
        there in 1.0..1e4,
        [instance_secs, instances, idle, estimated_delay] in [seconds(), seconds(), seconds(), seconds()],
        waiting in option::of(seconds()),
    ) -> WorkDemand {
        WorkDemand { processor, there, instance_secs, instances, idle, estimated_delay, waiting }
    }
}

fn known_task() -> impl Strategy<Value = KnownTask> {
    (instance(), option::of(seconds()), option::of(seconds())).prop_map(
        |(invocation, remaining, deadline)| KnownTask {
            invocation: InvocationId(invocation),
            remaining,
            deadline,
        },
    )
}

fn seq() -> impl Strategy<Value = WorkRequestSeq> {
    (0..=i64::MAX.cast_unsigned()).prop_map(WorkRequestSeq)
}

prop_compose! {
    fn work_request()(
        worker in instance(),
        scheduler in instance(),
        seq in seq(),
        demands in btree_map(processor(), demand(), 0..4),
        known in option::of(vec(known_task(), 0..4)),
        linger in milliseconds(0),
        low_water in an_amount(),
        cards in prop_oneof![Just(CardChoice::Scheduler), Just(CardChoice::Worker)],
    ) -> WorkRequest {
        let demands = demands.into_iter();
        let demands = demands.map(|(processor, demand)| WorkDemand { processor, ..demand });
        WorkRequest {
            worker: WorkerId(worker), scheduler: SchedulerId(scheduler), seq, demands: demands.collect(), known, linger, low_water,
            cards,
        }
    }
}

fn verdict() -> impl Strategy<Value = WorkVerdict> {
    prop_oneof![
        (0..=i32::MAX.cast_unsigned()).prop_map(WorkVerdict::Granted),
        Just(WorkVerdict::NoWork),
        Just(WorkVerdict::Limited),
        Just(WorkVerdict::Deadline),
        Just(WorkVerdict::NoApps),
        Just(WorkVerdict::Deferred),
        Just(WorkVerdict::Stale),
        Just(WorkVerdict::Pending),
    ]
}

prop_compose! {
    fn work_reply()(
        seq in seq(),
        verdicts in vec((processor(), verdict()), 0..4),
        request_delay in milliseconds(0),
        no_apps in vec(processor(), 0..3),
        next_contact in option::of(milliseconds(1)),
    ) -> WorkReply {
        WorkReply { seq, verdicts, request_delay, no_apps, next_contact }
    }
}

prop_compose! {
    fn heartbeat_response()(
        scheduler in instance(),
        gaps in [whole_seconds(), whole_seconds(), whole_seconds(), whole_seconds()],
        state in 0..4,
        not_healthy_for in option::of((0..=i64::MAX as u64).prop_map(Duration::from_millis)),
        protocol_version in any::<i16>(),
        worker_set in worker_set(),
        work in option::of(work_reply().prop_map(Box::new)),
        uses_artifacts in any::<bool>(),
        request_delay in option::of(milliseconds(0)),
        why_must_die in option::of("[a-z ]{0,40}".prop_map(Into::into)),
    ) -> HeartbeatResponse {
        HeartbeatResponse {
            scheduler: SchedulerId(scheduler),
            max_healthcheck_gap: gaps[0],
            heartbeat_grace_period: gaps[1],
            lose_unhealthy_worker_after: gaps[2],
            worker_check_interval: gaps[3],
            worker_state: Health::from_wire(state).expect("one of four"),
            not_healthy_for,
            protocol_version,
            worker_set,
            why_must_die,
            work,
            request_delay,
            uses_artifacts,
        }
    }
}

fn line_id() -> impl Strategy<Value = Option<LineId>> {
    option::of((0..=i64::MAX).prop_map(LineId))
}

fn log_page() -> impl Strategy<Value = LogPage> {
    let line = (
        job(),
        node(),
        0..=i64::from(i32::MAX),
        "\\PC{0,30}\n?",
        line_id(),
        (
            option::of(any::<i64>().prop_map(WallTime::from_millis)),
            option::of(instance().prop_map(InvocationId)),
            option::of(shard()),
            option::of(vec(any::<u8>(), 0..9)),
            any::<bool>(),
        ),
    )
        .prop_map(|(job, node, time_secs, line, id, more)| LogLine {
            job,
            node,
            time_secs,
            line,
            id,
            time: more.0,
            invocation: more.1,
            shard: more.2,
            bytes: more.3,
            part: if more.4 {
                LinePart::Continued
            } else {
                LinePart::Last
            },
        });
    (vec(line, 0..4), line_id()).prop_map(|(lines, next)| LogPage { lines, next })
}

prop_compose! {
    fn log_query()(
        stream in prop_oneof![Just(LogStream::Stdout), Just(LogStream::Stderr), Just(LogStream::Statuses)],
        jobs in vec(job(), 0..3),
        nodes in vec(node(), 0..3),
        from in line_id(),
        ascending in any::<bool>(),
        limit in 0..=i32::MAX as usize,
        regex in text(),
        invocation in option::of(instance().prop_map(InvocationId)),
    ) -> LogQuery {
        LogQuery { stream, jobs, nodes, from, ascending, limit, regex, invocation }
    }
}

fn work_wish() -> impl Strategy<Value = WorkWish> {
    let left = option::of((0..=1_000_000_u64).prop_map(Duration::from_millis));
    let asks = prop_oneof![
        Just(Asks::Now),
        (left, text()).prop_map(|(left, why)| Asks::Later { left, why }),
        text().prop_map(|why| Asks::Never { why }),
    ];
    (vec(address(), 0..3), vec(text(), 0..3), asks).prop_map(|(members, ended, asks)| WorkWish {
        members,
        ended,
        asks,
    })
}

fn there_and_back<D, W>(domain: D)
where
    D: Clone + std::fmt::Debug + PartialEq + TryFrom<W, Error = WireError>,
    W: From<D>,
{
    assert_eq!(D::try_from(W::from(domain.clone())), Ok(domain));
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn ids_round_trip(id in instance()) {
        there_and_back::<_, wire::BistroInstanceID>(id);
        there_and_back::<_, wire::BistroInstanceID>(InvocationId(id));
        there_and_back::<_, wire::BistroInstanceID>(SchedulerId(id));
        there_and_back::<_, wire::BistroInstanceID>(WorkerId(id));
    }

    #[test]
    fn resources_round_trip(held in held(), usable in usable(), used in used()) {
        there_and_back::<_, wire::NodeResources>(held);
        there_and_back::<_, wire::UsablePhysicalResources>(usable);
        there_and_back::<_, wire::TaskPhysicalResources>(used);
    }

    #[test]
    fn tasks_round_trip(task in running_task()) {
        there_and_back::<_, wire::RunningTask>(task);
    }

    #[test]
    fn backoffs_and_kill_requests_round_trip(backoff in backoff(), request in kill_request(), kill in kill()) {
        there_and_back::<_, wire::BackoffDuration>(backoff);
        there_and_back::<_, wire::KillRequest>(request);
        there_and_back::<_, wire::KillRequest>(kill);
    }

    #[test]
    fn subprocess_options_round_trip(options in subprocess_options()) {
        there_and_back::<_, wire::TaskSubprocessOptions>(options);
    }

    #[test]
    fn workers_round_trip(worker in worker()) {
        there_and_back::<_, wire::BistroWorker>(worker);
    }

    #[test]
    fn worker_sets_and_answers_round_trip(set in worker_set(), response in heartbeat_response()) {
        there_and_back::<_, wire::WorkerSetID>(set);
        there_and_back::<_, wire::SchedulerHeartbeatResponse>(response);
    }

    #[test]
    fn work_requests_and_replies_round_trip(request in work_request(), reply in work_reply()) {
        there_and_back::<_, wire::WorkRequest>(request);
        there_and_back::<_, wire::WorkReply>(reply);
    }

    #[test]
    fn reports_of_artifacts_and_answers_round_trip(report in artifacts_report(), answer in artifacts_answer()) {
        there_and_back::<_, crate::generated::scheduler::ArtifactsReport>(report);
        there_and_back::<_, crate::generated::scheduler::ArtifactsAnswer>(answer);
    }

    #[test]
    fn wishes_for_work_round_trip(wish in work_wish()) {
        there_and_back::<_, brasserie::WorkWish>(wish);
    }

    #[test]
    fn logs_round_trip(page in log_page(), query in log_query()) {
        there_and_back::<_, wire::LogLines>(page);
        there_and_back::<_, BistroWorkerGetJobLogsByIDArgs>(query);
    }
}

fn sound_worker() -> wire::BistroWorker {
    wire::BistroWorker {
        shard: Some("w1".to_owned()),
        machine_lock: Some(wire::MachinePortLock {
            hostname: Some("host".to_owned()),
            port: Some(6789),
        }),
        addr: Some(wire::ServiceAddress {
            ip_or_host: Some("127.0.0.1".to_owned()),
            port: Some(6789),
        }),
        id: Some(wire::BistroInstanceID {
            start_time: Some(7),
            rand: Some(-7),
        }),
        heartbeat_period_sec: Some(15),
        protocol_version: Some(2),
        ..Default::default()
    }
}

fn sound_task() -> wire::RunningTask {
    wire::RunningTask {
        job: Some("j".to_owned()),
        node: Some("n".to_owned()),
        invocation_id: Some(wire::BistroInstanceID {
            start_time: Some(7),
            rand: Some(-7),
        }),
        ..Default::default()
    }
}

fn sound_response() -> wire::SchedulerHeartbeatResponse {
    wire::SchedulerHeartbeatResponse {
        id: Some(wire::BistroInstanceID::default()),
        ..Default::default()
    }
}

/// Returns the error for a value that breaks one rule.
fn refused<D, W>(sound: impl Fn() -> W, spoil: impl Fn(&mut W)) -> String
where
    D: std::fmt::Debug + TryFrom<W, Error = WireError>,
{
    D::try_from(sound()).expect("the value is sound before it is spoilt");
    let mut wire = sound();
    spoil(&mut wire);
    D::try_from(wire)
        .expect_err("the value breaks a rule")
        .to_string()
}

fn refused_worker(spoil: impl Fn(&mut wire::BistroWorker)) -> String {
    refused::<WorkerDescription, _>(sound_worker, spoil)
}

fn refused_task(spoil: impl Fn(&mut wire::RunningTask)) -> String {
    refused::<RunningTask, _>(sound_task, spoil)
}

fn refused_response(spoil: impl Fn(&mut wire::SchedulerHeartbeatResponse)) -> String {
    refused::<HeartbeatResponse, _>(sound_response, spoil)
}

fn refused_options(spoil: impl Fn(&mut wire::TaskSubprocessOptions)) -> String {
    refused::<TaskSubprocessOptions, _>(wire::TaskSubprocessOptions::default, spoil)
}

const EARLY: wire::BistroInstanceID = wire::BistroInstanceID {
    start_time: Some(-1),
    rand: Some(0),
};

#[test]
fn workers_without_identity_or_address_are_refused() {
    let missing = "it is missing; an identity or an address has no default";
    assert_eq!(
        refused_worker(|w| w.id = None),
        format!("BistroWorker.id: {missing}")
    );
    assert_eq!(
        refused_worker(|w| w.addr = None),
        format!("BistroWorker.addr: {missing}")
    );
    assert_eq!(
        refused_worker(|w| w.machine_lock = None),
        format!("BistroWorker.machineLock: {missing}")
    );
    assert_eq!(
        refused_worker(|w| w.addr = Some(wire::ServiceAddress::default())),
        "BistroWorker.addr.ip_or_host: it is empty; write a host name or an IP address"
    );
}

#[test]
fn workers_with_senseless_fields_are_refused() {
    assert_eq!(
        refused_worker(|w| w.id = Some(EARLY)),
        "BistroWorker.id.startTime: -1 is not allowed; allowed is 0 or more"
    );
    assert_eq!(
        refused_worker(|w| w.shard = Some("a\0b".to_owned())),
        "BistroWorker.shard: the name contains a NUL character, which no program argument can hold"
    );
    assert_eq!(
        refused_worker(|w| w.heartbeat_period_sec = Some(-3)),
        "BistroWorker.heartbeatPeriodSec: -3 is not allowed; allowed is 0 or more"
    );
    for port in [0, -1, 65_536] {
        assert_eq!(
            refused_worker(|w| {
                w.addr = Some(wire::ServiceAddress {
                    ip_or_host: Some("h".to_owned()),
                    port: Some(port),
                });
            }),
            format!("BistroWorker.addr.port: {port} is not allowed; allowed is 1 to 65535")
        );
    }
    assert!(
        refused_worker(|w| {
            w.machine_lock = Some(wire::MachinePortLock {
                hostname: Some("h".repeat(2000)),
                port: Some(1),
            });
        })
        .starts_with("BistroWorker.machineLock.hostname: the name is 2000 bytes long")
    );
    assert!(
        refused_worker(|w| {
            w.addr = Some(wire::ServiceAddress {
                ip_or_host: Some("h\0".to_owned()),
                port: Some(1),
            });
        })
        .starts_with("BistroWorker.addr.ip_or_host: the name contains a NUL")
    );
}

#[test]
fn amounts_that_would_poison_sums_are_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let message = refused_worker(|w| {
            w.usable_resources = Some(wire::UsablePhysicalResources {
                cpu_cores: Some(bad.into()),
                ..Default::default()
            });
        });
        assert_eq!(
            message,
            format!(
                "BistroWorker.usableResources.cpuCores: {bad} is not allowed; allowed is a finite number, 0 or more"
            )
        );
    }
    let message = refused_worker(|w| {
        w.usable_resources = Some(wire::UsablePhysicalResources {
            gpus: Some(vec![
                wire::GPUInfo::default(),
                wire::GPUInfo {
                    compute: Some((-0.5).into()),
                    ..Default::default()
                },
            ]),
            ..Default::default()
        });
    });
    assert!(
        message.starts_with("BistroWorker.usableResources.gpus[1].compute: -0.5"),
        "{message}"
    );
}

#[test]
fn tasks_with_senseless_fields_are_refused() {
    assert_eq!(
        refused_task(|t| t.invocation_id = None),
        "RunningTask.invocationID: it is missing; an identity or an address has no default"
    );
    assert_eq!(
        refused_task(|t| t.invocation_id = Some(EARLY)),
        "RunningTask.invocationID.startTime: -1 is not allowed; allowed is 0 or more"
    );
    assert!(
        refused_task(|t| t.job = Some("j".repeat(1025)))
            .starts_with("RunningTask.job: the name is 1025 bytes long")
    );
    assert!(refused_task(|t| t.node = Some("\0".to_owned())).starts_with("RunningTask.node: "));
    assert!(
        refused_task(|t| t.worker_shard = Some("\0".to_owned()))
            .starts_with("RunningTask.workerShard: ")
    );
    assert_eq!(
        refused_task(|t| t.worker_suicide_task_kill_wait_ms = Some(-1)),
        "RunningTask.workerSuicideTaskKillWaitMs: -1 is not allowed; allowed is 0 or more"
    );
    assert_eq!(
        refused_task(|t| {
            t.next_backoff_duration = Some(wire::BackoffDuration {
                no_more_backoffs: false,
                seconds: -9,
                times: None,
            });
        }),
        "RunningTask.nextBackoffDuration.seconds: -9 is not allowed; allowed is 0 or more"
    );
}

#[test]
fn tasks_with_senseless_resources_are_refused() {
    let held = |name: &str, amount| wire::NodeResources {
        node: "n".to_owned(),
        resources: vec![wire::Resource {
            name: name.to_owned(),
            amount,
        }],
    };
    assert_eq!(
        refused_task(|t| t.node_resources = Some(vec![held("slots", 1), held("slots", -1)])),
        "RunningTask.nodeResources[1].resources[0].amount: -1 is not allowed; allowed is 0 or more"
    );
    assert!(
        refused_task(|t| t.node_resources = Some(vec![held("a\0", 1)]))
            .starts_with("RunningTask.nodeResources[0].resources[0].name: ")
    );
    assert!(
        refused_task(|t| {
            t.node_resources = Some(vec![wire::NodeResources {
                node: "\0".to_owned(),
                resources: Vec::new(),
            }]);
        })
        .starts_with("RunningTask.nodeResources[0].node: ")
    );
    let used = |cpu_time_ms, memory_mb: f64| {
        Some(wire::TaskPhysicalResources {
            cpu_time_ms: Some(cpu_time_ms),
            memory_mb: Some(memory_mb.into()),
            ..Default::default()
        })
    };
    assert!(
        refused_task(|t| t.physical_resources = used(-1, 0.0))
            .starts_with("RunningTask.physicalResources.cpuTimeMs: -1")
    );
    assert!(
        refused_task(|t| {
            t.physical_resources = Some(wire::TaskPhysicalResources {
                written_bytes: Some(-1),
                ..Default::default()
            });
        })
        .starts_with("RunningTask.physicalResources.writtenBytes: -1")
    );
    assert!(
        refused_task(|t| t.physical_resources = used(1, f64::NAN))
            .starts_with("RunningTask.physicalResources.memoryMB: NaN")
    );
}

#[test]
fn tasks_with_senseless_cards_are_refused() {
    let share = |device: &str, milli| wire::GpuShare {
        device: device.to_owned(),
        milli,
    };
    for (milli, said) in [
        (0, "0"),
        (-1, "-1"),
        (1001, "1001"),
        (i32::MAX, "2147483647"),
    ] {
        assert_eq!(
            refused_task(|t| t.gpus = Some(vec![share("a", 1000), share("b", milli)])),
            format!("RunningTask.gpus[1].milli: {said} is not allowed; allowed is 1 to 1000")
        );
    }
    assert!(
        refused_task(|t| t.gpus = Some(vec![share("a\0", 1)]))
            .starts_with("RunningTask.gpus[0].device: ")
    );
    let none = RunningTask::try_from(sound_task()).expect("a task");
    assert_eq!(none.gpus, []);
    assert_eq!(
        wire::RunningTask::from(none).gpus,
        None,
        "as from older peers"
    );
}

#[test]
fn tasks_that_want_senseless_cards_are_refused() {
    let refused = |of_models: &[(&str, i32)], any_milli| {
        let named = of_models.iter();
        let named = named.map(|(model, cards)| ((*model).to_owned(), *cards));
        let wanted = wire::GpusWanted {
            of_models: Some(named.collect()),
            any_milli: Some(any_milli),
            counts_as: None,
        };
        refused_task(|t| t.gpus_wanted = Some(wanted.clone()))
    };
    let allowed =
        "is not allowed; allowed is 0 to 10000000, in whole thousands, or 1 to 999 without a model";
    for (of_models, any, said) in [
        (&[][..], -1, "-1"),
        (&[], 1500, "1500"),
        (&[], i32::MAX, "2147483647"),
        (&[("A", 1)], 500, "500"),
    ] {
        let text = format!("RunningTask.gpusWanted.anyMilli: {said} {allowed}");
        assert_eq!(refused(of_models, any), text);
    }
    for cards in [0, -1, 10_001] {
        let text = format!(
            "RunningTask.gpusWanted.ofModels: {cards} is not allowed; allowed is 1 to 10000"
        );
        assert_eq!(refused(&[("A", cards)], 0), text);
    }
    let names: Vec<String> = (0..33).map(|n| n.to_string()).collect();
    let many: Vec<(&str, i32)> = names.iter().map(|name| (&**name, 1)).collect();
    let text = refused(&many, 0);
    assert!(
        text.starts_with("RunningTask.gpusWanted.ofModels: "),
        "{text}"
    );
}

#[test]
fn an_end_that_is_no_status_is_an_error_of_the_task() {
    let task = RunningTask::try_from(wire::RunningTask {
        ended: Some("gibberish".to_owned()),
        ..sound_task()
    })
    .expect("the list of running tasks must not be lost for one status");
    let status = task.ended.expect("the task has ended");
    assert!(!status.is_done());
    assert!(status.exception().is_some());
}

#[test]
fn subprocess_options_with_senseless_fields_are_refused() {
    assert_eq!(
        refused_options(|o| o.status_from = Some("oracle".to_owned())),
        "TaskSubprocessOptions.statusFrom: \"oracle\" is not allowed; allowed is \"auto\", \"pipe\" or \"exit_code\""
    );
    assert_eq!(
        refused_options(|o| o.arguments = Some(String::new())),
        "TaskSubprocessOptions.arguments: \"\" is not allowed; allowed is \"append\" or \"none\""
    );
    assert_eq!(
        refused_options(|o| o.parent_death_signal = Some(65)),
        "TaskSubprocessOptions.parentDeathSignal: 65 is not allowed; allowed is 0 (none) to 64"
    );
    assert_eq!(
        refused_options(|o| o.refresh_resources_sec = Some(-2)),
        "TaskSubprocessOptions.refreshResourcesSec: -2 is not allowed; allowed is 0 or more"
    );
    let cgroups = |cpu_shares, memory_limit_in_bytes| {
        Some(wire::CGroupOptions {
            cpu_shares: Some(cpu_shares),
            memory_limit_in_bytes: Some(memory_limit_in_bytes),
            ..Default::default()
        })
    };
    for shares in [1, -4] {
        assert_eq!(
            refused_options(|o| o.cgroup_options = cgroups(shares, 0)),
            format!(
                "TaskSubprocessOptions.cgroupOptions.cpuShares: {shares} is not allowed; allowed is 0 (leave alone), or 2 or more"
            )
        );
    }
    assert!(
        refused_options(|o| o.cgroup_options = cgroups(0, -1))
            .starts_with("TaskSubprocessOptions.cgroupOptions.memoryLimitInBytes: -1")
    );
    let limits = |pids_max, cpu_quota_milli| {
        Some(wire::CGroupOptions {
            pids_max,
            cpu_quota_milli,
            ..Default::default()
        })
    };
    for (limits, name) in [
        (limits(Some(-1), None), "pidsMax"),
        (limits(None, Some(-1)), "cpuQuotaMilli"),
    ] {
        let text = refused_options(|o| o.cgroup_options = limits.clone());
        let start = format!("TaskSubprocessOptions.cgroupOptions.{name}: -1");
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn a_worker_that_can_run_nothing_is_refused_and_a_long_reason_is_cut() {
    for bad in [0, -1] {
        let refused = refused::<WorkerDescription, _>(sound_worker, |worker| {
            worker.max_tasks = Some(bad);
        });
        let expected = format!("BistroWorker.maxTasks: {bad} is not allowed; allowed is 1 or more");
        assert_eq!(refused, expected);
    }
    let mut long = sound_worker();
    (long.max_tasks, long.limited_by) = (Some(3), Some("ü".repeat(1_000_000)));
    let worker = WorkerDescription::try_from(long).expect("a sound worker");
    assert_eq!(worker.room, Some(task_room(3, &"ü".repeat(200))));
    assert_eq!(worker.containment, None);
    for (sent, kept) in [
        ("ü".repeat(1_000_000), Some("ü".repeat(200))),
        (String::new(), None),
    ] {
        let told = wire::BistroWorker {
            containment: Some(sent),
            ..sound_worker()
        };
        let worker = WorkerDescription::try_from(told).expect("a sound worker");
        assert_eq!(worker.containment.as_deref(), kept.as_deref());
    }
    for (sent, kept) in [
        ("/d/logs".to_owned(), Some("/d/logs")),
        ("logs".to_owned(), None),
        (format!("/{}", "d".repeat(5000)), None),
    ] {
        let told = wire::BistroWorker {
            log_folder: Some(sent),
            ..sound_worker()
        };
        let worker = WorkerDescription::try_from(told).expect("a sound worker");
        assert_eq!(worker.log_folder.as_deref(), kept);
    }
    let mut silent = sound_worker();
    silent.limited_by = Some("a reason for nothing".to_owned());
    let worker = WorkerDescription::try_from(silent).expect("a sound worker");
    assert_eq!(worker.room, None);
}

#[test]
fn limits_and_accounts_that_make_no_sense_are_refused() {
    let limit = |name: &str, soft, hard| wire::ResourceLimit {
        name: Some(name.to_owned()),
        soft: Some(soft),
        hard: Some(hard),
    };
    let good = limit("core", 0, -1);
    for (bad, expected) in [
        (
            limit("NOFILE", 1, 1),
            "limits[1].name: \"NOFILE\" is not allowed; allowed is as, core, cpu, ",
        ),
        (
            wire::ResourceLimit::default(),
            "limits[1].name: \"\" is not allowed",
        ),
        (
            limit("core", 0, 0),
            "limits[1].name: \"core\" is not allowed; allowed is each name once",
        ),
        (
            limit("cpu", -2, 5),
            "limits[1].soft: -2 is not allowed; allowed is -1 (unlimited), or 0 or more",
        ),
        (
            limit("cpu", 5, i64::MIN),
            "limits[1].hard: -9223372036854775808 is not allowed",
        ),
        (
            limit("cpu", 6, 5),
            "limits[1].soft: 6 is not allowed; allowed is no more than `hard`",
        ),
        (limit("cpu", -1, 5), "limits[1].soft: -1 is not allowed"),
    ] {
        let text = refused_options(|o| o.limits = Some(vec![good.clone(), bad.clone()]));
        let start = format!("TaskSubprocessOptions.{expected}");
        assert!(text.starts_with(&start), "{text}");
    }
    assert_eq!(
        refused_options(|o| o.user = Some(String::new())),
        "TaskSubprocessOptions.user: \"\" is not allowed; allowed is a name or a number"
    );
    let nul = refused_options(|o| o.group = Some("a\0".to_owned()));
    assert!(nul.starts_with("TaskSubprocessOptions.group: the name contains a NUL"));
}

#[test]
fn errors_repeat_only_the_head_of_long_texts() {
    let message = refused_options(|o| o.status_from = Some("ü".repeat(1_000_000)));
    assert!(message.len() < 400, "{} bytes", message.len());
    assert!(message.contains("ü..."), "{message}");
}

#[test]
fn kill_methods_that_do_not_exist_are_refused() {
    let message = refused::<KillRequest, _>(wire::KillRequest::default, |request| {
        request.method = Some(wire::KillMethod(9));
    });
    assert_eq!(
        message,
        "KillRequest.method: 9 is not allowed; allowed is 1 (TERM_WAIT_KILL), 2 (KILL) or 3 (TERM)"
    );
}

#[test]
fn a_kill_wait_below_zero_kills_at_once() {
    let request = KillRequest::try_from(wire::KillRequest {
        method: Some(wire::KillMethod::TERM_WAIT_KILL),
        kill_wait_ms: Some(-1),
        reason: None,
    });
    assert_eq!(request.map(|request| request.wait), Ok(Duration::ZERO));
}

#[test]
fn answers_with_senseless_fields_are_refused() {
    assert_eq!(
        refused_response(|r| r.id = None),
        "SchedulerHeartbeatResponse.id: it is missing; an identity or an address has no default"
    );
    assert_eq!(
        refused_response(|r| r.worker_state = Some(4)),
        "SchedulerHeartbeatResponse.workerState: 4 is not allowed; allowed is 0 (NEW), 1 (HEALTHY), 2 (UNHEALTHY) or 3 (MUST_DIE)"
    );
    type Spoil = fn(&mut wire::SchedulerHeartbeatResponse);
    let spoil: [(&str, Spoil); 5] = [
        ("maxHealthcheckGap", |r| r.max_healthcheck_gap = Some(-1)),
        ("heartbeatGracePeriod", |r| {
            r.heartbeat_grace_period = Some(-1);
        }),
        ("loseUnhealthyWorkerAfter", |r| {
            r.lose_unhealthy_worker_after = Some(-1);
        }),
        ("workerCheckInterval", |r| {
            r.worker_check_interval = Some(-1);
        }),
        ("notHealthyForMs", |r| r.not_healthy_for_ms = Some(-1)),
    ];
    for (field, spoil) in spoil {
        assert_eq!(
            refused_response(spoil),
            format!("SchedulerHeartbeatResponse.{field}: -1 is not allowed; allowed is 0 or more")
        );
    }
    let set = |scheduler_id, num_workers| {
        Some(wire::WorkerSetID {
            scheduler_id: Some(scheduler_id),
            version: Some(1),
            hash: Some(wire::WorkerSetHash {
                num_workers: Some(num_workers),
                ..Default::default()
            }),
            settled: None,
        })
    };
    let digest = |length| {
        let mut set = set(wire::BistroInstanceID::default(), 1);
        if let Some(hash) = set.as_mut().and_then(|set| set.hash.as_mut()) {
            hash.digest = Some(vec![1; length]);
        }
        set
    };
    for length in [0, 31, 33] {
        assert_eq!(
            refused_response(|r| r.worker_set_id = digest(length)),
            format!(
                "SchedulerHeartbeatResponse.workerSetID.hash.digest: it has {length} bytes; allowed are 32"
            )
        );
    }
    assert!(
        refused_response(|r| r.worker_set_id = set(EARLY, 0))
            .starts_with("SchedulerHeartbeatResponse.workerSetID.schedulerID.startTime: -1")
    );
    assert!(
        refused_response(|r| r.worker_set_id = set(wire::BistroInstanceID::default(), -1))
            .starts_with("SchedulerHeartbeatResponse.workerSetID.hash.numWorkers: -1")
    );
}

fn sound_query() -> BistroWorkerGetJobLogsByIDArgs {
    BistroWorkerGetJobLogsByIDArgs {
        logtype: "stdout".to_owned(),
        job_ids: vec!["j".to_owned()],
        node_ids: Vec::new(),
        line_id: -1,
        is_ascending: true,
        limit: 10,
        regex_filter: String::new(),
        invocation: None,
    }
}

fn refused_query(spoil: impl Fn(&mut BistroWorkerGetJobLogsByIDArgs)) -> String {
    refused::<LogQuery, _>(sound_query, spoil)
}

#[test]
fn questions_for_logs_with_senseless_arguments_are_refused() {
    assert_eq!(
        refused_query(|q| q.logtype = "stdin".to_owned()),
        "getJobLogsByID.logtype: \"stdin\" is not allowed; allowed is \"stdout\", \"stderr\" or \"statuses\""
    );
    assert_eq!(
        refused_query(|q| q.limit = -1),
        "getJobLogsByID.limit: -1 is not allowed; allowed is 0 or more"
    );
    assert!(
        refused_query(|q| q.job_ids = vec!["j".to_owned(), "\0".to_owned()])
            .starts_with("getJobLogsByID.job_ids[1]: the name contains")
    );
    assert!(
        refused_query(|q| q.node_ids = vec!["\0".to_owned()])
            .starts_with("getJobLogsByID.node_ids[0]: the name contains")
    );
    assert!(
        refused_query(|q| q.invocation = Some(EARLY))
            .starts_with("getJobLogsByID.invocation.startTime: -1")
    );
}

#[test]
fn lines_and_pages_with_senseless_names_are_refused() {
    let page = |job: &str, node: &str| wire::LogLines {
        lines: Some(vec![wire::LogLine {
            job_id: Some(job.to_owned()),
            node_id: Some(node.to_owned()),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let error = |page: wire::LogLines| {
        LogPage::try_from(page)
            .expect_err("a name with NUL")
            .to_string()
    };
    assert!(error(page("\0", "n")).starts_with("LogLines.lines[0].jobID: "));
    assert!(error(page("j", "\0")).starts_with("LogLines.lines[0].nodeID: "));
}

#[test]
fn callers_of_the_scheduler_name_one_job_and_node_or_none() {
    let args = |job: &str, node: &str, logtype: &str| BistroSchedulerGetJobLogsByIDArgs {
        logtype: logtype.to_owned(),
        job_id: job.to_owned(),
        node_id: node.to_owned(),
        line_id: 5 << 32,
        is_ascending: false,
        regex_filter: "x".to_owned(),
        invocation: Some(InvocationId::new(3, 4).into()),
    };
    let query = scheduler_log_query(args("j", "", "stderr"), 77).expect("a sound question");
    assert_eq!(
        query,
        LogQuery {
            stream: LogStream::Stderr,
            jobs: vec!["j".try_into().expect("a name")],
            nodes: Vec::new(),
            from: Some(LineId::first_of_second(5)),
            ascending: false,
            limit: 77,
            regex: "x".to_owned(),
            invocation: Some(InvocationId::new(3, 4)),
        }
    );
    let error = |args: BistroSchedulerGetJobLogsByIDArgs| {
        scheduler_log_query(args, 1)
            .expect_err("a senseless question")
            .path()
            .to_owned()
    };
    assert_eq!(error(args("\0", "", "stderr")), "getJobLogsByID.job_id");
    assert_eq!(error(args("", "\0", "stderr")), "getJobLogsByID.node_id");
    assert_eq!(error(args("", "", "")), "getJobLogsByID.logtype");
}

#[test]
fn errors_name_their_place_in_the_call() {
    let error = parse::<_, RunningTask>("runTask.rt", wire::RunningTask::default())
        .expect_err("no invocation");
    assert_eq!(error.path(), "runTask.rt.invocationID");
    let error = parse_list::<_, RunningTask>(
        "notifyIfTasksNotRunning.rts",
        vec![sound_task(), wire::RunningTask::default()],
    )
    .expect_err("no invocation");
    assert_eq!(error.path(), "notifyIfTasksNotRunning.rts[1].invocationID");
    let error = parse::<_, SchedulerId>("runTask.scheduler", EARLY).expect_err("early");
    assert_eq!(error.path(), "runTask.scheduler.startTime");
    let error = parse_name::<JobName>("getJob.job_name", "\0").expect_err("NUL");
    assert_eq!(error.path(), "getJob.job_name");
}

#[test]
fn absent_parts_take_their_defaults() {
    let worker = WorkerDescription::try_from(wire::BistroWorker {
        protocol_version: None,
        ..sound_worker()
    })
    .expect("a sound worker");
    assert_eq!(worker.usable, UsablePhysicalResources::default());
    assert_eq!(worker.protocol_version, 0);
    assert!(
        worker.has_worker_command,
        "an older worker always has a command"
    );
    assert_eq!(
        WorkerSetId::try_from(wire::WorkerSetID::default()),
        Ok(WorkerSetId::default())
    );
    let nothing = wire::TaskSubprocessOptions {
        poll_ms: None,
        max_log_lines_per_poll_interval: None,
        parent_death_signal: None,
        process_group_leader: None,
        use_canary_pipe: None,
        refresh_resources_sec: None,
        ..Default::default()
    };
    assert_eq!(
        TaskSubprocessOptions::try_from(nothing),
        Ok(TaskSubprocessOptions::default())
    );
    assert_eq!(
        TaskSubprocessOptions::try_from(wire::TaskSubprocessOptions::default()),
        Ok(TaskSubprocessOptions::default())
    );
}

#[test]
fn fractions_of_seconds_never_let_a_worker_outlive_its_tasks_elsewhere() {
    let odd = Duration::from_millis(2500);
    let mut response = HeartbeatResponse::try_from(sound_response()).expect("a sound answer");
    response.max_healthcheck_gap = odd;
    response.heartbeat_grace_period = odd;
    response.lose_unhealthy_worker_after = odd;
    response.worker_check_interval = odd;
    response.not_healthy_for = Some(Duration::from_micros(2500));
    let sent = wire::SchedulerHeartbeatResponse::from(response);
    assert_eq!(sent.max_healthcheck_gap, Some(2));
    assert_eq!(sent.heartbeat_grace_period, Some(2));
    assert_eq!(sent.lose_unhealthy_worker_after, Some(2));
    assert_eq!(sent.worker_check_interval, Some(3));
    assert_eq!(sent.not_healthy_for_ms, Some(3));
    let mut worker = WorkerDescription::try_from(sound_worker()).expect("a sound worker");
    worker.heartbeat_period = odd;
    assert_eq!(
        wire::BistroWorker::from(worker).heartbeat_period_sec,
        Some(3)
    );
}

#[test]
fn numbers_that_the_wire_cannot_hold_are_clamped() {
    let request = KillRequest {
        method: KillMethod::TermWaitKill,
        wait: Duration::MAX,
    };
    assert_eq!(
        wire::KillRequest::from(request).kill_wait_ms,
        Some(i32::MAX)
    );
    let backoff = BackoffDuration {
        no_more_backoffs: false,
        seconds: u32::MAX,
        times: u32::MAX,
    };
    assert_eq!(wire::BackoffDuration::from(backoff).seconds, i32::MAX);
}

#[test]
fn refusals_keep_their_code() {
    for code in [
        RefusalCode::Unhealthy,
        RefusalCode::WrongId,
        RefusalCode::BoundTo(SchedulerId::new(7, -9)),
        RefusalCode::OldSequence,
        RefusalCode::Duplicate,
        RefusalCode::Busy,
        RefusalCode::Draining,
        RefusalCode::Unspecified,
    ] {
        assert_eq!(
            refusal(worker_exception(code, "why")),
            (code, "why".to_owned())
        );
    }
    let newer = BistroWorkerException {
        message: None,
        code: Some(BistroWorkerExceptionCode(99)),
        bound: None,
    };
    assert_eq!(refusal(newer), (RefusalCode::Unspecified, String::new()));
}

#[test]
fn a_refusal_without_an_exception_names_the_bound_scheduler_in_its_text() {
    for scheduler in [SchedulerId::new(7, -9), SchedulerId::new(0, i64::MAX)] {
        let text = undeclared_refusal(RefusalCode::BoundTo(scheduler), "not you [bound to 1:2]");
        assert_eq!(bound_of(&text), Some(scheduler), "{text}");
    }
    let plain = undeclared_refusal(RefusalCode::WrongId, "not you");
    for text in [
        &*plain,
        "x [bound to ]",
        "x [bound to -1:0]",
        "x [bound to 1:zz]",
        "]",
        "",
    ] {
        assert_eq!(bound_of(text), None, "{text}");
    }
}

fn sound_request() -> wire::WorkRequest {
    let id = wire::BistroInstanceID {
        start_time: Some(7),
        rand: Some(-7),
    };
    wire::WorkRequest {
        worker: Some(id.clone()),
        scheduler: Some(id),
        seq: Some(1),
        demands: Some(vec![sound_demand("CPU")]),
        ..Default::default()
    }
}

fn sound_demand(processor: &str) -> wire::WorkDemand {
    wire::WorkDemand {
        processor: Some(processor.to_owned()),
        ..Default::default()
    }
}

fn refused_request(spoil: impl Fn(&mut wire::WorkRequest)) -> String {
    refused::<WorkRequest, _>(sound_request, spoil)
}

fn refused_demand(spoil: impl Fn(&mut wire::WorkDemand)) -> String {
    refused_request(|r| {
        let mut demand = sound_demand("H100");
        spoil(&mut demand);
        r.demands = Some(vec![sound_demand("CPU"), demand]);
    })
}

#[test]
fn what_a_work_request_leaves_out_counts_as_nothing() {
    let request = WorkRequest::try_from(sound_request()).expect("a request");
    assert_eq!(request.demands, [WorkDemand::none(Processor::Cpu, 1.0)]);
    assert_eq!((request.known, request.linger), (None, Duration::ZERO));
    assert_eq!(request.low_water, 0.0);
    let reply = WorkReply::try_from(wire::WorkReply::default()).expect("a reply");
    assert_eq!(reply.verdicts, []);
    assert_eq!(
        (reply.request_delay, reply.next_contact),
        (Duration::ZERO, None)
    );
}

#[test]
fn work_requests_with_senseless_fields_are_refused() {
    for (message, field) in [
        (refused_request(|r| r.worker = None), "worker"),
        (refused_request(|r| r.scheduler = None), "scheduler"),
    ] {
        let missing = "it is missing; an identity or an address has no default";
        assert_eq!(message, format!("WorkRequest.{field}: {missing}"));
    }
    assert_eq!(
        refused_request(|r| r.seq = Some(-1)),
        "WorkRequest.seq: -1 is not allowed; allowed is 0 or more"
    );
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let not_allowed = format!("{bad} is not allowed; allowed is a finite number, 0 or more");
        let bad = Some(OrderedFloat::from(bad));
        let known = |remaining_sec, deadline_sec| {
            Some(vec![wire::KnownTask {
                invocation_id: Some(EARLY).map(|id| wire::BistroInstanceID {
                    start_time: Some(1),
                    ..id
                }),
                remaining_sec,
                deadline_sec,
            }])
        };
        for (message, path) in [
            (refused_request(|r| r.linger_sec = bad), "lingerSec"),
            (refused_request(|r| r.low_water_sec = bad), "lowWaterSec"),
            (
                refused_demand(|d| d.instances = bad),
                "demands[1].instances",
            ),
            (
                refused_demand(|d| d.req_instance_secs = bad),
                "demands[1].reqInstanceSecs",
            ),
            (
                refused_demand(|d| d.req_instances = bad),
                "demands[1].reqInstances",
            ),
            (
                refused_demand(|d| d.idle_instances = bad),
                "demands[1].idleInstances",
            ),
            (
                refused_demand(|d| d.estimated_delay_sec = bad),
                "demands[1].estimatedDelaySec",
            ),
            (
                refused_demand(|d| d.waiting_instances = bad),
                "demands[1].waitingInstances",
            ),
            (
                refused_request(|r| r.known = known(bad, None)),
                "known[0].remainingSec",
            ),
            (
                refused_request(|r| r.known = known(None, bad)),
                "known[0].deadlineSec",
            ),
        ] {
            assert_eq!(message, format!("WorkRequest.{path}: {not_allowed}"));
        }
    }
}

#[test]
fn work_requests_with_senseless_lists_are_refused() {
    assert_eq!(
        refused_demand(|d| d.processor = Some("CPU".to_owned())),
        "WorkRequest.demands[1].processor: \"CPU\" is not allowed; allowed is each type once"
    );
    assert_eq!(
        refused_demand(|d| d.processor = None),
        "WorkRequest.demands[1].processor: \"\" is not allowed; allowed is \"CPU\" or a model of GPUs"
    );
    assert!(
        refused_demand(|d| d.processor = Some("x".repeat(2000)))
            .starts_with("WorkRequest.demands[1].processor: the name is 2000 bytes long")
    );
    let many = (0..=MAX_PROCESSOR_TYPES).map(|n| sound_demand(&n.to_string()));
    let many: Vec<_> = many.collect();
    assert_eq!(
        refused_request(|r| r.demands = Some(many.clone())),
        "WorkRequest.demands: it has 33 members; allowed are at most 32"
    );
    let unknown = vec![wire::KnownTask::default(); MAX_KNOWN_TASKS + 1];
    assert_eq!(
        refused_request(|r| r.known = Some(unknown.clone())),
        "WorkRequest.known: it has 131073 members; allowed are at most 131072"
    );
    assert!(
        refused_request(|r| r.known = Some(vec![wire::KnownTask::default()]))
            .starts_with("WorkRequest.known[0].invocationID: it is missing")
    );
}

#[test]
fn work_replies_with_senseless_fields_are_refused() {
    let refused = |spoil: &dyn Fn(&mut wire::WorkReply)| {
        refused::<WorkReply, _>(wire::WorkReply::default, spoil)
    };
    let verdict = |verdict, granted| {
        Some(vec![wire::ProcessorVerdict {
            processor: Some("CPU".to_owned()),
            verdict,
            granted: Some(granted),
        }])
    };
    for code in [None, Some(wire::WorkVerdict(9))] {
        let value = code.map_or(0, |code| code.0);
        assert_eq!(
            refused(&|r| r.verdicts = verdict(code, 0)),
            format!(
                "WorkReply.verdicts[0].verdict: {value} is not allowed; allowed is 1 (GRANTED) to 8 (PENDING)"
            )
        );
    }
    let granted = Some(wire::WorkVerdict::GRANTED);
    assert!(
        refused(&|r| r.verdicts = verdict(granted, -1))
            .starts_with("WorkReply.verdicts[0].granted: -1 is not allowed")
    );
    assert!(
        refused(&|r| r.no_apps = Some(vec![String::new()])).starts_with("WorkReply.noApps: \"\"")
    );
    assert!(
        refused(&|r| r.request_delay_sec = Some(f64::NAN.into()))
            .starts_with("WorkReply.requestDelaySec: NaN")
    );
}

#[test]
fn nonsense_about_work_loses_no_heartbeat_and_no_task() {
    assert_eq!(riding_request(None), None);
    let request = sound_request();
    assert!(riding_request(Some(request.clone())).is_some());
    let spoilt = wire::WorkRequest {
        seq: Some(-1),
        ..request
    };
    assert_eq!(riding_request(Some(spoilt)), None);
    let response = HeartbeatResponse::try_from(wire::SchedulerHeartbeatResponse {
        work_verdict: Some(wire::WorkReply {
            seq: Some(-1),
            ..Default::default()
        }),
        request_delay_sec: Some((-1.0).into()),
        ..sound_response()
    })
    .expect("an answer");
    assert_eq!((response.work, response.request_delay), (None, None));
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let task = RunningTask::try_from(wire::RunningTask {
            est_duration_sec: Some(seconds.into()),
            work_request_seq: Some(-1),
            ..sound_task()
        });
        assert_eq!(task.expect("a task").work, WorkTerms::default());
    }
    let silent = RunningTask::try_from(sound_task()).expect("a task");
    assert_eq!(silent.work, WorkTerms::default());
    let wire = wire::RunningTask::from(silent);
    assert_eq!(
        (
            wire.est_duration_sec,
            wire.work_request_seq,
            wire.bufferable,
            wire.report
        ),
        (None, None, None, None),
        "as from older peers"
    );
    for (word, policy) in [
        ("lazy", ReportPolicy::Lazy),
        ("immediate", ReportPolicy::Immediate),
        ("when it rains", ReportPolicy::Immediate),
    ] {
        let task = RunningTask::try_from(wire::RunningTask {
            report: Some(word.to_owned()),
            ..sound_task()
        });
        assert_eq!(task.expect("a task").work.report, Some(policy), "{word}");
    }
}

#[test]
fn how_work_is_fetched_is_a_document_and_null_for_a_worker_that_fetches_none() {
    let overview = Overview {
        low_water: 10.0,
        ..Overview::default()
    };
    for overview in [None, Some(overview)] {
        let taken = WallTime::from_millis(7);
        there_and_back::<_, brasserie::WorkFetchStatus>(WorkFetchStatus { taken, overview });
    }
    let refused = |document: Option<&str>| {
        let status = brasserie::WorkFetchStatus {
            taken_ms: Some(7),
            overview: document.map(str::to_owned),
        };
        let error = WorkFetchStatus::try_from(status).expect_err("no overview");
        error.to_string()
    };
    let place = "WorkFetchStatus.overview";
    let missing = format!("{place}: it is missing; the peer is of an older release");
    assert_eq!(refused(None), missing);
    let other = refused(Some(r#"{"profile": 7}"#));
    let begin = format!("{place}: it is no such document: ");
    assert!(other.starts_with(&begin), "{other}");
}

#[test]
fn a_fence_is_positive_or_absent() {
    let task = |fence| wire::RunningTask {
        job: Some("j".to_owned()),
        node: Some("n".to_owned()),
        invocation_id: Some(InvocationId::new(1, 2).into()),
        fence,
        ..Default::default()
    };
    let read = |fence| RunningTask::try_from(task(fence)).map(|task| task.fence.map(Fence::get));
    assert_eq!(read(None).unwrap(), None);
    assert_eq!(read(Some(1)).unwrap(), Some(1));
    assert_eq!(read(Some(i64::MAX)).unwrap(), Some(i64::MAX));
    for bad in [0, -1, i64::MIN] {
        let text = read(Some(bad)).unwrap_err().to_string();
        assert!(text.contains("RunningTask.fence"), "{text}");
        assert!(
            text.contains(&bad.to_string()) && text.contains("more than 0"),
            "{text}"
        );
    }
}

#[test]
fn senseless_artifacts_are_refused() {
    let artifact = || wire::Artifact {
        id: Some(vec![7; 32]),
        size: Some(1),
        form: Some("file".to_owned()),
    };
    let input = || wire::TaskInput {
        path: Some("tables/a".to_owned()),
        artifact: Some(artifact()),
        holders: Some(vec![]),
    };
    let artifacts = |spoil: &dyn Fn(&mut wire::TaskArtifacts)| {
        let mut all = wire::TaskArtifacts {
            cluster: Some("s".to_owned()),
            inputs: Some(vec![input()]),
            holders: None,
            outputs: Some(vec!["stats/".to_owned()]),
        };
        spoil(&mut all);
        let read = TaskArtifacts::try_from(all);
        read.map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    };
    let spoilt = |spoil: &dyn Fn(&mut wire::TaskInput)| {
        artifacts(&|all| spoil(&mut all.inputs.as_mut().expect("one")[0]))
    };
    assert_eq!(artifacts(&|_| {}), "accepted");
    assert_eq!(
        artifacts(&|all| all.cluster = Some("a/b".to_owned())),
        "TaskArtifacts.cluster: \"a/b\" is not allowed; allowed is 1 to 64 letters, digits, `-` and `_`"
    );
    assert_eq!(
        artifacts(&|all| all.outputs = Some(vec!["../x".to_owned()])),
        "TaskArtifacts.outputs: \"../x\" is not allowed; allowed is a relative path without empty parts, `.` and `..`"
    );
    assert_eq!(
        spoilt(&|input| input.holders = Some(vec![0])),
        "TaskArtifacts.inputs[0].holders: 0 is not allowed; allowed is the place of a holder in `holders`"
    );
    assert_eq!(
        spoilt(&|input| input.path = Some("/etc".to_owned())),
        "TaskArtifacts.inputs[0].path: \"/etc\" is not allowed; allowed is a relative path without empty parts, `.` and `..`"
    );
    assert_eq!(
        spoilt(&|input| input.artifact.as_mut().expect("it").id = Some(vec![7; 31])),
        "TaskArtifacts.inputs[0].artifact.id: it has 31 bytes; allowed are 32"
    );
    assert_eq!(
        spoilt(&|input| input.artifact.as_mut().expect("it").size = Some(-1)),
        "TaskArtifacts.inputs[0].artifact.size: -1 is not allowed; allowed is 0 or more"
    );
    assert_eq!(
        spoilt(&|input| input.artifact.as_mut().expect("it").form = Some("pipe".to_owned())),
        "TaskArtifacts.inputs[0].artifact.form: \"pipe\" is not allowed; allowed is \"file\", \"executable\" or \"folder\""
    );
}

fn disk_report() -> impl Strategy<Value = DiskReport> {
    let number = || 0..=i64::MAX.cast_unsigned();
    let words = (
        sample::select(&[DiskMedium::Ssd, DiskMedium::Hdd]),
        sample::select(&[
            DiskCondition::Healthy,
            DiskCondition::ReadError,
            DiskCondition::IoHang,
            DiskCondition::HighUsage,
        ]),
        option::of(text()),
        (0..1_u64 << 50, 0..1_u64 << 50),
    );
    let numbers = (number(), number(), number(), number());
    (any::<u128>(), any::<[u8; 32]>(), numbers, words).prop_map(
        |(
            generation,
            digest,
            (artifacts, total, used, usable),
            (medium, condition, problem, times),
        )| {
            DiskReport {
                generation: DiskGeneration(generation),
                digest: SetDigest::from_be_bytes(digest),
                artifacts,
                medium,
                total,
                used,
                usable,
                condition,
                problem: problem.map(Into::into),
                flush_time: Duration::from_micros(times.0),
                fetch_time: Duration::from_micros(times.1),
            }
        },
    )
}

fn artifact_id() -> impl Strategy<Value = ArtifactId> {
    any::<[u8; 32]>().prop_map(ArtifactId)
}

fn artifact_copy() -> impl Strategy<Value = ArtifactCopy> {
    (any::<u128>(), artifact_id()).prop_map(|(generation, id)| ArtifactCopy {
        generation: DiskGeneration(generation),
        id,
    })
}

fn listing_wanted() -> impl Strategy<Value = ListingWanted> {
    let number = 0..=i64::MAX.cast_unsigned();
    (any::<u128>(), number, option::of(artifact_id())).prop_map(|(generation, listing, after)| {
        ListingWanted {
            generation: DiskGeneration(generation),
            listing: ListingNumber(listing),
            after,
        }
    })
}

prop_compose! {
    fn waiting_run()(
        (job, node, invocation) in (text(), text(), instance()),
        (artifacts, present) in (0..=i32::MAX.cast_unsigned(), 0..=i32::MAX.cast_unsigned()),
        missing_bytes in 0..=i64::MAX.cast_unsigned(),
        peers in vec((address(), text(), 0..=i32::MAX.cast_unsigned()), 0..4),
    ) -> WaitingRun {
        let peer = |(address, hostname, busy_answers): (_, String, _)| InputPeer { address, hostname: hostname.into(), busy_answers };
        WaitingRun {
            task: TaskKey { job: JobName::try_from(job).expect("a name"), node: NodeName::try_from(node).expect("a name") },
            invocation: InvocationId(invocation), artifacts, present, missing_bytes,
            peers: peers.into_iter().map(peer).collect(),
        }
    }
}

fn artifact_counters() -> impl Strategy<Value = ArtifactCounters> {
    proptest::array::uniform8(0..=i64::MAX.cast_unsigned()).prop_map(|numbers| {
        let [
            transfers_taken,
            transfers_served,
            bytes_taken,
            bytes_served,
            busy_given,
            busy_received,
            inputs_present,
            transfers_failed,
        ] = numbers;
        ArtifactCounters {
            transfers_taken,
            transfers_served,
            bytes_taken,
            bytes_served,
            busy_given,
            busy_received,
            inputs_present,
            transfers_failed,
        }
    })
}

prop_compose! {
    fn artifacts_report()(
        (shard, worker) in (shard(), instance()),
        namespace in option::of("[a-z0-9]{1,16}"),
        rack in option::of(text()),
        disks in vec(disk_report(), 0..3),
        stored in vec((artifact_copy(), 0..=i64::MAX.cast_unsigned()), 0..3),
        gone in vec(artifact_copy(), 0..3),
        listings in vec((listing_wanted(), vec((artifact_id(), 0..=i64::MAX.cast_unsigned()), 0..3), any::<bool>()), 0..3),
        wanted in vec(artifact_id(), 0..3),
        (waiting, counters) in (vec(waiting_run(), 0..3), option::of(artifact_counters())),
    ) -> ArtifactsReport {
        let page = |(wanted, artifacts, is_last)| ListingPage { wanted, artifacts, is_last };
        ArtifactsReport {
            shard, worker: WorkerId(worker), namespace: namespace.map(|text| ArtifactNamespace::try_from(&*text).expect("a name")),
            rack: rack.map(Into::into), disks, stored, gone, listings: listings.into_iter().map(page).collect(), wanted,
            waiting, counters,
        }
    }
}

prop_compose! {
    fn artifacts_answer()(
        namespace in "[a-z0-9]{1,16}",
        listings in vec(listing_wanted(), 0..3),
        unwanted in vec(artifact_copy(), 0..3),
        wanted in vec((artifact_id(), vec(artifact_holder(), 0..4)), 0..4),
        replicate in vec((artifact(), vec(artifact_holder(), 0..4)), 0..4),
        lost in vec(artifact_id(), 0..4),
    ) -> ArtifactsAnswer {
        let namespace = ArtifactNamespace::try_from(&*namespace).expect("a name");
        ArtifactsAnswer { namespace, listings, unwanted, wanted, replicate, lost }
    }
}

#[test]
fn a_holder_of_many_artifacts_is_written_once() {
    let holder = |host: &str| ArtifactHolder {
        address: Some(ServiceAddress {
            host: host.into(),
            port: 1,
        }),
        hostname: host.into(),
        rack: None,
    };
    let (a, b) = (holder("a"), holder("b"));
    let answer = ArtifactsAnswer {
        namespace: ArtifactNamespace::try_from("s").expect("a name"),
        listings: vec![],
        unwanted: vec![],
        wanted: vec![
            (ArtifactId([1; 32]), vec![a.clone(), b.clone()]),
            (ArtifactId([2; 32]), vec![b.clone(), a.clone()]),
        ],
        replicate: vec![(
            Artifact {
                id: ArtifactId([3; 32]),
                size: 1,
                form: ArtifactForm::File,
            },
            vec![b, a],
        )],
        lost: vec![],
    };
    let wire = crate::generated::scheduler::ArtifactsAnswer::from(answer);
    let places = wire.wanted.expect("two").into_iter();
    let places: Vec<_> = places.map(|one| one.holders.expect("two")).collect();
    assert_eq!(places, [[0, 1], [1, 0]]);
    let replicas = wire.replicate.expect("one");
    assert_eq!(replicas[0].holders, Some(vec![1, 0]));
    assert_eq!(wire.holders.expect("two").len(), 2);
}

#[test]
fn the_terms_of_a_drain_survive_the_wire_and_a_negative_time_is_refused() {
    for terms in [
        DrainTerms::default(),
        DrainTerms {
            deadline: Some(Duration::from_millis(7)),
            reason: "new kernel".into(),
        },
    ] {
        let wire = brasserie::DrainTerms::from(terms.clone());
        assert_eq!(DrainTerms::try_from(wire), Ok(terms));
    }
    let past = brasserie::DrainTerms {
        deadline_ms: Some(-1),
        reason: None,
    };
    let error = DrainTerms::try_from(past)
        .expect_err("a refusal")
        .to_string();
    assert!(error.starts_with("DrainTerms.deadlineMs: -1"), "{error}");
}
