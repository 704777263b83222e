//! Formats a plan for people: errors, changes, starts and kills. `json.rs` is the form for programs. Names may contain newlines, so every
//! name and reason in a line passes `printable`; `table` does that for its cells.

use std::time::Duration;

use brasserie_common::text::readable_bytes;
use brasserie_thrift::generated::brasserie::{
    Plan, PlannedKey, PlannedNames, PlannedNodes, PlannedOrphan, PlannedOrphans, PlannedStarts,
};
use brasserie_thrift::generated::common::{KillMethod, KillRequest};

use super::jobs::{Idle, PlannedJobs};
use crate::output::{duration, printable, table};

/// Maximum names in one line.
const NAMED: usize = 5;
/// Maximum rows of one table; `--json` has more.
const ROWS: usize = 20;

/// Formats the whole plan. `shown` is the name of the proposed file.
pub(super) fn of(plan: &Plan, jobs: &PlannedJobs, shown: &str) -> String {
    let mut text = String::new();
    let shown = printable(shown);
    for line in plan.errors.iter().flatten().map(|line| printable(line)) {
        text.push_str(&format!("{shown}:{line}\n"));
    }
    add_rest(
        "",
        plan.errors.as_deref(),
        plan.errors_total,
        " errors",
        &mut text,
    );
    for line in plan.warnings.iter().flatten().map(|line| printable(line)) {
        text.push_str(&format!("warning: {shown}:{line}\n"));
    }
    let warnings = plan.warnings.as_deref();
    add_rest("", warnings, plan.warnings_total, " warnings", &mut text);
    if !text.is_empty() {
        text.push('\n');
    }
    let file = printable(plan.file.as_deref().unwrap_or_default());
    if plan.usable != Some(true) {
        text.push_str(&format!(
            "With these errors {shown} would not be used: the last good configuration would stay in force.\n"
        ));
        return text;
    }
    if let Some(why) = &plan.refused {
        text.push_str(&format!("{shown} would not be used: {}.\n", printable(why)));
        return text;
    }
    if plan.changes_nothing == Some(true) && plan.nodes_error.is_none() {
        text.push_str(&format!("{shown} in place of {file} changes nothing.\n"));
        add_remarks(plan, &mut text);
        return text;
    }
    text.push_str(&format!("{shown} in place of {file}:\n"));
    add_config(plan, &mut text);
    add_nodes(plan, &mut text);
    add_starts(plan, &mut text);
    add_jobs(jobs, &mut text);
    add_orphans(plan, &mut text);
    add_remarks(plan, &mut text);
    text
}

fn add_config(plan: &Plan, text: &mut String) {
    let settings = plan.settings.as_deref().unwrap_or_default();
    if !settings.is_empty() {
        text.push_str("\nsettings\n");
        settings.iter().for_each(|key| add_key("  ", key, text));
        add_rest("  ", Some(settings), plan.settings_total, "", text);
    }
    let added = listed(plan.jobs_added.as_ref());
    let removed = listed(plan.jobs_removed.as_ref());
    let changed = plan.first_jobs_changed.as_deref().unwrap_or_default();
    if added.is_none() && removed.is_none() && changed.is_empty() {
        return;
    }
    text.push_str("\njobs\n");
    for (sign, names) in [('+', added), ('-', removed)] {
        if let Some(names) = names {
            text.push_str(&format!("  {sign} {names}\n"));
        }
    }
    for job in changed.iter().take(ROWS) {
        text.push_str(&format!(
            "  ~ {}\n",
            printable(job.name.as_deref().unwrap_or_default())
        ));
        let keys = job.keys.iter().flatten();
        keys.for_each(|key| add_key("      ", key, text));
        add_rest("      ", job.keys.as_deref(), job.keys_total, "", text);
    }
    let more = plan.jobs_changed.unwrap_or(0) - i64_of(changed.len().min(ROWS));
    if more > 0 {
        text.push_str(&format!("  ~ and {more} more\n"));
    }
}

