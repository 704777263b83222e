//! Parses the objects about the start and the end of tasks, which settings and jobs share. A job's object overrides the settings' one.

use std::ops::RangeInclusive;
use std::time::Duration;

use brasserie_common::task::CGroupOptions;
use brasserie_common::{KillMethod, KillRequest, LogOverflow, Output, TaskSubprocessOptions};

use crate::coerce::set;
use crate::keys::{INT32, Key, Shape, TEXTS, names, within};
use crate::limits;
use crate::read::{At, Notes};

pub(crate) const ORPHANS_KEY: Key = Key::new(
    "kill_orphan_tasks_after_sec",
    Shape::NeverOrSeconds,
    "The time after which the scheduler kills an orphan. `false` is never, and `true` is at once.",
);
pub(crate) const TASK_KEY: Key = Key::new(
    "task_subprocess",
    Shape::Fields(TASK_KEYS),
    "The treatment of a task's process and its output.",
);
pub(crate) const KILL_KEY: Key = Key::new(
    "kill_subprocess",
    Shape::Fields(KILL_KEYS),
    "The way in which a task is killed.",
);
pub(crate) const KILL_ALIAS_KEY: Key = Key::new(
    "kill_request",
    Shape::Fields(KILL_KEYS),
    "The same as `kill_subprocess`.",
);
const TASK_KEYS: &[Key] = &[
    Key::new(
        "poll_ms",
        Shape::Milliseconds(i32::MIN),
        "The time between two reads of a task's output.",
    ),
    Key::new(
        "max_log_lines_per_poll_interval",
        INT32,
        "The lines that one read takes at most. 0 is no limit.",
    ),
    Key::new(
        "max_log_bytes_per_poll_interval",
        INT32,
        "The bytes that one read takes at most, approximately. 0 is no limit.",
    ),
    Key::new(
        "log_overflow",
        Shape::Words(|| names(LOG_OVERFLOWS)),
        "The treatment of output beyond these limits: the task waits, or the output is dropped.",
    ),
    Key::new(
        "output",
        Shape::Words(|| names(OUTPUTS)),
        "The place of a task's output: the log of its worker, or compressed files of each run, to which these limits do not apply.",
    ),
    Key::new("parent_death_signal", Shape::Any, NO_EFFECT),
    Key::new("process_group_leader", Shape::Any, NO_EFFECT),
    Key::new("use_canary_pipe", Shape::Any, NO_EFFECT),
    Key::new(
        "cgroups",
        Shape::Fields(CGROUP_KEYS),
        "The control groups of a task. A task with limits always has groups of its own below those of the worker.",
    ),
    limits::LIMITS_KEY,
    limits::USER_KEY,
    limits::GROUP_KEY,
];
const CGROUP_KEYS: &[Key] = &[
    Key::new(
        "root",
        Shape::Text,
        "The folder in which control groups of version 1 are mounted, as `/sys/fs/cgroup`.",
    ),
    Key::new(
        "slice",
        Shape::Text,
        "The group below which tasks have their groups, in each subsystem. It must exist on the worker's machine.",
    ),
    Key::new(
        "subsystems",
        TEXTS,
        "The controllers of version 1 whose groups `ROOT/SUBSYSTEM/SLICE` the worker uses.",
    ),
    Key::new(
        "kill_without_freezer",
        Shape::Truth,
        "Permits the worker to kill the remaining processes of a task by process ids on a machine that has no better way.",
    ),
    Key::new(
        "pids_max",
        within(PIDS),
        "The processes and threads that a task may have at once. 0 is no limit.",
    ),
];
const KILL_KEYS: &[Key] = &[
    Key::new(
        "method",
        Shape::Words(|| names(KILL_METHODS)),
        "The signals that kill a task.",
    ),
    Key::new(
        "kill_wait_ms",
        Shape::Milliseconds(0),
        "The wait between SIGTERM and SIGKILL.",
    ),
];

/// The schema's description of keys that are accepted only for the sake of existing files.
pub(crate) const NO_EFFECT: &str = "Has no effect.";

/// The names of the key about ending tasks; the documented one is second.
pub(crate) const KILL_SUBPROCESS: &[&str] = &["kill_subprocess", "kill_request"];

