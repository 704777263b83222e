//! What a config file says of a task's process reaches the worker with the start, or with the kill.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::Duration;

use brasserie_common::{Arguments, CallOutcome, KillMethod, KillRequest, Principal, StatusFrom};
use brasserie_scheduler_core::{Call, CallReply, Durable, Event, Message, Options, RunTaskMessage};
use support::{Script, config, one_job, options, worker};

/// The message that starts the job's task.
fn start_of(config: std::sync::Arc<brasserie_common_config::Config>) -> RunTaskMessage {
    let mut s = Script::with_config(config);
    s.join(&worker("w", 1, 10));
    let found = s.take_call(|call| matches!(call, Call::RunTask { .. }));
    match found.expect("a task is started").2 {
        Message::RunTask(run) => *run,
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
fn how_its_output_is_read() {
    let own = start_of(one_job(
        1,
        r#", "task_subprocess": {"poll_ms": 77, "max_log_lines_per_poll_interval": 5}"#,
    ));
    assert_eq!(own.options.poll, Duration::from_millis(77));
    assert_eq!(own.options.max_log_lines_per_poll_interval, 5);
    let inherited = start_of(config(
        r#"{"bistro_settings": {
            "nodes": {"levels": ["l"], "node_source": "manual", "node_source_prefs": {"n0": []}},
            "task_subprocess": {"poll_ms": 78, "max_log_lines_per_poll_interval": 6}
        }, "bistro_job->j": {"command": ["/bin/true"]}}"#,
    ));
    assert_eq!(inherited.options.poll, Duration::from_millis(78));
    assert_eq!(inherited.options.max_log_lines_per_poll_interval, 6);
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
        match found.expect("the worker is asked").2 {
            Message::KillTask { kill, .. } => kill,
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
        config(&format!(
            r#"{{"bistro_settings": {{
                "nodes": {{"levels": ["l"], "node_source": "manual", "node_source_prefs": {{"n0": []}}}},
                "{key}": {{"method": "kill", "kill_wait_ms": 9}}
            }}, "bistro_job->j": {{"command": ["/bin/true"]}}}}"#
        ))
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
