//! Formats work fetch as JSON for programs.

use serde_json::{Value, json};

use super::super::asking::AskedWorker;

pub(super) fn all(all: &[AskedWorker]) -> Value {
    let workers: Vec<Value> = all.iter().map(one).collect();
    json!({ "workers": workers })
}

pub(super) fn one(asked: &AskedWorker) -> Value {
    let answer = asked.answer.as_ref();
    json!({
        "worker": asked.shard,
        "address": asked.address,
        "state": asked.state,
        "taken_ms": answer.ok().map(|answer| answer.taken.as_millis()),
        "work_fetch": answer.ok().and_then(|answer| answer.overview.as_ref()),
        "error": answer.err(),
    })
}
