//! Converts a scheduler's cluster status to the cluster document. The conversion never fails: fields that an older scheduler omits count as
//! zero or unknown.

use std::collections::BTreeMap;

use brasserie_common::cluster_view::{
    AskedOfTypeView, AskedView, ClusterView, ConfigView, DiskView, JobFacts, JobView, LocalityView,
    OrderView, ScheduleView, SlotsView, StoreView, TaskCounts, TransfersView, WorkRequestsView,
    WorkerView,
};
use brasserie_common::{Hold, InstanceId};
use thrift::OrderedFloat;

use crate::generated::brasserie as wire;
use crate::generated::common::BistroInstanceID;

fn count(number: Option<impl Into<i64>>) -> u64 {
    let number = number.map_or(0, Into::into);
    u64::try_from(number).unwrap_or(0)
}

fn real(number: Option<OrderedFloat<f64>>) -> f64 {
    number.map_or(0.0, OrderedFloat::into_inner)
}

fn instance(id: Option<BistroInstanceID>) -> String {
    let id = id.and_then(|id| InstanceId::try_from(id).ok());
    id.map(|id| id.to_string()).unwrap_or_default()
}

impl From<wire::ClusterStatus> for ClusterView {
    fn from(status: wire::ClusterStatus) -> Self {
        let wall_time_ms = status.wall_time_ms.unwrap_or(0);
        let nodes_loaded = status.nodes_loaded.unwrap_or(false);
        let jobs = status.jobs.unwrap_or_default().into_iter();
        let jobs: Vec<JobView> = jobs
            .map(|job| job_view(job, wall_time_ms, nodes_loaded))
            .collect();
        let workers = status.workers.unwrap_or_default().into_iter();
        let workers: Vec<WorkerView> = workers.map(Into::into).collect();
        let more_jobs = status.more_jobs.unwrap_or(false);
        let totals = status.job_totals;
        let totals = totals.map_or_else(|| Totals::of(&jobs), Totals::from);
        let nothing_starts = status.nothing_starts;
        ClusterView {
            scheduler: instance(status.scheduler),
            cluster: status.cluster_id.unwrap_or_default(),
            wall_time_ms,
            nothing_starts: nothing_starts
                .unwrap_or_else(|| status.initial_wait.iter().cloned().collect()),
            initial_wait: status.initial_wait,
            wait_ended: status.wait_ended,
            nodes_loaded,
            errors: status.errors.unwrap_or_default(),
            config: status.config.map(Into::into),
            workers_total: status
                .workers_total
                .map_or(workers.len() as u64, |total| count(Some(total))),
            workers,
            jobs_by_state: totals.by_state,
            jobs_total: totals.jobs,
            tasks: totals.tasks,
            jobs,
            more_jobs,
            store: status.store.map(Into::into),
            work_requests: status.work_requests.map(Into::into),
            schedules: status
                .schedules
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            orders: status
                .orders
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            transfers: status.transfers.map(Into::into),
            locality: status.locality.map(|counts| LocalityView {
                hits: count(counts.hits),
                misses: count(counts.misses),
            }),
            refused_calls: status
                .refused_calls
                .unwrap_or_default()
                .into_iter()
                .map(|(reason, calls)| (reason, count(Some(calls))))
                .collect(),
        }
    }
}

impl From<wire::TransferCounts> for TransfersView {
    fn from(counts: wire::TransferCounts) -> Self {
        TransfersView {
            done: count(counts.done),
            bytes: count(counts.bytes),
            busy: count(counts.busy),
            failed: count(counts.failed),
        }
    }
}

