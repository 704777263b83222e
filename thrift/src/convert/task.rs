//! Running tasks, their options, and requests to kill them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::task::{CGroupOptions, MAX_ENVIRONMENT_BYTES, is_variable};
use brasserie_common::{
    AccountName, Arguments, BackoffDuration, EndedBy, Fence, Kill, KillMethod, KillRequest,
    LogOverflow, Output, ReportedStatus, RunningTask, StatusFrom, StatusSource,
    TaskSubprocessOptions,
};

use thrift::OrderedFloat;

use super::{
    FieldProblem, WireError, defaulted, limits, not_negative, optional, parse_list, parse_name,
    required, saturating_i32, saturating_i64, to_wire_list, work,
};
use crate::generated::common as wire;

impl TryFrom<wire::BackoffDuration> for BackoffDuration {
    type Error = WireError;

    fn try_from(backoff: wire::BackoffDuration) -> Result<Self, WireError> {
        let count = |path: &str, value: i32| {
            let problem = FieldProblem::OutOfRange {
                value: value.into(),
                allowed: "0 or more",
            };
            u32::try_from(value).map_err(|_| WireError::new(path, problem))
        };
        Ok(BackoffDuration {
            no_more_backoffs: backoff.no_more_backoffs,
            seconds: count("BackoffDuration.seconds", backoff.seconds)?,
            times: count("BackoffDuration.times", backoff.times.unwrap_or(1))?,
        })
    }
}

impl From<BackoffDuration> for wire::BackoffDuration {
    fn from(backoff: BackoffDuration) -> Self {
        wire::BackoffDuration {
            no_more_backoffs: backoff.no_more_backoffs,
            seconds: saturating_i32(backoff.seconds),
            times: Some(saturating_i32(backoff.times)),
        }
    }
}

impl TryFrom<wire::RunningTask> for RunningTask {
    type Error = WireError;

    fn try_from(task: wire::RunningTask) -> Result<Self, WireError> {
        let work = work::terms(&task);
        let kill_wait = task.worker_suicide_task_kill_wait_ms.unwrap_or(0);
        let kill_wait = not_negative("RunningTask.workerSuicideTaskKillWaitMs", kill_wait.into())?;
        Ok(RunningTask {
            job: parse_name("RunningTask.job", task.job.unwrap_or_default())?,
            node: parse_name("RunningTask.node", task.node.unwrap_or_default())?,
            invocation: required("RunningTask.invocationID", task.invocation_id)?,
            shard: parse_name(
                "RunningTask.workerShard",
                task.worker_shard.unwrap_or_default(),
            )?,
            resources: parse_list(
                "RunningTask.nodeResources",
                task.node_resources.unwrap_or_default(),
            )?,
            gpus: parse_list("RunningTask.gpus", task.gpus.unwrap_or_default())?,
            gpus_wanted: optional("RunningTask.gpusWanted", task.gpus_wanted)?,
            next_backoff: defaulted(
                "RunningTask.nextBackoffDuration",
                task.next_backoff_duration,
            )?,
            suicide_kill_wait: Duration::from_millis(kill_wait),
            physical: optional("RunningTask.physicalResources", task.physical_resources)?,
            // A text that is no status is an error of the task and not of the call, as in `updateStatus`, because the list of running tasks
            // must not be lost.
            ended: task
                .ended
                .map(|text| ReportedStatus::parse(&text, StatusSource::Worker)),
            story: task.story.map(|story| Arc::new(story.into())),
            work,
            fence: task.fence.map(fence).transpose()?,
            worker_slots: task
                .worker_slots
                .map(|slots| parse_list("RunningTask.workerSlots", slots))
                .transpose()?,
            outputs: parse_list("RunningTask.outputs", task.outputs.unwrap_or_default())?,
        })
    }
}

fn fence(number: i64) -> Result<Fence, WireError> {
    Fence::from_wire(number).ok_or_else(|| {
        let problem = FieldProblem::OutOfRange {
            value: number,
            allowed: "more than 0",
        };
        WireError::new("RunningTask.fence", problem)
    })
}

