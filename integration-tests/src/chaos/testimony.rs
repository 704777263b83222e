//! Compares the records of the tasks with the scheduler's `status`, and checks the invariants between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// A line that a task wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskLine {
    pub(super) what: String,
    pub(super) node: String,
    pub(super) invocation: String,
    /// Time since the machine's start, as all times here.
    pub(super) at: Duration,
    pub(super) fence: Option<i64>,
}

/// Completions that `status` showed as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownCompletions {
    /// The time after the answer.
    pub(super) at: Duration,
    pub(super) done: u64,
    /// Number of times that an operator has started over with an empty store, which loses completions.
    pub(super) epoch: u32,
}

/// Returns this machine's time since its start.
pub(super) fn uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or_default())
}

/// Reads the records of the tasks.
///
/// # Errors
/// If a line has another format.
pub(super) fn read(runs: &Path) -> Result<Vec<TaskLine>, String> {
    let text = fs::read_to_string(runs).unwrap_or_default();
    // A line without a line feed is still being written.
    let whole = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    whole
        .map(|line| parse(line).ok_or_else(|| format!("a task wrote `{line}`")))
        .collect()
}

fn parse(line: &str) -> Option<TaskLine> {
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let [what, node, invocation, at, fence, _place] = words[..] else {
        return None;
    };
    Some(TaskLine {
        what: what.to_owned(),
        node: node.to_owned(),
        invocation: invocation.to_owned(),
        at: Duration::from_secs_f64(at.parse().ok()?),
        fence: match fence {
            "none" => None,
            number => Some(number.parse().ok()?),
        },
    })
}

/// Returns the number of tasks that the scheduler shows as durably done, without those marked as not yet on disk. `None` before the
/// scheduler has loaded its nodes.
pub(super) fn durably_done(status: &Value) -> Option<u64> {
    if status["nodes_loaded"] != true {
        return None;
    }
    let jobs = status["jobs"].as_array()?;
    let done = jobs
        .iter()
        .map(|job| job["done"].as_u64())
        .sum::<Option<u64>>()?;
    let errors = status["errors"].as_array()?;
    let marked: u64 = errors.iter().filter_map(not_on_disk).sum();
    Some(done.saturating_sub(marked))
}

/// Parses the number in a mark such as "job `work`: 2 completion(s) shown here are not yet on disk".
fn not_on_disk(error: &Value) -> Option<u64> {
    let (before, _) = error
        .as_str()?
        .split_once(" completion(s) shown here are not yet on disk")?;
    before.rsplit_once(' ')?.1.parse().ok()
}

/// Checks all invariants, and returns the violations. `nodes` is the number of tasks.
pub(super) fn violations(
    lines: &[TaskLine],
    sights: &[ShownCompletions],
    nodes: u64,
) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| line.what == "overlap") {
        found.push(format!(
            "{} ran twice at the same time, at {:.2?} since the machine's start (run {})",
            line.node, line.at, line.invocation
        ));
    }
    repeated_invocations(lines, &mut found);
    fences(lines, &mut found);
    completions(lines, sights, nodes, &mut found);
    found
}

fn repeated_invocations(lines: &[TaskLine], found: &mut Vec<String>) {
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.what == "start") {
        *starts.entry(&line.invocation).or_default() += 1;
    }
    for (invocation, count) in starts.into_iter().filter(|(_, count)| *count > 1) {
        found.push(format!("invocation {invocation} was started {count} times"));
    }
}

fn fences(lines: &[TaskLine], found: &mut Vec<String>) {
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.what == "start") {
        let Some(fence) = line.fence else { continue };
        if let Some(before) = last.insert(&line.node, fence)
            && before >= fence
        {
            found.push(format!(
                "the fence of {} went from {before} to {fence}",
                line.node
            ));
        }
    }
}

