//! Converts the core's answers to wire types.

use std::time::Duration;

use brasserie_common::artifact_report::{ArtifactCounters, DiskReport};
use brasserie_common::cluster_view::{
    DECOMMISSIONED, DECOMMISSIONING, DRAINING, EXCLUDED, ScheduleView, SlotsView,
};
use brasserie_common::{Health, Hold, InvocationId, WallTime};
use brasserie_scheduler_core::credits::{RequestView, RequestedType};
use brasserie_scheduler_core::{
    AfterDecommission, ClusterStatus, ConfigInForce, CursorPlace, Histograms, JobHistogram,
    JobStatus, JobTotals, JobVersion, KeptStory, ListedTask, LocalityCounts, OrderStage,
    OrderStatus, ReadBy, StoreStatus, TaskCursor, TaskPage, WorkCounts, WorkerStatus,
};
use brasserie_thrift::convert::known_micros;
use brasserie_thrift::generated::bits::BistroTaskStatusBits;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::generated::scheduler::{BistroCountWithSamples, BistroJobHistogram};

use super::job_pages::fitting;

/// Saturates. Counts and times that exceed the wire's types cannot occur, but must not wrap either.
fn i64_of(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

fn i32_of(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

pub(crate) fn cluster_status(status: ClusterStatus) -> wire::ClusterStatus {
    let wall = status.wall;
    let (jobs, fit) = fitting_jobs(status.jobs, wall);
    let listed = i64_of(jobs.len());
    let job_totals = job_totals(status.job_totals);
    wire::ClusterStatus {
        scheduler: Some(status.scheduler.into()),
        cluster_id: Some(status.cluster.to_string()),
        initial_wait: status.initial_wait,
        more_jobs: Some(!fit || job_totals.jobs > Some(listed)),
        job_totals: Some(job_totals),
        jobs: Some(jobs),
        workers_total: Some(i64_of(status.workers_total)),
        workers: Some(status.workers.into_iter().map(worker_status).collect()),
        errors: Some(status.errors),
        wall_time_ms: Some(wall.as_millis()),
        wait_ended: status.wait_ended,
        nodes_loaded: Some(status.nodes_loaded),
        config: status.config.map(config_status),
        work_requests: (status.work.requests > 0).then(|| work_requests(&status.work)),
        nothing_starts: Some(status.nothing_starts),
        store: status.store.as_ref().map(store_status),
        schedules: Some(status.schedules.into_iter().map(schedule).collect()),
        nodes_error: status.nodes_error,
        orders: Some(status.orders.into_iter().map(worker_order).collect()),
        transfers: status.counters.as_ref().map(transfer_counts),
        locality: (status.locality != LocalityCounts::default()).then(|| wire::LocalityCounts {
            hits: Some(i64_of(status.locality.hits)),
            misses: Some(i64_of(status.locality.misses)),
        }),
        refused_calls: Some(
            status
                .refused_calls
                .into_iter()
                .map(|(reason, count)| (reason, i64_of(count)))
                .collect(),
        ),
    }
}

fn transfer_counts(counters: &ArtifactCounters) -> wire::TransferCounts {
    wire::TransferCounts {
        done: Some(i64_of(counters.transfers_taken)),
        bytes: Some(i64_of(counters.bytes_taken)),
        busy: Some(i64_of(counters.busy_received)),
        failed: Some(i64_of(counters.transfers_failed)),
    }
}

fn order_state(stage: &OrderStage) -> &'static str {
    match stage {
        OrderStage::Excluded => EXCLUDED,
        OrderStage::Decommissioning(_) => DECOMMISSIONING,
        OrderStage::Decommissioned(_) => DECOMMISSIONED,
    }
}

pub(super) fn worker_order(status: OrderStatus) -> wire::WorkerOrder {
    let order = status.order;
    let terms = match &order.stage {
        OrderStage::Excluded => None,
        OrderStage::Decommissioning(terms) | OrderStage::Decommissioned(terms) => Some(terms),
    };
    let deadline = terms.and_then(|terms| terms.deadline);
    let lost = terms.and_then(|terms| terms.lost);
    wire::WorkerOrder {
        shard: Some(status.shard.into()),
        state: Some(order_state(&order.stage).to_owned()),
        reason: Some(order.reason.as_ref().to_owned()),
        by: Some(order.by.as_ref().to_owned()),
        since_ms: Some(order.since.as_millis()),
        deadline_ms: deadline.map(WallTime::as_millis),
        then_idle: Some(terms.is_some_and(|terms| terms.then == AfterDecommission::Idle)),
        connected: Some(status.connected),
        running_tasks: Some(i32_of(status.left.running)),
        artifacts_only_here: Some(i64_of(status.left.only_here.artifacts)),
        bytes_only_here: Some(i64_of(status.left.only_here.bytes)),
        unknown: Some(status.left.unknown),
        exits: Some(status.exits),
        copies_wait_for: status.copies_wait_for,
        artifacts_lost: lost.map(|lost| i64_of(lost.artifacts)),
        bytes_lost: lost.map(|lost| i64_of(lost.bytes)),
    }
}

fn schedule(schedule: ScheduleView) -> wire::ScheduleStatus {
    wire::ScheduleStatus {
        source: Some(i32_of(schedule.source)),
        level: Some(schedule.level),
        next_time_ms: schedule.next_ms,
        next_time: schedule.next,
    }
}

fn store_status(store: &StoreStatus) -> wire::StoreStatus {
    wire::StoreStatus {
        bytes: Some(i64_of(store.size.bytes)),
        free_bytes: Some(i64_of(store.size.free_bytes)),
        completions: Some(i64_of(store.completions)),
        missing_completions: Some(i64_of(store.missing)),
        disk_free_bytes: Some(i64_of(store.size.disk_free_bytes)),
        growth_bytes: store.growth.map(|growth| growth.bytes),
        growth_sec: store.growth.map(|growth| i64_of(growth.over.as_secs())),
    }
}

fn job_totals(totals: JobTotals) -> wire::JobTotals {
    let by_state = totals.by_state.into_iter();
    let by_state = by_state.map(|(state, count)| (state.as_str().to_owned(), i64_of(count)));
    let tasks = totals.tasks;
    wire::JobTotals {
        jobs: Some(i64_of(totals.jobs)),
        jobs_by_state: Some(by_state.collect()),
        tasks: Some(wire::TaskCounts {
            total: Some(i64_of(tasks.total)),
            unstarted: Some(i64_of(tasks.unstarted)),
            running: Some(i64_of(tasks.running)),
            done: Some(i64_of(tasks.done)),
            incomplete: Some(i64_of(tasks.incomplete)),
            error: Some(i64_of(tasks.error)),
            in_backoff: Some(i64_of(tasks.in_backoff)),
            failed: Some(i64_of(tasks.failed)),
            infeasible: Some(i64_of(tasks.never)),
            held: Some(i64_of(tasks.held)),
        }),
        unsettled_jobs: Some(i64_of(totals.unsettled)),
    }
}

/// Returns the first of these jobs that fit into one answer, and whether all fit.
pub(super) fn fitting_jobs(jobs: Vec<JobStatus>, wall: WallTime) -> (Vec<wire::JobStatus>, bool) {
    fitting(jobs.into_iter().map(|job| job_status(job, wall)))
}

fn work_requests(counts: &WorkCounts) -> wire::WorkRequestCounts {
    wire::WorkRequestCounts {
        heard: Some(i64_of(counts.requests)),
        looked_at: Some(i64_of(counts.looked_at)),
        repeated: Some(i64_of(counts.repeated)),
        not_ready: Some(i64_of(counts.not_ready)),
        too_soon: Some(i64_of(counts.too_soon)),
        too_many: Some(i64_of(counts.too_many)),
        missing_runs: Some(i64_of(counts.missing_runs)),
    }
}

fn config_status(config: ConfigInForce) -> wire::ConfigStatus {
    wire::ConfigStatus {
        path: config.path.map(|path| path.to_string()),
        is_kept: Some(config.read_by == ReadBy::AnEarlierScheduler),
        since_ms: Some(config.since.as_millis()),
    }
}

pub(super) fn job_status(job: JobStatus, wall: WallTime) -> wire::JobStatus {
    let counts = job.counts;
    wire::JobStatus {
        name: Some(job.name.as_str().to_owned()),
        enabled: Some(job.enabled),
        total: Some(i64_of(counts.total)),
        unstarted: Some(i64_of(counts.unstarted)),
        running: Some(i64_of(counts.running)),
        done: Some(i64_of(counts.done)),
        incomplete: Some(i64_of(counts.incomplete)),
        error: Some(i64_of(counts.error)),
        in_backoff: Some(i64_of(counts.in_backoff)),
        failed: Some(i64_of(counts.failed)),
        infeasible: Some(i64_of(counts.never)),
        errors: Some(job.errors),
        next_backoff_end_ms: job.next_backoff_end.map(|left| (wall + left).as_millis()),
        settled: Some(job.settled),
        elapsed_ms: job.elapsed.map(millis),
        paused: Some(job.hold.is_some()),
        cancelled: Some(job.hold == Some(Hold::Cancelled)),
        version: job.version.map(|JobVersion(version)| version),
        owner: job.owner.map(|owner| owner.as_ref().to_owned()),
        estimate_sec: Some(job.estimate.seconds.into()),
        estimate_is: Some(job.estimate.basis.as_str().to_owned()),
    }
}

fn worker_status(worker: WorkerStatus) -> wire::WorkerStatus {
    let only_here = Some(worker.only_here).filter(|amount| amount.artifacts > 0);
    wire::WorkerStatus {
        shard: Some(worker.shard.as_str().to_owned()),
        hostname: Some(worker.hostname.as_ref().to_owned()),
        address: Some(worker.address.to_string()),
        state: Some(match (worker.health, worker.order, worker.drains) {
            (Health::Healthy, Some(stage), _) => order_state(&stage).to_owned(),
            (Health::Healthy, None, true) => DRAINING.to_owned(),
            (health, ..) => health.word().to_owned(),
        }),
        instance: Some(worker.id.into()),
        running_tasks: Some(i32_of(worker.running)),
        slots: Some(worker.slots.into_iter().map(slot_use).collect()),
        unsure_tasks: Some(i32_of(worker.unsure)),
        standby_tasks: Some(i32_of(worker.standby)),
        since_heartbeat_ms: worker.since_heartbeat.map(millis),
        silent_for_ms: worker.silent_for.map(millis),
        waits_for: worker.waits_for,
        notes: Some([worker.problems.clone(), worker.notes].concat()),
        problems: Some(worker.problems),
        lost_in_ms: worker.lost_in.map(millis),
        begun_anew: Some(i32_of(worker.begun_anew)),
        taken_back: Some(i64::try_from(worker.taken_back).unwrap_or(i64::MAX)),
        asked: worker.asked.as_ref().map(work_asked),
        containment: worker.containment.map(|text| text.as_ref().to_owned()),
        disks: (!worker.disks.is_empty())
            .then(|| worker.disks.into_iter().map(disk_status).collect()),
        transfers: worker.counters.as_ref().map(transfer_counts),
        artifacts_only_here: only_here.map(|amount| i64_of(amount.artifacts)),
        bytes_only_here: only_here.map(|amount| i64_of(amount.bytes)),
    }
}

fn disk_status(disk: DiskReport) -> wire::DiskStatus {
    wire::DiskStatus {
        medium: Some(disk.medium.as_str().to_owned()),
        state: Some(disk.condition.as_str().to_owned()),
        total_bytes: Some(i64_of(disk.total)),
        usable_bytes: Some(i64_of(disk.usable)),
        artifacts: Some(i64_of(disk.artifacts)),
        problem: disk.problem.map(|why| why.as_ref().to_owned()),
        flush_micros: known_micros(disk.flush_time),
        fetch_micros: known_micros(disk.fetch_time),
    }
}

fn slot_use(slots: SlotsView) -> wire::SlotUse {
    wire::SlotUse {
        resource: Some(slots.resource),
        in_use: Some(slots.in_use),
        limit: slots.limit,
    }
}

fn work_asked(asked: &RequestView) -> wire::WorkAsked {
    let of_type = |of: &RequestedType| wire::WorkAskedOfType {
        processor: Some(of.processor.to_string()),
        instances: Some(of.instances.into()),
        instance_secs: Some(of.instance_secs.into()),
        idle_instances: Some(of.idle.into()),
        sent: Some(i32_of(of.sent)),
        ready: Some(i64_of(of.ready)),
        late: Some(i64_of(of.late)),
    };
    wire::WorkAsked {
        seq: Some(i64_of(asked.seq.0)),
        ago_ms: Some(millis(asked.age)),
        left_ms: asked.left.map(millis),
        of_types: Some(asked.of_types.iter().map(of_type).collect()),
        text: Some(asked.to_string()),
    }
}

pub(super) fn history(last: Option<(InvocationId, KeptStory)>) -> Vec<wire::LastRun> {
    let last = last.map(|(invocation, kept)| wire::LastRun {
        invocation_id: Some(invocation.into()),
        worker_shard: Some(kept.shard.into()),
        queued_ms: kept.queued.map(millis),
        story: Some((&kept.story).into()),
    });
    last.into_iter().collect()
}

pub(super) fn task_page(page: TaskPage) -> wire::TaskPage {
    wire::TaskPage {
        tasks: Some(page.tasks.into_iter().map(listed_task).collect()),
        next_page: page.next.map(cursor),
        wall_time_ms: Some(page.wall.as_millis()),
    }
}

fn listed_task(listed: ListedTask) -> wire::ListedTask {
    let (shard, invocation) = listed.run.unzip();
    wire::ListedTask {
        job: Some(listed.task.job.into()),
        node: Some(listed.task.node.into()),
        state: Some(listed.state.as_str().to_owned()),
        worker_shard: shard.map(Into::into),
        invocation_id: invocation.map(|InvocationId(id)| id.into()),
        since_ms: listed.since.map(WallTime::as_millis),
        reason: listed.reason,
        failed_tries: listed.tries.map(|tries| i64::from(tries.count)),
        most_tries: listed.tries.and_then(|tries| tries.most).map(i64::from),
    }
}

/// Returns a cursor for the wire. Only the scheduler that issued it can read it.
fn cursor(cursor: TaskCursor) -> wire::TaskCursor {
    let (running_from, after) = match cursor.place {
        CursorPlace::Running(node) => (Some(node), None),
        CursorPlace::Rest(after) => (None, after),
    };
    wire::TaskCursor {
        scheduler: Some(cursor.scheduler.into()),
        job: Some(i64::from(cursor.job.0)),
        running_from: running_from.map(|node| i64::from(node.0)),
        node: after.map(|(node, _)| i64::from(node.0)),
        position: after.map(|(_, place)| i64_of(place)),
    }
}

fn millis(duration: Duration) -> i64 {
    i64_of(duration.as_millis())
}

pub(super) fn histograms(histograms: Histograms) -> Vec<BistroJobHistogram> {
    let nodes_loading = (!histograms.nodes_loaded).then_some(true);
    let jobs = histograms.jobs.into_iter().map(histogram);
    jobs.map(|job| BistroJobHistogram {
        nodes_loading,
        ..job
    })
    .collect()
}

fn histogram((job, levels): JobHistogram) -> BistroJobHistogram {
    let levels = levels.into_iter().map(|(level, buckets)| {
        let buckets = buckets.into_iter().map(|(bits, count, samples)| {
            let samples = samples.into_iter().map(String::from).collect();
            let count = BistroCountWithSamples {
                count: Some(i32_of(count)),
                samples: Some(samples),
            };
            (BistroTaskStatusBits(i32::from(bits.0)), count)
        });
        (level, buckets.collect())
    });
    BistroJobHistogram {
        job: Some(job.into()),
        statuses: Some(levels.collect()),
        nodes_loading: None,
    }
}
