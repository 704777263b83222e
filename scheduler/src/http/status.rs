//! The cluster at a glance as JSON. Times and durations are in milliseconds, as their names say.

use brasserie_common::Hold;
use brasserie_scheduler_core::credits::Asked;
use brasserie_scheduler_core::{
    ClusterStatus, ConfigInForce, JobStatus, ReadBy, StoreStatus, WorkCounts, WorkerStatus,
};
use serde_json::{Value, json};

pub(super) fn json(status: &ClusterStatus) -> Value {
    json!({
        "scheduler": status.scheduler.to_string(),
        "cluster": status.cluster.to_string(),
        "wall_time_ms": status.wall.as_millis(),
        "initial_wait": status.initial_wait,
        "wait_ended": status.wait_ended,
        "nodes_loaded": status.nodes_loaded,
        "errors": status.errors,
        "nothing_starts": status.nothing_starts,
        "config": status.config.as_ref().map(config),
        "jobs": status.jobs.iter().map(job).collect::<Vec<_>>(),
        "workers": status.workers.iter().map(worker).collect::<Vec<_>>(),
        "work_requests": work(&status.work),
        "store": status.store.as_ref().map(store),
    })
}

fn store(store: &StoreStatus) -> Value {
    json!({
        "bytes": store.size.bytes,
        "free_bytes": store.size.free_bytes,
        "completions": store.completions,
        "missing_completions": store.missing,
        "disk_free_bytes": store.size.disk_free_bytes,
        "growth_bytes": store.growth.map(|growth| growth.bytes),
        "growth_sec": store.growth.map(|growth| growth.over.as_secs()),
    })
}

fn work(counts: &WorkCounts) -> Value {
    json!({
        "heard": counts.requests,
        "looked_at": counts.looked_at,
        "repeated": counts.repeated,
        "not_ready": counts.not_ready,
        "too_soon": counts.too_soon,
        "too_many": counts.too_many,
        "missing_runs": counts.missing_runs,
    })
}

fn config(config: &ConfigInForce) -> Value {
    json!({
        "path": config.path,
        "kept": config.read_by == ReadBy::AnEarlierScheduler,
        "since_ms": config.since.as_millis(),
    })
}

fn job(job: &JobStatus) -> Value {
    let counts = &job.counts;
    json!({
        "name": job.name.as_str(),
        "enabled": job.enabled,
        "paused": job.hold.is_some(),
        "cancelled": job.hold == Some(Hold::Cancelled),
        "version": job.version.map(|version| version.0),
        "settled": job.settled,
        "total": counts.total,
        "unstarted": counts.unstarted,
        "running": counts.running,
        "done": counts.done,
        "incomplete": counts.incomplete,
        "error": counts.error,
        "in_backoff": counts.in_backoff,
        "failed": counts.failed,
        "infeasible": counts.never,
        "next_backoff_end_in_ms": job.next_backoff_end.map(|d| d.as_millis()),
        "elapsed_ms": job.elapsed.map(|d| d.as_millis()),
        "errors": job.errors,
        "estimate_s": job.estimate.seconds,
        "estimate_is": job.estimate.basis.as_str(),
    })
}

fn worker(worker: &WorkerStatus) -> Value {
    json!({
        "shard": worker.shard.as_str(),
        "hostname": &*worker.hostname,
        "address": worker.address.to_string(),
        "instance": worker.id.to_string(),
        "state": worker.health.word(),
        "running": worker.running,
        "unsure": worker.unsure,
        "since_heartbeat_ms": worker.since_heartbeat.map(|d| d.as_millis()),
        "waits_for": worker.waits_for,
        "notes": worker.notes,
        "containment": worker.containment.as_deref(),
        "begun_anew": worker.begun_anew,
        "asked": worker.asked.as_ref().map(asked),
    })
}

fn asked(asked: &Asked) -> Value {
    let of_types = asked.of_types.iter().map(|of| {
        json!({
            "processor": of.processor.as_str(),
            "instances": of.instances,
            "instance_s": of.instance_secs,
            "idle": of.idle,
            "sent": of.sent,
            "ready": of.ready,
            "late": of.late,
        })
    });
    json!({
        "seq": asked.seq.0,
        "ago_ms": asked.age.as_millis(),
        "left_ms": asked.left.map(|left| left.as_millis()),
        "of_types": of_types.collect::<Vec<Value>>(),
    })
}