impl From<RunningTask> for wire::RunningTask {
    fn from(task: RunningTask) -> Self {
        wire::RunningTask {
            job: Some(task.job.into()),
            node: Some(task.node.into()),
            node_resources: Some(to_wire_list(task.resources)),
            worker_shard: Some(task.shard.into()),
            invocation_id: Some(task.invocation.into()),
            next_backoff_duration: Some(task.next_backoff.into()),
            physical_resources: task.physical.map(Into::into),
            worker_suicide_task_kill_wait_ms: Some(saturating_i32(
                task.suicide_kill_wait.as_millis(),
            )),
            est_duration_sec: task.work.est_duration.map(Into::into),
            deadline_sec: None,
            usage: task.work.cpus.map(work::usage),
            work_request_seq: task.work.request.map(|seq| saturating_i64(seq.0)),
            // Absent if false, so that peers without this field receive unchanged messages.
            bufferable: Some(task.work.bufferable).filter(|is| *is),
            report: task.work.report.map(|policy| policy.as_str().to_owned()),
            ended: task.ended.map(|status| status.to_wire()),
            story: task.story.as_deref().map(Into::into),
            gpus: Some(to_wire_list(task.gpus)).filter(|gpus: &Vec<_>| !gpus.is_empty()),
            gpus_wanted: task.gpus_wanted.map(Into::into),
            fence: task.fence.map(Fence::get),
            worker_slots: task.worker_slots.map(to_wire_list),
            outputs: Some(to_wire_list(task.outputs))
                .filter(|outputs: &Vec<_>| !outputs.is_empty()),
        }
    }
}

impl TryFrom<wire::KillMethod> for KillMethod {
    type Error = WireError;

    fn try_from(method: wire::KillMethod) -> Result<Self, WireError> {
        match method {
            wire::KillMethod::TERM_WAIT_KILL => Ok(KillMethod::TermWaitKill),
            wire::KillMethod::KILL => Ok(KillMethod::Kill),
            wire::KillMethod::TERM => Ok(KillMethod::Term),
            wire::KillMethod(value) => Err(WireError::new(
                "KillMethod",
                FieldProblem::OutOfRange {
                    value: value.into(),
                    allowed: "1 (TERM_WAIT_KILL), 2 (KILL) or 3 (TERM)",
                },
            )),
        }
    }
}

impl From<KillMethod> for wire::KillMethod {
    fn from(method: KillMethod) -> Self {
        match method {
            KillMethod::TermWaitKill => wire::KillMethod::TERM_WAIT_KILL,
            KillMethod::Kill => wire::KillMethod::KILL,
            KillMethod::Term => wire::KillMethod::TERM,
        }
    }
}

impl TryFrom<wire::KillRequest> for KillRequest {
    type Error = WireError;

    fn try_from(request: wire::KillRequest) -> Result<Self, WireError> {
        let method = match request.method {
            Some(method) => super::parse("KillRequest.method", method)?,
            None => KillRequest::default().method,
        };
        // The interface promises that a wait of zero or less kills at once.
        let wait_ms = u64::try_from(request.kill_wait_ms.unwrap_or(0)).unwrap_or(0);
        Ok(KillRequest {
            method,
            wait: Duration::from_millis(wait_ms),
        })
    }
}

impl From<KillRequest> for wire::KillRequest {
    fn from(request: KillRequest) -> Self {
        wire::KillRequest {
            method: Some(request.method.into()),
            kill_wait_ms: Some(saturating_i32(request.wait.as_millis())),
            reason: None,
        }
    }
}

impl TryFrom<wire::KillRequest> for Kill {
    type Error = WireError;

    /// A request without a known reason counts as an operator's, which does not count against the task.
    fn try_from(request: wire::KillRequest) -> Result<Self, WireError> {
        let by = request.reason.as_deref().and_then(EndedBy::parse);
        Ok(Kill {
            by: by.unwrap_or(EndedBy::Operator),
            request: request.try_into()?,
        })
    }
}

impl From<Kill> for wire::KillRequest {
    fn from(kill: Kill) -> Self {
        wire::KillRequest {
            reason: Some(kill.by.as_str().to_owned()),
            ..kill.request.into()
        }
    }
}

impl TryFrom<wire::TaskSubprocessOptions> for TaskSubprocessOptions {
    type Error = WireError;