fn add_key(indent: &str, key: &PlannedKey, text: &mut String) {
    let value = |value: &Option<String>| printable(value.as_deref().unwrap_or("nothing"));
    text.push_str(&format!(
        "{indent}{}: {} -> {}\n",
        printable(key.key.as_deref().unwrap_or_default()),
        value(&key.before),
        value(&key.after)
    ));
}

fn add_nodes(plan: &Plan, text: &mut String) {
    if let Some(why) = &plan.nodes_error {
        text.push_str(&format!(
            "\n! its nodes cannot be read, so those in force would stay: {}\n",
            printable(why)
        ));
    }
    let levels = plan.nodes.as_deref().unwrap_or_default();
    if levels.is_empty() {
        return;
    }
    let (before, after) = (
        plan.nodes_before.unwrap_or(0),
        plan.nodes_after.unwrap_or(0),
    );
    text.push_str(&format!("\nnodes: {before} -> {after}\n"));
    for nodes in levels {
        add_level(nodes, text);
    }
}

fn add_level(nodes: &PlannedNodes, text: &mut String) {
    let level = printable(nodes.level.as_deref().unwrap_or_default());
    let kinds = [
        ('+', &nodes.added, ""),
        ('-', &nodes.removed, ""),
        (
            '~',
            &nodes.changed,
            " enabled, disabled, or with other tags",
        ),
    ];
    for (sign, names, what) in kinds {
        let total = names.as_ref().and_then(|names| names.total).unwrap_or(0);
        if let Some(names) = listed(names.as_ref()) {
            text.push_str(&format!("  {sign} {total} {level}{what}: {names}\n"));
        }
    }
}

fn add_starts(plan: &Plan, text: &mut String) {
    if let Some(why) = &plan.not_counted {
        text.push_str(&format!(
            "\n! the changed nodes and the tasks that would start are unknown: {}\n",
            printable(why)
        ));
        return;
    }
    let held = plan.held.as_deref().unwrap_or_default();
    for why in held {
        text.push_str(&format!(
            "\n! no task starts at present: {}\n",
            printable(why)
        ));
    }
    let starts = plan.starts.unwrap_or(0);
    let count = match plan.starts_more {
        Some(true) => format!("{starts} tasks or more start"),
        Some(false) | None => count(starts, "task starts", "tasks start"),
    };
    if held.is_empty() {
        text.push_str(&format!("\n{count} at once\n"));
    }
    let jobs = plan.jobs.as_deref().unwrap_or_default();
    if jobs.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = jobs.iter().take(ROWS).map(starts_row).collect();
    let headers = ["job", "starts", "waiting", "never", "first"];
    text.push_str(&table(&headers, &rows));
    let known = plan.jobs_total.map(usize_of);
    add_more(known.unwrap_or(jobs.len()), text);
    for job in jobs.iter().take(ROWS) {
        let bytes = job
            .bytes_to_move
            .and_then(|bytes| u64::try_from(bytes).ok());
        if let (Some(bytes @ 1..), Some(name)) = (bytes, &job.job) {
            let (name, bytes) = (printable(name), readable_bytes(bytes));
            text.push_str(&format!(
                "The workers of these tasks of `{name}` lack {bytes} of their inputs, and would fetch them.\n"
            ));
        }
    }
    let is_short = jobs.iter().any(|job| job.waiting.unwrap_or(0) > 0);
    if jobs.len() > 1 && is_short {
        text.push_str("If these jobs compete for slots, the numbers are one possible outcome: the scheduler decides anew when the change is made.\n");
    }
}

