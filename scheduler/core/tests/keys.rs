//! Tests that a config file's settings for a task's process reach the worker with the start or with the kill.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{
    AccountName, Arguments, Bound, CallOutcome, EndedBy, KillMethod, KillRequest, Limited,
    LogOverflow, Output, Principal, ProcessLimit, ReportPolicy, ReportedStatus, StatusFrom,
    WorkTerms,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Call, CallReply, ConfigOrigin, Durable, Event, Options, RunTaskCall,
};
use support::{Script, config, one_job, options, worker};

/// Returns the call that starts the job's task.
fn start_of(config: Arc<Config>) -> RunTaskCall {
    let mut s = Script::with_config(config);
    s.join(&worker("w", 1, 10));
    let found = s.take_call(|call| matches!(call, Call::RunTask(_)));
    match found.expect("a task is started").1 {
        Call::RunTask(run) => *run,
        other => panic!("a start is a runTask, not {other:?}"),
    }
}

#[test]
fn the_program_and_what_is_said_to_it() {
    let plain = start_of(one_job(1, ""));
    assert_eq!(plain.command, ["/bin/true"]);
    assert_eq!(plain.options.status_from, StatusFrom::Auto);
    assert_eq!(plain.options.arguments, Arguments::Append);
    let own = start_of(one_job(
        1,
        r#", "status_from": "exit_code", "arguments": "none", "config": {"to": "there"}"#,
    ));
    assert_eq!(own.options.status_from, StatusFrom::ExitCode);
    assert_eq!(own.options.arguments, Arguments::None);
    assert!(own.config.contains("\"to\":\"there\""), "{}", own.config);
}

#[test]
fn where_and_with_what_a_task_begins() {
    let plain = start_of(one_job(1, "")).options;
    assert!(plain.environment.is_empty() && plain.working_directory.is_none());
    let own = start_of(one_job(1, r#", "env": {"A": "b", "C": 1}, "cwd": "/data""#)).options;
    let variables = [("A", "b"), ("C", "1")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(own.environment, variables.into());
    assert_eq!(own.working_directory.as_deref(), Some("/data"));
}

#[test]
fn how_its_output_is_read() {
    let own = start_of(one_job(
        1,
        r#", "task_subprocess": {"poll_ms": 77, "max_log_lines_per_poll_interval": 5,
            "max_log_bytes_per_poll_interval": 500, "log_overflow": "drop", "output": "file"}"#,
    ));
    assert_eq!(own.options.max_log_bytes_per_poll_interval, 500);
    assert_eq!(own.options.log_overflow, LogOverflow::Drop);
    assert_eq!(own.options.output, Output::File);
    assert_eq!(own.options.poll, Duration::from_millis(77));
    assert_eq!(own.options.max_log_lines_per_poll_interval, 5);
    let settings = r#", "task_subprocess": {"poll_ms": 78, "max_log_lines_per_poll_interval": 6,
        "max_log_bytes_per_poll_interval": 600, "log_overflow": "drop", "output": "file"}"#;
    let inherited = start_of(with_settings(settings, ""));
    assert_eq!(inherited.options.max_log_bytes_per_poll_interval, 600);
    assert_eq!(inherited.options.log_overflow, LogOverflow::Drop);
    assert_eq!(inherited.options.output, Output::File);
    assert_eq!(inherited.options.poll, Duration::from_millis(78));
    assert_eq!(inherited.options.max_log_lines_per_poll_interval, 6);
}

#[test]
fn how_long_a_task_may_take() {
    let plain = start_of(one_job(1, "")).options;
    assert_eq!(
        (plain.timeout, plain.deadline, plain.limit_kill),
        (None, None, None)
    );
    let own = start_of(one_job(
        1,
        r#", "timeout": 90, "deadline": "5m", "kill_subprocess": {"method": "kill"}"#,
    ));
    assert_eq!(own.options.timeout, Some(Duration::from_secs(90)));
    assert_eq!(own.options.deadline, Some(Duration::from_secs(300)));
    // The worker kills the task at its limit as the job says.
    let kill = KillRequest {
        method: KillMethod::Kill,
        wait: Duration::ZERO,
    };
    assert_eq!(own.options.limit_kill, Some(kill));
}

#[test]
fn what_its_worker_is_told_of_it() {
    let told = |keys: &str| start_of(one_job(1, keys)).task.work;
    assert_eq!(told(""), WorkTerms::default());
    let reckoned = told(r#", "est_duration": "1.5m", "bufferable": true"#);
    assert_eq!(reckoned.est_duration, Some(90.0));
    assert!(reckoned.bufferable);
    for policy in ReportPolicy::ALL {
        let says = format!(r#", "report": "{}""#, policy.as_str());
        assert_eq!(told(&says).report, Some(policy));
    }
}

#[test]
fn what_a_task_is_held_to() {
    let held_to = |ram: &str, cpu: &str| {
        let settings = format!(
            r#", "resources": {{"worker": {{
                "ram_gb": {{"default": 3, "limit": 9}}, "cpu": {{"default": 270, "limit": 900}}
            }}}}, "physical_resources": {{
                "ram_mb": {{"logical_resource": "ram_gb", "multiply_logical_by": 1024, "enforcement": "{ram}"}},
                "cpu_core": {{"logical_resource": "cpu", "multiply_logical_by": 0.01, "enforcement": "{cpu}",
                    "physical_reserve_amount": -9}}
            }}"#
        );
        let groups = start_of(with_settings(&settings, "")).options.cgroups;
        (
            groups.memory_limit_in_bytes,
            groups.cpu_shares,
            groups.cpu_quota_milli,
        )
    };
    assert_eq!(held_to("none", "none"), (0, 0, 0));
    // The worker receives bytes.
    assert_eq!(held_to("hard", "none"), (3 << 30, 0, 0));
    // The worker receives twice the cores, rounded.
    assert_eq!(held_to("none", "soft"), (0, 6, 0));
    // The limit is 2.7 cores.
    assert_eq!(held_to("none", "hard"), (0, 0, 2700));
}