    fn try_from(options: wire::TaskSubprocessOptions) -> Result<Self, WireError> {
        let default = TaskSubprocessOptions::default();
        // The original also clamps a poll period of zero or less.
        let poll = options.poll_ms.map_or(default.poll, |ms| {
            Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1))
        });
        let refresh_resources = match options.refresh_resources_sec {
            Some(secs) => Duration::from_secs(not_negative(
                "TaskSubprocessOptions.refreshResourcesSec",
                secs.into(),
            )?),
            None => default.refresh_resources,
        };
        Ok(TaskSubprocessOptions {
            poll,
            max_log_lines_per_poll_interval: options
                .max_log_lines_per_poll_interval
                .unwrap_or(default.max_log_lines_per_poll_interval),
            max_log_bytes_per_poll_interval: options.max_log_bytes_per_poll_interval.unwrap_or(0),
            log_overflow: word(
                "TaskSubprocessOptions.logOverflow",
                options.log_overflow,
                LogOverflow::parse,
                "\"wait\" or \"drop\"",
            )?,
            output: word(
                "TaskSubprocessOptions.output",
                options.output,
                Output::parse,
                "\"log\" or \"file\"",
            )?,
            parent_death_signal: signal(
                options
                    .parent_death_signal
                    .unwrap_or(default.parent_death_signal),
            )?,
            process_group_leader: options
                .process_group_leader
                .unwrap_or(default.process_group_leader),
            use_canary_pipe: options.use_canary_pipe.unwrap_or(default.use_canary_pipe),
            refresh_resources,
            cgroups: defaulted(
                "TaskSubprocessOptions.cgroupOptions",
                options.cgroup_options,
            )?,
            status_from: word(
                "TaskSubprocessOptions.statusFrom",
                options.status_from,
                StatusFrom::parse,
                "\"auto\", \"pipe\" or \"exit_code\"",
            )?,
            arguments: word(
                "TaskSubprocessOptions.arguments",
                options.arguments,
                Arguments::parse,
                "\"append\" or \"none\"",
            )?,
            timeout: options.timeout_sec.map(timeout).transpose()?,
            // The deadline is a field of `RunningTask`.
            deadline: None,
            limit_kill: optional("TaskSubprocessOptions.killRequest", options.kill_request)?,
            limits: limits::from_wire(options.limits.unwrap_or_default())?,
            user: account("TaskSubprocessOptions.user", options.user)?,
            group: account("TaskSubprocessOptions.group", options.group)?,
            environment: environment(options.environment.unwrap_or_default())?,
            working_directory: options
                .working_directory
                .map(working_directory)
                .transpose()?,
            artifacts: optional("TaskSubprocessOptions.artifacts", options.artifacts)?
                .map(Box::new),
        })
    }
}

/// Checks a task's variables: names that a job may set, values without NUL, and at most [`MAX_ENVIRONMENT_BYTES`].
fn environment(all: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, WireError> {
    let path = "TaskSubprocessOptions.environment";
    let bytes: usize = all
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > MAX_ENVIRONMENT_BYTES {
        let problem = FieldProblem::OutOfRange {
            value: i64::try_from(bytes).unwrap_or(i64::MAX),
            allowed: "65536 bytes of names and values",
        };
        return Err(WireError::new(path, problem));
    }
    for (name, value) in &all {
        if !is_variable(name) {
            let allowed = "a name without `=` and NUL that does not begin with BRASSERIE_";
            return Err(WireError::new(
                path,
                FieldProblem::unknown_word(name, allowed),
            ));
        }
        if value.contains('\0') {
            let allowed = "a value without NUL";
            return Err(WireError::new(
                path,
                FieldProblem::unknown_word(value, allowed),
            ));
        }
    }
    Ok(all)
}

/// Checks that a working directory is absolute, because a relative path has no meaning on another machine.
fn working_directory(path: String) -> Result<String, WireError> {
    if Path::new(&path).is_absolute() && !path.contains('\0') {
        return Ok(path);
    }
    Err(WireError::new(
        "TaskSubprocessOptions.workingDirectory",
        FieldProblem::unknown_word(&path, "an absolute path"),
    ))
}

/// Parses the name of a user or group, which must not be empty.
fn account(path: &str, text: Option<String>) -> Result<Option<AccountName>, WireError> {
    match text {
        None => Ok(None),
        Some(text) if text.is_empty() => Err(WireError::new(
            path,
            FieldProblem::unknown_word(&text, "a name or a number"),
        )),
        Some(text) => parse_name(path, text).map(Some),
    }
}

/// Maximum limit of a run: 68 years, as in configs, so that sums with it do not overflow.
const MAX_LIMIT: Duration = Duration::from_secs(i32::MAX as u64);

/// The highest signal number of Linux, SIGRTMAX.
const MAX_SIGNAL: i32 = 64;

fn signal(number: i32) -> Result<i32, WireError> {
    if (0..=MAX_SIGNAL).contains(&number) {
        return Ok(number);
    }
    Err(WireError::new(
        "TaskSubprocessOptions.parentDeathSignal",
        FieldProblem::OutOfRange {
            value: number.into(),
            allowed: "0 (none) to 64",
        },
    ))
}

/// Parses a limit above zero, and reduces it to [`MAX_LIMIT`].
fn timeout(seconds: OrderedFloat<f64>) -> Result<Duration, WireError> {
    let path = "TaskSubprocessOptions.timeoutSec";
    let amount = super::amount(path, Some(seconds))?;
    if amount == 0.0 {
        let problem = FieldProblem::OutOfRange {
            value: 0,
            allowed: "more than 0",
        };
        return Err(WireError::new(path, problem));
    }
    Ok(Duration::try_from_secs_f64(amount).map_or(MAX_LIMIT, |limit| limit.min(MAX_LIMIT)))
}

/// Returns the time that `RunningTask.deadlineSec` of a `runTask` leaves the run.
pub fn deadline(seconds: Option<i64>) -> Result<Option<Duration>, WireError> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    let seconds = not_negative("runTask.rt.deadlineSec", seconds)?;
    Ok(Some(Duration::from_secs(seconds).min(MAX_LIMIT)))
}