/// Adds the jobs of which the table of starts has no row.
fn add_jobs(jobs: &PlannedJobs, text: &mut String) {
    if !jobs.idle.is_empty() {
        text.push_str("\nnew jobs of which no task starts at once\n");
        for Idle { job, why } in jobs.idle.iter().take(ROWS) {
            let why = why.as_ref().map(|why| format!(": {}", printable(why)));
            let (job, why) = (printable(job), why.unwrap_or_default());
            text.push_str(&format!("  {job}{why}\n"));
        }
        add_more(jobs.idle.len(), text);
    }
    if jobs.changed.is_empty() {
        return;
    }
    text.push_str("\nchanged jobs at present\n");
    for job in &jobs.changed {
        let runs_on = match job.tasks.running {
            0 => "",
            _ => "; the running tasks were started with the present configuration",
        };
        let (name, tasks) = (printable(&job.name), job.tasks.clause());
        text.push_str(&format!("  {name}: {tasks}{runs_on}\n"));
    }
}

fn starts_row(job: &PlannedStarts) -> Vec<String> {
    let starts = job.nodes.as_ref().and_then(|nodes| nodes.total);
    let number = |n: Option<i64>| n.unwrap_or(0).to_string();
    vec![
        job.job.clone().unwrap_or_default(),
        number(starts),
        number(job.waiting),
        number(job.infeasible),
        listed(job.nodes.as_ref()).unwrap_or_default(),
    ]
}

fn add_orphans(plan: &Plan, text: &mut String) {
    let total = |orphans: &Option<PlannedOrphans>| {
        let total = orphans.as_ref().and_then(|orphans| orphans.total);
        total.unwrap_or(0)
    };
    let rows = |orphans: &Option<PlannedOrphans>, row: &dyn Fn(&PlannedOrphan) -> Vec<String>| {
        let first = orphans.as_ref().and_then(|orphans| orphans.first.as_ref());
        let first = first.into_iter().flatten();
        first.take(ROWS).map(row).collect::<Vec<_>>()
    };
    let killed = total(&plan.killed);
    if killed > 0 {
        let killed = count(killed, "running task is killed", "running tasks are killed");
        text.push_str(&format!("\n{killed}\n"));
        let rows = rows(&plan.killed, &killed_row);
        let headers = ["task", "worker", "when", "how", "why"];
        text.push_str(&table(&headers, &rows));
        add_more(usize_of(total(&plan.killed)), text);
    } else {
        text.push_str("\nno running task is killed\n");
    }
    let left = total(&plan.left);
    if left > 0 {
        let left = count(left, "running task", "running tasks");
        text.push_str(&format!(
            "\n{left} would continue although the configuration no longer wants them (see `kill_orphan_tasks_after_sec`)\n"
        ));
        let rows = rows(&plan.left, &left_row);
        text.push_str(&table(&["task", "worker", "why"], &rows));
        add_more(usize_of(total(&plan.left)), text);
    }
    if let Some(names) = listed(plan.spared.as_ref()) {
        text.push_str(&format!("\nno longer killed: {names}\n"));
    }
}

fn task(orphan: &PlannedOrphan) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{} on {}", text(&orphan.job), text(&orphan.node))
}

fn killed_row(orphan: &PlannedOrphan) -> Vec<String> {
    let after = u64::try_from(orphan.kill_after_ms.unwrap_or(0)).unwrap_or(0);
    let when = match after {
        0 => "at once".to_owned(),
        ms => format!("in {}", duration(Duration::from_millis(ms))),
    };
    let when = match orphan.already {
        Some(true) => format!("{when}, with or without this plan"),
        Some(false) | None => when,
    };
    vec![
        task(orphan),
        orphan.worker_shard.clone().unwrap_or_default(),
        when,
        orphan.kill_request.as_ref().map(how).unwrap_or_default(),
        orphan.reason.clone().unwrap_or_default(),
    ]
}

fn left_row(orphan: &PlannedOrphan) -> Vec<String> {
    vec![
        task(orphan),
        orphan.worker_shard.clone().unwrap_or_default(),
        orphan.reason.clone().unwrap_or_default(),
    ]
}