#[test]
fn in_which_control_groups_it_runs() {
    let groups = r#""task_subprocess": {"cgroups": {"root": "/cg", "slice": "batch", "subsystems": ["cpu", "memory"],
        "kill_without_freezer": true, "pids_max": 50}}"#;
    for (settings, job) in [
        (format!(", {groups}"), String::new()),
        (String::new(), format!(", {groups}")),
    ] {
        let config = match job.is_empty() {
            true => with_settings(&settings, ""),
            false => with_settings("", &job),
        };
        let told = start_of(config).options.cgroups;
        assert_eq!((told.root.as_str(), told.slice.as_str()), ("/cg", "batch"));
        assert_eq!(told.subsystems, ["cpu", "memory"]);
        assert!(told.kill_without_freezer);
        assert_eq!(told.pids_max, 50);
    }
}

#[test]
fn what_its_processes_may_use_and_whose_rights_they_have() {
    let plain = start_of(one_job(1, "")).options;
    assert!(plain.limits.is_empty());
    assert_eq!((plain.user, plain.group), (None, None));
    let said = r#", "task_subprocess": {"limits": {"nofile": {"soft": 64, "hard": "unlimited"}, "core": 0},
        "user": "nobody", "group": "65534"}"#;
    for config in [with_settings(said, ""), with_settings("", said)] {
        let told = start_of(config).options;
        let nofile = ProcessLimit::new(Bound::At(64), Bound::Unlimited);
        assert_eq!(told.limits.get(&Limited::Nofile).copied(), nofile);
        let core = ProcessLimit::both(Bound::At(0));
        assert_eq!(told.limits.get(&Limited::Core), Some(&core));
        let name = |text| Some(AccountName::try_from(text).expect("a name"));
        assert_eq!((told.user, told.group), (name("nobody"), name("65534")));
    }
}

#[test]
fn how_a_task_is_ended() {
    let kill_of = |config| {
        let mut s = Script::with_config(config);
        s.join(&worker("w", 1, 10));
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        let request = s.request();
        s.event(Event::KillTask {
            request,
            from: Principal::Own,
            job: task.job,
            node: task.node,
        });
        let found = s.take_call(|call| matches!(call, Call::KillTask { .. }));
        match found.expect("the worker is asked").1 {
            Call::KillTask { kill, .. } => {
                assert_eq!(kill.by, EndedBy::Operator);
                kill.request
            }
            other => panic!("a kill, not {other:?}"),
        }
    };
    let kill = |method, ms| KillRequest {
        method,
        wait: Duration::from_millis(ms),
    };
    assert_eq!(kill_of(one_job(1, "")), KillRequest::default());
    let own = r#", "kill_subprocess": {"method": "term_wait_kill", "kill_wait_ms": 70}"#;
    assert_eq!(kill_of(one_job(1, own)), kill(KillMethod::TermWaitKill, 70));
    let other_name = r#", "kill_request": {"method": "kill", "kill_wait_ms": 7}"#;
    assert_eq!(kill_of(one_job(1, other_name)), kill(KillMethod::Kill, 7));
    let settings = |key: &str| {
        let kill = format!(r#", "{key}": {{"method": "kill", "kill_wait_ms": 9}}"#);
        with_settings(&kill, "")
    };
    for key in ["kill_subprocess", "kill_request"] {
        assert_eq!(kill_of(settings(key)), kill(KillMethod::Kill, 9), "{key}");
    }
}

#[test]
fn the_initial_wait_ends_at_the_word_of_the_file() {
    let wait_with = |settings: &str| {
        let options = Options {
            new_cluster: false,
            ..options()
        };
        let mut s = Script::new(options, Durable::default());
        s.load(config(&format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": []}} {settings}}}}}"#
        )));
        s.status().initial_wait
    };
    assert!(wait_with("").is_some());
    let far = r#", "CAUTION_exit_initial_wait_before_timestamp": 9000000000"#;
    assert_eq!(wait_with(far), None);
}

