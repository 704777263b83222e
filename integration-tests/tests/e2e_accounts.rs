//! Tests limits and users from a config file with real programs: their effect on a task, and the reason that users read where they are
//! impossible.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use brasserie_worker::process::{Accounts, AllowedUser};
use integration_tests::e2e::Stage;
use serde_json::{Value, json};

fn config() -> Value {
    let shell = |text: &str| json!(["/bin/sh", "-c", text]);
    json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "manual", "prefs": { "n": [] } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 4 } } },
            "backoff": ["fail"],
            "task_subprocess": { "limits": { "nofile": { "soft": 40, "hard": 50 } } }
        },
        "bistro_job->held": {
            "command": shell("test $(ulimit -S -n)$(ulimit -H -n) = 4050 && exec head -c 9999 /dev/zero > file"),
            "arguments": "none", "task_subprocess": { "limits": { "fsize": 512, "core": 0 } }
        },
        "bistro_job->who": {
            "command": shell("test $(id -un)$(ulimit -n) = nobody40 && echo written > /dev/stdout"), "arguments": "none",
            "task_subprocess": { "user": "nobody" }
        },
        "bistro_job->refused": {
            "command": ["/bin/true"], "arguments": "none", "task_subprocess": { "user": "daemon" }
        }
    })
}

#[test]
fn a_config_file_says_what_tasks_may_use_and_whose_rights_they_have() {
    let stage = Stage::new();
    let config = stage.write("config.json", &format!("{:#}", config()));
    let spec = stage.calm_spec(&config);
    let scheduler = stage.start_scheduler(&spec);
    let mut one = stage.worker_spec("one", &spec);
    let nobody = AllowedUser::parse("nobody").expect("a user");
    let is_able = Accounts::resolve(&[nobody]).is_ok();
    if is_able {
        // Other users must be able to reach the data directory.
        let folder = config.parent().expect("one");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o711)).expect("set");
        one.flags.push("--allow-user=nobody".to_owned());
    }
    let _worker = stage.start_worker(&one);

    let held = &stage.explain_ended(&spec, "held", "n")["last_run"];
    assert_eq!(
        (&held["signal"], &held["fault"]),
        (&json!(25), &json!("task")),
        "{held}"
    );

    let who = &stage.explain_ended(&spec, "who", "n")["last_run"];
    match is_able {
        true => assert_eq!(who["exit_code"], 0, "{who}"),
        false => assert!(who.to_string().contains("--allow-user nobody"), "{who}"),
    }

    let refused = &stage.explain_ended(&spec, "refused", "n")["last_run"];
    let text = refused.to_string();
    assert!(
        text.contains("would have to be started with --allow-user daemon"),
        "{text}"
    );
    assert_eq!(refused["fault"], "worker", "{refused}");
    // `status` shows the problem even to users who do not run `explain` for the task.
    let problem = "worker `one` could not start refused on n: it asks for the user \"daemon\"";
    scheduler.wait_for_output(problem);
    let address = format!("{}:{}", spec.address, spec.port);
    let status = stage.brasserie(&["status", "--scheduler", &address]).output;
    assert!(status.contains(problem), "{status}");
}

#[test]
fn a_worker_does_not_start_that_cannot_keep_what_its_flag_promises() {
    let stage = Stage::new();
    let config = stage.write("config.json", &format!("{:#}", config()));
    let spec = stage.worker_spec("one", &stage.calm_spec(&config));
    let start = |user: &str| {
        let mut command = stage.worker_command(&spec);
        command.arg(format!("--allow-user={user}"));
        stage.finish("worker", command)
    };
    let unknown = start("no-such-user");
    assert_eq!(unknown.code, Some(3), "{}", unknown.output);
    let text = "--allow-user no-such-user: this machine has no user \"no-such-user\"";
    assert!(unknown.output.contains(text), "{}", unknown.output);
    let garbled = start("nobody:");
    assert_eq!(garbled.code, Some(2), "{}", garbled.output);
    assert!(garbled.output.contains("NAME:GROUP"), "{}", garbled.output);
}

#[test]
fn a_run_with_a_job_that_may_never_have_its_user_does_not_start() {
    let stage = Stage::new();
    let config = stage.write("config.json", &format!("{:#}", config()));
    let run = stage.brasserie(&["run", &config.to_string_lossy()]);
    assert_eq!(run.code, Some(2), "{}", run.output);
    let text = "job `refused` can start no task: it asks for the user \"daemon\"";
    assert!(run.output.contains(text), "{}", run.output);
    assert!(run.output.contains("--allow-user daemon"), "{}", run.output);
}
