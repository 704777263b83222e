//! Tests programs as services: their notifications to a service manager, which tasks cannot reach, and draining workers.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;

use integration_tests::e2e::{Client, PATIENCE, Stage, wait_for};
use nix::sys::signal::Signal;

/// A fake service manager that records notifications.
struct Manager {
    socket: UnixDatagram,
    address: String,
}

impl Manager {
    fn new(name: &str) -> Self {
        let unique = format!("brasserie-e2e-{}-{name}", std::process::id());
        let place = SocketAddr::from_abstract_name(&unique).expect("a short name");
        let socket = UnixDatagram::bind_addr(&place).expect("a free name");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a time that is not zero");
        Manager {
            socket,
            address: format!("@{unique}"),
        }
    }

    /// Makes this the service manager of a program, with a watchdog notification once a second.
    fn of(&self, mut command: Command) -> Command {
        command
            .env("NOTIFY_SOCKET", &self.address)
            .env("WATCHDOG_USEC", "2000000");
        command
    }

    /// Receives notifications until one contains this text, and returns all of them.
    fn until(&self, wanted: &str) -> Vec<String> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let length = self.socket.recv(&mut buffer);
            let length = length.unwrap_or_else(|error| panic!("no `{wanted}`: {error}; {all:?}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let is_wanted = text.contains(wanted);
            all.push(text);
            if is_wanted {
                return all;
            }
        }
    }
}

#[test]
fn a_service_manager_hears_of_readiness_life_and_end_and_tasks_do_not_reach_it() {
    let stage = Stage::new();
    let config = stage.write(
        "config.json",
        r#"{
            "bistro_settings": {
                "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "n": [] } }] },
                "backoff": ["fail"]
            },
            "bistro_job->look": {
                "command": ["/bin/sh", "-c", "test -z \"$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID\""],
                "arguments": "none"
            }
        }"#,
    );
    let spec = stage.calm_spec(&config);
    let of_scheduler = Manager::new("scheduler");
    let command = of_scheduler.of(stage.scheduler_command(&spec));
    let mut scheduler = stage.start("scheduler", command);
    let first = of_scheduler.until("READY=1");
    assert!(
        first
            .last()
            .is_some_and(|said| said.contains("takes calls at 127.0.0.1:"))
    );
    // A ready program answers calls.
    let client = Client::new(spec.port);
    assert!(client.status().is_some(), "it is ready and does not answer");

    let of_worker = Manager::new("worker");
    let command = of_worker.of(stage.worker_command(&stage.worker_spec("one", &spec)));
    let mut worker = stage.start("worker", command);
    of_worker.until("READY=1");
    of_worker.until("STATUS=healthy");
    client.wait_all_done();
    of_worker.until("WATCHDOG=1");
    of_scheduler.until("WATCHDOG=1");

    worker.signal(Signal::SIGTERM);
    of_worker.until("STOPPING=1");
    assert_eq!(worker.wait().code(), Some(0));
    scheduler.signal(Signal::SIGTERM);
    of_scheduler.until("STOPPING=1");
    assert_eq!(scheduler.wait().code(), Some(0));
}

/// Returns whether the scheduler shows the worker as draining.
fn drains(client: &Client) -> Option<()> {
    let status = client.status()?;
    let mut workers = status.workers.into_iter().flatten();
    let draining = workers.any(|worker| {
        let waits = worker.waits_for.unwrap_or_default();
        worker.state.as_deref() == Some("draining") && waits.contains("it drains")
    });
    draining.then_some(())
}

#[test]
fn a_worker_that_drains_ends_with_its_tasks_and_gets_no_more() {
    let stage = Stage::new();
    let config = stage.write_work(4, Duration::ZERO);
    stage.hold();
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let mut one = stage.worker_spec("one", &spec);
    one.flags.push("--on-sigterm=drain".to_owned());
    let mut draining = stage.start_worker(&one);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });

    draining.signal(Signal::SIGTERM);
    wait_for("the scheduler to know", || drains(&client));
    let running = stage.alive();
    let mut all = (1..=4).map(|n| format!("n{n}"));
    let waiting = all.find(|node| !running.contains(node));
    let waiting = waiting.expect("two of four run");
    let address = format!("127.0.0.1:{}", spec.port);
    let why = stage.brasserie(&["explain", "work", &waiting, "--scheduler", &address]);
    assert!(why.output.contains("1 draining"), "{}", why.output);
    assert!(draining.ended().is_none(), "its tasks have not ended");

    stage.release();
    assert_eq!(draining.wait().code(), Some(0));
    let records = stage.records();
    assert_eq!((records.runs.len(), records.finished()), (2, 2));

    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    client.wait_all_done();
    let records = stage.records();
    assert!(records.starts().values().all(|&count| count == 1));
    assert_eq!(records.finished(), 4);
}

