//! Tests other Thrift libraries against the programs of this project. They use the IDL only.

use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::e2e::{Client, SchedulerSpec, Stage, TestAuthority, python_with_packages};
use serde_json::json;

const JOB: &str = "borrowed";
const NODE: &str = "n1";
const COMMAND: [&str; 2] = ["/bin/echo", "never_run_here"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn idl() -> PathBuf {
    folder("../thrift/idl")
}

fn config(stage: &Stage) -> PathBuf {
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "manual", "prefs": { NODE: {} } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 2 } } }
        },
        "bistro_job->borrowed": {
            "owner": "python",
            "priority": 2.5,
            "resources": { "slots": 1 },
            "backoff": [1, 2, "repeat"],
            "config": { "answer": 42 },
            "kill_subprocess": { "method": "term_wait_kill", "kill_wait_ms": 10 },
            "command": COMMAND
        }
    });
    stage.write("config.json", &format!("{config:#}"))
}

/// Whether the scheduler asks its peers for proofs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nobody,
    /// It has an authority, and `--plain-loopback`.
    OtherMachines,
}

/// Starts a scheduler, and a Python program that makes every call and acts as a worker.
fn meets_a_stranger(
    script: &str,
    protocol: &str,
    asks: Asks,
    interface: impl Fn(&Stage) -> PathBuf,
) {
    let stage = Stage::new();
    // The Python worker is not restarted, so it must not be lost if a busy machine delays it by a second.
    let mut spec: SchedulerSpec = stage
        .scheduler_spec(&config(&stage))
        .with("--new-cluster")
        .with("--lose-unhealthy-worker-after=30s");
    if asks == Asks::OtherMachines {
        spec = spec.with("--plain-loopback");
        TestAuthority::give(&spec);
    }
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("the nodes to be loaded", |status| {
        status.nodes_loaded == Some(true)
    });

    let python = python_with_packages().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(python);
    command
        // Ignores variables and packages of the user. Only the virtual environment and the script's folder are used.
        .args(["-E", "-s"])
        .arg(folder("python").join(script))
        .arg("--idl")
        .arg(interface(&stage))
        .args([
            "--scheduler",
            &spec.port.to_string(),
            "--job",
            JOB,
            "--node",
            NODE,
            "--protocol",
            protocol,
        ])
        .args(["--command", &COMMAND.join(" ")])
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let finished = stage.finish("python", command);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    assert!(
        finished.output.contains("all as expected"),
        "{}",
        finished.output
    );
    client.wait_all_done();
}

/// Runs the Apache compiler on the IDL, and returns the folder of the generated code.
fn generated_python(stage: &Stage) -> PathBuf {
    let out = stage.path("generated");
    std::fs::create_dir(&out).expect("a folder in a temporary folder");
    for file in ["scheduler.thrift", "worker.thrift"] {
        let mut command = Command::new("thrift");
        command
            .args(["-r", "--gen", "py", "-out"])
            .arg(&out)
            .arg("-I")
            .arg(idl())
            .arg(idl().join(file));
        let finished = stage.finish("thrift", command);
        assert_eq!(finished.code, Some(0), "{}", finished.output);
    }
    out
}

#[test]
fn thriftpy2_over_framed_compact() {
    meets_a_stranger("thriftpy2_peer.py", "compact", Asks::Nobody, |_| idl());
}

#[test]
fn thriftpy2_over_framed_binary() {
    meets_a_stranger("thriftpy2_peer.py", "binary", Asks::Nobody, |_| idl());
}

#[test]
fn apache_python_over_the_header_transport_with_compact() {
    meets_a_stranger("apache_peer.py", "compact", Asks::Nobody, generated_python);
}

#[test]
fn apache_python_over_the_header_transport_with_binary() {
    meets_a_stranger("apache_peer.py", "binary", Asks::Nobody, generated_python);
}

#[test]
fn thriftpy2_at_a_scheduler_with_an_authority_and_plain_loopback() {
    meets_a_stranger("thriftpy2_peer.py", "compact", Asks::OtherMachines, |_| {
        idl()
    });
}

#[test]
fn apache_python_at_a_scheduler_with_an_authority_and_plain_loopback() {
    let asks = Asks::OtherMachines;
    meets_a_stranger("apache_peer.py", "binary", asks, generated_python);
}
