//! Tests the logs of real programs: format, content and colors.

use std::process::Command;
use std::time::Duration;

use integration_tests::e2e::{Client, Process, SchedulerSpec, Stage, free_port, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Parses each line of a JSON log, and checks that it has a time and a level.
fn objects(process: &Process) -> Vec<Value> {
    let output = process.output();
    let lines = output.lines();
    let objects = lines.map(|line| {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(object["timestamp"].is_string(), "{line}");
        assert!(object["level"].is_string(), "{line}");
        object
    });
    objects.collect()
}

fn has(objects: &[Value], part: &str) -> bool {
    let message = |object: &Value| object["message"].as_str().is_some_and(|m| m.contains(part));
    objects.iter().any(message)
}

#[test]
fn json_logs_report_workers_tasks_and_signals() {
    let stage = Stage::new();
    let config = stage.write_work(3, Duration::from_millis(10));
    let spec = stage.calm_spec(&config).with("--log-format=json");
    let mut command = stage.scheduler_command(&spec);
    command.env("BRASSERIE_LOG", "debug");
    let mut scheduler = stage.start("scheduler", command);
    let mut one = stage.worker_spec("one", &spec);
    one.flags.push("--log-format=json".to_owned());
    let mut worker = stage.start_worker(&one);
    Client::new(spec.port).wait_all_done();

    worker.signal(Signal::SIGTERM);
    worker.wait();
    let of_worker = objects(&worker);
    assert!(has(&of_worker, "received SIGTERM"), "{of_worker:?}");
    scheduler.signal(Signal::SIGINT);
    scheduler.wait();
    let of_scheduler = objects(&scheduler);
    for part in [
        "received SIGINT",
        "worker `one` on host",
        "is healthy",
        "has ended, with all its tasks",
        "is in force",
    ] {
        assert!(has(&of_scheduler, part), "{part}: {of_scheduler:#?}");
    }
    let of_tasks = |message: &str| {
        let is_one = |line: &&Value| {
            line["message"] == message
                && line["level"] == "DEBUG"
                && line["job"].is_string()
                && line["node"].is_string()
        };
        of_scheduler.iter().filter(is_one).count()
    };
    assert_eq!(of_tasks("starts a task"), 3);
    assert_eq!(of_tasks("a task has ended"), 3);
}

/// A wrong address is reported at once, with its reason: here the page's port of a real scheduler, and a port without any program.
#[test]
fn a_worker_with_a_wrong_address_says_which_why_and_that_it_tries_again() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let scheduler = stage.start_scheduler(&spec);
    scheduler.wait_for_output("the scheduler is up");
    for (shard, port, why) in [
        ("page", spec.http_port, "HTTP"),
        ("none", free_port(), "refused"),
    ] {
        let wrong = SchedulerSpec {
            port,
            ..stage.calm_spec(&config)
        };
        let worker = stage.start_worker(&stage.worker_spec(shard, &wrong));
        let begin = format!("heartbeats to 127.0.0.1:{port} fail");
        wait_for("the reason", || {
            let log = worker.output();
            let line = log.lines().find(|line| line.contains(&begin))?;
            for part in ["WARN", why, "tries again", "`--listen`", "6789"] {
                assert!(line.contains(part), "{part}: {line}");
            }
            Some(())
        });
    }
}

#[test]
fn the_keeper_of_a_killed_worker_says_what_killed_it_and_what_became_of_its_tasks() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::from_secs(1000));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let mut worker = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_for("a task", || (!stage.alive().is_empty()).then_some(()));
    worker.kill_program();
    let log = worker.output();
    for part in [
        "was killed by SIGKILL; killing every process that it has started",
        "had started is dead",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn every_program_obeys_no_color() {
    let stage = Stage::new();
    let programs = [
        stage.scheduler_program(),
        stage.worker_program(),
        stage.brasserie_command(&[]),
    ];
    for program in programs {
        let file = program.get_program().to_str().expect("a plain path");
        // `script` runs the program on a terminal, where colors are the default.
        let wrong = |no_color: &str| {
            let mut script = Command::new("script");
            script.args(["--quiet", "--return", "--command"]);
            script.arg(format!("{file} --no-such-flag"));
            script.arg("/dev/null");
            script.env("NO_COLOR", no_color).env("TERM", "xterm");
            stage.finish("script", script).output
        };
        let (coloured, plain) = (wrong(""), wrong("1"));
        assert!(plain.contains("--no-such-flag"), "{plain}");
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        assert!(coloured.contains('\u{1b}'), "{coloured:?}");
    }
}
