//! Limits on the processes of a task.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use brasserie_common::{Bound, Limited, ProcessLimit};

use super::{FieldProblem, WireError};
use crate::generated::common as wire;

pub(super) fn from_wire(
    limits: Vec<wire::ResourceLimit>,
) -> Result<BTreeMap<Limited, ProcessLimit>, WireError> {
    let mut all = BTreeMap::new();
    for (position, limit) in limits.into_iter().enumerate() {
        let at = |field: &str, problem| {
            let path = format!("TaskSubprocessOptions.limits[{position}].{field}");
            Err(WireError::new(&path, problem))
        };
        let name = limit.name.unwrap_or_default();
        let Some(limited) = Limited::parse(&name) else {
            return at("name", FieldProblem::unknown_word(&name, Limited::NAMES));
        };
        let Some(soft) = limit.soft else {
            return at("soft", FieldProblem::Missing);
        };
        let Some(hard) = limit.hard else {
            return at("hard", FieldProblem::Missing);
        };
        let Some(hard_bound) = Bound::from_number(hard) else {
            return at("hard", out_of_range(hard, "-1 (unlimited), or 0 or more"));
        };
        let Some(soft_bound) = Bound::from_number(soft) else {
            return at("soft", out_of_range(soft, "-1 (unlimited), or 0 or more"));
        };
        let Some(limit) = ProcessLimit::new(soft_bound, hard_bound) else {
            return at("soft", out_of_range(soft, "no more than `hard`"));
        };
        match all.entry(limited) {
            Entry::Vacant(free) => free.insert(limit),
            Entry::Occupied(_) => {
                return at("name", FieldProblem::unknown_word(&name, "each name once"));
            }
        };
    }
    Ok(all)
}

fn out_of_range(value: i64, allowed: &'static str) -> FieldProblem {
    FieldProblem::OutOfRange { value, allowed }
}

pub(super) fn to_wire(limits: &BTreeMap<Limited, ProcessLimit>) -> Vec<wire::ResourceLimit> {
    let one = |(limited, limit): (&Limited, &ProcessLimit)| wire::ResourceLimit {
        name: Some(limited.as_str().to_owned()),
        soft: Some(limit.soft().number()),
        hard: Some(limit.hard().number()),
    };
    limits.iter().map(one).collect()
}