/// Converts for [`deadline`], rounding up to whole seconds so that no run is ended too early.
pub fn deadline_to_wire(left: Option<Duration>) -> Option<i64> {
    let left = left?;
    let up = u64::from(left.subsec_nanos() > 0);
    Some(saturating_i64(left.as_secs().saturating_add(up)))
}

fn word<T: Default>(
    path: &str,
    text: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    allowed: &'static str,
) -> Result<T, WireError> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    parse(&text).ok_or_else(|| WireError::new(path, FieldProblem::unknown_word(&text, allowed)))
}

impl From<TaskSubprocessOptions> for wire::TaskSubprocessOptions {
    fn from(options: TaskSubprocessOptions) -> Self {
        wire::TaskSubprocessOptions {
            poll_ms: Some(saturating_i32(options.poll.as_millis()).max(1)),
            max_log_lines_per_poll_interval: Some(options.max_log_lines_per_poll_interval),
            parent_death_signal: Some(options.parent_death_signal),
            process_group_leader: Some(options.process_group_leader),
            use_canary_pipe: Some(options.use_canary_pipe),
            refresh_resources_sec: Some(saturating_i32(options.refresh_resources.as_secs())),
            cgroup_options: Some(options.cgroups.into()),
            timeout_sec: options.timeout.map(|t| t.as_secs_f64().into()),
            status_from: Some(options.status_from.as_str().to_owned()),
            arguments: Some(options.arguments.as_str().to_owned()),
            max_log_bytes_per_poll_interval: Some(options.max_log_bytes_per_poll_interval),
            log_overflow: Some(options.log_overflow.as_str().to_owned()),
            output: Some(options.output.as_str().to_owned()),
            kill_request: options.limit_kill.map(Into::into),
            // Absent if empty, like control groups.
            limits: Some(limits::to_wire(&options.limits)).filter(|list| !list.is_empty()),
            user: options.user.map(Into::into),
            group: options.group.map(Into::into),
            environment: Some(options.environment).filter(|all| !all.is_empty()),
            working_directory: options.working_directory,
            artifacts: options.artifacts.map(|artifacts| (*artifacts).into()),
        }
    }
}

impl TryFrom<wire::CGroupOptions> for CGroupOptions {
    type Error = WireError;

    fn try_from(cgroups: wire::CGroupOptions) -> Result<Self, WireError> {
        let cpu_shares = cgroups.cpu_shares.unwrap_or(0);
        if cpu_shares < 0 || cpu_shares == 1 {
            return Err(WireError::new(
                "CGroupOptions.cpuShares",
                FieldProblem::OutOfRange {
                    value: cpu_shares.into(),
                    allowed: "0 (leave alone), or 2 or more",
                },
            ));
        }
        let memory_limit_in_bytes = cgroups.memory_limit_in_bytes.unwrap_or(0);
        not_negative("CGroupOptions.memoryLimitInBytes", memory_limit_in_bytes)?;
        let pids_max = cgroups.pids_max.unwrap_or(0);
        not_negative("CGroupOptions.pidsMax", pids_max)?;
        let cpu_quota_milli = cgroups.cpu_quota_milli.unwrap_or(0);
        not_negative("CGroupOptions.cpuQuotaMilli", cpu_quota_milli)?;
        Ok(CGroupOptions {
            root: cgroups.root.unwrap_or_default(),
            slice: cgroups.slice.unwrap_or_default(),
            subsystems: cgroups.subsystems.unwrap_or_default(),
            unit_test_create_files: cgroups.unit_test_create_files.unwrap_or(false),
            cpu_shares,
            memory_limit_in_bytes,
            kill_without_freezer: cgroups.kill_without_freezer.unwrap_or(false),
            pids_max,
            cpu_quota_milli,
        })
    }
}

impl From<CGroupOptions> for wire::CGroupOptions {
    fn from(cgroups: CGroupOptions) -> Self {
        wire::CGroupOptions {
            root: Some(cgroups.root),
            slice: Some(cgroups.slice),
            subsystems: Some(cgroups.subsystems),
            unit_test_create_files: Some(cgroups.unit_test_create_files),
            cpu_shares: Some(cgroups.cpu_shares),
            memory_limit_in_bytes: Some(cgroups.memory_limit_in_bytes),
            kill_without_freezer: Some(cgroups.kill_without_freezer),
            // Absent if zero, so that peers without this field receive unchanged messages.
            pids_max: Some(cgroups.pids_max).filter(|most| *most > 0),
            cpu_quota_milli: Some(cgroups.cpu_quota_milli).filter(|most| *most > 0),
        }
    }
}
