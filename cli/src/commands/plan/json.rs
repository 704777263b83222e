//! Formats a plan as JSON for programs.

use brasserie_thrift::generated::brasserie::{
    Plan, PlannedKey, PlannedNames, PlannedNodes, PlannedOrphan, PlannedOrphans, PlannedStarts,
};
use serde_json::{Value, json};

use super::is_good;
use super::jobs::{Idle, PlannedJobs};
use super::text::method;
use crate::connection::run_id;

pub(super) fn of(plan: &Plan, of_jobs: &PlannedJobs, shown: &str) -> Value {
    let placed = |lines: &Option<Vec<String>>| -> Vec<String> {
        let lines = lines.iter().flatten();
        lines.map(|line| format!("{shown}:{line}")).collect()
    };
    let nodes: Vec<Value> = plan.nodes.iter().flatten().map(level).collect();
    let jobs: Vec<Value> = plan.jobs.iter().flatten().map(job).collect();
    let changed = plan.first_jobs_changed.iter().flatten();
    let changed: Vec<Value> = changed
        .map(|job| json!({ "job": job.name, "keys": keys(job.keys.as_deref()), "keys_total": job.keys_total }))
        .collect();
    json!({
        "file": shown,
        "in_place_of": plan.file,
        "good": is_good(plan),
        "usable": plan.usable,
        "changes_nothing": plan.changes_nothing,
        "errors": placed(&plan.errors),
        "errors_total": plan.errors_total,
        "warnings": placed(&plan.warnings),
        "warnings_total": plan.warnings_total,
        "refused": plan.refused,
        "settings": keys(plan.settings.as_deref()),
        "settings_total": plan.settings_total,
        "jobs_added": names(plan.jobs_added.as_ref()),
        "jobs_removed": names(plan.jobs_removed.as_ref()),
        "jobs_changed": { "total": plan.jobs_changed, "first": changed },
        "nodes": { "before": plan.nodes_before, "after": plan.nodes_after, "levels": nodes },
        "nodes_error": plan.nodes_error,
        "not_counted": plan.not_counted,
        "held": plan.held,
        "starts": plan.starts,
        "starts_more": plan.starts_more,
        "jobs": jobs,
        "jobs_total": plan.jobs_total,
        "changed_jobs_now": of_jobs.changed,
        "new_jobs_without_start": of_jobs.idle.iter().map(idle).collect::<Vec<_>>(),
        "killed": orphans(plan.killed.as_ref()),
        "left": orphans(plan.left.as_ref()),
        "spared": names(plan.spared.as_ref()),
        "problems": plan.problems,
        "notes": plan.notes,
    })
}

fn keys(keys: Option<&[PlannedKey]>) -> Vec<Value> {
    let keys = keys.unwrap_or_default().iter();
    keys.map(|key| json!({ "key": key.key, "before": key.before, "after": key.after }))
        .collect()
}

fn names(names: Option<&PlannedNames>) -> Value {
    let total = names.and_then(|names| names.total).unwrap_or(0);
    let first = names.and_then(|names| names.first.clone());
    json!({ "total": total, "first": first.unwrap_or_default() })
}

fn level(nodes: &PlannedNodes) -> Value {
    json!({
        "level": nodes.level,
        "added": names(nodes.added.as_ref()),
        "removed": names(nodes.removed.as_ref()),
        "changed": names(nodes.changed.as_ref()),
    })
}

fn job(job: &PlannedStarts) -> Value {
    json!({
        "job": job.job,
        "starts": names(job.nodes.as_ref()),
        "waiting": job.waiting,
        "never": job.infeasible,
        "bytes_to_move": job.bytes_to_move,
    })
}

fn idle(idle: &Idle) -> Value {
    json!({ "job": idle.job, "why": idle.why })
}

fn orphans(orphans: Option<&PlannedOrphans>) -> Value {
    let total = orphans.and_then(|orphans| orphans.total).unwrap_or(0);
    let first = orphans.and_then(|orphans| orphans.first.as_ref());
    let first: Vec<Value> = first.into_iter().flatten().map(orphan).collect();
    json!({ "total": total, "first": first })
}

fn orphan(orphan: &PlannedOrphan) -> Value {
    let request = orphan.kill_request.as_ref();
    json!({
        "job": orphan.job,
        "node": orphan.node,
        "worker": orphan.worker_shard,
        "invocation": run_id(orphan.invocation_id.clone()),
        "reason": orphan.reason,
        "kill_after_ms": orphan.kill_after_ms,
        "method": request.map(method),
        "kill_wait_ms": request.and_then(|request| request.kill_wait_ms),
        "already": orphan.already,
    })
}
