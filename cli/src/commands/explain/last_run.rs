//! Formats the [`Story`] of a task's last run as text and as JSON: how the run ended, how long it took, and what it used.

use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common::{Fault, Story};
use brasserie_thrift::generated::brasserie::LastRun;
use serde_json::{Value, json};

use crate::connection::run_id;
use crate::output::{printable, printable_block};

const MIB: f64 = (1_u64 << 20) as f64;

/// Returns a few lines of text, or an empty text if the scheduler has no story of the run.
pub(super) fn text(run: &LastRun) -> String {
    let Some(story) = run.story.clone().map(Story::from) else {
        return String::new();
    };
    let shard = run.worker_shard.as_deref().unwrap_or_default();
    let ending = match story.ran {
        Some(_) => story.ending.to_string(),
        None => "was lost with its worker".to_owned(),
    };
    let mut lines = vec![format!(
        "Last run, on worker `{}`: it {}.",
        printable(shard),
        printable_block(&ending)
    )];
    if let Some(by) = story.ended_by {
        lines.push(format!("  It ended because {by}."));
    }
    match story.fault {
        Fault::Nobody => {}
        Fault::Task => lines.push("  The fault is the task's.".to_owned()),
        Fault::Worker => lines.push("  The fault is the worker's.".to_owned()),
        Fault::System => lines.push("  The fault is the system's.".to_owned()),
    }
    let mut times = Vec::new();
    if let Some(queued) = run.queued_ms.and_then(|ms| u64::try_from(ms).ok()) {
        times.push(format!(
            "was ready for {} before it was sent to the worker",
            duration(Duration::from_millis(queued))
        ));
    }
    if !story.waited.is_zero() {
        times.push(format!(
            "waited {} in its worker's queue",
            duration(story.waited)
        ));
    }
    match story.ran {
        Some(ran) => times.extend([
            format!("took {} to start", duration(story.starting)),
            format!("ran {}", duration(ran)),
            format!("used {} of CPU time", duration(story.cpu)),
        ]),
        None => times.push("ran for an unknown time".to_owned()),
    }
    if let Some(bytes) = story.peak_memory_bytes {
        times.push(format!(
            "and at most {:.1} MiB of memory",
            bytes as f64 / MIB
        ));
    }
    if story.read_bytes + story.written_bytes > 0 {
        times.push(format!(
            "read {:.1} MiB from disks and wrote {:.1} MiB to disks",
            story.read_bytes as f64 / MIB,
            story.written_bytes as f64 / MIB
        ));
    }
    lines.push(format!("  It {}.", times.join(", ")));
    if !story.last_lines.is_empty() {
        lines.push("  The last lines of stderr:".to_owned());
        // Escapes task output, which could otherwise move the cursor or change colours.
        let lines_of_task = story.last_lines.iter();
        lines.extend(lines_of_task.map(|line| format!("    | {}", printable(line))));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Formats a time. From ten seconds on, milliseconds are omitted.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format_duration(time),
        secs => format_duration(Duration::from_secs(secs)),
    }
}

/// Returns a JSON object. Times are in milliseconds, and unknown values are null.
pub(super) fn json(run: &LastRun) -> Value {
    let story = run.story.clone().unwrap_or_default();
    json!({
        "invocation": run_id(run.invocation_id.clone()),
        "worker": run.worker_shard,
        "exit_code": story.exit_code,
        "signal": story.signal,
        "not_started": story.not_started,
        "ended_by": story.ended_by,
        "fault": story.fault,
        "queued_ms": run.queued_ms,
        "waited_ms": story.waited_ms,
        "starting_ms": story.starting_ms,
        "ran_ms": story.ran_ms,
        "cpu_ms": story.cpu_ms,
        "peak_memory_bytes": story.peak_memory_bytes,
        "read_bytes": story.read_bytes,
        "written_bytes": story.written_bytes,
        "last_lines": story.last_lines,
    })
}