fn completions(
    lines: &[TaskLine],
    sights: &[ShownCompletions],
    nodes: u64,
    found: &mut Vec<String>,
) {
    for pair in sights.windows(2) {
        if pair[0].epoch == pair[1].epoch && pair[0].done > pair[1].done {
            found.push(format!(
                "{} tasks were shown as durably done at {:.2?}, but only {} at {:.2?}",
                pair[0].done, pair[0].at, pair[1].done, pair[1].at
            ));
        }
    }
    for (at, sight) in sights.iter().enumerate() {
        // Only starts before the store was lost show that a completion of this store was forgotten.
        let later = &sights[at..];
        let until = later.iter().take_while(|s| s.epoch == sight.epoch).last();
        let until = match until {
            Some(last) if last.at < sights[sights.len() - 1].at => last.at,
            Some(_) | None => Duration::MAX,
        };
        let started =
            |line: &&TaskLine| line.what == "start" && line.at > sight.at && line.at <= until;
        let mut again: Vec<&str> = lines
            .iter()
            .filter(started)
            .map(|l| l.node.as_str())
            .collect();
        again.sort_unstable();
        again.dedup();
        if sight.done + again.len() as u64 > nodes {
            found.push(format!(
                "{} of {nodes} tasks were shown as durably done at {:.2?}, and {} tasks were started later",
                sight.done,
                sight.at,
                again.len()
            ));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(what: &str, node: &str, invocation: &str, at: u64, fence: Option<i64>) -> TaskLine {
        TaskLine {
            what: what.to_owned(),
            node: node.to_owned(),
            invocation: invocation.to_owned(),
            at: Duration::from_secs(at),
            fence,
        }
    }

    #[test]
    fn completions_that_are_marked_as_not_on_disk_do_not_count() {
        let mark = "job `work`: 2 completion(s) shown here are not yet on disk; if this scheduler ends before they are, their tasks run again";
        let status = |errors: &[&str]| json!({"nodes_loaded": true, "jobs": [{"done": 5}], "errors": errors});
        assert_eq!(durably_done(&status(&[])), Some(5));
        assert_eq!(
            durably_done(&status(&["the store cannot write", mark])),
            Some(3)
        );
    }

    fn sight(at: u64, done: u64, epoch: u32) -> ShownCompletions {
        ShownCompletions {
            at: Duration::from_secs(at),
            done,
            epoch,
        }
    }

    #[test]
    fn lines_are_read_as_the_task_writes_them() {
        assert_eq!(
            parse("start n1 3-4 12.50 none /a b/c"),
            Some(TaskLine {
                at: Duration::from_millis(12_500),
                ..line("start", "n1", "3-4", 0, None)
            })
        );
        assert_eq!(
            parse("start n1 3-4 12.5 77 /a").and_then(|l| l.fence),
            Some(77)
        );
        assert_eq!(parse("start n1 3-4 12.5 x /a"), None);
    }

    #[test]
    fn good_histories_pass() {
        let lines = [
            line("start", "a", "1", 1, Some(1)),
            line("end", "a", "1", 2, Some(1)),
            line("start", "b", "2", 3, Some(1)),
            line("start", "b", "3", 5, Some(9)),
        ];
        assert_eq!(
            violations(&lines, &[sight(2, 1, 0), sight(4, 1, 0), sight(7, 2, 0)], 2),
            [""; 0]
        );
    }

    #[test]
    fn each_violation_is_found() {
        let count =
            |lines: &[TaskLine], sights: &[ShownCompletions]| violations(lines, sights, 2).len();
        assert_eq!(count(&[line("overlap", "a", "1", 1, None)], &[]), 1);
        let start = line("start", "a", "1", 1, None);
        assert_eq!(
            count(&[start.clone(), start], &[]),
            1,
            "one invocation twice"
        );
        let fenced = |at: u64, fence| line("start", "a", &at.to_string(), at, Some(fence));
        assert_eq!(
            count(&[fenced(1, 5), fenced(2, 5)], &[]),
            1,
            "an equal fence"
        );
        assert_eq!(
            count(&[], &[sight(1, 2, 0), sight(2, 1, 0)]),
            1,
            "forgotten"
        );
        let again = line("start", "a", "7", 3, None);
        assert_eq!(
            count(std::slice::from_ref(&again), &[sight(2, 2, 0)]),
            1,
            "done, but started again"
        );
        assert_eq!(
            count(&[again], &[sight(2, 2, 0), sight(4, 0, 1)]),
            0,
            "the store was lost"
        );
    }
}
