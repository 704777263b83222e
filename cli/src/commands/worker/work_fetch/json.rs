//! Formats work fetch as JSON for programs.

use brasserie_common::WorkDemand;
use brasserie_common::work_overview::{
    AssociationOverview, Overview, PairOverview, RequestOverview, TypeOverview, WaitOverview,
};
use serde_json::{Value, json};

use super::super::asking::Asked;
use super::text::executing;

pub(super) fn all(all: &[Asked]) -> Value {
    let workers: Vec<Value> = all.iter().map(one).collect();
    json!({ "workers": workers })
}

pub(super) fn one(asked: &Asked) -> Value {
    let answer = asked.answer.as_ref();
    let overview = answer.ok().and_then(|answer| answer.overview.as_ref());
    json!({
        "worker": asked.shard,
        "address": asked.address,
        "state": asked.state,
        "taken_ms": answer.ok().map(|answer| answer.taken.as_millis()),
        "work_fetch": overview.map(of),
        "error": answer.err(),
    })
}

fn of(overview: &Overview) -> Value {
    let processors: Vec<Value> = overview.of_type.iter().map(of_type).collect();
    let schedulers = overview.of_association.iter().map(of_association);
    json!({
        "profile": overview.profile,
        "low_water_sec": overview.low_water,
        "high_water_sec": overview.high_water,
        "processors": processors,
        "schedulers": schedulers.collect::<Vec<_>>(),
    })
}

fn of_type(of: &TypeOverview) -> Value {
    json!({
        "name": of.name, "instances": of.instances, "idle": of.idle_now, "saturated_sec": of.saturated,
        "shortfall_instance_sec": of.shortfall, "busy_sec": of.busy,
    })
}

fn of_association(one: &AssociationOverview) -> Value {
    let members: Vec<String> = one.members.iter().map(ToString::to_string).collect();
    let processors: Vec<Value> = one.of_type.iter().map(pair).collect();
    let facts = one.facts.as_ref();
    let instance = facts.and_then(|facts| facts.scheduler);
    json!({
        "members": members,
        "shard": facts.map(|facts| facts.shard.as_str()),
        "instance": instance.map(|id| json!({ "start_time": id.0.start_time, "rand": id.0.rand })),
        "health": facts.map(|facts| facts.health.word()),
        "running": facts.map(|facts| facts.running),
        "executing": facts.map(executing),
        "stopped": facts.map(|facts| facts.stopped),
        "waiting": facts.map(|facts| facts.waiting),
        "unacknowledged": facts.map(|facts| facts.unacknowledged),
        "priority": one.priority,
        "got": one.got,
        "share": one.share,
        "reason": one.reason,
        "wait": one.wait.as_ref().map(wait),
        "waits": one.waits,
        "request": one.request.as_ref().map(request),
        "processors": processors,
    })
}

fn pair(pair: &PairOverview) -> Value {
    json!({
        "name": pair.name, "runnable": pair.runnable, "queued_sec": pair.queued,
        "deadlines_missed": pair.deadlines_missed, "fetchable_share": pair.fetchable_share, "reason": pair.reason,
        "backoff": pair.backoff.as_ref().map(wait),
    })
}

fn wait(wait: &WaitOverview) -> Value {
    json!({ "left_sec": wait.left.as_secs_f64(), "why": wait.why })
}

fn request(request: &RequestOverview) -> Value {
    let demands: Vec<Value> = request.demands.iter().map(demand).collect();
    json!({
        "seq": request.seq.0, "age_sec": request.age.as_secs_f64(), "state": request.state.as_str(), "demands": demands,
    })
}

fn demand(demand: &WorkDemand) -> Value {
    json!({
        "processor": demand.processor.as_str(), "instances": demand.there, "wants_instance_sec": demand.instance_secs,
        "wants_instances": demand.instances, "idle": demand.idle, "estimated_delay_sec": demand.estimated_delay,
    })
}
