//! How tasks run and end: the objects that settings and jobs share, a job's on top of the settings'.

use std::time::Duration;

use brasserie_common::task::CGroupOptions;
use brasserie_common::{KillMethod, KillRequest, TaskSubprocessOptions};

use crate::coerce::set;
use crate::read::{At, Notes};

const TASK_KEYS: &[&str] = &[
    "poll_ms",
    "max_log_lines_per_poll_interval",
    "parent_death_signal",
    "process_group_leader",
    "use_canary_pipe",
    "cgroups",
];
const CGROUP_KEYS: &[&str] = &["root", "slice", "subsystems", "kill_without_freezer"];
const KILL_KEYS: &[&str] = &["method", "kill_wait_ms"];

/// The names of what ends a task, the documented one second.
pub(crate) const KILL_SUBPROCESS: &[&str] = &["kill_subprocess", "kill_request"];

pub(crate) const KILL_METHODS: &[(&str, KillMethod)] = &[
    ("term_wait_kill", KillMethod::TermWaitKill),
    ("term", KillMethod::Term),
    ("kill", KillMethod::Kill),
];

/// The largest signal number of Linux.
const MAX_SIGNAL: i32 = 64;

pub(crate) fn task_subprocess(at: &At, options: &mut TaskSubprocessOptions, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    at.check_keys(TASK_KEYS, notes);
    if let Some(at) = at.get("poll_ms") {
        // Smaller values have always meant the shortest interval.
        let poll = at.integer32(i32::MIN..=i32::MAX, notes).map(|ms| ms.max(1));
        let poll = poll.and_then(|ms| u64::try_from(ms).ok());
        set(&mut options.poll, poll.map(Duration::from_millis));
    }
    if let Some(at) = at.get("max_log_lines_per_poll_interval") {
        set(
            &mut options.max_log_lines_per_poll_interval,
            at.integer32(i32::MIN..=i32::MAX, notes),
        );
    }
    if let Some(at) = at.get("parent_death_signal") {
        set(
            &mut options.parent_death_signal,
            at.integer32(0..=MAX_SIGNAL, notes),
        );
    }
    if let Some(at) = at.get("process_group_leader") {
        set(&mut options.process_group_leader, at.boolean(notes));
    }
    if let Some(at) = at.get("use_canary_pipe") {
        set(&mut options.use_canary_pipe, at.boolean(notes));
    }
    if let Some(at) = at.get("cgroups") {
        cgroups(&at, &mut options.cgroups, notes);
    }
}

fn cgroups(at: &At, options: &mut CGroupOptions, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    at.check_keys(CGROUP_KEYS, notes);
    if let Some(at) = at.get("root") {
        set(&mut options.root, at.string(notes));
    }
    if let Some(at) = at.get("slice") {
        set(&mut options.slice, at.string(notes));
    }
    if let Some(at) = at.get("subsystems") {
        set(&mut options.subsystems, at.strings(notes));
        if !options.subsystems.is_empty() {
            notes.warning(at.key_problem("is checked but has no effect yet in this version"));
        }
    }
    if let Some(at) = at.get("kill_without_freezer") {
        set(&mut options.kill_without_freezer, at.boolean(notes));
    }
}

pub(crate) fn kill_subprocess(at: &At, request: &mut KillRequest, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    at.check_keys(KILL_KEYS, notes);
    if let Some(at) = at.get("method") {
        set(&mut request.method, at.choice(KILL_METHODS, notes));
    }
    if let Some(at) = at.get("kill_wait_ms") {
        set(&mut request.wait, at.milliseconds(0, notes));
    }
}