impl From<wire::WorkerOrder> for OrderView {
    fn from(order: wire::WorkerOrder) -> Self {
        OrderView {
            shard: order.shard.unwrap_or_default(),
            state: order.state.unwrap_or_default(),
            reason: order.reason.unwrap_or_default(),
            by: order.by.unwrap_or_default(),
            since_ms: order.since_ms.unwrap_or(0),
            deadline_ms: order.deadline_ms,
            then_idle: order.then_idle.unwrap_or(false),
            connected: order.connected.unwrap_or(false),
            running: count(order.running_tasks),
            only_here: count(order.artifacts_only_here),
            only_here_bytes: count(order.bytes_only_here),
            unknown: order.unknown.unwrap_or(false),
            exits: order.exits.unwrap_or(false),
            copies_wait_for: order.copies_wait_for,
            lost: count(order.artifacts_lost),
            lost_bytes: count(order.bytes_lost),
            loss_unknown: order.artifacts_lost == Some(0),
        }
    }
}

struct Totals {
    jobs: u64,
    by_state: BTreeMap<String, u64>,
    tasks: TaskCounts,
}

impl Totals {
    /// Computes the sums for an older scheduler, which sends all jobs and no sums.
    fn of(jobs: &[JobView]) -> Self {
        let mut totals = Totals {
            jobs: jobs.len() as u64,
            by_state: BTreeMap::new(),
            tasks: TaskCounts::default(),
        };
        for job in jobs {
            totals.tasks.add(&job.tasks);
            let state = job.state.as_str().to_owned();
            *totals.by_state.entry(state).or_default() += 1;
        }
        totals
    }
}

impl From<wire::JobTotals> for Totals {
    fn from(totals: wire::JobTotals) -> Self {
        let by_state = totals.jobs_by_state.unwrap_or_default().into_iter();
        let tasks = totals.tasks.unwrap_or_default();
        Totals {
            jobs: count(totals.jobs),
            by_state: by_state.map(|(state, n)| (state, count(Some(n)))).collect(),
            tasks: TaskCounts {
                total: count(tasks.total),
                unstarted: count(tasks.unstarted),
                running: count(tasks.running),
                done: count(tasks.done),
                incomplete: count(tasks.incomplete),
                error: count(tasks.error),
                in_backoff: count(tasks.in_backoff),
                failed: count(tasks.failed),
                never: count(tasks.infeasible),
                held: count(tasks.held),
            },
        }
    }
}

fn job_view(job: wire::JobStatus, wall_time_ms: i64, nodes_loaded: bool) -> JobView {
    let tasks = TaskCounts {
        total: count(job.total),
        unstarted: count(job.unstarted),
        running: count(job.running),
        done: count(job.done),
        incomplete: count(job.incomplete),
        error: count(job.error),
        in_backoff: count(job.in_backoff),
        failed: count(job.failed),
        never: count(job.infeasible),
        held: 0,
    };
    let errors = job.errors.unwrap_or_default();
    let enabled = job.enabled.unwrap_or(false);
    let paused = job.paused.unwrap_or(false);
    let cancelled = job.cancelled.unwrap_or(false);
    let facts = JobFacts {
        is_broken: !errors.is_empty(),
        hold: match (paused, cancelled) {
            (_, true) => Some(Hold::Cancelled),
            (true, false) => Some(Hold::Paused),
            (false, false) => None,
        },
        is_enabled: enabled,
        nodes_loaded,
        tasks,
    };
    JobView {
        name: job.name.unwrap_or_default(),
        state: facts.state(),
        enabled,
        paused,
        cancelled,
        version: job.version,
        owned_by: job.owner,
        settled: job.settled.unwrap_or(false),
        tasks: facts.counts(),
        next_backoff_end_in_ms: job
            .next_backoff_end_ms
            .map(|at| at.saturating_sub(wall_time_ms).max(0)),
        elapsed_ms: job.elapsed_ms,
        estimate_s: job.estimate_sec.map(OrderedFloat::into_inner),
        estimate_is: job.estimate_is,
        errors,
    }
}