pub(crate) const KILL_METHODS: &[(&str, KillMethod)] = &[
    ("term_wait_kill", KillMethod::TermWaitKill),
    ("term", KillMethod::Term),
    ("kill", KillMethod::Kill),
];

const LOG_OVERFLOWS: &[(&str, LogOverflow)] =
    &[("wait", LogOverflow::Wait), ("drop", LogOverflow::Drop)];

const OUTPUTS: &[(&str, Output)] = &[("log", Output::Log), ("file", Output::File)];

/// Numbers of processes; 0 for no limit.
const PIDS: RangeInclusive<i32> = 0..=i32::MAX;

/// Linux signals; 0 for none.
const SIGNALS: RangeInclusive<i32> = 0..=64;

pub(crate) fn task_subprocess(at: &At, options: &mut TaskSubprocessOptions, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    at.check_keys(TASK_KEYS, notes);
    if let Some(at) = at.get("poll_ms") {
        // Smaller values have always meant the shortest interval.
        let poll = at.milliseconds(i32::MIN, notes);
        set(
            &mut options.poll,
            poll.map(|poll| poll.max(Duration::from_millis(1))),
        );
    }
    if let Some(at) = at.get("max_log_lines_per_poll_interval") {
        set(
            &mut options.max_log_lines_per_poll_interval,
            at.integer32(i32::MIN..=i32::MAX, notes),
        );
    }
    if let Some(at) = at.get("max_log_bytes_per_poll_interval") {
        set(
            &mut options.max_log_bytes_per_poll_interval,
            at.integer32(i32::MIN..=i32::MAX, notes),
        );
    }
    if let Some(at) = at.get("log_overflow") {
        set(&mut options.log_overflow, at.choice(LOG_OVERFLOWS, notes));
    }
    if let Some(at) = at.get("output") {
        set(&mut options.output, at.choice(OUTPUTS, notes));
    }
    if let Some(at) = at.get("cgroups") {
        cgroups(&at, &mut options.cgroups, notes);
    }
    if let Some(at) = at.get("limits") {
        limits::limits(&at, &mut options.limits, notes);
    }
    limits::account(at, options, notes);
    without_effect(at, options, notes);
}

/// Reads the keys that have no effect. Warns about each value that differs from the default, or from the settings' value in a job, even if
/// the value is invalid; an exported job has all of these keys with values that are equal.
fn without_effect(at: &At, options: &mut TaskSubprocessOptions, notes: &mut Notes) {
    read_ineffective(
        at.get("parent_death_signal"),
        &mut options.parent_death_signal,
        |at, notes| at.integer32(SIGNALS, notes),
        "the worker's keeper kills a task whose worker has died; remove the key",
        notes,
    );
    read_ineffective(
        at.get("process_group_leader"),
        &mut options.process_group_leader,
        |at, notes| at.boolean(notes),
        "each task leads a process group, which is killed as a whole; remove the key",
        notes,
    );
    read_ineffective(
        at.get("use_canary_pipe"),
        &mut options.use_canary_pipe,
        |at, notes| at.boolean(notes),
        "the end of a task is noticed without it; remove the key",
        notes,
    );
}

/// Stores the value of a key without effect and warns if it differs from `slot`. An invalid value leaves `slot` as it is.
fn read_ineffective<T: PartialEq>(
    at: Option<At<'_>>,
    slot: &mut T,
    read: impl FnOnce(&At, &mut Notes) -> Option<T>,
    help: &str,
    notes: &mut Notes,
) {
    let Some(at) = at else {
        return;
    };
    // An invalid value of such a key is not an error, so its problems are dropped.
    let value = read(&at, &mut Notes::default());
    if value.as_ref() != Some(&*slot) {
        notes.warning(at.key_problem("has no effect").help(help));
    }
    set(slot, value);
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
    }
    if let Some(at) = at.get("kill_without_freezer") {
        set(&mut options.kill_without_freezer, at.boolean(notes));
    }
    if let Some(at) = at.get("pids_max") {
        let most = at.integer32(PIDS, notes).map(i64::from);
        set(&mut options.pids_max, most);
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