/// Returns the method's name in config files.
pub(super) fn method(request: &KillRequest) -> &'static str {
    match request.method {
        Some(KillMethod::KILL) => "kill",
        Some(KillMethod::TERM_WAIT_KILL) => "term_wait_kill",
        Some(_) | None => "term",
    }
}

fn how(request: &KillRequest) -> String {
    let wait = u64::try_from(request.kill_wait_ms.unwrap_or(0)).unwrap_or(0);
    match request.method {
        Some(KillMethod::KILL) => "SIGKILL".to_owned(),
        Some(KillMethod::TERM_WAIT_KILL) => format!(
            "SIGTERM, and SIGKILL after {}",
            duration(Duration::from_millis(wait))
        ),
        Some(_) | None => "SIGTERM".to_owned(),
    }
}

fn add_remarks(plan: &Plan, text: &mut String) {
    let problems = plan.problems.as_deref().unwrap_or_default();
    let notes = plan.notes.as_deref().unwrap_or_default();
    if problems.is_empty() && notes.is_empty() {
        return;
    }
    text.push('\n');
    for line in problems.iter().chain(notes).map(|line| printable(line)) {
        text.push_str(&format!("! {line}\n"));
    }
}

/// Formats names as `a, b, c and 7 more`; `None` if there are none.
fn listed(names: Option<&PlannedNames>) -> Option<String> {
    let names = names?;
    let total = names.total.unwrap_or(0);
    let first = names.first.as_deref().unwrap_or_default();
    let shown = &first[..first.len().min(NAMED)];
    let more = total - i64_of(shown.len());
    let text: Vec<String> = shown.iter().map(|name| printable(name)).collect();
    let text = text.join(", ");
    match (total, more) {
        (..=0, _) => None,
        (_, ..=0) => Some(text),
        (_, more) => Some(format!("{text} and {more} more")),
    }
}

/// Adds a line with the number of entries that the scheduler has left out, if it reports a total.
fn add_rest<T>(
    indent: &str,
    list: Option<&[T]>,
    total: Option<i64>,
    what: &str,
    text: &mut String,
) {
    let more = total.map_or(0, |total| {
        usize_of(total).saturating_sub(list.unwrap_or_default().len())
    });
    if more > 0 {
        text.push_str(&format!("{indent}and {more} more{what}\n"));
    }
}

fn add_more(all: usize, text: &mut String) {
    if all > ROWS {
        text.push_str(&format!("and {} more\n", all - ROWS));
    }
}

fn count(n: i64, one: &str, many: &str) -> String {
    match n {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    }
}