impl From<wire::WorkerStatus> for WorkerView {
    fn from(worker: wire::WorkerStatus) -> Self {
        let problems = worker.problems.unwrap_or_default();
        let mut notes = worker.notes.unwrap_or_default();
        notes.retain(|note| !problems.contains(note));
        WorkerView {
            shard: worker.shard.unwrap_or_default(),
            hostname: worker.hostname.unwrap_or_default(),
            address: worker.address.unwrap_or_default(),
            instance: instance(worker.instance),
            state: worker.state.unwrap_or_default(),
            running: count(worker.running_tasks),
            unsure: count(worker.unsure_tasks),
            standby: count(worker.standby_tasks),
            since_heartbeat_ms: worker.since_heartbeat_ms,
            silent_for_ms: worker.silent_for_ms,
            waits_for: worker.waits_for,
            lost_in_ms: worker.lost_in_ms,
            problems,
            notes,
            containment: worker.containment,
            begun_anew: count(worker.begun_anew),
            taken_back: worker
                .taken_back
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(0),
            asked: worker.asked.map(Into::into),
            slots: worker
                .slots
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            disks: worker
                .disks
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            transfers: worker.transfers.map(Into::into),
            only_here: count(worker.artifacts_only_here),
            only_here_bytes: count(worker.bytes_only_here),
        }
    }
}

impl From<wire::DiskStatus> for DiskView {
    fn from(disk: wire::DiskStatus) -> Self {
        let amount = |number: Option<i64>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
        DiskView {
            medium: disk.medium.unwrap_or_default(),
            state: disk.state.unwrap_or_default(),
            total_bytes: amount(disk.total_bytes),
            usable_bytes: amount(disk.usable_bytes),
            artifacts: amount(disk.artifacts),
            problem: disk.problem,
        }
    }
}

impl From<wire::SlotUse> for SlotsView {
    fn from(slots: wire::SlotUse) -> Self {
        SlotsView {
            resource: slots.resource.unwrap_or_default(),
            in_use: slots.in_use.unwrap_or(0),
            limit: slots.limit,
        }
    }
}

impl From<wire::WorkAsked> for AskedView {
    fn from(asked: wire::WorkAsked) -> Self {
        let of_types = asked.of_types.unwrap_or_default().into_iter();
        AskedView {
            seq: asked.seq.unwrap_or(0),
            ago_ms: asked.ago_ms.unwrap_or(0),
            left_ms: asked.left_ms,
            of_types: of_types
                .map(|of| AskedOfTypeView {
                    processor: of.processor.unwrap_or_default(),
                    instances: real(of.instances),
                    instance_s: real(of.instance_secs),
                    idle: real(of.idle_instances),
                    sent: count(of.sent),
                    ready: count(of.ready),
                    late: count(of.late),
                })
                .collect(),
            text: asked.text.unwrap_or_default(),
        }
    }
}

impl From<wire::StoreStatus> for StoreView {
    fn from(store: wire::StoreStatus) -> Self {
        StoreView {
            bytes: count(store.bytes),
            free_bytes: count(store.free_bytes),
            completions: count(store.completions),
            missing_completions: count(store.missing_completions),
            disk_free_bytes: count(store.disk_free_bytes),
            growth_bytes: store.growth_bytes,
            growth_s: store.growth_sec,
        }
    }
}

impl From<wire::ScheduleStatus> for ScheduleView {
    fn from(schedule: wire::ScheduleStatus) -> Self {
        ScheduleView {
            source: count(schedule.source),
            level: schedule.level.unwrap_or_default(),
            next_ms: schedule.next_time_ms,
            next: schedule.next_time,
        }
    }
}

impl From<wire::ConfigStatus> for ConfigView {
    fn from(config: wire::ConfigStatus) -> Self {
        ConfigView {
            path: config.path,
            kept: config.is_kept.unwrap_or(false),
            since_ms: config.since_ms.unwrap_or(0),
        }
    }
}

impl From<wire::WorkRequestCounts> for WorkRequestsView {
    fn from(counts: wire::WorkRequestCounts) -> Self {
        WorkRequestsView {
            heard: count(counts.heard),
            looked_at: count(counts.looked_at),
            repeated: count(counts.repeated),
            not_ready: count(counts.not_ready),
            too_soon: count(counts.too_soon),
            too_many: count(counts.too_many),
            missing_runs: count(counts.missing_runs),
        }
    }
}
