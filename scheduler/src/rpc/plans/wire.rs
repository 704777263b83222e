//! Converts a plan to the wire, and shortens it to fit a frame many times over. Each shortened list comes with its total.

use std::time::Duration;

use brasserie_common::{InvocationId, TaskKey};
use brasserie_common_config::{Changes, KeyChange, Problem};
use brasserie_scheduler_core::{
    JobPlan, LevelChanges, Listed, OrphanPlan, Plan, PlannedKill, TasksPlan, Total,
};
use serde_json::Value;

use super::{PlanResult, generated as wire};

/// Maximum bytes of one value, enough to recognise a filter. A plan has some ten thousand values at most.
const MAX_VALUE_BYTES: usize = 400;
/// Maximum jobs listed with their changes.
const MAX_CHANGED_JOBS: usize = 200;
/// Maximum changed keys of the settings, or of one job.
const MAX_KEYS: usize = 100;
/// Maximum names, errors and texts of one kind.
const MAX_LISTED: usize = 1000;

fn i64_of(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

pub(super) fn plan(made: PlanResult) -> wire::Plan {
    let PlanResult {
        file,
        errors,
        warnings,
        plan,
    } = made;
    let mut out = wire::Plan {
        errors: Some(problems(&errors)),
        errors_total: Some(i64_of(errors.len())),
        warnings: Some(problems(&warnings)),
        warnings_total: Some(i64_of(warnings.len())),
        usable: Some(plan.is_some()),
        file: Some(file.display().to_string()),
        ..wire::Plan::default()
    };
    if let Some(plan) = plan {
        out.changes_nothing = Some(plan.changes_nothing());
        add_plan(&mut out, plan);
    }
    out
}

fn add_plan(out: &mut wire::Plan, plan: Plan) {
    let Plan {
        refused,
        changes,
        nodes,
        nodes_error,
        tasks,
        not_counted,
        problems,
        notes,
    } = plan;
    add_changes(out, &changes);
    add_tasks(out, tasks);
    out.refused = refused;
    out.nodes_before = Some(i64_of(nodes.before));
    out.nodes_after = Some(i64_of(nodes.after));
    out.nodes = Some(nodes.levels.into_iter().map(level).collect());
    out.nodes_error = nodes_error;
    out.not_counted = not_counted;
    out.problems = Some(problems);
    out.notes = Some(notes);
}

fn add_changes(out: &mut wire::Plan, changes: &Changes) {
    out.settings = Some(keys(&changes.settings));
    out.settings_total = Some(i64_of(changes.settings.len()));
    out.jobs_added = Some(names(&changes.added));
    out.jobs_removed = Some(names(&changes.removed));
    out.jobs_changed = Some(i64_of(changes.changed.len()));
    let changed = changes.changed.iter().take(MAX_CHANGED_JOBS);
    let changed = changed.map(|(job, changes)| wire::PlannedJob {
        name: Some(job.to_string()),
        keys: Some(keys(changes)),
        keys_total: Some(i64_of(changes.len())),
    });
    out.first_jobs_changed = Some(changed.collect());
}

fn add_tasks(out: &mut wire::Plan, tasks: TasksPlan) {
    let TasksPlan {
        held,
        starts,
        jobs,
        killed,
        left,
        spared,
    } = tasks;
    let (count, more) = match starts {
        Total::Exactly(count) => (count, false),
        Total::AtLeast(count) => (count, true),
    };
    out.held = Some(held);
    out.starts = Some(i64_of(count));
    out.starts_more = Some(more);
    out.jobs_total = Some(i64_of(jobs.total));
    out.jobs = Some(jobs.first.into_iter().map(job).collect());
    out.killed = Some(orphans(killed));
    out.left = Some(orphans(left));
    out.spared = Some(listed(spared, |TaskKey { job, node }| {
        format!("{job} on {node}")
    }));
}

fn problems(problems: &[Problem]) -> Vec<String> {
    let shown = problems.iter().take(MAX_LISTED);
    shown.map(ToString::to_string).collect()
}

fn keys(changes: &[KeyChange]) -> Vec<wire::PlannedKey> {
    let keys = changes.iter().take(MAX_KEYS);
    keys.map(|change| wire::PlannedKey {
        key: Some(change.key.clone()),
        before: change.before.as_ref().map(value),
        after: change.after.as_ref().map(value),
    })
    .collect()
}

/// Returns the value as JSON, shortened to [`MAX_VALUE_BYTES`].
fn value(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > MAX_VALUE_BYTES {
        let whole = text.len();
        let mut ends = (0..=MAX_VALUE_BYTES).rev();
        let end = ends.find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(&format!("... ({whole} bytes)"));
    }
    text
}

fn names<T: ToString>(all: &[T]) -> wire::PlannedNames {
    wire::PlannedNames {
        total: Some(i64_of(all.len())),
        first: Some(all.iter().take(MAX_LISTED).map(T::to_string).collect()),
    }
}

fn listed<T>(list: Listed<T>, name: impl Fn(T) -> String) -> wire::PlannedNames {
    wire::PlannedNames {
        total: Some(i64_of(list.total)),
        first: Some(list.first.into_iter().map(name).collect()),
    }
}

fn level(changes: LevelChanges) -> wire::PlannedNodes {
    let names = |list: Listed<String>| Some(listed(list, |name| name));
    wire::PlannedNodes {
        level: Some(changes.level),
        added: names(changes.added),
        removed: names(changes.removed),
        changed: names(changes.changed),
    }
}

fn job(job: JobPlan) -> wire::PlannedStarts {
    let counts = job.counts;
    let waiting = counts.unstarted + counts.incomplete + counts.error + counts.in_backoff;
    wire::PlannedStarts {
        job: Some(job.name.to_string()),
        nodes: Some(wire::PlannedNames {
            total: Some(i64_of(job.starts)),
            first: Some(job.first.iter().map(ToString::to_string).collect()),
        }),
        waiting: Some(i64_of(waiting)),
        infeasible: Some(i64_of(counts.never)),
        bytes_to_move: job.bytes_to_move.map(i64_of),
    }
}

fn orphans(list: Listed<OrphanPlan>) -> wire::PlannedOrphans {
    wire::PlannedOrphans {
        total: Some(i64_of(list.total)),
        first: Some(list.first.into_iter().map(orphan).collect()),
    }
}

fn orphan(orphan: OrphanPlan) -> wire::PlannedOrphan {
    let InvocationId(invocation) = orphan.invocation;
    let millis = |after: Duration| i64_of(after.as_millis());
    let kill: Option<PlannedKill> = orphan.kill;
    wire::PlannedOrphan {
        job: Some(orphan.task.job.to_string()),
        node: Some(orphan.task.node.to_string()),
        worker_shard: Some(orphan.shard.to_string()),
        invocation_id: Some(invocation.into()),
        reason: Some(orphan.why),
        kill_after_ms: kill.map(|kill| millis(kill.after)),
        kill_request: kill.map(|kill| kill.request.into()),
        already: Some(orphan.already),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common::JobName;
    use brasserie_common_config::Place;
    use serde_json::json;

    fn some_keys(count: usize) -> Vec<KeyChange> {
        let keys = (0..count).map(|i| KeyChange {
            key: format!("k{i}"),
            before: None,
            after: Some(json!(i)),
        });
        keys.collect()
    }

    fn job_plan(name: JobName) -> JobPlan {
        JobPlan {
            name,
            starts: 3,
            first: Vec::new(),
            counts: Default::default(),
            bytes_to_move: Some(7),
        }
    }

    #[test]
    fn whatever_is_cut_tells_how_much_there_is() {
        let problem = |i: usize| Problem::new(Place::START, format!("k{i}"), "no".to_owned());
        let names = |count: usize| (0..count).map(|i| format!("j{i}").try_into().unwrap());
        let made = PlanResult {
            file: "/f".into(),
            errors: (0..1001).map(problem).collect(),
            warnings: (0..1002).map(problem).collect(),
            plan: Some(Plan {
                changes: Changes {
                    settings: some_keys(103),
                    added: names(1004).collect(),
                    removed: names(1005).collect(),
                    changed: names(206).map(|job| (job, some_keys(107))).collect(),
                },
                tasks: TasksPlan {
                    jobs: Listed {
                        total: 1008,
                        first: names(1000).map(job_plan).collect(),
                    },
                    ..TasksPlan::default()
                },
                ..Plan::default()
            }),
        };
        let out = plan(made);
        let length = |list: Option<usize>| i64_of(list.unwrap());
        let named = |names: Option<wire::PlannedNames>| {
            let names = names.unwrap();
            (
                names.first.map(|first| i64_of(first.len())).unwrap(),
                names.total,
            )
        };
        let changed = &out.first_jobs_changed.as_ref().unwrap()[0];
        let keys = changed.keys.as_ref().map(Vec::len);
        let lists = [
            (length(out.errors.as_ref().map(Vec::len)), out.errors_total),
            (
                length(out.warnings.as_ref().map(Vec::len)),
                out.warnings_total,
            ),
            (
                length(out.settings.as_ref().map(Vec::len)),
                out.settings_total,
            ),
            named(out.jobs_added.clone()),
            named(out.jobs_removed.clone()),
            (
                length(out.first_jobs_changed.as_ref().map(Vec::len)),
                out.jobs_changed,
            ),
            (length(keys), changed.keys_total),
            (length(out.jobs.as_ref().map(Vec::len)), out.jobs_total),
        ];
        let expected = [
            (1000, 1001),
            (1000, 1002),
            (100, 103),
            (1000, 1004),
            (1000, 1005),
            (200, 206),
            (100, 107),
            (1000, 1008),
        ];
        assert_eq!(lists, expected.map(|(shown, all)| (shown, Some(all))));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(value(&json!({"a": 1})), r#"{"a":1}"#);
        let long = value(&json!("ä".repeat(300)));
        assert!(long.ends_with("ä... (602 bytes)"), "{long}");
        assert!(long.len() < MAX_VALUE_BYTES + 20, "{long}");
    }
}