#[test]
fn the_command_line_drains_a_worker_and_waits_until_it_has_left() {
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    stage.hold();
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let mut worker = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    let address = format!("127.0.0.1:{}", spec.port);
    let drain = |arguments: &[&str]| {
        let flag = ["worker", "drain", "--scheduler", &address];
        stage.brasserie(&[&flag[..], arguments].concat())
    };

    let unknown = drain(&["two"]);
    assert_eq!(unknown.code, Some(1), "{}", unknown.output);
    let known = "the scheduler knows no worker `two`; it knows one";
    assert!(unknown.output.contains(known), "{}", unknown.output);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drain(&["one", "--wait", "--json"]));
        wait_for("the scheduler to know", || drains(&client));
        let again = drain(&["one"]);
        assert_eq!(again.code, Some(0), "{}", again.output);
        let sentence = "Worker `one` drains, and then exits: 2 tasks still run on it.";
        assert!(again.output.contains(sentence), "{}", again.output);
        assert!(worker.ended().is_none(), "its tasks have not ended");
        stage.release();
        let left = waiting.join().expect("the command ends");
        assert_eq!(left.code, Some(0), "{}", left.output);
        let document: serde_json::Value = serde_json::from_str(&left.output).expect("JSON");
        assert_eq!(
            document,
            serde_json::json!({"worker": "one", "running": 2, "only_there": 0, "left": true})
        );
    });
    assert_eq!(worker.wait().code(), Some(0));
    assert_eq!(stage.records().finished(), 2);
    let log = worker.output();
    assert!(log.contains("requested_by=127.0.0.1:"), "{log}");
}

#[test]
fn a_drain_that_waits_says_once_that_the_scheduler_does_not_answer() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    stage.hold();
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_for("a task to run", || {
        (stage.records().runs.len() == 1).then_some(())
    });
    let address = format!("127.0.0.1:{}", spec.port);
    let drain = ["worker", "drain", "one", "--wait", "--scheduler", &address];
    let mut drain = stage.start_brasserie(&drain);
    drain.wait_for_output("1 task still runs on it");
    scheduler.kill_program();
    drain.wait_for_output("; trying again");
    let _scheduler = stage.start_scheduler(&spec);
    stage.release();
    assert_eq!(drain.wait().code(), Some(0), "{}", drain.output());
    let output = drain.output();
    assert!(output.contains("Worker `one` has left."), "{output}");
    let mut complaints: Vec<&str> = output.lines().filter(|l| l.contains("; trying")).collect();
    let count = complaints.len();
    complaints.dedup();
    assert_eq!(complaints.len(), count, "{output}");
}

#[test]
fn a_drain_ends_with_its_timeout_or_a_second_signal() {
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::from_secs(1000));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let mut impatient = stage.worker_spec("impatient", &spec);
    let drain = ["--on-sigterm=drain", "--drain-timeout=500ms"];
    impatient.flags.extend(drain.map(str::to_owned));
    let mut worker = stage.start_worker(&impatient);
    let runs = |count| {
        wait_for("tasks to run", || {
            (stage.records().runs.len() >= count).then_some(())
        });
    };
    runs(2);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait().code(), Some(0));
    assert!(stage.alive().is_empty(), "{:?}", stage.alive());

    let mut patient = stage.worker_spec("patient", &spec);
    patient.flags.push("--on-sigterm=drain".to_owned());
    let mut worker = stage.start_worker(&patient);
    runs(4);
    worker.signal(Signal::SIGTERM);
    worker.wait_for_output("draining");
    // Two signals within a second count as one; the second request may come at any time after that.
    wait_for("its end", || {
        worker.signal(Signal::SIGTERM);
        worker.ended()
    });
    assert!(stage.alive().is_empty(), "{:?}", stage.alive());
}
