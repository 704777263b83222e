//! Tests that node sources survive a killed scheduler: each time of a schedule gets its node once, and the last good config file stays in
//! force until the file is good again.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use integration_tests::e2e::{Client, Stage, wait_within};
use nix::sys::signal::Signal;
use serde_json::json;

/// Longer than a restart until the scheduler knows the running tasks, on a busy machine.
const LIFETIME: Duration = Duration::from_secs(15);
/// Enough for a minute of wall time on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn wall_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("it is after 1970");
    i64::try_from(now.as_secs()).expect("a time of this millennium")
}

/// Writes a config with a node each second, whose task writes its name.
fn write_config(stage: &Stage) -> std::path::PathBuf {
    let mark = stage.path("mark");
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["time"], "node_sources": [
                { "source": "add_time", "prefs": { "parent_level": "instance", "format": "{time}", "schedule": [
                    { "cron": { "epoch": {} }, "lifetime": LIFETIME.as_secs() }
                ] } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 4 } } }
        },
        "bistro_job->work": {
            "command": ["/bin/sh", "-c", format!("echo $BRASSERIE_NODE >> {}", mark.display())],
            "arguments": "none"
        }
    });
    stage.write("config.json", &format!("{config:#}"))
}

/// Returns the number of runs of each second's task.
fn runs(stage: &Stage) -> BTreeMap<i64, usize> {
    let text = std::fs::read_to_string(stage.path("mark")).unwrap_or_default();
    let mut runs = BTreeMap::new();
    // A line that is still being written has no line feed.
    for line in text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        let second: i64 = line.parse().expect("a node is called after its second");
        *runs.entry(second).or_default() += 1;
    }
    runs
}

/// The scheduler is killed, and returns when the lifetimes of all given times are over.
#[test]
fn each_second_has_its_node_once_though_the_scheduler_is_killed() {
    let stage = Stage::new();
    let spec = stage
        .calm_spec(&write_config(&stage))
        // The worker stays, with its unacknowledged completions.
        .with("--lose-unhealthy-worker-after=10m");
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    let first = wall_seconds();
    wait_within(PATIENCE, "the tasks of some seconds", || {
        let last = *runs(&stage).last_key_value()?.0;
        (last >= first + 3).then_some(())
    });

    // The kill must not come between a time and its task. A given task that has not started when its lifetime ends never starts.
    wait_within(PATIENCE, "the task of this very second", || {
        let now = wall_seconds();
        if !runs(&stage).contains_key(&now) {
            return None;
        }
        scheduler.signal_program(Signal::SIGSTOP);
        if wall_seconds() == now {
            return Some(());
        }
        scheduler.signal_program(Signal::SIGCONT);
        None
    });
    scheduler.kill_program();
    let killed = wall_seconds();
    let down = i64::try_from(LIFETIME.as_secs()).expect("a short time") + 3;
    wait_within(PATIENCE, "the lives of all times to be over", || {
        (wall_seconds() > killed + down).then_some(())
    });
    let before = runs(&stage);
    let _scheduler = stage.start_scheduler(&spec);
    let back = wall_seconds();
    let all = wait_within(PATIENCE, "the tasks of all seconds since", || {
        let runs = runs(&stage);
        (first..=back + 2)
            .all(|second| runs.contains_key(&second))
            .then_some(runs)
    });
    let again: Vec<_> = all.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        again.is_empty(),
        "more than once: {again:?}; before the kill: {before:?}"
    );
    // The tasks of missed times ran late, and not before.
    assert!((killed + 3..killed + down).all(|second| !before.contains_key(&second)));
}

/// Returns whether the config in force is a kept copy, and since when it is in force, as `status` shows.
fn kept(client: &Client) -> (Option<bool>, Option<i64>) {
    let status = client.wait_until("a configuration", |status| status.config.is_some());
    let config = status.config.expect("it was waited for");
    (config.is_kept, config.since_ms)
}

fn shown(stage: &Stage, port: u16) -> String {
    let address = format!("127.0.0.1:{port}");
    let finished = stage.brasserie(&["status", "--scheduler", &address]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.output
}

#[test]
fn the_last_good_file_decides_until_the_file_is_good_again() {
    let stage = Stage::new();
    let file = stage.write_work(2, Duration::ZERO);
    let good = std::fs::read_to_string(&file).expect("it was written");
    // An unknown key, which only `--strict-config` refuses.
    let good = good.replace("\"owner\": \"test\"", "\"owner\": \"test\", \"prio\": 5");
    std::fs::write(&file, &good).expect("one's own file");
    let spec = stage.calm_spec(&file);
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_all_done();
    let (is_kept, since) = kept(&client);
    assert_eq!(is_kept, Some(false));
    assert!(!shown(&stage, spec.port).contains("kept"));

    // First the file is broken, then it is deleted.
    let break_it: [&dyn Fn(); 2] = [
        &|| std::fs::write(&file, "{ not json").expect("one's own file"),
        &|| std::fs::remove_file(&file).expect("one's own file"),
    ];
    for break_it in break_it {
        scheduler.kill_program();
        break_it();
        scheduler = stage.start_scheduler(&spec);
        let status = client.wait_all_done();
        assert_eq!(kept(&client), (Some(true), since));
        let errors = status.errors.unwrap_or_default().join("\n");
        assert!(errors.contains("last good config"), "{errors}");
        let shown = shown(&stage, spec.port);
        for part in ["kept by an earlier scheduler", "last good config"] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    // The flag `--strict-config` makes unknown keys in the kept copy errors too.
    scheduler.kill_program();
    let strict = spec.clone().with("--strict-config");
    scheduler = stage.start_scheduler(&strict);
    let status = client.wait_until("errors", |status| {
        status
            .errors
            .as_ref()
            .is_some_and(|errors| !errors.is_empty())
    });
    assert_eq!(status.config, None);
    let errors = status.errors.unwrap_or_default().join("\n");
    assert!(errors.contains("prio: unknown key"), "{errors}");

    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    client.wait_all_done();
    std::fs::write(&file, &good).expect("one's own file");
    client.wait_until("the file", |status| {
        status
            .config
            .as_ref()
            .is_some_and(|config| config.is_kept == Some(false))
    });
    assert_eq!(
        kept(&client),
        (Some(false), since),
        "the same text as before"
    );
}

#[test]
fn status_names_both_places_of_equal_names_that_a_script_gives() {
    let stage = Stage::new();
    let script = stage.write("files.sh", "#!/bin/sh\necho same\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("one's own file");
    let config = json!({
        "bistro_settings": { "nodes": { "levels": ["folder", "file"], "node_sources": [
            { "source": "manual", "prefs": { "a": [], "b": [] } },
            { "source": "script", "prefs": { "parent_level": "folder", "script": "./files.sh" } }
        ] } },
        "bistro_job->work": { "command": ["/bin/true"] }
    });
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    Client::new(spec.port).wait_until("an error", |status| {
        !status.errors.as_deref().unwrap_or_default().is_empty()
    });
    let shown = shown(&stage, spec.port);
    let error = "the name \"same\" occurs twice at level `file`: under \"a\" and under \"b\"; set \"names\": \"path\"";
    assert!(shown.contains(error), "{shown}");
}