fn i64_of(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn usize_of(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common::cluster_view::{JobView, TaskCounts};
    use brasserie_thrift::generated::brasserie::PlannedJob;

    fn names(total: i64, first: &[&str]) -> Option<PlannedNames> {
        Some(PlannedNames {
            total: Some(total),
            first: Some(first.iter().map(|&name| name.to_owned()).collect()),
        })
    }

    fn usable() -> Plan {
        Plan {
            usable: Some(true),
            file: Some("/etc/jobs.json".to_owned()),
            ..Plan::default()
        }
    }

    fn orphan() -> PlannedOrphan {
        PlannedOrphan {
            job: Some("old".to_owned()),
            node: Some("db1".to_owned()),
            worker_shard: Some("w1".to_owned()),
            reason: Some("its job is not configured any more".to_owned()),
            kill_after_ms: Some(5000),
            kill_request: Some(KillRequest {
                method: Some(KillMethod::TERM_WAIT_KILL),
                kill_wait_ms: Some(2000),
                reason: None,
            }),
            ..PlannedOrphan::default()
        }
    }

    #[test]
    fn a_plan_reads_from_what_changes_to_what_is_killed() {
        let plan = Plan {
            settings: Some(vec![PlannedKey {
                key: Some("scheduler".to_owned()),
                before: Some("\"roundrobin\"".to_owned()),
                after: Some("\"long_tail\"".to_owned()),
            }]),
            jobs_added: names(7, &["a", "b", "c", "d", "e", "f", "g"]),
            jobs_removed: names(1, &["old"]),
            nodes_before: Some(2),
            nodes_after: Some(3),
            nodes: Some(vec![PlannedNodes {
                level: Some("db".to_owned()),
                added: names(1, &["db3"]),
                ..PlannedNodes::default()
            }]),
            starts: Some(2),
            jobs: Some(vec![PlannedStarts {
                job: Some("a".to_owned()),
                nodes: names(2, &["db2", "db3"]),
                waiting: Some(1),
                infeasible: Some(0),
                bytes_to_move: Some(3 << 20),
            }]),
            killed: Some(PlannedOrphans {
                total: Some(1),
                first: Some(vec![orphan()]),
            }),
            problems: Some(vec!["something is odd".to_owned()]),
            ..usable()
        };
        let expected = "\
new.json in place of /etc/jobs.json:

settings
  scheduler: \"roundrobin\" -> \"long_tail\"

jobs
  + a, b, c, d, e and 2 more
  - old

nodes: 2 -> 3
  + 1 db: db3

2 tasks start at once
job  starts  waiting  never  first
a         2        1      0  db2, db3
The workers of these tasks of `a` lack 3.0 MiB of their inputs, and would fetch them.

1 running task is killed
task        worker  when      how                        why
old on db1  w1      in 5.0 s  SIGTERM, and SIGKILL after 2.0 s  its job is not configured any more

! something is odd
";
        let text = of(&plan, &PlannedJobs::default(), "new.json");
        // Ignores the columns, which the table's own tests check.
        let words = |text: &str| -> Vec<Vec<String>> {
            let lines = text.lines();
            lines
                .map(|line| {
                    line.split("  ")
                        .map(str::trim)
                        .filter(|w| !w.is_empty())
                        .map(str::to_owned)
                        .collect()
                })
                .collect()
        };
        assert_eq!(words(&text), words(expected), "{text}");
    }

    #[test]
    fn jobs_without_a_row_are_named_with_their_present_tasks() {
        let tasks = TaskCounts {
            total: 3,
            running: 1,
            done: 2,
            ..TaskCounts::default()
        };
        let jobs = PlannedJobs {
            changed: vec![JobView {
                name: "a".to_owned(),
                tasks,
                ..JobView::default()
            }],
            idle: vec![
                Idle {
                    job: "b".to_owned(),
                    why: Some("its tasks wait for `a`".to_owned()),
                },
                Idle {
                    job: "c".to_owned(),
                    why: None,
                },
            ],
        };
        let text = of(&usable(), &jobs, "new.json");
        for part in [
            "\nnew jobs of which no task starts at once\n  b: its tasks wait for `a`\n  c\n",
            "\nchanged jobs at present\n  a: 3 tasks: 1 running, 2 done; the running tasks were started with the present configuration\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_was_cut_is_counted() {
        let key = |key: &str| PlannedKey {
            key: Some(key.to_owned()),
            before: None,
            after: Some("1".to_owned()),
        };
        let job = PlannedStarts {
            job: Some("a".to_owned()),
            ..PlannedStarts::default()
        };
        let plan = Plan {
            errors: Some(vec!["1:1: bad".to_owned()]),
            errors_total: Some(1001),
            warnings: Some(vec!["2:2: odd".to_owned()]),
            warnings_total: Some(1002),
            settings: Some(vec![key("x")]),
            settings_total: Some(103),
            jobs_changed: Some(205),
            first_jobs_changed: Some(vec![PlannedJob {
                name: Some("a".to_owned()),
                keys: Some(vec![key("y")]),
                keys_total: Some(104),
            }]),
            jobs: Some(vec![job; 30]),
            jobs_total: Some(1006),
            ..usable()
        };
        let text = of(&plan, &PlannedJobs::default(), "new.json");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("more")).collect();
        let expected = [
            "and 1000 more errors",
            "and 1001 more warnings",
            "  and 102 more",
            "      and 103 more",
            "  ~ and 204 more",
            "and 986 more",
        ];
        assert_eq!(lines, expected, "{text}");
        // An older scheduler sends no totals.
        let plan = Plan {
            errors_total: None,
            jobs_total: None,
            ..plan
        };
        let text = of(&plan, &PlannedJobs::default(), "new.json");
        assert!(!text.contains("more errors"), "{text}");
        assert!(text.contains("\nand 10 more\n"), "{text}");
    }

    #[test]
    fn errors_come_first_and_say_that_the_last_good_configuration_stays() {
        let plan = Plan {
            usable: Some(false),
            errors: Some(vec!["3:4: bistro_settings: bad".to_owned()]),
            warnings: Some(vec!["1:1: odd".to_owned()]),
            ..Plan::default()
        };
        let text = of(&plan, &PlannedJobs::default(), "new.json");
        assert!(
            text.starts_with("new.json:3:4: bistro_settings: bad\nwarning: new.json:1:1: odd\n"),
            "{text}"
        );
        assert!(text.contains("would not be used"), "{text}");
    }

    #[test]
    fn no_name_and_no_reason_begins_a_line() {
        let hostile = || "a\nb".to_owned();
        let key = || PlannedKey {
            key: Some(hostile()),
            before: Some(hostile()),
            after: Some(hostile()),
        };
        let orphans = || PlannedOrphans {
            total: Some(1),
            first: Some(vec![PlannedOrphan {
                job: Some(hostile()),
                node: Some(hostile()),
                worker_shard: Some(hostile()),
                reason: Some(hostile()),
                ..orphan()
            }]),
        };
        let plan = Plan {
            file: Some(hostile()),
            errors: Some(vec![hostile()]),
            warnings: Some(vec![hostile()]),
            settings: Some(vec![key()]),
            jobs_added: names(1, &["a\nb"]),
            jobs_removed: names(1, &["a\nb"]),
            first_jobs_changed: Some(vec![PlannedJob {
                name: Some(hostile()),
                keys: Some(vec![key()]),
                keys_total: Some(1),
            }]),
            nodes: Some(vec![PlannedNodes {
                level: Some(hostile()),
                added: names(1, &["a\nb"]),
                ..PlannedNodes::default()
            }]),
            nodes_error: Some(hostile()),
            held: Some(vec![hostile()]),
            jobs: Some(vec![PlannedStarts {
                job: Some(hostile()),
                nodes: names(1, &["a\nb"]),
                ..PlannedStarts::default()
            }]),
            killed: Some(orphans()),
            left: Some(orphans()),
            spared: names(1, &["a\nb"]),
            problems: Some(vec![hostile()]),
            notes: Some(vec![hostile()]),
            ..usable()
        };
        let jobs = PlannedJobs {
            changed: vec![JobView {
                name: hostile(),
                ..JobView::default()
            }],
            idle: vec![Idle {
                job: hostile(),
                why: Some(hostile()),
            }],
        };
        let refused = Plan {
            refused: Some(hostile()),
            ..usable()
        };
        let uncounted = Plan {
            not_counted: Some(hostile()),
            ..usable()
        };
        for plan in [plan, refused, uncounted] {
            let text = of(&plan, &jobs, "a\nb");
            assert!(text.contains("a\\nb"), "{text}");
            assert!(!text.lines().any(|line| line.starts_with('b')), "{text}");
        }
    }

    #[test]
    fn a_plan_without_changes_is_one_line() {
        let plan = Plan {
            changes_nothing: Some(true),
            ..usable()
        };
        assert_eq!(
            of(&plan, &PlannedJobs::default(), "new.json"),
            "new.json in place of /etc/jobs.json changes nothing.\n"
        );
    }
}