#[test]
fn when_an_incomplete_task_starts_again() {
    let starts_after = |settings: &str, wait: Duration| {
        let mut s = Script::with_config(with_settings(settings, ""));
        let w = worker("w", 1, 10);
        s.join(&w);
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        assert_eq!(s.update(&w, &task, ReportedStatus::incomplete()).1, Ok(()));
        s.advance(wait.saturating_sub(Duration::from_millis(1)));
        let early = s.starts().len();
        s.advance(Duration::from_millis(1));
        (early, s.starts().len())
    };
    assert_eq!(starts_after("", Duration::from_millis(500)), (0, 1));
    let own = r#", "working_wait": 2.5"#;
    assert_eq!(starts_after(own, Duration::from_millis(2500)), (0, 1));
}

#[test]
fn how_long_an_orphan_may_run() {
    // The job is disabled while its task runs. Returns after how many seconds, if ever, the worker is asked to kill the task.
    let asked_after = |settings: &str, job: &str| {
        let mut s = Script::with_config(with_settings(settings, job));
        s.join(&worker("w", 1, 10));
        let (call, _, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        s.load(with_settings(
            settings,
            &format!(r#", "enabled": false{job}"#),
        ));
        (0..60).find(|_| {
            let is_kill = |(_, _, call): &(_, _, Call)| matches!(call, Call::KillTask { .. });
            let asked = s.calls.iter().any(is_kill);
            s.advance(Duration::from_secs(u64::from(!asked)));
            asked
        })
    };
    let key = |value: &str| format!(r#", "kill_orphan_tasks_after_sec": {value}"#);
    assert_eq!(asked_after("", ""), None);
    assert_eq!(asked_after(&key("7"), ""), Some(7));
    assert_eq!(asked_after(&key("7"), &key("3")), Some(3));
    assert_eq!(asked_after(&key("7"), &key("true")), Some(0));
    assert_eq!(asked_after(&key("7"), &key("false")), None);
}

/// A config with one job on one node; `settings` and `job` begin with a comma.
fn with_settings(settings: &str, job: &str) -> Arc<Config> {
    config(&format!(
        r#"{{"bistro_settings": {{
            "nodes": {{"levels": ["l"], "node_source": "manual", "node_source_prefs": {{"n0": []}}}}{settings}
        }}, "bistro_job->j": {{"command": ["/bin/true"]{job}}}}}"#
    ))
}

#[test]
fn what_waits_for_all_waits_for_the_nodes_of_its_configuration() {
    let mut s = Script::with_config(with_settings("", ""));
    s.join(&worker("w", 1, 10));
    s.take_start();
    let gated = config(
        r#"{"bistro_settings": {
            "nodes": {"levels": ["k"], "node_source": "manual", "node_source_prefs": {"m0": []}},
            "resources": {}
        },
        "bistro_job->first": {"command": ["/bin/true"]},
        "bistro_job->then": {"command": ["/bin/true"], "level_for_tasks": "instance",
            "run_only_after_all_nodes_are_done_for": ["first"]}}"#,
    );
    s.event(Event::ConfigLoaded {
        config: Arc::clone(&gated),
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    });
    s.advance(Duration::from_secs(1));
    assert_eq!(s.starts(), [], "of `first` there are no nodes yet");
    s.load(gated);
    s.advance(Duration::from_secs(1));
    let started: Vec<String> = s.starts().iter().map(|run| run.job.to_string()).collect();
    assert_eq!(started, ["first"]);
}
